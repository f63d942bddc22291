"""The paper's Figure 2: the standard deviation of predictions over ten restarts, for K = 5 to 50."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from boundrec import datasets, metrics
from boundrec.paper import (
    NOT_RUN,
    Figure,
    Options,
    Outcome,
    Picture,
    Row,
    Section,
    Table,
    counted,
    mark_best,
    methods,
    protocol,
)
from boundrec.paper.cells import Cell
from boundrec.paper.choice import Known
from boundrec.paper.methods import METHODS, OURS, RIVALS, Conditions
from boundrec.report.plots import as_svg

NAME = "figure2"
SHOWN = (*RIVALS, *OURS, "MBMF-n exact", "MBMF-c exact", "MBMF-c ball")
BOUNDS = (0.0, 10.0)
#: Both readings of "randomly generate a factorising matrix" (resolution A35): of rank 20, and independent entries.
RANKS: tuple[int | None, ...] = (20, None)
#: What is told of each method at each K; of the first two the paper says that MBMF-n has the lowest.
SYMBOLS = {
    "average": "ave(σ)",
    "largest": "max(σ)",
    "iterations": f"Iterations until rest, at most {methods.MAX_ITER} (exact: {methods.EXACT_SWEEPS})",
    "outside": "Share of predictions outside 0 to 10",
}
CLAIMED = ("average", "largest")
#: Line styles that stay apart without colour.
MARKERS = "osv^D<>PX*h"
#: Where a σ of zero is drawn on a logarithmic scale.
LEAST = 1e-6


def choices(options: Options) -> Known:
    """What a reader can choose from."""
    return {"method": SHOWN, "factors": (5, 10, 20) if options.quick else range(5, 51, 5)}


def cells(options: Options) -> list[Cell]:
    """A cell is one method at one K, with all its restarts."""
    size, restarts = (200, 3) if options.quick else (500, 10)
    made = []
    for rank in RANKS[:1] if options.quick else RANKS:
        for k in choices(options)["factors"]:
            for method in SHOWN:
                settings = {"method": method, "factors": k, "rank": rank, "size": size, "restarts": restarts}
                made.append(cell_of(settings, options))
    return made


def cell_of(settings: Mapping[str, Any], options: Options) -> Cell:
    """The cell with these settings, among which may be what is changed in its model."""
    k, size = settings["factors"], settings["size"]
    once = methods.estimated_seconds(METHODS[settings["method"]], k, (size, size), size * size // 5)
    basis = protocol.basis(methods.model_of(settings, Conditions(k, BOUNDS, BOUNDS, 0)))
    return Cell(NAME, settings, settings["restarts"] * once, 1 if settings["rank"] else 6, basis)


def run(settings: Mapping[str, Any], options: Options) -> dict[str, Any]:
    """ave(σ) and max(σ) over the missing entries; a new matrix for each K, as in the paper."""
    size, k = settings["size"], settings["factors"]
    data = datasets.synthetic(size, size, 0.2, BOUNDS, rank=settings["rank"], random_state=k)
    removed = np.ones((size, size), bool)
    removed[data.user, data.item] = False
    missing = np.argwhere(removed).astype(np.int32)
    predictions, iterations = [], []
    for seed in range(settings["restarts"]):
        model = methods.model_of(settings, Conditions(k, BOUNDS, BOUNDS, seed))
        fitted = protocol.fit(model, data.pairs, data.rating)
        predictions.append(fitted.model.predict(missing))
        iterations.append(fitted.iterations)
    recovered = np.array(predictions)
    finite = bool(np.isfinite(recovered).all())
    average, largest = metrics.variation(recovered) if finite else (None, None)
    outside = protocol.share_outside(recovered, BOUNDS)
    return {"average": average, "largest": largest, "iterations": float(np.mean(iterations)), "outside": outside}


def summarise(outcomes: Sequence[Outcome], options: Options) -> Section:
    """Two panels for each kind of matrix, as in the paper, and the numbers behind them."""
    first = outcomes[0].cell.settings
    section = Section("Figure 2: variation over restarts", [text.format(**first) for text in TEXT])
    for rank in dict.fromkeys(outcome["rank"] for outcome in outcomes):
        own = [outcome for outcome in outcomes if outcome["rank"] == rank]
        if not any(outcome.result for outcome in own):
            section.text.append(f"The matrices {describe(rank)} have not been run yet.")
            continue
        section.pictures.append(_draw(own, rank))
        section.tables += [_table(own, rank, key) for key in SYMBOLS]
        section.findings += _findings(own, rank)
    return section


TEXT = (
    "{size} × {size} entries scaled to 0 to 10, four fifths removed, a new matrix for each K; {restarts} restarts. "
    "σ is the standard deviation of a missing entry's prediction over the restarts. The paper does not say how its "
    "matrix is generated: ours is of rank 20, and in the full run also of independent entries, where there is nothing "
    "to recover. The paper's figure prints no numbers, so the comparison is by eye.",
    "BMC-ADMM is convex where its rank is not capped: its restarts then agree, whatever the data.",
)


def describe(rank: int | None) -> str:
    """The kind of matrix in words."""
    return f"of rank {rank}" if rank else "of independent entries"


def _kind(rank: int | None) -> str:
    """The kind of matrix in the name of a file."""
    return f"rank{rank}" if rank else "independent"


def _table(outcomes: Sequence[Outcome], rank: int | None, key: str) -> Table:
    factors = sorted({outcome["factors"] for outcome in outcomes})
    found = {(outcome["method"], outcome["factors"]): outcome.result for outcome in outcomes}
    rows: list[Row] = [
        [method, *(Figure((found.get((method, k)) or {}).get(key), absent=NOT_RUN) for k in factors)]
        for method in SHOWN
    ]
    name = f"figure2_{_kind(rank)}_{key}"
    columns = ["method", *(f"K = {k}" for k in factors)]
    if key in CLAIMED:
        rows = mark_best(rows, (*RIVALS, *OURS))
    return Table(
        name, f"{SYMBOLS[key]}, matrices {describe(rank)}", columns, rows, folded=True, breaks=["MBMF-n exact"]
    )


def _findings(outcomes: Sequence[Outcome], rank: int | None) -> list[str]:
    """At how many K the paper's claim holds: MBMF-n has the lowest ave(σ) and max(σ) of all methods it compares."""
    found: dict[int, dict[str, Mapping[str, Any]]] = {}
    for outcome in outcomes:
        if outcome.result is not None and outcome["method"] in (*RIVALS, *OURS):
            found.setdefault(outcome["factors"], {})[outcome["method"]] = outcome.result
    asked = {k: own for k, own in sorted(found.items()) if "MBMF-n" in own and len(own) > 1}
    absent = [method for method in (*RIVALS, *OURS) if not all(method in own for own in asked.values())]
    without = f" (not yet run at every K: {', '.join(absent)})" if absent else ""
    lines = []
    for key in CLAIMED if asked else ():
        lowest = [_lowest(own, key) for own in asked.values()]
        lines.append(
            f"The paper: MBMF-n has the lowest {SYMBOLS[key]} at every K. Here, on matrices {describe(rank)}: at "
            f"{lowest.count('MBMF-n')} of {len(lowest)} values of K; lowest is {counted(lowest)}{without}."
        )
    return lines


def _lowest(results: Mapping[str, Mapping[str, Any]], key: str) -> str:
    return min(results, key=lambda method: np.inf if results[method][key] is None else results[method][key])


def _draw(outcomes: Sequence[Outcome], rank: int | None) -> Picture:
    """ave(σ) and max(σ) by K, one line for each method."""
    from matplotlib.figure import Figure as Canvas
    from matplotlib.ticker import LogLocator, NullFormatter

    canvas = Canvas(figsize=(10, 4.4), layout="constrained")
    panels = canvas.subplots(1, 2)
    methods = list(dict.fromkeys(outcome["method"] for outcome in outcomes))
    for panel, key in zip(panels, CLAIMED, strict=True):
        for index, method in enumerate(methods):
            points = _points(outcomes, method, key)
            if points:
                panel.plot(*zip(*points, strict=True), **_style(index, method), label=method)
        panel.set_xlabel("K")
        panel.set_xticks(sorted({outcome["factors"] for outcome in outcomes}))
        panel.set_ylabel(SYMBOLS[key])
        panel.set_yscale("log")
        panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        panel.yaxis.set_major_formatter("{x:g}")
        panel.yaxis.set_minor_formatter(NullFormatter())
        panel.grid(alpha=0.25)
    handles, labels = panels[0].get_legend_handles_labels()
    canvas.legend(handles, labels, loc="outside lower center", ncols=6, fontsize=8, frameon=False)
    caption = f"Prediction variation on matrices {describe(rank)}; the scales of σ are logarithmic."
    return Picture(f"figure2_{_kind(rank)}", caption, as_svg(canvas))


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
