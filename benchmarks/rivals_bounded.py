"""BMF and BMC-ADMM on full matrices, beside the seconds of the paper's Table I (an i7-6900K)."""

from __future__ import annotations

import argparse
import time
import warnings

from sklearn.exceptions import ConvergenceWarning

from boundrec import BMCADMM, BMF, datasets
from boundrec.ranges import Bounds
from boundrec.ratings import Ratings

#: n_users, n_items: the paper's seconds for BMF and for BMC-ADMM, K = 10.
PAPER = {
    (20, 50): (0.1497, 2.2388),
    (100, 100): (0.5007, 8.8932),
    (200, 500): (5.71, 4.44),
    (1000, 1000): (313.75, 14.908),
    (2000, 5000): (4753.4, 128.73),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rank", type=int, default=None, help="rank of the matrix; independent values without it")
    parser.add_argument("--n-jobs", type=int, default=1)
    parser.add_argument("--only", choices=["BMF", "BMCADMM"])
    parser.add_argument("--largest", action="store_true", help="2,000 × 5,000 alone")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    models = [model for model in (BMF, BMCADMM) if arguments.only in (None, model.__name__)]
    for model in models:  # compiles, outside the clock
        _fit(model, _matrix(20, 50, arguments.rank), arguments.n_jobs)
    print(f"{'matrix':>13} {'model':>8} {'sweeps':>6} {'objective':>11} {'seconds':>9} {'estimate':>9} {'paper':>9}")
    for size in list(PAPER)[-1:] if arguments.largest else PAPER:
        data = _matrix(*size, arguments.rank)
        for model in models:
            began = time.perf_counter()
            fitted = _fit(model, data, arguments.n_jobs)
            seconds = time.perf_counter() - began
            paper = PAPER[size][model is BMCADMM]
            print(
                f"{size[0]:>6} × {size[1]:<4} {model.__name__:>8} {fitted.n_iter_:>6} {fitted.objectives_[-1]:>11.5g} "
                f"{seconds:>9.3f} {fitted.estimated_seconds(*size):>9.3f} {paper:>9.2f}",
                flush=True,
            )


def _matrix(n_users: int, n_items: int, rank: int | None) -> tuple[Ratings, Bounds]:
    data = datasets.synthetic(n_users, n_items, density=1.0, rank=rank, random_state=0)
    return Ratings.from_pairs(data.pairs, data.rating), data.bounds


def _fit(model: type[BMF | BMCADMM], data: tuple[Ratings, Bounds], n_jobs: int) -> BMF | BMCADMM:
    ratings, bounds = data
    return model(10, bounds=bounds, max_iter=500, random_state=0, n_jobs=n_jobs).fit(ratings)


if __name__ == "__main__":
    main()
