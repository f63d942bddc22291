"""Any two matrices of ends are kept, by every model, in every form; and one range for all is a special case."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from boundrec import MBMF, BayesianMBMF, PerItem, PerPair, PerUser
from own_ranges import FORMS, MODELS, QUIET, inside, problem_of, problems

pytestmark = [pytest.mark.filterwarnings(text) for text in QUIET]

growths = st.sampled_from(["auto", 0.0, 0.5, 1.0])


def keeps_its_promise(problem, model):
    """Whatever a model answers lies in the range of its pair."""
    every = problem.every_pair()
    X, beside = problem.given(every), problem.beside(every)
    lower, upper = problem.lower.ravel(), problem.upper.ravel()
    predictions, low, high = model.predict(X, return_range=True, **beside)
    assert inside(predictions, lower, upper)
    assert inside(low, lower, upper)
    assert inside(high, lower, upper)
    assert np.all((low <= predictions) & (predictions <= high))
    nothing = lower == upper
    assert np.array_equal(predictions[nothing], lower[nothing])
    if isinstance(model, BayesianMBMF):
        _, std = model.predict(X, return_std=True, **beside)
        assert np.all(np.isfinite(std) & (std >= 0))
        quantiles = model.predict_quantiles(X, (0.01, 0.3, 0.5, 0.99), **beside)
        assert inside(quantiles, lower[:, None], upper[:, None])
        assert np.all(np.diff(quantiles, axis=1) >= 0)
    users = np.arange(len(problem.lower))
    items, scores = model.recommend(users, n=50, exclude_seen=False, **problem.listing)
    assert items.shape == (len(users), problem.lower.shape[1] - 1)
    for user in users:
        listed = items[user][items[user] >= 0]
        assert inside(scores[user, : len(listed)], problem.lower[user, listed], problem.upper[user, listed])
        assert np.array_equal(
            scores[user, : len(listed)], predictions.reshape(problem.lower.shape)[user, listed]
        )  # what is listed is what is predicted


@settings(max_examples=150)
@given(problems(), st.sampled_from(sorted(MODELS)), growths)
def test_every_answer_lies_in_the_range_of_its_pair(problem, name, growth):
    keeps_its_promise(problem, problem.fit(MODELS[name], noise_growth=growth, dtype="float64"))


@settings(max_examples=40)
@given(problems(scales=(-149, 149)), st.sampled_from(["ball", "bayesian"]), growths)
def test_every_answer_lies_in_the_range_of_its_pair_at_the_ends_of_all_numbers(problem, name, growth):
    keeps_its_promise(problem, problem.fit(MODELS[name], noise_growth=growth, dtype="float64"))


@settings(max_examples=80)
@given(problems(scales=(-12, 15)), st.sampled_from(sorted(MODELS)), growths)
def test_every_answer_of_a_model_stored_in_float32_lies_in_the_range_of_its_pair(problem, name, growth):
    keeps_its_promise(problem, problem.fit(MODELS[name], noise_growth=growth, dtype="float32"))


@settings(max_examples=80)
@given(problems(not_negative=True), st.sampled_from(sorted(MODELS)), growths)
def test_every_answer_behind_a_link_lies_in_the_range_of_its_pair(problem, name, growth):
    low, high = (np.log1p(end[tuple(problem.rated.T)]) for end in (problem.lower, problem.upper))
    assume((high - low).max() > 1e-140)  # else no range is left, which is refused in a sentence
    keeps_its_promise(problem, problem.fit(MODELS[name], noise_growth=growth, link="log1p", dtype="float64"))


# --- one range for all ------------------------------------------------------------------------------------------


def one_range(seed, form, low=1.0, high=5.0, n=12, m=9):
    rng = np.random.default_rng(seed)
    mask = rng.random((n + 1, m + 1)) < 0.6
    mask[-1] = mask[:, -1] = False
    mask[:-1, 0] = mask[0, :-1] = True
    rated = np.argwhere(mask)
    shape = mask.shape
    return problem_of(np.full(shape, low), np.full(shape, high), rng.random(len(rated)), rated, form)


@pytest.mark.parametrize("bounds", [(1.0, 5.0), (-3.0, 900.0), (0.0, 1e-9), (1e6, 1e6 + 1)], ids=str)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", [name for name, model in MODELS.items() if isinstance(model, MBMF)])
def test_equal_ranges_are_the_model_with_that_one_range(name, form, bounds):
    problem = one_range(len(form), form, *bounds)
    own = problem.fit(MODELS[name])
    plain = MBMF(**{**MODELS[name].get_params(), "bounds": bounds}).fit(problem.rated, problem.ratings)
    assert np.allclose(own.objectives_, plain.objectives_, rtol=1e-10 if bounds[0] < 1e3 else 1e-6, atol=0)
    difference = problem.predict(own).ravel() - plain.predict(problem.every_pair())
    assert np.abs(difference).max() <= 1e-8 * (bounds[1] - bounds[0])


@pytest.mark.parametrize("link", [None, "log1p"])
@pytest.mark.parametrize("growth", ["auto", 0.0, 0.5, 1.0])
@pytest.mark.parametrize("form", ["item", "pair", "function", "columns", "arguments"])
def test_equal_ranges_are_one_sweep_of_the_sampler_with_that_one_range(form, growth, link):
    """With a growth to learn as well: the draws of p come from the same stream, but after those of a first sweep."""
    problem = one_range(3, form, 0.0, 7.0)
    sampler = {"max_iter": 1, "burn_in": 0, "dtype": "float64", "link": link}
    own = problem.fit(BayesianMBMF(3, random_state=1), noise_growth=growth, **sampler)
    plain = BayesianMBMF(3, random_state=1, bounds=(0, 7), **sampler).fit(problem.rated, problem.ratings)
    assert np.allclose(own.user_factors_, plain.user_factors_, rtol=1e-8, atol=1e-10)
    assert np.allclose(own.item_factors_, plain.item_factors_, rtol=1e-8, atol=1e-10)
    difference = problem.predict(own).ravel() - plain.predict(problem.every_pair())
    assert np.abs(difference).max() <= 1e-8
    if growth != "auto":
        X, beside = problem.given(problem.rated), problem.beside(problem.rated)
        quantiles = own.predict_quantiles(X, **beside) - plain.predict_quantiles(problem.rated)
        assert np.abs(quantiles).max() <= 1e-8
        std = own.predict(X, return_std=True, **beside)[1] - plain.predict(problem.rated, return_std=True)[1]
        assert np.abs(std).max() <= 1e-8


# --- ranges in proportion ---------------------------------------------------------------------------------------


def mixed(seed, form, n=10, m=8):
    """Ranges within two decades, on both sides of zero."""
    rng = np.random.default_rng(seed)
    shape = n + 1, m + 1
    mask = rng.random(shape) < 0.7
    mask[-1] = mask[:, -1] = False
    mask[:-1, 0] = mask[0, :-1] = True
    rated = np.argwhere(mask)
    lower = rng.normal(0, 3, shape)
    return problem_of(lower, lower + 10 ** rng.uniform(-1, 1, shape), rng.random(len(rated)), rated, form)


def scaled(problem, factors):
    rows = factors[tuple(problem.rated.T)]
    return replace(
        problem, lower=problem.lower * factors, upper=problem.upper * factors, ratings=problem.ratings * rows
    )


@pytest.mark.parametrize("name", sorted(MODELS))
@pytest.mark.parametrize("whose", ["item", "user", "pair", "all"])
def test_multiplying_ranges_and_ratings_multiplies_predictions_where_noise_is_in_proportion(name, whose):
    problem = mixed(5, "function")
    factors = np.ones(problem.lower.shape)
    where = {"item": np.s_[:, 2], "user": np.s_[4], "pair": np.s_[0, 0], "all": np.s_[:]}
    factors[where[whose]] = 64.0
    settings = {"noise_growth": 1.0, "dtype": "float64"}
    before, after = problem.fit(MODELS[name], **settings), scaled(problem, factors).fit(MODELS[name], **settings)
    predictions, ends = problem.predict(before), (problem.upper - problem.lower) * factors
    assert np.abs(scaled(problem, factors).predict(after) - factors * predictions).max() <= 1e-8 * ends.max()
    assert np.all(np.abs(scaled(problem, factors).predict(after) - factors * predictions) <= 1e-6 * ends)


def test_noise_that_does_not_grow_lets_wide_ranges_decide():
    """p = 0 counts errors in ratings: a factor on all ranges of an item then changes the others' predictions."""
    problem = mixed(5, "function")
    factors = np.ones(problem.lower.shape)
    factors[:, 2] = 64.0
    before = problem.predict(problem.fit(MODELS["ball"], noise_growth=0.0))
    after = scaled(problem, factors)
    assert np.abs(after.predict(after.fit(MODELS["ball"], noise_growth=0.0)) - factors * before).max() > 1e-3


# --- tables -----------------------------------------------------------------------------------------------------


@given(st.integers(0, 1000), st.sampled_from(["item", "user", "pair"]), st.sampled_from(["ball", "bayesian"]))
@settings(max_examples=20)
def test_the_order_of_a_table_changes_nothing(seed, form, name):
    problem = mixed(seed, form)
    every = problem.every_pair() if form == "pair" else np.arange(problem.lower.shape[form == "item"])[:, None]
    ends = [problem.lower, problem.upper]
    where = {"item": lambda k: (0, k[0]), "user": lambda k: (k[0], 0), "pair": tuple}[form]
    ids = {"item": ["item"], "user": ["user"], "pair": ["user", "item"]}[form]
    rows = [[*key, *(end[where(key)] for end in ends)] for key in every.tolist()]
    table = pd.DataFrame(rows, columns=[*ids, "lower", "upper"]).astype(dict.fromkeys(ids, int))
    shuffled = table.sample(frac=1, random_state=seed)
    kind = {"item": PerItem, "user": PerUser, "pair": PerPair}[form]
    models = [problem.fit(MODELS[name], bounds=kind(one)) for one in (table, shuffled)]
    answers = [problem.predict(model) for model in (*models, problem.fit(MODELS[name]))]
    assert np.array_equal(answers[0], answers[1])
    assert np.array_equal(answers[0], answers[2])
    lists = [model.recommend(n=4) for model in models]
    assert np.array_equal(lists[0][0], lists[1][0])


@pytest.mark.parametrize("form", FORMS)
def test_all_forms_of_the_same_ranges_are_the_same_model(form):
    problem = mixed(7, form)
    same = replace(problem, form="function")
    for name in ("ball", "bayesian"):
        assert np.array_equal(problem.predict(problem.fit(MODELS[name])), same.predict(same.fit(MODELS[name])))


# --- weights ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(MODELS))
@pytest.mark.parametrize("growth", [0.0, 0.5, 1.0])
def test_weights_of_one_change_nothing_and_a_weight_of_zero_leaves_its_range_out(name, growth):
    problem = mixed(2, "pair")
    model = type(MODELS[name])(
        **{**MODELS[name].get_params(), "bounds": problem.bounds, "noise_growth": growth, "dtype": "float64"}
    )
    plain = problem.predict(model.fit(problem.rated, problem.ratings))
    ones = problem.predict(model.fit(problem.rated, problem.ratings, sample_weight=np.ones(len(problem.rated))))
    assert np.array_equal(plain, ones)
    some = np.arange(len(problem.rated)) % 4 > 0
    some[:6] = True
    zeros = problem.predict(model.fit(problem.rated, problem.ratings, sample_weight=some.astype(float)))
    wide = problem.upper.copy()
    wide[tuple(problem.rated[~some].T)] += 1e6
    other = replace(problem, upper=wide)
    model.set_params(bounds=other.bounds)
    changed = other.predict(model.fit(problem.rated, problem.ratings, sample_weight=some.astype(float)))
    here = tuple(problem.rated[some].T)
    assert np.allclose(zeros[here], changed[here], rtol=0, atol=1e-8)


def test_a_range_of_no_width_says_nothing_of_its_user_and_item():
    problem = mixed(9, "pair")
    row = problem.rated[20]
    closed = problem.upper.copy()
    closed[tuple(row)] = problem.lower[tuple(row)]
    shut = replace(problem, upper=closed, ratings=np.where(np.arange(len(problem.rated)) == 20, -7.0, problem.ratings))
    weights = (np.arange(len(problem.rated)) != 20).astype(float)
    for name in ("ball", "bayesian"):
        with pytest.warns(UserWarning, match="1 of .* lie outside their own range"):
            model = shut.fit(MODELS[name])
        left_out = type(model)(**{**MODELS[name].get_params(), "bounds": problem.bounds})
        left_out.fit(problem.rated, problem.ratings, sample_weight=weights)
        difference = shut.predict(model) - problem.predict(left_out)
        difference[tuple(row)] = 0.0
        assert np.abs(difference).max() < 1e-8
        assert shut.predict(model)[tuple(row)] == problem.lower[tuple(row)]
