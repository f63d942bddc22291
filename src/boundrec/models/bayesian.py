"""Bayesian MBMF: the mean over all models that the ratings leave possible, each of them inside its bounds.

    v_ij ~ N(w_i·h_j, 1/α)      w_i / r_i ~ N(m, P⁻¹) within the unit ball, items alike      (m, P) ~ Normal-Wishart

Gibbs sampling draws users, items, noise and priors in turn, each from its exact conditional; a row's conditional is the
normal with precision α r² A + P, truncated to the ball. It has the same normal equations as exact alternation, with
another ending: no ridge to tune, and a standard deviation for every prediction.

The mean of S samples with the same centre, magnitudes and held coordinates is itself such a model, with K·S + 2
factors: w = (b̄, γr, u¹/√S, …, u^S/√S). Its norm is at most r again (Jensen), so its range is the same.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from types import MappingProxyType
from typing import Any, ClassVar, Literal, NamedTuple, Never, Self, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from boundrec.arrays import Bools, Codes, Floats, Reals
from boundrec.data.columns import read_numbers, short
from boundrec.data.ratings import Csr, Ratings
from boundrec.models import answers
from boundrec.models.blend import KnowsChoices
from boundrec.models.bounded import centred_sides, noise_growth
from boundrec.models.estimator import Callback
from boundrec.models.explain import Explanation, explained
from boundrec.models.feature_effects import feature_effects
from boundrec.models.fit import Outcome, StoppingRule, Validation
from boundrec.models.fitted import Course, Fitted, FittedSide, learned
from boundrec.models.mbmf import mean_share
from boundrec.models.new_ratings import OTHER, SampledRows, of_side
from boundrec.models.noise_shape import shape_of_noise
from boundrec.models.settings import Precision, check_flag, count, is_auto, is_number, is_whole, one_of, setting
from boundrec.models.side_information import (
    NOBODY,
    FittedLinks,
    counting,
    links_of,
    well_rated,
    with_features,
    worth_having,
)
from boundrec.notes import warn
from boundrec.ranges import Frame, Ranges
from boundrec.ranges.rules import ends_of_rows
from boundrec.ranges.scale import Scale
from boundrec.solvers import Side, Solver
from boundrec.solvers.exact import HELD_BY_ITEMS, HELD_BY_USERS, HELD_SHARE, start_with_biases
from boundrec.solvers.gibbs import (
    PRIOR_NOISE,
    TINY,
    Kept,
    KeptSide,
    NoiseDraw,
    Prior,
    RatingNoise,
    Rows,
    Sampled,
    Sampler,
    beside,
)
from boundrec.solvers.links import LinkDraw, Links
from boundrec.solvers.row_noise import ALIKE, RowNoise, of_strangers
from boundrec.solvers.threads import RowPool

T = TypeVar("T")
Implicit = Literal["auto", "off", "users", "items", "both"]
Noise = Literal["auto", "one", "own"]
#: Noise is one for all where ratings have a larger kurtosis: 3 is that of a normal, and that of stars is lower.
HEAVY_TAILS = 13.0
#: The least standard deviation of ratings that the guess of their noise starts from, in half-widths of their ranges.
LEAST_NOISE = 1e-3


def slack_for(n_factors: int) -> float:
    """How far the fit may pass the range: every coordinate's posterior spread takes up some of the ball."""
    return float(np.clip(1.5 + n_factors / 20.0, 2.0, 4.0))


class Chain(NamedTuple):
    """Where the sampler stands, to go on from there."""

    users: Reals
    items: Reals
    rng: np.random.Generator
    #: The noise of the last draw, and of the samples so far.
    last: NoiseDraw
    noise: list[NoiseDraw]
    links: tuple[LinkDraw | None, LinkDraw | None]


class RunningMean:
    """What a fit has sampled so far for the pairs that it is evaluated on: the mean of the inner products."""

    def __init__(self) -> None:
        self._total: Floats | float = 0.0
        self._count = 0

    def add(self, inner: Floats) -> Floats:
        """One more sample; returns the mean of the samples so far."""
        self._total = self._total + inner
        self._count += 1
        return np.asarray(self._total / self._count)


class EvaluatedSampler(Sampler):
    """A sampler that remembers what it predicted for the pairs it is evaluated on, and the fit that it goes on with."""

    burn_in = 0
    ranges: Ranges
    start: Fitted
    earlier: Course
    evaluated: Floats | None = None

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._running = RunningMean()

    def evaluate(self, validation: Validation) -> Floats:
        """The running mean over the sweeps after the burn-in; before that, what the present draws say."""
        ranges, pairs = self.ranges, validation.pairs
        sample = self.kept.last
        assert sample is not None
        W = Rows.of(sample.users.best(), sample.users.prior, HELD_BY_USERS)
        H = Rows.of(sample.items.best(), sample.items.prior, HELD_BY_ITEMS)
        inner = answers.inner_products(W, H, ranges, pairs)
        if self.n_swept > self.burn_in:
            inner = self._running.add(inner)
        values, unknown = ranges.to_value(inner, pairs), pairs.unknown()
        if not ranges.scale.even and unknown.any():
            values[unknown] = answers.known_means(self.start, pairs.take(unknown))
        self.evaluated = np.clip(ranges.scale.to_rating(values, pairs), *ranges.interval(pairs))
        return self.evaluated


class BayesianMBMF(KnowsChoices, defaults={"n_iter_no_change": None, "dtype": "float32"}):
    """Magnitude bounded matrix factorisation, averaged over its posterior: accurate without tuning, never out of range.

    Sampling is in float64 whatever ``dtype`` is, and draws are keyed by row: any number of threads gives the same bits.

    Examples
    --------
    >>> from boundrec import BayesianMBMF
    >>> X = [("ann", "tea"), ("ann", "rum"), ("bob", "tea"), ("bob", "gin"), ("eve", "rum"), ("eve", "gin")]
    >>> model = BayesianMBMF(n_factors=2, bounds=(1, 5), random_state=0).fit(X, [5, 1, 4, 5, 2, 1])
    >>> prediction, std = model.predict([("ann", "gin")], return_std=True)
    >>> bool(1 <= prediction[0] <= 5 and std[0] > 0)
    True
    """

    warm_start: bool = setting(
        default=False,
        rule=check_flag,
        meaning="Whether ``fit`` goes on sampling where the last one stopped, with ``max_iter`` more sweeps and "
        "``n_kept`` more samples, all of them kept; the ratings must have the same ids, and features the same values. "
        "Where the last one had False, or the model is from a file, ``fit`` begins anew, with a note.",
    )
    burn_in: int | None = setting(
        default=None,
        rule=lambda *_: None,  # it depends on max_iter
        meaning="Sweeps at the start that are not kept; None for a fifth of them, at most 20.",
    )
    implicit: Implicit = setting(
        default="auto",
        rule=one_of(Implicit),
        meaning='Whether the prior of rows follows who rated what, as far as it was trained on: that of ``"users"`` '
        '(whom they rated), of ``"items"`` (who rated them), of ``"both"`` or ``"off"``; ``"auto"`` takes the sides '
        "whose sets are of four or more on average, and of no more than ten times as many as there are rows. Those "
        "with three training ratings are in sets. The model and its file then hold n_kept · (n_factors + 1) numbers "
        "more for each of them and for each feature.",
    )
    noise: Noise = setting(
        default="auto",
        rule=one_of(Noise),
        meaning='``"one"`` noise for all ratings, or each user\'s and each item\'s ``"own"``: n_kept numbers for each. '
        '``"auto"`` is that, but where some ratings are far from all others, as plain counts are, of which noise of '
        "their own would make next to nothing.",
    )
    n_kept: int = setting(
        default=20,
        rule=count(),
        meaning="Samples kept for prediction, spread evenly over the sweeps after the burn-in. The model holds "
        "(users + items) × (n_factors · n_kept + 2) numbers.",
    )

    NARROWEST: ClassVar[Precision] = "float16"
    STORED: ClassVar[dict[str, str]] = {
        **KnowsChoices.STORED,
        "user_factors": "narrow users width",
        "item_factors": "narrow items width",
        "user_biases": "floats users kept",
        "item_biases": "floats items kept",
        "user_spread": "floats users spreads",
        "item_spread": "floats items spreads",
        "user_prior_means": "floats kept free",
        "user_prior_precisions": "floats kept free free",
        "item_prior_means": "floats kept free",
        "item_prior_precisions": "floats kept free free",
        "user_links": "optional links kept free",
        "item_links": "optional links kept free",
        "user_steadiness": "optional floats users kept",
        "item_steadiness": "optional floats items kept",
        "noise_variances": "floats kept",
        "noise": "positive",
        "user_stranger": "optional positive",
        "item_stranger": "optional positive",
        "noise_shape": "optional floats groups quantiles",
        "noise_edges": "optional floats edges",
        "eval_predictions": "optional floats evaluated",
    }
    #: Where sampling may go on from; a file does not hold it.
    _chain = None  # type: Chain | None
    #: Of the fit under way: what was given as features of each side, and what they are once the ids are known.
    _given_features = MappingProxyType({})  # type: Any
    _features = MappingProxyType({})  # type: Any

    # --- sampling -------------------------------------------------------------------------------------------

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
        user_features: Any = None,
        item_features: Any = None,
        **unknown: Never,
    ) -> Self:
        """Sample the posterior. Parameters are those of `MBMF.fit`, and two more.

        ``user_features`` and ``item_features`` tell what is known of users and of items: a data frame with a column of
        ids, a mapping, a pair (ids, matrix) or a `Graph` (:mod:`boundrec.data.features` has the rules). Ids that have
        features and no ratings are answered by them.

        For the pairs of ``eval_set`` the mean over all sweeps after the burn-in is kept, in ``eval_predictions_``,
        and its error after each sweep in ``eval_errors_``.
        """
        beside = {"history": history, "sample_weight": sample_weight, "eval_set": eval_set, "callback": callback}
        self._given_features = {"user": user_features, "item": item_features}
        if self.warm_start and self._learned is not None and self._chain is None:
            warn(
                "warm_start=True, but there is nothing to go on with: the last fit had warm_start=False, or the model "
                "is from a file, which does not hold where sampling stood. This fit begins anew."
            )
        try:
            super().fit(X, y, lower=lower, upper=upper, **beside, **unknown)
        finally:
            for name in ("_given_features", "_features"):  # they belong to the fit, and files and copies to the model
                vars(self).pop(name, None)
        if isinstance(eval_set, (tuple, list)) and len(eval_set) == 2:
            ratings = self.fitted_.ratings
            by_user, found = self._read_parts(_known(ratings), *eval_set), self.eval_predictions_
            pairs = ends_of_rows(self.fitted_.rule, eval_set[0], None, None)[0]
            self._learned = replace(self.fitted_, eval_predictions=found[by_user.positions(pairs)])
        return self

    def _with_known_ids(self, given: Ratings) -> Ratings:
        """Rows for everybody who has features; features are read here, where the ids they go with are known."""
        given, self._features = with_features(given, self._given_features)
        return given

    def _learn(self, start: Fitted, held_out: Ratings | None, callback: Callback | None) -> Self:
        """As every model; whoever has features is known from the start."""
        sides: dict[str, Any] = {}
        for kind, features in self._features.items():
            side = start.side(kind)
            sides[f"{kind}s"] = replace(side, trained=side.trained | features.rows_for(side.ids)[1])
        return super()._learn(replace(start, **sides), held_out, callback)

    def _bytes_of_rows(self, start: Fitted) -> int:
        return super()._bytes_of_rows(start) * min(self.n_kept, self.most_iterations() - self._burn_in())

    def _links(self, side: Side, kind: str, start: Fitted) -> Links | None:
        """What is known of a side's rows besides their ratings, for its prior."""
        features, in_sets = self._features.get(kind), self._in_sets(kind, start)
        return links_of(start.side(kind).ids, side.csr, features, in_sets, self.n_factors + 1)

    def _in_sets(self, kind: str, start: Fitted) -> Codes:
        """Who may be in the sets of a side's rows, where its prior is to know these; a fit that goes on keeps them."""
        if self.implicit not in ("auto", "both", f"{kind}s"):
            return NOBODY
        if self.warm_start and self._chain:
            links = self.fitted_.side(kind).links
            return NOBODY if links is None else links.in_sets
        csr = of_side(_known(start.ratings), kind)[1]
        found = well_rated(csr, len(start.side(OTHER[kind]).ids))
        return NOBODY if is_auto(self.implicit) and not worth_having(csr, found) else found

    def _own_noise(self, start: Fitted) -> bool:
        """Whether rows have a noise of their own; a fit that goes on keeps what it had."""
        if not is_auto(self.noise):
            return self.noise == "own"
        if self.warm_start and self._chain:
            return self.fitted_.users.steadiness is not None
        csr = answers.bounded(start).scale.of_ratings(_known(start.ratings)).by_user
        values = csr.data[csr.that_count()].astype(np.float64)
        apart = np.abs(values - values.mean())
        apart /= apart.max() or 1.0  # the fourth power of what ratings may be has no number
        return bool(np.mean(apart**4) <= HEAVY_TAILS * np.mean(apart**2) ** 2)

    def _solver(self, start: Fitted, pool: RowPool, rng: np.random.Generator, validation: Validation | None) -> Solver:
        chain = self._chain if self.warm_start else None
        if chain:
            self._check_same(chain, start)
        users, items = centred_sides(start, np.float64)
        users.held, items.held = HELD_BY_USERS, HELD_BY_ITEMS
        variance = guess = self._noise_guess(start, users)
        if chain:
            users.factors, items.factors, rng = chain.users, chain.items, deepcopy(chain.rng)
            variance = chain.last.variance
        else:
            mean = mean_share(start, users) / answers.bounded(start).slack
            users = start_with_biases(users, HELD_BY_USERS, mean, self.n_factors, rng)
            items = start_with_biases(items, HELD_BY_ITEMS, mean, self.n_factors, rng)
        users.links, items.links = self._links(users, "user", start), self._links(items, "item", start)
        burn_in, kept = self._to_keep(start, chain)
        means_from = None if validation is None else burn_in + 1
        noise = self._rating_noise(start, guess, users.csr)
        sampler = EvaluatedSampler(users, items, variance, guess, kept, means_from, pool, rng, noise)
        if chain:
            for side, draw in ((users, chain.links[0]), (items, chain.links[1])):
                if side.links is not None and draw is not None:
                    side.links.matrix, side.links.strength = draw.matrix, draw.strength
            if noise is not None:
                noise.go_on(chain.last)
                noise.weigh(users, items)
        sampler.burn_in, sampler.ranges, sampler.start = burn_in, answers.bounded(start), start
        sampler.earlier = self.fitted_.course if chain else start.course
        return sampler

    def _choose_scale(self, ratings: Ratings) -> Scale:
        scale, before = super()._choose_scale(ratings), self._continued()
        return before.scale if before and before.scale.width is not None and scale.width is not None else scale

    def _choose_ranges(self, ratings: Ratings, past: Ratings | None, scale: Scale, from_matrix: bool) -> Ranges:
        ranges, before = super()._choose_ranges(ratings, past, scale, from_matrix), self._continued()
        if before is None or not (ranges.frame.led and before.frame.led) or ranges.slack != before.slack:
            return ranges
        declared = (ranges.frame.lower, ranges.frame.upper) == (before.frame.lower, before.frame.upper)
        alike = len(ranges.user) == len(before.user) and len(ranges.item) == len(before.item)
        return before if declared and alike else ranges

    def _continued(self) -> Ranges | None:
        """The ranges of the fit that this one goes on with: other ratings move neither its centre nor its unit."""
        return answers.bounded(self.fitted_) if self.warm_start and self._chain else None

    def _noise_guess(self, start: Fitted, users: Side) -> float:
        """Variance of the ratings around their centres, which is what the noise is guessed to be before any sweep.

        Ratings that are all the same would have none, and leave the sampler without a unit: a thousandth of the range
        is the least.
        """
        assert start.ratings is not None
        half_widths = answers.bounded(start).radius(start.ratings.pairs())
        least = (LEAST_NOISE * float(half_widths.mean())) ** 2
        return max(float(users.csr.data[users.csr.that_count()].var()), least, TINY)

    def _rating_noise(self, start: Fitted, guess: float, csr: Csr) -> RatingNoise | None:
        """What is to be sampled of how ratings differ in their noise; ``csr`` has them as they are factorised."""
        ratings, scale = start.ratings, answers.bounded(start).scale
        growing, own = scale.width is not None and is_auto(self.noise_growth), self._own_noise(start)
        if not (growing or own):
            return None
        assert ratings is not None
        places = np.arange(ratings.n_ratings, dtype=np.float64)
        order = ratings.with_values(places, np.empty(0)).by_item.data.astype(np.int64)
        weights = csr.weights.astype(np.float64) if csr.weights.size else np.ones(ratings.n_ratings)
        widths = noise_growth(scale, ratings, PRIOR_NOISE, guess) if growing else None
        rows = _row_noise(ratings, weights > 0) if own else None
        return RatingNoise(weights, order, widths, scale.growth, rows)

    def _burn_in(self) -> int:
        """How many sweeps a fit from the start discards."""
        return min(20, self.most_iterations() // 5) if self.burn_in is None else self.burn_in

    def _to_keep(self, start: Fitted, chain: Chain | None) -> tuple[int, Kept]:
        """How many sweeps are discarded, and room for the samples to keep, after those of a fit that goes on."""
        sweeps = self.most_iterations()
        burn_in = 0 if chain else self._burn_in()
        spaced = np.linspace(sweeps, burn_in, min(self.n_kept, sweeps - burn_in), endpoint=False)
        chosen = set(spaced.round().astype(int).tolist())
        shape = self.n_factors, len(chosen) + (len(chain.noise) if chain else 0)
        users = KeptSide(len(start.users.ids), *shape, HELD_BY_USERS, self.dtype)
        items = KeptSide(len(start.items.ids), *shape, HELD_BY_ITEMS, self.dtype)
        kept = Kept(chosen, users, items)
        if chain:
            for side, of in ((users, self.fitted_.users), (items, self.fitted_.items)):
                side.take_over(of.factors, of.biases, of.spread, _known(of.prior))
                if of.links is not None:
                    side.links += of.links.draws()
                    known = of.links.precisions
                    side.precisions += list(_known(of.prior).precision if known is None else known)
            kept.noise += chain.noise
        return burn_in, kept

    def _check_same(self, chain: Chain, start: Fitted) -> None:
        """A chain goes on only where its rows still mean the same and lie in the same balls."""
        ranges, before = answers.bounded(start), self.fitted_
        held = np.sqrt(HELD_SHARE * ranges.slack)
        balls = (chain.users, HELD_BY_USERS, ranges.user), (chain.items, HELD_BY_ITEMS, ranges.item)
        same = {
            "users": np.array_equal(before.users.ids.ids, start.users.ids.ids),
            "items": np.array_equal(before.items.ids.ids, start.items.ids.ids),
            "n_factors": chain.users.shape[1] == self.n_factors + 2,
            "bounds, magnitudes or slack": _frame(before) == _frame(start)
            and all(
                len(rows) == len(magnitudes) and np.allclose(rows[:, column], held * magnitudes, rtol=1e-12, atol=0)
                for rows, column, magnitudes in balls
            ),
        }
        for kind in ("user", "item"):
            links, features = before.side(kind).links, self._features.get(kind)
            known = None if links is None else links.features
            same[f"{kind}_features"] = features is None if known is None else known.same_as(features)
            n_before = 0 if links is None else links.in_sets.size
            same[f"rated sets of {kind}s (implicit)"] = n_before == self._in_sets(kind, start).size
        same["noise"] = (before.users.steadiness is not None) == self._own_noise(start)
        other = [name for name, holds in same.items() if not holds]
        if other:
            raise ValueError(
                f"warm_start=True goes on with the sampling of the last fit, but that had other {other[0]}: "
                "pass what it had, or warm_start=False to begin anew."
            )

    def _together(self, start: Fitted, outcomes: list[Outcome], at_the_end: bool) -> Fitted:
        """The kept samples become one model; where none is kept yet, the last one stands for all."""
        sampler, course = _sampler(outcomes), outcomes[-1].course
        kept, earlier = sampler.kept.or_last(), sampler.earlier
        ranges, variances = _with_noise(answers.bounded(start), sampler.noise, kept)
        sides: dict[str, Any] = {}
        strangers: dict[str, float] = {}
        for kind, own in (("user", kept.users), ("item", kept.items)):
            in_sets = self._in_sets(kind, start)
            links = FittedLinks.of(own, self._features.get(kind), in_sets, beside(self.dtype))
            steady: list[Any] = [one.users if kind == "user" else one.items for one in kept.noise]
            stacked = replace(_stacked(start.side(kind), own, at_the_end), links=links)
            if steady[0] is not None:
                steadiness, strangers[f"{kind}_stranger"] = self._steadiness(kind, start, np.column_stack(steady))
                stacked = replace(stacked, steadiness=steadiness)
            sides[f"{kind}s"] = stacked
        return replace(
            start,
            **sides,
            ranges=ranges,
            course=course._replace(
                objectives=earlier.objectives + course.objectives, seconds=earlier.seconds + course.seconds
            ),
            n_bias_columns=2,
            noise_variances=variances,
            found={**start.found, **strangers, "noise": float(np.sqrt(np.mean(variances)))},
            eval_predictions=sampler.evaluated,
        )

    def _steadiness(self, kind: str, start: Fitted, drawn: Floats) -> tuple[Reals, float]:
        """How steady rows are in each sample, and strangers: as them are those who have features and no ratings."""
        assert start.ratings is not None
        rated = counting(start.ratings.by_user if kind == "user" else start.ratings.by_item)
        drawn[~rated] = stranger = of_strangers(drawn[rated], ALIKE[kind])
        return drawn.astype(beside(self.dtype)), stranger

    def _complete(self, fitted: Fitted, outcomes: list[Outcome]) -> Fitted:
        self._chain = None
        if self.warm_start:
            one = _sampler(outcomes)
            last = _known(one.kept.last)
            links = last.users.link, last.items.link
            self._chain = Chain(
                one.users.factors, one.items.factors, one.rng, last.noise, one.kept.or_last().noise, links
            )
        outcomes.clear()  # what the sampler worked with is no longer needed, and its memory is
        fitted = fitted.with_means()
        if self.link is not None or fitted.users.steadiness is not None:
            fitted = replace(fitted, noise_shape=shape_of_noise(fitted))
        return super()._complete(fitted, outcomes)

    def _predicted(self, solver: Solver, so_far: Callable[[], Fitted], validation: Validation) -> Floats:
        assert isinstance(solver, EvaluatedSampler)
        return solver.evaluate(validation)

    def _in_ball(self) -> bool:
        return True

    def _slack(self) -> float:
        return slack_for(self.n_factors) if is_auto(self.slack) else float(self.slack)

    def _default_max_iter(self) -> int:
        return 100

    def _stopping_rule(self) -> StoppingRule:
        return StoppingRule(-np.inf, 1)  # a sampler has no objective to bring to rest

    def _seeks_rest(self) -> bool:
        return False

    def _row_problem(self) -> SampledRows:
        return SampledRows(self.n_factors)

    def check_settings(self) -> None:
        """Refuse settings that make no sense, with a sentence each."""
        super().check_settings()
        if self.burn_in is not None and not (is_whole(self.burn_in) and 0 <= self.burn_in < self.most_iterations()):
            raise ValueError(f"burn_in={short(self.burn_in)}: give a whole number below max_iter, or None.")

    # --- predictions ----------------------------------------------------------------------------------------

    @overload
    def predict(
        self,
        X: Any,
        return_range: Literal[False] = False,
        return_std: Literal[False] = False,
        *,
        lower: Any = None,
        upper: Any = None,
    ) -> Floats: ...
    @overload
    def predict(
        self,
        X: Any,
        return_range: Literal[True],
        return_std: Literal[False] = False,
        *,
        lower: Any = None,
        upper: Any = None,
    ) -> tuple[Floats, Floats, Floats]: ...
    @overload
    def predict(
        self,
        X: Any,
        return_range: Literal[False] = False,
        *,
        return_std: Literal[True],
        lower: Any = None,
        upper: Any = None,
    ) -> tuple[Floats, Floats]: ...
    @overload
    def predict(
        self,
        X: Any,
        return_range: Literal[True],
        return_std: Literal[True],
        *,
        lower: Any = None,
        upper: Any = None,
    ) -> tuple[Floats, Floats, Floats, Floats]: ...
    @overload
    def predict(
        self, X: Any, return_range: bool = False, return_std: bool = False, *, lower: Any = None, upper: Any = None
    ) -> Floats | tuple[Floats, ...]: ...
    def predict(
        self, X: Any, return_range: bool = False, return_std: bool = False, *, lower: Any = None, upper: Any = None
    ) -> Floats | tuple[Floats, ...]:
        """Predict the rating of each pair of ids, inside its own range.

        Parameters
        ----------
        X
            Two columns of ids, and the columns of ranges where the model was fitted with such.
        return_range
            Also return the lower and upper end of each pair's range.
        return_std
            Also return the standard deviation of a rating around the prediction: what the samples disagree on, and
            the noise of a single rating.
        lower, upper
            The range of each row, where pairs have ranges of their own; instead of those that ``bounds`` gives.

        Returns
        -------
        prediction, or a tuple of what was asked for in the order (prediction, std, lower, upper)
        """
        pairs = self._pairs(X, lower, upper)
        answer: tuple[Floats, ...] = (self._predict(pairs),)
        if return_std:
            answer += (_known(answers.deviations(self.fitted_, pairs)),)
        if return_range:
            answer += self.fitted_.ranges.interval(pairs)
        return answer if len(answer) > 1 else answer[0]

    def predict_quantiles(
        self, X: Any, quantiles: Any = (0.05, 0.5, 0.95), *, lower: Any = None, upper: Any = None
    ) -> Floats:
        """Quantiles of the rating of each pair of ids, one column for each, inside the pair's range.

        The predictive distribution is a normal around each kept sample's prediction, all of them mixed.
        """
        wanted = read_numbers([quantiles] if is_number(quantiles) else quantiles, "quantiles", "quantile")
        if not np.all((wanted > 0) & (wanted < 1)):
            raise ValueError(f"quantiles={short(quantiles)}: give numbers above 0 and below 1.")
        pairs = self._pairs(X, lower, upper)
        return answers.quantiles(self.fitted_, pairs, wanted)

    def explain(self, user: Any, item: Any, *, lower: Any = None, upper: Any = None) -> Explanation:
        """Why a user gets what is predicted for an item: what their own ratings and features add to the usual.

        Every rating has a part by its value, beside what somebody typical would have given, and with ``implicit`` one
        by the choice of its item; every feature has one. With ``usual`` and ``remainder`` they add up to the
        prediction, in units of ratings.

        Parameters
        ----------
        user, item
            The ids of two that the model knows.
        lower, upper
            The range of the pair, where ranges come with the rows.

        Examples
        --------
        >>> from boundrec import BayesianMBMF
        >>> X = [("ann", "tea"), ("ann", "rum"), ("bob", "tea"), ("bob", "gin"), ("eve", "rum"), ("eve", "gin")]
        >>> model = BayesianMBMF(n_factors=2, bounds=(1, 5), random_state=0).fit(X, [5, 1, 4, 5, 2, 1])
        >>> why = model.explain("ann", "gin")
        >>> sorted(part.item for part in why.ratings)
        ['rum', 'tea']
        >>> parts = [part.total for part in why.ratings]
        >>> abs(why.usual + sum(parts) + why.remainder - why.prediction) < 1e-9
        True
        """
        check_is_fitted(self)
        fitted = self.fitted_
        if fitted.ratings is None:
            raise ValueError(
                "explain needs the ratings of the fit, which neither a view from fold_in nor a file without them has: "
                "call it on the model itself, or save the model with keep_ratings=True."
            )
        ends = {name: [end] for name, end in (("lower", lower), ("upper", upper)) if end is not None}
        pair = self._pairs([(user, item)], **ends)
        for kind, code, one in (("user", pair.users, user), ("item", pair.items, item)):
            if code[0] < 0:
                why = fitted.side(kind).why_unknown(one)
                raise ValueError(f"{kind}={short(one)} {why}: give one with ratings or features.")
        return explained(fitted, pair, self.n_factors)

    # --- what was learnt ------------------------------------------------------------------------------------

    user_biases_ = learned(lambda fitted: _known(fitted.users.biases), "The bias of each user in each kept sample.")
    item_biases_ = learned(lambda fitted: _known(fitted.items.biases), "The bias of each item in each kept sample.")
    user_spread_ = learned(
        lambda fitted: _known(fitted.users.spread),
        "What is left open of each user's row: variance of its bias and, on average, of its other coordinates.",
    )
    item_spread_ = learned(lambda fitted: _known(fitted.items.spread), "What is left open of each item's row, alike.")
    user_prior_means_ = learned(
        lambda fitted: _known(fitted.users.prior).mean, "The mean of the users' prior in each kept sample."
    )
    user_prior_precisions_ = learned(
        lambda fitted: _known(fitted.users.prior).precision, "The precision of the users' prior in each kept sample."
    )
    item_prior_means_ = learned(
        lambda fitted: _known(fitted.items.prior).mean, "The mean of the items' prior in each kept sample."
    )
    item_prior_precisions_ = learned(
        lambda fitted: _known(fitted.items.prior).precision, "The precision of the items' prior in each kept sample."
    )
    noise_variances_ = learned(
        lambda fitted: _known(fitted.noise_variances),
        "Variance of a rating around its prediction, in each kept sample.",
    )
    noise_ = learned(
        lambda fitted: fitted.found["noise"],
        "Standard deviation of a rating around its prediction, averaged over the kept samples.",
    )

    feature_effects_ = learned(
        feature_effects,
        "What each feature of users and items does, as a list of (side, feature, on_ratings, spread, on_rows): "
        "`FeatureEffect`.",
    )

    @property
    def eval_predictions_(self) -> Floats:
        """What the mean over all sweeps, burn-in left out, predicts for the ``eval_set``, in its order."""
        if self.fitted_.eval_predictions is None:
            raise AttributeError("this BayesianMBMF was fitted without an eval_set to predict.")
        return self.fitted_.eval_predictions


def _known(value: T | None) -> T:
    """What every model of this kind has, and others have not."""
    assert value is not None
    return value


def _row_noise(ratings: Ratings, telling: Bools) -> RowNoise:
    """Noise of each row's own; ratings that say nothing, such as those in ranges of no width, are not counted."""
    weights = ratings.by_user.weights
    counts = np.where(telling, weights if weights.size else 1.0, 0.0)
    return RowNoise(ratings.by_user, ratings.by_item, counts)


def _with_noise(ranges: Ranges, noise: RatingNoise | None, kept: Kept) -> tuple[Ranges, Floats]:
    """Ranges and the noise of each sample, where noise grows with their width as it does on average."""
    variances = np.array([one.variance for one in kept.noise])
    if noise is None or noise.widths is None:
        return ranges, variances
    growths = [one.growth for one in kept.noise]
    mean, widths = float(np.mean(growths)), noise.widths
    unit, units = widths.mean_weight(mean), np.array([widths.mean_weight(p) for p in growths])
    return replace(ranges, scale=replace(ranges.scale, growth=mean, mean_weight=unit)), variances * units / unit


def _frame(fitted: Fitted) -> tuple[Frame, float | None]:
    ranges = answers.bounded(fitted)
    return ranges.frame, ranges.scale.width


def _sampler(outcomes: list[Outcome]) -> EvaluatedSampler:
    learned = outcomes[-1].learned
    assert isinstance(learned, Sampled)
    assert isinstance(learned.sampler, EvaluatedSampler)
    return learned.sampler


def _stacked(side: FittedSide, kept: KeptSide, at_the_end: bool) -> FittedSide:
    return replace(
        side, factors=kept.stacked(at_the_end), biases=kept.biases(), spread=kept.spread(), prior=Prior(*kept.priors())
    )
