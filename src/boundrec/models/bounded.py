"""What every magnitude bounded model shares: ranges from bounds and magnitudes, and predictions inside them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Literal, Self, overload

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse

from boundrec.arrays import Floats
from boundrec.data.ratings import Csr, Ratings
from boundrec.models import answers
from boundrec.models.estimator import Callback, FactorisationModel
from boundrec.models.fitted import Fitted, learned
from boundrec.models.settings import RangeSettings, check_count
from boundrec.notes import warn
from boundrec.ranges import Ranges, check_bounds, frame_for
from boundrec.ranges.contradictions import describe_contradictions, settle_contradictions
from boundrec.ranges.magnitudes import (
    check_ranges_fit,
    constant_magnitudes,
    given_magnitudes,
    historical_magnitudes,
)
from boundrec.solvers import Side


class BoundedModel(RangeSettings, FactorisationModel):
    """A factorisation whose every prediction lies in a range of its own: centre ± r_i s_j.

    Fitting reads as the method does: ranges first (:mod:`boundrec.ranges`), then centred ratings, then sweeps that
    only ever see centred ratings and magnitudes.
    """

    STORED: ClassVar[dict[str, str]] = {
        **FactorisationModel.STORED,
        "ranges": "ranges",
        "user_magnitudes": "floats users",
        "item_magnitudes": "floats items",
        "infeasible_share": "share",
        "slack": "optional number",
    }

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
        self.check_settings()
        given = self._read(X, y, sample_weight)
        ratings, held_out = self._set_aside(given, eval_set)
        past = self._read_history(history, ratings)
        ranges = self._choose_ranges(ratings, past, from_matrix=issparse(X) or isinstance(X, Ratings))
        ratings, ranges, infeasible_share = self._settle(ratings, ranges)
        if self.n_factors > min(ratings.n_users, ratings.n_items):
            warn(
                f"n_factors={self.n_factors} is more than the {ratings.n_users} users × {ratings.n_items} items "
                "can determine."
            )
        start = Fitted.before_the_first_sweep(ratings, given, replace(ranges, slack=self._slack()))
        found = {"infeasible_share": infeasible_share, **self._chosen(ratings, ranges)}
        return self._learn(replace(start, found=found), held_out, callback)

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

    def _settle(self, ratings: Ratings, ranges: Ranges) -> tuple[Ratings, Ranges, float]:
        """Deal with ratings outside their own range, and tell their share; one warning says how many there are."""
        settled, widened, outside = settle_contradictions(ratings, ranges, self.on_contradiction)
        check_ranges_fit(widened, ratings.users, ratings.items, np.dtype(self.dtype))
        if outside.any() and self.on_contradiction == "keep":
            warn(
                f"{describe_contradictions(ratings, ranges, outside)} "
                'Pass on_contradiction="widen" or "drop" to settle them.'
            )
        return settled, widened, float(outside.mean())

    def _slack(self) -> float:
        """τ, or what "auto" stands for."""
        raise NotImplementedError

    def _chosen(self, ratings: Ratings, ranges: Ranges) -> dict[str, float]:
        """Numbers that the model chooses by the ratings, before the first sweep."""
        return {}

    def check_settings(self) -> None:
        """Refuse settings that make no sense, with a sentence each."""
        super().check_settings()
        check_count("n_factors", self.n_factors, 2)  # one factor leaves a sign and no angle (resolution A9)

    # --- what was learnt ------------------------------------------------------------------------------------

    user_magnitudes_ = learned(lambda fitted: answers.bounded(fitted).user, "r, the magnitude of each user.")
    item_magnitudes_ = learned(lambda fitted: answers.bounded(fitted).item, "s, the magnitude of each item.")
    slack_ = learned(
        lambda fitted: answers.bounded(fitted).slack,
        "How far the factors may reach past the range, as a multiple of it.",
    )
    infeasible_share_ = learned(
        lambda fitted: fitted.found["infeasible_share"],
        "Share of the training ratings outside their own range, before ``on_contradiction`` saw to them.",
    )
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
        predictions = self._predict(users, items)
        return (predictions, *self.fitted_.ranges.interval(users, items)) if return_range else predictions

    def predict_range(self, X: Any) -> tuple[Floats, Floats]:
        """The range of each pair of ids: what its prediction can be at least and at most."""
        users, items = self._codes(X)
        return self.fitted_.ranges.interval(users, items)


def centred_sides(fitted: Fitted, dtype: Any) -> tuple[Side, Side]:
    """Both sides before they have factors: ratings with the centres of their ranges taken off, and room for factors."""
    ranges, ratings = answers.bounded(fitted), fitted.ratings
    assert ratings is not None
    room, none = np.sqrt(ranges.slack), np.empty((0, 0))
    by_user: Csr = ranges.centred(ratings.by_user, ranges.user, ranges.item, dtype)
    by_item: Csr = ranges.centred(ratings.by_item, ranges.item, ranges.user, dtype)
    return Side(by_user, room * ranges.user, none), Side(by_item, room * ranges.item, none)
