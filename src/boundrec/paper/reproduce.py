"""`boundrec reproduce`: collects the cells of the experiments, works them off, writes the report."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryFile
from types import ModuleType
from typing import TYPE_CHECKING, Any

from boundrec.datasets.published import data_folder
from boundrec.files import reason
from boundrec.paper import (
    Options,
    Outcome,
    claims,
    count_of,
    figure1,
    figure2,
    methods,
    readings,
    table1,
    table2,
    table3,
    verdicts,
)
from boundrec.paper.cells import LONG, Cell, CellStore, Plan, make_plan, work_off
from boundrec.paper.choice import EVERYTHING, Choice, Known
from boundrec.paper.protocol import PAPER_DATA, Absence, missing
from boundrec.paper.report import Contents, page, write_report

if TYPE_CHECKING:
    from rich.console import Console

EXPERIMENTS: dict[str, ModuleType] = {
    module.NAME: module for module in (readings, figure1, table1, table2, figure2, table3, claims)
}
TARGETS = ("figure1", "figure2", "table1", "table2", "table3", "readings", "all")
#: Settings by which cells differ only as repetitions of each other.
REPETITIONS = ("fold", "repeat")


def check_writable(folder: Path) -> None:
    """Refuse, before any work is done, a folder that could not be written to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=folder).close()
    except OSError as error:
        raise OSError(f"Cannot write to the folder {folder} ({reason(error)}). Pass another with --output.") from None


def reproduce(
    target: str,
    output: Path,
    options: Options,
    *,
    force: bool = False,
    budget: float = float("inf"),
    choice: Choice = EVERYTHING,
    messages: Console,
) -> tuple[Path, bool]:
    """Do what is left of an experiment, or of all, and write the report of everything that is finished in a folder.

    Parameters
    ----------
    target
        One of `TARGETS`. Table 3 comes with the two claims that the paper makes in its text.
    output
        Folder for the cells, the CSV files, the plots and the report.
    options
        Quick or full, and where the data are.
    force
        Also do cells that may take longer than half an hour.
    budget
        Seconds after which no cell is begun.
    choice
        Which cells of the experiment to do; the report has all that is finished, whatever was chosen.
    messages
        Where progress is shown.

    Returns
    -------
    Path, bool
        The report, and whether every cell that was begun could be done and every data set that is here be read.
    """
    check_writable(output)
    say = partial(messages.print, soft_wrap=True)
    store = CellStore(output, say)
    wanted = _wanted(target)
    with messages.status("Reading the data"):
        cells = {name: EXPERIMENTS[name].cells(options) for name in wanted}
    planned = _once(cells)
    chosen = [cell for cell in planned if choice.takes(cell, _implied(cell))]
    plan = make_plan(chosen, store, force)
    others = _others(wanted, store, options)
    absent = _absent(wanted, options, choice)
    if not choice.everything:
        say(f"Chosen: {len(chosen):,} of {count_of(len(planned), 'cell')}.")
    for line in [*_beginning(plan, absent, options), *describe_left_out(plan.too_long)]:
        say(line)
    try:
        with live_cells(plan.todo, messages) as begin:
            work_off(plan, lambda cell: perform(cell, options), store, machine(), begin, budget)
    except KeyboardInterrupt:
        say("Stopped: the same command goes on from here.")
        raise
    finally:
        report = write_report(_contents(wanted, {**others, **cells}, store, options), output)
    for line in _ending(plan):
        say(line)
    return report, not plan.failed and not any(absence.damaged for _, absence in absent)


def known_choices(target: str, options: Options) -> list[Known]:
    """What the cells of each experiment of a target can be chosen by; no data are read for it."""
    return [EXPERIMENTS[name].choices(options) for name in _wanted(target)]


def _implied(cell: Cell) -> Mapping[str, Any]:
    implied: Mapping[str, Any] = getattr(EXPERIMENTS[cell.experiment], "IMPLIED", {})
    return implied


def _wanted(target: str) -> list[str]:
    if target == "all":
        return list(EXPERIMENTS)
    return ["table3", "claims"] if target == "table3" else [target]


def _once(cells: Mapping[str, Sequence[Cell]]) -> list[Cell]:
    """Every cell once, though two experiments may share it."""
    return list({cell.name: cell for some in cells.values() for cell in some}.values())


def _beginning(plan: Plan, absent: Sequence[tuple[str, Absence]], options: Options) -> list[str]:
    """What is finished already, and what cannot be done because its data are not there."""
    lines = [f"Finished already: {count_of(len(plan.done), 'cell')}."] if plan.done else []
    folder = data_folder(options.folder)
    if folder is not None and not folder.is_dir():
        lines.append(f"There is no folder {folder}, which BOUNDREC_DATA names.")
    lines += [f"{str(why).capitalize()}: {title}. {why.reason}" for title, why in absent]
    return lines


def _absent(wanted: Sequence[str], options: Options, choice: Choice) -> list[tuple[str, Absence]]:
    """Titles of the data sets that are asked for and cannot be had here, with the reason."""
    names = table3.names(options) if {"table2", "table3"} & set(wanted) else ()
    asked = [name for name in names if choice.datasets is None or name in choice.datasets]
    absences = [(PAPER_DATA[name].title, missing(name, options.folder)) for name in asked]
    return [(title, why) for title, why in absences if why is not None]


def _ending(plan: Plan) -> list[str]:
    """What failed, and what the budget did not cover."""
    names: dict[str, list[str]] = {}
    for name, why in plan.failed.items():
        names.setdefault(why, []).append(name)
    lines = [
        f"Failed: {some[0]}{f' and {len(some) - 1:,} more' if len(some) > 1 else ''} ({why})."
        for why, some in names.items()
    ]
    left = len(plan.todo) - len(plan.failed)
    return [*lines, f"The budget is used; left for another run: {count_of(left, 'cell')}."] if left else lines


def perform(cell: Cell, options: Options) -> Mapping[str, Any]:
    """Do the work of one cell."""
    run: Callable[..., Mapping[str, Any]] = EXPERIMENTS[cell.experiment].run
    return run(cell.settings, options)


def _others(wanted: Sequence[str], store: CellStore, options: Options) -> dict[str, list[Cell]]:
    """Cells of experiments that have results in the folder but were not asked for now: the report keeps them."""
    return {name: EXPERIMENTS[name].cells(options) for name in EXPERIMENTS if name not in wanted and store.has(name)}


def _contents(
    wanted: Sequence[str], cells: Mapping[str, Sequence[Cell]], store: CellStore, options: Options
) -> Contents:
    """What the report says of what was asked for and of all else in the folder, whoever finished it."""
    done = make_plan(_once(cells), store).done
    shown = {
        name: [Outcome(cell, done.get(cell.name, {}).get("result")) for cell in cells[name]]
        for name in EXPERIMENTS
        if name in wanted or any(cell.name in done for cell in cells.get(name, ()))
    }
    sections = [EXPERIMENTS[name].summarise(outcomes, options) for name, outcomes in shown.items()]
    planned = {outcome.cell.name for some in shown.values() for outcome in some}
    if not options.quick and shown:
        sections.insert(0, verdicts.summarise([outcome for some in shown.values() for outcome in some], options))
    makers = [record["made"] for record in done.values()]
    return Contents([*sections, methods.summarise_settings()], makers or [machine()], len(planned), options.quick)


def contents_of(results: Path, complain: Callable[[str], object]) -> Contents:
    """What the report of a folder's results is made of; no data are looked for."""
    store, options = CellStore(results, complain), Options(folder=results)
    return _contents((), _others((), store, options), store, options)


def page_of(results: Path, complain: Callable[[str], object]) -> str:
    """The report of a folder's results as a page, as the documentation has it."""
    return page(contents_of(results, complain))


# --- what a run says while it runs ----------------------------------------------------------------------------


@contextmanager
def live_cells(todo: Iterable[Cell], messages: Console) -> Iterator[Callable[[Cell, int, float], None]]:
    """A function to tell which cell begins, how many are left, this one included, and how many seconds they may take.

    It draws a bar on a terminal and prints a line for each cell elsewhere.
    """
    from rich.progress import BarColumn, Progress, TextColumn

    columns = BarColumn(bar_width=20), TextColumn("{task.description}")
    with Progress(*columns, console=messages, transient=True, disable=not messages.is_terminal) as bar:
        task = bar.add_task("", total=sum(cell.seconds for cell in todo) or 1.0)
        running = 0.0

        def begin(cell: Cell, left: int, seconds: float) -> None:
            nonlocal running
            text = f"{left} left, about {in_words(seconds)}: {describe(cell)}, about {in_words(cell.seconds)}"
            bar.update(task, advance=running, description=text)
            running = cell.seconds
            if not messages.is_terminal:
                messages.print(text, soft_wrap=True)

        yield begin


def describe(cell: Cell) -> str:
    """A cell in words: table3 jester1 MF factors=10 fold=0."""
    told = (value if isinstance(value, str) else f"{key}={value}" for key, value in cell.settings.items())
    return " ".join([cell.experiment, *told])


def describe_left_out(cells: Iterable[Cell]) -> list[str]:
    """One line for cells that are repetitions of each other, with the time that each may take."""
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        rest = {key: value for key, value in cell.settings.items() if key not in REPETITIONS}
        groups.setdefault(describe(Cell(cell.experiment, rest, 0.0)), []).append(cell)
    return [
        f"Left out: {name}{f', {len(some)} times,' if len(some) > 1 else ''} "
        f"may take {in_words(some[0].seconds)}{' each' if len(some) > 1 else ''} (--force runs it)."
        for name, some in groups.items()
    ]


def in_words(seconds: float) -> str:
    """A time for readers."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.0f} min" if seconds <= 2 * LONG else f"{seconds / 3600:.1f} h"


# --- on what it runs ------------------------------------------------------------------------------------------


@lru_cache
def machine() -> dict[str, Any]:
    """What results were computed on; no names of hosts, people or folders."""
    packages = ("boundrec", "numpy", "scipy", "numba", "scikit-learn")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    versions = {"Python": platform.python_version(), **{name: _version(name) for name in packages}}
    return {"cpu": _cpu_model(), "cores": cores, "system": platform.system(), "versions": versions}


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()
