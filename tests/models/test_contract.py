"""One contract for all models: whatever the algorithm, these sentences hold."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from boundrec import BMCADMM, BMF, MBMF, MF, NMF, BayesianMBMF, BoundedSVD, CCDPlusPlus

MODELS = {
    "exact ball": MBMF(3, bounds=(1, 5), max_iter=5, random_state=0),
    "exact sphere": MBMF(3, bounds=(1, 5), constraint="sphere", max_iter=5, random_state=0),
    "ball with biases": MBMF(3, bounds=(1, 5), biases=True, ridge=0.02, slack=1.5, max_iter=5, random_state=0),
    "Bayesian": BayesianMBMF(3, bounds=(1, 5), max_iter=10, dtype="float64", random_state=0),
    "angles n": MBMF.as_in_paper(3, bounds=(1, 5), max_iter=20, random_state=0),
    "angles c": MBMF.as_in_paper(3, form="c", bounds=(1, 5), max_iter=20, random_state=0),
    "MF gd": MF(3, bounds=(1, 5), max_iter=20, random_state=0),
    "MF gd biases": MF(3, bounds=(1, 5), steps="separate", biases=True, ridge=0.02, max_iter=20, random_state=0),
    "MF sgd": MF(3, bounds=(1, 5), solver="sgd", max_iter=5, random_state=0),
    "MF sgd biases": MF(3, bounds=(1, 5), solver="sgd", biases=True, max_iter=5, random_state=0),
    "BMF": BMF(3, bounds=(1, 5), max_iter=5, random_state=0),
    "BMF observed": BMF(3, bounds=(1, 5), bound_on="observed", max_iter=5, random_state=0),
    "BMC-ADMM": BMCADMM(3, bounds=(1, 5), max_iter=5, random_state=0),
    "BoundedSVD gd": BoundedSVD(3, bounds=(1, 5), max_iter=20, random_state=0),
    "BoundedSVD sgd": BoundedSVD(3, bounds=(1, 5), solver="sgd", biases=True, max_iter=5, random_state=0),
    "nmf": NMF(3, bounds=(1, 5), max_iter=20, random_state=0),
    "ccd++": CCDPlusPlus(3, bounds=(1, 5), max_iter=5, random_state=0),
    "ccd++ plain": CCDPlusPlus(3, bounds=(1, 5), ridge_mode="plain", max_iter=5, random_state=0),
    "nmf ridge": NMF(3, bounds=(1, 5), ridge=0.02, max_iter=20, random_state=0),
}
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(params=MODELS, ids=str)
def model(request):
    return clone(MODELS[request.param])


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    users, items = np.nonzero(rng.random((30, 20)) < 0.4)
    X = np.column_stack([users + 100, items + 1000])
    return X, rng.integers(1, 6, len(users)).astype(float)


def test_fitting_returns_the_model_and_sets_its_attributes(model, data):
    X, y = data
    assert model.fit(X, y) is model
    assert model.user_factors_.shape[0] == model.n_users_ == len(np.unique(X[:, 0]))
    assert model.item_factors_.shape[0] == model.n_items_ == len(np.unique(X[:, 1]))
    assert model.n_iter_ == len(model.objectives_) == len(model.seconds_)
    assert np.all(np.isfinite(model.objectives_))
    assert model.predict(X).shape == y.shape
    assert np.all(np.isfinite(model.predict(X)))


def test_it_learns_something(model, data):
    X, y = data
    model.set_params(max_iter=60).fit(X, y)
    assert np.mean((model.predict(X) - y) ** 2) < np.var(y)


def test_who_learns_from_ratings_alone_names_the_model_that_takes_features_and_explains(model, data):
    X, y = data
    with pytest.raises(TypeError, match=r"\.fit\(\) got an unexpected keyword argument 'weights'"):
        model.fit(X, y, weights=y)
    if isinstance(model, BayesianMBMF):
        return
    name = type(model).__name__
    with pytest.raises(TypeError, match=f"{name} learns from ratings alone and takes no item_features: fit a Bayesian"):
        model.fit(X, y, item_features={1000: [1.0]})
    assert not hasattr(model, "explain")
    with pytest.raises(AttributeError, match=f"{name} has no method 'explain': fit a BayesianMBMF"):
        model.explain(100, 1000)


def test_settings_survive_cloning_and_fitting(model, data):
    before = model.get_params()
    model.fit(*data)
    assert model.get_params() == before
    assert clone(model).get_params() == before


def test_the_same_seed_gives_the_same_bits(model, data):
    first = clone(model).fit(*data).predict(data[0])
    assert np.array_equal(first, model.fit(*data).predict(data[0]))


def test_another_seed_starts_elsewhere(model, data):
    first = clone(model).set_params(max_iter=1).fit(*data)
    other = model.set_params(max_iter=1, random_state=1).fit(*data)
    assert not np.array_equal(first.user_factors_, other.user_factors_)


def test_one_two_and_five_threads_give_the_same_bits(model, data, monkeypatch):
    monkeypatch.setattr("boundrec.solvers.threads.INLINE_BELOW", 0)
    monkeypatch.setattr("boundrec.solvers.threads.SMALLEST_RANGE", 1)
    fitted = [clone(model).set_params(n_jobs=n).fit(*data) for n in (1, 2, 5)]
    for other in fitted[1:]:
        assert np.array_equal(fitted[0].user_factors_, other.user_factors_)
        assert np.array_equal(fitted[0].item_factors_, other.item_factors_)
        assert fitted[0].objectives_ == other.objectives_


def test_renaming_ids_changes_no_bit(model, data):
    X, y = data
    names = np.array([[f"u{u}", f"i{i}"] for u, i in X], dtype=object)
    assert np.array_equal(clone(model).fit(X, y).predict(X), model.fit(names, y).predict(names))


def test_stored_zeros_are_observations(model, data):
    """Dropping a stored zero must change the fit; a model that takes zero for missing would not notice."""
    X, y = data
    zero = y == 1
    model.set_params(bounds=(0, 4))
    with_zeros = clone(model).fit(X, y - 1)
    users, items = with_zeros.user_ids_.codes(X[:, 0]), with_zeros.item_ids_.codes(X[:, 1])
    matrix = sp.csr_array((y - 1, (users, items)))
    assert matrix.nnz == len(y)
    from_matrix = clone(model).fit(matrix)
    assert np.array_equal(with_zeros.user_factors_, from_matrix.user_factors_)
    without = clone(model).fit(X[~zero], (y - 1)[~zero])
    assert not np.allclose(with_zeros.predict(X[~zero]), without.predict(X[~zero]))


def test_weights_change_the_fit(model, data):
    X, y = data
    few = 8  # a descent may take back its first steps
    plain = clone(model).set_params(max_iter=few).fit(X, y)
    weighted = clone(model).set_params(max_iter=few).fit(X, y, sample_weight=np.linspace(0, 1, len(y)))
    assert not np.array_equal(plain.user_factors_, weighted.user_factors_)


#: What is to be doubled with the weights for the same fit; the others take a step, a variance or a ridge as it is.
DOUBLED_WITH_THE_WEIGHTS = {
    "exact ball": (),
    "exact sphere": (),
    "ball with biases": (),
    "MF gd": (),
    "MF gd biases": (),
    "BMF": (),
    "BMF observed": (),
    "BMC-ADMM": ("penalty", "rho"),
    "BoundedSVD gd": (),
    "nmf": (),
    "nmf ridge": (),
    "ccd++": (),
    "ccd++ plain": ("ridge",),
}


@pytest.mark.parametrize("name", DOUBLED_WITH_THE_WEIGHTS)
def test_doubled_weights_double_the_objective_and_change_nothing_else(name, data):
    """1e-9: the exact solver takes roots of weights, and that of 2 is rounded."""
    X, y = data
    plain = clone(MODELS[name]).fit(X, y)
    model = clone(MODELS[name])
    model.set_params(**{setting: 2 * getattr(model, setting) for setting in DOUBLED_WITH_THE_WEIGHTS[name]})
    doubled = model.fit(X, y, sample_weight=np.full(len(y), 2.0))
    assert np.allclose(doubled.objectives_, 2 * np.array(plain.objectives_), rtol=1e-9)
    assert np.allclose(doubled.user_factors_, plain.user_factors_, rtol=1e-9, atol=1e-9)
    assert np.allclose(doubled.item_factors_, plain.item_factors_, rtol=1e-9, atol=1e-9)


def test_a_weight_of_two_is_the_same_rating_twice(model, data):
    X, y = data
    counts = 1 + np.arange(len(y)) % 3
    weighted = clone(model).fit(X, y, sample_weight=counts)
    repeated = model.set_params(duplicates="mean")
    repeated.fit(np.repeat(X, counts, axis=0), np.repeat(y, counts), sample_weight=np.ones(counts.sum()))
    assert np.array_equal(weighted.user_factors_, repeated.user_factors_)
    assert weighted.objectives_ == repeated.objectives_


def test_float32_factors_predict_like_float64(model, data):
    X, y = data
    double = clone(model).set_params(max_iter=2).fit(X, y)
    single = clone(model).set_params(max_iter=2, dtype="float32").fit(X, y)
    assert single.user_factors_.dtype == np.float32
    assert np.allclose(double.predict(X), single.predict(X), atol=1e-2)


def test_unknown_ids_are_answered_as_asked(model, data):
    X, y = data
    model.fit(X, y)
    cold = [(X[0, 0], -1), (-1, X[0, 1]), (-1, -1)]
    answers = model.predict(cold)
    assert np.all((answers >= 1) & (answers <= 5))
    # The sampler answers with its prior mean, which lies near the overall one.
    assert answers[2] == pytest.approx(y.mean(), abs=0.5 if isinstance(model, BayesianMBMF) else 1e-9)
    assert np.isnan(model.set_params(on_unknown="nan").predict(cold)).all()
    with pytest.raises(ValueError, match="item -1"):
        model.set_params(on_unknown="raise").predict(cold[:1])


def test_ids_whose_ratings_all_have_weight_zero_are_unknown_but_their_pairs_seen(model, data):
    X, y = data
    weights = np.where((X[:, 0] == X[0, 0]) | (X[:, 1] == X[-1, 1]), 0.0, 1.0)
    model.fit(X, y, sample_weight=weights)
    with_nobody, with_nothing = [(X[0, 0], X[1, 1]), (X[-1, 0], X[-1, 1])], [(-1, X[1, 1]), (X[-1, 0], -1)]
    assert np.array_equal(model.predict(with_nobody), model.predict(with_nothing))
    assert np.isnan(model.set_params(on_unknown="nan").predict(with_nobody)).all()
    items, _ = model.set_params(on_unknown="mean").recommend([X[0, 0]], n=20)
    assert not np.isin(items, X[X[:, 0] == X[0, 0], 1]).any()
    assert X[-1, 1] not in items


def test_a_callback_sees_every_sweep_and_may_stop(model, data):
    seen = []

    def callback(sweep, objective, fitted):
        seen.append((sweep, objective))
        return sweep == 3

    model.fit(*data, callback=callback)
    assert [sweep for sweep, _ in seen] == [1, 2, 3]
    assert [objective for _, objective in seen] == model.objectives_


@pytest.mark.parametrize("yes", [True, np.True_])
def test_a_callback_stops_with_either_true(yes, data):
    model = clone(MODELS["exact ball"]).fit(*data, callback=lambda sweep, *_: yes if sweep == 2 else None)
    assert model.n_iter_ == 2


def test_ctrl_c_leaves_the_last_complete_sweep(model, data):
    kept = []

    def callback(sweep, objective, fitted):
        kept.append(fitted.user_factors_.copy())
        if sweep == 2:
            raise KeyboardInterrupt

    with pytest.warns(UserWarning, match="interrupted: the model is that of sweep 2"):
        model.fit(*data, callback=callback)
    assert np.array_equal(model.user_factors_, kept[1])
    assert np.isfinite(model.predict(data[0])).all()


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"n_factors": 0}, "n_factors=0"),
        ({"n_factors": 2.5}, "n_factors=2.5"),
        ({"max_iter": 0}, "max_iter=0"),
        ({"dtype": "int64"}, "dtype='int64'"),
        ({"n_jobs": 0}, "n_jobs=0"),
        ({"random_state": "a"}, "random_state='a'"),
        ({"random_state": -1}, "random_state=-1"),
        ({"on_unknown": "zero"}, "on_unknown='zero'"),
        ({"duplicates": "sum"}, "duplicates='sum'"),
        ({"bounds": (5, 1)}, "lower end must be below"),
    ],
)
def test_settings_without_sense_are_refused_in_a_sentence(model, data, settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        model.set_params(**settings).fit(*data)


def test_rows_that_do_not_fit_into_memory_are_told_in_a_sentence(model, data, monkeypatch):
    model.fit(*data)
    before, solver = model.user_factors_, type(model)._solver

    def without_memory(*given):
        solver(*given)
        return np.empty((1 << 40, 1 << 10))

    monkeypatch.setattr(type(model), "_solver", without_memory)
    with pytest.raises(MemoryError, match=rf"n_factors={model.n_factors}: rows .* for \d+ users and \d+ items, do not"):
        model.fit(*data)
    assert np.array_equal(model.user_factors_, before)


#: Settings of some models that are a number.
NUMBERS = ("ridge", "penalty", "rho", "sharpness", "learning_rate", "inner_tol", "slack", "initial_step", "tol")


@pytest.mark.parametrize("value", ["a", [1], float("nan")])
def test_a_setting_that_is_no_number_is_refused_in_a_sentence(model, data, value):
    for name in (name for name in NUMBERS if name in model.get_params()):
        with pytest.raises(ValueError, match=f"{name}="):
            clone(model).set_params(**{name: value}).fit(*data)


def test_ratings_outside_the_declared_bounds_are_refused(model, data):
    X, y = data
    with pytest.raises(ValueError, match=r"outside the declared bounds \(1.0, 5.0\).*first: user"):
        model.fit(X, np.where(np.arange(len(y)) == 7, 9.0, y))


def test_verbose_prints_a_line_for_every_sweep(model, data, capsys):
    model.set_params(verbose=1, max_iter=3).fit(*data)
    assert len(capsys.readouterr().err.strip().splitlines()) == 3


def test_errors_on_an_eval_set_are_recorded_after_every_sweep(model, data):
    X, y = data
    model.fit(X[::2], y[::2], eval_set=(X[1::2], y[1::2]))
    assert len(model.eval_errors_) == model.n_iter_
    assert model.best_iter_ == np.argmin(model.eval_errors_) + 1
    assert clone(model).fit(X, y).best_iter_ is None


def test_recording_alone_changes_no_bit(model, data):
    X, y = data
    plain = clone(model).fit(X[::2], y[::2])
    model.n_iter_no_change = None
    model.fit(X[::2], y[::2], eval_set=(X[1::2], y[1::2]))
    assert np.array_equal(plain.user_factors_, model.user_factors_)
    assert plain.objectives_ == model.objectives_


def small(model, bounds, dtype):
    return model.set_params(n_factors=2, bounds=bounds, dtype=dtype, max_iter=3)


PAIRS, RATINGS = [(0, 0), (0, 1), (1, 0), (1, 2), (2, 1), (2, 2), (3, 0), (3, 2)], np.array([5, 1, 4, 5, 2, 1, 3, 4])


@pytest.mark.parametrize(
    ("dtype", "exponent"), [("float32", e) for e in (-29, -10, 10, 35)] + [("float64", e) for e in (-149, -60, 60, 149)]
)
def test_ratings_and_bounds_of_very_different_sizes_are_fitted(model, dtype, exponent):
    if getattr(model, "solver", None) == "sgd":
        pytest.skip("its step is a setting, not its own")
    unit = 10.0**exponent
    small(model, (unit, 5 * unit), dtype).fit(PAIRS, unit * RATINGS)
    assert np.isfinite(model.predict([(user, item) for user in (0, 1, 2, 3, 9) for item in (0, 1, 2, 9)])).all()
    assert np.isfinite(model.recommend(n=3, exclude_seen=False)[1]).all()
    vectors = model.export_vectors()
    assert np.isfinite(vectors.users @ vectors.items.T).all()


@pytest.mark.parametrize("bounds", [(0, 1e80), (-1e80, 1e80), (None, 1e80), (-1e80, None)])
def test_bounds_that_float32_cannot_hold_are_refused(model, bounds):
    if None in bounds and isinstance(model, (BMF, BMCADMM, BoundedSVD)):
        pytest.skip("needs both ends")
    with pytest.raises(
        ValueError, match=r"bounds=.*: an end too large for dtype=float32; pass dtype=\"float64\", or div"
    ):
        small(model, bounds, "float32").fit(PAIRS, RATINGS)


def test_bounds_too_close_together_are_refused(model):
    for bounds, dtype in (((0, 1e-200), "float64"), ((0, 1e-40), "float32"), ((0, 5e-324), "float64")):
        with pytest.raises(ValueError, match=f"bounds=.*: ends too close together for dtype={dtype}; .*multiply"):
            small(model, bounds, dtype).fit(PAIRS, np.zeros(8))


def test_weights_that_float32_cannot_hold_are_refused(model):
    with pytest.raises(ValueError, match=r"sample weights too large for dtype=float32: 1 of 8 .*item 1: 1e\+40"):
        small(model, (1, 5), "float32").fit(PAIRS, RATINGS, sample_weight=[1, 1e40, *[1] * 6])
