"""The plots in the report of a model."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from boundrec.report.drawing import BLUE, GREEN, GREY, RED, edges_of, new_canvas, plain_axes

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

Floats = NDArray[np.float64]

#: With more distinct ratings than this they are put into bins.
MOST_LEVELS = 12
HEIGHT = 3.0


def convergence(objectives: Floats) -> Canvas:
    """The objective after each sweep; on a logarithmic scale where it falls far."""
    from matplotlib.ticker import MaxNLocator

    canvas = new_canvas(HEIGHT)
    axes = plain_axes(canvas.subplots())
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

    def of(self, ratings: Floats) -> NDArray[np.int64]:
        """The group of each rating."""
        return np.clip(np.searchsorted(self.edges, ratings, side="right"), 0, len(self) - 1)


def rating_bins(ratings: Floats) -> Bins:
    """The groups in which ratings are looked at."""
    levels = np.unique(ratings)
    if len(levels) <= MOST_LEVELS:
        return Bins((levels[1:] + levels[:-1]) / 2, [f"{level:.4g}" for level in levels])
    cuts = np.unique(np.quantile(ratings, np.linspace(0, 1, 9)))
    names = [f"{low:.3g}–{high:.3g}" for low, high in pairwise(cuts)]
    return Bins(cuts[1:-1], names)


def predicted_by_rating(ratings: Floats, predictions: Floats, bins: Bins) -> Canvas:
    """Median and the middle nine tenths of the predictions of each group of ratings."""
    group = bins.of(ratings)
    canvas = new_canvas(HEIGHT)
    axes = plain_axes(canvas.subplots())
    right = [float(np.median(ratings[group == place])) for place in range(len(bins)) if (group == place).any()]
    places = [place for place in range(len(bins)) if (group == place).any()]
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
    canvas = new_canvas(HEIGHT)
    axes = plain_axes(canvas.subplots())
    axes.bar(range(len(bins)), errors, color=BLUE, alpha=0.8, width=0.75)
    for place, (error, count) in enumerate(zip(errors, counts, strict=True)):
        axes.annotate(_short(int(count)), (place, error), (0, 2), textcoords="offset points", ha="center", fontsize=8)
    axes.margins(y=0.12)
    _name_groups(axes, bins)
    axes.set_ylabel("RMSE")
    return canvas


def _name_groups(axes: Any, bins: Bins) -> None:
    long = max(map(len, bins.names)) > 5
    axes.set_xticks(range(len(bins)), bins.names, rotation=40 if long else 0, ha="right" if long else "center")
    axes.set_xlabel("rating")


def _short(count: int) -> str:
    if count < 10_000:
        return f"{count:,}"
    return f"{count / 1e3:.0f}k" if count < 999_500 else f"{count / 1e6:.1f}M"


def errors_by_count(residuals: Floats, counts: Mapping[str, NDArray[np.integer]]) -> Canvas:
    """RMSE by the number of ratings that were learnt from, one line for users and one for items."""
    canvas = new_canvas(HEIGHT)
    axes = plain_axes(canvas.subplots())
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
    axes.legend(frameon=False)
    return canvas


def places_in_range(ratings: Floats, predictions: Floats, lower: Floats, upper: Floats) -> Canvas:
    """Histograms of how far up in its range each prediction and each rating is."""
    canvas = new_canvas(HEIGHT)
    axes = plain_axes(canvas.subplots())
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
    axes.legend(frameon=False)
    return canvas


def widths(width: Floats) -> Canvas:
    """A histogram of the widths of the ranges."""
    canvas = new_canvas(HEIGHT)
    axes = plain_axes(canvas.subplots())
    counts, edges = np.histogram(width, edges_of(width))
    axes.stairs(counts, edges, fill=True, color=GREEN, alpha=0.7)
    axes.set_xlabel("width of the range")
    axes.set_ylabel("ratings")
    axes.yaxis.set_major_formatter(lambda value, _: _short(int(value)))
    return canvas
