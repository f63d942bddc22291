"""What a model whose pairs have ranges of their own says of them."""

import numpy as np
import pytest

from boundrec import MBMF, BayesianMBMF

RNG = np.random.default_rng(0)
X = np.argwhere(RNG.random((30, 20)) < 0.5)
LOWER = np.round(RNG.normal(0, 10, len(X)), 3)
UPPER = LOWER + RNG.uniform(0.1, 1000, len(X))
Y = LOWER + RNG.beta(2, 2, len(X)) * (UPPER - LOWER)


@pytest.mark.parametrize("model", [MBMF(4, random_state=0), BayesianMBMF(4, max_iter=10, burn_in=5, random_state=0)])
def test_a_range_is_told_as_it_was_declared_to_the_last_bit(model):
    model.fit(X, Y, lower=LOWER, upper=UPPER)
    lower, upper = model.predict_range(X, lower=LOWER, upper=UPPER)
    np.testing.assert_array_equal(lower, LOWER)
    np.testing.assert_array_equal(upper, UPPER)


def test_how_noise_grows_is_told_as_given_or_as_learnt_and_not_where_pairs_share_a_range():
    settings = {"n_factors": 4, "random_state": 0}
    assert MBMF(noise_growth=0.25, **settings).fit(X, Y, lower=LOWER, upper=UPPER).noise_growth_ == 0.25
    assert 0 <= MBMF(**settings).fit(X, Y, lower=LOWER, upper=UPPER).noise_growth_ <= 1
    assert MBMF(bounds=(LOWER.min(), UPPER.max()), **settings).fit(X, Y).noise_growth_ is None


def test_noise_that_grows_in_proportion_is_found_to():
    noisy = LOWER + (UPPER - LOWER) * np.clip(0.5 + RNG.normal(0, 0.1, len(X)), 0, 1)
    for model in (MBMF(2, random_state=0), BayesianMBMF(2, random_state=0)):
        assert model.fit(X, noisy, lower=LOWER, upper=UPPER).noise_growth_ > 0.8
