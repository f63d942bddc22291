"""What the core costs: against the paper's formulation, the machine's own limits, and itself.

``python -m benchmarks.core`` measures every part, prints a table for each with target and verdict, and writes
results/core.md. Ratios come from processor time on one core wherever they can, so that a shared machine does not
disturb them. Letters choose parts; ``--quick`` takes fewer and smaller measurements and writes nothing;
``--resume`` keeps the sizes of part d that were measured before (they take half an hour).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import tracemalloc
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, get_args

import numpy as np
from numba import njit
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from benchmarks import sizes
from benchmarks.jester import paper_split
from benchmarks.measure import Check, Part, SweepClock, machine, movielens_or_alike, real_data, save_parts, side_by_side
from benchmarks.tensor_formulation import TensorFormulation
from boundrec import MBMF, datasets
from boundrec.data.ratings import Csr, Ratings
from boundrec.metrics import rmse
from boundrec.models.mbmf import SolverName
from boundrec.solvers import kernels
from boundrec.solvers.compiling import MATHS
from boundrec.solvers.threads import RowPool
from boundrec.splits import hold_out

#: Side of the matrices whose product is the machine's own rate.
SQUARE = 2000


def timed(model: MBMF, ratings: Ratings, **fit: Any) -> SweepClock:
    """Fit, and the times of its sweeps."""
    clock = SweepClock()
    model.fit(ratings, callback=clock, **fit)
    return clock


def tensor_formulation(quick: bool) -> Part:
    """(a) An iteration of the paper's tensor formulation in dense NumPy, against ours."""
    rows, checks = [], []
    for density, least in ((1.0, 3), (0.02, 30)):
        data = datasets.synthetic(2000, 5000, density, rank=10)
        paper, ratings = _dense(data, 10), Ratings.read(data.pairs, data.rating)
        for cores in (None, 1):
            times = _iteration_seconds(paper, ratings, cores, 2 if quick else 9)
            ratio = times[0] / times[2]
            figures = [f"{1e3 * seconds:.1f}" for seconds in times]
            used = "one core" if cores else "all cores"
            rows.append([f"{density:g}", used, *figures, f"{ratio:.1f}", f"{times[1] / times[2]:.1f}"])
            what = f"density {density:g}, {used}"
            checks.append(Check(what, f"{ratio:.1f}×", f"≥ {least}×", ratio >= least))
    columns = [
        "density",
        "cores",
        "as printed, ms",
        "economical, ms",
        "ours, ms",
        "printed / ours",
        "economical / ours",
    ]
    note = (
        "One iteration at 2,000 × 5,000, K = 10, objective included. One core by processor time, "
        'all cores by wall time. "As printed": every line of Algorithm 1 as it stands. "Economical": nothing '
        "of the size of V is computed twice. NumPy runs its elementwise operations on one core. Ours: separate steps "
        "for users and items, each judged by the objective, rejected steps included (median of 11 iterations, "
        "best of several fits)."
    )
    return Part("(a) One iteration: tensor formulation in dense NumPy against ours", columns, rows, checks, [note])


def _dense(data: datasets.Dataset, n_factors: int) -> TensorFormulation:
    shape = data.n_users, data.n_items
    V, Z = np.zeros(shape), np.zeros(shape)
    V[data.user, data.item], Z[data.user, data.item] = data.rating, 1.0
    rng = np.random.default_rng(0)
    phi, theta = (rng.uniform(0, np.pi, (size, n_factors - 1)) for size in shape)
    return TensorFormulation(V, Z, phi, theta, (np.full(shape[0], 10**0.5), np.full(shape[1], 10**0.5)))


def _iteration_seconds(
    paper: TensorFormulation, ratings: Ratings, cores: int | None, repeats: int
) -> tuple[float, float, float]:
    """An iteration as printed, an economical one, and ours: processor time on one core, else wall time."""
    ours: list[float] = []

    def iterate() -> None:
        clock = timed(MBMF.as_in_paper(10, bounds=(0, 10), max_iter=12, n_jobs=cores, random_state=0), ratings)
        ours.append(float(np.median((clock.cpu if cores else clock.wall)[1:])))

    with threadpool_limits(cores):
        printed, economical, _ = side_by_side(
            partial(paper.literal, step=1e-6),
            partial(paper.economical, step=1e-6),
            iterate,
            repeats=repeats,
            clock=time.process_time if cores else time.perf_counter,
        )
    return printed, economical, min(ours[1:])


def exact_against_angles(quick: bool) -> Part:
    """(b) Time for exact to reach what 500 angle iterations reach, on Jester."""
    title, data = "(b) Exact against 500 angle iterations on Jester", real_data("jester1")
    if data is None:
        return Part(title, [], [], notes=["Skipped: there is no jester1.npz in BOUNDREC_DATA."])
    split = paper_split(data)
    settings: dict[str, Any] = {"bounds": data.bounds, "form": "n", "magnitudes": "paper", "tol": 0, "random_state": 0}
    exact = MBMF(10, constraint="sphere", max_iter=20, n_jobs=1, **settings)
    angles = MBMF.as_in_paper(10, n_jobs=1, **settings | {"max_iter": 50 if quick else 500})
    for solver in get_args(SolverName):  # compile
        MBMF(10, solver=solver, constraint="sphere", max_iter=2, n_jobs=1, **settings).fit(split.ratings)
    angle_times = timed(angles, split.ratings, history=split.history).cpu
    fits = [timed(exact, split.ratings, history=split.history).cpu for _ in range(3)]
    reached = int(np.argmax(np.array(exact.objectives_) < angles.objectives_[-1]))
    exact_times = np.cumsum(min(fits, key=lambda times: float(times[: reached + 1].sum())))
    ratio = exact_times[reached] / angle_times.sum()
    rows = [
        ["angles", str(angles.n_iter_), f"{angles.objectives_[-1]:.5g}", f"{angle_times.sum():.2f}"],
        ["exact", str(reached + 1), f"{exact.objectives_[reached]:.5g}", f"{exact_times[reached]:.2f}"],
        ["exact", "20", f"{exact.objectives_[-1]:.5g}", f"{exact_times[-1]:.2f}"],
    ]
    check = Check("exact's share of the angles' time", f"1/{1 / ratio:.0f}", "≤ 1/20", bool(ratio <= 1 / 20))
    note = (
        "K = 10, form n, sphere, magnitudes from history, the paper's split; one core each, from the call of `fit`. "
        "Exact: best of three fits."
    )
    return Part(title, ["solver", "iterations", "objective", "seconds"], rows, [check], [note])


@njit(nogil=True, fastmath=MATHS, error_model="numpy")
def normal_matrices(csr: Any, fixed: Any, out: Any, start: int, stop: int) -> None:
    """The normal equations of each row and nothing else; ``out`` keeps the compiler from leaving them out."""
    n_factors = fixed.shape[1]
    A, b = np.empty((n_factors, n_factors)), np.empty(n_factors)
    for i in range(start, stop):
        kernels.normal_equations(csr, i, fixed, A, b)
        out[i] = A[n_factors - 1, 0] + b[0]


def throughput(quick: bool) -> Part:
    """(c) Normal matrices as a share of this machine's own matrix multiplication."""
    name, data = movielens_or_alike()
    ratings = Ratings.read(data.pairs, data.rating)
    rows, checks = [], []
    for n_factors in (20, 50):
        model = MBMF(n_factors, bounds=data.bounds, constraint="sphere", max_iter=3, tol=1, random_state=0).fit(ratings)
        work = 2 * ratings.n_ratings * n_factors**2
        users, items = model.user_factors_, model.item_factors_
        for side, csr, own, other in (
            ("users", ratings.by_user, users, items),
            ("items", ratings.by_item, items, users),
        ):
            for cores, clock in ((1, time.process_time), (None, time.perf_counter)):
                product, normal, half_step = _half_step_seconds(csr, own, other, cores, clock, 3 if quick else 9)
                rate = 2 * SQUARE**3 / product
                figures = [f"{rate / 1e9:.1f}", f"{work / normal / 1e9:.1f}"]
                shares = [f"{work / normal / rate:.0%}", f"{work / half_step / rate:.0%}"]
                used = "one" if cores else "all"
                rows.append([str(n_factors), side, used, *figures, *shares])
                share = work / normal / rate
                checks.append(Check(f"K = {n_factors}, {side}, {used}", shares[0], "≥ 30%", share >= 0.3))
    columns = ["K", "half-sweep", "cores", "multiply, Gflop/s", "normal matrices, Gflop/s", "share", "whole half-step"]
    note = (
        f"{name}, float64, in turns, best of several; one core by processor time, all cores by wall time. "
        'Operations are 2nK² a half-sweep, as for full matrices; the kernel makes one triangle. "Whole half-step" '
        "also solves every row on its sphere and counts the same operations."
    )
    return Part("(c) Normal matrices against matrix multiplication", columns, rows, checks, [note])


def _half_step_seconds(
    csr: Csr,
    own: NDArray[np.floating],
    fixed: NDArray[np.floating],
    cores: int | None,
    clock: Callable[[], float],
    repeats: int,
) -> list[float]:
    """Seconds for a matrix product, for all normal matrices, and for the half-step they belong to."""
    out, rows, radius = np.empty(len(own)), own.copy(), np.linalg.norm(own, axis=1)
    square = np.random.default_rng(0).random((SQUARE, SQUARE))

    def solve() -> None:
        rows[:] = own
        pool.run(kernels.solve_rows_sphere, csr.indptr, csr, fixed, radius, rows)

    with RowPool(cores, len(csr.indices)) as pool, threadpool_limits(cores):
        return side_by_side(
            lambda: square @ square,
            lambda: pool.run(normal_matrices, csr.indptr, csr, fixed, out),
            solve,
            repeats=repeats,
            clock=clock,
        )


def seven_sizes(quick: bool, resume: bool) -> Part:
    """(d) The paper's seven sizes."""
    sizes.run(list(range(4 if quick else len(sizes.SIZES))), ["rank 10"], again=not resume)
    return sizes.part()


def slope(quick: bool) -> Part:
    """(e) How the time of an exact sweep grows with the ratings."""
    counts = [250_000 * 2**power for power in range(4 if quick else 6)]
    rows, times = [], []
    for count in counts:
        n_users, n_items = count // 50, count // 100
        data = datasets.synthetic(n_users, n_items, count / (n_users * n_items), rank=10)
        ratings = Ratings.read(data.pairs, data.rating)
        model = MBMF(10, bounds=(0, 10), form="n", constraint="sphere", max_iter=5, tol=0, n_jobs=1, random_state=0)
        times.append(min(float(timed(model, ratings).cpu[1:].min()) for _ in range(1 if quick else 3)))
        rows.append(
            [f"{count:,}", f"{n_users:,} × {n_items:,}", f"{1e3 * times[-1]:.0f}", f"{1e9 * times[-1] / count:.0f}"]
        )
    found = float(np.polyfit(np.log(counts), np.log(times), 1)[0])
    check = Check("log-log slope of time against ratings", f"{found:.3f}", "0.85 to 1.15", 0.85 <= found <= 1.15)
    note = (
        "Exact sweep, sphere, form n, K = 10, one core, 50 ratings a user and 100 an item at every size; fastest sweep."
    )
    return Part(
        "(e) Time against ratings", ["ratings", "users × items", "ms a sweep", "ns a rating"], rows, [check], [note]
    )


def threads(quick: bool) -> Part:
    """(f) Two threads against one."""
    rows, checks = [], []
    sources = [movielens_or_alike()]
    jester = real_data("jester1")
    if jester is not None:
        sources.append(("Jester", jester))
    for name, data in sources:
        ratings = Ratings.read(data.pairs, data.rating)
        common: dict[str, Any] = {
            "bounds": data.bounds,
            "form": "n",
            "tol": 0,
            "random_state": 0,
            "constraint": "sphere",
        }
        kinds: list[tuple[str, SolverName, int]] = [("exact sweep", "exact", 4), ("angle iteration", "angles", 12)]
        for what, solver, max_iter in kinds:
            models = [MBMF(20, solver=solver, max_iter=max_iter, n_jobs=jobs, **common) for jobs in (1, 2)]
            turns = [[timed(model, ratings) for model in models] for _ in range(3 if quick else 7)]
            one, two = (min(float(turn[jobs].wall[1:].mean()) for turn in turns) for jobs in (0, 1))
            cpu_one, cpu_two = (min(float(turn[jobs].cpu[1:].mean()) for turn in turns) for jobs in (0, 1))
            received = max(float(turn[1].cpu[1:].sum() / turn[1].wall[1:].sum()) for turn in turns)
            figures = [f"{1e3 * one:.1f}", f"{1e3 * two:.1f}", f"{one / two:.2f}"]
            rows.append([name, what, *figures, f"{cpu_two / cpu_one:.2f}", f"{received:.2f}"])
            checks.append(Check(f"{name}, {what}", f"{one / two:.2f}×", "≥ 1.6×", one / two >= 1.6))
    columns = ["data", "what", "1 thread, ms", "2 threads, ms", "ratio", "processor time, 2 / 1", "cores received"]
    note = (
        'Wall time, best of several fits in turns. "Processor time" is what two threads use together against one: 1.00 '
        'means that nothing is lost. "Cores received" is what the machine gave to two threads: below about 1.9 others '
        "were using it, and the ratio is theirs as much as ours."
    )
    return Part("(f) Two threads against one, K = 20", columns, rows, checks, [note])


def precision(quick: bool) -> Part:
    """(g) float32 against float64."""
    name, data = movielens_or_alike()
    held = hold_out(data.user, data.item, 0.1, 0)
    ratings = Ratings.read(data.pairs[~held], data.rating[~held])
    models = [
        MBMF(20, bounds=data.bounds, constraint=constraint, max_iter=12, tol=0, dtype=dtype, n_jobs=1, random_state=0)
        for constraint in ("ball", "sphere")
        for dtype in ("float64", "float32")
    ]
    turns = [[float(timed(model, ratings).cpu[1:].mean()) for model in models] for _ in range(1 if quick else 3)]
    times = np.min(turns, axis=0)
    rows = []
    for model, seconds in zip(models, times, strict=True):
        tracemalloc.start()
        model.fit(ratings)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        error = rmse(data.rating[held], model.predict(data.pairs[held]))
        excess = np.linalg.norm(model.user_factors_.astype(float), axis=1) / model.user_magnitudes_ - 1
        figures = [f"{1e3 * seconds:.0f}", f"{peak / 1e6:.1f}", f"{error:.5f}", f"{excess.max():.0e}"]
        rows.append([model.constraint, str(model.dtype), *figures])
    columns = ["constraint", "dtype", "ms a sweep", "fit's own peak, MB", "test RMSE", "past its magnitude"]
    note = (
        f"{name}, 10 % held out, K = 20, 12 sweeps, one core. `dtype` is how factors and centred ratings are stored; "
        'arithmetic is in float64 either way. "Past its magnitude": by how much, relatively, the norm of a user\'s '
        "factors exceeds its magnitude at most. The default is float64 because float32 must show a gain to be chosen."
    )
    return Part("(g) float32 against float64", columns, rows, notes=[note])


FIRST_FIT = """
import time
began = time.process_time()
import json, sys, warnings, numpy as np
warnings.simplefilter("ignore")
from boundrec import MBMF
imported = time.process_time() - began
X, y = np.argwhere(np.ones((30, 30))), np.tile([1.0, 3.0, 5.0], 300)
MBMF(5, bounds=(1, 5), max_iter=2, random_state=0, **json.loads(sys.argv[1])).fit(X, y)
print(json.dumps([imported, time.process_time() - began - imported]))
"""


def first_fit(quick: bool) -> Part:
    """(h) Compiling: a first fit in a new cache folder, and the same in the next process."""
    settings: dict[str, dict[str, str]] = {
        "exact, ball (the default)": {},
        "exact, sphere": {"constraint": "sphere"},
        "angles": {"solver": "angles", "constraint": "sphere"},
    }
    rows = []
    for name, setting in settings.items():
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-c", FIRST_FIT, json.dumps(setting)]
            runs = []
            for _ in range(2 if quick else 4):
                output = subprocess.run(
                    command, check=True, text=True, stdout=subprocess.PIPE, env=os.environ | {"NUMBA_CACHE_DIR": folder}
                )
                runs.append(json.loads(output.stdout))
        cached = np.min(runs[1:], axis=0)
        rows.append([name, f"{runs[0][1]:.1f}", f"{cached[1]:.2f}", f"{cached[0]:.2f}"])
    columns = ["fit", "first, s (compiles)", "next process, s (cached)", "import boundrec, s"]
    return Part(
        "(h) Compiling",
        columns,
        rows,
        notes=["A tiny fit in a new process each, processor time; the cache folder is new, then kept."],
    )


def main(arguments: list[str]) -> None:
    warnings.simplefilter("ignore")
    quick, resume = "--quick" in arguments, "--resume" in arguments
    parts: dict[str, Callable[[], Part]] = {
        "a": lambda: tensor_formulation(quick),
        "b": lambda: exact_against_angles(quick),
        "c": lambda: throughput(quick),
        "d": lambda: seven_sizes(quick, resume),
        "e": lambda: slope(quick),
        "f": lambda: threads(quick),
        "g": lambda: precision(quick),
        "h": lambda: first_fit(quick),
    }
    chosen = [argument for argument in arguments if argument in parts] or list(parts)
    print(machine(), flush=True)
    for letter in chosen:
        began = time.perf_counter()
        part = parts[letter]()
        print(f"\n{part.markdown()}\n({time.perf_counter() - began:.0f} s)", flush=True)
        if not quick:
            save_parts({letter: part}, "core")


if __name__ == "__main__":
    main(sys.argv[1:])
