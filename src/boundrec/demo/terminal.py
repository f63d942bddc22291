"""What the demonstration prints: the table of results, and one user's titles with their ranges as bars."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from boundrec.report.words import open_table, percent

if TYPE_CHECKING:
    from rich.table import Table

    from boundrec.cli.held_out import Measured

Bounds = tuple[float, float]


def results_table(results: list[Measured], bounds: Bounds) -> Table:
    """Errors on the held-out ratings, the reach of all predictions, and the time to fit."""
    table = open_table()
    table.add_column("model", no_wrap=True)
    low, high = bounds
    for heading in ("RMSE", "MAE", f"outside {low:g}..{high:g}", "lowest", "highest", "seconds"):
        table.add_column(heading, justify="right", no_wrap=True)
    for result in results:
        table.add_row(
            result.name,
            f"{result.rmse:.4f}",
            f"{result.mae:.4f}",
            f"[red]{percent(result.outside)}[/red]" if result.outside else "[green]none[/green]",
            f"{result.reach[0]:.2f}",
            f"{result.reach[-1]:.2f}",
            f"{result.seconds:.2f}",
        )
    return table


# --- the list of titles ---------------------------------------------------------------------------------------


class Recommendation(NamedTuple):
    """One title with its prediction and the range that no fit could have left."""

    title: str
    prediction: float
    lower: float
    upper: float


def titles_table(recommendations: list[Recommendation], bounds: Bounds, width: int, plain: bool) -> Table:
    """The list, with every range drawn on the common scale as far as the terminal's width allows."""
    from rich.text import Text

    longest = max(len(entry.title) for entry in recommendations)
    title_width = min(longest, max(12, width // 2 - 18))
    bar_width = min(55, max(10, width - title_width - 31))
    low, high = bounds
    scale = f"{low:g}".ljust(bar_width - len(f"{high:g}")) + f"{high:g}"
    table = open_table()
    table.add_column("", justify="right", min_width=2)
    table.add_column("title", width=title_width, no_wrap=True, overflow="crop" if plain else "ellipsis")
    table.add_column("predicted", justify="right", no_wrap=True)
    table.add_column("own range", justify="right", no_wrap=True)
    table.add_column(scale, min_width=bar_width, no_wrap=True)
    for place, entry in enumerate(recommendations, start=1):
        bar = range_bar(entry.lower, entry.prediction, entry.upper, bounds, bar_width, plain)
        table.add_row(
            str(place),
            Text(entry.title),
            f"{entry.prediction:.2f}",
            f"{entry.lower:.2f}..{entry.upper:.2f}",
            Text(bar, style="cyan"),
        )
    return table


def range_bar(lower: float, prediction: float, upper: float, bounds: Bounds, width: int, plain: bool) -> str:
    """Draw a range with its prediction on the scale of the bounds, such as ``  ├────●──┤ ``."""
    left, line, dot, right = "|-o|" if plain else "├─●┤"

    def place(value: float) -> int:
        return round((value - bounds[0]) / (bounds[1] - bounds[0]) * (width - 1))

    first, at, last = place(lower), place(prediction), place(upper)
    cells = [" "] * width
    cells[first : last + 1] = [line] * (last + 1 - first)
    cells[first], cells[last] = left, right
    cells[at] = dot
    return "".join(cells)


def can_print_bars(encoding: str) -> bool:
    """Whether a terminal of this encoding has the signs of `range_bar`."""
    try:
        "├─●┤".encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True
