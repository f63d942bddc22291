"""Cells: the pieces of work that an experiment is cut into, each saved the moment it is done.

A cell is known by its settings. Its file is written whole or not at all and carries the settings and a checksum, so
that a run that was killed goes on where it stopped, and a file that is damaged or belongs elsewhere is done again.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from boundrec.files import reason, whole_file

#: A cell that may take longer than this is left out unless it is forced.
LONG = 30 * 60.0


@dataclass(frozen=True)
class Cell:
    """One piece of work.

    Attributes
    ----------
    experiment : str
        Which experiment it belongs to.
    settings : mapping
        What the work is, in JSON values: equal settings give equal results.
    seconds : float
        How long it may take, by estimate.
    tier : int
        Which cells come first: the lower, the more it tells.
    basis : mapping or None
        What the result rests on besides: the model with all its settings, and the data. A result on another basis is
        done again. None where it is not known, as for data that are not here.
    possible : bool
        Whether the cell can be done here; a result from elsewhere counts all the same.
    """

    experiment: str
    settings: Mapping[str, Any]
    seconds: float
    tier: int = 0
    basis: Mapping[str, Any] | None = None
    possible: bool = True

    @property
    def name(self) -> str:
        """A name for its file: readable, and different for different settings."""
        words = "-".join(str(value) for value in self.settings.values() if not isinstance(value, (dict, list)))
        words = re.sub(r"[^A-Za-z0-9.+]+", "-", words.replace("++", "pp")).strip("-")[:80]
        return f"{self.experiment}-{words}-{_digest({'experiment': self.experiment, **self.settings})[:8]}"


class CellStore:
    """A folder with one JSON file for each finished cell."""

    def __init__(self, folder: Path, complain: Callable[[str], object]) -> None:
        self._folder, self._complain = folder, complain
        self._complained: set[str] = set()
        folder.mkdir(parents=True, exist_ok=True)

    def path(self, cell: Cell) -> Path:
        """Where a cell's result is kept."""
        return self._folder / f"{cell.name}.json"

    def has(self, experiment: str) -> bool:
        """Whether there is a file of any cell of an experiment."""
        return any(self._folder.glob(f"{experiment}-*.json"))

    def read(self, cell: Cell) -> dict[str, Any] | None:
        """A finished cell's record; None, said aloud once, where the file is damaged or belongs to other settings."""
        path = self.path(cell)
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise OSError(f"Cannot read {path} ({reason(error)}). Remove it, or pass another folder.") from None
        try:
            return _checked(content, cell)
        except ValueError as flaw:
            if cell.name not in self._complained:
                self._complained.add(cell.name)
                self._complain(f"{path.name} {flaw}: it does not count, and is done again in its turn.")
            return None

    def write(self, cell: Cell, result: Mapping[str, Any], made: Mapping[str, Any]) -> dict[str, Any]:
        """Keep a result, in a file that is there whole or not at all."""
        record = _plain(
            {
                "experiment": cell.experiment,
                "settings": cell.settings,
                "basis": cell.basis,
                "result": result,
                "made": made,
            }
        )
        text = json.dumps({**record, "checksum": _digest(record)}, indent=1, allow_nan=False, ensure_ascii=False)
        with whole_file(self.path(cell)) as file:
            file.write(text.encode())
        return dict(record)


def _checked(content: bytes, cell: Cell) -> dict[str, Any]:
    """The record in a file; ValueError says what is wrong with it."""
    try:
        record = json.loads(content)
    except ValueError:
        raise ValueError("is not whole") from None
    if not isinstance(record, dict) or not isinstance(record.get("result"), dict):
        raise ValueError("holds no result")
    if record.pop("checksum", None) != _digest(record):
        raise ValueError("does not match its checksum")
    if record.get("experiment") != cell.experiment or record.get("settings") != _plain(cell.settings):
        raise ValueError("has other settings")
    if cell.basis is not None and record.get("basis") != _plain(cell.basis):
        raise ValueError("comes from other settings of the model or from other data")
    return record


class Plan(NamedTuple):
    """What is there, what is to be done, what is left out because it would take too long, and what went wrong."""

    done: dict[str, dict[str, Any]]
    todo: list[Cell]
    too_long: list[Cell]
    failed: dict[str, str]


def make_plan(cells: Iterable[Cell], store: CellStore, force: bool = False) -> Plan:
    """Look up every cell; what is to be done comes in the order in which it tells most for its time."""
    done: dict[str, dict[str, Any]] = {}
    todo: list[Cell] = []
    too_long: list[Cell] = []
    for cell in cells:
        record = store.read(cell)
        if record is not None:
            done[cell.name] = record
        elif cell.possible:
            (too_long if cell.seconds > LONG and not force else todo).append(cell)
    todo.sort(key=lambda cell: (cell.tier, cell.seconds))
    return Plan(done, todo, too_long, {})


def work_off(
    plan: Plan,
    perform: Callable[[Cell], Mapping[str, Any]],
    store: CellStore,
    made: Mapping[str, Any],
    watch: Callable[[Cell, int, float], object] = lambda cell, left, seconds: None,
    budget: float = float("inf"),
) -> None:
    """Do the cells of a plan in turn and keep each at once; start none whose estimate the budget no longer covers.

    A cell that fails is noted in the plan and does not keep the others from being done. One that another run has
    finished in the meantime is taken from there.

    Parameters
    ----------
    plan
        From `make_plan`; finished cells move from its ``todo`` to its ``done``.
    perform
        Does the work of one cell.
    store, made
        Where results are kept, and what is said in each file about its making.
    watch
        Told which cell begins, how many are left, this one included, and how many seconds they may take.
    budget
        Seconds.
    """
    began, expected = time.perf_counter(), 0.0
    for cell in list(plan.todo):
        used = time.perf_counter() - began
        # A busy or slow machine takes longer than the estimates say: the cells done so far tell by how much.
        pace = used / expected if expected > 60 else 1.0
        if used + cell.seconds * pace > budget:
            continue
        record = store.read(cell)
        if record is None:
            left = [one for one in plan.todo if one.name not in plan.failed]
            watch(cell, len(left), min(pace * sum(one.seconds for one in left), budget - used))
            record = _done(cell, perform, store, made, plan.failed)
            expected += cell.seconds
        if record is not None:
            plan.done[cell.name] = record
            plan.todo.remove(cell)


def _done(
    cell: Cell,
    perform: Callable[[Cell], Mapping[str, Any]],
    store: CellStore,
    made: Mapping[str, Any],
    failed: dict[str, str],
) -> dict[str, Any] | None:
    """Do one cell and keep its result; None where it fails. A folder that cannot be written ends the run instead."""
    started, cpu = time.perf_counter(), time.process_time()
    try:
        result = perform(cell)
        times = {"seconds": time.perf_counter() - started, "cpu_seconds": time.process_time() - cpu}
    except Exception as error:  # whatever it is: hours of other work must not depend on one cell
        failed[cell.name] = f"{type(error).__name__}: {error}"
        return None
    try:
        return store.write(cell, result, {**made, **times})
    except ValueError as error:  # a number that JSON does not have
        failed[cell.name] = f"{type(error).__name__}: {error}"
        return None


def _plain(value: Any) -> Any:
    """What JSON makes of a value, so that what is written equals what is read."""
    return json.loads(json.dumps(value, default=dict, allow_nan=False))


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, default=dict, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
