"""Half-steps on a cluster: the driver holds both sides' rows, the executors the ratings, and blocks go by the data.

A half-step is one job. In mode "whole" both sides travel with it to every task; in mode "blocks" each task gets the
rows that its block needs and no others, by a table that is joined with what is needed where. Either way rows come back
to the driver, so that nothing is built on what was before: no lineage grows, and old rows are gone when new ones are
there. Whatever becomes of an executor, a task that is run again gives the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from boundrec.arrays import Reals
from boundrec.solvers import Learned, Side, Sweep
from boundrec.solvers.exact import HELD_BY_USERS, Constraint
from boundrec.solvers.gibbs import Draws, Prior
from boundrec.spark.blocks import (
    Draw,
    Found,
    Solve,
    Task,
    Whole,
    do_block,
    needs,
    read_block,
    read_found,
    row_of_pieces,
)
from boundrec.spark.errors import in_a_sentence
from boundrec.spark.frames import ARROW_TYPES, BlockTable, as_batch, as_table

Mode = Literal["auto", "whole", "blocks"]
#: Bytes of both sides' rows up to which "auto" sends them whole: Spark Connect takes no message above 128 MB.
WHOLE_BYTES = 100_000_000
NEED_COLUMNS = "b int, piece int, f int, places binary"
SENT_COLUMNS = "b int, piece int, f int, rows binary"
FOUND_COLUMNS = "b int, piece int, rows binary, means binary, spread binary, sums binary"
OTHER = {"user": "item", "item": "user"}


class Cluster:
    """Does half-steps over the blocks of both sides.

    Parameters
    ----------
    blocks
        Those of each side, "user" and "item".
    mode
        How the rows of the other side reach a task.
    """

    def __init__(self, blocks: dict[str, BlockTable], mode: Mode, n_columns: int) -> None:
        self._blocks = blocks
        n_rows = sum(table.layout.n_rows for table in blocks.values())
        self.mode = mode if mode != "auto" else "whole" if 8 * n_rows * n_columns <= WHOLE_BYTES else "blocks"
        self._needs = {kind: self._needed(kind) for kind in blocks} if self.mode == "blocks" else {}
        #: Σ n_i |w_i|² of each side, and the squared error, as of the last half-steps.
        self.sizes, self.error = {"user": 0.0, "item": 0.0}, 0.0

    def release(self) -> None:
        """Give the executors' memory back."""
        for frame in self._needs.values():
            frame.unpersist()
        for table in self._blocks.values():
            table.release()

    def half_step(self, kind: str, task: Task, own: Reals, fixed: Reals) -> Found:
        """What a task makes of every row of a side."""
        run = self._whole if self.mode == "whole" else self._in_blocks
        with in_a_sentence():
            results = run(kind, task, own, fixed).toArrow()
        layout, width = self._blocks[kind].layout, own.shape[1]
        rows, sums, pieces = own.copy(), [], dict[int, list[tuple[int, Any]]]()
        means = np.zeros_like(own) if isinstance(task, Draw) and task.with_means else own[:0]
        spread = np.zeros((len(means), 2))
        ordered = sorted(results.to_pylist(), key=lambda one: (one["b"], one["piece"]))
        for one in ordered:
            if one["piece"]:
                pieces.setdefault(one["b"], []).append((one["piece"], np.frombuffer(one["sums"])))
            else:
                _put(layout.rows(one["b"]), read_found(one, width), rows, means, spread)
                sums.append(np.frombuffer(one["sums"]))
        for block, parts in pieces.items():  # after all others: a long row has a place among its neighbours, too
            where = layout.rows(block)
            found = row_of_pieces(task, where.start, own[where], np.sum([part for _, part in parts], axis=0))
            _put(where, found, rows, means, spread)
            sums.append(found.sums)
        error, self.sizes[kind] = np.sum(sums, axis=0)
        self.error = float(error)
        return Found(rows, means, spread, np.empty(0))

    # --- the two ways -------------------------------------------------------------------------------------------

    def _whole(self, kind: str, task: Task, own: Reals, fixed: Reals) -> DataFrame:
        work = Whole(task, own, fixed)

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for result in work.results(iter(batch.to_pylist())):
                    yield as_batch([result], FOUND_COLUMNS)

        return self._blocks[kind].frame.mapInArrow(run, FOUND_COLUMNS)

    def _in_blocks(self, kind: str, task: Task, own: Reals, fixed: Reals) -> DataFrame:
        blocks, layout, others = self._blocks[kind].frame, self._blocks[kind].layout, self._blocks[OTHER[kind]].layout
        sent = [{"f": f, "rows": fixed[others.rows(f)].tobytes()} for f in range(others.n_blocks)]
        known = [
            {"b": b, "piece": piece, "f": -1, "rows": own[layout.rows(b)].tobytes()}
            for b, piece in self._blocks[kind].keys
        ]
        width = own.shape[1]

        def pick(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for one in batch.to_pylist():
                    rows = np.frombuffer(one["rows"]).reshape(-1, width)
                    places = np.frombuffer(one["places"], np.int64)
                    key = {name: one[name] for name in ("b", "piece", "f")}
                    yield as_batch([{**key, "rows": rows[places].tobytes()}], SENT_COLUMNS)

        def run(sent: pa.Table, block: pa.Table) -> pa.Table:
            """Own rows come first, as f = −1; the others in the order of their blocks, which is that of ``needed``."""
            rows = {one["f"]: np.frombuffer(one["rows"]).reshape(-1, width) for one in sent.to_pylist()}
            present = rows.pop(-1)
            there = np.concatenate([rows[f] for f in sorted(rows)]) if rows else np.empty((0, width))
            found = [do_block(task, read_block(one), present, there) for one in block.to_pylist()]
            return as_table(found, FOUND_COLUMNS)

        session = blocks.sparkSession
        fixed_rows = session.createDataFrame(_table(sent, "f int, rows binary"))
        own_rows = session.createDataFrame(_table(known, SENT_COLUMNS))
        messages = self._needs[kind].join(fixed_rows, "f").mapInArrow(pick, SENT_COLUMNS).unionByName(own_rows)
        together = messages.groupBy("b", "piece").cogroup(blocks.groupBy("b", "piece"))
        return together.applyInArrow(run, FOUND_COLUMNS)

    def _needed(self, kind: str) -> DataFrame:
        """Which blocks need which rows of the other side's: found once, and kept by the executors."""
        others = self._blocks[OTHER[kind]].layout

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for columns in batch.to_pylist():
                    yield as_batch(list(needs(read_block(columns), others)), NEED_COLUMNS)

        return self._blocks[kind].frame.mapInArrow(run, NEED_COLUMNS).persist()


def _put(where: slice, found: Found, rows: Reals, means: Reals, spread: Reals) -> None:
    rows[where] = found.rows
    if len(means):
        means[where], spread[where] = found.means, found.spread


def _table(rows: list[dict[str, Any]], columns: str) -> pa.Table:
    """Rows as a table whose bytes may be more than Arrow's short offsets reach."""
    declared = dict(one.split() for one in columns.split(", "))
    kinds = {**ARROW_TYPES, "binary": pa.large_binary()}
    return pa.Table.from_pylist(rows, pa.schema([(name, kinds[kind]) for name, kind in declared.items()]))


# --- solvers over it ------------------------------------------------------------------------------------------------


class ClusterAlternation:
    """Exact alternation, as `boundrec.solvers.exact.Alternation`, with its half-steps on a cluster."""

    def __init__(self, users: Side, items: Side, cluster: Cluster, constraint: Constraint, ridge: float) -> None:
        self.users, self.items = users, items
        self._cluster, self._constraint, self._ridge = cluster, constraint, ridge

    def sweeps(self) -> Iterator[Sweep]:
        """The objective after each sweep."""
        users, items, sizes = self.users, self.items, self._cluster.sizes
        while True:
            items.factors = self._solved("item", items, users)
            users.factors = self._solved("user", users, items)
            yield Sweep(self._cluster.error + self._ridge * (sizes["user"] + sizes["item"]))

    def _solved(self, kind: str, side: Side, other: Side) -> Reals:
        task = Solve(self._constraint, self._ridge, float(side.radius[0]), side.held)
        return self._cluster.half_step(kind, task, side.factors, other.factors).rows

    def result(self) -> Learned:
        """The factors of both sides."""
        return Learned(self.users.factors, self.items.factors)


class ClusterDraws:
    """Draws of rows on a cluster, for a `Sampler`."""

    def __init__(self, cluster: Cluster, counted: float) -> None:
        self._cluster, self.counted = cluster, counted

    def draw(self, key: np.uint64, side: Side, other: Side, prior: Prior, precision: float, with_means: bool) -> Draws:
        """What `draw_rows_from` gives."""
        assert side.held is not None
        task = Draw(int(key), prior, precision, with_means, float(side.radius[0]), side.held)
        kind = "user" if side.held == HELD_BY_USERS else "item"
        found = self._cluster.half_step(kind, task, side.factors, other.factors)
        return Draws(found.rows, prior, found.means, found.spread)

    def squared_error(self, users: Side, items: Side) -> float:
        """That of the users' draws, which come last."""
        return self._cluster.error
