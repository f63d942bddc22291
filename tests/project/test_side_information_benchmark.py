"""What the benchmark of side information draws and watches, on made-up ratings."""

from types import SimpleNamespace

import numpy as np
import pytest
from benchmarks import side_information
from benchmarks.side_information import (
    SIDES,
    cold_checks,
    draw_cold,
    drawn_within,
    lists_measured,
    measured,
    memory_of,
    shuffled_items,
    solved_within,
)

from boundrec import BayesianMBMF, datasets
from boundrec.solvers import normal_equations
from boundrec.solvers.normal_equations import NormalEquations


@pytest.fixture(scope="module")
def data():
    return datasets.synthetic(120, 90, 0.4, bounds=(1, 5), rank=3)


@pytest.mark.parametrize("side", SIDES)
def test_the_cold_have_no_rating_to_fit_and_the_validation_draw_sees_none_of_them(data, side):
    codes = data.item if side == "item" else data.user
    draw, validation = draw_cold(data, side, 0), draw_cold(data, side, 0, to_choose=True)
    cold = np.unique(codes[draw.cold])
    assert len(cold) == len(np.unique(codes)) // 10
    assert not np.isin(codes[draw.training | draw.warm], cold).any()
    assert (draw.training.astype(int) + draw.cold + draw.warm == 1).all()
    assert not np.isin(codes[validation.training | validation.cold | validation.warm], cold).any()
    assert not np.isin(codes[validation.training], codes[validation.cold]).any()
    assert not np.array_equal(draw.cold, draw_cold(data, side, 1).cold)


def test_a_draw_is_measured_with_features_and_without(data):
    draw = draw_cold(data, "item", 0)
    given = np.arange(90), np.random.default_rng(0).normal(size=(90, 3))
    runs = [[measured(data, "item", draw, features, 0, sweeps=4)] for features in (None, given)]
    assert runs[0][0]["cold"]["n"] == draw.cold.sum()
    assert runs[0][0]["cold"]["rmse"] != runs[1][0]["cold"]["rmse"]
    gain = cold_checks("item", *runs)[0]
    assert gain.measured.startswith(f"{runs[0][0]['cold']['rmse'] - runs[1][0]['cold']['rmse']:.4f}")


@pytest.mark.parametrize("side", SIDES)
def test_lists_of_the_cold_are_measured_with_features_and_without(side):
    """Choices that features decide: with these the cold are ranked right, without them by popularity, or chance."""
    rng = np.random.default_rng(0)
    users, items = np.nonzero(rng.random((80, 60)) < 0.5 * (np.arange(80)[:, None] % 2 == np.arange(60) % 2))
    data = SimpleNamespace(user=users, item=items)
    table = np.eye(2)[np.arange(80 if side == "user" else 60) % 2]
    told, plain = (lists_measured(data, side, 1, given) for given in (table, None))
    assert told[0] > 1.3 * plain[0]
    assert all(0 < one <= 1 for one in (*told, *plain))
    X, number_of = shuffled_items(data, 1)
    assert np.array_equal(np.argsort(number_of)[X[:, 1]], items)


def test_the_tolerance_is_another_only_while_it_is_watched(data):
    steps, solve = normal_equations.MOST_STEPS, NormalEquations._by_gradients
    model = BayesianMBMF(2, bounds=(1, 5), implicit="both", max_iter=3, random_state=0)
    predictions = []
    for tolerance in (normal_equations.TOLERANCE, 1e-9, None):
        if tolerance is None:
            model.fit(data.pairs, data.rating)
        else:
            with solved_within(tolerance) as seen:
                model.fit(data.pairs, data.rating)
            assert sorted(one.n_features for one in seen) == [90] * 3 + [120] * 3
        predictions.append(model.predict(data.pairs))
    assert np.array_equal(predictions[0], predictions[2])
    assert not np.array_equal(predictions[0], predictions[1])
    assert (normal_equations.MOST_STEPS, NormalEquations._by_gradients) == (steps, solve)


def test_sizes_and_strengths_are_those_of_each_side(data):
    found = drawn_within(data, 1e-4, 0, sweeps=3)
    assert {"rmse", "seconds", "‖B‖ of users", "λ of users", "‖B‖ of items", "λ of items"} == found.keys()
    assert all(value > 0 for value in found.values())


def test_only_models_with_sets_hold_matrices_of_links(data, monkeypatch):
    monkeypatch.setattr(side_information, "SWEEPS", 3)
    plain, sets = (memory_of(name, data) for name in ("ratings alone", "sets of both sides"))
    assert plain["matrices"] == plain["kept"] == 0
    entries = data.rating.size
    assert sets["matrices"] == 2 * 2 * entries * 12  # both sides, by row and by column, an index and a number each
    assert sets["kept"] == 3 * (120 + 90) * (side_information.FACTORS + 1) * 4
