"""Bounds, magnitudes and contradictions; the paper's worked examples among them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
from boundrec import MBMF, Ratings
from boundrec.ranges import check_bounds, frame_for
from boundrec.ranges.contradictions import contradictions
from boundrec.ranges.magnitudes import historical_magnitudes

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

PAIRS = [("a", "x"), ("a", "y"), ("b", "x"), ("b", "y"), ("c", "x")]


def fit(y, X=PAIRS, history=None, **settings):
    return MBMF(2, max_iter=2, random_state=0, **settings).fit(X, y, history=history)


# --- the paper's worked examples ----------------------------------------------------------------------------


def test_the_range_one_to_five_gives_magnitudes_of_root_two_in_form_c_and_root_five_in_form_n():
    y = [1, 2, 3, 4, 5]
    centred, shifted = fit(y, bounds=(1, 5), form="c"), fit(y, bounds=(1, 5), form="n")
    assert np.allclose(centred.user_magnitudes_, np.sqrt(2))
    assert np.allclose(centred.item_magnitudes_, np.sqrt(2))
    assert np.allclose(shifted.user_magnitudes_, np.sqrt(5))
    assert np.allclose(shifted.item_magnitudes_, np.sqrt(5))
    assert np.ravel(centred.predict_range(PAIRS[:1])).tolist() == [1.0, 5.0]
    assert np.allclose(np.ravel(shifted.predict_range(PAIRS[:1])), (-5.0, 5.0))


def test_five_against_magnitudes_one_and_two_is_a_contradiction_for_centring_of_type_two():
    magnitudes = ({"a": 1.0}, {"x": 2.0})
    with pytest.raises(ValueError, match=r"1 of 1 ratings lie outside .*user 'a', item 'x': 5 > 4.*widen.*drop"):
        fit([5], X=[("a", "x")], bounds=(0, None), magnitudes=magnitudes, on_contradiction="raise")
    with pytest.warns(UserWarning, match="n_factors"):  # one user and one item determine no two factors
        assert fit([4], X=[("a", "x")], bounds=(0, None), magnitudes=magnitudes).infeasible_share_ == 0.0


def test_one_historical_rating_of_one_makes_no_magnitude_of_one_unless_it_has_all_the_weight():
    past = ([("a", "x"), ("b", "x"), ("b", "y"), ("b", "z")], [1, 5, 4, 5])
    X = [("a", "x"), ("a", "y"), ("a", "z"), ("b", "x")]
    strict = fit([1, 1, 1, 2], X, past, bounds=(0, None), form="n", history_share=1 / 3)  # one of three items
    mild = fit([1, 1, 1, 2], X, past, bounds=(0, None), form="n", history_share=1.0)
    assert strict.user_magnitudes_[0] == pytest.approx(1.0)
    assert mild.user_magnitudes_[0] > 1.5


def test_centring_of_type_one_turns_one_to_five_into_minus_two_to_two():
    ratings = Ratings.read(PAIRS, [1, 2, 3, 4, 5])
    frame = frame_for((1, 5), "c", 1.0)
    assert (ratings.by_user.data - frame.offset).tolist() == [-2, -1, 0, 1, 2]


# --- types and forms ----------------------------------------------------------------------------------------

TYPES = {"both": (-1.0, 4.0), "lower": (-1.0, None), "upper": (None, 4.0), "none": None, "positive": (0.5, 4.0)}


@pytest.mark.parametrize("form", ["c", "n"])
@pytest.mark.parametrize("bounds", TYPES.values(), ids=TYPES)
@given(st.integers(0, 1000), st.sampled_from(["auto", "history"]))
def test_every_range_guards_the_declared_ends_its_form_promises(bounds, form, seed, magnitudes):
    rng = np.random.default_rng(seed)
    X = [(u, i) for u in range(4) for i in range(5)]
    low, high = check_bounds(bounds)
    y = rng.uniform(-1.0 if low is None else low, 4.0 if high is None else high, len(X))
    model = MBMF(2, bounds=bounds, form=form, magnitudes=magnitudes, on_contradiction="widen", max_iter=1).fit(X, y)
    everything = [(u, i) for u in [*range(4), "new"] for i in [*range(5), "new"]]
    prediction, lower, upper = model.predict(everything, return_range=True)
    assert np.all((lower <= prediction) & (prediction <= upper))
    if high is not None and (form == "c" or low is not None):
        assert np.all(upper <= high)
    if low is not None and form == "c":
        assert np.all(lower >= low)
    assert not contradictions(Ratings.read(X, y), model.fitted_.ranges).any()


@pytest.mark.parametrize(
    ("bounds", "offset", "limit"),
    [((1, 5), 0.0, 5.0), ((0, 5), 0.0, 5.0), ((-10, 10), -10.0, 20.0), ((-7, -1), -7.0, 6.0)],
)
def test_form_n_shifts_only_data_that_may_be_negative(bounds, offset, limit):
    frame = frame_for(bounds, "n", 0.0)
    assert (frame.offset, frame.limit) == (offset, limit)


def test_type_two_mirrored_gives_mirrored_predictions():
    y = np.array([0.5, 3.0, 1.0, 2.0, 0.0])
    up, down = fit(y, bounds=(0, None)), fit(-y, bounds=(None, 0))
    assert np.allclose(up.user_magnitudes_, down.user_magnitudes_)
    lower, upper = up.predict_range(PAIRS)
    mirrored = down.predict_range(PAIRS)
    assert np.allclose((lower, upper), (-mirrored[1], -mirrored[0]))


def test_without_bounds_form_c_covers_the_data_around_zero_and_form_n_from_its_minimum():
    y = [-3.0, 1.0, 2.0, 0.0, 1.5]
    assert np.allclose(fit(y, form="c").predict_range(PAIRS), np.array([[-3.0] * 5, [3.0] * 5]))
    lower, upper = fit(y, form="n").predict_range(PAIRS)
    assert np.allclose(upper, 2.0)
    assert np.allclose(lower, -8.0)


def test_one_sided_bounds_have_no_range_and_the_error_says_what_to_do():
    with pytest.raises(ValueError, match='magnitudes="history"'):
        fit([1, 2, 3, 4, 5], bounds=(0, None), magnitudes="range")


def test_one_sided_bounds_of_too_few_ratings_take_their_magnitudes_from_these():
    y = [1, 2, 3, 4, 50]
    automatic, explicit = fit(y, bounds=(0, None)), fit(y, bounds=(0, None), magnitudes="history")
    assert np.array_equal(automatic.user_magnitudes_, explicit.user_magnitudes_)
    assert len(set(automatic.user_magnitudes_)) > 1


def test_one_sided_bounds_of_more_ratings_leave_the_fit_around_the_data():
    X = [(user, item) for user in range(6) for item in range(4)]
    y = [1.0 + (user * item) % 5 for user, item in X]
    model = MBMF(2, bounds=(0, None), max_iter=2, random_state=0).fit(X, y)
    lower, upper = model.predict_range(X)
    assert len(set(model.user_magnitudes_)) == 1
    assert lower.min() >= 0
    assert upper == pytest.approx(np.full(24, np.mean(y) + 1.5 * 2.5 * np.std(y)))


# --- history ------------------------------------------------------------------------------------------------


@given(st.integers(0, 10_000), st.floats(0.05, 1.0), st.one_of(st.none(), st.floats(0.5, 20)))
def test_historical_magnitudes_equal_the_papers_equations_in_loops(seed, share, count):
    rng = np.random.default_rng(seed)
    mask = rng.random((5, 7)) < 0.4
    mask[0, 0] = True
    users, items = np.nonzero(mask)
    values = rng.uniform(0, 5, len(users))
    present = Ratings.read([(u, i) for u in range(5) for i in range(7)], np.ones(35))
    past = Ratings.read(np.column_stack([users, items]), values)
    frame = frame_for((0, None), "n", values.min())
    ranges = historical_magnitudes(frame, present, past, share, count, cap=True)
    floor = 1e-3 * ranges.unknown_user
    assert np.allclose(ranges.user, np.maximum(naive.history_magnitudes(users, values, 5, 7, share, count), floor))
    assert np.allclose(ranges.item, np.maximum(naive.history_magnitudes(items, values, 7, 5, share, count), floor))


@pytest.mark.parametrize("form", ["c", "n"])
def test_declared_bounds_cap_historical_magnitudes_but_not_the_papers_own(form):
    y = [5, 1, 5, 1, 5]  # mean + standard deviation pass the largest rating
    settings = {"bounds": (0, 5), "form": form, "history_share": 0.5, "on_contradiction": "widen"}
    with pytest.warns(UserWarning, match="n_factors"):
        capped = fit(y, X=[("a", i) for i in range(5)], magnitudes="history", **settings)
    with pytest.warns(UserWarning, match="n_factors"):
        published = fit(
            y, X=[("a", i) for i in range(5)], history=([("a", i) for i in range(5)], y), magnitudes="paper", **settings
        )
    assert capped.predict_range([("a", 0)])[1][0] <= 5.0
    assert published.user_magnitudes_[0] > capped.user_magnitudes_[0]
    assert published.predict_range([("a", 0)])[1][0] > 5.0  # the range tells the truth about uncapped magnitudes


def test_form_c_measures_history_from_the_centre():
    past = ([("a", "x"), ("a", "y"), ("b", "x"), ("b", "y")], [3, 3, 1, 5])
    with pytest.warns(UserWarning, match="outside their own range"):
        model = fit([1, 2, 3, 4, 5], history=past, bounds=(1, 5), history_share=0.1)
    calm, wild, unknown = model.user_magnitudes_
    assert wild == pytest.approx(np.sqrt(2))  # |v − 3| is always 2
    assert calm == pytest.approx(1e-3 * unknown)  # always in the middle: floored, not zero
    assert unknown == pytest.approx(np.sqrt(2))  # no history: 1 + 1 overall, capped at (5 − 1)/2


def test_history_of_strangers_is_refused():
    with pytest.raises(ValueError, match=r"history shares no user and no item.*'p'.*'a'"):
        fit([1, 2, 3, 4, 5], history=([("p", "q")], [3]), bounds=(1, 5))


@pytest.mark.parametrize(
    ("history", "sentence"),
    [
        ((PAIRS, [1, 2]), "X has 5 rows but y has 2"),
        ((PAIRS, [1, 2, 3, 4, 9]), "outside the declared bounds"),
        ((PAIRS, [1, 2, 3, 4, np.nan]), "NaN"),
        ((PAIRS, [1, 2, 3, 4, 5], "more"), "history has 3 parts"),
        ((PAIRS,), "y is missing"),
    ],
)
def test_history_that_does_not_fit_is_refused_in_a_sentence(history, sentence):
    with pytest.raises(ValueError, match=sentence):
        fit([1, 2, 3, 4, 5], history=history, bounds=(1, 5))


# --- given magnitudes ---------------------------------------------------------------------------------------

USERS, ITEMS = {"a": 1.0, "b": 0.5, "c": 2.0}, {"x": 1.0, "y": 0.7}


def test_given_magnitudes_follow_the_ids():
    with pytest.warns(UserWarning, match="outside their own range"):
        model = fit([1, 2, 3, 4, 5], bounds=(1, 5), magnitudes=(USERS, ITEMS))
    assert model.user_magnitudes_.tolist() == [1.0, 0.5, 2.0]
    lower, upper = model.predict_range([("b", "y")])
    assert (lower[0], upper[0]) == pytest.approx((3 - 0.35, 3 + 0.35))


@pytest.mark.parametrize(
    ("magnitudes", "error", "sentence"),
    [
        (({**USERS, "b": 0.0}, ITEMS), ValueError, "1 user magnitudes are not positive.*user 'b': 0"),
        ((USERS, {**ITEMS, "y": -1}), ValueError, "item 'y': -1"),
        (({**USERS, "b": np.nan}, ITEMS), ValueError, "user 'b': nan"),
        (({1: 1.0}, ITEMS), ValueError, "know none of the 3 users.*first id is 1, that of the ratings 'a'"),
        (({"a": 0.0}, ITEMS), ValueError, "1 user magnitudes are not positive.*user 'a': 0"),
        (({"c": 9.0}, ITEMS), ValueError, r"9 \(user 'c'\) and 1 \(item 'x'\), multiply to 9, past the 2"),
        ((USERS, "auto"), ValueError, "items have 'auto'; give them a mapping.*'range', 'history'"),
        ((USERS, ITEMS, ITEMS), ValueError, "pair"),
        (USERS, ValueError, "pair"),
        ((USERS, [1.0, 2.0]), TypeError, "mapping id -> magnitude"),
        (({**USERS, "c": 9.0}, ITEMS), ValueError, "multiply to 9, past the 2"),
        (3.0, ValueError, "pair"),
        ("wide", ValueError, "magnitudes='wide'"),
    ],
)
def test_magnitudes_without_sense_are_refused_in_a_sentence(magnitudes, error, sentence):
    with pytest.raises(error, match=sentence):
        fit([1, 2, 3, 4, 5], bounds=(1, 5), magnitudes=magnitudes)


def test_arrays_of_magnitudes_go_with_ratings_and_must_have_their_length():
    ratings = Ratings.read(PAIRS, [2, 3, 3, 4, 4])
    model = MBMF(2, bounds=(1, 5), magnitudes=(np.full(3, 1.4), np.full(2, 1.4)), max_iter=1).fit(ratings)
    assert model.user_magnitudes_.tolist() == [1.4] * 3
    with pytest.raises(ValueError, match=r"shape \(2,\): there are 3 users"):
        MBMF(2, bounds=(1, 5), magnitudes=(np.ones(2), np.ones(2))).fit(ratings)


# --- partial mappings, and a rule for each side --------------------------------------------------------------

QUIET = pytest.mark.filterwarnings("ignore:.*outside their own range")
Y = [1, 2, 3, 4, 5]


def magnitudes_of(model):
    return model.user_magnitudes_.tolist(), model.item_magnitudes_.tolist()


@QUIET
def test_ids_that_a_mapping_lacks_get_the_declared_range():
    model = fit(Y, bounds=(1, 5), magnitudes=({"b": 0.5}, ITEMS))
    assert magnitudes_of(model) == ([np.sqrt(2), 0.5, np.sqrt(2)], [1.0, 0.7])
    ranges = model.fitted_.ranges
    assert ranges.unknown_user == np.sqrt(2)  # somebody unknown is lacking, too
    assert ranges.unknown_item == pytest.approx(0.85)


@QUIET
def test_ids_that_a_mapping_lacks_get_theirs_from_history_where_it_is_given():
    past = ([("a", "x"), ("b", "x"), ("c", "y")], [2, 4, 3.5])
    model = fit(Y, history=past, bounds=(1, 5), magnitudes=({"b": 0.5}, {}))
    by_history = fit(Y, history=past, bounds=(1, 5), magnitudes="history")
    assert model.user_magnitudes_.tolist() == [by_history.user_magnitudes_[0], 0.5, by_history.user_magnitudes_[2]]
    assert model.item_magnitudes_.tolist() == by_history.item_magnitudes_.tolist()


@QUIET
def test_ids_that_a_mapping_lacks_get_theirs_from_the_ratings_where_an_end_is_open():
    model = fit(Y, bounds=(0, None), magnitudes=({"b": 0.5}, ITEMS))
    by_history = fit(Y, bounds=(0, None), magnitudes="history")
    assert model.user_magnitudes_[[0, 2]].tolist() == by_history.user_magnitudes_[[0, 2]].tolist()


@QUIET
def test_each_side_may_have_a_rule_of_its_own():
    by_history = fit(Y, bounds=(1, 5), magnitudes="history")
    users, items = magnitudes_of(fit(Y, bounds=(1, 5), magnitudes=("history", "range")))
    assert (users, items) == (by_history.user_magnitudes_.tolist(), [np.sqrt(2)] * 2)
    users, items = magnitudes_of(fit(Y, bounds=(1, 5), magnitudes=(USERS, "history")))
    assert (users, items) == ([1.0, 0.5, 2.0], np.minimum(by_history.item_magnitudes_, 2 / 2.0).tolist())
    with pytest.raises(ValueError, match='"range" needs both ends'):
        fit(Y, bounds=(0, None), magnitudes=(USERS, "range"))


@QUIET
@pytest.mark.parametrize("rule", ["range", "history", {"x": 0.01}])
def test_what_a_rule_gives_makes_room_for_what_is_given(rule):
    model = fit(Y, bounds=(1, 5), magnitudes=({"a": 40.0}, rule))
    assert model.user_magnitudes_[0] == 40.0
    assert model.item_magnitudes_.max() == pytest.approx(2 / 40)
    lower, upper = model.predict_range([(u, i) for u in ("a", "b", "new") for i in ("x", "y", "new")])
    assert lower.min() >= 1
    assert upper.max() <= 5


def test_history_that_no_magnitude_would_come_from_is_refused():
    for magnitudes in ((USERS, ITEMS), (USERS, "range")):
        with pytest.raises(ValueError, match="others are asked for"):
            fit(Y, history=(PAIRS, Y), bounds=(1, 5), magnitudes=magnitudes)


# --- contradictions -----------------------------------------------------------------------------------------

COUNTS = [1.0, 2.0, 1.0, 40.0, 2.0]
SMALL = ({"a": 1.0, "b": 1.0, "c": 1.0}, {"x": 1.0, "y": 1.0})


def test_contradictions_are_kept_and_counted_with_one_warning():
    with pytest.warns(UserWarning, match=r"1 of 5 ratings lie outside.*user 'b', item 'y': 40 > 2") as caught:
        model = fit(COUNTS, bounds=(0, None), magnitudes=SMALL)
    assert len(caught) == 1
    assert model.infeasible_share_ == pytest.approx(0.2)


def test_widening_scales_both_magnitudes_alike_and_recentres():
    model = fit(COUNTS, bounds=(0, None), magnitudes=SMALL, on_contradiction="widen")
    assert model.user_magnitudes_ == pytest.approx([1.0, np.sqrt(20), 1.0])
    assert model.item_magnitudes_ == pytest.approx([1.0, np.sqrt(20)])
    lower, upper = model.predict_range([("b", "y")])
    assert (lower[0], upper[0]) == pytest.approx((0.0, 40.0))
    assert model.infeasible_share_ == pytest.approx(0.2)


def test_dropping_leaves_contradictions_out_of_the_fit():
    dropped = fit(COUNTS, bounds=(0, None), magnitudes=SMALL, on_contradiction="drop")
    others = [k for k in range(5) if k != 3]
    alone = fit([COUNTS[k] for k in others], [PAIRS[k] for k in others], bounds=(0, None), magnitudes=SMALL)
    assert np.allclose(dropped.predict(PAIRS), alone.predict(PAIRS))


def test_dropping_everything_is_refused():
    with pytest.raises(ValueError, match="every rating lies outside"):
        fit([40.0] * 5, bounds=(0, None), magnitudes=SMALL, on_contradiction="drop")


@given(st.integers(0, 1000))
def test_widening_within_declared_bounds_covers_every_rating_and_passes_no_bound(seed):
    rng = np.random.default_rng(seed)
    X = [(u, i) for u in range(4) for i in range(4)]
    y = rng.uniform(1, 5, 16)
    magnitudes = ({u: rng.uniform(0.01, 1.4) for u in range(4)}, {i: rng.uniform(0.01, 1.4) for i in range(4)})
    model = MBMF(2, bounds=(1, 5), magnitudes=magnitudes, on_contradiction="widen", max_iter=1).fit(X, y)
    lower, upper = model.predict_range(X)
    assert np.all((lower >= 1) & (upper <= 5))
    assert np.all((y >= lower - 1e-6) & (y <= upper + 1e-6))


@pytest.mark.parametrize(
    "bounds",
    [(1,), (1, 2, 3), "12", 5, ("a", "b"), (np.nan, 5), (5, 5), (6, 5), (np.inf, 5), (5, -np.inf), {1, 5}, (-1e160, 5)],
)
def test_bounds_without_sense_are_refused(bounds):
    with pytest.raises(ValueError, match="bounds="):
        check_bounds(bounds)


def test_infinite_ends_are_open_ends():
    assert check_bounds((0, np.inf)) == (0.0, None)
    assert check_bounds((-np.inf, np.inf)) == (None, None)


def test_widening_keeps_unequal_given_magnitudes_within_the_declared_bounds():
    magnitudes = ({"a": 4.0, "b": 0.5, "c": 0.5}, {"x": 0.25, "y": 0.5})
    model = fit([5, 1, 4, 5, 2], bounds=(1, 5), magnitudes=magnitudes, on_contradiction="widen")
    assert model.user_magnitudes_.max() * model.item_magnitudes_.max() <= 2 * (1 + 1e-9)


@pytest.mark.parametrize(
    ("user", "item", "dtype", "sentence"),
    [
        (1e-200, 1.0, "float64", "2 user magnitudes are too small or too large to be squared.*user 'a': 1e-200"),
        (1e200, 1e-100, "float64", "2 user magnitudes are too small or too large to be squared.*user 'a': 1e[+]200"),
        (1.0, 1e200, "float64", "2 item magnitudes are too small or too large to be squared.*item 'x': 1e[+]200"),
        (1e100, 1e100, "float64", "the widest range is ±1e[+]200 .*too wide for dtype=float64: divide"),
        (
            1e40,
            1e-20,
            "float32",
            "2 user magnitudes are too large for dtype=float32: pass .*float64.*user 'a': 1e[+]40",
        ),
        (
            1e-40,
            1.0,
            "float32",
            "2 user magnitudes are too small for dtype=float32: pass .*float64.*user 'a': 1e-40",
        ),
        (1e20, 1e20, "float32", 'the widest range is ±1e[+]40 .*too wide for dtype=float32: pass dtype="float64"'),
    ],
)
def test_magnitudes_that_cannot_be_computed_with_are_refused(user, item, dtype, sentence):
    magnitudes = ({"a": user, "b": user, "c": 1.0}, {"x": item, "y": item})
    with pytest.raises(ValueError, match=sentence):
        fit([1, 2, 3, 4, 5], bounds=(0, None), magnitudes=magnitudes, dtype=dtype)


def test_magnitudes_of_new_users_are_held_to_the_same_sizes():
    magnitudes = ({"a": 1.0, "b": 1.0, "c": 1.0, "d": 1e40, "e": 1e160}, {"x": 1.0, "y": 1.0})
    model = fit([1, 2, 3, 4, 5], bounds=(0, None), magnitudes=magnitudes, dtype="float32", on_contradiction="widen")
    for change in (model.fold_in, model.partial_fit):
        with pytest.raises(ValueError, match="too wide for dtype=float32"):
            change([("d", "x")], [3])
        with pytest.raises(ValueError, match=r"too small or too large to be squared.*user 'e': 1e\+160"):
            change([("e", "x")], [3])


def test_magnitudes_whose_product_vanishes_are_refused():
    tiny = ({"a": 1e-150, "b": 1e-150, "c": 1e-150}, {"x": 1e-149, "y": 1e-149})
    with pytest.raises(ValueError, match=r"the widest range is ±1e-299 .*too narrow for dtype=float64: multiply"):
        fit([1, 2, 3, 4, 5], bounds=(0, None), magnitudes=tiny)
