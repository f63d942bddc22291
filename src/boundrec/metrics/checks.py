"""What every measure takes: columns of numbers and of ids, refused in a sentence where they are none."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse

from boundrec.data.columns import read_numbers

Numbers = NDArray[np.float64]
Ids = Any  #: one column of ids: an array, a series or a list


def numbers(values: ArrayLike, name: str) -> Numbers:
    """Numbers as an array of any shape; what is missing becomes NaN."""
    _refuse_sparse(values, name)
    try:
        array = np.asarray(values)
    except ValueError:
        raise ValueError(f"{name} has rows of different lengths. Pass an array of numbers.") from None
    if array.dtype.kind in "biuf":
        return array.astype(np.float64, copy=False)
    if array.dtype.kind in "US":  # beside text NumPy turns every number into text: look at the values themselves
        array = np.asarray(values, dtype=object)
    if array.ndim > 1 and array.size:
        return np.stack([numbers(row, f"{name}[{place}]") for place, row in enumerate(array)])
    return np.empty(array.shape) if array.ndim > 1 else read_numbers(array, name, "value")


def finite(values: ArrayLike, name: str, ndim: int | None = 1) -> Numbers:
    """Numbers as an array of so many dimensions (any, with None), none of them NaN or infinite."""
    array = numbers(values, name)
    if ndim is not None and array.ndim != ndim:
        raise ValueError(f"{name} has shape {array.shape}. Pass an array with {ndim} dimension{'s'[: ndim > 1]}.")
    if not array.size:
        raise ValueError(f"{name} is empty. Pass at least one value.")
    bad = ~np.isfinite(array)
    if bad.any():
        first = np.unravel_index(int(bad.argmax()), array.shape)
        raise ValueError(
            f"{name} has {int(bad.sum()):,} values that are NaN or infinite (first: {array[first]} at "
            f"{', '.join(map(str, first))}). Remove those entries, or see why the model made them."
        )
    return array


def id_column(column: Ids, name: str, size: int | None = None) -> NDArray[Any] | list[Any]:
    """A column of ids; a list keeps the type of each."""
    _refuse_sparse(column, name)
    ids = column if isinstance(column, list) else np.asarray(column)
    if not isinstance(ids, list) and ids.ndim != 1:
        raise ValueError(f"{name} has shape {ids.shape}. Pass one column of ids.")
    if not len(ids):
        raise ValueError(f"{name} is empty. Pass at least one id.")
    if size is not None and len(ids) != size:
        raise ValueError(f"{name} has {len(ids):,} ids where {size:,} are needed. Pass one for each.")
    return ids


def listed(lists: ArrayLike, k: int | None = None) -> NDArray[Any]:
    """The first k places of lists of ids, of all where k is None; what pads a short list is left as it is."""
    _refuse_sparse(lists, "lists")
    shown = np.asarray(lists, dtype=object if isinstance(lists, list) else None)
    if shown.ndim != 2 or not shown.size:
        raise ValueError(f"lists has shape {shown.shape}. Pass one row of item ids per user, best first.")
    if k is None:
        return shown
    if not isinstance(k, int | np.integer) or k < 1:
        raise ValueError(f"k={k!r} places cannot be looked at. Pass a whole number from 1.")
    return shown[:, :k]


def _refuse_sparse(values: Any, name: str) -> None:
    """NumPy would take a sparse matrix for a single object."""
    if issparse(values):
        raise TypeError(f"{name} is a {type(values).__name__}. Pass an array, such as {name}.toarray().")
