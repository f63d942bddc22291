"""The pictures of docs/why-bounds-help.md, and the figures that it quotes.

``python -m benchmarks.why_bounds`` fits factorisations with and without bounds on the MovieLens sample that comes with
``pip install "boundrec[demo]"``, draws ``docs/pictures/why-*.svg`` and writes ``results/why_bounds.md``. A few minutes.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from benchmarks.drawing import new_canvas, save_svg
from benchmarks.measure import Part, save_parts
from boundrec import MBMF, MF, BayesianMBMF, CCDPlusPlus, datasets, metrics
from boundrec.arrays import Floats
from boundrec.data.columns import pair_array
from boundrec.data.ratings import Ratings
from boundrec.datasets import Dataset
from boundrec.demo import BOUNDS, Films

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
FACTORS, SEEDS = 20, (0, 1)
Mask = NDArray[np.bool_]

PLAIN, LOOSE, ALS, OURS, BAYES = "plain", "plain, ridge 0.02", "ALS", "MBMF", "BayesianMBMF"
STRICT = "MBMF, slack=1"
COLOURS = {
    PLAIN: "#d1495b",
    LOOSE: "#8c2f3e",
    ALS: "#e08e45",
    OURS: "#2a6f97",
    STRICT: "#52b2a5",
    BAYES: "#1b3a57",
}
GREY = "#6b6b6b"
#: Bins of the histogram of all predictions: a scale's length on either side of the bounds.
BINS = np.linspace(2 * BOUNDS[0] - BOUNDS[1], 2 * BOUNDS[1] - BOUNDS[0], 271)


def plain(seed: int, ridge: float = 0.1) -> MF:
    """Biases, factors and a ridge by stochastic gradient descent, as in Surprise; the ridge that suits these data."""
    return MF(FACTORS, solver="sgd", biases=True, ridge=ridge, max_iter=100, random_state=seed)


def als(seed: int, ridge: float = 0.1) -> CCDPlusPlus:
    """What Spark's ALS minimises, with its default ridge."""
    return CCDPlusPlus(FACTORS, ridge=ridge, max_iter=20, random_state=seed)


def bounded(seed: int, **settings: Any) -> MBMF:
    """MBMF as it comes."""
    return MBMF(FACTORS, bounds=BOUNDS, random_state=seed, **settings)


MODELS: dict[str, Callable[[int], Any]] = {
    PLAIN: plain,
    LOOSE: lambda seed: plain(seed, 0.02),
    ALS: als,
    OURS: bounded,
    BAYES: lambda seed: BayesianMBMF(FACTORS, bounds=BOUNDS, random_state=seed),
}


def fit(model: Any, ratings: Ratings) -> None:
    """Fit without the warnings that the tables answer themselves."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", message=".*lie outside their own range")
        model.fit(ratings)


def clipped(predictions: Floats) -> Floats:
    """Predictions cut to the scale."""
    return np.clip(predictions, *BOUNDS)


def say(*words: str) -> None:
    """Tell how far the run is."""
    print(*words, file=sys.stderr, flush=True)


# --- 1: where the predictions lie -------------------------------------------------------------------------------


def predictions_part(fitted: dict[str, Any], split: Films) -> Part:
    """Every user with every film: how many predictions leave the scale, and how far."""
    everything = {name: predict_everything(model, split) for name, model in fitted.items()}
    draw_predictions({name: everything[name] for name in (ALS, PLAIN, OURS)})
    X, y = split.test.to_pairs()
    rows = []
    for name, some in everything.items():
        error = metrics.rmse(y, fitted[name].predict(X))
        outside = metrics.out_of_range_share(some, *BOUNDS)
        reach = [f"{100 * outside:.2f}", f"{some.min():.2f}", f"{some.max():.2f}"]
        rows.append([name, f"{error:.4f}", *reach])
    columns = ["model", "test RMSE", "outside, % of all pairs", "lowest", "highest"]
    return Part("1. Where the predictions lie", columns, rows)


def predict_everything(model: Any, split: Films) -> Floats:
    """The predictions of every user with every film."""
    users, items = model.user_ids_.ids, model.item_ids_.ids
    return split.trial().predict_pairs(lambda row, column: model.predict(pair_array(users[row], items[column])))


def draw_predictions(everything: dict[str, Floats]) -> None:
    """Histograms on a log scale: what leaves the bounds is few among millions, and would not be seen otherwise."""
    canvas = new_canvas(5.2, 3.5)
    panel = canvas.subplots()
    edges = -2.6, 6.8
    for name, some in everything.items():
        counts = np.histogram(np.clip(some, BINS[0], BINS[-1]), BINS)[0].reshape(-1, 2).sum(axis=1)
        panel.stairs(counts, BINS[::2], fill=True, alpha=0.3, color=COLOURS[name])
        panel.stairs(counts, BINS[::2], color=COLOURS[name], linewidth=1.5, label=f"{name}, up to {some.max():.1f}")
    for end, outer in zip(BOUNDS, edges, strict=True):
        panel.axvspan(end, outer, color="black", alpha=0.07, linewidth=0)
        panel.axvline(end, color="black", linestyle="--", linewidth=1)
    panel.set(yscale="log", ylim=(0.7, 1e6), xlim=edges, xticks=range(-2, 7))
    panel.set_xlabel("predicted stars (grey: no such stars)")
    panel.set_ylabel("user-film pairs")
    panel.legend(frameon=False, ncols=3, loc="lower center", bbox_to_anchor=(0.46, 1), handlelength=1, columnspacing=1)
    finish(canvas, "why-predictions")


# --- 2: what clipping does to a list ----------------------------------------------------------------------------

#: Films with fewer training ratings stay out of the lists: films whose only rating comes from the same person can be
#: one and the same to a method that solves for each film exactly, and tie for that reason. The table counts these, too.
LEAST_RATINGS = 5


def lists_part(fitted: dict[str, Any], split: Films) -> Part:
    """Top-10 lists before and after clipping."""
    films, n_ratings = np.unique(split.training.to_pairs()[0][:, 1], return_counts=True)
    candidates = films[n_ratings >= LEAST_RATINGS]
    users = np.arange(split.data.n_users)
    scores = {name: model.recommend(users, n=10, candidates=candidates)[1] for name, model in fitted.items()}
    shares = {name: tied_lists(clipped(some)) for name, some in scores.items()}
    draw_lists(shares, scores[PLAIN], scores[OURS])
    rows = []
    for name, some in scores.items():
        all_ten = np.mean(np.ptp(clipped(some), axis=1) == 0)
        above = np.mean(some[:, 0] > BOUNDS[1])
        of_all_films = tied_lists(fitted[name].recommend(users, n=10)[1])
        found = above, tied_lists(some), shares[name], all_ten, of_all_films
        rows.append([name, *(f"{100 * share:.1f}" for share in found)])
    columns = [
        "model",
        "lists led by more than 5 stars, %",
        "lists with ties, %",
        "the same, clipped, %",
        "all ten tied, %",
        "lists of all films with ties, unclipped, %",
    ]
    note = f"Top-10 lists of {len(users)} users; {len(candidates):,} films have {LEAST_RATINGS} ratings or more."
    return Part("2. What clipping does to a list", columns, rows, notes=[note])


def tied_lists(scores: Floats) -> float:
    """Share of the lists in which two places have the same score."""
    return float(np.mean((np.diff(scores, axis=1) == 0).any(axis=1)))


def an_example(scores: Floats) -> int:
    """Of the users with about half a list tied by clipping, the one whose scores fall most along the list."""
    tied = (scores >= BOUNDS[1]).sum(axis=1)
    return int(np.argmax(np.where((tied >= 5) & (tied <= 7), np.ptp(scores, axis=1), -np.inf)))


def draw_lists(shares: dict[str, float], unbounded: Floats, ours: Floats) -> None:
    """Above: lists with ties by model. Below: one list, before and after."""
    canvas = new_canvas(5.2, 5.4)
    above, below = canvas.subplots(2, 1, height_ratios=[2, 3])
    names = list(shares)[::-1]
    bars = above.barh(names, [100 * shares[name] for name in names], color=[COLOURS[name] for name in names])
    above.bar_label(bars, [f"{100 * shares[name]:.0f} %" for name in names], padding=4)
    above.set(xlim=(0, 100), xticks=[])
    above.tick_params(left=False)
    above.spines["bottom"].set_visible(False)
    above.set_title("top-10 lists with ties, once clipped", loc="left")
    user = an_example(unbounded)
    places = np.arange(1, 11)
    below.axhspan(BOUNDS[1], 7, color="black", alpha=0.07, linewidth=0)
    below.plot(places, unbounded[user], "o--", color=COLOURS[PLAIN], mfc="white", label="plain")
    below.plot(places, clipped(unbounded[user]), "s-", color=COLOURS[PLAIN], label="plain, clipped")
    below.plot(places, ours[user], "D-", color=COLOURS[OURS], label=OURS)
    low, high = min(unbounded[user].min(), ours[user].min()), unbounded[user].max()
    below.set(ylim=(low - 0.05, high + 0.1), xticks=places, xlabel="place in the list", ylabel="predicted stars")
    below.set_title("one person's list", loc="left")
    below.legend(frameon=False, loc="upper right")
    finish(canvas, "why-ties")


# --- 3: the ridge ------------------------------------------------------------------------------------------------

#: λ in Σ (v − p)² + λ Σ n_i|w_i|² + λ Σ n_j|h_j|², the same for all; MBMF's ``ridge`` is in units of the half-width.
RIDGES = (0.003, 0.01, 0.03, 0.06, 0.1, 0.14, 0.2, 0.4)
HALF_WIDTH = (BOUNDS[1] - BOUNDS[0]) / 2
BY_RIDGE: dict[str, Callable[[int, float], Any]] = {
    ALS: als,
    PLAIN: plain,
    OURS: lambda seed, ridge: bounded(seed, ridge=ridge / HALF_WIDTH),
    STRICT: lambda seed, ridge: bounded(seed, ridge=ridge / HALF_WIDTH, slack=1.0),
}


def ridge_part(data: Dataset) -> Part:
    """Test error by ridge; what has no bounds is clipped, which helps it."""
    errors = {name: ridge_errors(name, data) for name in BY_RIDGE}
    draw_ridges(errors)
    rows = [[name, *(f"{error:.4f}" for error in some)] for name, some in errors.items()]
    without = [
        np.mean([error_of(bounded(seed, ridge=0.0, slack=slack), data, seed) for seed in SEEDS])
        for slack in ("auto", 1.0)
    ]
    notes = [
        f"Test RMSE, clipped, mean of {len(SEEDS)} splits. Without any ridge: {OURS} {without[0]:.4f}, "
        f"{STRICT} {without[1]:.4f}."
    ]
    return Part("3. The ridge", ["model", *(f"λ = {ridge:g}" for ridge in RIDGES)], rows, notes=notes)


def ridge_errors(name: str, data: Dataset) -> Floats:
    """Mean test error of one model for each ridge."""
    say(name, "by ridge")
    return np.array(
        [np.mean([error_of(BY_RIDGE[name](seed, ridge), data, seed) for seed in SEEDS]) for ridge in RIDGES]
    )


def error_of(model: Any, data: Dataset, seed: int) -> float:
    """Test error of clipped predictions on a split."""
    split = Films.divided(data, seed)
    fit(model, split.training)
    X, y = split.test.to_pairs()
    return metrics.rmse(y, clipped(model.predict(X)))


def draw_ridges(errors: dict[str, Floats]) -> None:
    """Error against the ridge, all on one scale."""
    canvas = new_canvas(5.2, 3.7)
    panel, ticks = canvas.subplots(), (0.003, 0.01, 0.03, 0.1, 0.4)
    for (name, some), mark in zip(errors.items(), "osD^", strict=True):
        panel.plot(RIDGES, some, mark + ("--" if name in (ALS, PLAIN) else "-"), color=COLOURS[name], label=name)
    panel.set_xscale("log")
    panel.set_xticks(ticks, [f"{ridge:g}" for ridge in ticks])
    panel.minorticks_off()
    panel.set(xlabel="ridge (log scale)", ylabel="error on new ratings (RMSE)")
    panel.grid(axis="y", alpha=0.25)
    panel.legend(frameon=False)
    finish(canvas, "why-ridge")


# --- 4: few ratings ----------------------------------------------------------------------------------------------

COUNTS = (1, 2, 5, 10, 20)
PEOPLE, JUDGED_BY = 200, 20
FEW = (ALS, PLAIN, OURS, BAYES)


class Newcomers(NamedTuple):
    """For each rating: how many of the same newcomer come before it (−1: not a newcomer's), and whether it judges."""

    rank: NDArray[np.int64]
    judges: Mask

    def training(self, count: int) -> Mask:
        """Everything of the others, and so many ratings of each newcomer."""
        return self.rank < count


def newcomers(data: Dataset, seed: int) -> Newcomers:
    """Draw people whose ratings, in random order, are some to learn from, then some to be judged by."""
    rng = np.random.default_rng(seed)
    enough = np.flatnonzero(np.bincount(data.user) >= COUNTS[-1] + JUDGED_BY)
    chosen = np.isin(data.user, rng.choice(enough, PEOPLE, replace=False))
    order = rng.permutation(data.rating.size)
    order = order[np.argsort(data.user[order], kind="stable")]
    rank = np.empty(data.rating.size, np.int64)
    rank[order] = np.arange(order.size) - np.searchsorted(data.user[order], data.user[order])
    rank[~chosen] = -1
    known = np.isin(data.item, data.item[~chosen])
    return Newcomers(rank, known & (rank >= COUNTS[-1]) & (rank < COUNTS[-1] + JUDGED_BY))


class Judged(NamedTuple):
    """Squared errors of each model, the Bayesian one's variances, and which of its 80 % intervals hold."""

    squares: dict[str, Floats]
    variance: Floats
    covered: Mask


def judge(data: Dataset, count: int, seed: int) -> Judged:
    """Fit with so many ratings of every newcomer."""
    people = newcomers(data, seed)
    training = people.training(count)
    X, y = data.pairs[people.judges], data.rating[people.judges]
    fitted = {name: MODELS[name](seed) for name in FEW}
    for model in fitted.values():
        fit(model, Ratings.from_pairs(data.pairs[training], data.rating[training]))
    squares = {name: (y - clipped(model.predict(X))) ** 2 for name, model in fitted.items()}
    low, high = fitted[BAYES].predict_quantiles(X, (0.1, 0.9)).T
    return Judged(squares, fitted[BAYES].predict(X, return_std=True)[1] ** 2, (low <= y) & (y <= high))


def few_part(data: Dataset) -> Part:
    """Error by the number of ratings somebody has given."""
    errors: dict[str, list[float]] = {name: [] for name in (*FEW, "expected")}
    rows = []
    for count, runs in judged_by_count(data):
        for name in FEW:
            errors[name].append(float(np.sqrt(np.mean(np.concatenate([run.squares[name] for run in runs])))))
        errors["expected"].append(float(np.sqrt(np.mean(np.concatenate([run.variance for run in runs])))))
        covered = np.mean(np.concatenate([run.covered for run in runs]))
        rows.append([str(count), *(f"{some[-1]:.4f}" for some in errors.values()), f"{100 * covered:.1f}"])
    draw_few(errors)
    columns = ["ratings given", *FEW, f"σ of {BAYES}", "in its 80 % interval, %"]
    note = f"Test RMSE, clipped, over {PEOPLE} newcomers, {JUDGED_BY} ratings each, in {len(SEEDS)} draws."
    return Part("4. Few ratings", columns, rows, notes=[note])


def judged_by_count(data: Dataset) -> Iterator[tuple[int, list[Judged]]]:
    """All draws of newcomers for each number of ratings."""
    for count in COUNTS:
        say("newcomers with", str(count))
        yield count, [judge(data, count, seed) for seed in SEEDS]


def draw_few(errors: dict[str, list[float]]) -> None:
    """Error by number of ratings, and the error that the Bayesian model expects of itself."""
    canvas = new_canvas(5.2, 4.2)
    panel = canvas.subplots()
    for name, mark in zip(FEW, ("o--", "s--", "D-", "v-"), strict=True):
        panel.plot(COUNTS, errors[name], mark, color=COLOURS[name], label=name)
    panel.plot(COUNTS, errors["expected"], ":", color=GREY, linewidth=2, label="what BayesianMBMF expects")
    panel.set_xscale("log")
    panel.set_xticks(COUNTS, [str(count) for count in COUNTS])
    panel.minorticks_off()
    panel.set(xlabel="ratings that somebody has given", ylabel="error on their others (RMSE)")
    panel.set_ylim(top=1.12)  # ALS leaves the picture, or nobody could tell the others apart
    panel.grid(axis="y", alpha=0.25)
    panel.legend(frameon=False, ncols=2, loc="lower center", bbox_to_anchor=(0.45, 1), handlelength=1.8)
    finish(canvas, "why-few")


def finish(canvas: Any, name: str) -> None:
    """Take away what nobody reads, and write the picture."""
    for panel in canvas.axes:
        panel.spines[["top", "right"]].set_visible(False)
    save_svg(canvas, PICTURES / f"{name}.svg")


def main() -> None:
    data = datasets.movielens_sample()
    split = Films.divided(data, SEEDS[0])
    fitted = {name: build(SEEDS[0]) for name, build in MODELS.items()}
    for name, model in fitted.items():
        say(name)
        fit(model, split.training)
    with matplotlib.rc_context({"font.size": 11.5, "legend.fontsize": 10.5, "axes.titlesize": 11.5}):
        measure: dict[str, Callable[[], Part]] = {
            "1": lambda: predictions_part(fitted, split),
            "2": lambda: lists_part(fitted, split),
            "3": lambda: ridge_part(data),
            "4": lambda: few_part(data),
        }
        for number, part in measure.items():
            found = part()
            save_parts({number: found}, "why_bounds")
            print(found.markdown(), "\n", flush=True)


if __name__ == "__main__":
    main()
