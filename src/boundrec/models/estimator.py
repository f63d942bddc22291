"""The estimator that every model is: scikit-learn's contract, and the doors through which people ask.

A model learns a `Fitted` (:mod:`boundrec.models.fitted`), and everything it answers is a function of that
(:mod:`boundrec.models.answers`). Here ids become row numbers, and row numbers ids again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Never, Self, TypedDict, Unpack, get_args, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from boundrec.arrays import Codes, Floats, Reals
from boundrec.data.columns import (
    LIBRARIES,
    Column,
    Library,
    Names,
    build_frame,
    column_names,
    id_column,
    import_library,
    pair_columns,
    short,
)
from boundrec.data.ids import IdIndex, id_array
from boundrec.data.ratings import Ends, Pairs, Ratings, wider_than
from boundrec.models import answers
from boundrec.models.fit import Outcome, StoppingRule, Validation, Watch, generator, run, set_aside
from boundrec.models.fitted import Course, Fitted, FittedSide, learned
from boundrec.models.settings import (
    CommonSettings,
    Precision,
    RatingSettings,
    Unknown,
    check_count,
    check_flag,
    check_word,
)
from boundrec.notes import warn
from boundrec.ranges import check_bounds, check_bounds_fit
from boundrec.ranges.rules import Rule, WithRows, rule_of
from boundrec.ranges.scale import Bounds
from boundrec.solvers import Learned, Solver
from boundrec.solvers.threads import RowPool
from boundrec.top_n import Lists, Seen, top_n, top_n_scored

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    # To a type checker scikit-learn is Any, and so would be every model: this is what models have from it.
    class BaseEstimator:  # noqa: D101
        def get_params(self, deep: bool = True) -> dict[str, Any]: ...  # noqa: D102
        def set_params(self, **settings: Any) -> Self: ...  # noqa: D102
        def __sklearn_tags__(self) -> Any: ...

    class RegressorMixin:  # noqa: D101
        def score(self, X: Any, y: Any, sample_weight: Any = None) -> float: ...  # noqa: D102
else:
    from sklearn.base import BaseEstimator, RegressorMixin

Callback = Callable[[int, float, Any], object]
Output = Literal["arrays", Library]
OUTPUTS: tuple[Output, ...] = get_args(Output)
#: What lists may be sorted by.
By = Literal["auto", "rating", "lower", "blend"]
#: What `recommend` calls the columns of its frames: clear without a fit that has seen them.
OWN_NAMES: Names = ("user", "item")
#: The products of vectors within this are far from the ends of float32.
MODERATE = 1e15


class Vectors(NamedTuple):
    """Vectors for an index of inner products, and the ids of their rows.

    ``exact`` says whether the order of the inner products is the model's own. Where it is not (slack, and items of
    different magnitudes), ask the index for more items than you need and rank those by ``predict``.
    """

    users: NDArray[np.float32]
    items: NDArray[np.float32]
    user_ids: NDArray[Any]
    item_ids: NDArray[Any]
    exact: bool


class Wanted(TypedDict, total=False):
    """What a call of ``recommend`` may say beside users, n and output."""

    exclude_seen: bool
    candidates: Any
    exclude: Any
    bounds: Any
    by: By


class WantedBatches(Wanted, total=False):
    """The same for ``recommend_batches``."""

    batch_size: int


class Asked(NamedTuple):
    """What a call of ``recommend`` asks for, checked: ids, their row numbers, and how to answer."""

    user_ids: NDArray[Any]
    users: Codes
    items: Codes
    n: int
    seen: Seen | None
    output: Output
    rule: Rule | None
    by: By

    def of(self, rows: Any, n: int) -> Asked:
        """The same for some of the users, in lists of another length."""
        return self._replace(user_ids=self.user_ids[rows], users=self.users[rows], n=n)


class OnlyBayesian:
    """A method that only `BayesianMBMF` has: other models say so, and to ``hasattr`` they have none."""

    def __set_name__(self, owner: Any, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: Any) -> Never:
        raise AttributeError(f"{owner.__name__} has no method {self._name!r}: fit a BayesianMBMF, which has.")


class FactorisationModel(CommonSettings, RegressorMixin, BaseEstimator):
    """Base of all models: ``fit`` on pairs of ids and ratings, ``predict`` for pairs of ids.

    A model provides a solver; everything else is here, once.
    """

    #: What a file holds of a fitted model besides its settings (:mod:`boundrec.model_file`).
    STORED: ClassVar[dict[str, str]] = {
        "user_ids": "ids users",
        "item_ids": "ids items",
        "n_features_in": "count",
        "column_names": "optional names",
        "user_factors": "floats users width",
        "item_factors": "floats items width",
        "mean": "number",
        "user_means": "floats users",
        "item_means": "floats items",
        "user_seen": "bools users",
        "item_seen": "bools items",
        "seen": "seen",
        "objectives": "course",
        "seconds": "course",
        "n_iter": "count",
        "n_rejected": "count",
        "eval_errors": "numbers",
        "best_iter": "optional count",
    }

    #: The narrowest type that factors may be stored in.
    NARROWEST: ClassVar[Precision] = "float32"
    #: What was learnt; while a callback is running, how to make it of what there is by then.
    _learned = None  # type: Fitted | Callable[[], Fitted] | None
    if not TYPE_CHECKING:  # a type checker knows who has it
        explain = OnlyBayesian()

    # --- fitting --------------------------------------------------------------------------------------------

    def _read_beside(self, name: str, given: Any, trained: Ratings) -> Ratings:
        """Ratings that ``fit`` takes besides those to train on, under the same rules."""
        parts = given if isinstance(given, (tuple, list)) else (given,)
        if not 1 <= len(parts) <= 2:
            raise ValueError(f"{name} has {len(parts)} parts: give (X, y), a sparse matrix or a Ratings.")
        try:
            ratings = self._read_parts(trained, *parts)
            ratings.check_bounds(self._declared())
        except (TypeError, ValueError) as error:
            raise type(error)(f"{name}: {error}") from None
        check_names(trained.names, ratings.names, name)
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

    def _learn(self, start: Fitted, held_out: Ratings | None, callback: Callback | None) -> Self:
        """From what is known before the first sweep to a learned model; one that fails leaves this as it was."""
        validation = None if held_out is None else self._validation(held_out, start)
        before, outcomes = self._learned, list[Outcome]()
        try:
            if self._bytes_of_rows(start) > memory():  # a system may promise more than it has, and end who uses it
                raise MemoryError
            for rng in self._generators():
                outcomes.append(self._run(start, rng, validation, callback))
                if not outcomes[-1].to_the_end:
                    break
            self._learned = self._complete(self._together(start, outcomes, at_the_end=True), outcomes)
        except MemoryError:
            self._learned = before
            raise MemoryError(
                f"n_factors={self.n_factors}: rows of this length, for {len(start.users.ids):,} users and "
                f"{len(start.items.ids):,} items, do not fit into memory; give a smaller n_factors"
            ) from None
        except BaseException:
            self._learned = before
            raise
        return self

    def _bytes_of_rows(self, start: Fitted) -> int:
        """How much memory the factors of all rows take at least."""
        n_rows = len(start.users.ids) + len(start.items.ids)
        return n_rows * int(self.n_factors) * np.dtype(self.dtype).itemsize

    def _run(
        self, start: Fitted, rng: np.random.Generator, validation: Validation | None, callback: Callback | None
    ) -> Outcome:
        """One run of the solver, of which nothing stays but the outcome."""
        assert start.ratings is not None
        with RowPool(self.n_jobs, self._n_visited(start.ratings)) as pool:
            solver = self._solver(start, pool, rng, validation)
            return run(solver, self._watch(solver, start, validation, callback))

    def _watch(
        self,
        solver: Solver,
        start: Fitted,
        validation: Validation | None,
        callback: Callback | None,
    ) -> Watch:
        """What the loop is told: when to stop, and whom to tell."""

        def so_far(course: Course = start.course) -> Fitted:
            return self._together(start, [Outcome(solver.result(), course, True)], at_the_end=False)

        def error() -> float:
            assert validation is not None
            with np.errstate(over="ignore", invalid="ignore"):  # of factors that diverge
                return self._error(solver, so_far, validation)

        def tell(course: Course) -> bool:
            if callback is None:
                return False
            self._learned = lambda: so_far(course)  # made only for a callback that asks
            return _is_true(callback(len(course.objectives), course.objectives[-1], self))

        return Watch(
            type(self).__name__,
            self.most_iterations(),
            self._stopping_rule(),
            self.n_iter_no_change,
            None if validation is None else error,
            tell,
            self._seeks_rest(),
            bool(self.verbose),
            _remedy(np.dtype(self.dtype)),
        )

    # --- what a model provides ------------------------------------------------------------------------------

    def _declared(self) -> Bounds:
        """The range that every rating lies in, as far as one is declared for all."""
        return None, None

    def _read_parts(self, trained: Ratings, X: Any, y: Any = None) -> Ratings:
        """Ratings beside those to train on."""
        raise NotImplementedError

    def _solver(self, start: Fitted, pool: RowPool, rng: np.random.Generator, validation: Validation | None) -> Solver:
        """The algorithm, at its start."""
        raise NotImplementedError

    def _together(self, start: Fitted, outcomes: list[Outcome], at_the_end: bool) -> Fitted:
        """The model that one run has learnt, or several together."""
        return with_factors(start, outcomes[-1].learned, outcomes[-1].course)

    def _complete(self, fitted: Fitted, outcomes: list[Outcome]) -> Fitted:
        """What is measured or kept once, at the end."""
        return fitted

    def _generators(self) -> list[np.random.Generator]:
        """A stream of random numbers for each run."""
        return [generator(self.random_state)]

    def _validation(self, held_out: Ratings, start: Fitted) -> Validation:
        """What the model is evaluated on after every sweep."""
        return Validation(held_out, start)

    def _error(self, solver: Solver, so_far: Callable[[], Fitted], validation: Validation) -> float:
        """How bad the model is there, after the sweep that is just complete: the less the better."""
        return validation.error(self._predicted(solver, so_far, validation))

    def _predicted(self, solver: Solver, so_far: Callable[[], Fitted], validation: Validation) -> Floats:
        """What the model predicts for the pairs it is evaluated on, after the sweep that is just complete."""
        return answers.predictions(so_far(), validation.pairs)

    def _n_visited(self, ratings: Ratings) -> int:
        """How many entries of the matrix a sweep looks at: what threads share."""
        return ratings.n_ratings

    def check_settings(self) -> None:
        """Refuse settings that make no sense, with a sentence each."""
        super().check_settings()
        if np.dtype(self.dtype).itemsize < np.dtype(self.NARROWEST).itemsize:
            raise ValueError(
                f"dtype={short(self.dtype)}: {type(self).__name__} computes with what it stores: give float32 or "
                "float64. Only a BayesianMBMF stores factors in float16."
            )

    def _default_max_iter(self) -> int:
        return 500

    def most_iterations(self) -> int:
        """``max_iter``, or what None stands for."""
        return self._default_max_iter() if self.max_iter is None else self.max_iter

    def _stopping_rule(self) -> StoppingRule:
        raise NotImplementedError

    def _seeks_rest(self) -> bool:
        """Whether being out of iterations is worth a warning; not where their number is part of the method."""
        return True

    def _n_bias_columns(self, has_biases: bool) -> int:
        """Columns that biases take in front of the factors; ``has_biases``: whether rows have some of their own."""
        return 2 if has_biases else 0

    def _answering(self) -> Fitted:
        """The learned model, as the present settings have it answer."""
        return self.fitted_

    # --- what was learnt ------------------------------------------------------------------------------------

    @property
    def fitted_(self) -> Fitted:
        """The learned model: one frozen value, which everything else here is read from."""
        if self._learned is None:
            raise AttributeError(f"this {type(self).__name__} is not fitted yet: call fit first.")
        if callable(self._learned):
            self._learned = self._learned()
        return self._learned

    def __sklearn_is_fitted__(self) -> bool:
        return self._learned is not None

    n_features_in_ = learned(lambda fitted: 2 if fitted else 0, "Two: users and items.")

    @property
    def feature_names_in_(self) -> NDArray[np.object_]:
        """The names of the columns of the frame that the model was fitted on; there are none after any other fit."""
        if self.fitted_.names is None:
            raise AttributeError(f"this {type(self).__name__} was fitted on no frame whose columns have names.")
        return np.array(self.fitted_.names, object)

    user_ids_ = learned(lambda fitted: fitted.users.ids, "The ids behind the rows of users, as ``.ids``.")
    item_ids_ = learned(lambda fitted: fitted.items.ids, "The ids behind the rows of items, as ``.ids``.")
    n_users_ = learned(lambda fitted: len(fitted.users.ids), "How many users there are.")
    n_items_ = learned(lambda fitted: len(fitted.items.ids), "How many items there are.")
    user_factors_ = learned(lambda fitted: fitted.users.factors, "W, one row for each user.")
    item_factors_ = learned(lambda fitted: fitted.items.factors, "H, one row for each item.")
    mean_ = learned(
        lambda fitted: fitted.mean,
        "The mean of the training ratings, on the scale that is factorised (see ``link``, ``bounds``).",
    )
    user_means_ = learned(
        lambda fitted: fitted.users.means, "The mean of each user's ratings, drawn towards the overall one."
    )
    item_means_ = learned(
        lambda fitted: fitted.items.means, "The mean of each item's ratings, drawn towards the overall one."
    )
    objectives_ = learned(lambda fitted: fitted.course.objectives, "The objective after each iteration.")
    seconds_ = learned(lambda fitted: fitted.course.seconds, "The time after each iteration.")
    n_iter_ = learned(lambda fitted: len(fitted.course.objectives), "How many iterations there were.")
    n_rejected_ = learned(lambda fitted: fitted.course.n_rejected, "How many iterations moved nothing.")
    eval_errors_ = learned(
        lambda fitted: fitted.course.eval_errors,
        "The error (RMSE) on the ratings set aside, or on the ``eval_set``, after each iteration.",
    )
    best_iter_ = learned(
        lambda fitted: fitted.course.best_iter,
        "The iteration with the least of these errors, counted from 1; None where there is nothing to evaluate on.",
    )
    # --- predictions ----------------------------------------------------------------------------------------

    def predict(self, X: Any) -> Floats:
        """Predict the rating of each pair of ids in X; ``on_unknown`` says what unknown ids get."""
        return self._predict(self._pairs(X))

    def _predict(self, pairs: Pairs) -> Floats:
        predictions = answers.predictions(self._answering(), pairs)
        if self.on_unknown == "nan":
            predictions[pairs.unknown()] = np.nan
        return predictions

    def _pairs(self, X: Any) -> Pairs:
        """Row numbers of the ids in X; −1 for ids with neither training ratings nor features."""
        self._check_can_answer()
        users, items = pair_columns(X)
        fitted = self.fitted_
        check_names(fitted.names, column_names(X))
        return Pairs(self._known_codes("user", users, fitted.users), self._known_codes("item", items, fitted.items))

    def _check_can_answer(self) -> None:
        check_is_fitted(self)
        check_word("on_unknown", self.on_unknown, get_args(Unknown))  # it may have been set after the fit

    def _known_codes(self, kind: str, column: Any, side: FittedSide) -> Codes:
        codes = side.codes(column)
        if self.on_unknown == "raise":
            _refuse_unknown(kind, column, codes)
        _warn_of_other_type(kind, column, side.ids, codes)
        return codes

    # --- lists ----------------------------------------------------------------------------------------------

    @overload
    def recommend(
        self,
        users: Any = None,
        n: int = 10,
        exclude_seen: bool = True,
        candidates: Any = None,
        exclude: Any = None,
        output: Literal["arrays"] = "arrays",
        bounds: Any = None,
        by: By = "auto",
    ) -> tuple[NDArray[Any], Floats]: ...
    @overload
    def recommend(
        self, users: Any = None, n: int = 10, *, output: Literal["pandas"], **more: Unpack[Wanted]
    ) -> pd.DataFrame: ...
    @overload
    def recommend(
        self, users: Any = None, n: int = 10, *, output: Literal["polars"], **more: Unpack[Wanted]
    ) -> pl.DataFrame: ...
    @overload
    def recommend(
        self, users: Any = None, n: int = 10, *, output: Literal["pyarrow"], **more: Unpack[Wanted]
    ) -> Any: ...
    def recommend(
        self,
        users: Any = None,
        n: int = 10,
        exclude_seen: bool = True,
        candidates: Any = None,
        exclude: Any = None,
        output: Output = "arrays",
        bounds: Any = None,
        by: By = "auto",
    ) -> Any:
        """The n items with the highest scores for each user: exact, equal scores in the order of the items.

        Parameters
        ----------
        users
            A column of user ids: a list, an array or a series; None for all of ``user_ids_``, in their order. What
            users with neither training ratings nor features get is for ``on_unknown`` to say: ``"mean"``, the items in
            the order of what `predict` answers for them; ``"nan"``, an empty list; ``"raise"``, an error.
        n
            Length of the lists; all items where there are fewer.
        exclude_seen
            Leave out what a user has rated.
        candidates
            The only item ids to choose from; None for all items with training ratings or features.
        exclude
            Item ids to leave out, of everybody's list; or a mapping from user ids to what each is not to see, such as
            what they dismissed. Those who are not asked for do not matter.
        output
            ``"arrays"``: item ids and scores, one row for each user, n columns, or as many as the model has items
            where those are fewer. Where a list is shorter than that the scores are NaN and the ids −1, or None
            where ids are not integers. ``"pandas"``, ``"polars"`` or ``"pyarrow"``: a frame with the columns user,
            item, rank (from 1), score, lower, upper and, where the model knows it, std; it has no rows for items that
            are not there. Where the score is not the predicted rating, that follows it as rating; from ``"blend"`` the
            last column is affinity.
        bounds
            Of a model whose pairs have ranges of their own: another rule than that of the fit; needed where its ranges
            came with the rows. Pairs without a range are left out.
        by
            What lists are sorted by. ``"rating"``: the prediction. ``"lower"``, for `BayesianMBMF`: the prediction less
            one standard deviation of what is uncertain about it (the noise of a single rating is not), so that nothing
            tops a list by one lucky rating. ``"blend"``, for a model that was fitted with ``affinity=True``: affinity +
            rating_weight · (rating − mean) / (4 standard deviations of ratings), the last between −1 and 1, among the
            200 items, or n, of the highest affinity; a score between ∓(1 + rating_weight). ``"auto"``: the blend where
            there are affinities, else the prediction, which of `ImplicitMBMF` is the affinity.

        Returns
        -------
        (items, scores), or a frame
        """
        asked = self._read_request(users, n, exclude_seen, candidates, exclude, output, bounds, by)
        lists = _joined(list(self._lists(asked)), asked.n)
        answer = self._present(asked, slice(None), lists)
        return answer[1:] if output == "arrays" else answer

    @overload
    def recommend_batches(
        self,
        users: Any = None,
        n: int = 10,
        exclude_seen: bool = True,
        candidates: Any = None,
        exclude: Any = None,
        output: Literal["arrays"] = "arrays",
        batch_size: int = 4096,
        bounds: Any = None,
        by: By = "auto",
    ) -> Iterator[tuple[NDArray[Any], NDArray[Any], Floats]]: ...
    @overload
    def recommend_batches(
        self, users: Any = None, n: int = 10, *, output: Literal["pandas"], **more: Unpack[WantedBatches]
    ) -> Iterator[pd.DataFrame]: ...
    @overload
    def recommend_batches(
        self, users: Any = None, n: int = 10, *, output: Literal["polars"], **more: Unpack[WantedBatches]
    ) -> Iterator[pl.DataFrame]: ...
    @overload
    def recommend_batches(
        self, users: Any = None, n: int = 10, *, output: Literal["pyarrow"], **more: Unpack[WantedBatches]
    ) -> Iterator[Any]: ...
    def recommend_batches(
        self,
        users: Any = None,
        n: int = 10,
        exclude_seen: bool = True,
        candidates: Any = None,
        exclude: Any = None,
        output: Output = "arrays",
        batch_size: int = 4096,
        bounds: Any = None,
        by: By = "auto",
    ) -> Iterator[Any]:
        """`recommend` for some users at a time: the lists of all of them need never be in memory together.

        Parameters
        ----------
        users, n, exclude_seen, candidates, exclude, output, bounds, by
            As in `recommend`.
        batch_size
            Users in a batch.

        Returns
        -------
        an iterator over (users, items, scores), or over frames
        """
        asked = self._read_request(users, n, exclude_seen, candidates, exclude, output, bounds, by)
        check_count("batch_size", batch_size, 1)
        return self._batches(asked, batch_size)

    def _batches(self, asked: Asked, size: int) -> Iterator[Any]:
        waiting, n_waiting, done = [], 0, 0
        for lists in self._lists(asked):
            waiting.append(lists)
            n_waiting += len(lists.items)
            while n_waiting >= size or 0 < n_waiting == len(asked.users) - done:
                items, scores = _joined(waiting, asked.n)
                yield self._present(asked, slice(done, done + size), Lists(items[:size], scores[:size]))
                done += len(items[:size])
                waiting, n_waiting = [Lists(items[size:], scores[size:])], len(items[size:])

    def _lists(self, asked: Asked) -> Iterator[Lists]:
        """Row numbers of items and their scores, for some users at a time in their order."""
        return self._by_prediction(asked)

    def _by_prediction(self, asked: Asked) -> Iterator[Lists]:
        """The items with the highest predictions."""
        fitted, answered = self._asked_of(asked), self.on_unknown != "nan"
        if fitted.rule is not None:
            lacking: list[tuple[int, int]] = []
            ranked = answers.scored(fitted, fitted.rule, asked.user_ids, asked.users, answered, lacking)
            yield from top_n_scored(ranked, asked.users, asked.n, asked.items, asked.seen, self.n_jobs)
            if lacking:
                tell_left_out(asked.user_ids.item(lacking[0][0]), fitted.items.ids.ids.item(lacking[0][1]))
            return
        ranking = answers.ranking(fitted, answered)
        yield from top_n(ranking, asked.users, asked.n, asked.items, asked.seen, self.n_jobs)

    def _asked_of(self, asked: Asked) -> Fitted:
        """The model that answers, with another rule for ranges where the request has one."""
        return self._answering() if asked.rule is None else replace(self._answering(), rule=asked.rule)

    def _present(self, asked: Asked, rows: slice, lists: Lists) -> Any:
        """Lists of row numbers with ids in their place: (users, items, scores), or a frame."""
        fitted, there = self._asked_of(asked), lists.items >= 0
        ids = fitted.items.ids.ids
        if asked.output == "arrays":
            items = np.full(lists.items.shape, -1 if ids.dtype == np.int64 else None, ids.dtype)
            items[there] = ids[lists.items[there]]
            return asked.user_ids[rows], items, lists.scores
        rank = np.nonzero(there)[1]
        user_ids, pairs = self._listed_pairs(asked, rows, lists)
        lower, upper = fitted.ranges.interval(pairs)
        columns = {
            "user": user_ids,
            "item": ids[pairs.items],
            "rank": rank + 1,
            "score": lists.scores[there],
            "lower": lower,
            "upper": upper,
        }
        std = answers.deviations(fitted, pairs)
        columns = self._with_parts(columns if std is None else {**columns, "std": std}, asked, pairs)
        return build_frame(columns, asked.output)

    def _with_parts(self, columns: dict[str, Any], asked: Asked, pairs: Pairs) -> dict[str, Any]:
        """The columns of a frame, with what its scores are made of."""
        return columns

    def _listed_pairs(self, asked: Asked, rows: slice, lists: Lists) -> tuple[NDArray[Any], Pairs]:
        """Users and items that stand in lists, list by list: ids of users, and row numbers with ranges."""
        fitted, there = self._asked_of(asked), lists.items >= 0
        place = np.nonzero(there)[0]
        user_ids, users, items = asked.user_ids[rows][place], asked.users[rows][place], lists.items[there]
        users = np.where(fitted.users.trained[users], users, -1)
        ends = None if fitted.rule is None else fitted.rule.ends(user_ids, fitted.items.ids.ids[items])
        return user_ids, Pairs(users, items, ends)

    def _read_request(
        self, users: Any, n: int, exclude_seen: bool, candidates: Any, exclude: Any, output: Output, bounds: Any, by: By
    ) -> Asked:
        self._check_can_answer()
        by = self._sorted_by(by)
        check_count("n", n, 1)
        check_flag("exclude_seen", exclude_seen)
        check_word("output", output, OUTPUTS)
        if output in LIBRARIES:
            import_library(output)  # before a long search, not after it
        fitted = self.fitted_
        column = fitted.users.ids.ids if users is None else id_column(users, "users")
        self._known_codes("user", column, fitted.users)  # says so where they must be known
        codes = fitted.users.ids.codes(column)
        n = min(int(n), len(fitted.items.ids))
        seen = fitted.seen if exclude_seen else None
        if isinstance(exclude, Mapping):
            seen, exclude = self._seen_or_excluded(seen, exclude, id_array(column), codes), None
        items = self._items_to_search(candidates, exclude)
        return Asked(id_array(column), codes, items, n, seen, output, _rule_to_ask(fitted.rule, bounds), by)

    def _sorted_by(self, by: By) -> By:
        """What lists are sorted by, where "auto" is resolved; refused where the model has no such score."""
        check_word("by", by, get_args(By))
        if by == "lower" and self.fitted_.noise_variances is None:
            raise ValueError(
                f"by='lower' takes the standard deviation of predictions off them, and {type(self).__name__} knows "
                "none: fit a BayesianMBMF, or pass by='rating'."
            )
        if by == "blend" and self.fitted_.choices is None:
            raise ValueError(
                "by='blend' needs to know who chooses what besides how they rate it: fit a BayesianMBMF or an MBMF "
                "with affinity=True, or pass by='rating'."
            )
        if by == "auto":
            return "rating" if self.fitted_.choices is None else "blend"
        return by

    def _items_to_search(self, candidates: Any, exclude: Any) -> Codes:
        """Row numbers of the items that may be recommended, in their order."""
        side = self.fitted_.items
        chosen = side.trained.copy()
        if candidates is not None:
            chosen[:] = False
            chosen[_trained_rows(side, id_column(candidates, "candidates"))] = True
        if exclude is not None:
            column = id_column(exclude, "exclude")
            codes = side.ids.codes(column)
            _warn_of_other_type("item", column, side.ids, codes)
            chosen[codes[codes >= 0]] = False
        return np.flatnonzero(chosen)

    def _seen_or_excluded(
        self, seen: Seen | None, exclude: Mapping[Any, Any], asked: NDArray[Any], codes: Codes
    ) -> Seen:
        """What each user is not to be shown: what they have seen, and what is excluded for them alone."""
        users, side = self.fitted_.users.ids, self.fitted_.items
        columns = {user: id_column(items, f"exclude of user {short(user)}") for user, items in exclude.items()}
        strangers = [one for one in asked[codes < 0].tolist() if len(columns.get(one, ())) and self.on_unknown != "nan"]
        if strangers:
            raise ValueError(
                f"exclude: user {short(strangers[0])} is not known, and all who are not have one list: ask for theirs "
                "alone, with exclude=[...] of items."
            )
        known = users.codes(list(columns))
        _warn_of_other_type("user", list(columns), users, known)
        rows = np.repeat(known, [len(column) for column in columns.values()])
        excluded = [one for column in columns.values() for one in id_array(column).tolist()]
        items = side.ids.codes(excluded)
        if excluded:
            _warn_of_other_type("item", excluded, side.ids, items)
        both = (rows >= 0) & (items >= 0)
        before = Seen.nothing(len(users)) if seen is None else seen
        return before.with_pairs(rows[both], items[both], (len(users), len(side.ids)))

    # --- neighbours and vectors -------------------------------------------------------------------------------

    def similar_items(self, item: Any, n: int = 10) -> tuple[NDArray[Any], Floats]:
        """The items whose factors point most nearly the same way, best first.

        Parameters
        ----------
        item
            The id of an item with training ratings or features.
        n
            How many; there are fewer where the model knows fewer.

        Returns
        -------
        items, similarities
            Ids, and the cosine of the angle between the factors: 1 for the same direction, −1 for the opposite one.
            Biases, where the model has them, do not count.
        """
        return self._similar("item", item, n)

    def similar_users(self, user: Any, n: int = 10) -> tuple[NDArray[Any], Floats]:
        """The users whose factors point most nearly the same way; as `similar_items`."""
        return self._similar("user", user, n)

    def _similar(self, kind: str, one: Any, n: int) -> tuple[NDArray[Any], Floats]:
        check_is_fitted(self)
        check_count("n", n, 1)
        side = self.fitted_.side(kind)
        row = int(side.codes([one])[0])
        if row < 0:
            raise ValueError(f"{kind} {short(one)} {side.why_unknown(one)}: pass the id of one that has ratings.")
        found = answers.similar(self.fitted_, kind, row, int(n))
        return side.ids.ids[found.items], found.scores

    def export_vectors(self) -> Vectors:
        """Vectors for an approximate index: the larger the inner product, the higher the prediction.

        Returns
        -------
        Vectors
            ``users`` and ``items`` in float32, one row for each id in ``user_ids`` and ``item_ids`` (those with
            training ratings or features); and ``exact``, whether the order of inner products is the model's own.
            Centres that differ from pair to pair take one more dimension than the factors have. Constants are left
            out: they change no order, nor does the power of two by which very large or small vectors are divided to
            fit float32.
        """
        check_is_fitted(self)
        fitted = self._answering()
        if fitted.rule is not None:
            raise ValueError(
                "every pair has a range of its own, so no inner product has the order of the predictions: ask for "
                "lists with recommend, which is exact."
            )
        users, items = fitted.ranges.vectors(fitted.users.factors, fitted.items.factors)
        return Vectors(
            _in_float32(users[fitted.users.trained]),
            _in_float32(items[fitted.items.trained]),
            fitted.users.ids.ids[fitted.users.trained],
            fitted.items.ids.ids[fitted.items.trained],
            fitted.ranges.keeps_order(fitted.items.trained),
        )

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
        from boundrec import model_file

        model_file.save(self, path, keep_ratings)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.categorical = tags.input_tags.sparse = True
        tags.non_deterministic = self.random_state is None
        return tags


class RatingModel(RatingSettings, FactorisationModel):
    """A model of ratings, which may be known to obey bounds."""

    def _read(self, X: Any, y: Any, sample_weight: ArrayLike | None, ends: Ends | None = None) -> Ratings:
        """Ratings to learn from: inside the declared bounds, and finite as the model stores them."""
        ratings = Ratings.read(X, y, sample_weight=sample_weight, duplicates=self.duplicates, ends=ends)
        bounds, dtype = self._declared(), np.dtype(self.dtype)
        ratings.check_bounds(bounds)
        ratings.check_fits(dtype)
        check_bounds_fit(bounds, dtype)
        return ratings

    def _declared(self) -> Bounds:
        return check_bounds(self.bounds)

    def _read_parts(self, trained: Ratings, X: Any, y: Any = None) -> Ratings:
        return Ratings.read(X, y, duplicates=self.duplicates)


def refuse_unknown_arguments(model: FactorisationModel, unknown: Iterable[str]) -> None:
    """Refuse what ``fit`` does not take as Python does, but say which model takes features."""
    for name in unknown:
        if name in ("user_features", "item_features"):
            raise TypeError(
                f"{type(model).__name__} learns from ratings alone and takes no {name}: fit a BayesianMBMF, which "
                "learns from both, or leave them out."
            )
        raise TypeError(f"{type(model).__name__}.fit() got an unexpected keyword argument {name!r}")


def tell_left_out(user: Any, item: Any) -> None:
    """One warning about lists where some pairs have no range."""
    warn(f"pairs without a range are left out of the lists (first: user {user!r}, item {item!r}).")


def with_factors(start: Fitted, learned: Learned, course: Course) -> Fitted:
    """What is known before the first sweep, and what one run has learnt."""
    users, items = replace(start.users, factors=learned.users), replace(start.items, factors=learned.items)
    return replace(start, users=users, items=items, course=course, found={**start.found, **learned.found})


def memory() -> float:
    """Bytes of memory that this machine has, where it tells."""
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, OSError, ValueError):
        return np.inf


def _is_true(answer: object) -> bool:
    """Whether a callback answers True, or NumPy's; anything else that counts as true may be there by accident."""
    return isinstance(answer, (bool, np.bool_)) and bool(answer)


def _remedy(dtype: np.dtype[Any]) -> str:
    return f"{wider_than(dtype)}bring the ratings and their bounds nearer to 1"


# --- ids of all kinds ---------------------------------------------------------------------------------------


def check_names(known: Names | None, given: Names | None, where: str = "X") -> None:
    """Hold the columns of a frame against those of the fit; pairs without names are read by position.

    As scikit-learn does, but that an array after a frame is worth no warning: a list of pairs is how one asks by hand.
    """
    if given is None or given == (known or OWN_NAMES):
        return
    told = f"{where} has the columns {_listed(given)}"
    if known is None:
        warn(
            f"{told}, but the model is fitted without names: they are read by position, users first. Pass an array or "
            "a list of pairs if that is right, or fit on a frame to have names compared."
        )
        return
    remedy = "pass them in this order"
    if set(given) != set(known):
        remedy = "rename them, users first, or pass an array or a list of pairs, which are read by position"
    raise ValueError(f"{told}, but the model is fitted on {_listed(known)}: {remedy}.")


def _listed(names: Names) -> str:
    return ", ".join(map(repr, names))


def _plain(value: Any) -> Any:
    """A NumPy scalar as the Python object that a message should show."""
    return value.item() if isinstance(value, np.generic) else value


def _warn_of_other_type(kind: str, column: Any, ids: IdIndex, codes: Codes) -> None:
    if codes.size and (codes < 0).all():
        first = _plain(column[0])
        if isinstance(first, float) and first.is_integer():  # which is the same id as that integer
            first = int(first)
        asked, known = type(first).__name__, type(ids.ids.item(0)).__name__
        if asked != known:
            warn(f"no {kind} is known: the {kind}s given are {asked}, those of the fit {known}.")


def _refuse_unknown(kind: str, ids: Any, codes: Codes) -> None:
    unknown = np.flatnonzero(codes < 0)
    if unknown.size:
        raise ValueError(
            f"{unknown.size} of {codes.size} rows have no {kind} with training ratings (first: row {unknown[0]}, "
            f'{kind} {_plain(ids[unknown[0]])!r}). Pass on_unknown="mean" or "nan" to have them answered.'
        )


def _trained_rows(side: FittedSide, column: Column) -> Codes:
    codes = side.codes(column)
    unknown = np.flatnonzero(codes < 0)
    if unknown.size:
        raise ValueError(
            f"candidates: {unknown.size} of {len(column)} items have no training ratings "
            f"(first: {short(id_array(column).item(unknown[0]))}): leave them out."
        )
    return codes


def _rule_to_ask(own: Rule | None, bounds: Any) -> Rule | None:
    """The rule that a request for lists brings along; refused where there is no place for one, or none at all."""
    if bounds is None:
        if isinstance(own, WithRows):
            raise ValueError(
                "the ranges of this model came with its rows, and lists need one for every pair: pass bounds=, such as "
                "PerItem(...), PerPair(...) or a function of user ids and item ids."
            )
        return None
    rule: Rule | None = rule_of(bounds)
    if own is None or rule is None or isinstance(rule, WithRows):
        why = "this model has one range for all" if own is None else "lists need a rule for ranges of pairs"
        raise ValueError(f"bounds={short(bounds)}: {why}; leave it out, or see PerItem, PerUser and PerPair.")
    return rule


def _in_float32(vectors: Reals) -> NDArray[np.float32]:
    """Vectors whose inner products float32 holds: divided by a power of two where they are too large or too small."""
    size = float(np.abs(vectors).max(initial=0.0))
    if size and not 1 / MODERATE < size < MODERATE:
        vectors = np.ldexp(vectors.astype(np.float64), -int(np.frexp(size)[1]))
    return np.ascontiguousarray(vectors, np.float32)


def _joined(blocks: list[Lists], n: int) -> Lists:
    empty = Lists(np.empty((0, n), np.int64), np.empty((0, n)))
    items, scores = (np.concatenate(parts) for parts in zip(empty, *blocks, strict=True))
    return Lists(items, scores)
