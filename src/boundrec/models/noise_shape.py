"""How ratings are spread around predictions: the distribution of the training errors, by how noisy their users are.

A normal does where the noise is one for all. Where every user has a noise of their own, those who rate at random are
drawn towards the others by the prior, and their errors are not normal: they lie at both ends of the range. So errors
are told by their quantiles, in each of up to forty groups of users.

Somebody's errors have a part in how noisy they are found to be, and would look smaller beside that than others will.
So every rating is measured by the noise that the other half of its user's ratings tell, with half of the prior's
weight: then both halves are drawn towards the others as far as all are.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from boundrec.arrays import Bools, Codes, Floats
from boundrec.models import answers
from boundrec.models.fitted import Fitted, NoiseShape
from boundrec.solvers.row_noise import USERS_ALIKE, expected

N_QUANTILES = 201
#: As many groups of users as have so many errors each to tell quantiles from, but no more than that.
N_IN_GROUP, MOST_GROUPS = 200, 40
#: Errors that tell of a distribution at least.
FEWEST = 10
#: No error is taken for larger, in standard deviations of the noise: by weights of any size it might be, unsquared.
FARTHEST = 1e100


def shape_of_noise(fitted: Fitted) -> NoiseShape | None:
    """Quantiles of the training errors in their own standard deviations; of all, and by how noisy their users are.

    None where so few ratings count that their errors have no distribution to tell: then they are taken for normal.
    """
    assert fitted.ratings is not None
    ranges = answers.bounded(fitted)
    csr, pairs = ranges.scale.of_ratings(fitted.ratings).by_user, fitted.ratings.pairs()
    counts, weights = csr.that_count(), csr.weights if csr.weights.size else np.ones(csr.data.size)
    if np.count_nonzero(counts) < FEWEST:
        return None
    errors = np.sqrt(weights) * (csr.data - ranges.to_value(_inner(fitted, pairs.users, pairs.items), pairs))
    if fitted.users.steadiness is None:
        return NoiseShape(_quantiles(_in_units(errors[counts]))[None, :], np.empty(0))
    errors *= np.sqrt(fitted.items.mean_steadiness()[pairs.items]) / fitted.found["noise"]
    errors, users = np.clip(errors[counts], -FARTHEST, FARTHEST), pairs.users[counts]
    told = _told_by_others(errors, users, len(fitted.users.ids))
    errors = _in_units(errors * np.sqrt(told))
    n_groups = min(max(errors.size // N_IN_GROUP, 1), MOST_GROUPS)
    shares = np.linspace(0, 1, n_groups + 1)[1:-1]
    group = np.searchsorted(np.quantile(told, shares), told)
    of_all = _quantiles(errors)
    if n_groups == 1:
        return NoiseShape(of_all[None, :], np.empty(0))
    of_groups = [_quantiles(errors[group == one]) if (group == one).any() else of_all for one in range(n_groups)]
    return NoiseShape(np.array([of_all, *of_groups]), np.quantile(fitted.users.mean_steadiness()[users], shares))


def _inner(fitted: Fitted, users: Codes, items: Codes) -> Floats:
    found = np.empty(users.size)
    for start in range(0, users.size, answers.BLOCK):
        block = slice(start, start + answers.BLOCK)
        found[block] = answers.dot_rows(fitted.users.factors[users[block]], fitted.items.factors[items[block]])
    return found


def _told_by_others(errors: Floats, users: NDArray[np.integer], n_users: int) -> Floats:
    """Of each rating: how steady its user is, as far as the half tells to which it does not belong."""
    first: Bools = np.random.default_rng(0).random(errors.size) < 0.5
    by_half: list[Floats] = []
    for half in (first, ~first):
        n: Floats = np.bincount(users[half], minlength=n_users).astype(np.float64)
        squares: Floats = np.bincount(users[half], errors[half] ** 2, minlength=n_users).astype(np.float64)
        by_half.append(expected(n, squares, USERS_ALIKE / 2)[0])
    return np.asarray(np.where(first, by_half[1][users], by_half[0][users]))


def _in_units(errors: Floats) -> Floats:
    """Errors in their root mean square; divided first, as the square of an error that counts much has no number."""
    errors = errors / (np.abs(errors).max() or 1.0)
    return np.asarray(errors / (np.sqrt(np.mean(errors**2)) or 1.0))


def _quantiles(errors: Floats) -> Floats:
    return np.asarray(np.quantile(errors, np.linspace(0, 1, N_QUANTILES)))
