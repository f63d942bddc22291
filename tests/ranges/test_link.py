"""Counts by their logarithms: what a transformed target gives, and all that it loses."""

import warnings

import numpy as np
import pytest
from sklearn.compose import TransformedTargetRegressor

import naive
from boundrec import MBMF, BayesianMBMF, load

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:n_factors="),
]
MODELS = {
    "ball": MBMF(3, max_iter=6, random_state=0),
    "sphere": MBMF(3, constraint="sphere", max_iter=6, random_state=0),
    "restarts": MBMF(3, n_restarts=2, max_iter=4, random_state=0),
    "history": MBMF(3, magnitudes="history", max_iter=4, on_contradiction="drop", random_state=0),
    "bayesian": BayesianMBMF(3, max_iter=8, burn_in=2, n_kept=4, dtype="float64", random_state=0),
}


def counts(seed=0, n=40, m=30):
    rng = np.random.default_rng(seed)
    X = np.argwhere(rng.random((n, m)) < 0.4)
    mean = np.exp(rng.normal(1, 1, n)[X[:, 0]] + rng.normal(0, 1, m)[X[:, 1]])
    return X, rng.poisson(mean).astype(float)


def fresh(name, **settings):
    return type(MODELS[name])(**{**MODELS[name].get_params(), **settings})


@pytest.mark.parametrize("bounds", [None, (0, None), (0, 5000), (0, 1e6)], ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_it_is_the_model_of_the_logarithms(name, bounds):
    X, y = counts()
    inner = None if bounds is None else tuple(None if end is None else float(np.log1p(end)) for end in bounds)
    other = TransformedTargetRegressor(
        regressor=fresh(name, bounds=inner), func=np.log1p, inverse_func=np.expm1, check_inverse=False
    ).fit(X, y)
    model = fresh(name, bounds=bounds, link="log1p").fit(X, y)
    every = np.argwhere(np.ones((41, 31), bool))
    assert np.allclose(model.predict(every), other.predict(every), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("bounds", [(0, None), (0, 5000), (0, 1e9), None], ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_all_answers_are_counts_within_their_bounds(name, bounds):
    X, y = counts()
    model = fresh(name, bounds=bounds, link="log1p").fit(X, y)
    every = np.argwhere(np.ones((41, 31), bool))
    low, high = (-1.0, np.inf) if bounds is None else (0, bounds[1] or np.inf)  # log(1 + v) has no lower end else
    predictions, lower, upper = model.predict(every, return_range=True)
    assert np.all((low <= lower) & (lower <= predictions) & (predictions <= upper) & (upper <= high))
    if name == "bayesian":
        quantiles = model.predict_quantiles(every, (0.02, 0.1, 0.5, 0.9, 0.98))
        assert np.all((low <= quantiles) & (quantiles <= high))
        assert np.all(np.diff(quantiles, axis=1) >= 0)
        _, std = model.predict(every, return_std=True)
        assert np.all(np.isfinite(std) & (std > 0))
        within = model.predict_quantiles(every, (0.1587, 0.8413))
        assert np.allclose(std, np.diff(within, axis=1)[:, 0] / 2)


@pytest.mark.parametrize("bounds", [(0, None), (0, 5000), None], ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_lists_are_those_of_a_full_sort(name, bounds):
    X, y = counts()
    model = fresh(name, bounds=bounds, link="log1p").fit(X, y)
    users, items = model.user_ids_.ids, model.item_ids_.ids
    pairs = np.column_stack([np.repeat(users, len(items)), np.tile(items, len(users))])
    predictions = model.predict(pairs).reshape(len(users), len(items))
    for n in (1, 6, 30):
        found, scores = model.recommend(n=n, exclude_seen=False)
        for user, columns in enumerate(naive.top_n(predictions, set(), n)):
            assert np.array_equal(found[user], items[columns])
            assert np.array_equal(scores[user], predictions[user, columns])


@pytest.mark.parametrize("name", MODELS)
def test_a_file_keeps_the_link(name, tmp_path):
    X, y = counts()
    model = fresh(name, bounds=(0, 5000), link="log1p").fit(X, y)
    model.save(tmp_path / "model", keep_ratings=True)
    loaded = load(tmp_path / "model")
    every = np.argwhere(np.ones((41, 31), bool))
    assert loaded.link == "log1p"
    assert np.array_equal(loaded.predict(every), model.predict(every))
    assert np.array_equal(loaded.recommend(n=4)[1], model.recommend(n=4)[1], equal_nan=True)
    one = loaded.partial_fit([(77, 3), (77, 5)], [3.0, 200.0]).predict([(77, 3), (77, 1)])
    two = model.partial_fit([(77, 3), (77, 5)], [3.0, 200.0]).predict([(77, 3), (77, 1)])
    assert np.allclose(one, two, rtol=1e-6)
    assert np.all((one >= 0) & (one <= 5000))


@pytest.mark.parametrize("name", ["ball", "bayesian"])
def test_new_counts_are_taken_by_their_logarithms(name):
    X, y = counts()
    model = fresh(name, bounds=(0, 5000), link="log1p").fit(X, y)
    logs = fresh(name, bounds=(0, float(np.log1p(5000)))).fit(X, np.log1p(y))
    new, seen = [(99, 1), (99, 2), (99, 3)], [4.0, 0.0, 300.0]
    pairs = [(99, item) for item in range(30)]
    views = model.fold_in(new, seen), logs.fold_in(new, np.log1p(seen))
    assert np.allclose(views[0].predict(pairs), np.expm1(views[1].predict(pairs)), rtol=1e-8, atol=1e-8)
    model.partial_fit(new, seen)
    logs.partial_fit(new, np.log1p(seen))
    assert np.allclose(model.predict(pairs), np.expm1(logs.predict(pairs)), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", ["ball", "bayesian"])
@pytest.mark.parametrize("bounds", [None, (None, 50)], ids=str)
def test_ratings_below_zero_are_refused_in_a_sentence(name, bounds):
    X, y = counts()
    y = np.minimum(y, 50)
    y[7] = -2.0
    with pytest.raises(ValueError, match=r"ratings outside the declared bounds \(0.0, None\).*-2.0"):
        fresh(name, bounds=bounds, link="log1p").fit(X, y)


def test_bounds_that_end_below_zero_are_refused_in_a_sentence():
    X, y = counts()
    with pytest.raises(ValueError, match=r"bounds=\(-5, 1000000.0\) begin below 0.*: begin at 0, or pass link=None"):
        MBMF(2, bounds=(-5, 1e6), link="log1p").fit(X, y)


@pytest.mark.parametrize("name", ["ball", "bayesian"])
def test_ranges_of_pairs_that_begin_below_zero_are_refused_in_a_sentence(name):
    X, y = counts()
    top = y.max()
    with pytest.raises(ValueError, match=r"ranges begin below 0 \(first: -1.0 to .*let them begin at 0"):
        fresh(name, link="log1p").fit(X, y, lower=-1, upper=top)
    model = fresh(name, link="log1p").fit(X, y, lower=0, upper=top)
    with pytest.raises(ValueError, match=r"1 of 2 ranges begin below 0 \(first: -3.0 to 7.0\)"):
        model.predict(X[:2], lower=[0, -3], upper=7)
    with pytest.raises(ValueError, match="ranges begin below 0"):
        model.recommend([0], bounds=lambda users, items: (-1, 5))


def test_new_ratings_below_zero_are_refused_in_a_sentence():
    X, y = counts()
    model = MBMF(2, bounds=(0, None), link="log1p", max_iter=3).fit(X, y)
    for take in (model.fold_in, model.partial_fit):
        with pytest.raises(ValueError, match="ratings outside the declared bounds"):
            take([(99, 1)], [-3.0])
    model = MBMF(2, link="log1p", max_iter=3).fit(X, y)
    for take in (model.fold_in, model.partial_fit):
        with pytest.raises(ValueError, match="ratings outside the declared bounds"):
            take([(99, 1)], [-3.0])


@pytest.mark.parametrize("link", ["log", 1, "LOG1P"])
def test_a_link_that_is_none_is_refused(link):
    X, y = counts()
    with pytest.raises(ValueError, match=r"link.*log1p"):
        MBMF(2, link=link).fit(X, y)


@pytest.mark.parametrize("bounds", [(0, None), (None, 50), None])
def test_lists_as_long_as_there_are_items_compare_with_nothing_and_say_nothing(bounds):
    X = [(user, item) for user in range(6) for item in range(5) if (user + item) % 3]
    y = [float(user * item % 7) for user, item in X]
    model = MBMF(2, bounds=bounds, link="log1p", random_state=0, max_iter=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        items, scores = model.recommend(n=5, exclude_seen=False)
    assert np.array_equal(np.sort(items, axis=1), np.tile(np.sort(model.item_ids_.ids), (6, 1)))
    assert np.all(np.diff(scores, axis=1) <= 0)


def test_form_n_guards_the_upper_end_behind_a_link_as_without_one():
    X = [(user, item) for user in range(5) for item in range(4)]
    y = [1.0 + (user * item) % 3 for user, item in X]
    model = MBMF.as_in_paper(3, form="n", bounds=(0.9, 4), link="log1p", random_state=0, max_iter=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    items, scores = model.recommend(n=4, exclude_seen=False)
    every = model.predict([(user, item) for user in model.user_ids_.ids for item in model.item_ids_.ids]).reshape(5, 4)
    assert np.array_equal(scores, -np.sort(-every, axis=1))
    assert scores.max() <= 4
    assert model.predict_range(X)[0].min() < 0.9
