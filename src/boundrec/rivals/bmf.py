"""BMF, Bounded Matrix Factorisation (Kannan, Ishteva and Park): all N × M products stay in one range.

Coordinate descent in which no entry moves further than the ratio test allows:

    wanted    step* = Σ_observed e_ij h_jk / Σ_observed h_jk²
    allowed   lower ≤ w_i·h_j + step·h_jk ≤ upper for every j, rated or not

Row by row, so that one row of the product is all that is ever in memory. From a feasible start every step is allowed
to be nothing, so the range is never left and the loss never rises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from boundrec.arrays import Floats
from boundrec.data.ratings import Csr, Ratings
from boundrec.models.answers import BLOCK, dot_rows
from boundrec.models.fit import Validation
from boundrec.models.fitted import Fitted
from boundrec.models.settings import one_of, setting
from boundrec.rivals import RivalModel, announce_if_long
from boundrec.solvers import Learned, Solver, Sweep
from boundrec.solvers.threads import RowPool, threads_for

BoundOn = Literal["all", "observed"]
#: Measured on one core: the ratio test, for a pair and a factor; the normal equations, for a rating and two factors.
SECONDS_PER_PAIR, SECONDS_PER_RATING = 0.6e-9, 0.2e-9
#: An entry below this is zero to the ratio test: its inverse would overflow.
SMALLEST = 1e-150
#: A lower end of this share of the range is nothing beside it.
NOTHING = 1e-60


class BMF(RivalModel):
    """Bounded Matrix Factorisation: min Σ_observed (v_ij − w_i·h_j)², every product w_i·h_j inside the bounds.

    All N × M products are looked at in every sweep, so time grows with the size of the matrix, not with the number
    of ratings; see `estimated_seconds`. A warning says when a fit may take more than half an hour.

    Examples
    --------
    >>> from boundrec import BMF
    >>> X = [("ann", "tea"), ("ann", "rum"), ("bob", "tea"), ("bob", "gin"), ("eve", "rum"), ("eve", "gin")]
    >>> model = BMF(n_factors=2, bounds=(1, 5), random_state=0).fit(X, [5, 1, 4, 5, 2, 1])
    >>> bool(1 - 1e-9 <= model.predict([("ann", "gin")])[0] <= 5 + 1e-9)
    True
    """

    bound_on: BoundOn = setting(
        default="all",
        rule=one_of(BoundOn),
        meaning='``"all"`` keeps every pair in range; ``"observed"`` only the rated ones, at the cost of the '
        "ratings alone.",
    )

    NEEDS_BOUNDS = True

    def estimated_seconds(self, n_users: int, n_items: int, n_ratings: int | None = None) -> float:
        """How long a fit may take at most: ``max_iter`` sweeps, at one core's speed times the threads it uses.

        Parameters
        ----------
        n_users, n_items
            Size of the matrix.
        n_ratings
            Number of ratings; None for a full matrix.
        """
        n_ratings = n_users * n_items if n_ratings is None else n_ratings
        n_tested = self._n_tested(n_users, n_items, n_ratings)
        half = n_tested * self.n_factors * SECONDS_PER_PAIR + n_ratings * self.n_factors**2 * SECONDS_PER_RATING
        return 2 * half * self.most_iterations() / threads_for(self.n_jobs, n_tested)

    def _n_tested(self, n_users: int, n_items: int, n_ratings: int) -> int:
        return n_users * n_items if self.bound_on == "all" else n_ratings

    def _n_visited(self, ratings: Ratings) -> int:
        return self._n_tested(ratings.n_users, ratings.n_items, ratings.n_ratings)

    def _solver(self, start: Fitted, pool: RowPool, rng: np.random.Generator, validation: Validation | None) -> Solver:
        assert start.ratings is not None
        ratings = start.ratings
        self._announce_cost(ratings)
        largest = (
            partial(largest_product, pool=pool)
            if self.bound_on == "all"
            else partial(largest_rated_product, ratings=ratings)
        )
        shape = ratings.n_users, ratings.n_items
        W, H = feasible_start(shape, self.n_factors, self._both_bounds(), largest, rng)
        return BoundedDescent(ratings, W, H, self._both_bounds(), self.bound_on, pool, np.dtype(self.dtype))

    def _announce_cost(self, ratings: Ratings) -> None:
        what, remedy = f"{ratings.n_users:,} × {ratings.n_items:,} pairs", ', or pass bound_on="observed"'
        if self.bound_on == "observed":
            what, remedy = f"{ratings.n_ratings:,} ratings", ""
        announce_if_long(
            self.estimated_seconds(ratings.n_users, ratings.n_items, ratings.n_ratings),
            f"BMF with n_factors={self.n_factors} on {what}",
            f"it looks at each of them in every sweep; lower max_iter or n_factors{remedy}",
        )


class BoundedDescent:
    """Entry after entry of both factors goes to its best value that keeps products in range."""

    def __init__(
        self,
        ratings: Ratings,
        W: Floats,
        H: Floats,
        bounds: tuple[float, float],
        bound_on: BoundOn,
        pool: RowPool,
        dtype: np.dtype[Any],
    ) -> None:
        self._ratings, self._W, self._H, self._pool, self._dtype = ratings, W, H, pool, dtype
        self._bounds, self._all = bounds, bound_on == "all"

    def sweeps(self) -> Iterator[Sweep]:
        """The squared error after each sweep."""
        ratings, W, H = self._ratings, self._W, self._H
        errors = np.empty(ratings.n_users)
        halves = (ratings.by_item, H, W, np.empty(ratings.n_items)), (ratings.by_user, W, H, errors)
        work = [self._work(csr, len(fixed)) for csr, _, fixed, _ in halves]
        while True:
            for (csr, rows, fixed, out), load in zip(halves, work, strict=True):
                self._solve(csr, rows, fixed, out, load)
            yield Sweep(float(errors.sum()))

    def result(self) -> Learned:
        """The factors as they are stored; rounding to float32 is not fed back, for its error would add up."""
        largest = max(float(np.abs(rows).max()) for rows in (self._W, self._H))
        if largest > float(np.finfo(self._dtype).max):
            raise ValueError(
                f"BMF has factors of up to {largest:g}, too large for dtype={self._dtype.name}: "
                'pass dtype="float64", or bring the ratings and their bounds nearer to 1.'
            )
        return Learned(self._W.astype(self._dtype), self._H.astype(self._dtype))

    def _solve(self, csr: Csr, rows: Floats, fixed: Floats, errors: Floats, work: NDArray[np.int64]) -> None:
        """One half-step: the rows with the other side fixed."""
        from boundrec.rivals.kernels import solve_rows_bounded, solve_rows_bounded_on_observed

        kernel = solve_rows_bounded if self._all else solve_rows_bounded_on_observed
        low, high = self._bounds
        ratios = ratio_arrays(fixed, (high - low) / 2)
        self._pool.run(kernel, work, csr, fixed, ratios, (low + high) / 2, rows, errors)

    def _work(self, csr: Csr, n_columns: int) -> NDArray[np.int64]:
        """What the rows cost, added up: whole rows of the product, or the ratings alone."""
        return csr.indptr + n_columns * np.arange(len(csr.indptr)) if self._all else csr.indptr


def feasible_start(
    shape: tuple[int, int],
    n_factors: int,
    bounds: tuple[float, float],
    largest: Callable[[Floats, Floats], float],
    rng: np.random.Generator,
) -> tuple[Floats, Floats]:
    """Factors whose products fill the range: one constant feature at its lower end, uniform ones that add the rest.

    ``largest`` finds the largest product that has to be in range. Where the lower end is 0, or next to it, the
    constant feature would be 0 on both sides and never move, so all are uniform.
    """
    low, high = bounds
    W, H = (rng.random((n_rows, n_factors)) for n_rows in shape)
    constant = int(abs(low) > NOTHING * (high - low))
    scale = np.sqrt((high - low) / max(largest(W[:, constant:], H[:, constant:]), SMALLEST))
    W[:, constant:] *= scale
    H[:, constant:] *= scale
    if constant:
        W[:, 0] = np.sqrt(abs(low))
        H[:, 0] = np.sign(low) * np.sqrt(abs(low))
    return W, H


def largest_product(W: Floats, H: Floats, pool: RowPool) -> float:
    """The largest of all products of a row of W and a row of H, none of them negative."""
    from boundrec.rivals.kernels import farthest

    largest = np.empty(len(W))
    work = len(H) * np.arange(len(W) + 1)
    pool.run(farthest, work, np.ascontiguousarray(W), np.ascontiguousarray(H.T), 0.0, largest)
    return float(largest.max())


def largest_rated_product(W: Floats, H: Floats, ratings: Ratings) -> float:
    """The largest product of a rated pair."""
    users, items = ratings.user_of_rating(), ratings.by_user.indices
    blocks = (slice(start, start + BLOCK) for start in range(0, ratings.n_ratings, BLOCK))
    return max(float(dot_rows(W[users[block]], H[items[block]]).max()) for block in blocks)


def ratio_arrays(fixed: Floats, half: float) -> tuple[Floats, Floats, Floats]:
    """The fixed side as the ratio test wants it, by feature: h, 1/h and half/|h|; 0 and infinity where h = 0."""
    by_feature = np.ascontiguousarray(fixed.T)
    zero = np.abs(by_feature) < SMALLEST
    inverse = np.where(zero, 0.0, 1.0 / np.where(zero, 1.0, by_feature))
    return by_feature, inverse, np.where(zero, np.inf, half * np.abs(inverse))
