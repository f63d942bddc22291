"""What people are told: warnings that point at the caller; numbers, shares and tables to be read."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table


class Interrupted(UserWarning):
    """Ctrl-C ended a fit, whose model is that of the last complete sweep; as an error it ends everything."""


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn about the line that called boundrec, however deep inside it we are."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "boundrec":
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def in_a_sentence(value: float) -> str:
    """A number for a sentence: whole ones whole, others with four digits, and an exponent from a million."""
    if float(value).is_integer() and abs(value) < 1e15:
        return f"{value:,.0f}"
    return f"{float(f'{value:.4g}'):,g}"


def four_digits(value: float) -> str:
    """A figure of a table: four digits behind the point, and fewer of a large one."""
    return f"{value:.4f}" if abs(value) < 1000 else f"{value:,.1f}"


def percent(share: float) -> str:
    """A share for readers; a few among millions do not become 0 %."""
    return "< 0.01 %" if 0 < share < 1e-4 else f"{100 * share:.2f} %"


def size(n_bytes: int) -> str:
    """A number of bytes for readers: 1.6 MB."""
    if n_bytes < 1000:
        return f"{n_bytes} bytes"
    value, unit = n_bytes / 1000, "kB"
    for larger in ("MB", "GB"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{value:.3g} {unit}"


def open_table(columns: Sequence[str] = ()) -> Table:
    """A table with a rule of dashes under its heads and nothing else, alike in every encoding.

    The first of the columns is for words, the others are for numbers.
    """
    from rich.box import Box
    from rich.table import Table

    only_a_rule = Box("\n".join(["    ", "    ", " -- ", *["    "] * 5]) + "\n", ascii=True)
    table = Table(box=only_a_rule, show_edge=False, padding=(0, 1, 0, 0))
    for place, column in enumerate(columns):
        table.add_column(column, justify="right" if place else "left", no_wrap=True)
    return table
