"""Implicit feedback in the ball: who chose what, how often, and lists of what they would choose next.

    affinity     s_ij = w_i·h_j
    constraint   |w_i| ≤ 1, |h_j| ≤ 1
    guarantee    −1 ≤ s_ij ≤ 1 for every pair (Cauchy-Schwarz), like a cosine

The loss counts *all* pairs (:mod:`boundrec.solvers.all_pairs`): what somebody chose asks for 1, by its confidence, and
every pair asks a little for 0. A row of either side is one small system in the ball, so whoever comes later is solved
as everybody was, from the first click on. Where features tell of somebody, their row is drawn to what these say, and is
that where they have no click.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Never, Self, get_args

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from boundrec.arrays import Bools, Codes, Floats, Reals
from boundrec.data.columns import short
from boundrec.data.features import Features
from boundrec.data.ids import IdIndex
from boundrec.data.ratings import Csr, Duplicates, Ends, Pairs, Ratings
from boundrec.metrics import ndcg_at_k
from boundrec.models import answers
from boundrec.models.estimator import By, Callback, FactorisationModel, check_names, refuse_unknown_arguments
from boundrec.models.explain import Explanation, FeaturePart, RatingPart
from boundrec.models.fit import Outcome, StoppingRule, Validation
from boundrec.models.fitted import Fitted, FittedSide, learned
from boundrec.models.new_ratings import (
    NOBODY,
    OTHER,
    Axis,
    changed_rows,
    features_of_new,
    linked,
    of_known,
    of_side,
    seen_together,
    with_solved_rows,
)
from boundrec.models.settings import (
    Auto,
    RestSettings,
    check_word,
    is_auto,
    not_negative,
    number,
    setting,
)
from boundrec.models.side_information import FittedLinks, counting, with_features
from boundrec.ranges.slack import STEEPEST
from boundrec.ranges.unit import UnitRange
from boundrec.solvers import Solver
from boundrec.solvers.all_pairs import AllPairs, AllPairsAlternation, LearnedFromAll, drawn_to, solve_rows
from boundrec.solvers.exact import SPREAD
from boundrec.solvers.feature_means import FeatureMeans, Regression
from boundrec.solvers.threads import RowPool
from boundrec.top_n import Seen, top_n

#: α is this times the number of things that a user chose on average, to the power of 1.5, between the others.
WEIGHT, LEAST_WEIGHT, MOST_WEIGHT = 0.002, 0.02, 5.0
#: What λ makes of the penalty of a typical row, whatever α is, as a share of the clicks that it has; and the most of λ.
PENALTY_SHARE = 0.13
#: Sweeps after which lists get no better.
SWEEPS = 12
#: Length of the lists that a fit is evaluated by.
PLACES = 10


class ImplicitMBMF(RestSettings, FactorisationModel, defaults={"n_factors": 64, "dtype": "float32"}):
    """Clicks, plays, purchases: a score in [−1, 1] for every pair, by which lists are sorted.

    Minimises, over rows of the unit ball,
    Σ_observed c_ij (1 − w_i·h_j)² + α Σ_all p_j (w_i·h_j)² + λ [Σ_i (αΣp + n_i)|w_i|² + Σ_j (αp_j N + n_j)|h_j|²],
    where α is ``unobserved_weight``, λ is ``ridge``, p_j is the popularity of an item to the ``popularity_power`` (1 on
    average), and n_i, n_j are sums of confidences. The confidence of a pair is c = log₂(1 + y/m), with m the median of
    y: 1 for what is typical, and one more for every doubling far above; times ``sample_weight``, for those who would
    rather say it themselves. Without y, or where all of y is the same, every pair counts once.

    With features f_i of users, |w_i|² is |w_i − Bᵀ(f_i − f̄)|², where B is found with everything else, by least squares,
    and f̄ is their mean; of items alike. Whoever has features and no click has the row w̄ + Bᵀ(f_i − f̄), drawn into the
    ball, with w̄ the mean row.

    Somebody unknown gets the share of users who chose an item for a score, which is popularity.

    Examples
    --------
    >>> from boundrec import ImplicitMBMF
    >>> clicks = [("ann", "tea"), ("ann", "rum"), ("bob", "tea"), ("bob", "gin"), ("eve", "rum"), ("eve", "tea")]
    >>> model = ImplicitMBMF(n_factors=2, random_state=0).fit(clicks)
    >>> items, scores = model.recommend(["ann"], n=1)
    >>> items[0, 0], bool(-1 <= scores[0, 0] <= 1)
    ('gin', True)
    """

    unobserved_weight: float | Auto = setting(
        default="auto",
        rule=number('a positive number, or "auto"', lambda value: 0 < value < np.inf, or_auto=True),
        meaning="α: how much a pair counts that nobody observed, beside a typical one that somebody chose. "
        '``"auto"``: 0.002·n^1.5, at least 0.02 and at most 5, where n is how many items a user chose on average.',
    )
    ridge: float | Auto = setting(
        default="auto",
        rule=not_negative(', or "auto"', or_auto=True),
        meaning='λ: weight of the squared factors, for everything that a row\'s pairs count. ``"auto"``: so much that '
        "the penalty of a typical row is 0.13 of its clicks, at most 0.13.",
    )
    popularity_power: float = setting(
        default=0.0,
        rule=number("a number between -1 and 1", lambda value: -1 <= value <= 1),
        meaning="Unobserved pairs count by their item's popularity to this power: 0 counts all alike; above 0 it says "
        "more that somebody did not choose what many did, which brings rarer items into lists.",
    )
    slack: float = setting(
        default=1.0,
        rule=number(f"a number of at least 1 and below {STEEPEST:g}", lambda value: 1 <= value < STEEPEST),
        meaning="τ ≥ 1: inner products may reach ±τ, and a strictly increasing map leads scores back into [−1, 1].",
    )
    duplicates: Duplicates = setting(
        default="sum",
        rule=lambda name, value: check_word(name, value, ("sum", "last", "raise")),
        meaning='What happens to pairs that come more than once: their strengths add up (``"sum"``), the ``"last"`` '
        'one counts, or they are refused (``"raise"``).',
    )

    #: None is declared: every score lies in [−1, 1], whatever the data are.
    bounds: ClassVar[None] = None
    STORED: ClassVar[dict[str, str]] = {
        **FactorisationModel.STORED,
        "slack": "number",
        "unobserved_weight": "positive",
        "ridge": "amount",
        "popularity_power": "number",
        "popularity_unit": "positive",
        "typical_strength": "positive",
        "user_links": "optional links one width",
        "item_links": "optional links one width",
        "user_usual": "optional floats width",
        "item_usual": "optional floats width",
    }

    # --- fitting --------------------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sample_weight: ArrayLike | None = None,
        eval_set: Any = None,
        callback: Callback | None = None,
        user_features: Any = None,
        item_features: Any = None,
        **unknown: Never,
    ) -> Self:
        """Fit the model to what people chose.

        Parameters
        ----------
        X
            Two columns of ids, users and items (array, list of pairs, pandas, polars or pyarrow), a row for everything
            that somebody chose; or a scipy sparse matrix of users × items whose stored entries are what was chosen and
            how strongly, or a `Ratings`.
        y
            How often or how strongly, above 0, for each row of X: counts, seconds, amounts, in any unit. None counts
            every row once.
        sample_weight
            What multiplies the confidence of each row; None for 1. Alone, without y, it is the confidence.
        eval_set
            What people chose besides, for early stopping, as ``X_eval``, a pair ``(X_eval, y_eval)``, a sparse matrix
            or a `Ratings`; instead of a ``validation_fraction``. Not trained on: after every sweep lists of ten are
            compared with it, and ``eval_errors_`` are 1 − NDCG@10.
        callback
            Called after every sweep as ``callback(sweep, objective, model)``; returning True stops the fit.
        user_features, item_features
            What is known of users and of items: a data frame with a column of ids, a mapping, a pair (ids, matrix) or a
            `Graph` (:mod:`boundrec.data.features` has the rules). Ids that have features and no click are answered by
            them.
        **unknown
            Nothing else is taken.
        """
        refuse_unknown_arguments(self, unknown)
        self.check_settings()
        given, features = with_features(self._read(X, y, sample_weight), {"user": user_features, "item": item_features})
        ratings, held_out = self._set_aside(given, eval_set)
        start = with_shares(Fitted.before_the_first_sweep(ratings, given, UnitRange(float(self.slack))))
        start = replace(start, found=self._chosen(start))
        nothing = np.zeros(self.n_factors)
        for kind, known in features.items():
            start = with_means(start, kind, Regression(np.zeros((len(known.names), self.n_factors)), nothing), known)
        return self._learn(start, held_out, callback)

    def _read(self, X: Any, y: Any, sample_weight: ArrayLike | None, ends: Ends | None = None) -> Ratings:
        """Strengths, finite as the model stores them."""
        ratings = Ratings.read(X, y, sample_weight=sample_weight, duplicates=self.duplicates, strengths=True)
        ratings.check_fits(np.dtype(self.dtype))
        return ratings

    def _read_parts(self, trained: Ratings, X: Any, y: Any = None) -> Ratings:
        return self._read(X, y, None)

    def _read_beside(self, name: str, given: Any, trained: Ratings) -> Ratings:
        """As ever, but that pairs may come alone: a tuple or a list of two pairs is no (X, y)."""
        alone = isinstance(given, list) or not isinstance(given, tuple) or len(given) != 2
        return super()._read_beside(name, (given,) if alone else given, trained)

    def _chosen(self, start: Fitted) -> dict[str, float]:
        """Numbers that are chosen by the data, before the first sweep, and those that new rows will need."""
        assert start.ratings is not None
        by_user, power = start.ratings.by_user, float(self.popularity_power)
        automatic = is_auto(self.unobserved_weight)
        weight = unobserved_weight_for(start) if automatic else float(self.unobserved_weight)
        return {
            "unobserved_weight": weight,
            "ridge": ridge_for(start, weight) if is_auto(self.ridge) else float(self.ridge),
            "popularity_power": power,
            "popularity_unit": float(np.mean(start.items.means[start.items.trained] ** power)),
            "typical_strength": float(np.median(by_user.data[by_user.that_count()])),
        }

    def _solver(self, start: Fitted, pool: RowPool, rng: np.random.Generator, validation: Validation | None) -> Solver:
        assert start.ratings is not None
        dtype: Any = np.dtype(self.dtype)
        typical = start.found["typical_strength"]
        sides = tuple(confidences(csr, typical, dtype) for csr in (start.ratings.by_user, start.ratings.by_item))
        rows = [SPREAD * rng.standard_normal((len(side.ids), self.n_factors)) for side in (start.users, start.items)]
        users, items = (np.asarray(in_ball(one, 1.0), dtype) for one in rows)
        problem = all_pairs(start)
        means = {
            kind: regression_on_features(problem, start.side(kind), kind, csr, self.n_factors)
            for kind, csr in zip(("user", "item"), sides, strict=True)
            if start.side(kind).links is not None
        }
        return AllPairsAlternation(problem, (sides[0], sides[1]), (users, items), pool, means)

    def _together(self, start: Fitted, outcomes: list[Outcome], at_the_end: bool) -> Fitted:
        """What was learnt, with rows by their features for those who have no click."""
        fitted, learned = super()._together(start, outcomes, at_the_end), outcomes[-1].learned
        assert isinstance(learned, LearnedFromAll)
        for kind, found in learned.means.items():
            fitted = with_cold_rows(with_means(fitted, kind, found, known_features(start.side(kind))), kind)
        return fitted

    def _validation(self, held_out: Ratings, start: Fitted) -> Validation:
        return HeldOutChoices(held_out, start, self.n_jobs)

    def _error(self, solver: Solver, so_far: Callable[[], Fitted], validation: Validation) -> float:
        assert isinstance(validation, HeldOutChoices)
        return 1.0 - validation.ndcg(so_far())

    def _default_max_iter(self) -> int:
        return SWEEPS

    def _seeks_rest(self) -> bool:
        return False  # lists are at their best long before the objective is at rest

    def _stopping_rule(self) -> StoppingRule:
        return StoppingRule(self.tol, self.patience, self.tol_mode)

    # --- what was learnt ------------------------------------------------------------------------------------

    unobserved_weight_ = learned(lambda fitted: fitted.found["unobserved_weight"], "α, chosen or as given.")
    ridge_ = learned(lambda fitted: fitted.found["ridge"], "λ, chosen or as given.")
    typical_strength_ = learned(
        lambda fitted: fitted.found["typical_strength"], "The median of y, whose confidence is 1."
    )
    mean_ = learned(lambda fitted: fitted.mean, "The share of all pairs that were chosen.")
    user_means_ = learned(lambda fitted: fitted.users.means, "The share of the items that each user chose.")
    item_means_ = learned(lambda fitted: fitted.items.means, "The share of the users who chose each item.")
    eval_errors_ = learned(
        lambda fitted: fitted.course.eval_errors,
        "1 − NDCG@10 on what was set aside, or on the ``eval_set``, after each iteration.",
    )

    # --- answers --------------------------------------------------------------------------------------------

    def predict(self, X: Any) -> Floats:
        """The affinity of each pair of ids in X, from −1 to 1; ``on_unknown`` says what unknown ids get."""
        return super().predict(X)

    def _sorted_by(self, by: By) -> By:
        if by != "auto":
            raise ValueError(f"by={short(by)}: the only score of an ImplicitMBMF is its affinity: leave by out.")
        return by

    def score(self, X: Any, y: Any = None) -> float:  # type: ignore[override]
        """NDCG@10 of everybody's lists, without what was chosen before, against what they chose besides.

        Parameters
        ----------
        X
            Pairs of ids that the model was not fitted on; those with somebody unknown are left out.
        y
            Not looked at: what was chosen was chosen.
        """
        check_is_fitted(self)
        held_out = self._read_parts(Ratings.none(False), X)
        return HeldOutChoices(held_out, self.fitted_, self.n_jobs, self.fitted_.seen).ndcg(self.fitted_)

    def explain(self, user: Any, item: Any) -> Explanation:
        """Which of the things that a user chose bring this one: parts that add up to its score.

        A row solves (A + μI) w = Σ_k c_k h_k, so that its score for an item j is Σ_k c_k h_j·(A + μI)⁻¹h_k: a part for
        each thing k that was chosen. ``usual`` is 0, since nobody's score is anything before the first click. With
        features of users there is λ_i Bᵀ(f − f̄) on the right side, too, and each feature has a part, by how far it is
        from the mean. Whoever has features and no clicks has the parts of w̄ + Bᵀ(f − f̄), and ``usual`` is what the mean
        row w̄ brings. The remainder is rounding, and what other people's later clicks have moved (`partial_fit`).

        Examples
        --------
        >>> from boundrec import ImplicitMBMF
        >>> clicks = [("ann", "tea"), ("ann", "rum"), ("bob", "tea"), ("bob", "gin"), ("eve", "rum"), ("eve", "tea")]
        >>> why = ImplicitMBMF(n_factors=2, random_state=0).fit(clicks).explain("ann", "gin")
        >>> sorted(part.item for part in why.ratings)
        ['rum', 'tea']
        >>> abs(sum(part.total for part in why.ratings) + why.remainder - why.prediction) < 1e-9
        True
        """
        check_is_fitted(self)
        fitted = self.fitted_
        if fitted.ratings is None:
            raise ValueError(
                "explain needs the clicks of the fit, which neither a view from fold_in nor a file without them has: "
                "call it on the model itself, or save the model with keep_ratings=True."
            )
        pair = self._pairs([(user, item)])
        for kind, code, one in (("user", pair.users, user), ("item", pair.items, item)):
            if code[0] < 0:
                why = fitted.side(kind).why_unknown(one)
                raise ValueError(f"{kind}={short(one)} {why}: give one with clicks or features.")
        return explained(fitted, pair)

    # --- clicks that come after the fit ---------------------------------------------------------------------

    def fold_in(
        self,
        X: Any = None,
        y: Any = None,
        axis: Axis = "users",
        sample_weight: ArrayLike | None = None,
        *,
        features: Any = None,
    ) -> Self:
        """A view of the model for users it never saw, from what they chose: lists from the first click, no refit.

        Their rows are solved as in the last half-step of a fit, with everything else as it is.

        Parameters
        ----------
        X, y, sample_weight
            What the new users chose, in any form that ``fit`` takes, under the same rules. Of users whom the model
            knows already this counts as all there is. Items that the model does not know are left out with a warning;
            they are refused with ``on_unknown="raise"``, or when no others are left. None where there are features and
            no clicks.
        axis
            ``"users"``, or ``"items"`` for new items from the users, whom the model knows, who chose them.
        features
            Of a model that was fitted with features of users (or items): those of the new ones, in the same form, made
            as they were at fit. Who has some is answered even without clicks. Whoever the model knows has the features
            of the fit.

        Returns
        -------
        a copy of the model whose users (or items) are the new ones and whose other side is that of the model, with
        the same methods. The model itself stays as it was.
        """
        check_is_fitted(self)
        if not isinstance(axis, str) or axis not in get_args(Axis):
            raise ValueError(f"axis={short(axis)}: give 'users' or 'items'.")
        kind, fitted = axis.removesuffix("s"), self.fitted_
        told = features_of_new(self, kind, features, "features")
        if X is None and told is None:
            raise ValueError("fold_in has neither clicks nor features to go by: pass X, or features.")
        new = Ratings.none(False) if X is None else self._read_new(X, y, sample_weight)
        given = of_known(fitted, new, kind, self.on_unknown, told)
        view = copy.copy(self)
        view._learned = with_other_rows(replace(fitted, seen=Seen.of(given)), given, kind, self.n_jobs, told)
        return view

    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        *,
        user_features: Any = None,
        item_features: Any = None,
    ) -> Self:
        """Add users, items and clicks to a fitted model; on one that is not fitted this is ``fit``.

        New users are folded in; then the items with new clicks are solved again, from all of theirs, then the users
        with new clicks. Everybody else's factors keep their bits. ``objectives_`` and the like stay those of the fit:
        after many new clicks a fit on all of them is better.

        Parameters
        ----------
        X, y, sample_weight
            New clicks, in any form that ``fit`` takes, under the same rules. A pair that was chosen before adds up
            where ``duplicates`` is "sum", and has its new strength from now on otherwise.
        user_features, item_features
            Of a model that was fitted with such: those of new ones, or others of known ones, whose rows are then
            solved again, too. What features say stays what the fit has found.
        """
        given = {"user": user_features, "item": item_features}
        if self._learned is None:
            more = {f"{kind}_features": features for kind, features in given.items()}
            return self.fit(X, y, sample_weight=sample_weight, **more)
        before, old = self.fitted_, self.fitted_.ratings
        if old is None:
            raise ValueError(
                "partial_fit needs the clicks of the fit, which neither a view from fold_in nor a file without them "
                "has: call it on the model itself, or save the model with keep_ratings=True."
            )
        new = self._read_new(X, y, sample_weight)
        told = {kind: features_of_new(self, kind, features, f"{kind}_features") for kind, features in given.items()}
        ratings = old.with_new(new, "sum" if self.duplicates == "sum" else "last")
        users, items = (
            ids if known is None else ids.extended(known.ids)
            for ids, known in ((ratings.users, told["user"]), (ratings.items, told["item"]))
        )
        ratings = ratings.with_more_ids(users, items)
        added = new.renumbered(users, items)
        seen = Seen.of(ratings) if before.seen.indices.size == old.n_ratings else seen_together(before.seen, added)
        self._learned = with_more_clicks(replace(before, seen=seen), ratings, added, self.n_jobs, told)
        return self

    def _read_new(self, X: Any, y: Any, sample_weight: ArrayLike | None) -> Ratings:
        """Clicks in columns of the same names, if any, as those of the fit."""
        ratings = self._read(X, y, sample_weight)
        check_names(self.fitted_.names, ratings.names)
        return ratings


# --- what is chosen by the data -------------------------------------------------------------------------------


def unobserved_weight_for(start: Fitted) -> float:
    """What "auto" stands for: the more a user chose on average, the more what they did not choose says of them.

    Found by measuring on validation parts of five data sets; see "Recommendations from ratings, clicks and
    counts".
    """
    chosen = start.mean * float(start.items.trained.sum())
    return float(np.clip(WEIGHT * chosen**1.5, LEAST_WEIGHT, MOST_WEIGHT))


def ridge_for(start: Fitted, weight: float) -> float:
    """What "auto" stands for: λ α M is a share of the clicks that a typical row has, of M items.

    λ also multiplies the clicks themselves, so it is never more than that share: in a catalogue so small that clicks
    count for more than all that nobody chose, rows would come to nothing.
    """
    return PENALTY_SHARE * min(1.0, start.mean / weight)


def confidences(csr: Csr, typical: float, dtype: Any) -> Csr:
    """The same entries as ones that count by their confidence, log₂(1 + y/m) times the sample's own weight."""
    own = np.log2(1.0 + csr.data / typical)
    weights = own * csr.weights if csr.weights.size else own
    if np.all(weights == 1.0):
        weights = np.empty(0)
    return csr._replace(data=np.ones(csr.data.size, dtype), weights=weights.astype(dtype))


def of_choices(ids: IdIndex, csr: Csr, n_others: int) -> FittedSide:
    """What clicks alone tell of a side: the share of the others that each chose, or was chosen by.

    Of others who are known by features alone there may be more than of those who count.
    """
    counts = csr.sum_rows(csr.that_count().astype(np.float64))
    return FittedSide(ids, np.minimum(counts / max(n_others, 1), 1.0), counts > 0)


def with_shares(fitted: Fitted) -> Fitted:
    """What is known before the first sweep, with shares of choices in place of means of ratings."""
    assert fitted.ratings is not None
    ratings = fitted.ratings
    n_users, n_items = (int(side.trained.sum()) for side in (fitted.users, fitted.items))
    users, items = (
        of_choices(ratings.users, ratings.by_user, n_items),
        of_choices(ratings.items, ratings.by_item, n_users),
    )
    mean = float(users.means.sum() / n_users)
    return replace(fitted, users=users, items=items, mean=mean)


def clicked(side: FittedSide) -> Bools:
    """Who chose something, or was chosen; others are known by features, or not at all."""
    return np.asarray(side.means > 0)


def all_pairs(fitted: Fitted) -> AllPairs:
    """What the loss weighs beside the clicks."""
    found, items, chosen = fitted.found, fitted.items, clicked(fitted.items)
    popularity = np.zeros(len(items.ids))
    popularity[chosen] = items.means[chosen] ** found["popularity_power"] / found["popularity_unit"]
    n_users = int(clicked(fitted.users).sum())
    return AllPairs(found["unobserved_weight"], found["ridge"], popularity, n_users, radius_of(fitted))


def radius_of(fitted: Fitted) -> float:
    """How long a row may be."""
    assert isinstance(fitted.ranges, UnitRange)
    return float(np.sqrt(fitted.ranges.slack))


# --- what features say --------------------------------------------------------------------------------------------


def known_features(side: FittedSide) -> Features:
    """Those of a side that has some."""
    assert side.links is not None
    assert side.links.features is not None
    return side.links.features


def with_means(fitted: Fitted, kind: str, found: Regression, features: Features) -> Fitted:
    """A model that knows what features say of a side; whoever has some is known by them."""
    side = fitted.side(kind)
    links = FittedLinks.of_regression(found, features, side.factors.dtype)
    return with_side(fitted, kind, linked(side, links))


def with_cold_rows(fitted: Fitted, kind: str) -> Fitted:
    """A model in which whoever has features and no click has the row that these lead to, from the mean of the others.

    The mean is that of all rows with both, so that features that are usual lead to the usual row.
    """
    side, factors = fitted.side(kind), fitted.side(kind).factors.copy()
    told, chose = known_features(side).rows_for(side.ids)[1], clicked(side)
    usual = factors[told & chose].mean(axis=0, dtype=np.float64) if (told & chose).any() else np.zeros(factors.shape[1])
    side, cold = replace(side, usual=usual.astype(factors.dtype)), ~chose
    factors[cold] = cold_rows(side, IdIndex(side.ids.ids[cold]), radius_of(fitted))
    return with_side(fitted, kind, replace(side, factors=factors))


def cold_rows(side: FittedSide, ids: IdIndex, radius: float) -> Floats:
    """w̄ + Bᵀ(f − f̄), in the ball, of those with features among ids of a side without clicks; nothing of the others."""
    assert side.links is not None
    assert side.usual is not None
    told = side.links.told(ids)[:, None]
    return in_ball(np.where(told, side.usual + side.links.expected(ids), 0.0), radius)


def with_side(fitted: Fitted, kind: str, side: FittedSide) -> Fitted:
    """The same model with another side."""
    return replace(fitted, users=side) if kind == "user" else replace(fitted, items=side)


def regression_on_features(problem: AllPairs, side: FittedSide, kind: str, csr: Csr, width: int) -> FeatureMeans:
    """That of the rows of a side that have clicks, by what each counts in the loss."""
    features, told = known_features(side).rows_for(side.ids)
    return FeatureMeans(features, told, counts_of_rows(problem, kind, csr), width)


def counts_of_rows(problem: AllPairs, kind: str, csr: Csr) -> Floats:
    """What each row of a side counts; 0 without clicks."""
    counts = problem.counts(kind, csr, problem.weights(kind, csr.indptr.size - 1))
    return np.where(counting(csr), counts, 0.0)


# --- rows -------------------------------------------------------------------------------------------------------


def in_ball(rows: Floats, radius: float) -> Floats:
    """Rows, of which those outside the ball are shortened to its edge."""
    return np.asarray(rows * (radius / np.maximum(np.linalg.norm(rows, axis=1), radius))[:, None])


def no_rows(like: FittedSide, n: int) -> Reals:
    """Rows of somebody without clicks."""
    return np.zeros((n, like.factors.shape[1]), like.factors.dtype)


def with_no_rows(side: FittedSide, n: int) -> Reals:
    """The rows of a side, and after them those of others without clicks, n in all."""
    return np.concatenate([side.factors, no_rows(side, n - len(side.factors))])


def with_other_rows(
    fitted: Fitted, given: Ratings, kind: str, n_jobs: int | None, told: Features | None = None
) -> Fitted:
    """A model whose users (or items) are others, from what they chose; ``given`` has the numbers of the other side.

    ``told`` has features of some of them.
    """
    ids, csr = of_side(given, kind)
    new = of_choices(ids, csr, int(clicked(fitted.side(OTHER[kind])).sum()))
    links = fitted.side(kind).links
    if links is not None and told is not None:
        links = links.with_features(told, ids)
    factors, usual = no_rows(fitted.side(kind), len(ids)), fitted.side(kind).usual
    side = linked(replace(new, factors=factors, usual=usual), links)
    started = with_side(replace(fitted, ratings=None), kind, side)
    return with_solved_rows(ClickRows(), started, kind, np.arange(len(ids)), csr, n_jobs)


def with_more_clicks(
    before: Fitted,
    ratings: Ratings,
    added: Ratings,
    n_jobs: int | None,
    told: Mapping[str, Features | None] = NOBODY,
) -> Fitted:
    """A model of all these clicks, in which only the rows of those with clicks or features that are new are solved."""
    now = with_shares(Fitted.before_the_first_sweep(ratings, ratings, before.ranges))
    fitted = replace(before, mean=now.mean, ratings=ratings)
    for kind in ("user", "item"):
        side, more = now.side(kind), told.get(kind)
        links = before.side(kind).links
        if links is not None and links.features is not None and more is not None:
            links = links.with_features(more, links.features.ids.extended(more.ids))
        side = replace(side, factors=with_no_rows(before.side(kind), len(side.ids)), usual=before.side(kind).usual)
        fitted = with_side(fitted, kind, linked(side, links))
    changed = {kind: changed_rows(*of_side(added, kind), told.get(kind)) for kind in ("user", "item")}
    new_users = changed["user"][changed["user"] >= len(before.users.ids)]
    for kind, rows in (("user", new_users), ("item", changed["item"]), ("user", changed["user"])):
        csr = of_side(ratings, kind)[1].take(rows)
        fitted = with_solved_rows(ClickRows(), fitted, kind, rows, csr, n_jobs)
    return fitted


@dataclass(frozen=True)
class ClickRows:
    """Rows of `ImplicitMBMF`: the half-step over all pairs."""

    def solve(self, fitted: Fitted, kind: str, rows: Codes, csr: Csr, pool: RowPool) -> dict[str, Reals]:
        """`solve_rows` of these, by the Gram matrix of all of the other side who chose something or were chosen."""
        problem, side, other = all_pairs(fitted), fitted.side(kind), fitted.side(OTHER[kind])
        csr = confidences(csr, fitted.found["typical_strength"], side.factors.dtype)
        own = problem.own(kind, csr, problem.weights(kind, len(side.ids))[rows])
        those = other.factors if other.links is None else np.where(clicked(other)[:, None], other.factors, 0)
        fixed = other.factors, problem.gram(OTHER[kind], those)
        if side.links is None:
            return {"factors": solve_rows(problem, own, csr, side.factors[rows], *fixed, pool)}
        ids, cold = side.ids.ids[rows], ~counting(csr)
        own = drawn_to(own, side.links.expected(IdIndex(ids)))
        found = solve_rows(problem, own, csr, side.factors[rows], *fixed, pool)
        found[cold] = cold_rows(side, IdIndex(ids[cold]), problem.radius)
        return {"factors": found}


def explained(fitted: Fitted, pair: Pairs) -> Explanation:
    """The parts that a user's choices and features have in their score of an item, in float64."""
    assert fitted.ratings is not None
    problem, given = all_pairs(fitted), fitted.ratings.by_user.take(pair.users)
    csr, told = confidences(given, fitted.found["typical_strength"], np.float64), Told.of(fitted, int(pair.users[0]))
    H = fitted.items.factors[given.indices].astype(np.float64)
    counts, one = csr.weights if csr.weights.size else np.ones(len(H)), np.eye(H.shape[1])
    share, ridge = problem.own("user", csr, np.ones(1))[0] if counting(csr).any() else (0.0, 1.0)
    A = (H.T * counts) @ H + share * problem.gram("item", fitted.items.factors) + ridge * one
    w = fitted.users.factors[pair.users[0]].astype(np.float64)
    item = fitted.items.factors[pair.items[0]].astype(np.float64)
    pressure = _pressure(A, counts @ H + ridge * (told.start + told.moved.sum(axis=0)), w, problem.radius)
    towards = np.linalg.lstsq(A + pressure * one, item, rcond=None)[0]
    prediction, inner = float(answers.predictions(fitted, pair)[0]), float(w @ item)
    if inner:  # what slack's map makes of a product it makes of its parts, in proportion
        towards = towards * (float(fitted.ranges.to_value(np.array([inner]), pair)[0]) / inner)
    by_choice, by_feature = counts * (H @ towards), ridge * (told.moved @ towards)
    usual = float(ridge * (told.start @ towards))
    chosen = zip(fitted.items.ids.ids[given.indices].tolist(), given.data.tolist(), by_choice.tolist(), strict=True)
    known = zip(told.names, told.values.tolist(), by_feature.tolist(), strict=True)
    return Explanation(
        prediction,
        usual,
        sorted((RatingPart(one, strength, 0.0, part) for one, strength, part in chosen), key=lambda p: -abs(p.total)),
        sorted((FeaturePart(*one) for one in known), key=lambda p: -abs(p.total)),
        prediction - usual - float(by_choice.sum()) - float(by_feature.sum()),
    )


class Told(NamedTuple):
    """Where a user's row is drawn to: from where, by which features of what value, and how far by each of them."""

    start: Floats
    names: list[str]
    values: Floats
    moved: Floats

    @classmethod
    def of(cls, fitted: Fitted, user: int) -> Told:
        """One whom a model knows, by number; nobody with a click starts from anywhere but 0."""
        assert fitted.ratings is not None
        users, width = fitted.users, fitted.users.factors.shape[1]
        links, usual = users.links, users.usual
        if links is None or usual is None or not links.told(users.ids)[user]:
            return cls(np.zeros(width), [], np.empty(0), np.empty((0, width)))
        features, told = known_features(users).rows_for(users.ids)
        csr = confidences(fitted.ratings.by_user, fitted.found["typical_strength"], np.float64)
        counts = counts_of_rows(all_pairs(fitted), "user", csr)
        mean = features.T @ (counts * told) / max((counts * told).sum(), np.finfo(float).tiny)
        own, known = features[[user]].toarray()[0], known_features(users)
        start = np.zeros(width) if counts[user] > 0 else usual.astype(np.float64)
        return cls(start, known.names, known.encoding.as_given(own), (own - mean)[:, None] * links.matrices[0])


def _pressure(A: Floats, b: Floats, w: Floats, radius: float) -> float:
    """μ of a row at the edge of the ball, which solves (A + μI) w = b; 0 inside."""
    size = float(w @ w)
    if size < radius**2 * (1 - 1e-6):
        return 0.0
    return max(0.0, float(w @ (b - A @ w)) / size)


# --- lists against what people chose besides -----------------------------------------------------------------------


class HeldOutChoices(Validation):
    """What people chose besides, to compare their lists with."""

    def __init__(self, held_out: Ratings, fitted: Fitted, n_jobs: int | None, seen: Seen | None = None) -> None:
        super().__init__(held_out, fitted)
        self._n_jobs, self._seen = n_jobs, seen
        known = ~self.pairs.unknown()
        self._users, self._items = self.pairs.users[known], self.pairs.items[known]

    def ndcg(self, fitted: Fitted) -> float:
        """NDCG@10 over all items that these users have not chosen in training."""
        seen = self._seen
        if seen is None:
            assert fitted.ratings is not None
            seen = Seen.of(fitted.ratings)
        users, items = np.unique(self._users), np.flatnonzero(fitted.items.trained)
        blocks = top_n(answers.ranking(fitted, True), users, min(PLACES, items.size), items, seen, self._n_jobs)
        lists = np.concatenate([block.items for block in blocks])
        return ndcg_at_k(self._users, self._items, users, lists, PLACES)
