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
from typing import Any

import numpy as np
from scipy.special import ndtr

from boundrec.models.base import BLOCK, Callback, Codes, Floats, Side, StoppingRule, Sweep, dot_rows, is_whole
from boundrec.models.bounded import BoundedModel
from boundrec.models.exact import HELD_BY_ITEMS, HELD_BY_USERS, start_with_biases
from boundrec.models.gibbs import PRIOR_NOISE, Kept, Sample, sample_side
from boundrec.models.slack import STEEPEST
from boundrec.parallel import RowPool
from boundrec.ratings import Ratings


def slack_for(n_factors: int) -> float:
    """How far the fit may pass the range: every coordinate's posterior spread takes up some of the ball."""
    return float(np.clip(1.0 + n_factors / 20.0, 1.5, 4.0))


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

    Examples
    --------
    >>> from boundrec import BayesianMBMF
    >>> X = [("ann", "tea"), ("ann", "rum"), ("bob", "tea"), ("bob", "gin"), ("eve", "rum"), ("eve", "gin")]
    >>> model = BayesianMBMF(n_factors=2, bounds=(1, 5), random_state=0).fit(X, [5, 1, 4, 5, 2, 1])
    >>> prediction, std = model.predict([("ann", "gin")], return_std=True)
    >>> bool(1 <= prediction[0] <= 5 and std[0] > 0)
    True
    """

    tol, patience = 0.0, 1  # a sampler has no objective to bring to rest

    def __init__(
        self,
        n_factors: int = 20,
        *,
        bounds: Any = None,
        form: str = "c",
        magnitudes: Any = "auto",
        history_share: float = 0.1,
        history_count: float | None = None,
        slack: float | str = "auto",
        max_iter: int | None = None,
        burn_in: int | None = None,
        n_kept: int = 20,
        on_unknown: str = "mean",
        on_contradiction: str = "keep",
        duplicates: str = "raise",
        dtype: Any = "float32",
        random_state: Any = None,
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

    def _check_settings(self) -> None:
        super()._check_settings()
        if self.slack != "auto" and not (isinstance(self.slack, (int, float)) and 1 <= self.slack < STEEPEST):
            raise ValueError(f'slack={self.slack!r}: give a number of at least 1 and below {STEEPEST:g}, or "auto".')
        if self.burn_in is not None and not (is_whole(self.burn_in) and 0 <= self.burn_in < self._most_iterations()):
            raise ValueError(f"burn_in={self.burn_in!r}: give a whole number below max_iter, or None.")
        if not is_whole(self.n_kept) or self.n_kept < 1:
            raise ValueError(f"n_kept={self.n_kept!r}: give a whole number of at least 1.")

    def _default_max_iter(self) -> int:
        return 100

    def _stopping_rule(self) -> StoppingRule:
        return StoppingRule(-np.inf, 1)

    def _seeks_rest(self) -> bool:
        return False

    def _run(self, ratings: Ratings, rng: np.random.Generator, callback: Callback | None) -> bool:
        """Sample, then stack what was kept; after Ctrl-C that is what there is by then."""
        self.slack_ = slack_for(self.n_factors) if self.slack == "auto" else float(self.slack)
        sweeps = self._most_iterations()
        burn_in = min(20, sweeps // 5) if self.burn_in is None else self.burn_in
        kept = np.linspace(sweeps, burn_in, min(self.n_kept, sweeps - burn_in), endpoint=False)
        shape = ratings.n_users, ratings.n_items, self.n_factors
        self._kept = Kept(set(kept.round().astype(int).tolist()), shape, np.dtype(self.dtype))
        to_the_end = super()._run(ratings, rng, callback)
        if self._kept.count == 0:  # stopped within the burn-in: the last sample stands for all
            self._kept.add(self._last)
        self._stack(self._kept)
        del self._kept, self._last
        return to_the_end

    def _stack(self, kept: Kept) -> None:
        """The kept samples become one model."""
        self.user_factors_, self.item_factors_ = kept.users.stacked(), kept.items.stacked()
        self.user_biases_, self.item_biases_ = kept.users.kept_biases(), kept.items.kept_biases()
        self.unknown_user_, self.unknown_item_ = kept.users.unknown_row(), kept.items.unknown_row()
        self.noise_ = float(np.sqrt(np.mean(kept.variances)))

    def _sweeps(self, ratings: Ratings, pool: RowPool, rng: np.random.Generator) -> Iterator[Sweep]:
        from boundrec.kernels import squared_errors

        users, items = self._start(ratings, rng)
        self.user_factors_, self.item_factors_ = users.factors, items.factors
        by_user = users.csr
        errors, counted = np.empty(len(users.factors)), float(users.csr.row_weights().sum())
        variance = max(float(by_user.data.var()), np.finfo(float).tiny)
        prior = PRIOR_NOISE * variance
        while True:
            item_mean = sample_side(items, users, 1.0 / variance, pool, rng)
            user_mean = sample_side(users, items, 1.0 / variance, pool, rng)
            pool.run(squared_errors, by_user.indptr, by_user, users.factors, items.factors, errors)
            total = float(errors.sum())
            variance = (total + prior) / (2.0 * rng.gamma((counted + PRIOR_NOISE) / 2))
            self._last = Sample(users, items, user_mean, item_mean, variance)
            if self.n_iter_ + 1 in self._kept.sweeps:
                self._kept.add(self._last)
            yield Sweep(total)

    def _start(self, ratings: Ratings, rng: np.random.Generator) -> tuple[Side, Side]:
        """Both sides with half of the mean rating in each bias, and little else."""
        ranges, room = self._ranges, np.sqrt(self.slack_)
        by_user, by_item = self._centred(ratings, np.float64)
        share = by_user.data / ranges.product(ratings.user_of_rating(), by_user.indices)
        mean = float(share.mean()) / self.slack_
        users = Side(by_user, room * ranges.user, np.empty((0, 0)))
        items = Side(by_item, room * ranges.item, np.empty((0, 0)))
        return (
            start_with_biases(users, HELD_BY_USERS, mean, self.n_factors, rng),
            start_with_biases(items, HELD_BY_ITEMS, mean, self.n_factors, rng),
        )

    # --- predictions ----------------------------------------------------------------------------------------

    def predict(self, X: Any, return_range: bool = False, return_std: bool = False) -> Any:
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
        answer = super().predict(X, return_range)
        if not return_std:
            return answer
        std = self._std(*self._codes(X))
        return (answer[0], std, *answer[1:]) if return_range else (answer, std)

    def predict_quantiles(self, X: Any, quantiles: Any = (0.05, 0.5, 0.95)) -> Floats:
        """Quantiles of the rating of each pair of ids, one column for each, inside the pair's range.

        The predictive distribution is a normal around each kept sample's prediction, all of them mixed.
        """
        wanted = np.atleast_1d(np.asarray(quantiles, np.float64))
        if not np.all((wanted > 0) & (wanted < 1)):
            raise ValueError(f"quantiles={quantiles!r}: give numbers between 0 and 1.")
        users, items = self._codes(X)
        found = np.vstack([_mixture_quantiles(block, self.noise_, wanted) for block in self._sampled(users, items)])
        lower, upper = self._ranges.interval(self._ranges.product(users, items))
        return np.clip(found, lower[:, None], upper[:, None])

    def _std(self, users: Codes, items: Codes) -> Floats:
        """Standard deviation of a rating: what the samples disagree on, and its noise."""
        spread = [block.var(axis=1) for block in self._sampled(users, items)]
        return np.sqrt(np.concatenate([np.empty(0), *spread]) + self.noise_**2)

    def _n_bias_columns(self) -> int:
        return 2

    def _sampled(self, users: Codes, items: Codes) -> Iterator[Floats]:
        """What each kept sample predicts for each pair, block by block: one column a sample."""
        n_kept = self.user_biases_.shape[1]
        for start in range(0, len(users), BLOCK // 8):
            u, i = users[start : start + BLOCK // 8], items[start : start + BLOCK // 8]
            W, H = self._rows(u, i)
            inner = n_kept * (W[:, 2:] * H[:, 2:]).reshape(len(u), n_kept, self.n_factors).sum(axis=2)
            inner += np.where(u >= 0, self.user_biases_[u].T, W[:, 0]).T * H[:, :1]
            inner += np.where(i >= 0, self.item_biases_[i].T, H[:, 1]).T * W[:, 1:2]
            yield self._led_back(inner, self._ranges.product(u, i)[:, None])

    def _rows(self, users: Codes, items: Codes) -> tuple[Floats, Floats]:
        """Factors of pairs; somebody unknown has the prior mean."""
        ranges, room = self._ranges, np.sqrt(self.slack_)
        W, H = self.user_factors_[users].astype(np.float64), self.item_factors_[items].astype(np.float64)
        W[users < 0] = room * ranges.unknown_user * self.unknown_user_
        H[items < 0] = room * ranges.unknown_item * self.unknown_item_
        return W, H

    def _predict_unknown(self, users: Codes, items: Codes) -> Floats:
        """The prior mean for whoever is unknown, the other side as it is."""
        if self.on_unknown == "nan":
            return np.full(len(users), np.nan)
        return self._led_back(dot_rows(*self._rows(users, items)), self._ranges.product(users, items))


def _mixture_quantiles(centres: Floats, spread: float, quantiles: Floats) -> Floats:
    """Quantiles of the mixtures of normals around each row's centres, by bisection."""
    low = np.repeat(centres.min(axis=1)[:, None] - 10 * spread, len(quantiles), axis=1)
    high = np.repeat(centres.max(axis=1)[:, None] + 10 * spread, len(quantiles), axis=1)
    for _ in range(50):
        middle = (low + high) / 2
        below = ndtr((middle[:, :, None] - centres[:, None, :]) / spread).mean(axis=2) < quantiles
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.asarray((low + high) / 2)
