"""CCD++ against the authors' loops on dense arrays, its laws, and two other roads to the same minimum."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import naive
from boundrec import CCDPlusPlus, Ratings
from boundrec.models.fitted import Fitted
from boundrec.rivals import Cut
from boundrec.rivals.kernels import solve_scalars
from boundrec.solvers.threads import RowPool

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


class Problem:
    """A masked matrix with an empty row and column and stored zeros; C is the mask times the weights."""

    def __init__(self, seed, weighted=False, shape=(9, 7), holes=True):
        rng = np.random.default_rng(seed)
        Z = rng.random(shape) < rng.uniform(0.3, 0.9)
        Z[np.arange(max(shape)) % shape[0], np.arange(max(shape)) % shape[1]] = True
        if holes:
            Z[3] = Z[:, 4] = False
        self.V = np.where(rng.random(shape) < 0.2, 0.0, rng.uniform(-2, 5, shape))
        self.C = Z * (rng.random(shape) if weighted else 1.0)
        rows, columns = np.nonzero(Z)
        matrix = sp.coo_array((self.V[rows, columns], (rows, columns)), shape=shape)
        weights = self.C[rows, columns] if weighted else None
        self.ratings = Ratings.from_sparse(matrix, sample_weight=weights)

    def ridges(self, model):
        """λ_i and λ_j as the model's docstring has them."""
        if model.ridge_mode == "plain":
            return tuple(np.full(n, model.ridge) for n in self.V.shape)
        return model.ridge * self.C.sum(axis=1), model.ridge * self.C.sum(axis=0)

    def objective(self, model):
        W, H = model.user_factors_, model.item_factors_.T
        return naive.ridge_objective(self.V, self.C, W, H, *self.ridges(model))

    def slopes(self, model):
        """Half of the objective's gradient in W and in H."""
        W, H = model.user_factors_, model.item_factors_.T
        ridge_w, ridge_h = self.ridges(model)
        E = self.C * (W @ H - self.V)
        return E @ H.T + ridge_w[:, None] * W, W.T @ E + ridge_h * H


def after_each_sweep(model, ratings):
    kept = []

    def keep(sweep, objective, fitted):
        kept.append((fitted.user_factors_.copy(), fitted.item_factors_.T.copy()))

    model.fit(ratings, callback=keep)
    return kept


def start(model, shape):
    """Where a fit with random_state=0 begins."""
    W = 0.1 * np.random.default_rng(0).random((shape[0], model.n_factors))
    return W, np.zeros((model.n_factors, shape[1]))


@given(
    st.integers(0, 10_000),
    st.integers(1, 9),
    st.sampled_from(["weighted", "plain"]),
    st.integers(1, 4),
    st.sampled_from([0.0, 1e-3, 0.4]),
    st.booleans(),
)
def test_sweeps_are_those_of_the_authors_program(seed, n_factors, mode, inner_iter, inner_tol, weighted):
    problem = Problem(seed, weighted)
    settings = {"inner_iter": inner_iter, "inner_tol": inner_tol}
    model = CCDPlusPlus(n_factors, ridge=0.05, ridge_mode=mode, max_iter=6, patience=100, random_state=0, **settings)
    sweeps = after_each_sweep(model, problem.ratings)
    begin = start(model, problem.V.shape)
    slow = naive.ccdpp_sweeps(problem.V, problem.C, *begin, *problem.ridges(model), **settings, n_sweeps=6)
    for (W, H), (slow_W, slow_H, _) in zip(sweeps, slow, strict=True):
        assert np.allclose(W, slow_W, rtol=1e-7, atol=1e-9)
        assert np.allclose(H, slow_H, rtol=1e-7, atol=1e-9)


def test_a_sweep_ends_once_five_features_are_at_rest():
    problem = Problem(1)
    settings = {"inner_iter": 3, "inner_tol": 0.5}
    model = CCDPlusPlus(12, ridge=0.05, max_iter=8, patience=100, random_state=0, **settings)
    sweeps = after_each_sweep(model, problem.ratings)
    begin = start(model, problem.V.shape)
    slow = list(naive.ccdpp_sweeps(problem.V, problem.C, *begin, *problem.ridges(model), **settings, n_sweeps=8))
    shortest = min(range(1, 8), key=lambda sweep: slow[sweep][2])
    n_features = slow[shortest][2]
    assert 5 <= n_features < 12
    before, after = sweeps[shortest - 1][0], sweeps[shortest][0]
    moved = (before != after).any(axis=0)
    assert moved[:n_features].all()
    assert not moved[n_features:].any()


@given(st.integers(0, 10_000), st.booleans(), st.sampled_from([0.0, 0.3]))
def test_each_scalar_update_lowers_the_objective_by_what_it_says(seed, weighted, ridge):
    problem = Problem(seed, weighted)
    rng = np.random.default_rng(seed)
    u, v = rng.standard_normal(9), rng.standard_normal(7)
    penalty = ridge * problem.C.sum(axis=1)

    def by_row(x):
        return np.sum(problem.C * (problem.V - np.outer(x, v)) ** 2, axis=1) + penalty * x**2

    new, decrease = u.copy(), np.empty(9)
    solve_scalars(tuple(problem.ratings.by_user), v, penalty, new, decrease, 0, 9)
    assert np.allclose(by_row(u) - by_row(new), decrease, rtol=1e-12, atol=1e-12)
    for nudge in (-1e-3, 1e-3):
        assert np.all(by_row(new) <= by_row(new + nudge))


@given(
    st.integers(0, 10_000),
    st.integers(1, 12),
    st.sampled_from([0.0, 1e-3, 1.0]),
    st.booleans(),
    st.sampled_from([1, 5]),
)
def test_the_objective_never_rises(seed, n_factors, ridge, weighted, inner_iter):
    problem = Problem(seed, weighted)
    model = CCDPlusPlus(n_factors, ridge=ridge, inner_iter=inner_iter, max_iter=40, random_state=seed)
    model.fit(problem.ratings)
    # Residuals carry the rounding of every update before: about 1e-15 of a rating each.
    rounding = 1e-11 * np.sum(problem.C * problem.V**2)
    assert np.all(np.diff(model.objectives_) <= rounding)
    assert model.objectives_[-1] == pytest.approx(problem.objective(model), rel=1e-9, abs=rounding)
    assert np.isfinite(model.user_factors_).all()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_both_orders_hold_what_the_factors_leave_of_the_ratings(dtype):
    problem = Problem(0, weighted=True)
    start = Fitted.before_the_first_sweep(problem.ratings, problem.ratings, Cut())
    with RowPool(1, problem.ratings.n_ratings) as pool:
        descent = CCDPlusPlus(4, ridge=0.01, dtype=dtype)._solver(start, pool, np.random.default_rng(0), None)
        for _ in range(50):
            descent.sweep()
    users, items = descent.users, descent.items
    # Not even float32 factors let the residuals drift: what is added back is what was taken away.
    left = problem.V - users.factors.astype(float) @ items.factors.T.astype(float)
    rows = np.repeat(np.arange(9), np.diff(users.csr.indptr))
    columns = np.repeat(np.arange(7), np.diff(items.csr.indptr))
    assert np.allclose(users.csr.data, left[rows, users.csr.indices], rtol=0, atol=1e-12)
    assert np.allclose(items.csr.data, left[items.csr.indices, columns], rtol=0, atol=1e-12)
    assert users.factors.dtype == dtype


@pytest.mark.parametrize("ridge", [0.0, 0.1])
@pytest.mark.parametrize("mode", ["weighted", "plain"])
def test_rows_and_columns_without_data_become_zero(ridge, mode):
    model = CCDPlusPlus(2, ridge=ridge, ridge_mode=mode, max_iter=3, random_state=0).fit(Problem(0).ratings)
    assert np.array_equal(model.user_factors_[3], [0, 0])
    assert np.array_equal(model.item_factors_[4], [0, 0])
    assert np.all(model.user_factors_[0] != 0)


@pytest.mark.parametrize("n_items", [1 << 16, (1 << 16) + 1])
def test_the_last_of_many_items_is_not_taken_for_another(n_items):
    """Indices are stored in two bytes where that is enough."""
    matrix = sp.coo_array(([5.0, 1.0, 2.0], ([0, 0, 1], [0, n_items - 1, n_items - 1])), shape=(2, n_items))
    model = CCDPlusPlus(2, ridge=1e-4, max_iter=200, random_state=0).fit(matrix)
    assert np.allclose(model.predict([(0, 0), (0, n_items - 1), (1, n_items - 1)]), [5, 1, 2], atol=0.01)


def test_the_ratings_are_left_as_they_were():
    problem = Problem(0)
    before = problem.ratings.by_user.data.copy(), problem.ratings.by_item.data.copy()
    CCDPlusPlus(2, max_iter=3, random_state=0).fit(problem.ratings)
    assert np.array_equal(before[0], problem.ratings.by_user.data)
    assert np.array_equal(before[1], problem.ratings.by_item.data)


# --- other roads to the same minimum --------------------------------------------------------------------------
# With as many features as the smaller side, the plain problem is that of the nuclear norm, which is convex: every
# method that reaches a minimum reaches the same. The weighted one is the same after scaling rows and columns.


@pytest.mark.parametrize("mode", ["weighted", "plain"])
@pytest.mark.parametrize("weighted", [False, True])
def test_it_comes_to_rest_where_alternating_ridge_regressions_do(mode, weighted):
    problem = Problem(0, weighted, shape=(8, 6), holes=False)
    ridge = 0.1 if mode == "weighted" else 0.5
    model = CCDPlusPlus(6, ridge=ridge, ridge_mode=mode, max_iter=3000, tol=1e-13, inner_tol=0.0, random_state=0)
    model.fit(problem.ratings)
    rng = np.random.default_rng(1)
    other = rng.standard_normal((8, 6)), rng.standard_normal((6, 6))
    W, H = naive.ridge_als(problem.V, problem.C, *other, *problem.ridges(model), n_sweeps=400)
    expected = naive.ridge_objective(problem.V, problem.C, W, H, *problem.ridges(model))
    assert model.objectives_[-1] == pytest.approx(expected, rel=1e-9)
    assert np.allclose((W @ H)[problem.C > 0], model.predict(np.argwhere(problem.C)), atol=1e-4)
    assert max(np.abs(slope).max() for slope in problem.slopes(model)) < 1e-4


@given(st.integers(0, 10_000), st.integers(1, 5))
def test_a_full_matrix_gives_its_singular_values_less_the_ridge(seed, n_factors):
    rng = np.random.default_rng(seed)
    left, right = (np.linalg.qr(rng.standard_normal((n, 5)))[0] for n in (9, 7))
    singular = np.array([16.0, 8.0, 4.0, 2.0, 1.0])  # apart from each other, so that convergence is fast
    V, ridge = (left * singular) @ right.T, 1.5
    model = CCDPlusPlus(n_factors, ridge=ridge, ridge_mode="plain", max_iter=400, tol=1e-14, random_state=0)
    model.fit(sp.coo_array(V))
    expected = (left * np.where(np.arange(5) < n_factors, np.maximum(singular - ridge, 0), 0)) @ right.T
    assert np.allclose(model.user_factors_ @ model.item_factors_.T, expected, atol=1e-3)


def test_predictions_pass_the_bounds_unless_clipped():
    problem = Problem(0)
    model = CCDPlusPlus(5, bounds=(-2, 5), ridge=1e-3, max_iter=30, random_state=0).fit(problem.ratings)
    pairs = np.argwhere(np.outer(problem.C.any(axis=1), problem.C.any(axis=0)))
    free = model.predict(pairs)
    assert free.min() < -2
    assert free.max() > 5
    assert np.array_equal(model.set_params(clip=True).predict(pairs), np.clip(free, -2, 5))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"ridge": -0.1}, "ridge=-0.1"),
        ({"ridge_mode": "both"}, "ridge_mode='both'"),
        ({"inner_iter": 0}, "inner_iter=0"),
        ({"inner_iter": 1.5}, "inner_iter=1.5"),
        ({"inner_tol": -1e-3}, "inner_tol=-0.001"),
        ({"inner_tol": 1.0}, "inner_tol=1.0"),
    ],
)
def test_settings_without_sense_are_refused(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        CCDPlusPlus(2, **settings).fit([(0, 0)], [1.0])
