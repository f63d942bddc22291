"""The demonstration's plot: where all predictions lie, and how the held-out error falls."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from boundrec.demo.comparison import BINS, BOUNDS, MEANS, OWN, PLAIN, SCALE, Result
from boundrec.files import whole_file
from boundrec.report.words import percent

COLOURS = {MEANS: "#6b6b6b", PLAIN: "#d1495b", SCALE: "#2a6f97", OWN: "#52b2a5"}


def draw(results: list[Result], output: Path) -> None:
    """Draw where all predictions lie, and how the held-out error falls, and write the PNG."""
    figure = Figure(figsize=(12, 4.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    by_name = {result.name: result for result in results}
    _draw_predictions(left, [by_name[PLAIN], by_name[SCALE]])
    _draw_errors(right, results)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.title.set_fontweight("bold")
    with whole_file(output) as file:
        figure.savefig(file, format="png", dpi=150)


def _draw_predictions(axes: Axes, results: list[Result]) -> None:
    low, high = BOUNDS
    reach = np.flatnonzero(sum(result.everything.counts for result in results))
    edges = min(low, BINS[reach[0]]) - 0.3, max(high, BINS[reach[-1] + 1]) + 0.3
    for result in results:
        counts, colour = result.everything.counts, COLOURS[result.name]
        outside = percent(result.everything.outside_share) if result.everything.outside_share else "none"
        label = f"{result.name}: {outside} outside"
        axes.stairs(counts, BINS, fill=True, alpha=0.35, color=colour, label=label)
        axes.stairs(counts, BINS, color=colour, linewidth=1.2)
    for end, outer in zip(BOUNDS, edges, strict=True):
        axes.axvline(end, color="black", linestyle="--", linewidth=1)
        axes.axvspan(end, outer, color="black", alpha=0.05, linewidth=0)
    axes.set(
        yscale="log",  # what leaves the bounds is few among millions, and would not be seen otherwise
        ylim=(0.7, 100 * max(result.everything.counts.max() for result in results)),  # room for the legend
        xlim=edges,
        xlabel=f"predicted rating (dashed: the declared bounds, {low:g} and {high:g})",
        ylabel="number of predictions (log scale)",
        title="Predictions for every user and every film",
    )
    axes.legend(loc="upper center", framealpha=1, edgecolor="none")


def _draw_errors(axes: Axes, results: list[Result]) -> None:
    for result in results:
        colour = COLOURS[result.name]
        if result.rmse_by_sweep:
            sweeps = np.arange(1, len(result.rmse_by_sweep) + 1)
            axes.plot(sweeps, result.rmse_by_sweep, color=colour, marker="o", markersize=3.5, label=result.name)
        else:
            axes.axhline(result.rmse, color=colour, linestyle="--", linewidth=1.2, label=result.name)
    axes.set(
        xscale="log", xlabel="sweep over the ratings (log scale)", ylabel="RMSE", title="Error on held-out ratings"
    )
    axes.set_xticks([1, 2, 5, 10, 20, 50, 100])
    axes.xaxis.set_major_formatter(FuncFormatter(lambda sweep, _: f"{sweep:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.grid(axis="y", alpha=0.25)
    axes.legend(frameon=False)
