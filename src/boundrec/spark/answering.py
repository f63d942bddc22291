"""What a task answers by a model that is sent to it: predictions for rows of a frame, lists for users of a block.

A model that is small travels whole. Of a large one only what is the same for all does; the rows of the users and items
that are asked for come with the data, packed into bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from boundrec.arrays import Codes, Floats
from boundrec.data.ids import IdIndex
from boundrec.data.ratings import Ends, Pairs
from boundrec.models import answers
from boundrec.models.fitted import Fitted
from boundrec.spark.blocks import ARRAYS, read_block
from boundrec.top_n import Seen, top_n

#: What a model knows of each row, beside its magnitude.
OF_ROWS = ("means", "trained", "factors", "biases", "spread", "steadiness")


# --- rows as bytes ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Packing:
    """How all that a model knows of a row of a side, "user" or "item", is packed: names, types and lengths."""

    kind: str
    fields: tuple[tuple[str, str, tuple[int, ...]], ...]

    @classmethod
    def of(cls, fitted: Fitted, kind: str) -> Packing:
        """That of a model."""
        arrays = _arrays(fitted, kind)
        return cls(kind, tuple((name, array.dtype.str, array.shape[1:]) for name, array in arrays.items()))

    def packed(self, fitted: Fitted, rows: Any = slice(None)) -> NDArray[np.uint8]:
        """Rows of a model, a row of bytes for each."""
        parts = [np.ascontiguousarray(array[rows]) for array in _arrays(fitted, self.kind).values()]
        return np.concatenate([part.view(np.uint8).reshape(len(part), -1) for part in parts], axis=1)

    def unpacked(self, fitted: Fitted, content: bytes) -> Fitted:
        """A model with these rows in the place of its own."""
        found: dict[str, Any] = {}
        start = 0
        sizes = [np.dtype(kind).itemsize * int(np.prod(shape)) for _, kind, shape in self.fields]
        table = np.frombuffer(content, np.uint8).reshape(-1, sum(sizes))
        for (name, kind, shape), size in zip(self.fields, sizes, strict=True):
            part = np.ascontiguousarray(table[:, start : start + size]).view(kind)
            found[name] = part.reshape(len(table), *shape)
            start += size
        magnitudes, side = found.pop("magnitude"), replace(fitted.side(self.kind), **found)
        ranges = answers.bounded(fitted).with_magnitudes(self.kind, magnitudes)
        return replace(fitted, ranges=ranges, **{f"{self.kind}s": side})  # type: ignore[arg-type]


def _arrays(fitted: Fitted, kind: str) -> dict[str, Any]:
    side, ranges = fitted.side(kind), answers.bounded(fitted)
    known = {name: getattr(side, name) for name in OF_ROWS if getattr(side, name) is not None}
    return {**known, "magnitude": ranges.user if kind == "user" else ranges.item}


def n_bytes(fitted: Fitted) -> int:
    """Of all rows of a model."""
    return sum(int(array.nbytes) for kind in ("user", "item") for array in _arrays(fitted, kind).values())


def without_rows(fitted: Fitted, *kinds: str) -> Fitted:
    """What is the same for all rows of some sides; ids are not among it."""
    for kind in kinds:
        packing = Packing.of(fitted, kind)
        fitted = packing.unpacked(fitted, b"")
        side = replace(fitted.side(kind), ids=IdIndex(np.empty(0, np.int64)), links=None)
        fitted = replace(fitted, **{f"{kind}s": side})  # type: ignore[arg-type]
    return replace(fitted, seen=Seen.nothing(0), choices=None)


# --- predictions --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Asked:
    """What is predicted for the rows of a frame.

    ``places`` are those of the columns of users and items, of ids or, with ``packings``, of packed rows, which are the
    last two of a batch then and are left out of the answer.
    """

    fitted: Fitted
    places: tuple[int, int]
    ends: tuple[int | None, int] | None
    cold: str
    #: Of the columns of the answer: those that came are known to Spark by others, for it stumbles over dots in names.
    names: tuple[str, ...]
    packings: tuple[Packing, Packing] | None = None

    def answered(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A batch with its predictions."""
        fitted, users, items = self._known(batch)
        pairs = Pairs(users, items, self._ends_of(batch))
        found = [answers.predictions(fitted, pairs)]
        found += [] if self.ends is not None else list(fitted.ranges.interval(pairs))
        deviations = answers.deviations(fitted, pairs)
        found += [] if deviations is None else [deviations]
        unknown = pairs.unknown()
        if self.cold == "nan":
            found[0] = np.where(unknown, np.nan, found[0])
        kept = batch.num_columns - (2 if self.packings else 0)
        columns = [*batch.columns[:kept], *(pa.array(one) for one in found)]
        made = pa.RecordBatch.from_arrays(columns, names=self.names)
        return made.filter(pa.array(~unknown)) if self.cold == "drop" else made

    def _known(self, batch: pa.RecordBatch) -> tuple[Fitted, Codes, Codes]:
        """The model, and the row numbers of both columns; −1 of those that are unknown, or missing."""
        columns, fitted = [batch.column(place) for place in self.places], self.fitted
        if self.packings is None:
            users, items = (
                side.codes(column.to_pylist()) if len(column) else np.empty(0, np.int64)
                for side, column in zip((fitted.users, fitted.items), columns, strict=True)
            )
            return fitted, users, items
        codes = []
        for packing, column in zip(self.packings, columns, strict=True):
            there = column.is_valid().to_numpy(zero_copy_only=False)
            fitted = packing.unpacked(fitted, b"".join(one for one in column.to_pylist() if one is not None))
            codes.append(np.where(there, np.cumsum(there) - 1, -1))
        return fitted, codes[0], codes[1]

    def _ends_of(self, batch: pa.RecordBatch) -> Ends | None:
        if self.ends is None:
            return None
        lower, upper = (np.zeros(batch.num_rows) if at is None else _floats(batch.column(at)) for at in self.ends)
        if not (np.isfinite(lower) & np.isfinite(upper) & (lower <= upper)).all():
            raise ValueError("a range lacks a finite end, or ends below its beginning: mend it, or leave it out")
        return Ends(lower, upper)


def _floats(column: Any) -> Floats:
    return np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False))


# --- lists --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ListsOfBlocks:
    """Lists for the users of a block of theirs, whose rows come packed.

    ``wanted`` are the numbers of the users who are asked for, None for all; ``of_long`` is what those have seen whose
    ratings come in pieces; ``names`` are those of the columns of users and items.
    """

    fitted: Fitted
    packing: Packing
    n: int
    exclude_seen: bool
    wanted: Any
    of_long: dict[int, Any]
    names: tuple[str, str]
    #: Of what kind the ids of users and items are, "string" or "number".
    id_kinds: tuple[str, str]

    def of(self, columns: dict[str, Any], user_ids: Sequence[Any]) -> pa.RecordBatch:
        """The lists of a block's users, or of those who were asked for."""
        fitted, first = self.packing.unpacked(self.fitted, columns["users"]), columns["row"]
        rows = np.arange(first, first + len(fitted.users.trained))
        wanted = np.arange(len(rows)) if self.wanted is None else np.flatnonzero(np.isin(rows, self.wanted))
        items = np.flatnonzero(fitted.items.trained)
        n, seen = min(self.n, len(items)), self._seen(columns, rows) if self.exclude_seen else None
        lists = list(top_n(answers.ranking(fitted, True), wanted, n, items, seen, 1)) if wanted.size else []
        codes = np.concatenate([one.items for one in lists]) if lists else np.empty((0, n), np.int64)
        scores = np.concatenate([one.scores for one in lists]) if lists else np.empty((0, n))
        there = codes >= 0
        best = [arrow_ids(fitted.items.ids.ids[codes[there]].tolist(), self.id_kinds[1]), pa.array(scores[there])]
        entries = pa.StructArray.from_arrays(best, names=[self.names[1], "rating"])
        offsets = np.concatenate([[0], np.cumsum(there.sum(axis=1))]).astype(np.int32)
        recommended = pa.ListArray.from_arrays(pa.array(offsets), entries)
        users = arrow_ids([user_ids[place] for place in wanted.tolist()], self.id_kinds[0])
        return pa.RecordBatch.from_arrays([users, recommended], names=[self.names[0], "recommendations"])

    def _seen(self, columns: dict[str, Any], rows: Any) -> Seen:
        seen = Seen.nothing(len(rows))
        if columns["indptr"] is not None:  # a block of nobody but rows in pieces has none
            block = read_block({**columns, **{name: columns[name] or b"" for name in ARRAYS}, "piece": 0, "first": 0})
            seen = Seen(block.csr.indptr, block.needed[block.csr.indices].astype(np.int32))
        for row in set(self.of_long) & set(rows.tolist()):
            items = self.of_long[row]
            users = np.full(items.size, row - rows[0])
            seen = seen.with_pairs(users, items, (len(rows), len(self.fitted.items.ids)))
        return seen


def arrow_ids(ids: Sequence[Any], kind: str) -> pa.Array:
    """Ids of a kind, "string" or "number", as Spark takes them."""
    return pa.array(ids, pa.string() if kind == "string" else pa.int64())
