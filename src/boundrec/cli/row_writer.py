"""Many rows out, a frame at a time: CSV, TSV, NDJSON or Parquet, to a file that is written whole or not at all."""

from __future__ import annotations

import gzip
import io
import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, TYPE_CHECKING

import typer

if TYPE_CHECKING:
    import polars as pl

Write = Callable[["pl.DataFrame"], None]

#: Of numbers in text; rounding keeps a prediction between its ends, which are rounded alike.
DIGITS = 9
ENDINGS = {".csv": "csv", ".tsv": "tsv", ".ndjson": "ndjson", ".jsonl": "ndjson", ".parquet": "parquet"}


def format_of(output: Path) -> str:
    """The format by the file's ending, before a .gz if there is one."""
    name = output.name.lower()
    ending = Path(name.removesuffix(".gz")).suffix
    known = ENDINGS.get(ending)
    if known is None or (known == "parquet" and name.endswith(".gz")):
        from boundrec.files import is_special

        if is_special(output):
            return "csv"
        raise typer.BadParameter(
            f"--output {output.name}: name it .csv, .tsv, .ndjson (or one of these with .gz) or .parquet."
        )
    return known


@contextmanager
def open_rows(output: Path | None, json: bool) -> Iterator[Write]:
    """A function that takes one frame after the other; without a file they go to stdout, as CSV or NDJSON."""
    if output is None:
        yield _text_writer(lambda content: typer.echo(content, nl=False), "ndjson" if json else "csv")
        return
    from boundrec.files import whole_file

    kind = format_of(output)
    with whole_file(output) as file, ExitStack() as stack:
        if kind == "parquet":
            yield from _parquet(file, stack)
            return
        packed = file if output.suffix.lower() != ".gz" else stack.enter_context(gzip.open(file, "wb"))
        yield _text_writer(packed.write, kind)


def _text_writer(write_bytes: Callable[[bytes], object], kind: str) -> Write:
    header = True

    def write(frame: pl.DataFrame) -> None:
        import polars.selectors as cs

        nonlocal header
        shown = frame.with_columns(cs.float().round_sig_figs(DIGITS))
        if kind == "ndjson":
            write_bytes(shown.write_ndjson().encode())
        else:
            separator = "\t" if kind == "tsv" else ","
            write_bytes(shown.write_csv(include_header=header, separator=separator).encode())
        header = False

    return write


def _parquet(file: IO[bytes], stack: ExitStack) -> Iterator[Write]:
    """Parts in a temporary folder, joined in the end without holding all of them in memory."""
    import polars as pl

    folder = Path(stack.enter_context(TemporaryDirectory(prefix="boundrec-")))
    parts: list[Path] = []

    def write(frame: pl.DataFrame) -> None:
        part = io.BytesIO()
        frame.write_parquet(part)
        parts.append(folder / f"{len(parts):06}.parquet")
        parts[-1].write_bytes(part.getbuffer())

    yield write
    with _told_by_the_system(file.name):
        pl.scan_parquet(parts).sink_parquet(file)


@contextmanager
def _told_by_the_system(path: str) -> Iterator[None]:
    """An error of polars that is one of the system, such as a full disk, as Python has it."""
    import polars as pl

    try:
        yield
    except pl.exceptions.PolarsError as error:
        number = re.search(r"\(os error (\d+)\)", str(error))
        if number is not None:
            raise OSError(int(number[1]), os.strerror(int(number[1])), path) from None
        if "transport error" in str(error):  # polars forgets why the end of a file could not be written
            raise OSError(f"Cannot write all of {path}: is the disk full?") from None
        raise


def check_output(output: Path | None, what: str, json: bool) -> None:
    """Refuse, before any work is done, rows that could not be written in the end."""
    if output is None:
        return
    from boundrec.files import check_writable

    if json:
        raise typer.BadParameter("--json is for standard output: name the file .ndjson instead.")
    format_of(output)
    check_writable(output, what)
