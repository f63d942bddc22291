"""What the paper leaves open, varied one thing at a time, to see which reading gives most of the paper again.

Every reading is scored by the paper's own figures (those within two per cent of ours count) and by a list of remarks
made in its text. Both lists were fixed before anything was run. Readings start from `PRESET`, what `MBMF.as_in_paper`
did before the study; the best single answers to three different questions are then combined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any, NamedTuple

from boundrec.paper import NOT_RUN, Figure, Options, Outcome, Row, Section, Table, figure2, table1, table3
from boundrec.paper.cells import Cell
from boundrec.paper.choice import Known
from boundrec.paper.methods import OURS, RIVALS
from boundrec.paper.protocol import PAPER_DATA

NAME = "readings"
EIGHT = (*RIVALS, *OURS)
#: A figure of ours counts as the paper's when it is no further from it than this share.
CLOSE = 0.02
#: "Very rare": at most this share of all pairs.
RARE = 0.01
#: What the first preset had, in full, so that the study stays the same whatever follows from it.
RULE = {"tol_mode": "relative"}
MAGNITUDES = {"history_share": 0.1, "on_contradiction": "keep"}
PRESET: dict[str, dict[str, Any]] = {
    **dict.fromkeys(RIVALS, RULE),
    **{method: {"steps": "shared", **RULE} for method in ("MF", "Bounded-SVD")},
    **{method: {"init": "angles", "steps": "separate", **MAGNITUDES, **RULE} for method in OURS},
}
#: The rank of Figure 2's matrices in the first preset.
RANK = 20


class Reading(NamedTuple):
    """One answer to a question that the paper leaves open, or several together.

    ``changed`` has the settings of each method that it concerns; ``data`` the data set to take in the place of
    another; ``rank`` the kind of Figure 2's matrices; ``shifted`` the methods that see ratings less their lower end.
    """

    question: str
    answer: str
    changed: Mapping[str, Mapping[str, Any]] = {}
    data: Mapping[str, str] = {}
    rank: int | None = RANK
    shifted: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """Question and answer."""
        return f"{self.question}: {self.answer}" if self.question else self.answer


def _each(question: str, answer: str, concerned: Iterable[str], settings: Mapping[str, Any]) -> Reading:
    return Reading(question, answer, dict.fromkeys(concerned, settings))


def _ours(question: str, answer: str, **settings: Any) -> Reading:
    return _each(question, answer, OURS, settings)


def _walls(answer: str, **settings: Any) -> Reading:
    return Reading("Bounded-SVD's λ and α", answer, {"Bounded-SVD": settings})


AS_IT_WAS = Reading("", "the first preset")
SINGLE = (
    _ours("start", "angles in (0, 1)", init="angles-unit"),
    _ours("start", "angles in (0, π/2)", init="angles-quarter"),
    _ours("start", "directions ≥ 0", init="orthant"),
    _ours("steps", "MBMF: one for both sides", steps="shared"),
    _each("steps", "MF, Bounded-SVD: two", ("MF", "Bounded-SVD"), {"steps": "separate"}),
    _ours("ρ", ".01", history_share=0.01),
    _ours("ρ", ".03", history_share=0.03),
    _ours("ρ", ".3", history_share=0.3),
    _ours("ρ", "1", history_share=1.0),
    _ours("contradictions", "ratings dropped", on_contradiction="drop"),
    _ours("contradictions", "ranges widened", on_contradiction="widen"),
    _each("stopping", "absolute", EIGHT, {"tol_mode": "absolute"}),
    _walls("λ = .05, α = 1, as they stand", penalty=0.05, sharpness=1.0, scaled=False),
    _walls("λ = .05, α = .05, as they stand", penalty=0.05, sharpness=0.05, scaled=False),
    _walls("λ = 1, α = 1, as they stand", penalty=1.0, sharpness=1.0, scaled=False),
    _walls("λ = 10, α = 10, scaled", penalty=10.0, sharpness=10.0),
    _walls("λ = 5, α = 1, scaled", penalty=5.0),
    Reading("NMF's shift", "ratings less r_min", shifted=("NMF",)),
    Reading("Figure 2's matrix", "independent entries", rank=None),
    Reading("BookCrossing's zeros", "kept", data={"bookcrossing_explicit": "bookcrossing_paper"}),
    Reading("BookCrossing's zeros", "set to 8", data={"bookcrossing_explicit": "bookcrossing_filled"}),
)


def together(*readings: Reading) -> Reading:
    """Several answers at once."""
    changed: dict[str, dict[str, Any]] = {}
    data: dict[str, str] = {}
    for one in readings:
        data |= one.data
        for method, settings in one.changed.items():
            changed.setdefault(method, {}).update(settings)
    rank = next((one.rank for one in readings if one.rank != RANK), RANK)
    shifted = tuple(method for one in readings for method in one.shifted)
    return Reading("", "; ".join(one.label for one in readings), changed, data, rank, shifted)


def _answer(question: str, answer: str) -> Reading:
    return next(one for one in SINGLE if (one.question, one.answer) == (question, answer))


#: The best answers to three questions, together; and BookCrossing's zeros, which only tell beside a good start.
_BEST = _answer("start", "directions ≥ 0"), _answer("contradictions", "ranges widened")
COMBINED = (
    together(*_BEST, _answer("ρ", ".3")),
    together(*_BEST),
    together(_BEST[0], _answer("BookCrossing's zeros", "set to 8")),
    together(*_BEST, _answer("BookCrossing's zeros", "set to 8")),
)
READINGS = (AS_IT_WAS, *SINGLE, *COMBINED)


# --- where methods are looked at: cells of the paper's tables and figures, with something changed ---------------


class Place(NamedTuple):
    """A place in one of the paper's tables or figures, and the methods that are looked at there."""

    table: str
    where: Mapping[str, Any]
    methods: tuple[str, ...] = EIGHT


def _errors(name: str, n_factors: int, shown: tuple[str, ...] = EIGHT) -> Place:
    return Place(table3.NAME, {"data": name, "factors": n_factors, "fold": 0}, shown)


JESTER, JESTER_20 = _errors("jester1", 10), _errors("jester1", 20)
MOVIELENS, COUNTS = _errors("movielens_100k", 10), _errors("lastfm_hetrec", 10)
#: BMF and BMC-ADMM would take more than a day there with all entries.
BOOKS = _errors("bookcrossing_explicit", 10, tuple(method for method in EIGHT if method not in ("BMF", "BMC-ADMM")))
RESTARTS = Place(figure2.NAME, {"factors": 20, "size": 500, "restarts": 10})
TIMES = Place(table1.NAME, {"users": 2_000, "items": 5_000, "density": 1.0, "repeat": 0}, ("BMC-ADMM", "MBMF-n"))
PLACES = (JESTER, JESTER_20, MOVIELENS, BOOKS, COUNTS, RESTARTS, TIMES)
EXPERIMENTS: dict[str, ModuleType] = {module.NAME: module for module in (table1, figure2, table3)}


def cell(reading: Reading, place: Place, method: str, options: Options) -> Cell:
    """What a reading makes of a method at a place; readings that make the same of it share the cell."""
    where = {"method": method, **place.where}
    if place is RESTARTS:
        where["rank"] = reading.rank
    elif place.table == table3.NAME:
        where["data"] = reading.data.get(where["data"], where["data"])
        where |= {"shifted": True} if method in reading.shifted else {}
    changed = reading.changed.get(method, {})
    if place is TIMES:  # an iteration takes as long from wherever it starts
        changed = {key: value for key, value in changed.items() if key == "tol_mode"}
    where["changed"] = {**PRESET[method], **changed}
    usual: Cell = EXPERIMENTS[place.table].cell_of(where, options)
    return replace(usual, experiment=NAME, settings={"table": place.table, **where})


def cells(options: Options) -> list[Cell]:
    """Every reading at every place; none in the quick version, whose data the paper has no figures of."""
    if options.quick:
        return []
    all_of_them = [cell(*at, options) for at in _everywhere()]
    return list({one.name: one for one in all_of_them}.values())


def _everywhere() -> list[tuple[Reading, Place, str]]:
    return [(reading, place, method) for reading in READINGS for place in PLACES for method in place.methods]


def run(settings: Mapping[str, Any], options: Options) -> dict[str, Any]:
    """The cell of the other experiment, with what is changed."""
    found: dict[str, Any] = EXPERIMENTS[settings["table"]].run(settings, options)
    return found


# --- what counts ------------------------------------------------------------------------------------------------

#: The result of a method at a place under one reading, where it is there.
Found = Callable[[Place, str], Mapping[str, Any] | None]


class AbsentError(LookupError):
    """A remark cannot be judged: a result that it needs is not there."""


def _values(found: Found, place: Place, *path: str) -> dict[str, float]:
    """A figure of every method at a place; what is not finite is the worst."""
    values = {}
    for method in place.methods:
        result: Any = found(place, method)
        if result is None:
            raise AbsentError
        for key in path:
            result = result[key]
        values[method] = worst(path[-1]) if result is None else float(result)
    return values


def worst(metric: str) -> float:
    """What stands for a figure that is not finite."""
    return float("-inf" if metric == "f1" else "inf")


def _ranked(found: Found, place: Place, *path: str, high: bool = False) -> list[str]:
    """The methods at a place, the best first."""
    values = _values(found, place, *path)
    return sorted(values, key=lambda method: -values[method] if high else values[method])


def _first(found: Found, method: str, *at: tuple[Place, str]) -> bool:
    """Whether a method is the best of all at each place, by error or F1."""
    return all(_ranked(found, place, metric, high=metric == "f1")[0] == method for place, metric in at)


def _below(found: Found, place: Place) -> float:
    """The share of all pairs whose prediction by MBMF-n is below the lower end."""
    result = found(place, "MBMF-n")
    if result is None:
        raise AbsentError
    return float(result["everywhere"]["below"])


def _change(found: Found) -> dict[str, float]:
    """By how much the RMSE on Jester changes from K = 10 to 20."""
    ten, twenty = (_values(found, place, "rmse") for place in (JESTER, JESTER_20))
    return {method: abs(twenty[method] / ten[method] - 1) for method in EIGHT}


def _least_changed(found: Found) -> bool:
    change = _change(found)
    return all(change[mine] < change[other] for mine in OURS for other in RIVALS)


def _calmer_than_unbounded(found: Found) -> bool:
    sigma = _values(found, RESTARTS, "average")
    return max(sigma[m] for m in ("BMF", "BMC-ADMM", "Bounded-SVD", "MBMF-n")) < min(sigma["MF"], sigma["NMF"])


#: What the paper says in its text, where, and how it is judged.
REMARKS: dict[str, Callable[[Found], bool]] = {
    "Jester: MBMF-n has the lowest RMSE": lambda f: _first(f, "MBMF-n", (JESTER, "rmse"), (JESTER_20, "rmse")),
    "Jester: MBMF-n has the lowest MAE": lambda f: _first(f, "MBMF-n", (JESTER, "mae"), (JESTER_20, "mae")),
    "Jester: MBMF-c is second in RMSE": lambda f: all(
        _ranked(f, place, "rmse")[1] == "MBMF-c" for place in (JESTER, JESTER_20)
    ),
    "Jester: MBMF-n has the highest F1": lambda f: _first(f, "MBMF-n", (JESTER, "f1"), (JESTER_20, "f1")),
    "RMSE on Jester: both forms of MBMF change least with K": _least_changed,
    "BookCrossing: MBMF-c has the lowest RMSE and MAE": lambda f: _first(f, "MBMF-c", (BOOKS, "rmse"), (BOOKS, "mae")),
    "BookCrossing: CCD++ has the highest F1": lambda f: _first(f, "CCD++", (BOOKS, "f1")),
    "Counts: MBMF-c has the lowest MAE and the highest F1": lambda f: _first(
        f, "MBMF-c", (COUNTS, "mae"), (COUNTS, "f1")
    ),
    "Counts: Bounded-SVD has the lowest RMSE, MBMF-n the next": lambda f: (
        _ranked(f, COUNTS, "rmse")[:2] == ["Bounded-SVD", "MBMF-n"]
    ),
    "MBMF-n is very rarely below the lower end": lambda f: all(
        _below(f, place) <= RARE for place in (JESTER, MOVIELENS, BOOKS)
    ),
    "… but where most ratings are close to it": lambda f: (
        _below(f, COUNTS) > max(_below(f, place) for place in (JESTER, MOVIELENS, BOOKS))
    ),
    "Variation: MBMF-n has the lowest ave(σ)": lambda f: _first(f, "MBMF-n", (RESTARTS, "average")),
    "Variation: MBMF-n has the lowest max(σ)": lambda f: _first(f, "MBMF-n", (RESTARTS, "largest")),
    "Variation: CCD++ comes next in ave(σ)": lambda f: _ranked(f, RESTARTS, "average")[1] == "CCD++",
    "Variation: the bounded methods vary less than MF and NMF": _calmer_than_unbounded,
    "Variation: NMF has the largest max(σ)": lambda f: _ranked(f, RESTARTS, "largest", high=True)[0] == "NMF",
    "Time: MBMF-n is faster than BMC-ADMM at 2,000 × 5,000": lambda f: (
        _values(f, TIMES, "cpu_seconds")["MBMF-n"] < _values(f, TIMES, "cpu_seconds")["BMC-ADMM"]
    ),
}


class Score(NamedTuple):
    """How much of the paper a reading gives again."""

    close: int  # figures within two per cent
    figures: int  # figures compared
    holding: tuple[str, ...]  # remarks that hold
    judged: int  # remarks that could be judged

    @property
    def total(self) -> float:
        """The share of the figures and the share of the remarks: both lists weigh the same."""
        return self.close / max(self.figures, 1) + len(self.holding) / max(self.judged, 1)


def score(found: Found) -> Score:
    """Count the paper's figures and remarks that come out again."""
    near = [_is_close(*pair) for place in (JESTER, JESTER_20, BOOKS) for pair in _compared(found, place)]
    judged: dict[str, bool] = {}
    for remark, holds in REMARKS.items():
        try:
            judged[remark] = holds(found)
        except AbsentError:
            continue
    return Score(sum(near), len(near), tuple(remark for remark, held in judged.items() if held), len(judged))


def _is_close(ours: float | None, theirs: float) -> bool:
    return ours is not None and abs(ours / theirs - 1) <= CLOSE


def _compared(found: Found, place: Place) -> list[tuple[float | None, float]]:
    """Ours and the paper's RMSE, MAE and F1 of every method that was run at a place."""
    printed = table3.PRINTED[PAPER_DATA[place.where["data"]].published or ""]
    column = table3.FACTORS.index(place.where["factors"])
    pairs = []
    for method in place.methods:
        result = found(place, method)
        if result is not None:
            pairs += [
                (result[metric], row[column]) for metric, row in zip(table3.METRICS, printed[method], strict=True)
            ]
    return pairs


# --- what is said of it -----------------------------------------------------------------------------------------

TEXT = (
    "What the paper leaves open, answered in other ways, one question at a time from the first preset (random angles "
    "on [0, π], the last on [0, 2π); a step for each side of MBMF, one for both of MF and Bounded-SVD; ρ = .1; ratings "
    "outside their range kept; relative stopping; λ = .05 and α = 1 of Bounded-SVD scaled to a range of 4; "
    "non-negative ratings of NMF as they are; Figure 2's matrix of rank 20; BookCrossing's explicit ratings), then the "
    "best answers to three questions together. First fold; figures of Jester (K = 10 and 20) and BookCrossing (K = 10; "
    "without BMF and BMC-ADMM, which would take more than a day on all its entries); variation at K = 20. A figure "
    "counts when it is within 2 % of "
    "the paper's. Both lists were fixed before anything was run, and weigh the same.",
)
#: Key figures shown beside the scores: heading, place, method and path.
KEY: dict[str, tuple[Place, str, tuple[str, ...], float]] = {
    "Jester RMSE, MBMF-n": (JESTER, "MBMF-n", ("rmse",), 1),
    "Jester RMSE, MBMF-c": (JESTER, "MBMF-c", ("rmse",), 1),
    "Jester RMSE, Bounded-SVD": (JESTER, "Bounded-SVD", ("rmse",), 1),
    "BookCrossing RMSE, MBMF-n": (BOOKS, "MBMF-n", ("rmse",), 1),
    "BookCrossing RMSE, MBMF-c": (BOOKS, "MBMF-c", ("rmse",), 1),
    "BookCrossing RMSE, NMF": (BOOKS, "NMF", ("rmse",), 1),
    "BookCrossing, % below, MBMF-n": (BOOKS, "MBMF-n", ("everywhere", "below"), 100),
    "ave(σ), MBMF-n": (RESTARTS, "MBMF-n", ("average",), 1),
}


def choices(options: Options) -> Known:
    """What a reader can choose from."""
    if options.quick:
        return {}
    replaced = [name for reading in READINGS for name in reading.data.values()]
    data = [place.where["data"] for place in PLACES if place.table == table3.NAME]
    return {"data": tuple(dict.fromkeys([*data, *replaced])), "method": EIGHT, "factors": (10, 20), "fold": (0,)}


def summarise(outcomes: Sequence[Outcome], options: Options) -> Section:
    """One table of readings, and one of the remarks that each gives again."""
    section = Section("Which reading of the paper fits it best", list(TEXT))
    if not any(outcome.result for outcome in outcomes):
        section.text = ["The study needs the paper's data, and is part of the full version only."]
        return section
    by_name = {outcome.cell.name: outcome.result for outcome in outcomes}
    scores = {reading.label: score(lookup(reading, by_name, options)) for reading in READINGS}
    section.tables = [_scores(scores, by_name, options), _remarks(scores)]
    best, first = max(scores, key=lambda label: scores[label].total), scores[AS_IT_WAS.label]
    section.findings = [
        f"The best: {best}, with {scores[best].close} of {scores[best].figures} figures and "
        f"{len(scores[best].holding)} of {scores[best].judged} remarks (the first preset: {first.close} and "
        f"{len(first.holding)})."
    ]
    return section


def lookup(reading: Reading, by_name: Mapping[str, Mapping[str, Any] | None], options: Options) -> Found:
    """Where the results of a reading are."""
    return lambda place, method: by_name.get(cell(reading, place, method, options).name)


def _scores(scores: Mapping[str, Score], by_name: Mapping[str, Any], options: Options) -> Table:
    rows: list[Row] = []
    for reading in READINGS:
        found, own = lookup(reading, by_name, options), scores[reading.label]
        figures = [_key(found, *what) for what in KEY.values()]
        rows.append([reading.label, f"{own.close} of {own.figures}", f"{len(own.holding)} of {own.judged}", *figures])
    columns = ["reading", "figures within 2 %", "remarks", *KEY]
    caption = "Readings of what the paper leaves open, and how much of the paper each gives again"
    return Table("readings", caption, columns, rows, breaks=[reading.label for reading in COMBINED[:1]])


def _key(found: Found, place: Place, method: str, path: Sequence[str], scale: float) -> Figure:
    result: Any = found(place, method)
    for key in path:
        result = None if result is None else result[key]
    paper = None
    if path == ("rmse",):
        title = PAPER_DATA[place.where["data"]].published or ""
        paper = table3.PRINTED[title][method][0][table3.FACTORS.index(place.where["factors"])]
    return Figure(None if result is None else scale * result, paper, absent=NOT_RUN)


def _remarks(scores: Mapping[str, Score]) -> Table:
    """For each remark the readings under which it holds."""
    rows: list[Row] = []
    for remark in REMARKS:
        under = [label for label, own in scores.items() if remark in own.holding]
        rows.append([remark, f"{len(under)} of {len(scores)}", " · ".join(under)])
    columns = ["remark of the paper", "readings under which it holds", "which"]
    caption = "The paper's remarks, and the readings under which each holds"
    return Table("readings_remarks", caption, columns, rows, words=True)
