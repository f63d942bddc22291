"""MF against scikit-surprise's SVD: the same biased model and settings, on the same splits, in one run.

Needs scikit-surprise (``pip install "boundrec[peers]"``) and the MovieLens files in BOUNDREC_DATA. Prints two
tables in Markdown and fails if the RMSE on MovieLens 100k is more than 1 % above Surprise's, or an epoch on
MovieLens 1M takes more than twice as long.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boundrec import MF, Ratings
from boundrec.datasets import Dataset, load
from boundrec.metrics import rmse
from boundrec.splits import repeated_hold_out

FACTORS, EPOCHS, RATE, RIDGE = 20, 20, 0.005, 0.02
TOLERATED_ERROR, TOLERATED_TIME = 1.01, 2.0


def surprise() -> Any:
    """The peer, imported late: without it this file can still be read and checked."""
    try:
        return import_module("surprise")
    except ModuleNotFoundError:
        sys.exit('scikit-surprise is not installed: pip install "boundrec[peers]"')


def boundrec_model(epochs: int, seed: int) -> MF:
    return MF(
        FACTORS,
        solver="sgd",
        biases=True,
        learning_rate=RATE,
        ridge=RIDGE,
        max_iter=epochs,
        tol=0.0,
        patience=epochs,
        random_state=seed,
    )


def surprise_model(epochs: int, seed: int) -> Any:
    return surprise().SVD(n_factors=FACTORS, n_epochs=epochs, lr_all=RATE, reg_all=RIDGE, random_state=seed)


def surprise_ratings(data: Dataset, kept: NDArray[np.bool_]) -> Any:
    """The ratings as a surprise Trainset, inner ids made by Surprise itself."""
    loaded = surprise().Dataset(surprise().Reader(rating_scale=data.bounds))
    entries = zip(data.user[kept].tolist(), data.item[kept].tolist(), data.rating[kept].tolist(), strict=True)
    return loaded.construct_trainset([(user, item, rating, None) for user, item, rating in entries])


def errors(data: Dataset, held: NDArray[np.bool_], seed: int) -> tuple[float, float]:
    """RMSE on the held-out ratings, unclipped: ours and Surprise's."""
    X = np.column_stack([data.user, data.item])
    ours = boundrec_model(EPOCHS, seed).fit(X[~held], data.rating[~held]).predict(X[held])
    theirs = surprise_model(EPOCHS, seed).fit(surprise_ratings(data, ~held))
    answers = [theirs.predict(user, item, clip=False).est for user, item in X[held].tolist()]
    return rmse(data.rating[held], ours), rmse(data.rating[held], answers)


def seconds_per_epoch(fit: Callable[[int], Any]) -> float:
    """What ten epochs more cost, divided by ten: reading, starting and compiling cancel."""
    took = []
    for epochs in (1, 11):
        began = time.perf_counter()
        fit(epochs)
        took.append(time.perf_counter() - began)
    return (took[1] - took[0]) / 10


def compare_errors(n_splits: int) -> bool:
    data = load("movielens_100k")
    print(f"MovieLens 100k, K={FACTORS}, {EPOCHS} epochs, rate {RATE}, ridge {RIDGE}, 10 % held out\n")
    print("| split | boundrec RMSE | Surprise RMSE | ratio |\n|---|---|---|---|")
    ratios = []
    for number, held in enumerate(repeated_hold_out(data.user, data.item, n_folds=n_splits)):
        ours, theirs = errors(data, held, seed=number)
        ratios.append(ours / theirs)
        print(f"| {number} | {ours:.4f} | {theirs:.4f} | {ratios[-1]:.4f} |", flush=True)
    return max(ratios) <= TOLERATED_ERROR


def compare_times(repeats: int) -> bool:
    data = load("movielens_1m")
    everything = np.ones(len(data.rating), dtype=bool)
    ratings = Ratings.read(np.column_stack([data.user, data.item]), data.rating)
    trainset = surprise_ratings(data, everything)
    boundrec_model(1, 0).fit(ratings)  # compiles
    ours, theirs = [], []
    for _ in range(repeats):  # in turns, so that a busy moment hits both
        ours.append(seconds_per_epoch(lambda epochs: boundrec_model(epochs, 0).fit(ratings)))
        theirs.append(seconds_per_epoch(lambda epochs: surprise_model(epochs, 0).fit(trainset)))
    print(f"\nMovieLens 1M, K={FACTORS}, seconds an epoch, best of {repeats}; ours shuffles and takes the objective\n")
    print("| boundrec | Surprise | ratio |\n|---|---|---|")
    print(f"| {min(ours):.3f} | {min(theirs):.3f} | {min(ours) / min(theirs):.2f} |")
    return min(ours) <= TOLERATED_TIME * min(theirs)


def main() -> int:
    accurate = compare_errors(n_splits=5)
    fast = compare_times(repeats=3)
    print(f"\nRMSE within 1 %: {'pass' if accurate else 'FAIL'}; an epoch within 2×: {'pass' if fast else 'FAIL'}")
    return 0 if accurate and fast else 1


if __name__ == "__main__":
    sys.exit(main())
