"""MF against scikit-surprise's SVD: the same biased model and settings, on the same splits, in one run.

``python -m benchmarks.rivals_mf`` needs scikit-surprise (``pip install "boundrec[peers]"``) and the MovieLens files in
BOUNDREC_DATA. It writes results/rivals_mf.md and fails if the RMSE on MovieLens 100k is more than 1 % from Surprise's,
or an epoch on MovieLens 1M takes more than twice as long.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.measure import Part, save_parts, seconds_per_sweep
from benchmarks.peers import error_check, movielens, peer, surprise_trainset, time_check, version
from boundrec import MF, Ratings
from boundrec.datasets import Dataset
from boundrec.metrics import rmse
from boundrec.splits import repeated_hold_out

FACTORS, EPOCHS, RATE, RIDGE = 20, 20, 0.005, 0.02
SETTINGS = f"K = {FACTORS}, learning rate {RATE}, ridge {RIDGE}, biases: `MF(solver='sgd')` and `surprise.SVD`"


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
        n_jobs=1,
    )


def surprise_model(epochs: int, seed: int) -> Any:
    surprise = peer("surprise", "scikit-surprise")
    return surprise.SVD(n_factors=FACTORS, n_epochs=epochs, lr_all=RATE, reg_all=RIDGE, random_state=seed)


def errors(data: Dataset, held: NDArray[np.bool_], seed: int) -> tuple[float, float]:
    """RMSE on the held-out ratings, unclipped: ours and Surprise's."""
    X, y = data.pairs, data.rating
    ours = boundrec_model(EPOCHS, seed).fit(X[~held], y[~held]).predict(X[held])
    theirs = surprise_model(EPOCHS, seed).fit(surprise_trainset(X[~held], y[~held]))
    answers = [theirs.predict(user, item, clip=False).est for user, item in X[held].tolist()]
    return rmse(y[held], ours), rmse(y[held], answers)


def compare_errors(n_splits: int) -> Part:
    data = movielens("100k")
    rows, ratios = [], []
    for number, held in enumerate(repeated_hold_out(data.user, data.item, n_folds=n_splits)):
        ours, theirs = errors(data, held, seed=number)
        ratios.append(ours / theirs)
        rows.append([str(number), f"{ours:.4f}", f"{theirs:.4f}", f"{ratios[-1]:.4f}"])
    note = (
        f"{SETTINGS}; {EPOCHS} epochs, seed = number of the split. Each split holds out 10 % of the ratings and leaves "
        f"every user and item one. Predictions are not clipped. Peer: {version('scikit-surprise')}."
    )
    check = error_check("ratio of the RMSEs, the furthest from 1", ratios)
    return Part("Errors, MovieLens 100k", ["split", "boundrec", "Surprise", "ratio"], rows, [check], [note])


def compare_times(repeats: int) -> Part:
    data = movielens("1m")
    ratings, trainset = Ratings.read(data.pairs, data.rating), surprise_trainset(data.pairs, data.rating)
    times = seconds_per_sweep(
        {
            "boundrec": lambda epochs: boundrec_model(epochs, 0).fit(ratings),
            "Surprise": lambda epochs: surprise_model(epochs, 0).fit(trainset),
        },
        repeats,
    )
    # Both have one thread, and processor time does not depend on what else the machine is doing.
    ratio = times["boundrec"].processor / times["Surprise"].processor
    rows = [[name, f"{took.clock:.3f}", f"{took.processor:.3f}"] for name, took in times.items()]
    note = (
        f"{SETTINGS}; all 1,000,209 ratings, one thread each. Best of {repeats} fits of 11 epochs less the best of "
        f"{repeats} of one, divided by ten; the two took turns. Ours also shuffles, and takes the objective."
    )
    columns = ["seconds an epoch", "clock", "processor"]
    return Part(
        "Times, MovieLens 1M", columns, rows, [time_check("boundrec / Surprise, processor time", ratio)], [note]
    )


def main() -> int:
    parts = {"a": compare_errors(n_splits=5), "b": compare_times(repeats=5)}
    for part in parts.values():
        print(f"\n{part.markdown()}")
    save_parts(parts, "rivals_mf")
    return 0 if all(check.passed for part in parts.values() for check in part.checks) else 1


if __name__ == "__main__":
    sys.exit(main())
