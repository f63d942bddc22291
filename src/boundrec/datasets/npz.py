"""Ratings in .npz files: columns that are checked before they are believed."""

import zipfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

#: Arrays of a file and what they hold; the last may be missing.
KINDS: dict[str, type[np.number]] = {"user": np.int32, "item": np.int32, "rating": np.float64, "timestamp": np.int64}


def read_npz(file: Path) -> dict[str, NDArray]:
    """The arrays of a file by name: codes from 0, ratings, perhaps timestamps. ValueError says what is wrong."""
    with zipfile.ZipFile(file) as archive:  # NumPy would not look at the checksum of an array it reads in part
        damaged = archive.testzip()
    if damaged:
        raise ValueError(f"its array {damaged} is damaged")
    with np.load(file) as content:
        missing = {"user", "item", "rating"} - set(content.files)
        if missing:
            raise ValueError(f"it has no array {min(missing)!r}")
        arrays = {name: _numbers(name, np.asarray(content[name])) for name in KINDS if name in content.files}
    sizes = {array.size for array in arrays.values()}
    if len(sizes) > 1 or not arrays["rating"].size:
        raise ValueError("its arrays are not of one length, at least 1")
    user, item = (_codes(name, arrays[name]) for name in ("user", "item"))
    again = np.ones(user.size, dtype=bool)
    again[np.unique(user.astype(np.int64) * (int(item.max()) + 1) + item, return_index=True)[1]] = False
    _refuse("pair", np.column_stack((user, item)), again, "one that was rated before")
    return arrays


def _codes(name: str, codes: NDArray) -> NDArray:
    """The codes, where none is left out: the largest says how many users or items there are."""
    n_codes = np.unique(codes).size
    _refuse(name, codes, (codes < 0) | (codes >= n_codes), f"no code of 0 to {n_codes - 1}, though {n_codes} occur")
    return codes


def _numbers(name: str, values: NDArray) -> NDArray:
    """One column in the type that it is to have, where that changes no number."""
    if values.ndim != 1 or values.dtype.kind not in "biuf":
        raise ValueError(f"its array {name!r} of {values.dtype} and shape {values.shape} is no column of numbers")
    kind = KINDS[name]
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
