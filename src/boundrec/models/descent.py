"""Full-batch gradient descent on two sides with a step that grows on success and shrinks on failure.

The sides say what is being moved (the factors themselves here, angles in :mod:`boundrec.models.angles`), a
function says what is being minimised; when to take a step and how long the next one is exists once, here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from boundrec.models.base import Floats, Sweep, dot_rows
from boundrec.ratings import Csr

GROW, SHRINK = 1.1, 2.0
#: Armijo's condition: a step must bring this share of the decrease that the gradient promises.
SUFFICIENT = 1e-4
#: Below this a step changes nothing any more.
SMALLEST_STEP = 1e-30


class MovingSide(Protocol):
    """One side of the factorisation, with its own step and room for a trial."""

    csr: Csr
    factors: NDArray[np.floating]
    trial: NDArray[np.floating]
    gradient: Floats
    trial_gradient: Floats
    slope_is_old: bool
    step: float

    @property
    def slope(self) -> Floats:
        """Half of the derivative by what is moved."""

    def set_slope(self) -> None:
        """Bring ``slope`` up to date with ``gradient``, half of ∂F/∂factors."""

    def propose(self, step: float) -> None:
        """The trial point, ``step`` down the slope, into ``trial``."""

    def accept(self) -> None:
        """Take the trial point."""


#: F at (rows, fixed), and half of ∂F/∂rows into the last argument.
Evaluate = Callable[[Any, NDArray[np.floating], NDArray[np.floating], Floats], float]


class FactorSide:
    """A side whose factors move themselves, all but the columns ``frozen``, which hold ones."""

    def __init__(self, csr: Csr, factors: NDArray[np.floating], frozen: Sequence[int] = ()) -> None:
        self.csr, self.factors, self._frozen = csr, factors, list(frozen)
        self.trial, self.errors = np.empty_like(factors), np.empty(len(factors))
        self.gradient, self.trial_gradient = np.empty(factors.shape), np.empty(factors.shape)
        self.slope_is_old, self.step = True, 1.0
        self._weights = csr.weights.astype(np.float64) if csr.weights.size else np.ones(len(csr.data))
        self.counts = self._sum_rows(self._weights)

    def _sum_rows(self, values: Floats) -> Floats:
        rows = np.repeat(np.arange(len(self.factors)), np.diff(self.csr.indptr))
        return np.asarray(np.bincount(rows, values, len(self.factors)), np.float64)

    def safe_step(self, fixed: NDArray[np.floating], ridge: float) -> float:
        """One over the largest Σ_j c_ij (|h_j|² + ridge): no longer than a squared loss with fixed H can bear."""
        curvature = self._sum_rows(self._weights * dot_rows(fixed, fixed)[self.csr.indices]) + ridge * self.counts
        return 1.0 / max(float(curvature.max()), np.finfo(float).tiny)

    @property
    def slope(self) -> Floats:
        """The factors are what is moved, so their gradient is the slope."""
        return self.gradient

    def set_slope(self) -> None:
        """Leave the frozen columns out of the gradient."""
        self.gradient[:, self._frozen] = 0.0
        self.slope_is_old = False

    def propose(self, step: float) -> None:
        """W − step·∂F/∂W."""
        self.trial[:] = self.factors - step * self.gradient

    def accept(self) -> None:
        """Take the trial point."""
        self.factors[:] = self.trial

    def size(self, rows: NDArray[np.floating]) -> float:
        """Σ_i n_i |w_i|² without the frozen ones, where n_i = Σ_j c_ij: what a ridge penalises."""
        return float((self.counts * (dot_rows(rows, rows) - len(self._frozen))).sum())


class Descent:
    """Descends F; ``step`` is "dynamic", "fixed" or "line-search", ``steps`` "separate" or "shared".

    A pass over the ratings gives F and one side's gradient together. With separate steps the trial of one side
    is judged by a pass in the other side's order, so that an accepted trial has already paid for the other
    side's next gradient: two passes an iteration.
    """

    def __init__(
        self,
        users: MovingSide,
        items: MovingSide,
        evaluate: Evaluate,
        step: str = "dynamic",
        steps: str = "separate",
    ) -> None:
        self.users, self.items, self._evaluate = users, items, evaluate
        self._step, self._shared = step, steps == "shared"

    def sweeps(self) -> Iterator[Sweep]:
        """Iterate for ever, or until the steps are too small to move anything."""
        self.objective = self._evaluate(self.users, self.users.factors, self.items.factors, self.users.gradient)
        self.users.set_slope()
        if self._shared:
            self.users.step = self.items.step = min(self.users.step, self.items.step)
        while self.users.step > SMALLEST_STEP or self.items.step > SMALLEST_STEP:
            moved = self._move_together() if self._shared else self._move_in_turn()
            yield Sweep(self.objective, accepted=moved)

    # --- separate steps -------------------------------------------------------------------------------------

    def _move_in_turn(self) -> bool:
        moved_users = self._move(self.users, self.items)
        moved_items = self._move(self.items, self.users)
        return moved_users or moved_items

    def _move(self, side: MovingSide, other: MovingSide) -> bool:
        """Try one step of ``side``; judged by a pass in the other side's order, which also gives its gradient."""
        if side.slope_is_old:
            self._evaluate(side, side.factors, other.factors, side.gradient)
            side.set_slope()
        while True:
            side.propose(side.step)
            objective = self._evaluate(other, other.factors, side.trial, other.trial_gradient)
            accepted = self._judge(objective, (side,))
            if accepted:
                self.objective = objective
                side.accept()
                other.gradient, other.trial_gradient = other.trial_gradient, other.gradient
                other.set_slope()
                side.slope_is_old = True
            if accepted or self._step != "line-search" or side.step <= SMALLEST_STEP:
                return accepted

    # --- one shared step for both sides at once -----------------------------------------------------------------

    def _move_together(self) -> bool:
        """Try one step of both sides."""
        users, items = self.users, self.items
        if items.slope_is_old:
            self._evaluate(items, items.factors, users.factors, items.gradient)
            items.set_slope()
        while True:
            users.propose(users.step)
            items.propose(users.step)
            objective = self._evaluate(users, users.trial, items.trial, users.trial_gradient)
            accepted = self._judge(objective, (users, items))
            if accepted:
                self.objective = objective
                users.accept()
                items.accept()
                users.gradient, users.trial_gradient = users.trial_gradient, users.gradient
                users.set_slope()
                items.slope_is_old = True
            if accepted or self._step != "line-search" or users.step <= SMALLEST_STEP:
                return accepted

    # --- step control ---------------------------------------------------------------------------------------

    def _judge(self, objective: float, sides: tuple[MovingSide, ...]) -> bool:
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
