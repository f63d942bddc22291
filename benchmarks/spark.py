"""`SparkMBMF` beside Spark's ALS in one run, on ``local[2]``: seconds a sweep, errors, what leaves the range, lists.

``python -m benchmarks.spark`` needs the extra ``spark`` and Java, and writes results/spark.md. Letters choose parts: a,
20 million synthetic ratings with noise; b, MovieLens 1M in BOUNDREC_DATA; c, ALS with other ridges on both. Elapsed
seconds, for the work is done by other processes; everybody in turns, the least of each. A sweep is what a longer fit
takes more, by the sweeps it has more.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.libmf import noisy_ratings
from benchmarks.measure import Check, Part, real_data, save_parts

K, TURNS = 20, 2
#: Sweeps of the short fit and of the long one.
SHORT, LONG = 2, 6
#: Of ALS: that of the comparison is in the middle.
RIDGES = (0.01, 0.02, 0.05, 0.08, 0.1)
#: Of ALS's time a sweep.
MOST_TIME = 1.5
MASTER, MEMORY = "local[2]", "8g"


def session() -> Any:
    from pyspark.sql import SparkSession

    settings = {
        "spark.driver.memory": MEMORY,
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "8",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.log.level": "ERROR",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master(MASTER).appName("benchmarks")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def frame(spark: Any, folder: Path, name: str, columns: dict[str, NDArray[Any]]) -> Any:
    """A frame read from Parquet, as people have them."""
    import polars as pl

    path = folder / name
    path.mkdir()
    for part, rows in enumerate(np.array_split(np.arange(len(columns["user"])), 8)):
        pl.DataFrame({key: values[rows] for key, values in columns.items()}).write_parquet(path / f"{part}.parquet")
    return spark.read.parquet(str(path))


def makers(n_sweeps: int) -> dict[str, Callable[[], Any]]:
    from pyspark.ml.recommendation import ALS

    from boundrec.spark import SparkBayesianMBMF, SparkMBMF

    return {
        "Spark's ALS": lambda: ALS(
            rank=K, maxIter=n_sweeps, regParam=0.05, userCol="user", itemCol="item", ratingCol="rating", seed=0
        ),
        "SparkMBMF": lambda: SparkMBMF(nFactors=K, bounds=(1, 5), maxIter=n_sweeps, tol=0.0, seed=0),
        "SparkMBMF, in blocks": lambda: SparkMBMF(
            nFactors=K, bounds=(1, 5), maxIter=n_sweeps, tol=0.0, seed=0, mode="blocks"
        ),
        "SparkBayesianMBMF": lambda: SparkBayesianMBMF(nFactors=K, bounds=(1, 5), maxIter=n_sweeps, seed=0),
    }


def fit_seconds(df: Any, make: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    model = make().fit(df)
    if hasattr(model, "userFactors"):
        model.userFactors.count()
    return time.perf_counter() - began, model


def judged(model: Any, test: Any) -> tuple[float, float]:
    """RMSE of the pairs that are answered, and the share of predictions outside [1, 5]."""
    table = model.transform(test).select("rating", "prediction").toArrow()
    truth, predicted = (table[name].to_numpy() for name in ("rating", "prediction"))
    known = np.isfinite(predicted)
    error = float(np.sqrt(np.mean((truth - predicted)[known] ** 2)))
    return error, float(np.mean((predicted[known] < 1) | (predicted[known] > 5)))


def timed(df: Any, who: list[str], say: Callable[[str], None]) -> dict[str, tuple[float, float]]:
    """Seconds a sweep, and of all before the first one, of each; the least of the turns."""
    found: dict[str, list[tuple[float, float]]] = {}
    for turn in range(TURNS):
        for name in who:
            short, long = (fit_seconds(df, makers(n)[name])[0] for n in (SHORT, LONG))
            say(f"{turn + 1}/{TURNS}: {name}: {SHORT} sweeps {short:.1f} s, {LONG} sweeps {long:.1f} s")
            found.setdefault(name, []).append((short, long))
    times = {}
    for name, some in found.items():
        short, long = (min(one) for one in zip(*some, strict=True))
        sweep = (long - short) / (LONG - SHORT)
        times[name] = sweep, short - SHORT * sweep
    return times


def large(spark: Any, folder: Path, n_ratings: int, say: Callable[[str], None]) -> Part:
    """(a) Synthetic ratings."""
    shape = (n_ratings // 200, n_ratings // 1000)
    (user, item, rating), _ = noisy_ratings(*shape, n_ratings)
    train, test = _halves(spark, folder, "a", {"user": user, "item": item, "rating": rating}, 0.02)
    del user, item, rating
    warm = train.limit(20_000).cache()
    for make in makers(1).values():
        fit_seconds(warm, make)
    times = timed(train, list(makers(1)), say)
    rows, of_als = [], times["Spark's ALS"][0]
    errors: dict[str, tuple[float, float]] = {}
    for name, (sweep, before) in times.items():
        errors[name] = judged(fit_seconds(train, makers(LONG)[name])[1], test)
        rows.append(
            [
                name,
                f"{sweep:.2f}",
                f"{sweep / of_als:.2f}",
                f"{before:.1f}",
                f"{errors[name][0]:.4f}",
                _share(errors[name][1]),
            ]
        )
        say(" ".join(rows[-1]))
    ratio, ours, theirs = times["SparkMBMF"][0] / of_als, errors["SparkMBMF"], errors["Spark's ALS"]
    checks = [
        Check("SparkMBMF, a sweep / one of ALS", f"{ratio:.2f}", f"≤ {MOST_TIME:g}", ratio <= MOST_TIME),
        Check("RMSE of SparkMBMF", f"{ours[0]:.4f}", f"< {theirs[0]:.4f}", ours[0] < theirs[0]),
        Check("predictions of SparkMBMF out of range", _share(ours[1]), "0", ours[1] == 0),
    ]
    head = ["", "s a sweep", "of ALS's", "s before the first", f"RMSE after {LONG} sweeps", "out of range"]
    note = (
        f"{n_ratings:,} ratings of {shape[0]:,} × {shape[1]:,} (as in benchmarks/libmf.py), a fiftieth held out, read "
        f"from Parquet; {MASTER}, K = {K}; fits of {SHORT} and {LONG} sweeps, {TURNS} turns, the least of each. ALS: "
        "regParam .05."
    )
    return Part(f"(a) {n_ratings // 1_000_000} million synthetic ratings", head, rows, checks, [note])


def movielens(spark: Any, folder: Path, say: Callable[[str], None]) -> Part:
    """(b) MovieLens 1M, where what a job costs by itself is most of it."""
    title, data = "(b) MovieLens 1M", real_data("movielens_1m")
    if data is None:
        return Part(title, [], [], notes=["Left out: there is no MovieLens 1M in BOUNDREC_DATA."])
    columns: dict[str, NDArray[Any]] = {"user": data.user, "item": data.item, "rating": data.rating}
    train, test = (one.cache() for one in _halves(spark, folder, "b", columns, 0.1))
    train.count()
    for make in makers(1).values():
        fit_seconds(train, make)
    times, rows = timed(train, list(makers(1)), say), []
    lists: dict[str, float] = {}
    errors: dict[str, tuple[float, float]] = {}
    for name, (sweep, before) in times.items():
        model = fit_seconds(train, makers(15)[name])[1]
        errors[name] = judged(model, test)
        seconds = []
        for _ in range(3):
            began = time.perf_counter()
            model.recommendForAllUsers(10).write.mode("overwrite").format("noop").save()
            seconds.append(time.perf_counter() - began)
        lists[name] = min(seconds)
        rows.append(
            [
                name,
                f"{sweep:.2f}",
                f"{before:.1f}",
                f"{errors[name][0]:.4f}",
                _share(errors[name][1]),
                f"{lists[name]:.2f}",
            ]
        )
        say(" ".join(rows[-1]))
    ours, theirs = errors["SparkMBMF"], errors["Spark's ALS"]
    ratio = lists["SparkMBMF"] / lists["Spark's ALS"]
    checks = [
        Check("RMSE of SparkMBMF", f"{ours[0]:.4f}", f"< {theirs[0]:.4f}", ours[0] < theirs[0]),
        Check("predictions of SparkMBMF out of range", _share(ours[1]), "0", ours[1] == 0),
        Check("lists of SparkMBMF, which drop what was seen / ALS's, which do not", f"{ratio:.2f}", "≤ 1", ratio <= 1),
    ]
    head = ["", "s a sweep", "s before the first", "RMSE after 15 sweeps", "out of range", "s for all lists of ten"]
    return Part(
        title, head, rows, checks, [f"A tenth held out, {MASTER}, K = {K}; ALS: regParam .05, without cold pairs."]
    )


def ridges(spark: Any, folder: Path, n_ratings: int, say: Callable[[str], None]) -> Part:
    """(c) Whether another ridge would have helped ALS: judged by the very ratings that tell which is best."""
    from pyspark.ml.recommendation import ALS

    frames: dict[str, tuple[int, Any, Any]] = {}
    (user, item, rating), _ = noisy_ratings(n_ratings // 200, n_ratings // 1000, n_ratings)
    columns: dict[str, NDArray[Any]] = {"user": user, "item": item, "rating": rating}
    frames["synthetic"] = LONG, *_halves(spark, folder, "c", columns, 0.02)
    data = real_data("movielens_1m")
    if data is not None:
        columns = {"user": data.user, "item": data.item, "rating": data.rating}
        frames["MovieLens 1M"] = 15, *_halves(spark, folder, "m", columns, 0.1)
    rows = []
    for ridge in RIDGES:
        row = [f"{ridge:g}"]
        for n_sweeps, train, test in frames.values():
            als = ALS(
                rank=K, maxIter=n_sweeps, regParam=ridge, userCol="user", itemCol="item", ratingCol="rating", seed=0
            )
            error, outside = judged(als.fit(train), test)
            row += [f"{error:.4f}", _share(outside)]
        rows.append(row)
        say(" ".join(row))
    columns_shown = ["regParam", *(f"{name}, {what}" for name in frames for what in ("RMSE", "out of range"))]
    return Part("(c) Spark's ALS with other ridges", columns_shown, rows, [], ["As in (a) and (b), as many sweeps."])


def _halves(spark: Any, folder: Path, name: str, columns: dict[str, NDArray[Any]], share: float) -> tuple[Any, Any]:
    """Ratings to train on, and a share of them held out, the same as in the other parts."""
    held = np.random.default_rng(0).random(columns["user"].size) < share
    train, test = (
        frame(spark, folder, f"{name}{part}", {key: values[which] for key, values in columns.items()})
        for part, which in enumerate((~held, held))
    )
    return train, test


def _share(share: float) -> str:
    return "0" if share == 0 else f"{100 * share:.2f} %"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark", description="SparkMBMF beside Spark's ALS.")
    parser.add_argument("parts", nargs="?", default="abc")
    parser.add_argument("--ratings", type=int, default=20_000_000)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    try:
        spark = session()
    except ImportError:
        say("left out: there is no pyspark; install the extra spark")
        return 0
    parts: dict[str, Part] = {}
    with tempfile.TemporaryDirectory() as folder:
        if "b" in asked.parts:
            parts["b"] = movielens(spark, Path(folder), say)
        if "c" in asked.parts:
            parts["c"] = ridges(spark, Path(folder), asked.ratings, say)
        if "a" in asked.parts:
            parts["a"] = large(spark, Path(folder), asked.ratings, say)
    spark.stop()
    if asked.ratings == 20_000_000:
        save_parts(parts, "spark")
    print("\n\n".join(parts[letter].markdown() for letter in sorted(parts)))
    return 0 if all(check.passed for part in parts.values() for check in part.checks) else 1


if __name__ == "__main__":
    sys.exit(main())
