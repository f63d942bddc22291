"""Cells: the pieces of work that an experiment is cut into, each saved the moment it is done.

A cell is known by its settings. Finished ones are the lines of one file per experiment, each with the settings and a
checksum. The file is written whole or not at all, so that a run that was killed goes on where it stopped; the cell of a
line that is damaged or belongs elsewhere is done again.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from boundrec.files import locked, reason, whole_file

#: What is kept of a finished cell.
Record = dict[str, Any]

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
        """A name to know it by: readable, and different for different settings."""
        words = "-".join(str(value) for value in self.settings.values() if not isinstance(value, (dict, list)))
        words = re.sub(r"[^A-Za-z0-9.+]+", "-", words.replace("++", "pp")).strip("-")[:80]
        return f"{self.experiment}-{words}-{_digest({'experiment': self.experiment, **self.settings})[:8]}"


class CellStore:
    """A folder with one file for each experiment, one line of JSON for each finished cell, sorted by their names.

    Results that were kept in a file each, in the sub-folder ``cells``, are taken over, and that folder removed.
    """

    def __init__(self, folder: Path, complain: Callable[[str], object]) -> None:
        self._folder, self._complain = folder, complain
        self._complained: set[str] = set()
        self._known: dict[str, tuple[tuple[int, int, int], dict[str, Record]]] = {}
        folder.mkdir(parents=True, exist_ok=True)
        if (folder / "cells").is_dir():
            self._take_over(folder / "cells")

    def path(self, experiment: str) -> Path:
        """Where the results of an experiment are kept."""
        return self._folder / f"{experiment}.ndjson"

    def has(self, experiment: str) -> bool:
        """Whether there is any result of an experiment."""
        return self.path(experiment).exists()

    def read(self, cell: Cell) -> Record | None:
        """A finished cell's record; None, said aloud once, where it comes from another model or other data."""
        record = self._records(cell.experiment).get(cell.name)
        if record is None or cell.basis is None or record.get("basis") == _plain(cell.basis):
            return record
        self._say(f"{cell.name} comes from other settings of the model or from other data: {AGAIN}")
        return None

    def write(self, cell: Cell, result: Mapping[str, Any], made: Mapping[str, Any]) -> Record:
        """Keep a result, beside whatever other runs have finished in the meantime."""
        parts = {"experiment": cell.experiment, "settings": cell.settings, "basis": cell.basis}
        record: Record = _plain({**parts, "result": result, "made": made})
        with locked(self._folder):
            self._save(cell.experiment, {**self._records(cell.experiment), cell.name: record})
        return record

    def _records(self, experiment: str) -> dict[str, Record]:
        """The records of an experiment by the names of their cells; the file is read again when it has changed."""
        path = self.path(experiment)
        try:
            state = path.stat()
            version = state.st_ino, state.st_mtime_ns, state.st_size
            if self._known.get(experiment, (None,))[0] != version:
                self._known[experiment] = version, self._parsed(path, experiment)
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise OSError(f"Cannot read {path} ({reason(error)}). Remove it, or pass another folder.") from None
        return self._known[experiment][1]

    def _parsed(self, path: Path, experiment: str) -> dict[str, Record]:
        """The records in a file; what is no record is said aloud, and is gone when the file is next written."""
        records, flaws = {}, []
        for number, line in enumerate(path.read_bytes().splitlines() or [b""], start=1):
            try:
                record = _checked(line)
                if record["experiment"] != experiment:
                    raise ValueError("belongs to another experiment")
                records[_name(record)] = record
            except ValueError as flaw:
                flaws.append(f"line {number} {flaw}")
        if flaws:
            such = f" (the first of {len(flaws):,} such lines)" if len(flaws) > 1 else ""
            self._say(f"{path.name}, {flaws[0]}{such}: {AGAIN}")
        return records

    def _save(self, experiment: str, records: Mapping[str, Record]) -> None:
        with whole_file(self.path(experiment)) as file:
            for _, record in sorted(records.items()):
                signed = {**record, "checksum": _digest(record)}
                file.write(json.dumps(signed, allow_nan=False, ensure_ascii=False).encode() + b"\n")

    def _take_over(self, old: Path) -> None:
        """Move results from a file each to those of their experiments; what is there already goes before them."""
        with locked(self._folder):
            paths = [path for path in sorted(old.glob("*.json")) if path.is_file()]
            found: dict[str, dict[str, Record]] = {}
            for path in paths:
                try:
                    record = _checked(path.read_bytes())
                    found.setdefault(record["experiment"], {})[_name(record)] = record
                except ValueError as flaw:
                    self._say(f"{path.name} {flaw}: {AGAIN}")
            for experiment, records in found.items():
                self._save(experiment, {**records, **self._records(experiment)})
            for path in paths:
                path.unlink(missing_ok=True)
            with suppress(OSError):  # something else may be in it
                old.rmdir()

    def _say(self, text: str) -> None:
        if text not in self._complained:
            self._complained.add(text)
            self._complain(text)


AGAIN = "it does not count, and is done again in its turn."


def _checked(line: bytes) -> Record:
    """The record in a line; ValueError says what is wrong with it."""
    try:
        record = json.loads(line)
    except ValueError:
        raise ValueError("is not whole") from None
    if not isinstance(record, dict) or not {"experiment", "settings", "result"} <= record.keys():
        raise ValueError("holds no result")
    if record.pop("checksum", None) != _digest(record):
        raise ValueError("does not match its checksum")
    return record


def _name(record: Record) -> str:
    """The name of the cell that a record belongs to."""
    return Cell(record["experiment"], record["settings"], 0.0).name


class Plan(NamedTuple):
    """What is there, what is to be done, what is left out because it would take too long, and what went wrong."""

    done: dict[str, Record]
    todo: list[Cell]
    too_long: list[Cell]
    failed: dict[str, str]


def make_plan(cells: Iterable[Cell], store: CellStore, force: bool = False) -> Plan:
    """Look up every cell; what is to be done comes in the order in which it tells most for its time."""
    done: dict[str, Record] = {}
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
        Where results are kept, and what is said in each record about its making.
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
) -> Record | None:
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
