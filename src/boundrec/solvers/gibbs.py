"""The Gibbs sampler: draws of one side given the other, the sweeps over both, and the samples that are kept.

What is kept of a sweep is not the drawn rows but the means they were drawn around, E[w_i | H, …] and E[h_j | W, …]
(Rao and Blackwell). For a pair that was not rated the two rows are drawn independently of each other given the rest,
so the product of their means has the same expectation as that of the draws, at a fraction of the variance: few
samples then predict as well as many. The mean of a distribution within a ball lies in the ball: the bound holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.special import chdtri

from boundrec.arrays import Codes, Floats, Reals
from boundrec.solvers import Learned, Side, Sweep, in_eights
from boundrec.solvers.exact import HELD_SHARE
from boundrec.solvers.growth import NoiseGrowth
from boundrec.solvers.links import LinkDraw
from boundrec.solvers.row_noise import RowNoise
from boundrec.solvers.threads import RowPool, product

#: Strength of the priors, in observations: of the mean of rows, of the noise.
PRIOR_ROWS, PRIOR_NOISE = 2.0, 1.0
#: Rows with so few ratings, or half as many as they have coordinates, are drawn in the span of these, which is faster;
#: never those with as many as coordinates, which stand for longer rows where these come in pieces (boundrec.spark).
SHORT = 16
#: Share of draws that may lie further out than a row's mean is taken to be free of the ball.
BEYOND = 0.01
#: Rows that are rounded at a time.
ROWS_AT_A_TIME = 1 << 12
TINY = float(np.finfo(float).tiny)
#: How far a stranger's bias goes towards where ratings of all would be right on average, were all strangers: chosen on
#: ratings of users and items that were left out of training data (docs/features.md).
AS_CHOSEN = 0.5
#: Stands for rows whose prior mean is the same for all.
NO_SHIFTS: Floats = np.empty((0, 0))


class Prior(NamedTuple):
    """Normal prior of the free part of a side's rows, in units of their magnitudes."""

    mean: Floats
    precision: Floats


class Span(NamedTuple):
    """What rows with few ratings are drawn by, in as many dimensions as they have ratings; and how few that is.

    With P = L Lᵀ the precision of the prior, ``whiten`` is L⁻ᵀ, and ``others`` are the other side's rows times it, in
    whole eights.
    """

    whiten: Floats
    others: Floats
    few: int


#: No row is drawn in the span of its ratings.
NO_SPAN = Span(NO_SHIFTS, NO_SHIFTS, -1)


class Common(NamedTuple):
    """What the means of all rows of a half-step are worked out with, of which each has a share of its own.

    ``pairs`` are eight draws of N(0, I), the same times L⁻ᵀ, and eight of the noise of each rating: draws of each row's
    own would take most of a sweep's time, and its mean would be no better by them. For rows that are drawn in the span
    of their ratings also the prior's ``variances``, in coordinate 0 and, added up, in the others. Means whose distance
    from the middle is at most ``calm`` are those without a ball.
    """

    pairs: tuple[Floats, Floats, Floats]
    variances: Floats
    calm: float

    @classmethod
    def of(cls, span: Span, n_free: int, most: float, key: np.uint64) -> Common:
        """That of a half-step with ``n_free`` coordinates, in a ball of radius ``most``, by its key."""
        rng = np.random.default_rng(int(key))
        white, noise = rng.standard_normal((n_free, 8)), rng.standard_normal((max(span.few, 0), 8))
        if span.few < 0:
            return cls((white, NO_SHIFTS, noise), np.zeros(2), -1.0)
        variances = np.einsum("km,km->k", span.whiten, span.whiten)
        both = np.array([variances[:1].sum(), variances[1:].sum()])
        return cls((white, span.whiten @ white, noise), both, most - _farthest(span.whiten))


#: That of rows whose means nobody asks for.
NOTHING_COMMON = Common((NO_SHIFTS, NO_SHIFTS, NO_SHIFTS), np.zeros(2), -1.0)


def _farthest(whiten: Floats) -> float:
    """How far from its mean a draw from the prior is at most, but for about one in a hundred (Satterthwaite's χ²).

    What ratings leave of it is nearer. A mean that lies as far inside the ball as this is moved by it by no more than a
    hundredth of the prior's standard deviation, for few of those draws point outwards.
    """
    covariance = whiten @ whiten.T
    first, second = float(np.trace(covariance)), float(np.einsum("km,km->", covariance, covariance))
    return float(np.sqrt(second / first * chdtri(first**2 / second, BEYOND)))


class Draws(NamedTuple):
    """A side's rows as they were drawn, and what they were drawn from: their prior, and their means where asked for.

    Rows and means have all coordinates, the held one included; ``spread`` has the variance of the bias, and of each
    other coordinate on average. Where the prior follows what is known of rows, ``prior`` is that of a typical one.
    """

    rows: Reals
    prior: Prior
    means: Reals
    spread: Floats
    link: LinkDraw | None = None
    #: Of the prior of rows whose sets are known, which leaves less open than ``prior``.
    precision: Floats | None = None

    def best(self) -> Reals:
        """The means; a draw stands for its mean where that was not asked for."""
        return self.means if len(self.means) else self.rows


# --- one half-step ------------------------------------------------------------------------------------------


class Elsewhere(Protocol):
    """Whoever draws rows and adds up errors in the place of this process; a side's ratings are with them."""

    #: How many ratings there are, by what they count.
    counted: float

    def draw(self, key: np.uint64, side: Side, other: Side, prior: Prior, precision: float, with_means: bool) -> Draws:
        """What `draw_rows_from` gives."""

    def squared_error(self, users: Side, items: Side) -> float:
        """Σ c (v − w·h)² over all ratings."""


def sample_side(
    side: Side,
    other: Side,
    precision: float,
    pool: RowPool,
    rng: np.random.Generator,
    with_means: bool,
    elsewhere: Elsewhere | None = None,
) -> Draws:
    """Draw the prior of the rows, then every row, given the other side."""
    links = side.links
    if links is None:
        prior = prior_from(len(side.factors), *free_moments(side), rng)
        if elsewhere is not None:
            return elsewhere.draw(row_key(rng), side, other, prior, precision, with_means)
        return draw_rows(side, other, prior, precision, pool, rng, with_means, span=span_of(side, other, prior))
    rows, rated = np.delete(side.factors, held_by(side), axis=1) / side.radius[:, None], links.rated
    prior = draw_prior((rows - links.shifts(pool))[rated], rng, *links.scatter())
    links.redraw(rows[rated] - prior.mean, prior.precision, pool, rng)
    shifts, span = links.shifts(pool), span_of(side, other, prior)
    draws = draw_rows(side, other, prior, precision, pool, rng, with_means, shifts, span)
    link = links.drawn(pool)
    if links.sets and (with_means or not rated.all()):
        link = _as_chosen(link, prior, side, other)
    typical = Prior(prior.mean + link.typical.sum(axis=0), prior.precision)
    if link.spread is not None:
        wider: Floats = np.linalg.inv(np.linalg.inv(prior.precision) + link.spread).astype(np.float64)
        typical = typical._replace(precision=(wider + wider.T) / 2)
    draws = draws._replace(prior=typical, link=link, precision=prior.precision)
    return draws if rated.all() or not links.sets else _with_cold(draws, side, other, precision, pool, rng)


def free_moments(side: Side) -> tuple[Floats, Floats]:
    """Σ x and Σ x xᵀ over a side's rows, x what is not held of them, in units of their magnitudes."""
    from boundrec.solvers import sampling_kernels as kernels

    d = side.factors.shape[1] - 1
    total, lower = kernels.free_moments(side.factors, side.radius, held_by(side))
    return total[:d], np.tril(lower[:d, :d]) + np.tril(lower[:d, :d], -1).T


def _as_chosen(link: LinkDraw, prior: Prior, side: Side, other: Side) -> LinkDraw:
    """The same, with a typical row whose set is not known half-way to what ratings are.

    People rate what they like. Of somebody with ratings their set tells that, of a stranger nothing does: were all
    ratings those of strangers, they would be predicted too low on average. Where between the two a stranger is, is left
    open, too.
    """
    assert link.spread is not None
    csr = side.csr
    weights = (csr.weights if csr.weights.size else 1.0) * np.repeat(side.radius, np.diff(csr.indptr))
    met = np.bincount(csr.indices, weights, len(other.factors)) / weights.sum()
    wanted = float(csr.data @ (csr.weights if csr.weights.size else np.ones(csr.data.size))) / weights.sum()
    held, others = held_by(side), np.einsum("j,jk->k", met, other.factors)
    row = np.insert(prior.mean + link.typical.sum(axis=0), held, np.sqrt(HELD_SHARE))
    moved = AS_CHOSEN * (wanted - float(row @ others)) / others[1 - held]
    typical, spread = link.typical.copy(), link.spread.copy()
    typical[-1, 0] += moved
    spread[0, 0] += moved**2
    return link._replace(typical=typical, spread=spread)


def _with_cold(
    draws: Draws, side: Side, other: Side, precision: float, pool: RowPool, rng: np.random.Generator
) -> Draws:
    """The same with rows that nobody rated, and whose sets are not known, drawn by what their features say alone."""
    links, link = side.links, draws.link
    assert links is not None
    assert link is not None
    cold = np.flatnonzero(~links.rated)
    shifts = links.shifts_alone(link, pool)[cold]
    some = replace(side, csr=side.csr.take(cold), radius=side.radius[cold], factors=side.factors[cold])
    drawn = draw_rows(some, other, draws.prior, precision, pool, rng, len(draws.means) > 0, shifts)
    for whole, part in ((draws.rows, drawn.rows), (draws.means, drawn.means), (draws.spread, drawn.spread)):
        if len(part):
            whole[cold] = part
    return draws


def draw_rows(
    side: Side,
    other: Side,
    prior: Prior,
    precision: float,
    pool: RowPool,
    rng: np.random.Generator,
    with_means: bool,
    shifts: Floats = NO_SHIFTS,
    span: Span = NO_SPAN,
) -> Draws:
    """Draw every row of a side given its prior and the other side, which stay as they are.

    ``shifts`` is where each row's prior mean is moved to by what is known of it.
    """
    return draw_rows_from(row_key(rng), side, other, prior, precision, pool, with_means, shifts, span)


def row_key(rng: np.random.Generator) -> np.uint64:
    """What the streams of a half-step's rows start from."""
    return rng.integers(2**64, dtype=np.uint64)


def draw_rows_from(
    key: np.uint64,
    side: Side,
    other: Side,
    prior: Prior,
    precision: float,
    pool: RowPool,
    with_means: bool,
    shifts: Floats = NO_SHIFTS,
    span: Span = NO_SPAN,
    first: int = 0,
) -> Draws:
    """The same from the key of the half-step; ``first`` is the number of the first row, where a side is part of one."""
    from boundrec.solvers.sampling_kernels import ROW_STRIDE, sample_rows

    rows, P = side.factors.copy(), prior.precision
    means = np.empty_like(rows) if with_means else np.empty((0, rows.shape[1]), rows.dtype)
    out = rows, means, np.empty((len(means), 2))
    linear = (P @ prior.mean)[None, :]
    if len(shifts):
        linear = linear + product(shifts, P)
    whitened = product(linear, in_eights(span.whiten)) if span.few >= 0 else NO_SHIFTS
    ball, stride = (side.radius, float(np.sqrt(1 - HELD_SHARE))), int(ROW_STRIDE)
    common = Common.of(span, len(P), ball[1], key) if with_means else NOTHING_COMMON
    key = np.uint64((int(key) + first * stride) % 2**64)
    short = np.ascontiguousarray(in_eights(span.whiten.T)), span.others, whitened, span.few
    given = side.csr, other.factors, held_by(side), ball, (P, linear), short, common, precision, key, out
    pool.run(sample_rows, side.csr.indptr, *given, width=len(P))
    return Draws(rows, prior, *out[1:])


def span_of(side: Side, other: Side, prior: Prior) -> Span:
    """That of a half-step."""
    whiten: Floats = np.linalg.inv(np.linalg.cholesky(prior.precision)).T.astype(np.float64)
    others = product(other.factors, in_eights(np.insert(whiten, held_by(side), 0.0, axis=0)))
    return Span(whiten, others, min(len(whiten) - 1, max(SHORT, len(whiten) // 2)))


def draw_prior(rows: Floats, rng: np.random.Generator, told: Floats | float = 0.0, n_told: int = 0) -> Prior:
    """Mean and precision of the rows' prior; see `prior_from`."""
    return prior_from(len(rows), np.einsum("ni->i", rows), product(rows.T, rows), rng, told, n_told)


def prior_from(
    n: int, total: Floats, squares: Floats, rng: np.random.Generator, told: Floats | float = 0.0, n_told: int = 0
) -> Prior:
    """Mean and precision of the prior of n rows x, from their Normal-Wishart conditional (β₀ = 2, ν₀ = D, W₀ = I).

    ``total`` is Σ x and ``squares`` Σ x xᵀ; ``told`` is the scatter of whatever else has this precision, of which there
    are ``n_told``.
    """
    d, centre = len(total), total / n
    scatter = squares - n * n / (PRIOR_ROWS + n) * np.outer(centre, centre)
    P = draw_wishart(d + n + n_told, np.eye(d) + scatter + told, rng)
    root = np.linalg.cholesky((PRIOR_ROWS + n) * P)
    mean = n * centre / (PRIOR_ROWS + n) + np.linalg.solve(root.T, rng.standard_normal(d))
    return Prior(np.asarray(mean), P)


def draw_wishart(n: int, scatter: Floats, rng: np.random.Generator) -> Floats:
    """A precision with n degrees of freedom around n times the inverse of a scatter matrix (Bartlett 1933).

    With scatter = L Lᵀ it is T Tᵀ for T = L⁻ᵀ A, where A is triangular, with standard normal numbers below its diagonal
    and roots of χ² with n, n − 1, … degrees of freedom on it.
    """
    d = len(scatter)
    A = np.tril(rng.standard_normal((d, d)), -1)
    np.fill_diagonal(A, np.sqrt(rng.chisquare(n - np.arange(d))))
    T = np.linalg.solve(np.linalg.cholesky(scatter).T, A)
    return np.asarray(T @ T.T)


def _given(value: Floats | None) -> Floats:
    assert value is not None
    return value


def held_by(side: Side) -> int:
    """The coordinate that a side holds; every side of this sampler holds one."""
    assert side.held is not None
    return side.held


# --- the sampler --------------------------------------------------------------------------------------------


class NoiseDraw(NamedTuple):
    """The noise of one sample: its variance, how it grows with ranges, and a_i and b_j where rows have their own."""

    variance: float
    growth: float = 0.0
    users: Floats | None = None
    items: Floats | None = None


class Sample(NamedTuple):
    """One state of the sampler: what was drawn of both sides, and the noise."""

    users: Draws
    items: Draws
    noise: NoiseDraw


@dataclass(frozen=True)
class Sampled(Learned):
    """What a sampler has learnt: its present draws, and the sampler itself, with all that it has kept."""

    sampler: Sampler | None = None


class RatingNoise:
    """What ratings count, where their noise differs: it is drawn anew in every sweep, and with it their weights.

    Parameters
    ----------
    weights
        What each rating counts before any of it is drawn, in the order of users.
    order
        Where each rating in the order of items stands in that of users.
    widths, p
        Where noise grows with the width of a rating's range (:mod:`boundrec.solvers.growth`): the widths, and the p to
        start from.
    rows
        Where every user and item has a noise of its own (:mod:`boundrec.solvers.row_noise`).
    """

    def __init__(
        self,
        weights: Floats,
        order: Codes,
        widths: NoiseGrowth | None = None,
        p: float = 0.0,
        rows: RowNoise | None = None,
    ) -> None:
        self.widths, self.p, self.rows = widths, p, rows
        self._weights, self._weights_by_item, self._order = weights, weights[order], order
        #: Written anew in every sweep: memory that is asked for and given back in each costs as much as what is in it.
        self._squares, self._by_user, self._by_item = (np.empty(weights.size) for _ in range(3))

    def redraw(self, users: Side, items: Side, variance: float, pool: RowPool, rng: np.random.Generator) -> float:
        """Draw whatever it is that ratings differ in, given both sides, and weigh the ratings by it.

        Returns their squared errors as they then count, added up.
        """
        from boundrec.solvers.kernels import errors_by_rating

        counts, squares, totals = self._by_width(), self._squares, np.empty(len(users.factors))
        of_items = np.ones(len(items.factors)) if self.rows is None else self.rows.of_items
        given = users.csr, users.factors, items.factors, counts, of_items
        pool.run(errors_by_rating, users.csr.indptr, *given, squares, totals)
        total = 0.0 if self.rows is None else self.rows.redraw(totals, squares, counts, variance, rng)
        if self.widths is not None:  # last: with the variance integrated out, which nothing may use before it is drawn
            weighed = squares
            if self.rows is not None:
                weighed = self._by_user
                self.rows.weigh(squares, weighed)
            self.p = self.widths.draw(self.p, weighed, rng)
        self.weigh(users, items)
        return total if self.widths is None else float(np.einsum("p,p->", users.csr.weights, squares))

    def weigh(self, users: Side, items: Side) -> None:
        """Weigh the ratings of both sides by what was drawn."""
        by_user = self._by_width()
        by_item = self._weights_by_item if self.widths is None else by_user[self._order]
        if self.rows is not None:
            self.rows.weigh(by_user, self._by_user)
            self.rows.weigh_by_item(by_item, self._by_item)
            by_user, by_item = self._by_user, self._by_item
        users.csr = users.csr._replace(weights=by_user)
        items.csr = items.csr._replace(weights=by_item)

    def go_on(self, draw: NoiseDraw) -> None:
        """Start from what was drawn before."""
        self.p = draw.growth
        if self.rows is not None and draw.users is not None and draw.items is not None:
            self.rows.of_users, self.rows.of_items = draw.users, draw.items

    def drawn(self, variance: float) -> NoiseDraw:
        """What was drawn last, beside the overall variance."""
        rows = () if self.rows is None else (self.rows.of_users, self.rows.of_items)
        return NoiseDraw(variance, self.p, *rows)

    def _by_width(self) -> Floats:
        return self._weights if self.widths is None else self.widths.weights(self.p)


class Sampler:
    """Draws users, items, noise and priors in turn, each from its exact conditional.

    Parameters
    ----------
    users, items
        Both sides at their start.
    variance, guess
        Of the noise: at the start, and as the prior has it.
    kept
        Which sweeps are kept, and room for them.
    means_from
        The sweep from which means are asked for in every sweep, for ratings to evaluate on; None without such.
    noise
        What differs between ratings in their noise, where that is drawn, too.
    elsewhere
        Who draws rows, where that is not this process.
    """

    def __init__(
        self,
        users: Side,
        items: Side,
        variance: float,
        guess: float,
        kept: Kept,
        means_from: int | None,
        pool: RowPool,
        rng: np.random.Generator,
        noise: RatingNoise | None = None,
        elsewhere: Elsewhere | None = None,
    ) -> None:
        self.users, self.items, self.variance, self.kept, self.noise = users, items, variance, kept, noise
        self._elsewhere = elsewhere
        self._guess, self._means_from, self._pool, self.rng = guess, means_from, pool, rng
        self.n_swept = 0
        #: How many ratings there are, before noise of their own weighs them.
        self._counted = float(users.csr.row_weights().sum()) if elsewhere is None else elsewhere.counted

    def sweeps(self) -> Iterator[Sweep]:
        """The squared error of each sample on the training ratings; it levels off, and then fluctuates."""
        from boundrec.solvers.kernels import squared_errors

        users, items, pool, rng = self.users, self.items, self._pool, self.rng
        errors = np.empty(len(users.factors))
        prior = PRIOR_NOISE * self._guess
        while True:
            sweep = self.n_swept + 1
            with_means = sweep in self.kept.sweeps or (self._means_from is not None and sweep >= self._means_from)
            of_items = sample_side(items, users, 1.0 / self.variance, pool, rng, with_means, self._elsewhere)
            items.factors = of_items.rows
            of_users = sample_side(users, items, 1.0 / self.variance, pool, rng, with_means, self._elsewhere)
            users.factors = of_users.rows
            if self.noise is not None:
                total = self.noise.redraw(users, items, self.variance, pool, rng)
            elif self._elsewhere is not None:
                total = self._elsewhere.squared_error(users, items)
            else:
                pool.run(squared_errors, users.csr.indptr, users.csr, users.factors, items.factors, errors)
                total = float(errors.sum())
            self.variance = max((total + prior) / (2.0 * float(rng.gamma((self._counted + PRIOR_NOISE) / 2))), TINY)
            self.n_swept = sweep
            noise = NoiseDraw(self.variance) if self.noise is None else self.noise.drawn(self.variance)
            self.kept.see(sweep, Sample(of_users, of_items, noise))
            yield Sweep(total)

    def result(self) -> Sampled:
        """The present draws, and the samples kept so far."""
        return Sampled(self.users.factors, self.items.factors, sampler=self)


# --- what is kept ---------------------------------------------------------------------------------------------


def beside(dtype: Any) -> np.dtype[Any]:
    """The type of all that is stored of samples beside factors, and of these while they are added: no narrower one."""
    return np.promote_types(dtype, np.float32)


def stored(rows: Reals, dtype: Any) -> Reals:
    """Rows in the type that a model stores: to float16 they are rounded towards 0, so that none leaves its ball.

    A row of float32 that is rounded to the nearest grows by less than is looked at anywhere.
    """
    if dtype != np.float16:
        return rows.astype(dtype, copy=False)
    found = np.empty(rows.shape, np.float16)
    for first in range(0, len(rows), ROWS_AT_A_TIME):
        some, most = rows[first : first + ROWS_AT_A_TIME], float(np.finfo(np.float16).max)
        near = np.clip(some, -most, most).astype(np.float16)
        np.nextafter(near, np.float16(0), out=near, where=np.abs(near) > np.abs(some))
        found[first : first + ROWS_AT_A_TIME] = near
    return found


class KeptSide:
    """The kept samples of one side: their factors beside each other, their biases, their spread and their priors."""

    def __init__(self, n_rows: int, n_factors: int, n_kept: int, held: int, dtype: Any) -> None:
        self._dtype = np.dtype(dtype)
        self._factors = np.zeros((n_rows, 2 + n_factors * n_kept), beside(dtype))
        self._biases = np.zeros((n_rows, n_kept), beside(dtype))
        self._spread = np.zeros((n_rows, 2))
        self._priors: list[Prior] = []
        self.links: list[LinkDraw] = []
        self.precisions: list[Floats] = []
        self._n_factors, self._held, self._bias = n_factors, held, 1 - held

    def add(self, draws: Draws) -> None:
        """One more sample."""
        rows, k = draws.best(), len(self._priors)
        first = 2 + self._n_factors * k
        self._factors[:, first : first + self._n_factors] = rows[:, 2:]
        if k == 0:  # what is held is the same in every sample
            self._factors[:, self._held] = rows[:, self._held]
        self._biases[:, k] = rows[:, self._bias]
        if len(draws.spread):
            self._spread += draws.spread
        self._priors.append(draws.prior)
        if draws.link is not None:
            self.links.append(draws.link.of_type(beside(self._dtype)))
            self.precisions.append(_given(draws.precision))

    def alone(self, draws: Draws) -> KeptSide:
        """One sample by itself."""
        side = KeptSide(len(draws.rows), self._n_factors, 1, self._held, self._dtype)
        side.add(draws)
        return side

    def take_over(self, stacked: Any, biases: Any, spread: Any, prior: Prior) -> None:
        """The samples of an earlier model, as they were stacked there."""
        n = biases.shape[1]
        self._factors[:, : stacked.shape[1]] = stacked
        self._factors[:, 2 : stacked.shape[1]] *= np.sqrt(n)
        self._biases[:, :n] = biases
        self._spread += n * spread
        self._priors += [Prior(mean, P) for mean, P in zip(*prior, strict=True)]

    def state(self) -> dict[str, Reals]:
        """All that was added, as arrays, to go on from elsewhere; samples with links are not for that."""
        n = len(self._priors)
        factors, biases = self._factors[:, : 2 + self._n_factors * n], self.biases()
        return {"factors": factors, "biases": biases, "spread": self._spread, **self.priors()._asdict()}

    def put_back(self, state: Mapping[str, Reals]) -> None:
        """Be where the one was whose `state` this is."""
        n = state["biases"].shape[1]
        self._factors[:, : state["factors"].shape[1]] = state["factors"]
        self._biases[:, :n] = state["biases"]
        self._spread = state["spread"].astype(np.float64)
        self._priors = [Prior(mean, P) for mean, P in zip(state["mean"], state["precision"], strict=True)]

    def biases(self) -> Reals:
        """The bias of each row in each sample."""
        return self._biases[:, : len(self._priors)]

    def spread(self) -> Reals:
        """Variance of the bias and of another coordinate of each row, averaged over the samples."""
        return (self._spread / len(self._priors)).astype(beside(self._dtype))

    def priors(self) -> Prior:
        """The priors of all samples, along a first axis."""
        return Prior(np.array([p.mean for p in self._priors]), np.array([p.precision for p in self._priors]))

    def stacked(self, at_the_end: bool) -> Reals:
        """The rows of the mean model: its mean bias, its held coordinate, and u¹/√S, …, u^S/√S.

        At the end they are made in place, and nothing can be added any more.
        """
        factors = self._factors[:, : 2 + self._n_factors * len(self._priors)]
        factors = factors if at_the_end else factors.copy()
        factors[:, 2:] /= np.sqrt(len(self._priors))
        factors[:, self._bias] = self.biases().mean(axis=1, dtype=np.float64)
        found = stored(factors, self._dtype)
        if at_the_end:
            self._factors = found  # wider ones are given back before those of the other side are rounded
        return found


class Kept:
    """Which sweeps are kept, what was kept of them, and the last sample, which stands for all where none is kept."""

    def __init__(self, sweeps: set[int], users: KeptSide, items: KeptSide) -> None:
        self.sweeps = sweeps
        self.users, self.items = users, items
        self.noise: list[NoiseDraw] = []
        self.last: Sample | None = None

    def see(self, sweep: int, sample: Sample) -> None:
        """Take in the sample of a sweep, and keep it if that was planned."""
        self.last = sample
        if sweep in self.sweeps:
            self.users.add(sample.users)
            self.items.add(sample.items)
            self.noise.append(sample.noise)

    def or_last(self) -> Kept:
        """What was kept or, within the burn-in, the last sample alone."""
        if self.noise:
            return self
        assert self.last is not None
        alone = Kept(set(), self.users.alone(self.last.users), self.items.alone(self.last.items))
        alone.noise = [self.last.noise]
        return alone


class Rows(NamedTuple):
    """Factors of one side, stacked or of one sample, with those of somebody unknown: the priors' own.

    ``unknown`` and ``unknown_spread`` (variance of the bias, and of another coordinate) are in units of the magnitude.
    """

    factors: Reals
    unknown: Floats
    unknown_spread: Floats

    @classmethod
    def of(cls, factors: Reals, prior: Prior, held: int) -> Rows:
        """From factors and the prior, or the priors of all their samples."""
        means = np.atleast_2d(prior.mean)
        norms = np.maximum(np.linalg.norm(means, axis=1), np.finfo(float).tiny)
        means = means * np.minimum(1.0, np.sqrt(1 - HELD_SHARE) / norms)[:, None]
        row = np.empty(factors.shape[1])
        row[held], row[1 - held] = np.sqrt(HELD_SHARE), means[:, 0].mean()
        row[2:] = (means[:, 1:] / np.sqrt(len(means))).ravel()
        variances = np.diagonal(np.linalg.inv(prior.precision), axis1=-2, axis2=-1)
        return cls(factors, row, np.array([variances[..., 0].mean(), variances[..., 1:].mean()]))

    def take(self, codes: Codes, unknown_magnitude: float) -> Floats:
        """The rows of these numbers, where −1 is somebody unknown."""
        rows = self.factors[codes].astype(np.float64)
        rows[codes < 0] = unknown_magnitude * self.unknown
        return rows
