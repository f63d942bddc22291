"""The one door for data: ids become row numbers, ratings become two CSR orders, every check happens here."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from boundrec.data.columns import Names, column_names, pair_array, pair_columns, read_numbers, short
from boundrec.data.ids import IdIndex

__all__ = ["Csr", "IdIndex", "Ratings", "pair_columns"]

Duplicates = Literal["raise", "last", "mean", "sum"]
DUPLICATES: tuple[Duplicates, ...] = get_args(Duplicates)
# Formats that store exactly their entries; "bsr" and "dia" pad with zeros that nobody observed.
SPARSE_FORMATS = ("coo", "csr", "csc", "lil", "dok")
INT32_MAX = np.iinfo(np.int32).max
#: What is wrong with strengths, and the remedy.
NOT_ABOVE_0 = "strengths that are not above 0"
LEAVE_OUT = "leave out what nobody chose, or pass y=None to count every pair once"
#: The square of a larger rating, summed over some, is infinite; that of a smaller range is nothing.
LARGEST, SMALLEST = 1e150, 1e-150
#: The same for storage in float32: slack takes what is stored past its range, and near the centre digits must be left.
LARGEST_FLOAT32, SMALLEST_FLOAT32 = 1e36, 1e-30


def sizes_that_fit(dtype: np.dtype[Any]) -> tuple[float, float]:
    """The least and the most that ranges and magnitudes may be where a model is stored in this type."""
    return (SMALLEST, LARGEST) if dtype == np.float64 else (SMALLEST_FLOAT32, LARGEST_FLOAT32)


def wider_than(dtype: np.dtype[Any], size: float = np.inf) -> str:
    """What to pass for a model to be stored in a type with room for a number of this size, where one is wider."""
    if dtype == np.float64:
        return ""
    wider = "float32" if dtype == np.float16 and SMALLEST_FLOAT32 <= size <= LARGEST_FLOAT32 else "float64"
    return f'pass dtype="{wider}", or '


def is_too_large(number: Any) -> bool:
    """Whether the square of a number, finite itself, may not be; the number may be an integer of any length."""
    plain = number.item() if isinstance(number, np.generic) else number  # NumPy would make LARGEST as narrow as it is
    return bool(LARGEST < abs(plain) < np.inf)


class RatingsError(ValueError):
    """Ratings that cannot be taken. The fields are for those who know the lines of a file that the rows are.

    Parameters
    ----------
    message
        What is wrong, where, and what to do about it.
    flaw
        "bounds", "duplicates", "ranges" or another word for what is wrong.
    count, total
        Of how many ratings, and how many there are.
    rows
        Which these are, of the first one: of a pair that comes twice both.
    pair, value
        The user id and the item id of the first, and its rating.
    """

    def __init__(
        self,
        message: str,
        flaw: str = "",
        count: int = 1,
        total: int = 1,
        rows: tuple[int, ...] = (),
        pair: tuple[Any, Any] = (None, None),
        value: float = math.nan,
    ) -> None:
        super().__init__(message)
        self.flaw, self.count, self.total = flaw, count, total
        self.rows, self.pair, self.value = rows, pair, value


class Ends(NamedTuple):
    """The range of each of some pairs: two numbers, the lower one at most the upper one; NaN where there is none."""

    lower: NDArray[np.float64]
    upper: NDArray[np.float64]

    def take(self, which: Any) -> Ends:
        """Those of some of the pairs, by a mask, a slice or positions."""
        return Ends(self.lower[which], self.upper[which])


@dataclass(frozen=True)
class Pairs:
    """Row numbers of users and items, −1 for somebody unknown; with the range of each, where pairs have their own."""

    users: NDArray[Any]
    items: NDArray[Any]
    ends: Ends | None = None

    def __len__(self) -> int:
        return len(self.users)

    def take(self, which: Any) -> Pairs:
        """Some of the pairs, by a mask, a slice or positions."""
        return Pairs(self.users[which], self.items[which], self.ends and self.ends.take(which))

    def unknown(self) -> NDArray[np.bool_]:
        """Which pairs have somebody unknown in them."""
        return (self.users < 0) | (self.items < 0)


class Csr(NamedTuple):
    """One row order of the ratings, handed to the kernels as it is.

    Row i owns the entries ``indptr[i]:indptr[i + 1]``, with increasing ``indices``. A stored zero is an
    observation. ``weights`` has size 0 when every observation counts once.
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    data: NDArray[np.floating]
    weights: NDArray[np.floating]

    def row_of_entry(self) -> NDArray[np.int32]:
        """The row number of each entry."""
        return np.repeat(np.arange(self.indptr.size - 1, dtype=np.int32), np.diff(self.indptr))

    def take(self, rows: NDArray[np.integer]) -> Csr:
        """Some of the rows, in the order asked for."""
        counts = np.diff(self.indptr)[rows]
        indptr = np.concatenate(([0], np.cumsum(counts)))
        entries = np.arange(indptr[-1]) + np.repeat(self.indptr[rows] - indptr[:-1], counts)
        weights = self.weights[entries] if self.weights.size else self.weights
        return Csr(indptr, self.indices[entries], self.data[entries], weights)

    def sum_rows(self, values: NDArray[np.floating]) -> NDArray[np.float64]:
        """Σ over the entries of each row of one value an entry, in float64 and in order."""
        return np.bincount(self.row_of_entry(), values, self.indptr.size - 1).astype(np.float64)

    def row_weights(self) -> NDArray[np.float64]:
        """n_i = Σ_j c_ij: the number of entries of each row where none is weighted."""
        if self.weights.size:
            return self.sum_rows(self.weights)
        return np.diff(self.indptr).astype(np.float64)

    def weighed(self, by: NDArray[np.floating]) -> Csr:
        """The same entries, of which each counts so many times what it did."""
        return self._replace(weights=np.asarray(self.weights * by if self.weights.size else by, np.float64))

    def that_count(self) -> NDArray[np.bool_]:
        """Which entries have a weight above 0."""
        return self.weights > 0 if self.weights.size else np.ones(self.data.size, bool)


@dataclass(frozen=True, eq=False)
class Ratings:
    """Ratings in both row orders, with the ids of their users and items.

    An observation with ``sample_weight`` 0 is kept (its user and item have rows, the pair counts as seen) but adds
    nothing to a fit: to a model, a user or an item with no other ones is unknown.
    """

    by_user: Csr
    by_item: Csr
    users: IdIndex
    items: IdIndex
    #: The names of the columns of ids where they came in a frame, users first.
    names: Names | None = None
    #: Which of the rows that were read each rating is, in the order of `by_user`, where that is kept.
    rows: NDArray[np.integer] | None = None
    #: The range of each rating's pair, in the order of `by_user`, where pairs have ranges of their own.
    ends: Ends | None = None

    @classmethod
    def none(cls, ranged: bool) -> Ratings:
        """No rating of anybody; ``ranged`` where pairs have ranges of their own."""
        nothing, nobody = np.empty(0), IdIndex(np.empty(0, np.int64))
        csr = Csr(np.zeros(1, np.int64), np.empty(0, np.int32), nothing, nothing)
        return cls(csr, csr, nobody, nobody, ends=Ends(nothing, nothing) if ranged else None)

    @property
    def n_users(self) -> int:
        """Number of users, those without a rating included."""
        return len(self.users)

    @property
    def n_items(self) -> int:
        """Number of items, those without a rating included."""
        return len(self.items)

    @property
    def n_ratings(self) -> int:
        """Number of observations."""
        return int(self.by_user.indices.size)

    def __repr__(self) -> str:
        return f"Ratings({self.n_ratings} ratings, {self.n_users} users × {self.n_items} items)"

    @classmethod
    def read(
        cls,
        X: Any,
        y: Any = None,
        *,
        sample_weight: Any = None,
        duplicates: Duplicates = "raise",
        ends: Ends | None = None,
        strengths: bool = False,
    ) -> Ratings:
        """Read ratings in any accepted form.

        Parameters
        ----------
        X
            Pairs of ids (see `from_pairs`), a scipy sparse matrix (see `from_sparse`), or a `Ratings`.
        y
            One rating for each pair; None for sparse matrices and `Ratings`, which hold their own.
        sample_weight, duplicates, ends
            As in `from_pairs`.
        strengths
            Whether these are no ratings but say how often or how strongly somebody chose something: all must be
            above 0, and pairs without y count once each.
        """
        if isinstance(X, Ratings):
            if y is not None or sample_weight is not None or ends is not None:
                raise ValueError(
                    "a Ratings holds its own ratings and weights: pass y=None, sample_weight=None, and no ranges"
                )
            _check_duplicates_option(duplicates)
            if strengths:
                X.check_strengths()
            return X
        if issparse(X):
            if y is not None:
                raise ValueError("a sparse matrix holds its own ratings: pass y=None, or pass pairs of ids with y")
            matrix: Any = X
            if strengths:
                _check_strengths(read_numbers(matrix.tocoo(copy=False).data, "the sparse matrix", "strength"))
            return cls.from_sparse(matrix, sample_weight=sample_weight, duplicates=duplicates, ends=ends)
        if strengths:
            y = np.ones(len(pair_columns(X)[0])) if y is None else read_numbers(y, "y", "strength")
            _check_strengths(y)
        return cls.from_pairs(X, y, sample_weight=sample_weight, duplicates=duplicates, ends=ends)

    @classmethod
    def from_pairs(
        cls,
        X: Any,
        y: Any,
        *,
        sample_weight: Any = None,
        duplicates: Duplicates = "raise",
        ends: Ends | None = None,
    ) -> Ratings:
        """Read pairs of ids with their ratings.

        Parameters
        ----------
        X
            Two columns, user ids and item ids: an array, a list of pairs, or a pandas, polars or pyarrow
            frame. Ids are anything hashable and are numbered by first appearance.
        y
            One finite number (or bool) for each row of X.
        sample_weight
            One non-negative number for each row of X; None counts every observation once.
        duplicates
            What to do with a pair that comes more than once: ``"raise"``, keep the ``"last"``, take the
            ``"mean"`` (weighted, when there are weights, which then add up), or the ``"sum"`` (whose weight is the
            mean of theirs).
        ends
            The range of each row of X, where pairs have ranges of their own.
        """
        _check_duplicates_option(duplicates)
        user_column, item_column = pair_columns(X)
        if y is None:
            raise ValueError("y is missing: pairs of ids need one rating each (only a sparse matrix needs no y)")
        values = read_numbers(y, "y", "rating")
        if len(user_column) != values.size:
            raise ValueError(f"X has {len(user_column)} rows but y has {values.size}: give one rating for each row")
        if values.size == 0:
            raise ValueError("X and y are empty: give at least one rating")
        weights = _read_weights(sample_weight, values.size)
        _check_ends_length(ends, values.size)
        users, user_codes = IdIndex.encode(user_column, "user")
        items, item_codes = IdIndex.encode(item_column, "item")
        ratings = _assemble(_Entries(user_codes, item_codes, values, weights, ends), users, items, duplicates)
        return replace(ratings, names=column_names(X))

    @classmethod
    def from_codes(
        cls,
        users: tuple[IdIndex, NDArray[np.int32]],
        items: tuple[IdIndex, NDArray[np.int32]],
        y: Any,
        duplicates: str = "raise",
        ends: Ends | None = None,
    ) -> Ratings:
        """Read ratings whose ids are numbered already, as `IdIndex.encode` does it, and keep which row each is.

        Parameters
        ----------
        users, items
            The ids, and the row number of each rating's user and item.
        y
            One finite number for each rating.
        duplicates
            As in `from_pairs`; the row of several is the last one's.
        ends
            The range of each rating, where pairs have ranges of their own.
        """
        _check_duplicates_option(duplicates)
        values = read_numbers(y, "y", "rating")
        if values.size == 0:
            raise ValueError("y is empty: give at least one rating")
        _check_ends_length(ends, values.size)
        for kind, (index, codes) in (("user", users), ("item", items)):
            _check_codes(kind, codes, len(index), "y")
        entries = _Entries(users[1], items[1], values, np.empty(0), ends)
        return _assemble(entries, users[0], items[0], duplicates, keep_rows=True)

    @classmethod
    def from_sparse(
        cls,
        matrix: Any,
        *,
        sample_weight: Any = None,
        duplicates: Duplicates = "raise",
        ends: Ends | None = None,
    ) -> Ratings:
        """Read a scipy sparse matrix or array, users × items, whose stored entries are the observations.

        Ids are 0 … N−1 and 0 … M−1; rows and columns without an entry count as known users and items.

        Parameters
        ----------
        matrix
            In COO, CSR, CSC, LIL or DOK format. Stored zeros are observations.
        sample_weight
            One non-negative number for each stored entry, in the order of ``matrix.tocoo().data``.
        duplicates
            As in `from_pairs`; a sparse matrix may store the same place twice.
        ends
            The range of each stored entry, in the same order, where pairs have ranges of their own.
        """
        _check_duplicates_option(duplicates)
        _check_sparse(matrix)
        _check_compressed(matrix)
        entries = matrix.tocoo(copy=False)
        for kind, codes, size in zip(("user", "item"), (entries.row, entries.col), matrix.shape, strict=True):
            _check_codes(kind, codes, size, "the sparse matrix")
        values = read_numbers(entries.data, "the sparse matrix", "rating")
        weights = _read_weights(sample_weight, values.size)
        _check_ends_length(ends, values.size)
        users, items = (IdIndex(np.arange(size, dtype=np.int64)) for size in matrix.shape)
        user_codes, item_codes = (codes.astype(np.int32, copy=False) for codes in (entries.row, entries.col))
        return _assemble(_Entries(user_codes, item_codes, values, weights, ends), users, items, duplicates)

    def to_pairs(self) -> tuple[NDArray[Any], NDArray[np.floating]]:
        """Pairs of ids and their ratings, in the order of `by_user`, as cross validation wants them.

        Returns
        -------
        X, y
            X has shape (n, 2): int64 when all ids are integers, else object. The weights, if any, are
            ``by_user.weights``, in the same order.
        """
        X = pair_array(self.users.ids[self.user_of_rating()], self.items.ids[self.by_user.indices])
        return X, self.by_user.data.copy()

    def user_of_rating(self) -> NDArray[np.int32]:
        """Row number of the user of each entry of `by_user`."""
        return self.by_user.row_of_entry()

    def pairs(self) -> Pairs:
        """The pairs that are rated, in the order of `by_user`."""
        return Pairs(self.user_of_rating(), self.by_user.indices, self.ends)

    def with_values(self, data: NDArray[np.floating], weights: NDArray[np.floating]) -> Ratings:
        """The same pairs with other ratings and weights, in the order of `by_user`."""
        by_user = self.by_user._replace(data=data, weights=weights)
        return replace(self, by_user=by_user, by_item=transposed(by_user, self.n_items))

    def positions(self, X: Any) -> NDArray[np.int64]:
        """Where each pair of ids of X, all of them rated here, stands in the order of users."""
        users, items = pair_columns(X)
        rated = self.user_of_rating().astype(np.int64) * self.n_items + self.by_user.indices  # int32 would overflow
        return np.searchsorted(rated, self.users.codes(users) * self.n_items + self.items.codes(items))

    def keep(self, mask: NDArray[np.bool_]) -> Ratings:
        """The ratings where a mask over the entries of `by_user` is True; all users and items stay."""
        mask = np.asarray(mask)
        if mask.dtype != np.bool_ or mask.shape != (self.n_ratings,):
            raise ValueError(
                f"mask must hold one bool for each of the {self.n_ratings} ratings, "
                f"but is {mask.dtype} of shape {mask.shape}"
            )
        indptr, indices, data, weights = self.by_user
        kept_before = np.concatenate(([0], np.cumsum(mask, dtype=np.int64)))
        if kept_before[-1] == 0:
            raise ValueError("the mask keeps no rating: at least one must stay")
        weights = weights[mask] if weights.size else weights
        _check_some_weight(weights)
        by_user = Csr(kept_before[indptr], indices[mask], data[mask], weights)
        rows = None if self.rows is None else self.rows[mask]
        ends = self.ends and self.ends.take(mask)
        return replace(self, by_user=by_user, by_item=transposed(by_user, self.n_items), rows=rows, ends=ends)

    def renumbered(self, users: IdIndex, items: IdIndex) -> Ratings:
        """The same ratings under the row numbers of other indices, which know all of their ids."""
        return _assemble(self._entries(users, items), users, items, "raise")

    def with_more_ids(self, users: IdIndex, items: IdIndex) -> Ratings:
        """The same ratings, where ids that nobody rated follow those that there are."""

        def grown(csr: Csr, n: int) -> Csr:
            return csr._replace(indptr=np.pad(csr.indptr, (0, n + 1 - csr.indptr.size), mode="edge"))

        by_user, by_item = grown(self.by_user, len(users)), grown(self.by_item, len(items))
        return replace(self, by_user=by_user, by_item=by_item, users=users, items=items)

    def with_new(self, new: Ratings, duplicates: Duplicates = "last") -> Ratings:
        """These ratings and new ones, which replace those of the same pairs, or as asked for; new ids follow."""
        users, items = self.users.extended(new.users), self.items.extended(new.items)
        old, added = self._entries(users, items), new._entries(users, items)
        return _assemble(old.followed_by(added), users, items, duplicates)

    def _entries(self, users: IdIndex, items: IdIndex) -> _Entries:
        """The observations one by one, under the row numbers of other indices."""
        csr = self.by_user
        user = users.codes(self.users.ids).astype(np.int32)[self.user_of_rating()]
        item = items.codes(self.items.ids).astype(np.int32)[csr.indices]
        return _Entries(user, item, csr.data, csr.weights, self.ends)

    def check_bounds(self, bounds: tuple[float | None, float | None]) -> None:
        """Refuse ratings outside declared bounds; an end that is None is open."""
        low, high = bounds
        data = self.by_user.data
        outside = np.zeros(data.size, bool)
        if low is not None:
            outside |= data < low
        if high is not None:
            outside |= data > high
        self._refuse(
            "bounds",
            outside,
            f"ratings outside the declared bounds ({low}, {high})",
            "widen bounds, or correct these ratings or leave them out",
        )

    def check_strengths(self) -> None:
        """Refuse ratings that cannot say how often or how strongly somebody chose something."""
        self._refuse("strengths", ~(self.by_user.data > 0), NOT_ABOVE_0, LEAVE_OUT)

    def check_fits(self, dtype: np.dtype[Any]) -> None:
        """Refuse ratings and weights that are too large for the type in which a model is to store them."""
        if dtype == np.float64:  # too large ratings are refused at the door
            return
        for name, values in (("ratings", self.by_user.data), ("sample weights", self.by_user.weights)):
            self._refuse(
                "size",
                np.abs(values) > LARGEST_FLOAT32,
                f"{name} too large for dtype={dtype.name}",
                f"{wider_than(dtype)}divide all by a constant",
                values,
            )

    def _refuse(
        self, flaw: str, bad: NDArray[np.bool_], what: str, remedy: str, values: NDArray[np.floating] | None = None
    ) -> None:
        """One sentence about the ratings where a mask over the entries of `by_user` is True, if there are any.

        The first of them is that of the first row, where rows are known.
        """
        entries = np.flatnonzero(bad)
        if not entries.size:
            return
        first = int(entries[0 if self.rows is None else self.rows[entries].argmin()])
        row = first if self.rows is None else int(self.rows[first])
        values = self.by_user.data if values is None else values
        pair = _pair(self.users, self.user_of_rating()[first], self.items, self.by_user.indices[first])
        message = f"{what}: {entries.size} of {bad.size} (first: {_pair_name(pair)}: {values.item(first)}); {remedy}"
        raise RatingsError(message, flaw, entries.size, bad.size, (row,), pair, values.item(first))


def _check_strengths(strengths: NDArray[np.floating]) -> None:
    """Refuse strengths of 0 or less before any are added up; those that are not finite are refused with their pair."""
    bad = strengths <= 0
    if bad.any():
        first, count = int(bad.argmax()), int(np.count_nonzero(bad))
        where = f"first: row {first}: {strengths.item(first)}"
        message = f"{NOT_ABOVE_0}: {count} of {bad.size} ({where}); {LEAVE_OUT}"
        raise RatingsError(message, "strengths", count, bad.size, (first,), value=strengths.item(first))


def _read_weights(sample_weight: Any, n: int) -> NDArray[np.float64]:
    if sample_weight is None:
        return np.empty(0)
    weights = read_numbers(sample_weight, "sample_weight", "weight")
    if weights.size != n:
        raise ValueError(f"sample_weight has {weights.size} values for {n} ratings: give one weight for each rating")
    bad = ~(np.isfinite(weights) & (weights >= 0))
    if bad.any():
        first = int(bad.argmax())
        raise ValueError(
            f"sample_weight must be finite and not negative, but {np.count_nonzero(bad)} of {n} are not "
            f"(first: row {first}: {weights.item(first)}); use 0 to ignore a rating"
        )
    if weights.size and weights.max() > LARGEST:
        first = int(weights.argmax())
        raise ValueError(
            f"sample_weight of row {first} is {weights.item(first)}, too large to be multiplied by squares: "
            "divide all weights by a constant"
        )
    return weights


def _check_ends_length(ends: Ends | None, n: int) -> None:
    for name, end in () if ends is None else zip(Ends._fields, ends, strict=True):
        if end.size != n:
            raise ValueError(f"{name} has {end.size} values for {n} ratings: give one for each rating")


def _check_some_weight(weights: NDArray[np.floating]) -> None:
    if weights.size and not weights.any():
        raise ValueError("all sample weights are 0, so no rating counts: give at least one a positive weight")


def _check_duplicates_option(duplicates: str) -> None:
    if not isinstance(duplicates, str) or duplicates not in DUPLICATES:
        raise ValueError(f"duplicates must be one of {DUPLICATES}, not {short(duplicates)}")


def _check_sparse(matrix: Any) -> None:
    if not bool(issparse(matrix)):
        raise TypeError(f"from_sparse takes a scipy sparse matrix or array, not a {type(matrix).__name__}")
    if matrix.ndim != 2:
        raise ValueError(f"a sparse matrix of ratings must be users × items, but has shape {matrix.shape}")
    if matrix.format not in SPARSE_FORMATS:
        raise TypeError(
            f"a sparse matrix in {matrix.format} format stores zeros that nobody observed: "
            "build it in coo, csr or csc format"
        )
    if matrix.nnz == 0:
        raise ValueError("the sparse matrix has no stored entries: give at least one rating")
    if max(matrix.shape) > INT32_MAX:
        raise ValueError(f"a sparse matrix of shape {matrix.shape} is too large: at most {INT32_MAX} rows and columns")


def _check_compressed(matrix: Any) -> None:
    """Refuse rows (or columns) of a CSR or CSC matrix that are no parts of its entries: SciPy walks them unchecked.

    Neighbours are compared, for a difference may wrap around.
    """
    if matrix.format not in ("csr", "csc"):
        return
    starts, n_entries, n_parts = matrix.indptr, matrix.data.size, matrix.shape[matrix.format == "csc"]
    whole = starts.shape == (n_parts + 1,) and starts[0] == 0 and starts[-1] == n_entries == matrix.indices.size
    if not whole or (starts[1:] < starts[:-1]).any():
        raise ValueError(
            f"the sparse matrix is damaged: its indptr does not cut its {n_entries} entries into {n_parts} parts; "
            "build it anew, or call its prune()"
        )
    across = matrix.format == "csr"
    _check_codes("item" if across else "user", matrix.indices, matrix.shape[across], "the sparse matrix")


def _check_codes(kind: str, codes: NDArray[Any], size: int, what: str) -> None:
    """Refuse row numbers of users or items that do not exist."""
    outside = (codes < 0) | (codes >= size)
    if outside.any():
        first = int(outside.argmax())
        raise ValueError(
            f"{what} has a rating of {kind} {codes.item(first)}, but there are {size} (entry {first}): "
            f"number {kind}s from 0"
        )


class _Entries(NamedTuple):
    """Observations one by one, as they came or sorted."""

    users: NDArray[np.int32]
    items: NDArray[np.int32]
    values: NDArray[Any]
    weights: NDArray[Any]
    ends: Ends | None = None

    def take(self, which: Any) -> _Entries:
        """Some of them, in the order asked for."""
        weights = self.weights[which] if self.weights.size else self.weights
        ends = self.ends and self.ends.take(which)
        return _Entries(self.users[which], self.items[which], self.values[which], weights, ends)

    def followed_by(self, others: _Entries) -> _Entries:
        """These and others; where only some have weights, the rest count once."""
        weights = [self.weights, others.weights]
        if weights[0].size or weights[1].size:
            weights = [each.weights if each.weights.size else np.ones(each.values.size) for each in (self, others)]
        ends = None
        if self.ends and others.ends:
            ends = Ends(*(np.concatenate(both) for both in zip(self.ends, others.ends, strict=True)))
        users, items, values = (np.concatenate(both) for both in zip(self[:3], others[:3], strict=True))
        return _Entries(users, items, values, np.concatenate(weights), ends)


def _assemble(
    entries: _Entries, users: IdIndex, items: IdIndex, duplicates: str, *, keep_rows: bool = False
) -> Ratings:
    _check_finite(entries, users, items)
    order = _grouped(entries.items, len(items))
    order = order[_grouped(entries.users[order], len(users))]
    entries = entries.take(order)
    repeated = (entries.users[1:] == entries.users[:-1]) & (entries.items[1:] == entries.items[:-1])
    if repeated.any():
        if duplicates == "raise":
            _refuse_duplicates(repeated, order, entries, users, items)
        _check_one_range(repeated, duplicates, order, entries, users, items)
        entries = _merged(entries, np.flatnonzero(np.concatenate(([True], ~repeated))), duplicates)
        order = order[np.flatnonzero(np.concatenate((~repeated, [True])))]
    rows = order if keep_rows else None
    del order, repeated
    _check_some_weight(entries.weights)
    weights = entries.weights if np.any(entries.weights != 1) else np.empty(0)
    indptr = np.concatenate(([0], np.cumsum(np.bincount(entries.users, minlength=len(users)))))
    by_user, ends = Csr(indptr, entries.items, entries.values, weights), entries.ends
    del entries  # the order of users, at least: the other row order needs room
    return Ratings(by_user, transposed(by_user, len(items)), users, items, rows=rows, ends=ends)


def _check_one_range(
    repeated: NDArray[np.bool_],
    duplicates: str,
    order: NDArray[np.integer],
    entries: _Entries,
    users: IdIndex,
    items: IdIndex,
) -> None:
    """The mean of a pair's ratings, or their sum, has no range where theirs differ."""
    if entries.ends is None or duplicates not in ("mean", "sum"):
        return
    differ = repeated & np.logical_or(*(end[1:] != end[:-1] for end in entries.ends))
    if differ.any():
        first = int(differ.argmax())
        pair = _pair(users, entries.users[first], items, entries.items[first])
        raise RatingsError(
            f"pairs that come more than once with different ranges: {np.count_nonzero(differ)} (first: "
            f'{_pair_name(pair)}); pass duplicates="last", or give each pair once',
            "ranges",
            int(np.count_nonzero(differ)),
            entries.values.size,
            (int(order[first]), int(order[first + 1])),
            pair,
        )


def _refuse_duplicates(
    repeated: NDArray[np.bool_], order: NDArray[np.integer], entries: _Entries, users: IdIndex, items: IdIndex
) -> None:
    first, count = int(repeated.argmax()), int(np.count_nonzero(repeated))
    rows = int(order[first]), int(order[first + 1])
    pair = _pair(users, entries.users[first], items, entries.items[first])
    message = (
        f"ratings of a pair that was rated before: {count} "
        f"(first: {_pair_name(pair)}, in rows {rows[0]} and {rows[1]}); "
        'pass duplicates="last", or give each pair once'
    )
    raise RatingsError(message, "duplicates", count, order.size, rows, pair, entries.values.item(first))


def _check_finite(entries: _Entries, users: IdIndex, items: IdIndex) -> None:
    values = entries.values
    for flaw, what, bad, remedy in (
        ("finite", "NaN or infinite ratings", ~np.isfinite(values), "leave them out"),
        (
            "size",
            "ratings too large to be squared",
            (values > LARGEST) | (values < -LARGEST),
            "divide all by a constant",
        ),
    ):
        if bad.any():
            first, count = int(bad.argmax()), int(np.count_nonzero(bad))
            pair = _pair(users, entries.users[first], items, entries.items[first])
            where = f"row {first}, {_pair_name(pair)}: {values.item(first)}"
            message = f"{what}: {count} of {bad.size} (first: {where}); {remedy}"
            raise RatingsError(message, flaw, count, bad.size, (first,), pair, values.item(first))


def _grouped(codes: NDArray[np.int32], n_groups: int) -> NDArray[np.integer]:
    """Positions sorted by code, equal codes in their old order: scipy's transposition is a counting sort.

    Row k of the matrix has its one entry in column codes[k]; nothing is ever summed.
    """
    n = codes.size
    start = np.arange(n + 1, dtype=np.int32 if n <= INT32_MAX else np.int64)
    one_per_row: Any = csr_array((np.ones(n, np.int8), codes, start), shape=(n, n_groups))
    positions: NDArray[np.integer] = one_per_row.tocsc().indices
    return positions


def _merged(entries: _Entries, starts: NDArray[np.int64], duplicates: str) -> _Entries:
    """One entry for each run of the same pair; entries are sorted, runs begin at starts."""
    users, items, values, weights, ranges = entries
    ends = np.append(starts[1:], values.size)
    if duplicates == "last":
        return entries.take(ends - 1)
    if duplicates == "sum":
        counts = ends - starts
        mean_weights = np.add.reduceat(weights, starts) / counts if weights.size else weights
        added = np.add.reduceat(values, starts)
        return _Entries(users[starts], items[starts], added, mean_weights, ranges and ranges.take(starts))
    share = np.ones(values.size)
    if weights.size:
        weights_added = np.add.reduceat(weights, starts)
        # Where no observation of a pair counts there is no weighted mean: the plain one stands for it.
        share = np.where(np.repeat(weights_added > 0, ends - starts), weights, 1.0)
        weights = weights_added
    mean = np.add.reduceat(share * values, starts) / np.add.reduceat(share, starts)
    # Rounding must not carry the mean of ratings at a bound past that bound.
    mean = np.clip(mean, np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts))
    return _Entries(users[starts], items[starts], mean, weights, ranges and ranges.take(starts))


def transposed(csr: Csr, n_columns: int) -> Csr:
    """The other row order. Transposition keeps stored zeros and sorts the indices of every row."""
    shape = (csr.indptr.size - 1, n_columns)
    # Of two types of whole numbers scipy would make the wider one, in copies of all indices.
    starts: Any = csr.indptr.astype(np.int32 if csr.indices.size <= INT32_MAX else np.int64, copy=False)
    other = csr_array((csr.data, csr.indices, starts), shape=shape).tocsc()
    indptr, indices, data = other.indptr.astype(np.int64), other.indices.astype(np.int32, copy=False), other.data
    weights = csr.weights
    if weights.size:
        del other
        weights = csr_array((weights, csr.indices, starts), shape=shape).tocsc().data
    return Csr(indptr, indices, data, weights)


def _pair(users: IdIndex, user: int | np.integer, items: IdIndex, item: int | np.integer) -> tuple[Any, Any]:
    return users.ids.item(user), items.ids.item(item)


def _pair_name(pair: tuple[Any, Any]) -> str:
    return f"user {pair[0]!r}, item {pair[1]!r}"
