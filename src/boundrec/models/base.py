"""What every model shares: the fit loop with its stopping rule, and what is learnt besides the factors."""

from __future__ import annotations

import copy
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import ConvergenceWarning

from boundrec.columns import short
from boundrec.ids import INT64_MAX
from boundrec.models.notes import warn
from boundrec.models.predicting import UNKNOWN, Predicting, Unknown, check_names
from boundrec.models.recommending import Recommending
from boundrec.models.settings import (
    FLOAT_TYPES,
    BoundsSetting,
    FloatType,
    Seed,
    check_count,
    check_flag,
    check_size,
    is_number,
)
from boundrec.models.stopping import (
    Progress,
    StoppingRule,
    Sweep,
    TolMode,
    Validation,
    generator,
    set_aside,
    trained_codes,
)
from boundrec.parallel import RowPool, thread_count
from boundrec.ranges import check_bounds, check_bounds_fit
from boundrec.ratings import DUPLICATES, Csr, Duplicates, Ratings
from boundrec.recommend import Ranking, Seen

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
Callback = Callable[[int, float, Any], object]

#: How many ratings the overall mean counts for in the mean of a user or an item.
PRIOR_COUNT = 5.0


@dataclass
class Side:
    """One of the two factor matrices: the centred ratings in its row order, its magnitudes, its factors."""

    csr: Csr
    radius: Floats
    factors: NDArray[np.floating]
    #: A coordinate of the factors that this side holds fixed, if it does.
    held: int | None = None


class FactorisationModel(Predicting, Recommending, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Base of all models: ``fit`` on pairs of ids and ratings, ``predict`` for pairs of ids.

    A model provides ``_sweeps``, a generator that improves ``user_factors_`` and ``item_factors_`` in place and
    yields a `Sweep` after each iteration. Everything else is here, once.
    """

    n_factors: int
    bounds: BoundsSetting
    on_unknown: Unknown
    duplicates: Duplicates
    validation_fraction: float | None = None
    n_iter_no_change: int | None = 5
    max_iter: int | None
    tol: float
    patience: int
    tol_mode: TolMode = "relative"
    dtype: FloatType
    random_state: Seed
    n_jobs: int | None
    verbose: int

    #: Settings that are one of a few words.
    CHOICES: ClassVar[dict[str, tuple[str, ...]]] = {"on_unknown": UNKNOWN, "duplicates": DUPLICATES}
    MIN_FACTORS: ClassVar[int] = 1
    #: What a file holds of a fitted model besides its settings: each attribute's kind, and the sizes of an array by
    #: name (:mod:`boundrec.persistence`).
    STATE: ClassVar[dict[str, str]] = {
        "user_ids_": "ids users",
        "item_ids_": "ids items",
        "n_users_": "size users",
        "n_items_": "size items",
        "n_features_in_": "count",
        "_column_names": "optional names",
        "user_factors_": "floats users width",
        "item_factors_": "floats items width",
        "mean_": "number",
        "user_means_": "floats users",
        "item_means_": "floats items",
        "_user_seen": "bools users",
        "_item_seen": "bools items",
        "_seen": "seen",
        "objectives_": "course",
        "seconds_": "course",
        "n_iter_": "count",
        "n_rejected_": "count",
        "eval_errors_": "numbers",
        "best_iter_": "optional count",
    }
    #: What every sweep changes, and what a fit that goes back to an earlier sweep takes from there.
    OF_THE_SWEEP: ClassVar[tuple[str, ...]] = ("user_factors_", "item_factors_")

    #: Factors of the model, one row for each user and each item.
    user_factors_: NDArray[np.floating]
    item_factors_: NDArray[np.floating]
    #: Ratings to evaluate on, while a fit lasts.
    _held_out: Ratings | None = None

    #: The training ratings; None in a model from a file without them.
    _ratings: Ratings | None
    _seen: Seen

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sample_weight: ArrayLike | None = None,
        eval_set: Any = None,
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
        sample_weight
            How much each rating counts; None counts each once.
        eval_set
            Ratings to evaluate on after every sweep, for early stopping, as ``(X_eval, y_eval)``, a sparse matrix or a
            `Ratings`; instead of a ``validation_fraction``. They are not trained on.
        callback
            Called after every sweep as ``callback(sweep, objective, model)``; returning True stops the fit.
        """
        self._check_settings()
        given = self._read(X, y, sample_weight)
        ratings, held_out = self._set_aside(given, eval_set)
        with self._unchanged_on_error(), self._evaluated_on(held_out):
            self._fit(ratings, callback)
            self._seen = Seen.of(given)  # what was set aside was seen, too
            return self

    def _read(self, X: Any, y: Any, sample_weight: ArrayLike | None) -> Ratings:
        """Ratings to learn from: inside the declared bounds, and finite as the model stores them."""
        ratings = Ratings.read(X, y, sample_weight=sample_weight, duplicates=self.duplicates)
        bounds, dtype = check_bounds(self.bounds), np.dtype(self.dtype)
        ratings.check_bounds(bounds)
        ratings.check_fits(dtype)
        check_bounds_fit(bounds, dtype)
        return ratings

    def _set_aside(self, ratings: Ratings, eval_set: Any) -> tuple[Ratings, Ratings | None]:
        """What to train on, and what to evaluate on after every sweep, if anything."""
        if eval_set is not None:
            if self.validation_fraction is not None:
                raise ValueError(
                    f"validation_fraction={self.validation_fraction!r} sets ratings aside to evaluate on, but an "
                    "eval_set is given for that: pass one of the two."
                )
            return ratings, self._read_beside("eval_set", eval_set, ratings)
        if self.validation_fraction is None:
            return ratings, None
        return set_aside(ratings, self.validation_fraction, self.random_state)

    def _read_beside(self, name: str, given: Any, trained: Ratings) -> Ratings:
        """Ratings that ``fit`` takes besides those to train on, under the same rules."""
        parts = given if isinstance(given, (tuple, list)) else (given,)
        if not 1 <= len(parts) <= 2:
            raise ValueError(f"{name} has {len(parts)} parts: give (X, y), a sparse matrix or a Ratings.")
        try:
            ratings = Ratings.read(*parts, duplicates=self.duplicates)
            ratings.check_bounds(check_bounds(self.bounds))
        except (TypeError, ValueError) as error:
            raise type(error)(f"{name}: {error}") from None
        check_names(trained.names, ratings.names, name)
        return ratings

    @contextmanager
    def _evaluated_on(self, held_out: Ratings | None) -> Iterator[None]:
        """While this lasts, sweeps are evaluated on these ratings; a model keeps none of them."""
        self._held_out = held_out
        yield
        del self._held_out

    @contextmanager
    def _unchanged_on_error(self) -> Iterator[None]:
        """A fit that fails leaves the model as it was: fitted as before, or not at all."""
        before = self.__dict__.copy()
        try:
            yield
        except BaseException:
            self.__dict__ = before
            raise

    def _fit(self, ratings: Ratings, callback: Callback | None) -> Self:
        self._learn_ids_and_means(ratings)
        self._column_names = ratings.names
        self._run(ratings, self._generator(), callback)
        return self

    def _run(self, ratings: Ratings, rng: np.random.Generator, callback: Callback | None) -> bool:
        """From one start to the end of the iterations; False if told to stop before."""
        with RowPool(self.n_jobs, self._n_visited(ratings.n_users, ratings.n_items, ratings.n_ratings)) as pool:
            return self._iterate(self._sweeps(ratings, pool, rng), callback)

    # --- what a model provides ------------------------------------------------------------------------------

    def _check_settings(self) -> None:
        """Refuse settings that make no sense, with a sentence each; models add their own."""
        for name in self.CHOICES:
            self._check_choice(name)
        for name, value in self.get_params(deep=False).items():
            if name != "random_state":  # a seed may have any number of digits
                check_size(name, value)
        check_count("n_factors", self.n_factors, self.MIN_FACTORS)
        if self.max_iter is not None:
            check_count("max_iter", self.max_iter, 1, ", or None", most=INT64_MAX)
        known = isinstance(self.dtype, (str, type, np.dtype))
        if not known or self.dtype not in FLOAT_TYPES:
            raise ValueError(f"dtype={short(self.dtype)}: give float32 or float64.")
        if not is_number(self.tol) or not self.tol >= 0:
            raise ValueError(f"tol={short(self.tol)}: give a number of at least 0.")
        check_count("patience", self.patience, 1)
        fraction, no_change = self.validation_fraction, self.n_iter_no_change
        if fraction is not None and not (is_number(fraction) and 0 < fraction < 1):
            raise ValueError(f"validation_fraction={short(fraction)}: give a share between 0 and 1, or None.")
        if no_change is not None:
            check_count("n_iter_no_change", no_change, 1, ", or None")
        check_flag("verbose", self.verbose)
        thread_count(self.n_jobs)

    def _check_choice(self, name: str) -> None:
        value, allowed = getattr(self, name), self.CHOICES[name]
        if not isinstance(value, str) or value not in allowed:
            raise ValueError(f"{name}={short(value)}: give one of {', '.join(map(repr, allowed))}.")

    def _sweeps(self, ratings: Ratings, pool: RowPool, rng: np.random.Generator) -> Iterator[Sweep]:
        raise NotImplementedError

    def _n_visited(self, n_users: int, n_items: int, n_ratings: int) -> int:
        """How many entries of the matrix a sweep looks at: what threads share."""
        return n_ratings

    def _default_max_iter(self) -> int:
        return 500

    def _most_iterations(self) -> int:
        return self._default_max_iter() if self.max_iter is None else self.max_iter

    def _seeks_rest(self) -> bool:
        """Whether being out of iterations is worth a warning; not where their number is part of the method."""
        return True

    def _may_rise(self) -> bool:
        """Whether nothing keeps the objective from rising."""
        return False

    # --- the loop -------------------------------------------------------------------------------------------

    def _generator(self) -> np.random.Generator:
        return generator(self.random_state)

    def _iterate(self, sweeps: Iterator[Sweep], callback: Callback | None) -> bool:
        """Run an algorithm until it comes to rest or is out of iterations; False if it was told to stop before."""
        rule, max_iter = self._stopping_rule(), self._most_iterations()
        validation, progress = self._validation(), Progress(self.n_iter_no_change)
        self.objectives_: list[float] = []
        self.seconds_: list[float] = []
        self.eval_errors_ = progress.errors
        self.n_iter_ = self.n_rejected_ = 0
        began = time.perf_counter()
        try:
            for sweep in sweeps:
                if not np.isfinite(sweep.objective):
                    self._say_not_finite(sweep.objective, progress)
                    return True
                error = self._error(validation)
                progress.add(self._state(), error, moved=sweep.accepted)
                self._record(sweep, time.perf_counter() - began)
                if callback is not None and _is_true(callback(self.n_iter_, sweep.objective, self)):
                    return False
                if rule.converged(sweep) or progress.exhausted:
                    return True
                if self.n_iter_ >= max_iter:
                    break
            else:  # the algorithm has nothing left to do
                return True
        except KeyboardInterrupt:
            if not progress.state:
                raise
            warn(f"interrupted: the model is that of sweep {progress.sweep}.")
            return False
        finally:
            self.best_iter_ = progress.best_iter
            self.__dict__.update(progress.state)
        if rule.still_falling and self._seeks_rest() and not progress.past_best:
            warn(
                f"{type(self).__name__} stopped at max_iter={max_iter} while its objective still fell by "
                f"{rule.decrease_in_words} an iteration: raise max_iter for a closer fit, or tol if this is close "
                "enough.",
                ConvergenceWarning,
            )
        return True

    def _say_not_finite(self, objective: float, progress: Progress) -> None:
        """Warn that a sweep went wrong and the model is an earlier one; an error where there is none."""
        flaw = f"the objective of {type(self).__name__} is {objective} after sweep {self.n_iter_ + 1}"
        remedy = "bring the ratings and their bounds nearer to 1"
        if np.dtype(self.dtype) == np.float32:
            remedy += ', or pass dtype="float64"'
        if not progress.state:
            raise ValueError(f"{flaw}: {remedy}.")
        warn(f"{flaw}: the model is that of sweep {progress.sweep}; {remedy}.", ConvergenceWarning)

    def _state(self) -> dict[str, Any]:
        """A copy of what the next sweep will change."""
        return {name: copy.copy(getattr(self, name)) for name in self.OF_THE_SWEEP}

    def _validation(self) -> Validation | None:
        if self._held_out is None:
            return None
        users = trained_codes(self._held_out.users.ids, self.user_ids_, self._user_seen)
        items = trained_codes(self._held_out.items.ids, self.item_ids_, self._item_seen)
        return Validation(self._held_out, users, items)

    def _error(self, validation: Validation | None) -> float | None:
        if validation is None:
            return None
        with np.errstate(over="ignore", invalid="ignore"):  # of factors that diverge
            return validation.error(self._eval_predictions(validation.users, validation.items))

    def _eval_predictions(self, users: Codes, items: Codes) -> Floats:
        """What the model predicts for the pairs it is evaluated on, after the sweep that is just complete."""
        return self._answers(users, items)

    def _stopping_rule(self) -> StoppingRule:
        return StoppingRule(self.tol, self.patience, self.tol_mode, self._may_rise())

    def _record(self, sweep: Sweep, seconds: float) -> None:
        self.objectives_.append(sweep.objective)
        self.seconds_.append(seconds)
        self.n_iter_ += 1
        self.n_rejected_ += not sweep.accepted
        if self.verbose:
            error = f"error {self.eval_errors_[-1]:.6g}, " if self.eval_errors_ else ""
            print(
                f"{type(self).__name__} sweep {self.n_iter_}: objective {sweep.objective:.6g}, {error}{seconds:.1f} s",
                file=sys.stderr,
            )

    # --- ranking --------------------------------------------------------------------------------------------

    def _ranking(self) -> Ranking:
        """How predictions come from inner products, for the search for the highest ones."""
        return Ranking(self.user_factors_, self.item_factors_, self._user_seen, self._predict_codes, self._needed)

    def _needed(self, users: Codes, scores: Floats, low: float, high: float) -> Floats:
        """The least inner product with which an item, its magnitude between low and high, might reach a score."""
        return scores

    def _learn_ids_and_means(self, ratings: Ratings) -> None:
        self._ratings, self._seen = ratings, Seen.of(ratings)
        self.n_features_in_ = 2
        self.user_ids_, self.item_ids_ = ratings.users, ratings.items
        self.n_users_, self.n_items_ = ratings.n_users, ratings.n_items
        weights = ratings.by_user.weights
        self.mean_ = float(np.average(ratings.by_user.data, weights=weights if weights.size else None))
        self.user_means_, self._user_seen = shrunken_means(ratings.by_user, self.mean_)
        self.item_means_, self._item_seen = shrunken_means(ratings.by_item, self.mean_)

    # --- files ----------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str], keep_ratings: bool = False) -> None:
        """Write the fitted model to one file, for `boundrec.load`.

        The file is written whole or not at all: a model that was there before stays until the new one is complete.

        Parameters
        ----------
        path
            Where to; ``.safetensors`` is the usual ending.
        keep_ratings
            Also store the ratings of the fit, which `partial_fit` needs. Which items a user has rated is always
            stored.
        """
        from boundrec import persistence

        persistence.save(self, path, keep_ratings)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.categorical = tags.input_tags.sparse = True
        tags.non_deterministic = self.random_state is None
        return tags


def _is_true(answer: object) -> bool:
    """Whether a callback answers True, or NumPy's; anything else that counts as true may be there by accident."""
    return isinstance(answer, (bool, np.bool_)) and bool(answer)


def shrunken_means(csr: Csr, overall: float) -> tuple[Floats, NDArray[np.bool_]]:
    """Mean of every row, drawn towards the overall mean as if that were ``PRIOR_COUNT`` more ratings.

    Also which rows were trained: one whose ratings all have weight 0 was not.
    """
    counts, totals = csr.row_weights(), csr.sum_rows(csr.data * csr.weights if csr.weights.size else csr.data)
    return (totals + PRIOR_COUNT * overall) / (counts + PRIOR_COUNT), counts > 0
