"""What every model does with its predictions: lists of items for users, neighbours, vectors for an index."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args, overload

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from boundrec.columns import Column, id_column, short
from boundrec.frames import LIBRARIES, Library, build_frame, import_library
from boundrec.ids import IdIndex, id_array
from boundrec.models.predicting import Unknown
from boundrec.models.settings import check_count, check_flag
from boundrec.recommend import Codes, Floats, Lists, Ranking, Seen, most_similar, top_n

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

Output = Literal["arrays", Library]
OUTPUTS: tuple[Output, ...] = get_args(Output)
#: The products of vectors within this are far from the ends of float32.
MODERATE = 1e15


class Vectors(NamedTuple):
    """Vectors for an index of inner products, and the ids of their rows.

    ``exact`` says whether the order of the inner products is the model's own. Where it is not (slack, and items of
    different magnitudes), ask the index for more items than you need and rank those by ``predict``.
    """

    users: NDArray[np.float32]
    items: NDArray[np.float32]
    user_ids: NDArray[Any]
    item_ids: NDArray[Any]
    exact: bool


class Asked(NamedTuple):
    """What a call of ``recommend`` asks for, checked: ids, their row numbers, and how to answer."""

    user_ids: NDArray[Any]
    users: Codes
    items: Codes
    n: int
    seen: Seen | None
    output: Output


class Recommending:
    """The part of a model that recommends; the model says in `_ranking` how its vectors make a prediction."""

    on_unknown: Unknown
    n_jobs: int | None
    user_ids_: IdIndex
    item_ids_: IdIndex
    user_factors_: NDArray[np.floating]
    item_factors_: NDArray[np.floating]
    _seen: Seen | None
    _user_seen: NDArray[np.bool_]
    _item_seen: NDArray[np.bool_]

    # --- lists ----------------------------------------------------------------------------------------------

    @overload
    def recommend(
        self,
        users: Any = None,
        n: int = 10,
        exclude_seen: bool = True,
        candidates: Any = None,
        exclude: Any = None,
        output: Literal["arrays"] = "arrays",
    ) -> tuple[NDArray[Any], Floats]: ...
    @overload
    def recommend(
        self,
        users: Any = None,
        n: int = 10,
        exclude_seen: bool = True,
        candidates: Any = None,
        exclude: Any = None,
        *,
        output: Literal["pandas"],
    ) -> pd.DataFrame: ...
    @overload
    def recommend(
        self,
        users: Any = None,
        n: int = 10,
        exclude_seen: bool = True,
        candidates: Any = None,
        exclude: Any = None,
        *,
        output: Literal["polars"],
    ) -> pl.DataFrame: ...
    @overload
    def recommend(
        self,
        users: Any = None,
        n: int = 10,
        exclude_seen: bool = True,
        candidates: Any = None,
        exclude: Any = None,
        *,
        output: Literal["pyarrow"],
    ) -> Any: ...
    def recommend(
        self,
        users: Any = None,
        n: int = 10,
        exclude_seen: bool = True,
        candidates: Any = None,
        exclude: Any = None,
        output: Output = "arrays",
    ) -> Any:
        """The n items with the highest predictions for each user: exact, equal predictions in the order of the items.

        Parameters
        ----------
        users
            A column of user ids: a list, an array or a series; None for all of ``user_ids_``, in their order. What
            users without a training rating get is for ``on_unknown`` to say: ``"mean"``, the items in the order of
            what `predict` answers for them; ``"nan"``, an empty list; ``"raise"``, an error.
        n
            Length of the lists; all items where there are fewer.
        exclude_seen
            Leave out what a user has rated.
        candidates
            The only item ids to choose from; None for all items with training ratings.
        exclude
            Item ids to leave out.
        output
            ``"arrays"``: item ids and predictions, one row for each user, n columns, or as many as the model has items
            where those are fewer. Where a list is shorter than that the predictions are NaN and the ids −1, or None
            where ids are not integers. ``"pandas"``, ``"polars"`` or ``"pyarrow"``: a frame with the columns user,
            item, rank (from 1), score, lower, upper and, where the model knows it, std; it has no rows for items that
            are not there.

        Returns
        -------
        (items, scores), or a frame
        """
        asked = self._read_request(users, n, exclude_seen, candidates, exclude, output)
        lists = _joined(list(self._lists(asked)), asked.n)
        answer = self._present(asked, slice(None), lists)
        return answer[1:] if output == "arrays" else answer

    @overload
    def recommend_batches(
        self,
        users: Any = None,
        n: int = 10,
        exclude_seen: bool = True,
        candidates: Any = None,
        exclude: Any = None,
        output: Literal["arrays"] = "arrays",
        batch_size: int = 4096,
    ) -> Iterator[tuple[NDArray[Any], NDArray[Any], Floats]]: ...
    @overload
    def recommend_batches(
        self,
        users: Any = None,
        n: int = 10,
        exclude_seen: bool = True,
        candidates: Any = None,
        exclude: Any = None,
        *,
        output: Literal["pandas"],
        batch_size: int = 4096,
    ) -> Iterator[pd.DataFrame]: ...
    @overload
    def recommend_batches(
        self,
        users: Any = None,
        n: int = 10,
        exclude_seen: bool = True,
        candidates: Any = None,
        exclude: Any = None,
        *,
        output: Literal["polars"],
        batch_size: int = 4096,
    ) -> Iterator[pl.DataFrame]: ...
    @overload
    def recommend_batches(
        self,
        users: Any = None,
        n: int = 10,
        exclude_seen: bool = True,
        candidates: Any = None,
        exclude: Any = None,
        *,
        output: Literal["pyarrow"],
        batch_size: int = 4096,
    ) -> Iterator[Any]: ...
    def recommend_batches(
        self,
        users: Any = None,
        n: int = 10,
        exclude_seen: bool = True,
        candidates: Any = None,
        exclude: Any = None,
        output: Output = "arrays",
        batch_size: int = 4096,
    ) -> Iterator[Any]:
        """`recommend` for some users at a time: the lists of all of them need never be in memory together.

        Parameters
        ----------
        users, n, exclude_seen, candidates, exclude, output
            As in `recommend`.
        batch_size
            Users in a batch.

        Returns
        -------
        an iterator over (users, items, scores), or over frames
        """
        asked = self._read_request(users, n, exclude_seen, candidates, exclude, output)
        check_count("batch_size", batch_size, 1)
        return self._batches(asked, batch_size)

    def _batches(self, asked: Asked, size: int) -> Iterator[Any]:
        waiting, n_waiting, done = [], 0, 0
        for lists in self._lists(asked):
            waiting.append(lists)
            n_waiting += len(lists.items)
            while n_waiting >= size or 0 < n_waiting == len(asked.users) - done:
                items, scores = _joined(waiting, asked.n)
                yield self._present(asked, slice(done, done + size), Lists(items[:size], scores[:size]))
                done += len(items[:size])
                waiting, n_waiting = [Lists(items[size:], scores[size:])], len(items[size:])

    def _lists(self, asked: Asked) -> Iterator[Lists]:
        return top_n(self._ranking(), asked.users, asked.n, asked.items, asked.seen, self.n_jobs)

    def _present(self, asked: Asked, rows: slice, lists: Lists) -> Any:
        """Lists of row numbers with ids in their place: (users, items, scores), or a frame."""
        there = lists.items >= 0
        if asked.output == "arrays":
            ids = self.item_ids_.ids
            items = np.full(lists.items.shape, -1 if ids.dtype == np.int64 else None, ids.dtype)
            items[there] = ids[lists.items[there]]
            return asked.user_ids[rows], items, lists.scores
        place, rank = np.nonzero(there)
        users, items = asked.users[rows][place], lists.items[there]
        users = np.where(self._user_seen[users], users, -1)
        lower, upper = self._interval(users, items)
        columns = {
            "user": asked.user_ids[rows][place],
            "item": self.item_ids_.ids[items],
            "rank": rank + 1,
            "score": lists.scores[there],
            "lower": lower,
            "upper": upper,
        }
        std = self._std(users, items)
        return build_frame(columns if std is None else {**columns, "std": std}, asked.output)

    # --- what is asked for ----------------------------------------------------------------------------------

    def _read_request(
        self, users: Any, n: int, exclude_seen: bool, candidates: Any, exclude: Any, output: Output
    ) -> Asked:
        check_is_fitted(self, "item_factors_")
        self._check_choice("on_unknown")  # it may have been set after the fit
        check_count("n", n, 1)
        check_flag("exclude_seen", exclude_seen)
        if not isinstance(output, str) or output not in OUTPUTS:
            raise ValueError(f"output={short(output)}: give one of {', '.join(map(repr, OUTPUTS))}.")
        if output in LIBRARIES:
            import_library(output)  # before a long search, not after it
        if exclude_seen and self._seen is None:
            raise ValueError("this model does not know what its users have rated: pass exclude_seen=False.")
        column = self.user_ids_.ids if users is None else id_column(users, "users")
        self._known_codes("user", column, self.user_ids_, self._user_seen)  # says so where they must be known
        items = self._items_to_search(candidates, exclude)
        codes = self.user_ids_.codes(column)
        n = min(int(n), len(self.item_ids_))
        return Asked(id_array(column), codes, items, n, self._seen if exclude_seen else None, output)

    def _items_to_search(self, candidates: Any, exclude: Any) -> Codes:
        """Row numbers of the items that may be recommended, in their order."""
        chosen = self._item_seen.copy()
        if candidates is not None:
            column = id_column(candidates, "candidates")
            chosen[:] = False
            chosen[self._trained_items("candidates", column)] = True
        if exclude is not None:
            column = id_column(exclude, "exclude")
            codes = self.item_ids_.codes(column)
            self._warn_of_other_type("item", column, self.item_ids_, codes)
            chosen[codes[codes >= 0]] = False
        return np.flatnonzero(chosen)

    def _trained_items(self, name: str, column: Column) -> Codes:
        codes = self.item_ids_.codes(column)
        unknown = np.flatnonzero((codes < 0) | ~self._item_seen[codes])
        if unknown.size:
            raise ValueError(
                f"{name}: {unknown.size} of {len(column)} items have no training ratings "
                f"(first: {short(id_array(column).item(unknown[0]))}): leave them out."
            )
        return codes

    # --- neighbours -----------------------------------------------------------------------------------------

    def similar_items(self, item: Any, n: int = 10) -> tuple[NDArray[Any], Floats]:
        """The items whose factors point most nearly the same way, best first.

        Parameters
        ----------
        item
            The id of an item with training ratings.
        n
            How many; there are fewer where the model knows fewer.

        Returns
        -------
        items, similarities
            Ids, and the cosine of the angle between the factors: 1 for the same direction, −1 for the opposite one.
            Biases, where the model has them, do not count.
        """
        return self._similar("item", item, n)

    def similar_users(self, user: Any, n: int = 10) -> tuple[NDArray[Any], Floats]:
        """The users whose factors point most nearly the same way; as `similar_items`."""
        return self._similar("user", user, n)

    def _similar(self, kind: str, one: Any, n: int) -> tuple[NDArray[Any], Floats]:
        check_is_fitted(self, "item_factors_")
        check_count("n", n, 1)
        ids, trained, factors = (
            (self.item_ids_, self._item_seen, self.item_factors_)
            if kind == "item"
            else (self.user_ids_, self._user_seen, self.user_factors_)
        )
        row = int(ids.codes([one])[0])
        if row < 0 or not trained[row]:
            raise ValueError(f"{kind} {short(one)} has no training ratings: pass the id of one that has.")
        found = most_similar(factors[:, self._n_bias_columns() :], row, np.flatnonzero(trained), int(n))
        return ids.ids[found.items], found.scores

    # --- vectors --------------------------------------------------------------------------------------------

    def export_vectors(self) -> Vectors:
        """Vectors for an approximate index: the larger the inner product, the higher the prediction.

        Returns
        -------
        Vectors
            ``users`` and ``items`` in float32, one row for each id in ``user_ids`` and ``item_ids`` (those with
            training ratings); and ``exact``, whether the order of inner products is the model's own. Centres that
            differ from pair to pair take one more dimension than the factors have. Constants are left out: they
            change no order, nor does the power of two by which very large or small vectors are divided to fit float32.
        """
        check_is_fitted(self, "item_factors_")
        users, items = self._vectors()
        return Vectors(
            _in_float32(users[self._user_seen]),
            _in_float32(items[self._item_seen]),
            self.user_ids_.ids[self._user_seen],
            self.item_ids_.ids[self._item_seen],
            self._keeps_order(),
        )

    # --- what a model provides ------------------------------------------------------------------------------

    def _ranking(self) -> Ranking:
        raise NotImplementedError

    def _check_choice(self, name: str) -> None:
        raise NotImplementedError

    def _known_codes(self, kind: str, column: Any, ids: IdIndex, seen: NDArray[np.bool_]) -> Codes:
        raise NotImplementedError

    def _warn_of_other_type(self, kind: str, column: Any, ids: IdIndex, codes: Codes) -> None:
        raise NotImplementedError

    def _interval(self, users: Codes, items: Codes) -> tuple[Floats, Floats]:
        """What the model promises of its predictions; nothing, unless it says so."""
        return np.full(len(users), -np.inf), np.full(len(users), np.inf)

    def _std(self, users: Codes, items: Codes) -> Floats | None:
        """Standard deviation of a rating around its prediction, where the model knows it."""
        return None

    def _vectors(self) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
        """Vectors whose inner products have the order of the predictions, or come close to it."""
        return self.user_factors_, self.item_factors_

    def _keeps_order(self) -> bool:
        """Whether the order of the inner products of `_vectors` is that of the predictions."""
        return True

    def _n_bias_columns(self) -> int:
        """Columns in front of the factors that say how high somebody rates, not what."""
        return 2 if getattr(self, "biases", False) else 0


def _in_float32(vectors: NDArray[np.floating]) -> NDArray[np.float32]:
    """Vectors whose inner products float32 holds: divided by a power of two where they are too large or too small."""
    size = float(np.abs(vectors).max(initial=0.0))
    if size and not 1 / MODERATE < size < MODERATE:
        vectors = np.ldexp(vectors.astype(np.float64), -int(np.frexp(size)[1]))
    return np.ascontiguousarray(vectors, np.float32)


def _joined(blocks: list[Lists], n: int) -> Lists:
    empty = Lists(np.empty((0, n), np.int64), np.empty((0, n)))
    items, scores = (np.concatenate(parts) for parts in zip(empty, *blocks, strict=True))
    return Lists(items, scores)
