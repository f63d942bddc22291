"""``--bounds``: as they were typed, checked against the ratings, or as they are observed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from boundrec.cli.console import say
from boundrec.cli.wording import in_command_words
from boundrec.notes import in_a_sentence

if TYPE_CHECKING:
    from boundrec.cli.rating_tables import RatingTable

Ends = tuple[float | None, float | None]
#: Stand in for the observed bounds while settings are checked, before the ratings are read.
UNKNOWN: Ends = (0.0, 1.0)
#: A rating so many times further from the median than nine in ten are is in a heavy tail.
HEAVY_TAIL = 20.0


def read_bounds(given: tuple[str, str] | None) -> Ends | None:
    """Bounds as they were typed; None where there are none."""
    from boundrec.ranges import check_bounds

    if given is None:
        return None
    try:
        return check_bounds(tuple(None if end.lower() == "none" else float(end) for end in given))
    except ValueError as error:
        if "could not convert" in str(error):
            error = ValueError(f'--bounds {" ".join(given)}: give two numbers, or "none" for an open end.')
        raise typer.BadParameter(in_command_words(str(error)).replace("write None", "write none")) from None


def choose_bounds(given: tuple[str, str] | None, table: RatingTable) -> Ends:
    """The bounds that were given, checked against the ratings; else the observed range, and a word about that."""
    bounds = read_bounds(given)
    if bounds is not None:
        table.check_bounds(bounds)
        return bounds
    values = table.ratings.by_user.data
    low, high = float(values.min()), float(values.max())
    if low == high:
        say(f"Every rating is {in_a_sentence(low)}: there is nothing to learn but that.")
        room = max(0.5, 1e-12 * abs(low))  # beside a large rating a half is nothing
        return low - room, high + room
    say(f"No --bounds given: taking the observed range, --bounds {as_typed(low)} {as_typed(high)}.")
    if has_heavy_tail(values):
        say(
            f"The highest rating, {in_a_sentence(high)}, is far from most of them. "
            f"If there is no highest by nature, as with counts, pass --bounds {as_typed(min(low, 0.0))} none."
        )
    return low, high


def has_heavy_tail(ratings: Any) -> bool:
    """Whether the highest rating is out of all proportion to the rest."""
    import numpy as np

    median, upper, highest = np.quantile(ratings, [0.5, 0.9, 1.0])
    return bool(highest - median > HEAVY_TAIL * max(upper - median, 1e-12 * max(1.0, abs(median))))


def as_typed(end: float | None) -> str:
    """An end of the bounds as an option takes it: short, and yet the same number."""
    if end is None:
        return "none"
    return f"{end:g}" if float(f"{end:g}") == end else repr(end)


def bounds_of(model: Any) -> Ends:
    """The bounds that a model was fitted with."""
    from boundrec.ranges import check_bounds

    return check_bounds(model.bounds)
