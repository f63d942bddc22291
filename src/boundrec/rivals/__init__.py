"""What the six methods that the paper compares MBMF with have in common; each has a file beside this one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Never, Self, cast

import numpy as np
from numpy.typing import ArrayLike

from boundrec.arrays import Bools, Codes, Floats, Reals
from boundrec.data.columns import short
from boundrec.data.ratings import Csr, Pairs
from boundrec.models.estimator import Callback, RatingModel, refuse_unknown_arguments
from boundrec.models.fit import StoppingRule
from boundrec.models.fitted import Fitted
from boundrec.models.settings import RestSettings, check_flag, setting
from boundrec.notes import warn
from boundrec.ranges import check_bounds
from boundrec.ranges.scale import Scale

#: A fit that may take longer than this is announced.
LONG = 30 * 60
#: Bytes above which a fit's own memory is announced.
LARGE = 2 * 10**9


@dataclass(frozen=True)
class Cut:
    """One range for all pairs, which predictions are cut to; nothing is cut at an infinite end.

    ``offset`` is added to every inner product: a mean, or the shift that made the data non-negative.
    """

    offset: float = 0.0
    lower: float = -np.inf
    upper: float = np.inf

    scale: ClassVar[Scale] = Scale()

    def interval(self, pairs: Pairs) -> tuple[Floats, Floats]:
        """The same ends for every pair."""
        return np.full(len(pairs), self.lower), np.full(len(pairs), self.upper)

    def to_value(self, inner: Floats, pairs: Pairs) -> Floats:
        """The inner product and the offset."""
        return self.offset + inner

    def needed(self, users: Codes, scores: Floats, low: float, high: float) -> Floats:
        """Every inner product reaches what predictions are cut to."""
        return np.where(scores <= self.lower, -np.inf, scores - self.offset)

    def vectors(self, users: Reals, items: Reals) -> tuple[Reals, Reals]:
        """The factors themselves."""
        return users, items

    def magnitudes_that_decide(self) -> Floats | None:
        """There are none."""
        return None

    def keeps_order(self, trained: Bools) -> bool:
        """But for ties that cutting makes."""
        return True


class RivalModel(RestSettings, RatingModel):
    """A factorisation with at most one pair of bounds for all; predictions are cut to it only with ``clip=True``."""

    clip: bool = setting(default=False, rule=check_flag, meaning="Cut predictions to ``bounds``.")

    STORED: ClassVar[dict[str, str]] = {**RatingModel.STORED, "offset": "number"}
    NEEDS_BOUNDS: ClassVar[bool] = False

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sample_weight: ArrayLike | None = None,
        eval_set: Any = None,
        callback: Callback | None = None,
        **unknown: Never,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X
            Two columns of ids, users and items (array, list of pairs, pandas, polars or pyarrow), or a scipy
            sparse matrix of users × items whose stored entries are the observations, or a `Ratings`.
        y
            One rating for each row of X; None for a sparse matrix or a `Ratings`.
        sample_weight
            How much each rating counts; None counts each once.
        eval_set
            Ratings to evaluate on after every sweep, for early stopping, as ``(X_eval, y_eval)``, a sparse matrix or a
            `Ratings`; instead of a ``validation_fraction``. They are not trained on.
        callback
            Called after every sweep as ``callback(sweep, objective, model)``; returning True stops the fit.
        **unknown
            Nothing else is taken; features of users and items are for `BayesianMBMF`.
        """
        refuse_unknown_arguments(self, unknown)
        self.check_settings()
        given = self._read(X, y, sample_weight)
        ratings, held_out = self._set_aside(given, eval_set)
        start = Fitted.before_the_first_sweep(ratings, given, Cut())
        return self._learn(replace(start, ranges=Cut(self._offset(start), *self._ends())), held_out, callback)

    def _offset(self, start: Fitted) -> float:
        """What is added to every inner product."""
        return 0.0

    def _stopping_rule(self) -> StoppingRule:
        return StoppingRule(self.tol, self.patience, self.tol_mode)

    def _answering(self) -> Fitted:
        fitted = self.fitted_  # whether predictions are cut may have been set after the fit
        return replace(fitted, ranges=Cut(cast(Cut, fitted.ranges).offset, *self._ends()))

    def check_settings(self) -> None:
        """Refuse settings that make no sense, with a sentence each."""
        super().check_settings()
        low, high = check_bounds(self.bounds)
        if self.NEEDS_BOUNDS and (low is None or high is None):
            raise ValueError(
                f"bounds={short(self.bounds)}: {type(self).__name__} needs both ends, such as bounds=(1, 5)."
            )
        self._ends()

    def _both_bounds(self) -> tuple[float, float]:
        """The declared bounds, of a model that has seen to it that both are there."""
        return cast(tuple[float, float], check_bounds(self.bounds))

    def _ends(self) -> tuple[float, float]:
        """What predictions are cut to."""
        check_flag("clip", self.clip)
        if not self.clip:
            return -np.inf, np.inf
        low, high = check_bounds(self.bounds)
        if low is None and high is None:
            raise ValueError(
                f"bounds={short(self.bounds)}: {type(self).__name__} with clip=True needs an end to cut at, such as "
                "bounds=(1, 5) or (0, None)."
            )
        return -np.inf if low is None else low, np.inf if high is None else high


# --- what several of them share -------------------------------------------------------------------------------


@dataclass
class RidgeSide:
    """The ratings (or what is left of them) in one side's row order, its factors, and the ridge of each row."""

    csr: Csr
    factors: Reals
    ridge: Floats

    def penalty(self) -> float:
        """Σ_i ridge_i |w_i|², summed in float64."""
        return float(np.einsum("i,ik,ik->", self.ridge, self.factors, self.factors, dtype=np.float64))


def announce_if_long(seconds: float, what: str, remedy: str) -> None:
    """Warn, in hours, when an estimate is above half an hour."""
    if seconds > LONG:
        warn(f"{what} may take up to {seconds / 3600:.1f} hours: {remedy}.")


def announce_if_large(n_bytes: int, what: str, remedy: str) -> bool:
    """Warn, in gigabytes, when memory above two of them is asked for; whether it was."""
    if n_bytes > LARGE:
        warn(f"{what} takes {n_bytes / 1e9:.1f} GB: {remedy}.")
    return n_bytes > LARGE
