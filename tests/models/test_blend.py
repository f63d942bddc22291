"""Lists by affinity and rating together, and by lower bounds: against slow twins that score every pair and sort."""

import copy
import functools
import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from boundrec import MBMF, MF, BayesianMBMF, ImplicitMBMF, PerItem, Ratings
from boundrec.models import answers, blend
from boundrec.ranges.scale import Scale
from boundrec.top_n import Lists, reordered

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

CLOSE = 1e-9
QUICK = {"affinity": True, "max_iter": 6, "random_state": 0}
ITEMS = range(1000, 1020)
MODELS = {
    "stars": BayesianMBMF(3, bounds=(1, 5), **QUICK),
    "exact": MBMF(3, bounds=(1, 5), **QUICK),
    "one-sided": MBMF(3, bounds=(0, None), on_contradiction="widen", **QUICK),
    "no bounds": MBMF(3, on_contradiction="widen", **QUICK),
    "logarithms": BayesianMBMF(3, bounds=(0, None), link="log1p", **QUICK),
    "own ranges": BayesianMBMF(3, bounds=PerItem({item: (0, 5 + item % 3) for item in ITEMS}), **QUICK),
}


@functools.cache
def data():
    """Two kinds of people, who rate mostly what is of their own kind; ids are not row numbers."""
    rng = np.random.default_rng(0)
    own = np.add.outer(np.arange(30), np.arange(20)) % 2 == 0
    users, items = np.nonzero(rng.random((30, 20)) < np.where(own, 0.6, 0.1))
    return np.column_stack([users + 100, items + 1000]), rng.integers(1, 6, len(users)).astype(float)


@functools.cache
def fitted(name):
    return clone(MODELS[name]).fit(*data())


@pytest.fixture(params=MODELS, ids=str)
def model(request):
    return fitted(request.param)


def all_pairs(model):
    users, items = model.user_ids_.ids, model.item_ids_.ids
    return np.column_stack([np.repeat(users, len(items)), np.tile(items, len(users))])


def own_values(model, ratings, items):
    """Ratings on the scale that the model factorises, one by one."""
    values = []
    for rating, item in zip(ratings.tolist(), items.tolist(), strict=True):
        if model.fitted_.rule is not None:
            half = (5 + item % 3) / 2
            values.append(model.fitted_.ranges.scale.width * (rating - half) / half)
        else:
            values.append(np.log1p(rating) if model.link else rating)
    return np.array(values)


def blended(model, weight=None):
    """Every pair's score, as the page prints it, a row for each user."""
    X, (train, y) = all_pairs(model), data()
    trained = own_values(model, y, train[:, 1])
    share = (own_values(model, model.predict(X), X[:, 1]) - trained.mean()) / (4 * trained.std())
    scores = model.affinity_.predict(X) + (model.rating_weight if weight is None else weight) * np.clip(share, -1, 1)
    return scores.reshape(model.n_users_, model.n_items_)


def seen(model):
    found = np.zeros((model.n_users_, model.n_items_), bool)
    X, _ = data()
    found[model.user_ids_.codes(X[:, 0]), model.item_ids_.codes(X[:, 1])] = True
    return found


def best(scores, n, out=None):
    """Column numbers and scores of the n best of each row, with those left out at −inf."""
    scores = scores if out is None else np.where(out, -np.inf, scores)
    columns = np.argsort(-scores, axis=1, kind="stable")[:, :n]
    return columns, np.take_along_axis(scores, columns, axis=1)


# --- the blend --------------------------------------------------------------------------------------------------


def test_the_blend_is_affinity_and_the_share_of_the_rating_of_every_pair_sorted(model):
    assert model.n_items_ < blend.CANDIDATES
    items, scores = model.recommend(n=5)
    _, wanted = best(blended(model), 5, seen(model))
    assert np.allclose(scores, wanted, rtol=0, atol=CLOSE)
    by_pair = blended(model)[np.arange(model.n_users_)[:, None], model.item_ids_.codes(items.ravel()).reshape(-1, 5)]
    assert np.allclose(scores, by_pair, rtol=0, atol=CLOSE)


def test_only_the_items_of_highest_affinity_are_candidates(monkeypatch):
    monkeypatch.setattr(blend, "CANDIDATES", 6)
    model = copy.copy(fitted("stars")).set_params(rating_weight=50.0)
    affinity = np.where(seen(model), -np.inf, model.affinity_.predict(all_pairs(model)).reshape(30, 20))
    sixth = -np.sort(-affinity, axis=1)[:, 5:6]
    _, wanted = best(blended(model), 3, affinity < sixth)
    assert np.allclose(model.recommend(n=3)[1], wanted, rtol=0, atol=CLOSE)
    assert not np.allclose(wanted, best(blended(model), 3, seen(model))[1])


def test_scores_and_their_parts_are_bounded(model):
    frame = model.recommend(n=20, exclude_seen=False, output="pandas")
    assert (frame.affinity.abs() <= 1).all()
    assert (frame.score.abs() <= 1 + model.rating_weight).all()
    assert ((frame.lower <= frame.rating) & (frame.rating <= frame.upper)).all()
    assert ((frame.score - frame.affinity).abs() <= model.rating_weight + 1e-15).all()


def test_frames_have_rating_and_affinity_beside_the_score(model):
    std = ["std"] if isinstance(model, BayesianMBMF) else []
    for output in ("pandas", "polars", "pyarrow"):
        frame = model.recommend([100], 2, output=output)
        names = frame.column_names if output == "pyarrow" else list(frame.columns)
        assert names == ["user", "item", "rank", "score", "rating", "lower", "upper", *std, "affinity"]
    frame = model.recommend([100, 101], 2, output="pandas")
    X = frame[["user", "item"]].to_numpy()
    assert np.array_equal(frame.rating, model.predict(X))
    assert np.array_equal(frame.affinity, model.affinity_.predict(X))


def test_predictions_and_lists_by_rating_are_those_of_a_model_without_affinities(model):
    alone = clone(model).set_params(affinity=False).fit(*data())
    assert np.array_equal(model.predict(all_pairs(model)), alone.predict(all_pairs(model)))
    for mine, theirs in zip(model.recommend(by="rating"), alone.recommend(), strict=True):
        assert np.array_equal(mine, theirs)
    assert model.recommend([100], by="rating", output="pandas").equals(alone.recommend([100], output="pandas"))


def test_a_weight_of_nothing_sorts_by_affinity_alone(model):
    model = copy.copy(model).set_params(rating_weight=0)
    for mine, theirs in zip(model.recommend(n=4), model.affinity_.recommend(n=4), strict=True):
        assert np.array_equal(mine, theirs)


def test_candidates_exclusions_and_batches_are_those_of_any_list():
    model = fitted("stars")
    only, without = [1003, 1005, 1007, 1009], [1005]
    items, scores = model.recommend(n=4, exclude_seen=False, candidates=only, exclude=without)
    assert set(items.ravel().tolist()) == {1003, 1007, 1009, -1}
    batches = list(model.recommend_batches(n=4, exclude_seen=False, candidates=only, exclude=without, batch_size=7))
    assert np.array_equal(np.concatenate([batch[1] for batch in batches]), items)
    assert np.array_equal(np.concatenate([batch[2] for batch in batches]), scores, equal_nan=True)


def test_somebody_unknown_gets_what_is_popular_and_rated_high():
    model = fitted("stars")
    X, _ = data()
    _, scores = model.recommend([7], n=3)
    share = np.array([len(np.unique(X[X[:, 1] == item, 0])) / 30 for item in model.item_ids_.ids])
    high = (model.predict([(7, item) for item in model.item_ids_.ids]) - data()[1].mean()) / data()[1].std() / 4
    wanted = np.sort(share + model.rating_weight * high)[::-1][:3]
    assert np.allclose(scores[0], wanted, rtol=0, atol=CLOSE)
    assert (copy.copy(model).set_params(on_unknown="nan").recommend([7], n=3)[0] == -1).all()


def test_who_has_rated_everything_gets_an_empty_list_and_one_item_makes_a_list():
    X = [("ann", "tea"), ("ann", "rum"), ("bob", "tea")]
    model = MBMF(2, bounds=(1, 5), **QUICK).fit(X, [5, 3, 4])
    items, scores = model.recommend(["ann", "bob"], n=2)
    assert items.tolist() == [[None, None], ["rum", None]]
    assert np.isnan(scores[0]).all()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one = MBMF(2, bounds=(1, 5), **QUICK).fit([("ann", "tea"), ("bob", "tea")], [5, 5])
    assert one.recommend(["eve"], n=3)[0].tolist() == [["tea"]]


def test_lists_go_on_where_candidates_have_no_range(monkeypatch):
    """Of items without a range there is no rating, however high their affinity is."""
    monkeypatch.setattr(blend, "CANDIDATES", 3)
    model = fitted("own ranges")
    known = {1001: (0, 7), 1014: (0, 5), 1017: (0, 5)}
    with pytest.warns(UserWarning, match="without a range are left out"):
        items, scores = model.recommend([100, 101], n=2, exclude_seen=False, bounds=PerItem(known))
    assert set(items.ravel().tolist()) <= set(known)
    assert np.isfinite(scores).all()


def test_more_threads_give_the_same_bits():
    one, two = (clone(MODELS["stars"]).set_params(n_jobs=jobs).fit(*data()).recommend(n=4) for jobs in (1, 2))
    assert all(np.array_equal(*both) for both in zip(one, two, strict=True))


# --- what counts as a choice ------------------------------------------------------------------------------------


def test_what_was_rated_high_counts_for_more_on_any_scale():
    stars = fitted("exact")
    choices = stars.affinity_.fitted_.ratings
    z = (Ratings.read(*data()).by_user.data - data()[1].mean()) / data()[1].std()
    assert np.allclose(choices.by_user.weights, 2 / (1 + np.exp(-z / 2)), rtol=1e-12)
    X, y = data()
    jokes = MBMF(3, bounds=(-10, 10), **QUICK).fit(X, 5 * y - 15)
    assert np.allclose(jokes.affinity_.predict(X), stars.affinity_.predict(X), atol=1e-5)


@given(scale=st.floats(1e-100, 1e100), shift=st.floats(-1e3, 1e3))
@settings(deadline=None, max_examples=30)
def test_centre_and_spread_are_those_of_the_ratings_in_any_unit(scale, shift):
    X, y = data()
    found = blend.centre_and_spread(Ratings.read(X, scale * (y + shift)), Scale())
    assert np.isclose(found["rating_centre"], scale * (y + shift).mean(), rtol=1e-6, atol=scale * 1e-9)
    assert np.isclose(found["rating_spread"], scale * y.std(), rtol=1e-6)


def test_ratings_that_are_all_the_same_leave_the_affinity_alone():
    X, y = data()
    model = MBMF(3, bounds=(1, 5), **QUICK).fit(X, np.full(len(y), 4.0))
    assert np.isfinite(model.recommend(n=3)[1]).all()
    assert np.allclose(model.affinity_.fitted_.ratings.by_user.weights, 1.0)


def test_what_is_set_aside_is_no_choice():
    X, y = data()
    model = clone(MODELS["exact"]).set_params(validation_fraction=0.3).fit(X, y)
    assert model.affinity_.fitted_.ratings.n_ratings == model.fitted_.ratings.n_ratings < len(y)
    beside = clone(MODELS["exact"]).fit(X[:-20], y[:-20], eval_set=(X[-20:], y[-20:]))
    assert beside.affinity_.fitted_.ratings.n_ratings == len(y) - 20


def test_sample_weights_multiply_what_choices_count():
    X, y = data()
    weights = np.arange(len(y)) % 3.0
    plain = fitted("exact").affinity_.fitted_.ratings
    model = clone(MODELS["exact"]).fit(X, y, sample_weight=weights)
    given_weights = Ratings.read(X, weights).by_user.data
    counts = given_weights > 0
    z = blend.in_deviations(Ratings.read(X, y).by_user.data, model.fitted_)
    found = model.affinity_.fitted_.ratings.by_user.weights
    assert plain.n_ratings == found.size
    assert np.allclose(found, given_weights * 2 / (1 + np.exp(-z / 2)))
    assert np.isclose(model.fitted_.found["rating_centre"], Ratings.read(X, y).by_user.data[counts].mean())


# --- after the fit ----------------------------------------------------------------------------------------------


def test_fold_in_gives_new_users_both_rows(model):
    X, y = data()
    known = X[X[:, 0] == 100]
    view = model.fold_in(np.column_stack([np.full(len(known), 500), known[:, 1]]), y[X[:, 0] == 100])
    new = [(500, item) for item in model.item_ids_.ids]
    old = [(100, item) for item in model.item_ids_.ids]
    assert np.allclose(view.affinity_.predict(new), model.affinity_.predict(old), atol=1e-5)
    frame = view.recommend([500], 3, output="pandas")
    assert not set(frame.item) & set(known[:, 1].tolist())
    assert "affinity" in frame.columns
    assert model.user_ids_.codes([500])[0] == -1


def test_fold_in_of_items_carries_affinities():
    view = fitted("stars").fold_in([(100, 2000), (102, 2000), (101, 2001)], [5, 4, 3], axis="items")
    items, scores = view.recommend([104], n=2)
    assert set(items[0].tolist()) == {2000, 2001}
    assert (np.abs(scores) <= 1.1).all()


def test_partial_fit_learns_choices_as_the_model_of_clicks_does():
    model = copy.deepcopy(fitted("exact"))
    clicks = copy.deepcopy(model.affinity_)
    new, ratings = [(500, 1000), (500, 1002), (100, 3000)], np.array([5.0, 4.0, 3.0])
    z = blend.in_deviations(ratings, model.fitted_)
    clicks.partial_fit(new, sample_weight=2 / (1 + np.exp(-z / 2)))
    model.partial_fit(new, ratings)
    asked = [(500, 1004), (100, 3000), (100, 1001)]
    assert np.allclose(model.affinity_.predict(asked), clicks.predict(asked), atol=1e-6)
    assert 3000 not in model.recommend([100], n=20)[0]
    assert np.isfinite(model.recommend([500], n=3)[1]).all()


def test_features_alone_get_a_list():
    X, y = data()
    ages = {user: {"age": float(user)} for user in range(100, 131)}
    model = BayesianMBMF(3, bounds=(1, 5), **QUICK).fit(X, y, user_features=ages)
    assert np.isfinite(model.recommend([130], n=3)[1]).all()  # has features and no ratings
    assert np.isfinite(copy.copy(model).set_params(on_unknown="nan").recommend([130], n=3)[1]).all()
    view = model.fold_in(features={700: {"age": 3.0}})
    assert np.isfinite(view.recommend([700], n=3)[1]).all()


def test_copies_and_pickles_recommend_the_same():
    model = fitted("stars")
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert np.array_equal(other.recommend(n=3)[1], model.recommend(n=3)[1])


# --- lower bounds -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [200, 2])
@pytest.mark.parametrize("name", ["stars", "logarithms", "own ranges"])
def test_lists_by_lower_bound_are_those_of_a_full_sort(monkeypatch, name, first):
    """With two candidates at first, lists are found by looking further."""
    monkeypatch.setattr(blend, "CANDIDATES", first)
    model = fitted(name)
    X = all_pairs(model)
    lower = answers.lower_bounds(model.fitted_, model._pairs(X)).reshape(30, 20)
    _, wanted = best(lower, 2, seen(model))
    assert np.array_equal(model.recommend(n=2, by="lower")[1], wanted)


def test_the_lower_bound_takes_off_what_samples_leave_open_and_not_the_noise():
    model = fitted("stars")
    X = all_pairs(model)[:50]
    _, samples, within, _ = next(answers.sampled(model.fitted_, model._pairs(X)))
    open_to_doubt = np.sqrt(samples.var(axis=1) + within)
    lower = answers.lower_bounds(model.fitted_, model._pairs(X))
    assert np.allclose(lower, np.maximum(1, model.predict(X) - open_to_doubt), rtol=0, atol=CLOSE)
    assert (open_to_doubt < model.predict(X, return_std=True)[1]).all()
    frame = model.recommend([100], 3, by="lower", output="pandas")
    assert list(frame.columns) == ["user", "item", "rank", "score", "rating", "lower", "upper", "std"]
    assert (frame.score < frame.rating).all()


def test_one_lucky_rating_does_not_top_a_list_by_lower_bound():
    """Forty people rate item 1 nearly five; item 9 has a single five."""
    users = np.arange(40)
    steady = np.column_stack([users, np.full(40, 1)]), np.where(users % 8, 5.0, 4.0)
    others = np.column_stack([np.tile(users, 3), np.repeat([2, 3, 4], 40)]), np.tile(2.0 + users % 3, 3)
    X = np.concatenate([steady[0], others[0], [[0, 9]]])
    y = np.concatenate([steady[1], others[1], [5.0]])
    model = BayesianMBMF(2, bounds=(1, 5), max_iter=60, random_state=0).fit(X, y)
    items, _ = model.recommend(users[1:], n=5, by="lower", exclude_seen=False)
    assert (items[:, 0] != 9).all()
    assert np.mean(items[:, 0] == 1) > 0.9


# --- what is refused ----------------------------------------------------------------------------------------------


def test_what_cannot_be_asked_for_is_refused_in_a_sentence():
    X, y = data()
    stars = fitted("stars")
    plain = MBMF(3, bounds=(1, 5), max_iter=3, random_state=0).fit(X, y)
    rival = MF(3, max_iter=3, random_state=0).fit(X, y)
    clicks = ImplicitMBMF(3, random_state=0).fit(X)
    with pytest.raises(ValueError, match="by='best': give one of 'auto', 'rating', 'lower', 'blend'"):
        stars.recommend(by="best")
    for model in (plain, rival):
        with pytest.raises(ValueError, match=r"by='blend' needs to know who chooses .* with affinity=True"):
            model.recommend(by="blend")
        with pytest.raises(ValueError, match=r"by='lower' takes .* knows none: fit a BayesianMBMF"):
            model.recommend_batches(by="lower")
    with pytest.raises(ValueError, match="by='rating': the only score of an ImplicitMBMF is its affinity"):
        clicks.recommend(by="rating")
    with pytest.raises(ValueError, match="affinity='yes': give True or False"):
        MBMF(affinity="yes").fit(X, y)
    with pytest.raises(ValueError, match="rating_weight=-1: give a number of at least 0"):
        MBMF(affinity=True, rating_weight=-1).fit(X, y)
    with pytest.raises(ValueError, match="rating_weight=nan"):
        copy.copy(stars).set_params(rating_weight=np.nan).recommend()
    with pytest.raises(AttributeError, match="affinity=False"):
        plain.affinity_  # noqa: B018
    assert np.array_equal(clicks.recommend(by="auto")[0], clicks.recommend()[0])
    assert np.array_equal(rival.recommend(by="rating")[0], rival.recommend()[0])


def test_a_fit_that_fails_leaves_the_model_as_it_was(monkeypatch):
    model = copy.copy(fitted("exact"))
    before = model.fitted_
    monkeypatch.setattr(blend, "as_choices", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        model.fit(*data())
    assert model.fitted_ is before


@given(st.integers(1, 6), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=50)
def test_reordered_lists_are_sorted_by_score_then_by_item(n, seed):
    rng = np.random.default_rng(seed)
    items = np.array([rng.permutation(9)[:6] for _ in range(4)])
    scores = rng.integers(0, 3, items.shape).astype(float)
    scores[rng.random(items.shape) < 0.3] = np.nan
    found = reordered(Lists(items, scores), scores, n)
    for row in range(4):
        there = sorted((-s, i) for s, i in zip(scores[row], items[row], strict=True) if not np.isnan(s))[:n]
        wanted = [i for _, i in there]
        assert found.items[row].tolist() == wanted + [-1] * (n - len(wanted))
