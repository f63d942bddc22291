"""Exact alternation: every row in turn goes to the global minimum of its own quadratic.

With biases, factors have two more coordinates, and each side holds one of them fixed:

    w_i = (b_i, γ r_i, u_i)      h_j = (γ s_j, d_j, q_j)      w_i·h_j = γ s_j b_i + γ r_i d_j + u_i·q_j

so that the biases of users and items live inside the same inner product and the same bound: the free part of a row
has norm at most r_i √(1 − γ²). A half-step is the plain one on the features (γ s_j, q_j) and the ratings
v_ij − γ r_i d_j.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from boundrec.models.base import Side
from boundrec.models.stopping import Sweep
from boundrec.parallel import RowPool

#: γ², the share of a row's squared norm that its held coordinate takes; up to ½ the ends stay within reach.
HELD_SHARE = 0.25
#: The coordinate that each side holds; the other side's bias stands there.
HELD_BY_USERS, HELD_BY_ITEMS = 1, 0
#: Spread of each free coordinate at the start, in units of the magnitude.
SPREAD = 0.1


def alternate(users: Side, items: Side, pool: RowPool, constraint: str, ridge: float = 0.0) -> Iterator[Sweep]:
    """Solve every item's row, then every user's, for ever; F = Σ c(v − w·h)² + ridge·(Σ n_i|w_i|² + Σ n_j|h_j|²)."""
    from boundrec.kernels import squared_errors

    errors = np.empty(len(users.factors))
    while True:
        half_step(items, users, pool, constraint, ridge)
        half_step(users, items, pool, constraint, ridge)
        pool.run(squared_errors, users.csr.indptr, users.csr, users.factors, items.factors, errors)
        yield Sweep(float(errors.sum()) + ridge * (_size(users) + _size(items) if ridge else 0.0))


def half_step(side: Side, other: Side, pool: RowPool, constraint: str, ridge: float) -> None:
    """Solve the rows of ``side`` with the other side fixed."""
    from boundrec.kernels import solve_rows_ball, solve_rows_sphere

    free, features = free_part(side, other, pool)
    given, width = (free.csr, features, free.radius), features.shape[1]
    if constraint == "ball":
        pool.run(solve_rows_ball, free.csr.indptr, *given, ridge, free.factors, width=width)
    else:
        pool.run(solve_rows_sphere, free.csr.indptr, *given, free.factors, width=width)
    put_back(free, side)


def free_part(side: Side, other: Side, pool: RowPool) -> tuple[Side, NDArray[np.floating]]:
    """The plain problem in the coordinates that ``side`` does not hold, and the other side's features for it."""
    from boundrec.kernels import without_products

    if side.held is None:
        return side, other.factors
    data = np.empty_like(side.csr.data)
    there = np.ascontiguousarray(side.factors[:, side.held]), np.ascontiguousarray(other.factors[:, side.held])
    pool.run(without_products, side.csr.indptr, side.csr, *there, data)
    rest = np.delete(side.factors, side.held, axis=1)
    free = Side(side.csr._replace(data=data), side.radius * np.sqrt(1 - HELD_SHARE), rest)
    return free, np.delete(other.factors, side.held, axis=1)


def put_back(free: Side, side: Side) -> None:
    """Take over the coordinates that were free."""
    if side.held is not None:
        side.factors[:, np.arange(side.factors.shape[1]) != side.held] = free.factors


def _size(side: Side) -> float:
    """Σ_i n_i |w_i|² of the free coordinates, where n_i is the number of ratings (their weight)."""
    squares = np.einsum("ij,ij->i", side.factors, side.factors, dtype=np.float64)
    if side.held is not None:
        squares -= side.factors[:, side.held].astype(np.float64) ** 2
    return float(squares @ side.csr.row_weights())


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


def stack(samples: Sequence[NDArray[np.floating]], n_shared: int) -> NDArray[np.floating]:
    """One row whose inner product is the mean over S models: (mean of what is linear, u¹/√S, …, u^S/√S).

    The first ``n_shared`` columns enter the product linearly (a bias times what the other side holds) and are
    averaged. The norm is at most the largest of the samples' (Jensen), so the mean keeps the bound.
    """
    if len(samples) == 1:
        return samples[0]
    shared = np.mean([rows[:, :n_shared] for rows in samples], axis=0)
    own = [rows[:, n_shared:] / np.sqrt(len(samples)) for rows in samples]
    return np.hstack([shared, *own]).astype(samples[0].dtype)


def unstack(
    rows: NDArray[np.floating], biases: NDArray[np.floating] | None, bias: int, n_factors: int
) -> list[NDArray[np.floating]]:
    """The rows of the S models that `stack` averaged; the biases of each, which it did not keep, go to one column."""
    n_shared = 0 if biases is None else 2
    blocks = np.split(rows[:, n_shared:], (rows.shape[1] - n_shared) // n_factors, axis=1)
    samples = [np.hstack([rows[:, :n_shared], block * float(np.sqrt(len(blocks)))]) for block in blocks]
    if biases is not None:
        for sample, own in zip(samples, biases.T, strict=True):
            sample[:, bias] = own
    return samples
