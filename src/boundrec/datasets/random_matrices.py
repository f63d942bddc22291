"""The paper's random matrices, made from their entries alone, so that 10¹¹ cells are no obstacle."""

import numpy as np
from numpy.typing import NDArray

Entries = tuple[NDArray[np.int32], NDArray[np.int32]]

FULL_MATRIX = 20_000_000  # cells up to which a product is scaled by all of its values
BLOCK = 1_000_000  # entries of a product computed at a time


def random_cells(n_users: int, n_items: int, density: float, rng: np.random.Generator) -> Entries:
    """Distinct random cells that leave no row and no column empty: a cover first, then a uniform draw."""
    n_cells = n_users * n_items
    quota = round(density * n_cells)
    cover = random_cover(n_users, n_items, rng)
    if not cover.size <= quota <= n_cells:
        raise ValueError(
            f"density={density:g} of {n_users:,} × {n_items:,} cells is {quota:,} entries; one in each row "
            f"and column takes {cover.size:,}. Pass a density from {cover.size / n_cells:.2g} to 1."
        )
    others = rng.choice(n_cells - cover.size, quota - cover.size, replace=False, shuffle=False)
    others.sort()
    # The r-th cell outside the cover is r plus the number of covered cells before it.
    others += np.searchsorted(cover - np.arange(cover.size), others, side="right")
    cells = np.concatenate((cover, others))
    cells.sort(kind="stable")  # merges the two sorted parts
    return (cells // n_items).astype(np.int32), (cells % n_items).astype(np.int32)


def random_cover(n_users: int, n_items: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """A cell in each row, then one in each column that has none: sorted positions in the flattened matrix."""
    item = rng.integers(n_items, size=n_users)
    empty = np.setdiff1d(np.arange(n_items), item)
    cells = np.arange(n_users) * n_items + item
    return np.sort(np.append(cells, rng.integers(n_users, size=empty.size) * n_items + empty))


def independent_values(n_entries: int, bounds: tuple[float, float], rng: np.random.Generator) -> NDArray[np.float64]:
    """Independent uniform values, scaled to the bounds."""
    value = rng.random(n_entries)
    return scale(value, value.min(), value.max(), bounds)


def low_rank_values(
    entries: Entries, shape: tuple[int, int], rank: int, bounds: tuple[float, float], rng: np.random.Generator
) -> NDArray[np.float64]:
    """Entries of a random matrix of the given rank whose values fill the bounds.

    A product of Gaussian factors of rank − 1, scaled: the constant that scaling adds is the last component.
    """
    user, item = entries
    W, H = (rng.standard_normal((size, rank - 1)) for size in shape)
    value = np.empty(user.size)
    for start in range(0, user.size, BLOCK):
        block = slice(start, start + BLOCK)
        np.einsum("nk,nk->n", W[user[block]], H[item[block]], out=value[block])
    everything = W @ H.T if shape[0] * shape[1] <= FULL_MATRIX else value
    return scale(value, everything.min(), everything.max(), bounds)


def scale(value: NDArray[np.float64], least: float, most: float, bounds: tuple[float, float]) -> NDArray[np.float64]:
    """Map [least, most] to the bounds, in place."""
    lower, upper = bounds
    value -= least
    value /= (most - least) or 1.0
    value *= upper - lower
    value += lower
    return np.clip(value, lower, upper, out=value)  # rounding may pass an end by a unit in the last place
