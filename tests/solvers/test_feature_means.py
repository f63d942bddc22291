"""What features say of rows: the regression against a dense least squares, and the objective that it lowers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from test_all_pairs import Problem, alphas, ridges, seeds

import naive
from boundrec.solvers.all_pairs import AllPairsAlternation
from boundrec.solvers.feature_means import STRENGTH, FeatureMeans
from boundrec.solvers.threads import RowPool

#: Few, which are factorised, and many, which are found by gradients.
numbers = st.sampled_from([1, 5, 90])


class Told(Problem):
    """Choices, and features of most users and items; everything that the regression is told, and its slow twin."""

    def __init__(self, seed, n_features, **more):
        super().__init__(seed, n=40, m=30, **more)
        rng = np.random.default_rng(seed + 1)
        self.F = {kind: rng.normal(0.5, 1, (size, n_features)) for kind, size in (("user", 40), ("item", 30))}
        self.told = {kind: rng.random(len(F)) < 0.8 for kind, F in self.F.items()}
        self.counts = {}
        for kind, csr in (("user", self.by_user), ("item", self.by_item)):
            self.told[kind][:3] = True
            self.F[kind][~self.told[kind]] = 0.0
            counts = self.all.counts(kind, csr, self.all.weights(kind, len(self.F[kind])))
            self.counts[kind] = np.where(csr.row_weights() > 0, counts, 0.0)

    def means(self, kind, width):
        return FeatureMeans(csr_array(self.F[kind]), self.told[kind], self.counts[kind], width)

    def regressed(self, kind, rows):
        return naive.feature_regression(self.F[kind], self.counts[kind] * self.told[kind], rows, STRENGTH)

    def alternation(self, pool):
        means = {kind: self.means(kind, self.W.shape[1]) for kind in ("user", "item")}
        return AllPairsAlternation(self.all, (self.by_user, self.by_item), (self.W, self.H), pool, means), means


@given(seeds, numbers, st.sampled_from([0.02, 1.0]))
def test_the_regression_is_that_of_dense_least_squares(seed, n_features, alpha):
    problem = Told(seed, n_features, alpha=alpha)
    for kind, rows in (("user", problem.W), ("item", problem.H)):
        means = problem.means(kind, rows.shape[1])
        with RowPool(1, 10) as pool:
            for _ in range(1 if n_features < 64 else 8):  # each goes on from the one before
                means.regress(rows, pool)
            expected = means.expected(pool)
        B, mean, penalty = problem.regressed(kind, rows)
        there = problem.told[kind] & (problem.counts[kind] > 0)
        assert np.allclose(means.found.matrix, B, atol=1e-7)
        assert np.allclose(means.found.typical, mean @ B, atol=1e-7)
        assert means.penalty() == pytest.approx(penalty * np.sum(B**2), rel=1e-5)
        assert np.allclose(expected, np.where(there[:, None], (problem.F[kind] - mean) @ B, 0.0), atol=1e-6)


@given(seeds, numbers, alphas, ridges)
def test_with_features_the_objective_is_the_loss_with_its_penalties_and_never_rises(seed, n_features, alpha, ridge):
    problem = Told(seed, n_features, alpha=alpha, ridge=ridge)
    with RowPool(1, 10) as pool:
        alternation, means = problem.alternation(pool)
        objectives = []
        for _, sweep in zip(range(6), alternation.sweeps(), strict=False):
            W, H = alternation.users, alternation.items
            M, L = (means[kind].expected(pool) for kind in ("user", "item"))
            loss = naive.all_pairs_loss(problem.C, problem.p, alpha, ridge, W, H, M, L)
            for kind, rows in (("user", W), ("item", H)):
                loss += ridge * problem.regressed(kind, rows)[2] * np.sum(means[kind].found.matrix ** 2)
            objectives.append(sweep.objective)
            assert sweep.objective == pytest.approx(loss, rel=1e-9)
    assert np.all(np.diff(objectives) <= 1e-9 * objectives[0])


def test_features_of_zeros_give_the_bits_of_none():
    problem = Told(3, 4)
    problem.F = {kind: np.zeros_like(F) for kind, F in problem.F.items()}
    with RowPool(1, 10) as pool:
        told, plain = problem.alternation(pool)[0], Problem.alternation(problem, pool)
        for _, one, other in zip(range(3), told.sweeps(), plain.sweeps(), strict=False):
            assert one == other
    assert np.array_equal(told.users, plain.users)
    assert np.array_equal(told.items, plain.items)


@pytest.mark.parametrize("n_features", [5, 90])
def test_with_features_any_number_of_threads_gives_the_same_bits(n_features, monkeypatch):
    monkeypatch.setattr("boundrec.solvers.threads.INLINE_BELOW", 0)
    monkeypatch.setattr("boundrec.solvers.threads.SMALLEST_RANGE", 1)
    found = []
    for n_jobs in (1, 2, 5):
        with RowPool(n_jobs, 10) as pool:
            alternation, means = Told(4, n_features, k=11, dtype=np.float32).alternation(pool)
            objectives = [sweep.objective for _, sweep in zip(range(4), alternation.sweeps(), strict=False)]
        found.append((alternation.users, alternation.items, means["item"].found.matrix, objectives))
    for one in found[1:]:
        assert all(map(np.array_equal, one, found[0]))


def test_what_was_learnt_stays_when_the_alternation_goes_on():
    with RowPool(1, 10) as pool:
        alternation, _ = Told(5, 4).alternation(pool)
        sweeps = alternation.sweeps()
        next(sweeps)
        learned = alternation.result()
        before = learned.means["user"].matrix.copy()
        next(sweeps)
    assert np.array_equal(learned.means["user"].matrix, before)
    assert not np.array_equal(alternation.result().means["user"].matrix, before)


@pytest.mark.parametrize("told", [np.zeros(40, bool), np.arange(40) == 2])
def test_rows_that_have_either_features_or_observations_teach_nothing(told):
    problem = Told(6, 3, empty=(2, 3))
    means = FeatureMeans(csr_array(problem.F["user"]), told, problem.counts["user"], 3)
    with RowPool(1, 10) as pool:
        means.regress(problem.W, pool)
        assert not means.expected(pool).any()
    assert not means.found.matrix.any()
