"""Warnings that point at the caller."""

from __future__ import annotations

import sys
import warnings


class Interrupted(UserWarning):
    """Ctrl-C ended a fit, whose model is that of the last complete sweep; as an error it ends everything."""


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn about the line that called boundrec, however deep inside it we are."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "boundrec":
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
