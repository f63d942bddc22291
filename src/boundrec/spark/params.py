"""Parameters of Spark's estimators, made from the settings of boundrec's own: the same names, as Spark spells them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any

from pyspark.ml.param import Param, Params

from boundrec.data.columns import short

#: Settings under another name, because Spark has one for it.
RENAMED = {"random_state": "seed"}
#: Settings that another value stands for on a cluster.
OTHER_DEFAULTS = {"noise_growth": 0.5, "implicit": "off", "noise": "one"}
#: What does not run on a cluster yet, and what to do instead; a value that is named here does.
HERE = "fit it on one machine"
REFUSED: Mapping[str, tuple[tuple[Any, ...], str]] = MappingProxyType(
    {
        "solver": (("exact",), f"descent on angles does not run on Spark yet: {HERE}"),
        "implicit": (("off",), f"sets of who rated what do not run on Spark yet: {HERE}"),
        "noise": (("one",), f"a noise of each row's own does not run on Spark yet: {HERE}"),
        "affinity": ((False,), f"affinities do not run on Spark yet: {HERE}"),
        "link": ((None,), "links do not run on Spark yet: take logarithms with pyspark.sql.functions.log1p"),
        "magnitudes": (("auto", "range"), f"magnitudes of each row's own do not run on Spark yet: {HERE}"),
        "n_restarts": ((1,), f"restarts do not run on Spark yet: fit several models, or {HERE}"),
        "warm_start": ((False,), "a fit on Spark goes on from its checkpointDir"),
        "validation_fraction": ((None,), "early stopping does not run on Spark yet: choose maxIter by CrossValidator"),
        "duplicates": (("raise", "mean"), "rows of a frame have no order, so none is the last: pass 'mean'"),
        "on_contradiction": (("keep", "drop", "raise"), f"ranges are not widened on Spark yet: drop, keep, or {HERE}"),
        "noise_growth": ((), "how noise grows is not learnt on Spark yet: give a number from 0 to 1"),
        "history": ((None,), f"magnitudes from history do not run on Spark yet: {HERE}"),
        "user_features": ((None,), f"features do not run on Spark yet: {HERE}"),
        "item_features": ((None,), f"features do not run on Spark yet: {HERE}"),
        "n_jobs": ((None,), "the cluster decides how many tasks run at a time: give numPartitions"),
        "dtype": (("float64", "float32"), "give 'float64' or 'float32'"),
    }
)
#: Settings that have no parameter: nothing but what a cluster does can be asked for.
FIXED = (
    *("solver", "implicit", "noise", "affinity", "rating_weight", "link", "n_restarts", "warm_start"),
    *("validation_fraction", "n_iter_no_change", "n_jobs", "on_unknown", "history_share", "history_count"),
    *("step", "steps", "initial_step"),
)
#: What only Spark's estimators are told.
OWN = {
    "userCol": ("user", "The column of users' ids: strings or whole numbers."),
    "itemCol": ("item", "The column of items' ids."),
    "ratingCol": ("rating", "The column of ratings."),
    "lowerCol": (None, "Where every pair has a range of its own: the column of lower ends; None for 0."),
    "upperCol": (None, "Where every pair has a range of its own: the column of upper ends; None for one range."),
    "predictionCol": ("prediction", "The column of predictions that transform adds."),
    "rangeCols": (["lower", "upper"], "The columns with both ends of each prediction's range that transform adds."),
    "stdCol": ("std", "The column of standard deviations that transform adds, of a Bayesian model."),
    "coldStartStrategy": (
        "answer",
        "What pairs with an unknown id get: 'answer', what is known of the others, inside its range; 'nan'; or 'drop'.",
    ),
    "mode": ("auto", "How the other side reaches a task: 'whole', in 'blocks' of what it needs, or 'auto', by size."),
    "numPartitions": (None, "Tasks of a half-step; None for one a block. What is learnt does not depend on it."),
    "checkpointDir": (None, "A folder on storage that Spark writes to, for checkpoints to go on from; None for none."),
    "checkpointInterval": (5, "Sweeps between two checkpoints."),
}
#: Those that a model keeps.
OF_MODELS = (
    *("userCol", "itemCol", "ratingCol", "lowerCol", "upperCol"),
    *("predictionCol", "rangeCols", "stdCol", "coldStartStrategy"),
)


def spark_name(setting: str) -> str:
    """What Spark calls a setting: n_factors is nFactors."""
    return RENAMED.get(setting) or re.sub(r"_(\w)", lambda found: found[1].upper(), setting)


def settings_of(estimator: Any) -> dict[str, Any]:
    """The settings of an estimator that a cluster knows, by their own names."""
    return {one.name: one for one in fields(estimator) if one.name not in FIXED}


def with_settings(estimator: Any) -> Any:
    """A class decorator: parameters for all settings of an estimator that run on a cluster, and Spark's own."""

    def decorate(cls: Any) -> Any:
        cls.LOCAL, cls.DEFAULTS = estimator, {}
        for name, (default, doc) in OWN.items():
            setattr(cls, name, Param(Params._dummy(), name, doc))
            cls.DEFAULTS[name] = default
        for name, one in settings_of(estimator).items():
            text = re.sub(r"``|`", "", one.metadata["meaning"])
            converter = _as_list if name == "bounds" else None
            setattr(cls, spark_name(name), Param(Params._dummy(), spark_name(name), text, converter))
            cls.DEFAULTS[spark_name(name)] = OTHER_DEFAULTS.get(name, one.default)
        return cls

    return decorate


def _as_list(value: Any) -> Any:
    """A pair as a list, which Spark can show and save."""
    return list(value) if isinstance(value, tuple) else value


def in_spark_words(text: str, estimator: Any) -> str:
    """A sentence about settings with the names that Spark has for them."""
    names = {one.name: spark_name(one.name) for one in fields(estimator)}
    return re.sub(r"\b[a-z]+(?:_[a-z]+)+\b", lambda found: names.get(found[0], found[0]), text)


def refuse(owner: str, estimator: Any, given: Mapping[str, Any]) -> None:
    """Refuse, by name, what does not run on a cluster, and what nobody knows."""
    known = {spark_name(one.name): one.name for one in fields(estimator)}
    rules = {one.name: one.metadata["rule"] for one in fields(estimator)}
    others = {spark_name(name): name for name in REFUSED}
    for name, value in given.items():
        if name in OWN:
            continue
        setting = known.get(name) or others.get(name) or (name if name in REFUSED else None)
        if setting is None:
            close = next((one for one in (*known, *OWN) if one.lower() == name.replace("_", "").lower()), None)
            told = f"did you mean {close}?" if close else f"it has {', '.join(sorted({*known, *OWN}))}."
            raise TypeError(f"{owner} has no parameter {name!r}: {told}")
        if setting in rules and value is not None:
            rules[setting](name, value)
        check_value(owner, setting, value)


def check_value(owner: str, setting: str, value: Any) -> None:
    """Refuse a value that does not run on a cluster."""
    if setting not in REFUSED:
        return
    allowed, why = REFUSED[setting]
    runs = any(value is one or (type(value) is type(one) and value == one) for one in allowed)
    if setting == "noise_growth":
        runs = isinstance(value, (int, float))
    if not runs:
        raise ValueError(f"{owner}({spark_name(setting)}={short(value)}): {why}.")
