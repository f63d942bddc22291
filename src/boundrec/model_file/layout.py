"""The parts of a `Fitted` under the names that a file has for them.

``user_factors`` is the factors of the users' side, and so on for both sides; a few parts have names from before there
was a `Fitted`; any other name is one of the numbers that only some models have (``Fitted.found``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from boundrec.models.fitted import Course, Fitted, FittedSide
from boundrec.ranges import Ranges
from boundrec.rivals.rival import Cut
from boundrec.solvers.gibbs import Prior

#: In front of the kind of a part that may be missing.
OPTIONAL = "optional "
SIDES = ("user", "item")
#: Of a side: the name that a file has for a field.
OF_A_SIDE = {
    "ids": "ids",
    "factors": "factors",
    "means": "means",
    "seen": "trained",
    "biases": "biases",
    "spread": "spread",
}


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
        "eval_predictions": fitted.eval_predictions,
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
        name: left.pop(name, None) for name in ("mean", "seen", "ratings", "noise_variances", "eval_predictions")
    }
    names = left.pop("column_names", None)
    for name in ("n_iter", "n_features_in"):
        left.pop(name, None)
    whole |= {"names": names, "course": course, "n_bias_columns": n_bias_columns, "found": left}
    return Fitted(users, items, ranges, **whole)


def _ranges(left: dict[str, Any]) -> Ranges | Cut:
    if "ranges" not in left:
        return Cut(left.pop("offset"))
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
