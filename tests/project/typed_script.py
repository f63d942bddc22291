"""What a user with a type checker writes: test_typing has mypy and pyright read this, both strict. Never run."""

from collections.abc import Iterator
from typing import Any, assert_type

import numpy as np
import pandas as pd  # type: ignore[import-untyped, unused-ignore]
import polars as pl
from numpy.typing import NDArray

import boundrec
from boundrec import BMCADMM, BMF, MBMF, MF, NMF, BayesianMBMF, BoundedSVD, CCDPlusPlus, Ratings
from boundrec.models.estimator import FactorisationModel, Vectors

Floats = NDArray[np.float64]
X = [("ann", "tea"), ("bob", "gin")]
y = [5, 1]

# --- settings: words, numbers, and what may be either -------------------------------------------------------

model = MBMF(2, bounds=(1, 5), form="n", constraint="sphere", solver="angles", init="orthant", step="line-search")
MBMF(bounds=[0, None], magnitudes=({"ann": 1.0}, {"tea": 2.0}), on_contradiction="widen", duplicates="mean")
MBMF(bounds=np.array([1, 5]), magnitudes="history", on_unknown="nan", biases=True, ridge=0.1, slack="auto")
MBMF(tol_mode="absolute", steps="shared", dtype=np.float32, random_state=np.random.default_rng(0))
MBMF.as_in_paper(10, form="c", bounds=(1, 5))
bayesian = BayesianMBMF(bounds=(1, None), slack=1.5, dtype="float64", random_state=0)
rivals = [
    MF(solver="sgd", steps="separate"),
    NMF(bounds=(0, 5), clip=True),
    CCDPlusPlus(ridge_mode="plain"),
    BMF(bounds=(1, 5), bound_on="observed"),
    BMCADMM(bounds=(1, 5), duplicates="last"),
    BoundedSVD(bounds=(1, 5), solver="gd", on_unknown="raise"),
]

# --- fits and predictions -----------------------------------------------------------------------------------

assert_type(model.fit(X, y), MBMF)
assert_type(bayesian.fit(X, y, history=(X, y), eval_set=(X, y)), BayesianMBMF)
assert_type(rivals[0].predict(X), Floats)

assert_type(model.predict(X), Floats)
assert_type(model.predict(X, return_range=False), Floats)
assert_type(model.predict(X, return_range=True), tuple[Floats, Floats, Floats])
assert_type(model.predict(X, True), tuple[Floats, Floats, Floats])
assert_type(model.predict_range(X), tuple[Floats, Floats])

assert_type(bayesian.predict(X), Floats)
assert_type(bayesian.predict(X, return_std=True), tuple[Floats, Floats])
assert_type(bayesian.predict(X, return_range=True), tuple[Floats, Floats, Floats])
assert_type(bayesian.predict(X, return_range=True, return_std=True), tuple[Floats, Floats, Floats, Floats])
assert_type(bayesian.predict_quantiles(X, (0.1, 0.9)), Floats)


def either(return_range: bool) -> Floats:
    """A switch that is known only later gives a union, to be told apart."""
    found = model.predict(X, return_range=return_range)
    return found[0] if isinstance(found, tuple) else found


# --- lists --------------------------------------------------------------------------------------------------

assert_type(model.recommend(["ann"], n=3), tuple[NDArray[Any], Floats])
assert_type(model.recommend(["ann"], output="pandas"), pd.DataFrame)
assert_type(model.recommend(n=3, output="polars"), pl.DataFrame)
assert_type(rivals[0].recommend(exclude=["tea"], output="pyarrow"), Any)  # pyarrow has no types
assert_type(model.recommend_batches(batch_size=10), Iterator[tuple[NDArray[Any], NDArray[Any], Floats]])
assert_type(model.recommend_batches(["ann"], output="polars", batch_size=10), Iterator[pl.DataFrame])
assert_type(model.similar_items("tea"), tuple[NDArray[Any], Floats])
assert_type(model.similar_users("ann", n=2), tuple[NDArray[Any], Floats])
assert_type(model.export_vectors(), Vectors)
assert_type(model.export_vectors().users, NDArray[np.float32])

# --- afterwards ---------------------------------------------------------------------------------------------

assert_type(model.fold_in(X, y, axis="items"), MBMF)
assert_type(bayesian.partial_fit(X, y), BayesianMBMF)
assert_type(model.objectives_, list[float])
assert_type(model.n_iter_, int)
assert_type(model.feature_names_in_, NDArray[np.object_])
model.save("model.safetensors", keep_ratings=True)

loaded = boundrec.load("model.safetensors")
assert_type(loaded, FactorisationModel)
assert_type(loaded.predict(X), Floats)
assert_type(loaded.recommend(["ann"], n=3), tuple[NDArray[Any], Floats])
if isinstance(loaded, MBMF | BayesianMBMF):
    assert_type(loaded.predict(X, return_range=True), tuple[Floats, Floats, Floats])
    assert_type(loaded.predict_range(X), tuple[Floats, Floats])

ratings = Ratings.read(X, y, duplicates="mean")
assert_type(ratings, Ratings)
assert_type(ratings.n_users, int)
