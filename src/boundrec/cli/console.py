"""What is said at the terminal: results to stdout, messages to stderr in the words of the command, a bar for a fit."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

import typer

from boundrec.notes import open_table
from boundrec.registry import MODELS

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


# --- the library's sentences in the command's words -----------------------------------------------------------

#: Arguments of the library that have an option of their own, by the names that some command has for it.
OPTIONS = {
    "n_factors": ("--k", "--factors"),
    "max_iter": ("--sweeps",),
    "duplicates": ("--duplicates",),
    "random_state": ("--seed",),
    "n_jobs": ("--threads",),
    "share": ("--share",),
    "bounds": ("--bounds",),
    "exclude_seen": ("--with-seen",),
    "keep_ratings": ("--keep-ratings",),
    "implicit": ("--implicit",),
    "noise": ("--noise",),
    "affinity": ("--affinity",),
    "by": ("--by",),
}
#: Values that an option stands for by being there.
FLAGS = {("exclude_seen", "False"), ("keep_ratings", "True"), ("affinity", "True")}
#: name="value", and another value after "or": words, numbers, and a pair of numbers.
VALUE = r"""("\w+"|'\w+'|\([-+\w.]+, [-+\w.]+\)|[-+]?[\w.]*\w)"""
SETTING = re.compile(rf"""(?<![-\w"'])(?<!--set )([a-z_]+)={VALUE}(?=[.,:;) ]|$)(?: or ("\w+"))?""")
WHERE_SETTINGS_GO = '("boundrec fit --set NAME=VALUE" takes settings; so do evaluate and tune.)'
#: The options of the command that is running.
_spoken: set[str] = set()
#: Errors whose text is meant for readers.
FORESEEN = (ImportError, OSError, ValueError, MemoryError)


def speak_for(command: Any) -> None:
    """From now on sentences are in the words of this command, one of typer's: only options that it has are named."""
    _spoken.clear()
    _spoken.update(option for param in command.params for option in (*param.opts, *param.secondary_opts))


def takes(option: str) -> bool:
    """Whether the command that is running has this option."""
    return option in _spoken


def in_command_words(message: str) -> str:
    """A sentence of the library in the words of the command: duplicates="last" is --duplicates last where it has that.

    Settings that the command does not take keep the library's words, and where to give them is said.
    """
    shown = SETTING.sub(_as_option, message)
    shown = re.sub(r"(?<![-\w])(n_factors|max_iter|random_state)\b(?!=)", lambda found: _option(found[0]), shown)
    elsewhere = "--set" not in _spoken and any(_is_setting(found[1]) for found in SETTING.finditer(shown))
    return f"{shown} {WHERE_SETTINGS_GO}" if elsewhere else shown


def _as_option(match: re.Match[str]) -> str:
    name, value, other = match.groups()
    option = _option(name)
    if (name, value) in FLAGS and option != name:
        return option
    if option != name:
        start = f"{option} "
    elif "--set" in _spoken and _is_setting(name) and not value.startswith("("):
        start = f"--set {name}="
    else:
        return match[0]
    words = [_typed(part) for part in value.strip("()").split(", ")]
    return start + " ".join(words) + (f" (or {_typed(other)})" if other else "")


def _typed(value: str) -> str:
    """A value of the library as a shell takes it: 1.0 is 1, None is none, and nothing is quoted."""
    value = value.strip("\"'")
    return "none" if value == "None" else value.removesuffix(".0")


def _option(name: str) -> str:
    """The option of this command for an argument of the library, or the argument's own name."""
    return next((option for option in OPTIONS.get(name, ()) if option in _spoken), name)


def _is_setting(name: str) -> bool:
    """Whether a model has a setting of this name."""
    return any(name in entry.load()().get_params() for entry in MODELS)


def in_one_sentence(error: Exception) -> str:
    """What went wrong, for the person at the terminal."""
    if isinstance(error, typer.BadParameter):
        return error.message  # in the words of the command already
    text = str(error)
    if isinstance(error, OSError) and error.errno == errno.EBADF:
        text = "Standard output is closed: send the results to a file or through a pipe."
    elif isinstance(error, OSError) and error.strerror:
        text = error.strerror + (f": {error.filename}" if error.filename else "")
    elif isinstance(error, OSError) and error.args:
        text = str(error.args[0])  # a sentence of our own
    if isinstance(error, MemoryError):
        text = f"There is not enough memory ({error})." if text else "There is not enough memory."
    elif not isinstance(error, FORESEEN):
        text = f"{type(error).__name__}: {text}"  # it may be no sentence
    return in_command_words(text)


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
