"""Gibbs draws of one side, and the samples that are kept of both.

What is kept of a sweep is not the drawn rows but the means they were drawn around, E[w_i | H, …] and E[h_j | W, …]
(Rao and Blackwell). For a pair that was not rated the two rows are drawn independently of each other given the rest,
so the product of their means has the same expectation as that of the draws, at a fraction of the variance: few
samples then predict as well as many. The mean of a distribution within a ball lies in the ball: the bound holds.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import wishart

from boundrec.models.base import Floats, Side
from boundrec.models.exact import HELD_SHARE, free_part, put_back
from boundrec.parallel import RowPool

#: Strength of the priors, in observations: of the mean of rows, of the noise.
PRIOR_ROWS, PRIOR_NOISE = 2.0, 1.0


class Prior(NamedTuple):
    """Normal prior of the free part of a side's rows, in units of their magnitudes."""

    mean: Floats
    precision: Floats


class Conditional(NamedTuple):
    """What the rows of a side were drawn from: their prior, and where asked for their means and variances.

    ``rows`` has all coordinates, the held one included; ``spread`` has the variance of the bias, and of each other
    coordinate on average.
    """

    prior: Prior
    rows: Floats
    spread: Floats


def sample_side(
    side: Side, other: Side, precision: float, pool: RowPool, rng: np.random.Generator, with_means: bool
) -> Conditional:
    """Draw the prior of the rows, then every row, given the other side."""
    prior = draw_prior(np.delete(side.factors, held_by(side), axis=1) / side.radius[:, None], rng)
    return draw_rows(side, other, prior, precision, pool, rng, with_means)


def draw_rows(
    side: Side, other: Side, prior: Prior, precision: float, pool: RowPool, rng: np.random.Generator, with_means: bool
) -> Conditional:
    """Draw every row of a side given its prior and the other side."""
    from boundrec.kernels import sample_rows

    free, features = free_part(side, other, pool)
    held = held_by(side)
    means = np.empty_like(free.factors) if with_means else np.empty((0, free.factors.shape[1]))
    spread = np.empty((len(means), 2))
    ball = side.radius, float(np.sqrt(1 - HELD_SHARE))
    weighed = prior.precision, prior.precision @ prior.mean
    key = rng.integers(2**64, dtype=np.uint64)
    out, width = (free.factors, means, spread), features.shape[1]
    pool.run(sample_rows, free.csr.indptr, free.csr, features, ball, weighed, precision, key, out, width=width)
    put_back(free, side)
    rows = np.insert(means, held, side.factors[:, held], axis=1) if with_means else means
    return Conditional(prior, rows, spread)


def draw_prior(rows: Floats, rng: np.random.Generator) -> Prior:
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
    return Prior(np.asarray(mean), np.asarray(P))


class Sample(NamedTuple):
    """One state of the sampler: both sides, what they were drawn from, the variance of the noise."""

    users: Side
    items: Side
    of_users: Conditional
    of_items: Conditional
    variance: float


def held_by(side: Side) -> int:
    """The coordinate that a side holds; every side of this sampler holds one."""
    assert side.held is not None
    return side.held


class KeptSide:
    """The kept samples of one side: their factors beside each other, their biases, their spread and their priors."""

    def __init__(self, n_rows: int, n_factors: int, n_kept: int, held: int, dtype: Any) -> None:
        self._factors = np.zeros((n_rows, 2 + n_factors * n_kept), dtype)
        self._biases = np.zeros((n_rows, n_kept), dtype)
        self._spread = np.zeros((n_rows, 2))
        self._priors: list[Prior] = []
        self._n_factors, self._held, self._bias = n_factors, held, 1 - held

    def add(self, side: Side, conditional: Conditional) -> None:
        """One more sample; a draw stands for its mean where that was not asked for."""
        rows = conditional.rows if len(conditional.rows) else side.factors
        k = len(self._priors)
        first = 2 + self._n_factors * k
        self._factors[:, first : first + self._n_factors] = rows[:, 2:]
        self._factors[:, self._held] = rows[:, self._held]
        self._biases[:, k] = rows[:, self._bias]
        if len(conditional.spread):
            self._spread += conditional.spread
        self._priors.append(conditional.prior)

    def take_over(self, stacked: Any, biases: Any, spread: Any, prior: Prior) -> None:
        """The samples of an earlier model, as they were stacked there."""
        n = biases.shape[1]
        self._factors[:, : stacked.shape[1]] = stacked
        self._factors[:, 2 : stacked.shape[1]] *= np.sqrt(n)
        self._biases[:, :n] = biases
        self._spread += n * spread
        self._priors += [Prior(mean, P) for mean, P in zip(*prior, strict=True)]

    def biases(self) -> NDArray[np.floating]:
        """The bias of each row in each sample."""
        return self._biases[:, : len(self._priors)]

    def spread(self) -> NDArray[np.floating]:
        """Variance of the bias and of another coordinate of each row, averaged over the samples."""
        return (self._spread / len(self._priors)).astype(self._factors.dtype)

    def priors(self) -> Prior:
        """The priors of all samples, along a first axis."""
        return Prior(np.array([p.mean for p in self._priors]), np.array([p.precision for p in self._priors]))

    def stacked(self) -> NDArray[np.floating]:
        """The rows of the mean model: its mean bias, its held coordinate, and u¹/√S, …, u^S/√S. Call it once."""
        factors = self._factors[:, : 2 + self._n_factors * len(self._priors)]
        factors[:, 2:] /= np.sqrt(len(self._priors))
        factors[:, self._bias] = self.biases().mean(axis=1, dtype=np.float64)
        return factors


class Rows(NamedTuple):
    """Factors of one side, stacked or of one sample, with those of somebody unknown: the priors' own.

    ``unknown`` and ``unknown_spread`` (variance of the bias, and of another coordinate) are in units of the magnitude.
    """

    factors: NDArray[np.floating]
    unknown: Floats
    unknown_spread: Floats

    @classmethod
    def of(cls, factors: NDArray[np.floating], prior: Prior, held: int) -> Rows:
        """From factors and the prior, or the priors of all their samples."""
        means = np.atleast_2d(prior.mean)
        norms = np.maximum(np.linalg.norm(means, axis=1), np.finfo(float).tiny)
        means = means * np.minimum(1.0, np.sqrt(1 - HELD_SHARE) / norms)[:, None]
        row = np.empty(factors.shape[1])
        row[held], row[1 - held] = np.sqrt(HELD_SHARE), means[:, 0].mean()
        row[2:] = (means[:, 1:] / np.sqrt(len(means))).ravel()
        variances = np.diagonal(np.linalg.inv(prior.precision), axis1=-2, axis2=-1)
        return cls(factors, row, np.array([variances[..., 0].mean(), variances[..., 1:].mean()]))

    def take(self, codes: NDArray[np.int64], unknown_magnitude: float) -> Floats:
        """The rows of these numbers, where −1 is somebody unknown."""
        rows = self.factors[codes].astype(np.float64)
        rows[codes < 0] = unknown_magnitude * self.unknown
        return rows


class Kept:
    """Which sweeps are kept, and what was kept of them."""

    def __init__(self, sweeps: set[int], users: KeptSide, items: KeptSide) -> None:
        self.sweeps = sweeps
        self.users, self.items = users, items
        self.variances: list[float] = []

    def add(self, sample: Sample) -> None:
        """Keep one sample."""
        self.users.add(sample.users, sample.of_users)
        self.items.add(sample.items, sample.of_items)
        self.variances.append(sample.variance)
