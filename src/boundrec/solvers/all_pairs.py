"""Least squares over all pairs of users and items, those that nobody chose included, with both sides in a ball.

    F = Σ_obs c_ij (1 − w_i·h_j)² + α Σ_all p_j (w_i·h_j)²
        + λ [Σ_i (α Σp + n_i)‖w_i‖² + Σ_j (α p_j N + n_j)‖h_j‖²]      ‖w_i‖ ≤ r, ‖h_j‖ ≤ r

where n_i = Σ_j c_ij, and N counts the users who chose something. The sum over all pairs is a quadratic form of one
Gram matrix, the same for every row: A_i = Σ_obs c hhᵀ + α HᵀD_pH + λ(α Σp + n_i)I of a user, and
A_j = Σ_obs c wwᵀ + α p_j WᵀW + λ(α p_j N + n_j)I of an item. A half-step costs what the observations cost.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from boundrec.arrays import Floats, Reals
from boundrec.data.ratings import Csr
from boundrec.solvers import Learned, Sweep
from boundrec.solvers.threads import RowPool


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
        with _controller().limit(limits=1, user_api="blas"):  # more threads change the bits of a product
            return np.asarray(weighed.T @ rows)

    def own(self, kind: str, csr: Csr, weights: Floats) -> Floats:
        """Of each row what multiplies the Gram matrix, and its ridge."""
        total = float(self.popularity.sum()) if kind == "user" else float(self.n_users)
        share = self.unobserved_weight * weights
        return np.column_stack([share, self.ridge * (share * total + csr.row_weights())])


@cache
def _controller() -> Any:
    return ThreadpoolController()


def solve_rows(
    problem: AllPairs, own: Floats, csr: Csr, rows: Reals, fixed: Reals, gram: Floats, pool: RowPool
) -> Reals:
    """Rows of a side, each at the global minimum of its own quadratic; ``own`` is that of `AllPairs.own`."""
    from boundrec.solvers.kernels import solve_rows_all_pairs

    n_factors = fixed.shape[1]
    found, features, square = _in_eights(rows.copy()), _in_eights(fixed), _square_in_eights(gram)
    radius, width = float(problem.radius), features.shape[1]
    pool.run(solve_rows_all_pairs, csr.indptr, csr, features, square, own, radius, found, width=width)
    return np.ascontiguousarray(found[:, :n_factors])


def _in_eights(rows: Reals) -> Reals:
    """Rows with zeros added up to a whole number of eights, in blocks of which the kernel works."""
    missing = -rows.shape[1] % 8
    return np.pad(rows, ((0, 0), (0, missing))) if missing else rows


def _square_in_eights(gram: Floats) -> Floats:
    """A Gram matrix for such rows: the unknowns that are added stay 0, and are as well determined as the others."""
    n = len(gram)
    square = np.pad(gram, (0, -n % 8))
    np.fill_diagonal(square[n:, n:], np.trace(gram) / n)
    return square


class AllPairsAlternation:
    """Solves every item's row, then every user's, for ever; ratings are ones, weighted by c."""

    def __init__(self, problem: AllPairs, sides: tuple[Csr, Csr], starts: tuple[Reals, Reals], pool: RowPool) -> None:
        self._problem, self._pool = problem, pool
        self._by_user, self._by_item = sides
        self.users, self.items = starts

    def sweeps(self) -> Iterator[Sweep]:
        """The objective after each sweep."""
        problem, by_user, by_item, pool = self._problem, self._by_user, self._by_item, self._pool
        of_users = problem.own("user", by_user, problem.weights("user", len(self.users)))
        of_items = problem.own("item", by_item, problem.weights("item", len(self.items)))
        gram = problem.gram("user", self.users)
        while True:
            self.items = solve_rows(problem, of_items, by_item, self.items, self.users, gram, pool)
            among_items = problem.gram("item", self.items)
            self.users = solve_rows(problem, of_users, by_user, self.users, self.items, among_items, pool)
            gram = problem.gram("user", self.users)
            unobserved = problem.unobserved_weight * float(np.sum(gram * among_items))
            penalty = _size(self.users, of_users) + _size(self.items, of_items)
            yield Sweep(self._observed() + unobserved + penalty)

    def _observed(self) -> float:
        """Σ c (1 − w·h)² over the observations."""
        from boundrec.solvers.kernels import squared_errors

        errors = np.empty(len(self.users))
        self._pool.run(squared_errors, self._by_user.indptr, self._by_user, self.users, self.items, errors)
        return float(errors.sum())

    def result(self) -> Learned:
        """The factors of both sides."""
        return Learned(self.users, self.items)


def _size(rows: Reals, own: Floats) -> float:
    """Σ_i λ_i ‖w_i‖²."""
    return float(np.einsum("ij,ij->i", rows, rows, dtype=np.float64) @ own[:, 1])
