"""Files that are written whole or not at all."""

from __future__ import annotations

import errno
import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryFile
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # Windows, which removes no open file and renames none
    fcntl = None  # type: ignore[assignment]

#: Names of files in the making.
TEMPORARY = re.compile(r"\.boundrec-[0-9a-f]{16}\.tmp")
#: Seconds after which a file in the making counts as left behind, where no lock can tell.
SURELY_DEAD = 86_400.0


#: There is no room for more: errors of the system that do not name the file.
NO_ROOM = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A new file that takes the place of ``path`` when all of it is on the disk; until then nothing is changed.

    What is there and is no file, such as a pipe, is written to as it is. What killed processes left behind of files
    that they wrote to the same folder is removed.
    """
    try:
        with _whole_file(path) as file:
            yield file
    except OSError as error:
        if error.errno in NO_ROOM and error.filename is None:
            error.filename = str(path)
        raise


@contextmanager
def _whole_file(path: Path) -> Iterator[BinaryIO]:
    target = Path(os.path.realpath(path))  # a link stays a link
    if is_special(target):
        try:
            with target.open("wb") as stream:
                yield stream
        except BrokenPipeError:
            raise OSError(f"Cannot write all of it to {path}: its reader has gone.") from None
        return
    _remove_orphans(target.parent)
    temporary, file = _new_file(target.parent)
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            if fcntl is not None:  # under the lock, or somebody might take it for left behind
                os.replace(temporary, target)
        if fcntl is None:
            os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    _fsync_folder(target.parent)


def _new_file(folder: Path) -> tuple[Path, BinaryIO]:
    """A file under a name of its own, locked as long as it is open: the lock of a killed process is gone."""
    while True:
        temporary = folder / f".boundrec-{token_hex(8)}.tmp"
        file = open(temporary, "x+b")  # noqa: SIM115  the caller closes it
        if _lock(file.fileno(), wait=True) is not False and temporary.exists():
            return temporary, file
        file.close()  # somebody removed it between its creation and the lock


def _lock(number: int, wait: bool = False) -> bool | None:
    """Whether an open file is now locked by us; None where nobody can tell."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(number, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return None
    return True


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep others who ask for the same folder waiting; not after a kill, nor where there are no locks."""
    if fcntl is None:
        yield
        return
    number = os.open(folder, os.O_RDONLY)
    try:
        _lock(number, wait=True)
        yield
    finally:
        os.close(number)


def _remove_orphans(folder: Path) -> None:
    """Remove what killed processes left behind; a file that somebody is writing is locked."""
    with suppress(OSError):
        for name in os.listdir(folder):
            if TEMPORARY.fullmatch(name):
                with suppress(OSError):
                    _remove_if_orphan(folder / name)


def _remove_if_orphan(path: Path) -> None:
    old = time.time() - path.lstat().st_mtime > SURELY_DEAD
    if fcntl is None:
        if old:
            path.unlink()
        return
    number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        locked = _lock(number)
        if stat.S_ISREG(os.fstat(number).st_mode) and (old if locked is None else locked):
            path.unlink()
    finally:
        os.close(number)


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
