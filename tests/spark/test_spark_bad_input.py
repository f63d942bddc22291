"""Whatever is wrong is said by the driver, in a sentence of ours."""

import os
import subprocess
import sys

import numpy as np
import pytest

from conftest import MASTER


@pytest.fixture
def estimator():
    from boundrec.spark import SparkMBMF

    return SparkMBMF(nFactors=2, bounds=(1, 5), maxIter=1, seed=0)


ROWS = [("ann", 1, 4.0), ("ann", 2, 5.0), ("bob", 1, 3.0), ("bob", 3, 1.0), ("eve", 2, 2.0), ("eve", 3, 4.0)]
SCHEMA = "user string, item long, rating double"


def refused(spark, estimator, rows, schema=SCHEMA):
    with pytest.raises((TypeError, ValueError)) as error:
        estimator.fit(spark.createDataFrame(rows, schema))
    text = str(error.value)
    assert "\n" not in text
    assert len(text) < 500
    return text


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ((None, 1, 3.0), ["1 of 7 rows have no user id", "item 1"]),
        (("ann", None, 3.0), ["1 of 7 rows have no item id", "user 'ann'"]),
        (("ann", 9, None), ["1 of 7 rows have no rating", "user 'ann', item 9"]),
        (("ann", 9, float("nan")), ["1 of 7 rows have a rating that is not a finite number", "item 9"]),
        (("ann", 9, float("inf")), ["not a finite number"]),
        (("ann", 9, 7.4), ["1 of 7 rows lie outside bounds=(1, 5)", "user 'ann', item 9: 7.4"]),
        (("ann", 1, 4.0), ["1 of 7 rows repeat a pair", "user 'ann', item 1", "duplicates='mean'"]),
    ],
    ids=["no user", "no item", "no rating", "NaN", "infinity", "out of bounds", "twice"],
)
def test_a_bad_row_is_refused_with_its_value_and_a_remedy(spark, estimator, row, words):
    text = refused(spark, estimator, [*ROWS, row])
    assert all(one in text for one in words), text


def test_an_empty_frame_missing_columns_and_wrong_types_are_refused(spark, estimator):
    assert "no rows" in refused(spark, estimator, [])
    assert "userCol='user'" in refused(spark, estimator, [(1, 1.0)], "item long, rating double")
    assert "cast('string')" in refused(spark, estimator, [(1.5, 1, 1.0)], "user double, item long, rating double")
    assert "cast('double')" in refused(spark, estimator, [("ann", 1, "x")], "user string, item long, rating string")
    frame = spark.createDataFrame(ROWS, SCHEMA)
    with pytest.raises(ValueError, match="2 columns of that name"):
        estimator.fit(frame.select("user", "user", "item", "rating"))


def test_pairs_that_come_twice_may_become_their_mean(spark, estimator):
    rows = [*ROWS, ("ann", 1, 2.0)]
    model = estimator.copy({estimator.duplicates: "mean"}).fit(spark.createDataFrame(rows, SCHEMA))
    assert model.toLocal().mean_ == pytest.approx(np.mean([3.0, 5.0, 3.0, 1.0, 2.0, 4.0]))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"solver": "angles"}, "descent on angles"),
        ({"history": []}, "history"),
        ({"userFeatures": {}}, "features"),
        ({"affinity": True}, "affinities"),
        ({"link": "log1p"}, "log1p"),
        ({"magnitudes": "history"}, "magnitudes of each row's own"),
        ({"nJobs": 4}, "numPartitions"),
        ({"duplicates": "last"}, "no order"),
        ({"noiseGrowth": "auto"}, "not learnt on Spark"),
        ({"solver": "x"}, "give one of 'exact', 'angles'"),
        ({"nFactors": 0}, "nFactors=0: give a whole number"),
        ({"n_factors": 3}, "did you mean nFactors"),
        ({"nonsense": 3}, "no parameter 'nonsense'"),
    ],
    ids=str,
)
def test_what_does_not_run_there_is_refused_by_name(settings, words):
    from boundrec.spark import SparkMBMF

    with pytest.raises((TypeError, ValueError), match=words):
        SparkMBMF(**settings)


def test_sets_and_own_noise_are_refused_by_name():
    from boundrec.spark import SparkBayesianMBMF

    for settings, words in (({"implicit": "both"}, "who rated what"), ({"noise": "own"}, "each row's own")):
        with pytest.raises(ValueError, match=words):
            SparkBayesianMBMF(**settings)
    assert SparkBayesianMBMF(implicit="off", noise="one").local().implicit == "off"


def test_settings_that_make_no_sense_are_refused_before_anything_is_run(spark, estimator):
    frame = spark.createDataFrame(ROWS, SCHEMA)
    for name, value, words in (
        ("nFactors", 1, "nFactors=1"),
        ("mode", "other", "mode='other'"),
        ("numPartitions", 0, "numPartitions=0"),
        ("numPartitions", 10**9, "numPartitions=1000000000"),
        ("checkpointDir", 3, "checkpointDir=3"),
        ("itemCol", "user", "userCol and itemCol both name"),
        ("checkpointInterval", True, "checkpointInterval=True"),
        ("upperCol", "rating", "upperCol gives every pair"),
        ("constraint", "cube", "constraint='cube'"),
    ):
        with pytest.raises(ValueError, match=words):
            estimator.copy({estimator.getParam(name): value}).fit(frame)


def test_frames_that_a_model_cannot_answer_are_refused(spark, estimator):
    frame = spark.createDataFrame(ROWS, SCHEMA)
    model = estimator.fit(frame)
    with pytest.raises(TypeError, match="holds numbers, but the model was fitted on ids that are strings"):
        model.transform(spark.createDataFrame([(1, 1)], "user long, item long"))
    with pytest.raises(ValueError, match="has a column 'prediction' already"):
        model.transform(model.transform(frame))
    with pytest.raises(ValueError, match="numItems=0"):
        model.recommendForAllUsers(0)
    with pytest.raises(TypeError, match="a data frame of Spark's is wanted, not a list"):
        model.transform(ROWS)
    with pytest.raises(ValueError, match="holds no model that boundrec has saved"):
        type(model).load("/tmp/there-is-no-such-folder")
    assert "bounds" in estimator.explainParams()
    with pytest.raises(TypeError, match="takes a MBMF"):
        type(model).fromLocal(object(), spark)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('java.io.IOException: Cannot run program "/no/python": error=2', "/no/python, which PYSPARK_PYTHON"),
        ("ModuleNotFoundError: No module named 'boundrec'", "lacks boundrec"),
        ("[JAVA_GATEWAY_EXITED] Java gateway process exited", "Java did not start"),
        (
            "An error occurred.\n: java.io.IOException: Mkdirs failed\n\tat a.b.C(D.java:1)\n\t... 1 more",
            "Mkdirs failed",
        ),
        ("Caused by: java.lang.OutOfMemoryError: Java heap space\n\tat x", "ran out of memory"),
        ("a\n  File x\nValueError: something else: 3\n\n\tat org.apache", "ValueError: something else: 3"),
    ],
)
def test_what_spark_tells_in_a_hundred_lines_becomes_a_sentence(text, words):
    from boundrec.spark.errors import meaning

    found = meaning(text)
    assert words in found
    assert "\n" not in found


WRONG_PYTHON = """
import sys, warnings
warnings.simplefilter("ignore")
sys.path.insert(0, {folder!r})
from conftest import start
from boundrec.spark import SparkError, SparkMBMF
spark = start("local[1]")
rows = [("ann", 1, 4.0), ("bob", 1, 3.0), ("bob", 2, 1.0)]
frame = spark.createDataFrame(rows, "user string, item long, rating double")
try:
    SparkMBMF(nFactors=2, bounds=(1, 5), maxIter=1).fit(frame)
except SparkError as error:
    print("SENTENCE", error)
"""


@pytest.mark.skipif(MASTER == "remote", reason="it starts a session of its own, which is not one of Spark Connect")
def test_a_wrong_pyspark_python_is_named(tmp_path):
    script = WRONG_PYTHON.format(folder=os.path.dirname(__file__))
    environment = {**os.environ, "PYSPARK_PYTHON": str(tmp_path / "no-python"), "PYSPARK_DRIVER_PYTHON": sys.executable}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=300)
    assert "SENTENCE Spark could not go on: the executors cannot start" in done.stdout, (
        done.stdout + done.stderr[-2000:]
    )
    assert "PYSPARK_PYTHON" in done.stdout


def test_signs_in_names_of_columns_do_no_harm(spark):
    from boundrec.spark import SparkMBMF

    names = ["us.er", "it`em x", "süße.r"]
    df = spark.createDataFrame(ROWS, SCHEMA).toDF(*names)
    estimator = SparkMBMF(userCol=names[0], itemCol=names[1], ratingCol=names[2], bounds=(1, 5), nFactors=2, maxIter=1)
    model = estimator.fit(df)
    answered = model.transform(df.selectExpr("*", "1 AS `x.y`"))
    assert answered.columns == [*names, "x.y", "prediction", "lower", "upper"]
    assert answered.count() == len(ROWS)
    assert model.recommendForAllUsers(1).columns == [names[0], "recommendations"]
    assert model.recommendForUserSubset(df, 1).count() == 3
