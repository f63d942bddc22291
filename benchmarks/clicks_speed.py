"""What a sweep over clicks and lists from them cost, against implicit's alternating least squares on one thread.

``python -m benchmarks.clicks_speed`` takes all ratings of MovieLens 1M in BOUNDREC_DATA for clicks and writes
results/clicks_speed.md. Letters choose parts: a, a sweep of `ImplicitMBMF` (items, users and the objective) against one
of implicit with its Cholesky solver and with its conjugate gradients; b, lists of ten for everybody. Everybody works in
float32 on one thread and takes turns; figures are medians of processor time, after compilation. Where implicit is not
installed our own figures stand alone. ``--quick`` takes fewer turns and writes nothing.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from threadpoolctl import threadpool_limits

from benchmarks.measure import Check, Part, SweepClock, machine, movielens_or_alike, save_parts, seconds
from benchmarks.peers import version
from boundrec import ImplicitMBMF
from boundrec.data.ratings import Ratings

FACTORS = (32, 64, 128)
#: What is promised at so many factors: our time as a share of that of each of implicit's solvers.
PROMISED_AT, LIMITS = 64, {"Cholesky": 1.0, "conjugate gradients": 3.0}
#: Sweeps of a fit, of which the first is not counted, and how often everybody has a turn.
SWEEPS, TURNS = 4, 3
#: implicit's default, and what the paper that it follows took.
ALPHAS = (1.0, 40.0)
#: Length of the lists.
N = 10

Times = NDArray[np.float64]


def our_sweeps(ratings: Ratings, n_factors: int) -> Times:
    """Processor seconds of each of our sweeps after the first."""
    clock = SweepClock()
    ImplicitMBMF(n_factors, max_iter=SWEEPS, tol=0, n_jobs=1, random_state=0).fit(ratings, callback=clock)
    return clock.cpu[1:]


def their_sweeps(als: Any, matrix: csr_matrix, n_factors: int, use_cg: bool, alpha: float) -> Times:
    """Processor seconds of each of implicit's sweeps after the first."""
    times: list[float] = []
    model = als.AlternatingLeastSquares(
        n_factors, alpha=alpha, use_cg=use_cg, iterations=SWEEPS, num_threads=1, random_state=0
    )
    model.fit(matrix, show_progress=False, callback=lambda *_: times.append(time.process_time()))
    return np.diff(times)


def medians(actions: Mapping[str, Callable[[], Times]], turns: int) -> dict[str, float]:
    """The median of all times of each action; actions take turns, and the first turn compiles."""
    found: dict[str, list[Times]] = {name: [] for name in actions}
    for turn in range(turns + 1):
        for name, action in actions.items():
            if turn:
                found[name].append(action())
            elif name == "boundrec":
                action()
    return {name: float(np.median(np.concatenate(times))) for name, times in found.items()}


def sweeps(ratings: Ratings, matrix: csr_matrix, als: Any, name: str, turns: int) -> Part:
    """(a) A sweep at several numbers of factors."""
    rows, checks = [], []
    for n_factors in FACTORS:
        actions: dict[str, Callable[[], Times]] = {"boundrec": partial(our_sweeps, ratings, n_factors)}
        solvers = {}
        for solver, use_cg in (("Cholesky", False), ("conjugate gradients", True)):
            for alpha in ALPHAS if als else ():
                title = f"implicit, {solver}, alpha = {alpha:g}"
                actions[title], solvers[title] = partial(their_sweeps, als, matrix, n_factors, use_cg, alpha), solver
        found = medians(actions, turns)
        ours = found["boundrec"]
        rows += [[str(n_factors), title, f"{1e3 * taken:.0f}", f"{ours / taken:.2f}"] for title, taken in found.items()]
        if n_factors == PROMISED_AT:
            for title, solver in solvers.items():
                ratio, limit = ours / found[title], LIMITS[solver]
                checks.append(Check(f"ours ÷ {title}, K = {n_factors}", f"{ratio:.2f}", f"≤ {limit:g}", ratio <= limit))
    notes = [
        f"{name}, {matrix.nnz:,} clicks of {matrix.shape[0]:,} users on {matrix.shape[1]:,} items; one thread each, "
        f"float32 factors, medians of {turns} × {SWEEPS - 1} sweeps in turns. Ours has the objective in it, which "
        "implicit's leaves out. Every row of ours is solved exactly, inside its ball; conjugate gradients take three "
        "steps from the row before. implicit weighs a click by alpha − 1: with alpha = 1, its default, clicks that all "
        "count once add products with zero to its matrices, which BLAS skips, so that little more than factorising is "
        "left.",
        about(als),
    ]
    return Part("(a) A sweep", ["K", "method", "processor ms a sweep", "ours ÷ this"], rows, checks, notes)


def lists(ratings: Ratings, matrix: csr_matrix, als: Any, turns: int) -> Part:
    """(b) Lists of ten for every user, without what they clicked on."""
    ours = ImplicitMBMF(PROMISED_AT, max_iter=SWEEPS, tol=0, n_jobs=1, random_state=0).fit(ratings)
    users = ours.user_ids_.ids
    actions = {"boundrec": lambda: np.array([seconds(lambda: ours.recommend(users, N)).processor])}
    if als:
        theirs = als.AlternatingLeastSquares(PROMISED_AT, iterations=2, num_threads=1, random_state=0)
        theirs.fit(matrix, show_progress=False)
        everybody = np.arange(matrix.shape[0])
        actions["implicit"] = lambda: np.array([seconds(lambda: theirs.recommend(everybody, matrix, N)).processor])
    found = medians(actions, turns)
    rows = [[name, f"{1e3 * taken:.0f}", f"{found['boundrec'] / taken:.2f}"] for name, taken in found.items()]
    note = f"Lists of {N} for all {len(users):,} users at K = {PROMISED_AT}, each method by its own factors."
    columns = ["method", "processor ms", "ours ÷ this"]
    return Part("(b) Lists of ten for everybody", columns, rows, notes=[note, about(als)])


def about(als: Any) -> str:
    """Which implicit took part."""
    return (
        f"{version('implicit')}." if als else 'implicit is not installed (pip install "boundrec[peers]"): ours alone.'
    )


def implicit_als() -> Any:
    """implicit's module for the processor, or None."""
    try:
        return import_module("implicit.cpu.als")
    except ImportError:
        return None


def main(arguments: list[str]) -> None:
    warnings.simplefilter("ignore")
    turns = 1 if "--quick" in arguments else TURNS
    name, data = movielens_or_alike()
    ratings = Ratings.read(data.pairs, None, strengths=True)
    matrix = csr_matrix((np.ones(len(data.user), np.float32), (data.user, data.item)))
    print(machine(), flush=True)
    with threadpool_limits(1):
        als = implicit_als()
        parts: dict[str, Callable[[], Part]] = {
            "a": lambda: sweeps(ratings, matrix, als, name, turns),
            "b": lambda: lists(ratings, matrix, als, turns),
        }
        for letter in [argument for argument in arguments if argument in parts] or list(parts):
            part = parts[letter]()
            print(f"\n{part.markdown()}", flush=True)
            if "--quick" not in arguments:
                save_parts({letter: part}, "clicks_speed")


if __name__ == "__main__":
    main(sys.argv[1:])
