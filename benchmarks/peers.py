"""What the comparisons with scikit-surprise and cmfrec share: late imports, versions, ratings in Surprise's form."""

from __future__ import annotations

import sys
from importlib import import_module, metadata
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.measure import Check, real_data
from boundrec.datasets import Dataset

#: How far an error may be from the peer's, and how much longer a sweep may take.
TOLERATED_ERROR, TOLERATED_TIME = 0.01, 2.0


def peer(module: str, package: str) -> Any:
    """A peer, imported late: without it a benchmark can still be read and checked."""
    try:
        return import_module(module)
    except ModuleNotFoundError:
        sys.exit(f'{package} is not installed: pip install "boundrec[peers]"')


def version(package: str) -> str:
    """A peer with its version."""
    return f"{package} {metadata.version(package)}"


def movielens(size: str) -> Dataset:
    """MovieLens 100k or 1m; without its file the benchmark ends."""
    data = real_data(f"movielens_{size}")
    if data is None:
        sys.exit(f"There is no movielens_{size}.npz: put it in a folder and name that in BOUNDREC_DATA.")
    return data


def surprise_trainset(X: NDArray[np.int32], y: NDArray[np.float64]) -> Any:
    """Ratings as a Trainset, inner ids made by Surprise itself."""
    surprise = peer("surprise", "scikit-surprise")
    entries = zip(X[:, 0].tolist(), X[:, 1].tolist(), y.tolist(), strict=True)
    loaded = surprise.Dataset(surprise.Reader(rating_scale=(1, 5)))
    return loaded.construct_trainset([(user, item, rating, None) for user, item, rating in entries])


def error_check(what: str, ratios: list[float]) -> Check:
    """Whether errors are the peer's, by the ratio that is furthest from one."""
    furthest = max(ratios, key=lambda ratio: abs(ratio - 1))
    within = bool(abs(furthest - 1) <= TOLERATED_ERROR)
    return Check(what, f"{furthest:.4f}", f"1 ± {TOLERATED_ERROR}", within)


def time_check(what: str, ratio: float) -> Check:
    """Whether a sweep takes about the peer's time."""
    return Check(what, f"{ratio:.2f}×", f"≤ {TOLERATED_TIME:g}×", ratio <= TOLERATED_TIME)
