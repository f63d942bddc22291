"""BMF and BMC-ADMM on full matrices, beside the seconds of the paper's Table I (an i7-6900K).

``python -m benchmarks.rivals_bounded`` writes results/rivals_bounded.md and fails if at 2,000 × 5,000 a method takes
longer than the paper reports for it.
"""

from __future__ import annotations

import argparse
import time
import warnings

from sklearn.exceptions import ConvergenceWarning

from benchmarks.measure import Check, Part, save_parts
from boundrec import BMCADMM, BMF, datasets
from boundrec.data.ratings import Ratings
from boundrec.paper.table1 import PRINTED
from boundrec.ranges.scale import Bounds

#: n_users, n_items: the paper's seconds on full matrices, K = 10.
PAPER: dict[type[BMF | BMCADMM], dict[tuple[int, int], float]] = {
    model: {(n, m): seconds[name] for (n, m, density), seconds in PRINTED.items() if density == 1}
    for model, name in ((BMF, "BMF"), (BMCADMM, "BMC-ADMM"))
}
LARGEST = (2000, 5000)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rank", type=int, help="rank of the matrices; independent values without it")
    parser.add_argument("--n-jobs", type=int, default=1)
    parser.add_argument("--only", choices=[model.__name__ for model in PAPER])
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    passed = True
    for model in PAPER:
        if arguments.only in (None, model.__name__):
            part = measure(model, arguments.rank, arguments.n_jobs)
            print(f"\n{part.markdown()}", flush=True)
            save_parts({part.title: part}, "rivals_bounded")
            passed &= all(check.passed for check in part.checks)
    return 0 if passed else 1


def measure(model: type[BMF | BMCADMM], rank: int | None, n_jobs: int) -> Part:
    """One method on matrices of all sizes."""
    _fit(model, _matrix((20, 50), rank), n_jobs)  # compiles, outside the clock
    rows, checks = [], []
    for size, paper in PAPER[model].items():
        data = _matrix(size, rank)
        began = time.perf_counter()
        fitted = _fit(model, data, n_jobs)
        took = time.perf_counter() - began
        found = [str(fitted.n_iter_), f"{fitted.objectives_[-1]:.5g}", f"{took:.2f}"]
        rows.append([f"{size[0]:,} × {size[1]:,}", *found, f"{paper:.2f}", f"{took / paper:.3f}"])
        print(rows[-1], flush=True)
        if size == LARGEST:
            checks.append(Check("2,000 × 5,000", f"{took:.1f} s", f"< {paper:.1f} s", took < paper))
    columns = ["matrix", "sweeps", "objective", "seconds", "paper's", "ratio"]
    note = (
        f"Full matrices in [0, 10], K = 10, seed 0, at most 500 sweeps, {n_jobs} thread(s), one fit each, from the "
        f"call of `fit` on `Ratings`. The paper's seconds are those of its Table I (i7-6900K)."
    )
    title = f"{model.__name__}, {'independent values' if rank is None else f'rank {rank}'}"
    return Part(title, columns, rows, checks, [note])


def _matrix(size: tuple[int, int], rank: int | None) -> tuple[Ratings, Bounds]:
    data = datasets.synthetic(*size, density=1.0, rank=rank, random_state=0)
    return Ratings.from_pairs(data.pairs, data.rating), data.bounds


def _fit(model: type[BMF | BMCADMM], data: tuple[Ratings, Bounds], n_jobs: int) -> BMF | BMCADMM:
    ratings, bounds = data
    return model(10, bounds=bounds, max_iter=500, random_state=0, n_jobs=n_jobs).fit(ratings)


if __name__ == "__main__":
    raise SystemExit(main())
