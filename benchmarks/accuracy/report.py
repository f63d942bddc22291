"""The report: a table for each data set, all figures as CSV, and error against seconds as a plot."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.accuracy.child import LEVELS
from benchmarks.accuracy.methods import METHODS, OURS
from benchmarks.accuracy.plan import QUICK_SWEEPS, Options, fit_cell, methods_of, tune_cell
from benchmarks.accuracy.tasks import TASKS
from benchmarks.cells import Record, machines
from benchmarks.drawing import MARKERS, new_canvas, save_svg
from benchmarks.measure import Check, Part, table
from boundrec.arrays import Floats

Results = dict[str, dict[int, dict[str, Any]]]  # by method and finished split
#: What is judged, and the same with less to learn from.
OURSELVES, RATINGS_ALONE = "BayesianMBMF", "BayesianMBMF, ratings alone"
FIFTHS = {"least_noise": "whose users have the least noise", "most_noise": "whose users have the most noise"}

COLUMNS = [
    "method",
    "splits",
    "RMSE",
    "RMSE, clipped",
    "RMSE, warm pairs",
    "MAE",
    "F1, %",
    "outside, %",
    "ties in top-10, %",
    "ties, clipped, %",
    "seconds",
    "processor s",
    "peak memory, MB",
    "50 / 80 / 95 % intervals hold, %",
]
NOTES = """Every method is fitted to the same ratings of the same splits, each fit in a process of its own.

- **RMSE, MAE, F1** are over all held-out pairs, with whoever is unseen in training; ± is the standard deviation over
  the splits. F1 counts ratings above the user's training mean. *Clipped*: the same predictions cut off at the bounds,
  which boundrec's need not be. *Warm*: only pairs whose user and item both have training ratings.
- **outside**: share of the predictions for all users × all items that leave the declared bounds, as predicted (for
  BookCrossing: {looked_at} users drawn at random × all items). MBMF-n guards the upper end only.
- **ties in top-10**: share of the entries of top-10 lists (items with ratings in training that the user has not rated)
  whose score equals another one in the list; as predicted, and once predictions are clipped.
- **seconds**: wall time of `fit`, from arrays for ours (their reading included), from its own container for each peer;
  compiled before. scikit-surprise and myFM use one thread, cmfrec and boundrec all cores; *processor*: over all
  threads, which another program on the machine disturbs less. **peak memory** is that of the process until the end of
  `fit`, with Python, libraries and data.
- **intervals**: how many of the held-out ratings lie in prediction ± z·std; for myFM the standard deviation is made
  from its samples and its noise. In brackets, where given: intervals from `predict_quantiles`. Where users have a noise
  of their own, a table has the same for the fifths of the held-out ratings whose users have the least and the most.
- Peers and the biases are tuned on a tenth of the first split's training ratings (tables below); ours have nothing to
  tune here. K and sweeps are the same for `BayesianMBMF` and myFM; `MBMF` has its own default number of sweeps.
- `BayesianMBMF` has `implicit="auto", noise="auto"`, *ratings alone* has `implicit="off", noise="one"`. *myFM, with
  sets* has as features what `implicit="auto"` takes: for each user the items that they rated in training and for each
  item its raters, 1/√n at each of n; its settings are those that were chosen for myFM.
"""


def write_report(done: Mapping[str, Record], output: Path, options: Options) -> Path:
    """Write page, CSV files and plots from the finished cells."""
    looked_at = next(task.looked_at for task in TASKS.values() if task.looked_at)
    blocks = ["# Accuracy against peers", machines(done), NOTES.format(looked_at=looked_at).rstrip()]
    for name in options.tasks:
        results = _results(name, done, options)
        if not any(results.values()):
            continue
        _write_csv(results, output / f"{name}.csv")
        _draw(name, results, output / f"{name}.svg")
        blocks += [
            _part(name, results, options).markdown(),
            _fifths(results),
            f"![Error against seconds]({name}.svg)",
            _tuning(name, done, options),
        ]
    page = output / "accuracy.md"
    page.write_text("\n\n".join(block for block in blocks if block) + "\n")
    return page


def _results(name: str, done: Mapping[str, Record], options: Options) -> Results:
    results: Results = {}
    for method in methods_of(name):
        cells = {split: fit_cell(name, method, split, options).name for split in range(options.splits)}
        results[method] = {split: done[cell]["result"] for split, cell in cells.items() if cell in done}
    return results


# --- one data set -----------------------------------------------------------------------------------------------


def _part(name: str, results: Results, options: Options) -> Part:
    task = TASKS[name]
    rows = [_row(method, list(some.values())) for method, some in results.items() if some]
    some = next(result for some in results.values() for result in some.values())
    way = "the paper's split (history unused)" if task.paper_split else "90/10"
    sweeps = QUICK_SWEEPS if options.quick else task.sweeps
    title = f"{task.title}, {way}, K = {task.n_factors}, {sweeps} sweeps"
    cold = some["cold"]["n"] / some["all"]["n"]
    note = f"{some['n_training']:,} ratings to fit, {some['all']['n']:,} held out, {cold:.1%} of them cold."
    return Part(title, COLUMNS, rows, [] if options.quick else _checks(name, results), [note])


def _row(method: str, some: list[dict[str, Any]]) -> list[str]:
    everywhere = [result["everywhere"] for result in some]
    return [
        method,
        str(len(some)),
        _with_spread(some, "all"),
        _mean_of([result["clipped"]["rmse"] for result in some], ".4f"),
        _mean_of([result["warm"]["rmse"] for result in some], ".4f"),
        _mean_of([result["all"]["mae"] for result in some], ".4f"),
        _mean_of([result["all"]["f1"] for result in some], ".2f"),
        _share(everywhere, "outside"),
        _share(everywhere, "ties"),
        _share(everywhere, "ties_clipped"),
        _mean_of([result["seconds"] for result in some], ".2f"),
        _mean_of([result["cpu_seconds"] for result in some], ".2f"),
        _mean_of([1000 * result["memory"] for result in some], ".0f"),
        _intervals([result["coverage"] for result in some]),
    ]


def _mean_of(values: list[Any], form: str) -> str:
    """The mean over the splits; nothing where a split has none."""
    return "" if any(value is None for value in values) else format(float(np.mean(values)), form)


def _with_spread(some: list[dict[str, Any]], which: str) -> str:
    mean = _mean_of([result[which]["rmse"] for result in some], ".4f")
    if not mean:
        return "diverged"
    return f"{mean} ± {np.std([result[which]['rmse'] for result in some], ddof=1):.4f}" if len(some) > 1 else mean


def _share(some: list[dict[str, Any]], key: str) -> str:
    """A share in per cent: a plain 0 only where there is none at all."""
    values = [result[key] for result in some]
    if any(value is None for value in values):
        return ""
    mean = 100 * float(np.mean(values))
    return "0" if mean == 0 else f"{mean:.2f}" if mean >= 0.01 else f"{mean:.1e}"


def _intervals(some: list[dict[str, Any] | None]) -> str:
    found = [coverage for coverage in some if coverage is not None]
    if not found:
        return ""
    words = _percentages([coverage["std"] for coverage in found])
    if all("quantiles" in coverage for coverage in found):
        words += f" ({_percentages([coverage['quantiles'] for coverage in found])})"
    return words


def _percentages(shares: list[list[float]]) -> str:
    """Shares at each level, on average over the splits."""
    return " / ".join(f"{share:.1f}" for share in 100 * np.mean(shares, axis=0))


def _fifths(results: Results) -> str:
    """How intervals from quantiles hold where users have the least and the most noise."""
    rows = []
    for method, some in results.items():
        found = [result["coverage"] for result in some.values() if "least_noise" in (result["coverage"] or {})]
        for fifth, word in FIFTHS.items() if found else ():
            shares = _percentages([coverage[fifth]["quantiles"] for coverage in found])
            rows.append([method, word, _mean_of([coverage[fifth]["noise"] for coverage in found], ".2f"), shares])
    columns = ["method", "a fifth of the held-out ratings", "noise / the usual", "50 / 80 / 95 % quantiles hold, %"]
    return table(columns, rows) if rows else ""


def _checks(name: str, results: Results) -> list[Check]:
    """What is asked of `BayesianMBMF`, on the splits that are finished."""
    ours, target = list(results[OURSELVES].values()), TASKS[name].target
    if not ours:
        return []
    rmse = float(np.mean([result["all"]["rmse"] for result in ours]))
    outside = max(result["everywhere"]["outside"] for result in ours)
    checks = [Check(f"RMSE of {OURSELVES}", f"{rmse:.4f}", f"≤ {target:g}", rmse <= target)]
    return [
        *(checks if np.isfinite(target) else []),
        *_check_gain(name, results),
        Check("its predictions out of bounds", f"{outside:.1%}", "0", outside == 0),
        *_check_against(results, OURSELVES, "myFM"),
        *_check_against(results, OURSELVES, "myFM, with sets"),
        *(_check_seconds(results) if name == "movielens-1m" else []),
        *_check_sweeps(results),
        *_check_intervals(ours),
    ]


def _both(results: Results, one: str, other: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """The results of two methods, on the splits that both have."""
    left, right = results.get(one, {}), results.get(other, {})
    return [(left[split], right[split]) for split in left if split in right]


def _gaps(pairs: list[tuple[dict[str, Any], dict[str, Any]]], which: str = "all") -> tuple[Floats, str]:
    """How far the RMSE of the first lies below that of the second, by split and in words."""
    gaps = np.array([other[which]["rmse"] - one[which]["rmse"] for one, other in pairs])
    return gaps, f"by {gaps.mean():.4f} (at least {gaps.min():.4f})"


def _check_gain(name: str, results: Results) -> list[Check]:
    """What sets and noise of each row's own bring: as much as is asked for, or no loss beyond twice its error."""
    pairs, gain = _both(results, OURSELVES, RATINGS_ALONE), TASKS[name].gain
    if not pairs:
        return []
    (gaps, words), what = _gaps(pairs), "RMSE below that of ratings alone"
    if gain:
        return [Check(what, words, f"≥ {gain:g}", float(gaps.mean()) >= gain)]
    chance = 2 * float(gaps.std(ddof=1)) / np.sqrt(len(gaps)) if len(gaps) > 1 else 0.0
    return [Check(what, words, f"≥ {-chance:.4f}, twice its standard error", float(gaps.mean()) >= -chance)]


def _check_against(results: Results, ours: str, theirs: str) -> list[Check]:
    """Our error against that of a peer."""
    pairs, checks = _both(results, ours, theirs), []
    for which, word in (("all", "as predicted"), ("clipped", "clipped")) if pairs else ():
        gaps, words = _gaps(pairs, which)
        checks.append(Check(f"RMSE below that of {theirs}, {word}", words, "> 0", float(gaps.mean()) > 0))
    return checks


def _check_seconds(results: Results) -> list[Check]:
    """Processor seconds to fit against those of myFM, which has to learn from the same."""
    checks = []
    for ours, theirs, least in ((RATINGS_ALONE, "myFM", 6), (OURSELVES, "myFM, with sets", 1)):
        pairs = _both(results, ours, theirs)
        if pairs:
            ratio = sum(their["cpu_seconds"] for _, their in pairs) / sum(our["cpu_seconds"] for our, _ in pairs)
            what = f"processor seconds of {theirs} / of {ours}"
            checks.append(Check(what, f"{ratio:.1f}", f"≥ {least}", ratio >= least))
    return checks


def _check_sweeps(results: Results) -> list[Check]:
    """A sweep of the sampler against one of the exact solver, both with ratings alone."""
    if not (results.get(RATINGS_ALONE) and results.get("MBMF")):
        return []
    ours, exact = (
        np.median([result["sweep_seconds"] for result in results[name].values()]) for name in (RATINGS_ALONE, "MBMF")
    )
    ratio = float(ours / exact)
    return [Check("a sweep with ratings alone / of MBMF", f"{ratio:.2f}", "≤ 1.6", ratio <= 1.6)]


def _check_intervals(ours: list[dict[str, Any]]) -> list[Check]:
    """How far intervals are from what they promise, in points."""
    found, checks = [result["coverage"] for result in ours], []
    for way, word in (("std", "by standard deviations"), ("quantiles", "by quantiles")):
        checks.append(_check_gap(f"its intervals {word}", [coverage[way] for coverage in found], 2))
    for fifth, word in FIFTHS.items():
        if all(fifth in coverage for coverage in found):
            checks.append(_check_gap(f"the same, {word}", [coverage[fifth]["quantiles"] for coverage in found], 4))
    return checks


def _check_gap(what: str, shares: list[list[float]], most: float) -> Check:
    off = 100 * float(np.abs(np.mean(shares, axis=0) - LEVELS).max())
    return Check(f"{what}, largest gap in points", f"{off:.1f}", f"≤ {most:g}", off <= most)


def _tuning(name: str, done: Mapping[str, Record], options: Options) -> str:
    """The grids, and what they gave on the validation part."""
    if not any(METHODS[method].grid for method in methods_of(name)):
        return ""
    if TASKS[name].tuned_as is not None:
        return f"Peers have the settings that were chosen for K = {TASKS[TASKS[name].tuned_as or name].n_factors}."
    rows = []
    for method, kind in METHODS.items():
        record = done.get(tune_cell(name, method, options).name) if kind.grid else None
        for point in record["result"]["points"] if record else ():
            assert record is not None
            words = ", ".join(f"{key}={value}" for key, value in point["settings"].items())
            mark = "chosen" if point["settings"] == record["result"]["chosen"] else ""
            error = "diverged" if point["rmse"] is None else f"{point['rmse']:.4f}"
            rows.append([method, words, error, mark])
    return table(["tuned", "settings", "RMSE, validation", ""], rows) if rows else ""


# --- files ------------------------------------------------------------------------------------------------------


def _write_csv(results: Results, path: Path) -> None:
    """One line for each fit, nested figures with dots in their names."""
    lines = [
        {"method": method, "split": split} | _flat(result)
        for method, some in results.items()
        for split, result in some.items()
    ]
    names = list(dict.fromkeys(name for line in lines for name in line))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)


def _flat(result: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in result.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = " ".join(map(str, value)) if isinstance(value, list) else value
    return flat


def _draw(name: str, results: Results, path: Path) -> None:
    """RMSE against seconds of fitting, a mark for each method: the mean over its splits."""
    canvas = new_canvas()
    panel = canvas.subplots()
    for index, (method, some) in enumerate(results.items()):
        errors = [result["all"]["rmse"] for result in some.values()]
        if not some or None in errors or method == "global mean":  # far above, it would press the others together
            continue
        look = {"marker": MARKERS[index], "color": f"C{index}", "s": 70 if method in OURS else 40}
        seconds = max(float(np.mean([result["seconds"] for result in some.values()])), 1e-2)
        panel.scatter(seconds, np.mean(errors), label=method, **look)
    panel.set_xscale("log")
    panel.set_xlabel("seconds to fit")
    panel.set_ylabel("RMSE on all held-out ratings")
    panel.set_title(f"{TASKS[name].title}, K = {TASKS[name].n_factors}", fontsize=10)
    panel.grid(alpha=0.25)
    canvas.legend(loc="outside right upper", fontsize=8, frameon=False)
    save_svg(canvas, path)
