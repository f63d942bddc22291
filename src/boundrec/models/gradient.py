"""What MF and Bounded-SVD share: factors that descend a loss, in full batches or rating by rating."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from boundrec.columns import short
from boundrec.models.base import Callback, Floats
from boundrec.models.descent import Descent, MovingSide, Steps
from boundrec.models.notes import warn
from boundrec.models.predicting import dot_rows
from boundrec.models.rival import RivalModel
from boundrec.models.settings import check_flag, is_number
from boundrec.models.stopping import Sweep
from boundrec.parallel import RowPool
from boundrec.ratings import Csr, Ratings

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

    def __init__(self, csr: Csr, factors: NDArray[np.floating], frozen: list[int]) -> None:
        super().__init__(csr, factors, step=1.0)
        self.frozen = frozen
        self.counts = csr.row_weights()

    def size(self, rows: NDArray[np.floating]) -> float:
        """Σ_i n_i |w_i|² without the frozen ones, where n_i = Σ_j c_ij: what a ridge penalises."""
        return float((self.counts * (dot_rows(rows, rows) - len(self.frozen))).sum())

    def safe_step(self, fixed: NDArray[np.floating], ridge: float) -> float:
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


class GradientModel(RivalModel):
    """A factorisation whose factors descend a loss, in full batches or rating by rating.

    A model provides `_loss`. Biases are two more columns of the factors, so that a prediction remains one inner
    product and an offset.
    """

    solver: GradientSolver
    steps: Steps
    biases: bool
    ridge: float | None
    learning_rate: float | None

    CHOICES: ClassVar[dict[str, tuple[str, ...]]] = {
        **RivalModel.CHOICES,
        "solver": get_args(GradientSolver),
        "steps": get_args(Steps),
    }
    #: What None stands for, by solver.
    DEFAULT_RIDGE: ClassVar[dict[str, float]] = {"gd": 0.0, "sgd": 0.02}
    DEFAULT_RATE: ClassVar[float] = 0.005
    DEFAULT_MAX_ITER: ClassVar[dict[str, int]] = {"gd": 500, "sgd": 20}

    def _loss(self) -> Loss:
        raise NotImplementedError

    def _check_settings(self) -> None:
        super()._check_settings()
        check_flag("biases", self.biases)
        rate, ridge = self.learning_rate, self.ridge
        if rate is not None and not (is_number(rate) and 0 < rate < np.inf):
            raise ValueError(f"learning_rate={short(rate)}: give a positive number, or None.")
        if ridge is not None and not (is_number(ridge) and 0 <= ridge < np.inf):
            raise ValueError(f"ridge={short(ridge)}: give a number of at least 0, or None.")

    def _default_max_iter(self) -> int:
        return self.DEFAULT_MAX_ITER[self.solver]

    def _seeks_rest(self) -> bool:
        return self.solver == "gd"  # a few epochs of sgd, stopped early, are its regularisation

    def _may_rise(self) -> bool:
        return self.solver == "sgd"

    def _rate(self) -> float:
        """The step of sgd."""
        return self.DEFAULT_RATE if self.learning_rate is None else float(self.learning_rate)

    def _run(self, ratings: Ratings, rng: np.random.Generator, callback: Callback | None) -> bool:
        to_the_end = super()._run(ratings, rng, callback)
        first, last = self.objectives_[0], self.objectives_[-1]
        if self.solver == "sgd" and last > first and self.best_iter_ is None:
            warn(
                f"the objective rose from {first:.3g} to {last:.3g} in {self.n_iter_} epochs of sgd with "
                f'learning_rate={self._rate()}: pass a smaller one, or solver="gd", which finds its own step.',
                ConvergenceWarning,
            )
        return to_the_end

    def _sweeps(self, ratings: Ratings, pool: RowPool, rng: np.random.Generator) -> Iterator[Sweep]:
        self._offset = self.mean_ if self.biases else 0.0
        dtype = np.dtype(self.dtype)
        by_user = ratings.by_user._replace(data=(ratings.by_user.data - self._offset).astype(dtype))
        by_item = ratings.by_item._replace(data=(ratings.by_item.data - self._offset).astype(dtype))
        self.user_factors_ = self._start(ratings.n_users, ITEM_BIAS, rng).astype(dtype)
        self.item_factors_ = self._start(ratings.n_items, USER_BIAS, rng).astype(dtype)
        ridge = self.DEFAULT_RIDGE[self.solver] if self.ridge is None else float(self.ridge)
        users = FactorSide(by_user, self.user_factors_, [ITEM_BIAS] if self.biases else [])
        items = FactorSide(by_item, self.item_factors_, [USER_BIAS] if self.biases else [])
        descent = FactorDescent(users, items, pool, self._loss(), ridge, self.steps)
        if self.solver == "gd":
            self._set_first_steps(descent)
            return descent.sweeps()
        return self._epochs((ratings.user_of_rating(), *by_user[1:]), descent, rng)

    def _start(self, n_rows: int, one: int, rng: np.random.Generator) -> Floats:
        """Random factors whose mean prediction is the mean rating (resolution A23).

        Without biases U(0, 1)·√(4·mean/K): K products of two such numbers have the mean as their expectation.
        With biases, which start at zero around the mean, or without a positive mean: normal around zero.
        """
        shape = (n_rows, self.n_factors)
        if not self.biases and self.mean_ > 0:
            return np.asarray(rng.random(shape) * np.sqrt(4 * self.mean_ / self.n_factors))
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

    def _epochs(self, entries: tuple[Any, ...], descent: FactorDescent, rng: np.random.Generator) -> Iterator[Sweep]:
        """Stochastic gradient descent: every rating once in an epoch, in a new random order each time."""
        loss, W, H = descent.loss, self.user_factors_, self.item_factors_
        columns, rate = 2 if self.biases else 0, self._rate()
        while True:
            order = rng.permutation(len(entries[0]))
            shuffled = tuple(values[order] if values.size else values for values in entries)
            for start in range(0, len(order), AT_ONCE):
                some = tuple(values[start : start + AT_ONCE] for values in shuffled)
                loss.epoch(some, W, H, columns, rate, descent.ridge, *loss.settings)
            value = descent.value()
            if not np.isfinite(value):
                raise ValueError(
                    f"the objective is {value} after epoch {self.n_iter_ + 1}: sgd diverges on these ratings with "
                    f'learning_rate={rate}. Pass a smaller one, or solver="gd", which finds its own step.'
                )
            yield Sweep(value)
