"""Two claims made in the paper's text: Bounded-SVD's sensitivity to its penalty, and MBMF-n's lower end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from boundrec.datasets import Dataset
from boundrec.paper import NOT_RUN, Figure, Options, Outcome, Row, Section, Table, methods, protocol, table3
from boundrec.paper.cells import Cell
from boundrec.paper.choice import Known
from boundrec.paper.methods import RIVALS
from boundrec.paper.protocol import PAPER_DATA

NAME = "claims"
PENALTIES = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0)
#: The penalty and the sharpness that Table 3 has.
USUAL, SHARPNESS = 0.05, 1.0
#: Other sharpnesses, and the penalties that they are tried with.
SHARP, SHARP_WITH = (0.1, 10.0), (0.01, 0.05, 10.0)
N_FACTORS = 10
FIRST = f"K = {N_FACTORS}, first fold"
#: What the cells of a penalty have in common, and do not say.
IMPLIED = {"method": "Bounded-SVD", "factors": N_FACTORS, "fold": 0}
#: Whose predictions are counted over all users × items.
SHOWN = ("MBMF-n", "MBMF-n exact", "MBMF-c", "MBMF-c ball", "MF", "NMF")
FULL, QUICK = ("movielens_100k", "jester1", "lastfm_hetrec", "bookcrossing_explicit"), ("movielens_sample", "synthetic")


def choices(options: Options) -> Known:
    """What a reader can choose from."""
    shown = ("Bounded-SVD", *SHOWN)
    return {"data": QUICK if options.quick else FULL, "method": shown, "factors": (N_FACTORS,), "fold": (0,)}


def cells(options: Options) -> list[Cell]:
    """A cell is one penalty on the first fold of a data set; Table 3 has the usual one, and how far methods reach."""
    made = []
    for name in choices(options)["data"]:
        usual = table3.cell(name, N_FACTORS, 0, "Bounded-SVD", options)
        made += [usual if one == USUAL else _cell(name, {"penalty": one}, usual, options) for one in PENALTIES]
        walls = ({"penalty": one, "sharpness": steep} for steep in SHARP for one in SHARP_WITH)
        made += [_cell(name, wall, usual, options) for wall in walls]
        made += [table3.cell(name, N_FACTORS, 0, method, options) for method in SHOWN]
    return made


def _cell(name: str, wall: Mapping[str, float], usual: Cell, options: Options) -> Cell:
    settings = {"data": name, **wall}
    if not usual.possible:
        return Cell(NAME, settings, 0.0, possible=False)
    model = _model(protocol.load(name, options.folder), settings)
    return Cell(NAME, settings, usual.seconds, 1, protocol.basis(model, protocol.extent(name, options.folder)))


def _model(data: Dataset, settings: Mapping[str, Any]) -> Any:
    walls = {key: value for key, value in settings.items() if key != "data"}
    return RIVALS["Bounded-SVD"].build(methods.conditions(data, N_FACTORS, 0)).set_params(**walls)


def run(settings: Mapping[str, Any], options: Options) -> dict[str, Any]:
    """Bounded-SVD with one penalty and sharpness on the first fold."""
    fold = protocol.fold_of(settings["data"], 0, options.folder)
    protocol.warm_up("Bounded-SVD")
    fitted = protocol.fit(_model(fold.data, settings), *fold.part(fold.training))
    return protocol.judge(fitted, fold)


def summarise(outcomes: Sequence[Outcome], options: Options) -> Section:
    """A table for each claim."""
    names = dict.fromkeys(outcome["data"] for outcome in outcomes)
    section = Section("Two claims in the text", list(TEXT))
    for name in names:
        own = [outcome for outcome in outcomes if outcome["data"] == name]
        reached = [outcome for outcome in own if outcome.cell.settings.get("method") in SHOWN]
        penalties = [outcome for outcome in own if outcome not in reached]
        for some, table, findings in ((penalties, _penalties, _of_penalties), (reached, _reach, _of_reach)):
            if any(outcome.result for outcome in some):
                section.tables.append(table(name, some))
                section.findings += findings(PAPER_DATA[name].title, [o for o in some if o.result is not None])
    if not section.tables:
        section.text.append("<b>Not run yet.</b>")
    return section


def _of_penalties(title: str, outcomes: Sequence[Outcome]) -> list[str]:
    """What becomes of RMSE and of the products from the smallest penalty to the largest."""
    outcomes = [outcome for outcome in outcomes if _sharpness(outcome) == SHARPNESS]
    first, last = outcomes[0], outcomes[-1]
    best = min(outcomes, key=lambda o: np.inf if o.result["rmse"] is None else o.result["rmse"])  # type: ignore[index]
    if len(outcomes) < 2 or not all(o.result and o.result["rmse"] for o in (first, last, best)):
        return []
    return [
        f"{title}, Bounded-SVD: RMSE {_figure(first, 'rmse').value:.4g} at penalty {_penalty(first):g}, "
        f"{_figure(last, 'rmse').value:.4g} at {_penalty(last):g}, lowest ({_figure(best, 'rmse').value:.4g}) at "
        f"{_penalty(best):g}; the highest of all predictions falls from "
        f"{_figure(first, 'everywhere', 'highest').value:.4g} to {_figure(last, 'everywhere', 'highest').value:.4g}."
    ]


def _of_reach(title: str, outcomes: Sequence[Outcome]) -> list[str]:
    """How rare it is that MBMF-n falls below."""
    for outcome in outcomes:
        if outcome["method"] == "MBMF-n":
            share = _figure(outcome, "everywhere", "below", percent=True).value
            return [f"{title}: MBMF-n falls below the lower end in {share:.2g} % of all pairs."]
    return []


def _penalty(outcome: Outcome) -> float:
    return float(outcome.cell.settings.get("penalty", USUAL))


def _sharpness(outcome: Outcome) -> float:
    return float(outcome.cell.settings.get("sharpness", SHARPNESS))


TEXT = (
    "The paper: Bounded-SVD is very sensitive to its penalty; with a large one (10) all products become very small, "
    "with a small one (0.01) most entries are not bounded. Below, its penalty λ runs from 0.01 to 10 with a sharpness "
    "α of 1, and α is 0.1 and 10 with some of them (both in units of a range of 4; K = 10, first fold).",
    "The paper: with MBMF-n it is very rare that predictions fall below the lower end, which that form does not "
    "guard. Counted here over all users × items, or two million of them at random where there are more.",
)


def _figure(outcome: Outcome, *path: str, percent: bool = False) -> Figure:
    value = outcome.figure(*path)
    if value is None:
        return Figure(None, absent=NOT_RUN if outcome.result is None else "not finite")
    return Figure(100 * value if percent else value)


def _everywhere(outcome: Outcome) -> list[Figure]:
    """How far all predictions reach."""
    shares = [_figure(outcome, "everywhere", side, percent=True) for side in ("below", "above")]
    return [*shares, *(_figure(outcome, "everywhere", end) for end in ("lowest", "highest"))]


def _penalties(name: str, outcomes: Sequence[Outcome]) -> Table:
    rows: list[Row] = [
        [
            f"λ = {_penalty(outcome):g}, α = {_sharpness(outcome):g}",
            _figure(outcome, "rmse"),
            _figure(outcome, "mae"),
            _figure(outcome, "outside", percent=True),
            *_everywhere(outcome),
        ]
        for outcome in outcomes
    ]
    columns = ["walls", "RMSE", "MAE", "% of test outside", "% of all below", "% of all above", "lowest", "highest"]
    return Table(
        f"claims_{name}_penalty", f"{PAPER_DATA[name].title}: Bounded-SVD by its penalty, {FIRST}", columns, rows
    )


def _reach(name: str, outcomes: Sequence[Outcome]) -> Table:
    rows: list[Row] = [[outcome["method"], *_everywhere(outcome)] for outcome in outcomes]
    columns = ["method", "% below the lower end", "% above the upper end", "lowest", "highest"]
    caption = f"{PAPER_DATA[name].title}: how far predictions for all users × items reach, {FIRST}"
    return Table(f"claims_{name}_reach", caption, columns, rows)
