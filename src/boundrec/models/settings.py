"""What a setting may be."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Literal, TypeGuard, get_args

import numpy as np
from numpy.typing import NDArray

from boundrec.columns import short
from boundrec.ratings import INT32_MAX, LARGEST, is_too_large

#: Words are declared once, for type checkers; a list of them to check against is made by `get_args`.
Auto = Literal["auto"]
Precision = Literal["float64", "float32"]
FloatType = Precision | type[np.float64] | type[np.float32] | np.dtype[np.float64] | np.dtype[np.float32]
FLOAT_TYPES = (*get_args(Precision), np.float64, np.float32)
#: ``(lo, hi)`` with either of them None, or None.
BoundsSetting = Sequence[float | None] | NDArray[Any] | None
Seed = int | Sequence[int] | np.integer | np.random.Generator | np.random.RandomState | np.random.SeedSequence | None


def is_number(value: Any) -> TypeGuard[float]:
    """Whether a setting is a real number: no bool, no integer past a float, no timedelta, an integer to NumPy."""
    if isinstance(value, int):
        return not isinstance(value, bool) and abs(value) <= sys.float_info.max
    return isinstance(value, (float, np.integer, np.floating)) and not isinstance(value, np.timedelta64)


def is_whole(value: Any) -> bool:
    """Whether a setting is an integer (True and False are not)."""
    return is_number(value) and isinstance(value, (int, np.integer))


def is_auto(value: Any) -> bool:
    """Whether a setting is the word "auto"; data frames and the like refuse to be compared with it."""
    return isinstance(value, str) and value == "auto"


def check_count(name: str, value: Any, least: int, otherwise: str = "", most: int = INT32_MAX) -> None:
    """Refuse what is not a number of things; ``otherwise`` says what else the setting may be."""
    if not is_whole(value) or value < least:
        raise ValueError(f"{name}={short(value)}: give a whole number of at least {least}{otherwise}.")
    if value > most:
        raise ValueError(f"{name}={short(value)}: give a whole number of at most {most}{otherwise}.")


def check_flag(name: str, value: Any) -> None:
    """Refuse what is neither true nor false."""
    if not isinstance(value, (int, np.integer, np.bool_)):
        raise ValueError(f"{name}={short(value)}: give True or False.")


def check_size(name: str, value: Any) -> None:
    """Refuse a number that would overflow once it meets others; infinity is for the setting's own rule."""
    if is_number(value) and is_too_large(value):
        raise ValueError(f"{name}={short(value)}: give a number between {-LARGEST:g} and {LARGEST:g}.")
