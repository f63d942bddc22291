"""The comparison with peers runs, on made-up ratings and without the peers."""

import csv
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]


def test_the_accuracy_benchmark_writes_a_table_and_goes_on_where_it_stopped(tmp_path):
    rng = np.random.default_rng(0)
    cells = rng.permutation(60 * 40)[:1200]
    ratings = rng.integers(1, 6, cells.size).astype(np.float32)
    names = {"user": cells // 40, "item": cells % 40}
    np.savez(tmp_path / "movielens_100k.npz", rating=ratings, **{k: v.astype(np.int32) for k, v in names.items()})
    methods = ["global mean", "biases only", "BayesianMBMF"]
    command = [sys.executable, "-m", "benchmarks.accuracy", "--quick", "--output", str(tmp_path / "out"), "--methods"]
    environment = {**os.environ, "BOUNDREC_DATA": str(tmp_path)}

    for expected in ("4 left", "4 cells finished, 0 "):
        done = subprocess.run([*command, *methods], cwd=ROOT, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert expected in done.stderr
    assert "left," not in done.stderr  # the second time nothing was done again

    lines = (tmp_path / "out" / "movielens-100k.csv").read_text().splitlines()
    rows = {row["method"]: row for row in csv.DictReader(lines)}
    assert list(rows) == methods
    mean = float(rows["global mean"]["all.rmse"])
    assert abs(mean - ratings.std()) < 0.3
    assert float(rows["BayesianMBMF"]["everywhere.outside"]) == 0
    assert int(rows["BayesianMBMF"]["everywhere.pairs"]) == 60 * 40
    assert "| BayesianMBMF |" in (tmp_path / "out" / "accuracy.md").read_text()
    assert (tmp_path / "out" / "movielens-100k.svg").exists()
