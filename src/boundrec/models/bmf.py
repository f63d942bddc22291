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
from typing import ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from boundrec.models.base import Floats
from boundrec.models.cost import announce_if_long
from boundrec.models.predicting import BLOCK, Unknown, dot_rows
from boundrec.models.rival import RivalModel
from boundrec.models.settings import BoundsSetting, FloatType, Seed
from boundrec.models.stopping import Sweep
from boundrec.parallel import RowPool, threads_for
from boundrec.ratings import Csr, Duplicates, Ratings

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

    Parameters
    ----------
    n_factors
        K, the length of the factors.
    bounds
        ``(lo, hi)``, both needed. Ratings outside are refused.
    bound_on
        ``"all"`` keeps every pair in range; ``"observed"`` only the rated ones, at the cost of the ratings alone.
    clip
        Cut predictions to the bounds. With ``bound_on="all"`` there is no more than rounding to cut.
    on_unknown
        What pairs with an id that has no training rating get: the known side's ``"mean"``, ``"nan"``, or an error
        (``"raise"``).
    duplicates
        What happens to pairs that come more than once: ``"raise"``, ``"last"``, ``"mean"``.
    validation_fraction, n_iter_no_change
        Early stopping, off by default: a random share of the ratings is set aside and not trained on; once the error
        on it has not fallen for so many sweeps in a row the fit stops, and the model is that of the best one.
        ``n_iter_no_change=None`` only records the errors. An ``eval_set`` given to ``fit`` serves instead of a share.
    max_iter, tol, patience
        At most so many sweeps (None: 500); stop earlier when the objective's relative decrease is below ``tol`` for
        ``patience`` in a row.
    dtype
        ``"float64"`` or ``"float32"``, for the stored factors; the fit is in float64.
    random_state
        Seed of the start.
    n_jobs
        Threads; None for every core. The result has the same bits for any number.
    verbose
        1 prints a line for every sweep to stderr.

    Attributes
    ----------
    user_factors_, item_factors_
        W and H, one row for each user and each item.
    objectives_, seconds_, n_iter_
        The objective and the time after each sweep, and how many there were.
    eval_errors_, best_iter_
        The error (RMSE) on the ratings set aside, or on the ``eval_set``, after each sweep, and where it was least,
        counted from 1; empty and None where there is nothing to evaluate on.

    Examples
    --------
    >>> from boundrec import BMF
    >>> X = [("ann", "tea"), ("ann", "rum"), ("bob", "tea"), ("bob", "gin"), ("eve", "rum"), ("eve", "gin")]
    >>> model = BMF(n_factors=2, bounds=(1, 5), random_state=0).fit(X, [5, 1, 4, 5, 2, 1])
    >>> bool(1 - 1e-9 <= model.predict([("ann", "gin")])[0] <= 5 + 1e-9)
    True
    """

    NEEDS_BOUNDS = True
    CHOICES: ClassVar[dict[str, tuple[str, ...]]] = {**RivalModel.CHOICES, "bound_on": get_args(BoundOn)}

    def __init__(
        self,
        n_factors: int = 20,
        *,
        bounds: BoundsSetting = None,
        bound_on: BoundOn = "all",
        clip: bool = False,
        on_unknown: Unknown = "mean",
        duplicates: Duplicates = "raise",
        validation_fraction: float | None = None,
        n_iter_no_change: int | None = 5,
        max_iter: int | None = None,
        tol: float = 1e-5,
        patience: int = 10,
        dtype: FloatType = "float64",
        random_state: Seed = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_factors = n_factors
        self.bounds = bounds
        self.bound_on = bound_on
        self.clip = clip
        self.on_unknown = on_unknown
        self.duplicates = duplicates
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.max_iter = max_iter
        self.tol = tol
        self.patience = patience
        self.dtype = dtype
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

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
        n_tested = self._n_visited(n_users, n_items, n_ratings)
        half = n_tested * self.n_factors * SECONDS_PER_PAIR + n_ratings * self.n_factors**2 * SECONDS_PER_RATING
        return 2 * half * self._most_iterations() / threads_for(self.n_jobs, n_tested)

    def _n_visited(self, n_users: int, n_items: int, n_ratings: int) -> int:
        return n_users * n_items if self.bound_on == "all" else n_ratings

    def _sweeps(self, ratings: Ratings, pool: RowPool, rng: np.random.Generator) -> Iterator[Sweep]:
        self._announce_cost(ratings)
        low, high = self._both_bounds()
        W, H = self._start(ratings, pool, rng)
        self.user_factors_, self.item_factors_ = W.astype(self.dtype), H.astype(self.dtype)
        errors = np.empty(ratings.n_users)
        halves = (ratings.by_item, H, W, np.empty(ratings.n_items)), (ratings.by_user, W, H, errors)
        work = [self._work(csr, len(fixed)) for csr, _, fixed, _ in halves]
        while True:
            for (csr, rows, fixed, out), load in zip(halves, work, strict=True):
                self._solve(csr, rows, fixed, (low, high), out, load, pool)
            objective = float(errors.sum())
            if np.isfinite(objective):
                self._refuse_what_is_too_large_to_store(W, H)
                # Rounding to float32 is not fed back: its error would add up over the sweeps.
                self.user_factors_[:], self.item_factors_[:] = W, H
            yield Sweep(objective)

    def _refuse_what_is_too_large_to_store(self, W: Floats, H: Floats) -> None:
        dtype = np.dtype(self.dtype)
        largest = max(float(np.abs(factors).max()) for factors in (W, H)) if dtype == np.float32 else 0.0
        if largest > float(np.finfo(dtype).max):
            raise ValueError(
                f"BMF has factors of up to {largest:g} after sweep {self.n_iter_ + 1}, too large for "
                f'dtype={dtype.name}: pass dtype="float64", or bring the ratings and their bounds nearer to 1.'
            )

    def _start(self, ratings: Ratings, pool: RowPool, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Random factors whose products, all of them or those of rated pairs, are in range."""
        largest = (
            partial(largest_product, pool=pool)
            if self.bound_on == "all"
            else partial(largest_rated_product, ratings=ratings)
        )
        shape = ratings.n_users, ratings.n_items
        return feasible_start(shape, self.n_factors, self._both_bounds(), largest, rng)

    def _solve(
        self,
        csr: Csr,
        rows: Floats,
        fixed: Floats,
        bounds: tuple[float, float],
        errors: Floats,
        work: NDArray[np.int64],
        pool: RowPool,
    ) -> None:
        """One half-step: the rows with the other side fixed."""
        from boundrec.kernels import solve_rows_bounded, solve_rows_bounded_on_observed

        kernel = solve_rows_bounded if self.bound_on == "all" else solve_rows_bounded_on_observed
        low, high = bounds
        pool.run(kernel, work, csr, fixed, ratio_arrays(fixed, (high - low) / 2), (low + high) / 2, rows, errors)

    def _work(self, csr: Csr, n_columns: int) -> NDArray[np.int64]:
        """What the rows cost, added up: whole rows of the product, or the ratings alone."""
        return csr.indptr + n_columns * np.arange(len(csr.indptr)) if self.bound_on == "all" else csr.indptr

    def _announce_cost(self, ratings: Ratings) -> None:
        what, remedy = f"{ratings.n_users:,} × {ratings.n_items:,} pairs", ', or pass bound_on="observed"'
        if self.bound_on == "observed":
            what, remedy = f"{ratings.n_ratings:,} ratings", ""
        announce_if_long(
            self.estimated_seconds(ratings.n_users, ratings.n_items, ratings.n_ratings),
            f"BMF with n_factors={self.n_factors} on {what}",
            f"it looks at each of them in every sweep; lower max_iter or n_factors{remedy}",
        )


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
    from boundrec.kernels import farthest

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
