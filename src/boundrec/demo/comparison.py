"""Four predictors on the same ratings: how far they err, and how far all their predictions reach."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from boundrec import metrics, splits
from boundrec.datasets import Dataset
from boundrec.models.mbmf import MBMF
from boundrec.models.mf import MF

Floats = NDArray[np.float64]
Pairs = NDArray[np.integer]
#: Told how much of a step is done, from 0 to 1.
Progress = Callable[[float], object]

BOUNDS = (0.5, 5.0)
HELD_OUT = 0.1
#: How many ratings the overall mean counts for in an offset.
PRIOR_COUNT = 5.0
#: Users whose predictions for every item are made at a time.
USERS_AT_A_TIME = 32
#: Bins of the histogram of all predictions: a scale's length on either side of the bounds.
BINS = np.linspace(2 * BOUNDS[0] - BOUNDS[1], 2 * BOUNDS[1] - BOUNDS[0], 271)


# --- data -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Split:
    """The data set, divided into ratings to learn from and ratings to be judged by."""

    data: Dataset
    held: NDArray[np.bool_]

    @property
    def training(self) -> tuple[Pairs, Floats]:
        """Pairs and ratings to learn from."""
        return self.data.pairs[~self.held], self.data.rating[~self.held]

    @property
    def test(self) -> tuple[Pairs, Floats]:
        """Pairs and ratings that no model sees."""
        return self.data.pairs[self.held], self.data.rating[self.held]


def divide(data: Dataset, seed: int) -> Split:
    """Hold out a tenth of the ratings; every user and every film keeps one to learn from."""
    return Split(data, splits.hold_out(data.user, data.item, HELD_OUT, seed))


def find_user(data: Dataset, user: int) -> int:
    """The row of a user id."""
    assert data.user_ids is not None
    rows = np.flatnonzero(data.user_ids == user)
    if not rows.size:
        raise ValueError(f"there is no user {user}: give an id from {data.user_ids.min()} to {data.user_ids.max()}.")
    return int(rows[0])


# --- models ---------------------------------------------------------------------------------------------------


class MeanAndOffsets:
    """The honest trivial rival: mean + item offset + user offset, each offset drawn towards zero.

    Codes up to ``n_users`` and ``n_items`` that come without a rating have no offset.
    """

    def __init__(self, n_users: int = 0, n_items: int = 0) -> None:
        self.n_users, self.n_items = n_users, n_items

    def fit(self, X: Pairs, y: Floats, callback: object = None) -> Self:
        """Learn the offsets from rows of (user, item) codes."""
        users, items = X.T
        self.mean = y.mean()
        self.items = _offsets(items, y - self.mean, self.n_items)
        self.users = _offsets(users, y - self.mean - self.items[items], self.n_users)
        return self

    def predict(self, X: Pairs) -> Floats:
        """Predict the rating of each row of (user, item) codes."""
        predictions: Floats = self.mean + self.users[X[:, 0]] + self.items[X[:, 1]]
        return predictions


def _offsets(codes: NDArray[np.integer], residuals: Floats, size: int) -> Floats:
    counts = np.bincount(codes, minlength=size)
    return np.asarray(np.bincount(codes, residuals, size) / (counts + PRIOR_COUNT))


#: The names by which the table and the plot call the models.
MEANS, PLAIN, SCALE, OWN = "mean + offsets", "plain factorisation", "MBMF, one range", "MBMF, own ranges"


def models(n_factors: int, seed: int) -> dict[str, Any]:
    """The four predictors of the table; the last makes the list of titles, for its ranges differ.

    The ridge and the epochs of the unbounded rival were chosen on another split, so as not to make it a straw man;
    MBMF is as it comes. Both have biases.
    """
    return {
        MEANS: MeanAndOffsets(),
        PLAIN: MF(n_factors, solver="sgd", biases=True, ridge=0.1, max_iter=100, random_state=seed),
        SCALE: MBMF(n_factors, bounds=BOUNDS, random_state=seed),
        OWN: MBMF(n_factors, bounds=BOUNDS, magnitudes="history", random_state=seed),
    }


# --- compiling ------------------------------------------------------------------------------------------------


def compile_kernels() -> float:
    """Run every model once on next to nothing, so that later times are those of fitting; returns the seconds."""
    began = time.perf_counter()
    X, y = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], dtype=np.int32), np.array([1.0, 5.0, 4.0, 2.0])
    for model in models(n_factors=2, seed=0).values():
        fit(model, X, y)
    return time.perf_counter() - began


# --- results --------------------------------------------------------------------------------------------------


class Everything(NamedTuple):
    """What the predictions for all users × items have in common."""

    outside_share: float
    lowest: float
    highest: float
    counts: NDArray[np.int64]


@dataclass(frozen=True)
class Result:
    """One row of the table, and one curve of the plot."""

    name: str
    model: Any
    rmse: float
    mae: float
    rmse_by_sweep: list[float]
    seconds: float
    everything: Everything


def evaluate(name: str, model: Any, split: Split, progress: Progress) -> Result:
    """Fit one model, measure it on the held-out ratings and look at all its predictions."""
    X_test, y_test = split.test
    rmse_by_sweep: list[float] = []
    measuring = 0.0

    def watch(sweep: int, objective: float, fitted: Any) -> None:
        nonlocal measuring
        began = time.perf_counter()
        rmse_by_sweep.append(metrics.rmse(y_test, fitted.predict(X_test)))
        progress(0.5 * sweep / (fitted._most_iterations()))
        measuring += time.perf_counter() - began

    began = time.perf_counter()
    fit(model, *split.training, callback=watch)
    seconds = time.perf_counter() - began - measuring
    everything = predict_everything(model, split.data, lambda share: progress(0.5 + 0.5 * share))
    predictions = model.predict(X_test)
    rmse, mae = metrics.rmse(y_test, predictions), metrics.mae(y_test, predictions)
    return Result(name, model, rmse, mae, rmse_by_sweep, seconds, everything)


def fit(model: Any, X: Pairs, y: Floats, callback: Any = None) -> None:
    """Fit without the warnings that the table answers itself; Ctrl-C ends the demonstration, not only the fit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", message=".*lie outside their own range")
        warnings.filterwarnings("error", message="interrupted")
        try:
            model.fit(X, y, callback=callback)
        except UserWarning as interrupted:
            raise KeyboardInterrupt from interrupted


def predict_everything(model: Any, data: Dataset, progress: Progress) -> Everything:
    """Predict every user × item pair, a few users at a time, and keep only what the table and the plot need."""
    outside, lowest, highest = 0, np.inf, -np.inf
    counts = np.zeros(len(BINS) - 1, dtype=np.int64)
    for start in range(0, data.n_users, USERS_AT_A_TIME):
        users = np.arange(start, min(start + USERS_AT_A_TIME, data.n_users), dtype=np.int32)
        predictions = model.predict(every_pair(users, data.n_items))
        outside += int(((predictions < BOUNDS[0]) | (predictions > BOUNDS[1])).sum())
        lowest, highest = min(lowest, predictions.min()), max(highest, predictions.max())
        counts += np.histogram(np.clip(predictions, BINS[0], BINS[-1]), BINS)[0]
        progress((start + len(users)) / data.n_users)
    return Everything(outside / (data.n_users * data.n_items), float(lowest), float(highest), counts)


def every_pair(users: NDArray[np.int32], n_items: int) -> Pairs:
    """All pairs of these users with every item."""
    return np.column_stack((np.repeat(users, n_items), np.tile(np.arange(n_items, dtype=np.int32), len(users))))
