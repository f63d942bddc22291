"""The comparison with peers runs, on made-up ratings and without the peers."""

import csv
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from benchmarks.accuracy.child import by_noise
from benchmarks.accuracy.methods import as_a_row, who_rated_what
from benchmarks.accuracy.plan import Options, all_cells
from benchmarks.accuracy.tasks import Data
from scipy.sparse import csr_matrix

from boundrec import BayesianMBMF

ROOT = Path(__file__).parents[2]


def test_the_accuracy_benchmark_writes_a_table_and_goes_on_where_it_stopped(tmp_path):
    rng = np.random.default_rng(0)
    cells = rng.permutation(60 * 40)[:1200]
    ratings = rng.integers(1, 6, cells.size).astype(np.float32)
    names = {"user": cells // 40, "item": cells % 40}
    np.savez(tmp_path / "movielens_100k.npz", rating=ratings, **{k: v.astype(np.int32) for k, v in names.items()})
    methods = ["global mean", "biases only", "BayesianMBMF, ratings alone", "BayesianMBMF"]
    command = [sys.executable, "-m", "benchmarks.accuracy", "--quick", "--output", str(tmp_path / "out"), "--methods"]
    environment = {**os.environ, "BOUNDREC_DATA": str(tmp_path)}

    for expected in ("5 left", "5 cells finished, 0 "):
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
    page = (tmp_path / "out" / "accuracy.md").read_text()
    assert "| BayesianMBMF, ratings alone |" in page
    assert page.count("| whose users have the most noise") == 1  # one of the two has a noise of users' own
    assert len(rows["BayesianMBMF"]["coverage.most_noise.quantiles"].split()) == 3
    assert (tmp_path / "out" / "movielens-100k.svg").exists()


@pytest.mark.parametrize(("n_items", "density", "sides"), [(40, 0.3, 2), (10, 1.0, 1)])
def test_a_peer_is_given_the_sets_that_the_model_takes(n_items, density, sides):
    rng = np.random.default_rng(1)
    pairs = np.argwhere(rng.random((130, n_items)) < density).astype(np.int32)
    data = Data(pairs, rng.uniform(1, 5, len(pairs)), pairs[:0], np.empty(0), (131, n_items), (1, 5))
    assert sum(sets.shape[1] > 0 for sets in who_rated_what(data)) == sides
    model = BayesianMBMF(2, bounds=(1, 5), implicit="auto", max_iter=2, random_state=0).fit(data.X, data.y)
    for side, sets, own, others in (
        (0, who_rated_what(data)[0], model.fitted_.users, model.fitted_.items),
        (1, who_rated_what(data)[1], model.fitted_.items, model.fitted_.users),
    ):
        taken = [] if own.links is None else sorted(others.ids.ids[own.links.in_sets].tolist())
        assert sets.shape == (data.shape[side], len(taken))
        for row in range(sets.shape[0]):
            rated = sorted(set(pairs[pairs[:, side] == row, 1 - side].tolist()) & set(taken))
            assert np.array(taken)[sets[[row]].indices].tolist() == rated
            assert np.allclose(sets[[row]].data, 1 / np.sqrt(max(len(rated), 1)))


def test_what_a_factorisation_machine_makes_of_features_is_a_bias_and_factors():
    rng = np.random.default_rng(2)
    x, w, V = rng.normal(size=(4, 5)), rng.normal(size=5), rng.normal(size=(5, 3))
    bias, factors = as_a_row(csr_matrix(x), w, V)
    for row, one in enumerate(x):
        products = sum(one[f] * one[g] * (V[f] @ V[g]) for f in range(5) for g in range(f))
        assert np.isclose(bias[row], one @ w + products)
        assert np.allclose(factors[row], one @ V)


def test_the_twins_take_over_what_was_chosen_for_the_method_itself():
    tuned = {cell.settings["method"] for cell in all_cells(Options()) if cell.experiment == "tune"}
    assert "myFM" in tuned
    assert "myFM, with sets" not in tuned


def test_fifths_by_noise_leave_out_users_who_were_not_there_at_fit():
    noise = np.append(np.arange(10.0), np.nan)
    held = np.column_stack([noise >= 8, noise <= 1, np.ones(11, bool)])
    found = by_noise(held, noise)
    assert found["least_noise"] == {"quantiles": [0, 1, 1], "noise": 0.5}
    assert found["most_noise"] == {"quantiles": [1, 0, 1], "noise": 8.5}
