"""Algorithm 1 of the paper: gradient descent on the angles of spherical coordinates, one side at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from boundrec.arrays import Floats, Reals
from boundrec.solvers import Side
from boundrec.solvers.descent import Descent, MovingSide, Step, Steps
from boundrec.solvers.threads import RowPool


def cartesian_to_spherical(rows: Reals) -> Floats:
    """Angles of each row: φ_k = atan2(‖w_{k+1:}‖, w_k), the last one atan2(w_K, w_{K−1})."""
    rows = np.asarray(rows, dtype=np.float64)
    tails = np.sqrt(np.cumsum(rows[:, ::-1] ** 2, axis=1))[:, ::-1]
    phi: Floats = np.arctan2(tails[:, 1:], rows[:, :-1])
    phi[:, -1] = np.arctan2(rows[:, -1], rows[:, -2])
    return phi


def widened(rows: Reals) -> Reals:
    """Rows with zeros up to a multiple of four: K = 10 takes a fifth longer than K = 12, which fills the registers."""
    extra = -rows.shape[1] % 4
    return np.hstack([rows, np.zeros((len(rows), extra), rows.dtype)]) if extra else rows


class AngleSide(MovingSide):
    """One side with its angles and its own step: the paper's Φ and λ^Φ, or Θ and λ^Θ."""

    def __init__(self, side: Side, step: float) -> None:
        super().__init__(side.csr, side.factors, step)
        self.radius = side.radius
        self.phi = cartesian_to_spherical(self.factors)
        self.trial_phi, self.slope = np.empty_like(self.phi), np.empty_like(self.phi)
        #: cos φ and sin φ of the angles, and of the trial's.
        self.turns = np.stack([np.cos(self.phi), np.sin(self.phi)], axis=2)
        self.trial_turns = np.empty_like(self.turns)


class AngleDescent(Descent[AngleSide]):
    """Descends F(Φ, Θ), the squared errors as a function of the angles; steps as in `Descent`."""

    def __init__(self, users: AngleSide, items: AngleSide, pool: RowPool, step: Step, steps: Steps) -> None:
        super().__init__(users, items, step, steps)
        self._pool = pool

    def _evaluate(self, side: AngleSide, rows: Any, fixed: Any, gradient: Floats) -> float:
        """F at (rows, fixed), and half of ∂F/∂rows into ``gradient``."""
        from boundrec.solvers.kernels import row_gradients

        wide = widened(rows)
        found = gradient if wide is rows else np.empty(wide.shape)
        self._pool.run(row_gradients, side.csr.indptr, side.csr, wide, widened(fixed), found, side.errors)
        gradient[:] = found[:, : gradient.shape[1]]
        return float(side.errors.sum())

    def _set_slope(self, side: AngleSide) -> None:
        """Half of ∂F/∂φ from half of ∂F/∂w."""
        from boundrec.solvers.kernels import angle_gradient

        self._pool.run(angle_gradient, side.csr.indptr, side.turns, side.radius, side.gradient, side.slope)
        side.slope_is_old = False

    def _propose(self, side: AngleSide, step: float) -> None:
        """The trial point of one side: Φ − step·D^Φ, and its Cartesian factors."""
        from boundrec.solvers.kernels import spherical_to_cartesian

        np.multiply(side.slope, -step, out=side.trial_phi)
        side.trial_phi += side.phi
        arguments = side.trial_phi, side.radius, side.trial_turns, side.trial
        self._pool.run(spherical_to_cartesian, side.csr.indptr, *arguments)

    def _accept(self, side: AngleSide) -> None:
        side.phi, side.trial_phi = side.trial_phi, side.phi
        side.turns, side.trial_turns = side.trial_turns, side.turns
        side.factors[:] = side.trial
