"""Gibbs draws of one side, and the samples that are kept of both."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import wishart

from boundrec.models.base import Floats, Side
from boundrec.models.exact import HELD_BY_ITEMS, HELD_BY_USERS, HELD_SHARE, free_part, put_back
from boundrec.parallel import RowPool

#: Strength of the priors, in observations: of the mean of rows, of the noise.
PRIOR_ROWS, PRIOR_NOISE = 2.0, 1.0


def sample_side(side: Side, other: Side, precision: float, pool: RowPool, rng: np.random.Generator) -> Floats:
    """Draw the prior of the rows, then every row, given the other side; returns the prior's mean."""
    from boundrec.kernels import sample_rows

    free, features = free_part(side, other, pool)
    mean, P = draw_prior(free.factors / side.radius[:, None], rng)
    ball = side.radius, float(np.sqrt(1 - HELD_SHARE))
    key = rng.integers(2**64, dtype=np.uint64)
    pool.run(sample_rows, free.csr.indptr, free.csr, features, ball, (P, P @ mean), precision, key, free.factors)
    put_back(free, side)
    return mean


def draw_prior(rows: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Mean and precision of the rows' prior, from their Normal-Wishart conditional (β₀ = 2, ν₀ = D, W₀ = I).

    Sums are einsum's plain loops: threaded products would change bits with the number of threads.
    """
    n, d = rows.shape
    centre = np.einsum("ni->i", rows) / n
    apart = rows - centre
    scatter = np.einsum("ni,nj->ij", apart, apart)
    shrunk = PRIOR_ROWS * n / (PRIOR_ROWS + n) * np.outer(centre, centre)
    P = np.atleast_2d(wishart.rvs(d + n, np.linalg.inv(np.eye(d) + scatter + shrunk), random_state=rng))
    root = np.linalg.cholesky((PRIOR_ROWS + n) * P)
    mean = n * centre / (PRIOR_ROWS + n) + np.linalg.solve(root.T, rng.standard_normal(d))
    return np.asarray(mean), np.asarray(P)


class Sample(NamedTuple):
    """One state of the sampler: both sides, the means of their priors, the variance of the noise."""

    users: Side
    items: Side
    user_mean: Floats
    item_mean: Floats
    variance: float


class KeptSide:
    """The kept samples of one side: their factors beside each other, and their biases."""

    def __init__(self, n_rows: int, n_factors: int, n_kept: int, held: int, dtype: Any) -> None:
        self._factors = np.zeros((n_rows, 2 + n_factors * n_kept), dtype)
        self._biases = np.zeros((n_rows, n_kept), dtype)
        self._means: list[Floats] = []
        self._n_factors, self._held, self._bias = n_factors, held, 1 - held

    def add(self, side: Side, mean: Floats) -> None:
        """One more sample."""
        k = len(self._means)
        first = 2 + self._n_factors * k
        self._factors[:, first : first + self._n_factors] = side.factors[:, 2:]
        self._factors[:, self._held] = side.factors[:, self._held]
        self._biases[:, k] = side.factors[:, self._bias]
        self._means.append(mean)

    def kept_biases(self) -> NDArray[np.floating]:
        """The bias of each row in each sample."""
        return self._biases[:, : len(self._means)]

    def stacked(self) -> NDArray[np.floating]:
        """The rows of the mean model: its mean bias, its held coordinate, and u¹/√S, …, u^S/√S. Call it once."""
        factors = self._factors[:, : 2 + self._n_factors * len(self._means)]
        factors[:, 2:] /= np.sqrt(len(self._means))
        factors[:, self._bias] = self.kept_biases().mean(axis=1, dtype=np.float64)
        return factors

    def unknown_row(self) -> Floats:
        """Such a row for somebody unknown, in units of the magnitude: the prior means, kept inside the ball."""
        means = np.array(self._means)
        norms = np.maximum(np.linalg.norm(means, axis=1), np.finfo(float).tiny)
        means *= np.minimum(1.0, np.sqrt(1 - HELD_SHARE) / norms)[:, None]
        row = np.empty(2 + self._n_factors * len(means))
        row[self._held] = np.sqrt(HELD_SHARE)
        row[self._bias] = means[:, 0].mean()
        row[2:] = (means[:, 1:] / np.sqrt(len(means))).ravel()
        return row


class Kept:
    """Which sweeps are kept, and what was kept of them."""

    def __init__(self, sweeps: set[int], shape: tuple[int, int, int], dtype: Any) -> None:
        n_users, n_items, n_factors = shape
        self.sweeps = sweeps
        self.variances: list[float] = []
        self.users = KeptSide(n_users, n_factors, len(sweeps), HELD_BY_USERS, dtype)
        self.items = KeptSide(n_items, n_factors, len(sweeps), HELD_BY_ITEMS, dtype)

    @property
    def count(self) -> int:
        """How many samples were kept so far."""
        return len(self.variances)

    def add(self, sample: Sample) -> None:
        """Keep one sample."""
        self.users.add(sample.users, sample.user_mean)
        self.items.add(sample.items, sample.item_mean)
        self.variances.append(sample.variance)
