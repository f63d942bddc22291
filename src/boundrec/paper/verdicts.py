"""One verdict for each claim of the paper: its words, what was measured, and whether it holds.

Nothing is judged by hand: every verdict is worked out from the results there are, so that none can contradict them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from statistics import fmean
from typing import Any, NamedTuple

from boundrec.paper import Options, Outcome, Section, Table, claims, figure1, figure2, readings, table1, table3
from boundrec.paper.methods import MEANS, OURS, RIVALS
from boundrec.paper.protocol import ALL_PAIRS, PAPER_DATA
from boundrec.report import number

EIGHT = (*RIVALS, *OURS)
BOUNDED = ("BMF", "BMC-ADMM", "Bounded-SVD")
HOLDS, IN_PART, READING, FAILS, OPEN = (
    "holds",
    "holds in part",
    "holds under some readings",
    "does not hold",
    "not measured",
)
#: An error that changes by more than this factor is "very sensitive".
SENSITIVE = 1.1
#: Which predictions are looked at for whether they are in bounds.
LOOKED_AT = f"on the first fold, of {ALL_PAIRS:,} random pairs where there are more"
#: Up to so many times as long is "comparable".
COMPARABLE = 2.0
#: An error that is lower by more than this share is "massive" progress.
MASSIVE = 0.05
#: Data most of whose ratings are at the lower end of the scale or close to it.
CLOSE_TO_THE_LOWER_END = ("bookcrossing_paper", "lastfm_hetrec")
#: The reading of the study that is the preset.
PRESET = "start: directions ≥ 0"


class Verdict(NamedTuple):
    """What was measured, in words, and what follows."""

    measured: str
    verdict: str


class Claim(NamedTuple):
    """A claim of the paper: where it is made, in its words, and how it is judged."""

    where: str
    words: str
    judge: Callable[[Evidence], Verdict]


class Evidence:
    """The finished cells, by what the claims ask for."""

    def __init__(self, outcomes: Iterable[Outcome], options: Options) -> None:
        #: A cell may be in the plan twice, of a table and of a study.
        done = {(one.cell.experiment, one.cell.name): one for one in outcomes if one.result is not None}
        self._of: dict[str, list[Outcome]] = {}
        for outcome in done.values():
            self._of.setdefault(outcome.cell.experiment, []).append(outcome)
        by_name = {outcome.cell.name: outcome.result for outcome in self._of.get(readings.NAME, [])}
        some = readings.READINGS if by_name else ()
        self.scores = {one.label: readings.score(readings.lookup(one, by_name, options)) for one in some}

    def errors(self, data: str, metric: str, among: Sequence[str] = EIGHT) -> dict[int, dict[str, float]]:
        """K -> method -> mean error over the folds that all of the methods have which were run there."""
        found: dict[int, dict[str, dict[int, float]]] = {}
        for outcome in self.of(data):
            if outcome["method"] in among:
                value = outcome.figure(metric)
                own = found.setdefault(outcome["factors"], {}).setdefault(outcome["method"], {})
                own[outcome["fold"]] = readings.worst(metric) if value is None else value
        paired = {}
        for k, methods in sorted(found.items()):
            folds = set.intersection(*(set(own) for own in methods.values()))
            paired[k] = {m: fmean(own[fold] for fold in folds) for m, own in methods.items()} if folds else {}
        return paired

    def of(self, data: str) -> list[Outcome]:
        """The fits to a data set."""
        return [outcome for outcome in self._of.get(table3.NAME, []) if outcome["data"] == data]

    def folds(self, data: str, k: int, among: Sequence[str] = EIGHT) -> set[int]:
        """The folds that all of the methods have which were run at this K."""
        found: dict[str, set[int]] = {}
        for outcome in self.of(data):
            if outcome["factors"] == k and outcome["method"] in among:
                found.setdefault(outcome["method"], set()).add(outcome["fold"])
        return set.intersection(*found.values()) if found else set()

    def bracket(self, data: str, k: int, among: Sequence[str] = EIGHT) -> str:
        """The number of those folds in square brackets, where it is not that of the plan."""
        n_folds = len(self.folds(data, k, among))
        return "" if n_folds == table3.N_FOLDS else f" [{n_folds}]"

    def reach(self, method: str) -> dict[tuple[str, int], Mapping[str, Any]]:
        """Data set and K -> how far predictions of a method reach, on the first fold."""
        found: dict[tuple[str, int], Mapping[str, Any]] = {}
        for data, k in product(table3.FULL, table3.FACTORS):
            for outcome in self.of(data):
                looked_at = [outcome[key] for key in ("method", "factors", "fold")] == [method, k, 0]
                if looked_at and (own := outcome.figure("everywhere")) is not None:
                    found[data, k] = own
        return found

    def sigma(self, rank: int | None, key: str) -> dict[int, dict[str, float]]:
        """K -> method -> σ over restarts, on matrices of this kind; only K at which all eight were run."""
        found: dict[int, dict[str, float]] = {}
        for outcome in self._of.get(figure2.NAME, []):
            if outcome["rank"] == rank and outcome["method"] in EIGHT:
                value = outcome.figure(key)
                found.setdefault(outcome["factors"], {})[outcome["method"]] = float("inf") if value is None else value
        return {k: own for k, own in sorted(found.items()) if len(own) == len(EIGHT)}

    def times(self) -> list[Outcome]:
        """The running times."""
        return self._of.get(table1.NAME, [])

    def seconds(self) -> dict[tuple[int, int], dict[str, float]]:
        """Users and items -> method -> processor seconds."""
        found: dict[tuple[int, int], dict[str, list[float]]] = {}
        for outcome in self.times():
            if (outcome["users"], outcome["items"], outcome["density"]) in table1.SIZES:
                own = found.setdefault((outcome["users"], outcome["items"]), {})
                own.setdefault(outcome["method"], []).append(outcome.figure("cpu_seconds"))
        return {size: {m: fmean(times) for m, times in own.items()} for size, own in sorted(found.items())}

    def projected(self, size: tuple[int, int]) -> dict[str, float]:
        """Processor seconds of BMC-ADMM where they are worked out from a smaller matrix."""
        for one in table1.SIZES:
            if one[:2] == size and (about := table1.projected(one, "BMC-ADMM", self.times())):
                return {"BMC-ADMM": about[0]}
        return {}

    def scatter(self, key: str) -> dict[int, dict[float, float]]:
        """Figure 1: matrix -> density -> σ of NMF; only matrices of which every density was run."""
        found: dict[int, dict[float, float]] = {}
        for outcome in self._of.get(figure1.NAME, []):
            if outcome["method"] == "NMF":
                found.setdefault(figure1.matrix_of(outcome), {})[outcome["density"]] = outcome.figure(key)
        return {one: own for one, own in found.items() if len(own) == len(figure1.DENSITIES)}

    def restarts(self) -> dict[int, int]:
        """Figure 1: matrix -> restarts of NMF."""
        return {figure1.matrix_of(o): o["restarts"] for o in self._of.get(figure1.NAME, []) if o["method"] == "NMF"}

    def walls(self) -> list[Outcome]:
        """Bounded-SVD with other penalties."""
        return self._of.get(claims.NAME, [])

    def under(self, remark: str) -> tuple[int, int]:
        """Under how many readings of the study a remark holds, and of how many."""
        return sum(remark in own.holding for own in self.scores.values()), len(self.scores)

    def elsewhere(self, remarks: Iterable[str]) -> bool:
        """Whether all of some remarks hold together under a reading that is not the preset, where they do not."""
        under = [label for label, own in self.scores.items() if set(remarks) <= set(own.holding)]
        return bool(under) and PRESET not in under


def of_cases(cases: Mapping[str, bool], *, most: bool = False) -> str:
    """All, at least half, or fewer; of a claim about most cases, more than half are enough."""
    if not cases:
        return OPEN
    held = sum(cases.values())
    whole = 2 * held > len(cases) if most else held == len(cases)
    return HOLDS if whole else IN_PART if 2 * held >= len(cases) else FAILS


def with_readings(verdict: str, evidence: Evidence, *remarks: str) -> tuple[str, str]:
    """The verdict, and a sentence on the readings of the study; what fails here may hold as a whole under another."""
    counts = [evidence.under(remark) for remark in remarks]
    if not counts or not counts[0][1]:
        return verdict, ""
    told = "; ".join(f"“{remark}” under {held} of {all_}" for remark, (held, all_) in zip(remarks, counts, strict=True))
    if verdict == FAILS and evidence.elsewhere(remarks):
        verdict = READING
    return verdict, f" Of the study's readings: {told}."


def judged(measured: str, cases: Mapping[Any, bool], evidence: Evidence | None = None, *remarks: str) -> Verdict:
    """The verdict on the cases, which are counted, and on what the study's readings say to some remarks."""
    verdict, more = of_cases(cases), ""
    if evidence is not None:
        verdict, more = with_readings(verdict, evidence, *remarks)
    return Verdict(f"{measured} As claimed in {_count(cases)} cases.{more}", verdict)


def _count(cases: Mapping[str, bool]) -> str:
    """3 of 5."""
    return f"{sum(cases.values())} of {len(cases)}"


def sizes(size: tuple[int, int]) -> str:
    """200 × 500."""
    return f"{size[0]:,} × {size[1]:,}"


def listed(words: Iterable[str]) -> str:
    """One, two and three."""
    some = list(words)
    return " and ".join([", ".join(some[:-1]), some[-1]]) if len(some) > 1 else "".join(some)


# --- accuracy ---------------------------------------------------------------------------------------------------


def _best(evidence: Evidence, data: str, metric: str, among: Sequence[str] = EIGHT) -> dict[int, str]:
    """K -> the best of the paper's methods that were run, where both forms of MBMF and a rival were."""
    sign = -1 if metric == "f1" else 1
    tables = evidence.errors(data, metric, among).items()
    return {k: min(own, key=lambda m: sign * own[m]) for k, own in tables if set(OURS) < own.keys()}


def _winners(
    evidence: Evidence, data: str, metric: str, among: Sequence[str] = EIGHT, ks: Sequence[int] = table3.FACTORS
) -> str:
    """MBMF-c (K = 10, 20: 4.35, 4.33 [1])."""
    best, values = _best(evidence, data, metric, among), evidence.errors(data, metric, among)
    told = []
    for method in dict.fromkeys(best[k] for k in best if k in ks):
        at = [k for k, winner in best.items() if winner == method and k in ks]
        figures = ", ".join(number(values[k][method]) + evidence.bracket(data, k, among) for k in at)
        told.append(f"{method} (K = {', '.join(map(str, at))}: {figures})")
    return ", ".join(told)


def _superior(evidence: Evidence) -> Verdict:
    cases: dict[str, bool] = {}
    whole: dict[str, bool] = {}
    told: list[str] = []
    for name in table3.FULL:
        table, best = evidence.errors(name, "rmse"), _best(evidence, name, "rmse")
        won = {f"{name} {k}": method in OURS for k, method in best.items()}
        cases |= won
        whole |= {f"{name} {k}": won[f"{name} {k}"] for k in best if len(table[k]) == len(EIGHT)}
        if best:
            told.append(f"{PAPER_DATA[name].title}: {_winners(evidence, name, 'rmse')}")
    if not cases:
        return Verdict("", OPEN)
    start = (
        f"A form of MBMF has the lowest RMSE of the paper's methods that were run in {_count(cases)} cells with both "
        f"forms; all eight were run in {len(whole)} of these, and it has it in {sum(whole.values())} of them"
    )
    rest = f"{_with_one_form(evidence)}{_offsets(evidence)}"
    return Verdict(f"{start}. {'; '.join(told)}. {rest}", of_cases(cases, most=True))


def _with_one_form(evidence: Evidence) -> str:
    """What is not counted, though rivals were run there: a sentence, or nothing."""
    told = []
    for name in table3.FULL:
        for k, own in evidence.errors(name, "rmse").items():
            mine, rivals = [m for m in OURS if m in own], [m for m in RIVALS if m in own]
            if len(mine) == 1 and rivals:
                some = *mine, min(rivals, key=own.__getitem__)
                figures = ", ".join(f"{m} {number(own[m])}" for m in some)
                told.append(f"{PAPER_DATA[name].title} at K = {k} ({figures}{evidence.bracket(name, k)})")
    return f"Not counted, with one form only: {'; '.join(told)}. " if told else ""


def _offsets(evidence: Evidence) -> str:
    """How often the mean predictor, which the paper leaves out, is better than both forms."""
    tables = [evidence.errors(name, "rmse", (MEANS, *OURS)) for name in table3.FULL]
    compared = [own for table in tables for own in table.values() if len(own) == len(OURS) + 1]
    lower = sum(own[MEANS] < min(own[m] for m in OURS) for own in compared)
    return f"Offsets alone, which the paper leaves out, are lower than both forms in {lower} of {len(compared)} cells."


def _all_metrics(evidence: Evidence) -> Verdict:
    won = {
        metric.upper(): [m in OURS for name in table3.FULL for m in _best(evidence, name, metric).values()]
        for metric in table3.METRICS
    }
    for key in figure2.CLAIMED:
        tables = [own for rank in KINDS.values() for own in evidence.sigma(rank, key).values()]
        won[f"{figure2.SYMBOLS[key]} of synthetic matrices"] = [min(own, key=own.__getitem__) in OURS for own in tables]
    won = {metric: held for metric, held in won.items() if held}
    told = ", ".join(f"{metric} {sum(held)} of {len(held)}" for metric, held in won.items())
    start = "A form of MBMF is the best of the paper's methods that were run in so many cells with both forms"
    cases = {metric: 2 * sum(held) > len(held) for metric, held in won.items()}
    cells = {f"{metric} {i}": one for metric, held in won.items() for i, one in enumerate(held)}
    rest = f"A case is a metric, won if in more than half of its cells: {_count(cases)} (cell by cell: {_count(cells)})"
    return Verdict(f"{start}: {told}. {rest}.", of_cases(cases))


def _jester(evidence: Evidence) -> Verdict:
    name = "jester1"
    cases: dict[str, bool] = {}
    for metric in table3.METRICS:
        for k, own in evidence.errors(name, metric).items():
            if len(own) == len(EIGHT):
                order = sorted(own, key=own.__getitem__, reverse=metric == "f1")
                cases |= {f"{metric} {k} n": order[0] == "MBMF-n", f"{metric} {k} c": order[1] == "MBMF-c"}
    told = "; ".join(f"{m.upper()}: {_winners(evidence, name, m)}" for m in table3.METRICS)
    remarks = ("Jester: MBMF-n has the lowest RMSE", "Jester: MBMF-n has the highest F1")
    return judged(f"Best of the eight: {told}.", cases, evidence, *remarks)


def _massive(evidence: Evidence) -> Verdict:
    cases: dict[str, bool] = {}
    told: list[str] = []
    for k, own in evidence.errors("jester1", "rmse").items():
        if len(own) == len(EIGHT):
            rival = min(RIVALS, key=own.__getitem__)
            mine = min(OURS, key=own.__getitem__)
            cases[str(k)] = own[mine] < (1 - MASSIVE) * own[rival]
            told.append(f"K = {k}: {100 * (1 - own[mine] / own[rival]):.1f} % below {rival}")
    return judged(
        f"RMSE of the better form, massive if more than {100 * MASSIVE:g} % below the best rival: {'; '.join(told)}.",
        cases,
    )


def _history(evidence: Evidence) -> Verdict:
    told: list[str] = []
    for name in table3.FULL:
        pair = ("MBMF-c", "MBMF-c, one range")
        at = evidence.errors(name, "rmse", pair).get(10, {})
        if len(at) > 1:
            figures = f"{number(at[pair[1]])} → {number(at[pair[0]])}{evidence.bracket(name, 10, pair)}"
            told.append(f"{PAPER_DATA[name].title} {figures}")
    start, verdict = _with_history(evidence, table3.FULL)
    rest = "The ablation tells how much of it one narrower range gives, and what a better solver makes of it"
    return Verdict(f"{start} (RMSE of MBMF-c, K = 10: {', '.join(told)}). {rest}.", verdict)


def _history_on_jester(evidence: Evidence) -> Verdict:
    start, verdict = _with_history(evidence, ("jester1",))
    told = []
    for form in OURS:
        pair = (form, f"{form}, own history")
        at = evidence.errors("jester1", "rmse", pair).get(10, {})
        if len(at) > 1:
            figures = f"{number(at[pair[0]])} and {number(at[pair[1]])}{evidence.bracket('jester1', 10, pair)}"
            told.append(f"{form} {figures}")
    beside = f" RMSE beside that with magnitudes from the training ratings alone, K = 10: {', '.join(told)}."
    return Verdict(f"{start}.{beside if told else ''}", verdict)


def _with_history(evidence: Evidence, names: Sequence[str]) -> tuple[str, str]:
    """How often magnitudes from history are better than one range, in words, and the verdict."""
    better = {metric: _better_than_one_range(evidence, metric, names) for metric in table3.METRICS}
    cases = {f"{metric} {place}": held for metric, own in better.items() for place, held in own.items()}
    told = ", ".join(f"{metric.upper()} {_count(own)}" for metric, own in better.items())
    return f"Better than with one range for all in so many cells: {told}", of_cases(cases)


def _better_than_one_range(evidence: Evidence, metric: str, names: Sequence[str]) -> dict[str, bool]:
    """Data set, form and K -> whether magnitudes from history give a better figure than one range for all."""
    sign, found = -1 if metric == "f1" else 1, {}
    for name in names:
        for form in OURS:
            for k, own in evidence.errors(name, metric, (form, f"{form}, one range")).items():
                if len(own) > 1:
                    found[f"{name} {form} {k}"] = sign * own[form] < sign * own[f"{form}, one range"]
    return found


def _books(evidence: Evidence) -> Verdict:
    names = [name for name in table3.FULL if name.startswith("bookcrossing")]
    cases: dict[str, bool] = {}
    told: list[str] = []
    for name in names:
        for metric, winner in (("rmse", "MBMF-c"), ("mae", "MBMF-c"), ("f1", "CCD++")):
            cases |= {f"{name} {metric} {k}": m == winner for k, m in _best(evidence, name, metric).items()}
        if _best(evidence, name, "rmse"):
            both = (f"{m.upper()} {_winners(evidence, name, m)}" for m in table3.METRICS)
            told.append(f"{PAPER_DATA[name].title}: {', '.join(both)}")
    remarks = ("BookCrossing: MBMF-c has the lowest RMSE and MAE", "BookCrossing: CCD++ has the highest F1")
    start = "Best of those that were run, where both forms were"
    more = "".join(_on_more_folds(evidence, name) for name in names)
    return judged(f"{start}. {'; '.join(told)}.{more}", cases, evidence, *remarks)


def _counts(evidence: Evidence) -> Verdict:
    name = "lastfm_hetrec"
    cases: dict[str, bool] = {}
    for metric, winner in (("mae", "MBMF-c"), ("f1", "MBMF-c"), ("rmse", "Bounded-SVD")):
        cases |= {f"{metric} {k}": m == winner for k, m in _best(evidence, name, metric).items()}
    told = "; ".join(f"{m.upper()}: {_winners(evidence, name, m)}" for m in table3.METRICS)
    start = "Ali Mob's file is not to be had. On Last.fm's counts"
    measured = f"{start}, {told}.{_on_more_folds(evidence, name)}"
    return judged(measured, cases, evidence, "Counts: MBMF-c has the lowest MAE and the highest F1")


def _on_more_folds(evidence: Evidence, data: str) -> str:
    """The best of those methods alone that have more folds than others that were run, if both forms are among them."""
    where: dict[tuple[str, ...], list[int]] = {}
    for k in table3.FACTORS:
        run = [m for m in EIGHT if evidence.folds(data, k, [m])]
        whole = tuple(m for m in run if len(evidence.folds(data, k, [m])) == table3.N_FOLDS)
        if set(OURS) < set(whole) < set(run):
            where.setdefault(whole, []).append(k)
    told = ""
    for some, ks in where.items():
        best = "; ".join(f"{m.upper()}: {_winners(evidence, data, m, some, ks)}" for m in table3.METRICS)
        told += f" On all {table3.N_FOLDS} folds, which {listed(some)} have, {best}."
    return told


def _changes(evidence: Evidence, data: str, among: Sequence[str] = EIGHT) -> dict[str, float]:
    """By how many per cent the RMSE of each method that was run at every K changes over K, on the same folds."""
    over = table3.over_factors(evidence.of(data), among, table3.FACTORS)[0]
    return {m: 100 * (max(values) / min(values) - 1) for m, values in over.items()}


def _steady(evidence: Evidence) -> Verdict:
    cases: dict[str, bool] = {}
    told: list[str] = []
    for name in table3.FULL:
        change = _changes(evidence, name)
        ours, rivals = [m for m in OURS if m in change], [m for m in RIVALS if m in change]
        if ours and rivals:
            rival = min(rivals, key=change.__getitem__)
            cases[name] = max(change[m] for m in ours) < change[rival]
            own = listed(f"{m} {change[m]:.1f} %" for m in ours)
            told.append(f"{PAPER_DATA[name].title}: {own}, steadiest rival {rival} {change[rival]:.1f} %")
    start = "Change of RMSE over K, on the folds that all have of those run at every K"
    remark = "RMSE on Jester: both forms of MBMF change least with K"
    return judged(f"{start}. {'; '.join(told)}.", cases, evidence, remark)


def _because_of_the_bound(evidence: Evidence) -> Verdict:
    cases: dict[str, bool] = {}
    told: list[str] = []
    for name in table3.FULL:
        change = _changes(evidence, name, (*OURS, "MBMF-n exact", "MBMF-c exact"))
        if len(change) == 4:
            for form in OURS:
                cases[f"{name} {form}"] = change[f"{form} exact"] <= max(1.0, change[form])
            both = listed(f"{m} exact {change[f'{m} exact']:.1f} %" for m in OURS)
            told.append(f"{PAPER_DATA[name].title}: {both}")
    start = "Under the same bound, with each row solved to its minimum, RMSE changes over K (up to 1 % or as MBMF) by"
    return judged(f"{start} {'; '.join(told)}.", cases)


def _strict(evidence: Evidence) -> Verdict:
    cases: dict[str, bool] = {}
    told: list[str] = []
    pair = "MBMF-c exact", "MBMF-c ball"
    for name in table3.FULL:
        for k, own in evidence.errors(name, "rmse", pair).items():
            if len(own) == 2:
                cases[f"{name} {k}"] = own[pair[1]] < own[pair[0]]
                if k == 10:
                    figures = f"{number(own[pair[0]])} → {number(own[pair[1]])}{evidence.bracket(name, k, pair)}"
                    told.append(f"{PAPER_DATA[name].title} {figures}")
    won = f"|w| ≤ r has a lower RMSE than |w| = r in {sum(cases.values())} of {len(cases)} cells"
    rest = (
        "; a row is solved exactly in both cases, at about the same cost; the former's magnitudes keep the declared "
        "bounds, the latter's are the paper's"
    )
    return Verdict(f"{won} (form c, K = 10: {', '.join(told)}){rest}.", of_cases(cases))


# --- bounds -----------------------------------------------------------------------------------------------------


def _bounded(evidence: Evidence) -> Verdict:
    cases = {one: found["below"] == 0 == found["above"] for one, found in evidence.reach("MBMF-c ball").items()}
    told = [PAPER_DATA[name].title for name in dict.fromkeys(name for name, _ in cases)]
    what = "A theorem, and tested as such. With magnitudes that keep the declared bounds"
    found = "no prediction" if all(cases.values()) else "some predictions"
    rest = "With the paper's own, which may pass them, MBMF-c leaves them in at most"
    most = max((own["below"] + own["above"] for own in evidence.reach("MBMF-c").values()), default=0)
    measured = f"{what} (MBMF-c ball), {found} outside on {listed(told)}, {LOOKED_AT}"
    return judged(f"{measured}. {rest} {100 * most:.2g} % of pairs.", cases)


def _rare(evidence: Evidence) -> Verdict:
    below = _below(evidence)
    cases = {one: share <= readings.RARE for one, share in below.items()}
    told = ", ".join(_shares(name, below) for name in dict.fromkeys(name for name, _ in below))
    start = f"Share of pairs below the lower end in %, {LOOKED_AT}, up to {100 * readings.RARE:g} % is very rare"
    return judged(f"{start}: {told}.", cases, evidence, "MBMF-n is very rarely below the lower end")


def _below(evidence: Evidence) -> dict[tuple[str, int], float]:
    """Data set and K -> the share of pairs for which MBMF-n is below the lower end."""
    return {one: found["below"] for one, found in evidence.reach("MBMF-n").items()}


def _shares(name: str, of: Mapping[tuple[str, int], float]) -> str:
    """A data set and its shares in %, with their K."""
    own = {k: share for (data, k), share in of.items() if data == name}
    figures = ", ".join(f"{100 * share:.2g}" for share in own.values())
    return f"{PAPER_DATA[name].title} (K = {', '.join(map(str, own))}: {figures})"


def _exceptions(evidence: Evidence) -> Verdict:
    below = {one: share for one, share in _below(evidence).items() if share > readings.RARE}
    cases = {(name, k): name in CLOSE_TO_THE_LOWER_END for name, k in below}
    told = {
        close: listed(
            _shares(n, below) for n in dict.fromkeys(name for (name, _), own in cases.items() if own == close)
        )
        for close in (True, False)
    }
    start = f"More than {100 * readings.RARE:g} % of pairs below the lower end where most ratings are close to it"
    measured = f"{start}: {told[True] or 'nowhere'}; where they are not: {told[False] or 'nowhere'}."
    return judged(measured, cases, evidence, "… but where most ratings are close to it")


def _walls(evidence: Evidence) -> Verdict:
    cases: dict[str, bool] = {}
    told: list[str] = []
    for data in dict.fromkeys(o["data"] for o in evidence.walls()):
        own = {o["penalty"]: o for o in evidence.walls() if o["data"] == data and "sharpness" not in o.cell.settings}
        if not {0.01, 10.0} <= own.keys():
            continue
        reach = own[10.0].figure("everywhere")
        outside = own[0.01].figure("outside")
        low, high = reach["lowest"], reach["highest"]
        cases |= {f"{data} small": outside > 0.5, f"{data} large": max(abs(low), abs(high)) < 1}
        told.append(f"{PAPER_DATA[data].title}: {100 * outside:.2g} % outside, from {number(low)} to {number(high)}")
    start = "Held-out predictions outside the bounds at λ = .01 (most: over half), products at λ = 10 (small: under 1)"
    return judged(f"{start}. {'; '.join(told)}.", cases)


def _sensitive(evidence: Evidence) -> Verdict:
    cases: dict[str, bool] = {}
    told: list[str] = []
    for data in dict.fromkeys(o["data"] for o in evidence.walls()):
        own = {_wall(o): o.figure("rmse") for o in evidence.walls() if o["data"] == data and o.figure("rmse")}
        if len(own) > 1:
            best, worst = min(own, key=own.__getitem__), max(own, key=own.__getitem__)
            cases[data] = own[worst] > SENSITIVE * own[best]
            told.append(f"{PAPER_DATA[data].title} from {number(own[best])} ({best}) to {number(own[worst])} ({worst})")
    start = f"RMSE over the λ and α that were tried, very sensitive if more than {SENSITIVE:g} times the least"
    return judged(f"{start}: {'; '.join(told)}.", cases)


def _wall(outcome: Outcome) -> str:
    """λ and α in words; α is 1 unless told."""
    settings = outcome.cell.settings
    return f"λ = {settings['penalty']:g}, α = {settings.get('sharpness', claims.SHARPNESS):g}"


# --- variation --------------------------------------------------------------------------------------------------

KINDS = {figure2.describe(rank): rank for rank in figure2.RANKS}


def _least_varied(evidence: Evidence, method: str = "MBMF-n") -> Verdict:
    cases: dict[str, bool] = {}
    told: list[str] = []
    for kind, rank in KINDS.items():
        for key in figure2.CLAIMED:
            table = evidence.sigma(rank, key)
            lowest = {k: min(own, key=own.__getitem__) for k, own in table.items()}
            cases |= {f"{kind} {key} {k}": winner == method for k, winner in lowest.items()}
            if lowest:
                counts = {m: sum(w == m for w in lowest.values()) for m in dict.fromkeys(lowest.values())}
                won = ", ".join(f"{m} at {n}" for m, n in sorted(counts.items(), key=lambda one: -one[1]))
                told.append(f"matrices {kind}, {figure2.SYMBOLS[key]}: {won} of {len(lowest)} K")
    remarks = ("Variation: MBMF-n has the lowest ave(σ)", "Variation: MBMF-n has the lowest max(σ)")
    return judged(f"Lowest of the eight. {'; '.join(told)}.", cases, evidence, *remarks)


def _best_bounded(evidence: Evidence) -> Verdict:
    cases: dict[str, bool] = {}
    told: list[str] = []
    for kind, rank in KINDS.items():
        for key in figure2.CLAIMED:
            table = evidence.sigma(rank, key)
            least = [own["MBMF-n"] < min(own[m] for m in BOUNDED) for own in table.values()]
            cases |= {f"{kind} {key} {i}": held for i, held in enumerate(least)}
            if least:
                told.append(f"matrices {kind}, {figure2.SYMBOLS[key]}: {sum(least)} of {len(least)}")
    return judged(f"Lower than BMF, BMC-ADMM and Bounded-SVD at so many K: {'; '.join(told)}.", cases)


def _calmer(evidence: Evidence) -> Verdict:
    cases: dict[str, bool] = {}
    told: list[str] = []
    for kind, rank in KINDS.items():
        for key in figure2.CLAIMED:
            table, own = evidence.sigma(rank, key), []
            for method in (*BOUNDED, "MBMF-n"):
                less = [at[method] < min(at["MF"], at["NMF"]) for at in table.values()]
                cases |= {f"{kind} {key} {method} {i}": held for i, held in enumerate(less)}
                own.append(f"{method} {sum(less)}")
            if table:
                told.append(f"matrices {kind}, {figure2.SYMBOLS[key]}: {', '.join(own)} of {len(table)}")
    return judged(f"Smaller σ than both MF and NMF at so many K: {'; '.join(told)}.", cases)


def _order(evidence: Evidence) -> Verdict:
    cases: dict[str, bool] = {}
    told: list[str] = []
    for kind, rank in KINDS.items():
        table = evidence.sigma(rank, "average")
        means = {m: fmean(own[m] for own in table.values()) for m in EIGHT} if table else {}
        if means:
            order = sorted(means, key=means.__getitem__)
            cases[kind] = order[:4] == ["MBMF-n", "CCD++", "BMF", "Bounded-SVD"]
            told.append(f"{kind}: {', '.join(f'{m} {number(means[m])}' for m in order)}")
    return judged(f"ave(σ), mean over K, matrices {'; '.join(told)}.", cases)


def _more_missing(evidence: Evidence) -> Verdict:
    rising = {
        key: {str(one): _rises(spread) for one, spread in evidence.scatter(key).items()} for key in figure2.CLAIMED
    }
    average, largest = rising.values()
    cases = {one: held and largest[one] for one, held in average.items()}
    told = ", ".join(f"{figure2.SYMBOLS[key]} on {_count(own)}" for key, own in rising.items())
    start = "σ of NMF rises from 80 to 50 and to 20 % kept, on random matrices of rank 3"
    some: dict[int, list[str]] = {}
    for one, restarts in sorted(evidence.restarts().items()):
        some.setdefault(restarts, []).append(str(one))
    tried = "; ".join(f"{restarts:,} restarts on {len(own)}" for restarts, own in some.items())
    return Verdict(f"{start}: {told}, both on {_count(cases)} ({tried}).", of_cases(cases))


def _rises(spread: Mapping[float, float]) -> bool:
    ordered = [spread[density] for density in figure1.DENSITIES]
    return ordered == sorted(ordered)


# --- time -------------------------------------------------------------------------------------------------------


def _fastest(evidence: Evidence) -> Verdict:
    cases: dict[str, bool] = {}
    told: list[str] = []
    for size, own in evidence.seconds().items():
        rivals = {m: own[m] for m in BOUNDED if m in own} | evidence.projected(size)
        if rivals and "MBMF-n" in own:
            best = min(rivals, key=rivals.__getitem__)
            cases[sizes(size)] = own["MBMF-n"] < rivals[best]
            told.append(f"{sizes(size)}: {number(own['MBMF-n'])}, {best} {number(rivals[best])}")
    remark = "Time: MBMF-n is faster than BMC-ADMM at 2,000 × 5,000"
    start = "Processor seconds of MBMF-n and of the fastest bounded rival"
    return judged(f"{start}. {'; '.join(told)}.", cases, evidence, remark)


def _comparable(evidence: Evidence) -> Verdict:
    classic = ("MF", "NMF")
    there = {size: own for size, own in evidence.seconds().items() if {"MBMF-n", *classic} <= own.keys()}
    if not there:
        return Verdict("", OPEN)
    size = max(there, key=lambda one: one[0] * one[1])
    own = there[size] | evidence.projected(size)
    cases: dict[str, bool] = {}
    told: list[str] = []
    for method in (m for m in ("MBMF-n", *BOUNDED) if m in own):
        ratios = {m: own[method] / own[m] for m in classic}
        cases |= {f"{method} {m}": (ratio <= COMPARABLE) == (method == "MBMF-n") for m, ratio in ratios.items()}
        told.append(f"{method} {listed(f'{ratio:.1f} times that of {m}' for m, ratio in ratios.items())}")
    start = f"Processor time at {sizes(size)}, the largest at which MBMF-n was run"
    rest = f"up to {COMPARABLE:g} times is comparable, in {_count(cases)} comparisons as claimed"
    absent = [m for m in BOUNDED if m not in own]
    without = f"; not run there: {listed(absent)}" if absent else ""
    return Verdict(f"{start}: {'; '.join(told)} ({rest}{without}).", of_cases(cases))


def _slow_admm(evidence: Evidence) -> Verdict:
    cases: dict[str, bool] = {}
    told: list[str] = []
    for size, times in evidence.seconds().items():
        own = evidence.projected(size) | times
        others = [m for m in ("MF", "NMF", "MBMF-n") if m in own]
        if "BMC-ADMM" in own and "MBMF-n" in own:
            ratios = {m: own["BMC-ADMM"] / own[m] for m in others}
            cases[sizes(size)] = min(ratios.values()) > 1
            told.append(f"{sizes(size)} {listed(f'{ratio:.2g} ({m})' for m, ratio in ratios.items())}")
    slower = [size for size, held in cases.items() if held]
    start = f"BMC-ADMM is slower than all of them at {_count(cases)} sizes{f' ({listed(slower)})' if slower else ''}"
    return Verdict(f"{start}. Its processor time, times theirs: {'; '.join(told)}.", of_cases(cases))


def _fall_behind(evidence: Evidence) -> Verdict:
    cases: dict[str, bool] = {}
    told: list[str] = []
    for size, own in evidence.seconds().items():
        for method in ("BMF", "Bounded-SVD"):
            if method in own and "MBMF-n" in own:
                ratio = own[method] / own["MBMF-n"]
                behind = size[0] * size[1] >= 100_000
                cases[f"{size} {method}"] = ratio > COMPARABLE if behind else ratio < 1
                told.append(f"{method} {sizes(size)} {ratio:.1f}")
    start = f"Times that of MBMF-n, fast if under 1, from the third size on far behind if over {COMPARABLE:g}"
    return judged(f"{start}: {', '.join(told)}.", cases)


def _large_admm(evidence: Evidence) -> Verdict:
    cases: dict[str, bool] = {}
    told: list[str] = []
    for size, own in evidence.seconds().items():
        if "BMC-ADMM" in own and size[0] * size[1] <= 10_000:
            fastest = min((m for m in (*BOUNDED, "MBMF-n") if m in own), key=own.__getitem__)
            cases[sizes(size)] = fastest != "BMC-ADMM"
            told.append(f"{sizes(size)}: {fastest} is the fastest, BMC-ADMM {number(own['BMC-ADMM'])} s")
    for whole in table1.SIZES:
        if about := table1.projected(whole, "BMC-ADMM", evidence.times()):
            cases[f"{sizes(whole[:2])} at all"] = True
            told.append(
                f"{sizes(whole[:2])}: about {about[0] / 3600:.1f} h ({about[1]} iterations, measured at a tenth)"
            )
    return judged(f"{'; '.join(told)}.", cases)


def _complexity(evidence: Evidence) -> Verdict:
    told = {
        sizes(s): own["MBMF-n"] / own["MF"] for s, own in evidence.seconds().items() if {"MBMF-n", "MF"} <= own.keys()
    }
    cases = {size: ratio <= COMPARABLE for size, ratio in told.items()}
    words = ", ".join(f"{size} {ratio:.1f}" for size, ratio in told.items())
    return judged(
        f"Time of MBMF-n over that of MF, as many iterations at most, up to {COMPARABLE:g} is the same: {words}.", cases
    )


def _descent(evidence: Evidence) -> Verdict:
    cases: dict[str, bool] = {}
    told: list[str] = []
    for name in table3.FULL:
        for form in OURS:
            own = evidence.errors(name, "rmse", (form, f"{form} exact")).get(10, {})
            if len(own) == 2:
                cases[f"{name} {form}"] = own[form] <= own[f"{form} exact"] * 1.01
                figures = f"{number(own[form])}, exact {number(own[f'{form} exact'])}"
                told.append(
                    f"{PAPER_DATA[name].title} {form} {figures}{evidence.bracket(name, 10, (form, f'{form} exact'))}"
                )
    start = "RMSE at K = 10 beside that of the same model with rows solved exactly, up to 1 % more is as good"
    return judged(f"{start}: {'; '.join(told)}.", cases)


CLAIMS = (
    Claim(
        "abstract",
        "in most cases the proposed MBMF is superior over all existing algorithms in terms of accuracy",
        _superior,
    ),
    Claim("abstract", "… and time complexity", _fastest),
    Claim("contribution 1", "MBMF bounds all entries using individual ranges", _bounded),
    Claim(
        "contribution 2",
        "MBMF is the fastest bounding algorithm against the state-of-art bounding algorithms",
        _fastest,
    ),
    Claim(
        "contribution 2",
        "On very large synthetic datasets … MBMF is the only bounding algorithm which has comparable efficiency "
        "against classic matrix factorisation algorithms (MF and NMF)",
        _comparable,
    ),
    Claim("contribution 3", "a feasible way to incorporate historical data into our proposed model", _history),
    Claim(
        "contribution 3",
        "MBMF is capable for different types of datasets and can achieve the best performance in most cases",
        _superior,
    ),
    Claim(
        "introduction",
        "the increase in missing entries led towards higher fluctuations as both the average and maximal σ became "
        "greater",
        _more_missing,
    ),
    Claim(
        "introduction",
        "bounding the entries in the product matrix into different and more concise ranges … is also likely to gain "
        "better recommendations",
        _history,
    ),
    Claim("related work", "its efficiency still falls behind of the classic methods and our proposed MBMF", _slow_admm),
    Claim("related work", "Bounded-SVD is very sensitive to its penalty coefficients", _sensitive),
    Claim(
        "related work",
        "when they are set to be large (such as 10), all product values become very small, while when they are set to "
        "have small values (such as 0.01), most of the entries cannot be bounded within the predefined range",
        _walls,
    ),
    Claim("method", "it can be solved efficiently by the SGD method", _descent),
    Claim(
        "method",
        "it is very rare that entries in product matrix are smaller than the predefined lower bound when applying "
        "MBMF-n",
        _rare,
    ),
    Claim("method", "We only found exceptions when most observations were close to the lower bound", _exceptions),
    Claim("complexity", "the same as the traditional matrix factorisation approach", _complexity),
    Claim(
        "complexity",
        "BMF and Bounded-SVD are quite fast when the matrix is small … Since the third case study, they start to fall "
        "far behind to the other bounding algorithms",
        _fall_behind,
    ),
    Claim(
        "complexity",
        "BMF-ADMM is not the fastest algorithm on small matrices, but it can still be applied to large scale "
        "instances, despite its long running time",
        _large_admm,
    ),
    Claim(
        "complexity",
        "MBMF-n is the overall fastest algorithm not only on small matrices, but also on large scale ones",
        _fastest,
    ),
    Claim(
        "experiments, Figure 2",
        "four bounding algorithms (BMF, BMC-ADMM, Bounded-SVD and MBMF-n) all successfully reduced the prediction "
        "variation compared with the traditional matrix factorisation methods (MF and NMF)",
        _calmer,
    ),
    Claim(
        "experiments, Figure 2",
        "MBMF-n achieves both the lowest average σ and the lowest maximal σ in all cases",
        _least_varied,
    ),
    Claim("experiments, Figure 2", "followed by CCD++ … BMF and Bounded-SVD", _order),
    Claim(
        "experiments, Figure 2",
        "MBMF is so far the best bounding algorithm in terms of reducing prediction variation",
        _best_bounded,
    ),
    Claim("experiments, Figure 2", "it does not require repeated runs", _best_bounded),
    Claim(
        "experiments, Jester",
        "the performance of MBMF-n on the Jester dataset is the best among all methods … followed by MBMF-c",
        _jester,
    ),
    Claim("experiments, Jester", "The improvement of MBMF is massive on this dataset", _massive),
    Claim(
        "experiments, Jester",
        "the magnitudes obtained from the historical ratings can represent users and jokes very well",
        _history_on_jester,
    ),
    Claim(
        "experiments, BookCrossing",
        "MBMF-c achieves the best RMSE … and MAE … in all cases, while CCD++ obtains the highest average F1 Score",
        _books,
    ),
    Claim(
        "experiments, Ali Mob",
        "MBMF-c achieves the best performance over MAE … and F1 score … in all cases, while Bounded-SVD obtains the "
        "lowest RMSE",
        _counts,
    ),
    Claim(
        "discussion",
        "the performance of MBMF does not change much when K varies, while other methods obtain their best results "
        "with different K",
        _steady,
    ),
    Claim(
        "discussion",
        "we do not have to repeat experiments to determine the best suitable K",
        _steady,
    ),
    Claim("discussion", "The reason of the high stability in MBMF is the magnitude constraint", _because_of_the_bound),
    Claim(
        "discussion",
        "relax the magnitude constraints from equalities to inequalities … which will make MBMF more flexible but "
        "harder to solve as well",
        _strict,
    ),
    Claim(
        "conclusions",
        "MBMF achieved superior performance over all evaluation metrics on both synthetic datasets and real "
        "recommendation datasets",
        _all_metrics,
    ),
)

#: What the words of a verdict mean; the page of the documentation has the same sentences.
RULE = (
    "Each line has what its cases are. Holds: in every case that was compared; a claim about most cases holds in more "
    "than half of them. Holds in part: in at least half. Does not hold: in fewer. Holds under some readings: in fewer, "
    "but all remarks of the study that the line names hold together under a reading of what the paper leaves open, "
    "though not under the preset. Errors are means over the folds that all methods have which are compared there; how "
    "many stands in square brackets where it is not five, but where a line tells how errors change: by K on those "
    "folds, by λ and α on the first. What a case is, and the limits that some lines name, are our choices, and not all "
    "of them were made before the results were known."
)
TEXT = (
    "Every claim of abstract, contributions, experiments and discussion, in the paper's words; what was measured here; "
    "and what follows. The verdicts are worked out from the results below. “The eight” are the paper's methods.",
    RULE,
)


def summarise(outcomes: Iterable[Outcome], options: Options) -> Section:
    """The table of claims, from all outcomes there are."""
    evidence = Evidence(outcomes, options)
    rows: list[list[str]] = []
    told: dict[Callable[[Evidence], Verdict], str] = {}
    for claim in CLAIMS:
        found = claim.judge(evidence)
        measured = f"As said of “{told[claim.judge]}”." if claim.judge in told else found.measured
        told.setdefault(claim.judge, claim.words)
        rows.append([claim.where, f"“{claim.words}”", found.verdict, measured if found.verdict != OPEN else "–"])
    columns = ["where", "the paper's words", "verdict", "measured here"]
    return Section(
        "The paper's claims, and what becomes of them",
        list(TEXT),
        [Table("verdicts", "Claims and verdicts", columns, rows, words=True)],
    )
