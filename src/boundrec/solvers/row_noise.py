"""Noise of each row's own: v_ij ~ N(w_i·h_j, 1/(α a_i b_j c_ij)), with a_i and b_j around 1.

Some people rate as their mood has it, and some items divide opinions: what they are rated then counts less, and their
predictions are less certain. With squared errors e², own weights c and the overall precision α

    a_i ~ Gamma((ν + n_i)/2, rate (ν + α Σ_j c_ij b_j e_ij²)/2),   n_i = Σ_j c_ij,   b_j alike

so that the weights of the ratings are c_ij a_i b_j, and nothing else in the sampler changes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from boundrec.arrays import Floats, Reals
from boundrec.data.ratings import Csr

Numbers = NDArray[np.int32]

#: ν of users and of items: how many ratings the guess that a row is like all others counts for.
USERS_ALIKE, ITEMS_ALIKE = 60.0, 50.0
#: No row is noisier, or less noisy, than so: then weights of any size can be multiplied by it.
STEADIEST = 1e30
ALIKE = {"user": USERS_ALIKE, "item": ITEMS_ALIKE}


def expected(n: Floats, squares: Floats, alike: float) -> tuple[Floats, Floats]:
    """E[a] given n ratings and their Σ α c b e², and 1/E[1/a], by which variances go: without ratings 1, (ν − 2)/ν."""
    rate = alike + squares
    return (alike + n) / rate, (alike + n - 2) / rate


def of_strangers(known: Reals, alike: float) -> float:
    """1/E[1/a] of somebody without ratings: what the prior expects, or what ``known`` rows have if those are noisier.

    The prior draws rows together by more than they are alike, since that predicts best: on average they may well be
    noisier than it expects. Where they are less noisy, those with many ratings are, and tell nothing of a newcomer.
    """
    by_prior = expected(np.zeros(1), np.zeros(1), alike)[1][0]
    return float(min(by_prior, 1.0 / np.mean(1.0 / known, dtype=np.float64)) if known.size else by_prior)


class RowNoise:
    """a_i and b_j, drawn anew in every sweep.

    Parameters
    ----------
    by_user, by_item
        The ratings, in either order.
    counts
        What each rating counts by itself, in the order of users: as so many ratings.
    """

    def __init__(self, by_user: Csr, by_item: Csr, counts: Floats) -> None:
        self._users, self._items = by_user.row_of_entry(), by_user.indices
        self._by_item = by_item.row_of_entry(), by_item.indices
        self._n_users: Floats = by_user.sum_rows(counts)
        self._n_items: Floats = np.bincount(self._items, counts, by_item.indptr.size - 1).astype(np.float64)
        self.of_users, self.of_items = np.ones(len(self._n_users)), np.ones(len(self._n_items))

    def weights(self, counts: Floats) -> Floats:
        """c_ij a_i b_j of each rating, given its own c, in the order of users."""
        return _weights(self._users, self._items, counts, self.of_users, self.of_items)

    def weights_by_item(self, counts: Floats) -> Floats:
        """The same in the order of items."""
        return _weights(*self._by_item, counts, self.of_items, self.of_users)

    def redraw(self, squares: Floats, variance: float, rng: np.random.Generator) -> None:
        """Draw the a_i, then the b_j, given c_ij e_ij² of each rating and the overall variance 1/α."""
        totals = _totals(self._users, self._items, squares, self.of_items, len(self._n_users))
        self.of_users = _drawn(self._n_users, totals / variance, USERS_ALIKE, rng)
        totals = _totals(self._items, self._users, squares, self.of_users, len(self._n_items))
        self.of_items = _drawn(self._n_items, totals / variance, ITEMS_ALIKE, rng)


def _weights(rows: Numbers, columns: Numbers, counts: Floats, of_rows: Floats, of_columns: Floats) -> Floats:
    from boundrec.solvers.sampling_kernels import weigh_by_both

    weights = np.empty(len(counts))
    weigh_by_both(rows, columns, counts, of_rows, of_columns, weights)
    return weights


def _totals(rows: Numbers, columns: Numbers, squares: Floats, factors: Floats, n_rows: int) -> Floats:
    from boundrec.solvers.sampling_kernels import add_by_row

    totals = np.zeros(n_rows)
    add_by_row(rows, columns, squares, factors, totals)
    return totals


def _drawn(n: Floats, squares: Floats, alike: float, rng: np.random.Generator) -> Floats:
    return np.clip(rng.standard_gamma((alike + n) / 2) * 2 / (alike + squares), 1 / STEADIEST, STEADIEST)
