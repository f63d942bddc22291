"""Lists from ratings and choices together: who would choose an item, and how they would rate it.

    score    s_ij = affinity_ij + β·share_ij
    share    the predicted rating beside the mean of all, in units of four standard deviations, from −1 to 1

What people rate at all says more about what they will choose next than how they rate it, so a list by predicted rating
alone is a poor one. A rating model that is asked for it (``affinity=True``) fits an `ImplicitMBMF` on its own training
pairs, too, of which what somebody liked counts for more than what they merely saw. Affinities lie in [−1, 1] and so do
shares: a score lies in [−(1 + β), 1 + β], whatever the data are.

Ratings are measured on the scale that the model factorises: their logarithms behind a link, shares of each pair's own
range where pairs have such.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, ClassVar, cast

import numpy as np

from boundrec.arrays import Bools, Floats
from boundrec.data.ratings import SMALLEST, Pairs, Ratings
from boundrec.models import answers
from boundrec.models.estimator import Asked, By, tell_left_out
from boundrec.models.fit import Outcome
from boundrec.models.fitted import Fitted
from boundrec.models.implicit import ImplicitMBMF, with_more_clicks, with_other_rows
from boundrec.models.new_ratings import TakesNewRatings
from boundrec.models.settings import Precision, check_flag, not_negative, setting
from boundrec.ranges.scale import Scale
from boundrec.ranges.unit import UnitRange
from boundrec.top_n import Lists, reordered, top_n

#: How wide a scale is, in standard deviations of its ratings: stars have 3.6 of them, and jokes in [−10, 10] 3.9.
WIDTH = 4.0
#: How fast the confidence of a choice rises with its rating, in standard deviations, and the most of these.
STEEPNESS, FARTHEST = 0.5, 3.0
#: Items of the highest affinity, or predictions, that are scored at first.
CANDIDATES = 200

Search = Callable[[Asked], Iterator[Lists]]


class KnowsChoices(TakesNewRatings):
    """A model of ratings that may also learn who chooses what."""

    affinity: bool = setting(
        default=False,
        rule=check_flag,
        meaning="Whether ``fit`` also learns who chooses what, by an `ImplicitMBMF` on the same training pairs, for "
        "lists that are sorted by both (``recommend``, ``affinity_``). Predictions are the same either way.",
    )
    rating_weight: float = setting(
        default=0.1,
        rule=not_negative(),
        meaning="With ``affinity``: how much the predicted rating counts in lists, beside the affinity; 0 for the "
        "affinity alone.",
    )

    STORED: ClassVar[dict[str, str]] = {
        **TakesNewRatings.STORED,
        "rating_centre": "optional number",
        "rating_spread": "optional positive",
    }

    # --- learning who chooses what --------------------------------------------------------------------------------

    def _complete(self, fitted: Fitted, outcomes: list[Outcome]) -> Fitted:
        fitted = super()._complete(fitted, outcomes)
        if not self.affinity:
            return fitted
        assert fitted.ratings is not None
        measured = replace(fitted, found={**fitted.found, **centre_and_spread(fitted.ratings, fitted.ranges.scale)})
        learner = ImplicitMBMF(random_state=self.random_state, n_jobs=self.n_jobs, verbose=self.verbose)
        return with_choices(measured, learner.fit(as_choices(fitted.ratings, measured)).fitted_)

    def _with_other_choices(self, fitted: Fitted, ratings: Ratings, kind: str) -> Fitted:
        if fitted.choices is None:
            return fitted
        return with_choices(fitted, with_other_rows(fitted.choices, as_choices(ratings, fitted), kind, self.n_jobs))

    def _with_more_choices(self, fitted: Fitted, added: Ratings) -> Fitted:
        if fitted.choices is None:
            return fitted
        assert fitted.ratings is not None
        all_of_them, new = as_choices(fitted.ratings, fitted), as_choices(added, fitted)
        return with_choices(fitted, with_more_clicks(fitted.choices, all_of_them, new, self.n_jobs))

    @property
    def affinity_(self) -> ImplicitMBMF:
        """The model of who chooses what: its ``predict`` gives affinities, its ``explain`` what they come from."""
        fitted = self.fitted_
        if fitted.choices is None:
            raise AttributeError(f"this {type(self).__name__} was fitted with affinity=False: it has no affinities.")
        choices = fitted.choices
        if fitted.ratings is not None:
            choices = replace(choices, ratings=as_choices(fitted.ratings, fitted))
        model = model_of(choices).set_params(
            random_state=self.random_state, n_jobs=self.n_jobs, verbose=self.verbose, on_unknown=self.on_unknown
        )
        model._learned = choices
        return model

    # --- lists ------------------------------------------------------------------------------------------------------

    def _sorted_by(self, by: By) -> By:
        by = super()._sorted_by(by)
        if by == "blend":
            not_negative()("rating_weight", self.rating_weight)  # it may have been set after the fit
        return by

    def _lists(self, asked: Asked) -> Iterator[Lists]:
        if asked.by == "lower":
            return self._searched(asked, CANDIDATES, self._by_prediction, nothing_higher)
        if asked.by == "blend":
            return self._searched(asked, CANDIDATES, self._by_affinity, self._is_full)
        return self._by_prediction(asked)

    def _searched(
        self, asked: Asked, n_candidates: int, search: Search, settled: Callable[[Asked, Lists, Lists], Bools]
    ) -> Iterator[Lists]:
        """The best of some candidates by the score that is asked for; of twice as many where these do not settle it."""
        n_candidates, start = min(max(n_candidates, asked.n), len(self.fitted_.items.ids)), 0
        for candidates in search(asked.of(slice(None), n_candidates)):
            these = asked.of(slice(start, start + len(candidates.items)), asked.n)
            start += len(candidates.items)
            found = reordered(candidates, self._scores_of(these, candidates), asked.n)
            left = np.flatnonzero(~settled(these, candidates, found) & (candidates.items[:, -1] >= 0))
            if left.size and n_candidates < len(self.fitted_.items.ids):
                blocks = self._searched(these.of(left, asked.n), 2 * n_candidates, search, settled)
                for parts, of_found in zip(zip(*blocks, strict=True), found, strict=True):
                    of_found[left] = np.concatenate(parts)
            yield found

    def _by_affinity(self, asked: Asked) -> Iterator[Lists]:
        """The items with the highest affinities."""
        assert self.fitted_.choices is not None
        ranking = answers.ranking(self.fitted_.choices, True)
        return top_n(ranking, asked.users, asked.n, asked.items, asked.seen, self.n_jobs)

    def _is_full(self, asked: Asked, candidates: Lists, found: Lists) -> Bools:
        """Whether lists are as long as they can be: nobody has one who is to be left without an answer."""
        users = self.fitted_.users
        nobody = (asked.users < 0) | ~users.trained[asked.users]
        return np.asarray((found.items[:, -1] >= 0) | (nobody & (self.on_unknown == "nan")))

    def _scores_of(self, asked: Asked, lists: Lists) -> Floats:
        """The scores that are asked for, of everything in some lists; NaN where there is nothing."""
        fitted, scores = self._asked_of(asked), np.full(lists.items.shape, np.nan)
        user_ids, pairs = self._listed_pairs(asked, slice(None), lists)
        if pairs.ends is not None and (without := np.isnan(pairs.ends.lower)).any():
            first = int(without.argmax())
            tell_left_out(user_ids.item(first), fitted.items.ids.ids.item(pairs.items[first]))
        found = answers.lower_bounds(fitted, pairs) if asked.by == "lower" else self._blended(fitted, pairs)
        if self.on_unknown == "nan":
            found[pairs.unknown()] = np.nan
        scores[lists.items >= 0] = found
        return scores

    def _blended(self, fitted: Fitted, pairs: Pairs) -> Floats:
        """s_ij of each pair."""
        return affinities(fitted, pairs) + self.rating_weight * shares(fitted, pairs)

    def _with_parts(self, columns: dict[str, Any], asked: Asked, pairs: Pairs) -> dict[str, Any]:
        if asked.by == "rating":
            return columns
        fitted, names = self._asked_of(asked), list(columns)
        after = names.index("score") + 1
        known = {**columns, "rating": answers.predictions(fitted, pairs)}
        names.insert(after, "rating")
        if asked.by == "blend":
            known["affinity"] = affinities(fitted, pairs)
            names.append("affinity")
        return {name: known[name] for name in names}


# --- ratings as choices ---------------------------------------------------------------------------------------------


def centre_and_spread(ratings: Ratings, scale: Scale) -> dict[str, float]:
    """Mean and standard deviation of the ratings that count, on a model's scale; 1 where they are all the same."""
    values = scale.of_values(ratings.by_user.data, ratings.pairs())[ratings.by_user.that_count()]
    centre = float(values.mean())
    apart = np.abs(values - centre)
    unit = float(apart.max()) or 1.0
    spread = unit * float(np.sqrt(np.mean((apart / unit) ** 2)))
    return {"rating_centre": centre, "rating_spread": spread if spread > SMALLEST else 1.0}


def as_choices(ratings: Ratings, fitted: Fitted) -> Ratings:
    """The same pairs as choices, the surer the higher they are rated: 2/(1 + exp(−z/2)), z in standard deviations.

    A rating at the mean counts once, and none more than 1.64 or less than 0.36 times; times its own weight.
    """
    values = fitted.ranges.scale.of_values(ratings.by_user.data, ratings.pairs())
    z = np.clip(in_deviations(values, fitted), -FARTHEST, FARTHEST)
    weights = 2.0 / (1.0 + np.exp(-STEEPNESS * z))
    if ratings.by_user.weights.size:
        weights *= ratings.by_user.weights
    return replace(ratings, ends=None).with_values(np.ones(ratings.n_ratings), weights)


def in_deviations(values: Floats, fitted: Fitted) -> Floats:
    """How far numbers on the model's scale lie from the mean of its ratings, in standard deviations of these."""
    return np.asarray((values - fitted.found["rating_centre"]) / fitted.found["rating_spread"])


def with_choices(fitted: Fitted, choices: Fitted) -> Fitted:
    """A model that knows who chooses what; it has the ratings, and who has seen what."""
    return replace(fitted, choices=replace(choices, ratings=None, seen=fitted.seen, names=fitted.names))


def model_of(choices: Fitted) -> ImplicitMBMF:
    """A model with the settings of one that has learnt this."""
    factors, ranges = choices.items.factors, choices.ranges
    assert isinstance(ranges, UnitRange)
    return ImplicitMBMF(n_factors=factors.shape[1], slack=ranges.slack, dtype=cast(Precision, factors.dtype.name))


# --- scores ---------------------------------------------------------------------------------------------------------


def affinities(fitted: Fitted, pairs: Pairs) -> Floats:
    """The affinity of each pair, from −1 to 1; to somebody who chose nothing, the share of those who chose the item."""
    choices = fitted.choices
    assert choices is not None
    users = np.where(choices.users.trained[pairs.users], pairs.users, -1)
    return answers.predictions(choices, Pairs(users, pairs.items))


def shares(fitted: Fitted, pairs: Pairs) -> Floats:
    """How high the predicted rating of each pair is beside the mean, as a part of `WIDTH` deviations, from −1 to 1."""
    values = fitted.ranges.scale.of_values(answers.predictions(fitted, pairs), pairs)
    return np.clip(in_deviations(values, fitted) / WIDTH, -1.0, 1.0)


def nothing_higher(asked: Asked, candidates: Lists, found: Lists) -> Bools:
    """Whether what is no candidate is rated too low to enter: by its prediction, which no lower bound passes."""
    return np.asarray(found.scores[:, -1] > candidates.scores[:, -1])
