"""The demonstration behind ``boundrec demo``: real ratings, four predictors, one table, one list, one plot."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from boundrec import datasets, files, splits
from boundrec.cli.held_out import Learnt, Measured, Trial, measure, measure_trivial
from boundrec.cli.model_request import Request, train
from boundrec.data.ratings import Ratings
from boundrec.datasets import Dataset
from boundrec.notes import open_table, percent
from boundrec.report.plots import write_comparison

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

BOUNDS = (0.5, 5.0)
HELD_OUT = 0.1
#: The names by which the table and the plot call the models.
PLAIN, SCALE, OWN = "plain factorisation", "MBMF, one range", "MBMF, own ranges"


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
        """What the four are judged by: the held-out ratings, and where the predictions of all pairs lie."""
        return Trial(Learnt.of(self.training), self.test, BOUNDS, n=None, every_pair=True)


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
    """The models of the table; the last makes the list of titles, for its ranges differ.

    Both have biases. The ridge and the epochs of the unbounded rival, which are the command's own, were chosen on
    another split, so as not to make it a straw man; MBMF is as it comes.
    """
    own = {"magnitudes": "history"}
    return {
        PLAIN: Request("mf", BOUNDS, n_factors, seed=seed),
        SCALE: Request("mbmf", BOUNDS, n_factors, seed=seed),
        OWN: Request("mbmf", BOUNDS, n_factors, seed=seed, settings=own),
    }


def run(films: Films, user: int, n_factors: int, seed: int, output: Path, out: Console, messages: Console) -> None:
    """Fit, print the table and one user's top ten to ``out``, write the plot; progress goes to ``messages``."""
    began = time.perf_counter()
    _compile(messages)
    trial = films.trial()
    results, fitted = measure_trivial(trial), {}
    for name, request in requests(n_factors, seed).items():
        fitted[name] = request.model()
        seconds = fit(fitted[name], films.training, name)
        messages.print(f"Fitted {name} in {seconds:.1f} s")
        results.append(measure(fitted[name], name, trial, seconds))
    write_comparison(results, BOUNDS, films.test.n_ratings, output)
    _print_results(results, films, fitted[OWN].infeasible_share_, out)
    _print_top_ten(fitted[OWN], films, user, out)
    messages.print(f"Wrote {output} after {time.perf_counter() - began:.0f} s", soft_wrap=True)  # a path to copy


def fit(model: Any, ratings: Ratings, name: str) -> float:
    """Fit without the warnings that the table answers itself; returns the seconds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", message=".*lie outside their own range")
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


def _print_results(results: list[Measured], films: Films, infeasible_share: float, out: Console) -> None:
    data = films.data
    out.print(
        f"\n{data.rating.size:,} ratings by {data.n_users} users of {data.n_items:,} films. RMSE and MAE are those "
        f"on {films.test.n_ratings:,} held-out ratings; outside, lowest and highest are of all "
        f"{data.n_users * data.n_items:,} predictions, every user with every film.\n"
    )
    out.print(results_table(results))
    out.print(
        "\nmean + offsets: the mean, a user's offset and a film's offset. MBMF, one range: every prediction within the "
        "declared bounds. MBMF, own ranges: narrower ones, drawn from the user's and the film's training ratings "
        f"({percent(infeasible_share)} of which lie outside them).\n"
    )


def results_table(results: list[Measured]) -> Table:
    """Errors on the held-out ratings, the reach of all predictions, and the time to fit."""
    low, high = BOUNDS
    table = open_table(["model", "RMSE", "MAE", f"outside {low:g}..{high:g}", "lowest", "highest", "seconds"])
    for result in results:
        table.add_row(
            result.name,
            f"{result.rmse:.4f}",
            f"{result.mae:.4f}",
            f"[red]{percent(result.outside)}[/red]" if result.outside else "[green]none[/green]",
            f"{result.reach[0]:.2f}",
            f"{result.reach[-1]:.2f}",
            f"{result.seconds:.2f}",
        )
    return table


# --- what is printed: one user's titles, with their ranges as bars --------------------------------------------


class Recommendation(NamedTuple):
    """One title with its prediction and the range that no fit could have left."""

    title: str
    prediction: float
    lower: float
    upper: float


def _print_top_ten(model: Any, films: Films, user: int, out: Console) -> None:
    from rich.text import Text

    assert films.data.user_ids is not None
    liked = ", ".join(favourites(films.data, user))
    out.print(Text(f"Top ten unseen films for user {films.data.user_ids[user]} (favourites: {liked})\n"))
    top = top_titles(model, films, user)
    out.print(titles_table(top, out.width, plain=not can_print_bars(out.encoding)))


def top_titles(model: Any, films: Films, user: int, n: int = 10) -> list[Recommendation]:
    """The n titles with the highest predictions among those that the user has not rated, held out or not."""
    titles = films.data.item_names
    assert titles is not None
    rows = model.recommend([user], n, exclude=films.data.item[films.data.user == user], output="polars")
    found = rows.select("item", "score", "lower", "upper").iter_rows()
    return [Recommendation(str(titles[item]), *numbers) for item, *numbers in found]


def favourites(data: Dataset, user: int, n: int = 4) -> list[str]:
    """A few titles that the user rated highest, the newest opinion first."""
    assert data.item_names is not None
    assert data.timestamp is not None
    own = np.flatnonzero(data.user == user)
    order = np.lexsort((-data.timestamp[own], -data.rating[own]))
    return [str(data.item_names[item]) for item in data.item[own[order[:n]]]]


def titles_table(recommendations: list[Recommendation], width: int, plain: bool) -> Table:
    """The list, with every range drawn on the common scale as far as the terminal's width allows."""
    from rich.text import Text

    longest = max(len(entry.title) for entry in recommendations)
    title_width = min(longest, max(12, width // 2 - 18))
    bar_width = min(55, max(10, width - title_width - 31))
    low, high = BOUNDS
    scale = f"{low:g}".ljust(bar_width - len(f"{high:g}")) + f"{high:g}"
    table = open_table()
    table.add_column("", justify="right", min_width=2)
    table.add_column("title", width=title_width, no_wrap=True, overflow="crop" if plain else "ellipsis")
    table.add_column("predicted", justify="right", no_wrap=True)
    table.add_column("own range", justify="right", no_wrap=True)
    table.add_column(scale, min_width=bar_width, no_wrap=True)
    for place, entry in enumerate(recommendations, start=1):
        bar = range_bar(entry.lower, entry.prediction, entry.upper, bar_width, plain)
        table.add_row(
            str(place),
            Text(entry.title),
            f"{entry.prediction:.2f}",
            f"{entry.lower:.2f}..{entry.upper:.2f}",
            Text(bar, style="cyan"),
        )
    return table


def range_bar(lower: float, prediction: float, upper: float, width: int, plain: bool) -> str:
    """Draw a range with its prediction on the scale of the bounds, such as ``  ├────●──┤ ``."""
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
    """Whether a terminal of this encoding has the signs of `range_bar`."""
    try:
        "├─●┤".encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True
