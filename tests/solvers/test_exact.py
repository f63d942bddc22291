"""Biases, ridge, slack and restarts: all inside the bound."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from boundrec import MBMF, Ratings
from boundrec.solvers import Side
from boundrec.solvers.exact import (
    HELD_BY_ITEMS,
    HELD_BY_USERS,
    HELD_SHARE,
    Alternation,
    stack,
    start_with_biases,
    unstack,
)
from boundrec.solvers.threads import RowPool

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def random_ratings(seed, n=8, m=7, low=1.0, high=5.0, share=0.6):
    rng = np.random.default_rng(seed)
    mask = rng.random((n, m)) < share
    mask[0, 0] = True
    X = np.argwhere(mask)
    return X, rng.uniform(low, high, len(X))


def biased_sides(seed):
    rng = np.random.default_rng(seed)
    X, y = random_ratings(seed)
    ratings = Ratings.read(X, y - 3)
    r, s = rng.uniform(0.8, 1.6, ratings.n_users), rng.uniform(0.8, 1.6, ratings.n_items)
    users = start_with_biases(Side(ratings.by_user, r, np.empty((0, 0))), HELD_BY_USERS, 0.1, 3, rng)
    items = start_with_biases(Side(ratings.by_item, s, np.empty((0, 0))), HELD_BY_ITEMS, 0.1, 3, rng)
    return ratings, users, items


@given(st.integers(0, 1000), st.sampled_from([0.0, 0.05, 1.0]))
def test_with_biases_every_row_keeps_its_norm_and_its_held_coordinate_and_the_objective_falls(seed, ridge):
    ratings, users, items = biased_sides(seed)
    with RowPool(1, ratings.n_ratings) as pool:
        sweeps = Alternation(users, items, pool, "ball", ridge).sweeps()
        objectives = [next(sweeps).objective for _ in range(6)]
    assert np.all(np.diff(objectives) <= 1e-10 * objectives[0])
    for side, held in ((users, HELD_BY_USERS), (items, HELD_BY_ITEMS)):
        assert np.all(np.linalg.norm(side.factors, axis=1) <= side.radius * (1 + 1e-12))
        assert np.allclose(side.factors[:, held], np.sqrt(HELD_SHARE) * side.radius)


def test_the_objective_with_biases_and_ridge_is_the_one_written_down():
    ratings, users, items = biased_sides(3)
    with RowPool(1, ratings.n_ratings) as pool:
        objective = next(Alternation(users, items, pool, "ball", 0.2).sweeps()).objective
    W, H = users.factors, items.factors
    rows = np.repeat(np.arange(len(W)), np.diff(ratings.by_user.indptr))
    errors = (ratings.by_user.data - np.sum(W[rows] * H[ratings.by_user.indices], axis=1)) ** 2
    free_w, free_h = np.delete(W, HELD_BY_USERS, 1), np.delete(H, HELD_BY_ITEMS, 1)
    ridge = np.sum(np.diff(ratings.by_user.indptr) * np.sum(free_w**2, 1)) + np.sum(
        np.diff(ratings.by_item.indptr) * np.sum(free_h**2, 1)
    )
    assert objective == pytest.approx(errors.sum() + 0.2 * ridge)


def test_a_user_half_step_with_biases_leaves_no_gradient_where_the_bound_is_slack():
    """At the end of a sweep each user's free coordinates are stationary, unless they are at the bound."""
    ratings, users, items = biased_sides(5)
    with RowPool(1, ratings.n_ratings) as pool:
        sweeps = Alternation(users, items, pool, "ball", 0.5).sweeps()
        for _ in range(3):
            next(sweeps)
    indptr, indices, data, _ = ratings.by_user
    for i in range(len(users.factors)):
        rated = indices[indptr[i] : indptr[i + 1]]
        errors = data[indptr[i] : indptr[i + 1]] - items.factors[rated] @ users.factors[i]
        gradient = -items.factors[rated].T @ errors + 0.5 * len(rated) * users.factors[i]
        free = np.delete(gradient, HELD_BY_USERS)
        row = np.delete(users.factors[i], HELD_BY_USERS)
        inside = np.linalg.norm(row) < users.radius[i] * np.sqrt(1 - HELD_SHARE) * (1 - 1e-6)
        if inside:
            assert np.allclose(free, 0, atol=1e-8)
        else:  # at the bound the gradient points inwards along the row
            assert np.allclose(free, (free @ row) / (row @ row) * row, atol=1e-6)
            assert free @ row <= 1e-8


@pytest.mark.parametrize("magnitudes", ["range", "history"])
@pytest.mark.parametrize("form", ["c", "n"])
@given(st.integers(0, 1000), st.booleans(), st.sampled_from([1.0, 1.5, 3.0]), st.sampled_from([1, 3]))
def test_every_combination_keeps_predictions_in_their_ranges(form, magnitudes, seed, biases, slack, n_restarts):
    X, y = random_ratings(seed)
    model = MBMF(
        3, bounds=(1, 5), form=form, magnitudes=magnitudes, biases=biases, slack=slack, n_restarts=n_restarts,
        ridge=0.02, max_iter=3, random_state=0,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    everything = [(u, i) for u in range(9) for i in range(8)]
    prediction, lower, upper = model.predict(everything, return_range=True)
    assert np.all((lower <= prediction) & (prediction <= upper))
    assert np.all(upper <= 5)
    assert form == "n" or np.all(lower >= 1)


def test_restarts_average_the_inner_products():
    X, y = random_ratings(1)
    rng = np.random.default_rng(0)
    W, H = [rng.standard_normal((4, 5)) for _ in range(3)], [rng.standard_normal((6, 5)) for _ in range(3)]
    for w in W:
        w[:, HELD_BY_USERS] = 0.5
    for h in H:
        h[:, HELD_BY_ITEMS] = 0.4
    mean = np.mean([w @ h.T for w, h in zip(W, H, strict=True)], axis=0)
    assert np.allclose(stack(W, 2) @ stack(H, 2).T, mean)
    norms = np.max([np.linalg.norm(w, axis=1) for w in W], axis=0)
    assert np.all(np.linalg.norm(stack(W, 2), axis=1) <= norms + 1e-12)
    model = MBMF(3, bounds=(1, 5), n_restarts=3, max_iter=2, random_state=0).fit(X, y)
    assert model.user_factors_.shape[1] == 2 + 9


@given(st.integers(0, 1000), st.integers(1, 4), st.booleans())
def test_what_was_stacked_comes_apart_again(seed, n_samples, biases):
    rng = np.random.default_rng(seed)
    samples = [rng.standard_normal((5, 3 + 2 * biases)) for _ in range(n_samples)]
    for sample in samples[1:]:
        sample[:, HELD_BY_USERS] = samples[0][:, HELD_BY_USERS]
    own = np.column_stack([sample[:, HELD_BY_ITEMS] for sample in samples]) if biases else None
    apart = unstack(stack(samples, 2 * biases), own, HELD_BY_ITEMS, 3)
    assert np.allclose(apart, samples)


def test_restarts_stop_together_when_asked_and_are_the_same_for_the_same_seed():
    X, y = random_ratings(4)
    model = MBMF(3, bounds=(1, 5), n_restarts=3, max_iter=4, random_state=0)
    first, again = MBMF(**model.get_params()).fit(X, y), MBMF(**model.get_params()).fit(X, y)
    assert np.array_equal(first.user_factors_, again.user_factors_)
    stopped = model.fit(X, y, callback=lambda sweep, *_: sweep == 2)
    assert stopped.user_factors_.shape[1] == 2 + 3


def test_slack_lets_predictions_pass_where_the_range_would_hold_them_but_not_out():
    X, y = random_ratings(2, low=1, high=1.2)
    tight = MBMF(3, bounds=(1, 5), slack=1.0, random_state=0).fit(X, y)
    loose = MBMF(3, bounds=(1, 5), slack=2.0, random_state=0).fit(X, y)
    assert loose.predict(X).min() >= 1
    assert np.unique(loose.predict(X)).size == len(y)  # no ties, as clipping would make
    assert tight.predict(X).min() >= 1


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"slack": 0.5}, "slack=0.5"),
        ({"slack": 50}, "slack=50"),
        ({"ridge": -1}, "ridge=-1"),
        ({"n_restarts": 0}, "n_restarts=0"),
        ({"biases": True, "constraint": "sphere"}, "biases=True"),
        ({"ridge": 0.1, "constraint": "sphere"}, "ridge=0.1"),
        ({"slack": 2.0, "constraint": "sphere"}, "slack=2.0"),
    ],
)
def test_settings_that_go_with_the_ball_alone_are_refused_elsewhere(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        MBMF(2, bounds=(1, 5)).set_params(**settings).fit(*random_ratings(0))
