"""Magnitudes from profiles against those from history and from the declared range, on MovieLens 1M.

``python -m benchmarks.profiles`` writes ``results/profiles.md``: half of the ratings are the past, of which every
second user has none; a tenth of the others is held out, three times. Error, coverage and width, of all held-out ratings
and of those of users without a past. Features are gender, age and occupation of users, genres and decade of films.
Needs movielens_1m.npz and movielens_1m_features.npz in BOUNDREC_DATA.
"""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import SHARED_DATA, Check, Part, real_data, save_parts
from boundrec import MBMF, magnitudes_from_features
from boundrec.arrays import Bools, Floats
from boundrec.metrics import coverage_and_width, rmse

SEEDS, FACTORS, PAST_THAT_COUNTS = range(3), 10, 10.0
COLUMNS = ["magnitudes", "RMSE", "coverage", "width", "RMSE, no past", "coverage, no past", "width, no past"]


def magnitudes_by_id(model: MBMF) -> tuple[dict[int, float], dict[int, float]]:
    """Those of a fitted model, users and items."""
    sides = (model.user_ids_, model.user_magnitudes_), (model.item_ids_, model.item_magnitudes_)
    users, items = (dict(zip(index.ids.tolist(), found.tolist(), strict=True)) for index, found in sides)
    return users, items


def profiles(X: Any, y: Floats, past: Bools, features: list[Floats]) -> tuple[list[Any], list[Any]]:
    """What features say of everybody, and with it, of those who have a past, what that says."""
    by_history = MBMF(
        FACTORS, bounds=(1, 5), magnitudes="history", history_count=PAST_THAT_COUNTS, max_iter=1, random_state=0
    ).fit(X[past], y[past])
    known = magnitudes_by_id(by_history)
    found = [magnitudes_from_features(own, dict(enumerate(table))) for own, table in zip(known, features, strict=True)]
    return found, [{**said, **own} for said, own in zip(found, known, strict=True)]


def measured(seed: int, X: Any, y: Floats, features: list[Floats]) -> dict[str, list[float]]:
    """Error, coverage and width by source of the magnitudes."""
    rng = np.random.default_rng(seed)
    is_past, is_test, has_past = rng.random(y.size) < 0.5, rng.random(y.size) < 0.1, X[:, 0] % 2 == 0
    past, train, test = is_past & has_past, ~is_past & ~is_test, ~is_past & is_test
    from_features, mixed = profiles(X, y, past, features)
    sources: dict[str, tuple[Any, bool]] = {
        "range": ("range", False),
        "history": ("history", True),
        "features": (from_features, False),
        "history, else features": (mixed, False),
        "users by features, films by history": ((from_features[0], "history"), True),
        "users by features, films the range": ((from_features[0], "range"), False),
    }
    rows: dict[str, list[float]] = {}
    for name, (magnitudes, with_past) in sources.items():
        model = MBMF(
            FACTORS,
            bounds=(1, 5),
            magnitudes=magnitudes,
            history_count=PAST_THAT_COUNTS,
            random_state=seed,
        ).fit(X[train], y[train], history=(X[past], y[past]) if with_past else None)
        rows[name] = []
        for chosen in (test, test & ~has_past):
            predicted, lower, upper = model.predict(X[chosen], return_range=True)
            rows[name] += [rmse(y[chosen], predicted), *coverage_and_width(y[chosen], lower, upper)]
    return rows


def compared() -> Part:
    """The table, on average over the splits."""
    title, data = "MovieLens 1M, half of the users without a past", real_data("movielens_1m")
    file = Path(os.environ.get("BOUNDREC_DATA") or SHARED_DATA) / "movielens_1m_features.npz"
    if data is None or not file.exists():
        return Part(title, COLUMNS, [], notes=["MovieLens 1M and its features are not here: nothing was measured."])
    with np.load(file) as stored:
        features = [stored["user_features"], stored["item_features"]]
    X, y = np.asarray(data.pairs), np.asarray(data.rating, float)
    runs = [measured(seed, X, y, features) for seed in SEEDS]
    mean = {name: np.mean([run[name] for run in runs], axis=0) for name in runs[0]}
    rows = [
        [name, *(f"{100 * value:.1f} %" if place % 3 == 1 else f"{value:.3f}" for place, value in enumerate(found))]
        for name, found in mean.items()
    ]
    inside = mean["range"][1]
    check = Check("the declared range covers every rating", f"{100 * inside:.1f} %", "100 %", bool(inside == 1))
    note = (
        f"MBMF, K = {FACTORS}, bounds (1, 5), form c, history_count = {PAST_THAT_COUNTS:g}; mean of {len(SEEDS)} "
        "splits. No past: held-out ratings of users who have none. "
        f"{100 * np.mean((y > 1) & (y < 5)):.1f} % of all ratings are neither 1 nor 5: a range about the middle "
        "that is only a little narrower than the declared one loses nearly all the others."
    )
    return Part(title, COLUMNS, rows, [check], [note])


def main() -> int:
    warnings.simplefilter("ignore")
    part = compared()
    save_parts({"profiles": part}, "profiles")
    print(f"\n{part.markdown()}\n", flush=True)
    return 0 if all(check.passed for check in part.checks) else 1


if __name__ == "__main__":
    sys.exit(main())
