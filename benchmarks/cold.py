"""Users and items with one rating each: how much their predictions vary over restarts, on MovieLens 100k.

``python -m benchmarks.cold`` takes all but one rating from 100 users and 100 items drawn at random, fits every model
ten times from different seeds, and looks at all pairs of one of them with anybody: the standard deviation of the ten
predictions, and the error on the ratings that were taken away. Writes ``results/cold.md`` and ``results/cold.svg``.
Needs BOUNDREC_DATA.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.drawing import new_canvas, save_svg
from benchmarks.measure import RESULTS, Check, Part, real_data, save_parts
from boundrec import MBMF, MF, NMF, BayesianMBMF, CCDPlusPlus, metrics
from boundrec.arrays import Floats
from boundrec.datasets import Dataset

FACTORS, COLD, RESTARTS = 20, 100, 10

#: As in the tables of the paper: rivals without biases, 500 iterations at most.
MODELS: dict[str, Callable[[Any, int], Any]] = {
    "MF": lambda bounds, seed: MF(FACTORS, bounds=bounds, max_iter=500, random_state=seed),
    "NMF": lambda bounds, seed: NMF(FACTORS, bounds=bounds, max_iter=500, random_state=seed),
    "CCD++": lambda bounds, seed: CCDPlusPlus(FACTORS, bounds=bounds, max_iter=500, random_state=seed),
    "MBMF-c, paper": lambda bounds, seed: MBMF.as_in_paper(FACTORS, form="c", bounds=bounds, random_state=seed),
    "MBMF": lambda bounds, seed: MBMF(FACTORS, bounds=bounds, random_state=seed),
    "BayesianMBMF": lambda bounds, seed: BayesianMBMF(FACTORS, bounds=bounds, random_state=seed),
}
RIVALS, OURS = ("MF", "NMF", "CCD++"), ("MBMF", "BayesianMBMF")


class Cold(NamedTuple):
    """Ratings to fit, those taken away, and all pairs of somebody with one rating."""

    X: NDArray[np.int32]
    y: Floats
    X_taken: NDArray[np.int32]
    y_taken: Floats
    pairs: NDArray[np.int32]


def reduce_to_one(data: Dataset, count: int, rng: np.random.Generator) -> Cold:
    """Leave one rating, drawn at random, to each of ``count`` users and ``count`` items.

    A cold user's rating is of an item that is not cold, and the other way round; users and items that cannot have
    one are not drawn. Whoever loses a rating to them keeps at least one.
    """
    enough = [np.flatnonzero(np.bincount(code) >= 10) for code in (data.user, data.item)]
    users, items = (np.sort(rng.choice(some, count, replace=False)) for some in enough)
    cold_user, cold_item = np.isin(data.user, users), np.isin(data.item, items)
    order = rng.permutation(data.rating.size)
    kept = ~(cold_user | cold_item)
    for code, alone in ((data.user, cold_user & ~cold_item), (data.item, cold_item & ~cold_user)):
        candidates = order[alone[order]]
        kept[candidates[np.unique(code[candidates], return_index=True)[1]]] = True
    everyone = [np.unique(code[kept]) for code in (data.user, data.item)]
    known = np.isin(data.user, everyone[0]) & np.isin(data.item, everyone[1])
    users, items = np.intersect1d(users, everyone[0]), np.intersect1d(items, everyone[1])
    grid = np.stack(np.meshgrid(*everyone, indexing="ij"), axis=-1).reshape(-1, 2)
    pairs = grid[np.isin(grid[:, 0], users) | np.isin(grid[:, 1], items)].astype(np.int32)
    taken = ~kept & known
    return Cold(data.pairs[kept], data.rating[kept], data.pairs[taken], data.rating[taken], pairs)


class Found(NamedTuple):
    """Standard deviations over the restarts, the mean error of a single fit, and the furthest prediction."""

    deviations: Floats
    rmse: float
    extremes: tuple[float, float]


def measure(build: Callable[[Any, int], Any], data: Dataset, cold: Cold, restarts: int) -> Found:
    """Fit a model from several seeds."""
    predictions, errors = [], []
    for seed in range(restarts):
        model = build(data.bounds, seed).fit(cold.X, cold.y)
        predictions.append(model.predict(cold.pairs))
        errors.append(metrics.rmse(cold.y_taken, model.predict(cold.X_taken)))
    stacked = np.array(predictions)
    return Found(stacked.std(axis=0), float(np.mean(errors)), (float(stacked.min()), float(stacked.max())))


def part(found: dict[str, Found], cold: Cold, restarts: int) -> Part:
    """The table, and whether ours vary less than the rivals."""
    columns = ["model", "mean σ", "median σ", "95 % of σ below", "max σ", "RMSE on what was taken", "predictions"]
    rows = []
    for name, some in found.items():
        shares = [some.deviations.mean(), *np.quantile(some.deviations, (0.5, 0.95)), some.deviations.max()]
        ends = f"{some.extremes[0]:.2f} to {some.extremes[1]:.2f}"
        rows.append([name, *(f"{share:.3f}" for share in shares), f"{some.rmse:.4f}", ends])
    least = min(float(found[name].deviations.mean()) for name in RIVALS)
    checks = [
        Check(f"mean σ of {name}", f"{mean:.3f}", f"< {least:.3f}, the least of {', '.join(RIVALS)}", mean < least)
        for name, mean in ((name, float(found[name].deviations.mean())) for name in OURS)
    ]
    note = (
        f"MovieLens 100k, K = {FACTORS}; up to {COLD} users and {COLD} items with one rating each, "
        f"{len(cold.pairs):,} pairs with one of them, {len(cold.y_taken):,} ratings taken away. σ: standard deviation "
        f"of a prediction over {restarts} fits from different seeds."
    )
    return Part("Users and items with one rating", columns, rows, checks, [note, "![σ by model](cold.svg)"])


def draw(found: dict[str, Found]) -> None:
    """σ of the pairs, as a curve for each model: the share of pairs that vary at most so much."""
    canvas = new_canvas()
    panel = canvas.subplots()
    for index, (name, some) in enumerate(found.items()):
        levels = np.linspace(0, 1, 401)
        look = {"color": f"C{index}", "linewidth": 2.0 if name in OURS else 1.2}
        panel.plot(
            np.quantile(some.deviations, levels), 100 * levels, "-" if name in OURS else "--", label=name, **look
        )
    panel.set_xscale("log")
    panel.set_xlim(left=1e-3)
    panel.set_xlabel("σ of a prediction over restarts, in stars")
    panel.set_ylabel("pairs that vary at most so much, %")
    panel.legend(fontsize=8)
    panel.grid(alpha=0.25)
    save_svg(canvas, RESULTS / "cold.svg")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cold", description="Cold users and items.")
    parser.add_argument("--restarts", type=int, default=RESTARTS)
    restarts = parser.parse_args().restarts
    data = real_data("movielens_100k")
    if data is None:
        sys.exit("There is no movielens_100k in BOUNDREC_DATA.")
    warnings.simplefilter("ignore")
    cold = reduce_to_one(data, COLD, np.random.default_rng(0))
    found = {}
    for name, build in MODELS.items():
        found[name] = measure(build, data, cold, restarts)
        print(f"{name}: mean σ {found[name].deviations.mean():.3f}, RMSE {found[name].rmse:.4f}", flush=True)
    result = part(found, cold, restarts)
    draw(found)
    save_parts({"cold": result}, "cold")
    print(result.markdown())
    return 0 if all(check.passed for check in result.checks) else 1


if __name__ == "__main__":
    sys.exit(main())
