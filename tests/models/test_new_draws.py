"""New users, items and ratings for the sampler."""

import copy

import numpy as np
import pytest
from sklearn.base import clone
from test_fold_in import ratings
from test_partial_fit import NEW_X, NEW_Y

from boundrec import BayesianMBMF
from boundrec.models.bounded import centred_sides
from boundrec.models.fitted import Fitted
from boundrec.models.new_ratings import of_side
from boundrec.solvers import Side
from boundrec.solvers.exact import HELD_BY_ITEMS, HELD_BY_USERS, unstack
from boundrec.solvers.gibbs import Prior, draw_rows
from boundrec.solvers.threads import RowPool

SETTINGS = {"implicit": "off", "noise": "one", "dtype": "float64", "random_state": 1, "n_jobs": 1}
SAMPLER = BayesianMBMF(3, bounds=(1, 5), max_iter=20, n_kept=5, **SETTINGS)


@pytest.fixture(scope="module")
def fitted():
    return clone(SAMPLER).fit(*ratings())


def conditional_means(model, kind, rows):
    """What the sampler draws these rows around in each kept sample, over all ratings, and the mean spread."""
    room, by_user_and_item = np.sqrt(model.slack_), [side.csr for side in centred_sides(model.fitted_, np.float64)]
    held = {"user": HELD_BY_USERS, "item": HELD_BY_ITEMS}
    sides = {
        name: [
            Side(csr, room * magnitudes, factors, held[name])
            for factors in unstack(
                getattr(model, f"{name}_factors_"), getattr(model, f"{name}_biases_"), 1 - held[name], model.n_factors
            )
        ]
        for name, csr, magnitudes in zip(
            held, by_user_and_item, (model.user_magnitudes_, model.item_magnitudes_), strict=True
        )
    }
    means, spreads, rng = [], [], np.random.default_rng(0)
    for s, (users, items) in enumerate(zip(sides["user"], sides["item"], strict=True)):
        side, other = (users, items) if kind == "user" else (items, users)
        prior = Prior(*(getattr(model, f"{kind}_prior_{name}_")[s] for name in ("means", "precisions")))
        with RowPool(1, model.fitted_.ratings.n_ratings) as pool:
            found = draw_rows(side, other, prior, 1 / model.noise_variances_[s], pool, rng, True)
        means.append(found.means[rows])
        spreads.append(found.spread[rows])
    return np.array(means), np.mean(spreads, axis=0)


@pytest.mark.parametrize("kind", ["user", "item"])
def test_folding_in_everybody_is_the_samplers_half_step_over_all_ratings(fitted, kind):
    view = fitted.fold_in(*ratings(), axis=f"{kind}s")
    rows = np.arange(len(getattr(fitted, f"{kind}_ids_")))
    means, spread = conditional_means(fitted, kind, rows)
    bias = 0 if kind == "user" else 1
    own = unstack(getattr(view, f"{kind}_factors_"), getattr(view, f"{kind}_biases_"), bias, 3)
    assert np.allclose(own, means, atol=1e-12)
    assert np.allclose(getattr(view, f"{kind}_spread_"), spread, atol=1e-12)


def test_rows_that_new_ratings_touch_are_those_of_half_steps_over_all_ratings(fitted):
    """Step by step: the new user, the items with new ratings, the users with new ratings."""
    model = copy.copy(fitted).partial_fit(NEW_X, NEW_Y)
    users, items = model.user_ids_.codes([101, 104, 7]), model.item_ids_.codes([1003, 1004, "new"])
    now = model.fitted_
    bare = Fitted.before_the_first_sweep(now.ratings, now.ratings, now.ranges)
    full = model._with_new_rows(bare, fitted.fitted_, now.seen)
    for kind, rows in (("user", np.array([30])), ("item", np.sort(items)), ("user", np.sort(users))):
        # Streams belong to places in the batch, so the full half-step is taken on the same rows.
        full = model._solved(full, kind, rows, of_side(now.ratings, kind)[1].take(rows))
    assert np.array_equal(now.users.factors, full.users.factors)
    assert np.array_equal(now.items.factors, full.items.factors)


def test_folded_in_training_users_are_predicted_like_the_fit_does():
    """Not to the last digit: a fit draws users around draws of the items, folding in around their means."""
    rng = np.random.default_rng(1)
    X = np.argwhere(rng.random((60, 40)) < 0.5)
    tastes, features = rng.uniform(-1, 1, (60, 2)), rng.uniform(-1, 1, (40, 2))
    y = np.clip(3 + 2 * np.sum(tastes[X[:, 0]] * features[X[:, 1]], axis=1) + rng.normal(0, 0.3, len(X)), 1, 5)
    model = clone(SAMPLER).fit(X, y)
    apart = model.fold_in(X, y).predict(X) - model.predict(X)
    assert np.sqrt(np.mean(apart**2)) < 0.15 * np.std(model.predict(X))


def test_folding_in_is_the_same_every_time_and_for_any_number_of_threads(fitted, monkeypatch):
    X, y = ratings(3)
    monkeypatch.setattr("boundrec.solvers.threads.INLINE_BELOW", 0)
    monkeypatch.setattr("boundrec.solvers.threads.SMALLEST_RANGE", 1)
    views = [copy.copy(fitted).set_params(n_jobs=n, random_state=None).fold_in(X, y) for n in (1, 1, 2)]
    for other in views[1:]:
        assert np.array_equal(views[0].user_factors_, other.user_factors_)
        assert np.array_equal(views[0].user_spread_, other.user_spread_)


def test_the_more_ratings_the_more_certain(fitted):
    pairs, y = [("new", 1000 + i) for i in range(18)], [5.0, 1, 4, 2, 5, 3] * 3
    other = [("new", 1018), ("new", 1019)]
    stds = [fitted.fold_in(pairs[:n], y[:n]).predict(other, return_std=True)[1].mean() for n in (1, 6, 18)]
    unknown = fitted.predict([(7, 1018), (7, 1019)], return_std=True)[1].mean()
    assert unknown > stds[0] > stds[1] > stds[2]


def test_without_weight_a_rating_leaves_what_the_prior_expects(fitted):
    """Two ratings that count for nothing, beside a user whose rating counts."""
    view = fitted.fold_in([("nothing", 1000), ("one", 1000)], [5.0, 5.0], sample_weight=[0, 1])
    prior = fitted._row_problem().start(fitted.fitted_, "user", view.fitted_.users, view.user_magnitudes_)
    r = view.user_magnitudes_[0]
    assert np.allclose(view.user_factors_[0], prior.factors[0], atol=0.2 * r)
    assert np.allclose(view.user_spread_[0], prior.spread[0], rtol=1.0)
    assert view.predict([("one", 1000)]) > view.predict([("nothing", 1000)])
