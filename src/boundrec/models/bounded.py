"""What every magnitude bounded model shares: ranges from bounds and magnitudes, and predictions inside them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Literal, Never, Self, overload

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.utils.validation import check_is_fitted

from boundrec.arrays import Bools, Floats
from boundrec.data.columns import pair_columns, short
from boundrec.data.ratings import Csr, Ends, Pairs, Ratings
from boundrec.models import answers
from boundrec.models.estimator import Callback, RatingModel, refuse_unknown_arguments
from boundrec.models.fitted import Fitted, FittedSide, learned
from boundrec.models.settings import RangeSettings, check_count, is_auto
from boundrec.notes import warn
from boundrec.ranges import Ranges, SideRule, check_bounds, frame_for
from boundrec.ranges.contradictions import describe_contradictions, settle_contradictions, settle_own
from boundrec.ranges.magnitudes import (
    check_ranges_fit,
    constant_magnitudes,
    given_magnitudes,
    historical_magnitudes,
    knows_all,
    magnitudes_of_data,
)
from boundrec.ranges.rules import Rule, WithRows, check_ends, ends_of_rows, rule_like, rule_of, tell_unused
from boundrec.ranges.scale import Bounds, Scale, own_scale
from boundrec.solvers import Side
from boundrec.solvers.growth import NoiseGrowth

#: How noise is taken to grow with the width of ranges until the ratings tell: as that of counts.
FIRST_GROWTH = 0.5


class BoundedModel(RangeSettings, RatingModel):
    """A factorisation whose every prediction lies in a range of its own: centre ± r_i s_j.

    Fitting reads as the method does: ranges first (:mod:`boundrec.ranges`), then centred ratings, then sweeps that
    only ever see centred ratings and magnitudes.
    """

    STORED: ClassVar[dict[str, str]] = {
        **RatingModel.STORED,
        "ranges": "ranges",
        "user_magnitudes": "floats users",
        "item_magnitudes": "floats items",
        "infeasible_share": "share",
        "slack": "optional number",
        "rule": "optional rule",
    }

    # --- fitting --------------------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        lower: Any = None,
        upper: Any = None,
        history: Any = None,
        sample_weight: ArrayLike | None = None,
        eval_set: Any = None,
        callback: Callback | None = None,
        **unknown: Never,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X
            Two columns of ids, users and items (array, list of pairs, pandas, polars or pyarrow), or a scipy
            sparse matrix of users × items whose stored entries are the observations, or a `Ratings`. With
            ``bounds="columns"``, or a pair of names, two more columns: the range of each row.
        y
            One rating for each row of X; None for a sparse matrix or a `Ratings`.
        lower, upper
            The range of each row of X, where ranges come with the rows but not in X; one number stands for all.
        history
            Past ratings that set the magnitudes, as ``(X_past, y_past)``, a sparse matrix or a `Ratings`.
        sample_weight
            How much each rating counts; None counts each once. Magnitudes do not depend on it.
        eval_set
            Ratings to evaluate on after every sweep, for early stopping, as ``(X_eval, y_eval)``, a sparse matrix or a
            `Ratings`; instead of a ``validation_fraction``. They are not trained on.
        callback
            Called after every sweep as ``callback(sweep, objective, model)``; returning True stops the fit.
        **unknown
            Nothing else is taken; features of users and items are for `BayesianMBMF`.
        """
        refuse_unknown_arguments(self, unknown)
        self.check_settings()
        rule = self._rule(lower, upper)
        given = self._with_known_ids(self._read_in_ranges(rule, X, y, sample_weight, lower, upper))
        tell_unused(rule, given.users, given.items)
        ratings, held_out = self._set_aside(given, eval_set)
        past = self._read_history(history, ratings)
        ratings, rule, outside = self._settle_own(ratings, rule)
        scale = self._choose_scale(ratings)
        ranges = self._choose_ranges(ratings, past, scale, from_matrix=issparse(X) or isinstance(X, Ratings))
        ratings, ranges, infeasible_share = self._settle(ratings, ranges, outside)
        if self.n_factors > min(ratings.n_users, ratings.n_items):
            warn(
                f"n_factors={self.n_factors} is more than the {ratings.n_users} users × {ratings.n_items} items "
                "can determine."
            )
        start = Fitted.before_the_first_sweep(ratings, given, ranges, rule)
        found = {"infeasible_share": infeasible_share, **self._chosen(ratings, ranges)}
        return self._learn(replace(start, found=found), held_out, callback)

    def _with_known_ids(self, given: Ratings) -> Ratings:
        """The ratings, with rows for ids of which something is known though nobody rated them."""
        return given

    def _read_history(self, history: Any, ratings: Ratings) -> Ratings | None:
        if history is None:
            return None
        if not self._asks_history(ratings):
            raise ValueError('history sets the magnitudes, but others are asked for: pass magnitudes="history".')
        if ratings.ends is not None:
            raise ValueError(
                "history sets magnitudes, but every pair has a range of its own: pass history or ranges, not both."
            )
        past = self._read_beside("history", history, ratings)
        known = (past.users.codes(ratings.users.ids) >= 0).any() or (past.items.codes(ratings.items.ids) >= 0).any()
        if not known:
            raise ValueError(
                f"history shares no user and no item with the ratings (its first user is {past.users.ids.item(0)!r}, "
                f"theirs {ratings.users.ids.item(0)!r}): give both the same kind of ids."
            )
        return past

    def _asks_history(self, ratings: Ratings) -> bool:
        """Whether some magnitude would come from history."""
        if isinstance(self.magnitudes, str):
            return self.magnitudes != "range"
        sides = zip(self.magnitudes, (ratings.users, ratings.items), strict=True)
        return any(not (knows_all(given, ids) or (isinstance(given, str) and given == "range")) for given, ids in sides)

    def _choose_scale(self, ratings: Ratings) -> Scale:
        """What is to be factorised: ratings, their logarithms, or shares of each pair's own range."""
        if ratings.ends is not None and (self.form == "n" or self.magnitudes not in ("auto", "range")):
            raise ValueError(
                f"form={self.form!r}, magnitudes={short(self.magnitudes)}: where every pair has a range of its own, "
                'that is its bound; pass form="c" and magnitudes="auto", or one range for all.'
            )
        if ratings.ends is None:
            return Scale(self.link)
        if not is_auto(self.noise_growth):
            return own_scale(ratings, self.link, float(self.noise_growth))
        return likely_scale(own_scale(ratings, self.link, FIRST_GROWTH), ratings)

    def _choose_ranges(self, ratings: Ratings, past: Ratings | None, scale: Scale, from_matrix: bool) -> Ranges:
        """Frame and magnitudes for these ratings (resolutions A13 to A17)."""
        own, slack = scale.of_ratings(ratings), self._slack()
        past = None if past is None else scale.of_ratings(past)
        bounds = scale.bounds(self._declared())
        ranges = None
        around_data = self.magnitudes == "auto" and self.form == "c" and self._in_ball()
        if around_data and past is None:
            weights, counts = ratings.by_user.weights, own.by_user.that_count()  # a range of no width says nothing
            ranges = magnitudes_of_data(bounds, own, (weights if weights.size else 1.0) * counts, slack)
        if ranges is None:
            ranges = self._ranges_by_rule(bounds, own, past, from_matrix)
        if scale.width is None:
            scale = scale.guarding(ranges.frame.lower, ranges.frame.upper, self._declared())
        return replace(ranges, slack=slack, scale=scale)

    def _ranges_by_rule(self, bounds: Bounds, ratings: Ratings, past: Ratings | None, from_matrix: bool) -> Ranges:
        smallest = min(float(r.by_user.data.min()) for r in (ratings, past) if r is not None)
        frame = frame_for(bounds, self.form, smallest)
        one_sided = (bounds[0] is None) != (bounds[1] is None)
        if not isinstance(self.magnitudes, str):

            def by_rule(rule: SideRule) -> Ranges:
                if rule == "range":
                    return constant_magnitudes(frame, bounds, ratings)
                count = self.history_count
                return historical_magnitudes(frame, ratings, past or ratings, self.history_share, count, cap=True)

            absent: SideRule = "history" if past is not None or one_sided else "range"
            return given_magnitudes(frame, ratings, self.magnitudes, from_matrix, by_rule, absent)
        automatic = self.magnitudes in ("auto", "paper")
        if self.magnitudes == "range" or (automatic and past is None and not one_sided):
            return constant_magnitudes(frame, bounds, ratings)
        cap = self.magnitudes != "paper"
        return historical_magnitudes(frame, ratings, past or ratings, self.history_share, self.history_count, cap)

    def _settle_own(self, ratings: Ratings, rule: Rule | None) -> tuple[Ratings, Rule | None, Bools | None]:
        """Where pairs have ranges of their own, deal with ratings outside them before anything is made of these."""
        if ratings.ends is None:
            return ratings, rule, None
        settled, rule, outside = settle_own(ratings, rule, self.on_contradiction)
        self._tell(ratings, None, outside)
        return settled, rule, outside

    def _settle(self, ratings: Ratings, ranges: Ranges, outside: Bools | None) -> tuple[Ratings, Ranges, float]:
        """Deal with ratings outside their range, unless that was done, and tell their share."""
        dtype = np.dtype(self.dtype)
        if outside is not None:
            check_ranges_fit(ranges, ratings.users, ratings.items, dtype)
            return ratings, ranges, float(outside.mean())
        settled, widened, outside = settle_contradictions(ratings, ranges, self.on_contradiction)
        check_ranges_fit(widened, ratings.users, ratings.items, dtype)
        self._tell(ratings, ranges, outside)
        return settled, widened, float(outside.mean())

    def _tell(self, ratings: Ratings, ranges: Ranges | None, outside: Bools) -> None:
        """One warning says how many ratings are kept that lie outside their own range."""
        if outside.any() and self.on_contradiction == "keep":
            warn(
                f"{describe_contradictions(ratings, ranges, outside)} "
                'Pass on_contradiction="widen" or "drop" to settle them.'
            )

    # --- ranges of pairs ------------------------------------------------------------------------------------------

    def _rule(self, lower: Any, upper: Any) -> Rule | None:
        """The rule for ranges of pairs, if they have their own."""
        rule: Rule | None = rule_of(self.bounds)
        if rule is None and (lower is not None or upper is not None):
            if self.bounds is not None:
                raise ValueError(
                    f"lower and upper give every row a range of its own, but bounds={short(self.bounds)} is one for "
                    "all: pass bounds=None beside them, or leave them out."
                )
            rule = WithRows()
        return rule

    def _declared(self) -> Bounds:
        return (None, None) if rule_like(self.bounds) else check_bounds(self.bounds)

    def _read(self, X: Any, y: Any, sample_weight: ArrayLike | None, ends: Ends | None = None) -> Ratings:
        """Ratings to learn from; those that have no logarithm are refused where that is learnt."""
        ratings = super()._read(X, y, sample_weight, ends)
        if self.link is not None:
            ratings.check_bounds((0.0, None))
        return ratings

    def _read_in_ranges(
        self, rule: Rule | None, X: Any, y: Any, sample_weight: Any = None, lower: Any = None, upper: Any = None
    ) -> Ratings:
        """Ratings, with the range of each where pairs have their own."""
        if rule is None or (isinstance(X, Ratings) and X.ends is not None):
            return self._read(X, y, sample_weight)
        X, ends = ends_of_rows(rule, X, lower, upper)
        ratings = self._read(X, y, sample_weight, ends)
        if ends is not None:
            return ratings
        users, items = ratings.users.ids[ratings.user_of_rating()], ratings.items.ids[ratings.by_user.indices]
        found = rule.ends(users, items)
        check_ends(found, users, items, remedy=rule.remedy)
        return replace(ratings, ends=found)

    def _read_parts(self, trained: Ratings, X: Any, y: Any = None) -> Ratings:
        rule = rule_of(self.bounds)
        if rule is None and trained.ends is not None:  # came as lower and upper; here they are columns
            rule = WithRows()
        return self._read_in_ranges(rule, X, y)

    def _pairs(self, X: Any, lower: Any = None, upper: Any = None) -> Pairs:
        """Row numbers of the ids in X, and the ranges of the pairs where they have their own."""
        check_is_fitted(self)
        rule = self.fitted_.rule
        if rule is None:
            if lower is not None or upper is not None:
                raise ValueError(
                    "lower and upper are ranges of pairs, but this model has one for all: leave them out, or fit "
                    "it with ranges of pairs."
                )
            return super()._pairs(X)
        X, ends = ends_of_rows(rule, X, lower, upper)
        pairs = super()._pairs(X)
        if ends is None:
            users, items = pair_columns(X)
            ends = rule.ends(users, items)
            check_ends(ends, users, items, remedy=rule.remedy)
        return replace(pairs, ends=ends)

    # --- what a model chooses -------------------------------------------------------------------------------------

    def _in_ball(self) -> bool:
        """Whether norms may be smaller than magnitudes: then the fit may live around the data."""
        return False

    def _slack(self) -> float:
        """τ, or what "auto" stands for."""
        raise NotImplementedError

    def _chosen(self, ratings: Ratings, ranges: Ranges) -> dict[str, float]:
        """Numbers that the model chooses by the ratings, before the first sweep."""
        return {}

    def check_settings(self) -> None:
        """Refuse settings that make no sense, with a sentence each."""
        check_count("n_factors", self.n_factors, 2)  # one factor leaves a sign and no angle (resolution A9)
        super().check_settings()
        low, _ = self._declared()
        if self.link is not None and low is not None and low < 0:
            raise ValueError(
                f"bounds={short(self.bounds)} begin below 0, where link={self.link!r} has no logarithms: begin at 0, "
                "or pass link=None."
            )

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
    noise_growth_ = learned(
        lambda fitted: None if answers.bounded(fitted).scale.width is None else answers.bounded(fitted).scale.growth,
        "p of ``noise_growth``, learnt or as given (of a sampler the mean of the kept draws); None where pairs share "
        "one range.",
    )
    # --- predictions ----------------------------------------------------------------------------------------

    @overload
    def predict(
        self, X: Any, return_range: Literal[False] = False, *, lower: Any = None, upper: Any = None
    ) -> Floats: ...
    @overload
    def predict(
        self, X: Any, return_range: Literal[True], *, lower: Any = None, upper: Any = None
    ) -> tuple[Floats, Floats, Floats]: ...
    @overload
    def predict(
        self, X: Any, return_range: bool, *, lower: Any = None, upper: Any = None
    ) -> Floats | tuple[Floats, ...]: ...
    def predict(
        self, X: Any, return_range: bool = False, *, lower: Any = None, upper: Any = None
    ) -> Floats | tuple[Floats, ...]:
        """Predict the rating of each pair of ids; every prediction lies inside its own range.

        Parameters
        ----------
        X
            Two columns of ids, and the columns of ranges where the model was fitted with such.
        return_range
            Also return the lower and upper end of each pair's range.
        lower, upper
            The range of each row, where pairs have ranges of their own; instead of those that ``bounds`` gives.

        Returns
        -------
        prediction, or (prediction, lower, upper)
        """
        pairs = self._pairs(X, lower, upper)
        predictions = self._predict(pairs)
        return (predictions, *self.fitted_.ranges.interval(pairs)) if return_range else predictions

    def predict_range(self, X: Any, *, lower: Any = None, upper: Any = None) -> tuple[Floats, Floats]:
        """The range of each pair of ids: what its prediction can be at least and at most."""
        pairs = self._pairs(X, lower, upper)
        return self.fitted_.ranges.interval(pairs)

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, lower: Any = None, upper: Any = None) -> float:
        """R², the share of the ratings' variance that is explained; ranges as in `predict`."""
        from sklearn.metrics import r2_score

        return float(r2_score(y, self.predict(X, lower=lower, upper=upper), sample_weight=sample_weight))


def centred_sides(fitted: Fitted, dtype: Any) -> tuple[Side, Side]:
    """Both sides before they have factors: ratings with the centres of their ranges taken off, and room for factors."""
    ranges = answers.bounded(fitted)
    assert fitted.ratings is not None
    own = ranges.scale.of_ratings(fitted.ratings)
    room, none = np.sqrt(ranges.slack), np.empty((0, 0))
    by_user: Csr = ranges.centred(own.by_user, ranges.user, ranges.item, dtype)
    by_item: Csr = ranges.centred(own.by_item, ranges.item, ranges.user, dtype)
    return Side(by_user, room * ranges.user, none), Side(by_item, room * ranges.item, none)


def likely_scale(scale: Scale, ratings: Ratings) -> Scale:
    """The scale on which noise grows as the errors of the plainest model, means of users and items, say it does."""
    own = scale.of_ratings(ratings)
    mean = float(np.average(own.by_user.data, weights=own.by_user.weights))
    users, items = (FittedSide.of(ids, csr, mean) for ids, csr in ((own.users, own.by_user), (own.items, own.by_item)))
    pairs = own.pairs()
    errors = own.by_user.data - (users.means[pairs.users] + items.means[pairs.items] - mean)
    widths = noise_growth(scale, ratings)
    growth = widths.most_likely(errors)
    return replace(scale, growth=growth, mean_weight=widths.mean_weight(growth))


def noise_growth(scale: Scale, ratings: Ratings, prior: float = 0.0, guess: float = 0.0) -> NoiseGrowth:
    """What the widths of the ratings' ranges are, for those who learn how noise grows with them."""
    stretch, weights = scale.stretch(ratings.pairs()), ratings.by_user.weights
    return NoiseGrowth(stretch, weights if weights.size else np.ones(stretch.size), prior, guess)
