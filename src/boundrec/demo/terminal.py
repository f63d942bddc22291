"""What the demonstration prints: the table of results, and one user's titles with their ranges as bars."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from boundrec.datasets import Dataset
from boundrec.demo.comparison import BOUNDS, Result
from boundrec.models.mbmf import MBMF
from boundrec.report.words import open_table, percent

if TYPE_CHECKING:
    from rich.table import Table


def results_table(results: list[Result]) -> Table:
    """Errors on the held-out ratings, the reach of all predictions, and the time to fit."""
    table = open_table()
    table.add_column("model", no_wrap=True)
    low, high = BOUNDS
    for heading in ("RMSE", "MAE", f"outside {low:g}..{high:g}", "lowest", "highest", "seconds"):
        table.add_column(heading, justify="right", no_wrap=True)
    for result in results:
        every = result.everything
        table.add_row(
            result.name,
            f"{result.rmse:.4f}",
            f"{result.mae:.4f}",
            f"[red]{percent(every.outside_share)}[/red]" if every.outside_share else "[green]none[/green]",
            f"{every.lowest:.2f}",
            f"{every.highest:.2f}",
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


def top_titles(model: MBMF, data: Dataset, user: int, n: int = 10) -> list[Recommendation]:
    """The n titles with the highest predictions among those that the user has not rated."""
    assert data.item_names is not None
    unseen = np.setdiff1d(np.arange(data.n_items, dtype=np.int32), data.item[data.user == user])
    pairs = np.column_stack((np.full(len(unseen), user, dtype=np.int32), unseen))
    prediction, lower, upper = model.predict(pairs, return_range=True)
    best = np.argsort(-prediction, kind="stable")[:n]
    titles = [str(data.item_names[item]) for item in unseen[best]]
    return list(map(Recommendation, titles, prediction[best].tolist(), lower[best].tolist(), upper[best].tolist()))


def favourites(data: Dataset, user: int, n: int = 4) -> list[str]:
    """A few titles that the user rated highest, the newest opinion first."""
    assert data.item_names is not None
    assert data.timestamp is not None
    own = np.flatnonzero(data.user == user)
    order = np.lexsort((-data.timestamp[own], -data.rating[own]))
    return [str(data.item_names[item]) for item in data.item[own[order[:n]]]]


def titles_table(recommendations: list[Recommendation], width: int, plain: bool) -> Table:
    """The list, with every range drawn on the common scale as far as the terminal's width allows."""
    from rich.text import Text

    longest = max(len(entry.title) for entry in recommendations)
    title_width = min(longest, max(12, width // 2 - 18))
    bar_width = min(55, max(10, width - title_width - 31))
    low, high = BOUNDS
    scale = f"{low:g}".ljust(bar_width - len(f"{high:g}")) + f"{high:g}"
    table = open_table()
    table.add_column("", justify="right", min_width=2)
    table.add_column("title", width=title_width, no_wrap=True, overflow="crop" if plain else "ellipsis")
    table.add_column("predicted", justify="right", no_wrap=True)
    table.add_column("own range", justify="right", no_wrap=True)
    table.add_column(scale, min_width=bar_width, no_wrap=True)
    for place, entry in enumerate(recommendations, start=1):
        bar = range_bar(entry.lower, entry.prediction, entry.upper, bar_width, plain)
        table.add_row(
            str(place),
            Text(entry.title),
            f"{entry.prediction:.2f}",
            f"{entry.lower:.2f}..{entry.upper:.2f}",
            Text(bar, style="cyan"),
        )
    return table


def range_bar(lower: float, prediction: float, upper: float, width: int, plain: bool) -> str:
    """Draw a range with its prediction on the scale of the bounds, such as ``  ├────●──┤ ``."""
    left, line, dot, right = "|-o|" if plain else "├─●┤"

    def place(value: float) -> int:
        return round((value - BOUNDS[0]) / (BOUNDS[1] - BOUNDS[0]) * (width - 1))

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
