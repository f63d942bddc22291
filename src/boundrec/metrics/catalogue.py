"""What lists show of a catalogue: how much of it, how well known it is, and how alike. Nothing is held out here.

The share of an item is that of the users who chose it, π_j = |users who chose j| / |users|, in the pairs that a model
learnt from.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from boundrec.data.ids import IdIndex
from boundrec.metrics.checks import Ids, Numbers, finite, id_column, listed


def catalogue_coverage(lists: ArrayLike, catalogue: Ids, k: int | None = None) -> float:
    """Share of the catalogue that is in at least one list: |∪ list@k ∩ catalogue| / |catalogue|.

    Parameters
    ----------
    lists : array, users × places
        Item ids, best first, as ``recommend`` gives them; what pads a short list is no item.
    catalogue : array
        The ids of all items that could be in a list; repeated ones count once.
    k : int, optional
        Look at the first k places of each list; at all by default.
    """
    items, _ = IdIndex.encode(id_column(catalogue, "catalogue"), "item")
    codes = items.codes(listed(lists, k).ravel())
    return len(np.unique(codes[codes >= 0])) / len(items)


def novelty_of_lists(user: Ids, item: Ids, lists: ArrayLike, k: int | None = None) -> Numbers:
    """How little known each list is: the mean of −log₂ π_j over its items, in bits (Zhou et al., 2010).

    0 where everybody knows everything in it, 1 where half of the users know each item. An item that nobody chose counts
    as if one had. NaN for an empty list.

    Parameters
    ----------
    user, item : array
        The pairs of ids that the model learnt from; repeated ones count once.
    lists, k
        As in `catalogue_coverage`.
    """
    known = _Shares.of(user, item)
    shares, there = known.of_places(listed(lists, k))
    return _mean_of_places(-np.log2(np.maximum(shares, 1.0 / known.n_users)), there)


def novelty(user: Ids, item: Ids, lists: ArrayLike, k: int | None = None) -> float:
    """The mean of `novelty_of_lists` over all lists that are not empty."""
    return _mean_of_lists(novelty_of_lists(user, item, lists, k), "item")


def popularity_bias(user: Ids, item: Ids, users: Ids, lists: ArrayLike, k: int | None = None) -> float:
    """How much better known the lists are than what the same users chose themselves: GAP(lists) / GAP(profiles) − 1.

    GAP, the group average popularity, is the mean over users of the mean π_j over their items: of their list, or of
    what they chose (Abdollahpouri et al., 2019, who call the figure ΔGAP). 0 where lists are as popular as profiles, 1
    where they are twice as popular.

    Parameters
    ----------
    user, item : array
        The pairs of ids that the model learnt from; repeated ones count once.
    users : array
        The user of each list. Those who chose nothing, or whose list is empty, are left out.
    lists, k
        As in `catalogue_coverage`.
    """
    known, shown = _Shares.of(user, item), listed(lists, k)
    row = known.users.codes(id_column(users, "users", len(shown)))
    profile = np.bincount(known.user, known.share[known.item]) / np.bincount(known.user)
    of_lists = _mean_of_places(*known.of_places(shown))
    both = (row >= 0) & ~np.isnan(of_lists)
    if not both.any():
        raise ValueError("No list belongs to a user who chose something. Pass the lists of such users.")
    return float(np.mean(of_lists[both]) / np.mean(profile[row[both]]) - 1.0)


def diversity_of_lists(lists: ArrayLike, items: Ids, vectors: ArrayLike, k: int | None = None) -> Numbers:
    """How unlike the items of each list are: the mean of 1 − cos(v_i, v_j) over its pairs of items.

    The intra-list similarity of Ziegler et al. (2005), turned round: 0 where all point the same way, 1 where they have
    nothing in common. A vector of zeros has nothing in common with any. NaN for a list of fewer than two items.

    Parameters
    ----------
    lists, k
        As in `catalogue_coverage`.
    items : array
        The item of each vector, each once.
    vectors : array of float, items × dimensions
        What items are compared by: features, or the factors of a model (``model.item_factors_``).
    """
    shown = listed(lists, k)
    index, directions = item_directions(items, vectors)
    codes, there = index.codes(shown.ravel()).reshape(shown.shape), is_item(shown)
    refuse_unknown(shown, there & (codes < 0))
    # Σ_{i≠j} cos = |Σ v|² − Σ |v|², of directions v: no pair need be looked at
    rows = np.where(there[:, :, None], directions[codes], 0.0)
    sizes, total = np.einsum("ijk,ijk->i", rows, rows), rows.sum(axis=1)
    n_pairs = there.sum(axis=1) * (there.sum(axis=1) - 1.0)
    n_pairs[n_pairs == 0] = np.nan
    return np.asarray(1.0 - (np.einsum("ij,ij->i", total, total) - sizes) / n_pairs)


def intra_list_diversity(lists: ArrayLike, items: Ids, vectors: ArrayLike, k: int | None = None) -> float:
    """The mean of `diversity_of_lists` over all lists of two items or more."""
    return _mean_of_lists(diversity_of_lists(lists, items, vectors, k), "pair of items")


def item_directions(items: Ids, vectors: ArrayLike) -> tuple[IdIndex, Numbers]:
    """Ids of items, and their vectors at length 1; those of zeros stay as they are."""
    rows = finite(vectors, "vectors", ndim=2)
    column = id_column(items, "items", len(rows))
    index, codes = IdIndex.encode(column, "item")
    if len(index) < len(codes):
        raise ValueError(f"{len(codes):,} vectors of {len(index):,} items. Pass one vector per item.")
    largest = np.abs(rows).max(axis=1, keepdims=True)  # squares of what is far from 1 would leave float64
    rows = rows / np.where(largest == 0, 1.0, largest)
    size = np.linalg.norm(rows, axis=1, keepdims=True)
    return index, rows / np.where(size == 0, 1.0, size)


def is_item(shown: NDArray[Any]) -> NDArray[np.bool_]:
    """Which places of lists have an item: −1, None and NaN are what pads a short one."""
    if shown.dtype != object:
        return np.asarray((shown == shown) & (shown != -1))
    return np.array([[one is not None and one == one and not _is_minus_one(one) for one in row] for row in shown])


def refuse_unknown(shown: NDArray[Any], unknown: NDArray[np.bool_]) -> None:
    """Refuse lists with items that have no vector."""
    if unknown.any():
        first = shown[tuple(np.argwhere(unknown)[0])]
        raise ValueError(
            f"{int(unknown.sum()):,} places of the lists have an item without a vector (first: {first!r}). "
            "Pass a vector for every item that is in a list."
        )


def _is_minus_one(one: Any) -> bool:
    return isinstance(one, int | float | np.number) and one == -1


class _Shares(NamedTuple):
    """Who chose what, each pair once, and the share of the users who chose each item."""

    users: IdIndex
    items: IdIndex
    user: NDArray[np.intp]
    item: NDArray[np.intp]
    share: Numbers

    @classmethod
    def of(cls, user: Ids, item: Ids) -> "_Shares":
        """Of pairs of ids."""
        chooser = id_column(user, "user")
        users, row = IdIndex.encode(chooser, "user")
        items, column = IdIndex.encode(id_column(item, "item", len(chooser)), "item")
        once = np.unique(row.astype(np.int64) * len(items) + column)
        choosers, chosen = np.divmod(once, len(items))
        return cls(users, items, choosers, chosen, np.bincount(chosen, minlength=len(items)) / len(users))

    @property
    def n_users(self) -> int:
        """How many users chose something."""
        return len(self.users)

    def of_places(self, shown: NDArray[Any]) -> tuple[Numbers, NDArray[np.bool_]]:
        """The share of the item in each place of lists, 0 of what nobody chose; and which places have an item."""
        codes = self.items.codes(shown.ravel()).reshape(shown.shape)
        return np.where(codes >= 0, self.share[codes], 0.0), is_item(shown)


def _mean_of_places(values: Numbers, there: NDArray[np.bool_]) -> Numbers:
    """Means over the places of each list that have an item; NaN where none has."""
    counts = there.sum(axis=1).astype(np.float64)
    counts[counts == 0] = np.nan
    return np.asarray(np.where(there, values, 0.0).sum(axis=1) / counts)


def _mean_of_lists(values: Numbers, what: str) -> float:
    if np.isnan(values).all():
        raise ValueError(f"No list has a single {what}. Pass lists as recommend gives them.")
    return float(np.nanmean(values))
