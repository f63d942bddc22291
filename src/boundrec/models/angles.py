"""Algorithm 1 of the paper: gradient descent on the angles of spherical coordinates, one side at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boundrec.models.base import Side, Sweep
from boundrec.parallel import RowPool

Floats = NDArray[np.float64]

GROW, SHRINK = 1.1, 2.0
#: Armijo's condition: a step must bring this share of the decrease that the gradient promises.
SUFFICIENT = 1e-4
#: Below this a step changes no angle any more.
SMALLEST_STEP = 1e-30


def cartesian_to_spherical(rows: NDArray[np.floating]) -> Floats:
    """Angles of each row: φ_k = atan2(‖w_{k+1:}‖, w_k), the last one atan2(w_K, w_{K−1})."""
    rows = np.asarray(rows, dtype=np.float64)
    tails = np.sqrt(np.cumsum(rows[:, ::-1] ** 2, axis=1))[:, ::-1]
    phi: Floats = np.arctan2(tails[:, 1:], rows[:, :-1])
    phi[:, -1] = np.arctan2(rows[:, -1], rows[:, -2])
    return phi


class AngleSide:
    """One side with its angles and its own step (the paper's Φ and λ^Φ, or Θ and λ^Θ), and room for a trial."""

    def __init__(self, side: Side, step: float) -> None:
        self.csr, self.radius, self.factors, self.step = side.csr, side.radius, side.factors, step
        self.phi = cartesian_to_spherical(self.factors)
        self.trial_phi, self.slope = np.empty_like(self.phi), np.empty_like(self.phi)
        self.gradient, self.trial_gradient = np.empty(self.factors.shape), np.empty(self.factors.shape)
        self.trial, self.errors = np.empty_like(self.factors), np.empty(len(self.factors))
        self.slope_is_old = True


class AngleDescent:
    """Descends F(Φ, Θ); ``step`` is "dynamic", "fixed" or "line-search", ``steps`` "separate" or "shared".

    A pass over the ratings gives F and one side's gradient together. With separate steps the trial of one side
    is judged by a pass in the other side's order, so that an accepted trial has already paid for the other
    side's next gradient: two passes an iteration.
    """

    def __init__(self, users: AngleSide, items: AngleSide, pool: RowPool, step: str, steps: str) -> None:
        self.users, self.items, self._pool = users, items, pool
        self._step, self._shared = step, steps == "shared"

    def sweeps(self) -> Iterator[Sweep]:
        """Iterate for ever, or until the steps are too small to move anything."""
        self.objective = self._evaluate(self.users, self.users.factors, self.items.factors, self.users.gradient)
        self._set_slope(self.users)
        while self.users.step > SMALLEST_STEP or self.items.step > SMALLEST_STEP:
            moved = self._move_together() if self._shared else self._move_in_turn()
            yield Sweep(self.objective, accepted=moved)

    # --- passes ---------------------------------------------------------------------------------------------

    def _evaluate(self, side: AngleSide, rows: Any, fixed: Any, gradient: Floats) -> float:
        """F at (rows, fixed), and half of ∂F/∂rows into ``gradient``."""
        from boundrec.kernels import row_gradients

        self._pool.run(row_gradients, side.csr.indptr, side.csr, rows, fixed, gradient, side.errors)
        return float(side.errors.sum())

    def _set_slope(self, side: AngleSide) -> None:
        """Half of ∂F/∂φ from half of ∂F/∂w."""
        from boundrec.kernels import angle_gradient

        self._pool.run(angle_gradient, side.csr.indptr, side.phi, side.radius, side.gradient, side.slope)
        side.slope_is_old = False

    def _propose(self, side: AngleSide, step: float) -> None:
        """The trial point of one side: Φ − step·D^Φ, and its Cartesian factors."""
        from boundrec.kernels import spherical_to_cartesian

        np.multiply(side.slope, -step, out=side.trial_phi)
        side.trial_phi += side.phi
        self._pool.run(spherical_to_cartesian, side.csr.indptr, side.trial_phi, side.radius, side.trial)

    @staticmethod
    def _accept(side: AngleSide) -> None:
        side.phi, side.trial_phi = side.trial_phi, side.phi
        side.factors[:] = side.trial

    # --- separate steps -------------------------------------------------------------------------------------

    def _move_in_turn(self) -> bool:
        moved_users = self._move(self.users, self.items)
        moved_items = self._move(self.items, self.users)
        return moved_users or moved_items

    def _move(self, side: AngleSide, other: AngleSide) -> bool:
        """Try one step of ``side``; judged by a pass in the other side's order, which also gives its gradient."""
        if side.slope_is_old:
            self._evaluate(side, side.factors, other.factors, side.gradient)
            self._set_slope(side)
        while True:
            self._propose(side, side.step)
            objective = self._evaluate(other, other.factors, side.trial, other.trial_gradient)
            accepted = self._judge(objective, (side,))
            if accepted:
                self.objective = objective
                self._accept(side)
                other.gradient, other.trial_gradient = other.trial_gradient, other.gradient
                self._set_slope(other)
                side.slope_is_old = True
            if accepted or self._step != "line-search" or side.step <= SMALLEST_STEP:
                return accepted

    # --- one shared step: Algorithm 1's simultaneous update read literally ------------------------------------

    def _move_together(self) -> bool:
        users, items = self.users, self.items
        if items.slope_is_old:
            self._evaluate(items, items.factors, users.factors, items.gradient)
            self._set_slope(items)
        while True:
            self._propose(users, users.step)
            self._propose(items, users.step)
            objective = self._evaluate(users, users.trial, items.trial, users.trial_gradient)
            accepted = self._judge(objective, (users, items))
            if accepted:
                self.objective = objective
                self._accept(users)
                self._accept(items)
                users.gradient, users.trial_gradient = users.trial_gradient, users.gradient
                self._set_slope(users)
                items.slope_is_old = True
            if accepted or self._step != "line-search" or users.step <= SMALLEST_STEP:
                return accepted

    # --- step control ---------------------------------------------------------------------------------------

    def _judge(self, objective: float, sides: tuple[AngleSide, ...]) -> bool:
        """Whether to take the trial, and the next step: the paper's three ways (section Parameter Setting)."""
        if self._step == "fixed":
            return True
        step = sides[0].step
        required = self.objective
        if self._step == "line-search":  # slopes are half the derivatives, hence the 2
            required -= SUFFICIENT * 2 * step * sum(float(np.vdot(side.slope, side.slope)) for side in sides)
        accepted = objective < required
        grow = 2.0 if self._step == "line-search" else GROW
        for side in sides:
            side.step = step * grow if accepted else step / SHRINK
        return accepted
