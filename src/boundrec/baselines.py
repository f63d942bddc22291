"""What every model has to be better than: a mean with offsets, one list for everybody. Row numbers in, arrays out."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import NDArray

from boundrec.arrays import Codes, Floats
from boundrec.top_n import Seen

#: How many ratings the overall mean counts for in an offset.
PRIOR_COUNT = 5.0


class MeanPredictor:
    """The honest trivial rival: mean + item offset + user offset, each offset drawn towards zero.

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
