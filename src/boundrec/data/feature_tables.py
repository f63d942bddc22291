"""What people know of ids beside ratings, out of anybody's containers: ids, and columns of numbers or of categories."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from decimal import Decimal
from itertools import repeat
from numbers import Real
from typing import Any, NamedTuple

import narwhals.stable.v1 as nw
import numpy as np
from scipy.sparse import csr_array, issparse

from boundrec.arrays import Bools, Codes, Floats
from boundrec.data.columns import id_column, is_missing, listed, read_numbers, series_column, short
from boundrec.data.ids import IdIndex
from boundrec.data.ratings import LARGEST

ACCEPTED = (
    "a pandas, polars or pyarrow frame with a column of ids, a mapping id -> numbers or id -> {name: value}, "
    "a pair (ids, matrix), or a Graph"
)
#: Columns that are categories whatever their values look like.
DECLARED = (nw.Categorical, nw.Enum)


class Numbers(NamedTuple):
    """A column of numbers; NaN where one is missing."""

    name: str
    values: Floats


class Categories(NamedTuple):
    """A column of categories by their numbers in the sorted levels; −1 where one is missing."""

    name: str
    levels: list[str]
    codes: Codes


class Table(NamedTuple):
    """One row for each id. ``width`` is the number of columns that have no names but their places, else 0."""

    ids: IdIndex
    columns: list[Numbers | Categories]
    width: int = 0


class SparseTable(NamedTuple):
    """One row for each id: a matrix whose columns have no names but their places."""

    ids: IdIndex
    matrix: csr_array


def read_table(given: Any, what: str, id_name: str | None = None) -> Table | SparseTable:
    """Ids and columns of anything that is accepted but a graph.

    Parameters
    ----------
    given
        A frame, a mapping, or a pair of ids and a matrix.
    what
        What to call it in an error message.
    id_name
        The name of a frame's column of ids, or of a pandas index that has them; None for the first column.
    """
    frame = _frame(given, what)
    if frame is not None:
        table: Table | SparseTable = _of_frame(frame, what, id_name)
    elif isinstance(given, Mapping):
        table = _of_mapping(given, what)
    elif isinstance(given, tuple) and len(given) == 2:
        table = _of_pair(*given, what)
    else:
        raise TypeError(f"{what} are a {type(given).__name__}: give {ACCEPTED}.")
    if isinstance(table, Table):
        for column in table.columns:
            if isinstance(column, Numbers):
                _check_sizes(column, table, what)
    return table


def whose(what: str) -> str:
    """Whose features are meant, for a message about an id: "user" of "user_features"."""
    return next((kind for kind in ("user", "item") if kind in what), "row")


def place_name(place: int) -> str:
    """What a column is called that has no name but its place."""
    return f"feature {place}"


def read_ids(given: Any, what: str) -> IdIndex:
    """Distinct ids, in their order."""
    column = given.ids if isinstance(given, IdIndex) else id_column(given, f"the ids of {what}")
    if not len(column):
        raise ValueError(f"{what} are empty: give at least one id with at least one value.")
    index, codes = IdIndex.encode(column, whose(what), what)
    if len(index) < len(codes):
        twice = int(np.flatnonzero(np.bincount(codes) > 1)[0])
        raise ValueError(f"{what} have {short(index.ids.item(twice))} in more than one row: give each id one row.")
    return index


# --- frames -------------------------------------------------------------------------------------------------


def _frame(given: Any, what: str) -> Any:
    try:
        frame = nw.from_native(given, eager_only=True, pass_through=True)
    except ValueError:
        raise ValueError(f"two columns of {what} have the same name: rename one of them.") from None
    return frame if isinstance(frame, nw.DataFrame) else None


def _of_frame(frame: Any, what: str, id_name: str | None) -> Table:
    index: Any = frame.to_native().index if frame.implementation.is_pandas() else None
    in_index = index is not None and id_name is not None and index.name == id_name
    series = {column.name: column for column in frame.iter_columns()}
    if id_name in series or not in_index:
        name = next(iter(series), None) if id_name is None else id_name
        if name not in series:
            raise ValueError(
                f"{what} have no column of ids: they have the columns [{listed(list(series))}]; "
                f"call the one with the ids {short(id_name or 'id')}."
            )
        ids = read_ids(series_column(series.pop(name)), what)
    else:
        ids = read_ids(index.to_series(), what)
    if not series:
        raise ValueError(f"{what} have ids and no other column: give at least one of values.")
    if len({str(name) for name in series}) < len(series):
        raise ValueError(f"two columns of {what} have the same name: rename one of them.")
    return Table(ids, [_of_series(str(name), one, what) for name, one in series.items()])


def _of_series(name: str, series: Any, what: str) -> Numbers | Categories:
    dtype = series.dtype
    if dtype.is_temporal() or dtype.is_nested():
        raise TypeError(
            f"the column {name!r} of {what} holds {dtype}: give numbers (such as the year) or categories (text)."
        )
    if dtype.is_numeric():
        values = np.asarray(series.to_numpy())
        if values.dtype.kind in "iuf":
            return Numbers(name, values.astype(np.float64, copy=False))
    return _of_values(name, series.to_list(), what, declared=isinstance(dtype, DECLARED))


def _of_values(name: str, values: list[Any], what: str, declared: bool = False) -> Numbers | Categories:
    """A column of Python's own values: numbers where all are, categories where all are text, or all true or false."""
    where = f"the column {name!r} of {what}"
    try:
        present = [one for one in dict.fromkeys(values) if not is_missing(one)]
    except TypeError:  # a list or the like, which is no value
        raise _mixed(where, values, next(one for one in values if not isinstance(one, Hashable))) from None
    if declared or _all(present, str) or _all(present, (bool, np.bool_)):
        return _categories(name, values, present)
    numbers = [isinstance(one, Real | Decimal) and not isinstance(one, bool) for one in present]
    if not all(numbers):
        raise _mixed(where, values, present[numbers.index(False)])
    return Numbers(name, read_numbers(values, where, "value"))


def _mixed(where: str, values: list[Any], odd: Any) -> TypeError:
    row = next(row for row, one in enumerate(values) if one is odd)
    return TypeError(
        f"{where} holds {short(odd)} in row {row}, and is neither numbers alone nor text alone nor true and false "
        "alone: make it one of these."
    )


def _all(values: list[Any], kind: Any) -> bool:
    return bool(values) and all(isinstance(one, kind) for one in values)


def _categories(name: str, values: list[Any], present: list[Any]) -> Categories:
    texts = {one: _text(one) for one in present}
    levels = sorted(set(texts.values()))
    place = dict(zip(levels, range(len(levels)), strict=True))
    codes = {one: place[text] for one, text in texts.items()}
    return Categories(name, levels, np.fromiter(map(codes.get, values, repeat(-1)), np.int64, len(values)))


def _text(level: Any) -> str:
    """1.0 is 1: a library with missing values may have made floats of whole numbers."""
    return str(int(level)) if isinstance(level, float) and level.is_integer() else str(level)


# --- mappings and pairs -------------------------------------------------------------------------------------


def _of_mapping(given: Mapping[Any, Any], what: str) -> Table:
    ids, rows = read_ids(list(given), what), list(given.values())
    if all(isinstance(row, Mapping) for row in rows):
        names = list(dict.fromkeys(name for row in rows for name in row))
        columns = [_of_values(str(name), [row.get(name) for row in rows], what) for name in names]
        if not columns:
            raise ValueError(f"{what} are empty: give at least one id with at least one value.")
        return Table(ids, columns)
    sizes = [_size(row, one, what) for one, row in zip(given, rows, strict=True)]
    for one, size in zip(given, sizes, strict=True):
        if size != sizes[0]:
            first = next(iter(given))
            raise ValueError(
                f"{what}: {short(one)} has {size} features and {short(first)} has {sizes[0]}: give everybody the "
                "same ones."
            )
    return _of_matrix(ids, rows, what)


def _size(row: Any, one: Any, what: str) -> int:
    if isinstance(row, list | tuple | np.ndarray):
        return len(row)
    raise TypeError(f"{what} of {short(one)} are {short(row)}: give everybody a list of numbers, or everybody a dict.")


def _of_pair(ids: Any, matrix: Any, what: str) -> Table | SparseTable:
    index = read_ids(ids, what)
    return SparseTable(index, read_sparse(matrix, index, what)) if issparse(matrix) else _of_matrix(index, matrix, what)


def _check_rows(shape: tuple[int, ...], ids: IdIndex, what: str) -> None:
    if len(shape) != 2 or shape[0] != len(ids):
        raise ValueError(
            f"{what} have {len(ids)} ids and a matrix of shape {shape}: give one row for each id, in their order."
        )
    if not shape[1]:
        raise ValueError(f"{what} are empty: give at least one id with at least one value.")


def _of_matrix(ids: IdIndex, matrix: Any, what: str) -> Table:
    """Rows of numbers, all of them given: who has gaps has columns with names."""
    array = _as_array(matrix, what)
    _check_rows(array.shape, ids, what)
    columns: list[Numbers | Categories] = []
    for place, values in enumerate(array.T):
        column = Numbers(place_name(place), read_numbers(values, f"{place_name(place)!r} of {what}", "value"))
        if np.isnan(column.values).any():
            row = int(np.isnan(column.values).argmax())
            raise ValueError(
                f"{what} have no number in {np.isnan(column.values).sum()} places of {column.name!r} (first: "
                f"{short(ids.ids.item(row))}): fill them in, or give a frame, in which a missing value is the mean."
            )
        columns.append(column)
    return Table(ids, columns, len(columns))


def _as_array(matrix: Any, what: str) -> Any:
    """Numbers as an array whose columns lie in one piece, other things as objects."""
    if isinstance(matrix, np.ma.MaskedArray):
        return matrix
    try:
        array = np.asarray(matrix)
    except ValueError:
        raise ValueError(f"the rows of {what} differ in length: give everybody the same features.") from None
    # Beside text NumPy turns every number into text: look at the values themselves.
    return np.asfortranarray(array) if array.dtype.kind in "biuf" else np.asarray(matrix, dtype=object)


def read_sparse(matrix: Any, ids: IdIndex, what: str) -> csr_array:
    """A sparse matrix of finite numbers as CSR in float64, columns in their order, without stored zeros."""
    _check_rows(matrix.shape, ids, what)
    if matrix.dtype.kind not in "biuf":
        raise TypeError(f"{what} are a matrix of {matrix.dtype}: give real numbers.")
    try:
        rows = csr_array(matrix, dtype=np.float64, copy=True)
        rows.check_format(full_check=True)
    except (ValueError, IndexError):
        raise ValueError(f"{what} are a damaged sparse matrix: build it again, from tocoo() if that works.") from None
    rows.sum_duplicates()
    rows.eliminate_zeros()
    bad = ~(np.abs(rows.data) <= LARGEST)
    if bad.any():
        entry = int(bad.argmax())
        row = int(np.searchsorted(rows.indptr, entry, side="right")) - 1
        raise ValueError(
            f"{bad.sum()} entries of {what} are missing, infinite or too large to be squared (first: "
            f"{rows.data[entry]:g} in column {rows.indices[entry]} of {short(ids.ids.item(row))}): leave them out of "
            "the matrix, or scale all."
        )
    return rows


def _check_sizes(column: Numbers, table: Table, what: str) -> None:
    bad: Bools = np.abs(column.values) > LARGEST  # a missing one is not
    if bad.any():
        row = int(bad.argmax())
        raise ValueError(
            f"{bad.sum()} values of {column.name!r} in {what} are infinite or too large to be squared (first: "
            f"{column.values[row]:g} of {short(table.ids.ids.item(row))}): correct them, or leave them missing."
        )
