"""BMC-ADMM, bounded matrix completion by splitting (Fang, Zhang, Shao and Hsieh, IJCAI 2017).

    min ½ Σ_observed c (v − x)² + λ‖Z‖_*   with   X + E = Z,  Z = T,  lower ≤ T ≤ upper

X lives on the observations and E off them; Z is the model. With multipliers y (of X + E = Z) and ρB (of Z = T), one
iteration is

    Z = SVT_{λ/2ρ}( ½[X + E + T + y/ρ − B] )        match the rank
    x = (c v + ρz − y)/(c + ρ),  E = Z              match the observations
    T = clip(Z + B),  y += ρ(x − z),  B += Z − T    match the range

In this order y is 0 off the observations and B is 0 wherever Z + B was inside the range, so that what the SVT sees is

    Z + ½[ (x − z + y/ρ) + (T − Z) − B ]  =  a matrix of low rank + two sparse ones

and no N × M matrix is formed. Only the search for entries outside the range looks at all pairs, row by row. It finds
few as a rule; but a penalty that draws Z towards 0, out of its range, puts nearly all of them outside, and a warning
says what they take.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from threadpoolctl import ThreadpoolController

from boundrec.arrays import Floats
from boundrec.data.ratings import Csr, Ratings
from boundrec.models.fit import Outcome, TolMode, Validation
from boundrec.models.fitted import Fitted, learned
from boundrec.models.settings import not_negative, number, setting
from boundrec.notes import warn
from boundrec.rivals import RivalModel, announce_if_large, announce_if_long
from boundrec.solvers import Learned, Solver, Sweep
from boundrec.solvers.threads import RowPool, threads_for

#: Measured on one core: searching a pair, and the products of a rating, for each factor and iteration.
SECONDS_PER_PAIR, SECONDS_PER_RATING = 0.4e-9, 3e-9
#: An entry outside the range: its column, B and T − Z, before an iteration and after it.
BYTES_PER_ENTRY = 40
#: Vectors iterated besides those that are kept, and rounds of iteration: the last subspace is a good start.
EXTRA_VECTORS, ROUNDS = 5, 2
#: Residuals further apart than this change the splitting's penalty, by this factor.
IMBALANCE, REBALANCE = 10.0, 2.0
#: Residuals below this many times ``tol``, relative to half the range at every rating or absolute, end the fit.
RESIDUAL_TOLERANCE = 10.0
#: With a smaller penalty on the splitting its inverse swallows the ratings.
SMALLEST_RHO = 1e-100


class BMCADMM(RivalModel):
    """Bounded matrix completion: min ½ Σ_observed (v_ij − z_ij)² + penalty·‖Z‖_*, all of Z inside the bounds.

    The problem is convex where ``n_factors`` does not cap the rank. The range is met in the limit: `max_violation_`
    says how far the model still passes it.

    Examples
    --------
    >>> from boundrec import BMCADMM
    >>> X = [("ann", "tea"), ("ann", "rum"), ("bob", "tea"), ("bob", "gin"), ("eve", "rum"), ("eve", "gin")]
    >>> model = BMCADMM(n_factors=2, bounds=(1, 5), random_state=0).fit(X, [5, 1, 4, 5, 2, 1])
    >>> model.max_violation_ < 0.01
    True
    """

    penalty: float = setting(default=1.0, rule=not_negative(), meaning="λ, the weight of the nuclear norm.")
    rho: float = setting(
        default=1.0,
        rule=number(f"a positive number, of at least {SMALLEST_RHO:g}", lambda value: SMALLEST_RHO <= value < np.inf),
        meaning="ρ, where the penalty of the splitting starts; it is balanced as the fit goes on and has no "
        "influence on the solution.",
    )

    NEEDS_BOUNDS = True
    STORED: ClassVar[dict[str, str]] = {**RivalModel.STORED, "max_violation": "measured", "rho": "positive"}

    def estimated_seconds(self, n_users: int, n_items: int, n_ratings: int | None = None) -> float:
        """How long a fit may take at most: ``max_iter`` iterations, at one core's speed times the threads it uses.

        Parameters
        ----------
        n_users, n_items
            Size of the matrix.
        n_ratings
            Number of ratings; None for a full matrix.
        """
        n_pairs = n_users * n_items
        n_ratings = n_pairs if n_ratings is None else n_ratings
        each = self.n_factors * (n_pairs * SECONDS_PER_PAIR + n_ratings * SECONDS_PER_RATING)
        return each * self.most_iterations() / threads_for(self.n_jobs, n_pairs)

    def _n_visited(self, ratings: Ratings) -> int:
        return ratings.n_users * ratings.n_items

    def _span(self) -> tuple[float, float]:
        """Centre and half-width of the range."""
        low, high = self._both_bounds()
        return (low + high) / 2, (high - low) / 2

    def _solver(self, start: Fitted, pool: RowPool, rng: np.random.Generator, validation: Validation | None) -> Solver:
        assert start.ratings is not None
        ratings = start.ratings
        announce_if_long(
            self.estimated_seconds(ratings.n_users, ratings.n_items, ratings.n_ratings),
            f"BMCADMM with n_factors={self.n_factors} on {ratings.n_users:,} × {ratings.n_items:,} pairs",
            "it searches all of them in every iteration; lower max_iter or n_factors",
        )
        splitting = Splitting(ratings, self._span(), self.n_factors, float(self.penalty), float(self.rho), pool, rng)
        shape = ratings.n_users, ratings.n_items, self.n_factors
        return Admm(splitting, float(self.tol), self.tol_mode, shape, np.dtype(self.dtype))

    def _complete(self, fitted: Fitted, outcomes: list[Outcome]) -> Fitted:
        """Look for the largest violation of the bounds; the fit is done, and may have taken hours: Ctrl-C keeps it."""
        violation = np.nan
        assert fitted.ratings is not None
        try:
            with RowPool(self.n_jobs, self._n_visited(fitted.ratings)) as pool:
                factors = outcomes[-1].learned
                violation = largest_violation(factors.users, factors.items, self._span(), pool)
        except KeyboardInterrupt:
            warn("interrupted: the model is complete, but how far it passes its bounds is not known.")
        return replace(fitted, found={**fitted.found, "max_violation": violation})

    max_violation_ = learned(
        lambda fitted: fitted.found["max_violation"],
        "How far the product of any user and item passes the bounds; NaN where Ctrl-C came before it was found.",
    )
    rho_ = learned(lambda fitted: fitted.found["rho"], "ρ at the end.")


class Admm:
    """The iterations of a `Splitting` as a solver: an iteration in which the objective rises counts as rejected."""

    def __init__(
        self, splitting: Splitting, tol: float, mode: TolMode, shape: tuple[int, int, int], dtype: np.dtype[Any]
    ) -> None:
        self._splitting, self._shape, self._dtype = splitting, shape, dtype
        self._tol, self._relative = tol, mode == "relative"

    def sweeps(self) -> Iterator[Sweep]:
        """The objective, which may rise while the range is being met: that is no rest."""
        splitting, tol, before = self._splitting, self._tol, np.inf
        unit = splitting.half * np.sqrt(splitting.n_ratings) if self._relative else 1.0
        small = RESIDUAL_TOLERANCE * tol * unit
        while True:
            splitting.iterate()
            most = (1 + tol) * before if self._relative else before + tol
            yield Sweep(splitting.objective, accepted=splitting.objective <= most)
            before = splitting.objective
            if max(splitting.primal, splitting.dual) <= small:
                return
            splitting.balance()

    def result(self) -> Learned:
        """The factors U√s and V√s of Z; columns past its rank are zero."""
        Z, (n_users, n_items, width) = self._splitting.Z, self._shape
        root = np.sqrt(Z.values)
        W, H = np.zeros((n_users, width), self._dtype), np.zeros((n_items, width), self._dtype)
        W[:, : root.size], H[:, : root.size] = Z.U * root, Z.V * root
        return Learned(W, H, {"rho": self._splitting.rho})


@dataclass(frozen=True)
class LowRank:
    """U diag(values) Vᵀ with orthonormal columns."""

    U: Floats
    values: Floats
    V: Floats

    @property
    def left(self) -> Floats:
        """U diag(values)."""
        return self.U * self.values

    def times(self, Q: Floats) -> Floats:
        """The product with Q."""
        return self.left @ (self.V.T @ Q)

    def transposed(self) -> LowRank:
        """The transpose."""
        return LowRank(self.V, self.values, self.U)

    def distance(self, other: LowRank) -> float:
        """Frobenius norm of the difference, to rounding: ‖[left, −left'] [V, V']ᵀ‖ from two triangles."""
        stacked = np.hstack([self.left, -other.left]), np.hstack([self.V, other.V])
        left, right = (np.asarray(np.linalg.qr(columns, mode="r")) for columns in stacked)
        return float(np.linalg.norm(left @ right.T))


@dataclass
class Order:
    """One row order of the ratings, with y and x − z at each of them, and sums over each row."""

    csr: Csr
    state: tuple[Floats, Floats]
    sums: Floats

    @classmethod
    def start(cls, csr: Csr, centre: float, rho: float) -> Order:
        """The state before the first iteration: z = centre, y = 0, and x between the rating and z."""
        weight = csr.weights if csr.weights.size else 1.0
        gap = weight * (csr.data - centre) / (weight + rho)
        return cls(csr, (np.zeros(csr.data.size), gap), np.empty((len(csr.indptr) - 1, 3)))


class Outside(NamedTuple):
    """B and T − Z, by how much clipping moves Z, at the entries where one of them is not 0, row by row."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    multiplier: Floats
    moved: Floats


class Splitting:
    """The iteration above, on a Z of low rank and sparse B; X, E, T and the multipliers are never dense."""

    def __init__(
        self,
        ratings: Ratings,
        span: tuple[float, float],
        rank: int,
        penalty: float,
        rho: float,
        pool: RowPool,
        rng: np.random.Generator,
    ) -> None:
        self.centre, self.half = span
        self.n_ratings = ratings.n_ratings
        self.rho, self._penalty, self._pool = rho, penalty, pool
        weights = ratings.by_user.weights
        self._curvature = float(weights.max()) if weights.size else 1.0  # of the loss, at most
        self.shape = n_users, n_items = ratings.n_users, ratings.n_items
        self.by_user = Order.start(ratings.by_user, self.centre, rho)
        self.by_item = Order.start(ratings.by_item, self.centre, rho)
        self.Z = constant_matrix(self.shape, self.centre)
        self.outside = Outside(np.zeros(n_users + 1, np.int64), np.empty(0, np.int32), np.empty(0), np.empty(0))
        self._clipping = np.zeros((n_users, 2))  # Σ (T − Z)² and Σ (its change)² over each row
        self._announced = False
        self._rank, self._capped = min(rank, *self.shape), False
        width = min(self._rank + EXTRA_VECTORS, *self.shape)
        self._blas = ThreadpoolController()  # held to one thread, since more of them change the bits of a product
        with self._blas.limit(limits=1, user_api="blas"):
            self._basis: Floats = np.linalg.qr(rng.standard_normal((n_items, width)))[0]
        self._rounds = 1 if width == min(self.shape) else ROUNDS  # all there is: nothing to iterate for
        self._row_work = n_items * np.arange(n_users + 1)  # all pairs, row by row

    def iterate(self) -> None:
        """Match the rank, the observations and the range in turn, and measure both residuals."""
        before = self.Z
        with self._blas.limit(limits=1, user_api="blas"):
            self._match_rank()
            change = self.Z.distance(before)
        self._match_observations()
        self._match_range()
        loss, gap, gap_change = self.by_user.sums.sum(axis=0)
        moved, moved_change = self._clipping.sum(axis=0)
        self.objective = float(0.5 * loss + self._penalty * self.Z.values.sum())
        self.primal = float(np.sqrt(gap + moved))
        # ρ‖2ΔZ + Δ(X − Z) + Δ(T − Z)‖, each part by itself: an upper bound that needs no common pattern.
        self.dual = float(self.rho * (2 * change + np.sqrt(gap_change) + np.sqrt(moved_change)))

    def balance(self) -> None:
        """Double or halve ρ when one residual is ten times the other.

        Where the rank is capped the problem is not convex, and with a ρ below the curvature of the loss the iteration
        can run in circles: there ρ does not go, or stay, below it.
        """
        floor = self._curvature if self._capped else 0.0
        if self.primal > IMBALANCE * self.dual or self.rho < floor:
            self.rescale(self.rho * REBALANCE)
        elif self.dual > IMBALANCE * self.primal and self.rho / REBALANCE >= floor:
            self.rescale(self.rho / REBALANCE)

    def rescale(self, rho: float) -> None:
        """Go on with another ρ: y stays, B is a multiplier over ρ."""
        multiplier = self.outside.multiplier
        multiplier *= self.rho / rho
        self.rho = rho

    # --- Z ----------------------------------------------------------------------------------------------------

    def _match_rank(self) -> None:
        """Z ← SVT of the splitting's mean, by subspace iteration from the last right vectors."""
        indptr, indices, multiplier, moved = self.outside
        correction: Any = csr_array((moved - multiplier, indices, indptr), shape=self.shape)
        back = self.Z.transposed()
        for _ in range(self._rounds):
            P = np.linalg.qr(self._times(self.by_user, self.Z, correction, self._basis))[0]
            image = self._times(self.by_item, back, correction.T, P)
            self._basis, values, rotation = np.linalg.svd(image, full_matrices=False)
        values = values - self._penalty / (2 * self.rho)
        rank = int(np.count_nonzero(values > 0))
        self._capped = rank > self._rank
        rank = min(rank, self._rank)
        self.Z = LowRank((P @ rotation.T)[:, :rank], values[:rank], self._basis[:, :rank])

    def _times(self, order: Order, Z: LowRank, correction: Any, Q: Floats) -> Floats:
        """(Z + ½[(x − z + y/ρ) + (T − Z) − B]) Q, or the same of its transpose."""
        from boundrec.rivals.kernels import times_observed

        sparse = np.empty((len(order.csr.indptr) - 1, Q.shape[1]))
        Q = np.ascontiguousarray(Q)
        self._pool.run(times_observed, order.csr.indptr, order.csr, order.state, 1 / self.rho, Q, sparse)
        sparse += correction @ Q
        return Z.times(Q) + 0.5 * sparse

    # --- X and T ----------------------------------------------------------------------------------------------

    def _match_observations(self) -> None:
        """X and y, in both orders of the ratings."""
        from boundrec.rivals.kernels import match_observations

        left, right = np.ascontiguousarray(self.Z.left), np.ascontiguousarray(self.Z.V)
        for order, rows, fixed in ((self.by_user, left, right), (self.by_item, right, left)):
            self._pool.run(
                match_observations, order.csr.indptr, order.csr, rows, fixed, self.rho, order.state, order.sums
            )

    def _match_range(self) -> None:
        """T = clip(Z + B) and B ← Z + B − T, which is nonzero only where Z + B is outside the range."""
        from boundrec.rivals.kernels import collect_outside, count_outside

        left, by_feature = np.ascontiguousarray(self.Z.left), np.ascontiguousarray(self.Z.V.T)
        span, counts = (self.centre, self.half), np.empty(self.shape[0], np.int64)
        self._pool.run(count_outside, self._row_work, left, by_feature, span, self.outside, counts)
        indptr = np.concatenate(([0], np.cumsum(counts)))
        self._announce_memory(int(indptr[-1]))
        found = Outside(indptr, np.empty(indptr[-1], np.int32), np.empty(indptr[-1]), np.empty(indptr[-1]))
        self._pool.run(collect_outside, self._row_work, left, by_feature, span, self.outside, found, self._clipping)
        self.outside = found

    def _announce_memory(self, n_outside: int) -> None:
        """Warn, once, when the entries outside the range take much."""
        if not self._announced:
            n_pairs = self.shape[0] * self.shape[1]
            self._announced = announce_if_large(
                BYTES_PER_ENTRY * n_outside,
                f"BMCADMM has {n_outside:,} of {n_pairs:,} pairs outside the bounds on its way, which",
                f"lower penalty={self._penalty:g}, which draws predictions out of the bounds",
            )


def constant_matrix(shape: tuple[int, int], value: float) -> LowRank:
    """A matrix with one value everywhere, of rank one."""
    n_rows, n_columns = shape
    sign = -1.0 if value < 0 else 1.0
    U = np.full((n_rows, 1), sign / np.sqrt(n_rows))
    return LowRank(U, np.array([abs(value) * np.sqrt(n_rows * n_columns)]), np.full((n_columns, 1), n_columns**-0.5))


def largest_violation(
    rows: NDArray[np.floating], fixed: NDArray[np.floating], span: tuple[float, float], pool: RowPool
) -> float:
    """How far any product of a row and a fixed row passes centre ± half; 0 where none does."""
    from boundrec.rivals.kernels import farthest

    centre, half = span
    far = np.empty(len(rows))
    pool.run(farthest, len(fixed) * np.arange(len(rows) + 1), rows, np.ascontiguousarray(fixed.T), centre, far)
    return max(0.0, float(far.max()) - half)
