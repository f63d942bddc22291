"""Lists sorted anew: what is good, and not ten times the same. Lists in, shorter lists out."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from boundrec.arrays import Codes, Floats
from boundrec.metrics.catalogue import is_item, item_directions, refuse_unknown
from boundrec.metrics.checks import Ids, listed, numbers

#: Numbers of candidates' vectors held at a time.
AT_A_TIME = 1 << 22
#: What is added to the worth of a place without an item: less than any item has, and more than what is chosen.
BEHIND = -1e6


def rerank(
    lists: tuple[ArrayLike, ArrayLike], items: Ids, vectors: ArrayLike, n: int = 10, diversity: float = 0.3
) -> tuple[NDArray[Any], Floats]:
    """The n items of each list that are good and unlike each other, by greedy marginal relevance.

    Place by place, out of the candidates that are left, the item is chosen with the highest

        (1 − diversity) · relevance(j) − diversity · max over the chosen k of cos(v_j, v_k)

    where relevance is the score, from 0 for a list's lowest to 1 for its highest, and the first place goes to relevance
    alone (maximal marginal relevance; Carbonell and Goldstein, 1998). Equal ones stay in the order of the list.

    Parameters
    ----------
    lists : (items, scores)
        More candidates than are wanted, best first, as ``model.recommend(users, n=50)`` gives them for any model.
    items : array
        The item of each vector, each once.
    vectors : array of float, items × dimensions
        What items are compared by: features, or the factors of a model (``model.item_ids_.ids, model.item_factors_``).
    n : int
        Length of the new lists; that of the old ones where they are shorter.
    diversity : float
        0 keeps the order as it was, 1 looks only for what is unlike the items above it.

    Returns
    -------
    items, scores
        As ``recommend`` has them: the scores are those that the items had, and so no longer in order.

    Examples
    --------
    >>> from boundrec.reranking import rerank
    >>> lists = [["tea", "green tea", "rum"]], [[0.9, 0.8, 0.6]]
    >>> rerank(lists, ["tea", "green tea", "rum"], [[1, 0], [1, 0.1], [0, 1]], n=2, diversity=0.5)[0].tolist()
    [['tea', 'rum']]
    """
    shown, scores = _checked(lists)
    if not isinstance(n, int | np.integer) or isinstance(n, bool) or n < 1:
        raise ValueError(f"n={n!r}: pass a whole number from 1.")
    if not isinstance(diversity, Real) or not 0 <= diversity <= 1:
        raise ValueError(f"diversity={diversity!r}: pass a number from 0 to 1.")
    there = is_item(shown)
    index, directions = item_directions(items, vectors)
    codes = index.codes(shown.ravel()).reshape(shown.shape)
    refuse_unknown(shown, there & (codes < 0))
    length = min(int(n), shown.shape[1])
    relevance, behind = _relevance(scores, there), np.where(there, 0.0, BEHIND)
    step = max(1, AT_A_TIME // (shown.shape[1] * directions.shape[1]))
    places = np.concatenate(
        [
            _chosen(relevance[some], behind[some], directions[codes[some]], length, diversity)
            for some in (slice(start, start + step) for start in range(0, len(shown), step))
        ]
    )
    return np.take_along_axis(shown, places, axis=1), np.take_along_axis(scores, places, axis=1)


def _checked(lists: tuple[ArrayLike, ArrayLike]) -> tuple[NDArray[Any], Floats]:
    """Ids and scores of lists, of the same shape."""
    if not isinstance(lists, tuple) or len(lists) != 2:
        raise ValueError("lists is no pair of items and scores. Pass what recommend gives, with output='arrays'.")
    shown, scores = listed(lists[0]), numbers(lists[1], "scores")
    if scores.shape != shown.shape:
        raise ValueError(f"{shown.shape} items and {scores.shape} scores. Pass one score for each place of the lists.")
    bad = is_item(shown) & ~np.isfinite(scores)
    if bad.any():
        raise ValueError(f"{int(bad.sum()):,} items of the lists have no finite score. Leave them out of the lists.")
    return shown, scores


def _relevance(scores: Floats, there: NDArray[np.bool_]) -> Floats:
    """Scores from 0 for the lowest of a list to 1 for its highest; 0 where no item stands."""
    low = np.where(there, scores, np.inf).min(axis=1, keepdims=True)
    high = np.where(there, scores, -np.inf).max(axis=1, keepdims=True)
    width = np.where(high > low, high - low, 1.0)
    above: Floats = np.subtract(scores, low, out=np.zeros_like(scores), where=there)
    return above / width


def _chosen(relevance: Floats, behind: Floats, directions: Floats, n: int, diversity: float) -> Codes:
    """Places of the n items that are chosen from each list, in their order; what pads the list comes behind all."""
    rows = np.arange(len(relevance))
    places = np.empty((len(relevance), n), np.intp)
    worth, behind = relevance + behind, behind.copy()
    nearest = np.full(relevance.shape, -1.0)  # the highest cosine with what is chosen
    for rank in range(n):
        place = places[:, rank] = worth.argmax(axis=1)
        behind[rows, place] = -np.inf
        nearest = np.maximum(nearest, np.einsum("ik,ijk->ij", directions[rows, place], directions))
        worth = (1 - diversity) * relevance - diversity * nearest + behind
    return places
