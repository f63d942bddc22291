"""Clicks in the ball: scores in [−1, 1], rows and lists against slow twins, and everything that models share."""

import os
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import test_contract
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from test_contract import data  # noqa: F401  the contract's fixture

import boundrec
import naive
from boundrec import ImplicitMBMF, Ratings
from boundrec.baselines import Popularity
from boundrec.data.ratings import RatingsError
from boundrec.metrics import ndcg_at_k
from boundrec.splits import hold_out

SMALL = ImplicitMBMF(4, dtype="float64", max_iter=6, random_state=0)
MODELS = {
    "plain": SMALL,
    "float32": clone(SMALL).set_params(dtype="float32"),
    "slack": clone(SMALL).set_params(slack=1.5, unobserved_weight=0.02),
    "popularity": clone(SMALL).set_params(popularity_power=0.5, ridge=0.0),
}

#: What holds of all models, whatever they learn from.
SHARED = [
    "fitting_returns_the_model_and_sets_its_attributes",
    "settings_survive_cloning_and_fitting",
    "the_same_seed_gives_the_same_bits",
    "another_seed_starts_elsewhere",
    "one_two_and_five_threads_give_the_same_bits",
    "renaming_ids_changes_no_bit",
    "weights_change_the_fit",
    "float32_factors_predict_like_float64",
    "ids_whose_ratings_all_have_weight_zero_are_unknown_but_their_pairs_seen",
    "a_callback_sees_every_sweep_and_may_stop",
    "ctrl_c_leaves_the_last_complete_sweep",
    "a_setting_that_is_no_number_is_refused_in_a_sentence",
    "verbose_prints_a_line_for_every_sweep",
    "errors_on_an_eval_set_are_recorded_after_every_sweep",
    "recording_alone_changes_no_bit",
]
globals().update({f"test_{name}": getattr(test_contract, f"test_{name}") for name in SHARED})


@pytest.fixture
def model():
    return clone(SMALL)


def clicks(seed, n=14, m=11, share=0.35):
    rng = np.random.default_rng(seed)
    chosen = rng.random((n, m)) < share
    chosen[0, 0] = True
    pairs = np.argwhere(chosen)
    return pairs, rng.integers(1, 40, len(pairs)).astype(float)


def everything(model):
    return [(user, item) for user in model.user_ids_.ids for item in model.item_ids_.ids]


def confidence(y):
    return np.log2(1 + y / np.median(y))


def dense(model, X, c):
    """The confidences of all pairs, in the model's row order."""
    C = np.zeros((model.n_users_, model.n_items_))
    C[model.user_ids_.codes(X[:, 0]), model.item_ids_.codes(X[:, 1])] = c
    return C


# --- the promise ----------------------------------------------------------------------------------------------


@given(
    st.integers(0, 10_000),
    st.sampled_from(sorted(MODELS)),
    st.sampled_from(["auto", 1e-6, 5.0]),
    st.sampled_from([0.0, 0.01]),
    st.sampled_from([1.0, 1e-9, 1e9]),
)
def test_every_score_of_all_pairs_lies_between_minus_one_and_one(seed, name, weight, ridge, unit):
    X, y = clicks(seed)
    model = clone(MODELS[name]).set_params(unobserved_weight=weight, ridge=ridge).fit(X, unit * y)
    scores = model.predict([*everything(model), ("nobody", 0), (0, "nothing"), ("nobody", "nothing")])
    assert np.all(np.isfinite(scores))
    assert np.all(np.abs(scores) <= 1)


@given(st.integers(0, 10_000), st.sampled_from(sorted(MODELS)))
def test_folded_in_and_added_clicks_keep_the_promise(seed, name):
    X, y = clicks(seed)
    model = clone(MODELS[name]).fit(X, y)
    new = np.array([(99, X[0, 1]), (X[0, 0], X[-1, 1]), (98, X[0, 1])])
    for grown in (model.fold_in(new, [3, 1, 900]), model.partial_fit(np.vstack([new, [(98, 77)]]))):
        assert np.all(np.abs(grown.predict(everything(grown))) <= 1)


# --- against slow twins ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_the_objective_is_the_loss_over_all_pairs_as_it_is_printed(name):
    X, y = clicks(1)
    model = clone(MODELS[name]).fit(X, y)
    C = dense(model, X, confidence(y))
    counts = np.count_nonzero(C, axis=0)
    p = (counts / len(C)) ** model.popularity_power
    p /= p.mean()
    factors = model.user_factors_.astype(float), model.item_factors_.astype(float)
    loss = naive.all_pairs_loss(C, p, model.unobserved_weight_, model.ridge_, *factors)
    assert model.objectives_[-1] == pytest.approx(loss, rel=1e-4 if name == "float32" else 1e-9)


def test_every_users_row_is_the_minimum_in_the_ball():
    X, y = clicks(2)
    model = clone(SMALL).fit(X, y)
    C = dense(model, X, confidence(y))
    for c, w in zip(C, model.user_factors_, strict=True):
        A, b = naive.all_pairs_row(
            c, np.ones(model.n_items_), model.unobserved_weight_, model.ridge_, model.item_factors_
        )
        assert np.allclose(w, naive.solve_row_by_eigen(A, b, 1.0, "ball"), atol=1e-7)


@pytest.mark.parametrize("name", MODELS)
def test_lists_are_those_of_a_full_sort_of_what_was_not_chosen(name):
    X, y = clicks(3, n=80, m=30)
    model = clone(MODELS[name]).fit(X, y)
    scores = model.predict(everything(model)).reshape(model.n_users_, model.n_items_)
    seen = {tuple(pair) for pair in np.argwhere(dense(model, X, 1.0)).tolist()}
    wanted = np.array(naive.top_n(scores, seen, 5))
    items, found = model.recommend(n=5)
    assert np.array_equal(items, model.item_ids_.ids[wanted])
    assert np.array_equal(found, np.take_along_axis(scores, wanted, axis=1))


# --- what y says ------------------------------------------------------------------------------------------------


def test_no_y_ones_and_any_constant_are_the_same_model():
    X, _ = clicks(4)
    plain = clone(SMALL).fit(X)
    for y in (np.ones(len(X)), np.full(len(X), 7.5), np.ones(len(X), bool)):
        assert np.array_equal(clone(SMALL).fit(X, y).user_factors_, plain.user_factors_)
    users, items = plain.user_ids_.codes(X[:, 0]), plain.item_ids_.codes(X[:, 1])
    matrix = sp.csr_array((np.ones(len(X)), (users, items)))
    assert np.array_equal(clone(SMALL).fit(matrix).user_factors_, plain.user_factors_)


def test_the_unit_of_y_does_not_matter():
    """A power of two, which rounds nothing."""
    X, y = clicks(5)
    assert np.array_equal(clone(SMALL).fit(X, y).user_factors_, clone(SMALL).fit(X, 1024 * y).user_factors_)


def test_the_confidence_is_the_logarithm_of_y_times_the_weight():
    X, y = clicks(6)
    by_strength = clone(SMALL).fit(X, y)
    by_weight = clone(SMALL).fit(X, sample_weight=confidence(y))
    assert np.allclose(by_strength.user_factors_, by_weight.user_factors_, atol=1e-9)
    assert by_strength.typical_strength_ == np.median(y)


def test_what_was_chosen_more_often_gets_a_higher_score():
    X, y = clicks(7)
    more = np.where(np.arange(len(y)) == 5, 1000 * y.max(), y)
    pair = [tuple(X[5])]
    assert clone(SMALL).fit(X, more).predict(pair) > clone(SMALL).fit(X, y).predict(pair)


def test_repeated_pairs_add_up_or_are_refused():
    X, y = clicks(8)
    counts = 1 + np.arange(len(y)) % 3
    repeated = np.repeat(X, counts, axis=0)
    assert np.array_equal(
        clone(SMALL).fit(repeated).user_factors_, clone(SMALL).fit(X, counts.astype(float)).user_factors_
    )
    last = clone(SMALL).set_params(duplicates="last").fit(repeated)
    assert np.array_equal(last.user_factors_, clone(SMALL).fit(X).user_factors_)
    with pytest.raises(RatingsError, match="rated before"):
        clone(SMALL).set_params(duplicates="raise").fit(repeated)
    with pytest.raises(ValueError, match="duplicates='mean': give one of 'sum', 'last', 'raise'"):
        clone(SMALL).set_params(duplicates="mean").fit(X)


# --- bad input ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        (-1.0, r"strengths that are not above 0: 1 of \d+ \(first: row 3: -1.0\); leave out what nobody chose"),
        (0.0, r"strengths that are not above 0: 1 of \d+ \(first: row 3: 0.0\).*y=None to count every pair once"),
        (np.nan, r"NaN or infinite ratings: 1 of \d+ \(first: row 3, user .*leave them out"),
        (np.inf, r"NaN or infinite ratings: 1 of \d+ \(first: row 3, user"),
    ],
)
def test_strengths_without_sense_are_refused_in_a_sentence(bad, sentence):
    X, y = clicks(9)
    y[3] = bad
    with pytest.raises(RatingsError, match=sentence):
        clone(SMALL).fit(X, y)
    with pytest.raises(RatingsError, match=sentence):
        clone(SMALL).fit(np.vstack([X, X[3]]), np.append(y, 5.0))  # a sum would hide it


def test_a_stored_zero_and_ratings_below_zero_are_refused_too():
    with pytest.raises(RatingsError, match="strengths that are not above 0: 1 of 3"):
        clone(SMALL).fit(sp.csr_array((np.array([1.0, 0.0, 2.0]), ([0, 0, 1], [0, 1, 1]))))
    with pytest.raises(RatingsError, match=r"not above 0: 1 of 2 \(first: user 'b', item 'y': -2.0\)"):
        clone(SMALL).fit(Ratings.read([("a", "x"), ("b", "y")], [1, -2]))


def test_settings_without_sense_are_refused_in_a_sentence():
    X, _ = clicks(0)
    for settings, sentence in (
        ({"unobserved_weight": 0}, 'unobserved_weight=0: give a positive number, or "auto"'),
        ({"popularity_power": 2}, "popularity_power=2: give a number between -1 and 1"),
        ({"slack": 0.5}, "slack=0.5: give a number of at least 1"),
    ):
        with pytest.raises(ValueError, match=sentence):
            clone(SMALL).set_params(**settings).fit(X)


@pytest.mark.parametrize("name", MODELS)
def test_people_with_everything_or_nothing_and_a_single_item_are_answered(name):
    full = [(0, item) for item in range(4)] + [(1, 0)]
    model = clone(MODELS[name]).fit(full)
    items, scores = model.recommend([0, 1], n=4)
    assert np.array_equal(items[0], [-1] * 4)
    assert np.isnan(scores[0]).all()
    assert set(items[1][:3]) == {1, 2, 3}
    matrix = sp.csr_array((np.ones(2), ([0, 1], [0, 0])), shape=(3, 2))  # user 2 chose nothing, nobody item 1
    empty = clone(MODELS[name]).fit(matrix)
    assert empty.recommend([2], n=2)[0].tolist() == [[0, -1]]
    assert empty.predict([(2, 0)])[0] == 1.0  # both of those who chose anything chose it
    one = clone(MODELS[name]).fit([("ann", "tea")])
    assert 0 < one.predict([("ann", "tea")])[0] <= 1


def test_rows_do_not_come_to_nothing_in_a_small_catalogue():
    """Ten things for twenty people of two tastes: scores tell them apart, and so do lists."""
    rng = np.random.default_rng(0)
    X = [(user, 2 * int(one) + user % 2) for user in range(20) for one in rng.permutation(5)[:3]]
    model = ImplicitMBMF(random_state=0).fit(X)
    assert model.ridge_ <= 0.13
    assert model.predict(X).min() > 0.5
    items, _ = model.recommend(n=2)
    assert np.array_equal(items % 2, np.tile(model.user_ids_.ids[:, None] % 2, 2))


def test_what_auto_stands_for_is_the_rule_that_is_written_down():
    X, _ = clicks(10)
    model = clone(SMALL).fit(X)
    n, (users, items) = len(X), (model.n_users_, model.n_items_)
    assert model.unobserved_weight_ == pytest.approx(max(0.002 * (n / users) ** 1.5, 0.02))
    density = n / (users * items)
    assert model.ridge_ == pytest.approx(0.13 * min(1.0, density / model.unobserved_weight_))
    asked = clone(SMALL).set_params(unobserved_weight=0.5, ridge=0.01).fit(X)
    assert (asked.unobserved_weight_, asked.ridge_) == (0.5, 0.01)


def test_users_and_items_without_clicks_change_nothing():
    X, _ = clicks(10)
    matrix = sp.csr_array((np.ones(len(X)), X.T))
    wider = sp.csr_array((np.ones(len(X)), X.T), shape=(matrix.shape[0] + 5, matrix.shape[1] + 3))
    start = {"max_iter": 200, "tol": 0, "unobserved_weight": 2.0, "ridge": 0.05}
    plain, wide = (clone(SMALL).set_params(**start).fit(one) for one in (matrix, wider))
    assert plain.unobserved_weight_ == wide.unobserved_weight_
    assert plain.objectives_[-1] == pytest.approx(wide.objectives_[-1], rel=1e-3)  # they start elsewhere
    assert not wide.user_factors_[matrix.shape[0] :].any()


# --- whoever is unknown -------------------------------------------------------------------------------------------


def test_somebody_unknown_gets_what_most_people_chose():
    X, _ = clicks(11)
    model = clone(SMALL).fit(X)
    counts = np.count_nonzero(dense(model, X, 1.0), axis=0)
    items, scores = model.recommend([-1], n=4)
    order = np.lexsort((np.arange(len(counts)), -counts))[:4]
    assert np.array_equal(items[0], model.item_ids_.ids[order])
    assert np.allclose(scores[0], counts[order] / model.n_users_)


# --- clicks that come later -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_a_training_users_own_clicks_give_their_own_row(name):
    X, y = clicks(12)
    model = clone(MODELS[name]).fit(X, y)
    view = model.fold_in(X, y)
    exact = 1e-3 if name == "float32" else 1e-6  # the ball's edge is found to a billionth, and the minimum is flat
    assert np.allclose(view.user_factors_, model.user_factors_, atol=exact)
    assert np.array_equal(view.recommend(n=3)[0], model.recommend(n=3)[0])


def test_one_click_is_enough_for_a_list_that_leaves_it_out():
    X, _ = clicks(13)
    model = clone(SMALL).fit(X)
    view = model.fold_in([("new", X[0, 1])])
    items, scores = view.recommend(["new"], n=3)
    assert X[0, 1] not in items
    assert np.all(np.diff(scores[0]) <= 0)
    assert "new" not in model.user_ids_.ids
    with pytest.raises(ValueError, match="ratings are of items without training ratings"):
        model.fold_in([("new", "nothing")])
    with pytest.raises(ValueError, match="axis='rows': give 'users' or 'items'"):
        model.fold_in([("new", X[0, 1])], axis="rows")


def test_new_items_are_folded_in_from_those_who_chose_them():
    X, y = clicks(14)
    model = clone(SMALL).fit(X, y)
    view = model.fold_in([(user, "new") for user in (0, 1, 2)], axis="items")
    c = np.isin(model.user_ids_.ids, (0, 1, 2)) * np.log2(1 + 1 / np.median(y))
    A, b = naive.all_pairs_item_row(c, 1.0, model.unobserved_weight_, model.ridge_, model.user_factors_, model.n_users_)
    assert np.allclose(view.item_factors_[0], naive.solve_row_by_eigen(A, b, 1.0, "ball"), atol=1e-7)


def test_partial_fit_adds_clicks_and_leaves_everybody_else_as_they_were():
    X, y = clicks(15)
    model = clone(SMALL).fit(X, y)
    before = model.user_factors_.copy(), model.item_factors_.copy()
    model.partial_fit([(0, "new"), ("new", 3)])
    assert np.array_equal(model.user_factors_[1 : len(before[0])], before[0][1:])
    untouched = model.item_ids_.ids[: len(before[1])] != 3
    assert np.array_equal(model.item_factors_[: len(before[1])][untouched], before[1][untouched])
    assert not np.array_equal(model.user_factors_[0], before[0][0])
    assert "new" not in model.recommend([0], n=20)[0]
    assert model.recommend(["new"], n=2)[0].shape == (1, 2)


def test_partial_fit_on_nothing_is_a_fit_and_strengths_of_known_pairs_add_up():
    X, y = clicks(16)
    model = clone(SMALL).partial_fit(X, y)
    assert np.array_equal(model.user_factors_, clone(SMALL).fit(X, y).user_factors_)
    assert model.partial_fit(X[:1], [5.0]).fitted_.ratings.by_user.data[0] == y[0] + 5
    replaced = clone(SMALL).set_params(duplicates="last").fit(X, y).partial_fit(X[:1], [5.0])
    assert replaced.fitted_.ratings.by_user.data[0] == 5
    with pytest.raises(ValueError, match="partial_fit needs the clicks of the fit"):
        model.fold_in(X).partial_fit(X)


# --- why --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_the_parts_of_an_explanation_add_up_to_the_score(name):
    X, y = clicks(17)
    model = clone(MODELS[name]).fit(X, y)
    for user, item in [(0, 0), (1, 5), (7, 2)]:
        why = model.explain(user, item)
        assert why.prediction == model.predict([(user, item)])[0]
        assert sum(part.total for part in why.ratings) + why.remainder == pytest.approx(why.prediction, abs=1e-12)
        assert abs(why.remainder) < (1e-4 if name == "float32" else 1e-6)
        assert {part.item: part.rating for part in why.ratings} == dict(zip(*own(X, y, user), strict=True))


def own(X, y, user):
    theirs = X[:, 0] == user
    return X[theirs, 1].tolist(), y[theirs].tolist()


def test_a_part_is_what_the_score_loses_per_unit_where_its_click_counts_less():
    """Inside the ball the row is linear in the right-hand side: parts are those of the naive solve."""
    X, _ = clicks(18)
    model = clone(SMALL).set_params(unobserved_weight=3.0, ridge=0.1).fit(X)
    user = int(np.linalg.norm(model.user_factors_, axis=1).argmin())
    C, H = dense(model, X, 1.0), model.item_factors_
    A, _ = naive.all_pairs_row(C[user], np.ones(len(H)), 3.0, 0.1, H)
    item = int(np.flatnonzero(C[user] == 0)[0])
    expected = {model.item_ids_.ids[k]: H[item] @ np.linalg.solve(A, H[k]) for k in np.flatnonzero(C[user])}
    found = model.explain(model.user_ids_.ids[user], model.item_ids_.ids[item])
    assert {part.item: part.total for part in found.ratings} == pytest.approx(expected, abs=1e-9)


def test_explaining_needs_the_clicks_and_known_ids():
    X, _ = clicks(19)
    model = clone(SMALL).fit(X)
    with pytest.raises(ValueError, match="user=-1 is not known to this model: give one with clicks"):
        model.explain(-1, 0)
    with pytest.raises(ValueError, match="explain needs the clicks of the fit"):
        model.fold_in(X).explain(0, 0)


# --- files, early stopping, scikit-learn ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_saving_and_loading_keeps_every_bit_and_new_clicks_work_on(name, tmp_path):
    X, y = clicks(20)
    model = clone(MODELS[name]).fit(X, y)
    path = tmp_path / "model.safetensors"
    model.save(path, keep_ratings=True)
    loaded = boundrec.load(path)
    assert type(loaded) is ImplicitMBMF
    assert loaded.get_params() == model.get_params()
    assert np.array_equal(loaded.predict(everything(model)), model.predict(everything(model)))
    assert all(map(np.array_equal, loaded.recommend(n=3), model.recommend(n=3)))
    new = [("new", X[0, 1]), ("new", X[-1, 1])]
    assert np.array_equal(loaded.fold_in(new).user_factors_, model.fold_in(new).user_factors_)
    assert np.array_equal(loaded.partial_fit(new).user_factors_, model.partial_fit(new).user_factors_)
    model.save(path)
    with pytest.raises(ValueError, match="keep_ratings=True"):
        boundrec.load(path).partial_fit(new)


def test_early_stopping_goes_by_the_order_of_lists():
    X, _ = clicks(21, n=60, m=40)
    held = np.arange(len(X)) % 5 == 0
    model = clone(SMALL).set_params(max_iter=30, n_iter_no_change=3).fit(X[~held], eval_set=X[held])
    assert model.n_iter_ == model.best_iter_ + 3
    users = np.unique(X[held, 0])
    lists, _ = model.recommend(users, n=10)
    ndcg = ndcg_at_k(X[held, 0], X[held, 1], users, lists, 10)
    assert model.eval_errors_[model.best_iter_ - 1] == pytest.approx(1 - ndcg)
    assert model.score(X[held]) == pytest.approx(ndcg)
    aside = clone(SMALL).set_params(validation_fraction=0.2).fit(X)
    assert len(aside.eval_errors_) == aside.n_iter_


def test_a_search_for_settings_goes_by_ndcg():
    X, _ = clicks(22, n=40, m=25)
    search = GridSearchCV(clone(SMALL), {"unobserved_weight": [0.1, 1.0]}, cv=2).fit(X)
    assert 0 <= search.best_score_ <= 1


def test_neighbours_and_vectors_are_there():
    X, _ = clicks(23)
    model = clone(SMALL).fit(X)
    items, cosines = model.similar_items(0, n=3)
    assert len(items) == 3
    assert np.all(np.abs(cosines) <= 1)
    assert model.similar_users(0, n=2)[0].shape == (2,)
    assert model.export_vectors().exact


# --- real data ------------------------------------------------------------------------------------------------------


def test_as_it_comes_it_is_far_above_popularity_on_real_clicks():
    """The figures of docs/clicks.md, seed 0, with room for another machine's rounding."""
    folder = Path(os.environ.get("BOUNDREC_DATA") or Path(__file__).parents[3] / "shared" / "data")
    if not (folder / "movielens_100k.npz").exists():
        pytest.skip("movielens_100k.npz is not in the data folder; set BOUNDREC_DATA to run this")
    file = np.load(folder / "movielens_100k.npz")
    X, y = np.column_stack([file["user"], file["item"]]).astype(np.int64), file["rating"].astype(float)
    held = hold_out(X[:, 0], X[:, 1], 0.1, 0, protect=False)
    liked = held & (y >= y[~held].mean())
    users = np.unique(X[liked, 0])

    def ndcg(model):
        return ndcg_at_k(X[liked, 0], X[liked, 1], users, model.recommend(users, n=10)[0], 10)

    assert ndcg(Popularity().fit(X[~held])) < 0.15
    assert ndcg(ImplicitMBMF(random_state=0).fit(X[~held])) > 0.305
    assert ndcg(ImplicitMBMF(random_state=0).fit(X[~held], y[~held])) > 0.325
