"""What to do about counts outside their own range: drop, keep or widen, on three folds of the paper's protocol.

``python -m benchmarks.remedies`` gives magnitudes from history to MBMF as it comes (by either rule, and of the
logarithms) and to MBMF as in the paper (both forms, from non-negative directions), K = 10, with each remedy, and writes
``results/remedies.md``: errors on held-out ratings whose user and item were trained on, and the share of training
ratings outside their own range. us_flights are passengers, without the seats that cap them; genres are how many films
of a genre a user of MovieLens 1M has rated. Names choose data sets. They need BOUNDREC_DATA.
"""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import SHARED_DATA, Part, save_parts
from boundrec import MBMF, datasets, splits
from boundrec.datasets import Dataset
from boundrec.metrics import mae, rmse
from boundrec.paper import protocol

NAMES = {
    "lastfm_hetrec": "Last.fm counts",
    "us_flights": "Passengers of US flights, their seats not told",
    "genres": "Films of a genre that a user rated, MovieLens 1M",
}
FOLDS = range(3)
REMEDIES = ("drop", "keep", "widen")
FACTORS = 10
COUNTS: dict[str, Any] = {"bounds": (0, None), "n_factors": FACTORS}
MODELS: dict[str, Any] = {
    "MBMF, history_count=10": lambda **more: MBMF(magnitudes="history", history_count=10, **COUNTS, **more),
    "MBMF, history_share=.1": lambda **more: MBMF(magnitudes="history", **COUNTS, **more),
    "MBMF, logarithms": lambda **more: MBMF(link="log1p", magnitudes="history", history_count=10, **COUNTS, **more),
    "as in the paper, n": lambda **more: MBMF.as_in_paper(form="n", init="orthant", **COUNTS, **more),
    "as in the paper, c": lambda **more: MBMF.as_in_paper(form="c", init="orthant", **COUNTS, **more),
}


def films_of_genres(folder: Path) -> Dataset:
    """How many films of each genre a user has rated, where any."""
    films = datasets.load("movielens_1m", folder)
    with np.load(folder / "movielens_1m_features.npz") as features:
        named = ~np.char.startswith(features["item_feature_names"], "decade")
        genres = features["item_features"][:, named]
    counts = np.zeros((films.n_users, genres.shape[1]))
    np.add.at(counts, films.user, genres[films.item])
    user, genre = np.nonzero(counts)
    return Dataset("genres", user.astype(np.int32), genre.astype(np.int32), counts[user, genre], (0.0, None))


def fold_of(name: str, fold: int, folder: Path) -> protocol.Fold:
    """A fold of the paper's protocol, of a data set that need not be one of the paper's."""
    if name in protocol.PAPER_DATA:
        return protocol.fold_of(name, fold, folder)
    data = films_of_genres(folder) if name == "genres" else datasets.load(name, folder)
    data = Dataset(name, data.user, data.item, data.rating, (0.0, None))
    present = splits.history_and_present(data.user, data.item, 0.5, 0)
    entries = np.flatnonzero(present)
    held = splits.hold_out(data.user[entries], data.item[entries], 0.1, np.random.default_rng([1, fold]), protect=False)
    return protocol.Fold(data, np.flatnonzero(~present), entries[~held], entries[held])


def part(name: str, folder: Path) -> Part:
    """A row for each model and remedy: means over the folds."""
    rows = []
    for title, build in MODELS.items():
        found = {remedy: [errors(build, remedy, name, fold, folder) for fold in FOLDS] for remedy in REMEDIES}
        for remedy, folds in found.items():
            of_fold = " ".join(shown(one[0]) for one in folds)
            means = np.mean(folds, axis=0)
            rows.append([title, remedy, shown(means[0]), of_fold, shown(means[1]), f"{100 * means[2]:.1f}%"])
            print(name, rows[-1], flush=True)
    columns = ["model", "remedy", "RMSE", "of each fold", "MAE", "outside their own range"]
    return Part(NAMES[name], columns, rows, [], ["Three folds, K = 10, magnitudes from history."])


def shown(error: float) -> str:
    """Four digits or so."""
    return f"{error:,.0f}" if error >= 1000 else f"{error:.4g}"


def errors(build: Any, remedy: str, name: str, fold: int, folder: Path) -> tuple[float, float, float]:
    """RMSE, MAE, and the share of contradictions among the training ratings."""
    parts = fold_of(name, fold, folder)
    X, y = parts.part(parts.training)
    model = build(on_contradiction=remedy, random_state=fold)
    model.fit(X, y, history=parts.part(parts.history))
    held, truth = parts.part(parts.test)
    warm = np.isin(held[:, 0], X[:, 0]) & np.isin(held[:, 1], X[:, 1])
    answers = model.predict(held[warm])
    return rmse(truth[warm], answers), mae(truth[warm], answers), model.infeasible_share_


def main(arguments: list[str]) -> int:
    warnings.simplefilter("ignore")
    folder = Path(os.environ.get("BOUNDREC_DATA") or SHARED_DATA)
    for name in arguments or NAMES:
        try:
            save_parts({name: part(name, folder)}, "remedies")
        except FileNotFoundError:
            print(f"Skipped {name}: its data are not in BOUNDREC_DATA.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
