"""Why a prediction is what it is: what a person's own ratings and features add to what anybody would get.

A row's conditional mean is linear in its ratings and in where its prior lies. With x₀ what is expected of somebody
typical, φ_k the item that was rated v_k, r the row's radius and Λ = α r² Σ c φφᵀ + P

    x = x₀ + Λ⁻¹ ( Σ_k α r c_k (v_k − r φ_k·x₀) φ_k  +  P Bᵀ(f − f̄) )

so that every rating has a part in r φ_j·x, by how far it is from what somebody typical would have given, and so has
every feature. Both are means over the kept samples. What is left is the remainder: the ball, which the formula leaves
out, and that the samples drew users and items in turn, each given a draw of the others, of which they kept the mean.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from boundrec.arrays import Codes, Floats
from boundrec.data.ratings import Csr, Pairs
from boundrec.models import answers
from boundrec.models.fitted import Fitted
from boundrec.models.new_ratings import averaged_models, unstacked
from boundrec.models.side_information import FittedLinks, places_in_sets
from boundrec.solvers.exact import HELD_BY_USERS

#: Parts that cancel are told by the slope where they start: over so long a way, in units of what is factorised.
LEAST_WAY = 1e-6


class RatingPart(NamedTuple):
    """What one of the person's ratings adds: by its value, and by the choice to rate that item at all."""

    item: Any
    rating: float
    by_value: float
    by_choice: float

    @property
    def total(self) -> float:
        """Both."""
        return self.by_value + self.by_choice


class FeaturePart(NamedTuple):
    """What one of the person's features adds.

    The value is as it was given, NaN where a number was missing; that of a category such as "gender=F" is 1 or 0.
    """

    name: str
    value: float
    total: float


@dataclass(frozen=True)
class Explanation:
    """A prediction in parts that add up to it, in units of ratings.

    Parameters
    ----------
    prediction
        What `predict` answers.
    usual
        What somebody typical would get for this item.
    ratings, features
        What the person's own ratings and features add to that, the largest first.
    remainder
        What the parts do not tell: the ball that rows stay in, and that the model averages samples.
    """

    prediction: float
    usual: float
    ratings: list[RatingPart]
    features: list[FeaturePart]
    remainder: float


def explained(fitted: Fitted, pair: Pairs, n_factors: int) -> Explanation:
    """Why the user of a pair gets what is predicted for its item, by a model that has its ratings."""
    assert fitted.ratings is not None
    given, person = fitted.ratings.by_user.take(pair.users), Person.of(fitted, pair.users)
    samples = [_parts(one) for one in _conditionals(fitted, pair, person, n_factors)]
    parts = Parts(*(np.mean(part, axis=0) for part in zip(*samples, strict=True)))
    usual, told = _as_ratings(fitted, pair, np.array([parts.usual, parts.usual + parts.total()]))
    by_value, by_choice, by_feature = (_slope(fitted, pair, parts) * part for part in parts[1:])
    ids = fitted.items.ids.ids[given.indices].tolist()
    of_ratings = zip(ids, given.data.tolist(), by_value.tolist(), by_choice.tolist(), strict=True)
    of_features = zip(person.names, person.features.tolist(), by_feature.tolist(), strict=True)
    prediction = float(answers.predictions(fitted, pair)[0])
    return Explanation(
        prediction,
        usual,
        sorted((RatingPart(*one) for one in of_ratings), key=lambda part: -abs(part.total)),
        sorted((FeaturePart(*one) for one in of_features), key=lambda part: -abs(part.total)),
        prediction - told,
    )


# --- one sample -----------------------------------------------------------------------------------------------


class Parts(NamedTuple):
    """The parts of an inner product: of somebody typical, by ratings, by the choice of these, and by features."""

    usual: Any
    by_value: Floats
    by_choice: Floats
    by_feature: Floats

    def total(self) -> float:
        """What they add to the usual."""
        return float(self.by_value.sum() + self.by_choice.sum() + self.by_feature.sum())


class Conditional(NamedTuple):
    """All that the mean of a row depends on, in one of the kept samples.

    Items are φ, without the coordinate that the row holds; ``held`` is what this coordinate adds to the item that is
    predicted. ``shifts`` has a row for each rated item, then one for each feature.
    """

    ratings: Floats
    precisions: Floats
    rated: Floats
    radius: float
    item: Floats
    held: float
    mean: Floats
    precision: Floats
    shifts: Floats


def _parts(one: Conditional) -> Parts:
    surprise = one.ratings - one.radius * one.rated @ one.mean
    curvature = one.radius**2 * (one.rated.T * one.precisions) @ one.rated + one.precision
    towards = np.linalg.solve(curvature, one.radius * one.item)
    by_value = one.radius * one.precisions * surprise * (one.rated @ towards)
    by_choice, by_feature = np.split(one.shifts @ one.precision @ towards, [len(by_value)])
    return Parts(one.held + one.radius * one.item @ one.mean, by_value, by_choice, by_feature)


def _conditionals(fitted: Fitted, pair: Pairs, person: Person, n_factors: int) -> Iterator[Conditional]:
    prior, variances = fitted.users.prior, fitted.noise_variances
    assert prior is not None
    assert variances is not None
    precisions = prior.precision if person.precisions is None else person.precisions
    models = averaged_models(fitted, "user", pair.users, person.csr, n_factors, np.float64)
    items, steadiness = unstacked(fitted, "item", pair.items, n_factors), fitted.users.steadiness
    for sample, (own, rated) in enumerate(models):
        there, item = own.factors[0, HELD_BY_USERS], items[sample][0].astype(np.float64)
        held_by_items = rated.factors[own.csr.indices, HELD_BY_USERS]
        counts = own.csr.weights if own.csr.weights.size else np.ones(own.csr.data.size)
        if steadiness is not None:
            counts = counts * float(steadiness[pair.users[0], sample])
        yield Conditional(
            own.csr.data - there * held_by_items,
            counts / variances[sample],
            np.delete(rated.factors[own.csr.indices], HELD_BY_USERS, axis=1),
            float(own.radius[0]),
            np.delete(item, HELD_BY_USERS),
            float(there * item[HELD_BY_USERS]),
            prior.mean[sample],
            precisions[sample],
            person.shifts(sample, prior.mean.shape[1]),
        )


@dataclass(frozen=True)
class Person:
    """What is known of one user: ratings as they are factorised, where these stand among those in sets, and features.

    ``features`` are as they were given, and ``above_usual`` is how far each is from its mean, as it is encoded;
    ``precisions`` is None where the model's prior holds.
    """

    csr: Csr
    in_sets: Codes
    names: list[str]
    features: Floats
    above_usual: Floats
    links: FittedLinks | None
    precisions: Floats | None

    @classmethod
    def of(cls, fitted: Fitted, user: Any) -> Person:
        """One whom a model knows, by number."""
        assert fitted.ratings is not None
        by_user, links = fitted.ranges.scale.of_ratings(fitted.ratings).by_user, fitted.users.links
        csr = by_user.take(user)
        nothing: tuple[Codes, list[str], Floats, Floats]
        nothing = np.full(csr.indices.size, -1), [], np.empty(0), np.empty(0)
        if links is None:
            return cls(csr, *nothing, None, None)
        names, values, above = nothing[1:]
        if links.features is not None and links.told(fitted.users.ids)[user[0]]:
            known = links.features.rows_for(fitted.users.ids)[0]
            own, names = known[user].toarray()[0], links.features.names
            values, above = links.features.encoding.as_given(own), own - links.usual_features(known, by_user)
        if not links.in_sets.size:
            return cls(csr, nothing[0], names, values, above, links, None)
        if csr.that_count().any():
            in_sets = places_in_sets(csr, links.in_sets)
            return cls(csr, in_sets, names, values, above, links, links.precisions)
        return cls(csr, nothing[0], names, values, above, links.without_sets(), None)

    def shifts(self, sample: int, width: int) -> Floats:
        """Where the prior of this row moves by each rated item and each feature, beside that of a typical row.

        What sets do on average is taken off in equal parts: an item counts by how much more it tells than others.
        """
        n, links = len(self.in_sets), self.links
        found = np.zeros((n + len(self.above_usual), width))
        if links is None:
            return found
        B, there, counts = links.matrices[sample].astype(np.float64), self.in_sets >= 0, self.csr.that_count()
        if links.in_sets.size:
            found[:n][there] = B[links.n_features :][self.in_sets[there]] / np.sqrt(max(there.sum(), 1))
            found[:n][counts] -= links.typical[sample][-1] / counts.sum()
        found[n:] = self.above_usual[:, None] * B[: len(self.above_usual)]
        return found


# --- in units of ratings ----------------------------------------------------------------------------------------


def _as_ratings(fitted: Fitted, pair: Pairs, inner: Floats) -> list[float]:
    values = fitted.ranges.to_value(inner[None, :], pair)
    return [float(one) for one in fitted.ranges.scale.to_rating(values, pair)[0]]


def _slope(fitted: Fitted, pair: Pairs, parts: Parts) -> float:
    """How far the rating moves where the inner product moves by one, on the whole way from the usual to all parts."""
    way = parts.total()
    step = way if abs(way) > LEAST_WAY else LEAST_WAY
    start, end = _as_ratings(fitted, pair, np.array([parts.usual, parts.usual + step]))
    return (end - start) / step
