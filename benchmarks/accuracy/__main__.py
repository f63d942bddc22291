"""The command: works off what is left, and writes the report of everything that is finished."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

from rich.console import Console

from benchmarks.accuracy.methods import METHODS
from benchmarks.accuracy.plan import Options, all_cells, perform
from benchmarks.accuracy.report import write_report
from benchmarks.accuracy.tasks import TASKS
from benchmarks.cells import tell_the_end, work_off_aloud
from benchmarks.measure import RESULTS
from boundrec.paper.cells import CellStore, make_plan
from boundrec.paper.reproduce import check_writable


def arguments() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy", description="Accuracy against peers.")
    parser.add_argument("--data", nargs="+", choices=list(TASKS), help="work on these data sets only")
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), help="work on these methods only")
    parser.add_argument("--splits", type=int, default=3, help="splits of each data set (3)")
    parser.add_argument("--quick", action="store_true", help="MovieLens 100k, one split, ten sweeps: a trial")
    parser.add_argument("--output", type=Path, help="folder for results (benchmarks/results/accuracy)")
    parser.add_argument("--peer-python", default=sys.executable, help="the Python that has the peers")
    parser.add_argument("--hours", type=float, default=float("inf"), help="start no fit that would end later")
    return parser.parse_args()


def main() -> int:
    asked = arguments()
    options = Options(1 if asked.quick else asked.splits, asked.quick, asked.peer_python)
    output = asked.output or RESULTS / ("accuracy-quick" if asked.quick else "accuracy")
    check_writable(output)
    console = Console(stderr=True)
    store = CellStore(output, partial(console.print, soft_wrap=True))
    plan = make_plan(all_cells(options), store, force=True)
    wanted = [
        cell
        for cell in plan.todo
        if cell.settings["task"] in (asked.data or TASKS) and cell.settings["method"] in (asked.methods or METHODS)
    ]
    plan.todo[:] = wanted
    try:
        work_off_aloud(plan, lambda cell: perform(cell, store, options), store, console, asked.hours)
    finally:
        page = write_report(plan.done, output, options)
    return tell_the_end(plan, page, console)


if __name__ == "__main__":
    sys.exit(main())
