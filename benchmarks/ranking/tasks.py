"""The data sets, how a tenth is held out of each, and whose lists are looked at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from boundrec import datasets, splits
from boundrec.arrays import Codes, Floats
from boundrec.datasets import Bounds

#: Share that is held out, for the test and once more for the choice of settings; and the seed of the latter.
SHARE, VALIDATION_SEED = 0.1, 100
SEEDS = (0, 1, 2)
STARS = {"bounds": (1, 5)}


class Task(NamedTuple):
    """A data set: whether its numbers are ratings (of which those at or above the mean are liked) or all are clicks.

    Of ratings a tenth is drawn freely; of clicks so that every user and every item keeps one to learn from.
    ``numbers`` says to models of ratings what the numbers are. ``weights`` are the α that are tried for least squares
    over all pairs, ``shares`` the penalties of a typical row as a share of its clicks, ``factors`` the K of that grid,
    and ``more_factors`` another K, tried with every α and the share of ``ImplicitMBMF``; ``neighbours`` are the numbers
    of neighbours. ``n_lists`` is the number of users, drawn at random, whose lists are looked at; None for all who have
    something held out. ``fewest`` counts the users or the items, whichever are fewer, and ``seconds`` are those of a
    fit of K = 64, about.
    """

    title: str
    data: str
    ratings: bool
    numbers: Mapping[str, Any]
    fewest: int
    seconds: float
    weights: tuple[float, ...]
    shares: tuple[float, ...]
    factors: int = 64
    more_factors: int | None = 128
    neighbours: tuple[int, ...] = (20, 100, 400, 1000)
    n_lists: int | None = None


TASKS = {
    "movielens-100k": Task(
        "MovieLens 100k", "movielens_100k", True, STARS, 943, 3, (0.4, 1.6, 3.2), (0.06, 0.13, 0.26)
    ),
    "lastfm": Task(
        "Last.fm",
        "lastfm_hetrec",
        False,
        {"bounds": (0, None), "link": "log1p"},
        1_892,
        10,
        (0.05, 0.1, 0.4, 0.8),
        (0.06, 0.13, 0.26, 0.52),
        more_factors=None,
    ),
    "movielens-1m": Task(
        "MovieLens 1M", "movielens_1m", True, STARS, 3_706, 30, (1.6, 3.2), (0.06, 0.13), more_factors=None
    ),
    "bookcrossing": Task(
        "BookCrossing, zeros as clicks",
        "bookcrossing_paper",
        False,
        {"bounds": (0, 10)},
        92_184,
        120,
        (0.1, 0.3),
        (0.13, 0.26),
        factors=32,
        more_factors=None,
        neighbours=(20, 100),
        n_lists=5_000,
    ),
}


class Data(NamedTuple):
    """Pairs to learn from with their numbers, and pairs that good lists have in them, as codes.

    ``users`` are those whose lists are looked at; pairs of others are not in ``X_test``.
    """

    X: NDArray[np.int32]
    y: Floats
    X_test: NDArray[np.int32]
    users: Codes
    shape: tuple[int, int]
    bounds: Bounds

    @property
    def known(self) -> NDArray[np.bool_]:
        """Which items have a pair to learn from."""
        return np.bincount(self.X[:, 1], minlength=self.shape[1]) > 0


def split(name: str, seed: int) -> Data:
    """One split of a data set: the same for every method."""
    data = datasets.load(TASKS[name].data)
    return _divided(name, data.pairs, data.rating, seed, (data.n_users, data.n_items), data.bounds)


def validation_split(name: str) -> Data:
    """A tenth of what the first split learns from, held out to choose settings by; its test part stays unseen."""
    data = split(name, SEEDS[0])
    return _divided(name, data.X, data.y, VALIDATION_SEED, data.shape, data.bounds)


def _divided(name: str, X: NDArray[np.int32], y: Floats, seed: int, shape: tuple[int, int], bounds: Bounds) -> Data:
    task = TASKS[name]
    held = splits.hold_out(X[:, 0], X[:, 1], SHARE, seed, protect=not task.ratings)
    liked = held & (y >= y[~held].mean()) if task.ratings else held
    users = np.unique(X[liked, 0]).astype(np.intp)
    if task.n_lists is not None and task.n_lists < len(users):
        users = np.sort(np.random.default_rng(0).choice(users, task.n_lists, replace=False))
        liked &= np.isin(X[:, 0], users)
    return Data(X[~held], y[~held], X[liked], users, shape, bounds)
