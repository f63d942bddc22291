"""Noise of each row's own: v_ij ~ N(w_i·h_j, 1/(α a_i b_j c_ij)), with a_i and b_j around 1.

Some people rate as their mood has it, and some items divide opinions: what they are rated then counts less, and their
predictions are less certain. With squared errors e², own weights c and the overall precision α

    a_i ~ Gamma((ν + n_i)/2, rate (ν + α Σ_j c_ij b_j e_ij²)/2),   n_i = Σ_j c_ij,   b_j alike

so that the weights of the ratings are c_ij a_i b_j, and nothing else in the sampler changes.
"""

from __future__ import annotations

import numpy as np

from boundrec.arrays import Codes, Floats

#: ν of users and of items: how many ratings the guess that a row is like all others counts for.
USERS_ALIKE, ITEMS_ALIKE = 20.0, 50.0
#: No row is noisier, or less noisy, than so: then weights of any size can be multiplied by it.
STEADIEST = 1e30
ALIKE = {"user": USERS_ALIKE, "item": ITEMS_ALIKE}


def expected(n: Floats, squares: Floats, alike: float) -> tuple[Floats, Floats]:
    """E[a] given n ratings and their Σ α c b e², and 1/E[1/a], by which variances go: without ratings 1, (ν − 2)/ν."""
    rate = alike + squares
    return (alike + n) / rate, (alike + n - 2) / rate


class RowNoise:
    """a_i and b_j, drawn anew in every sweep.

    Parameters
    ----------
    users, items
        The user and the item of each rating, by their numbers.
    counts
        What each rating counts by itself: as so many ratings.
    """

    def __init__(self, users: Codes, items: Codes, counts: Floats, n_users: int, n_items: int) -> None:
        self._users, self._items = users, items
        self._n_users: Floats = np.bincount(users, counts, minlength=n_users).astype(np.float64)
        self._n_items: Floats = np.bincount(items, counts, minlength=n_items).astype(np.float64)
        self.of_users, self.of_items = np.ones(n_users), np.ones(n_items)

    def factors(self) -> Floats:
        """a_i b_j of each rating."""
        return np.asarray(self.of_users[self._users] * self.of_items[self._items])

    def redraw(self, squares: Floats, rng: np.random.Generator) -> None:
        """Draw the a_i, then the b_j, given α c_ij e_ij² of each rating."""
        self.of_users = _drawn(self._users, self._n_users, squares * self.of_items[self._items], USERS_ALIKE, rng)
        self.of_items = _drawn(self._items, self._n_items, squares * self.of_users[self._users], ITEMS_ALIKE, rng)


def _drawn(rows: Codes, n: Floats, squares: Floats, alike: float, rng: np.random.Generator) -> Floats:
    total = np.bincount(rows, squares, minlength=len(n))
    return np.clip(rng.standard_gamma((alike + n) / 2) * 2 / (alike + total), 1 / STEADIEST, STEADIEST)
