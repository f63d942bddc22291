"""Ratings at the edge of what numbers can say: all the same, next to none, weighed by next to nothing, or huge."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from boundrec import MBMF, BayesianMBMF
from boundrec.models.new_ratings import ExactRows

GRID = [(user, item) for user in range(30) for item in range(20) if (user + item) % 3]
MODELS = {
    "bayesian": BayesianMBMF(3, max_iter=15, n_kept=5, dtype="float64", random_state=0, n_jobs=1),
    "mbmf": MBMF(3, random_state=0, n_jobs=1),
    "sphere": MBMF(3, constraint="sphere", random_state=0, n_jobs=1),
}
CONSTANTS = [
    (1.0, (0, 1)),
    (0.0, (0, 1)),
    (3.0, (1, 5)),
    (5.0, (1, 5)),
    (1e150, (-1e150, 1e150)),
    (1e-50, (0, 1e-50)),
]
FEW = {
    "one rating": [("ann", "tea")],
    "one user": [("ann", "tea"), ("ann", "rum"), ("ann", "gin")],
    "one item": [("ann", "tea"), ("bob", "tea"), ("eve", "tea")],
    "nothing in common": [("ann", "tea"), ("bob", "rum")],
}


@pytest.fixture(autouse=True)
def _no_warnings_of_numpys():
    """NumPy's warnings are errors here, and so are ours but for those that a test is not about."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="n_factors=")
        yield


def fresh(name, **settings):
    model = MODELS[name]
    return type(model)(**{**model.get_params(), **settings})


def near(predictions, constant, bounds):
    """Within a fifth of the range of it: the map that leads back into the range keeps a distance from its ends."""
    return np.all(np.abs(predictions / bounds[1] - constant / bounds[1]) <= 0.2 * (1 - bounds[0] / bounds[1]))


@pytest.mark.parametrize(("constant", "bounds"), CONSTANTS)
@pytest.mark.parametrize("name", MODELS)
def test_ratings_that_are_all_the_same_are_learnt_at_once(name, constant, bounds):
    model = fresh(name, bounds=bounds).fit(GRID, np.full(len(GRID), constant))
    unseen = [(user, item) for user in range(30) for item in range(20) if (user + item) % 3 == 0]
    unknown = [(99, 3), (4, 99), (99, 99)]
    predictions, lower, upper = model.predict(GRID + unseen + unknown, return_range=True)
    assert near(predictions, constant, bounds)
    assert np.all((lower <= predictions) & (predictions <= upper))
    assert bounds[0] <= lower.min()
    assert upper.max() <= bounds[1]
    _items, scores = model.recommend([0, 7], n=3)
    assert near(scores, constant, bounds)


@pytest.mark.parametrize(("constant", "bounds"), CONSTANTS)
@pytest.mark.parametrize("name", MODELS)
def test_whoever_comes_later_with_the_same_rating_gets_it_too(name, constant, bounds):
    model = fresh(name, bounds=bounds).fit(GRID, np.full(len(GRID), constant))
    assert near(model.fold_in([(200, 3), (200, 5)], [constant] * 2).predict([(200, 7)]), constant, bounds)
    model.partial_fit([(300, 3), (300, 5), (300, 88)], [constant] * 3)
    assert near(model.predict([(300, 7), (4, 88), (300, 88)]), constant, bounds)


@pytest.mark.parametrize(("constant", "bounds"), CONSTANTS)
def test_the_sampler_is_sure_of_ratings_that_are_all_the_same(constant, bounds):
    model = fresh("bayesian", bounds=bounds).fit(GRID, np.full(len(GRID), constant))
    pairs, width = [(0, 0), (29, 19)], bounds[1] / 2 - bounds[0] / 2
    _predictions, std = model.predict(pairs, return_std=True)
    quantiles = model.predict_quantiles(pairs)
    assert np.all((std >= 0) & (std < 0.05 * width))
    assert near(quantiles, constant, bounds)
    assert np.all(np.diff(quantiles, axis=1) >= 0)
    assert model.noise_ < 0.01 * width


@pytest.mark.parametrize("pairs", FEW.values(), ids=FEW)
@pytest.mark.parametrize("n_factors", [2, 40])
@pytest.mark.parametrize("name", MODELS)
def test_next_to_no_ratings_make_a_model_inside_its_bounds(name, n_factors, pairs):
    model = fresh(name, n_factors=n_factors, bounds=(1, 5)).fit(pairs, [1.0, 5.0, 4.0][: len(pairs)])
    predictions = model.predict([(user, item) for user in ("ann", "bob", "zoe") for item in ("tea", "rum", "ale")])
    assert np.all((predictions >= 1) & (predictions <= 5))


@pytest.mark.parametrize("weights", [[1e-300] * 3, [1e150] * 3, [1e150, 1.0, 1e-300], [5e-324] * 3])
@pytest.mark.parametrize("name", MODELS)
def test_weights_of_any_size_end_with_a_model_inside_its_bounds(name, weights):
    warnings.simplefilter("ignore", ConvergenceWarning)
    pairs, ratings = FEW["one user"], [1.0, 5.0, 4.0]
    model = fresh(name, bounds=(1, 5)).fit(pairs, ratings, sample_weight=weights)
    predictions = model.predict([*pairs, ("zoe", "tea"), ("zoe", "ale")])
    assert np.all((predictions >= 1) & (predictions <= 5))


@pytest.mark.parametrize("name", MODELS)
def test_weights_too_large_to_be_multiplied_by_squares_are_refused(name):
    told = r"sample_weight of row 1 is 1e\+300, too large to be multiplied by squares: divide all weights by a constant"
    with pytest.raises(ValueError, match=told):
        fresh(name, bounds=(1, 5)).fit(FEW["one user"], [1.0, 5.0, 4.0], sample_weight=[1.0, 1e300, 1.0])


@pytest.mark.parametrize("name", MODELS)
def test_ratings_far_from_bounds_that_are_far_apart_end_with_a_model_inside_them(name):
    model = fresh(name, bounds=(-1e150, 1e150)).fit(GRID, np.arange(len(GRID)) % 5 + 1.0)
    assert np.all(np.abs(model.predict([*GRID, (99, 99)])) <= 1e150)


def test_new_rows_start_on_the_sphere_where_the_others_cancel_out():
    fitted = fresh("sphere", n_factors=2, bounds=(-1, 1)).fit([(0, 0), (1, 1)], [1.0, -1.0]).fitted_
    cancelling = replace(fitted.users, factors=np.array([[1.0, 0.0], [-1.0, 1e-200]]))
    others = replace(fitted, users=cancelling, ranges=fitted.ranges.with_magnitudes("user", np.ones(2)))
    started = ExactRows("sphere", 0.0, 2).start(others, "user", cancelling, np.array([3.0]))
    assert np.allclose(np.linalg.norm(started.factors, axis=1), 3.0)


@pytest.mark.parametrize("count", [2**63, 10**30, 10**100], ids="{:.0e}".format)
@pytest.mark.parametrize("name", MODELS)
def test_a_history_count_past_all_integers_of_numpys_leaves_everybody_the_overall_magnitude(name, count):
    ratings = np.arange(len(GRID)) % 5 + 1.0
    settings = {"bounds": (1, 5), "magnitudes": "history", "on_contradiction": "widen"}
    model = fresh(name, **settings, history_count=count).fit(GRID, ratings)
    same = fresh(name, **settings, history_count=float(count)).fit(GRID, ratings)
    assert np.array_equal(model.predict(GRID), same.predict(GRID))
    assert np.isfinite(model.fold_in([(99, 1)], [2.0]).predict([(99, 1)])).all()


@pytest.mark.parametrize("scale", [1e-13, 1e-20, 1e-100, 1e-140])
@pytest.mark.parametrize("bounds", [(0, None), (None, 0)])
@pytest.mark.parametrize("name", MODELS)
def test_ranges_with_an_open_end_are_as_wide_in_a_small_unit_as_in_a_large_one(name, bounds, scale):
    warnings.simplefilter("ignore", ConvergenceWarning)
    ratings = (np.arange(len(GRID)) % 5 + 1.0) * (1 if bounds[0] == 0 else -1)
    widths = []
    for unit in (1.0, scale):
        model = fresh(name, bounds=bounds, on_contradiction="widen").fit(GRID, unit * ratings)
        lower, upper = model.predict_range([*GRID, (99, 99)])
        widths.append((upper - lower) / unit)
    assert np.allclose(*widths, rtol=1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_ratings_too_small_for_a_range_with_an_open_end_are_refused(name):
    with pytest.raises(ValueError, match="too narrow for dtype=float64: multiply all ratings and bounds by a constant"):
        fresh(name, bounds=(0, None), on_contradiction="widen").fit(GRID, np.arange(len(GRID)) % 5 * 1e-160)
