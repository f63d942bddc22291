"""Ratings in .npz files: columns that are checked before they are believed."""

import zipfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

_COLUMNS = ("user", "item", "rating", "timestamp")  # arrays of an .npz file; the last may be missing


Columns = tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float64], NDArray[np.int64] | None]


def read_npz(file: Path) -> Columns:
    """Users and items (codes from 0), ratings, and timestamps where there are some; ValueError says what is wrong."""
    arrays = _npz_arrays(file)
    user, item = (_codes(key, arrays[key]) for key in ("user", "item"))
    timestamp = _whole("timestamp", arrays["timestamp"], np.int64) if "timestamp" in arrays else None
    _check_rated_once(user, item)
    return user, item, _finite("rating", arrays["rating"]), timestamp


def _check_rated_once(user: NDArray[np.int32], item: NDArray[np.int32]) -> None:
    cell = user.astype(np.int64) * (int(item.max()) + 1) + item
    entry = np.unique(cell, return_index=True)[1]
    if entry.size < cell.size:
        again = np.setdiff1d(np.arange(cell.size), entry)
        raise ValueError(
            f"has {again.size:,} ratings of pairs that were rated before (first: entry {again[0]}, user "
            f"{user[again[0]]}, item {item[again[0]]})"
        )


def _npz_arrays(file: Path) -> dict[str, NDArray]:
    """The file's columns, of one length."""
    with zipfile.ZipFile(file) as archive:  # NumPy would not look at the checksum of an array it reads in part
        damaged = archive.testzip()
    if damaged:
        raise ValueError(f"its array {damaged} is damaged")
    with np.load(file) as content:
        missing = {"user", "item", "rating"} - set(content.files)
        if missing:
            raise ValueError(f"it has no array {min(missing)!r}")
        arrays = {key: np.asarray(content[key]) for key in _COLUMNS if key in content.files}
    shapes = {array.shape for array in arrays.values()}
    if len(shapes) > 1 or arrays["rating"].ndim != 1 or not arrays["rating"].size:
        told = ", ".join(f"{key} {array.shape}" for key, array in arrays.items())
        raise ValueError(f"its arrays are no columns of one length, at least 1: {told}")
    return arrays


def _codes(key: str, values: NDArray) -> NDArray[np.int32]:
    """Codes from 0, of which none is left out: the largest says how many users or items there are."""
    codes: NDArray[np.int32] = _whole(key, values, np.int32)
    if codes.min() < 0:
        entry = int((codes < 0).argmax())
        raise ValueError(f"{key} {codes[entry]} at entry {entry:,} is below 0")
    counts = np.bincount(np.minimum(codes, codes.size))  # among more codes than entries, one of the first is left out
    if not counts.all():
        entry = int(codes.argmax())
        raise ValueError(f"{key} {codes[entry]} at entry {entry:,} is too large: {key} {counts.argmin()} has no entry")
    return codes


def _whole(key: str, values: NDArray, kind: type[np.integer]) -> NDArray:
    """The values as integers, where that changes none of them."""
    _check_numbers(key, values)
    with np.errstate(invalid="ignore"):
        integers = values.astype(kind, copy=False)
    changed = integers != values
    if changed.any():
        entry = int(changed.argmax())
        raise ValueError(f"{key} {values[entry]} at entry {entry:,} is no whole number that fits {np.dtype(kind).name}")
    return integers


def _finite(key: str, values: NDArray) -> NDArray[np.float64]:
    _check_numbers(key, values)
    numbers = values.astype(np.float64)
    if not np.isfinite(numbers).all():
        entry = int(np.isfinite(numbers).argmin())
        raise ValueError(f"{key} {numbers[entry]} at entry {entry:,} is no finite number")
    return numbers


def _check_numbers(key: str, values: NDArray) -> None:
    if values.dtype.kind not in "biuf":
        raise ValueError(f"its array {key!r} is of {values.dtype}, not of numbers (entry 0: {values[0]!r})")
