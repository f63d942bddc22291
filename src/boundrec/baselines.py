"""What every model has to be better than: a mean with offsets, one list for everybody."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from boundrec.arrays import Codes, Floats
from boundrec.data.columns import id_column, pair_columns
from boundrec.data.ratings import Ratings
from boundrec.top_n import Seen

#: How many ratings the overall mean counts for in an offset.
PRIOR_COUNT = 5.0


class MeanPredictor:
    """The honest trivial rival: mean + item offset + user offset, each offset drawn towards zero. Numbers in.

    Row numbers that come without a rating, and −1, have no offset.
    """

    n_iter_ = 1

    def fit(self, X: NDArray[np.integer], y: Floats) -> Self:
        """Learn the offsets from rows of (user, item) numbers."""
        users, items = X.T
        self.mean = float(y.mean())
        self.items = _offsets(items, y - self.mean)
        self.users = _offsets(users, y - self.mean - self.items[items])
        return self

    def predict(self, X: NDArray[np.integer]) -> Floats:
        """Predict the rating of each row of (user, item) numbers."""
        predictions: Floats = self.mean + _at(self.users, X[:, 0]) + _at(self.items, X[:, 1])
        return predictions


def _offsets(codes: NDArray[np.integer], residuals: Floats) -> Floats:
    return np.asarray(np.bincount(codes, residuals) / (np.bincount(codes) + PRIOR_COUNT))


def _at(offsets: Floats, codes: NDArray[np.integer]) -> Floats:
    known = (codes >= 0) & (codes < offsets.size)
    return np.where(known, offsets[np.where(known, codes, 0)], 0.0)


def first_unseen(order: Codes, seen: Seen, users: Codes, n: int) -> Codes:
    """The first n items of one order, such as by popularity, that each user has not rated; −1 where none is left."""
    lists = np.full((len(users), min(n, len(order))), -1)
    for row, user in enumerate(users):
        rated = seen.indices[seen.indptr[user] : seen.indptr[user + 1]]
        near = order[: n + len(rated)]
        unseen = near[~np.isin(near, rated)][:n]
        lists[row, : len(unseen)] = unseen
    return lists


class Popularity:
    """The same list for everybody, without what they chose: the items that most people chose. Ids in, ids out.

    A score is the share of the users who chose an item. Lists of a model that are no better than these say nothing of
    anybody's taste.

    Examples
    --------
    >>> from boundrec.baselines import Popularity
    >>> clicks = [("ann", "tea"), ("ann", "rum"), ("bob", "tea"), ("bob", "gin"), ("eve", "rum")]
    >>> items, shares = Popularity().fit(clicks).recommend(["eve"], n=1)
    >>> str(items[0, 0]), float(shares[0, 0].round(2))
    ('tea', 0.67)
    """

    def fit(self, X: Any, y: Any = None) -> Self:
        """Count who chose what.

        Parameters
        ----------
        X
            Pairs of ids, a row for everything that somebody chose or rated; repeated ones count once. Or a scipy
            sparse matrix of users × items, or a `Ratings`.
        y
            Not looked at: how often, or how much they liked it, is another question.
        """
        pairs = X if hasattr(X, "tocoo") or isinstance(X, Ratings) else (X, np.ones(len(pair_columns(X)[0])))
        ratings = Ratings.read(*(pairs if isinstance(pairs, tuple) else (pairs,)), duplicates="last")
        counts = np.diff(ratings.by_item.indptr)
        self._users, self._items, self._seen = ratings.users, ratings.items, Seen.of(ratings)
        self._shares = counts / np.count_nonzero(np.diff(ratings.by_user.indptr))
        self._order = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
        return self

    def predict(self, X: Any) -> Floats:
        """The share of the users who chose the item of each pair; 0 for one that nobody chose."""
        codes = self._items.codes(pair_columns(X)[1])
        return np.where(codes >= 0, self._shares[codes], 0.0)

    def recommend(self, users: Any = None, n: int = 10, exclude_seen: bool = True) -> tuple[NDArray[Any], Floats]:
        """The n most popular items for each user, and their shares; as the models' ``recommend``."""
        codes = np.arange(len(self._users)) if users is None else self._users.codes(id_column(users, "users"))
        lists = np.tile(self._order[:n], (len(codes), 1))
        known = codes >= 0
        if exclude_seen:
            lists[known] = first_unseen(self._order, self._seen, codes[known], n)
        ids, there = self._items.ids, lists >= 0
        items = np.full(lists.shape, -1 if ids.dtype == np.int64 else None, ids.dtype)
        items[there] = ids[lists[there]]
        return items, np.where(there, self._shares[lists], np.nan)
