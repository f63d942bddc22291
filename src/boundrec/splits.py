"""Random splits of a list of ratings that leave no user and no item without an entry.

A rating is an entry (user, item); both are given as arrays of integer codes. Every function returns Boolean
masks over the entries and draws from one seeded generator, so that a split can be made again from its seed.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

Mask = NDArray[np.bool_]
Codes = NDArray[np.intp]
Seed = int | np.random.Generator


def cover(user: ArrayLike, item: ArrayLike, rng: Seed = 0) -> Mask:
    """Choose a random set of entries in which every user and every item occurs.

    One random entry for each user, then one for each item that those have not covered. The result is small
    but not the smallest possible, and entries of rare users and items are likelier to be in it.

    Parameters
    ----------
    user, item : array of int
        One code per entry.
    rng : int or Generator
        Seed or generator.

    Returns
    -------
    array of bool
        Mask over the entries; at most one for each user and one for each item.
    """
    user, item = _codes(user, item)
    return _cover(user, item, np.random.default_rng(rng))


def history_and_present(user: ArrayLike, item: ArrayLike, share: float = 0.5, random_state: Seed = 0) -> Mask:
    """Divide ratings into history and present; the present has every user and every item.

    The history may lack users and items, as in the paper. A random cover goes to the present first, and the
    rest of its quota is drawn uniformly.

    Parameters
    ----------
    user, item : array of int
        One code per entry.
    share : float
        Share of the entries that are present.
    random_state : int or Generator
        Seed or generator.

    Returns
    -------
    array of bool
        Mask of the present entries, exactly the rounded share; the others are the history.
    """
    user, item = _codes(user, item)
    rng = np.random.default_rng(random_state)
    quota = _quota(share, user.size)
    present = _cover(user, item, rng)
    _check_cover_fits(present, quota, user, item, f"the present part of {quota:,} entries (share={share:g})")
    present[_draw(~present, quota - int(present.sum()), rng)] = True
    return present


def hold_out(
    user: ArrayLike, item: ArrayLike, share: float = 0.1, random_state: Seed = 0, *, protect: bool = True
) -> Mask:
    """Draw entries to hold out for validation.

    The draw is uniform. With `protect`, a user or item that it would leave without training entries gets one
    of them back, and another entry that can be spared is held out instead.

    Parameters
    ----------
    user, item : array of int
        One code per entry.
    share : float
        Share of the entries to hold out.
    random_state : int or Generator
        Seed or generator.
    protect : bool
        Leave every user and every item at least one training entry.

    Returns
    -------
    array of bool
        Mask of the held-out entries, exactly the rounded share.
    """
    user, item = _codes(user, item)
    rng = np.random.default_rng(random_state)
    quota = _quota(share, user.size)
    held = np.zeros(user.size, dtype=bool)
    held[rng.choice(user.size, quota, replace=False)] = True
    if protect:
        _give_back(held, user, item, rng)
        _replace_given_back(held, quota, user, item, rng)
    return held


def repeated_hold_out(
    user: ArrayLike,
    item: ArrayLike,
    share: float = 0.1,
    n_folds: int = 5,
    random_state: Seed = 0,
    *,
    protect: bool = True,
) -> Iterator[Mask]:
    """Draw `n_folds` hold-outs one after the other, each from all entries: the paper's "folds".

    They may overlap; `k_fold` gives a partition. Parameters are those of `hold_out`.
    """
    _check_folds(n_folds, least=1)
    rng = np.random.default_rng(random_state)
    return (hold_out(user, item, share, rng, protect=protect) for _ in range(n_folds))


def k_fold(n_entries: int, n_folds: int = 10, random_state: Seed = 0) -> Iterator[Mask]:
    """Cut the entries into `n_folds` random parts that do not overlap and together are everything.

    Users and items with few entries may be left without any in training: no partition can promise otherwise.

    Parameters
    ----------
    n_entries : int
        Number of entries.
    n_folds : int
        Number of parts; their sizes differ by at most one.
    random_state : int or Generator
        Seed or generator.

    Returns
    -------
    iterator of array of bool
        Masks of the held-out entries.
    """
    _check_folds(n_folds, least=2)
    if n_folds > n_entries:
        raise ValueError(f"n_folds={n_folds} is more than the {n_entries} entries. Pass at most {n_entries}.")
    fold = np.random.default_rng(random_state).permutation(np.arange(n_entries) % n_folds)
    return (fold == k for k in range(n_folds))


def at_least(user: ArrayLike, item: ArrayLike, count: int) -> Mask:
    """Keep the entries of users and items that have at least `count` of them among the entries kept (a core).

    Parameters
    ----------
    user, item : array of int
        One code per entry.
    count : int
        Entries that each remaining user and each remaining item has at least.

    Returns
    -------
    array of bool
        Mask of the entries kept: the largest such set, empty where there is none.
    """
    user, item = _codes(user, item)
    kept = np.arange(user.size)
    while True:
        enough = (np.bincount(user[kept])[user[kept]] >= count) & (np.bincount(item[kept])[item[kept]] >= count)
        if enough.all():
            break
        kept = kept[enough]
    return _mask(kept, user.size)


def _cover(user: Codes, item: Codes, rng: np.random.Generator) -> Mask:
    chosen = _one_each(user, np.arange(user.size), rng)
    covered = np.zeros(item.max() + 1, dtype=bool)
    covered[item[chosen]] = True
    mask = _mask(chosen, user.size)
    mask[_one_each(item, np.flatnonzero(~covered[item]), rng)] = True
    return mask


def _one_each(code: Codes, entries: Codes, rng: np.random.Generator) -> Codes:
    """One random entry, of those given, for every code that they have."""
    if not entries.size:
        return entries
    entries = rng.permutation(entries)
    last = np.full(code.max() + 1, -1, dtype=np.intp)
    last[code[entries]] = entries  # of repeated indices NumPy keeps the last: here a uniform choice
    return last[last >= 0]


def _give_back(held: Mask, user: Codes, item: Codes, rng: np.random.Generator) -> None:
    """Return one held entry to each user, then each item, that has none in training; in place."""
    for code in (user, item):
        trained = np.zeros(code.max() + 1, dtype=bool)
        trained[code[~held]] = True
        held[_one_each(code, np.flatnonzero(~trained[code]), rng)] = False


def _replace_given_back(held: Mask, quota: int, user: Codes, item: Codes, rng: np.random.Generator) -> None:
    """Hold out spare training entries until the quota is full again; in place."""
    missing = quota - int(held.sum())
    if not missing:
        return
    training = np.flatnonzero(~held)
    needed = training[_cover(user[training], item[training], rng)]
    spare = ~held
    spare[needed] = False
    place = f"the training part of {held.size - quota:,} entries that holding out {quota:,} would leave"
    _check_cover_fits(_mask(needed, held.size), held.size - quota, user, item, place)
    held[_draw(spare, missing, rng)] = True


def _check_cover_fits(covering: Mask, quota: int, user: Codes, item: Codes, place: str) -> None:
    size = int(covering.sum())
    if size > quota:
        raise ValueError(
            f"One entry for each of {np.unique(user).size:,} users and {np.unique(item).size:,} items takes "
            f"{size:,} of the {user.size:,} entries, more than {place}. Change the share, or keep users and "
            "items with at least 3 ratings: at_least(user, item, 3)."
        )


def _draw(mask: Mask, size: int, rng: np.random.Generator) -> Codes:
    return rng.choice(np.flatnonzero(mask), size, replace=False)


def _mask(entries: Codes, size: int) -> Mask:
    mask = np.zeros(size, dtype=bool)
    mask[entries] = True
    return mask


def _quota(share: float, n_entries: int) -> int:
    quota = round(share * n_entries) if np.isfinite(share) else 0
    if not 0 < quota < n_entries:
        raise ValueError(
            f"share={share:g} of {n_entries:,} entries is {quota:,}; both parts need at least one. "
            "Pass a share between 0 and 1 that leaves some on each side."
        )
    return quota


def _check_folds(n_folds: int, least: int) -> None:
    if n_folds < least:
        raise ValueError(f"n_folds={n_folds} is too few. Pass at least {least}.")


def _codes(user: ArrayLike, item: ArrayLike) -> tuple[Codes, Codes]:
    user, item = np.asarray(user), np.asarray(item)
    for name, code in (("user", user), ("item", item)):
        if code.ndim != 1 or not np.issubdtype(code.dtype, np.integer):
            raise ValueError(
                f"{name} has shape {code.shape} and type {code.dtype}. Pass one integer code per entry "
                "(np.unique(ids, return_inverse=True) makes them)."
            )
    if user.size != item.size:
        raise ValueError(f"{user.size:,} users and {item.size:,} items. Pass one of each per entry.")
    if not user.size:
        raise ValueError("There are no entries to split. Pass at least one.")
    return _compact(user), _compact(item)


def _compact(code: NDArray[np.integer]) -> Codes:
    """Codes as indices; renumbered when negative or so large that one slot per code would waste memory."""
    if code.min() < 0 or code.max() > 10 * code.size + 1_000_000:
        code = np.unique(code, return_inverse=True)[1]
    return code.astype(np.intp, copy=False)
