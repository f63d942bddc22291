"""How a benchmark of many fits is run: each in a process of its own, and kept the moment it is done."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console

from boundrec.paper.cells import Cell, CellStore, Plan, work_off
from boundrec.paper.reproduce import live_cells, machine

ROOT = Path(__file__).parents[1]
Record = Mapping[str, Any]


def run_child(module: str, job: Mapping[str, Any], python: str) -> dict[str, Any]:
    """Run a job in a module's own process and read its figures; its last complaint is the reason when it fails.

    The job is JSON on the module's stdin, and the figures are JSON in the file that is its argument.
    """
    with TemporaryDirectory() as folder:
        answer = Path(folder) / "answer.json"
        command = [python, "-m", module, str(answer)]
        done = subprocess.run(command, input=json.dumps(job), text=True, capture_output=True, cwd=ROOT, check=False)
        if done.returncode:
            last = done.stderr.strip().splitlines()[-1:] or [f"it ended with code {done.returncode}"]
            raise RuntimeError(last[0])
        result: dict[str, Any] = json.loads(answer.read_text())
    return result


def work_off_aloud(
    plan: Plan, perform: Callable[[Cell], Mapping[str, Any]], store: CellStore, console: Console, hours: float
) -> None:
    """Do the cells of a plan in turn, and say which one is being done."""
    with live_cells(plan.todo, console) as begin:
        work_off(
            plan,
            perform,
            store,
            machine(),
            lambda cell, left, seconds: begin(_brief(cell), left, seconds),
            3600 * hours,
        )


def tell_the_end(plan: Plan, page: Path, console: Console) -> int:
    """Say what failed and what is left; the exit code."""
    for name, reason in plan.failed.items():
        console.print(f"Failed: {name} ({reason})", soft_wrap=True)
    console.print(f"{page}: {len(plan.done)} cells finished, {len(plan.todo)} of those asked for left.", soft_wrap=True)
    return 1 if plan.failed else 0


def machines(done: Mapping[str, Record]) -> str:
    """What finished cells were measured on, and with which versions."""
    machines = {f"{made['cpu']}, {made['cores']} cores" for made in (record["made"] for record in done.values())}
    versions = {record["result"]["version"] for record in done.values() if "version" in record["result"]}
    return f"Machine: {'; '.join(sorted(machines))}. Versions: {', '.join(sorted(versions))}." if done else ""


def _brief(cell: Cell) -> Cell:
    """A cell without the long parts of its settings, to be shown."""
    return replace(cell, settings={k: v for k, v in cell.settings.items() if not isinstance(v, (dict, list))})
