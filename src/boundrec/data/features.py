"""Features of users and items: tables, matrices and graphs become one sparse matrix by a rule that can be used again.

**Numbers** are standardised over the ids in the table: mean 0, spread 1. A missing one is the mean, 0, and where any is
missing there is one more column, "age missing", 1 for those. **Categories** (text, categorical columns, true and false)
are one-hot: "gender=F" is 1 for those who are; a missing one, or one that was not there at fit, is in none of the
columns. So each column of a table adds about 1 to the mean square norm of a row, whatever it holds, and none outweighs
another. **Sparse matrices** are divided by the root mean square norm of their rows, and not centred, which would fill
them: all of one adds as much as a single column of a table. **Graphs** have 1/√n at each of a row's n neighbours.

An id without features has zeros: the mean of the numbers, and no category. Columns that are the same for everybody say
nothing and are left out, with a note.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse, vstack

from boundrec.arrays import Bools, Codes, Floats, ReadOnly
from boundrec.data.columns import id_column, listed, pair_columns, short
from boundrec.data.feature_tables import (
    Categories,
    Numbers,
    SparseTable,
    Table,
    place_name,
    read_ids,
    read_sparse,
    read_table,
    whose,
)
from boundrec.data.ids import IdIndex
from boundrec.notes import warn

#: A column of text with more levels than this, or than half the ids (once these are not few), is taken for ids.
MOST_LEVELS, FEW_LEVELS = 10_000, 20
#: What encoded values may differ by where they are the same; they are of the size of 1.
ROUNDING = 1e-9
#: What the parts of something stored may be.
Parts = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Graph:
    """Who is linked with whom, as features: each id has 1/√n at each of its n neighbours.

    Parameters
    ----------
    links
        Two columns of ids, those who are linked with each other, in either order (an array, a list of pairs, or a
        frame); or a square matrix, sparse or a NumPy array, with a weight above 0 in row i and column j where j is a
        neighbour of i. How large a weight is does not matter (for that, give ``(ids, matrix)`` as features); links of
        ids with themselves and repeated ones do not count.
    ids
        Of a matrix: the ids of its rows and columns.
    """

    links: Any
    ids: Any = None


@dataclass(frozen=True, eq=False)
class Features:
    """What is known of ids: row k of the matrix is about ``ids.ids[k]``.

    Parameters
    ----------
    ids
        The ids, one for each row.
    matrix
        Rows × columns, float64.
    encoding
        How the columns were made, for the features of further ids.
    notes
        Sentences about what was left out or is lacking.
    """

    ids: IdIndex
    matrix: csr_array
    encoding: Encoding
    notes: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """The names of the columns: "age", "age missing", "gender=F", "neighbour of 12"."""
        return self.encoding.names

    def __len__(self) -> int:
        return len(self.ids)

    def rows_for(self, ids: Any) -> tuple[csr_array, Bools]:
        """The rows of some ids in their order, zeros for those without features, and which have some."""
        codes = self.ids.codes(ids.ids if isinstance(ids, IdIndex) else id_column(ids, "ids"))
        matrix = self.matrix
        indptr = np.append(matrix.indptr, matrix.indptr[-1])
        with_blank = csr_array((matrix.data, matrix.indices, indptr), shape=(len(self) + 1, matrix.shape[1]))
        return with_blank[codes], codes >= 0  # −1, somebody unknown, is the last row, which is blank

    def same_as(self, other: Features | None) -> bool:
        """Whether both say the same of the same ids, in whatever order; means may round by that."""
        if other is None or self.names != other.names or len(self) != len(other) or len(other.only_here(self.ids)):
            return False
        return bool(abs(self.matrix - other.rows_for(self.ids)[0]).max() <= ROUNDING)

    def updated(self, more: Features, ids: IdIndex) -> Features:
        """What is known of some ids, by ``more`` where that tells, else by these; others of them are left out."""
        old, known = self.rows_for(ids)
        new, told = more.rows_for(ids)
        place = np.arange(len(ids))
        rows = np.where(told, len(ids) + place, place)[known | told]
        matrix = csr_array(vstack([old, new], format="csr"))[rows]
        return Features(IdIndex(ids.ids[known | told]), matrix, self.encoding)

    def only_here(self, ids: IdIndex) -> NDArray[Any]:
        """The ids that have features and are not among others: those whom nobody has rated."""
        found: NDArray[Any] = self.ids.ids[ids.codes(self.ids.ids) < 0]
        return found

    def to_parts(self) -> Parts:
        """Arrays, strings, numbers and `IdIndex` by name, as a file holds them."""
        matrix = self.matrix
        own = {"ids": self.ids, "data": matrix.data}
        own |= {"indptr": matrix.indptr.astype(np.int64), "indices": matrix.indices.astype(np.int32)}
        return own | {f"encoding.{name}": part for name, part in self.encoding.to_parts().items()}

    @classmethod
    def from_parts(cls, parts: Mapping[str, Any]) -> Features:
        """What `to_parts` took apart; a ValueError where it cannot be that."""
        start = "encoding."
        of_encoding = {name.removeprefix(start): part for name, part in parts.items() if name.startswith(start)}
        encoding = Encoding.from_parts(of_encoding)
        try:
            ids, indptr, indices, data = (parts[name] for name in ("ids", "indptr", "indices", "data"))
            matrix = csr_array((data, indices, indptr), shape=(len(ids), len(encoding)))
            matrix.check_format(full_check=True)
            if not np.isfinite(data).all():
                raise ValueError("not finite")
        except (KeyError, TypeError, ValueError, IndexError):
            raise ValueError("features are damaged: their rows do not belong together.") from None
        return cls(ids, matrix, encoding)


def read_features(
    given: Any, what: str = "features", id_name: str | None = None, known: IdIndex | None = None
) -> Features:
    """Read features in any accepted form; the rules are those at the top of `boundrec.data.features`.

    Parameters
    ----------
    given
        A pandas, polars or pyarrow frame with a column of ids; a mapping id -> sequence of numbers, or
        id -> {name: value}; a pair (ids, matrix), dense or sparse; or a `Graph`. A missing value of a frame or of a
        {name: value} is taken by the rule for it; sequences and matrices of numbers may have none.
    what
        What to call it in an error message, such as "user_features".
    id_name
        The name of a frame's column of ids, or of a pandas index that has them; None for the first column.
    known
        The ids that are rated: some of them must have features, and a note tells how many have none.
    """
    if isinstance(given, Graph):
        links = _read_links(given, what)
        features: Features = GraphEncoding(links.ids)._of_links(links)
        if not features.matrix.nnz:
            raise ValueError(f"{what} are a graph in which nobody has a neighbour: give at least one link.")
    else:
        table = read_table(given, what, id_name)
        features = _learn_table(table, what) if isinstance(table, Table) else _learn_sparse(table, what)
    return features if known is None else _told_of_lacking(features, what, known)


def _told_of_lacking(features: Features, what: str, known: IdIndex) -> Features:
    lacking = features.ids.codes(known.ids) < 0
    if lacking.all():
        raise ValueError(
            f"{what} share no id with the ratings (their first is {short(features.ids.ids.item(0))}, that of the "
            f"ratings {short(known.ids.item(0))}): give both the same kind of ids."
        )
    if not lacking.any():
        return features
    note = (
        f"{lacking.sum()} of {len(known)} ids of the ratings are not in {what} (first: "
        f"{short(known.ids.item(lacking.argmax()))}): they are taken for the mean."
    )
    return replace(features, notes=(*features.notes, note))


# --- how columns are made -------------------------------------------------------------------------------------


class Encoding:
    """How features were made at fit, so that those of further ids are made alike."""

    form: ClassVar[str]

    @cached_property
    def names(self) -> list[str]:
        """The names of the columns."""
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self.names)

    def encode(self, given: Any, what: str = "features", id_name: str | None = None) -> Features:
        """The features of further ids, in a form that was accepted at fit: of the same kind, with the same columns."""
        raise NotImplementedError

    def as_given(self, row: Floats) -> Floats:
        """The values of a row in the units that they were given in; NaN for a number that is known to be missing."""
        return row

    def to_parts(self) -> Parts:
        """Arrays, strings, numbers and `IdIndex` by name, as a file holds them."""
        raise NotImplementedError

    @staticmethod
    def from_parts(parts: Mapping[str, Any]) -> Encoding:
        """What `to_parts` took apart; a ValueError where it cannot be that."""
        kinds: dict[Any, Any] = {kind.form: kind for kind in (TableEncoding, SparseEncoding, GraphEncoding)}
        try:
            found: Encoding = kinds[parts["form"]]._of_parts(parts)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError):
            raise ValueError("the encoding of features is damaged.") from None
        return found


class NumberRule(NamedTuple):
    """(x − mean)/scale, unless the scale is 0, and a column for missing ones where there were any."""

    name: str
    mean: float
    scale: float
    tells_missing: bool

    def outputs(self) -> list[str]:
        """The names of the columns that are made."""
        return [self.name] * (self.scale > 0) + [f"{self.name} missing"] * self.tells_missing


class CategoryRule(NamedTuple):
    """1 in the column of the level."""

    name: str
    levels: tuple[str, ...]

    def outputs(self) -> list[str]:
        """The names of the columns that are made."""
        return [f"{self.name}={level}" for level in self.levels]


@dataclass(frozen=True, eq=False)
class TableEncoding(Encoding):
    """That of a table: a rule for each of its columns.

    Parameters
    ----------
    rules
        One for each column; those that say nothing make no column, and need not come again.
    width
        The number of columns given at fit, where these have no names but their places; else 0.
    """

    form = "table"
    rules: tuple[NumberRule | CategoryRule, ...]
    width: int = 0

    @cached_property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [name for rule in self.rules for name in rule.outputs()]

    def encode(self, given: Any, what: str = "features", id_name: str | None = None) -> Features:
        """The features of further ids; columns that were not there at fit are passed over, with a note."""
        table = None if isinstance(given, Graph) else read_table(given, what, id_name)
        if not isinstance(table, Table):
            raise TypeError(f"{what} were a table at fit and are {_kind(given)} now: give a table again.")
        if self.width and table.width != self.width:
            raise ValueError(
                f"{what} have {len(table.columns)} columns and had {self.width} at fit: give the same ones, in the "
                "same order."
            )
        features, known = self._of_table(table, what), {rule.name for rule in self.rules}
        new = [column.name for column in table.columns if column.name not in known]
        if new:
            warn(f"{what} have columns that were not there at fit ({listed(new)}): they are passed over.")
        return features

    def _of_table(self, table: Table, what: str) -> Features:
        columns = {column.name: column for column in table.columns}
        telling = tuple(rule for rule in self.rules if rule.outputs())
        lacking = [rule.name for rule in telling if rule.name not in columns]
        if lacking:
            raise ValueError(
                f"{what} have no column {short(lacking[0])}, which they had at fit: give all of "
                f"[{listed([rule.name for rule in telling])}]."
            )
        slots = _Slots(len(table.ids), telling)
        unseen: list[str] = []
        for rule in telling:
            if isinstance(rule, NumberRule):
                slots.add_numbers(rule, _as_numbers(columns[rule.name], what))
            else:
                codes, new = _known_levels(rule, _as_categories(columns[rule.name], what))
                slots.add_categories(rule, codes)
                unseen += new
        if unseen:
            warn(f"{what} have categories that were not there at fit ({listed(unseen)}): they count as none.")
        return Features(table.ids, slots.matrix(len(self)), self)

    def as_given(self, row: Floats) -> Floats:
        """Numbers in their own units; categories are 1 or 0."""
        given, place = row.copy(), 0
        for rule in self.rules:
            if isinstance(rule, NumberRule) and rule.scale > 0:
                missing = rule.tells_missing and row[place + 1] > 0
                given[place] = np.nan if missing else rule.mean + rule.scale * row[place]
            place += len(rule.outputs())
        return given

    def to_parts(self) -> Parts:
        """Numbers by column, 0 for categories; texts in one piece: the names, then the levels of each column."""
        levels = [rule.levels if isinstance(rule, CategoryRule) else () for rule in self.rules]
        text, starts = _as_bytes([rule.name for rule in self.rules] + [one for own in levels for one in own])
        numbers = [rule if isinstance(rule, NumberRule) else NumberRule("", 0.0, 0.0, False) for rule in self.rules]
        return {
            "form": self.form,
            "width": self.width,
            "mean": np.array([rule.mean for rule in numbers], np.float64),
            "scale": np.array([rule.scale for rule in numbers], np.float64),
            "tells_missing": np.array([rule.tells_missing for rule in numbers], np.bool_),
            "n_levels": np.array([len(own) for own in levels], np.int64),
            "text": text,
            "text_starts": starts,
        }

    @classmethod
    def _of_parts(cls, parts: Mapping[str, Any]) -> TableEncoding:
        texts = _of_bytes(parts["text"], parts["text_starts"])
        counts = parts["n_levels"].tolist()
        names, levels = texts[: len(counts)], iter(texts[len(counts) :])
        numbers = zip(*(parts[name].tolist() for name in ("mean", "scale", "tells_missing")), strict=True)
        rules: list[NumberRule | CategoryRule] = []
        for name, count, (mean, scale, tells_missing) in zip(names, counts, numbers, strict=True):
            if not (np.isfinite(mean) and 0 <= scale < np.inf and count >= 0):
                raise ValueError(f"{name!r} has no such rule.")
            own = tuple(next(levels, "") for _ in range(min(count, len(texts))))
            rules.append(CategoryRule(name, own) if count else NumberRule(name, mean, scale, tells_missing))
        if len(texts) != len(names) + sum(counts):
            raise ValueError("levels are missing.")
        return cls(tuple(rules), int(parts["width"]))


def _kind(given: Any) -> str:
    if isinstance(given, Graph):
        return "a graph"
    return "a sparse matrix" if isinstance(given, tuple) and issparse(given[-1]) else "a table"


def _as_numbers(column: Numbers | Categories, what: str) -> Floats:
    """The numbers of a column; one of nothing but missing values is of every kind."""
    if isinstance(column, Numbers):
        return column.values
    if column.levels:
        raise TypeError(
            f"the column {column.name!r} of {what} had numbers at fit and has categories now (first: "
            f"{column.levels[0]!r}): give numbers."
        )
    return np.full(column.codes.size, np.nan)


def _as_categories(column: Numbers | Categories, what: str) -> Categories:
    if isinstance(column, Categories):
        return column
    present = column.values[~np.isnan(column.values)]
    if present.size:
        raise TypeError(
            f"the column {column.name!r} of {what} had categories at fit and has numbers now (first: {present[0]:g}): "
            "give text or a categorical column."
        )
    return Categories(column.name, [], np.full(column.values.size, -1, np.int64))


def _known_levels(rule: CategoryRule, column: Categories) -> tuple[Codes, list[str]]:
    """The numbers of levels as at fit, −1 for others, and the names of those others."""
    place = dict(zip(rule.levels, range(len(rule.levels)), strict=True))
    number = np.array([*(place.get(level, -1) for level in column.levels), -1], np.int64)  # −1 takes the last
    return number[column.codes], [f"{rule.name}={level}" for level in column.levels if level not in place]


class _Slots:
    """A matrix in the making: each slot puts at most one entry in a row, so that all of them make a dense block."""

    def __init__(self, n: int, rules: tuple[NumberRule | CategoryRule, ...]) -> None:
        n_slots = sum(1 if isinstance(rule, CategoryRule) else len(rule.outputs()) for rule in rules)
        self.values: Floats = np.ones((n, n_slots))
        self.columns: NDArray[np.int32] = np.full((n, n_slots), -1, np.int32)
        self.slot = self.column = 0

    def add_numbers(self, rule: NumberRule, values: Floats) -> None:
        """Take in numbers, and which are missing."""
        missing = np.isnan(values)
        if rule.scale > 0:
            self.values[:, self.slot] = (values - rule.mean) / rule.scale
            self._add(np.where(missing, -1, self.column), 1)
        if rule.tells_missing:
            self._add(np.where(missing, self.column, -1), 1)

    def add_categories(self, rule: CategoryRule, codes: Codes) -> None:
        """Take in levels by their numbers."""
        self._add(np.where(codes < 0, -1, codes + self.column), len(rule.levels))

    def _add(self, columns: Codes, width: int) -> None:
        self.columns[:, self.slot] = columns
        self.slot, self.column = self.slot + 1, self.column + width

    def matrix(self, n_columns: int) -> csr_array:
        """All of it; columns increase along the slots."""
        there = self.columns >= 0
        indptr = np.concatenate(([0], np.cumsum(np.count_nonzero(there, axis=1))))
        which = there if not there.all() else ...  # nothing is copied where no value is missing
        values, columns = self.values[which].ravel(), self.columns[which].ravel()
        return csr_array((values, columns, indptr.astype(_index_type(indptr[-1]))), shape=(len(there), n_columns))


def _index_type(n_entries: int) -> Any:
    return np.int32 if n_entries <= np.iinfo(np.int32).max else np.int64


def _learn_table(table: Table, what: str) -> Features:
    rules = [
        _number_rule(column) if isinstance(column, Numbers) else _category_rule(column, what)
        for column in table.columns
    ]
    _refuse_one_name(rules, what)
    constant = [rule.name for rule in rules if not rule.outputs()]
    note = _without_constant(constant, len(table.columns), what)
    encoding = TableEncoding(tuple(rules), table.width)
    return replace(encoding._of_table(table, what), notes=note)


def _refuse_one_name(rules: list[NumberRule | CategoryRule], what: str) -> None:
    """Refuse columns of which the same name would be made: nobody could tell their effects apart."""
    made_by: dict[str, str] = {}
    for rule in rules:
        for name in rule.outputs():
            if name in made_by:
                raise ValueError(
                    f"the columns {made_by[name]!r} and {rule.name!r} of {what} would both give a feature {name!r}: "
                    "rename one of them."
                )
            made_by[name] = rule.name


def _number_rule(column: Numbers) -> NumberRule:
    missing = np.isnan(column.values)
    present = column.values[~missing]
    if present.size and present.min() < present.max():
        mean, scale = float(present.mean()), float(present.std())
    else:
        mean, scale = (float(present[0]) if present.size else 0.0), 0.0
    return NumberRule(column.name, mean, scale, bool(missing.any() and present.size))


def _category_rule(column: Categories, what: str) -> CategoryRule:
    n, levels = column.codes.size, tuple(column.levels)
    if len(levels) > min(MOST_LEVELS, max(n // 2, FEW_LEVELS)):
        raise ValueError(
            f"the column {column.name!r} of {what} has {len(levels)} categories for {n} ids (first: {levels[0]!r}), "
            "like a column of ids or names: leave it out, or join its categories to fewer."
        )
    return CategoryRule(column.name, () if len(levels) == 1 and column.codes.min() == 0 else levels)


def _without_constant(constant: list[str], n_columns: int, what: str) -> tuple[str, ...]:
    """A note about columns that are the same for everybody."""
    if len(constant) == n_columns:
        raise ValueError(
            f"{what} have no column in which two ids differ ([{listed(constant)}] are the same for all): give one "
            "that tells them apart, or no features."
        )
    if not constant:
        return ()
    return (f"{len(constant)} of {n_columns} columns of {what} are the same for all and left out: {listed(constant)}.",)


# --- sparse matrices ------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class SparseEncoding(ReadOnly, Encoding):
    """That of a sparse matrix: some of its columns, divided by one number.

    Parameters
    ----------
    kept
        The columns that are not the same for everybody.
    width
        The number of all columns.
    scale
        The root mean square norm of the rows at fit.
    """

    form = "sparse"
    kept: Codes
    width: int
    scale: float

    @cached_property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [place_name(place) for place in self.kept.tolist()]

    def __len__(self) -> int:
        return int(self.kept.size)

    def encode(self, given: Any, what: str = "features", id_name: str | None = None) -> Features:
        """The features of further ids."""
        table = None if isinstance(given, Graph) else read_table(given, what, id_name)
        if not isinstance(table, SparseTable):
            raise TypeError(
                f"{what} were a sparse matrix at fit and are {_kind(given)} now: give ids and a sparse matrix again."
            )
        if table.matrix.shape[1] != self.width:
            raise ValueError(
                f"{what} have {table.matrix.shape[1]} columns and had {self.width} at fit: give the same ones, in the "
                "same order."
            )
        return self._of_table(table)

    def _of_table(self, table: SparseTable) -> Features:
        matrix = table.matrix if len(self) == self.width else table.matrix[:, self.kept]
        scaled = csr_array((matrix.data / self.scale, matrix.indices, matrix.indptr), shape=matrix.shape)
        return Features(table.ids, scaled, self)

    def as_given(self, row: Floats) -> Floats:
        """As the matrix had it."""
        return row * self.scale

    def to_parts(self) -> Parts:
        """Which columns, of how many, and the scale."""
        return {"form": self.form, "kept": self.kept, "width": self.width, "scale": self.scale}

    @classmethod
    def _of_parts(cls, parts: Mapping[str, Any]) -> SparseEncoding:
        kept, width, scale = parts["kept"], int(parts["width"]), float(parts["scale"])
        if not kept.size or kept[0] < 0 or kept[-1] >= width or (np.diff(kept) <= 0).any() or not 0 < scale < np.inf:
            raise ValueError("there are no such columns.")
        return cls(kept, width, scale)


def _learn_sparse(table: SparseTable, what: str) -> Features:
    matrix = table.matrix
    least, most = (end.toarray().ravel() for end in (matrix.min(axis=0), matrix.max(axis=0)))
    varies = least < most
    dropped = np.flatnonzero(~varies).tolist()
    note = _without_constant([place_name(place) for place in dropped], matrix.shape[1], what)
    kept = np.flatnonzero(varies)
    counted = matrix.data[varies[matrix.indices]]
    largest = np.abs(counted).max()  # in front of the root: squares of small numbers are nothing
    scale = float(largest * np.sqrt(np.sum((counted / largest) ** 2) / matrix.shape[0]))
    return replace(SparseEncoding(kept, matrix.shape[1], scale)._of_table(table), notes=note)


# --- graphs ---------------------------------------------------------------------------------------------------


class _Links(NamedTuple):
    """Ids, and links by their numbers: each once, none of an id with itself."""

    ids: IdIndex
    row: Codes
    neighbour: Codes


@dataclass(frozen=True, eq=False)
class GraphEncoding(Encoding):
    """That of a graph: a column for each id that was in it.

    Parameters
    ----------
    neighbours
        The ids of the columns.
    """

    form = "graph"
    neighbours: IdIndex

    @cached_property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [f"neighbour of {one}" for one in self.neighbours.ids.tolist()]

    def __len__(self) -> int:
        return len(self.neighbours)

    def encode(self, given: Any, what: str = "features", id_name: str | None = None) -> Features:
        """The features of further ids: n counts the neighbours that were in the graph at fit."""
        if not isinstance(given, Graph):
            raise TypeError(f"{what} were a graph at fit and are {_kind(given)} now: give a Graph again.")
        features = self._of_links(_read_links(given, what))
        alone = (np.diff(features.matrix.indptr) == 0) & (self.neighbours.codes(features.ids.ids) < 0)
        if alone.any():
            warn(
                f"{alone.sum()} new ids of {what} have no neighbour who was in the graph at fit (first: "
                f"{short(features.ids.ids.item(alone.argmax()))}): they are taken for the mean."
            )
        return features

    def _of_links(self, links: _Links) -> Features:
        column = self.neighbours.codes(links.ids.ids)[links.neighbour]
        row, column = links.row[column >= 0], column[column >= 0]
        counts = np.bincount(row, minlength=len(links.ids))
        matrix = csr_array((1 / np.sqrt(counts[row]), (row, column)), shape=(len(links.ids), len(self)))
        return Features(links.ids, matrix, self)

    def to_parts(self) -> Parts:
        """The ids."""
        return {"form": self.form, "neighbours": self.neighbours}

    @classmethod
    def _of_parts(cls, parts: Mapping[str, Any]) -> GraphEncoding:
        if not len(parts["neighbours"]):
            raise ValueError("there is nobody.")
        return cls(parts["neighbours"])


def _read_links(graph: Graph, what: str) -> _Links:
    is_matrix = issparse(graph.links) or (isinstance(graph.links, np.ndarray) and graph.ids is not None)
    return _links_of_matrix(graph.links, graph.ids, what) if is_matrix else _links_of_pairs(graph, what)


def _links_of_matrix(matrix: Any, ids: Any, what: str) -> _Links:
    if ids is None:
        raise ValueError(f"{what} are a graph as a matrix without ids: write Graph(matrix, ids).")
    index = read_ids(ids, what)
    if matrix.shape != (len(index), len(index)):
        raise ValueError(
            f"{what} have {len(index)} ids and a graph of shape {matrix.shape}: give a square matrix with a row and a "
            "column for each id, in their order."
        )
    entries = read_sparse(matrix, index, what).tocoo()
    if entries.nnz and entries.data.min() < 0:
        place = int(entries.data.argmin())
        left, right = (short(index.ids.item(codes[place])) for codes in (entries.row, entries.col))
        raise ValueError(
            f"{what} have a link of weight {entries.data[place]:g}, from {left} to {right}: give weights above 0, and "
            "leave out those who are not linked."
        )
    others = entries.row != entries.col
    return _Links(index, entries.row[others].astype(np.int64), entries.col[others].astype(np.int64))


def _links_of_pairs(graph: Graph, what: str) -> _Links:
    if graph.ids is not None:
        raise ValueError(f"{what} are a graph of pairs, which hold their ids: leave ids= out, or give a square matrix.")
    try:
        left, right = pair_columns(graph.links)
    except (TypeError, ValueError):
        raise TypeError(
            f"{what} are a graph of {short(graph.links)}: give two columns of ids, those who are linked, or a "
            "square matrix and its ids."
        ) from None
    if not len(left):
        raise ValueError(f"{what} are a graph in which nobody has a neighbour: give at least one link.")
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray) and left.dtype == right.dtype:
        both: Any = np.concatenate([left, right])
    else:
        both = [*left, *right]
    index, codes = IdIndex.encode(both, whose(what), what)
    ends = codes.reshape(2, -1).astype(np.int64)
    ends = ends[:, ends[0] != ends[1]]
    links = np.sort(np.concatenate([ends[0] * len(index) + ends[1], ends[1] * len(index) + ends[0]]))
    first = np.append(True, links[1:] > links[:-1])[: links.size]
    return _Links(index, *np.divmod(links[first], len(index)))


# --- texts in a file ------------------------------------------------------------------------------------------


def _as_bytes(texts: list[str]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Texts one after the other, and where each starts, with the end of the last."""
    pieces = [text.encode("utf-8", "surrogatepass") for text in texts]
    return np.frombuffer(b"".join(pieces), np.uint8), np.cumsum([0, *map(len, pieces)], dtype=np.int64)


def _of_bytes(content: NDArray[np.uint8], starts: NDArray[np.int64]) -> list[str]:
    if not starts.size or starts[0] != 0 or starts[-1] != content.size or (np.diff(starts) < 0).any():
        raise ValueError("texts do not lie where they should.")
    whole = content.tobytes()
    return [whole[first:end].decode("utf-8", "surrogatepass") for first, end in pairwise(starts.tolist())]
