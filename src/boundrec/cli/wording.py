"""Errors and warnings of the library in the words of the command that is running: its options, one sentence each."""

from __future__ import annotations

import errno
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer

from boundrec.cli.console import say
from boundrec.registry import MODELS

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
}
#: Values that an option stands for by being there.
FLAGS = {("exclude_seen", "False"), ("keep_ratings", "True")}
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
    if option == name:
        if "--set" not in _spoken or value.startswith("(") or not _is_setting(name):
            return match[0]
        option = f"--set {name}="
    elif (name, value) in FLAGS:
        return option
    else:
        option += " "
    words = [_typed(part) for part in value.strip("()").split(", ")]
    return option + " ".join(words) + (f" (or {_typed(other)})" if other else "")


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
