"""Bounds are a promise and not the scale: data that do not fill the declared range are learnt as if they did."""

import warnings

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import naive
from boundrec import MBMF, BayesianMBMF, load
from boundrec.baselines import MeanPredictor
from boundrec.ranges.slack import lead, unlead

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:n_factors="),
]
MODELS = {"mbmf": MBMF(5, random_state=0), "bayesian": BayesianMBMF(5, max_iter=40, random_state=0)}

# --- the map that leads each tail into its own end ----------------------------------------------------------------

sizes = st.floats(-20, 20).map(lambda x: 10.0**x)
ratios = st.floats(0.1, 12).filter(lambda x: abs(x - 1) > 1e-9)


@st.composite
def maps(draw):
    """Reach and room; no tail is more than twelve times as long as its room."""
    reach = draw(sizes)
    return reach, reach / draw(ratios), reach / draw(ratios)


@given(maps(), st.lists(st.floats(-1, 1), min_size=2, max_size=30, unique=True))
def test_it_increases_strictly_and_stays_within_both_ends(shape, shares):
    reach, below, above = shape
    z = reach * np.sort(np.array(shares))
    z = z[np.concatenate([[True], np.diff(z) > 1e-9 * reach])]
    led = lead(z, *shape)
    assert np.all(np.diff(led) > 0)
    assert np.all((-below <= led) & (led <= above))
    assert np.allclose(led, [naive.lead(one, *shape) for one in z], rtol=1e-12, atol=1e-12 * min(below, above))


@given(maps())
def test_it_ends_where_the_room_does_or_at_its_own_reach(shape):
    reach, below, above = shape
    low, high = lead(np.array([-reach, reach]), *shape)
    assert low == -below if reach > below else low == -reach
    assert high == above if reach > above else high == reach


@given(maps(), st.floats(-1, 1))
def test_it_changes_nothing_where_there_is_room(shape, share):
    reach, below, above = shape
    z = share * reach
    room = above if z >= 0 else below
    a = min(0.8, (20 - reach / room) / 19) if reach > room else np.inf
    assume(abs(z) <= a * room * (1 - 1e-12))
    assert np.isclose(lead(np.array([z]), *shape)[0], z, rtol=1e-15, atol=0)


@given(maps(), st.floats(-1, 1))
def test_it_turns_back(shape, share):
    z = np.array([share * shape[0]])
    led = lead(z, *shape)
    assert np.allclose(unlead(led, *shape), z, rtol=1e-9, atol=1e-12 * shape[0])
    assert np.allclose(unlead(led, *shape), naive.unlead(led[0], *shape), rtol=1e-9, atol=1e-9 * shape[0])


@given(maps(), st.floats(-0.999, 0.999))
def test_it_has_no_kink(shape, share):
    """Slopes on both sides of a point are alike, where tails meet and where they begin to bend, too."""
    reach, below, above = shape
    step = 1e-6 * min(reach, below, above)
    rooms = [room for room in (below, above) if reach > room]
    bends = [min(0.8, (20 - reach / room) / 19) * room for room in rooms]
    for z in (share * reach, 0.0, *bends, *(-bend for bend in bends)):
        left, here, right = lead(np.array([z - step, z, z + step]), *shape)
        before, after = (here - left) / step, (right - here) / step
        assert abs(before - after) <= 1e-3 * max(before, after) + 1e-6


# --- data that do not fill their range ------------------------------------------------------------------------


def low_rank(seed=0, n=80, m=50, share=0.4, noise=0.3, rank=3):
    rng = np.random.default_rng(seed)
    W, H = rng.standard_normal((n, rank)) / np.sqrt(rank), rng.standard_normal((m, rank))
    X = np.argwhere(rng.random((n, m)) < share)
    X = X[rng.permutation(len(X))]
    z = np.einsum("ij,ij->i", W[X[:, 0]], H[X[:, 1]]) + noise * rng.standard_normal(len(X))
    cut = len(X) // 10
    return X[cut:], z[cut:], X[:cut], z[:cut]


def small(z):
    """Within [0, .1]."""
    return np.clip(0.05 + 0.015 * z, 0, 0.1)


def lognormal(z):
    """Within [0, 100], most of them near 1."""
    return np.minimum(np.exp(0.8 * z), 100.0)


WIDE = [
    (small, (0, 100)),
    (small, (-5, 100)),
    (lognormal, (0, 100)),
    (lognormal, (0, 1000)),
    (lognormal, (-1000, 1000)),
]
OPEN = [(small, (0, None)), (lognormal, (0, None)), (lambda z: -lognormal(z), (None, 0))]


def rmse(predictions, y):
    return np.sqrt(np.mean((predictions - y) ** 2))


def fresh(name, **settings):
    return type(MODELS[name])(**{**MODELS[name].get_params(), **settings})


@pytest.mark.parametrize(("make", "bounds"), [*WIDE, *OPEN])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("seed", [0, 1])
def test_a_range_far_wider_than_the_data_leaves_models_as_good_as_offsets(name, make, bounds, seed):
    X, z, X_test, z_test = low_rank(seed)
    y, y_test = make(z), make(z_test)
    offsets = rmse(MeanPredictor().fit(X, y).predict(X_test), y_test)
    model = fresh(name, bounds=bounds).fit(X, y)
    assert rmse(model.predict(X_test), y_test) <= 1.01 * offsets


@pytest.mark.parametrize(("make", "bounds"), [*WIDE, *OPEN])
@pytest.mark.parametrize("name", MODELS)
def test_no_prediction_leaves_a_wide_range_and_none_are_tied(name, make, bounds):
    X, z, *_ = low_rank()
    model = fresh(name, bounds=bounds, dtype="float64").fit(X, make(z))
    every = np.argwhere(np.ones((81, 51), bool))
    predictions, lower, upper = model.predict(every, return_range=True)
    low, high = (-np.inf if bounds[0] is None else bounds[0]), (np.inf if bounds[1] is None else bounds[1])
    assert np.all((low <= lower) & (lower <= predictions) & (predictions <= upper) & (upper <= high))
    known = predictions[(every[:, 0] < 80) & (every[:, 1] < 50)]
    assert len(np.unique(known)) == len(known)
    assert np.ptp(known) > 0
    if name == "bayesian":
        quantiles = model.predict_quantiles(every, (0.01, 0.5, 0.99))
        assert np.all((low <= quantiles) & (quantiles <= high))
        assert np.all(np.diff(quantiles, axis=1) > 0)


@pytest.mark.parametrize(("make", "bounds"), [*WIDE, *OPEN])
@pytest.mark.parametrize("name", MODELS)
def test_lists_in_a_wide_range_are_those_of_a_full_sort(name, make, bounds):
    X, z, *_ = low_rank()
    model = fresh(name, bounds=bounds).fit(X, make(z))
    users, items = model.user_ids_.ids, model.item_ids_.ids
    every = np.column_stack([np.repeat(users, len(items)), np.tile(items, len(users))])
    predictions = model.predict(every).reshape(len(users), len(items))
    seen = set(zip(model.user_ids_.codes(X[:, 0]).tolist(), model.item_ids_.codes(X[:, 1]).tolist(), strict=True))
    for n in (1, 7, 50):
        found, scores = model.recommend(n=n)
        for user, columns in enumerate(naive.top_n(predictions, seen, n)):
            assert np.array_equal(found[user, : len(columns)], items[columns])
            assert np.array_equal(scores[user, : len(columns)], predictions[user, columns])
    vectors = model.export_vectors()
    assert vectors.exact


@pytest.mark.parametrize("share", [0.0, 1e-6, 0.01, 0.3, 0.5, 0.97, 1.0])
@pytest.mark.parametrize("bounds", [(0, 1), (1, 5), (-1000, 1), (0, 1e-9), (1e6, 2e6), (-1e100, 1e100)], ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_constant_ratings_are_met_to_a_hundredth_of_the_width(name, bounds, share):
    low, high = bounds
    constant = min(low + share * (high - low), high)
    X = [(user, item) for user in range(20) for item in range(15) if (user + item) % 3]
    model = fresh(name, bounds=bounds, max_iter=20, dtype="float64").fit(X, np.full(len(X), constant))
    every = [(user, item) for user in range(21) for item in range(16)]
    predictions = model.predict(every)
    assert np.abs(predictions - constant).max() <= 0.01 * (high - low)
    assert np.all((low <= predictions) & (predictions <= high))
    assert np.abs(model.recommend([1, 99], n=3)[1] - constant).max() <= 0.01 * (high - low)
    view = model.fold_in([(50, 3), (50, 4)], [constant] * 2)
    assert np.abs(view.predict([(50, item) for item in range(15)]) - constant).max() <= 0.01 * (high - low)
    if name == "bayesian":
        quantiles = model.predict_quantiles(every)
        assert np.all((low <= quantiles) & (quantiles <= high))
        assert np.abs(quantiles - constant).max() <= 0.03 * (high - low)


@pytest.mark.parametrize(("make", "bounds"), [(lognormal, (0, 1000)), (small, (0, 100)), (lognormal, (0, None))])
@pytest.mark.parametrize("name", MODELS)
def test_what_comes_after_the_fit_lives_around_the_data_too(name, make, bounds, tmp_path):
    X, z, *_ = low_rank()
    y = make(z)
    late = X[:, 0] >= 70
    model = fresh(name, bounds=bounds).fit(X[~late], y[~late])
    offsets = MeanPredictor().fit(X[~late], y[~late])
    odd = np.arange(late.sum()) % 2 == 1
    view = model.fold_in(X[late][odd], y[late][odd])
    baseline = rmse(offsets.mean + offsets.items[X[late][~odd][:, 1]], y[late][~odd])
    assert rmse(view.predict(X[late][~odd]), y[late][~odd]) <= 1.1 * baseline
    again = fresh(name, bounds=bounds).fit(X[~late], y[~late]).partial_fit(X[late][odd], y[late][odd])
    assert rmse(again.predict(X[late][~odd]), y[late][~odd]) <= 1.1 * baseline
    every = np.argwhere(np.ones((80, 50), bool))
    for one in (model, again):
        one.save(tmp_path / "model", keep_ratings=True)
        loaded = load(tmp_path / "model")
        assert np.array_equal(loaded.predict(every), one.predict(every))
        assert np.array_equal(loaded.recommend(n=5)[0], one.recommend(n=5)[0])
        loaded.partial_fit([(200, 1)], [1.0])
        assert bounds[0] <= loaded.predict([(200, 2)])[0] <= (bounds[1] or np.inf)
    low, high = again.predict_range(every)
    assert np.all((low <= again.predict(every)) & (again.predict(every) <= high))


def test_sampling_goes_on_in_a_wide_range_where_it_stopped():
    X, z, *_ = low_rank()
    half = BayesianMBMF(3, bounds=(0, 1000), max_iter=5, burn_in=0, n_kept=5, warm_start=True, random_state=0)
    half.fit(X, lognormal(z)).fit(X, lognormal(z))
    whole = BayesianMBMF(3, bounds=(0, 1000), max_iter=10, burn_in=0, n_kept=10, random_state=0).fit(X, lognormal(z))
    assert np.allclose(half.predict(X), whole.predict(X), rtol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_whoever_wants_the_range_to_be_the_scale_gets_it(name):
    X, z, *_ = low_rank()
    model = fresh(name, bounds=(0, 100), magnitudes="range").fit(X, small(z))
    assert np.allclose(model.user_magnitudes_[0] * model.item_magnitudes_[0], 50)
    assert model.predict(X).mean() > 1  # slack and the held coordinate keep it from the end


@pytest.mark.parametrize("name", MODELS)
def test_data_that_fill_their_range_keep_its_centre_and_unit(name):
    X, z, *_ = low_rank()
    y = np.clip(3 + 1.2 * z, 1, 5)
    automatic, declared = (fresh(name, bounds=(1, 5), magnitudes=rule).fit(X, y) for rule in ("auto", "range"))
    assert np.array_equal(automatic.predict(X), declared.predict(X))


@settings(max_examples=25)
@given(st.integers(0, 500), st.floats(-60, 60), st.sampled_from(sorted(MODELS)))
def test_the_unit_of_ratings_is_the_unit_of_predictions(seed, decades, name):
    """A power of two on ratings and bounds is that power on predictions, wherever the data lie in their range."""
    X, z, *_ = low_rank(seed % 7, 12, 10)
    unit = 2.0 ** round(decades)
    settings = {"max_iter": 4, "dtype": "float64"}
    plain = fresh(name, bounds=(0, 1000), **settings).fit(X, lognormal(z)).predict(X)
    other = fresh(name, bounds=(0, 1000 * unit), **settings).fit(X, unit * lognormal(z)).predict(X)
    assert np.allclose(other, unit * plain, rtol=1e-7)


@pytest.mark.parametrize("model", [MBMF, BayesianMBMF])
def test_constant_ratings_that_rounding_leaves_no_room_beside_their_end_keep_to_it(model):
    X, high = [(user, item) for user in range(5) for item in range(4)], float(np.nextafter(1.0, 2.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = model(2, bounds=(1.0, high), random_state=0, max_iter=3).fit(X, np.ones(20))
    prediction = fitted.predict([*X, (-1, -1)])
    assert np.all((prediction >= 1.0) & (prediction <= high))
