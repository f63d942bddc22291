"""Early stopping: what is set aside, what is recorded, when a fit stops, and which sweep the model is then."""

import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, KFold, cross_validate

from boundrec import BMCADMM, BMF, MBMF, MF, NMF, BayesianMBMF, BoundedSVD, CCDPlusPlus, Ratings
from boundrec.models.fit import BestSoFar, set_aside
from boundrec.solvers import Learned, Sweep

SETTINGS = {"bounds": (1, 5), "random_state": 0, "validation_fraction": 0.25}
#: With settings that overfit these ratings well before they run out of sweeps.
MODELS = {
    "MBMF": MBMF(5, max_iter=40, **SETTINGS),
    "MBMF with biases": MBMF(5, biases=True, slack=1.5, max_iter=40, **SETTINGS),
    "MBMF by angles": MBMF.as_in_paper(5, **SETTINGS | {"max_iter": 200}),
    "MF": MF(5, steps="separate", max_iter=200, **SETTINGS),
    "MF by sgd, clipped": MF(5, solver="sgd", biases=True, learning_rate=0.05, clip=True, max_iter=60, **SETTINGS),
    "NMF": NMF(5, max_iter=200, **SETTINGS),
    "CCD++": CCDPlusPlus(5, ridge=0.001, max_iter=40, **SETTINGS),
    "BMF": BMF(5, max_iter=40, **SETTINGS),
    "BMC-ADMM": BMCADMM(5, penalty=0.05, max_iter=60, **SETTINGS),
    "BoundedSVD": BoundedSVD(5, steps="separate", max_iter=200, **SETTINGS),
}
RESTARTS = MBMF(5, biases=True, slack=1.0, n_restarts=3, max_iter=40, **SETTINGS)
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(params=MODELS, ids=str)
def model(request):
    return clone(MODELS[request.param])


@pytest.fixture(scope="module")
def ratings():
    """Two factors, much noise, few ratings: every model overfits."""
    rng = np.random.default_rng(0)
    users, items = np.nonzero(rng.random((40, 30)) < 0.5)
    truth = 3 + (rng.normal(0, 0.7, (40, 2)) @ rng.normal(0, 0.7, (2, 30)))[users, items]
    y = np.clip(truth + rng.normal(0, 0.8, len(users)), 1, 5)
    return Ratings.read(np.column_stack([users, items]), y)


@pytest.fixture(scope="module")
def parts(ratings):
    """What a validation_fraction of 0.25 and a seed of 0 train on, and evaluate on."""
    return set_aside(ratings, 0.25, 0)


def rmse(model, ratings):
    X, y = ratings.to_pairs()
    return float(np.sqrt(np.mean((model.predict(X) - y) ** 2)))


# --- which sweep the model is -------------------------------------------------------------------------------


def test_a_fit_that_overfits_stops_and_is_its_best_sweep(model, ratings, parts):
    model.fit(ratings)
    errors = model.eval_errors_
    assert 1 <= model.best_iter_ < model.n_iter_ < model.max_iter
    assert model.best_iter_ == np.argmin(errors) + 1
    assert min(errors) < errors[-1]
    assert rmse(model, parts[1]) == errors[model.best_iter_ - 1]
    to_the_end = clone(model).set_params(validation_fraction=None).fit(parts[0])
    assert rmse(model, parts[1]) < rmse(to_the_end, parts[1])


def test_it_is_what_a_plain_fit_to_the_rest_is_after_as_many_sweeps(model, ratings, parts):
    model.fit(ratings)
    plain = clone(model).set_params(validation_fraction=None, max_iter=model.best_iter_).fit(parts[0])
    assert np.array_equal(model.user_factors_, plain.user_factors_)
    assert np.array_equal(model.item_factors_, plain.item_factors_)
    assert np.array_equal(model.user_means_, plain.user_means_)
    assert model.objectives_[: model.best_iter_] == plain.objectives_


def test_an_eval_set_does_what_a_share_set_aside_does(model, ratings, parts):
    model.fit(ratings)
    given = clone(model).set_params(validation_fraction=None).fit(parts[0], eval_set=parts[1])
    assert given.eval_errors_ == model.eval_errors_
    assert np.array_equal(given.user_factors_, model.user_factors_)


def test_out_of_sweeps_the_model_is_the_best_one_too(model, ratings):
    early = clone(model).fit(ratings)
    late = model.set_params(n_iter_no_change=10_000, max_iter=early.n_iter_).fit(ratings)
    assert late.n_iter_ == early.n_iter_
    assert late.best_iter_ == early.best_iter_
    assert np.array_equal(late.item_factors_, early.item_factors_)


def test_it_stops_after_so_many_sweeps_without_a_smaller_error(ratings):
    for n in (1, 3, 7):
        model = clone(MODELS["MBMF"]).set_params(n_iter_no_change=n).fit(ratings)
        assert model.n_iter_ == model.best_iter_ + n


def test_a_fit_that_comes_to_rest_goes_back_to_its_best_sweep(ratings, parts):
    model = clone(MODELS["MBMF"]).set_params(n_iter_no_change=10_000, tol=1e-4, patience=1).fit(ratings)
    assert model.best_iter_ < model.n_iter_ < model.max_iter
    assert rmse(model, parts[1]) == min(model.eval_errors_)


def test_the_penalty_and_the_violation_of_admm_are_those_of_its_best_sweep(ratings, parts):
    rhos = []
    model = clone(MODELS["BMC-ADMM"]).set_params(rho=0.02)
    model.fit(ratings, callback=lambda sweep, objective, model: rhos.append(model.rho_))
    assert rhos[model.best_iter_ - 1] != rhos[-1]  # else going back to it would not show
    plain = clone(model).set_params(validation_fraction=None, max_iter=model.best_iter_).fit(parts[0])
    assert model.rho_ == plain.rho_
    assert model.max_violation_ == plain.max_violation_


def test_every_restart_goes_back_to_its_own_best_sweep(ratings, parts):
    stacked = clone(RESTARTS).fit(ratings)
    starts = []
    for generator in np.random.default_rng(0).spawn(3):
        one = clone(RESTARTS).set_params(n_restarts=1, validation_fraction=None, random_state=generator)
        starts.append(one.fit(parts[0], eval_set=parts[1]))
    assert len({one.best_iter_ for one in starts}) > 1
    X, _ = parts[1].to_pairs()
    assert np.allclose(stacked.predict(X), np.mean([one.predict(X) for one in starts], axis=0))


# --- interrupted and told to stop ---------------------------------------------------------------------------


def test_told_to_stop_past_the_best_sweep_it_goes_back_to_it(model, ratings):
    full = clone(model).fit(ratings)
    stopped = clone(model).fit(ratings, callback=lambda sweep, *_: sweep == full.best_iter_ + 1)
    assert stopped.n_iter_ == full.best_iter_ + 1
    assert np.array_equal(stopped.user_factors_, full.user_factors_)


def test_ctrl_c_past_the_best_sweep_leaves_the_best_one(ratings):
    full = clone(MODELS["MBMF"]).fit(ratings)

    def interrupt(sweep, objective, model):
        if sweep == full.best_iter_ + 2:
            raise KeyboardInterrupt

    with pytest.warns(UserWarning, match=f"the model is that of sweep {full.best_iter_}"):
        model = clone(full).fit(ratings, callback=interrupt)
    assert np.array_equal(model.user_factors_, full.user_factors_)
    with pytest.warns(UserWarning, match=f"the model is that of sweep {full.best_iter_ + 2}"):
        clone(full).set_params(n_iter_no_change=None).fit(ratings, callback=interrupt)


# --- numbers that are none ----------------------------------------------------------------------------------

LARGE = [(0, 0), (0, 1), (1, 0)], [1e38, 2e38, 3e38]


@pytest.mark.parametrize("model", [NMF(2, dtype="float32"), MF(2, dtype="float32"), CCDPlusPlus(2, dtype="float32")])
def test_ratings_that_are_too_large_for_the_factors_type_are_refused(model):
    X, y = LARGE
    with pytest.raises(ValueError, match=r"dtype=float32: 2 of 3 \(first: user 0, item 1: 4e\+38\).*float64"):
        model.fit(X, [1e35, 4e38, -4e38])
    assert np.isfinite(clone(model).set_params(dtype="float64").fit(X, y).predict(X)).all()


class Diverging(NMF):
    """Objectives as told, and factors that count the sweeps."""

    TOLD = (3.0, 2.0, np.nan, 1.0)

    def _solver(self, start, pool, rng, validation):
        return Counting(self.TOLD, len(start.users.ids), len(start.items.ids))


class Counting:
    def __init__(self, told, n_users, n_items):
        self.told, self.n_users, self.n_items, self.sweep = told, n_users, n_items, 0

    def sweeps(self):
        for objective in self.told:
            self.sweep += 1
            yield Sweep(objective)

    def result(self):
        return Learned(*(np.full((n, 2), float(self.sweep)) for n in (self.n_users, self.n_items)))


def test_an_objective_that_is_no_number_ends_the_fit_at_the_sweep_before(ratings):
    with pytest.warns(
        ConvergenceWarning, match="is nan after sweep 3: the model is that of sweep 2; bring the ratings"
    ):
        model = Diverging(2).fit(ratings)
    assert model.objectives_ == [3.0, 2.0]
    assert model.n_iter_ == 2
    assert np.all(model.user_factors_ == 2)


def test_a_fit_without_one_finite_objective_is_an_error(ratings, monkeypatch):
    monkeypatch.setattr(Diverging, "TOLD", (np.inf, 1.0))
    with pytest.raises(ValueError, match="Diverging is inf after sweep 1: bring the ratings"):
        Diverging(2).fit(ratings)


# --- the rule -----------------------------------------------------------------------------------------------


def run(errors, patience, moved=None):
    """The sweep that a fit with these errors is in the end, and after how many it stops."""
    progress = BestSoFar(patience)
    for sweep, error in enumerate(errors, 1):
        progress.add({"sweep": sweep}, error, moved=moved is None or moved[sweep - 1])
        if progress.exhausted:
            break
    return progress.state["sweep"], sweep


def run_slowly(errors, patience):
    for sweep in range(1, len(errors) + 1):
        best = int(np.argmin(errors[:sweep])) + 1
        if sweep - best >= patience:
            break
    return best, sweep


@given(st.lists(st.integers(0, 5), min_size=1, max_size=20), st.integers(1, 5))
def test_the_rule_is_that_the_first_smallest_error_is_so_many_sweeps_ago(errors, patience):
    assert run([float(error) for error in errors], patience) == run_slowly(errors, patience)


def test_errors_that_are_not_finite_are_no_improvement():
    nan, inf = np.nan, np.inf
    assert run([3.0, nan, inf, nan, 1.0], 3) == (1, 4)
    assert run([nan, 2.0, nan, 1.0], 2) == (4, 4)
    assert run([nan, nan, nan], 2) == (1, 3)
    assert run([inf, nan, 2.0], 2) == (3, 3)


def test_sweeps_that_moved_nothing_do_not_count():
    assert run([3.0, 3.0, 3.0, 3.0, 2.0], 2, moved=[True, False, False, True, True]) == (5, 5)
    assert run([3.0, 3.0, 3.0, 3.0, 2.0], 2, moved=[True, True, False, True, True]) == (1, 4)


def test_angles_whose_first_steps_are_too_long_are_not_stopped_for_it(ratings):
    """The dynamic step is halved many times before anything moves at all."""
    model = clone(MODELS["MBMF by angles"]).set_params(initial_step=1e4).fit(ratings)
    assert model.n_rejected_ > model.n_iter_no_change
    assert model.n_iter_ - model.best_iter_ > model.n_iter_no_change


def test_without_errors_the_last_sweep_is_the_one():
    assert run([None, None, None], 1) == (3, 3)


def test_a_warning_about_sweeps_is_not_given_where_more_of_them_are_worse(ratings):
    model = clone(MODELS["MF"]).set_params(n_iter_no_change=10_000, tol=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        best = model.fit(ratings).best_iter_
    with pytest.warns(ConvergenceWarning, match=f"stopped at max_iter={best}"):
        model.set_params(max_iter=best).fit(ratings)


def test_an_absolute_tolerance_is_kept_by_every_model_in_the_unit_of_its_objective(model, ratings):
    """Half of the objective is never lost in one sweep here; half a unit is, until late."""
    model.set_params(validation_fraction=None, tol=0.5, patience=2, max_iter=500)
    relative = moves(clone(model).fit(ratings))
    assert len(relative) <= 4
    decreases = -np.diff(moves(model.set_params(tol_mode="absolute").fit(ratings)))
    assert len(relative) < len(decreases) < 490
    calm = decreases < 0.5
    if not isinstance(model, BMCADMM):  # which its residuals end before: tests/rivals/test_bmc_admm.py
        assert calm[-2:].all()
        assert not (calm[:-2] & calm[1:-1]).any()


def moves(model):
    """The objectives after sweeps that moved something."""
    objectives = np.array(model.objectives_)
    return objectives[np.append(True, np.diff(objectives) != 0)]


# --- what is set aside --------------------------------------------------------------------------------------


@given(n=st.integers(2, 40), fraction=st.floats(0.01, 0.99), seed=st.integers(0, 5))
def test_every_rating_is_either_trained_on_or_evaluated_on(n, fraction, seed):
    matrix = sp.csr_array((np.arange(1.0, n + 1), (np.arange(n) % 5, np.arange(n))))
    rest, held_out = set_aside(Ratings.read(matrix), fraction, seed)
    assert sorted([*rest.by_user.data, *held_out.by_user.data]) == list(range(1, n + 1))
    assert abs(held_out.n_ratings - fraction * n) <= 1
    again, _ = set_aside(Ratings.read(matrix), fraction, seed)
    assert np.array_equal(rest.by_user.data, again.by_user.data)


def test_another_seed_sets_others_aside(ratings):
    first, second = (set_aside(ratings, 0.5, seed)[1].by_user for seed in (0, 1))
    assert not np.array_equal(first.indices, second.indices)


@pytest.mark.parametrize("kind", [np.random.default_rng, np.random.RandomState, np.random.SeedSequence])
def test_whatever_the_seed_is_the_start_is_that_of_a_plain_fit_to_the_rest(ratings, kind):
    model = MBMF(3, bounds=(1, 5), validation_fraction=0.25, n_iter_no_change=None, max_iter=2)
    rest, _ = set_aside(ratings, 0.25, kind(3))
    plain = clone(model).set_params(validation_fraction=None, random_state=kind(3)).fit(rest)
    assert np.array_equal(clone(model).set_params(random_state=kind(3)).fit(ratings).user_factors_, plain.user_factors_)


def test_ids_that_only_the_part_set_aside_has_are_answered_as_unknown():
    """Every user and item has one rating only, so that those set aside are strangers, but for two that meet often."""
    X = [(u, i) for u in range(6) for i in range(6)] + [(100 + k, k % 6) for k in range(30)]
    y = np.random.default_rng(0).integers(1, 6, len(X)).astype(float)
    model = MBMF(2, bounds=(1, 5), validation_fraction=0.5, random_state=0).fit(X, y)
    strangers = [pair for pair, code in zip(X, model.user_ids_.codes([u for u, _ in X]), strict=True) if code >= 0]
    assert strangers == X  # they keep their ids
    _, held_out = set_aside(Ratings.read(X, y), 0.5, 0)
    users = {int(held_out.users.ids[row]) for row in held_out.user_of_rating()}
    alone = sorted(user for user in users if user >= 100)
    assert alone
    asked = [(user, -1) for user in alone]
    assert np.allclose(model.predict(asked), model.mean_)
    assert np.isnan(model.set_params(on_unknown="nan").predict(asked)).all()
    assert rmse(model.set_params(on_unknown="mean"), held_out) == min(model.eval_errors_)


@pytest.mark.parametrize("on_unknown", ["nan", "raise"])
def test_errors_count_strangers_by_their_means_whatever_predict_does(on_unknown):
    X = [(u, i) for u in range(6) for i in range(6)]
    y = np.random.default_rng(0).integers(1, 6, len(X)).astype(float)
    stranger = ([(0, 0), ("new", 1)], [3.0, 4.0])
    errors = [
        MBMF(2, bounds=(1, 5), on_unknown=how, max_iter=3, random_state=0).fit(X, y, eval_set=stranger).eval_errors_
        for how in ("mean", on_unknown)
    ]
    assert errors[0] == errors[1]
    assert np.isfinite(errors).all()


def test_weights_count_in_the_error(ratings):
    X, y = ratings.to_pairs()
    weights = np.random.default_rng(1).integers(0, 3, len(y)).astype(float)
    model = clone(MODELS["MBMF"]).fit(X, y, sample_weight=weights)
    _, held_out = set_aside(Ratings.read(X, y, sample_weight=weights), 0.25, 0)
    pairs, values = held_out.to_pairs()
    squares = (model.predict(pairs) - values) ** 2
    assert min(model.eval_errors_) == pytest.approx(np.sqrt(np.average(squares, weights=held_out.by_user.weights)))
    assert min(model.eval_errors_) != pytest.approx(np.sqrt(squares.mean()))


def test_magnitudes_from_the_training_ratings_do_not_see_those_set_aside(ratings, parts):
    settings = {"bounds": (1, None), "on_contradiction": "widen", "max_iter": 3, "random_state": 0}
    with_share = MBMF(3, validation_fraction=0.25, **settings).fit(ratings)
    assert np.array_equal(with_share.user_magnitudes_, MBMF(3, **settings).fit(parts[0]).user_magnitudes_)
    assert not np.array_equal(with_share.user_magnitudes_, MBMF(3, **settings).fit(ratings).user_magnitudes_)


def test_what_is_set_aside_is_not_trained_on_but_counts_as_seen(model, ratings, parts):
    model.set_params(max_iter=2).fit(ratings)
    assert model.fitted_.ratings.n_ratings == parts[0].n_ratings
    assert np.array_equal(model.fitted_.seen.indices, ratings.by_user.indices)
    assert np.array_equal(model.fitted_.seen.indptr, ratings.by_user.indptr)


def test_a_model_keeps_nothing_of_an_eval_set(ratings, parts):
    model = MBMF(3, bounds=(1, 5), max_iter=6, random_state=0)
    plain = len(pickle.dumps(clone(model).fit(parts[0])))
    assert len(pickle.dumps(model.fit(parts[0], eval_set=parts[1]))) < plain + 500


# --- what is refused ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"validation_fraction": 0}, "validation_fraction=0: give a share between 0 and 1"),
        ({"validation_fraction": 1.0}, r"validation_fraction=1\.0"),
        ({"validation_fraction": True}, "validation_fraction=True"),
        ({"validation_fraction": "some"}, "validation_fraction='some'"),
        ({"n_iter_no_change": 0}, "n_iter_no_change=0: give a whole number"),
        ({"n_iter_no_change": 2.5}, r"n_iter_no_change=2\.5"),
    ],
)
def test_settings_without_sense_are_refused_in_a_sentence(model, ratings, settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        model.set_params(**settings).fit(ratings)


@pytest.mark.parametrize(
    ("eval_set", "sentence"),
    [
        (([(0, 0)], [9.0]), r"eval_set: ratings outside the declared bounds \(1\.0, 5\.0\)"),
        (([(0, 0)], [np.nan]), "eval_set: NaN or infinite"),
        (([(0, 0)], [3.0, 4.0]), "eval_set: X has 1 rows but y has 2"),
        (([(0, 0)], [3.0], [1.0]), "eval_set has 3 parts"),
        (([("a", "b")], [3.0]), "none of the 1 ratings to evaluate on .*'a'"),
    ],
)
def test_an_eval_set_without_sense_is_refused_and_leaves_the_model_as_it_was(model, ratings, eval_set, sentence):
    model.set_params(validation_fraction=None, max_iter=2).fit(ratings)
    before = model.user_factors_
    with pytest.raises(ValueError, match=sentence):
        model.fit(ratings, eval_set=eval_set)
    assert model.user_factors_ is before
    assert model.best_iter_ is None
    assert "_held_out" not in vars(model)


def test_a_share_and_an_eval_set_together_are_refused(model, ratings, parts):
    with pytest.raises(ValueError, match=r"validation_fraction=0\.25 .* pass one of the two"):
        model.fit(ratings, eval_set=parts[1])


def test_ratings_outside_the_bounds_are_refused_wherever_they_would_go(model, ratings):
    X, y = ratings.to_pairs()
    for wrong in range(0, len(y), 40):
        with pytest.raises(ValueError, match=f"outside the declared bounds .* 1 of {len(y)}"):
            model.fit(X, np.where(np.arange(len(y)) == wrong, 9.0, y))


def test_too_few_ratings_to_set_any_aside_are_refused():
    with pytest.raises(ValueError, match=r"validation_fraction=0\.5 of 1 rating leaves nothing"):
        MF(1, validation_fraction=0.5).fit([(0, 0)], [3.0])


def test_a_share_without_any_weight_is_refused_by_name():
    X = [(u, i) for u in range(4) for i in range(4)]
    weights = np.zeros(16)
    weights[3] = 1
    with pytest.raises(ValueError, match=r"validation_fraction=0\.5: all sample weights are 0"):
        MF(1, validation_fraction=0.5, random_state=0).fit(X, np.arange(16.0), sample_weight=weights)


# --- scikit-learn -------------------------------------------------------------------------------------------

FOLDS = KFold(3, shuffle=True, random_state=0)


def test_early_stopping_works_inside_cross_validation(model, ratings):
    X, y = ratings.to_pairs()
    found = cross_validate(model, X, y, cv=FOLDS, return_estimator=True, error_score="raise")
    assert all(len(one.eval_errors_) == one.n_iter_ for one in found["estimator"])
    assert clone(model).get_params()["validation_fraction"] == 0.25


def test_an_eval_set_goes_through_cross_validation_with_and_without_metadata_routing(ratings, parts):
    X, y = parts[0].to_pairs()
    model = MBMF(5, bounds=(1, 5), random_state=0)
    params = {"eval_set": parts[1].to_pairs()}
    plain = cross_validate(model, X, y, cv=FOLDS, params=params, error_score="raise")["test_score"]
    with config_context(enable_metadata_routing=True):
        asking = clone(model).set_fit_request(eval_set=True)
        routed = cross_validate(asking, X, y, cv=FOLDS, params=params, error_score="raise")["test_score"]
    assert np.array_equal(plain, routed)
    assert not np.allclose(plain, cross_validate(model, X, y, cv=FOLDS)["test_score"])


def test_a_search_over_factors_and_ridge_finds_the_better_ones(ratings):
    X, y = ratings.to_pairs()
    search = GridSearchCV(
        MBMF(bounds=(1, 5), biases=True, max_iter=10, random_state=0),
        {"n_factors": [2, 8], "ridge": [0.001, 0.1]},
        scoring="neg_root_mean_squared_error",
        cv=FOLDS,
        error_score="raise",
    ).fit(X, y)
    assert search.best_params_["ridge"] == 0.1  # with so much noise
    assert search.best_estimator_.predict(X).shape == y.shape


# --- heavy tails --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def plays():
    """Counts with a heavy tail: how often each of 60 people played each of 40 songs."""
    rng = np.random.default_rng(0)
    users, items = np.nonzero(rng.random((60, 40)) < 0.5)
    level = rng.normal(0, 0.8, 60)[users] + rng.normal(0, 0.8, 40)[items]
    return np.column_stack([users, items]), rng.poisson(np.exp(1 + level + rng.normal(0, 0.5, len(users))))


@pytest.mark.parametrize(
    "inner",
    [
        MBMF(3, bounds=(0, None), biases=True, on_contradiction="widen", ridge=0.02, random_state=0),
        BayesianMBMF(3, bounds=(0, None), on_contradiction="widen", max_iter=30, random_state=0),
    ],
    ids=["MBMF", "BayesianMBMF"],
)
def test_counts_are_fitted_in_logarithms_and_their_ranges_come_back(plays, inner):
    X, counts = plays
    train, test = np.arange(len(X)) % 4 != 0, np.arange(len(X)) % 4 == 0
    model = TransformedTargetRegressor(regressor=inner, func=np.log1p, inverse_func=np.expm1)
    prediction = model.fit(X[train], counts[train]).predict(X[test])
    inside, lower, upper = model.regressor_.predict(X[test], return_range=True)
    assert np.allclose(np.expm1(inside), prediction)
    assert np.all((np.expm1(lower) <= prediction) & (prediction <= np.expm1(upper)))
    assert np.allclose(np.expm1(lower), 0)
    assert np.isfinite(upper).all()
    log_error = np.sqrt(np.mean((np.log1p(prediction) - np.log1p(counts[test])) ** 2))
    assert log_error < 0.8 * np.log1p(counts[test]).std()
    direct = clone(inner).fit(X[train], counts[train]).predict(X[test])
    assert np.median(np.abs(prediction - counts[test])) < np.median(np.abs(direct - counts[test]))


def test_early_stopping_works_on_logarithms(plays):
    X, counts = plays
    inner = MBMF(3, bounds=(0, None), on_contradiction="widen", validation_fraction=0.2, random_state=0)
    model = TransformedTargetRegressor(regressor=inner, func=np.log1p, inverse_func=np.expm1).fit(X, counts)
    assert min(model.regressor_.eval_errors_) < np.log1p(counts).std()
