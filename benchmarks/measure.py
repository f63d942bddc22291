"""Timing side by side, peak memory, a description of the machine, and results as tables."""

from __future__ import annotations

import json
import os
import platform
import resource
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from boundrec import datasets
from boundrec.datasets import Dataset

RESULTS = Path(__file__).parent / "results"
#: Beside the clone, where a shared folder of data sets may lie.
SHARED_DATA = Path(__file__).parents[2] / "shared" / "data"


@dataclass
class Check:
    """A measured figure against its target."""

    what: str
    measured: str
    target: str
    passed: bool

    @property
    def verdict(self) -> str:
        """Pass or fail, as a word."""
        return "pass" if self.passed else "FAIL"


@dataclass
class Part:
    """One part of a benchmark: a table, the checks drawn from it, and what a reader should know."""

    title: str
    columns: list[str]
    rows: list[list[str]]
    checks: list[Check] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def markdown(self) -> str:
        """The part as a section of a page."""
        blocks = [f"## {self.title}", table(self.columns, self.rows)] if self.rows else [f"## {self.title}"]
        if self.checks:
            found = [[check.what, check.measured, check.target, check.verdict] for check in self.checks]
            blocks.append(table(["checked", "measured", "target", "verdict"], found))
        return "\n\n".join(blocks + self.notes)


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table whose columns also line up in a terminal."""
    widths = [max(len(row[i]) for row in [columns, *rows]) for i in range(len(columns))]
    lines = [columns, ["-" * width for width in widths], *rows]
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in lines
    )


def save_parts(parts: dict[str, Part], name: str) -> None:
    """Add parts to ``results/<name>.json`` and write all it holds as ``results/<name>.md``."""
    RESULTS.mkdir(exist_ok=True)
    file = RESULTS / f"{name}.json"
    stored = json.loads(file.read_text()) if file.exists() else {}
    stored |= {letter: {**asdict(part), "machine": machine()} for letter, part in parts.items()}
    stored = dict(sorted(stored.items()))
    file.write_text(json.dumps(stored, indent=1, ensure_ascii=False) + "\n")
    sections, machines = [], sorted({entry.pop("machine") for entry in stored.values()})
    for entry in stored.values():
        entry["checks"] = [Check(**check) for check in entry["checks"]]
        sections.append(Part(**entry).markdown())
    page = [f"# benchmarks/{name}.py", "Machine: " + "; ".join(machines) + ".", *sections]
    (RESULTS / f"{name}.md").write_text("\n\n".join(page) + "\n")


def machine() -> str:
    """Processor, cores and versions: what a figure depends on, and nothing that names the host."""
    model = platform.processor() or platform.machine()
    information = Path("/proc/cpuinfo")
    if information.exists():
        names = [line.split(":")[1].strip() for line in information.read_text().splitlines() if "model name" in line]
        model = names[0] if names else model
    versions = f"Python {platform.python_version()}, NumPy {np.__version__}, Numba {numba.__version__}"
    return f"{model}, {os.cpu_count()} cores, {versions}"


def side_by_side(
    *actions: Callable[[], Any], repeats: int = 7, clock: Callable[[], float] = time.perf_counter
) -> list[float]:
    """Best time of each action, taken in turns so that a busy moment hits all of them; the first does not count."""
    best = [np.inf] * len(actions)
    for turn in range(repeats + 1):
        for i, action in enumerate(actions):
            began = clock()
            action()
            if turn:
                best[i] = min(best[i], clock() - began)
    return best


class Seconds(NamedTuple):
    """By the clock, and of the processor (all threads together)."""

    clock: float
    processor: float


def seconds(action: Callable[[], Any]) -> Seconds:
    """What an action takes."""
    began = time.perf_counter(), time.process_time()
    action()
    return Seconds(time.perf_counter() - began[0], time.process_time() - began[1])


def seconds_per_sweep(fits: Mapping[str, Callable[[int], Any]], repeats: int) -> dict[str, Seconds]:
    """Seconds a sweep of each fit: what ten more cost, divided by ten, so that reading and starting cancel.

    Fits take turns, so that a busy moment hits all. The best of the short fits and the best of the long ones are
    found first and subtracted then: the best of the differences would reward a short fit that was held up.
    """
    taken: dict[tuple[str, int], list[Seconds]] = {(name, sweeps): [] for name in fits for sweeps in (1, 11)}
    for fit in fits.values():
        fit(1)  # compiles and warms up, outside the clock
    for _ in range(repeats):
        for (name, sweeps), times in taken.items():
            times.append(seconds(partial(fits[name], sweeps)))
    best = {key: np.min(times, axis=0) for key, times in taken.items()}
    return {name: Seconds(*((best[name, 11] - best[name, 1]) / 10).tolist()) for name in fits}


class SweepClock:
    """A callback for `fit` that notes processor time and wall time after every sweep."""

    def __init__(self) -> None:
        self._cpu, self._wall = [time.process_time()], [time.perf_counter()]

    def __call__(self, sweep: int, objective: float, model: Any) -> None:
        """Note the time."""
        self._cpu.append(time.process_time())
        self._wall.append(time.perf_counter())

    @property
    def cpu(self) -> NDArray[np.float64]:
        """Processor seconds of each sweep, over all threads; the first has all preparation in it."""
        return np.diff(self._cpu)

    @property
    def wall(self) -> NDArray[np.float64]:
        """Wall seconds of each sweep."""
        return np.diff(self._wall)


def peak_memory() -> float:
    """The most memory that this process has held, in GB."""
    status = Path("/proc/self/status")
    if status.exists():  # unlike getrusage, this forgets what the parent held before it started us
        peak = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(peak.split()[1]) / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def real_data(name: str) -> Dataset | None:
    """A published data set from BOUNDREC_DATA or the shared folder; None where it is not there."""
    folder = os.environ.get("BOUNDREC_DATA") or SHARED_DATA
    try:
        return datasets.load(name, folder)
    except (FileNotFoundError, ImportError, ValueError):
        return None


def movielens_or_alike() -> tuple[str, Dataset]:
    """MovieLens 1M, or a synthetic matrix of its shape."""
    found = real_data("movielens_1m")
    if found is not None:
        return "MovieLens 1M", found
    alike = datasets.synthetic(6040, 3706, 1_000_209 / (6040 * 3706), bounds=(1, 5), rank=10)
    return "synthetic, the shape of MovieLens 1M (which is not here)", alike
