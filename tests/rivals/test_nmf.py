"""NMF: the sparse multiplicative updates against the dense ones, and their laws."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import naive
from boundrec import NMF, Ratings, load
from boundrec.models.fitted import Fitted
from boundrec.ranges import frame_for
from boundrec.rivals import Cut

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def sparse_problem(seed, shape=(9, 7), scale=5.0):
    """A masked matrix with an empty row, an empty column, stored zeros, and weights of which some are zero."""
    rng = np.random.default_rng(seed)
    Z = rng.random(shape) < rng.uniform(0.2, 0.9)
    Z[0, 0] = True
    Z[3] = Z[:, 4] = False
    V = scale * np.where(rng.random(shape) < 0.2, 0.0, rng.random(shape))
    C = Z * np.where(rng.random(shape) < 0.2, 0.0, rng.random(shape))
    C[0, 0] = 1.0
    return V, Z, C


def fit(model, V, Z, C=None, callback=None):
    """Fit to the observed entries, given as a sparse matrix whose zeros are stored."""
    rows, columns = np.nonzero(Z)
    matrix = sp.coo_array((V[rows, columns], (rows, columns)), shape=V.shape)
    return model.fit(matrix, sample_weight=None if C is None else C[rows, columns], callback=callback)


def after_each_sweep(model, V, Z, C=None):
    """The factors, H as in the paper, after every sweep."""
    kept = []

    def keep(sweep, objective, fitted):
        kept.append((fitted.user_factors_.copy(), fitted.item_factors_.T.copy()))

    fit(model, V, Z, C, keep)
    return kept


@given(st.integers(0, 10_000), st.integers(1, 6), st.sampled_from([0.0, 0.3]), st.booleans())
def test_the_sparse_updates_equal_the_dense_ones(seed, n_factors, ridge, weighted):
    V, Z, C = sparse_problem(seed)
    model = NMF(n_factors, ridge=ridge, max_iter=6, random_state=seed, patience=100)
    sweeps = after_each_sweep(model, V, Z, C if weighted else None)
    C = C if weighted else Z.astype(float)
    for (W, H), (fast_W, fast_H) in pairwise(sweeps):
        slow_W, slow_H = naive.nmf_sweep(V, C, W, H, ridge)
        assert np.allclose(fast_W, slow_W, rtol=1e-9, atol=1e-12)
        assert np.allclose(fast_H, slow_H, rtol=1e-9, atol=1e-12)
    counts = C.sum(axis=1), C.sum(axis=0)
    objectives = [naive.ridge_objective(V, C, W, H, *(ridge * n for n in counts)) for W, H in sweeps]
    assert np.allclose(model.objectives_, objectives, rtol=1e-10)


@given(
    st.integers(0, 10_000),
    st.integers(1, 12),
    st.sampled_from([0.0, 1e-3, 1.0]),
    st.sampled_from([1e-8, 5.0, 1e8]),
    st.booleans(),
)
def test_the_objective_never_rises_and_no_factor_is_negative(seed, n_factors, ridge, scale, weighted):
    V, Z, C = sparse_problem(seed, scale=scale)
    model = fit(NMF(n_factors, ridge=ridge, max_iter=60, random_state=seed), V, Z, C if weighted else None)
    objectives = np.array(model.objectives_)
    # A sum of squares of size F is known to about 1e-13 of the squares it comes from, those of the ratings.
    assert np.all(np.diff(objectives) <= 1e-12 * np.sum(V[Z] ** 2))
    assert model.user_factors_.min() >= 0
    assert model.item_factors_.min() >= 0
    assert np.isfinite(model.user_factors_).all()
    assert np.isfinite(model.item_factors_).all()


def test_rows_and_columns_without_data_stay_where_they_start():
    V, Z, C = sparse_problem(0)
    C[5] = 0.0  # observed, but without weight
    first, *_, last = after_each_sweep(NMF(3, max_iter=20, random_state=0), V, Z, C)
    for row in (3, 5):
        assert np.array_equal(first[0][row], last[0][row])
        assert np.all(last[0][row] > 0)
    assert np.array_equal(first[1][:, 4], last[1][:, 4])
    assert not np.array_equal(first[0][0], last[0][0])


def test_the_start_predicts_the_mean_rating_on_average():
    ratings = Ratings.read([(0, 0), (0, 1), (1, 0), (2, 2)], [1.0, 5.0, 4.0, 4.0])
    start = Fitted.before_the_first_sweep(ratings, ratings, Cut())
    W, H = NMF(4, bounds=(1, 5))._start(start, 1.0, np.random.default_rng(0))
    assert (W @ H.T).mean() == pytest.approx(2.5)
    assert min(W.min(), H.min()) > 0


def test_a_full_matrix_of_its_rank_is_recovered():
    rng = np.random.default_rng(0)
    V = rng.random((12, 2)) @ rng.random((2, 10))
    model = fit(NMF(2, max_iter=4000, tol=1e-12, random_state=0), V, np.ones(V.shape, bool))
    assert model.objectives_[-1] < 1e-6 * np.sum(V**2)
    assert np.allclose(model.user_factors_ @ model.item_factors_.T, V, atol=2e-3)


@pytest.mark.parametrize("ridge", [0.0, 0.05])
def test_where_it_comes_to_rest_every_factor_is_zero_or_has_no_slope(ridge):
    V, Z, _ = sparse_problem(3)
    model = fit(NMF(2, ridge=ridge, max_iter=20_000, tol=1e-15, random_state=0), V, Z)
    W, H = model.user_factors_, model.item_factors_.T
    slope = (Z * (W @ H - V)) @ H.T + ridge * Z.sum(axis=1, keepdims=True) * W
    assert np.all(np.abs(W * slope) < 1e-5)
    assert np.all(slope > -1e-4)


def test_ratings_are_shifted_by_the_lower_bound():
    V, Z, _ = sparse_problem(4)
    plain = fit(NMF(2, bounds=(0, 5), max_iter=10, random_state=0), V, Z)
    shifted = fit(NMF(2, bounds=(-8, -3), max_iter=10, random_state=0), V - 8, Z)
    assert np.allclose(plain.user_factors_, shifted.user_factors_, rtol=1e-9)
    pairs = np.argwhere(Z)
    assert np.allclose(plain.predict(pairs) - 8, shifted.predict(pairs))
    assert shifted.predict(pairs).min() >= -8


@pytest.mark.parametrize(
    ("bounds", "least", "offset"),
    [
        *((None, 0.5, 0.0), (None, -2.0, -2.0), ((None, 9), -2.0, -2.0), ((-3, None), 0.5, -3)),
        *(((0, 5), 0.5, 0.0), ((0.5, 5), 0.5, 0.0), ((0.5, None), 0.5, 0.0)),
    ],
)
def test_only_ratings_that_are_or_may_be_negative_shift(bounds, least, offset):
    model = NMF(2, bounds=bounds, max_iter=5, random_state=0).fit([(0, 0), (0, 1), (1, 0)], [least, 3, 4])
    assert model.fitted_.ranges.offset == offset


@pytest.mark.parametrize("bounds", [(-10, 10), (-10, None), (0, None), (1, 5)])
def test_the_shift_is_that_of_form_n_of_mbmf(bounds):
    pairs, ratings = [(0, 0), (0, 1), (1, 0)], [1.0, 3.0, 4.0]
    model = NMF(2, bounds=bounds, max_iter=5, random_state=0).fit(pairs, ratings)
    assert model.fitted_.ranges.offset == frame_for(bounds, "n", min(ratings)).offset


def test_a_model_file_that_was_shifted_by_its_lower_end_answers_as_it_did(tmp_path, monkeypatch):
    """Until stars from 1 on stayed as they are, 1 was subtracted: files hold what was."""
    X, y = [(i, j) for i in range(4) for j in range(3)], np.arange(12) % 5 + 1.0
    with monkeypatch.context() as before:
        before.setattr(NMF, "_offset", lambda self, start: 1.0)
        old = NMF(2, bounds=(1, 5), max_iter=5, random_state=0).fit(X, y)
        old.save(tmp_path / "old.safetensors")
    answers = load(tmp_path / "old.safetensors").predict(X)
    assert np.allclose(answers, 1 + (old.user_factors_ @ old.item_factors_.T).ravel())


def test_ratings_that_all_lie_at_the_lower_bound_are_predicted_there():
    ratings = [-0.7] * 6
    assert np.mean(ratings) < -0.7  # by rounding
    model = NMF(2, bounds=(-0.7, 5), random_state=0).fit([(i % 3, i // 3) for i in range(6)], ratings)
    assert np.array_equal(model.predict([(0, 0), (1, 1)]), [-0.7, -0.7])


def test_predictions_pass_the_upper_end_unless_clipped():
    rng = np.random.default_rng(0)
    Z = rng.random((40, 30)) < 0.08
    V = rng.integers(1, 6, Z.shape).astype(float)
    model = fit(NMF(8, bounds=(1, 5), max_iter=500, random_state=0), V, Z)
    seen = np.flatnonzero(Z.any(axis=1)), np.flatnonzero(Z.any(axis=0))
    pairs = np.array([(i, j) for i in seen[0] for j in seen[1]])
    free = model.predict(pairs)
    assert free.max() > 10
    assert np.array_equal(model.set_params(clip=True).predict(pairs), np.clip(free, 1, 5))


@pytest.mark.parametrize("ridge", [-1.0, np.nan, np.inf])
def test_a_ridge_without_sense_is_refused(ridge):
    with pytest.raises(ValueError, match="ridge="):
        NMF(2, ridge=ridge).fit([(0, 0)], [1.0])
