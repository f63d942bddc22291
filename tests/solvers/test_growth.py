"""Rows on shares of ranges against SciPy's solver, and how noise grows with their width against slow twins."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.stats import kstest

import naive
from boundrec.data.ratings import Csr, Ends, Pairs, Ratings
from boundrec.models.bounded import likely_scale, noise_growth
from boundrec.ranges.scale import FARTHEST, own_scale
from boundrec.solvers import Side, kernels
from boundrec.solvers.exact import HELD_BY_ITEMS, HELD_BY_USERS, start_with_biases
from boundrec.solvers.gibbs import Kept, KeptSide, RatingNoise, Sampler
from boundrec.solvers.growth import NoiseGrowth
from boundrec.solvers.threads import RowPool


def ranges_of(rng, n, decades=2.0):
    lower = rng.normal(0, 5, n)
    upper = lower + 10 ** rng.uniform(-decades / 2, decades / 2, n)
    return lower, upper, lower + (upper - lower) * rng.random(n)


def solved(features, data, weights, radius, constraint, ridge, start):
    out = np.array([start])
    csr = Csr(np.array([0, len(data)]), np.arange(len(data), dtype=np.int32), data, weights)
    if constraint == "ball":
        kernels.solve_rows_ball(csr, features, np.array([radius]), ridge, out, 0, 1)
    else:
        kernels.solve_rows_sphere(csr, features, np.array([radius]), out, 0, 1)
    return out[0]


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.sampled_from(["ball", "sphere"]), st.sampled_from([0.0, 0.5, 1.0]))
def test_the_row_of_a_user_with_ranges_of_its_own_is_that_of_an_independent_solver(seed, constraint, growth):
    """min Σ c d^(−2p) (v − c_j − d_j û·q̂_j)² + λ Σω |û|² over |û| ≤ 1 (or = 1), in ratings, by SLSQP."""
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(2, 7)), int(rng.integers(2, 4))
    lower, upper, v = ranges_of(rng, n)
    own = rng.uniform(0.5, 2.0, n)
    items = rng.standard_normal((n, k))
    items /= np.maximum(1.0, np.linalg.norm(items, axis=1))[:, None]
    ratings = Ratings.read(
        np.column_stack([np.zeros(n, int), np.arange(n)]), v, sample_weight=own, ends=Ends(lower, upper)
    )
    scale = own_scale(ratings, None, growth)
    shares = scale.of_ratings(ratings).by_user
    ridge = 0.03 if constraint == "ball" else 0.0
    start = np.eye(k)[0] * np.sqrt(scale.width)
    root = np.sqrt(scale.width)
    w = solved(items * root, shares.data, shares.weights, root, constraint, ridge * scale.width, start) / root

    centre, half = (lower + upper) / 2, (upper - lower) / 2
    # ω of a share in units of one, as the fast road has it, and the same in ratings: ω / d² beside (v − v̂)².
    omega = naive.share_weights(lower, upper, own, growth) * scale.width**2
    in_ratings, penalty = omega / half**2, ridge * omega.sum()

    def objective(u):
        return np.sum(in_ratings * (v - centre - half * (items @ u)) ** 2) + penalty * (u @ u)

    def gradient(u):
        return -2 * (in_ratings * half * (v - centre - half * (items @ u))) @ items + 2 * penalty * u

    unit = objective(np.zeros(k)) + 1e-300
    kind = "ineq" if constraint == "ball" else "eq"
    best = np.inf
    for _ in range(12):
        found = minimize(
            lambda u: objective(u) / unit,
            rng.standard_normal(k) / np.sqrt(k),
            jac=lambda u: gradient(u) / unit,
            method="SLSQP",
            constraints={"type": kind, "fun": lambda u: 1 - u @ u, "jac": lambda u: -2 * u},
            options={"ftol": 1e-15, "maxiter": 500},
        )
        size = np.linalg.norm(found.x)
        u = found.x / (size if constraint == "sphere" else max(size, 1.0))
        best = min(best, objective(u))
    assert np.linalg.norm(w) <= 1 + 1e-12
    assert constraint == "ball" or np.linalg.norm(w) >= 1 - 1e-12
    assert abs(objective(w) - best) <= 1e-8 * unit


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_errors_of_ratings_and_their_sums_equal_their_slow_twins(dtype):
    rng = np.random.default_rng(0)
    V, Z = rng.standard_normal((6, 5)).astype(dtype), rng.random((6, 5)) < 0.6
    W, H = rng.standard_normal((6, 3)).astype(dtype), rng.standard_normal((5, 3)).astype(dtype)
    rows, columns = np.nonzero(Z)
    indptr = np.searchsorted(rows, np.arange(7)).astype(np.int64)
    counts, of_items, squares, totals = (
        rng.uniform(0, 2, len(rows)),
        rng.uniform(0, 2, 5),
        np.empty(len(rows)),
        np.empty(6),
    )
    csr = indptr, columns.astype(np.int32), V[Z], np.empty(0, dtype)
    kernels.errors_by_rating(csr, W, H, counts, of_items, squares, totals, 0, 6)
    wanted = naive.rating_errors(V.astype(float), Z, W.astype(float), H.T.astype(float)) ** 2
    assert np.allclose(squares, wanted, atol=1e-12)
    assert np.allclose(totals, naive.row_noise_rates(rows, wanted * counts, of_items[columns], 0, 6) * 2, atol=1e-12)


@given(st.integers(0, 10_000), st.floats(0, 1), st.booleans())
def test_shares_and_their_weights_equal_their_slow_twins(seed, growth, weighted):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 12))
    lower, upper, v = ranges_of(rng, n)
    upper[1:] = np.where(rng.random(n - 1) < 0.3, lower[1:], upper[1:])
    v[0] = upper[0] + (upper[0] - lower[0]) * rng.choice([0, 1, 30])  # outside of its range
    weights = rng.random(n) + 0.1 if weighted else None
    X = np.column_stack([np.arange(n) // 3, np.arange(n)])
    ratings = Ratings.read(X, v, sample_weight=weights, ends=Ends(lower, upper))
    scale = own_scale(ratings, None, growth)
    found, ones = scale.of_ratings(ratings).by_user, np.ones(n) if weights is None else weights
    shares = [naive.share_of_range(*row) for row in zip(v, lower, upper, strict=True)]
    assert np.allclose(found.data, scale.width * np.clip(shares, -FARTHEST, FARTHEST), rtol=1e-9, atol=1e-12)
    assert np.allclose(found.weights, naive.share_weights(lower, upper, ones, growth), rtol=1e-9)
    widths = noise_growth(scale, ratings)
    assert np.allclose(widths.weights(growth), found.weights, rtol=1e-9)
    assert np.isclose(widths.mean_weight(growth), scale.mean_weight, rtol=1e-9)
    pairs = Pairs(X[:, 0], X[:, 1], Ends(lower, upper))
    back = scale.to_rating(scale.width * np.array(shares), pairs)
    inside = (upper > lower) & (v <= upper)
    assert np.allclose(back[inside], v[inside], rtol=1e-9, atol=1e-12)
    assert np.array_equal(back[upper == lower], lower[upper == lower])
    assert np.allclose(scale.noise(pairs)[upper > lower] ** -2 * ones[upper > lower], found.weights[upper > lower])


@given(st.integers(0, 10_000), st.sampled_from([(1.0, 0.3), (2.0, 5.0), (0.5, 1e-3)]))
@settings(max_examples=25)
def test_the_density_of_p_is_that_of_a_quadrature_over_the_noise(seed, prior):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 30))
    half = rng.choice([0.0, 0.2, 1.0, 3.0, 50.0, rng.random()], n)
    half[0] = 1.7
    weights, errors = rng.random(n) + 0.2, rng.normal(0, 2, n)
    growth = NoiseGrowth(half, weights, *prior)
    squares = growth.by_width(errors**2)
    found = [growth.log_density(p, squares) for p in (0.0, 0.37, 1.0)]
    wanted = [naive.growth_log_density(p, half, weights, errors, *prior) for p in (0.0, 0.37, 1.0)]
    assert np.allclose(np.diff(found), np.diff(wanted), rtol=1e-6, atol=1e-6)


def widths_and_errors(rng, p, n=400):
    """Errors on the scale that is factorised, where noise in ratings grows as d^p."""
    half = 10 ** rng.uniform(-1, 1, n)
    return half, rng.standard_normal(n) * half ** (p - 1)


@pytest.mark.parametrize("p", [0.0, 0.3, 0.5, 0.8, 1.0])
def test_the_most_likely_p_is_near_that_of_the_noise(p):
    half, errors = widths_and_errors(np.random.default_rng(int(100 * p)), p)
    growth = NoiseGrowth(half, np.ones(len(half)))
    assert abs(growth.most_likely(errors) - p) < 0.1
    densities = [growth.log_density(q, growth.by_width(errors**2)) for q in np.linspace(0, 1, 101)]
    assert growth.most_likely(errors) == pytest.approx(np.argmax(densities) / 100)


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0])
def test_a_fit_by_means_finds_the_growth_of_noise(p):
    rng = np.random.default_rng(1)
    X = np.argwhere(rng.random((60, 40)) < 0.6)
    half = 10 ** rng.uniform(-1, 1, len(X))
    v = 0.01 * half * rng.standard_normal(60)[X[:, 0]] + 0.05 * rng.standard_normal(len(X)) * half**p
    ratings = Ratings.read(X, v, ends=Ends(-half, half))
    assert abs(likely_scale(own_scale(ratings, None, 0.5), ratings).growth - p) < 0.15


@pytest.mark.parametrize("p", [0.02, 0.5, 0.97])
@pytest.mark.parametrize("n", [3, 40])
def test_slice_sampling_of_p_has_its_conditional_distribution(p, n):
    """A chain of draws, thinned, against the distribution function by the trapezoidal rule."""
    rng = np.random.default_rng(n)
    half, errors = widths_and_errors(rng, p, n)
    growth = NoiseGrowth(half, np.ones(n), 1.0, 1.0)
    grid = np.linspace(0, 1, 2001)
    log_density = np.array([growth.log_density(q, growth.by_width(errors**2)) for q in grid])
    density = np.exp(log_density - log_density.max())
    below = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    draws, present = [], 0.5
    for number in range(6000):
        present = growth.draw(present, errors**2, rng)
        if number % 6 == 5:
            draws.append(present)
    assert kstest(draws, lambda q: np.interp(q, grid, below / below[-1])).pvalue > 1e-3


def test_where_all_ranges_are_alike_p_is_uniform():
    rng, errors = np.random.default_rng(0), np.random.default_rng(1).standard_normal(50)
    growth = NoiseGrowth(np.full(50, 3.0), np.ones(50), 1.0, 1.0)
    draws = [growth.draw(0.5, errors**2, rng) for _ in range(500)]
    assert kstest(draws, "uniform").pvalue > 1e-3


# --- the sampler with it, as Geweke (2004) tests one ------------------------------------------------------------


def test_the_noise_and_its_growth_have_their_prior_where_ratings_are_simulated_anew():
    """Draw p and α given ratings, ratings given p and α, in turn: p is uniform and α Gamma again.

    Rows stay as they are: both are drawn given the rows, as in a sweep of the sampler.
    """
    rng = np.random.default_rng(0)
    half = 10 ** np.linspace(-1, 1, 6)
    counts, guess, prior = np.ones(6), 0.7, 4.0
    growth = NoiseGrowth(half, counts, prior, guess)
    p, variance, seen = 0.5, guess, []
    for number in range(24_000):
        errors = rng.standard_normal(6) * np.sqrt(variance / growth.weights(p))
        p = growth.draw(p, errors**2, rng)
        total = float(growth.weights(p) @ errors**2)
        variance = (total + prior * guess) / (2 * rng.gamma((counts.sum() + prior) / 2))
        if number % 24 == 23:
            seen.append((p, 1 / variance))
    ps, precisions = np.array(seen).T
    assert kstest(ps, "uniform").pvalue > 1e-3
    assert kstest(precisions, "gamma", (prior / 2, 0, 2 / (prior * guess))).pvalue > 1e-3


def test_a_sweep_weighs_ratings_alike_in_both_orders():
    rng = np.random.default_rng(3)
    X = np.argwhere(rng.random((7, 5)) < 0.6)
    half = 10 ** rng.uniform(-1, 1, len(X))
    ratings = Ratings.read(X, half * rng.uniform(-1, 1, len(X)), ends=Ends(-half, half))
    scale = own_scale(ratings, None, 0.5)
    own = scale.of_ratings(ratings)
    users, items = (Side(csr, np.ones(n), np.empty((0, 0))) for csr, n in ((own.by_user, 7), (own.by_item, 5)))
    users = start_with_biases(users, HELD_BY_USERS, 0.0, 2, rng)
    items = start_with_biases(items, HELD_BY_ITEMS, 0.0, 2, rng)
    places = np.arange(ratings.n_ratings, dtype=float)
    order = ratings.with_values(places, np.empty(0)).by_item.data.astype(np.int64)
    growth = RatingNoise(np.ones(ratings.n_ratings), order, noise_growth(scale, ratings, 1.0, 1.0), 0.5)
    kept = Kept(set(), KeptSide(7, 2, 1, HELD_BY_USERS, float), KeptSide(5, 2, 1, HELD_BY_ITEMS, float))
    with RowPool(1, ratings.n_ratings) as pool:
        sampler = Sampler(users, items, 1.0, 1.0, kept, None, pool, rng, growth)
        for _, _sweep in zip(range(3), sampler.sweeps(), strict=False):
            by_user, by_item = users.csr, items.csr
            lower, upper = ratings.ends
            assert np.allclose(by_user.weights, naive.share_weights(lower, upper, np.ones(len(X)), growth.p))
            dense = np.zeros((2, 7, 5))
            dense[0][by_user.row_of_entry(), by_user.indices] = by_user.weights
            dense[1][by_item.indices, by_item.row_of_entry()] = by_item.weights
            assert np.array_equal(dense[0], dense[1])
            assert kept.last.noise.growth == growth.p
