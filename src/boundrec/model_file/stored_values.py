"""Plain values in JSON's terms, and ids that a file holds as text."""

from __future__ import annotations

import json
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boundrec.data.columns import is_missing, short
from boundrec.data.ids import IdIndex

#: Bits of the longest integer: Python by itself reads no text of more than 4300 digits.
LONGEST = 14_000


def encode(value: Any) -> Any:
    """A plain value in JSON's terms; what JSON has no word for is a table with one entry, its kind."""
    kind = type(value)
    if isinstance(value, np.number | np.bool_ | np.str_ | np.bytes_) and not isinstance(value, np.timedelta64):
        return encode(value.item())
    if value is None or kind is bool or (kind is float and np.isfinite(value)):
        return value
    if kind is int and value.bit_length() <= LONGEST:
        return value
    if kind is float:
        return {"float": repr(value)}
    if kind is str:  # JSON would join two halves of a surrogate pair
        return value if _is_unicode(value) else {"text": value.encode("utf-8", "surrogatepass").hex()}
    if kind is bytes:
        return {"bytes": value.hex()}
    if kind is list or kind is np.ndarray:
        return [encode(one) for one in value]
    if kind is tuple:
        return {"tuple": [encode(one) for one in value]}
    raise TypeError(f"{short(value)} is a {kind.__name__}, which files do not hold.")


def decode(stored: Any) -> Any:
    """The plain value behind what `encode` made of it."""
    if isinstance(stored, list):
        return [decode(one) for one in stored]
    if not isinstance(stored, dict):
        return stored
    ((kind, content),) = stored.items()
    if kind == "float":
        return float(content)
    if kind == "text":
        return bytes.fromhex(content).decode("utf-8", "surrogatepass")
    if kind == "bytes":
        return bytes.fromhex(content)
    if kind == "tuple":
        return tuple(decode(content))
    raise ValueError(f"there is no kind {kind!r}.")


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class TextIds(IdIndex):
    """Ids that a file holds as text; they are read when somebody first asks for one."""

    def __init__(self, text: NDArray[np.uint8], starts: NDArray[np.int64], plain: bool, source: str) -> None:
        self._text, self._starts, self._plain, self._source = text, starts, plain, source

    @cached_property
    def ids(self) -> NDArray[Any]:  # type: ignore[override]
        """The ids, row by row."""
        content, starts = self._text.tobytes(), self._starts.tolist()
        pieces = (content[first:end] for first, end in pairwise(starts))
        try:
            texts = (str(piece, "utf-8", "surrogatepass") for piece in pieces)
            values = texts if self._plain else map(_read_id, texts)
            ids = np.fromiter(values, object, len(self))
        except (ValueError, TypeError, OverflowError, RecursionError):
            raise ValueError(f"{self._source} is damaged: an id cannot be read.") from None
        if len(set(ids.tolist())) < len(self):
            raise ValueError(f"{self._source} is damaged: an id comes twice.")
        return ids

    def __len__(self) -> int:
        return self._starts.size - 1


def _read_id(text: str) -> Any:
    one = decode(json.loads(text))
    hash(one)  # a list is no id
    if is_missing(one):
        raise ValueError("this is nobody")
    return one
