"""Small files of ratings for tests of the command."""

import numpy as np
import polars as pl


def write_ratings(path, n_users=40, n_items=30, seed=0):
    """A CSV file of half-star ratings that users and items explain, with times."""
    rng = np.random.default_rng(seed)
    user, item = np.nonzero(rng.random((n_users, n_items)) < 0.5)
    taste, quality = rng.normal(0, 0.8, n_users), rng.normal(0, 0.8, n_items)
    rating = np.clip(np.round(2 * (3 + taste[user] + quality[item] + rng.normal(0, 0.3, user.size))) / 2, 0.5, 5)
    columns = {"userId": user + 1, "movieId": [f"film {k:02}" for k in item], "rating": rating}
    pl.DataFrame({**columns, "timestamp": rng.integers(10**9, 2 * 10**9, user.size)}).write_csv(path)
    return path
