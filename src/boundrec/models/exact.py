"""Exact alternation: every row in turn goes to the global minimum of its own quadratic.

With biases, factors have two more coordinates, and each side holds one of them fixed:

    w_i = (b_i, γ r_i, u_i)      h_j = (γ s_j, d_j, q_j)      w_i·h_j = γ s_j b_i + γ r_i d_j + u_i·q_j

so that the biases of users and items live inside the same inner product and the same bound: the free part of a row
has norm at most r_i √(1 − γ²). A half-step is the plain one on the features (γ s_j, q_j) and the ratings
v_ij − γ r_i d_j.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from boundrec.models.base import Side, Sweep
from boundrec.parallel import RowPool

#: γ², the share of a row's squared norm that its fixed coordinate takes; up to ½ the ends stay within reach.
HELD_SHARE = 0.25
#: The coordinate that each side holds fixed; the other side's bias stands there.
HELD_BY_USERS, HELD_BY_ITEMS = 1, 0
#: Spread of the free coordinates at the start, beside the biases, in units of the magnitude.
SPREAD = 0.1


def alternate(users: Side, items: Side, pool: RowPool, constraint: str, ridge: float = 0.0) -> Iterator[Sweep]:
    """Solve every item's row, then every user's, for ever; F = Σ c(v − w·h)² + ridge·(Σ n_i|w_i|² + Σ n_j|h_j|²)."""
    from boundrec.kernels import squared_errors

    errors = np.empty(len(users.factors))
    while True:
        half_step(items, users, pool, constraint, ridge)
        half_step(users, items, pool, constraint, ridge)
        pool.run(squared_errors, users.csr.indptr, users.csr, users.factors, items.factors, errors)
        yield Sweep(float(errors.sum()) + ridge * (_size(users) + _size(items)))


def half_step(side: Side, other: Side, pool: RowPool, constraint: str, ridge: float) -> None:
    """Solve the rows of ``side`` with the other side fixed."""
    from boundrec.kernels import solve_rows_ball, solve_rows_sphere

    if side.held is not None:
        _free_half_step(side, other, pool, ridge)
    elif constraint == "ball":
        pool.run(solve_rows_ball, side.csr.indptr, side.csr, other.factors, side.radius, ridge, side.factors)
    else:
        pool.run(solve_rows_sphere, side.csr.indptr, side.csr, other.factors, side.radius, side.factors)


def _free_half_step(side: Side, other: Side, pool: RowPool, ridge: float) -> None:
    """The half-step of the coordinates that ``side`` does not hold, on what its held one leaves of the ratings."""
    from boundrec.kernels import without_products

    held, others_there = side.factors[:, side.held].copy(), other.factors[:, side.held].copy()
    data = np.empty_like(side.csr.data)
    pool.run(without_products, side.csr.indptr, side.csr, held, others_there, data)
    free = Side(
        side.csr._replace(data=data), side.radius * np.sqrt(1 - HELD_SHARE), np.delete(side.factors, side.held, 1)
    )
    fixed = replace(other, factors=np.delete(other.factors, side.held, 1), held=None)
    half_step(free, fixed, pool, "ball", ridge)
    side.factors[:, np.arange(side.factors.shape[1]) != side.held] = free.factors


def _size(side: Side) -> float:
    """Σ_i n_i |w_i|² of the free coordinates, where n_i is the number of ratings (their weight)."""
    squares = np.einsum("ij,ij->i", side.factors, side.factors, dtype=np.float64)
    if side.held is not None:
        squares -= side.factors[:, side.held].astype(np.float64) ** 2
    return float(squares @ side.counts())


def start_with_biases(users: Side, items: Side, mean: float, n_factors: int, rng: np.random.Generator) -> None:
    """Factors with two more columns: half of the mean rating (in units of r_i s_j) in each bias, the rest small."""
    for side, held, bias in ((users, HELD_BY_USERS, HELD_BY_ITEMS), (items, HELD_BY_ITEMS, HELD_BY_USERS)):
        rows = np.empty((len(side.radius), n_factors + 2))
        rows[:, 2:] = SPREAD / np.sqrt(n_factors) * rng.standard_normal((len(side.radius), n_factors))
        rows[:, held] = np.sqrt(HELD_SHARE)
        rows[:, bias] = mean / (2 * np.sqrt(HELD_SHARE))
        free = np.linalg.norm(np.delete(rows, held, 1), axis=1)
        shrink = np.minimum(1.0, np.sqrt(1 - HELD_SHARE) / free)
        rows[:, np.arange(n_factors + 2) != held] *= shrink[:, None]
        side.factors, side.held = (rows * side.radius[:, None]).astype(side.csr.data.dtype), held
