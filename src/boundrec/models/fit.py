"""The fit loop, once: run a solver until its objective has come to rest, or until ratings it is not trained on say so.

Progress, timing, the callback, Ctrl-C and the convergence warning are here and nowhere else.
"""

from __future__ import annotations

import copy
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from boundrec.arrays import Floats
from boundrec.data.columns import short
from boundrec.data.ratings import Pairs, Ratings
from boundrec.models.fitted import Course, Fitted
from boundrec.notes import Interrupted, warn
from boundrec.solvers import Learned, Solver, Sweep

TolMode = Literal["relative", "absolute"]
#: An objective that has fallen to this share of its first value is as good as zero.
NOTHING = 1e-12


# --- the loop -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Watch:
    """What a loop is told of the fit it serves.

    Parameters
    ----------
    name
        Of the model, for messages.
    max_iter
        Iterations at most.
    rule
        When the objective has come to rest.
    n_iter_no_change
        How many iterations the error may fail to fall; None for any number.
    error
        The error on ratings that are not trained on, after the sweep that is just complete; None without such.
    tell
        Hears after every sweep how the fit goes; True ends it.
    seeks_rest
        Whether being out of iterations is worth a warning; not where their number is part of the method.
    verbose
        Whether to print a line for every sweep.
    remedy
        What helps where the objective is no longer a number.
    """

    name: str
    max_iter: int
    rule: StoppingRule
    n_iter_no_change: int | None
    error: Callable[[], float] | None
    tell: Callable[[Course], bool]
    seeks_rest: bool = True
    verbose: bool = False
    remedy: str = "bring the ratings and their bounds nearer to 1"


class Outcome(NamedTuple):
    """What a run of a solver leaves: what was learnt, how it went, and whether nobody stopped it before its end."""

    learned: Learned
    course: Course
    to_the_end: bool


def run(solver: Solver, watch: Watch) -> Outcome:
    """Run a solver until it comes to rest, is out of iterations, or is told to stop."""
    best = BestSoFar(watch.n_iter_no_change)
    course = Course([], [], best.errors)
    began = time.perf_counter()
    try:
        for sweep in solver.sweeps():
            if not np.isfinite(sweep.objective):
                _say_not_finite(sweep.objective, best, watch)
                return Outcome(best.state, course, True)
            best.add(solver.result(), None if watch.error is None else watch.error(), moved=sweep.accepted)
            course = course.with_sweep(sweep, time.perf_counter() - began, best.best_iter)
            if watch.verbose:
                _print_sweep(course, watch.name)
            if watch.tell(course):
                return Outcome(best.state, course, False)
            if watch.rule.converged(sweep) or best.exhausted:
                return Outcome(best.state, course, True)
            if len(course.objectives) >= watch.max_iter:
                break
        else:  # the algorithm has nothing left to do
            return Outcome(best.state, course, True)
    except KeyboardInterrupt:
        if best.state is None:
            raise
        warn(f"interrupted: the model is that of sweep {best.sweep}.", Interrupted)
        return Outcome(best.state, course, False)
    if watch.rule.still_falling and watch.seeks_rest and not best.past_best:
        warn(
            f"{watch.name} stopped at max_iter={watch.max_iter} while its objective still fell by "
            f"{watch.rule.decrease_in_words} an iteration: raise max_iter for a closer fit, or tol if this is close "
            "enough.",
            ConvergenceWarning,
        )
    return Outcome(best.state, course, True)


def _say_not_finite(objective: float, best: BestSoFar, watch: Watch) -> None:
    """Warn that a sweep went wrong and the model is an earlier one; an error where there is none."""
    flaw = f"the objective of {watch.name} is {objective} after sweep {best.n_sweeps + 1}"
    if best.state is None:
        raise ValueError(f"{flaw}: {watch.remedy}.")
    warn(f"{flaw}: the model is that of sweep {best.sweep}; {watch.remedy}.", ConvergenceWarning)


def _print_sweep(course: Course, name: str) -> None:
    error = f"error {course.eval_errors[-1]:.6g}, " if course.eval_errors else ""
    sweep, seconds = len(course.objectives), course.seconds[-1]
    print(f"{name} sweep {sweep}: objective {course.objectives[-1]:.6g}, {error}{seconds:.1f} s", file=sys.stderr)


# --- when it ends -------------------------------------------------------------------------------------------


class StoppingRule:
    """The paper's rule: the decrease is below ``tol`` for ``patience`` accepted iterations in a row.

    The decrease is relative to F, whatever the unit of the ratings, or absolute as printed in the paper (resolution
    A10). Where F ``may_rise``, a rise by more than ``tol`` is no rest.
    """

    def __init__(self, tol: float, patience: int, mode: TolMode = "relative", may_rise: bool = False) -> None:
        self._tol, self._patience, self._relative = float(tol), patience, mode == "relative"
        self._lowest = -self._tol if may_rise else -np.inf
        self._previous, self._zero, self._first = np.inf, 0.0, 0.0
        self._calm = 0
        self.decrease = np.inf

    def converged(self, sweep: Sweep) -> bool:
        """Take in one more sweep; True once the objective has come to rest."""
        if sweep.accepted:
            self.decrease = self._previous - sweep.objective
            if not np.isfinite(self._previous):
                self._first, self._zero = abs(sweep.objective), NOTHING * abs(sweep.objective) or 1.0
            elif self._relative:
                self.decrease /= max(abs(self._previous), self._zero)
            self._calm = self._calm + 1 if self._lowest <= self.decrease < self._tol else 0
            self._previous = sweep.objective
        return self._calm >= self._patience

    @property
    def still_falling(self) -> bool:
        """Whether the last decrease was so far above the tolerance that stopping now is worth a warning.

        Not where the objective itself is within the tolerance of nothing, beside where it began.
        """
        nearly_nothing = self._relative and abs(self._previous) <= self._tol * self._first
        return np.isfinite(self.decrease) and self.decrease > 1000 * self._tol and not nearly_nothing

    @property
    def decrease_in_words(self) -> str:
        """The last decrease with its unit: a share of the objective, or the objective's own."""
        return f"{100 * self.decrease:.2g} %" if self._relative else f"{self.decrease:.2g}"


class BestSoFar:
    """What a fit goes back to when it ends: its last complete sweep or, where errors are given, its best one."""

    def __init__(self, n_iter_no_change: int | None) -> None:
        self._patience = n_iter_no_change
        self._smallest, self._waited = np.inf, 0
        self.errors: list[float] = []
        self.best_iter: int | None = None
        #: The model's state at the sweep that the fit would go back to now, and that sweep's number from 1.
        self.state: Any = None
        self.sweep = self.n_sweeps = 0

    @property
    def exhausted(self) -> bool:
        """Whether the error has not fallen for too many sweeps in a row."""
        return self._patience is not None and self._waited >= self._patience

    @property
    def goes_back(self) -> bool:
        """Whether the fit goes back to its best sweep, not its last one."""
        return self._patience is not None and self.best_iter is not None

    @property
    def past_best(self) -> bool:
        """Whether errors were given and the last one was not the smallest."""
        return self.best_iter is not None and self.best_iter < len(self.errors)

    def add(self, state: Any, error: float | None, moved: bool) -> None:
        """Take in one more complete sweep; without an error the last sweep is as good as any.

        A sweep that moved nothing has not failed to improve: it does not count (resolution A11).
        """
        self.n_sweeps += 1
        if error is not None:
            self.errors.append(error)
            if self.best_iter is not None and not error < self._smallest:
                self._waited += moved
                if self.goes_back:
                    return
            else:
                self.best_iter, self._waited = len(self.errors), 0
                self._smallest = error if np.isfinite(error) else np.inf
        self.state, self.sweep = state, self.n_sweeps


# --- ratings to evaluate on ----------------------------------------------------------------------------------


class Validation:
    """Ratings to evaluate on: row numbers of their pairs, −1 where an id has no training rating, found once."""

    def __init__(self, ratings: Ratings, fitted: Fitted) -> None:
        users, items = fitted.users.codes(ratings.users.ids), fitted.items.codes(ratings.items.ids)
        self.pairs = Pairs(users[ratings.user_of_rating()], items[ratings.by_user.indices], ratings.ends)
        self._ratings = ratings.by_user.data
        self._weights = ratings.by_user.weights if ratings.by_user.weights.size else None
        if self.pairs.unknown().all():
            raise ValueError(
                f"none of the {self._ratings.size} ratings to evaluate on (first user: {ratings.users.ids.item(0)!r}) "
                "has a user and an item with training ratings, so they cannot tell how good a model is: "
                "pass others, as an eval_set or to score, or another validation_fraction."
            )

    def error(self, predictions: Floats) -> float:
        """Root mean squared error; not finite where the predictions are not."""
        with np.errstate(over="ignore", invalid="ignore"):
            return float(np.sqrt(np.average((predictions - self._ratings) ** 2, weights=self._weights)))


def set_aside(ratings: Ratings, fraction: float, random_state: Any) -> tuple[Ratings, Ratings]:
    """A random share of the ratings to evaluate on, and the rest to train on; every id stays in both.

    The seed of the fit decides which ones, without moving the fit's own stream: training on the rest is what it would
    be had the rest been all there is.
    """
    n = ratings.n_ratings
    if n < 2:
        raise ValueError(f"validation_fraction={fraction!r} of {n} rating leaves nothing to train on: give more.")
    count = min(max(round(fraction * n), 1), n - 1)
    seed = generator(copy.deepcopy(random_state)).integers(2**63, size=2)
    chosen = np.zeros(n, bool)
    chosen[np.random.default_rng(seed).choice(n, count, replace=False)] = True
    try:
        return ratings.keep(~chosen), ratings.keep(chosen)
    except ValueError as error:
        raise ValueError(f"validation_fraction={fraction!r}: {error}") from None


# --- randomness ---------------------------------------------------------------------------------------------


def generator(random_state: Any) -> np.random.Generator:
    """The generator that a ``random_state`` stands for."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31))
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        remedy = "give a whole number of at least 0, a NumPy generator, or None"
        raise ValueError(f"random_state={short(random_state)}: {remedy}.") from None
