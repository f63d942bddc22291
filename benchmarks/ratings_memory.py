"""Peak memory and time of reading integer pairs, against the size of the two CSR orders they become."""

from __future__ import annotations

import sys
import time
import tracemalloc

import numpy as np

from boundrec.data.ratings import Ratings


def main(n: int) -> None:
    rng = np.random.default_rng(0)
    n_users, n_items = max(n // 100, 10), max(n // 40, 10)
    cells = np.unique(rng.integers(n_users * n_items, size=n))
    rng.shuffle(cells)
    close = np.column_stack(np.divmod(cells, n_items))
    y = rng.random(cells.size)
    # Ids far apart, as hashes are, cannot be numbered through a table.
    spread = close * 1_000_003_000_019
    print(f"{cells.size:,} ratings of {n_users:,} users and {n_items:,} items")
    for name, X in (("ids close together", close), ("ids far apart", spread)):
        for weights in (None, rng.random(cells.size)):
            began = time.perf_counter()
            ratings = Ratings.from_pairs(X, y, sample_weight=weights)
            seconds = time.perf_counter() - began
            size = sum(array.nbytes for csr in (ratings.by_user, ratings.by_item) for array in csr)
            del ratings
            tracemalloc.start()
            Ratings.from_pairs(X, y, sample_weight=weights)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            kind = name if weights is None else f"{name}, with weights"
            print(f"{kind}: {seconds:.2f} s, {size / 1e6:.0f} MB, peak {peak / size:.2f} times that")


if __name__ == "__main__":
    main(int(float(sys.argv[1])) if len(sys.argv) > 1 else 1_000_000)
