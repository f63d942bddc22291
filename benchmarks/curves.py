"""Error against seconds on MovieLens 1M, 90/10, K = 20: `MBMF`, its restarts and `BayesianMBMF` beside the peers.

``python -m benchmarks.curves`` writes ``results/curves/``: a page, all points as CSV, and a plot. A point is a fit of
its own with so many sweeps or epochs, timed from the library's own container of ratings to the end of ``fit``, after
compilation; predicting is not counted. Peers run with every setting of their grid, and what counts is the best point
of all, chosen on the very ratings that are judged by: more than they could hope for. Finished curves are kept, so that
a run that was stopped goes on. Needs the peers and BOUNDREC_DATA, as `benchmarks.accuracy` does.
"""

from __future__ import annotations

import argparse
import csv
import multiprocessing
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console

from benchmarks.accuracy import tasks
from benchmarks.accuracy.methods import METHODS, Method, Own, Setup
from benchmarks.accuracy.tasks import Data
from benchmarks.drawing import new_canvas, save_svg, style
from benchmarks.measure import RESULTS, Check, Part, machine
from boundrec import metrics
from boundrec.data.ratings import Ratings
from boundrec.paper import reproduce
from boundrec.paper.cells import Cell, CellStore, make_plan, work_off
from boundrec.solvers.threads import thread_count

FACTORS = 20
#: The errors to be reached: by the exact solver, and by restarts or sampling.
SINGLE, AVERAGED = 0.847, 0.8425


class Line(NamedTuple):
    """A line of the plot: a method of the comparison, what it is built with, and the steps it is stopped after."""

    name: str
    method: str
    counts: str  # the setting that has the number of steps
    steps: tuple[int, ...]
    settings: tuple[Mapping[str, Any], ...]
    seconds: float  # of one step, about


def _grid(method: str, counts: str) -> tuple[Mapping[str, Any], ...]:
    """The settings of a peer's grid, but for the number of steps."""
    return tuple({key: value for key, value in point.items() if key != counts} for point in METHODS[method].grid)


SWEEPS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20)
LINES = (
    Line("MBMF", "MBMF", "max_iter", SWEEPS, ({},), 0.4),
    Line("MBMF, 4 restarts", "MBMF", "max_iter", (2, 3, 4, 6, 8, 12, 20), ({"n_restarts": 4},), 1.6),
    Line("BayesianMBMF", "BayesianMBMF", "max_iter", (4, 6, 8, 10, 12, 16, 20, 30, 40, 60), ({},), 0.5),
    Line("Surprise SVD", "Surprise SVD", "n_epochs", (5, 10, 20, 30, 40, 60), _grid("Surprise SVD", "n_epochs"), 1.2),
    Line("cmfrec", "cmfrec", "niter", (1, 2, 3, 5, 8, 10, 15, 20, 30), _grid("cmfrec", "niter"), 0.6),
)
PEERS = ("Surprise SVD", "cmfrec")


# --- measuring --------------------------------------------------------------------------------------------------


def curve(task: str, line: Line, settings: Mapping[str, Any]) -> list[dict[str, float]]:
    """RMSE and seconds after each number of steps."""
    data = tasks.split(task, 0)
    points = []
    for count in line.steps:
        method = METHODS[line.method](Setup(FACTORS, count, 0, thread_count(None)), _with(settings, line, count))
        seconds = _timed(method, data, {**settings, line.counts: count})
        method.finish()
        error = metrics.rmse(data.y_test, method.predict(data.X_test))
        points.append({"steps": count, "seconds": seconds, "rmse": error})
    return points


def _with(settings: Mapping[str, Any], line: Line, count: int) -> dict[str, Any]:
    return {} if issubclass(METHODS[line.method], Own) else {**settings, line.counts: count}


def _timed(method: Method, data: Data, settings: Mapping[str, Any]) -> float:
    """Seconds of a fit to data that are ready."""
    method.prepare(data)
    if not isinstance(method, Own):
        began = time.perf_counter()
        method.fit()
        return time.perf_counter() - began
    ratings = Ratings.read(data.X, data.y)
    method.model.set_params(**settings)
    began = time.perf_counter()
    method.model.fit(ratings)
    return time.perf_counter() - began


def in_own_process(task: str, cell: Cell) -> dict[str, Any]:
    """Measure the curve of a cell in a fresh process, so that no library finds another one's threads."""
    line = next(line for line in LINES if line.name == cell.settings["line"])
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=fresh) as pool:
        return {"points": pool.submit(curve, task, line, cell.settings["settings"]).result()}


def all_cells(task: str) -> list[Cell]:
    """A cell for each line and each of its settings, ours first."""
    cells = []
    for order, line in enumerate(LINES):
        for settings in line.settings:
            known = {"task": task, "line": line.name, "factors": FACTORS, "steps": list(line.steps)}
            built = METHODS[line.method](Setup(FACTORS, 1, 0, 1), settings).stated()
            seconds = 10 + line.seconds * sum(line.steps)
            cells.append(Cell("curve", {**known, "settings": settings, "built": built}, seconds, order))
    return cells


# --- reporting --------------------------------------------------------------------------------------------------


class Curve(NamedTuple):
    """A finished curve."""

    line: str
    settings: Mapping[str, Any]
    points: Sequence[Mapping[str, float]]

    @property
    def best(self) -> Mapping[str, float]:
        """The point with the least error."""
        return min(self.points, key=lambda point: point["rmse"])

    def seconds_to(self, error: float) -> float:
        """Seconds of the cheapest point that is as good; infinite if none is."""
        return min((point["seconds"] for point in self.points if point["rmse"] <= error), default=np.inf)


def write_report(task: str, curves: Sequence[Curve], output: Path) -> Path:
    """Page, points and plot."""
    best = {line.name: [c for c in curves if c.line == line.name] for line in LINES}
    rows = [_row(name, some) for name, some in best.items() if some]
    columns = ["method", "lowest RMSE", "after s", f"s to {SINGLE}", f"s to {AVERAGED}", "settings of the lowest"]
    part = Part(f"{tasks.TASKS[task].title}, 90/10, K = {FACTORS}", columns, rows, _checks(best))
    part.notes = [
        "Seconds of `fit` after compilation; ours from `Ratings`, Surprise from its Trainset, cmfrec from a sparse "
        "matrix. Surprise uses one thread, the others all cores. For orientation, not measured here: LIBMF, K = 40, "
        "comes to 0.8426 in about 1.2 s on two cores, reading included.",
        "![Error against seconds](curves.svg)",
    ]
    with (output / "curves.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["method", "settings", "steps", "seconds", "rmse"])
        for each in curves:
            writer.writerows([each.line, _words(each.settings), *point.values()] for point in each.points)
    _draw(task, best, output / "curves.svg")
    page = output / "curves.md"
    page.write_text(f"# benchmarks/curves.py\n\nMachine: {machine()}.\n\n{part.markdown()}\n")
    return page


def _row(name: str, some: Sequence[Curve]) -> list[str]:
    winner = min(some, key=lambda each: each.best["rmse"])
    reached = (min(each.seconds_to(error) for each in some) for error in (SINGLE, AVERAGED))
    times = ["never" if seconds == np.inf else f"{seconds:.2f}" for seconds in reached]
    return [name, f"{winner.best['rmse']:.4f}", f"{winner.best['seconds']:.2f}", *times, _words(winner.settings)]


def _words(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={value}" for key, value in settings.items()) or "defaults"


def _checks(best: Mapping[str, Sequence[Curve]]) -> list[Check]:
    """Whether ours reach their marks sooner than the peers their best."""
    if not all(best.values()):
        return []
    peers = min(min(best[name], key=lambda each: each.best["rmse"]).best["seconds"] for name in PEERS)
    single = best["MBMF"][0].seconds_to(SINGLE)
    averaged = min(best[name][0].seconds_to(AVERAGED) for name in ("MBMF, 4 restarts", "BayesianMBMF"))
    return [
        Check(f"MBMF reaches {SINGLE}", f"{single:.2f} s", f"< {peers:.2f} s, the sooner peer's best", single < peers),
        Check(f"restarts or sampling reach {AVERAGED}", f"{averaged:.2f} s", f"< {peers:.2f} s", averaged < peers),
    ]


def _draw(task: str, best: Mapping[str, Sequence[Curve]], path: Path) -> None:
    canvas = new_canvas()
    panel = canvas.subplots()
    for index, (name, some) in enumerate(best.items()):
        for number, each in enumerate(some):
            look = {**style(index, name not in PEERS), "label": name if number == 0 else None}
            panel.plot([p["seconds"] for p in each.points], [p["rmse"] for p in each.points], **look)
    for error in (SINGLE, AVERAGED):
        panel.axhline(error, color="grey", linewidth=0.8, linestyle=":")
    panel.set_xscale("log")
    lowest = min((each.best["rmse"] for some in best.values() for each in some), default=AVERAGED)
    panel.set_ylim(lowest - 0.005, 1.08 * lowest)  # the first steps are far above
    panel.set_xlabel("seconds to fit")
    panel.set_ylabel("RMSE on held-out ratings")
    panel.set_title(
        f"{tasks.TASKS[task].title}, K = {FACTORS}; peers: a line for each setting of the grid", fontsize=10
    )
    panel.legend(fontsize=8)
    panel.grid(alpha=0.25)
    save_svg(canvas, path)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.curves", description="Error against seconds.")
    parser.add_argument("--data", choices=list(tasks.TASKS), default="movielens-1m")
    parser.add_argument("--lines", nargs="+", choices=[line.name for line in LINES], help="these only")
    parser.add_argument("--output", type=Path, default=RESULTS / "curves")
    asked = parser.parse_args()
    reproduce.check_writable(asked.output)
    console = Console(stderr=True)
    store = CellStore(asked.output, partial(console.print, soft_wrap=True))
    cells = all_cells(asked.data)
    plan = make_plan(cells, store, force=True)
    plan.todo[:] = [cell for cell in plan.todo if cell.settings["line"] in (asked.lines or cell.settings["line"])]

    def say(cell: Cell, left: int, _: float) -> None:
        console.print(f"{left} left: {cell.settings['line']}, {_words(cell.settings['settings'])}", soft_wrap=True)

    work_off(plan, partial(in_own_process, asked.data), store, reproduce.machine(), say)
    curves = [
        Curve(cell.settings["line"], cell.settings["settings"], plan.done[cell.name]["result"]["points"])
        for cell in cells
        if cell.name in plan.done
    ]
    for name, reason in plan.failed.items():
        console.print(f"Failed: {name} ({reason})", soft_wrap=True)
    console.print(str(write_report(asked.data, curves, asked.output)), soft_wrap=True)
    return 1 if plan.failed else 0


if __name__ == "__main__":
    sys.exit(main())
