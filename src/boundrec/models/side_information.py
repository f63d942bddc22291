"""What a model knows besides ratings: features of users and items, and who rated what, as links in the prior of rows.

Somebody's features are f_i; so is the set of whom they rated, 1/√n_i at each of the n_i (what people choose says more
than how they rate). Only training ratings that count enter a set. :mod:`boundrec.solvers.links` has the mathematics.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array, hstack

from boundrec.arrays import Floats, ReadOnly, Reals
from boundrec.data.features import Features
from boundrec.data.ids import IdIndex
from boundrec.data.ratings import Csr
from boundrec.solvers.links import LinkDraw, Links


@dataclass(frozen=True)
class FittedLinks(ReadOnly):
    """The links of one side, as the kept samples have them.

    Parameters
    ----------
    matrices
        B of each sample: samples × features × coordinates, the features of `features` first, then those of sets.
    typical
        Where each group of features moves rows on average: samples × groups × coordinates.
    features
        What is known of ids; None where nothing is.
    n_rated
        How many of the other side's rows may be in a set: those of the fit. 0 where there are no sets.
    """

    matrices: Reals
    typical: Floats
    features: Features | None
    n_rated: int

    @classmethod
    def of(cls, draws: list[LinkDraw], features: Features | None, n_rated: int, dtype: Any) -> FittedLinks | None:
        """From what the sampler kept; None where it had no links."""
        if not draws:
            return None
        matrices = np.array([draw.matrix for draw in draws], dtype)
        return cls(matrices, np.array([draw.typical for draw in draws]), features, n_rated)

    def draws(self) -> list[LinkDraw]:
        """Those of each sample, but for their strengths, of which nothing is made any more."""
        return [LinkDraw(*both[:1], np.empty(0), both[1]) for both in zip(self.matrices, self.typical, strict=True)]

    def shifts(self, ids: IdIndex, csr: Csr) -> Iterator[Floats]:
        """Of each sample: where the prior of rows with these ids and ratings lies, beside that of a typical row.

        Whoever has no features, or no rating of anybody in the sets, is typical in that respect. Rows that came after
        the fit are in nobody's set.
        """
        parts = []
        if self.features is not None:
            parts.append(self.features.rows_for(ids))
        if self.n_rated:
            sets = rated_sets(csr, self.n_rated)
            parts.append((sets, np.diff(sets.indptr) > 0))
        for matrix, typical in zip(self.matrices, self.typical, strict=True):
            moved, first = np.zeros((len(ids), matrix.shape[1])), 0
            for (known, told), usual in zip(parts, typical, strict=True):
                last = first + known.shape[1]
                moved[told] += (known @ matrix[first:last].astype(np.float64) - usual)[told]
                first = last
            yield moved


def links_of(ids: IdIndex, csr: Csr, features: Features | None, n_rated: int, width: int) -> Links | None:
    """The links of a side that is to be fitted; None where nothing is known of its rows.

    Parameters
    ----------
    ids, csr
        The side's rows and their ratings.
    features
        What is known of them.
    n_rated
        How many rows the other side has, where sets of whom they rated are wanted; else 0.
    width
        How many coordinates a row has.
    """
    parts = [] if features is None else [features.rows_for(ids)[0]]
    if n_rated:
        parts.append(rated_sets(csr, n_rated))
    if not parts:
        return None
    return Links(csr_array(hstack(parts, format="csr")), [part.shape[1] for part in parts], counting(csr), width)


def counting(csr: Csr) -> Any:
    """Which rows have a rating that counts."""
    return csr.row_weights() > 0


def rated_sets(csr: Csr, n_columns: int) -> csr_array:
    """1/√n at each of the n that a row has rated; ratings that do not count, and columns past these, are left out."""
    rows, kept = csr.row_of_entry(), csr.indices < n_columns
    if csr.weights.size:
        kept = kept & (csr.weights > 0)
    n_rows = len(csr.indptr) - 1
    sizes = np.bincount(rows[kept], minlength=n_rows)
    values = 1.0 / np.sqrt(sizes[rows[kept]])
    indptr = np.concatenate(([0], np.cumsum(sizes)))
    return csr_array((values, csr.indices[kept], indptr), shape=(n_rows, n_columns))
