"""What the sampler costs: its half-steps against the machine's own rate, its sweeps against earlier code, compilation.

``python -m benchmarks.sampler --before FOLDER`` writes ``results/sampler.md``. FOLDER is a checkout of the code to
compare with, whose sweeps are run side by side with ours; without it that part is left out, with the reason. Processor
time on one thread, so that a shared machine disturbs it little. Needs BOUNDREC_DATA.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from benchmarks.measure import Check, Part, SweepClock, real_data, save_parts
from boundrec import MBMF, BayesianMBMF
from boundrec.data.ratings import Ratings

SWEEPS, TURNS, SQUARE = 14, 3, 2000
#: Of the sweeps of `BayesianMBMF` as it comes, those that are kept: 20 of 100.
KEPT_SHARE = 0.2
#: The cases whose sweeps are timed: data, model and settings. One sample is kept, so that all sweeps but the last are
#: draws alone; "kept" has the means of all.
ONE: dict[str, Any] = {"noise": "one", "n_kept": 1}
CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "plain": ("movielens_1m", "sampler", {"n_factors": 20, "implicit": "off", **ONE}),
    "plain, K = 50": ("movielens_1m", "sampler", {"n_factors": 50, "implicit": "off", **ONE}),
    "kept, with means": ("movielens_1m", "sampler", {"n_factors": 20, "implicit": "off", **ONE, "n_kept": SWEEPS}),
    "sets of both sides": ("movielens_1m", "sampler", {"n_factors": 20, "implicit": "both", **ONE}),
    "own noise": ("movielens_1m", "sampler", {"n_factors": 20, "implicit": "off", "noise": "own", "n_kept": 1}),
    "BookCrossing, plain": ("bookcrossing_explicit", "sampler", {"n_factors": 10, "implicit": "off", **ONE}),
    "BookCrossing, kept": (
        "bookcrossing_explicit",
        "sampler",
        {"n_factors": 10, "implicit": "off", **ONE, "n_kept": SWEEPS},
    ),
    "BookCrossing, exact": ("bookcrossing_explicit", "exact", {"n_factors": 10, "tol": 0}),
}
#: Share of the machine's matrix multiply that half-steps are to reach, by K.
RATES = {20: 0.4, 50: 0.5}
#: Processor seconds that the first fit as it comes may compile for.
LONGEST_COMPILATION = 5.0


# --- in a process of its own --------------------------------------------------------------------------------------


def read(name: str) -> tuple[Ratings, tuple[float | None, float | None]]:
    """A data set, and its bounds."""
    data = real_data(name)
    if data is None:
        sys.exit(f"there is no {name}.npz in BOUNDREC_DATA")
    return Ratings.read(data.pairs, data.rating), data.bounds


def sweep_seconds(case: str) -> float:
    """Median processor seconds of a sweep, of all but the first and the last."""
    data, kind, settings = CASES[case]
    ratings, bounds = read(data)
    model = (BayesianMBMF if kind == "sampler" else MBMF)(bounds=bounds, n_jobs=1, random_state=0, **settings)
    model.set_params(max_iter=2).fit(ratings)  # compiles, or takes what is compiled
    clock = SweepClock()
    model.set_params(max_iter=SWEEPS).fit(ratings, callback=clock)
    return float(np.median(clock.cpu[1:-1]))


def half_step_seconds(n_factors: int) -> tuple[float, float]:
    """Processor seconds of both half-steps of a sweep, and of one product of two matrices of `SQUARE` rows."""
    from boundrec.solvers import gibbs

    ratings, bounds = read("movielens_1m")
    model = BayesianMBMF(n_factors, bounds=bounds, implicit="off", **ONE, n_jobs=1, random_state=0)
    model.set_params(max_iter=2).fit(ratings)
    taken: list[float] = []
    whole = gibbs.sample_side

    def timed(*arguments: Any) -> Any:
        began = time.process_time()
        draws = whole(*arguments)
        taken.append(time.process_time() - began)
        return draws

    square = np.random.default_rng(0).random((SQUARE, SQUARE))
    products = []
    with threadpool_limits(1), mock.patch.object(gibbs, "sample_side", timed):
        for _ in range(TURNS):
            model.set_params(max_iter=SWEEPS).fit(ratings)
            began = time.process_time()
            np.matmul(square, square)
            products.append(time.process_time() - began)
    halves: NDArray[np.float64] = np.array(taken).reshape(-1, 2)
    return float(np.median(halves.sum(axis=1))), min(products)


def compile_seconds(model: str) -> tuple[float, float]:
    """Processor seconds of a first fit as it comes, and of a second one, of a few ratings."""
    rng = np.random.default_rng(0)
    X = np.argwhere(rng.random((50, 40)) < 0.5)
    y = rng.integers(1, 6, len(X))
    taken = []
    for _ in range(2):
        began = time.process_time()
        (BayesianMBMF if model == "BayesianMBMF" else MBMF)(bounds=(1, 5), max_iter=5, random_state=0).fit(X, y)
        taken.append(time.process_time() - began)
    return taken[0], taken[1]


def child(*words: str, source: Path | None = None, **environment: str) -> list[float]:
    """Numbers that another process prints, by our code or by that of another checkout."""
    path = os.pathsep.join([*([str(source / "src")] if source else []), os.environ.get("PYTHONPATH", "")])
    given = {**os.environ, **environment, "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.sampler", *words], env=given, capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(f"{' '.join(words)}: {done.stderr}")
    return [float(word) for word in done.stdout.split()]


# --- the parts ----------------------------------------------------------------------------------------------------


def rates() -> Part:
    """(a) Half-steps beside a matrix multiply."""
    rows, checks = [], []
    ratings = read("movielens_1m")[0]
    for n_factors, least in RATES.items():
        halves, product = child("--half-steps", str(n_factors))
        own, limit = 2 * 2 * ratings.n_ratings * (n_factors + 1) ** 2 / halves, 2 * SQUARE**3 / product
        rows.append(
            [str(n_factors), f"{1e3 * halves:.0f}", f"{own / 1e9:.1f}", f"{limit / 1e9:.1f}", f"{own / limit:.0%}"]
        )
        checks.append(Check(f"K = {n_factors}", f"{own / limit:.0%}", f"≥ {least:.0%}", own >= least * limit))
    columns = ["K", "both half-steps, ms", "Gflop/s", "matrix multiply, Gflop/s", "share"]
    note = (
        "Whole half-steps of a plain sweep on MovieLens 1M (priors, normal matrices, factorisations, draws), counted "
        f"as 2 n D² operations, D = K + 1, in float64; a product of two matrices of {SQUARE:,} rows in between."
    )
    return Part("(a) Half-steps beside the machine's matrix multiply", columns, rows, checks, [note])


def sweeps(before: Path | None) -> Part:
    """(b) Sweeps beside those of earlier code, in turns."""
    ours: dict[str, float] = {}
    theirs: dict[str, float] = {}
    for _ in range(TURNS):
        for case in CASES:
            ours[case] = min(ours.get(case, np.inf), *child("--sweeps", case))
            if before is not None:
                theirs[case] = min(theirs.get(case, np.inf), *child("--sweeps", case, source=before))
    rows = [
        [
            case,
            f"{1e3 * own:.0f}",
            *([f"{1e3 * theirs[case]:.0f}", f"{own / theirs[case]:.2f}"] if theirs else ["", ""]),
        ]
        for case, own in ours.items()
    ]
    exact, plain = ours["BookCrossing, exact"], ours["BookCrossing, plain"]
    in_a_fit = (1 - KEPT_SHARE) * plain + KEPT_SHARE * ours["BookCrossing, kept"]
    ratios = [
        ("BookCrossing, a plain sweep / one of the exact solver", plain / exact, 1.6),
        ("BookCrossing, a kept sweep / one of the exact solver", ours["BookCrossing, kept"] / exact, 1.6),
        ("BookCrossing, a sweep of a fit as it comes, on average / one of the exact solver", in_a_fit / exact, 1.6),
        ("sets of both sides / plain", ours["sets of both sides"] / ours["plain"], 3.0),
        ("own noise / plain", ours["own noise"] / ours["plain"], 1.1),
    ]
    if theirs:
        ratios += [
            ("plain / plain before", ours["plain"] / theirs["plain"], 0.6),
            ("sets of both sides / plain before", ours["sets of both sides"] / theirs["plain"], 2.0),
        ]
    checks = [Check(what, f"{ratio:.2f}", f"≤ {most:g}", ratio <= most) for what, ratio, most in ratios]
    note = (
        f"Median of the {SWEEPS - 2} sweeps between the first and the last, the least of {TURNS} processes in turns; "
        "MovieLens 1M with K = 20 and BookCrossing's explicit ratings with K = 10 where nothing else is said. A kept "
        f"sweep also works out the mean of every row; a fit as it comes keeps {KEPT_SHARE:.0%} of its sweeps."
    )
    notes = [note] if theirs else [note, "Left out: no --before FOLDER with a checkout of earlier code was given."]
    return Part("(b) A sweep", ["", "ms", "ms before", "ratio"], rows, checks, notes)


def compilation(before: Path | None) -> Part:
    """(c) The first fit."""
    rows, checks = [], []
    for model in ("BayesianMBMF", "MBMF"):
        row = [model]
        for source in (None, *([before] if before else [])):
            with tempfile.TemporaryDirectory() as empty:
                first, again = child("--compile", model, source=source, NUMBA_CACHE_DIR=empty)
            row.append(f"{first - again:.1f}")
            if source is None:
                check = Check(
                    f"{model}, processor s", row[-1], f"≤ {LONGEST_COMPILATION:g}", first <= LONGEST_COMPILATION
                )
                checks.append(check)
        rows.append(row)
    columns = ["as it comes", "processor s", *(["before"] if before else [])]
    note = "A first fit with an empty cache less a second one; later processes take what is compiled from the disk."
    return Part("(c) First compilation", columns, rows, checks, [note])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sampler", description="What the sampler costs.")
    parser.add_argument("--before", type=Path, help="a checkout of the code to compare with")
    for hidden in ("--sweeps", "--half-steps", "--compile"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    if asked.sweeps:
        print(sweep_seconds(asked.sweeps))
    elif asked.half_steps:
        print(*half_step_seconds(int(asked.half_steps)))
    elif asked.compile:
        print(*compile_seconds(asked.compile))
    else:
        parts = {"a": rates(), "b": sweeps(asked.before), "c": compilation(asked.before)}
        save_parts(parts, "sampler")
        print("\n\n".join(part.markdown() for part in parts.values()))
        return 0 if all(check.passed for part in parts.values() for check in part.checks) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
