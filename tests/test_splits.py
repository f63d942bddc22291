import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
from boundrec import splits

seeds = st.integers(0, 2**32 - 1)


@st.composite
def entries(draw):
    """Distinct (user, item) cells with gaps in the codes, as a subset of a larger data set has them."""
    cells = draw(st.sets(st.tuples(st.integers(0, 9), st.integers(0, 7)), min_size=4, max_size=60))
    pairs = np.array(draw(st.permutations(sorted(cells)))) * (3, 5)
    return pairs[:, 0], pairs[:, 1]


def covers(mask, user, item):
    return set(user[mask]) == set(user) and set(item[mask]) == set(item)


def attempt(split, *arguments):
    try:
        return split(*arguments)
    except ValueError:
        return None


def naive_core(user, item, count):
    """Remove one poor entry at a time until there is none."""
    kept = list(zip(user.tolist(), item.tolist(), strict=True))
    while True:
        users, items = [u for u, _ in kept], [i for _, i in kept]
        poor = [e for e in kept if users.count(e[0]) < count or items.count(e[1]) < count]
        if not poor:
            return set(kept)
        kept.remove(poor[0])


@given(entries(), seeds)
def test_a_cover_has_every_user_and_item_and_at_most_one_entry_for_each(data, seed):
    user, item = data
    mask = splits.cover(user, item, seed)
    assert covers(mask, user, item)
    uncovered_after_users = len(set(user)) + len(set(item))
    assert max(len(set(user)), len(set(item))) <= mask.sum() < uncovered_after_users


def test_a_cover_takes_each_entry_of_a_user_equally_often():
    user, item = np.repeat([0, 1], 4), np.tile(np.arange(4), 2)
    rng = np.random.default_rng(5)
    firsts = np.zeros(4)
    for _ in range(2000):
        mask = splits.cover(user[:4], np.zeros(4, dtype=int), rng)
        firsts += mask[:4]
    assert firsts.sum() == 2000
    assert np.abs(firsts - 500).max() < 100  # five standard deviations of a binomial (2000, 1/4)
    assert covers(splits.cover(user, item, rng), user, item)


@given(entries(), seeds, st.data())
def test_the_present_has_the_quota_and_everybody_or_is_refused_when_the_cover_is_larger(data, seed, choice):
    user, item = data
    quota = choice.draw(st.integers(1, user.size - 1))
    present = attempt(splits.history_and_present, user, item, quota / user.size, seed)
    if present is None:
        assert splits.cover(user, item, seed).sum() > quota
    else:
        assert present.sum() == quota
        assert covers(present, user, item)


def test_a_dense_matrix_can_always_be_halved():
    user, item = (a.ravel() for a in np.indices((30, 20)))
    present = splits.history_and_present(user, item, random_state=3)
    assert present.sum() == 300
    assert covers(present, user, item)


def test_a_cover_larger_than_the_quota_is_refused_with_its_numbers_and_a_remedy():
    code = np.arange(10)
    with pytest.raises(ValueError, match=r"10 users and 10 items takes 10 of the 10 entries.*5 entries.*at_least"):
        splits.history_and_present(code, code)


@given(entries(), seeds, st.data())
def test_a_protected_hold_out_leaves_everybody_a_training_entry_or_is_refused(data, seed, choice):
    user, item = data
    quota = choice.draw(st.integers(1, user.size - 1))
    held = attempt(splits.hold_out, user, item, quota / user.size, seed)
    if held is None:
        assert user.size - quota < len(set(user)) + len(set(item)) - 1  # a cover is never larger than that
    else:
        assert held.sum() == quota
        assert covers(~held, user, item)


def test_a_hold_out_that_must_empty_a_row_is_refused():
    code = np.arange(10)
    with pytest.raises(ValueError, match="10 users and 10 items takes 10 of the 10 entries"):
        splits.hold_out(code, code, 0.2)


def test_the_spare_entries_are_found_even_when_only_they_can_be_held_out():
    # A long diagonal where every entry is the only one of its row, and one dense block at the end.
    user, item = (
        np.concatenate([np.arange(50), np.repeat([50, 51], 4)]),
        np.concatenate([np.arange(50), np.tile(50 + np.arange(4), 2)]),
    )
    held = splits.hold_out(user, item, 2 / 58, 1)
    assert held.sum() == 2
    assert not held[:50].any()
    assert covers(~held, user, item)


def test_an_unprotected_hold_out_may_empty_a_row_and_has_the_exact_size():
    code = np.arange(10)
    held = splits.hold_out(code, code, 0.2, protect=False)
    assert held.sum() == 2


def test_a_protected_hold_out_is_near_uniform_over_rows_of_different_length():
    user = np.repeat([0, 1], [4, 36])
    item = np.concatenate([np.arange(4), np.arange(36)])
    # A cover drawn first would keep a quarter of the short row and bias the test entries away from it.
    user, item = np.tile(user, 2) + 2 * (np.arange(80) >= 40), np.tile(item, 2)
    rng = np.random.default_rng(0)
    held = sum(splits.hold_out(user, item, 0.1, rng).astype(int) for _ in range(3000))
    rare = held[user % 2 == 0].sum() / held.sum()
    assert abs(rare - 8 / 80) < 0.01


@given(entries(), seeds)
def test_the_same_seed_gives_the_same_split_and_an_argument_is_left_as_it_was(data, seed):
    user, item = data
    before = user.copy(), item.copy()
    assert np.array_equal(splits.cover(user, item, seed), splits.cover(user, item, np.random.default_rng(seed)))
    first = list(splits.repeated_hold_out(user, item, 0.5, 2, seed, protect=False))
    again = list(splits.repeated_hold_out(user, item, 0.5, 2, seed, protect=False))
    assert np.array_equal(first, again)
    assert np.array_equal(user, before[0])
    assert np.array_equal(item, before[1])


def test_repeated_hold_outs_are_drawn_anew_from_all_entries():
    user, item = (a.ravel() for a in np.indices((20, 20)))
    folds = list(splits.repeated_hold_out(user, item))
    assert len(folds) == 5
    assert all(f.sum() == 40 and covers(~f, user, item) for f in folds)
    assert any((a & b).any() for a in folds for b in folds if a is not b)
    assert not any(np.array_equal(a, b) for a in folds for b in folds if a is not b)


@given(st.integers(2, 60), st.integers(2, 12), seeds)
def test_k_folds_are_a_partition_into_parts_of_nearly_equal_size(n_entries, n_folds, seed):
    n_folds = min(n_folds, n_entries)
    folds = np.array(list(splits.k_fold(n_entries, n_folds, seed)))
    assert (folds.sum(axis=0) == 1).all()
    assert np.ptp(folds.sum(axis=1)) <= 1


@given(entries(), st.integers(1, 4))
def test_the_core_is_what_remains_when_poor_entries_are_removed_one_at_a_time(data, count):
    user, item = data
    mask = splits.at_least(user, item, count)
    assert set(zip(user[mask].tolist(), item[mask].tolist(), strict=True)) == naive_core(user, item, count)


times = st.lists(st.integers(-3, 6), min_size=4, max_size=40)


@given(times, st.floats(0.2, 0.8))
def test_the_last_share_is_the_latest_entries_and_equal_times_go_by_position(time, share):
    mask = splits.last_share(time, share)
    assert set(np.flatnonzero(mask)) == naive.latest(time, round(share * len(time)))
    days = np.datetime64("2020-01-01") + np.array(time)
    assert np.array_equal(splits.last_share(days, share), mask)


@given(st.data())
def test_the_last_of_each_user_are_each_users_latest_and_never_all_of_them(data):
    time = np.array(data.draw(times))
    user = np.array(data.draw(st.lists(st.integers(-2, 3), min_size=time.size, max_size=time.size)))
    share, count = data.draw(
        st.one_of(st.tuples(st.floats(0.01, 0.99), st.none()), st.tuples(st.none(), st.integers(1, 5)))
    )
    mask = splits.last_of_each_user(user, time, share=share, count=count)
    for one in set(user):
        own = np.flatnonzero(user == one)
        wanted = count if share is None else round(share * own.size)
        assert set(np.flatnonzero(mask[own])) == naive.latest(time[own], min(wanted, own.size - 1))


@given(entries(), seeds)
def test_huge_and_negative_codes_are_renumbered_and_change_nothing_else(data, seed):
    user, item = data
    mask = splits.cover(user, item, seed)
    assert np.array_equal(splits.cover(user + 10**15, item - 10**15, seed), mask)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: splits.cover([], []), "has shape"),
        (lambda: splits.cover(np.array([], int), np.array([], int)), "no entries"),
        (lambda: splits.cover([0, 1], [0]), "2 users and 1 items"),
        (lambda: splits.cover(["a", "b"], [0, 1]), "user has shape"),
        (lambda: splits.cover([0, 1], [0.5, 1.5]), "item has shape"),
        (lambda: splits.hold_out([0, 0], [0, 1], 0.0), "share=0 of 2 entries is 0"),
        (lambda: splits.hold_out([0, 0], [0, 1], 1.0), "share=1 of 2 entries is 2"),
        (lambda: splits.history_and_present([0, 0], [0, 1], float("nan")), "share=nan"),
        (lambda: splits.k_fold(3, 4), "n_folds=4 is more than the 3 entries"),
        (lambda: splits.k_fold(3, 1), "n_folds=1 is too few"),
        (lambda: splits.repeated_hold_out([0, 0], [0, 1], n_folds=0), "n_folds=0 is too few"),
        (lambda: splits.last_share([]), "no entries"),
        (lambda: splits.last_share(["noon"]), "time has shape"),
        (lambda: splits.last_share([1, 2], 0.1), "share=0.1 of 2 entries is 0"),
        (lambda: splits.last_share([1, np.nan]), r"1 entries have no time \(first: entry 1\)"),
        (lambda: splits.last_share(np.array(["NaT", "2020"], "datetime64[D]")), "1 entries have no time"),
        (lambda: splits.last_of_each_user([0, 0], [1, 2]), "Pass one of them"),
        (lambda: splits.last_of_each_user([0, 0], [1, 2], share=0.5, count=1), "Pass one of them"),
        (lambda: splits.last_of_each_user([0, 0], [1, 2], count=0), "count=0 entries"),
        (lambda: splits.last_of_each_user([0, 0], [1, 2], share=1.0), "share=1.0 of each"),
        (lambda: splits.last_of_each_user([0, 0], [1], count=1), "2 users and 1 times"),
    ],
)
def test_bad_input_is_answered_in_a_sentence(call, message):
    with pytest.raises(ValueError, match=message):
        call()
