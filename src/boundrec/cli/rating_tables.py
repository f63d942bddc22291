"""Ratings out of the tables people have: which column is which, ids as row numbers, every value checked.

Ids are text in a CSV file, and stay text ("007" is not 7) unless every id of the column is a plain whole number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from boundrec.cli.console import say
from boundrec.cli.table_files import TableFile, is_number, is_utf8
from boundrec.data.columns import short
from boundrec.data.ids import IdIndex
from boundrec.data.ratings import LARGEST, Ends, Ratings, RatingsError

if TYPE_CHECKING:
    import polars as pl

Codes = NDArray[np.int32]
Floats = NDArray[np.float64]

#: Usual names of the columns, in small letters without any other signs, the likeliest first.
USUAL_NAMES = {
    "user": "userid user uid useridx username customerid customer reviewerid reviewer accountid account memberid "
    "member visitorid personid person viewer who u",
    "item": "itemid item iid itemidx movieid movie filmid film productid product asin parentasin isbn bookid book "
    "songid song trackid track artistid artist businessid business gameid game animeid jokeid joke articleid article "
    "recipeid recipe venueid venue placeid place shopid title what i",
    "rating": "rating ratings score stars star overall value bookrating userrating grade points count plays playcount "
    "listens quantity amount weight r",
    "lower": "lower low lo lowerend lowerbound min minimum least",
    "upper": "upper high hi upperend upperbound max maximum most capacity cap limit",
}
WHOLE = re.compile(r"0|-?[1-9][0-9]*")


@dataclass(frozen=True)
class ColumnNames:
    """The names of the columns asked for; None is to be guessed."""

    user: str | None = None
    item: str | None = None
    rating: str | None = None
    time: str | None = None
    #: The ends of each row's range; a number that is no column's name stands for all rows.
    lower: str | None = None
    upper: str | None = None


class Ids(NamedTuple):
    """A column of ids: the distinct ones, and the row number of each entry's."""

    distinct: IdIndex
    codes: Codes

    def column(self) -> NDArray[Any]:
        """The ids, one an entry."""
        column: NDArray[Any] = self.distinct.ids[self.codes]
        return column

    def at(self, entries: slice | NDArray[np.integer]) -> Ids:
        """The same ids for some of the entries."""
        return Ids(self.distinct, self.codes[entries])


@dataclass(frozen=True)
class RatingRows:
    """Ratings as they were read, row by row; a pair may be there more than once."""

    file: TableFile
    names: Mapping[str, str]
    users: Ids
    items: Ids
    values: Floats
    times: NDArray[Any] | None
    filled: NDArray[np.int64] | None  # rows of the file that these are; None where all of them are here
    ends: Ends | None = None  # of the range of each pair, where pairs have ranges of their own
    clicks: bool = False  # whether values are no ratings but say how often somebody chose something

    def with_ids_like(self, users: IdIndex, items: IdIndex) -> RatingRows:
        """The same with ids of the kind that others have: "7" is 7 where their ids are whole numbers."""
        return replace(self, users=ids_like(self.users, users), items=ids_like(self.items, items))

    def settled(self, duplicates: str | None) -> RatingTable:
        """Each pair once: pairs that come more than once are refused ("raise"), or become one as asked for.

        None adds up clicks, and refuses ratings.
        """
        if duplicates is None:
            duplicates = "sum" if self.clicks else "raise"
        self._check_strengths()
        try:
            ratings = Ratings.from_codes(self.users, self.items, self.values, duplicates, self.ends)
        except RatingsError as error:
            user, item = error.pair
            what, remedy = "a pair that was rated before", "--duplicates last or --duplicates mean"
            if self.clicks:
                remedy = "--duplicates sum or --duplicates last"
            if error.flaw == "ranges":
                what, remedy = "a pair that was rated before, in another range", "--duplicates last"
            raise ValueError(
                f"{self.file.name}: {error.count:,} ratings are of {what} "
                f"(first: user {user!r}, item {item!r}, {' and '.join(map(self.place, error.rows))}): "
                f"pass {remedy}, or give each pair once."
            ) from None
        names = (self.names["user"], self.names["item"]) if self.file.has_header else None
        return RatingTable(self, replace(ratings, names=names))

    def _check_strengths(self) -> None:
        """Refuse clicks that are none, before they are added up."""
        bad = np.flatnonzero(self.values <= 0) if self.clicks else np.empty(0, np.int64)
        if bad.size:
            raise ValueError(
                f"{self.file.name}: {bad.size:,} of {self.values.size:,} values of {self.names['rating']!r} are not "
                f"above 0 (first: {self.values[bad[0]]:g} in {self.place(int(bad[0]))}), and cannot say how often "
                "somebody chose something: leave these rows out, or name another column with --rating."
            )

    def place(self, row: int) -> str:
        """Where in the file one of these rows is."""
        return self.file.place(row if self.filled is None else int(self.filled[row]))


@dataclass(frozen=True)
class RatingTable:
    """Ratings out of a file, each pair once, and the rows that they came in."""

    read: RatingRows
    ratings: Ratings

    def as_rows(self) -> RatingRows:
        """The ratings in the order of the file, without the rows of pairs that came more than once."""
        ratings = self.ratings
        assert ratings.rows is not None
        order = np.argsort(ratings.rows)
        users, items = Ids(ratings.users, ratings.user_of_rating()), Ids(ratings.items, ratings.by_user.indices)
        rows = ratings.rows[order].astype(np.int64, copy=False)
        filled = rows if self.read.filled is None else self.read.filled[rows]
        return replace(
            self.read,
            users=users.at(order),
            items=items.at(order),
            values=ratings.by_user.data[order].astype(np.float64),
            times=None,
            filled=filled,
            ends=ratings.ends and ratings.ends.take(order),
        )

    def check_bounds(self, bounds: tuple[float | None, float | None]) -> None:
        """Refuse ratings outside declared bounds, with the first one's place; an end that is None is open."""
        try:
            self.ratings.check_bounds(bounds)
        except RatingsError as error:
            ends = " to ".join("none" if end is None else f"{end:g}" for end in bounds)
            raise ValueError(
                f"{self.read.file.name}: {error.count:,} of {error.total:,} ratings lie outside the bounds "
                f"{ends} (first: {error.value:g} in {self.read.place(error.rows[0])}): widen them or correct these."
            ) from None


def pair_frame(users: NDArray[Any], items: NDArray[Any]) -> pl.DataFrame:
    """Two columns of ids as one frame, each with its own type."""
    import polars as pl

    return pl.DataFrame([id_series(users).alias("user"), id_series(items).alias("item")])


def mixed_columns(**ids: Any) -> list[str]:
    """The columns whose ids are of several types, or of one that a table has no column for."""
    return [name for name, column in ids.items() if _are_mixed(column)]


def _are_mixed(ids: Any) -> bool:
    plain = ids.tolist() if isinstance(ids, np.ndarray) else list(ids)
    kinds = set(map(type, plain))
    return not (kinds <= {str} or (kinds <= {int} and all(-(2**63) <= one < 2**63 for one in plain)))


def as_text(frame: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    """A frame with some of its columns as text."""
    import polars as pl

    return frame.with_columns(pl.Series(name, list(map(str, frame[name])), dtype=pl.String) for name in columns)


def id_series(ids: NDArray[Any]) -> pl.Series:
    """Ids as a column of whole numbers, of text, or, where they are of several types, of objects."""
    import polars as pl

    if ids.dtype != object:
        return pl.Series(ids)
    return pl.Series(ids.tolist(), dtype=pl.Object if _are_mixed(ids) else None)


# --- reading ------------------------------------------------------------------------------------------------


def read_table(
    path: Path, columns: ColumnNames, header: bool | None, *, fitted: bool = False, clicks: bool = False
) -> RatingRows:
    """Ratings from a file, with a word about what was guessed; for a model that is fitted, or to be fitted."""
    return read_ratings(TableFile.open(path, header), columns, say, fitted, clicks)


def read_same_columns(path: Path, table: RatingTable, header: bool | None, duplicates: str | None) -> RatingTable:
    """Ratings from another file with the columns and the kind of ids of one that was read before."""
    names = {role: name for role, name in table.read.names.items() if role != "time"}
    other = read_table(path, ColumnNames(**names), header, clicks=table.read.clicks)
    return other.with_ids_like(table.ratings.users, table.ratings.items).settled(duplicates)


def read_ratings(
    file: TableFile, asked: ColumnNames, tell: Callable[[str], object], fitted: bool = False, clicks: bool = False
) -> RatingRows:
    """Read a table of ratings and check every value.

    Parameters
    ----------
    file
        The table.
    asked
        Names of its columns; those that are None are guessed, a time is read only when asked for.
    tell
        Is told what was guessed.
    fitted
        Whether the model that they are for is fitted: then both ends of a range may be numbers.
    clicks
        Whether they are clicks: without a column that says how often, every row is one.
    """
    with_values = not clicks or asked.rating is not None or _has_ratings(file, asked)
    roles = ("user", "item", "rating") if with_values else ("user", "item")
    remedy = "" if fitted else ", or learn from clicks, which have none, by boundrec fit --model implicit"
    names = choose_columns(file, asked, roles, tell, {"rating": remedy})
    if asked.time is not None:
        names["time"] = _existing(file, asked.time, "time")
    columns = Columns.read(file, {**names, **range_names(file, asked, names, fitted)})
    values = columns.ratings() if with_values else np.ones(len(columns.frame))
    times, ends = columns.times(), columns.ends()
    users, items = columns.ids("user"), columns.ids("item")
    return RatingRows(file, columns.names, users, items, values, times, columns.filled, ends, clicks)


def _has_ratings(file: TableFile, asked: ColumnNames) -> bool:
    """Whether a column has the usual name of one of ratings or counts; without names, whether there is a third."""
    others = (asked.user, asked.item, asked.time)
    free = [column for column in file.columns if column not in others]
    return bool(_guess("rating", free)) if file.has_header else len(file.columns) > 2 and asked.time is None


def read_pairs(file: TableFile, asked: ColumnNames, tell: Callable[[str], object]) -> RatingRows:
    """Read two columns of ids, and those of ranges where these are asked for; there are no ratings."""
    names = choose_columns(file, asked, ("user", "item"), tell)
    columns = Columns.read(file, {**names, **range_names(file, asked, names, may_be_numbers=True)})
    users, items, ends = columns.ids("user"), columns.ids("item"), columns.ends()
    return RatingRows(file, columns.names, users, items, np.empty(0), None, columns.filled, ends)


def range_names(
    file: TableFile, asked: ColumnNames, others: Mapping[str, str], may_be_numbers: bool = False
) -> dict[str, str]:
    """The columns of lower and upper ends that are asked for, or the numbers that stand for all rows.

    Both may be numbers where rows are to be predicted; where they are to be fitted that is one range for all.
    """
    found = {role: name for role in Ends._fields if (name := getattr(asked, role)) is not None}
    for role, name in found.items():
        if name not in file.columns and not is_number(name):
            _existing(file, name, role)
        if name not in file.columns and not abs(float(name)) <= LARGEST:
            raise ValueError(f"--{role} {name}: give a column, or a finite number that stands for all rows.")
        taken = next((other for other, column in others.items() if column == name), None)
        if taken is not None:
            raise ValueError(f"{file.name}: --{role} names the column of the {taken}s, {name!r}: name another.")
    if found and not {*found.values()} & {*file.columns}:
        if not may_be_numbers:
            ends = " ".join(found.values())
            raise ValueError(f"{file.name} has no columns {ends}: one range for all is --bounds {ends}.")
        if float(found["lower"]) > float(found["upper"]):
            raise ValueError(f"--lower {found['lower']} is above --upper {found['upper']}: exchange them.")
    elif len(set(found.values())) < len(found):
        raise ValueError(f"{file.name}: --lower and --upper name the same column, {asked.lower!r}: give each its own.")
    return found


def read_ids(file: TableFile, role: str, asked: str | None, tell: Callable[[str], object]) -> list[str]:
    """The distinct ids of one column, as text: the only column there is, the one asked for or the one guessed."""
    if asked is None and len(file.columns) == 1:
        asked = file.columns[0]
    names = choose_columns(file, ColumnNames(**{role: asked}), (role,), tell)
    return list(map(str, Columns.read(file, names).ids(role).distinct.ids.tolist()))


class Named(Protocol):
    """A table of which the names are known: its own, and those of its columns."""

    @property
    def name(self) -> str:
        """What to call it."""

    @property
    def columns(self) -> list[str]:
        """Its columns."""

    @property
    def has_header(self) -> bool:
        """Whether they have names."""


def choose_columns(
    file: Named,
    asked: ColumnNames,
    roles: Sequence[str],
    tell: Callable[[str], object],
    remedies: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Which column plays each role: the one asked for, else the first with a usual name, else the role's place.

    Where there is none, ``remedies`` has for some roles what can be done besides naming it.
    """
    given = {role: _existing(file, name, role) for role in roles if (name := getattr(asked, role)) is not None}
    for one, other in combinations(given, 2):
        if given[one] == given[other]:
            raise ValueError(
                f"{file.name}: --{one} and --{other} name the same column, {given[one]!r}: give each its own."
            )
    guessed: dict[str, str] = {}
    for role in (role for role in roles if role not in given):
        taken = {*given.values(), *guessed.values(), asked.lower, asked.upper}
        free = [column for column in file.columns if column not in taken]
        guessed[role] = _guess(role, free) if file.has_header else (free[0] if free else "")
        if not guessed[role]:
            raise ValueError(
                f"{file.name}: no column looks like the {role}'s; name it with --{role}"
                f"{(remedies or {}).get(role, '')}. There are: {_listed(file.columns)}."
            )
    if guessed and file.has_header:
        tell("Columns: " + ", ".join(f"{role} is {name!r}" for role, name in guessed.items()) + ".")
    elif guessed:
        parts = ", ".join(f"{role} is column {name}" for role, name in guessed.items())
        tell(f"The first line has a number in it, so there is no header: {parts}.")
    return {role: given.get(role) or guessed[role] for role in roles}


def _existing(file: Named, name: str, role: str) -> str:
    if name not in file.columns:
        option = "--by-time" if role == "time" else f"--{role}"
        raise ValueError(f"{file.name} has no column {name!r} ({option}). There are: {_listed(file.columns)}.")
    return name


def _listed(columns: Sequence[str]) -> str:
    shown = ", ".join(name if name.isprintable() and len(name) <= 60 else short(name) for name in columns[:20])
    return shown if len(columns) <= 20 else f"{shown} and {len(columns) - 20} more"


def _guess(role: str, columns: Sequence[str]) -> str:
    plain = {re.sub(r"[^a-z0-9]", "", column.lower()): column for column in reversed(columns)}
    return next((plain[name] for name in USUAL_NAMES[role].split() if name in plain), "")


def range_table_columns(
    file: TableFile, lower: str | None, upper: str | None, known: Mapping[str, str], asked_ids: Mapping[str, str]
) -> dict[str, str]:
    """The columns of a table of ranges: both ends, and the users', the items' or both, which tells whose they are.

    Parameters
    ----------
    file
        The table.
    lower, upper
        The columns of the ends, or numbers that stand for all; None is to be guessed.
    known
        What the columns of users and items are called in the table of ratings.
    asked_ids
        What they must be called here.
    """
    if not file.has_header:
        raise ValueError(f"{file.name} has no line with the names of its columns: begin it with one, item,lower,upper.")
    asked = {"lower": lower, "upper": upper}
    ends = {role: name or _guess(role, file.columns) for role, name in asked.items()}
    missing = next((role for role, name in ends.items() if not name), None)
    if missing is not None:
        raise ValueError(
            f"{file.name}: no column looks like the {missing} ends'; call it {missing!r}, or name it with --{missing}. "
            f"There are: {_listed(file.columns)}."
        )
    ids = {role: _existing(file, name, role) for role, name in asked_ids.items()}
    for role in (role for role in ("user", "item") if role not in ids):
        others = {*ends.values(), *ids.values(), *(name for other, name in known.items() if other != role)}
        free = [column for column in file.columns if column not in others]
        column = known[role] if known.get(role) in free else _guess(role, free)
        if column:
            ids[role] = column
    if not ids:
        names = "', '".join(known.get(role, role) for role in ("user", "item"))
        raise ValueError(
            f"{file.name}: no column looks like the users' or the items'; call it '{names}' or both, as in the table "
            f"of ratings. There are: {_listed(file.columns)}."
        )
    if not {*ends.values()} & {*file.columns}:
        raise ValueError(f"{file.name}: --lower and --upper are numbers: name the columns of the table instead.")
    ids = {role: ids[role] for role in ("user", "item") if role in ids}
    return {**ids, **range_names(file, ColumnNames(**ends), ids)}


def feature_table_columns(file: TableFile, kind: str, known: str | None) -> tuple[str, list[str]]:
    """The column of ids of a table of features of one kind, called as ``known`` in the ratings, and the others."""
    example = known or kind
    if not file.has_header:
        raise ValueError(
            f"{file.name} has no line with the names of its columns: begin it with one, such as {example},age,country."
        )
    twice = next((name for name in file.columns if file.columns.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"{file.name}: two columns have the same name, {twice!r}: rename one of them.")
    found = known if known in file.columns else _guess(kind, file.columns)
    if not found:
        raise ValueError(
            f"{file.name}: no column looks like that of the {kind}s' ids; call it {example!r}. "
            f"There are: {_listed(file.columns)}."
        )
    return found, [column for column in file.columns if column != found]


@dataclass(frozen=True)
class Columns:
    """Some columns of a file by role, with every value checked as it is asked for; empty lines are left out."""

    file: TableFile
    names: dict[str, str]
    frame: pl.DataFrame
    filled: NDArray[np.int64] | None  # rows of the file that these are; None where all of them are here

    @classmethod
    def read(cls, file: TableFile, names: dict[str, str]) -> Columns:
        """The columns that have these names."""
        import polars as pl

        there = {role: name for role, name in names.items() if name in file.columns}  # others are numbers for all rows
        columns = list(dict.fromkeys(there.values()))
        by_role = (pl.col(name).alias(role) for role, name in there.items())
        frame = file.collect(file.scan(columns).select(by_role), columns)
        filled = None
        if file.format != "ndjson" and all(column.null_count() for column in frame.get_columns()):
            is_filled = ~frame.select(pl.all_horizontal(pl.all().is_null())).to_series().to_numpy()
            if not is_filled.all():
                frame, filled = frame.filter(is_filled), np.flatnonzero(is_filled)
        if not len(frame):
            raise ValueError(f"{file.name} has a header and no rows.")
        return cls(file, names, frame, filled)

    def ids(self, role: str) -> Ids:
        """Ids and their codes, numbered by first appearance."""
        import polars as pl

        column = self._whole_numbers_or_text(role)
        if column.dtype == pl.String and (column == "").any():
            column = column.replace("", None)
        if column.null_count():
            raise self._wrong(int(column.is_null().arg_max() or 0), f"has no {role} in the column {self.names[role]!r}")
        if column.dtype.is_integer():
            return Ids(*IdIndex.encode(column.to_numpy(), role))
        distinct = column.unique(maintain_order=True)
        numbers = pl.DataFrame({"id": distinct, "code": np.arange(len(distinct), dtype=np.int32)})
        codes = column.to_frame("id").join(numbers, on="id", how="left", maintain_order="left")["code"].to_numpy()
        return Ids(IdIndex(plain_ids(distinct.to_list())), codes)

    def _whole_numbers_or_text(self, role: str) -> pl.Series:
        """A column as what ids are here; missing ones stay missing."""
        import polars as pl

        column, name = self.frame[role], self.names[role]
        kind = column.dtype
        if kind == pl.String or kind.is_integer():
            return column.cast(pl.String) if kind == pl.Int128 else column  # NumPy has no such integers
        if kind.is_float():
            column = column.fill_nan(None)
            whole = column.cast(pl.Int64, strict=False)
            if (whole == column).all() and whole.null_count() == column.null_count():
                return whole
        try:
            if not kind.is_nested():
                return column.cast(pl.String)
        except pl.exceptions.PolarsError:
            if kind == pl.Binary:
                row = next(row for row, one in enumerate(column) if one is not None and not is_utf8(one))
                raise self._wrong(row, f"has {column[row]!r}, not UTF-8 text, in the column {name!r}") from None
        raise ValueError(f"{self.file.name}: the column {name!r} holds {kind}, not ids; name another with --{role}.")

    def ratings(self) -> Floats:
        """The ratings; text, nothing and what is not finite are refused with their place."""
        return self._numbers("rating", "rating")

    def ends(self) -> Ends | None:
        """The range of each row, checked; None where none is asked for."""
        if "lower" not in self.names:
            return None
        lower, upper = (
            self._numbers(role, f"{role} end") if role in self.frame.columns else np.full(len(self.frame), float(name))
            for role, name in ((role, self.names[role]) for role in Ends._fields)
        )
        turned = lower > upper
        if turned.any():
            row, others = int(turned.argmax()), np.count_nonzero(turned) - 1
            more = f" ({others:,} more like it)" if others else ""
            what = f"has a lower end, {lower[row]:g}, above the upper one, {upper[row]:g}{more}: exchange them"
            raise self._wrong(row, what)
        return Ends(lower, upper)

    def _numbers(self, role: str, what: str) -> Floats:
        """A column of finite numbers; anything else is refused with its place."""
        import polars as pl

        column, name = self.frame[role], self.names[role]
        if not (column.dtype == pl.String or column.dtype.is_numeric() or column.dtype == pl.Boolean):
            raise ValueError(
                f"{self.file.name}: the column {name!r} holds {column.dtype}, not numbers; name another with --{role}."
            )
        parsed = column.cast(pl.Float64, strict=False)
        good = parsed.is_finite().fill_null(False)
        if good.all() and (large := parsed.abs() > LARGEST).any():
            row = int(large.arg_max() or 0)
            wrong = f"has {column[row]!r}, too large to be squared, in the column {name!r}: divide all by a constant"
            raise self._wrong(row, wrong)
        if not good.all():
            row = int((~good).arg_max() or 0)
            value = column[row]
            one = f"an {what}" if what.startswith("u") else f"a {what}"
            wrong = f"has no {what}" if value in (None, "") else f"has {value!r}, not {one},"
            others = len(good) - int(good.sum()) - 1
            more = f" ({others:,} more like it)" if others else ""
            remedy = "fill it in" if value in (None, "") else "write a number"
            raise self._wrong(row, f"{wrong} in the column {name!r}{more}: {remedy}, or name another with --{role}")
        return np.asarray(parsed.to_numpy(), np.float64)

    def numbers_or_categories(self, role: str) -> pl.Series:
        """A column of features: numbers where all of them are, else text; what is left out stays missing.

        In a Parquet file columns have types, and are what these say.
        """
        import polars as pl

        column, name = self.frame[role], self.names[role]
        if column.dtype == pl.String:
            column = column.replace("", None)
            if self.file.format != "parquet":
                column = self._one_kind(column, name)
        if not column.dtype.is_float():
            return column
        column = column.fill_nan(None)
        far = (column.abs() > LARGEST).fill_null(False)
        if far.any():
            row = int(far.arg_max() or 0)
            what = "infinite" if column[row] in (np.inf, -np.inf) else "too large to be squared"
            wrong = f"has {self.frame[role][row]!r}, {what}, in the column {name!r}: correct it, or leave it empty"
            raise self._wrong(row, wrong)
        return column

    def _one_kind(self, column: pl.Series, name: str) -> pl.Series:
        """A column that was read as text, as numbers where all are; numbers beside text are refused."""
        import polars as pl

        parsed = column.cast(pl.Float64, strict=False)
        undefined = parsed.is_nan().fill_null(False)
        if undefined.any():
            row = int(undefined.arg_max() or 0)
            raise self._wrong(row, f"has {column[row]!r} in the column {name!r}: leave it empty where nothing is known")
        numbers, text = parsed.is_not_null(), column.is_not_null() & parsed.is_null()
        if not numbers.any() or not text.any():
            return parsed if numbers.any() else column
        odd, others = (text, "numbers") if text.sum() <= numbers.sum() else (numbers, "text")
        row, count = int(odd.arg_max() or 0), int(odd.sum())
        more = f" ({count - 1:,} more like it)" if count > 1 else ""
        wrong = f"has {column[row]!r} in the column {name!r}, whose other values are {others}{more}"
        raise self._wrong(
            row, f"{wrong}: make all of them numbers or all of them text, and leave empty what is missing"
        )

    def times(self) -> NDArray[Any] | None:
        """Times as numbers: numbers as they are, dates and times by the microsecond; None where none are asked for."""
        import polars as pl

        if "time" not in self.names:
            return None
        column, name = self.frame["time"], self.names["time"]
        parsed = column
        if column.dtype == pl.String:
            parsed = column.cast(pl.Float64, strict=False)
            if parsed.null_count() == len(column):
                parsed = column.str.to_datetime(strict=False)
        if parsed.dtype in (pl.Date, pl.Datetime):
            parsed = parsed.cast(pl.Datetime("us")).to_physical()
        if not parsed.dtype.is_numeric():
            raise ValueError(f"{self.file.name}: the column {name!r} holds {column.dtype}, not times; name another.")
        good = parsed.cast(pl.Float64).is_finite().fill_null(False)
        if not good.all():
            row = int((~good).arg_max() or 0)
            raise self._wrong(row, f"has {column[row]!r}, not a time, in the column {name!r}")
        is_whole = parsed.dtype.is_integer() and parsed.dtype != pl.Int128
        return (parsed if is_whole else parsed.cast(pl.Float64)).to_numpy()

    def place(self, row: int) -> str:
        """Where in the file one of these rows is."""
        return self.file.place(row if self.filled is None else int(self.filled[row]))

    def _wrong(self, row: int, what: str) -> ValueError:
        return ValueError(f"{self.file.name}: {self.place(row)} {what}.")


def plain_ids(ids: list[str]) -> NDArray[Any]:
    """Whole numbers as such when all ids are, else text."""
    if all(map(WHOLE.fullmatch, ids)):
        with suppress(OverflowError):
            return np.array(list(map(int, ids)), dtype=np.int64)
    return np.array(ids, dtype=object)


# --- ids of a model -----------------------------------------------------------------------------------------


def ids_like(ids: Ids, index: IdIndex) -> Ids:
    """The same ids of the kind that a model has."""
    if ids.distinct.ids.dtype == index.ids.dtype == np.int64:
        return ids
    found = as_ids_of(index, list(map(str, ids.distinct.ids.tolist())))
    return ids._replace(distinct=IdIndex.encode(found)[0])


def as_ids_of(index: IdIndex, text: Sequence[str]) -> list[Any]:
    """Ids that were typed or read as text, as the model has them: "7" is 7 where its ids are whole numbers."""
    if index.ids.dtype == object and all(isinstance(one, str) for one in index.ids.tolist()):
        return list(text)
    known = index.codes(list(text)) >= 0
    return [one if found or not WHOLE.fullmatch(one) else int(one) for one, found in zip(text, known, strict=True)]
