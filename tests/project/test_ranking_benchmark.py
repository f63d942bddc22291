"""The comparison of lists runs, on made-up clicks and without the peers; what it measures against is what it says."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from benchmarks.ranking.methods import EASE, METHODS, Clicks, TunedClicks, Unbounded, all_pairs_grid, ridge_for
from benchmarks.ranking.plan import all_cells, methods_of
from benchmarks.ranking.report import POPULARITY, _checks
from benchmarks.ranking.tasks import TASKS, Data
from benchmarks.ranking.unbounded import alternate
from scipy.sparse import csr_matrix

from boundrec import ImplicitMBMF

ROOT = Path(__file__).parents[2]


def made_up(n_users=60, n_items=40, density=0.2, seed=0):
    """Users and items of three kinds, who mostly choose their own."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 3, n_users)[:, None] == rng.integers(0, 3, n_items)
    return np.argwhere(rng.random((n_users, n_items)) < np.where(kind, 2 * density, density / 2)).astype(np.int32)


def as_data(pairs, shape):
    ratings = np.ones(len(pairs))
    return Data(pairs, ratings, pairs[:0], np.arange(shape[0]), shape, (1, 5))


def test_the_ranking_benchmark_writes_a_table_and_goes_on_where_it_stopped(tmp_path):
    pairs = made_up(density=0.4)
    ratings = np.random.default_rng(1).integers(1, 6, len(pairs)).astype(np.float32)
    np.savez(tmp_path / "movielens_100k.npz", user=pairs[:, 0], item=pairs[:, 1], rating=ratings)
    methods = ["popularity", "EASE, tuned", "ImplicitMBMF"]
    command = [sys.executable, "-m", "benchmarks.ranking", "--output", str(tmp_path / "out")]
    command += ["--data", "movielens-100k", "--methods", *methods]
    environment = {**os.environ, "BOUNDREC_DATA": str(tmp_path)}
    for expected in ("10 left", "10 cells finished, 0 "):
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert expected in done.stderr
    assert "left," not in done.stderr  # the second time nothing was done again

    page = (tmp_path / "out" / "ranking.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| ") and line.count("|") == 10]
    assert [row.split("|")[1].strip() for row in rows[1:] if "---" not in row] == methods
    assert page.count("| chosen |") == 1
    assert "NDCG@10 of ImplicitMBMF / of popularity" in page
    lines = (tmp_path / "out" / "cells.ndjson").read_text().splitlines()
    fits = [record for record in map(json.loads, lines) if record["settings"]["kind"] == "fit"]
    assert len(fits) == 9
    for record in fits:
        figures = record["result"]["ways"][""]
        assert 0 <= figures["ndcg"] <= 1
        assert min(figures["resampled"]) <= figures["ndcg"] <= max(figures["resampled"])


@pytest.mark.parametrize("weight", [0.3, 3.0])
def test_where_no_row_touches_the_ball_its_rows_are_those_without_it(weight):
    pairs = made_up(120, 90)
    clicks = csr_matrix((np.ones(len(pairs)), pairs.T), shape=(120, 90))
    ridge = ridge_for(clicks, weight, 0.13)
    W, H = alternate(clicks, 6, weight, ridge, seed=0, sweeps=5)
    model = ImplicitMBMF(6, unobserved_weight=weight, ridge=ridge, max_iter=5, random_state=0, dtype="float64")
    model.fit(pairs)
    assert max(np.linalg.norm(W, axis=1).max(), np.linalg.norm(H, axis=1).max()) < 1
    assert np.allclose(W[model.user_ids_.ids], model.user_factors_, atol=1e-12)
    assert np.allclose(H[model.item_ids_.ids], model.item_factors_, atol=1e-12)


def test_a_row_without_the_ball_is_the_least_of_its_loss_over_all_pairs():
    pairs = made_up(30, 20)
    clicks = csr_matrix((np.ones(len(pairs)), pairs.T), shape=(30, 20))
    W, H = alternate(clicks, 3, 0.5, 0.01, seed=0, sweeps=2)
    C, chosen = clicks.toarray(), np.flatnonzero(clicks.toarray().any(axis=0))

    def loss(row, w):
        scores = H[chosen] @ w
        observed = np.sum(C[row, chosen] * (1 - scores) ** 2)
        return observed + 0.5 * np.sum(scores**2) + 0.01 * (0.5 * len(chosen) + C[row].sum()) * (w @ w)

    rng = np.random.default_rng(0)
    for row in range(30):
        least = loss(row, W[row])
        assert all(loss(row, W[row] + 1e-3 * rng.normal(size=3)) >= least for _ in range(20))


@pytest.mark.parametrize("shape", [(40, 25), (25, 40)])
def test_ease_is_its_closed_form_whichever_side_is_inverted(shape):
    pairs = made_up(*shape)
    method = EASE(TASKS["lastfm"], 0, {"ridge": 5.0})
    method.prepare(as_data(pairs, shape))
    method.fit()
    X = method.clicks.toarray().astype(float)
    P = np.linalg.inv(X.T @ X + 5.0 * np.eye(shape[1]))
    B = np.eye(shape[1]) - P / np.diag(P)
    unseen = X == 0
    assert np.allclose(method.scores(np.arange(shape[0]))[unseen], (X @ B)[unseen])
    lists = method.lists(np.arange(shape[0]), 5)[""]
    known = X.any(axis=0)
    for user, found in enumerate(lists):
        scores = np.where(unseen[user] & known, X[user] @ B, -np.inf)
        assert found.tolist() == np.argsort(-scores, kind="stable")[:5].tolist()


def test_with_and_without_the_ball_have_one_grid_and_what_comes_with_a_model_is_tried_too():
    for task in TASKS.values():
        assert Unbounded.grid(task) == all_pairs_grid(task)
        assert TunedClicks.grid(task) == [{}, *all_pairs_grid(task)]
        assert Clicks.grid(task) == []


def test_every_data_set_has_its_rows_and_popularity_is_always_among_them():
    assert "EASE, tuned" not in methods_of("bookcrossing")
    assert set(methods_of("movielens-1m")) == set(METHODS)
    assert all(POPULARITY in methods_of(name) for name in TASKS)
    assert len({cell.name for cell in all_cells()}) == len(all_cells())


def test_a_target_that_is_missed_is_a_failed_check():
    def row(ndcg):
        return {0: {"ndcg": ndcg, "resampled": [ndcg - 0.01, ndcg + 0.01]}}

    results = {"ImplicitMBMF": row(0.29), "ImplicitMBMF, tuned": row(0.29), "without the ball, tuned": row(0.3)}
    found = {check.what: check.passed for check in _checks("movielens-100k", results)}
    assert found == {
        "NDCG@10 of ImplicitMBMF, tuned / of without the ball, tuned": False,
        "NDCG@10 of ImplicitMBMF": False,
    }
