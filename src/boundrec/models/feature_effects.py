"""What a fit has learnt about features: how much each of them moves ratings, and tastes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from boundrec.arrays import Floats
from boundrec.data.ratings import Pairs
from boundrec.models import answers
from boundrec.models.fitted import Fitted
from boundrec.solvers.exact import HELD_SHARE


class FeatureEffect(NamedTuple):
    """What one more of a feature does: one standard deviation of a number, being in a category, having a neighbour."""

    #: "user" or "item", and the name of the feature, such as "age" or "gender=F".
    side: str
    feature: str
    #: How much higher somebody otherwise typical is rated, or rates, in units of ratings; and its standard deviation
    #: over the kept samples.
    on_ratings: float
    spread: float
    #: √(B_f P B_fᵀ), averaged over the samples: how far rows move, bias and tastes, in standard deviations of their
    #: prior.
    on_rows: float


def feature_effects(fitted: Fitted) -> list[FeatureEffect]:
    """The effects of all features of users, then of items; none where the fit had none."""
    return [effect for kind in ("user", "item") for effect in _effects(fitted, kind)]


def _effects(fitted: Fitted, kind: str) -> list[FeatureEffect]:
    side = fitted.side(kind)
    links, prior = side.links, side.prior
    if links is None or links.features is None or prior is None:
        return []
    B = (links.matrices if links.alone is None else links.alone).astype(np.float64)
    on_rows = np.sqrt(np.einsum("sfi,sij,sfj->sf", B, prior.precision, B)).mean(axis=0)
    on_ratings = _in_ratings(fitted, B[:, :, 0])
    found = zip(
        links.features.names,
        on_ratings.mean(axis=0).tolist(),
        on_ratings.std(axis=0).tolist(),
        on_rows.tolist(),
        strict=True,
    )
    return [FeatureEffect(kind, *one) for one in found]


def _in_ratings(fitted: Fitted, biases: Floats) -> Floats:
    """What a bias, in units of its magnitude, adds to the rating of somebody typical.

    Where pairs have ranges of their own it is that in a range of the training ratings' mean width.
    """
    ranges, nobody = answers.bounded(fitted), Pairs(np.array([-1]), np.array([-1]))
    magnitudes = ranges.slack * ranges.unknown_user * ranges.unknown_item
    typical = answers.inner_products(*answers.rows_of(fitted), ranges, nobody)
    moved = typical + np.sqrt(HELD_SHARE) * magnitudes * biases.ravel()
    before, after = (ranges.to_value(inner, Pairs(*np.full((2, len(inner)), -1))) for inner in (typical, moved))
    if ranges.scale.width is None:
        before, after = ranges.scale.unlinked(before), ranges.scale.unlinked(after)
    return np.asarray((after - before).reshape(biases.shape))
