"""The cells of the comparison: which fits there are, in which order, and how each is done."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from benchmarks.cells import run_child
from benchmarks.ranking.methods import METHODS
from benchmarks.ranking.tasks import SEEDS, TASKS
from boundrec.paper.cells import Cell, CellStore

#: All results are in one file.
FILE = "cells"


def methods_of(task: str) -> list[str]:
    """Who is compared on a data set."""
    return [name for name, kind in METHODS.items() if kind.fits(TASKS[task])]


def fit_cell(task: str, method: str, seed: int) -> Cell:
    """One fit to one split; what our models are built with is part of its settings, as is the grid."""
    settings: dict[str, Any] = {"kind": "fit", "task": task, "method": method, "seed": seed}
    settings |= {"model": METHODS[method](TASKS[task], seed, {}).stated(), "grid": METHODS[method].grid(TASKS[task])}
    return Cell(FILE, settings, _seconds(task, method), _tier(task, method, seed))


def tune_cell(task: str, method: str) -> Cell:
    """The tuning of a method, on the first split only."""
    grid = METHODS[method].grid(TASKS[task])
    settings = {"kind": "tune", "task": task, "method": method, "seed": SEEDS[0], "grid": grid}
    return Cell(FILE, settings, len(grid) * _seconds(task, method), _tier(task, method, SEEDS[0]) - 1)


def _seconds(task: str, method: str) -> float:
    return 5.0 + METHODS[method].cost * TASKS[task].seconds


def _tier(task: str, method: str, seed: int) -> int:
    """One data set after the other; on each everybody once, and then the other splits."""
    return 10 * list(TASKS).index(task) + (1 if seed == SEEDS[0] else 3)


def all_cells() -> list[Cell]:
    """Every cell there is."""
    cells = []
    for task in TASKS:
        for method in methods_of(task):
            cells += [tune_cell(task, method)] if METHODS[method].grid(TASKS[task]) else []
            cells += [fit_cell(task, method, seed) for seed in SEEDS]
    return cells


def perform(cell: Cell, store: CellStore) -> Mapping[str, Any]:
    """Do the work of one cell, in a process of its own."""
    job = dict(cell.settings)
    if cell.settings["kind"] == "fit":
        job["settings"] = chosen_settings(cell, store)
    return run_child("benchmarks.ranking.child", job, sys.executable)


def chosen_settings(cell: Cell, store: CellStore) -> dict[str, Any]:
    """What tuning chose for the method of a cell; nothing where there is nothing to tune."""
    task, method = cell.settings["task"], cell.settings["method"]
    if not METHODS[method].grid(TASKS[task]):
        return {}
    record = store.read(tune_cell(task, method))
    if record is None:
        raise RuntimeError(f"{method} is not tuned for {task} yet")
    return dict(record["result"]["chosen"])
