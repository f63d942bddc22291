"""The comparison with LIBMF, without LIBMF."""

import sys
from pathlib import Path

import numpy as np
import pytest
from benchmarks import libmf
from benchmarks.libmf import BOUNDS, Point, best_by, noisy_ratings, read_text, soonest, write_files

POINTS = [Point("A", "1", 1.0, 0.9), Point("A", "2", 2.0, 0.95), Point("A", "3", 3.0, 0.8)]


def test_without_libmf_it_is_left_out_with_a_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for arguments in ([], ["--libmf", str(tmp_path)]):
        monkeypatch.setattr(sys, "argv", ["libmf", *arguments])
        assert libmf.main() == 0
        assert capsys.readouterr().out.startswith("Left out: LIBMF")


def test_the_curve_is_the_least_error_so_far() -> None:
    assert best_by(POINTS, 0.5) is None
    assert best_by(POINTS, 2.5) == POINTS[0]
    assert best_by(POINTS, 3.0) == POINTS[2]
    assert soonest(POINTS, 0.9) == POINTS[0]
    assert soonest(POINTS, 0.7) is None


def test_synthetic_ratings_are_in_bounds_and_as_noisy_as_they_say(tmp_path: Path) -> None:
    entries, clean = noisy_ratings(300, 200, 20_000)
    assert entries[2].min() >= BOUNDS[0]
    assert entries[2].max() <= BOUNDS[1]
    assert np.std(entries[2] - clean) == pytest.approx(libmf.NOISE, rel=0.1)
    files = write_files(tmp_path, entries, 0.1)
    train, test = map(read_text, files)
    assert len(train) + len(test) == 20_000
    assert len(test) == pytest.approx(2000, rel=0.1)
