"""What is done by blocks of eight, against NumPy and the kernels that go entry by entry."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from boundrec.data.ratings import Csr
from boundrec.solvers import block_kernels, kernels

seeds, sizes = st.integers(0, 10_000), st.sampled_from([8, 16, 24, 40, 64])


def one_row(rng, n_observed, k, weighted, dtype):
    """A row with so many observations among 50, and the fixed side."""
    indices = rng.choice(50, n_observed, replace=False).astype(np.int32)
    data = rng.standard_normal(n_observed).astype(dtype)
    weights = rng.uniform(0.1, 3.0, n_observed if weighted else 0).astype(dtype)
    return Csr(np.array([0, n_observed]), indices, data, weights), rng.standard_normal((50, k)).astype(dtype)


@given(
    seeds,
    st.integers(1, 40),
    st.sampled_from([0, 1, 3, 4, 7, 31, 32, 33, 45]),
    st.booleans(),
    st.sampled_from(["f4", "f8"]),
)
def test_normal_equations_are_sums_over_the_observations_with_zeros_up_to_whole_eights(
    seed, k, n_observed, weighted, dtype
):
    csr, H = one_row(np.random.default_rng(seed), n_observed, k, weighted, dtype)
    A, b = block_kernels.new_equations(k)
    A[:], b[:] = np.nan, np.nan
    block_kernels.normal_equations_by_blocks(tuple(csr), 0, H, block_kernels.new_tile(k), A, b)
    seen, c = H[csr.indices].astype(float), csr.weights.astype(float) if weighted else np.ones(n_observed)
    wanted_A, wanted_b = np.zeros(A.shape), np.zeros(b.shape)
    wanted_A[:k, :k], wanted_b[0, :k] = (seen.T * c) @ seen, (c * csr.data) @ seen
    assert np.allclose(np.tril(A), np.tril(wanted_A), rtol=1e-12, atol=1e-12)  # sums are in float64
    assert np.allclose(b, wanted_b, rtol=1e-12, atol=1e-12)


@given(seeds, sizes)
def test_the_factor_is_that_of_numpy_and_looks_at_the_lower_triangle_only(seed, k):
    F = np.random.default_rng(seed).standard_normal((k + 5, k))
    A = F.T @ F + 0.1 * np.eye(k)
    lower, L = np.tril(A) + np.triu(np.full((k, k), np.nan), 1), np.full((k, k), np.nan)
    assert block_kernels.cholesky_by_blocks(lower, L)
    expected = np.linalg.cholesky(A)
    assert np.allclose(np.tril(L), expected, rtol=1e-9, atol=1e-9)  # of a condition of 10⁴ at most
    by_entries = np.empty((k, k))
    assert kernels.cholesky(lower, 0.0, by_entries)
    assert np.allclose(np.tril(L), np.tril(by_entries), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("k", [8, 24])
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_a_matrix_that_is_not_positive_definite_has_no_factor(k, share):
    A, at = np.eye(k), int(share * (k - 1))
    for pivot in (0.0, -1.0, np.nan):
        A[at, at] = pivot
        assert not block_kernels.cholesky_by_blocks(A, np.empty((k, k)))


@given(st.integers(0, 10_000), st.sampled_from([8, 16, 40]))
def test_products_and_sums_of_rows_are_those_of_numpy(seed, width):
    rng = np.random.default_rng(seed)
    X, Y = rng.standard_normal((3, width)), rng.standard_normal((2, width))
    assert np.isclose(block_kernels.dot_rows(X, 2, Y, 1), X[2] @ Y[1], rtol=1e-12, atol=1e-12)
    before = Y.copy()
    block_kernels.add_row(-0.7, X, 1, Y, 0)
    assert np.allclose(Y[0], before[0] - 0.7 * X[1], rtol=1e-12, atol=1e-12)
    assert np.array_equal(Y[1], before[1])
