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


class Sparse(NamedTuple):
    """A sparse matrix in row order, as kernels take it."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    values: Floats

    @classmethod
    def of(cls, matrix: csr_array) -> Sparse:
        """From SciPy's."""
        return cls(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data.astype(np.float64))

    @classmethod
    def full(cls, n_rows: int, n_columns: int) -> Sparse:
        """With all entries there, for the products of dense matrices: BLAS' bits change with its number of threads."""
        indptr = np.arange(n_rows + 1, dtype=np.int64) * n_columns
        indices = np.tile(np.arange(n_columns, dtype=np.int32), n_rows)
        return cls(indptr, indices, np.zeros(n_rows * n_columns))

    def filled(self, dense: Floats) -> Sparse:
        """The same places with these values."""
        return self._replace(values=np.ascontiguousarray(dense).ravel())

    def times(self, dense: Floats, pool: RowPool) -> Floats:
        """The product with a dense matrix, rows shared between threads."""
        from boundrec.solvers.kernels import sparse_products

        out = np.empty((len(self.indptr) - 1, dense.shape[1]))
        pool.run(sparse_products, self.indptr, self, np.ascontiguousarray(dense), out)
        return out


class NormalEquations:
    """Solves (FᵀF + Λ) B = R for one F, given by rows and by columns, and any Λ and R.

    Sums over rows are einsum's plain loops: threaded products would change bits with the number of threads.
    """

    def __init__(self, rows: Sparse, columns: Sparse) -> None:
        self.rows, self.columns, self.n = rows, columns, len(columns.indptr) - 1
        self._squares = np.bincount(rows.indices, rows.values**2, minlength=self.n)
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
            columns = self.columns.values, self.columns.indices, self.columns.indptr
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
