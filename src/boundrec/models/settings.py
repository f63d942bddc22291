"""What a setting may be."""

from __future__ import annotations

from typing import Any, TypeGuard

import numpy as np


def is_number(value: Any) -> TypeGuard[float]:
    """Whether a setting is a real number (True and False are not)."""
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def is_whole(value: Any) -> bool:
    """Whether a setting is an integer (True and False are not)."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)
