"""The same least squares over all pairs as `ImplicitMBMF`, without the ball, to see what the bound costs.

    F = Σ_obs (1 − w_i·h_j)² + α Σ_all (w_i·h_j)² + λ [Σ_i (αM + n_i)‖w_i‖² + Σ_j (αN + n_j)‖h_j‖²]

A row is the plain solution of (Σ_obs hhᵀ + α HᵀH + λ(αM + n)I) w = Σ_obs h, where M counts the items that somebody
chose, and N the users who chose something. In NumPy, rows with equally many clicks together.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix

from boundrec.arrays import Floats
from boundrec.models.implicit import SWEEPS
from boundrec.solvers.exact import SPREAD

#: Numbers held at a time, of what is gathered for rows or of their matrices.
AT_A_TIME = 1 << 21


def alternate(
    clicks: csr_matrix, n_factors: int, weight: float, ridge: float, seed: int, sweeps: int = SWEEPS
) -> tuple[Floats, Floats]:
    """Rows of users and items after so many sweeps, items first, from the start that `ImplicitMBMF` has."""
    rng = np.random.default_rng(seed)
    W, H = (SPREAD * rng.standard_normal((n_rows, n_factors)) for n_rows in clicks.shape)
    by_item = clicks.T.tocsr()
    W[np.diff(clicks.indptr) == 0], H[np.diff(by_item.indptr) == 0] = 0.0, 0.0
    for _ in range(sweeps):
        H = solve_rows(by_item, W, weight, ridge)
        W = solve_rows(clicks, H, weight, ridge)
    return W, H


def solve_rows(clicks: csr_matrix, fixed: Floats, weight: float, ridge: float) -> Floats:
    """Every row of one side, given the other; zeros for whoever has no clicks."""
    n_factors, n_fixed = fixed.shape[1], np.count_nonzero(fixed.any(axis=1))
    everybody, identity = weight * fixed.T @ fixed, np.eye(n_factors)
    found, counts = np.zeros((clicks.shape[0], n_factors)), np.diff(clicks.indptr)
    for n in np.unique(counts[counts > 0]).tolist():
        alike = np.flatnonzero(counts == n)
        penalty = ridge * (weight * n_fixed + n) * identity
        step = max(1, AT_A_TIME // (n_factors * max(n, n_factors)))
        for rows in (alike[start : start + step] for start in range(0, len(alike), step)):
            chosen = fixed[clicks.indices[clicks.indptr[rows][:, None] + np.arange(n)]]
            A = chosen.transpose(0, 2, 1) @ chosen + everybody + penalty
            found[rows] = np.linalg.solve(A, chosen.sum(axis=1)[:, :, None])[:, :, 0]
    return found
