"""The draws of BayesianMBMF against exact samplers in low dimension, and what it promises."""

import warnings

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone

import naive
from boundrec import MBMF, BayesianMBMF
from boundrec.models.answers import mixture_quantiles, sampled
from boundrec.models.bayesian import slack_for
from boundrec.solvers import random_kernels
from boundrec.solvers import sampling_kernels as kernels
from boundrec.solvers.gibbs import NOTHING_COMMON, draw_prior, draw_wishart


def stream(seed):
    return np.array([seed], np.uint64)


def many(draw, n, seed=0):
    state = stream(seed)
    return np.array([draw(state) for _ in range(n)])


@pytest.mark.parametrize(
    ("low", "high"), [(-1, 1), (-0.2, 3), (-5, 5), (0, 1), (2, 2.3), (3, 9), (6, 6.01), (-8, -5), (-1e-3, 1e-3)]
)
def test_truncated_normals_have_the_distribution_of_scipys(low, high):
    sample = many(lambda state: random_kernels.truncated_normal(state, low, high), 4000)
    assert sample.min() >= low
    assert sample.max() <= high
    assert stats.kstest(sample, stats.truncnorm(low, high).cdf).pvalue > 1e-3


@pytest.mark.parametrize("width", [1e-3, 0.1, 2.0, np.inf])
@pytest.mark.parametrize("low", [0.0, 1e-9, 0.5, 3.99, 4.01, 7.0, 37.0, 100.0, 1000.0])
def test_the_inverse_of_the_tail_is_that_of_its_slow_twin(low, width):
    """1e-9 of what the numbers vary by: the twin's logarithm of a tail at 1000 is 5e5, which leaves ten digits."""
    scale = min(width, 1 / (low + 1))
    for share in (1e-12, 1e-3, 0.3, 0.5, 0.9, 1 - 1e-9):
        found = random_kernels._tail_by_inverse(share, low, low + width)
        assert found == pytest.approx(naive.quantile_of_tail(share, low, low + width), rel=0, abs=1e-9 * scale)


@pytest.mark.parametrize(("low", "high"), [(0, 1), (2, 2.3), (3, 9), (6, 6.01), (30, np.inf), (0, np.inf)])
def test_tails_by_inverse_have_the_distribution_of_scipys(low, high):
    sample = many(lambda state: random_kernels._tail_by_inverse(random_kernels.uniform(state), low, high), 4000)
    assert sample.min() >= low
    assert sample.max() <= high
    assert stats.kstest(sample, stats.truncnorm(low, high).cdf).pvalue > 1e-3


@pytest.mark.parametrize(("low", "high"), [(-1, 1), (-0.2, 3), (-5, 5), (-1e-3, 1e-3), (-3, 0.1), (-np.inf, np.inf)])
def test_numbers_around_zero_by_inverse_have_the_distribution_of_scipys(low, high):
    sample = many(lambda state: random_kernels._normal_by_inverse(state, low, high), 4000)
    assert sample.min() >= low
    assert sample.max() <= high
    assert stats.kstest(sample, stats.truncnorm(low, high).cdf).pvalue > 1e-3


@pytest.mark.parametrize("low", [1e5, 1e7])
def test_far_tails_by_inverse_are_exponential(low):
    """Out there φ(low + t)/φ(low) is e^(−low·t), and numbers have digits left for t·low."""
    sample = many(lambda state: random_kernels._tail_by_inverse(random_kernels.uniform(state), low, np.inf), 4000)
    assert stats.kstest((sample - low) * low, stats.expon.cdf).pvalue > 1e-3


def test_short_intervals_by_inverse_are_uniform():
    for low, width in ((0.0, 1e-300), (3.0, 1e-9), (1e5, 1e-9)):
        shares = [(random_kernels._tail_by_inverse(u, low, low + width) - low) / width for u in (0.1, 0.5, 0.9)]
        assert shares == pytest.approx([0.1, 0.5, 0.9], abs=0.02)  # 1e5 has steps of 1.5e-11


@pytest.mark.parametrize(
    ("low", "high"),
    [
        (1e16, np.inf),
        (1e17, 2e17),
        (-2e17, -1e17),
        (1e200, 1e201),
        (1e300, np.inf),
        (-np.inf, -1e300),
        (-1e308, 1e308),
        (-1e-320, 1e-320),
        (1.0, np.nextafter(1.0, 2.0)),
        (np.nextafter(1e18, 0.0), 1e18),
    ],
)
def test_truncated_normals_of_any_interval_come_to_an_end_inside_it(low, high):
    assert np.all([low <= x <= high for x in many(lambda state: random_kernels.truncated_normal(state, low, high), 50)])


@pytest.mark.parametrize(
    ("low", "high"),
    [(2.0, 2.0), (3.0, 2.0), (-1.0, -2.0), (np.inf, np.inf), (-np.inf, -np.inf), (1.0, np.nan), (np.nan, 1.0)],
)
def test_where_nothing_lies_between_the_ends_the_lower_one_is_returned(low, high):
    assert np.array_equal(random_kernels.truncated_normal(stream(0), low, high), low, equal_nan=True)


def by_rejection(L, mean, radius, n, rng):
    """The truncated normal, the slow way: draw until inside."""
    kept = []
    while len(kept) < n:
        draws = mean + np.linalg.solve(L.T, rng.standard_normal((len(mean), 20_000))).T
        kept.extend(draws[np.linalg.norm(draws, axis=1) <= radius])
    return np.array(kept[:n])


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("distance", [0.0, 0.8, 1.6])
def test_draws_in_the_ball_have_the_distribution_of_rejection_sampling(d, distance):
    """The farther the mean lies outside, the more the chain takes over from independent draws."""
    rng = np.random.default_rng(d)
    root = rng.standard_normal((d, d)) + 3 * np.eye(d)
    L = np.linalg.cholesky(root @ root.T)
    mean = np.zeros(d)
    mean[0] = distance
    exact = by_rejection(L, mean, 1.0, 6000, rng)
    x, z, state, chain = np.zeros(d), np.empty(d), stream(7), []
    for step in range(30_000):
        kernels._draw_in_ball(L, mean, 1.0, x, state, z)
        if step % 5 == 0:
            chain.append(x.copy())
    chain = np.array(chain)
    assert np.all(np.linalg.norm(chain, axis=1) <= 1 + 1e-12)
    for direction in (*np.eye(d), np.ones(d)):
        assert stats.ks_2samp(chain @ direction, exact @ direction).pvalue > 1e-4


def test_the_walk_alone_leaves_the_truncated_normal_as_it_is():
    rng = np.random.default_rng(0)
    L, mean = np.linalg.cholesky(np.array([[6.0, 2.0], [2.0, 3.0]])), np.array([0.9, 0.4])
    exact = by_rejection(L, mean, 1.0, 6000, rng)
    state, direction = stream(3), np.empty(2)
    moved = exact.copy()
    for x in moved:
        kernels._walk_in_ball(L, mean, 1.0, x, state, direction)
    assert not np.allclose(moved, exact)
    for along in (np.array([1.0, 0.0]), np.array([0.0, 1.0]), np.array([1.0, 1.0])):
        assert stats.ks_2samp(moved @ along, exact @ along).pvalue > 1e-4


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("distance", [0.0, 0.8, 1.2])
def test_means_in_the_ball_are_those_of_rejection_sampling(d, distance):
    rng = np.random.default_rng(d)
    root = rng.standard_normal((d, d)) + 3 * np.eye(d)
    L = np.linalg.cholesky(root @ root.T)
    mean = np.zeros(d)
    mean[0] = distance
    exact = by_rejection(L, mean, 1.0, 20_000, rng)
    x, z, spread, state, found, spreads = np.zeros(d), np.empty(d), np.empty(2), stream(5), [], []
    Z = np.empty((d, 8))
    for _ in range(4000):
        kernels._draw_in_ball(L, mean, 1.0, x, state, z)
        around = x.copy()
        random_kernels.fill_normal(state, Z.reshape(-1))
        kernels._solve_upper_for_eight(L, Z)
        kernels._mean_of_pairs(mean, 1.0, Z, np.empty((3, 8)), around, spread)
        assert np.linalg.norm(around) <= 1
        found.append(around)
        spreads.append(spread.copy())
    # As a ratio of sums over eight pairs it is biased where the ball cuts pairs apart, by far less than its own spread.
    assert np.mean(found, axis=0) == pytest.approx(exact.mean(axis=0), abs=0.035)
    variances = exact.var(axis=0)
    assert np.std(found, axis=0).max() < np.sqrt(variances).max()  # it varies less than a draw
    # The variance around a mean of few draws is too small by that mean's own.
    own = np.var(found, axis=0)
    expected = [variances[0], variances[1:].mean()]
    assert np.mean(spreads, axis=0) + np.array([own[0], own[1:].mean()]) == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize("scale", [1.0, 1e20, 1e300])
def test_a_precision_that_rounding_makes_indefinite_is_factorised_with_the_least_shift(scale):
    """Of rank one but for a prior that is lost in rounding; a definite one has no shift at all."""
    direction = np.arange(1.0, 9.0)
    A, L = scale * np.outer(direction, direction) + np.eye(8), np.zeros((8, 8))
    assert kernels._factorise_safely(A.copy(), L)
    assert np.allclose(np.tril(L) @ np.tril(L).T / scale, A / scale, rtol=0, atol=1e-12 * 204)
    if scale == 1:
        assert np.allclose(np.tril(L), np.linalg.cholesky(A), rtol=1e-12)


def test_a_row_with_a_precision_beyond_all_numbers_stays_as_it_is():
    csr = (np.array([0, 1]), np.array([0], np.int32), np.array([1.0]), np.empty(0))
    prior, key = (np.full((2, 2), np.inf), np.zeros((1, 2))), np.uint64(0)
    rows, means, spreads = np.array([[0.3, 0.5, 0.4]]), np.empty((1, 3)), np.full((1, 2), np.nan)
    assert not kernels._factorise_safely(np.full((8, 8), np.inf), np.empty((8, 8)))
    nothing = np.empty((0, 0))
    span, common, out = (nothing, nothing, nothing, -1), tuple(NOTHING_COMMON), (rows, means, spreads)
    kernels.sample_rows(csr, np.ones((1, 3)), 1, (np.ones(1), 0.9), prior, span, common, 1.0, key, out, 0, 1)
    assert np.array_equal(rows, [[0.3, 0.5, 0.4]])
    assert np.array_equal(means, rows)
    assert np.array_equal(spreads, [[0, 0]])


def test_where_the_ball_cuts_nothing_off_the_mean_is_exact():
    L, mean = np.linalg.cholesky(np.array([[900.0, 200.0], [200.0, 400.0]])), np.array([0.3, -0.4])
    x, spread, Z = np.zeros(2), np.empty(2), np.random.default_rng(0).standard_normal((2, 8))
    kernels._solve_upper_for_eight(L, Z)
    kernels._mean_of_pairs(mean, 1.0, Z, np.empty((3, 8)), x, spread)
    assert np.allclose(x, mean, rtol=1e-14)
    assert np.all(spread > 0)


def test_precisions_have_wisharts_distribution():
    rng, scatter = np.random.default_rng(0), np.array([[3.0, 1.0, 0.2], [1.0, 2.0, -0.5], [0.2, -0.5, 4.0]])
    ours = np.array([draw_wishart(7, scatter, rng) for _ in range(4000)])
    assert np.array_equal(ours, ours.transpose(0, 2, 1))
    scipys = stats.wishart.rvs(7, np.linalg.inv(scatter), 4000, random_state=1)
    for i, j in ((0, 0), (1, 1), (2, 2), (0, 1), (1, 2)):
        assert stats.ks_2samp(ours[:, i, j], scipys[:, i, j]).pvalue > 1e-4
    assert stats.ks_2samp(np.linalg.det(ours), np.linalg.det(scipys)).pvalue > 1e-4


def test_the_prior_of_the_rows_is_drawn_around_their_moments():
    rng = np.random.default_rng(0)
    rows = rng.multivariate_normal([0.3, -0.2], [[0.04, 0.01], [0.01, 0.02]], 5000)
    draws = [draw_prior(rows, rng) for _ in range(200)]
    assert np.mean([mean for mean, _ in draws], axis=0) == pytest.approx(rows.mean(axis=0), abs=2e-3)
    assert np.linalg.inv(np.mean([P for _, P in draws], axis=0)) == pytest.approx(np.cov(rows.T), rel=0.05)


@pytest.fixture(scope="module")
def low_rank():
    """Ratings of rank two with noise of 0.3, in [1, 5]."""
    rng = np.random.default_rng(0)
    W, H = rng.standard_normal((60, 2)), rng.standard_normal((40, 2))
    truth = np.clip(3 + 0.6 * W @ H.T, 1.4, 4.6)
    X = np.argwhere(rng.random((60, 40)) < 0.5)
    y = np.clip(truth[X[:, 0], X[:, 1]] + 0.3 * rng.standard_normal(len(X)), 1, 5)
    held_out = rng.random(len(X)) < 0.2
    return X[~held_out], y[~held_out], X[held_out], y[held_out]


def test_it_learns_the_noise_and_its_intervals_hold_what_they_promise(low_rank):
    X, y, X_test, y_test = low_rank
    model = BayesianMBMF(4, bounds=(1, 5), max_iter=150, random_state=0, noise="one").fit(X, y)
    prediction, std, lower, upper = model.predict(X_test, return_range=True, return_std=True)
    assert model.noise_ == pytest.approx(0.3, abs=0.05)
    assert np.all((lower <= prediction) & (prediction <= upper))
    assert np.all(std >= model.noise_)
    assert np.mean(np.abs(prediction - y_test) <= 1.2816 * std) == pytest.approx(0.8, abs=0.06)
    low, middle, high = model.predict_quantiles(X_test, (0.1, 0.5, 0.9)).T
    assert np.all((low < middle) & (middle < high) & (low >= 1) & (high <= 5))
    assert np.mean((low <= y_test) & (y_test <= high)) == pytest.approx(0.8, abs=0.06)


def test_it_is_more_accurate_than_one_fit(low_rank):
    X, y, X_test, y_test = low_rank
    error = {
        type(model).__name__: np.mean((model.fit(X, y).predict(X_test) - y_test) ** 2)
        for model in (BayesianMBMF(6, bounds=(1, 5), random_state=0), MBMF(6, bounds=(1, 5), random_state=0))
    }
    assert error["BayesianMBMF"] < error["MBMF"]


def test_the_stacked_model_is_the_mean_of_its_samples(low_rank):
    X, y, X_test, _ = low_rank
    model = BayesianMBMF(3, bounds=(1, 5), slack=1.0, max_iter=30, n_kept=5, dtype="float64", random_state=0).fit(X, y)
    assert model.user_factors_.shape[1] == 2 + 3 * 5
    samples = np.vstack([block for _, block, *_ in sampled(model.fitted_, model._pairs(X_test))])
    assert samples.shape[1] == 5
    assert np.allclose(samples.mean(axis=1), model.predict(X_test))
    assert np.all(np.linalg.norm(model.user_factors_, axis=1) <= model.user_magnitudes_ * (1 + 1e-12))


def test_the_running_mean_on_an_eval_set_is_what_all_samples_predict(low_rank):
    """Also in the order of the eval set, and for pairs with an unknown side."""
    X, y, X_test, y_test = low_rank
    X_eval = np.vstack([X_test[::-1], [(-1, 3), (7, -1)]])
    y_eval = np.concatenate([y_test[::-1], [2.0, 4.0]])
    model = BayesianMBMF(3, bounds=(1, 5), max_iter=30, burn_in=10, n_kept=20, dtype="float64", random_state=0)
    model.fit(X, y, eval_set=(X_eval, y_eval))
    assert model.n_iter_ == len(model.eval_errors_) == 30
    assert np.allclose(model.eval_predictions_, model.predict(X_eval))
    assert model.eval_errors_[-1] == pytest.approx(np.sqrt(np.mean((model.eval_predictions_ - y_eval) ** 2)))
    assert model.eval_errors_[-1] < model.eval_errors_[0]


def test_an_eval_set_does_not_change_the_chain(low_rank):
    X, y, X_test, y_test = low_rank
    settings = {"n_factors": 3, "bounds": (1, 5), "max_iter": 12, "random_state": 0}
    plain = BayesianMBMF(**settings).fit(X, y)
    watched = BayesianMBMF(**settings).fit(X, y, eval_set=(X_test, y_test))
    assert plain.objectives_ == watched.objectives_
    assert np.array_equal(plain.predict(X_test), watched.predict(X_test))


def test_it_stops_when_the_running_error_has_come_to_rest_if_asked_to(low_rank):
    X, y, X_test, y_test = low_rank
    model = BayesianMBMF(3, bounds=(1, 5), max_iter=400, n_iter_no_change=5, random_state=0)
    model.fit(X, y, eval_set=(X_test, y_test))
    assert model.n_iter_ < 400
    assert min(model.eval_errors_[-5:]) >= min(model.eval_errors_[:-5])
    assert np.isfinite(model.predict(X_test)).all()


def test_going_on_is_the_same_chain_as_sampling_at_once(low_rank):
    X, y, X_test, _ = low_rank
    settings = {"n_factors": 3, "bounds": (1, 5), "burn_in": 5, "n_kept": 100, "dtype": "float64", "random_state": 0}
    at_once = BayesianMBMF(max_iter=25, **settings).fit(X, y)
    model = BayesianMBMF(max_iter=15, warm_start=True, **settings).fit(X, y)
    before = model.predict(X_test)
    model.set_params(max_iter=10).fit(X, y)
    assert model.objectives_ == at_once.objectives_
    assert model.n_iter_ == len(model.seconds_) == 25
    assert not np.allclose(model.predict(X_test), before)
    assert np.allclose(model.predict(X_test), at_once.predict(X_test))
    assert np.allclose(model.predict(X_test, return_std=True)[1], at_once.predict(X_test, return_std=True)[1])


@pytest.mark.parametrize(
    ("change", "what"), [({"n_factors": 4}, "n_factors"), ({"bounds": (0, 6)}, "bounds"), ({"slack": 2.2}, "slack")]
)
def test_sampling_does_not_go_on_under_other_settings(low_rank, change, what):
    X, y, _, _ = low_rank
    model = BayesianMBMF(3, bounds=(1, 5), max_iter=5, warm_start=True, random_state=0).fit(X, y)
    fitted = model.user_factors_
    with pytest.raises(ValueError, match=f"other .*{what}"):
        clone(model).fit(X, y).set_params(**change).fit(X, y)
    with pytest.raises(ValueError, match="other users"):
        model.fit(X + 1, y)
    assert model.user_factors_ is fitted


def test_unknown_ids_get_the_prior_mean_and_the_known_side_still_counts(low_rank):
    X, y, _, _ = low_rank
    model = BayesianMBMF(3, bounds=(1, 5), max_iter=40, random_state=0).fit(X, y)
    nobody = model.predict([(-1, -1)])[0]
    assert nobody == pytest.approx(y.mean(), abs=0.3)
    answers = model.predict([(-1, item) for item in range(40)])
    means = np.array([y[X[:, 1] == item].mean() for item in range(40)])
    assert np.corrcoef(answers, means)[0, 1] > 0.6  # without the item they would not move together at all
    _, std = model.predict([(-1, 0), tuple(X[0])], return_std=True)
    assert np.all(np.isfinite(std))


def test_ctrl_c_within_the_burn_in_leaves_the_last_sample(low_rank):
    X, y, X_test, _ = low_rank

    def callback(sweep, objective, fitted):
        if sweep == 3:
            raise KeyboardInterrupt

    model = BayesianMBMF(3, bounds=(1, 5), burn_in=10, max_iter=40, random_state=0)
    with pytest.warns(UserWarning, match="sweep 3"):
        model.fit(X, y, callback=callback)
    assert model.user_factors_.shape[1] == 5
    assert np.isfinite(model.predict(X_test)).all()


def test_one_sided_counts_work(low_rank):
    X, _, X_test, _ = low_rank
    rng = np.random.default_rng(1)
    counts = rng.poisson(3, len(X)).astype(float)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = BayesianMBMF(3, bounds=(0, None), max_iter=30, random_state=0).fit(X, counts)
    prediction, lower, upper = model.predict(X_test, return_range=True)
    assert np.all((prediction >= 0) & (lower == 0) & (prediction <= upper))


def test_the_slack_grows_with_the_number_of_factors():
    assert slack_for(2) <= slack_for(20) < slack_for(40) <= slack_for(400)


def test_quantiles_of_one_sample_are_those_of_a_normal():
    found = mixture_quantiles(np.array([[2.0], [3.0]]), np.array([[0.5], [0.2]]), np.array([0.1, 0.5]))
    assert np.allclose(found, stats.norm([[2.0], [3.0]], [[0.5], [0.2]]).ppf([0.1, 0.5]))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"slack": 0.9}, "slack=0.9"),
        ({"slack": "wide"}, "slack='wide'"),
        ({"burn_in": 100, "max_iter": 100}, "burn_in=100"),
        ({"n_kept": 0}, "n_kept=0"),
    ],
)
def test_settings_without_sense_are_refused(low_rank, settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        clone(BayesianMBMF(3, bounds=(1, 5))).set_params(**settings).fit(*low_rank[:2])


@pytest.mark.parametrize("quantiles", ["", b"x", 1 + 2j, 10**400, None, [[0.1, 0.2]], [0.0], [1.5], [np.nan]], ids=str)
def test_quantiles_that_are_no_shares_are_refused_in_a_sentence(quantiles):
    model = BayesianMBMF(2, bounds=(0, 5), max_iter=2, random_state=0).fit([(0, 0), (0, 1), (1, 0)], [1, 2, 3])
    with pytest.raises(ValueError, match="quantiles"):
        model.predict_quantiles([(0, 0)], quantiles)


def test_no_standard_deviation_is_larger_than_what_a_range_allows():
    X = [("ann", "tea"), ("ann", "rum"), ("bob", "tea"), ("bob", "gin"), ("eve", "rum"), ("eve", "gin")]
    model = BayesianMBMF(2, bounds=(1, 5), random_state=0).fit(X, [5, 1, 4, 5, 2, 1])
    std = model.predict([*X, ("new", "tea"), ("ann", "new"), ("new", "new")], return_std=True)[1]
    assert (std > 0).all()
    assert std.max() == 2  # half of the range, where next to nothing is known
