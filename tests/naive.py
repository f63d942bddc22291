"""The paper in plain loops and dense arrays: slow twins of the kernels, written to be read beside the equations.

Conventions are the paper's: Z is the 0/1 mask, H is K × M, Φ is N × (K−1). Nothing here imports boundrec.
"""

import hashlib
import re
import struct
import zlib

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_ndtr


def spherical_to_cartesian(phi, radius):
    """One row: x_i = r s_i(φ) c_i(φ)."""
    n = len(phi) + 1
    x = np.empty(n)
    for i in range(n):
        sines = np.prod([np.sin(phi[j]) for j in range(i)])
        x[i] = radius * sines * (np.cos(phi[i]) if i < n - 1 else 1.0)
    return x


def cartesian_to_spherical(x):
    """One row's angles: all but the last between 0 and π, the last between 0 and 2π."""
    phi = [np.arctan2(np.linalg.norm(x[i + 1 :]), x[i]) for i in range(len(x) - 2)]
    return np.array([*phi, np.arctan2(x[-1], x[-2]) % (2 * np.pi)])


def row_derivative(phi, radius):
    """∂W_a:/∂Φ_ab as a (K−1) × K matrix, Eq. (dphi) case by case (with slip A2 corrected: Φ_ap)."""
    k = len(phi) + 1
    D = np.zeros((k - 1, k))
    for b in range(k - 1):
        for j in range(k):
            if j < b:
                continue
            if j == b:
                D[b, j] = -np.prod([np.sin(phi[p]) for p in range(j + 1)])
            else:
                others = np.prod([np.sin(phi[p]) for p in range(j) if p != b])
                D[b, j] = np.cos(phi[b]) * others * (np.cos(phi[j]) if j < k - 1 else 1.0)
    return radius * D


def objective(V, Z, W, H):
    return float(np.sum((Z * (V - W @ H)) ** 2))


def angle_gradients(V, Z, phi, theta, radius_w, radius_h):
    """D^Φ and D^Θ by the tensor formulation, without the factor 2 (as in Algorithm 1, slip A4)."""
    W = np.array([spherical_to_cartesian(p, r) for p, r in zip(phi, radius_w, strict=True)])
    H = np.array([spherical_to_cartesian(p, r) for p, r in zip(theta, radius_h, strict=True)]).T
    grad_w = (Z * (W @ H)) @ H.T - (Z * V) @ H.T
    grad_h = W.T @ (Z * (W @ H)) - W.T @ (Z * V)
    tensor_w = np.array([row_derivative(p, r) for p, r in zip(phi, radius_w, strict=True)])
    tensor_h = np.array([row_derivative(p, r) for p, r in zip(theta, radius_h, strict=True)])
    return np.einsum("abk,ak->ab", tensor_w, grad_w), np.einsum("abk,ka->ab", tensor_h, grad_h)


def quadratic(A, b, w):
    return float(w @ A @ w - 2 * b @ w)


def solve_row_by_eigen(A, b, radius, constraint, present=None):
    """Global minimiser of wᵀAw − 2bᵀw on the sphere or in the ball, by eigendecomposition and bisection."""
    values, Q = np.linalg.eigh(A)
    values = np.maximum(values, 0.0)
    c = Q.T @ b
    top = max(values[-1], 1e-300)
    null = values <= 1e-10 * top
    c[null] = 0.0  # b lies in the range of A up to rounding
    if constraint == "ball":
        free = np.where(null, 0.0, c / np.where(null, 1.0, values))
        if np.linalg.norm(free) <= radius:
            return Q @ free
    bottom = values - values[0] <= 1e-10 * top
    rest = np.where(bottom, 0.0, c / np.where(bottom, 1.0, values - values[0]))
    if np.linalg.norm(c[bottom]) <= 1e-12 * max(np.linalg.norm(c), 1e-300) and np.linalg.norm(rest) <= radius:
        z = np.where(bottom, Q.T @ present if present is not None else 1.0, 0.0)
        if np.linalg.norm(z) == 0:
            z = bottom.astype(float)
        return Q @ (rest + np.sqrt(radius**2 - rest @ rest) * z / np.linalg.norm(z))
    low, high = 0.0, np.linalg.norm(c) / radius + top  # s = mu + λ_1
    for _ in range(400):
        s = (low + high) / 2
        if np.linalg.norm(c / np.maximum(values - values[0] + s, 1e-300)) > radius:
            low = s
        else:
            high = s
    w = c / np.maximum(values - values[0] + high, 1e-300)
    return Q @ (w * radius / np.linalg.norm(w))


def solve_row_by_search(A, b, radius, constraint, rng, n_starts=40):
    """The same by brute force: many local searches from random points (a projection keeps them feasible)."""

    def point(x):
        norm = np.linalg.norm(x)
        if constraint == "ball" and norm <= radius:
            return x
        return x * radius / max(norm, 1e-300)

    best = np.inf
    for _ in range(n_starts):
        start = point(rng.standard_normal(len(b)) * radius)
        found = minimize(lambda x: quadratic(A, b, point(x)), start, method="BFGS", options={"gtol": 1e-12})
        best = min(best, quadratic(A, b, point(found.x)))
    return best


def history_magnitudes(rows, values, n_rows, n_cols, share=0.1, count=None):
    """Eqs. (41) to (43) for the rows, in loops: ω√(mean + std) + (1 − ω)√(global mean + std)."""
    overall = np.sqrt(np.mean(values) + np.std(values))
    magnitudes = []
    for i in range(n_rows):
        own = [v for r, v in zip(rows, values, strict=True) if r == i]
        if not own:
            magnitudes.append(overall)
            continue
        omega = min(len(own) / (share * n_cols), 1.0) if count is None else len(own) / (len(own) + count)
        magnitudes.append(omega * np.sqrt(np.mean(own) + np.std(own)) + (1 - omega) * overall)
    return np.array(magnitudes)


def sgd_epoch(users, items, values, weights, W, H, biases, step, ridge):
    """Koren's step for one rating after the other; with biases w = (b, 1, u) and h = (1, c, q). In place."""
    for p in range(len(values)):
        w, h = W[users[p]].copy(), H[items[p]].copy()
        error = values[p] - w @ h
        w_step = error * h - ridge * w
        h_step = error * w - ridge * h
        if biases:
            w_step[1] = h_step[0] = 0.0
        W[users[p]] += step * weights[p] * w_step
        H[items[p]] += step * weights[p] * h_step


def walls(p, penalty, sharpness, low, high):
    """Bounded-SVD's penalty of one prediction and its derivative; exponentials go straight beyond e^50."""

    def exponential(x):
        return (np.exp(x), np.exp(x)) if x <= 50 else (np.exp(50) * (1 + x - 50), np.exp(50))

    (above, above_slope), (below, below_slope) = exponential(sharpness * (p - high)), exponential(sharpness * (low - p))
    return penalty * (above + below), penalty * sharpness * (above_slope - below_slope)


def walled_objective(users, items, values, weights, W, H, setting):
    """Σ c [(v − p)² + walls(p)], in a loop over the ratings."""
    total = 0.0
    for i, j, v, c in zip(users, items, values, weights, strict=True):
        total += c * ((v - W[i] @ H[j]) ** 2 + walls(W[i] @ H[j], *setting)[0])
    return total


def walled_sgd_epoch(users, items, values, weights, W, H, biases, step, ridge, setting):
    """`sgd_epoch` with the error less half the derivative of the walls."""
    for i, j, v, c in zip(users, items, values, weights, strict=True):
        p = W[i] @ H[j]
        pulled = v - walls(p, *setting)[1] / 2
        sgd_epoch([i], [j], [pulled], [c], W, H, biases, step, ridge)


def nmf_update(V, C, W, H, ridge):
    """W ∘ (C∘V)Hᵀ ⊘ ((C∘WH)Hᵀ + λ n_i W), dense; C is the mask times the weights, 0/0 leaves W as it is."""
    numerator = (C * V) @ H.T
    denominator = (C * (W @ H)) @ H.T + ridge * C.sum(axis=1, keepdims=True) * W
    new = W.copy()
    for i, k in zip(*np.nonzero(denominator), strict=True):
        new[i, k] = W[i, k] * numerator[i, k] / denominator[i, k]
    return new


def nmf_sweep(V, C, W, H, ridge):
    """W first, then H (by its transpose) with the new W."""
    W = nmf_update(V, C, W, H, ridge)
    return W, nmf_update(V.T, C.T, H.T, W.T, ridge).T


def ridge_objective(V, C, W, H, ridge_w, ridge_h):
    """Σ c(v − w·h)² + Σ_i λ_i‖w_i‖² + Σ_j λ_j‖h_j‖²."""
    return float(np.sum(C * (V - W @ H) ** 2) + ridge_w @ np.sum(W**2, axis=1) + ridge_h @ np.sum(H**2, axis=0))


def rank_one_step(R, C, u, v, ridge_v):
    """The best v_j for every column, given u, and Σ_j h_j (old − new)², what that takes off the objective."""
    decrease = 0.0
    for j in range(len(v)):
        h = ridge_v[j] + np.sum(C[:, j] * u**2)
        new = np.sum(C[:, j] * R[:, j] * u) / h if h > 0 else 0.0
        decrease += h * (v[j] - new) ** 2
        v[j] = new
    return decrease


def ccdpp_sweeps(V, C, W, H, ridge_w, ridge_h, inner_iter, inner_tol, n_sweeps):
    """LIBPMF's loops on dense arrays: W and H after every outer iteration, and how many features it came to."""
    W, H = W.copy(), H.copy()
    for outer in range(n_sweeps):
        most, early_stops, n_features = 0.0, 0, 0
        for t in range(W.shape[1]):
            if early_stops >= 5:
                break
            n_features += 1
            u, v = W[:, t], H[t]
            R = V - W @ H + np.outer(u, v)
            for inner in range(inner_iter):
                decrease = rank_one_step(R, C, u, v, ridge_h)
                decrease += rank_one_step(R.T, C.T, v, u, ridge_w)
                if decrease < inner_tol * most:
                    early_stops += inner == 0
                    break
                if (outer, t, inner) != (0, 0, 0):
                    most = max(most, decrease)
        yield W.copy(), H.copy(), n_features


def ridge_als(V, C, W, H, ridge_w, ridge_h, n_sweeps):
    """Alternating ridge regressions, one linear system for each row and column: another road to the same minimum."""
    W, H = W.copy(), H.copy()
    k = W.shape[1]
    for _ in range(n_sweeps):
        for j in range(H.shape[1]):
            H[:, j] = np.linalg.solve((W.T * C[:, j]) @ W + ridge_h[j] * np.eye(k), W.T @ (C[:, j] * V[:, j]))
        for i in range(len(W)):
            W[i] = np.linalg.solve((H * C[i]) @ H.T + ridge_w[i] * np.eye(k), H @ (C[i] * V[i]))
    return W, H


# --- truncated normal numbers ---------------------------------------------------------------------------------------


def quantile_of_tail(share, low, high):
    """The number with this share of the normal's mass within [low, high] below it, by bisection on SciPy's log_ndtr."""
    wanted = log_ndtr(-low) + np.log1p(share * np.expm1(log_ndtr(-high) - log_ndtr(-low)))
    left, right = low, min(high, low + 50.0)
    for _ in range(200):
        middle = (left + right) / 2
        left, right = (middle, right) if log_ndtr(-middle) > wanted else (left, middle)
    return (left + right) / 2


# --- BMF ------------------------------------------------------------------------------------------------------------


def bmf_rows(V, C, W, H, low, high, everywhere=True):
    """One pass over every w_ix: clip(w*, max l, min u), the complement T = p − w_ix h_xj over all j; C are weights."""
    for i in range(W.shape[0]):
        for x in range(W.shape[1]):
            h = H[x]
            T = W[i] @ H - W[i, x] * h
            curvature = np.sum(C[i] * h * h)
            if curvature == 0:
                continue
            wanted = np.sum(C[i] * (V[i] - T) * h) / curvature
            lower, upper = [-np.inf], [np.inf]
            for j in range(V.shape[1]):
                if h[j] != 0 and (everywhere or C[i, j] > 0):
                    ends = sorted([(low - T[j]) / h[j], (high - T[j]) / h[j]])
                    lower.append(ends[0])
                    upper.append(ends[1])
            W[i, x] = np.clip(wanted, max(lower), min(upper))
    return W


def bmf_sweep(V, C, W, H, low, high, everywhere=True):
    """Columns of H, then rows of W."""
    H = bmf_rows(V.T, C.T, H.T.copy(), W.T, low, high, everywhere).T
    return bmf_rows(V, C, W.copy(), H, low, high, everywhere), H


# --- BMC-ADMM -------------------------------------------------------------------------------------------------------


def singular_value_threshold(A, threshold):
    U, s, Vt = np.linalg.svd(A, full_matrices=False)
    return U * np.maximum(s - threshold, 0) @ Vt


def completion_objective(V, C, Z, penalty):
    """½ Σ c (v − z)² + λ‖Z‖_*; C is 0 where nothing was observed."""
    return 0.5 * np.sum(C * (V - Z) ** 2) + penalty * np.linalg.norm(Z, "nuc")


def bmc_admm_start(V, C, observed, rho, low, high):
    """Z constant in the middle of the range, X between it and the ratings, no multipliers."""
    Z = np.full(V.shape, (low + high) / 2)
    return (
        Z,
        np.where(observed, (C * V + rho * Z) / (C + rho), 0.0),
        np.where(observed, 0.0, Z),
        Z,
        np.zeros(V.shape),
        np.zeros(V.shape),
    )


def bmc_admm_step(V, C, observed, state, penalty, rho, low, high):
    """One iteration on dense matrices: Z, then X and E, T, and both multipliers."""
    _, X, E, T, Y1, Y2 = state
    Z = singular_value_threshold(0.5 * (X + E + T + (Y1 - Y2) / rho), penalty / (2 * rho))
    X = np.where(observed, (C * V + rho * Z - Y1) / (C + rho), 0.0)
    E = np.where(observed, 0.0, Z - Y1 / rho)
    T = np.clip(Z + Y2 / rho, low, high)
    return Z, X, E, T, Y1 + rho * (X + E - Z), Y2 + rho * (Z - T)


def bounded_completion(V, C, penalty, low, high, n_iter=4000):
    """The same problem by another method, Davis and Yin's three-operator splitting; the answer is in range."""
    step = 1.0 / C.max()
    y = np.full(V.shape, (low + high) / 2)
    for _ in range(n_iter):
        inside = np.clip(y, low, high)
        y = y - inside + singular_value_threshold(2 * inside - y - step * C * (inside - V), step * penalty)
    return np.clip(y, low, high)


# --- model files (docs/model-files.md) ----------------------------------------------------------------------


def file_checksum(content, chunk):
    """SHA-256 of prefix and header with 64 zeros for the checksum, and of each chunk's CRC-32, little-endian."""
    start = 8 + int.from_bytes(content[:8], "little")
    sealed = re.sub(rb'"checksum":"\w+"', b'"checksum":"' + b"0" * 64 + b'"', content[:start])
    for first in range(start, len(content), chunk):
        sealed += struct.pack("<I", zlib.crc32(content[first : first + chunk]))
    return hashlib.sha256(sealed).hexdigest()


# --- ranking --------------------------------------------------------------------------------------------------------


def ranking(held_out, lists, k):
    """NDCG, recall, precision, reciprocal rank, average precision and hit at k of each user with a list.

    held_out is {user: {item: gain}}, lists {user: [item, …]}; the answer {user: [six figures]}, None for an NDCG that
    no order can change.
    """
    found = {}
    for user, gains in held_out.items():
        if user not in lists:
            continue
        top = lists[user][:k]
        hits = [item in gains for item in top]
        ideal = sum(g / np.log2(rank + 2) for rank, g in enumerate(sorted(gains.values(), reverse=True)[:k]))
        dcg = sum(gains.get(item, 0) / np.log2(rank + 2) for rank, item in enumerate(top))
        found[user] = [
            dcg / ideal if ideal > 0 else None,
            sum(hits) / len(gains),
            sum(hits) / k,
            1 / (hits.index(True) + 1) if any(hits) else 0,
            sum(sum(hits[: r + 1]) / (r + 1) for r, hit in enumerate(hits) if hit) / min(k, len(gains)),
            float(any(hits)),
        ]
    return found


def means_of_users(found):
    """The mean of each figure over the users who have it; None where nobody has."""
    columns = [[one for one in column if one is not None] for column in zip(*found.values(), strict=True)]
    return [float(np.mean(column)) if column else None for column in columns]


def shares(pairs):
    """The share of users who chose each item, of a set of pairs."""
    users = {user for user, _ in pairs}
    return {item: sum(other == item for _, other in set(pairs)) / len(users) for _, item in pairs}


def novelty(pairs, lists):
    """Mean of −log₂ of the share over the items of each list, [item, …] without what pads; None for an empty one."""
    share, n_users = shares(pairs), len({user for user, _ in pairs})
    return [float(np.mean([-np.log2(share.get(item, 1 / n_users)) for item in one])) if one else None for one in lists]


def popularity_bias(pairs, lists):
    """Mean popularity of the lists, {user: [item, …]}, over that of what the same users chose, less 1."""
    share, in_lists, in_profiles = shares(pairs), [], []
    for user, one in lists.items():
        chosen = [item for other, item in set(pairs) if other == user]
        if chosen and one:
            in_lists.append(np.mean([share.get(item, 0.0) for item in one]))
            in_profiles.append(np.mean([share[item] for item in chosen]))
    return float(np.mean(in_lists) / np.mean(in_profiles) - 1) if in_lists else None


def cosine(one, other):
    """The cosine of two vectors; 0 where one is zero."""
    size = np.linalg.norm(one) * np.linalg.norm(other)
    return float(one @ other / size) if size else 0.0


def diversity(lists, vectors):
    """Mean of 1 − cosine over the pairs of items of each list; None where there is no pair."""
    found = []
    for one in lists:
        pairs = [(a, b) for place, a in enumerate(one) for b in one[:place]]
        found.append(float(np.mean([1 - cosine(vectors[a], vectors[b]) for a, b in pairs])) if pairs else None)
    return found


def rerank(items, scores, vectors, n, diversity):
    """Greedy marginal relevance of one list, without what pads it; vectors is {item: vector}."""
    low, width = min(scores, default=0), (max(scores, default=0) - min(scores, default=0)) or 1.0
    left, chosen = list(range(len(items))), []
    while left and len(chosen) < n:

        def worth(place):
            relevance = (scores[place] - low) / width
            if not chosen:
                return relevance
            nearest = max(cosine(vectors[items[place]], vectors[items[other]]) for other in chosen)
            return (1 - diversity) * relevance - diversity * nearest

        best = max(left, key=worth)
        left.remove(best)
        chosen.append(best)
    return [items[place] for place in chosen]


# --- splits by time -------------------------------------------------------------------------------------------------


def latest(times, n):
    """Positions of the n latest, equal times in the order of the list."""
    return set(sorted(range(len(times)), key=lambda p: (times[p], p))[len(times) - n :])


# --- top-N -----------------------------------------------------------------------------------------------------------


def top_n(scores, seen, n):
    """The n best columns of each row by a full sort, equal scores by column, without the pairs that were seen."""
    lists = []
    for row, row_scores in enumerate(scores):
        columns = [column for column in range(len(row_scores)) if (row, column) not in seen]
        lists.append(sorted(columns, key=lambda column: (-row_scores[column], column))[:n])
    return lists


# --- ranges of pairs' own ---------------------------------------------------------------------------------------------


def share_of_range(v, lower, upper):
    """t in [−1, 1] of a rating in its range; 0 where there is no width."""
    centre, half = (lower + upper) / 2, (upper - lower) / 2
    return (v - centre) / half if half > 0 else 0.0


def share_weights(lower, upper, weights, p):
    """d^(2−2p) of each rating, 0 where there is no width, divided by the weighted mean of those with one."""
    raw = [((hi - lo) / 2) ** (2 - 2 * p) if hi > lo else 0.0 for lo, hi in zip(lower, upper, strict=True)]
    counted = [w if hi > lo else 0.0 for lo, hi, w in zip(lower, upper, weights, strict=True)]
    mean = sum(w * r for w, r in zip(counted, raw, strict=True)) / sum(counted)
    return np.array([w * r / mean for w, r in zip(counted, raw, strict=True)])


def rating_errors(V, Z, W, H):
    """v − w·h of each observed pair, row by row."""
    return np.array([V[i, j] - W[i] @ H[:, j] for i in range(len(V)) for j in range(V.shape[1]) if Z[i, j]])


def growth_log_density(p, half, weights, errors, prior, guess):
    """log ∫ Gamma(α) Π N(e; 0, 1/(α c ω)) dα but for a constant: the noise integrated out by quadrature."""
    wide = half > 0
    omega = half[wide] ** (2 - 2 * p)
    omega = omega / (np.sum(weights[wide] * omega) / np.sum(weights[wide]))
    squares, n = np.sum(weights[wide] * omega * errors[wide] ** 2), np.sum(weights[wide])
    rate = (prior * guess + squares) / 2
    log_alpha = np.linspace(np.log((n + prior) / 2 / rate) - 30, np.log((n + prior) / 2 / rate) + 5, 40_001)
    terms = (n + prior) / 2 * log_alpha - np.exp(log_alpha) * rate
    integral = np.log(np.sum(np.exp(terms - terms.max()))) + terms.max()
    return 0.5 * np.sum(weights[wide] * np.log(omega)) + integral


def bend(t, slack):
    """φ, by the formula, one number at a time: the identity up to a, then led to ±1 at ±slack."""
    if slack == 1:
        return t
    a = min(0.8, (20 - slack) / 19)
    p = (slack - a) / (1 - a)
    if abs(t) <= a:
        return t
    x = (slack - abs(t)) / (slack - a)
    return np.sign(t) * (1 - (1 - a) * x / (p - (p - 1) * x))


def lead(z, reach, below, above):
    """ψ, one number at a time: each tail into its own end."""
    room = above if z >= 0 else below
    return z if reach <= room else room * bend(z / room, reach / room)


def unlead(y, reach, below, above):
    """ψ⁻¹ by bisection of ψ."""
    low, high = -reach, reach
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if lead(middle, reach, below, above) < y else (low, middle)
    return (low + high) / 2


# --- side information and noise of rows' own --------------------------------------------------------------------------


def sparse_product(indptr, indices, values, dense):
    """A sparse matrix in row order times a dense one."""
    out = np.zeros((len(indptr) - 1, dense.shape[1]))
    for i in range(len(out)):
        for p in range(indptr[i], indptr[i + 1]):
            out[i] += values[p] * dense[indices[p]]
    return out


def link_solution(F, strengths, right):
    """(FᵀF + Λ)⁻¹ of the right side, densely; a strength for each feature."""
    return np.linalg.solve(F.T @ F + np.diag(strengths), right)


def rated_set(row, columns):
    """1/√n at each of the n of some columns that a row has with a weight above 0; the row is {column: weight}."""
    counted = [column in row and row[column] > 0 for column in columns]
    return np.array(counted) / np.sqrt(max(sum(counted), 1))


def row_noise_rates(users, squares, others, alike, n_users):
    """(ν + Σ_j α c_ij b_j e_ij²)/2 of each user; squares are α c e² of each rating, others its b_j."""
    total = np.full(n_users, float(alike))
    for user, square, other in zip(users, squares, others, strict=True):
        total[user] += square * other
    return total / 2


def priors_and_rows(F, groups, rated, radius, n_draws, rng):
    """One side of the model from its prior, many times: m, P, λ, B and the rows, of which all lie in the ball.

    P ~ Wishart(D, I), m ~ N(0, (2P)⁻¹), λ ~ Gamma(1, 1) for each group, B_f ~ N(0, (λP)⁻¹), x_i ~ N(m + Bᵀf_i, P⁻¹),
    for D = 2. Draws with a rated row outside are rejected whole, hyper-parameters included; rows that nobody rated tell
    nothing of the prior, and are drawn until they are inside.
    """
    found, n_found = [], 0
    n_rows, group = len(F), np.repeat(np.arange(len(groups)), groups)
    while n_found < n_draws:
        n = 20_000
        # Bartlett: P = A Aᵀ with A = [[√χ²₂, 0], [N, √χ²₁]]
        A = np.zeros((n, 2, 2))
        A[:, 0, 0], A[:, 1, 1] = np.sqrt(rng.chisquare(2, n)), np.sqrt(rng.chisquare(1, n))
        A[:, 1, 0] = rng.standard_normal(n)
        root = np.linalg.inv(A).transpose(0, 2, 1)  # root rootᵀ = P⁻¹

        def normal(size, root=root):
            return np.einsum("nij,nkj->nki", root, rng.standard_normal((len(root), size, 2)))

        m = normal(1)[:, 0] / np.sqrt(2)
        strengths = rng.gamma(1.0, size=(n, len(groups)))
        B = normal(len(group)) / np.sqrt(strengths[:, group, None])
        centres = m[:, None] + np.einsum("if,nfk->nik", F, B)
        x = centres + normal(n_rows)
        inside = np.linalg.norm(x, axis=2) <= radius
        kept = inside[:, rated].all(axis=1)
        A, root, m, strengths, B, centres, x = (each[kept] for each in (A, root, m, strengths, B, centres, x))
        inside = inside[kept] | rated
        for number, row in zip(*np.nonzero(~inside), strict=True):
            while np.linalg.norm(x[number, row]) > radius:
                tries = centres[number, row] + rng.standard_normal((100, 2)) @ root[number].T
                x[number, row] = tries[np.argmax(np.linalg.norm(tries, axis=1) <= radius)]
        found.append((m, A @ A.transpose(0, 2, 1), strengths, B, x))
        n_found += len(m)
    return tuple(np.concatenate(each)[:n_draws] for each in zip(*found, strict=True))


def explained_inner(ratings, weights, rated, variance, radius, item, mean, precision, shifts):
    """What somebody typical gets of an item, and what each rating and each shift of the prior adds, one by one.

    Each part is the change of the row's mean where the others are left out: as they are all linear, they add up.
    """
    A = precision.copy()
    for phi, weight in zip(rated, weights, strict=True):
        A = A + weight / variance * radius**2 * np.outer(phi, phi)
    usual, parts = radius * item @ mean, []
    for phi, rating, weight in zip(rated, ratings, weights, strict=True):
        moved = np.linalg.inv(A) @ (weight / variance * radius * (rating - radius * phi @ mean) * phi)
        parts.append(radius * item @ moved)
    parts += [radius * item @ np.linalg.inv(A) @ precision @ shift for shift in shifts]
    return usual, np.array(parts)


def all_pairs_loss(C, p, alpha, ridge, W, H, user_means=None, item_means=None):
    """Least squares over all pairs, term by term; C has a confidence where somebody chose something, else 0.

    N counts the users who chose something, and n the confidence of a row. Rows are drawn to their means, or to 0.
    """
    N = np.count_nonzero(C.any(axis=1))
    total = 0.0
    apart_w = W if user_means is None else W - user_means
    apart_h = H if item_means is None else H - item_means
    for i, w in enumerate(W):
        for j, h in enumerate(H):
            total += C[i, j] * (1 - w @ h) ** 2 + alpha * p[j] * (w @ h) ** 2
    for i, w in enumerate(apart_w):
        total += ridge * (alpha * p.sum() + C[i].sum()) * (w @ w)
    for j, h in enumerate(apart_h):
        total += ridge * (alpha * p[j] * N + C[:, j].sum()) * (h @ h)
    return total


def all_pairs_row(c, p, alpha, ridge, H, mean=0.0):
    """A and b of one user's row, from every pair: an observed one asks for 1 by c, and every one for 0 by alpha p.

    The penalty draws it to its mean.
    """
    penalty = ridge * (alpha * p.sum() + c.sum())
    A = penalty * np.eye(H.shape[1])
    b = penalty * mean + np.zeros(H.shape[1])
    for j, h in enumerate(H):
        A += (c[j] + alpha * p[j]) * np.outer(h, h)
        b += c[j] * h
    return A, b


def all_pairs_item_row(c, own_p, alpha, ridge, W, n_users, mean=0.0):
    """The same of one item's row."""
    penalty = ridge * (alpha * own_p * n_users + c.sum())
    A = penalty * np.eye(W.shape[1])
    b = penalty * mean + np.zeros(W.shape[1])
    for i, w in enumerate(W):
        A += (c[i] + alpha * own_p) * np.outer(w, w)
        b += c[i] * w
    return A, b


def feature_regression(F, counts, W, strength):
    """B of the rows that count on their features, beside the mean of these; that mean; and what B's penalty counts.

    Least squares as they are: a row for each row of W, scaled by the root of what it counts, and one for each feature
    that asks for 0.
    """
    there = counts > 0
    mean = np.average(F[there], axis=0, weights=counts[there])
    penalty = strength * np.mean(counts[there] * (F[there] ** 2).sum(axis=1))
    roots = np.sqrt(counts[there])[:, None]
    left = np.vstack([roots * (F[there] - mean), np.sqrt(penalty) * np.eye(F.shape[1])])
    right = np.vstack([roots * W[there], np.zeros((F.shape[1], W.shape[1]))])
    return np.linalg.lstsq(left, right, rcond=None)[0], mean, penalty


def conditional_row(side, other, prior, precision, row, shift):
    """Mean (with the held coordinate) and covariance (without) of a row's conditional, the ball left out of account."""
    csr, r, held = side.csr, side.radius[row], side.held
    entries = slice(csr.indptr[row], csr.indptr[row + 1])
    rated = other.factors[csr.indices[entries]].astype(float)
    c = precision * (csr.weights[entries].astype(float) if csr.weights.size else np.ones(len(rated)))
    own = float(side.factors[row, held])
    H, left = np.delete(rated, held, axis=1), csr.data[entries] - own * rated[:, held]
    Q = prior.precision + r * r * (H.T * c) @ H
    x = np.linalg.solve(Q, prior.precision @ (prior.mean + shift) + r * H.T @ (c * left))
    return np.insert(r * x, held, own), r * r * np.linalg.inv(Q)


def towards_zero(x):
    """The float16 that is nearest to x among those no larger in size: eleven binary digits, none below 2⁻²⁴."""
    size = min(abs(float(x)), 65504.0)
    step = 2.0 ** (max(np.frexp(size)[1] - 1, -14) - 10)
    return np.copysign(np.floor(size / step) * step, x)
