"""Top lists against held-out items: how much of what people chose besides is in their lists, and how far up.

`measure_lists` has a value for each user, which `boundrec.metrics.bootstrap_interval` takes; the other functions are
means of one of its columns.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from boundrec.data.ids import IdIndex
from boundrec.metrics.checks import Ids, Numbers, finite, id_column, listed

Codes = NDArray[np.intp]


class ListMeasures(NamedTuple):
    """How good each list is, one value for each of ``users``; NaN for those without held-out items."""

    ndcg: Numbers  #: DCG@k / IDCG@k; NaN where no held-out item has a positive gain, too
    recall: Numbers  #: |list@k ∩ held out| / |held out|
    precision: Numbers  #: |list@k ∩ held out| / k
    reciprocal_rank: Numbers  #: 1 / rank of the first held-out item, 0 where the first k places have none
    average_precision: Numbers  #: Σ over the ranks r ≤ k of held-out items of precision@r / min(k, |held out|)
    hit: Numbers  #: 1 where the first k places have a held-out item, else 0


def measure_lists(
    user: Ids, item: Ids, users: Ids, lists: ArrayLike, k: int | None = None, *, gain: ArrayLike | None = None
) -> ListMeasures:
    """All measures of top lists against held-out items, user by user.

    Parameters
    ----------
    user, item : array
        The held-out pairs of ids, each once: what a good list should have in it, such as the items with high ratings.
    users : array
        The user of each list. Pairs without a list are left out.
    lists : array, users × places
        Item ids, best first, as ``recommend`` and `lists_by_score` give them; what pads a short list is no item.
    k : int, optional
        Look at the first k places of each list; at all by default.
    gain : array of float, optional
        What each held-out pair is worth for the NDCG, at least 0, such as its rating above the lowest; 1 by default.

    Returns
    -------
    ListMeasures
        An array for each measure, in the order of ``users``.
    """
    found = _find_held_out(user, item, users, lists, k, gain)
    n_held = np.bincount(found.list_of_pair, minlength=len(found.hits)).astype(np.float64)
    n_held[n_held == 0] = np.nan  # who has nothing held out says nothing, and NaN is handed on
    n_hits, told = found.hits.sum(axis=1), np.where(np.isnan(n_held), np.nan, 1.0)
    precision_at = np.cumsum(found.hits, axis=1) / np.arange(1, found.hits.shape[1] + 1)
    return ListMeasures(
        _ndcg(found),
        n_hits / n_held,
        told * n_hits / found.k,
        told * found.hits.max(axis=1) / (found.hits.argmax(axis=1) + 1),
        (found.hits * precision_at).sum(axis=1) / np.minimum(found.k, n_held),
        told * (n_hits > 0),
    )


def ndcg_at_k(
    user: Ids, item: Ids, users: Ids, lists: ArrayLike, k: int | None = None, *, gain: ArrayLike | None = None
) -> float:
    """Normalised discounted cumulative gain of top lists against held-out items, averaged over users.

    NDCG@k = DCG@k / IDCG@k, where DCG@k = Σ_{rank ≤ k} gain(rank) / log₂(rank + 1) over the list and IDCG@k is the
    same over the best order of the user's held-out items. An item that was not held out gains nothing. Users
    without a positive gain cannot tell a good order from a bad one and are left out.

    Parameters are those of `measure_lists`, and so for all measures below.

    Returns
    -------
    float
        Between 0 and 1.
    """
    found = measure_lists(user, item, users, lists, k, gain=gain).ndcg
    if np.isnan(found).all():
        raise ValueError("Every gain is 0, so no order is better than another. Pass a positive gain for some pair.")
    return float(np.nanmean(found))


def recall_at_k(user: Ids, item: Ids, users: Ids, lists: ArrayLike, k: int | None = None) -> float:
    """Share of a user's held-out items that are in the first k places of the list, averaged over users.

    recall@k = |list@k ∩ held out| / |held out|.
    """
    return float(np.nanmean(measure_lists(user, item, users, lists, k).recall))


def precision_at_k(user: Ids, item: Ids, users: Ids, lists: ArrayLike, k: int | None = None) -> float:
    """Share of the first k places of a list that have a held-out item, averaged over users with such items.

    precision@k = |list@k ∩ held out| / k, so that a list shorter than k cannot reach 1.
    """
    return float(np.nanmean(measure_lists(user, item, users, lists, k).precision))


def mrr(user: Ids, item: Ids, users: Ids, lists: ArrayLike, k: int | None = None) -> float:
    """Mean reciprocal rank: 1 / rank of the first held-out item in each list, 0 where the first k places have none."""
    return float(np.nanmean(measure_lists(user, item, users, lists, k).reciprocal_rank))


def map_at_k(user: Ids, item: Ids, users: Ids, lists: ArrayLike, k: int | None = None) -> float:
    """Mean average precision: how pure a list is down to each held-out item in it, averaged over users.

    AP@k = Σ precision@r over the ranks r ≤ k that have a held-out item, divided by min(k, |held out|): 1 where
    held-out items fill the top of the list.
    """
    return float(np.nanmean(measure_lists(user, item, users, lists, k).average_precision))


def hit_rate(user: Ids, item: Ids, users: Ids, lists: ArrayLike, k: int | None = None) -> float:
    """Share of the users with held-out items who find one of them in the first k places."""
    return float(np.nanmean(measure_lists(user, item, users, lists, k).hit))


def lists_by_score(user: Ids, item: Ids, score: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    """Lists of scored pairs, the best of each user first: to rank the held-out items alone, and not all items.

    Parameters
    ----------
    user, item : array
        Pairs of ids, such as those held out.
    score : array of float
        What each pair is ranked by, such as its prediction. Equal scores stay in the order of the pairs.

    Returns
    -------
    users, lists : array
        As the measures above take them. Short lists are padded with None.
    """
    score = finite(score, "score")
    users, row = IdIndex.encode(id_column(user, "user", score.size), "user")
    items, column = IdIndex.encode(id_column(item, "item", score.size), "item")
    order = np.lexsort((-score, row))
    lists = np.full((len(users), int(np.bincount(row).max())), None, dtype=object)
    lists[row[order], _place_in_group(row[order])] = items.ids[column[order]]
    return users.ids, lists


class _Found(NamedTuple):
    """What top lists have of the held-out items."""

    hits: NDArray[np.bool_]  #: whether a held-out item stands in each place of each list
    gains: Numbers  #: of each place of each list, 0 where no held-out item stands
    list_of_pair: Codes  #: which list each held-out pair belongs to; pairs without a list are left out
    gain: Numbers  #: of each of those pairs
    k: int


def _find_held_out(user: Ids, item: Ids, users: Ids, lists: ArrayLike, k: int | None, gain: ArrayLike | None) -> _Found:
    shown = listed(lists, k)
    k = shown.shape[1] if k is None else k
    held_user = id_column(user, "user")
    worth = np.ones(len(held_user)) if gain is None else finite(gain, "gain")
    if worth.shape != (len(held_user),) or worth.min() < 0:
        raise ValueError(
            f"{len(held_user):,} held-out pairs and {worth.size:,} gains, the least {worth.min():g}. "
            "Pass one gain of at least 0 per pair."
        )
    owners, code = IdIndex.encode(id_column(users, "users", len(shown)), "user")
    if len(owners) < len(code):
        raise ValueError(f"{len(code):,} lists of {len(owners):,} users. Pass one list per user.")
    items, column = IdIndex.encode(id_column(item, "item", len(held_user)), "item")
    row = owners.codes(held_user)
    has_list = row >= 0
    if not has_list.any():
        raise ValueError("No list belongs to a user with held-out items. Pass the lists of such users.")
    pair = (row * len(items) + column)[has_list]
    order = np.argsort(pair)
    pairs, worth = pair[order], worth[has_list]
    shown_item = items.codes(shown.ravel()).reshape(len(shown), -1)
    wanted = np.where(shown_item >= 0, np.arange(len(shown))[:, None] * len(items) + shown_item, -1)
    place = np.minimum(np.searchsorted(pairs, wanted), pairs.size - 1)
    hit = pairs[place] == wanted
    for name, keys in (("held out", pairs), ("in a list", np.sort(wanted[hit]))):
        if (keys[1:] == keys[:-1]).any():
            raise ValueError(f"A pair is {name} more than once. Pass each pair once.")
    return _Found(hit, np.where(hit, worth[order][place], 0.0), row[has_list], worth, int(k))


def _ndcg(found: _Found) -> Numbers:
    """DCG / IDCG of each list; NaN where no order is better than another."""
    n_lists, n_places = found.gains.shape
    best_first = np.lexsort((-found.gain, found.list_of_pair))
    rank = _place_in_group(found.list_of_pair[best_first])
    near = rank < found.k
    worth = found.gain[best_first][near] * _discount(rank[near])
    ideal = np.bincount(found.list_of_pair[best_first][near], worth, n_lists)
    ideal[ideal == 0] = np.nan
    return np.asarray(found.gains @ _discount(np.arange(n_places)) / ideal)


def _discount(rank: NDArray[np.integer]) -> Numbers:
    """1 / log₂(rank + 1) for ranks from 1, here counted from 0."""
    return np.asarray(1.0 / np.log2(rank + 2.0))


def _place_in_group(group: NDArray[np.integer]) -> Codes:
    """0, 1, 2 … within each run of equal numbers; groups are sorted."""
    return np.arange(group.size) - np.searchsorted(group, group)
