"""Lists where every pair has a range of its own: those of a full sort of all predictions."""

import warnings
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from boundrec import MBMF, BayesianMBMF, PerItem, PerPair, PerUser, load
from boundrec import top_n as search
from own_ranges import FORMS, MODELS, QUIET, problem_of, problems

pytestmark = [pytest.mark.filterwarnings(text) for text in QUIET]

#: Blocks so small that little data makes many of them.
blocks = st.builds(
    lambda users, items, pairs: patch.multiple(search, FEW_USERS=users, FEW_ITEMS=items, PAIRS=pairs),
    st.integers(1, 3),
    st.integers(1, 5),
    st.integers(1, 30),
)


def brute_force(problem, model, n, seen=(), allowed=None, lacking=()):
    """What a full sort of all predictions finds; items without ratings that say something are not recommended."""
    predictions = problem.predict(model)[:, model.item_ids_.ids]
    codes = model.item_ids_.codes
    left_out = {(user, int(codes([item])[0])) for user, item in {*seen, *lacking}}
    trained = model.fitted_.items.trained
    for code, item in enumerate(model.item_ids_.ids.tolist()):
        if not trained[code] or (allowed is not None and item not in allowed):
            left_out |= {(user, code) for user in range(len(predictions))}
    lists = naive.top_n(predictions, left_out, n)
    return [(model.item_ids_.ids[columns], predictions[user, columns]) for user, columns in enumerate(lists)]


def assert_same(found, expected):
    items, scores = found
    for user, (wanted, values) in enumerate(expected):
        assert np.array_equal(items[user, : len(wanted)], wanted)
        assert np.array_equal(scores[user, : len(wanted)], values)
        assert np.all(items[user, len(wanted) :] == -1)
        assert np.isnan(scores[user, len(wanted) :]).all()


@settings(max_examples=120)
@given(problems(), st.sampled_from(sorted(MODELS)), st.integers(1, 8), st.booleans(), blocks)
def test_lists_are_those_of_a_full_sort(problem, name, n, exclude_seen, sizes):
    model = problem.fit(MODELS[name], dtype="float64")
    users = np.arange(len(problem.lower))
    with sizes:
        found = model.recommend(users, n=n, exclude_seen=exclude_seen, **problem.listing)
    seen = set(map(tuple, problem.rated.tolist())) if exclude_seen else set()
    assert_same(found, brute_force(problem, model, n, seen))


@settings(max_examples=60)
@given(problems(scales=(-5, 5), not_negative=True), st.sampled_from(["ball", "bayesian"]), st.integers(1, 8), blocks)
def test_lists_behind_a_link_are_those_of_a_full_sort(problem, name, n, sizes):
    model = problem.fit(MODELS[name], link="log1p")
    with sizes:
        found = model.recommend(np.arange(len(problem.lower)), n=n, exclude_seen=False, **problem.listing)
    assert_same(found, brute_force(problem, model, n))


@settings(max_examples=40)
@given(
    problems(), st.sampled_from(["ball", "bayesian"]), st.sets(st.integers(0, 4), min_size=1), st.integers(1, 8), blocks
)
def test_candidates_and_excluded_items_decide_what_may_come(problem, name, chosen, n, sizes):
    model = problem.fit(MODELS[name], dtype="float64")
    known = model.item_ids_.ids.tolist()
    known = {item for item, trained in zip(known, model.fitted_.items.trained, strict=True) if trained}
    candidates = sorted(chosen & known) or [0]
    users = np.arange(len(problem.lower))
    with sizes:
        found = model.recommend(users, n=n, exclude_seen=False, candidates=candidates, **problem.listing)
        rest = model.recommend(users, n=n, exclude_seen=False, exclude=candidates, **problem.listing)
    assert_same(found, brute_force(problem, model, n, allowed=set(candidates)))
    assert_same(rest, brute_force(problem, model, n, allowed=known - set(candidates)))


def larger(form, seed=1, n=40, m=60, level=lambda rng, shape: rng.uniform(-5, 5, shape)):
    rng = np.random.default_rng(seed)
    shape = n + 1, m + 1
    mask = rng.random(shape) < 0.3
    mask[-1] = mask[:, -1] = False
    mask[:-1, 0] = mask[0, :-1] = True
    rated = np.argwhere(mask)
    lower = level(rng, shape)
    return problem_of(lower, lower + 10 ** rng.uniform(-2, 2, shape), rng.random(len(rated)), rated, form)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["ball", "bayesian"])
def test_lists_of_any_length_are_those_of_a_full_sort(name, form):
    problem = larger(form)
    model = problem.fit(MODELS[name])
    seen = set(map(tuple, problem.rated.tolist()))
    for n in (1, 5, 60, 1000):
        assert_same(model.recommend(np.arange(41), n=n, **problem.listing), brute_force(problem, model, n, seen))
        with patch.multiple(search, FEW_USERS=7, FEW_ITEMS=11):
            assert_same(model.recommend(np.arange(41), n=n, **problem.listing), brute_force(problem, model, n, seen))


def test_ranges_of_items_that_end_at_nothing_far_from_where_they_begin_lose_no_item():
    """Rounding of a score goes with the larger end, and the upper one may be next to zero."""
    problem = larger("item", level=lambda rng, shape: -(10.0 ** rng.uniform(0, 12, shape)))
    rng = np.random.default_rng(0)
    problem = replace(problem, upper=np.broadcast_to(rng.uniform(0, 1e-12, 61), (41, 61)).copy())
    low, high = (end[tuple(problem.rated.T)] for end in (problem.lower, problem.upper))
    problem = replace(problem, ratings=high)
    for name in ("ball", "bayesian", "no biases"):
        model = problem.fit(MODELS[name])
        with patch.multiple(search, FEW_USERS=5, FEW_ITEMS=1):
            found = model.recommend(np.arange(41), n=3, exclude_seen=False)
        assert_same(found, brute_force(problem, model, 3))
    assert low.max() < 0


def test_items_that_cannot_enter_are_not_scored():
    problem = larger("item")
    model = problem.fit(MODELS["ball"])
    looked_at = []
    whole = search.ScoredSearch._look_at

    def look_at(self, tile):
        looked_at.append(len(tile))
        whole(self, tile)

    with patch.multiple(search, FEW_ITEMS=4), patch.object(search.ScoredSearch, "_look_at", look_at):
        found = model.recommend([3], n=2)
    assert sum(looked_at) < 60
    seen = set(map(tuple, problem.rated.tolist()))
    assert np.array_equal(found[0][0], brute_force(problem, model, 2, seen)[3][0])


@pytest.mark.parametrize("form", ["item", "user", "pair", "function"])
def test_equal_scores_come_in_the_order_of_the_items(form):
    """Ranges of no width are answered by their constant, so that equal constants tie."""
    problem = larger(form)
    upper = problem.lower.copy()
    same = {"item": np.s_[:, 10:40], "user": np.s_[5:20], "pair": np.s_[3:30, 2:50], "function": np.s_[::2, ::2]}[form]
    lower = problem.lower.copy()
    lower[same], upper[:] = 3.0, problem.upper
    upper[same] = 3.0
    rated = tuple(problem.rated.T)
    problem = replace(problem, lower=lower, upper=upper, ratings=np.clip(problem.ratings, lower[rated], upper[rated]))
    for name in ("ball", "bayesian"):
        model = problem.fit(MODELS[name])
        for n in (1, 7, 60):
            with patch.multiple(search, FEW_USERS=7, FEW_ITEMS=11):
                found = model.recommend(np.arange(41), n=n, exclude_seen=False)
            assert_same(found, brute_force(problem, model, n))


@pytest.mark.parametrize("name", ["ball", "bayesian"])
@pytest.mark.parametrize("kind", ["pair", "item", "function"])
def test_pairs_without_a_range_are_left_out_and_said_once(name, kind):
    problem = larger("function")
    model = problem.fit(MODELS[name])
    lacking = {(int(u), int(i)) for u, i in np.argwhere(np.random.default_rng(4).random((41, 60)) < 0.3)}
    if kind == "item":
        lacking = {(u, i) for u in range(41) for i in range(60) if i % 3 == 0}
        problem = replace(problem, **{end: np.broadcast_to(getattr(problem, end)[0], (41, 61)) for end in ENDS})
    table = {
        (u, i): (problem.lower[u, i], problem.upper[u, i])
        for u, i in problem.every_pair().tolist()
        if (u, i) not in lacking
    }
    rule = {
        "pair": lambda: PerPair(table),
        "item": lambda: PerItem({i: ends for (u, i), ends in table.items() if u == 0}),
        "function": lambda: (
            lambda users, items: (
                np.array(
                    [table.get((u, i), (np.nan, np.nan)) for u, i in zip(users.tolist(), items.tolist(), strict=True)]
                ).T
            )
        ),
    }[kind]()
    with (
        pytest.warns(UserWarning, match=r"pairs without a range are left out of the lists \(first: user") as said,
        patch.multiple(search, FEW_USERS=6, FEW_ITEMS=9),
    ):
        found = model.recommend(np.arange(41), n=60, exclude_seen=False, bounds=rule)
    assert len(said) == 1
    problem = replace(problem, form="arguments")
    assert_same(found, brute_force(problem, model, 60, lacking=lacking))


ENDS = ("lower", "upper")


def test_a_list_may_be_asked_for_by_another_rule_than_that_of_the_fit():
    problem = larger("item")
    model = problem.fit(MODELS["ball"])
    half = replace(problem, upper=(problem.lower + problem.upper) / 2, form="arguments")
    rule = PerItem({i: (half.lower[0, i], half.upper[0, i]) for i in range(61)})
    assert_same(model.recommend(np.arange(41), n=9, exclude_seen=False, bounds=rule), brute_force(half, model, 9))
    rule = PerUser({u: (half.lower[u, 0], half.upper[u, 0]) for u in range(41)})
    own = replace(half, **{end: np.broadcast_to(getattr(half, end)[:, :1], (41, 61)) for end in ENDS})
    assert_same(model.recommend(np.arange(41), n=9, exclude_seen=False, bounds=rule), brute_force(own, model, 9))


@pytest.mark.parametrize("on_unknown", ["mean", "nan"])
@pytest.mark.parametrize("form", ["item", "pair", "function"])
@pytest.mark.parametrize("name", ["ball", "bayesian"])
def test_unknown_users_get_what_is_predicted_for_them_or_nothing(name, form, on_unknown):
    problem = larger(form)
    model = problem.fit(MODELS[name], on_unknown=on_unknown)
    items, scores = model.recommend([40, 3, 40], n=60, exclude_seen=False)
    if on_unknown == "nan":
        assert np.isnan(scores[[0, 2]]).all()
        assert np.all(items[[0, 2]] == -1)
    else:
        expected = brute_force(problem, model, 60)
        assert_same((items, scores), [expected[40], expected[3], expected[40]])


@pytest.mark.parametrize("name", ["ball", "bayesian"])
@pytest.mark.parametrize("form", ["item", "pair", "columns"])
def test_frames_of_lists_carry_the_ranges_of_their_pairs(name, form):
    problem = larger(form)
    model = problem.fit(MODELS[name])
    frame = model.recommend(np.arange(41), n=5, output="pandas", **problem.listing)
    pairs = frame[["user", "item"]].to_numpy()
    lower, upper = problem.lower[tuple(pairs.T)], problem.upper[tuple(pairs.T)]
    assert np.all((lower <= frame["lower"]) & (frame["lower"] <= frame["score"]))
    assert np.all((frame["score"] <= frame["upper"]) & (frame["upper"] <= upper))
    low, high = model.predict_range(problem.given(pairs), **problem.beside(pairs))
    assert np.array_equal(low, frame["lower"])
    assert np.array_equal(high, frame["upper"])
    if name == "bayesian":
        _, std = model.predict(problem.given(pairs), return_std=True)
        assert np.array_equal(std, frame["std"])


def test_batches_together_are_the_whole_and_any_number_of_threads_finds_the_same():
    problem = larger("pair")
    model = problem.fit(MODELS["bayesian"])
    users = np.arange(41)
    items, scores = model.recommend(users, n=6)
    parts = list(model.recommend_batches(users, n=6, batch_size=7))
    assert np.array_equal(np.concatenate([part[1] for part in parts]), items)
    assert np.array_equal(np.concatenate([part[2] for part in parts]), scores, equal_nan=True)
    with patch.multiple(search, FEW_USERS=3):
        threaded = model.set_params(n_jobs=2).recommend(users, n=6)
    assert np.array_equal(threaded[0], items)
    assert np.array_equal(threaded[1], scores, equal_nan=True)


def test_a_loaded_model_lists_what_the_saved_one_does(tmp_path):
    problem = larger("pair with default")
    model = problem.fit(BayesianMBMF(2, max_iter=4, random_state=0))
    model.save(tmp_path / "model")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = load(tmp_path / "model").recommend(np.arange(41), n=9)
    assert np.array_equal(found[0], model.recommend(np.arange(41), n=9)[0])


def test_vectors_for_an_index_are_refused():
    problem = larger("item")
    with pytest.raises(ValueError, match="no inner product has the order of the predictions: ask for lists"):
        problem.fit(MBMF(2, max_iter=2, random_state=0)).export_vectors()


@pytest.mark.parametrize("form", ["columns", "names", "arguments"])
def test_lists_need_a_rule_where_ranges_came_with_the_rows(form):
    model = larger(form).fit(MODELS["ball"])
    with pytest.raises(ValueError, match=r"ranges of this model came with its rows.*pass bounds=, such as PerItem"):
        model.recommend([1])
    for nonsense in ("columns", ("a", "b"), (1, 5)):
        with pytest.raises(ValueError, match="lists need a rule for ranges of pairs; leave it out, or see PerItem"):
            model.recommend([1], bounds=nonsense)


def test_a_rule_has_no_place_in_a_model_with_one_range():
    X = [(0, 0), (0, 1), (1, 0)]
    model = MBMF(2, bounds=(1, 5), max_iter=2, random_state=0).fit(X, [1, 2, 5])
    with pytest.raises(ValueError, match="this model has one range for all; leave it out"):
        model.recommend([0], bounds=PerItem({0: (1, 5)}))
