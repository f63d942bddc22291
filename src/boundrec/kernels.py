"""Every compiled function of boundrec: plain arrays in, results in place, no options and no checks.

Inside a kernel there are *rows* (being solved) and the *fixed* side, never users and items, so that one
kernel serves both sides. A kernel works on the rows ``start`` to ``stop`` and no loop crosses a row: whatever
thread runs which rows, the bits are the same. Ratings come as a ``Csr`` (``indptr, indices, data, weights``,
see :mod:`boundrec.ratings`); an empty ``weights`` means that every observation counts once.

Sums are in float64 whatever the arrays hold, and so are normal matrices and all that is solved with them. Only a
product of two float32 entries, of which predictions are sums, is itself rounded to float32: as exact as they are.
"""

from collections.abc import Callable
from functools import partial
from math import erf, erfc
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic

from boundrec.compiling import compiled

#: Sums may be reordered and contracted by the compiler (once, when it compiles), but NaN and inf still count.
_MATHS = {"contract", "reassoc", "nsz", "arcp"}
#: A diagonal shift below this share of the trace is numerically zero.
_TINY = 1e-10
#: Newton's method takes up to 29 steps in the hardest cases seen.
_MAX_NEWTON = 50
#: Exponentials beyond this exponent continue as straight lines.
_MAX_EXPONENT = 50.0


_compiled = partial(compiled, maths=_MATHS)


# --- predictions, errors, gradients -------------------------------------------------------------------------


@_compiled
def _dot(x, y):
    total = 0.0
    for k in range(x.shape[0]):
        total += x[k] * y[k]
    return total


@_compiled
def squared_errors(csr, rows, fixed, out, start, stop):
    """out_i = Σ_j c_ij (v_ij − w_i·h_j)² over the observations of row i."""
    indptr, indices, data, weights = csr
    for i in range(start, stop):
        w = rows[i]
        total = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            error = data[p] - _dot(w, fixed[indices[p]])
            total += error * error * (weights[p] if weights.size else 1.0)
        out[i] = total


@_compiled
def row_gradients(csr, rows, fixed, gradient, out, start, stop):
    """gradient_i = −Σ_j c_ij e_ij h_j, half of ∂F/∂w_i (slip A4), and out_i = Σ_j c_ij e_ij², in one pass.

    Four observations at a time, as in `_normal_equations`: the loops over factors are too short to fill the
    processor with one.
    """
    indptr, indices, data, weights = csr
    n_factors = fixed.shape[1]
    g = np.empty(n_factors)
    for i in range(start, stop):
        w = rows[i]
        g[:] = 0.0
        total = 0.0
        p, end = indptr[i], indptr[i + 1]
        while p + 4 <= end:
            h0, h1, h2, h3 = (
                fixed[indices[p]],
                fixed[indices[p + 1]],
                fixed[indices[p + 2]],
                fixed[indices[p + 3]],
            )
            p0, p1, p2, p3 = 0.0, 0.0, 0.0, 0.0
            for k in range(n_factors):
                p0 += w[k] * h0[k]
                p1 += w[k] * h1[k]
                p2 += w[k] * h2[k]
                p3 += w[k] * h3[k]
            e0, e1, e2, e3 = data[p] - p0, data[p + 1] - p1, data[p + 2] - p2, data[p + 3] - p3
            s0, s1, s2, s3 = e0, e1, e2, e3
            if weights.size:
                s0, s1, s2, s3 = e0 * weights[p], e1 * weights[p + 1], e2 * weights[p + 2], e3 * weights[p + 3]
            total += e0 * s0 + e1 * s1 + e2 * s2 + e3 * s3
            for k in range(n_factors):
                g[k] -= s0 * h0[k] + s1 * h1[k] + s2 * h2[k] + s3 * h3[k]
            p += 4
        while p < end:
            h = fixed[indices[p]]
            error = data[p] - _dot(w, h)
            scaled = error * weights[p] if weights.size else error
            total += error * scaled
            for k in range(n_factors):
                g[k] -= scaled * h[k]
            p += 1
        gradient[i] = g
        out[i] = total


# --- spherical coordinates ----------------------------------------------------------------------------------


@_compiled
def spherical_to_cartesian(phi, radius, turns, out, start, stop):
    """w_k = r · sin φ_1 ⋯ sin φ_{k−1} · cos φ_k, without the last cosine for k = K.

    ``turns`` keeps every cos φ and sin φ for the gradient at the same angles, which would cost as much again.
    """
    n_angles = phi.shape[1]
    for i in range(start, stop):
        prefix = radius[i]
        for k in range(n_angles):
            cos, sin = np.cos(phi[i, k]), np.sin(phi[i, k])
            turns[i, k, 0], turns[i, k, 1] = cos, sin
            out[i, k] = prefix * cos
            prefix *= sin
        out[i, n_angles] = prefix


@_compiled
def angle_gradient(turns, radius, gradient, out, start, stop):
    """∂F/∂φ from ∂F/∂w by one backward scan: O(K) a row where the paper's tensor takes O(K²).

    With P_b = sin φ_1 ⋯ sin φ_{b−1} and q = g_K, for b = K−1, …, 1:
    ∂F/∂φ_b = r P_b (q cos φ_b − g_b sin φ_b), then q ← g_b cos φ_b + q sin φ_b. Nothing is divided, so rows
    with sin φ = 0 need no care. ``turns`` holds every cos φ and sin φ.
    """
    n_angles = turns.shape[1]
    prefix = np.empty(n_angles)
    for i in range(start, stop):
        product = radius[i]
        for b in range(n_angles):
            prefix[b] = product
            product *= turns[i, b, 1]
        q = gradient[i, n_angles]
        for b in range(n_angles - 1, -1, -1):
            g, cos, sin = gradient[i, b], turns[i, b, 0], turns[i, b, 1]
            out[i, b] = prefix[b] * (cos * q - sin * g)
            q = cos * g + sin * q


# --- one row's quadratic: q(w) = wᵀAw − 2bᵀw ------------------------------------------------------------------


@_compiled
def _normal_equations(csr, row, fixed, A, b):
    """A = Σ_j c_j h_j h_jᵀ (lower triangle) and b = Σ_j c_j v_j h_j over one row's observations.

    Four observations at a time: A is then read and written once for every four of them.
    """
    indptr, indices, data, weights = csr
    n_factors = fixed.shape[1]
    A[:] = 0.0
    b[:] = 0.0
    p, stop = indptr[row], indptr[row + 1]
    while p + 4 <= stop:
        h0, h1, h2, h3 = (
            fixed[indices[p]],
            fixed[indices[p + 1]],
            fixed[indices[p + 2]],
            fixed[indices[p + 3]],
        )
        c0, c1, c2, c3 = 1.0, 1.0, 1.0, 1.0
        if weights.size:
            c0, c1, c2, c3 = weights[p], weights[p + 1], weights[p + 2], weights[p + 3]
        v0, v1, v2, v3 = data[p], data[p + 1], data[p + 2], data[p + 3]
        for k in range(n_factors):
            a0, a1, a2, a3 = c0 * h0[k], c1 * h1[k], c2 * h2[k], c3 * h3[k]
            b[k] += v0 * a0 + v1 * a1 + v2 * a2 + v3 * a3
            A_k = A[k]
            for m in range(k + 1):
                A_k[m] += a0 * h0[m] + a1 * h1[m] + a2 * h2[m] + a3 * h3[m]
        p += 4
    while p < stop:
        h = fixed[indices[p]]
        c = weights[p] if weights.size else 1.0
        for k in range(n_factors):
            a = c * h[k]
            b[k] += data[p] * a
            for m in range(k + 1):
                A[k, m] += a * h[m]
        p += 1


@_compiled
def _times(A, x, out):
    """out = A x for a symmetric A given by its lower triangle."""
    for k in range(x.shape[0]):
        out[k] = A[k, k] * x[k]
    for k in range(1, x.shape[0]):
        total = 0.0
        for m in range(k):
            total += A[k, m] * x[m]
            out[m] += A[k, m] * x[k]
        out[k] += total


@_compiled
def _quadratic(A, b, x, work):
    """q(x) = xᵀAx − 2bᵀx."""
    _times(A, x, work)
    return _dot(x, work) - 2.0 * _dot(b, x)


@_compiled
def _cholesky(A, mu, L):
    """L Lᵀ = A + mu·I; False where that is not positive definite."""
    for k in range(A.shape[0]):
        L_k = L[k]
        pivot = A[k, k] + mu
        for m in range(k):
            L_m = L[m]
            total = A[k, m]
            for p in range(m):  # written out: slices for `_dot` cost as much as these short sums
                total -= L_k[p] * L_m[p]
            L_k[m] = total / L_m[m]
            pivot -= L_k[m] * L_k[m]
        if not pivot > 0.0:
            return False
        L_k[k] = np.sqrt(pivot)
    return True


@_compiled
def _solve_lower(L, x):
    """x ← L⁻¹ x."""
    for k in range(x.shape[0]):
        L_k = L[k]
        total = x[k]
        for m in range(k):
            total -= L_k[m] * x[m]
        x[k] = total / L_k[k]


@_compiled
def _solve_upper(L, x):
    """x ← L⁻ᵀ x."""
    for k in range(x.shape[0] - 1, -1, -1):
        x[k] /= L[k, k]
        for m in range(k):
            x[m] -= L[k, m] * x[k]


@_compiled
def _least_squares(A, b, L, floor, x, work):
    """x ← A⁺b, where L Lᵀ = A + floor·I and the floor is numerically zero.

    A well determined x takes one correction to lose the shift. Otherwise x ← x + A(A + floor·I)⁻²(b − A x): A
    comes last, so that what rounding puts into its null space is taken out again.
    """
    n = b.shape[0]
    smallest = np.inf
    for k in range(n):
        smallest = min(smallest, L[k, k] * L[k, k])
    determined = smallest > 1e5 * floor
    x[:] = 0.0
    for _ in range(2 if determined else 3):
        residual, product = work[0], work[1]
        _times(A, x, product)
        for k in range(n):
            residual[k] = b[k] - product[k]
        _solve_lower(L, residual)
        _solve_upper(L, residual)
        if not determined:
            _solve_lower(L, residual)
            _solve_upper(L, residual)
            _times(A, residual, product)
            residual[:] = product
        for k in range(n):
            x[k] += residual[k]


@_compiled
def _newton_step(L, w, norm, radius, work):
    """The step in mu of Newton's method on 1/‖w(mu)‖ = 1/r; w(mu) = (A + mu·I)⁻¹ b. Lands left of the root."""
    work[:] = w
    _solve_lower(L, work)
    return norm * norm / _dot(work, work) * (norm - radius) / radius


@_compiled
def _ball_row(A, b, radius, floor, w, scratch):
    """w ← argmin q over ‖w‖ ≤ radius: convex, so (A + mu·I) w = b with mu = 0 or ‖w‖ = radius.

    ``floor`` is the smallest shift that keeps A + mu·I safely definite; 0 where a ridge does so already.
    """
    n_factors = b.shape[0]
    L, x, work = scratch[:n_factors], scratch[-3], scratch[-2:]
    norm_b = np.sqrt(_dot(b, b))
    if norm_b == 0.0:
        w[:] = 0.0
        return
    _times(A, b, x)
    low = norm_b / radius - _dot(b, x) / (norm_b * norm_b)  # left of the root, by Jensen's inequality
    mu = max(floor, low)
    for _ in range(_MAX_NEWTON):
        if not _cholesky(A, mu, L):
            mu = max(2.0 * mu, _TINY * norm_b)
            continue
        w[:] = b
        _solve_lower(L, w)
        _solve_upper(L, w)
        norm = np.sqrt(_dot(w, w))
        if mu <= floor:
            x[:] = w
            if floor > 0.0:
                _least_squares(A, b, L, floor, x, work)
            free = np.sqrt(_dot(x, x))
            if free <= radius or norm <= radius:
                w[:] = x
                if free > radius:
                    w *= radius / free
                return
        if norm - radius <= 1e-9 * radius:
            break
        mu += _newton_step(L, w, norm, radius, x)
    w *= radius / np.sqrt(_dot(w, w))


@_compiled
def _to_sphere(x, z, mu, curvature, radius, tie):
    """t with ‖x + t z‖ = radius and the lower q, for (A + mu·I) x = b, ‖z‖ = 1 and zᵀAz = curvature.

    q(x + t z) = q(x) − 2 t mu xᵀz + t² curvature. On a tie the positive root, which leads towards the present row.
    """
    along = _dot(x, z)
    half = np.sqrt(max(0.0, along * along + radius * radius - _dot(x, x)))
    first, second = -along + half, -along - half
    q_first = first * (first * curvature - 2.0 * mu * along)
    q_second = second * (second * curvature - 2.0 * mu * along)
    return second if q_second < q_first - tie else first


@_compiled
def _bottom_direction(L, present, z):
    """z ← a unit vector near the bottom eigenvectors of L Lᵀ, by inverse iteration from the present row.

    Returns zᵀ L Lᵀ z. In an exactly singular problem z is the present row's own part in the null space, so
    what the data say nothing about stays as it is.
    """
    z[:] = present
    if _dot(z, z) == 0.0:
        z[0] = 1.0
    for _ in range(2):
        _solve_lower(L, z)
        _solve_upper(L, z)
        z /= np.sqrt(_dot(z, z))
    total = 0.0
    for k in range(z.shape[0]):
        entry = 0.0
        for m in range(k, z.shape[0]):
            entry += L[m, k] * z[m]
        total += entry * entry
    return total


@_compiled
def _sphere_row(A, b, radius, present, w, scratch):
    """w ← argmin q over ‖w‖ = radius, globally: (A + mu·I) w = b, ‖w‖ = radius, A + mu·I ⪰ 0.

    Where b has (almost) no part along the bottom eigenvectors of A (the hard case; fewer observations than
    factors make it the usual one) a bottom direction z completes w = x + t z; its gap is at most t² zᵀ(A+mu·I)z.
    """
    n_factors = b.shape[0]
    L, x, z, work = scratch[:n_factors], scratch[-4], scratch[-3], scratch[-2:]
    trace, smallest = 0.0, np.inf
    for k in range(n_factors):
        trace += A[k, k]
        smallest = min(smallest, A[k, k])
    norm_b = np.sqrt(_dot(b, b))
    floor = _TINY * trace
    lower, upper = -smallest, norm_b / radius + 2.0 * floor
    if norm_b > 0.0:
        _times(A, b, x)
        lower = max(lower, norm_b / radius - _dot(b, x) / (norm_b * norm_b))
    scale = trace * radius * radius + norm_b * radius
    mu = max(floor, lower)
    w[:] = present
    for _ in range(_MAX_NEWTON):
        if not _cholesky(A, mu, L):
            lower = max(lower, mu)
            mu = lower + 0.3 * (upper - lower)
            continue
        w[:] = b
        _solve_lower(L, w)
        _solve_upper(L, w)
        norm = np.sqrt(_dot(w, w))
        x[:] = w
        if mu == floor:
            _least_squares(A, b, L, floor, x, work)
        reach = np.sqrt(_dot(x, x))
        if abs(reach - radius) <= 1e-9 * radius:
            w[:] = x
            break
        if reach > radius:
            lower = max(lower, mu)
            step = _newton_step(L, w, norm, radius, work[0]) if norm > radius else 0.0
            if mu + step > mu and mu + step < upper:
                mu += step
                continue
            if norm <= radius:  # the root lies between 0 and the floor
                w[:] = x
                break
        else:
            upper = min(upper, mu)
        rho = _bottom_direction(L, present, z)
        t = _to_sphere(x, z, mu if mu != floor else 0.0, rho - mu, radius, 1e-13 * scale)
        singular = mu == floor and rho - mu <= 0.01 * floor
        lower = max(lower, mu - rho)
        if singular or reach > radius or t * t * rho <= 1e-13 * scale or upper - lower <= 1e-15 * trace:
            for k in range(w.shape[0]):
                w[k] = x[k] + t * z[k]
            break
        step = _newton_step(L, w, norm, radius, work[0]) if norm > 0.0 else -np.inf
        mu = mu + step if lower < mu + step < upper else lower + 0.001 * (upper - lower)
    norm = np.sqrt(_dot(w, w))
    if norm > 0.0:
        w *= radius / norm


# --- rows with fewer observations than factors: the same problem in as many unknowns as observations ---------


@_compiled
def _gather(csr, row, fixed, F, t):
    """F_j = √c_j h_j and t_j = √c_j v_j, so that q(w) = ‖t − F w‖² − ‖t‖²; returns how many there are."""
    indptr, indices, data, weights = csr
    first = indptr[row]
    n = indptr[row + 1] - first
    for j in range(n):
        root = np.sqrt(weights[first + j]) if weights.size else 1.0
        h = fixed[indices[first + j]]
        for k in range(h.shape[0]):
            F[j, k] = root * h[k]
        t[j] = root * data[first + j]
    return n


@_compiled
def _gram(F, G):
    """G = F Fᵀ (lower triangle); returns its trace."""
    trace = 0.0
    for j in range(F.shape[0]):
        for m in range(j + 1):
            G[j, m] = _dot(F[j], F[m])
        trace += G[j, j]
    return trace


@_compiled
def _combine(F, alpha, w):
    """w ← Fᵀ alpha."""
    w[:] = 0.0
    for j in range(F.shape[0]):
        for k in range(w.shape[0]):
            w[k] += alpha[j] * F[j, k]


@_compiled
def _errors_of(F, t, w, ridge):
    """‖t − F w‖² + ridge·‖w‖²."""
    total = ridge * _dot(w, w)
    for j in range(F.shape[0]):
        error = t[j] - _dot(F[j], w)
        total += error * error
    return total


@_compiled
def _apply(F, w, out):
    """out ← F w."""
    for j in range(F.shape[0]):
        out[j] = _dot(F[j], w)


@_compiled
def _least_squares_by_gram(F, b, L, w, alpha, residual):
    """w ← A⁺b for A = FᵀF, where L Lᵀ = F Fᵀ + a numerically zero shift: w ← w + Fᵀ(L Lᵀ)⁻²F(b − A w), twice.

    Fᵀ comes last, so w lies in the span of F exactly, also where rows of F repeat each other.
    """
    w[:] = 0.0
    residual[:] = b
    for again in range(2):
        if again:
            _apply(F, w, alpha)
            for j in range(F.shape[0]):
                for k in range(w.shape[0]):
                    residual[k] -= alpha[j] * F[j, k]
        _apply(F, residual, alpha)
        for _ in range(2):
            _solve_lower(L, alpha)
            _solve_upper(L, alpha)
        for j in range(F.shape[0]):
            for k in range(w.shape[0]):
                w[k] += alpha[j] * F[j, k]


@_compiled
def _ball_by_gram(F, t, radius, ridge, w, scratch):
    """w ← argmin ‖t − F w‖² + ridge·‖w‖² over ‖w‖ ≤ radius, as w = Fᵀ(F Fᵀ + s·I)⁻¹ t with s ≥ ridge.

    The row stays in the span of its observations' factors, exactly, where the K × K form would leave noise.
    Returns the trace of F Fᵀ, which stays in ``scratch``.
    """
    n = F.shape[0]
    G, L, alpha, seen = scratch[:n, :n], scratch[n : 2 * n, :n], scratch[2 * n, :n], scratch[2 * n + 1, :n]
    b, residual = scratch[-1], scratch[-2]
    trace = _gram(F, G)
    _combine(F, t, b)
    norm_b = np.sqrt(_dot(b, b))
    w[:] = 0.0
    if norm_b == 0.0:
        return trace
    _apply(F, b, seen)
    floor = max(ridge, _TINY * trace)
    lower, upper = floor, np.inf
    shift = max(floor, norm_b / radius - _dot(seen, seen) / (norm_b * norm_b))
    norm = radius
    for _ in range(_MAX_NEWTON):
        _cholesky(G, shift, L)
        if shift == floor and floor > ridge:
            _least_squares_by_gram(F, b, L, w, alpha, residual)
        else:
            alpha[:] = t
            _solve_lower(L, alpha)
            _solve_upper(L, alpha)
            _combine(F, alpha, w)
        norm = np.sqrt(_dot(w, w))
        if abs(norm - radius) <= 1e-9 * radius or (norm < radius and shift == floor):
            break
        if norm > radius:  # wᵀ(A + s·I)⁻¹w = (‖w‖² − (Fw)ᵀ(F Fᵀ + s·I)⁻¹Fw) / s
            lower = shift
            _apply(F, w, seen)
            _solve_lower(L, seen)
            slope = (norm * norm - _dot(seen, seen)) / shift
            shift += norm * norm / slope * (norm - radius) / radius if slope > 0.0 else shift
        else:
            upper = shift
        if not lower < shift < upper:
            shift = 0.5 * (lower + upper) if upper < np.inf else 2.0 * shift
    if norm > radius or shift > floor:
        w *= radius / norm
    return trace


@_compiled
def _fill_sphere(F, trace, radius, present, w, scratch):
    """w ← w + t z with ‖w + t z‖ = radius and F z = 0: z is the present row's own part that the data do not see.

    ``scratch`` still holds F Fᵀ. Where the present row has no such part, a coordinate axis takes its place.
    """
    missing = radius * radius - _dot(w, w)
    if missing <= 0.0:
        return
    n, n_factors = F.shape
    G, L, alpha, z = scratch[:n, :n], scratch[n : 2 * n, :n], scratch[2 * n, :n], scratch[2 * n + 1]
    _cholesky(G, _TINY * trace, L)
    norm = 0.0
    for attempt in range(n_factors + 1):
        if attempt == 0:
            z[:] = present
        else:
            z[:] = 0.0
            z[attempt - 1] = 1.0
        before = np.sqrt(_dot(z, z))
        for _ in range(3):  # the first leaves a trace of directions that F hardly sees, the others take it out
            _apply(F, z, alpha)
            _solve_lower(L, alpha)
            _solve_upper(L, alpha)
            for j in range(n):
                for k in range(n_factors):
                    z[k] -= alpha[j] * F[j, k]
        norm = np.sqrt(_dot(z, z))
        if norm > 1e-6 * before:
            break
    along = _dot(w, z) / norm
    step = (np.sqrt(along * along + missing) - along) / norm
    for k in range(n_factors):
        w[k] += step * z[k]
    w *= radius / np.sqrt(_dot(w, w))


# --- half-steps ---------------------------------------------------------------------------------------------


@_compiled
def _row_weight(csr, row):
    """Σ_j c_ij: the number of observations where none is weighted."""
    indptr, _indices, _data, weights = csr
    if weights.size == 0:
        return float(indptr[row + 1] - indptr[row])
    total = 0.0
    for p in range(indptr[row], indptr[row + 1]):
        total += weights[p]
    return total


@_compiled
def solve_rows_ball(csr, fixed, radius, ridge, rows, start, stop):
    """w_i ← argmin Σ_j c_ij (v_ij − w·h_j)² + ridge·n_i‖w‖² over ‖w‖ ≤ r_i, for each row; n_i = Σ_j c_ij."""
    indptr = csr[0]
    n_factors = fixed.shape[1]
    A, scratch = np.empty((n_factors, n_factors)), np.empty((2 * n_factors + 4, n_factors))
    b, w, present = np.empty(n_factors), np.empty(n_factors), np.empty(n_factors)
    for i in range(start, stop):
        weight = ridge * _row_weight(csr, i)
        present[:] = rows[i]
        feasible = _dot(present, present) <= radius[i] * radius[i] * (1.0 + 1e-6)
        if indptr[i + 1] - indptr[i] < n_factors:
            n = _gather(csr, i, fixed, A, b)
            F, t = A[:n], b[:n]
            _ball_by_gram(F, t, radius[i], weight, w, scratch)
            if not feasible or _errors_of(F, t, w, weight) <= _errors_of(F, t, present, weight):
                rows[i] = w
            continue
        _normal_equations(csr, i, fixed, A, b)
        trace = 0.0
        for k in range(n_factors):
            trace += A[k, k]
            A[k, k] += weight
        _ball_row(A, b, radius[i], max(0.0, _TINY * trace - weight), w, scratch)
        if not feasible or _quadratic(A, b, w, scratch[-1]) <= _quadratic(A, b, present, scratch[-1]):
            rows[i] = w


@_compiled
def solve_rows_sphere(csr, fixed, radius, rows, start, stop):
    """w_i ← argmin Σ_j c_ij (v_ij − w·h_j)² over ‖w‖ = r_i, for each row; rows that say nothing stay."""
    indptr = csr[0]
    n_factors = fixed.shape[1]
    A, scratch = np.empty((n_factors, n_factors)), np.empty((2 * n_factors + 4, n_factors))
    b, w, present = np.empty(n_factors), np.empty(n_factors), np.empty(n_factors)
    for i in range(start, stop):
        present[:] = rows[i]
        if indptr[i + 1] - indptr[i] < n_factors:
            n = _gather(csr, i, fixed, A, b)
            F, t = A[:n], b[:n]
            trace = _ball_by_gram(F, t, radius[i], 0.0, w, scratch)
            if trace == 0.0:
                continue
            _fill_sphere(F, trace, radius[i], present, w, scratch)
            if _errors_of(F, t, w, 0.0) <= _errors_of(F, t, present, 0.0):
                rows[i] = w
            continue
        _normal_equations(csr, i, fixed, A, b)
        trace = 0.0
        for k in range(n_factors):
            trace += A[k, k]
        if trace == 0.0:
            continue
        _sphere_row(A, b, radius[i], present, w, scratch)
        if _quadratic(A, b, w, scratch[-1]) <= _quadratic(A, b, present, scratch[-1]):
            rows[i] = w


# --- stochastic gradient descent: MF and Bounded-SVD ----------------------------------------------------------


@_compiled
def _sgd_step(w, h, pull, n_biases, step, ridge):
    """Add step·(pull·h − ridge·w) to w and step·(pull·w − ridge·h) to h, old values on the right.

    With n_biases = 2, w = (b, 1, u) and h = (1, c, q): the two ones stay.
    """
    if n_biases:
        w[0] += step * (pull - ridge * w[0])
        h[1] += step * (pull - ridge * h[1])
    for k in range(n_biases, w.shape[0]):
        w_k, h_k = w[k], h[k]
        w[k] = w_k + step * (pull * h_k - ridge * w_k)
        h[k] = h_k + step * (pull * w_k - ridge * h_k)


@_compiled
def sgd_epoch(entries, rows, fixed, n_biases, step, ridge):
    """One step along e_ij = v_ij − w_i·h_j for every observation, one after the other.

    ``entries`` are the rows, columns, values and weights of the observations, already shuffled. Each step starts
    where the one before ended, so this is one serial loop whatever the number of threads.
    """
    row_of, column_of, data, weights = entries
    for p in range(data.size):
        w, h = rows[row_of[p]], fixed[column_of[p]]
        pull = data[p] - _dot(w, h)
        _sgd_step(w, h, pull, n_biases, step * weights[p] if weights.size else step, ridge)


# --- the exponential walls of Bounded-SVD: penalty·(e^{sharpness·(p − high)} + e^{sharpness·(low − p)}) ------------


@_compiled
def _tangent_exp(x):
    """Value and slope of e^x, continued by its tangent beyond ``_MAX_EXPONENT``: smooth, convex, no overflow."""
    value = np.exp(min(x, _MAX_EXPONENT))
    return value * (1.0 + max(0.0, x - _MAX_EXPONENT)), value


@_compiled
def _walls(p, walls):
    """The penalty of a prediction p, and half of its derivative by p."""
    penalty, sharpness, low, high = walls
    above, above_slope = _tangent_exp(sharpness * (p - high))
    below, below_slope = _tangent_exp(sharpness * (low - p))
    return penalty * (above + below), 0.5 * penalty * sharpness * (above_slope - below_slope)


@_compiled
def walled_errors(csr, rows, fixed, walls, out, start, stop):
    """out_i = Σ_j c_ij [(v_ij − w_i·h_j)² + walls(w_i·h_j)] over the observations of row i."""
    indptr, indices, data, weights = csr
    for i in range(start, stop):
        w = rows[i]
        total = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            prediction = _dot(w, fixed[indices[p]])
            error = data[p] - prediction
            penalty, _slope = _walls(prediction, walls)
            total += (error * error + penalty) * (weights[p] if weights.size else 1.0)
        out[i] = total


@_compiled
def walled_gradients(csr, rows, fixed, walls, gradient, out, start, stop):
    """gradient_i = Σ_j c_ij (½ walls′(w_i·h_j) − e_ij) h_j, half of ∂F/∂w_i; out_i as in `walled_errors`."""
    indptr, indices, data, weights = csr
    n_factors = fixed.shape[1]
    g = np.empty(n_factors)
    for i in range(start, stop):
        w = rows[i]
        g[:] = 0.0
        total = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            h = fixed[indices[p]]
            prediction = _dot(w, h)
            error = data[p] - prediction
            penalty, slope = _walls(prediction, walls)
            c = weights[p] if weights.size else 1.0
            total += c * (error * error + penalty)
            scaled = c * (slope - error)
            for k in range(n_factors):
                g[k] += scaled * h[k]
        gradient[i] = g
        out[i] = total


@_compiled
def walled_sgd_epoch(entries, rows, fixed, n_biases, step, ridge, walls):
    """`sgd_epoch` with the walls' push: one step along e_ij − ½ walls′(w_i·h_j) for every observation."""
    row_of, column_of, data, weights = entries
    for p in range(data.size):
        w, h = rows[row_of[p]], fixed[column_of[p]]
        prediction = _dot(w, h)
        _penalty, slope = _walls(prediction, walls)
        pull = data[p] - prediction - slope
        _sgd_step(w, h, pull, n_biases, step * weights[p] if weights.size else step, ridge)


# --- non-negative factors ------------------------------------------------------------------------------------


@_compiled
def multiply_rows(csr, fixed, ridge, rows, start, stop):
    """w_ik ← w_ik · Σ_j c_ij v_ij h_jk / (Σ_j c_ij (w_i·h_j) h_jk + ridge_i w_ik): Lee and Seung, masked.

    A denominator of zero means that the data say nothing about w_ik, which then stays as it is. A small positive
    floor in its place, as is common, would make the answer depend on the unit of the ratings.
    """
    indptr, indices, data, weights = csr
    n_factors = fixed.shape[1]
    wanted, present = np.empty(n_factors), np.empty(n_factors)
    for i in range(start, stop):
        w = rows[i]
        wanted[:] = 0.0
        present[:] = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            h = fixed[indices[p]]
            c = weights[p] if weights.size else 1.0
            value, prediction = c * data[p], c * _dot(w, h)
            for k in range(n_factors):
                wanted[k] += value * h[k]
                present[k] += prediction * h[k]
        for k in range(n_factors):
            denominator = present[k] + ridge[i] * w[k]
            if denominator > 0.0:
                w[k] *= wanted[k] / denominator


# --- one feature at a time -------------------------------------------------------------------------------------


# Reordered sums would be vectorised by gathers, which take twice as long as one load after the other.
_compiled_in_order = partial(compiled, maths=_MATHS - {"reassoc"})


@_compiled_in_order
def _products(indices, data, weights, fixed):
    """Σ_j c_j R_j y_j and Σ_j c_j y_j² over one row, in four sums each so that additions need not wait."""
    r0, r1, r2, r3, y0, y1, y2, y3 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for quarter in range(indices.size // 4):
        p = 4 * quarter
        a0, a1, a2, a3 = fixed[indices[p]], fixed[indices[p + 1]], fixed[indices[p + 2]], fixed[indices[p + 3]]
        b0, b1, b2, b3 = a0, a1, a2, a3
        if weights.size:
            b0, b1, b2, b3 = weights[p] * a0, weights[p + 1] * a1, weights[p + 2] * a2, weights[p + 3] * a3
        r0, r1, r2, r3 = r0 + b0 * data[p], r1 + b1 * data[p + 1], r2 + b2 * data[p + 2], r3 + b3 * data[p + 3]
        y0, y1, y2, y3 = y0 + b0 * a0, y1 + b1 * a1, y2 + b2 * a2, y3 + b3 * a3
    for p in range(indices.size // 4 * 4, indices.size):
        a = fixed[indices[p]]
        b = weights[p] * a if weights.size else a
        r0 += b * data[p]
        y0 += b * a
    return (r0 + r1) + (r2 + r3), (y0 + y1) + (y2 + y3)


@_compiled_in_order
def _solve_scalar(row, fixed, ridge, values, decrease, i):
    """x_i ← Σ_j c_ij R_ij y_j / h_i with h_i = ridge_i + Σ_j c_ij y_j²; decrease_i = h_i (old x_i − new x_i)².

    That is the minimum of Σ_j c_ij (R_ij − x_i y_j)² + ridge_i x_i², and how far it lies below the value before.
    Where h_i = 0 any x_i is one, and 0 is taken.
    """
    indices, data, weights = row
    numerator, curvature = _products(indices, data, weights, fixed)
    curvature += ridge[i]
    new = numerator / curvature if curvature > 0.0 else 0.0
    decrease[i] = curvature * (values[i] - new) ** 2
    values[i] = new


@_compiled_in_order
def solve_scalars(residuals, fixed, ridge, values, decrease, start, stop):
    """One feature's x_i for each row, given its y, where the residuals leave this feature out."""
    indptr, indices, data, weights = residuals
    for i in range(start, stop):
        begin, end = indptr[i], indptr[i + 1]
        row = indices[begin:end], data[begin:end], weights[begin:end]
        _solve_scalar(row, fixed, ridge, values, decrease, i)


@_compiled_in_order
def exchange_and_solve(residuals, done, before, fixed, ridge, values, decrease, start, stop):
    """R_ij ← R_ij − x'_i y'_j + x_i y_j: leave out this feature instead of the one that is done; then `solve_scalars`.

    ``done`` is (x', y'). The product to put back is that of ``values`` and of y as it was ``before`` this feature's
    update began. One pass instead of three: what takes time is to fetch the residuals.
    """
    indptr, indices, data, weights = residuals
    done_values, done_fixed = done
    for i in range(start, stop):
        begin, end = indptr[i], indptr[i + 1]
        row = indices[begin:end], data[begin:end], weights[begin:end]
        own, left, _ = row
        x, x_done = np.float64(values[i]), np.float64(done_values[i])
        for p in range(own.size):
            left[p] += x * before[own[p]] - x_done * done_fixed[own[p]]
        _solve_scalar(row, fixed, ridge, values, decrease, i)


@_compiled_in_order
def take_away(residuals, values, fixed, start, stop):
    """R_ij ← R_ij − x_i y_j."""
    indptr, indices, data, _weights = residuals
    for i in range(start, stop):
        x = np.float64(values[i])
        for p in range(indptr[i], indptr[i + 1]):
            data[p] -= x * fixed[indices[p]]


@_compiled
def row_squares(csr, out, start, stop):
    """out_i = Σ_j c_ij R_ij²."""
    indptr, _indices, data, weights = csr
    for i in range(start, stop):
        total = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            total += data[p] * data[p] * (weights[p] if weights.size else 1.0)
        out[i] = total


# --- one range for all: ratio tests over whole rows of the product ------------------------------------------------
#
# The range is centre ± half. A row of the product is kept as t_j = w·h_j − centre, with the fixed side by feature
# (K × M), so that every loop over j reads contiguous memory.


def _reduction(name: str) -> Callable[..., Any]:
    """Min or max of two numbers that are not NaN, said so that LLVM turns loops over it into vector code."""

    @intrinsic
    def pick(typing_context: Any, x: Any, y: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            double = ir.DoubleType()
            function = builder.module.declare_intrinsic(name, [double], ir.FunctionType(double, [double] * 2))
            return builder.call(function, arguments, fastmath=("nnan", "nsz"))

        return types.float64(types.float64, types.float64), generate

    return pick


_least = _reduction("llvm.minnum")
_most = _reduction("llvm.maxnum")


@_compiled
def _offsets(w, by_feature, centre, t):
    """t_j = w·h_j − centre for every j, four features at a time: t is then read and written once for four."""
    t[:] = -centre
    k = 0
    while k + 4 <= w.shape[0]:
        w0, w1, w2, w3 = w[k], w[k + 1], w[k + 2], w[k + 3]
        h0, h1, h2, h3 = by_feature[k], by_feature[k + 1], by_feature[k + 2], by_feature[k + 3]
        for j in range(t.shape[0]):
            t[j] += w0 * h0[j] + w1 * h1[j] + w2 * h2[j] + w3 * h3[j]
        k += 4
    while k < w.shape[0]:
        w_k, h = w[k], by_feature[k]
        for j in range(t.shape[0]):
            t[j] += w_k * h[j]
        k += 1


@_compiled
def farthest(rows, by_feature, centre, out, start, stop):
    """out_i = max_j |w_i·h_j − centre|."""
    t = np.empty(by_feature.shape[1])
    for i in range(start, stop):
        _offsets(rows[i], by_feature, centre, t)
        far = 0.0
        for j in range(t.shape[0]):
            far = _most(far, abs(t[j]))
        out[i] = far


@_compiled
def _room(t, inverse, width):
    """How far entry k may fall and rise while |t_j + step·h_jk| ≤ half for every j: the ratio test of BMF.

    Both ends of one j are (−t_j ± half·sign h_jk)/h_jk; ``inverse`` is 1/h_jk and ``width`` half/|h_jk|, with 0 and
    infinity where h_jk = 0.
    """
    low, high = -np.inf, np.inf
    for j in range(t.shape[0]):
        middle, reach = t[j] * inverse[j], width[j]
        high = _least(high, reach - middle)
        low = _most(low, -reach - middle)
    return min(low, 0.0), max(high, 0.0)  # past an end by rounding is at the end


@_compiled
def _bounded_row(A, b, w, by_feature, inverse, width, t):
    """One pass of coordinate descent on wᵀAw − 2bᵀw: each entry to its minimum, or as near as the range allows."""
    for k in range(w.shape[0]):
        if A[k, k] == 0.0:  # no observation depends on this entry
            continue
        slope = b[k]
        for m in range(w.shape[0]):
            slope -= (A[k, m] if m <= k else A[m, k]) * w[m]
        low, high = _room(t, inverse[k], width[k])
        step = min(max(slope / A[k, k], low), high)
        if step != 0.0:
            w[k] += step
            h = by_feature[k]
            for j in range(t.shape[0]):
                t[j] += step * h[j]


@_compiled
def solve_rows_bounded(csr, fixed, ratio, centre, rows, out, start, stop):
    """One pass over each row's entries, all of the row's products kept in range; out_i = Σ_j c_ij e_ij² after it.

    ``ratio`` holds the fixed side by feature, its inverse and the half range over its absolute value.
    """
    indptr, indices, data, weights = csr
    by_feature, inverse, width = ratio
    n_factors, n_columns = by_feature.shape
    A, b, t = np.empty((n_factors, n_factors)), np.empty(n_factors), np.empty(n_columns)
    for i in range(start, stop):
        _normal_equations(csr, i, fixed, A, b)
        _offsets(rows[i], by_feature, centre, t)
        _bounded_row(A, b, rows[i], by_feature, inverse, width, t)
        total = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            error = data[p] - centre - t[indices[p]]
            total += error * error * (weights[p] if weights.size else 1.0)
        out[i] = total


@_compiled
def solve_rows_bounded_on_observed(csr, fixed, ratio, centre, rows, out, start, stop):
    """The same with only the row's observed products kept in range."""
    indptr, indices, data, weights = csr
    n_factors = fixed.shape[1]
    A, b = np.empty((n_factors, n_factors)), np.empty(n_factors)
    for i in range(start, stop):
        first, n = indptr[i], indptr[i + 1] - indptr[i]
        own, t = np.empty((3, n_factors, n)), np.empty(n)
        for k in range(n_factors):
            for p in range(n):
                j = indices[first + p]
                own[0, k, p], own[1, k, p], own[2, k, p] = ratio[0][k, j], ratio[1][k, j], ratio[2][k, j]
        _normal_equations(csr, i, fixed, A, b)
        _offsets(rows[i], own[0], centre, t)
        _bounded_row(A, b, rows[i], own[0], own[1], own[2], t)
        total = 0.0
        for p in range(n):
            error = data[first + p] - centre - t[p]
            total += error * error * (weights[first + p] if weights.size else 1.0)
        out[i] = total


# --- BMC-ADMM: a low-rank matrix Z, matched to the observations and to the range -----------------------------------


@_compiled
def match_observations(csr, rows, fixed, rho, state, sums, start, stop):
    """X = (c v + ρz − y)/(c + ρ) and y ← y + ρ(x − z) at every observation of Z; ``state`` holds y and x − z.

    sums_i = Σ c (v − z)², Σ (x − z)² and Σ (change of x − z)² over row i.
    """
    indptr, indices, data, weights = csr
    multiplier, gap = state
    for i in range(start, stop):
        w = rows[i]
        loss, square, change = 0.0, 0.0, 0.0
        for p in range(indptr[i], indptr[i + 1]):
            c = weights[p] if weights.size else 1.0
            error = data[p] - _dot(w, fixed[indices[p]])
            new = (c * error - multiplier[p]) / (c + rho)
            loss += c * error * error
            square += new * new
            change += (new - gap[p]) * (new - gap[p])
            multiplier[p] += rho * new
            gap[p] = new
        sums[i, 0], sums[i, 1], sums[i, 2] = loss, square, change


@_compiled
def times_observed(csr, state, inverse_rho, fixed, out, start, stop):
    """out_i = Σ_j (x − z + y/ρ)_ij q_j over the observations of row i, four of them at a time."""
    indptr, indices, _data, _weights = csr
    multiplier, gap = state
    for i in range(start, stop):
        total = out[i]
        total[:] = 0.0
        p, end = indptr[i], indptr[i + 1]
        while p + 4 <= end:
            g0, g1 = gap[p] + inverse_rho * multiplier[p], gap[p + 1] + inverse_rho * multiplier[p + 1]
            g2, g3 = gap[p + 2] + inverse_rho * multiplier[p + 2], gap[p + 3] + inverse_rho * multiplier[p + 3]
            q0, q1, q2, q3 = fixed[indices[p]], fixed[indices[p + 1]], fixed[indices[p + 2]], fixed[indices[p + 3]]
            for k in range(total.shape[0]):
                total[k] += g0 * q0[k] + g1 * q1[k] + g2 * q2[k] + g3 * q3[k]
            p += 4
        while p < end:
            g = gap[p] + inverse_rho * multiplier[p]
            q = fixed[indices[p]]
            for k in range(total.shape[0]):
                total[k] += g * q[k]
            p += 1


@_compiled
def _offsets_plus(w, by_feature, centre, sparse, row, t):
    """t_j = w·h_j + b_j − centre, where b is a row of a sparse matrix."""
    indptr, indices, data, _moved = sparse
    _offsets(w, by_feature, centre, t)
    for p in range(indptr[row], indptr[row + 1]):
        t[indices[p]] += data[p]


@_compiled
def count_outside(rows, by_feature, span, sparse, counts, start, stop):
    """counts_i = number of entries of row i at which Z + B is outside centre ± half, or B is not 0.

    ``span`` is (centre, half); ``sparse`` is (indptr, indices, b, moved), as `collect_outside` leaves it.
    """
    centre, half = span
    indptr, indices, data, _moved = sparse
    t = np.empty(by_feature.shape[1])
    for i in range(start, stop):
        _offsets_plus(rows[i], by_feature, centre, sparse, i, t)
        count = 0
        for j in range(t.shape[0]):
            count += abs(t[j]) > half
        for p in range(indptr[i], indptr[i + 1]):
            count += data[p] != 0.0 and not abs(t[indices[p]]) > half
        counts[i] = count


@_compiled
def collect_outside(rows, by_feature, span, sparse, found, sums, start, stop):
    """B ← Z + B − T with T = clip(Z + B), and T − Z, at the entries that `count_outside` counted.

    sums_i = Σ (T − Z)² and Σ (change of T − Z)² over row i.
    """
    centre, half = span
    indptr, indices, data, moved = sparse
    new_indptr, new_indices, new_data, new_moved = found
    n_columns = by_feature.shape[1]
    t, b, moved_before = np.empty(n_columns), np.zeros(n_columns), np.zeros(n_columns)
    for i in range(start, stop):
        square, change = 0.0, 0.0
        p, found_any = new_indptr[i], new_indptr[i] < new_indptr[i + 1]
        if found_any:
            _offsets_plus(rows[i], by_feature, centre, sparse, i, t)
            for q in range(indptr[i], indptr[i + 1]):
                b[indices[q]], moved_before[indices[q]] = data[q], moved[q]
            for j in range(n_columns):
                if abs(t[j]) > half or b[j] != 0.0:
                    new = 0.0
                    if abs(t[j]) > half:
                        new = t[j] - half if t[j] > 0.0 else t[j] + half
                    step = b[j] - new
                    new_indices[p], new_data[p], new_moved[p] = j, new, step
                    square += step * step
                    change += (step - moved_before[j]) * (step - moved_before[j])
                    b[j], moved_before[j] = 0.0, 0.0
                    p += 1
        for q in range(indptr[i], indptr[i + 1]):  # what is nowhere in the new row
            if not found_any or moved_before[indices[q]] != 0.0:
                change += moved[q] * moved[q]
                moved_before[indices[q]] = 0.0
        sums[i, 0], sums[i, 1] = square, change


# --- biases inside the bound ----------------------------------------------------------------------------------


@_compiled
def without_products(csr, x, y, out, start, stop):
    """out_ij = v_ij − x_i y_j: what a coordinate that is held fixed leaves of the ratings."""
    indptr, indices, data, _weights = csr
    for i in range(start, stop):
        for p in range(indptr[i], indptr[i + 1]):
            out[p] = data[p] - x[i] * y[indices[p]]


# --- random rows ----------------------------------------------------------------------------------------------
#
# Every row has a stream of its own, keyed by (seed, sweep, side, row): what is drawn does not depend on threads.

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
#: Independent draws before the chain takes over, and steps of the chain. Fixed, so that the mixture is invariant.
_TRIES, _CHAIN_STEPS = 10, 5
#: Pairs of draws from which a row's conditional mean is taken.
_PAIRS = 8
#: Proposals for one number, of which one in three or more is accepted, before the distribution function is inverted:
#: that they all fail by chance is next to impossible, but far out in the tails rounding lets none pass.
_PROPOSALS = 100
#: Shifts of a precision's diagonal to try, from rounding error up to the diagonal itself.
_SHIFTS = 18


@_compiled
def _next_bits(state):
    """Splitmix64: advance the state and return 64 random bits."""
    state[0] += _GOLDEN
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@_compiled
def _uniform(state):
    """A number in (0, 1), ends excluded."""
    return (np.float64(_next_bits(state) >> np.uint64(11)) + 0.5) * 2.0**-53


@_compiled
def _fill_normal(state, out):
    """Independent standard normal numbers, by Box and Muller."""
    for k in range(0, out.shape[0], 2):
        size = np.sqrt(-2.0 * np.log(_uniform(state)))
        turn = 2.0 * np.pi * _uniform(state)
        out[k] = size * np.cos(turn)
        if k + 1 < out.shape[0]:
            out[k + 1] = size * np.sin(turn)


@_compiled
def _mills(x):
    """(1 − Φ(x))/φ(x) for x ≥ 0: by erfc where that has digits left, else by Laplace's continued fraction."""
    if x < 4.0:
        return np.sqrt(0.5 * np.pi) * np.exp(0.5 * x * x) * erfc(x * np.sqrt(0.5))
    denominator = x
    for k in range(30, 0, -1):
        denominator = x + k / denominator
    return 1.0 / denominator


@_compiled
def _log_tail(low, width):
    """log of (1 − Φ(low + width))/(1 − Φ(low)) for low ≥ 0: no difference of large logarithms, however far the tail.

    Short widths by two terms of the series, for the ratio of the tails is then too close to 1.
    """
    hazard = 1.0 / _mills(low)
    if width * hazard < 1e-5:
        return -width * hazard * (1.0 + 0.5 * (hazard - low) * width)
    return -width * (low + 0.5 * width) + np.log(_mills(low + width) * hazard)


@_compiled
def _tail_by_inverse(share, low, high):
    """The number with this share of the normal's mass within [low, high] below it, 0 ≤ low < high.

    Newton's method on the logarithm of the tail, which is concave: from the right it comes down to the root.
    """
    width = high - low
    wanted = np.log1p(share * np.expm1(_log_tail(low, width)))
    step = min(-wanted * _mills(low), width)
    for _ in range(_MAX_NEWTON):
        change = (_log_tail(low, step) - wanted) * _mills(low + step)
        step = min(max(step + change, 0.0), width)
        if not abs(change) > 1e-15 * step:
            break
    return min(low + step, high)


@_compiled
def _tail_normal(state, low, high):
    """A standard normal number within [low, high], 0 ≤ low: exponential or uniform proposals (Robert 1995)."""
    rate = 0.5 * (low + np.sqrt(low * low + 4.0))
    for _ in range(_PROPOSALS):
        if rate * (high - low) > 1.0:
            x = low - np.log(_uniform(state)) / rate
            accept = np.exp(-0.5 * (x - rate) * (x - rate))
        else:
            x = low + (high - low) * _uniform(state)
            accept = np.exp(0.5 * (low * low - x * x))
        if x <= high and _uniform(state) <= accept:
            return x
    return _tail_by_inverse(_uniform(state), low, high)


@_compiled
def _normal_by_inverse(state, low, high):
    """A standard normal number within [low, high], which holds zero: one half by its mass, then a place in it."""
    below, above = erf(-low * np.sqrt(0.5)), erf(high * np.sqrt(0.5))
    if _uniform(state) * (below + above) < below:
        return -_tail_by_inverse(_uniform(state), 0.0, -low)
    return _tail_by_inverse(_uniform(state), 0.0, high)


@_compiled
def truncated_normal(state, low, high):
    """A standard normal number within [low, high], exactly; the lower end where nothing lies between the two."""
    if not low < high:
        return low
    if low >= 0.0:
        return _tail_normal(state, low, high)
    if high <= 0.0:
        return -_tail_normal(state, -high, -low)
    for _ in range(_PROPOSALS):  # the interval holds zero
        if high - low > 2.5:
            size = np.sqrt(-2.0 * np.log(_uniform(state)))
            x = size * np.cos(2.0 * np.pi * _uniform(state))
            if low <= x <= high:
                return x
        else:
            x = low + (high - low) * _uniform(state)
            if _uniform(state) <= np.exp(-0.5 * x * x):
                return x
    return _normal_by_inverse(state, low, high)


@_compiled
def _walk_in_ball(L, mean, radius, x, state, direction):
    """Hit-and-run steps from x, which leave N(mean, (L Lᵀ)⁻¹) restricted to ‖x‖ ≤ radius as it is.

    Along x + s·d the density is normal with precision |Lᵀd|² and the ball is a chord; directions are drawn in turn
    from the normal's own shape and from the round one.
    """
    n = x.shape[0]
    for step in range(_CHAIN_STEPS):
        _fill_normal(state, direction)
        if step % 2 == 0:
            _solve_upper(L, direction)
        direction /= np.sqrt(_dot(direction, direction))
        precision, pull = 0.0, 0.0
        for k in range(n):
            along, apart = 0.0, 0.0
            for m in range(k, n):
                along += L[m, k] * direction[m]
                apart += L[m, k] * (mean[m] - x[m])
            precision += along * along
            pull += along * apart
        half = _dot(x, direction)
        reach = np.sqrt(max(0.0, half * half + radius * radius - _dot(x, x)))
        root, centre = np.sqrt(precision), pull / precision
        low, high = (-half - reach - centre) * root, (-half + reach - centre) * root
        if high > low:
            s = centre + truncated_normal(state, low, high) / root
            for k in range(n):
                x[k] += s * direction[k]


@_compiled
def _draw_in_ball(L, mean, radius, x, state, z):
    """x ~ N(mean, (L Lᵀ)⁻¹) restricted to ‖x‖ ≤ radius; x comes in feasible.

    Independent draws until one is inside, else the chain above from where x is. Neither the numbers of tries and
    steps nor the normal depends on x, so the mixture leaves the truncated normal invariant.
    """
    n = x.shape[0]
    for _ in range(_TRIES):
        _fill_normal(state, z)
        _solve_upper(L, z)
        total = 0.0
        for k in range(n):
            z[k] += mean[k]
            total += z[k] * z[k]
        if total <= radius * radius:
            x[:] = z
            return
    _walk_in_ball(L, mean, radius, x, state, z)
    norm = np.sqrt(_dot(x, x))
    if norm > radius:  # by rounding
        x *= radius / norm


@_compiled
def _mean_in_ball(L, mean, radius, state, z, x, spread):
    """The mean x of N(mean, (L Lᵀ)⁻¹) restricted to ‖x‖ ≤ radius; its variance in coordinate 0, and in the others.

    From pairs of draws at mean ± z, of which those inside count: where the ball cuts nothing off, the mean is exact;
    where it parts pairs, it is close (a ratio of two sums), and inside in any case.
    Where none is inside, x stays what it was: one draw.
    """
    n = x.shape[0]
    total = np.zeros(n)
    first, all_squares, inside = 0.0, 0.0, 0
    for _ in range(_PAIRS):
        _fill_normal(state, z)
        _solve_upper(L, z)
        for sign in (-1.0, 1.0):
            size = 0.0
            for k in range(n):
                size += (mean[k] + sign * z[k]) ** 2
            if size <= radius * radius:
                inside += 1
                first += (mean[0] + sign * z[0]) ** 2
                all_squares += size
                for k in range(n):
                    total[k] += mean[k] + sign * z[k]
    spread[:] = 0.0
    if inside == 0:
        return
    x[:] = total / inside
    spread[0] = max(0.0, first / inside - x[0] * x[0])
    spread[1] = max(0.0, all_squares / inside - _dot(x, x) - spread[0]) / (n - 1)


@_compiled
def _factorise_safely(A, L):
    """L Lᵀ = A, with the least of a few shifts of its diagonal that keep rounding from making it indefinite.

    False where none does, for A is not finite.
    """
    trace = 0.0
    for k in range(A.shape[0]):
        trace += A[k, k]
    shift = 0.0
    for _ in range(_SHIFTS):
        if _cholesky(A, shift, L):
            return trace < np.inf
        shift = max(10.0 * shift, 1e-16 * trace)
    return False


@_compiled
def sample_rows(csr, fixed, radius, prior, noise, key, out, start, stop):
    """Draw each row from its conditional: x = w/r ~ N(m, P⁻¹) within ‖x‖ ≤ radius[1], v ~ N(w·h, 1/noise).

    ``prior`` is (P, P m); ``radius`` is (r, the largest ‖x‖). Precision noise·r²A + P, linear part noise·r·b + P m.
    ``out`` is (rows, means, spreads): the draws, in place, and, unless these are empty, what they are draws of.
    A row whose precision is beyond all numbers stays as it is.
    """
    magnitude, most = radius
    P, Pm = prior
    rows, means, spreads = out
    n_factors = fixed.shape[1]
    A, L = np.empty((n_factors, n_factors)), np.empty((n_factors, n_factors))
    b, mean, x, z = np.empty(n_factors), np.empty(n_factors), np.empty(n_factors), np.empty(n_factors)
    state = np.empty(1, np.uint64)
    for i in range(start, stop):
        _normal_equations(csr, i, fixed, A, b)
        r = magnitude[i]
        for k in range(n_factors):
            mean[k] = noise * r * b[k] + Pm[k]
            for m in range(k + 1):
                A[k, m] = noise * r * r * A[k, m] + P[k, m]
            x[k] = rows[i, k] / r
        if not _factorise_safely(A, L):
            if means.shape[0] > 0:
                means[i] = rows[i]
                spreads[i] = 0.0
            continue
        _solve_lower(L, mean)
        _solve_upper(L, mean)
        state[0] = key + np.uint64(i) * np.uint64(0xD1342543DE82EF95)
        _next_bits(state)
        _draw_in_ball(L, mean, most, x, state, z)
        for k in range(n_factors):
            rows[i, k] = r * x[k]
        if means.shape[0] > 0:
            _mean_in_ball(L, mean, most, state, z, x, spreads[i])
            for k in range(n_factors):
                means[i, k] = r * x[k]
            spreads[i] *= r * r
