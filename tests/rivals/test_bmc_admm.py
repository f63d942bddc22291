"""BMC-ADMM: the structured iteration is the dense one, and it ends where any method must."""

import tracemalloc
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

import naive
from boundrec import BMCADMM, Ratings
from boundrec.rivals.bmc_admm import BYTES_PER_ENTRY, RESIDUAL_TOLERANCE, Admm, Splitting, constant_matrix
from boundrec.solvers.threads import RowPool

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
BOUNDS = [(1, 5), (0, 10), (-10, 10), (-5, -1)]


def problem(bounds=(1, 5), seed=0, shape=(13, 9), share=0.5):
    """Ratings at or near the two ends, so that the range matters; weights; and both as a sparse matrix."""
    rng = np.random.default_rng(seed)
    observed = rng.random(shape) < share
    observed[0, 0] = True
    low, high = bounds
    V = np.where(observed, np.where(rng.random(shape) < 0.6, high, low + 0.1 * (high - low) * rng.random(shape)), 0.0)
    C = np.where(observed, rng.uniform(0.5, 2.0, shape), 0.0)
    return V, C, observed, sp.csr_array((V[observed], np.nonzero(observed)), shape=shape)


def splitting(matrix, weights, bounds, pool, penalty, rank=99):
    low, high = bounds
    ratings = Ratings.from_sparse(matrix, sample_weight=weights)
    span = (low + high) / 2, (high - low) / 2
    return Splitting(ratings, span, rank, penalty, 1.0, pool, np.random.default_rng(3))


def dense(Z):
    return (Z.U * Z.values) @ Z.V.T


def multipliers(splitting):
    """B as a full matrix."""
    indptr, indices, multiplier, _ = splitting.outside
    return sp.csr_array((multiplier, indices, indptr), shape=splitting.shape).toarray()


def product(model):
    return model.user_factors_ @ model.item_factors_.T


@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("shape", [(13, 9), (8, 14)])
@pytest.mark.parametrize("share", [0.4, 1.0])
def test_the_structured_iteration_is_the_dense_one(bounds, shape, share):
    V, C, observed, matrix = problem(bounds, shape=shape, share=share)
    state = naive.bmc_admm_start(V, C, observed, 1.0, *bounds)
    n_outside = 0
    with RowPool(1, 0) as pool:
        structured = splitting(matrix, C[observed], bounds, pool, penalty=0.2)
        for iteration in range(150):
            before = state
            if iteration in (20, 60):
                structured.rescale(structured.rho * (2.0 if iteration == 20 else 0.25))
            state = naive.bmc_admm_step(V, C, observed, before, 0.2, structured.rho, *bounds)
            structured.iterate()
            Z, X, E, T, _, Y2 = state
            assert np.allclose(dense(structured.Z), Z, rtol=0, atol=1e-10)
            assert np.allclose(multipliers(structured), Y2 / structured.rho, rtol=0, atol=1e-10)
            assert structured.objective == pytest.approx(naive.completion_objective(V, C, Z, 0.2), rel=1e-9)
            assert structured.primal == pytest.approx(np.hypot(np.linalg.norm(X + E - Z), np.linalg.norm(Z - T)))
            change = np.linalg.norm(X + E + T - before[1] - before[2] - before[3])
            assert structured.dual >= structured.rho * change - 1e-10
            n_outside += np.count_nonzero(structured.outside.multiplier)
    assert n_outside > 20, "the range never mattered"


@pytest.mark.parametrize("bounds", [(1, 5), (-5, -1)])
def test_every_penalty_of_the_splitting_and_every_seed_leads_to_the_solution_of_another_solver(bounds):
    V, C, observed, matrix = problem(bounds)
    expected = naive.bounded_completion(V, C, 2.0, *bounds)
    assert np.isin(expected, bounds).any(), "the range never mattered"
    for rho, seed in ((0.05, 0), (1.0, 1), (30.0, 2)):
        model = BMCADMM(
            9, bounds=bounds, penalty=2.0, rho=rho, tol=1e-10, patience=10**6, max_iter=5000, random_state=seed
        )
        model.fit(matrix, sample_weight=C[observed])
        assert np.allclose(product(model), expected, atol=1e-6)
        least = naive.completion_objective(V, C, expected, 2.0)
        assert model.objectives_[-1] == pytest.approx(least, rel=1e-7)
        assert model.max_violation_ < 1e-7


def seen_by_the_threshold(structured):
    """The matrix whose singular values are cut: Z + ½[(x − z + y/ρ) + (T − Z) − B], in full."""
    indptr, indices, _, moved = structured.outside
    clipping = sp.csr_array((moved, indices, indptr), shape=structured.shape).toarray() - multipliers(structured)
    csr, (y, gap) = structured.by_user.csr, structured.by_user.state
    observed = sp.csr_array((gap + y / structured.rho, csr.indices, csr.indptr), shape=structured.shape).toarray()
    return dense(structured.Z) + 0.5 * (observed + clipping)


@pytest.mark.parametrize("cap", [2, 6])
def test_subspace_iteration_finds_the_leading_singular_vectors(cap):
    """Near rest two rounds from the last subspace are enough; the full decomposition is another road."""
    _, C, observed, matrix = problem(shape=(60, 50))
    with RowPool(1, 0) as pool:
        structured = splitting(matrix, C[observed], (1, 5), pool, 0.5, rank=cap)
        for _ in range(400):
            structured.iterate()
        assert structured._rounds > 1
        A = seen_by_the_threshold(structured)
        structured._match_rank()
    U, values, Vt = np.linalg.svd(A)
    assert values[cap] > 0.5 / (2 * structured.rho), "the cap never mattered"
    cut = (U[:, :cap] * (values[:cap] - 0.5 / (2 * structured.rho))) @ Vt[:cap]
    assert np.linalg.norm(dense(structured.Z) - cut) < 1e-6 * np.linalg.norm(cut)


@pytest.fixture(scope="module")
def low_rank():
    """Ratings of two tastes, half of them hidden, and what another solver makes of them: of rank 5."""
    rng = np.random.default_rng(0)
    V = np.clip(3 + 2 * rng.standard_normal((40, 2)) @ rng.standard_normal((2, 30)), 1, 5)
    observed = rng.random(V.shape) < 0.5
    C = np.where(observed, rng.uniform(0.5, 2, V.shape), 0.0)
    with threadpool_limits(1):
        expected = naive.bounded_completion(V, C, 4.0, 1, 5, n_iter=1000)
    assert np.isin(expected, (1, 5)).any(), "the range never mattered"
    assert np.linalg.matrix_rank(expected, tol=1e-3) == 5
    return sp.csr_array((V[observed], np.nonzero(observed)), shape=V.shape), C[observed], expected


@pytest.mark.parametrize("rho", [0.05, 1.0, 30.0])
def test_iterating_a_few_vectors_leads_to_the_solution_of_another_solver(rho, low_rank):
    """10 factors, so that 15 vectors stand for the 30 that a full decomposition has."""
    matrix, weights, expected = low_rank
    model = BMCADMM(10, bounds=(1, 5), penalty=4.0, rho=rho, tol=1e-8, patience=10**6, max_iter=2000, random_state=0)
    model.fit(matrix, sample_weight=weights)
    assert np.allclose(product(model), expected, atol=1e-4)


@pytest.mark.parametrize("rho", [0.05, 1.0, 20.0])
def test_a_capped_rank_comes_to_rest_inside_the_range(rho):
    """Without its floor under the cap, ρ = 0.05 runs in circles here, units outside the range."""
    V = np.where(np.random.default_rng(1).random((33, 35)) < 0.5, 1.0, 5.0)
    model = BMCADMM(5, bounds=(1, 5), rho=rho, tol=1e-7, patience=10**6, max_iter=1000, random_state=0)
    model.fit(sp.csr_array(V))
    assert np.linalg.matrix_rank(product(model), tol=1e-6) == 5
    assert model.n_iter_ < 1000
    assert model.max_violation_ < 1e-4


def test_a_rising_objective_is_no_rest():
    """Here the objective falls below its end and then rises for more than ``patience`` iterations."""
    V = np.where(np.random.default_rng(1).random((33, 35)) < 0.5, 1.0, 5.0)
    model = BMCADMM(5, bounds=(1, 5), penalty=0.1, random_state=0).fit(sp.csr_array(V))
    assert model.n_rejected_ > 10
    assert model.n_iter_ > model.n_rejected_ + 10
    assert model.max_violation_ < 0.05


def test_the_largest_violation_is_that_of_all_pairs():
    _, _, _, matrix = problem(share=0.3)
    early = BMCADMM(3, bounds=(1, 5), penalty=0.1, max_iter=4, random_state=0).fit(matrix)
    outside = np.maximum(product(early) - 5, 1 - product(early)).max()
    assert early.max_violation_ == pytest.approx(outside)
    assert outside > 0.01
    calm = BMCADMM(3, bounds=(-100, 100), random_state=0).fit(matrix)
    assert calm.max_violation_ == 0


def test_ctrl_c_in_the_search_for_violations_leaves_the_model_that_is_complete(monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    _, _, _, matrix = problem()
    whole = BMCADMM(3, bounds=(1, 5), max_iter=4, random_state=0).fit(matrix)
    monkeypatch.setattr("boundrec.rivals.bmc_admm.largest_violation", interrupt)
    with pytest.warns(UserWarning, match="interrupted: the model is complete"):
        model = BMCADMM(3, bounds=(1, 5), max_iter=4, random_state=0).fit(matrix)
    assert np.array_equal(model.user_factors_, whole.user_factors_)
    assert np.isnan(model.max_violation_)


def test_the_factors_share_the_singular_values_evenly_and_are_zero_past_the_rank():
    _, _, _, matrix = problem()
    model = BMCADMM(8, bounds=(1, 5), penalty=4.0, random_state=0).fit(matrix)
    singular = np.linalg.svd(product(model), compute_uv=False)[:8]
    assert np.allclose(model.user_factors_.T @ model.user_factors_, np.diag(singular), atol=1e-8)
    assert np.allclose(model.item_factors_.T @ model.item_factors_, np.diag(singular), atol=1e-8)
    assert np.count_nonzero(singular > 1e-9) < 8
    assert np.all(model.user_factors_[:, -1] == 0)


def test_a_penalty_above_every_singular_value_leaves_nothing():
    V, _, observed, matrix = problem((-10, 10))
    model = BMCADMM(3, bounds=(-10, 10), penalty=1e4, random_state=0).fit(matrix)
    assert np.all(product(model) == 0)
    assert model.objectives_[-1] == pytest.approx(0.5 * np.sum(V[observed] ** 2))


def test_ratings_of_weight_zero_change_nothing():
    V, _, observed, matrix = problem(share=1.0)
    kept = np.random.default_rng(5).random(V.shape) < 0.5
    settings = {"bounds": (1, 5), "tol": 1e-9, "patience": 10**6, "max_iter": 3000, "random_state": 0}
    weighted = BMCADMM(9, **settings).fit(matrix, sample_weight=kept[observed].astype(float))
    alone = BMCADMM(9, **settings).fit(sp.csr_array((V[kept], np.nonzero(kept)), shape=V.shape))
    assert np.allclose(product(weighted), product(alone), atol=1e-5)


def test_the_model_is_never_held_as_a_full_matrix():
    rng = np.random.default_rng(0)
    n_users, n_items = 3000, 2000
    cells = rng.choice(n_users * n_items, 20_000, replace=False)
    matrix = sp.csr_array((rng.integers(1, 6, cells.size).astype(float), np.divmod(cells, n_items)))
    ratings = Ratings.from_sparse(matrix)
    model = BMCADMM(5, bounds=(1, 5), max_iter=3, random_state=0, n_jobs=1)
    model.fit(ratings)  # compiles
    tracemalloc.start()
    model.fit(ratings)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < n_users * n_items * 8 / 4


def test_memory_is_for_the_pairs_outside_the_range_and_little_for_each():
    """This penalty draws all of Z below 1, so that every pair is outside."""
    shape = 300, 200
    _, _, _, matrix = problem(shape=shape, share=0.05)
    with RowPool(1, 0) as pool:
        structured = splitting(matrix, None, (1, 5), pool, penalty=2000.0, rank=3)
        structured.iterate()  # compiles
        tracemalloc.start()
        for _ in range(5):
            structured.iterate()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    n_outside = structured.outside.indices.size
    assert n_outside > 0.9 * np.prod(shape)
    assert peak < 1.1 * BYTES_PER_ENTRY * n_outside


def test_much_memory_is_announced_once(monkeypatch):
    monkeypatch.setattr("boundrec.rivals.LARGE", 100)
    _, _, _, matrix = problem(share=0.3)
    with pytest.warns(
        UserWarning, match=r"BMCADMM has \d+ of 117 pairs outside the bounds.* takes 0.0 GB: lower penalty=0.1"
    ) as caught:
        BMCADMM(3, bounds=(1, 5), penalty=0.1, max_iter=6, random_state=0).fit(matrix)
    assert len([warning for warning in caught if "outside the bounds" in str(warning.message)]) == 1


def test_small_residuals_end_a_fit_without_a_word_about_max_iter():
    _, _, _, matrix = problem()
    with warnings.catch_warnings(action="error"):
        model = BMCADMM(9, bounds=(1, 5), penalty=0, random_state=0).fit(matrix)
    assert model.n_iter_ < 500
    assert model.objectives_[-1] < 0.98 * model.objectives_[-2], "the objective was at rest"


@pytest.mark.parametrize("value", [-3.0, 0.0, 2.5])
def test_a_constant_matrix_has_its_value_everywhere(value):
    assert np.allclose(dense(constant_matrix((3, 4), value)), value)


@pytest.mark.parametrize(("settings", "sentence"), [({"penalty": -1}, "penalty=-1"), ({"rho": 0}, "rho=0")])
def test_penalties_without_sense_are_refused(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        BMCADMM(2, bounds=(1, 5), **settings).fit([("a", "b")], [3])


def test_bounds_are_needed():
    with pytest.raises(ValueError, match="BMCADMM needs both ends"):
        BMCADMM(2).fit([("a", "b")], [3])


def test_the_cost_grows_with_pairs_ratings_and_iterations_and_shrinks_with_threads():
    model = BMCADMM(10, bounds=(1, 5), n_jobs=1)
    base = model.estimated_seconds(1000, 1000, 10_000)
    assert model.estimated_seconds(2000, 1000, 10_000) > 1.5 * base
    assert model.estimated_seconds(1000, 1000) > 5 * base
    assert BMCADMM(10, bounds=(1, 5), n_jobs=1, max_iter=50).estimated_seconds(1000, 1000, 10_000) == base / 10
    two = BMCADMM(10, bounds=(1, 5), n_jobs=2)
    assert two.estimated_seconds(1000, 1000, 10_000) == base / 2
    assert two.estimated_seconds(100, 100) == model.estimated_seconds(100, 100), "a small matrix is for one thread"


def test_a_fit_of_hours_says_so_before_it_starts():
    model = BMCADMM(2, bounds=(1, 5), max_iter=10**12, n_jobs=1)
    with pytest.warns(UserWarning, match=r"2 × 2 pairs may take up to [\d,.]+ hours.*max_iter"):
        model.fit(sp.csr_array(np.full((2, 2), 3.0)), callback=lambda *_: True)


@pytest.mark.parametrize("mode", ["relative", "absolute"])
def test_residuals_end_the_fit_in_the_unit_that_the_tolerance_has(mode):
    bounds, tol = (0, 10), 1e-3
    _, C, observed, matrix = problem(bounds)
    with RowPool(1, 0) as pool:
        structured = splitting(matrix, C[observed], bounds, pool, penalty=0.2)
        solver = Admm(structured, tol, mode, (*matrix.shape, 9), np.dtype(float))
        residuals = [max(structured.primal, structured.dual) for _ in solver.sweeps()]
    unit = 5 * np.sqrt(matrix.nnz) if mode == "relative" else 1.0
    assert residuals[-1] <= RESIDUAL_TOLERANCE * tol * unit < min(residuals[:-1])


@pytest.mark.parametrize(("mode", "accepted"), [("relative", True), ("absolute", False)])
def test_a_rise_within_the_tolerance_is_no_rejection(mode, accepted):
    class Rising:
        half, n_ratings, primal, dual, objective = 1.0, 1, 1e9, 1e9, 1000.0

        def iterate(self):
            self.objective += 0.5

        def balance(self):
            pass

    sweeps = Admm(Rising(), 1e-3, mode, (1, 1, 1), np.dtype(float)).sweeps()
    assert [next(sweeps).accepted for _ in range(3)] == [True, accepted, accepted]
