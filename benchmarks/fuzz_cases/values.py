"""Random data in anybody's containers: ids, ratings, weights and bounds, sound and odd."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import scipy.sparse as sp

import boundrec

Rng = np.random.Generator

#: What no id, setting or number should be, but may well be given as.
ODD: list[Any] = [
    None,
    -1,
    0,
    1.5,
    float("nan"),
    float("inf"),
    10**400,
    1e300,
    "a",
    "",
    [],
    [1],
    {},
    (1, 2),
    True,
    1 + 2j,
    Decimal("1"),
    Fraction(1, 3),
    b"x",
    np.array([1, 2]),
    np.array(2),
    np.int64(1),
    np.float32(0.5),
    np.bool_(True),
    pd.NA,
    range(3),
]
DAY = datetime.date(2020, 1, 31)
NOON = datetime.datetime(2020, 1, 31, 12)
ODD_TEXTS = ["", " ", "é", "\ud800", "\x00", "a\nb", "a" * 300, "1", "01", "None", "nan", "-1", "\u202e", "😀", "a,b"]
EDGES = [0, 2**63 - 1, -(2**63), -1, 2**31, -(2**31) - 1, 2**53 + 1]

IDS: dict[str, Callable[[int], Any]] = {
    "whole": lambda k: k,
    "spread": lambda k: (k * 7_777_777_777_777_777) % (2**62),
    "negative": lambda k: -k,
    "edges": lambda k: EDGES[k % len(EDGES)],
    "beyond 64 bits": lambda k: 2**64 + k,
    "uint64": lambda k: np.uint64(2**63 + k),
    "int8": lambda k: np.int8(k),
    "text": lambda k: f"u{k}",
    "digits": lambda k: str(k),
    "odd text": lambda k: ODD_TEXTS[k % len(ODD_TEXTS)],
    "numpy text": lambda k: np.str_(f"n{k}"),
    "bytes": lambda k: bytes([k % 256, 0]),
    "floats": lambda k: k + 0.5,
    "odd floats": lambda k: [1e300, float("inf"), -0.0, 5e-324, 1.0, 2.0**53][k % 6],
    "bools": lambda k: bool(k % 2),
    "tuples": lambda k: (k, f"t{k}"),
    "nested": lambda k: ((k,), (None, (k,))),
    "days": lambda k: DAY + datetime.timedelta(k),
    "times": lambda k: NOON + datetime.timedelta(hours=k),
    "datetime64": lambda k: np.datetime64("2020-01-01") + k,
    "timedelta64": lambda k: np.timedelta64(k, "s"),
    "timedeltas": lambda k: datetime.timedelta(k),
    "timestamps": lambda k: pd.Timestamp(NOON) + pd.Timedelta(k, "h"),
    "decimals": lambda k: Decimal(k) / 3,
    "fractions": lambda k: Fraction(k, 7),
    "uuids": lambda k: uuid.UUID(int=k),
    "sets": lambda k: frozenset((k,)),
    "mixed": lambda k: [k, f"m{k}", (k,), k + 0.25][k % 4],
    "types": lambda k: [int, str, list, dict, float, bytes][k % 6],
    "missing": lambda k: [k, None, float("nan"), pd.NA, pd.NaT, np.datetime64("NaT")][k % 6],
    "unhashable": lambda k: [[k], {}, np.array([k])][k % 3],
}
ORDINARY_IDS = ("whole", "spread", "negative", "text", "floats", "tuples", "mixed")


def pick(rng: Rng, choices: Sequence[Any]) -> Any:
    """One of some values, as it is."""
    return choices[int(rng.integers(len(choices)))]


def chance(rng: Rng, share: float) -> bool:
    """True in that share of cases."""
    return bool(rng.random() < share)


def some_ids(rng: Rng, n: int, share_odd: float) -> list[Any]:
    """Ids of one kind; those of an odd one may be the same twice."""
    kind = pick(rng, list(IDS)) if chance(rng, share_odd) else pick(rng, ORDINARY_IDS)
    return [IDS[kind](k) for k in range(n)]


# --- ratings ------------------------------------------------------------------------------------------------

SCALES: dict[str, Callable[[Rng, int], Any]] = {
    "stars": lambda rng, n: rng.integers(1, 6, n).astype(float),
    "halves": lambda rng, n: rng.integers(0, 11, n) / 2,
    "reals": lambda rng, n: rng.normal(size=n),
    "signs": lambda rng, n: rng.choice([-1.0, 1.0], n),
    "clicks": lambda rng, n: np.ones(n),
    "constant": lambda rng, n: np.full(n, rng.integers(-3, 4).astype(float)),
    "nearly constant": lambda rng, n: 3 + 1e-13 * rng.random(n),
    "counts": lambda rng, n: rng.poisson(3.0, n).astype(float),
    "heavy": lambda rng, n: np.floor(np.exp(3 * rng.normal(size=n))),
    "huge": lambda rng, n: rng.normal(size=n) * 1e100,
    "too huge": lambda rng, n: rng.normal(size=n) * 1e200,
    "large": lambda rng, n: 1e9 + rng.integers(0, 5, n),
    "past float32": lambda rng, n: rng.random(n) * 1e39,
    "tiny": lambda rng, n: rng.random(n) * 1e-100,
    "subnormal": lambda rng, n: rng.random(n) * 1e-310,
    "wide": lambda rng, n: 10.0 ** rng.integers(-150, 150, n),
    "holes": lambda rng, n: np.where(rng.random(n) < 0.2, np.nan, 1.0),
    "infinite": lambda rng, n: np.where(rng.random(n) < 0.2, np.inf, 1.0),
}
ORDINARY_SCALES = ("stars", "halves", "reals", "signs", "counts", "constant", "clicks")


def some_ratings(rng: Rng, n: int, share_odd: float) -> Any:
    """Ratings on one scale."""
    scale = pick(rng, list(SCALES)) if chance(rng, share_odd) else pick(rng, ORDINARY_SCALES)
    return SCALES[scale](rng, n)


def some_bounds(rng: Rng, ratings: Any, share_odd: float) -> Any:
    """Bounds that hold these ratings, of every type; or odd ones."""
    finite = ratings[np.isfinite(ratings)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    if chance(rng, share_odd):
        return pick(
            rng,
            [
                (high, low), (low, low), (0, 10**400), (-1e150, 1e150), (0, 1e80), (-1e80, 1e80), (0, 1e-300), "ab",
                (1, 2, 3), (float("nan"), 1), (-np.inf, np.inf), (low, np.inf), ("1", "5"), {1, 5}, 5, (None, None),
                (1, 1e308), [low, high + 1], np.array([low, high + 1]), (low, high + 5e-324), (True, 10),
                (Decimal(0), 9), (low, np.nextafter(high, np.inf)),
            ],
        )  # fmt: skip
    room = max(high - low, 1.0) * float(pick(rng, [0.0, 0.0, 0.1, 1.0]))
    low, high = low - room, high + room + (low == high)
    return pick(rng, [(low, high), (low, high), (low, high), (low, None), (None, high), None])


def some_rule(rng: Rng, data: Data) -> Any:
    """Ranges of pairs' own around these ratings: of any id, or of those in the data."""
    finite = data.ratings[np.isfinite(data.ratings)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    width = float(pick(rng, [max(high - low, 1e-3), 1.0, 1e-9, 1e9]))

    def range_of(one: Any) -> tuple[float, float]:
        extra = sum(map(ord, repr(one))) % 4  # any id has one, and always the same
        return (low - width, high + extra * width) if extra < 3 else (low, high)

    def function(users: Any, items: Any) -> tuple[list[float], list[float]]:
        ends = [range_of((user, item)) for user, item in zip(users.tolist(), items.tolist(), strict=True)]
        return [end[0] for end in ends], [end[1] for end in ends]

    ids = [[one for one in side if getattr(type(one), "__hash__", None)] for side in (data.users, data.items)]
    kind = pick(rng, ["function", "item", "user", "pair"])
    try:
        if kind == "item":
            return boundrec.PerItem({one: range_of(one) for one in ids[1]})
        if kind == "user":
            return boundrec.PerUser({one: range_of(one) for one in ids[0]})
        if kind == "pair":
            table = {(user, item): range_of((user, item)) for user in ids[0] for item in ids[1] if chance(rng, 0.5)}
            return boundrec.PerPair(table, pick(rng, [None, (low - width, high + width)]))
    except (TypeError, ValueError):  # ids or ratings of which there can be no table
        return function
    return function


# --- containers ---------------------------------------------------------------------------------------------


class Data(NamedTuple):
    """Ratings as they are given to a model, with their ids and values behind them."""

    X: Any
    y: Any
    users: list[Any]
    items: list[Any]
    ratings: Any


def _frame(users: list[Any], items: list[Any]) -> Any:
    return pd.DataFrame({"user": users, "item": items})


def _objects(users: list[Any], items: list[Any]) -> Any:
    pairs = np.empty((len(users), 2), object)
    for row, pair in enumerate(zip(users, items, strict=True)):
        pairs[row, 0], pairs[row, 1] = pair
    return pairs


PAIRS: dict[str, Callable[[list[Any], list[Any]], Any]] = {
    "list": lambda users, items: list(zip(users, items, strict=True)),
    "lists": lambda users, items: [[u, i] for u, i in zip(users, items, strict=True)],
    "tuple": lambda users, items: tuple(zip(users, items, strict=True)),
    "array": lambda users, items: np.array(list(zip(users, items, strict=True))),
    "objects": _objects,
    "masked": lambda users, items: np.ma.masked_equal(np.array(list(zip(users, items, strict=True))), 1),
    "pandas": _frame,
    "pandas types": lambda users, items: _frame(users, items).convert_dtypes(),
    "categories": lambda users, items: _frame(users, items).astype("category"),
    "polars": lambda users, items: pl.DataFrame({"user": users, "item": items}),
    "pyarrow": lambda users, items: pa.table({"user": users, "item": items}),
}
#: What is no container of pairs.
NO_PAIRS: list[Any] = [
    None,
    "ab",
    5,
    [],
    [1, 2],
    [[1, 2, 3]],
    {"a": 1},
    np.zeros(3),
    np.zeros((0, 2)),
    np.zeros((2, 2, 2)),
]
COLUMNS: list[Callable[[Any], Any]] = [
    list,
    tuple,
    np.asarray,
    lambda values: np.asarray(values, object),
    lambda values: np.asarray(values, np.float32),
    lambda values: np.asarray(values)[:, None],
    lambda values: [Decimal(repr(float(one))) for one in values],
    lambda values: [str(one) for one in values],
    pd.Series,
    lambda values: pd.Series(values, dtype="Float64"),
    pl.Series,
    pa.array,
]


def some_column(rng: Rng, values: Any) -> Any:
    """Numbers in a container."""
    return pick(rng, COLUMNS if chance(rng, 0.3) else [list, np.asarray])(values)


def some_data(rng: Rng, share_odd: float, users: list[Any] | None = None, items: list[Any] | None = None) -> Data:
    """Ratings of users and items, of some random ones unless these are given, in a random container."""
    users = some_ids(rng, int(rng.integers(1, 8)), share_odd) if users is None else users
    items = some_ids(rng, int(rng.integers(1, 8)), share_odd) if items is None else items
    cells = np.flatnonzero(rng.random(len(users) * len(items)) < pick(rng, [0.3, 0.6, 0.9, 1.0]))
    rng.shuffle(cells)
    if not cells.size or chance(rng, 0.03):
        cells = np.append(cells, 0)  # a pair twice, perhaps
    rated = [users[cell // len(items)] for cell in cells], [items[cell % len(items)] for cell in cells]
    ratings = some_ratings(rng, len(cells), share_odd)
    X, y = _contained(rng, cells, (len(users), len(items)), rated, ratings, share_odd)
    return Data(X, y, users, items, ratings)


def _contained(
    rng: Rng, cells: Any, shape: tuple[int, int], rated: tuple[list[Any], list[Any]], ratings: Any, share_odd: float
) -> tuple[Any, Any]:
    """Pairs and ratings in containers; a container that cannot hold such ids gives way to a list."""
    if chance(rng, 0.02):
        return pick(rng, NO_PAIRS), ratings
    if chance(rng, 0.1):
        matrix = sp.coo_array((ratings, np.divmod(cells, shape[1])), shape=shape)
        form = pick(rng, ["coo", "csr", "csc", "lil", "dok"] + (["bsr", "dia"] if chance(rng, share_odd) else []))
        if np.unique(cells).size == cells.size:
            return matrix.asformat(form), None
    container = PAIRS[pick(rng, list(PAIRS))]
    try:
        X, y = container(*rated), some_column(rng, ratings)
    except Exception:  # not the library's
        X, y = PAIRS["list"](*rated), list(ratings)
    if chance(rng, 0.05):
        try:
            return boundrec.Ratings.read(X, y), None
        except Exception:  # `fit` will be asked the same
            return X, y
    return X, y


def some_weights(rng: Rng, n: int, share_odd: float) -> Any:
    """Weights for so many ratings."""
    if chance(rng, share_odd):
        return pick(
            rng, [np.zeros(n), -np.ones(n), np.full(n, np.nan), np.full(n, 1e300), np.full(n, 1e-300), "a", [1]]
        )
    return some_column(
        rng, pick(rng, [np.ones(n), rng.random(n), rng.integers(0, 3, n).astype(float), np.full(n, 1e6)])
    )
