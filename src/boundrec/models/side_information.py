"""What a model knows besides ratings: features of users and items, and who rated what, as links in the prior of rows.

Of clicks, features are what the penalty draws rows to (:mod:`boundrec.solvers.feature_means`).

Somebody's features are f_i; so is the set of whom they rated, 1/√n_i at each of the n_i (what people choose says more
than how they rate). Only training ratings that count enter a set, and only of those who have several: whoever was rated
once or twice tells nothing of others, and a link for each of them would keep the sampler from moving the prior, for it
is drawn from this. :mod:`boundrec.solvers.links` has the mathematics.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import csr_array, hstack

from boundrec.arrays import Bools, Codes, Floats, ReadOnly, Reals
from boundrec.data.columns import short
from boundrec.data.features import Features, GraphEncoding, read_features
from boundrec.data.ids import IdIndex
from boundrec.data.ratings import Csr, Ratings
from boundrec.notes import warn
from boundrec.solvers.feature_means import Regression
from boundrec.solvers.gibbs import KeptSide
from boundrec.solvers.links import LinkDraw, Links, telling

#: How many ratings somebody has at least who is in sets.
LEAST_RATED = 3
#: Where nobody says whether to have sets: how large they are at least, on average, and how many times as many as there
#: are rows may be in them. Of smaller sets, and with more links to learn from so few rows, a sampler takes too long to
#: find out that they say little.
LEAST_SET, MOST_IN_SETS = 4.0, 10
#: In no set.
NOBODY: Codes = np.empty(0, np.int64)
#: The farthest that a feature of somebody new may be from the mean of the fit, in its spread there.
FARTHEST = 1e6


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
    in_sets
        Which of the other side's rows may be in a set, increasing: those with several ratings at fit. Nobody where
        there are no sets.
    alone
        With sets: what features say of a row whose set is not known, in place of their part of the matrices.
    precisions
        With sets: those of the prior of rows whose sets are known; the model's own prior is for the others.
    """

    matrices: Reals
    typical: Floats
    features: Features | None
    in_sets: Codes
    alone: Reals | None = None
    precisions: Floats | None = None

    @classmethod
    def of(cls, kept: KeptSide, features: Features | None, in_sets: Codes, dtype: Any) -> FittedLinks | None:
        """From what the sampler kept; None where it had no links."""
        draws = kept.links
        if not draws:
            return None
        links = cls(
            np.array([draw.matrix for draw in draws], dtype),
            np.array([draw.typical for draw in draws]),
            features,
            in_sets,
        )
        if not in_sets.size:
            return links
        alone = np.array([draw.alone for draw in draws], dtype)
        return replace(links, alone=alone, precisions=np.array(kept.precisions))

    @classmethod
    def of_regression(cls, found: Regression, features: Features, dtype: Any) -> FittedLinks:
        """From rows of clicks on features: one sample."""
        return cls(found.matrix[None].astype(dtype), found.typical[None, None], features, NOBODY)

    def draws(self) -> list[LinkDraw]:
        """Those of each sample, but for their strengths and spreads, of which nothing is made any more."""
        alone = [None] * len(self.matrices) if self.alone is None else self.alone
        of_each = zip(self.matrices, self.typical, alone, strict=True)
        return [LinkDraw(matrix, np.empty(0), typical, told) for matrix, typical, told in of_each]

    @property
    def n_features(self) -> int:
        """How many features there are beside those of sets."""
        return int(self.matrices.shape[1]) - self.in_sets.size

    def told(self, ids: IdIndex) -> Bools:
        """Who has features."""
        return np.zeros(len(ids), bool) if self.features is None else self.features.rows_for(ids)[1]

    def encoded(self, given: Any, what: str, id_name: str | None) -> Features:
        """Features of ids that come after the fit, made as those of the fit were."""
        assert self.features is not None
        encoding = self.features.encoding
        found = encoding.encode(given, what, id_name)
        if isinstance(encoding, GraphEncoding):  # those whom new ones are linked with keep the neighbours they had
            new = encoding.neighbours.codes(found.ids.ids) < 0
            if not new.any():
                raise ValueError(f"{what} are a graph of nobody new: give the links of ids that were not in it at fit.")
            found = replace(found, ids=IdIndex(found.ids.ids[new]), matrix=found.matrix[new])
        _refuse_far(found, what)
        return found

    def with_features(self, more: Features, ids: IdIndex) -> FittedLinks:
        """The same with what is known of some ids, now or since the fit."""
        assert self.features is not None
        return replace(self, features=self.features.updated(more, ids))

    def without_sets(self) -> FittedLinks | None:
        """The same where the other side has other rows, of which none was there at fit to be in a set."""
        if not self.in_sets.size:
            return self
        if self.features is None:
            return None
        assert self.alone is not None
        return FittedLinks(self.alone, self.typical[:, :1], self.features, NOBODY)

    def usual_features(self, known: csr_array, csr: Csr) -> Floats:
        """The mean of each feature over the rows with ratings, as the fit takes it; ``known`` has those of all rows."""
        rated = counting(csr)
        n_rated = np.count_nonzero(rated)
        weights = telling(rated_sets(csr, self.in_sets)[rated]) if self.in_sets.size else np.ones(n_rated)
        return np.asarray(known[rated].T @ weights / weights.size)

    def expected(self, ids: IdIndex) -> Floats:
        """Of clicks: Bᵀ(f − f̄) of rows with these ids, and 0 of whoever has no features."""
        assert self.features is not None
        known, told = self.features.rows_for(ids)
        moved = known @ self.matrices[0].astype(np.float64) - self.typical[0, 0]
        return np.where(told[:, None], moved, 0.0)

    def shifts(self, ids: IdIndex, csr: Csr) -> Iterator[Floats]:
        """Of each sample: where the prior of rows with these ids and ratings lies, beside that of a typical row.

        Whoever has no features, or no ratings, is typical in that respect. Those who came after the fit are in nobody's
        set.
        """
        parts = []
        if self.features is not None:
            parts.append(self.features.rows_for(ids))
        if self.in_sets.size:
            parts.append((rated_sets(csr, self.in_sets), counting(csr)))
        for matrix, typical in zip(self.matrices, self.typical, strict=True):
            moved, first = np.zeros((len(ids), matrix.shape[1])), 0
            for (known, told), usual in zip(parts, typical, strict=True):
                last = first + known.shape[1]
                moved[told] += (known @ matrix[first:last].astype(np.float64) - usual)[told]
                first = last
            yield moved


def with_features(ratings: Ratings, given: Mapping[str, Any]) -> tuple[Ratings, dict[str, Features]]:
    """Features of "user" and "item" as they are read, and the ratings with rows for everybody who has some."""
    found, index = {}, {"user": ratings.users, "item": ratings.items}
    for kind, features in given.items():
        if features is not None:
            name = None if ratings.names is None else ratings.names[kind == "item"]
            read = read_features(features, f"{kind}_features", name, index[kind])
            for note in read.notes:
                warn(note)
            found[kind] = read
            index[kind] = index[kind].extended(read.ids)
    return ratings.with_more_ids(index["user"], index["item"]), found


def _refuse_far(features: Features, what: str) -> None:
    """Refuse numbers so far from those of the fit that nothing was learnt about the like."""
    entries = features.matrix.tocoo()
    far = ~(np.abs(entries.data) <= FARTHEST)
    if far.any():
        first = int(far.argmax())
        one, name = features.ids.ids.item(entries.row[first]), features.names[entries.col[first]]
        raise ValueError(
            f"{what} have {entries.data[first]:.3g} for {name!r} of {short(one)}, in units of its spread at fit, where "
            f"{FARTHEST:.0g} is the most: give it in the unit that it had then."
        )


def links_of(ids: IdIndex, csr: Csr, features: Features | None, in_sets: Codes, width: int) -> Links | None:
    """The links of a side that is to be fitted; None where nothing is known of its rows.

    Parameters
    ----------
    ids, csr
        The side's rows and their ratings.
    features
        What is known of them.
    in_sets
        Which of the other side's rows may be in the sets; nobody where these are not wanted.
    width
        How many coordinates a row has.
    """
    parts = [] if features is None else [features.rows_for(ids)[0]]
    if in_sets.size:
        parts.append(rated_sets(csr, in_sets))
    if not parts:
        return None
    groups = [part.shape[1] for part in parts]
    features_and_sets = parts[0] if len(parts) == 1 else csr_array(hstack(parts, format="csr"))
    return Links(features_and_sets, groups, counting(csr), width, in_sets.size > 0)


def counting(csr: Csr) -> Any:
    """Which rows have a rating that counts."""
    return csr.row_weights() > 0


def well_rated(csr: Csr, n_columns: int) -> Codes:
    """Which columns have so many ratings that count that they are in sets."""
    counts = np.bincount(csr.indices[csr.that_count()], minlength=n_columns)
    return np.flatnonzero(counts >= LEAST_RATED)


def worth_having(csr: Csr, in_sets: Codes) -> bool:
    """Whether sets of these are large enough, and have rows enough to be learnt from."""
    n_rows = np.count_nonzero(counting(csr))
    n_in_sets = np.count_nonzero(places_in_sets(csr, in_sets) >= 0) if in_sets.size else 0
    return bool(n_in_sets >= LEAST_SET * n_rows and in_sets.size <= MOST_IN_SETS * n_rows)


def places_in_sets(csr: Csr, in_sets: Codes) -> Codes:
    """Where the rated one of each entry stands among those in sets; −1 for others, and ratings that do not count."""
    places = np.minimum(np.searchsorted(in_sets, csr.indices), in_sets.size - 1)
    return np.where((in_sets[places] == csr.indices) & csr.that_count(), places, -1)


def rated_sets(csr: Csr, in_sets: Codes) -> csr_array:
    """1/√n at each of the n that a row has rated, of those in sets; a column for each of these."""
    places, rows, n_rows = places_in_sets(csr, in_sets), csr.row_of_entry(), len(csr.indptr) - 1
    kept = places >= 0
    sizes = np.bincount(rows[kept], minlength=n_rows)
    values = 1.0 / np.sqrt(sizes[rows[kept]])
    indptr = np.concatenate(([0], np.cumsum(sizes)))
    return csr_array((values, places[kept].astype(np.int32), indptr), shape=(n_rows, in_sets.size))
