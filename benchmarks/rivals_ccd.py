"""NMF against scikit-surprise's NMF, and CCD++ against cmfrec: the same models on the same splits, in one run.

``python -m benchmarks.rivals_ccd`` needs both (``pip install "boundrec[peers]"``) and the MovieLens files in
BOUNDREC_DATA; ``errors``, ``times`` or ``progress`` asks for one part. It writes results/rivals_ccd.md and fails if an
RMSE on MovieLens 100k is more than 1 % from the peer's, or a sweep on MovieLens 1M takes more than twice as long.

What is the same and what is not:

- Surprise's NMF (``biased=False``) minimises what ours does with ``ridge=reg_pu=reg_qi``, by the same multiplicative
  update, but moves both factors at once; ours moves the items' against the users' new ones. Fifty epochs, Surprise's
  default, are far from convergence for either, and the error depends on the random start: its standard deviation is
  some 0.4 % of it, so means over ten starts are compared.
- cmfrec without biases and centring minimises what CCD++ does (``scale_lam=True`` is the weighted ridge), by
  alternating least squares: each row solved exactly (Cholesky) or by three steps of conjugate gradients. Both run
  until they rest; the objectives of both, by the same formula, stand beside the errors.

All predictions are compared as they are, without clipping.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from sklearn.exceptions import ConvergenceWarning

from benchmarks.measure import Part, save_parts, seconds_per_sweep
from benchmarks.peers import error_check, movielens, peer, surprise_trainset, time_check, version
from boundrec import NMF, CCDPlusPlus, Ratings
from boundrec.datasets import Dataset
from boundrec.metrics import rmse
from boundrec.rivals.ccdpp import RidgeMode
from boundrec.splits import repeated_hold_out

#: Surprise's defaults.
NMF_FACTORS, NMF_EPOCHS, NMF_RIDGE = 15, 50, 0.06
FACTORS = 20
#: Ridges near the best of each kind on MovieLens 100k.
RIDGES: dict[RidgeMode, float] = {"weighted": 0.1, "plain": 10.0}
SPLITS = "Each split holds out 10 % of the ratings and leaves every user and item one. Predictions are not clipped."

Factors = tuple[NDArray[np.floating], NDArray[np.floating]]


class Split(NamedTuple):
    """Training ratings and held-out ones, as pairs and values."""

    X: NDArray[np.int32]
    y: NDArray[np.float64]
    X_held: NDArray[np.int32]
    y_held: NDArray[np.float64]
    shape: tuple[int, int]


def splits(data: Dataset, count: int) -> list[Split]:
    masks = repeated_hold_out(data.user, data.item, n_folds=count)
    X, y, shape = data.pairs, data.rating, (data.n_users, data.n_items)
    return [Split(X[~held], y[~held], X[held], y[held], shape) for held in masks]


# --- the peers ------------------------------------------------------------------------------------------------


def surprise_nmf(trainset: Any, factors: int, epochs: int, seed: int) -> Any:
    model = peer("surprise", "scikit-surprise").NMF(
        n_factors=factors, n_epochs=epochs, reg_pu=NMF_RIDGE, reg_qi=NMF_RIDGE, biased=False, random_state=seed
    )
    return model.fit(trainset)


def surprise_factors(model: Any, shape: tuple[int, int]) -> Factors:
    """Factors in the order of the data's own codes; a split leaves every user and item a rating."""
    trainset = model.trainset
    users = [trainset.to_inner_uid(user) for user in range(shape[0])]
    items = [trainset.to_inner_iid(item) for item in range(shape[1])]
    return model.pu[users], model.qi[items]


def cmfrec_model(matrix: Any, mode: RidgeMode, seed: int, **settings: Any) -> Any:
    """The plain factorisation: no biases, no centring."""
    model = peer("cmfrec", "cmfrec").CMF(
        k=FACTORS,
        lambda_=RIDGES[mode],
        scale_lam=mode == "weighted",
        method="als",
        user_bias=False,
        item_bias=False,
        center=False,
        finalize_chol=False,
        precompute_for_predictions=False,
        verbose=False,
        random_state=seed + 1,
        **settings,
    )
    return model.fit(matrix)


def as_matrix(X: NDArray[np.int32], y: NDArray[np.float64], shape: tuple[int, int]) -> Any:
    return coo_array((y, (X[:, 0], X[:, 1])), shape=shape)


# --- errors ---------------------------------------------------------------------------------------------------


def products(factors: Factors, X: NDArray[np.int32]) -> NDArray[np.float64]:
    W, H = factors
    return np.asarray(np.einsum("ik,ik->i", W[X[:, 0]], H[X[:, 1]], dtype=np.float64))


def objective(split: Split, factors: Factors, ridge: float, mode: str) -> float:
    """Σ (v − w·h)² + Σ_i λ_i‖w_i‖² + Σ_j λ_j‖h_j‖², one formula for everybody."""
    total = float(np.sum((split.y - products(factors, split.X)) ** 2))
    for side, rows in enumerate(factors):
        counts = np.bincount(split.X[:, side], minlength=len(rows)) if mode == "weighted" else np.ones(len(rows))
        total += ridge * float(counts @ np.sum(rows.astype(np.float64) ** 2, axis=1))
    return total


class Measured(NamedTuple):
    """What a fit reaches: the objective on the training ratings and the error on those held out."""

    objective: float
    error: float


#: Ours and the peer's, start by start.
Fits = Iterator[tuple[Measured, Measured]]


def measure(split: Split, factors: Factors, ridge: float, mode: str) -> Measured:
    return Measured(objective(split, factors, ridge, mode), rmse(split.y_held, products(factors, split.X_held)))


def own_factors(model: NMF | CCDPlusPlus, shape: tuple[int, int]) -> Factors:
    """Factors in the order of the data's own codes."""
    users = model.user_ids_.codes(np.arange(shape[0]))
    items = model.item_ids_.codes(np.arange(shape[1]))
    return model.user_factors_[users], model.item_factors_[items]


def nmf_fits(split: Split, starts: int) -> Fits:
    """Ours and Surprise's, from several random starts."""
    trainset = surprise_trainset(split.X, split.y)
    for seed in range(starts):
        model = NMF(NMF_FACTORS, ridge=NMF_RIDGE, max_iter=NMF_EPOCHS, random_state=seed).fit(split.X, split.y)
        theirs = surprise_nmf(trainset, NMF_FACTORS, NMF_EPOCHS, seed)
        factors = own_factors(model, split.shape), surprise_factors(theirs, split.shape)
        ours, peers = (measure(split, each, NMF_RIDGE, "weighted") for each in factors)
        yield ours, peers


def ccdpp_fits(split: Split, starts: int, mode: RidgeMode) -> Fits:
    """Ours and cmfrec's, from several random starts."""
    matrix, ridge = as_matrix(split.X, split.y, split.shape), RIDGES[mode]
    for seed in range(starts):
        model = CCDPlusPlus(FACTORS, ridge=ridge, ridge_mode=mode, random_state=seed).fit(split.X, split.y)
        theirs = cmfrec_model(matrix, mode, seed, niter=60, use_cg=False, use_float=False)
        factors = own_factors(model, split.shape), (theirs.A_, theirs.B_)
        ours, peers = (measure(split, each, ridge, mode) for each in factors)
        yield ours, peers


def compare(title: str, peer_name: str, note: str, fits: Callable[[Split], Fits]) -> Part:
    """One table, means over the starts."""
    rows, ratios = [], []
    for number, split in enumerate(splits(movielens("100k"), 3)):
        measured = np.array(list(fits(split)))  # starts × (ours, theirs) × (objective, error)
        (value, error), (their_value, their_error) = measured.mean(axis=0)
        spread, their_spread = measured[:, :, 1].std(axis=0)
        ratios.append(error / their_error)
        reached = [f"{value:.0f}", f"{their_value:.0f}"]
        spreads = [f"{error:.4f} ± {spread:.4f}", f"{their_error:.4f} ± {their_spread:.4f}"]
        rows.append([str(number), *reached, *spreads, f"{ratios[-1]:.4f}"])
    columns = ["split", "objective", f"{peer_name}'s", "RMSE (± over starts)", f"{peer_name}'s", "ratio"]
    check = error_check("ratio of the RMSEs, the furthest from 1", ratios)
    return Part(title, columns, rows, [check], [f"{note} {SPLITS}"])


# --- time -----------------------------------------------------------------------------------------------------


def sweep_fits(data: Dataset) -> dict[str, Callable[[int], Any]]:
    """Fits of a given number of sweeps to all ratings, by name; one thread each, as Surprise has no more."""
    ratings = Ratings.read(data.pairs, data.rating)
    matrix = as_matrix(data.pairs, data.rating, (data.n_users, data.n_items))
    trainset = surprise_trainset(data.pairs, data.rating)

    def ccdpp(inner: int) -> Callable[[int], Any]:
        return lambda sweeps: CCDPlusPlus(FACTORS, inner_iter=inner, max_iter=sweeps, random_state=0, n_jobs=1).fit(
            ratings
        )

    def cmfrec(**settings: Any) -> Callable[[int], Any]:
        return lambda sweeps: cmfrec_model(matrix, "weighted", 0, niter=sweeps, nthreads=1, **settings)

    def nmf(sweeps: int) -> Any:
        return NMF(FACTORS, ridge=NMF_RIDGE, max_iter=sweeps, random_state=0, n_jobs=1).fit(ratings)

    return {
        "CCD++, 5 inner iterations (default)": ccdpp(5),
        "CCD++, 1 inner iteration": ccdpp(1),
        "cmfrec, conjugate gradients, float32 (default)": cmfrec(use_cg=True, use_float=True),
        "cmfrec, conjugate gradients, float64": cmfrec(use_cg=True, use_float=False),
        "cmfrec, Cholesky, float32": cmfrec(use_cg=False, use_float=True),
        "cmfrec, Cholesky, float64": cmfrec(use_cg=False, use_float=False),
        "NMF": nmf,
        "Surprise NMF": lambda epochs: surprise_nmf(trainset, FACTORS, epochs, 0),
    }


def progress() -> Part:
    """How far the sweeps of CCD++ and of cmfrec come: they are not alike."""
    data = movielens("1m")
    fits = sweep_fits(data)
    shape = data.n_users, data.n_items
    everything = Split(data.pairs, data.rating, data.pairs, data.rating, shape)
    counts = (1, 2, 5, 10, 20)
    rows = []
    for name in (name for name in fits if "NMF" not in name):
        reached = []
        for count in counts:
            model = fits[name](count)
            factors = own_factors(model, shape) if name.startswith("CCD++") else (model.A_, model.B_)
            reached.append(objective(everything, factors, RIDGES["weighted"], "weighted") / 1000)
        rows.append([name, *(f"{value:.1f}" for value in reached)])
    columns = ["objective / 1000 after so many sweeps", *map(str, counts)]
    note = f"K = {FACTORS}, weighted ridge {RIDGES['weighted']}; one formula for all, on all ratings."
    return Part("CCD++: what a sweep achieves, MovieLens 1M", columns, rows, notes=[note])


def compare_times(repeats: int) -> Part:
    """Seconds a sweep; CCD++ against the fastest of cmfrec's, and NMF against Surprise's."""
    times = seconds_per_sweep(sweep_fits(movielens("1m")), repeats)
    rows = [[name, f"{took.clock:.3f}", f"{took.processor:.3f}"] for name, took in times.items()]
    # All have one thread, and processor time does not depend on what else the machine is doing.
    cost = {name: took.processor for name, took in times.items()}
    fastest = min(took for name, took in cost.items() if name.startswith("cmfrec"))
    single = cost["CCD++, 1 inner iteration"] / fastest
    checks = [
        time_check("CCD++ by default / cmfrec's fastest", cost["CCD++, 5 inner iterations (default)"] / fastest),
        time_check("NMF / Surprise's", cost["NMF"] / cost["Surprise NMF"]),
    ]
    note = (
        f"K = {FACTORS}, all 1,000,209 ratings, one thread each. Best of {repeats} fits of 11 sweeps less the best "
        f"of {repeats} of one, divided by ten; the fits took turns. Checked by processor time. By default a "
        f"sweep of CCD++ updates each factor up to five times, one of cmfrec once; with one update each "
        f"CCD++ takes {single:.2f}× of cmfrec's fastest."
    )
    return Part("Times, MovieLens 1M", ["seconds a sweep", "clock", "processor"], rows, checks, [note])


def compare_all_errors() -> dict[str, Part]:
    nmf_note = (
        f"K = {NMF_FACTORS}, {NMF_EPOCHS} sweeps, ridge {NMF_RIDGE} (Surprise's defaults, `biased=False`), ten starts. "
        f"Peer: {version('scikit-surprise')}."
    )
    parts = {"a": compare("NMF, MovieLens 100k", "Surprise", nmf_note, partial(nmf_fits, starts=10))}
    for letter, (mode, ridge) in zip("bc", RIDGES.items(), strict=True):
        note = f"K = {FACTORS}, ridge {ridge}, both until at rest, three starts. Peer: {version('cmfrec')}, Cholesky."
        title = f"CCD++, {mode} ridge, MovieLens 100k"
        parts[letter] = compare(title, "cmfrec", note, partial(ccdpp_fits, starts=3, mode=mode))
    return parts


def main(arguments: list[str]) -> int:
    warnings.simplefilter("ignore", ConvergenceWarning)
    steps: dict[str, Callable[[], dict[str, Part]]] = {
        "errors": compare_all_errors,
        "times": lambda: {"d": compare_times(repeats=5)},
        "progress": lambda: {"e": progress()},
    }
    passed = True
    for name in arguments or steps:
        parts = steps[name]()
        for part in parts.values():
            print(f"\n{part.markdown()}", flush=True)
        save_parts(parts, "rivals_ccd")
        passed &= all(check.passed for part in parts.values() for check in part.checks)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
