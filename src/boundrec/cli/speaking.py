"""How the command speaks: messages to stderr, results to stdout, a bar while a fit runs."""

from __future__ import annotations

import json
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from boundrec.cli.streams import abandon
from boundrec.report.words import open_table

if TYPE_CHECKING:
    from rich.console import Console

#: Arguments of the library that have an option of their own.
OPTIONS = {
    "n_factors": "--k",
    "max_iter": "--sweeps",
    "duplicates": "--duplicates",
    "random_state": "--seed",
    "share": "--share",
}
#: Seconds between two lines about the objective where there is no terminal to draw on.
SECONDS_A_LINE = 10.0


def say(message: str) -> None:
    """Tell the person at the terminal something that is no result; where nothing can be told, the work goes on."""
    try:
        typer.echo(message, err=True)
    except OSError:
        abandon(sys.stderr)


def messages() -> Console:
    """A console on stderr that prints text as it is: a path may have brackets in it."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, markup=False)


def print_json(result: Mapping[str, Any] | Sequence[Any]) -> None:
    """A result for machines: one JSON value, without NaN, which JSON does not have."""
    typer.echo(json.dumps(_plain(result), indent=2, ensure_ascii=False, allow_nan=False))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if hasattr(value, "item"):
        value = value.item()
    return None if isinstance(value, float) and value != value else value


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table to stdout, as wide as it needs to be."""
    from rich.console import Console

    table = open_table(columns)
    for row in rows:
        table.add_row(*row)
    console = Console(width=Console(width=10_000).measure(table).maximum, highlight=False, markup=False)
    with console.capture() as printed:
        console.print(table)
    typer.echo(printed.get(), nl=False)


def in_command_words(message: str) -> str:
    """A sentence of the library in the words of the command: duplicates="last" is --duplicates last here."""
    message = re.sub(r'\b([a-z_]+)="?([\w.]+)"?(?= or |[.,:;) ]|$)(?: or "(\w+)")?', _as_option, message)
    return re.sub(r"(?<!-)\b(n_factors|max_iter|random_state)\b", lambda found: OPTIONS[found[0]], message)


def _as_option(match: re.Match[str]) -> str:
    name, value, other = match.groups()
    value += f" (or {other})" if other else ""
    return f"{OPTIONS[name]} {value}" if name in OPTIONS else f"--set {name}={value}"


@contextmanager
def warnings_as_notes() -> Iterator[None]:
    """The library's warnings become notes to stderr, each said once; other packages' are not for this reader."""
    said = set()

    def show(message: Any, *_: Any, **__: Any) -> None:
        text = in_command_words(str(message))
        if text not in said:
            said.add(text)
            say(f"Note: {text}")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("always", category=UserWarning)
        warnings.showwarning = show
        yield


@contextmanager
def live_objective(name: str, most: int) -> Iterator[Callable[[int, float, Any], None]]:
    """A callback for `fit` that shows sweep and objective: a bar on a terminal, a line now and then elsewhere."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = messages()
    columns = TextColumn("{task.description}"), BarColumn(bar_width=24), TimeElapsedColumn()
    spoken = time.monotonic()
    first = 0.0
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(f"Fitting {name}", total=most)

        def callback(sweep: int, objective: float, _: Any) -> None:
            nonlocal spoken, first
            first = first or objective
            text = f"Fitting {name}: sweep {sweep} of {most}, objective {objective:.5g}"
            if sweep > 1 and first:
                text += f" ({100 * objective / first:.3g} % of the first)"
            bar.update(task, completed=sweep, description=text)
            if not console.is_terminal and time.monotonic() - spoken > SECONDS_A_LINE:
                spoken = time.monotonic()
                say(text)

        yield callback


@contextmanager
def live_count(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """A function to tell how many more are done: a bar on a terminal, nothing elsewhere."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = messages()
    columns = TextColumn("{task.description}"), BarColumn(bar_width=24), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=total)
        yield lambda more: bar.advance(task, more)
