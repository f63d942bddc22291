"""Two claims made in the paper's text: Bounded-SVD's sensitivity to its penalty, and MBMF-n's lower end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from boundrec.models.bounded_svd import BoundedSVD
from boundrec.paper import protocol, table3
from boundrec.paper.cells import Cell
from boundrec.paper.protocol import MAX_ITER, RIVALS, SOURCES
from boundrec.paper.sections import NOT_RUN, Figure, Options, Outcome, Row, Section, Table

NAME = "claims"
PENALTIES = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0)
N_FACTORS = 10
#: Whose predictions are counted over all users × items.
SHOWN = ("MBMF-n", "MBMF-n exact", "MBMF-c", "MBMF-c ball", "MF", "NMF")
FULL, QUICK = ("movielens_100k", "jester1", "lastfm_hetrec", "bookcrossing_explicit"), ("movielens_sample", "synthetic")


def cells(options: Options) -> list[Cell]:
    """A cell is one penalty on the first fold of one data set; how far methods reach is in cells of Table 3."""
    made = []
    for name in QUICK if options.quick else FULL:
        if protocol.missing(name, options.folder):
            continue
        data = protocol.load(name, options.folder)
        n_ratings = round(0.45 * data.rating.size)
        once = protocol.estimated_seconds(RIVALS["Bounded-SVD"], N_FACTORS, (data.n_users, data.n_items), n_ratings)
        made += [Cell(NAME, {"data": name, "penalty": penalty}, once, 1) for penalty in PENALTIES]
        made += [table3.cell(name, N_FACTORS, 0, method, options) for method in SHOWN]
    return made


def run(settings: Mapping[str, Any], options: Options) -> dict[str, Any]:
    """Bounded-SVD with one penalty on the first fold."""
    fold = protocol.split(settings["data"], 0, options.folder)
    model = BoundedSVD(N_FACTORS, bounds=fold.span, penalty=settings["penalty"], max_iter=MAX_ITER, random_state=0)
    return protocol.judge(protocol.fit(model, *fold.part(fold.training)), fold)


def summarise(outcomes: Sequence[Outcome], options: Options) -> Section:
    """A table for each claim."""
    names = dict.fromkeys(outcome["data"] for outcome in outcomes)
    section = Section("Two claims in the text", list(TEXT))
    for name in names:
        own = [outcome for outcome in outcomes if outcome["data"] == name]
        for key, table in (("penalty", _penalties), ("method", _reach)):
            some = [outcome for outcome in own if key in outcome.cell.settings]
            if any(outcome.result for outcome in some):
                section.tables.append(table(name, some))
    return section


TEXT = (
    "The paper: Bounded-SVD is very sensitive to its penalty; with a large one (10) all products become very small, "
    "with a small one (0.01) most entries are not bounded. Below, its penalty runs from 0.01 to 10 (in units of a "
    "range of 4, sharpness 1, K = 10, first fold).",
    "The paper: with MBMF-n it is very rare that predictions fall below the lower end, which that form does not "
    "guard. Counted here over all users × items, or two million of them at random where there are more.",
)


def _figure(outcome: Outcome, *path: str, percent: bool = False) -> Figure:
    value: Any = outcome.result
    for key in path:
        value = None if value is None else value.get(key)
    if value is None:
        return Figure(None, absent=NOT_RUN if outcome.result is None else "not finite")
    return Figure(100 * value if percent else value)


def _penalties(name: str, outcomes: Sequence[Outcome]) -> Table:
    rows: list[Row] = [
        [
            f"{outcome['penalty']:g}",
            _figure(outcome, "rmse"),
            _figure(outcome, "mae"),
            _figure(outcome, "outside", percent=True),
            _figure(outcome, "everywhere", "below", percent=True),
            _figure(outcome, "everywhere", "above", percent=True),
            _figure(outcome, "everywhere", "lowest"),
            _figure(outcome, "everywhere", "highest"),
        ]
        for outcome in outcomes
    ]
    columns = ["penalty", "RMSE", "MAE", "% of test outside", "% of all below", "% of all above", "lowest", "highest"]
    return Table(f"claims_{name}_penalty", f"{SOURCES[name].title}: Bounded-SVD by its penalty", columns, rows)


def _reach(name: str, outcomes: Sequence[Outcome]) -> Table:
    rows: list[Row] = [
        [
            outcome["method"],
            _figure(outcome, "everywhere", "below", percent=True),
            _figure(outcome, "everywhere", "above", percent=True),
            _figure(outcome, "everywhere", "lowest"),
            _figure(outcome, "everywhere", "highest"),
        ]
        for outcome in outcomes
    ]
    columns = ["method", "% below the lower end", "% above the upper end", "lowest", "highest"]
    return Table(f"claims_{name}_reach", f"{SOURCES[name].title}: all predictions, K = {N_FACTORS}", columns, rows)
