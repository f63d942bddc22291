"""Features of ids: tables, mappings, matrices and graphs become one matrix, by rules that can be used again."""

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from boundrec.data.features import Encoding, Features, Graph, read_features
from boundrec.data.ids import IdIndex

AGES, GENDERS = [20.0, 30.0, None, 40.0], ["F", "M", "F", None]
PEOPLE = {"user": ["a", "b", "c", "d"], "age": AGES, "gender": GENDERS, "member": [True, False, False, True]}
DENSE = np.array([[1.0, 2, 7], [3, 2, 5], [5, 2, 0]])
SPARSE = csr_array([[3.0, 0, 0, 1], [0, 0, 4, 1], [0, 0, 0, 1]])
FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}


def as_mapping(columns):
    names = list(columns)[1:]
    rows = zip(*(columns[name] for name in names), strict=True)
    return {one: dict(zip(names, row, strict=True)) for one, row in zip(columns["user"], rows, strict=True)}


KINDS = {**FRAMES, "mapping": as_mapping}


def by_name(features):
    return dict(zip(features.names, features.matrix.toarray().T.tolist(), strict=True))


# --- the rules ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_are_standardised_categories_one_hot_and_missing_numbers_have_a_column(kind):
    features = read_features(KINDS[kind](PEOPLE))
    spread = np.sqrt(200 / 3)
    assert by_name(features) == {
        "age": pytest.approx([-10 / spread, 0, 0, 10 / spread]),
        "age missing": [0, 0, 1, 0],
        "gender=F": [1, 0, 1, 0],
        "gender=M": [0, 1, 0, 0],
        "member=False": [0, 1, 1, 0],
        "member=True": [1, 0, 0, 1],
    }
    assert features.ids.ids.tolist() == list("abcd")
    assert features.matrix.dtype == np.float64
    assert features.notes == ()


CATEGORIES = {
    "pandas text": pd.Series(["x", "y", None]),
    "pandas objects": pd.Series(["x", "y", None], dtype=object),
    "pandas categories": pd.Series(["x", "y", None], dtype=pd.CategoricalDtype(["never", "y", "x"])),
    "polars categories": pl.Series(["x", "y", None], dtype=pl.Categorical),
    "polars enumeration": pl.Series(["x", "y", None], dtype=pl.Enum(["y", "never", "x"])),
    "pyarrow dictionary": pa.array(["x", "y", None]).dictionary_encode(),
    "pyarrow text": pa.array(["x", "y", None], pa.large_string()),
}


@pytest.mark.parametrize("name", CATEGORIES)
def test_categories_of_every_library_are_one_hot_in_the_order_of_their_names(name):
    features = read_features(FRAMES[name.split()[0]]({"id": [1, 2, 3], "c": CATEGORIES[name]}))
    assert by_name(features) == {"c=x": [1, 0, 0], "c=y": [0, 1, 0]}


NUMBERS = {
    "pandas nullable": pd.Series([1, None, 3], dtype="Int64"),
    "pandas objects": pd.Series([1, None, 3.0], dtype=object),
    "pandas decimals": pd.Series([Decimal(1), None, Decimal(3)]),
    "polars integers": pl.Series([1, None, 3]),
    "polars NaN": pl.Series([1.0, float("nan"), 3.0]),
    "polars decimals": pl.Series([Decimal(1), None, Decimal(3)]),
    "pyarrow integers": pa.array([1, None, 3], pa.int8()),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_of_every_library_may_be_missing(name):
    features = read_features(FRAMES[name.split()[0]]({"id": [1, 2, 3], "x": NUMBERS[name]}))
    assert by_name(features) == {"x": [-1, 0, 1], "x missing": [0, 1, 0]}


def test_numbers_that_are_declared_categories_are_categories():
    frame = pd.DataFrame({"id": [1, 2, 3], "zip": pd.Series([10, 9, 10], dtype="category")})
    assert by_name(read_features(frame)) == {"zip=10": [1, 0, 1], "zip=9": [0, 1, 0]}


def test_every_column_of_a_table_adds_as_much_to_a_row_s_mean_square_norm():
    rng = np.random.default_rng(0)
    city = rng.choice(["x", "y", "z"], 200, p=[0.9, 0.08, 0.02])
    x = np.where(rng.random(200) < 0.3, np.nan, rng.normal(5, 9, 200))
    for column in (city, x, rng.random(200) < 0.05):
        matrix = read_features(pl.DataFrame({"id": range(200), "f": column})).matrix
        assert (matrix.toarray() ** 2).sum(axis=1).mean() == pytest.approx(1)


def test_a_number_that_is_constant_where_it_is_known_says_only_who_lacks_it():
    assert by_name(read_features({1: {"x": 4}, 2: {"x": None}, 3: {}})) == {"x missing": [0, 1, 1]}


def test_a_single_category_tells_who_has_it_from_who_lacks_it():
    assert by_name(read_features({1: {"c": "x"}, 2: {"c": None}, 3: {"c": "x"}})) == {"c=x": [1, 0, 1]}


def test_dense_matrices_are_standardised_and_constant_columns_left_out_with_a_note():
    features = read_features((["a", "b", "c"], DENSE), "item_features")
    assert features.names == ["feature 0", "feature 2"]
    assert features.matrix.toarray() == pytest.approx(
        (DENSE[:, [0, 2]] - DENSE[:, [0, 2]].mean(0)) / DENSE[:, [0, 2]].std(0)
    )
    assert features.notes == ("1 of 3 columns of item_features are the same for all and left out: 'feature 1'.",)


@pytest.mark.parametrize("rows", [DENSE.tolist(), list(map(tuple, DENSE)), list(DENSE)])
def test_vectors_by_id_are_a_dense_matrix(rows):
    by_id = read_features(dict(zip("abc", rows, strict=True)))
    assert by_id.matrix.toarray().tolist() == read_features((list("abc"), DENSE)).matrix.toarray().tolist()


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil"])
def test_sparse_matrices_are_scaled_to_rows_of_norm_one_in_the_mean_and_stay_sparse(form):
    features = read_features(([7, 8, 9], SPARSE.asformat(form)))
    assert features.names == ["feature 0", "feature 2"]  # the second is empty, the fourth full of ones
    scale = np.sqrt((9 + 16) / 3)
    assert features.matrix.toarray().tolist() == pytest.approx(np.array([[3, 0], [0, 4], [0, 0]]) / scale)
    assert features.matrix.nnz == 2


def test_a_sparse_matrix_that_was_given_is_left_as_it_was():
    # Unsorted, with a stored zero and a place that comes twice.
    matrix = csr_array((np.array([0.0, 3, 1, 2]), [1, 0, 1, 1], [0, 2, 4]), shape=(2, 2))
    before = [part.tolist() for part in (matrix.data, matrix.indices, matrix.indptr)]
    assert read_features(([1, 2], matrix)).matrix.nnz == 2
    assert [part.tolist() for part in (matrix.data, matrix.indices, matrix.indptr)] == before


PAIRS = [("a", "b"), ("b", "a"), ("a", "c"), ("d", "d"), ("c", "a")]


@pytest.mark.parametrize(
    "links", [PAIRS, np.array(PAIRS), pl.DataFrame(PAIRS, schema=["x", "y"], orient="row"), pd.DataFrame(PAIRS)]
)
def test_neighbours_share_one_whichever_way_and_however_often_they_are_linked(links):
    features = read_features(Graph(links))
    half = np.sqrt(0.5)
    assert by_name(features) == {
        "neighbour of a": [0, 1, 0, 1],
        "neighbour of b": pytest.approx([half, 0, 0, 0]),
        "neighbour of d": [0, 0, 0, 0],
        "neighbour of c": pytest.approx([half, 0, 0, 0]),
    }
    assert features.ids.ids.tolist() == ["a", "b", "d", "c"]


def test_a_graph_s_matrix_may_be_dense():
    links = np.array([[0, 2, 0], [1, 0, 1], [0, 0, 0]])
    dense, sparse = (read_features(Graph(one, ["a", "b", "c"])) for one in (links, csr_array(links)))
    assert np.array_equal(dense.matrix.toarray(), sparse.matrix.toarray())
    assert dense.names == sparse.names


def test_rows_of_a_graph_s_matrix_are_taken_as_they_are():
    features = read_features(Graph(csr_array([[5, 1, 9], [0, 0, 0], [0, 1, 0]]), ["a", "b", "c"]))
    half = np.sqrt(0.5)
    assert features.matrix.toarray().tolist() == pytest.approx(np.array([[0, half, half], [0, 0, 0], [0, 1, 0]]))


# --- ids ----------------------------------------------------------------------------------------------------


def test_the_id_column_has_the_ratings_name_or_is_the_index_or_comes_first():
    frame = pd.DataFrame({"x": [1, 2, 3], "user": [7, 8, 9]})
    for table, name in ((frame, "user"), (frame.set_index("user"), "user"), (frame[["user", "x"]], None)):
        features = read_features(table, id_name=name)
        assert (features.ids.ids.tolist(), features.names) == ([7, 8, 9], ["x"])


def test_rows_come_in_the_order_asked_for_and_are_zeros_for_those_without_features():
    features = read_features((["a", "b", "c"], DENSE))
    rows, there = features.rows_for(["c", "x", "a", "c"])
    whole = features.matrix.toarray()
    assert rows.toarray().tolist() == [whole[2].tolist(), [0, 0], whole[0].tolist(), whole[2].tolist()]
    assert there.tolist() == [True, False, True, True]
    assert features.rows_for(features.ids)[0].toarray().tolist() == whole.tolist()
    assert features.rows_for([])[0].shape == (0, 2)


def test_ids_that_only_features_have_are_told():
    features = read_features((["a", "b", "c"], DENSE))
    ratings, _ = IdIndex.encode(["b", "x"])
    assert features.only_here(ratings).tolist() == ["a", "c"]


def test_a_note_tells_how_many_of_the_ratings_ids_have_no_features():
    ratings, _ = IdIndex.encode(["b", "x", "y"])
    features = read_features((["a", "b"], [[1], [2]]), "user_features", known=ratings)
    assert features.notes == (
        "2 of 3 ids of the ratings are not in user_features (first: 'x'): they are taken for the mean.",
    )
    assert read_features((["b", "x", "y"], [[1], [2], [2]]), known=ratings).notes == ()


# --- the same rules again -----------------------------------------------------------------------------------


def test_new_ids_are_encoded_by_the_rules_of_the_fit():
    encoding = read_features(pl.DataFrame(PEOPLE)).encoding
    new = {"z": {"gender": "M", "age": 35, "member": True, "shoe": "9"}, "y": {"gender": None, "age": None}}
    new["y"]["member"] = None
    with pytest.warns(
        UserWarning, match="features have columns that were not there at fit .'shoe'.: they are passed over"
    ):
        features = encoding.encode(new)
    spread = np.sqrt(200 / 3)
    assert features.matrix.toarray()[0].tolist() == pytest.approx([5 / spread, 0, 0, 1, 0, 1])
    assert features.matrix.toarray()[1].tolist() == [0, 1, 0, 0, 0, 0]


def test_a_category_that_was_not_there_at_fit_is_none_with_one_warning():
    encoding = read_features(pl.DataFrame(PEOPLE)).encoding
    new = pl.DataFrame({"user": ["z", "y"], "age": [30, 30], "gender": ["X", "Y"], "member": [True, True]})
    with pytest.warns(UserWarning, match="not there at fit .'gender=X', 'gender=Y'.: they count as none") as said:
        features = encoding.encode(new)
    assert len(said) == 1
    assert by_name(features)["gender=F"] == by_name(features)["gender=M"] == [0, 0]


def test_columns_left_out_at_fit_need_not_come_again_in_a_table_but_do_in_a_matrix():
    encoding = read_features({1: {"x": 1, "one": 1}, 2: {"x": 3, "one": 1}}).encoding
    for again in (encoding, Encoding.from_parts(encoding.to_parts())):
        assert again.encode({3: {"x": 2}}).matrix.toarray().tolist() == [[0]]
        assert again.encode({3: {"x": 2, "one": "anything"}}).matrix.toarray().tolist() == [[0]]
    by_place = read_features((["a", "b", "c"], DENSE)).encoding
    assert by_place.encode({"d": [3, 9, 4]}).matrix.toarray() == pytest.approx(np.zeros((1, 2)))
    with pytest.raises(ValueError, match="2 columns and had 3 at fit"):
        by_place.encode({"d": [3, 4]})


def test_rows_are_told_in_the_units_that_they_were_given_in():
    people = read_features(pl.DataFrame({**PEOPLE, "one": 1}))
    rows = [people.encoding.as_given(row) for row in people.matrix.toarray()]
    assert rows[0].tolist() == pytest.approx([20, 0, 1, 0, 0, 1])
    assert rows[2].tolist() == pytest.approx([np.nan, 1, 1, 0, 1, 0], nan_ok=True)
    sparse = read_features(([7, 8, 9], SPARSE))
    assert sparse.encoding.as_given(sparse.matrix.toarray()[1]).tolist() == pytest.approx([0, 4])


def test_sparse_rows_of_new_ids_are_divided_by_the_scale_of_the_fit():
    encoding = read_features(([7, 8, 9], SPARSE)).encoding
    new = encoding.encode(([1], csr_array([[6.0, 5, 0, 0]])))
    assert new.matrix.toarray().tolist() == [pytest.approx([6 / np.sqrt(25 / 3), 0])]


def test_new_ids_have_the_neighbours_that_were_in_the_graph():
    encoding = read_features(Graph([("a", "b"), ("a", "c")])).encoding
    features = encoding.encode(Graph([("new", "a"), ("b", "new"), ("new", "newer")][:2]))
    assert features.rows_for(["new"])[0].toarray().tolist() == [pytest.approx([np.sqrt(0.5), np.sqrt(0.5), 0])]
    with pytest.warns(UserWarning, match="2 new ids .* no neighbour .*first: 'x'"):
        encoding.encode(Graph([("x", "y")]))


def test_what_is_known_of_ids_is_brought_up_to_date_and_of_others_it_stays():
    features = read_features({"a": [1.0], "b": [2.0], "c": [3.0]})
    more = features.encoding.encode({"b": [9.0], "new": [2.0]})
    now = features.updated(more, IdIndex(np.array(["new", "nobody", "b", "a"], object)))
    assert now.ids.ids.tolist() == ["new", "b", "a"]
    spread = np.std([1, 2, 3])
    assert now.rows_for(["a", "b", "new"])[0].toarray().ravel() == pytest.approx([-1 / spread, 7 / spread, 0])
    assert not now.rows_for(["c"])[1].any()


# --- laws ---------------------------------------------------------------------------------------------------

numbers = st.one_of(st.none(), st.integers(-50, 50), st.floats(-1e6, 1e6))
texts = st.one_of(st.none(), st.sampled_from(["F", "M", "é=ü", ""]))


@st.composite
def people(draw):
    n = draw(st.integers(2, 8))
    ids = draw(st.lists(st.integers(-99, 99), min_size=n, max_size=n, unique=True))
    x = [None if one is None else float(one) for one in draw(st.lists(numbers, min_size=n, max_size=n))]
    words = draw(st.lists(texts, min_size=n, max_size=n))
    flags = draw(st.lists(st.sampled_from([True, False, None]), min_size=n, max_size=n))
    return {"user": ids, "x": x, "word": words, "flag": flags, "sure": list(range(n))}


@given(people(), st.sampled_from(list(KINDS)), st.sampled_from(list(KINDS)))
def test_the_kind_of_table_does_not_matter_nor_does_encoding_it_again(table, kind, other):
    one, two = read_features(KINDS[kind](table)), read_features(KINDS[other](table))
    again = one.encoding.encode(KINDS[other](table))
    for found in (two, again):
        assert found.names == one.names
        assert found.ids == one.ids
        assert found.matrix.toarray().tolist() == one.matrix.toarray().tolist()
        assert found.matrix.has_canonical_format


@given(people(), st.randoms())
def test_the_order_of_rows_does_not_matter(table, random):
    order = list(range(len(table["user"])))
    random.shuffle(order)
    one = read_features(pl.DataFrame(table))
    two = read_features(pl.DataFrame({name: [column[k] for k in order] for name, column in table.items()}))
    assert one.names == two.names
    found = two.rows_for(one.ids)[0].toarray()
    assert np.allclose(found, one.matrix.toarray(), rtol=1e-9, atol=1e-9)  # sums in another order


@given(people())
def test_every_number_column_has_mean_0_and_spread_1_over_those_who_have_it(table):
    features = read_features(pl.DataFrame(table))
    for name, column in (("x", table["x"]), ("sure", table["sure"])):
        if name in features.names:
            has = [one is not None for one in column]
            values = np.array(by_name(features)[name])[has]
            assert values.mean() == pytest.approx(0, abs=1e-6)
            assert values.std() == pytest.approx(1, abs=1e-6)


PLAIN = (np.ndarray, str, int, float, IdIndex)


@given(people(), st.sampled_from(["table", "sparse", "graph"]))
def test_features_come_back_from_their_parts(table, form):
    ids = table["user"]
    given = {
        "table": pl.DataFrame(table),
        "sparse": (ids, csr_array(np.eye(len(ids)))),
        "graph": Graph([(ids[0], one) for one in ids]),
    }[form]
    features = read_features(given)
    parts = features.to_parts()
    assert all(isinstance(part, PLAIN) for part in parts.values())
    assert {part.dtype.str.strip("<|") for part in parts.values() if isinstance(part, np.ndarray)} <= {
        "f8", "i8", "i4", "u1", "b1"
    }  # fmt: skip
    back = Features.from_parts(parts)
    assert back.ids == features.ids
    assert back.names == features.names
    assert back.matrix.toarray().tolist() == features.matrix.toarray().tolist()
    assert back.encoding.encode(given).matrix.toarray().tolist() == features.matrix.toarray().tolist()


def flawed(parts, **flaws):
    return {**parts, **{name.replace("__", "."): flaw for name, flaw in flaws.items()}}


@pytest.mark.parametrize(
    ("given", "flaws"),
    [
        (pl.DataFrame(PEOPLE), {"indices": np.full(15, 99, np.int32)}),
        (pl.DataFrame(PEOPLE), {"data": np.full(15, np.nan)}),
        (pl.DataFrame(PEOPLE), {"indptr": np.array([0, 99])}),
        (pl.DataFrame(PEOPLE), {"encoding__form": "magic"}),
        (pl.DataFrame(PEOPLE), {"encoding__text_starts": np.array([0, 999])}),
        (pl.DataFrame(PEOPLE), {"encoding__n_levels": np.array([0, 2**40, 2])}),
        (pl.DataFrame(PEOPLE), {"encoding__n_levels": np.array([0, 2, -2])}),
        (pl.DataFrame(PEOPLE), {"encoding__scale": np.array([np.nan, 0, 0])}),
        (pl.DataFrame(PEOPLE), {"encoding__mean": np.array([0.0])}),
        (([7, 8, 9], SPARSE), {"encoding__kept": np.array([0, 9])}),
        (([7, 8, 9], SPARSE), {"encoding__scale": 0.0}),
        (Graph([(1, 2)]), {"encoding__neighbours": IdIndex(np.array([], np.int64))}),
    ],
)
def test_damaged_parts_are_refused(given, flaws):
    with pytest.raises(ValueError, match="damaged"):
        Features.from_parts(flawed(read_features(given).to_parts(), **flaws))


def test_an_encoding_comes_back_without_the_rows():
    encoding = read_features(pl.DataFrame(PEOPLE)).encoding
    assert Encoding.from_parts(encoding.to_parts()).names == encoding.names


# --- bad input ----------------------------------------------------------------------------------------------

LEVELS = [f"name {k}" for k in range(60)]


@pytest.mark.parametrize(
    ("given", "error", "sentence"),
    [
        (pd.DataFrame({"u": ["a", "a"], "x": [1, 2]}), ValueError, "have 'a' in more than one row: give each id one"),
        ((["a", "b", "a"], DENSE), ValueError, "'a' in more than one row"),
        ((["a", "b"], DENSE), ValueError, r"2 ids and a matrix of shape \(3, 3\): give one row for each"),
        ((["a", "b"], SPARSE), ValueError, r"2 ids and a matrix of shape \(3, 4\)"),
        ((["a", "b"], [[1, 2], [3]]), ValueError, "rows of user_features differ in length"),
        ((["a", "b"], [1, 2]), ValueError, r"shape \(2,\)"),
        ({"a": [1], "b": [1, 2]}, ValueError, "'b' has 2 features and 'a' has 1: give everybody the same"),
        ((["a", "b"], [["old"], [2]]), TypeError, "row 0 of 'feature 0' of user_features is 'old', not a number"),
        ({"a": ["1"], "b": ["2"]}, TypeError, "row 0 of 'feature 0' of user_features is '1', not a number"),
        ({"a": 25, "b": 30}, TypeError, "of 'a' are 25: give everybody a list of numbers"),
        ({"a": "F", "b": "M"}, TypeError, "of 'a' are 'F'"),
        ({"a": {"x": 1}, "b": [2]}, TypeError, "of 'a' are {'x': 1}: .*or everybody a dict"),
        ((["a", "b"], [[1.0], [np.nan]]), ValueError, "no number in 1 places of 'feature 0' .first: 'b'.*fill"),
        ((["a", "b"], np.ma.array([[1.0], [2]], mask=[[0], [1]])), ValueError, "no number.*'b'"),
        ((["a", "b"], [[1.0], [np.inf]]), ValueError, "infinite or too large.*inf of 'b'.*correct"),
        (pl.DataFrame({"u": [1, 2], "x": [1.0, -np.inf]}), ValueError, "1 values of 'x' in .*-inf of 2"),
        ({"a": {"x": 1}, "b": {"x": 1e200}}, ValueError, "1e.200 of 'b'"),
        ((["a", "b"], csr_array([[0, np.nan], [1, 0]])), ValueError, "1 entries.*nan in column 1 of 'a'.*leave them"),
        ((["a", "b"], csr_array([[0, 1], [np.inf, 0]])), ValueError, "inf in column 0 of 'b'"),
        ((["a", "b"], csr_array([[0, 1j], [1, 0]])), TypeError, "matrix of complex128: give real"),
        ((["a", "b"], [[1, 2], [1, 2]]), ValueError, "no column in which two ids differ .*'feature 0', 'feature 1'"),
        (pl.DataFrame({"u": [1, 2], "x": ["k", "k"]}), ValueError, "no column in which two ids differ"),
        (pl.DataFrame({"u": [1, 2], "x": [None, None]}), ValueError, "no column in which two ids differ"),
        ((["a", "b"], csr_array((2, 3))), ValueError, "no column in which two ids differ"),
        (pl.DataFrame({"u": [1, 2]}), ValueError, "ids and no other column"),
        (pl.DataFrame(), ValueError, "no column of ids"),
        (pl.DataFrame({"u": [], "x": []}), ValueError, "are empty"),
        ({}, ValueError, "are empty"),
        ({"a": {}}, ValueError, "are empty"),
        ({"a": []}, ValueError, "are empty"),
        (([], np.empty((0, 2))), ValueError, "are empty"),
        ([[1.0]], TypeError, "user_features are a list: give a pandas"),
        (pd.DataFrame([[1, 2, 3]], columns=["u", "x", "x"]), ValueError, "two columns .* same name: rename"),
        (pd.DataFrame({"u": [1, None], "x": [1, 2]}), ValueError, "row 1 of user_features has no user id"),
        (
            pl.DataFrame({"u": [1, 2], "x": ["k", "l"], "x=k": [3, 4]}),
            ValueError,
            "'x' and 'x=k' .* both .* 'x=k': rename",
        ),
        (pl.DataFrame({"u": [1, 2, 3], "x missing": [2, 1, 1], "x": [1, 3, None]}), ValueError, "both .* 'x missing'"),
        (pl.DataFrame({"u": range(60), "x": LEVELS}), ValueError, "'x' .* 60 categories for 60 ids .*leave it out"),
        (pd.DataFrame({"u": [1, 2], "x": [1, "n/a"]}), TypeError, "'x' .* holds 'n/a' in row 1.*neither numbers"),
        ({"a": {"x": True}, "b": {"x": 2}}, TypeError, "holds True in row 0"),
        ({"a": {"x": None}, "b": {"x": [2]}}, TypeError, r"holds \[2\] in row 1"),
        (pl.DataFrame({"u": [1], "x": [datetime.date(2020, 1, 1)]}), TypeError, "'x' of .* holds Date: .*year"),
        (pl.DataFrame({"u": [1], "x": [[1]]}), TypeError, "'x' of .* holds List"),
        (Graph(csr_array([[0, -2.0], [1, 0]]), ["a", "b"]), ValueError, "weight -2, from 'a' to 'b': give weights"),
        (Graph(csr_array([[0, np.nan], [1, 0]]), ["a", "b"]), ValueError, "nan in column 1 of 'a'"),
        (Graph(csr_array([[0, 1, 0], [1, 0, 0]]), ["a", "b"]), ValueError, r"shape \(2, 3\): give a square"),
        (Graph(csr_array([[0, 1], [1, 0]]), ["a"]), ValueError, r"1 ids and a graph of shape \(2, 2\)"),
        (Graph(csr_array([[0, 1], [1, 0]])), ValueError, r"without ids: write Graph\(matrix, ids\)"),
        (Graph([("a", "b")], ["a", "b"]), ValueError, "leave ids= out"),
        (Graph(np.ones((2, 3)), ["a", "b"]), ValueError, r"shape \(2, 3\): give a square"),
        (Graph(np.array([["x", "y"], ["y", "x"]]), ["a", "b"]), TypeError, "give real numbers"),
        (Graph([("a", "b", "c")]), TypeError, "give two columns of ids"),
        (Graph([("a", "a")]), ValueError, "nobody has a neighbour"),
        (Graph([]), ValueError, "nobody has a neighbour"),
        (Graph([("a", None)]), ValueError, "row 1 of user_features has no user id"),
    ],
)
def test_bad_features_are_answered_in_a_sentence(given, error, sentence):
    with pytest.raises(error, match=sentence):
        read_features(given, "user_features")


def test_a_table_without_the_ratings_id_column_is_refused():
    with pytest.raises(ValueError, match=r"no column of ids.*'x', 'y'.*call the one with the ids 'user'"):
        read_features(pl.DataFrame({"x": [1], "y": [2]}), id_name="user")


def test_features_of_other_ids_than_the_ratings_are_refused():
    ratings, _ = IdIndex.encode([1, 2])
    with pytest.raises(ValueError, match=r"share no id with the ratings .their first is '1'.*ratings 1.*same kind"):
        read_features((["1", "2"], [[1], [2]]), known=ratings)


TABLE, MATRIX = pl.DataFrame(PEOPLE), (["a", "b", "c"], DENSE)


@pytest.mark.parametrize(
    ("at_fit", "now", "error", "sentence"),
    [
        (TABLE, TABLE.drop("age"), ValueError, "no column 'age', which they had at fit: give all of .'age', 'gender'"),
        (TABLE, TABLE.with_columns(age=pl.lit("old")), TypeError, "'age' .*had numbers.*categories now .first: 'old'"),
        (TABLE, TABLE.with_columns(gender=pl.lit(1)), TypeError, "'gender' .*had categories.*numbers now .first: 1"),
        (TABLE, (["a"], csr_array([[1]])), TypeError, "were a table at fit and are a sparse matrix now"),
        (TABLE, Graph([(1, 2)]), TypeError, "were a table at fit and are a graph now"),
        (TABLE, {"z": [1, 2, 3]}, ValueError, "no column 'age'"),
        (MATRIX, (["z"], [[1, 2, 3, 4]]), ValueError, "4 columns and had 3 at fit"),
        (([7, 8, 9], SPARSE), MATRIX, TypeError, "were a sparse matrix at fit and are a table now"),
        (([7, 8, 9], SPARSE), ([1], csr_array([[1]])), ValueError, "1 columns and had 4 at fit"),
        (Graph([(1, 2)]), MATRIX, TypeError, "were a graph at fit and are a table now"),
    ],
)
def test_features_of_another_kind_than_at_fit_are_answered_in_a_sentence(at_fit, now, error, sentence):
    with pytest.raises(error, match=sentence):
        read_features(at_fit).encoding.encode(now)
