"""Bounded-SVD: a factorisation whose observed predictions are pushed back by exponential walls at the bounds.

By Le, Nguyen and Thawonmas (EITES 2015); with biases, by Le, Mori and Thawonmas (J. Inf. Process. 24(2), 2016).
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from boundrec.columns import short
from boundrec.models.descent import Steps
from boundrec.models.gradient import GradientModel, GradientSolver, Loss
from boundrec.models.predicting import Unknown
from boundrec.models.settings import BoundsSetting, FloatType, Seed, is_number
from boundrec.ratings import Duplicates

#: The range in which ``penalty`` and ``sharpness`` are measured: that of one to five stars.
USUAL_RANGE = 4.0


class BoundedSVD(GradientModel):
    """Bounded-SVD: squared errors and exponential walls at both bounds, on the observed entries only.

    Minimises Σ_observed (v_ij − p_ij)² + λ(e^{α(p_ij − hi)} + e^{α(lo − p_ij)}) + ridge·(|w_i|² + |h_j|²), where
    p_ij = w_i·h_j, or with biases μ + b_i + c_j + u_i·q_j. (The paper's formula lacks the square and sums over
    all entries: resolution A20.) Predictions of unobserved pairs may leave the bounds.

    Parameters
    ----------
    n_factors
        K, the length of the factors, biases not counted.
    bounds
        ``(lo, hi)``, both ends; ratings outside are refused.
    penalty
        λ, how much the walls weigh, on a range of 4 such as one to five stars: on others it is multiplied by
        ((hi − lo)/4)², the unit of squared errors.
    sharpness
        α, how steep the walls are, on a range of 4: on others it is divided by (hi − lo)/4. With both so, a fit
        to ratings in other units is the same fit in other units.
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
        Penalty for each rating on the size of its factors; None: 0, as published.
    learning_rate
        Length of a step along half the gradient; for gd of the first step. None: 0.005 for sgd, for gd one that
        the curvature of the squared errors allows.
    clip
        Whether predictions are cut to the bounds.
    on_unknown
        What pairs with an id that has no training rating get: the known side's ``"mean"``, ``"nan"``, or an error
        (``"raise"``).
    duplicates
        What happens to pairs that come more than once: ``"raise"``, ``"last"``, ``"mean"``.
    validation_fraction, n_iter_no_change
        Early stopping, off by default: a random share of the ratings is set aside and not trained on; once the error
        on it has not fallen for so many iterations in a row the fit stops, and the model is that of the best one.
        ``n_iter_no_change=None`` only records the errors. An ``eval_set`` given to ``fit`` serves instead of a share.
    max_iter, tol, patience
        At most so many iterations (None: 500 for gd, 20 epochs for sgd); stop earlier when the objective's relative
        decrease is below ``tol`` for ``patience`` in a row.
    dtype
        ``"float64"`` or ``"float32"``, for the stored factors and ratings; sums are in float64.
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
    eval_errors_, best_iter_
        The error (RMSE) on the ratings set aside, or on the ``eval_set``, after each iteration, and where it was least,
        counted from 1; empty and None where there is nothing to evaluate on.

    Examples
    --------
    >>> from boundrec import BoundedSVD
    >>> X = [("ann", "tea"), ("ann", "rum"), ("bob", "tea"), ("bob", "gin"), ("eve", "rum"), ("eve", "gin")]
    >>> model = BoundedSVD(n_factors=1, bounds=(1, 5), random_state=0).fit(X, [5, 1, 4, 5, 2, 1])
    >>> model.predict([("ann", "gin")]).shape
    (1,)
    """

    NEEDS_BOUNDS = True
    DEFAULT_RIDGE: ClassVar[dict[str, float]] = {"gd": 0.0, "sgd": 0.0}

    def __init__(
        self,
        n_factors: int = 20,
        *,
        bounds: BoundsSetting = None,
        penalty: float = 0.05,
        sharpness: float = 1.0,
        solver: GradientSolver = "gd",
        steps: Steps = "shared",
        biases: bool = False,
        ridge: float | None = None,
        learning_rate: float | None = None,
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
        self.penalty = penalty
        self.sharpness = sharpness
        self.solver = solver
        self.steps = steps
        self.biases = biases
        self.ridge = ridge
        self.learning_rate = learning_rate
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
        if not is_number(self.penalty) or not 0 <= self.penalty < np.inf:
            raise ValueError(f"penalty={short(self.penalty)}: give a number of at least 0.")
        if not is_number(self.sharpness) or not 0 < self.sharpness < np.inf:
            raise ValueError(f"sharpness={short(self.sharpness)}: give a positive number.")

    def _loss(self) -> Loss:
        from boundrec.kernels import walled_errors, walled_gradients, walled_sgd_epoch

        low, high = self._both_bounds()
        scale = (high - low) / USUAL_RANGE
        walls = float(self.penalty) * scale**2, float(self.sharpness) / scale, low - self._offset, high - self._offset
        return Loss(walled_gradients, walled_errors, walled_sgd_epoch, (walls,))
