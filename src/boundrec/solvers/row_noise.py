"""Noise of each row's own: v_ij ~ N(w_i·h_j, 1/(α a_i b_j c_ij)), with a_i and b_j around 1.

Some people rate as their mood has it, and some items divide opinions: what they are rated then counts less, and their
predictions are less certain. With squared errors e², own weights c and the overall precision α

    a_i ~ Gamma((ν + n_i)/2, rate (ν + α Σ_j c_ij b_j e_ij²)/2),   n_i = Σ_j c_ij,   b_j alike

so that the weights of the ratings are c_ij a_i b_j, and nothing else in the sampler changes.
"""

from __future__ import annotations

import numpy as np

from boundrec.arrays import Floats, Reals
from boundrec.data.ratings import Csr

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
        self._by_user, self._by_item = (by_user.indptr, by_user.indices), (by_item.indptr, by_item.indices)
        self._n_users: Floats = by_user.sum_rows(counts)
        self._n_items: Floats = np.bincount(by_user.indices, counts, by_item.indptr.size - 1).astype(np.float64)
        self.of_users, self.of_items = np.ones(len(self._n_users)), np.ones(len(self._n_items))

    def weigh(self, counts: Floats, out: Floats) -> None:
        """c_ij a_i b_j of each rating, given its own c, in the order of users."""
        from boundrec.solvers.sampling_kernels import weigh_by_both

        weigh_by_both(self._by_user, counts, self.of_users, self.of_items, out)

    def weigh_by_item(self, counts: Floats, out: Floats) -> None:
        """The same in the order of items."""
        from boundrec.solvers.sampling_kernels import weigh_by_both

        weigh_by_both(self._by_item, counts, self.of_items, self.of_users, out)

    def redraw(
        self, totals: Floats, squares: Floats, counts: Floats, variance: float, rng: np.random.Generator
    ) -> float:
        """Draw the a_i, then the b_j, given e_ij² of each rating, Σ_j c_ij b_j e_ij² of each user, and 1/α.

        Returns Σ c_ij a_i b_j e_ij² with what was drawn.
        """
        from boundrec.solvers.sampling_kernels import add_to_columns

        self.of_users = _drawn(self._n_users, totals / variance, USERS_ALIKE, rng)
        of_items = np.zeros(len(self._n_items))
        add_to_columns(self._by_user, squares, counts, self.of_users, of_items)
        self.of_items = _drawn(self._n_items, of_items / variance, ITEMS_ALIKE, rng)
        return float(np.einsum("j,j->", self.of_items, of_items))


def _drawn(n: Floats, squares: Floats, alike: float, rng: np.random.Generator) -> Floats:
    return np.clip(rng.standard_gamma((alike + n) / 2) * 2 / (alike + squares), 1 / STEADIEST, STEADIEST)
