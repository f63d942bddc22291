"""What a learned model answers: predictions, ranges, standard deviations, quantiles, lists, neighbours.

Functions of a `Fitted` and of row numbers, where −1 is somebody without a training rating. Nothing here is compiled: a
process that only predicts never loads Numba.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from boundrec.arrays import Codes, Floats, Reals
from boundrec.data.columns import Column
from boundrec.data.ratings import LARGEST, Ends, Pairs
from boundrec.models.fitted import Fitted
from boundrec.ranges import Ranges
from boundrec.ranges.rules import Grid, PerItem, Rule
from boundrec.solvers.exact import HELD_BY_ITEMS, HELD_BY_USERS
from boundrec.solvers.gibbs import Rows
from boundrec.solvers.row_noise import ALIKE, of_strangers
from boundrec.top_n import Lists, Ranking, Scored, most_similar, norms

#: Pairs predicted at a time, so that gathered factors stay in the cache.
BLOCK = 1 << 14
#: What a product of stacked factors, and the map from it to a rating, may be off, relative to the range's ends.
ROUNDING_OF_SCORES = 1e-11
#: Between these quantiles lies what a normal has within one standard deviation.
WITHIN_ONE: Floats = np.array([0.1587, 0.8413])


# --- one number for each pair ---------------------------------------------------------------------------------


def predictions(fitted: Fitted, pairs: Pairs) -> Floats:
    """The rating of each pair, inside its own range; whoever is unknown is answered by what is known of the others."""
    values = np.empty(len(pairs))
    W, H = fitted.users.factors, fitted.items.factors
    for start in range(0, len(pairs), BLOCK):
        some = pairs.take(slice(start, start + BLOCK))
        inner = dot_rows(W[some.users], H[some.items])
        values[start : start + BLOCK] = fitted.ranges.to_value(inner, some)
    unknown = pairs.unknown()
    if unknown.any():
        values[unknown] = _of_unknown(fitted, pairs.take(unknown))
    # Past rounding nothing is cut but answers for the unknown.
    return np.clip(fitted.ranges.scale.to_rating(values, pairs), *fitted.ranges.interval(pairs))


def _of_unknown(fitted: Fitted, pairs: Pairs) -> Floats:
    """The prior mean, where there is a prior; else what is known of the others on average.

    A prior counts every row alike. Where ranges differ in width ratings do not count alike, and nor do rows.
    """
    if fitted.users.prior is not None and fitted.ranges.scale.even:
        return fitted.ranges.to_value(inner_products(*rows_of(fitted), bounded(fitted), pairs), pairs)
    return known_means(fitted, pairs)


def known_means(fitted: Fitted, pairs: Pairs) -> Floats:
    """The known side's mean, or the overall one where neither is known, on the scale that the model factorises."""
    answer = np.where(pairs.users >= 0, fitted.users.means[pairs.users], np.full(len(pairs), fitted.mean))
    return np.where(pairs.items >= 0, fitted.items.means[pairs.items], answer)


def dot_rows(left: Reals, right: Reals) -> Floats:
    """Inner products row by row, summed in float64."""
    products: Floats = np.einsum("ij,ij->i", left, right, dtype=np.float64)
    return products


# --- what a sampler knows ---------------------------------------------------------------------------------------


def deviations(fitted: Fitted, pairs: Pairs) -> Floats | None:
    """Standard deviation of a rating: what samples disagree on, what they leave open, and the noise; None without.

    Behind a link it is half the width of the interval that holds as much as a normal within one standard deviation.
    """
    if fitted.noise_variances is None:
        return None
    if fitted.ranges.scale.link is not None:
        low, high = quantiles(fitted, pairs, WITHIN_ONE).T
        return np.asarray((high - low) / 2)
    low, high = fitted.ranges.interval(pairs)
    # No rating in a range lies further from anything on average; of next to no ratings a normal knows nothing of that.
    return np.minimum(own_deviations(fitted, pairs) * fitted.ranges.scale.stretch(pairs), (high - low) / 2)


def own_deviations(fitted: Fitted, pairs: Pairs) -> Floats:
    """The same on the scale that the model factorises."""
    std, shape = np.empty(len(pairs)), fitted.noise_shape
    for block, samples, within, noise in sampled(fitted, pairs):
        std[block] = np.sqrt(samples.var(axis=1) + within + noise.mean(axis=1))
    return std if shape is None else std * shape.deviations()[_row_of_shape(fitted, pairs)]


def lower_bounds(fitted: Fitted, pairs: Pairs) -> Floats:
    """The prediction less one standard deviation of what is uncertain about it, inside the pair's range.

    The noise of a single rating is no part of that: it is in every rating of everything, and says nothing about which
    item is better. What samples disagree on, and leave open, is large for an item with one rating and small for one
    with many. It is taken off on the scale that the model factorises, so behind a link by a factor.
    """
    scale, ratings = fitted.ranges.scale, predictions(fitted, pairs)
    spread = np.empty(len(pairs))
    for block, samples, within, _ in sampled(fitted, pairs):
        spread[block] = np.sqrt(samples.var(axis=1) + within)
    lower = scale.to_rating(scale.of_values(ratings, pairs) - spread, pairs)
    return np.clip(lower, *fitted.ranges.interval(pairs))


def _row_of_shape(fitted: Fitted, pairs: Pairs) -> Codes:
    """Whose distribution of errors each pair has, by how noisy its user is."""
    assert fitted.noise_shape is not None
    if fitted.users.steadiness is None:
        return np.zeros(len(pairs), np.int64)
    of_users = fitted.users.mean_steadiness()
    return fitted.noise_shape.rows(np.where(pairs.users >= 0, of_users[pairs.users], np.nan))


def quantiles(fitted: Fitted, pairs: Pairs, wanted: Floats) -> Floats:
    """Quantiles of the rating of each pair, one column for each, inside the pair's range.

    The predictive distribution is a normal around each kept sample's prediction, all of them mixed. Behind a link, or
    where rows have a noise of their own, it has the shape of the training errors' distribution around the prediction.
    Whoever's errors are smaller than their noise says leaves less open in that proportion, too, for the noise is what
    their row was found by.
    """
    shape, found = fitted.noise_shape, np.empty((len(pairs), len(wanted)))
    rows = None if shape is None else _row_of_shape(fitted, pairs)
    for block, samples, within, noise in sampled(fitted, pairs):
        if shape is None or rows is None:
            found[block] = mixture_quantiles(samples, np.sqrt(within[:, None] + noise), wanted)
        else:
            spread = np.sqrt(samples.var(axis=1) + within + noise.mean(axis=1))
            found[block] = samples.mean(axis=1)[:, None] + spread[:, None] * shape.places(wanted)[rows[block]]
    lower, upper = fitted.ranges.interval(pairs)
    return np.clip(fitted.ranges.scale.to_rating(found, pairs), lower[:, None], upper[:, None])


def sampled(fitted: Fitted, pairs: Pairs) -> Iterator[tuple[slice, Floats, Floats, Floats]]:
    """What each kept sample predicts for each pair (a column a sample), and two variances around that, in blocks.

    They are what samples leave open of rows, and the noise, which has one column where it is the same in every sample.
    All are on the model's scale. Rows vary around
    their means within each sample: for independent rows with variances of their own,
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
    for start in range(0, len(pairs), BLOCK // 8):
        block = slice(start, start + BLOCK // 8)
        some = pairs.take(block)
        u, i = some.users, some.items
        W, H = W_all.take(u, r), H_all.take(i, s)
        inner = n_kept * (W[:, 2:] * H[:, 2:]).reshape(len(u), n_kept, n_factors).sum(axis=2)
        inner += np.where(u >= 0, b[u].T, W[:, 0]).T * H[:, :1]
        inner += np.where(i >= 0, c[i].T, H[:, 1]).T * W[:, 1:2]
        p = np.where(u >= 0, p_all[u].T, r**2 * W_all.unknown_spread[:, None])
        q = np.where(i >= 0, q_all[i].T, s**2 * H_all.unknown_spread[:, None])
        within = p[0] * H[:, 0] ** 2 + q[0] * W[:, 1] ** 2 + n_factors * p[1] * q[1]
        within += p[1] * dot_rows(H[:, 2:], H[:, 2:]) + q[1] * dot_rows(W[:, 2:], W[:, 2:])
        # That of the narrowest ranges beside the widest may pass all numbers, where it says no more than their ends do.
        noise = (fitted.found["noise"] * ranges.scale.noise(some))[:, None] / np.sqrt(_steadiness(fitted, some))
        values, unknown = ranges.to_value(inner, some), some.unknown()
        if not ranges.scale.even and unknown.any():  # around what is answered for them
            values[unknown] += (_of_unknown(fitted, some.take(unknown)) - values[unknown].mean(axis=1))[:, None]
        yield block, values, within, np.minimum(noise, LARGEST) ** 2


def _steadiness(fitted: Fitted, pairs: Pairs) -> Floats:
    """How much less noisy than others ratings of these pairs are, a column a sample; one column of ones for all."""
    both = np.ones((len(pairs), 1))
    for kind, codes in (("user", pairs.users), ("item", pairs.items)):
        steadiness = fitted.side(kind).steadiness
        if steadiness is not None:
            both = both * np.where(codes >= 0, steadiness[codes].T, steadiness_of_strangers(fitted, kind)).T
    return both


def steadiness_of_strangers(fitted: Fitted, kind: str) -> float:
    """That of somebody without ratings; a file from before it was measured has none, and the prior tells."""
    return fitted.found.get(f"{kind}_stranger", of_strangers(np.empty(0), ALIKE[kind]))


def rows_of(fitted: Fitted) -> tuple[Rows, Rows]:
    """The factors of both sides of a sampled model, with those of somebody unknown."""
    assert fitted.users.prior is not None
    assert fitted.items.prior is not None
    return (
        Rows.of(fitted.users.factors, fitted.users.prior, HELD_BY_USERS),
        Rows.of(fitted.items.factors, fitted.items.prior, HELD_BY_ITEMS),
    )


def inner_products(W: Rows, H: Rows, ranges: Ranges, pairs: Pairs) -> Floats:
    """Inner products of pairs, somebody unknown among them."""
    room, inner = np.sqrt(ranges.slack), np.empty(len(pairs))
    for start in range(0, len(pairs), BLOCK):
        u, i = pairs.users[start : start + BLOCK], pairs.items[start : start + BLOCK]
        w, h = W.take(u, room * ranges.unknown_user), H.take(i, room * ranges.unknown_item)
        inner[start : start + BLOCK] = dot_rows(w, h)
    return inner


def mixture_quantiles(centres: Floats, spread: Floats, wanted: Floats) -> Floats:
    """Quantiles of the mixtures of normals around each row's centres, by bisection; spreads are of each, or of all."""
    from scipy.special import ndtr  # which only quantiles need

    widest = spread.max(axis=1)[:, None]
    low = np.repeat(centres.min(axis=1)[:, None] - 10 * widest, len(wanted), axis=1)
    high = np.repeat(centres.max(axis=1)[:, None] + 10 * widest, len(wanted), axis=1)
    for _ in range(50):
        middle = (low + high) / 2
        below = ndtr((middle[:, :, None] - centres[:, None, :]) / spread[:, None, :]).mean(axis=2) < wanted
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
    pairs = Pairs(users, items)
    found = predictions(fitted, pairs)
    if not answer_unknown:
        found[pairs.unknown()] = np.nan
    return found


def scored(
    fitted: Fitted, rule: Rule, user_ids: Column, users: Codes, answer_unknown: bool, lacking: list[tuple[int, int]]
) -> Scored:
    """How predictions are ranked where pairs have ranges of their own; places are those of ``users``.

    Pairs without a range are left out; the first of each tile goes to the list ``lacking``.
    """
    ranges, grid = bounded(fitted), rule.on(user_ids, fitted.items.ids.ids)
    W, H = fitted.users.factors, fitted.items.factors
    trained = np.where((users >= 0) & fitted.users.trained[users], users, -1)

    def exact(places: Codes, items: Codes) -> Floats:
        pairs = Pairs(trained[places], items, grid(places, items))
        found = predictions(fitted, pairs)
        if not answer_unknown:
            found[pairs.unknown()] = np.nan
        return found

    def scores(places: Codes, items: Codes) -> tuple[Floats, float]:
        pairs = Pairs(np.repeat(trained[places], len(items)), np.tile(items, len(places)))
        ends = grid(np.repeat(places, len(items)), pairs.items)
        pairs = replace(pairs, ends=ends)
        inner = W[trained[places]].astype(np.float64) @ H[items].astype(np.float64).T
        values = ranges.to_value(inner.ravel(), pairs)
        unknown = pairs.users < 0
        if unknown.any():
            values[unknown] = _of_unknown(fitted, pairs.take(unknown)) if answer_unknown else np.nan
        without = np.isnan(ends.lower)
        if without.any():
            first = int(without.argmax())
            lacking.append((int(places[first // len(items)]), int(pairs.items[first])))
        size = max(np.nanmax(np.abs(end), initial=0.0) for end in ends)
        return ranges.scale.to_rating(values, pairs).reshape(len(places), len(items)), ROUNDING_OF_SCORES * size

    return Scored(scores, exact, _highest(fitted, rule, grid))


def _highest(fitted: Fitted, rule: Rule, grid: Grid) -> Floats | None:
    """What no user's prediction for an item passes: |w·h| is at most the longest row of all times the item's own."""
    if not isinstance(rule, PerItem) or rule.kind != "item":
        return None
    ranges, items = bounded(fitted), np.arange(len(fitted.items.ids))
    pairs = Pairs(np.full(len(items), -1), items, grid(np.zeros(len(items), np.int64), items))
    longest = max(float(norms(fitted.users.factors).max()), float(np.sqrt(ranges.slack)) * ranges.unknown_user)
    most = np.minimum(longest * norms(fitted.items.factors), ranges.slack * ranges.radius(pairs))
    values = np.maximum(ranges.to_value(most, pairs), max(fitted.mean, fitted.items.means.max()))
    lower, upper = _ends(pairs)
    found = ranges.scale.to_rating(values, pairs) + ROUNDING_OF_SCORES * np.maximum(np.abs(lower), np.abs(upper))
    return np.where(np.isnan(upper), -np.inf, np.minimum(found, upper))


def _ends(pairs: Pairs) -> Ends:
    assert pairs.ends is not None
    return pairs.ends


def similar(fitted: Fitted, kind: str, row: int, n: int) -> Lists:
    """The rows of a side whose factors point most nearly the same way as one of them; biases do not count."""
    side = fitted.side(kind)
    return most_similar(side.factors[:, fitted.n_bias_columns :], row, np.flatnonzero(side.trained), n)
