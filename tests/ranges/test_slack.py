"""The map that leads predictions back into their range."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from boundrec.ranges.slack import STEEPEST, squash, unsquash

slacks = st.floats(1.0, STEEPEST - 0.5)


@given(slacks, st.lists(st.floats(-1, 1), min_size=2, max_size=50))
def test_it_is_strictly_increasing_and_stays_in_the_range(slack, shares):
    t = np.unique(np.round(np.array(shares), 6)) * slack
    y = squash(t, slack)
    assert np.all(np.abs(y) <= 1)
    assert np.all(np.diff(y) > 0)


@given(st.floats(1.01, STEEPEST - 0.5))
def test_the_ends_of_the_slack_go_to_the_ends_of_the_range_exactly(slack):
    assert squash(np.array([-slack, 0.0, slack]), slack).tolist() == [-1.0, 0.0, 1.0]
    assert squash(np.array([-slack * (1 + 1e-7), slack * (1 + 1e-7)]), slack).tolist() == [-1.0, 1.0]


@given(slacks, st.floats(-1, 1))
def test_it_turns_back(slack, share):
    t = np.array([share * slack])
    assert unsquash(squash(t, slack), slack) == pytest.approx(t, abs=1e-9 * slack)


@pytest.mark.parametrize("slack", [1.5, 2.0, 3.0, 10.0])
def test_it_is_smooth_where_it_begins_to_bend(slack):
    t = np.linspace(-slack, slack, 200_001)
    slope = np.gradient(squash(t, slack), t)
    assert np.abs(np.diff(slope)).max() < 1e-2
    assert slope.min() > 0.9 / STEEPEST**2


def test_without_slack_it_changes_nothing():
    t = np.linspace(-1, 1, 11)
    assert squash(t, 1.0) is t
