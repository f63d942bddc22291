"""Standard input, output and error as the command needs them, however it was started."""

from __future__ import annotations

import io
import os
import sys
from typing import TextIO


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
