"""Noise of rows' own: its draws against the closed form, and what it makes ratings count."""

import numpy as np
import pytest
from scipy import stats

import naive
from boundrec import BayesianMBMF
from boundrec.data.ratings import Csr, Pairs
from boundrec.models import answers
from boundrec.solvers import Side
from boundrec.solvers.gibbs import RatingNoise
from boundrec.solvers.growth import NoiseGrowth
from boundrec.solvers.row_noise import ITEMS_ALIKE, USERS_ALIKE, RowNoise, expected, of_strangers
from boundrec.solvers.threads import RowPool


def some_ratings(rng, n_users=5, n_items=4):
    users, items = np.nonzero(rng.random((n_users, n_items)) < 0.6)
    return users, items, rng.uniform(0.2, 3.0, len(users)), rng.chisquare(1, len(users)) * 3


def row_noise(users, items, counts, n_users, n_items):
    """Noise of the rows of these ratings, which are in the order of users."""
    order = np.lexsort((users, items))
    by_user, by_item = in_rows(users, items, n_users), in_rows(items[order], users[order], n_items)
    return RowNoise(by_user, by_item, counts)


def in_rows(rows, columns, n_rows):
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n_rows))])
    return Csr(indptr, columns.astype(np.int32), np.ones(len(rows)), np.empty(0))


def test_rows_have_the_gamma_distribution_of_their_squared_errors():
    """Users given the items' present noise, items given what was just drawn for users; a row without ratings, too."""
    rng = np.random.default_rng(0)
    users, items, counts, squares = some_ratings(rng)
    n_users, n_items = 6, 4  # nobody has heard of user 5
    noise, shares = row_noise(users, items, counts, n_users, n_items), []
    for _ in range(3000):
        before = noise.of_items
        totals = 0.3 * np.bincount(users, before[items] * squares, minlength=n_users)
        total = noise.redraw(totals, 0.3 * squares / counts, counts, 0.3, rng)
        assert total == pytest.approx(0.3 * np.sum(noise.of_users[users] * noise.of_items[items] * squares), rel=1e-12)
        sums = np.bincount(users, counts, minlength=n_users), np.bincount(items, counts, minlength=n_items)
        rates = (
            naive.row_noise_rates(users, squares, before[items], USERS_ALIKE, n_users),
            naive.row_noise_rates(items, squares, noise.of_users[users], ITEMS_ALIKE, n_items),
        )
        drawn, alike = (noise.of_users, noise.of_items), (USERS_ALIKE, ITEMS_ALIKE)
        both = [stats.gamma.cdf(drawn[s] * rates[s], (alike[s] + sums[s]) / 2) for s in range(2)]
        shares.append(np.concatenate(both))
    assert min(stats.kstest(row, "uniform").pvalue for row in np.array(shares).T) > 1e-3
    order = np.lexsort((users, items))
    wanted = counts * noise.of_users[users] * noise.of_items[items]
    by_user, by_item = np.empty(len(users)), np.empty(len(users))
    noise.weigh(counts, by_user)
    noise.weigh_by_item(counts[order], by_item)
    assert by_user == pytest.approx(wanted, rel=1e-14)
    assert by_item == pytest.approx(wanted[order], rel=1e-14)


def test_noise_of_rows_its_growth_and_the_variance_have_their_priors_where_ratings_are_simulated_anew():
    """Draw all of them given errors and errors given them, in turn, as Geweke (2004) does; factors are nothing.

    The variance is integrated out where p is drawn: it would be wrong to use it for a_i before it is drawn anew.
    """
    rng = np.random.default_rng(0)
    users, items = np.repeat([0, 1], 3), np.tile([0, 1, 2], 2)
    half, ones, guess, prior = np.array([0.02, 1.0, 50.0, 0.02, 1.0, 50.0]), np.ones(6), 0.7, 4.0
    csr = Csr(np.array([0, 3, 6]), items.astype(np.int32), ones, ones)
    by_user, by_item = (Side(csr, np.ones(n), np.zeros((n, 1))) for n in (2, 3))
    rows = row_noise(users, items, ones, 2, 3)
    noise = RatingNoise(ones, np.arange(6), NoiseGrowth(half, ones, prior, guess), 0.5, rows)
    noise.weigh(by_user, by_item)
    variance, seen, pool = guess, [], RowPool(1, 6)
    for _ in range(24_000):
        errors = rng.standard_normal(6) * np.sqrt(variance / by_user.csr.weights)
        by_user.csr = by_user.csr._replace(data=errors)
        noise.redraw(by_user, by_item, variance, pool, rng)
        variance = (by_user.csr.weights @ errors**2 + prior * guess) / (2 * rng.gamma((6 + prior) / 2))
        seen.append((noise.p, 1 / variance, *noise.rows.of_users, *noise.rows.of_items))
    known = [stats.uniform(), stats.gamma(prior / 2, scale=2 / (prior * guess))]
    known += [stats.gamma(alike / 2, scale=2 / alike) for alike in [USERS_ALIKE] * 2 + [ITEMS_ALIKE] * 3]
    shares = np.column_stack([one.cdf(own) for one, own in zip(known, np.array(seen).T, strict=True)])
    assert min(stats.kstest(own, "uniform").pvalue for own in shares[::24].T) > 1e-3
    apart = np.einsum("ni,nj->nij", shares - 0.5, shares - 0.5)[:, *np.triu_indices(7, 1)]  # all are independent
    batches = apart.reshape(40, -1, apart.shape[1]).mean(axis=1)
    assert np.abs(batches.mean(axis=0) / batches.std(axis=0, ddof=1) * np.sqrt(40)).max() < 4.5


X = np.argwhere(np.random.default_rng(5).random((12, 9)) < 0.7)
HALF = 10 ** np.random.default_rng(6).uniform(-1, 1, len(X))
Y = HALF * np.random.default_rng(7).uniform(-1, 1, len(X))
SETTINGS = {"n_factors": 2, "noise": "own", "max_iter": 6, "random_state": 0, "dtype": "float64"}


@pytest.fixture
def noise_of_fits(monkeypatch):
    """The RatingNoise that a fit uses, and the weights of its ratings after every sweep."""
    seen, weigh = [], RatingNoise.weigh

    def watched(self, users, items):
        weigh(self, users, items)
        seen.append((self, users.csr.weights.copy()))

    monkeypatch.setattr(RatingNoise, "weigh", watched)
    return seen


@pytest.mark.parametrize("growth", [0.0, 0.7, "auto"])
def test_noise_of_rows_comes_on_top_of_what_widths_of_ranges_count(noise_of_fits, growth):
    model = BayesianMBMF(**SETTINGS, noise_growth=growth).fit(X, Y, lower=-HALF, upper=HALF)
    assert len(noise_of_fits) == 6
    noise, weights = noise_of_fits[-1]
    places = model.fitted_.ratings.positions(X)
    wanted = naive.share_weights(-HALF, HALF, np.ones(len(X)), noise.p)
    own = np.empty(len(X))
    noise.rows.weigh(np.ones(len(X)), own)
    assert np.allclose(weights[places], wanted * own[places], rtol=1e-9)
    assert noise.p == growth or growth == "auto"


@pytest.mark.parametrize("growth", [0.5, "auto"])
def test_ratings_in_ranges_of_no_width_say_nothing_of_noise(noise_of_fits, growth):
    half = np.where(X[:, 0] == 3, 0.0, HALF)
    model = BayesianMBMF(**SETTINGS, noise_growth=growth).fit(X, np.where(half, Y, 0.0), lower=-half, upper=half)
    noise = noise_of_fits[-1][0]
    assert noise.rows._n_users[model.user_ids_.codes([3])] == 0
    assert noise.rows._n_users.sum() == np.count_nonzero(half)


def test_whoever_rates_at_random_counts_less_and_is_predicted_with_less_certainty():
    rng = np.random.default_rng(0)
    pairs = np.argwhere(rng.random((40, 30)) < 0.7)
    wild = pairs[:, 0] < 8
    taste = 3 + rng.standard_normal(40)[pairs[:, 0]] * 0.4 + rng.standard_normal(30)[pairs[:, 1]] * 0.5
    y = np.clip(taste + rng.standard_normal(len(pairs)) * np.where(wild, 1.0, 0.2), 1, 5)
    model = BayesianMBMF(2, bounds=(1, 5), noise="own", max_iter=60, random_state=0).fit(pairs, y)
    steadiness = model.fitted_.users.steadiness.mean(axis=1)
    assert steadiness[:8].max() < steadiness[8:].min()
    _, std = model.predict(pairs, return_std=True)
    assert std[wild].min() > std[~wild].max()


@pytest.mark.parametrize("alike", [20.0, 60.0])
def test_strangers_are_as_noisy_as_the_prior_expects_or_as_known_rows_if_those_are_noisier(alike):
    by_prior = 1 - 2 / alike
    assert np.isclose(of_strangers(np.empty((0, 3)), alike), by_prior)
    assert np.isclose(of_strangers(np.full((4, 3), 1.5), alike), by_prior)
    assert np.isclose(of_strangers(np.array([[0.25, 1.0], [0.5, 1.0]]), alike), 1 / 2)  # mean of 4, 1, 2 and 1


def test_whoever_has_no_ratings_is_as_uncertain_with_features_as_without():
    """Known by features at the fit, by features later, or not at all; here features tell nothing."""
    rng = np.random.default_rng(0)
    pairs = np.argwhere(rng.random((40, 30)) < 0.7)
    y = np.clip(3 + rng.standard_normal(len(pairs)) * np.where(pairs[:, 0] % 2, 0.2, 1.0), 1, 5)
    features = {user: [float(user % 3)] for user in range(41)}
    model = BayesianMBMF(2, bounds=(1, 5), noise="own", max_iter=60, random_state=0)
    fitted = model.fit(pairs, y, user_features=features).fitted_
    known, stranger = fitted.users.steadiness[fitted.users.ids.codes(np.arange(40))], fitted.found["user_stranger"]
    assert np.isclose(stranger, 1 / np.mean(1 / known.astype(float)), rtol=1e-6)
    assert stranger < 1 - 2 / USERS_ALIKE
    assert np.allclose(fitted.users.steadiness[fitted.users.ids.codes([40])], stranger)
    assert np.allclose(model.fold_in(features={99: [1.0]}).fitted_.users.steadiness, stranger)
    of_pair = answers._steadiness(fitted, Pairs(np.array([-1]), np.array([0])))
    assert np.allclose(of_pair, stranger * fitted.items.steadiness[0])


def test_the_noise_of_new_rows_is_what_their_draws_would_be_on_average():
    rng, n, squares = np.random.default_rng(0), np.array([0.0, 3.0, 40.0]), np.array([0.0, 12.0, 20.0])
    draws = rng.gamma((5 + n) / 2, 2 / (5 + squares), (400_000, 3))
    mean, for_variances = expected(n, squares, 5.0)
    assert mean == pytest.approx(draws.mean(axis=0), rel=0.01)
    assert 1 / for_variances == pytest.approx((1 / draws).mean(axis=0), rel=0.02)
    assert for_variances[0] == (5 - 2) / 5  # as answers have it for somebody unknown
