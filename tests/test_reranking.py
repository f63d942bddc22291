"""Greedy marginal relevance against plain loops, and its laws."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

import naive
from boundrec import ImplicitMBMF, metrics
from boundrec import reranking as room
from boundrec.reranking import rerank

ITEMS = np.arange(8)


@st.composite
def candidates(draw):
    """Lists of some length with falling scores, short ones padded, and a vector for each item."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_lists, length = draw(st.integers(1, 4)), draw(st.integers(1, 8))
    lists = np.array([rng.permutation(8)[:length] for _ in range(n_lists)])
    scores = -np.sort(-rng.normal(size=lists.shape), axis=1)
    for row in range(n_lists):
        there = draw(st.integers(0, length))
        lists[row, there:], scores[row, there:] = -1, np.nan
    return lists, scores, rng.normal(size=(8, 3))


def without_padding(lists, scores):
    return [(one[one >= 0].tolist(), own[one >= 0].tolist()) for one, own in zip(lists, scores, strict=True)]


@given(candidates(), st.integers(1, 10), st.sampled_from([0.0, 0.2, 0.5, 0.9, 1.0]), st.sampled_from([1, 1 << 22]))
def test_lists_are_those_of_plain_loops(data, n, diversity, at_a_time):
    lists, scores, vectors = data
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(room, "AT_A_TIME", at_a_time)
        items, own = rerank((lists, scores), ITEMS, vectors, n, diversity)
    assert items.shape == own.shape == (len(lists), min(n, lists.shape[1]))
    for row, (one, scored) in enumerate(without_padding(lists, scores)):
        expected = naive.rerank(one, scored, vectors, n, diversity)
        assert items[row].tolist() == [*expected, *[-1] * (items.shape[1] - len(expected))]
        known = dict(zip(one, scored, strict=True))
        assert own[row] == pytest.approx([known.get(item, np.nan) for item in items[row].tolist()], nan_ok=True)


@given(candidates(), st.integers(1, 8))
def test_without_diversity_the_order_is_as_it_was_and_the_best_item_always_stays_first(data, n):
    lists, scores, vectors = data
    items, own = rerank((lists, scores), ITEMS, vectors, n, 0.0)
    assert np.array_equal(items, lists[:, :n])
    assert np.array_equal(own, scores[:, :n], equal_nan=True)
    assert np.array_equal(rerank((lists, scores), ITEMS, vectors, n, 1.0)[0][:, 0], lists[:, 0])


@given(candidates(), st.floats(0.01, 100), st.floats(-9, 9))
def test_units_of_scores_and_lengths_of_vectors_change_nothing(data, unit, shift):
    lists, scores, vectors = data
    found = rerank((lists, scores), ITEMS, vectors, 3, 0.4)[0]
    stretched = vectors * np.linspace(0.5, 3, 8)[:, None]
    assert np.array_equal(rerank((lists, unit * scores + shift), ITEMS, stretched, 3, 0.4)[0], found)


@given(candidates())
def test_the_more_diversity_is_asked_for_the_less_alike_are_the_first_two(data):
    lists, scores, vectors = data
    pairs = [rerank((lists, scores), ITEMS, vectors, 2, diversity)[0] for diversity in (0.0, 0.3, 0.7, 1.0)]
    found = np.array([metrics.diversity_of_lists(two, ITEMS, vectors) for two in pairs])
    assert np.all((np.diff(found, axis=0) > -1e-9) | np.isnan(found[1:]))


def test_any_model_can_be_asked_for_more_and_its_lists_shortened():
    rng = np.random.default_rng(0)
    clicks = np.argwhere(rng.random((40, 30)) < 0.2)
    model = ImplicitMBMF(4, max_iter=3, random_state=0).fit([(f"u{u}", f"i{i}") for u, i in clicks])
    candidates = model.recommend(n=20)
    vectors = model.item_ids_.ids, rng.normal(size=(len(model.item_ids_), 3))
    items, scores = rerank(candidates, *vectors, n=5, diversity=0.5)
    assert items.shape == scores.shape == (len(candidates[0]), 5)
    before = metrics.intra_list_diversity(candidates[0], *vectors, 5)
    assert metrics.intra_list_diversity(items, *vectors) > before


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rerank([[1]], [1], [[1.0]]), "lists is no pair of items and scores"),
        (lambda: rerank(([1], [1.0]), [1], [[1.0]]), r"lists has shape \(1,\)"),
        (lambda: rerank(([[1]], [[1.0, 2.0]]), [1], [[1.0]]), r"\(1, 1\) items and \(1, 2\) scores"),
        (lambda: rerank(([[1]], [[np.nan]]), [1], [[1.0]]), "1 items of the lists have no finite score"),
        (lambda: rerank(([[2]], [[1.0]]), [1], [[1.0]]), r"without a vector \(first: 2\)"),
        (lambda: rerank(([[1]], [[1.0]]), [1, 1], [[1.0], [1.0]]), "2 vectors of 1 items"),
        (lambda: rerank(([[1]], [[1.0]]), [1], [[1.0]], 0), "n=0: pass a whole number"),
        (lambda: rerank(([[1]], [[1.0]]), [1], [[1.0]], 1, 1.5), "diversity=1.5: pass a number from 0 to 1"),
        (lambda: rerank(([[1]], [[1.0]]), [1], [[1.0]], 1, np.nan), "diversity=nan: pass a number"),
        (lambda: rerank((csr_array([[1]]), [[1.0]]), [1], [[1.0]]), "lists is a csr_array. Pass an array"),
        (lambda: rerank(([[1]], csr_array([[1.0]])), [1], [[1.0]]), r"scores is a csr_array.*scores.toarray\(\)"),
        (lambda: rerank(([[1]], [[1.0]]), csr_array([[1]]), [[1.0]]), "items is a csr_array. Pass an array"),
        (lambda: rerank(([[1]], [[1.0]]), [1], csr_array([[1.0]])), r"vectors is a csr_array.*vectors.toarray\(\)"),
        (lambda: rerank(([[1]], [[1.0]]), [1], [[1.0]], 1, "much"), "diversity='much': pass a number from 0 to 1"),
        (lambda: rerank(([[1]], [["high"]]), [1], [[1.0]]), r"row 0 of scores\[0\] is 'high', not a number"),
        (lambda: rerank(([[1]], [[1.0]]), [1], [[1.0], []]), "vectors has rows of different lengths"),
    ],
)
def test_bad_input_is_answered_in_a_sentence(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()
