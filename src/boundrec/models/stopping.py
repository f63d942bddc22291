"""When a fit ends: once its objective has come to rest, or once ratings it is not trained on say it was at its best."""

from __future__ import annotations

import copy
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from boundrec.columns import short
from boundrec.ratings import IdIndex, Ratings

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

TolMode = Literal["relative", "absolute"]
#: An objective that has fallen to this share of its first value is as good as zero.
NOTHING = 1e-12


class Sweep(NamedTuple):
    """One iteration of an algorithm: where the objective stands, and whether anything moved (resolution A11)."""

    objective: float
    accepted: bool = True


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


class Validation:
    """Ratings to evaluate on: row numbers of their pairs, −1 where an id has no training rating, found once."""

    def __init__(self, ratings: Ratings, users: Codes, items: Codes) -> None:
        self.users, self.items = users[ratings.user_of_rating()], items[ratings.by_user.indices]
        self._ratings = ratings.by_user.data
        self._weights = ratings.by_user.weights if ratings.by_user.weights.size else None
        if not np.any((self.users >= 0) & (self.items >= 0)):
            raise ValueError(
                f"none of the {self._ratings.size} ratings to evaluate on (first user: {ratings.users.ids.item(0)!r}) "
                "has a user and an item with training ratings, so they cannot tell a good sweep from a bad one: "
                "pass an eval_set with such pairs, or another validation_fraction."
            )

    def error(self, predictions: Floats) -> float:
        """Root mean squared error; not finite where the predictions are not."""
        with np.errstate(over="ignore", invalid="ignore"):
            return float(np.sqrt(np.average((predictions - self._ratings) ** 2, weights=self._weights)))


class Progress:
    """What a fit goes back to when it ends: its last complete sweep or, where errors are given, its best one."""

    def __init__(self, n_iter_no_change: int | None) -> None:
        self._patience = n_iter_no_change
        self._smallest, self._waited = np.inf, 0
        self.errors: list[float] = []
        self.best_iter: int | None = None
        #: The model's state at the sweep that the fit would go back to now, and that sweep's number from 1.
        self.state: dict[str, Any] = {}
        self.sweep = self._n_sweeps = 0

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

    def add(self, state: dict[str, Any], error: float | None, moved: bool) -> None:
        """Take in one more complete sweep; without an error the last sweep is as good as any.

        A sweep that moved nothing has not failed to improve: it does not count (resolution A11).
        """
        self._n_sweeps += 1
        if error is not None:
            self.errors.append(error)
            if self.best_iter is not None and not error < self._smallest:
                self._waited += moved
                if self.goes_back:
                    return
            else:
                self.best_iter, self._waited = len(self.errors), 0
                self._smallest = error if np.isfinite(error) else np.inf
        self.state, self.sweep = state, self._n_sweeps


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


def generator(random_state: Any) -> np.random.Generator:
    """The generator that a ``random_state`` stands for."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31))
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        remedy = "give a whole number of at least 0, a NumPy generator, or None"
        raise ValueError(f"random_state={short(random_state)}: {remedy}.") from None


def trained_codes(column: Any, ids: IdIndex, seen: NDArray[np.bool_]) -> Codes:
    """Row numbers of ids, −1 for those without a training rating."""
    codes = ids.codes(column)
    return np.where((codes >= 0) & seen[codes], codes, -1)
