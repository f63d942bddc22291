"""CCD++: cyclic coordinate descent, one feature of the factorisation at a time (Yu, Hsieh, Si and Dhillon, 2012)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from boundrec.columns import short
from boundrec.models.predicting import Unknown
from boundrec.models.ridge import RidgeSide, check_ridge
from boundrec.models.rival import RivalModel
from boundrec.models.settings import BoundsSetting, FloatType, Seed, check_count, is_number
from boundrec.models.stopping import Sweep
from boundrec.parallel import FEW_RANGES, RowPool
from boundrec.ratings import Csr, Duplicates, Ratings

Column = NDArray[np.floating]

RidgeMode = Literal["weighted", "plain"]
#: A sweep ends once so many of its features were at rest when it came to them.
FEATURES_AT_REST = 5


class CCDPlusPlus(RivalModel):
    """CCD++: a factorisation with a ridge, fitted by rank-one updates of the residuals.

    Minimises Σ_observed (v_ij − w_i·h_j)² + Σ_i λ_i‖w_i‖² + Σ_j λ_j‖h_j‖², where λ_i is ``ridge`` times the number
    of the row's ratings ("weighted") or ``ridge`` itself ("plain"). A sweep takes the features in turn: column t
    of W and of H is fitted to what the other features leave of the ratings, each entry exactly, the items' and the
    users' in turn. The inner iterations and their stopping rule are those of the authors' program, LIBPMF.

    Parameters
    ----------
    n_factors
        K, the number of features.
    bounds
        What every rating is known to obey: ``(lo, hi)``, ``(lo, None)``, ``(None, hi)`` or None. Ratings outside
        are refused; predictions may pass either end.
    ridge
        Weight of the squared factors.
    ridge_mode
        ``"weighted"``: for every rating, as in LIBPMF. ``"plain"``: once for every row, as in the publication.
    inner_iter, inner_tol
        At most so many inner iterations for a feature; fewer once one lowers the objective by less than
        ``inner_tol`` times the most that any has in this sweep.
    clip
        Cut predictions to ``bounds``.
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
        At most so many sweeps (None: 500); stop earlier when the objective's relative decrease is below ``tol``
        for ``patience`` of them in a row.
    dtype
        ``"float64"`` or ``"float32"``, for the stored factors; residuals and arithmetic are in float64.
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
    user_ids_, item_ids_
        The ids behind the rows, as ``.ids``.
    objectives_, seconds_, n_iter_
        The objective, ridge included, and the time after each sweep, and how many there were.
    eval_errors_, best_iter_
        The error (RMSE) on the ratings set aside, or on the ``eval_set``, after each sweep, and where it was least,
        counted from 1; empty and None where there is nothing to evaluate on.
    """

    CHOICES: ClassVar[dict[str, tuple[str, ...]]] = {**RivalModel.CHOICES, "ridge_mode": get_args(RidgeMode)}

    def __init__(
        self,
        n_factors: int = 20,
        *,
        bounds: BoundsSetting = None,
        ridge: float = 0.1,
        ridge_mode: RidgeMode = "weighted",
        inner_iter: int = 5,
        inner_tol: float = 1e-3,
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
        self.ridge = ridge
        self.ridge_mode = ridge_mode
        self.inner_iter = inner_iter
        self.inner_tol = inner_tol
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

    def _check_settings(self) -> None:
        super()._check_settings()
        check_ridge(self.ridge)
        check_count("inner_iter", self.inner_iter, 1)
        if not is_number(self.inner_tol) or not 0 <= self.inner_tol < 1:
            raise ValueError(f"inner_tol={short(self.inner_tol)}: give a number of at least 0 and below 1.")

    def _sweeps(self, ratings: Ratings, pool: RowPool, rng: np.random.Generator) -> Iterator[Sweep]:
        self.user_factors_ = (0.1 * rng.random((ratings.n_users, self.n_factors))).astype(self.dtype)
        self.item_factors_ = np.zeros((ratings.n_items, self.n_factors), self.dtype)
        users = self._side(ratings.by_user, self.user_factors_, ratings.n_items)
        items = self._side(ratings.by_item, self.item_factors_, ratings.n_users)
        return RankOneDescent(users, items, pool, self.inner_iter, float(self.inner_tol)).sweeps()

    def _side(self, csr: Csr, factors: NDArray[np.floating], n_others: int) -> RidgeSide:
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
        from boundrec.kernels import row_squares

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

    def _alternate(self, u: Column, v: Column) -> bool:
        """Inner iterations until one lowers the objective little; whether the first one did."""
        for inner in range(self._inner_iter):
            decrease = self._first_step(u, v) if inner == 0 else self._step(u, v)
            if decrease < self._inner_tol * self._most:
                return inner == 0
            if self._begun:  # the first decrease of all comes from the start and would dwarf every other
                self._most = max(self._most, decrease)
            self._begun = True
        return False

    def _step(self, u: Column, v: Column) -> float:
        """The best v given u, then u given v; by how much that lowers the objective."""
        from boundrec.kernels import solve_scalars

        return self._solve(solve_scalars, self.items, v, u) + self._solve(solve_scalars, self.users, u, v)

    def _first_step(self, u: Column, v: Column) -> float:
        """The same where the residuals still leave out the feature before: they leave out this one from here on."""
        from boundrec.kernels import exchange_and_solve

        (done_u, done_v), before = self._done, v.copy()
        decrease = self._solve(exchange_and_solve, self.items, v, (done_v, done_u), u, u)
        return decrease + self._solve(exchange_and_solve, self.users, u, (done_u, done_v), before, v)

    def _solve(self, kernel: Callable[..., Any], side: RidgeSide, values: Column, *fixed: Any) -> float:
        decrease = np.empty(len(values))
        self._run(kernel, side, *fixed, side.ridge, values, decrease)
        return float(decrease.sum())

    def _close(self) -> None:
        """Take away the last feature too, so that the residuals are those of all."""
        from boundrec.kernels import take_away

        u, v = self._done
        self._run(take_away, self.users, u, v)
        self._run(take_away, self.items, v, u)
        self._done = self._nothing()

    def _nothing(self) -> tuple[Column, Column]:
        """A feature whose product is zero: before the first one nothing is left out."""
        return np.zeros_like(self.users.factors[:, 0]), np.zeros_like(self.items.factors[:, 0])

    def _run(self, kernel: Callable[..., Any], side: RidgeSide, *arguments: Any) -> None:
        self._pool.run(kernel, side.csr.indptr, side.csr, *arguments, n_ranges=FEW_RANGES)
