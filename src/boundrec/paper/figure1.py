"""The paper's Figure 1: how far NMF's predictions of missing entries scatter over restarts, MBMF beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boundrec import datasets, metrics, splits
from boundrec.paper import protocol, published
from boundrec.paper.cells import Cell
from boundrec.paper.protocol import METHODS, Setting
from boundrec.paper.sections import Figure, Options, Outcome, Section, Table

NAME = "figure1"
SIZE, RANK, BOUNDS = 10, 3, (0.0, 10.0)
DENSITIES = tuple(published.FIGURE1)
SHOWN = ("NMF", "MBMF-n", "MBMF-c")
#: Seconds of one restart, measured: the matrix is so small that Python's own time is nearly all of it.
SECONDS = {"NMF": 0.05, "MBMF-n": 0.15, "MBMF-c": 0.15}


def cells(options: Options) -> list[Cell]:
    """A cell is one method at one density, with all its restarts."""
    restarts = 100 if options.quick else 1_000
    return [
        Cell(NAME, {"method": method, "density": density, "restarts": restarts}, restarts * SECONDS[method], 1)
        for density in DENSITIES
        for method in SHOWN
    ]


def matrix(density: float) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """A seeded matrix of rank 3 with values from 0 to 10, and a mask of the entries that are kept."""
    data = datasets.synthetic(SIZE, SIZE, 1.0, BOUNDS, rank=RANK, random_state=0)
    removed = splits.hold_out(data.user, data.item, 1 - density, 1)
    values, kept = np.empty((SIZE, SIZE)), np.empty((SIZE, SIZE), bool)
    values[data.user, data.item] = data.rating
    kept[data.user, data.item] = ~removed
    return values, kept


def run(settings: Mapping[str, Any], options: Options) -> dict[str, Any]:
    """Mean and standard deviation over restarts, entry by entry, and their summary over the missing ones."""
    values, kept = matrix(settings["density"])
    X, everywhere = np.argwhere(kept), np.argwhere(np.ones_like(kept))
    method = METHODS[settings["method"]]
    recovered = np.array(
        [
            protocol.fit(method.build(Setting(RANK, BOUNDS, BOUNDS, seed)), X, values[kept]).model.predict(everywhere)
            for seed in range(settings["restarts"])
        ]
    )
    average, largest = metrics.variation(recovered[:, ~kept.ravel()])
    return {
        "average": average,
        "largest": largest,
        "means": recovered.mean(axis=0).round(4).tolist(),
        "deviations": recovered.std(axis=0).round(4).tolist(),
    }


def summarise(outcomes: Sequence[Outcome], options: Options) -> Section:
    """ave(σ) and max(σ) by density, and the matrices as the paper draws them."""
    rows: list[Sequence[str | Figure]] = []
    for outcome in outcomes:
        printed = published.FIGURE1[outcome["density"]] if outcome["method"] == "NMF" else (None, None)
        result = outcome.result or {}
        row = [f"{outcome['method']}, d = {outcome['density']:g}"]
        both = zip(("average", "largest"), printed, strict=True)
        rows.append([*row, *(Figure(result.get(key), paper, absent="not run") for key, paper in both)])
    restarts = outcomes[0]["restarts"] if outcomes else 0
    caption = f"Spread of the recovered entries over {restarts:,} restarts, at density d"
    table = Table("figure1", caption, ["method", "ave(σ)", "max(σ)"], rows)
    section = Section("Figure 1: how far restarts disagree", list(TEXT), [table])
    if any(outcome.result for outcome in outcomes):
        from boundrec.paper.plots import draw_figure1

        section.pictures.append(draw_figure1(outcomes, {density: matrix(density) for density in DENSITIES}))
    return section


TEXT = (
    "A 10 × 10 matrix of rank 3 with values from 0 to 10, of which a share d is kept; three factors. The paper's own "
    "matrix is not given, so only the spread can be compared, and only in kind: it depends on the matrix. NMF has no "
    "bound and its missing entries scatter the more the fewer are kept; MBMF's cannot leave their range.",
)
