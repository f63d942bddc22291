"""What models do around a fit where every pair has a range of its own: scikit-learn, files, new ratings, stopping."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_validate

from boundrec import MBMF, BayesianMBMF, PerItem, PerPair, PerUser, load
from own_ranges import FORMS, MODELS, QUIET, inside, problem_of, problems

pytestmark = [pytest.mark.filterwarnings(text) for text in QUIET]
BOTH = ("ball", "bayesian")
WITH_ROWS = ("names", "names polars", "columns", "arguments")


def made(form, seed=1, n=14, m=10):
    rng = np.random.default_rng(seed)
    shape = n + 1, m + 1
    mask = rng.random(shape) < 0.6
    mask[-1] = mask[:, -1] = False
    mask[:-1, 0] = mask[0, :-1] = True
    rated = np.argwhere(mask)
    lower = rng.normal(0, 3, shape)
    return problem_of(lower, lower + 10 ** rng.uniform(-1, 1, shape), rng.random(len(rated)), rated, form)


# --- scikit-learn -------------------------------------------------------------------------------------------------


def columns_of(problem, library):
    users, items = problem.rated.T
    low, high = problem.lower[users, items], problem.upper[users, items]
    if library == "numpy":
        return np.column_stack([users, items, low, high]), "columns"
    frame = {"who": users, "what": items, "least": low, "seats": high}
    return (pd if library == "pandas" else pl).DataFrame(frame), ("least", "seats")


@pytest.mark.parametrize("library", ["numpy", "pandas", "polars"])
@pytest.mark.parametrize("name", BOTH)
@pytest.mark.parametrize("scoring", [None, "neg_root_mean_squared_error", ["r2", "neg_mean_absolute_error"]], ids=str)
def test_cross_validation_takes_ranges_in_columns(name, library, scoring):
    problem = made("columns")
    X, bounds = columns_of(problem, library)
    model = clone(MODELS[name]).set_params(bounds=bounds)
    found = cross_validate(model, X, problem.ratings, cv=3, scoring=scoring, error_score="raise")
    assert all(np.isfinite(values).all() for key, values in found.items() if key.startswith("test"))


@pytest.mark.parametrize("library", ["numpy", "pandas", "polars"])
@pytest.mark.parametrize("name", BOTH)
def test_a_search_over_the_growth_of_noise_takes_ranges_in_columns(name, library):
    problem = made("columns")
    X, bounds = columns_of(problem, library)
    model = clone(MODELS[name]).set_params(bounds=bounds)
    grid = {"noise_growth": [0.0, 0.5, 1.0, "auto"]}
    search = GridSearchCV(model, grid, cv=3, scoring="neg_root_mean_squared_error", error_score="raise")
    search.fit(X, problem.ratings)
    scores = search.cv_results_["mean_test_score"]
    assert np.isfinite(scores).all()
    assert len(set(scores[:3])) == 3  # it makes a difference
    predictions = search.predict(X)
    assert inside(predictions, problem.lower[tuple(problem.rated.T)], problem.upper[tuple(problem.rated.T)])


def test_all_libraries_give_the_same_scores():
    problem = made("columns")
    answers = []
    for library in ("numpy", "pandas", "polars"):
        X, bounds = columns_of(problem, library)
        model = clone(MODELS["ball"]).set_params(bounds=bounds)
        answers.append(cross_validate(model, X, problem.ratings, cv=3, scoring="r2")["test_score"])
    assert np.array_equal(answers[0], answers[1])
    assert np.array_equal(answers[0], answers[2])


@pytest.mark.parametrize("name", BOTH)
def test_ranges_beside_the_rows_are_routed_to_fit_and_score(name):
    problem = made("arguments")
    beside = problem.beside(problem.rated)
    with sklearn.config_context(enable_metadata_routing=True):
        model = clone(MODELS[name]).set_fit_request(lower=True, upper=True).set_score_request(lower=True, upper=True)
        found = cross_validate(
            model, problem.rated, problem.ratings, cv=3, params=beside, scoring=None, error_score="raise"
        )
        search = GridSearchCV(model, {"noise_growth": [0.0, 1.0]}, cv=3, scoring=None, error_score="raise", refit=True)
        search.fit(problem.rated, problem.ratings, **beside)
    in_columns = replace(problem, form="columns")
    other = cross_validate(
        clone(MODELS[name]).set_params(bounds="columns"), in_columns.given(problem.rated), problem.ratings, cv=3
    )
    assert np.array_equal(found["test_score"], other["test_score"])
    assert inside(
        search.best_estimator_.predict(problem.rated, **beside),
        *(end[tuple(problem.rated.T)] for end in (problem.lower, problem.upper)),
    )


@pytest.mark.parametrize("form", FORMS)
def test_a_clone_has_the_same_settings_and_learns_the_same(form):
    problem = made(form)
    model = MBMF(2, bounds=problem.bounds, noise_growth=0.5, link=None, max_iter=3, random_state=0)
    copied = clone(model)
    assert {key: value for key, value in copied.get_params().items() if key != "bounds"} == {
        key: value for key, value in model.get_params().items() if key != "bounds"
    }
    assert repr(copied)  # a rule among the settings can be printed
    assert np.array_equal(problem.predict(problem.fit(copied)), problem.predict(problem.fit(model)))
    fitted = model.fit(problem.given(problem.rated), problem.ratings, **problem.beside(problem.rated))
    again = clone(fitted).fit(problem.given(problem.rated), problem.ratings, **problem.beside(problem.rated))
    assert np.array_equal(problem.predict(again), problem.predict(fitted))


def test_a_score_is_that_of_predictions_in_their_ranges():
    problem = made("arguments")
    model = problem.fit(MODELS["ball"])
    from sklearn.metrics import r2_score

    beside = problem.beside(problem.rated)
    weights = np.linspace(1, 2, len(problem.rated))
    predictions = model.predict(problem.rated, **beside)
    assert model.score(problem.rated, problem.ratings, **beside) == r2_score(problem.ratings, predictions)
    weighted = model.score(problem.rated, problem.ratings, sample_weight=weights, **beside)
    assert weighted == r2_score(problem.ratings, predictions, sample_weight=weights)


# --- files --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keep_ratings", [False, True])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["ball", "sphere", "bayesian"])
def test_a_file_holds_every_kind_of_rule(name, form, keep_ratings, tmp_path):
    problem = made(form)
    model = problem.fit(MODELS[name])
    path = tmp_path / "model.safetensors"
    model.save(path, keep_ratings=keep_ratings)
    given = {}
    if form == "function":
        with pytest.raises(ValueError, match=r"ranges come from a function.*pass that to load as its bounds"):
            load(path)
        given = {"bounds": problem.bounds}
    else:
        with pytest.raises(ValueError, match="bounds= is for models whose ranges come from a function"):
            load(path, bounds=lambda users, items: (0, 1))
    loaded = load(path, **given)
    assert np.array_equal(problem.predict(loaded), problem.predict(model))
    assert np.array_equal(loaded.recommend(n=5, **problem.listing)[0], model.recommend(n=5, **problem.listing)[0])
    assert loaded.noise_growth == model.noise_growth
    if keep_ratings:
        new = np.array([(200, 1), (3, 2)])
        rows = {"lower": [0.0, 0.0], "upper": [5.0, 5.0]}
        for one in (loaded, model):
            one.partial_fit(new, [1.0, 4.0], **rows)
        assert np.array_equal(problem.predict(loaded), problem.predict(model))
    # A model from a file may be fitted again, and saved again.
    again = loaded.fit(problem.given(problem.rated), problem.ratings, **problem.beside(problem.rated))
    assert np.array_equal(problem.predict(again), problem.predict(problem.fit(MODELS[name])))
    again.save(path)
    assert np.array_equal(problem.predict(load(path, **given)), problem.predict(again))


@pytest.mark.parametrize("form", ["item", "pair", "function"])
def test_a_file_holds_the_growth_of_noise_with_its_scale(form, tmp_path):
    problem = made(form)
    model = problem.fit(MODELS["bayesian"], link=None)
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model", **({"bounds": problem.bounds} if form == "function" else {}))
    every = problem.every_pair()
    assert np.array_equal(loaded.predict_quantiles(every), model.predict_quantiles(every))
    assert np.array_equal(loaded.predict(every, return_std=True)[1], model.predict(every, return_std=True)[1])


# --- new ratings ----------------------------------------------------------------------------------------------------


def of_new_users(problem):
    """The problem without its last three users, and their ratings."""
    late = problem.rated[:, 0] >= len(problem.lower) - 4
    early = replace(problem, rated=problem.rated[~late], ratings=problem.ratings[~late])
    return early, problem.rated[late], problem.ratings[late]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["ball", "sphere", "restarts", "bayesian"])
def test_new_users_and_items_are_bounded_by_their_own_ranges(name, form):
    problem = made(form)
    early, pairs, ratings = of_new_users(problem)
    every = problem.every_pair()
    model = early.fit(MODELS[name], bounds=problem.bounds)
    before = early.predict(model)
    view = model.fold_in(problem.given(pairs), ratings, **problem.beside(pairs))
    assert inside(problem.predict(view).ravel(), problem.lower.ravel(), problem.upper.ravel())
    assert np.array_equal(early.predict(model), before)  # the model itself stays as it was
    assert set(view.user_ids_.ids.tolist()) == set(pairs[:, 0].tolist())
    model.partial_fit(problem.given(pairs), ratings, **problem.beside(pairs))
    assert inside(problem.predict(model).ravel(), problem.lower.ravel(), problem.upper.ravel())
    items, scores = model.recommend(pairs[:, 0], n=50, **problem.listing)
    for user, row, values in zip(pairs[:, 0], items, scores, strict=True):
        row, values = row[row >= 0], values[row >= 0]
        assert inside(values, problem.lower[user, row], problem.upper[user, row])
    if name == "bayesian":
        quantiles = model.predict_quantiles(problem.given(every), **problem.beside(every))
        assert inside(quantiles, problem.lower.reshape(-1, 1), problem.upper.reshape(-1, 1))


@pytest.mark.parametrize("name", BOTH)
def test_known_users_folded_in_again_get_the_row_of_the_fit(name):
    """The last half-step of a fit solves users given items, which is what folding in does."""
    problem = made("pair")
    model = problem.fit(MODELS["ball"], dtype="float64", noise_growth=0.5, max_iter=50, tol=0.0)
    view = model.fold_in(problem.rated, problem.ratings)
    assert np.allclose(problem.predict(view)[:-1], problem.predict(model)[:-1], atol=1e-6)


def test_ranges_that_are_equal_fold_in_as_one_range_does():
    problem = made("pair")
    shape = problem.lower.shape
    same = problem_of(np.zeros(shape), np.full(shape, 5.0), np.random.default_rng(0).random(len(problem.rated)),
                      problem.rated, "pair")  # fmt: skip
    early, pairs, ratings = of_new_users(same)
    for name in BOTH:
        own = early.fit(MODELS[name], dtype="float64", noise_growth=1.0)
        plain = type(own)(**{**own.get_params(), "bounds": (0, 5)}).fit(early.rated, early.ratings)
        views = own.fold_in(pairs, ratings), plain.fold_in(pairs, ratings)
        assert np.allclose(same.predict(views[0]).ravel(), views[1].predict(same.every_pair()), atol=1e-8)
        own.partial_fit(pairs, ratings)
        plain.partial_fit(pairs, ratings)
        assert np.allclose(same.predict(own).ravel(), plain.predict(same.every_pair()), atol=1e-8)


# --- ratings outside their own range ---------------------------------------------------------------------------------


def contradicted(form):
    """Three ratings that lie above their ranges."""
    problem = made(form)
    ratings = problem.ratings.copy()
    upper = problem.upper[tuple(problem.rated.T)]
    rows = np.flatnonzero((problem.rated > 0).all(axis=1))[[0, 5, 12]]  # not the first of a user or an item
    ratings[rows] = upper[rows] + [0.5, 2.0, 30.0]
    return replace(problem, ratings=ratings), rows


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", BOTH)
def test_ratings_outside_their_range_are_kept_and_counted(name, form):
    problem, _ = contradicted(form)
    with pytest.warns(UserWarning, match=rf"3 of {len(problem.rated)} ratings lie outside their own range") as said:
        model = problem.fit(MODELS[name])
    assert len([one for one in said if "outside" in str(one.message)]) == 1
    assert model.infeasible_share_ == 3 / len(problem.rated)
    assert inside(problem.predict(model), problem.lower, problem.upper)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", BOTH)
def test_ranges_are_widened_to_hold_their_ratings(name, form, tmp_path):
    problem, rows = contradicted(form)
    model = problem.fit(MODELS[name], on_contradiction="widen")
    assert model.infeasible_share_ == 3 / len(problem.rated)
    wider = problem.upper.copy()
    if form not in WITH_ROWS:  # those ask for the range of a row in each prediction
        wider[tuple(problem.rated[rows].T)] = problem.ratings[rows]
    assert inside(problem.predict(model), problem.lower, wider)
    _, high = model.predict_range(problem.given(problem.rated), **problem.beside(problem.rated))
    held = wider[tuple(problem.rated.T)]
    assert np.all(high <= held)
    if form not in WITH_ROWS:
        magnitudes = problem.fit(MODELS[name], on_contradiction="widen", magnitudes="range")
        _, high = magnitudes.predict_range(problem.given(problem.rated))
        assert np.allclose(high[rows], problem.ratings[rows])
    items, scores = model.recommend(n=50, exclude_seen=False, **problem.listing)
    for user, row, values in zip(model.user_ids_.ids, items, scores, strict=True):
        row, values = row[row >= 0], values[row >= 0]
        assert inside(values, problem.lower[user, row], wider[user, row])
    model.save(tmp_path / "model", keep_ratings=True)
    loaded = load(tmp_path / "model", **({"bounds": problem.bounds} if form == "function" else {}))
    assert np.array_equal(problem.predict(loaded), problem.predict(model))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", BOTH)
def test_ratings_outside_their_range_are_dropped_or_refused(name, form):
    problem, rows = contradicted(form)
    model = problem.fit(MODELS[name], on_contradiction="drop", dtype="float64")
    rest = np.setdiff1d(np.arange(len(problem.rated)), rows)
    other = replace(problem, rated=problem.rated[rest], ratings=problem.ratings[rest])
    same = other.fit(MODELS[name], dtype="float64")
    if form != "pair with default":  # whose default is for pairs that are not rated
        assert np.allclose(problem.predict(model), problem.predict(same), atol=1e-8)
    assert inside(problem.predict(model), problem.lower, problem.upper)
    with pytest.raises(ValueError, match=r"3 of .* ratings lie outside their own range \(first: user .*Pass on_contra"):
        problem.fit(MODELS[name], on_contradiction="raise")


@pytest.mark.parametrize("how", ["keep", "widen", "drop", "raise"])
@pytest.mark.parametrize("form", ["item", "pair", "function", "columns", "arguments"])
@pytest.mark.parametrize("name", BOTH)
def test_new_ratings_outside_their_range_are_dealt_with_as_in_a_fit(name, form, how):
    problem = made(form)
    early, pairs, ratings = of_new_users(problem)
    model = early.fit(MODELS[name], on_contradiction=how, bounds=problem.bounds)
    outside = ratings.copy()
    outside[0] = problem.upper[tuple(pairs[0])] + 3.0
    wider = problem.upper.copy()
    if how == "widen" and form in ("item", "pair", "function"):
        wider[tuple(pairs[0])] = outside[0]
    for take in (model.fold_in, model.partial_fit):
        if how == "raise":
            with pytest.raises(ValueError, match=r"1 of .* ratings lie outside their own range"):
                take(problem.given(pairs), outside, **problem.beside(pairs))
            continue
        if how == "keep":
            with pytest.warns(UserWarning, match="1 of .* ratings lie outside their own range"):
                taken = take(problem.given(pairs), outside, **problem.beside(pairs))
        else:
            taken = take(problem.given(pairs), outside, **problem.beside(pairs))
        assert inside(problem.predict(taken), problem.lower, wider)
        if how == "widen" and form in ("item", "pair", "function"):
            low, high = taken.fitted_.rule.ends(pairs[:1, 0], pairs[:1, 1])
            assert (low[0], high[0]) == (problem.lower[tuple(pairs[0])], outside[0])


# --- stopping, and going on -------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", BOTH)
def test_an_eval_set_is_evaluated_in_its_ranges(name, form):
    problem = made(form)
    chosen = np.arange(len(problem.rated)) % 5 == 4
    train = replace(problem, rated=problem.rated[~chosen], ratings=problem.ratings[~chosen])
    pairs, ratings = problem.rated[chosen], problem.ratings[chosen]
    X = problem.given(pairs)
    if form == "arguments":  # which have no place in an eval_set: ranges there come as columns
        X = replace(problem, form="columns").given(pairs)
    model = type(MODELS[name])(**{**MODELS[name].get_params(), "bounds": problem.bounds, "n_iter_no_change": None})
    model.fit(train.given(train.rated), train.ratings, eval_set=(X, ratings), **train.beside(train.rated))
    predictions = model.predict(problem.given(pairs), **problem.beside(pairs))
    error = np.sqrt(np.mean((predictions - ratings) ** 2))
    if name == "ball":
        assert model.eval_errors_[-1] == pytest.approx(error)
    else:
        low, high = problem.lower[tuple(pairs.T)], problem.upper[tuple(pairs.T)]
        assert inside(model.eval_predictions_, low, high)
        assert model.eval_errors_[-1] == pytest.approx(np.sqrt(np.mean((model.eval_predictions_ - ratings) ** 2)))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", BOTH)
def test_a_part_may_be_set_aside_for_validation(name, form):
    problem = made(form)
    model = problem.fit(MODELS[name], validation_fraction=0.2, n_iter_no_change=2)
    assert len(model.eval_errors_) == model.n_iter_
    assert inside(problem.predict(model), problem.lower, problem.upper)


@pytest.mark.parametrize("growth", ["auto", 0.5])
@pytest.mark.parametrize("form", ["item", "pair", "columns", "arguments"])
def test_sampling_goes_on_where_it_stopped(form, growth):
    problem = made(form)
    settings = {"bounds": problem.bounds, "noise_growth": growth, "burn_in": 0, "dtype": "float64", "random_state": 0}
    half = BayesianMBMF(2, max_iter=4, n_kept=4, warm_start=True, **settings)
    given = problem.given(problem.rated), problem.ratings
    half.fit(*given, **problem.beside(problem.rated)).fit(*given, **problem.beside(problem.rated))
    whole = BayesianMBMF(2, max_iter=8, n_kept=8, **settings).fit(*given, **problem.beside(problem.rated))
    assert np.allclose(problem.predict(half), problem.predict(whole), atol=1e-8)
    assert np.allclose(half.objectives_, whole.objectives_, rtol=1e-8)
    assert np.allclose(half.noise_variances_, whole.noise_variances_, rtol=1e-8)
    assert half.fitted_.ranges.scale.growth == pytest.approx(whole.fitted_.ranges.scale.growth)


def test_a_callback_sees_predictions_in_their_ranges():
    problem = made("pair")
    seen = []

    def callback(sweep, objective, model):
        seen.append(inside(problem.predict(model), problem.lower, problem.upper))

    for name in BOTH:
        model = type(MODELS[name])(**{**MODELS[name].get_params(), "bounds": problem.bounds})
        model.fit(problem.rated, problem.ratings, callback=callback)
    assert len(seen) > 4
    assert all(seen)


def test_any_number_of_threads_learns_the_same():
    problem = made("pair", n=60, m=50)
    for name in BOTH:
        one, two = (problem.predict(problem.fit(MODELS[name], n_jobs=n)) for n in (1, 2))
        assert np.array_equal(one, two)


@pytest.mark.parametrize("kind", [PerItem, PerUser, PerPair])
def test_ids_may_be_words(kind, tmp_path):
    X = [("ann", "tea"), ("ann", "rum"), ("bob", "tea"), ("bob", "gin"), ("eve", "rum"), ("eve", "gin")]
    tables = {
        PerItem: {"tea": (0, 10), "rum": (0, 3), "gin": (-1, 1)},
        PerUser: {"ann": (0, 10), "bob": (0, 3), "eve": (0, 1)},
        PerPair: {pair: (0, 5 + number) for number, pair in enumerate(X)},
    }
    y = [0.5, 1, 0.7, 0.3, 0.9, 0.2]
    model = MBMF(2, bounds=kind(tables[kind]), max_iter=3, random_state=0).fit(X, y)
    model.save(tmp_path / "model")
    assert np.array_equal(load(tmp_path / "model").predict(X), model.predict(X))


@settings(max_examples=40)
@given(problems(forms=("item", "user", "pair", "pair with default", "columns")), st.sampled_from(sorted(MODELS)))
def test_a_file_holds_ranges_of_any_scale(tmp_path_factory, problem, name):
    path = tmp_path_factory.mktemp("models") / "model"
    model = problem.fit(MODELS[name], dtype="float64")
    model.save(path, keep_ratings=True)
    assert np.array_equal(problem.predict(load(path)), problem.predict(model))


# --- pairs that nobody has seen ----------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [MBMF, BayesianMBMF])
def test_unknown_pairs_get_the_share_that_wide_ranges_have_and_not_that_of_the_many_narrow_ones(model):
    """Half of the users have narrow ranges and leave them empty, the others wide ones that they fill."""
    rng = np.random.default_rng(0)
    X = np.array([(user, item) for user in range(40) for item in rng.permutation(30)[:12]])
    wide = X[:, 0] % 2 == 0
    seats = np.where(wide, 1000.0, 1.0)
    y = seats * np.where(wide, 0.8, 0.1) * rng.uniform(0.9, 1.1, len(X))
    one_noise = {"noise": "one"} if model is BayesianMBMF else {}
    fitted = model(3, noise_growth=0.5, random_state=0, **one_noise).fit(X, y, lower=0, upper=seats)
    unknown = [(-5, -5), (0, -5), (-5, 0)]
    prediction, lower, upper = fitted.predict(unknown, True, lower=0, upper=1)
    assert prediction == pytest.approx([0.8, 0.8, 0.8], abs=0.05)
    assert np.all((lower <= prediction) & (prediction <= upper))
    if model is BayesianMBMF:
        middle = fitted.predict_quantiles(unknown, 0.5, lower=0, upper=1)[:, 0]
        assert middle == pytest.approx(prediction, abs=0.05)


@pytest.mark.parametrize("container", [list, np.array])
def test_rows_of_three_columns_have_their_capacity_in_the_third(container):
    rows = container([(0, 0, 4.0), (0, 1, 9.0), (1, 0, 2.0), (2, 1, 7.0)])
    y = [3.0, 9.0, 0.0, 2.0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MBMF(2, bounds=(0, "seats"), random_state=0).fit(rows, y)
    assert np.all(model.predict(rows) <= [4, 9, 2, 7])
    with pytest.raises(ValueError, match="give it three columns"):
        model.predict(container([(0, 0, -50.0, 4.0)]))
