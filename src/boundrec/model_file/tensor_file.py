"""One safetensors file of named arrays and text: written whole or not at all, sealed, and mapped when read.

docs/model-files.md is the specification. Reading maps the file instead of copying it (the safetensors library copies
for NumPy), and looks at every number of the header before it is used: a file may come from anywhere.
"""

from __future__ import annotations

import hashlib
import json
import math
import mmap
import os
import zlib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from boundrec.files import is_special, whole_file
from boundrec.solvers.threads import thread_count

Arrays = dict[str, NDArray[Any]]
Text = dict[str, str]

FORMAT, VERSION = "boundrec", 1
DTYPES = {name: np.dtype(code) for name, code in (("F64", "<f8"), ("F32", "<f4"), ("I64", "<i8"), ("I32", "<i4"))}
DTYPES |= {"F16": np.dtype("<f2"), "BOOL": np.dtype("?"), "U8": np.dtype("u1")}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
#: Bytes in front of the header, which say how long it is; the data behind it start at a multiple of ALIGNMENT.
PREFIX, ALIGNMENT = 8, 64
#: A header is a few thousand bytes; nothing longer is read.
LONGEST_HEADER = 1 << 20
#: The checksum's place in the header, and what stands there while the checksum is taken.
SEAL, BLANK = '"checksum":"', "0" * 64
#: Bytes of data under one CRC-32.
CHUNK = 1 << 22


class TensorFile(NamedTuple):
    """What a file holds: arrays by name, and text by name."""

    arrays: Arrays
    text: Text


# --- writing ------------------------------------------------------------------------------------------------


def write(path: str, arrays: Mapping[str, NDArray[Any]], text: Mapping[str, str]) -> None:
    """Write a file: under its name there is afterwards the whole of it, or what was there before."""
    ordered = {name: arrays[name] for name in sorted(arrays, key=lambda name: (-arrays[name].itemsize, name))}
    header = _header(ordered, text)
    with _whole_or_nothing(path) as file:
        file.write(header)
        for array in ordered.values():
            file.write(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).reshape(-1).view(np.uint8).data)
        file.flush()
        place = header.index(SEAL.encode()) + len(SEAL)
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            seal = checksum(content, len(header), place)
        file.seek(place)
        file.write(seal.encode())


def _header(arrays: Arrays, text: Mapping[str, str]) -> bytes:
    """The length of the header and the header itself, its checksum still blank.

    Arrays come in the order of their item sizes, largest first, so that each is aligned.
    """
    known = {"checksum": BLANK, "format": FORMAT, "format_version": str(VERSION)}
    entries: dict[str, Any] = {"__metadata__": known | dict(text)}
    end = 0
    for name, array in arrays.items():
        begin, end = end, end + array.nbytes
        dtype = NAMES[array.dtype.newbyteorder("<")]
        entries[name] = {"dtype": dtype, "shape": array.shape, "data_offsets": [begin, end]}
    header = json.dumps(entries, separators=(",", ":")).encode()
    header += b" " * (-(PREFIX + len(header)) % ALIGNMENT)
    if len(header) > LONGEST_HEADER:
        raise ValueError(f"its settings take {len(header)} bytes of text, more than the {LONGEST_HEADER} of a header.")
    return len(header).to_bytes(PREFIX, "little") + header


@contextmanager
def _whole_or_nothing(path: str) -> Iterator[BinaryIO]:
    """A new file beside ``path`` that takes its place once all of it is on the disk."""
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError("it is a folder")
    if target.parent.is_file():
        raise NotADirectoryError(f"{target.parent} is a file, not a folder")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {target.parent}")
    if is_special(target):
        raise OSError("it is a device or a pipe")
    with whole_file(target) as file:
        yield file


# --- reading ------------------------------------------------------------------------------------------------


def read(path: str, verify: bool = True) -> TensorFile:
    """Map a file; a ValueError says what is wrong with one that is damaged, foreign or too new.

    Its arrays may be written to, as those of a fit may: what is written stays in this process.
    """
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size < PREFIX:
            raise ValueError("it is not a model file, or was cut short.")
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    header = _read_header(content)
    entries = _parse(header)
    text = _metadata(entries.pop("__metadata__", None))
    start = PREFIX + len(header)
    arrays = _arrays(content, start, entries)
    if verify:
        place = PREFIX + header.find((SEAL + text["checksum"] + '"').encode()) + len(SEAL)
        if text["checksum"] != checksum(content, start, place):
            raise ValueError("it was altered or damaged: its content does not match its checksum.")
    return TensorFile(arrays, text)


def checksum(content: Any, start: int, place: int) -> str:
    """SHA-256 of the first ``start`` bytes, blank at the checksum's place, and of the CRC-32s of the data behind."""
    with memoryview(content) as view:
        digest = hashlib.sha256(view[:place])
        digest.update(BLANK.encode())
        digest.update(view[place + len(BLANK) : start])
        for remainder in _in_chunks(view[start:]):
            digest.update(remainder.to_bytes(4, "little"))
    return digest.hexdigest()


def _in_chunks(data: memoryview) -> list[int]:
    """The CRC-32 of each chunk, on all cores where there are several chunks."""
    starts = range(0, len(data), CHUNK)

    def remainder(first: int) -> int:
        with data[first : first + CHUNK] as chunk:
            return zlib.crc32(chunk)

    with data:
        if len(starts) < 2:
            return [remainder(first) for first in starts]
        with ThreadPoolExecutor(min(thread_count(None), len(starts))) as pool:
            return list(pool.map(remainder, starts))


def _read_header(content: mmap.mmap) -> bytes:
    length = int.from_bytes(content[:PREFIX], "little")
    if length > min(len(content) - PREFIX, LONGEST_HEADER):
        raise ValueError("it is not a model file, or was cut short.")
    return content[PREFIX : PREFIX + length]


def _parse(header: bytes) -> dict[str, Any]:
    try:
        entries = json.loads(header.decode(), object_pairs_hook=_without_repeats)
    except (ValueError, RecursionError):
        raise ValueError("it is not a model file, or its header is damaged.") from None
    if not isinstance(entries, dict):
        raise ValueError("it is not a model file: its header is no table.")
    return entries


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        raise ValueError("a name comes twice")
    return table


def _metadata(text: Any) -> Text:
    """The text of a header that is ours, and of a version that we read."""
    if not isinstance(text, dict) or text.get("format") != FORMAT:
        raise ValueError("it holds arrays, but no boundrec model.")
    if not all(isinstance(value, str) for value in text.values()):
        raise ValueError("its header is damaged.")
    version = text.get("format_version", "")
    if version.isdecimal() and version.isascii() and len(version) < 10 and int(version) > VERSION:
        raise ValueError(
            f"its format is version {version}, and this boundrec reads up to {VERSION}: install a newer boundrec."
        )
    checksum = text.get("checksum", "")
    if version != str(VERSION) or len(checksum) != len(BLANK) or not checksum.isascii():
        raise ValueError("its header is damaged.")
    return text


def _arrays(content: mmap.mmap, start: int, entries: dict[str, Any]) -> Arrays:
    """Arrays on the mapped file; together they must cover its data, each byte once."""
    layouts = {name: _layout(name, entry) for name, entry in entries.items()}
    needed = start + max((end for _, _, _, end in layouts.values()), default=0)
    if needed != len(content):
        what = "was cut short" if len(content) < needed else "goes on after its end"
        raise ValueError(f"it {what}: it has {len(content)} bytes and should have {needed}.")
    if start % ALIGNMENT:
        raise ValueError("its header is damaged: the data do not start at a multiple of 64 bytes.")
    arrays, reached = {}, 0
    for name, (dtype, shape, begin, end) in sorted(layouts.items(), key=lambda item: item[1][2:]):
        fits = end - begin == math.prod(shape) * dtype.itemsize and all(size <= len(content) for size in shape)
        if begin != reached or begin % dtype.itemsize or not fits:
            raise ValueError(f"its header is damaged: {name!r} does not lie where it should.")
        arrays[name] = np.ndarray(shape, dtype, buffer=content, offset=start + begin)
        reached = end
    return arrays


def _layout(name: str, entry: Any) -> tuple[np.dtype[Any], tuple[int, ...], int, int]:
    """Type, shape, first byte and end of an array, as the header has them."""
    if isinstance(entry, dict) and entry.keys() == {"dtype", "shape", "data_offsets"}:
        dtype, shape, offsets = DTYPES.get(str(entry["dtype"])), entry["shape"], entry["data_offsets"]
        if dtype is not None and _are_sizes(shape) and _are_sizes(offsets) and len(offsets) == 2 and len(shape) <= 8:
            return dtype, tuple(shape), offsets[0], offsets[1]
    raise ValueError(f"its header is damaged: {name!r} is no array.")


def _are_sizes(values: Any) -> bool:
    return isinstance(values, list) and all(type(value) is int and value >= 0 for value in values)
