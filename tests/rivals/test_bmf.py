"""BMF: every product in range, the loss never rises, and the cost is told before it is paid."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from boundrec import BMF, Ratings
from boundrec.models.fitted import Fitted
from boundrec.rivals import Cut
from boundrec.rivals.bmf import BoundedDescent, feasible_start, ratio_arrays
from boundrec.solvers.threads import RowPool

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
BOUNDS = [(1, 5), (0, 10), (-10, 10), (-5, -1)]


def problem(bounds, seed=0, shape=(12, 9), share=0.5):
    """Ratings spread over the bounds (some at their ends), as a matrix with zeros where nothing was observed."""
    rng = np.random.default_rng(seed)
    observed = rng.random(shape) < share
    observed[0, 0] = True
    values = np.clip(rng.uniform(*bounds, shape) * 1.2, *bounds)
    matrix = sp.csr_array((values[observed], np.nonzero(observed)), shape=shape)
    return np.where(observed, values, 0.0), observed, matrix


def product(model):
    return model.user_factors_ @ model.item_factors_.T


@given(
    bounds=st.sampled_from(BOUNDS),
    n_factors=st.integers(1, 5),
    seed=st.integers(0, 2**16),
    share=st.sampled_from([0.05, 0.5, 1.0]),
)
@settings(max_examples=40, deadline=None)
def test_every_product_is_in_range_after_every_sweep_and_the_loss_never_rises(bounds, n_factors, seed, share):
    _, _, matrix = problem(bounds, seed, share=share)
    low, high = bounds
    slack = 1e-12 * (high - low) * n_factors  # rounding of K products

    def callback(sweep, objective, model):
        everything = product(model)
        assert everything.min() >= low - slack
        assert everything.max() <= high + slack

    model = BMF(n_factors, bounds=bounds, max_iter=30, random_state=seed).fit(matrix, callback=callback)
    assert np.all(np.diff(model.objectives_) <= 1e-12 * np.sum(matrix.data**2))


@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("bound_on", ["all", "observed"])
def test_a_sweep_is_that_of_the_clipped_coordinates(bounds, bound_on):
    values, observed, matrix = problem(bounds)
    weights = np.random.default_rng(1).uniform(0.5, 2, matrix.nnz)
    C = np.zeros(values.shape)
    C[observed] = weights
    everywhere = bound_on == "all"
    W, H = feasible_start(
        values.shape,
        3,
        bounds,
        lambda W, H: (W @ H.T)[observed | everywhere].max(),
        np.random.default_rng(7),
    )
    H = H.T
    for sweeps in (1, 2, 5):
        model = BMF(3, bounds=bounds, bound_on=bound_on, max_iter=sweeps, random_state=7)
        model.fit(matrix, sample_weight=weights)
        expected = W, H
        for _ in range(sweeps):
            expected = naive.bmf_sweep(values, C, *expected, *bounds, everywhere)
        assert np.allclose(product(model), expected[0] @ expected[1], rtol=1e-8, atol=1e-9)
        assert model.objectives_[-1] == pytest.approx(np.sum(C * (values - product(model)) ** 2), rel=1e-9)


def test_bounding_the_observed_alone_fits_closer_and_leaves_the_range_elsewhere():
    _, observed, matrix = problem((1, 5), shape=(40, 30), share=0.2)
    everywhere = BMF(4, bounds=(1, 5), random_state=0).fit(matrix)
    model = BMF(4, bounds=(1, 5), bound_on="observed", random_state=0).fit(matrix)
    assert model.objectives_[-1] < everywhere.objectives_[-1]
    rated = product(model)[observed]
    assert rated.min() >= 1 - 1e-12
    assert rated.max() <= 5 + 1e-12
    assert product(model).max() > 5.1


@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("bound_on", ["all", "observed"])
def test_the_start_fills_the_range(bounds, bound_on):
    _, observed, matrix = problem(bounds, shape=(20, 30))
    model, ratings = BMF(4, bounds=bounds, bound_on=bound_on), Ratings.from_sparse(matrix)
    with RowPool(1, 0) as pool:
        start = Fitted.before_the_first_sweep(ratings, ratings, Cut())
        learned = model._solver(start, pool, np.random.default_rng(0), None).result()
    W, H = learned.users, learned.items
    products = (W @ H.T)[observed | (bound_on == "all")]
    assert products.max() == pytest.approx(bounds[1])
    assert products.min() >= bounds[0]
    assert products.min() < bounds[0] + 0.3 * (bounds[1] - bounds[0])


def test_bounding_the_observed_alone_never_looks_at_all_pairs(monkeypatch):
    for kernel in ("farthest", "solve_rows_bounded"):
        monkeypatch.setattr(f"boundrec.rivals.kernels.{kernel}", None)
    _, _, matrix = problem((1, 5))
    assert BMF(2, bounds=(1, 5), bound_on="observed", max_iter=3, random_state=0).fit(matrix).n_iter_ == 3


def test_the_ratio_test_lets_entries_through_that_multiply_zero():
    _, inverse, width = ratio_arrays(np.array([[0.0, 2.0], [-4.0, 1e-200]]), 3.0)
    assert np.array_equal(inverse, [[0.0, -0.25], [0.5, 0.0]])
    assert np.array_equal(width, [[np.inf, 0.75], [1.5, np.inf]])


def test_float32_factors_leave_the_range_by_their_rounding_only():
    _, _, matrix = problem((1, 5), shape=(40, 30))
    model = BMF(4, bounds=(1, 5), dtype="float32", max_iter=200, random_state=0).fit(matrix)
    everything = product(model)
    assert everything.min() >= 1 - 1e-5
    assert everything.max() <= 5 + 1e-5


def test_users_without_ratings_stay_in_range():
    _, _, matrix = problem((1, 5))
    model = BMF(3, bounds=(1, 5), random_state=0).fit(sp.vstack([matrix, sp.csr_array((2, 9))]).tocsr())
    everything = product(model)
    assert everything.shape == (14, 9)
    assert everything.min() >= 1 - 1e-12
    assert everything.max() <= 5 + 1e-12


def test_bounds_are_needed():
    with pytest.raises(ValueError, match="BMF needs both ends"):
        BMF(2, bounds=(1, None)).fit([("a", "b")], [3])


def test_the_cost_grows_with_pairs_sweeps_and_factors_and_shrinks_with_threads():
    model = BMF(10, bounds=(1, 5), n_jobs=1)
    base = model.estimated_seconds(1000, 1000, 10_000)
    assert model.estimated_seconds(2000, 1000, 10_000) > 1.9 * base
    assert model.estimated_seconds(1000, 1000) > base
    assert BMF(20, bounds=(1, 5), n_jobs=1).estimated_seconds(1000, 1000, 10_000) > 1.9 * base
    assert BMF(10, bounds=(1, 5), n_jobs=1, max_iter=50).estimated_seconds(1000, 1000, 10_000) == base / 10
    two = BMF(10, bounds=(1, 5), n_jobs=2)
    assert two.estimated_seconds(1000, 1000, 10_000) == base / 2
    assert two.estimated_seconds(100, 100) == model.estimated_seconds(100, 100), "a small matrix is for one thread"
    observed = [BMF(10, bounds=(1, 5), n_jobs=n, bound_on="observed") for n in (1, 2)]
    seconds = [one.estimated_seconds(1000, 1000, 10_000) for one in observed]
    assert seconds[1] == seconds[0] < base / 10, "few ratings are for one thread"


def test_a_fit_of_hours_says_so_before_it_starts():
    model = BMF(2, bounds=(1, 5), max_iter=10**12, n_jobs=1)
    seen = []
    with pytest.warns(UserWarning, match=r"2 × 2 pairs may take up to [\d,.]+ hours.*bound_on"):
        model.fit(sp.csr_array(np.full((2, 2), 3.0)), callback=lambda *_: seen.append(1) or True)
    assert seen == [1]


def test_the_observed_alone_are_announced_by_their_number_with_a_remedy_that_helps():
    model = BMF(2, bounds=(1, 5), bound_on="observed", max_iter=10**12, n_jobs=1)
    with pytest.warns(UserWarning, match="on 3 ratings may take .* n_factors.$") as caught:
        model.fit(sp.csr_array([[3.0, 4.0], [0.0, 5.0]]), callback=lambda *_: True)
    assert "bound_on" not in str(caught[0].message)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("low", [2.4e-311, 1e-200, 1e-70, 1e-50, -1e-200])
def test_a_lower_end_that_is_nothing_beside_the_range_is_no_harm(low, dtype):
    pairs = [(1, 0.5), (0, 1.5), (2, 0.5), (0, 0.5), (2, 4.5), (2, 3.5), (0, 3.5)]
    ratings = abs(low) * np.array([9.3, 5.1, 9.9, 5.2, 2.5, 6.2, 9.5])
    model = BMF(4, bounds=(low, 1), dtype=dtype, max_iter=3, random_state=0).fit(pairs, ratings)
    assert np.all(np.abs(model.predict(pairs) - 0.5) <= 0.5 + 1e-6)


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_factors_too_large_for_float32_are_refused(monkeypatch):
    _, _, matrix = problem((1, 5))
    model = BMF(2, bounds=(1, 5), dtype="float32", max_iter=3, random_state=0)
    solve = BoundedDescent._solve

    def solve_and_stretch(self, csr, rows, *rest):
        solve(self, csr, rows, *rest)
        rows *= 1e40

    monkeypatch.setattr(BoundedDescent, "_solve", solve_and_stretch)
    told = r'BMF has factors of up to \S+, too large for dtype=float32: pass dtype="float64", or bring'
    with pytest.raises(ValueError, match=told):
        model.fit(matrix)
