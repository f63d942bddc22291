"""MF: the factorisation without bounds, by full-batch gradient descent (the paper's baseline) or Koren's SGD."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from boundrec.models.base import Floats, Sweep
from boundrec.models.descent import Descent, FactorSide
from boundrec.models.rival import RivalModel
from boundrec.parallel import RowPool
from boundrec.ratings import Ratings

#: Columns that biases take in front of the factors: w = (b_i, 1, u_i), h = (1, c_j, q_j).
USER_BIAS, ITEM_BIAS = 0, 1
#: Spread of random factors that start around zero.
SPREAD = 0.1


class Loss(NamedTuple):
    """The kernels of one loss: its gradient by rows, its value by rows, an epoch of SGD; and what all three need."""

    gradients: Callable[..., Any]
    values: Callable[..., Any]
    epoch: Callable[..., Any]
    settings: tuple[Any, ...] = ()


class Objective:
    """F = Σ_observed c_ij [loss(v_ij, w_i·h_j) + ridge·(|w_i|² + |h_j|²)]."""

    def __init__(self, loss: Loss, ridge: float, users: FactorSide, items: FactorSide, pool: RowPool) -> None:
        self.loss, self.ridge, self._pool = loss, ridge, pool
        self._users, self._items = users, items

    def __call__(
        self, side: FactorSide, rows: NDArray[np.floating], fixed: NDArray[np.floating], gradient: Floats
    ) -> float:
        """F at (rows, fixed), and half of ∂F/∂rows into ``gradient``."""
        loss, indptr = self.loss, side.csr.indptr
        self._pool.run(loss.gradients, indptr, side.csr, rows, fixed, *loss.settings, gradient, side.errors)
        total = float(side.errors.sum())
        if self.ridge:
            gradient += self.ridge * side.counts[:, None] * rows
            other = self._items if side is self._users else self._users
            total += self.ridge * (side.size(rows) + other.size(fixed))
        return total

    def value(self) -> float:
        """F at the present factors."""
        users, items, loss = self._users, self._items, self.loss
        indptr = users.csr.indptr
        self._pool.run(loss.values, indptr, users.csr, users.factors, items.factors, *loss.settings, users.errors)
        return float(users.errors.sum()) + self.ridge * (users.size(users.factors) + items.size(items.factors))


class GradientModel(RivalModel):
    """A factorisation that descends an `Objective`, in full batches or rating by rating.

    A model provides `_loss`. Biases are two more columns of the factors, so that a prediction remains one inner
    product and an offset.
    """

    solver: str
    steps: str
    biases: bool
    ridge: float | None
    learning_rate: float | None

    CHOICES: ClassVar[dict[str, tuple[str, ...]]] = {
        **RivalModel.CHOICES,
        "solver": ("gd", "sgd"),
        "steps": ("shared", "separate"),
    }
    #: What None stands for, by solver.
    DEFAULT_RIDGE: ClassVar[dict[str, float]] = {"gd": 0.0, "sgd": 0.02}
    DEFAULT_RATE: ClassVar[float] = 0.005
    DEFAULT_MAX_ITER: ClassVar[dict[str, int]] = {"gd": 500, "sgd": 20}

    def _loss(self) -> Loss:
        raise NotImplementedError

    def _check_settings(self) -> None:
        super()._check_settings()
        if self.learning_rate is not None and not 0 < self.learning_rate < np.inf:
            raise ValueError(f"learning_rate={self.learning_rate!r}: give a positive number, or None.")
        if self.ridge is not None and not 0 <= self.ridge < np.inf:
            raise ValueError(f"ridge={self.ridge!r}: give a number of at least 0, or None.")

    def _default_max_iter(self) -> int:
        return self.DEFAULT_MAX_ITER[self.solver]

    def _sweeps(self, ratings: Ratings, pool: RowPool, rng: np.random.Generator) -> Iterator[Sweep]:
        self._offset = self.mean_ if self.biases else 0.0
        dtype = np.dtype(self.dtype)
        by_user = ratings.by_user._replace(data=(ratings.by_user.data - self._offset).astype(dtype))
        by_item = ratings.by_item._replace(data=(ratings.by_item.data - self._offset).astype(dtype))
        self.user_factors_ = self._start(ratings.n_users, ITEM_BIAS, rng).astype(dtype)
        self.item_factors_ = self._start(ratings.n_items, USER_BIAS, rng).astype(dtype)
        ridge = self.DEFAULT_RIDGE[self.solver] if self.ridge is None else self.ridge
        users = FactorSide(by_user, self.user_factors_, [ITEM_BIAS] if self.biases else [])
        items = FactorSide(by_item, self.item_factors_, [USER_BIAS] if self.biases else [])
        objective = Objective(self._loss(), ridge, users, items, pool)
        if self.solver == "gd":
            return self._descend(users, items, objective)
        return self._epochs((ratings.user_of_rating(), *by_user[1:]), objective, rng)

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

    def _descend(self, users: FactorSide, items: FactorSide, objective: Objective) -> Iterator[Sweep]:
        """Full-batch gradient descent with the paper's dynamic step."""
        if self.learning_rate is not None:
            users.step = items.step = self.learning_rate
        else:
            users.step = users.safe_step(items.factors, objective.ridge)
            items.step = items.safe_step(users.factors, objective.ridge)
        return Descent(users, items, objective, steps=self.steps).sweeps()

    def _epochs(self, entries: tuple[Any, ...], objective: Objective, rng: np.random.Generator) -> Iterator[Sweep]:
        """Stochastic gradient descent: every rating once in an epoch, in a new random order each time."""
        loss, W, H = objective.loss, self.user_factors_, self.item_factors_
        columns = 2 if self.biases else 0
        rate = self.DEFAULT_RATE if self.learning_rate is None else self.learning_rate
        while True:
            order = rng.permutation(len(entries[0]))
            shuffled = tuple(values[order] if values.size else values for values in entries)
            loss.epoch(shuffled, W, H, columns, rate, objective.ridge, *loss.settings)
            value = objective.value()
            if not np.isfinite(value):
                raise ValueError(
                    f"the objective is {value} after epoch {self.n_iter_ + 1}: sgd diverges on these ratings with "
                    f'learning_rate={rate}. Pass a smaller one, or solver="gd", which finds its own step.'
                )
            yield Sweep(value)


class MF(GradientModel):
    """Matrix factorisation without bounds: the paper's baseline, or Koren's with biases and ridge.

    Minimises Σ_observed (v_ij − p_ij)² + ridge·(|w_i|² + |h_j|²), where p_ij = w_i·h_j, or with biases
    p_ij = μ + b_i + c_j + u_i·q_j with the mean rating μ (b_i and c_j are penalised like the factors).

    Parameters
    ----------
    n_factors
        K, the length of the factors, biases not counted.
    solver
        ``"gd"``: full-batch gradient descent with a dynamic step (×1.1 on success, ÷2 and roll back otherwise).
        ``"sgd"``: one small step for each rating in a new random order every epoch; serial, whatever ``n_jobs``
        says.
    steps
        For gd: users and items move together by one ``"shared"`` step, as in the paper's baseline; or in turn, with
        ``"separate"`` steps, which fits the training ratings far faster.
    biases
        Whether each user and each item has a bias. They are the first two columns of the factors,
        w_i = (b_i, 1, u_i) and h_j = (1, c_j, q_j).
    ridge
        Penalty for each rating on the size of its factors; None: 0 for gd, 0.02 for sgd.
    learning_rate
        Length of a step along half the gradient; for gd of the first step. None: 0.005 for sgd, for gd one that
        the curvature of the squared errors allows.
    bounds
        What every rating is known to obey, ``(lo, hi)``: ratings outside are refused. Predictions may leave it.
    clip
        Whether predictions are cut to the bounds.
    on_unknown
        What pairs with an id that has no training rating get: the known side's ``"mean"``, ``"nan"``, or an error
        (``"raise"``).
    duplicates
        What happens to pairs that come more than once: ``"raise"``, ``"last"``, ``"mean"``.
    max_iter, tol, patience
        At most so many iterations (None: 500 for gd, 20 epochs for sgd); stop earlier when the objective's relative
        decrease is below ``tol`` for ``patience`` in a row.
    dtype
        ``"float64"`` or ``"float32"``, for the stored factors and ratings; arithmetic is in float64.
    random_state
        Seed of the start and of sgd's orders.
    n_jobs
        Threads; None for every core. The result has the same bits for any number.
    verbose
        1 prints a line for every iteration to stderr.

    Attributes
    ----------
    user_factors_, item_factors_
        W and H, one row for each user and each item.
    user_ids_, item_ids_
        The ids behind the rows, as ``.ids``.
    objectives_, seconds_, n_iter_, n_rejected_
        The objective and the time after each iteration, how many there were, and how many moved nothing.

    Examples
    --------
    >>> from boundrec import MF
    >>> X = [("ann", "tea"), ("ann", "rum"), ("bob", "tea"), ("bob", "gin"), ("eve", "rum"), ("eve", "gin")]
    >>> model = MF(n_factors=1, random_state=0).fit(X, [5, 1, 4, 5, 2, 1])
    >>> model.predict([("ann", "gin")]).shape
    (1,)
    """

    def __init__(
        self,
        n_factors: int = 20,
        *,
        solver: str = "gd",
        steps: str = "shared",
        biases: bool = False,
        ridge: float | None = None,
        learning_rate: float | None = None,
        bounds: Any = None,
        clip: bool = False,
        on_unknown: str = "mean",
        duplicates: str = "raise",
        max_iter: int | None = None,
        tol: float = 1e-5,
        patience: int = 10,
        dtype: Any = "float64",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_factors = n_factors
        self.solver = solver
        self.steps = steps
        self.biases = biases
        self.ridge = ridge
        self.learning_rate = learning_rate
        self.bounds = bounds
        self.clip = clip
        self.on_unknown = on_unknown
        self.duplicates = duplicates
        self.max_iter = max_iter
        self.tol = tol
        self.patience = patience
        self.dtype = dtype
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _loss(self) -> Loss:
        from boundrec.kernels import row_gradients, sgd_epoch, squared_errors

        return Loss(row_gradients, squared_errors, sgd_epoch)
