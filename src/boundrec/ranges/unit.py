"""The range of an affinity: from −1 to 1 for every pair, since both rows lie in the unit ball, like a cosine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from boundrec.arrays import Bools, Codes, Floats, Reals
from boundrec.data.ratings import Pairs
from boundrec.ranges import ROUNDING_OF_RANGES
from boundrec.ranges.scale import Scale
from boundrec.ranges.slack import squash, unsquash


@dataclass(frozen=True)
class UnitRange:
    """[−1, 1] for every pair; with slack inner products reach past it, and the map of slack leads them back."""

    slack: float = 1.0

    scale: ClassVar[Scale] = Scale()

    def interval(self, pairs: Pairs) -> tuple[Floats, Floats]:
        """The same ends for every pair."""
        return np.full(len(pairs), -1.0), np.ones(len(pairs))

    def to_value(self, inner: Floats, pairs: Pairs) -> Floats:
        """The affinity that an inner product stands for."""
        return squash(inner, self.slack)

    def needed(self, users: Codes, scores: Floats, low: float, high: float) -> Floats:
        """The least inner product that reaches a score: any, where that is the lower end."""
        scores = scores - ROUNDING_OF_RANGES
        return np.where(scores <= -1.0, -np.inf, unsquash(np.minimum(scores, 1.0), self.slack))

    def vectors(self, users: Reals, items: Reals) -> tuple[Reals, Reals]:
        """The factors themselves."""
        return users, items

    def magnitudes_that_decide(self) -> Floats | None:
        """There are none: all are 1."""
        return None

    def keeps_order(self, trained: Bools) -> bool:
        """The map is strictly increasing, and the same for all."""
        return True
