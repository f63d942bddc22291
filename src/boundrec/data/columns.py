"""Columns out of anybody's containers, and results as frames: arrays, lists, and pandas, polars or pyarrow."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from importlib import import_module
from numbers import Real
from typing import Any, Literal, get_args

import narwhals.stable.v1 as nw
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

#: Rows that are looked at together where all at once would take many times the room of what they are made into.
PART = 1 << 20


class Texts(Sequence[Any]):
    """A frame's column of text, of which only a part at a time is made into Python's strings."""

    def __init__(self, series: Any) -> None:
        self._series = series

    def __len__(self) -> int:
        return len(self._series)

    def __getitem__(self, row: Any) -> Any:
        found = self._series[row]
        return found.to_list() if isinstance(row, slice) else found

    def __iter__(self) -> Iterator[Any]:
        for start in range(0, len(self), PART):
            yield from self[start : start + PART]


Column = NDArray[Any] | list[Any] | Texts
#: The names of a frame's two columns, users first.
Names = tuple[str, str]
#: Where the ends of ranges are: the name of a column, or a number for all rows.
RangeColumns = tuple[str | float, str | float]

#: Numbers in frames for which NumPy has no type.
WITHOUT_ARRAY = (nw.Int128, nw.UInt128, nw.Decimal)

Library = Literal["pandas", "polars", "pyarrow"]
LIBRARIES: tuple[Library, ...] = get_args(Library)
#: Ids for which every library may have a type of its own; which of them come back as they were is tried.
TYPED = (str, bytes, int, float, date, time, timedelta, Decimal)

#: So many names an error message lists.
MOST_LISTED = 10

ACCEPTED = (
    "an array or a list of (user id, item id) pairs, a pandas, polars or pyarrow frame with two columns, "
    "or, to fit, a scipy sparse matrix (users × items) or a Ratings"
)


def pair_columns(X: Any) -> tuple[Column, Column]:
    """User ids and item ids of pairs in any accepted form.

    Parameters
    ----------
    X
        An (n, 2) array, a list or tuple of pairs, or a pandas, polars or pyarrow frame with two columns. Each
        column keeps its own type.
    """
    if issparse(X) or hasattr(X, "to_pairs"):
        raise TypeError(
            f"predict takes pairs of ids, not a {type(X).__name__}: "
            "pass two columns of ids, for instance Ratings.read(...).to_pairs()[0]"
        )
    if isinstance(X, np.ndarray):
        return _array_columns(X)
    if isinstance(X, list | tuple):
        return _list_columns(X)
    try:
        frame = nw.from_native(X, eager_only=True)
    except TypeError:
        raise TypeError(f"X is a {type(X).__name__}, but must be {ACCEPTED}") from None
    except ValueError:
        raise ValueError("the two columns of X must have different names: rename one of them") from None
    names = frame.columns
    if len(names) != 2:
        raise ValueError(f"X must have two columns, user ids and item ids, but has {len(names)}: [{listed(names)}]")
    users, items = map(_ids_of, frame.iter_columns())  # by place: frame[0] would be a row
    return users, items


def _ids_of(series: Any) -> Column:
    return Texts(series) if series.dtype == nw.String else series_column(series)


def range_columns(X: Any, names: RangeColumns | None) -> tuple[Any, Any, Any]:
    """Two columns of ids, and the ranges: by the names of columns in a frame, or the third and the fourth.

    A number in the place of a name stands for all rows.
    """
    constant = [not isinstance(end, str) for end in names or ("", "")]
    width, words = 4 - sum(constant), {3: "three", 4: "four"}
    if isinstance(X, np.ndarray) and X.ndim == 2 and X.shape[1] == width:
        given = [X[:, column] for column in range(2, width)]
        return (X[:, :2], *_in_place(given, names, constant))
    if isinstance(X, list | tuple) and X and all(isinstance(row, list | tuple) and len(row) == width for row in X):
        rows = [[row[column] for row in X] for column in range(2, width)]
        return ([row[:2] for row in X], *_in_place(rows, names, constant))
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        ends = "lower and upper ends" if width == 4 else f"{'upper' if constant[0] else 'lower'} ends"
        raise ValueError(
            f"X has no columns of ranges: give it {words[width]} columns (user ids, item ids, {ends}), or pass lower= "
            "and upper= beside it"
        )
    columns = list(frame.columns)
    by_name = {"lower", "upper"} <= set(columns) or len(columns) != 4
    low, high = names or (("lower", "upper") if by_name else (columns[2], columns[3]))
    named = [end for end in (low, high) if isinstance(end, str)]
    ids = [name for name in columns if name not in named]
    if len(ids) != 2 or not set(named) <= set(columns):
        raise ValueError(
            f"X has the columns {listed(columns)}: give it two columns of ids, and the ranges in {low!r} and {high!r}, "
            "or pass lower= and upper= beside it"
        )
    lower, upper = (frame[end].to_native() if isinstance(end, str) else end for end in (low, high))
    return frame.select(ids).to_native(), lower, upper


def _in_place(given: list[Any], names: RangeColumns | None, constant: list[bool]) -> tuple[Any, Any]:
    """Columns of ends, and the number where there is one in the place of a column."""
    ends = iter(given)
    lower, upper = (names[i] if names and constant[i] else next(ends) for i in range(2))
    return lower, upper


def column_names(X: Any) -> Names | None:
    """The names of a frame's two columns where they are strings, as in scikit-learn; None for all other pairs."""
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    names = frame.columns if isinstance(frame, nw.DataFrame) else []
    return (names[0], names[1]) if len(names) == 2 and all(isinstance(name, str) for name in names) else None


def pair_array(users: NDArray[Any], items: NDArray[Any]) -> NDArray[Any]:
    """Two columns of ids side by side: int64 when all ids are integers, else object."""
    integers = users.dtype == np.int64 and items.dtype == np.int64
    pairs = np.empty((len(users), 2), np.int64 if integers else object)
    pairs[:, 0], pairs[:, 1] = users, items
    return pairs


def _array_columns(X: NDArray[Any]) -> tuple[Column, Column]:
    if X.ndim != 2 or X.shape[1] != 2:
        raise ValueError(f"X must have two columns, user ids and item ids, but has shape {X.shape}")
    if np.ma.is_masked(X):
        X = _with_gaps(X)
    X = np.asarray(X)
    return X[:, 0], X[:, 1]


def id_column(ids: Any, name: str) -> Column:
    """One column of ids: a list, tuple, range or array, or a pandas, polars or pyarrow series.

    Parameters
    ----------
    ids
        The column; a single id is refused, even where it could be taken for several.
    name
        What to call it in an error message.
    """
    if isinstance(ids, list | tuple | range):
        return list(ids)
    series = nw.from_native(_chunked(ids), series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        return series_column(series)
    if hasattr(ids, "__array__") and np.ndim(ids):
        if np.ndim(ids) != 1:
            raise ValueError(f"{name} must be one column of ids, but has shape {np.shape(ids)}")
        return _with_gaps(ids) if np.ma.is_masked(ids) else np.asarray(ids)
    raise TypeError(f"{name}={short(ids)} is not a column of ids: pass a list, for one id a list of one")


def _chunked(values: Any) -> Any:
    """A pyarrow array in the form that narwhals takes for a series; anything else as it is."""
    pyarrow = sys.modules.get("pyarrow")
    return pyarrow.chunked_array([values]) if pyarrow and isinstance(values, pyarrow.Array) else values


def _with_gaps(masked: Any) -> NDArray[Any]:
    """A masked array as objects, None where it is masked: np.asarray would show what lies under the mask."""
    objects: NDArray[Any] = np.ma.getdata(masked).astype(object)
    objects[np.ma.getmaskarray(masked)] = None
    return objects


def _list_columns(X: Sequence[Any]) -> tuple[Column, Column]:
    for row, pair in enumerate(X):
        if not _is_pair(pair):
            raise ValueError(
                f"X must hold (user id, item id) pairs, but its row {row} is {short(pair)}: "
                "pass list(zip(users, items)) when the ids are in two columns"
            )
    return [pair[0] for pair in X], [pair[1] for pair in X]


def _is_pair(row: Any) -> bool:
    """Only real sequences are pairs: "ab" has length two as well, and a set has no order."""
    if isinstance(row, np.ndarray):
        return bool(row.shape == (2,))
    return isinstance(row, list | tuple) and len(row) == 2


def series_column(series: Any) -> Column:
    """A frame's column without loss: a missing value stays missing, an integer stays an integer."""
    dtype = series.dtype
    if dtype.is_numeric() and dtype not in WITHOUT_ARRAY and not series.is_null().any():
        return np.asarray(series.to_numpy())
    if dtype.is_temporal() and not series.implementation.is_pandas():
        _refuse_nanoseconds(series)
    return list(series.to_list())


def _refuse_nanoseconds(series: Any) -> None:
    """Refuse times that Python's own cannot tell apart: to_list() would cut them to microseconds."""
    if series.dtype == nw.Date or getattr(series.dtype, "time_unit", "ns") != "ns":
        return
    elapsed = series.dt.total_nanoseconds() if series.dtype == nw.Duration else series.dt.nanosecond()
    finer = (elapsed % 1000 != 0).fill_null(False)
    if finer.any():
        raise ValueError(
            f"the column {series.name!r} has times with nanoseconds (first: row {finer.arg_true()[0]}), "
            "which Python's own times have not: cast it to integers, to text or to microseconds"
        )


def read_numbers(values: Any, where: str, what: str) -> NDArray[np.float64]:
    """One column of real numbers as float64; a missing value becomes NaN."""
    if np.ma.is_masked(values):
        values = _with_gaps(values)
    native = nw.from_native(_chunked(values), eager_only=True, allow_series=True, pass_through=True)
    if isinstance(native, nw.DataFrame) and len(native.columns) == 1:
        native = next(native.iter_columns())
    given = series_column(native) if isinstance(native, nw.Series) else values
    try:
        column = np.asarray(given)
        if column.dtype.kind in "mM":  # as objects, nanoseconds would be plain integers
            raise TypeError(f"{where} must hold numbers, but holds times ({column.dtype}): convert them first")
        # Beside text NumPy turns every number into text: look at the values themselves.
        column = np.asarray(given, dtype=object) if column.dtype.kind not in "biufc" else column
    except ValueError:
        raise ValueError(f"{where} must be one column of numbers, but its rows differ in length") from None
    if column.ndim == 2 and column.shape[1] == 1:
        column = column[:, 0]
    if column.ndim != 1:
        raise ValueError(f"{where} must be one column of numbers, but has shape {column.shape}")
    if column.dtype.kind == "c":
        raise TypeError(f"{where} must hold real numbers, but is complex: take the real part or the magnitude")
    if column.dtype.kind == "O":
        return np.fromiter((_number(one, row, where, what) for row, one in enumerate(column)), float, column.size)
    with np.errstate(over="ignore"):  # of long doubles: infinity is refused where it is not allowed
        return column.astype(np.float64, copy=False)


def _number(one: Any, row: int, where: str, what: str) -> float:
    if is_missing(one):
        return np.nan
    if isinstance(one, Real | Decimal | np.bool_) and not isinstance(one, np.timedelta64):
        try:
            return float(one)
        except OverflowError:
            raise ValueError(f"row {row} of {where} is {short(one)}, too large: divide all by a constant") from None
    raise TypeError(f"row {row} of {where} is {short(one)}, not a number: convert every {what} to a number first")


def is_missing(one: Any) -> bool:
    """None, NaN, NaT, and pandas' NA, which refuses to be compared."""
    try:
        return one is None or bool(one != one)
    except (TypeError, ValueError):
        return type(one).__name__ == "NAType"
    except ArithmeticError:  # a signalling NaN of decimal
        return True


def short(value: Any) -> str:
    """A value as an error message shows it: in one line, and never an error of its own."""
    try:
        shown = " ".join(repr(value).split())
    except Exception:  # an integer of 5000 digits has no text, and objects may do as they like
        return f"<{type(value).__name__}>"
    return shown if len(shown) <= 60 else shown[:57] + "..."


# --- frames out -----------------------------------------------------------------------------------------------


def listed(names: Sequence[Any]) -> str:
    """Names as an error message shows them: the first few."""
    shown = ", ".join(map(repr, names[:MOST_LISTED]))
    return shown if len(names) <= MOST_LISTED else f"{shown} and {len(names) - MOST_LISTED} more"


def import_library(name: str) -> Any:
    """The library of that name; a sentence where it is not installed."""
    try:
        return import_module(name)
    except ModuleNotFoundError:
        raise ModuleNotFoundError(f'output="{name}" needs {name}, which is not installed: pip install {name}') from None


def build_frame(columns: dict[str, NDArray[Any]], library: str) -> Any:
    """A frame of these columns, in their order; ids in it are equal to those in the columns."""
    module = import_library(library)
    built = {
        name: _column_of_ids(module, column.tolist()) if column.dtype == object else column
        for name, column in columns.items()
    }
    return module.table(built) if library == "pyarrow" else module.DataFrame(built)


def _column_of_ids(module: Any, ids: list[Any]) -> Any:
    """Ids by their own type where they come back from it as they were, else as objects."""
    library = module.__name__
    column = _typed_column(module, ids)
    if column is None and library != "pyarrow":
        column = module.Series(ids, dtype=object if library == "pandas" else module.Object)
        if not _equal(column.to_list(), ids):  # polars takes the values of an enumeration
            column = None
    if column is None:
        raise ValueError(f'these ids have no common type in {library} (first: {short(ids[0])}): use output="pandas".')
    return column


def _typed_column(module: Any, ids: list[Any]) -> Any:
    kinds = set(map(type, ids)) - {type(None)}
    one_kind = len(kinds) <= 1 or kinds == {int, float}
    if not one_kind or not all(issubclass(kind, TYPED) for kind in kinds):
        return None
    if Decimal in kinds and not all(one is None or one.is_finite() for one in ids):
        return None  # polars would panic
    beyond_int64 = kinds == {int} and None not in ids and min(ids) >= 0 and 2**63 <= max(ids) < 2**64
    given = np.array(ids, np.uint64) if beyond_int64 else ids
    build, read = (
        (module.array, module.Array.to_pylist)
        if module.__name__ == "pyarrow"
        else (module.Series, module.Series.to_list)
    )
    try:
        column = build(given)
        return column if kinds == {str} or _equal(read(column), ids) else None
    except Exception:  # each library has errors of its own for what it cannot hold
        return None


def _equal(found: list[Any], ids: list[Any]) -> bool:
    """Whether ids are equal to a dictionary's eyes."""
    return all(
        one is other or (one == other and hash(one) == hash(other)) for one, other in zip(found, ids, strict=True)
    )
