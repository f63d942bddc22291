"""A bounded model in one file: what a new one has to bring along."""

import numpy as np

from boundrec.models.answers import dot_rows
from boundrec.models.bounded import BoundedModel, centred_sides
from boundrec.models.fit import StoppingRule
from boundrec.models.mbmf import start_rows
from boundrec.models.settings import RestSettings, number, setting
from boundrec.solvers import Learned, Sweep
from boundrec.solvers.exact import solve_rows


class Damped(RestSettings, BoundedModel):
    """Every row goes part of the way to its own minimum in the ball, which is convex: it stays inside."""

    share: float = setting(
        default=0.5,
        rule=number("a share above 0 and up to 1", lambda value: 0 < value <= 1),
        meaning="How much of the way a row goes in each sweep.",
    )

    def _solver(self, start, pool, rng, validation):
        users, items = centred_sides(start, self.dtype)
        for side in (users, items):
            side.factors = start_rows("sphere", side.radius, self.n_factors, rng).astype(self.dtype)
        return DampedAlternation(users, items, pool, self.share)

    def _slack(self):
        return 1.0

    def _stopping_rule(self):
        return StoppingRule(self.tol, self.patience, self.tol_mode)


class DampedAlternation:
    """Moves all items, then all users, for ever."""

    def __init__(self, users, items, pool, share):
        self.users, self.items, self.pool, self.share = users, items, pool, share

    def sweeps(self):
        while True:
            self.move(self.items, self.users)
            self.move(self.users, self.items)
            yield Sweep(self.objective())

    def move(self, side, other):
        best = solve_rows(side, other, self.pool, "ball", 0.0)
        side.factors = ((1 - self.share) * side.factors + self.share * best).astype(side.factors.dtype)

    def objective(self):
        csr = self.users.csr
        predicted = dot_rows(self.users.factors[csr.row_of_entry()], self.items.factors[csr.indices])
        errors = (csr.data - predicted) ** 2
        return float(np.sum(errors * csr.weights if csr.weights.size else errors))

    def result(self):
        return Learned(self.users.factors, self.items.factors)
