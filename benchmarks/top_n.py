"""Lists for all users of BookCrossing (explicit): against a blocked product with argpartition, implicit, and 1 GB.

``python -m benchmarks.top_n`` fits MBMF (K = 20, ball, three sweeps) on the ratings in BOUNDREC_DATA and writes
results/top_n.md. Letters choose parts: a, time on the same users, side by side (implicit takes part where it is
installed); b, the same with the sphere, whose items are all of one length, so that norms spare us nothing; c, peak
memory for all users. All methods rank by the same factors and leave out what users have rated.
"""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from threadpoolctl import threadpool_limits

from benchmarks.measure import Check, Part, peak_memory, real_data, save_parts
from boundrec import MBMF
from boundrec.data.ratings import Pairs
from boundrec.datasets import Dataset
from boundrec.solvers.exact import Constraint
from boundrec.solvers.threads import thread_count

N, K, REPEATS = 10, 20, 3
#: Users in the sample that is timed.
SAMPLE = 2048
#: What our time may be, as a share of theirs.
LIMITS = {"NumPy, product and argpartition": 1.0, "implicit": 1.5}
#: What scores of the same place may differ by.
CLOSE = 1e-5
#: Users whose products with all items NumPy takes at a time: a smaller block leaves BLAS too little to do.
BLOCK = 128


def fitted_model(data: Dataset, constraint: Constraint) -> MBMF:
    """MBMF after three sweeps: factors of the kind that lists are made from, and no more time than that needs."""
    model = MBMF(K, bounds=data.bounds, constraint=constraint, max_iter=3, tol=0, random_state=0)
    return model.fit(data.pairs, data.rating)


def seen_matrix(model: MBMF) -> csr_matrix:
    """Users × items, ones where there is a rating."""
    seen = model.fitted_.seen
    shape = model.n_users_, model.n_items_
    return csr_matrix((np.ones(len(seen.indices), np.float32), seen.indices, seen.indptr), shape=shape)


def blocked_argpartition(
    W: NDArray[np.float32], H: NDArray[np.float32], seen: csr_matrix, users: NDArray[np.int64]
) -> NDArray[np.int64]:
    """What one would write in NumPy: a block of the product, argpartition, a sort of n; blocks on all cores."""
    items = np.empty((len(users), N), np.int64)

    def fill(start: int) -> None:
        block = users[start : start + BLOCK]
        scores = W[block] @ H.T
        rows, columns = seen[block].nonzero()
        scores[rows, columns] = -np.inf
        best = np.argpartition(-scores, N, axis=1)[:, :N]
        order = np.argsort(-np.take_along_axis(scores, best, axis=1), axis=1)
        items[start : start + BLOCK] = np.take_along_axis(best, order, axis=1)

    with threadpool_limits(1), ThreadPoolExecutor(thread_count(None)) as executor:
        list(executor.map(fill, range(0, len(users), BLOCK)))
    return items


def implicit_recommend(
    W: NDArray[np.float32], H: NDArray[np.float32], seen: csr_matrix, users: NDArray[np.int64]
) -> Callable[[], Any] | None:
    """implicit's ``recommend`` on the same factors, with BLAS on one thread for each of its own, as it asks for."""
    try:
        als = import_module("implicit.cpu.als")
    except ImportError:
        return None
    with threadpool_limits(1):
        model = als.AlternatingLeastSquares(factors=K)
    model.user_factors, model.item_factors = W, H

    def call() -> Any:
        with threadpool_limits(1):
            return model.recommend(users, seen[users], N=N)[0]

    return call


def timed(actions: dict[str, Callable[[], Any]]) -> tuple[dict[str, tuple[float, float]], dict[str, Any]]:
    """Best wall and processor seconds of each, taken in turns of which the first does not count, and the results."""
    best, results = dict.fromkeys(actions, (np.inf, np.inf)), {}
    for turn in range(REPEATS + 1):
        for name, action in actions.items():
            wall, cpu = time.perf_counter(), time.process_time()
            results[name] = action()
            found = time.perf_counter() - wall, time.process_time() - cpu
            if turn:
                best[name] = min(best[name][0], found[0]), min(best[name][1], found[1])
    return best, results


def time_part(data: Dataset, constraint: Constraint) -> Part:
    """Side by side on a sample of users; NumPy, which takes far longer, for the ball only."""
    model = fitted_model(data, constraint)
    users = np.sort(np.random.default_rng(0).choice(model.n_users_, SAMPLE, replace=False))
    ids, seen = model.user_ids_.ids[users], seen_matrix(model)
    W, H = model.user_factors_.astype(np.float32), model.item_factors_.astype(np.float32)
    actions: dict[str, Callable[[], Any]] = {
        "boundrec": lambda: model.item_ids_.codes(model.recommend(ids, N)[0].ravel())
    }
    peer = implicit_recommend(W, H, seen, users)
    if peer is not None:
        actions["implicit"] = peer
    if constraint == "ball":
        actions["NumPy, product and argpartition"] = partial(blocked_argpartition, W, H, seen, users)
    best, lists = timed(actions)
    wall, cpu = best["boundrec"]
    scores = {name: model._predict(Pairs(np.repeat(users, N), items.ravel())) for name, items in lists.items()}
    same = {name: np.mean(np.abs(found - scores["boundrec"]) <= CLOSE) for name, found in scores.items()}
    rows = [
        [name, f"{w:.2f}", f"{c:.2f}", f"{w / wall:.2f}", f"{c / cpu:.2f}", f"{same[name]:.2%}"]
        for name, (w, c) in best.items()
    ]
    columns = ["method", "wall, s", "processor, s", "wall ÷ ours", "processor ÷ ours", "places with our score"]
    checks = [
        Check(f"boundrec ÷ {name}, {clock}", f"{ours / theirs:.2f}", f"≤ {LIMITS[name]}", ours / theirs <= LIMITS[name])
        for name, times in best.items()
        if name != "boundrec"
        for clock, ours, theirs in zip(("wall", "processor"), best["boundrec"], times, strict=True)
    ]
    notes = [
        f"{SAMPLE:,} users of {model.n_users_:,} × {model.n_items_:,} items, n = {N}, K = {K}, {thread_count(None)} "
        f"threads each; best of {REPEATS} turns, one after the other. Beside other work on the machine, processor "
        "seconds are the steadier figure. Ours is the whole call: ids to row numbers, sorting the items by norm, and "
        f"scoring what passed in float64. The others rank in float32; to {CLOSE:g} their lists have our scores, in an "
        "order that differs where many books of a single reader have the same one."
    ]
    return Part(f"Time, {constraint}", columns, rows, checks, notes)


def memory_part(data: Dataset) -> Part:
    """All users, in a process that holds the model and nothing of the fit."""
    model = fitted_model(data, "ball")
    with tempfile.NamedTemporaryFile(suffix=".pickle") as file:
        pickle.dump(model, file)
        file.flush()
        command = [sys.executable, "-m", "benchmarks.top_n", "measure-memory", file.name]
        found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    above = found["peak"] - found["before"]
    rows = [[f"{found['lists']:,}", f"{found['seconds']:.1f}", f"{found['before']:.2f}", f"{above:.2f}"]]
    columns = ["lists", "seconds", "memory with the model, GB", "peak above it, GB"]
    check = Check("peak memory above the model", f"{above:.2f} GB", "≤ 1 GB", above <= 1.0)
    return Part("Memory: all users in one call", columns, rows, [check], ["The lists themselves are part of it."])


def measure_memory(file: str) -> None:
    """Print what one call for all users takes, as JSON."""
    model = pickle.loads(Path(file).read_bytes())
    status = Path("/proc/self/status").read_text().splitlines()
    before = int(next(line for line in status if line.startswith("VmRSS")).split()[1]) / 1e6
    began = time.perf_counter()
    items, _ = model.recommend(n=N)
    seconds = time.perf_counter() - began
    print(json.dumps({"before": before, "peak": peak_memory(), "seconds": seconds, "lists": len(items)}))


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["measure-memory"]:
        measure_memory(arguments[1])
        return
    warnings.simplefilter("ignore")
    data = real_data("bookcrossing_explicit")
    if data is None:
        print("Skipped: there is no bookcrossing_explicit.npz in BOUNDREC_DATA.")
        return
    parts = {
        "a": partial(time_part, data, "ball"),
        "b": partial(time_part, data, "sphere"),
        "c": partial(memory_part, data),
    }
    for letter, part in parts.items():
        if letter in (arguments or parts):
            result = part()
            print(f"\n{result.markdown()}", flush=True)
            save_parts({letter: result}, "top_n")


if __name__ == "__main__":
    main(sys.argv[1:])
