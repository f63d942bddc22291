"""Exact alternation: every row in turn goes to the global minimum of its own quadratic.

With biases, factors have two more coordinates, and each side holds one of them fixed:

    w_i = (b_i, γ r_i, u_i)      h_j = (γ s_j, d_j, q_j)      w_i·h_j = γ s_j b_i + γ r_i d_j + u_i·q_j

so that the biases of users and items live inside the same inner product and the same bound: the free part of a row
has norm at most r_i √(1 − γ²). A half-step is the plain one on the features (γ s_j, q_j) and the ratings
v_ij − γ r_i d_j.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np

from boundrec.arrays import Reals
from boundrec.solvers import Learned, Side, Sweep
from boundrec.solvers.threads import RowPool

Constraint = Literal["ball", "sphere"]

#: γ², the share of a row's squared norm that its held coordinate takes; up to ½ the ends stay within reach.
HELD_SHARE = 0.25
#: The coordinate that each side holds; the other side's bias stands there.
HELD_BY_USERS, HELD_BY_ITEMS = 1, 0
#: Spread of each free coordinate at the start, in units of the magnitude.
SPREAD = 0.1


class Alternation:
    """Solves every item's row, then every user's, for ever.

    F = Σ c(v − w·h)² + ridge·(Σ n_i|w_i|² + Σ n_j|h_j|²)
    """

    def __init__(self, users: Side, items: Side, pool: RowPool, constraint: Constraint, ridge: float = 0.0) -> None:
        self.users, self.items = users, items
        self._pool, self._constraint, self._ridge = pool, constraint, ridge

    def sweeps(self) -> Iterator[Sweep]:
        """The objective after each sweep."""
        from boundrec.solvers.kernels import squared_errors

        users, items, ridge = self.users, self.items, self._ridge
        errors = np.empty(len(users.factors))
        while True:
            items.factors = solve_rows(items, users, self._pool, self._constraint, ridge)
            users.factors = solve_rows(users, items, self._pool, self._constraint, ridge)
            self._pool.run(squared_errors, users.csr.indptr, users.csr, users.factors, items.factors, errors)
            yield Sweep(float(errors.sum()) + ridge * (_size(users) + _size(items) if ridge else 0.0))

    def result(self) -> Learned:
        """The factors of both sides."""
        return Learned(self.users.factors, self.items.factors)


def solve_rows(side: Side, other: Side, pool: RowPool, constraint: Constraint, ridge: float) -> Reals:
    """The rows of ``side``, each at the global minimum of its own quadratic, with the other side fixed.

    A row needs its own ratings, its present self (on the sphere, where ratings leave a direction open) and the rows
    that it rates: so a thread, a fold-in or another machine may have any of them.
    """
    from boundrec.solvers.kernels import solve_rows_ball, solve_rows_sphere

    free, features = free_part(side, other, pool)
    indptr, width = free.csr.indptr, features.shape[1]
    if constraint == "ball":
        pool.run(solve_rows_ball, indptr, free.csr, features, free.radius, ridge, free.factors, width=width)
    else:
        pool.run(solve_rows_sphere, indptr, free.csr, features, free.radius, free.factors, width=width)
    return whole_rows(free.factors, side)


def free_part(side: Side, other: Side, pool: RowPool) -> tuple[Side, Reals]:
    """The plain problem in the coordinates that ``side`` does not hold, on rows of its own; and its features."""
    from boundrec.solvers.kernels import without_products

    if side.held is None:
        return Side(side.csr, side.radius, side.factors.copy()), other.factors
    data = np.empty_like(side.csr.data)
    there = np.ascontiguousarray(side.factors[:, side.held]), np.ascontiguousarray(other.factors[:, side.held])
    pool.run(without_products, side.csr.indptr, side.csr, *there, data)
    rest = np.delete(side.factors, side.held, axis=1)
    free = Side(side.csr._replace(data=data), side.radius * np.sqrt(1 - HELD_SHARE), rest)
    return free, np.delete(other.factors, side.held, axis=1)


def whole_rows(free: Reals, side: Side) -> Reals:
    """Rows of which the free coordinates were learnt, with the coordinate that their side holds."""
    if side.held is None:
        return free
    return np.insert(free, side.held, side.factors[:, side.held], axis=1)


def _size(side: Side) -> float:
    """Σ_i n_i |w_i|² of the free coordinates, where n_i is the number of ratings (their weight)."""
    squares = np.einsum("ij,ij->i", side.factors, side.factors, dtype=np.float64)
    if side.held is not None:
        squares -= side.factors[:, side.held].astype(np.float64) ** 2
    return float(np.einsum("i,i->", squares, side.csr.row_weights()))  # of BLAS' threads one would do, and all wait


def start_with_biases(side: Side, held: int, mean: float, n_factors: int, rng: np.random.Generator) -> Side:
    """A side with two more columns: about half of the mean rating (in units of r_i s_j) in its bias, the rest small.

    Biases must differ from the start: a sampler takes equal ones for a prior of no width, and is slow to leave it.
    """
    rows = SPREAD * rng.standard_normal((len(side.radius), n_factors + 2))
    rows[:, 1 - held] += mean / (2 * np.sqrt(HELD_SHARE))
    rows[:, held] = 0.0
    rows *= np.minimum(1.0, np.sqrt(1 - HELD_SHARE) / np.linalg.norm(rows, axis=1))[:, None]
    rows[:, held] = np.sqrt(HELD_SHARE)
    return Side(side.csr, side.radius, (rows * side.radius[:, None]).astype(side.csr.data.dtype), held)


def stack(samples: Sequence[Reals], n_shared: int) -> Reals:
    """One row whose inner product is the mean over S models: (mean of what is linear, u¹/√S, …, u^S/√S).

    The first ``n_shared`` columns enter the product linearly (a bias times what the other side holds) and are
    averaged. The norm is at most the largest of the samples' (Jensen), so the mean keeps the bound.
    """
    if len(samples) == 1:
        return samples[0]
    shared = np.mean([rows[:, :n_shared] for rows in samples], axis=0)
    own = [rows[:, n_shared:] / np.sqrt(len(samples)) for rows in samples]
    return np.hstack([shared, *own]).astype(samples[0].dtype)


def unstack(rows: Reals, biases: Reals | None, bias: int, n_factors: int) -> list[Reals]:
    """The rows of the S models that `stack` averaged; the biases of each, which it did not keep, go to one column."""
    n_shared = 0 if biases is None else 2
    blocks = np.split(rows[:, n_shared:], (rows.shape[1] - n_shared) // n_factors, axis=1)
    samples = [np.hstack([rows[:, :n_shared], block * float(np.sqrt(len(blocks)))]) for block in blocks]
    if biases is not None:
        for sample, own in zip(samples, biases.T, strict=True):
            sample[:, bias] = own
    return samples
