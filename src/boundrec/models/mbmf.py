"""Magnitude Bounded Matrix Factorisation: the paper's model, its future work, and an exact solver. START HERE.

    prediction   v̂_ij = centre_ij + w_i·h_j
    constraint   |w_i| = r_i, |h_j| = s_j  ("sphere": the paper)  or  ≤  ("ball")
    guarantee    |v̂_ij − centre_ij| ≤ r_i s_j for every pair, seen or unseen (Cauchy-Schwarz)

`MBMF.fit` reads as the method does: ranges first (:mod:`boundrec.ranges`), then centred ratings, then one of two
solvers that only ever see centred ratings and magnitudes.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse

from boundrec.models.angles import AngleDescent, AngleSide
from boundrec.models.base import Callback, Codes, FactorisationModel, Floats, Side, Sweep
from boundrec.parallel import RowPool
from boundrec.ranges import (
    CONTRADICTIONS,
    FORMS,
    MAGNITUDES,
    Ranges,
    check_bounds,
    constant_magnitudes,
    describe_contradictions,
    frame_for,
    given_magnitudes,
    historical_magnitudes,
    settle_contradictions,
)
from boundrec.ratings import Ratings


class MBMF(FactorisationModel):
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
        ``"c"`` centres the ranges, so both ends are bounds; ``"n"`` works on non-negative data and guards the
        upper end only.
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
    max_iter, tol, patience, tol_mode
        At most so many iterations (None: 500 for the angle solver, 20 sweeps for the exact one); stop earlier when
        the objective's ``"relative"`` (or ``"absolute"``) decrease is below ``tol`` for ``patience`` in a row.
    dtype
        ``"float64"`` or ``"float32"``, for the stored factors and centred ratings; arithmetic is in float64.
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
    user_ids_, item_ids_
        The ids behind the rows, as ``.ids``.
    objectives_, seconds_, n_iter_, n_rejected_
        The objective and the time after each iteration, how many there were, and how many moved nothing.
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
        **FactorisationModel.CHOICES,
        "form": FORMS,
        "constraint": ("ball", "sphere"),
        "solver": ("exact", "angles"),
        "init": ("auto", "angles", "sphere", "orthant"),
        "step": ("dynamic", "fixed", "line-search"),
        "steps": ("separate", "shared"),
        "on_contradiction": CONTRADICTIONS,
        "tol_mode": ("relative", "absolute"),
    }
    MIN_FACTORS = 2  # one factor leaves a sign and no angle (resolution A9)

    def __init__(
        self,
        n_factors: int = 20,
        *,
        bounds: Any = None,
        form: str = "c",
        magnitudes: Any = "auto",
        history_share: float = 0.1,
        history_count: float | None = None,
        constraint: str = "ball",
        solver: str = "exact",
        init: str = "auto",
        step: str = "dynamic",
        steps: str = "separate",
        initial_step: float = 0.1,
        on_unknown: str = "mean",
        on_contradiction: str = "keep",
        duplicates: str = "raise",
        max_iter: int | None = None,
        tol: float = 1e-5,
        patience: int = 10,
        tol_mode: str = "relative",
        dtype: Any = "float64",
        random_state: Any = None,
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
        self.max_iter = max_iter
        self.tol = tol
        self.patience = patience
        self.tol_mode = tol_mode
        self.dtype = dtype
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @classmethod
    def as_in_paper(cls, n_factors: int = 10, *, form: str = "n", **settings: Any) -> Self:
        """MBMF with the paper's settings: sphere, random angles, two dynamic steps from 0.1, 500 iterations."""
        paper = {
            "constraint": "sphere",
            "solver": "angles",
            "init": "angles",
            "magnitudes": "paper",
            "max_iter": 500,
        }
        return cls(n_factors, form=form, **{**paper, **settings})

    # --- fitting --------------------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        history: Any = None,
        sample_weight: ArrayLike | None = None,
        callback: Callback | None = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X
            Two columns of ids, users and items (array, list of pairs, pandas, polars or pyarrow), or a scipy
            sparse matrix of users × items whose stored entries are the observations, or a `Ratings`.
        y
            One rating for each row of X; None for a sparse matrix or a `Ratings`.
        history
            Past ratings that set the magnitudes, as ``(X_past, y_past)``, a sparse matrix or a `Ratings`.
        sample_weight
            How much each rating counts; None counts each once. Magnitudes do not depend on it.
        callback
            Called after every sweep as ``callback(sweep, objective, model)``; returning True stops the fit.
        """
        self._check_settings()
        ratings = Ratings.read(X, y, sample_weight=sample_weight, duplicates=self.duplicates)
        bounds = check_bounds(self.bounds)
        ratings.check_bounds(bounds)
        past = self._read_history(history, ratings)
        self._ranges = self._choose_ranges(ratings, past, from_matrix=issparse(X) or isinstance(X, Ratings))
        ratings = self._settle(ratings)
        if self.n_factors > min(ratings.n_users, ratings.n_items):
            warnings.warn(
                f"n_factors={self.n_factors} is more than the {ratings.n_users} users × {ratings.n_items} items "
                "can determine; fewer factors give the same fit.",
                stacklevel=2,
            )
        return self._fit(ratings, callback)

    def _read_history(self, history: Any, ratings: Ratings) -> Ratings | None:
        if history is None:
            return None
        pairs = history if isinstance(history, (tuple, list)) else (history,)
        if len(pairs) > 2:
            raise ValueError(f"history has {len(pairs)} parts: give (X_past, y_past), a sparse matrix or a Ratings.")
        past = Ratings.read(*pairs, duplicates=self.duplicates)
        past.check_bounds(check_bounds(self.bounds))
        known = (past.users.codes(ratings.users.ids) >= 0).any() or (past.items.codes(ratings.items.ids) >= 0).any()
        if not known:
            raise ValueError(
                f"history shares no user and no item with the ratings (its first user is {past.users.ids.item(0)!r}, "
                f"theirs {ratings.users.ids.item(0)!r}): give both the same kind of ids."
            )
        return past

    def _choose_ranges(self, ratings: Ratings, past: Ratings | None, from_matrix: bool) -> Ranges:
        """Frame and magnitudes for these ratings (resolutions A13 to A17)."""
        bounds = check_bounds(self.bounds)
        values = ratings.by_user.data if past is None else np.append(ratings.by_user.data, past.by_user.data.min())
        frame = frame_for(bounds, self.form, values)
        if not isinstance(self.magnitudes, str):
            return given_magnitudes(frame, ratings, self.magnitudes, from_matrix)
        one_sided = (bounds[0] is None) != (bounds[1] is None)
        automatic = self.magnitudes in ("auto", "paper")
        if self.magnitudes == "range" or (automatic and past is None and not one_sided):
            return constant_magnitudes(frame, bounds, ratings)
        cap = self.magnitudes != "paper"
        return historical_magnitudes(frame, ratings, past or ratings, self.history_share, self.history_count, cap)

    def _settle(self, ratings: Ratings) -> Ratings:
        """Deal with ratings outside their own range; one warning says how many there are."""
        before, ranges = ratings, self._ranges
        ratings, self._ranges, outside = settle_contradictions(before, ranges, self.on_contradiction)
        self.infeasible_share_ = float(outside.mean())
        self.user_magnitudes_, self.item_magnitudes_ = self._ranges.user, self._ranges.item
        if outside.any() and self.on_contradiction == "keep":
            warnings.warn(
                f"{describe_contradictions(before, ranges, outside)} "
                'Pass on_contradiction="widen" or "drop" to settle them.',
                stacklevel=3,
            )
        return ratings

    def _default_max_iter(self) -> int:
        return 500 if self.solver == "angles" else 20

    def _sweeps(self, ratings: Ratings, pool: RowPool, rng: np.random.Generator) -> Iterator[Sweep]:
        ranges, dtype = self._ranges, np.dtype(self.dtype)
        by_user = ranges.centred(ratings.by_user, ranges.user, ranges.item, dtype)
        by_item = ranges.centred(ratings.by_item, ranges.item, ranges.user, dtype)
        self.user_factors_ = self._start(ranges.user, rng).astype(dtype)
        self.item_factors_ = self._start(ranges.item, rng).astype(dtype)
        users = Side(by_user, ranges.user, self.user_factors_)
        items = Side(by_item, ranges.item, self.item_factors_)
        if self.solver == "angles":
            turning = AngleSide(users, self.initial_step), AngleSide(items, self.initial_step)
            return AngleDescent(*turning, pool, self.step, self.steps).sweeps()
        return alternate(users, items, pool, self.constraint)

    def _start(self, radius: Floats, rng: np.random.Generator) -> Floats:
        """Random factors on their spheres (resolution A8)."""
        init = self.init
        if init == "auto":
            init = "angles" if self.solver == "angles" else "orthant" if self.form == "n" else "sphere"
        return start_rows(init, radius, self.n_factors, rng)

    # --- predictions ----------------------------------------------------------------------------------------

    def predict(self, X: Any, return_range: bool = False) -> Any:
        """Predict the rating of each pair of ids; every prediction lies inside its own range.

        Parameters
        ----------
        X
            Two columns of ids.
        return_range
            Also return the lower and upper end of each pair's range.

        Returns
        -------
        prediction, or (prediction, lower, upper)
        """
        users, items = self._codes(X)
        predictions = self._predict_codes(users, items)
        lower, upper = self._ranges.interval(self._ranges.product(users, items))
        predictions = np.clip(predictions, lower, upper)  # past rounding nothing is cut but answers for the unknown
        return (predictions, lower, upper) if return_range else predictions

    def predict_range(self, X: Any) -> tuple[Floats, Floats]:
        """The range of each pair of ids: what its prediction can be at least and at most."""
        return self._ranges.interval(self._ranges.product(*self._codes(X)))

    def _predict_known(self, users: Codes, items: Codes) -> Floats:
        centre = self._ranges.centre(self._ranges.product(users, items))
        return np.asarray(centre + super()._predict_known(users, items))

    # --- settings -------------------------------------------------------------------------------------------

    def _check_settings(self) -> None:
        """Refuse settings that make no sense, with a sentence each."""
        super()._check_settings()
        if not 0 < self.history_share <= 1:
            raise ValueError(f"history_share={self.history_share!r}: give a share above 0 and up to 1.")
        if self.history_count is not None and not self.history_count > 0:
            raise ValueError(
                f"history_count={self.history_count!r}: give a positive number, or None for history_share."
            )
        if not self.initial_step > 0:
            raise ValueError(f"initial_step={self.initial_step!r}: give a positive number.")
        if isinstance(self.magnitudes, str) and self.magnitudes not in MAGNITUDES:
            raise ValueError(f"magnitudes={self.magnitudes!r}: give one of {MAGNITUDES}, or a pair of mappings.")
        if self.solver == "angles" and self.constraint == "ball":
            raise ValueError(
                'solver="angles" moves on spheres: pass constraint="sphere", or solver="exact" for the ball.'
            )
        check_bounds(self.bounds)


def start_rows(init: str, radius: Floats, n_factors: int, rng: np.random.Generator) -> Floats:
    """Random rows of the given norms: uniform angles (most of a row in its first entries), or directions."""
    if init == "angles":
        from boundrec.kernels import spherical_to_cartesian

        phi = rng.uniform(0.0, np.pi, (len(radius), n_factors - 1))
        phi[:, -1] *= 2
        rows = np.empty((len(radius), n_factors))
        spherical_to_cartesian(phi, radius, rows, 0, len(radius))
        return rows
    rows = rng.standard_normal((len(radius), n_factors))
    if init == "orthant":
        rows = np.abs(rows)
    return np.asarray(rows * (radius / np.linalg.norm(rows, axis=1))[:, None])


def alternate(users: Side, items: Side, pool: RowPool, constraint: str) -> Iterator[Sweep]:
    """Exact alternation: every item's row, then every user's, goes to the global minimum of its quadratic."""
    from boundrec.kernels import squared_errors

    errors = np.empty(len(users.factors))
    while True:
        _solve(items, users.factors, pool, constraint)
        _solve(users, items.factors, pool, constraint)
        pool.run(squared_errors, users.csr.indptr, users.csr, users.factors, items.factors, errors)
        yield Sweep(float(errors.sum()))


def _solve(side: Side, fixed: NDArray[np.floating], pool: RowPool, constraint: str) -> None:
    """One half-step: the rows of ``side`` with the other side fixed."""
    from boundrec.kernels import solve_rows_ball, solve_rows_sphere

    if constraint == "ball":
        pool.run(solve_rows_ball, side.csr.indptr, side.csr, fixed, side.radius, 0.0, side.factors)
    else:
        pool.run(solve_rows_sphere, side.csr.indptr, side.csr, fixed, side.radius, side.factors)
