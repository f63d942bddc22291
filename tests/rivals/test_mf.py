"""MF: its gradient descent reaches what an independent solver reaches, its SGD is Koren's, step for step."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

import naive
from boundrec import MF, datasets
from boundrec.rivals.kernels import sgd_epoch

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def problem(seed, shape=(14, 10), rank=3, share=0.8, noise=0.3):
    """Ratings around 3 of low rank and noise, most of them observed: pairs, values, weights."""
    rng = np.random.default_rng(seed)
    V = 3 + rng.standard_normal((shape[0], rank)) @ rng.standard_normal((rank, shape[1]))
    V += noise * rng.standard_normal(shape)
    X = np.argwhere(rng.random(shape) < share)
    return X, V[X[:, 0], X[:, 1]], rng.uniform(0.5, 2, len(X))


def objective(X, y, weights, W, H, offset, ridge, frozen=0):
    """The objective as the docstring of MF has it, in plain numpy; frozen ones are not penalised."""
    users, items = W[X[:, 0]], H[X[:, 1]]
    errors = y - offset - (users * items).sum(1)
    return weights @ (errors**2 + ridge * ((users**2).sum(1) + (items**2).sum(1) - frozen))


def factors_by_id(model):
    """W and H with row i for id i."""
    W, H = np.empty_like(model.user_factors_), np.empty_like(model.item_factors_)
    W[model.user_ids_.ids.astype(int)], H[model.item_ids_.ids.astype(int)] = model.user_factors_, model.item_factors_
    return W, H


# --- full-batch gradient descent --------------------------------------------------------------------------------


@settings(max_examples=15, deadline=None)
@given(
    st.integers(0, 10_000),
    st.booleans(),
    st.sampled_from([0.0, 0.1]),
    st.sampled_from([None, 1.0, 1e-4]),
    st.sampled_from(["shared", "separate"]),
)
def test_descent_never_raises_the_objective(seed, biases, ridge, rate, steps):
    X, y, weights = problem(seed)
    model = MF(3, steps=steps, biases=biases, ridge=ridge, learning_rate=rate, max_iter=40, random_state=seed)
    model.fit(X, y, sample_weight=weights)
    assert np.all(np.diff(model.objectives_) <= 0)
    assert model.objectives_[-1] < model.objectives_[0]


@pytest.mark.parametrize("biases", [False, True])
@pytest.mark.parametrize("solver", ["gd", "sgd"])
def test_the_recorded_objective_is_the_documented_one(solver, biases):
    X, y, weights = problem(1)
    model = MF(3, solver=solver, biases=biases, ridge=0.3, max_iter=7, random_state=0)
    model.fit(X, y, sample_weight=weights)
    W, H = factors_by_id(model)
    offset = np.average(y, weights=weights) if biases else 0.0
    expected = objective(X, y, weights, W, H, offset, 0.3, frozen=2 * biases)
    assert model.objectives_[-1] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("steps", ["shared", "separate"])
@pytest.mark.parametrize("ridge", [0.0, 0.05])
@pytest.mark.parametrize("seed", range(2))
def test_descent_ends_where_an_independent_solver_ends(seed, ridge, steps):
    """The best of five runs of L-BFGS on the same objective, with derivatives of its own."""
    X, y, weights = problem(seed, share=0.9)
    model = MF(2, ridge=ridge, steps=steps, max_iter=20_000, tol=1e-12, random_state=seed)
    model.fit(X, y, sample_weight=weights)
    V, C = np.zeros((14, 10)), np.zeros((14, 10))
    V[tuple(X.T)], C[tuple(X.T)] = y, weights

    def value_and_gradient(x):
        W, H = x[:28].reshape(14, 2), x[28:].reshape(10, 2)
        E = C * (V - W @ H.T)
        slopes = -2 * E @ H + 2 * ridge * C.sum(1)[:, None] * W, -2 * E.T @ W + 2 * ridge * C.sum(0)[:, None] * H
        return objective(X, y, weights, W, H, 0.0, ridge), np.concatenate([slope.ravel() for slope in slopes])

    starts = np.random.default_rng(0).standard_normal((5, 48))
    options = {"maxiter": 5000, "maxfun": 10_000, "ftol": 1e-15, "gtol": 1e-9}
    best = min(minimize(value_and_gradient, x, jac=True, method="L-BFGS-B", options=options).fun for x in starts)
    assert model.objectives_[-1] == pytest.approx(best, rel=1e-4)
    assert model.objectives_[-1] >= best * (1 - 1e-6)


def test_a_full_matrix_without_noise_is_recovered():
    rng = np.random.default_rng(0)
    V = rng.random((12, 2)) @ rng.random((2, 9)) + 1
    X = np.argwhere(np.ones(V.shape))
    model = MF(3, max_iter=20_000, tol=1e-12, random_state=0).fit(X, V.ravel())
    assert np.allclose(model.predict(X), V.ravel(), atol=1e-2)


def test_the_mean_prediction_starts_at_the_mean_rating():
    rng = np.random.default_rng(0)
    model = MF(20, random_state=0)
    W, H = model._start(2000, 1, 3.5, rng), model._start(2000, 0, 3.5, rng)
    assert (W @ H.T).mean() == pytest.approx(3.5, rel=0.02)


def test_ratings_around_zero_start_around_zero_and_are_learnt():
    X, y, _ = problem(3)
    y = y - y.mean() - 1
    model = MF(3, max_iter=2000, random_state=0).fit(X, y)
    assert np.mean((model.predict(X) - y) ** 2) < 0.3 * np.var(y)


# --- stochastic gradient descent --------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.booleans(), st.booleans(), st.sampled_from([0.0, 0.02, 0.5]))
def test_an_epoch_is_a_plain_loop_over_the_ratings(seed, biases, weighted, ridge):
    """1e-12: the compiler may sum an inner product in another order, an epoch has a hundred of them."""
    X, y, weights = problem(seed)
    rng = np.random.default_rng(seed)
    W, H = rng.standard_normal((14, 5)) * 0.5, rng.standard_normal((10, 5)) * 0.5
    if biases:
        W[:, 1] = H[:, 0] = 1.0
    order = rng.permutation(len(y))
    X, y, weights = X[order], y[order], weights[order]
    columns = X[:, 0].astype(np.int32), X[:, 1].astype(np.int32)
    fast_W, fast_H = W.copy(), H.copy()
    entries = *columns, y, weights if weighted else np.empty(0)
    sgd_epoch(entries, fast_W, fast_H, 2 * biases, 0.02, ridge)
    naive.sgd_epoch(*columns, y, weights if weighted else np.ones(len(y)), W, H, biases, 0.02, ridge)
    assert np.allclose(fast_W, W, rtol=1e-12, atol=1e-12)
    assert np.allclose(fast_H, H, rtol=1e-12, atol=1e-12)


def test_small_steps_end_near_the_minimum_that_descent_finds():
    X, y, _ = problem(5)
    common = {"ridge": 0.1, "biases": True, "random_state": 0}
    smooth = MF(2, max_iter=5000, tol=1e-12, **common).fit(X, y)
    noisy = MF(2, solver="sgd", learning_rate=0.003, max_iter=5000, tol=1e-12, patience=5000, **common).fit(X, y)
    assert noisy.objectives_[-1] == pytest.approx(smooth.objectives_[-1], rel=0.02)


def test_the_columns_of_ones_stay_ones():
    X, y, _ = problem(6)
    for solver in ("gd", "sgd"):
        model = MF(3, solver=solver, biases=True, ridge=0.1, max_iter=10, random_state=0).fit(X, y)
        assert model.user_factors_.shape[1] == 5
        assert np.all(model.user_factors_[:, 1] == 1)
        assert np.all(model.item_factors_[:, 0] == 1)
        assert np.ptp(model.user_factors_[:, 0]) > 0


@pytest.mark.parametrize("unit", [1e-8, 1e15, 1e100])
def test_descent_learns_the_same_in_any_unit(unit):
    X = [("ann", "tea"), ("ann", "rum"), ("bob", "tea"), ("bob", "gin"), ("eve", "rum"), ("eve", "gin")]
    y = np.array([5.0, 1.0, 4.0, 5.0, 2.0, 1.0])
    predictions = [MF(2, random_state=0).fit(X, scale * y).predict(X) / scale for scale in (1.0, unit)]
    np.testing.assert_allclose(predictions[0], y, atol=1e-6)
    np.testing.assert_allclose(predictions[1], y, atol=1e-6)


def test_a_weight_of_zero_counts_for_nothing():
    X, y, _ = problem(7)
    ignored = np.arange(len(y)) % 5 == 0
    for solver in ("gd", "sgd"):
        model = MF(2, solver=solver, max_iter=20, random_state=0)
        first = model.fit(X, y, sample_weight=1.0 - ignored).user_factors_
        moved = np.where(ignored, y + 0.5, y)
        moved[ignored] += (y.mean() - moved.mean()) * len(y) / ignored.sum()  # the start depends on the mean
        second = model.fit(X, moved, sample_weight=1.0 - ignored).user_factors_
        assert np.allclose(first, second, rtol=1e-9)


def test_stopping_sgd_early_is_its_regularisation_and_no_accident():
    X, y, _ = problem(4)
    with pytest.warns(ConvergenceWarning, match="max_iter=3"):
        MF(3, max_iter=3, random_state=0).fit(X, y)
    with warnings.catch_warnings(action="error"):
        model = MF(3, solver="sgd", max_iter=3, random_state=0).fit(X, y)
    assert 1 - model.objectives_[2] / model.objectives_[1] > 0.01


def test_diverging_is_said_with_the_remedy():
    X, y, _ = problem(8)
    with pytest.raises(ValueError, match=r"sgd diverges on these ratings with learning_rate=0.005. Pass a smaller"):
        MF(3, solver="sgd", random_state=0).fit(X, y * 10_000)


def test_a_rising_objective_of_sgd_is_no_rest_and_is_told(monkeypatch):
    X, y, _ = problem(4)
    values = iter(range(1, 100))
    monkeypatch.setattr("boundrec.rivals.gradient.FactorDescent.value", lambda _: float(next(values)))
    with pytest.warns(ConvergenceWarning, match="rose from 1 to 20 in 20 epochs of sgd with learning_rate=0.005"):
        model = MF(3, solver="sgd", random_state=0).fit(X, y)
    assert model.n_iter_ == 20


# --- settings ---------------------------------------------------------------------------------------------------


def test_predictions_are_cut_to_the_bounds_only_when_asked():
    X, y, _ = problem(9)
    y = np.clip(y, 1, 5)
    everything = np.argwhere(np.ones((14, 10)))
    model = MF(4, bounds=(1, 5), max_iter=2000, random_state=0).fit(X, y)
    free = model.predict(everything)
    assert free.max() > 5
    assert np.array_equal(model.set_params(clip=True).predict(everything), np.clip(free, 1, 5))


def test_predictions_are_cut_at_the_one_end_there_is():
    X, y, _ = problem(9)
    everything = np.argwhere(np.ones((14, 10)))
    free = MF(4, bounds=(-10, None), max_iter=200, random_state=0).fit(X, y)
    cut = MF(4, bounds=(-10, None), clip=True, max_iter=200, random_state=0).fit(X, y)
    assert np.array_equal(cut.predict(everything), free.predict(everything))
    cut.set_params(bounds=(2, None))
    assert np.array_equal(cut.predict(everything), np.maximum(free.predict(everything), 2))
    assert cut.predict(everything).max() > 5


def test_predictions_cannot_be_cut_after_a_fit_without_bounds():
    X, y, _ = problem(9)
    model = MF(2, max_iter=5, random_state=0).fit(X, y).set_params(clip=True)
    for ask in (lambda: model.predict(X), lambda: model.recommend([X[0, 0]])):
        with pytest.raises(ValueError, match="needs an end to cut at"):
            ask()


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        ({"solver": "als"}, "solver='als'"),
        ({"ridge": -1}, "ridge=-1"),
        ({"learning_rate": 0}, "learning_rate=0"),
        ({"clip": True}, r"bounds=None: MF with clip=True needs an end to cut at"),
        ({"clip": True, "bounds": (None, np.inf)}, "needs an end to cut at"),
    ],
)
def test_settings_without_sense_are_refused(bad, sentence):
    with pytest.raises(ValueError, match=sentence):
        MF(**bad).fit([("a", "b")], [1.0])


def test_steps_past_the_end_of_float64_are_rejected_without_a_warning():
    ratings = datasets.synthetic(200, 5, 0.8, rank=2, random_state=0)
    model = MF(2, learning_rate=1e80, max_iter=30, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        model.fit(ratings.pairs, ratings.rating)
    assert np.isfinite(model.predict(ratings.pairs)).all()
