"""What a model knows besides ratings: sets of who rated what, features, cold starts, and noise of rows' own."""

import copy
import pickle
import re
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.base import clone

import boundrec
from boundrec import MBMF, BayesianMBMF, Graph, PerItem
from boundrec.data.ratings import Csr, Ratings
from boundrec.model_file import taken_apart
from boundrec.models.new_ratings import averaged_models
from boundrec.models.noise_shape import N_IN_GROUP

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

N_USERS, N_ITEMS = 60, 40
#: The first ids; and what is added to those of users who are the same under other names.
FIRST, OTHERS = np.array([0, 1000]), np.array([1000, 0])
#: The last of them have features and no ratings.
COLD_USERS, COLD_ITEMS = range(54, N_USERS), range(1036, 1000 + N_ITEMS)


class Planted:
    """Ratings that features decide: users' tendency by the first, taste by the second, which items have, too."""

    def __init__(self, seed=0, noise=0.2):
        rng = np.random.default_rng(seed)
        self.people, self.things = rng.normal(size=(N_USERS, 2)), rng.normal(size=(N_ITEMS, 2))
        values = 3 + 0.5 * self.people[:, :1] + 0.4 * self.people[:, 1:] * self.things[:, 1] + 0.3 * self.things[:, 0]
        self.truth = np.clip(values, 1, 5)
        rated = rng.random(self.truth.shape) < 0.5
        rated[list(COLD_USERS)] = rated[:, [item - 1000 for item in COLD_ITEMS]] = False
        self.X = np.argwhere(rated) + FIRST
        self.y = np.clip(self.truth[rated] + noise * rng.normal(size=rated.sum()), 1, 5)
        self.user_features = pd.DataFrame(self.people, columns=["mood", "taste"]).rename_axis("user").reset_index()
        self.item_features = {1000 + item: row.tolist() for item, row in enumerate(self.things)}

    def features(self):
        return {"user_features": self.user_features, "item_features": self.item_features}

    def true(self, pairs):
        pairs = np.asarray(pairs)
        return self.truth[pairs[:, 0], pairs[:, 1] - 1000]


@pytest.fixture(scope="module")
def planted():
    return Planted()


def sampler(**settings):
    return BayesianMBMF(**{"n_factors": 3, "bounds": (1, 5), "max_iter": 30, "random_state": 0} | settings)


@pytest.fixture(scope="module")
def knowing(planted):
    """A model with all that there is to know."""
    return sampler(implicit="both", noise="own").fit(planted.X, planted.y, **planted.features())


def everybody():
    return np.argwhere(np.ones((N_USERS, N_ITEMS), bool)) + FIRST


def correlation(model, planted, pairs):
    return np.corrcoef(model.predict(pairs), planted.true(pairs))[0, 1]


def same_bits(one, other):
    """Whether two models have learnt the same."""
    left, right = (taken_apart(model.fitted_) for model in (one, other))
    return all(np.array_equal(value, right[name]) for name, value in left.items() if isinstance(value, np.ndarray))


# --- cold start ---------------------------------------------------------------------------------------------


def test_whoever_has_features_and_no_ratings_is_answered_by_them_and_less_certainly(knowing, planted):
    cold = [(user, item) for user in COLD_USERS for item in range(1000, 1036)]
    cold += [(user, item) for user in range(54) for item in COLD_ITEMS]
    assert correlation(knowing, planted, cold) > 0.9
    blind = sampler().fit(planted.X, planted.y)
    assert correlation(blind, planted, cold) < 0.8
    std, std_of_rated = (knowing.predict(pairs, return_std=True)[1] for pairs in (cold, planted.X))
    assert std.mean() > 1.3 * std_of_rated.mean()
    low, high = knowing.predict_quantiles(cold, (0.1, 0.9)).T
    inside = np.mean((low <= planted.true(cold)) & (planted.true(cold) <= high))
    assert inside > 0.75


def test_the_cold_are_known_in_every_answer(knowing):
    strict = copy.copy(knowing).set_params(on_unknown="raise")
    assert np.isfinite(strict.predict([(55, 1039), (0, 1037)])).all()
    with pytest.raises(ValueError, match="77"):
        strict.predict([(77, 1000)])
    items, scores = knowing.recommend([55, 0], n=N_ITEMS)
    assert set(items[0].tolist()) == set(range(1000, 1000 + N_ITEMS))  # a cold user has seen nothing
    assert set(COLD_ITEMS) <= set(items[1].tolist())
    assert np.array_equal(scores[0], knowing.predict([(55, item) for item in items[0]]))
    assert {"std"} <= set(knowing.recommend([55], output="pandas").columns)
    assert knowing.similar_items(1037)[0].size
    assert 1037 in knowing.export_vectors().item_ids


def test_an_eval_set_may_ask_for_the_cold(planted):
    model, cold = sampler(burn_in=10, n_kept=20, dtype="float64"), [(55, 1001), (3, 1038), (56, 1039)]
    model.fit(planted.X, planted.y, eval_set=(cold, planted.true(cold)), **planted.features())
    assert np.allclose(model.eval_predictions_, model.predict(cold))


def test_a_cold_item_takes_ratings_later(planted):
    model = sampler(implicit="both", noise="own").fit(planted.X, planted.y, **planted.features())
    before = model.predict([(0, 1037), (1, 1037)], return_std=True)
    view = model.fold_in([(900, 1037), (900, 1001)], [5.0, 4.0])  # a new user who rated a cold item
    assert np.isfinite(view.predict([(900, 1037)])).all()
    X = [(user, 1037) for user in range(2, 40)]
    model.partial_fit(X, np.maximum(planted.true(X) - 0.8, 1.0))
    after = model.predict([(0, 1037), (1, 1037)], return_std=True)
    assert (after[0] < before[0]).all()
    assert (after[1] < before[1]).all()
    assert model.fitted_.items.trained.all()  # those who are cold still count as known


def test_sets_hold_those_with_three_ratings_and_take_no_room_for_others(planted):
    rare = (planted.X[:, 0] < 3) & (planted.X[:, 1] > 1003) | (planted.X[:, 1] < 1003) & (planted.X[:, 0] > 4)
    X, y = planted.X[~rare], planted.y[~rare]
    model = sampler(max_iter=2, implicit="both").fit(X, y, **planted.features())
    of_item, of_user = (np.bincount(X[:, side] - FIRST[side]) for side in (1, 0))
    for side, counts, first in ((model.fitted_.users, of_item, 1000), (model.fitted_.items, of_user, 0)):
        other = model.fitted_.items if first else model.fitted_.users
        assert 0 < np.count_nonzero(counts < 3) < 10
        assert sorted(other.ids.ids[side.links.in_sets] - first) == np.flatnonzero(counts >= 3).tolist()
        assert side.links.matrices.shape[1] == 2 + (counts >= 3).sum()


def test_names_of_columns_and_rows_of_ratings_survive_the_cold(planted):
    frame = pd.DataFrame(planted.X, columns=["user", "item"])
    model = sampler(max_iter=2).fit(frame, planted.y, user_features=planted.user_features)
    assert model.feature_names_in_.tolist() == ["user", "item"]


def test_magnitudes_from_history_serve_the_cold_too(planted):
    model = sampler(magnitudes="history", on_contradiction="drop", max_iter=4)
    model.fit(planted.X, planted.y, **planted.features())
    prediction, lower, upper = model.predict(everybody(), return_range=True)
    assert ((lower <= prediction) & (prediction <= upper)).all()


# --- fold_in and partial_fit --------------------------------------------------------------------------------


def renamed(planted, people):
    return planted.user_features.iloc[people].assign(user=[1000 + one for one in people])


def test_new_ones_with_features_and_no_ratings_are_as_those_of_the_fit(knowing, planted):
    """The same people under other names: only the draws around their means differ."""
    cold = list(COLD_USERS)
    view = knowing.fold_in(features=renamed(planted, cold))
    assert view.user_ids_.ids.tolist() == [1000 + user for user in cold]
    assert view.fitted_.users.trained.all()
    pairs = np.array([(user, item) for user in cold for item in range(1000, 1000 + N_ITEMS)])
    assert np.allclose(view.predict(pairs + OTHERS), knowing.predict(pairs), atol=0.15)
    assert correlation(knowing, planted, pairs) == pytest.approx(
        np.corrcoef(view.predict(pairs + OTHERS), planted.true(pairs))[0, 1], abs=0.01
    )
    items, _ = view.recommend(n=3)
    assert items.shape == (len(cold), 3)


def test_new_items_come_by_their_features_too(knowing, planted):
    view = knowing.fold_in(axis="items", features={"new": planted.things[38].tolist()})
    pairs = [(user, "new") for user in range(N_USERS)]
    assert np.corrcoef(view.predict(pairs), planted.truth[:, 38])[0, 1] > 0.9


def test_ratings_and_features_go_together_and_ids_may_have_either(knowing, planted):
    X, y = [(2000, 1001), (2000, 1002), (2001, 1003)], [5.0, 5.0, 1.0]
    features = renamed(planted, [5, 7]).assign(user=[2001, 2002])
    view = knowing.fold_in(X, y, features=features)
    assert view.user_ids_.ids.tolist() == [2000, 2001, 2002]
    assert view.fitted_.users.trained.all()
    typical = knowing.fold_in(X[:2], y[:2])
    assert np.allclose(typical.predict(X[:2]), view.predict(X[:2]), atol=0.05)  # who has none is taken for typical
    told, plain = (one.predict([(2001, 1030)])[0] for one in (view, knowing.fold_in(X[2:], y[2:])))
    assert told != plain


def test_whoever_has_features_and_ratings_of_weight_0_alone_is_answered_by_the_features(knowing, planted):
    X, pairs = [(1054, 1001), (1054, 1002)], [(1054, item) for item in range(1000, 1000 + N_ITEMS)]
    cold = knowing.fold_in(features=renamed(planted, [54]))
    view = knowing.fold_in(X, [5.0, 1.0], sample_weight=[0, 0], features=renamed(planted, [54]))
    assert np.array_equal(view.predict(pairs), cold.predict(pairs))
    assert not set(view.recommend(n=N_ITEMS)[0][0]) & {1001, 1002}  # which were seen all the same
    with pytest.raises(ValueError, match="all sample weights are 0"):
        knowing.fold_in(X, [5.0, 1.0], sample_weight=[0, 0])
    with pytest.raises(ValueError, match="sample_weight has 1 values for 2 ratings"):
        knowing.fold_in(X, [5.0, 1.0], sample_weight=[0], features=renamed(planted, [54]))


def test_folding_in_training_users_gives_nearly_the_rows_of_the_fit(knowing, planted):
    some = planted.X[:, 0] < 6
    view = knowing.fold_in(planted.X[some], planted.y[some])
    ours, std = view.predict(planted.X[some], return_std=True)
    theirs, their_std = knowing.predict(planted.X[some], return_std=True)
    assert np.allclose(ours, theirs, atol=0.1)
    assert np.allclose(std, their_std, rtol=0.3)


def test_who_rates_at_random_is_told_from_the_steady_when_folded_in(planted):
    model = sampler(noise="own").fit(planted.X, planted.y)
    rng, items = np.random.default_rng(1), np.arange(1000, 1036)
    steady, moody = planted.truth[0, :36], rng.choice([1.0, 5.0], 36)
    view = model.fold_in([(one, item) for one in ("steady", "moody") for item in items], [*steady, *moody])
    std = view.predict([("steady", 1001), ("moody", 1001)], return_std=True)[1]
    assert std[1] > 2 * std[0]
    assert (view.fitted_.users.steadiness[0] > view.fitted_.users.steadiness[1]).all()


def test_ratings_count_by_the_noise_of_what_is_rated_when_folded_in(knowing):
    fitted = knowing.fitted_
    csr = Csr(np.array([0, 2]), np.array([3, 30], np.int32), np.array([4.0, 2.0]), np.array([1.0, 2.0]))
    sides = [side for side, _ in averaged_models(fitted, "user", np.array([5]), csr, 3, np.float64)]
    weights = np.array([side.csr.weights for side in sides])
    assert np.allclose(weights, fitted.items.steadiness[[3, 30]].T * [1.0, 2.0])


def test_columns_that_came_after_the_fit_are_in_nobodys_set(planted):
    model = sampler(implicit="both", noise="own").fit(planted.X, planted.y)
    model.partial_fit([(user, "new") for user in range(30)], np.full(30, 4.0))
    sets = model.fitted_.users.links
    assert sets.in_sets.max() < model.n_items_ - 1
    view = model.fold_in([("one", "new")], [4.0], axis="users")
    shift = next(
        sets.shifts(
            view.user_ids_,
            Ratings.read([("one", "new")], [4.0]).by_user._replace(indices=np.array([model.n_items_ - 1], np.int32)),
        )
    )
    assert np.allclose(shift, -sets.typical[0].sum(axis=0))  # of whoever rated, and nobody in sets
    items = model.fold_in([(0, "newest"), (1, "newest")], [2.0, 3.0], axis="items")
    assert items.fitted_.users.links is None  # none of its items was there to be in a set
    assert np.isfinite(items.fold_in([("one", "newest")], [4.0]).predict([("one", "newest")])).all()


def test_partial_fit_takes_features_of_new_and_of_known_ids(planted):
    model = sampler(implicit="both", noise="own").fit(planted.X, planted.y, **planted.features())
    before = copy.deepcopy(model)
    high = planted.user_features.assign(user=N_USERS + 3, mood=3.0).head(1)
    others = pd.concat([high, planted.user_features[planted.user_features.user == 54].assign(mood=3.0)])
    model.partial_fit([(0, 1001)], [3.0], user_features=others)
    assert model.predict([(N_USERS + 3, 1000)]) > before.predict([(-1, 1000)])
    assert model.predict([(54, 1000)]) > before.predict([(54, 1000)])
    untouched = [(user, item) for user in range(1, 54) for item in (1000, 1005)]
    assert np.array_equal(model.predict(untouched), before.predict(untouched))
    assert np.array_equal(model.predict([(55, 1039)]), before.predict([(55, 1039)]))


def test_on_a_model_that_is_not_fitted_partial_fit_passes_features_on(planted):
    one = sampler(max_iter=3).partial_fit(planted.X, planted.y, **planted.features())
    assert same_bits(one, sampler(max_iter=3).fit(planted.X, planted.y, **planted.features()))


def test_neighbours_make_a_graph_and_new_ones_come_by_theirs(planted):
    rng = np.random.default_rng(0)
    near = np.argsort(np.abs(planted.people[:, :1] - planted.people[:, 0]), axis=1)[:, 1:6]
    graph = Graph([(user, int(other)) for user in range(N_USERS) for other in near[user]])
    model = sampler(max_iter=40).fit(planted.X, planted.y, user_features=graph)
    cold = [(user, int(item)) for user in COLD_USERS for item in rng.integers(1000, 1036, 20)]
    assert np.corrcoef(model.predict(cold), planted.true(cold))[0, 1] > 0.5
    view = model.fold_in(features=Graph([("new", int(other)) for other in near[55]]))
    assert view.user_ids_.ids.tolist() == ["new"]
    with pytest.raises(ValueError, match="a graph of nobody new"):
        model.fold_in(features=Graph([(0, 1)]))


# --- going on, files and copies -----------------------------------------------------------------------------


@pytest.mark.parametrize("told", [False, True])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_going_on_is_the_same_chain_as_sampling_at_once(planted, told, dtype):
    features = planted.features() if told else {}
    settings = {"implicit": "both", "noise": "own", "burn_in": 4, "n_kept": 100, "dtype": dtype}
    at_once = sampler(max_iter=14, **settings).fit(planted.X, planted.y, **features)
    model = sampler(max_iter=9, warm_start=True, **settings).fit(planted.X, planted.y, **features)
    model.set_params(max_iter=5).fit(planted.X, planted.y, **features)
    assert model.objectives_ == at_once.objectives_
    exact = 1e-12 if dtype == "float64" else 1e-5
    assert np.allclose(model.predict(everybody()), at_once.predict(everybody()), rtol=exact)
    for kind in ("users", "items"):
        ours, theirs = (getattr(one.fitted_, kind) for one in (model, at_once))
        assert np.array_equal(ours.steadiness, theirs.steadiness)
        assert np.array_equal(ours.links.matrices, theirs.links.matrices)


@pytest.mark.parametrize(
    ("change", "features", "what"),
    [
        ({"implicit": "users"}, ["user_features", "item_features"], r"rated sets of items \(implicit\)"),
        ({"noise": "one"}, ["user_features", "item_features"], "noise"),
        ({}, ["user_features"], "items"),
    ],
)
def test_sampling_does_not_go_on_with_other_things_known(planted, change, features, what):
    model = sampler(implicit="both", noise="own", warm_start=True, max_iter=3)
    model.fit(planted.X, planted.y, **planted.features())
    with pytest.raises(ValueError, match=f"other {what}"):
        model.set_params(**change).fit(planted.X, planted.y, **{name: planted.features()[name] for name in features})


def test_sampling_does_not_go_on_with_other_columns(planted):
    model = sampler(warm_start=True, max_iter=3).fit(planted.X, planted.y, user_features=planted.user_features)
    with pytest.raises(ValueError, match="other user_features"):
        model.fit(planted.X, planted.y, user_features=planted.user_features.rename(columns={"mood": "age"}))


def test_sampling_does_not_go_on_with_other_values_of_the_same_features(planted):
    table = planted.user_features
    model = sampler(warm_start=True, max_iter=3).fit(planted.X, planted.y, user_features=table)
    with pytest.raises(ValueError, match="other user_features: pass what it had, or warm_start=False"):
        model.fit(planted.X, planted.y, user_features=table.assign(mood=-table["mood"]))
    with pytest.raises(ValueError, match="other user_features"), pytest.warns(UserWarning, match="1 of 54 ids"):
        model.fit(planted.X, planted.y, user_features=table.iloc[1:])
    in_another_order = pd.concat([table[: COLD_USERS[0]][::-1], table[COLD_USERS[0] :]])
    assert model.fit(planted.X, planted.y, user_features=in_another_order).n_iter_ == 6


@pytest.mark.parametrize("how", ["fitted without", "loaded"])
def test_sampling_that_has_nothing_to_go_on_with_says_that_it_begins_anew(planted, how, tmp_path):
    model = sampler(warm_start=how == "loaded", max_iter=3).fit(planted.X, planted.y)
    if how == "loaded":
        model.save(tmp_path / "model.safetensors")
        model = boundrec.load(tmp_path / "model.safetensors")
    with pytest.warns(UserWarning, match="nothing to go on with: .* This fit begins anew"):
        model.set_params(warm_start=True).fit(planted.X, planted.y)
    assert model.n_iter_ == 3
    assert model.fit(planted.X, planted.y).n_iter_ == 6


KINDS = {
    "table": lambda planted: planted.features(),
    "categories": lambda planted: {
        "user_features": pl.DataFrame(
            {"user": range(N_USERS), "job": ["a", "b", None] * 20, "age": [None, *range(N_USERS - 1)]}
        )
    },
    "sparse": lambda planted: {"item_features": (list(planted.item_features), csr_array(planted.things))},
    "graph": lambda planted: {"user_features": Graph([(user, (7 * user + 1) % N_USERS) for user in range(N_USERS)])},
    "nothing": lambda planted: {},
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_loaded_model_predicts_and_folds_in_with_the_same_bits(planted, kind, tmp_path):
    features = KINDS[kind](planted)
    model = sampler(implicit="both", noise="own", max_iter=8).fit(planted.X, planted.y, **features)
    model.save(tmp_path / "model", keep_ratings=True)
    loaded = boundrec.load(tmp_path / "model")
    pairs = [*everybody().tolist(), (-1, 1000), (3, -1)]
    for answer in ("predict", "predict_quantiles"):
        assert np.array_equal(getattr(model, answer)(pairs), getattr(loaded, answer)(pairs))
    assert np.array_equal(model.predict(pairs, return_std=True), loaded.predict(pairs, return_std=True))
    assert loaded.feature_effects_ == model.feature_effects_
    new = [(7, 1001), (7, 1002), (900, 1003)], [1.0, 2.0, 5.0]
    assert same_bits(model.fold_in(*new), loaded.fold_in(*new))
    for name, given_features in features.items():
        axis = name.split("_")[0] + "s"
        if kind != "graph":
            cold = [model.fold_in(axis=axis, features=given_features) for model in (model, loaded)]
            assert same_bits(*cold)
    assert same_bits(model.partial_fit(*new), loaded.partial_fit(*new))
    loaded.save(tmp_path / "again")
    model.save(tmp_path / "alike")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "alike").read_bytes()


def test_a_view_can_be_saved_too(knowing, planted, tmp_path):
    view = knowing.fold_in(axis="items", features={5000: [0.1, 2.0]})
    view.save(tmp_path / "view")
    pairs = [(user, 5000) for user in range(10)]
    assert np.array_equal(boundrec.load(tmp_path / "view").predict(pairs), view.predict(pairs))


def test_files_grow_by_the_links_and_the_noise_of_rows(planted, tmp_path):
    sizes = []
    for settings in ({"implicit": "off", "noise": "one"}, {"implicit": "both", "noise": "own"}):
        sampler(n_kept=5, **settings).fit(planted.X, planted.y).save(tmp_path / "model")
        sizes.append((tmp_path / "model").stat().st_size)
    rows = len(np.unique(planted.X[:, 0])) + len(np.unique(planted.X[:, 1]))
    numbers = rows * 5 * (3 + 1) + rows * 5 + 2 * rows  # links, noise, and who is in sets
    groups = 1 + planted.y.size // N_IN_GROUP  # all, and those in groups
    assert groups > 2
    precisions = 2 * 8 * 5 * (3 + 1) ** 2 + 8 * groups * 201  # and quantiles of the errors
    assert sizes[1] - sizes[0] == pytest.approx(4 * numbers + precisions, rel=0.2)  # the header has more names


def test_fitted_models_can_be_copied_and_pickled(knowing):
    assert same_bits(pickle.loads(pickle.dumps(knowing)), knowing)
    assert clone(knowing).get_params() == knowing.get_params()


# --- what features say --------------------------------------------------------------------------------------


def test_effects_tell_what_was_planted(planted):
    features = planted.user_features.assign(nothing=np.random.default_rng(5).normal(size=N_USERS))
    model = sampler(max_iter=80).fit(planted.X, planted.y, user_features=features, item_features=planted.item_features)
    effects = {(one.side, one.feature): one for one in model.feature_effects_}
    assert [one.feature for one in model.feature_effects_ if one.side == "user"] == ["mood", "taste", "nothing"]
    mood = effects["user", "mood"]
    assert mood.on_ratings == pytest.approx(0.5 * planted.people[:, 0].std(), abs=0.12)
    assert 0 < mood.spread < 0.15
    assert abs(effects["user", "nothing"].on_ratings) < 0.15
    assert effects["user", "nothing"].on_rows < 0.6 * min(mood.on_rows, effects["user", "taste"].on_rows)
    assert abs(effects["user", "taste"].on_ratings) < 0.2 < mood.on_ratings


def test_without_features_there_are_no_effects(planted):
    assert sampler(implicit="both", max_iter=2).fit(planted.X, planted.y).feature_effects_ == []


# --- bad input ----------------------------------------------------------------------------------------------

PEOPLE = pd.DataFrame({"user": range(N_USERS), "age": np.arange(N_USERS) % 7, "job": ["a", "b"] * 30})
BAD = {
    "twice": (pd.concat([PEOPLE, PEOPLE.head(1)]), "user_features have 0 in more than one row"),
    "no ids": ({}, "user_features"),
    "another length": (([1, 2, 3], np.eye(4)), "user_features have 3 ids"),
    "text": ({1: [1.0, "x"], 2: [2.0, 3.0]}, "user_features"),
    "infinite": (PEOPLE.assign(age=np.inf), "user_features"),
    "NaN in a matrix": (([1, 2], [[1.0], [np.nan]]), "user_features"),
    "constant": (PEOPLE[["user"]].assign(age=3), "user_features have no column in which two ids differ"),
    "nothing like it": (7, "user_features"),
    "strangers": (PEOPLE.assign(user=PEOPLE.user + 500), "user_features share no id with the ratings"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_features_are_refused_by_fit_in_a_sentence(planted, name):
    given_features, sentence = BAD[name]
    model = sampler(max_iter=2)
    with pytest.raises((ValueError, TypeError), match=sentence) as refused:
        model.fit(planted.X, planted.y, user_features=given_features)
    assert "\n" not in str(refused.value)
    assert vars(model).keys() == model.get_params().keys()


def test_a_frame_without_the_id_column_is_refused_where_the_ratings_name_it(planted):
    frame = pd.DataFrame(planted.X, columns=["user", "item"])
    with pytest.raises(ValueError, match=r"no column of ids.*'user'"):
        sampler(max_iter=2).fit(frame, planted.y, user_features=PEOPLE.drop(columns="user"))


def test_a_constant_column_is_left_out_with_a_note(planted):
    with pytest.warns(UserWarning, match="1 of 3 columns of user_features are the same for all"):
        model = sampler(max_iter=2).fit(planted.X, planted.y, user_features=PEOPLE.assign(planet="earth"))
    assert len(model.feature_effects_) == 3


@pytest.fixture(scope="module")
def told(planted):
    return sampler(max_iter=4).fit(planted.X, planted.y, user_features=PEOPLE)


@pytest.mark.parametrize(
    ("features", "error", "sentence"),
    [
        (PEOPLE.head(2).drop(columns="job"), ValueError, "features have no column 'job', which they had at fit"),
        (
            PEOPLE.head(2).assign(age=["x", "y"]),
            TypeError,
            "'age' of features had numbers at fit and has categories now",
        ),
        (PEOPLE.head(2).assign(age=[1.0, np.inf]), ValueError, "features"),
        (pd.concat([PEOPLE.head(1)] * 2), ValueError, "features"),
        (([1], csr_array([[1.0]])), TypeError, "features were a table at fit and are a sparse matrix now"),
        (PEOPLE.head(2).assign(age=[1.0, 1e30]), ValueError, "features have .* for 'age' of 1, in units of its spread"),
    ],
)
def test_bad_features_of_new_ones_are_refused_in_a_sentence(told, features, error, sentence):
    with pytest.raises(error, match=sentence) as refused:
        told.fold_in(features=features)
    assert "\n" not in str(refused.value)


def test_a_category_never_seen_counts_as_none_with_a_warning(told):
    with pytest.warns(UserWarning, match="categories that were not there at fit"):
        view = told.fold_in(features=PEOPLE.head(1).assign(user="new", job="astronaut"))
    assert 1 <= view.predict([("new", 1000)])[0] <= 5


def test_features_at_fit_and_none_afterwards_is_somebody_typical(told):
    assert told.fold_in([("new", 1001)], [4.0]).predict([("new", 1000)]).shape == (1,)
    assert told.predict([(-5, 1000)]).shape == (1,)


@pytest.mark.parametrize("call", ["fold_in", "partial_fit"])
@pytest.mark.parametrize("model", [MBMF(3, bounds=(1, 5)), sampler(implicit="both")], ids=["MBMF", "BayesianMBMF"])
def test_features_are_refused_after_a_fit_without(planted, model, call):
    model = clone(model).set_params(max_iter=2).fit(planted.X, planted.y)
    given_features = {"features": PEOPLE} if call == "fold_in" else {"user_features": PEOPLE}
    with pytest.raises(ValueError, match=rf"this {type(model).__name__} was fitted without features of users"):
        getattr(model, call)([(0, 1001)], [3.0], **given_features)


def test_folding_in_nothing_is_refused(told):
    with pytest.raises(ValueError, match="neither ratings nor features"):
        told.fold_in()


@pytest.mark.parametrize("settings", [{"implicit": "user"}, {"noise": "each"}, {"implicit": True}, {"noise": None}])
def test_misspelt_settings_are_refused_in_a_sentence(planted, settings):
    ((name, value),) = settings.items()
    with pytest.raises(ValueError, match=re.escape(f"{name}={value!r}")):
        sampler(**settings).fit(planted.X, planted.y)


# --- the law ------------------------------------------------------------------------------------------------


@given(
    implicit=st.sampled_from(["off", "users", "items", "both"]),
    noise=st.sampled_from(["one", "own"]),
    known=st.lists(st.sampled_from(["user_features", "item_features"]), unique=True),
    bounds=st.sampled_from([(1, 5), (1, None), (0, 1000), None, "per item"]),
    link=st.sampled_from([None, "log1p"]),
    size=st.sampled_from([1.0, 1e5]),
    seed=st.integers(0, 99),
)
def test_whatever_is_known_every_answer_lies_in_its_range(implicit, noise, known, bounds, link, size, seed):
    """Features may be as large as they like: standardised, they move the prior, and rows stay in the ball."""
    rng = np.random.default_rng(seed)
    users, items = np.nonzero(rng.random((7, 6)) < 0.6)
    X, y = np.column_stack([users, items]), rng.integers(1, 6, len(users)).astype(float)
    features = {
        "user_features": {user: (size * rng.standard_cauchy(2)).tolist() for user in range(9)},
        "item_features": (list(range(8)), csr_array(np.abs(rng.standard_cauchy((8, 3))))),
    }
    if bounds == "per item":
        bounds = PerItem({item: (0, 5 + item % 3) for item in range(-1, 9)})
    model = BayesianMBMF(2, bounds=bounds, link=link, implicit=implicit, noise=noise, max_iter=4, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y, **{name: features[name] for name in known})
        views = [model.fold_in([(20, 1), (21, 2)], [1.0, 5.0])]
        if "user_features" in known:
            views.append(model.fold_in(features={30: [1e5 * size, -size], 31: [0.0, 0.0]}))
    for one in (model, *views):
        ids = [-1, *one.user_ids_.ids.tolist()]
        pairs = [(user, item) for user in ids for item in range(-1, 8)]
        prediction, std, lower, upper = one.predict(pairs, return_range=True, return_std=True)
        assert ((lower <= prediction) & (prediction <= upper)).all()
        assert (np.isfinite(std) & (std >= 0)).all()
        quantiles = one.predict_quantiles(pairs, (0.01, 0.5, 0.99))
        assert ((lower[:, None] <= quantiles) & (quantiles <= upper[:, None])).all()
        if isinstance(bounds, tuple):
            low, high = (np.inf * sign if end is None else end for end, sign in zip(bounds, (-1, 1), strict=True))
            assert ((low <= prediction) & (prediction <= high)).all()
        listed, scores = one.recommend(n=3, exclude_seen=False)
        asked = [(user, item) for user, row in zip(one.user_ids_.ids.tolist(), listed, strict=True) for item in row]
        there = [item >= 0 for _, item in asked]
        assert np.array_equal(scores.ravel()[there], one.predict(asked)[there])


# --- what "auto" takes ------------------------------------------------------------------------------------------


def test_auto_takes_the_sets_of_a_side_with_rows_enough_to_learn_them_from():
    """Ten times as many in its sets as it has rows, and no more; and sets of four."""
    rng = np.random.default_rng(0)
    X = np.argwhere(np.ones((120, 12), bool))
    y = rng.integers(1, 6, len(X)).astype(float)
    few = X[:, 1] < 11  # eleven things, rated by everybody
    model = sampler(max_iter=2, implicit="auto").fit(X[few], y[few])
    assert model.fitted_.users.links.in_sets.size == 11
    assert model.fitted_.items.links is None  # 120 people are more than ten for each of eleven things
    model = sampler(max_iter=2, implicit="auto").fit(X, y)
    assert model.fitted_.items.links.in_sets.size == 120
    sparse = (X.sum(axis=1) % 4 == 0) & few  # three of eleven
    assert sampler(max_iter=2, implicit="auto").fit(X[sparse], y[sparse]).fitted_.users.links is None
    assert sampler(max_iter=2, implicit="both").fit(X[few], y[few]).fitted_.items.links.in_sets.size == 120


def test_auto_noise_is_of_rows_own_but_where_some_ratings_are_far_from_all(planted):
    assert sampler(max_iter=2, noise="auto").fit(planted.X, planted.y).fitted_.users.steadiness is not None
    counts = np.where(np.arange(len(planted.y)) == 7, 1e5, planted.y)
    heavy = sampler(max_iter=2, noise="auto", bounds=(0, None))
    assert heavy.fit(planted.X, counts).fitted_.users.steadiness is None
    behind = sampler(max_iter=2, noise="auto", bounds=(0, None), link="log1p")
    assert behind.fit(planted.X, np.exp(planted.y)).fitted_.users.steadiness is not None


def test_a_fit_that_goes_on_keeps_what_auto_took(planted):
    model = sampler(max_iter=4, implicit="auto", noise="auto", warm_start=True).fit(planted.X, planted.y)
    before = model.fitted_.users.links.in_sets
    rare = planted.X[:, 1] < 1005  # these have one or two ratings in what follows
    fewer = ~rare | (planted.X[:, 0] < 5)
    model.fit(planted.X[fewer], planted.y[fewer])
    assert np.array_equal(model.fitted_.users.links.in_sets, before)
    assert len(model.objectives_) == 8
