"""Magnitudes: r_i of every user, s_j of every item, from bounds or data, from history, Eqs. (41) to (43), or given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, cast, get_args

import numpy as np
from numpy.typing import NDArray

from boundrec.arrays import Bools, Floats
from boundrec.data.columns import read_numbers, short
from boundrec.data.ids import IdIndex
from boundrec.data.ratings import LARGEST, SMALLEST, Csr, Ratings, sizes_that_fit
from boundrec.ranges import Frame, MagnitudeRule, Ranges, SideRule, scaling_remedy
from boundrec.ranges.scale import Bounds
from boundrec.ranges.slack import STEEPEST

#: Derived magnitudes are floored at this share of the overall one: a zero would pin every prediction.
FLOOR = 1e-3
#: A magnitude of this share of the offset's root, squared, is lost in the offset's rounding.
NOTHING = 1e-6
#: Data fill a range whose half-width is at most so many of their standard deviations; else these are their unit.
FILLED, UNIT = 3.0, 2.5
#: Ratings are constant that vary by less than this share of their mean; their unit is this part of the half-width.
CONSTANT, CONSTANT_SHARE = 1e-12, 20.0
#: Fewer ratings than these do not tell how they vary.
TELLING = 10
#: How many times the room left to a tail the fit's reach may be.
STEEPEST_TAIL = 10.0
#: A product this far past its limit, relative to it, is still inside: rounding.
ROUNDING = 1e-9
#: The numbers of float16 end at 65,504, and below .00006 they lose digits: how small and how large a magnitude may be
#: that is stored so, and how narrow the widest range.
MAGNITUDES_FLOAT16, NARROWEST_FLOAT16 = (1e-4, 1e4), 1e-4
MAGNITUDES: tuple[MagnitudeRule, ...] = get_args(MagnitudeRule)
SIDE_RULES: tuple[SideRule, ...] = get_args(SideRule)


def constant_magnitudes(frame: Frame, bounds: Bounds, ratings: Ratings) -> Ranges:
    """One range for all: r_i s_j is the same everywhere, Eqs. (37) and (39), shared alike (resolution A26)."""
    if (bounds[0] is None) != (bounds[1] is None):
        raise ValueError(
            f'magnitudes="range" needs both ends of the range, but bounds={bounds}: '
            'pass magnitudes="history", or a pair of mappings id -> magnitude.'
        )
    product = frame.limit
    if np.isinf(product):
        product = float(frame.levels(ratings.by_user.data).max())
    root = np.sqrt(product) if product > 0 else _smallest(frame)
    user, item = np.full(ratings.n_users, root), np.full(ratings.n_items, root)
    return Ranges(frame, user, item, root, root)


def magnitudes_of_data(bounds: Bounds, ratings: Ratings, counts: NDArray[np.floating], slack: float) -> Ranges | None:
    """One range for all, centred at the data and as wide as they need; None where they fill the declared one.

    ``counts`` are the ratings' own weights.
    """
    n_telling = int(np.count_nonzero(counts))
    if n_telling < TELLING:
        return None
    data = ratings.by_user.data
    mean = float(np.average(data, weights=counts))
    spread = float(np.sqrt(np.average((data - mean) ** 2, weights=counts)))
    frame = frame_of_data(bounds, n_telling, mean, spread, slack)
    if frame is None:
        return None
    root = float(np.sqrt(frame.limit))
    return Ranges(frame, np.full(ratings.n_users, root), np.full(ratings.n_items, root), root, root)


def frame_of_data(bounds: Bounds, n_telling: int, mean: float, spread: float, slack: float) -> Frame | None:
    """The frame of so many ratings with this mean and standard deviation; None where they fill the declared range.

    Declared ends are a promise and not the scale: each tail of the fit is led into its own (`slack.lead`). What lies
    beyond its reach is kept.
    """
    low, high = (-np.inf if bounds[0] is None else bounds[0]), (np.inf if bounds[1] is None else bounds[1])
    half = (high - low) / 2
    if n_telling < TELLING:
        return None
    if spread <= CONSTANT * abs(mean):  # the data have no unit of their own
        spread = half / (UNIT * CONSTANT_SHARE)
    if not np.isfinite(spread) or half <= FILLED * spread:
        return None
    unit = UNIT * spread
    margin = min(slack * unit / STEEPEST_TAIL, half)
    offset = float(np.clip(mean, low + margin, high - margin))
    if min(offset - low, high - offset) * STEEPEST <= slack * unit:  # rounding has left a tail no room
        return None
    return Frame(offset, limit=unit, lower=low, upper=high, led=True)


def historical_magnitudes(
    frame: Frame, ratings: Ratings, history: Ratings, share: float, count: float | None, cap: bool
) -> Ranges:
    """Magnitudes from past ratings, Eqs. (41) to (43), for users and for items (resolution A24).

    ``cap`` keeps r_i s_j within the declared range, which mean + standard deviation alone may pass; without it the
    declared ends are not guarded either, and ranges are as wide as the magnitudes say.
    """
    if not cap:
        frame = replace(frame, limit=np.inf, lower=-np.inf, upper=np.inf)
    levels = frame.levels(history.by_user.data)
    level = float(_root_level(levels.mean(), levels.std()))
    overall = max(level, NOTHING * float(np.sqrt(abs(frame.offset)))) if level > 0 else _smallest(frame)
    most = np.sqrt(frame.limit)
    user = _own_and_overall(
        frame, ratings.users, history.by_user, history.users, overall, history_weight(share, count, ratings.n_items)
    )
    item = _own_and_overall(
        frame, ratings.items, history.by_item, history.items, overall, history_weight(share, count, ratings.n_users)
    )
    unknown = min(overall, most)
    return Ranges(frame, np.minimum(user, most), np.minimum(item, most), unknown, unknown, overall)


def history_weight(share: float, count: float | None, n_others: int) -> Any:
    """ω of Eq. (43), min(n/(ρM), 1); or n/(n + κ), which does not vanish among many items."""
    if count is not None:
        kappa = float(count)  # an integer may be past all of NumPy's
        return lambda n: n / (n + kappa)
    return lambda n: np.minimum(n / (share * n_others), 1.0)


def _own_and_overall(frame: Frame, ids: IdIndex, past: Csr, past_ids: IdIndex, overall: float, weight: Any) -> Floats:
    """ω_i√(mean_i + std_i) + (1 − ω_i)·overall, Eq. (42), for the rows of ``ids``; no history means ω = 0."""
    counts, levels = np.diff(past.indptr), frame.levels(past.data)
    n = np.maximum(counts, 1)
    mean = past.sum_rows(levels) / n
    std = np.sqrt(past.sum_rows((levels - mean[past.row_of_entry()]) ** 2) / n)  # ddof = 0, resolution A25
    omega = np.where(counts > 0, weight(n), 0.0)
    past_magnitude = omega * _root_level(mean, std) + (1 - omega) * overall
    where = past_ids.codes(ids.ids)
    return np.maximum(np.where(where >= 0, past_magnitude[where], overall), FLOOR * overall)


def _root_level(mean: Any, std: Any) -> Any:
    """√(mean + std), Eq. (41)."""
    return np.sqrt(mean + std)


def _smallest(frame: Frame) -> float:
    """A positive stand-in where the data leave no width at all."""
    return NOTHING * max(1.0, float(np.sqrt(abs(frame.offset))))


def given_magnitudes(
    frame: Frame,
    ratings: Ratings,
    magnitudes: Any,
    from_matrix: bool,
    by_rule: Callable[[SideRule], Ranges],
    absent: SideRule,
) -> Ranges:
    """Magnitudes as the caller gives them, each side by itself: a mapping id -> magnitude, an array, or a rule.

    Ids that a mapping lacks get theirs by the rule ``absent``. What a rule gives makes room for what is given: it is
    capped so that no product passes the declared range. ``by_rule`` has the magnitudes of everybody by a rule.
    """
    try:
        user, item = magnitudes
    except (TypeError, ValueError):
        raise ValueError(
            f"magnitudes={short(magnitudes)}: give one of {MAGNITUDES}, or a pair (users, items) of mappings "
            f"id -> magnitude, each of which may also be one of {SIDE_RULES}."
        ) from None
    r = _read_magnitudes(user, ratings.users, "user", from_matrix)
    s = _read_magnitudes(item, ratings.items, "item", from_matrix)
    r_most, s_most = (float(np.max(side, initial=0.0, where=~np.isnan(side))) for side in (r, s))
    if r_most * s_most > frame.limit * (1 + ROUNDING):
        raise ValueError(
            f"the largest magnitudes, {r_most:g} (user {ratings.users.ids.item(np.nanargmax(r))!r}) and {s_most:g} "
            f"(item {ratings.items.ids.item(np.nanargmax(s))!r}), multiply to {r_most * s_most:g}, "
            f"past the {frame.limit:g} that the declared bounds leave around their centre: "
            "scale the magnitudes down or widen the bounds."
        )
    overall = None
    unknown = {"user": float(r.mean()), "item": float(s.mean())}
    values = {"user": r, "item": s}
    for kind, given, most_of_others in (("user", user, s_most), ("item", item, r_most)):
        gaps = np.isnan(values[kind])
        if gaps.any():
            rule: SideRule = cast(SideRule, given) if isinstance(given, str) else absent
            derived, most = by_rule(rule), room_beside(frame, most_of_others)
            values[kind] = np.where(gaps, np.minimum(getattr(derived, kind), most), values[kind])
            unknown[kind] = min(getattr(derived, f"unknown_{kind}"), most)
            overall = derived.overall if isinstance(given, str) and given == "history" else overall
    return Ranges(frame, values["user"], values["item"], unknown["user"], unknown["item"], overall)


def room_beside(frame: Frame, most_of_others: float) -> float:
    """The most that a derived magnitude may be beside the other side's largest: its half of the range, or less."""
    half = float(np.sqrt(frame.limit))
    return half if most_of_others <= half else frame.limit / most_of_others


def knows_all(given: Any, ids: IdIndex) -> bool:
    """Whether the magnitudes of one side need no rule."""
    if isinstance(given, Mapping):
        return all(one in given for one in ids.ids.tolist())
    return not isinstance(given, str)


def _read_magnitudes(given: Any, ids: IdIndex, kind: str, from_matrix: bool) -> Floats:
    """One side's magnitudes; NaN where it has none and a rule has to serve."""
    if isinstance(given, str):
        if given not in SIDE_RULES:
            raise ValueError(
                f"the {kind} magnitudes are {given!r}: give a mapping id -> magnitude, or one of {SIDE_RULES}."
            )
        return np.full(len(ids), np.nan)
    if isinstance(given, Mapping):
        all_ids = ids.ids.tolist()
        known = np.array([one in given for one in all_ids], bool)
        if given and not known.any():
            raise ValueError(
                f"the {kind} magnitudes know none of the {len(ids)} {kind}s (their first id is "
                f"{next(iter(given))!r}, that of the ratings {all_ids[0]!r}): give both the same kind of ids."
            )
        if not known.all():
            values = np.full(len(ids), np.nan)
            if known.any():
                values[known] = _read_magnitudes(given, IdIndex(ids.ids[known]), kind, from_matrix)
            return values
        values = read_numbers([given[i] for i in all_ids], f"the {kind} magnitudes", "magnitude")
    elif not from_matrix:
        raise TypeError(
            f"{kind} magnitudes are a {type(given).__name__}: with pairs of ids give a mapping id -> magnitude "
            "(arrays go with a sparse matrix or a Ratings, whose row numbers they follow)."
        )
    else:
        values = read_numbers(given, f"the {kind} magnitudes", "magnitude")
        if values.shape != (len(ids),):
            raise ValueError(f"{kind} magnitudes have shape {values.shape}: there are {len(ids)} {kind}s.")
    _refuse_magnitudes(kind, values, ids, ~(np.isfinite(values) & (values > 0)), "are not positive numbers")
    outside = (values < SMALLEST) | (values > LARGEST)
    _refuse_magnitudes(kind, values, ids, outside, "are too small or too large to be squared: scale them")
    return values


def _refuse_magnitudes(kind: str, values: Floats, ids: IdIndex, bad: Bools, flaw: str) -> None:
    if bad.any():
        first = int(bad.argmax())
        raise ValueError(
            f"{bad.sum()} {kind} magnitudes {flaw} (first: {kind} {ids.ids.item(first)!r}: {values[first]:g})."
        )


def magnitudes_of_new(ranges: Ranges, kind: str, ids: IdIndex, past: Csr, weight: Any, given: Any = None) -> Floats:
    """Magnitudes of users (or items) that come after the fit, by the rule that gave the others theirs.

    From history, Eqs. (42) and (43) on the new ratings; from the mapping ``given``, where it knows them; otherwise the
    one of somebody unknown. ``given`` is the side's own setting where each side has one. ``weight`` is that of
    `history_weight`.
    """
    unknown, others = (ranges.unknown_user, ranges.item) if kind == "user" else (ranges.unknown_item, ranges.user)
    if ranges.overall is not None and (given is None or (isinstance(given, str) and given == "history")):
        own = _own_and_overall(ranges.frame, ids, past, ids, ranges.overall, weight)
        return np.minimum(own, room_beside(ranges.frame, float(others.max())))
    known = given if isinstance(given, Mapping) else {}
    magnitudes = _read_magnitudes({i: known.get(i, unknown) for i in ids.ids.tolist()}, ids, kind, False)
    most = ranges.frame.limit / others.max()
    if magnitudes.max() > most * (1 + ROUNDING):
        raise ValueError(
            f"the magnitude of {kind} {ids.ids.item(magnitudes.argmax())!r}, {magnitudes.max():g}, is past the "
            f"{most:g} that the declared bounds leave it: scale it down."
        )
    return magnitudes


def check_ranges_fit(ranges: Ranges, users: IdIndex, items: IdIndex, dtype: np.dtype[Any]) -> None:
    """Refuse ranges and magnitudes that are too wide or too narrow for the type that a model is stored in."""
    least, largest = sizes_that_fit(dtype)
    smallest = NARROWEST_FLOAT16 if dtype == np.float16 else least
    widest = ranges.user.max() * ranges.item.max()
    if not smallest <= widest <= 4 * largest:  # twice as wide as an end is far, and rounding
        flaw, how = ("narrow", "multiply") if widest < smallest else ("wide", "divide")
        raise ValueError(
            f"the widest range is ±{widest:g} around its centre, too {flaw} for dtype={dtype.name}: "
            f"{scaling_remedy(dtype, how, float(widest))}."
        )
    least, largest = MAGNITUDES_FLOAT16 if dtype == np.float16 else (least, largest)
    for kind, magnitudes, ids in (("user", ranges.user, users), ("item", ranges.item, items)):
        for bad, flaw, how in (
            (magnitudes < least, "small", "multiply"),
            (magnitudes > largest, "large", "divide"),
        ):
            size = float(magnitudes[bad.argmax()])
            remedy = f"too {flaw} for dtype={dtype.name}: {scaling_remedy(dtype, how, size)}"
            _refuse_magnitudes(kind, magnitudes, ids, bad, f"are {remedy}")
