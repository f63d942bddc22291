"""What the ablation compares is what its tables say, on made-up ratings."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from benchmarks import ablation

from boundrec.datasets import Dataset
from boundrec.paper import protocol
from boundrec.paper.protocol import Fold

CENTRED = "exact, ball"


@pytest.fixture(scope="module")
def fold():
    rng = np.random.default_rng(0)
    cells = rng.permutation(40 * 30)[:900]
    user, item = (cells // 30).astype(np.int32), (cells % 30).astype(np.int32)
    spread = np.where(user % 2, 2.0, 0.7)  # the odd use the whole scale
    rating = np.clip(np.round(3.2 + spread * rng.standard_normal(900)), 1, 5)
    order = np.arange(900)
    return Fold(Dataset("made up", user, item, rating, (1, 5)), order[:450], order[450:810], order[810:])


@pytest.fixture(scope="module")
def fitted(fold):
    def fit(model, arm):
        form, as_in_paper, _ = ablation.MODELS[model]
        ranges = ablation.ARMS[arm](fold, form, as_in_paper, ablation.numbers_of_ratings(fold))
        more = {"history": fold.part(fold.history)} if ranges.history == "magnitudes" else {}
        return protocol.fit(ablation.build(model, ranges, "orthant", 0), *fold.part(fold.training), **more).model

    return fit


def of_users(model):
    return dict(zip(model.user_ids_.ids.tolist(), model.user_magnitudes_.tolist(), strict=True))


@pytest.mark.parametrize("model", ablation.MODELS)
def test_one_range_is_the_declared_one_and_nobodys_own_is_one_narrower_range(fitted, fold, model):
    X = fold.part(fold.test)[0]
    for arm, narrower in ((ablation.ONE, False), (ablation.NOBODYS, True)):
        lower, upper = fitted(model, arm).predict_range(X)
        assert np.ptp(lower) < 1e-6
        assert np.ptp(upper) < 1e-6
        assert bool(upper[0] < 4.99) is narrower


def test_magnitudes_from_history_are_the_papers_and_only_its_own_model_may_pass_the_bounds(fitted, fold):
    X, y = fold.part(fold.history)
    found = of_users(fitted("as in the paper, c", "history, ρ = .1"))
    capped = of_users(fitted(CENTRED, "history, ρ = .1"))
    levels = np.abs(y - 3)
    for user in (0, 1):
        own = levels[X[:, 0] == user]
        weight = min(own.size / (0.1 * 30), 1.0)
        expected = weight * np.sqrt(own.mean() + own.std()) + (1 - weight) * np.sqrt(levels.mean() + levels.std())
        assert found[user] == pytest.approx(expected)
        assert capped[user] == pytest.approx(min(expected, np.sqrt(2)))
    assert max(found.values()) > np.sqrt(2) >= max(capped.values()) - 1e-12


def test_magnitudes_from_features_depend_on_nothing_but_the_number_of_past_ratings(fitted, fold):
    found = of_users(fitted(CENTRED, "features"))
    numbers = np.bincount(fold.part(fold.history)[0][:, 0], minlength=40)
    by_number = {}
    for user, magnitude in found.items():
        by_number.setdefault(numbers[user], []).append(magnitude)
    assert len(by_number) < len(found)
    assert all(np.ptp(some) < 1e-9 for some in by_number.values())
    assert np.ptp(list(found.values())) > 1e-3


def test_a_centre_and_width_of_ones_own_are_mean_and_deviations_of_the_past_within_the_bounds(fitted, fold):
    X, y = fold.part(fold.history)
    table = ablation.centres_and_widths(fold, 2.0).set_index("user")
    own = y[X[:, 0] == 0]
    mean = (own.sum() + 5 * y.mean()) / (own.size + 5)
    reach = 2 * np.sqrt((((own - mean) ** 2).sum() + 5 * y.var()) / (own.size + 5))
    assert table.loc[0].tolist() == pytest.approx([max(mean - reach, 1), min(mean + reach, 5)])
    model = fitted(CENTRED, "own mean ± 2 sd")
    lower, upper = model.predict_range([(0, 0), (1, 0)])
    assert lower.tolist() == pytest.approx(table["lower"][:2])
    assert upper.tolist() == pytest.approx(table["upper"][:2])
    assert model.infeasible_share_ > 0  # kept: every training rating still counts
    assert model.fitted_.ratings.n_ratings == fold.training.size


def test_width_is_measured_inside_the_declared_bounds_and_history_may_be_trained_on(fold):
    features = ablation.numbers_of_ratings(fold)
    for model in ("as in the paper, n", CENTRED):
        found = ablation.measured(fold, model, ablation.ONE, "orthant", 0, features)
        assert (found["coverage"], found["contradictions"]) == (1, 0)
        assert found["width"] == pytest.approx(4)
    joined = ablation.measured(fold, CENTRED, ablation.JOINED, "orthant", 0, features)
    assert joined["width"] == pytest.approx(4)
    assert joined["rmse"] != found["rmse"]


def test_a_finished_cell_is_not_computed_again_and_the_table_has_a_row_for_each_arm(monkeypatch, tmp_path):
    asked = []

    def measured(fold, model, arm, start, seed, features):
        asked.append((model, arm, seed))
        return dict.fromkeys(ablation.MEASURES, 1.0 + seed)

    monkeypatch.setattr(ablation, "measured", measured)
    monkeypatch.setattr(ablation.protocol, "fold_of", lambda *arguments: None)
    monkeypatch.setattr(ablation, "features_of", lambda *arguments: None)
    file = tmp_path / "cells.json"
    first = ablation.run("jester1", tmp_path, "orthant", file)
    some = len(asked)
    assert some == len(first) == len(set(asked)) == len(json.loads(file.read_text()))
    assert not {("as in the paper, n", "own mean ± 2 sd", 0), ("as in the paper, c", ablation.LESS, 0)} & set(asked)
    assert ablation.run("jester1", tmp_path, "orthant", file) == first
    assert len(asked) == some
    assert len(ablation.part("jester1", first, "orthant").rows) * len(ablation.FOLDS) == some
    del first[ablation.key_of("jester1", CENTRED, ablation.ONE, "orthant", 2)]
    folds = {row[0]: row[-1] for row in ablation.part("jester1", first, "orthant").rows}
    assert folds == {**dict.fromkeys(ablation.MODELS, "3"), CENTRED: "2"}  # all rows of a model have the same


# --- what the documentation says of it ------------------------------------------------------------------------

ROOT = Path(__file__).parents[2]
MEASURED, PAGE = ROOT / "benchmarks" / "results" / "ablation.json", ROOT / "docs" / "choosing-bounds.md"


@pytest.mark.skipif(not (MEASURED.exists() and PAGE.exists()), reason="results are in the repository only")
def test_the_figures_of_the_page_are_those_of_the_committed_results():
    results = json.loads(MEASURED.read_text(encoding="utf-8")).values()
    measured = {(part["title"], *row[:2]): row[2:] for part in results for row in part["rows"]}
    table = re.search(r"<!-- ablation\.json -->\n((?:\|.*\n)+)", PAGE.read_text(encoding="utf-8"))[1]
    head, _, *rows = ([entry.strip() for entry in line.strip("|").split("|")] for line in table.splitlines())
    assert head[2:6] == list(ablation.MODELS)
    assert len(rows) == 3 * 8
    for title, arm, *errors, coverage, width in rows:
        for model, shown in zip(ablation.MODELS, errors, strict=True):
            found = measured.get((title, model, arm))
            assert bool(shown) is (found is not None), (title, arm, model)
            assert found is None or abs(float(shown) - float(found[0].split()[0])) < 5.1e-4, (title, arm, model)
        assert [coverage, width] == measured[title, "as it comes", arm][4:6], (title, arm)
