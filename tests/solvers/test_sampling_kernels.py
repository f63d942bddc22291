"""Rows as they are drawn, by their normal matrices and in the span of their ratings, against dense algebra."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
from boundrec.data.ratings import Csr
from boundrec.solvers import Side
from boundrec.solvers.gibbs import NO_SPAN, Common, Prior, Span, draw_rows, free_moments, span_of
from boundrec.solvers.threads import RowPool

PRECISION = 4.0


def two_sides(rng, n_rows, k, most, weighted, held, dtype="f8"):
    """Rows with up to so many ratings of twelve others, the others, and a prior that keeps all far inside the ball."""
    sizes = rng.integers(0, most + 1, n_rows)
    indices = np.concatenate([np.sort(rng.choice(12, n, replace=False)) for n in sizes]).astype(np.int32)
    weights = rng.uniform(0.2, 3.0, indices.size if weighted else 0).astype(dtype)
    csr = Csr(np.concatenate([[0], np.cumsum(sizes)]), indices, rng.normal(0, 0.1, indices.size).astype(dtype), weights)
    rows, others = (0.1 * rng.standard_normal((n, k + 2)).astype(dtype) for n in (n_rows, 12))
    root = rng.standard_normal((k + 1, k + 1))
    prior = Prior(0.02 * rng.standard_normal(k + 1), 400 * (root @ root.T + np.eye(k + 1)))
    return Side(csr, rng.uniform(0.5, 2, n_rows), rows, held), Side(csr, np.ones(12), others, 1 - held), prior


def drawn(side, other, prior, in_span, seed=0, shifts=None):
    moved = {} if shifts is None else {"shifts": shifts}
    span = span_of(side, other, prior) if in_span else NO_SPAN
    with RowPool(1, 1) as pool:
        return draw_rows(side, other, prior, PRECISION, pool, np.random.default_rng(seed), True, **moved, span=span)


@given(
    st.integers(0, 10_000),
    st.integers(1, 20),
    st.booleans(),
    st.sampled_from([0, 1]),
    st.booleans(),
    st.booleans(),
)
def test_means_and_what_is_held_are_those_of_dense_algebra_in_the_span_or_not(seed, k, weighted, held, in_span, moved):
    rng = np.random.default_rng(seed)
    side, other, prior = two_sides(rng, 6, k, 12, weighted, held)
    shifts = 0.01 * rng.standard_normal((6, k + 1)) if moved else None
    found = drawn(side, other, prior, in_span, shifts=shifts)
    for i in range(6):
        mean, _ = naive.conditional_row(side, other, prior, PRECISION, i, 0.0 if shifts is None else shifts[i])
        assert np.allclose(found.means[i], mean, rtol=1e-8, atol=1e-10)
    assert np.array_equal(found.rows[:, held], side.factors[:, held])


@pytest.mark.parametrize("in_span", [False, True])
@pytest.mark.parametrize("n_rated", [0, 1, 2])
def test_draws_and_spreads_have_the_covariance_of_dense_algebra(in_span, n_rated):
    """Of 4,000 rows that are all alike."""
    rng = np.random.default_rng(n_rated)
    side, other, prior = two_sides(rng, 1, 4, 0, True, 1)
    n, indices = 4000, np.arange(n_rated, dtype=np.int32)
    data, weights = rng.normal(0, 0.1, n_rated), rng.uniform(50, 90, n_rated)
    csr = Csr(n_rated * np.arange(n + 1), np.tile(indices, n), np.tile(data, n), np.tile(weights, n))
    many = Side(csr, np.full(n, 1.5), np.repeat(side.factors, n, axis=0), 1)
    others = Side(csr, np.ones(12), 5 * other.factors, 0)
    found = drawn(many, others, prior, in_span)
    mean, covariance = naive.conditional_row(many, others, prior, PRECISION, 0, 0.0)
    free = np.delete(found.rows, 1, axis=1)
    scale = np.sqrt(np.diagonal(covariance))
    assert np.allclose((free.mean(axis=0) - np.delete(mean, 1)) / scale, 0, atol=4 / np.sqrt(n))
    assert np.allclose(np.cov(free.T) / np.outer(scale, scale), covariance / np.outer(scale, scale), atol=0.08)
    wanted = covariance[0, 0], np.diagonal(covariance)[1:].mean()
    assert np.allclose(found.spread, wanted, rtol=1e-9)


def test_rows_of_few_ratings_whose_draws_are_all_outside_the_ball_are_drawn_by_their_normal_matrices():
    """Far outside, where only the walk gets anywhere: it goes there from the row as it is, and stays inside."""
    rng = np.random.default_rng(0)
    side, other, prior = two_sides(rng, 40, 3, 2, False, 0)
    far = Prior(np.array([3.0, 0, 0, 0]), prior.precision)
    ends = [drawn(side, other, far, in_span).rows for in_span in (False, True)]
    for rows in ends:
        inside = np.linalg.norm(np.delete(rows, 0, axis=1), axis=1) / side.radius
        assert inside.max() <= np.sqrt(0.75) * (1 + 1e-12)
        assert np.mean((rows - side.factors)[:, 1] / side.radius) > 0.4


@pytest.mark.parametrize("in_span", [False, True])
@pytest.mark.parametrize("tightness", [10.0, 30.0])
def test_means_and_spreads_in_a_ball_that_cuts_them_are_those_of_rejection_sampling(in_span, tightness):
    """Of one row with two ratings, drawn in many half-steps; the mean of their means, and of their spreads."""
    rng = np.random.default_rng(1)
    side, other, _ = two_sides(rng, 1, 3, 0, False, 0)
    csr = Csr(np.array([0, 2]), np.array([3, 7], np.int32), np.array([0.4, 0.5]), np.empty(0))
    side, other = Side(csr, np.ones(1), side.factors, 0), Side(csr, np.ones(12), 5 * other.factors, 1)
    prior = Prior(np.array([0.5, 0.3, -0.2, 0.1]), tightness * np.diag([0.5, 1.0, 1.0, 2.0]))
    found = [drawn(side, other, prior, in_span, seed=seed) for seed in range(3000)]
    mean, covariance = naive.conditional_row(side, other, prior, PRECISION, 0, 0.0)
    exact = rng.multivariate_normal(np.delete(mean, 0), covariance, 400_000)
    exact = exact[np.linalg.norm(exact, axis=1) <= np.sqrt(0.75)]
    assert 0.2 < len(exact) / 400_000 < 0.98
    means = np.array([np.delete(one.means[0], 0) for one in found])
    # As a ratio of sums over eight pairs it is biased where the ball cuts pairs apart, by far less than its own spread.
    assert np.allclose(means.mean(axis=0), exact.mean(axis=0), atol=0.035)
    variances = exact.var(axis=0)
    wanted = np.array([variances[0], variances[1:].mean()])
    own = means.var(axis=0)  # the variance around a mean of few draws is too small by that mean's own
    spread = np.mean([one.spread[0] for one in found], axis=0) + np.array([own[0], own[1:].mean()])
    assert np.allclose(spread, wanted, rtol=0.1)


@pytest.mark.parametrize("d", [4, 11, 24])
@pytest.mark.parametrize("size", [0.06, 0.08, 0.1])
def test_means_that_the_ball_is_taken_to_leave_alone_are_hardly_moved_by_it(d, size):
    """In the direction in which the prior is widest, and with no ratings, which is the worst case."""
    rng = np.random.default_rng(d)
    whiten = np.linalg.qr(rng.standard_normal((d, d)))[0] * (size * np.exp(rng.normal(0, 0.3, d)))
    most, widest = np.sqrt(0.75), np.linalg.svd(whiten)[0][:, 0]
    calm = Common.of(Span(whiten, whiten, 3), d, most, np.uint64(0)).calm
    noise = rng.standard_normal((200_000, d)) @ whiten.T
    inside = np.linalg.norm(calm * widest + noise, axis=1) <= most
    moved = noise[inside].mean(axis=0) - noise.mean(axis=0)
    assert calm > 0
    assert 1e-6 < 1 - inside.mean() < 0.02
    assert np.linalg.norm(moved) < 0.01 * np.linalg.norm(whiten)


@given(st.integers(0, 10_000), st.integers(1, 20), st.integers(1, 300), st.sampled_from([0, 1]))
def test_moments_are_sums_over_what_is_not_held(seed, k, n, held):
    rng = np.random.default_rng(seed)
    csr = Csr(np.zeros(n + 1, np.int64), np.empty(0, np.int32), np.empty(0), np.empty(0))
    side = Side(csr, rng.uniform(0.5, 2, n), rng.standard_normal((n, k + 2)), held)
    x = np.delete(side.factors, held, axis=1) / side.radius[:, None]
    total, squares = free_moments(side)
    assert np.allclose(total, x.sum(axis=0), rtol=1e-10, atol=1e-10)
    assert np.allclose(squares, x.T @ x, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("in_span", [False, True])
def test_ratings_that_do_not_count_change_nothing(in_span):
    """Neither what is drawn nor how."""
    side, other, prior = two_sides(np.random.default_rng(0), 8, 5, 6, True, 0)
    counts = np.random.default_rng(1).random(side.csr.data.size) < 0.5
    weighed = side.csr._replace(weights=np.where(counts, side.csr.weights, 0.0))
    rows = side.csr.row_of_entry()[counts]
    fewer = Csr(np.searchsorted(rows, np.arange(9)), *(part[counts] for part in side.csr[1:]))
    one, two = (drawn(Side(csr, side.radius, side.factors, 0), other, prior, in_span) for csr in (weighed, fewer))
    assert np.allclose(one.rows, two.rows, rtol=1e-9)
    assert np.allclose(one.means, two.means, rtol=1e-9)
