"""Plots by matplotlib: one look for all, as SVG for a page or as a file; and the plot of a comparison.

Canvases are narrow, so that the same drawing can be read on a phone and on a desk.
"""

from __future__ import annotations

from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol

import numpy as np

from boundrec.files import whole_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

BLUE, GREEN, RED, GREY = "#2a6f97", "#3f9d8f", "#d1495b", "#6b6b6b"
#: Inches; on a screen of 390 pixels a letter of 10 points is still 10 pixels high.
WIDTH = 4.8


def new_canvas(height: float) -> Canvas:
    """An empty canvas of the usual width."""
    from matplotlib.figure import Figure

    return Figure(figsize=(WIDTH, height), layout="constrained")


def plain_axes(axes: Axes, grid: str = "y") -> Axes:
    """Axes without a box around them and with a faint grid."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis=grid, alpha=0.25)  # type: ignore[arg-type]
    axes.set_axisbelow(True)
    return axes


def as_svg(canvas: Any) -> str:
    """The drawing as SVG text without metadata or dates, so that equal results give equal files."""
    buffer = StringIO()
    save(canvas, buffer, "svg")
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def save(canvas: Any, file: IO[Any], kind: str) -> None:
    """Write the drawing as "svg", "png" or "pdf"."""
    import matplotlib

    undated = {"svg": {"Date": None, "Creator": None, "Format": None, "Type": None}, "pdf": {"CreationDate": None}}
    with matplotlib.rc_context({"svg.hashsalt": "boundrec", "svg.fonttype": "path"}):
        canvas.savefig(file, format=kind, dpi=150, metadata=undated.get(kind))


class Compared(Protocol):
    """What the plot of a comparison shows of a model."""

    name: str
    rmse: float
    outside: float
    reach: list[float]


def write_comparison(
    results: Sequence[Compared], bounds: tuple[float | None, float | None], n_test: int, output: Path
) -> None:
    """Draw a comparison to a PNG, SVG or PDF file, by its ending, which is written whole or not at all."""
    canvas = draw_comparison(results, bounds, n_test)
    with whole_file(output) as file:
        save(canvas, file, output.suffix[1:].lower())


def draw_comparison(results: Sequence[Compared], bounds: tuple[float | None, float | None], n_test: int) -> Canvas:
    """Two panels with a line for each model, the best first: its error, and where its predictions lie."""
    canvas = new_canvas(2.2 + 0.6 * len(results))
    canvas.get_layout_engine().set(hspace=0.06)  # type: ignore[union-attr, call-arg]
    upper, lower = canvas.subplots(2, 1)
    _draw_errors(upper, results, n_test)
    _draw_reach(lower, results, bounds)
    for axes in (upper, lower):
        plain_axes(axes, "x")
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        axes.set_yticks(range(len(results)), [result.name for result in results])
        axes.set_ylim(len(results) - 0.5, -0.5)
    return canvas


def _draw_errors(axes: Axes, results: Sequence[Compared], n_test: int) -> None:
    values = [result.rmse for result in results]
    low, high = min(values), max(values)
    room = (high - low) or 0.1 * high or 1.0
    for place, value in enumerate(values):
        axes.plot(value, place, "o", color=BLUE if place == 0 else GREY, markersize=8)
        label = axes.annotate(f"{value:.4f}", (value, place), (9, 0), textcoords="offset points", va="center")
        label.set_bbox({"facecolor": "white", "linewidth": 0, "pad": 1})
    axes.hlines(range(len(values)), low - 0.1 * room, high + 0.3 * room, GREY, ":", linewidth=1, alpha=0.5)
    axes.set_xlim(low - 0.1 * room, high + 0.3 * room)
    axes.set_title("Error on held-out ratings (lower is better)", loc="left", fontsize=11, fontweight="bold")
    axes.set_xlabel(f"RMSE on {n_test:,} ratings")


def _draw_reach(axes: Axes, results: Sequence[Compared], bounds: tuple[float | None, float | None]) -> None:
    for place, result in enumerate(results):
        least, low, middle, high, most = result.reach
        colour = RED if result.outside else GREEN
        axes.plot([least, most], [place, place], color=colour, linewidth=1.5, solid_capstyle="butt")
        axes.plot([low, high], [place, place], color=colour, linewidth=7, solid_capstyle="butt", alpha=0.55)
        axes.plot(middle, place, "|", color="black", markersize=11, markeredgewidth=1.6)
    ends = [end for end in bounds if end is not None]
    reach = [value for result in results for value in (result.reach[0], result.reach[-1])]
    low, high = min([*ends, *reach]), max([*ends, *reach])
    room = 0.05 * (high - low or 1.0)
    axes.set_xlim(low - room, high + room)
    for end, outer in zip(bounds, (low - room, high + room), strict=True):
        if end is not None:
            axes.axvline(end, color="black", linestyle="--", linewidth=1)
            axes.axvspan(end, outer, color="black", alpha=0.06, linewidth=0)
    axes.set_title("Where predictions lie (red: also outside)", loc="left", fontsize=11, fontweight="bold")
    names = " and ".join(f"{end:g}" for end in ends)
    dashed = f"\ndashed: the bounds, {names}" if ends else ""
    axes.set_xlabel(f"predicted rating: all, 5 to 95 %, median{dashed}")


def edges_of(values: Any, most: int = 40) -> Any:
    """Edges of the bins of a histogram."""
    low, high = float(np.min(values)), float(np.max(values))
    return np.linspace(low, high, most + 1) if high > low else np.array([low - 0.5, low + 0.5])
