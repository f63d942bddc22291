"""Coverage, novelty, diversity and popularity bias of lists against plain loops; intervals by the bootstrap."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
from boundrec import metrics

ITEMS = ["tea", "rum", 3, "3", (1, 2)]
USERS = ["ann", "bob", 7, "7"]


@st.composite
def chosen_and_lists(draw):
    """Pairs that a model learnt from, lists of some users padded to one length, and the same without padding."""
    pairs = draw(st.lists(st.tuples(st.sampled_from(USERS), st.sampled_from(ITEMS)), min_size=1))
    lists = {
        user: draw(st.permutations(ITEMS))[: draw(st.integers(0, len(ITEMS)))]
        for user in draw(st.lists(st.sampled_from(USERS), min_size=1, unique=True))
    }
    padded = [[*one, *[None] * (len(ITEMS) - len(one))] for one in lists.values()]
    return pairs, lists, padded


def columns(pairs):
    return [user for user, _ in pairs], [item for _, item in pairs]


def with_nan(values):
    return [np.nan if value is None else value for value in values]


@given(chosen_and_lists())
def test_novelty_and_popularity_bias_agree_with_plain_loops(data):
    pairs, lists, padded = data
    expected = with_nan(naive.novelty(pairs, list(lists.values())))
    assert metrics.novelty_of_lists(*columns(pairs), padded) == pytest.approx(expected, nan_ok=True)
    if np.isnan(expected).all():
        with pytest.raises(ValueError, match="No list has a single item"):
            metrics.novelty(*columns(pairs), padded)
    else:
        assert metrics.novelty(*columns(pairs), padded) == pytest.approx(np.nanmean(expected))
    bias = naive.popularity_bias(pairs, lists)
    if bias is None:
        with pytest.raises(ValueError, match="No list belongs to a user who chose something"):
            metrics.popularity_bias(*columns(pairs), list(lists), padded)
    else:
        assert metrics.popularity_bias(*columns(pairs), list(lists), padded) == pytest.approx(bias)


@given(chosen_and_lists(), st.integers(0, 2**32 - 1), st.integers(1, 5))
def test_diversity_and_coverage_agree_with_plain_loops(data, seed, k):
    _, lists, padded = data
    vectors = dict(zip(ITEMS, np.random.default_rng(seed).integers(-2, 3, (len(ITEMS), 3)), strict=True))
    given = ITEMS, list(vectors.values())
    expected = with_nan(naive.diversity([one[:k] for one in lists.values()], vectors))
    assert metrics.diversity_of_lists(padded, *given, k) == pytest.approx(expected, nan_ok=True)
    covered = len({item for one in lists.values() for item in one[:k]}) / len(ITEMS)
    assert metrics.catalogue_coverage(padded, ITEMS, k) == pytest.approx(covered)


@given(st.integers(1, 6), st.floats(1e-200, 1e200), st.integers(0, 2**32 - 1))
def test_diversity_does_not_see_lengths_nor_the_order_of_a_list_and_lies_between_0_and_2(n, unit, seed):
    rng = np.random.default_rng(seed)
    vectors, lists = rng.normal(size=(6, n)), np.array([rng.permutation(6)[:4] for _ in range(3)])
    found = metrics.diversity_of_lists(lists, np.arange(6), vectors)
    assert np.all((found > -1e-9) & (found < 2 + 1e-9))
    stretched = vectors * unit * rng.uniform(1, 2, (6, 1))
    assert metrics.diversity_of_lists(lists[:, ::-1], np.arange(6), stretched) == pytest.approx(found)
    same = np.tile(vectors[0], (6, 1))
    assert metrics.intra_list_diversity(lists, np.arange(6), same) == pytest.approx(0, abs=1e-9)


def test_a_small_catalogue_is_measured_as_by_hand():
    user, item = ["ann", "bob", "eve", "eve", "ann"], ["tea", "tea", "tea", "rum", "tea"]
    lists = np.array([["rum", "tea"], ["gin", None]], dtype=object)
    assert metrics.catalogue_coverage(lists, ["tea", "rum", "gin", "ale"]) == 3 / 4
    assert metrics.catalogue_coverage(lists, ["tea", "rum", "gin", "ale"], 1) == 1 / 2
    assert metrics.novelty_of_lists(user, item, lists) == pytest.approx([np.log2(3) / 2, np.log2(3)])
    profiles, in_lists = (1 + 1) / 2, ((1 / 3 + 1) / 2 + 0) / 2
    assert metrics.popularity_bias(user, item, ["ann", "bob"], lists) == pytest.approx(in_lists / profiles - 1)
    vectors = [[1, 0], [0, 2], [1, 1]]
    assert metrics.diversity_of_lists(lists, ["tea", "rum", "gin"], vectors) == pytest.approx([1, np.nan], nan_ok=True)


def test_lists_of_integers_are_padded_with_minus_one():
    lists = np.array([[0, 1, -1], [-1, -1, -1]])
    assert metrics.catalogue_coverage(lists, [0, 1, 2, 3]) == 1 / 2
    assert metrics.novelty_of_lists([5, 6], [0, 1], lists) == pytest.approx([1, np.nan], nan_ok=True)
    assert metrics.diversity_of_lists(lists, [0, 1], np.eye(2)) == pytest.approx([1, np.nan], nan_ok=True)


# --- bootstrap ----------------------------------------------------------------------------------------------------

numbers = st.lists(st.floats(-5, 5), min_size=1, max_size=30)


@given(numbers, st.integers(0, 99))
def test_means_are_those_of_users_drawn_again_and_do_not_see_who_says_nothing(values, seed):
    means = metrics.bootstrap_means(values, 50, seed)
    drawn = np.random.default_rng(seed).integers(0, len(values), (50, len(values)))
    assert means == pytest.approx([np.mean([values[one] for one in row]) for row in drawn])
    assert np.array_equal(means, metrics.bootstrap_means([np.nan, *values, np.nan], 50, seed))


@given(numbers, numbers, st.integers(0, 99))
def test_a_difference_is_of_pairs_of_the_same_users(one, other, seed):
    n = min(len(one), len(other))
    one, other = np.array(one[:n]), np.array(other[:n])
    found = metrics.bootstrap_difference(one, other, 0.9, 50, seed)
    paired = metrics.bootstrap_means(one, 50, seed) - metrics.bootstrap_means(other, 50, seed)
    assert found == pytest.approx(((one - other).mean(), *np.quantile(paired, [0.05, 0.95])), abs=1e-9)
    shifted = metrics.bootstrap_difference(one + 2, one, 0.9, 50, seed)
    assert shifted == pytest.approx((2, 2, 2))


def test_many_users_are_drawn_in_parts_and_intervals_are_as_wide_as_theory_has_it():
    values = np.random.default_rng(3).normal(1.0, 2.0, 40_000)
    mean, low, high = metrics.bootstrap_interval(values, n_resamples=400)
    assert mean == pytest.approx(values.mean())
    assert high - low == pytest.approx(2 * 1.96 * 2 / np.sqrt(40_000), rel=0.1)
    wider = metrics.bootstrap_interval(values, 0.99, 400)
    assert wider.low < low < mean < high < wider.high
    assert metrics.bootstrap_interval(values, n_resamples=400) == (mean, low, high)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: metrics.catalogue_coverage([1, 2], [1]), r"lists has shape \(2,\)"),
        (lambda: metrics.catalogue_coverage([[1]], []), "catalogue is empty"),
        (lambda: metrics.catalogue_coverage([[1]], [1], 0), "k=0 places"),
        (lambda: metrics.novelty([1], [1, 2], [[1]]), "item has 2 ids where 1 are needed"),
        (lambda: metrics.popularity_bias([1], [1], [2], [[1]]), "No list belongs to a user who chose something"),
        (lambda: metrics.popularity_bias([1], [1], [1, 2], [[1]]), "users has 2 ids where 1 are needed"),
        (lambda: metrics.intra_list_diversity([[1]], [1], [[1.0]]), "No list has a single pair of items"),
        (lambda: metrics.diversity_of_lists([[1, 2]], [1], [[1.0]]), r"1 places .* without a vector \(first: 2\)"),
        (lambda: metrics.diversity_of_lists([[1]], [1, 1], [[1.0], [1.0]]), "2 vectors of 1 items"),
        (lambda: metrics.diversity_of_lists([[1]], [1], [[np.nan]]), "vectors has 1 values that are NaN"),
        (lambda: metrics.diversity_of_lists([[1]], [1, 2], [[1.0]]), "items has 2 ids where 1 are needed"),
        (lambda: metrics.bootstrap_interval([[1.0]]), r"values has shape \(1, 1\)"),
        (lambda: metrics.bootstrap_interval([np.nan]), "values has no number"),
        (lambda: metrics.bootstrap_interval([np.inf]), "values has 1 values that are NaN or infinite"),
        (lambda: metrics.bootstrap_interval([1.0], 1.0), "level=1.0: pass a number above 0"),
        (lambda: metrics.bootstrap_interval([1.0], 0.5, 0), "n_resamples=0: pass a whole number from 1"),
        (lambda: metrics.bootstrap_difference([1.0, 2.0], [1.0]), "2 values and 1 others"),
        (lambda: metrics.bootstrap_interval(["a"]), "row 0 of values is 'a', not a number: convert every value"),
        (lambda: metrics.bootstrap_interval([1.0, "2"]), "row 1 of values is '2', not a number"),
        (lambda: metrics.bootstrap_difference([1.0], ["a"]), "row 0 of others is 'a', not a number"),
        (lambda: metrics.bootstrap_interval([1.0], "most"), "level='most': pass a number above 0"),
        (lambda: metrics.diversity_of_lists([[1]], [1], [["a"]]), r"row 0 of vectors\[0\] is 'a', not a number"),
    ],
)
def test_bad_input_is_answered_in_a_sentence(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()
