"""Link matrices: their system against a dense one, their draws against closed forms, and sets that tell no secrets."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.sparse import csr_array, random_array
from sklearn.base import clone

import naive
from boundrec import BayesianMBMF
from boundrec.data.ratings import Csr, Ratings
from boundrec.models.fit import set_aside
from boundrec.models.side_information import links_of, rated_sets
from boundrec.solvers import Side, block_kernels, kernels, normal_equations
from boundrec.solvers.exact import HELD_SHARE
from boundrec.solvers.gibbs import Prior, _as_chosen, draw_prior
from boundrec.solvers.links import LinkDraw, Links
from boundrec.solvers.normal_equations import MOST_STEPS, N_TURNS, TOLERANCE, NormalEquations, Sparse
from boundrec.solvers.threads import RowPool

POOL = RowPool(1, 0)


def sparse(rng, n_rows, n_columns, density=0.4):
    """Some entries, and a row and a column without any."""
    matrix = csr_array(random_array((n_rows, n_columns), density=density, rng=rng, data_sampler=rng.standard_normal))
    dense = matrix.toarray()
    dense[rng.integers(n_rows)] = 0.0
    dense[:, rng.integers(n_columns)] = 0.0
    return csr_array(dense)


# --- the system ---------------------------------------------------------------------------------------------


@given(st.integers(0, 10_000), st.booleans())
def test_products_of_sparse_matrices_equal_their_slow_twin(seed, of_ones):
    rng = np.random.default_rng(seed)
    n, m, width = rng.integers(1, 9, 3) * (1, 1, 8 if of_ones else 1)
    matrix, dense = sparse(rng, n, m), rng.standard_normal((m, width))
    places, values = (matrix.indptr.astype(np.int64), matrix.indices), matrix.data
    out = np.full((n, width), np.nan)
    middle = int(rng.integers(n + 1))
    for start, stop in ((0, middle), (middle, n)):
        if of_ones:
            block_kernels.sums_of_rows(places, dense, out, start, stop)
        else:
            kernels.sparse_products((*places, values), dense, out, start, stop)
    wanted = naive.sparse_product(*places, np.ones_like(values) if of_ones else values, dense)
    assert np.allclose(out, wanted, rtol=1e-12, atol=1e-14)


@given(st.integers(0, 10_000), st.booleans())
def test_both_orders_of_a_matrix_multiply_as_the_dense_one(seed, of_sets):
    rng = np.random.default_rng(seed)
    n, m = rng.integers(1, 9, 2)
    given_matrix = sparse(rng, n, m)
    if of_sets:  # the same value all along a row
        sizes = np.diff(given_matrix.indptr)
        given_matrix.data[:] = 1 / np.sqrt(np.repeat(sizes, sizes))
    rows = Sparse.of(given_matrix)
    columns, dense = rows.transposed(int(m)), given_matrix.toarray()
    right, left = rng.standard_normal((m, 3)), rng.standard_normal((n, 3))
    assert np.allclose(rows.times(right, POOL), dense @ right, rtol=1e-12, atol=1e-14)
    assert np.allclose(columns.times(left, POOL), dense.T @ left, rtol=1e-12, atol=1e-14)
    for one, wanted in ((rows, dense), (columns, dense.T)):
        there = csr_array((one.entries(), one.indices, one.indptr), shape=wanted.shape)
        assert np.allclose(there.toarray(), wanted, rtol=1e-15)
    if of_sets:
        assert not rows.values.size
        assert not columns.values.size


@given(st.integers(0, 10_000), st.booleans(), st.sampled_from([0, 1, 3, 24]))
def test_both_ways_solve_the_dense_system(seed, by_gradients, n_slow):
    """Rows that nobody rated are not in it; strengths of groups are up to six decades apart. Any subspace does."""
    rng = np.random.default_rng(seed)
    n, width = int(rng.integers(1, 15)), int(rng.integers(1, 4))
    groups = rng.integers(1, 5, int(rng.integers(1, 4)))
    features = sparse(rng, n, groups.sum())
    rated = rng.random(n) < 0.7
    link = Links(features, groups, rated, width)
    link.strength = 10 ** rng.uniform(-3, 3, len(groups))
    right = rng.standard_normal((groups.sum(), width))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(normal_equations, "FEW", 0 if by_gradients else 64)
        patch.setattr(normal_equations, "N_SLOW", n_slow)
        found = link.solved(right, POOL, 1e-13)
    wanted = naive.link_solution(features.toarray()[rated], np.repeat(link.strength, groups), right)
    assert np.allclose(found, wanted, rtol=1e-7, atol=1e-9 * np.abs(wanted).max())


@pytest.mark.parametrize("tolerance", [TOLERANCE, 1e-6])
def test_gradients_end_where_every_column_is_as_near_as_asked_for(monkeypatch, tolerance):
    monkeypatch.setattr(normal_equations, "FEW", 0)
    rng = np.random.default_rng(0)
    F = sparse(rng, 200, 80, 0.1)
    link = Links(F, [50, 30], np.ones(200, bool), 3)
    right = rng.standard_normal((80, 3)) * [1, 1e-6, 0]
    found = link.solved(right, POOL, tolerance)
    left = (F.T @ F).toarray() @ found + 5.0 * found - right
    assert np.all(np.linalg.norm(left, axis=0) <= 1.001 * tolerance * np.linalg.norm(right, axis=0))
    assert np.linalg.norm(left[:, 0]) > 1e-3 * tolerance * np.linalg.norm(right[:, 0])  # and no farther than that
    assert not found[:, 2].any()


@pytest.mark.parametrize("strength", [1e-300, 1e-12, 1.0, 1e300])
def test_gradients_take_no_more_steps_than_they_may_and_end_in_numbers(monkeypatch, strength):
    """Columns that are all but the same, and no residual is near enough."""
    monkeypatch.setattr(normal_equations, "FEW", 0)
    rng = np.random.default_rng(0)
    F = rng.standard_normal((300, 1)) + 1e-7 * rng.standard_normal((300, 150))
    link = Links(csr_array(F), [150], np.ones(300, bool), 2)
    link.strength = np.array([strength])
    calls = counted_products(monkeypatch)
    found = link.solved(rng.standard_normal((150, 2)), POOL, 0.0)
    assert N_TURNS < len(calls) <= N_TURNS + 1 + MOST_STEPS
    assert np.isfinite(found).all()


def test_gradients_outside_the_slow_directions_take_fewer_steps(monkeypatch):
    """Sets that go with three tastes: the subspace is found in the first draw, and serves the others."""
    rng = np.random.default_rng(0)
    popular = rng.random((600, 300)) < np.exp(rng.standard_normal((600, 3)) @ rng.standard_normal((3, 300)) - 2)
    F = csr_array(popular / np.sqrt(np.maximum(popular.sum(axis=1, keepdims=True), 1)))
    right, steps = rng.standard_normal((300, 4)), {}
    for n_slow in (0, 24):
        monkeypatch.setattr(normal_equations, "N_SLOW", n_slow)
        link = Links(F, [300], np.ones(600, bool), 4)
        link.strength = np.array([1.0])
        link.solved(right, POOL)
        with pytest.MonkeyPatch.context() as patch:
            calls = counted_products(patch)
            link.solved(right, POOL)
        steps[n_slow] = len(calls)
    assert 0 < 2 * steps[24] <= steps[0]


def counted_products(patch):
    """A list that grows with every product by FᵀF from now on."""
    calls, times = [], NormalEquations._gram_times
    patch.setattr(NormalEquations, "_gram_times", lambda *all_of: calls.append(1) or times(*all_of))
    return calls


# --- draws --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by_gradients", [False, True])
def test_links_and_strengths_have_their_conditional_distributions(monkeypatch, by_gradients):
    """B − E[B] in units of (FᵀF + Λ)⁻¹ ⊗ P⁻¹ is standard normal; each λ is Gamma given the B that it came with."""
    monkeypatch.setattr(normal_equations, "FEW", 0 if by_gradients else 64)
    rng = np.random.default_rng(0)
    groups, rated = np.array([2, 1]), np.array([True, True, False, True, True])
    F, P = rng.standard_normal((5, 3)), np.array([[3.0, 1.2], [1.2, 2.0]])
    strengths, apart, n = np.array([0.5, 4.0]), rng.standard_normal((4, 2)), 8000
    link = Links(csr_array(F), groups, rated, 2)
    monkeypatch.setattr(Links, "solved", lambda *all_of, solved=Links.solved: solved(*all_of, 1e-12))
    drawn, shares = np.empty((n, 3, 2)), np.empty((n, 2))
    for number in range(n):
        link.strength = strengths
        link.redraw(apart, P, POOL, rng)
        drawn[number] = B = link.matrix
        totals = [np.trace(part @ P @ part.T) for part in (B[:2], B[2:])]
        shares[number] = stats.gamma.cdf(link.strength * (np.array(totals) + 2) / 2, (2 * groups + 2) / 2)
    system = F[rated].T @ F[rated] + np.diag([0.5, 0.5, 4.0])
    mean = np.linalg.solve(system, F[rated].T @ apart)
    standard = np.einsum("fg,ngk,kl->nfl", np.linalg.cholesky(system).T, drawn - mean, np.linalg.cholesky(P))
    standard = standard.reshape(n, 6)
    assert min(stats.kstest(column, "norm").pvalue for column in standard.T) > 1e-3
    products = standard.T @ standard / np.sqrt(n)
    assert np.abs(products[np.triu_indices(6, 1)]).max() < 4  # none goes with another
    assert min(stats.kstest(column, "uniform").pvalue for column in shares.T) > 1e-3


def test_the_prior_given_links_has_its_conditional_distribution():
    """With S = L Lᵀ, LᵀPL is Wishart with unit scale, its diagonal χ²; and m is normal given P."""
    rng = np.random.default_rng(0)
    rows, B, strengths = rng.standard_normal((4, 2)) + 1, rng.standard_normal((3, 2)), np.array([0.5, 0.5, 4.0])
    told = B.T @ (strengths[:, None] * B)
    mean = rows.mean(axis=0)
    S = np.eye(2) + (rows - mean).T @ (rows - mean) + 2 * 4 / 6 * np.outer(mean, mean) + told
    L = np.linalg.cholesky(S)
    draws = [draw_prior(rows, rng, told, 3) for _ in range(4000)]
    diagonals = np.array([np.diagonal(L.T @ P @ L) for _, P in draws])
    apart = np.array([np.linalg.cholesky(P).T @ (m - 4 / 6 * mean) * np.sqrt(6) for m, P in draws])
    for k in range(2):
        assert stats.kstest(diagonals[:, k], "chi2", (2 + 4 + 3,)).pvalue > 1e-3
        assert stats.kstest(apart[:, k], "norm").pvalue > 1e-3


def test_links_tell_the_prior_their_weighed_scatter_and_their_number():
    rng = np.random.default_rng(0)
    link = Links(csr_array(rng.standard_normal((6, 5))), [3, 2], np.ones(6, bool), 2)
    link.matrix, link.strength = rng.standard_normal((5, 2)), np.array([0.1, 7.0])
    scatter, n = link.scatter()
    assert np.allclose(
        scatter, sum(s * np.outer(b, b) for s, b in zip([0.1] * 3 + [7.0] * 2, link.matrix, strict=True))
    )
    assert n == 5


def test_links_move_all_rows_and_a_typical_one_as_the_rated_ones_are_moved_on_average():
    rng = np.random.default_rng(0)
    F, rated = rng.standard_normal((6, 5)), np.arange(6) != 2
    link = Links(csr_array(F), [3, 2], rated, 2)
    link.matrix = rng.standard_normal((5, 2))
    assert np.allclose(link.shifts(POOL), F @ link.matrix)
    wanted = [(F[rated][:, part] @ link.matrix[part]).mean(axis=0) for part in (slice(3), slice(3, 5))]
    assert np.allclose(link.drawn(POOL).typical, wanted)


def test_features_tell_of_rows_without_sets_what_goes_with_the_features():
    """Sets that are the feature itself: then the feature alone says what both say of rows that have them."""
    rng = np.random.default_rng(0)
    feature = rng.choice([-1.0, 1.0], 400)[:, None]
    F, rated = np.hstack([feature, np.hstack([feature, -feature]).clip(0)]), np.arange(400) < 390
    link = Links(csr_array(F), [1, 2], rated, 3, sets=True)
    link.matrix, link.strength = rng.standard_normal((3, 3)), np.full(2, 1e-6)
    draw = link.drawn(POOL)
    told = feature * draw.alone + draw.typical[1]
    assert np.allclose(told[rated], (F @ link.matrix)[rated], atol=0.3)
    by_sets = F[rated][:, 1:] @ link.matrix[1:]
    assert np.allclose(draw.spread, np.cov(by_sets.T, bias=True, aweights=np.ones(390)))


def test_without_features_sets_that_are_not_known_leave_their_spread_open():
    rng = np.random.default_rng(0)
    F = rng.standard_normal((6, 4)) * (rng.random((6, 4)) < 0.7)
    F[:, 0] = 1.0
    link = Links(csr_array(F), [4], np.ones(6, bool), 2, sets=True)
    link.matrix = rng.standard_normal((4, 2))
    draw, n = link.drawn(POOL), np.count_nonzero(F, axis=1)
    assert draw.alone.shape == (0, 2)
    moved, weights = F @ link.matrix, n / (n + n.mean())
    assert np.allclose(draw.typical[0], np.average(moved, axis=0, weights=weights))
    assert np.allclose(draw.spread, np.cov(moved.T, bias=True, aweights=weights))


# --- who rated what -----------------------------------------------------------------------------------------


@given(st.integers(0, 10_000), st.booleans())
def test_sets_are_of_ratings_that_count(seed, weighted):
    rng = np.random.default_rng(seed)
    n, m = (int(size) for size in rng.integers(1, 8, 2))
    mask = rng.random((n, m)) < 0.5
    weights = np.where(rng.random((n, m)) < 0.3, 0.0, rng.random((n, m)) + 0.1) if weighted else np.ones((n, m))
    rows, columns = np.nonzero(mask)
    indptr = np.concatenate([[0], np.cumsum(mask.sum(axis=1))])
    csr = Csr(indptr, columns.astype(np.int32), np.zeros(len(rows)), weights[mask] if weighted else np.empty(0))
    known = np.flatnonzero(rng.permutation(np.arange(m) < rng.integers(1, m + 1)))
    pairs = [{j: weights[i, j] for j in range(m) if mask[i, j]} for i in range(n)]
    wanted = np.array([naive.rated_set(row, known) for row in pairs])
    assert np.allclose(rated_sets(csr, known).toarray(), wanted)
    link = links_of(None, csr, None, np.arange(m), 2)
    assert np.array_equal(link.rated, [any(weight > 0 for weight in row.values()) for row in pairs])


@pytest.fixture(scope="module")
def moving():
    """Pairs (X, y) in which somebody rated everything and others only every second item: they could have the next."""
    rng = np.random.default_rng(0)
    others = np.argwhere(rng.random((30, 20)) < 0.6) * [1, 2] + [1, 0]
    X = np.vstack([np.column_stack([np.zeros(40, int), np.arange(40)]), others])
    return X, rng.integers(1, 6, len(X)).astype(float)


def elsewhere(X, y, chosen):
    """Other items and other ratings in the chosen places, all of whose ids and whose order stay."""
    moved = X.copy()
    moved[chosen & (X[:, 0] > 0), 1] += 1
    return moved, np.where(chosen, 6 - y, y)


def ids_of(ratings):
    pairs = ratings.pairs()
    return set(zip(ratings.users.ids[pairs.users].tolist(), ratings.items.ids[pairs.items].tolist(), strict=True))


def assert_same_fit(one, other, same=np.array_equal):
    assert same(one.objectives_, other.objectives_)
    for side in ("users", "items"):
        mine, theirs = getattr(one.fitted_, side), getattr(other.fitted_, side)
        assert len(mine.links.in_sets) > 2
        assert same(mine.factors, theirs.factors)
        assert same(mine.links.matrices, theirs.links.matrices)
        assert same(mine.links.typical, theirs.links.typical)


SETTINGS = {"n_factors": 2, "bounds": (1, 5), "implicit": "both", "noise": "own", "max_iter": 8, "random_state": 0}


def test_pairs_of_an_eval_set_are_in_no_set(moving):
    X, y = moving
    held_out = (X[:, 0] > 0) & (np.arange(len(X)) % 3 == 0)
    train = X[~held_out], y[~held_out]
    one = BayesianMBMF(**SETTINGS).fit(*train, eval_set=(X[held_out], y[held_out]))
    moved, ratings = elsewhere(X, y, held_out)
    other = BayesianMBMF(**SETTINGS).fit(*train, eval_set=(moved[held_out], ratings[held_out]))
    assert_same_fit(one, other)
    assert_same_fit(one, BayesianMBMF(**SETTINGS).fit(*train))
    assert one.objectives_ != BayesianMBMF(**SETTINGS).fit(X, y).objectives_


def test_pairs_set_aside_for_validation_are_in_no_set(moving):
    X, y = moving
    aside = set_aside(Ratings.read(X, y), 0.3, 0)[1]
    held_out = np.zeros(len(X), bool)
    held_out[[place for place, pair in enumerate(X.tolist()) if tuple(pair) in ids_of(aside)]] = True
    assert held_out[X[:, 0] > 0].sum() > 10
    model = BayesianMBMF(**SETTINGS, validation_fraction=0.3)
    one, other = clone(model).fit(X, y), model.fit(*elsewhere(X, y, held_out))
    assert one.eval_errors_ != other.eval_errors_
    assert_same_fit(one, other)


def test_pairs_that_do_not_count_are_in_no_set(moving):
    """But for rounding: where a zero is added moves the sums that are made four ratings at a time."""
    X, y = moving
    uncounted = (X[:, 0] > 0) & (np.arange(len(X)) % 3 == 0)
    one, other = (
        BayesianMBMF(**SETTINGS).fit(*data, sample_weight=np.where(uncounted, 0.0, 1.0))
        for data in ((X, y), elsewhere(X, y, uncounted))
    )
    assert_same_fit(one, other, np.allclose)


# --- fits ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("few", [0, 64])
def test_one_two_and_five_threads_give_the_same_bits(moving, monkeypatch, few):
    monkeypatch.setattr("boundrec.solvers.threads.INLINE_BELOW", 0)
    monkeypatch.setattr("boundrec.solvers.threads.SMALLEST_RANGE", 1)
    monkeypatch.setattr(normal_equations, "FEW", few)
    one, two, five = (BayesianMBMF(**SETTINGS, n_jobs=n).fit(*moving) for n in (1, 2, 5))
    for other in (two, five):
        assert_same_fit(one, other)
        assert np.array_equal(one.fitted_.users.steadiness, other.fitted_.users.steadiness)


def test_going_on_is_the_same_chain_as_sampling_at_once(moving):
    settings = SETTINGS | {"burn_in": 2, "n_kept": 100, "dtype": "float64"}
    at_once = BayesianMBMF(**settings | {"max_iter": 12}).fit(*moving)
    model = BayesianMBMF(**settings | {"max_iter": 7}, warm_start=True).fit(*moving)
    model.set_params(max_iter=5).fit(*moving)
    assert model.objectives_ == at_once.objectives_
    assert np.allclose(model.predict(moving[0]), at_once.predict(moving[0]), rtol=1e-12)


# --- strangers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("held", "weighted"), [(0, False), (1, True)])
def test_were_all_ratings_of_strangers_half_of_what_they_are_off_on_average_is_made_good(held, weighted):
    rng = np.random.default_rng(held)
    rows, columns = np.nonzero(rng.random((6, 5)) < 0.6)
    indptr, weights = np.searchsorted(rows, np.arange(7)), rng.uniform(0.5, 2, len(rows)) if weighted else np.empty(0)
    csr = Csr(indptr, columns.astype(np.int32), rng.standard_normal(len(rows)), weights)
    side = Side(csr, rng.uniform(0.5, 2, 6), np.zeros((6, 4)), held)
    other = Side(csr, np.ones(5), rng.uniform(0.1, 1, (5, 4)), 1 - held)
    prior = Prior(rng.standard_normal(3) * 0.1, np.eye(3))
    link = LinkDraw(np.empty((0, 3)), np.empty(0), rng.standard_normal((2, 3)) * 0.1, spread=np.eye(3))

    def off(draw):
        stranger = np.insert(prior.mean + draw.typical.sum(axis=0), held, np.sqrt(HELD_SHARE))
        errors = [csr.data[p] - side.radius[rows[p]] * stranger @ other.factors[columns[p]] for p in range(len(rows))]
        return np.average(errors, weights=weights if weighted else None)

    chosen = _as_chosen(link, prior, side, other)
    assert off(chosen) == pytest.approx(off(link) / 2)
    assert np.array_equal(np.delete(chosen.typical.ravel(), 3), np.delete(link.typical.ravel(), 3))  # the bias, by sets
    moved = chosen.typical[-1, 0] - link.typical[-1, 0]
    assert np.allclose(chosen.spread, np.eye(3) + moved**2 * np.outer([1, 0, 0], [1, 0, 0]))
