"""Normal matrices and their Cholesky factors by blocks of 8 × 8, which the processor holds in its registers.

A compiler keeps no block of a matrix in registers by itself: it must assume that what is written to one row may be read
from another. So `load`, `store`, `times` and `plus` name eight neighbouring entries of a row of a float64 matrix as one
value. A processor whose registers are narrower takes two or four for each. Sizes are whole numbers of eights: where
rows are shorter, zeros are added.
"""

from functools import partial
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils, types
from numba.extending import intrinsic, models, register_model

from boundrec.solvers.compiling import compiled, part

#: Entries of a tile, in which the factors of some observations are gathered: 14 KB, which stay in the nearest cache.
_TILE = 1792

# --- eight entries as one value -------------------------------------------------------------------------------

_LANES = ir.VectorType(ir.DoubleType(), 8)
_CONTRACT = ("contract",)


class Eight(types.Type):
    """Numba's type of eight float64 entries."""

    def __init__(self) -> None:
        super().__init__(name="Eight")


_eight = Eight()


@register_model(Eight)
class _EightModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _LANES)


def _place(context: Any, builder: Any, kind: Any, matrix: Any, row: Any, column: Any) -> Any:
    """The address of an entry of a matrix in row order."""
    model = context.data_model_manager[kind]
    width = builder.extract_value(model.get(builder, matrix, "shape"), 1)
    return builder.gep(model.get(builder, matrix, "data"), [builder.add(builder.mul(row, width), column)])


def _lanes(builder: Any, place: Any) -> Any:
    """The address of eight entries, by that of the first."""
    return builder.bitcast(place, _LANES.as_pointer())


def _spread(builder: Any, number: Any) -> Any:
    """A number eight times."""
    nothing, index = ir.Constant(_LANES, ir.Undefined), ir.IntType(32)
    first = builder.insert_element(nothing, number, ir.Constant(index, 0))
    return builder.shuffle_vector(first, nothing, ir.Constant(ir.VectorType(index, 8), [0] * 8))


@intrinsic
def load(typing, matrix, row, column):
    """matrix[row, column : column + 8]."""

    def code(context, builder, signature, arguments):
        place = _place(context, builder, signature.args[0], *arguments)
        return builder.load(_lanes(builder, place), align=8)

    return _eight(matrix, types.intp, types.intp), code


@intrinsic
def store(typing, matrix, row, column, eight):
    """matrix[row, column : column + 8] ← eight."""

    def code(context, builder, signature, arguments):
        *where, eight = arguments
        place = _place(context, builder, signature.args[0], *where)
        builder.store(eight, _lanes(builder, place), align=8)
        return context.get_dummy_value()

    return types.void(matrix, types.intp, types.intp, _eight), code


@intrinsic
def ask_for(typing, matrix, row, column):
    """Begin to bring matrix[row, column] and what lies around it near the processor; nothing waits for it."""

    def code(context, builder, signature, arguments):
        place = _place(context, builder, signature.args[0], *arguments)
        number, pointer = ir.IntType(32), place.type
        kind = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
        name = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(name, [place, *(ir.Constant(number, value) for value in (0, 3, 1))])
        return context.get_dummy_value()

    return types.void(matrix, types.intp, types.intp), code


@intrinsic
def repeat(typing, matrix, row, column):
    """matrix[row, column], eight times."""

    def code(context, builder, signature, arguments):
        return _spread(builder, builder.load(_place(context, builder, signature.args[0], *arguments)))

    return _eight(matrix, types.intp, types.intp), code


@intrinsic
def eight_times(typing, number):
    """A number, eight times."""

    def code(context, builder, signature, arguments):
        return _spread(builder, arguments[0])

    return _eight(types.float64), code


@intrinsic
def times(typing, factor, eight):
    """factor · eight, for a factor that is one number."""

    def code(context, builder, signature, arguments):
        factor, eight = arguments
        return builder.fmul(_spread(builder, factor), eight)

    return _eight(types.float64, _eight), code


@intrinsic
def plus(typing, x, y, z):
    """x + y · z, entry by entry, rounded once where the processor can."""

    def code(context, builder, signature, arguments):
        x, y, z = arguments
        return builder.fadd(x, builder.fmul(y, z, flags=_CONTRACT), flags=_CONTRACT)

    return _eight(_eight, _eight, _eight), code


@intrinsic
def sum_of(typing, x, y):
    """x + y, entry by entry."""

    def code(context, builder, signature, arguments):
        return builder.fadd(*arguments)

    return _eight(_eight, _eight), code


@intrinsic
def total(typing, eight):
    """The sum of the eight, in any order."""

    def code(context, builder, signature, arguments):
        double = ir.DoubleType()
        kind = ir.FunctionType(double, [double, _LANES])
        reduce = builder.module.declare_intrinsic("llvm.vector.reduce.fadd.v8f64", (), kind)
        return builder.call(reduce, [ir.Constant(double, -0.0), *arguments], fastmath=("reassoc",))

    return types.float64(_eight), code


@part
def dot_rows(X, i, Y, j):
    """X_i·Y_j, rows of whole eights."""
    products = eight_times(0.0)
    for m in range(0, X.shape[1], 8):
        products = plus(products, load(X, i, m), load(Y, j, m))
    return total(products)


@part
def add_row(factor, X, i, Y, j):
    """Y_j ← Y_j + factor·X_i, rows of whole eights."""
    for m in range(0, X.shape[1], 8):
        store(Y, j, m, plus(load(Y, j, m), eight_times(factor), load(X, i, m)))


# --- blocks ---------------------------------------------------------------------------------------------------


@part
def _add_products(X, n, k, m, C):
    """C[k : k + 8, m : m + 8] += Σ_{p < n} x_p[k : k + 8] x_p[m : m + 8]ᵀ."""
    s0, s1, s2, s3 = load(C, k, m), load(C, k + 1, m), load(C, k + 2, m), load(C, k + 3, m)
    s4, s5, s6, s7 = load(C, k + 4, m), load(C, k + 5, m), load(C, k + 6, m), load(C, k + 7, m)
    for p in range(n):
        x = load(X, p, m)
        s0 = plus(s0, repeat(X, p, k), x)
        s1 = plus(s1, repeat(X, p, k + 1), x)
        s2 = plus(s2, repeat(X, p, k + 2), x)
        s3 = plus(s3, repeat(X, p, k + 3), x)
        s4 = plus(s4, repeat(X, p, k + 4), x)
        s5 = plus(s5, repeat(X, p, k + 5), x)
        s6 = plus(s6, repeat(X, p, k + 6), x)
        s7 = plus(s7, repeat(X, p, k + 7), x)
    store(C, k, m, s0)
    store(C, k + 1, m, s1)
    store(C, k + 2, m, s2)
    store(C, k + 3, m, s3)
    store(C, k + 4, m, s4)
    store(C, k + 5, m, s5)
    store(C, k + 6, m, s6)
    store(C, k + 7, m, s7)


@part
def _add_sums(X, t, n, m, b):
    """b[0, m : m + 8] += Σ_{p < n} t[0, p] x_p[m : m + 8], in four sums, so that additions need not wait."""
    s0, s1, s2, s3 = load(b, 0, m), eight_times(0.0), eight_times(0.0), eight_times(0.0)
    for p in range(0, n - 3, 4):
        s0 = plus(s0, repeat(t, 0, p), load(X, p, m))
        s1 = plus(s1, repeat(t, 0, p + 1), load(X, p + 1, m))
        s2 = plus(s2, repeat(t, 0, p + 2), load(X, p + 2, m))
        s3 = plus(s3, repeat(t, 0, p + 3), load(X, p + 3, m))
    for p in range(n // 4 * 4, n):
        s0 = plus(s0, repeat(t, 0, p), load(X, p, m))
    store(b, 0, m, sum_of(sum_of(s0, s1), sum_of(s2, s3)))


@compiled
def sums_of_rows(places, dense, out, start, stop):
    """out_i = Σ_j d_j over the places j of a row; ``dense`` and ``out`` are whole eights wide."""
    indptr, indices = places
    for i in range(start, stop):
        first, end = indptr[i], indptr[i + 1]
        middle = first + (end - first) // 4 * 4
        for m in range(0, dense.shape[1], 8):
            s0, s1, s2, s3 = eight_times(0.0), eight_times(0.0), eight_times(0.0), eight_times(0.0)
            for p in range(first, middle, 4):
                s0 = sum_of(s0, load(dense, indices[p], m))
                s1 = sum_of(s1, load(dense, indices[p + 1], m))
                s2 = sum_of(s2, load(dense, indices[p + 2], m))
                s3 = sum_of(s3, load(dense, indices[p + 3], m))
            for p in range(middle, end):
                s0 = sum_of(s0, load(dense, indices[p], m))
            store(out, i, m, sum_of(sum_of(s0, s1), sum_of(s2, s3)))


@part
def roots_of_weights(weights, first, stop, out):
    """√c of the observations from ``first`` to ``stop``, all in a loop of their own, which takes several at a time."""
    if weights.size:
        for j in range(stop - first):
            out[j] = np.sqrt(np.float64(weights[first + j]))
    else:
        for j in range(stop - first):
            out[j] = 1.0


@part
def gather(csr, first, stop, fixed, F, t):
    """F_j = √c_j h_j and t_j = √c_j v_j of the observations from ``first`` to ``stop``.

    Then Σ c hhᵀ = FᵀF and Σ c v h = Fᵀt, and q(w) = ‖t − F w‖² − ‖t‖².
    """
    _indptr, indices, data, weights = csr
    roots_of_weights(weights, first, stop, t)
    for j in range(stop - first):
        root, h = t[j], fixed[indices[first + j]]
        for k in range(h.shape[0]):
            F[j, k] = root * h[k]
        t[j] = root * data[first + j]


@part
def in_eights(n):
    """The least whole number of eights that is at least n."""
    return (n + 7) // 8 * 8


@partial(part, makes_room=True)
def new_matrix(n, width):
    """Room for n rows. All kernels share its one form: of `np.empty` Numba makes one for each way to write a shape."""
    return np.empty((n, width))


@partial(part, makes_room=True)
def new_tile(n_factors):
    """Room for the factors, with zeros up to whole eights, and the values (in one row) of a tile of observations."""
    width = in_eights(n_factors)
    size = max(8, _TILE // width)
    F, t = new_matrix(size, width), new_matrix(1, size)
    for j in range(size):
        for k in range(F.shape[1]):
            F[j, k] = 0.0
    return F, t


@partial(part, makes_room=True)
def new_equations(n_factors):
    """Room for A and b (of one row) in whole eights."""
    n = in_eights(n_factors)
    return new_matrix(n, n), new_matrix(1, n)


@part
def clear(A, b):
    """A ← 0 and b ← 0."""
    for k in range(A.shape[0]):
        b[0, k] = 0.0
        for m in range(A.shape[1]):
            A[k, m] = 0.0


@part
def add_tile(tile, n, A, b):
    """A += FᵀF (lower triangle) and b += Fᵀt of the first n observations of a tile."""
    F, t = tile
    for k in range(0, A.shape[0], 8):
        _add_sums(F, t, n, k, b)
        for m in range(0, k + 8, 8):
            _add_products(F, n, k, m, A)


@part
def normal_equations_by_blocks(csr, row, fixed, tile, A, b):
    """A = Σ_j c_j h_j h_jᵀ (lower triangle) and b = Σ_j c_j v_j h_j over one row's observations.

    A and b are those of `new_equations`, with zeros where ``fixed`` has no factors; ``tile`` is one of `new_tile`.
    """
    clear(A, b)
    F, t = tile
    end, size = csr[0][row + 1], F.shape[0]
    for first in range(csr[0][row], end, size):
        stop = min(first + size, end)
        gather(csr, first, stop, fixed, F, t[0])
        add_tile(tile, stop - first, A, b)


@part
def cholesky_by_blocks(A, L):
    """L Lᵀ = A; False where that is not positive definite. Above its diagonal L then holds Lᵀ.

    Eight rows of U = Lᵀ at a time: first minus what the rows above leave of A, so that products are only ever added;
    then the block on the diagonal, and the others by substitution.
    """
    n = A.shape[0]
    for k in range(0, n, 8):
        for m in range(k, n):
            for r in range(k, k + 8):
                L[r, m] = -A[m, r]
        for m in range(k, n, 8):
            _add_products(L, k, k, m, L)
        for r in range(k, k + 8):
            pivot = -L[r, r]
            if not pivot > 0.0:
                return False
            x = times(-1.0 / np.sqrt(pivot), load(L, r, k))
            store(L, r, k, x)
            L[r, r] = np.sqrt(pivot)
            for q in range(r + 1, k + 8):
                store(L, q, k, plus(load(L, q, k), repeat(L, r, q), x))
        for m in range(k + 8, n, 8):
            for r in range(k, k + 8):
                x = load(L, r, m)
                for q in range(k, r):
                    x = plus(x, repeat(L, q, r), load(L, q, m))
                store(L, r, m, times(-1.0 / L[r, r], x))
        for r in range(k, k + 8):
            for q in range(k, r):
                L[r, q] = L[q, r]
        for m in range(k + 8, n):
            for r in range(k, k + 8):
                L[m, r] = L[r, m]
    return True
