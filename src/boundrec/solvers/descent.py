"""Full-batch gradient descent on two sides: when to take a step, and how long the next one is.

What is moved and what is minimised is for others to say: angles in :mod:`boundrec.solvers.angles`, the factors
themselves in :mod:`boundrec.rivals.gradient`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, Literal, TypeVar

import numpy as np

from boundrec.arrays import Floats, Reals
from boundrec.data.ratings import Csr
from boundrec.solvers import Learned, Sweep

Step = Literal["dynamic", "fixed", "line-search"]
Steps = Literal["separate", "shared"]

GROW, SHRINK = 1.1, 2.0
#: Armijo's condition: a step must bring this share of the decrease that the gradient promises.
SUFFICIENT = 1e-4
#: Below this share of the first a step changes nothing any more.
SMALLEST_STEP = 1e-30
#: An infinite step could be halved for ever.
LONGEST_STEP = float(np.finfo(float).max)


class MovingSide:
    """One side: its ratings, its factors with their gradient, its own step, and room for a trial."""

    #: Half of ∂F/∂(what is moved).
    slope: Floats

    def __init__(self, csr: Csr, factors: Reals, step: float) -> None:
        self.csr, self.factors, self.step = csr, factors, step
        self.trial, self.errors = np.empty_like(factors), np.empty(len(factors))
        self.gradient, self.trial_gradient = np.empty(factors.shape), np.empty(factors.shape)
        self.slope_is_old = True


S = TypeVar("S", bound=MovingSide)


class Descent(Generic[S]):
    """Descends F; ``step`` is "dynamic", "fixed" or "line-search", ``steps`` "separate" or "shared".

    A pass over the ratings gives F and one side's gradient together. With separate steps the trial of one side
    is judged by a pass in the other side's order, so that an accepted trial has already paid for the other
    side's next gradient: two passes an iteration.
    """

    def __init__(self, users: S, items: S, step: Step, steps: Steps) -> None:
        self.users, self.items = users, items
        self._step, self._shared = step, steps == "shared"

    def sweeps(self) -> Iterator[Sweep]:
        """Iterate for ever, or until the steps are too small to move anything."""
        self.objective = self._evaluate(self.users, self.users.factors, self.items.factors, self.users.gradient)
        self._set_slope(self.users)
        self._least = SMALLEST_STEP * max(self.users.step, self.items.step)  # how long a step is depends on the unit
        while self.users.step > self._least or self.items.step > self._least:
            moved = self._move_together() if self._shared else self._move_in_turn()
            yield Sweep(self.objective, accepted=moved)

    def result(self) -> Learned:
        """The factors of both sides, as they are now."""
        return Learned(self.users.factors.copy(), self.items.factors.copy())

    # --- what a descent provides ----------------------------------------------------------------------------

    def _evaluate(self, side: S, rows: Any, fixed: Any, gradient: Floats) -> float:
        """F at (rows, fixed), and half of ∂F/∂rows into ``gradient``."""
        raise NotImplementedError

    def _set_slope(self, side: S) -> None:
        """Bring a side's slope up to date with its gradient."""
        raise NotImplementedError

    def _propose(self, side: S, step: float) -> None:
        """The trial point of one side, ``step`` down its slope."""
        raise NotImplementedError

    def _accept(self, side: S) -> None:
        """Move a side to its trial point."""
        raise NotImplementedError

    # --- separate steps -------------------------------------------------------------------------------------

    def _move_in_turn(self) -> bool:
        moved_users = self._move(self.users, self.items)
        moved_items = self._move(self.items, self.users)
        return moved_users or moved_items

    def _move(self, side: S, other: S) -> bool:
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
            if accepted or self._step != "line-search" or side.step <= self._least:
                return accepted

    # --- one shared step: both sides at once ------------------------------------------------------------------

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
            if accepted or self._step != "line-search" or users.step <= self._least:
                return accepted

    # --- step control ---------------------------------------------------------------------------------------

    def _judge(self, objective: float, sides: tuple[S, ...]) -> bool:
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
            side.step = min(step * grow, LONGEST_STEP) if accepted else step / SHRINK
        return accepted
