"""Finding the files that data sets are published in, and reading their formats with all their oddities; .npz files."""

import csv
import html
import io
import os
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

Folder = str | os.PathLike[str] | None

CHUNK = 1 << 24  # bytes of a long file held at a time
INTEGER = r"[+-]?\d{1,18}"
NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
BROKEN = 0.001  # share of BookCrossing's lines that may be no record: the dump has a few such, a damaged file many
POINTS = (0, 1, 2, 3, 5)  # by behaviour: none, click, collect, cart, payment

#: What reading damaged content raises. A RuntimeError is zipfile's for an entry that claims to be encrypted, or packed
#: in a way it does not know.
DAMAGE = (ValueError, EOFError, RuntimeError, csv.Error, zipfile.BadZipFile, zlib.error)

#: Arrays of an .npz file and what they hold; all but the first three may be missing.
ARRAYS: dict[str, type[np.number]] = {
    "user": np.int32,
    "item": np.int32,
    "rating": np.float64,
    "timestamp": np.int64,
    "lower": np.float64,
    "upper": np.float64,
}
#: Arrays with a name for each code, and what a data set calls them.
NAMES = {"user_names": "user_ids", "item_names": "item_ids"}


@dataclass(frozen=True)
class Origin:
    """Where a data set's files come from: the names of their archives, without .zip, and the site."""

    archives: tuple[str, ...]
    site: str


def data_folder(folder: Folder) -> Path | None:
    """The folder given, else that of the environment variable BOUNDREC_DATA, else None."""
    chosen = folder if folder is not None else os.environ.get("BOUNDREC_DATA")
    return Path(chosen) if chosen else None


def place(folder: Folder) -> str:
    """The data folder in words."""
    return str(
        data_folder(folder)
        or "a folder, and name it by folder=... (--data of the command) or the environment variable BOUNDREC_DATA"
    )


@contextmanager
def refusing_damage(place: str, remedy: str) -> Iterator[None]:
    """Make one ValueError, with the place and the remedy, of whatever damaged content raises."""
    try:
        yield
    except DAMAGE as error:
        raise ValueError(f"{place}: {_first_line(error) or 'it ends too early'}; {remedy}.") from error


@dataclass(frozen=True)
class Published:
    """A file as its owners publish it: on its own, or a member of a zip archive."""

    path: Path
    member: str | None
    site: str

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """Its bytes; what their reader cannot take is refused with the file's name and where to get it anew."""
        place = f"{self.path}, {self.member}" if self.member else str(self.path)
        with refusing_damage(place, f"download it again from {self.site}"):
            if self.member is None:
                with self.path.open("rb") as file:
                    yield file
            else:
                with zipfile.ZipFile(self.path) as archive, archive.open(self.member) as file:
                    yield file


def find(file: str, origin: Origin, folder: Folder) -> Published | None:
    """Look for the file in the folder, and in an archive's sub-folder or zip there; None when it is nowhere."""
    root = data_folder(folder)
    if root is None:
        return None
    for path in (root / file, *(root / archive / file for archive in origin.archives)):
        if path.is_file():
            return Published(path, None, origin.site)
    for path in (root / f"{archive}.zip" for archive in origin.archives):
        if path.is_file():
            with refusing_damage(str(path), f"download it again from {origin.site}"), zipfile.ZipFile(path) as archive:
                for member in archive.namelist():
                    if PurePosixPath(member).name == file:
                        return Published(path, member, origin.site)
    return None


def require(file: str, origin: Origin, folder: Folder) -> Published:
    """Look for the file as `find` does, or say where to get it and where to put it."""
    published = find(file, origin, folder)
    if published is None:
        raise FileNotFoundError(
            f"{file} is not there. Download {origin.archives[0]}.zip from {origin.site} and put the archive, "
            f"or the file from it, in {place(folder)}."
        )
    return published


def _import_polars() -> Any:
    try:
        import polars
    except ImportError:
        raise ImportError('Reading this data set needs polars: pip install "boundrec[data]".') from None
    return polars


def delimited(file: IO[bytes], separator: str, *, header: bool, timestamp: bool = True) -> list[NDArray]:
    """User, item, rating and perhaps timestamp: the columns of a plain table, separated by a character or by ::."""
    pl = _import_polars()

    types: dict[str, Any] = {"user": pl.Int64, "item": pl.Int64, "rating": pl.Float64}
    if timestamp:
        types["timestamp"] = pl.Int64
    content = file.read()
    single, plain = ("\t", content.replace(b"::", b"\t")) if separator == "::" else (separator, content)
    record = re.escape(separator).join(NUMBER if name == "rating" else INTEGER for name in types)
    told = partial(_first_odd_line, record, f"({', '.join(types)})", content, header=header)
    try:
        table = pl.read_csv(plain, separator=single, has_header=False, skip_rows=int(header), schema=types)
    except pl.exceptions.PolarsError as error:
        raise ValueError(told() or _first_line(error)) from None
    if any(table.null_count().row(0)):
        raise ValueError(told() or "a field is empty")
    if table.is_empty():
        raise ValueError("it has no ratings")
    return [column.to_numpy() for column in table.get_columns()]


def titles(file: str, separator: str, encoding: str, origin: Origin, folder: Folder) -> dict[int, str] | None:
    """Titles by id, the first two fields of each line; None where the file is missing."""
    published = find(file, origin, folder)
    if published is None:
        return None
    with published.open() as stream, io.TextIOWrapper(stream, encoding=encoding, newline="") as lines:
        rows: Iterable[list[str]] = csv.reader(lines) if separator == "," else (line.split(separator) for line in lines)
        return {int(row[0]): row[1] for row in rows if len(row) > 1 and row[0].isdecimal()}


def excel(file: IO[bytes], n_columns: int) -> NDArray[np.float64]:
    """The numbers of the first sheet of an .xls file; NaN where a cell is empty."""
    try:
        from python_calamine import CalamineError, CalamineWorkbook
    except ImportError:
        raise ImportError(
            'Reading .xls files needs a package: pip install "boundrec[data]". Or save the tables as .csv.'
        ) from None
    try:
        rows = CalamineWorkbook.from_filelike(io.BytesIO(file.read())).get_sheet_by_index(0).to_python()
    except CalamineError as error:
        raise ValueError(f"it cannot be read as an Excel file ({_first_line(error)})") from None
    return _numbers(rows, n_columns)


def comma_separated(file: IO[bytes], n_columns: int) -> NDArray[np.float64]:
    """The numbers of a .csv file without header; NaN where a field is empty."""
    with io.TextIOWrapper(file, encoding="utf-8-sig", newline="") as lines:
        return _numbers((row for row in csv.reader(lines) if row), n_columns)


def _numbers(rows: Iterable[Sequence[Any]], n_columns: int) -> NDArray[np.float64]:
    """The cells as numbers, NaN where they are empty."""
    table = []
    for number, row in enumerate(rows, start=1):
        if len(row) != n_columns:
            raise ValueError(f"row {number:,} has {len(row)} columns, not {n_columns}")
        try:
            table.append([float(cell) if cell != "" else np.nan for cell in row])
        except (ValueError, TypeError) as error:  # a spreadsheet may hold dates
            raise ValueError(f"row {number:,}: {error}") from None
    if not table:
        raise ValueError("it has no rows")
    return np.array(table, dtype=np.float64)


def book_ratings(file: IO[bytes]) -> tuple[NDArray[np.int64], NDArray[np.str_], NDArray[np.float64]]:
    """Users, ISBNs and ratings of BX-Book-Ratings.csv.

    An ISBN may hold quotes, semicolons and backslashes. Lines that are no record even so are left out, if they are few.
    """
    user, isbn, rating = zip(
        *_book_records(file, r'"(\d{1,18})";"(.*)";"(\d{1,18})"\s*', 'like "276725";"034545104X";"0"'), strict=True
    )
    return np.array(user, dtype=np.int64), np.array(isbn), np.array(rating, dtype=np.float64)


def book_titles(file: IO[bytes]) -> dict[str, str]:
    r"""Titles by ISBN of BX-Books.csv.

    Quotes in a title are escaped (\") or not, and where a backslash stands before the field's last quote the
    author is in the same field. ISBN and title begin every line nevertheless; those that do not are left out, if they
    are few.
    """
    found = _book_records(file, r'"([^"]*)";"((?:[^"\\]|\\.|"(?!;))*).*', 'like "034545104X";"Flesh Tones";...')
    return {isbn: _plain(title) for isbn, title in found}


def _book_records(file: IO[bytes], record: str, like: str) -> list[tuple[str, ...]]:
    """The groups of every line that is a record; a file where more than a few are none is refused."""
    whole, found, broken = re.compile(rf"(?:{record})[\r\n]*"), [], []
    for number, line in enumerate(file, start=1):
        text = line.decode("latin-1")
        match = whole.fullmatch(text)
        if match:
            found.append(match.groups())
        elif number > 1 or '"ISBN"' not in text:  # the header
            broken.append(_no_record(number, text, like))
    if len(broken) > BROKEN * (len(found) + len(broken)):
        raise ValueError(f"{broken[0]} (the first of {len(broken):,} such lines)")
    if not found:
        raise ValueError(f"there is no record {like}")
    return found


def _plain(title: str) -> str:
    unescaped = re.sub(r"\\(.)", r"\1", title)
    return html.unescape(re.split(r'";(?=\S)', unescaped)[0])  # what follows is the author of a broken line


def interest_points(file: IO[bytes]) -> tuple[NDArray, NDArray, NDArray]:
    """Users, categories and points of the Tianchi records, summed chunk by chunk."""
    pl = _import_polars()

    keys = ["user_id", "item_category"]
    types: dict[str, Any] = dict.fromkeys([*keys, "behavior_type"], pl.Int64)
    points = pl.Series("points", POINTS, dtype=pl.Int64)
    total = pl.DataFrame(schema={**dict.fromkeys(keys, pl.Int64), "points": pl.Int64})
    before = 0
    for chunk in line_chunks(file):
        try:
            table = pl.read_csv(chunk, columns=list(types), schema_overrides=types)
        except pl.exceptions.PolarsError as error:
            raise ValueError(_first_odd_record(chunk, before) or _first_line(error)) from None
        behaviour = table["behavior_type"]
        if any(table.null_count().row(0)) or not behaviour.is_between(1, 4).all():
            raise ValueError(_first_odd_record(chunk, before) or f"{', '.join(types)} are not all there")
        part = table.select(*keys, points.gather(behaviour))
        total = pl.concat([total, part]).group_by(keys).agg(pl.col("points").sum())
        before += chunk.count(b"\n") - 1  # each has the header in front
    if total.is_empty():
        raise ValueError("it has no records")
    user, category, value = total.sort(keys).get_columns()
    return user.to_numpy(), category.to_numpy(), value.to_numpy()


def _first_odd_record(chunk: bytes, before: int) -> str | None:
    fields = {"user_id": INTEGER, "behavior_type": "[1-4]", "item_category": INTEGER}
    header, *_ = chunk.decode("latin-1").splitlines()
    record = ",".join(fields.get(column, "[^,]*") for column in header.split(","))
    like = "(user_id, behavior_type from 1 to 4, item_category)"
    return _first_odd_line(record, like, chunk, header=True, before=before)


def line_chunks(file: IO[bytes]) -> Iterator[bytes]:
    """Pieces of about CHUNK bytes that end with a line, each with the file's header in front."""
    header, rest = file.readline(), b""
    while piece := file.read(CHUNK):
        whole, newline, rest = (rest + piece).rpartition(b"\n")
        if newline:
            yield header + whole + newline
    if rest.strip():
        yield header + rest


def _first_odd_line(record: str, like: str, content: bytes, *, header: bool, before: int = 0) -> str | None:
    """The first line that is no record, in words; None where all are. For files that the fast reader refused.

    ``before`` is how many lines of the file come before the content.
    """
    whole = re.compile(rf"(?:{record})[\r\n]*")
    for number, line in enumerate(io.BytesIO(content), start=1):
        text = line.decode("latin-1")
        if number > header and not whole.fullmatch(text):
            return _no_record(before + number, text, like)
    return None


def _no_record(number: int, text: str, like: str) -> str:
    return f"line {number:,} is no record {like}: {text.rstrip(chr(10) + chr(13))[:80]!r}"


def _first_line(error: Exception) -> str:
    """What a library says, without the advice on its own options that follows."""
    return str(error).partition("\n")[0]


# --- .npz files -----------------------------------------------------------------------------------------------


def read_npz(file: Path) -> dict[str, NDArray]:
    """The arrays of a file by name: codes from 0, ratings, perhaps timestamps, ranges and names.

    ValueError says what is wrong.
    """
    with zipfile.ZipFile(file) as archive:  # NumPy would not look at the checksum of an array it reads in part
        damaged = archive.testzip()
    if damaged:
        raise ValueError(f"its array {damaged} is damaged")
    with np.load(file) as content:
        missing = {"user", "item", "rating"} - set(content.files)
        if missing:
            raise ValueError(f"it has no array {min(missing)!r}")
        arrays = {name: _column(name, np.asarray(content[name])) for name in ARRAYS if name in content.files}
        names = {name: np.asarray(content[name]) for name in NAMES if name in content.files}
    sizes = {array.size for array in arrays.values()}
    if len(sizes) > 1 or not arrays["rating"].size:
        raise ValueError("its arrays are not of one length, at least 1")
    user, item = (_codes(name, arrays[name]) for name in ("user", "item"))
    again = np.ones(user.size, dtype=bool)
    again[np.unique(user.astype(np.int64) * (int(item.max()) + 1) + item, return_index=True)[1]] = False
    _refuse("pair", np.column_stack((user, item)), again, "one that was rated before")
    if "lower" in arrays and "upper" not in arrays:
        raise ValueError("its ranges have no upper end")
    if "upper" in arrays:
        arrays.setdefault("lower", np.zeros(arrays["upper"].size))
    for name, values in names.items():
        n_codes = int(arrays[name.removesuffix("_names")].max()) + 1
        if values.shape != (n_codes,):
            raise ValueError(f"its array {name!r} has the shape {values.shape}, not a name for each of {n_codes} codes")
    return arrays | {NAMES[name]: values for name, values in names.items()}


def _codes(name: str, codes: NDArray) -> NDArray:
    """The codes, where none is left out: the largest says how many users or items there are."""
    n_codes = np.unique(codes).size
    _refuse(name, codes, (codes < 0) | (codes >= n_codes), f"no code of 0 to {n_codes - 1}, though {n_codes} occur")
    return codes


def _column(name: str, values: NDArray) -> NDArray:
    """One column in the type that it is to have, where that changes no number."""
    if values.ndim != 1 or values.dtype.kind not in "biuf":
        raise ValueError(f"its array {name!r} of {values.dtype} and shape {values.shape} is no column of numbers")
    kind = ARRAYS[name]
    with np.errstate(invalid="ignore"):
        numbers = values.astype(kind, copy=False)
    if issubclass(kind, np.integer):
        _refuse(name, values, numbers != values, f"no whole number that fits {kind.__name__}")
    else:
        _refuse(name, values, ~np.isfinite(numbers), "no finite number")
    return numbers


def _refuse(name: str, values: NDArray, odd: NDArray[np.bool_], what: str) -> None:
    if odd.any():
        entry = int(odd.argmax())
        raise ValueError(f"{name} {values[entry]} at entry {entry:,} is {what}")
