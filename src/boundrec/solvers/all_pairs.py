"""Least squares over all pairs of users and items, those that nobody chose included, with both sides in a ball.

    F = Σ_obs c_ij (1 − w_i·h_j)² + α Σ_all p_j (w_i·h_j)²
        + λ [Σ_i (α Σp + n_i)‖w_i‖² + Σ_j (α p_j N + n_j)‖h_j‖²]      ‖w_i‖ ≤ r, ‖h_j‖ ≤ r

where n_i = Σ_j c_ij, and N counts the users who chose something. The sum over all pairs is a quadratic form of one
Gram matrix, the same for every row: A_i = Σ_obs c hhᵀ + α HᵀD_pH + λ(α Σp + n_i)I of a user, and
A_j = Σ_obs c wwᵀ + α p_j WᵀW + λ(α p_j N + n_j)I of an item. A half-step costs what the observations cost.

Where features tell of a side, its rows are drawn to what these say instead of to 0: ‖w_i‖² in the penalty is
‖w_i − m_i‖², and the regression that m_i come from (:mod:`boundrec.solvers.feature_means`) adds its own penalty. A row
then solves A_i w = Σ_obs c h + λ_i m_i in the ball.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from boundrec.arrays import Floats, Reals
from boundrec.data.ratings import Csr
from boundrec.solvers import Learned, Sweep, in_eights
from boundrec.solvers.feature_means import FeatureMeans, Regression
from boundrec.solvers.threads import RowPool, one_blas_thread


@dataclass(frozen=True)
class AllPairs:
    """What F weighs beside the observations: α, λ, p of each item (0 of those that nobody chose), N, and the ball's r.

    Inside a half-step a side weighs its own rows (of users 1, of items p_j) and is weighed by the other side.
    """

    unobserved_weight: float
    ridge: float
    popularity: Floats
    n_users: int
    radius: float = 1.0

    def weights(self, kind: str, n_rows: int) -> Floats:
        """How much the unobserved pairs of each row of a side count, of a "user" or of an "item"."""
        return np.ones(n_rows) if kind == "user" else self.popularity

    def gram(self, kind: str, factors: Reals) -> Floats:
        """Σ p h hᵀ over the rows of a side: what the other side's rows are solved with."""
        rows = factors.astype(np.float64, copy=False)
        weighed = rows if kind == "user" else rows * self.popularity[:, None]
        with one_blas_thread():
            return np.asarray(weighed.T @ rows)

    def counts(self, kind: str, csr: Csr, weights: Floats) -> Floats:
        """What each row counts: its observations, and all of its pairs by what they do."""
        total = float(self.popularity.sum()) if kind == "user" else float(self.n_users)
        return self.unobserved_weight * weights * total + csr.row_weights()

    def own(self, kind: str, csr: Csr, weights: Floats) -> Floats:
        """Of each row what multiplies the Gram matrix, and its ridge."""
        return np.column_stack([self.unobserved_weight * weights, self.ridge * self.counts(kind, csr, weights)])


def drawn_to(own: Floats, means: Floats) -> Floats:
    """What `AllPairs.own` has of each row, and where features draw it to."""
    return np.column_stack([own, own[:, 1:2] * means])


def solve_rows(
    problem: AllPairs, own: Floats, csr: Csr, rows: Reals, fixed: Reals, gram: Floats, pool: RowPool
) -> Reals:
    """Rows of a side, each at the global minimum of its own quadratic; ``own`` is `AllPairs.own`, or `drawn_to`."""
    from boundrec.solvers.kernels import solve_rows_all_pairs

    n_factors = fixed.shape[1]
    found, features, square = in_eights(rows.copy()), in_eights(fixed), _square_in_eights(gram)
    radius, width = float(problem.radius), features.shape[1]
    pool.run(solve_rows_all_pairs, csr.indptr, csr, features, square, own, radius, found, width=width)
    return np.ascontiguousarray(found[:, :n_factors])


def _square_in_eights(gram: Floats) -> Floats:
    """A Gram matrix for such rows: the unknowns that are added stay 0, and are as well determined as the others."""
    n = len(gram)
    square = np.pad(gram, (0, -n % 8))
    np.fill_diagonal(square[n:, n:], np.trace(gram) / n)
    return square


@dataclass(frozen=True)
class LearnedFromAll(Learned):
    """The factors of both sides and, by "user" and "item", what the regression on features has found of a side."""

    means: Mapping[str, Regression] = field(default_factory=dict)


class AllPairsAlternation:
    """Solves every item's row, then every user's, for ever; ratings are ones, weighted by c.

    ``means`` has the regressions of the sides with features. Each comes before the half-step of its side, which so is
    what ends a sweep: whoever is solved once more, by the same features, keeps their row.
    """

    def __init__(
        self,
        problem: AllPairs,
        sides: tuple[Csr, Csr],
        starts: tuple[Reals, Reals],
        pool: RowPool,
        means: Mapping[str, FeatureMeans] | None = None,
    ) -> None:
        self._problem, self._pool, self._means = problem, pool, means or {}
        self._by_user, self._by_item = sides
        self.users, self.items = starts

    def sweeps(self) -> Iterator[Sweep]:
        """The objective after each sweep."""
        problem, by_user, by_item = self._problem, self._by_user, self._by_item
        of_users = problem.own("user", by_user, problem.weights("user", len(self.users)))
        of_items = problem.own("item", by_item, problem.weights("item", len(self.items)))
        gram = problem.gram("user", self.users)
        while True:
            self.items, of_them = self._half_step("item", by_item, of_items, self.items, self.users, gram)
            among_items = problem.gram("item", self.items)
            self.users, penalty = self._half_step("user", by_user, of_users, self.users, self.items, among_items)
            gram = problem.gram("user", self.users)
            unobserved = problem.unobserved_weight * float(np.sum(gram * among_items))
            yield Sweep(self._observed() + unobserved + (penalty + of_them))

    def _half_step(
        self, kind: str, csr: Csr, own: Floats, rows: Reals, fixed: Reals, gram: Floats
    ) -> tuple[Reals, float]:
        """The rows of a side, drawn to what features say, if any do; and their penalty."""
        problem, pool, regression = self._problem, self._pool, self._means.get(kind)
        if regression is None:
            found = solve_rows(problem, own, csr, rows, fixed, gram, pool)
            return found, _size(found, own)
        regression.regress(rows, pool)
        means = regression.expected(pool)
        found = solve_rows(problem, drawn_to(own, means), csr, rows, fixed, gram, pool)
        return found, _size(found - means, own) + problem.ridge * regression.penalty()

    def _observed(self) -> float:
        """Σ c (1 − w·h)² over the observations."""
        from boundrec.solvers.kernels import squared_errors

        errors = np.empty(len(self.users))
        self._pool.run(squared_errors, self._by_user.indptr, self._by_user, self.users, self.items, errors)
        return float(errors.sum())

    def result(self) -> LearnedFromAll:
        """The factors of both sides, and what features say of them."""
        return LearnedFromAll(self.users, self.items, means={kind: one.found for kind, one in self._means.items()})


def _size(rows: Reals, own: Floats) -> float:
    """Σ_i λ_i ‖w_i‖²."""
    return float(np.einsum("ij,ij->i", rows, rows, dtype=np.float64) @ own[:, 1])
