"""Bounded-SVD: its walls and their derivative, and that nothing overflows however wide the range."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from boundrec import MF, BoundedSVD
from boundrec.data.ratings import Ratings
from boundrec.rivals.kernels import walled_errors, walled_gradients, walled_sgd_epoch

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

WALLS = st.tuples(st.sampled_from([0.0, 0.05, 3.0]), st.sampled_from([0.3, 1.0, 8.0, 40.0]), st.just(1.0), st.just(5.0))


def problem(seed, shape=(12, 9), share=0.7):
    """Ratings from 1 to 5, many at the bounds, and factors whose predictions go well beyond them."""
    rng = np.random.default_rng(seed)
    X = np.argwhere(rng.random(shape) < share)
    y = rng.choice([1.0, 1.0, 3.0, 5.0, 5.0], len(X))
    return X, y, rng.uniform(0.5, 2, len(X)), rng.standard_normal((shape[0], 4)), rng.standard_normal((shape[1], 4))


def by_row(X, y, weights, shape):
    """The ratings as `Csr`, with row numbers as they are in X."""
    return Ratings.from_sparse(sp.coo_array((y, (X[:, 0], X[:, 1])), shape), sample_weight=weights).by_user


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), WALLS)
def test_the_gradient_agrees_with_finite_differences(seed, walls):
    """Sharpness 40 takes some exponents past the guard, so that the straight continuation is tested too.

    The objective is up to e^50 there: differences are compared relative to the largest slope.
    """
    X, y, weights, W, H = problem(seed)
    csr = by_row(X, y, weights, (len(W), len(H)))
    gradient, values = np.empty(W.shape), np.empty(len(W))
    walled_gradients(tuple(csr), W, H, walls, gradient, values, 0, len(W))
    step = 1e-6
    for i, k in [(0, 0), (3, 2), (11, 3)]:
        plus, minus = W.copy(), W.copy()
        plus[i, k] += step
        minus[i, k] -= step
        own = X[:, 0] == i
        difference = [
            naive.walled_objective(*X[own].T, y[own], weights[own], point, H, walls) for point in (plus, minus)
        ]
        slope = (difference[0] - difference[1]) / (2 * step)
        size = naive.walled_objective(*X[own].T, y[own], weights[own], W, H, walls)
        assert 2 * gradient[i, k] == pytest.approx(slope, rel=1e-5, abs=1e-7 * (1 + size))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), WALLS)
def test_the_objective_is_a_plain_sum_over_the_ratings(seed, walls):
    X, y, weights, W, H = problem(seed)
    csr = by_row(X, y, weights, (len(W), len(H)))
    gradient, both, alone = np.empty(W.shape), np.empty(len(W)), np.empty(len(W))
    walled_gradients(tuple(csr), W, H, walls, gradient, both, 0, len(W))
    walled_errors(tuple(csr), W, H, walls, alone, 0, len(W))
    expected = naive.walled_objective(*X.T, y, weights, W, H, walls)
    assert both.sum() == pytest.approx(expected, rel=1e-12)
    assert alone.sum() == pytest.approx(expected, rel=1e-12)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000), st.booleans(), st.sampled_from([0.0, 0.1]), st.sampled_from([0.05, 1.0]))
def test_an_epoch_is_a_plain_loop_over_the_ratings(seed, biases, ridge, penalty):
    X, y, weights, W, H = problem(seed)
    W, H = W / 2, H / 2  # from further out single steps along an exponential diverge
    if biases:
        W[:, 1] = H[:, 0] = 1.0
    walls = penalty, 1.0, 1.0, 5.0
    fast_W, fast_H = W.copy(), H.copy()
    columns = X[:, 0].astype(np.int32), X[:, 1].astype(np.int32)
    walled_sgd_epoch((*columns, y, weights), fast_W, fast_H, 2 * biases, 0.01, ridge, walls)
    naive.walled_sgd_epoch(*columns, y, weights, W, H, biases, 0.01, ridge, walls)
    assert np.allclose(fast_W, W, rtol=1e-11, atol=1e-11)
    assert np.allclose(fast_H, H, rtol=1e-11, atol=1e-11)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.booleans(), st.sampled_from([0.01, 1.0, 1000.0]), st.sampled_from([0.5, 5.0]))
def test_descent_never_raises_the_objective(seed, biases, penalty, sharpness):
    X, y, weights, _, _ = problem(seed)
    model = BoundedSVD(3, bounds=(1, 5), biases=biases, penalty=penalty, sharpness=sharpness, max_iter=40)
    model.set_params(random_state=seed).fit(X, y, sample_weight=weights)
    assert np.all(np.diff(model.objectives_) <= 0)
    assert model.objectives_[-1] < model.objectives_[0]


@pytest.mark.parametrize("solver", ["gd", "sgd"])
@pytest.mark.parametrize("biases", [False, True])
def test_without_a_penalty_it_is_mf(solver, biases):
    X, y, weights, _, _ = problem(1)
    common = {"solver": solver, "biases": biases, "ridge": 0.05, "bounds": (1, 5), "max_iter": 15, "random_state": 0}
    plain = MF(3, **common).fit(X, y, sample_weight=weights)
    bounded = BoundedSVD(3, penalty=0.0, **common).fit(X, y, sample_weight=weights)
    assert np.allclose(plain.predict(X), bounded.predict(X), rtol=1e-10)


def test_a_strong_penalty_keeps_observed_predictions_inside():
    X, y, _, _, _ = problem(2)
    common = {"bounds": (1, 5), "max_iter": 3000, "random_state": 0}
    free = MF(4, **common).fit(X, y).predict(X)
    assert free.max() > 5
    assert free.min() < 1
    weak = BoundedSVD(4, penalty=0.05, **common).fit(X, y).predict(X)
    strong = BoundedSVD(4, penalty=10.0, **common).fit(X, y).predict(X)
    assert strong.min() >= 1
    assert strong.max() <= 5
    assert np.ptp(strong) < np.ptp(weak) < np.ptp(free)


def test_the_walls_stand_where_the_bounds_are_with_biases_too():
    """With biases the ratings are centred, and the walls must move with them: the mean of 4.6 is near one end."""
    X, y, _, _, _ = problem(3)
    y = np.where(y < 3, 4.0, 5.0)
    model = BoundedSVD(2, bounds=(1, 5), biases=True, penalty=5.0, sharpness=5.0, max_iter=2000, random_state=0)
    assert model.fit(X, y).predict(X).max() <= 5


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([0.25, 16.0, 1024.0]))
def test_other_units_give_the_same_fit_in_other_units(seed, unit):
    """Rating × unit, bounds × unit: prediction × unit."""
    X, y, _, _, _ = problem(seed)
    settings_ = {"penalty": 0.5, "sharpness": 2.0, "max_iter": 25, "random_state": seed, "ridge": 0.0}
    stars = BoundedSVD(3, bounds=(1, 5), **settings_).fit(X, y).predict(X)
    units = BoundedSVD(3, bounds=(unit, 5 * unit), **settings_).fit(X, y * unit).predict(X)
    assert np.allclose(units, stars * unit, rtol=1e-6)


@pytest.mark.parametrize("scaled", [False, True])
def test_the_weights_of_the_walls_are_those_of_the_formula_or_go_with_the_range(scaled):
    X, y, weights, _, _ = problem(4)
    model = BoundedSVD(3, bounds=(2, 10), penalty=0.4, sharpness=0.6, scaled=scaled, max_iter=8, random_state=0)
    model.fit(sp.coo_array((2 * y, (X[:, 0], X[:, 1]))), sample_weight=weights)  # factors in the order of its rows
    walls = (0.4 * 2**2, 0.6 / 2, 2.0, 10.0) if scaled else (0.4, 0.6, 2.0, 10.0)
    W, H = model.user_factors_, model.item_factors_
    assert model.objectives_[-1] == pytest.approx(naive.walled_objective(*X.T, 2 * y, weights, W, H, walls), rel=1e-10)


def test_on_a_range_of_four_scaling_changes_nothing():
    X, y, _, _, _ = problem(5)
    one, other = (BoundedSVD(3, bounds=(1, 5), scaled=scaled, max_iter=9, random_state=0) for scaled in (False, True))
    assert np.array_equal(one.fit(X, y).predict(X), other.fit(X, y).predict(X))


@pytest.mark.parametrize("solver", ["gd", "sgd"])
@pytest.mark.parametrize("sharpness", [1.0, 2000.0, 1e6])
def test_nothing_overflows_on_a_range_of_thousands(solver, sharpness):
    """The range of interest points in the paper's Ali Mob data, most of them small, one at the top."""
    rng = np.random.default_rng(0)
    X = np.argwhere(rng.random((40, 30)) < 0.5)
    y = np.minimum(np.floor(rng.lognormal(1.5, 1.5, len(X))), 6852.0)
    y[7] = 6852.0
    model = BoundedSVD(3, bounds=(0, 6852), solver=solver, sharpness=sharpness, random_state=0, max_iter=30)
    if solver == "sgd":
        model.set_params(learning_rate=1e-9)
    model.fit(X, y)
    assert np.isfinite(model.objectives_).all()
    assert np.isfinite(model.predict(X)).all()
    assert model.objectives_[-1] < model.objectives_[0]


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        ({"bounds": None}, r"BoundedSVD needs both ends, such as bounds=\(1, 5\)"),
        ({"bounds": (0, None)}, "BoundedSVD needs both ends"),
        ({"penalty": -0.1}, "penalty=-0.1"),
        ({"sharpness": 0}, "sharpness=0"),
        ({"scaled": "no"}, "scaled='no': give True or False"),
        ({"solver": "als"}, "solver='als'"),
    ],
)
def test_settings_without_sense_are_refused(bad, sentence):
    with pytest.raises(ValueError, match=sentence):
        BoundedSVD(**{"bounds": (1, 5), **bad}).fit([("a", "b")], [1.0])
