"""Saving, loading and first use of a model of a million users: ``python -m benchmarks.model_files``."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import boundrec
from benchmarks.measure import Check, Part, save_parts, side_by_side
from boundrec import MBMF, BayesianMBMF
from boundrec.arrays import Floats, Reals
from boundrec.data.ids import IdIndex
from boundrec.data.ratings import Ratings
from boundrec.models.fitted import Course, Fitted
from boundrec.models.mbmf import start_rows
from boundrec.ranges import check_bounds, frame_for
from boundrec.ranges.magnitudes import constant_magnitudes

N_USERS, N_ITEMS, N_FACTORS, PER_USER = 1_000_000, 100_000, 32, 10
SLOWEST_LOAD, SLOWEST_IMPORT = 0.3, 0.3


def large_model() -> MBMF:
    """A model of random factors on random ratings: files do not care whether a model is any good."""
    rng = np.random.default_rng(0)
    users = np.repeat(rng.permutation(N_USERS), PER_USER)
    # Ten different items for each user, without drawing them one by one.
    items = (rng.integers(N_ITEMS, size=users.size) // PER_USER) * PER_USER + np.tile(np.arange(PER_USER), N_USERS)
    ratings = Ratings.from_pairs(np.column_stack([users, items]), rng.integers(1, 6, users.size))
    model = MBMF(N_FACTORS, bounds=(1, 5), dtype="float32")
    bounds = check_bounds(model.bounds)
    ranges = constant_magnitudes(frame_for(bounds, "c", 1.0), bounds, ratings)
    start = Fitted.before_the_first_sweep(ratings, ratings, ranges)
    model._learned = replace(
        start,
        users=replace(start.users, factors=_rows(ranges.user, rng)),
        items=replace(start.items, factors=_rows(ranges.item, rng)),
        course=Course([1.0], [1.0], []),
        found={"infeasible_share": 0.0, "ridge": 0.0},
    )
    return model


def _rows(magnitudes: Floats, rng: np.random.Generator) -> Reals:
    return start_rows("sphere", magnitudes, N_FACTORS, rng).astype(np.float32)


def named(model: MBMF) -> MBMF:
    """The same model with text for ids."""
    sides: dict[str, Any] = {}
    for kind in ("user", "item"):
        side = model.fitted_.side(kind)
        text = np.array([f"{kind}-{one}" for one in side.ids.ids.tolist()], dtype=object)
        sides[f"{kind}s"] = replace(side, ids=IdIndex(text))
    model._learned = replace(model.fitted_, **sides)
    return model


def large_file(model: MBMF, file: Path, keep_ratings: bool = False) -> list[str]:
    """Size and times of one file, as a row of the table."""
    began = time.perf_counter()
    model.save(file, keep_ratings=keep_ratings)
    saving = time.perf_counter() - began
    verified, mapped = side_by_side(lambda: boundrec.load(file), lambda: boundrec.load(file, verify=False))
    loaded = boundrec.load(file)
    pair = [(model.user_ids_.ids.item(7), model.item_ids_.ids.item(7))]
    began = time.perf_counter()
    loaded.predict(pair)
    first = time.perf_counter() - began
    (later,) = side_by_side(lambda: loaded.predict(pair))
    return [
        f"{file.stat().st_size / 1e6:.0f}",
        *(f"{seconds:.4f}" for seconds in (saving, verified, mapped, first, later)),
    ]


def files_of_a_million(folder: Path) -> Part:
    """(a): a million users, three ways."""
    model, file = large_model(), folder / "model.safetensors"
    kinds = {"integer ids": {}, "integer ids, with ratings": {"keep_ratings": True}}
    rows = [[kind, *large_file(model, file, **options)] for kind, options in kinds.items()]
    rows.append(["text ids", *large_file(named(model), file)])
    load = float(rows[0][3])
    return Part(
        "(a) A model of 1,000,000 users and 100,000 items, 32 factors in float32, 10 seen items a user",
        ["file", "MB", "save, s", "load, s", "load unverified, s", "first prediction, s", "next, s"],
        rows,
        [Check("load and verify, integer ids", f"{load:.3f} s", f"≤ {SLOWEST_LOAD} s", load <= SLOWEST_LOAD)],
        [
            "From a warm page cache, best of seven; saving, which waits for the disk, once. The first prediction "
            "builds the index of ids. With ratings, loading makes their order by items anew."
        ],
    )


def seconds_of(code: str) -> float:
    """Processor seconds of a new interpreter that runs some code, start and all."""
    timed = f"{code}\nimport time; print(time.process_time())"
    return float(subprocess.run([sys.executable, "-c", timed], capture_output=True, text=True, check=True).stdout)


def imports_and_first_prediction(folder: Path) -> Part:
    """(b): from nothing to a prediction, above what scikit-learn's base class costs."""
    X = [("ann", "tea"), ("ann", "rum"), ("bob", "tea"), ("bob", "gin"), ("eve", "rum"), ("eve", "gin")]
    models: list[Any] = [MBMF(2, bounds=(1, 5), random_state=0), BayesianMBMF(2, bounds=(1, 5), random_state=0)]
    rows, checks = [], []
    for model in models:
        name, file = type(model).__name__, folder / "small.safetensors"
        model.fit(X, [5, 1, 4, 5, 2, 1]).save(file)
        code = f"import boundrec; boundrec.load({str(file)!r}).predict([('ann', 'gin')])"
        floor, whole = np.inf, np.inf
        for _ in range(7):  # in turns, so that a busy moment hits both
            floor = min(floor, seconds_of("import sklearn.base"))
            whole = min(whole, seconds_of(code))
        above = whole - floor
        rows.append([name, f"{floor:.2f}", f"{whole:.2f}", f"{above:.2f}"])
        checks.append(Check(name, f"{above:.2f} s above", f"≤ {SLOWEST_IMPORT} s", above <= SLOWEST_IMPORT))
    columns = ["model", "import sklearn.base, s", "import boundrec, load and predict, s", "above, s"]
    return Part(
        "(b) From a new process to a prediction",
        columns,
        rows,
        checks,
        ["Processor time, start of the interpreter included; best of seven, in turns."],
    )


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        parts = {"b": imports_and_first_prediction(Path(folder)), "a": files_of_a_million(Path(folder))}
    for part in parts.values():
        print(part.markdown(), end="\n\n")
    save_parts(parts, "model_files")


if __name__ == "__main__":
    main()
