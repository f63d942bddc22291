"""The demonstration behind ``boundrec demo``: real ratings, four predictors, one table, one list, one plot."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from boundrec import MBMF, datasets, kernels, metrics, splits
from boundrec.datasets import Dataset
from boundrec.models.mf import MF

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from rich.console import Console
    from rich.table import Table

Floats = NDArray[np.float64]
Pairs = NDArray[np.integer]
#: Told how much of a step is done, from 0 to 1.
Progress = Callable[[float], object]

BOUNDS = (0.5, 5.0)
HELD_OUT = 0.1
#: How many ratings the overall mean counts for in an offset.
PRIOR_COUNT = 5.0
#: Users whose predictions for every item are made at a time.
USERS_AT_A_TIME = 32
#: Bins of the histogram of all predictions: a scale's length on either side of the bounds, and the ends are bins' ends.
BINS = np.linspace(2 * BOUNDS[0] - BOUNDS[1], 2 * BOUNDS[1] - BOUNDS[0], 271)


# --- the whole ----------------------------------------------------------------------------------------------


def prepare(output: Path, user: int, seed: int) -> tuple[Split, int]:
    """Everything that can be refused, before any work is done: the file, the data, the user (as a row number)."""
    check_writable(output)
    data = datasets.movielens_sample()
    row = find_user(data, user)
    return Split(data, splits.hold_out(data.user, data.item, HELD_OUT, seed)), row


def run(split: Split, user: int, n_factors: int, seed: int, output: Path, out: Console, messages: Console) -> None:
    """Fit, print the table and one user's top ten to ``out``, write the plot; progress goes to ``messages``."""
    began = time.perf_counter()
    _compile(messages)
    results = [_evaluate_visibly(name, model, split, messages) for name, model in models(n_factors, seed).items()]
    draw(results, output)
    _print_results(results, split, out)
    _print_top_ten(results[-1].model, split.data, user, out)
    messages.print(f"Wrote {output} after {time.perf_counter() - began:.0f} s")


def _compile(messages: Console) -> None:
    if kernels_are_cached():
        with messages.status("Loading the compiled kernels"):
            compile_kernels()
        return
    messages.print("Compiling, first run only ...")
    with messages.status("Compiling, first run only"):
        seconds = compile_kernels()
    messages.print(f"Compiled the kernels in {seconds:.0f} s")


def _evaluate_visibly(name: str, model: Any, split: Split, messages: Console) -> Result:
    from rich.progress import Progress

    with Progress(console=messages, transient=True, disable=not messages.is_terminal) as bar:
        task = bar.add_task(f"Fitting {name}", total=1.0)
        result = evaluate(name, model, split, lambda done: bar.update(task, completed=done))
    messages.print(f"Fitted {name} in {result.seconds:.1f} s")
    return result


def _print_results(results: list[Result], split: Split, out: Console) -> None:
    data = split.data
    out.print(
        f"\n{data.rating.size:,} ratings by {data.n_users} users of {data.n_items:,} films. RMSE and MAE are those "
        f"on {split.held.sum():,} held-out ratings; outside, lowest and highest are of all "
        f"{data.n_users * data.n_items:,} predictions, every user with every film."
    )
    out.print(results_table(results))
    out.print(
        "mean + offsets: the mean, a user's offset and a film's offset. MBMF, one range: every prediction within the "
        "declared bounds. MBMF, own ranges: narrower ones, drawn from the user's and the film's training ratings "
        f"({percent(results[-1].model.infeasible_share_)} of which lie outside them).\n"
    )


def _print_top_ten(model: MBMF, data: Dataset, user: int, out: Console) -> None:
    from rich.text import Text

    assert data.user_ids is not None
    liked = ", ".join(favourites(data, user))
    out.print(Text(f"Top ten unseen films for user {data.user_ids[user]}, who rated highest: {liked}."))
    out.print(titles_table(top_titles(model, data, user), out.width, plain=not can_print_bars(out.encoding)))


# --- data ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Split:
    """The data set, divided into ratings to learn from and ratings to be judged by."""

    data: Dataset
    held: NDArray[np.bool_]

    @property
    def training(self) -> tuple[Pairs, Floats]:
        """Pairs and ratings to learn from."""
        return self.data.pairs[~self.held], self.data.rating[~self.held]

    @property
    def test(self) -> tuple[Pairs, Floats]:
        """Pairs and ratings that no model sees."""
        return self.data.pairs[self.held], self.data.rating[self.held]


def find_user(data: Dataset, user: int) -> int:
    """The row of a user id."""
    assert data.user_ids is not None
    rows = np.flatnonzero(data.user_ids == user)
    if not rows.size:
        raise ValueError(f"there is no user {user}: give an id from {data.user_ids.min()} to {data.user_ids.max()}.")
    return int(rows[0])


# --- models -------------------------------------------------------------------------------------------------


class MeanAndOffsets:
    """The honest trivial rival: mean + item offset + user offset, each offset drawn towards zero."""

    def fit(self, X: Pairs, y: Floats, callback: object = None) -> Self:
        """Learn the offsets from rows of (user, item) codes."""
        users, items = X.T
        self.mean = y.mean()
        self.items = _offsets(items, y - self.mean)
        self.users = _offsets(users, y - self.mean - self.items[items])
        return self

    def predict(self, X: Pairs) -> Floats:
        """Predict the rating of each row of (user, item) codes."""
        predictions: Floats = self.mean + self.users[X[:, 0]] + self.items[X[:, 1]]
        return predictions


def _offsets(codes: NDArray[np.integer], residuals: Floats) -> Floats:
    return np.asarray(np.bincount(codes, residuals) / (np.bincount(codes) + PRIOR_COUNT))


#: The names by which the table and the plot call the models.
MEANS, PLAIN, SCALE, OWN = "mean + offsets", "plain factorisation", "MBMF, one range", "MBMF, own ranges"


def models(n_factors: int, seed: int) -> dict[str, Any]:
    """The four predictors of the table; the last makes the list of titles, for its ranges differ.

    The ridge and the epochs of the unbounded rival were chosen on another split, so as not to make it a straw man;
    MBMF has its default settings.
    """
    return {
        MEANS: MeanAndOffsets(),
        PLAIN: MF(n_factors, solver="sgd", ridge=0.1, max_iter=100, random_state=seed),
        SCALE: MBMF(n_factors, bounds=BOUNDS, max_iter=20, random_state=seed),
        OWN: MBMF(n_factors, bounds=BOUNDS, magnitudes="history", max_iter=20, random_state=seed),
    }


# --- compiling ----------------------------------------------------------------------------------------------


def kernels_are_cached() -> bool:
    """Whether an earlier run has left machine code on disk that is newer than its source."""
    folder = kernels.solve_rows_ball.stats.cache_path  # type: ignore[attr-defined]
    if folder is None:
        return False
    compiled = Path(folder).glob("kernels.solve_rows_ball-*.nbi")
    return any(index.stat().st_mtime > Path(kernels.__file__).stat().st_mtime for index in compiled)


def compile_kernels() -> float:
    """Run every model once on next to nothing, so that later times are those of fitting; returns the seconds."""
    began = time.perf_counter()
    X, y = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], dtype=np.int32), np.array([1.0, 5.0, 4.0, 2.0])
    for model in models(n_factors=2, seed=0).values():
        fit(model, X, y)
    return time.perf_counter() - began


# --- results ------------------------------------------------------------------------------------------------


class Everything(NamedTuple):
    """What the predictions for all users × items have in common."""

    outside_share: float
    lowest: float
    highest: float
    counts: NDArray[np.int64]


@dataclass(frozen=True)
class Result:
    """One row of the table, and one curve of the plot."""

    name: str
    model: Any
    rmse: float
    mae: float
    rmse_by_sweep: list[float]
    seconds: float
    everything: Everything


def evaluate(name: str, model: Any, split: Split, progress: Progress) -> Result:
    """Fit one model, measure it on the held-out ratings and look at all its predictions."""
    X_test, y_test = split.test
    rmse_by_sweep: list[float] = []
    measuring = 0.0

    def watch(sweep: int, objective: float, fitted: Any) -> None:
        nonlocal measuring
        began = time.perf_counter()
        rmse_by_sweep.append(metrics.rmse(y_test, fitted.predict(X_test)))
        progress(0.5 * sweep / (model.max_iter))
        measuring += time.perf_counter() - began

    began = time.perf_counter()
    fit(model, *split.training, callback=watch)
    seconds = time.perf_counter() - began - measuring
    everything = predict_everything(model, split.data, lambda share: progress(0.5 + 0.5 * share))
    predictions = model.predict(X_test)
    rmse, mae = metrics.rmse(y_test, predictions), metrics.mae(y_test, predictions)
    return Result(name, model, rmse, mae, rmse_by_sweep, seconds, everything)


def fit(model: Any, X: Pairs, y: Floats, callback: Any = None) -> None:
    """Fit without the warnings that the table answers itself; Ctrl-C ends the demonstration, not only the fit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", message=".*lie outside their own range")
        warnings.filterwarnings("error", message="interrupted")
        try:
            model.fit(X, y, callback=callback)
        except UserWarning as interrupted:
            raise KeyboardInterrupt from interrupted


def predict_everything(model: Any, data: Dataset, progress: Progress) -> Everything:
    """Predict every user × item pair, a few users at a time, and keep only what the table and the plot need."""
    outside, lowest, highest = 0, np.inf, -np.inf
    counts = np.zeros(len(BINS) - 1, dtype=np.int64)
    for start in range(0, data.n_users, USERS_AT_A_TIME):
        users = np.arange(start, min(start + USERS_AT_A_TIME, data.n_users), dtype=np.int32)
        predictions = model.predict(every_pair(users, data.n_items))
        outside += int(((predictions < BOUNDS[0]) | (predictions > BOUNDS[1])).sum())
        lowest, highest = min(lowest, predictions.min()), max(highest, predictions.max())
        counts += np.histogram(np.clip(predictions, BINS[0], BINS[-1]), BINS)[0]
        progress((start + len(users)) / data.n_users)
    return Everything(outside / (data.n_users * data.n_items), float(lowest), float(highest), counts)


def every_pair(users: NDArray[np.int32], n_items: int) -> Pairs:
    """All pairs of these users with every item."""
    return np.column_stack((np.repeat(users, n_items), np.tile(np.arange(n_items, dtype=np.int32), len(users))))


# --- the table ----------------------------------------------------------------------------------------------


def results_table(results: list[Result]) -> Table:
    """Errors on the held-out ratings, the reach of all predictions, and the time to fit."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("model", no_wrap=True)
    low, high = BOUNDS
    for heading in ("RMSE", "MAE", f"outside {low:g}..{high:g}", "lowest", "highest", "seconds"):
        table.add_column(heading, justify="right", no_wrap=True)
    for result in results:
        every = result.everything
        table.add_row(
            result.name,
            f"{result.rmse:.4f}",
            f"{result.mae:.4f}",
            f"[red]{percent(every.outside_share)}[/red]" if every.outside_share else "[green]none[/green]",
            f"{every.lowest:.2f}",
            f"{every.highest:.2f}",
            f"{result.seconds:.2f}",
        )
    return table


def percent(share: float) -> str:
    """A share for readers; a few among millions do not become 0 %."""
    return "< 0.01 %" if 0 < share < 1e-4 else f"{100 * share:.2f} %"


# --- the list of titles -------------------------------------------------------------------------------------


class Recommendation(NamedTuple):
    """One title with its prediction and the range that no fit could have left."""

    title: str
    prediction: float
    lower: float
    upper: float


def top_titles(model: MBMF, data: Dataset, user: int, n: int = 10) -> list[Recommendation]:
    """The n titles with the highest predictions among those that the user has not rated."""
    assert data.item_names is not None
    unseen = np.setdiff1d(np.arange(data.n_items, dtype=np.int32), data.item[data.user == user])
    pairs = np.column_stack((np.full(len(unseen), user, dtype=np.int32), unseen))
    prediction, lower, upper = model.predict(pairs, return_range=True)
    best = np.argsort(-prediction, kind="stable")[:n]
    titles = [str(data.item_names[item]) for item in unseen[best]]
    return list(map(Recommendation, titles, prediction[best].tolist(), lower[best].tolist(), upper[best].tolist()))


def favourites(data: Dataset, user: int, n: int = 4) -> list[str]:
    """A few titles that the user rated highest, the newest opinion first."""
    assert data.item_names is not None
    assert data.timestamp is not None
    own = np.flatnonzero(data.user == user)
    order = np.lexsort((-data.timestamp[own], -data.rating[own]))
    return [str(data.item_names[item]) for item in data.item[own[order[:n]]]]


def titles_table(recommendations: list[Recommendation], width: int, plain: bool) -> Table:
    """The list, with every range drawn on the common scale as far as the terminal's width allows."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    longest = max(len(entry.title) for entry in recommendations)
    title_width = min(longest, max(12, width // 2 - 15))
    bar_width = min(55, max(10, width - title_width - 35))
    low, high = BOUNDS
    scale = f"{low:g}".ljust(bar_width - len(f"{high:g}")) + f"{high:g}"
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
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

    def place(value: float) -> int:
        return round((value - BOUNDS[0]) / (BOUNDS[1] - BOUNDS[0]) * (width - 1))

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


# --- the plot -----------------------------------------------------------------------------------------------

COLOURS = {MEANS: "#6b6b6b", PLAIN: "#d1495b", SCALE: "#2a6f97", OWN: "#52b2a5"}


def check_writable(output: Path) -> None:
    """Refuse, before any work is done, a file that could not be written in the end."""
    if output.suffix.lower() != ".png":
        raise ValueError(f"the plot is a PNG, and {output.name!r} does not end in .png.")
    if output.is_dir():
        raise OSError(f"Cannot write the plot: {output} is a folder. Pass the name of a file with --output.")
    try:
        TemporaryFile(dir=output.parent).close()
    except OSError as error:
        reason = (error.strerror or "unknown reason").lower()
        raise OSError(
            f"Cannot write the plot to the folder {output.parent} ({reason}). Pass another with --output."
        ) from None


def draw(results: list[Result], output: Path) -> None:
    """Draw where all predictions lie, and how the held-out error falls, and write the PNG."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 4.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    by_name = {result.name: result for result in results}
    _draw_predictions(left, [by_name[PLAIN], by_name[SCALE]])
    _draw_errors(right, results)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.title.set_fontweight("bold")
    figure.savefig(output, dpi=150)


def _draw_predictions(axes: Axes, results: list[Result]) -> None:
    low, high = BOUNDS
    reach = np.flatnonzero(sum(result.everything.counts for result in results))
    edges = min(low, BINS[reach[0]]) - 0.3, max(high, BINS[reach[-1] + 1]) + 0.3
    for result in results:
        counts, colour = result.everything.counts, COLOURS[result.name]
        outside = percent(result.everything.outside_share) if result.everything.outside_share else "none"
        label = f"{result.name}: {outside} outside"
        axes.stairs(counts, BINS, fill=True, alpha=0.35, color=colour, label=label)
        axes.stairs(counts, BINS, color=colour, linewidth=1.2)
    for end, outer in zip(BOUNDS, edges, strict=True):
        axes.axvline(end, color="black", linestyle="--", linewidth=1)
        axes.axvspan(end, outer, color="black", alpha=0.05, linewidth=0)
    axes.set(
        yscale="log",  # what leaves the bounds is few among millions, and would not be seen otherwise
        ylim=(0.7, 100 * max(result.everything.counts.max() for result in results)),  # room for the legend
        xlim=edges,
        xlabel=f"predicted rating (dashed: the declared bounds, {low:g} and {high:g})",
        ylabel="number of predictions (log scale)",
        title="Predictions for every user and every film",
    )
    axes.legend(frameon=False, loc="upper center")


def _draw_errors(axes: Axes, results: list[Result]) -> None:
    from matplotlib.ticker import FuncFormatter, NullFormatter

    for result in results:
        colour = COLOURS[result.name]
        if result.rmse_by_sweep:
            sweeps = np.arange(1, len(result.rmse_by_sweep) + 1)
            axes.plot(sweeps, result.rmse_by_sweep, color=colour, marker="o", markersize=3.5, label=result.name)
        else:
            axes.axhline(result.rmse, color=colour, linestyle="--", linewidth=1.2, label=result.name)
    axes.set(
        xscale="log", xlabel="sweep over the ratings (log scale)", ylabel="RMSE", title="Error on held-out ratings"
    )
    axes.set_xticks([1, 2, 5, 10, 20, 50, 100])
    axes.xaxis.set_major_formatter(FuncFormatter(lambda sweep, _: f"{sweep:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.grid(axis="y", alpha=0.25)
    axes.legend(frameon=False)
