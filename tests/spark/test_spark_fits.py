"""A fit on a cluster learns what one machine would: the same rows after every sweep, however it is cut and sent."""

import numpy as np
import pytest

from boundrec import MBMF, BayesianMBMF
from boundrec.data.ratings import Ends, Pairs, Ratings
from boundrec.models import answers

MODELS = {
    "ball": lambda: MBMF(4, bounds=(1, 5), max_iter=2, tol=0.0, random_state=1),
    "sphere": lambda: MBMF(4, bounds=(1, 5), max_iter=2, tol=0.0, random_state=1, constraint="sphere"),
    "bayesian": lambda: BayesianMBMF(
        4, bounds=(1, 5), max_iter=3, n_kept=2, random_state=1, implicit="off", noise="one", dtype="float64"
    ),
}
WAYS = [(mode, parts) for mode in ("whole", "blocks") for parts in (1, 2, 7)]


def states_here(model, ratings, monkeypatch, **ends):
    """Both sides' rows after every sweep of a fit on this machine, and its objectives."""
    states, solvers, watch = [], [], type(model)._watch

    def spy(self, solver, *rest):
        solvers.append(solver)
        return watch(self, solver, *rest)

    monkeypatch.setattr(type(model), "_watch", spy)
    model.fit(ratings, callback=lambda *_: states.append((solvers[0].users.factors, solvers[0].items.factors)), **ends)
    return states, model


def numbered(prepared, table, ends=None):
    """The same ratings on this machine, under Spark's numbers of ids."""
    users, items = prepared.users, prepared.items
    codes = (
        index.codes(list(column)).astype(np.int32) for index, column in ((users, table.users), (items, table.items))
    )
    of_users, of_items = codes
    return Ratings.from_codes((users, of_users), (items, of_items), table.ratings, ends=ends)


def prepare(spark, table, model, mode, parts, columns=None, **more):
    from boundrec.spark.fitting import Prepared, Request
    from boundrec.spark.frames import Columns

    request = Request(columns or Columns("user", "item", "rating"), mode, parts)
    return Prepared(table.frame(spark, **more), model, request), request


def states_there(prepared, request, model):
    """Both sides' rows after every sweep on the cluster, and the objectives."""
    from boundrec.spark.fitting import solver_of

    found = {"infeasible_share": 0.0}
    if isinstance(model, MBMF):
        rows = len(prepared.users) + len(prepared.items)
        found["ridge"] = model.ridge_amount(prepared.blocks["user"].n, rows) * prepared.product
    solver = solver_of(model, prepared, prepared.start(request.columns, found))
    sweeps = solver.sweeps()
    for _ in range(model.max_iter):
        yield next(sweeps).objective, solver.users.factors, solver.items.factors
    prepared.cluster.release()


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize(("mode", "parts"), WAYS)
def test_rows_after_every_sweep_are_those_of_one_machine(spark, table, monkeypatch, kind, mode, parts):
    if kind == "sphere" and parts != 2:
        pytest.skip("one number of partitions is enough for it")
    model = MODELS[kind]()
    prepared, request = prepare(spark, table, model, mode, parts)
    states, here = states_here(MODELS[kind](), numbered(prepared, table), monkeypatch)
    there = list(states_there(prepared, request, model))
    assert len(there) == len(states) == model.max_iter
    for (objective, W, H), (W_here, H_here), expected in zip(there, states, here.objectives_, strict=True):
        np.testing.assert_allclose(W, W_here, rtol=0, atol=1e-9)
        np.testing.assert_allclose(H, H_here, rtol=0, atol=1e-9)
        assert objective == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("kind", "mode"), [("ball", "whole"), ("ball", "blocks"), ("sphere", "whole"), ("bayesian", "blocks")]
)
def test_rows_with_very_many_ratings_come_in_pieces_and_are_the_same(spark, small, monkeypatch, kind, mode):
    from boundrec.spark import frames

    monkeypatch.setattr(frames, "LONG_ROW", 13)
    model = MODELS[kind]()
    prepared, request = prepare(spark, small, model, mode, 2)
    assert prepared.blocks["user"].layout.long
    assert prepared.blocks["item"].layout.long
    assert max(prepared.blocks["item"].layout.n_pieces) > 1
    states, _ = states_here(MODELS[kind](), numbered(prepared, small), monkeypatch)
    for (_, W, H), (W_here, H_here) in zip(states_there(prepared, request, model), states, strict=True):
        np.testing.assert_allclose(W, W_here, rtol=0, atol=1e-9)
        np.testing.assert_allclose(H, H_here, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    "settings",
    [
        {"bounds": (0, 100)},  # the ratings fill a small part of it
        {"bounds": (0, None)},
        {"bounds": None},
        {"bounds": (1, 5), "magnitudes": "range"},
        {"bounds": (1, 5), "form": "n", "constraint": "sphere"},
        {"bounds": (1, 5), "ridge": 0.2, "slack": 2.0},
    ],
    ids=str,
)
def test_whatever_the_range_the_model_is_that_of_one_machine(spark, small, settings):
    from boundrec.spark import SparkMBMF
    from boundrec.spark.params import spark_name

    given = {"n_factors": 3, "max_iter": 3, "tol": 0.0, **settings}
    there = SparkMBMF(seed=2, numPartitions=2, **{spark_name(name): value for name, value in given.items()})
    model = there.fit(small.frame(spark))
    users, items = model.fitted.users.ids, model.fitted.items.ids
    codes = users.codes(small.users).astype(np.int32), items.codes(small.items).astype(np.int32)
    here = MBMF(random_state=2, **given).fit(Ratings.from_codes((users, codes[0]), (items, codes[1]), small.ratings))
    pairs = [*small.pairs[:50], ("nobody", small.items[0]), ("u1", 1), ("nobody", 1)]
    np.testing.assert_allclose(model.toLocal().predict(pairs), here.predict(pairs), atol=1e-9)
    np.testing.assert_allclose(model.toLocal().predict_range(pairs), here.predict_range(pairs), atol=1e-9)
    assert model.toLocal().infeasible_share_ == here.infeasible_share_


@pytest.mark.parametrize("model", ["SparkMBMF", "SparkBayesianMBMF"])
def test_pairs_with_ranges_of_their_own_keep_them_and_learn_what_one_machine_does(spark, small, model):
    import boundrec.spark

    rng = np.random.default_rng(0)
    upper = rng.uniform(5.0, 500.0, len(small.ratings))
    upper[:3] = 0.0  # of no width
    own = np.where(upper > 0, small.ratings / 5 * upper, 0.0)
    df = small.frame(spark, passengers=own, seats=upper).drop("rating")
    settings = {"nFactors": 3, "maxIter": 4, "seed": 0, "noiseGrowth": 0.5}
    estimator = getattr(boundrec.spark, model)(ratingCol="passengers", upperCol="seats", **settings)
    there = estimator.fit(df)
    found = there.transform(df).toArrow()
    predicted, seats = found["prediction"].to_numpy(), found["seats"].to_numpy()
    assert ((predicted >= 0) & (predicted <= seats)).all()
    users, items = there.fitted.users.ids, there.fitted.items.ids
    codes = users.codes(small.users).astype(np.int32), items.codes(small.items).astype(np.int32)
    ends = Ends(np.zeros(len(own)), upper)
    ratings = Ratings.from_codes((users, codes[0]), (items, codes[1]), own, ends=ends)
    plain = {} if model == "SparkMBMF" else {"implicit": "off", "noise": "one"}
    here = estimator.LOCAL(3, max_iter=4, random_state=0, noise_growth=0.5, **plain).fit(ratings)
    some = Pairs(codes[0], codes[1], ends)
    expected = answers.predictions(here.fitted_, some)
    answer = there.toLocal().predict(small.pairs, lower=0, upper=upper)
    np.testing.assert_allclose(answer, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("how", ["keep", "drop", "raise"])
def test_ratings_outside_their_own_range_are_kept_dropped_or_refused(spark, small, how):
    from boundrec.spark import SparkMBMF

    upper = np.full(len(small.ratings), 5.0)
    upper[:4] = np.maximum(small.ratings[:4] - 1.5, 0.5)
    df = small.frame(spark, most=upper)
    estimator = SparkMBMF(upperCol="most", nFactors=2, maxIter=1, seed=0, onContradiction=how)
    outside = int(np.sum(small.ratings > upper))
    if how == "raise":
        with pytest.raises(ValueError, match=f"{outside} of .* ratings lie outside their own range"):
            estimator.fit(df)
        return
    model = estimator.fit(df)
    assert model.toLocal().infeasible_share_ == pytest.approx(outside / len(small.ratings))
    assert model.toLocal().fitted_.seen.indices.size == len(small.ratings) - (outside if how == "drop" else 0)
