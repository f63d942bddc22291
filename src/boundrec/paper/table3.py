"""The paper's table of RMSE, MAE and F1 on real data, for K = 10, 20, 50: its columns and those it lacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf
from statistics import fmean, pstdev
from typing import Any

from boundrec.paper import (
    NOT_RUN,
    Figure,
    Options,
    Outcome,
    Row,
    Section,
    Table,
    count_of,
    mark_best,
    methods,
    protocol,
    why_absent,
)
from boundrec.paper.cells import LONG, Cell
from boundrec.paper.choice import Known
from boundrec.paper.methods import METHODS
from boundrec.paper.protocol import PAPER_DATA

NAME = "table3"
FULL = (
    *("jester1", "movielens_100k", "movielens_1m"),
    *("bookcrossing_explicit", "bookcrossing_filled", "bookcrossing_paper"),
    *("ali_mob", "lastfm_hetrec"),
)
QUICK = ("movielens_sample", "synthetic")
N_FOLDS = 5
FACTORS = (10, 20, 50)
METRICS = ("rmse", "mae", "f1")
#: The order of work: the tiers of a data set's first fold and of its second, and how far apart the others are.
ORDER = {"movielens_100k": (0, 3, 0), "jester1": (0, 5, 2), "movielens_1m": (4, 8, 3)}
OTHERS = (3, 8, 3)
#: What the second table of a data set has: heading, place in a result, and what it is multiplied with.
BEHAVIOUR: dict[str, tuple[tuple[str, ...], float]] = {
    "RMSE clipped": (("clipped", "rmse"), 1),
    "MAE clipped": (("clipped", "mae"), 1),
    "F1 in %, mean over users": (("f1_macro",), 1),
    "% of test outside the bounds": (("outside",), 100),
    "% of top ten tied": (("tied", "raw"), 100),
    "% of top ten tied once clipped": (("tied", "clipped"), 100),
    "% of training ratings outside their own range": (("infeasible",), 100),
    "iterations": (("iterations",), 1),
    "CPU seconds": (("cpu_seconds",), 1),
}
#: The eight methods of the paper, and the rows of the table that begin a new group.
PAPER = (*methods.RIVALS, *methods.OURS)
BREAKS = (
    "MF",
    "MBMF-n",
    "MBMF-n, one range",
    "MBMF-n exact",
    "MBMF as it comes",
    "MF, two steps",
    "MBMF-n, own history",
    "MF + history",
)


def names(options: Options) -> tuple[str, ...]:
    """The data sets of the quick or of the full table."""
    return QUICK if options.quick else FULL


def choices(options: Options) -> Known:
    """What a reader can choose from."""
    factors, n_folds = ((10, 20), 1) if options.quick else (FACTORS, N_FOLDS)
    return {"data": names(options), "method": tuple(METHODS), "factors": factors, "fold": range(n_folds)}


def cells(options: Options) -> list[Cell]:
    """A cell is one method on one fold."""
    known = choices(options)
    places = [(name, k, fold) for name in known["data"] for k in known["factors"] for fold in known["fold"]]
    return [cell(*place, method, options) for place in places for method in METHODS]


def cell(name: str, n_factors: int, fold: int, method: str, options: Options) -> Cell:
    """One method on one fold of one data set."""
    return cell_of({"data": name, "method": method, "factors": n_factors, "fold": fold}, options)


def cell_of(settings: Mapping[str, Any], options: Options) -> Cell:
    """The cell with these settings, among which may be what is changed in its model."""
    name, n_factors, fold, method = (settings[key] for key in ("data", "factors", "fold", "method"))
    extent = protocol.extent(name, options.folder)
    if extent is None:
        return Cell(NAME, settings, 0.0, possible=False)
    first, second, step = ORDER.get(name, OTHERS)
    later = method in methods.FAIR or method in methods.TWO_STEPS or method in methods.ONE_RANGE
    tier = (second + (fold - 1) * step if fold else first) + later
    conditions = methods.conditions(protocol.load(name, options.folder), n_factors, fold)
    model = methods.model_of(settings, conditions)
    return Cell(NAME, settings, _seconds(method, n_factors, extent[:3]), tier, protocol.basis(model, extent))


def _seconds(method: str, n_factors: int, shape: Sequence[int]) -> float:
    """How long a cell may take with so many users, items and ratings."""
    n_users, n_items, n_ratings = shape
    n_trained = round(n_ratings * (0.95 if method.endswith("+ history") else 0.45))
    fitting = methods.estimated_seconds(METHODS[method], n_factors, (n_users, n_items), n_trained)
    return fitting + n_ratings * 1e-6


def run(settings: Mapping[str, Any], options: Options) -> dict[str, Any]:
    """Fit one method to one fold and judge it."""
    fold = protocol.fold_of(settings["data"], settings["fold"], options.folder)
    fold = fold.shifted() if settings.get("shifted") else fold
    return protocol.judge(protocol.fit_on(fold, settings), fold)


def summarise(outcomes: Sequence[Outcome], options: Options) -> Section:
    """One table for each data set, with the paper's figures where it has them."""
    section = Section("Table 3: accuracy", list(TEXT))
    if options.quick:
        section.text.append(NOISELESS)
    for name in names(options):
        own = [outcome for outcome in outcomes if outcome["data"] == name]
        title = PAPER_DATA[name].title
        if not any(outcome.result for outcome in own):
            section.text.append(f"<b>{title}: {protocol.missing(name, options.folder) or 'not run yet'}.</b>")
            continue
        own = _estimated(own)
        section.findings += _findings(title, own)
        section.tables += [_accuracy(name, own), *_cold(name, own), _behaviour(name, own)]
    return section


def _estimated(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Outcomes of which each says how long it may take, though the data be elsewhere: results tell their size."""
    shape = next(o.result["shape"] for o in outcomes if o.result is not None)
    return [
        o if o.cell.possible else replace(o, cell=replace(o.cell, seconds=_seconds(o["method"], o["factors"], shape)))
        for o in outcomes
    ]


TEXT = (
    "Half of the ratings are history, which only sets MBMF's magnitudes; a tenth of the other half is held out, anew "
    "in every fold, and the rest is trained on. All methods: at most 500 iterations, the same stopping rule, no "
    "clipping, seed = fold. F1: an entry counts as recommended when it is above the user's mean training rating "
    "(strictly; all held-out entries counted together). Under each figure: the paper's, where it has one, and ours "
    "divided by it (×); ± is the standard deviation over the folds, whose number is in brackets. The best of the "
    "paper's eight methods is marked. <b>average</b>: the mean over K, as in the paper's columns “Avg.”, where every K "
    "has been run; under it the average that the paper prints (for NMF on Ali Mob its RMSE is not the mean of the "
    "three figures beside it, which is 83,763).",
    "Rows the paper lacks. <b>Means</b>: mean, user and item offsets, nothing else. <b>one range</b>: the declared "
    "range for all in the place of individual ones. <b>exact</b>: the paper's model, "
    "solved row by row to the minimum (20 sweeps). <b>ball</b>: the same with |w| ≤ r in the place of = (the paper's "
    "future work) and magnitudes that never pass the declared bounds. <b>as it comes</b>: boundrec's own models with "
    "nothing set but K, the bounds and the seed, and without history. <b>own history</b>: "
    "magnitudes from the training ratings alone. <b>+ history</b>: the rival is trained on the past half as well, so "
    "that nobody has more data than another. <b>two steps</b>: MBMF's gradient descent has a step for users and one "
    "for items, that of MF and Bounded-SVD one for both; these rows give them two.",
)
NOISELESS = (
    "The synthetic matrix has rank 20 and no noise: with K = 20 and ratings enough, as in the rows with history, it "
    "can be recovered as it is."
)


def mean_of(outcomes: Sequence[Outcome], *path: str, published: float | None = None, scale: float = 1.0) -> Figure:
    """The mean over the finished folds of a figure in their results."""
    done = [outcome for outcome in outcomes if outcome.result is not None]
    if not done:
        return Figure(None, published, absent=why_absent(outcomes))
    values = [outcome.figure(*path) for outcome in done]
    if any(value is None for value in values):
        return Figure(None, published, f"({len(values)})", "" if path == ("infeasible",) else "not finite")
    values = [scale * value for value in values]
    spread = f"± {pstdev(values):.2g} " if len(values) > 1 else ""
    return Figure(fmean(values), published, f"{spread}({len(values)})")


def _of(outcomes: Sequence[Outcome], method: str, n_factors: int) -> list[Outcome]:
    return [o for o in outcomes if o["method"] == method and o["factors"] == n_factors]


def _factors(outcomes: Sequence[Outcome]) -> list[int]:
    return sorted({outcome["factors"] for outcome in outcomes})


def _begun(outcomes: Sequence[Outcome]) -> list[str]:
    """The methods with a result, or without one because it would take too long."""
    told = {o["method"] for o in outcomes if o.result is not None or o.cell.seconds > LONG}
    return [method for method in METHODS if method in told]


def _accuracy(name: str, outcomes: Sequence[Outcome]) -> Table:
    told, begun = PAPER_DATA[name], _begun(outcomes)
    factors = _factors(outcomes)
    theirs = PRINTED.get(told.published or "", {})
    averages = {m: dict(zip(METRICS, own, strict=True)) for m, own in AVERAGES.get(told.published or "", {}).items()}
    folds = {method: [_folds(_of(outcomes, method, k)) for k in factors] for method in begun}
    rows: list[Row] = []
    for method in begun:
        row: list[str | Figure] = [method]
        for metric, figures in zip(METRICS, theirs.get(method, [()] * len(METRICS)), strict=True):
            paper = dict(zip(FACTORS, figures, strict=False))
            own = [mean_of(_of(outcomes, method, k), metric, published=paper.get(k)) for k in factors]
            average = averages.get(method, {}).get(metric) if tuple(factors) == FACTORS else None
            row += [*own, _average(own, folds[method], average)]
        rows.append(row)
    core = f" after keeping users and items with at least {told.core} ratings" if told.core > 1 else ""
    n_users, n_items, n_ratings = next(o.result["shape"] for o in outcomes if o.result is not None)
    caption = f"{told.title}: {n_users:,} users × {n_items:,} items, {n_ratings:,} ratings{core}"
    later = [method for method in METHODS if not any(folds.get(method, ()))]
    notes = [*_unpaired(folds, factors), *([f"Not run yet: {'; '.join(later)}."] if later else [])]
    each = [*(f"K = {k}" for k in factors), "average"]
    groups = [("", 1), *((f"{metric.upper()}{' in %' if metric == 'f1' else ''}", len(each)) for metric in METRICS)]
    columns = ["method", *[column for _ in METRICS for column in each]]
    rows = mark_best(rows, PAPER, high=range(len(columns) - len(each), len(columns)))
    return Table(f"table3_{name}", caption, columns, rows, groups, breaks=BREAKS, notes=notes)


#: The folds of one method at one K that are finished.
Folds = frozenset[int]


def _folds(outcomes: Sequence[Outcome]) -> Folds:
    return frozenset(outcome["fold"] for outcome in outcomes if outcome.result is not None)


def _average(figures: Sequence[Figure], folds: Sequence[Folds], published: float | None) -> Figure:
    """The mean over K, where every K is there; in brackets the number of folds, of each K where they differ."""
    values = [figure.value for figure in figures if figure.value is not None]
    if len(values) < len(figures):
        infinite = any(figure.value is None and own for figure, own in zip(figures, folds, strict=True))
        return Figure(None, published, absent="not finite" if infinite else NOT_RUN)
    counts = [str(len(own)) for own in (folds[:1] if len(set(folds)) == 1 else folds)]
    return Figure(fmean(values), published, f"({', '.join(counts)})")


def paired(folds: Mapping[str, Sequence[Folds]]) -> bool:
    """Whether at every K all methods that have a result have the same folds."""
    return all(len({own for own in column if own}) <= 1 for column in zip(*folds.values(), strict=True))


def _unpaired(folds: Mapping[str, Sequence[Folds]], factors: Sequence[int]) -> list[str]:
    """Which rows rest on which folds, where that is not the same for all."""
    if paired(folds):
        return []
    alike: dict[str, list[str]] = {}
    for method, own in folds.items():
        each = {k: _fold_words(some) for k, some in zip(factors, own, strict=True) if some}
        same = len(each) == len(factors) and len(set(each.values())) == 1
        told = f"{each[factors[0]]} at every K" if same else ", ".join(f"{n} at K = {k}" for k, n in each.items())
        if told:
            alike.setdefault(told, []).append(method)
    first = "Rows differ in their folds, and by them: only those named together here are compared on the same ones."
    return [first, *(f"{told}: {'; '.join(some)}." for told, some in alike.items())]


def _fold_words(folds: Folds) -> str:
    """How many folds there are, and which unless they are the first ones: "2 folds", "1 fold (number 3)"."""
    words = count_of(len(folds), "fold")
    numbers = sorted(fold + 1 for fold in folds)
    return words if numbers == [*range(1, len(folds) + 1)] else f"{words} (number {_listed(numbers)})"


def over_factors(
    outcomes: Sequence[Outcome], among: Sequence[str], factors: Sequence[int]
) -> tuple[dict[str, list[float]], Folds]:
    """The RMSE at each K of the methods that were run at all of them, on the folds that all of these have; and these.

    An error that is not finite is infinite.
    """
    there = {m: [_folds(_of(outcomes, m, k)) for k in factors] for m in among}
    whole = {m: own for m, own in there.items() if own and all(own)}
    common = frozenset.intersection(*(folds for own in whole.values() for folds in own)) if whole else frozenset()
    return {m: [_error(outcomes, m, k, common) for k in factors] for m in whole if common}, common


def _error(outcomes: Sequence[Outcome], method: str, n_factors: int, folds: Folds) -> float:
    values = [o.figure("rmse") for o in _of(outcomes, method, n_factors) if o["fold"] in folds and o.result is not None]
    return fmean(inf if value is None else value for value in values)


def _findings(title: str, outcomes: Sequence[Outcome]) -> list[str]:
    """What the numbers say about two claims of the paper: MBMF is the best, and the least sensitive to K."""
    factors = _factors(outcomes)
    known, common = over_factors(outcomes, PAPER, factors)
    change = {method: 100 * (max(values) / min(values) - 1) for method, values in known.items() if inf not in values}
    if not set(methods.OURS) <= change.keys():
        return []
    lowest = [min((values[i], method) for method, values in known.items()) for i in range(len(factors))]
    steadiest = min(change, key=change.__getitem__)
    winners: dict[str, list[int]] = {}
    for (_, method), k in zip(lowest, factors, strict=True):
        winners.setdefault(method, []).append(k)
    where = ", ".join(f"{method} (K = {_listed(some)})" for method, some in winners.items())
    absent = [method for method in PAPER if method not in known]
    without = f" (not run at every K: {', '.join(absent)})" if absent else ""
    finding = (
        f"{title}, {_fold_words(common)} that all have: the lowest RMSE of {len(known)} methods of the "
        f"paper{without}: {where}. Over K, the RMSE of MBMF-n changes by {change['MBMF-n']:.1f} %, of MBMF-c by "
        f"{change['MBMF-c']:.1f} %; steadiest is {steadiest} ({change[steadiest]:.1f} %)."
    )
    means = {k: _of(outcomes, methods.MEANS, k) for k in factors}
    better = [
        k
        for k, (least, _) in zip(factors, lowest, strict=True)
        if common <= _folds(means[k]) and _error(outcomes, methods.MEANS, k, common) < least
    ]
    return [f"{finding} The mean predictor is better than all of them at K = {_listed(better)}." if better else finding]


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def _cold(name: str, outcomes: Sequence[Outcome]) -> list[Table]:
    """Pairs whose user or item has no training rating: what the fallback is worth."""
    if not any(o.figure("cold", "n_test") for o in outcomes):
        return []
    least = _factors(outcomes)[0]
    rows: list[Row] = []
    for method in (methods.MEANS, *methods.RIVALS, *methods.OURS, *methods.EXACT):
        own = _of(outcomes, method, least)
        rows.append([method, *(mean_of(own, "cold", key) for key in ("n_test", *METRICS))])
    caption = (
        f"{PAPER_DATA[name].title}, K = {least}: held-out pairs whose user or item has no training rating; "
        "the table above leaves them out"
    )
    return [Table(f"table3_{name}_cold", caption, ["method", "pairs", "RMSE", "MAE", "F1 in %"], rows, folded=True)]


def _behaviour(name: str, outcomes: Sequence[Outcome]) -> Table:
    """What clipping would change, what leaves the range, and what a fit takes."""
    factors = _factors(outcomes)
    rows: list[Row] = []
    for method in _begun(outcomes):
        row: list[str | Figure] = [method]
        for path, scale in BEHAVIOUR.values():
            row += [mean_of(_of(outcomes, method, k), *path, scale=scale) for k in factors]
        rows.append(row)
    columns = ["method", *[f"K = {k}" for _ in BEHAVIOUR for k in factors]]
    groups = [("", 1), *((head, len(factors)) for head in BEHAVIOUR)]
    caption = (
        f"{PAPER_DATA[name].title}, more about the same fits: errors once clipped, F1 as a mean over users, "
        "predictions out of range, ties, iterations and time"
    )
    return Table(f"table3_{name}_more", caption, columns, rows, groups, folded=True, breaks=BREAKS)


#: TABLE "Recommendation Performance on Real Datasets": data set -> method -> RMSE, MAE and F1, for K = 10, 20, 50 each.
PRINTED: dict[str, dict[str, tuple[tuple[float, float, float], ...]]] = {
    "Jester": {
        "MF": ((5.6107, 4.9242, 4.6770), (4.2949, 3.8589, 3.7919), (60.54, 62.26, 64.35)),
        "NMF": ((333.18, 98.349, 10.161), (9.3592, 9.3339, 5.6652), (57.96, 56.02, 58.07)),
        "CCD++": ((5.6643, 5.5892, 5.1609), (4.2840, 4.2523, 3.9493), (60.40, 60.08, 60.46)),
        "BMF": ((5.4271, 5.5027, 5.3717), (4.2851, 4.3581, 4.2744), (58.62, 58.96, 58.79)),
        "BMC-ADMM": ((4.9162, 4.9477, 4.7541), (3.8149, 3.8807, 3.7961), (60.52, 57.42, 55.22)),
        "Bounded-SVD": ((6.3798, 6.7069, 5.7458), (4.7758, 5.1434, 4.5270), (59.90, 58.32, 58.82)),
        "MBMF-n": ((4.6474, 4.6399, 4.6344), (3.7467, 3.7473, 3.7404), (65.58, 65.71, 65.60)),
        "MBMF-c": ((4.6816, 4.6695, 4.6773), (3.8045, 3.8014, 3.8039), (64.08, 64.47, 64.16)),
    },
    "BookCrossing": {
        "MF": ((1.7566, 1.3539, 1.6726), (1.3164, 0.9979, 1.2578), (87.25, 86.85, 77.31)),
        "NMF": ((1.8827, 1.6211, 1.4146), (1.2889, 1.1479, 0.9779), (82.68, 83.98, 86.43)),
        "CCD++": ((1.3137, 1.3191, 1.3131), (0.8713, 0.8753, 0.8699), (87.05, 87.07, 87.12)),
        "BMF": ((1.3409, 1.2863, 1.2990), (0.9329, 0.8563, 0.8653), (86.29, 86.29, 86.06)),
        "BMC-ADMM": ((3.3757, 3.0368, 2.8886), (3.0033, 2.6781, 2.5543), (81.93, 78.93, 67.27)),
        "Bounded-SVD": ((1.6221, 1.3541, 1.6021), (1.1873, 0.9712, 1.2017), (87.02, 87.47, 77.94)),
        "MBMF-n": ((1.2598, 1.2639, 1.2628), (0.8503, 0.8534, 0.8526), (86.33, 86.30, 86.32)),
        "MBMF-c": ((1.1783, 1.1846, 1.1813), (0.7810, 0.7849, 0.7817), (85.56, 85.64, 85.63)),
    },
    "Ali Mob": {
        "MF": ((115.93, 95.286, 61.138), (29.930, 34.871, 29.975), (38.99, 38.22, 38.76)),
        "NMF": ((235511, 4540.0, 11238), (2686.0, 959.17, 1223.1), (35.90, 34.29, 34.77)),
        "CCD++": ((63.087, 59.334, 56.933), (22.667, 25.103, 26.128), (39.58, 38.66, 38.29)),
        "BMF": ((549.66, 455.34, 380.98), (507.57, 428.79, 362.07), (32.07, 32.28, 31.69)),
        "BMC-ADMM": ((319.65, 392.39, 593.43), (157.90, 205.80, 358.47), (17.70, 18.39, 22.85)),
        "Bounded-SVD": ((43.381, 42.810, 41.766), (15.827, 15.953, 16.438), (41.83, 42.41, 42.68)),
        "MBMF-n": ((42.540, 42.903, 42.999), (18.963, 18.948, 18.896), (39.64, 39.70, 39.72)),
        "MBMF-c": ((43.273, 43.671, 43.881), (14.405, 14.329, 14.400), (43.47, 43.51, 43.56)),
    },
}
#: The averages over K that it prints beside them, for RMSE, MAE and F1. One does not follow from the figures, which
#: average 83763 (resolution A39): that of NMF on Ali Mob.
AVERAGES: dict[str, dict[str, tuple[float, float, float]]] = {
    "Jester": {
        "MF": (5.0710, 3.9820, 62.38),
        "NMF": (147.20, 8.1190, 57.35),
        "CCD++": (5.4710, 4.1620, 60.31),
        "BMF": (5.4340, 4.3060, 58.79),
        "BMC-ADMM": (4.8730, 3.8310, 57.72),
        "Bounded-SVD": (6.2780, 4.8150, 59.01),
        "MBMF-n": (4.6410, 3.7450, 65.63),
        "MBMF-c": (4.6760, 3.8030, 64.24),
    },
    "BookCrossing": {
        "MF": (1.5940, 1.1910, 83.80),
        "NMF": (1.6390, 1.1380, 84.36),
        "CCD++": (1.3150, 0.8722, 87.08),
        "BMF": (1.3090, 0.8848, 86.21),
        "BMC-ADMM": (3.1000, 2.7450, 76.04),
        "Bounded-SVD": (1.5260, 1.1200, 84.14),
        "MBMF-n": (1.2620, 0.8521, 86.32),
        "MBMF-c": (1.1810, 0.7825, 85.61),
    },
    "Ali Mob": {
        "MF": (90.784, 31.592, 38.66),
        "NMF": (131098, 1622.8, 34.99),
        "CCD++": (59.785, 24.633, 38.84),
        "BMF": (461.99, 432.81, 32.01),
        "BMC-ADMM": (435.16, 240.73, 19.65),
        "Bounded-SVD": (42.652, 16.073, 42.31),
        "MBMF-n": (42.814, 18.935, 39.69),
        "MBMF-c": (43.608, 14.378, 43.51),
    },
}
