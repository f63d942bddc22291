"""The one door for data: what comes in, what is refused, and what never changes on the way."""

import datetime
import subprocess
import sys
import tracemalloc
from decimal import Decimal
from unittest import mock

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.utils import _safe_indexing

from boundrec.data import columns, ids
from boundrec.data.ratings import Csr, IdIndex, Ratings, RatingsError, pair_columns

PAIRS = [("ann", 31), ("bob", 31), ("ann", 7), ("cat", 31), ("bob", 9)]
VALUES = [4.0, 0.0, 2.5, 5.0, 1.0]
FRAMES = {
    "list": lambda users, items: list(zip(users, items, strict=True)),
    "tuple": lambda users, items: tuple([user, item] for user, item in zip(users, items, strict=True)),
    "object array": lambda users, items: np.array(list(zip(users, items, strict=True)), dtype=object),
    "pandas": lambda users, items: pd.DataFrame({"user": users, "item": items}),
    "pandas category": lambda users, items: pd.DataFrame({"user": users, "item": items}).astype("category"),
    "polars": lambda users, items: pl.DataFrame({"user": users, "item": items}),
    "pyarrow": lambda users, items: pa.table({"user": users, "item": items}),
}

integer_ids = st.one_of(st.integers(-5, 20), st.integers(-(2**63), 2**63 - 1))
string_ids = st.text(max_size=3)
mixed_ids = st.one_of(
    integer_ids,
    string_ids,
    st.tuples(st.integers(0, 2), string_ids),
    st.integers(2**64, 2**65),
    st.binary(max_size=2),
)
numbers = st.one_of(st.just(0.0), st.floats(-100, 100))


@st.composite
def observations(draw, ids=mixed_ids, unique=True):
    """A list of (user id, item id, rating)."""
    rows = st.tuples(ids, ids, numbers)
    unique_by = (lambda row: row[:2]) if unique else None
    return draw(st.lists(rows, min_size=1, max_size=30, unique_by=unique_by))


def split(rows):
    return [row[:2] for row in rows], [row[2] for row in rows]


def few(ids):
    """Ids that meet each other often."""
    return st.sampled_from(ids)


def triples_by_user(ratings):
    indptr, indices, data, _ = ratings.by_user
    assert indptr.size == ratings.n_users + 1
    return [
        (ratings.users.ids[row], ratings.items.ids[indices[k]], data[k])
        for row in range(ratings.n_users)
        for k in range(indptr[row], indptr[row + 1])
    ]


def triples_by_item(ratings):
    indptr, indices, data, _ = ratings.by_item
    assert indptr.size == ratings.n_items + 1
    return [
        (ratings.users.ids[indices[k]], ratings.items.ids[row], data[k])
        for row in range(ratings.n_items)
        for k in range(indptr[row], indptr[row + 1])
    ]


def assert_same_bits(one, other):
    for csr, twin in ((one.by_user, other.by_user), (one.by_item, other.by_item)):
        for array, twin_array in zip(csr, twin, strict=True):
            assert array.dtype == twin_array.dtype
            assert array.tobytes() == twin_array.tobytes()


def refusal(kind, *args, **kwargs):
    """The message of a refusal, which must be one line."""
    with pytest.raises(kind) as caught:
        Ratings.read(*args, **kwargs)
    message = str(caught.value)
    assert "\n" not in message
    return message


# Laws ---------------------------------------------------------------------------------------------------


@given(st.sampled_from([integer_ids, string_ids, mixed_ids]).flatmap(observations))
def test_pairs_survive_the_round_trip(rows):
    X, y = Ratings.from_pairs(*split(rows)).to_pairs()
    assert X.shape == (len(rows), 2)
    assert {(*pair, value) for pair, value in zip(X.tolist(), y.tolist(), strict=True)} == set(rows)
    again = Ratings.from_pairs(X, y)
    assert set(triples_by_user(again)) == set(rows)


@given(observations())
def test_both_orders_hold_the_same_triples_with_sorted_indices(rows):
    ratings = Ratings.from_pairs(*split(rows))
    assert set(triples_by_user(ratings)) == set(triples_by_item(ratings)) == set(rows)
    assert ratings.n_ratings == len(rows) == ratings.by_item.data.size
    for csr in (ratings.by_user, ratings.by_item):
        assert [array.dtype for array in csr] == [np.int64, np.int32, np.float64, np.float64]
        assert csr.weights.size == 0
        assert all(array.flags.c_contiguous and array.flags.writeable for array in csr)
        for row in range(csr.indptr.size - 1):
            assert np.all(np.diff(csr.indices[csr.indptr[row] : csr.indptr[row + 1]]) > 0)
    entries = zip(ratings.user_of_rating(), ratings.by_user.indices, strict=True)
    assert [(ratings.users.ids[u], ratings.items.ids[i]) for u, i in entries] == [
        triple[:2] for triple in triples_by_user(ratings)
    ]
    assert [ratings.items.ids[row] for row in ratings.by_item.row_of_entry()] == [
        triple[1] for triple in triples_by_item(ratings)
    ]


@given(observations(ids=st.integers(0, 6)), st.integers(0, 2**32))
def test_renaming_ids_leaves_every_array_the_same_bits(rows, seed):
    X, y = split(rows)
    plain = Ratings.from_pairs(X, y)
    shuffled = np.random.default_rng(seed).permutation(7)
    names = (
        lambda k: f"id {shuffled[k]}",
        lambda k: int(shuffled[k]) * 10**17,
        lambda k: (k % 2, str(k)) if k % 3 else k,
    )
    for name in names:
        assert_same_bits(plain, Ratings.from_pairs([(name(u), name(i)) for u, i in X], y))


@given(observations(ids=st.integers(0, 6)))
def test_sparse_and_pairs_agree(rows):
    X, y = split(rows)
    users, items = zip(*X, strict=True)
    coo = sp.coo_array((y, (users, items)), shape=(8, 9))
    for matrix in (coo, sp.csr_array(coo), sp.csc_array(coo), sp.csr_matrix(coo), sp.coo_matrix(coo)):
        ratings = Ratings.from_sparse(matrix)
        assert (ratings.n_users, ratings.n_items) == (8, 9)
        assert set(triples_by_user(ratings)) == set(triples_by_item(ratings)) == set(rows)
        assert_same_bits(ratings, Ratings.read(coo))


@given(
    observations(ids=few([1, "1", 2]), unique=False),
    st.sampled_from(["last", "mean"]),
    st.booleans(),
    st.data(),
)
def test_duplicates_obey_their_rule(rows, rule, weighted, data):
    X, y = split(rows)
    w = data.draw(st.lists(st.sampled_from([0.0, 0.5, 3.0]), min_size=len(y), max_size=len(y))) if weighted else None
    expected = merged_naively(X, y, w, rule)
    if weighted and not any(weight for _, weight in expected.values()):
        with pytest.raises(ValueError, match="all sample weights are 0"):
            Ratings.from_pairs(X, y, sample_weight=w, duplicates=rule)
        return
    ratings = Ratings.from_pairs(X, y, sample_weight=w, duplicates=rule)
    for csr, triples in (
        (ratings.by_user, triples_by_user(ratings)),
        (ratings.by_item, triples_by_item(ratings)),
    ):
        weights = csr.weights if csr.weights.size else np.ones(len(csr.data))
        found = {(u, i): (value, weight) for (u, i, value), weight in zip(triples, weights, strict=True)}
        assert found.keys() == expected.keys()
        for pair, (value, weight) in expected.items():
            # Two orders of adding up to 30 numbers below 100 differ by a few units in the last place.
            assert found[pair] == (
                pytest.approx(value, rel=1e-12, abs=1e-11),
                pytest.approx(weight, rel=1e-12),
            )
            given_values = [v for p, v in zip(X, y, strict=True) if p == pair]
            assert min(given_values) <= found[pair][0] <= max(given_values)


def merged_naively(X, y, w, rule):
    merged = {}
    for k, pair in enumerate(X):
        merged.setdefault(pair, []).append((y[k], 1.0 if w is None else w[k]))
    if rule == "last":
        return {pair: entries[-1] for pair, entries in merged.items()}
    result = {}
    for pair, entries in merged.items():
        total = sum(weight for _, weight in entries)
        if total == 0:
            mean = sum(value for value, _ in entries) / len(entries)
        else:
            mean = sum(value * weight for value, weight in entries) / total
        result[pair] = (mean, 1.0 if w is None else total)
    return result


@given(observations(), st.data())
def test_keep_takes_the_masked_ratings_and_nothing_else(rows, data):
    X, y = split(rows)
    weights = np.arange(1.0, len(y) + 1)
    ratings = Ratings.from_pairs(X, y, sample_weight=weights)
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=len(y), max_size=len(y))))
    if not mask.any():
        with pytest.raises(ValueError, match="keeps no rating"):
            ratings.keep(mask)
        return
    kept = ratings.keep(mask)
    assert kept.users is ratings.users
    assert kept.items is ratings.items
    expected = [triple for triple, wanted in zip(triples_by_user(ratings), mask, strict=True) if wanted]
    assert triples_by_user(kept) == expected
    assert set(triples_by_item(kept)) == set(expected)
    weight_of = dict(zip(X, weights, strict=True))
    if len(y) > 1:
        assert [weight_of[triple[:2]] for triple in triples_by_user(kept)] == kept.by_user.weights.tolist()
        assert [weight_of[triple[:2]] for triple in triples_by_item(kept)] == kept.by_item.weights.tolist()


@given(st.lists(mixed_ids, min_size=1), st.lists(mixed_ids))
def test_codes_find_every_known_id_and_no_other(column, others):
    index, codes = IdIndex.encode(column)
    assert list(index.ids) == list(dict.fromkeys(column))
    assert index.ids[codes].tolist() == column
    assert index.codes(column).tolist() == codes.tolist()
    assert index.codes(column).dtype == np.int64
    found = index.codes(others)
    for other, code in zip(others, found, strict=True):
        assert (other in column) == (code >= 0)
        assert code < 0 or index.ids[code] == other


@given(st.lists(integer_ids, min_size=1), st.lists(integer_ids))
def test_integers_are_looked_up_alike_in_a_table_by_bisection_and_in_a_dict(column, others):
    index, _ = IdIndex.encode(np.array(column))
    assert index.ids.dtype == np.int64
    place = {one: k for k, one in enumerate(dict.fromkeys(column))}
    expected = [place.get(one, -1) for one in others]
    assert index.codes(np.array(others, np.int64)).tolist() == expected
    assert index.codes(np.array(others, object)).tolist() == expected
    assert index.codes([*others, "text"]).tolist() == [*expected, -1]


@given(st.lists(integer_ids, min_size=1), st.lists(string_ids, min_size=1), st.integers(1, 4))
def test_ids_are_numbered_part_by_part_as_all_at_once(numbers, texts, part):
    close = [number % 50 for number in numbers]
    with mock.patch.object(ids, "PART", part), mock.patch.object(columns, "PART", part):
        for given_ids in (numbers, close, texts):
            frame = pl.DataFrame({"user": given_ids, "item": given_ids})
            for column in (*pair_columns(frame), given_ids, np.array(given_ids, object)):
                index, codes = IdIndex.encode(column)
                assert index.ids.tolist() == list(dict.fromkeys(given_ids))
                assert index.ids[codes].tolist() == given_ids
                assert index.codes(column).tolist() == codes.tolist()


@pytest.mark.parametrize("form", ["pandas", "polars", "pyarrow"])
def test_text_that_is_missing_in_a_later_part_is_refused_by_its_row(form, monkeypatch):
    monkeypatch.setattr(ids, "PART", 2)
    frame = FRAMES[form](["b", "a", "b", "c", None], ["x", "y", "z", "u", "v"])
    with pytest.raises(ValueError, match="row 4 of X has no user id"):
        Ratings.from_pairs(frame, [1, 2, 3, 4, 5])


# What comes in ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FRAMES)
@pytest.mark.parametrize(
    ("users", "items"),
    [(["b", "a", "b"], ["x", "x", "y"]), (["b", "a", "b"], [3, 3, 1]), ([5, 2, 5], [3, 3, 1])],
)
def test_every_frame_gives_the_same_bits_and_ids(form, users, items):
    ratings = Ratings.from_pairs(FRAMES[form](users, items), [1, 0, 2])
    assert_same_bits(ratings, Ratings.from_pairs(list(zip(users, items, strict=True)), [1, 0, 2]))
    assert ratings.users == IdIndex.encode(users)[0]
    assert ratings.items == IdIndex.encode(items)[0]
    assert ratings.users.ids.tolist() == users[:2]
    assert ratings.items.ids.tolist() == [items[0], items[2]]
    assert set(triples_by_user(ratings)) == set(zip(users, items, [1.0, 0.0, 2.0], strict=True))


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", "uint64", "float64", "float32", "Int64"])
def test_whole_numbers_of_any_type_are_the_same_ids(dtype):
    frame = pd.DataFrame({"u": [3, 1, 3], "i": [1, 1, 2]}).astype(dtype)
    expected = Ratings.from_pairs([(3, 1), (1, 1), (3, 2)], [1, 2, 3])
    for X in (frame, frame.to_numpy(), frame.to_numpy().astype(object)):
        ratings = Ratings.from_pairs(X, [1, 2, 3])
        assert_same_bits(ratings, expected)
        assert ratings.users == expected.users
        assert ratings.users.ids.dtype == np.int64


def test_equal_ids_of_different_types_are_one_id_and_text_is_another():
    index, codes = IdIndex.encode([1, 1.0, np.int64(1), "1", np.float32(1), np.str_("1")])
    assert codes.tolist() == [0, 0, 0, 1, 0, 1]
    assert [type(one) for one in index.ids] == [int, str]
    assert index.codes([1.0, "1", np.uint8(1), 2]).tolist() == [0, 1, 0, -1]
    assert IdIndex.encode([1, 2])[0].codes(["1", 2.0, 1.5, None]).tolist() == [-1, 1, -1, -1]
    assert IdIndex.encode([2.0, 1, 2])[0] == IdIndex.encode(np.array([2, 1]))[0]
    assert IdIndex.encode([1, 2])[0] != IdIndex.encode(["1", "2"])[0]
    assert IdIndex.encode([1, 2])[0] != IdIndex.encode([2, 1])[0]


def test_short_floats_are_compared_with_long_integers_without_a_warning():
    """2⁶³ is past the end of float16, and 2⁶³ − 1 has the hash of 3."""
    index, codes = IdIndex.encode(np.array([3, 7, 3], np.float16))
    assert (index.ids.tolist(), codes.tolist()) == ([3, 7], [0, 1, 0])
    index, codes = IdIndex.encode([np.float16(3), 2**63 - 1, 2**63, 3.5])
    assert index.ids.tolist() == [3, 2**63 - 1, 2**63, 3.5]
    assert index.codes([np.float16(3), np.float16(3.5), 2**63, 2**64]).tolist() == [0, 3, 2, -1]


def test_dates_fractions_and_unsigned_hashes_are_ids_too():
    day = datetime.date(2020, 1, 1)
    hashes = np.array([2**64 - 1, 5], np.uint64)
    assert IdIndex.encode([day, 0.5])[0].codes([0.5, day]).tolist() == [1, 0]
    assert IdIndex.encode(hashes)[0].codes([5, 2**64 - 1]).tolist() == [1, 0]
    assert IdIndex.encode(hashes)[0].codes(hashes).tolist() == [0, 1]
    days = np.array(["2020-01-01", "2020-01-02"], "M8[ns]")
    index, _ = IdIndex.encode(days)
    assert index.codes(days[::-1]).tolist() == [1, 0]
    assert index.ids.tolist() == list(days)


def test_integers_at_the_ends_of_their_type_are_found():
    ends = [2**63 - 1, 2**63 - 2, -(2**63)]
    assert IdIndex.encode(np.array(ends[:2]))[0].codes(np.array(ends)).tolist() == [0, 1, -1]
    assert IdIndex.encode(np.array(ends))[0].codes([*ends, 2**63]).tolist() == [0, 1, 2, -1]
    assert IdIndex.encode(np.array([2.0**63, 1.0]))[0].codes([1, 2**63, 2**63 - 1]).tolist() == [1, 0, -1]


def test_the_lookup_is_built_once_and_only_when_it_is_needed():
    index, _ = IdIndex.encode(["a", "b"])
    assert "_row_of_id" not in vars(index)
    index.codes(["a"])
    lookup = vars(index)["_row_of_id"]
    index.codes(["b"])
    assert vars(index)["_row_of_id"] is lookup


def test_an_empty_column_has_no_codes():
    index, _ = IdIndex.encode([3, 4])
    assert index.codes([]).size == IdIndex.encode(["a"])[0].codes(np.empty(0, object)).size == 0


def test_a_list_of_pairs_keeps_the_type_of_each_column():
    users, items = pair_columns([("u", 1), ("v", 2)])
    assert list(users) == ["u", "v"]
    assert list(items) == [1, 2]
    assert Ratings.from_pairs([("u", 1), ("v", 2)], [1, 2]).items.ids.dtype == np.int64


@pytest.mark.parametrize(
    "y",
    [
        [1, 0, 1],
        (True, False, True),
        np.array([[1], [0], [1]], np.float32),
        np.array([1, np.False_, Decimal(1)], dtype=object),
        pd.Series([1, 0, 1], index=[7, 8, 9]),
        pd.Series([1, 0, 1], dtype="Int64"),
        pd.DataFrame({"y": [True, False, True]}),
        pd.DataFrame([1, 0, 1]),
        pl.Series([1, 0, 1]),
        pl.Series([True, False, True]),
        pa.chunked_array([[1, 0, 1]]),
        pa.array([1.0, 0.0, 1.0]),
    ],
    ids=lambda y: f"{type(y).__module__.split('.')[0]}.{type(y).__name__}",
)
def test_ratings_come_as_any_column_of_numbers_or_bools(y):
    ratings = Ratings.from_pairs([("a", 1), ("a", 2), ("b", 1)], y)
    assert ratings.by_user.data.tolist() == [1.0, 0.0, 1.0]
    assert ratings.by_user.data.dtype == np.float64


def test_the_callers_arrays_are_neither_changed_nor_shared():
    X, y = np.array([[1, 1], [1, 2]]), np.array([3.0, 4.0])
    before = X.copy(), y.copy()
    ratings = Ratings.from_pairs(X, y)
    matrix = sp.csr_array(np.array([[1.0, 2.0]]))
    from_matrix = Ratings.from_sparse(matrix)
    for data in (ratings.by_user.data, from_matrix.by_user.data, from_matrix.by_item.data):
        data += 1
    from_matrix.by_user.indices[:] = 0
    np.testing.assert_array_equal(X, before[0])
    np.testing.assert_array_equal(y, before[1])
    np.testing.assert_array_equal(matrix.toarray(), [[1.0, 2.0]])


def test_stored_zeros_are_observations_in_every_sparse_format():
    coo = sp.coo_array(([0.0, 3.0, 0.0], ([0, 0, 2], [1, 0, 1])), shape=(3, 3))
    dok = sp.dok_array((3, 3))
    dok._dict.update({(0, 1): 0.0, (0, 0): 3.0, (2, 1): 0.0})
    for matrix in (coo, coo.tocsr(), coo.tocsc(), coo.tolil(), sp.csr_matrix(coo), dok):
        ratings = Ratings.read(matrix)
        assert set(triples_by_user(ratings)) == {(0, 1, 0.0), (0, 0, 3.0), (2, 1, 0.0)}
        assert set(triples_by_item(ratings)) == {(0, 1, 0.0), (0, 0, 3.0), (2, 1, 0.0)}


def test_a_sparse_matrix_with_doubled_places_obeys_the_duplicates_rule():
    coo = sp.coo_array(([1.0, 5.0, 2.0], ([0, 0, 1], [1, 1, 0])), shape=(2, 2))
    csr = sp.csr_array(([1.0, 5.0, 2.0], [1, 1, 0], [0, 2, 3]), shape=(2, 2))
    for matrix in (coo, csr):
        assert "user 0, item 1, in rows 0 and 1" in refusal(ValueError, matrix)
        assert Ratings.read(matrix, duplicates="last").by_user.data.tolist() == [5.0, 2.0]
        mean = Ratings.read(matrix, duplicates="mean", sample_weight=[3, 1, 1])
        assert mean.by_user.data.tolist() == [2.0, 2.0]
        assert mean.by_user.weights.tolist() == [4.0, 1.0]
    assert coo.nnz == csr.nnz == 3


def test_sparse_weights_follow_the_stored_entries():
    coo = sp.coo_array(([4.0, 5.0, 6.0], ([1, 0, 0], [0, 1, 0])), shape=(2, 2))
    ratings = Ratings.read(coo, sample_weight=[4, 5, 6])
    for csr in (ratings.by_user, ratings.by_item):
        np.testing.assert_array_equal(csr.weights, csr.data)
    assert "2 values for 3 ratings" in refusal(ValueError, coo, sample_weight=[1, 2])


def test_weights_travel_with_their_ratings():
    ratings = Ratings.from_pairs(PAIRS, VALUES, sample_weight=pd.Series([v + 1 for v in VALUES]))
    for csr in (ratings.by_user, ratings.by_item):
        np.testing.assert_array_equal(csr.weights, csr.data + 1)


def test_weights_of_one_are_no_weights():
    assert Ratings.from_pairs(PAIRS, VALUES, sample_weight=np.ones(5)).by_item.weights.size == 0


def test_an_observation_of_weight_zero_stays_an_observation():
    ratings = Ratings.from_pairs(PAIRS, VALUES, sample_weight=[0, 1, 1, 1, 1])
    assert ratings.n_ratings == 5
    assert ratings.by_user.weights.min() == 0


def test_pairs_are_found_where_more_of_them_are_possible_than_short_integers_count():
    n = 50_000
    ratings = Ratings.from_sparse(sp.diags_array(np.arange(1.0, n + 1)).tocsr())
    diagonal = np.column_stack([np.arange(n), np.arange(n)])
    np.testing.assert_array_equal(ratings.positions(diagonal), np.arange(n))


def test_the_mean_of_equal_ratings_is_that_rating():
    # 0.1 + 0.1 + 0.1 rounds upwards: without care the mean would pass a bound at 0.1.
    ratings = Ratings.from_pairs([("a", "b")] * 3, [0.1] * 3, duplicates="mean")
    assert ratings.by_user.data.tolist() == [0.1]
    ratings.check_bounds((None, 0.1))


def test_ratings_pass_through_the_door_unchanged():
    ratings = Ratings.from_pairs(PAIRS, VALUES)
    assert Ratings.read(ratings) is ratings


@pytest.mark.parametrize("form", ["list", "object array", "pandas", "polars", "pyarrow"])
def test_the_folds_that_scikit_learn_cuts_are_accepted(form):
    users, items = zip(*PAIRS, strict=True)
    fold = np.array([4, 1, 2])
    X = _safe_indexing(FRAMES[form](list(users), list(items)), fold)
    y = _safe_indexing(pd.Series(VALUES), fold)
    assert set(triples_by_user(Ratings.read(X, y))) == {(*PAIRS[k], VALUES[k]) for k in fold}


def test_bounds_with_open_ends_refuse_only_what_lies_outside():
    ratings = Ratings.from_pairs(PAIRS, VALUES)
    for bounds in ((0, 5), (None, 5), (0, None), (None, None)):
        ratings.check_bounds(bounds)
    with pytest.raises(ValueError, match=r"\(1, 4\): 2 of 5 \(first: user 'bob', item 31: 0\.0\); widen bounds"):
        ratings.check_bounds((1, 4))
    with pytest.raises(ValueError, match=r"\(None, 4\.5\): 1 of 5 \(first: user 'cat', item 31: 5\.0\)"):
        ratings.check_bounds((None, 4.5))


def test_reading_imports_neither_numba_nor_polars():
    code = (
        "import sys, boundrec.data.ratings as r; r.Ratings.read([(1, 'a')], [2]);"
        "print([m for m in ('numba', 'polars') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("stride", [1, 10**12], ids=["ids close together", "ids far apart"])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_peak_of_reading_is_at_most_two_and_a_half_times_the_two_orders(stride, weighted):
    rng = np.random.default_rng(0)
    cells = rng.permutation(np.unique(rng.integers(10_000 * 20_000, size=1_000_000)))
    X, y = np.column_stack(np.divmod(cells, 20_000)) * stride, rng.random(cells.size)
    weights = rng.random(cells.size) if weighted else None
    tracemalloc.start()
    try:
        ratings = Ratings.from_pairs(X, y, sample_weight=weights)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    size = sum(array.nbytes for csr in (ratings.by_user, ratings.by_item) for array in csr)
    assert size > 20 * cells.size
    assert peak <= 2.5 * size


# What is refused ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, None])
def test_ratings_that_are_not_finite_are_refused_with_their_place(bad):
    message = refusal(ValueError, PAIRS, [4, bad, 2, bad, 1])
    assert "2 of 5" in message
    assert f"row 1, user 'bob', item 31: {np.nan if bad is None else bad}" in message
    assert "user 0, item 2" in refusal(ValueError, sp.csr_array([[1.0, 0, np.nan]]))


def test_missing_ratings_of_every_library_are_refused():
    for y in (
        pd.Series([1, None, 2], dtype="Int64"),
        pl.Series([1, None, 2]),
        pl.Series([True, None, True]),
        pa.chunked_array([[1, None, 2]]),
        np.ma.array([1, 5, 2], mask=[0, 1, 0]),
    ):
        assert "1 of 3 (first: row 1" in refusal(ValueError, PAIRS[:3], y)


@pytest.mark.parametrize(
    "y",
    [
        [1, "4", 2],
        np.array(["1", "4", "2"])[[1, 1, 1]],
        pd.Series([1, "4", 2], dtype=object),
        pl.Series(["4"] * 3),
        pa.chunked_array([["4"] * 3]),
        pd.Series(["4"] * 3, dtype="category"),
    ],
    ids=["list", "numpy", "pandas", "polars", "pyarrow", "category"],
)
def test_text_is_no_rating_even_when_it_looks_like_a_number(y):
    message = refusal(TypeError, PAIRS[:3], y)
    assert "of y is '4', not a number" in message
    assert message.startswith("row ")


@pytest.mark.parametrize(
    ("X", "y", "kind", "words"),
    [
        (PAIRS[:2], [1j, 2], TypeError, "complex"),
        (PAIRS[:2], [datetime.date(2020, 1, 1), 2], TypeError, "row 0 of y is datetime.date(2020, 1, 1)"),
        (
            np.array([[1], [2]]),
            [1, 2],
            ValueError,
            "two columns, user ids and item ids, but has shape (2, 1)",
        ),
        (np.ones((2, 3), int), [1, 2], ValueError, "shape (2, 3)"),
        (np.array([1, 2]), [1, 2], ValueError, "shape (2,)"),
        ([1, 2], [1, 2], ValueError, "its row 0 is 1"),
        (["ab", "cd"], [1, 2], ValueError, "its row 0 is 'ab'"),
        ([(1, 2), (1, 2, 3)], [1, 2], ValueError, "its row 1 is (1, 2, 3)"),
        ([{1, 2}], [1], ValueError, "its row 0 is {1, 2}"),
        (([1, 2, 3], [4, 5, 6]), [1, 2, 3], ValueError, "zip(users, items)"),
        (pd.DataFrame({"u": [1]}), [1], ValueError, "has 1: ['u']"),
        (pl.DataFrame({"u": [1], "i": [2], "r": [3]}), [1], ValueError, "has 3: ['u', 'i', 'r']"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), [1], ValueError, "different names"),
        (PAIRS[:2], [[1, 2], [3, 4]], ValueError, "y must be one column of numbers, but has shape (2, 2)"),
        (PAIRS[:2], [[1, 2], [3]], ValueError, "differ in length"),
        (PAIRS[:2], 3.0, ValueError, "shape ()"),
        (PAIRS[:2], pd.DataFrame({"a": [1, 2], "b": [1, 2]}), ValueError, "shape (2, 2)"),
        (PAIRS, [1, 2, 3], ValueError, "X has 5 rows but y has 3"),
        (PAIRS, None, ValueError, "y is missing"),
        ([], [], ValueError, "empty"),
        (np.empty((0, 2)), [], ValueError, "empty"),
        (pl.DataFrame({"u": [], "i": []}), [], ValueError, "empty"),
        (sp.csr_array((3, 4)), None, ValueError, "no stored entries"),
        (sp.csr_array((0, 4)), None, ValueError, "no stored entries"),
        (sp.csr_array([[1.0]]), [1.0], ValueError, "pass y=None"),
        (sp.csr_array([[1.0j]]), None, TypeError, "complex"),
        (sp.coo_array([1.0, 2.0]), None, ValueError, "users × items, but has shape (2,)"),
        (sp.bsr_array(np.eye(2)), None, TypeError, "bsr format"),
        (sp.dia_array(np.eye(2)), None, TypeError, "dia format"),
        (Ratings.from_pairs([(1, 2)], [3]), [3], ValueError, "pass y=None"),
        (
            {"u": [1]},
            [1],
            TypeError,
            "X is a dict, but must be an array or a list of (user id, item id) pairs",
        ),
        ("ab", [1], TypeError, "X is a str"),
        (None, [1], TypeError, "X is a NoneType"),
        (pd.Series([1]), [1], TypeError, "X is a Series"),
        (pl.LazyFrame({"u": [1], "i": [1]}), [1], TypeError, "X is a LazyFrame"),
        ([("a", [1])], [1], TypeError, "item ids must be hashable, but row 0 of X has [1]"),
        (
            [("a", 1), (("b", [2]), 1)],
            [1, 2],
            TypeError,
            "user ids must be hashable, but row 1 of X has ('b', [2])",
        ),
        ([("a", 1), ("b", 1), ("a", 1)], [1, 2, 3], ValueError, "user 'a', item 1, in rows 0 and 2"),
    ],
)
def test_bad_input_is_answered_in_a_sentence(X, y, kind, words):
    assert words in refusal(kind, X, y)


@pytest.mark.parametrize(
    ("X", "place"),
    [
        ([("a", 1), (None, 1)], "row 1 of X has no user id (None)"),
        ([("a", 1), ("b", float("nan"))], "row 1 of X has no item id (nan)"),
        (np.array([[1.0, 1.0], [2.0, np.nan]]), "row 1 of X has no item id (nan)"),
        (np.ma.array([[1, 1], [2, 3]], mask=[[0, 0], [1, 0]]), "row 1 of X has no user id (None)"),
        (pd.DataFrame({"u": ["a", None], "i": [1, 2]}), "row 1 of X has no user id (nan)"),
        (pd.DataFrame({"u": [1, None], "i": [1, 2]}, dtype="Int64"), "row 1 of X has no user id (<NA>)"),
        (
            pd.DataFrame({"u": pd.to_datetime(["2020-01-01", None]), "i": [1, 2]}),
            "row 1 of X has no user id (NaT)",
        ),
        (pl.DataFrame({"u": ["a", None], "i": [1, 2]}), "row 1 of X has no user id (None)"),
        (pl.DataFrame({"u": [1, None], "i": [1, 2]}), "row 1 of X has no user id (None)"),
        (pa.table({"u": [1, 2], "i": [1, None]}), "row 1 of X has no item id (None)"),
    ],
)
def test_a_missing_id_is_refused_with_its_place(X, place):
    assert place in refusal(ValueError, X, [1, 2])


@pytest.mark.parametrize(
    ("weights", "kind", "words"),
    [
        ([1, 2], ValueError, "sample_weight has 2 values for 5 ratings"),
        ([1, 1, -2, 1, -1], ValueError, "2 of 5 are not (first: row 2: -2.0)"),
        ([1, 1, np.nan, 1, 1], ValueError, "first: row 2: nan"),
        ([1, 1, 1, 1, np.inf], ValueError, "first: row 4: inf"),
        ([0] * 5, ValueError, "all sample weights are 0"),
        (["1"] * 5, TypeError, "row 0 of sample_weight is '1', not a number: convert every weight"),
    ],
)
def test_bad_weights_are_refused(weights, kind, words):
    assert words in refusal(kind, PAIRS, VALUES, sample_weight=weights)


@pytest.mark.parametrize("X", [PAIRS[:1], sp.csr_array([[1.0]]), Ratings.from_pairs([(1, 2)], [3])])
def test_an_unknown_duplicates_rule_is_refused(X):
    y = [1] if isinstance(X, list) else None
    assert "('raise', 'last', 'mean', 'sum'), not 'add'" in refusal(ValueError, X, y, duplicates="add")


def test_a_ratings_with_weights_from_outside_is_refused():
    ratings = Ratings.from_pairs(PAIRS, VALUES)
    assert "holds its own ratings and weights" in refusal(ValueError, ratings, sample_weight=VALUES)


@pytest.mark.parametrize("X", [sp.csr_array([[1.0]]), Ratings.from_pairs([(1, 2)], [3])])
def test_what_is_not_pairs_has_no_pair_columns(X):
    with pytest.raises(TypeError, match="predict takes pairs of ids"):
        pair_columns(X)


def test_from_sparse_refuses_a_dense_array():
    with pytest.raises(TypeError, match="from_sparse takes a scipy sparse matrix or array, not a ndarray"):
        Ratings.from_sparse(np.eye(2))


@pytest.mark.parametrize("mask", [np.ones(4, bool), np.ones(5, int), [0, 1]])
def test_a_mask_of_another_kind_or_length_is_refused(mask):
    with pytest.raises(ValueError, match="one bool for each of the 5 ratings"):
        Ratings.from_pairs(PAIRS, VALUES).keep(mask)


def test_keeping_only_weights_of_zero_is_refused():
    ratings = Ratings.from_pairs([(1, 1), (1, 2)], [3, 4], sample_weight=[0, 1])
    with pytest.raises(ValueError, match="all sample weights are 0"):
        ratings.keep(np.array([True, False]))


def test_an_unhashable_id_is_refused_in_codes_too():
    with pytest.raises(TypeError, match=r"^\[1\] in row 1 cannot be an id: give a number"):
        IdIndex.encode(["a"])[0].codes(["a", [1]])
    with pytest.raises(TypeError, match=r"^\[1\] cannot be an id: give a number"):
        IdIndex.encode(["a"])[0].codes([[1]])


def test_a_ratings_and_its_index_say_how_large_they_are():
    ratings = Ratings.from_pairs(PAIRS, VALUES)
    assert repr(ratings) == "Ratings(5 ratings, 3 users × 3 items)"
    assert repr(ratings.users) == "IdIndex(3 ids)"
    assert isinstance(ratings.by_user, Csr)


# --- other row numbers, and ratings that come later ----------------------------------------------------------


def by_pair(ratings):
    X, y = ratings.to_pairs()
    weights = ratings.by_user.weights if ratings.by_user.weights.size else np.ones(len(y))
    return {pair: (v, c) for pair, v, c in zip(map(tuple, X.tolist()), y.tolist(), weights.tolist(), strict=True)}


meeting_ids = few([-2, 0, 3, "3", "a", (1, 2), 2.5])
rated_pairs = st.dictionaries(
    st.tuples(meeting_ids, meeting_ids), st.tuples(st.integers(-3, 3), st.integers(1, 2)), min_size=1
)


def read(pairs):
    values, weights = zip(*pairs.values(), strict=True)
    return Ratings.from_pairs(list(pairs), list(values), sample_weight=list(weights))


@given(rated_pairs, rated_pairs)
def test_new_ratings_replace_those_of_the_same_pair_and_known_row_numbers_stay(old, new):
    before = read(old)
    after = before.with_new(read(new))
    assert by_pair(after) == {**by_pair(before), **by_pair(read(new))}
    assert after.users.ids[: before.n_users].tolist() == before.users.ids.tolist()
    assert after.items.ids[: before.n_items].tolist() == before.items.ids.tolist()
    assert len(set(after.users.ids.tolist())) == after.n_users


@given(rated_pairs, rated_pairs)
def test_renumbered_ratings_are_the_same_ratings_in_the_rows_of_the_other_ids(some, more):
    ratings = read(some)
    wide = read(more).with_new(ratings)
    found = ratings.renumbered(wide.users, wide.items)
    assert by_pair(found) == by_pair(ratings)
    assert found.users is wide.users
    rows = np.flatnonzero(np.diff(found.by_user.indptr))
    assert set(found.users.ids[rows].tolist()) == {user for user, _ in some}


@given(rated_pairs, st.data())
def test_rows_are_taken_in_the_order_asked_for(pairs, data):
    csr = read(pairs).by_user
    rows = np.array(data.draw(st.lists(st.integers(0, csr.indptr.size - 2))), dtype=int)
    taken = csr.take(rows)
    assert taken.indptr[0] == 0
    for k, row in enumerate(rows):
        ours, theirs = slice(*taken.indptr[k : k + 2]), slice(*csr.indptr[row : row + 2])
        for name in ("indices", "data", "weights"):
            values = getattr(csr, name)
            assert not values.size or getattr(taken, name)[ours].tolist() == values[theirs].tolist()


def damaged(format, name, values):
    matrix = sp.coo_array(([5.0, 3.0, 4.0, 1.0], ([0, 0, 1, 2], [0, 1, 1, 2])), (3, 3)).asformat(format)
    array = np.array(values)
    if format == "coo":
        matrix.coords = (array, matrix.col) if name == "row" else (matrix.row, array)
    else:
        setattr(matrix, name, array)
    return matrix


@pytest.mark.parametrize("format", ["csr", "csc"])
@pytest.mark.parametrize(
    "starts",
    [
        [0, 2**63 - 1, -2, 4],  # differences wrap around and are all positive
        [0, 2**40, 3, 4],
        [0, 3, 2, 4],
        [-8, 2, 3, 4],
        [1, 2, 3, 4],
        [0, 2, 3, 2**62],
        [0, 2, 3, 3],
        [0, 2, 4],
        [0, 1, 2, 3, 4],
    ],
    ids=str,
)
def test_a_sparse_matrix_whose_rows_lie_outside_its_entries_is_refused(format, starts):
    with pytest.raises(ValueError, match=r"the sparse matrix is damaged: its indptr does not cut its 4 entries"):
        Ratings.from_sparse(damaged(format, "indptr", starts))


@pytest.mark.parametrize("format", ["csr", "csc"])
def test_a_sparse_matrix_with_fewer_indices_than_entries_is_refused(format):
    with pytest.raises(ValueError, match="the sparse matrix is damaged"):
        Ratings.from_sparse(damaged(format, "indices", [0, 1, 1]))


@pytest.mark.parametrize("number", [-1, 3, 2**32, 2**63 - 1, -(2**63)])
@pytest.mark.parametrize(
    ("format", "name", "kind"),
    [("csr", "indices", "item"), ("csc", "indices", "user"), ("coo", "row", "user"), ("coo", "col", "item")],
)
def test_a_sparse_matrix_of_users_or_items_that_do_not_exist_is_refused(format, name, kind, number):
    with pytest.raises(ValueError, match=rf"the sparse matrix has a rating of {kind} {number}, but there are 3 .entry"):
        Ratings.from_sparse(damaged(format, name, [0, 1, number, 2]))


@pytest.mark.parametrize("number", [-1, 2, 2**31 - 1])
def test_codes_of_users_that_do_not_exist_are_refused(number):
    users, items = IdIndex(np.array([7, 8])), IdIndex(np.array([1, 2]))
    codes = np.array([0, number], np.int32)
    with pytest.raises(ValueError, match=rf"y has a rating of user {number}, but there are 2"):
        Ratings.from_codes((users, codes), (items, np.array([0, 1], np.int32)), [1.0, 2.0])


def test_what_is_refused_carries_how_many_which_rows_and_whose():
    users, items = IdIndex(np.array([7, 8])), IdIndex(np.array([1, 2]))
    rows = (users, np.array([1, 0, 0, 1], np.int32)), (items, np.array([0, 1, 0, 0], np.int32))
    with pytest.raises(RatingsError) as refused:
        Ratings.from_codes(*rows, [1.0, 2.0, 3.0, 4.0])
    found = refused.value
    assert (found.flaw, found.count, found.total, found.rows, found.pair) == ("duplicates", 1, 4, (0, 3), (8, 1))
    ratings = Ratings.from_codes(*rows, [9.0, 2.0, 8.0, 4.0], "last")
    assert ratings.rows.tolist() == [2, 1, 3]
    assert ratings.keep(np.array([True, False, True])).rows.tolist() == [2, 3]
    with pytest.raises(RatingsError) as refused:
        ratings.check_bounds((3, 5))
    found = refused.value
    assert (found.flaw, found.count, found.total, found.rows, found.value) == ("bounds", 2, 3, (1,), 2.0)  # in row 1
    assert found.pair == (7, 2)


# --- ids that nobody rated ----------------------------------------------------------------------------------


def test_ids_that_nobody_rated_follow_those_that_there_are():
    ratings = Ratings.read(pd.DataFrame(PAIRS, columns=["user", "item"]), VALUES)
    users, items = (index.extended(IdIndex(np.array(["new"], object))) for index in (ratings.users, ratings.items))
    more = ratings.with_more_ids(users, items)
    assert (more.n_users, more.n_items, more.n_ratings) == (4, 4, 5)
    assert more.names == ("user", "item")
    again = ratings.renumbered(users, items)
    for side in ("by_user", "by_item"):
        assert all(np.array_equal(*both) for both in zip(getattr(more, side), getattr(again, side), strict=True))


def test_no_ratings_of_anybody_can_be_given_ids():
    ids = IdIndex(np.array([3, 5]))
    none = Ratings.none(ranged=True).renumbered(ids, ids)
    assert (none.n_users, none.n_items, none.n_ratings, len(none.ends.lower)) == (2, 2, 0, 0)


def test_entries_count_as_often_as_they_are_weighed():
    csr = Ratings.read(PAIRS, VALUES).by_user
    assert csr.weighed(np.arange(5.0)).weights.tolist() == [0, 1, 2, 3, 4]
    assert csr.weighed(np.arange(5.0)).weighed(np.full(5, 2.0)).weights.tolist() == [0, 2, 4, 6, 8]
