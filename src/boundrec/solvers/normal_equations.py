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
from boundrec.solvers.threads import RowPool

#: Up to so many unknowns the system is factorised, once for each right side.
FEW = 64
#: Conjugate gradients end where the residual of every column has fallen to this share of its right side, or after so
#: many steps. A draw need not be nearer: what a closer one changes is far below its own spread.
TOLERANCE, MOST_STEPS = 1e-2, 100
#: How many directions are solved for exactly, and how often they are turned towards the slowest ones.
N_SLOW, N_TURNS = 24, 4
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

    @classmethod
    def full(cls, n_rows: int, n_columns: int) -> Sparse:
        """All places, still without values, for products of dense matrices: bits of BLAS change with its threads."""
        indptr = np.arange(n_rows + 1, dtype=np.int64) * n_columns
        indices = np.tile(np.arange(n_columns, dtype=np.int32), n_rows)
        return cls(indptr, indices)

    def filled(self, dense: Floats) -> Sparse:
        """The same places with these values."""
        return self._replace(values=np.ascontiguousarray(dense).ravel())

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
        from boundrec.solvers.kernels import sparse_products, sums_of_rows

        dense = self.of_columns[:, None] * dense if self.of_columns.size else np.ascontiguousarray(dense)
        out = np.empty((len(self.indptr) - 1, dense.shape[1]))
        if self.values.size:
            pool.run(sparse_products, self.indptr, self[:3], dense, out)
        else:
            pool.run(sums_of_rows, self.indptr, self[:2], dense, out)
        if self.of_rows.size:
            out *= self.of_rows[:, None]
        return out


def _value_of_rows(indptr: NDArray[np.int64], values: Floats) -> Floats | None:
    """The value of each row, where it is the same all along every row; None where it is not."""
    sizes = np.diff(indptr)
    first = np.zeros(len(sizes))
    first[sizes > 0] = values[indptr[:-1][sizes > 0]]
    return first if values.size and np.array_equal(np.repeat(first, sizes), values) else None


class NormalEquations:
    """Solves (FᵀF + Λ) B = R for one F, given by rows and kept by columns, too, and any Λ and R.

    Sums over rows are einsum's plain loops: threaded products would change bits with the number of threads.
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
        solution, residual = slow.solved(right, pool)
        direction = slow.kept_out(residual / diagonal, pool)
        agreement = _column_products(residual, direction)
        enough = tolerance**2 * _column_products(right, right)
        for _ in range(MOST_STEPS):
            if np.all(_column_products(residual, residual) <= enough):
                break
            image = self._gram_times(direction, pool) + each * direction
            step = _ratio(agreement, _column_products(direction, image))
            solution += step * direction
            residual -= step * image
            scaled = slow.kept_out(residual / diagonal, pool)
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
        self._tall, self._wide = Sparse.full(*basis.shape), Sparse.full(*basis.T.shape)

    def weigh(self, each: Floats) -> None:
        """Take Λ into account, a column of strengths: the image of V is (FᵀF + Λ) V."""
        self._image = self._gram_image + each * self._basis
        self._inverse = np.linalg.inv(np.einsum("ni,nj->ij", self._basis, self._image))

    def solved(self, right: Floats, pool: RowPool) -> tuple[Floats, Floats]:
        """The solution within the subspace, and what it leaves of the right side."""
        inside = self._inverse @ self._wide.filled(self._basis.T).times(right, pool)
        solution = self._tall.filled(self._basis).times(inside, pool)
        return solution, right - self._tall.filled(self._image).times(inside, pool)

    def kept_out(self, direction: Floats, pool: RowPool) -> Floats:
        """The direction made conjugate to the subspace: a step along it leaves what is solved there as it is."""
        inside = self._inverse @ self._wide.filled(self._image.T).times(direction, pool)
        return np.asarray(direction - self._tall.filled(self._basis).times(inside, pool))


def _orthonormal(vectors: Floats) -> Floats:
    """An orthonormal basis of what these columns span."""
    sizes, turned = np.linalg.eigh(np.einsum("ni,nj->ij", vectors, vectors))
    kept = sizes > 1e-10 * sizes.max(initial=0.0)
    return np.asarray(np.einsum("ni,ij->nj", vectors, turned[:, kept] / np.sqrt(sizes[kept])))


def _column_products(left: Floats, right: Floats) -> Floats:
    products: Floats = np.einsum("ij,ij->j", left, right)
    return products


def _ratio(over: Floats, under: Floats) -> Floats:
    """Column by column; a column that is solved already stays where it is."""
    return np.divide(over, under, out=np.zeros_like(over), where=under > 0)
