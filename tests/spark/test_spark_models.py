"""Models on a cluster: predictions, lists, files, pipelines, and the way to one machine and back."""

import numpy as np
import pytest


@pytest.fixture(scope="module", params=["SparkMBMF", "SparkBayesianMBMF"])
def fitted(request, spark, small):
    import boundrec.spark

    estimator = getattr(boundrec.spark, request.param)(nFactors=3, bounds=(1, 5), maxIter=4, seed=0)
    return estimator.fit(small.frame(spark))


def test_predictions_are_those_of_the_local_model_and_lie_in_their_range(spark, small, fitted):
    found = fitted.transform(small.frame(spark)).toArrow()
    local = fitted.toLocal()
    pairs = list(zip(found["user"].to_pylist(), found["item"].to_pylist(), strict=True))
    np.testing.assert_array_equal(found["prediction"].to_numpy(), local.predict(pairs))
    assert set(found["lower"].to_pylist()) == {1.0}
    assert set(found["upper"].to_pylist()) == {5.0}
    if local.fitted_.noise_variances is not None:
        np.testing.assert_array_equal(found["std"].to_numpy(), local.predict(pairs, return_std=True)[1])


def test_a_large_model_answers_by_rows_that_are_joined_to_the_frame(spark, small, fitted, monkeypatch):
    from boundrec.spark import estimators

    rows = [*small.pairs[:30], ("nobody", small.items[0]), (small.users[0], 5), (None, None)]
    df = spark.createDataFrame(rows, "user string, item long")
    whole = fitted.transform(df).collect()
    monkeypatch.setattr(estimators, "WHOLE_BYTES", 0)
    assert sorted(map(str, fitted.transform(df).collect())) == sorted(map(str, whole))


@pytest.mark.parametrize("strategy", ["answer", "nan", "drop"])
def test_unknown_ids_are_answered_inside_the_range_or_not_at_all(spark, small, fitted, strategy):
    rows = [("nobody", small.items[0]), (small.users[0], 5), ("nobody", 5), (None, small.items[0]), small.pairs[0]]
    df = spark.createDataFrame(rows, "user string, item long")
    found = fitted.copy({fitted.coldStartStrategy: strategy}).transform(df).toArrow()["prediction"].to_pylist()
    if strategy == "answer":
        assert all(1 <= one <= 5 for one in found)
    elif strategy == "nan":
        assert [np.isnan(one) for one in found] == [True, True, True, True, False]
    else:
        assert len(found) == 1


def test_lists_are_those_of_the_local_model_without_what_was_seen(spark, small, fitted):
    local, seen = fitted.toLocal(), set(small.pairs)
    lists = fitted.recommendForAllUsers(5).toArrow().to_pylist()
    assert len(lists) == len(set(small.users))
    for one in lists:
        items, scores = local.recommend([one["user"]], n=5)
        assert [entry["item"] for entry in one["recommendations"]] == items[0][items[0] >= 0].tolist()
        np.testing.assert_allclose([entry["rating"] for entry in one["recommendations"]], scores[0], rtol=1e-12)
        assert not any((one["user"], entry["item"]) in seen for entry in one["recommendations"])
    with_seen = fitted.recommendForAllUsers(5, excludeSeen=False).toArrow().to_pylist()
    assert any((one["user"], entry["item"]) in seen for one in with_seen for entry in one["recommendations"])
    some = fitted.recommendForUserSubset(spark.createDataFrame([("u1",), ("u1",), ("nobody",)], "user string"), 3)
    assert [row["user"] for row in some.collect()] == ["u1"]


def test_a_model_is_saved_and_loaded_and_comes_from_one_machine_and_goes_back(spark, small, fitted, tmp_path):
    df = small.frame(spark)
    expected = {tuple(row)[:2]: row["prediction"] for row in fitted.transform(df).collect()}
    fitted.save(str(tmp_path / "there"))
    fitted.write().overwrite().save(str(tmp_path / "there"))
    loaded = type(fitted).load(str(tmp_path / "there"))
    fitted.toLocal().save(tmp_path / "model.safetensors")
    import boundrec

    back = type(fitted).fromLocal(boundrec.load(tmp_path / "model.safetensors"), spark)
    for model in (loaded, back):
        assert {tuple(row)[:2]: row["prediction"] for row in model.transform(df).collect()} == expected
        lists, own = (
            {row["user"]: row["recommendations"] for row in one.recommendForAllUsers(4).collect()}
            for one in (model, fitted)
        )
        assert lists == own
    assert loaded.getOrDefault("nFactors") == 3
    with pytest.raises(boundrec.spark.SparkError, match="already exists"):
        fitted.save(str(tmp_path / "there"))


def test_lists_of_rows_in_pieces_leave_out_what_was_seen(spark, small, monkeypatch):
    from boundrec.spark import SparkMBMF, frames

    monkeypatch.setattr(frames, "LONG_ROW", 13)
    model = SparkMBMF(nFactors=3, bounds=(1, 5), maxIter=2, seed=0, tol=0.0).fit(small.frame(spark))
    seen = set(small.pairs)
    lists = model.recommendForAllUsers(50).collect()
    assert len(lists) == len(set(small.users))
    for row in lists:
        listed = {entry["item"] for entry in row["recommendations"]}
        assert listed == {item for item in set(small.items) if (row["user"], item) not in seen}
    assert model.toLocal().fitted_.seen.indices.size == len(small.pairs)


def test_it_works_in_a_pipeline_which_is_saved_and_in_cross_validation(spark, small, tmp_path):
    from pyspark.ml import Pipeline, PipelineModel
    from pyspark.ml.evaluation import RegressionEvaluator
    from pyspark.ml.tuning import CrossValidator, ParamGridBuilder

    from boundrec.spark import SparkMBMF

    df = small.frame(spark)
    estimator = SparkMBMF(bounds=(1, 5), nFactors=2, maxIter=2, tol=0.0, seed=0)
    pipeline = Pipeline(stages=[estimator])
    pipeline.save(str(tmp_path / "pipeline"))
    again = Pipeline.load(str(tmp_path / "pipeline"))
    assert again.getStages()[0].getOrDefault("bounds") == [1, 5]
    model = again.fit(df)
    model.save(str(tmp_path / "model"))
    loaded = PipelineModel.load(str(tmp_path / "model"))
    assert sorted(loaded.transform(df).collect()) == sorted(model.transform(df).collect())
    evaluator = RegressionEvaluator(labelCol="rating", predictionCol="prediction", metricName="rmse")
    grid = ParamGridBuilder().addGrid(estimator.nFactors, [2]).addGrid(estimator.ridge, [0.01, 100.0]).build()
    chosen = CrossValidator(estimator=estimator, estimatorParamMaps=grid, evaluator=evaluator, numFolds=2, seed=3).fit(
        df
    )
    best = grid[int(np.argmin(chosen.avgMetrics))]
    assert chosen.bestModel.getOrDefault("ridge") == best[estimator.ridge]
    assert chosen.bestModel.rank == best[estimator.nFactors]
    assert evaluator.evaluate(chosen.transform(df)) < np.std(small.ratings)
