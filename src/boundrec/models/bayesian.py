"""Bayesian MBMF: the mean over all models that the ratings leave possible, each of them inside its bounds.

    v_ij ~ N(w_i·h_j, 1/α)      w_i / r_i ~ N(m, P⁻¹) within the unit ball, items alike      (m, P) ~ Normal-Wishart

Gibbs sampling draws users, items, noise and priors in turn, each from its exact conditional; a row's conditional is the
normal with precision α r² A + P, truncated to the ball. It has the same normal equations as exact alternation, with
another ending: no ridge to tune, and a standard deviation for every prediction.

The mean of S samples with the same centre, magnitudes and held coordinates is itself such a model, with K·S + 2
factors: w = (b̄, γr, u¹/√S, …, u^S/√S). Its norm is at most r again (Jensen), so its range is the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any, ClassVar, Literal, NamedTuple, Self, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr

from boundrec.columns import read_numbers, short
from boundrec.models.base import Callback, Codes, Floats, Side
from boundrec.models.bounded import BoundedModel
from boundrec.models.exact import HELD_BY_ITEMS, HELD_BY_USERS, HELD_SHARE, start_with_biases
from boundrec.models.gibbs import PRIOR_NOISE, Kept, KeptSide, Prior, Rows, Sample, held_by, sample_side
from boundrec.models.new_draws import draw_from_priors, start_from_priors
from boundrec.models.predicting import BLOCK, Unknown, dot_rows
from boundrec.models.settings import (
    Auto,
    BoundsSetting,
    FloatType,
    Seed,
    check_count,
    check_flag,
    is_auto,
    is_number,
    is_whole,
)
from boundrec.models.slack import STEEPEST
from boundrec.models.stopping import StoppingRule, Sweep
from boundrec.parallel import RowPool
from boundrec.ranges import Contradiction, Form, Magnitudes
from boundrec.ratings import Csr, Duplicates, Ratings

#: The least standard deviation of ratings that the guess of their noise starts from, in half-widths of their ranges.
LEAST_NOISE = 1e-3
#: The least variance with a precision that is finite.
TINY = float(np.finfo(float).tiny)


def slack_for(n_factors: int) -> float:
    """How far the fit may pass the range: every coordinate's posterior spread takes up some of the ball."""
    return float(np.clip(1.5 + n_factors / 20.0, 2.0, 4.0))


class Chain(NamedTuple):
    """Where the sampler stands, to go on from there."""

    users: NDArray[np.floating]
    items: NDArray[np.floating]
    variance: float
    rng: np.random.Generator


class RunningMean:
    """What a fit has sampled so far for the pairs of its ``eval_set``: the mean of the inner products."""

    def __init__(self) -> None:
        self._total: Floats | float = 0.0
        self._count = 0

    def add(self, inner: Floats) -> None:
        """One more sample."""
        self._total = self._total + inner
        self._count += 1

    def mean(self) -> Floats:
        """The mean of the samples so far."""
        return np.asarray(self._total / self._count)


class BayesianMBMF(BoundedModel):
    """Magnitude bounded matrix factorisation, averaged over its posterior: accurate without tuning, never out of range.

    Parameters
    ----------
    n_factors
        K, the length of the factors in each sample; at least 2.
    bounds, form, magnitudes, history_share, history_count
        As in `MBMF`.
    slack
        τ ≥ 1: each sample may use centre ± τ·r·s, and a strictly increasing map leads their mean back into the range.
        ``"auto"`` grows with ``n_factors``.
    validation_fraction, n_iter_no_change
        As in `MBMF`, with the error of the running mean; by default (None) it is only recorded, in ``eval_errors_``.
    warm_start
        Whether ``fit`` goes on sampling where the last one stopped, with ``max_iter`` more sweeps and ``n_kept`` more
        samples, all of them kept; the ratings must have the same ids.
    max_iter
        Sweeps of the sampler; None for 100.
    burn_in
        Sweeps at the start that are not kept; None for a fifth of them, at most 20.
    n_kept
        Samples kept for prediction, spread evenly over the sweeps after the burn-in. The model holds
        (users + items) × (n_factors · n_kept + 2) numbers.
    on_unknown, on_contradiction, duplicates
        As in `MBMF`.
    dtype
        How the kept samples are stored; sampling itself is in float64.
    random_state, n_jobs, verbose
        As in `MBMF`. Draws are keyed by row, so any number of threads gives the same bits.

    Attributes
    ----------
    user_factors_, item_factors_
        The kept samples, stacked: a bias, a held coordinate, then n_factors columns for each sample.
    noise_
        Standard deviation of a rating around its prediction, averaged over the kept samples.
    objectives_
        Squared error of each sweep's sample on the training ratings; it levels off, and then fluctuates.
    eval_errors_, eval_predictions_
        With an ``eval_set``: the error of the mean over all sweeps so far, burn-in left out, and that mean itself at
        the end, in the order of the ``eval_set`` (of users, for a matrix). It does not depend on ``n_kept``.
    user_spread_, item_spread_
        What is left open of each row by the ratings: variance of its bias and, on average, of its other coordinates.

    Examples
    --------
    >>> from boundrec import BayesianMBMF
    >>> X = [("ann", "tea"), ("ann", "rum"), ("bob", "tea"), ("bob", "gin"), ("eve", "rum"), ("eve", "gin")]
    >>> model = BayesianMBMF(n_factors=2, bounds=(1, 5), random_state=0).fit(X, [5, 1, 4, 5, 2, 1])
    >>> prediction, std = model.predict([("ann", "gin")], return_std=True)
    >>> bool(1 <= prediction[0] <= 5 and std[0] > 0)
    True
    """

    STATE: ClassVar[dict[str, str]] = {
        **BoundedModel.STATE,
        "user_biases_": "floats users kept",
        "item_biases_": "floats items kept",
        "user_spread_": "floats users spreads",
        "item_spread_": "floats items spreads",
        "user_prior_means_": "floats kept free",
        "user_prior_precisions_": "floats kept free free",
        "item_prior_means_": "floats kept free",
        "item_prior_precisions_": "floats kept free free",
        "noise_variances_": "floats kept",
        "noise_": "positive",
        "eval_predictions_": "optional floats evaluated",
    }
    tol, patience = 0.0, 1  # a sampler has no objective to bring to rest
    _chain: Chain | None = None
    eval_predictions_: Floats

    def __init__(
        self,
        n_factors: int = 20,
        *,
        bounds: BoundsSetting = None,
        form: Form = "c",
        magnitudes: Magnitudes = "auto",
        history_share: float = 0.1,
        history_count: float | None = None,
        slack: float | Auto = "auto",
        validation_fraction: float | None = None,
        n_iter_no_change: int | None = None,
        warm_start: bool = False,
        max_iter: int | None = None,
        burn_in: int | None = None,
        n_kept: int = 20,
        on_unknown: Unknown = "mean",
        on_contradiction: Contradiction = "keep",
        duplicates: Duplicates = "raise",
        dtype: FloatType = "float32",
        random_state: Seed = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_factors = n_factors
        self.bounds = bounds
        self.form = form
        self.magnitudes = magnitudes
        self.history_share = history_share
        self.history_count = history_count
        self.slack = slack
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.warm_start = warm_start
        self.max_iter = max_iter
        self.burn_in = burn_in
        self.n_kept = n_kept
        self.on_unknown = on_unknown
        self.on_contradiction = on_contradiction
        self.duplicates = duplicates
        self.dtype = dtype
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    # --- sampling -------------------------------------------------------------------------------------------

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
        """Sample the posterior. Parameters are those of `MBMF.fit`.

        For the pairs of ``eval_set`` the mean over all sweeps after the burn-in is kept, in ``eval_predictions_``,
        and its error after each sweep in ``eval_errors_``.
        """
        super().fit(X, y, history=history, sample_weight=sample_weight, eval_set=eval_set, callback=callback)
        if isinstance(eval_set, (tuple, list)) and len(eval_set) == 2:
            by_user = Ratings.read(*eval_set, duplicates=self.duplicates)
            self.eval_predictions_ = self.eval_predictions_[by_user.positions(eval_set[0])]
        return self

    def _check_settings(self) -> None:
        super()._check_settings()
        if not is_auto(self.slack) and not (is_number(self.slack) and 1 <= self.slack < STEEPEST):
            raise ValueError(
                f'slack={short(self.slack)}: give a number of at least 1 and below {STEEPEST:g}, or "auto".'
            )
        if self.burn_in is not None and not (is_whole(self.burn_in) and 0 <= self.burn_in < self._most_iterations()):
            raise ValueError(f"burn_in={short(self.burn_in)}: give a whole number below max_iter, or None.")
        check_count("n_kept", self.n_kept, 1)
        check_flag("warm_start", self.warm_start)

    def _default_max_iter(self) -> int:
        return 100

    def _stopping_rule(self) -> StoppingRule:
        return StoppingRule(-np.inf, 1)

    def _seeks_rest(self) -> bool:
        return False

    def _run(self, ratings: Ratings, rng: np.random.Generator, callback: Callback | None) -> bool:
        """Sample, then stack what was kept; after Ctrl-C that is what there is by then."""
        chain = self._to_go_on_from()
        before = (self.objectives_, self.seconds_) if chain else ([], [])
        self._burn_in, self._kept = self._to_keep(ratings, chain is not None)
        self._running = RunningMean()
        rng = deepcopy(chain.rng) if chain else rng
        to_the_end = super()._run(ratings, rng, callback)
        last = self._last
        if not self._kept.variances:  # stopped within the burn-in: the last sample stands for all
            self._kept.add(last)
        self._stack(self._kept)
        self._chain = Chain(last.users.factors, last.items.factors, last.variance, rng) if self.warm_start else None
        self.objectives_, self.seconds_ = before[0] + self.objectives_, before[1] + self.seconds_
        self.n_iter_ = len(self.objectives_)
        del self._burn_in, self._kept, self._running, self._last
        return to_the_end

    def _to_keep(self, ratings: Ratings, goes_on: bool) -> tuple[int, Kept]:
        """How many sweeps are discarded, and room for the samples to keep, after those of a fit that goes on."""
        sweeps = self._most_iterations()
        burn_in = min(20, sweeps // 5) if self.burn_in is None else self.burn_in
        burn_in = 0 if goes_on else burn_in
        spaced = np.linspace(sweeps, burn_in, min(self.n_kept, sweeps - burn_in), endpoint=False)
        chosen = set(spaced.round().astype(int).tolist())
        earlier = self.user_biases_.shape[1] if goes_on else 0
        shape = self.n_factors, earlier + len(chosen)
        users = KeptSide(ratings.n_users, *shape, HELD_BY_USERS, self.dtype)
        items = KeptSide(ratings.n_items, *shape, HELD_BY_ITEMS, self.dtype)
        kept = Kept(chosen, users, items)
        if goes_on:
            users.take_over(self.user_factors_, self.user_biases_, self.user_spread_, self._user_prior())
            items.take_over(self.item_factors_, self.item_biases_, self.item_spread_, self._item_prior())
            kept.variances += self.noise_variances_.tolist()
        return burn_in, kept

    def _stack(self, kept: Kept) -> None:
        """The kept samples become one model."""
        self.user_factors_, self.item_factors_ = kept.users.stacked(), kept.items.stacked()
        self.user_biases_, self.item_biases_ = kept.users.biases(), kept.items.biases()
        self.user_spread_, self.item_spread_ = kept.users.spread(), kept.items.spread()
        self.user_prior_means_, self.user_prior_precisions_ = kept.users.priors()
        self.item_prior_means_, self.item_prior_precisions_ = kept.items.priors()
        self.noise_variances_ = np.array(kept.variances)
        self.noise_ = float(np.sqrt(np.mean(kept.variances)))

    def _user_prior(self) -> Prior:
        return Prior(self.user_prior_means_, self.user_prior_precisions_)

    def _item_prior(self) -> Prior:
        return Prior(self.item_prior_means_, self.item_prior_precisions_)

    def _sweeps(self, ratings: Ratings, pool: RowPool, rng: np.random.Generator) -> Iterator[Sweep]:
        from boundrec.kernels import squared_errors

        users, items, variance = self._start(ratings, rng)
        self.user_factors_, self.item_factors_ = users.factors, items.factors
        by_user = users.csr
        errors, counted = np.empty(len(users.factors)), float(by_user.row_weights().sum())
        prior = PRIOR_NOISE * self._spread_of(ratings, by_user)
        while True:
            sweep = self.n_iter_ + 1
            with_means = sweep in self._kept.sweeps or (self._held_out is not None and sweep > self._burn_in)
            of_items = sample_side(items, users, 1.0 / variance, pool, rng, with_means)
            of_users = sample_side(users, items, 1.0 / variance, pool, rng, with_means)
            pool.run(squared_errors, by_user.indptr, by_user, users.factors, items.factors, errors)
            total = float(errors.sum())
            variance = max((total + prior) / (2.0 * float(rng.gamma((counted + PRIOR_NOISE) / 2))), TINY)
            self._last = Sample(users, items, of_users, of_items, variance)
            if sweep in self._kept.sweeps:
                self._kept.add(self._last)
            yield Sweep(total)

    def _start(self, ratings: Ratings, rng: np.random.Generator) -> tuple[Side, Side, float]:
        """Both sides with half of the mean rating in each bias and little else, or where the chain stands."""
        ranges, room = self._ranges, np.sqrt(self.slack_)
        by_user, by_item = self._centred(ratings, np.float64)
        users = Side(by_user, room * ranges.user, np.empty((0, 0)), HELD_BY_USERS)
        items = Side(by_item, room * ranges.item, np.empty((0, 0)), HELD_BY_ITEMS)
        chain = self._to_go_on_from()
        if chain:  # copies: a fit that fails leaves the chain where it was
            users.factors, items.factors = chain.users.copy(), chain.items.copy()
            return users, items, chain.variance
        share = by_user.data / ranges.product(ratings.user_of_rating(), by_user.indices)
        mean = float(share.mean()) / self.slack_
        users = start_with_biases(users, HELD_BY_USERS, mean, self.n_factors, rng)
        items = start_with_biases(items, HELD_BY_ITEMS, mean, self.n_factors, rng)
        return users, items, self._spread_of(ratings, by_user)

    def _spread_of(self, ratings: Ratings, centred: Csr) -> float:
        """Variance of the ratings around their centres, which is what the noise is guessed to be before any sweep.

        Ratings that are all the same would have none, and leave the sampler without a unit: a thousandth of the range
        is the least.
        """
        half_widths = self._ranges.product(ratings.user_of_rating(), centred.indices)
        least = (LEAST_NOISE * float(half_widths.mean())) ** 2
        return max(float(centred.data.var()), least, TINY)

    def _to_go_on_from(self) -> Chain | None:
        return self._chain if self.warm_start else None

    def _fit(self, ratings: Ratings, callback: Callback | None) -> Self:
        self.slack_ = slack_for(self.n_factors) if self.slack == "auto" else float(self.slack)
        chain = self._to_go_on_from()
        if chain:
            self._check_same(chain, ratings)
        return super()._fit(ratings, callback)

    def _check_same(self, chain: Chain, ratings: Ratings) -> None:
        """A chain goes on only where its rows still mean the same and lie in the same balls."""
        held = np.sqrt(HELD_SHARE * self.slack_)
        balls = (
            (chain.users, HELD_BY_USERS, self._ranges.user),
            (chain.items, HELD_BY_ITEMS, self._ranges.item),
        )
        same = {
            "users": np.array_equal(self.user_ids_.ids, ratings.users.ids),
            "items": np.array_equal(self.item_ids_.ids, ratings.items.ids),
            "n_factors": chain.users.shape[1] == self.n_factors + 2,
            "bounds, magnitudes or slack": all(
                len(rows) == len(magnitudes) and np.allclose(rows[:, column], held * magnitudes, rtol=1e-12, atol=0)
                for rows, column, magnitudes in balls
            ),
        }
        other = [name for name, holds in same.items() if not holds]
        if other:
            raise ValueError(
                f"warm_start=True goes on with the sampling of the last fit, but that had other {other[0]}: "
                "pass what it had, or warm_start=False to begin anew."
            )

    def _eval_predictions(self, users: Codes, items: Codes) -> Floats:
        """The running mean over the sweeps after the burn-in; before that, what the present draws say."""
        sample = self._last
        W, H = (
            Rows.of(conditional.rows if len(conditional.rows) else side.factors, conditional.prior, held_by(side))
            for side, conditional in ((sample.users, sample.of_users), (sample.items, sample.of_items))
        )
        inner = self._inner(W, H, users, items)
        if self.n_iter_ + 1 > self._burn_in:
            self._running.add(inner)
            inner = self._running.mean()
        self.eval_predictions_ = self._led_back(inner, self._ranges.product(users, items))
        return self.eval_predictions_

    # --- what comes after the fit ---------------------------------------------------------------------------

    def _start_rows(self, kind: str, magnitudes: Floats) -> dict[str, NDArray[np.floating]]:
        return start_from_priors(self, kind, magnitudes)

    def _solve_rows(self, kind: str, rows: Codes, csr: Csr) -> None:
        draw_from_priors(self, kind, rows, csr)

    # --- predictions ----------------------------------------------------------------------------------------

    @overload
    def predict(self, X: Any, return_range: Literal[False] = False, return_std: Literal[False] = False) -> Floats: ...
    @overload
    def predict(
        self, X: Any, return_range: Literal[True], return_std: Literal[False] = False
    ) -> tuple[Floats, Floats, Floats]: ...
    @overload
    def predict(
        self, X: Any, return_range: Literal[False] = False, *, return_std: Literal[True]
    ) -> tuple[Floats, Floats]: ...
    @overload
    def predict(
        self, X: Any, return_range: Literal[True], return_std: Literal[True]
    ) -> tuple[Floats, Floats, Floats, Floats]: ...
    @overload
    def predict(self, X: Any, return_range: bool = False, return_std: bool = False) -> Floats | tuple[Floats, ...]: ...
    def predict(self, X: Any, return_range: bool = False, return_std: bool = False) -> Floats | tuple[Floats, ...]:
        """Predict the rating of each pair of ids, inside its own range.

        Parameters
        ----------
        X
            Two columns of ids.
        return_range
            Also return the lower and upper end of each pair's range.
        return_std
            Also return the standard deviation of a rating around the prediction: what the samples disagree on, and
            the noise of a single rating.

        Returns
        -------
        prediction, or a tuple of what was asked for in the order (prediction, std, lower, upper)
        """
        users, items = self._codes(X)
        answer: tuple[Floats, ...] = (self._predict_codes(users, items),)
        if return_std:
            answer += (self._std(users, items),)
        if return_range:
            answer += self._interval(users, items)
        return answer if len(answer) > 1 else answer[0]

    def predict_quantiles(self, X: Any, quantiles: Any = (0.05, 0.5, 0.95)) -> Floats:
        """Quantiles of the rating of each pair of ids, one column for each, inside the pair's range.

        The predictive distribution is a normal around each kept sample's prediction, all of them mixed.
        """
        wanted = read_numbers([quantiles] if is_number(quantiles) else quantiles, "quantiles", "quantile")
        if not np.all((wanted > 0) & (wanted < 1)):
            raise ValueError(f"quantiles={short(quantiles)}: give numbers between 0 and 1.")
        users, items = self._codes(X)
        found = np.empty((len(users), len(wanted)))
        for block, samples, within in self._sampled(users, items):
            found[block] = _mixture_quantiles(samples, np.sqrt(within + self.noise_**2), wanted)
        lower, upper = self._ranges.interval(self._ranges.product(users, items))
        return np.clip(found, lower[:, None], upper[:, None])

    def _std(self, users: Codes, items: Codes) -> Floats:
        """Standard deviation of a rating: what the samples disagree on, what they leave open, and the noise."""
        std = np.empty(len(users))
        for block, samples, within in self._sampled(users, items):
            std[block] = np.sqrt(samples.var(axis=1) + within + self.noise_**2)
        return std

    def _n_bias_columns(self) -> int:
        return 2

    def _sampled(self, users: Codes, items: Codes) -> Iterator[tuple[slice, Floats, Floats]]:
        """What each kept sample predicts for each pair (a column a sample), and the variance around that, in blocks.

        Rows vary around their means within each sample: for independent rows with variances of their own,
        Var(w·h) = Σ_k var(w_k)E[h_k]² + E[w_k]²var(h_k) + var(w_k)var(h_k). Only the biases' variances and the mean
        of the others' are known.
        """
        n_kept, ranges, room = self.user_biases_.shape[1], self._ranges, np.sqrt(self.slack_)
        W_all, H_all = self._rows()
        r, s = room * ranges.unknown_user, room * ranges.unknown_item
        for start in range(0, len(users), BLOCK // 8):
            block = slice(start, start + BLOCK // 8)
            u, i = users[block], items[block]
            W, H = W_all.take(u, r), H_all.take(i, s)
            inner = n_kept * (W[:, 2:] * H[:, 2:]).reshape(len(u), n_kept, self.n_factors).sum(axis=2)
            inner += np.where(u >= 0, self.user_biases_[u].T, W[:, 0]).T * H[:, :1]
            inner += np.where(i >= 0, self.item_biases_[i].T, H[:, 1]).T * W[:, 1:2]
            p = np.where(u >= 0, self.user_spread_[u].T, r**2 * W_all.unknown_spread[:, None])
            q = np.where(i >= 0, self.item_spread_[i].T, s**2 * H_all.unknown_spread[:, None])
            within = p[0] * H[:, 0] ** 2 + q[0] * W[:, 1] ** 2 + self.n_factors * p[1] * q[1]
            within += p[1] * dot_rows(H[:, 2:], H[:, 2:]) + q[1] * dot_rows(W[:, 2:], W[:, 2:])
            yield block, self._led_back(inner, ranges.product(u, i)[:, None]), within

    def _rows(self) -> tuple[Rows, Rows]:
        """The factors of both sides, with those of somebody unknown."""
        return (
            Rows.of(self.user_factors_, self._user_prior(), HELD_BY_USERS),
            Rows.of(self.item_factors_, self._item_prior(), HELD_BY_ITEMS),
        )

    def _inner(self, W: Rows, H: Rows, users: Codes, items: Codes) -> Floats:
        """Inner products of pairs, somebody unknown among them."""
        room, ranges = np.sqrt(self.slack_), self._ranges
        inner = np.empty(len(users))
        for start in range(0, len(users), BLOCK):
            u, i = users[start : start + BLOCK], items[start : start + BLOCK]
            w, h = W.take(u, room * ranges.unknown_user), H.take(i, room * ranges.unknown_item)
            inner[start : start + BLOCK] = dot_rows(w, h)
        return inner

    def _predict_unknown(self, users: Codes, items: Codes) -> Floats:
        """The prior mean for whoever is unknown, the other side as it is."""
        return self._led_back(self._inner(*self._rows(), users, items), self._ranges.product(users, items))


def _mixture_quantiles(centres: Floats, spread: Floats, quantiles: Floats) -> Floats:
    """Quantiles of the mixtures of normals around each row's centres, by bisection."""
    spread = spread[:, None]
    low = np.repeat(centres.min(axis=1)[:, None] - 10 * spread, len(quantiles), axis=1)
    high = np.repeat(centres.max(axis=1)[:, None] + 10 * spread, len(quantiles), axis=1)
    for _ in range(50):
        middle = (low + high) / 2
        below = ndtr((middle[:, :, None] - centres[:, None, :]) / spread[:, :, None]).mean(axis=2) < quantiles
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.asarray((low + high) / 2)
