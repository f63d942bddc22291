"""Results as data frames of whatever library the caller likes."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

Library = Literal["pandas", "polars", "pyarrow"]
LIBRARIES: tuple[Library, ...] = get_args(Library)


def import_library(name: str) -> Any:
    """The library of that name; a sentence where it is not installed."""
    try:
        return import_module(name)
    except ModuleNotFoundError:
        raise ModuleNotFoundError(f'output="{name}" needs {name}, which is not installed: pip install {name}') from None


def build_frame(columns: dict[str, NDArray[Any]], library: str) -> Any:
    """A frame of these columns, in their order."""
    module = import_library(library)
    if library == "pandas":
        return module.DataFrame(columns)
    # Arrays of objects as lists: strings become a column of strings, not of objects.
    plain = {name: column.tolist() if column.dtype == object else column for name, column in columns.items()}
    if library == "polars":
        return module.DataFrame({name: _polars_column(module, column) for name, column in plain.items()})
    try:
        return module.table(plain)
    except (module.ArrowInvalid, module.ArrowTypeError) as error:
        raise ValueError(f'these ids have no common type in pyarrow ({error}): use output="pandas".') from None


def _polars_column(polars: Any, column: Any) -> Any:
    """A column by its own type or, where ids are of several, of objects."""
    try:
        return polars.Series(column)
    except TypeError:
        return polars.Series(column, dtype=polars.Object)


def id_array(column: Any) -> NDArray[Any]:
    """A column of ids as an array; a list becomes one of integers or of objects, never of tuples spread out."""
    if isinstance(column, np.ndarray):
        return column
    if column and all(type(one) is int for one in column):
        try:
            return np.array(column, np.int64)
        except OverflowError:
            pass
    return np.fromiter(column, object, len(column))
