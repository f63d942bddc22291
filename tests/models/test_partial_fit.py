"""Ratings that come after the fit."""

import copy
import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from test_fold_in import ALL, MODELS, full_half_step, learned, ratings, same_model

from boundrec import MBMF, Ratings, load
from boundrec.models.fitted import Fitted

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

#: A known user and a new one rate a known item and a new one; a pair is rated again.
NEW_X, NEW_Y = (
    [(101, 1003), (101, "new"), (7, 1003), (7, 1004), (7, "new"), (104, 1004)],
    [5.0, 2.0, 4.0, 1.0, 3.0, 3.0],
)


def fit(name, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return clone(ALL[name]).set_params(max_iter=4, random_state=0).fit(X, y)


@pytest.fixture(params=MODELS, ids=str)
def fitted(request):
    X, y = ratings()
    return fit(request.param, X, y)


@pytest.fixture(params=ALL, ids=str)
def any_fitted(request):
    X, y = ratings()
    return fit(request.param, X, y)


def codes_of_new(model):
    return model.user_ids_.codes([101, 7, 104]), model.item_ids_.codes([1003, "new", 1004])


def with_rows(fitted, kind, held, rows):
    """A model of which some rows of a side are what they were before."""
    changed = {}
    for name in ("factors", "biases"):
        if getattr(held, name) is not None:
            changed[name] = getattr(fitted.side(kind), name).copy()
            changed[name][rows] = getattr(held, name)[rows]
    return replace(fitted, **{f"{kind}s": replace(fitted.side(kind), **changed)})


def test_rows_with_new_ratings_are_those_of_full_half_steps_on_all_ratings(fitted):
    """Fold in the new user, a half-step over all items, a half-step over all users: the same rows come out."""
    model, before = fitted, copy.copy(fitted)
    model.set_params(on_contradiction="keep")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.partial_fit(NEW_X, NEW_Y)
    for kind, n in (("user", 30), ("item", 20)):
        assert np.array_equal(getattr(model, f"{kind}_magnitudes_")[:n], getattr(before, f"{kind}_magnitudes_"))
    full, now = copy.copy(model), model.fitted_
    bare = Fitted.before_the_first_sweep(now.ratings, now.ratings, now.ranges)
    full._learned = model._with_new_rows(bare, before.fitted_, now.seen)
    users, items = codes_of_new(model)
    for kind, rows in (("user", [30]), ("item", items), ("user", np.arange(31))):
        held = full.fitted_.side(kind)
        full_half_step(full, kind)
        others = np.delete(np.arange(len(held.ids)), rows)
        full._learned = with_rows(full.fitted_, kind, held, others)
    assert np.allclose(model.item_factors_, full.item_factors_, atol=1e-6)
    assert np.allclose(model.user_factors_[users], full.user_factors_[users], atol=1e-6)


def test_all_other_rows_keep_their_bits(any_fitted):
    fitted, before = any_fitted, learned(any_fitted)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert fitted.partial_fit(NEW_X, NEW_Y) is fitted
    users, items = codes_of_new(fitted)
    assert (fitted.n_users_, fitted.n_items_) == (31, 21)
    now = learned(fitted)
    for kind, n, changed in (("user", 30, users), ("item", 20, items)):
        rest = np.delete(np.arange(n), changed[changed < n])
        for name in ("factors", "biases", "spread", "magnitudes"):
            if f"{kind}_{name}" in before:
                assert np.array_equal(now[f"{kind}_{name}"][rest], before[f"{kind}_{name}"][rest])
    assert not np.array_equal(fitted.user_factors_[1], before["user_factors"][1])


def test_every_prediction_stays_inside_its_range(any_fitted):
    fitted = any_fitted
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted.partial_fit(NEW_X, NEW_Y)
    pairs = [(u, i) for u in fitted.user_ids_.ids.tolist() for i in fitted.item_ids_.ids.tolist()]
    prediction, lower, upper = fitted.predict(pairs, return_range=True)
    assert np.all((lower <= prediction) & (prediction <= upper))
    low, high = fitted.bounds or (None, None)
    assert low is None or fitted.form == "n" or lower.min() >= low
    assert high is None or upper.max() <= high


def test_new_ratings_are_learnt():
    model = fit("ball", *ratings()).partial_fit(NEW_X, NEW_Y)
    assert np.mean((model.predict(NEW_X) - NEW_Y) ** 2) < 0.5 * np.var(NEW_Y)


@given(st.integers(0, 1000), st.integers(1, 40))
def test_the_model_holds_the_ratings_of_all_with_the_new_ones_in_place_of_old(seed, n):
    rng = np.random.default_rng(seed)
    X, y = ratings()
    cells = rng.choice(35 * 25, n, replace=False)
    X_new = np.column_stack([cells // 25 + 100, cells % 25 + 1000])
    y_new = rng.integers(1, 6, n).astype(float)
    model = fit("ball", X, y).partial_fit(X_new, y_new)
    everything = Ratings.from_pairs(np.vstack([X, X_new]), np.append(y, y_new), duplicates="last")
    assert as_dict(model.fitted_.ratings) == as_dict(everything)
    assert model.mean_ == pytest.approx(everything.by_user.data.mean())
    assert np.array_equal(model.fitted_.seen.indices, model.fitted_.ratings.by_user.indices)
    assert np.isfinite(model.predict(X_new)).all()


def as_dict(ratings):
    X, y = ratings.to_pairs()
    return dict(zip(map(tuple, X.tolist()), y.tolist(), strict=True))


def test_several_steps_are_as_good_as_one_in_what_they_hold():
    model, at_once = fit("biases", *ratings()), fit("biases", *ratings())
    for pair, rating in zip(NEW_X, NEW_Y, strict=True):
        model.partial_fit([pair], [rating])
    at_once.partial_fit(NEW_X, NEW_Y)
    assert as_dict(model.fitted_.ratings) == as_dict(at_once.fitted_.ratings)
    assert np.allclose(model.user_means_, at_once.user_means_)


def test_on_a_model_that_is_not_fitted_it_is_fit():
    X, y = ratings()
    weights = np.linspace(0.5, 1.5, len(y))
    model = MBMF(4, bounds=(1, 5), max_iter=3, random_state=0)
    fitted = clone(model).fit(X, y, sample_weight=weights)
    assert np.array_equal(model.partial_fit(X, y, sample_weight=weights).user_factors_, fitted.user_factors_)


def test_weights_of_old_and_new_ratings_stay_with_them():
    X, y = ratings()
    plain = MBMF(4, bounds=(1, 5), max_iter=3, random_state=0).fit(X, y)
    plain.partial_fit(NEW_X, NEW_Y, sample_weight=[3, 1, 1, 1, 1, 2])
    found = dict(zip(as_dict(plain.fitted_.ratings), plain.fitted_.ratings.by_user.weights.tolist(), strict=True))
    assert {pair: w for pair, w in found.items() if w != 1} == {(101, 1003): 3.0, (104, 1004): 2.0}
    assert len(found) == plain.fitted_.ratings.n_ratings


def test_views_made_before_keep_their_items():
    model = fit("ball", *ratings())
    view = model.fold_in([("eve", 1003), ("eve", 1004)], [5, 1])
    before = learned(view)
    model.partial_fit(NEW_X, NEW_Y)
    assert same_model(view, before)


def test_matrices_add_ratings_as_pairs_do():
    X, y = ratings()
    matrix = sp.csr_array((y, (X[:, 0] - 100, X[:, 1] - 1000)), shape=(30, 20))
    new = sp.csr_array(([5.0, 1.0], ([2, 31], [3, 4])), shape=(32, 20))
    model = MBMF(4, bounds=(1, 5), max_iter=3, random_state=0).fit(matrix).partial_fit(new)
    pairs = MBMF(4, bounds=(1, 5), max_iter=3, random_state=0).fit(matrix).partial_fit([(2, 3), (31, 4)], [5, 1])
    assert np.array_equal(model.predict([(2, 7), (31, 7)]), pairs.predict([(2, 7), (31, 7)]))
    assert np.isnan(model.set_params(on_unknown="nan").predict([(30, 7)]))


def test_contradictions_are_settled_and_what_is_dropped_is_still_seen():
    X, y = ratings()
    y = np.where(y > 3, 3.5, 2.5)  # history leaves narrow ranges
    model = MBMF(3, bounds=(1, 5), magnitudes="history", max_iter=2, random_state=0).fit(X, y)
    new = [("new", 1000), ("new", 1001)], [5.0, 3.0]
    with pytest.warns(UserWarning, match="1 of 2 ratings lie outside their own range"):
        copy.copy(model).partial_fit(*new)
    with pytest.raises(ValueError, match="outside their own range"):
        model.set_params(on_contradiction="raise").partial_fit(*new)
    widened = copy.copy(model).set_params(on_contradiction="widen").partial_fit(*new)
    assert widened.predict_range([("new", 1000)])[1][0] >= 5 * (1 - 1e-8)
    assert np.array_equal(widened.item_magnitudes_, model.item_magnitudes_)
    dropped = model.set_params(on_contradiction="drop").partial_fit(*new)
    assert ("new", 1000) not in as_dict(dropped.fitted_.ratings)
    assert dropped.item_ids_.ids[dropped.fitted_.seen.indices[dropped.fitted_.seen.indptr[30] :]].tolist() == [
        1000,
        1001,
    ]
    dropped.partial_fit([("new", 1002)], [3.0])
    assert dropped.fitted_.seen.indices[dropped.fitted_.seen.indptr[30] :].size == 3


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (([("new", 1000)], [7.0]), r"outside the declared bounds \(1.0, 5.0\)"),
        (([("new", 1000)] * 2, [1.0, 2.0]), "pair that was rated before"),
        (([("new", 1000)], None), "y is missing"),
    ],
)
def test_bad_ratings_are_refused_and_leave_the_model_as_it_was(arguments, sentence):
    model = fit("ball", *ratings())
    before = learned(model)
    with pytest.raises(ValueError, match=sentence):
        model.partial_fit(*arguments)
    assert same_model(model, before)
    assert model.n_users_ == 30


def test_an_interrupted_update_leaves_the_model_as_it_was(monkeypatch):
    model = fit("biases", *ratings())
    before, held = learned(model), model.fitted_.ratings

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(model, "_solved", interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(NEW_X, NEW_Y)
    assert same_model(model, before)
    assert model.fitted_.ratings is held


def test_without_the_ratings_of_the_fit_a_sentence_says_where_they_are_kept():
    model = fit("ball", *ratings())
    view = model.fold_in([("new", 1000)], [3.0])
    with pytest.raises(ValueError, match="keep_ratings=True"):
        view.partial_fit([("new", 1001)], [3.0])


def test_a_model_from_a_file_takes_new_ratings_as_before_if_it_has_its_old_ones(any_fitted, tmp_path):
    any_fitted.save(tmp_path / "with.safetensors", keep_ratings=True)
    any_fitted.save(tmp_path / "without.safetensors")
    loaded, without = (load(tmp_path / f"{name}.safetensors") for name in ("with", "without"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        view, view_before = without.fold_in(NEW_X[2:4], NEW_Y[2:4]), any_fitted.fold_in(NEW_X[2:4], NEW_Y[2:4])
        any_fitted.partial_fit(NEW_X, NEW_Y)
        loaded.partial_fit(NEW_X, NEW_Y)
    assert same_model(loaded, learned(any_fitted))
    assert np.array_equal(view.predict(NEW_X[2:4]), view_before.predict(NEW_X[2:4]))
    with pytest.raises(ValueError, match="save the model with keep_ratings=True"):
        without.partial_fit(NEW_X, NEW_Y)
