"""MF: the factorisation without bounds, by full-batch gradient descent (the paper's baseline) or Koren's SGD."""

from __future__ import annotations

from boundrec.models.descent import Steps
from boundrec.models.gradient import GradientModel, GradientSolver, Loss
from boundrec.models.predicting import Unknown
from boundrec.models.settings import BoundsSetting, FloatType, Seed
from boundrec.ratings import Duplicates


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
        solver: GradientSolver = "gd",
        steps: Steps = "shared",
        biases: bool = False,
        ridge: float | None = None,
        learning_rate: float | None = None,
        bounds: BoundsSetting = None,
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
        self.solver = solver
        self.steps = steps
        self.biases = biases
        self.ridge = ridge
        self.learning_rate = learning_rate
        self.bounds = bounds
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

    def _loss(self) -> Loss:
        from boundrec.kernels import row_gradients, sgd_epoch, squared_errors

        return Loss(row_gradients, squared_errors, sgd_epoch)
