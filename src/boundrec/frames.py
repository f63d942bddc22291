"""Results as data frames of whatever library the caller likes."""

from __future__ import annotations

from datetime import date, time, timedelta
from decimal import Decimal
from importlib import import_module
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from boundrec.columns import short

Library = Literal["pandas", "polars", "pyarrow"]
LIBRARIES: tuple[Library, ...] = get_args(Library)
#: Ids for which every library may have a type of its own; which of them come back as they were is tried.
TYPED = (str, bytes, int, float, date, time, timedelta, Decimal)


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
        name: _id_column(module, column.tolist()) if column.dtype == object else column
        for name, column in columns.items()
    }
    return module.table(built) if library == "pyarrow" else module.DataFrame(built)


def _id_column(module: Any, ids: list[Any]) -> Any:
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
