"""CCD++: cyclic coordinate descent, one feature of the factorisation at a time (Yu, Hsieh, Si and Dhillon, 2012)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal

import numpy as np

from boundrec.arrays import Reals
from boundrec.data.ratings import Csr
from boundrec.models.fit import Validation
from boundrec.models.fitted import Fitted
from boundrec.models.settings import count, not_negative, number, one_of, setting
from boundrec.rivals import RidgeSide, RivalModel
from boundrec.solvers import Learned, Solver, Sweep
from boundrec.solvers.threads import FEW_RANGES, RowPool

RidgeMode = Literal["weighted", "plain"]
#: A sweep ends once so many of its features were at rest when it came to them.
FEATURES_AT_REST = 5


class CCDPlusPlus(RivalModel):
    """CCD++: a factorisation with a ridge, fitted by rank-one updates of the residuals.

    Minimises Σ_observed (v_ij − w_i·h_j)² + Σ_i λ_i‖w_i‖² + Σ_j λ_j‖h_j‖², where λ_i is ``ridge`` times the number
    of the row's ratings ("weighted") or ``ridge`` itself ("plain"). A sweep takes the features in turn: column t
    of W and of H is fitted to what the other features leave of the ratings, each entry exactly, the items' and the
    users' in turn. The inner iterations and their stopping rule are those of the authors' program, LIBPMF.
    """

    ridge: float = setting(default=0.1, rule=not_negative(), meaning="Weight of the squared factors.")
    ridge_mode: RidgeMode = setting(
        default="weighted",
        rule=one_of(RidgeMode),
        meaning='``"weighted"``: for every rating, as in LIBPMF. ``"plain"``: once for every row, as in the '
        "publication.",
    )
    inner_iter: int = setting(default=5, rule=count(), meaning="At most so many inner iterations for a feature.")
    inner_tol: float = setting(
        default=1e-3,
        rule=number("a number of at least 0 and below 1", lambda value: 0 <= value < 1),
        meaning="Fewer once one lowers the objective by less than this times the most that any has in this sweep.",
    )

    def _solver(self, start: Fitted, pool: RowPool, rng: np.random.Generator, validation: Validation | None) -> Solver:
        assert start.ratings is not None
        ratings = start.ratings
        W: Reals = (0.1 * rng.random((ratings.n_users, self.n_factors))).astype(self.dtype)
        H: Reals = np.zeros((ratings.n_items, self.n_factors), self.dtype)
        users, items = self._side(ratings.by_user, W, len(H)), self._side(ratings.by_item, H, len(W))
        return RankOneDescent(users, items, pool, self.inner_iter, float(self.inner_tol))

    def _side(self, csr: Csr, factors: Reals, n_others: int) -> RidgeSide:
        """One side at the start: the items' factors are zero, so the residuals are the ratings."""
        counts = csr.row_weights() if self.ridge_mode == "weighted" else np.ones(len(factors))
        # Nearly all the time goes into fetching indices and residuals: short indices are a tenth less of it.
        indices: Any = csr.indices.astype(np.uint16) if n_others <= 1 << 16 else csr.indices
        return RidgeSide(
            Csr(csr.indptr, indices, csr.data.astype(np.float64), csr.weights), factors, float(self.ridge) * counts
        )


class RankOneDescent:
    """Sweeps over the features; both sides hold the residuals R = V − WHᵀ, each in its own row order.

    Within a sweep the residuals leave out one feature: the one that is being fitted.
    """

    def __init__(self, users: RidgeSide, items: RidgeSide, pool: RowPool, inner_iter: int, inner_tol: float) -> None:
        self.users, self.items = users, items
        self._pool, self._inner_iter, self._inner_tol = pool, inner_iter, inner_tol
        self._most = 0.0  # by which an inner iteration of this sweep has lowered the objective
        self._begun = False
        self._done = self._nothing()

    def sweeps(self) -> Iterator[Sweep]:
        """Sweep over the features for ever; the objective after each sweep."""
        while True:
            self.sweep()
            yield Sweep(self.objective())

    def result(self) -> Learned:
        """The factors of both sides, as they are now."""
        return Learned(self.users.factors.copy(), self.items.factors.copy())

    def sweep(self) -> None:
        """Fit one feature after the other, until enough of them were found at rest."""
        self._most, at_rest = 0.0, 0
        for t in range(self.users.factors.shape[1]):
            at_rest += self._fit_feature(t)
            if at_rest == FEATURES_AT_REST:
                break
        self._close()

    def objective(self) -> float:
        """Σ_observed R_ij² and both penalties."""
        from boundrec.rivals.kernels import row_squares

        squares = np.empty(len(self.users.factors))
        self._run(row_squares, self.users, squares)
        return float(squares.sum()) + self.users.penalty() + self.items.penalty()

    def _fit_feature(self, t: int) -> bool:
        """Fit w_it h_jt to the ratings less all other features; whether it was at rest already."""
        W, H = self.users.factors, self.items.factors
        u, v = W[:, t].copy(), H[:, t].copy()
        at_rest = self._alternate(u, v)
        W[:, t], H[:, t] = u, v
        self._done = u, v
        return at_rest

    def _alternate(self, u: Reals, v: Reals) -> bool:
        """Inner iterations until one lowers the objective little; whether the first one did."""
        for inner in range(self._inner_iter):
            decrease = self._first_step(u, v) if inner == 0 else self._step(u, v)
            if decrease < self._inner_tol * self._most:
                return inner == 0
            if self._begun:  # the first decrease of all comes from the start and would dwarf every other
                self._most = max(self._most, decrease)
            self._begun = True
        return False

    def _step(self, u: Reals, v: Reals) -> float:
        """The best v given u, then u given v; by how much that lowers the objective."""
        from boundrec.rivals.kernels import solve_scalars

        return self._solve(solve_scalars, self.items, v, u) + self._solve(solve_scalars, self.users, u, v)

    def _first_step(self, u: Reals, v: Reals) -> float:
        """The same where the residuals still leave out the feature before: they leave out this one from here on."""
        from boundrec.rivals.kernels import exchange_and_solve

        (done_u, done_v), before = self._done, v.copy()
        decrease = self._solve(exchange_and_solve, self.items, v, (done_v, done_u), u, u)
        return decrease + self._solve(exchange_and_solve, self.users, u, (done_u, done_v), before, v)

    def _solve(self, kernel: Callable[..., Any], side: RidgeSide, values: Reals, *fixed: Any) -> float:
        decrease = np.empty(len(values))
        self._run(kernel, side, *fixed, side.ridge, values, decrease)
        return float(decrease.sum())

    def _close(self) -> None:
        """Take away the last feature too, so that the residuals are those of all."""
        from boundrec.rivals.kernels import take_away

        u, v = self._done
        self._run(take_away, self.users, u, v)
        self._run(take_away, self.items, v, u)
        self._done = self._nothing()

    def _nothing(self) -> tuple[Reals, Reals]:
        """A feature whose product is zero: before the first one nothing is left out."""
        return np.zeros_like(self.users.factors[:, 0]), np.zeros_like(self.items.factors[:, 0])

    def _run(self, kernel: Callable[..., Any], side: RidgeSide, *arguments: Any) -> None:
        self._pool.run(kernel, side.csr.indptr, side.csr, *arguments, n_ranges=FEW_RANGES)
