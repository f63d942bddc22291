"""The paper's two figures, drawn with matplotlib as SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boundrec.paper.sections import Outcome, Picture
from boundrec.report.plots import as_svg

#: Line styles that stay apart without colour.
MARKERS = "osv^D<>PX*h"
#: Where a σ of zero is drawn on a logarithmic scale.
LEAST = 1e-6


def draw_figure1(
    outcomes: Sequence[Outcome], matrices: Mapping[float, tuple[NDArray[np.float64], NDArray[np.bool_]]]
) -> Picture:
    """σ of every entry: a row of panels for each method, a column for each density; kept entries are dots."""
    from matplotlib.figure import Figure as Canvas

    done = [outcome for outcome in outcomes if outcome.result is not None]
    methods = list(dict.fromkeys(outcome["method"] for outcome in done))
    densities = list(matrices)
    canvas = Canvas(figsize=(3.1 * len(densities), 3.0 * len(methods)), layout="constrained")
    panels = canvas.subplots(len(methods), len(densities), squeeze=False)
    for panel in panels.flat:
        panel.set_axis_off()
    image = None
    for outcome in done:
        assert outcome.result is not None
        panel = panels[methods.index(outcome["method"]), densities.index(outcome["density"])]
        _, kept = matrices[outcome["density"]]
        deviations = np.array(outcome.result["deviations"]).reshape(kept.shape)
        image = panel.imshow(np.where(kept, np.nan, deviations), cmap="YlOrRd", vmin=0, vmax=10)
        for row, column in np.argwhere(~kept):
            value = deviations[row, column]
            panel.text(column, row, f"{value:.1f}", ha="center", va="center", fontsize=6.5, color=_ink(value))
        for row, column in np.argwhere(kept):
            panel.text(column, row, "·", ha="center", va="center", fontsize=8, color="#888")
        panel.set_title(f"{outcome['method']}, d = {outcome['density']:g}", fontsize=10)
        panel.set_axis_on()
        panel.set_xticks([])
        panel.set_yticks([])
    if image is not None:
        canvas.colorbar(image, ax=panels, shrink=0.6, label="σ over restarts", extend="max")
    return Picture(
        "figure1", "σ of each missing entry over the restarts; a dot is an entry that was kept.", as_svg(canvas)
    )


def _ink(value: float) -> str:
    return "white" if value > 6 else "black"


def draw_figure2(outcomes: Sequence[Outcome], kind: str) -> Picture:
    """ave(σ) and max(σ) by K, one line for each method."""
    from matplotlib.figure import Figure as Canvas
    from matplotlib.ticker import LogLocator, NullFormatter

    canvas = Canvas(figsize=(10, 4.4), layout="constrained")
    panels = canvas.subplots(1, 2)
    methods = list(dict.fromkeys(outcome["method"] for outcome in outcomes))
    for panel, key, symbol in zip(panels, ("average", "largest"), ("ave(σ)", "max(σ)"), strict=True):
        for index, method in enumerate(methods):
            points = _points(outcomes, method, key)
            if points:
                panel.plot(*zip(*points, strict=True), **_style(index, method), label=method)
        panel.set_xlabel("K")
        panel.set_xticks(sorted({outcome["factors"] for outcome in outcomes}))
        panel.set_ylabel(symbol)
        panel.set_yscale("log")
        panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        panel.yaxis.set_major_formatter("{x:g}")
        panel.yaxis.set_minor_formatter(NullFormatter())
        panel.grid(alpha=0.25)
    handles, labels = panels[0].get_legend_handles_labels()
    canvas.legend(handles, labels, loc="outside lower center", ncols=6, fontsize=8, frameon=False)
    name = "figure2_" + ("independent" if "independent" in kind else "rank20")
    return Picture(name, f"Prediction variation on matrices {kind}; the scales of σ are logarithmic.", as_svg(canvas))


def _points(outcomes: Sequence[Outcome], method: str, key: str) -> list[tuple[float, float]]:
    found = [(o["factors"], o.result[key]) for o in outcomes if o["method"] == method and o.result is not None]
    return sorted((k, max(value, LEAST)) for k, value in found if value is not None)


def _style(index: int, method: str) -> dict[str, Any]:
    ours = method.startswith("MBMF")
    return {
        "marker": MARKERS[index % len(MARKERS)],
        "markersize": 4,
        "linewidth": 1.8 if ours else 1.1,
        "linestyle": "-" if ours else "--",
        "color": f"C{index % 10}" if index < 10 else "black",
    }
