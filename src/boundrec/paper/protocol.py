"""How methods are compared: the data and their folds, one fit, and what is measured on it.

Nothing is clipped. What the paper leaves open follows the resolutions named at each place.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from boundrec import datasets, metrics, splits
from boundrec.arrays import Floats
from boundrec.datasets import Bounds, Dataset
from boundrec.notes import Interrupted
from boundrec.paper.methods import METHODS, Conditions, conditions, model_of
from boundrec.ranges import check_bounds
from boundrec.rivals import RivalModel

#: Settings that models had not when results were first kept, and with which they do what they did before.
ADDED_LATER = {
    "link": None,
    "noise_growth": "auto",
    "implicit": "off",
    "noise": "one",
    "affinity": False,
    "rating_weight": 0.1,
}
#: The same of the rivals alone: MBMF always had the first, and its results tell of it; the other is Bounded-SVD's.
ADDED_TO_RIVALS = {"tol_mode": "relative", "scaled": True}
#: Models that do otherwise than when results were first kept, with the same settings: which revision they are in, and
#: whether that tells. BayesianMBMF draws a user's noise towards others' as by 60 ratings, rows by other numbers, and
#: works their means out by draws that are common to all; NMF takes nothing away any more from ratings whose lower end
#: is above 0.
REVISIONS: dict[str, tuple[int, Callable[[Any], bool]]] = {
    "BayesianMBMF": (3, lambda model: True),
    "NMF": (2, lambda model: (check_bounds(model.bounds)[0] or 0.0) > 0),
}
#: Up to so many users × items every prediction is looked at; above, as many at random.
ALL_PAIRS = 2_000_000
#: A prediction is out of range when it passes an end by more than this share of the range: rounding is not.
ROUNDING = 1e-9
#: BookCrossing's most frequent rating, in the place of its zeros: the paper counts them, and has a range of [1, 10].
FILLED_WITH = 8.0
#: Of so many users the ten highest predictions are searched for ties.
LISTS, TOP = 200, 10
#: Fewer where items are so many that their predictions would be more than this.
MOST_LISTED = 5_000_000


# --- data -----------------------------------------------------------------------------------------------------


class PaperData(NamedTuple):
    """A data set of the comparison: its title, its name in the paper's tables, and how it is split.

    ``core`` keeps users and items with at least so many ratings. ``protect`` leaves each of them a training rating;
    without it pairs with a cold side occur, and are reported on their own line.
    """

    title: str
    published: str | None = None
    core: int = 1
    protect: bool = True


PAPER_DATA: dict[str, PaperData] = {
    "jester1": PaperData("Jester", "Jester"),
    "movielens_100k": PaperData("MovieLens 100k"),
    "movielens_1m": PaperData("MovieLens 1M"),
    "bookcrossing_paper": PaperData("BookCrossing (zeros kept)", "BookCrossing"),
    "bookcrossing_filled": PaperData("BookCrossing (zeros as 8)", "BookCrossing"),
    "bookcrossing_explicit": PaperData("BookCrossing (explicit)", "BookCrossing", core=3, protect=False),
    "lastfm_hetrec": PaperData("Last.fm counts", core=3, protect=False),
    "ali_mob": PaperData("Ali Mob", "Ali Mob"),
    "movielens_sample": PaperData("MovieLens sample"),
    "synthetic": PaperData("Synthetic, rank 20"),
}


@cache  # the owners' spreadsheets take a minute to read, and every part of a run asks for them
def whole(name: str, folder: Path | None) -> Dataset:
    """A data set of `PAPER_DATA`, all of it."""
    if name == "bookcrossing_filled":
        kept = datasets.load("bookcrossing_paper", folder)
        rating = np.where(kept.rating == 0, FILLED_WITH, kept.rating)
        return replace(kept, name=name, rating=rating, bounds=(1, 10))
    return datasets.synthetic(rank=20, random_state=0) if name == "synthetic" else datasets.load(name, folder)


@cache
def load(name: str, folder: Path | None) -> Dataset:
    """A data set of `PAPER_DATA`, cut to its core; users and items are numbered anew."""
    data, core = whole(name, folder), PAPER_DATA[name].core
    if core == 1:
        return data
    kept = splits.at_least(data.user, data.item, core)
    user, item = (np.unique(code[kept], return_inverse=True)[1].astype(np.int32) for code in (data.user, data.item))
    return Dataset(name, user, item, data.rating[kept], data.bounds)


class Absence(NamedTuple):
    """Why a data set cannot be had here: its files are not there, or what is there cannot be read."""

    reason: str
    damaged: bool

    def __str__(self) -> str:
        """For the report."""
        return "not readable" if self.damaged else "not present"


@cache
def missing(name: str, folder: Path | None) -> Absence | None:
    """Why a data set cannot be had here; None when it can."""
    try:
        whole(name, folder)
    except (FileNotFoundError, ImportError) as error:
        return Absence(str(error), damaged=False)
    except (OSError, ValueError) as error:
        return Absence(str(error), damaged=True)
    return None


class Extent(NamedTuple):
    """How large a data set is, and a number that tells it from others of that size."""

    n_users: int
    n_items: int
    n_ratings: int
    check: int


@cache
def extent(name: str, folder: Path | None) -> Extent | None:
    """What is known of a data set before its cells are run; None where it is not here."""
    return None if missing(name, folder) else extent_of(load(name, folder))


def extent_of(data: Dataset) -> Extent:
    """The extent of a data set."""
    check = 0
    for column in (data.user, data.item, data.rating):
        check = crc32(column.tobytes(), check)
    return Extent(data.n_users, data.n_items, data.rating.size, check)


def basis(model: Any, of: Extent | None = None) -> dict[str, Any]:
    """What a result rests on besides its cell's settings: the model's own settings, its revision, and the data."""
    settings = model.get_params() if hasattr(model, "get_params") else {}
    added = {**ADDED_LATER, **(ADDED_TO_RIVALS if isinstance(model, RivalModel) else {})}
    untold = {"n_jobs", "verbose", *(key for key, usual in added.items() if settings.get(key) == usual)}
    told = {key: value for key, value in settings.items() if key not in untold}
    name = type(model).__name__
    found = {"model": name, "settings": told, "data": None if of is None else list(of)}
    revision, tells = REVISIONS.get(name, (1, lambda model: False))
    return {**found, "revision": revision} if tells(model) else found


@dataclass(frozen=True)
class Fold:
    """One fold: history, training ratings and the ratings to be judged by."""

    data: Dataset
    history: NDArray[np.intp]
    training: NDArray[np.intp]
    test: NDArray[np.intp]

    def part(self, entries: NDArray[np.intp]) -> tuple[NDArray[np.int32], Floats]:
        """Pairs and ratings of some entries."""
        return np.column_stack((self.data.user[entries], self.data.item[entries])), self.data.rating[entries]

    def shifted(self) -> Fold:
        """The same fold of ratings less their lower end, of which all errors are the same."""
        low, high = self.data.bounds
        assert low is not None
        bounds = 0.0, None if high is None else high - low
        return replace(self, data=replace(self.data, rating=self.data.rating - low, bounds=bounds))


@lru_cache(maxsize=2)
def fold_of(name: str, fold: int, folder: Path | None) -> Fold:
    """Half history, half present (the same in every fold); a tenth of the present is held out, by fold."""
    data = load(name, folder)
    present = splits.history_and_present(data.user, data.item, 0.5, 0)
    entries = np.flatnonzero(present)
    rng = np.random.default_rng([1, fold])
    held = splits.hold_out(data.user[entries], data.item[entries], 0.1, rng, protect=PAPER_DATA[name].protect)
    return Fold(data, np.flatnonzero(~present), entries[~held], entries[held])


# --- one fit and what it is worth -------------------------------------------------------------------------------


class TimedFit(NamedTuple):
    """A fitted model and what fitting took."""

    model: Any
    seconds: float
    cpu_seconds: float
    iterations: int

    @property
    def times(self) -> dict[str, Any]:
        """For the record."""
        return {"seconds": self.seconds, "cpu_seconds": self.cpu_seconds, "iterations": self.iterations}


def fit(model: Any, X: Any, y: Any = None, **more: Any) -> TimedFit:
    """Fit and time a model; warnings are left to the tables, and Ctrl-C ends the run, not only the fit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", Interrupted)
        began, cpu = time.perf_counter(), time.process_time()
        try:
            model.fit(X, y, **more)
        except Interrupted as interrupted:
            raise KeyboardInterrupt from interrupted
        return TimedFit(model, time.perf_counter() - began, time.process_time() - cpu, int(model.n_iter_))


@cache
def warm_up(name: str) -> None:
    """Compile or load what a method needs, so that only fitting is timed."""
    model = METHODS[name].build(Conditions(2, (0.0, 10.0), (0.0, 10.0), 0))
    if hasattr(model, "set_params"):
        fit(model.set_params(max_iter=2), np.argwhere(np.ones((10, 10))).astype(np.int32), np.arange(100) % 7.0)


def fit_on(fold: Fold, settings: Mapping[str, Any]) -> TimedFit:
    """Fit the model of a cell to its fold."""
    warm_up(settings["method"])
    method = METHODS[settings["method"]]
    model = model_of(settings, conditions(fold.data, settings["factors"], settings["fold"]))
    X, y = fold.part(fold.training)
    past = fold.part(fold.history)
    if method.history == "training":
        return fit(model, np.concatenate((X, past[0])), np.concatenate((y, past[1])))
    if method.history:
        return fit(model, X, y, history=past if method.history == "magnitudes" else (X, y))
    return fit(model, X, y)


def judge(fitted: TimedFit, fold: Fold) -> dict[str, Any]:
    """Everything that the tables say about one fit, for the record."""
    X, y = fold.part(fold.test)
    X_train, y_train = fold.part(fold.training)
    means = metrics.user_means(X_train[:, 0], y_train, fold.data.n_users)[X[:, 0]]
    cold = ~(np.isin(X[:, 0], X_train[:, 0]) & np.isin(X[:, 1], X_train[:, 1]))
    prediction = fitted.model.predict(X)
    warm = ~cold
    result = {
        **errors(y[warm], prediction[warm], X[warm, 0], means[warm]),
        "n_test": int(warm.sum()),
        "clipped": errors(y[warm], np.clip(prediction[warm], *fold.data.bounds), X[warm, 0], means[warm]),
        "cold": {"n_test": int(cold.sum())},
        "outside": share_outside(prediction, fold.data.bounds),
        "everywhere": reach(fitted.model, fold.data),
        "tied": ties(fitted.model, fold.data),
        "shape": [fold.data.n_users, fold.data.n_items, int(fold.data.rating.size)],
        "n_training": int(fold.training.size),
        "n_history": int(fold.history.size),
        "infeasible": getattr(fitted.model, "infeasible_share_", None),
        **fitted.times,
    }
    if cold.any():
        result["cold"] |= errors(y[cold], prediction[cold], X[cold, 0], means[cold])
    return result


def errors(y: Floats, p: Floats, user: NDArray[np.integer], means: Floats) -> dict[str, float | None]:
    """RMSE, MAE and F1 in per cent (user's training mean as threshold, strict: resolution A29), micro and macro."""
    if not np.isfinite(p).all():
        return dict.fromkeys(("rmse", "mae", "f1", "f1_macro"))
    return {
        "rmse": metrics.rmse(y, p),
        "mae": metrics.mae(y, p),
        "f1": 100 * metrics.f1(y, p, user, means),
        "f1_macro": 100 * metrics.f1(y, p, user, means, average="macro"),
    }


def reach(model: Any, data: Dataset) -> dict[str, Any]:
    """Shares of all users × items whose prediction is below or above the bounds; of a sample where they are many."""
    n_pairs = data.n_users * data.n_items
    cells = np.arange(min(n_pairs, ALL_PAIRS))
    if n_pairs > ALL_PAIRS:
        cells = np.random.default_rng(0).integers(n_pairs, size=ALL_PAIRS)
    X = np.column_stack((cells // data.n_items, cells % data.n_items)).astype(np.int32)
    prediction = model.predict(X)
    below, above = shares_outside(prediction, data.bounds)
    finite = prediction[np.isfinite(prediction)]
    ends = (float(finite.min()), float(finite.max())) if finite.size else (None, None)
    return {"below": below, "above": above, "lowest": ends[0], "highest": ends[1], "n_pairs": int(cells.size)}


def shares_outside(p: Floats, bounds: Bounds) -> tuple[float, float] | tuple[None, None]:
    """Shares of predictions below the lower and above the upper end, rounding aside; None where some are not finite."""
    if not np.isfinite(p).all():
        return None, None
    low, high = bounds
    room = ROUNDING * (high - low if low is not None and high is not None else 1.0)
    below = metrics.out_of_range_share(p, None if low is None else low - room, None)
    return below, metrics.out_of_range_share(p, None, None if high is None else high + room)


def share_outside(p: Floats, bounds: Bounds) -> float | None:
    """Share of predictions that pass either end."""
    below, above = shares_outside(p, bounds)
    return None if below is None or above is None else below + above


def ties(model: Any, data: Dataset) -> dict[str, float | None]:
    """Share of the entries of some users' ten highest predictions that equal another one, raw and once clipped."""
    n_lists = min(data.n_users, LISTS, max(1, MOST_LISTED // data.n_items))
    users = np.random.default_rng(0).choice(data.n_users, n_lists, replace=False)
    X = np.column_stack((np.repeat(users, data.n_items), np.tile(np.arange(data.n_items), users.size)))
    scores = model.predict(X.astype(np.int32)).reshape(users.size, data.n_items)
    if not np.isfinite(scores).all():
        return {"raw": None, "clipped": None}
    n = min(TOP, data.n_items)
    return {"raw": metrics.tie_share(scores, n), "clipped": metrics.tie_share(np.clip(scores, *data.bounds), n)}
