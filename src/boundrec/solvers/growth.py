"""How noise grows with the width of a pair's own range: standard deviation in proportion to d^p, and p learnt.

A rating's squared error, on the scale that a model factorises, counts ω = d^(2−2p) (:mod:`boundrec.ranges.scale`). With
errors e, own weights c and the noise integrated out, and p uniform between 0 and 1, the log density of p is

    ½ Σ c log ω − ½ (n + n₀) log(n₀σ₀² + Σ c ω e²),   n = Σ c,   ω divided by its mean
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from boundrec.arrays import Floats

#: Where p is looked for, and how finely where the most likely one is asked for.
LEAST, MOST, STEPS = 0.0, 1.0, 100
#: A slice that has not been hit after so many steps is as narrow as rounding: p stays where it is.
MOST_STEPS = 100


class NoiseGrowth:
    """The widths of some ratings, each of which there is only once, and what errors say of p.

    Parameters
    ----------
    half
        The half-width of each rating's range, in units of D; those of no width are left out of everything.
    counts
        The own weight of each rating.
    prior, guess
        n₀ and σ₀²: how many ratings the guess of the noise's variance counts for.
    """

    def __init__(self, half: Floats, counts: NDArray[np.floating], prior: float = 0.0, guess: float = 0.0) -> None:
        widths, self._place = np.unique(half, return_inverse=True)
        self._log = np.log(np.where(widths > 0, widths, 1.0))
        self._wide = widths > 0
        self._own = np.where(half > 0, counts, 0.0)
        self._counts = np.bincount(self._place, self._own)
        self._n, self._prior, self._guess = float(self._counts.sum()), prior, guess

    def mean_weight(self, p: float) -> float:
        """The mean of d^(2−2p) over the ratings."""
        return float(self._counts @ np.exp((2 - 2 * p) * self._log)) / self._n

    def weights(self, p: float) -> Floats:
        """What each rating counts where noise grows so, its own weight included."""
        levels = np.where(self._wide, np.exp((2 - 2 * p) * self._log), 0.0) / self.mean_weight(p)
        return np.asarray(self._own * levels[self._place])

    def by_width(self, squares: Floats) -> Floats:
        """Σ c e² over the ratings of each width: all that p depends on; ``squares`` are the e²."""
        return np.asarray(np.bincount(self._place, self._own * squares), np.float64)

    def log_density(self, p: float, squares: Floats) -> float:
        """The formula above."""
        mean = self.mean_weight(p)
        log_weights = (2 - 2 * p) * self._log - np.log(mean)
        total = self._prior * self._guess + float(squares @ np.exp(log_weights))
        fit = (self._n + self._prior) * np.log(max(total, np.finfo(float).tiny))
        return float(0.5 * (self._counts @ log_weights - fit))

    def most_likely(self, errors: Floats) -> float:
        """The p with the highest density, to a hundredth."""
        squares, candidates = self.by_width(errors**2), np.linspace(LEAST, MOST, STEPS + 1)
        return float(candidates[np.argmax([self.log_density(p, squares) for p in candidates])])

    def draw(self, p: float, squares: Floats, rng: np.random.Generator) -> float:
        """p from its conditional given each e², by one step of slice sampling from the present one (Neal 2003)."""
        squares = self.by_width(squares)
        level = self.log_density(p, squares) - rng.exponential()
        low, high = LEAST, MOST
        for _ in range(MOST_STEPS):
            proposed = rng.uniform(low, high)
            if self.log_density(proposed, squares) >= level:
                return float(proposed)
            low, high = (proposed, high) if proposed < p else (low, proposed)
        return p
