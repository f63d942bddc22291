"""Peak memory of reading ratings, above what they came in: ``python -m benchmarks.ratings_memory [how many]``.

Every case is a process of its own that finds its ratings in a file, so that nothing is in memory but them. Writes
results/ratings_memory.md.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks.measure import Check, Part, peak_memory, save_parts
from boundrec.data.ratings import Ratings

#: What ids are, and how many sizes reading them may take.
CASES = {
    "integers close together": 3.0,
    "integers far apart": 3.0,
    "integers close together, with weights": 3.0,
    "text in polars": 6.0,
}
NOTE = (
    "Peak memory above that of the ratings as they came, in row orders of theirs (12 bytes for each rating, 20 with "
    "weights): what is read ends in two of these. Each case in a process of its own."
)
PER_USER, USERS_PER_ITEM = 100, 10


def write(n: int, path: Path) -> None:
    """About n ratings in an order by chance."""
    rng = np.random.default_rng(0)
    n_users = max(n // PER_USER, 10)
    n_items = max(n_users // USERS_PER_ITEM, 10)
    cells = np.unique(rng.integers(n_users * n_items, size=n))
    rng.shuffle(cells)
    user, item = np.divmod(cells, n_items)
    np.save(path, np.column_stack([user, item]))
    np.save(_ratings_of(path), rng.random(cells.size))
    text = [pl.format(f"{name}-{{}}", name).alias(name) for name in ("user", "item")]
    pl.DataFrame({"user": user, "item": item}).select(text).write_parquet(_as_text(path))


def _ratings_of(path: Path) -> Path:
    return path.with_stem("ratings")


def _as_text(path: Path) -> Path:
    """The same pairs with text for ids."""
    return path.with_suffix(".parquet")


def held(case: str, path: Path) -> dict[str, float]:
    """Sizes above the ratings as they came, and processor seconds."""
    y, weights = np.load(_ratings_of(path)), None
    X: Any = pl.read_parquet(_as_text(path)) if case == "text in polars" else np.load(path)
    if case == "integers far apart":
        X *= 1_000_003_000_019
    if "weights" in case:
        weights = np.random.default_rng(1).random(y.size)
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before, began = peak_memory(), time.process_time()
    ratings = Ratings.from_pairs(X, y, sample_weight=weights)
    seconds = time.process_time() - began
    size = sum(array.nbytes for array in ratings.by_user)
    return {"sizes": (peak_memory() - before) * 1e9 / size, "seconds": seconds, "MB": size / 1e6}


def main(n: int) -> int:
    rows, checks = [], []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pairs.npy"
        write(n, path)
        for case, most in CASES.items():
            child = [sys.executable, "-m", "benchmarks.ratings_memory", "--case", case, str(path)]
            answer = subprocess.run(child, check=True, capture_output=True, text=True).stdout.split()
            sizes, seconds, megabytes = map(float, answer)
            rows.append([case, f"{megabytes:.0f}", f"{sizes:.2f}", f"{seconds:.1f}"])
            checks.append(Check(case, f"{sizes:.2f}", f"≤ {most:g}", sizes <= most))
    columns = ["ids", "one row order, MB", "peak above the input, row orders", "processor s"]
    part = Part(f"Reading {n:,} ratings", columns, rows, checks, [NOTE])
    save_parts({"reading": part}, "ratings_memory")
    print(part.markdown())
    return 0 if all(check.passed for check in checks) else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--case"]:
        found = held(sys.argv[2], Path(sys.argv[3]))
        print(found["sizes"], found["seconds"], found["MB"])
    else:
        sys.exit(main(int(float(sys.argv[1])) if len(sys.argv) > 1 else 20_000_000))
