"""Non-negative factorisation of the observed ratings by multiplicative updates (Lee and Seung, with a mask)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from boundrec.arrays import Reals
from boundrec.data.ratings import Csr
from boundrec.models.fit import Validation
from boundrec.models.fitted import Fitted
from boundrec.models.settings import not_negative, setting
from boundrec.ranges import check_bounds
from boundrec.rivals import Cut, RidgeSide, RivalModel
from boundrec.solvers import Learned, Solver, Sweep
from boundrec.solvers.threads import RowPool


class NMF(RivalModel):
    """Non-negative Matrix Factorisation: a prediction is w_i·h_j, with w, h ≥ 0, above a shift if ratings are negative.

    Minimises Σ_observed (v_ij − w_i·h_j)² + ridge·(Σ_i n_i‖w_i‖² + Σ_j n_j‖h_j‖²) over W, H ≥ 0, where v_ij is the
    rating, and n_i, n_j count a user's and an item's ratings. As in form n of `MBMF`, ratings that may be negative are
    shifted, and no others: v_ij is the rating above ``bounds[0]`` where that is negative (without one, above the
    smallest rating if that is). Each sweep multiplies W, then H, by a ratio of two sums over the observed entries; the
    objective never rises. Predictions end below at the shift, or at 0, not at a lower end above 0, and have no upper
    end: users and items with few ratings can be predicted far beyond the scale, most of all without a ridge.
    """

    ridge: float = setting(
        default=0.0,
        rule=not_negative(),
        meaning="Weight of the squared factors, for every rating; 0 is the plain method.",
    )

    def _offset(self, start: Fitted) -> float:
        """What makes every rating non-negative when it is taken away."""
        assert start.ratings is not None
        low, _ = check_bounds(self.bounds)
        return min(0.0, low if low is not None else float(start.ratings.by_user.data.min()))

    def _solver(self, start: Fitted, pool: RowPool, rng: np.random.Generator, validation: Validation | None) -> Solver:
        assert isinstance(start.ranges, Cut)
        assert start.ratings is not None
        offset, ratings = start.ranges.offset, start.ratings
        W, H = self._start(start, offset, rng)

        def above_offset(csr: Csr, factors: Reals) -> RidgeSide:
            above = csr._replace(data=(csr.data - offset).astype(self.dtype))
            return RidgeSide(above, factors, float(self.ridge) * csr.row_weights())

        return Multiplication(above_offset(ratings.by_user, W), above_offset(ratings.by_item, H), pool)

    def _start(self, start: Fitted, offset: float, rng: np.random.Generator) -> tuple[Reals, Reals]:
        """Uniform factors, scaled alike so that the mean over all their products is the mean rating."""
        W = rng.random((len(start.users.ids), self.n_factors))
        H = rng.random((len(start.items.ids), self.n_factors))
        mean = max(start.mean - offset, 0.0)  # rounding may put the mean of equal ratings below them
        scale = np.sqrt(mean / (W.mean(axis=0) @ H.mean(axis=0)))
        return (scale * W).astype(self.dtype), (scale * H).astype(self.dtype)


class Multiplication:
    """Multiplicative updates: the users' factors, then the items' against the predictions of the new ones."""

    def __init__(self, users: RidgeSide, items: RidgeSide, pool: RowPool) -> None:
        self.users, self.items, self._pool = users, items, pool

    def sweeps(self) -> Iterator[Sweep]:
        """The objective, which never rises, after each sweep."""
        from boundrec.rivals.kernels import multiply_rows
        from boundrec.solvers.kernels import squared_errors

        users, items, pool = self.users, self.items, self._pool
        errors = np.empty(len(users.factors))
        while True:
            for side, fixed in ((users, items.factors), (items, users.factors)):
                pool.run(multiply_rows, side.csr.indptr, side.csr, fixed, side.ridge, side.factors)
            pool.run(squared_errors, users.csr.indptr, users.csr, users.factors, items.factors, errors)
            yield Sweep(float(errors.sum()) + users.penalty() + items.penalty())

    def result(self) -> Learned:
        """The factors of both sides, as they are now."""
        return Learned(self.users.factors.copy(), self.items.factors.copy())
