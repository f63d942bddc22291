"""The report: a table for each data set, what is asked of our models, and the grids."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cells import Record, machines
from benchmarks.measure import Check, Part, table
from benchmarks.ranking.methods import METHODS, row_name
from benchmarks.ranking.plan import fit_cell, methods_of, tune_cell
from benchmarks.ranking.tasks import SEEDS, TASKS
from boundrec.arrays import Floats

#: By row of the table and finished seed: figures of the lists, with those of the fit.
Results = dict[str, dict[int, dict[str, Any]]]

POPULARITY, NEIGHBOURS = "popularity", ("cosine neighbours, tuned", "BM25 neighbours, tuned")
EASE, ALS, UNBOUNDED = "EASE, tuned", "implicit's ALS", "without the ball, tuned"
OURS, TUNED, BLEND = "ImplicitMBMF", "ImplicitMBMF, tuned", "BayesianMBMF by blend"
#: NDCG@10 that is asked of `ImplicitMBMF` as it comes, and of `BayesianMBMF` by blend.
LEAST = {"movielens-100k": 0.295, "movielens-1m": 0.262, "lastfm": 0.215}
LEAST_BLEND = {"movielens-100k": 0.32, "movielens-1m": 0.29}
COLUMNS = [
    "method",
    "splits",
    "NDCG@10",
    "95 % interval",
    "recall@20",
    "coverage, %",
    "novelty, bits",
    "processor s",
    "peak memory, MB",
]
NOTES = """Every method learns from the same pairs of the same splits, each fit on one thread, in a process of its own.

- **Held out** is a tenth of the pairs, three times (seeds 0, 1, 2). Of ratings the tenth is drawn freely, and those at
  or above the mean of the others are what a good list has in it; of clicks (Last.fm's plays, all of BookCrossing, its
  zeros too) every user and item keeps one to learn from, and everything held out counts.
- **Lists** are over all items that the user has not chosen in training and somebody has; of BookCrossing, whose scores
  would be 25 billion, the lists are those of {n_lists:,} users drawn at random.
- **NDCG@10** and **recall@20** are means over users, and over the splits. The **interval** is a bootstrap over the
  users of a split (ends averaged over the splits): it has the luck of who is asked in it, and not that of the split.
- **coverage**: share of the items in training that are in any list of ten. **novelty**: mean −log₂ of the share of
  users who chose an item, over lists of ten.
- **processor s**: of `fit`, compiled before; *without the ball* is plain NumPy, so that its time says little of
  the method. **peak memory**: of the process until the end of `fit`, with Python, libraries and data.
- **Tuned** is by NDCG@10 on a tenth of what seed 0 learns from, over the grids in the tables below; everything else is
  as it comes. `ImplicitMBMF` and the same loss *without the ball* have one grid.
- EASE inverts a matrix of items (where users are fewer, the same of users), which BookCrossing's 92,184 × 270,169 do
  not allow: it has no row there. `BayesianMBMF` takes Last.fm's plays as counts (`link="log1p"`) and BookCrossing's
  zeros as the lowest rating.
"""


def write_report(done: Mapping[str, Record], output: Path) -> Path:
    """Write the page from the finished cells."""
    n_lists = next(task.n_lists for task in TASKS.values() if task.n_lists)
    blocks = ["# Lists against peers", machines(done), NOTES.format(n_lists=n_lists).rstrip()]
    found = {name: _results(name, done) for name in TASKS}
    for name, results in found.items():
        if results:
            blocks += [_part(name, results).markdown(), _tuning(name, done)]
    page = output / "ranking.md"
    page.write_text("\n\n".join(block for block in blocks if block) + "\n")
    return page


def _results(name: str, done: Mapping[str, Record]) -> Results:
    results: Results = {}
    for method in methods_of(name):
        for seed in SEEDS:
            record = done.get(fit_cell(name, method, seed).name)
            for way, figures in record["result"]["ways"].items() if record else ():
                assert record is not None
                results.setdefault(row_name(method, way), {})[seed] = {**record["result"], **figures}
    return results


# --- one data set -----------------------------------------------------------------------------------------------


def _part(name: str, results: Results) -> Part:
    some = next(result for row in results.values() for result in row.values())
    note = (
        f"{some['n_training']:,} pairs to learn from, {some['n_held_out']:,} that lists of {some['n_lists']:,} users "
        "should have in them (seed 0)."
    )
    rows = [_row(row, list(seeds.values())) for row, seeds in results.items()]
    return Part(TASKS[name].title, COLUMNS, rows, _checks(name, results), [note, *_gap_to_ease(results)])


def _row(name: str, some: list[dict[str, Any]]) -> list[str]:
    def mean(key: str, form: str, unit: float = 1.0) -> str:
        return format(unit * float(np.mean([result[key] for result in some])), form)

    low, high = _ends([np.array(result["resampled"]) for result in some])
    return [
        name,
        str(len(some)),
        mean("ndcg", ".4f"),
        f"{low:.4f} to {high:.4f}",
        mean("recall", ".4f"),
        mean("coverage", ".1f", 100),
        mean("novelty", ".2f"),
        mean("cpu_seconds", ".2f"),
        mean("memory", ".0f", 1000),
    ]


def _ends(resampled: list[Floats]) -> Floats:
    """The ends of the 95 % interval of each split, averaged."""
    return np.asarray(np.mean([np.quantile(means, (0.025, 0.975)) for means in resampled], axis=0))


# --- what is asked ------------------------------------------------------------------------------------------------


def _checks(name: str, results: Results) -> list[Check]:
    """What is asked of our models, on the splits that are finished."""
    return [
        *_check_ratio(results, TUNED, UNBOUNDED, 0.97),
        *_check_ratio(results, OURS, ALS, 1.0),
        *_check_least(results, OURS, LEAST.get(name)),
        *(_check_ratio(results, BLEND, EASE, 0.98) if name in LEAST_BLEND else []),
        *_check_least(results, BLEND, LEAST_BLEND.get(name)),
        *_check_ratio(results, OURS, POPULARITY, 1.0),
        *_check_ratio(results, BLEND, POPULARITY, 1.0),
    ]


def _check_ratio(results: Results, ours: str, theirs: str, least: float) -> list[Check]:
    """NDCG@10 as a share of that of another, on the splits that both have, and how sure their difference is."""
    pairs = _both(results, ours, theirs)
    if not pairs:
        return []
    one, other = (float(np.mean([pair[side]["ndcg"] for pair in pairs])) for side in (0, 1))
    words = f"{one / other:.3f} ({_difference(pairs)})"
    return [Check(f"NDCG@10 of {ours} / of {theirs}", words, f"≥ {least:g}", one / other >= least)]


def _check_least(results: Results, ours: str, least: float | None) -> list[Check]:
    if least is None or ours not in results:
        return []
    ndcg = float(np.mean([result["ndcg"] for result in results[ours].values()]))
    return [Check(f"NDCG@10 of {ours}", f"{ndcg:.4f}", f"≥ {least:g}", ndcg >= least)]


def _both(results: Results, one: str, other: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """The results of two rows, on the splits that both have."""
    left, right = results.get(one, {}), results.get(other, {})
    return [(left[seed], right[seed]) for seed in left if seed in right]


def _difference(pairs: list[tuple[dict[str, Any], dict[str, Any]]]) -> str:
    """By how much the first is above the second, and the interval of that over users, who are drawn in pairs."""
    gap = float(np.mean([one["ndcg"] - other["ndcg"] for one, other in pairs]))
    low, high = _ends([np.array(one["resampled"]) - np.array(other["resampled"]) for one, other in pairs])
    return f"{gap:+.4f}, {low:+.4f} to {high:+.4f}"


def _gap_to_ease(results: Results) -> list[str]:
    """How far clicks alone lie from EASE, said whichever way it is."""
    return [
        f"{ours} to EASE: {_difference(_both(results, ours, EASE))} NDCG@10."
        for ours in (OURS, TUNED)
        if _both(results, ours, EASE)
    ]


def _tuning(name: str, done: Mapping[str, Record]) -> str:
    """The grids, and what they gave on the validation part."""
    rows = []
    for method in methods_of(name):
        grid = METHODS[method].grid(TASKS[name])
        record = done.get(tune_cell(name, method).name) if grid else None
        for point in record["result"]["points"] if record else ():
            assert record is not None
            words = ", ".join(f"{key}={value}" for key, value in point["settings"].items()) or "as it comes"
            mark = "chosen" if point["settings"] == record["result"]["chosen"] else ""
            rows.append([method, words, f"{point['ndcg']:.4f}", mark])
    return table(["tuned", "settings", "NDCG@10, validation", ""], rows) if rows else ""
