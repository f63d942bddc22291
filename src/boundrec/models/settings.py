"""What a setting may be."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Literal, TypeGuard, get_args

import numpy as np
from numpy.typing import NDArray

#: Words are declared once, for type checkers; a list of them to check against is made by `get_args`.
Auto = Literal["auto"]
Precision = Literal["float64", "float32"]
FloatType = Precision | type[np.float64] | type[np.float32] | np.dtype[np.float64] | np.dtype[np.float32]
FLOAT_TYPES = (*get_args(Precision), np.float64, np.float32)
#: ``(lo, hi)`` with either of them None, or None.
BoundsSetting = Sequence[float | None] | NDArray[Any] | None
Seed = int | Sequence[int] | np.integer | np.random.Generator | np.random.RandomState | np.random.SeedSequence | None


def is_number(value: Any) -> TypeGuard[float]:
    """Whether a setting is a real number (True and False are not, nor are integers too large for a float)."""
    if isinstance(value, int):
        return not isinstance(value, bool) and abs(value) <= sys.float_info.max
    return isinstance(value, (float, np.integer, np.floating))


def is_whole(value: Any) -> bool:
    """Whether a setting is an integer (True and False are not)."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)
