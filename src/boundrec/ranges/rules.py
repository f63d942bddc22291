"""Rules for ranges: who has which range, by ids. It is what `bounds` may be where pairs have ranges of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import narwhals.stable.v1 as nw
import numpy as np
from scipy.sparse import issparse

from boundrec.arrays import Bools, Codes, Floats
from boundrec.data.columns import (
    Column,
    RangeColumns,
    listed,
    pair_columns,
    range_columns,
    read_numbers,
    series_column,
    short,
)
from boundrec.data.ids import IdIndex, id_array
from boundrec.data.ratings import LARGEST, Ends
from boundrec.notes import warn

#: What the columns of a table of ranges may be called, so that it can be told what it is.
USER, ITEM, LOWER, UPPER = "user", "item", "lower", "upper"
TABLE = "the table of ranges"

#: The ranges of pairs by their places in two columns of ids, which were looked up once.
Grid = Callable[[Codes, Codes], Ends]


class Rule:
    """Who has which range, asked by ids."""

    #: What to do where it has none.
    remedy: ClassVar[str] = "add them"

    def ends(self, users: Column, items: Column) -> Ends:
        """The range of each pair of ids; NaN where the rule has none."""
        raise NotImplementedError

    def on(self, users: Column, items: Column) -> Grid:
        """The ranges of pairs of some users and some items, by their places."""
        user_ids, item_ids = id_array(users), id_array(items)
        return lambda user, item: self.ends(user_ids[user], item_ids[item])


class PerItem(Rule):
    """A range for every item, the same for all users: full marks of a question, the scale of a survey's item.

    Parameters
    ----------
    table
        A mapping id -> (lower, upper), or a frame with an id column and the columns ``lower`` and ``upper``.
    """

    kind = ITEM
    remedy = "add these items to PerItem(...)"

    def __init__(self, table: Any) -> None:
        (column,), ends = _read_table(table, (self.kind,))
        self.index = _distinct(column, self.kind)
        self.range = ends

    @classmethod
    def of(cls, index: IdIndex, ends: Ends) -> Self:
        """From ids and their ranges, as a file has them."""
        rule = cls.__new__(cls)
        rule.index, rule.range = index, ends
        return rule

    def ends(self, users: Column, items: Column) -> Ends:
        """The range of each pair's item."""
        return _looked_up(self.range, self.index.codes(self._asked(users, items)))

    def on(self, users: Column, items: Column) -> Grid:
        """By what is asked for alone."""
        own = _looked_up(self.range, self.index.codes(self._asked(users, items)))
        return lambda user, item: own.take(self._asked(user, item))

    def _asked(self, users: Any, items: Any) -> Any:
        return items

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.index)} {self.kind}s)"


class PerUser(PerItem):
    """A range for every user, the same for all items: the budget of a customer. The table is that of `PerItem`."""

    kind = USER
    remedy = "add these users to PerUser(...)"

    def _asked(self, users: Any, items: Any) -> Any:
        return users


class PerPair(Rule):
    """A range for every pair that a table has, and, if there is one, a default for all others.

    Parameters
    ----------
    table
        A mapping (user id, item id) -> (lower, upper), or a frame with the columns ``user``, ``item``, ``lower`` and
        ``upper``; where the id columns have other names, users come first.
    default
        The range of pairs that the table lacks, as (lower, upper); None where those have none.
    """

    remedy = "add these pairs to PerPair(...), or give it a default"

    def __init__(self, table: Any, default: tuple[float, float] | None = None) -> None:
        (users, items), ends = _read_table(table, (USER, ITEM))
        self.users, user_codes = IdIndex.encode(users, USER, TABLE)
        self.items, item_codes = IdIndex.encode(items, ITEM, TABLE)
        keys = user_codes.astype(np.int64) * len(self.items) + item_codes
        order = np.argsort(keys, kind="stable")
        self.keys, self.range = keys[order], ends.take(order)
        twice = np.flatnonzero(self.keys[1:] == self.keys[:-1])
        if twice.size:
            row = int(order[twice[0] + 1])
            raise ValueError(
                f"the ranges of {twice.size} pairs come twice (first: {_place(users, items, row)}): give each pair "
                "once."
            )
        self.default = None if default is None else _read_default(default)

    @classmethod
    def of(cls, users: IdIndex, items: IdIndex, keys: Codes, ends: Ends, default: Any) -> Self:
        """From numbered ids and their ranges, as a file has them."""
        rule = cls.__new__(cls)
        rule.users, rule.items, rule.keys, rule.range = users, items, keys, ends
        rule.default = None if default is None else _read_default(default)
        return rule

    def ends(self, users: Column, items: Column) -> Ends:
        """The range of each pair."""
        return self._at(self.users.codes(users), self.items.codes(items))

    def on(self, users: Column, items: Column) -> Grid:
        """By numbers in the table, looked up once."""
        user, item = self.users.codes(users), self.items.codes(items)
        return lambda users, items: self._at(user[users], item[items])

    def as_mapping(self) -> dict[tuple[Any, Any], tuple[float, float]]:
        """The table as it may be given."""
        users, items = np.divmod(self.keys, len(self.items))
        pairs = zip(self.users.ids[users].tolist(), self.items.ids[items].tolist(), strict=True)
        return dict(zip(pairs, zip(*(end.tolist() for end in self.range), strict=True), strict=True))

    def _at(self, user: Codes, item: Codes) -> Ends:
        wanted = user * len(self.items) + item
        place = np.minimum(np.searchsorted(self.keys, wanted), self.keys.size - 1)
        there = (user >= 0) & (item >= 0) & (self.keys[place] == wanted)
        found = _looked_up(self.range, np.where(there, place, -1))
        if self.default is not None:
            for end, value in zip(found, self.default, strict=True):
                end[~there] = value
        return found

    def __repr__(self) -> str:
        return f"PerPair({len(self.keys)} pairs, default={self.default})"


@dataclass(frozen=True)
class ByFunction(Rule):
    """A function of two arrays of ids, which returns the lower and the upper ends of their ranges."""

    function: Callable[[Any, Any], Any]

    def ends(self, users: Column, items: Column) -> Ends:
        """What the function says."""
        answer = self.function(id_array(users), id_array(items))
        try:
            lower, upper = answer
        except (TypeError, ValueError):
            raise ValueError(
                f"bounds: the function returned {short(answer)}: return two arrays, lower and upper ends."
            ) from None
        ends = Ends(*(_one_for_each(end, name, len(users)) for name, end in ((LOWER, lower), (UPPER, upper))))
        check_ends(ends, users, items, may_lack=True)
        return ends


@dataclass(frozen=True)
class WithRows(Rule):
    """No rule: ranges come with the rows, in two more columns of X or as the arguments ``lower`` and ``upper``.

    Parameters
    ----------
    columns
        The names of the columns in a frame, or a number that stands for all rows in the place of one; None for the
        third and the fourth column.
    """

    columns: RangeColumns | None = None

    def ends(self, users: Column, items: Column) -> Ends:
        """There are none without the rows."""
        return Ends(np.full(len(users), np.nan), np.full(len(users), np.nan))


@dataclass(frozen=True)
class Widened(Rule):
    """Another rule, but for some pairs whose ranges a rating has widened."""

    rule: Any
    pairs: PerPair

    @classmethod
    def of(cls, rule: Any, table: Mapping[tuple[Any, Any], Any]) -> Widened:
        """A rule whose ranges of some pairs were widened, perhaps not for the first time."""
        if isinstance(rule, Widened):
            rule, table = rule.rule, {**rule.pairs.as_mapping(), **table}
        return cls(rule, PerPair(table))

    def ends(self, users: Column, items: Column) -> Ends:
        """The widened range, or what the rule says."""
        own, ends = self.pairs.ends(users, items), self.rule.ends(users, items)
        there = ~np.isnan(own.lower)
        return Ends(*(np.where(there, one, other) for one, other in zip(own, ends, strict=True)))


# --- what bounds may be ---------------------------------------------------------------------------------------


def rule_of(bounds: Any) -> Any:
    """The rule that ``bounds`` stands for; None where it is one range for all, or none."""
    if isinstance(bounds, (PerItem, PerPair, ByFunction, WithRows, Widened)):
        return bounds
    if isinstance(bounds, str):
        if bounds != "columns":
            raise ValueError(
                f'bounds={short(bounds)}: write "columns" for ranges in the third and fourth column of X, or their '
                'names as a pair, such as ("lower", "upper").'
            )
        return WithRows()
    if isinstance(bounds, (tuple, list)) and len(bounds) == 2 and _names_columns(bounds):
        return WithRows((bounds[0], bounds[1]))
    if isinstance(bounds, Mapping):
        raise ValueError(
            f"bounds={short(bounds)}: a mapping does not tell whose ranges these are; write PerItem(...), PerUser(...) "
            "or PerPair(...) around it."
        )
    frame = _frame(bounds)
    if frame is not None:
        return _rule_of_frame(bounds, frame.columns)
    if callable(bounds):
        return ByFunction(bounds)
    if rule_like(bounds):
        raise ValueError(
            f"bounds={short(bounds)}: give a pair such as (1, 5) or (0, None), None for no bounds, or a rule for "
            "ranges of pairs, such as PerItem(...)."
        )
    return None


def _names_columns(ends: Any) -> bool:
    """Two names, or a name and a number; "5" beside a number is rather a number that came as text."""
    numbers = [end for end in ends if not isinstance(end, str)]
    if not numbers:
        return True
    name = next((end for end in ends if isinstance(end, str)), "0")
    return is_end(numbers[0]) and not name.replace(".", "", 1).lstrip("-").isdigit()


def is_end(end: Any) -> bool:
    """Whether it is a number that a range may end at."""
    return isinstance(end, (int, float, np.integer, np.floating)) and bool(np.isfinite(end))


def _rule_of_frame(table: Any, names: list[str]) -> Any:
    kinds = {(USER, ITEM): PerPair, (USER,): PerUser, (ITEM,): PerItem}
    ids = tuple(name for name in (USER, ITEM) if name in names)
    if {*names} != {*ids, LOWER, UPPER} or ids not in kinds:
        raise ValueError(
            f"bounds is a frame with the columns {listed(names)}: ranges come in the columns 'lower' and 'upper', "
            "beside 'item', 'user' or both and no others; rename or leave some out, or write PerItem(...), "
            "PerUser(...) or PerPair(...) around it."
        )
    return kinds[ids](table)


def rule_like(bounds: Any) -> bool:
    """Whether ``bounds`` is a rule, or meant to be one, rather than one range for all."""
    if bounds is None or (isinstance(bounds, (tuple, list)) and not any(isinstance(one, str) for one in bounds)):
        return False
    return not (isinstance(bounds, np.ndarray) or np.isscalar(bounds)) or isinstance(bounds, str)


def ends_of_rows(rule: Any, X: Any, lower: Any, upper: Any) -> tuple[Any, Ends | None]:
    """The two columns of ids in X, and the ranges that come with the rows; None where the rule has them."""
    if lower is None and upper is None:
        if not isinstance(rule, WithRows):
            return X, None
        X, lower, upper = range_columns(X, rule.columns)
    elif lower is None or upper is None:
        missing = LOWER if lower is None else UPPER
        raise ValueError(f"{missing} is missing: give both ends; one number stands for all rows.")
    users, items = id_columns(X)
    ends = Ends(*(_for_each_row(end, name, len(users)) for name, end in ((LOWER, lower), (UPPER, upper))))
    check_ends(ends, users, items)
    return X, ends


def _for_each_row(end: Any, name: str, n: int) -> Floats:
    if np.isscalar(end):
        return np.full(n, read_numbers([end], name, "end").item())
    if issparse(end):
        raise TypeError(
            f"{name} is a sparse matrix: give a number for each stored entry, in the order of tocoo().data."
        )
    numbers = read_numbers(end, name, "end")
    if numbers.size != n:
        raise ValueError(f"{name} has {numbers.size} values for {n} rows: give one for each row.")
    return numbers


def check_ends(ends: Ends, users: Column, items: Column, may_lack: bool = False, remedy: str = Rule.remedy) -> None:
    """Refuse ranges that are none; where ``may_lack``, a pair may have no range at all."""
    lower, upper = ends
    lacking = np.isnan(lower) & np.isnan(upper) & may_lack
    with np.errstate(over="ignore", invalid="ignore"):
        infinite = ~np.isfinite(lower) | ~np.isfinite(upper)
        flaws: tuple[tuple[Bools, str], ...] = (
            (np.isnan(lower) | np.isnan(upper), f"no ends, or only one: {remedy}"),
            (infinite, "an infinite end: a range of a pair's own has two ends (one for all may be open, (0, None))"),
            (lower > upper, "a lower end above the upper one: correct them"),
            ((np.abs(lower) > LARGEST) | (np.abs(upper) > LARGEST), "an end too large to be squared: scale all"),
        )
    for bad, flaw in flaws:
        bad = bad & ~lacking
        if bad.any():
            row = int(bad.argmax())
            raise ValueError(
                f"{np.count_nonzero(bad)} of {bad.size} ranges have {flaw} (first: {_place(users, items, row)}: "
                f"{lower.item(row)} to {upper.item(row)})."
            )


def _place(users: Column, items: Column, row: int) -> str:
    """A row, and whose range it has."""
    ids = ((kind, column[row]) for kind, column in ((USER, users), (ITEM, items)) if len(column))
    named = (f"{kind} {short(one.item() if isinstance(one, np.generic) else one)}" for kind, one in ids)
    return ", ".join((f"row {row}", *named))


def tell_unused(rule: Any, users: IdIndex, items: IdIndex) -> None:
    """Say once that a table has ranges of ids that never occur: they may be misspelt."""
    tables: tuple[tuple[str, IdIndex, IdIndex], ...] = ()
    if isinstance(rule, PerItem):
        tables = ((rule.kind, rule.index, items if rule.kind == ITEM else users),)
    elif isinstance(rule, PerPair):
        tables = ((USER, rule.users, users), (ITEM, rule.items, items))
    for kind, index, known in tables:
        unused = np.flatnonzero(known.codes(index.ids) < 0)
        if unused.size:
            warn(
                f"{unused.size} of {len(index)} {kind}s in the table of ranges have no ratings (first: "
                f"{index.ids.item(unused[0])!r}): they are kept for predictions."
            )


def id_columns(X: Any) -> tuple[Column, Column]:
    """The ids of rows or of a sparse matrix's entries."""
    if issparse(X):
        entries: Any = X.tocoo(copy=False)  # type: ignore[attr-defined]
        return entries.row, entries.col
    return pair_columns(X)


# --- reading --------------------------------------------------------------------------------------------------


def _frame(table: Any) -> Any:
    frame = nw.from_native(table, eager_only=True, pass_through=True)
    return frame if isinstance(frame, nw.DataFrame) else None


def _read_table(table: Any, kinds: tuple[str, ...]) -> tuple[list[Column], Ends]:
    """Columns of ids, and the ranges beside them, checked."""
    frame = _frame(table)
    if frame is not None:
        columns, lower, upper = _of_frame(frame, kinds)
    elif isinstance(table, Mapping):
        columns, lower, upper = _of_mapping(table, kinds)
    else:
        raise TypeError(
            f"ranges are a {type(table).__name__}: give a mapping id -> (lower, upper), or a frame with the columns "
            f"{', '.join(map(repr, (*kinds, LOWER, UPPER)))}."
        )
    ends = Ends(*(read_numbers(end, name, "end") for name, end in ((LOWER, lower), (UPPER, upper))))
    if not ends.lower.size:
        raise ValueError("the table of ranges is empty: give at least one.")
    places = dict(zip(kinds, columns, strict=True))
    check_ends(ends, places.get(USER, []), places.get(ITEM, []))
    return columns, ends


def _of_frame(frame: Any, kinds: tuple[str, ...]) -> tuple[list[Column], Any, Any]:
    names = list(frame.columns)
    if LOWER not in names or UPPER not in names or len(names) != len(kinds) + 2:
        raise ValueError(
            f"the table of ranges has the columns {listed(names)}: give it "
            f"{', '.join(map(repr, (*kinds, LOWER, UPPER)))}, and no others."
        )
    ids = [name for name in names if name not in (LOWER, UPPER)]
    if set(ids) == set(kinds):
        ids = list(kinds)
    return [series_column(frame[name]) for name in ids], frame[LOWER].to_native(), frame[UPPER].to_native()


def _of_mapping(table: Mapping[Any, Any], kinds: tuple[str, ...]) -> tuple[list[Column], Any, Any]:
    keys = list(table)
    for key, value in table.items():
        if not (isinstance(value, (tuple, list, np.ndarray)) and len(value) == 2):
            raise ValueError(f"the range of {short(key)} is {short(value)}: give a pair (lower, upper).")
        if len(kinds) == 2 and not (isinstance(key, tuple) and len(key) == 2):
            raise ValueError(f"the ranges have the key {short(key)}: give pairs (user id, item id).")
    columns: list[Column] = [keys] if len(kinds) == 1 else [[key[0] for key in keys], [key[1] for key in keys]]
    return columns, [value[0] for value in table.values()], [value[1] for value in table.values()]


def _distinct(column: Column, kind: str) -> IdIndex:
    index, codes = IdIndex.encode(column, kind, TABLE)
    if len(index) < len(codes):
        first = int(np.flatnonzero(np.bincount(codes) > 1)[0])
        raise ValueError(
            f"{len(codes) - len(index)} {kind}s come twice in the table of ranges (first: {index.ids.item(first)!r}): "
            f"give each {kind} once."
        )
    return index


def _read_default(default: Any) -> tuple[float, float]:
    try:
        lower, upper = read_numbers(list(default), "default", "end")
    except (TypeError, ValueError):
        raise ValueError(f"default={short(default)}: give a pair (lower, upper), or None.") from None
    try:
        check_ends(Ends(np.array([lower]), np.array([upper])), [], [])
    except ValueError as error:
        raise ValueError(f"default={short(default)}: {error}") from None
    return float(lower), float(upper)


def _looked_up(ends: Ends, places: Codes) -> Ends:
    """Ranges by their places in a table, NaN for −1."""
    found: list[Floats] = [np.where(places >= 0, end[places], np.nan) for end in ends]
    return Ends(*found)


def _one_for_each(end: Any, name: str, n: int) -> Floats:
    if np.ndim(end) == 0:
        end = np.full(n, end)
    numbers = read_numbers(end, f"bounds: the function's {name}", "end")
    if numbers.size != n:
        raise ValueError(f"bounds: the function's {name} has {numbers.size} values for {n} pairs: return one for each.")
    return numbers.copy()
