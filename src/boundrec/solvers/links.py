"""Links from what is known of rows to where their prior expects them: x_i ~ N(m + Bᵀf_i, P⁻¹) within the ball.

Every row has features f_i (who or what it is, or simply whom it rated), and a matrix B, the link, moves the mean of its
prior with them (Macau, Simm et al. 2015). Only the linear part of a row's conditional changes, P m becomes
P(m + Bᵀf_i): every draw and every mean stays in the ball. B has the prior N(0, (λP)⁻¹), with a λ of its own for every
group of features, and given the rows

    (FᵀF + Λ) B = Fᵀ(X − m + E₁) + Λ^½ E₂,   rows of E₁ and E₂ ~ N(0, P⁻¹)

is a draw of it (:mod:`boundrec.solvers.normal_equations` solves the system).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array, diags_array

from boundrec.arrays import Bools, Floats
from boundrec.solvers.normal_equations import TOLERANCE, NormalEquations, Sparse
from boundrec.solvers.threads import RowPool, product

#: The λ that links start from: as strong as so many rows.
FIRST_STRENGTH = 5.0


class LinkDraw(NamedTuple):
    """B as it was drawn, the strength of each group, and where each group moves the rows with ratings on average.

    With sets, there are rows of which these are not known. ``alone`` then is what features say of such a row: their own
    part of B, and what they let expect of its set. ``spread`` is the covariance of where sets move rows.
    """

    matrix: Floats
    strength: Floats
    typical: Floats
    alone: Floats | None = None
    spread: Floats | None = None

    def of_type(self, dtype: Any) -> LinkDraw:
        """The same with its matrices as a model keeps them."""
        alone = None if self.alone is None else self.alone.astype(dtype)
        return self._replace(matrix=self.matrix.astype(dtype), alone=alone)


class Links:
    """The features of a side's rows, and the link that is drawn for them.

    Parameters
    ----------
    features
        F, a row for each row of the side.
    groups
        How many features each group has; every group has a strength λ of its own.
    rated
        The rows with ratings, from which alone the link is learnt.
    width
        How many coordinates a row has.
    sets
        Whether the last group is of sets, of which nothing is known of rows without ratings.
    """

    def __init__(
        self, features: csr_array, groups: Sequence[int], rated: Bools, width: int, sets: bool = False
    ) -> None:
        self.rated, self._groups = rated, np.asarray(groups)
        learnt_from = features if rated.all() else features[rated]
        rows = Sparse.of(learnt_from)
        self._all = rows if rated.all() else Sparse.of(features)
        n = features.shape[1]
        self._system = NormalEquations(rows, n)
        self._group = np.repeat(np.arange(len(groups)), groups)
        n_told = n - groups[-1] if sets else n
        self._weights = telling(learnt_from[:, n_told:]) if sets else np.ones(learnt_from.shape[0])
        self._means = learnt_from.T @ self._weights / max(len(self._weights), 1)
        self.sets, self._n_told, self._regression = sets, n_told, None
        if sets and n_told:
            self._told = Sparse.of(features[:, :n_told])
            weighed = csr_array(diags_array(np.sqrt(self._weights)) @ learnt_from[:, :n_told])
            self._regression = NormalEquations(Sparse.of(weighed), n_told)
        #: The matrix is replaced, never written to: where it moves rows is kept beside it.
        self.strength, self.matrix = np.full(len(groups), FIRST_STRENGTH), np.zeros((n, width))
        self._moved = self.matrix, np.zeros((features.shape[0], width))

    def shifts(self, pool: RowPool) -> Floats:
        """F B: where the link moves the prior mean of each row."""
        matrix, moved = self._moved
        if matrix is not self.matrix:
            moved = self._all.times(self.matrix, pool)
            self._moved = self.matrix, moved
        return moved

    def shifts_alone(self, draw: LinkDraw, pool: RowPool) -> Floats:
        """With sets: where features alone move the prior mean of each row beside that of a typical one."""
        if draw.alone is None or not len(draw.alone):
            return np.zeros((len(self.rated), self.matrix.shape[1]))
        return np.asarray(self._told.times(draw.alone, pool) - draw.typical[:-1].sum(axis=0))

    def drawn(self, pool: RowPool) -> LinkDraw:
        """What was drawn last."""
        moved = self._means[:, None] * self.matrix
        typical = np.array([np.einsum("fi->i", moved[self._group == one]) for one in range(len(self._groups))])
        draw = LinkDraw(self.matrix, self.strength, typical)
        return self._with_unknown_sets(draw, pool) if self.sets else draw

    def _with_unknown_sets(self, draw: LinkDraw, pool: RowPool) -> LinkDraw:
        """What features let expect of rows whose sets are not known, and what they leave open.

        Where sets move the rated rows is regressed on the features, for these may go with the sets: then they say more
        of a row without a set than of one with it.
        """
        by_sets, alone = self.shifts(pool)[self.rated], self.matrix[: self._n_told]
        if self._regression is not None:
            by_sets -= self._told.times(alone, pool)[self.rated]
        by_sets = np.sqrt(self._weights)[:, None] * (by_sets - draw.typical[-1])
        spread = product(by_sets.T, by_sets) / max(len(by_sets), 1)
        if self._regression is not None:
            right = self._regression.columns.times(by_sets, pool)
            alone = alone + self._regression.solved(right, np.full(self._n_told, FIRST_STRENGTH), pool)
        return draw._replace(alone=alone, spread=spread)

    def scatter(self) -> tuple[Floats, int]:
        """Λ-weighted BᵀB, which is what the link's prior says of P, and the number of features behind it."""
        weighed = self._each()[:, None] * self.matrix
        return product(weighed.T, self.matrix), len(self.matrix)

    def redraw(self, apart: Floats, precision: Floats, pool: RowPool, rng: np.random.Generator) -> None:
        """Draw B given the rated rows less the prior's mean, X − m, and P; then the strengths given B."""
        root: Floats = np.linalg.cholesky(precision).astype(np.float64, copy=False)
        noise = _coloured(root, rng.standard_normal(apart.shape))
        right = self._system.columns.times(apart + noise, pool)
        right += np.sqrt(self._each())[:, None] * _coloured(root, rng.standard_normal(self.matrix.shape))
        self.matrix = self.solved(right, pool)
        sizes = np.einsum("fi,fi->f", product(self.matrix, precision), self.matrix)
        totals = np.bincount(self._group, sizes, minlength=len(self._groups))
        shape = (self._groups * precision.shape[0] + 2) / 2
        self.strength = rng.gamma(shape) / ((totals + 2) / 2)

    def solved(self, right: Floats, pool: RowPool, tolerance: float = TOLERANCE) -> Floats:
        """The solution of (FᵀF + Λ) B = right."""
        return self._system.solved(right, self._each(), pool, tolerance)

    def _each(self) -> Floats:
        """The strength of each feature."""
        return np.asarray(self.strength[self._group])


def telling(sets: csr_array) -> Floats:
    """What each row counts where somebody typical is made of all: n/(n + the mean of n), and 1 on average.

    Sets of one or two say next to nothing of tastes, but much of how few care; and those whom people will meet, and
    rate, are more like those with many ratings than like a row taken at random.
    """
    n = np.diff(sets.indptr).astype(np.float64)
    counts = n / np.maximum(n + n.sum() / max(n.size, 1), 1.0)
    return np.asarray(counts * n.size / max(counts.sum(), np.finfo(float).tiny))


def _coloured(root: Floats, noise: Floats) -> Floats:
    """Rows of N(0, P⁻¹) from standard normal ones, P = L Lᵀ."""
    return product(noise, np.linalg.inv(root))
