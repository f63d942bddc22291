"""What every magnitude bounded model shares: ranges from bounds and magnitudes, and predictions inside them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse

from boundrec.columns import short
from boundrec.models.base import Callback, Codes, FactorisationModel, Floats
from boundrec.models.notes import warn
from boundrec.models.settings import is_number
from boundrec.models.slack import squash, unsquash
from boundrec.ranges import (
    CONTRADICTIONS,
    FORMS,
    MAGNITUDES,
    Contradiction,
    Form,
    Magnitudes,
    Ranges,
    check_bounds,
    check_ranges_fit,
    constant_magnitudes,
    describe_contradictions,
    frame_for,
    given_magnitudes,
    historical_magnitudes,
    settle_contradictions,
)
from boundrec.ratings import Csr, Ratings
from boundrec.recommend import Ranking, Seen

Axis = Literal["users", "items"]
#: What the ends, the centre and the bend of a range may be off, relative to it: some hundred units of float64.
ROUNDING_OF_RANGES = 1e-13


class BoundedModel(FactorisationModel):
    """A factorisation whose every prediction lies in a range of its own: centre ± r_i s_j.

    Fitting reads as the method does: ranges first (:mod:`boundrec.ranges`), then centred ratings, then sweeps that
    only ever see centred ratings and magnitudes.
    """

    form: Form
    magnitudes: Magnitudes
    history_share: float
    history_count: float | None
    on_contradiction: Contradiction

    CHOICES: ClassVar[dict[str, tuple[str, ...]]] = {
        **FactorisationModel.CHOICES,
        "form": FORMS,
        "on_contradiction": CONTRADICTIONS,
    }
    STATE: ClassVar[dict[str, str]] = {
        **FactorisationModel.STATE,
        "_ranges": "ranges",
        "user_magnitudes_": "floats users",
        "item_magnitudes_": "floats items",
        "infeasible_share_": "share",
        "slack_": "number",
    }
    MIN_FACTORS = 2  # one factor leaves a sign and no angle (resolution A9)

    #: How far the factors may reach past the range, as a multiple of it, before predictions are led back into it.
    slack_: float = 1.0

    # --- fitting --------------------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        history: Any = None,
        sample_weight: ArrayLike | None = None,
        eval_set: Any = None,
        callback: Callback | None = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X
            Two columns of ids, users and items (array, list of pairs, pandas, polars or pyarrow), or a scipy
            sparse matrix of users × items whose stored entries are the observations, or a `Ratings`.
        y
            One rating for each row of X; None for a sparse matrix or a `Ratings`.
        history
            Past ratings that set the magnitudes, as ``(X_past, y_past)``, a sparse matrix or a `Ratings`.
        sample_weight
            How much each rating counts; None counts each once. Magnitudes do not depend on it.
        eval_set
            Ratings to evaluate on after every sweep, for early stopping, as ``(X_eval, y_eval)``, a sparse matrix or a
            `Ratings`; instead of a ``validation_fraction``. They are not trained on.
        callback
            Called after every sweep as ``callback(sweep, objective, model)``; returning True stops the fit.
        """
        self._check_settings()
        given = self._read(X, y, sample_weight)
        ratings, held_out = self._set_aside(given, eval_set)
        past = self._read_history(history, ratings)
        ranges = self._choose_ranges(ratings, past, from_matrix=issparse(X) or isinstance(X, Ratings))
        with self._unchanged_on_error(), self._evaluated_on(held_out):
            ratings = self._settle(ratings, ranges)
            if self.n_factors > min(ratings.n_users, ratings.n_items):
                warn(
                    f"n_factors={self.n_factors} is more than the {ratings.n_users} users × {ratings.n_items} items "
                    "can determine."
                )
            self._fit(ratings, callback)
            self._seen = Seen.of(given)  # who rated an item has seen it, even if that rating was dropped or set aside
            return self

    def _read_history(self, history: Any, ratings: Ratings) -> Ratings | None:
        if history is None:
            return None
        if self.magnitudes == "range" or not isinstance(self.magnitudes, str):
            raise ValueError('history sets the magnitudes, but others are asked for: pass magnitudes="history".')
        past = self._read_beside("history", history, ratings)
        known = (past.users.codes(ratings.users.ids) >= 0).any() or (past.items.codes(ratings.items.ids) >= 0).any()
        if not known:
            raise ValueError(
                f"history shares no user and no item with the ratings (its first user is {past.users.ids.item(0)!r}, "
                f"theirs {ratings.users.ids.item(0)!r}): give both the same kind of ids."
            )
        return past

    def _choose_ranges(self, ratings: Ratings, past: Ratings | None, from_matrix: bool) -> Ranges:
        """Frame and magnitudes for these ratings (resolutions A13 to A17)."""
        bounds = check_bounds(self.bounds)
        smallest = min(float(r.by_user.data.min()) for r in (ratings, past) if r is not None)
        frame = frame_for(bounds, self.form, smallest)
        if not isinstance(self.magnitudes, str):
            return given_magnitudes(frame, ratings, self.magnitudes, from_matrix)
        one_sided = (bounds[0] is None) != (bounds[1] is None)
        automatic = self.magnitudes in ("auto", "paper")
        if self.magnitudes == "range" or (automatic and past is None and not one_sided):
            return constant_magnitudes(frame, bounds, ratings)
        cap = self.magnitudes != "paper"
        return historical_magnitudes(frame, ratings, past or ratings, self.history_share, self.history_count, cap)

    def _settle(self, ratings: Ratings, ranges: Ranges) -> Ratings:
        """Deal with ratings outside their own range; one warning says how many there are."""
        settled, self._ranges, outside = settle_contradictions(ratings, ranges, self.on_contradiction)
        check_ranges_fit(self._ranges, ratings.users, ratings.items, np.dtype(self.dtype))
        self.infeasible_share_ = float(outside.mean())
        self.user_magnitudes_, self.item_magnitudes_ = self._ranges.user, self._ranges.item
        if outside.any() and self.on_contradiction == "keep":
            warn(
                f"{describe_contradictions(ratings, ranges, outside)} "
                'Pass on_contradiction="widen" or "drop" to settle them.'
            )
        return settled

    def _centred(self, ratings: Ratings, dtype: Any) -> tuple[Csr, Csr]:
        """Both row orders of the ratings with the centres of their ranges taken off."""
        ranges = self._ranges
        return (
            ranges.centred(ratings.by_user, ranges.user, ranges.item, dtype),
            ranges.centred(ratings.by_item, ranges.item, ranges.user, dtype),
        )

    # --- what comes after the fit ---------------------------------------------------------------------------

    def fold_in(self, X: Any, y: Any = None, axis: Axis = "users", sample_weight: ArrayLike | None = None) -> Self:
        """A view of the model for users it never saw, from their ratings: bounded from the first rating, no refit.

        Their rows are solved as in the last half-step of a fit, with everything else as it is. Their magnitudes come
        by the rule of the fit: from their ratings, Eqs. (42) and (43), where the others' come from ratings, else the
        same for all, or, where magnitudes were given as mappings, their own if those know them and the mean if not.

        Parameters
        ----------
        X, y, sample_weight
            Ratings of the new users, in any form that ``fit`` takes, under the same rules. Of users whom the model
            knows already these ratings count as all there are. Ratings of items without training ratings are left out
            with a warning; they are refused with ``on_unknown="raise"``, or when no others are left.
        axis
            ``"users"``, or ``"items"`` for new items from the ratings of users whom the model knows.

        Returns
        -------
        a copy of the model whose users (or items) are the new ones and whose other side is that of the model, with
        the same methods. The model itself stays as it was.
        """
        from boundrec.models.fold_in import fold_in

        return fold_in(self, X, y, axis, sample_weight)

    def partial_fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Add users, items and ratings to a fitted model; on one that is not fitted this is ``fit``.

        New users are folded in; then the items with new ratings are solved again, from all of their ratings, then the
        users with new ratings. Everybody else's factors keep their bits, and known users and items their magnitudes.
        ``objectives_`` and the like stay those of the fit: after many new ratings a fit on all of them is better.

        Parameters
        ----------
        X, y, sample_weight
            New ratings, in any form that ``fit`` takes, under the same rules. ``duplicates`` is about pairs that come
            twice among them; a pair that was rated before has its new rating from now on. Where ``on_contradiction``
            is "widen", only the ranges of new users and items are widened.
        """
        from boundrec.models.partial_fit import partial_fit

        return partial_fit(self, X, y, sample_weight)

    def _start_rows(self, kind: str, magnitudes: Floats) -> dict[str, NDArray[np.floating]]:
        """What the model learns of each row of a side ("user" or "item"), by name: where new rows start."""
        raise NotImplementedError

    def _solve_rows(self, kind: str, rows: Codes, csr: Csr) -> None:
        """Learn some rows of a side, in place, from their ratings in row order, with the other side fixed."""
        raise NotImplementedError

    # --- predictions ----------------------------------------------------------------------------------------

    @overload
    def predict(self, X: Any, return_range: Literal[False] = False) -> Floats: ...
    @overload
    def predict(self, X: Any, return_range: Literal[True]) -> tuple[Floats, Floats, Floats]: ...
    @overload
    def predict(self, X: Any, return_range: bool) -> Floats | tuple[Floats, ...]: ...
    def predict(self, X: Any, return_range: bool = False) -> Floats | tuple[Floats, ...]:
        """Predict the rating of each pair of ids; every prediction lies inside its own range.

        Parameters
        ----------
        X
            Two columns of ids.
        return_range
            Also return the lower and upper end of each pair's range.

        Returns
        -------
        prediction, or (prediction, lower, upper)
        """
        users, items = self._codes(X)
        predictions = self._predict_codes(users, items)
        return (predictions, *self._interval(users, items)) if return_range else predictions

    def predict_range(self, X: Any) -> tuple[Floats, Floats]:
        """The range of each pair of ids: what its prediction can be at least and at most."""
        return self._interval(*self._codes(X))

    def _interval(self, users: Codes, items: Codes) -> tuple[Floats, Floats]:
        return self._ranges.interval(self._ranges.product(users, items))

    def _answers(self, users: Codes, items: Codes) -> Floats:
        # Past rounding nothing is cut but answers for the unknown.
        return np.clip(super()._answers(users, items), *self._interval(users, items))

    def _predict_known(self, users: Codes, items: Codes) -> Floats:
        return self._led_back(super()._predict_known(users, items), self._ranges.product(users, items))

    def _led_back(self, inner: Floats, product: Floats) -> Floats:
        """The prediction for an inner product w·h: from within slack·r·s of the centre to within r·s of it."""
        return np.asarray(self._ranges.centre(product) + product * squash(inner / product, self.slack_))

    # --- ranking --------------------------------------------------------------------------------------------

    def _ranking(self) -> Ranking:
        ranking = super()._ranking()
        if self.slack_ != 1.0:  # then magnitudes decide, too, and `_needed` sees to tilted centres
            return replace(ranking, magnitudes=self._ranges.item)
        users, items = self._vectors()
        return replace(ranking, users=users, items=items, needed=self._needed_without_slack())

    def _vectors(self) -> tuple[Any, Any]:
        """Vectors whose inner product is the prediction but for a constant; a tilted centre takes one dimension."""
        ranges, tilt = self._ranges, self._ranges.frame.tilt
        if not tilt:
            return self.user_factors_, self.item_factors_
        return (
            np.column_stack([self.user_factors_, tilt * ranges.user]),
            np.column_stack([self.item_factors_, ranges.item]),
        )

    def _keeps_order(self) -> bool:
        return self.slack_ == 1.0 or bool(np.ptp(self._ranges.item[self._item_seen]) == 0)

    def _needed_without_slack(self) -> Callable[[Codes, Floats, float, float], Floats]:
        smallest = self._ranges.item.min()  # whose range ends highest: no inner product leads below that

        def needed(users: Codes, scores: Floats, _low: float, _high: float) -> Floats:
            lower, _ = self._ranges.interval(self._ranges.user[users] * smallest)
            return np.where(scores <= lower, -np.inf, scores - self._ranges.frame.offset)

        return needed

    def _needed(self, users: Codes, scores: Floats, low: float, high: float) -> Floats:
        # For a given inner product the prediction is monotone in the item's magnitude: one of the ends asks for least.
        narrow, wide = (self._ranges.user[users] * item for item in (low, high))
        scores = scores - ROUNDING_OF_RANGES * (wide + abs(self._ranges.frame.offset))
        return np.minimum(self._led_from(scores, narrow), self._led_from(scores, wide))

    def _led_from(self, predictions: Floats, product: Floats) -> Floats:
        """The least inner product that `_led_back` leads to a prediction, or past it: any, where all the range is."""
        share = (predictions - self._ranges.centre(product)) / product
        return np.asarray(product * np.where(share <= -1.0, -np.inf, unsquash(share, self.slack_)))

    # --- settings -------------------------------------------------------------------------------------------

    def _check_settings(self) -> None:
        super()._check_settings()
        if not is_number(self.history_share) or not 0 < self.history_share <= 1:
            raise ValueError(f"history_share={short(self.history_share)}: give a share above 0 and up to 1.")
        if self.history_count is not None and not (is_number(self.history_count) and self.history_count > 0):
            raise ValueError(
                f"history_count={short(self.history_count)}: give a positive number, or None for history_share."
            )
        if isinstance(self.magnitudes, str) and self.magnitudes not in MAGNITUDES:
            raise ValueError(f"magnitudes={short(self.magnitudes)}: give one of {MAGNITUDES}, or a pair of mappings.")
        check_bounds(self.bounds)
