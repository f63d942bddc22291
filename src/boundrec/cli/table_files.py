"""The files that tables come in and go out to: CSV, TSV, Parquet or NDJSON, perhaps gzipped, perhaps a standard stream.

What a file to be read is shows in its first bytes, whatever its name says; one to be written is what its ending says.
Nothing here knows about ratings.
"""

from __future__ import annotations

import gzip
import io
import json
import mmap
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import dropwhile, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, TYPE_CHECKING, Any, Literal

import typer

from boundrec.cli.table_lines import Row, Text, odd_object, rows, uneven_row, unreadable_object
from boundrec.files import is_special, whole_file

if TYPE_CHECKING:
    import polars as pl

Format = Literal["delimited", "parquet", "ndjson"]
Write = Callable[["pl.DataFrame"], None]
#: Bytes from the start of a file by which its format, separator and columns are known.
HEAD = 1 << 16
#: Bytes that a first line may have.
LONGEST_LINE = 1 << 26
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
SEPARATORS = ",\t;|"
GZIP = b"\x1f\x8b"
#: Lines of NDJSON whose keys are its columns.
LINES_WITH_KEYS = 100
#: Of numbers in text; rounding keeps a prediction between its ends, which are rounded alike.
DIGITS = 9
ENDINGS = {".csv": "csv", ".tsv": "tsv", ".ndjson": "ndjson", ".jsonl": "ndjson", ".parquet": "parquet"}
FORMATS = "CSV, TSV, Parquet or NDJSON, each gzipped or not"


@dataclass(frozen=True)
class TableFile:
    """A table on disk or in memory: its format, its columns, and how to go back to a row for a message."""

    name: str
    content: Path | bytes
    header: bool | None = None

    @classmethod
    def open(cls, path: Path, header: bool | None = None) -> TableFile:
        """The table at a path, or from standard input for ``-``; gzip is unpacked into memory.

        Parameters
        ----------
        path
            The file.
        header
            Whether the first line of a CSV or TSV file has the names of the columns; None to see for itself.
        """
        if str(path) == "-":
            if sys.stdin is None:
                raise ValueError("Standard input is closed: give the name of a file, or send the table through a pipe.")
            return cls("standard input", _unpacked("standard input", sys.stdin.buffer.read()), header)
        if path.is_dir():
            raise IsADirectoryError(f"{path} is a folder: give a file ({FORMATS}).")
        try:
            with path.open("rb") as file:
                if not path.is_file():  # a pipe cannot be read twice
                    return cls(str(path), _unpacked(str(path), file.read()), header)
                if file.read(2) == GZIP:
                    return cls(str(path), _unpacked(str(path), path.read_bytes()), header)
        except FileNotFoundError:
            raise FileNotFoundError(f"There is no file {path}.") from None
        return cls(str(path), path, header)

    @cached_property
    def head(self) -> bytes:
        """The first bytes, and all of the first line."""
        with self._open() as file:
            start = file.read(HEAD)
            return start if b"\n" in start else start + file.readline(LONGEST_LINE)

    @cached_property
    def format(self) -> Format:
        """What the first bytes say."""
        if self.head.startswith(b"PAR1"):
            return "parquet"
        text = self.head.removeprefix(BYTE_ORDER_MARK).lstrip()
        if not text:
            raise ValueError(f"{self.name} is empty.")
        if text.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise ValueError(f"{self.name} is UTF-16 text: save it as UTF-8.")
        if text.startswith(b"["):
            raise ValueError(f"{self.name} is one JSON array: write one object a line (NDJSON).")
        if text.startswith(b"{"):
            return "ndjson"
        if b"\0" in text:
            above = self.head[: self.head.index(b"\0")]
            if b"\n" in above and is_utf8(above):
                line = above.count(b"\n") + 1
                raise ValueError(f"{self.name}: line {line} has a NUL byte, which belongs in no table: correct it.")
            raise ValueError(f"{self.name} is no table: give {FORMATS}.")
        if b"\r" in text and b"\n" not in text.rstrip():
            raise ValueError(f"{self.name} has line ends of old Macs (CR): save it with LF or CR LF.")
        return "delimited"

    @cached_property
    def separator(self) -> str:
        """The sign that occurs most in the first line."""
        line = self.head.lstrip(b"\r\n").partition(b"\n")[0].decode("utf-8", "replace")
        return max(SEPARATORS, key=line.count)

    @cached_property
    def first_line(self) -> list[str]:
        """The fields of the first line that is not blank."""
        text = self.head.removeprefix(BYTE_ORDER_MARK)
        first = next(row for row in rows(text, self.separator) if not row.is_blank)
        fields = [field.decode("utf-8", "replace").strip() for field in first.fields]
        if not any(fields):
            raise ValueError(f"{self.name}: line {first.line} has neither names nor values: begin with those.")
        return fields

    @cached_property
    def has_header(self) -> bool:
        """Whether the first line names the columns: as told, or when nothing in it is a number."""
        if self.format != "delimited":
            return True
        return not any(map(is_number, self.first_line)) if self.header is None else self.header

    @cached_property
    def columns(self) -> list[str]:
        """The names of the columns; 1, 2, 3 ... where the file has none."""
        import polars as pl

        if self.format == "parquet":
            names: list[str] = self._explained(lambda: pl.scan_parquet(self._source()).collect_schema().names())
            return names
        if self.format == "ndjson":
            lines = self.head.removeprefix(BYTE_ORDER_MARK).split(b"\n")[:LINES_WITH_KEYS]
            keys = list(dict.fromkeys(key for line in lines for key in _keys(line)))
            if not keys:
                wrong = unreadable_object(lines) or "its first lines have no keys."
                raise ValueError(f"{self.name} cannot be read: {wrong}")
            return keys
        if self.has_header:
            return self.first_line
        return [str(place) for place in range(1, len(self.first_line) + 1)]

    def scan(self, columns: list[str]) -> pl.LazyFrame:
        """The columns asked for, not read yet; of text files as text, and text without the blanks around it."""
        import polars as pl

        table = self._scan(columns)
        text = [name for name, kind in self._explained(table.collect_schema).items() if kind == pl.String]
        return table.with_columns(pl.col(text).str.strip_chars()) if text else table

    def _scan(self, columns: list[str]) -> pl.LazyFrame:
        import polars as pl

        if self.format == "parquet":
            return pl.scan_parquet(self._source()).select(columns)
        if self.format == "ndjson":
            return pl.scan_ndjson(self._source(), schema=dict.fromkeys(columns, pl.String))
        table = pl.scan_csv(self._source(), separator=self.separator, has_header=self.has_header, infer_schema=False)
        names = self._explained(table.collect_schema).names()  # differ where two columns have the same name
        if len(names) < len(self.columns):  # quotes that polars sees in another way
            raise ValueError(
                f"{self.name} cannot be read: {self._what_is_wrong('is a quote missing in its first line?')}"
            )
        return table.select(pl.col(names[self.columns.index(column)]).alias(column) for column in columns)

    def collect(self, table: pl.LazyFrame, columns: list[str]) -> pl.DataFrame:
        """Read what was scanned, of these columns; what cannot be read, or only in a wrong way, gets one sentence."""
        frame: pl.DataFrame = self._explained(table.collect)
        wrong = self._misread(columns, frame)
        if wrong:
            raise ValueError(f"{self.name} cannot be read: {wrong}")
        return frame

    def _misread(self, columns: list[str], frame: pl.DataFrame) -> str | None:
        """What polars reads in a wrong way without a word: rows too long or too short, odd JSON objects."""
        if self.format == "delimited":
            return uneven_row(self._text(), self.separator, len(self.columns))
        if self.format == "ndjson":
            return odd_object(self._text(), columns, every_line=_may_be_nested(frame))
        return None

    def place(self, row: int) -> str:
        """Where a row is, for a message: "line 7", or "row 7" of a file without lines."""
        if self.format == "parquet":
            return f"row {row + 1}"
        if self.format == "ndjson":
            filled = (number for number, line in enumerate(self._lines(), start=1) if line.strip())
            return f"line {next(islice(filled, row, None))}"
        return f"line {self._row(row).line}"

    # --- reading again, for messages ------------------------------------------------------------------------

    def _row(self, row: int) -> Row:
        """A row below the header, counted as polars does: blank lines are rows, but not those above the first."""
        text = self._text()
        start = len(BYTE_ORDER_MARK) if self.head.startswith(BYTE_ORDER_MARK) else 0
        filled = dropwhile(lambda found: found.is_blank, rows(text, self.separator, start))
        return next(islice(filled, row + self.has_header, None))

    def _lines(self) -> Iterator[bytes]:
        with self._open() as file:
            yield from file

    def _explained(self, read: Callable[[], Any]) -> Any:
        """Call a function of polars; its errors become one sentence with the line, where there is one."""
        import polars as pl

        try:
            with _without_panic_messages():
                return read()
        except pl.exceptions.PanicException:
            raise ValueError(f"{self.name} cannot be read: it is damaged.") from None
        except pl.exceptions.PolarsError as error:
            raise ValueError(f"{self.name} cannot be read: {self._what_is_wrong(str(error))}") from None

    def _what_is_wrong(self, message: str) -> str:
        if self.format == "delimited":
            for number, line in enumerate(self._lines(), start=1):
                try:
                    line.decode()
                except UnicodeDecodeError as error:
                    return (
                        f"line {number} is not UTF-8 text ({line[error.start : error.start + 1]!r}): save it as UTF-8."
                    )
            uneven = uneven_row(self._text(), self.separator, len(self.columns))
            return uneven or "is there a quote within a field? Put such a field in quotes, and write its own twice."
        odd = unreadable_object(self._lines()) if self.format == "ndjson" else None
        return odd or message.partition("\n")[0].rstrip(".") + "."

    # --- bytes ----------------------------------------------------------------------------------------------

    def _open(self) -> IO[bytes]:
        return io.BytesIO(self.content) if isinstance(self.content, bytes) else self.content.open("rb")

    def _source(self) -> Any:
        if self.format == "ndjson" and self.head.startswith(BYTE_ORDER_MARK):  # polars knows it in CSV files only
            return io.BytesIO(self._text()[len(BYTE_ORDER_MARK) :])
        if isinstance(self.content, bytes):
            return io.BytesIO(self.content)
        path = self.content.absolute()
        return path if _is_plain(path) else io.BytesIO(path.read_bytes())

    def _text(self) -> Text:
        if isinstance(self.content, bytes):
            return self.content
        with self.content.open("rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


@contextmanager
def _without_panic_messages() -> Iterator[None]:
    """Nothing to stderr: polars, which is written in Rust, tells of its panics there before it raises them."""
    try:
        kept = os.dup(2)
    except OSError:  # stderr is closed
        yield
        return
    try:
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _unpacked(name: str, content: bytes) -> bytes:
    if not content.startswith(GZIP):
        return content
    try:
        return gzip.decompress(content)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise ValueError(f"{name} is a gzip file that is cut off or damaged.") from None


def _is_plain(path: Path) -> bool:
    """Whether polars takes a path for that of one file: not for a pattern that others match too, nor for no text."""
    try:
        return not set(str(path).encode()) & set(b"*?[")
    except UnicodeEncodeError:
        return False


def _may_be_nested(frame: pl.DataFrame) -> bool:
    """Whether a value looks like a list or an object."""
    return any(column.str.contains(r"^\s*[\[{]").any() for column in frame.get_columns())


def is_number(field: str) -> bool:
    """Whether a field is one that Python reads as a number, which may not be finite."""
    try:
        float(field)
    except ValueError:
        return False
    return True


def _keys(line: bytes) -> list[str]:
    with suppress(ValueError, RecursionError):  # the head may end within a line; what is wrong is told later
        found = json.loads(line)
        return list(found) if isinstance(found, dict) else []
    return []


def is_utf8(text: bytes) -> bool:
    """Whether bytes are text."""
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


# --- rows out, a frame at a time ------------------------------------------------------------------------------


def format_of(output: Path) -> str:
    """The format by the file's ending, before a .gz if there is one."""
    name = output.name.lower()
    ending = Path(name.removesuffix(".gz")).suffix
    known = ENDINGS.get(ending)
    if known is None or (known == "parquet" and name.endswith(".gz")):
        if is_special(output):
            return "csv"
        raise typer.BadParameter(
            f"--output {output.name}: name it .csv, .tsv, .ndjson (or one of these with .gz) or .parquet."
        )
    return known


@contextmanager
def open_rows(output: Path | None, as_json: bool) -> Iterator[Write]:
    """A function that takes one frame after the other; without a file they go to stdout, as CSV or NDJSON."""
    if output is None:
        yield _text_writer(lambda content: typer.echo(content, nl=False), "ndjson" if as_json else "csv")
        return
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
