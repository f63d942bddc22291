"""How good models are on ratings that they have not seen: measuring one, trying several, and the table of results."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray

from boundrec import metrics, splits
from boundrec.arrays import Bools, Codes, Floats
from boundrec.baselines import MeanPredictor, first_unseen
from boundrec.cli.bounds import Ends, Limits, comes_with_rows
from boundrec.cli.console import in_one_sentence, print_json, print_table, say
from boundrec.cli.model_request import Request, declares, takes_ranges, train
from boundrec.notes import four_digits, percent
from boundrec.registry import is_of_clicks
from boundrec.top_n import Seen

if TYPE_CHECKING:
    from boundrec.cli.rating_tables import RatingTable
    from boundrec.data.ids import IdIndex
    from boundrec.data.ratings import Ratings

#: What the table calls the mean with user and item offsets.
MEANS = "mean + offsets"
#: What the table calls the mean share of each pair's own range.
MEAN_SHARE = "mean share"
#: What the table calls the items in the order of their numbers of training ratings.
POPULARITY = "popularity"
#: Users whose lists are measured: so many tell as much as all of them.
MOST_LISTS = 10_000
#: Random pairs of any user and any item, to see where predictions lie.
RANDOM_PAIRS = 200_000
#: Parts of the predictions that the plot of a comparison shows.
QUANTILES = (0.0, 0.05, 0.5, 0.95, 1.0)
#: Places in ranges that are further out are drawn here: 0 is the lower end of a range, and 1 the upper one.
FARTHEST = (-1.0, 2.0)
#: In a table, of a model that could not be fitted or measured, and where there is nothing to tell.
FAILED, NO_FIGURE = "failed", "-"
#: The exit code of what Ctrl-C has ended, as shells have it.
INTERRUPTED = 130


class Parts(NamedTuple):
    """Ratings to learn from and ratings to be judged by."""

    training: Ratings
    test: Ratings
    how: str  # the test ratings were chosen

    def cold(self) -> Bools:
        """Which test ratings have a user or an item without a training rating."""
        of_users, of_items = (np.diff(side.indptr) for side in (self.training.by_user, self.training.by_item))
        user, item = _codes(self.test, self.training.users, self.training.items)
        return ~((user >= 0) & (of_users[user] > 0) & (item >= 0) & (of_items[item] > 0))

    def in_words(self) -> str:
        """How many ratings are on each side, and how many of the test ratings nothing is known about."""
        cold = float(self.cold().mean())
        what = f"{self.training.n_ratings:,} ratings to learn from, {self.test.n_ratings:,} held out ({self.how})"
        return what + (f"; {percent(cold)} of these have a user or an item that is new" if cold else "")

    def as_json(self) -> dict[str, Any]:
        """The same for machines."""
        return {
            "training_ratings": self.training.n_ratings,
            "test_ratings": self.test.n_ratings,
            "new_share": float(self.cold().mean()),
        }


def _codes(of: Ratings, users: IdIndex, items: IdIndex) -> tuple[Codes, Codes]:
    """Row numbers that others have for the user and the item of each rating; −1 for those they do not know."""
    return users.codes(of.users.ids)[of.user_of_rating()], items.codes(of.items.ids)[of.by_user.indices]


def divide(table: RatingTable, share: float, seed: int) -> Parts:
    """Hold out random ratings, or the latest where the table has times."""
    if not 0 < share < 1:
        raise typer.BadParameter(f"--share {share:g}: give a share above 0 and below 1.")
    ratings, times = table.ratings, table.read.times
    assert ratings.rows is not None
    as_read = np.argsort(ratings.rows)  # a split is of the rows of a file, in their order
    held = np.zeros(ratings.n_ratings, bool)
    if times is not None:
        held[as_read] = splits.last_share(times[ratings.rows[as_read]], share)
    else:
        users, items = ratings.user_of_rating()[as_read], ratings.by_user.indices[as_read]
        held[as_read] = splits.hold_out(users, items, share, seed, protect=False)
    return Parts(ratings.keep(~held), ratings.keep(held), "random ones" if times is None else "the latest")


@dataclass
class Measured:
    """One model on one test part: NaN and nothing for what it does not have, and why, where it failed."""

    name: str
    rmse: float = math.nan
    mae: float = math.nan
    f1: float = math.nan
    outside: float = math.nan
    ranking: dict[str, float] = field(default_factory=dict)
    seconds: float = math.nan
    reach: list[float] = field(default_factory=list)
    error: str | None = None

    def figure(self, name: str) -> float:
        """A figure of the lists, such as "ndcg"; NaN where there is none."""
        found = [value for key, value in self.ranking.items() if key.partition("@")[0] == name]
        return found[0] if found else math.nan

    def as_json(self) -> dict[str, Any]:
        """All figures by name."""
        return {
            "model": self.name,
            "rmse": self.rmse,
            "mae": self.mae,
            "f1": self.f1,
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
        """What a fitted model keeps of its ratings; no mean of theirs where it has only one of shares or logarithms."""
        fitted = model.fitted_
        mean = fitted.mean if fitted.ranges.scale.is_plain else math.nan
        if fitted.ratings is not None:
            mean = float(np.mean(fitted.ratings.by_user.data))
        return cls(fitted.users.ids, fitted.items.ids, fitted.seen, mean, fitted.ratings)

    def holds(self, users: Codes, items: Codes) -> Bools:
        """Which of some pairs of row numbers, −1 for those that are new, it has a rating of."""
        owner, item = self.pairs()
        pairs = owner * len(self.items) + item  # ascending, as both are
        wanted = users.astype(np.int64) * len(self.items) + items
        place = np.minimum(np.searchsorted(pairs, wanted), pairs.size - 1)
        return np.asarray((users >= 0) & (items >= 0) & (pairs[place] == wanted))

    def counts(self) -> Codes:
        """Number of ratings of each item."""
        return np.bincount(self.seen.indices, minlength=len(self.items))

    def pairs(self) -> tuple[Codes, Codes]:
        """Row numbers of the user and the item of each rating."""
        return np.repeat(np.arange(len(self.users)), np.diff(self.seen.indptr)), self.seen.indices.astype(np.int64)


@dataclass(frozen=True)
class Trial:
    """What every model of a table is judged by: the same held-out ratings and the same liked items.

    ``n`` is the length of the lists; None measures none.
    """

    learnt: Learnt
    test: Ratings
    bounds: Ends
    n: int | None
    #: Look at the predictions of all pairs of a user and an item, and not only of random ones.
    every_pair: bool = False
    #: What is known of users and items, for models that take it.
    features: Mapping[str, Any] | None = None
    #: Held-out ratings of at least this are what good lists have in them; None for the mean, and of clicks for all.
    liked_from: float | None = None
    #: Whether values are no ratings but say how often somebody chose something.
    clicks: bool = False

    @classmethod
    def of(
        cls,
        parts: Parts,
        limits: Limits,
        n: int | None,
        features: Mapping[str, Any] | None = None,
        liked_from: float | None = None,
        clicks: bool = False,
    ) -> Trial:
        """Of the two parts of a table, and of what is known besides."""
        trial = cls._within(Learnt.of(parts.training), parts.test, limits, n)
        return replace(trial, features=features, liked_from=liked_from, clicks=clicks)

    @classmethod
    def by(cls, model: Any, test: Ratings, limits: Limits, n: int | None, liked_from: float | None = None) -> Trial:
        """Of a fitted model: on what it was not fitted to, or in sample and without lists where that is nothing."""
        learnt, clicks = Learnt.by(model), is_of_clicks(model)
        what = "clicks" if clicks else "ratings"
        known = learnt.holds(*_codes(test, learnt.users, learnt.items))
        if known.all() and clicks:
            raise ValueError(
                "The model was fitted to all of these clicks, and lists leave out what was seen, so that they say "
                "nothing of it: give clicks that were left out of the fit, or leave --fitted out, which holds some out."
            )
        if known.all():
            say(
                "In sample: the model was fitted to all of these ratings, so errors are smaller than those to expect "
                "on new ones, and lists, which leave out what was seen, are not measured."
            )
            n = None
        elif known.any():
            say(f"The model was fitted to {known.sum():,} of these {known.size:,} {what}: measured are the others.")
            test = test.keep(~known)
        trial = cls._within(learnt, test, limits, n)
        return replace(trial, liked_from=liked_from, clicks=clicks)

    @classmethod
    def _within(cls, learnt: Learnt, test: Ratings, limits: Limits, n: int | None) -> Trial:
        if n is not None and comes_with_rows(limits.rule):
            say("No lists: only pairs in the table have a range; a --bounds-file of items or users has one for all.")
            n = None
        return cls(learnt, test, limits.bounds, n)

    @cached_property
    def liked(self) -> Liked | None:
        """What good lists have in them; None, and a word about it, where nothing is."""
        row, column = self.test_codes()
        known = (row >= 0) & (np.diff(self.learnt.seen.indptr)[row] > 0)
        known &= (column >= 0) & (self.learnt.counts()[column] > 0)
        liked = known & (self.test.by_user.data >= self._least_liked())
        if not liked.any() and self.liked_from is not None:
            raise typer.BadParameter(
                f"--liked {self.liked_from:g}: no held-out rating of a known user and item is that high"
                + (f", the highest is {self.test.by_user.data[known].max():g}." if known.any() else ".")
            )
        if not liked.any():
            what = "click is of" if self.clicks else "rating of"
            high = "" if self.clicks else " is at or above the mean"
            say(f"No held-out {what} a known user and item{high}: lists cannot be measured.")
            return None
        rows = np.unique(row[liked])
        if len(rows) > MOST_LISTS:
            rows = np.sort(np.random.default_rng(0).choice(rows, MOST_LISTS, replace=False))
            liked &= np.isin(row, rows)
        return Liked(row[liked], column[liked], rows)

    def _least_liked(self) -> float:
        """The lowest rating of what good lists have in them."""
        if self.liked_from is not None:
            return self.liked_from
        if self.clicks:  # what was chosen was chosen
            return -math.inf
        return float(np.mean(self.test.by_user.data)) if math.isnan(self.learnt.mean) else self.learnt.mean

    @cached_property
    def thresholds(self) -> Floats | None:
        """The mean training rating of the user of each held-out rating, that of all where the user is new.

        None where F1 is undefined: no training ratings are known, or no held-out one is above its threshold.
        """
        ratings = self.learnt.ratings
        if ratings is None:
            return None
        known = ratings.by_user.data.astype(np.float64)
        means = metrics.user_means(ratings.user_of_rating(), known, len(ratings.users))
        row = self.test_codes()[0]
        thresholds = np.where(row >= 0, means[row], known.mean())
        return thresholds if (self.test.by_user.data > thresholds).any() else None

    @cached_property
    def pairs(self) -> tuple[Codes, Codes]:
        """Row numbers of users and items, to see where predictions lie."""
        n_users, n_items = len(self.learnt.users), len(self.learnt.items)
        if self.every_pair:
            users, items = np.divmod(np.arange(n_users * n_items), n_items)
            return users, items
        rng = np.random.default_rng(0)
        return rng.integers(0, n_users, RANDOM_PAIRS), rng.integers(0, n_items, RANDOM_PAIRS)

    def predict_pairs(self, predict: Callable[[Codes, Codes], Floats]) -> Floats:
        """The predictions of these pairs, so many at a time."""
        users, items = self.pairs
        blocks = (slice(start, start + RANDOM_PAIRS) for start in range(0, users.size, RANDOM_PAIRS))
        return np.concatenate([predict(users[block], items[block]) for block in blocks])

    def test_codes(self) -> tuple[Codes, Codes]:
        """Row numbers of the users and the items of the held-out ratings; −1 for those that are new."""
        return _codes(self.test, self.learnt.users, self.learnt.items)


class Liked(NamedTuple):
    """Row numbers of the held-out pairs that good lists have in them, and of their users, each once."""

    user: Codes
    item: Codes
    rows: Codes


# --- what is trivial ------------------------------------------------------------------------------------------


def measure_trivial(trial: Trial) -> list[Measured]:
    """What every model has to be better than; offsets only of ratings, and where those behind them are known."""
    ratings = None if trial.clicks else trial.learnt.ratings
    means = [] if ratings is None else [_measure_means(trial, ratings)]
    if ratings is not None and ratings.ends is not None and trial.test.ends is not None:
        means.append(_measure_share(trial, ratings))
    return [*means, *([] if trial.n is None else [_measure_popularity(trial)])]


def _measure_means(trial: Trial, ratings: Ratings) -> Measured:
    """The mean with user and item offsets, and lists by these predictions."""
    began = time.perf_counter()
    pairs = np.column_stack((ratings.user_of_rating(), ratings.by_user.indices))
    model = MeanPredictor().fit(pairs, ratings.by_user.data.astype(np.float64))
    seconds = time.perf_counter() - began
    found = _measured(
        MEANS,
        trial,
        model.predict(np.column_stack(trial.test_codes())),
        lambda users, items: model.predict(np.column_stack((users, items))),
    )
    found.ranking = _ranking_by(model.items, trial)
    found.seconds = seconds
    return found


def _measure_share(trial: Trial, ratings: Ratings) -> Measured:
    """As much of each pair's own range as the ratings fill of theirs in all: seats times the overall load."""
    began = time.perf_counter()
    assert ratings.ends is not None
    assert trial.test.ends is not None
    lower, upper = ratings.ends
    room = float((upper - lower).sum())
    share = min(max(float((ratings.by_user.data - lower).sum()) / room, 0.0), 1.0) if room else 0.0
    seconds = time.perf_counter() - began
    lower, upper = trial.test.ends
    found = _measured(MEAN_SHARE, trial, np.clip(lower + share * (upper - lower), lower, upper))
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
    return _ranking(first_unseen(order, trial.learnt.seen, trial.liked.rows, trial.n), trial.liked, trial)


# --- one model ------------------------------------------------------------------------------------------------


def fit_and_measure(request: Request, trial: Trial, history: Ratings | None = None) -> Measured:
    """Fit a model to the training part and measure it on the other."""
    assert trial.learnt.ratings is not None
    model = request.model()
    seconds = train(model, trial.learnt.ratings, request.name, history, trial.features)
    return measure(model, request.name, trial, seconds)


def fit_or_fail(request: Request, trial: Trial) -> Measured:
    """As `fit_and_measure`, but whatever goes wrong is a result as well: the others of a table go on."""
    try:
        return fit_and_measure(request, trial)
    except Exception as error:
        return Measured(request.name, error=in_one_sentence(error))


def measure(model: Any, name: str, trial: Trial, seconds: float = math.nan) -> Measured:
    """Measure a fitted model, which took so many seconds to fit; one of clicks by its lists alone."""
    found = Measured(name) if is_of_clicks(model) else _measured_model(model, name, trial)
    found.seconds = seconds
    if trial.n is not None and trial.liked is not None:
        users = trial.learnt.users.ids[trial.liked.rows]
        lists, _ = model.recommend(users, n=trial.n)
        codes = trial.learnt.items.codes(lists.ravel()).reshape(lists.shape)
        found.ranking = _ranking(codes, trial.liked, trial)
    return found


def _measured_model(model: Any, name: str, trial: Trial) -> Measured:
    """Errors of a model of ratings."""
    from boundrec.data.columns import pair_array

    user_ids, item_ids = trial.learnt.users.ids, trial.learnt.items.ids
    own = trial.test.ends is not None and declares(model.predict, "lower")
    ranges = trial.test.ends._asdict() if own and trial.test.ends else {}
    return _measured(
        name,
        trial,
        model.predict(trial.test.to_pairs()[0], **ranges),
        lambda users, items: model.predict(pair_array(user_ids[users], item_ids[items])),
    )


def _measured(
    name: str, trial: Trial, predictions: Floats, predict: Callable[[Codes, Codes], Floats] | None = None
) -> Measured:
    """Errors on the held-out ratings, and where predictions lie: those of random pairs, which ``predict`` gives.

    Where every pair has a range of its own, only those of the held-out pairs are known, and places in them are shown.
    """
    rating, ends = trial.test.by_user.data, trial.test.ends
    found = Measured(name, metrics.rmse(rating, predictions), metrics.mae(rating, predictions))
    if trial.thresholds is not None:
        found.f1 = metrics.f1(rating, predictions, trial.test.user_of_rating(), trial.thresholds)
    if ends is None:
        assert predict is not None
        random = trial.predict_pairs(predict)
        found.outside = metrics.out_of_range_share(random, *trial.bounds)
        found.reach = np.quantile(random, QUANTILES).tolist()
        return found
    found.outside = metrics.out_of_range_share(predictions, *ends)
    wide = ends.upper > ends.lower
    places = (predictions[wide] - ends.lower[wide]) / (ends.upper - ends.lower)[wide]
    found.reach = np.quantile(np.clip(places, *FARTHEST), QUANTILES).tolist() if wide.any() else [0.5] * len(QUANTILES)
    return found


def _ranking(lists: Codes, liked: Liked, trial: Trial) -> dict[str, float]:
    """What lists of row numbers are worth: how much that is liked is in them, and what they show of the catalogue."""
    n, learnt = trial.n, trial.learnt
    found = metrics.measure_lists(liked.user, liked.item, liked.rows, lists, n)
    _, low, high = metrics.bootstrap_interval(found.ndcg)
    means = {"ndcg": found.ndcg, "recall": found.recall, "precision": found.precision, "mrr": found.reciprocal_rank}
    means |= {"map": found.average_precision, "hit_rate": found.hit}
    return {
        **{f"{name}@{n}": float(np.mean(values)) for name, values in means.items()},
        f"ndcg_low@{n}": low,
        f"ndcg_high@{n}": high,
        f"coverage@{n}": metrics.catalogue_coverage(lists, np.flatnonzero(learnt.counts())),
        f"novelty@{n}": metrics.novelty(*learnt.pairs(), lists) if (lists >= 0).any() else math.nan,
    }


# --- several models, one after the other ------------------------------------------------------------------------


def say_who_has_one_range(names: Sequence[str], limits: Limits) -> None:
    """Which models cannot take ranges of pairs, and what they get instead."""
    one_range = [name for name in names if not takes_ranges(name)]
    if limits.rule is not None and one_range:
        verb = "takes" if len(one_range) == 1 else "take"
        ends = Limits(limits.bounds).in_words()
        say(f"{', '.join(one_range)} {verb} one range for all, the observed one, {ends}: see how much lies outside.")


def refuse_if_all_are_wrong(asked: list[Request], in_grid: Sequence[str] = ()) -> None:
    """What is asked wrongly is refused before the file is read, unless something is asked rightly.

    Settings ``in_grid`` were given by --grid, not by --set.
    """
    refused = []
    for request in asked:
        try:
            request.model()
        except typer.BadParameter as error:
            refused.append(error)
    if len(refused) == len(asked):
        for name in in_grid:
            refused[0].message = refused[0].message.replace(f"--set {name}=", f"--grid {name}=")
        raise refused[0]


class Tried(NamedTuple):
    """The results of some requests, in their order: of all, or of those that were finished before Ctrl-C."""

    results: list[Measured]
    interrupted: bool

    def end(self, what: str) -> None:
        """End with the exit code that the results deserve, now that they are shown."""
        if self.interrupted:
            raise typer.Exit(INTERRUPTED)
        if all(result.error is not None for result in self.results):
            raise ValueError(f"No {what} could be fitted and measured: see above why.")


def try_all(requests: Sequence[tuple[str, Request]], trial: Trial, by_lists: bool = False) -> Tried:
    """Fit and measure one after the other; what fails is a result as well, and Ctrl-C keeps what is finished.

    ``by_lists`` where it is lists that they are chosen by.
    """
    results: list[Measured] = []
    try:
        for name, request in requests:
            found = fit_or_fail(request, trial)
            results.append(found)
            say(f"{name} failed: {found.error}" if found.error is not None else f"{name}: {_in_brief(found, by_lists)}")
    except KeyboardInterrupt:
        say(f"Interrupted: {len(results)} of {len(requests)} are finished.")
        return Tried(results, interrupted=True)
    return Tried(results, interrupted=False)


def _in_brief(found: Measured, by_lists: bool) -> str:
    """What came of a fit: its error, or how good its lists are, where these are asked for or there are only clicks."""
    listed = by_lists or math.isnan(found.rmse)
    name, value = ("NDCG", found.figure("ndcg")) if listed else ("RMSE", found.rmse)
    return f"{name} {_shown(value)} after {found.seconds:.1f} s"


def by_error(result: Measured) -> tuple[bool, bool, float]:
    """The least error first, then what predicts no ratings, then what failed."""
    return result.error is not None, math.isnan(result.rmse), result.rmse


def by_lists(result: Measured) -> tuple[bool, bool, float]:
    """The best lists first, then what has none, then what failed."""
    ndcg = result.figure("ndcg")
    return result.error is not None, math.isnan(ndcg), -ndcg


# --- printing -------------------------------------------------------------------------------------------------


def show(results: list[Measured], limits: Limits, parts: Parts | None, json: bool) -> None:
    """Print the results: a table, or JSON with how the ratings were divided."""
    if json:
        divided = {} if parts is None else parts.as_json()
        print_json({**divided, **limits.as_json(), "results": [result.as_json() for result in results]})
        return
    print_table(_columns(results, limits), [_row(result, results) for result in results])
    if any(result.name == POPULARITY for result in results):
        say("popularity: the items with the most training ratings first; it predicts no rating.")
    if any(result.name == MEAN_SHARE for result in results):
        say("mean share: the same share of every pair's own range, that of the training ratings in all.")


def _columns(results: list[Measured], limits: Limits) -> list[str]:
    """The heads of the table of results; no errors where nobody predicts ratings."""
    if not _has_errors(results):
        return ["model", *list_columns(results), "seconds"]
    ends = "own range"
    if limits.rule is None:
        ends = "..".join("" if end is None else f"{end:g}" for end in limits.bounds)
    return ["model", "RMSE", "MAE", "F1", f"outside {ends}", *list_columns(results), "seconds"]


def _row(result: Measured, results: list[Measured]) -> list[str]:
    """One line of the table of results: a dash where a model has no such figure."""
    if not _has_errors(results):
        return list_row(result, [result.name], results)
    rmse, mae, _ = short_row(result)
    outside = "none" if result.outside == 0 else _shown(result.outside, percent)
    return list_row(result, [result.name, rmse, mae, _shown(result.f1), outside], results)


def _has_errors(results: Sequence[Measured]) -> bool:
    """Whether anybody predicts ratings: models of clicks, and popularity, do not."""
    return not all(math.isnan(result.rmse) for result in results)


def list_columns(results: Sequence[Measured]) -> list[str]:
    """The heads of the figures of lists; none where nobody has any."""
    n = next((name.partition("@")[2] for result in results for name in result.ranking), None)
    return [] if n is None else [f"NDCG@{n}", "95 % interval", f"recall@{n}", f"coverage@{n}", f"novelty@{n}"]


def list_row(result: Measured, first: Sequence[str], results: Sequence[Measured]) -> list[str]:
    """The figures of lists, under those heads, and seconds, after what comes first in the line."""
    seconds = _shown(result.seconds, "{:.1f}".format)
    if not list_columns(results):
        return [*first, seconds]
    low, high = result.figure("ndcg_low"), result.figure("ndcg_high")
    interval = NO_FIGURE if math.isnan(low) else f"{low:.3f}..{high:.3f}"
    ndcg, *others = (_shown(result.figure(name)) for name in ("ndcg", "recall", "coverage", "novelty"))
    if result.error is not None and FAILED not in first:  # which is said once in a line
        ndcg = FAILED
    return [*first, ndcg, interval, *others, seconds]


def short_row(result: Measured, first: Sequence[str] = ()) -> list[str]:
    """RMSE, MAE and seconds, after what comes first in the line."""
    rmse = _shown(result.rmse) if result.error is None else FAILED
    return [*first, rmse, _shown(result.mae), _shown(result.seconds, "{:.1f}".format)]


def _shown(value: float, form: Callable[[float], str] = four_digits) -> str:
    """A figure of a table; a dash for NaN."""
    return NO_FIGURE if math.isnan(value) else form(value)
