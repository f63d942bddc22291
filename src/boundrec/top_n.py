"""Exact top-N in blocks of bounded memory: arrays in, arrays out.

A model ranks items for a user by a score that rises with the inner product of two vectors. So the search is a plain
product in float32, compared with what the n-th best item so far asks for; the few pairs that pass are scored again by
the model itself, in float64. The comparison leaves room for float32's rounding, so nothing is ever lost by it: the
lists are those of a full sort of all predictions, ties by item order.

For more than a few users, items come in the order of their norms, the longest first: where |w_i||h_j| cannot reach the
n-th best score, the product is not even taken (Cauchy-Schwarz, which the models' bounds rest on, too).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from boundrec.arrays import Codes, Floats
from boundrec.data.ratings import Ratings
from boundrec.solvers.threads import thread_count

#: Users searched for together, and items whose products with them are taken at a time: what the second-level cache
#: holds. The width is no power of two, or the rows of a product would all fall on the same few lines of the cache.
USERS, ITEMS = 256, 4112
#: The same where every pair is scored.
FEW_USERS, FEW_ITEMS = 64, 4096
#: Items in the first stage, a single tile; every later stage doubles what has been looked at.
FIRST = 512
#: For so few users, sorting the items by norm would take longer than it spares.
FEW = 64
#: Pairs that may wait to be scored, and the most that a block of users may hold as its lists.
PAIRS = 1 << 19
#: Half a unit in the last place of float32, a few units of float64, and where float64 begins to lose digits.
ROUNDING, ROUNDING_OF_SCORES, LEAST_SCORE = 2.0**-24, 2e-15, 2.0**-1022
#: Vectors this short, next to the longest, lose more to float32's smallest numbers than to its rounding.
SHORTEST = 1e-30
#: Between these the squares of norms keep all their digits; a norm below the last would not keep its own.
SMALL, LARGE, NOTHING = 1e-140, 1e140, 1e-300


class Seen(NamedTuple):
    """The item row numbers that each user row has rated, ascending: ``indices[indptr[u] : indptr[u + 1]]``."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]

    @classmethod
    def of(cls, ratings: Ratings) -> Self:
        """What these ratings show to be seen; shares their memory."""
        return cls(ratings.by_user.indptr, ratings.by_user.indices)

    @classmethod
    def nothing(cls, n_users: int) -> Self:
        """What so many users have seen who saw nothing."""
        return cls(np.zeros(n_users + 1, np.int64), np.empty(0, np.int32))

    def with_pairs(self, users: NDArray[np.integer], items: NDArray[np.integer], shape: tuple[int, int]) -> Seen:
        """These and more pairs of row numbers, in a matrix of so many users and items."""
        n_users, width = shape
        before = np.repeat(np.arange(self.indptr.size - 1), np.diff(self.indptr)) * width + self.indices
        rows, columns = np.divmod(np.union1d(before, users.astype(np.int64) * width + items), width)
        return Seen(np.searchsorted(rows, np.arange(n_users + 1)), columns.astype(np.int32))

    def of_users(self, users: Codes) -> tuple[Codes, NDArray[np.int32]]:
        """What some users have seen, as places in ``users`` and row numbers of items."""
        counts = self.indptr[users + 1] - self.indptr[users]
        places = np.repeat(np.arange(len(users)), counts)
        first = np.repeat(self.indptr[users] - np.cumsum(counts) + counts, counts)
        return places, self.indices[first + np.arange(len(places))]


@dataclass(frozen=True)
class Ranking:
    """How a model ranks: by a score that, for a user and an item's magnitude, rises with an inner product.

    Parameters
    ----------
    users, items
        Vectors whose inner products decide, one row for each user and each item.
    trained
        Which users have training ratings, and so a vector of their own.
    score
        The prediction for pairs of row numbers; −1 is an unknown user.
    needed
        ``needed(users, scores, low, high)``: the least inner product with which an item of a magnitude between low and
        high might reach the given score for the given user.
    magnitudes
        Of the items, where the score also depends on them; None where the order is that of the inner products.
    """

    users: NDArray[np.floating]
    items: NDArray[np.floating]
    trained: NDArray[np.bool_]
    score: Callable[[Codes, Codes], Floats]
    needed: Callable[[Codes, Floats, float, float], Floats]
    magnitudes: Floats | None = None


class Lists(NamedTuple):
    """The best items of each user, best first, and their scores; −1 and NaN where there are no more."""

    items: Codes
    scores: Floats


def top_n(
    ranking: Ranking, users: Codes, n: int, items: Codes, seen: Seen | None = None, n_jobs: int | None = None
) -> Iterator[Lists]:
    """The n best of ``items`` for each of ``users``, block by block in their order.

    Parameters
    ----------
    ranking
        What the model provides.
    users, items
        Row numbers. Somebody unknown, user −1, and those without training ratings get the items in the order of the
        model's answers for unknown users.
    n
        Length of the lists.
    seen
        What not to show to whom; None shows everything.
    n_jobs
        Threads; the result is the same for any number.
    """
    shelf = Shelf(ranking, items, n, by_norm=len(users) > FEW)
    unknown = (users < 0) | ~ranking.trained[users]
    popular = Popular(ranking, items) if unknown.any() else None

    def search(block: slice) -> Lists:
        here, apart = users[block], unknown[block]
        lists = Lists(np.full((len(here), n), -1, np.int64), np.full((len(here), n), np.nan))
        if not apart.all():
            lists.items[~apart], lists.scores[~apart] = Search(shelf, here[~apart], n, seen).lists()
        if popular is not None:
            for row in np.flatnonzero(apart).tolist():
                popular.fill(lists, row, seen, int(here[row]))
        return lists

    size = max(1, min(USERS, PAIRS // n))
    blocks = [slice(start, start + size) for start in range(0, len(users), size)]
    yield from _in_order(search, blocks, thread_count(n_jobs))


def _in_order(work: Callable[[Any], Any], blocks: list[Any], n_threads: int) -> Iterator[Any]:
    """The results of a few blocks at a time, in order: a slow reader must not find all of them in memory.

    While they are made, threads of our own take the place of those of BLAS; not while somebody reads them, for that
    limit is one for the whole process.
    """
    at_a_time = 1 if n_threads == 1 else 4 * n_threads
    for start in range(0, len(blocks), at_a_time):
        some = blocks[start : start + at_a_time]
        with _controller().limit(limits=1, user_api="blas"):
            if len(some) == 1:
                found = [work(some[0])]
            else:
                with ThreadPoolExecutor(min(n_threads, len(some))) as executor:
                    found = list(executor.map(work, some))
        yield from found


@cache
def _controller() -> Any:
    return ThreadpoolController()


# --- the items ----------------------------------------------------------------------------------------------


class Tile(NamedTuple):
    """Some items that are looked at together: places on the shelf, their longest vector, their magnitudes."""

    start: int
    stop: int
    norm: float
    low: float
    high: float

    @classmethod
    def of(cls, start: int, stop: int, norms: Floats, magnitudes: Floats) -> Self:
        """The tile of these places."""
        norm, here = norms[start:stop].max(), magnitudes[start:stop]
        return cls(start, stop, float(norm), float(here.min()), float(here.max()))


class Shelf:
    """The items in the order in which they are looked at, in tiles and stages; vectors in float32, scaled to 1."""

    def __init__(self, ranking: Ranking, items: Codes, n: int, by_norm: bool) -> None:
        self.ranking = ranking
        sizes = norms(ranking.items)[items]
        self.largest = float(_unless_nothing(sizes.max(initial=0.0)))
        magnitudes = np.zeros(len(items)) if ranking.magnitudes is None else ranking.magnitudes[items]
        order = np.lexsort((-sizes, -magnitudes)) if by_norm else np.arange(len(items))
        self.items, magnitudes, sizes = items[order], magnitudes[order], sizes[order] / self.largest
        self.place = np.full(len(ranking.items), -1, np.int64)
        self.place[self.items] = np.arange(len(items))
        self.vectors = np.empty((len(items), ranking.items.shape[1]), np.float32)
        for start in range(0, len(items), ITEMS):
            block = ranking.items[self.items[start : start + ITEMS]].astype(np.float64)
            self.vectors[start : start + ITEMS] = block / self.largest
        self.stages = [
            [Tile.of(start, stop, sizes, magnitudes) for start, stop in _cuts(*stage, ITEMS)]
            for stage in _stages(len(items), min(max(FIRST, 2 * n), ITEMS))
        ]
        #: What an inner product of two vectors of length 1 may be off in float32, and the rounding of its operands.
        self.error = (self.vectors.shape[1] + 8) * ROUNDING


def _stages(n_items: int, first: int) -> list[tuple[int, int]]:
    ends = [0]
    while ends[-1] < n_items:
        ends.append(min(n_items, max(first, 2 * ends[-1])))
    return list(pairwise(ends))


def _cuts(start: int, stop: int, size: int) -> Iterator[tuple[int, int]]:
    for here in range(start, stop, size):
        yield here, min(stop, here + size)


def norms(vectors: NDArray[np.floating]) -> Floats:
    """Euclidean norms of the rows, summed in float64; where squares would leave it, in units of the largest entry."""
    with np.errstate(over="ignore"):
        found = np.asarray(np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64)))
    extreme = np.flatnonzero((found < SMALL) | (found > LARGE))
    if extreme.size:
        rows = vectors[extreme].astype(np.float64)
        unit = np.abs(rows).max(axis=1)
        unit[unit == 0] = 1.0
        rows /= unit[:, None]
        found[extreme] = unit * np.sqrt(np.einsum("ij,ij->i", rows, rows))
    return found


def _unless_nothing(sizes: Any) -> Floats:
    """Lengths to divide by: 1 where there is nothing to divide."""
    return np.where(sizes < NOTHING, 1.0, sizes)


# --- the search ---------------------------------------------------------------------------------------------


class Search:
    """The search for the n best items of one block of users."""

    def __init__(self, shelf: Shelf, users: Codes, n: int, seen: Seen | None) -> None:
        self.shelf, self.users, self.n = shelf, users, n
        vectors = shelf.ranking.users[users].astype(np.float64)
        self.sizes = _unless_nothing(norms(vectors))
        self.vectors = (vectors / self.sizes[:, None]).astype(np.float32)
        self.products = np.empty((len(users), min(ITEMS, len(shelf.items))), np.float32)
        self.best = np.full((len(users), n), -np.inf)
        self.best_items = np.full((len(users), n), len(shelf.place), np.int64)
        self._read_seen(seen)

    def _read_seen(self, seen: Seen | None) -> None:
        """What was seen, in the order of the shelf; what is not on it comes first, and lies in no tile."""
        rows, items = (np.empty(0, np.int64),) * 2 if seen is None else seen.of_users(self.users)
        places = self.shelf.place[items]
        order = np.argsort(places)
        self.seen_rows, self.seen_places = rows[order], places[order]

    def lists(self) -> Lists:
        """The lists of all users of the block."""
        for number, stage in enumerate(self.shelf.stages):
            #: What an item must reach to enter: raised between stages, so that there is little to sort.
            least = self.best[:, -1] if number else self._first_guess(stage[0])
            found: list[tuple[Codes, Codes]] = []
            for tile in stage:
                found.append(self._hits(tile, least))
                if tile is stage[-1] or sum(len(rows) for rows, _ in found) > PAIRS:
                    self._enter(found)
                    found, least = [], np.maximum(least, self.best[:, -1])
        missing = self.best == -np.inf
        self.best[missing], self.best_items[missing] = np.nan, -1
        return Lists(self.best_items, self.best)

    def _first_guess(self, tile: Tile) -> Floats:
        """What an item of the first tile must reach: the least score of n of them, whichever.

        Where users have seen so much that it takes seen ones to make n, all the unseen ones are among the n and pass.
        """
        if tile.stop < self.n:
            return np.full(len(self.users), -np.inf)
        rows = np.arange(len(self.users))
        places = np.argpartition(-self._products(tile, rows), self.n - 1, axis=1)[:, : self.n]
        scores = self._scores(np.repeat(rows, self.n), places.ravel())
        return np.asarray(scores.reshape(places.shape).min(axis=1))

    def _hits(self, tile: Tile, least: Floats) -> tuple[Codes, Codes]:
        """Rows and places on the shelf of the pairs that might reach a score, and a few more."""
        least = least - ROUNDING_OF_SCORES * np.abs(least) - LEAST_SCORE
        needed = self.shelf.ranking.needed(self.users, least, tile.low, tile.high)
        with np.errstate(over="ignore"):  # what no product of vectors of length 1 reaches may be infinite
            needed = needed / self.sizes / self.shelf.largest
        error = self.shelf.error * max(tile.norm, SHORTEST)
        needed = np.maximum(needed - error, -2.0)  # what is seen lies below
        rows = np.flatnonzero(needed <= tile.norm)
        if not len(rows):
            return rows, rows
        passed = self._products(tile, rows) >= needed[rows, None].astype(np.float32)
        hit, place = np.divmod(np.flatnonzero(passed), tile.stop - tile.start)
        return rows[hit], place + tile.start

    def _products(self, tile: Tile, rows: Codes) -> NDArray[np.float32]:
        """Inner products of some rows' vectors with those of a tile; −inf for what they have seen."""
        vectors = self.vectors if len(rows) == len(self.users) else self.vectors[rows]
        products = self.products[: len(rows), : tile.stop - tile.start]
        with np.errstate(invalid="ignore"):  # BLAS may compute with what lies beside a small matrix
            np.matmul(vectors, self.shelf.vectors[tile.start : tile.stop].T, out=products)
        seen = slice(*np.searchsorted(self.seen_places, (tile.start, tile.stop)))
        number = np.full(len(self.users), -1)
        number[rows] = np.arange(len(rows))
        seen_rows, seen_places = number[self.seen_rows[seen]], self.seen_places[seen]
        there = seen_rows >= 0
        products[seen_rows[there], seen_places[there] - tile.start] = -np.inf
        return products

    def _scores(self, rows: Codes, places: Codes) -> Floats:
        return self.shelf.ranking.score(self.users[rows], self.shelf.items[places])

    def _enter(self, found: list[tuple[Codes, Codes]]) -> None:
        """Score what was found, and sort it into the lists; equal scores by item order."""
        rows, places = (np.concatenate(parts) for parts in zip(*found, strict=True))
        enter(Lists(self.best_items, self.best), rows, self.shelf.items[places], self._scores(rows, places))


def enter(lists: Lists, new_rows: Codes, new_items: Codes, new_scores: Floats) -> None:
    """Sort what was found for some rows into their lists; equal scores by item order."""
    n, changed = lists.items.shape[1], np.unique(new_rows)
    rows = np.concatenate([np.repeat(changed, n), new_rows])
    items = np.concatenate([lists.items[changed].ravel(), new_items])
    scores = np.concatenate([lists.scores[changed].ravel(), new_scores])
    order = np.lexsort((items, -scores, rows))
    starts = np.searchsorted(rows[order], changed)
    kept = order[(starts[:, None] + np.arange(n)).ravel()]
    lists.scores[changed], lists.items[changed] = (values[kept].reshape(len(changed), n) for values in (scores, items))


def reordered(lists: Lists, scores: Floats, n: int) -> Lists:
    """The n best of what stands in lists by other scores, equal ones by item order; NaN is left out."""
    order = np.lexsort((lists.items, -scores), axis=1)[:, :n]  # NaN comes last
    items, best = np.take_along_axis(lists.items, order, axis=1), np.take_along_axis(scores, order, axis=1)
    return Lists(np.where(np.isnan(best), -1, items), best)


class Popular:
    """The items in the order of the model's answers for an unknown user; none where it has no answer."""

    def __init__(self, ranking: Ranking, items: Codes) -> None:
        scores = ranking.score(np.full(len(items), -1), items)
        order = np.lexsort((items, -scores))[: np.count_nonzero(~np.isnan(scores))]  # NaN comes last
        self.items, self.scores = items[order], scores[order]

    def fill(self, lists: Lists, row: int, seen: Seen | None, user: int) -> None:
        """Write the list of somebody unknown; a user may have seen items and yet no training rating."""
        n = lists.items.shape[1]
        known = np.empty(0) if seen is None or user < 0 else seen.of_users(np.array([user]))[1]
        first = slice(n + len(known))
        unseen = np.flatnonzero(~np.isin(self.items[first], known))[:n]
        lists.items[row, : len(unseen)], lists.scores[row, : len(unseen)] = self.items[unseen], self.scores[unseen]


# --- where the order is not that of inner products ------------------------------------------------------------


@dataclass(frozen=True)
class Scored:
    """How a model ranks where every pair has a range of its own: by scores, which no inner product decides alone.

    Parameters
    ----------
    scores
        ``scores(places, items)``: a row for each user, by their place among those who ask, and a column for each item,
        NaN for what is left out; and how far these may be off by rounding.
    exact
        The prediction for pairs of places and row numbers of items.
    highest
        What no user's score of an item passes, where that is the same for all users; else None.
    """

    scores: Callable[[Codes, Codes], tuple[Floats, float]]
    exact: Callable[[Codes, Codes], Floats]
    highest: Floats | None = None


def top_n_scored(
    ranking: Scored, users: Codes, n: int, items: Codes, seen: Seen | None = None, n_jobs: int | None = None
) -> Iterator[Lists]:
    """The n best of ``items`` for each of ``users``, as `top_n` has them; in memory of a fixed size."""
    if ranking.highest is not None:
        items = items[np.argsort(-ranking.highest[items], kind="stable")]
    size = max(1, min(FEW_USERS, PAIRS // n))
    blocks = [np.arange(start, min(start + size, len(users))) for start in range(0, len(users), size)]

    def search(places: Codes) -> Lists:
        return ScoredSearch(ranking, users, places, n, seen).lists(items)

    yield from _in_order(search, blocks, thread_count(n_jobs))


class ScoredSearch:
    """The search for the n best items of some users, tile by tile."""

    def __init__(self, ranking: Scored, users: Codes, places: Codes, n: int, seen: Seen | None) -> None:
        self.ranking, self.places, self.n = ranking, places, n
        self.best = np.full((len(places), n), -np.inf)
        self.best_items = np.full((len(places), n), np.iinfo(np.int64).max)
        known = np.flatnonzero(users[places] >= 0)
        rows, items = (known[:0], known[:0]) if seen is None else seen.of_users(users[places[known]])
        self.seen_rows, self.seen_items = known[rows], items

    def lists(self, items: Codes) -> Lists:
        """The lists of all users of the block; the items come in the order in which they are looked at."""
        for start, stop in _cuts(0, len(items), FEW_ITEMS):
            tile = items[start:stop]
            if self.ranking.highest is not None and self._nothing_enters(float(self.ranking.highest[tile[0]])):
                break
            self._look_at(tile)
        missing = self.best == -np.inf
        self.best[missing], self.best_items[missing] = np.nan, -1
        return Lists(self.best_items, self.best)

    def _nothing_enters(self, highest: float) -> bool:
        return bool((self.best[:, -1] > highest).all())

    def _look_at(self, tile: Codes) -> None:
        """Score a tile roughly, and what may enter exactly."""
        scores, error = self.ranking.scores(self.places, tile)
        self._leave_out_seen(scores, tile)
        rough = np.where(np.isnan(scores), -np.inf, scores)
        least = self.best[:, -1]
        if len(tile) > self.n:  # n of the tile itself are as good as that
            least = np.maximum(least, -np.partition(-rough, self.n - 1, axis=1)[:, self.n - 1])
        rows, columns = np.nonzero((rough >= (least - 2 * error)[:, None]) & (rough > -np.inf))
        if rows.size:
            exact = self.ranking.exact(self.places[rows], tile[columns])
            enter(Lists(self.best_items, self.best), rows, tile[columns], exact)

    def _leave_out_seen(self, scores: Floats, tile: Codes) -> None:
        rows, seen, order = self.seen_rows, self.seen_items, np.argsort(tile)
        place = np.minimum(np.searchsorted(tile, seen, sorter=order), len(tile) - 1)
        there = tile[order[place]] == seen
        scores[rows[there], order[place[there]]] = np.nan


def most_similar(vectors: NDArray[np.floating], row: int, among: Codes, n: int) -> Lists:
    """The n rows of ``among`` whose vectors have the highest cosine with that of ``row``, which is left out.

    A vector of zeros has no direction: its cosine with any other counts as 0.
    """
    among = among[among != row]
    sizes = norms(vectors)
    products = np.einsum("ij,j->i", vectors[among], vectors[row], dtype=np.float64)
    scale = sizes[among] * sizes[row]
    cosines = np.clip(np.divide(products, scale, out=np.zeros(len(among)), where=scale > 0), -1.0, 1.0)
    best = np.lexsort((among, -cosines))[:n]
    return Lists(among[best], cosines[best])
