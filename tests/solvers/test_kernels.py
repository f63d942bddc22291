"""The kernels against their slow twins, an eigen oracle, brute force and finite differences."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
from boundrec.solvers import kernels
from boundrec.solvers.angles import cartesian_to_spherical

EDGES = (0.0, np.pi / 2, np.pi)  # angles at which a sine or a cosine vanishes


def dense_problem(rng, n=7, m=6, k=4):
    """A dense masked matrix, and the same as a Csr for the rows and for the columns."""
    V = rng.standard_normal((n, m))
    Z = (rng.random((n, m)) < 0.6).astype(float)
    Z[0, 0] = 1.0
    return V, Z, csr_of(V, Z), csr_of(V.T, Z.T), rng.standard_normal((n, k)), rng.standard_normal((m, k))


def csr_of(V, Z, weights=None):
    rows, columns = np.nonzero(Z)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(V)))]).astype(np.int64)
    return (
        indptr,
        columns.astype(np.int32),
        V[rows, columns],
        np.empty(0) if weights is None else weights[rows, columns],
    )


def angles(rng, shape, edges):
    phi = rng.uniform(0, np.pi, shape)
    phi[:, -1] *= 2
    if edges:
        phi = np.where(rng.random(shape) < 0.4, rng.choice(EDGES, shape), phi)
    return phi


@pytest.mark.parametrize("weighted", [False, True])
def test_squared_errors_and_row_gradients_equal_the_dense_formulas(weighted):
    rng = np.random.default_rng(0)
    V, Z, _, _, W, H = dense_problem(rng)
    weights = rng.random(V.shape) if weighted else None
    csr = csr_of(V, Z, weights)
    C = Z * weights if weighted else Z
    gradient, errors, only_errors = np.empty_like(W), np.empty(len(W)), np.empty(len(W))
    kernels.row_gradients(csr, W, H, gradient, errors, 0, len(W))
    kernels.squared_errors(csr, W, H, only_errors, 0, len(W))
    E = V - W @ H.T
    assert np.allclose(gradient, -(C * E) @ H, atol=1e-12)
    assert np.allclose(errors, (C * E**2).sum(axis=1), atol=1e-12)
    assert np.allclose(only_errors, errors, atol=1e-12)


@given(st.integers(0, 10_000), st.integers(2, 9), st.booleans())
def test_spherical_coordinates_are_the_papers_and_turn_back(seed, k, edges):
    rng = np.random.default_rng(seed)
    phi, radius = angles(rng, (5, k - 1), edges), rng.uniform(0.1, 5, 5)
    rows, _ = to_cartesian(phi, radius)
    assert np.allclose(rows, [naive.spherical_to_cartesian(p, r) for p, r in zip(phi, radius, strict=True)], atol=1e-12)
    assert np.allclose(np.linalg.norm(rows, axis=1), radius, rtol=1e-12)
    again, _ = to_cartesian(cartesian_to_spherical(rows), radius)
    assert np.allclose(again, rows, atol=1e-12 * radius.max())


@given(st.integers(0, 10_000), st.integers(2, 8), st.booleans())
def test_the_angle_gradient_is_the_papers_tensor_formula(seed, k, edges):
    rng = np.random.default_rng(seed)
    V, Z, by_row, by_column, _, _ = dense_problem(rng)
    phi, theta = angles(rng, (7, k - 1), edges), angles(rng, (6, k - 1), edges)
    r, s = rng.uniform(0.2, 3, 7), rng.uniform(0.2, 3, 6)
    expected_phi, expected_theta = naive.angle_gradients(V, Z, phi, theta, r, s)
    found_phi, found_theta = kernel_gradients(by_row, by_column, phi, theta, r, s)
    scale = max(1.0, np.abs(expected_phi).max(), np.abs(expected_theta).max())
    assert np.allclose(found_phi, expected_phi, atol=1e-12 * scale)
    assert np.allclose(found_theta, expected_theta, atol=1e-12 * scale)


def to_cartesian(phi, radius):
    """The kernel's rows, and the cosines and sines it keeps."""
    rows, turns = np.empty((len(phi), phi.shape[1] + 1)), np.empty((*phi.shape, 2))
    kernels.spherical_to_cartesian(phi, radius, turns, rows, 0, len(phi))
    return rows, turns


def kernel_gradients(by_row, by_column, phi, theta, r, s):
    (W, turns_w), (H, turns_h) = to_cartesian(phi, r), to_cartesian(theta, s)
    grad_w, grad_h, slope_w, slope_h = np.empty_like(W), np.empty_like(H), np.empty_like(phi), np.empty_like(theta)
    kernels.row_gradients(by_row, W, H, grad_w, np.empty(len(W)), 0, len(W))
    kernels.row_gradients(by_column, H, W, grad_h, np.empty(len(H)), 0, len(H))
    kernels.angle_gradient(turns_w, r, grad_w, slope_w, 0, len(W))
    kernels.angle_gradient(turns_h, s, grad_h, slope_h, 0, len(H))
    return slope_w, slope_h


@given(st.integers(0, 10_000), st.booleans())
def test_the_angle_gradient_agrees_with_finite_differences(seed, edges):
    rng = np.random.default_rng(seed)
    V, Z, by_row, by_column, _, _ = dense_problem(rng)
    k = 5
    phi, theta = angles(rng, (7, k - 1), edges), angles(rng, (6, k - 1), edges)
    r, s = rng.uniform(0.2, 2, 7), rng.uniform(0.2, 2, 6)
    slope, _ = kernel_gradients(by_row, by_column, phi, theta, r, s)
    H = np.array([naive.spherical_to_cartesian(p, x) for p, x in zip(theta, s, strict=True)]).T
    a, b = rng.integers(7), rng.integers(k - 1)

    def objective(shift):
        moved = phi.copy()
        moved[a, b] += shift
        W = np.array([naive.spherical_to_cartesian(p, x) for p, x in zip(moved, r, strict=True)])
        return naive.objective(V, Z, W, H)

    numeric = (objective(1e-5) - objective(-1e-5)) / 2e-5
    assert 2 * slope[a, b] == pytest.approx(numeric, rel=1e-6, abs=1e-6)


@given(st.integers(0, 10_000), st.integers(2, 8))
def test_tangent_coordinates_of_the_scan_have_the_norm_of_the_tangent_gradient(seed, k):
    """Σ_b d_b² = ‖g − ⟨g,w⟩w/r²‖² with d_b = slope_b / (r P_b)."""
    rng = np.random.default_rng(seed)
    phi, g = rng.uniform(0.3, 2.8, (1, k - 1)), rng.standard_normal((1, k))
    slope = np.empty((1, k - 1))
    w, turns = to_cartesian(phi, np.array([2.0]))
    kernels.angle_gradient(turns, np.array([2.0]), g, slope, 0, 1)
    prefix = 2.0 * np.cumprod(np.concatenate([[1.0], np.sin(phi[0, :-1])]))
    tangent = g - (g @ w.T) * w / 4.0
    assert np.sum((slope / prefix) ** 2) == pytest.approx(np.sum(tangent**2), rel=1e-9)


# --- exact rows ---------------------------------------------------------------------------------------------


@st.composite
def row_problems(draw):
    """One row's observations: fewer than, as many as, more than factors; duplicates; zero columns; near-hard."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    k = draw(st.integers(2, 12))
    n = draw(st.sampled_from([1, max(1, k - 1), k, 3 * k]))
    H, v = rng.standard_normal((n, k)), rng.standard_normal(n)
    match draw(st.sampled_from(["plain", "zero column", "same rows", "same columns", "positive", "no signal"])):
        case "zero column":
            H[:, 0] = 0.0
        case "same rows":
            H[-1] = H[0]  # two ratings of the same thing that need not agree
        case "same columns":
            H[:, 1] = H[:, 0]
        case "positive":
            H, v = np.abs(H), np.abs(v)
        case "no signal":
            v[:] = 0.0
    free = np.linalg.norm(np.linalg.lstsq(H, v, rcond=None)[0])
    near = st.sampled_from([0.99, 1.0, 1.0 + 1e-9, 1.01])
    radius = (free or 1.0) * draw(st.one_of(near, st.floats(-3, 2).map(lambda x: 10.0**x)))
    present = rng.standard_normal(k)
    return H, v, radius, present * radius / np.linalg.norm(present)


def solve(H, v, radius, present, constraint, ridge=0.0, weights=None):
    n = len(v)
    csr = (np.array([0, n]), np.arange(n, dtype=np.int32), v, np.empty(0) if weights is None else weights)
    rows = present[None].copy()
    if constraint == "ball":
        kernels.solve_rows_ball(csr, H, np.array([radius]), ridge, rows, 0, 1)
    else:
        kernels.solve_rows_sphere(csr, H, np.array([radius]), rows, 0, 1)
    return rows[0]


def assert_no_worse(w, other, H, v):
    """To 1e-8 of Σv², beyond the rounding of numbers as large as |H|·|w|."""
    errors = [np.sum((v - H @ x) ** 2) for x in (w, other)]
    rounding = 1e-13 * np.sum(H**2) * (w @ w)
    assert errors[0] <= errors[1] + 1e-8 * (v @ v) + rounding


@pytest.mark.parametrize("constraint", ["ball", "sphere"])
@given(problem=row_problems())
def test_a_row_is_the_global_minimum_that_an_eigendecomposition_finds(constraint, problem):
    H, v, radius, present = problem
    w = solve(H, v, radius, present, constraint)
    norm = np.linalg.norm(w)
    assert norm <= radius * (1 + 1e-12)
    if constraint == "sphere":
        assert norm == pytest.approx(radius, rel=1e-12)
    assert_no_worse(w, naive.solve_row_by_eigen(H.T @ H, H.T @ v, radius, constraint, present), H, v)


@pytest.mark.parametrize("constraint", ["ball", "sphere"])
@pytest.mark.parametrize("n", [2, 4, 12])
def test_no_search_from_many_starts_finds_a_better_row(constraint, n):
    rng = np.random.default_rng(n)
    for scale in (0.3, 1.0, 3.0):
        H, v = rng.standard_normal((n, 4)), rng.standard_normal(n)
        radius = scale * np.linalg.norm(np.linalg.lstsq(H, v, rcond=None)[0])
        w = solve(H, v, radius, rng.standard_normal(4), constraint)
        best = naive.solve_row_by_search(H.T @ H, H.T @ v, radius, constraint, rng)
        assert naive.quadratic(H.T @ H, H.T @ v, w) <= best + 1e-8 * (v @ v)


@given(row_problems())
def test_what_the_data_say_nothing_about_stays_as_it_was_on_the_sphere(problem):
    """In the hard case the free part keeps the direction of the present row: the map is continuous."""
    H, v, radius, present = problem
    k = H.shape[1]
    free = np.linalg.lstsq(H, v, rcond=None)[0]
    if len(v) >= k or np.linalg.norm(free) > 0.9 * radius:
        return
    w = solve(H, v, radius, present, "sphere")
    null = np.eye(k) - np.linalg.pinv(H) @ H
    w_null, present_null = null @ w, null @ present
    cosine = w_null @ present_null / np.linalg.norm(w_null) / np.linalg.norm(present_null)
    assert cosine == pytest.approx(1.0, abs=1e-6)


@given(row_problems(), st.floats(1e-3, 10))
def test_a_ridge_is_the_same_as_more_observations_of_zero(problem, ridge):
    H, v, radius, present = problem
    n, k = H.shape
    stacked = np.vstack([H, np.sqrt(ridge * n) * np.eye(k)])
    w = solve(H, v, radius, present, "ball", ridge=ridge)
    other = solve(stacked, np.concatenate([v, np.zeros(k)]), radius, present, "ball")
    assert np.allclose(w, other, atol=1e-7 * max(radius, 1e-3))


@pytest.mark.parametrize("constraint", ["ball", "sphere"])
@given(problem=row_problems())
def test_a_weight_of_two_is_the_same_as_two_observations(constraint, problem):
    H, v, radius, present = problem
    weights = np.ones(len(v))
    weights[0] = 2.0
    once = solve(H, v, radius, present, constraint, weights=weights)
    twice = solve(np.vstack([H, H[:1]]), np.append(v, v[0]), radius, present, constraint)
    assert_no_worse(once, twice, np.vstack([H, H[:1]]), np.append(v, v[0]))


def test_rows_without_observations_are_zero_in_the_ball_and_stay_on_the_sphere():
    csr = (np.zeros(2, np.int64), np.empty(0, np.int32), np.empty(0), np.empty(0))
    H, rows = np.ones((1, 3)), np.array([[1.0, 2.0, 2.0]])
    kernels.solve_rows_sphere(csr, H, np.array([3.0]), rows, 0, 1)
    assert rows.tolist() == [[1.0, 2.0, 2.0]]
    kernels.solve_rows_ball(csr, H, np.array([3.0]), 0.0, rows, 0, 1)
    assert rows.tolist() == [[0.0, 0.0, 0.0]]


def test_float32_input_is_summed_in_float64():
    rng = np.random.default_rng(0)
    H, v = rng.standard_normal((40, 5)).astype(np.float32), rng.standard_normal(40).astype(np.float32)
    single = solve(H, v, 0.3, np.zeros(5, np.float32), "ball")
    double = solve(H.astype(float), v.astype(float), 0.3, np.zeros(5), "ball")
    assert np.allclose(single, double, rtol=1e-6)


def test_products_of_float32_entries_add_up_in_float64():
    x = np.array([1.0, 2.0**-15], np.float32)
    assert kernels.dot(x, x) == 1 + 2.0**-30  # float32 has no number between 1 and 1 + 2⁻²³
