"""What is known of people and things beside their clicks: rows drawn to it, and those without clicks answered by it."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from test_implicit import MODELS, SMALL, clicks, confidence, dense, everything

import boundrec
import naive
from boundrec import Graph, ImplicitMBMF
from boundrec.solvers.feature_means import STRENGTH

#: Ids that no clicks have: users are below 14 there, items below 11.
COLD_USER, COLD_ITEM = 50, 60


def tables(seed=0, n=14, m=11):
    """Features of all users and items with clicks, and of one of each without."""
    rng = np.random.default_rng(seed)
    users = {user: {"age": float(rng.integers(18, 70)), "sex": "FM"[user % 2]} for user in [*range(n), COLD_USER]}
    items = {item: [float(item % 3), float(rng.normal())] for item in [*range(m), COLD_ITEM]}
    return {"user_features": users, "item_features": items}


def known(seed=0, name="plain", **more):
    X, y = clicks(seed)
    return clone(MODELS[name]).set_params(**more).fit(X, y, **tables(seed)), X, y


def features_of(model, kind):
    """F of all rows, and who has clicks."""
    side = model.fitted_.side(kind)
    return side.links.features.rows_for(side.ids)[0].toarray(), side.means > 0


def drawn_to(model, kind):
    """Where features draw all rows of a side, by the formula as it is printed."""
    F, chose = features_of(model, kind)
    csr = getattr(model.fitted_.ratings, f"by_{kind}")
    own = csr.sum_rows(np.log2(1 + csr.data / model.typical_strength_))
    shares = model.item_means_[model.item_means_ > 0]
    p = model.item_means_**model.popularity_power / np.mean(shares**model.popularity_power)
    all_pairs = len(shares) if kind == "user" else p * np.count_nonzero(model.user_means_)
    counts = np.where(chose, model.unobserved_weight_ * all_pairs + own, 0.0)
    links = model.fitted_.side(kind).links
    return (F - np.average(F, axis=0, weights=counts)) @ links.matrices[0], counts


# --- the promise ----------------------------------------------------------------------------------------------


@given(
    st.integers(0, 10_000),
    st.sampled_from(sorted(MODELS)),
    st.sampled_from(["auto", 1e-6, 5.0]),
    st.sampled_from(["auto", 0.0, 0.5]),
)
def test_every_score_lies_between_minus_one_and_one_whoever_is_known_by_what(seed, name, weight, ridge):
    model, X, _ = known(seed, name, unobserved_weight=weight, ridge=ridge)
    new = {"new": {"age": 1e6, "sex": "F"}, "other": {"age": -1e6, "sex": None}}
    view = model.fold_in([("new", X[0, 1])], features=new)
    grown = model.partial_fit([(0, COLD_ITEM), ("more", 0)], item_features={"thing": [1e5, -1e5]})
    assert {COLD_USER, COLD_ITEM, "thing"} <= {*grown.user_ids_.ids.tolist(), *grown.item_ids_.ids.tolist()}
    for one in (model, view, grown):
        scores = one.predict([*everything(one), ("nobody", 0), (COLD_USER, "nothing")])
        assert np.all(np.isfinite(scores))
        assert np.all(np.abs(scores) <= 1)


# --- against slow twins ---------------------------------------------------------------------------------------


def test_every_users_row_is_the_minimum_in_the_ball_drawn_to_what_features_say():
    model, X, y = known(1)
    C, (means, _), chose = dense(model, X, confidence(y)), drawn_to(model, "user"), model.fitted_.items.means > 0
    for c, mean, w in zip(C, means, model.user_factors_, strict=True):
        if not c.any():
            continue
        A, b = naive.all_pairs_row(
            c, chose.astype(float), model.unobserved_weight_, model.ridge_, model.item_factors_, mean
        )
        assert np.allclose(w, naive.solve_row_by_eigen(A, b, 1.0, "ball"), atol=1e-7)


@pytest.mark.parametrize("kind", ["user", "item"])
def test_at_rest_what_features_say_is_the_regression_of_the_rows_on_them(kind):
    model, _, _ = known(2, max_iter=300, tol=0, ridge=0.02)
    F, _ = features_of(model, kind)
    B, mean, _ = naive.feature_regression(F, drawn_to(model, kind)[1], getattr(model, f"{kind}_factors_"), STRENGTH)
    links = model.fitted_.side(kind).links
    assert np.allclose(links.matrices[0], B, atol=1e-6)
    assert np.allclose(links.typical[0, 0], mean @ B, atol=1e-6)


@pytest.mark.parametrize("kind", ["user", "item"])
@pytest.mark.parametrize("name", MODELS)
def test_a_row_without_clicks_is_where_features_lead_from_the_mean_of_the_others(kind, name):
    model, _, _ = known(3, name)
    rows, (means, counts) = getattr(model, f"{kind}_factors_").astype(float), drawn_to(model, kind)
    found = rows[counts > 0].mean(axis=0) + means[counts == 0][0]
    edge = np.sqrt(model.slack)
    found *= min(1.0, edge / np.linalg.norm(found))
    assert (counts == 0).sum() == 1
    assert np.allclose(rows[counts == 0][0], found, atol=1e-6)


def test_a_row_without_clicks_that_features_lead_out_of_the_ball_is_at_its_edge():
    model, _, _ = known(4)
    far = model.fold_in(features={"far": {"age": 1e6, "sex": "F"}})
    assert np.linalg.norm(far.user_factors_[0]) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("name", MODELS)
def test_whoever_has_no_features_is_drawn_nowhere_and_what_is_chosen_by_the_data_stays(name):
    X, y = clicks(5)
    some = {0: [1.0], 1: [0.0], COLD_USER: [2.0]}
    with pytest.warns(UserWarning, match="12 of 14 ids of the ratings are not in user_features"):
        told = clone(MODELS[name]).fit(X, y, user_features=some)
    assert told.fitted_.found == clone(told).fit(X, y).fitted_.found
    without = told.user_ids_.codes([*range(2, 14)])
    expected = told.fitted_.users.links.expected(told.user_ids_)
    assert not expected[without].any()
    assert expected[told.user_ids_.codes([0])].any()


def test_things_without_clicks_count_for_nothing_in_the_fit():
    """But for where it starts: a thing that nobody could choose is no thing that nobody wanted."""
    X, y = clicks(6)
    more = {"max_iter": 300, "tol": 0, "unobserved_weight": 2.0, "ridge": 0.05}
    items = {item: {"kind": "ab"[item % 2]} for item in range(11)}
    wide = items | {COLD_ITEM + one: {"kind": "ab"[one % 2]} for one in range(40)}
    one, other = (clone(SMALL).set_params(**more).fit(X, y, item_features=table) for table in (items, wide))
    assert one.objectives_[-1] == pytest.approx(other.objectives_[-1], rel=1e-3)
    view, same = (model.fold_in([("new", 0), ("new", 1)]) for model in (one, other))
    asked = [("new", item) for item in range(11)]
    assert np.allclose(view.predict(asked), same.predict(asked), atol=0.03)


# --- planted tastes -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def two_tastes():
    """Sixty people who choose things of their own kind, and ten of each that have no click, with kinds of all."""
    rng = np.random.default_rng(0)
    X = [(f"u{user}", f"i{item}") for user in range(60) for item in rng.permutation(40)[:25] if item % 2 == user % 2]
    kinds = {
        f"{side}_features": {f"{letter}{one}": {"kind": "ab"[one % 2]} for one in range(n)}
        for side, letter, n in (("user", "u", 70), ("item", "i", 50))
    }
    return ImplicitMBMF(8, random_state=0).fit(X, **kinds), X, kinds


def test_things_that_nobody_chose_are_ranked_by_their_kind(two_tastes):
    model, _, _ = two_tastes
    cold = [f"i{item}" for item in range(40, 50)]
    items, _ = model.recommend([f"u{user}" for user in range(60)], n=5, candidates=cold)
    assert all(int(item[1:]) % 2 == user % 2 for user, row in enumerate(items) for item in row)


def test_people_who_chose_nothing_get_what_their_kind_chooses(two_tastes):
    model, _, _ = two_tastes
    for user in range(60, 70):
        items, _ = model.recommend([f"u{user}"], n=10)
        assert all(int(item[1:]) % 2 == user % 2 for item in items[0])
        neighbours, _ = model.similar_users(f"u{user}", n=10)
        assert all(int(one[1:]) % 2 == user % 2 for one in neighbours)


def test_whoever_comes_later_is_ranked_by_features_alone_too(two_tastes):
    model, _, _ = two_tastes
    view = model.fold_in(features={"new": {"kind": "b"}})
    assert np.allclose(view.user_factors_[0], model.user_factors_[model.user_ids_.codes(["u61"])[0]], atol=1e-6)
    things = model.fold_in(features={"tea": {"kind": "a"}, "rum": {"kind": "b"}}, axis="items")
    items, _ = things.recommend(["u0", "u1"], n=1)
    assert items.tolist() == [["tea"], ["rum"]]
    assert model.predict([("stranger", "i2")])[0] == pytest.approx(model.item_means_[model.item_ids_.codes(["i2"])[0]])


def test_one_click_of_somebody_new_is_read_beside_their_features(two_tastes):
    model, _, _ = two_tastes
    told, plain = model.fold_in([("new", "i2")], features={"new": {"kind": "b"}}), model.fold_in([("new", "i2")])
    other = [("new", f"i{item}") for item in range(1, 40, 2)]
    assert np.all(told.predict(other) > plain.predict(other))


# --- forms of features ------------------------------------------------------------------------------------------


def test_every_form_of_the_same_features_gives_the_same_model():
    X, y = clicks(7)
    X = pd.DataFrame(X, columns=["who", "what"])
    age = np.random.default_rng(0).normal(40, 10, 14)
    forms = [
        {user: [age[user]] for user in range(14)},
        (np.arange(14), age[:, None]),
        pd.DataFrame({"age": age, "who": np.arange(14)}),
        pd.DataFrame({"age": age}, index=pd.Index(np.arange(14), name="who")),
        pl.DataFrame({"who": np.arange(14), "age": age}),
    ]
    first, *others = (clone(SMALL).fit(X, y, user_features=form) for form in forms)
    for other in others:
        assert np.array_equal(other.user_factors_, first.user_factors_)
    words = sp.csr_array(np.eye(14)[:, :5] + np.eye(14, 5, 1))
    for form in ((np.arange(14), words), Graph([(user, user + 1) for user in range(14)])):
        model = clone(SMALL).fit(X, y, user_features=form)
        assert not np.array_equal(model.user_factors_, first.user_factors_)
        assert np.all(np.abs(model.predict(pd.DataFrame(everything(model), columns=["who", "what"]))) <= 1)


@pytest.mark.parametrize(
    ("given", "error", "sentence"),
    [
        (pd.DataFrame({"age": [1.0, 2.0]}), ValueError, "user_features have .*column"),
        (([0, 1], [[1.0], [np.nan]]), ValueError, "user_features have no number in 1 places"),
        ({0: [1.0], 1: ["old"]}, (TypeError, ValueError), "'old'"),
        ({0: [1.0], 1: [1.0]}, ValueError, "user_features have no column in which two ids differ"),
        ({"x": [1.0], "z": [2.0]}, ValueError, "user_features share no id with the ratings"),
        (3, (TypeError, ValueError), "user_features"),
    ],
)
def test_features_without_sense_are_refused_in_a_sentence(given, error, sentence):
    X, y = clicks(8)
    X = pd.DataFrame(X, columns=["who", "what"])
    with pytest.raises(error, match=sentence) as refused:
        clone(SMALL).fit(X, y, user_features=given)
    assert "\n" not in str(refused.value)


def test_features_that_a_fit_had_not_are_refused_later_and_those_it_had_need_not_come():
    model, X, y = known(9)
    plain = clone(SMALL).fit(X, y, item_features=tables()["item_features"])
    for ask in (lambda: plain.fold_in(features={"new": [1.0]}), lambda: plain.partial_fit(X, user_features={0: [1.0]})):
        with pytest.raises(ValueError, match="this ImplicitMBMF was fitted without features of users: leave them out"):
            ask()
    with pytest.raises(ValueError, match="fold_in has neither clicks nor features to go by"):
        model.fold_in()
    with pytest.raises(ValueError, match="'age'"):
        model.fold_in(features={"new": {"sex": "F"}})
    with pytest.raises(TypeError, match="'old'"):
        model.fold_in(features={"new": {"age": "old", "sex": "F"}})
    assert model.fold_in([("new", 0)]).recommend(["new"], n=2)[0].shape == (1, 2)
    assert model.partial_fit([("new", 0)]).recommend(["new"], n=2)[0].shape == (1, 2)
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        clone(SMALL).fit(X, y, colour=1)


# --- clicks that come later -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_a_training_users_own_clicks_and_known_features_give_their_own_row(name):
    model, X, y = known(10, name)
    view = model.fold_in(X, y)
    rows = model.user_factors_[model.user_ids_.codes(view.user_ids_.ids)]
    assert np.allclose(view.user_factors_, rows, atol=1e-3 if name == "float32" else 1e-6)
    asked = model.fold_in(features={COLD_USER: tables(10)["user_features"][COLD_USER]})
    assert np.allclose(asked.user_factors_[0], model.user_factors_[model.user_ids_.codes([COLD_USER])[0]], atol=1e-6)


def test_new_things_with_clicks_are_the_minimum_drawn_to_their_features():
    model, _, y = known(11)
    view = model.fold_in([(user, "new") for user in (0, 1, 2)], axis="items", features={"new": [2.0, 1.0]})
    mean = model.fold_in(features={"new": [2.0, 1.0]}, axis="items").fitted_.items.links.expected(view.item_ids_)[0]
    chose = model.fitted_.users.means > 0
    c = (np.isin(model.user_ids_.ids, (0, 1, 2)) * np.log2(1 + 1 / np.median(y)))[chose]
    A, b = naive.all_pairs_item_row(
        c, 1.0, model.unobserved_weight_, model.ridge_, model.user_factors_[chose], int(chose.sum()), mean
    )
    assert mean.any()
    assert np.allclose(view.item_factors_[0], naive.solve_row_by_eigen(A, b, 1.0, "ball"), atol=1e-7)


def test_partial_fit_keeps_what_features_say_and_solves_only_what_is_new():
    model, _, _ = known(12)
    before, links = model.fitted_, model.fitted_.users.links
    model.partial_fit([(0, 1)], user_features={"new": {"age": 30.0, "sex": "F"}, 3: {"age": 66.0, "sex": "F"}})
    after = model.fitted_.users
    assert np.array_equal(after.links.matrices, links.matrices)
    assert np.array_equal(after.usual, before.users.usual)
    same = [one for one in range(len(before.users.ids)) if before.users.ids.ids[one] not in (0, 3)]
    assert np.array_equal(after.factors[same], before.users.factors[same])
    for one in (0, 3):
        row = before.users.ids.codes([one])[0]
        assert not np.array_equal(after.factors[row], before.users.factors[row])
    folded = model.fold_in(features={"again": {"age": 30.0, "sex": "F"}}).user_factors_[0]
    assert np.allclose(after.factors[after.ids.codes(["new"])[0]], folded)
    X, y = clicks(12)
    first = clone(SMALL).partial_fit(X, y, **tables(12))
    assert np.array_equal(first.user_factors_, clone(SMALL).fit(X, y, **tables(12)).user_factors_)


def test_somebody_known_by_features_who_clicks_is_solved_as_everybody_is():
    (model, _, _), (before, _, _) = known(13), known(13)
    view = model.fold_in([(COLD_USER, 1), (COLD_USER, 2)])
    model.partial_fit([(COLD_USER, 1), (COLD_USER, 2)])
    row = model.user_ids_.codes([COLD_USER])[0]
    assert model.user_means_[row] > 0
    assert not np.array_equal(model.user_factors_[row], before.user_factors_[row])
    assert set(model.recommend([COLD_USER], n=20)[0][0].tolist()).isdisjoint({1, 2})
    (means, _), H = drawn_to(before, "user"), before.item_factors_
    c = np.isin(before.item_ids_.ids, (1, 2)) * np.log2(1 + 1 / before.typical_strength_)
    p = (before.item_means_ > 0).astype(float)
    A, b = naive.all_pairs_row(c, p, before.unobserved_weight_, before.ridge_, H, means[row])
    assert np.allclose(view.user_factors_[0], naive.solve_row_by_eigen(A, b, 1.0, "ball"), atol=1e-7)


# --- why --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_with_features_the_parts_of_an_explanation_add_up_to_the_score(name):
    model, _, _ = known(14, name)
    for user, item in [(0, 0), (1, COLD_ITEM), (COLD_USER, 2), (COLD_USER, COLD_ITEM)]:
        why = model.explain(user, item)
        assert why.prediction == model.predict([(user, item)])[0]
        total = why.usual + sum(part.total for part in [*why.ratings, *why.features])
        assert total + why.remainder == pytest.approx(why.prediction, abs=1e-12)
        assert abs(why.remainder) < (1e-4 if name == "float32" else 1e-6)
        assert {part.name for part in why.features} == {"age", "sex=F", "sex=M"}
        assert {part.name: part.value for part in why.features}["age"] == pytest.approx(
            tables(14)["user_features"][user]["age"]
        )
        assert (why.usual != 0) == (user == COLD_USER) == (not why.ratings)


def test_a_features_part_is_what_the_score_loses_where_it_is_the_usual_one():
    """Of somebody without clicks, inside the ball: the row is linear in the features."""
    model, _, _ = known(15)
    row = model.user_ids_.codes([COLD_USER])[0]
    F, chose = features_of(model, "user")
    assert np.linalg.norm(model.user_factors_[row]) < 1
    _, counts = drawn_to(model, "user")
    apart = (F[row] - np.average(F, axis=0, weights=counts))[:, None] * model.fitted_.users.links.matrices[0]
    why = model.explain(COLD_USER, 4)
    item = model.item_factors_[model.item_ids_.codes([4])[0]]
    names = model.fitted_.users.links.features.names
    assert {part.name: part.total for part in why.features} == pytest.approx(
        dict(zip(names, apart @ item, strict=True)), abs=1e-9
    )
    assert why.usual == pytest.approx(model.user_factors_[chose].mean(axis=0) @ item, abs=1e-9)


# --- files, early stopping ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_a_model_with_features_goes_through_a_file(name, tmp_path):
    model, X, _ = known(16, name)
    path = tmp_path / "model.safetensors"
    model.save(path, keep_ratings=True)
    loaded = boundrec.load(path)
    assert np.array_equal(loaded.predict(everything(model)), model.predict(everything(model)))
    asked = {"features": {"new": {"age": 33.0, "sex": "M"}}}
    for new in ({}, {"X": [("new", X[0, 1])]}):
        assert np.array_equal(loaded.fold_in(**new, **asked).user_factors_, model.fold_in(**new, **asked).user_factors_)
    assert loaded.explain(COLD_USER, 0) == model.explain(COLD_USER, 0)
    more = {"X": [(0, COLD_ITEM)], "item_features": {"thing": [1.0, 0.5]}}
    assert np.array_equal(loaded.partial_fit(**more).item_factors_, model.partial_fit(**more).item_factors_)
    view = model.fold_in(**asked)
    view.save(path)
    assert np.array_equal(boundrec.load(path).user_factors_, view.user_factors_)


def test_early_stopping_and_lists_count_those_without_clicks():
    X, y = clicks(17, n=60, m=40)
    known = tables(17, 60, 40)
    aside = clone(SMALL).set_params(validation_fraction=0.2, max_iter=20, n_iter_no_change=3).fit(X, y, **known)
    assert len(aside.eval_errors_) == aside.n_iter_
    held = X[:, 0] == 5
    model = clone(SMALL).fit(X[~held], eval_set=X[held], **known)
    assert model.eval_errors_[-1] < 1
    assert 0 < model.score(X[held]) <= 1
    assert COLD_ITEM in model.recommend([1], n=60)[0][0]
