"""Does a range of one's own help? One range for all against individual ranges, everything else the same.

``python -m benchmarks.ablation`` follows the paper's protocol (half of the ratings are history, a tenth of the others
is held out), three folds of three data sets, K = 10, and writes ``results/ablation.md``: error, coverage and width by
model and by where ranges come from. Every finished cell is kept in ``results/ablation_cells.json`` and not computed
again. Names choose data sets; ``--start`` another start of the paper's solver. Needs BOUNDREC_DATA, on MovieLens 1M
with movielens_1m_features.npz.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks.measure import RESULTS, SHARED_DATA, Part, save_parts
from benchmarks.profiles import magnitudes_by_id
from boundrec import MBMF, PerUser, magnitudes_from_features
from boundrec.arrays import Floats
from boundrec.metrics import coverage_and_width, mae, rmse
from boundrec.paper import protocol
from boundrec.paper.protocol import Fold
from boundrec.ranges import Form

NAMES = ("movielens_100k", "movielens_1m", "jester1")
FOLDS, FACTORS = range(3), 10
#: Past ratings that weigh as much as everybody's, where centre and width are a user's own.
SHRINKAGE = 5.0
#: The weight of any history is nothing beside this: everybody has the magnitude that all of history gives.
NOBODYS_OWN = 1e12
MEASURES = ("rmse", "mae", "coverage", "width", "contradictions", "cpu_seconds")


# --- what is compared -------------------------------------------------------------------------------------------


class Arm(NamedTuple):
    """Where ranges come from: settings of a model, and whether history sets magnitudes or is trained on as well."""

    settings: dict[str, Any]
    history: str = ""


#: A table of features for the users, and one for the items.
Features = tuple[Floats, Floats]
#: Makes an arm for a fold and a form; the third tells whether the model is the paper's.
MakesArm = Callable[[Fold, Form, bool, Features], Arm]


def one_range(fold: Fold, form: Form, as_in_paper: bool, features: Features) -> Arm:
    """The declared range."""
    return Arm({"bounds": fold.data.bounds, "magnitudes": "range"})


def with_history_trained_on(fold: Fold, form: Form, as_in_paper: bool, features: Features) -> Arm:
    """The same, history being spent on factors and not on ranges."""
    return one_range(fold, form, as_in_paper, features)._replace(history="training")


def from_history(capped: bool = False, **weight: float) -> MakesArm:
    """By the paper's rule: as it is in its own model, within the declared bounds elsewhere."""

    def arm(fold: Fold, form: Form, as_in_paper: bool, features: Features) -> Arm:
        rule = "paper" if as_in_paper and not capped else "history"
        return Arm({"bounds": fold.data.bounds, "magnitudes": rule, **weight}, "magnitudes")

    return arm


def from_features(fold: Fold, form: Form, as_in_paper: bool, features: Features) -> Arm:
    """What features say of everybody, learnt from the magnitudes that history gives within the declared bounds."""
    settings: dict[str, Any] = {"bounds": fold.data.bounds, "form": form, "magnitudes": "history"}
    by_history = protocol.fit(MBMF(2, max_iter=1, random_state=0, **settings), *fold.part(fold.history))
    known = magnitudes_by_id(by_history.model)
    said = [
        magnitudes_from_features(own, pd.DataFrame(table).reset_index())
        for own, table in zip(known, features, strict=True)
    ]
    return Arm({**settings, "magnitudes": tuple(said)})


def of_ones_own(multiple: float) -> MakesArm:
    """Mean ± so many standard deviations of each user's own past, cut to the declared bounds."""

    def arm(fold: Fold, form: Form, as_in_paper: bool, features: Features) -> Arm:
        return Arm({"bounds": PerUser(centres_and_widths(fold, multiple)), "magnitudes": "range", "noise_growth": 0.0})

    return arm


def centres_and_widths(fold: Fold, multiple: float) -> pd.DataFrame:
    """The range of each user by the own past, drawn to everybody's as if that were a few more ratings."""
    X, y = fold.part(fold.history)
    low, high = fold.data.bounds
    n = np.bincount(X[:, 0], minlength=fold.data.n_users)
    mean = (np.bincount(X[:, 0], y, fold.data.n_users) + SHRINKAGE * y.mean()) / (n + SHRINKAGE)
    squares = np.bincount(X[:, 0], (y - mean[X[:, 0]]) ** 2, fold.data.n_users)
    reach = multiple * np.sqrt((squares + SHRINKAGE * y.var()) / (n + SHRINKAGE))
    ends = {"lower": np.clip(mean - reach, low, high), "upper": np.clip(mean + reach, low, high)}
    return pd.DataFrame({"user": np.arange(n.size), **ends})


ONE, NOBODYS, LESS = "one range for all", "history, nobody's own", "history, ρ = .01"
WITHIN, JOINED = "history, ρ = .1, within the bounds", "one range, trained on history as well"
NARROW, WIDE = "own mean ± 2 sd", "own mean ± 3 sd"
ARMS: dict[str, MakesArm] = {
    ONE: one_range,
    NOBODYS: from_history(history_count=NOBODYS_OWN),
    "history, ρ = .1": from_history(history_share=0.1),
    LESS: from_history(history_share=0.01),
    "features": from_features,
    NARROW: of_ones_own(2.0),
    WIDE: of_ones_own(3.0),
    WITHIN: from_history(capped=True, history_share=0.1),
    JOINED: with_history_trained_on,
}
MODELS: dict[str, tuple[Form, bool, dict[str, Any]]] = {
    "as in the paper, n": ("n", True, {}),
    "as in the paper, c": ("c", True, {}),
    "exact, ball": ("c", False, {"biases": False, "ridge": 0.0, "slack": 1.0}),
    "as it comes": ("c", False, {}),
}


def applies(name: str, model: str, arm: str) -> bool:
    """Form n has no range of two ends, so none of a pair's own; the last two arms say something of one kind each.

    On Jester nearly everybody has rated a tenth of the hundred jokes, so a smaller ρ changes nothing, magnitudes from
    history hardly reach the declared bounds, and ± 3 sd is nearly all between them: there the paper's solver, which is
    slow, is spared all three.
    """
    form, as_in_paper, _ = MODELS[model]
    if name == "jester1" and as_in_paper and arm in (LESS, WITHIN, WIDE):
        return False
    if arm in (NARROW, WIDE):
        return form == "c"
    return as_in_paper if arm == WITHIN else not as_in_paper if arm == JOINED else True


def build(model: str, arm: Arm, start: str, seed: int) -> MBMF:
    """One of the models with the ranges of an arm."""
    form, as_in_paper, more = MODELS[model]
    settings = {**more, **arm.settings, "form": form, "random_state": seed}
    return MBMF.as_in_paper(FACTORS, init=start, **settings) if as_in_paper else MBMF(FACTORS, **settings)


# --- one cell -------------------------------------------------------------------------------------------------


@cache
def features_of(name: str, folder: Path) -> Features:
    """Real ones of MovieLens 1M; elsewhere all that is known without a rating's value: how many there are."""
    if name == "movielens_1m":
        with np.load(folder / "movielens_1m_features.npz") as stored:
            return stored["user_features"], stored["item_features"]
    fold = protocol.fold_of(name, 0, folder)  # history is the same in every fold
    return numbers_of_ratings(fold)


def numbers_of_ratings(fold: Fold) -> Features:
    """log(1 + number of past ratings), of users and of items."""
    X, sizes = fold.part(fold.history)[0], (fold.data.n_users, fold.data.n_items)
    users, items = (np.log1p(np.bincount(X[:, side], minlength=sizes[side]))[:, None] for side in (0, 1))
    return users, items


def measured(fold: Fold, model: str, arm: str, start: str, seed: int, features: Features) -> dict[str, float]:
    """Error on the held-out ratings, and how good their ranges are: coverage, and width inside the declared bounds."""
    form, as_in_paper, _ = MODELS[model]
    ranges = ARMS[arm](fold, form, as_in_paper, features)
    (X, y), past = fold.part(fold.training), fold.part(fold.history)
    more = {"history": past} if ranges.history == "magnitudes" else {}
    if ranges.history == "training":
        X, y = np.concatenate((X, past[0])), np.concatenate((y, past[1]))
    fitted = protocol.fit(build(model, ranges, start, seed), X, y, **more)
    X_test, y_test = fold.part(fold.test)
    predicted, lower, upper = fitted.model.predict(X_test, return_range=True)
    coverage, _ = coverage_and_width(y_test, lower, upper)
    # No rating lies outside the declared bounds, so what a range has beyond them covers nothing.
    width = float(np.mean(np.clip(upper, *fold.data.bounds) - np.clip(lower, *fold.data.bounds)))
    found = rmse(y_test, predicted), mae(y_test, predicted), coverage, width
    return dict(zip(MEASURES, (*found, fitted.model.infeasible_share_, fitted.cpu_seconds), strict=True))


# --- all of them ------------------------------------------------------------------------------------------------


def run(name: str, folder: Path, start: str, file: Path) -> dict[str, dict[str, float]]:
    """The cells of a data set, fold after fold, quick models first; those that the file has are not computed again."""
    cells: dict[str, dict[str, float]] = json.loads(file.read_text()) if file.exists() else {}
    for seed, model, arm in product(FOLDS, reversed(MODELS), ARMS):
        key = key_of(name, model, arm, start, seed)
        if applies(name, model, arm) and key not in cells:
            fold = protocol.fold_of(name, seed, folder)
            cells[key] = measured(fold, model, arm, start, seed, features_of(name, folder))
            file.write_text(json.dumps(dict(sorted(cells.items())), indent=1, ensure_ascii=False) + "\n")
            print(key, {what: round(value, 4) for what, value in cells[key].items()}, flush=True)
    return cells


def key_of(name: str, model: str, arm: str, start: str, seed: int) -> str:
    """A cell's name; the start is that of the paper's solver."""
    return " | ".join((name, model, arm, *([start] if MODELS[model][1] else []), f"fold {seed}"))


def part(name: str, cells: dict[str, dict[str, float]], start: str) -> Part:
    """The table of a data set: means and standard deviations over folds, and changes of the RMSE fold by fold.

    A model's rows have the same folds: those in which all its arms are done.
    """

    def over_folds(model: str, arm: str, what: str) -> Floats:
        return np.array([cells[key_of(name, model, arm, start, seed)][what] for seed in folds[model]])

    def change(model: str, arm: str, base: str) -> str:
        if arm in (ONE, base):
            return ""
        return plus_minus(100 * (over_folds(model, arm, "rmse") / over_folds(model, base, "rmse") - 1), "+.2f") + " %"

    compared = {model: [arm for arm in ARMS if applies(name, model, arm)] for model in MODELS}
    folds = {
        model: [seed for seed in FOLDS if all(key_of(name, model, arm, start, seed) in cells for arm in arms)]
        for model, arms in compared.items()
    }
    rows = []
    for model, arm in ((model, arm) for model, arms in compared.items() for arm in arms if folds[model]):
        errors = [plus_minus(over_folds(model, arm, what), ".4f") for what in ("rmse", "mae")]
        changes = [change(model, arm, base) for base in (ONE, NOBODYS)]
        inside, outside = (
            f"{100 * over_folds(model, arm, what).mean():.1f} %" for what in ("coverage", "contradictions")
        )
        width = f"{over_folds(model, arm, 'width').mean():.2f}"
        rows.append([model, arm, *errors, *changes, inside, width, outside, str(len(folds[model]))])
    against = ["RMSE against one range", "against nobody's own"]
    columns = ["model", "ranges", "RMSE", "MAE", *against, "coverage", "width", "contradictions", "folds"]
    return Part(protocol.PAPER_DATA[name].title, columns, rows, [], [note_on(name, start)])


def plus_minus(values: Floats, form: str) -> str:
    """Mean and standard deviation, if there is one."""
    spread = f" ± {values.std(ddof=1):{form.removeprefix('+')}}" if values.size > 1 else ""
    return f"{values.mean():{form}}{spread}"


def note_on(name: str, start: str) -> str:
    """What a reader should know of the table."""
    features = (
        "gender, age and occupation of users, genres and decade of films"
        if name == "movielens_1m"
        else "the number of past ratings (its logarithm), for there are no profiles"
    )
    return (
        f"K = {FACTORS}, means ± standard deviations over folds; changes of the RMSE are fold by fold. As in "
        f'the paper: `MBMF.as_in_paper` from init="{start}", its magnitudes from history not capped; in the exact ones '
        "(ball; without biases, ridge and slack, or as it comes) they stay within the declared bounds. Nobody's own: "
        "everybody has the magnitude of all history, so one narrower range for all. "
        f"Features: {features}; learnt from history, within the bounds. Own mean ± c sd: `PerUser`, of the past "
        f"drawn to everybody's as if that were {SHRINKAGE:g} ratings, cut to the declared bounds; form c only, "
        "noise_growth=0. Coverage: held-out ratings inside their own range. Width: of its part inside the declared "
        "bounds. Contradictions: training ratings outside their own range, which are kept and pull to its end."
    )


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ablation", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"data sets, of {', '.join(NAMES)}")
    parser.add_argument("--start", default="orthant", help="init of the paper's solver (orthant)")
    asked = parser.parse_args(arguments)
    folder = Path(os.environ.get("BOUNDREC_DATA") or SHARED_DATA)
    for name in asked.names or NAMES:
        if protocol.missing(name, folder):
            print(f"Skipped {name}: its data are not in BOUNDREC_DATA.")
            continue
        cells = run(name, folder, asked.start, RESULTS / "ablation_cells.json")
        found = part(name, cells, asked.start)
        save_parts({name: found}, "ablation")
        print(f"\n{found.markdown()}\n", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
