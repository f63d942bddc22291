"""Ids and their row numbers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boundrec.data.columns import PART, Column, Texts, is_missing, short

INT32_MAX = np.iinfo(np.int32).max
INT64_MAX = np.iinfo(np.int64).max


class IdIndex:
    """Ids and their row numbers: row k has the id ``ids[k]``.

    Two ids are the same when Python says so: 1, 1.0 and ``np.int64(1)`` are one id, "1" is another.

    Parameters
    ----------
    ids
        The distinct ids: an int64 array when all of them are integers, else an object array.
    """

    def __init__(self, ids: NDArray[Any]) -> None:
        self.ids = ids

    @classmethod
    def encode(cls, column: Column, name: str = "id", where: str = "X") -> tuple[IdIndex, NDArray[np.int32]]:
        """Number the ids of a column by first appearance.

        Parameters
        ----------
        column
            One id per observation; missing (None, NaN) and unhashable ids are refused.
        name, where
            What to call the ids in an error message, and the table that they come from.

        Returns
        -------
        index, codes
            ``index.ids[codes]`` is the column.
        """
        plain = _plain_column(column)
        ids, codes = _number_integers(plain) if isinstance(plain, np.ndarray) else _number_objects(plain, name, where)
        return cls(ids), codes

    def codes(self, column: Column) -> NDArray[np.int64]:
        """Row numbers of the ids in a column, −1 where an id is unknown (a missing id is unknown too)."""
        plain = _plain_column(column)
        if isinstance(plain, np.ndarray):
            if self.ids.dtype == np.int64:
                return self._integer_codes(plain)
            plain = plain.tolist()
        try:
            return np.fromiter(map(self._row_of_id.get, plain, repeat(-1)), np.int64, len(plain))
        except TypeError:
            row = _first_unhashable(plain)
            where = f" in row {row}" if len(plain) > 1 else ""
            raise TypeError(
                f"{short(plain[row])}{where} cannot be an id: give a number, a string or a tuple of such."
            ) from None

    def extended(self, other: IdIndex) -> IdIndex:
        """These ids with the same row numbers, and after them those of another index that are new."""
        new = other.ids[self.codes(other.ids) < 0]
        return IdIndex(np.concatenate([self.ids, new])) if new.size else self

    def _integer_codes(self, column: NDArray[np.int64]) -> NDArray[np.int64]:
        """Look integers up in a direct table where the ids lie close together, else by bisection."""
        found = np.full(column.size, -1, np.int64)
        if not len(self):
            return found
        if self._table is not None:
            low, table = self._table
            inside = np.flatnonzero((column >= low) & (column <= low + table.size - 1))
            found[inside] = table[column[inside] - low]
        else:
            order, ascending = self._ascending
            place = np.minimum(np.searchsorted(ascending, column), ascending.size - 1)
            known = ascending[place] == column
            found[known] = order[place[known]]
        return found

    @cached_property
    def _table(self) -> tuple[int, NDArray[np.int32]] | None:
        low, high = int(self.ids.min()), int(self.ids.max())
        if high - low >= _table_limit(len(self)):
            return None
        table = np.full(high - low + 1, -1, np.int32)
        table[self.ids - low] = np.arange(len(self), dtype=np.int32)
        return low, table

    @cached_property
    def _ascending(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        order = np.argsort(self.ids)
        return order, self.ids[order]

    @cached_property
    def _row_of_id(self) -> dict[Any, int]:
        return dict(zip(self.ids.tolist(), range(len(self)), strict=True))

    def __len__(self) -> int:
        return int(self.ids.size)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, IdIndex):
            return NotImplemented
        return self.ids.dtype == other.ids.dtype and bool(self.ids.tolist() == other.ids.tolist())

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"IdIndex({len(self)} ids)"


def id_array(column: Column) -> NDArray[Any]:
    """A column of ids as an array: of integers where all are, else of plain objects; tuples are not spread out."""
    plain = _plain_column(column) if len(column) else []
    return plain if isinstance(plain, np.ndarray) else np.fromiter(map(_plain_id, plain), object, len(plain))


def _plain_column(column: Column) -> NDArray[np.int64] | list[Any] | Texts:
    """A column of ids as int64 when all are whole numbers that fit, else as objects."""
    if isinstance(column, Texts):
        return column
    if isinstance(column, list):
        kinds = set(map(type, column))
        if any(issubclass(kind, np.datetime64 | np.timedelta64) for kind in kinds):
            return [_plain_id(one) for one in column]
        whole = all(issubclass(kind, int | np.integer) and kind is not bool for kind in kinds)
        try:
            if whole:
                return np.array(column, np.int64)
        except OverflowError:
            pass
        # NumPy's numbers take a long integer that shares their hash into their own type, past its end.
        return [_plain_id(one) for one in column] if any(issubclass(kind, np.number) for kind in kinds) else column
    kind = column.dtype.kind
    if kind == "f":
        column = column.astype(np.result_type(column, np.float64), copy=False)  # 2⁶³ is past the end of float16
    if kind == "i" or (kind == "u" and (not column.size or int(column.max()) <= INT64_MAX)):
        return column.astype(np.int64, copy=False)
    if kind == "f" and bool(np.all((column == np.rint(column)) & (np.abs(column) < 2.0**63))):
        return column.astype(np.int64)
    if kind == "O":
        return _plain_column(column.tolist())
    # The items of a column of times are its own scalars: tolist() would turn nanoseconds into plain integers.
    return [_plain_id(one) for one in column] if kind in "mM" else list(column.tolist())


def _table_limit(n: int) -> int:
    """Widest span of integer ids for which a table beats sorting, in memory (4 bytes a place) and in time."""
    return max(2 * n, 1 << 16)


def _number_integers(column: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Distinct ids by first appearance, and the number of each; part by part, so that next to no memory is needed."""
    low, high = int(column.min()), int(column.max())
    number = _numbered_far_apart if high - low >= _table_limit(column.size) else _numbered_in_a_table
    return number(column, [slice(start, start + PART) for start in range(0, column.size, PART)])


def _numbered_far_apart(column: NDArray[np.int64], parts: list[slice]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """By sorting: first what is distinct in each part, then what is distinct in these."""
    seen = []
    for part in parts:
        ascending, first = np.unique(column[part], return_index=True)
        seen.append(ascending[np.argsort(first)])
    ascending, first = np.unique(np.concatenate(seen), return_index=True)
    order = np.argsort(first)
    number = np.empty(order.size, np.int32)
    number[order] = np.arange(order.size, dtype=np.int32)
    codes = np.empty(column.size, np.int32)
    for part in parts:
        codes[part] = number[np.searchsorted(ascending, column[part])]
    return ascending[order], codes


def _numbered_in_a_table(column: NDArray[np.int64], parts: list[slice]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """By a table with a place for every id between the least and the largest."""
    low, high, n = int(column.min()), int(column.max()), column.size
    table = np.full(high - low + 1, n, np.int32 if n <= INT32_MAX else np.int64)
    for part in reversed(parts):
        place = column[part] - low
        # Of several values given to one place the last one stays, so going backwards leaves the first.
        table[place[::-1]] = np.arange(part.start, part.start + place.size)[::-1]
    seen = np.flatnonzero(table != n)
    seen = seen[np.argsort(table[seen])]
    table[seen] = np.arange(seen.size)
    codes = np.empty(n, np.int32)
    for part in parts:
        codes[part] = table[column[part] - low]
    return seen + low, codes


def _number_objects(column: list[Any] | Texts, name: str, where: str) -> tuple[NDArray[Any], NDArray[np.int32]]:
    row_of_id: dict[Any, int] = {}
    codes = np.empty(len(column), np.int32)
    for start in range(0, len(column), PART):
        part = column[start : start + PART]
        try:
            new = [one for one in dict.fromkeys(part) if one not in row_of_id]
        except TypeError:
            raise _unhashable(column, name, where) from None
        row_of_id.update(zip(new, range(len(row_of_id), len(row_of_id) + len(new)), strict=True))
        codes[start : start + len(part)] = np.fromiter(map(row_of_id.__getitem__, part), np.int32, len(part))
    if set(map(type, row_of_id)) != {str} and any(map(_is_no_id, row_of_id)):
        row = next(k for k, one in enumerate(column) if _is_no_id(one))
        raise ValueError(
            f"row {row} of {where} has no {name} id ({column[row]!r}): leave such rows out or name the {name}"
        )
    plain = _plain_column([_plain_id(one) for one in row_of_id])
    ids = plain if isinstance(plain, np.ndarray) else np.fromiter(plain, object, len(plain))
    return ids, codes


def _is_no_id(one: Any) -> bool:
    """Missing, or a tuple with NaN in it, which no other is equal to; None in a tuple is a value like others."""
    if isinstance(one, tuple):
        return any(part is not None and _is_no_id(part) for part in one)
    return is_missing(one)


def _plain_id(one: Any) -> Any:
    """The plain Python twin of an id: NumPy scalars unwrapped, whole floats as integers."""
    if isinstance(one, np.datetime64 | np.timedelta64):
        return _plain_time(one)
    if isinstance(one, np.number | np.bool_ | np.str_ | np.bytes_):
        one = one.item()
    if isinstance(one, np.longdouble) and float(one) == one:
        one = float(one)
    return int(one) if isinstance(one, float) and one.is_integer() else one


def _plain_time(one: np.datetime64 | np.timedelta64) -> Any:
    """Python's own time, where it has one: it has no nanoseconds, no years beyond 9999, no span of a month."""
    plain = one.item()
    return one if isinstance(plain, int) else plain


def _unhashable(column: Sequence[Any], name: str, where: str) -> TypeError:
    row = _first_unhashable(column)
    return TypeError(
        f"{name} ids must be hashable, but row {row} of {where} has {short(column[row])}: use a string or a tuple"
    )


def _first_unhashable(column: Sequence[Any]) -> int:
    return next(row for row, one in enumerate(column) if not _is_hashable(one))


def _is_hashable(one: Any) -> bool:
    # isinstance(one, Hashable) is not enough: a tuple with a list inside passes it.
    try:
        hash(one)
    except TypeError:
        return False
    return True
