"""New users, or new items: one constrained solve of their rows against the factors that the model has.

A row depends on nothing but its own ratings and the other side, so what is new needs no refit: the half-step that ends
every fit, on the new rows alone, gives them the rows that the fit would have ended with.
"""

from __future__ import annotations

import copy
from typing import Any, TypeVar, get_args

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from boundrec.columns import short
from boundrec.models.base import Floats, shrunken_means
from boundrec.models.bounded import Axis, BoundedModel
from boundrec.models.new_rows import OTHER
from boundrec.models.notes import warn
from boundrec.models.predicting import check_names
from boundrec.models.stopping import trained_codes
from boundrec.ranges import (
    Ranges,
    check_ranges_fit,
    describe_contradictions,
    history_weight,
    magnitudes_of_new,
    settle_contradictions,
    widen_new,
)
from boundrec.ratings import Csr, IdIndex, Ratings
from boundrec.recommend import Seen

Model = TypeVar("Model", bound=BoundedModel)


def fold_in(model: Model, X: Any, y: Any, axis: Axis, sample_weight: ArrayLike | None) -> Model:
    """A copy of the model whose users (or items) are those of the new ratings; the other side is shared."""
    check_is_fitted(model, "item_factors_")
    if not isinstance(axis, str) or axis not in get_args(Axis):
        raise ValueError(f"axis={short(axis)}: give 'users' or 'items'.")
    kind = axis.removesuffix("s")
    given = _of_known(model, read_new(model, X, y, sample_weight), kind)
    ranges = model._ranges.with_magnitudes(kind, new_magnitudes(model, kind, *of_side(given, kind)))
    ratings, ranges = settle_new(model, given, ranges, {kind: 0})
    ids, csr = of_side(ratings, kind)
    view = copy.copy(model)
    view._ratings, view._seen, view._ranges = None, Seen.of(given), ranges
    means, seen = shrunken_means(csr, model.mean_)
    learned = {"ids_": ids, "means_": means, "magnitudes_": getattr(ranges, kind)}
    view.__dict__.update({f"{kind}_{name}": value for name, value in learned.items()})
    view.__dict__.update({f"n_{kind}s_": len(ids), f"_{kind}_seen": seen})
    view.__dict__.update(model._start_rows(kind, getattr(ranges, kind)))
    view._solve_rows(kind, np.arange(len(ids)), csr)
    return view


# --- ratings that come after the fit ------------------------------------------------------------------------


def read_new(model: BoundedModel, X: Any, y: Any, sample_weight: ArrayLike | None) -> Ratings:
    """Ratings in columns of the same names, if any, as those of the fit."""
    ratings = model._read(X, y, sample_weight)
    check_names(model._column_names, ratings.names)
    return ratings


def of_side(ratings: Ratings, kind: str) -> tuple[IdIndex, Csr]:
    """The ids of one side and the ratings in its row order."""
    return (ratings.users, ratings.by_user) if kind == "user" else (ratings.items, ratings.by_item)


def _of_known(model: BoundedModel, ratings: Ratings, kind: str) -> Ratings:
    """Ratings under the row numbers that the model has for the other side; those of ids unknown there are left out."""
    other = OTHER[kind]
    given, known = of_side(ratings, other)[0], getattr(model, f"{other}_ids_")
    trained = trained_codes(given.ids, known, getattr(model, f"_{other}_seen")) >= 0
    if not trained.all():
        column = ratings.by_user.indices if other == "item" else ratings.user_of_rating()
        usable = trained[column]
        told = (
            f"{np.count_nonzero(~usable)} of {usable.size} ratings are of {other}s without training ratings "
            f"(first: {other} {given.ids.item(column[usable.argmin()])!r})"
        )
        if model.on_unknown == "raise" or not usable.any():
            raise ValueError(f"{told}: leave them out, or add these {other}s with partial_fit or fold_in first.")
        if not usable.all():
            warn(f'{told} and were left out. Pass on_unknown="raise" to have them refused.')
            ratings = ratings.keep(usable)
    return ratings.renumbered(*((ratings.users, known) if kind == "user" else (known, ratings.items)))


def new_magnitudes(model: BoundedModel, kind: str, ids: IdIndex, past: Csr) -> Floats:
    """Magnitudes of new ids, from their ratings where the fit made magnitudes of ratings."""
    weight = history_weight(model.history_share, model.history_count, getattr(model, f"n_{OTHER[kind]}s_"))
    given = None if isinstance(model.magnitudes, str) else model.magnitudes[kind == "item"]
    return magnitudes_of_new(model._ranges, kind, ids, past, weight, given)


def settle_new(
    model: BoundedModel, ratings: Ratings, ranges: Ranges, first_new: dict[str, int]
) -> tuple[Ratings, Ranges]:
    """Deal with new ratings outside their own range; only what is new is widened."""
    how = model.on_contradiction
    if how == "widen":
        for kind, first in first_new.items():
            ranges = widen_new(of_side(ratings, kind)[1], ranges, kind, first)
        how = "keep"
    settled, ranges, outside = settle_contradictions(ratings, ranges, how)
    check_ranges_fit(ranges, ratings.users, ratings.items, np.dtype(model.dtype))
    if outside.any() and how == "keep":
        warn(describe_contradictions(ratings, ranges, outside))
    return settled, ranges
