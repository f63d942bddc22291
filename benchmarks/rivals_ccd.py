"""NMF against scikit-surprise's NMF, and CCD++ against cmfrec: the same models on the same splits, in one run.

Needs both (``pip install "boundrec[peers]"``) and the MovieLens files in BOUNDREC_DATA. Prints tables in Markdown
and fails if an RMSE on MovieLens 100k is more than 1 % above the peer's, or a sweep on MovieLens 1M takes more than
twice as long.

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
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from sklearn.exceptions import ConvergenceWarning

from boundrec import NMF, CCDPlusPlus, Ratings
from boundrec.datasets import Dataset, load
from boundrec.metrics import rmse
from boundrec.splits import repeated_hold_out

#: Surprise's defaults.
NMF_FACTORS, NMF_EPOCHS, NMF_RIDGE = 15, 50, 0.06
FACTORS = 20
#: Ridges near the best of each kind on MovieLens 100k.
RIDGES = {"weighted": 0.1, "plain": 10.0}
TOLERATED_ERROR, TOLERATED_TIME = 1.01, 2.0

Factors = tuple[NDArray[np.floating], NDArray[np.floating]]


class Split(NamedTuple):
    """Training ratings and held-out ones, as pairs and values."""

    X: NDArray[np.int32]
    y: NDArray[np.float64]
    X_held: NDArray[np.int32]
    y_held: NDArray[np.float64]
    shape: tuple[int, int]


def peer(module: str, package: str) -> Any:
    """A peer, imported late: without it this file can still be read and checked."""
    try:
        return import_module(module)
    except ModuleNotFoundError:
        sys.exit(f'{package} is not installed: pip install "boundrec[peers]"')


def splits(data: Dataset, count: int) -> list[Split]:
    masks = repeated_hold_out(data.user, data.item, n_folds=count)
    X, y, shape = data.pairs, data.rating, (data.n_users, data.n_items)
    return [Split(X[~held], y[~held], X[held], y[held], shape) for held in masks]


# --- the peers ------------------------------------------------------------------------------------------------


def surprise_trainset(X: NDArray[np.int32], y: NDArray[np.float64]) -> Any:
    surprise = peer("surprise", "scikit-surprise")
    entries = zip(X[:, 0].tolist(), X[:, 1].tolist(), y.tolist(), strict=True)
    loaded = surprise.Dataset(surprise.Reader(rating_scale=(1, 5)))
    return loaded.construct_trainset([(user, item, rating, None) for user, item, rating in entries])


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


def cmfrec_model(matrix: Any, mode: str, seed: int, **settings: Any) -> Any:
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


def measure(split: Split, factors: Factors, ridge: float, mode: str) -> Measured:
    return Measured(objective(split, factors, ridge, mode), rmse(split.y_held, products(factors, split.X_held)))


def own_factors(model: NMF | CCDPlusPlus, shape: tuple[int, int]) -> Factors:
    """Factors in the order of the data's own codes."""
    users = model.user_ids_.codes(np.arange(shape[0]))
    items = model.item_ids_.codes(np.arange(shape[1]))
    return model.user_factors_[users], model.item_factors_[items]


def nmf_fits(split: Split, starts: int) -> Iterator[tuple[Measured, Measured]]:
    """Ours and Surprise's, from several random starts."""
    trainset = surprise_trainset(split.X, split.y)
    for seed in range(starts):
        model = NMF(NMF_FACTORS, ridge=NMF_RIDGE, max_iter=NMF_EPOCHS, random_state=seed).fit(split.X, split.y)
        theirs = surprise_nmf(trainset, NMF_FACTORS, NMF_EPOCHS, seed)
        factors = own_factors(model, split.shape), surprise_factors(theirs, split.shape)
        ours, peers = (measure(split, each, NMF_RIDGE, "weighted") for each in factors)
        yield ours, peers


def ccdpp_fits(split: Split, starts: int, mode: str) -> Iterator[tuple[Measured, Measured]]:
    """Ours and cmfrec's, from several random starts."""
    matrix, ridge = as_matrix(split.X, split.y, split.shape), RIDGES[mode]
    for seed in range(starts):
        model = CCDPlusPlus(FACTORS, ridge=ridge, ridge_mode=mode, random_state=seed).fit(split.X, split.y)
        theirs = cmfrec_model(matrix, mode, seed, niter=60, use_cg=False, use_float=False)
        factors = own_factors(model, split.shape), (theirs.A_, theirs.B_)
        ours, peers = (measure(split, each, ridge, mode) for each in factors)
        yield ours, peers


def compare(title: str, peer_name: str, fits: Callable[[Split], Iterator[tuple[Measured, Measured]]]) -> float:
    """Print one table, means over the starts; the largest ratio of the errors over the splits."""
    print(f"\n{title}\n")
    print(
        f"| split | objective | {peer_name} | RMSE (± over starts) | {peer_name} | ratio |\n|---|---|---|---|---|---|"
    )
    worst = 0.0
    for number, split in enumerate(splits(load("movielens_100k"), 3)):
        measured = np.array(list(fits(split)))  # starts × (ours, theirs) × (objective, error)
        (value, error), (their_value, their_error) = measured.mean(axis=0)
        spread, their_spread = measured[:, :, 1].std(axis=0)
        worst = max(worst, error / their_error)
        print(
            f"| {number} | {value:.0f} | {their_value:.0f} | {error:.4f} ± {spread:.4f} "
            f"| {their_error:.4f} ± {their_spread:.4f} | {error / their_error:.4f} |",
            flush=True,
        )
    return worst


# --- time -----------------------------------------------------------------------------------------------------


class Seconds(NamedTuple):
    """By the clock, and of the processor (all threads together)."""

    clock: float
    processor: float


def seconds_per_sweep(fit: Callable[[int], Any]) -> Seconds:
    """What ten sweeps more cost, divided by ten: reading, starting and compiling cancel."""
    took = []
    for sweeps in (1, 11):
        began = time.perf_counter(), time.process_time()
        fit(sweeps)
        took.append((time.perf_counter() - began[0], time.process_time() - began[1]))
    return Seconds(*((long - short) / 10 for short, long in zip(*took, strict=True)))


def best_times(fits: dict[str, Callable[[int], Any]], repeats: int) -> dict[str, Seconds]:
    """Best of several, taken in turns, so that a busy moment hits all."""
    times: dict[str, list[Seconds]] = {name: [] for name in fits}
    for _ in range(repeats):
        for name, fit in fits.items():
            times[name].append(seconds_per_sweep(fit))
    return {name: Seconds(*map(min, zip(*values, strict=True))) for name, values in times.items()}


def compare_times(repeats: int, threads: int) -> float:
    """Print seconds a sweep; the ratio of CCD++ as it is by default to the fastest of cmfrec's."""
    data = load("movielens_1m")
    ratings = Ratings.read(data.pairs, data.rating)
    matrix = as_matrix(data.pairs, data.rating, (data.n_users, data.n_items))
    trainset = surprise_trainset(data.pairs, data.rating)

    def ccdpp(inner: int) -> Callable[[int], Any]:
        return lambda sweeps: CCDPlusPlus(
            FACTORS, inner_iter=inner, max_iter=sweeps, random_state=0, n_jobs=threads
        ).fit(ratings)

    def cmfrec(**settings: Any) -> Callable[[int], Any]:
        return lambda sweeps: cmfrec_model(matrix, "weighted", 0, niter=sweeps, nthreads=threads, **settings)

    fits: dict[str, Callable[[int], Any]] = {
        "CCD++, 5 inner iterations (default)": ccdpp(5),
        "CCD++, 1 inner iteration": ccdpp(1),
        "cmfrec, conjugate gradients, float32 (default)": cmfrec(use_cg=True, use_float=True),
        "cmfrec, conjugate gradients, float64": cmfrec(use_cg=True, use_float=False),
        "cmfrec, Cholesky, float32": cmfrec(use_cg=False, use_float=True),
        "cmfrec, Cholesky, float64": cmfrec(use_cg=False, use_float=False),
        "NMF": lambda sweeps: NMF(FACTORS, ridge=NMF_RIDGE, max_iter=sweeps, random_state=0, n_jobs=threads).fit(
            ratings
        ),
        "Surprise NMF (one thread)": lambda epochs: surprise_nmf(trainset, FACTORS, epochs, 0),
    }
    for name in ("CCD++, 1 inner iteration", "NMF"):
        fits[name](1)  # compiles
    times = best_times(fits, repeats)
    print(f"\nMovieLens 1M, K={FACTORS}, {threads} thread(s), seconds a sweep, best of {repeats}\n")
    print("| | clock | processor |\n|---|---|---|")
    for name, seconds in times.items():
        print(f"| {name} | {seconds.clock:.3f} | {seconds.processor:.3f} |")
    default, *_ = times.values()
    return default.clock / min(seconds.clock for name, seconds in times.items() if name.startswith("cmfrec"))


def main(threads: int) -> int:
    warnings.simplefilter("ignore", ConvergenceWarning)
    nmf = f"NMF, MovieLens 100k, K={NMF_FACTORS}, {NMF_EPOCHS} sweeps, ridge {NMF_RIDGE}"
    worst = compare(nmf, "Surprise", partial(nmf_fits, starts=10))
    for mode, ridge in RIDGES.items():
        ccdpp = f"CCD++, MovieLens 100k, K={FACTORS}, {mode} ridge {ridge}, until at rest"
        worst = max(worst, compare(ccdpp, "cmfrec", partial(ccdpp_fits, starts=3, mode=mode)))
    slower = compare_times(3, threads)
    accurate, fast = worst <= TOLERATED_ERROR, slower <= TOLERATED_TIME
    print(f"\nRMSE at most 1 % above the peer's: {worst:.4f}, {'pass' if accurate else 'FAIL'}")
    print(f"A sweep within 2× of cmfrec's fastest: {slower:.2f}, {'pass' if fast else 'FAIL'}")
    return 0 if accurate and fast else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1))
