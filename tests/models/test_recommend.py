"""Top-N lists, neighbours and vectors for an index, against the full product and a sort."""

import copy
import functools
import pickle
import subprocess
import sys
import tracemalloc
import warnings
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from test_contract import MODELS
from threadpoolctl import threadpool_info

import naive
from boundrec import BMCADMM, BMF, MBMF, MF, NMF, BayesianMBMF, BoundedSVD, CCDPlusPlus
from boundrec import top_n as recommend
from boundrec.data.ids import IdIndex
from boundrec.models.answers import dot_rows
from boundrec.models.fitted import Fitted, FittedSide
from boundrec.ranges import Frame, Ranges, frame_for
from boundrec.rivals import Cut
from boundrec.top_n import Ranking, Search, Seen, most_similar, top_n

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

#: What scores of the same pair may differ by; ours come from `predict` itself.
CLOSE = 1e-6
#: Frames of one library as plain dictionaries of lists.
READERS = {
    "pandas": lambda frame: frame.to_dict("list"),
    "polars": lambda frame: frame.to_dict(as_series=False),
    "pyarrow": lambda frame: frame.to_pydict(),
}
WIDEN = {"max_iter": 5, "on_contradiction": "widen", "random_state": 0}
MORE_MODELS = {
    **MODELS,
    "plain": MBMF(3, bounds=(1, 5), biases=False, ridge=0, slack=1, **WIDEN),
    "tilted up": MBMF(3, bounds=(0, None), magnitudes="history", biases=False, ridge=0, slack=1, **WIDEN),
    "tilted down": MBMF(3, bounds=(None, 6), magnitudes="history", biases=False, ridge=0, slack=1, **WIDEN),
    "bent": MBMF(3, bounds=(0, None), magnitudes="history", biases=True, ridge=0, slack=3, **WIDEN),
    "led up": MBMF(3, bounds=(0, None), biases=True, ridge=0, slack=3, **WIDEN),
    "led": MBMF(3, bounds=(-20, 9), random_state=0, max_iter=5),
    "bent by history": MBMF(3, bounds=(1, 5), magnitudes="history", biases=False, ridge=0, slack=2, **WIDEN),
    "no bounds": MBMF(3, **WIDEN),
    "float32": MBMF(3, bounds=(1, 5), dtype="float32", **WIDEN),
    "bent Bayesian": BayesianMBMF(3, bounds=(1, 5), magnitudes="history", **WIDEN),
    "float16": BayesianMBMF(3, bounds=(1, 5), dtype="float16", **WIDEN),
    "clipped": MF(3, bounds=(1, 5), solver="sgd", learning_rate=0.05, clip=True, max_iter=20, random_state=0),
}


@functools.cache
def data():
    """30 users × 20 items, most pairs unrated; ids are not row numbers."""
    rng = np.random.default_rng(0)
    users, items = np.nonzero(rng.random((30, 20)) < 0.4)
    return np.column_stack([users + 100, items + 1000]), rng.integers(1, 6, len(users)).astype(float)


@functools.cache
def fitted(name):
    return clone(MORE_MODELS[name]).fit(*data())


@pytest.fixture(params=MORE_MODELS, ids=str)
def model(request):
    return fitted(request.param)


@pytest.fixture
def ball():
    return copy.copy(fitted("exact ball"))


def sizes_of_blocks(users, items, first, pairs, few=0):
    return patch.multiple(recommend, USERS=users, ITEMS=items, FIRST=first, PAIRS=pairs, FEW=few)


#: Blocks so small that little data makes many of them.
SMALL = {"users": 7, "items": 3, "first": 4, "pairs": 40}
block_sizes = st.builds(sizes_of_blocks, *(st.integers(1, most) for most in (4, 12, 12, 30)), st.sampled_from([0, 99]))
lengths = st.integers(1, 6) | st.just(40)


def every_prediction(model):
    users, items = model.user_ids_.ids, model.item_ids_.ids
    pairs = [(user, item) for user in users.tolist() for item in items.tolist()]
    return model.predict(pairs).reshape(len(users), len(items))


def rated_pairs(model):
    X, _ = data()
    return set(zip(model.user_ids_.codes(X[:, 0]).tolist(), model.item_ids_.codes(X[:, 1]).tolist(), strict=True))


def assert_same_lists(model, answer, expected, predictions):
    """Scores to CLOSE, the order different only within that, equal scores by item order."""
    items, scores = answer
    codes = model.item_ids_.codes(items.ravel()).reshape(items.shape)
    for user, columns in enumerate(expected):
        found, length = codes[user], len(columns)
        assert np.allclose(scores[user, :length], predictions[user, columns], rtol=0, atol=CLOSE)
        assert np.allclose(scores[user, :length], predictions[user, found[:length]], rtol=0, atol=CLOSE)
        assert len(set(found[:length])) == length
        ties = np.diff(scores[user, :length]) == 0
        assert np.all(np.diff(found[:length])[ties] > 0)
        assert np.isnan(scores[user, length:]).all()
        assert np.all(items[user, length:] == (-1 if items.dtype == np.int64 else None))


# --- the lists are those of a full sort ---------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 4, 20])
def test_every_model_recommends_what_it_predicts_highest(model, n):
    predictions = every_prediction(model)
    expected = naive.top_n(predictions, rated_pairs(model), n)
    with sizes_of_blocks(**SMALL):
        assert_same_lists(model, model.recommend(n=n), expected, predictions)


def test_what_was_seen_is_recommended_only_when_asked_for(model):
    predictions = every_prediction(model)
    expected = naive.top_n(predictions, set(), 6)
    assert_same_lists(model, model.recommend(n=6, exclude_seen=False), expected, predictions)


def some_factors(rng, kind, n_rows, n_columns):
    """Normal numbers; whole ones, which make many ties and rows of zeros; or rows of very different lengths."""
    rows = rng.standard_normal((n_rows, n_columns))
    if kind == "whole":
        return np.rint(rows)
    return rows * 10.0 ** rng.integers(-30, 10, (n_rows, 1)) if kind == "long and short" else rows


@st.composite
def problems(draw):
    """User and item factors, and which pairs were seen."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_users, n_items, k = draw(st.integers(1, 6)), draw(st.sampled_from([1, 7, 25])), draw(st.integers(1, 4))
    W, H = (
        some_factors(rng, draw(st.sampled_from(["normal", "whole", "long and short"])), n_rows, k)
        for n_rows in (n_users, n_items)
    )
    seen = rng.random((n_users, n_items)) < draw(st.sampled_from([0, 0.3, 0.8]))
    return W, H, set(zip(*(places.tolist() for places in np.nonzero(seen)), strict=True))


def seen_as_rows(seen, n_users):
    rows = [sorted(item for user, item in seen if user == row) for row in range(n_users)]
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    return Seen(indptr, np.array([item for row in rows for item in row], np.int32))


def plain_ranking(W, H):
    def score(users, items):
        return dot_rows(W[users], H[items])

    return Ranking(W, H, np.ones(len(W), bool), score, lambda users, scores, low, high: scores)


@given(problems(), lengths, block_sizes)
def test_a_search_in_blocks_finds_what_a_full_sort_finds(problem, n, blocks):
    W, H, seen = problem
    users, items = np.divmod(np.arange(len(W) * len(H)), len(H))
    scores = dot_rows(W[users], H[items]).reshape(len(W), len(H))
    with blocks:
        found = list(top_n(plain_ranking(W, H), np.arange(len(W)), n, np.arange(len(H)), seen_as_rows(seen, len(W))))
    codes, found_scores = (np.concatenate(parts) for parts in zip(*found, strict=True))
    for user, columns in enumerate(naive.top_n(scores, seen, n)):
        assert codes[user].tolist() == columns + [-1] * (n - len(columns))
        assert np.array_equal(found_scores[user, : len(columns)], scores[user, columns])


@pytest.mark.parametrize(("users", "items"), [(1e-160, 1e-160), (1e-250, 1.0), (1e-200, 1e150), (1e150, 1e150)])
@given(problems(), lengths, block_sizes)
def test_factors_whose_squares_or_products_leave_float64_are_searched_as_well(users, items, problem, n, blocks):
    W, H, seen = problem
    W, H = users * W / max(np.abs(W).max(), 1), items * H / max(np.abs(H).max(), 1)
    scores = np.array([dot_rows(np.tile(w, (len(H), 1)), H) for w in W])
    with blocks, warnings.catch_warnings():
        warnings.simplefilter("error")
        found = list(top_n(plain_ranking(W, H), np.arange(len(W)), n, np.arange(len(H)), seen_as_rows(seen, len(W))))
    codes = np.concatenate([lists.items for lists in found])
    for user, columns in enumerate(naive.top_n(scores, seen, n)):
        assert codes[user].tolist() == columns + [-1] * (n - len(columns))


def assembled(model, W, H, seen, ranges):
    """A fitted model of these factors, put together by hand."""
    users, items = (
        FittedSide(IdIndex(np.arange(len(rows))), np.zeros(len(rows)), np.ones(len(rows), bool), rows)
        for rows in (W, H)
    )
    model._learned = Fitted(users, items, ranges, 0.0, seen_as_rows(seen, len(W)), None, None)
    return model


def assert_exactly_these_lists(model, found, expected):
    """The items of a full sort in its order, with the predictions of `predict`."""
    items, scores = found
    predictions, ids = every_prediction(model), model.item_ids_.ids
    assert items.shape[1] == scores.shape[1] <= len(ids)
    for user, columns in enumerate(expected):
        missing = items.shape[1] - len(columns)
        assert items[user].tolist() == ids[columns].tolist() + [-1] * missing
        assert np.array_equal(scores[user, : len(columns)], predictions[user, columns])
        assert np.isnan(scores[user, len(columns) :]).all()


@pytest.mark.parametrize("slack", [1.0, 2.0, 8.0])
@pytest.mark.parametrize("tilt", [-1, 0, 1])
@given(problems(), st.integers(0, 99), lengths, block_sizes)
@settings(max_examples=20)
def test_slack_magnitudes_and_centres_are_part_of_the_order(slack, tilt, problem, seed, n, blocks):
    W, H, seen = problem
    r, s = (np.random.default_rng(seed).choice([0.1, 0.5, 1.0, 1.001, 2.0, 5.0], len(rows)) for rows in (W, H))
    in_balls = (
        rows * np.minimum(1, np.sqrt(slack) * radius / np.maximum(np.linalg.norm(rows, axis=1), 1e-99))[:, None]
        for rows, radius in ((W, r), (H, s))
    )
    model = assembled(MBMF(), *in_balls, seen, Ranges(Frame(3.0, tilt), r, s, 1.0, 1.0, slack=slack))
    with blocks:
        found = model.recommend(n=n)
    assert_exactly_these_lists(model, found, naive.top_n(every_prediction(model), seen, n))


#: Of the length that slack leaves: all of it, some, hardly any, none.
SHARES = {
    "ends": [1.0],
    "inside": [0.1, 0.5, 0.9],
    "near the centre": [1e-20, 1e-9, 1e-3],
    "any": [0.0, 1e-9, 0.5, 1.0],
}


@st.composite
def bounded_models(draw):
    """A bounded model of random factors inside their balls, some items alike, and what its users have seen."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    slack = draw(st.sampled_from([1.0, 1.01, 1.5, 4.0, 19.9]))
    dtype, scale = draw(
        st.sampled_from([("float32", 1.0), *((np.float64, 10.0**e) for e in (-140, -60, 0, 0, 60, 140))])
    )
    ends = draw(
        st.sampled_from([(1, 5), (-1, 1), (1e6, 1e6 + 1), (0, None), (-7, None), (None, 5), (None, -7), (None, None)])
    )
    bounds = tuple(None if end is None else end * scale for end in ends)
    frame = frame_for(bounds, draw(st.sampled_from("cn")), scale)
    most = np.sqrt(min(frame.limit, 9 * scale))
    shape = draw(st.integers(1, 5)), draw(st.sampled_from([1, 6, 25])), draw(st.integers(2, 4))
    spread = draw(st.sampled_from([0.0, 1e-9, 1.0, 8.0]))
    r, s = (most * np.exp(-spread * rng.random(n_rows)) for n_rows in shape[:2])
    shares = SHARES[draw(st.sampled_from(list(SHARES)))]
    W, H = (_in_ball(rng, np.sqrt(slack) * magnitudes, shape[2], shares).astype(dtype) for magnitudes in (r, s))
    alike = rng.integers(0, len(H), len(H)) if draw(st.booleans()) else np.arange(len(H))
    seen = rng.random(shape[:2]) < draw(st.sampled_from([0, 0.3, 0.8]))
    seen = set(zip(*(places.tolist() for places in np.nonzero(seen)), strict=True))
    ranges = Ranges(frame, r, s[alike], 1.0, 1.0, slack=slack)
    return assembled(draw(st.sampled_from([MBMF, BayesianMBMF]))(), W, H[alike], seen, ranges), seen


def _in_ball(rng, radius, n_columns, shares):
    rows = rng.standard_normal((len(radius), n_columns))
    length = radius * rng.choice(shares, len(radius)) / np.linalg.norm(rows, axis=1)
    return rows * length[:, None]


@given(bounded_models(), st.integers(1, 25), st.booleans(), st.sets(st.integers(0, 24)), block_sizes)
@settings(max_examples=300)
def test_bounds_of_every_kind_and_any_magnitudes_leave_no_item_out(problem, n, exclude_seen, candidates, blocks):
    model, seen = problem
    n_items = len(model.item_ids_)
    candidates = {item for item in candidates if item < n_items} or set(range(n_items))
    closed = {(user, item) for user in range(len(model.user_ids_)) for item in set(range(n_items)) - candidates}
    with blocks, warnings.catch_warnings():
        warnings.simplefilter("error")
        found = model.recommend(n=n, exclude_seen=exclude_seen, candidates=sorted(candidates))
    assert_exactly_these_lists(
        model, found, naive.top_n(every_prediction(model), closed | (seen if exclude_seen else set()), n)
    )


#: One fit of each method and of each way in which bounds enter, all quick.
TINY = {
    "slack below": MBMF(5, bounds=(None, 5), max_iter=5),
    "slack above": MBMF(3, bounds=(0, None), max_iter=5),
    "slack without bounds": MBMF(3, magnitudes="history", slack=6, max_iter=5),
    "form n": MBMF(3, bounds=(0, 5), form="n", magnitudes="history", slack=3, max_iter=5),
    "form n below": MBMF(3, bounds=(None, 5), form="n", max_iter=5),
    "float32": MBMF(3, bounds=(None, 5), dtype="float32", max_iter=5),
    "sphere": MBMF(3, bounds=(None, 5), constraint="sphere", max_iter=5),
    "Bayesian below": BayesianMBMF(2, bounds=(None, 5), max_iter=3),
    "Bayesian": BayesianMBMF(2, bounds=(1, 5), magnitudes="history", dtype="float32", max_iter=3),
    "MF": MF(2, max_iter=5),
    "MF clipped": MF(2, bounds=(2, 4), clip=True, max_iter=5, duplicates="last"),
    "NMF": NMF(2, max_iter=5),
    "CCD++": CCDPlusPlus(2, max_iter=5),
    "BMF": BMF(2, bounds=(1, 5), max_iter=5),
    "BMC-ADMM": BMCADMM(2, bounds=(1, 5), max_iter=5),
    "Bounded SVD": BoundedSVD(2, bounds=(1, 5), max_iter=5),
}


@pytest.mark.parametrize("name", TINY)
@pytest.mark.filterwarnings("ignore::UserWarning")
@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.booleans())
@settings(max_examples=15)
def test_a_model_of_a_handful_of_ratings_recommends_what_it_predicts_highest(name, seed, n, exclude_seen):
    rng = np.random.default_rng(seed)
    pairs = sorted({(int(user), int(item)) for user, item in rng.integers(0, (4, 6), (12, 2))})
    low, high = (2, 4) if name == "MF clipped" else (1, 5)
    model = clone(TINY[name]).set_params(random_state=0).fit(pairs, rng.integers(low, high + 1, len(pairs)))
    seen = {(model.user_ids_.codes([user])[0], model.item_ids_.codes([item])[0]) for user, item in pairs}
    found = model.recommend(n=n, exclude_seen=exclude_seen)
    assert_exactly_these_lists(model, found, naive.top_n(every_prediction(model), seen if exclude_seen else set(), n))


def test_an_item_whose_whole_range_lies_above_the_score_does_not_hide_others():
    pairs, ratings = [(0, 1), (3, 1), (2, 0), (2, 2), (3, 3), (1, 3), (3, 0)], [5, 1, 5, 4, 4, 2, 5]
    with pytest.warns(UserWarning, match="n_factors=5 is more than"):
        model = MBMF(5, bounds=(None, 5), magnitudes="history", random_state=0).fit(pairs, ratings)
    items, scores = model.recommend([1], n=3, exclude_seen=False)
    assert items.tolist() == [[0, 2, 3]]
    assert scores[0] == pytest.approx([4.998, 2.951, 2.045], abs=1e-3)


@given(problems(), st.sampled_from([-0.5, 0.0, 1e9]), st.booleans(), lengths, block_sizes)
def test_an_offset_and_clipping_make_ties_in_the_order_of_the_items(problem, offset, clip, n, blocks):
    """Beside 1e9 float64 has room for seven digits after the point, so that small inner products make ties, too."""
    W, H, seen = problem
    model = assembled(MF(bounds=(offset - 0.5, offset + 1), clip=clip), W, H, seen, Cut(offset))
    with blocks:
        found = model.recommend(n=n)
    assert_exactly_these_lists(model, found, naive.top_n(every_prediction(model), seen, n))


def test_predictions_cut_to_the_lower_end_of_their_range_come_in_the_order_of_the_items():
    """Factors longer than their balls, as rounding makes them and a file may hold them: all of these are cut."""
    H = -np.linspace(1, 2, 20)[:, None]
    ranges = Ranges(Frame(0.0), np.ones(1), np.ones(20), 1.0, 1.0)
    model = assembled(MBMF(), np.full((1, 1), 3.0), H, {(0, 1)}, ranges)
    with sizes_of_blocks(users=1, items=3, first=1, pairs=5):
        items, scores = model.recommend(n=3)
    assert items.tolist() == [[0, 2, 3]]
    assert scores.tolist() == [[-1, -1, -1]]


@pytest.mark.parametrize("product", [-3.0, 3.0])
def test_predictions_cut_to_the_same_end_come_in_the_order_of_the_items(product):
    """All lie beyond the end, the last ones farthest: their inner products must not decide."""
    H = product * np.linspace(1, 2, 20)[:, None]
    model = assembled(MF(bounds=(-1, 1), clip=True), np.ones((1, 1)), H, {(0, 1)}, Cut())
    with sizes_of_blocks(users=1, items=3, first=1, pairs=5):
        items, scores = model.recommend(n=3)
    assert items.tolist() == [[0, 2, 3]]
    assert np.all(scores == np.sign(product))


def test_items_shorter_than_float32_can_tell_are_not_lost():
    """The last item has the highest score, but its vector is four zeros in float32."""
    W = np.full((1, 4), 0.5)
    H = np.array([[-1.0, 0, 0, 0], [2.4e-45, 0, 0, 0], [0.65e-45] * 4])
    assert not H[2].astype(np.float32).any()
    with sizes_of_blocks(users=1, items=1, first=1, pairs=1):
        (lists,) = top_n(plain_ranking(W, H), np.arange(1), 1, np.arange(3))
    assert lists.items.tolist() == [[2]]


def test_equal_predictions_come_in_the_order_of_the_items():
    same = MBMF(2, bounds=(1, 5), max_iter=2, random_state=0).fit(
        [(u, i) for u in range(3) for i in range(9)], [4] * 27
    )
    fitted = same.fitted_
    alike = replace(fitted.items, factors=np.tile(fitted.items.factors[0], (9, 1)))
    same._learned = replace(fitted, items=alike)
    items, scores = same.recommend(n=9, exclude_seen=False)
    assert np.ptp(scores) == 0 or np.all(np.ptp(scores, axis=1) == 0)
    assert np.array_equal(items, np.tile(same.item_ids_.ids, (3, 1)))


def test_the_lists_are_the_same_for_any_number_of_threads(ball):
    with sizes_of_blocks(**SMALL):
        first, *others = (ball.set_params(n_jobs=n).recommend(n=5) for n in (1, 2, 5))
    for other in others:
        assert np.array_equal(first[0], other[0])
        assert np.array_equal(first[1], other[1])


def test_predictions_of_float32_models_are_those_of_predict():
    model = fitted("float32")
    items, scores = model.recommend(n=3)
    pairs = [(user, item) for user, row in zip(model.user_ids_.ids, items, strict=True) for item in row]
    assert np.array_equal(scores.ravel(), model.predict(pairs))


# --- the search is lazy and frugal --------------------------------------------------------------------------


def test_items_that_are_too_short_to_enter_are_not_multiplied(monkeypatch):
    rng = np.random.default_rng(0)
    W, H = rng.standard_normal((8, 4)), rng.standard_normal((4000, 4))
    H[200:] *= 1e-3
    widths, products = [], Search._products
    monkeypatch.setattr(
        Search,
        "_products",
        lambda self, tile, rows: (widths.append(tile.stop - tile.start), products(self, tile, rows))[1],
    )
    with sizes_of_blocks(users=8, items=100, first=50, pairs=1000):
        list(top_n(plain_ranking(W, H), np.arange(8), 5, np.arange(4000)))
    assert 200 <= sum(widths) <= 600


def test_memory_is_bounded_by_blocks_and_lists():
    rng = np.random.default_rng(0)
    W, H = rng.standard_normal((3000, 4)), rng.standard_normal((12_000, 4))
    tracemalloc.start()
    count = sum(
        len(lists.items) for lists in top_n(plain_ranking(W, H), np.arange(3000), 5, np.arange(12_000), n_jobs=1)
    )
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 3000
    assert peak < 3000 * 12_000 * 4 / 5  # a fifth of the whole product in float32


def test_ties_without_end_are_sorted_in_portions():
    """All products are 0, so every pair might enter: what waits to be scored must not pile up."""
    W, H = np.zeros((20, 2)), np.ones((500, 2))
    waiting, enter = [], Search._enter
    with (
        sizes_of_blocks(users=20, items=10, first=10, pairs=300),
        patch.object(
            Search, "_enter", lambda self, found: (waiting.append(sum(len(r) for r, _ in found)), enter(self, found))
        ),
    ):
        (lists,) = top_n(plain_ranking(W, H), np.arange(20), 5, np.arange(500))
    assert np.array_equal(lists.items, np.tile(np.arange(5), (20, 1)))
    assert sum(waiting) == 20 * 500
    assert max(waiting) <= 300 + 20 * 10


def test_batches_come_as_they_are_found(ball):
    started, lists = [], Search.lists
    with (
        sizes_of_blocks(users=2, items=5, first=4, pairs=100),
        patch.object(Search, "lists", lambda self: (started.append(1), lists(self))[1]),
    ):
        batches = ball.set_params(n_jobs=1).recommend_batches(n=3, batch_size=4)
        next(batches)
        assert len(started) == 2
        batches.close()


@pytest.mark.parametrize("batch_size", [1, 4, 7, 30, 1000])
def test_batches_together_are_the_whole(ball, batch_size):
    items, scores = ball.recommend(n=3)
    with sizes_of_blocks(**SMALL):
        users, *parts = zip(*ball.recommend_batches(n=3, batch_size=batch_size), strict=True)
    assert [len(part) for part in users[:-1]] == [batch_size] * (len(users) - 1)
    assert np.array_equal(np.concatenate(users), ball.user_ids_.ids)
    assert np.array_equal(np.concatenate(parts[0]), items)
    assert np.array_equal(np.concatenate(parts[1]), scores)


def test_batches_may_be_frames(ball):
    whole = ball.recommend(n=3, output="polars")
    assert pl.concat(ball.recommend_batches(n=3, output="polars", batch_size=4)).equals(whole)


def blas_threads():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def test_the_threads_of_blas_are_given_back(ball):
    before = blas_threads()
    ball.recommend(n=2)
    batches = ball.recommend_batches(n=2, batch_size=1)
    next(batches)
    batches.close()
    assert blas_threads() == before


def test_recommending_does_not_load_numba(ball, tmp_path):
    (tmp_path / "model").write_bytes(pickle.dumps(ball))
    code = (
        "import pickle, sys; model = pickle.load(open(sys.argv[1], 'rb')); model.recommend(n=2);"
        "model.similar_items(1000); model.export_vectors(); sys.exit('numba' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path / "model")], check=False).returncode == 0


# --- what to choose from ------------------------------------------------------------------------------------


def test_users_come_in_the_order_they_are_asked_for(ball):
    items, scores = ball.recommend()
    for asked in ([105, 101, 105], np.array([105, 101, 105]), pd.Series([105, 101, 105]), pl.Series([105, 101, 105])):
        rows = ball.user_ids_.codes([105, 101, 105])
        found = ball.recommend(asked)
        assert np.array_equal(found[0], items[rows])
        assert np.array_equal(found[1], scores[rows])


def test_arrays_have_no_more_columns_than_there_are_items(model):
    n_items = len(model.item_ids_)
    items, scores = model.recommend(n=10**5)
    assert items.shape == scores.shape == (30, n_items)
    for _, some, their_scores in model.recommend_batches(n=10**5, batch_size=20):
        assert some.shape == their_scores.shape == (len(some), n_items)
    assert model.recommend([], n=10**5)[0].shape == (0, n_items)
    assert model.recommend([101], n=10**5, candidates=[1003])[0].shape == (1, n_items)
    assert model.recommend([-5], n=10**5)[0].shape == (1, n_items)


def test_no_users_get_no_lists(ball):
    items, scores = ball.recommend([], n=3)
    assert items.shape == scores.shape == (0, 3)
    assert len(ball.recommend([], output="pandas")) == 0
    assert list(ball.recommend_batches([])) == []


@given(st.sets(st.integers(1000, 1019)), st.sets(st.integers(995, 1019)), st.booleans())
def test_candidates_and_excluded_items_decide_what_may_come(candidates, excluded, exclude_seen):
    model = fitted("exact ball")
    predictions, seen = every_prediction(model), rated_pairs(model) if exclude_seen else set()
    allowed = set(model.item_ids_.codes(sorted(candidates - excluded)).tolist())
    closed = {(user, item) for user in range(30) for item in range(20) if item not in allowed}
    expected = naive.top_n(predictions, seen | closed, 4)
    found = model.recommend(n=4, candidates=sorted(candidates), exclude=sorted(excluded), exclude_seen=exclude_seen)
    assert_same_lists(model, found, expected, predictions)


@pytest.mark.parametrize("name", ["exact ball", "clipped"])
@given(st.dictionaries(st.integers(101, 135), st.sets(st.integers(995, 1019))), st.booleans())
def test_what_is_excluded_for_a_user_is_missing_in_their_list_alone(name, excluded, exclude_seen):
    model = fitted(name)
    predictions, seen = every_prediction(model), rated_pairs(model) if exclude_seen else set()
    users, items = model.user_ids_.ids.tolist(), model.item_ids_.ids.tolist()
    closed = {
        (users.index(user), items.index(item))
        for user, some in excluded.items()
        for item in some
        if user in users and item in items
    }
    expected = naive.top_n(predictions, seen | closed, 4)
    given = {user: sorted(some) for user, some in excluded.items()}
    found = model.recommend(n=4, exclude=given, exclude_seen=exclude_seen)
    assert_same_lists(model, found, expected, predictions)


def test_what_is_excluded_for_a_user_is_missing_in_a_blend_too():
    model = BayesianMBMF(3, bounds=(1, 5), affinity=True, max_iter=5, random_state=0).fit(*data())
    items, _ = model.recommend([101, 102], n=3, by="blend")
    without, _ = model.recommend([101, 102], n=2, by="blend", exclude={101: items[0, :1]})
    assert np.array_equal(without, [items[0, 1:], items[1, :2]])


def test_exclusions_of_a_stranger_are_refused_where_they_would_get_a_list():
    model = clone(fitted("exact ball")).fit(*data())
    with pytest.raises(ValueError, match=r"exclude: user 7 is not known.*with exclude=\[...\] of items"):
        model.recommend([101, 7], exclude={7: [1001]})
    assert model.recommend([101], exclude={7: [1001]})[0].shape == (1, 10)
    assert model.set_params(on_unknown="nan").recommend([7], n=1, exclude={7: [1001]})[0].tolist() == [[-1]]


def test_what_was_dropped_or_set_aside_is_seen_all_the_same():
    X, y = data()
    magnitudes = {int(user): 1.0 for user in X[:, 0]}, {int(item): 1.0 for item in X[:, 1]}
    dropping = MBMF(3, bounds=(1, 5), magnitudes=magnitudes, on_contradiction="drop", max_iter=2, random_state=0)
    aside = MF(3, validation_fraction=0.3, max_iter=2, random_state=0)
    for model in (dropping, aside):
        model.fit(X, y)
        assert model.fitted_.ratings.n_ratings < len(y)
        frame = model.recommend(n=20, output="pandas")
        assert not set(zip(frame["user"], frame["item"], strict=True)) & set(map(tuple, X.tolist()))


def test_items_without_ratings_are_not_recommended():
    matrix = sp.csr_array(([5.0, 4.0, 3.0], ([0, 0, 2], [0, 2, 0])), shape=(3, 4))
    model = MF(1, max_iter=3, random_state=0).fit(matrix)
    items, _ = model.recommend(n=4, exclude_seen=False)
    assert set(items.ravel().tolist()) == {0, 2, -1}
    with pytest.raises(ValueError, match=r"candidates: 1 of 2 items have no training ratings \(first: 3\)"):
        model.recommend(candidates=[0, 3])


# --- unknown users ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["exact ball", "MF gd", "bent", "bent Bayesian", "clipped"])
def test_an_unknown_user_gets_the_items_by_what_is_predicted_for_them(name):
    model = fitted(name)
    items = model.item_ids_.ids
    answers = model.predict([(-5, item) for item in items])
    (expected,) = naive.top_n([answers], set(), 6)
    found, scores = model.recommend([-5, 101, -6], n=6)
    assert np.array_equal(found[0], items[expected])
    assert np.allclose(scores[0], answers[expected], atol=CLOSE)
    assert np.array_equal(found[2], found[0])
    assert np.array_equal(found[1], model.recommend([101], n=6)[0][0])


def test_an_unknown_user_gets_nothing_where_that_is_the_answer(ball):
    items, scores = ball.set_params(on_unknown="nan").recommend([-5, 101], n=3)
    assert items[0].tolist() == [-1, -1, -1]
    assert np.isnan(scores[0]).all()
    assert (items[1] >= 1000).all()
    assert set(ball.recommend([-5, 101], n=3, output="polars")["user"]) == {101}


def test_an_unknown_user_is_refused_where_that_is_the_answer(ball):
    with pytest.raises(ValueError, match=r"1 of 2 rows have no user with training ratings \(first: row 1, user -5\)"):
        ball.set_params(on_unknown="raise").recommend([101, -5])


def test_rows_of_a_matrix_without_ratings_keep_their_place():
    matrix = sp.csr_array(([5.0, 4.0, 3.0], ([0, 0, 2], [0, 1, 0])), shape=(3, 2))
    items, _ = MF(1, max_iter=3, random_state=0).fit(matrix).recommend(n=2)
    assert items.tolist()[0] == [-1, -1]
    assert sorted(items.tolist()[1]) == [0, 1]
    assert items.tolist()[2] == [1, -1]


def test_what_a_user_without_training_ratings_has_seen_is_left_out():
    X = [(0, 0), (0, 1), (1, 2), (2, 0), (2, 2)]
    model = MF(1, max_iter=2, random_state=0).fit(X, [1, 2, 5, 3, 4])
    known = replace(model.fitted_.users, trained=np.array([True, False, True]))
    model._learned = replace(model.fitted_, users=known)
    items, _ = model.recommend([1], n=3)
    assert sorted(items[0].tolist()) == [-1, 0, 1]


def test_users_of_another_type_are_worth_a_warning(ball):
    with pytest.warns(UserWarning, match="no user is known: the users given are str, those of the fit int"):
        ball.recommend(["101"])
    with pytest.warns(UserWarning, match="no item is known: the items given are str, those of the fit int"):
        ball.recommend([101], exclude=["1001"])


# --- frames -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("output", READERS)
@pytest.mark.parametrize("name", ["exact ball", "bent", "clipped", "MF gd", "bent Bayesian"])
def test_frames_are_long_and_carry_ranges(name, output):
    model = fitted(name)
    items, scores = model.recommend(n=15)
    columns = READERS[output](model.recommend(n=15, output=output))
    there = items >= 0
    assert not there.all()
    bayesian = isinstance(model, BayesianMBMF)
    assert list(columns) == ["user", "item", "rank", "score", "lower", "upper"] + ["std"] * bayesian
    assert columns["user"] == np.repeat(model.user_ids_.ids, there.sum(axis=1)).tolist()
    assert columns["item"] == items[there].tolist()
    assert columns["score"] == scores[there].tolist()
    assert columns["rank"] == [rank for row in there for rank in range(1, row.sum() + 1)]
    assert np.all(np.less_equal(columns["lower"], columns["score"]))
    assert np.all(np.less_equal(columns["score"], columns["upper"]))
    pairs = list(zip(columns["user"], columns["item"], strict=True))
    if isinstance(model, MBMF):
        assert np.array_equal(model.predict_range(pairs), [columns["lower"], columns["upper"]])
    if bayesian:
        assert np.allclose(model.predict(pairs, return_std=True)[1], columns["std"])


def test_only_a_clipped_rival_promises_a_range():
    clipped, plain = (fitted(name).recommend(n=1, output="pandas") for name in ("clipped", "MF gd"))
    assert (set(clipped["lower"]), set(clipped["upper"])) == ({1}, {5})
    assert (set(plain["lower"]), set(plain["upper"])) == ({-np.inf}, {np.inf})


def test_an_unknown_user_has_a_range_and_a_spread_in_a_frame():
    model = fitted("bent Bayesian")
    frame = model.recommend([-5], n=3, output="pandas")
    _, std, lower, upper = model.predict(frame[["user", "item"]], return_range=True, return_std=True)
    assert np.allclose(frame[["std", "lower", "upper"]].T, [std, lower, upper])


@pytest.mark.parametrize("output", READERS)
def test_ids_of_strings_stay_strings(output):
    X = [("ann", "tea"), ("ann", "rum"), ("bob", "tea"), ("bob", "gin"), ("eve", "rum"), ("eve", "gin")]
    model = MF(1, max_iter=3, random_state=0).fit(X, [5, 1, 4, 5, 2, 1])
    columns = READERS[output](model.recommend(["eve", "ann"], output=output))
    assert list(zip(columns["user"], columns["item"], strict=True)) == [("eve", "tea"), ("ann", "gin")]
    items, _ = model.recommend(["eve", "ann"], n=2)
    assert items.tolist() == [["tea", None], ["gin", None]]


def test_ids_of_several_types_are_kept_where_the_library_can():
    model = MF(1, max_iter=3, random_state=0).fit([("a", "x"), ("a", 1), (2, "x"), (2, (1, 2))], [1, 2, 3, 4])
    for output in ("pandas", "polars"):
        columns = READERS[output](model.recommend(output=output))
        assert list(zip(columns["user"], columns["item"], strict=True)) == [("a", (1, 2)), (2, 1)]
    with pytest.raises(ValueError, match=r'these ids have no common type in pyarrow .*: use output="pandas"'):
        model.recommend(output="pyarrow")


def test_a_library_that_is_not_there_is_named(ball):
    with patch.dict(sys.modules, {"polars": None}), pytest.raises(ModuleNotFoundError, match="pip install polars"):
        ball.recommend(output="polars")


# --- bad input gets a sentence ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "error", "sentence"),
    [
        ({"n": 0}, ValueError, "n=0: give a whole number of at least 1"),
        ({"n": 2.5}, ValueError, "n=2.5: give a whole number"),
        ({"n": True}, ValueError, "n=True: give a whole number"),
        ({"users": "ann"}, TypeError, "users='ann' is not a column of ids: pass a list, for one id a list of one"),
        ({"users": 101}, TypeError, "users=101 is not a column of ids"),
        ({"users": np.int64(101)}, TypeError, r"users=np.int64\(101\) is not a column of ids"),
        ({"users": {101}}, TypeError, r"users=\{101\} is not a column of ids"),
        ({"users": np.zeros((2, 2))}, ValueError, r"users must be one column of ids, but has shape \(2, 2\)"),
        ({"users": pd.DataFrame({"u": [101]})}, ValueError, r"users must be one column of ids, but has shape \(1, 1\)"),
        ({"users": [[101]]}, TypeError, "cannot be an id: give a number, a string or a tuple"),
        ({"candidates": "tea"}, TypeError, "candidates='tea' is not a column of ids"),
        ({"candidates": [1001, 7]}, ValueError, r"candidates: 1 of 2 items have no training ratings \(first: 7\)"),
        ({"exclude": 7}, TypeError, "exclude=7 is not a column of ids"),
        ({"exclude": {101: 7}}, TypeError, "exclude of user 101=7 is not a column of ids"),
        ({"output": "numpy"}, ValueError, "output='numpy': give one of 'arrays', 'pandas', 'polars', 'pyarrow'"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(ball, request_, error, sentence):
    with pytest.raises(error, match=sentence):
        ball.recommend(**request_)
    with pytest.raises(error, match=sentence):
        ball.recommend_batches(**request_)


def test_batches_of_no_users_are_refused(ball):
    with pytest.raises(ValueError, match="batch_size=0: give a whole number"):
        ball.recommend_batches(batch_size=0)


@pytest.mark.parametrize("method", ["recommend", "recommend_batches", "export_vectors"])
def test_a_model_must_be_fitted_first(method):
    with pytest.raises(NotFittedError):
        getattr(MBMF(2), method)()


# --- neighbours ---------------------------------------------------------------------------------------------


@given(problems(), st.integers(1, 30))
def test_the_most_similar_rows_have_the_highest_cosines(problem, n):
    _, H, _ = problem
    found, cosines = most_similar(H, 0, np.arange(len(H)), n)
    assert len(found) == min(n, len(H) - 1)
    assert 0 not in found
    sizes = np.linalg.norm(H, axis=1)
    product = sizes * sizes[0]
    every = np.divide(H @ H[0], product, out=np.zeros(len(H)), where=product > 0)
    (expected,) = naive.top_n([every], {(0, 0)}, n)
    assert np.allclose(cosines, every[expected], atol=CLOSE)
    assert np.allclose(cosines, every[found], atol=CLOSE)
    assert np.all((np.diff(cosines) < 0) | ((np.diff(cosines) == 0) & (np.diff(found) > 0)))


def test_similar_items_and_users_are_named_by_id(model):
    for similar, ids, known in (
        (model.similar_items, model.item_ids_, 1003),
        (model.similar_users, model.user_ids_, 103),
    ):
        found, cosines = similar(known, n=5)
        assert known not in found
        assert np.all(ids.codes(found) >= 0)
        assert np.all((cosines[:-1] >= cosines[1:]) & (np.abs(cosines) <= 1)[1:])
    assert len(model.similar_items(1003, n=100)[0]) == 19


def test_biases_do_not_make_items_similar():
    model = copy.copy(fitted("MF gd biases"))
    before = model.similar_items(1003)
    moved = replace(model.fitted_.items, factors=model.item_factors_ + np.array([5, -7, 0, 0, 0]))
    model._learned = replace(model.fitted_, items=moved)
    after = model.similar_items(1003)
    assert np.array_equal(before[0], after[0])
    assert np.array_equal(before[1], after[1])


@pytest.mark.parametrize("name", ["similar_items", "similar_users"])
def test_neighbours_of_somebody_unknown_are_refused(ball, name):
    with pytest.raises(ValueError, match=f"{name[8:-1]} 'nobody' is not known to this model"):
        getattr(ball, name)("nobody")
    with pytest.raises(ValueError, match="n=0"):
        getattr(ball, name)(1, n=0)


# --- vectors for an index -----------------------------------------------------------------------------------


def test_exported_vectors_rank_as_the_model_does(model):
    vectors = model.export_vectors()
    assert vectors.users.dtype == vectors.items.dtype == np.float32
    assert vectors.users.flags.c_contiguous
    assert vectors.items.flags.c_contiguous
    assert np.array_equal(vectors.user_ids, model.user_ids_.ids)
    assert np.array_equal(vectors.item_ids, model.item_ids_.ids)
    inner, predictions = vectors.users @ vectors.items.T, every_prediction(model)
    inner = np.take_along_axis(inner, np.argsort(-predictions, axis=1), axis=1)
    kept = np.all(np.diff(inner, axis=1) <= 1e-5 * np.abs(inner).max())
    assert kept or not vectors.exact or getattr(model, "clip", False)


def test_vectors_of_a_bent_model_are_not_called_exact():
    model = fitted("bent")
    vectors = model.export_vectors()
    by_product, by_prediction = (
        np.argsort(-scores, axis=1) for scores in (vectors.users @ vectors.items.T, every_prediction(model))
    )
    assert not vectors.exact
    assert not np.array_equal(by_product, by_prediction)


@pytest.mark.parametrize("unit", [1e-140, 1e-60, 1e60, 1e140])
def test_vectors_keep_their_order_where_float32_cannot_hold_the_factors(unit):
    X, y = data()
    model = MBMF(3, bounds=(unit, 5 * unit), max_iter=5, random_state=0).fit(X, unit * y)
    vectors = model.export_vectors()
    inner, predictions = vectors.users @ vectors.items.T, every_prediction(model)
    inner = np.take_along_axis(inner, np.argsort(-predictions, axis=1), axis=1)
    assert vectors.exact
    assert 0 < np.abs(inner).max() < np.inf
    assert np.all(np.diff(inner, axis=1) <= 1e-5 * np.abs(inner).max())


def test_a_tilted_centre_takes_one_more_dimension():
    assert fitted("tilted up").export_vectors().items.shape[1] == 4
    assert fitted("plain").export_vectors().items.shape[1] == 3


def test_only_what_was_trained_is_exported():
    matrix = sp.csr_array(([5.0, 4.0, 3.0], ([0, 0, 2], [0, 2, 0])), shape=(3, 4))
    vectors = MF(1, max_iter=3, random_state=0).fit(matrix).export_vectors()
    assert vectors.user_ids.tolist() == [0, 2]
    assert vectors.item_ids.tolist() == [0, 2]
    assert (len(vectors.users), len(vectors.items)) == (2, 2)


@pytest.mark.parametrize("name", ["exact ball", "plain", "tilted up", "MF gd biases"])
def test_an_index_of_inner_products_finds_the_same_items(name):
    faiss = pytest.importorskip("faiss", reason="faiss is not installed")
    model = fitted(name)
    users, items, _, item_ids, exact = model.export_vectors()
    index = faiss.IndexFlatIP(items.shape[1])
    index.add(items)
    _, found = index.search(users, 4)
    expected, _ = model.recommend(n=4, exclude_seen=False)
    assert exact
    assert np.mean(item_ids[found] == expected) > 0.95  # the index ranks in float32
