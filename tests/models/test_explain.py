"""Why a prediction is what it is: parts that add up, and the right ones in front."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import boundrec
import naive
from boundrec import BayesianMBMF
from boundrec.models.explain import Conditional, _parts

N_USERS, N_ITEMS, GROUP = 80, 30, 15


class Tastes:
    """Half of the items are songs and half are films; people differ in how they like songs, and only in that.

    Whoever is young likes songs more, which is the feature; ids of songs begin with "song".
    """

    def __init__(self):
        rng = np.random.default_rng(0)
        self.young = rng.random(N_USERS) < 0.5
        self.liking = np.where(self.young, 0.8, -0.8) + 0.7 * rng.normal(size=N_USERS)
        song = np.arange(N_ITEMS) < GROUP
        truth = 3 + np.outer(self.liking, song) + 0.2 * rng.normal(size=N_ITEMS)
        rated = rng.random(truth.shape) < 0.6
        self.ids = np.array([f"{'song' if one else 'film'} {number}" for number, one in enumerate(song)])
        users, items = np.nonzero(rated)
        self.X = pd.DataFrame({"user": [f"u{one}" for one in users], "item": self.ids[items]})
        self.y = np.clip(truth[rated] + 0.3 * rng.normal(size=rated.sum()), 0, 6)
        names = [f"u{one}" for one in range(N_USERS)]
        self.people = pd.DataFrame(
            {"user": names, "age": np.where(self.young, "young", "old"), "shoe": rng.normal(size=N_USERS)}
        )
        self.unrated_songs = [
            (user, int(item)) for user in range(N_USERS) for item in np.flatnonzero(~rated[user] & song)
        ]


@pytest.fixture(scope="module")
def tastes():
    return Tastes()


def model_of(tastes, **settings):
    features = {"user_features": tastes.people} if settings.pop("features", True) else {}
    settings = {"n_factors": 3, "bounds": (0, 6), "max_iter": 60, "random_state": 0} | settings
    return BayesianMBMF(**settings).fit(tastes.X, tastes.y, **features)


@pytest.fixture(scope="module")
def model(tastes):
    return model_of(tastes, implicit="both", noise="own")


def all_parts(why):
    return [part.total for part in (*why.ratings, *why.features)]


MODELS = {
    "plain": {"features": False, "implicit": "off", "noise": "one"},
    "features": {"implicit": "off", "noise": "one"},
    "sets": {"features": False, "implicit": "users", "noise": "one"},
    "all": {"implicit": "both", "noise": "own"},
    "behind a link": {"features": False, "implicit": "both", "noise": "one", "link": "log1p"},
}


@pytest.mark.parametrize("settings", MODELS.values(), ids=MODELS)
def test_parts_and_remainder_add_up_to_the_prediction(tastes, settings):
    model = model_of(tastes, **settings)
    for user in range(0, N_USERS, 8):
        why = model.explain(f"u{user}", "song 3")
        assert why.prediction == model.predict([(f"u{user}", "song 3")])[0]
        assert np.isclose(why.usual + sum(all_parts(why)) + why.remainder, why.prediction, rtol=0, atol=1e-9)
        assert 0 <= why.usual <= 6


@pytest.mark.parametrize("settings", MODELS.values(), ids=MODELS)
def test_the_remainder_is_small_where_structure_is_planted(tastes, settings):
    model = model_of(tastes, **settings)
    whys = [model.explain(f"u{user}", tastes.ids[item]) for user, item in tastes.unrated_songs[::7]]
    moved = np.array([why.prediction - why.usual for why in whys])
    left = np.array([why.remainder for why in whys])
    assert np.sqrt(np.mean(left**2)) < 0.2 * np.sqrt(np.mean(moved**2))


def test_ratings_of_the_same_kind_lead(model, tastes):
    """What is said of songs comes from songs."""
    from_songs, moved = [], []
    for user, item in tastes.unrated_songs[::7]:
        why = model.explain(f"u{user}", tastes.ids[item])
        if abs(why.prediction - why.usual) > 0.7:
            leading = why.ratings[:3]
            from_songs.append(np.mean([part.item.startswith("song") for part in leading]))
            moved.append(np.sign(sum(part.total for part in leading)) == np.sign(why.prediction - why.usual))
    assert len(moved) > 20
    assert np.mean(from_songs) > 0.9
    assert np.mean(moved) > 0.9


def test_the_feature_that_decides_leads_and_the_other_does_not(tastes):
    model = model_of(tastes, implicit="off", noise="one")
    young = model.explain(f"u{tastes.young.argmax()}", "song 0")
    old = model.explain(f"u{tastes.young.argmin()}", "song 0")
    by_age = [sum(part.total for part in why.features if part.name.startswith("age")) for why in (young, old)]
    by_shoe = [sum(part.total for part in why.features if part.name == "shoe") for why in (young, old)]
    assert by_age[0] > 0 > by_age[1]
    assert max(map(abs, by_shoe)) < min(map(abs, by_age))
    values = {part.name: part.value for part in young.features}
    shoe = tastes.people["shoe"][tastes.young.argmax()]
    assert values == {"age=young": 1, "age=old": 0, "shoe": pytest.approx(shoe)}  # as they were given


def test_somebody_with_features_alone_is_explained_by_these(tastes):
    new = pd.DataFrame({"user": ["cold"], "age": ["young"], "shoe": [0.0]})
    people = pd.concat([tastes.people, new])
    settings = {"n_factors": 3, "bounds": (0, 6), "max_iter": 60, "random_state": 0}
    for implicit in ("off", "both"):
        model = BayesianMBMF(**settings, implicit=implicit).fit(tastes.X, tastes.y, user_features=people)
        why = model.explain("cold", "song 0")
        assert not why.ratings
        assert sum(all_parts(why)) > 0.2
        assert abs(why.remainder) < 0.15


def test_parts_are_told_from_those_of_somebody_folded_in_by_the_ball_alone(tastes):
    """A row that is folded in has the conditional mean that is explained, but where the ball cuts draws off."""
    model = model_of(tastes, features=False, implicit="off", noise="one", bounds=(-50, 50), slack=4.0)
    mine = tastes.X["user"] == "u5"
    view = model.fold_in(tastes.X[mine], tastes.y[mine])
    for item in ("song 1", "film 20"):
        why = model.explain("u5", item)
        told = why.usual + sum(all_parts(why))
        assert np.isclose(told, view.predict([("u5", item)])[0], atol=1e-2)


@given(st.integers(0, 2**32 - 1), st.integers(0, 6), st.integers(0, 3))
def test_parts_of_one_sample_are_those_found_one_by_one(seed, n_rated, n_features):
    rng = np.random.default_rng(seed)
    K = 3
    root = rng.normal(size=(K, K))
    ratings, weights, rated = rng.normal(size=n_rated), rng.random(n_rated), rng.normal(size=(n_rated, K))
    item, mean, precision = rng.normal(size=K), rng.normal(size=K), root @ root.T + np.eye(K)
    variance, radius, shifts = 0.5 + rng.random(), 0.5 + rng.random(), rng.normal(size=(n_rated + n_features, K))
    parts = _parts(Conditional(ratings, weights / variance, rated, radius, item, 0.25, mean, precision, shifts))
    usual, wanted = naive.explained_inner(ratings, weights, rated, variance, radius, item, mean, precision, shifts)
    assert np.isclose(parts.usual, usual + 0.25)
    assert np.allclose(np.concatenate(parts[1:]), wanted)


def test_ratings_that_do_not_count_have_no_part(tastes):
    weights = np.where(tastes.X["item"] == "song 2", 0.0, 1.0)
    settings = {"n_factors": 3, "bounds": (0, 6), "max_iter": 20, "random_state": 0, "implicit": "both"}
    model = BayesianMBMF(**settings).fit(tastes.X, tastes.y, sample_weight=weights)
    user = tastes.X["user"][tastes.X["item"] == "song 2"].iloc[0]
    parts = {part.item: part.total for part in model.explain(user, "song 0").ratings}
    assert parts["song 2"] == 0
    assert any(parts.values())


def test_a_pair_with_a_range_of_its_own_is_explained_in_it(tastes):
    upper = np.where(tastes.X["item"].str.startswith("song"), 6.0, 12.0)
    model = BayesianMBMF(n_factors=3, max_iter=30, random_state=0).fit(
        tastes.X, tastes.y, lower=np.zeros(len(upper)), upper=upper
    )
    why = model.explain("u1", "song 0", lower=0, upper=6)
    wide = model.explain("u1", "song 0", lower=0, upper=12)
    assert np.isclose(why.usual + sum(all_parts(why)) + why.remainder, why.prediction)
    assert np.isclose(2 * sum(all_parts(why)), sum(all_parts(wide)))


def test_whoever_is_unknown_is_refused_in_a_sentence(model):
    with pytest.raises(ValueError, match="user='nobody' is not known to this model: give one with ratings or features"):
        model.explain("nobody", "song 0")
    with pytest.raises(ValueError, match="item='nothing' is not known"):
        model.explain("u1", "nothing")


def test_whoever_has_only_ratings_of_weight_0_is_told_so(tastes):
    counted = (tastes.X["item"] != "song 0").to_numpy()
    model = BayesianMBMF(n_factors=3, max_iter=3, random_state=0).fit(tastes.X, tastes.y, sample_weight=counted)
    why = "has no training ratings, since all of its ratings have weight 0"
    with pytest.raises(ValueError, match=f"item='song 0' {why}"):
        model.explain("u1", "song 0")
    with pytest.raises(ValueError, match=f"item 'song 0' {why}"):
        model.similar_items("song 0")


def test_a_model_without_ratings_says_what_to_do(model, tastes, tmp_path):
    model.save(tmp_path / "with.brec", keep_ratings=True)
    model.save(tmp_path / "without.brec", keep_ratings=False)
    assert boundrec.load(tmp_path / "with.brec").explain("u1", "song 0") == model.explain("u1", "song 0")
    for poor in (boundrec.load(tmp_path / "without.brec"), model.fold_in(tastes.X[:5], tastes.y[:5])):
        with pytest.raises(ValueError, match=r"explain needs the ratings of the fit.*keep_ratings=True"):
            poor.explain("u1", "song 0")
