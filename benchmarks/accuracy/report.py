"""The report: a table for each data set, all figures as CSV, and error against seconds as a plot."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.accuracy.methods import METHODS, OURS
from benchmarks.accuracy.plan import QUICK_SWEEPS, Options, fit_cell, methods_of, tune_cell
from benchmarks.accuracy.tasks import TASKS
from benchmarks.drawing import MARKERS, new_canvas, save_svg
from benchmarks.measure import Check, Part, table

Record = Mapping[str, Any]
Results = dict[str, dict[int, dict[str, Any]]]  # by method and finished split

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
  from its samples and its noise. In brackets, where given: intervals from `predict_quantiles`.
- Peers and the biases are tuned on a tenth of the first split's training ratings (tables below); ours have nothing to
  tune here. K and sweeps are the same for `BayesianMBMF` and myFM; `MBMF` has its own default number of sweeps.
"""


def write_report(done: Mapping[str, Record], output: Path, options: Options) -> Path:
    """Write page, CSV files and plots from the finished cells."""
    looked_at = next(task.looked_at for task in TASKS.values() if task.looked_at)
    blocks = ["# Accuracy against peers", _machines(done), NOTES.format(looked_at=looked_at).rstrip()]
    for name in options.tasks:
        results = _results(name, done, options)
        if not any(results.values()):
            continue
        _write_csv(results, output / f"{name}.csv")
        _draw(name, results, output / f"{name}.svg")
        blocks += [
            _part(name, results, options).markdown(),
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


def _machines(done: Mapping[str, Record]) -> str:
    """What it was measured on, and with which versions."""
    machines = {f"{made['cpu']}, {made['cores']} cores" for made in (record["made"] for record in done.values())}
    versions = {record["result"]["version"] for record in done.values() if "version" in record["result"]}
    return f"Machine: {'; '.join(sorted(machines))}. Versions: {', '.join(sorted(versions))}." if done else ""


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
    words = " / ".join(f"{share:.1f}" for share in 100 * np.mean([coverage["std"] for coverage in found], axis=0))
    if all("quantiles" in coverage for coverage in found):
        shares = 100 * np.mean([coverage["quantiles"] for coverage in found], axis=0)
        words += " (" + " / ".join(f"{share:.1f}" for share in shares) + ")"
    return words


def _checks(name: str, results: Results) -> list[Check]:
    """What is asked of `BayesianMBMF`, on the splits that are finished."""
    ours, target = list(results["BayesianMBMF"].values()), TASKS[name].target
    if not ours:
        return []
    rmse = float(np.mean([result["all"]["rmse"] for result in ours]))
    outside = max(result["everywhere"]["outside"] for result in ours)
    return [
        Check("RMSE of BayesianMBMF", f"{rmse:.4f}", f"≤ {target:g}", rmse <= target),
        Check("its predictions out of bounds", f"{outside:.1%}", "0", outside == 0),
        *_check_against_myfm(name, results),
        *_check_sweeps(results),
        *_check_intervals(name, ours),
    ]


def _check_against_myfm(name: str, results: Results) -> list[Check]:
    """Error and time against myFM's, on the splits that both have."""
    ours, theirs = results["BayesianMBMF"], results["myFM"]
    pairs = [(ours[split], theirs[split]) for split in ours if split in theirs]
    if not pairs:
        return []
    checks = []
    for which, word in (("all", "as predicted"), ("clipped", "clipped")):
        gaps = [their[which]["rmse"] - our[which]["rmse"] for our, their in pairs]
        gap = f"by {np.mean(gaps):.4f} (at least {min(gaps):.4f})"
        checks.append(Check(f"RMSE below myFM's, {word}", gap, "> 0", float(np.mean(gaps)) > 0))
    if name == "movielens-1m":
        ratio = sum(their["seconds"] for _, their in pairs) / sum(our["seconds"] for our, _ in pairs)
        checks.append(Check("myFM's seconds / its own", f"{ratio:.1f}", "≥ 6", ratio >= 6))
    return checks


def _check_sweeps(results: Results) -> list[Check]:
    """A sweep of the sampler against one of the exact solver."""
    if not (results["BayesianMBMF"] and results["MBMF"]):
        return []
    ours, exact = (
        np.median([result["sweep_seconds"] for result in results[name].values()]) for name in ("BayesianMBMF", "MBMF")
    )
    ratio = float(ours / exact)
    return [Check("a sweep of it / of MBMF", f"{ratio:.2f}", "≤ 1.6", ratio <= 1.6)]


def _check_intervals(name: str, ours: list[dict[str, Any]]) -> list[Check]:
    if name not in ("movielens-1m", "jester"):
        return []
    shares = np.mean([result["coverage"]["std"] for result in ours], axis=0)
    off = 100 * float(np.abs(shares - (0.5, 0.8, 0.95)).max())
    return [Check("its intervals, largest gap in points", f"{off:.1f}", "≤ 3", off <= 3)]


def _tuning(name: str, done: Mapping[str, Record], options: Options) -> str:
    """The grids, and what they gave on the validation part."""
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
