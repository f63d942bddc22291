"""What the six methods that MBMF is compared with have in common."""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn, cast

import numpy as np

from boundrec.columns import short
from boundrec.models.base import Codes, FactorisationModel, Floats
from boundrec.models.settings import check_flag
from boundrec.ranges import check_bounds


class RivalModel(FactorisationModel):
    """A factorisation with at most one pair of bounds for all; predictions are cut to it only with ``clip=True``.

    ``_offset`` is added to every inner product: a mean, or the shift that made the data non-negative.
    """

    clip: bool
    NEEDS_BOUNDS: ClassVar[bool] = False
    STATE: ClassVar[dict[str, str]] = {**FactorisationModel.STATE, "_offset": "number"}
    _offset: float = 0.0

    def _check_settings(self) -> None:
        super()._check_settings()
        low, high = check_bounds(self.bounds)
        if self.NEEDS_BOUNDS and (low is None or high is None):
            raise ValueError(
                f"bounds={short(self.bounds)}: {type(self).__name__} needs both ends, such as bounds=(1, 5)."
            )
        self._ends()

    def _both_bounds(self) -> tuple[float, float]:
        """The declared bounds, of a model that has seen to it that both are there."""
        return cast(tuple[float, float], check_bounds(self.bounds))

    def _answers(self, users: Codes, items: Codes) -> Floats:
        return np.clip(super()._answers(users, items), *self._ends())

    def fold_in(self, *_ratings: Any, **_options: Any) -> NoReturn:
        """Refuse: only bounded models take new users and items without a refit."""
        raise NotImplementedError(
            f"{type(self).__name__} takes no new users, items or ratings after its fit; MBMF and BayesianMBMF do. "
            "Fit it again on all ratings."
        )

    partial_fit = fold_in

    def _predict_known(self, users: Codes, items: Codes) -> Floats:
        return self._offset + super()._predict_known(users, items)

    def _needed(self, users: Codes, scores: Floats, low: float, high: float) -> Floats:
        least, _ = self._ends()  # every inner product reaches what predictions are cut to
        return np.where(scores <= least, -np.inf, scores - self._offset)

    def _interval(self, users: Codes, items: Codes) -> tuple[Floats, Floats]:
        low, high = self._ends()
        return np.full(len(users), low), np.full(len(users), high)

    def _ends(self) -> tuple[float, float]:
        """What predictions are cut to; nothing is cut at an infinite end."""
        check_flag("clip", self.clip)  # it may have been set after the fit
        if not self.clip:
            return -np.inf, np.inf
        low, high = check_bounds(self.bounds)
        if low is None and high is None:
            raise ValueError(
                f"bounds={short(self.bounds)}: {type(self).__name__} with clip=True needs an end to cut at, such as "
                "bounds=(1, 5) or (0, None)."
            )
        return -np.inf if low is None else low, np.inf if high is None else high
