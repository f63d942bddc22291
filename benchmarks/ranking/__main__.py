"""The command: works off what is left, and writes the report of everything that is finished."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

from rich.console import Console

from benchmarks.cells import tell_the_end, work_off_aloud
from benchmarks.measure import RESULTS
from benchmarks.ranking.methods import METHODS
from benchmarks.ranking.plan import all_cells, perform
from benchmarks.ranking.report import write_report
from benchmarks.ranking.tasks import TASKS
from boundrec.paper.cells import CellStore, make_plan
from boundrec.paper.reproduce import check_writable


def arguments() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ranking", description="Lists against peers.")
    parser.add_argument("--data", nargs="+", choices=list(TASKS), help="work on these data sets only")
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), help="work on these methods only")
    parser.add_argument("--output", type=Path, default=RESULTS / "ranking", help="folder for results")
    parser.add_argument("--hours", type=float, default=float("inf"), help="start no fit that would end later")
    return parser.parse_args()


def main() -> int:
    asked = arguments()
    check_writable(asked.output)
    console = Console(stderr=True)
    store = CellStore(asked.output, partial(console.print, soft_wrap=True))
    plan = make_plan(all_cells(), store, force=True)
    plan.todo[:] = [
        cell
        for cell in plan.todo
        if cell.settings["task"] in (asked.data or TASKS) and cell.settings["method"] in (asked.methods or METHODS)
    ]
    try:
        work_off_aloud(plan, lambda cell: perform(cell, store), store, console, asked.hours)
    finally:
        page = write_report(plan.done, asked.output)
    return tell_the_end(plan, page, console)


if __name__ == "__main__":
    sys.exit(main())
