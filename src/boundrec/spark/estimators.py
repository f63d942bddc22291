"""`SparkMBMF` and `SparkBayesianMBMF`: estimators and models of ``pyspark.ml`` over boundrec's own.

A model here is one of boundrec's, and a table of who has rated what, which stays on the cluster. Predictions are those
of the former, made by tasks; lists leave out what the latter says was seen.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
from pyspark.ml import Estimator, Model
from pyspark.ml.util import (
    DefaultParamsReadable,
    DefaultParamsReader,
    DefaultParamsWritable,
    DefaultParamsWriter,
    MLReadable,
    MLReader,
    MLWritable,
    MLWriter,
)
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as kinds

from boundrec import model_file
from boundrec.data.columns import short
from boundrec.models.bayesian import BayesianMBMF
from boundrec.models.fitted import Fitted
from boundrec.models.mbmf import MBMF
from boundrec.spark.answering import Asked, ListsOfBlocks, Packing, arrow_ids, n_bytes, without_rows
from boundrec.spark.blocks import Layout, read_block
from boundrec.spark.engine import WHOLE_BYTES
from boundrec.spark.errors import errors_of_spark, in_a_sentence
from boundrec.spark.fitting import Request, fit
from boundrec.spark.frames import BlockTable, Columns, check_frame, check_id_columns, check_number_columns, column_of
from boundrec.spark.params import (
    OF_MODELS,
    OWN,
    check_value,
    in_spark_words,
    refuse,
    settings_of,
    spark_name,
    with_settings,
)
from boundrec.top_n import Seen

#: Bytes of a model in one row of its table.
PART = 1 << 26
#: Partitions, or sweeps between checkpoints, at most.
MOST = 100_000
#: Of a model without users.
NOBODY = Layout(0, 1)
#: What a table of who has seen what holds of the users' blocks.
SEEN_COLUMNS = ("b", "piece", "first", "indptr", "needed", "indices", "data", "weights")


class SparkEstimator(Estimator[Any], DefaultParamsReadable[Any], DefaultParamsWritable):
    """What both estimators share."""

    LOCAL: ClassVar[Any]
    DEFAULTS: ClassVar[dict[str, Any]]
    MODEL: ClassVar[Any]

    def __init__(self, **params: Any) -> None:
        super().__init__()
        self._setDefault(**self.DEFAULTS)
        self.setParams(**params)

    def setParams(self, **params: Any) -> Self:  # noqa: N802  as Spark has it
        """Set parameters by their names; what does not run on a cluster is refused by name."""
        refuse(type(self).__name__, self.LOCAL, params)
        known = {name: value for name, value in params.items() if self.hasParam(name)}
        self._set(**known)
        for name, value in known.items():
            if value is None:  # which Spark takes for nothing said
                self._paramMap.pop(self.getParam(name), None)
        return self

    def local(self) -> MBMF | BayesianMBMF:
        """The model of boundrec's that is to be fitted, before it is."""
        owner, settings = type(self).__name__, {}
        for name in settings_of(self.LOCAL):
            value = self.getOrDefault(spark_name(name))
            check_value(owner, name, value)
            settings[name] = tuple(value) if name == "bounds" and isinstance(value, list) else value
        ranged = self.getOrDefault("upperCol") is not None
        if ranged and settings["bounds"] is not None:
            raise ValueError(
                f"{owner}: upperCol gives every pair a range of its own, but bounds={short(settings['bounds'])} is one "
                "for all: pass one of the two."
            )
        if self.getOrDefault("lowerCol") is not None and not ranged:
            raise ValueError(f"{owner}: lowerCol is one end of ranges of pairs: pass upperCol for the other.")
        fixed = {"implicit": "off", "noise": "one"} if self.LOCAL is BayesianMBMF else {}
        model: MBMF | BayesianMBMF = self.LOCAL(**settings, **fixed)
        try:
            model.check_settings()
        except ValueError as error:
            raise ValueError(in_spark_words(str(error), self.LOCAL)) from None
        return model

    def _fit(self, dataset: DataFrame) -> SparkModel:
        check_own(self)
        asked = {name: self.getOrDefault(name) for name in OWN}
        columns = Columns(*(asked[f"{name}Col"] for name in ("user", "item", "rating", "lower", "upper")))
        interval, folder = asked["checkpointInterval"], asked["checkpointDir"]
        request = Request(columns, asked["mode"], asked["numPartitions"], folder, interval)
        model, blocks = fit(dataset, self.local(), request)
        return _with_params(on_cluster(self.MODEL, model, blocks, dataset, columns), self)


def check_own(params: Any) -> None:
    """Refuse values of Spark's own parameters that make no sense."""
    for name, words in (("mode", ("auto", "whole", "blocks")), ("coldStartStrategy", ("answer", "nan", "drop"))):
        if params.isDefined(name) and params.getOrDefault(name) not in words:
            raise ValueError(f"{name}={params.getOrDefault(name)!r}: give one of {', '.join(map(repr, words))}.")
    for name in ("numPartitions", "checkpointInterval"):
        value = params.getOrDefault(name) if params.isDefined(name) else None
        if value is not None and not (isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MOST):
            raise ValueError(f"{name}={value!r}: give a whole number from 1 to {MOST:,}.")
    folder = params.getOrDefault("checkpointDir") if params.isDefined("checkpointDir") else None
    if folder is not None and not isinstance(folder, str):
        raise ValueError(f"checkpointDir={folder!r}: give the name of a folder that Spark writes to, or None.")


def on_cluster(cls: Any, model: MBMF | BayesianMBMF, blocks: BlockTable, df: DataFrame, columns: Columns) -> SparkModel:
    """What a fit has learnt, as a model of Spark's."""
    id_kinds = tuple(_id_kind(df.schema[name].dataType) for name in (columns.user, columns.item))
    made: SparkModel = cls(model, blocks.frame.select(*SEEN_COLUMNS), blocks.layout, id_kinds)
    return made


def _id_kind(kind: Any) -> str:
    return "string" if isinstance(kind, kinds.StringType) else "number"


def _with_params(model: Any, estimator: Any) -> SparkModel:
    """A model with the parameters of its estimator that it has, too."""
    made: SparkModel = estimator._copyValues(model)
    return made


# --- models ---------------------------------------------------------------------------------------------------------


class SparkModel(Model, MLReadable[Any], MLWritable):
    """What both models share: predictions and lists by tasks, and the way to one machine and back."""

    LOCAL: ClassVar[Any]
    DEFAULTS: ClassVar[dict[str, Any]]

    def __init__(
        self,
        local: MBMF | BayesianMBMF | None = None,
        seen: DataFrame | None = None,
        layout: Layout = NOBODY,
        id_kinds: tuple[str, str] = ("string", "string"),
    ) -> None:
        super().__init__()
        self._setDefault(**{name: self.DEFAULTS[name] for name in OF_MODELS})
        self._local, self._seen, self._layout, self._id_kinds = local, seen, layout, id_kinds

    def copy(self, extra: Any = None) -> Self:
        """A copy with other parameters; what was learnt is shared."""
        new = super().copy(extra)
        new._local, new._seen, new._layout, new._id_kinds = self._local, self._seen, self._layout, self._id_kinds
        return new

    @property
    def fitted(self) -> Fitted:
        """What was learnt."""
        assert self._local is not None
        return self._local.fitted_

    @property
    def rank(self) -> int:
        """K, as Spark's ALS calls it."""
        assert self._local is not None
        return int(self._local.n_factors)

    @property
    def objectives(self) -> list[float]:
        """The objective after each sweep."""
        return list(self.fitted.course.objectives)

    # --- predictions ------------------------------------------------------------------------------------------------

    def _transform(self, dataset: DataFrame) -> DataFrame:
        check_own(self)
        check_frame(dataset)
        user, item = self.getOrDefault("userCol"), self.getOrDefault("itemCol")
        self._check_ids(dataset, (("userCol", user), ("itemCol", item)))
        fitted, ranged = self.fitted, self.fitted.rule is not None
        ends = tuple(self.getOrDefault(name) for name in ("lowerCol", "upperCol"))
        if ranged:
            named = zip(("lowerCol", "upperCol"), ends, strict=True)
            check_number_columns(dataset, [(key, name) for key, name in named if name is not None])
        added = [self.getOrDefault("predictionCol")]
        added += [] if ranged else list(self.getOrDefault("rangeCols"))
        added += [self.getOrDefault("stdCol")] if fitted.noise_variances is not None else []
        _refuse_taken(dataset, added)
        cold, names = self.getOrDefault("coldStartStrategy"), dataset.columns
        at = _places(names, ends) if ranged else None
        schema = kinds.StructType(
            [*dataset.schema.fields, *(kinds.StructField(one, kinds.DoubleType()) for one in added)]
        )
        if n_bytes(fitted) <= WHOLE_BYTES:
            asked = Asked(_without_seen(fitted), (names.index(user), names.index(item)), at, cold, (*names, *added))
        else:
            packings = Packing.of(fitted, "user"), Packing.of(fitted, "item")
            dataset = self._with_rows(dataset, packings, (user, item))
            places = len(names), len(names) + 1
            asked = Asked(without_rows(fitted, "user", "item"), places, at, cold, (*names, *added), packings)

        def answer(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                yield asked.answered(batch)

        return dataset.toDF(*(f"c{place}" for place in range(len(dataset.columns)))).mapInArrow(answer, schema)

    def _with_rows(self, dataset: DataFrame, packings: tuple[Packing, Packing], columns: tuple[str, str]) -> DataFrame:
        """A frame with two more columns: what the model knows of each user and item, nothing of those it does not."""
        spark, fitted = dataset.sparkSession, self.fitted
        for packing, column, kind in zip(packings, columns, self._id_kinds, strict=True):
            key, content = f"boundrec {packing.kind}", f"boundrec {packing.kind} row"
            rows, ids = packing.packed(fitted), fitted.side(packing.kind).ids.ids.tolist()
            packed = pa.array([row.tobytes() for row in rows], pa.large_binary())
            own = spark.createDataFrame(pa.table({key: arrow_ids(ids, kind), content: packed}))
            dataset = dataset.join(own, column_of(column) == column_of(key), "left").drop(key)
        return dataset

    def _check_ids(self, dataset: DataFrame, columns: tuple[tuple[str, str], ...]) -> None:
        """Refuse columns of ids of another kind than those of the fit: nobody in them would be known."""
        check_id_columns(dataset, columns)
        for parameter, name in columns:
            kind, known = _id_kind(dataset.schema[name].dataType), self._id_kinds[parameter == "itemCol"]
            if kind != known:
                raise TypeError(
                    f"{parameter}={name!r} holds {kind}s, but the model was fitted on ids that are {known}s: cast it."
                )

    # --- lists ------------------------------------------------------------------------------------------------------

    def recommendForAllUsers(self, numItems: int, excludeSeen: bool = True) -> DataFrame:  # noqa: N802
        """The items with the highest predictions for every user, without those that a user has rated.

        Returns a frame with the column of users and ``recommendations``, an array of (item, rating), best first.
        """
        return self._recommended(numItems, excludeSeen, None)

    def recommendForUserSubset(  # noqa: N802
        self, dataset: DataFrame, numItems: int, excludeSeen: bool = True
    ) -> DataFrame:
        """The same for the users of a frame, each of them once; those that the model does not know have no list."""
        user = self.getOrDefault("userCol")
        self._check_ids(dataset, (("userCol", user),))
        with in_a_sentence():
            ids = dataset.select(column_of(user).alias("id")).distinct().toArrow()["id"].drop_null().to_pylist()
        codes = self.fitted.users.codes(ids) if ids else np.empty(0, np.int64)
        return self._recommended(numItems, excludeSeen, np.unique(codes[codes >= 0]))

    def _recommended(self, n: int, exclude_seen: bool, users: Any) -> DataFrame:
        if not isinstance(n, int) or isinstance(n, bool) or n < 1:
            raise ValueError(f"numItems={n!r}: give a whole number of at least 1.")
        if self.fitted.rule is not None:
            raise ValueError(
                "every pair has a range of its own, which came with the rows, so those of all pairs are not known: "
                "use toLocal().recommend(bounds=…) with a rule for them."
            )
        if self._seen is None:
            raise ValueError("this model has lost its table of who has rated what: load it again, or fit it.")
        user, item = self.getOrDefault("userCol"), self.getOrDefault("itemCol")
        kind_of = {"string": kinds.StringType(), "number": kinds.LongType()}
        of_user, of_item = (kind_of[one] for one in self._id_kinds)
        entry = kinds.StructType().add(item, of_item).add("rating", kinds.DoubleType())
        schema = kinds.StructType().add(user, of_user).add("recommendations", kinds.ArrayType(entry))
        fitted, packing = self.fitted, Packing.of(self.fitted, "user")
        of_long = self._seen_of_long(exclude_seen)
        names, shell = (user, item), without_rows(fitted, "user")
        lists = ListsOfBlocks(shell, packing, n, exclude_seen, users, of_long, names, self._id_kinds)
        layout, ids = self._layout, fitted.users.ids.ids
        rows = []
        for block in range(layout.n_blocks):
            where = layout.rows(block)
            own = {"row": where.start, "users": packing.packed(fitted, where).tobytes()}
            rows.append({"b": block, **own, "ids": ids[where].tolist()})
        of_ids = pa.list_(pa.int64() if ids.dtype == np.int64 else pa.string())
        known = {"b": pa.int32(), "row": pa.int64(), "users": pa.large_binary(), "ids": of_ids}
        frame = self._seen.sparkSession.createDataFrame(pa.Table.from_pylist(rows, pa.schema(list(known.items()))))

        def answer(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for columns in batch.to_pylist():
                    yield lists.of(columns, columns["ids"])

        seen = self._seen.where("piece = 0").drop("piece", "first")
        return frame.repartition(layout.n_blocks).join(seen, "b", "left").mapInArrow(answer, schema)

    def _seen_of_long(self, exclude_seen: bool) -> dict[int, Any]:
        """What those have seen whose ratings come in pieces."""
        assert self._seen is not None
        if not (self._layout.long and exclude_seen):
            return {}
        with in_a_sentence():
            rows = self._seen.where("piece > 0").select("first", "needed").toArrow().to_pylist()
        found: dict[int, list[Any]] = {}
        for row in rows:
            found.setdefault(row["first"], []).append(np.frombuffer(row["needed"], np.int64))
        return {row: np.sort(np.concatenate(parts)) for row, parts in found.items()}

    # --- the way to one machine, and back ---------------------------------------------------------------------------

    def toLocal(self) -> MBMF | BayesianMBMF:  # noqa: N802
        """The same model for one process, with who has rated what: to serve, to save as a file, to fold people in."""
        assert self._local is not None
        if self._seen is None:
            return self._local
        with in_a_sentence():
            rows = self._seen.toArrow().to_pylist()
        blocks = [read_block(row) for row in rows]
        users = [np.repeat(block.first + np.arange(block.n_rows), np.diff(block.csr.indptr)) for block in blocks]
        items = [block.needed[block.csr.indices] for block in blocks]
        fitted, empty = self.fitted, np.empty(0, np.int64)
        pairs = np.concatenate([empty, *users]), np.concatenate([empty, *items])
        order = np.lexsort(pairs[::-1])
        indptr = np.searchsorted(pairs[0][order], np.arange(len(fitted.users.ids) + 1))
        model = self.LOCAL(**self._local.get_params())
        model._learned = replace(fitted, seen=Seen(indptr, pairs[1][order].astype(np.int32)))
        return model  # type: ignore[no-any-return]

    @classmethod
    def fromLocal(cls, model: MBMF | BayesianMBMF, spark: SparkSession, **params: Any) -> Self:  # noqa: N802
        """A model of boundrec's on a cluster, with the parameters of `transform` as keywords."""
        if type(model) is not cls.LOCAL:
            raise TypeError(f"{cls.__name__}.fromLocal takes a {cls.LOCAL.__name__}, not a {type(model).__name__}.")
        fitted = model.fitted_
        columns = dict(zip(("userCol", "itemCol"), fitted.names or ("user", "item"), strict=True))
        seen, layout = seen_table(fitted, spark)
        made = cls(_without_ratings(model), seen, layout, (_kind_of(fitted.users), _kind_of(fitted.items)))
        return made._set(**{**columns, **params})

    def write(self) -> MLWriter:
        """How it is saved."""
        return SparkModelWriter(self)

    @classmethod
    def read(cls) -> MLReader[Self]:
        """How it is loaded."""
        return SparkModelReader(cls)


def _refuse_taken(dataset: DataFrame, added: list[str]) -> None:
    taken = [name for name in added if name in dataset.columns]
    if taken:
        raise ValueError(
            f"the frame has a column {taken[0]!r} already, which transform would add: drop or rename it, or give "
            "another predictionCol, rangeCols or stdCol."
        )


def _places(names: list[str], ends: tuple[Any, ...]) -> tuple[int | None, int]:
    lower, upper = ends
    return (None if lower is None else names.index(lower)), names.index(upper)


def _without_ratings(model: Any) -> Any:
    new = type(model)(**model.get_params())
    new._learned = replace(model.fitted_, ratings=None)
    return new


def _kind_of(side: Any) -> str:
    ids = side.ids.ids
    if ids.dtype == np.int64:
        return "number"
    if all(isinstance(one, str) for one in ids.tolist()):
        return "string"
    raise TypeError("ids of Spark's frames are strings or whole numbers, and this model has others: fit it on such.")


def seen_table(fitted: Fitted, spark: SparkSession) -> tuple[DataFrame, Layout]:
    """Who has rated what, as the blocks of a fit on a cluster have it."""
    seen, n = fitted.seen, len(fitted.users.ids)
    layout = Layout(n, max(1, min(8, n)))
    rows = []
    for number in range(layout.n_blocks):
        where = layout.rows(number)
        indptr = seen.indptr[where.start : where.stop + 1]
        items = seen.indices[indptr[0] : indptr[-1]]
        needed, indices = np.unique(items, return_inverse=True)
        arrays = {"indptr": indptr - indptr[0], "needed": needed.astype(np.int64), "indices": indices.astype(np.int32)}
        arrays |= {"data": np.zeros(items.size), "weights": np.empty(0)}
        content = {name: np.ascontiguousarray(array).tobytes() for name, array in arrays.items()}
        rows.append({"b": number, "piece": 0, "first": where.start, **content})
    whole = {"b": pa.int32(), "piece": pa.int32(), "first": pa.int64()}
    schema = pa.schema([(name, whole.get(name, pa.large_binary())) for name in SEEN_COLUMNS])
    return spark.createDataFrame(pa.Table.from_pylist(rows, schema)), layout


def _without_seen(fitted: Fitted) -> Fitted:
    """A model as it is sent to tasks, which have no use for who has seen what."""
    return replace(fitted, seen=Seen.nothing(0), choices=None)


# --- the two --------------------------------------------------------------------------------------------------------


@with_settings(MBMF)
class SparkMBMFModel(SparkModel):
    """An `MBMF` on a cluster: see `SparkMBMF`."""


@with_settings(BayesianMBMF)
class SparkBayesianMBMFModel(SparkModel):
    """A `BayesianMBMF` on a cluster: see `SparkBayesianMBMF`."""


@with_settings(MBMF)
class SparkMBMF(SparkEstimator):
    """`MBMF` as an estimator of ``pyspark.ml``: every prediction in its range, the rows those that one machine learns.

    Examples
    --------
    >>> from boundrec.spark import SparkMBMF  # doctest: +SKIP
    >>> model = SparkMBMF(userCol="user", itemCol="film", ratingCol="stars", bounds=(1, 5), seed=0).fit(ratings)
    >>> model.transform(ratings).show()
    >>> model.recommendForAllUsers(10).write.parquet("lists")
    """

    MODEL = SparkMBMFModel


@with_settings(BayesianMBMF)
class SparkBayesianMBMF(SparkEstimator):
    """`BayesianMBMF` from ratings alone as an estimator of ``pyspark.ml``: predictions with standard deviations."""

    MODEL = SparkBayesianMBMFModel


#: The model of Spark's for each of boundrec's own.
MODEL_OF = {MBMF: SparkMBMFModel, BayesianMBMF: SparkBayesianMBMFModel}


# --- files ----------------------------------------------------------------------------------------------------------


class SparkModelWriter(MLWriter):
    """Saves a model as a folder: parameters as Spark has them, the model's file in parts, and who has rated what."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self._model = model

    def _handleOverwrite(self, path: str) -> None:  # noqa: N802
        """Nothing is removed beforehand, which Spark Connect cannot do: each part of the folder is written over."""

    def saveImpl(self, path: str) -> None:  # noqa: N802
        """Write the folder."""
        model, spark = self._model, self.sparkSession
        told = {"boundrec": {"layout": model._layout._asdict(), "id_kinds": list(model._id_kinds)}}
        metadata = DefaultParamsWriter._get_metadata_to_save(model, spark, told)
        content = _file_of(model._local)
        parts = [content[start : start + PART] for start in range(0, len(content), PART)]
        table = {"part": pa.array(range(len(parts)), pa.int32()), "content": pa.array(parts, pa.large_binary())}
        mode = "overwrite" if self.shouldOverwrite else "error"
        with in_a_sentence():
            head = spark.createDataFrame([(metadata,)], schema=["value"]).coalesce(1)
            head.write.mode(mode).text(os.path.join(path, "metadata"))
            spark.createDataFrame(pa.table(table)).write.mode(mode).parquet(os.path.join(path, "model"))
            if model._seen is not None:
                model._seen.write.mode(mode).parquet(os.path.join(path, "seen"))


class SparkModelReader(MLReader[Any]):
    """Loads what `SparkModelWriter` saved; the model's file is verified as ever."""

    def __init__(self, cls: Any) -> None:
        super().__init__()
        self._cls = cls

    def load(self, path: str) -> Any:
        """Read the folder."""
        spark = self.sparkSession
        flaws: Any = (*errors_of_spark(), KeyError, TypeError, ValueError)
        try:
            metadata = DefaultParamsReader.loadMetadata(path, spark)
            own = metadata["boundrec"]
        except flaws:
            raise ValueError(f"{path} holds no model that boundrec has saved: give the folder of one.") from None
        with in_a_sentence():
            rows = spark.read.parquet(os.path.join(path, "model")).toArrow().to_pylist()
            seen = spark.read.parquet(os.path.join(path, "seen"))
        content = b"".join(row["content"] for row in sorted(rows, key=lambda row: row["part"]))
        try:
            local = _model_of(content)
        except (OSError, ValueError) as error:
            raise ValueError(f"the model in {path} cannot be loaded: {error}") from None
        if type(local) is not self._cls.LOCAL:
            known = MODEL_OF.get(type(local), SparkModel).__name__
            raise TypeError(f"{path} holds a {type(local).__name__}: load it with {known}.load.")
        layout, id_kinds = _layout_of(own, len(local.user_ids_)), tuple(own["id_kinds"])
        model = self._cls(local, seen, layout, id_kinds)
        model._resetUid(metadata["uid"])
        DefaultParamsReader.getAndSetParams(model, metadata)
        return model


def _layout_of(told: dict[str, Any], n_users: int) -> Layout:
    """The layout in a model's metadata."""
    layout = told["layout"]
    long, n_pieces = (tuple(int(one) for one in layout[name]) for name in ("long", "n_pieces"))
    found = Layout(int(layout["n_rows"]), int(layout["n_blocks"]), long, n_pieces)
    blocks, rows = 1 <= found.n_blocks <= max(1, n_users), all(0 <= row < n_users for row in long)
    if not (found.n_rows == n_users and blocks and rows):
        raise ValueError(f"the folder's metadata speak of {found.n_rows} users, its model of {n_users}: save it again.")
    return found


def _file_of(model: Any) -> bytes:
    """A model's file, as bytes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        model_file.save(model, path)
        return path.read_bytes()


def _model_of(content: bytes) -> Any:
    """The model in a file's bytes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        path.write_bytes(content)
        return model_file.load(path)  # mapped: the pages stay when the file is gone
