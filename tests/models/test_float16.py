"""Samples in half of the room: what is rounded stays in its ball, and answers hardly move."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.base import clone

import boundrec
import naive
from boundrec import BMF, MBMF, MF, BayesianMBMF, ImplicitMBMF
from boundrec.models.fitted import FittedSide
from boundrec.solvers.gibbs import ROWS_AT_A_TIME, stored

NUMBERS = st.floats(-1e6, 1e6, width=32)


@given(arrays(np.float32, (3, 4), elements=NUMBERS))
def test_rows_are_rounded_towards_zero_as_by_the_slow_twin(rows):
    found = stored(rows, np.dtype(np.float16))
    assert found.dtype == np.float16
    assert np.array_equal(found, np.vectorize(naive.towards_zero)(rows.astype(float)))
    assert (np.abs(found.astype(float)) <= np.abs(rows)).all()


def test_all_rows_are_rounded_however_many_there_are():
    rows = np.full((ROWS_AT_A_TIME + 1, 1), 1 / 3, np.float32)
    assert (stored(rows, np.dtype(np.float16)) == np.float16(naive.towards_zero(1 / 3))).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_wider_types_are_rounded_to_the_nearest(dtype):
    rows = np.array([[1 / 3, 2 / 3]])
    assert np.array_equal(stored(rows, np.dtype(dtype)), rows.astype(dtype))


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    users, items = np.nonzero(rng.random((60, 40)) < 0.3)
    return np.column_stack([users, items]), rng.integers(1, 6, len(users)).astype(float)


@pytest.fixture(scope="module", params=["sets and noise", "neither"])
def pair(request, data):
    """The same fit, stored in float32 and in float16."""
    more = {"implicit": "both", "noise": "own"} if request.param == "sets and noise" else {"implicit": "off"}
    model = BayesianMBMF(6, bounds=(1, 5), max_iter=20, random_state=0, **more)
    return model.fit(*data), clone(model).set_params(dtype="float16").fit(*data)


EVERYBODY = [(user, item) for user in range(-1, 60) for item in range(-1, 40)]


def test_factors_take_half_of_the_room_and_nothing_else_is_narrow(pair, tmp_path):
    single, half = pair
    assert half.user_factors_.dtype == half.item_factors_.dtype == np.float16
    of_side = vars(half.fitted_.users) | vars(half.fitted_.items)
    narrow = [name for name, value in of_side.items() if getattr(value, "dtype", None) == np.float16]
    assert narrow == ["factors"]
    assert set(of_side) == set(FittedSide.__dataclass_fields__)
    sizes = []
    for model in pair:
        model.save(tmp_path / "model")
        sizes.append((tmp_path / "model").stat().st_size)
    numbers = single.user_factors_.size + single.item_factors_.size
    assert sizes[0] - sizes[1] == pytest.approx(2 * numbers, abs=1000)  # the header's words differ


def test_no_row_is_longer_than_in_float32(pair):
    single, half = pair
    for wide, narrow in ((single.user_factors_, half.user_factors_), (single.item_factors_, half.item_factors_)):
        wide, narrow = (np.linalg.norm(rows.astype(float), axis=1) for rows in (wide, narrow))
        assert (narrow <= wide * (1 + 1e-15)).all()


def test_answers_move_by_less_than_a_thousandth_of_the_scale_and_stay_inside(pair):
    single, half = pair
    prediction, lower, upper = half.predict(EVERYBODY, return_range=True)
    assert ((lower <= prediction) & (prediction <= upper)).all()
    moved = [single.predict(EVERYBODY) - prediction]
    moved += [model.predict(EVERYBODY, return_std=True)[1] for model in pair]
    quantiles = [model.predict_quantiles(EVERYBODY, [0.1, 0.9]) for model in pair]
    assert np.abs(moved[0]).max() < 4e-3
    assert np.abs(moved[1] - moved[2]).max() < 4e-3
    assert np.abs(quantiles[0] - quantiles[1]).max() < 4e-3
    assert np.abs(moved[0]).max() > 0  # else nothing was rounded


def test_lists_have_the_order_of_the_predictions_and_no_ties(pair):
    _, half = pair
    items, scores = half.recommend(range(60), n=10)
    asked = [(user, item) for user, row in enumerate(items.tolist()) for item in row]
    assert np.array_equal(half.predict(asked).reshape(scores.shape), scores)
    assert (np.diff(scores) < 0).all()


def test_a_file_answers_alike_and_new_ratings_are_learnt_from_it(pair, data, tmp_path):
    single, half = pair
    half.save(tmp_path / "model", keep_ratings=True)
    loaded = boundrec.load(tmp_path / "model")
    assert np.array_equal(loaded.predict(EVERYBODY), half.predict(EVERYBODY))
    new = [("new", item) for item in range(5)], [5.0, 4.0, 1.0, 2.0, 5.0]
    asked = [("new", item) for item in range(5, 40)]
    views = [model.fold_in(*new) for model in (single, loaded)]
    assert views[1].user_factors_.dtype == np.float16
    assert np.allclose(*(view.predict(asked) for view in views), atol=4e-3)
    why, plain = loaded.explain(3, 5), single.explain(3, 5)
    assert why.prediction == pytest.approx(plain.prediction, abs=4e-3)
    grown = [model.partial_fit([(0, 99), (99, 0)], [5.0, 1.0]) for model in (clone(single).fit(*data), loaded)]
    assert grown[1].user_factors_.dtype == np.float16
    assert np.allclose(*(model.predict([(99, 1), (1, 99)]) for model in grown), atol=4e-3)


def test_a_fit_goes_on_from_what_was_stored(data):
    models = [
        BayesianMBMF(3, bounds=(1, 5), max_iter=10, warm_start=True, dtype=dtype, random_state=0)
        for dtype in ("float32", "float16")
    ]
    single, half = (model.fit(*data).fit(*data) for model in models)
    assert half.user_factors_.dtype == np.float16
    assert np.allclose(single.predict(EVERYBODY), half.predict(EVERYBODY), atol=4e-3)


@pytest.mark.parametrize("model", [MBMF(), MF(), BMF(bounds=(1, 5)), ImplicitMBMF()], ids=lambda m: type(m).__name__)
@pytest.mark.parametrize("dtype", ["float16", np.float16, np.dtype("float16")], ids=repr)
def test_models_that_compute_with_what_they_store_refuse_it(model, dtype, data):
    with pytest.raises(ValueError, match=rf"dtype=.*float16.*: {type(model).__name__} computes with .*BayesianMBMF"):
        clone(model).set_params(dtype=dtype).fit(data[0])


@pytest.mark.parametrize(
    ("user", "item", "sentence"),
    [
        (1e5, 1e-3, r'60 user magnitudes are too large for dtype=float16: pass dtype="float32", or .*user 0: 100000'),
        (1e3, 1e-5, r'40 item magnitudes are too small for dtype=float16: pass dtype="float32", or .*item 1: 1e-05'),
        (1e20, 1e20, r'the widest range is .*wide for dtype=float16: pass dtype="float64", or divide'),
        (1e-3, 1e-2, r'the widest range is ±1e-05 .*narrow for dtype=float16: pass dtype="float32", or multiply'),
    ],
)
def test_magnitudes_that_it_cannot_hold_are_refused(user, item, sentence, data):
    magnitudes = dict.fromkeys(range(60), user), dict.fromkeys(range(40), item)
    model = BayesianMBMF(2, bounds=(0, None), magnitudes=magnitudes, dtype="float16", max_iter=2)
    with pytest.raises(ValueError, match=sentence):
        model.fit(data[0], np.ones(len(data[0])))


def test_large_counts_are_fitted(data):
    model = BayesianMBMF(3, bounds=(0, 1e6), dtype="float16", max_iter=10, random_state=0).fit(data[0], 1e5 * data[1])
    prediction = model.predict(EVERYBODY)
    assert ((prediction > 0) & (prediction < 1e6)).all()
