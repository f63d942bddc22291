"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryFile
from typing import BinaryIO


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A new file that takes the place of ``path`` when all of it is on the disk; until then nothing is changed.

    What is there and is no file, such as a pipe, is written to as it is.
    """
    target = Path(os.path.realpath(path))  # a link stays a link
    if is_special(target):
        try:
            with target.open("wb") as stream:
                yield stream
        except BrokenPipeError:
            raise OSError(f"Cannot write all of it to {path}: its reader has gone.") from None
        return
    temporary = target.with_name(f".boundrec-{token_hex(8)}.tmp")
    try:
        with temporary.open("x+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    _fsync_folder(target.parent)


def _fsync_folder(folder: Path) -> None:
    """Make the new name last; Windows has no such thing for folders."""
    if os.name == "posix":
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def is_special(path: Path) -> bool:
    """Whether there is something at the path that is neither a file nor a folder: a device or a pipe."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def check_writable(path: Path, what: str, option: str = "--output") -> None:
    """Refuse, before any work is done, a file that could not be written in the end."""
    if path.is_dir():
        raise OSError(f"Cannot write the {what}: {path} is a folder. Pass the name of a file with {option}.")
    if is_special(path):
        return
    try:
        TemporaryFile(dir=path.parent).close()
    except OSError as error:
        raise OSError(
            f"Cannot write the {what} to the folder {path.parent} ({reason(error)}). Pass another with {option}."
        ) from None


def reason(error: OSError) -> str:
    """Why the system refused, in small letters: "no space left on device"."""
    return (error.strerror or str(error) or "unknown reason").lower()
