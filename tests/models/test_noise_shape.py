"""How ratings are spread around predictions, where users have a noise of their own."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from boundrec import BayesianMBMF
from boundrec.models.fitted import NoiseShape
from boundrec.models.noise_shape import _told_by_others, shape_of_noise

LEVELS = (0.5, 0.8, 0.95)


class Moods:
    """Some rate at both ends of the range, whatever they rate; others say what they mean, all but exactly."""

    def __init__(self, n_users=300, n_items=60):
        rng = np.random.default_rng(0)
        self.random = rng.random(n_users) < 0.3
        truth = 5 + np.add.outer(rng.normal(size=n_users), rng.normal(size=n_items))
        ratings = truth + np.where(self.random, 0.0, 0.4)[:, None] * rng.normal(size=truth.shape)
        extremes = truth + rng.choice([-3.0, 3.0], truth.shape)
        self.ratings = np.clip(np.where(self.random[:, None], extremes, ratings), 0, 10)
        rated = rng.random(truth.shape) < 0.7
        held = rated & (rng.random(truth.shape) < 0.2)
        self.train, self.test = np.argwhere(rated & ~held), np.argwhere(held)

    def of(self, pairs):
        return self.ratings[pairs[:, 0], pairs[:, 1]]


@pytest.fixture(scope="module")
def moods():
    return Moods()


@pytest.fixture(scope="module")
def model(moods):
    settings = {"n_factors": 2, "bounds": (0, 10), "max_iter": 40, "random_state": 0}
    return BayesianMBMF(**settings, implicit="off", noise="own").fit(moods.train, moods.of(moods.train))


def covered(model, pairs, values):
    ends = [(1 + sign * level) / 2 for level in LEVELS for sign in (-1, 1)]
    found = model.predict_quantiles(pairs, ends)
    return [np.mean((values >= found[:, 2 * i]) & (values <= found[:, 2 * i + 1])) for i in range(len(LEVELS))]


@pytest.mark.parametrize("moody", [True, False])
def test_intervals_hold_what_they_say_for_the_noisy_and_for_the_steady(model, moods, moody):
    pairs = moods.test[moods.random[moods.test[:, 0]] == moody]
    assert np.allclose(covered(model, pairs, moods.of(pairs)), LEVELS, atol=0.08)


def test_a_normal_would_not_hold_what_it_says_for_the_noisy(model, moods):
    """Without the shape the middle of a distribution with two ends would be taken for its peak."""
    pairs = moods.test[moods.random[moods.test[:, 0]]]
    prediction, std = model.predict(pairs, return_std=True)
    inside = np.abs(moods.of(pairs) - prediction) < 0.674 * std
    assert np.mean(inside) < 0.3


def test_the_standard_deviation_is_that_of_the_errors_of_noisy_and_of_steady(model, moods):
    for moody in (True, False):
        pairs = moods.test[moods.random[moods.test[:, 0]] == moody]
        prediction, std = model.predict(pairs, return_std=True)
        assert np.isclose(np.std(moods.of(pairs) - prediction), std.mean(), rtol=0.25)


def test_noise_of_one_for_all_keeps_its_normals(moods):
    model = BayesianMBMF(2, bounds=(0, 10), max_iter=5, random_state=0, noise="one")
    assert model.fit(moods.train, moods.of(moods.train)).fitted_.noise_shape is None


def test_few_errors_are_told_together_and_their_quantiles_lie_apart(moods):
    """A group of one or two ratings would know no quantiles: its intervals would have no width."""
    some = moods.train[moods.train[:, 0] < 5]
    model = BayesianMBMF(2, bounds=(0, 10), max_iter=5, random_state=0, noise="own").fit(some, moods.of(some))
    assert len(model.fitted_.noise_shape.edges) == 0
    low, high = model.predict_quantiles(some, (0.25, 0.75)).T
    assert (low < high).all()


def test_a_rating_is_measured_by_the_other_half_of_its_users_ratings():
    """The one whose single rating is far off is found as steady as anybody: there is no other to tell."""
    errors, users = np.array([9.0, *np.full(40, 3.0), *np.full(40, 0.1)]), np.repeat([0, 1, 2], [1, 40, 40])
    told = _told_by_others(errors, users, 3)
    assert told[0] == 1.0
    assert (told[users == 1] < 0.5).all()
    assert (told[users == 2] > 1.2).all()
    changed = errors.copy()
    changed[5] = 50.0
    assert _told_by_others(changed, users, 3)[5] == told[5]


@given(st.integers(1, 7), st.integers(0, 2**32 - 1))
def test_places_of_quantiles_ascend_and_rows_are_found_by_their_edges(n_edges, seed):
    rng = np.random.default_rng(seed)
    edges = np.sort(rng.random(n_edges))
    shape = NoiseShape(np.sort(rng.normal(size=(n_edges + 2, 11)), axis=1), edges)
    places = shape.places(np.array([0.1, 0.5, 0.9]))
    assert (np.diff(places) >= 0).all()
    steadiness = np.append(rng.random(20), np.nan)
    wanted = [0 if np.isnan(one) else 1 + sum(edge < one for edge in edges) for one in steadiness]
    assert shape.rows(steadiness).tolist() == wanted


def test_ratings_all_alike_have_a_shape_of_no_spread():
    X = np.argwhere(np.ones((6, 6), bool))
    model = BayesianMBMF(2, bounds=(0, 10), max_iter=4, random_state=0, noise="own").fit(X, np.full(36, 4.0))
    found = shape_of_noise(model.fitted_)
    assert np.isfinite(found.quantiles).all()
    assert np.isfinite(model.predict(X, return_std=True)).all()
