"""How good models are on ratings that they have not seen: what evaluate, compare and tune have in common."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray

from boundrec import metrics, splits
from boundrec.cli.speaking import say
from boundrec.cli.training import Ends, Request, train
from boundrec.demo.comparison import MEANS, MeanAndOffsets
from boundrec.report.words import percent

if TYPE_CHECKING:
    from boundrec.ratings import Ratings
    from boundrec.tables import Ids, RatingTable

Floats = NDArray[np.float64]

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


def _codes(of_test: Ids, of_training: Ids) -> NDArray[np.int64]:
    """Row numbers that the training part has for the ids of the test part; −1 for those it does not know."""
    return of_training.distinct.codes(of_test.distinct.ids)[of_test.codes]


def _rated(of_test: Ids, of_training: Ids) -> NDArray[np.bool_]:
    codes, counts = _codes(of_test, of_training), np.bincount(of_training.codes, minlength=len(of_training.distinct))
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
    """One model on one test part."""

    name: str
    rmse: float
    mae: float
    outside: float
    ranking: dict[str, float] = field(default_factory=dict)
    seconds: float = math.nan
    reach: list[float] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """All figures by name."""
        return {
            "model": self.name,
            "rmse": self.rmse,
            "mae": self.mae,
            "outside_bounds": self.outside,
            **self.ranking,
            "seconds": self.seconds,
        }


# --- one model ------------------------------------------------------------------------------------------------


def measure_means(split: Split, bounds: Ends) -> Measured:
    """The mean with user and item offsets: what every model has to be better than."""
    users, items = split.training.users, split.training.items
    n_users, n_items = len(users.distinct), len(items.distinct)
    model = MeanAndOffsets(n_users + 1, n_items + 1)  # the last of each, −1, stands for everybody new
    model.fit(np.column_stack((users.codes, items.codes)), split.training.ratings)
    predictions = model.predict(np.column_stack((_codes(split.test.users, users), _codes(split.test.items, items))))
    rng = np.random.default_rng(0)
    pairs = np.column_stack((rng.integers(0, n_users, RANDOM_PAIRS), rng.integers(0, n_items, RANDOM_PAIRS)))
    random = model.predict(pairs)
    return _measured(MEANS, split.test.ratings, predictions, random, bounds)


def fit_and_measure(request: Request, split: Split, n: int | None, history: Ratings | None = None) -> Measured:
    """Fit a model to the training part and measure it on the other; lists of n where n is given."""
    model = request.model()
    seconds = train(model, split.training.to_ratings(), request.name.value, history)
    found = measure(model, request.name.value, split.test, request.bounds, n)
    found.seconds = seconds
    return found


def measure(model: Any, name: str, test: RatingTable, bounds: Ends, n: int | None) -> Measured:
    """Measure a fitted model; lists of n where n is given."""
    from boundrec.columns import pair_array

    rng = np.random.default_rng(0)
    users, items = model.user_ids_.ids, model.item_ids_.ids
    random = model.predict(
        pair_array(users[rng.integers(0, len(users), RANDOM_PAIRS)], items[rng.integers(0, len(items), RANDOM_PAIRS)])
    )
    found = _measured(name, test.ratings, model.predict(test.pairs()), random, bounds)
    if n is not None:
        found.ranking = _ranking(model, test, n)
    return found


def _measured(name: str, ratings: Floats, predictions: Floats, random: Floats, bounds: Ends) -> Measured:
    return Measured(
        name,
        metrics.rmse(ratings, predictions),
        metrics.mae(ratings, predictions),
        metrics.out_of_range_share(random, *bounds),
        reach=np.quantile(random, QUANTILES).tolist(),
    )


def _ranking(model: Any, test: RatingTable, n: int) -> dict[str, float]:
    """How many liked items of the test part are in lists of all unseen items; liked is rated above the mean."""
    user, item = test.users.column(), test.items.column()
    row = model.user_ids_.codes(user)
    liked = (row >= 0) & (model.item_ids_.codes(item) >= 0) & (test.ratings >= model.mean_)
    if not liked.any():
        say("No held-out rating of a known user and item is at or above the mean: lists cannot be measured.")
        return {}
    rows = np.unique(row[liked])
    if len(rows) > MOST_LISTS:
        rows = np.sort(np.random.default_rng(0).choice(rows, MOST_LISTS, replace=False))
        liked &= np.isin(row, rows)
    users = model.user_ids_.ids[rows]
    lists, _ = model.recommend(users, n=n)
    held = user[liked], item[liked], users, lists
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
    """One line of the table of results."""
    ranking = [f"{result.ranking[name]:.4f}" if name in result.ranking else "" for name in _ranking_names(results)]
    outside = percent(result.outside) if result.outside else "none"
    seconds = "" if math.isnan(result.seconds) else f"{result.seconds:.1f}"
    return [result.name, f"{result.rmse:.4f}", f"{result.mae:.4f}", outside, *ranking, seconds]


def _ranking_names(results: list[Measured]) -> list[str]:
    return list(dict.fromkeys(name for result in results for name in result.ranking))
