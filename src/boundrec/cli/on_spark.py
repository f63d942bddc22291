"""``boundrec fit --engine spark``: the same model file, learnt by a cluster from a folder that Spark reads."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from boundrec.cli.bounds import AskedBounds, read_bounds
from boundrec.cli.console import live_objective, messages, say
from boundrec.cli.model_request import Request

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from boundrec.cli.rating_tables import ColumnNames

#: Models that run on a cluster, by what the command calls them.
MODELS = ("bayesian", "mbmf")
INSTALL = "pip install 'boundrec[spark]'"


@dataclass(frozen=True)
class AskedSpark:
    """The options --engine, --master, --checkpoint and --partitions, as they were typed."""

    engine: str
    master: str | None = None
    checkpoint: str | None = None
    partitions: int | None = None

    @property
    def asked(self) -> bool:
        """Whether the fit is to run on Spark."""
        if self.engine == "spark":
            return True
        given = {"--master": self.master, "--checkpoint": self.checkpoint, "--partitions": self.partitions}
        for option, value in given.items():
            if value is not None:
                raise typer.BadParameter(f"{option} is for --engine spark: pass that, too, or leave this out.")
        return False

    def refuse(self, model: str, others: Mapping[str, Any]) -> None:
        """Refuse options that do not run on a cluster, by their names."""
        if model not in MODELS:
            raise typer.BadParameter(f"--model {model} does not run on Spark: there are {' and '.join(MODELS)}.")
        for option, value in others.items():
            if value:
                raise typer.BadParameter(f"{option} does not run with --engine spark: leave it out, or fit here.")


@dataclass(frozen=True)
class SparkTable:
    """What is known of a table whose rows are elsewhere."""

    name: str
    columns: list[str]
    has_header: bool = True


def session(master: str | None) -> SparkSession:
    """A session of Spark's, on a master or as the machine is configured; a sentence where there can be none."""
    try:
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ImportError:
        raise OSError(f"--engine spark needs pyspark, which is not installed: {INSTALL}") from None
    from boundrec.spark.errors import meaning

    logging.getLogger("py4j").setLevel(logging.ERROR)
    if master is not None and master.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else it is whatever python3 there is
    quiet = {"spark.log.level": "ERROR", "spark.ui.showConsoleProgress": "false", "spark.ui.enabled": "false"}
    builder = SparkSession.builder.appName("boundrec")
    builder = builder if master is None else builder.master(master)
    for name, value in quiet.items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except (PySparkException, RuntimeError) as error:
        raise OSError(f"Spark did not start: {meaning(str(error))}.") from None


def read_frame(spark: SparkSession, path: Path) -> DataFrame:
    """A folder or a file of Parquet or CSV."""
    from boundrec.spark.errors import in_a_sentence

    if "://" not in str(path) and not path.exists():
        raise FileNotFoundError(2, "there is no such file or folder", str(path))
    names = [path.name] if path.suffix else [one.name for one in path.glob("*")] if path.is_dir() else []
    with in_a_sentence():
        if any(name.endswith((".csv", ".csv.gz", ".tsv")) for name in names):
            separator = "\t" if any(name.endswith(".tsv") for name in names) else ","
            return spark.read.csv(str(path), header=True, inferSchema=True, sep=separator)
        return spark.read.parquet(str(path))


def fit_on_spark(
    path: Path, names: ColumnNames, within: AskedBounds, request: Request, asked: AskedSpark
) -> tuple[Any, dict[str, Any]]:
    """Fit a model on a cluster; returns it for this machine, and what the ratings are like."""
    with messages().status("Starting Spark"):
        spark = session(asked.master)
    from boundrec.spark import SparkError

    try:
        return _fitted(spark, path, names, within, request, asked)
    except SparkError as error:
        raise OSError(str(error)) from None


def _fitted(
    spark: SparkSession, path: Path, names: ColumnNames, within: AskedBounds, request: Request, asked: AskedSpark
) -> tuple[Any, dict[str, Any]]:
    from boundrec.cli.rating_tables import choose_columns
    from boundrec.spark import fitting
    from boundrec.spark.estimators import MODEL_OF, on_cluster
    from boundrec.spark.frames import Columns, plain, summary
    from boundrec.spark.params import OTHER_DEFAULTS, check_value

    df = read_frame(spark, path)
    found = choose_columns(SparkTable(str(path), df.columns), names, ("user", "item", "rating"), say)
    columns = Columns(**found)
    if within.own:
        columns = replace(columns, lower=None if within.lower == "0" else within.lower, upper=within.upper)
    bounds = None if within.own else read_bounds(within.bounds)
    if bounds is None and not within.own:
        with messages().status("Looking at the ratings"):
            told = summary(plain(df, columns), (None, None))
        bounds = (told.least, told.most) if told.least < told.most else None
        say(f"Note: no --bounds were given, so they are the observed range, {told.least:g} to {told.most:g}.")
    settings = {name: value for name, value in OTHER_DEFAULTS.items() if name != "noise_growth" or within.own}
    model = request.model()
    known = model.get_params()
    given = {**{name: value for name, value in settings.items() if name in known}, **(request.settings or {})}
    model.set_params(bounds=bounds, **given)
    for name, value in model.get_params().items():
        if name not in OTHER_DEFAULTS or name in given:
            check_value(f"boundrec fit --engine spark, {request.name}", name, value)
    wanted = fitting.Request(columns, n_partitions=asked.partitions, checkpoint_dir=asked.checkpoint)
    with live_objective(request.name, model.most_iterations()) as callback:
        fitted, blocks = fitting.fit(df, model, wanted, callback)
    try:
        local = on_cluster(MODEL_OF[type(fitted)], fitted, blocks, df, columns).toLocal()
    finally:
        blocks.release()
    return local, {"ratings": blocks.n, "users": len(fitted.user_ids_), "items": len(fitted.item_ids_)}
