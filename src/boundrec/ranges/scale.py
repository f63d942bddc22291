"""The scale that a model works on: ratings themselves, their logarithms, or shares of each pair's own range.

Where every pair has a range [lo, hi] of its own,

    v̂ = c + d·t,   c = (lo + hi)/2,   d = (hi − lo)/2,   t in [−1, 1]

so any two matrices lo ≤ hi are kept, rated or not: Cauchy-Schwarz bounds t. The model factorises D·t, with D the root
mean square of the d of the training ratings: equal ranges for all pairs then give the model with that one range. The
squared error of a rating is d² times that of its share; if the standard deviation of its noise grows as d^p, its
weight among the shares is d^(2−2p), here divided by the mean of these over the training ratings.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from boundrec.arrays import Floats
from boundrec.data.ratings import Ends, Pairs, Ratings

Bounds = tuple[float | None, float | None]
Link = Literal["log1p"]
#: A rating outside its own range is kept, but no further from its centre than so many half-widths.
FARTHEST = 10.0
#: What lies within this of an end of the whole range, as a part of it, is that end.
ROUNDING = 1e-9
#: What is larger, as a quantile on the way to its range's end, has no number behind the link; no end is.
LARGEST_LOG = 700.0
#: A weight to divide by, of ratings that count next to nothing.
LEAST_WEIGHT = 1e-100


@dataclass(frozen=True)
class Scale:
    """From ratings to the numbers that a model factorises, and back; by itself it changes nothing.

    Parameters
    ----------
    link
        ``"log1p"``: logarithms are factorised, log(1 + v).
    width
        D, where pairs have ranges of their own; None where they share one.
    growth
        p: how the noise grows with the width of a range.
    mean_weight
        The mean of (d/D)^(2−2p) over the training ratings.
    lower, upper
        Declared ends that hold for all pairs, in ratings: rounding of a link must not pass them.
    even
        Whether all ranges of the training ratings are as wide, so that none of these counts more than another.
    """

    link: Link | None = None
    width: float | None = None
    growth: float = 0.0
    mean_weight: float = 1.0
    lower: float = -np.inf
    upper: float = np.inf
    even: bool = True

    @property
    def is_plain(self) -> bool:
        """Whether ratings are factorised as they are."""
        return self.link is None and self.width is None

    def bounds(self, declared: Bounds) -> Bounds:
        """The range of all numbers on this scale, where ratings lie in a declared one."""
        if self.width is not None:
            return -self.width, self.width
        low, high = (None if end is None else float(self.linked(np.array(end))) for end in declared)
        return low, high

    def guarding(self, low: float, high: float, declared: Bounds) -> Scale:
        """The same with those of the declared ends that are guarded, behind the link at ``low`` and ``high``."""
        if self.link is None:
            return self
        ends = zip((low, high), declared, (-np.inf, np.inf), strict=True)
        lower, upper = (end if end is not None and np.isfinite(one) else open_end for one, end, open_end in ends)
        return replace(self, lower=lower, upper=upper)

    # --- values -------------------------------------------------------------------------------------------------

    def linked(self, values: NDArray[np.floating]) -> Floats:
        """What the link makes of ratings."""
        return np.asarray(np.log1p(values) if self.link else values, np.float64)

    def linked_scores(self, scores: Floats) -> Floats:
        """The same of what predictions are compared with, which may be less than any of them is."""
        if not self.link:
            return scores
        return np.where(scores > -1, self.linked(np.maximum(scores, np.nextafter(-1, 0))), -np.inf)

    def unlinked(self, values: Floats) -> Floats:
        """The ratings behind what the link made of them."""
        return np.asarray(np.expm1(np.minimum(values, LARGEST_LOG))) if self.link else values

    def halves(self, ends: Ends) -> tuple[Floats, Floats]:
        """c and d of each pair, behind the link."""
        if self.link is not None and (below := ends.lower < 0).any():
            first = int(below.argmax())
            raise ValueError(
                f"{np.count_nonzero(below)} of {below.size} ranges begin below 0 (first: {ends.lower.item(first)} to "
                f"{ends.upper.item(first)}), where link={self.link!r} has no logarithms: let them begin at 0, or pass "
                "link=None."
            )
        low, high = self.linked(ends.lower), self.linked(ends.upper)
        return low / 2 + high / 2, high / 2 - low / 2

    def stretch(self, pairs: Pairs) -> Floats:
        """d/D: how far a rating moves, behind the link, where the model's number moves by one."""
        if self.width is None:
            return np.ones(len(pairs))
        return self.halves(_ends(pairs))[1] / self.width

    def to_rating(self, values: Floats, pairs: Pairs) -> Floats:
        """The ratings that the model's numbers stand for; one column for each, if there are more."""
        if self.is_plain:
            return values
        if self.width is not None:
            centre, half = self.halves(_ends(pairs))
            if values.ndim == 2:
                centre, half = centre[:, None], half[:, None]
            values = centre + half / self.width * values
        return self.unlinked(values)

    def of_values(self, ratings: NDArray[np.floating], pairs: Pairs) -> Floats:
        """The model's numbers behind ratings, no further from a centre than `FARTHEST`; the middle in no width."""
        values = self.linked(ratings)
        if self.width is None:
            return values
        centre, half = self.halves(_ends(pairs))
        share = np.divide(values - centre, half, out=np.zeros_like(values), where=half != 0)
        return self.width * np.clip(share, -FARTHEST, FARTHEST)

    def interval(self, low: Floats, high: Floats, pairs: Pairs) -> tuple[Floats, Floats]:
        """Both ends of a range, as ratings; rounding never takes them past a declared end, nor just short of it."""
        if self.is_plain:
            return low, high
        lower, upper = pairs.ends or (self.lower, self.upper)
        ends = tuple(np.clip(self.to_rating(end, pairs), lower, upper) for end in (low, high))
        if self.width is None:
            below, above = (
                self.lower + ROUNDING * (1 + abs(self.lower)),
                self.upper - ROUNDING * (1 + abs(self.upper)),
            )
            return np.where(ends[0] <= below, lower, ends[0]), np.where(ends[1] >= above, upper, ends[1])
        whole = (1 - ROUNDING) * self.width
        return np.where(low <= -whole, lower, ends[0]), np.where(high >= whole, upper, ends[1])

    # --- ratings to learn from ------------------------------------------------------------------------------------

    def of_ratings(self, ratings: Ratings) -> Ratings:
        """The same pairs with the numbers to factorise, and what each counts; a range of no width says nothing."""
        if self.is_plain:
            return ratings
        pairs, weights = ratings.pairs(), ratings.by_user.weights
        if self.width is not None:
            weights = (weights if weights.size else 1.0) * self.weights(self.halves(_ends(pairs))[1])
        return ratings.with_values(self.of_values(ratings.by_user.data, pairs), weights)

    def weights(self, half: Floats) -> Floats:
        """What ratings with ranges of these half-widths count, beside their own weights."""
        assert self.width is not None
        power = 2.0 - 2.0 * self.growth
        return np.where(half > 0, (half / self.width) ** power, 0.0) / self.mean_weight

    def noise(self, pairs: Pairs) -> Floats:
        """Standard deviation of the noise of each pair, in units of that of a rating that counts once."""
        if self.width is None:
            return np.ones(len(pairs))
        weights = self.weights(self.halves(_ends(pairs))[1])
        return 1.0 / np.sqrt(np.maximum(weights, LEAST_WEIGHT))


def own_scale(ratings: Ratings, link: Link | None, growth: float) -> Scale:
    """The scale of ratings whose pairs have ranges of their own."""
    _, half = Scale(link).halves(_ends(ratings.pairs()))
    own = ratings.by_user.weights
    counts: Floats = np.where(half > 0, own if own.size else 1.0, 0.0)
    if not counts.any():
        raise ValueError("every range has a width of zero, so there is nothing to learn: give ranges with room.")
    largest = half.max()
    width = float(largest * np.sqrt(np.average((half / largest) ** 2, weights=counts)))
    even = bool(np.ptp(half[counts > 0]) <= ROUNDING * largest)
    bare = Scale(link, width, growth, even=even)
    return replace(bare, mean_weight=float(np.average(bare.weights(half), weights=counts)))


def _ends(pairs: Pairs) -> Ends:
    assert pairs.ends is not None
    return pairs.ends
