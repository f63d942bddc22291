"""Error against seconds beside LIBMF: MovieLens 1M, and 20 million synthetic ratings with noise; one thread each.

``python -m benchmarks.libmf --libmf FOLDER`` wants the folder of LIBMF's ``mf-train`` and ``mf-predict``; without them
it is left out, with a reason. It writes results/libmf.md, and all points as results/libmf.csv. Letters choose parts: a,
MovieLens 1M in BOUNDREC_DATA; b, synthetic ratings. ``--quick`` takes fewer points and two million synthetic ratings,
and writes nothing.

A point is a fit of its own, from opening a text file of the training ratings, the same one for all, to a model. Ours
reads it by Polars; imports and compilation are done before. LIBMF's is the user time of its whole process, which also
writes the model; ours is all processor time, the system's included. Points take turns, and the best of each counts.
LIBMF's grid is judged on the very ratings it is chosen by, and its predictions are clipped to the scale: both are more
than it could hope for. λ of part b was chosen so, too: of .02, .03 and .05 those with the lower errors.
"""

from __future__ import annotations

import argparse
import csv
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from benchmarks.measure import RESULTS, Check, Part, machine, real_data, save_parts
from boundrec import MBMF, BayesianMBMF
from boundrec.datasets.random_matrices import random_cells
from boundrec.metrics import rmse

if TYPE_CHECKING:
    import polars as pl

BOUNDS = (1.0, 5.0)
COLUMNS = ["user", "item", "rating"]
#: Seconds at which errors are compared; the promise begins with the first that is checked.
SHOWN, CHECKED = (0.5, 0.75, 1.0), (1.5, 2.0, 3.0, 5.0, 10.0, 20.0)
#: Of LIBMF's time to its best error.
MOST_TIME = 1.5
#: Standard deviations of the synthetic ratings' biases, of their product of factors and of their noise; its rank.
BIAS, PRODUCT, NOISE, RANK = 0.3, 0.4, 0.7, 10
#: Ratings made at a time.
BLOCK = 1 << 20

Entries = tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float64]]


class Files(NamedTuple):
    """Training ratings and held-out ones, as text with a blank between user, item and rating."""

    train: Path
    test: Path


class Fit(NamedTuple):
    """A way to a model: whose it is, its settings in words, and what gives its seconds and its error."""

    who: str
    settings: str
    run: Callable[[Files], tuple[float, float]]


class Point(NamedTuple):
    """A fit, how long it took at best, and its error on held-out ratings."""

    who: str
    settings: str
    seconds: float
    rmse: float

    def __str__(self) -> str:
        return f"{self.who}, {self.settings}"


class Plan(NamedTuple):
    """What is measured in a part: LIBMF's grid, our fits, and how often everybody has a turn."""

    libmf: list[Fit]
    ours: list[Fit]
    turns: int


# --- fits -------------------------------------------------------------------------------------------------------


def read_text(path: Path) -> pl.DataFrame:
    """Users, items and ratings of a text file."""
    import polars as pl

    return pl.read_csv(path, separator=" ", has_header=False, new_columns=COLUMNS)


def run_libmf(folder: Path, options: Sequence[str], files: Files) -> tuple[float, float]:
    """User seconds of mf-train, and the error of its clipped predictions."""
    model, predicted = files.train.with_name("model"), files.train.with_name("predicted")
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    _call(folder / "mf-train", "-f", "0", "-s", "1", *options, "--quiet", files.train, model)
    seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    _call(folder / "mf-predict", files.test, model, predicted)
    return seconds, rmse(read_text(files.test)["rating"].to_numpy(), np.clip(np.loadtxt(predicted), *BOUNDS))


def _call(*command: Any) -> None:
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL, env=one_thread)


def run_ours(make: Callable[[], MBMF | BayesianMBMF], files: Files) -> tuple[float, float]:
    """Processor seconds from opening the file to a model, and its error."""
    model, began = make(), time.process_time()
    table = read_text(files.train)
    model.fit(table[COLUMNS[:2]], table["rating"])
    seconds = time.process_time() - began
    test = read_text(files.test)
    return seconds, rmse(test["rating"].to_numpy(), model.predict(test[COLUMNS[:2]]))


def libmf_grid(
    folder: Path, factors: Iterable[int], ridges: Iterable[float], rates: Iterable[float], iterations: Iterable[int]
) -> list[Fit]:
    """LIBMF with every choice of settings."""
    fits = []
    for k, ridge, rate, count in product(factors, ridges, rates, iterations):
        options = ["-k", str(k), "-l2", str(ridge), "-r", str(rate), "-t", str(count)]
        fits.append(Fit("LIBMF", " ".join(options), partial(run_libmf, folder, options)))
    return fits


def our_grid(name: str, factors: Iterable[int], sweeps: Iterable[int]) -> list[Fit]:
    """One of our models from ratings alone, with every choice of factors and sweeps."""
    makers: dict[str, Callable[..., MBMF | BayesianMBMF]] = {
        "MBMF": partial(MBMF, tol=0),
        "BayesianMBMF": partial(BayesianMBMF, implicit="off", noise="one"),
    }
    fits = []
    for n_factors, count in product(factors, sweeps):
        make = partial(makers[name], n_factors, bounds=BOUNDS, max_iter=count, n_jobs=1, random_state=0)
        fits.append(Fit(name, f"n_factors={n_factors}, max_iter={count}", partial(run_ours, make)))
    return fits


def measure(fits: Sequence[Fit], files: Files, turns: int) -> list[Point]:
    """The best time of each fit; a turn is in random order, so that a busy minute does not hit one side alone."""
    found: dict[tuple[str, str], Point] = {}
    rng = np.random.default_rng(0)
    for turn in range(turns):
        for fit in (fits[place] for place in rng.permutation(len(fits))):
            point = Point(fit.who, fit.settings, *fit.run(files))
            print(f"{turn + 1}/{turns}: {point}: {point.seconds:.3f} s, {point.rmse:.4f}", file=sys.stderr, flush=True)
            key = (fit.who, fit.settings)
            found[key] = min(point, found.get(key, point), key=lambda one: one.seconds)
    return list(found.values())


def warm_up(ours: Sequence[Fit]) -> None:
    """Import and compile all that our fits need."""
    rng = np.random.default_rng(0)
    user, item = random_cells(50, 40, 0.5, rng)
    with tempfile.TemporaryDirectory() as folder:
        files = write_files(Path(folder), (user, item, rng.uniform(*BOUNDS, user.size)), 0.1)
        for fit in ours:
            fit.run(files)


# --- ratings ----------------------------------------------------------------------------------------------------


def write_files(folder: Path, entries: Entries, share: float) -> Files:
    """Write ratings, a random share of them apart, with three digits."""
    import polars as pl

    held = np.random.default_rng(0).random(entries[0].size) < share
    files = Files(folder / "train.txt", folder / "test.txt")
    for path, which in zip(files, (~held, held), strict=True):
        columns = dict(zip(COLUMNS, (entry[which] for entry in entries), strict=True))
        table = pl.DataFrame(columns).with_columns(pl.col("rating").round(3))
        table.write_csv(path, separator=" ", include_header=False)
    return files


def noisy_ratings(n_users: int, n_items: int, n_ratings: int) -> tuple[Entries, NDArray[np.float64]]:
    """Biases, a product of Gaussian factors and noise around the middle of the scale; and all that but the noise.

    They come in random order, and both are clipped to the scale.
    """
    rng = np.random.default_rng(0)
    cells = random_cells(n_users, n_items, n_ratings / (n_users * n_items), rng)
    order = rng.permutation(cells[0].size)
    user, item = cells[0][order], cells[1][order]
    W, H = (rng.normal(0, PRODUCT**0.5 / RANK**0.25, (size, RANK)).astype(np.float32) for size in (n_users, n_items))
    b, c = (rng.normal(0, BIAS, size) for size in (n_users, n_items))
    clean = np.mean(BOUNDS) + b[user] + c[item]
    for start in range(0, user.size, BLOCK):
        block = slice(start, start + BLOCK)
        clean[block] += np.einsum("nk,nk->n", W[user[block]], H[item[block]])
    noisy = clean + rng.normal(0, NOISE, user.size)
    return (user, item, np.clip(noisy, *BOUNDS)), np.clip(clean, *BOUNDS)


# --- parts ------------------------------------------------------------------------------------------------------


def best_by(points: Iterable[Point], seconds: float) -> Point | None:
    """The point of least error among those that took no longer."""
    return min((point for point in points if point.seconds <= seconds), key=lambda point: point.rmse, default=None)


def soonest(points: Iterable[Point], error: float) -> Point | None:
    """The fastest point that is as good."""
    return min((point for point in points if point.rmse <= error), key=lambda point: point.seconds, default=None)


def movielens(folder: Path, quick: bool) -> tuple[Part, list[Point]]:
    """(a) The least error by so many seconds on MovieLens 1M."""
    title, data = "(a) MovieLens 1M: the least error by so many seconds", real_data("movielens_1m")
    if data is None:
        return Part(title, [], [], notes=["Left out: there is no MovieLens 1M in BOUNDREC_DATA."]), []
    plan = movielens_plan(folder, quick)
    warm_up(plan.ours)
    with tempfile.TemporaryDirectory() as scratch:
        files = write_files(Path(scratch), (data.user, data.item, data.rating), 0.1)
        points = measure([*plan.libmf, *plan.ours], files, plan.turns)
    theirs, ours = _apart(points)
    rows, checks = [], []
    for mark in SHOWN + CHECKED:
        rival, own = best_by(theirs, mark), best_by(ours, mark)
        rows.append([f"{mark:g}", *_cells(rival), *_cells(own)])
        if mark in CHECKED and rival:
            error = own.rmse if own else np.inf
            checks.append(Check(f"ours by {mark:g} s", f"{error:.4f}", f"≤ {rival.rmse:.4f}", error <= rival.rmse))
    columns = ["by s", "LIBMF, RMSE", "after s", "its settings", "ours, RMSE", "after s", "our settings"]
    notes = [f"A random tenth is held out. {_counts(plan)} LIBMF's grid: k, λ (-l2), η (-r) and iterations (-t)."]
    return Part(title, columns, rows, checks, [*notes, ABOUT]), points


def movielens_plan(folder: Path, quick: bool) -> Plan:
    if quick:
        libmf = libmf_grid(folder, (40, 60), (0.05,), (0.1,), (10, 20, 40))
        ours = [*our_grid("BayesianMBMF", (10, 20), (6, 10, 15, 30)), *our_grid("MBMF", (10,), (4, 8))]
        return Plan(libmf, ours, 1)
    libmf = libmf_grid(folder, (20, 40, 60), (0.05, 0.1), (0.05, 0.1), (5, 10, 15, 20, 30, 50, 100))
    sampled = our_grid("BayesianMBMF", (10, 16, 20), (4, 6, 8, 10, 12, 15, 20, 30, 60, 120))
    return Plan(libmf, [*sampled, *our_grid("MBMF", (10, 20), (2, 3, 4, 6, 10, 20))], 2)


def synthetic(folder: Path, quick: bool) -> tuple[Part, list[Point]]:
    """(b) The time to LIBMF's best error on synthetic ratings with noise."""
    shape, n_ratings = ((20_000, 5_000), 2_000_000) if quick else ((100_000, 20_000), 20_000_000)
    plan = synthetic_plan(folder, quick)
    warm_up(plan.ours)
    with tempfile.TemporaryDirectory() as scratch:
        entries, clean = noisy_ratings(*shape, n_ratings)
        least = rmse(entries[2], clean)
        files = write_files(Path(scratch), entries, 1 / 50)
        del entries, clean
        points = measure([*plan.libmf, *plan.ours], files, plan.turns)
    theirs, ours = _apart(points)
    best = min(theirs, key=lambda point: point.rmse)
    own = soonest(ours, best.rmse)
    ratio = own.seconds / best.seconds if own else np.inf
    rows = [[str(point), f"{point.seconds:.1f}", f"{point.rmse:.4f}"] for point in _frontier(theirs) + _frontier(ours)]
    what = f"{own or 'none of ours'}: time to LIBMF's best error, {best.rmse:.4f}, ÷ its {best.seconds:.1f} s"
    checks = [Check(what, f"{ratio:.2f}×", f"≤ {MOST_TIME:g}×", ratio <= MOST_TIME)]
    note = (
        f"{n_ratings:,} ratings of {shape[0]:,} × {shape[1]:,}, a fiftieth held out, in random order: biases (standard "
        f"deviation {BIAS:g} each), a product of {RANK} factors ({PRODUCT:g}) and noise ({NOISE:g}) around 3, clipped "
        f"to [1, 5]. Whoever knew all but the noise would have an RMSE of {least:.4f}. {_counts(plan)} Shown are those "
        "that nothing of the same side beats in both time and error."
    )
    title = f"(b) {n_ratings // 1_000_000} million synthetic ratings with noise: time to LIBMF's best error"
    return Part(title, ["fit", "s", "RMSE"], rows, checks, [note, ABOUT]), points


def synthetic_plan(folder: Path, quick: bool) -> Plan:
    """All fits know the rank about as well: two of LIBMF's factors do what our biases do."""
    if quick:
        libmf = libmf_grid(folder, (16, 24), (0.05, 0.07), (0.1, 0.2), (20, 40))
        return Plan(libmf, [*our_grid("BayesianMBMF", (10, 16), (10, 15, 20)), *our_grid("MBMF", (10, 16), (6, 10))], 1)
    libmf = libmf_grid(folder, (16, 24), (0.02, 0.03), (0.1, 0.2), (10, 20, 40))
    sampled = our_grid("BayesianMBMF", (10, 16), (10, 15))
    return Plan(libmf, [*our_grid("MBMF", (10, 16), (4, 5, 6, 8)), *sampled], 1)


ABOUT = (
    "One thread each, processor time from opening the same text file to a model; LIBMF's is the user time of the whole "
    "process, ours has the system's share in it. LIBMF is built by its own Makefile (-O3, -march=native, SSE), its "
    "grid is judged on the ratings it is chosen by, and its predictions are clipped to the scale. BayesianMBMF: "
    'ratings alone (implicit="off", noise="one"); MBMF: tol=0; all else by default.'
)


def _apart(points: Iterable[Point]) -> tuple[list[Point], list[Point]]:
    """LIBMF's points, and ours."""
    found = list(points)
    return [one for one in found if one.who == "LIBMF"], [one for one in found if one.who != "LIBMF"]


def _frontier(points: Sequence[Point]) -> list[Point]:
    """The points that no other one beats in both time and error, by time."""
    return [point for point in sorted(points, key=lambda one: one.seconds) if best_by(points, point.seconds) == point]


def _cells(point: Point | None) -> list[str]:
    return [f"{point.rmse:.4f}", f"{point.seconds:.2f}", str(point)] if point else ["–"] * 3


def _counts(plan: Plan) -> str:
    times = "once" if plan.turns == 1 else f"{plan.turns} times in turns, of which the fastest counts"
    return f"{len(plan.libmf)} fits of LIBMF and {len(plan.ours)} of ours, each {times}."


def save_points(letter: str, points: Iterable[Point]) -> None:
    """Keep all points of a part in results/libmf.csv, beside those of the other."""
    path = RESULTS / "libmf.csv"
    heading, *rows = csv.reader(path.read_text().splitlines()) if path.exists() else [["part", *Point._fields]]
    rows = [row for row in rows if row[0] != letter]
    rows += [[letter, one.who, one.settings, f"{one.seconds:.3f}", f"{one.rmse:.5f}"] for one in points]
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([heading, *sorted(rows, key=lambda row: row[0])])


PARTS: dict[str, Callable[[Path, bool], tuple[Part, list[Point]]]] = {"a": movielens, "b": synthetic}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.libmf", description="Error against seconds.")
    parser.add_argument("parts", nargs="*", help="a, b or both")
    parser.add_argument("--libmf", type=Path, help="the folder of mf-train and mf-predict")
    parser.add_argument("--quick", action="store_true", help="fewer and smaller measurements; writes nothing")
    asked = parser.parse_args()
    if asked.libmf is None or not all((asked.libmf / name).is_file() for name in ("mf-train", "mf-predict")):
        print("Left out: LIBMF is not part of boundrec; build it and pass --libmf the folder of mf-train, mf-predict.")
        return 0
    warnings.simplefilter("ignore")
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    print(machine(), flush=True)
    with threadpool_limits(1):
        for letter in asked.parts or PARTS:
            part, points = PARTS[letter](asked.libmf.resolve(), asked.quick)
            print(f"\n{part.markdown()}", flush=True)
            if points and not asked.quick:
                save_parts({letter: part}, "libmf")
                save_points(letter, points)
    return 0


if __name__ == "__main__":
    sys.exit(main())
