"""Least squares over all pairs in the ball, against a dense sum over every pair and a search by SciPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

import naive
from boundrec.data.ratings import Csr
from boundrec.solvers.all_pairs import AllPairs, AllPairsAlternation, drawn_to, solve_rows
from boundrec.solvers.threads import RowPool


class Problem:
    """Random choices with confidences, in a dense matrix and in both row orders."""

    def __init__(self, seed, n=9, m=7, k=3, alpha=0.5, ridge=0.05, radius=1.0, dtype=np.float64, empty=()):
        rng = np.random.default_rng(seed)
        self.C = np.where(rng.random((n, m)) < 0.4, rng.uniform(0.1, 3.0, (n, m)), 0.0)
        self.C[0, 0] = 1.0
        if empty:
            self.C[empty[0]], self.C[:, empty[1]] = 0.0, 0.0
        self.by_user, self.by_item = as_ones(self.C, dtype), as_ones(self.C.T, dtype)
        self.p = np.where(self.C.any(axis=0), rng.uniform(0.2, 2.0, m), 0.0)
        self.all = AllPairs(alpha, ridge, self.p, np.count_nonzero(self.C.any(axis=1)), radius)
        self.W, self.H = ((radius * rng.uniform(-1, 1, (size, k)) / np.sqrt(k)).astype(dtype) for size in (n, m))

    def loss(self, W, H):
        return naive.all_pairs_loss(self.C, self.p, self.all.unobserved_weight, self.all.ridge, W, H)

    def alternation(self, pool):
        return AllPairsAlternation(self.all, (self.by_user, self.by_item), (self.W, self.H), pool)


def as_ones(C, dtype):
    rows, columns = np.nonzero(C)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(C)))])
    return Csr(indptr, columns.astype(np.int32), np.ones(len(rows), dtype), C[rows, columns].astype(dtype))


def solved(problem, kind, csr, rows, fixed, other, means=None):
    own = problem.all.own(kind, csr, problem.all.weights(kind, len(rows)))
    own = own if means is None else drawn_to(own, means)
    with RowPool(1, csr.indices.size) as pool:
        return solve_rows(problem.all, own, csr, rows, fixed, problem.all.gram(other, fixed), pool)


seeds, alphas, ridges = st.integers(0, 10_000), st.sampled_from([0.0, 0.02, 1.0, 30.0]), st.sampled_from([0.0, 0.01, 1])
radii = st.sampled_from([1.0, 0.4, 2.0])
#: Less than a block of eight factors, a whole one, one and some, two, and a little more.
sizes = st.sampled_from([1, 3, 8, 11, 16, 17])


@given(seeds, alphas, ridges, radii, sizes)
def test_every_row_is_the_minimum_in_the_ball_of_a_dense_sum_over_all_pairs(seed, alpha, ridge, radius, k):
    problem = Problem(seed, n=25, m=20, k=k, alpha=alpha, ridge=ridge, radius=radius)
    users = solved(problem, "user", problem.by_user, problem.W, problem.H, "item")
    for i, w in enumerate(users):
        A, b = naive.all_pairs_row(problem.C[i], problem.p, alpha, ridge, problem.H)
        best = naive.solve_row_by_eigen(A, b, radius, "ball")
        assert naive.quadratic(A, b, w) <= naive.quadratic(A, b, best) + 1e-8 * (1 + abs(naive.quadratic(A, b, best)))
        assert np.linalg.norm(w) <= radius * (1 + 1e-12)
    items = solved(problem, "item", problem.by_item, problem.H, problem.W, "user")
    for j, h in enumerate(items):
        A, b = naive.all_pairs_item_row(problem.C[:, j], problem.p[j], alpha, ridge, problem.W, problem.all.n_users)
        best = naive.solve_row_by_eigen(A, b, radius, "ball")
        assert naive.quadratic(A, b, h) <= naive.quadratic(A, b, best) + 1e-8 * (1 + abs(naive.quadratic(A, b, best)))


@given(seeds, alphas, ridges, radii, sizes)
def test_a_row_that_is_drawn_somewhere_is_the_minimum_of_a_dense_sum_with_that_penalty(seed, alpha, ridge, radius, k):
    problem, rng = Problem(seed, n=25, m=20, k=k, alpha=alpha, ridge=ridge, radius=radius), np.random.default_rng(seed)
    M, L = rng.normal(0, 1, problem.W.shape), rng.normal(0, 1, problem.H.shape)
    users = solved(problem, "user", problem.by_user, problem.W, problem.H, "item", M)
    items = solved(problem, "item", problem.by_item, problem.H, problem.W, "user", L)
    systems = [naive.all_pairs_row(c, problem.p, alpha, ridge, problem.H, m) for c, m in zip(problem.C, M, strict=True)]
    systems += [
        naive.all_pairs_item_row(c, p, alpha, ridge, problem.W, problem.all.n_users, m)
        for c, p, m in zip(problem.C.T, problem.p, L, strict=True)
    ]
    for (A, b), w in zip(systems, [*users, *items], strict=True):
        best = naive.solve_row_by_eigen(A, b, radius, "ball")
        assert naive.quadratic(A, b, w) <= naive.quadratic(A, b, best) + 1e-8 * (1 + abs(naive.quadratic(A, b, best)))
        assert np.linalg.norm(w) <= radius * (1 + 1e-12)


def test_means_of_zero_are_none_at_all():
    problem = Problem(2, n=25, m=20, k=11)
    arguments = problem, "user", problem.by_user, problem.W, problem.H, "item"
    assert np.array_equal(solved(*arguments), solved(*arguments, np.zeros_like(problem.W)))


@pytest.mark.parametrize(("alpha", "radius"), [(0.3, 1.0), (2.0, 1.0), (0.01, 0.5)])
def test_a_row_is_what_scipy_finds_for_the_loss_as_it_is_printed(alpha, radius):
    problem = Problem(1, alpha=alpha, radius=radius, n=4, m=5, k=2)
    users = solved(problem, "user", problem.by_user, problem.W, problem.H, "item")

    def loss(w, i):
        W = users.copy()
        W[i] = w
        return problem.loss(W, problem.H)

    for i, w in enumerate(users):
        inside = {"type": "ineq", "fun": lambda x: radius**2 - x @ x}
        found = minimize(loss, problem.W[i] / 2, args=(i,), method="SLSQP", constraints=inside, options={"ftol": 1e-14})
        assert loss(w, i) <= found.fun + 1e-7  # SLSQP may overstep the ball by its tolerance
        assert np.allclose(w, found.x, atol=1e-4)


@given(seeds, alphas, ridges, radii)
def test_the_objective_is_the_loss_as_it_is_printed_and_never_rises(seed, alpha, ridge, radius):
    problem = Problem(seed, alpha=alpha, ridge=ridge, radius=radius)
    with RowPool(1, 10) as pool:
        alternation = problem.alternation(pool)
        objectives = [problem.loss(problem.W, problem.H)]
        for _, sweep in zip(range(5), alternation.sweeps(), strict=False):
            objectives.append(sweep.objective)
            assert sweep.objective == pytest.approx(problem.loss(alternation.users, alternation.items), rel=1e-9)
    assert np.all(np.diff(objectives) <= 1e-9 * objectives[0])


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_any_number_of_threads_gives_the_same_bits(dtype, monkeypatch):
    monkeypatch.setattr("boundrec.solvers.threads.INLINE_BELOW", 0)
    monkeypatch.setattr("boundrec.solvers.threads.SMALLEST_RANGE", 1)
    found = []
    for n_jobs in (1, 2, 5):
        problem = Problem(3, n=40, m=30, k=19, dtype=np.dtype(dtype))
        with RowPool(n_jobs, 10) as pool:
            alternation = problem.alternation(pool)
            objectives = [sweep.objective for _, sweep in zip(range(4), alternation.sweeps(), strict=False)]
        found.append((alternation.users, alternation.items, objectives))
    for users, items, objectives in found[1:]:
        assert np.array_equal(users, found[0][0])
        assert np.array_equal(items, found[0][1])
        assert objectives == found[0][2]


def test_who_chose_nothing_and_what_nobody_chose_stay_at_nothing():
    problem = Problem(4, empty=(2, 3))
    with RowPool(1, 10) as pool:
        alternation = problem.alternation(pool)
        next(alternation.sweeps())
    assert not alternation.users[2].any()
    assert not alternation.items[3].any()
