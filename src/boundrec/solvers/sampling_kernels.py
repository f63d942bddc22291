"""Compiled draws of rows: normals truncated to a ball, keyed by row, so that any thread draws the same.

As in :mod:`boundrec.solvers.kernels`, no loop crosses a row. Both sides come with all of their coordinates; of a row's
own one is held (:mod:`boundrec.solvers.exact`), and the others are drawn: the bias, then the factors.
"""

from functools import partial

import numpy as np

from boundrec.solvers.block_kernels import (
    add_row,
    add_tile,
    ask_for,
    cholesky_by_blocks,
    clear,
    dot_rows,
    eight_times,
    load,
    new_equations,
    new_matrix,
    new_tile,
    plus,
    repeat,
    roots_of_weights,
    store,
    times,
    total,
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
#: Ratings by which rows of the other side are asked for ahead: they lie anywhere, and short rows wait for memory.
_AHEAD = 8


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
def _mean_of_pairs(mean, radius, Z, lanes, x, spread):
    """The mean x of a normal restricted to ‖x‖ ≤ radius; its variance in coordinate 0, and in the others on average.

    From eight pairs of draws at mean ± z, a z in each column of Z, of which those inside count: where the ball cuts
    nothing off, the mean is exact; where it parts pairs, it is close (a ratio of two sums), and inside in any case.
    Where none is inside, x stays what it was: one draw. ``lanes`` is room for three rows of eight. Returns how many of
    the sixteen are inside.
    """
    n, most, own = x.shape[0], radius * radius, dot(mean, mean)
    along, size = eight_times(0.0), eight_times(own)
    for k in range(n):
        z = load(Z, k, 0)
        along = plus(along, eight_times(mean[k]), z)
        size = plus(size, z, z)
    store(lanes, 0, 0, along)
    store(lanes, 1, 0, size)
    inside, first, all_squares = 0, 0.0, 0.0
    for p in range(8):
        lanes[2, p] = 0.0  # where only one of a pair is inside: its sign
        for side in range(2):
            sign = 2.0 * side - 1.0
            square, bias = lanes[1, p] + 2.0 * sign * lanes[0, p], mean[0] + sign * Z[0, p]
            if square <= most:
                inside += 1
                lanes[2, p] += sign
                first += bias * bias
                all_squares += square
    spread[0], spread[1] = 0.0, 0.0
    if inside == 0:
        return inside
    copy(mean, x)
    if inside < 16:
        for k in range(n):
            x[k] += dot_rows(lanes, 2, Z, k) / inside
    spread[0] = max(0.0, first / inside - x[0] * x[0])
    spread[1] = max(0.0, all_squares / inside - dot(x, x) - spread[0]) / (n - 1)
    return inside


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


@part
def _spread_of(L, n_free, X, spread):
    """The variance (L Lᵀ)⁻¹ in coordinate 0, and in the others on average: squares of L⁻¹, eight columns at a time.

    X is room for as many rows of eight as L has. Beyond ``n_free`` L is the identity.
    """
    first, everything = 0.0, 0.0
    for m in range(0, n_free, 8):
        squares = eight_times(0.0)
        for k in range(m, n_free):
            store(X, k, 0, eight_times(0.0))
            if k < m + 8:
                X[k, k - m] = 1.0
            x = load(X, k, 0)
            for j in range(m, k):
                x = plus(x, repeat(L, k, j), times(-1.0, load(X, j, 0)))
            x = times(1.0 / L[k, k], x)
            store(X, k, 0, x)
            squares = plus(squares, x, x)
        everything += total(squares)
        if m == 0:
            store(X, 0, 0, squares)
            first = X[0, 0]
    spread[0], spread[1] = first, (everything - first) / (n_free - 1)


# --- a row in the span of its ratings ---------------------------------------------------------------------------
#
# With P = L_P L_Pᵀ, y = L_Pᵀ x is N(L_P⁻¹ P m, I) before any rating. n ratings √(c·noise) v = F y + N(0, I), F with
# the rows √(c·noise) r h L_P⁻ᵀ, make of a draw u from the prior, and of noise e, one of the conditional (Matheron):
#
#     y + Fᵀ S⁻¹ (t − F y − e),   S = I + F Fᵀ
#
# of which the mean has u = e = 0. S is n × n: few ratings cost little, however many factors there are. Rows of F, y and
# all that is made of them have zeros up to whole eights.


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
        c, coming = noise * (weights[p] if weights.size else 1.0), indices[min(p + _AHEAD, indices.size - 1)]
        ask_for(others, coming, held)
        for m in range(0, F.shape[1], 8):
            ask_for(white, coming, m)
        if c > 0.0:
            root = np.sqrt(c)
            for m in range(0, F.shape[1], 8):
                store(F, n, m, times(root * r, load(white, indices[p], m)))
            t[n] = root * (data[p] - own * others[indices[p], held])
            n += 1
    return n


@part
def _factorise_span(F, n, S):
    """S ← the Cholesky factor of I + F Fᵀ of the first n rows; False where that has no number."""
    for i in range(n):
        for j in range(i + 1):
            product = dot_rows(F, i, F, j)
            for k in range(j):
                product -= S[i, k] * S[j, k]
            if i > j:
                S[i, j] = product / S[j, j]
            elif -1.0 < product < np.inf:
                S[i, i] = np.sqrt(1.0 + product)
            else:
                return False
    return True


@part
def _towards_ratings(F, S, n, q, y):
    """y ← y + Fᵀ S⁻¹ (q − F y), where S is given by its Cholesky factor; y is one row, and q is lost."""
    for i in range(n):
        q[i] -= dot_rows(F, i, y, 0)
    for i in range(n):
        for k in range(i):
            q[i] -= S[i, k] * q[k]
        q[i] /= S[i, i]
    for i in range(n - 1, -1, -1):
        q[i] /= S[i, i]
        for k in range(i):
            q[k] -= S[i, k] * q[i]
        add_row(q[i], F, i, y, 0)


@part
def _times_rows(y, rows, out):
    """out ← Σ_k y_k rows_k, of a lower triangle: with the rows of L_P⁻¹ that is L_P⁻ᵀ y."""
    for m in range(0, rows.shape[1], 8):
        x = eight_times(0.0)
        for k in range(m, rows.shape[0]):
            x = plus(x, repeat(y, 0, k), load(rows, k, m))
        store(out, 0, m, x)


@part
def _known_in_span(F, S, n, whiten, G):
    """G ← S_L⁻¹ F L_P⁻¹, S_L the Cholesky factor of S: of the prior's covariance C, ratings leave C − GᵀG.

    ``whiten`` is L_P⁻¹, a lower triangle.
    """
    for i in range(n):
        for m in range(0, G.shape[1], 8):
            g = eight_times(0.0)
            for k in range(m, whiten.shape[0]):
                g = plus(g, repeat(F, i, k), load(whiten, k, m))
            for j in range(i):
                g = plus(g, repeat(S, i, j), times(-1.0, load(G, j, m)))
            store(G, i, m, times(1.0 / S[i, i], g))


@part
def _pairs_in_span(F, S, G, n, pairs, Q, Z):
    """Z ← eight draws of x less its mean, L_P⁻ᵀ u − Gᵀ S_L⁻¹ (e + F u), where ``pairs`` are u, L_P⁻ᵀ u and e.

    Q is room for as many rows of eight as there are ratings.
    """
    u, prior_draws, e = pairs
    for i in range(n):
        q = load(e, i, 0)
        for k in range(u.shape[0]):
            q = plus(q, repeat(F, i, k), load(u, k, 0))
        for j in range(i):
            q = plus(q, repeat(S, i, j), times(-1.0, load(Q, j, 0)))
        store(Q, i, 0, times(1.0 / S[i, i], q))
    for k in range(Z.shape[0]):
        x = load(prior_draws, k, 0)
        for i in range(n):
            x = plus(x, repeat(G, i, k), times(-1.0, load(Q, i, 0)))
        store(Z, k, 0, x)


@part
def _spread_in_span(variances, G, n, n_free, spread):
    """The variance of C − GᵀG in coordinate 0, and in the others on average; ``variances`` are those of C, added up."""
    first, rest = variances[0], variances[1]
    for i in range(n):
        square = G[i, 0] * G[i, 0]
        first -= square
        rest -= dot_rows(G, i, G, i) - square
    spread[0], spread[1] = max(0.0, first), max(0.0, rest) / (n_free - 1)


@partial(part, written_out=True)
def _draw_in_span(F, S, n, whiten, centre, radius, x, state, room):
    """x ← L_P⁻ᵀ y within the ball, by independent draws of y around ``centre``; False, and x stays, if none is inside.

    ``room`` is for as many numbers as there are ratings, and for two rows, of which the first has zeros beyond x.
    """
    (q, y, draw), n_free = room, x.shape[0]
    for _ in range(_TRIES):
        fill_normal(state, y[0, :n_free])
        fill_normal(state, q[:n])
        _towards_ratings(F, S, n, q, y)
        add_row(1.0, centre, 0, y, 0)
        _times_rows(y, whiten, draw)
        if dot_rows(draw, 0, draw, 0) <= radius * radius:
            copy(draw[0, :n_free], x)
            return True
    return False


# --- all rows ---------------------------------------------------------------------------------------------------


@compiled
def sample_rows(csr, others, held, radius, prior, span, common, noise, key, out, start, stop):
    """Draw each row from its conditional: x = w/r ~ N(m, P⁻¹) within ‖x‖ ≤ radius[1], v ~ N(w·h, 1/noise).

    ``prior`` is (P, P m), the latter one for all rows or one for each; ``radius`` is (r, the largest ‖x‖). Precision
    noise·r²A + P, linear part noise·r·b + P m. ``span`` is (L_P⁻¹, the other side's free coordinates times L_P⁻ᵀ, P m
    times the same, all in whole eights, up to how many ratings a row is drawn in their span, −1 for none). ``common``
    serves all means: eight draws u from N(0, I), L_P⁻ᵀ u and eight of the noise, the variances of `_spread_in_span`,
    and how long a mean may be that the ball leaves alone.
    ``out`` is (rows, means, spreads): the draws, in place, and, unless these are empty, what they are draws of.
    A row whose precision is beyond all numbers stays as it is.
    """
    (magnitude, most), (P, Pm), (rows, means, spreads) = radius, prior, out
    (whiten, white, white_means, longest), (pairs, variances, calm), n_free = span, common, P.shape[0]
    A, b = new_equations(n_free)
    L, tile, state = new_matrix(*A.shape), new_tile(n_free), np.empty(1, np.uint64)
    x, z, wide_mean, Z, lanes, cut = _room_for_row(n_free, A.shape[0])
    F, S, t, centre, for_draw, G, Q = _room_in_span(max(longest, 0), A.shape[0])
    mean = wide_mean[0, :n_free]
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
            copy(white_means[min(i, white_means.shape[0] - 1)], centre[0])
            _towards_ratings(F, S, n_rated, t, centre)
            short = _draw_in_span(F, S, n_rated, whiten, centre, most, x, state, for_draw)
        if not short:
            _normal_equations_of_free(csr, i, own, others, held, tile, A, b)
            _precision(A, b, r, noise, P, linear, mean)
            if not _factorise_safely(A, L):
                if means.shape[0] > 0:
                    copy(rows[i], means[i])
                    spreads[i, 0], spreads[i, 1] = 0.0, 0.0
                continue
            solve_lower(L, mean)
            solve_upper(L, mean)
            _draw_in_ball(L, mean, most, x, state, z)
        _write(x, r, held, rows[i])
        if means.shape[0] > 0:  # written out: as a part it would take a quarter more time where rows are short
            if short:
                _times_rows(centre, whiten, wide_mean)
                _known_in_span(F, S, n_rated, whiten, G)
                _spread_in_span(variances, G, n_rated, n_free, spreads[i])
            else:
                _spread_of(L, n_free, Z, spreads[i])
            if dot(mean, mean) <= calm * abs(calm):
                copy(mean, x)
            else:
                if short:
                    _pairs_in_span(F, S, G, n_rated, pairs, Q, Z)
                else:
                    for k in range(n_free):
                        copy(pairs[0][k], Z[k])
                    _solve_upper_for_eight(L, Z)
                if _mean_of_pairs(mean, most, Z, lanes, x, cut) < 16:
                    copy(cut, spreads[i])
            means[i, held] = own
            _write(x, r, held, means[i])
            spreads[i, 0] *= r * r
            spreads[i, 1] *= r * r


@partial(part, makes_room=True)
def _room_for_row(n_free, width):
    """Room for a row, a draw and a mean (in whole eights); for eight draws, what these come to, and its spread."""
    row = np.empty(n_free), np.empty(n_free), new_matrix(1, width)
    return *row, new_matrix(n_free, 8), new_matrix(3, 8), np.empty(2)


@partial(part, makes_room=True)
def _room_in_span(n, width):
    """Room for up to n ratings: F, S, t and a centre; for `_draw_in_span`; G and Q of `_pairs_in_span`."""
    for_draw = np.empty(n), new_matrix(1, width), new_matrix(1, width)
    there = new_matrix(n, width), new_matrix(n, n), np.empty(n), new_matrix(1, width)
    for m in range(0, width, 8):
        store(for_draw[1], 0, m, eight_times(0.0))
    return *there, for_draw, new_matrix(n, width), new_matrix(n, 8)


@part
def _write(x, r, held, row):
    """The free coordinates of a row ← r x."""
    row[1 - held] = r * x[0]
    for k in range(x.shape[0] - 1):
        row[k + 2] = r * x[k + 1]


@compiled
def free_moments(rows, radius, held):
    """Σ x and Σ x xᵀ (lower triangle) over all rows, x their free coordinates over r, in whole eights."""
    F, t = tile = new_tile(rows.shape[1] - 1)
    A, b = new_equations(rows.shape[1] - 1)
    clear(A, b)
    for first in range(0, rows.shape[0], F.shape[0]):
        stop = min(first + F.shape[0], rows.shape[0])
        for i in range(first, stop):
            x = F[i - first]
            x[0] = rows[i, 1 - held] / radius[i]
            for k in range(rows.shape[1] - 2):
                x[k + 1] = rows[i, k + 2] / radius[i]
            t[0, i - first] = 1.0
        add_tile(tile, stop - first, A, b)
    return b[0], A


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
