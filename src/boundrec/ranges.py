"""Bounds and magnitudes: what range each prediction gets, and where its centre lies.

Every prediction is ``centre_ij + w_i·h_j`` with ``centre_ij = offset + tilt·r_i s_j``, and Cauchy-Schwarz keeps it
within ``centre_ij ± r_i s_j``. The paper's three types of data and two forms are choices of offset, tilt and
magnitudes:

=================  =====================================  ============================================
bounds             form c (both ends are bounds)          form n (only the upper end is)
=================  =====================================  ============================================
(lo, hi), type i   offset (lo+hi)/2, Eq. (36);            offset 0, or lo if lo < 0, Eq. (38);
                   r_i s_j = (hi−lo)/2, Eq. (37)          r_i s_j = hi − offset, Eq. (39), slip A13
(lo, None), ii     offset lo, tilt +1, Eq. (40)           offset 0, or lo if lo < 0
(None, hi), ii     offset hi, tilt −1: its mirror         offset hi: its mirror, only the lower end
None, iii          offset 0                               offset min V; r_i s_j = max V − min V
=================  =====================================  ============================================

So form c keeps predictions within every declared end, and form n within the upper end of a range with two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from boundrec.columns import read_numbers, short
from boundrec.ratings import LARGEST, SMALLEST, Csr, IdIndex, Ratings, is_too_large, sizes_that_fit

Floats = NDArray[np.float64]
Bounds = tuple[float | None, float | None]

Form = Literal["c", "n"]
MagnitudeRule = Literal["auto", "range", "history", "paper"]
#: By a rule, or as they are given: those of the users, then those of the items.
Magnitudes = MagnitudeRule | Sequence[Mapping[Any, float] | Sequence[float] | Floats]
Contradiction = Literal["keep", "widen", "drop", "raise"]
FORMS: tuple[Form, ...] = get_args(Form)
MAGNITUDES: tuple[MagnitudeRule, ...] = get_args(MagnitudeRule)
CONTRADICTIONS: tuple[Contradiction, ...] = get_args(Contradiction)
#: Derived magnitudes are floored at this share of the overall one: a zero would pin every prediction.
FLOOR = 1e-3
#: A magnitude of this share of the offset's root, squared, is lost in the offset's rounding.
NOTHING = 1e-6
#: A rating this far past its range, relative to the range, is still inside: rounding, not contradiction.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Frame:
    """Where ranges are centred, how wide they may be, and which declared ends they guard."""

    offset: float
    tilt: int = 0
    limit: float = np.inf
    lower: float = -np.inf
    upper: float = np.inf

    def levels(self, values: NDArray[np.floating]) -> Floats:
        """Distances from the offset: what magnitudes are made of (resolution A15)."""
        levels: Floats = np.abs(values - self.offset)
        return levels


@dataclass(frozen=True)
class Ranges:
    """The range of every pair: ``frame.offset + (tilt ± 1)·r_i s_j``, cut at the declared ends it guards."""

    frame: Frame
    user: Floats
    item: Floats
    unknown_user: float
    unknown_item: float
    #: √(mean + std) over all of the history, Eq. (41), before any cap; None where magnitudes are not made of it.
    overall: float | None = None

    def with_magnitudes(self, kind: str, magnitudes: Floats) -> Ranges:
        """The same with other magnitudes of one side, "user" or "item"."""
        return replace(self, user=magnitudes) if kind == "user" else replace(self, item=magnitudes)

    def product(self, users: NDArray[np.integer], items: NDArray[np.integer]) -> Floats:
        """r_i s_j for pairs of row numbers, where −1 is somebody unknown."""
        r = np.where(users >= 0, self.user[users], self.unknown_user)
        s = np.where(items >= 0, self.item[items], self.unknown_item)
        return r * s

    def centre(self, product: Floats) -> Floats:
        """The centre of the range whose half-width is ``product``."""
        return self.frame.offset + self.frame.tilt * product

    def interval(self, product: Floats) -> tuple[Floats, Floats]:
        """Both ends of that range; rounding never takes them past a declared end."""
        centre = self.centre(product)
        lower = np.maximum(centre - product, self.frame.lower)
        return lower, np.maximum(np.minimum(centre + product, self.frame.upper), lower)

    def centred(self, csr: Csr, rows: Floats, columns: Floats, dtype: Any) -> Csr:
        """The same observations with their centres taken off, Eqs. (36), (38) and (40); zeros stay stored."""
        data = csr.data - self.frame.offset
        if self.frame.tilt:
            data -= self.frame.tilt * np.repeat(rows, np.diff(csr.indptr)) * columns[csr.indices]
        return csr._replace(data=data.astype(dtype, copy=False), weights=csr.weights.astype(dtype, copy=False))


# --- frames -------------------------------------------------------------------------------------------------


def check_bounds(bounds: Any) -> Bounds:
    """Read ``bounds``: None, or a pair of numbers of which either may be None (no bound on that side)."""
    if bounds is None:
        return None, None
    pair = isinstance(bounds, (tuple, list)) or (isinstance(bounds, np.ndarray) and bounds.ndim == 1)
    if not pair or len(bounds) != 2 or not all(end is None or _is_real(end) for end in bounds):
        raise ValueError(
            f"bounds={short(bounds)}: give a pair such as (1, 5), (0, None), (None, 10), or None for no bounds."
        )
    ends = [None if end == open_end else end for end, open_end in zip(bounds, (-np.inf, np.inf), strict=True)]
    given = [end for end in ends if end is not None]
    if any(end != end or abs(end) == np.inf for end in given):
        raise ValueError(f"bounds={short(bounds)}: an end that is not a number; write None where there is no bound.")
    if any(map(is_too_large, given)):
        raise ValueError(f"bounds={short(bounds)}: an end too large to be squared; write None where there is no bound.")
    low, high = (None if end is None else float(end) for end in ends)
    if low is not None and high is not None and low >= high:
        raise ValueError(f"bounds={short(bounds)}: the lower end must be below the upper one.")
    return low, high


def check_bounds_fit(bounds: Bounds, dtype: np.dtype[Any]) -> None:
    """Refuse declared bounds that are too far out, or too close together, for the type that a model is stored in."""
    smallest, largest = sizes_that_fit(dtype)
    ends = [end for end in bounds if end is not None]
    if max(map(abs, ends), default=0.0) > largest:
        raise ValueError(f"bounds={bounds}: an end too large for dtype={dtype.name}; {_remedy(dtype, 'divide')}.")
    if len(ends) == 2 and ends[1] - ends[0] < 2 * smallest:
        raise ValueError(
            f"bounds={bounds}: ends too close together for dtype={dtype.name}; {_remedy(dtype, 'multiply')}."
        )


def _remedy(dtype: np.dtype[Any], how: str) -> str:
    wider = 'pass dtype="float64", or ' if dtype == np.float32 else ""
    return f"{wider}{how} all ratings and bounds by a constant"


def _is_real(end: Any) -> bool:
    # To NumPy a timedelta is an integer.
    return isinstance(end, (int, float, np.integer, np.floating)) and not isinstance(end, np.timedelta64)


def frame_for(bounds: Bounds, form: str, smallest: float) -> Frame:
    """The frame of the table above; ``smallest`` is the smallest rating known (only type iii, form n looks at it)."""
    low, high = bounds
    if form == "c":
        if low is not None and high is not None:
            return Frame((low + high) / 2, limit=(high - low) / 2, lower=low, upper=high)
        if low is not None:
            return Frame(low, tilt=1, lower=low)
        if high is not None:
            return Frame(high, tilt=-1, upper=high)
        return Frame(0.0)
    if low is not None:
        offset = min(low, 0.0)
        return Frame(offset) if high is None else Frame(offset, limit=high - offset, upper=high)
    return Frame(high if high is not None else smallest)


# --- magnitudes ---------------------------------------------------------------------------------------------


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


def given_magnitudes(frame: Frame, ratings: Ratings, magnitudes: Any, from_matrix: bool) -> Ranges:
    """Magnitudes as the caller gives them: a pair of mappings id -> magnitude, or of arrays for matrix input."""
    try:
        user, item = magnitudes
    except (TypeError, ValueError):
        raise ValueError(
            f"magnitudes={short(magnitudes)}: give one of {MAGNITUDES}, or a pair (users, items) of mappings "
            "id -> magnitude."
        ) from None
    r = _read_magnitudes(user, ratings.users, "user", from_matrix)
    s = _read_magnitudes(item, ratings.items, "item", from_matrix)
    if r.max() * s.max() > frame.limit * (1 + ROUNDING):
        raise ValueError(
            f"the largest magnitudes, {r.max():g} (user {ratings.users.ids.item(r.argmax())!r}) and {s.max():g} "
            f"(item {ratings.items.ids.item(s.argmax())!r}), multiply to {r.max() * s.max():g}, "
            f"past the {frame.limit:g} that the declared bounds leave around their centre: "
            "scale the magnitudes down or widen the bounds."
        )
    return Ranges(frame, r, s, float(r.mean()), float(s.mean()))


def _read_magnitudes(given: Any, ids: IdIndex, kind: str, from_matrix: bool) -> Floats:
    if isinstance(given, Mapping):
        missing = [i for i in ids.ids.tolist() if i not in given]
        if missing:
            raise ValueError(
                f"{len(missing)} {kind}s have no magnitude (first: {missing[0]!r}): "
                f"give one for every {kind} in the ratings."
            )
        values = read_numbers([given[i] for i in ids.ids.tolist()], f"the {kind} magnitudes", "magnitude")
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


def _refuse_magnitudes(kind: str, values: Floats, ids: IdIndex, bad: NDArray[np.bool_], flaw: str) -> None:
    if bad.any():
        first = int(bad.argmax())
        raise ValueError(
            f"{bad.sum()} {kind} magnitudes {flaw} (first: {kind} {ids.ids.item(first)!r}: {values[first]:g})."
        )


def magnitudes_of_new(ranges: Ranges, kind: str, ids: IdIndex, past: Csr, weight: Any, given: Any = None) -> Floats:
    """Magnitudes of users (or items) that come after the fit, by the rule that gave the others theirs.

    From history, Eqs. (42) and (43) on the new ratings; from the mapping ``given``, where it knows them; otherwise the
    one of somebody unknown. ``weight`` is that of `history_weight`.
    """
    if ranges.overall is not None:
        own = _own_and_overall(ranges.frame, ids, past, ids, ranges.overall, weight)
        return np.minimum(own, np.sqrt(ranges.frame.limit))
    unknown, others = (ranges.unknown_user, ranges.item) if kind == "user" else (ranges.unknown_item, ranges.user)
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
    smallest, largest = sizes_that_fit(dtype)
    widest = ranges.user.max() * ranges.item.max()
    if not smallest <= widest <= 4 * largest:  # twice as wide as an end is far, and rounding
        flaw, how = ("narrow", "multiply") if widest < smallest else ("wide", "divide")
        raise ValueError(
            f"the widest range is ±{widest:g} around its centre, too {flaw} for dtype={dtype.name}: "
            f"{_remedy(dtype, how)}."
        )
    flaw = f"are too small or too large for dtype={dtype.name}: scale them"
    for kind, magnitudes, ids in (("user", ranges.user, users), ("item", ranges.item, items)):
        _refuse_magnitudes(kind, magnitudes, ids, (magnitudes < smallest) | (magnitudes > largest), flaw)


# --- contradictions -----------------------------------------------------------------------------------------


def contradictions(ratings: Ratings, ranges: Ranges) -> NDArray[np.bool_]:
    """Which observations (in by_user order) lie outside their own range, e.g. V_ij > 2 r_i s_j under Eq. (40)."""
    product = ranges.product(ratings.user_of_rating(), ratings.by_user.indices)
    lower, upper = ranges.interval(product)
    slack = ROUNDING * np.maximum(product, np.abs(ranges.frame.offset))
    values = ratings.by_user.data
    return np.asarray((values < lower - slack) | (values > upper + slack))


def settle_contradictions(ratings: Ratings, ranges: Ranges, how: str) -> tuple[Ratings, Ranges, NDArray[np.bool_]]:
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


def describe_contradictions(ratings: Ratings, ranges: Ranges, outside: NDArray[np.bool_]) -> str:
    """One sentence: how many, and the first with its place."""
    first = int(outside.argmax())
    user, item = ratings.user_of_rating()[first], ratings.by_user.indices[first]
    lower, upper = ranges.interval(ranges.product(np.array([user]), np.array([item])))
    value = ratings.by_user.data[first]
    relation = f"{value:g} > {upper[0]:g}" if value > upper[0] else f"{value:g} < {lower[0]:g}"
    return (
        f"{outside.sum()} of {outside.size} ratings lie outside their own range "
        f"(first: user {ratings.users.ids.item(user)!r}, item {ratings.items.ids.item(item)!r}: {relation})."
    )


def _widen(ratings: Ratings, ranges: Ranges, outside: NDArray[np.bool_]) -> Ranges:
    """Scale r_i and s_j of each contradiction by the same factor, up to what the declared bounds allow.

    Where the cap stops one of the two, the second round lets the other take the rest.
    """
    frame, most = ranges.frame, np.sqrt(ranges.frame.limit)
    if np.isfinite(most):  # share the largest product alike: then neither side is past its half of the limit
        share = np.sqrt(ranges.item.max() / ranges.user.max())
        ranges = replace(ranges, user=ranges.user * share, item=ranges.item / share)
    power = 0.5
    while outside.any():
        users, items = ratings.user_of_rating()[outside], ratings.by_user.indices[outside]
        needed = frame.levels(ratings.by_user.data[outside]) / (2 if frame.tilt else 1)
        factor = (needed / ranges.product(users, items)) ** power * (1 + ROUNDING)
        user, item = np.ones_like(ranges.user), np.ones_like(ranges.item)
        np.maximum.at(user, users, factor)
        np.maximum.at(item, items, factor)
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
