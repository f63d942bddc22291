"""What a model makes of more than ratings: features where nobody has rated, and what sets cost and need.

``python -m benchmarks.side_information`` writes ``results/side_information.md``; names choose parts:

- ``cold``: a tenth of the items of MovieLens 1M without any rating to fit, then a tenth of the users, five draws each:
  error and intervals of `BayesianMBMF` on their ratings, with features and without.
- ``clicks``: the same of `ImplicitMBMF`, three draws each: lists for users without clicks beside those of popularity,
  lists of items without clicks beside chance, and lists of everybody else.
- ``cost``: processor time of a sweep and peak memory with sets and with noise of each row's own, on MovieLens 1M.
- ``tolerance``: links, their strengths and the error on MovieLens 100k, by how closely links are solved for.

Every fit of ``cold`` is kept in ``results/side_information_cells.json`` when it is done: a run that was stopped goes
on, and a line that is deleted is done again. Needs BOUNDREC_DATA, and ``cold`` movielens_1m_features.npz in it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from benchmarks.measure import RESULTS, SHARED_DATA, Check, Part, SweepClock, peak_memory, real_data, save_parts
from boundrec import BayesianMBMF, ImplicitMBMF
from boundrec.arrays import Bools, Floats
from boundrec.datasets import Dataset
from boundrec.metrics import ndcg_at_k, rmse
from boundrec.models.side_information import rated_sets
from boundrec.solvers import feature_means, normal_equations
from boundrec.solvers.links import Links
from boundrec.solvers.normal_equations import NormalEquations
from boundrec.solvers.threads import thread_count
from boundrec.splits import hold_out

FACTORS, SWEEPS = 20, 60
CELLS = RESULTS / "side_information_cells.json"


def part_or_reason(title: str, *needed: Any) -> Part | None:
    """A part that says why there is nothing to measure; None where all that is needed is there."""
    if all(one is not None for one in needed):
        return None
    return Part(title, [], [], notes=["Skipped: BOUNDREC_DATA has not what this needs."])


# --- cold -------------------------------------------------------------------------------------------------------

DRAWS, LEVELS = range(5), (0.5, 0.8, 0.95)
#: Pairs, at most, for which quantiles are asked.
QUANTILE_PAIRS = 20_000
SIDES = ("item", "user")
#: By how much the RMSE is to fall.
GAINS = {"item": 0.045, "user": 0.007}


class Draw(NamedTuple):
    """Ratings to fit, ratings of those who have none to fit, and others held out."""

    training: Bools
    cold: Bools
    warm: Bools


def draw_cold(data: Dataset, side: str, number: int, to_choose: bool = False) -> Draw:
    """A tenth of a side without ratings to fit, and a tenth of the other ratings held out.

    ``to_choose``: a tenth of those that would be warm is cold instead, and the cold ones of the draw are not looked at.
    """
    codes = data.item if side == "item" else data.user
    rng = np.random.default_rng([number, SIDES.index(side)])
    order = rng.permutation(np.unique(codes))
    n = len(order) // 10
    cold = np.isin(codes, order[:n])
    left = ~cold
    if to_choose:
        cold = np.isin(codes, order[n : n + (len(order) - n) // 10])
        left &= ~cold
    warm = np.zeros(len(codes), dtype=bool)
    warm[left] = hold_out(data.user[left], data.item[left], 0.1, rng, protect=False)
    return Draw(left & ~warm, cold, warm)


def features_of(side: str) -> Floats | None:
    """Gender, age and occupation of users, genres and decade of items, a row for each code; None if not here."""
    file = Path(os.environ.get("BOUNDREC_DATA") or SHARED_DATA) / "movielens_1m_features.npz"
    if not file.exists():
        return None
    with np.load(file) as stored:
        return np.asarray(stored[f"{side}_features"], float)


def measured(data: Dataset, side: str, draw: Draw, given: Any, seed: int, sweeps: int = SWEEPS) -> dict[str, Any]:
    """Error and how well intervals hold, on the ratings of the cold and on those of others."""
    model = BayesianMBMF(
        FACTORS, bounds=data.bounds, implicit="auto", noise="auto", max_iter=sweeps, random_state=seed
    ).fit(data.pairs[draw.training], data.rating[draw.training], **{f"{side}_features": given})
    found: dict[str, Any] = {}
    for name, chosen in (("cold", draw.cold), ("warm", draw.warm)):
        X, y = data.pairs[chosen], data.rating[chosen]
        found[name] = {"n": len(y), "rmse": rmse(y, model.predict(X)), "holds": holding(model, X, y)}
    return found


def holding(model: BayesianMBMF, X: NDArray[np.int32], y: Floats) -> list[float]:
    """Shares of ratings inside the intervals between quantiles, by level."""
    some = np.random.default_rng(0).permutation(len(y))[:QUANTILE_PAIRS]
    ends = [(1 + sign * level) / 2 for level in LEVELS for sign in (-1, 1)]
    quantiles = model.predict_quantiles(X[some], ends)
    held = (y[some, None] >= quantiles[:, ::2]) & (y[some, None] <= quantiles[:, 1::2])
    return [float(share) for share in held.mean(axis=0)]


def kept_or_done(key: str, do: Any) -> dict[str, Any]:
    """What a file has of a fit that was done before; else it is done and kept."""
    cells = json.loads(CELLS.read_text()) if CELLS.exists() else {}
    if key not in cells:
        cells[key] = do()
        CELLS.write_text(json.dumps(dict(sorted(cells.items())), indent=1, ensure_ascii=False) + "\n")
        print(key, f"{cells[key]['cold']['rmse']:.4f}", flush=True)
    found: dict[str, Any] = cells[key]
    return found


def given_as(form: str, table: Floats) -> tuple[NDArray[np.intp], Any]:
    """Features of all codes: numbers of a dense table are standardised, those of a sparse one only scaled."""
    return np.arange(len(table)), csr_array(table) if form == "sparse" else table


def chosen_form(data: Dataset, side: str, table: Floats) -> tuple[str, dict[str, float]]:
    """Which form of the features has the lower error on the validation draw, and the errors."""
    draw = draw_cold(data, side, 0, to_choose=True)
    errors = {
        form: kept_or_done(
            f"{side}s | validation | {form}", partial(measured, data, side, draw, given_as(form, table), 0)
        )["cold"]["rmse"]
        for form in ("dense", "sparse")
    }
    return min(errors, key=lambda form: errors[form]), errors


def fit_draw(data: Dataset, side: str, number: int, name: str, given: Any) -> dict[str, Any]:
    """What is measured on one draw."""
    draw = draw_cold(data, side, number)
    return kept_or_done(f"{side}s | draw {number} | {name}", partial(measured, data, side, draw, given, number))


def cold() -> Part:
    """(cold) Features of those whom nobody has rated."""
    title, data = "Without a rating, with features: MovieLens 1M", real_data("movielens_1m")
    tables = {side: features_of(side) for side in SIDES}
    skipped = part_or_reason(title, data, *tables.values())
    if skipped is not None:
        return skipped
    assert data is not None
    rows, checks, notes = [], [], []
    for side, table in tables.items():
        assert table is not None
        form, errors = chosen_form(data, side, table)
        said = ", ".join(f"{error:.4f} {name}" for name, error in errors.items())
        notes.append(f"Features of {side}s are given as a {form} matrix: RMSE on the validation draw {said}.")
        found = {"without features": None, f"features, {form}": given_as(form, table)}
        runs = {name: [fit_draw(data, side, number, name, given) for number in DRAWS] for name, given in found.items()}
        rows += [cold_row(side, name, some) for name, some in runs.items()]
        checks += cold_checks(side, *runs.values())
    columns = [
        "cold",
        "model",
        "RMSE, cold",
        "RMSE, others",
        "50 / 80 / 95 % hold, cold",
        "50 / 80 / 95 % hold, others",
    ]
    notes.append(
        f'BayesianMBMF, K = {FACTORS}, {SWEEPS} sweeps, implicit="auto", noise="auto"; mean ± standard deviation over '
        f"{len(DRAWS)} draws. Cold: all ratings of a tenth of the items, or of the users, none of which is fitted to; "
        "others: a tenth of the ratings of the other nine tenths. Intervals are between quantiles. Validation: a tenth "
        "of those that are warm in the first draw made cold as well, the cold ones of that draw not looked at."
    )
    return Part(title, columns, rows, checks, notes)


def cold_row(side: str, name: str, runs: list[dict[str, Any]]) -> list[str]:
    """A line of the table."""
    row = [f"a tenth of the {side}s", name]
    for who in ("cold", "warm"):
        errors = [run[who]["rmse"] for run in runs]
        row.append(f"{np.mean(errors):.4f} ± {np.std(errors, ddof=1):.4f}")
    return row + [
        " / ".join(f"{100 * share:.1f}" for share in np.mean([run[who]["holds"] for run in runs], axis=0))
        for who in ("cold", "warm")
    ]


def cold_checks(side: str, without: list[dict[str, Any]], told: list[dict[str, Any]]) -> list[Check]:
    """How much features bring, draw by draw, and whether intervals of the cold hold as those of others do."""
    gains = np.array([one["cold"]["rmse"] - other["cold"]["rmse"] for one, other in zip(without, told, strict=True)])
    shares = {who: np.mean([run[who]["holds"] for run in told], axis=0) for who in ("cold", "warm")}
    apart = 100 * float(np.abs(shares["cold"] - shares["warm"]).max())
    off = 100 * float(np.abs(shares["cold"] - LEVELS).max())
    least = GAINS[side]
    return [
        Check(
            f"cold {side}s: RMSE lower by",
            f"{gains.mean():.4f} (at least {gains.min():.4f})",
            f"≥ {least:g}",
            float(gains.mean()) >= least,
        ),
        Check(f"cold {side}s: intervals hold as for others, points apart", f"{apart:.1f}", "≤ 3", apart <= 3),
        Check(f"cold {side}s: intervals, points off what they promise", f"{off:.1f}", "≤ 3", off <= 3),
    ]


# --- clicks -----------------------------------------------------------------------------------------------------

CLICK_DRAWS, PLACES = range(3), 10
#: Penalties of what features say that are tried on the validation draw.
STRENGTHS = (5.0, 20.0, 50.0, 200.0)


def shuffled_items(data: Dataset, number: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Pairs with items under other numbers, and the new number of each: equal scores are listed by number."""
    number_of = np.random.default_rng([number, 7]).permutation(int(data.item.max()) + 1)
    return np.column_stack([data.user, number_of[data.item]]), number_of


def lists_measured(data: Dataset, side: str, number: int, table: Floats | None, to_choose: bool = False) -> list[float]:
    """NDCG@10 of lists for cold users, or of cold items alone, and of others' lists against what is held out of them.

    Without a table the cold have popularity: of users it is known, of items it is chance.
    """
    draw = draw_cold(data, side, number, to_choose)
    X, number_of = shuffled_items(data, number)
    given: dict[str, Any] = {}
    if table is not None:
        rows = table if side == "user" else table[np.argsort(number_of)]
        given[f"{side}_features"] = np.arange(len(rows)), rows
    model = ImplicitMBMF(random_state=number).fit(X[draw.training], **given)
    only = np.unique(X[draw.cold, 1]) if side == "item" else None
    return [_ndcg(model, X[draw.cold], only), _ndcg(model, X[draw.warm], None)]


def _ndcg(model: ImplicitMBMF, held: NDArray[Any], only: NDArray[Any] | None) -> float:
    """Of lists for everybody in pairs that were held out; strangers get popularity, and things unknown a place."""
    users = np.unique(held[:, 0])
    if only is None or np.isin(only, model.item_ids_.ids).all():
        lists, _ = model.recommend(users, n=PLACES, candidates=only)
    else:
        lists = np.tile(only[:PLACES], (len(users), 1))
    return ndcg_at_k(held[:, 0], held[:, 1], users, lists, PLACES)


def clicks() -> Part:
    """(clicks) Features of those who have no click, and of everybody else."""
    title, data = "Without a click, with features: MovieLens 1M", real_data("movielens_1m")
    tables = {side: features_of(side) for side in SIDES}
    skipped = part_or_reason(title, data, *tables.values())
    if skipped is not None:
        return skipped
    assert data is not None
    rows, checks, notes = [], [], []
    for side, table in tables.items():
        assert table is not None
        notes.append(by_strength(data, side, table))
        runs = {}
        for name, given in (("without features", None), ("features", table)):
            runs[name] = np.array([lists_measured(data, side, number, given) for number in CLICK_DRAWS])
            said = [", ".join(f"{one:.3f}" for one in column) for column in runs[name].T]
            rows.append([f"a tenth of the {side}s", name, *said])
        gain = np.diff([run.mean(axis=0) for run in runs.values()], axis=0)[0].tolist()
        checks.append(Check(f"cold {side}s: NDCG@10 higher by", f"{gain[0]:+.4f}", "> 0", gain[0] > 0))
        checks.append(Check(f"others, features of {side}s: NDCG@10", f"{gain[1]:+.4f}", "≥ -0.001", gain[1] >= -0.001))
    notes.append(
        f"ImplicitMBMF as it comes, pairs alone; NDCG@{PLACES} of {len(CLICK_DRAWS)} draws. Cold: a tenth of the "
        "items, or of the users, without any pair to fit. Lists for cold users are of all items, without features by "
        "popularity; those of cold items are of these alone, without features in an order by chance. Others: a tenth "
        "of the other pairs, held out. Validation as above."
    )
    return Part(title, ["cold", "model", "NDCG@10, cold", "NDCG@10, others"], rows, checks, notes)


def by_strength(data: Dataset, side: str, table: Floats) -> str:
    """What lists are worth on the validation draw, by the penalty of what features say."""
    found = []
    for strength in STRENGTHS:
        with mock.patch.object(feature_means, "STRENGTH", strength):
            cold, others = lists_measured(data, side, 0, table, to_choose=True)
        found.append(f"{strength:g}: {cold:.4f} and {others:.4f}")
    return f"Features of {side}s, NDCG@{PLACES} of the cold and of others on the validation draw, by STRENGTH: " + (
        f"{'; '.join(found)}. In use: {feature_means.STRENGTH:g}."
    )


# --- cost -------------------------------------------------------------------------------------------------------

REPEATS, TIMED_SWEEPS = 5, 15
VARIANTS: dict[str, dict[str, Any]] = {
    "ratings alone": {"implicit": "off", "noise": "one"},
    "sets of both sides": {"implicit": "both", "noise": "one"},
    "own noise": {"implicit": "off", "noise": "own"},
    "sets and own noise": {"implicit": "both", "noise": "own"},
}
PLAIN, SETS, OWN, _ = VARIANTS
#: Megabytes in a byte.
MB = 1e-6


def cost() -> Part:
    """(cost) Time of a sweep and memory, beside a plain one."""
    title, data = "What sets and noise of each row's own cost: MovieLens 1M", real_data("movielens_1m")
    skipped = part_or_reason(title, data)
    if skipped is not None:
        return skipped
    assert data is not None
    alone = sweep_seconds(data, 1)
    every = sweep_seconds(data, None)
    memory = {name: _memory_in_a_process(name) for name in VARIANTS}
    rows, ratios = [], {}
    for name in VARIANTS:
        ratios[name] = alone[name][0] / alone[PLAIN][0], every[name][1] / every[PLAIN][1]
        held = memory[name]
        rows.append(
            [
                name,
                f"{1000 * alone[name][0]:.0f}",
                f"{ratios[name][0]:.2f}",
                f"{1000 * every[name][1]:.0f}",
                f"{ratios[name][1]:.2f}",
                f"{held['peak'] * MB:.0f}",
                f"{(held['peak'] - memory[PLAIN]['peak']) * MB:+.0f}",
                f"{held['matrices'] * MB:.0f}",
                f"{held['kept'] * MB:.0f}",
            ]
        )
    columns = [
        "model",
        "one thread, ms of the processor a sweep",
        "ratio",
        "all cores, ms by the clock a sweep",
        "ratio",
        "peak memory, MB",
        "beside ratings alone, MB",
        "matrices of links, MB",
        "links kept, MB",
    ]
    checks = [
        Check("sets of both sides, a sweep", f"{ratios[SETS][0]:.2f}×", "≤ 3×", ratios[SETS][0] <= 3),
        Check("own noise, a sweep", f"{ratios[OWN][0]:.2f}×", "≤ 1.1×", ratios[OWN][0] <= 1.1),
        _memory_check(memory),
    ]
    note = (
        f"K = {FACTORS}; median of sweeps 2 to {TIMED_SWEEPS}, the least of {REPEATS} fits of each in turns, on one "
        f"thread and on all {thread_count(None)}. Memory: the peak of a process that does one fit of {SWEEPS} sweeps. "
        "Matrices of links: sets of both sides as sparse matrices would hold them, by row and by column; they are kept "
        "without their values, which are the same all along a row. Links kept: those of the samples in the model."
    )
    return Part(title, columns, rows, checks, [note])


def _memory_check(memory: Mapping[str, Mapping[str, float]]) -> Check:
    grown = memory[SETS]["peak"] - memory[PLAIN]["peak"]
    own = memory[SETS]["matrices"] + memory[SETS]["kept"]
    what = "sets of both sides, more memory / matrices and links kept"
    return Check(what, f"{grown / own:.2f}", "≤ 1", grown <= own)


def built(data: Dataset, name: str, sweeps: int, n_jobs: int | None, seed: int = 0) -> BayesianMBMF:
    """One of the variants."""
    return BayesianMBMF(
        FACTORS, bounds=data.bounds, max_iter=sweeps, n_jobs=n_jobs, random_state=seed, **VARIANTS[name]
    )


def sweep_seconds(data: Dataset, n_jobs: int | None, repeats: int = REPEATS) -> dict[str, tuple[float, float]]:
    """Of the processor and by the clock, for a sweep of each variant; they take turns, so that a busy moment hits all.

    The first sweep, with all preparation in it, is left out, and so is the first turn, which compiles.
    """
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in VARIANTS}
    for turn in range(repeats + 1):
        for name, times in taken.items():
            clock = SweepClock()
            model = built(data, name, TIMED_SWEEPS if turn else 2, n_jobs)
            model.fit(data.pairs, data.rating, callback=clock)
            if turn:
                times.append((float(np.median(clock.cpu[1:])), float(np.median(np.diff(model.seconds_)))))
    return {name: (min(cpu for cpu, _ in times), min(wall for _, wall in times)) for name, times in taken.items()}


def memory_of(name: str, data: Dataset) -> dict[str, float]:
    """Bytes: the peak of this process after one fit, the matrices that links were drawn with, and the links kept."""
    model = built(data, name, SWEEPS, None).fit(data.pairs, data.rating)
    peak = 1e9 * peak_memory()
    fitted, matrices, kept = model.fitted_, 0, 0
    assert fitted.ratings is not None
    for side, csr in ((fitted.users, fitted.ratings.by_user), (fitted.items, fitted.ratings.by_item)):
        if side.links is not None:
            entries = rated_sets(csr, side.links.in_sets).nnz
            matrices += 2 * entries * (np.dtype(np.float64).itemsize + np.dtype(np.int32).itemsize)
            kept += side.links.matrices.nbytes
    return {"peak": peak, "matrices": float(matrices), "kept": float(kept)}


def _memory_in_a_process(name: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.side_information", "--memory", name]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    answer: dict[str, float] = json.loads(run.stdout.splitlines()[-1])
    return answer


# --- tolerance --------------------------------------------------------------------------------------------------

SEEDS, TIGHT = range(3), 1e-4


class Seen(NamedTuple):
    """A draw of links: how many features they have, their size ‖B‖ and their strength λ."""

    n_features: int
    size: float
    strength: float


@contextmanager
def solved_within(tolerance: float) -> Iterator[list[Seen]]:
    """Have links solved for as closely as that, however many steps it takes; notes every draw."""
    seen: list[Seen] = []
    solve, redraw = NormalEquations._by_gradients, Links.redraw

    def solve_so(self: NormalEquations, right: Floats, strengths: Floats, pool: Any, _: float) -> Floats:
        return solve(self, right, strengths, pool, tolerance)

    def redraw_and_note(self: Links, *arguments: Any) -> None:
        redraw(self, *arguments)
        seen.append(Seen(len(self.matrix), float(np.linalg.norm(self.matrix)), float(self.strength[-1])))

    with (
        mock.patch.object(NormalEquations, "_by_gradients", solve_so),
        mock.patch.object(Links, "redraw", redraw_and_note),
        mock.patch.object(normal_equations, "MOST_STEPS", 10_000),
    ):
        yield seen


def drawn_within(data: Dataset, tolerance: float, seed: int, sweeps: int = SWEEPS) -> dict[str, float]:
    """Sizes and strengths of links over the sweeps after the first third, the error and the seconds of a fit."""
    held = hold_out(data.user, data.item, 0.1, np.random.default_rng([3, seed]), protect=False)
    model = BayesianMBMF(
        FACTORS, bounds=data.bounds, implicit="both", noise="one", max_iter=sweeps, n_jobs=1, random_state=seed
    )
    with solved_within(tolerance) as seen:
        began = time.process_time()
        model.fit(data.pairs[~held], data.rating[~held])
        seconds = time.process_time() - began
    found = {"rmse": rmse(data.rating[held], model.predict(data.pairs[held])), "seconds": seconds}
    for side, own in (("users", model.fitted_.users), ("items", model.fitted_.items)):
        assert own.links is not None
        mine = [one for one in seen if one.n_features == own.links.in_sets.size][sweeps // 3 :]
        found[f"‖B‖ of {side}"] = float(np.mean([one.size for one in mine]))
        found[f"λ of {side}"] = float(np.mean([one.strength for one in mine]))
    return found


def tolerance() -> Part:
    """(tolerance) What it does that links are not solved for to the last digit."""
    title, data = "How closely links are solved for: MovieLens 100k", real_data("movielens_100k")
    skipped = part_or_reason(title, data)
    if skipped is not None:
        return skipped
    assert data is not None
    used = normal_equations.TOLERANCE
    drawn_within(data, used, 0, 2)  # compiles
    runs: dict[float, list[dict[str, float]]] = {used: [], TIGHT: []}
    for seed in SEEDS:
        for within, found in runs.items():
            found.append(drawn_within(data, within, seed))
            print(f"{within:g}, seed {seed}: {found[-1]}", flush=True)
    rows = [
        [what, *(_over_seeds(runs[within], what) for within in runs), _change(runs[TIGHT], runs[used], what)]
        for what in runs[used][0]
    ]
    gaps = [one["rmse"] - other["rmse"] for one, other in zip(runs[used], runs[TIGHT], strict=True)]
    loss = float(np.mean(gaps))
    check = Check("RMSE above that of the tight tolerance", f"{loss:+.4f}", "≤ 0.001", loss <= 0.001)
    note = (
        f'BayesianMBMF, K = {FACTORS}, {SWEEPS} sweeps, implicit="both", noise="one"; mean ± standard deviation over '
        f"{len(SEEDS)} seeds, each with a tenth of the ratings held out. ‖B‖ and λ on average over the sweeps after "
        "the first third; seconds are those of the processor, for a whole fit on one thread. In use: residual "
        f"{used:g} of the right side, or {normal_equations.MOST_STEPS} steps; here the steps have no end."
    )
    return Part(title, ["", f"{used:g}, in use", f"{TIGHT:g}", "change"], rows, [check], [note])


def _over_seeds(runs: list[dict[str, float]], what: str) -> str:
    values = [run[what] for run in runs]
    return f"{np.mean(values):.4g} ± {np.std(values, ddof=1):.2g}"


def _change(base: list[dict[str, float]], other: list[dict[str, float]], what: str) -> str:
    """On average, beside the base."""
    ratios = [own[what] / was[what] for was, own in zip(base, other, strict=True)]
    return f"{100 * (np.mean(ratios) - 1):+.2f} %"


# --- all of them ------------------------------------------------------------------------------------------------

PARTS = {"cold": cold, "clicks": clicks, "cost": cost, "tolerance": tolerance}


def main(arguments: list[str]) -> int:
    warnings.simplefilter("ignore")
    if arguments[:1] == ["--memory"]:
        data = real_data("movielens_1m")
        assert data is not None
        print(json.dumps(memory_of(arguments[1], data)))
        return 0
    unknown = [name for name in arguments if name not in PARTS]
    if unknown:
        sys.exit(f"{unknown[0]!r} is no part of this: there are {', '.join(PARTS)}.")
    passed = True
    for name in arguments or PARTS:
        part = PARTS[name]()
        save_parts({name: part}, "side_information")
        print(f"\n{part.markdown()}\n", flush=True)
        passed = passed and all(check.passed for check in part.checks)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
