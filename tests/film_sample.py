"""A few invented films and viewers in the shape of the MovieLens sample, for tests of the command."""

import numpy as np

from boundrec.datasets import Dataset


def film_sample(n_users=30, n_items=25, seed=0):
    rng = np.random.default_rng(seed)
    user, item = np.nonzero(rng.random((n_users, n_items)) < 0.5)
    taste, quality = rng.normal(0, 0.8, n_users), rng.normal(0, 0.8, n_items)
    rating = np.clip(np.round(2 * (3 + taste[user] + quality[item] + rng.normal(0, 0.5, user.size))) / 2, 0.5, 5)
    return Dataset(
        "movielens_sample",
        user.astype(np.int32),
        item.astype(np.int32),
        rating,
        (0.5, 5),
        timestamp=rng.integers(0, 10**9, user.size),
        user_ids=np.arange(101, 101 + n_users),
        item_ids=np.arange(n_items),
        item_names=np.array([f"Film [No. {number}] of the Amélie series" for number in range(n_items)]),
    )
