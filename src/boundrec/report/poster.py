"""The picture of the demonstration: where predictions lie, how good errors and lists are, one person's list."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from boundrec.arrays import Floats
from boundrec.files import whole_file
from boundrec.report.plots import BLUE, GREY, RED, plain_axes, save

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

#: Inches: the shape of what people post.
WIDTH, HEIGHT = 10.0, 6.3
#: Where the left and the right half begin, in parts of the width.
LEFT, RIGHT = 0.035, 0.535
#: Bars from one end of the predictions to the other.
N_BARS = 90
#: Letters of a title beside its interval, and of the names of what somebody likes.
LONGEST_TITLE, LONGEST_LINE = 26, 62
INK, SOFT = "#1c2430", "#5b6675"


class Rival(NamedTuple):
    """One line of the bars: NaN for what it does not have."""

    name: str
    rmse: float
    ndcg: float


class Listed(NamedTuple):
    """One title of somebody's list, with its prediction and the interval around it."""

    title: str
    raters: int
    prediction: float
    low: float
    high: float


class Poster(NamedTuple):
    """What is drawn. The last of the rivals is the bounded model, and ``bounded`` are its predictions of all pairs."""

    subtitle: str
    bounds: tuple[float, float]
    unbounded_name: str
    unbounded: Floats
    bounded: Floats
    rivals: Sequence[Rival]
    whose: str
    likes: str
    listed: Sequence[Listed]

    def write(self, output: Path) -> None:
        """Draw it to a PNG file, which is written whole or not at all."""
        from matplotlib.figure import Figure

        canvas = Figure(figsize=(WIDTH, HEIGHT), facecolor="white")
        canvas.text(LEFT, 0.925, "Recommendations that stay in bounds", fontsize=22, fontweight="bold", color=INK)
        canvas.text(LEFT, 0.878, self.subtitle, fontsize=11, color=SOFT)
        self._draw_predictions(canvas)
        bounded = self.rivals[-1].name
        rows = [(rival, rival.name == bounded) for rival in self.rivals]
        errors = [(rival.name, rival.rmse, own) for rival, own in rows if not np.isnan(rival.rmse)]
        lists = [(rival.name, rival.ndcg, own) for rival, own in rows]
        _draw_bars(canvas, 0.16, "Held-out error", "RMSE, lower is better", errors)
        _draw_bars(canvas, 0.405, "Liked films in top tens", "NDCG@10, higher is better", lists)
        self._draw_list(canvas)
        with whole_file(output) as file:
            save(canvas, file, "png")

    def _draw_predictions(self, canvas: Canvas) -> None:
        """How many predictions lie where: those of a model that may leave the scale, and of one that cannot."""
        axes = canvas.add_axes((LEFT + 0.035, 0.41, 0.42, 0.365))
        low, high = self.bounds
        reach = [*self.bounds, self.unbounded.min(), self.unbounded.max()]
        first, last = min(reach) - 0.25, max(reach) + 0.25
        edges = np.linspace(first, last, N_BARS + 1)
        for end, outer in ((low, first), (high, last)):
            axes.axvspan(end, outer, color=RED, alpha=0.1, linewidth=0)
            axes.axvline(end, color=INK, linestyle="--", linewidth=1)
        free, held = (np.histogram(values, edges)[0] for values in (self.unbounded, self.bounded))
        axes.stairs(held, edges, fill=True, color=BLUE, alpha=0.55)
        axes.stairs(free, edges, color=RED, linewidth=1.6, baseline=None)
        axes.set_yscale("log")
        axes.set_ylim(0.8, 100.0 * held.max())
        axes.set_xlim(first, last)
        outside = int(np.count_nonzero((self.unbounded < low) | (self.unbounded > high)))
        for height, name, says, colour in (
            (0.96, self.unbounded_name, f"{outside:,} outside", RED),
            (0.86, self.rivals[-1].name, "0 outside", BLUE),
        ):
            axes.text(
                low + 0.02 * (last - first),
                height,
                f"{name}: {says}",
                transform=axes.get_xaxis_transform(),
                va="top",
                color=colour,
                fontsize=9.5,
                fontweight="bold",
            )
        _head(canvas, LEFT, 0.8, f"All {self.bounded.size:,} predictions, person × film")
        axes.set_xlabel(f"predicted rating, on a scale from {low:g} to {high:g}", fontsize=9.5)
        axes.set_ylabel("pairs, logarithmic", fontsize=9.5)
        plain_axes(axes, "x").tick_params(labelsize=9.5)

    def _draw_list(self, canvas: Canvas) -> None:
        """The titles from the top, each with its interval on the scale."""
        axes = canvas.add_axes((0.745, 0.115, 0.205, 0.62))
        low, high = self.bounds
        for place, entry in enumerate(self.listed):
            axes.plot([low, high], [place, place], color=GREY, linewidth=0.8, alpha=0.3, zorder=1)
            axes.plot([entry.low, entry.high], [place, place], color=BLUE, linewidth=8, alpha=0.35, zorder=2)
            axes.plot(entry.prediction, place, "o", color=BLUE, markersize=8, zorder=3, clip_on=False)
            label = f"{entry.prediction:.1f}"
            axes.annotate(label, (high, place), (9, 0), textcoords="offset points", va="center", fontsize=10.5)
            raters = f"rated by {entry.raters:,}"
            whose: dict[str, Any] = {
                "xycoords": axes.get_yaxis_transform(),
                "textcoords": "offset points",
                "ha": "right",
            }
            axes.annotate(_short(entry.title, LONGEST_TITLE), (0, place), (-8, 1), va="bottom", fontsize=10, **whose)
            axes.annotate(raters, (0, place), (-8, -1), va="top", fontsize=8, color=SOFT, **whose)
        axes.set_yticks([])
        axes.set_ylim(len(self.listed) - 0.4, -0.6)
        axes.set_xlim(low, high)
        axes.set_xticks(range(int(np.ceil(low)), int(high) + 1))
        axes.set_xlabel("predicted rating,\nand where 8 in 10 ratings will lie", fontsize=9.5)
        _head(canvas, RIGHT, 0.8, self.whose)
        canvas.text(RIGHT, 0.765, _short(self.likes, LONGEST_LINE), fontsize=9.5, color=SOFT)
        plain_axes(axes, "x").tick_params(labelsize=9.5)
        axes.spines["left"].set_visible(False)


def _draw_bars(canvas: Canvas, left: float, title: str, subtitle: str, rows: Sequence[tuple[str, float, bool]]) -> None:
    """A bar for each name, from the top; the bounded model's is blue."""
    axes = canvas.add_axes((left, 0.06, 0.075, 0.17))
    for place, (name, value, bounded) in enumerate(rows):
        weight, colour = ("bold", BLUE) if bounded else ("normal", INK)
        axes.barh(place, value, color=BLUE if bounded else GREY, alpha=1 if bounded else 0.45, height=0.7)
        beside: dict[str, Any] = {"textcoords": "offset points", "va": "center", "color": colour, "fontweight": weight}
        axes.annotate(f"{value:.3f}".lstrip("0"), (value, place), (4, 0), fontsize=9.5, **beside)
        axes.annotate(name, (0, place), (-4, 0), fontsize=9, ha="right", **beside)
    axes.set_ylim(3.5, -0.5)
    axes.set_axis_off()
    _head(canvas, left - 0.125, 0.275, title)
    canvas.text(left - 0.125, 0.245, subtitle, fontsize=9, color=SOFT)


def _head(canvas: Canvas, left: float, bottom: float, text: str) -> None:
    canvas.text(left, bottom, text, fontsize=12, fontweight="bold", color=INK)


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
