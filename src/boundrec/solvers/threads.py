"""Runs a kernel over ranges of rows, on a pool of threads where that pays.

The ranges come from the data alone and kernels never cross a row, so any number of threads gives the same bits.
"""

import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import cache
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from boundrec.arrays import Floats, Reals

#: With fewer ratings (or pairs, where all are looked at) than this, starting threads costs more than it saves.
INLINE_BELOW = 50_000
#: Ranges handed out: many more than cores, so that a slow one does not keep the others waiting.
N_RANGES = 64
#: Ranges for kernels that do a few operations a rating: handing out 64 would cost as much as the work.
FEW_RANGES = 8
#: Work, in ratings, below which a range is not worth handing out on its own.
SMALLEST_RANGE = 10_000
#: What a row costs besides its ratings, in ratings: solving its small system.
ROW_COST = 8
#: Multiplications after which a kernel should return, some tenths of a second: until then Ctrl-C is not heard.
LONGEST_CALL = 200_000_000


def row_ranges(indptr: NDArray[np.int64], n_ranges: int = N_RANGES, width: int = 0) -> list[tuple[int, int]]:
    """Cut the rows into ranges of about equal work, at most ``n_ranges`` of them and none too small.

    ``width`` is that of the small system which each row solves, if it does: a rating then takes width²/2
    multiplications and the row as many as width/3 ratings, and there are as many ranges as keep calls short.
    """
    n_rows = len(indptr) - 1
    work = indptr + (ROW_COST + width // 3) * np.arange(n_rows + 1, dtype=np.int64)
    n_short = int(work[-1]) * width**2 // (2 * LONGEST_CALL)
    n_ranges = max(min(n_ranges, int(work[-1]) // SMALLEST_RANGE), n_short, 1)
    targets = np.linspace(0, work[-1], n_ranges + 1)[1:-1]
    cuts = np.unique(np.concatenate([[0], np.searchsorted(work, targets), [n_rows]]))
    return list(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True))


def thread_count(n_jobs: int | None) -> int:
    """Threads to use: every core for None, counting back from all of them for negative numbers."""
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if n_jobs is None:
        return available
    if not isinstance(n_jobs, (int, np.integer)) or isinstance(n_jobs, (bool, np.timedelta64)) or n_jobs == 0:
        raise ValueError(f"n_jobs={n_jobs!r}: give a number of threads, -1 for every core, or None for the same.")
    return max(1, available + 1 + int(n_jobs)) if n_jobs < 0 else int(n_jobs)


def threads_for(n_jobs: int | None, n_entries: int) -> int:
    """Threads that a pass over so many ratings, or pairs, is run on: one where it is short."""
    return thread_count(n_jobs) if n_entries >= INLINE_BELOW else 1


class RowPool:
    """A context in which kernels run over rows: ``pool.run(kernel, indptr, *arguments)``.

    ``n_entries`` is how many ratings a kernel looks at or, where it looks at all pairs, how many of those.
    """

    def __init__(self, n_jobs: int | None, n_entries: int) -> None:
        self._threads = threads_for(n_jobs, n_entries)
        self._executor = None if self._threads == 1 else ThreadPoolExecutor(self._threads)
        self._ranges: dict[tuple[int, int, int], tuple[NDArray[np.int64], list[tuple[int, int]]]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._executor is not None:  # after Ctrl-C: wait for the ranges under way
            self._executor.shutdown(wait=True, cancel_futures=True)

    def run(
        self,
        kernel: Callable[..., Any],
        indptr: NDArray[np.int64],
        *arguments: Any,
        n_ranges: int = N_RANGES,
        width: int = 0,
    ) -> None:
        """Call ``kernel(*arguments, start, stop)`` over all rows, in the ranges of `row_ranges`.

        Named tuples go in as plain ones: Numba's cache on disk would otherwise hold on to their class by name.
        """
        arguments = tuple(tuple(a) if isinstance(a, tuple) else a for a in arguments)
        key = id(indptr), n_ranges, width
        if key not in self._ranges:  # the array is kept beside its ranges, so its id stays its own
            self._ranges[key] = indptr, row_ranges(indptr, n_ranges, width)
        ranges = self._ranges[key][1]
        if self._executor is None:
            for start, stop in ranges:
                kernel(*arguments, start, stop)
            return
        # One task a thread, taking ranges until none is left: a task a range would cost more than a short kernel.
        waiting = deque(ranges)

        def work() -> None:
            while waiting:
                try:
                    start, stop = waiting.popleft()
                except IndexError:  # another thread took the last one
                    return
                kernel(*arguments, start, stop)

        try:
            for task in [self._executor.submit(work) for _ in range(min(self._threads, len(ranges)))]:
                task.result()
        except BaseException:  # an error in a kernel, or Ctrl-C: start no other range
            waiting.clear()
            raise


def one_blas_thread() -> AbstractContextManager[Any]:
    """A context in which NumPy's products run on one thread: more of them change the bits."""
    context: AbstractContextManager[Any] = _controller().limit(limits=1, user_api="blas")
    return context


def product(left: Reals, right: Reals) -> Floats:
    """left @ right, on one thread."""
    with one_blas_thread():
        return np.asarray(left @ right)


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()
