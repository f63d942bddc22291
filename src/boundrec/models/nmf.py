"""Non-negative factorisation of the observed ratings by multiplicative updates (Lee and Seung, with a mask)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from boundrec.models.predicting import Unknown
from boundrec.models.ridge import RidgeSide, check_ridge
from boundrec.models.rival import RivalModel
from boundrec.models.settings import BoundsSetting, FloatType, Seed
from boundrec.models.stopping import Sweep
from boundrec.parallel import RowPool
from boundrec.ranges import check_bounds
from boundrec.ratings import Csr, Duplicates, Ratings


class NMF(RivalModel):
    """Non-negative Matrix Factorisation: a prediction is the lower end of the ratings plus w_i·h_j, with w, h ≥ 0.

    Minimises Σ_observed (v_ij − w_i·h_j)² + ridge·(Σ_i n_i‖w_i‖² + Σ_j n_j‖h_j‖²) over W, H ≥ 0, where v_ij is the
    rating above ``bounds[0]`` (without one, above the smallest rating if that is negative, else above 0) and
    n_i, n_j count a user's and an item's ratings. Each sweep multiplies W, then H, by a ratio of two sums over
    the observed entries; the objective never rises. Predictions have a lower end and no upper one: users and
    items with few ratings can be predicted far beyond the scale, most of all without a ridge.

    Parameters
    ----------
    n_factors
        K, the length of the factors.
    bounds
        What every rating is known to obey: ``(lo, hi)``, ``(lo, None)``, ``(None, hi)`` or None. Ratings outside
        are refused; predictions may pass the upper end.
    ridge
        Weight of the squared factors, for every rating; 0 is the plain method.
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
        ``"float64"`` or ``"float32"``, for the stored factors and shifted ratings; sums are in float64.
    random_state
        Seed of the start.
    n_jobs
        Threads; None for every core. The result has the same bits for any number.
    verbose
        1 prints a line for every sweep to stderr.

    Attributes
    ----------
    user_factors_, item_factors_
        W and H, one row for each user and each item, nowhere negative.
    user_ids_, item_ids_
        The ids behind the rows, as ``.ids``.
    objectives_, seconds_, n_iter_
        The objective and the time after each sweep, and how many there were.
    eval_errors_, best_iter_
        The error (RMSE) on the ratings set aside, or on the ``eval_set``, after each sweep, and where it was least,
        counted from 1; empty and None where there is nothing to evaluate on.
    """

    def __init__(
        self,
        n_factors: int = 20,
        *,
        bounds: BoundsSetting = None,
        ridge: float = 0.0,
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

    def _sweeps(self, ratings: Ratings, pool: RowPool, rng: np.random.Generator) -> Iterator[Sweep]:
        self._offset = self._shift(ratings)
        self.user_factors_, self.item_factors_ = self._start(ratings, rng)
        users, items = (
            RidgeSide(self._above_offset(csr), factors, float(self.ridge) * csr.row_weights())
            for csr, factors in ((ratings.by_user, self.user_factors_), (ratings.by_item, self.item_factors_))
        )
        return multiply(users, items, pool)

    def _shift(self, ratings: Ratings) -> float:
        """What makes every rating non-negative when it is taken away."""
        low, _ = check_bounds(self.bounds)
        return low if low is not None else min(0.0, float(ratings.by_user.data.min()))

    def _above_offset(self, csr: Csr) -> Csr:
        return csr._replace(data=(csr.data - self._offset).astype(self.dtype))

    def _start(self, ratings: Ratings, rng: np.random.Generator) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
        """Uniform factors, scaled alike so that the mean over all their products is the mean rating."""
        W = rng.random((ratings.n_users, self.n_factors))
        H = rng.random((ratings.n_items, self.n_factors))
        mean = max(self.mean_ - self._offset, 0.0)  # rounding may put the mean of equal ratings below them
        scale = np.sqrt(mean / (W.mean(axis=0) @ H.mean(axis=0)))
        return (scale * W).astype(self.dtype), (scale * H).astype(self.dtype)


def multiply(users: RidgeSide, items: RidgeSide, pool: RowPool) -> Iterator[Sweep]:
    """Multiplicative updates: the users' factors, then the items' against the predictions of the new ones."""
    from boundrec.kernels import multiply_rows, squared_errors

    errors = np.empty(len(users.factors))
    while True:
        for side, fixed in ((users, items.factors), (items, users.factors)):
            pool.run(multiply_rows, side.csr.indptr, side.csr, fixed, side.ridge, side.factors)
        pool.run(squared_errors, users.csr.indptr, users.csr, users.factors, items.factors, errors)
        yield Sweep(float(errors.sum()) + users.penalty() + items.penalty())
