"""Text tables line by line: what polars passes over in silence, and where in a file a row is.

A text is looked at in blocks of whole lines. A glance tells that a block is as it should be, and only where it does
not are the lines looked at one by one: a million rows take some hundredths of a second.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterable, Iterator
from mmap import mmap
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Text = bytes | mmap

#: Bytes looked at together.
BLOCK = 1 << 20
QUOTE = ord('"')
#: In JSON: an escaped letter, behind which a key may hide, and half of a surrogate pair without the other half.
ESCAPED = re.compile(
    rb"\\u(?:00[2-7]|[dD][89abAB]..(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB]..\\u)[dD][c-fC-F]|(?<=\\\\u))"
)


# --- CSV and TSV --------------------------------------------------------------------------------------------


class Row(NamedTuple):
    """One row of a CSV file: the line it begins in, its fields, and the place in the text where it ends."""

    line: int
    fields: list[bytes]
    end: int
    is_blank: bool  # there is nothing but a line end
    is_closed: bool  # every quote that opens a field has another that closes it


def rows(text: Text, separator: str, start: int = 0) -> Iterator[Row]:
    """Every row from a place on, as polars sees them: a quote opens a field only where the field begins."""
    mark = separator.encode()
    field = re.compile(rb'("[^"]*(?:""[^"]*)*("?))?([^%b\n]*)(%b|\n|\Z)' % (re.escape(mark), re.escape(mark)))
    line, row_start = 1, start
    fields: list[bytes] = []
    is_closed = True
    for found in field.finditer(text, start):
        if found.start() == len(text) and not fields:
            return
        quoted, quote, plain, end = found.groups()
        fields.append(quoted[1:].removesuffix(quote).replace(b'""', b'"') + plain if quoted else plain)
        is_closed = is_closed and (not quoted or bool(quote))
        if end != mark:
            raw = text[row_start : found.end()]
            yield Row(line, fields, found.end(), not raw.strip(b"\r\n"), is_closed)
            line, row_start = line + raw.count(b"\n"), found.end()
            fields, is_closed = [], True


def uneven_row(text: Text, separator: str, width: int) -> str | None:
    """What is wrong with the first row that has more or fewer fields than there are columns; blank lines are none."""
    at = 0
    while at < len(text):
        end = text.rfind(b"\n", at, at + BLOCK) + 1
        if end and _is_even(text[at:end], separator.encode(), width):
            at = end
            continue
        start = at
        for row in rows(text, separator, start):
            if not row.is_blank and (len(row.fields) != width or not row.is_closed):
                above = text[:start].count(b"\n")
                return f"line {above + row.line} {_unevenness(row, width)}"
            at = row.end
            if at >= end:
                break
    return None


def _is_even(block: bytes, separator: bytes, width: int) -> bool:
    """Whether whole lines surely have so many fields each: only their separators, quotes and line ends are compared."""
    marks = block.translate(None, bytes(set(range(256)) - set(separator + b'"\n')))
    if b'"' in marks:
        if not _quotes_are_around_fields(np.frombuffer(block, np.uint8), separator):
            return False
        signs = np.frombuffer(marks, np.uint8)
        is_quote = signs == QUOTE
        is_inside = np.cumsum(is_quote, dtype=np.uint8) % 2 == 1
        marks = signs[~(is_quote | is_inside)].tobytes()
    return marks == (separator * (width - 1) + b"\n") * (len(marks) // width)


def _quotes_are_around_fields(signs: NDArray[np.uint8], separator: bytes) -> bool:
    """Whether every quote opens or closes a field, or is one of two that stand for one, and none is left open."""
    quotes = np.flatnonzero(signs == QUOTE)
    if quotes.size % 2:
        return False
    opening, closing = quotes[::2], quotes[1::2]
    around = np.zeros(256, bool)
    around[[*separator, *b'"\r\n']] = True
    return bool(around[signs[opening[opening > 0] - 1]].all() and around[signs[closing + 1]].all())


def _unevenness(row: Row, width: int) -> str:
    if not row.is_closed:
        return "opens a quote that is never closed."
    fields = "1 field" if len(row.fields) == 1 else f"{len(row.fields)} fields"
    columns = "is 1 column" if width == 1 else f"are {width} columns"
    return f"has {fields}, but there {columns}."


# --- NDJSON -------------------------------------------------------------------------------------------------


def odd_object(text: Text, names: Collection[str], every_line: bool) -> str | None:
    """What is wrong with the first line that is no object, or has not just one plain value for each of the names.

    Lists and objects as values are seen only where every line is looked at: polars tells quicker whether there may be
    any, for it reads them as text that begins with a bracket.
    """
    keys = [json.dumps(name, ensure_ascii=False).encode(errors="surrogatepass") for name in names]
    at = above = 0
    while at < len(text):
        end = text.find(b"\n", at + BLOCK) + 1 or len(text)
        block = text[at:end]
        n_lines = block.removesuffix(b"\n").count(b"\n") + 1
        is_plain = all(block.count(key) == n_lines for key in keys) and not (b"\\u" in block and ESCAPED.search(block))
        if every_line or not is_plain:
            for number, line in enumerate(block.split(b"\n"), start=above + 1):
                wrong = _oddness(line, names) if line.strip() else None
                if wrong:
                    return f"line {number} {wrong}"
        at, above = end, above + n_lines
    return None


def unreadable_object(lines: Iterable[bytes]) -> str | None:
    """What is wrong with the first line that polars cannot read, whatever names are asked for."""
    wrong = ((number, _oddness(line, None)) for number, line in enumerate(lines, start=1) if line.strip())
    return next((f"line {number} {what}" for number, what in wrong if what), None)


def _oddness(line: bytes, names: Collection[str] | None) -> str | None:
    try:
        pairs = json.loads(line.decode("utf-8-sig"), object_pairs_hook=tuple, parse_constant=_refuse)
    except UnicodeDecodeError as error:
        return f"is not UTF-8 text ({line[error.start : error.start + 1]!r}): save it as UTF-8."
    except RecursionError:
        return "is nested too deeply: leave out what is no rating."
    except ValueError:
        pairs = None
    if not isinstance(pairs, tuple):
        return "is not a JSON object."
    keys = [key for key, _ in pairs]
    for key, value in pairs:
        if isinstance(value, float) and not math.isfinite(value):
            return f"has a number too large to be read in {key!r}: correct it."
        if names is not None and key not in names:
            continue
        if names is not None and keys.count(key) > 1:
            return f"has the key {key!r} more than once: give it once."
        if names is not None and isinstance(value, list | tuple):
            return f"has {'a list' if isinstance(value, list) else 'an object'} as {key!r}: give text or a number."
        if not _can_be_encoded(value):
            return f"has half a character (a lone surrogate) in {key!r}: correct it."
    return None


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def _can_be_encoded(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True
