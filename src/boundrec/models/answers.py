"""What a learned model answers: predictions, ranges, standard deviations, quantiles, lists, neighbours.

Functions of a `Fitted` and of row numbers, where −1 is somebody without a training rating. Nothing here is compiled: a
process that only predicts never loads Numba.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from boundrec.arrays import Codes, Floats, Reals
from boundrec.models.fitted import Fitted
from boundrec.ranges import Ranges
from boundrec.solvers.exact import HELD_BY_ITEMS, HELD_BY_USERS
from boundrec.solvers.gibbs import Rows
from boundrec.top_n import Lists, Ranking, most_similar

#: Pairs predicted at a time, so that gathered factors stay in the cache.
BLOCK = 1 << 14


# --- one number for each pair ---------------------------------------------------------------------------------


def predictions(fitted: Fitted, users: Codes, items: Codes) -> Floats:
    """The rating of each pair, inside its own range; whoever is unknown is answered by what is known of the others."""
    answer = np.empty(len(users))
    W, H = fitted.users.factors, fitted.items.factors
    for start in range(0, len(users), BLOCK):
        u, i = users[start : start + BLOCK], items[start : start + BLOCK]
        answer[start : start + BLOCK] = fitted.ranges.to_rating(dot_rows(W[u], H[i]), u, i)
    unknown = (users < 0) | (items < 0)
    if unknown.any():
        answer[unknown] = _of_unknown(fitted, users[unknown], items[unknown])
    # Past rounding nothing is cut but answers for the unknown.
    return np.clip(answer, *fitted.ranges.interval(users, items))


def _of_unknown(fitted: Fitted, users: Codes, items: Codes) -> Floats:
    """The prior mean, where there is a prior; else the known side's mean, or the overall one where neither is known."""
    if fitted.users.prior is not None:
        return fitted.ranges.to_rating(inner_products(*rows_of(fitted), bounded(fitted), users, items), users, items)
    answer = np.where(users >= 0, fitted.users.means[users], np.full(len(users), fitted.mean))
    return np.where(items >= 0, fitted.items.means[items], answer)


def dot_rows(left: Reals, right: Reals) -> Floats:
    """Inner products row by row, summed in float64."""
    products: Floats = np.einsum("ij,ij->i", left, right, dtype=np.float64)
    return products


# --- what a sampler knows ---------------------------------------------------------------------------------------


def deviations(fitted: Fitted, users: Codes, items: Codes) -> Floats | None:
    """Standard deviation of a rating: what samples disagree on, what they leave open, and the noise; None without."""
    if fitted.noise_variances is None:
        return None
    noise, std = fitted.found["noise"], np.empty(len(users))
    for block, samples, within in sampled(fitted, users, items):
        std[block] = np.sqrt(samples.var(axis=1) + within + noise**2)
    return std


def quantiles(fitted: Fitted, users: Codes, items: Codes, wanted: Floats) -> Floats:
    """Quantiles of the rating of each pair, one column for each, inside the pair's range.

    The predictive distribution is a normal around each kept sample's prediction, all of them mixed.
    """
    noise, found = fitted.found["noise"], np.empty((len(users), len(wanted)))
    for block, samples, within in sampled(fitted, users, items):
        found[block] = mixture_quantiles(samples, np.sqrt(within + noise**2), wanted)
    lower, upper = fitted.ranges.interval(users, items)
    return np.clip(found, lower[:, None], upper[:, None])


def sampled(fitted: Fitted, users: Codes, items: Codes) -> Iterator[tuple[slice, Floats, Floats]]:
    """What each kept sample predicts for each pair (a column a sample), and the variance around that, in blocks.

    Rows vary around their means within each sample: for independent rows with variances of their own,
    Var(w·h) = Σ_k var(w_k)E[h_k]² + E[w_k]²var(h_k) + var(w_k)var(h_k). Only the biases' variances and the mean of the
    others' are known.
    """
    ranges, (W_all, H_all) = bounded(fitted), rows_of(fitted)
    b, c, p_all, q_all = fitted.users.biases, fitted.items.biases, fitted.users.spread, fitted.items.spread
    assert b is not None
    assert c is not None
    assert p_all is not None
    assert q_all is not None
    n_kept, room = b.shape[1], np.sqrt(ranges.slack)
    n_factors = (fitted.users.factors.shape[1] - fitted.n_bias_columns) // n_kept
    r, s = room * ranges.unknown_user, room * ranges.unknown_item
    for start in range(0, len(users), BLOCK // 8):
        block = slice(start, start + BLOCK // 8)
        u, i = users[block], items[block]
        W, H = W_all.take(u, r), H_all.take(i, s)
        inner = n_kept * (W[:, 2:] * H[:, 2:]).reshape(len(u), n_kept, n_factors).sum(axis=2)
        inner += np.where(u >= 0, b[u].T, W[:, 0]).T * H[:, :1]
        inner += np.where(i >= 0, c[i].T, H[:, 1]).T * W[:, 1:2]
        p = np.where(u >= 0, p_all[u].T, r**2 * W_all.unknown_spread[:, None])
        q = np.where(i >= 0, q_all[i].T, s**2 * H_all.unknown_spread[:, None])
        within = p[0] * H[:, 0] ** 2 + q[0] * W[:, 1] ** 2 + n_factors * p[1] * q[1]
        within += p[1] * dot_rows(H[:, 2:], H[:, 2:]) + q[1] * dot_rows(W[:, 2:], W[:, 2:])
        yield block, ranges.to_rating(inner, u, i), within


def rows_of(fitted: Fitted) -> tuple[Rows, Rows]:
    """The factors of both sides of a sampled model, with those of somebody unknown."""
    assert fitted.users.prior is not None
    assert fitted.items.prior is not None
    return (
        Rows.of(fitted.users.factors, fitted.users.prior, HELD_BY_USERS),
        Rows.of(fitted.items.factors, fitted.items.prior, HELD_BY_ITEMS),
    )


def inner_products(W: Rows, H: Rows, ranges: Ranges, users: Codes, items: Codes) -> Floats:
    """Inner products of pairs, somebody unknown among them."""
    room, inner = np.sqrt(ranges.slack), np.empty(len(users))
    for start in range(0, len(users), BLOCK):
        u, i = users[start : start + BLOCK], items[start : start + BLOCK]
        w, h = W.take(u, room * ranges.unknown_user), H.take(i, room * ranges.unknown_item)
        inner[start : start + BLOCK] = dot_rows(w, h)
    return inner


def mixture_quantiles(centres: Floats, spread: Floats, wanted: Floats) -> Floats:
    """Quantiles of the mixtures of normals around each row's centres, by bisection."""
    from scipy.special import ndtr  # which only quantiles need

    spread = spread[:, None]
    low = np.repeat(centres.min(axis=1)[:, None] - 10 * spread, len(wanted), axis=1)
    high = np.repeat(centres.max(axis=1)[:, None] + 10 * spread, len(wanted), axis=1)
    for _ in range(50):
        middle = (low + high) / 2
        below = ndtr((middle[:, :, None] - centres[:, None, :]) / spread[:, :, None]).mean(axis=2) < wanted
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.asarray((low + high) / 2)


def bounded(fitted: Fitted) -> Ranges:
    """The ranges of a model that has magnitudes."""
    assert isinstance(fitted.ranges, Ranges)
    return fitted.ranges


# --- lists and neighbours ---------------------------------------------------------------------------------------


def ranking(fitted: Fitted, answer_unknown: bool) -> Ranking:
    """How predictions come from inner products, for the search for the highest ones."""
    ranges = fitted.ranges
    users, items = fitted.users.factors, fitted.items.factors
    magnitudes = ranges.magnitudes_that_decide()
    if magnitudes is None:
        users, items = ranges.vectors(users, items)
    score = partial(_scores, fitted, answer_unknown)
    return Ranking(users, items, fitted.users.trained, score, ranges.needed, magnitudes)


def _scores(fitted: Fitted, answer_unknown: bool, users: Codes, items: Codes) -> Floats:
    found = predictions(fitted, users, items)
    if not answer_unknown:
        found[(users < 0) | (items < 0)] = np.nan
    return found


def similar(fitted: Fitted, kind: str, row: int, n: int) -> Lists:
    """The rows of a side whose factors point most nearly the same way as one of them; biases do not count."""
    side = fitted.side(kind)
    return most_similar(side.factors[:, fitted.n_bias_columns :], row, np.flatnonzero(side.trained), n)
