"""What a setting may be."""

from __future__ import annotations

import sys
from typing import Any, TypeGuard

import numpy as np


def is_number(value: Any) -> TypeGuard[float]:
    """Whether a setting is a real number (True and False are not, nor are integers too large for a float)."""
    if isinstance(value, int):
        return not isinstance(value, bool) and abs(value) <= sys.float_info.max
    return isinstance(value, (float, np.integer, np.floating))


def is_whole(value: Any) -> bool:
    """Whether a setting is an integer (True and False are not)."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)
