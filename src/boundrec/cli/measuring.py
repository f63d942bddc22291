"""How good models are on ratings that they have not seen: what evaluate, compare and tune have in common."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray

from boundrec import metrics, splits
from boundrec.cli.speaking import in_one_sentence, say
from boundrec.cli.training import Ends, Request, train
from boundrec.demo.comparison import MEANS, MeanAndOffsets
from boundrec.recommend import Seen
from boundrec.report.words import percent

if TYPE_CHECKING:
    from boundrec.ids import IdIndex
    from boundrec.ratings import Ratings
    from boundrec.tables import Ids, RatingTable

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

#: What the table calls the items in the order of their numbers of training ratings.
POPULARITY = "popularity"
#: In a table, of a model that could not be fitted or measured, and where there is nothing to tell.
FAILED, NO_FIGURE = "failed", "-"
#: Users whose lists are measured: so many tell as much as all of them.
MOST_LISTS = 10_000
#: Random pairs of any user and any item, to see where predictions lie.
RANDOM_PAIRS = 200_000
#: Parts of the predictions that the plot of a comparison shows.
QUANTILES = (0.0, 0.05, 0.5, 0.95, 1.0)


class Split(NamedTuple):
    """Ratings to learn from and ratings to be judged by."""

    training: RatingTable
    test: RatingTable

    def cold(self) -> NDArray[np.bool_]:
        """Which test ratings have a user or an item without a training rating."""
        known = [_rated(self.test.users, self.training.users), _rated(self.test.items, self.training.items)]
        return ~(known[0] & known[1])


def _codes(of_test: Ids, known: IdIndex) -> Codes:
    """Row numbers that the training part has for the ids of the test part; −1 for those it does not know."""
    return known.codes(of_test.distinct.ids)[of_test.codes]


def _rated(of_test: Ids, of_training: Ids) -> NDArray[np.bool_]:
    counts = np.bincount(of_training.codes, minlength=len(of_training.distinct))
    codes = _codes(of_test, of_training.distinct)
    return (codes >= 0) & (counts[codes] > 0)


def divide(table: RatingTable, share: float, seed: int) -> Split:
    """Hold out random ratings, or the latest where the table has times."""
    if not 0 < share < 1:
        raise typer.BadParameter(f"--share {share:g}: give a share above 0 and below 1.")
    if table.times is not None:
        held = splits.last_share(table.times, share)
    else:
        held = splits.hold_out(table.users.codes, table.items.codes, share, seed, protect=False)
    return Split(table.where(~held), table.where(held))


def split_in_words(split: Split) -> str:
    """How many ratings are on each side, and how many of the test ratings nothing is known about."""
    cold = float(split.cold().mean())
    how = "the latest" if split.training.times is not None else "random ones"
    what = f"{len(split.training):,} ratings to learn from, {len(split.test):,} held out ({how})"
    return what + (f"; {percent(cold)} of these have a user or an item that is new" if cold else "")


@dataclass
class Measured:
    """One model on one test part: NaN and nothing for what it does not have, and why, where it failed."""

    name: str
    rmse: float = math.nan
    mae: float = math.nan
    outside: float = math.nan
    ranking: dict[str, float] = field(default_factory=dict)
    seconds: float = math.nan
    reach: list[float] = field(default_factory=list)
    error: str | None = None

    def as_json(self) -> dict[str, Any]:
        """All figures by name."""
        return {
            "model": self.name,
            "rmse": self.rmse,
            "mae": self.mae,
            "outside_bounds": self.outside,
            **self.ranking,
            "seconds": self.seconds,
            **({} if self.error is None else {"error": self.error}),
        }


class Learnt(NamedTuple):
    """What models learn from: who has rated what, and, where that is known, how."""

    users: IdIndex
    items: IdIndex
    seen: Seen
    mean: float
    ratings: Ratings | None

    @classmethod
    def of(cls, ratings: Ratings) -> Learnt:
        """All of some ratings."""
        return cls(ratings.users, ratings.items, Seen.of(ratings), float(np.mean(ratings.by_user.data)), ratings)

    @classmethod
    def by(cls, model: Any) -> Learnt:
        """What a fitted model keeps of its ratings."""
        return cls(model.user_ids_, model.item_ids_, model._seen, model.mean_, model._ratings)

    def counts(self) -> Codes:
        """Number of ratings of each item."""
        return np.bincount(self.seen.indices, minlength=len(self.items))


@dataclass(frozen=True)
class Trial:
    """What every model of a table is judged by: the same held-out ratings and the same liked items.

    ``n`` is the length of the lists; None measures none.
    """

    learnt: Learnt
    test: RatingTable
    bounds: Ends
    n: int | None

    @classmethod
    def of(cls, split: Split, bounds: Ends, n: int | None) -> Trial:
        """Of the two parts of a table."""
        return cls(Learnt.of(split.training.to_ratings()), split.test, bounds, n)

    @cached_property
    def liked(self) -> Liked | None:
        """What good lists have in them; None, and a word about it, where nothing is known of that."""
        row, column = self.test_codes()
        known = (row >= 0) & (np.diff(self.learnt.seen.indptr)[row] > 0)
        known &= (column >= 0) & (self.learnt.counts()[column] > 0)
        liked = known & (self.test.ratings >= self.learnt.mean)
        if not liked.any():
            say("No held-out rating of a known user and item is at or above the mean: lists cannot be measured.")
            return None
        rows = np.unique(row[liked])
        if len(rows) > MOST_LISTS:
            rows = np.sort(np.random.default_rng(0).choice(rows, MOST_LISTS, replace=False))
            liked &= np.isin(row, rows)
        return Liked(self.test.users.column()[liked], self.test.items.column()[liked], rows)

    def test_codes(self) -> tuple[Codes, Codes]:
        """Row numbers of the users and the items of the held-out ratings; −1 for those that are new."""
        return _codes(self.test.users, self.learnt.users), _codes(self.test.items, self.learnt.items)


class Liked(NamedTuple):
    """Held-out pairs of ids that are rated at or above the mean, and the row numbers of their users."""

    user: NDArray[Any]
    item: NDArray[Any]
    rows: Codes


# --- what is trivial ------------------------------------------------------------------------------------------


def measure_trivial(trial: Trial) -> list[Measured]:
    """What every model has to be better than; the offsets only where the ratings behind them are known."""
    means = [] if trial.learnt.ratings is None else [_measure_means(trial, trial.learnt.ratings)]
    return [*means, *([] if trial.n is None else [_measure_popularity(trial)])]


def _measure_means(trial: Trial, ratings: Ratings) -> Measured:
    """The mean with user and item offsets, and lists by these predictions."""
    began = time.perf_counter()
    users, items = trial.learnt.users, trial.learnt.items
    model = MeanAndOffsets(len(users) + 1, len(items) + 1)  # the last of each, −1, stands for everybody new
    pairs = np.column_stack((ratings.user_of_rating(), ratings.by_user.indices))
    model.fit(pairs, ratings.by_user.data.astype(np.float64))
    seconds = time.perf_counter() - began
    random = model.predict(np.column_stack(_random_pairs(len(users), len(items))))
    found = _measured(MEANS, trial, model.predict(np.column_stack(trial.test_codes())), random)
    found.ranking = _ranking_by(model.items[:-1], trial)
    found.seconds = seconds
    return found


def _measure_popularity(trial: Trial) -> Measured:
    """The items that most have rated, for everybody: lists without ratings."""
    began = time.perf_counter()
    counts = trial.learnt.counts()
    seconds = time.perf_counter() - began
    return Measured(POPULARITY, ranking=_ranking_by(counts, trial), seconds=seconds)


def _ranking_by(scores: NDArray[Any], trial: Trial) -> dict[str, float]:
    """Measures of lists in one order for everybody: rated items by score, equal scores in the order of the items."""
    if trial.n is None or trial.liked is None:
        return {}
    rated = np.flatnonzero(trial.learnt.counts())
    order = rated[np.argsort(-scores[rated], kind="stable")]
    lists = first_unseen(order, trial.learnt.seen, trial.liked.rows, trial.n)
    ids = trial.learnt.items.ids.astype(object)[lists]
    ids[lists < 0] = None
    return _ranking(ids, trial.learnt.users.ids[trial.liked.rows], trial.liked, trial.n)


def first_unseen(order: Codes, seen: Seen, users: Codes, n: int) -> Codes:
    """The first n items of one order that each user has not rated; −1 where there are no more."""
    lists = np.full((len(users), min(n, len(order))), -1)
    for row, user in enumerate(users):
        rated = seen.indices[seen.indptr[user] : seen.indptr[user + 1]]
        near = order[: n + len(rated)]
        unseen = near[~np.isin(near, rated)][:n]
        lists[row, : len(unseen)] = unseen
    return lists


# --- one model ------------------------------------------------------------------------------------------------


def fit_and_measure(request: Request, trial: Trial, history: Ratings | None = None) -> Measured:
    """Fit a model to the training part and measure it on the other."""
    assert trial.learnt.ratings is not None
    model = request.model()
    seconds = train(model, trial.learnt.ratings, request.name.value, history)
    found = measure(model, request.name.value, trial)
    found.seconds = seconds
    return found


def fit_or_fail(request: Request, trial: Trial) -> Measured:
    """As `fit_and_measure`, but whatever goes wrong is a result as well: the others of a table go on."""
    try:
        return fit_and_measure(request, trial)
    except Exception as error:
        return Measured(request.name.value, error=in_one_sentence(error))


def measure(model: Any, name: str, trial: Trial) -> Measured:
    """Measure a fitted model."""
    from boundrec.columns import pair_array

    ids = model.user_ids_.ids, model.item_ids_.ids
    users, items = (of[codes] for of, codes in zip(ids, _random_pairs(*map(len, ids)), strict=True))
    found = _measured(name, trial, model.predict(trial.test.pairs()), model.predict(pair_array(users, items)))
    if trial.n is not None and trial.liked is not None:
        users = trial.learnt.users.ids[trial.liked.rows]
        lists, _ = model.recommend(users, n=trial.n)
        found.ranking = _ranking(lists, users, trial.liked, trial.n)
    return found


def _random_pairs(n_users: int, n_items: int) -> tuple[Codes, Codes]:
    rng = np.random.default_rng(0)
    return rng.integers(0, n_users, RANDOM_PAIRS), rng.integers(0, n_items, RANDOM_PAIRS)


def _measured(name: str, trial: Trial, predictions: Floats, random: Floats) -> Measured:
    return Measured(
        name,
        metrics.rmse(trial.test.ratings, predictions),
        metrics.mae(trial.test.ratings, predictions),
        metrics.out_of_range_share(random, *trial.bounds),
        reach=np.quantile(random, QUANTILES).tolist(),
    )


def _ranking(lists: NDArray[Any], users: NDArray[Any], liked: Liked, n: int) -> dict[str, float]:
    """How many liked items are in the lists of some users."""
    held = liked.user, liked.item, users, lists
    return {
        f"ndcg@{n}": metrics.ndcg_at_k(*held, n),
        f"recall@{n}": metrics.recall_at_k(*held, n),
        f"precision@{n}": metrics.precision_at_k(*held, n),
        f"mrr@{n}": metrics.mrr(*held, n),
    }


# --- printing -------------------------------------------------------------------------------------------------


def columns(results: list[Measured], bounds: Ends) -> list[str]:
    """The heads of the table of results."""
    ends = "..".join("" if end is None else f"{end:g}" for end in bounds)
    ranking = [name.upper() if name.startswith(("ndcg", "mrr")) else name for name in _ranking_names(results)]
    return ["model", "RMSE", "MAE", f"outside {ends}", *ranking, "seconds"]


def row(result: Measured, results: list[Measured]) -> list[str]:
    """One line of the table of results: a dash where a model has no such figure."""
    rmse, mae, seconds = short_row(result)
    outside = "none" if result.outside == 0 else _shown(result.outside, percent)
    ranking = [_shown(result.ranking.get(name, math.nan)) for name in _ranking_names(results)]
    return [result.name, rmse, mae, outside, *ranking, seconds]


def short_row(result: Measured, first: Sequence[str] = ()) -> list[str]:
    """RMSE, MAE and seconds, after what comes first in the line."""
    rmse = _shown(result.rmse) if result.error is None else FAILED
    return [*first, rmse, _shown(result.mae), _shown(result.seconds, "{:.1f}".format)]


def _shown(value: float, form: Callable[[float], str] = "{:.4f}".format) -> str:
    """A figure of a table; a dash for NaN."""
    return NO_FIGURE if math.isnan(value) else form(value)


def _ranking_names(results: list[Measured]) -> list[str]:
    return list(dict.fromkeys(name for result in results for name in result.ranking))
