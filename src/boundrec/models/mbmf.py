"""Magnitude Bounded Matrix Factorisation: the paper's model, its future work, and an exact solver. START HERE.

    prediction   v̂_ij = centre_ij + w_i·h_j
    constraint   |w_i| = r_i, |h_j| = s_j  ("sphere": the paper)  or  ≤  ("ball")
    guarantee    |v̂_ij − centre_ij| ≤ r_i s_j for every pair, seen or unseen (Cauchy-Schwarz)

`MBMF.fit` reads as the method does: ranges first (:mod:`boundrec.ranges`), then centred ratings, then one of two
solvers that only ever see centred ratings and magnitudes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from boundrec.columns import short
from boundrec.models.angles import AngleDescent, AngleSide
from boundrec.models.base import Callback, Codes, Floats, Side
from boundrec.models.bounded import BoundedModel
from boundrec.models.descent import Step, Steps
from boundrec.models.exact import HELD_BY_ITEMS, HELD_BY_USERS, alternate, stack, start_with_biases
from boundrec.models.new_rows import solve_exactly, start_exactly
from boundrec.models.predicting import Unknown
from boundrec.models.settings import Auto, BoundsSetting, FloatType, Seed, check_count, is_auto, is_number
from boundrec.models.slack import STEEPEST
from boundrec.models.stopping import Sweep, TolMode
from boundrec.parallel import RowPool
from boundrec.ranges import Contradiction, Form, Magnitudes, check_bounds
from boundrec.ratings import Csr, Duplicates, Ratings

Constraint = Literal["ball", "sphere"]
Solver = Literal["exact", "angles"]
Init = Literal["auto", "angles", "sphere", "orthant"]

#: How far past the range the ball may reach before predictions are led back, unless told otherwise.
SLACK = 1.5


class MBMF(BoundedModel):
    """Magnitude Bounded Matrix Factorisation: every prediction lies in a range of its own.

    Minimises Σ_observed (v_ij − centre_ij − w_i·h_j)² subject to |w_i| = r_i and |h_j| = s_j (or ≤).

    Parameters
    ----------
    n_factors
        K, the length of the factors; at least 2.
    bounds
        What every rating is known to obey: ``(lo, hi)``, ``(lo, None)``, ``(None, hi)`` or None. A promise:
        ratings outside are refused, and form c keeps every prediction inside.
    form
        ``"c"`` centres the ranges, so every declared end is guarded; ``"n"`` works on non-negative data and guards
        only the upper end of a range with two.
    magnitudes
        ``"auto"``: from history when it is given, else from the bounds (from the training ratings if only one
        end is bounded). ``"range"``: one range for all. ``"history"``: from past ratings, or from the training
        ratings when none are given. ``"paper"``: as "auto", but history may pass the declared bounds, as
        published. Or a pair of mappings (user id -> magnitude, item id -> magnitude).
    history_share, history_count
        How much history makes a user's magnitude its own: a share ρ of all items, Eq. (43); or, if
        ``history_count`` is given, the weight n/(n + history_count).
    constraint
        ``"ball"`` (≤) or ``"sphere"`` (=, the paper).
    solver
        ``"exact"`` alternates between users and items, each row solved to its global minimum; ``"angles"`` is
        the paper's Algorithm 1 (sphere only).
    init
        Where the factors start: ``"angles"`` uniform angles as in the paper, ``"sphere"`` uniform directions,
        ``"orthant"`` uniform non-negative directions. ``"auto"``: "angles" for the angle solver; "orthant" for
        form n and "sphere" for form c with the exact one.
    step, steps, initial_step
        The angle solver's step: ``"dynamic"`` (×1.1 on success, ÷2 and roll back otherwise), ``"fixed"`` or
        ``"line-search"``; a ``"separate"`` one for users and items or one ``"shared"``.
    on_unknown
        What pairs with an id that has no training rating get: the known side's ``"mean"``, ``"nan"``, or an error
        (``"raise"``).
    on_contradiction
        What happens to ratings outside their own range: ``"keep"`` with a warning, ``"widen"`` the magnitudes,
        ``"drop"`` the ratings, ``"raise"``.
    duplicates
        What happens to pairs that come more than once: ``"raise"``, ``"last"``, ``"mean"``.
    biases
        Give every user and every item a bias of its own, inside the bound: two more columns of the factors, of which
        each side holds one fixed. For the ball only, where ``"auto"`` has them.
    ridge
        Weight of Σ n_i|w_i|² + Σ n_j|h_j|² beside the squared error, in units of the mean half-width of the ranges.
        For the ball only, where ``"auto"`` takes the less the more ratings a row has (`ridge_for`).
    slack
        τ ≥ 1: the fit may use centre ± τ·r·s, and a strictly increasing map leads predictions back into the range,
        without the ties that clipping makes. For the ball only, where ``"auto"`` is 1.5.
    n_restarts
        Fit from so many starts and average them into one model, with as many times the factors and the same
        guarantee.
    validation_fraction, n_iter_no_change
        Early stopping, off by default: a random share of the ratings is set aside and not trained on; once the error
        on it has not fallen for so many iterations in a row the fit stops, and the model is that of the best one.
        ``n_iter_no_change=None`` only records the errors. An ``eval_set`` given to ``fit`` serves instead of a share.
    max_iter, tol, patience, tol_mode
        At most so many iterations (None: 500 for the angle solver, 20 sweeps for the exact one); stop earlier when
        the objective's ``"relative"`` (or ``"absolute"``) decrease is below ``tol`` for ``patience`` in a row.
    dtype
        ``"float64"`` or ``"float32"``, for the stored factors and centred ratings; sums are in float64.
    random_state
        Seed of the start.
    n_jobs
        Threads; None for every core. The result has the same bits for any number.
    verbose
        1 prints a line for every sweep to stderr.

    Attributes
    ----------
    user_factors_, item_factors_
        W and H, one row for each user and each item.
    user_magnitudes_, item_magnitudes_
        r and s.
    user_biases_, item_biases_
        With biases, those of each user and item, one column for each restart; None without.
    ridge_
        The ridge in the unit of the squared error.
    user_ids_, item_ids_
        The ids behind the rows, as ``.ids``.
    feature_names_in_
        The names of the two columns of the frame that the model was fitted on; only there after such a fit.
    objectives_, seconds_, n_iter_, n_rejected_
        The objective and the time after each iteration, how many there were, and how many moved nothing.
    eval_errors_, best_iter_
        The error (RMSE) on the ratings set aside, or on the ``eval_set``, after each iteration, and where it was least,
        counted from 1; empty and None where there is nothing to evaluate on. Each restart goes back to its own
        best iteration; these are those of the last one.
    infeasible_share_
        Share of the training ratings that lay outside their own range, before ``on_contradiction`` saw to them.

    Examples
    --------
    >>> from boundrec import MBMF
    >>> X = [("ann", "tea"), ("ann", "rum"), ("bob", "tea"), ("bob", "gin"), ("eve", "rum"), ("eve", "gin")]
    >>> model = MBMF(n_factors=2, bounds=(1, 5), random_state=0).fit(X, [5, 1, 4, 5, 2, 1])
    >>> prediction, lower, upper = model.predict([("ann", "gin")], return_range=True)
    >>> bool(lower[0] <= prediction[0] <= upper[0])
    True
    """

    CHOICES: ClassVar[dict[str, tuple[str, ...]]] = {
        **BoundedModel.CHOICES,
        "constraint": get_args(Constraint),
        "solver": get_args(Solver),
        "init": get_args(Init),
        "step": get_args(Step),
        "steps": get_args(Steps),
        "tol_mode": get_args(TolMode),
    }
    STATE: ClassVar[dict[str, str]] = {
        **BoundedModel.STATE,
        "user_biases_": "optional floats users restarts",
        "item_biases_": "optional floats items restarts",
        "ridge_": "amount",
    }

    def __init__(
        self,
        n_factors: int = 20,
        *,
        bounds: BoundsSetting = None,
        form: Form = "c",
        magnitudes: Magnitudes = "auto",
        history_share: float = 0.1,
        history_count: float | None = None,
        constraint: Constraint = "ball",
        solver: Solver = "exact",
        init: Init = "auto",
        step: Step = "dynamic",
        steps: Steps = "separate",
        initial_step: float = 0.1,
        on_unknown: Unknown = "mean",
        on_contradiction: Contradiction = "keep",
        duplicates: Duplicates = "raise",
        biases: bool | Auto = "auto",
        ridge: float | Auto = "auto",
        slack: float | Auto = "auto",
        n_restarts: int = 1,
        validation_fraction: float | None = None,
        n_iter_no_change: int | None = 5,
        max_iter: int | None = None,
        tol: float = 1e-5,
        patience: int = 10,
        tol_mode: TolMode = "relative",
        dtype: FloatType = "float64",
        random_state: Seed = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_factors = n_factors
        self.bounds = bounds
        self.form = form
        self.magnitudes = magnitudes
        self.history_share = history_share
        self.history_count = history_count
        self.constraint = constraint
        self.solver = solver
        self.init = init
        self.step = step
        self.steps = steps
        self.initial_step = initial_step
        self.on_unknown = on_unknown
        self.on_contradiction = on_contradiction
        self.duplicates = duplicates
        self.biases = biases
        self.ridge = ridge
        self.slack = slack
        self.n_restarts = n_restarts
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.max_iter = max_iter
        self.tol = tol
        self.patience = patience
        self.tol_mode = tol_mode
        self.dtype = dtype
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @classmethod
    def as_in_paper(cls, n_factors: int = 10, *, form: Form = "n", **settings: Any) -> Self:
        """MBMF with the paper's settings: sphere, random angles, two dynamic steps from 0.1, 500 iterations."""
        paper = {
            "constraint": "sphere",
            "solver": "angles",
            "init": "angles",
            "magnitudes": "paper",
            "biases": False,
            "ridge": 0.0,
            "slack": 1.0,
            "max_iter": 500,
        }
        return cls(n_factors, form=form, **{**paper, **settings})

    def _run(self, ratings: Ratings, rng: np.random.Generator, callback: Callback | None) -> bool:
        """Fit once, or average several restarts into one model with the same guarantee."""
        self._resolve(ratings)
        users, items, go_on = [], [], True
        for generator in [rng] if self.n_restarts == 1 else rng.spawn(self.n_restarts):
            go_on = super()._run(ratings, generator, callback)
            users.append(self.user_factors_)
            items.append(self.item_factors_)
            if not go_on:
                break
        self.user_factors_, self.item_factors_ = (stack(samples, 2 * self._with_biases()) for samples in (users, items))
        self.user_biases_ = self.item_biases_ = None
        if self._with_biases():
            self.user_biases_ = np.column_stack([rows[:, HELD_BY_ITEMS] for rows in users])
            self.item_biases_ = np.column_stack([rows[:, HELD_BY_USERS] for rows in items])
        return go_on

    def _with_biases(self) -> bool:
        return self.constraint == "ball" if self.biases == "auto" else bool(self.biases)

    def _resolve(self, ratings: Ratings) -> None:
        """What "auto" stands for: on the ball what serves accuracy, on the sphere the paper's model."""
        ball = self.constraint == "ball"
        self.slack_ = (SLACK if ball else 1.0) if self.slack == "auto" else float(self.slack)
        ridge = (ridge_for(ratings) if ball else 0.0) if self.ridge == "auto" else float(self.ridge)
        products = self._ranges.product(ratings.user_of_rating(), ratings.by_user.indices)
        self.ridge_ = ridge * float(products.mean())

    def _start_rows(self, kind: str, magnitudes: Floats) -> dict[str, NDArray[np.floating]]:
        return start_exactly(self, kind, magnitudes)

    def _solve_rows(self, kind: str, rows: Codes, csr: Csr) -> None:
        solve_exactly(self, kind, rows, csr)

    def _n_bias_columns(self) -> int:
        return 0 if self.user_biases_ is None else 2

    def _default_max_iter(self) -> int:
        return 500 if self.solver == "angles" else 20

    def _may_rise(self) -> bool:
        return self.solver == "angles" and self.step == "fixed"

    def _sweeps(self, ratings: Ratings, pool: RowPool, rng: np.random.Generator) -> Iterator[Sweep]:
        ranges, dtype = self._ranges, np.dtype(self.dtype)
        by_user, by_item = self._centred(ratings, dtype)
        room = np.sqrt(self.slack_)
        self.user_factors_ = self._start(room * ranges.user, rng).astype(dtype)
        self.item_factors_ = self._start(room * ranges.item, rng).astype(dtype)
        if self.form == "n" and ranges.frame.offset == check_bounds(self.bounds)[1]:
            self.item_factors_ *= -1  # ratings below their only bound: products start below zero, too
        users = Side(by_user, room * ranges.user, self.user_factors_)
        items = Side(by_item, room * ranges.item, self.item_factors_)
        if self.solver == "angles":
            step = float(self.initial_step)
            return AngleDescent(AngleSide(users, step), AngleSide(items, step), pool, self.step, self.steps).sweeps()
        products = ranges.product(ratings.user_of_rating(), by_user.indices)
        if self._with_biases():
            mean = float(np.mean(by_user.data / products)) / self.slack_
            users = start_with_biases(users, HELD_BY_USERS, mean, self.n_factors, rng)
            items = start_with_biases(items, HELD_BY_ITEMS, mean, self.n_factors, rng)
            self.user_factors_, self.item_factors_ = users.factors, items.factors
        return alternate(users, items, pool, self.constraint, self.ridge_)

    def _start(self, radius: Floats, rng: np.random.Generator) -> Floats:
        """Random factors on their spheres (resolution A8)."""
        init = self.init
        if init == "auto":
            init = "angles" if self.solver == "angles" else "orthant" if self.form == "n" else "sphere"
        return start_rows(init, radius, self.n_factors, rng)

    # --- settings -------------------------------------------------------------------------------------------

    def _check_settings(self) -> None:
        """Refuse settings that make no sense, with a sentence each."""
        super()._check_settings()
        if not is_number(self.initial_step) or not 0 < self.initial_step < np.inf:
            raise ValueError(f"initial_step={short(self.initial_step)}: give a positive number.")
        if not isinstance(self.biases, (str, int, np.bool_)) or self.biases not in (True, False, "auto"):
            raise ValueError(f'biases={short(self.biases)}: give True, False or "auto".')
        if not is_auto(self.slack) and not (is_number(self.slack) and 1 <= self.slack < STEEPEST):
            raise ValueError(
                f'slack={short(self.slack)}: give a number of at least 1 and below {STEEPEST:g}, or "auto".'
            )
        if not is_auto(self.ridge) and not (is_number(self.ridge) and 0 <= self.ridge < np.inf):
            raise ValueError(f'ridge={short(self.ridge)}: give a number of at least 0, or "auto".')
        check_count("n_restarts", self.n_restarts, 1)
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


def ridge_for(ratings: Ratings) -> float:
    """A ridge for ratings of any density, by the number of ratings that a row has, on average over users and items.

    The penalty of a row is multiplied by that number, which is more than it needs where there are many: found by
    measuring on four data sets, see "Which model should I use?".
    """
    typical = 2.0 * ratings.n_ratings / (ratings.n_users + ratings.n_items)
    return float(np.clip(0.41 / np.sqrt(typical), 0.02, 0.06))


def start_rows(init: Init, radius: Floats, n_factors: int, rng: np.random.Generator) -> Floats:
    """Random rows of the given norms: uniform angles (most of a row in its first entries), or directions."""
    if init == "angles":
        from boundrec.kernels import spherical_to_cartesian

        phi = rng.uniform(0.0, np.pi, (len(radius), n_factors - 1))
        phi[:, -1] *= 2
        rows = np.empty((len(radius), n_factors))
        spherical_to_cartesian(phi, radius, np.empty((*phi.shape, 2)), rows, 0, len(radius))
        return rows
    rows = rng.standard_normal((len(radius), n_factors))
    if init == "orthant":
        rows = np.abs(rows)
    return np.asarray(rows * (radius / np.linalg.norm(rows, axis=1))[:, None])
