"""Models to files and back: one safetensors file, verified, never pickle; docs/model-files.md says how.

A file holds what a `Fitted` is, part by part under names of its own, and the model's settings. Which parts there are is
for the model's class to say, in ``STORED``: the kind of each (a row of :data:`boundrec.model_file.parts.KINDS`,
"optional" in front where it may be missing) and, where it is an array, a name for each of its sizes; sizes of the same
name must agree. ``user_factors`` is the factors of the users' side, and so on for both sides; a few parts have names
from before there was a `Fitted`; any other name is one of the numbers that only some models have (``Fitted.found``).
What a model of ratings knows of who chooses what is a model of its own with the same users and items, whose parts have
``affinity.`` in front of their names.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from boundrec import registry
from boundrec.data.columns import short
from boundrec.model_file import tensor_file
from boundrec.model_file.checks import check_agreement, check_factors, check_ratings
from boundrec.model_file.parts import (
    KINDS,
    Contents,
    Source,
    restore_ratings,
    restore_settings,
    store_ratings,
    stored_setting,
)
from boundrec.models.blend import KnowsChoices, with_choices
from boundrec.models.estimator import FactorisationModel
from boundrec.models.fitted import Course, Fitted, FittedSide, NoiseShape
from boundrec.models.implicit import ImplicitMBMF
from boundrec.ranges import Ranges
from boundrec.ranges.rules import ByFunction, Widened
from boundrec.ranges.unit import UnitRange
from boundrec.rivals import Cut
from boundrec.solvers.gibbs import Prior

#: In front of the kind of a part that may be missing.
OPTIONAL = "optional "
SIDES = ("user", "item")
#: In front of the names of what a model of ratings knows of who chooses what, and what that has no names for.
OF_CHOICES, OF_THE_WHOLE = "affinity.", ("user_ids", "item_ids", "seen")
OF_FEATURES = tuple(f"{kind}_{part}" for kind in SIDES for part in ("links", "usual"))
STORED_OF_CHOICES = {
    part: kind
    for part, kind in ImplicitMBMF.STORED.items()
    if part not in (*OF_THE_WHOLE, "n_features_in", "column_names", *OF_FEATURES)
}
#: Of a side: the name that a file has for a field.
OF_A_SIDE = {
    "ids": "ids",
    "factors": "factors",
    "means": "means",
    "seen": "trained",
    "biases": "biases",
    "spread": "spread",
    "links": "links",
    "usual": "usual",
    "steadiness": "steadiness",
}


def save(model: FactorisationModel, path: str | os.PathLike[str], keep_ratings: bool = False) -> None:
    """Write a fitted model to one file, whole or not at all; see `FactorisationModel.save`."""
    name, path = type(model).__name__, os.fspath(path)
    check_is_fitted(model)
    entry = registry.entry(name)
    if entry is None or entry.home != type(model).__module__:
        known = ", ".join(sorted(one.name for one in registry.MODELS))
        raise TypeError(f"a {name} cannot be saved: files hold {known}, not classes made from them.")
    model.check_settings()
    contents, choices = _stored(model.fitted_, model.STORED), model.fitted_.choices
    if choices is not None:
        contents.take_in(OF_CHOICES, _stored(choices, STORED_OF_CHOICES))
    if keep_ratings:
        store_ratings(contents, model.fitted_.ratings)
    text = {
        "model": name,
        "settings": json.dumps({key: stored_setting(key, value) for key, value in model.get_params().items()}),
        "values": json.dumps(contents.values),
        "shared": json.dumps(contents.shared),
    }
    with _in_a_sentence(path, "saved"):
        check_agreement(model)
        tensor_file.write(path, contents.arrays, text)


def _stored(fitted: Fitted, parts: Mapping[str, str]) -> Contents:
    contents, values = Contents(), taken_apart(fitted)
    for part, description in parts.items():
        if values.get(part) is not None:
            kind = description.removeprefix(OPTIONAL).split()[0]
            KINDS[kind].store(contents, part, values[part])
    return contents


def load(
    path: str | os.PathLike[str], verify: bool = True, bounds: Callable[[Any, Any], Any] | None = None
) -> FactorisationModel:
    """Load a model from a file that `save` wrote: whatever model it holds.

    The file is mapped into memory rather than read: several processes share it, and what is not used is not loaded.
    Leave it as it is while a model uses it; saving another model under its name is safe.

    Parameters
    ----------
    path
        The file.
    verify
        Compare the content with its checksum, and look at every value: factors within their magnitudes, items that
        exist. Only skip this for a file that was verified before.
    bounds
        Of a model whose ranges come from a function: that function, which files do not hold.

    Returns
    -------
    model
        A fitted model that predicts with the same bits as the one that was saved. Its class is that of the saved one;
        to a type checker it is the base of all of them until ``isinstance(model, MBMF)`` or the like has told.
    """
    path = os.fspath(path)
    with _in_a_sentence(path, "loaded"):
        file = tensor_file.read(path, verify)
        return _restore(Source(file, path, verify, bounds))


def _restore(source: Source) -> FactorisationModel:
    name = source.text.get("model", "")
    entry = registry.entry(name)
    if entry is None:
        raise ValueError(f"it holds a {short(name)}, a model that this boundrec does not know.")
    model_class: type[FactorisationModel] = entry.load()
    state = _restore_parts(source, model_class.STORED)
    rule = state.get("rule")
    if source.bounds is not None and not isinstance(rule.rule if isinstance(rule, Widened) else rule, ByFunction):
        raise ValueError("bounds= is for models whose ranges come from a function, which it is not: leave it out.")
    state["ratings"] = restore_ratings(source, state)
    choices = _restore_choices(source, state) if issubclass(model_class, KnowsChoices) else None
    source.refuse_what_is_left()
    model = model_class(**restore_settings(source, model_class, state))
    try:
        model.check_settings()
    except (TypeError, OverflowError):
        raise ValueError("its settings are damaged.") from None
    fitted = assembled(state, model._n_bias_columns(state.get("user_biases") is not None))
    model._learned = fitted if choices is None else with_choices(fitted, choices)
    check_agreement(model)
    check_ratings(model)
    if source.verify:
        check_factors(model)
    return model


def _restore_choices(source: Source, state: Mapping[str, Any]) -> Fitted | None:
    """Who chooses what, where a file has it; users, items and what they have seen are those of the whole."""
    inner = source.within(OF_CHOICES)
    if not any(inner.holds(part) for part in STORED_OF_CHOICES):
        return None
    return assembled(_restore_parts(inner, STORED_OF_CHOICES) | {name: state[name] for name in OF_THE_WHOLE}, 0)


def _restore_parts(source: Source, parts: Mapping[str, str]) -> dict[str, Any]:
    state: dict[str, Any] = {}
    for part, description in parts.items():
        kind, *sizes = description.removeprefix(OPTIONAL).split()
        if source.holds(part) or not description.startswith(OPTIONAL):
            state[part] = KINDS[kind].restore(source, part, *sizes)
    return state


# --- a `Fitted` in parts, and whole again ---------------------------------------------------------------------


def taken_apart(fitted: Fitted) -> dict[str, Any]:
    """Every part that a file may hold, by its name; None where there is none."""
    course, ranges = fitted.course, fitted.ranges
    parts: dict[str, Any] = {
        "n_features_in": len(SIDES),
        "column_names": fitted.names,
        "mean": fitted.mean,
        "seen": fitted.seen,
        "objectives": course.objectives,
        "seconds": course.seconds,
        "n_iter": len(course.objectives),
        "n_rejected": course.n_rejected,
        "eval_errors": course.eval_errors,
        "best_iter": course.best_iter,
        "noise_variances": fitted.noise_variances,
        **dict(zip(("noise_shape", "noise_edges"), fitted.noise_shape or (None, None), strict=True)),
        "eval_predictions": fitted.eval_predictions,
        "rule": fitted.rule,
        **fitted.found,
    }
    for kind in SIDES:
        side = fitted.side(kind)
        parts |= {f"{kind}_{name}": getattr(side, field) for name, field in OF_A_SIDE.items()}
        if side.prior is not None:
            parts |= {f"{kind}_prior_means": side.prior.mean, f"{kind}_prior_precisions": side.prior.precision}
    if isinstance(ranges, Ranges):
        magnitudes = {"user_magnitudes": ranges.user, "item_magnitudes": ranges.item}
        parts |= {"ranges": ranges, "slack": ranges.slack, **magnitudes}
    elif isinstance(ranges, Cut):
        parts["offset"] = ranges.offset
    elif isinstance(ranges, UnitRange):
        parts["slack"] = ranges.slack
    return parts


def assembled(parts: Mapping[str, Any], n_bias_columns: int) -> Fitted:
    """What `taken_apart` took apart."""
    left = dict(parts)
    users, items = (_side(left, kind) for kind in SIDES)
    ranges = _ranges(left)
    course = Course(
        left.pop("objectives"),
        left.pop("seconds"),
        left.pop("eval_errors"),
        left.pop("best_iter", None),
        left.pop("n_rejected"),
    )
    whole: dict[str, Any] = {
        name: left.pop(name, None)
        for name in ("mean", "seen", "rule", "ratings", "noise_variances", "eval_predictions")
    }
    shape = left.pop("noise_shape", None), left.pop("noise_edges", None)
    whole["noise_shape"] = None if shape[0] is None else NoiseShape(*shape)
    names = left.pop("column_names", None)
    for name in ("n_iter", "n_features_in"):
        left.pop(name, None)
    whole |= {"names": names, "course": course, "n_bias_columns": n_bias_columns, "found": left}
    return Fitted(users, items, ranges, **whole)


def _ranges(left: dict[str, Any]) -> Ranges | Cut | UnitRange:
    if "ranges" not in left:
        return Cut(left.pop("offset")) if "offset" in left else UnitRange(left.pop("slack"))
    ranges: Ranges = replace(left.pop("ranges"), slack=left.pop("slack", 1.0))
    for kind in SIDES:
        own, shown = getattr(ranges, kind), left.pop(f"{kind}_magnitudes")
        if own is not shown and not np.array_equal(own, shown):
            raise ValueError(f"its magnitudes of {kind}s are not those of its ranges.")
    return ranges


def _side(left: dict[str, Any], kind: str) -> FittedSide:
    side: dict[str, Any] = {field: left.pop(f"{kind}_{name}", None) for name, field in OF_A_SIDE.items()}
    prior = left.pop(f"{kind}_prior_means", None), left.pop(f"{kind}_prior_precisions", None)
    return FittedSide(**side, prior=None if prior[0] is None else Prior(*prior))


@contextmanager
def _in_a_sentence(path: str, done: str) -> Iterator[None]:
    """Name the file in whatever goes wrong with it."""
    try:
        yield
    except OSError as error:
        reason = "there is no such file" if isinstance(error, FileNotFoundError) and done == "loaded" else None
        named = type(error)(f"{path} cannot be {done}: {reason or error.strerror or error}.")
        named.errno = error.errno
        raise named from None
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path} cannot be {done}: {error}") from None
