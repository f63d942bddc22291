"""What a model *is* once it is learnt: one frozen value, which estimators, files, fold-ins and answers share.

A fit ends with one, a file stores one, `fold_in` replaces one side of it. Its arrays cannot be written to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, NamedTuple, Self, TypeVar, overload

import numpy as np

from boundrec.arrays import Bools, Codes, Floats, ReadOnly, Reals
from boundrec.data.columns import Names
from boundrec.data.ids import IdIndex
from boundrec.data.ratings import Csr, Ratings
from boundrec.models.side_information import FittedLinks
from boundrec.ranges import PredictionRanges
from boundrec.ranges.rules import Rule
from boundrec.ranges.scale import Scale
from boundrec.solvers import Sweep
from boundrec.solvers.gibbs import Prior
from boundrec.top_n import Seen

#: How many ratings the overall mean counts for in the mean of a user or an item.
PRIOR_COUNT = 5.0
NO_FACTORS: Reals = np.empty((0, 0))


@dataclass(frozen=True)
class FittedSide(ReadOnly):
    """What a model knows of its users, or of its items: a row of each array is one of them."""

    ids: IdIndex
    #: Means of their ratings, drawn towards the overall mean, on the scale that the model factorises.
    means: Floats
    #: Who has a training rating, or features.
    trained: Bools
    factors: Reals = field(default_factory=lambda: NO_FACTORS)
    #: Where factors have biases: those of each model that is averaged, a column each.
    biases: Reals | None = None
    #: Of a sampler, the variance of the bias and, on average, of the other coordinates; the priors of all samples.
    spread: Reals | None = None
    prior: Prior | None = None
    #: Where priors follow what is known of rows besides their ratings: how.
    links: FittedLinks | None = None
    #: Of clicks, where features are known: the mean row, from which features lead to rows of those without clicks.
    usual: Reals | None = None
    #: Where every row has a noise of its own: how much less noisy than others it is, in each sample.
    steadiness: Reals | None = None

    @classmethod
    def of(cls, ids: IdIndex, csr: Csr, overall: float) -> FittedSide:
        """What the ratings alone tell, before anything is learnt.

        Means are drawn towards the overall mean as if that were ``PRIOR_COUNT`` more ratings; who has only ratings of
        weight 0 was not trained.
        """
        counts, totals = csr.row_weights(), csr.sum_rows(csr.data * csr.weights if csr.weights.size else csr.data)
        return cls(ids, (totals + PRIOR_COUNT * overall) / (counts + PRIOR_COUNT), counts > 0)

    def mean_steadiness(self) -> Floats:
        """How much less noisy than others each row is, on average over the samples."""
        assert self.steadiness is not None
        return np.asarray(self.steadiness.mean(axis=1, dtype=np.float64))

    def codes(self, column: Any) -> Codes:
        """Row numbers of ids, −1 for those without a training rating."""
        codes = self.ids.codes(column)
        return np.where((codes >= 0) & self.trained[codes], codes, -1)

    def why_unknown(self, one: Any) -> str:
        """What to say of an id that has no row number."""
        if self.ids.codes([one])[0] < 0:
            return "is not known to this model"
        return "has no training ratings, since all of its ratings have weight 0, were set aside or were left out"


T = TypeVar("T")


class learned(Generic[T]):  # noqa: N801  it reads as a declaration
    """An attribute of an estimator that is read from what it has learnt, with its meaning for the documentation."""

    def __init__(self, read: Callable[[Fitted], T], meaning: str) -> None:
        self._read, self.meaning = read, meaning

    @overload
    def __get__(self, instance: None, owner: Any) -> Self: ...
    @overload
    def __get__(self, instance: Any, owner: Any) -> T: ...
    def __get__(self, instance: Any, owner: Any) -> Self | T:
        return self if instance is None else self._read(instance.fitted_)

    def __set__(self, instance: Any, value: Any) -> None:
        raise AttributeError("what a model has learnt cannot be set: fit it again, or load another.")


class Course(NamedTuple):
    """How a fit went: objective and seconds after each sweep, and errors on ratings it was not trained on."""

    objectives: list[float]
    seconds: list[float]
    eval_errors: list[float]
    best_iter: int | None = None
    n_rejected: int = 0

    def with_sweep(self, sweep: Sweep, seconds: float, best_iter: int | None) -> Course:
        """One more sweep; the lists grow."""
        self.objectives.append(sweep.objective)
        self.seconds.append(seconds)
        return self._replace(best_iter=best_iter, n_rejected=self.n_rejected + (not sweep.accepted))


class NoiseShape(NamedTuple):
    """The distribution of errors: its quantiles from 0 to 1, in standard deviations, of all and of groups of users.

    The first row of ``quantiles`` is that of all users; where there are groups, the others are of those with a
    steadiness below the first of ``edges``, up to the second, and so on.
    """

    quantiles: Floats
    edges: Floats

    def rows(self, steadiness: Floats) -> Codes:
        """The row of users with this steadiness; NaN is of nobody known."""
        if len(self.quantiles) == 1:
            return np.zeros(len(steadiness), np.int64)
        return np.where(np.isnan(steadiness), 0, 1 + np.searchsorted(self.edges, steadiness))

    def places(self, wanted: Floats) -> Floats:
        """Where these quantiles lie, a row for each of those there are."""
        grid = np.linspace(0, 1, self.quantiles.shape[1])
        return np.array([np.interp(wanted, grid, row) for row in self.quantiles])

    def deviations(self) -> Floats:
        """The standard deviation of each row, in that of all; the smallest and the largest error count for nothing."""
        squares = np.mean(self.quantiles[:, 1:-1] ** 2, axis=1)
        return np.asarray(np.sqrt(squares / squares[0])) if squares[0] > 0 else np.ones(len(squares))


@dataclass(frozen=True)
class Fitted(ReadOnly):
    """A learned model."""

    users: FittedSide
    items: FittedSide
    ranges: PredictionRanges
    mean: float
    seen: Seen
    #: Names of the columns that it was learnt from, if they had any.
    names: Names | None
    #: The training ratings; None in a view, or a model from a file without them.
    ratings: Ratings | None
    course: Course = field(default_factory=lambda: Course([], [], []))
    #: Who has which range, where pairs have their own.
    rule: Rule | None = None
    #: Columns in front of the factors that say how high somebody rates, not what.
    n_bias_columns: int = 0
    #: Of a sampler, the variance of the noise in each sample.
    noise_variances: Floats | None = None
    #: Where errors are told by their own distribution: that.
    noise_shape: NoiseShape | None = None
    #: Numbers that only some models have, by name.
    found: Mapping[str, float] = field(default_factory=dict)
    #: What a sampler predicts for its ``eval_set``.
    eval_predictions: Floats | None = None
    #: Of a model that also learnt who chooses what: that, with the same rows of users and items, and no ratings.
    choices: Fitted | None = None

    @classmethod
    def before_the_first_sweep(
        cls, ratings: Ratings, given: Ratings, ranges: PredictionRanges, rule: Rule | None = None
    ) -> Fitted:
        """What is known before anything is learnt.

        Who was ``given`` a rating of an item has seen it, even if that rating was dropped or set aside.
        """
        mean, users, items = _means(ratings, ranges.scale)
        return cls(users, items, ranges, mean, Seen.of(given), ratings.names, ratings, rule=rule)

    def with_means(self) -> Fitted:
        """The same with the means that its ratings have on its scale, of which a sampler may have moved the weights."""
        if self.ranges.scale.is_plain or self.ratings is None:
            return self
        mean, users, items = _means(self.ratings, self.ranges.scale)
        sides = replace(self.users, means=users.means), replace(self.items, means=items.means)
        return replace(self, mean=mean, users=sides[0], items=sides[1])

    def side(self, kind: str) -> FittedSide:
        """The side of that name, "user" or "item"."""
        return self.users if kind == "user" else self.items


def _means(ratings: Ratings, scale: Scale) -> tuple[float, FittedSide, FittedSide]:
    """The overall mean of what is factorised, and what is known of both sides by their means."""
    own = scale.of_ratings(ratings)
    weights = own.by_user.weights
    mean = float(np.average(own.by_user.data, weights=weights if weights.size else None))
    return mean, FittedSide.of(own.users, own.by_user, mean), FittedSide.of(own.items, own.by_item, mean)
