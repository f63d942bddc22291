"""The data sets of the comparison, how they are split, and what is asked of `BayesianMBMF` on them."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from boundrec import BayesianMBMF, datasets, splits
from boundrec.arrays import Floats
from boundrec.datasets import Bounds
from boundrec.paper import protocol

Pairs = NDArray[np.int32]
#: The two whose comparison matters most, and the same two with more or less to learn from.
SAMPLERS = ("BayesianMBMF", "myFM")
TWINS = ("BayesianMBMF, ratings alone", "myFM, with sets")


class Task(NamedTuple):
    """A data set with its split, and the K and the sweeps of those that sample.

    ``paper_split``: half is history, which nobody sees; a tenth of the present half is held out, and every user and
    item keeps a rating. Otherwise a tenth of all ratings, drawn freely: users and items without ratings occur.
    ``looked_at`` is the number of users, drawn at random, whose predictions for all items are looked at; None for all
    users. ``methods`` are those that are compared, None for all; ``gain`` is how far below that of ratings alone the
    RMSE is asked to be, 0 for no farther above than chance explains.
    """

    title: str
    data: str
    n_ratings: int  # to fit, about
    n_rows: int  # users and items together
    n_factors: int
    sweeps: int
    paper_split: bool = False
    looked_at: int | None = None
    target: float = np.inf
    gain: float = 0.0
    methods: tuple[str, ...] | None = None
    tuned_as: str | None = None  # the task whose tuning is taken over


TASKS = {
    "movielens-100k": Task("MovieLens 100k", "movielens_100k", 45_000, 2_625, 20, 100, True, target=0.905),
    "movielens-100k-90": Task("MovieLens 100k", "movielens_100k", 90_000, 2_625, 20, 60, gain=0.010),
    "movielens-1m": Task("MovieLens 1M", "movielens_1m", 900_000, 9_746, 20, 60, target=0.8355),
    "jester": Task("Jester", "jester1", 1_860_000, 73_521, 10, 40, True, target=4.19),
    "bookcrossing": Task(
        "BookCrossing, explicit ratings", "bookcrossing_explicit", 390_000, 263_778, 10, 40, looked_at=200, target=1.62
    ),
    "movielens-1m-k32": Task(
        "MovieLens 1M",
        "movielens_1m",
        900_000,
        9_746,
        32,
        120,
        gain=0.0125,
        methods=(*SAMPLERS, *TWINS),
        tuned_as="movielens-1m",
    ),
    "movielens-1m-defaults": Task(
        "MovieLens 1M, as BayesianMBMF comes",
        "movielens_1m",
        900_000,
        9_746,
        BayesianMBMF().n_factors,
        BayesianMBMF().most_iterations(),
        gain=0.008,
        methods=("BayesianMBMF", "BayesianMBMF, ratings alone"),
    ),
}


class Data(NamedTuple):
    """Ratings to fit and ratings to be judged by, as codes; ``shape`` counts all users and items of the data set."""

    X: Pairs
    y: Floats
    X_test: Pairs
    y_test: Floats
    shape: tuple[int, int]
    bounds: Bounds

    @property
    def seen(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which users and which items have a rating to fit."""
        users, items = (np.bincount(self.X[:, side], minlength=self.shape[side]) > 0 for side in (0, 1))
        return users, items

    @property
    def warm(self) -> NDArray[np.bool_]:
        """Which of the pairs to be judged by have both a user and an item with ratings to fit."""
        users, items = self.seen
        return np.asarray(users[self.X_test[:, 0]] & items[self.X_test[:, 1]])


@lru_cache(maxsize=1)
def split(name: str, number: int) -> Data:
    """One split of a task's data set: the same for every method."""
    task = TASKS[name]
    if task.paper_split:
        fold = protocol.fold_of(task.data, number, None)
        shape = fold.data.n_users, fold.data.n_items
        return Data(*fold.part(fold.training), *fold.part(fold.test), shape, fold.data.bounds)
    data = datasets.load(task.data)
    held = splits.hold_out(data.user, data.item, 0.1, np.random.default_rng([1, number]), protect=False)
    X, y, shape = data.pairs, data.rating, (data.n_users, data.n_items)
    return Data(X[~held], y[~held], X[held], y[held], shape, data.bounds)


def validation_split(name: str) -> Data:
    """A tenth of the ratings to fit of the first split, held out to choose settings by; its test part stays unseen."""
    data = split(name, 0)
    held = splits.hold_out(data.X[:, 0], data.X[:, 1], 0.1, np.random.default_rng([2, 0]), protect=False)
    return data._replace(X=data.X[~held], y=data.y[~held], X_test=data.X[held], y_test=data.y[held])


def users_looked_at(name: str, n_users: int) -> NDArray[np.intp]:
    """The users whose predictions for all items are looked at."""
    count = TASKS[name].looked_at
    if count is None or count >= n_users:
        return np.arange(n_users)
    return np.sort(np.random.default_rng(0).choice(n_users, count, replace=False))
