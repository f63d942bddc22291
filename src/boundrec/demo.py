"""The demonstration behind ``boundrec demo``: real ratings, four predictors, one table, one list, one picture."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from boundrec import datasets, files, metrics, splits
from boundrec.arrays import Floats
from boundrec.baselines import MeanPredictor
from boundrec.cli.held_out import MEANS, Learnt, Measured, Trial, measure, measure_trivial
from boundrec.cli.model_request import Request, train
from boundrec.data.ratings import Ratings
from boundrec.datasets import Dataset
from boundrec.notes import open_table, percent
from boundrec.report.poster import Listed, Poster, Rival

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

BOUNDS = (0.5, 5.0)
HELD_OUT = 0.1
#: The length of the lists.
LENGTH = 10
#: The share of ratings that lie in the intervals that are drawn, and the quantiles between which they do.
NOMINAL, QUANTILES = 80, (0.1, 0.9)
#: The names by which the table and the picture call the models.
PLAIN, BOUNDED = "plain factorisation", "BayesianMBMF"
#: Users of whom all pairs are predicted at a time.
USERS_AT_A_TIME = 32


class Films(NamedTuple):
    """The data set, divided into ratings to learn from and ratings to be judged by."""

    data: Dataset
    training: Ratings
    test: Ratings

    @classmethod
    def divided(cls, data: Dataset, seed: int) -> Films:
        """Hold out a tenth of the ratings; every user and every film keeps one to learn from."""
        held = splits.hold_out(data.user, data.item, HELD_OUT, seed)
        return cls(data, *(Ratings.from_pairs(data.pairs[part], data.rating[part]) for part in (~held, held)))

    def trial(self) -> Trial:
        """What all are judged by: the held-out ratings, and which of their films make it into lists of ten."""
        return Trial(Learnt.of(self.training), self.test, BOUNDS, n=LENGTH)

    def predict_all(self, predict: Callable[[Any], Floats]) -> Floats:
        """What somebody predicts for every user and every film: a row for each user."""
        films = np.arange(self.data.n_items)
        blocks = np.split(np.arange(self.data.n_users), range(USERS_AT_A_TIME, self.data.n_users, USERS_AT_A_TIME))
        rows = [
            predict(np.column_stack((np.repeat(users, films.size), np.tile(films, users.size)))) for users in blocks
        ]
        return np.concatenate(rows).reshape(self.data.n_users, films.size)

    def raters(self) -> Any:
        """How many people rated each film."""
        return np.bincount(self.data.item, minlength=self.data.n_items)


def prepare(output: Path, user: int, seed: int) -> tuple[Films, int]:
    """Everything that can be refused, before any work is done: the file, the data, the user (as a row number)."""
    if output.suffix.lower() != ".png":
        raise ValueError(f"the plot is a PNG, and {output.name!r} does not end in .png.")
    files.check_writable(output, "plot")
    data = datasets.movielens_sample()
    assert data.user_ids is not None
    rows = np.flatnonzero(data.user_ids == user)
    if not rows.size:
        raise ValueError(f"there is no user {user}: give an id from {data.user_ids.min()} to {data.user_ids.max()}.")
    return Films.divided(data, seed), int(rows[0])


def requests(n_factors: int, seed: int) -> dict[str, Request]:
    """The two models: the bounded one as it comes, and one without bounds.

    The ridge and the epochs of the unbounded rival, which are the command's own, were chosen on another split, so as
    not to make it a straw man.
    """
    return {
        PLAIN: Request("mf", BOUNDS, n_factors, seed=seed),
        BOUNDED: Request("bayesian", BOUNDS, n_factors, seed=seed, settings={"affinity": True}),
    }


class Shown(NamedTuple):
    """What the table tells of one predictor, and what it predicts for all pairs, if it predicts at all."""

    measured: Measured
    everything: Floats | None
    outside: float = math.nan
    tied: float = math.nan

    @classmethod
    def of(cls, measured: Measured, everything: Floats, films: Films) -> Shown:
        """Look at all predictions: how many leave the scale, and how many make ties in lists once they are clipped."""
        clipped = np.clip(everything, *BOUNDS)
        X, _ = films.training.to_pairs()
        clipped[X[:, 0], X[:, 1]] = BOUNDS[0] - 1.0 - X[:, 1]  # what was seen comes last, and is tied with nothing
        outside = metrics.out_of_range_share(everything, *BOUNDS)
        return cls(measured, everything, outside, metrics.tie_share(clipped, min(LENGTH, clipped.shape[1])))

    @property
    def ndcg(self) -> float:
        """NDCG of the lists."""
        return self.measured.ranking.get(f"ndcg@{LENGTH}", math.nan)


def run(films: Films, user: int, n_factors: int, seed: int, output: Path, out: Console, messages: Console) -> None:
    """Fit, print the table and one user's top ten to ``out``, write the picture; progress goes to ``messages``."""
    began = time.perf_counter()
    _compile(messages)
    trial = films.trial()
    results, models = trivial(films, trial), {}
    for name, request in requests(n_factors, seed).items():
        models[name] = request.model()
        seconds = fit(models[name], films.training, name)
        messages.print(f"Fitted {name} in {seconds:.1f} s")
        with messages.status(f"Predicting all {films.data.n_users * films.data.n_items:,} pairs"):
            results.append(judge(models[name], name, films, trial, seconds))
    top = top_titles(models[BOUNDED], films, user)
    poster(results, films, user, top).write(output)
    _print_results(results, films, coverage(models[BOUNDED], films.test), out)
    _print_top_ten(top, films, user, out)
    messages.print(f"Wrote {output} after {time.perf_counter() - began:.0f} s", soft_wrap=True)  # a path to copy


def trivial(films: Films, trial: Trial) -> list[Shown]:
    """What the models have to be better than: the mean with offsets by its errors, popularity by its lists."""
    means, popularity = measure_trivial(trial)
    assert means.name == MEANS
    X, y = films.training.to_pairs()
    predict = MeanPredictor().fit(X, y.astype(np.float64)).predict
    return [Shown.of(means, films.predict_all(predict), films), Shown(popularity, None)]


def judge(model: Any, name: str, films: Films, trial: Trial, seconds: float) -> Shown:
    """A fitted model, by the held-out ratings, its lists and all its predictions."""
    return Shown.of(measure(model, name, trial, seconds), films.predict_all(model.predict), films)


def coverage(model: Any, test: Ratings) -> float:
    """The share of held-out ratings that lie in the intervals that are drawn."""
    X, y = test.to_pairs()
    low, high = model.predict_quantiles(X, QUANTILES).T
    return float(np.mean((low <= y) & (y <= high)))


def fit(model: Any, ratings: Ratings, name: str) -> float:
    """Fit without the warnings that the table answers itself; returns the seconds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return train(model, ratings, name)


def _compile(messages: Console) -> None:
    """Before anything is timed; whether this compiles or loads is known once it happens, and said then."""
    from boundrec.solvers.compiling import has_compiled

    had_compiled = has_compiled()
    with messages.status("Loading the kernels"):
        seconds = compile_kernels()
    if has_compiled() and not had_compiled:
        messages.print(f"Compiled the kernels in {seconds:.0f} s")


def compile_kernels() -> float:
    """Run every model once on next to nothing, so that later times are those of fitting; returns the seconds."""
    began = time.perf_counter()
    ratings = Ratings.from_pairs([(0, 0), (0, 1), (1, 0), (1, 1)], [1.0, 5.0, 4.0, 2.0])
    for name, request in requests(n_factors=2, seed=0).items():
        fit(request.model(), ratings, name)
    return time.perf_counter() - began


# --- what is printed: the table of results --------------------------------------------------------------------


def _print_results(results: list[Shown], films: Films, covered: float, out: Console) -> None:
    data = films.data
    out.print(
        f"\n{data.rating.size:,} ratings by {data.n_users} users of {data.n_items:,} films, "
        f"{films.test.n_ratings:,} of them held out.\n\n"
        "  RMSE, MAE  errors on the held-out ratings\n"
        f"  outside    of all {data.n_users * data.n_items:,} predictions, every user with every film\n"
        "  tied       entries of top tens that are equal once clipped to the scale\n"
        f"  NDCG@{LENGTH}    how high held-out liked films come in lists of ten; 1 is best\n"
    )
    out.print(results_table(results))
    out.print(
        "\nmean + offsets: the mean, a user's offset and a film's. popularity: the films that most people rated, for "
        "everybody. Lists of plain factorisation are sorted by predicted rating, as usual; those of BayesianMBMF "
        "(affinity=True) by affinity, who would choose a film, and predicted rating together. "
        f"{percent(covered)} of the held-out ratings lie in its {NOMINAL} % intervals.\n"
    )


def results_table(results: list[Shown]) -> Table:
    """Errors and lists on what is held out, where all predictions lie, and the time to fit."""
    low, high = BOUNDS
    table = open_table(["model", "RMSE", "MAE", f"outside {low:g}..{high:g}", "tied", f"NDCG@{LENGTH}", "seconds"])
    for shown in results:
        one = shown.measured
        figures = [_figure(value) for value in (one.rmse, one.mae)]
        shares = [_share(value) for value in (shown.outside, shown.tied)]
        table.add_row(one.name, *figures, *shares, _figure(shown.ndcg), f"{one.seconds:.1f}")
    return table


def _figure(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.4f}"


def _share(share: float) -> str:
    if math.isnan(share):
        return "-"
    return f"[red]{percent(share)}[/red]" if share else "[green]none[/green]"


# --- what is printed: one user's titles, with their intervals as bars -------------------------------------------


def _print_top_ten(top: list[Listed], films: Films, user: int, out: Console) -> None:
    from rich.text import Text

    assert films.data.user_ids is not None
    liked = ", ".join(favourites(films.data, user))
    out.print(
        Text(
            f"Films for user {films.data.user_ids[user]}, who likes {liked}; with the interval in which {NOMINAL} % of "
            "such ratings lie\n"
        )
    )
    out.print(titles_table(top, out.width, plain=not can_print_bars(out.encoding)))


def top_titles(model: Any, films: Films, user: int, n: int = LENGTH) -> list[Listed]:
    """The first n titles of the model's list among those that the user has not rated, held out or not."""
    titles, raters = films.data.item_names, films.raters()
    assert titles is not None
    rated = films.data.item[films.data.user == user]
    items = [item for item in model.recommend([user], n, exclude=rated)[0][0] if item >= 0]
    pairs = [(user, item) for item in items]
    intervals = model.predict_quantiles(pairs, QUANTILES)
    found = zip(items, model.predict(pairs), intervals, strict=True)
    return [
        Listed(str(titles[item]), int(raters[item]), float(rating), *map(float, ends)) for item, rating, ends in found
    ]


def favourites(data: Dataset, user: int, n: int = 4) -> list[str]:
    """A few titles that the user rated highest, the newest opinion first."""
    assert data.item_names is not None
    assert data.timestamp is not None
    own = np.flatnonzero(data.user == user)
    order = np.lexsort((-data.timestamp[own], -data.rating[own]))
    return [str(data.item_names[item]) for item in data.item[own[order[:n]]]]


def titles_table(listed: list[Listed], width: int, plain: bool) -> Table:
    """The list, with every interval drawn on the common scale as far as the terminal's width allows."""
    from rich.text import Text

    longest = max(len(entry.title) for entry in listed)
    title_width = min(longest, max(12, width // 2 - 10))
    bar_width = min(55, max(10, width - title_width - 29))
    low, high = BOUNDS
    scale = f"{low:g}".ljust(bar_width - len(f"{high:g}")) + f"{high:g}"
    table = open_table()
    table.add_column("", justify="right", min_width=2)
    table.add_column("title", width=title_width, no_wrap=True, overflow="crop" if plain else "ellipsis")
    table.add_column("rated by", justify="right", no_wrap=True)
    table.add_column("predicted", justify="right", no_wrap=True)
    table.add_column(scale, min_width=bar_width, no_wrap=True)
    for place, entry in enumerate(listed, start=1):
        bar = interval_bar(entry.low, entry.prediction, entry.high, bar_width, plain)
        rating = f"{entry.prediction:.2f}"
        table.add_row(str(place), Text(entry.title), f"{entry.raters:,}", rating, Text(bar, style="cyan"))
    return table


def interval_bar(lower: float, prediction: float, upper: float, width: int, plain: bool) -> str:
    """Draw an interval with its prediction on the scale of the bounds, such as ``  ├────●──┤ ``."""
    left, line, dot, right = "|-o|" if plain else "├─●┤"
    low, high = BOUNDS

    def place(value: float) -> int:
        return round((value - low) / (high - low) * (width - 1))

    first, at, last = place(lower), place(prediction), place(upper)
    cells = [" "] * width
    cells[first : last + 1] = [line] * (last + 1 - first)
    cells[first], cells[last] = left, right
    cells[at] = dot
    return "".join(cells)


def can_print_bars(encoding: str) -> bool:
    """Whether a terminal of this encoding has the signs of `interval_bar`."""
    try:
        "├─●┤".encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


# --- the picture ------------------------------------------------------------------------------------------------


def poster(results: list[Shown], films: Films, user: int, listed: list[Listed]) -> Poster:
    """What the picture shows of the same results."""
    data, by_name = films.data, {shown.measured.name: shown.everything for shown in results}
    unbounded, bounded = by_name[PLAIN], by_name[BOUNDED]
    assert data.user_ids is not None
    assert unbounded is not None
    assert bounded is not None
    return Poster(
        subtitle=f"boundrec demo: {data.rating.size:,} film ratings by {data.n_users} people, a tenth held out",
        bounds=BOUNDS,
        unbounded_name=PLAIN,
        unbounded=unbounded.ravel(),
        bounded=bounded.ravel(),
        rivals=[Rival(shown.measured.name, shown.measured.rmse, shown.ndcg) for shown in results],
        whose=f"{BOUNDED}'s list for user {data.user_ids[user]}",
        likes=f"who likes {', '.join(favourites(data, user))}",
        listed=listed,
    )
