"""Where features say that rows lie, m_i = Bᵀ(f_i − f̄): the ridge regression of the rows on what is known of them.

    min over B of  Σ_i n_i ‖w_i − Bᵀ(f_i − f̄)‖² + ρ‖B‖²,      ρ = STRENGTH · the mean of n_i‖f_i‖²

over the rows that have both features and observations; n_i is what a row counts, and f̄ is the mean of f_i by that. So
features move a row beside what it would be without them, and on average they move nobody. Features are never centred,
which would fill a sparse matrix: the same B is found beside a column of ones without penalty, which takes up the mean
of the rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array, diags_array, hstack

from boundrec.arrays import Bools, Floats, Reals
from boundrec.solvers.normal_equations import NormalEquations, Sparse
from boundrec.solvers.threads import RowPool

#: As how many rows the penalty counts, whatever the features are and the unit of these.
STRENGTH = 50.0
#: How closely many features are solved for; each regression goes on from the one before.
TOLERANCE = 1e-4


class Regression(NamedTuple):
    """B, and Bᵀf̄, where features move rows on average."""

    matrix: Floats
    typical: Floats


class FeatureMeans:
    """The regression of one side, which a fit repeats as its rows move.

    Parameters
    ----------
    features
        F, a row for each row of the side.
    told
        Which rows have features.
    counts
        n_i, what each row counts; 0 of rows without observations.
    width
        How many coordinates a row has.
    """

    def __init__(self, features: csr_array, told: Bools, counts: Floats, width: int) -> None:
        self._rows, self._n_rows = np.flatnonzero(told & (counts > 0)), len(counts)
        own, known = counts[self._rows], features[self._rows]
        self._shares, self._roots = own / max(own.sum(), np.finfo(float).tiny), np.sqrt(own)[:, None]
        design = hstack([csr_array(np.ones((own.size, 1))), known], format="csr")
        self._system = NormalEquations(Sparse.of(csr_array(diags_array(self._roots[:, 0]) @ design)), design.shape[1])
        self._usual = known.T @ self._shares
        squares = float(own @ known.power(2).sum(axis=1))
        self._strength = STRENGTH * (squares / own.size if squares else 1.0)
        #: Replaced, never written to.
        self.found = Regression(np.zeros((features.shape[1], width)), np.zeros(width))

    def regress(self, rows: Reals, pool: RowPool) -> None:
        """The minimum over B for these rows or, of many features, a step from the last B towards it."""
        if not self._rows.size:
            return
        those = rows[self._rows].astype(np.float64, copy=False)
        before = np.vstack([np.einsum("i,ik->k", self._shares, those) - self.found.typical, self.found.matrix])
        strengths = np.full(len(before), self._strength)
        strengths[0] = 0.0
        apart = self._roots * those - self._system.rows.times(before, pool)
        right = self._system.columns.times(apart, pool) - strengths[:, None] * before
        B = (before + self._system.solved(right, strengths, pool, TOLERANCE))[1:]
        self.found = Regression(B, np.einsum("f,fk->k", self._usual, B))

    def expected(self, pool: RowPool) -> Floats:
        """m_i of every row that was regressed, and 0 of the others."""
        found = np.zeros((self._n_rows, len(self.found.typical)))
        stacked = np.vstack([-self.found.typical, self.found.matrix])
        found[self._rows] = self._system.rows.times(stacked, pool) / self._roots
        return found

    def penalty(self) -> float:
        """ρ‖B‖²."""
        return self._strength * float(np.einsum("fk,fk->", self.found.matrix, self.found.matrix))
