"""The paper's protocol on Jester: half is history, 10 % of the present half is held out, K = 10, 20, 50.

``python -m benchmarks.jester`` fits the paper's settings and the exact solver, and writes results/jester.md with the
paper's own figures beside them; numbers choose K.
"""

from __future__ import annotations

import sys
import time
import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.measure import Check, Part, real_data, save_parts
from boundrec import MBMF
from boundrec.data.ratings import Ratings
from boundrec.datasets import Dataset
from boundrec.metrics import f1, mae, out_of_range_share, rmse, user_means
from boundrec.splits import history_and_present, hold_out

#: RMSE, MAE and F1 (%) of the paper's table, for K = 10, 20, 50.
PAPER = {
    "n": {10: (4.6474, 3.7467, 65.58), 20: (4.6399, 3.7473, 65.71), 50: (4.6344, 3.7404, 65.60)},
    "c": {10: (4.6816, 3.8045, 64.08), 20: (4.6695, 3.8014, 64.47), 50: (4.6773, 3.8039, 64.16)},
}


class Split(NamedTuple):
    """History, training ratings and held-out pairs of one run of the paper's protocol."""

    history: Ratings
    ratings: Ratings
    train_pairs: NDArray[np.int32]
    train_ratings: NDArray[np.float64]
    test_pairs: NDArray[np.int32]
    test_ratings: NDArray[np.float64]


def paper_split(data: Dataset, seed: int = 0) -> Split:
    """Half of the ratings are history; 10 % of the others are held out."""
    present = history_and_present(data.user, data.item, 0.5, seed)
    pairs, rating = data.pairs[present], data.rating[present]
    held = hold_out(pairs[:, 0], pairs[:, 1], 0.1, seed)
    history = Ratings.read(data.pairs[~present], data.rating[~present])
    ratings = Ratings.read(pairs[~held], rating[~held])
    return Split(history, ratings, pairs[~held], rating[~held], pairs[held], rating[held])


def every_prediction(model: MBMF, n_users: int, n_items: int) -> NDArray[np.float64]:
    """Predictions for all pairs, users × items."""
    users, items = np.divmod(np.arange(n_users * n_items, dtype=np.int32), np.int32(n_items))
    return np.asarray(model.predict(np.column_stack((users, items)))).reshape(n_users, n_items)


def measure(model: MBMF, split: Split, data: Dataset) -> dict[str, float]:
    """Fit a model; its errors, F1 with the user's training mean as threshold, and what leaves the scale."""
    began = time.perf_counter()
    model.fit(split.ratings, history=split.history)
    seconds = time.perf_counter() - began
    predicted, users = model.predict(split.test_pairs), split.test_pairs[:, 0]
    means = user_means(split.train_pairs[:, 0], split.train_ratings, data.n_users)
    everything = every_prediction(model, data.n_users, data.n_items)
    lower, upper = data.bounds
    return {
        "rmse": rmse(split.test_ratings, predicted),
        "mae": mae(split.test_ratings, predicted),
        "f1": 100 * f1(split.test_ratings, predicted, users, means[users]),
        "below": out_of_range_share(everything, lower, None),
        "above": out_of_range_share(everything, None, upper),
        "seconds": seconds,
        "iterations": model.n_iter_,
    }


def part(data: Dataset, n_factors: int, split: Split) -> Part:
    """All models at one K."""
    common: dict[str, Any] = {"bounds": data.bounds, "random_state": 0}
    exact: dict[str, Any] = {**common, "magnitudes": "paper", "max_iter": 20, "tol": 0}
    models = {
        "as in paper, n": MBMF.as_in_paper(n_factors, form="n", **common),
        "as in paper, c": MBMF.as_in_paper(n_factors, form="c", **common),
        **{
            f"exact {constraint}, {form}": MBMF(n_factors, form=form, constraint=constraint, **exact)
            for constraint in ("sphere", "ball")
            for form in ("n", "c")
        },
    }
    rows, found = [], {}
    for form in ("n", "c"):
        rmse_, mae_, f1_ = PAPER[form][n_factors]
        rows.append([f"paper's MBMF-{form}", f"{rmse_:.4f}", f"{mae_:.4f}", f"{f1_:.2f}", "", "", "", ""])
    for name, model in models.items():
        got = found[name] = measure(model, split, data)
        cells = [f"{got['rmse']:.4f}", f"{got['mae']:.4f}", f"{got['f1']:.2f}", f"{got['below']:.2%}"]
        rows.append([name, *cells, f"{got['above']:.2%}", str(int(got["iterations"])), f"{got['seconds']:.1f}"])
        print(rows[-1], flush=True)
    columns = ["model", "RMSE", "MAE", "F1, %", "below the scale", "above", "iterations", "seconds"]
    return Part(f"K = {n_factors}", columns, rows, _checks(found) if n_factors == 10 else [])


def _checks(found: dict[str, dict[str, float]]) -> list[Check]:
    targets = {"as in paper, n": (4.65, 3.75), "exact sphere, n": (4.31, 3.42)}
    return [
        Check(f"{name}: {metric.upper()}", f"{found[name][metric]:.4f}", f"≤ {most}", found[name][metric] <= most)
        for name, limits in targets.items()
        for metric, most in zip(("rmse", "mae"), limits, strict=True)
    ]


def main(arguments: list[str]) -> None:
    warnings.simplefilter("ignore")
    data = real_data("jester1")
    if data is None:
        print("Skipped: there is no jester1.npz in BOUNDREC_DATA.")
        return
    split = paper_split(data)
    for n_factors in [int(argument) for argument in arguments] or [10, 20, 50]:
        result = part(data, n_factors, split)
        result.notes = [
            "One fold, magnitudes from history as published (they may pass the scale). Shares are of all users × "
            "jokes, seconds are those of `fit` on `Ratings`, all cores."
        ]
        print(f"\n{result.markdown()}", flush=True)
        save_parts({f"K = {n_factors}": result}, "jester")


if __name__ == "__main__":
    main(sys.argv[1:])
