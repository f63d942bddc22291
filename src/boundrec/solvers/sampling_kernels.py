"""Compiled draws of rows: normals truncated to a ball, keyed by row, so that any thread draws the same.

As in :mod:`boundrec.solvers.kernels`, no loop crosses a row. Both sides come with all of their coordinates; of a row's
own one is held (:mod:`boundrec.solvers.exact`), and the others are drawn: the bias, then the factors.
"""

import numpy as np

from boundrec.solvers.block_kernels import (
    add_tile,
    cholesky_by_blocks,
    clear,
    load,
    new_equations,
    new_tile,
    plus,
    repeat,
    roots_of_weights,
    store,
    times,
)
from boundrec.solvers.compiling import compiled, part
from boundrec.solvers.kernels import copy, dot, solve_lower, solve_upper
from boundrec.solvers.random_kernels import fill_normal, next_bits, truncated_normal

#: Independent draws before the chain takes over, and steps of the chain. Fixed, so that the mixture is invariant.
_TRIES, _CHAIN_STEPS = 10, 5
#: How far apart the streams of neighbouring rows start.
ROW_STRIDE = np.uint64(0xD1342543DE82EF95)
#: Shifts of a precision's diagonal to try, from rounding error up to the diagonal itself.
_SHIFTS = 18


# --- in the ball ----------------------------------------------------------------------------------------------


@part
def _walk_in_ball(L, mean, radius, x, state, direction):
    """Hit-and-run steps from x, which leave N(mean, (L Lᵀ)⁻¹) restricted to ‖x‖ ≤ radius as it is.

    Along x + s·d the density is normal with precision |Lᵀd|² and the ball is a chord; directions are drawn in turn
    from the normal's own shape and from the round one.
    """
    n = x.shape[0]
    for step in range(_CHAIN_STEPS):
        fill_normal(state, direction)
        if step % 2 == 0:
            solve_upper(L, direction)
        length = np.sqrt(dot(direction, direction))
        for k in range(n):
            direction[k] /= length
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


@part
def _draw_in_ball(L, mean, radius, x, state, z):
    """x ~ N(mean, (L Lᵀ)⁻¹) restricted to ‖x‖ ≤ radius; x comes in feasible.

    Independent draws until one is inside, else the chain above from where x is. Neither the numbers of tries and
    steps nor the normal depends on x, so the mixture leaves the truncated normal invariant.
    """
    n = x.shape[0]
    for _ in range(_TRIES):
        fill_normal(state, z)
        solve_upper(L, z)
        total = 0.0
        for k in range(n):
            z[k] += mean[k]
            total += z[k] * z[k]
        if total <= radius * radius:
            copy(z, x)
            return
    _walk_in_ball(L, mean, radius, x, state, z)
    norm = np.sqrt(dot(x, x))
    if norm > radius:  # by rounding
        for k in range(n):
            x[k] *= radius / norm


@part
def _solve_upper_for_eight(L, Z):
    """Z ← L⁻ᵀ Z for a Z of eight columns."""
    for k in range(Z.shape[0] - 1, -1, -1):
        x = times(1.0 / L[k, k], load(Z, k, 0))
        store(Z, k, 0, x)
        minus = times(-1.0, x)
        for m in range(k):
            store(Z, m, 0, plus(load(Z, m, 0), repeat(L, k, m), minus))


@part
def _fill_rows(state, Z):
    """Independent standard normal numbers."""
    for k in range(Z.shape[0]):
        fill_normal(state, Z[k])


@part
def _mean_of_pairs(mean, radius, Z, x, spread):
    """The mean x of a normal restricted to ‖x‖ ≤ radius; its variance in coordinate 0, and in the others on average.

    From eight pairs of draws at mean ± z, a z in each column of Z, of which those inside count: where the ball cuts
    nothing off, the mean is exact; where it parts pairs, it is close (a ratio of two sums), and inside in any case.
    Where none is inside, x stays what it was: one draw.
    """
    n = x.shape[0]
    more = np.empty(8)  # where only one of a pair is inside: its sign
    inside, first, all_squares, own = 0, 0.0, 0.0, dot(mean, mean)
    for p in range(8):
        along, size, more[p] = 0.0, own, 0.0
        for k in range(n):
            along += mean[k] * Z[k, p]
            size += Z[k, p] * Z[k, p]
        for sign in (-1.0, 1.0):
            if size + 2.0 * sign * along <= radius * radius:
                inside += 1
                more[p] += sign
                first += (mean[0] + sign * Z[0, p]) ** 2
                all_squares += size + 2.0 * sign * along
    spread[0], spread[1] = 0.0, 0.0
    if inside == 0:
        return
    for k in range(n):
        total = 0.0
        for p in range(8):
            total += more[p] * Z[k, p]
        x[k] = mean[k] + total / inside
    spread[0] = max(0.0, first / inside - x[0] * x[0])
    spread[1] = max(0.0, all_squares / inside - dot(x, x) - spread[0]) / (n - 1)


# --- a row by its normal matrix -------------------------------------------------------------------------------


@part
def _gather_free(csr, first, stop, own, others, held, tile):
    """√c times the free coordinates of the rows that were rated, and √c (v − what the held coordinate ``own`` says)."""
    _indptr, indices, data, weights = csr
    F, t = tile[0], tile[1][0]
    roots_of_weights(weights, first, stop, t)
    for j in range(stop - first):
        root, h = t[j], others[indices[first + j]]
        F[j, 0] = root * h[1 - held]
        for k in range(h.shape[0] - 2):
            F[j, k + 1] = root * h[k + 2]
        t[j] = root * (data[first + j] - own * h[held])


@part
def _normal_equations_of_free(csr, row, own, others, held, tile, A, b):
    """A = Σ_j c_j h_j h_jᵀ (lower triangle) and b = Σ_j c_j v_j h_j, h_j and v_j as `_gather_free` has them."""
    clear(A, b)
    end, size = csr[0][row + 1], tile[0].shape[0]
    for first in range(csr[0][row], end, size):
        stop = min(first + size, end)
        _gather_free(csr, first, stop, own, others, held, tile)
        add_tile(tile, stop - first, A, b)


@part
def _factorise_safely(A, L):
    """L Lᵀ = A, with the least of a few shifts of its diagonal that keep rounding from making it indefinite.

    False where none does, for A is not finite. The shift stays in A.
    """
    trace = 0.0
    for k in range(A.shape[0]):
        trace += A[k, k]
    before, shift = 0.0, 0.0
    for _ in range(_SHIFTS):
        for k in range(A.shape[0]):
            A[k, k] += shift - before
        if cholesky_by_blocks(A, L):
            return trace < np.inf
        before, shift = shift, max(10.0 * shift, 1e-16 * trace)
    return False


@part
def _precision(A, b, r, noise, P, linear, mean):
    """A ← noise·r²A + P, of which what zeros were added for is the identity, and mean ← noise·r·b + P m."""
    n = mean.shape[0]
    for k in range(n):
        mean[k] = noise * r * b[0, k] + linear[k]
        for m in range(k + 1):
            A[k, m] = noise * r * r * A[k, m] + P[k, m]
    for k in range(n, A.shape[0]):
        A[k, k] = 1.0


# --- a row in the span of its ratings ---------------------------------------------------------------------------
#
# With P = L_P L_Pᵀ, y = L_Pᵀ x is N(L_P⁻¹ P m, I) before any rating. n ratings √(c·noise) v = F y + N(0, I), F with
# the rows √(c·noise) r h L_P⁻ᵀ, make of a draw u from the prior, and of noise e, one of the conditional (Matheron):
#
#     y + Fᵀ S⁻¹ (t − F y − e),   S = I + F Fᵀ
#
# of which the mean has u = e = 0. S is n × n: few ratings cost little, however many factors there are.


@part
def _n_counting(csr, row, most):
    """How many of a row's ratings count; one more than ``most`` if it is more."""
    indptr, _indices, _data, weights = csr
    if weights.size == 0:
        return min(indptr[row + 1] - indptr[row], most + 1)
    n = 0
    for p in range(indptr[row], indptr[row + 1]):
        if weights[p] > 0.0:
            n += 1
            if n > most:
                break
    return n


@part
def _span(csr, row, r, own, others, held, white, noise, F, t):
    """F and t of those of a row's ratings that count; ``white`` are the other side's free coordinates times L_P⁻ᵀ."""
    indptr, indices, data, weights = csr
    n = 0
    for p in range(indptr[row], indptr[row + 1]):
        c = noise * (weights[p] if weights.size else 1.0)
        if c > 0.0:
            h, root = white[indices[p]], np.sqrt(c)
            for k in range(h.shape[0]):
                F[n, k] = root * r * h[k]
            t[n] = root * (data[p] - own * others[indices[p], held])
            n += 1
    return n


@part
def _factorise_span(F, n, S):
    """S ← the Cholesky factor of I + F Fᵀ of the first n rows; False where that has no number."""
    for i in range(n):
        for j in range(i + 1):
            total = dot(F[i], F[j])
            for k in range(j):
                total -= S[i, k] * S[j, k]
            if i > j:
                S[i, j] = total / S[j, j]
            elif -1.0 < total < np.inf:
                S[i, i] = np.sqrt(1.0 + total)
            else:
                return False
    return True


@part
def _towards_ratings(F, S, n, q, y):
    """y ← y + Fᵀ S⁻¹ (q − F y), where S is given by its Cholesky factor; q is lost."""
    for i in range(n):
        q[i] -= dot(F[i], y)
    for i in range(n):
        for k in range(i):
            q[i] -= S[i, k] * q[k]
        q[i] /= S[i, i]
    for i in range(n - 1, -1, -1):
        q[i] /= S[i, i]
        for k in range(i):
            q[k] -= S[i, k] * q[i]
        for k in range(y.shape[0]):
            y[k] += q[i] * F[i, k]


@part
def _towards_ratings_for_eight(F, S, n, Q, Y):
    """The same for Y and Q of eight columns, with the sign of Q turned: Y ← Y − Fᵀ S⁻¹ (Q + F Y)."""
    for i in range(n):
        q = load(Q, i, 0)
        for k in range(Y.shape[0]):
            q = plus(q, repeat(F, i, k), load(Y, k, 0))
        for k in range(i):
            q = plus(q, repeat(S, i, k), times(-1.0, load(Q, k, 0)))
        store(Q, i, 0, times(1.0 / S[i, i], q))
    for i in range(n - 1, -1, -1):
        minus = times(-1.0 / S[i, i], load(Q, i, 0))
        for k in range(i):
            store(Q, k, 0, plus(load(Q, k, 0), repeat(S, i, k), minus))
        for k in range(Y.shape[0]):
            store(Y, k, 0, plus(load(Y, k, 0), repeat(F, i, k), minus))


@part
def _draw_in_span(F, S, n, L_P, mean, radius, x, state, q, z):
    """x ← L_P⁻ᵀ y within the ball, by independent draws of y around ``mean``; False, and x stays, if none is inside."""
    for _ in range(_TRIES):
        fill_normal(state, z)
        fill_normal(state, q)
        _towards_ratings(F, S, n, q, z)
        for k in range(x.shape[0]):
            z[k] += mean[k]
        solve_upper(L_P, z)
        if dot(z, z) <= radius * radius:
            copy(z, x)
            return True
    return False


# --- all rows ---------------------------------------------------------------------------------------------------


@compiled
def sample_rows(csr, others, held, radius, prior, span, noise, key, out, start, stop):
    """Draw each row from its conditional: x = w/r ~ N(m, P⁻¹) within ‖x‖ ≤ radius[1], v ~ N(w·h, 1/noise).

    ``prior`` is (P, P m), the latter one for all rows or one for each; ``radius`` is (r, the largest ‖x‖). Precision
    noise·r²A + P, linear part noise·r·b + P m. ``span`` is (L_P, the other side's free coordinates times L_P⁻ᵀ,
    P m times the same, up to how many ratings a row is drawn in their span; −1 for none).
    ``out`` is (rows, means, spreads): the draws, in place, and, unless these are empty, what they are draws of.
    A row whose precision is beyond all numbers stays as it is.
    """
    (magnitude, most), (P, Pm), (rows, means, spreads) = radius, prior, out
    L_P, white, white_means, longest = span
    n_free, with_means = P.shape[0], means.shape[0] > 0
    room, tile = max(longest, 0), new_tile(n_free)
    A, b = new_equations(n_free)
    L = np.empty(A.shape)
    F, S, Q = np.empty((room, n_free)), np.empty((room, room)), np.empty((room, 8))
    q, t = np.empty(room), np.empty(room)
    mean, x, z, Z = np.empty(n_free), np.empty(n_free), np.empty(n_free), np.empty((n_free, 8))
    state = np.empty(1, np.uint64)
    for i in range(start, stop):
        r, own, linear = magnitude[i], rows[i, held], Pm[min(i, Pm.shape[0] - 1)]
        state[0] = key + np.uint64(i) * ROW_STRIDE
        next_bits(state)
        x[0] = rows[i, 1 - held] / r
        for k in range(n_free - 1):
            x[k + 1] = rows[i, k + 2] / r
        n_rated, short = _n_counting(csr, i, longest), False
        if n_rated <= longest:
            n_rated = _span(csr, i, r, own, others, held, white, noise, F, t)
            short = _factorise_span(F, n_rated, S)
        if short:
            copy(white_means[min(i, white_means.shape[0] - 1)], mean)
            _towards_ratings(F, S, n_rated, t, mean)
            short = _draw_in_span(F, S, n_rated, L_P, mean, most, x, state, q, z)
        if not short:
            _normal_equations_of_free(csr, i, own, others, held, tile, A, b)
            _precision(A, b, r, noise, P, linear, mean)
            if not _factorise_safely(A, L):
                if with_means:
                    copy(rows[i], means[i])
                    spreads[i, 0], spreads[i, 1] = 0.0, 0.0
                continue
            solve_lower(L, mean)
            solve_upper(L, mean)
            _draw_in_ball(L, mean, most, x, state, z)
        _write(x, r, held, rows[i])
        if with_means:
            _fill_rows(state, Z)
            if short:
                solve_upper(L_P, mean)
                _fill_rows(state, Q)
                _towards_ratings_for_eight(F, S, n_rated, Q, Z)
                _solve_upper_for_eight(L_P, Z)
            else:
                _solve_upper_for_eight(L, Z)
            _mean_of_pairs(mean, most, Z, x, spreads[i])
            means[i, held] = own
            _write(x, r, held, means[i])
            spreads[i, 0] *= r * r
            spreads[i, 1] *= r * r


@part
def _write(x, r, held, row):
    """The free coordinates of a row ← r x."""
    row[1 - held] = r * x[0]
    for k in range(x.shape[0] - 1):
        row[k + 2] = r * x[k + 1]


# --- noise of rows' own ---------------------------------------------------------------------------------------


@compiled
def add_to_columns(places, squares, counts, of_rows, out):
    """out_j += Σ_i c_ij a_i e_ij², squares in the order of rows: in one thread, as those of a column lie anywhere."""
    indptr, indices = places
    for i in range(of_rows.shape[0]):
        for p in range(indptr[i], indptr[i + 1]):
            out[indices[p]] += counts[p] * squares[p] * of_rows[i]


@compiled
def weigh_by_both(places, counts, of_rows, of_columns, out):
    """out_ij = c_ij a_i b_j of each rating."""
    indptr, indices = places
    for i in range(of_rows.shape[0]):
        for p in range(indptr[i], indptr[i + 1]):
            out[p] = counts[p] * (of_rows[i] * of_columns[indices[p]])
