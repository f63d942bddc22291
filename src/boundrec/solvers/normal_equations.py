"""(FᵀF + Λ) B = R for a sparse F and a diagonal Λ: few unknowns by Cholesky, many by conjugate gradients.

What holds gradients up are a few directions. Sets of who rated what differ most in how popular those in them are, then
in the two or three tastes that everybody knows: the eigenvalues there are tens of times those elsewhere. A subspace of
these directions, found once for an F, is solved for exactly, and the gradients keep out of it (deflation: Nicolaides
1987; Saad, Yeung, Erhel and Guyomarc'h 2000). It need not be exact: any subspace gives the same solution, in more steps
or fewer.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from boundrec.arrays import Floats
from boundrec.solvers.threads import RowPool, product

#: Up to so many unknowns the system is factorised, once for each right side.
FEW = 64
#: Conjugate gradients end where the residual of every column has fallen to this share of its right side, or after so
#: many steps. A draw need not be nearer: what a closer one changes is far below its own spread.
TOLERANCE, MOST_STEPS = 1e-2, 100
#: How many directions are solved for exactly, and how often they are turned towards the slowest ones.
N_SLOW, N_TURNS = 24, 4
#: Numbers in a line of the cache, and in the registers of a processor that has the widest.
LINE = 8
NONE: Floats = np.empty(0)


class Sparse(NamedTuple):
    """A sparse matrix in row order, as kernels take it: entries r_i v_ij c_j, of which what is empty is 1.

    Sets have the same value all along a row: they are r and the places, a third of the memory.
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    values: Floats = NONE
    of_rows: Floats = NONE
    of_columns: Floats = NONE

    @classmethod
    def of(cls, matrix: csr_array) -> Sparse:
        """From SciPy's."""
        indptr, indices = matrix.indptr.astype(np.int64, copy=False), matrix.indices.astype(np.int32, copy=False)
        values = matrix.data.astype(np.float64, copy=False)
        even = _value_of_rows(indptr, values)
        return cls(indptr, indices, values) if even is None else cls(indptr, indices, of_rows=even)

    def transposed(self, n_columns: int) -> Sparse:
        """The same matrix in the order of its columns."""
        values = self.values if self.values.size else np.ones(self.indices.size, np.int8)
        across = csr_array((values, self.indices, self.indptr), shape=(len(self.indptr) - 1, n_columns)).T.tocsr()
        indptr, indices = across.indptr.astype(np.int64, copy=False), across.indices.astype(np.int32, copy=False)
        kept = across.data if self.values.size else NONE
        return Sparse(indptr, indices, kept, of_rows=self.of_columns, of_columns=self.of_rows)

    def entries(self) -> Floats:
        """What stands at each place."""
        found = self.values.copy() if self.values.size else np.ones(self.indices.size)
        if self.of_rows.size:
            found *= np.repeat(self.of_rows, np.diff(self.indptr))
        if self.of_columns.size:
            found *= self.of_columns[self.indices]
        return found

    def times(self, dense: Floats, pool: RowPool) -> Floats:
        """The product with a dense matrix, rows shared between threads."""
        of_columns = self.of_columns[:, None] if self.of_columns.size else 1.0
        of_rows = self.of_rows[:, None] if self.of_rows.size else 1.0
        if not self.values.size:
            return np.asarray(of_rows * self._sums(of_columns * dense, pool))
        from boundrec.solvers.kernels import sparse_products

        out = np.empty((len(self.indptr) - 1, dense.shape[1]))
        pool.run(sparse_products, self.indptr, self[:3], np.ascontiguousarray(of_columns * dense), out)
        return np.asarray(of_rows * out)

    def _sums(self, dense: Floats, pool: RowPool) -> Floats:
        """The product where all entries are 1."""
        from boundrec.solvers.block_kernels import sums_of_rows

        n, width = dense.shape
        wide, out = _in_lines(n, width), _in_lines(len(self.indptr) - 1, width)
        wide[:, :width], wide[:, width:] = dense, 0.0
        pool.run(sums_of_rows, self.indptr, self[:2], wide, out)
        return out[:, :width]


def _in_lines(n_rows: int, width: int) -> Floats:
    """A matrix without values yet whose rows are whole lines of the cache: one that lies across two is read as two."""
    whole = -(-width // LINE) * LINE
    memory = np.empty(n_rows * whole + LINE)
    first = -(memory.ctypes.data // memory.itemsize) % LINE
    return memory[first : first + n_rows * whole].reshape(n_rows, whole)


def _value_of_rows(indptr: NDArray[np.int64], values: Floats) -> Floats | None:
    """The value of each row, where it is the same all along every row; None where it is not."""
    sizes = np.diff(indptr)
    first = np.zeros(len(sizes))
    first[sizes > 0] = values[indptr[:-1][sizes > 0]]
    return first if values.size and np.array_equal(np.repeat(first, sizes), values) else None


class NormalEquations:
    """Solves (FᵀF + Λ) B = R for one F, given by rows and kept by columns, too, and any Λ and R.

    Dense products are made on one thread: on more, bits would change with their number.
    """

    def __init__(self, rows: Sparse, n_columns: int) -> None:
        self.rows, self.columns, self.n = rows, rows.transposed(n_columns), n_columns
        self._squares = np.bincount(rows.indices, rows.entries() ** 2, minlength=self.n)
        self._gram: Floats | None = None
        self._slow: Subspace | None = None

    def solved(self, right: Floats, strengths: Floats, pool: RowPool, tolerance: float = TOLERANCE) -> Floats:
        """B, where Λ has these strengths on its diagonal."""
        if self.n <= FEW:
            return self._factorised(right, strengths)
        return self._by_gradients(right, strengths, pool, tolerance)

    def _factorised(self, right: Floats, strengths: Floats) -> Floats:
        from scipy.linalg import cho_factor, cho_solve

        if self._gram is None:
            columns = self.columns.entries(), self.columns.indices, self.columns.indptr
            across = csr_array(columns, shape=(self.n, len(self.rows.indptr) - 1))
            self._gram = (across @ across.T).toarray()
        return np.asarray(cho_solve(cho_factor(self._gram + np.diag(strengths)), right))

    def _by_gradients(self, right: Floats, strengths: Floats, pool: RowPool, tolerance: float) -> Floats:
        """Conjugate gradients on every column, preconditioned by the diagonal, outside the slow subspace."""
        each = strengths[:, None]
        diagonal = self._squares[:, None] + each
        slow = self._slow_subspace(diagonal, pool)
        slow.weigh(each)
        solution, residual = slow.solved(right)
        direction = slow.kept_out(residual / diagonal)
        agreement = _column_products(residual, direction)
        enough = tolerance**2 * _column_products(right, right)
        for _ in range(MOST_STEPS):
            if np.all(_column_products(residual, residual) <= enough):
                break
            image = self._gram_times(direction, pool) + each * direction
            step = _ratio(agreement, _column_products(direction, image))
            solution += step * direction
            residual -= step * image
            scaled = slow.kept_out(residual / diagonal)
            before, agreement = agreement, _column_products(residual, scaled)
            direction = scaled + _ratio(agreement, before) * direction
        return solution

    def _gram_times(self, dense: Floats, pool: RowPool) -> Floats:
        """FᵀF times a dense matrix."""
        return self.columns.times(self.rows.times(dense, pool), pool)

    def _slow_subspace(self, diagonal: Floats, pool: RowPool) -> Subspace:
        """Near the largest eigenvectors of FᵀF in units of the diagonal, by powers; found once."""
        if self._slow is None:
            basis = np.random.default_rng(0).standard_normal((self.n, N_SLOW))
            for _ in range(N_TURNS):
                basis = _orthonormal(self._gram_times(basis, pool) / diagonal)
            self._slow = Subspace(basis, self._gram_times(basis, pool))
        return self._slow


class Subspace:
    """A subspace in which (FᵀF + Λ) B = R is solved exactly, by an orthonormal basis V and FᵀF V."""

    def __init__(self, basis: Floats, image: Floats) -> None:
        self._basis, self._gram_image = basis, image

    def weigh(self, each: Floats) -> None:
        """Take Λ into account, a column of strengths: the image of V is (FᵀF + Λ) V."""
        self._image = self._gram_image + each * self._basis
        self._inverse = np.linalg.inv(product(self._basis.T, self._image))

    def solved(self, right: Floats) -> tuple[Floats, Floats]:
        """The solution within the subspace, and what it leaves of the right side."""
        inside = product(self._inverse, product(self._basis.T, right))
        return product(self._basis, inside), right - product(self._image, inside)

    def kept_out(self, direction: Floats) -> Floats:
        """The direction made conjugate to the subspace: a step along it leaves what is solved there as it is."""
        inside = product(self._inverse, product(self._image.T, direction))
        return direction - product(self._basis, inside)


def _orthonormal(vectors: Floats) -> Floats:
    """An orthonormal basis of what these columns span."""
    sizes, turned = np.linalg.eigh(product(vectors.T, vectors))
    kept = sizes > 1e-10 * sizes.max(initial=0.0)
    return product(vectors, turned[:, kept] / np.sqrt(sizes[kept]))


def _column_products(left: Floats, right: Floats) -> Floats:
    products: Floats = np.einsum("ij,ij->j", left, right)
    return products


def _ratio(over: Floats, under: Floats) -> Floats:
    """Column by column; a column that is solved already stays where it is."""
    return np.divide(over, under, out=np.zeros_like(over), where=under > 0)
