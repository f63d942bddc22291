"""Saving, loading and first use of a model of a million users, and what smaller numbers save and cost.

``python -m benchmarks.model_files`` writes results/model_files.md; letters choose parts. Parts c and d need MovieLens
1M and BookCrossing in BOUNDREC_DATA, and are left out without them.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import boundrec
from benchmarks.measure import Check, Part, real_data, save_parts, side_by_side
from boundrec import MBMF, BayesianMBMF
from boundrec.arrays import Floats, Reals
from boundrec.data.ids import IdIndex
from boundrec.data.ratings import Ratings
from boundrec.metrics import rmse, tie_share
from boundrec.models.fitted import Course, Fitted
from boundrec.models.mbmf import start_rows
from boundrec.ranges import Ranges, check_bounds, frame_for
from boundrec.ranges.magnitudes import constant_magnitudes
from boundrec.splits import hold_out
from boundrec.top_n import norms

N_USERS, N_ITEMS, N_FACTORS, PER_USER = 1_000_000, 100_000, 32, 10
SLOWEST_LOAD, SLOWEST_IMPORT = 0.3, 0.3
#: Of so many users lists are compared.
LISTED = 200
#: Columns in front of a sampler's factors, the mean bias and the held coordinate: one of each, which stay as they are.
KEPT_WHOLE = 2
#: Samples to keep in the place of the default's.
FEWER = (10, 5)


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


# --- (c) smaller numbers ------------------------------------------------------------------------------------------


def in_eight_bits(rows: Reals, magnitudes: Floats) -> Reals:
    """Whole steps of each row's magnitude, towards zero, in the type that the rows had."""
    step = (magnitudes / 127)[:, None]
    return np.asarray((np.trunc(rows / step) * step).astype(rows.dtype))


def shrunk(model: BayesianMBMF) -> BayesianMBMF:
    """A model that answers by what eight bits leave of the factors of its samples."""
    fitted = model.fitted_
    assert isinstance(fitted.ranges, Ranges)
    sides: dict[str, Any] = {}
    for kind, magnitudes in (("user", fitted.ranges.user), ("item", fitted.ranges.item)):
        side = fitted.side(kind)
        rows = side.factors.copy()
        rows[:, KEPT_WHOLE:] = in_eight_bits(rows[:, KEPT_WHOLE:], magnitudes)
        sides[f"{kind}s"] = replace(side, factors=rows)
    other = BayesianMBMF(**model.get_params())
    other._learned = replace(fitted, **sides)
    return other


def longest(model: BayesianMBMF, whole: BayesianMBMF) -> float:
    """By how much a row is longer at most than what it was made of, relatively."""
    return max(
        float(np.max(norms(model.fitted_.side(kind).factors) / norms(whole.fitted_.side(kind).factors))) - 1
        for kind in ("user", "item")
    )


class Answers(NamedTuple):
    """What a model answers, how many bytes its file has, and processor seconds of the predictions and of the lists."""

    size: int
    predictions: Floats
    deviations: Floats
    items: Any
    scores: Floats
    seconds: tuple[float, float]


def answers_of(model: BayesianMBMF, size: int, pairs: Any, users: Any) -> Answers:
    """Predictions and deviations of pairs, top tens of users."""
    predictions, deviations = model.predict(pairs, return_std=True)
    lists, began = model.recommend(users, n=10), time.process_time()
    model.predict(pairs)
    between = time.process_time()
    model.recommend(users, n=10)
    seconds = between - began, time.process_time() - between
    return Answers(size, predictions, deviations, *lists, seconds)


def compared(name: str, one: Answers, whole: Answers, ratings: Floats, grown: float | None) -> list[str]:
    """A row of the table: what a smaller model answers beside the whole one."""
    lists = zip(whole.items.tolist(), one.items.tolist(), strict=True)
    differing = np.mean([len(set(own) - set(other)) / len(own) for own, other in lists])
    return [
        name,
        f"{one.size / 1e6:.0f}",
        f"{rmse(ratings, one.predictions):.5f}",
        f"{np.abs(one.predictions - whole.predictions).max():.1e}",
        f"{np.abs(one.deviations - whole.deviations).max():.1e}",
        "–" if grown is None else f"{grown:.1e}",
        f"{tie_share(one.scores):.1%}",
        f"{differing:.1%}",
        f"{one.seconds[0]:.2f} / {one.seconds[1]:.2f}",
    ]


def smaller_numbers(folder: Path) -> Part | None:
    """(c): what a sampler's model takes and answers with factors in fewer bits, and with fewer samples."""
    data = real_data("bookcrossing_explicit")
    if data is None:
        print("Part c is left out: BookCrossing is not in BOUNDREC_DATA.")
        return None
    held = hold_out(data.user, data.item, 0.1, np.random.default_rng([1, 0]), protect=False)
    pairs, ratings = data.pairs[held], data.rating[held]
    users = np.random.default_rng(0).permutation(data.user[~held])[:LISTED]

    def fitted(**settings: Any) -> tuple[BayesianMBMF, Answers]:
        model = BayesianMBMF(bounds=data.bounds, random_state=0, **settings).fit(data.pairs[~held], data.rating[~held])
        model.save(folder / "books.safetensors")
        return model, answers_of(model, (folder / "books.safetensors").stat().st_size, pairs, users)

    model, whole = fitted()
    narrow, of_narrow = fitted(dtype="float16")
    eight = answers_of(
        shrunk(model), whole.size - 3 * (model.user_factors_.size + model.item_factors_.size), pairs, users
    )
    rows = [
        compared("float32, as it comes", whole, whole, ratings, 0.0),
        compared('dtype="float16"', of_narrow, whole, ratings, longest(narrow, model)),
        compared("were they in 8 bits", eight, whole, ratings, longest(shrunk(model), model)),
    ]
    for n_kept in FEWER:
        rows.append(compared(f"n_kept={n_kept}", fitted(n_kept=n_kept)[1], whole, ratings, None))
    columns = ["factors of the samples", "MB", "RMSE", "predictions move by", "deviations by", "rows grow by"]
    return Part(
        "(c) A BayesianMBMF of BookCrossing, with factors in fewer bits, and with fewer samples",
        [*columns, "ties in top tens", "list entries that differ", "s to predict / to list"],
        rows,
        notes=[
            f"Explicit ratings, a tenth held out, as it comes (K = {model.n_factors}, {model.n_kept} samples). MB of "
            "the file without ratings; largest changes over the held-out pairs; growth of the row that grows most, "
            f"which the ball does not allow; lists of {LISTED} users; processor seconds of {len(pairs):,} predictions "
            "and of these lists. Eight bits, in steps of each row's magnitude towards 0, are tried here and not built."
        ],
    )


# --- (d) what they take -----------------------------------------------------------------------------------------

#: A fit of a data set with some settings, saved; then megabytes at the most, and of the file.
FIT = """
import resource, sys
from benchmarks.measure import real_data
from boundrec import BayesianMBMF

data = real_data(sys.argv[1])
model = BayesianMBMF(bounds=data.bounds, dtype=sys.argv[2], n_kept=int(sys.argv[3]), max_iter=30, random_state=0)
model.fit(data.pairs, data.rating)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3)
model.save(sys.argv[4])
"""
LOAD = """
import sys, time
import boundrec
import boundrec.model_file

began = time.process_time()
boundrec.load(sys.argv[1])
print(time.process_time() - began)
"""
SETS = (("movielens_1m", "MovieLens 1M, with sets"), ("bookcrossing_explicit", "BookCrossing, without sets"))


def room(folder: Path) -> Part | None:
    """(d): files and fits in float32, in float16 and with half of the samples, with sets of who rated what and none."""
    if any(real_data(name) is None for name, _ in SETS):
        print("Part d is left out: MovieLens 1M or BookCrossing is not in BOUNDREC_DATA.")
        return None
    rows = []
    for name, title in SETS:
        for dtype, n_kept in (("float32", 20), ("float16", 20), ("float32", 10)):
            file = folder / f"{name}-{dtype}-{n_kept}.safetensors"
            peak = float(child(FIT, name, dtype, str(n_kept), str(file)))
            load = min(float(child(LOAD, str(file))) for _ in range(3))
            size = file.stat().st_size / 1e6
            rows.append([title, dtype, str(n_kept), f"{size:.0f}", f"{peak:.0f}", f"{load:.2f}"])
    return Part(
        "(d) What a BayesianMBMF takes, by how its factors are stored",
        ["data", "dtype", "n_kept", "MB of the file", "MB of the fit, at most", "s to load and verify"],
        rows,
        notes=[
            "As it comes but for that, after 30 sweeps, without ratings in the file. A fit is measured with Python, "
            "libraries and data; loading takes processor time, the least of three new processes."
        ],
    )


def child(code: str, *words: str) -> str:
    """What a new process prints last."""
    done = subprocess.run([sys.executable, "-c", code, *words], check=True, capture_output=True, text=True)
    return done.stdout.split()[-1]


def main() -> None:
    ways = {"a": files_of_a_million, "b": imports_and_first_prediction, "c": smaller_numbers, "d": room}
    parser = argparse.ArgumentParser(prog="python -m benchmarks.model_files", description="What model files cost.")
    parser.add_argument("parts", nargs="*", metavar="PART", help="a, b, c, d (all)")
    chosen = parser.parse_args().parts or list(ways)
    if unknown := set(chosen) - ways.keys():
        parser.error(f"there is no part {sorted(unknown)[0]!r}: choose from a, b, c, d.")
    with tempfile.TemporaryDirectory() as folder:
        found = {letter: ways[letter](Path(folder)) for letter in chosen}
    parts = {letter: part for letter, part in found.items() if part is not None}
    for part in parts.values():
        print(part.markdown(), end="\n\n")
    save_parts(parts, "model_files")


if __name__ == "__main__":
    main()
