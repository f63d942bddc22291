"""Rows that come after the fit: where they start, and the half-step that they are learnt by.

A stacked model is the mean of several: the restarts of `MBMF`, the samples of `BayesianMBMF`. Each of them is a model
of its own, so a row of one is learnt from the other side of the same one, and then stacked as the fit does it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from boundrec.models.base import Codes, Floats, Side
from boundrec.models.exact import HELD_BY_ITEMS, HELD_BY_USERS, HELD_SHARE, half_step, stack, unstack
from boundrec.parallel import RowPool
from boundrec.ratings import Csr

Learned = dict[str, NDArray[np.floating]]

OTHER = {"user": "item", "item": "user"}
#: The coordinate that each side holds fixed where there are biases; its own bias stands in the other's.
HELD = {"user": HELD_BY_USERS, "item": HELD_BY_ITEMS}
#: The ratings of a side that is only looked at.
NO_RATINGS = Csr(np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0), np.empty(0))


def averaged_models(model: Any, kind: str, rows: Codes, csr: Csr, dtype: Any) -> Iterator[tuple[Side, Side]]:
    """Of each model that this one averages: some rows of a side with their ratings, and what they rate, fixed."""
    other, ranges = OTHER[kind], model._ranges
    csr = ranges.centred(csr, getattr(ranges, kind)[rows], getattr(ranges, other), dtype)
    rated, indices = np.unique(csr.indices, return_inverse=True)
    csr = csr._replace(indices=indices.astype(np.int32))
    radius = np.sqrt(model.slack_) * getattr(ranges, kind)[rows]
    held = HELD if getattr(model, f"{kind}_biases_") is not None else {"user": None, "item": None}
    for own, fixed in zip(_unstacked(model, kind, rows), _unstacked(model, other, rated), strict=True):
        yield (
            Side(csr, radius, own.astype(dtype, copy=False), held[kind]),
            Side(NO_RATINGS, np.empty(0), fixed.astype(dtype, copy=False), held[other]),
        )


def _unstacked(model: Any, kind: str, rows: NDArray[np.integer]) -> list[NDArray[np.floating]]:
    factors, biases = getattr(model, f"{kind}_factors_"), getattr(model, f"{kind}_biases_")
    return unstack(factors[rows], None if biases is None else biases[rows], HELD[OTHER[kind]], model.n_factors)


def start_exactly(model: Any, kind: str, magnitudes: Floats) -> Learned:
    """Where exact solves start: at nothing in the ball, which does not look at it.

    On the sphere a row with few ratings keeps the part of its start that they say nothing about, so it starts from the
    mean direction of the others.
    """
    factors, biases = getattr(model, f"{kind}_factors_"), getattr(model, f"{kind}_biases_")
    unit = np.zeros(factors.shape[1])
    if biases is not None:
        unit[HELD[kind]] = np.sqrt(HELD_SHARE)
    elif model.constraint == "sphere":
        mean = (factors / getattr(model, f"{kind}_magnitudes_")[:, None]).mean(axis=0, dtype=np.float64)
        blocks = mean.reshape(-1, model.n_factors)
        blocks[np.linalg.norm(blocks, axis=1) == 0, 0] = 1.0
        unit = (blocks / np.linalg.norm(blocks, axis=1, keepdims=True)).ravel() / np.sqrt(len(blocks))
    rows = np.sqrt(model.slack_) * magnitudes[:, None] * unit
    learned = {f"{kind}_factors_": rows.astype(factors.dtype)}
    if biases is not None:
        learned[f"{kind}_biases_"] = np.zeros((len(rows), biases.shape[1]), biases.dtype)
    return learned


def solve_exactly(model: Any, kind: str, rows: Codes, csr: Csr) -> None:
    """The half-step of exact alternation on some rows, in place, in each restart; ``csr`` has the rows' ratings."""
    factors, biases = getattr(model, f"{kind}_factors_"), getattr(model, f"{kind}_biases_")
    solved = []
    with RowPool(model.n_jobs, csr.indices.size) as pool:
        for side, other in averaged_models(model, kind, rows, csr, factors.dtype):
            half_step(side, other, pool, model.constraint, model.ridge_)
            solved.append(side.factors)
    factors[rows] = stack(solved, 0 if biases is None else 2)
    if biases is not None:
        biases[rows] = np.column_stack([own[:, HELD[OTHER[kind]]] for own in solved])
