"""Compiled functions: plain arrays in, results in place, no options and no checks.

Inside a kernel there are *rows* (being solved) and the *fixed* side, never users and items, so that one
kernel serves both sides. A kernel works on the rows ``start`` to ``stop`` and no loop crosses a row: whatever
thread runs which rows, the bits are the same. Ratings come as a ``Csr`` (``indptr, indices, data, weights``,
see :mod:`boundrec.data.ratings`); an empty ``weights`` means that every observation counts once.

Sums are in float64 whatever the arrays hold, and so are normal matrices and all that is solved with them. Only a
product of two float32 entries, of which predictions are sums, is itself rounded to float32: as exact as they are.

Draws are in :mod:`boundrec.solvers.sampling_kernels`, what only rivals need in :mod:`boundrec.rivals.kernels`.
"""

import numpy as np

from boundrec.solvers.block_kernels import (
    cholesky_by_blocks,
    gather,
    new_equations,
    new_tile,
    normal_equations_by_blocks,
)
from boundrec.solvers.compiling import compiled, part

#: A diagonal shift below this share of the trace is numerically zero.
_TINY = 1e-10
#: Newton's method takes up to 29 steps in the hardest cases seen.
MAX_NEWTON = 50


# --- predictions, errors, gradients -------------------------------------------------------------------------


@part
def dot(x, y):
    """x·y."""
    total = 0.0
    for k in range(x.shape[0]):
        total += x[k] * y[k]
    return total


@part
def copy(x, out):
    """out ← x; Numba takes seconds to compile ``out[:] = x``, whose lengths it compares and whose error it words."""
    for k in range(x.shape[0]):
        out[k] = x[k]


@compiled
def squared_errors(csr, rows, fixed, out, start, stop):
    """out_i = Σ_j c_ij (v_ij − w_i·h_j)² over the observations of row i."""
    indptr, indices, data, weights = csr
    for i in range(start, stop):
        w = rows[i]
        total = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            error = data[p] - dot(w, fixed[indices[p]])
            total += error * error * (weights[p] if weights.size else 1.0)
        out[i] = total


@compiled
def errors_by_rating(csr, rows, fixed, counts, of_columns, squares, out, start, stop):
    """squares_ij = (v_ij − w_i·h_j)² of each observation, and out_i = Σ_j c_ij b_j (v_ij − w_i·h_j)²."""
    indptr, indices, data, _weights = csr
    for i in range(start, stop):
        w = rows[i]
        total = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            error = data[p] - dot(w, fixed[indices[p]])
            squares[p] = error * error
            total += counts[p] * of_columns[indices[p]] * squares[p]
        out[i] = total


@compiled
def sparse_products(matrix, dense, out, start, stop):
    """out_i = Σ_j m_ij d_j, a sparse row times a dense matrix, four entries at a time as in `row_gradients`."""
    indptr, indices, values = matrix
    for i in range(start, stop):
        total = out[i]
        total[:] = 0.0
        p, end = indptr[i], indptr[i + 1]
        while p + 4 <= end:
            d0, d1, d2, d3 = dense[indices[p]], dense[indices[p + 1]], dense[indices[p + 2]], dense[indices[p + 3]]
            m0, m1, m2, m3 = values[p], values[p + 1], values[p + 2], values[p + 3]
            for k in range(total.shape[0]):
                total[k] += (m0 * d0[k] + m1 * d1[k]) + (m2 * d2[k] + m3 * d3[k])
            p += 4
        for last in range(p, end):
            value, row = values[last], dense[indices[last]]
            for k in range(total.shape[0]):
                total[k] += value * row[k]


@compiled
def row_gradients(csr, rows, fixed, gradient, out, start, stop):
    """gradient_i = −Σ_j c_ij e_ij h_j, half of ∂F/∂w_i (slip A4), and out_i = Σ_j c_ij e_ij², in one pass.

    Four observations at a time, as in `normal_equations`: the loops over factors are too short to fill the
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
            error = data[p] - dot(w, h)
            scaled = error * weights[p] if weights.size else error
            total += error * scaled
            for k in range(n_factors):
                g[k] -= scaled * h[k]
            p += 1
        gradient[i] = g
        out[i] = total


# --- spherical coordinates ----------------------------------------------------------------------------------


@compiled
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


@compiled
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


@part
def normal_equations(csr, row, fixed, A, b):
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


@part
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


@part
def _quadratic(A, b, x, work):
    """q(x) = xᵀAx − 2bᵀx."""
    _times(A, x, work)
    return dot(x, work) - 2.0 * dot(b, x)


@part
def cholesky(A, mu, L):
    """L Lᵀ = A + mu·I; False where that is not positive definite."""
    for k in range(A.shape[0]):
        L_k = L[k]
        pivot = A[k, k] + mu
        for m in range(k):
            L_m = L[m]
            total = A[k, m]
            for p in range(m):  # written out: slices for `dot` cost as much as these short sums
                total -= L_k[p] * L_m[p]
            L_k[m] = total / L_m[m]
            pivot -= L_k[m] * L_k[m]
        if not pivot > 0.0:
            return False
        L_k[k] = np.sqrt(pivot)
    return True


@part
def solve_lower(L, x):
    """x ← L⁻¹ x."""
    for k in range(x.shape[0]):
        L_k = L[k]
        total = x[k]
        for m in range(k):
            total -= L_k[m] * x[m]
        x[k] = total / L_k[k]


@part
def solve_upper(L, x):
    """x ← L⁻ᵀ x."""
    for k in range(x.shape[0] - 1, -1, -1):
        x[k] /= L[k, k]
        for m in range(k):
            x[m] -= L[k, m] * x[k]


@part
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
        solve_lower(L, residual)
        solve_upper(L, residual)
        if not determined:
            solve_lower(L, residual)
            solve_upper(L, residual)
            _times(A, residual, product)
            copy(product, residual)
        for k in range(n):
            x[k] += residual[k]


@part
def _newton_step(L, w, norm, radius, work):
    """The step in mu of Newton's method on 1/‖w(mu)‖ = 1/r; w(mu) = (A + mu·I)⁻¹ b. Lands left of the root."""
    copy(w, work)
    solve_lower(L, work)
    return norm * norm / dot(work, work) * (norm - radius) / radius


@part
def _ball_row(A, b, radius, floor, w, scratch):
    """w ← argmin q over ‖w‖ ≤ radius: convex, so (A + mu·I) w = b with mu = 0 or ‖w‖ = radius.

    ``floor`` is the smallest shift that keeps A + mu·I safely definite; 0 where a ridge does so already.
    """
    n_factors = b.shape[0]
    L, x, work = scratch[:n_factors], scratch[-3], scratch[-2:]
    norm_b = np.sqrt(dot(b, b))
    if norm_b == 0.0:
        w[:] = 0.0
        return
    _times(A, b, x)
    low = norm_b / radius - dot(b, x) / (norm_b * norm_b)  # left of the root, by Jensen's inequality
    mu = max(floor, low)
    for _ in range(MAX_NEWTON):
        if not cholesky(A, mu, L):
            mu = max(2.0 * mu, _TINY * norm_b)
            continue
        copy(b, w)
        solve_lower(L, w)
        solve_upper(L, w)
        norm = np.sqrt(dot(w, w))
        if mu <= floor:
            copy(w, x)
            if floor > 0.0:
                _least_squares(A, b, L, floor, x, work)
            free = np.sqrt(dot(x, x))
            if free <= radius or norm <= radius:
                copy(x, w)
                if free > radius:
                    w *= radius / free
                return
        if norm - radius <= 1e-9 * radius:
            break
        mu += _newton_step(L, w, norm, radius, x)
    w *= radius / np.sqrt(dot(w, w))


@part
def _to_sphere(x, z, mu, curvature, radius, tie):
    """t with ‖x + t z‖ = radius and the lower q, for (A + mu·I) x = b, ‖z‖ = 1 and zᵀAz = curvature.

    q(x + t z) = q(x) − 2 t mu xᵀz + t² curvature. On a tie the positive root, which leads towards the present row.
    """
    along = dot(x, z)
    half = np.sqrt(max(0.0, along * along + radius * radius - dot(x, x)))
    first, second = -along + half, -along - half
    q_first = first * (first * curvature - 2.0 * mu * along)
    q_second = second * (second * curvature - 2.0 * mu * along)
    return second if q_second < q_first - tie else first


@part
def _bottom_direction(L, present, z):
    """z ← a unit vector near the bottom eigenvectors of L Lᵀ, by inverse iteration from the present row.

    Returns zᵀ L Lᵀ z. In an exactly singular problem z is the present row's own part in the null space, so
    what the data say nothing about stays as it is.
    """
    copy(present, z)
    if dot(z, z) == 0.0:
        z[0] = 1.0
    for _ in range(2):
        solve_lower(L, z)
        solve_upper(L, z)
        z /= np.sqrt(dot(z, z))
    total = 0.0
    for k in range(z.shape[0]):
        entry = 0.0
        for m in range(k, z.shape[0]):
            entry += L[m, k] * z[m]
        total += entry * entry
    return total


@part
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
    norm_b = np.sqrt(dot(b, b))
    floor = _TINY * trace
    lower, upper = -smallest, norm_b / radius + 2.0 * floor
    if norm_b > 0.0:
        _times(A, b, x)
        lower = max(lower, norm_b / radius - dot(b, x) / (norm_b * norm_b))
    scale = trace * radius * radius + norm_b * radius
    mu = max(floor, lower)
    copy(present, w)
    for _ in range(MAX_NEWTON):
        if not cholesky(A, mu, L):
            lower = max(lower, mu)
            mu = lower + 0.3 * (upper - lower)
            continue
        copy(b, w)
        solve_lower(L, w)
        solve_upper(L, w)
        norm = np.sqrt(dot(w, w))
        copy(w, x)
        if mu == floor:
            _least_squares(A, b, L, floor, x, work)
        reach = np.sqrt(dot(x, x))
        if abs(reach - radius) <= 1e-9 * radius:
            copy(x, w)
            break
        if reach > radius:
            lower = max(lower, mu)
            step = _newton_step(L, w, norm, radius, work[0]) if norm > radius else 0.0
            if mu + step > mu and mu + step < upper:
                mu += step
                continue
            if norm <= radius:  # the root lies between 0 and the floor
                copy(x, w)
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
    norm = np.sqrt(dot(w, w))
    if norm > 0.0:
        w *= radius / norm


# --- rows with fewer observations than factors: the same problem in as many unknowns as observations ---------


@part
def _gram(F, G):
    """G = F Fᵀ (lower triangle); returns its trace."""
    trace = 0.0
    for j in range(F.shape[0]):
        for m in range(j + 1):
            G[j, m] = dot(F[j], F[m])
        trace += G[j, j]
    return trace


@part
def _combine(F, alpha, w):
    """w ← Fᵀ alpha."""
    w[:] = 0.0
    for j in range(F.shape[0]):
        for k in range(w.shape[0]):
            w[k] += alpha[j] * F[j, k]


@part
def _errors_of(F, t, w, ridge):
    """‖t − F w‖² + ridge·‖w‖²."""
    total = ridge * dot(w, w)
    for j in range(F.shape[0]):
        error = t[j] - dot(F[j], w)
        total += error * error
    return total


@part
def _apply(F, w, out):
    """out ← F w."""
    for j in range(F.shape[0]):
        out[j] = dot(F[j], w)


@part
def _least_squares_by_gram(F, b, L, w, alpha, residual):
    """w ← A⁺b for A = FᵀF, where L Lᵀ = F Fᵀ + a numerically zero shift: w ← w + Fᵀ(L Lᵀ)⁻²F(b − A w), twice.

    Fᵀ comes last, so w lies in the span of F exactly, also where rows of F repeat each other.
    """
    w[:] = 0.0
    copy(b, residual)
    for again in range(2):
        if again:
            _apply(F, w, alpha)
            for j in range(F.shape[0]):
                for k in range(w.shape[0]):
                    residual[k] -= alpha[j] * F[j, k]
        _apply(F, residual, alpha)
        for _ in range(2):
            solve_lower(L, alpha)
            solve_upper(L, alpha)
        for j in range(F.shape[0]):
            for k in range(w.shape[0]):
                w[k] += alpha[j] * F[j, k]


@part
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
    norm_b = np.sqrt(dot(b, b))
    w[:] = 0.0
    if norm_b == 0.0:
        return trace
    _apply(F, b, seen)
    floor = max(ridge, _TINY * trace)
    lower, upper = floor, np.inf
    shift = max(floor, norm_b / radius - dot(seen, seen) / (norm_b * norm_b))
    norm = radius
    for _ in range(MAX_NEWTON):
        cholesky(G, shift, L)
        if shift == floor and floor > ridge:
            _least_squares_by_gram(F, b, L, w, alpha, residual)
        else:
            copy(t, alpha)
            solve_lower(L, alpha)
            solve_upper(L, alpha)
            _combine(F, alpha, w)
        norm = np.sqrt(dot(w, w))
        if abs(norm - radius) <= 1e-9 * radius or (norm < radius and shift == floor):
            break
        if norm > radius:  # wᵀ(A + s·I)⁻¹w = (‖w‖² − (Fw)ᵀ(F Fᵀ + s·I)⁻¹Fw) / s
            lower = shift
            _apply(F, w, seen)
            solve_lower(L, seen)
            slope = (norm * norm - dot(seen, seen)) / shift
            shift += norm * norm / slope * (norm - radius) / radius if slope > 0.0 else shift
        else:
            upper = shift
        if not lower < shift < upper:
            shift = 0.5 * (lower + upper) if upper < np.inf else 2.0 * shift
    if norm > radius or shift > floor:
        w *= radius / norm
    return trace


@part
def _fill_sphere(F, trace, radius, present, w, scratch):
    """w ← w + t z with ‖w + t z‖ = radius and F z = 0: z is the present row's own part that the data do not see.

    ``scratch`` still holds F Fᵀ. Where the present row has no such part, a coordinate axis takes its place.
    """
    missing = radius * radius - dot(w, w)
    if missing <= 0.0:
        return
    n, n_factors = F.shape
    G, L, alpha, z = scratch[:n, :n], scratch[n : 2 * n, :n], scratch[2 * n, :n], scratch[2 * n + 1]
    cholesky(G, _TINY * trace, L)
    norm = 0.0
    for attempt in range(n_factors + 1):
        if attempt == 0:
            copy(present, z)
        else:
            z[:] = 0.0
            z[attempt - 1] = 1.0
        before = np.sqrt(dot(z, z))
        for _ in range(3):  # the first leaves a trace of directions that F hardly sees, the others take it out
            _apply(F, z, alpha)
            solve_lower(L, alpha)
            solve_upper(L, alpha)
            for j in range(n):
                for k in range(n_factors):
                    z[k] -= alpha[j] * F[j, k]
        norm = np.sqrt(dot(z, z))
        if norm > 1e-6 * before:
            break
    along = dot(w, z) / norm
    step = (np.sqrt(along * along + missing) - along) / norm
    for k in range(n_factors):
        w[k] += step * z[k]
    w *= radius / np.sqrt(dot(w, w))


# --- biases inside the bound ----------------------------------------------------------------------------------


@compiled
def without_products(csr, x, y, out, start, stop):
    """out_ij = v_ij − x_i y_j: what a coordinate that is held fixed leaves of the ratings."""
    indptr, indices, data, _weights = csr
    for i in range(start, stop):
        for p in range(indptr[i], indptr[i + 1]):
            out[p] = data[p] - x[i] * y[indices[p]]


# --- half-steps ---------------------------------------------------------------------------------------------


@part
def _row_weight(csr, row):
    """Σ_j c_ij: the number of observations where none is weighted."""
    indptr, _indices, _data, weights = csr
    if weights.size == 0:
        return float(indptr[row + 1] - indptr[row])
    total = 0.0
    for p in range(indptr[row], indptr[row + 1]):
        total += weights[p]
    return total


@compiled
def solve_rows_ball(csr, fixed, radius, ridge, rows, start, stop):
    """w_i ← argmin Σ_j c_ij (v_ij − w·h_j)² + ridge·n_i‖w‖² over ‖w‖ ≤ r_i, for each row; n_i = Σ_j c_ij."""
    indptr = csr[0]
    n_factors = fixed.shape[1]
    A, scratch = np.empty((n_factors, n_factors)), np.empty((2 * n_factors + 4, n_factors))
    b, w, present = np.empty(n_factors), np.empty(n_factors), np.empty(n_factors)
    for i in range(start, stop):
        weight = ridge * _row_weight(csr, i)
        copy(rows[i], present)
        feasible = dot(present, present) <= radius[i] * radius[i] * (1.0 + 1e-6)
        if indptr[i + 1] - indptr[i] < n_factors:
            n = indptr[i + 1] - indptr[i]
            gather(csr, indptr[i], indptr[i + 1], fixed, A, b)
            F, t = A[:n], b[:n]
            _ball_by_gram(F, t, radius[i], weight, w, scratch)
            if not feasible or _errors_of(F, t, w, weight) <= _errors_of(F, t, present, weight):
                copy(w, rows[i])
            continue
        normal_equations(csr, i, fixed, A, b)
        trace = 0.0
        for k in range(n_factors):
            trace += A[k, k]
            A[k, k] += weight
        _ball_row(A, b, radius[i], max(0.0, _TINY * trace - weight), w, scratch)
        if not feasible or _quadratic(A, b, w, scratch[-1]) <= _quadratic(A, b, present, scratch[-1]):
            copy(w, rows[i])


@part
def _inside_ball(A, b, radius, w, L):
    """w ← A⁻¹b; False where A is not positive definite or w lies outside the ball."""
    if not cholesky_by_blocks(A, L):
        return False
    copy(b, w)
    solve_lower(L, w)
    solve_upper(L, w)
    return dot(w, w) <= radius * radius


@compiled
def solve_rows_all_pairs(csr, fixed, gram, own, radius, rows, start, stop):
    """w_i ← argmin Σ_j c_ij (v_ij − w·h_j)² + a_i wᵀGw + λ_i‖w − m_i‖² over ‖w‖ ≤ r, for each row.

    own_i = (a_i, λ_i, λ_i m_i), or (a_i, λ_i) where all m_i are 0. G = Σ_j p_j h_j h_jᵀ has all pairs in it, so that
    those which nobody observed cost a row nothing. It also keeps nearly every row inside the ball, where one
    factorisation is all that it takes. Factors come in whole eights.
    """
    n_factors = fixed.shape[1]
    scratch, w, present = np.empty((n_factors + 4, n_factors)), np.empty(n_factors), np.empty(n_factors)
    (A, as_row), tile = new_equations(n_factors), new_tile(n_factors)
    b = as_row[0]
    for i in range(start, stop):
        share, ridge = own[i, 0], own[i, 1]
        normal_equations_by_blocks(csr, i, fixed, tile, A, as_row)
        for k in range(own.shape[1] - 2):
            b[k] += own[i, k + 2]
        trace = 0.0
        for k in range(n_factors):
            for m in range(k + 1):
                A[k, m] += share * gram[k, m]
            trace += A[k, k]
            A[k, k] += ridge
        floor = max(0.0, _TINY * trace - ridge)
        if floor > 0.0 or not _inside_ball(A, b, radius, w, scratch[:n_factors]):
            _ball_row(A, b, radius, floor, w, scratch)
        copy(rows[i], present)
        feasible = dot(present, present) <= radius * radius * (1.0 + 1e-6)
        if not feasible or _quadratic(A, b, w, scratch[-1]) <= _quadratic(A, b, present, scratch[-1]):
            copy(w, rows[i])


@compiled
def solve_rows_sphere(csr, fixed, radius, rows, start, stop):
    """w_i ← argmin Σ_j c_ij (v_ij − w·h_j)² over ‖w‖ = r_i, for each row; rows that say nothing stay."""
    indptr = csr[0]
    n_factors = fixed.shape[1]
    A, scratch = np.empty((n_factors, n_factors)), np.empty((2 * n_factors + 4, n_factors))
    b, w, present = np.empty(n_factors), np.empty(n_factors), np.empty(n_factors)
    for i in range(start, stop):
        copy(rows[i], present)
        if indptr[i + 1] - indptr[i] < n_factors:
            n = indptr[i + 1] - indptr[i]
            gather(csr, indptr[i], indptr[i + 1], fixed, A, b)
            F, t = A[:n], b[:n]
            trace = _ball_by_gram(F, t, radius[i], 0.0, w, scratch)
            if trace == 0.0:
                continue
            _fill_sphere(F, trace, radius[i], present, w, scratch)
            if _errors_of(F, t, w, 0.0) <= _errors_of(F, t, present, 0.0):
                copy(w, rows[i])
            continue
        normal_equations(csr, i, fixed, A, b)
        trace = 0.0
        for k in range(n_factors):
            trace += A[k, k]
        if trace == 0.0:
            continue
        _sphere_row(A, b, radius[i], present, w, scratch)
        if _quadratic(A, b, w, scratch[-1]) <= _quadratic(A, b, present, scratch[-1]):
            copy(w, rows[i])
