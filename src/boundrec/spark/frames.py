"""From a data frame of Spark's to blocks of rows: columns are checked, ids numbered, ratings put into blocks.

Everything that is wrong with a frame is found by the driver, in two passes of plain aggregates, and said in a sentence;
only then are tasks started. Ids are numbered by a hash of theirs, so that people who came early, and have rated more,
are not all in the first block; the driver holds the numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql import types as kinds

from boundrec.arrays import Floats
from boundrec.data.columns import short
from boundrec.data.ids import IdIndex, id_array
from boundrec.data.ratings import LARGEST, Ends
from boundrec.ranges.scale import Bounds
from boundrec.spark.blocks import Centring, Layout, make_block
from boundrec.spark.errors import in_a_sentence

ID_TYPES = (kinds.StringType, kinds.ByteType, kinds.ShortType, kinds.IntegerType, kinds.LongType)
#: Ratings of a block, and the least number of blocks a side is cut into, so that there is something to share.
BLOCK_RATINGS, LEAST_BLOCKS = 1_000_000, 8
#: A row with more ratings comes in pieces of at most so many.
LONG_ROW = 2_000_000
BLOCK_COLUMNS = (
    "b int, piece int, first long, indptr binary, needed binary, indices binary, data binary, weights binary, "
    "n long, n_counting long, weight double, total double, squares double, row_weights binary, row_totals binary, "
    "n_twins long, twin_row long, twin_column long"
)
#: Those of them that the driver looks at.
TOLD = (
    *("b", "piece", "first", "n", "n_counting", "weight", "total", "squares"),
    *("row_weights", "row_totals", "n_twins", "twin_row", "twin_column"),
)


@dataclass(frozen=True)
class Columns:
    """Which column of a frame is what; the last two only where pairs have ranges of their own."""

    user: str
    item: str
    rating: str
    lower: str | None = None
    upper: str | None = None

    @property
    def ranged(self) -> bool:
        """Whether pairs have ranges of their own."""
        return self.upper is not None


# --- columns ------------------------------------------------------------------------------------------------------


def check_id_columns(df: DataFrame, columns: Sequence[tuple[str, str]]) -> None:
    """Refuse a frame without columns of ids, by (name of the parameter, name of the column)."""
    for parameter, name in columns:
        kind = _type_of(df, parameter, name)
        if not isinstance(kind, ID_TYPES):
            raise TypeError(
                f"{parameter}={name!r} has the type {kind.simpleString()}, but ids are strings or whole numbers: cast "
                f"it, as in df.withColumn({name!r}, df[{name!r}].cast('string'))."
            )


def check_number_columns(df: DataFrame, columns: Sequence[tuple[str, str]]) -> None:
    """Refuse a frame without columns of numbers."""
    for parameter, name in columns:
        kind = _type_of(df, parameter, name)
        if not isinstance(kind, (kinds.NumericType, kinds.BooleanType)):
            raise TypeError(
                f"{parameter}={name!r} has the type {kind.simpleString()}, but numbers are wanted: cast it, as in "
                f"df.withColumn({name!r}, df[{name!r}].cast('double'))."
            )


def _type_of(df: DataFrame, parameter: str, name: str) -> Any:
    found = [field.dataType for field in df.schema.fields if field.name == name]
    if not found:
        raise ValueError(
            f"{parameter}={name!r}: the frame has no such column, only {', '.join(map(repr, df.columns))}; "
            f"name the right one with {parameter}."
        )
    if len(found) > 1:
        raise ValueError(f"{parameter}={name!r}: the frame has {len(found)} columns of that name; rename one of them.")
    return found[0]


def check_frame(df: Any) -> None:
    """Refuse what is no frame of Spark's."""
    if not hasattr(df, "sparkSession"):
        raise TypeError(f"a data frame of Spark's is wanted, not a {type(df).__name__}: see spark.createDataFrame.")


def plain(df: DataFrame, columns: Columns) -> DataFrame:
    """The columns that matter, under plain names, numbers as double."""
    check_frame(df)
    if columns.user == columns.item:
        raise ValueError(f"userCol and itemCol both name {columns.user!r}: give each its own column.")
    check_id_columns(df, [("userCol", columns.user), ("itemCol", columns.item)])
    numbers = [("ratingCol", columns.rating)]
    if columns.lower is not None:
        numbers.append(("lowerCol", columns.lower))
    if columns.upper is not None:
        numbers.append(("upperCol", columns.upper))
    check_number_columns(df, numbers)
    chosen = {"user": column_of(columns.user), "item": column_of(columns.item)}
    chosen["rating"] = column_of(columns.rating).cast("double")
    if columns.ranged:
        chosen["lower"] = (fn.lit(0.0) if columns.lower is None else column_of(columns.lower)).cast("double")
        chosen["upper"] = column_of(columns.upper or "").cast("double")
    return df.select(*(column.alias(name) for name, column in chosen.items()))


def column_of(name: str) -> Any:
    """A column by its name, whatever signs are in it."""
    return fn.col("`" + name.replace("`", "``") + "`")


# --- values -------------------------------------------------------------------------------------------------------


class Summary(NamedTuple):
    """What is known of all ratings together: their number, ends, mean and standard deviation."""

    n: int
    least: float
    most: float
    mean: float
    spread: float


def summary(table: DataFrame, bounds: Bounds) -> Summary:
    """Refuse values that are not to be learnt from; returns what is known of the others."""
    rating, low, high = fn.col("rating"), bounds[0], bounds[1]
    flaws = {
        "have no user id": fn.col("user").isNull(),
        "have no item id": fn.col("item").isNull(),
        "have no rating": rating.isNull(),
        "have a rating that is not a finite number": fn.isnan(rating) | (fn.abs(rating) == float("inf")),
        "have a rating too large to be squared": fn.abs(rating) > LARGEST,
    }
    if low is not None or high is not None:
        outside = fn.lit(False)
        outside = outside if low is None else outside | (rating < low)
        outside = outside if high is None else outside | (rating > high)
        flaws[f"lie outside bounds={_pair(bounds)}"] = outside
    if "upper" in table.columns:
        lower, upper = fn.col("lower"), fn.col("upper")
        finite = (fn.abs(lower) <= LARGEST) & (fn.abs(upper) <= LARGEST)
        flaws["have a range without two finite ends"] = ~fn.coalesce(finite, fn.lit(False))
        flaws["have a range that ends below where it begins"] = lower > upper
    counts = [fn.count_if(fn.coalesce(flaw, fn.lit(False))).alias(f"flaw{k}") for k, flaw in enumerate(flaws.values())]
    told = [fn.count(fn.lit(1)), fn.min(rating), fn.max(rating), fn.avg(rating), fn.stddev_pop(rating)]
    with in_a_sentence():
        found = table.agg(*counts, *(one.alias(f"told{k}") for k, one in enumerate(told))).first()
    assert found is not None
    n = found["told0"]
    if n == 0:
        raise ValueError("the frame has no rows: give at least one rating.")
    for k, (words, flaw) in enumerate(flaws.items()):
        if found[f"flaw{k}"]:
            raise ValueError(f"{found[f'flaw{k}']:,} of {n:,} rows {words} {_first(table, flaw)}.")
    return Summary(n, *(float(found[f"told{k}"]) for k in range(1, 5)))


def _first(table: DataFrame, flaw: Any) -> str:
    """One of the rows with a flaw, in brackets, and what to do about it."""
    with in_a_sentence():
        row = table.where(flaw).first()
    assert row is not None
    ends = f" in [{row['lower']}, {row['upper']}]" if "upper" in table.columns else ""
    return (
        f"(one of them: user {row['user']!r}, item {row['item']!r}: {row['rating']}{ends}): leave them out with "
        "df.where(…), or mend them"
    )


def _pair(bounds: Bounds) -> str:
    return f"({', '.join('None' if end is None else f'{end:g}' for end in bounds)})"


class Widths(NamedTuple):
    """Half-widths of the ranges that have room: how many, the least, the largest, the root mean square."""

    n: int
    least: float
    largest: float
    root_mean_square: float


def half_width() -> Any:
    """d of each row."""
    return fn.col("upper") / 2 - fn.col("lower") / 2


def widths(table: DataFrame) -> Widths:
    """What is known of the ranges of all ratings together."""
    d = fn.when(half_width() > 0, half_width())
    with in_a_sentence():
        found = table.agg(fn.count(d), fn.min(d), fn.max(d), fn.sqrt(fn.avg(d * d))).first()
    assert found is not None
    if not found[0]:
        raise ValueError("every range has a width of zero, so there is nothing to learn: give ranges with room.")
    return Widths(int(found[0]), *(float(one) for one in tuple(found)[1:]))


# --- ids ----------------------------------------------------------------------------------------------------------


def number_ids(table: DataFrame, kind: str) -> tuple[IdIndex, DataFrame]:
    """The ids of a side in the order of their numbers, and a table of both."""
    with in_a_sentence():
        ids = table.select(fn.col(kind).alias("id")).distinct().orderBy(fn.xxhash64("id"), "id").toArrow()["id"]
    numbers = pa.array(np.arange(len(ids), dtype=np.int64))
    numbered = session_of(table).createDataFrame(pa.table({kind: ids, f"{kind}_number": numbers}))
    return IdIndex(id_array(ids.to_pylist())), numbered


def session_of(df: DataFrame) -> SparkSession:
    """The session that a frame belongs to."""
    return df.sparkSession


# --- blocks -------------------------------------------------------------------------------------------------------


@dataclass
class BlockTable:
    """The blocks of a side, on the executors; and what the driver knows of them."""

    frame: DataFrame
    layout: Layout
    #: The number and the piece of each; a block of nobody but rows in pieces is not there.
    keys: list[tuple[int, int]]
    n: int
    n_counting: int
    weight: float
    total: float
    squares: float
    row_weights: Floats
    row_totals: Floats
    #: The row and the column of a pair that comes more than once, and how many such there are.
    twins: tuple[int, int, int] = (0, 0, 0)

    def release(self) -> None:
        """Give the executors' memory back."""
        self.frame.unpersist()


def layout_of(numbered: DataFrame, kind: str, n_rows: int, n_ratings: int) -> Layout:
    """How a side is cut into blocks: by the number of its rows and ratings alone."""
    n_blocks = int(np.clip(-(-n_ratings // BLOCK_RATINGS), min(LEAST_BLOCKS, n_rows), n_rows))
    if n_ratings <= LONG_ROW:
        return Layout(n_rows, n_blocks)
    counts = numbered.groupBy(f"{kind}_number").count().where(fn.col("count") > LONG_ROW)
    with in_a_sentence():
        long = sorted(tuple(row) for row in counts.collect())
    return Layout(n_rows, n_blocks, tuple(row for row, _ in long), tuple(-(-n // LONG_ROW) for _, n in long))


def make_blocks(
    numbered: DataFrame, kind: str, layout: Layout, centring: Centring, n_partitions: int | None, mean_of_twins: bool
) -> BlockTable:
    """Put the ratings of a side into blocks, and keep these where the executors are."""
    row, column = (fn.col(f"{one}_number") for one in (kind, "item" if kind == "user" else "user"))
    # edges are rounded down, so that ⌊kN/B⌋ ≤ row is k ≤ ⌊((row + 1)B − 1)/N⌋
    block = fn.floor(((row + 1) * layout.n_blocks - 1) / layout.n_rows)
    piece = fn.lit(0)
    if layout.long:  # as a table: there may be thousands
        numbered = numbered.join(fn.broadcast(_long_rows(session_of(numbered), kind, layout)), f"{kind}_number", "left")
        whole, apart = fn.col("own_block").isNull(), 1 + fn.pmod(fn.xxhash64(column), fn.col("n_pieces"))
        block, piece = fn.when(whole, block).otherwise(fn.col("own_block")), fn.when(whole, piece).otherwise(apart)
    ends = [fn.col(name) for name in ("lower", "upper") if name in numbered.columns]
    entries = numbered.select(
        block.cast("int").alias("b"),
        piece.cast("int").alias("piece"),
        row.alias("row"),
        column.alias("column"),
        fn.col("rating"),
        *ends,
    )
    n_partitions = n_partitions or min(layout.n_blocks + len(layout.long), 2000)

    def of_group(table: pa.Table) -> pa.Table:
        return _block_of(table, layout, centring, mean_of_twins)

    made = entries.repartition(n_partitions, "b", "piece").groupBy("b", "piece").applyInArrow(of_group, BLOCK_COLUMNS)
    frame = made.repartition(n_partitions, "b", "piece").persist()
    return _told(frame, layout)


def _long_rows(session: SparkSession, kind: str, layout: Layout) -> DataFrame:
    """The rows that come in pieces: the block of each, and how many pieces it has."""
    blocks = layout.n_blocks + np.arange(len(layout.long), dtype=np.int64)
    columns = {f"{kind}_number": layout.long, "own_block": blocks, "n_pieces": layout.n_pieces}
    return session.createDataFrame(pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()}))


def _block_of(table: pa.Table, layout: Layout, centring: Centring, mean_of_twins: bool) -> pa.Table:
    """One block, in an executor."""
    arrays = {name: table[name].to_numpy() for name in table.column_names}
    number, piece = int(arrays["b"][0]), int(arrays["piece"][0])
    ends = Ends(arrays["lower"], arrays["upper"]) if "upper" in arrays else None
    values, weights = centring(arrays["rating"], ends)
    entries = arrays["row"], arrays["column"], values, weights
    return as_table([make_block(number, piece, layout.rows(number), entries, mean_of_twins)], BLOCK_COLUMNS)


def _told(frame: DataFrame, layout: Layout) -> BlockTable:
    """What the driver is told of the blocks, in the order of their numbers."""
    with in_a_sentence():
        rows = frame.select(*TOLD).toArrow().to_pylist()
    rows.sort(key=lambda one: (one["b"], one["piece"]))
    weights, totals = np.zeros(layout.n_rows), np.zeros(layout.n_rows)
    for one in rows:
        where = layout.rows(one["b"])
        weights[where] += np.frombuffer(one["row_weights"])
        totals[where] += np.frombuffer(one["row_totals"])
    sums = {name: sum(one[name] for one in rows) for name in ("n", "n_counting", "weight", "total", "squares")}
    twice = [one for one in rows if one["n_twins"]]
    keys = [(one["b"], one["piece"]) for one in rows]
    table = BlockTable(frame, layout, keys, **sums, row_weights=weights, row_totals=totals)
    if twice:
        table.twins = twice[0]["twin_row"], twice[0]["twin_column"], sum(one["n_twins"] for one in twice)
    return table


ARROW_TYPES = {
    "int": pa.int32(),
    "long": pa.int64(),
    "double": pa.float64(),
    "binary": pa.binary(),
}


def as_batch(rows: Sequence[dict[str, Any]], columns: str) -> pa.RecordBatch:
    """Rows as a batch of Arrow's, with columns as Spark declares them."""
    declared = dict(one.split() for one in columns.split(", "))
    schema = pa.schema([(name, ARROW_TYPES[kind]) for name, kind in declared.items()])
    return pa.RecordBatch.from_pylist(list(rows), schema)


def as_table(rows: Sequence[dict[str, Any]], columns: str) -> pa.Table:
    """The same as a table."""
    return pa.Table.from_batches([as_batch(rows, columns)])


def refuse_twins(blocks: BlockTable, users: IdIndex, items: IdIndex) -> None:
    """Refuse pairs that come more than once."""
    user, item, n = blocks.twins
    if n:
        raise ValueError(
            f"{n:,} of {blocks.n:,} rows repeat a pair that was there before (one of them: user "
            f"{short(users.ids.item(user))}, item {short(items.ids.item(item))}): pass duplicates='mean', or drop them "
            "with df.dropDuplicates([…])."
        )
