"""The paper's table of running times on seven sizes: bounded rivals, both solvers of MBMF, MF and NMF."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from statistics import fmean
from typing import Any

from boundrec import datasets
from boundrec.paper import Figure, Options, Outcome, Row, Section, Table, count_of, methods, protocol, why_absent
from boundrec.paper.cells import Cell
from boundrec.paper.choice import Known
from boundrec.paper.methods import METHODS, Conditions

#: TABLE "Running Time (s) on Different Scales of Matrix": (users, items, density) -> method -> seconds. K = 10.
PRINTED: dict[tuple[int, int, float], dict[str, float]] = {
    (20, 50, 1.0): {"BMF": 0.1497, "BMC-ADMM": 2.2388, "Bounded-SVD": 0.2631, "MBMF-n": 0.3018},
    (100, 100, 1.0): {"BMF": 0.5007, "BMC-ADMM": 8.8932, "Bounded-SVD": 2.6718, "MBMF-n": 0.7857},
    (200, 500, 1.0): {"BMF": 5.7100, "BMC-ADMM": 4.4400, "Bounded-SVD": 23.291, "MBMF-n": 3.0845},
    (1_000, 1_000, 1.0): {"BMF": 313.75, "BMC-ADMM": 14.908, "Bounded-SVD": 201.71, "MBMF-n": 18.293},
    (2_000, 5_000, 1.0): {"BMF": 4753.4, "BMC-ADMM": 128.73, "Bounded-SVD": 2101.3, "MBMF-n": 91.020},
    (100_000, 100_000, 0.001): {"BMC-ADMM": 34025.0, "MBMF-n": 5728.3},
    (200_000, 500_000, 0.0002): {"BMC-ADMM": 442250.0, "MBMF-n": 12251.0},
}
#: The computer behind the paper's running times.
MACHINE = "i7-6900K CPU, 16 GB memory, Windows 10"

NAME = "table1"
SHOWN = ("BMF", "BMC-ADMM", "Bounded-SVD", "MBMF-n", "MBMF-n exact", "MF", "NMF", "CCD++")
BOUNDS = (0.0, 10.0)
N_FACTORS = 10
SIZES = tuple(PRINTED)
LARGE = 1e9  # users × items from which the paper runs once
#: Up to so many cells a matrix is small enough for the quick run.
QUICK = 100_000
#: Who takes hours at the large sizes is measured on a matrix with a tenth of the users and of the items and as many
#: ratings for each user: it has as many iterations to make, and each takes a hundredth, one pass over all pairs.
SMALLER, STANDS_FOR = "BMC-ADMM", 10


def choices(options: Options) -> Known:
    """What a reader can choose from."""
    return {"method": SHOWN}


def cells(options: Options) -> list[Cell]:
    """A cell is one method on one size; small sizes are repeated, as in the paper."""
    made = []
    for n_users, n_items, density in SIZES:
        if options.quick and n_users * n_items > QUICK:
            continue
        repeats = 1 if n_users * n_items >= LARGE else 2 if options.quick else 5
        for method in SHOWN:
            for repeat in range(repeats):
                settings = {"method": method, "users": n_users, "items": n_items, "density": density, "repeat": repeat}
                made.append(cell_of(settings, options))
        if n_users * n_items >= LARGE:
            smaller = cell_of(_smaller(n_users, n_items, density), options)
            made.append(replace(smaller, seconds=smaller.seconds / 5))  # these matrices never took a fifth of 500
    return made


def _smaller(n_users: int, n_items: int, density: float) -> dict[str, Any]:
    shape = {"users": n_users // STANDS_FOR, "items": n_items // STANDS_FOR, "density": round(density * STANDS_FOR, 6)}
    return {"method": SMALLER, **shape, "repeat": 0}


def cell_of(settings: Mapping[str, Any], options: Options) -> Cell:
    """The cell with these settings, among which may be what is changed in its model."""
    shape = settings["users"], settings["items"]
    n_ratings = round(shape[0] * shape[1] * settings["density"])
    once = methods.estimated_seconds(METHODS[settings["method"]], N_FACTORS, shape, n_ratings)
    basis = protocol.basis(_model(settings))
    return Cell(NAME, settings, once + 1e-6 * n_ratings, 2 + 4 * settings["repeat"], basis)


@lru_cache(maxsize=1)
def _matrix(n_users: int, n_items: int, density: float, repeat: int) -> datasets.Dataset:
    return datasets.synthetic(n_users, n_items, density, BOUNDS, rank=N_FACTORS, random_state=repeat)


def _model(settings: Mapping[str, Any]) -> Any:
    return methods.model_of(settings, Conditions(N_FACTORS, BOUNDS, BOUNDS, settings["repeat"]))


def run(settings: Mapping[str, Any], options: Options) -> dict[str, Any]:
    """Time one fit to the end: 500 iterations or rest, whichever comes first."""
    data = _matrix(settings["users"], settings["items"], settings["density"], settings["repeat"])
    protocol.warm_up(settings["method"])
    return protocol.fit(_model(settings), data.pairs, data.rating).times


def summarise(outcomes: Sequence[Outcome], options: Options) -> Section:
    """Processor seconds beside the paper's seconds; elapsed time and iterations in a second table."""
    sizes = [size for size in SIZES if any(_size(outcome) == size for outcome in outcomes)]
    tables = [
        _table("table1", "Processor seconds, summed over cores, K = 10", "cpu_seconds", sizes, outcomes, True),
        _table("table1_elapsed", "Elapsed seconds", "seconds", sizes, outcomes, False),
        _table("table1_iterations", "Iterations until rest, at most 500", "iterations", sizes, outcomes, False),
    ]
    left_out = [f"{n:,} × {m:,}" for n, m, d in SIZES if (n, m, d) not in sizes]
    text = list(TEXT)
    if left_out:
        text.append(f"Left to the full run: {', '.join(left_out)}.")
    return Section("Table 1: running time", text, tables, findings=_findings(sizes, outcomes))


TEXT = (
    "Matrices of rank 10 without noise, values from 0 to 10, K = 10, the same stopping rule for all: what recovers the "
    "matrix soon has few iterations, which follow on demand. Times are processor seconds summed over cores, which "
    "depend less than elapsed ones (below) on what else the machine was doing. "
    f"The paper's are from another machine ({MACHINE}) and another implementation: the ratio "
    "says how the two compare, not which algorithm is better; that is read along a row. In brackets: how many runs are "
    "averaged. MBMF-n exact stops after 20 sweeps. “About”: BMC-ADMM was run to its end on a matrix with a tenth of "
    "the users and items and as many ratings for each user, and its time multiplied by a hundred, the ratio of all "
    "pairs.",
)


def _findings(sizes: Sequence[tuple[int, int, float]], outcomes: Sequence[Outcome]) -> list[str]:
    """Which of the paper's bounded methods is fastest where, and how MBMF-n compares with MF and NMF."""
    lines = []
    for size in sizes:
        means = {method: _mean(_of(outcomes, size, method), "cpu_seconds", None).value for method in SHOWN}
        seconds = {method: value for method, value in means.items() if value is not None}
        theirs = PRINTED[size]
        words = []
        both = seconds.keys() & theirs.keys()
        if len(both) > 1:
            here, there = min(both, key=seconds.__getitem__), min(theirs, key=theirs.__getitem__)
            words.append(f"the fastest of the paper's bounded methods is {here} (in the paper {there})")
        if "MBMF-n" in seconds:
            rest = [name for name in ("MF", "NMF", "MBMF-n exact") if name in seconds]
            ratios = [f"{seconds['MBMF-n'] / seconds[name]:.1f} times that of {name}" for name in rest]
            words.append(f"MBMF-n takes {', '.join(ratios)}" if ratios else "")
        if any(words):
            lines.append(f"{size[0]:,} × {size[1]:,}: {'; '.join(filter(None, words))}.")
    return lines


def projected(size: tuple[int, int, float], method: str, outcomes: Sequence[Outcome]) -> tuple[float, int] | None:
    """Processor seconds and iterations that a fit would take, by one on the smaller matrix; None if it is not run."""
    own = _smaller(*size)
    for outcome in outcomes:
        if method == SMALLER and outcome.cell.settings == own and outcome.result is not None:
            return outcome.result["cpu_seconds"] * STANDS_FOR**2, outcome.result["iterations"]
    return None


def _of(outcomes: Sequence[Outcome], size: tuple[int, int, float], method: str) -> list[Outcome]:
    return [outcome for outcome in outcomes if _size(outcome) == size and outcome["method"] == method]


def _size(outcome: Outcome) -> tuple[int, int, float]:
    return outcome["users"], outcome["items"], outcome["density"]


def _table(
    name: str,
    caption: str,
    key: str,
    sizes: Sequence[tuple[int, int, float]],
    outcomes: Sequence[Outcome],
    compared: bool,
) -> Table:
    rows: list[Row] = []
    for size in sizes:
        row: list[str | Figure] = [f"{size[0]:,} × {size[1]:,}, d = {size[2]:g}"]
        for method in SHOWN:
            paper = PRINTED[size].get(method) if compared else None
            found = _mean(_of(outcomes, size, method), key, paper)
            if found.value is None and compared and (about := projected(size, method, outcomes)):
                found = found._replace(absent=f"about {about[0] / 3600:.1f} h, {about[1]:.0f} iterations")
            row.append(found)
        rows.append(row)
    notes = _runs(sizes, outcomes) if compared else []
    return Table(name, caption, ["users × items, density", *SHOWN], rows, folded=not compared, notes=notes)


def _runs(sizes: Sequence[tuple[int, int, float]], outcomes: Sequence[Outcome]) -> list[str]:
    """How many runs are behind the times of a size, where that is not the same for all methods."""
    notes = []
    for size in sizes:
        alike: dict[int, list[str]] = {}
        for method in SHOWN:
            if n_runs := sum(outcome.result is not None for outcome in _of(outcomes, size, method)):
                alike.setdefault(n_runs, []).append(method)
        if len(alike) > 1:
            told = "; ".join(f"{count_of(n, 'run')} of {', '.join(alike[n])}" for n in sorted(alike))
            notes.append(f"{size[0]:,} × {size[1]:,}: {told}.")
    return ["Rows whose times are not means of equally many runs.", *notes] if notes else []


def _mean(outcomes: Sequence[Outcome], key: str, paper: float | None) -> Figure:
    values = [outcome.result[key] for outcome in outcomes if outcome.result is not None]
    if values:
        return Figure(fmean(values), paper, f"({len(values)})")
    return Figure(None, paper, absent=why_absent(outcomes))
