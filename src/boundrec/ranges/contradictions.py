"""Ratings outside their own range: counted, kept, dropped, refused, or their range widened (resolution A18)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from boundrec.arrays import Bools
from boundrec.data.ratings import Csr, Ends, Ratings
from boundrec.ranges import Ranges
from boundrec.ranges.rules import Widened, WithRows

#: A rating this far past its range, relative to the range, is still inside: rounding, not contradiction.
ROUNDING = 1e-9


def contradictions(ratings: Ratings, ranges: Ranges) -> Bools:
    """Which observations (in by_user order) lie outside their own range, e.g. V_ij > 2 r_i s_j under Eq. (40)."""
    if ranges.frame.led:  # what is out of the fit's reach is still inside what was declared
        return np.zeros(ratings.n_ratings, bool)
    pairs = ratings.pairs()
    lower, upper = ranges.interval(pairs)
    slack = ROUNDING * np.maximum(ranges.radius(pairs), np.abs(ranges.frame.offset))
    values = ratings.by_user.data
    return np.asarray((values < lower - slack) | (values > upper + slack))


def settle_contradictions(ratings: Ratings, ranges: Ranges, how: str) -> tuple[Ratings, Ranges, Bools]:
    """Deal with observations outside their own range; also returns which they were (resolution A18)."""
    outside = contradictions(ratings, ranges)
    if not outside.any() or how == "keep":
        return ratings, ranges, outside
    if how == "raise":
        raise ValueError(
            f'{describe_contradictions(ratings, ranges, outside)} Pass on_contradiction="widen" or "drop".'
        )
    if how == "widen":
        return ratings, _widen(ratings, ranges, outside), outside
    if outside.all():
        raise ValueError(
            'every rating lies outside its own range, nothing is left to fit: use on_contradiction="widen".'
        )
    return ratings.keep(~outside), ranges, outside


def settle_own(ratings: Ratings, rule: Any, how: str) -> tuple[Ratings, Any, Bools]:
    """The same where every pair has a range of its own; a widened one then goes before the rule that gave it.

    Where ranges come with the rows, those of a row that is asked for come with it, too: only the fit is widened.
    """
    ends, values = ratings.ends, ratings.by_user.data
    assert ends is not None
    room = ROUNDING * (ends.upper / 2 - ends.lower / 2)
    outside = np.asarray((values < ends.lower - room) | (values > ends.upper + room))
    if not outside.any() or how == "keep":
        return ratings, rule, outside
    if how == "raise":
        raise ValueError(f'{_describe(ratings, ends, outside)} Pass on_contradiction="widen" or "drop".')
    if how == "drop":
        if outside.all():
            raise ValueError(
                'every rating lies outside its own range, nothing is left to fit: use on_contradiction="widen".'
            )
        return ratings.keep(~outside), rule, outside
    wider = Ends(np.minimum(ends.lower, values), np.maximum(ends.upper, values))
    pairs = ratings.pairs().take(outside)
    users, items = ratings.users.ids[pairs.users].tolist(), ratings.items.ids[pairs.items].tolist()
    table = dict(zip(zip(users, items, strict=True), zip(*(end[outside] for end in wider), strict=True), strict=True))
    rule = rule if isinstance(rule, WithRows) else Widened.of(rule, table)
    return replace(ratings, ends=wider), rule, outside


def describe_contradictions(ratings: Ratings, ranges: Ranges | None, outside: Bools) -> str:
    """One sentence: how many, and the first with its place; ``ranges`` where pairs have none of their own."""
    ends = ratings.ends
    if ends is None:
        assert ranges is not None
        ends = Ends(*ranges.interval(ratings.pairs()))
    return _describe(ratings, ends, outside)


def _describe(ratings: Ratings, ends: Ends, outside: Bools) -> str:
    first = int(outside.argmax())
    user, item = ratings.user_of_rating()[first], ratings.by_user.indices[first]
    value, lower, upper = ratings.by_user.data[first], ends.lower[first], ends.upper[first]
    relation = f"{value:g} > {upper:g}" if value > upper else f"{value:g} < {lower:g}"
    return (
        f"{outside.sum()} of {outside.size} ratings lie outside their own range "
        f"(first: user {ratings.users.ids.item(user)!r}, item {ratings.items.ids.item(item)!r}: {relation})."
    )


def _widen(ratings: Ratings, ranges: Ranges, outside: Bools) -> Ranges:
    """Scale r_i and s_j of each contradiction by the same factor, up to what the declared bounds allow.

    Where the cap stops one of the two, the second round lets the other take the rest.
    """
    frame, most = ranges.frame, np.sqrt(ranges.frame.limit)
    if np.isfinite(most):  # share the largest product alike: then neither side is past its half of the limit
        share = np.sqrt(ranges.item.max() / ranges.user.max())
        ranges = replace(ranges, user=ranges.user * share, item=ranges.item / share)
    power, levels = 0.5, frame.levels(ranges.scale.of_ratings(ratings).by_user.data)
    while outside.any():
        pairs = ratings.pairs().take(outside)
        needed = levels[outside] / (2 if frame.tilt else 1)
        factor = (needed / ranges.radius(pairs)) ** power * (1 + ROUNDING)
        user, item = np.ones_like(ranges.user), np.ones_like(ranges.item)
        np.maximum.at(user, pairs.users, factor)
        np.maximum.at(item, pairs.items, factor)
        ranges = replace(
            ranges,
            user=np.minimum(ranges.user * user, most),
            item=np.minimum(ranges.item * item, most),
        )
        outside, power = contradictions(ratings, ranges), 1.0
    return ranges


def widen_new(csr: Csr, ranges: Ranges, kind: str, first: int) -> Ranges:
    """Magnitudes of the rows from ``first`` on as large as their ratings need, as far as the declared bounds allow.

    The other side keeps its own: it belongs to others, too.
    """
    own, others = (ranges.user, ranges.item) if kind == "user" else (ranges.item, ranges.user)
    rows, needed = csr.row_of_entry(), ranges.frame.levels(csr.data) / (2 if ranges.frame.tilt else 1)
    narrow = (rows >= first) & (needed > own[rows] * others[csr.indices] * (1 + ROUNDING))
    factor = np.ones_like(own)
    np.maximum.at(factor, rows[narrow], (needed / (own[rows] * others[csr.indices]))[narrow] * (1 + ROUNDING))
    widened = np.maximum(own, np.minimum(own * factor, ranges.frame.limit / others.max()))
    return ranges.with_magnitudes(kind, widened)
