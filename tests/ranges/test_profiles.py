"""Magnitudes from profiles and from who is linked with whom."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_array

from boundrec import MBMF, magnitudes_from_features, magnitudes_from_graph

FEATURES = {"a": [0, 1], "b": [1, 1], "c": [2, 1], "d": [3, 1], "new": [1.5, 1]}
MAGNITUDES = {"a": 1.0, "b": 2.0, "c": 4.0, "d": 8.0}  # log r is linear in the first feature


def test_features_that_say_all_without_a_penalty_give_the_magnitudes_back():
    found = magnitudes_from_features(MAGNITUDES, FEATURES, ridge=0)
    assert found == pytest.approx({**MAGNITUDES, "new": 2**1.5})


def test_weights_are_those_of_the_ridge_regression_s_closed_form():
    rng = np.random.default_rng(0)
    table, logs = rng.normal(3, 2, (30, 4)), rng.normal(size=30)
    found = magnitudes_from_features(dict(enumerate(np.exp(logs[:20]))), dict(enumerate(table)), ridge=2.5)
    z = (table - table[:20].mean(0)) / table[:20].std(0)
    weights = np.linalg.solve(z[:20].T @ z[:20] + 2.5 * np.eye(4), z[:20].T @ (logs[:20] - logs[:20].mean()))
    expected = np.clip(logs[:20].mean() + z @ weights, logs[:20].min(), logs[:20].max())
    assert np.log([found[k] for k in range(30)]) == pytest.approx(expected)


def test_a_heavy_penalty_leaves_the_geometric_mean():
    assert magnitudes_from_features(MAGNITUDES, FEATURES, ridge=1e9)["new"] == pytest.approx(2**1.5)
    assert magnitudes_from_features(MAGNITUDES, FEATURES, ridge=1e9)["a"] == pytest.approx(2**1.5)


def test_no_magnitude_is_outside_those_learnt_from():
    found = magnitudes_from_features(MAGNITUDES, {**FEATURES, "far": [99, 1], "low": [-99, 1]}, ridge=0)
    assert (found["far"], found["low"]) == pytest.approx((8.0, 1.0))


@pytest.mark.parametrize("library", [pd, pl])
def test_a_frame_has_ids_in_its_first_column(library):
    rows = {"who": list(FEATURES), "x": [float(v[0]) for v in FEATURES.values()], "one": [1] * 5}
    assert magnitudes_from_features(MAGNITUDES, library.DataFrame(rows)) == pytest.approx(
        magnitudes_from_features(MAGNITUDES, FEATURES)
    )


@pytest.mark.parametrize("library", [pd, pl])
def test_true_and_false_in_a_frame_are_one_and_nothing(library):
    rows = {"who": list("abcd"), "bold": [True, False, True, False]}
    found = magnitudes_from_features(MAGNITUDES, library.DataFrame(rows))
    assert found == pytest.approx(magnitudes_from_features(MAGNITUDES, {"a": [1], "b": [0], "c": [1], "d": [0]}))


def test_neighbours_give_their_geometric_mean_to_those_who_have_none():
    pairs = [("new", "a"), ("c", "new"), ("a", "new"), ("new", "new"), ("new", "far"), ("far", "beyond"), ("a", "d")]
    found = magnitudes_from_graph(MAGNITUDES, pairs)
    assert found == {**MAGNITUDES, "new": pytest.approx(2.0)}  # far and beyond have no neighbour with a magnitude


def test_integer_ids_of_an_array_are_those_of_the_mapping():
    assert magnitudes_from_graph({1: 2.0, 2: 8.0}, np.array([[1, 3], [3, 2]]))[3] == pytest.approx(4.0)


def test_a_model_takes_what_features_and_friends_say_of_some():
    X = [(u, i) for u in ("a", "b", "new", "alone") for i in "xyz"]
    y = [3 + (k % 3 - 1) / 10 for k in range(12)]
    users = magnitudes_from_graph({"a": 0.5, "b": 0.9}, [("new", "b")])
    model = MBMF(2, bounds=(1, 5), magnitudes=(users, "range"), max_iter=1, random_state=0).fit(X, y)
    assert model.user_magnitudes_.tolist() == pytest.approx([0.5, 0.9, 0.9, np.sqrt(2)])


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda: magnitudes_from_features([1.0], FEATURES), TypeError, "magnitudes are a list: give a mapping"),
        (lambda: magnitudes_from_features({}, FEATURES), ValueError, "magnitudes are empty"),
        (lambda: magnitudes_from_features({**MAGNITUDES, "b": 0}, FEATURES), ValueError, "positive.*'b': 0"),
        (lambda: magnitudes_from_features(MAGNITUDES, [[1.0]]), TypeError, "features are a list"),
        (lambda: magnitudes_from_features(MAGNITUDES, {}), ValueError, "features are empty"),
        (lambda: magnitudes_from_features(MAGNITUDES, {"a": [1], "b": [1, 2]}), ValueError, "'b' has 2 .*'a' has 1"),
        (lambda: magnitudes_from_features(MAGNITUDES, {"a": [1], "b": [np.nan]}), ValueError, "first: 'b'.*fill"),
        (lambda: magnitudes_from_features({1: 2.0}, FEATURES), ValueError, "0 of 5 ids.*'a'.*magnitude 1.*same kind"),
        (lambda: magnitudes_from_features(MAGNITUDES, FEATURES, ridge=-1), ValueError, "ridge=-1: give a number"),
        (
            lambda: magnitudes_from_features(MAGNITUDES, pd.DataFrame({"who": ["a", "a"], "x": [1, 2]})),
            ValueError,
            "'a' in more than one row",
        ),
        (
            lambda: magnitudes_from_features(MAGNITUDES, pd.DataFrame({"who": ["a", "b"], "x": ["old", "new"]})),
            TypeError,
            "text in 'x' .first: 'new'.*numbers",
        ),
        (lambda: magnitudes_from_features(MAGNITUDES, (["a"], csr_array([[1]]))), TypeError, "sparse.*toarray"),
        (lambda: magnitudes_from_graph({1: 2.0}, [("a", "b")]), ValueError, "none of the 2 ids.*'a'.*1.*same kind"),
        (lambda: magnitudes_from_graph(MAGNITUDES, [("a", None)]), ValueError, "None"),
        (lambda: magnitudes_from_graph({"a": np.inf}, [("a", "b")]), ValueError, "'a': inf"),
    ],
)
def test_bad_input_is_answered_in_a_sentence(call, error, sentence):
    with pytest.raises(error, match=sentence):
        call()
