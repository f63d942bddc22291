"""Magnitudes from what is known beside ratings: profiles of users or items, and who is linked with whom.

The paper names both as sources of magnitudes. Each function takes a mapping id -> magnitude, such as those that history
gave, and returns one that knows more ids; a model takes it as its ``magnitudes``. All is done with log r, for ranges
are products; and nothing that is returned lies outside the magnitudes that were given, so where these keep the declared
bounds, so does the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from boundrec.arrays import Floats
from boundrec.data.columns import pair_columns, read_numbers, short
from boundrec.data.feature_tables import Categories, Numbers, Table, read_table
from boundrec.data.ids import IdIndex


def magnitudes_from_features(magnitudes: Mapping[Any, float], features: Any, ridge: float = 1.0) -> dict[Any, float]:
    """Magnitudes of everybody who has features: log r by ridge regression on these, fitted to known magnitudes.

    Parameters
    ----------
    magnitudes
        id -> magnitude: those to learn from, for instance what a model with ``magnitudes="history"`` has found.
    features
        id -> vector of numbers, or a pandas, polars or pyarrow frame whose first column has the ids. Each feature is
        standardised over the ids to learn from.
    ridge
        How strongly weights are drawn to 0, and so magnitudes to their geometric mean; it weighs against the number
        of ids to learn from.

    Returns
    -------
    dict
        What the features say, for every id in ``features``, never less or more than ``magnitudes`` have. Keep what is
        known of some with ``{**found, **magnitudes}``.
    """
    logs = _read_logs(magnitudes)
    if not isinstance(ridge, (int, float, np.integer, np.floating)) or not 0 <= ridge < np.inf:
        raise ValueError(f"ridge={short(ridge)}: give a number of at least 0.")
    ids, table = _read_features(features)
    known = np.array([one in logs for one in ids], bool)
    if known.sum() < 2:
        raise ValueError(
            f"{known.sum()} of {len(ids)} ids with features have a magnitude, too few to learn from (the first with "
            f"features is {ids[0]!r}, with a magnitude {next(iter(logs))!r}): give both the same kind of ids."
        )
    target = np.array([logs[one] for one, has in zip(ids, known, strict=True) if has])
    spread = table[known].std(axis=0)
    varies = spread > 0
    table = (table[:, varies] - table[known][:, varies].mean(axis=0)) / spread[varies]
    penalty = np.sqrt(float(ridge)) * np.eye(table.shape[1])
    mean = target.mean()
    left, right = np.vstack([table[known], penalty]), np.concatenate([target - mean, np.zeros(len(penalty))])
    weights = np.linalg.lstsq(left, right, rcond=None)[0]
    found = np.exp(np.clip(mean + table @ weights, target.min(), target.max()))
    return dict(zip(ids, found.tolist(), strict=True))


def magnitudes_from_graph(magnitudes: Mapping[Any, float], pairs: Any) -> dict[Any, float]:
    """Magnitudes of those who have none, from their neighbours': exp of the mean of log r.

    Parameters
    ----------
    magnitudes
        id -> magnitude of those who have one; they keep it.
    pairs
        Two columns of ids, those who are linked with each other, in either order: an array, a list of pairs, or a
        frame. A link that comes twice counts once.

    Returns
    -------
    dict
        ``magnitudes``, and those of all others with a neighbour who has one. Whoever has no such neighbour is left to
        the model, which gives ids that its mapping lacks theirs by rule.
    """
    logs = _read_logs(magnitudes)
    left, right = (
        column.tolist() if isinstance(column, np.ndarray) else list(column) for column in pair_columns(pairs)
    )
    index, codes = IdIndex.encode([*left, *right], where="pairs")
    ends = codes.reshape(2, -1).astype(np.int64)
    ids = index.ids.tolist()
    links = np.unique(np.concatenate([ends, ends[::-1]], axis=1), axis=1)
    log = np.array([logs.get(one, np.nan) for one in ids])
    new, neighbour = links[:, np.isnan(log[links[0]]) & ~np.isnan(log[links[1]])]
    if left and np.isnan(log).all():
        raise ValueError(
            f"none of the {len(ids)} ids in pairs has a magnitude (the first is {ids[0]!r}, that of the magnitudes "
            f"{next(iter(logs))!r}): give both the same kind of ids."
        )
    counts = np.bincount(new, minlength=len(ids))
    sums = np.bincount(new, weights=log[neighbour], minlength=len(ids))
    found = {ids[code]: float(np.exp(sums[code] / counts[code])) for code in np.flatnonzero(counts)}
    return {**{one: float(magnitudes[one]) for one in logs}, **found}


def _read_logs(magnitudes: Any) -> dict[Any, float]:
    """log r by id."""
    if not isinstance(magnitudes, Mapping):
        raise TypeError(
            f"magnitudes are a {type(magnitudes).__name__}: give a mapping id -> magnitude, of a fitted model "
            "dict(zip(model.user_ids_.ids.tolist(), model.user_magnitudes_))."
        )
    if not magnitudes:
        raise ValueError("magnitudes are empty: give some to learn from.")
    ids = list(magnitudes)
    values = read_numbers([magnitudes[one] for one in ids], "the magnitudes", "magnitude")
    bad = ~(np.isfinite(values) & (values > 0))
    if bad.any():
        first = int(bad.argmax())
        raise ValueError(f"{bad.sum()} magnitudes are not positive numbers (first: {ids[first]!r}: {values[first]:g}).")
    return dict(zip(ids, np.log(values).tolist(), strict=True))


def _read_features(features: Any) -> tuple[list[Any], Floats]:
    """Ids, and one row of numbers for each."""
    table = read_table(features, "features")
    if not isinstance(table, Table):
        raise TypeError("features have a sparse matrix: give a dense one, matrix.toarray().")
    rows = np.column_stack([_numbers(column) for column in table.columns])
    ids, bad = table.ids.ids.tolist(), np.isnan(rows).any(axis=1)
    if bad.any():
        raise ValueError(
            f"the features of {bad.sum()} ids are missing (first: {ids[bad.argmax()]!r}): fill them in, or leave "
            "these ids out."
        )
    return ids, rows


def _numbers(column: Numbers | Categories) -> Floats:
    """The numbers of a column; true and false are 1 and 0."""
    if isinstance(column, Numbers):
        return column.values
    if not {*column.levels} <= {"False", "True"}:
        raise TypeError(f"features have text in {column.name!r} (first: {column.levels[0]!r}): give numbers.")
    number = np.array([*(float(level == "True") for level in column.levels), np.nan])
    return number[column.codes]
