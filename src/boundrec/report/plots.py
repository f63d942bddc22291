"""Plots by matplotlib, of one look, as SVG for a page or as a file: of a comparison, and of a model in its report.

Canvases are narrow, so that the same drawing can be read on a phone and on a desk.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from boundrec.arrays import Codes, Floats
from boundrec.files import whole_file
from boundrec.notes import four_digits

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

BLUE, GREEN, RED, GREY = "#2a6f97", "#3f9d8f", "#d1495b", "#6b6b6b"
#: Inches; on a screen of 390 pixels a letter of 10 points is still 10 pixels high.
WIDTH, HEIGHT = 4.8, 3.0
#: Widths that differ by more than this factor are on a logarithmic axis.
FAR_APART = 100.0
#: Numbers along an axis that do not run together.
MOST_TICKS = 6
#: With more distinct ratings than this they are put into bins.
MOST_LEVELS = 12
#: Letters of a name beside a bar.
LONGEST_NAME = 32


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


def one_panel() -> tuple[Canvas, Axes]:
    """A canvas of the usual size with one pair of axes."""
    canvas = new_canvas(HEIGHT)
    return canvas, plain_axes(canvas.subplots())


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


# --- a comparison of models -----------------------------------------------------------------------------------


class Compared(Protocol):
    """What the plot of a comparison shows of a model."""

    name: str
    rmse: float
    outside: float
    reach: list[float]


def write_comparison(
    results: Sequence[Compared], bounds: tuple[float | None, float | None] | None, n_test: int, output: Path
) -> None:
    """Draw a comparison to a PNG, SVG or PDF file, by its ending, which is written whole or not at all."""
    canvas = draw_comparison(results, bounds, n_test)
    with whole_file(output) as file:
        save(canvas, file, output.suffix[1:].lower())


def draw_comparison(
    results: Sequence[Compared], bounds: tuple[float | None, float | None] | None, n_test: int
) -> Canvas:
    """Two panels with a line for each model, the best first: its error, and where its predictions lie.

    Without bounds every pair has a range of its own, and predictions lie somewhere from its lower end, 0, to 1.
    """
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
        label = axes.annotate(four_digits(value), (value, place), (9, 0), textcoords="offset points", va="center")
        label.set_bbox({"facecolor": "white", "linewidth": 0, "pad": 1})
    axes.hlines(range(len(values)), low - 0.1 * room, high + 0.3 * room, GREY, ":", linewidth=1, alpha=0.5)
    axes.set_xlim(low - 0.1 * room, high + 0.3 * room)
    axes.set_title("Error on held-out ratings (lower is better)", loc="left", fontsize=11, fontweight="bold")
    axes.set_xlabel(f"RMSE on {n_test:,} ratings")


def _draw_reach(axes: Axes, results: Sequence[Compared], bounds: tuple[float | None, float | None] | None) -> None:
    own = bounds is None
    bounds = bounds or (0.0, 1.0)
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
    if own:
        axes.set_xticks([0, 1], ["lower end", "upper end"])
        axes.set_xlabel("place in the pair's own range (far ones cut off):\nall, 5 to 95 %, median")
        return
    names = " and ".join(f"{end:g}" for end in ends)
    dashed = f"\ndashed: the bounds, {names}" if ends else ""
    axes.set_xlabel(f"predicted rating: all, 5 to 95 %, median{dashed}")


# --- the report of a model ------------------------------------------------------------------------------------


def convergence(objectives: Floats) -> Canvas:
    """The objective after each sweep; on a logarithmic scale where it falls far."""
    from matplotlib.ticker import MaxNLocator

    canvas, axes = one_panel()
    sweeps = np.arange(1, len(objectives) + 1)
    axes.plot(sweeps, objectives, color=BLUE, marker="o" if len(objectives) <= 40 else None, markersize=4)
    if objectives.min() > 0 and objectives.max() > 20 * objectives.min():
        axes.set_yscale("log")
    axes.set_xlabel("sweep")
    axes.set_ylabel("objective")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    return canvas


class Bins:
    """Ratings in groups: each value by itself where they are few, else ranges with about equally many."""

    def __init__(self, edges: Floats, names: list[str]) -> None:
        self.edges, self.names = edges, names

    def __len__(self) -> int:
        return len(self.names)

    def of(self, ratings: Floats) -> Codes:
        """The group of each rating."""
        return np.clip(np.searchsorted(self.edges, ratings, side="right"), 0, len(self) - 1)


def rating_bins(ratings: Floats) -> Bins:
    """The groups in which ratings are looked at."""
    levels = np.unique(ratings)
    if len(levels) <= MOST_LEVELS:
        return Bins((levels[1:] + levels[:-1]) / 2, [figure_in_short(level, 4) for level in levels])
    cuts = np.unique(np.quantile(ratings, np.linspace(0, 1, 9)))
    names = [f"{figure_in_short(low)}–{figure_in_short(high)}" for low, high in pairwise(cuts)]
    return Bins(cuts[1:-1], names)


def predicted_by_rating(ratings: Floats, predictions: Floats, bins: Bins) -> Canvas:
    """Median and the middle nine tenths of the predictions of each group of ratings."""
    group = bins.of(ratings)
    canvas, axes = one_panel()
    places = np.unique(group)
    right = [np.median(ratings[group == place]) for place in places]
    low, middle, high = np.array([np.quantile(predictions[group == place], [0.05, 0.5, 0.95]) for place in places]).T
    axes.plot(places, right, color=GREY, linestyle="--", linewidth=1.2)
    axes.fill_between(places, low, high, color=BLUE, alpha=0.2, linewidth=0)
    axes.plot(places, middle, color=BLUE, marker="o", markersize=5)
    _name_groups(axes, bins)
    axes.set_ylabel("predicted")
    return canvas


def errors_by_rating(ratings: Floats, predictions: Floats, bins: Bins) -> Canvas:
    """RMSE of each group of ratings, with the number of ratings over each bar."""
    group = bins.of(ratings)
    counts = np.bincount(group, minlength=len(bins))
    squares = np.bincount(group, (ratings - predictions) ** 2, len(bins))
    errors = np.sqrt(squares / np.maximum(counts, 1))
    canvas, axes = one_panel()
    axes.bar(range(len(bins)), errors, color=BLUE, alpha=0.8, width=0.75)
    for place, (error, count) in enumerate(zip(errors, counts, strict=True)):
        axes.annotate(_short(int(count)), (place, error), (0, 2), textcoords="offset points", ha="center", fontsize=8)
    axes.margins(y=0.12)
    _name_groups(axes, bins)
    axes.set_ylabel("RMSE")
    return canvas


def _name_groups(axes: Axes, bins: Bins) -> None:
    long = max(map(len, bins.names)) > 5
    axes.set_xticks(range(len(bins)), bins.names, rotation=40 if long else 0, ha="right" if long else "center")
    axes.set_xlabel("rating")


def figure_in_short(value: float, digits: int = 3) -> str:
    """A number for an axis, rounded to so many digits and without an exponent: 1,870, 35.5k, 1.2M."""
    value = float(f"{value:.{digits}g}")
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= max(unit, 1e4):
            return f"{value / unit:,.{max(digits, 6)}g}{name}"
    return f"{value:,.{max(digits, 6)}g}"


def _legend_above(axes: Axes) -> None:
    """The legend, where it covers nothing."""
    axes.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, borderaxespad=0.2)


def _short(count: int) -> str:
    if count < 10_000:
        return f"{count:,}"
    return f"{count / 1e3:.0f}k" if count < 999_500 else f"{count / 1e6:.1f}M"


def errors_by_count(residuals: Floats, counts: Mapping[str, NDArray[np.integer]]) -> Canvas:
    """RMSE by the number of ratings that were learnt from, one line for users and one for items."""
    canvas, axes = one_panel()
    most = 0
    for (kind, of_ratings), colour, marker in zip(counts.items(), (BLUE, RED), "os", strict=True):
        group = np.where(of_ratings > 0, 1 + np.log2(np.maximum(of_ratings, 1)).astype(int), 0)
        n = np.bincount(group)
        errors = np.sqrt(np.bincount(group, residuals**2) / np.maximum(n, 1))
        shown = np.flatnonzero(n)
        most = max(most, len(n))
        axes.plot(shown, errors[shown], color=colour, marker=marker, markersize=5, label=f"ratings of the {kind}")
    least = [0, *(2**place for place in range(most - 1))]
    step = 1 + most // 12
    axes.set_xticks(range(0, most, step), [_short(count) for count in least[::step]])
    axes.set_xlabel("ratings learnt from, at least")
    axes.set_ylabel("RMSE")
    _legend_above(axes)
    return canvas


def places_in_range(ratings: Floats, predictions: Floats, lower: Floats, upper: Floats) -> Canvas:
    """Histograms of how far up in its range each prediction and each rating is."""
    canvas, axes = one_panel()
    width = np.maximum(upper - lower, np.finfo(float).tiny)
    edges = np.linspace(-0.1, 1.1, 37)
    for values, colour, name in ((ratings, GREY, "ratings"), (predictions, GREEN, "predictions")):
        share = np.clip((values - lower) / width, edges[0], edges[-1])
        counts, _ = np.histogram(share, edges)
        axes.stairs(counts / len(values), edges, fill=True, color=colour, alpha=0.45, label=name)
    for end in (0, 1):
        axes.axvline(end, color="black", linestyle="--", linewidth=1)
    axes.set_xticks([0, 0.5, 1], ["lower end", "middle", "upper end"])
    axes.set_ylabel("share")
    _legend_above(axes)
    return canvas


def in_their_ranges(ratings: Floats, predictions: Floats, lower: Floats, upper: Floats) -> Canvas:
    """Some pairs side by side: a bar for the range of each, its prediction and its rating on it."""
    canvas, axes = one_panel()
    places = np.arange(len(ratings))
    axes.vlines(places, lower, upper, GREEN, linewidth=4, alpha=0.35)
    axes.plot(places, ratings, "x", color=GREY, markersize=4, label="rating")
    axes.plot(places, predictions, "o", color=BLUE, markersize=3.5, label="prediction")
    highest = np.max(np.abs([lower, upper]), axis=0)
    if highest.max() > 20 * max(float(np.median(highest)), np.finfo(float).tiny):
        axes.set_yscale("symlog", linthresh=max(float(np.quantile(highest, 0.05)), 1e-9 * float(highest.max())))
    axes.set_xticks([])
    axes.set_xlabel("pairs, by the width of their range")
    axes.set_ylabel("range")
    _legend_above(axes)
    return canvas


def bars(names: Sequence[str], values: Sequence[float], spread: Sequence[float] | None, label: str) -> Canvas:
    """A bar for each name, from the top, to the left of 0 in red and to the right in blue; with two spreads about."""
    from matplotlib.ticker import MaxNLocator

    canvas = new_canvas(1.0 + 0.28 * len(names))
    axes = plain_axes(canvas.subplots(), "x")
    places = np.arange(len(names))[::-1]
    errors = None if spread is None else 2 * np.asarray(spread)
    axes.barh(places, values, xerr=errors, color=[BLUE if one >= 0 else RED for one in values], ecolor=GREY, alpha=0.8)
    axes.axvline(0, color="black", linewidth=1)
    axes.set_yticks(places, [name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…" for name in names])
    axes.xaxis.set_major_locator(MaxNLocator(MOST_TICKS - 2))
    axes.set_xlabel(label)
    return canvas


def widths(width: Floats) -> Canvas:
    """A histogram of the widths of the ranges."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

    canvas, axes = one_panel()
    wide = width[width > 0]
    none = width.size - wide.size
    log = wide.size > 0 and wide.max() > FAR_APART * wide.min()
    shown = wide if log else width
    counts, edges = np.histogram(shown, np.geomspace(shown.min(), shown.max(), 41) if log else 40)
    axes.stairs(counts, edges, fill=True, color=GREEN, alpha=0.7)
    if log:
        axes.set_xscale("log")
        axes.xaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_locator(LogLocator(numticks=MOST_TICKS) if log else MaxNLocator(MOST_TICKS))
    axes.xaxis.set_major_formatter(lambda value, _: figure_in_short(value))
    axes.set_xlabel("width of the range" + (f" ({none:,} without any)" if log and none else ""))
    axes.set_ylabel("ratings")
    axes.yaxis.set_major_formatter(lambda value, _: _short(int(value)))
    return canvas
