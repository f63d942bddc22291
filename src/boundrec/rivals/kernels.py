"""Compiled functions that only the six rivals need; the rules are those of :mod:`boundrec.solvers.kernels`."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic

from boundrec.solvers.compiling import MATHS, compiled, part
from boundrec.solvers.kernels import dot, normal_equations

#: Exponentials beyond this exponent continue as straight lines.
_MAX_EXPONENT = 50.0


# --- stochastic gradient descent: MF and Bounded-SVD ----------------------------------------------------------


@part
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


@compiled
def sgd_epoch(entries, rows, fixed, n_biases, step, ridge):
    """One step along e_ij = v_ij − w_i·h_j for every observation, one after the other.

    ``entries`` are the rows, columns, values and weights of the observations, already shuffled. Each step starts
    where the one before ended, so this is one serial loop whatever the number of threads.
    """
    row_of, column_of, data, weights = entries
    for p in range(data.size):
        w, h = rows[row_of[p]], fixed[column_of[p]]
        pull = data[p] - dot(w, h)
        _sgd_step(w, h, pull, n_biases, step * weights[p] if weights.size else step, ridge)


# --- the exponential walls of Bounded-SVD: penalty·(e^{sharpness·(p − high)} + e^{sharpness·(low − p)}) ------------


@part
def _tangent_exp(x):
    """Value and slope of e^x, continued by its tangent beyond ``_MAX_EXPONENT``: smooth, convex, no overflow."""
    value = np.exp(min(x, _MAX_EXPONENT))
    return value * (1.0 + max(0.0, x - _MAX_EXPONENT)), value


@part
def _walls(p, walls):
    """The penalty of a prediction p, and half of its derivative by p."""
    penalty, sharpness, low, high = walls
    above, above_slope = _tangent_exp(sharpness * (p - high))
    below, below_slope = _tangent_exp(sharpness * (low - p))
    return penalty * (above + below), 0.5 * penalty * sharpness * (above_slope - below_slope)


@compiled
def walled_errors(csr, rows, fixed, walls, out, start, stop):
    """out_i = Σ_j c_ij [(v_ij − w_i·h_j)² + walls(w_i·h_j)] over the observations of row i."""
    indptr, indices, data, weights = csr
    for i in range(start, stop):
        w = rows[i]
        total = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            prediction = dot(w, fixed[indices[p]])
            error = data[p] - prediction
            penalty, _slope = _walls(prediction, walls)
            total += (error * error + penalty) * (weights[p] if weights.size else 1.0)
        out[i] = total


@compiled
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
            prediction = dot(w, h)
            error = data[p] - prediction
            penalty, slope = _walls(prediction, walls)
            c = weights[p] if weights.size else 1.0
            total += c * (error * error + penalty)
            scaled = c * (slope - error)
            for k in range(n_factors):
                g[k] += scaled * h[k]
        gradient[i] = g
        out[i] = total


@compiled
def walled_sgd_epoch(entries, rows, fixed, n_biases, step, ridge, walls):
    """`sgd_epoch` with the walls' push: one step along e_ij − ½ walls′(w_i·h_j) for every observation."""
    row_of, column_of, data, weights = entries
    for p in range(data.size):
        w, h = rows[row_of[p]], fixed[column_of[p]]
        prediction = dot(w, h)
        _penalty, slope = _walls(prediction, walls)
        pull = data[p] - prediction - slope
        _sgd_step(w, h, pull, n_biases, step * weights[p] if weights.size else step, ridge)


# --- non-negative factors ------------------------------------------------------------------------------------


@compiled
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
            value, prediction = c * data[p], c * dot(w, h)
            for k in range(n_factors):
                wanted[k] += value * h[k]
                present[k] += prediction * h[k]
        for k in range(n_factors):
            denominator = present[k] + ridge[i] * w[k]
            if denominator > 0.0:
                w[k] *= wanted[k] / denominator


# --- one feature at a time -------------------------------------------------------------------------------------


# Reordered sums would be vectorised by gathers, which take twice as long as one load after the other.
_compiled_in_order = partial(compiled, maths=MATHS - {"reassoc"})


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


@compiled
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


@part
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


@compiled
def farthest(rows, by_feature, centre, out, start, stop):
    """out_i = max_j |w_i·h_j − centre|."""
    t = np.empty(by_feature.shape[1])
    for i in range(start, stop):
        _offsets(rows[i], by_feature, centre, t)
        far = 0.0
        for j in range(t.shape[0]):
            far = _most(far, abs(t[j]))
        out[i] = far


@part
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


@part
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


@compiled
def solve_rows_bounded(csr, fixed, ratio, centre, rows, out, start, stop):
    """One pass over each row's entries, all of the row's products kept in range; out_i = Σ_j c_ij e_ij² after it.

    ``ratio`` holds the fixed side by feature, its inverse and the half range over its absolute value.
    """
    indptr, indices, data, weights = csr
    by_feature, inverse, width = ratio
    n_factors, n_columns = by_feature.shape
    A, b, t = np.empty((n_factors, n_factors)), np.empty(n_factors), np.empty(n_columns)
    for i in range(start, stop):
        normal_equations(csr, i, fixed, A, b)
        _offsets(rows[i], by_feature, centre, t)
        _bounded_row(A, b, rows[i], by_feature, inverse, width, t)
        total = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            error = data[p] - centre - t[indices[p]]
            total += error * error * (weights[p] if weights.size else 1.0)
        out[i] = total


@compiled
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
        normal_equations(csr, i, fixed, A, b)
        _offsets(rows[i], own[0], centre, t)
        _bounded_row(A, b, rows[i], own[0], own[1], own[2], t)
        total = 0.0
        for p in range(n):
            error = data[first + p] - centre - t[p]
            total += error * error * (weights[first + p] if weights.size else 1.0)
        out[i] = total


# --- BMC-ADMM: a low-rank matrix Z, matched to the observations and to the range -----------------------------------


@compiled
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
            error = data[p] - dot(w, fixed[indices[p]])
            new = (c * error - multiplier[p]) / (c + rho)
            loss += c * error * error
            square += new * new
            change += (new - gap[p]) * (new - gap[p])
            multiplier[p] += rho * new
            gap[p] = new
        sums[i, 0], sums[i, 1], sums[i, 2] = loss, square, change


@compiled
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


@part
def _offsets_plus(w, by_feature, centre, sparse, row, t):
    """t_j = w·h_j + b_j − centre, where b is a row of a sparse matrix."""
    indptr, indices, data, _moved = sparse
    _offsets(w, by_feature, centre, t)
    for p in range(indptr[row], indptr[row + 1]):
        t[indices[p]] += data[p]


@compiled
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


@compiled
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
