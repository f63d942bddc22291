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
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from boundrec.arrays import Bools, Codes, Floats, ReadOnly, Reals
from boundrec.data.columns import short
from boundrec.data.ratings import Csr, Pairs, is_too_large, sizes_that_fit, wider_than
from boundrec.ranges.scale import Bounds, Scale
from boundrec.ranges.slack import lead, squash, unlead, unsquash

Form = Literal["c", "n"]
MagnitudeRule = Literal["auto", "range", "history", "paper"]
SideRule = Literal["range", "history"]
#: By a rule for both sides, or one for each: those of the users, then those of the items.
Magnitudes = MagnitudeRule | Sequence[Mapping[Any, float] | Sequence[float] | Floats | SideRule]
Contradiction = Literal["keep", "widen", "drop", "raise"]
#: What the ends, the centre and the bend of a range may be off, relative to it: some hundred units of float64.
ROUNDING_OF_RANGES = 1e-13


class PredictionRanges(Protocol):
    """What a prediction may be, asked by pairs of row numbers of users and items, where −1 is somebody unknown.

    The solvers know inner products w·h only; this is where those become ratings, and where a search for the highest
    predictions learns which inner products are worth looking at.
    """

    @property
    def scale(self) -> Scale:
        """What is factorised: ratings, or what stands for them."""

    def interval(self, pairs: Pairs) -> tuple[Floats, Floats]:
        """Both ends of each pair's range."""

    def to_value(self, inner: Floats, pairs: Pairs) -> Floats:
        """The numbers, on the model's scale, that inner products of the pairs' rows stand for."""

    def needed(self, users: Codes, scores: Floats, low: float, high: float) -> Floats:
        """The least inner product with which an item, its magnitude between low and high, might reach a score."""

    def vectors(self, users: Reals, items: Reals) -> tuple[Reals, Reals]:
        """Factors whose inner products have the order of the predictions, or come close to it."""

    def magnitudes_that_decide(self) -> Floats | None:
        """Of the items, where the order of predictions depends on them, too."""

    def keeps_order(self, trained: Bools) -> bool:
        """Whether predictions of trained items have the order of the inner products of `vectors`."""


@dataclass(frozen=True)
class Frame:
    """Where ranges are centred, how wide they may be, and which declared ends they guard."""

    offset: float
    tilt: int = 0
    limit: float = np.inf
    lower: float = -np.inf
    upper: float = np.inf
    #: Whether centre and width are those of the data, and each tail is led into its own declared end.
    led: bool = False

    def levels(self, values: NDArray[np.floating]) -> Floats:
        """Distances from the offset: what magnitudes are made of (resolution A15)."""
        levels: Floats = np.abs(values - self.offset)
        return levels


@dataclass(frozen=True)
class Ranges(ReadOnly):
    """The range of every pair: ``frame.offset + (tilt ± 1)·r_i s_j``, cut at the declared ends it guards.

    Factors may reach past it by the ``slack`` (:mod:`boundrec.ranges.slack`), predictions may not.
    """

    frame: Frame
    user: Floats
    item: Floats
    unknown_user: float
    unknown_item: float
    #: √(mean + std) over all of the history, Eq. (41), before any cap; None where magnitudes are not made of it.
    overall: float | None = None
    slack: float = 1.0
    scale: Scale = field(default_factory=Scale)

    def with_magnitudes(self, kind: str, magnitudes: Floats) -> Ranges:
        """The same with other magnitudes of one side, "user" or "item"."""
        return replace(self, user=magnitudes) if kind == "user" else replace(self, item=magnitudes)

    def radius(self, pairs: Pairs) -> Floats:
        """r_i s_j, half of a range's width."""
        return of_rows(self.user, pairs.users, self.unknown_user) * of_rows(self.item, pairs.items, self.unknown_item)

    def interval(self, pairs: Pairs) -> tuple[Floats, Floats]:
        """Both ends of a range, as ratings; rounding never takes them past a declared end."""
        return self.scale.interval(*self._interval(self.radius(pairs)), pairs)

    def to_value(self, inner: Floats, pairs: Pairs) -> Floats:
        """The number for an inner product w·h: from within slack·r·s of the centre to within r·s of it."""
        if self.frame.led:
            return np.asarray(self.frame.offset + lead(inner, *self._reach_and_room()))
        radius = self.radius(pairs)
        if inner.ndim == 2:
            radius = radius[:, None]
        return np.asarray(self._centre(radius) + radius * squash(inner / radius, self.slack))

    def centred(self, csr: Csr, rows: Floats, columns: Floats, dtype: Any) -> Csr:
        """The same observations with their centres taken off, Eqs. (36), (38) and (40); zeros stay stored."""
        data = csr.data - self.frame.offset
        if self.frame.tilt:
            data -= self.frame.tilt * np.repeat(rows, np.diff(csr.indptr)) * columns[csr.indices]
        return csr._replace(data=data.astype(dtype, copy=False), weights=csr.weights.astype(dtype, copy=False))

    def _centre(self, radius: Floats) -> Floats:
        return self.frame.offset + self.frame.tilt * radius

    def _interval(self, radius: Floats) -> tuple[Floats, Floats]:
        centre, below, above = self._centre(radius), radius, radius
        if self.frame.led:
            reach, *room = self._reach_and_room()
            below, above = (np.full_like(radius, min(reach, end)) for end in room)
        lower = np.maximum(centre - below, self.frame.lower)
        return lower, np.maximum(np.minimum(centre + above, self.frame.upper), lower)

    def _reach_and_room(self) -> tuple[float, float, float]:
        """Where magnitudes are those of the data: how far the fit may go, and the room below and above its centre."""
        frame, reach = self.frame, self.slack * self.unknown_user * self.unknown_item
        return reach, frame.offset - frame.lower, frame.upper - frame.offset

    # --- the search for the highest predictions -------------------------------------------------------------

    def needed(self, users: Codes, scores: Floats, low: float, high: float) -> Floats:
        """The least inner product of `vectors` with which an item might reach a score."""
        scores = self.scale.linked_scores(scores)
        if self.frame.led:
            reach, below, above = self._reach_and_room()
            distance = scores - self.frame.offset - ROUNDING_OF_RANGES * (reach + abs(self.frame.offset))
            return np.where(distance <= -min(reach, below), -np.inf, unlead(distance, reach, below, above))
        if self.slack == 1.0:
            # No inner product leads below the lower end, which is highest where the item's magnitude is smallest.
            lower, _ = self._interval(self.user[users] * self.item.min())
            return np.where(scores <= lower, -np.inf, scores - self.frame.offset)
        # For a given inner product the prediction is monotone in the item's magnitude: one of the ends asks for least.
        narrow, wide = (self.user[users] * item for item in (low, high))
        scores = scores - ROUNDING_OF_RANGES * (wide + abs(self.frame.offset))
        return np.minimum(self._to_inner(scores, narrow), self._to_inner(scores, wide))

    def _to_inner(self, values: Floats, radius: Floats) -> Floats:
        """The least inner product that `to_value` leads to a number, or past it: any, where all the range is."""
        share = (values - self._centre(radius)) / radius
        return np.asarray(radius * np.where(share <= -1.0, -np.inf, unsquash(share, self.slack)))

    def vectors(self, users: Reals, items: Reals) -> tuple[Reals, Reals]:
        """Factors whose inner product is the prediction but for a constant; a tilted centre takes one dimension."""
        if not self.frame.tilt:
            return users, items
        return np.column_stack([users, self.frame.tilt * self.user]), np.column_stack([items, self.item])

    def magnitudes_that_decide(self) -> Floats | None:
        """With slack, predictions depend on the magnitudes of the items."""
        return None if self.slack == 1.0 or self.frame.led else self.item

    def keeps_order(self, trained: Bools) -> bool:
        """Without slack always; with it, where all items have the same magnitude."""
        return self.slack == 1.0 or bool(np.ptp(self.item[trained]) == 0)


# --- bounds -------------------------------------------------------------------------------------------------


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
        raise ValueError(
            f"bounds={bounds}: an end too large for dtype={dtype.name}; {scaling_remedy(dtype, 'divide')}."
        )
    if len(ends) == 2 and ends[1] - ends[0] < 2 * smallest:
        raise ValueError(
            f"bounds={bounds}: ends too close together for dtype={dtype.name}; {scaling_remedy(dtype, 'multiply')}."
        )


def scaling_remedy(dtype: np.dtype[Any], how: str, size: float = np.inf) -> str:
    """What to do about numbers that a type cannot compute with; ``size`` is the first of them."""
    return f"{wider_than(dtype, size)}{how} all ratings and bounds by a constant"


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


def of_rows(magnitudes: Floats, rows: Codes, unknown: float) -> Floats:
    """The magnitude of each row; in a fit all of them are known, and nothing else as long as the ratings is made."""
    found, strangers = magnitudes[rows], rows < 0
    return np.where(strangers, unknown, found) if strangers.any() else found
