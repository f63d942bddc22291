"""The paper's Figure 1: how far NMF's predictions of missing entries scatter over restarts, MBMF beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boundrec import datasets, metrics, splits
from boundrec.paper import NOT_RUN, Figure, Options, Outcome, Picture, Row, Section, Table, protocol
from boundrec.paper.cells import Cell
from boundrec.paper.choice import Known
from boundrec.paper.methods import METHODS, Conditions
from boundrec.report.plots import as_svg

NAME = "figure1"
#: Figure 1, NMF over 1,000 repetitions: density -> ave(σ), max(σ).
PRINTED: dict[float, tuple[float, float]] = {0.8: (1.68, 2.6), 0.5: (4.00, 9.6), 0.2: (7.95, 18.5)}
SIZE, RANK, BOUNDS = 10, 3, (0.0, 10.0)
DENSITIES = tuple(PRINTED)
SHOWN = ("NMF", "MBMF-n", "MBMF-c")
#: NMF on so many other matrices, with fewer restarts: what is said of one may be its own.
MORE_MATRICES, FEWER = 10, 100
#: Seconds of one restart, measured: the matrix is so small that Python's own time is nearly all of it.
SECONDS = {"NMF": 0.05, "MBMF-n": 0.15, "MBMF-c": 0.15}


def choices(options: Options) -> Known:
    """What a reader can choose from."""
    return {"method": SHOWN}


def cells(options: Options) -> list[Cell]:
    """A cell is one method at one density, with all its restarts."""
    restarts = 100 if options.quick else 1_000
    made = []
    for density in DENSITIES:
        for method in SHOWN:
            settings = {"method": method, "density": density, "restarts": restarts}
            made.append(_cell(settings))
        for seed in range(1, 1 if options.quick else 1 + MORE_MATRICES):
            made.append(_cell({"method": "NMF", "density": density, "restarts": FEWER, "matrix": seed}))
    return made


def _cell(settings: Mapping[str, Any]) -> Cell:
    method = settings["method"]
    seconds = settings["restarts"] * SECONDS[method]
    return Cell(NAME, settings, seconds, 1, protocol.basis(_model(method, 0)))


def matrix_of(outcome: Outcome) -> int:
    """Which matrix a cell is about; the first is the one that is drawn."""
    return int(outcome.cell.settings.get("matrix", 0))


def _model(method: str, seed: int) -> Any:
    return METHODS[method].build(Conditions(RANK, BOUNDS, BOUNDS, seed))


def matrix(density: float, seed: int = 0) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """A seeded matrix of rank 3 with values from 0 to 10, and a mask of the entries that are kept."""
    data = datasets.synthetic(SIZE, SIZE, 1.0, BOUNDS, rank=RANK, random_state=seed)
    removed = splits.hold_out(data.user, data.item, 1 - density, seed + 1)
    values, kept = np.empty((SIZE, SIZE)), np.empty((SIZE, SIZE), bool)
    values[data.user, data.item] = data.rating
    kept[data.user, data.item] = ~removed
    return values, kept


def run(settings: Mapping[str, Any], options: Options) -> dict[str, Any]:
    """Mean and standard deviation over restarts, entry by entry, and their summary over the missing ones."""
    values, kept = matrix(settings["density"], settings.get("matrix", 0))
    X, everywhere = np.argwhere(kept), np.argwhere(np.ones_like(kept))
    models = (_model(settings["method"], seed) for seed in range(settings["restarts"]))
    recovered = np.array([protocol.fit(model, X, values[kept]).model.predict(everywhere) for model in models])
    average, largest = metrics.variation(recovered[:, ~kept.ravel()])
    return {
        "average": average,
        "largest": largest,
        "means": recovered.mean(axis=0).round(4).tolist(),
        "deviations": recovered.std(axis=0).round(4).tolist(),
    }


def summarise(outcomes: Sequence[Outcome], options: Options) -> Section:
    """ave(σ) and max(σ) by density, and the matrices as the paper draws them."""
    more = [outcome for outcome in outcomes if matrix_of(outcome)]
    outcomes = [outcome for outcome in outcomes if not matrix_of(outcome)]
    found = {(outcome["method"], outcome["density"]): outcome.result for outcome in outcomes}
    rows: list[Row] = []
    for method in SHOWN:
        row: list[str | Figure] = [method]
        for place, key in enumerate(("average", "largest")):
            for density in DENSITIES:
                paper = PRINTED[density][place] if method == "NMF" else None
                row.append(Figure((found.get((method, density)) or {}).get(key), paper, absent=NOT_RUN))
        rows.append(row)
    caption = f"Spread of the recovered entries over {outcomes[0]['restarts']:,} restarts, at density d"
    columns = ["method", *[f"d = {density:g}" for _ in range(2) for density in DENSITIES]]
    groups = [("", 1), ("ave(σ)", len(DENSITIES)), ("max(σ)", len(DENSITIES))]
    table = Table("figure1", caption, columns, rows, groups)
    section = Section("Figure 1: how far restarts disagree", list(TEXT), [table, *_more(more)])
    if any(outcome.result for outcome in outcomes):
        section.pictures.append(_draw(outcomes))
    return section


TEXT = (
    "A 10 × 10 matrix of rank 3 with values from 0 to 10, of which a share d is kept; three factors. The paper's own "
    "matrix is not given, so only the spread can be compared, and only in kind: it depends on the matrix. NMF has no "
    "upper bound. MBMF-n keeps every entry between −10 and 10, so that no σ can be above 10; MBMF-c between 0 and 10, "
    "so that none can be above 5. With a fifth of the entries kept, most rows have fewer of them than factors: nothing "
    "but the bound determines the rest.",
)


def _more(outcomes: Sequence[Outcome]) -> list[Table]:
    """The same of NMF on other matrices."""
    if not any(outcome.result for outcome in outcomes):
        return []
    found = {(matrix_of(outcome), outcome["density"]): outcome for outcome in outcomes}
    rows: list[Row] = []
    for one in sorted({matrix_of(outcome) for outcome in outcomes}):
        own = [found[one, density] for density in DENSITIES]
        rows.append([str(one), *(Figure(o.figure(key), absent=NOT_RUN) for key in ("average", "largest") for o in own)])
    columns = ["matrix", *[f"d = {density:g}" for _ in range(2) for density in DENSITIES]]
    groups = [("", 1), ("ave(σ)", len(DENSITIES)), ("max(σ)", len(DENSITIES))]
    caption = f"NMF on {len(rows)} other matrices, {FEWER} restarts each"
    return [Table("figure1_more", caption, columns, rows, groups, folded=True)]


def _draw(outcomes: Sequence[Outcome]) -> Picture:
    """σ of every entry: a row of panels for each method, a column for each density; kept entries are dots."""
    from matplotlib.figure import Figure as Canvas

    done = [outcome for outcome in outcomes if outcome.result is not None]
    methods = list(dict.fromkeys(outcome["method"] for outcome in done))
    canvas = Canvas(figsize=(3.1 * len(DENSITIES), 3.0 * len(methods)), layout="constrained")
    panels = canvas.subplots(len(methods), len(DENSITIES), squeeze=False)
    for panel in panels.flat:
        panel.set_axis_off()
    for outcome in done:
        panel = panels[methods.index(outcome["method"]), DENSITIES.index(outcome["density"])]
        _, kept = matrix(outcome["density"])
        deviations = np.array(outcome.figure("deviations")).reshape(kept.shape)
        image = panel.imshow(np.where(kept, np.nan, deviations), cmap="YlOrRd", vmin=0, vmax=10)
        for row, column in np.argwhere(~kept):
            value = deviations[row, column]
            ink = "white" if value > 6 else "black"
            panel.text(column, row, f"{value:.1f}", ha="center", va="center", fontsize=6.5, color=ink)
        for row, column in np.argwhere(kept):
            panel.text(column, row, "·", ha="center", va="center", fontsize=8, color="#888")
        panel.set_title(f"{outcome['method']}, d = {outcome['density']:g}", fontsize=10)
        panel.set_axis_on()
        panel.set_xticks([])
        panel.set_yticks([])
    canvas.colorbar(image, ax=panels, shrink=0.6, label="σ over restarts", extend="max")
    caption = "σ of each missing entry over the restarts; a dot is an entry that was kept."
    return Picture("figure1", caption, as_svg(canvas))
