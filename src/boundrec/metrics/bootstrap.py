"""How far a mean over users can be believed: confidence intervals by drawing users again, with replacement.

The users whose lists were measured are a sample, and another sample would have given another mean. The bootstrap draws
as many users from them as there are, over and over, and looks at how far the means lie apart (Efron, 1979).
"""

from numbers import Real
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from boundrec.metrics.checks import Numbers, finite, numbers

#: Draws of users held in memory at a time.
AT_A_TIME = 1 << 20


class Interval(NamedTuple):
    """A mean over users, and where it may as well have been."""

    mean: float
    low: float
    high: float


def bootstrap_means(values: ArrayLike, n_resamples: int = 1000, random_state: int = 0) -> Numbers:
    """Means over users drawn again: one for each resample of as many users, with replacement.

    With the same ``random_state``, resamples of two arrays of the same users draw the same ones: differences of their
    means are those of paired resamples.

    Parameters
    ----------
    values : array of float
        One value for each user, such as a column of `measure_lists`; NaN, who says nothing, is left out.
    n_resamples : int
        How many times the users are drawn.
    random_state : int
        Seed.
    """
    told = _told(values, "values")
    if not isinstance(n_resamples, int | np.integer) or n_resamples < 1:
        raise ValueError(f"n_resamples={n_resamples!r}: pass a whole number from 1.")
    rng, n = np.random.default_rng(random_state), told.size
    step = max(1, AT_A_TIME // n)
    sizes = [min(step, n_resamples - start) for start in range(0, n_resamples, step)]
    return np.concatenate([told[rng.integers(0, n, (size, n))].mean(axis=1) for size in sizes])


def bootstrap_interval(
    values: ArrayLike, level: float = 0.95, n_resamples: int = 1000, random_state: int = 0
) -> Interval:
    """The mean of a measure over users, and its confidence interval: quantiles (1 ± level) / 2 of `bootstrap_means`.

    Parameters
    ----------
    values, n_resamples, random_state
        As in `bootstrap_means`.
    level : float
        How sure to be, above 0 and below 1.

    Returns
    -------
    Interval
        mean, low, high.
    """
    means = bootstrap_means(values, n_resamples, random_state)
    return _interval(float(np.nanmean(numbers(values, "values"))), means, level)


def bootstrap_difference(
    values: ArrayLike, others: ArrayLike, level: float = 0.95, n_resamples: int = 1000, random_state: int = 0
) -> Interval:
    """By how much two kinds of lists of the same users differ: mean(values − others), and its confidence interval.

    Users are drawn in pairs: who is hard to please is so for both, and that cancels. Where the interval has 0 inside,
    the difference may be chance.

    Parameters
    ----------
    values, others : array of float
        The same measure of two kinds of lists, in the same order of users; whoever is NaN in either is left out.
    level, n_resamples, random_state
        As in `bootstrap_interval`.
    """
    one, other = numbers(values, "values"), numbers(others, "others")
    if one.shape != other.shape:
        raise ValueError(f"{one.size:,} values and {other.size:,} others. Pass measures of the same users.")
    return bootstrap_interval(one - other, level, n_resamples, random_state)


def _interval(mean: float, means: Numbers, level: float) -> Interval:
    if not isinstance(level, Real) or not 0 < level < 1:
        raise ValueError(f"level={level!r}: pass a number above 0 and below 1, such as 0.95.")
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return Interval(mean, float(low), float(high))


def _told(values: ArrayLike, name: str) -> Numbers:
    """The values that are not NaN, in their order."""
    array = numbers(values, name)
    if array.ndim != 1:
        raise ValueError(f"{name} has shape {array.shape}. Pass one value for each user.")
    told = array[~np.isnan(array)]
    if not told.size:
        raise ValueError(f"{name} has no number. Pass a measure of at least one user.")
    return finite(told, name)
