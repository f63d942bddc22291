"""One job in a process of its own: a fit and everything that is measured on it, or the tuning of a method.

The job comes as JSON on stdin, the figures go as JSON to a file, so that nothing a package prints gets between them.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.accuracy import tasks
from benchmarks.accuracy.methods import METHODS, Method, Setup
from benchmarks.accuracy.tasks import Data
from benchmarks.measure import peak_memory
from boundrec import metrics
from boundrec.arrays import Floats
from boundrec.datasets import Bounds
from boundrec.paper.protocol import errors

#: Predictions of users × items held at a time.
AT_A_TIME = 2_000_000
TOP = 10
LEVELS = (0.5, 0.8, 0.95)
#: Half-widths of those intervals, in standard deviations of a normal.
HALF_WIDTHS = (0.6744897501960817, 1.2815515655446004, 1.959963984540054)
#: Pairs, at most, for which quantiles are asked.
QUANTILE_PAIRS = 20_000


def judge(job: dict[str, Any]) -> dict[str, Any]:
    """Fit a method to one split and measure it."""
    data = tasks.split(job["task"], job["split"])
    method, record = fitted(job, job["settings"], data)
    prediction = method.predict(data.X_test)
    return {
        **record,
        "settings": job["settings"],
        "version": method.version,
        "n_training": len(data.y),
        **accuracy(data, prediction),
        "coverage": coverage(method, data, prediction),
        "everywhere": everywhere(method, data, tasks.users_looked_at(job["task"], data.shape[0])),
        **method.figures(),
    }


def tune(job: dict[str, Any]) -> dict[str, Any]:
    """RMSE on the validation part for every settings of the grid; those that differ only in answering share a fit."""
    data = tasks.validation_split(job["task"])
    points, groups = [], _by_fit(job["grid"], METHODS[job["method"]].late)
    for group in groups:
        method, record = fitted(job, group[0], data)
        for settings in group:
            method.settings = dict(settings)
            error = _rmse(data.y_test, method.predict(data.X_test))
            points.append({"settings": settings, "rmse": error, "seconds": record["seconds"]})
    usable = [point for point in points if point["rmse"] is not None]
    return {"points": points, "chosen": min(usable, key=lambda point: point["rmse"])["settings"]}


def _by_fit(grid: list[dict[str, Any]], late: tuple[str, ...]) -> list[list[dict[str, Any]]]:
    """The grid in groups that one fit serves."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for settings in grid:
        key = json.dumps({name: value for name, value in settings.items() if name not in late})
        groups.setdefault(key, []).append(settings)
    return list(groups.values())


def fitted(job: dict[str, Any], settings: dict[str, Any], data: Data) -> tuple[Method, dict[str, Any]]:
    """A fitted method, and what fitting took."""
    setup = Setup(job["factors"], job["sweeps"], job.get("split", 0), job["threads"])
    method = METHODS[job["method"]](setup, settings)
    load = os.getloadavg()[0]
    method.prepare(data)
    before, began, cpu = peak_memory(), time.perf_counter(), time.process_time()
    method.fit()
    record = {
        "seconds": time.perf_counter() - began,
        "cpu_seconds": time.process_time() - cpu,
        "memory": peak_memory(),
        "memory_before": before,
        "load_before": load,
    }
    method.finish()
    return method, record


# --- what is measured -------------------------------------------------------------------------------------------


def accuracy(data: Data, prediction: Floats) -> dict[str, Any]:
    """RMSE, MAE and F1 on all held-out pairs, on the warm and the cold ones, and after clipping into the bounds."""
    means = metrics.user_means(data.X[:, 0], data.y, data.shape[0])[data.X_test[:, 0]]
    warm = data.warm
    clipped = np.clip(prediction, *data.bounds)

    def measured(p: Floats, chosen: NDArray[np.bool_]) -> dict[str, Any]:
        found = {"n": int(chosen.sum())}
        return found | errors(data.y_test[chosen], p[chosen], data.X_test[chosen, 0], means[chosen])

    everyone = np.ones(len(warm), dtype=bool)
    return {
        "all": measured(prediction, everyone),
        "warm": measured(prediction, warm),
        "cold": measured(prediction, ~warm) if not warm.all() else {"n": 0},
        "clipped": measured(clipped, everyone),
        "clipped_warm": measured(clipped, warm),
    }


def _rmse(y: Floats, p: Floats) -> float | None:
    return metrics.rmse(y, p) if np.isfinite(p).all() else None


def coverage(method: Method, data: Data, prediction: Floats) -> dict[str, Any] | None:
    """Shares of the held-out ratings inside the intervals of 50, 80 and 95 %: by standard deviation, by quantiles."""
    std = method.predict_std(data.X_test)
    if std is None:
        return None
    distance = np.abs(data.y_test - prediction) / std
    shares: dict[str, Any] = {"mean_std": float(std.mean())}
    for name, chosen in (("std", np.ones(len(std), dtype=bool)), ("std_warm", data.warm)):
        shares[name] = [float(np.mean(distance[chosen] <= width)) for width in HALF_WIDTHS]
    some = np.random.default_rng(0).permutation(len(std))[:QUANTILE_PAIRS]
    ends = [(1 + sign * level) / 2 for level in LEVELS for sign in (-1, 1)]
    quantiles = method.predict_quantiles(data.X_test[some], ends)
    if quantiles is None:
        return shares
    y = data.y_test[some, None]
    held = (y >= quantiles[:, ::2]) & (y <= quantiles[:, 1::2])
    shares["quantiles"] = held.mean(axis=0).tolist()
    noise = method.user_noise()
    if noise is not None:
        shares |= by_noise(held, noise[data.X_test[some, 0]])
    return shares


def by_noise(held: NDArray[np.bool_], noise: Floats) -> dict[str, Any]:
    """The same for the fifths of the pairs whose users have the least and the most noise, and the mean noise of each.

    ``noise`` is that of each pair's user; pairs of users who were not there at fit are in neither.
    """
    least, most = np.nanquantile(noise, (0.2, 0.8))
    fifths = {"least_noise": noise <= least, "most_noise": noise >= most}
    return {
        name: {"quantiles": held[chosen].mean(axis=0).tolist(), "noise": float(noise[chosen].mean())}
        for name, chosen in fifths.items()
    }


def everywhere(method: Method, data: Data, users: NDArray[np.intp]) -> dict[str, Any]:
    """How many of the predictions for users × all items leave the bounds, and ties in the top lists of those users.

    A list has the ten highest of the items with ratings in training that the user has not rated there; whoever has
    fewer has no list. Ties are counted as predicted and after clipping into the bounds.
    """
    low, high = data.bounds
    outside, extremes, lists = 0, [np.inf, -np.inf], []
    step = max(1, AT_A_TIME // data.shape[1])
    seen = _seen_items(data)
    for start in range(0, len(users), step):
        some = users[start : start + step]
        scores = method.predict_all(some)
        outside += _outside(scores, data.bounds)
        extremes = [min(extremes[0], float(scores.min())), max(extremes[1], float(scores.max()))]
        lists.append(_top_scores(scores, some, seen, data.seen[1]))
    top = np.concatenate(lists)
    n_pairs = len(users) * data.shape[1]
    finite = bool(np.isfinite(extremes).all())
    return {
        "users": len(users),
        "pairs": n_pairs,
        "outside": outside / n_pairs,
        "lowest": extremes[0] if finite else None,
        "highest": extremes[1] if finite else None,
        "lists": len(top),
        "ties": metrics.tie_share(top) if len(top) else None,
        "ties_clipped": metrics.tie_share(np.clip(top, low, high)) if len(top) else None,
    }


def _outside(scores: Floats, bounds: Bounds) -> int:
    """How many leave the bounds, by however little."""
    low, high = bounds
    below = 0 if low is None else np.count_nonzero(scores < low)
    return int(below + (0 if high is None else np.count_nonzero(scores > high)))


def _seen_items(data: Data) -> Any:
    """The items that each user rated in training, by user."""
    order = np.argsort(data.X[:, 0], kind="stable")
    ends = np.cumsum(np.bincount(data.X[:, 0], minlength=data.shape[0]))
    return np.split(data.X[order, 1], ends[:-1])


def _top_scores(scores: Floats, users: NDArray[np.intp], seen: Any, known: NDArray[np.bool_]) -> Floats:
    """The ten highest scores of each user who has ten items to choose from."""
    scores[:, ~known] = -np.inf
    for row, user in enumerate(users):
        scores[row, seen[user]] = -np.inf
    top = np.partition(scores, -TOP, axis=1)[:, -TOP:]
    return np.asarray(top[np.isfinite(top).all(axis=1)])


def main(answer: Path) -> None:
    job = json.load(sys.stdin)
    result = {"judge": judge, "tune": tune}[job["kind"]](job)
    answer.write_text(json.dumps(result, default=float))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
