"""New users and items without a refit."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import naive
from boundrec import BMCADMM, BMF, MBMF, MF, NMF, BayesianMBMF, BoundedSVD, CCDPlusPlus
from boundrec.model_file import taken_apart
from boundrec.models.bounded import centred_sides
from boundrec.solvers import Side
from boundrec.solvers.exact import HELD_BY_ITEMS, HELD_BY_USERS, solve_rows, stack, unstack
from boundrec.solvers.threads import RowPool

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

#: The paper's model alone, where MBMF by default has more.
PLAIN = {"biases": False, "ridge": 0.0, "slack": 1.0}

MODELS = {
    "ball": MBMF(4, bounds=(1, 5), **PLAIN),
    "as it comes": MBMF(4, bounds=(1, 5)),
    "sphere": MBMF(4, bounds=(1, 5), constraint="sphere"),
    "form n": MBMF(4, bounds=(1, 5), form="n", **PLAIN),
    "biases": MBMF(4, bounds=(1, 5), biases=True, ridge=0.02, slack=1.5),
    "restarts": MBMF(3, bounds=(1, 5), n_restarts=3, **PLAIN),
    "restarts on the sphere": MBMF(3, bounds=(1, 5), n_restarts=2, constraint="sphere"),
    "restarts with biases": MBMF(3, bounds=(1, 5), n_restarts=3, biases=True, ridge=0.02, slack=2.0),
    "history": MBMF(4, bounds=(1, 5), magnitudes="history", on_contradiction="drop", **PLAIN),
    "history count": MBMF(4, bounds=(1, 5), magnitudes="history", history_count=5.0, on_contradiction="drop"),
    "history without bounds": MBMF(4, magnitudes="history", on_contradiction="drop"),
    "lower bound": MBMF(4, bounds=(0, None), on_contradiction="drop"),
    "upper bound": MBMF(4, bounds=(None, 5), on_contradiction="drop"),
    "no bounds": MBMF(4, **PLAIN),
}
ALL = MODELS | {
    "Bayesian": BayesianMBMF(3, bounds=(1, 5), burn_in=1, n_kept=3, dtype="float64"),
    "Bayesian with history": BayesianMBMF(3, bounds=(1, 5), magnitudes="history", burn_in=1, n_kept=3),
}


def ratings(seed=0, n=30, m=20, share=0.5, low=1.0, high=5.0):
    """Random pairs, every user with at least six of them and every item with one, and their ratings."""
    rng = np.random.default_rng(seed)
    mask = rng.random((n, m)) < share
    for i in range(n):
        mask[i, (i + np.arange(6)) % m] = True
    X = np.argwhere(mask) + np.array([100, 1000])
    return X, rng.integers(low, high + 1, len(X)).astype(float)


@pytest.fixture(params=MODELS, ids=str)
def fitted(request):
    X, y = ratings()
    return clone(MODELS[request.param]).set_params(max_iter=5, random_state=0).fit(X, y), X, y


@pytest.fixture(params=ALL, ids=str)
def any_fitted(request):
    X, y = ratings()
    model = clone(ALL[request.param]).set_params(max_iter=5, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, y), X, y


def same_model(model, before):
    """Whether every learned array has the bits it had."""
    now = learned(model)
    return before.keys() == now.keys() and all(np.array_equal(now[name], value) for name, value in before.items())


def learned(model):
    parts = taken_apart(model.fitted_)
    return {name: value.copy() for name, value in parts.items() if isinstance(value, np.ndarray)}


# --- fold_in ------------------------------------------------------------------------------------------------


def test_folding_in_training_users_gives_the_rows_of_the_fit(fitted):
    model, X, y = fitted
    some = np.isin(X[:, 0], [103, 110, 125])
    view = model.fold_in(X[some], y[some])
    rows = model.user_ids_.codes(view.user_ids_.ids)
    assert view.user_ids_.ids.tolist() == [103, 110, 125]
    assert np.allclose(view.user_factors_, model.user_factors_[rows], atol=1e-6)
    assert np.allclose(view.user_magnitudes_, model.user_magnitudes_[rows], atol=1e-12)
    for ours, theirs in zip(view.predict(X[some], True), model.predict(X[some], True), strict=True):
        assert np.allclose(ours, theirs, atol=1e-6)


def test_folding_in_leaves_the_model_as_it_was_and_shares_its_items(any_fitted):
    model, X, y = any_fitted
    before = learned(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some ratings may lie outside the range that history leaves them
        view = model.fold_in([(7, i) for i in X[:3, 1]], y[:3])
    assert same_model(model, before)
    assert view.item_factors_ is model.item_factors_
    assert (view.n_users_, model.n_users_) == (1, 30)
    assert np.isnan(model.set_params(on_unknown="nan").predict([(7, X[0, 1])]))


def full_half_step(model, kind):
    """One half-step over all rows of one side, as a fit does it, of every restart; the model takes them over."""
    room, held = (
        np.sqrt(model.slack_),
        (HELD_BY_USERS, HELD_BY_ITEMS) if model.user_biases_ is not None else (None, None),
    )
    by_user, by_item = (side.csr for side in centred_sides(model.fitted_, np.float64))
    solved = []
    for W, H in zip(restarts(model, "user"), restarts(model, "item"), strict=True):
        users = Side(by_user, room * model.user_magnitudes_, W, held[0])
        items = Side(by_item, room * model.item_magnitudes_, H, held[1])
        side, other = (users, items) if kind == "user" else (items, users)
        with RowPool(1, len(by_user.data)) as pool:
            side.factors = solve_rows(side, other, pool, model.constraint, model.ridge_)
        solved.append(side.factors)
    changed = {"factors": stack(solved, 2 * (model.user_biases_ is not None))}
    if model.user_biases_ is not None:
        changed["biases"] = np.column_stack([rows[:, 0 if kind == "user" else 1] for rows in solved])
    side = replace(model.fitted_.side(kind), **changed)
    model._learned = replace(model.fitted_, **{f"{kind}s": side})


def restarts(model, kind):
    bias = HELD_BY_ITEMS if kind == "user" else HELD_BY_USERS
    return unstack(getattr(model, f"{kind}_factors_"), getattr(model, f"{kind}_biases_"), bias, model.n_factors)


def test_folding_in_items_is_one_item_half_step(fitted):
    model, X, y = fitted
    view = model.fold_in(X, y, axis="items")
    assert view.user_factors_ is model.user_factors_
    assert np.array_equal(view.item_ids_.ids, model.item_ids_.ids)
    assert np.allclose(view.item_magnitudes_, model.item_magnitudes_, rtol=1e-12)
    full_half_step(model, "item")
    assert np.allclose(view.item_factors_, model.item_factors_, atol=1e-6)


@pytest.mark.parametrize("constraint", ["ball", "sphere"])
@given(st.integers(0, 10_000), st.integers(1, 12))
def test_a_new_row_is_the_global_minimum_of_its_own_problem(constraint, seed, n_ratings):
    model = fitted_once(constraint)
    rng = np.random.default_rng(seed)
    items = rng.choice(model.item_ids_.ids, n_ratings, replace=False)
    y = rng.integers(1, 6, n_ratings).astype(float)
    view = model.fold_in([("new", i) for i in items], y)
    H = model.item_factors_[model.item_ids_.codes(items)]
    radius = view.user_magnitudes_[0]
    best = naive.solve_row_by_eigen(H.T @ H, H.T @ (y - 3), radius, constraint)
    assert np.sum((y - 3 - H @ view.user_factors_[0]) ** 2) == pytest.approx(np.sum((y - 3 - H @ best) ** 2), abs=1e-7)
    norm = np.linalg.norm(view.user_factors_[0])
    assert norm == pytest.approx(radius) if constraint == "sphere" else norm <= radius * (1 + 1e-12)


_FITTED = {}


def fitted_once(constraint):
    if constraint not in _FITTED:
        X, y = ratings()
        model = MBMF(4, bounds=(1, 5), constraint=constraint, max_iter=5, random_state=0, **PLAIN)
        _FITTED[constraint] = model.fit(X, y)
    return _FITTED[constraint]


@given(st.sampled_from(sorted(ALL)), st.integers(0, 19), st.integers(1, 5))
def test_a_first_rating_gives_predictions_inside_their_ranges(name, item, rating):
    if name not in _FITTED:
        X, y = ratings()
        _FITTED[name] = clone(ALL[name]).set_params(max_iter=2, random_state=0, on_contradiction="keep")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _FITTED[name].fit(X, y)
    model = _FITTED[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one rating may lie outside the range that history leaves it
        view = model.fold_in([("new", 1000 + item)], [float(rating)])
    pairs = [("new", i) for i in model.item_ids_.ids.tolist()]
    prediction, lower, upper = view.predict(pairs, return_range=True)
    assert np.all((lower <= prediction) & (prediction <= upper))
    if model.bounds is not None:
        low, high = model.bounds
        assert low is None or model.form == "n" or lower.min() >= low
        assert high is None or upper.max() <= high


def test_underdetermined_rows_on_the_sphere_agree_in_objective_and_rated_items():
    X, y = ratings()
    first = np.concatenate([np.flatnonzero(X[:, 0] == u)[:2] for u in np.unique(X[:, 0])])
    X, y = X[first], y[first]  # two ratings and four factors
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = clone(MODELS["sphere"]).set_params(max_iter=5, random_state=0).fit(X, y)
        view = model.fold_in(X, y)
    assert np.allclose(view.predict(X), model.predict(X), atol=1e-6)
    assert np.sum((view.predict(X) - y) ** 2) == pytest.approx(model.objectives_[-1], abs=1e-9)


@pytest.mark.parametrize("random_state", [None, 0])
def test_folding_in_has_nothing_random(random_state):
    model = fitted_once("sphere")
    first, again = (model.set_params(random_state=random_state).fold_in([("new", 1003)], [5.0]) for _ in range(2))
    assert np.array_equal(first.user_factors_, again.user_factors_)


def test_each_new_user_is_on_its_own():
    """Folding in many at once, in any order, is folding in one at a time."""
    X, y = ratings(5)
    model = fitted_once("ball")
    together = model.fold_in(X[::-1], y[::-1])
    for user in (100, 112):
        own = X[:, 0] == user
        alone = model.fold_in(X[own], y[own])
        assert np.array_equal(alone.predict(X[own]), together.predict(X[own]))


def test_weights_count_and_a_weight_of_zero_is_no_rating():
    model = fitted_once("ball")
    X = [("new", 1000 + i) for i in range(6)]
    y = np.array([5.0, 1, 4, 2, 3, 5])
    weighted = model.fold_in(X, y, sample_weight=[1, 1, 1, 1, 1, 0])
    assert np.allclose(weighted.user_factors_, model.fold_in(X[:5], y[:5]).user_factors_, atol=1e-9)
    twice = model.fold_in(X, y, sample_weight=[2, 1, 1, 1, 1, 1])
    assert not np.allclose(twice.user_factors_, model.fold_in(X, y).user_factors_)


def test_a_view_knows_what_its_users_have_seen_and_only_its_users():
    model = fitted_once("ball")
    view = model.fold_in([("eve", 1003), ("eve", 1001), ("bob", 1002)], [5, 1, 4])
    seen = [
        view.item_ids_.ids[view.fitted_.seen.indices[slice(*view.fitted_.seen.indptr[u : u + 2])]].tolist()
        for u in (0, 1)
    ]
    assert [sorted(items) for items in seen] == [[1001, 1003], [1002]]
    view.set_params(on_unknown="nan")
    assert np.isnan(view.predict([("nobody", 1003), (100, 1003), ("bob", 1003)])).tolist() == [True, True, False]


def test_sparse_matrices_and_ratings_fold_in_like_pairs():
    X, y = ratings()
    matrix = sp.csr_array((y, (X[:, 0] - 100, X[:, 1] - 1000)))
    model = MBMF(4, bounds=(1, 5), max_iter=3, random_state=0).fit(matrix)
    from_matrix = model.fold_in(matrix[:3])
    own = X[:, 0] < 103
    from_pairs = model.fold_in(X[own] - (100, 1000), y[own])
    assert np.array_equal(from_matrix.user_factors_, from_pairs.user_factors_)


def test_magnitudes_given_as_mappings_serve_those_they_know():
    X, y = ratings()
    users = {**dict.fromkeys(range(100, 130), 1.2), "new": 0.7}
    model = MBMF(
        3, bounds=(1, 5), magnitudes=(users, dict.fromkeys(range(1000, 1020), 1.5)), max_iter=2, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        view = model.fit(X, y).fold_in([("new", 1000), ("other", 1000)], [3.5, 3.5])
    assert view.user_magnitudes_.tolist() == [0.7, pytest.approx(1.2)]
    with pytest.raises(ValueError, match=r"magnitude of user 'wide', 3, is past the 1\.33"):
        model.set_params(magnitudes=({**users, "wide": 3.0}, {})).fold_in([("wide", 1000)], [3.0])


@pytest.mark.filterwarnings("ignore:.*outside their own range")
def test_new_ids_get_their_magnitudes_by_the_rule_of_their_side():
    X, y = ratings()
    new = [("new", 1000), ("new", 1001)], [5.0, 4.0]

    def new_user(users, items):
        model = MBMF(3, bounds=(1, 5), magnitudes=(users, items), max_iter=2, random_state=0)
        return model.fit(X, y).fold_in(*new).user_magnitudes_.item()

    by_history = MBMF(3, bounds=(1, 5), magnitudes="history", max_iter=2, random_state=0).fit(X, y).fold_in(*new)
    assert new_user("history", "range") == by_history.user_magnitudes_.item()
    assert new_user("range", "history") == pytest.approx(np.sqrt(2))
    assert new_user({100: 0.5}, "history") == pytest.approx(np.sqrt(2))  # as somebody unknown
    assert new_user({100: 0.5, "new": 0.7}, "range") == 0.7
    assert new_user("history", {1000: 8.0}) == pytest.approx(2 / 8)  # makes room for what is given


def test_history_magnitudes_of_a_new_user_are_those_of_the_paper():
    X, y = ratings()
    model = MBMF(4, magnitudes="paper", bounds=(1, 5), max_iter=2, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        view = model.fit(X, y, history=(X, y)).fold_in([("new", 1000), ("new", 1001), ("one", 1000)], [5, 4, 1])
    levels = np.abs(y - 3)
    overall = np.sqrt(levels.mean() + levels.std())
    own = np.sqrt(np.mean([2, 1]) + np.std([2, 1]))
    assert view.user_magnitudes_[0] == pytest.approx(own)  # two ratings of 20 items are the share that makes ω = 1
    assert view.user_magnitudes_[1] == pytest.approx(0.5 * np.sqrt(2) + 0.5 * overall)


def test_contradictions_of_new_users_are_settled_as_in_the_fit():
    X, y = ratings()
    y = np.where(y > 3, 3.5, 2.5)  # history leaves narrow ranges
    model = MBMF(3, bounds=(1, 5), magnitudes="history", max_iter=2, random_state=0, **PLAIN).fit(X, y)
    new = [("new", 1000), ("new", 1001)], [5.0, 3.0]
    with pytest.warns(UserWarning, match="1 of 2 ratings lie outside their own range .*user 'new', item 1000"):
        model.fold_in(*new)
    with pytest.raises(ValueError, match="outside their own range"):
        clone(model).set_params(on_contradiction="raise").fit(X, y).fold_in(*new)
    widened = model.set_params(on_contradiction="widen").fold_in(*new)
    assert widened.predict_range([("new", 1000)])[1][0] >= 5 * (1 - 1e-8)
    assert widened.predict_range([("new", i) for i in range(1000, 1020)])[1].max() <= 5
    dropped = model.set_params(on_contradiction="drop").fold_in(*new)
    h = model.item_factors_[model.item_ids_.codes([1001])]
    w = naive.solve_row_by_eigen(h.T @ h, h[0] * 0.0, dropped.user_magnitudes_[0], "ball")
    assert np.allclose(dropped.user_factors_[0], w)  # only the rating in the middle is left
    assert dropped.fitted_.seen.indices.size == 2


def test_ratings_of_unknown_items_are_left_out_with_a_warning_or_refused():
    model = clone(fitted_once("ball")).fit(*ratings())
    new, y = [("new", 1000), ("new", 7), ("other", 7)], [5, 1, 1]
    with pytest.warns(UserWarning, match=r"2 of 3 ratings are of items without training ratings \(first: item 7\)"):
        view = model.fold_in(new, y)
    assert np.array_equal(view.user_factors_[0], model.fold_in(new[:1], y[:1]).user_factors_[0])
    assert np.isnan(view.set_params(on_unknown="nan").predict([("other", 1000)]))
    with pytest.raises(ValueError, match=r"item 7\): leave them out, or add these items with partial_fit"):
        model.fold_in(new[1:], y[1:])
    with pytest.raises(ValueError, match="2 of 3 ratings are of items without"):
        model.set_params(on_unknown="raise").fold_in(new, y)
    with pytest.raises(ValueError, match="1 of 1 ratings are of users without"):
        model.fold_in([("new", "new")], [3], axis="items")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (([("new", 1000)], [7.0]), r"outside the declared bounds \(1.0, 5.0\).*user 'new', item 1000: 7.0"),
        (([("new", 1000)], [np.nan]), "NaN or infinite ratings"),
        (([("new", 1000)] * 2, [1.0, 2.0]), "pair that was rated before"),
        (([("new", 1000)], None), "y is missing"),
        (([("new", 1000)], [3.0], "rows"), "axis='rows': give 'users' or 'items'"),
    ],
)
def test_bad_ratings_are_refused_as_in_a_fit(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        fitted_once("ball").fold_in(*arguments)


def test_a_model_must_be_fitted_before_it_folds_in():
    with pytest.raises(NotFittedError):
        MBMF(3, bounds=(1, 5)).fold_in([("new", 1000)], [3.0])


@pytest.mark.parametrize("rival", [MF, NMF, CCDPlusPlus, BMF, BMCADMM, BoundedSVD])
def test_models_that_take_no_new_ratings_have_no_method_for_them(rival):
    assert not hasattr(rival(), "fold_in")
    assert not hasattr(rival(), "partial_fit")


def test_a_view_recommends_what_its_users_have_not_seen_best_first(any_fitted):
    model = any_fitted[0]
    new, y = [("eve", 1003), ("eve", 1001), ("bob", 1002)], [5, 1, 4]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some ratings may lie outside the range that history leaves them
        view = model.fold_in(new, y)
    items, scores = view.recommend(["bob", "eve"], n=4)
    for user, own, values in zip(["bob", "eve"], items, scores, strict=True):
        others = [i for i in model.item_ids_.ids.tolist() if (user, i) not in new]
        predictions = view.predict([(user, i) for i in others])
        assert np.allclose(values, np.sort(predictions)[::-1][:4], atol=1e-6)
        assert np.allclose(view.predict([(user, i) for i in own]), values, atol=1e-6)
        assert set(own.tolist()) <= set(others)


def test_a_view_of_items_recommends_those_items():
    model = fitted_once("ball")
    view = model.fold_in([(100, "new"), (101, "new"), (100, "other")], [5, 4, 1], axis="items")
    items, _ = view.recommend([100, 101, 102], n=2)
    assert items.tolist()[:2] == [[None, None], ["other", None]]
    assert sorted(items.tolist()[2]) == ["new", "other"]
    assert view.recommend([100, 101, 102], n=9)[0].shape == (3, 2)  # as many columns as the view has items


@pytest.mark.parametrize("form", ["n", "c"])
def test_with_the_papers_settings_a_folded_in_row_fits_its_ratings_no_worse_than_the_fit(form):
    X, y = ratings()
    model = MBMF.as_in_paper(4, form=form, bounds=(1, 5), max_iter=30, random_state=0).fit(X, y)
    view = model.fold_in(X, y)
    assert np.allclose(np.linalg.norm(view.user_factors_, axis=1), view.user_magnitudes_)
    for user in np.unique(X[:, 0]):
        own = X[:, 0] == user
        ours, theirs = (np.sum((m.predict(X[own]) - y[own]) ** 2) for m in (view, model))
        assert ours <= theirs + 1e-9


def test_arrays_that_cannot_be_written_serve_as_well(any_fitted):
    """Those of a model from a file are mapped read-only."""
    model, X, y = any_fitted
    for value in vars(model).values():
        if isinstance(value, np.ndarray):
            value.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        view = model.fold_in(X[:9], y[:9])
        model.partial_fit([(7, 1000), (100, "new")], [4.0, 3.0])
    assert np.isfinite(view.predict(X[:9])).all()
    assert np.isfinite(model.predict([(7, 1001), (7, "new")])).all()
