"""The paper's table of data sets, beside those that are present here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from boundrec.paper import NOT_RUN, Figure, Options, Outcome, Section, Table, protocol
from boundrec.paper.cells import Cell
from boundrec.paper.choice import Known

#: TABLE "Statistics of Datasets used for Experiments": users, items, density, range, ordinal.
PRINTED: dict[str, tuple[int, int, float, tuple[float, float], bool]] = {
    "Synthetic": (500, 500, 0.2, (0, 10), False),
    "Jester": (73_421, 100, 0.5634, (-10, 10), False),
    "BookCrossing": (92_184, 270_169, 0.00004, (1, 10), True),
    "Ali Mob": (10_000, 8_916, 0.0101, (1, 6853), True),
}

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
QUICK = ("synthetic", "movielens_sample")


def choices(options: Options) -> Known:
    """What a reader can choose from."""
    return {"data": QUICK if options.quick else tuple(SHOWN)}


def cells(options: Options) -> list[Cell]:
    """A cell is one data set."""
    return [_cell(name, options) for name in choices(options)["data"]]


def _cell(name: str, options: Options) -> Cell:
    if protocol.missing(name, options.folder):
        return Cell(NAME, {"data": name}, 5.0, possible=False)
    return Cell(NAME, {"data": name}, 5.0, basis={"data": protocol.extent_of(protocol.whole(name, options.folder))})


def run(settings: Mapping[str, Any], options: Options) -> dict[str, Any]:
    """Count."""
    data = protocol.whole(settings["data"], options.folder)
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
    rows = [_row(name, done.get(name), options) for name in SHOWN]
    columns = ["data set", "users", "items", "ratings", "density", "lowest", "highest", "whole numbers"]
    table = Table("table2", "Statistics of the data sets, with the paper's below ours", columns, rows, ratios=False)
    return Section("Table 2: the data", list(TEXT), [table])


TEXT = (
    "The paper's BookCrossing has the shape that includes implicit zeros (its density counts them), but a range of "
    "1 to 10 that leaves them out. Both forms are shown. Table 3 uses the explicit ratings.",
)


def _row(name: str, result: Mapping[str, Any] | None, options: Options) -> list[str | Figure]:
    theirs, title = PRINTED.get(SHOWN[name] or ""), protocol.PAPER_DATA[name].title
    if result is None:
        left = options.quick and name not in QUICK
        absent = "full run only" if left else str(protocol.missing(name, options.folder) or NOT_RUN)
        return [title, Figure(None, absent=absent), *[Figure(None)] * 6]
    users, items, density, span, _ = theirs or (None, None, None, (None, None), None)
    return [
        title,
        Figure(result["users"], users),
        Figure(result["items"], items),
        Figure(result["ratings"]),
        Figure(result["density"], density),
        Figure(result["lowest"], span[0]),
        Figure(result["highest"], span[1]),
        "yes" if result["ordinal"] else "no",
    ]
