"""Calls at the Python doors: the life of a model, from random settings and data to what it answers in the end."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from sklearn.base import clone

import boundrec
from benchmarks.fuzz_cases.answers import check_lists, check_neighbours, check_predictions, check_vectors, has_range
from benchmarks.fuzz_cases.oracles import REFUSED, BrokenRuleError, Witness, require
from benchmarks.fuzz_cases.values import (
    ODD,
    Data,
    Rng,
    chance,
    pick,
    some_bounds,
    some_data,
    some_ids,
    some_rule,
    some_weights,
)
from boundrec import registry
from boundrec.models.bounded import BoundedModel
from boundrec.models.new_ratings import TakesNewRatings

#: Values that settings may have; those that are not here keep their defaults.
SETTINGS: dict[str, list[Any]] = {
    "biases": ["auto", True, False],
    "bound_on": ["all", "observed"],
    "burn_in": [None, 0, 1],
    "clip": [True, False],
    "constraint": ["ball", "sphere"],
    "dtype": ["float64", "float32", np.float32],
    "duplicates": ["raise", "last", "mean"],
    "form": ["c", "n"],
    "history_count": [None, 1, 0.1],
    "history_share": [0.1, 1, 1e-3],
    "init": ["auto", "angles", "angles-unit", "angles-quarter", "sphere", "orthant"],
    "initial_step": [0.1, 10.0, 1e-9],
    "inner_iter": [1, 5],
    "learning_rate": [None, 0.01, 1.0],
    "link": [None, "log1p"],
    "magnitudes": ["auto", "range", "history", "paper"],
    "n_iter_no_change": [None, 1],
    "n_kept": [1, 3],
    "n_restarts": [1, 2],
    "noise_growth": ["auto", 0, 0.5, 1],
    "on_contradiction": ["keep", "widen", "drop", "raise"],
    "on_unknown": ["mean", "nan", "raise"],
    "patience": [1, 10],
    "penalty": [0.05, 1.0, 1e6],
    "rho": [1.0, 1e-3],
    "ridge": [0.0, 0.1, 10.0, 1e-9],
    "ridge_mode": ["weighted", "plain"],
    "sharpness": [1.0, 10.0],
    "slack": ["auto", 1.0, 1.5, 4.0, 19.9],
    "solver": ["exact", "angles"],
    "step": ["dynamic", "fixed", "line-search"],
    "steps": ["separate", "shared"],
    "tol": [0.0, 1e-5, 10.0],
    "tol_mode": ["relative", "absolute"],
    "validation_fraction": [None, 0.3],
    "warm_start": [True, False],
}
#: A valid value here that is large is not wrong, only slow.
SIZES = ("n_factors", "max_iter", "n_kept", "n_restarts", "inner_iter", "n_jobs", "patience", "burn_in")


class EnoughError(Exception):
    """What a callback of ours raises."""


def life(rng: Rng, folder: Path, witness: Witness) -> None:
    """Fit a random model to random data; ask it for everything; give it new ratings; save and load it."""
    share_odd = pick(rng, [0.0, 0.05, 0.3])
    data = some_data(rng, share_odd)
    model = some_model(rng, data, share_odd)
    witness.call("get_params", model.get_params)
    if not fit(witness, model, rng, data, share_odd):
        model = second_attempt(witness, model, rng)
        if model is None:
            return
    else:
        check_swapped(witness, model, data)
    for after in rng.permutation(len(AFTERWARDS))[:5]:
        AFTERWARDS[after](witness, model, rng, folder)


def some_model(rng: Rng, data: Data, share_odd: float) -> Any:
    """A model with some settings of its own, small and with few sweeps."""
    model_class = pick(rng, registry.MODELS).load()
    rivals_solver = model_class.__name__ in ("MF", "BoundedSVD")
    names = model_class().get_params()
    settings: dict[str, Any] = {"n_factors": int(rng.integers(2, 5)), "max_iter": int(rng.integers(1, 5)), "n_jobs": 1}
    settings |= {"random_state": int(rng.integers(100)), "bounds": some_bounds(rng, data.ratings, share_odd)}
    for name in names:
        if name in SETTINGS and chance(rng, 0.15):
            settings[name] = pick(rng, ["gd", "sgd"] if rivals_solver and name == "solver" else SETTINGS[name])
    if model_class is boundrec.MBMF and chance(rng, 0.15):
        settings = {**settings, **boundrec.MBMF.as_in_paper().get_params(), **_kept_of(settings)}
    if settings.get("solver") == "angles" and not chance(rng, share_odd):
        settings["constraint"] = "sphere"
    if issubclass(model_class, BoundedModel) and chance(rng, 0.05):
        sides = (data.users, 0.5), (data.items, 1.5)
        settings["magnitudes"] = tuple(dict.fromkeys(_hashable(ids), magnitude) for ids, magnitude in sides)
    if issubclass(model_class, BoundedModel) and chance(rng, 0.25):
        settings["bounds"] = some_rule(rng, data)
    if chance(rng, share_odd):
        odd = pick(rng, list(names))
        settings[odd] = pick(rng, [one for one in ODD if odd not in SIZES or not isinstance(one, int) or one < 100])
    if chance(rng, 0.1):
        settings["random_state"] = pick(rng, [np.random.default_rng(0), np.random.RandomState(0)])
    if chance(rng, 0.1):
        settings["n_jobs"] = 2
    return model_class(**{name: value for name, value in settings.items() if name in names})


def _kept_of(settings: dict[str, Any]) -> dict[str, Any]:
    """What a random model in the paper's settings keeps of its own."""
    return {name: settings[name] for name in ("n_factors", "max_iter", "n_jobs", "random_state", "bounds")}


def _hashable(ids: list[Any]) -> list[Any]:
    return [one for one in ids if getattr(type(one), "__hash__", None) is not None]


# --- fitting ------------------------------------------------------------------------------------------------


def fit(witness: Witness, model: Any, rng: Rng, data: Data, share_odd: float) -> bool:
    """Whether a fit, with random company, was answered; one that was refused must leave the model as it was."""
    options: dict[str, Any] = {}
    if data.y is not None and chance(rng, 0.15):
        options["sample_weight"] = some_weights(rng, len(data.ratings), share_odd)
    if chance(rng, 0.1):
        options["eval_set"] = _beside(rng, data, share_odd)
    if isinstance(model, BoundedModel) and chance(rng, 0.15):
        options["history"] = _beside(rng, data, share_odd)
    if chance(rng, 0.1):
        options["callback"] = pick(rng, [lambda *_: True, lambda *_: None, lambda *_: "yes", _raise_enough])
    before = dict(vars(model))
    fitted = witness.call("fit", _but_enough(model.fit), data.X, data.y, **options)
    if fitted is REFUSED or fitted is None:
        require(_is_same(before, vars(model)), "a fit that was refused changes the model")
        return False
    require(fitted is model, "fit returns something other than the model")
    return True


def _beside(rng: Rng, data: Data, share_odd: float) -> Any:
    if chance(rng, share_odd):
        return pick(rng, ODD)
    other = some_data(rng, 0.0, data.users, data.items)
    ratings = rng.choice(data.ratings, len(other.ratings))
    return (other.X, ratings) if other.y is not None else other.X


def _raise_enough(*_: Any) -> None:
    raise EnoughError


def _but_enough(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, or None where a callback ends it with `EnoughError`."""

    def call(*arguments: Any, **options: Any) -> Any:
        try:
            return function(*arguments, **options)
        except EnoughError:
            return None

    return call


def _is_same(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    return all(before.get(name) is after.get(name) for name in before.keys() | after.keys())


def check_swapped(witness: Witness, model: Any, data: Data) -> None:
    """A frame with its columns the other way round is not answered as if users were items."""
    if isinstance(data.X, pd.DataFrame | pl.DataFrame):
        answer = witness.call("predict", model.predict, data.X[["item", "user"]])
        require(answer is REFUSED, "predict takes the items of a frame for users")


def second_attempt(witness: Witness, model: Any, rng: Rng) -> Any:
    """After a refusal, ordinary data under the class's own settings must be fitted."""
    if not chance(rng, 0.3):
        return None
    bounds = {"bounds": (1, 5)} if "bounds" in model.get_params() else {}
    model = type(model)(2, max_iter=2, n_jobs=1, random_state=0, **bounds)
    ratings = rng.integers(1, 6, 12).astype(float)
    pairs = [(user, item) for user in range(3) for item in range(4)]
    require(
        witness.call("fit", model.fit, pairs, ratings) is model, f"ordinary data are refused: {witness.last_refusal}"
    )
    return model


# --- after the fit ------------------------------------------------------------------------------------------


def predictions(witness: Witness, model: Any, rng: Rng, folder: Path) -> None:
    """What it predicts."""
    check_predictions(witness, model, rng)


def lists(witness: Witness, model: Any, rng: Rng, folder: Path) -> None:
    """What it recommends."""
    check_lists(witness, model, rng)


def neighbours(witness: Witness, model: Any, rng: Rng, folder: Path) -> None:
    """Who is like whom, and vectors."""
    check_neighbours(witness, model, rng)
    check_vectors(witness, model, rng)


def settings(witness: Witness, model: Any, rng: Rng, folder: Path) -> None:
    """A clone has the same settings; a setting is set, or refused."""
    twin = witness.call("clone", clone, model)
    if twin is not REFUSED:
        require(twin.get_params().keys() == model.get_params().keys(), "a clone has other settings")
    other = copy.copy(model)
    name = pick(rng, [*model.get_params(), "no_such_setting"])
    if name not in SIZES:
        witness.call("set_params", other.set_params, **{name: pick(rng, ODD)})
        witness.call("predict after set_params", other.predict, [(0, 0)])
    witness.call("predict before fit", type(model)().predict, [(0, 0)])
    witness.call("repr", repr, model)


def refitting(witness: Witness, model: Any, rng: Rng, folder: Path) -> None:
    """A second fit to the same ratings, which goes on where the first stopped if it is told to."""
    ratings = model.fitted_.ratings
    if ratings is not None and witness.call("fit again", model.fit, ratings) is not REFUSED:
        check_predictions(witness, model, rng)
        check_lists(witness, model, rng)


def folding_in(witness: Witness, model: Any, rng: Rng, folder: Path) -> None:
    """A view for new users or items; the model stays as it was."""
    if not isinstance(model, TakesNewRatings | boundrec.ImplicitMBMF):
        return
    axis = pick(rng, ["users", "items"])
    data = _new_data(rng, model, axis)
    before, bits = dict(vars(model)), _bits(model)
    options = {"axis": axis if chance(rng, 0.95) else pick(rng, ODD)}
    if data.y is not None and chance(rng, 0.1):
        options["sample_weight"] = some_weights(rng, len(data.ratings), 0.3)
    view = witness.call("fold_in", model.fold_in, data.X, data.y, **options)
    require(_is_same(before, vars(model)) and _bits(model) == bits, "fold_in changes the model")
    if view is not REFUSED:
        check_predictions(witness, view, rng)
        check_lists(witness, view, rng)


def more_ratings(witness: Witness, model: Any, rng: Rng, folder: Path) -> None:
    """Ratings that come after the fit; refused, they leave the model as it was."""
    if not isinstance(model, TakesNewRatings | boundrec.ImplicitMBMF):
        return
    data = _new_data(rng, model, pick(rng, ["users", "items", "both"]))
    before, bits = dict(vars(model)), _bits(model)
    if witness.call("partial_fit", model.partial_fit, data.X, data.y) is REFUSED:
        require(_is_same(before, vars(model)) and _bits(model) == bits, "a refused partial_fit changes the model")
        return
    check_predictions(witness, model, rng)
    check_lists(witness, model, rng)


def _new_data(rng: Rng, model: Any, axis: str) -> Data:
    """Ratings like those of the fit, of new users (or items) and of known ones."""
    users, items = model.user_ids_.ids.tolist(), model.item_ids_.ids.tolist()
    new = some_ids(rng, 3, 0.1)
    users = users if axis == "items" else [*users[:2], *new]
    items = items if axis == "users" else [*items[:2], *new]
    data = some_data(rng, 0.02, users, items)
    known = model.fitted_.ratings
    if known is not None and chance(rng, 0.8) and data.y is not None:
        ratings = rng.choice(known.by_user.data, len(data.ratings))
        return data._replace(y=ratings, ratings=ratings)
    return data


def _bits(model: Any) -> list[bytes]:
    return [model.user_factors_.tobytes(), model.item_factors_.tobytes(), model.user_means_.tobytes()]


def files(witness: Witness, model: Any, rng: Rng, folder: Path) -> None:
    """A saved model comes back with the same bits."""
    path = folder / f"model-{len(os.listdir(folder))}.safetensors"
    keep = chance(rng, 0.5)
    if witness.call("save", model.save, path, keep_ratings=keep) is REFUSED:
        require(not os.path.exists(path), "a save that was refused leaves a file")
        return
    again_given = {"bounds": model.bounds} if callable(model.bounds) else {}
    loaded = witness.call("load", boundrec.load, path, **again_given)
    require(loaded is not REFUSED, f"a saved model is refused: {witness.last_refusal}")
    users, items = model.user_ids_.ids.tolist(), model.item_ids_.ids.tolist()
    pairs = [(user, item) for user in users for item in items]
    pairs = [pair for pair in pairs if has_range(model, pair)]
    try:
        same = np.array_equal(model.predict(pairs), loaded.predict(pairs), equal_nan=True)
    except ValueError as error:  # on_unknown="raise", and somebody without weight
        same = "training ratings" in str(error)
    require(same, "a loaded model predicts other bits")
    again = path.with_suffix(".again")
    if witness.call("save", loaded.save, again, keep_ratings=keep) is REFUSED:
        raise BrokenRuleError(f"a loaded model cannot be saved: {witness.last_refusal}")
    check_predictions(witness, loaded, rng)
    check_lists(witness, loaded, rng)
    if keep:
        more_ratings(witness, loaded, rng, folder)


AFTERWARDS: list[Callable[[Witness, Any, Rng, Path], None]] = [
    predictions,
    predictions,
    lists,
    lists,
    neighbours,
    settings,
    refitting,
    folding_in,
    more_ratings,
    files,
]
