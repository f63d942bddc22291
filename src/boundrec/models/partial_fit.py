"""Ratings that come after the fit: the rows they touch are solved again, and all others keep their bits."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from boundrec.models.base import Codes
from boundrec.models.bounded import BoundedModel
from boundrec.models.fold_in import new_magnitudes, of_side, read_new, settle_new
from boundrec.ranges import Ranges
from boundrec.ratings import IdIndex, Ratings
from boundrec.recommend import Seen

Model = TypeVar("Model", bound=BoundedModel)


def partial_fit(model: Model, X: Any, y: Any, sample_weight: ArrayLike | None) -> Model:
    """Fold in new users, then solve the items with new ratings, then the users with new ratings."""
    if not hasattr(model, "item_factors_"):
        return model.fit(X, y, sample_weight=sample_weight)
    old = model._ratings
    if old is None:
        raise ValueError(
            "partial_fit needs the ratings of the fit, which neither a view from fold_in nor a file without them has: "
            "call it on the model itself, or save the model with keep_ratings=True."
        )
    new = read_new(model, X, y, sample_weight)
    given = new.renumbered(old.users.extended(new.users), old.items.extended(new.items))
    added, ranges = settle_new(model, given, _grown(model, given), {"user": old.n_users, "item": old.n_items})
    ratings, seen = old.with_new(added), model._seen
    with model._unchanged_on_error():
        _add_rows(model, ranges)
        model._learn_ids_and_means(ratings)
        if seen.indices.size > old.n_ratings or given.n_ratings > added.n_ratings:
            model._seen = _seen_together(seen, given)
        users, items = (np.flatnonzero(np.diff(csr.indptr)) for csr in (added.by_user, added.by_item))
        _solve(model, ratings, "user", users[users >= old.n_users])
        _solve(model, ratings, "item", items)
        _solve(model, ratings, "user", users)
    return model


def _grown(model: BoundedModel, given: Ratings) -> Ranges:
    """The model's ranges, with magnitudes for new users and items after those it has."""
    ranges = model._ranges
    for kind in ("user", "item"):
        (ids, csr), own = of_side(given, kind), getattr(ranges, kind)
        new = np.arange(len(own), len(ids))
        if new.size:
            magnitudes = new_magnitudes(model, kind, IdIndex(ids.ids[new]), csr.take(new))
            ranges = ranges.with_magnitudes(kind, np.concatenate([own, magnitudes]))
    return ranges


def _add_rows(model: BoundedModel, ranges: Ranges) -> None:
    """Start new rows after those the model has; what it has is copied, for views and files may share it."""
    for kind in ("user", "item"):
        magnitudes, known = getattr(ranges, kind), len(getattr(model._ranges, kind))
        for name, rows in model._start_rows(kind, magnitudes[known:]).items():
            setattr(model, name, np.concatenate([getattr(model, name), rows]))
        setattr(model, f"{kind}_magnitudes_", magnitudes)
    model._ranges = ranges


def _seen_together(seen: Seen, given: Ratings) -> Seen:
    """What was seen before and what new ratings show: more than the model's ratings, where some were dropped."""
    n_before, width = seen.indptr.size - 1, given.n_items
    before = np.repeat(np.arange(n_before), np.diff(seen.indptr)) * width + seen.indices
    now = given.user_of_rating().astype(np.int64) * width + given.by_user.indices
    users, items = np.divmod(np.union1d(before, now), width)
    return Seen(np.searchsorted(users, np.arange(given.n_users + 1)), items.astype(np.int32))


def _solve(model: BoundedModel, ratings: Ratings, kind: str, rows: Codes) -> None:
    """One half-step on some rows, from all of their ratings."""
    if rows.size:
        model._solve_rows(kind, rows, of_side(ratings, kind)[1].take(rows))
