"""Magnitude Bounded Matrix Factorisation: the paper's model, its future work, and an exact solver. START HERE.

    prediction   v̂_ij = centre_ij + w_i·h_j
    constraint   |w_i| = r_i, |h_j| = s_j  ("sphere": the paper)  or  ≤  ("ball")
    guarantee    |v̂_ij − centre_ij| ≤ r_i s_j for every pair, seen or unseen (Cauchy-Schwarz)

`BoundedModel.fit` reads as the method does: ranges first (:mod:`boundrec.ranges`), then centred ratings, then a solver
that only ever sees centred ratings and magnitudes. `MBMF` has two of them: :mod:`boundrec.solvers.exact`, which solves
row after row, and the paper's own, :mod:`boundrec.solvers.angles`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Literal, Self

import numpy as np

from boundrec.arrays import Floats
from boundrec.data.ratings import Ratings
from boundrec.models import answers
from boundrec.models.blend import KnowsChoices
from boundrec.models.bounded import centred_sides
from boundrec.models.estimator import with_factors
from boundrec.models.fit import Outcome, StoppingRule, Validation, generator
from boundrec.models.fitted import Fitted, learned
from boundrec.models.new_ratings import ExactRows
from boundrec.models.settings import (
    Auto,
    RestSettings,
    check_flag_or_auto,
    count,
    is_auto,
    not_negative,
    one_of,
    positive,
    setting,
)
from boundrec.ranges import Form, Ranges
from boundrec.solvers import Side, Solver
from boundrec.solvers.angles import AngleDescent, AngleSide
from boundrec.solvers.descent import Step, Steps
from boundrec.solvers.exact import (
    HELD_BY_ITEMS,
    HELD_BY_USERS,
    Alternation,
    Constraint,
    stack,
    start_with_biases,
)
from boundrec.solvers.threads import RowPool

SolverName = Literal["exact", "angles"]
Init = Literal["auto", "angles", "angles-unit", "angles-quarter", "sphere", "orthant"]

#: Random angles are uniform from 0 to this; only those of "angles" reach entries below zero.
LARGEST_ANGLE = {"angles": np.pi, "angles-unit": 1.0, "angles-quarter": np.pi / 2}
#: How far past the range the ball may reach before predictions are led back, unless told otherwise.
SLACK = 1.5


class MBMF(RestSettings, KnowsChoices):
    """Magnitude Bounded Matrix Factorisation: every prediction lies in a range of its own.

    Minimises Σ_observed (v_ij − centre_ij − w_i·h_j)² subject to |w_i| = r_i and |h_j| = s_j (or ≤).

    Examples
    --------
    >>> from boundrec import MBMF
    >>> X = [("ann", "tea"), ("ann", "rum"), ("bob", "tea"), ("bob", "gin"), ("eve", "rum"), ("eve", "gin")]
    >>> model = MBMF(n_factors=2, bounds=(1, 5), random_state=0).fit(X, [5, 1, 4, 5, 2, 1])
    >>> prediction, lower, upper = model.predict([("ann", "gin")], return_range=True)
    >>> bool(lower[0] <= prediction[0] <= upper[0])
    True
    """

    constraint: Constraint = setting(
        default="ball", rule=one_of(Constraint), meaning='``"ball"`` (≤) or ``"sphere"`` (=, the paper).'
    )
    solver: SolverName = setting(
        default="exact",
        rule=one_of(SolverName),
        meaning='``"exact"`` alternates between users and items, each row solved to its global minimum; '
        '``"angles"`` is the paper\'s Algorithm 1 (sphere only).',
    )
    init: Init = setting(
        default="auto",
        rule=one_of(Init),
        meaning='Where the factors start. From the paper\'s "random angle matrices", of which it gives no range: '
        '``"angles"`` uniform on [0, π], the last on [0, 2π); ``"angles-unit"`` uniform on (0, 1), what a plain '
        '``rand`` gives; ``"angles-quarter"`` uniform on (0, π/2). The last two start with non-negative factors. From '
        'uniform directions: ``"sphere"`` any, ``"orthant"`` non-negative ones. ``"auto"``: "angles" for the angle '
        'solver; "orthant" for form n and "sphere" for form c with the exact one.',
    )
    step: Step = setting(
        default="dynamic",
        rule=one_of(Step),
        meaning='The angle solver\'s step: ``"dynamic"`` (×1.1 on success, ÷2 and roll back otherwise), ``"fixed"`` '
        'or ``"line-search"``.',
    )
    steps: Steps = setting(
        default="separate",
        rule=one_of(Steps),
        meaning='A ``"separate"`` step for users and items, or one ``"shared"``.',
    )
    initial_step: float = setting(default=0.1, rule=positive(), meaning="The angle solver's first step.")
    biases: bool | Auto = setting(
        default="auto",
        rule=check_flag_or_auto,
        meaning="Give every user and every item a bias of its own, inside the bound: two more columns of the "
        'factors, of which each side holds one fixed. For the ball only, where ``"auto"`` has them.',
    )
    ridge: float | Auto = setting(
        default="auto",
        rule=not_negative(', or "auto"', or_auto=True),
        meaning="Weight of Σ n_i|w_i|² + Σ n_j|h_j|² beside the squared error, in units of the mean half-width of "
        'the ranges. For the ball only, where ``"auto"`` takes the less the more ratings a row has '
        "(`ridge_for`).",
    )
    n_restarts: int = setting(
        default=1,
        rule=count(),
        meaning="Fit from so many starts and average them into one model, with as many times the factors and the "
        "same guarantee. Each start goes back to its own best iteration; ``eval_errors_`` are those of the "
        "last one.",
    )

    STORED: ClassVar[dict[str, str]] = {
        **KnowsChoices.STORED,
        "user_biases": "optional floats users restarts",
        "item_biases": "optional floats items restarts",
        "ridge": "amount",
    }

    @classmethod
    def as_in_paper(cls, n_factors: int = 10, *, form: Form = "n", **settings: Any) -> Self:
        """MBMF with the paper's settings: sphere, descent on angles, two dynamic steps from 0.1, 500 iterations.

        The paper does not say where its random angles lie. They start from random non-negative directions here, the
        reading that gives most of its figures and remarks again ("The paper's experiments, run again" has the study);
        other answers are settings: ``init``, ``steps``, ``history_share``, ``on_contradiction`` and ``tol_mode``.
        """
        paper = {
            "constraint": "sphere",
            "solver": "angles",
            "init": "orthant",
            "magnitudes": "paper",
            "biases": False,
            "ridge": 0.0,
            "slack": 1.0,
            "max_iter": 500,
        }
        return cls(n_factors, form=form, **{**paper, **settings})

    # --- the solver, and where it starts ----------------------------------------------------------------------

    def _solver(self, start: Fitted, pool: RowPool, rng: np.random.Generator, validation: Validation | None) -> Solver:
        ranges, dtype = answers.bounded(start), np.dtype(self.dtype)
        users, items = centred_sides(start, dtype)
        mean = mean_share(start, users) / ranges.slack if self._with_biases() else 0.0
        users, items = self.starting_sides(users, items, ranges, mean, rng)
        if self.solver == "angles":
            turning = AngleSide(users, float(self.initial_step)), AngleSide(items, float(self.initial_step))
            return AngleDescent(*turning, pool, self.step, self.steps)
        return Alternation(users, items, pool, self.constraint, start.found["ridge"])

    def starting_sides(
        self, users: Side, items: Side, ranges: Ranges, mean: float, rng: np.random.Generator
    ) -> tuple[Side, Side]:
        """Both sides with the factors they start from; ``mean`` is that of the centred ratings, in units of r_i s_j."""
        dtype = np.dtype(self.dtype)
        users.factors = self._start(users.radius, rng).astype(dtype)
        items.factors = self._start(items.radius, rng).astype(dtype)
        if self.form == "n" and ranges.frame.offset == ranges.scale.bounds(self._declared())[1]:
            items.factors *= -1  # ratings below their only bound: products start below zero, too
        if not self._with_biases():
            return users, items
        return (
            start_with_biases(users, HELD_BY_USERS, mean, self.n_factors, rng),
            start_with_biases(items, HELD_BY_ITEMS, mean, self.n_factors, rng),
        )

    def _start(self, radius: Floats, rng: np.random.Generator) -> Floats:
        """Random factors on their spheres (resolution A8)."""
        init = self.init
        if init == "auto":
            init = "angles" if self.solver == "angles" else "orthant" if self.form == "n" else "sphere"
        return start_rows(init, radius, self.n_factors, rng)

    def _generators(self) -> list[np.random.Generator]:
        rng = generator(self.random_state)
        return [rng] if self.n_restarts == 1 else rng.spawn(self.n_restarts)

    def _together(self, start: Fitted, outcomes: list[Outcome], at_the_end: bool) -> Fitted:
        """The model of one start, or the average of several, with the same guarantee."""
        n_shared = 2 * self._with_biases()
        both = [one.learned.users for one in outcomes], [one.learned.items for one in outcomes]
        users, items = (stack(samples, n_shared) for samples in both)
        fitted = with_factors(start, replace(outcomes[-1].learned, users=users, items=items), outcomes[-1].course)
        if not self._with_biases():
            return fitted
        b, c = (
            np.column_stack([rows[:, bias] for rows in samples])
            for samples, bias in zip(both, (HELD_BY_ITEMS, HELD_BY_USERS), strict=True)
        )
        users_, items_ = replace(fitted.users, biases=b), replace(fitted.items, biases=c)
        return replace(fitted, users=users_, items=items_, n_bias_columns=n_shared)

    # --- what "auto" stands for -------------------------------------------------------------------------------

    def _with_biases(self) -> bool:
        return self.constraint == "ball" if self.biases == "auto" else bool(self.biases)

    def _in_ball(self) -> bool:
        return self.constraint == "ball"

    def _slack(self) -> float:
        if is_auto(self.slack):
            return SLACK if self.constraint == "ball" else 1.0
        return float(self.slack)

    def _chosen(self, ratings: Ratings, ranges: Ranges) -> dict[str, float]:
        """The ridge in the unit of the squared error: on the ball what serves accuracy, on the sphere none."""
        n_rows = ratings.n_users + ratings.n_items
        return {"ridge": self.ridge_amount(ratings.n_ratings, n_rows) * float(ranges.radius(ratings.pairs()).mean())}

    def ridge_amount(self, n_ratings: int, n_rows: int) -> float:
        """What "auto" stands for with so many ratings and as many users and items together, or as given."""
        if not is_auto(self.ridge):
            return float(self.ridge)
        return ridge_for(n_ratings, n_rows) if self.constraint == "ball" else 0.0

    def _default_max_iter(self) -> int:
        return 500 if self.solver == "angles" else 20

    def _stopping_rule(self) -> StoppingRule:
        may_rise = self.solver == "angles" and self.step == "fixed"
        return StoppingRule(self.tol, self.patience, self.tol_mode, may_rise)

    def _row_problem(self) -> ExactRows:
        return ExactRows(self.constraint, self.fitted_.found["ridge"], self.n_factors)

    def check_settings(self) -> None:
        """Refuse settings that make no sense, with a sentence each."""
        super().check_settings()
        plain = self.biases in (False, "auto") and self.ridge in (0, "auto") and self.slack in (1, "auto")
        if self.constraint == "sphere" and not plain:
            raise ValueError(
                f"biases={self.biases!r}, ridge={self.ridge!r}, slack={self.slack!r}: on the sphere norms are fixed "
                'and these have no place; pass constraint="ball", or leave them "auto".'
            )
        if self.solver == "angles" and self.constraint == "ball":
            raise ValueError(
                'solver="angles" moves on spheres: pass constraint="sphere", or solver="exact" for the ball.'
            )

    # --- what was learnt ------------------------------------------------------------------------------------

    user_biases_ = learned(
        lambda fitted: fitted.users.biases,
        "With biases, those of each user, one column for each restart; None without.",
    )
    item_biases_ = learned(
        lambda fitted: fitted.items.biases,
        "With biases, those of each item, one column for each restart; None without.",
    )
    ridge_ = learned(lambda fitted: fitted.found["ridge"], "The ridge in the unit of the squared error.")


def mean_share(start: Fitted, users: Side) -> float:
    """The mean of the centred ratings that count, each in units of its own range."""
    assert start.ratings is not None
    radius, counts = answers.bounded(start).radius(start.ratings.pairs()), users.csr.that_count()
    return float(np.mean(users.csr.data[counts] / radius[counts]))


def ridge_for(n_ratings: int, n_rows: int) -> float:
    """A ridge for ratings of any density, by the number of ratings that a row has, on average over users and items.

    The penalty of a row is multiplied by that number, which is more than it needs where there are many: found by
    measuring on four data sets, see "Which model should I use?".
    """
    typical = 2.0 * n_ratings / n_rows
    return float(np.clip(0.41 / np.sqrt(typical), 0.02, 0.06))


def start_rows(init: Init, radius: Floats, n_factors: int, rng: np.random.Generator) -> Floats:
    """Random rows of the given norms: uniform angles (most of a row in its first entries), or directions."""
    if init in LARGEST_ANGLE:
        from boundrec.solvers.kernels import spherical_to_cartesian

        phi = rng.uniform(0.0, LARGEST_ANGLE[init], (len(radius), n_factors - 1))
        if init == "angles":
            phi[:, -1] *= 2  # the whole circle
        rows = np.empty((len(radius), n_factors))
        spherical_to_cartesian(phi, radius, np.empty((*phi.shape, 2)), rows, 0, len(radius))
        return rows
    rows = rng.standard_normal((len(radius), n_factors))
    if init == "orthant":
        rows = np.abs(rows)
    return np.asarray(rows * (radius / np.linalg.norm(rows, axis=1))[:, None])
