"""Cutting the rows into ranges, counting threads, and Ctrl-C in the middle of real work."""

import signal
import subprocess
import sys
import threading
import time
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from boundrec import BMCADMM, BMF, MBMF, MF, NMF, BayesianMBMF, BoundedSVD
from boundrec.solvers.threads import (
    INLINE_BELOW,
    LONGEST_CALL,
    N_RANGES,
    ROW_COST,
    SMALLEST_RANGE,
    RowPool,
    row_ranges,
    thread_count,
    threads_for,
)


@given(st.lists(st.integers(0, 5000), min_size=1, max_size=300))
def test_ranges_cover_every_row_once_and_share_the_work(counts):
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    ranges = row_ranges(indptr)
    assert [row for start, stop in ranges for row in range(start, stop)] == list(range(len(counts)))
    work = [indptr[stop] - indptr[start] + ROW_COST * (stop - start) for start, stop in ranges]
    fair_share = max(sum(work) / N_RANGES, 2 * SMALLEST_RANGE)  # small work is not cut finely
    assert max(work) <= fair_share + max(counts) + ROW_COST


@pytest.mark.parametrize(("n_rows", "n_ratings", "width"), [(60, 10, 800), (100_000, 20, 50), (300, 0, 300)])
def test_rows_that_solve_wide_systems_are_cut_into_short_calls(n_rows, n_ratings, width):
    indptr = n_ratings * np.arange(n_rows + 1)
    ranges = row_ranges(indptr, width=width)
    assert [row for start, stop in ranges for row in range(start, stop)] == list(range(n_rows))
    one_row = (n_ratings + ROW_COST + width // 3) * width**2 / 2
    longest = max(stop - start for start, stop in ranges)
    assert longest * one_row <= 2 * LONGEST_CALL + one_row


def test_the_sampler_and_exact_solves_tell_how_wide_their_systems_are(monkeypatch):
    monkeypatch.setattr("boundrec.solvers.threads.LONGEST_CALL", 100)
    calls = []
    run = RowPool.run

    def counted(self, kernel, *arguments, **settings):
        def call(*inner):
            calls.append(kernel.__name__)
            kernel(*inner)

        run(self, call, *arguments, **settings)

    monkeypatch.setattr(RowPool, "run", counted)
    X, y = [(row, row % 7) for row in range(60)], np.arange(60) % 5 + 1.0
    for model in (BayesianMBMF(3, max_iter=1), MBMF(3, max_iter=1), MBMF(3, max_iter=1, constraint="sphere")):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.set_params(bounds=(1, 5), random_state=0, n_jobs=1).fit(X, y)
    for kernel in ("sample_rows", "solve_rows_ball", "solve_rows_sphere"):
        assert calls.count(kernel) > 2, kernel  # one for each side is the least


@pytest.mark.parametrize("model", [MF(2, solver="sgd"), BoundedSVD(2, solver="sgd", bounds=(1, 5))])
def test_an_epoch_in_several_calls_is_the_same_epoch(model, monkeypatch):
    X = [(user, item) for user in range(5) for item in range(4)]
    y, weights = np.arange(20) % 5 + 1.0, np.arange(20) % 3 + 0.5
    model.set_params(max_iter=3, random_state=0)
    for sample_weight in (None, weights):
        whole = clone(model).fit(X, y, sample_weight=sample_weight)
        with monkeypatch.context() as cut:
            cut.setattr("boundrec.rivals.gradient.AT_ONCE", 7)
            parts = clone(model).fit(X, y, sample_weight=sample_weight)
        assert np.array_equal(parts.user_factors_, whole.user_factors_)
        assert np.array_equal(parts.item_factors_, whole.item_factors_)


@pytest.mark.parametrize("threads", [1, 3])
def test_a_pool_calls_the_kernel_on_every_row(threads, monkeypatch):
    monkeypatch.setattr("boundrec.solvers.threads.INLINE_BELOW", 0)
    indptr = np.arange(0, 1001, 10)
    seen = np.zeros(100, int)

    def kernel(add, start, stop):
        seen[start:stop] += add

    with RowPool(threads, 1000) as pool:
        pool.run(kernel, indptr, 2)
    assert np.all(seen == 2)


def test_an_error_in_a_thread_reaches_the_caller(monkeypatch):
    monkeypatch.setattr("boundrec.solvers.threads.INLINE_BELOW", 0)

    def kernel(start, stop):
        raise RuntimeError("from a thread")

    with RowPool(2, 10) as pool, pytest.raises(RuntimeError, match="from a thread"):
        pool.run(kernel, np.arange(11))


def test_threads_are_counted_as_in_joblib_but_none_means_every_core():
    assert thread_count(None) == thread_count(-1) >= 1
    assert thread_count(3) == 3
    assert thread_count(-1000) == 1
    for nonsense in (0, 1.5, "two", True):
        with pytest.raises(ValueError, match="n_jobs="):
            thread_count(nonsense)


def test_short_work_is_for_one_thread():
    assert threads_for(3, INLINE_BELOW - 1) == 1
    assert threads_for(3, INLINE_BELOW) == 3


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("model", "threaded"),
    [
        (BMF(2, bounds=(1, 5)), True),
        (BMF(2, bounds=(1, 5), bound_on="observed"), False),
        (BMCADMM(2, bounds=(1, 5)), True),
        (NMF(2, bounds=(1, 5)), False),
    ],
)
def test_threads_are_for_those_who_look_at_many_entries(model, threaded):
    """300 × 200 pairs are many, 300 ratings few."""
    matrix = sp.csr_array((np.full(300, 3.0), (np.arange(300), np.arange(300) % 200)))
    before, during = threading.active_count(), []
    model.set_params(n_jobs=2, max_iter=2).fit(matrix, callback=lambda *_: during.append(threading.active_count()))
    assert (max(during) > before) == threaded


LONG_FIT = """
import warnings, numpy as np
from boundrec import MBMF
rng = np.random.default_rng(0)
X = np.unique(rng.integers(0, 2000, (100_000, 2)), axis=0)
model = MBMF(20, bounds=(0, 1), max_iter=100_000, tol=0, random_state=0)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    model.fit(X, rng.random(len(X)), callback=lambda sweep, *_: print(sweep, flush=True) if sweep == 2 else None)
assert "interrupted" in str(caught[0].message), caught
assert len(model.objectives_) == model.n_iter_ >= 2
print("usable", np.isfinite(model.predict(X)).all())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="sends a POSIX signal")
def test_ctrl_c_in_a_threaded_fit_ends_it_cleanly():
    child = subprocess.Popen([sys.executable, "-c", LONG_FIT], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline().strip() == "2"  # the second sweep is done, the next ones are under way
    time.sleep(0.3)
    child.send_signal(signal.SIGINT)
    output, _ = child.communicate(timeout=60)
    assert child.returncode == 0
    assert output.strip() == "usable True"
