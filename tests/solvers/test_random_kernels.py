"""Normal numbers from layers, against the distribution they are to have."""

import numpy as np
from scipy import stats

from boundrec.solvers import random_kernels as kernels


def numbers(seed, n):
    state, out = np.array([seed], np.uint64), np.empty(n)
    kernels.fill_normal(state, out)
    return out


def test_layers_have_the_same_area_each_and_fill_the_density():
    edges, heights = kernels._layers()
    areas = edges[1:-1] * np.diff(heights)[1:]
    below = kernels._TAIL * np.exp(-0.5 * kernels._TAIL**2) + np.sqrt(2 * np.pi) * stats.norm.sf(kernels._TAIL)
    assert np.allclose(areas, below, rtol=1e-6)
    assert np.allclose(edges[0] * heights[1], below)
    assert edges[-1] == 0
    assert heights[-1] == 1


def test_numbers_have_the_normal_distribution_in_the_middle_and_in_the_tails():
    x = numbers(1, 1_000_000)
    assert stats.kstest(x, "norm").pvalue > 1e-4
    counts = np.histogram(x, stats.norm.ppf(np.linspace(0, 1, 1001)))[0]
    assert stats.chisquare(counts).pvalue > 1e-4
    for far in (3.0, kernels._TAIL, 4.0):
        for side in (x, -x):
            assert stats.binomtest(int((side > far).sum()), x.size, stats.norm.sf(far)).pvalue > 1e-4
    beyond = x[np.abs(x) > kernels._TAIL]
    assert stats.kstest(np.abs(beyond), stats.truncnorm(kernels._TAIL, np.inf).cdf).pvalue > 1e-4


def test_numbers_do_not_depend_on_each_other():
    x = numbers(2, 200_000)
    for lag in (1, 2, 7):
        assert abs(stats.pearsonr(x[:-lag], x[lag:]).statistic) < 4 / np.sqrt(x.size)
        assert abs(stats.pearsonr(x[:-lag] ** 2, x[lag:] ** 2).statistic) < 4 / np.sqrt(x.size)


def test_a_stream_goes_on_where_it_was():
    state, parts = np.array([5], np.uint64), [np.empty(300), np.empty(0), np.empty(500)]
    for part in parts:
        kernels.fill_normal(state, part)
    assert np.array_equal(np.concatenate(parts), numbers(5, 800))
