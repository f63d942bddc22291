"""The cells of the comparison: which fits there are, in which order, and how each is done."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

from benchmarks.accuracy.methods import METHODS, OURS, PEERS, Setup
from benchmarks.accuracy.tasks import SAMPLERS, TASKS, TWINS
from benchmarks.cells import run_child
from boundrec.paper.cells import Cell, CellStore
from boundrec.solvers.threads import thread_count

#: Sweeps of the samplers in a quick run.
QUICK_SWEEPS = 10


class Options(NamedTuple):
    """How much is to be done, and with what."""

    splits: int = 3
    quick: bool = False
    peer_python: str = sys.executable

    @property
    def tasks(self) -> list[str]:
        """The tasks that are there at all."""
        return ["movielens-100k"] if self.quick else list(TASKS)


def methods_of(task: str) -> list[str]:
    """Who is compared on a task."""
    asked = TASKS[task].methods
    return [name for name in METHODS if asked is None or name in asked]


def fit_cell(task: str, method: str, split: int, options: Options) -> Cell:
    """One fit to one split; what our models are built with is part of its settings, as are the peers' grids."""
    settings: dict[str, Any] = {"task": task, "method": method, **_size(task, options), "split": split}
    setup = Setup(settings["factors"], settings["sweeps"], split, 1)
    settings |= {"model": METHODS[method](setup, {}).stated(), "grid": [dict(point) for point in METHODS[method].grid]}
    return Cell("fit", settings, estimated_seconds(task, method, options), _tier(task, method, split))


def tune_cell(task: str, method: str, options: Options) -> Cell:
    """The tuning of a method for a task, done on the first split only."""
    grid = [dict(point) for point in METHODS[method].grid]
    fits = 1 if METHODS[method].late else len(grid)
    settings = {"task": task, "method": method, **_size(task, options), "grid": grid}
    return Cell("tune", settings, fits * estimated_seconds(task, method, options), _tier(task, method, 0) - 1)


def _size(task: str, options: Options) -> dict[str, int]:
    return {"factors": TASKS[task].n_factors, "sweeps": QUICK_SWEEPS if options.quick else TASKS[task].sweeps}


def _tier(task: str, method: str, split: int) -> int:
    """The samplers first, then everybody once, then the other splits; what takes another's tuning comes after it."""
    if TASKS[task].tuned_as is not None:
        return 5 if split == 0 else 9
    if split == 0:
        return 1 if method in (*SAMPLERS, *TWINS) else 3
    return 7 if method in (*SAMPLERS, *TWINS) else 11


def all_cells(options: Options) -> list[Cell]:
    """Every cell there is."""
    cells = []
    for task in options.tasks:
        for method in methods_of(task):
            if METHODS[method].grid and METHODS[method].tuned_as is None and TASKS[task].tuned_as is None:
                cells.append(tune_cell(task, method, options))
            cells += [fit_cell(task, method, split, options) for split in range(options.splits)]
    return cells


def estimated_seconds(task: str, method: str, options: Options) -> float:
    """How long a fit may take, what is measured on it included, on two cores with nothing else to do."""
    size, cost = _size(task, options), METHODS[method].cost
    iterations = METHODS[method].iterations or size["sweeps"]
    work = TASKS[task].n_ratings * size["factors"] + 5 * TASKS[task].n_rows * size["factors"]
    looking = 3e-5 if method in OURS else 1e-5  # at predictions for all pairs
    return 5.0 + looking * TASKS[task].n_ratings + cost * iterations * work


def perform(cell: Cell, store: CellStore, options: Options) -> Mapping[str, Any]:
    """Do the work of one cell, in a process of its own."""
    job = {"kind": "tune", "threads": thread_count(None), **cell.settings}
    if cell.experiment == "fit":
        job |= {"kind": "judge", "settings": chosen_settings(cell, store, options)}
    python = options.peer_python if cell.settings["method"] in PEERS else sys.executable
    return run_child("benchmarks.accuracy.child", job, python)


def chosen_settings(cell: Cell, store: CellStore, options: Options) -> dict[str, Any]:
    """What tuning chose for the method of a cell; nothing where there is nothing to tune."""
    task, method = cell.settings["task"], cell.settings["method"]
    if not METHODS[method].grid:
        return {}
    tuned = METHODS[method].tuned_as or method
    record = store.read(tune_cell(TASKS[task].tuned_as or task, tuned, options))
    if record is None:
        raise RuntimeError(f"{tuned} is not tuned for {task} yet")
    return dict(record["result"]["chosen"])
