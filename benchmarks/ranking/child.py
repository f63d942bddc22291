"""One job in a process of its own: a fit and its lists, or the tuning of a method.

The job comes as JSON on stdin, the figures go as JSON to a file.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.measure import peak_memory
from benchmarks.ranking import tasks
from benchmarks.ranking.methods import METHODS, Method
from benchmarks.ranking.tasks import TASKS, Data
from boundrec import metrics

#: Length of the lists by which NDCG, coverage and novelty are, and of those for recall.
TOP, LONGER = 10, 20
#: Draws of users for an interval: the same users in every cell of a split, so that differences are of pairs.
RESAMPLES = 400


def judge(job: dict[str, Any]) -> dict[str, Any]:
    """Fit a method to one split and measure its lists."""
    data = tasks.split(job["task"], job["seed"])
    method, record = fitted(job, job["settings"], data)
    began = time.process_time()
    lists = method.lists(data.users, LONGER)
    return {
        **record,
        "list_seconds": time.process_time() - began,
        "settings": job["settings"],
        "version": method.version,
        "n_training": len(data.X),
        "n_held_out": len(data.X_test),
        "n_lists": len(data.users),
        "ways": {way: measured(data, found) for way, found in lists.items()},
    }


def tune(job: dict[str, Any]) -> dict[str, Any]:
    """NDCG@10 on the validation part for every settings of the grid, and the best of them."""
    data = tasks.validation_split(job["task"])
    points = []
    for settings in job["grid"]:
        method, record = fitted(job, settings, data)
        found = measured(data, method.lists(data.users, LONGER)[""])
        points.append({"settings": settings, "ndcg": found["ndcg"], "cpu_seconds": record["cpu_seconds"]})
    return {"points": points, "chosen": max(points, key=lambda point: point["ndcg"])["settings"]}


def fitted(job: dict[str, Any], settings: dict[str, Any], data: Data) -> tuple[Method, dict[str, Any]]:
    """A fitted method, and what fitting took."""
    method = METHODS[job["method"]](TASKS[job["task"]], job["seed"], settings)
    method.prepare(data)
    before, began = peak_memory(), time.process_time()
    method.fit()
    record = {"cpu_seconds": time.process_time() - began, "memory": peak_memory(), "memory_before": before}
    return method, record


def measured(data: Data, lists: NDArray[np.int64]) -> dict[str, Any]:
    """What the lists of a split's users are worth."""
    held = data.X_test[:, 0], data.X_test[:, 1], data.users, lists
    ndcg = metrics.measure_lists(*held, TOP).ndcg
    return {
        "ndcg": float(ndcg.mean()),
        "resampled": metrics.bootstrap_means(ndcg, RESAMPLES).round(5).tolist(),
        "recall": metrics.recall_at_k(*held, LONGER),
        "coverage": metrics.catalogue_coverage(lists, np.flatnonzero(data.known), TOP),
        "novelty": metrics.novelty(data.X[:, 0], data.X[:, 1], lists, TOP),
    }


def main(answer: Path) -> None:
    job = json.load(sys.stdin)
    result = {"fit": judge, "tune": tune}[job["kind"]](job)
    answer.write_text(json.dumps(result))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
