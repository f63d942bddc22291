"""The lists that every model has to be better than."""

import numpy as np
import pytest
import scipy.sparse as sp

import naive
from boundrec import Ratings
from boundrec.baselines import Popularity

X = [("ann", "tea"), ("ann", "rum"), ("bob", "tea"), ("bob", "gin"), ("eve", "rum"), ("eve", "tea"), ("ann", "tea")]


def test_everybody_gets_what_most_people_chose_without_what_they_chose():
    model = Popularity().fit(X)
    items, shares = model.recommend(["ann", "eve", "nobody"], n=2)
    assert items.tolist() == [["gin", None], ["gin", None], ["tea", "rum"]]
    assert np.allclose(shares[2], [1, 2 / 3])
    assert np.isnan(shares[0, 1])
    assert model.recommend(["ann"], n=9, exclude_seen=False)[0].tolist() == [["tea", "rum", "gin"]]


def test_a_score_is_the_share_of_users_who_chose_an_item():
    assert np.allclose(
        Popularity().fit(X, [5] * 7).predict([("ann", "gin"), ("nobody", "tea"), ("ann", "x")]), [1 / 3, 1, 0]
    )


@pytest.mark.parametrize("seed", range(5))
def test_lists_are_those_of_a_full_sort(seed):
    rng = np.random.default_rng(seed)
    chosen = rng.random((20, 12)) < 0.4
    matrix = sp.csr_array(chosen.astype(float))
    counts = chosen.sum(axis=0)
    seen = {tuple(pair) for pair in np.argwhere(chosen).tolist()}
    wanted = [[item for item in row if counts[item]] for row in naive.top_n(np.tile(counts, (20, 1)), seen, 4)]
    for data in (matrix, Ratings.read(matrix)):
        items, _ = Popularity().fit(data).recommend(n=4)
        assert [[item for item in row if item >= 0] for row in items.tolist()] == wanted
