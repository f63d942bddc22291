import numpy as np
import pytest
import sklearn.metrics
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

import naive
from boundrec import metrics

ratings = st.floats(-10, 10, width=32)


@st.composite
def rated(draw):
    """Ratings, predictions and users of one length; coarse values, so that some equal their mean."""
    n = draw(st.integers(1, 40))
    grid = st.integers(-4, 4).map(lambda value: value / 2)
    y, p = draw(arrays(float, n, elements=grid)), draw(arrays(float, n, elements=grid))
    return y, p, draw(arrays(np.int64, n, elements=st.integers(0, 4)))


def naive_f1(y, p, user, mean, average):
    """Count by user in plain loops; precision and recall as in the textbook."""
    counts = {}
    for rating, prediction, u in zip(y, p, user, strict=True):
        who = u if average == "macro" else "all"
        tp, fp, fn = counts.get(who, (0, 0, 0))
        liked, recommended = rating > mean[u], prediction > mean[u]
        counts[who] = (
            tp + (liked and recommended),
            fp + (recommended and not liked),
            fn + (liked and not recommended),
        )
    scores = []
    for tp, fp, fn in counts.values():
        if average == "macro" and tp + fn == 0:
            continue
        precision = tp / (tp + fp) if tp + fp else 0.0
        recall = tp / (tp + fn) if tp + fn else 0.0
        scores.append(2 * precision * recall / (precision + recall) if precision + recall else 0.0)
    return sum(scores) / len(scores) if scores else 0.0


def naive_tie_share(scores, n):
    tied = 0
    for row in scores.tolist():
        top = sorted(row, reverse=True)[:n]
        tied += sum(top.count(score) > 1 for score in top)
    return tied / (len(scores) * n)


def test_errors_of_a_small_example_are_those_worked_by_hand():
    assert metrics.rmse([1, 2, 5], [1, 4, 4]) == pytest.approx(np.sqrt(5 / 3))
    assert metrics.mae([1, 2, 5], [1, 4, 4]) == pytest.approx(1)


@given(rated())
def test_errors_agree_with_scikit_learn(data):
    y, p, _ = data
    assert metrics.rmse(y, p) == pytest.approx(sklearn.metrics.root_mean_squared_error(y, p))
    assert metrics.mae(y, p) == pytest.approx(sklearn.metrics.mean_absolute_error(y, p))
    assert metrics.mae(y, p) <= metrics.rmse(y, p) + 1e-12


def test_single_precision_ratings_are_averaged_in_double_precision():
    y = np.full(2_000_000, 0.1, dtype=np.float32)
    assert metrics.mae(y, np.zeros_like(y)) == pytest.approx(float(np.float32(0.1)), rel=1e-12)


def test_a_user_without_ratings_has_the_mean_of_all_ratings():
    means = metrics.user_means([0, 0, 2], [1, 2, 6], 4)
    assert means.tolist() == [1.5, 3, 6, 3]


def test_f1_of_a_small_example_is_that_worked_by_hand():
    user, mean = np.array([0, 0, 0, 1, 1]), np.array([3.0, 2.0])
    y = [4, 2, 5, 3, 2]  # liked: yes no yes | yes no (2 is not above a mean of 2)
    p = [5, 4, 1, 1, 3]  # recommended: yes yes no | no yes
    assert metrics.f1(y, p, user, mean[user]) == pytest.approx(2 * 1 / (3 + 3))
    assert metrics.f1(y, p, user, mean[user], average="macro") == pytest.approx((0.5 + 0) / 2)
    assert metrics.f1(y, p, user, {0: 3.0, 1: 2.0}) == metrics.f1(y, p, user, mean[user])


@given(rated(), st.sampled_from(["micro", "macro"]))
def test_f1_agrees_with_counting_in_plain_loops(data, average):
    y, p, user = data
    mean = metrics.user_means(user, y, 5)
    score = metrics.f1(y, p, user, mean[user], average=average)
    assert score == pytest.approx(naive_f1(y, p, user, mean, average))
    assert score == pytest.approx(metrics.f1(y, p, user, dict(enumerate(mean)), average=average))


@given(rated())
def test_micro_f1_agrees_with_scikit_learn(data):
    y, p, user = data
    mean = metrics.user_means(user, y, 5)[user]
    oracle = sklearn.metrics.f1_score(y > mean, p > mean, zero_division=0)
    assert metrics.f1(y, p, user, mean) == pytest.approx(oracle)


def test_f1_is_zero_where_it_is_undefined():
    for average in ("micro", "macro"):
        assert metrics.f1([1, 1], [1, 1], [0, 1], [1, 1], average=average) == 0
        assert metrics.f1([1, 1], [2, 2], [0, 1], [1, 1], average=average) == 0
        assert metrics.f1([2, 2], [1, 1], [0, 1], [1, 1], average=average) == 0


def test_macro_f1_skips_users_who_liked_nothing():
    assert metrics.f1([2, 1], [2, 2], ["a", "b"], {"a": 1, "b": 1}, average="macro") == 1
    assert metrics.f1([2, 1], [2, 2], ["a", "b"], {"a": 1, "b": 1}) == pytest.approx(2 / 3)


def test_predictions_may_have_a_threshold_of_their_own():
    # Predictions that are all too high but in the right order: perfect against their own mean.
    y, p, user = np.array([1.0, 3.0]), np.array([7.0, 9.0]), np.array([0, 0])
    assert metrics.f1(y, p, user, [2, 2]) == pytest.approx(2 / 3)
    assert metrics.f1(y, p, user, [2, 2], predicted_mean={0: 8.0}) == 1


def test_variation_of_a_small_example_is_that_worked_by_hand():
    mean, maximum = metrics.variation([[1, 5, 3], [3, 5, 7]])
    assert (mean, maximum) == (pytest.approx((1 + 0 + 2) / 3), 2)


@given(arrays(float, array_shapes(min_dims=2, max_dims=3, min_side=2, max_side=5), elements=ratings))
def test_variation_is_zero_for_equal_restarts_and_does_not_see_a_shift_of_all(predictions):
    assert metrics.variation(np.broadcast_to(predictions[:1], predictions.shape)) == pytest.approx((0, 0), abs=1e-12)
    mean, maximum = metrics.variation(predictions)
    naive = [np.sqrt(np.mean((c - c.mean()) ** 2)) for c in predictions.reshape(len(predictions), -1).T]
    assert mean == pytest.approx(np.mean(naive), abs=1e-9)
    assert maximum == pytest.approx(max(naive), abs=1e-9)
    assert metrics.variation(predictions + 3) == pytest.approx((mean, maximum), abs=1e-9)


def test_the_ends_of_a_range_are_inside_it():
    p = [0.9, 1, 3, 5, 5.1]
    assert metrics.out_of_range_share(p, 1, 5) == pytest.approx(0.4)
    assert metrics.out_of_range_share(p, None, 5) == pytest.approx(0.2)
    assert metrics.out_of_range_share(p, 1, None) == pytest.approx(0.2)
    assert metrics.out_of_range_share(p, None, None) == 0
    assert metrics.out_of_range_share(p, [0, 2, 0, 0, 0], 6) == pytest.approx(0.2)
    assert metrics.out_of_range_share([[0, 9], [0, 9]], [[1], [-1]], np.inf) == pytest.approx(0.25)


def test_coverage_counts_ratings_inside_their_own_range_and_width_is_its_mean():
    assert metrics.coverage_and_width([1, 2, 5], [0, 3, 4], [2, 4, 5]) == pytest.approx((2 / 3, 4 / 3))
    assert metrics.coverage_and_width([1, 5], 1, 5) == (1.0, 4.0)
    assert metrics.coverage_and_width([-1, 5], 0, np.inf) == (0.5, np.inf)
    assert metrics.coverage_and_width([5, 5.001], 1, 5 - 1e-12)[0] == 0.5  # rounding, and more than that


def test_ties_of_a_small_example_are_those_counted_by_hand():
    scores = [[5, 5, 4, 1], [5, 4, 3, 3], [2, 2, 2, 2]]
    assert metrics.tie_share(scores) == pytest.approx((2 + 2 + 4) / 12)
    assert metrics.tie_share(scores, 2) == pytest.approx((2 + 0 + 2) / 6)
    assert metrics.tie_share(scores, 1) == 0


@given(st.data())
def test_ties_agree_with_counting_in_plain_loops(data):
    scores = data.draw(arrays(float, array_shapes(min_dims=2, max_dims=2, max_side=6), elements=st.integers(0, 5)))
    n = data.draw(st.integers(1, scores.shape[1]))
    assert metrics.tie_share(scores, n) == pytest.approx(naive_tie_share(scores, n))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: metrics.rmse([], []), "y is empty"),
        (lambda: metrics.rmse([1, 2], [1]), "2 ratings and 1 predictions"),
        (
            lambda: metrics.mae([1, 2], [1, np.nan]),
            r"p has 1 values that are NaN or infinite \(first: nan at 1\)",
        ),
        (lambda: metrics.mae([1, np.inf], [1, 2]), "y has 1 values"),
        (lambda: metrics.mae([[1], [2]], [1, 2]), r"y has shape \(2, 1\).*1 dimension\."),
        (lambda: metrics.f1([1], [1], [0, 1], [1]), "Pass the user of every entry"),
        (lambda: metrics.f1([1, 2], [1, 2], [0, 1], [1]), r"user_means\(...\)\[user\]"),
        (lambda: metrics.f1([1, 2], [1, 2], [0, 1], {0: 1}), r"1 users are not in user_mean \(first: 1\)"),
        (lambda: metrics.f1([1], [1], [0], [1], average="binary"), "average='binary' is not known"),
        (lambda: metrics.user_means([0, 5], [1, 2], 3), "User code 5 does not fit n_users=3"),
        (lambda: metrics.user_means([0, -1], [1, 2], 3), "one integer code from 0 per rating"),
        (lambda: metrics.user_means([0], [1, 2], 3), "for 2 ratings"),
        (lambda: metrics.variation([[1, 2]]), "at least two"),
        (lambda: metrics.variation([1, 2]), "one row per restart"),
        (lambda: metrics.variation([[1, np.nan], [1, 2]]), r"first: nan at 0, 1"),
        (lambda: metrics.out_of_range_share([1, 2], [1, 2, 3], None), r"lower has shape \(3,\)"),
        (lambda: metrics.out_of_range_share([1, 2], None, np.nan), "upper has NaN"),
        (lambda: metrics.coverage_and_width([1, 2], [0, 3], [1, 2]), "1 ranges begin above.*3 to 2 at 1"),
        (lambda: metrics.coverage_and_width([1, 2], [0, 3, 1], 5), r"lower has shape \(3,\) and what it bounds"),
        (lambda: metrics.tie_share([[1, 2]], 3), "n=3 does not fit lists of 2 scores"),
        (lambda: metrics.tie_share([1, 2]), "2 dimensions"),
    ],
)
def test_bad_input_is_answered_in_a_sentence(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# --- ranking --------------------------------------------------------------------------------------------------

MEASURES = (
    metrics.ndcg_at_k,
    metrics.recall_at_k,
    metrics.precision_at_k,
    metrics.mrr,
    metrics.map_at_k,
    metrics.hit_rate,
)


@st.composite
def held_out_and_lists(draw):
    """Held-out items with gains, top lists of some users, in mixed ids, and k from 1 to past their ends."""
    items = ["tea", "rum", 3, "3", (1, 2), 2.5]
    users = ["ann", "bob", 7, "7"]
    gains = st.dictionaries(st.sampled_from(items), st.integers(0, 3), min_size=1)
    held_out = draw(st.dictionaries(st.sampled_from(users), gains, min_size=1))
    length = draw(st.integers(1, len(items)))
    lists = {user: draw(st.permutations(items))[:length] for user in draw(st.permutations(users))}
    for user in users:
        if user not in held_out and draw(st.booleans()):
            del lists[user]
    if len(held_out) > 1 and draw(st.booleans()):
        del lists[next(iter(held_out))]
    return held_out, lists, draw(st.integers(1, length + 2))


def as_arrays(held_out, lists):
    pairs = [(user, item) for user, gains in held_out.items() for item in gains]
    return [u for u, _ in pairs], [i for _, i in pairs], list(lists), list(lists.values())


@given(held_out_and_lists())
def test_ranking_measures_agree_with_plain_loops_for_ids_of_any_kind(data):
    held_out, lists, k = data
    arrays = as_arrays(held_out, lists)
    gain = [g for gains in held_out.values() for g in gains.values()]
    by_user = naive.ranking(held_out, lists, k)
    oracle = naive.means_of_users(by_user)
    if oracle[0] is None:
        with pytest.raises(ValueError, match="Every gain is 0"):
            metrics.ndcg_at_k(*arrays, k, gain=gain)
    else:
        assert metrics.ndcg_at_k(*arrays, k, gain=gain) == pytest.approx(oracle[0])
    found = [measure(*arrays, k) for measure in MEASURES[1:]]
    assert found == pytest.approx(oracle[1:])
    of_users = zip(*metrics.measure_lists(*arrays, k, gain=gain), strict=True)
    for user, figures in zip(lists, of_users, strict=True):
        expected = [np.nan if one is None else one for one in by_user.get(user, [None] * 6)]
        assert list(figures) == pytest.approx(expected, nan_ok=True)


@given(st.integers(1, 6), st.integers(2, 8), st.integers(1, 10), st.integers(0, 2**32 - 1))
def test_ndcg_of_lists_by_score_agrees_with_scikit_learn_where_no_scores_tie(n_users, n_items, k, seed):
    rng = np.random.default_rng(seed)
    gain = rng.integers(0, 4, (n_users, n_items)).astype(float)
    gain[:, 0] += 1  # scikit-learn gives users without a gain 0; here they are left out
    score = rng.permutation(gain.size).reshape(gain.shape).astype(float)
    user, item = (codes.ravel() for codes in np.indices(gain.shape))
    users, lists = metrics.lists_by_score(user, item, score.ravel())
    ours = metrics.ndcg_at_k(user, item, users, lists, k, gain=gain.ravel())
    assert ours == pytest.approx(sklearn.metrics.ndcg_score(gain, score, k=k))


@given(held_out_and_lists(), st.randoms(use_true_random=False))
def test_ranking_measures_do_not_see_the_order_of_users_or_pairs_nor_items_behind_k(data, random):
    held_out, lists, k = data
    shuffled = {user: held_out[user] for user in random.sample(list(held_out), len(held_out))}
    cut = {user: lists[user][:k] for user in random.sample(list(lists), len(lists))}
    for measure in MEASURES:
        whole = measure(*as_arrays(held_out, lists), k)
        assert 0 <= whole <= 1
        assert measure(*as_arrays(shuffled, cut), k) == pytest.approx(whole)


@given(held_out_and_lists())
def test_the_best_order_has_ndcg_and_mrr_of_one_and_recall_never_falls_with_k(data):
    held_out, _, _ = data
    pairs = as_arrays(held_out, {})[:2]
    gain = np.array([g + 1 for gains in held_out.values() for g in gains.values()])
    best = metrics.lists_by_score(*pairs, gain)
    for k in (1, 2, 6):
        assert metrics.ndcg_at_k(*pairs, *best, k, gain=gain) == pytest.approx(1)
    assert metrics.mrr(*pairs, *best) == 1
    assert metrics.hit_rate(*pairs, *best) == 1
    assert metrics.map_at_k(*pairs, *best, 2) == pytest.approx(1)
    recall = [metrics.recall_at_k(*pairs, *best, k) for k in range(1, 7)]
    assert np.all(np.diff(recall) >= 0)
    assert recall[-1] == 1


def test_ranking_measures_of_a_small_example_are_those_worked_by_hand():
    user, item = ["ann", "ann", "bob"], ["tea", "gin", "rum"]
    users, lists = ["ann", "bob", "eve"], [["rum", "tea", None], ["gin", "tea", None], ["tea", "gin", "rum"]]
    assert metrics.recall_at_k(user, item, users, lists, 2) == pytest.approx((1 / 2 + 0) / 2)
    assert metrics.precision_at_k(user, item, users, lists, 2) == pytest.approx((1 / 2 + 0) / 2)
    assert metrics.precision_at_k(user, item, users, lists, 4) == pytest.approx((1 / 4 + 0) / 2)
    assert metrics.mrr(user, item, users, lists) == pytest.approx((1 / 2 + 0) / 2)
    assert metrics.map_at_k(user, item, users, lists) == pytest.approx((1 / 2 / 2 + 0) / 2)
    assert metrics.hit_rate(user, item, users, lists) == 1 / 2
    ndcg = (1 / np.log2(3)) / (1 + 1 / np.log2(3))
    assert metrics.ndcg_at_k(user, item, users, lists) == pytest.approx((ndcg + 0) / 2)


def test_equal_scores_stay_in_the_order_of_the_pairs_and_short_lists_are_padded():
    users, lists = metrics.lists_by_score(["b", "a", "b", "b"], [1, 2, 3, 4], [1.0, 1.0, 2.0, 1.0])
    assert users.tolist() == ["b", "a"]
    assert lists.tolist() == [[3, 1, 4], [2, None, None]]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: metrics.mrr([1], [1], [1], [1]), r"lists has shape \(1,\)"),
        (lambda: metrics.mrr([1], [1], [1], [[]]), r"lists has shape \(1, 0\)"),
        (lambda: metrics.mrr([1], [1], [1], [[1]], 0), "k=0 places"),
        (lambda: metrics.mrr([1], [1], [1], [[1]], 1.5), "k=1.5 places"),
        (lambda: metrics.mrr([], [], [1], [[1]]), "user is empty"),
        (lambda: metrics.mrr([1], [1, 2], [1], [[1]]), "item has 2 ids where 1 are needed"),
        (lambda: metrics.mrr(np.array([[1]]), [1], [1], [[1]]), r"user has shape \(1, 1\)"),
        (lambda: metrics.mrr([1], [1], [1, 2], [[1]]), "users has 2 ids where 1 are needed"),
        (lambda: metrics.mrr([1], [1], [1, 1], [[1], [2]]), "2 lists of 1 users"),
        (lambda: metrics.mrr([1], [1], [2], [[1]]), "No list belongs to a user with held-out items"),
        (lambda: metrics.mrr([1, 1], [1, 1], [1], [[1]]), "held out more than once"),
        (lambda: metrics.mrr([1], [1], [1], [[1, 1]]), "in a list more than once"),
        (lambda: metrics.ndcg_at_k([1], [1], [1], [[1]], gain=[-1]), "1 gains, the least -1"),
        (lambda: metrics.ndcg_at_k([1], [1], [1], [[1]], gain=[1, 2]), "1 held-out pairs and 2 gains"),
        (lambda: metrics.lists_by_score([1], [1, 2], [1.0, 2.0]), "user has 1 ids where 2 are needed"),
    ],
)
def test_bad_lists_are_answered_in_a_sentence(call, message):
    with pytest.raises(ValueError, match=message):
        call()
