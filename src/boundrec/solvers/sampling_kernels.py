"""Compiled draws of rows: normals truncated to a ball, keyed by row, so that any thread draws the same.

As in :mod:`boundrec.solvers.kernels`, no loop crosses a row; and every loop of proposals has an end, after which the
distribution function is inverted.
"""

from math import erf, erfc

import numpy as np

from boundrec.solvers.compiling import compiled
from boundrec.solvers.kernels import MAX_NEWTON, cholesky, dot, normal_equations, solve_lower, solve_upper

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


@compiled
def _next_bits(state):
    """Splitmix64: advance the state and return 64 random bits."""
    state[0] += _GOLDEN
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@compiled
def _uniform(state):
    """A number in (0, 1), ends excluded."""
    return (np.float64(_next_bits(state) >> np.uint64(11)) + 0.5) * 2.0**-53


@compiled
def _fill_normal(state, out):
    """Independent standard normal numbers, by Box and Muller."""
    for k in range(0, out.shape[0], 2):
        size = np.sqrt(-2.0 * np.log(_uniform(state)))
        turn = 2.0 * np.pi * _uniform(state)
        out[k] = size * np.cos(turn)
        if k + 1 < out.shape[0]:
            out[k + 1] = size * np.sin(turn)


@compiled
def _mills(x):
    """(1 − Φ(x))/φ(x) for x ≥ 0: by erfc where that has digits left, else by Laplace's continued fraction."""
    if x < 4.0:
        return np.sqrt(0.5 * np.pi) * np.exp(0.5 * x * x) * erfc(x * np.sqrt(0.5))
    denominator = x
    for k in range(30, 0, -1):
        denominator = x + k / denominator
    return 1.0 / denominator


@compiled
def _log_tail(low, width):
    """log of (1 − Φ(low + width))/(1 − Φ(low)) for low ≥ 0: no difference of large logarithms, however far the tail.

    Short widths by two terms of the series, for the ratio of the tails is then too close to 1.
    """
    hazard = 1.0 / _mills(low)
    if width * hazard < 1e-5:
        return -width * hazard * (1.0 + 0.5 * (hazard - low) * width)
    return -width * (low + 0.5 * width) + np.log(_mills(low + width) * hazard)


@compiled
def _tail_by_inverse(share, low, high):
    """The number with this share of the normal's mass within [low, high] below it, 0 ≤ low < high.

    Newton's method on the logarithm of the tail, which is concave: from the right it comes down to the root.
    """
    width = high - low
    wanted = np.log1p(share * np.expm1(_log_tail(low, width)))
    step = min(-wanted * _mills(low), width)
    for _ in range(MAX_NEWTON):
        change = (_log_tail(low, step) - wanted) * _mills(low + step)
        step = min(max(step + change, 0.0), width)
        if not abs(change) > 1e-15 * step:
            break
    return min(low + step, high)


@compiled
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


@compiled
def _normal_by_inverse(state, low, high):
    """A standard normal number within [low, high], which holds zero: one half by its mass, then a place in it."""
    below, above = erf(-low * np.sqrt(0.5)), erf(high * np.sqrt(0.5))
    if _uniform(state) * (below + above) < below:
        return -_tail_by_inverse(_uniform(state), 0.0, -low)
    return _tail_by_inverse(_uniform(state), 0.0, high)


@compiled
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


@compiled
def _walk_in_ball(L, mean, radius, x, state, direction):
    """Hit-and-run steps from x, which leave N(mean, (L Lᵀ)⁻¹) restricted to ‖x‖ ≤ radius as it is.

    Along x + s·d the density is normal with precision |Lᵀd|² and the ball is a chord; directions are drawn in turn
    from the normal's own shape and from the round one.
    """
    n = x.shape[0]
    for step in range(_CHAIN_STEPS):
        _fill_normal(state, direction)
        if step % 2 == 0:
            solve_upper(L, direction)
        direction /= np.sqrt(dot(direction, direction))
        precision, pull = 0.0, 0.0
        for k in range(n):
            along, apart = 0.0, 0.0
            for m in range(k, n):
                along += L[m, k] * direction[m]
                apart += L[m, k] * (mean[m] - x[m])
            precision += along * along
            pull += along * apart
        half = dot(x, direction)
        reach = np.sqrt(max(0.0, half * half + radius * radius - dot(x, x)))
        root, centre = np.sqrt(precision), pull / precision
        low, high = (-half - reach - centre) * root, (-half + reach - centre) * root
        if high > low:
            s = centre + truncated_normal(state, low, high) / root
            for k in range(n):
                x[k] += s * direction[k]


@compiled
def _draw_in_ball(L, mean, radius, x, state, z):
    """x ~ N(mean, (L Lᵀ)⁻¹) restricted to ‖x‖ ≤ radius; x comes in feasible.

    Independent draws until one is inside, else the chain above from where x is. Neither the numbers of tries and
    steps nor the normal depends on x, so the mixture leaves the truncated normal invariant.
    """
    n = x.shape[0]
    for _ in range(_TRIES):
        _fill_normal(state, z)
        solve_upper(L, z)
        total = 0.0
        for k in range(n):
            z[k] += mean[k]
            total += z[k] * z[k]
        if total <= radius * radius:
            x[:] = z
            return
    _walk_in_ball(L, mean, radius, x, state, z)
    norm = np.sqrt(dot(x, x))
    if norm > radius:  # by rounding
        x *= radius / norm


@compiled
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
        solve_upper(L, z)
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
    spread[1] = max(0.0, all_squares / inside - dot(x, x) - spread[0]) / (n - 1)


@compiled
def _factorise_safely(A, L):
    """L Lᵀ = A, with the least of a few shifts of its diagonal that keep rounding from making it indefinite.

    False where none does, for A is not finite.
    """
    trace = 0.0
    for k in range(A.shape[0]):
        trace += A[k, k]
    shift = 0.0
    for _ in range(_SHIFTS):
        if cholesky(A, shift, L):
            return trace < np.inf
        shift = max(10.0 * shift, 1e-16 * trace)
    return False


@compiled
def sample_rows(csr, fixed, radius, prior, noise, key, out, start, stop):
    """Draw each row from its conditional: x = w/r ~ N(m, P⁻¹) within ‖x‖ ≤ radius[1], v ~ N(w·h, 1/noise).

    ``prior`` is (P, P m), the latter one for all rows or one for each; ``radius`` is (r, the largest ‖x‖). Precision
    noise·r²A + P, linear part noise·r·b + P m.
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
        normal_equations(csr, i, fixed, A, b)
        r, linear = magnitude[i], Pm[min(i, Pm.shape[0] - 1)]
        for k in range(n_factors):
            mean[k] = noise * r * b[k] + linear[k]
            for m in range(k + 1):
                A[k, m] = noise * r * r * A[k, m] + P[k, m]
            x[k] = rows[i, k] / r
        if not _factorise_safely(A, L):
            if means.shape[0] > 0:
                means[i] = rows[i]
                spreads[i] = 0.0
            continue
        solve_lower(L, mean)
        solve_upper(L, mean)
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


# --- noise of rows' own ---------------------------------------------------------------------------------------


@compiled
def add_by_row(rows, columns, squares, factors, out):
    """Add s_ij f_j of each rating to out_i, in their order: in one thread, as ratings of a row may lie anywhere."""
    for p in range(rows.shape[0]):
        out[rows[p]] += squares[p] * factors[columns[p]]


@compiled
def weigh_by_both(rows, columns, counts, of_rows, of_columns, out):
    """out_ij = c_ij a_i b_j of each rating."""
    for p in range(rows.shape[0]):
        out[p] = counts[p] * (of_rows[rows[p]] * of_columns[columns[p]])
