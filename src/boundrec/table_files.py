"""The files that tables come in: CSV, TSV, Parquet or NDJSON, perhaps gzipped, perhaps standard input.

What a file is shows in its first bytes, whatever its name says. Nothing here knows about ratings.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import polars as pl

Format = Literal["delimited", "parquet", "ndjson"]

#: Bytes from the start of a file by which its format, separator and columns are known.
HEAD = 1 << 16
SEPARATORS = ",\t;|"
GZIP = b"\x1f\x8b"
#: Lines of NDJSON whose keys are its columns.
LINES_WITH_KEYS = 100
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
        """The first bytes."""
        if isinstance(self.content, bytes):
            return self.content[:HEAD]
        with self.content.open("rb") as file:
            return file.read(HEAD)

    @cached_property
    def format(self) -> Format:
        """What the first bytes say."""
        if self.head.startswith(b"PAR1"):
            return "parquet"
        text = self.head.removeprefix(b"\xef\xbb\xbf").lstrip()
        if not text:
            raise ValueError(f"{self.name} is empty.")
        if text.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise ValueError(f"{self.name} is UTF-16 text: save it as UTF-8.")
        if text.startswith(b"["):
            raise ValueError(f"{self.name} is one JSON array: write one object a line (NDJSON).")
        if text.startswith(b"{"):
            return "ndjson"
        if b"\0" in text:
            raise ValueError(f"{self.name} is no table: give {FORMATS}.")
        return "delimited"

    @cached_property
    def separator(self) -> str:
        """The sign that occurs most in the first line."""
        line = self._head_text().lstrip().splitlines()[0]
        return max(SEPARATORS, key=line.count)

    @cached_property
    def first_line(self) -> list[str]:
        """The fields of the first line that has any."""
        records = csv.reader(io.StringIO(self._head_text(), newline=""), delimiter=self.separator)
        return next([field.strip() for field in record] for record in records if any(record))

    @cached_property
    def has_header(self) -> bool:
        """Whether the first line names the columns: as told, or when nothing in it is a number."""
        if self.format != "delimited":
            return True
        return not any(map(_is_number, self.first_line)) if self.header is None else self.header

    @cached_property
    def columns(self) -> list[str]:
        """The names of the columns; 1, 2, 3 ... where the file has none."""
        import polars as pl

        if self.format == "parquet":
            names: list[str] = self._explained(lambda: pl.scan_parquet(self._source()).collect_schema().names())
            return names
        if self.format == "ndjson":
            lines = self._head_text().splitlines()[:LINES_WITH_KEYS]
            return list(dict.fromkeys(key for line in lines for key in _keys(line)))
        if self.has_header:
            return self.first_line
        return [str(place) for place in range(1, len(self.first_line) + 1)]

    def scan(self, columns: list[str]) -> pl.LazyFrame:
        """The columns asked for, not read yet; of text files as text."""
        import polars as pl

        if self.format == "parquet":
            return pl.scan_parquet(self._source()).select(columns)
        if self.format == "ndjson":
            return pl.scan_ndjson(self._source(), schema=dict.fromkeys(columns, pl.String))
        table = pl.scan_csv(self._source(), separator=self.separator, has_header=self.has_header, infer_schema=False)
        names = self._explained(table.collect_schema).names()  # differ where two columns have the same name
        return table.select(pl.col(names[self.columns.index(column)]).alias(column) for column in columns)

    def collect(self, table: pl.LazyFrame) -> pl.DataFrame:
        """Read what was scanned; what cannot be read gets one sentence."""
        frame: pl.DataFrame = self._explained(table.collect)
        return frame

    def place(self, row: int) -> str:
        """Where a row is, for a message: "line 7", or "row 7" of a file without lines."""
        if self.format == "parquet":
            return f"row {row + 1}"
        return f"line {self._line_numbers(row)}"

    def field(self, row: int, column: str) -> str | None:
        """What stands in a text file at a row and column."""
        if self.format != "delimited":
            return None
        record = next(record for number, (_, record) in enumerate(self._records()) if number == row)
        index = self.columns.index(column)
        return record[index].strip() if index < len(record) else None

    # --- reading again, for messages ------------------------------------------------------------------------

    def _line_numbers(self, row: int) -> int:
        if self.format == "ndjson":
            filled = (number for number, line in enumerate(self._lines(), start=1) if line.strip())
            return next(number for count, number in enumerate(filled) if count == row)
        return next(line for number, (line, _) in enumerate(self._records()) if number == row)

    def _records(self) -> Iterator[tuple[int, list[str]]]:
        """Line number and fields of every row; a quoted field may hold line breaks."""
        text = (
            line.decode("utf-8-sig" if number == 0 else "utf-8", "replace") for number, line in enumerate(self._lines())
        )
        reader = csv.reader(text, delimiter=self.separator)
        end = 0
        begun = not self.has_header
        for record in reader:
            start, end = end + 1, reader.line_num
            if begun:
                yield start, record
            begun = begun or any(record)

    def _lines(self) -> Iterator[bytes]:
        with io.BytesIO(self.content) if isinstance(self.content, bytes) else self.content.open("rb") as file:
            yield from file

    def _explained(self, read: Any) -> Any:
        """Call a function of polars; its errors become one sentence with the line, where there is one."""
        import polars as pl

        try:
            return read()
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
            width = len(self.columns)
            for line_number, record in self._records():
                if len(record) > width:
                    return f"line {line_number} has {len(record)} fields, but there are {width} columns."
            return "is there a quote that is never closed?"
        if self.format == "ndjson":
            for number, line in enumerate(self._lines(), start=1):
                if line.strip() and not _is_object(line):
                    return f"line {number} is not a JSON object."
        return message.partition("\n")[0].rstrip(".") + "."

    # --- bytes ----------------------------------------------------------------------------------------------

    def _source(self) -> Any:
        return self.content if isinstance(self.content, Path) else io.BytesIO(self.content)

    def _head_text(self) -> str:
        return self.head.decode("utf-8-sig", "replace")


def _unpacked(name: str, content: bytes) -> bytes:
    if not content.startswith(GZIP):
        return content
    try:
        return gzip.decompress(content)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise ValueError(f"{name} is a gzip file that is cut off or damaged.") from None


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _keys(line: str) -> list[str]:
    try:
        found = json.loads(line)
    except ValueError:  # the head may end within a line
        return []
    return list(found) if isinstance(found, dict) else []


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False
