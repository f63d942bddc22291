"""What MF and Bounded-SVD share: factors that descend a loss, in full batches or rating by rating."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from boundrec.arrays import Floats, Reals
from boundrec.data.ratings import Csr
from boundrec.models.answers import dot_rows
from boundrec.models.fit import Outcome, StoppingRule, Validation
from boundrec.models.fitted import Fitted
from boundrec.models.settings import check_flag, not_negative, one_of, positive, setting
from boundrec.notes import warn
from boundrec.rivals import Cut, RivalModel
from boundrec.solvers import Learned, Solver, Sweep
from boundrec.solvers.descent import Descent, MovingSide, Steps
from boundrec.solvers.threads import RowPool

GradientSolver = Literal["gd", "sgd"]
#: Columns that biases take in front of the factors: w = (b_i, 1, u_i), h = (1, c_j, q_j).
USER_BIAS, ITEM_BIAS = 0, 1
#: Spread of random factors that start around zero.
SPREAD = 0.1
#: Ratings that one call of an epoch's kernel visits: Ctrl-C is heard between calls.
AT_ONCE = 1_000_000


class Loss(NamedTuple):
    """The kernels of one loss: its gradient by rows, its value by rows, an epoch of SGD; and what all three need."""

    gradients: Callable[..., Any]
    values: Callable[..., Any]
    epoch: Callable[..., Any]
    settings: tuple[Any, ...] = ()


class FactorSide(MovingSide):
    """A side whose factors move themselves, all but the columns ``frozen``, which hold ones."""

    def __init__(self, csr: Csr, factors: Reals, frozen: list[int]) -> None:
        super().__init__(csr, factors, step=1.0)
        self.frozen = frozen
        self.counts = csr.row_weights()

    def size(self, rows: Reals) -> float:
        """Σ_i n_i |w_i|² without the frozen ones, where n_i = Σ_j c_ij: what a ridge penalises."""
        return float((self.counts * (dot_rows(rows, rows) - len(self.frozen))).sum())

    def safe_step(self, fixed: Reals, ridge: float) -> float:
        """One over the largest Σ_j c_ij (|h_j|² + ridge): no longer than a squared loss with fixed H can bear."""
        squares = dot_rows(fixed, fixed)[self.csr.indices]
        if self.csr.weights.size:
            squares *= self.csr.weights
        curvature = self.csr.sum_rows(squares) + ridge * self.counts
        return 1.0 / max(float(curvature.max()), np.finfo(float).tiny)


class FactorDescent(Descent[FactorSide]):
    """Descends F = Σ_observed c_ij [loss(v_ij, w_i·h_j) + ridge·(|w_i|² + |h_j|²)] by the factors themselves."""

    def __init__(
        self, users: FactorSide, items: FactorSide, pool: RowPool, loss: Loss, ridge: float, steps: Steps
    ) -> None:
        super().__init__(users, items, "dynamic", steps)
        self._pool, self.loss, self.ridge = pool, loss, ridge

    def value(self) -> float:
        """F at the present factors."""
        users, items, loss = self.users, self.items, self.loss
        indptr = users.csr.indptr
        self._pool.run(loss.values, indptr, users.csr, users.factors, items.factors, *loss.settings, users.errors)
        return float(users.errors.sum()) + self.ridge * (users.size(users.factors) + items.size(items.factors))

    def _evaluate(self, side: FactorSide, rows: Any, fixed: Any, gradient: Floats) -> float:
        loss, indptr = self.loss, side.csr.indptr
        self._pool.run(loss.gradients, indptr, side.csr, rows, fixed, *loss.settings, gradient, side.errors)
        with np.errstate(over="ignore"):  # a step that is too long is rejected, and that is all
            total = float(side.errors.sum())
            if self.ridge:
                gradient += self.ridge * side.counts[:, None] * rows
                other = self.items if side is self.users else self.users
                total += self.ridge * (side.size(rows) + other.size(fixed))
        return total

    def _set_slope(self, side: FactorSide) -> None:
        side.gradient[:, side.frozen] = 0.0
        side.slope = side.gradient
        side.slope_is_old = False

    def _propose(self, side: FactorSide, step: float) -> None:
        with np.errstate(over="ignore"):  # a step that is too long is rejected, and that is all
            side.trial[:] = side.factors - step * side.slope

    def _accept(self, side: FactorSide) -> None:
        side.factors[:] = side.trial


class StochasticDescent:
    """Stochastic gradient descent: every rating once in an epoch, in a new random order each time."""

    def __init__(
        self, descent: FactorDescent, entries: tuple[Any, ...], rate: float, n_biases: int, rng: np.random.Generator
    ) -> None:
        self._descent, self._entries, self._rate, self._n_biases, self._rng = descent, entries, rate, n_biases, rng

    def sweeps(self) -> Iterator[Sweep]:
        """The objective after each epoch."""
        descent, entries, n_epochs = self._descent, self._entries, 0
        loss, W, H = descent.loss, descent.users.factors, descent.items.factors
        while True:
            order = self._rng.permutation(len(entries[0]))
            shuffled = tuple(values[order] if values.size else values for values in entries)
            for start in range(0, len(order), AT_ONCE):
                some = tuple(values[start : start + AT_ONCE] for values in shuffled)
                loss.epoch(some, W, H, self._n_biases, self._rate, descent.ridge, *loss.settings)
            value = descent.value()
            n_epochs += 1
            if not np.isfinite(value):
                raise ValueError(
                    f"the objective is {value} after epoch {n_epochs}: sgd diverges on these ratings with "
                    f'learning_rate={self._rate}. Pass a smaller one, or solver="gd", which finds its own step.'
                )
            yield Sweep(value)

    def result(self) -> Learned:
        """The factors of both sides, as they are now."""
        return self._descent.result()


class GradientModel(RivalModel):
    """A factorisation whose factors descend a loss, in full batches or rating by rating.

    A model provides `_loss`. Biases are two more columns of the factors, so that a prediction remains one inner
    product and an offset.
    """

    solver: GradientSolver = setting(
        default="gd",
        rule=one_of(GradientSolver),
        meaning='``"gd"``: full-batch gradient descent with a dynamic step (×1.1 on success, ÷2 and roll back '
        'otherwise). ``"sgd"``: one small step for each rating in a new random order every epoch; serial, '
        "whatever ``n_jobs`` says.",
    )
    steps: Steps = setting(
        default="shared",
        rule=one_of(Steps),
        meaning='For gd: users and items move together by one ``"shared"`` step, as in the paper\'s baseline; or in '
        'turn, with ``"separate"`` steps, which fits the training ratings far faster.',
    )
    biases: bool = setting(
        default=False,
        rule=check_flag,
        meaning="Add the mean rating and a bias for each user and item: two more columns of the factors.",
    )
    ridge: float | None = setting(
        default=None,
        rule=not_negative(", or None", or_none=True),
        meaning="Weight of the squared factors (and biases), for every rating; None for the method's own: 0 for "
        "gd, and of MF's sgd 0.02.",
    )
    learning_rate: float | None = setting(
        default=None,
        rule=positive(", or None", or_none=True),
        meaning="The step of sgd, and the first step of gd; None for 0.005, and for gd one that squared losses can "
        "bear.",
    )

    #: What None stands for, by solver.
    DEFAULT_RIDGE: ClassVar[dict[str, float]] = {"gd": 0.0, "sgd": 0.02}
    DEFAULT_RATE: ClassVar[float] = 0.005
    DEFAULT_MAX_ITER: ClassVar[dict[str, int]] = {"gd": 500, "sgd": 20}

    def _loss(self, offset: float) -> Loss:
        raise NotImplementedError

    def _offset(self, start: Fitted) -> float:
        return start.mean if self.biases else 0.0

    def _solver(self, start: Fitted, pool: RowPool, rng: np.random.Generator, validation: Validation | None) -> Solver:
        assert isinstance(start.ranges, Cut)
        assert start.ratings is not None
        ratings, offset, dtype = start.ratings, start.ranges.offset, np.dtype(self.dtype)
        by_user = ratings.by_user._replace(data=(ratings.by_user.data - offset).astype(dtype))
        by_item = ratings.by_item._replace(data=(ratings.by_item.data - offset).astype(dtype))
        W: Reals = self._start(ratings.n_users, ITEM_BIAS, start.mean, rng).astype(dtype)
        H: Reals = self._start(ratings.n_items, USER_BIAS, start.mean, rng).astype(dtype)
        ridge = self.DEFAULT_RIDGE[self.solver] if self.ridge is None else float(self.ridge)
        users = FactorSide(by_user, W, [ITEM_BIAS] if self.biases else [])
        items = FactorSide(by_item, H, [USER_BIAS] if self.biases else [])
        descent = FactorDescent(users, items, pool, self._loss(offset), ridge, self.steps)
        if self.solver == "gd":
            self._set_first_steps(descent)
            return descent
        entries = ratings.user_of_rating(), *by_user[1:]
        return StochasticDescent(descent, entries, self._rate(), 2 if self.biases else 0, rng)

    def _start(self, n_rows: int, one: int, mean: float, rng: np.random.Generator) -> Floats:
        """Random factors whose mean prediction is the mean rating (resolution A23).

        Without biases U(0, 1)·√(4·mean/K): K products of two such numbers have the mean as their expectation.
        With biases, which start at zero around the mean, or without a positive mean: normal around zero.
        """
        shape = (n_rows, self.n_factors)
        if not self.biases and mean > 0:
            return np.asarray(rng.random(shape) * np.sqrt(4 * mean / self.n_factors))
        factors = SPREAD * rng.standard_normal(shape)
        if not self.biases:
            return factors
        own = np.zeros((n_rows, 2))
        own[:, one] = 1.0
        return np.hstack([own, factors])

    def _set_first_steps(self, descent: FactorDescent) -> None:
        users, items = descent.users, descent.items
        if self.learning_rate is not None:
            users.step = items.step = float(self.learning_rate)
            return
        users.step = users.safe_step(items.factors, descent.ridge)
        items.step = items.safe_step(users.factors, descent.ridge)
        if self.steps == "shared":
            users.step = items.step = min(users.step, items.step)

    def _n_bias_columns(self, has_biases: bool) -> int:
        return 2 if self.biases else 0

    def _together(self, start: Fitted, outcomes: list[Outcome], at_the_end: bool) -> Fitted:
        fitted = super()._together(start, outcomes, at_the_end)
        return replace(fitted, n_bias_columns=self._n_bias_columns(False))

    def _complete(self, fitted: Fitted, outcomes: list[Outcome]) -> Fitted:
        objectives, best = fitted.course.objectives, fitted.course.best_iter
        if self.solver == "sgd" and objectives[-1] > objectives[0] and best is None:
            warn(
                f"the objective rose from {objectives[0]:.3g} to {objectives[-1]:.3g} in {len(objectives)} epochs of "
                f'sgd with learning_rate={self._rate()}: pass a smaller one, or solver="gd", which finds its own step.',
                ConvergenceWarning,
            )
        return fitted

    def _rate(self) -> float:
        """The step of sgd."""
        return self.DEFAULT_RATE if self.learning_rate is None else float(self.learning_rate)

    def _default_max_iter(self) -> int:
        return self.DEFAULT_MAX_ITER[self.solver]

    def _seeks_rest(self) -> bool:
        return self.solver == "gd"  # a few epochs of sgd, stopped early, are its regularisation

    def _stopping_rule(self) -> StoppingRule:
        return StoppingRule(self.tol, self.patience, self.tol_mode, may_rise=self.solver == "sgd")
