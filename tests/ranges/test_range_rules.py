"""What rules for ranges may be, and what is refused: each in a sentence with its place."""

import re
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp

import boundrec
from boundrec import MBMF, BayesianMBMF, PerItem, PerPair, PerUser, Ratings
from boundrec.ranges.rules import rule_of

pytestmark = [pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")]

X = [("ann", "tea"), ("ann", "rum"), ("bob", "tea"), ("bob", "gin"), ("eve", "rum"), ("eve", "gin")]
Y = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
ITEMS = {"tea": (0, 10), "rum": (0, 20), "gin": (0, 30)}
WIDE = {"lower": np.zeros(6), "upper": np.full(6, 10.0)}
COLUMNS = [(*pair, 0.0, 10.0) for pair in X]


def fit(bounds=None, model=MBMF, beside=None, rows=X, **settings):
    return model(2, bounds=bounds, max_iter=2, random_state=0, **settings).fit(rows, Y, **(beside or {}))


# --- tables ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [PerItem, PerUser])
@pytest.mark.parametrize(
    ("ends", "sentence"),
    [
        ((3, 1), r"1 of 2 ranges have a lower end above the upper one: correct them \(first: row 1, .*: 3.0 to 1.0\)"),
        ((np.nan, 1), r"1 of 2 ranges have no ends, or only one.*row 1"),
        ((0, None), r"row 1|None"),
        ((0, np.inf), r"1 of 2 ranges have an infinite end.*0.0 to inf"),
        ((-np.inf, 5), "an infinite end"),
        ((-1e151, 5), r"an end too large to be squared: scale all"),
        ((0, 1e308), "too large to be squared"),
        ((1, 2, 3), r"the range of 'b' is \(1, 2, 3\): give a pair \(lower, upper\)"),
        (5, r"the range of 'b' is 5: give a pair \(lower, upper\)"),
        ("05", r"the range of 'b' is '05': give a pair"),
        (("x", "y"), "lower"),
    ],
)
def test_a_table_with_a_range_that_is_none_is_refused(kind, ends, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        kind({"a": (0, 1), "b": ends})


@pytest.mark.parametrize(
    ("rule", "remedy"),
    [
        (PerItem({"b": (0, 1)}), r"add these items to PerItem\(...\) \(first: row 0, user 'n', item 'n'"),
        (PerUser({"b": (0, 1)}), r"add these users to PerUser\(...\) \(first"),
        (PerPair({("b", "b"): (0, 1)}), r"add these pairs to PerPair\(...\), or give it a default \(first"),
    ],
)
def test_ids_without_a_range_are_refused_with_the_remedy_that_their_rule_has(rule, remedy):
    with pytest.raises(ValueError, match=f"no ends, or only one: {remedy}"):
        MBMF(2, bounds=rule).fit([("n", "n")], [1.0])


def test_the_place_of_a_bad_range_is_told_by_its_ids():
    with pytest.raises(ValueError, match=r"first: row 1, item 'b': 3.0 to 1.0"):
        PerItem({"a": (0, 1), "b": (3, 1)})
    with pytest.raises(ValueError, match=r"first: row 1, user 'b': 3.0 to 1.0"):
        PerUser({"a": (0, 1), "b": (3, 1)})
    with pytest.raises(ValueError, match=r"first: row 1, user 'b', item 'z': 3.0 to 1.0"):
        PerPair({("a", "y"): (0, 1), ("b", "z"): (3, 1)})


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "pyarrow"])
def test_tables_of_all_libraries_are_read_alike(library):
    item = library({"item": list(ITEMS), "lower": [0, 0, 0], "upper": [10, 20, 30]})
    pair = library({"user": [u for u, _ in X], "item": [i for _, i in X], "lower": [0] * 6, "upper": [10] * 6})
    named = library({"who": [u for u, _ in X], "what": [i for _, i in X], "lower": [0] * 6, "upper": [10] * 6})
    wanted = fit(PerItem(ITEMS)).predict(X)
    assert np.array_equal(fit(PerItem(item)).predict(X), wanted)
    assert np.array_equal(fit(item).predict(X), wanted)
    wanted = fit(PerPair(dict.fromkeys(X, (0, 10)))).predict(X)
    for bounds in (PerPair(pair), pair, PerPair(named)):
        assert np.array_equal(fit(bounds).predict(X), wanted)


@pytest.mark.parametrize("kind", [PerItem, PerUser])
def test_an_id_that_comes_twice_is_refused(kind):
    table = pd.DataFrame({kind.kind: ["a", "b", "a"], "lower": [0, 0, 0], "upper": [1, 1, 2]})
    with pytest.raises(
        ValueError, match=rf"1 {kind.kind}s come twice in the table of ranges \(first: 'a'\): give each"
    ):
        kind(table)


def test_a_pair_that_comes_twice_is_refused():
    table = pd.DataFrame({"user": [1, 1, 2, 1], "item": [5, 6, 5, 5], "lower": [0] * 4, "upper": [1] * 4})
    with pytest.raises(ValueError, match=r"ranges of 1 pairs come twice \(first: row 3, user 1, item 5\): give each"):
        PerPair(table)


@pytest.mark.parametrize(
    ("kind", "table", "error", "sentence"),
    [
        (PerItem, {}, ValueError, "the table of ranges is empty"),
        (PerPair, pd.DataFrame({"user": [], "item": [], "lower": [], "upper": []}), ValueError, "is empty"),
        (PerItem, [("a", 0, 1)], TypeError, r"ranges are a list: give a mapping id -> \(lower, upper\), or a frame"),
        (PerItem, (0, 1), TypeError, "ranges are a tuple"),
        (PerItem, None, TypeError, "ranges are a NoneType"),
        (PerPair, {"a": (0, 1)}, ValueError, r"the ranges have the key 'a': give pairs \(user id, item id\)"),
        (PerPair, {("a", "b", "c"): (0, 1)}, ValueError, "give pairs"),
        (
            PerItem,
            pd.DataFrame({"item": [1], "low": [0], "high": [1]}),
            ValueError,
            "has the columns 'item', 'low', 'hi",
        ),
        (PerItem, pd.DataFrame({"lower": [0], "upper": [1]}), ValueError, "give it 'item', 'lower', 'upper'"),
        (
            PerPair,
            pd.DataFrame({"user": [1], "lower": [0], "upper": [1]}),
            ValueError,
            "give it 'user', 'item', 'lower', 'upper'",
        ),
        (PerItem, pd.DataFrame({"item": [1], "lower": ["x"], "upper": [1]}), (ValueError, TypeError), "lower"),
    ],
)
def test_what_is_no_table_of_ranges_is_refused(kind, table, error, sentence):
    with pytest.raises(error, match=sentence):
        kind(table)


@pytest.mark.parametrize("default", [5, (1, 2, 3), "ab", (3, 1), (np.nan, 1), (0, np.inf), (0, None)])
def test_a_default_that_is_no_range_is_refused(default):
    with pytest.raises(ValueError, match=r"default=.*(give a pair|lower end above|only one|infinite)"):
        PerPair({(1, 2): (0, 1)}, default=default)


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        (PerItem({**ITEMS, "ale": (0, 1), "ice": (0, 1)}), [r"2 of 5 items .* have no ratings \(first: 'ale'\)"]),
        (PerUser({"ann": (0, 9), "bob": (0, 9), "eve": (0, 9), "joe": (0, 1)}), [r"1 of 4 users .* \(first: 'joe'\)"]),
        (PerPair({**dict.fromkeys(X, (0, 9)), ("joe", "tea"): (0, 9)}), [r"1 of 4 users .* \(first: 'joe'\)"]),
        (PerItem(ITEMS), []),
    ],
)
@pytest.mark.parametrize("model", [MBMF, BayesianMBMF])
def test_ids_that_never_occur_are_said_once(model, rule, told):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        fitted = model(2, bounds=rule, max_iter=2, n_iter_no_change=None, random_state=0)
        fitted.fit(X, Y, eval_set=(X[:2], Y[:2]))
        fitted.predict(X)
        fitted.recommend(["ann"])
        fitted.fold_in([("zoe", "tea")] if not isinstance(rule, (PerUser, PerPair)) else X[:1], [1.0])
        fitted.partial_fit(X[:1], [2.0])
    messages = [str(one.message) for one in said if "table of ranges" in str(one.message)]
    assert len(messages) == len(told)
    for message, sentence in zip(messages, told, strict=True):
        assert re.search(sentence, message)


# --- what bounds may be ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [MBMF, BayesianMBMF])
@pytest.mark.parametrize(
    ("bounds", "sentence"),
    [
        (
            "nonsense",
            r"bounds='nonsense': write \"columns\" for ranges in the third and fourth column of X, or their names",
        ),
        (ITEMS, r"a mapping does not tell whose ranges these are; write PerItem\(...\), PerUser\(...\) or PerPair"),
        (
            pd.DataFrame({"film": ["tea"], "lower": [0], "upper": [1]}),
            "bounds is a frame with the columns 'film', 'lower'",
        ),
        (pl.DataFrame({"item": ["tea"], "lo": [0], "hi": [1]}), "ranges come in the columns 'lower' and 'upper'"),
        (pd.DataFrame({"lower": [0], "upper": [1]}), "beside 'item', 'user' or both and no others; rename"),
        (("lower", "upper", "middle"), r"bounds=\('lower', 'upper', 'middle'\): give a pair such as"),
        ((), r"bounds=\(\): give a pair"),
        ({1, 5}, r"bounds=\{1, 5\}: give a pair such as .* or a rule for ranges of pairs"),
        (pd.Series([1, 5]), "or a rule for ranges of pairs"),
        (object(), "or a rule for ranges of pairs"),
        (7, r"bounds=7: give a pair such as \(1, 5\)"),
        ((1, "5"), r"bounds=\(1, '5'\): give a pair"),
    ],
)
def test_bounds_that_are_no_rule_are_refused(model, bounds, sentence):
    with pytest.raises(ValueError, match=sentence):
        fit(bounds, model)


def test_one_range_for_all_is_no_rule():
    for bounds in (None, (1, 5), (0, None), [1, 5], np.array([1.0, 5.0])):
        assert rule_of(bounds) is None


@pytest.mark.parametrize("model", [MBMF, BayesianMBMF])
def test_a_pair_without_a_range_and_no_default_is_refused_in_a_fit_and_in_a_prediction(model):
    some = PerItem({"tea": (0, 10), "rum": (0, 20)})
    with pytest.raises(ValueError, match=r"2 of 6 ranges have no ends.*add these items to PerItem.*item 'gin'"):
        fit(some, model)
    lacking = PerPair(dict.fromkeys(X[:-1], (0, 10)))
    with pytest.raises(ValueError, match=r"1 of 6 ranges have no ends.*user 'eve', item 'gin'"):
        fit(lacking, model)
    fitted = fit(PerItem(ITEMS), model)
    with pytest.raises(ValueError, match=r"1 of 2 ranges have no ends.*row 1, user 'ann', item 'ale'"):
        fitted.predict([("ann", "tea"), ("ann", "ale")])
    with pytest.raises(ValueError, match="1 of 1 ranges have no ends"):
        fitted.fold_in([("zoe", "ale")], [1.0])
    with pytest.raises(ValueError, match="1 of 1 ranges have no ends"):
        fitted.partial_fit([("zoe", "ale")], [1.0])
    assert 0 <= fit(PerPair(dict.fromkeys(X[:-1], (0, 10)), default=(0, 7)), model).predict([("ann", "ale")])[0] <= 7


# --- functions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (lambda users, items: None, "the function returned None: return two arrays, lower and upper ends"),
        (lambda users, items: 5, "the function returned 5: return two arrays"),
        (lambda users, items: (1, 2, 3), "the function returned .*: return two arrays"),
        (lambda users, items: ("a", "b"), "bounds: the function's lower"),
        (lambda users, items: ([0, 0], [1, 1]), "the function's lower has 2 values for 6 pairs: return one for each"),
        (lambda users, items: (0, [1, 1]), "the function's upper has 2 values for 6 pairs"),
        (lambda users, items: (np.zeros((6, 2)), 1), "bounds: the function's lower"),
        (lambda users, items: (10, 0), "6 of 6 ranges have a lower end above the upper one"),
        (lambda users, items: (0, np.inf), "an infinite end"),
        (lambda users, items: (0, np.nan), "only one"),
        (lambda users, items: (np.nan, np.nan), "6 of 6 ranges have no ends"),
    ],
)
def test_a_function_that_returns_no_ranges_is_refused(function, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        fit(function)


def test_what_a_function_raises_is_the_callers_to_see():
    def function(users, items):
        raise KeyError("no such flight")

    with pytest.raises(KeyError, match="no such flight"):
        fit(function)


def test_a_function_that_returns_nonsense_for_a_prediction_is_refused_there():
    calls = []

    def function(users, items):
        calls.append(len(users))
        return (0, 10) if len(calls) == 1 else (10, 0)

    model = fit(function)
    with pytest.raises(ValueError, match="a lower end above the upper one"):
        model.predict(X)
    with pytest.raises(ValueError, match="a lower end above the upper one"):
        model.recommend(["ann"])


def test_a_function_may_answer_with_one_number_for_all_and_keeps_its_own_arrays():
    own = np.zeros(6), np.full(6, 10.0)
    model = fit(lambda users, items: own if len(users) == 6 else (0, 10))
    assert np.array_equal(own[1], np.full(6, 10.0))
    assert np.array_equal(model.predict(X), fit(lambda users, items: (0, 10.0)).predict(X))


# --- ranges with the rows -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [MBMF, BayesianMBMF])
@pytest.mark.parametrize(
    ("beside", "sentence"),
    [
        ({"lower": np.zeros(6)}, "upper is missing: give both ends; one number stands for all rows"),
        ({"upper": 9}, "lower is missing: give both ends"),
        ({"lower": np.zeros(5), "upper": 9}, "lower has 5 values for 6 rows: give one for each row"),
        ({"lower": 0, "upper": [9] * 7}, "upper has 7 values for 6 rows"),
        (
            {"lower": 9, "upper": 0},
            r"6 of 6 ranges have a lower end above the upper one.*row 0, user 'ann', item 'tea'",
        ),
        ({"lower": 0, "upper": [9, 9, np.nan, 9, 9, 9]}, r"1 of 6 ranges have no ends.*row 2, user 'bob', item 'tea'"),
        ({"lower": -np.inf, "upper": 9}, "an infinite end: a range of a pair's own has two ends"),
        ({"lower": -1e200, "upper": 1e200}, "an end too large to be squared"),
        ({"lower": "a", "upper": 3}, "lower"),
        ({"lower": Y, "upper": Y}, "every range has a width of zero, so there is nothing to learn"),
    ],
)
def test_ends_beside_the_rows_that_are_none_are_refused(model, beside, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        fit(None, model, beside)


@pytest.mark.parametrize("model", [MBMF, BayesianMBMF])
def test_ends_that_are_none_are_refused_wherever_rows_come(model):
    fitted = fit(None, model, WIDE)
    asks = [fitted.predict, fitted.predict_range, lambda rows, **ends: fitted.score(rows, [1.0], **ends)]
    asks += [lambda rows, **ends: fitted.fold_in(rows, [1.0], **ends)]
    asks += [lambda rows, **ends: fitted.partial_fit(rows, [1.0], **ends)]
    asks += [fitted.predict_quantiles] if model is BayesianMBMF else []
    for ask in asks:
        with pytest.raises(ValueError, match="upper is missing: give both ends"):
            ask(X[:1], lower=0)
        with pytest.raises(ValueError, match="a lower end above the upper one"):
            ask(X[:1], lower=[4], upper=[3])
        with pytest.raises(ValueError, match="lower has 2 values for 1 rows"):
            ask(X[:1], lower=[4, 5], upper=9)
        with pytest.raises(ValueError, match=r"X has no columns of ranges: give it four columns .* or pass lower="):
            ask(X[:1])


@pytest.mark.parametrize("model", [MBMF, BayesianMBMF])
def test_ends_beside_one_range_for_all_are_refused(model):
    with pytest.raises(
        ValueError, match=r"bounds=\(1, 9\) is one for all: pass bounds=None beside them, or leave them"
    ):
        fit((1, 9), model, WIDE)
    plain = fit((1, 9), model)
    for ask in (plain.predict, plain.predict_range):
        with pytest.raises(ValueError, match="this model has one for all: leave them out"):
            ask(X, lower=0, upper=9)
    for take in (plain.fold_in, plain.partial_fit):
        with pytest.raises(ValueError, match="this model has one for all: leave them out"):
            take(X, Y, lower=0, upper=9)


@pytest.mark.parametrize(
    ("rows", "bounds", "sentence"),
    [
        (X, "columns", "X has no columns of ranges: give it four columns"),
        (np.array(X, object), "columns", "no columns of ranges"),
        (
            pd.DataFrame(COLUMNS, columns=list("abcd")),
            ("lo", "hi"),
            "X has the columns 'a', 'b', 'c', 'd': give it two",
        ),
        (pd.DataFrame(COLUMNS, columns=list("abcd")).drop(columns="d"), "columns", "X has the columns 'a', 'b', 'c'"),
        (
            pd.DataFrame(COLUMNS, columns=list("abcd")).assign(e=1),
            ("c", "d"),
            "give it two columns of ids, and the rang",
        ),
        (np.array([(*pair, "x", "y") for pair in X], object), "columns", "lower"),
        (np.array([(*pair, 9.0, 1.0) for pair in X], object), "columns", "a lower end above the upper one"),
    ],
)
def test_columns_of_ranges_that_are_not_there_or_none_are_refused(rows, bounds, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        fit(bounds, rows=rows)


def test_rows_may_be_lists_arrays_and_frames():
    wanted = fit(None, beside=WIDE).predict(X, **WIDE)
    frame = pd.DataFrame(COLUMNS, columns=["user", "item", "lo", "hi"])
    for rows, bounds in [
        (COLUMNS, "columns"),
        (np.array(COLUMNS, object), "columns"),
        (frame, "columns"),
        (frame, ("lo", "hi")),
        (frame[["hi", "user", "lo", "item"]], ("lo", "hi")),
        (pl.from_pandas(frame), ("lo", "hi")),
        (pa.Table.from_pandas(frame), ("lo", "hi")),
    ]:
        assert np.array_equal(fit(bounds, rows=rows).predict(rows), wanted)


@pytest.mark.parametrize("library", [pd, pl])
def test_one_end_may_be_a_number_and_the_other_a_column(library, tmp_path):
    X = library.DataFrame({"from": ["a", "a", "b", "c"], "to": ["x", "y", "x", "y"], "seats": [4.0, 9.0, 2.0, 7.0]})
    y = [3.0, 9.0, 0.0, 2.0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MBMF(2, bounds=(0, "seats"), random_state=0).fit(X, y)
        both = MBMF(2, random_state=0).fit(X[["from", "to"]], y, lower=0, upper=X["seats"])
    assert np.array_equal(model.predict(X), both.predict(X[["from", "to"]], lower=0, upper=X["seats"]))
    model.save(tmp_path / "model")
    assert np.array_equal(boundrec.load(tmp_path / "model").predict(X), model.predict(X))
    with pytest.raises(ValueError, match="has the columns 'from', 'to'"):
        model.predict(X[["from", "to"]])


def test_a_sparse_matrix_takes_rules_and_ends_in_the_order_of_its_entries():
    matrix = sp.coo_array((Y, ([0, 0, 1, 1, 2, 2], [0, 1, 0, 2, 1, 2])))
    ends = np.zeros(6), np.array([2.0, 3.0, 4.0, 5.0, 6.0, 7.0])
    settings = {"max_iter": 3, "random_state": 0}
    one = MBMF(2, **settings).fit(matrix, lower=ends[0], upper=ends[1])
    keys = list(zip(matrix.row.tolist(), matrix.col.tolist(), strict=True))
    rule = PerPair(dict(zip(keys, zip(*ends, strict=True), strict=True)))
    two = MBMF(2, bounds=rule, **settings).fit(matrix)
    assert np.array_equal(one.predict(keys, lower=ends[0], upper=ends[1]), two.predict(keys))


# --- what has no place beside ranges -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        {"form": "n"},
        {"magnitudes": "history"},
        {"magnitudes": "paper"},
        {"magnitudes": ({"ann": 1, "bob": 1, "eve": 1}, {"tea": 1, "rum": 1, "gin": 1})},
    ],
    ids=str,
)
def test_the_papers_magnitudes_have_no_place_beside_ranges_of_pairs(settings):
    with pytest.raises(
        ValueError, match='where every pair has a range of its own, that is its bound; pass form="c" and'
    ):
        fit(PerItem(ITEMS), **settings)


def test_history_has_no_place_beside_ranges_of_pairs():
    model = MBMF(2, bounds=PerItem(ITEMS), max_iter=2)
    with pytest.raises(ValueError, match="history sets magnitudes, but every pair has a range of its own"):
        model.fit(X, Y, history=(X, Y))


@pytest.mark.parametrize("growth", [-0.1, 1.5, "half", None, np.nan])
def test_a_growth_of_noise_that_is_none_is_refused(growth):
    with pytest.raises((ValueError, TypeError), match=r"noise_growth=.*between 0 and 1, or \"auto\""):
        fit(PerItem(ITEMS), noise_growth=growth)


def test_pairs_that_come_twice_with_other_ranges_have_no_mean():
    rows, ends = [*X, X[0]], {"lower": np.zeros(7), "upper": np.array([10.0] * 6 + [12.0])}
    with pytest.raises(
        ValueError, match=r"come more than once with different ranges: 1 \(first: user 'ann', item 'tea'"
    ):
        MBMF(2, duplicates="mean").fit(rows, [*Y, 2.0], **ends)
    model = MBMF(2, duplicates="last", max_iter=2, random_state=0).fit(rows, [*Y, 2.0], **ends)
    other = MBMF(2, max_iter=2, random_state=0).fit(
        X, [2.0, *Y[1:]], lower=np.zeros(6), upper=np.array([12.0] + [10.0] * 5)
    )
    assert np.array_equal(model.predict(X, lower=0, upper=10), other.predict(X, lower=0, upper=10))


def test_ratings_hold_ranges_of_their_own():
    from boundrec.data.ratings import Ends

    ratings = Ratings.read(X, Y, ends=Ends(WIDE["lower"], WIDE["upper"]))
    model = MBMF(2, bounds=PerItem(dict.fromkeys(ITEMS, (0, 10))), max_iter=2, random_state=0)
    assert np.array_equal(model.fit(ratings).predict(X), model.fit(X, Y).predict(X))
    with pytest.raises(ValueError, match="lower has 5 values for 6 ratings: give one for each rating"):
        Ratings.read(X, Y, ends=Ends(np.zeros(5), np.ones(5)))


def test_rivals_have_one_range_for_all_and_say_so():
    from boundrec import BMF

    with pytest.raises(ValueError, match="bounds="):
        BMF(2, bounds=PerItem(ITEMS)).fit(X, Y)
