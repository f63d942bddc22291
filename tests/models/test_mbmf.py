"""The laws of MBMF for both solvers, constraints and forms, its optima, and its life as a scikit-learn regressor."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
import sklearn
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.stats import kstest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import naive
from boundrec import BMCADMM, MBMF, MF, BayesianMBMF, Ratings
from boundrec.models import estimator
from boundrec.models.fit import StoppingRule
from boundrec.models.mbmf import start_rows
from boundrec.solvers import Side, Sweep
from boundrec.solvers.angles import AngleDescent, AngleSide
from boundrec.solvers.exact import Alternation
from boundrec.solvers.threads import RowPool

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

SOLVERS = [("exact", "ball"), ("exact", "sphere"), ("angles", "sphere")]
each_solver = pytest.mark.parametrize(("solver", "constraint"), SOLVERS, ids=["exact ball", "exact sphere", "angles"])
each_form = pytest.mark.parametrize("form", ["c", "n"])

#: The paper's model alone, where MBMF by default has more.
PLAIN = {"biases": False, "ridge": 0.0, "slack": 1.0}


@st.composite
def rating_data(draw, low=1.0, high=5.0):
    """A few users and items, possibly with rows of one rating, ratings at the bounds, and more factors than data."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, m = draw(st.integers(1, 9)), draw(st.integers(1, 9))
    mask = rng.random((n, m)) < draw(st.floats(0.1, 1.0))
    mask[rng.integers(n), rng.integers(m)] = True
    X = np.argwhere(mask)
    y = rng.uniform(low, high, len(X))
    extreme = rng.random(len(X)) < draw(st.floats(0, 1))
    return X, np.where(extreme, rng.choice([low, high], len(X)), y)


def quiet_fit(model, *data, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(*data, **more)


def everything(model):
    """All pairs of known ids."""
    users, items = np.meshgrid(model.user_ids_.ids, model.item_ids_.ids, indexing="ij")
    return np.column_stack([users.ravel(), items.ravel()])


# --- laws ---------------------------------------------------------------------------------------------------


@each_solver
@each_form
@given(data=rating_data(), k=st.integers(2, 6), magnitudes=st.sampled_from(["range", "history", "paper"]))
def test_factors_keep_their_magnitudes_and_predictions_their_ranges(solver, constraint, form, data, k, magnitudes):
    model = MBMF(
        k, bounds=(1, 5), form=form, solver=solver, constraint=constraint, magnitudes=magnitudes, max_iter=4,
        random_state=0, **PLAIN,
    )  # fmt: skip
    quiet_fit(model, *data)
    for factors, radius in (
        (model.user_factors_, model.user_magnitudes_),
        (model.item_factors_, model.item_magnitudes_),
    ):
        norms = np.linalg.norm(factors, axis=1)
        assert np.all(norms <= radius * (1 + 1e-12))
        if constraint == "sphere":
            assert np.allclose(norms, radius, rtol=1e-12)
    prediction, lower, upper = model.predict(everything(model), return_range=True)
    assert np.all((lower <= prediction) & (prediction <= upper))
    assert np.all(upper <= 5)
    if form == "c":
        assert np.all(lower >= 1)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@given(data=rating_data())
def test_predictions_at_the_very_end_of_the_range_do_not_pass_it(dtype, data):
    """All ratings at one end push w·h against r·s, where rounding would show."""
    X, y = data
    model = MBMF(2, bounds=(0.1, 0.7), magnitudes="range", dtype=dtype, max_iter=40, random_state=0, **PLAIN)
    quiet_fit(model, X, np.full(len(y), 0.7))
    prediction = model.predict(everything(model))
    assert np.all((prediction >= 0.1) & (prediction <= 0.7))
    assert model.predict(X).max() == pytest.approx(0.7, abs=1e-4)


@pytest.mark.parametrize("constraint", ["ball", "sphere"])
@each_form
@given(data=rating_data(), k=st.integers(2, 6), magnitudes=st.sampled_from(["range", "history"]))
def test_exact_alternation_never_raises_the_objective(constraint, form, data, k, magnitudes):
    model = MBMF(k, bounds=(1, 5), form=form, constraint=constraint, magnitudes=magnitudes, max_iter=12, random_state=1)
    quiet_fit(model, *data)
    scale = np.sum(data[1] ** 2)  # what rounding is relative to
    assert np.all(np.diff(model.objectives_) <= 1e-11 * scale)


@each_form
@given(data=rating_data())
def test_dynamic_and_searched_steps_never_raise_the_objective(form, data):
    for step in ("dynamic", "line-search"):
        for steps in ("separate", "shared"):
            model = MBMF.as_in_paper(3, form=form, bounds=(1, 5), step=step, steps=steps, max_iter=15, random_state=0)
            quiet_fit(model, *data)
            assert np.all(np.diff(model.objectives_) <= 0)


@each_solver
@given(data=rating_data())
def test_the_reported_objective_is_the_squared_error_of_the_training_predictions(solver, constraint, data):
    X, y = data
    settings = {"solver": solver, "constraint": constraint, "magnitudes": "range", **PLAIN}
    model = MBMF(3, bounds=(1, 5), max_iter=3, random_state=0, **settings)
    quiet_fit(model, X, y)
    assert np.sum((model.predict(X) - y) ** 2) == pytest.approx(model.objectives_[-1], rel=1e-9, abs=1e-9)


def one_sweep(ratings, users, items, r, s, solver, constraint):
    """One sweep on centred ratings from a given start; returns the factors."""
    user_side, item_side = Side(ratings.by_user, r, users.copy()), Side(ratings.by_item, s, items.copy())
    with RowPool(1, ratings.n_ratings) as pool:
        if solver == "exact":
            next(Alternation(user_side, item_side, pool, constraint).sweeps())
        else:
            turning = AngleSide(user_side, 0.01), AngleSide(item_side, 0.01)
            next(AngleDescent(*turning, pool, "dynamic", "separate").sweeps())
    return user_side.factors, item_side.factors


@each_solver
@given(data=rating_data(-2, 2), seed=st.integers(0, 1000))
def test_permuting_users_and_items_permutes_one_sweep(solver, constraint, data, seed):
    rng = np.random.default_rng(seed)
    X, y = data
    n, m = X.max(axis=0) + 1
    matrix = sp.coo_array((y, (X[:, 0], X[:, 1])), shape=(n, m))
    p, q = rng.permutation(n), rng.permutation(m)
    moved = sp.coo_array((y, (p[X[:, 0]], q[X[:, 1]])), shape=(n, m))
    r, s = rng.uniform(0.5, 1.5, n), rng.uniform(0.5, 1.5, m)
    W, H = start_rows("sphere", r, 3, rng), start_rows("sphere", s, 3, rng)
    plain = one_sweep(Ratings.read(matrix), W, H, r, s, solver, constraint)
    back_p, back_q = np.argsort(p), np.argsort(q)
    permuted = one_sweep(
        Ratings.read(moved), W[back_p], H[back_q], r[back_p], s[back_q], solver, constraint
    )  # row p[i] of the moved problem is row i of the plain one
    assert np.allclose(permuted[0][p] @ permuted[1][q].T, plain[0] @ plain[1].T, atol=1e-9)


# --- optima -------------------------------------------------------------------------------------------------


def small_problem(seed=0):
    rng = np.random.default_rng(seed)
    V, Z = rng.uniform(1, 5, (6, 5)), rng.random((6, 5)) < 0.8
    return np.argwhere(Z), V[Z], V, Z.astype(float)


def test_on_the_sphere_the_fit_finds_what_scipy_finds_in_the_angles():
    """Best of several starts of each: the same objective, since both search the same function."""
    X, y, V, Z = small_problem()
    radius = np.full(6, np.sqrt(2)), np.full(5, np.sqrt(2))
    n_angles = 6 * 2

    def function(x):
        phi, theta = x[:n_angles].reshape(6, 2), x[n_angles:].reshape(5, 2)
        W = np.array([naive.spherical_to_cartesian(p, r) for p, r in zip(phi, radius[0], strict=True)])
        H = np.array([naive.spherical_to_cartesian(p, r) for p, r in zip(theta, radius[1], strict=True)]).T
        slopes = naive.angle_gradients(V - 3, Z, phi, theta, *radius)
        return naive.objective(V - 3, Z, W, H), 2 * np.concatenate([s.ravel() for s in slopes])

    rng = np.random.default_rng(1)
    found = [minimize(function, rng.uniform(0, np.pi, 22), jac=True, method="L-BFGS-B").fun for _ in range(12)]
    model = MBMF(3, bounds=(1, 5), constraint="sphere", max_iter=400, tol=1e-12)
    ours = [clone(model).set_params(random_state=seed).fit(X, y).objectives_[-1] for seed in range(12)]
    assert min(ours) == pytest.approx(min(found), rel=1e-5)


def test_in_the_ball_the_fit_finds_what_scipy_finds_under_the_same_constraints():
    X, y, V, Z = small_problem(2)
    shape = (6, 3), (5, 3)

    def function(x):
        W, H = x[:18].reshape(shape[0]), x[18:].reshape(shape[1])
        E = Z * (W @ H.T - V + 3)
        return np.sum(E**2), np.concatenate([2 * (E @ H).ravel(), 2 * (E.T @ W).ravel()])

    inside = {
        "type": "ineq",
        "fun": lambda x: 2 - np.sum(x.reshape(11, 3) ** 2, axis=1),
        "jac": lambda x: np.array([np.where(np.arange(33) // 3 == row, -2 * x, 0.0) for row in range(11)]),
    }
    rng = np.random.default_rng(3)
    starts = [rng.uniform(-0.7, 0.7, 33) for _ in range(12)]
    found = [
        minimize(function, x, jac=True, method="SLSQP", constraints=inside, options={"maxiter": 500}) for x in starts
    ]
    model = MBMF(3, bounds=(1, 5), max_iter=500, tol=1e-12, **PLAIN)
    ours = [clone(model).set_params(random_state=seed).fit(X, y).objectives_[-1] for seed in range(12)]
    best = min(f.fun for f in found if f.success)
    assert min(ours) == pytest.approx(best, rel=1e-4, abs=1e-6)


def test_the_angle_solver_comes_to_rest_where_pymanopt_finds_no_descent():
    """At the end of a long fit the Riemannian gradient on the product of spheres is nearly zero."""
    pymanopt = pytest.importorskip("pymanopt")
    X, y, V, Z = small_problem(4)
    model = MBMF.as_in_paper(3, form="c", bounds=(1, 5), max_iter=20_000, tol=1e-14, patience=50, random_state=0)
    model.fit(X, y)
    manifold = pymanopt.manifolds.Product([pymanopt.manifolds.Oblique(3, 6), pymanopt.manifolds.Oblique(3, 5)])
    root = np.sqrt(2)

    @pymanopt.function.numpy(manifold)
    def cost(w, h):
        return np.sum((Z * (2 * w.T @ h - V + 3)) ** 2)

    @pymanopt.function.numpy(manifold)
    def gradient(w, h):
        E = 4 * Z * (2 * w.T @ h - V + 3)
        return h @ E.T, w @ E

    problem = pymanopt.Problem(manifold, cost, euclidean_gradient=gradient)
    rows = {i: k for k, i in enumerate(model.user_ids_.ids)}, {j: k for k, j in enumerate(model.item_ids_.ids)}
    point = [
        model.user_factors_[[rows[0][i] for i in range(6)]].T / root,
        model.item_factors_[[rows[1][j] for j in range(5)]].T / root,
    ]
    start = [manifold.random_point() for _ in range(5)]
    typical = np.median([manifold.norm(p, problem.riemannian_gradient(p)) for p in start])
    assert cost(*point) == pytest.approx(model.objectives_[-1])
    assert manifold.norm(point, problem.riemannian_gradient(point)) < 1e-3 * typical


# --- the paper's algorithm ----------------------------------------------------------------------------------


def test_as_in_paper_sets_the_papers_settings():
    model = MBMF.as_in_paper(form="n", bounds=(1, 5))
    assert (model.solver, model.constraint, model.init, model.step, model.steps) == (
        "angles", "sphere", "orthant", "dynamic", "separate",
    )  # fmt: skip
    assert (model.initial_step, model.max_iter, model.tol, model.patience) == (0.1, 500, 1e-5, 10)
    assert (model.n_factors, model.form, model.magnitudes) == (10, "n", "paper")


@pytest.mark.parametrize("steps", ["separate", "shared"])
def test_a_small_fixed_step_follows_the_gradient_of_the_paper(steps):
    """One iteration with a fixed step equals Φ − λD^Φ (and then, or at once, Θ − λD^Θ)."""
    X, y, V, Z = small_problem(5)
    rng = np.random.default_rng(0)
    r, s = np.full(6, 1.3), np.full(5, 1.1)
    W, H = start_rows("sphere", r, 4, rng), start_rows("sphere", s, 4, rng)
    ratings = Ratings.read(sp.coo_array((y - 3, (X[:, 0], X[:, 1])), shape=(6, 5)))
    users = AngleSide(Side(ratings.by_user, r, W.copy()), 1e-3)
    items = AngleSide(Side(ratings.by_item, s, H.copy()), 1e-3)
    phi, theta = users.phi.copy(), items.phi.copy()
    with RowPool(1, len(y)) as pool:
        next(AngleDescent(users, items, pool, "fixed", steps).sweeps())
    slope_w, slope_h = naive.angle_gradients(V - 3, Z, phi, theta, r, s)
    assert np.allclose(users.phi, phi - 1e-3 * slope_w, atol=1e-13)
    if steps == "separate":
        _, slope_h = naive.angle_gradients(V - 3, Z, users.phi, theta, r, s)
    assert np.allclose(items.phi, theta - 1e-3 * slope_h, atol=1e-13)


def test_a_rejected_step_rolls_back_and_is_not_counted_as_convergence():
    X, y, _, _ = small_problem(6)
    model = MBMF.as_in_paper(3, bounds=(1, 5), initial_step=1e6, max_iter=30, random_state=0).fit(X, y)
    assert model.n_rejected_ >= 10  # ten halvings in a row did not end the fit
    assert model.n_iter_ == 30
    assert model.objectives_[-1] < model.objectives_[0]


def test_the_stopping_rule_wants_ten_calm_iterations_in_a_row():
    rule = StoppingRule(1e-5, 10)
    assert not any(rule.converged(Sweep(100.0 - k)) for k in range(20))
    assert not any(rule.converged(Sweep(81.0)) for _ in range(9))
    assert not rule.converged(Sweep(80.0))
    assert not any(rule.converged(Sweep(80.0, accepted=False)) for _ in range(50))
    assert [rule.converged(Sweep(80.0)) for _ in range(10)] == [False] * 9 + [True]


def test_a_rise_is_no_rest_where_the_objective_may_rise():
    rule = StoppingRule(1e-5, 2, may_rise=True)
    assert not any(rule.converged(Sweep(100.0 + k)) for k in range(20))
    assert [rule.converged(Sweep(119.0 + small)) for small in (1e-6, 0.0)] == [False, True]
    for step, comes_to_rest in (("fixed", False), ("dynamic", True)):
        rule = MBMF(2, constraint="sphere", solver="angles", step=step, patience=2)._stopping_rule()
        assert [rule.converged(Sweep(100.0 + k)) for k in range(4)][-1] == comes_to_rest


def test_the_absolute_stopping_rule_looks_at_the_bare_decrease():
    relative, absolute = StoppingRule(1e-5, 1), StoppingRule(1e-5, 1, "absolute")
    values = [1e6, 1e6 - 1.0]
    assert [relative.converged(Sweep(v)) for v in values] == [False, True]
    assert [absolute.converged(Sweep(v)) for v in values] == [False, False]


@pytest.mark.parametrize("init", ["angles", "angles-unit", "angles-quarter", "sphere", "orthant"])
def test_starts_lie_on_their_spheres(init):
    radius = np.array([0.5, 2.0, 7.0])
    rows = start_rows(init, radius, 5, np.random.default_rng(0))
    assert np.allclose(np.linalg.norm(rows, axis=1), radius)
    assert np.all(rows >= 0) == (init in ("angles-unit", "angles-quarter", "orthant"))


@pytest.mark.parametrize(
    ("init", "largest", "last"),
    [("angles", np.pi, 2 * np.pi), ("angles-unit", 1.0, 1.0), ("angles-quarter", np.pi / 2, np.pi / 2)],
)
def test_starts_by_angles_are_uniform_up_to_the_angle_that_their_name_says(init, largest, last):
    radius = np.linspace(0.5, 7, 3000)
    rows = start_rows(init, radius, 4, np.random.default_rng(0))
    phi = np.array([naive.cartesian_to_spherical(row) for row in rows])
    again = [naive.spherical_to_cartesian(angles, r) for angles, r in zip(phi, radius, strict=True)]
    assert np.allclose(rows, again)
    for angles, end in zip(phi.T, (largest, largest, last), strict=True):
        assert kstest(angles, "uniform", (0, end)).pvalue > 0.01


@pytest.mark.parametrize(("init", "positive"), [("angles", False), ("angles-unit", True), ("angles-quarter", True)])
def test_the_angle_solver_starts_where_it_is_told_to(init, positive):
    X, y, _, _ = small_problem()
    model = MBMF.as_in_paper(3, bounds=(1, 5), init=init, step="fixed", initial_step=1e-12, max_iter=1, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    assert (min(model.user_factors_.min(), model.item_factors_.min()) > 0) == positive
    rng = np.random.default_rng(0)
    users = start_rows(init, model.user_magnitudes_, 3, rng)
    assert np.allclose(model.user_factors_, users, atol=1e-6)
    assert np.allclose(model.item_factors_, start_rows(init, model.item_magnitudes_, 3, rng), atol=1e-6)


def test_uniform_angles_put_half_of_what_is_left_into_each_next_coordinate():
    """E[w_k²] = r² 2^{-k}: the reason that the paper's start uses few of the K dimensions."""
    rows = start_rows("angles", np.ones(40_000), 6, np.random.default_rng(0))
    assert np.allclose((rows**2).mean(axis=0)[:5], 0.5 ** np.arange(1, 6), atol=0.01)
    rows = start_rows("angles-quarter", np.ones(40_000), 6, np.random.default_rng(0))
    assert np.allclose((rows**2).mean(axis=0)[:5], 0.5 ** np.arange(1, 6), atol=0.01)
    rows = start_rows("angles-unit", np.ones(40_000), 6, np.random.default_rng(0))
    assert np.allclose((rows**2).mean(axis=0)[:5], 0.727 * 0.273 ** np.arange(5), atol=0.01)


def test_the_angle_solver_refuses_the_ball_and_one_factor_is_refused_by_all():
    X, y, _, _ = small_problem()
    with pytest.raises(ValueError, match='solver="angles" moves on spheres'):
        MBMF(3, solver="angles", bounds=(1, 5)).fit(X, y)
    with pytest.raises(ValueError, match="n_factors=1: give a whole number of at least 2"):
        MBMF(1, bounds=(1, 5)).fit(X, y)


# --- warnings -----------------------------------------------------------------------------------------------


def test_more_factors_than_the_data_determine_work_with_a_warning():
    X, y, _, _ = small_problem()
    with pytest.warns(UserWarning, match="n_factors=30 is more than the 6 users × 5 items"):
        model = MBMF(30, bounds=(1, 5), random_state=0).fit(X, y)
    assert np.mean((model.predict(X) - y) ** 2) < 0.1 * np.var(y)


@pytest.mark.filterwarnings("default::sklearn.exceptions.ConvergenceWarning")
def test_stopping_while_the_objective_still_falls_is_worth_a_warning():
    X, y, _, _ = small_problem()
    with pytest.warns(ConvergenceWarning, match="stopped at max_iter=2 while its objective still fell"):
        MBMF(3, bounds=(1, 5), max_iter=2, random_state=0).fit(X, y)


@pytest.mark.filterwarnings("default::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("tol_mode", ["relative", "absolute"])
def test_the_warning_tells_the_last_decrease_in_its_own_unit(tol_mode):
    X, y, _, _ = small_problem()
    with pytest.warns(ConvergenceWarning) as caught:
        model = MBMF(3, bounds=(1, 5), max_iter=2, tol_mode=tol_mode, random_state=0).fit(X, y)
    before, after = model.objectives_[-2:]
    told = f"{100 * (before - after) / before:.2g} %" if tol_mode == "relative" else f"{before - after:.2g}"
    assert f"still fell by {told} an iteration" in str(caught[0].message)


# --- bad input ----------------------------------------------------------------------------------------------

GOOD = [("a", 1), ("b", 2), ("c", 3)]


@pytest.mark.parametrize(
    ("X", "y", "sentence"),
    [
        (GOOD, [1, np.nan, 3], "NaN or infinite ratings: 1 of 3.*user 'b', item 2"),
        (GOOD, [1, np.inf, 3], "NaN or infinite ratings"),
        (GOOD, [1, 2, -1e200], "too large to be squared: 1 of 3.*user 'c', item 3: -1e[+]200.*divide"),
        (GOOD, [1, "two", 3], "two"),
        ([("a",), ("b",), ("c",)], [1, 2, 3], "two columns|2 columns|pairs"),
        ([(1, 2, 3)] * 3, [1, 2, 3], "two columns|2 columns|pairs"),
        ([], [], "empty"),
        (GOOD + GOOD[:1], [1, 2, 3, 4], "rated before.*user 'a', item 1"),
        (GOOD, [1, 2, 9], "outside the declared bounds.*user 'c', item 3: 9"),
        (GOOD, [1, 2], "X has 3 rows but y has 2"),
        (GOOD, None, "y is missing"),
        (sp.csr_array((3, 3)), None, "no stored entries"),
        (sp.csr_array(np.eye(3)), [1, 2, 3], "sparse matrix holds its own ratings"),
    ],
    ids=["NaN", "inf", "enormous", "text", "one column", "three columns", "empty", "duplicates", "out of bounds",
         "lengths", "no y", "empty sparse", "sparse with y"],
)  # fmt: skip
def test_bad_input_is_answered_in_a_sentence(X, y, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence) as caught:
        MBMF(2, bounds=(1, 5)).fit(X, y)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"form": "m"}, "form='m': give one of 'c', 'n'"),
        ({"history_share": 0}, "history_share=0"),
        ({"history_count": -1}, "history_count=-1"),
        ({"initial_step": 0}, "initial_step=0"),
        ({"initial_step": np.inf}, "initial_step=inf"),
        ({"init": "zeros"}, "init='zeros'"),
    ],
)
def test_settings_of_mbmf_without_sense_are_refused(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        MBMF(2, bounds=(1, 5)).set_params(**settings).fit(GOOD, [1, 2, 3])


def test_predicting_before_fitting_says_so():
    with pytest.raises(NotFittedError):
        MBMF().predict(GOOD)


def test_users_without_a_rating_in_a_sparse_matrix_count_as_unknown():
    matrix = sp.csr_array((np.array([4.0, 2.0, 5.0]), (np.array([0, 0, 2]), np.array([0, 1, 1]))), shape=(3, 3))
    model = MBMF(2, bounds=(1, 5), random_state=0).fit(matrix)
    assert model.predict([(1, 2)])[0] == pytest.approx(11 / 3)


# --- scikit-learn -------------------------------------------------------------------------------------------


def frames(X, y):
    """The same pairs of raw ids in every kind of table."""
    names = [(f"u{u}", int(i)) for u, i in X]
    users, items = [u for u, _ in names], [i for _, i in names]
    return {
        "numpy": (np.array(names, dtype=object), y),
        "list": (names, list(y)),
        "pandas": (pd.DataFrame({"user": users, "item": items}), pd.Series(y)),
        "polars": (pl.DataFrame({"user": users, "item": items}), pl.Series(y)),
        "pyarrow": (pa.table({"user": users, "item": items}), y),
    }


@pytest.fixture(scope="module")
def ratings():
    rng = np.random.default_rng(8)
    X = np.argwhere(rng.random((25, 40)) < 0.15)  # few ratings each: every fold has cold pairs
    return X, rng.integers(1, 6, len(X)).astype(float)


FOLDS = KFold(3, shuffle=True, random_state=0)


@pytest.mark.parametrize("kind", ["numpy", "list", "pandas", "polars", "pyarrow"])
def test_cross_validation_works_on_raw_ids_with_cold_pairs_in_the_folds(ratings, kind):
    X, y = frames(*ratings)[kind]
    model = MBMF(2, bounds=(1, 5), max_iter=3, random_state=0)
    result = cross_validate(model, X, y, cv=FOLDS, scoring="neg_root_mean_squared_error", error_score="raise")
    plain = cross_validate(model, *frames(*ratings)["list"], cv=FOLDS, scoring="neg_root_mean_squared_error")
    assert np.allclose(result["test_score"], plain["test_score"])
    train, test = next(FOLDS.split(ratings[0]))
    assert set(ratings[0][test, 1]) - set(ratings[0][train, 1])  # the folds did have cold items


@pytest.mark.parametrize("kind", ["numpy", "pandas", "polars"])
def test_grid_search_and_clone_work(ratings, kind):
    X, y = frames(*ratings)[kind]
    search = GridSearchCV(MBMF(bounds=(1, 5), max_iter=3, random_state=0), {"n_factors": [2, 3]}, cv=FOLDS)
    search.fit(X, y)
    assert search.best_params_["n_factors"] in (2, 3)
    assert search.predict(X).shape == (len(y),)
    assert clone(search.best_estimator_).get_params() == search.best_estimator_.get_params()


def test_history_goes_through_cross_validation_without_metadata_routing(ratings):
    X, y = ratings
    model = MBMF(2, bounds=(1, 5), max_iter=3, random_state=0, on_contradiction="widen")
    with_history = cross_validate(model, X, y, cv=FOLDS, params={"history": (X[::2], y[::2])}, error_score="raise")
    assert not np.allclose(with_history["test_score"], cross_validate(model, X, y, cv=FOLDS)["test_score"])


def test_history_goes_through_a_pipeline_with_metadata_routing(ratings):
    X, y = ratings
    plain = MBMF(2, bounds=(1, 5), max_iter=3, random_state=0, on_contradiction="widen")
    expected = cross_validate(plain, X, y, cv=FOLDS, params={"history": (X[::2], y[::2])})["test_score"]
    with sklearn.config_context(enable_metadata_routing=True):
        model = make_pipeline(FunctionTransformer(), clone(plain).set_fit_request(history=True))
        routed = cross_validate(model, X, y, cv=FOLDS, params={"history": (X[::2], y[::2])}, error_score="raise")
    assert np.allclose(routed["test_score"], expected)


def test_score_is_the_coefficient_of_determination(ratings):
    X, y = ratings
    model = MBMF(3, bounds=(1, 5), random_state=0).fit(X, y)
    residual = np.sum((y - model.predict(X)) ** 2)
    assert model.score(X, y) == pytest.approx(1 - residual / np.sum((y - y.mean()) ** 2))


def test_a_random_state_of_the_old_kind_is_accepted(ratings):
    model = MBMF(2, bounds=(1, 5), max_iter=1)
    first = clone(model).set_params(random_state=np.random.RandomState(3)).fit(*ratings)
    again = clone(model).set_params(random_state=np.random.RandomState(3)).fit(*ratings)
    assert np.array_equal(first.user_factors_, again.user_factors_)


def test_predicting_from_a_fitted_model_needs_no_numba(ratings, tmp_path):
    import pickle
    import subprocess
    import sys

    model = MBMF(2, bounds=(1, 5), max_iter=1, random_state=0).fit(*ratings)
    path = tmp_path / "model.pickle"
    path.write_bytes(pickle.dumps(model))
    code = (
        f"import pickle, sys; m = pickle.loads(open({str(path)!r}, 'rb').read());"
        f"m.predict({ratings[0][:3].tolist()!r}); print('numba' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


# --- what a new user ran into -------------------------------------------------------------------------------


def test_a_fit_that_fails_leaves_the_model_as_it_was(ratings):
    X, y = ratings

    def fail(*_):
        raise RuntimeError("from the callback")

    model = MBMF(2, bounds=(1, 5), max_iter=2, random_state=0)
    with pytest.raises(RuntimeError, match="from the callback"):
        model.fit(X, y, callback=fail)
    with pytest.raises(NotFittedError):
        model.predict(X)
    before = model.fit(X, y).predict(X)
    with pytest.raises(RuntimeError, match="from the callback"):
        model.fit(X[:20], y[:20], callback=fail)
    model.set_params(on_contradiction="raise", magnitudes="history")
    with pytest.raises(ValueError, match="outside their own range"):
        model.fit(X, y)
    assert np.array_equal(model.predict(X), before)


def test_ranges_before_a_fit_say_that_there_was_none():
    with pytest.raises(NotFittedError):
        MBMF().predict_range(GOOD)


@pytest.mark.parametrize("scale", [1e-4, 1e4])
def test_the_unit_of_the_ratings_does_not_matter(ratings, scale):
    X, y = ratings
    settings = {"max_iter": 200, "random_state": 0}
    plain = MBMF(3, bounds=(0, 5), **settings).fit(X, y)
    scaled = MBMF(3, bounds=(0, 5 * scale), **settings).fit(X, y * scale)
    assert scaled.n_iter_ == plain.n_iter_
    assert np.allclose(scaled.predict(X), scale * plain.predict(X), rtol=1e-6)


def test_a_rating_of_weight_zero_changes_no_answer(ratings):
    X, y = ratings
    weights = np.ones(len(y))
    weights[3] = 0.0
    other = y.copy()
    other[3] = 6 - y[3]
    questions = [*X.tolist(), (-1, X[3, 1]), (X[3, 0], -1), (-1, -1)]
    first, second = (
        MBMF(2, bounds=(1, 5), max_iter=3, random_state=0).fit(X, values, sample_weight=weights).predict(questions)
        for values in (y, other)
    )
    assert np.array_equal(first, second)


def test_history_as_long_as_the_ratings_passes_through_cross_validation(ratings):
    X, y = ratings
    model = MBMF(2, bounds=(1, 5), max_iter=2, random_state=0, on_contradiction="widen")
    result = cross_validate(model, X, y, cv=FOLDS, params={"history": Ratings.read(X, y)}, error_score="raise")
    assert np.isfinite(result["test_score"]).all()


def test_ids_of_another_type_are_worth_a_warning():
    model = MBMF(2, bounds=(1, 5), max_iter=1, random_state=0).fit([(1, 1), (1, 2), (2, 1)], [1, 2, 3])
    with pytest.warns(UserWarning, match="no user is known: the users given are str, those of the fit int"):
        model.predict([("1", 1)])


@pytest.mark.parametrize(("model", "n_numbers"), [(MBMF, 5 * 2), (BayesianMBMF, 5 * 2 * 3)])
def test_rows_that_no_memory_holds_are_refused_before_the_first_sweep(monkeypatch, model, n_numbers):
    settings = {"bounds": (1, 5), "max_iter": 4, "dtype": "float64", "random_state": 0}
    settings |= {"n_kept": 3, "burn_in": 1} if model is BayesianMBMF else {}
    pairs, ratings = [("a", 1), ("a", 2), ("b", 1), ("c", 2)], [1, 2, 3, 4]
    monkeypatch.setattr(estimator, "memory", lambda: 8 * n_numbers)
    fitted = model(2, **settings).fit(pairs, ratings)
    before = fitted.predict(pairs)
    monkeypatch.setattr(estimator, "memory", lambda: 8 * n_numbers - 1)
    with pytest.raises(MemoryError, match="n_factors=2: rows of this length, for 3 users and 2 items, do not fit"):
        fitted.fit(pairs, ratings)
    np.testing.assert_array_equal(fitted.predict(pairs), before)


def test_too_few_factors_are_refused_with_a_number_that_is_taken():
    with pytest.raises(ValueError, match="n_factors=0: give a whole number of at least 2"):
        MBMF(0, bounds=(1, 5)).fit([(1, 1), (1, 2)], [1, 2])


def test_history_beside_given_magnitudes_is_refused(ratings):
    with pytest.raises(ValueError, match="history sets the magnitudes"):
        MBMF(2, bounds=(1, 5), magnitudes="range").fit(*ratings, history=ratings)


def test_on_unknown_is_checked_when_it_is_used(ratings):
    model = MBMF(2, bounds=(1, 5), max_iter=1, random_state=0).fit(*ratings)
    with pytest.raises(ValueError, match="on_unknown='nann'"):
        model.set_params(on_unknown="nann").predict(ratings[0])


@pytest.mark.parametrize(
    "settings", [{"tol": -1}, {"tol": "x"}, {"tol": np.nan}, {"patience": 0}, {"patience": "a"}, {"history_share": "x"}]
)
def test_numbers_that_are_none_are_refused_by_name(ratings, settings):
    with pytest.raises(ValueError, match=f"{next(iter(settings))}="):
        MBMF(2, bounds=(1, 5)).set_params(**settings).fit(*ratings)


@pytest.mark.filterwarnings("default")
def test_warnings_point_at_the_line_that_called(ratings):
    for model in (MBMF(2, bounds=(1, 5), max_iter=1), MF(2, max_iter=2), BMCADMM(2, bounds=(1, 5), max_iter=2)):
        with pytest.warns(ConvergenceWarning) as caught:
            model.set_params(max_iter=2, tol=1e-9).fit(*ratings)
        assert caught[0].filename == __file__
