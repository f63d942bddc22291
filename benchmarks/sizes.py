"""The paper's seven sizes (its table of running times): 500 angle iterations, and exact until it passes them.

``python -m benchmarks.sizes`` runs them all and keeps what it finds after each; with numbers, only those sizes; with
``resume``, keeping angle iterations that were run before. A
size runs in processes of its own, so that peak memory is that of one fit and of the ratings it is given.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
import warnings
from typing import Any, NamedTuple, cast

import numpy as np

from benchmarks.measure import RESULTS, Check, Part, peak_memory
from boundrec import MBMF, datasets
from boundrec.data.ratings import Ratings
from boundrec.models.mbmf import SolverName


class Size(NamedTuple):
    """A row of the paper's table: the matrix, and the paper's seconds for MBMF-n."""

    n_users: int
    n_items: int
    density: float
    paper_seconds: float

    def __str__(self) -> str:
        return f"{self.n_users:,} × {self.n_items:,}"


SIZES = (
    Size(20, 50, 1, 0.3018),
    Size(100, 100, 1, 0.7857),
    Size(200, 500, 1, 3.0845),
    Size(1000, 1000, 1, 18.293),
    Size(2000, 5000, 1, 91.020),
    Size(100_000, 100_000, 0.001, 5728.3),
    Size(200_000, 500_000, 0.0002, 12251.0),
)
SETTINGS: dict[str, Any] = {"bounds": (0, 10), "form": "n", "constraint": "sphere", "tol": 0, "random_state": 0}
#: What has been found, by kind of matrix and size, so that angle iterations need not be run twice.
FOUND = RESULTS / "sizes.json"
KINDS = {"rank 10": 10, "independent": None}


def fit(folder: str, solver: SolverName, goal: float) -> dict[str, float]:
    """Read the matrix kept in ``folder`` and fit it: 500 angle iterations, or exact until below ``goal``."""
    warnings.simplefilter("ignore")
    MBMF(10, solver=solver, max_iter=2, **SETTINGS).fit(datasets.synthetic(30, 30, 0.5).pairs, np.ones(450))  # compile
    X, y = np.load(f"{folder}/pairs.npy"), np.load(f"{folder}/ratings.npy")
    began = time.perf_counter()
    ratings = Ratings.read(X, y)
    read = time.perf_counter() - began
    model = MBMF(10, solver=solver, max_iter=500, **SETTINGS)
    began, cpu = time.perf_counter(), time.process_time()
    model.fit(ratings, callback=lambda sweep, objective, model: objective < goal)
    seconds = time.perf_counter() - began
    return {
        "read": read,
        "seconds": seconds,
        "cpu": time.process_time() - cpu,
        "iterations": model.n_iter_,
        "objective": model.objectives_[-1],
        "n": len(y),
        "peak": peak_memory(),
    }


def make(folder: str, size: Size, kind: str) -> None:
    """Keep a synthetic matrix in a folder."""
    data = datasets.synthetic(*size[:3], rank=KINDS[kind], random_state=0)
    np.save(f"{folder}/pairs.npy", data.pairs)
    np.save(f"{folder}/ratings.npy", data.rating)


def measure(index: int, kind: str, angles: dict[str, float] | None) -> dict[str, dict[str, float]]:
    """Both solvers on one size, each in a process of its own; known ``angles`` are not run again."""
    with tempfile.TemporaryDirectory() as folder:
        _in_process("make", folder, index, kind)
        if angles is None:
            angles = json.loads(_in_process("fit", folder, "angles", -np.inf))
            print(f"{SIZES[index]}, {kind}: angles {angles}", flush=True)
        exact = json.loads(_in_process("fit", folder, "exact", angles["objective"]))
        print(f"{SIZES[index]}, {kind}: exact {exact}", flush=True)
    return {"angles": angles, "exact": exact}


def _in_process(*arguments: Any) -> str:
    command = [sys.executable, "-m", "benchmarks.sizes", *map(str, arguments)]
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE, cwd=RESULTS.parents[1]).stdout


def run(indices: list[int], kinds: list[str], again: bool) -> None:
    """Measure sizes and keep each as it comes; with ``again`` the angles too."""
    for kind in kinds:
        for index in indices:
            found = json.loads(FOUND.read_text()) if FOUND.exists() else {}
            key = f"{kind}, {SIZES[index]}"
            known = None if again else found.get(key, {}).get("angles")
            result = measure(index, kind, known)
            found = json.loads(FOUND.read_text()) if FOUND.exists() else {}
            FOUND.write_text(json.dumps(found | {key: result}, indent=1) + "\n")


def part() -> Part:
    """Part (d) of the core benchmark, from what has been found."""
    found = json.loads(FOUND.read_text())
    columns = [
        "matrix",
        "ratings",
        "paper, s",
        "500 angle iterations, s",
        "exact, s",
        "its sweeps",
        "reading, s",
        "peak, GB",
    ]
    rows, checks = [], []
    for kind in KINDS:
        for size in SIZES:
            result = found.get(f"{kind}, {size}")
            if result is None:
                continue
            angles, exact = result["angles"], result["exact"]
            passed = exact["objective"] < angles["objective"]
            sweeps = f"{exact['iterations']}{'' if passed else ' (not passed)'}"
            row = [f"{size}, {kind}", f"{exact['n']:,}", f"{size.paper_seconds:,.5g}", _both(angles), _both(exact)]
            rows.append([*row, sweeps, f"{exact['read']:.2g}", f"{exact['peak']:.2f}"])
            if size == SIZES[-1]:
                for clock, name in (("seconds", "wall time"), ("cpu", "processor time, all threads")):
                    fast = passed and exact[clock] <= 90
                    what = f"exact passes 500 angle iterations, {kind}: {name}"
                    checks.append(Check(what, f"{exact[clock]:.1f} s", "about 90 s", fast))
                memory = f"{exact['peak']:.2f} GB"
                checks.append(Check(f"its peak memory, {kind}", memory, "≤ 3 GB", exact["peak"] <= 3))
    notes = [
        '`datasets.synthetic(N, M, density, rank=10)`: a matrix of rank 10 scaled to [0, 10] ("independent": uniform '
        "values). K = 10, form n, sphere, magnitudes from the range. Times are wall times of `fit` on a `Ratings`, in "
        "brackets the processor time of all its threads; reading the integer pairs has a column of its own, and "
        "compiling is left out. Peak memory is that of the exact solver's process, the pairs it was given included. "
        "The paper ran on an i7-6900K (8 cores). Angle iterations of the larger sizes were run beside other work, so "
        "their wall times are too long; exact on the largest size had both cores to itself.",
    ]
    return Part("(d) The paper's seven sizes", columns, rows, checks, notes)


def _both(result: dict[str, float]) -> str:
    """Wall time, and in brackets processor time where it was noted."""
    return f"{result['seconds']:.3g}" + (f" ({result['cpu']:.3g})" if "cpu" in result else "")


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["make"]:
        make(arguments[1], SIZES[int(arguments[2])], arguments[3])
    elif arguments[:1] == ["fit"]:
        print(json.dumps(fit(arguments[1], cast(SolverName, arguments[2]), float(arguments[3]))))
    else:
        indices = [int(argument) for argument in arguments if argument.isdigit()] or list(range(len(SIZES)))
        kinds = ["independent"] if "independent" in arguments else ["rank 10"]
        run(indices, kinds, again="resume" not in arguments)
        print(part().markdown())


if __name__ == "__main__":
    main(sys.argv[1:])
