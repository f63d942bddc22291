"""The paper's table of data sets, beside those that are present here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from boundrec import datasets
from boundrec.datasets import Dataset
from boundrec.paper import published
from boundrec.paper.cells import Cell
from boundrec.paper.sections import Figure, Options, Outcome, Section, Table

NAME = "table2"
#: Data set -> its name in the paper's table. BookCrossing's shape there is that with the implicit zeros.
SHOWN: dict[str, str | None] = {
    "synthetic": "Synthetic",
    "jester1": "Jester",
    "bookcrossing_paper": "BookCrossing",
    "bookcrossing_explicit": None,
    "ali_mob": "Ali Mob",
    "lastfm_hetrec": None,
    "movielens_100k": None,
    "movielens_1m": None,
    "movielens_sample": None,
}
TITLES = {
    "synthetic": "Synthetic",
    "jester1": "Jester",
    "bookcrossing_paper": "BookCrossing, zeros kept",
    "bookcrossing_explicit": "BookCrossing, explicit",
    "ali_mob": "Ali Mob",
    "lastfm_hetrec": "Last.fm counts",
    "movielens_100k": "MovieLens 100k",
    "movielens_1m": "MovieLens 1M",
    "movielens_sample": "MovieLens sample",
}
QUICK = ("synthetic", "movielens_sample")


def cells(options: Options) -> list[Cell]:
    """A cell is one data set."""
    names = QUICK if options.quick else tuple(SHOWN)
    return [Cell(NAME, {"data": name}, 5.0, 0) for name in names if _present(name, options)]


def _present(name: str, options: Options) -> bool:
    try:
        _load(name, options)
    except (FileNotFoundError, ImportError):
        return False
    return True


def _load(name: str, options: Options) -> Dataset:
    if name == "synthetic":
        return datasets.synthetic(rank=20, random_state=0)
    return datasets.load(name, options.folder)


def run(settings: Mapping[str, Any], options: Options) -> dict[str, Any]:
    """Count."""
    data = _load(settings["data"], options)
    whole = bool(np.all(data.rating == np.round(data.rating)))
    return {
        "users": data.n_users,
        "items": data.n_items,
        "ratings": int(data.rating.size),
        "density": data.density,
        "lowest": float(data.rating.min()),
        "highest": float(data.rating.max()),
        "ordinal": whole,
    }


def summarise(outcomes: Sequence[Outcome], options: Options) -> Section:
    """The data sets side by side; those that are not here say so."""
    done = {outcome["data"]: outcome.result for outcome in outcomes if outcome.result is not None}
    rows = [_row(name, done.get(name), options.quick) for name in SHOWN]
    columns = ["data set", "users", "items", "ratings", "density", "lowest", "highest", "whole numbers"]
    table = Table("table2", "Statistics of the data sets, with the paper's below ours", columns, rows, ratios=False)
    return Section("Table 2: the data", list(TEXT), [table])


TEXT = (
    "The paper's BookCrossing has the shape that includes implicit zeros (its density counts them), but a range of "
    "1 to 10 that leaves them out. Both forms are shown. Table 3 uses the explicit ratings.",
)


def _row(name: str, result: Mapping[str, Any] | None, quick: bool) -> list[str | Figure]:
    printed = published.TABLE2.get(SHOWN[name] or "")
    if result is None:
        absent = "full run only" if quick and name not in QUICK else "not present"
        return [TITLES[name], Figure(None, absent=absent), *[Figure(None)] * 6]
    users, items, density, span, _ = printed or (None, None, None, (None, None), None)
    return [
        TITLES[name],
        Figure(result["users"], users),
        Figure(result["items"], items),
        Figure(result["ratings"]),
        Figure(result["density"], density),
        Figure(result["lowest"], span[0]),
        Figure(result["highest"], span[1]),
        "yes" if result["ordinal"] else "no",
    ]
