"""Blocks of rows, and what a task does with one: arrays in, arrays out, and nothing of Spark.

A block has some neighbouring rows of a side with all of their ratings, and says which rows of the other side it needs.
Which rows make a block goes by the data alone, so that neither the number of partitions nor that of machines changes
what is learnt. A row with very many ratings comes in pieces, each of them a block by itself: their normal matrices are
added up, and stand for as many made-up ratings as a row has coordinates (`row_of_pieces`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from boundrec.arrays import Floats, Reals
from boundrec.data.ratings import Csr
from boundrec.ranges.scale import Scale
from boundrec.solvers import Side
from boundrec.solvers.exact import Constraint, free_part, solve_rows
from boundrec.solvers.gibbs import Prior, draw_rows_from, span_of
from boundrec.solvers.threads import RowPool

Numbers = NDArray[np.int64]
NOTHING: Floats = np.empty((0, 0))
#: The columns of a block in a table: whose it is, its arrays, and what is added up over all of them.
ARRAYS: dict[str, Any] = {
    "indptr": np.int64,
    "needed": np.int64,
    "indices": np.int32,
    "data": np.float64,
    "weights": np.float64,
}
#: Entries whose factors are taken at a time for a normal matrix.
TAKEN = 1 << 16


class Layout(NamedTuple):
    """Which rows of a side are in which block: as many blocks of neighbouring rows, and those that come in pieces."""

    n_rows: int
    n_blocks: int
    #: Rows that have a block of their own, and in how many pieces each of these comes.
    long: tuple[int, ...] = ()
    n_pieces: tuple[int, ...] = ()

    @property
    def edges(self) -> Numbers:
        """Where the blocks of neighbouring rows begin and end."""
        return np.arange(self.n_blocks + 1, dtype=np.int64) * self.n_rows // self.n_blocks

    def rows(self, block: int) -> slice:
        """The rows of a block; a long row's place in its block of neighbours stays, without ratings."""
        if block >= self.n_blocks:
            row = self.long[block - self.n_blocks]
            return slice(row, row + 1)
        first, stop = self.edges[block : block + 2]
        return slice(int(first), int(stop))

    def blocks_of(self, rows: Numbers) -> Numbers:
        """The block of neighbours of each row."""
        return np.asarray(np.searchsorted(self.edges, rows, side="right") - 1, np.int64)


class Block(NamedTuple):
    """Ratings of some rows; ``csr`` has indices into ``needed``, the rows of the other side, ascending."""

    number: int
    #: 0 for a block of whole rows, else which piece of a long row it is.
    piece: int
    first: int
    csr: Csr
    needed: Numbers

    @property
    def n_rows(self) -> int:
        """How many rows it has."""
        return self.csr.indptr.size - 1


# --- how ratings become blocks ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Centring:
    """From ratings to what is factorised: on a model's scale, with the centre taken off; and what each counts."""

    scale: Scale
    offset: float

    def __call__(self, values: Floats, ends: Any) -> tuple[Floats, Floats]:
        """Centred numbers and weights; no weights where all count once."""
        from boundrec.data.ratings import Pairs

        nobody = np.empty(len(values), np.int64)
        pairs = Pairs(nobody, nobody, ends)
        own = self.scale.of_values(values, pairs) - self.offset
        return own, np.empty(0) if ends is None else self.scale.weights(self.scale.halves(ends)[1])


def make_block(number: int, piece: int, rows: slice, entries: tuple[Any, ...], mean_of_twins: bool) -> dict[str, Any]:
    """The columns of a block, from the row, the column, the number and the weight of each rating.

    Pairs that come more than once are counted, with the first of them; or become one, the mean of theirs.
    """
    row, column, values, weights = entries
    order = np.lexsort((column, row))
    row, column, values = row[order], column[order], values[order]
    weights = weights[order] if weights.size else weights
    new = np.ones(row.size, bool)
    new[1:] = (np.diff(row) != 0) | (np.diff(column) != 0)
    n_twins, twin = int(row.size - np.count_nonzero(new)), (0, 0)
    if n_twins:
        place = int(np.argmin(new))
        twin = int(row[place]), int(column[place])
        if mean_of_twins:
            groups = np.cumsum(new) - 1
            sizes = np.bincount(groups)
            values = np.bincount(groups, values) / sizes
            weights = np.bincount(groups, weights) / sizes if weights.size else weights
            row, column = row[new], column[new]
    needed, indices = np.unique(column, return_inverse=True)
    indptr = np.searchsorted(row, np.arange(rows.start, rows.stop + 1))
    csr = Csr(indptr.astype(np.int64), indices.astype(np.int32).ravel(), values, weights)
    counts = csr.that_count()
    arrays = {"indptr": csr.indptr, "needed": needed, "indices": csr.indices, "data": values, "weights": weights}
    weighed = values * weights if weights.size else values
    return {
        "b": number,
        "piece": piece,
        "first": rows.start,
        **{name: array.tobytes() for name, array in arrays.items()},
        "n": values.size,
        "n_counting": int(np.count_nonzero(counts)),
        "weight": float(csr.row_weights().sum()),
        "total": float(values[counts].sum()),
        "squares": float((values[counts] ** 2).sum()),
        "row_weights": csr.row_weights().tobytes(),
        "row_totals": csr.sum_rows(weighed).tobytes(),
        "n_twins": 0 if mean_of_twins else n_twins,
        "twin_row": twin[0],
        "twin_column": twin[1],
    }


def read_block(row: Mapping[str, Any]) -> Block:
    """A block from its columns."""
    arrays = {name: np.frombuffer(row[name], kind) for name, kind in ARRAYS.items()}
    needed = arrays.pop("needed")
    return Block(row["b"], row["piece"], row["first"], Csr(**arrays), needed)


# --- what a task does ---------------------------------------------------------------------------------------------


class Found(NamedTuple):
    """What a task gives back: rows, their means and spreads where asked for, and numbers to be added up."""

    rows: Reals
    means: Reals
    spread: Floats
    #: Σ c (v − w·h)², and Σ n_i |w_i|² of the free coordinates.
    sums: Floats


class Task(Protocol):
    """A half-step: what is done with each block."""

    @property
    def held(self) -> int | None:
        """The coordinate that the side holds."""

    def side(self, csr: Csr, own: Reals) -> Side:
        """The rows of a block as a side."""

    def run(self, side: Side, other: Side, first: int) -> Found:
        """Rows of the side, the first of which has this number."""

    def alone(self, n_ratings: float, n_made_up: int) -> Task:
        """The same for a row whose ratings are made up, as many as it has coordinates."""


@dataclass(frozen=True)
class Solve:
    """Rows at the minimum of their own quadratics, as `solve_rows` has it."""

    constraint: Constraint
    ridge: float
    radius: float
    held: int | None

    def side(self, csr: Csr, own: Reals) -> Side:
        """The rows of a block as a side."""
        return Side(csr, np.full(len(own), self.radius), own, self.held)

    def run(self, side: Side, other: Side, first: int) -> Found:
        """Solve them."""
        with RowPool(1, 0) as pool:
            rows = solve_rows(side, other, pool, self.constraint, self.ridge)
            return Found(rows, NOTHING, NOTHING, _sums(side, rows, other, pool))

    def alone(self, n_ratings: float, n_made_up: int) -> Solve:
        """The ridge goes with the number of ratings."""
        return Solve(self.constraint, self.ridge * n_ratings / n_made_up, self.radius, self.held)


@dataclass(frozen=True)
class Draw:
    """Rows from their conditionals, as `draw_rows` has it; their streams go by their numbers."""

    key: int
    prior: Prior
    precision: float
    with_means: bool
    radius: float
    held: int

    def side(self, csr: Csr, own: Reals) -> Side:
        """The rows of a block as a side."""
        return Side(csr, np.full(len(own), self.radius), own, self.held)

    def run(self, side: Side, other: Side, first: int) -> Found:
        """Draw them."""
        span = span_of(side, other, self.prior)
        given = side, other, self.prior, self.precision
        with RowPool(1, 0) as pool:
            drawn = draw_rows_from(np.uint64(self.key), *given, pool, self.with_means, span=span, first=first)
            return Found(drawn.rows, drawn.means, drawn.spread, _sums(side, drawn.rows, other, pool))

    def alone(self, n_ratings: float, n_made_up: int) -> Draw:
        """Nothing here goes with the number of ratings."""
        return self


def _sums(side: Side, rows: Reals, other: Side, pool: RowPool) -> Floats:
    from boundrec.solvers.kernels import squared_errors

    errors = np.empty(len(rows))
    pool.run(squared_errors, side.csr.indptr, side.csr, rows, other.factors, errors)
    return np.array([errors.sum(), _size(rows, side)])


def _size(rows: Reals, side: Side) -> float:
    free = rows if side.held is None else np.delete(rows, side.held, axis=1)
    return float(np.einsum("ij,ij,i->", free, free, side.csr.row_weights()))


def do_block(task: Task, block: Block, own: Reals, fixed: Reals) -> dict[str, Any]:
    """The columns that a task makes of a block; ``fixed`` are the rows of the other side that it needs."""
    side, other = task.side(block.csr, own), Side(block.csr, np.empty(0), fixed)
    found = _piece(side, other) if block.piece else task.run(side, other, block.first)
    arrays = {name: np.ascontiguousarray(array).tobytes() for name, array in found._asdict().items()}
    return {"b": block.number, "piece": block.piece, **arrays}


# --- rows in pieces -----------------------------------------------------------------------------------------------


def _piece(side: Side, other: Side) -> Found:
    """A = Σ c h hᵀ and b = Σ c v h of the free coordinates, Σ c and Σ c v² of one piece of a row: sums to be added."""
    with RowPool(1, 0) as pool:
        free, features = free_part(side, other, pool)
    csr, width = free.csr, features.shape[1]
    A, b = np.zeros((width, width)), np.zeros(width)
    weights = csr.weights if csr.weights.size else np.ones(csr.data.size)
    for start in range(0, csr.data.size, TAKEN):
        some = slice(start, start + TAKEN)
        F, c = features[csr.indices[some]], weights[some]
        weighed = F * c[:, None]
        A += weighed.T @ F
        b += weighed.T @ csr.data[some]
    rest = np.array([weights.sum(), weights @ csr.data**2])
    return Found(NOTHING, NOTHING, NOTHING, np.concatenate([A.ravel(), b, rest]))


def row_of_pieces(task: Task, row: int, own: Reals, sums: Floats) -> Found:
    """A row from the sums of all its pieces.

    With A = Q Λ Qᵀ, rows √λ_k q_k and ratings q_k·b/√λ_k have the same A and b: as many as there are coordinates.
    """
    width = own.shape[1] - (task.held is not None)
    A, b, (weight, squares) = sums[: width**2].reshape(width, width), sums[width**2 : -2], sums[-2:]
    size, Q = np.linalg.eigh((A + A.T) / 2)
    root = np.sqrt(np.maximum(size, 0.0))
    there = root > 1e-12 * root.max(initial=0.0)
    features = np.where(there, root, 0.0)[:, None] * Q.T
    values = np.divide(Q.T @ b, root, out=np.zeros(width), where=there)
    if task.held is not None:
        features = np.insert(features, task.held, 0.0, axis=1)
    csr = Csr(np.array([0, width]), np.arange(width, dtype=np.int32), values, np.empty(0))
    other = Side(csr, np.empty(0), np.ascontiguousarray(features))
    found = task.alone(weight, width).run(task.side(csr, own), other, row)
    free = found.rows[0] if task.held is None else np.delete(found.rows[0], task.held)
    error = max(0.0, float(squares - 2 * b @ free + free @ A @ free))
    return found._replace(sums=np.array([error, weight * float(free @ free)]))


def read_found(row: Mapping[str, Any], width: int) -> Found:
    """What a task gave back, from its columns."""
    rows, means, spread, sums = (np.frombuffer(row[name], np.float64) for name in Found._fields)
    return Found(rows.reshape(-1, width), means.reshape(-1, width), spread.reshape(-1, 2), sums)


# --- what reaches a task ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Whole:
    """A half-step with both sides whole, as it is sent to every task."""

    task: Task
    own: Reals
    fixed: Reals

    def results(self, blocks: Iterator[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
        """What comes of each block."""
        for columns in blocks:
            block = read_block(columns)
            own = self.own[block.first : block.first + block.n_rows]
            yield do_block(self.task, block, own, self.fixed[block.needed])


def needs(block: Block, layout: Layout) -> Iterator[dict[str, Any]]:
    """Which rows of which blocks of the other side a block needs: places in each of these."""
    of = layout.blocks_of(block.needed)
    for number in np.unique(of):
        places = block.needed[of == number] - layout.edges[number]
        key = {"b": block.number, "piece": block.piece, "f": int(number)}
        yield {**key, "places": places.astype(np.int64).tobytes()}
