"""Predictions for pairs of ids, known or not."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from boundrec.columns import Names, column_names, pair_columns
from boundrec.models.notes import warn
from boundrec.models.stopping import trained_codes
from boundrec.ratings import IdIndex

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

Unknown = Literal["mean", "nan", "raise"]
UNKNOWN: tuple[Unknown, ...] = get_args(Unknown)
#: What `recommend` calls the columns of its frames: clear without a fit that has seen them.
OWN_NAMES: Names = ("user", "item")
#: Pairs predicted at a time, so that gathered factors stay in the cache.
BLOCK = 1 << 14


class Predicting:
    """The part of a model that predicts; the model says in `_predict_known` how its factors make a prediction."""

    on_unknown: Unknown
    mean_: float
    user_ids_: IdIndex
    item_ids_: IdIndex
    user_means_: Floats
    item_means_: Floats
    user_factors_: NDArray[np.floating]
    item_factors_: NDArray[np.floating]
    _user_seen: NDArray[np.bool_]
    _item_seen: NDArray[np.bool_]
    #: The names of the columns that the model was fitted on; None where they had none.
    _column_names: Names | None = None

    @property
    def feature_names_in_(self) -> NDArray[np.object_]:
        """The names of the columns of the frame that the model was fitted on; there are none after any other fit."""
        if self._column_names is None:
            raise AttributeError(f"this {type(self).__name__} was fitted on no frame whose columns have names.")
        return np.array(self._column_names, object)

    def _check_choice(self, name: str) -> None:
        raise NotImplementedError

    def _predict_known(self, users: Codes, items: Codes) -> Floats:
        """Predictions for row numbers that were trained."""
        return dot_rows(self.user_factors_[users], self.item_factors_[items])

    def predict(self, X: Any) -> Floats:
        """Predict the rating of each pair of ids in X; ``on_unknown`` says what unknown ids get."""
        return self._predict_codes(*self._codes(X))

    def _codes(self, X: Any) -> tuple[Codes, Codes]:
        """Row numbers of the ids in X; −1 for ids without a training rating."""
        check_is_fitted(self, "item_factors_")
        self._check_choice("on_unknown")  # it may have been set after the fit
        users, items = pair_columns(X)
        check_names(self._column_names, column_names(X))
        return (
            self._known_codes("user", users, self.user_ids_, self._user_seen),
            self._known_codes("item", items, self.item_ids_, self._item_seen),
        )

    def _known_codes(self, kind: str, column: Any, ids: IdIndex, seen: NDArray[np.bool_]) -> Codes:
        codes = trained_codes(column, ids, seen)
        if self.on_unknown == "raise":
            self._refuse_unknown(kind, column, codes)
        self._warn_of_other_type(kind, column, ids, codes)
        return codes

    def _warn_of_other_type(self, kind: str, column: Any, ids: IdIndex, codes: Codes) -> None:
        if codes.size and (codes < 0).all():
            asked, known = type(_plain(column[0])).__name__, type(ids.ids.item(0)).__name__
            if asked != known:
                warn(f"no {kind} is known: the {kind}s asked for are {asked}, those of the fit {known}.")

    def _refuse_unknown(self, kind: str, ids: Any, codes: Codes) -> None:
        unknown = np.flatnonzero(codes < 0)
        if unknown.size:
            raise ValueError(
                f"{unknown.size} of {codes.size} rows have no {kind} with training ratings (first: row {unknown[0]}, "
                f'{kind} {_plain(ids[unknown[0]])!r}). Pass on_unknown="mean" or "nan" to have them answered.'
            )

    def _predict_codes(self, users: Codes, items: Codes) -> Floats:
        predictions = self._answers(users, items)
        if self.on_unknown == "nan":
            predictions[(users < 0) | (items < 0)] = np.nan
        return predictions

    def _answers(self, users: Codes, items: Codes) -> Floats:
        """Predictions for row numbers; where one is −1 as ``on_unknown="mean"`` has it."""
        predictions = np.empty(len(users))
        for start in range(0, len(users), BLOCK):
            block = slice(start, start + BLOCK)
            predictions[block] = self._predict_known(users[block], items[block])
        unknown = (users < 0) | (items < 0)
        if unknown.any():
            predictions[unknown] = self._predict_unknown(users[unknown], items[unknown])
        return predictions

    def _predict_unknown(self, users: Codes, items: Codes) -> Floats:
        """The known side's shrunken mean; the overall mean where neither is known."""
        answer = np.full(len(users), self.mean_)
        answer = np.where(users >= 0, self.user_means_[users], answer)
        return np.where(items >= 0, self.item_means_[items], answer)


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


def dot_rows(left: NDArray[np.floating], right: NDArray[np.floating]) -> Floats:
    """Inner products row by row, summed in float64."""
    products: Floats = np.einsum("ij,ij->i", left, right, dtype=np.float64)
    return products
