"""Splits of a list of ratings: at random, so that no user and no item is left without an entry, and by time.

A rating is an entry (user, item); both are given as arrays of integer codes. Every function returns Boolean
masks over the entries. Random splits draw from one seeded generator, so that each can be made again from its seed.
"""

from collections.abc import Iterator
from typing import Any

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
    user, item = _codes(user=user, item=item)
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
    user, item = _codes(user=user, item=item)
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
    user, item = _codes(user=user, item=item)
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


def last_share(time: ArrayLike, share: float = 0.1) -> Mask:
    """Hold out the latest entries of all, as if the model had been trained on a day in the past.

    Users and items that first appear after that day have no training entries.

    Parameters
    ----------
    time : array of numbers or datetimes
        When each entry was made. Of entries made at the same time, those further down the list count as later.
    share : float
        Share of the entries to hold out.

    Returns
    -------
    array of bool
        Mask of the held-out entries, exactly the rounded share.
    """
    time = _times(time)
    return _mask(np.argsort(time, kind="stable")[time.size - _quota(share, time.size) :], time.size)


def last_of_each_user(
    user: ArrayLike, time: ArrayLike, *, share: float | None = None, count: int | None = None
) -> Mask:
    """Hold out the latest entries of each user, who keeps at least the first one for training.

    Parameters
    ----------
    user : array of int
        One code per entry.
    time : array of numbers or datetimes
        When each entry was made. Of entries made at the same time, those further down the list count as later.
    share, count : float, int
        What to hold out of each user's entries: this share of them, rounded, or this many. Give one of the two.

    Returns
    -------
    array of bool
        Mask of the held-out entries. A user with a single entry has none in it.
    """
    if (share is None) == (count is None):
        raise ValueError(f"share={share} and count={count}. Pass one of them, such as share=0.1 or count=1.")
    if count is not None and not (isinstance(count, int | np.integer) and count >= 1):
        raise ValueError(f"count={count!r} entries of each user cannot be held out. Pass a whole number from 1.")
    if share is not None and not 0 < share < 1:
        raise ValueError(f"share={share!r} of each user's entries cannot be held out. Pass a share between 0 and 1.")
    (user,) = _codes(user=user)
    time = _times(time)
    if time.size != user.size:
        raise ValueError(f"{user.size:,} users and {time.size:,} times. Pass one of each per entry.")
    n_entries = np.bincount(user)
    wanted = np.rint(share * n_entries).astype(np.intp) if share is not None else np.full(n_entries.size, count)
    order = np.lexsort((time, user))  # stable: by user, then by time, then as they came
    from_the_end = np.cumsum(n_entries)[user[order]] - np.arange(user.size)
    return _mask(order[from_the_end <= np.minimum(wanted, n_entries - 1)[user[order]]], user.size)


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
    user, item = _codes(user=user, item=item)
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


def _times(time: ArrayLike) -> NDArray[Any]:
    time = np.asarray(time)
    if time.ndim != 1 or time.dtype.kind not in "iufM":
        raise ValueError(f"time has shape {time.shape} and type {time.dtype}. Pass one number or datetime64 per entry.")
    if not time.size:
        raise ValueError("There are no entries to split. Pass at least one.")
    missing = np.isnat(time) if time.dtype.kind == "M" else np.isnan(time)
    if missing.any():
        raise ValueError(
            f"{int(missing.sum()):,} entries have no time (first: entry {int(missing.argmax())}). "
            "Leave them out, or give each a time."
        )
    return time


def _codes(**columns: ArrayLike) -> tuple[Codes, ...]:
    codes = {name: np.asarray(column) for name, column in columns.items()}
    for name, code in codes.items():
        if code.ndim != 1 or not np.issubdtype(code.dtype, np.integer):
            raise ValueError(
                f"{name} has shape {code.shape} and type {code.dtype}. Pass one integer code per entry "
                "(np.unique(ids, return_inverse=True) makes them)."
            )
    sizes = {name: code.size for name, code in codes.items()}
    if len(set(sizes.values())) > 1:
        told = " and ".join(f"{size:,} {name}s" for name, size in sizes.items())
        raise ValueError(f"{told}. Pass one of each per entry.")
    if not all(sizes.values()):
        raise ValueError("There are no entries to split. Pass at least one.")
    return tuple(_compact(code) for code in codes.values())


def _compact(code: NDArray[np.integer]) -> Codes:
    """Codes as indices; renumbered when negative or so large that one slot per code would waste memory."""
    if code.min() < 0 or code.max() > 10 * code.size + 1_000_000:
        code = np.unique(code, return_inverse=True)[1]
    return code.astype(np.intp, copy=False)
