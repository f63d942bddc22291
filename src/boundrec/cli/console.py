"""Standard input, output and error: messages to stderr, results to stdout, a bar while a fit runs."""

from __future__ import annotations

import io
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

import typer

from boundrec.notes import open_table

if TYPE_CHECKING:
    from rich.console import Console

#: Seconds between two lines about the objective where there is no terminal to draw on.
SECONDS_A_LINE = 10.0


# --- the streams, however the command was started -------------------------------------------------------------


def prepare_streams() -> None:
    """Make stdout and stderr streams that take any text, write all of it or raise an error, and are never None."""
    _fill_closed_descriptors()
    sys.stdout = _whole_writer(sys.stdout, 1)
    sys.stderr = _whole_writer(sys.stderr, 2)


def _fill_closed_descriptors() -> None:
    """Open what was closed by ``>&-``, or the next file to be opened would take its number.

    What is written to a closed stdout must fail, so it can only be read; messages may get lost.
    """
    for number, way in enumerate((os.O_RDONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, way)  # takes the lowest number that is free


def _whole_writer(stream: TextIO | None, number: int) -> TextIO:
    """The stream; or, where it is closed or without a buffer (PYTHONUNBUFFERED), another with one.

    Without a buffer what does not fit on a disk is dropped in silence.
    """
    if stream is None or isinstance(stream.buffer, io.RawIOBase):
        encoding = None if stream is None else stream.encoding
        return open(number, "w", 1, encoding, "replace", closefd=False)
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="replace")  # a title must not end the run
    return stream


def abandon(stream: TextIO) -> None:
    """Send what is still to be printed nowhere: what cannot be printed now cannot be printed when Python ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


# --- messages and results -------------------------------------------------------------------------------------


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


# --- progress -------------------------------------------------------------------------------------------------


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
