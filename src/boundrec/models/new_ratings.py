"""Ratings that come after the fit: new users and items are folded in, and rows with new ratings are solved again.

A row depends on nothing but its own ratings and the other side, so what is new needs no refit: the half-step that ends
every fit, on the new rows alone, gives them the rows that the fit would have ended with.

A stacked model is the mean of several: the restarts of `MBMF`, the samples of `BayesianMBMF`. Each of them is a model
of its own, so a row of one is learnt from the other side of the same one, and then stacked as the fit does it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import repeat
from types import MappingProxyType
from typing import Any, Literal, Protocol, Self, cast, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from boundrec.arrays import Codes, Floats, Reals
from boundrec.data.columns import read_numbers, short
from boundrec.data.features import Features
from boundrec.data.ids import IdIndex
from boundrec.data.ratings import Csr, Ratings
from boundrec.models import answers
from boundrec.models.bounded import BoundedModel
from boundrec.models.estimator import FactorisationModel, check_names
from boundrec.models.fitted import Fitted, FittedSide
from boundrec.models.side_information import FittedLinks, counting
from boundrec.notes import warn
from boundrec.ranges import Ranges
from boundrec.ranges.contradictions import describe_contradictions, settle_contradictions, settle_own, widen_new
from boundrec.ranges.magnitudes import check_ranges_fit, history_weight, magnitudes_of_new
from boundrec.ranges.rules import Rule
from boundrec.ranges.scale import Scale
from boundrec.solvers import Side
from boundrec.solvers.exact import HELD_BY_ITEMS, HELD_BY_USERS, HELD_SHARE, Constraint, solve_rows, stack, unstack
from boundrec.solvers.gibbs import NO_SHIFTS, KeptSide, Prior, Rows, beside, draw_rows, stored
from boundrec.solvers.row_noise import ALIKE, expected
from boundrec.solvers.threads import RowPool
from boundrec.top_n import Seen

Axis = Literal["users", "items"]

OTHER = {"user": "item", "item": "user"}
#: The coordinate that each side holds fixed where there are biases; its own bias stands in the other's.
HELD = {"user": HELD_BY_USERS, "item": HELD_BY_ITEMS}
#: The ratings of a side that is only looked at.
NO_RATINGS = Csr(np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0), np.empty(0))
#: Of whom there are features that are new.
NOBODY: Mapping[str, Features | None] = MappingProxyType({})


class TakesNewRatings(BoundedModel):
    """A bounded model that takes ratings after its fit."""

    def _row_problem(self) -> RowProblem:
        """How a row is learnt from its ratings and the other side."""
        raise NotImplementedError

    def fold_in(
        self,
        X: Any = None,
        y: Any = None,
        axis: Axis = "users",
        sample_weight: ArrayLike | None = None,
        *,
        lower: Any = None,
        upper: Any = None,
        features: Any = None,
    ) -> Self:
        """A view of the model for users it never saw, from their ratings: bounded from the first rating, no refit.

        Their rows are solved as in the last half-step of a fit, with everything else as it is. Their magnitudes come
        by the rule of the fit: from their ratings, Eqs. (42) and (43), where the others' come from ratings, else the
        same for all, or, where magnitudes were given as mappings, their own if those know them and, if not, that of
        somebody unknown.

        Parameters
        ----------
        X, y, sample_weight
            Ratings of the new users, in any form that ``fit`` takes, under the same rules. Of users whom the model
            knows already these ratings count as all there are. Ratings of items without training ratings are left out
            with a warning; they are refused with ``on_unknown="raise"``, or when no others are left. None where there
            are features and no ratings.
        axis
            ``"users"``, or ``"items"`` for new items from the ratings of users whom the model knows.
        lower, upper
            The range of each row, where ranges come with the rows.
        features
            Of a model that was fitted with features of users (or items): those of the new ones, in the same form, made
            as they were at fit. Who has some is answered even without ratings. Without them new ones are taken for
            typical, and whoever the model knows has the features of the fit. Sets of who rated what hold only what was
            there at fit.

        Returns
        -------
        a copy of the model whose users (or items) are the new ones and whose other side is that of the model, with
        the same methods. The model itself stays as it was.
        """
        check_is_fitted(self)
        if not isinstance(axis, str) or axis not in get_args(Axis):
            raise ValueError(f"axis={short(axis)}: give 'users' or 'items'.")
        kind, fitted = axis.removesuffix("s"), self.fitted_
        told = self._read_features(kind, features, "features")
        if X is None and told is None:
            raise ValueError("fold_in has neither ratings nor features to go by: pass X and y, or features.")
        if X is None:
            given = of_known(fitted, Ratings.none(fitted.rule is not None), kind, self.on_unknown, told)
        else:
            weights = None if sample_weight is None else read_numbers(sample_weight, "sample_weight", "weight")
            none_counts = told is not None and weights is not None and not weights.any()
            given = self._read_new(X, y, np.ones_like(weights) if none_counts else weights, lower, upper)
            given = of_known(fitted, given, kind, self.on_unknown, told)
            if none_counts:  # which is refused only where there is nothing else to go by
                given = given.with_values(given.by_user.data, np.zeros(given.n_ratings))
        scale = answers.bounded(fitted).scale
        ids, past = of_side(scale.of_ratings(given), kind)
        magnitudes = self._magnitudes_of(kind, ids, past)
        ranges = answers.bounded(fitted).with_magnitudes(kind, magnitudes)
        ratings, ranges, rule = self._settle_new(given, ranges, {kind: 0})
        ids, csr = of_side(scale.of_ratings(ratings), kind)
        new = self._row_problem().start(fitted, kind, FittedSide.of(ids, csr, fitted.mean), getattr(ranges, kind))
        links, others = fitted.side(kind).links, fitted.side(OTHER[kind])
        if links is not None and told is not None:
            links = links.with_features(told, ids)
        in_no_set = None if others.links is None else others.links.without_sets()
        sides: Any = {f"{kind}s": linked(new, links), f"{OTHER[kind]}s": replace(others, links=in_no_set)}
        view = copy.copy(self)
        started = replace(fitted, **sides, ranges=ranges, rule=rule, seen=Seen.of(given), ratings=None)
        solved = self._solved(started, kind, np.arange(len(ids)), csr)
        view._learned = self._with_other_choices(solved, ratings, kind)
        return view

    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        *,
        lower: Any = None,
        upper: Any = None,
        user_features: Any = None,
        item_features: Any = None,
    ) -> Self:
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
        lower, upper
            The range of each row, where ranges come with the rows.
        user_features, item_features
            Of a model that was fitted with such: those of new ones, or others of known ones, whose rows are then
            solved again, too. Who rated what after the fit is in the sets as far as both were there at fit.
        """
        given_features = {"user_features": user_features, "item_features": item_features}
        if self._learned is None:
            more = {name: given for name, given in given_features.items() if given is not None}
            return self.fit(X, y, sample_weight=sample_weight, lower=lower, upper=upper, **more)
        before = self.fitted_
        old = before.ratings
        if old is None:
            raise ValueError(
                "partial_fit needs the ratings of the fit, which neither a view from fold_in nor a file without them "
                "has: call it on the model itself, or save the model with keep_ratings=True."
            )
        new = self._read_new(X, y, sample_weight, lower, upper)
        told = {kind: self._read_features(kind, given_features[f"{kind}_features"]) for kind in ("user", "item")}
        grown = {"user": old.users.extended(new.users), "item": old.items.extended(new.items)}
        grown |= {kind: grown[kind].extended(known.ids) for kind, known in told.items() if known is not None}
        given = new.renumbered(grown["user"], grown["item"])
        first_new = {"user": old.n_users, "item": old.n_items}
        added, ranges, rule = self._settle_new(given, self._grown(given), first_new)
        ratings = old.with_new(added)
        seen = before.seen
        if seen.indices.size > old.n_ratings or given.n_ratings > added.n_ratings:
            seen = seen_together(seen, given)
        else:
            seen = Seen.of(ratings)
        own = ranges.scale.of_ratings(ratings)
        fitted = self._with_new_rows(Fitted.before_the_first_sweep(ratings, ratings, ranges), before, seen, told)
        users, items = (changed_rows(*of_side(added, kind), told[kind]) for kind in ("user", "item"))
        for kind, rows in (("user", users[users >= old.n_users]), ("item", items), ("user", users)):
            if rows.size:
                fitted = self._solved(fitted, kind, rows, of_side(own, kind)[1].take(rows))
        self._learned = self._with_more_choices(replace(fitted, rule=rule), added)
        return self

    def _with_other_choices(self, fitted: Fitted, ratings: Ratings, kind: str) -> Fitted:
        """What a side that is folded in chooses, where the model knows who chooses what."""
        return fitted

    def _with_more_choices(self, fitted: Fitted, added: Ratings) -> Fitted:
        """The same where ratings were added."""
        return fitted

    def _read_new(self, X: Any, y: Any, sample_weight: ArrayLike | None, lower: Any, upper: Any) -> Ratings:
        """Ratings in columns of the same names, if any, as those of the fit."""
        rule = self.fitted_.rule
        if rule is None and (lower is not None or upper is not None):
            raise ValueError("lower and upper are ranges of pairs, but this model has one for all: leave them out.")
        ratings = self._read_in_ranges(rule, X, y, sample_weight, lower, upper)
        check_names(self.fitted_.names, ratings.names)
        return ratings

    def _read_features(self, kind: str, given: Any, what: str | None = None) -> Features | None:
        """Features of ids that come after the fit, made as those of the fit were."""
        return features_of_new(self, kind, given, what or f"{kind}_features")

    def _magnitudes_of(self, kind: str, ids: IdIndex, past: Csr) -> Floats:
        """Magnitudes of new ids, from their ratings where the fit made magnitudes of ratings."""
        n_others = len(self.fitted_.side(OTHER[kind]).ids)
        weight = history_weight(self.history_share, self.history_count, n_others)
        given: Any = None if isinstance(self.magnitudes, str) else self.magnitudes[kind == "item"]
        return magnitudes_of_new(answers.bounded(self.fitted_), kind, ids, past, weight, given)

    def _grown(self, given: Ratings) -> Ranges:
        """The model's ranges, with magnitudes for new users and items after those it has."""
        ranges = answers.bounded(self.fitted_)
        given = ranges.scale.of_ratings(given)
        for kind in ("user", "item"):
            (ids, csr), own = of_side(given, kind), getattr(ranges, kind)
            new = np.arange(len(own), len(ids))
            if new.size:
                magnitudes = self._magnitudes_of(kind, IdIndex(ids.ids[new]), csr.take(new))
                ranges = ranges.with_magnitudes(kind, np.concatenate([own, magnitudes]))
        return ranges

    def _settle_new(
        self, ratings: Ratings, ranges: Ranges, first_new: dict[str, int]
    ) -> tuple[Ratings, Ranges, Rule | None]:
        """Deal with new ratings outside their own range; only what is new is widened."""
        how, rule = self.on_contradiction, self.fitted_.rule
        if ratings.ends is not None:
            settled, rule, outside = settle_own(ratings, rule, how)
            if outside.any() and how == "keep":
                warn(describe_contradictions(ratings, ranges, outside))
            return settled, ranges, rule
        if how == "widen":
            own = ranges.scale.of_ratings(ratings)
            for kind, first in first_new.items():
                ranges = widen_new(of_side(own, kind)[1], ranges, kind, first)
            how = "keep"
        settled, ranges, outside = settle_contradictions(ratings, ranges, how)
        check_ranges_fit(ranges, ratings.users, ratings.items, np.dtype(self.dtype))
        if outside.any() and how == "keep":
            warn(describe_contradictions(ratings, ranges, outside))
        return settled, ranges, rule

    def _with_new_rows(
        self, fitted: Fitted, before: Fitted, seen: Seen, told: Mapping[str, Features | None] = NOBODY
    ) -> Fitted:
        """New rows at their start, after those that the model has; ids, means and ratings are those of now."""
        sides: dict[str, Any] = {}
        for kind in ("user", "item"):
            old, side, magnitudes = before.side(kind), fitted.side(kind), getattr(fitted.ranges, kind)
            new = self._row_problem().start(before, kind, side, magnitudes[len(old.ids) :])
            rows: dict[str, Any] = {
                name: np.concatenate([own, getattr(new, name)])
                for name in ("factors", "biases", "spread", "steadiness")
                if (own := getattr(old, name)) is not None
            }
            links, more = old.links, told.get(kind)
            if links is not None and links.features is not None and more is not None:
                links = links.with_features(more, links.features.ids.extended(more.ids))
            sides[f"{kind}s"] = linked(replace(side, prior=old.prior, **rows), links)
        return replace(before, **sides, ranges=fitted.ranges, mean=fitted.mean, seen=seen, ratings=fitted.ratings)

    def _solved(self, fitted: Fitted, kind: str, rows: Codes, csr: Csr) -> Fitted:
        """The model with some rows of a side learnt anew, from their ratings in row order."""
        return with_solved_rows(self._row_problem(), fitted, kind, rows, csr, self.n_jobs)


# --- how rows are learnt --------------------------------------------------------------------------------------


class RowSolver(Protocol):
    """How the rows of a side are learnt from their ratings, with the other side fixed."""

    def solve(self, fitted: Fitted, kind: str, rows: Codes, csr: Csr, pool: RowPool) -> dict[str, Reals]:
        """What is learnt of some rows of a side, by name; ``csr`` has their ratings."""


class RowProblem(RowSolver, Protocol):
    """The same where rows have magnitudes."""

    def start(self, fitted: Fitted, kind: str, side: FittedSide, magnitudes: Floats) -> FittedSide:
        """A side whose rows, of these magnitudes, are where they are before they have ratings."""


def with_solved_rows(
    problem: RowSolver, fitted: Fitted, kind: str, rows: Codes, csr: Csr, n_jobs: int | None
) -> Fitted:
    """A model with some rows of a side learnt anew, from their ratings in row order."""
    with RowPool(n_jobs, csr.indices.size) as pool:
        learned = problem.solve(fitted, kind, rows, csr, pool)
    changed: dict[str, Any] = {}
    for name, values in learned.items():
        changed[name] = getattr(fitted.side(kind), name).copy()  # views and files may share what is there
        changed[name][rows] = values
    side: Any = {f"{kind}s": replace(fitted.side(kind), **changed)}
    return replace(fitted, **side)


def averaged_models(
    fitted: Fitted, kind: str, rows: Codes, csr: Csr, n_factors: int, dtype: Any
) -> Iterator[tuple[Side, Side]]:
    """Of each model that this one averages: some rows of a side with their ratings, and what they rate, fixed.

    Where what is rated has a noise of its own, ratings count by it.
    """
    other, ranges = OTHER[kind], answers.bounded(fitted)
    csr = ranges.centred(csr, getattr(ranges, kind)[rows], getattr(ranges, other), dtype)
    rated, indices = np.unique(csr.indices, return_inverse=True)
    csr = csr._replace(indices=indices.astype(np.int32))
    radius = np.sqrt(ranges.slack) * getattr(ranges, kind)[rows]
    held: dict[str, Any] = HELD if fitted.side(kind).biases is not None else {"user": None, "item": None}
    sides = unstacked(fitted, kind, rows, n_factors), unstacked(fitted, other, rated, n_factors)
    steadiness = fitted.side(other).steadiness
    for sample, (own, fixed) in enumerate(zip(*sides, strict=True)):
        weighed = csr if steadiness is None else csr.weighed(steadiness[rated, sample][indices])
        yield (
            Side(weighed, radius, own.astype(dtype, copy=False), held[kind]),
            Side(NO_RATINGS, np.empty(0), fixed.astype(dtype, copy=False), held[other]),
        )


def unstacked(fitted: Fitted, kind: str, rows: NDArray[np.integer], n_factors: int) -> list[Reals]:
    """Some rows of a side in each model that this one averages."""
    side = fitted.side(kind)
    biases = None if side.biases is None else side.biases[rows]
    return unstack(side.factors[rows], biases, HELD[OTHER[kind]], n_factors)


@dataclass(frozen=True)
class ExactRows:
    """Rows of `MBMF`: the half-step of exact alternation, in each restart."""

    constraint: Constraint
    ridge: float
    n_factors: int

    def start(self, fitted: Fitted, kind: str, side: FittedSide, magnitudes: Floats) -> FittedSide:
        """At nothing in the ball, which does not look at it.

        On the sphere a row with few ratings keeps the part of its start that they say nothing about, so it starts from
        the mean direction of the others.
        """
        known, ranges = fitted.side(kind), answers.bounded(fitted)
        unit = np.zeros(known.factors.shape[1])
        if known.biases is not None:
            unit[HELD[kind]] = np.sqrt(HELD_SHARE)
        elif self.constraint == "sphere":
            mean = (known.factors / getattr(ranges, kind)[:, None]).mean(axis=0, dtype=np.float64)
            blocks = mean.reshape(-1, self.n_factors)
            blocks[np.linalg.norm(blocks, axis=1) == 0, 0] = 1.0
            unit = (blocks / np.linalg.norm(blocks, axis=1, keepdims=True)).ravel() / np.sqrt(len(blocks))
        rows = np.sqrt(ranges.slack) * magnitudes[:, None] * unit
        biases = None
        if known.biases is not None:
            biases = np.zeros((len(rows), known.biases.shape[1]), known.biases.dtype)
        return replace(side, factors=rows.astype(known.factors.dtype), biases=biases)

    def solve(self, fitted: Fitted, kind: str, rows: Codes, csr: Csr, pool: RowPool) -> dict[str, Reals]:
        """`solve_rows`, in each restart."""
        side = fitted.side(kind)
        models = averaged_models(fitted, kind, rows, csr, self.n_factors, side.factors.dtype)
        solved = [solve_rows(own, other, pool, self.constraint, self.ridge) for own, other in models]
        if side.biases is None:
            return {"factors": stack(solved, 0)}
        return {"factors": stack(solved, 2), "biases": np.column_stack([own[:, HELD[OTHER[kind]]] for own in solved])}


@dataclass(frozen=True)
class SampledRows:
    """Rows of `BayesianMBMF`: the half-step of the sampler, in each sample."""

    n_factors: int

    def start(self, fitted: Fitted, kind: str, side: FittedSide, magnitudes: Floats) -> FittedSide:
        """Somebody unknown: what each sample's prior expects."""
        known, prior = fitted.side(kind), _prior(fitted, kind)
        unknown = Rows.of(known.factors, prior, HELD[kind])
        radius = np.sqrt(answers.bounded(fitted).slack) * magnitudes[:, None]
        one_by_one = [
            Rows.of(known.factors[:, : 2 + self.n_factors], Prior(*each), HELD[kind])
            for each in zip(*prior, strict=True)
        ]
        biases = np.array([rows.unknown[HELD[OTHER[kind]]] for rows in one_by_one])
        dtype = known.factors.dtype
        return replace(
            side,
            factors=stored(radius * unknown.unknown, dtype),
            biases=(radius * biases).astype(beside(dtype)),
            spread=(radius**2 * unknown.unknown_spread).astype(beside(dtype)),
            prior=prior,
            steadiness=None if known.steadiness is None else np.ones((len(radius), len(biases)), beside(dtype)),
        )

    def solve(self, fitted: Fitted, kind: str, rows: Codes, csr: Csr, pool: RowPool) -> dict[str, Reals]:
        """Those who have ratings by their sets, the others by what is known of them beside."""
        side = fitted.side(kind)
        links = side.links
        if links is None or not links.in_sets.size:
            return self._solve(fitted, kind, rows, csr, pool)
        own, known = counting(csr), _prior(fitted, kind)
        assert links.precisions is not None
        by_sets = replace(side, prior=Prior(known.mean, links.precisions))
        found: dict[str, Reals] = {}
        for those, as_known in ((own, by_sets), (~own, replace(side, links=links.without_sets()))):
            some, sides = np.flatnonzero(those), cast(Any, {f"{kind}s": as_known})
            solved = self._solve(replace(fitted, **sides), kind, rows[some], csr.take(some), pool) if some.size else {}
            for name, values in solved.items():
                found.setdefault(name, np.empty((len(rows), *values.shape[1:]), values.dtype))[some] = values
        return found

    def _solve(self, fitted: Fitted, kind: str, rows: Codes, csr: Csr, pool: RowPool) -> dict[str, Reals]:
        """Each sample's conditional mean, by its prior and noise.

        Where rows have a noise of their own a draw of each row comes first, whose errors tell of it; so do they tell
        how much the row's ratings count beside its prior. Draws are keyed by row, from a seed of their own: the same
        ratings give the same rows.
        """
        variances = fitted.noise_variances
        assert variances is not None
        kept = KeptSide(len(rows), self.n_factors, len(variances), HELD[kind], fitted.side(kind).factors.dtype)
        priors = (Prior(*each) for each in zip(*_prior(fitted, kind), strict=True))
        rng = np.random.default_rng(0)
        models = averaged_models(fitted, kind, rows, csr, self.n_factors, np.float64)
        shifts = self._shifts(fitted, kind, rows, csr)
        before, counts = fitted.side(kind).steadiness, _counts(csr, answers.bounded(fitted).scale)
        steadiness: list[Floats] = []
        for (side, other), prior, variance, moved in zip(models, priors, variances, shifts, strict=True):
            given = prior, 1.0 / variance, pool, rng
            if before is not None:
                by_others, now = side, before[rows][:, len(steadiness)]
                drawn = draw_rows(_weighed(by_others, now), other, *given, False, moved).rows
                own, for_answers = expected(counts, _squares(by_others, drawn, other, pool) / variance, ALIKE[kind])
                side = _weighed(by_others, own)
                steadiness.append(np.where(counts > 0, for_answers, answers.steadiness_of_strangers(fitted, kind)))
            kept.add(draw_rows(side, other, *given, True, moved))
        learned = {"factors": kept.stacked(at_the_end=True), "biases": kept.biases(), "spread": kept.spread()}
        return learned if before is None else {**learned, "steadiness": np.column_stack(steadiness)}

    def _shifts(self, fitted: Fitted, kind: str, rows: Codes, csr: Csr) -> Iterator[Floats]:
        """Where each sample's prior of these rows lies beside that of a typical one."""
        side, variances = fitted.side(kind), fitted.noise_variances
        assert variances is not None
        if side.links is None:
            return repeat(NO_SHIFTS, len(variances))
        return side.links.shifts(IdIndex(side.ids.ids[rows]), csr)


def _weighed(side: Side, rows: Reals) -> Side:
    """The same side, whose ratings count by what each row does."""
    return replace(side, csr=side.csr.weighed(rows[side.csr.row_of_entry()]))


def _counts(csr: Csr, scale: Scale) -> Floats:
    """As how many ratings those of each row count; how wide their ranges are tells of their noise, not of them."""
    return csr.row_weights() if scale.width is None else csr.sum_rows(csr.that_count().astype(np.float64))


def _squares(side: Side, rows: Reals, other: Side, pool: RowPool) -> Floats:
    """Σ c (v − w·h)² of each row."""
    from boundrec.solvers.kernels import squared_errors

    found = np.zeros(len(rows))
    pool.run(squared_errors, side.csr.indptr, side.csr, rows, other.factors, found)
    return found


def _prior(fitted: Fitted, kind: str) -> Prior:
    prior = fitted.side(kind).prior
    assert prior is not None
    return prior


# --- ratings that come after the fit --------------------------------------------------------------------------


def of_side(ratings: Ratings, kind: str) -> tuple[IdIndex, Csr]:
    """The ids of one side and the ratings in its row order."""
    return (ratings.users, ratings.by_user) if kind == "user" else (ratings.items, ratings.by_item)


def of_known(fitted: Fitted, ratings: Ratings, kind: str, on_unknown: str, told: Features | None = None) -> Ratings:
    """Ratings under the row numbers that the model has for the other side; those of ids unknown there are left out.

    Those of whom there are features and no ratings follow the others.
    """
    other = OTHER[kind]
    given, known = of_side(ratings, other)[0], fitted.side(other)
    trained = known.codes(given.ids) >= 0
    if not trained.all():
        column = ratings.by_user.indices if other == "item" else ratings.user_of_rating()
        usable = trained[column]
        sentence = (
            f"{np.count_nonzero(~usable)} of {usable.size} ratings are of {other}s without training ratings "
            f"(first: {other} {given.ids.item(column[usable.argmin()])!r})"
        )
        if on_unknown == "raise" or not usable.any():
            raise ValueError(f"{sentence}: leave them out, or add these {other}s with partial_fit or fold_in first.")
        if not usable.all():
            warn(f'{sentence} and were left out. Pass on_unknown="raise" to have them refused.')
            ratings = ratings.keep(usable)
    own = of_side(ratings, kind)[0]
    own = own if told is None else own.extended(told.ids)
    return ratings.renumbered(*((own, known.ids) if kind == "user" else (known.ids, own)))


def features_of_new(model: FactorisationModel, kind: str, given: Any, what: str) -> Features | None:
    """Features of ids that come after the fit of a model, made as those of the fit were."""
    if given is None:
        return None
    links, names = model.fitted_.side(kind).links, model.fitted_.names
    if links is None or links.features is None:
        raise ValueError(
            f"{what} are given, but this {type(model).__name__} was fitted without features of {kind}s: leave them "
            "out, or fit a BayesianMBMF, or an ImplicitMBMF, with such."
        )
    return links.encoded(given, what, None if names is None else names[kind == "item"])


def linked(side: FittedSide, links: FittedLinks | None) -> FittedSide:
    """A side with what is known of it besides ratings; whoever has features is known, too."""
    trained = side.trained if links is None else side.trained | links.told(side.ids)
    return replace(side, links=links, trained=trained)


def changed_rows(ids: IdIndex, csr: Csr, told: Features | None) -> Codes:
    """The rows with ratings or features that are new."""
    changed = np.diff(csr.indptr) > 0
    if told is not None:
        changed[ids.codes(told.ids.ids)] = True
    return np.flatnonzero(changed)


def seen_together(seen: Seen, given: Ratings) -> Seen:
    """What was seen before and what new ratings show: more than the model's ratings, where some were dropped."""
    return seen.with_pairs(given.user_of_rating(), given.by_user.indices, (given.n_users, given.n_items))
