"""What every call is held to: an answer, or one sentence that the library wrote on purpose, and no leaking warning."""

from __future__ import annotations

import linecache
import os
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import sklearn
from sklearn.exceptions import ConvergenceWarning, NotFittedError

import boundrec
from boundrec.data.ratings import RatingsError
from boundrec.notes import Interrupted

PACKAGE = str(Path(boundrec.__file__).parent) + os.sep
#: Where scikit-learn refuses in the library's name: a model that is not fitted, a setting that does not exist.
SKLEARN = tuple(str(Path(sklearn.__file__).parent / file) for file in ("base.py", "utils/validation.py"))
#: What the library may refuse with, besides files that cannot be written or read.
REFUSALS = (ValueError, RatingsError, TypeError, NotFittedError, NotImplementedError, FileNotFoundError)
#: What the library may warn of.
NOTES = (UserWarning, Interrupted, ConvergenceWarning)
#: Functions that name a file or an argument in front of whatever was said about it.
PASSING_ON = ("_in_a_sentence", "_read_beside")
#: A sentence has a value, a place or a remedy: fewer words are somebody else's exception.
FEWEST_WORDS = 4


class BrokenRuleError(AssertionError):
    """Something that must not happen, in words."""


class Refused:
    """Stands for the answer of a call that was refused."""


REFUSED = Refused()


class Witness:
    """Makes calls, counts what came of them, and fails at the first that ends in any other way."""

    def __init__(self) -> None:
        self.answered = self.refused = 0
        self.last_refusal = ""

    def call(self, door: str, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """The answer of a call, or `REFUSED`."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                answer = function(*arguments, **options)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # a panic of polars is no Exception
                self.last_refusal = refusal(door, error)
                self.refused += 1
                answer = REFUSED
            else:
                self.answered += 1
        for note in caught:
            if note.category not in NOTES or not is_sentence(str(note.message)):
                raise BrokenRuleError(
                    f"{door} leaks {note.category.__name__} ({note.message}) from {note.filename}:{note.lineno}"
                )
        return answer


def require(holds: object, told: str) -> None:
    """Fail with what is wrong, unless it holds."""
    if not holds:
        raise BrokenRuleError(told)


def refusal(door: str, error: BaseException) -> str:
    """The sentence of a refusal; a failure where it is none, or was not meant as one."""
    if type(error) not in REFUSALS or not was_meant(error):
        raise BrokenRuleError(f"{door} raises {described(error)}") from error
    if not is_sentence(str(error)) and not _place(error)[0].startswith(SKLEARN):
        raise BrokenRuleError(f"{door} refuses in other than one sentence: {error!s:.300}") from error
    return str(error)


def was_meant(error: BaseException) -> bool:
    """Whether an exception was raised by a ``raise`` of the library, and quotes none that was not."""
    file, line = _place(error)
    ours = file.startswith(PACKAGE) and linecache.getline(file, line).lstrip().startswith("raise")
    quoted = error.__context__
    if quoted is not None and _function(error) in PASSING_ON and not isinstance(quoted, OSError):
        ours = ours and was_meant(quoted)
    return ours or file.startswith(SKLEARN)


def _place(error: BaseException) -> tuple[str, int]:
    """File and line where an exception began."""
    frames = list(traceback.walk_tb(error.__traceback__))
    frame, line = frames[-1]
    return frame.f_code.co_filename, line


def _function(error: BaseException) -> str:
    """The function where an exception began."""
    return next(reversed(list(traceback.walk_tb(error.__traceback__))))[0].f_code.co_name


def is_sentence(text: str) -> bool:
    """One line of some words."""
    return "\n" not in text.strip() and len(text.split()) >= FEWEST_WORDS


def described(error: BaseException) -> str:
    """An exception with the place where it began and the last line of the library on the way there."""
    file, line = _place(error)
    ours = [
        f"{Path(frame.f_code.co_filename).name}:{number}"
        for frame, number in traceback.walk_tb(error.__traceback__)
        if frame.f_code.co_filename.startswith(PACKAGE)
    ]
    via = f", via {' > '.join(ours[-3:])}" if ours else ""
    text = " ".join(str(error).split())
    return f"{type(error).__name__} ({text:.200}) at {Path(file).name}:{line}{via}"
