"""Strange ids, ratings, weights, bounds and settings: an answer that comes back as it went in, or one sentence."""

import datetime
import enum
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import boundrec
from boundrec import BMCADMM, MBMF, MF, NMF, BayesianMBMF, BoundedSVD, CCDPlusPlus
from boundrec.data.columns import id_column, short
from boundrec.data.ids import IdIndex

ITEMS = ["tea", "rum", "gin"]
RATINGS = [1.0, 3.0, 5.0]
PAIRS = list(zip("abc", ITEMS, strict=True))
HUGE = 10**400
ENDLESS = 10**5000  # Python writes no integer of more than 4300 digits
LONG_DOUBLE_IS_LONGER = np.finfo(np.longdouble).max > np.finfo(np.float64).max


class Colour(enum.Enum):
    RED = 1
    BLUE = 2
    GREEN = 3


def quick(**settings):
    return MBMF(2, **{"bounds": (1, 5), "random_state": 0, "max_iter": 2, "tol": 1e9, **settings})


def column_of(frame, library):
    return frame["user"].to_pylist() if library == "pyarrow" else frame["user"].to_list()


# --- ids ----------------------------------------------------------------------------------------------------

IDS = {
    "beyond int64": np.array([2**64 - 1, 2**63, 5], np.uint64),
    "beyond 64 bits": [2**70, 2**70 + 1, 5],
    "of 401 digits": [HUGE, HUGE + 1, 5],
    "half floats": np.array([0.1, 0.2, 0.3], np.float16),
    "long doubles": np.array([0.1, 0.2, 3], np.longdouble),
    "complex": [1j, 2, 3],
    "seconds": np.array([1, 2, 3], "m8[s]"),
    "nanoseconds": np.array([1, 2, 3], "m8[ns]"),
    "years": np.array([1, 2, 3], "m8[Y]"),
    "timedeltas in a list": [np.timedelta64(1, "s"), np.timedelta64(2, "s"), np.timedelta64(1, "h")],
    "a timedelta beside its number": [np.timedelta64(1, "s"), 1, 2],
    "days": np.array(["2020-01-01", "2021-01-01", "2022-01-01"], "M8[D]"),
    "instants": np.array(["2020-01-01", "2021-01-01", "2022-01-01"], "M8[ns]"),
    "times with a zone": [datetime.time(1), datetime.time(2), datetime.time(3, tzinfo=datetime.UTC)],
    "decimals": [Decimal("1.5"), Decimal(2), Decimal("1e500")],
    "enumeration": list(Colour),
    "tuples": [("a", 1), ("a", None), (b"a", 0.5)],
    "lone surrogates": ["\ud800", "\udfff", "ok"],
}
SERIES = {
    "polars, 128 bits": pl.Series([2**100, 2**64, 5], dtype=pl.Int128),
    "polars, few of 128 bits": pl.Series([1, 2, 5], dtype=pl.Int128),
    "polars, unsigned": pl.Series([2**64 - 1, 2**63, 5], dtype=pl.UInt64),
    "polars, half floats": pl.Series([0.5, 0.25, 1.0]).cast(pl.Float32),
    "pandas, nanoseconds": pd.Series(pd.to_timedelta([1, 2, 3], unit="ns")),
    "pyarrow, large decimals": pa.chunked_array([pa.array([Decimal(10) ** 50, Decimal(2), Decimal(3)])]),
    "pyarrow, half floats": pa.chunked_array([pa.array(np.array([0.1, 0.2, 0.3], np.float16))]),
}
#: What has no place for such ids, and says so.
WITHOUT = {
    "beyond 64 bits": "pyarrow",
    "of 401 digits": "pyarrow",
    "complex": "pyarrow, file",
    "seconds": "file",
    "nanoseconds": "pyarrow, file",
    "years": "pyarrow, file",
    "timedeltas in a list": "file",
    "a timedelta beside its number": "pyarrow, file",
    "days": "file",
    "instants": "pyarrow, file",
    "times with a zone": "pyarrow, file",
    "decimals": "pyarrow, file",
    "enumeration": "polars, pyarrow, file",
    "tuples": "pyarrow",
    "lone surrogates": "pyarrow",
    "polars, 128 bits": "pyarrow",
    "pandas, nanoseconds": "pyarrow, file",
    "pyarrow, large decimals": "file",
}


def framed(series):
    library = {pl.Series: pl.DataFrame, pd.Series: pd.DataFrame, pa.ChunkedArray: pa.table}[type(series)]
    return library({"user": series, "item": ITEMS})


@pytest.mark.parametrize("name", [*IDS, *SERIES])
def test_ids_of_every_kind_come_back_equal_from_lists_frames_and_files(name, tmp_path):
    given = SERIES.get(name, IDS.get(name))
    X = framed(given) if name in SERIES else list(zip(given, ITEMS, strict=True))
    model = quick().fit(X, RATINGS)
    users = list(id_column(given, "users"))
    assert model.n_users_ == 3
    assert model.user_ids_.codes(users).tolist() == [0, 1, 2]
    assert all(bool(one == mine) for one, mine in zip(users, model.user_ids_.ids, strict=True))
    assert np.isfinite(model.recommend(given, n=1, exclude_seen=False)[1]).all()
    for library in ("pandas", "polars", "pyarrow"):
        for asked in (given, None):
            if library not in WITHOUT.get(name, ""):
                frame = model.recommend(asked, n=1, exclude_seen=False, output=library)
                assert model.user_ids_.codes(column_of(frame, library)).tolist() == [0, 1, 2]
            else:
                with pytest.raises(ValueError, match=f"these ids have no common type in {library} .first: "):
                    model.recommend(asked, n=1, exclude_seen=False, output=library)
    if "file" not in WITHOUT.get(name, ""):
        model.save(tmp_path / "model.safetensors")
        assert boundrec.load(tmp_path / "model.safetensors").user_ids_ == model.user_ids_
    else:
        with pytest.raises(TypeError, match="files hold ids that are text, numbers, bytes, or tuples"):
            model.save(tmp_path / "model.safetensors")


def test_a_timedelta_is_not_the_number_of_its_units():
    index, codes = IdIndex.encode([np.timedelta64(1, "s"), np.timedelta64(1, "m"), 1])
    assert codes.tolist() == [0, 1, 2]
    assert index.codes([datetime.timedelta(seconds=1), np.timedelta64(60, "s"), 1]).tolist() == [0, 1, 2]
    assert index.codes(np.array([1, 60], "m8[s]")).tolist() == [0, 1]


@pytest.mark.parametrize(
    "series",
    [
        pl.Series("when", [1000, 2, 3]).cast(pl.Datetime("ns")),
        pl.Series("when", [1000, 2, None]).cast(pl.Duration("ns")),
        pl.Series("when", [1000, 2, 3]).cast(pl.Time),
        pa.chunked_array([pa.array([1000, 2, 3], pa.timestamp("ns", tz="Europe/Berlin"))]),
        pa.chunked_array([pa.array([1000, 2, 3], pa.time64("ns"))]),
        pa.chunked_array([pa.array([1000, 2, 3], pa.duration("ns"))]),
        pa.array([1000, 2, 3], pa.time64("ns")),
    ],
)
def test_times_that_python_would_cut_to_microseconds_are_refused_as_ids(series):
    with pytest.raises(ValueError, match=r"has times with nanoseconds \(first: row 1\)"):
        id_column(series, "users")


def test_whole_microseconds_are_ids_as_ever():
    series = pl.Series([1000, 2000, None]).cast(pl.Datetime("ns"))
    assert id_column(series, "users")[0] == datetime.datetime(1970, 1, 1, microsecond=1)


def test_a_tuple_with_nan_in_it_is_no_id():
    with pytest.raises(ValueError, match=r"row 1 of X has no user id \(\('a', nan\)\)"):
        quick().fit([("b", 1), (("a", float("nan")), 2)], [1, 2])


def test_an_id_without_a_text_is_refused_by_files_in_a_sentence(tmp_path):
    model = quick().fit([(ENDLESS, 1), (2, 2)], [1, 2])
    with pytest.raises(TypeError, match="the user id <int> is a int: files hold ids that are text, numbers"):
        model.save(tmp_path / "model.safetensors")


# --- ratings and weights ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("y", "sentence"),
    [
        ([HUGE, 1, 2], r"row 0 of y is 1000.*\.\.\., too large: divide all by a constant"),
        pytest.param([1, ENDLESS, 2], "row 1 of y is <int>, too large"),
        ([Fraction(HUGE), 1, 2], r"row 0 of y is Fraction\(1000"),
        ([Decimal("1e500"), 1, 2], "NaN or infinite ratings: 1 of 3"),
        ([Decimal("snan"), 1, 2], "NaN or infinite ratings: 1 of 3"),
        ([1j, 1, 2], "y must hold real numbers"),
        (np.array([1, 2, 3], "m8[ns]"), r"y must hold numbers, but holds times \(timedelta64\[ns\]\)"),
        (np.array([1, 2, 3], "M8[ns]"), "y must hold numbers, but holds times"),
        (np.array([np.timedelta64(1, "s"), 1, 2], object), "row 0 of y is .*timedelta64.*, not a number"),
        (pl.Series([1, 2, 3]).cast(pl.Duration("us")), "row 0 of y is datetime.timedelta.*, not a number"),
    ],
)
def test_ratings_that_are_no_numbers_of_64_bits_are_refused_in_a_sentence(y, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        quick().fit(PAIRS, y)


@pytest.mark.skipif(not LONG_DOUBLE_IS_LONGER, reason="long doubles are doubles here")
def test_a_long_double_beyond_float64_is_refused_as_infinite():
    with pytest.raises(ValueError, match="NaN or infinite ratings"):
        quick().fit(PAIRS, np.array(["1e4000", "1", "2"], np.longdouble))


@pytest.mark.parametrize(
    "y",
    [
        pl.Series([1, 3, 5], dtype=pl.Int128),
        pl.Series([Decimal(1), Decimal(3), Decimal(5)]),
        pa.array([1, 3, 5]),
        np.array([1, 3, 5], np.longdouble),
        [Fraction(1), Decimal(3), np.float16(5)],
    ],
)
def test_numbers_of_every_kind_are_ratings(y):
    assert quick().fit(PAIRS, y).predict(PAIRS).tolist() == quick().fit(PAIRS, RATINGS).predict(PAIRS).tolist()


@pytest.mark.parametrize("weight", [1e308, HUGE], ids=["1e308", "of 401 digits"])
def test_weights_too_large_to_be_multiplied_are_refused(weight):
    with pytest.raises(ValueError, match=r"too large.*divide all (weights )?by a constant"):
        quick().fit(PAIRS, RATINGS, sample_weight=[1, weight, 1])


@pytest.mark.parametrize("magnitude", [1e200, HUGE, "3", None, Decimal("nan")])
def test_magnitudes_that_are_no_numbers_to_multiply_are_refused(magnitude):
    model = quick(bounds=None, magnitudes=({"a": magnitude, "b": 3, "c": 3}, dict.fromkeys(ITEMS, 3)))
    with pytest.raises((ValueError, TypeError), match="magnitude"):
        model.fit(PAIRS, RATINGS)


# --- bounds and settings ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "end",
    [
        HUGE,
        ENDLESS,
        1e151,
        Decimal(5),
        Fraction(9, 2),
        5j,
        np.complex128(5),
        "5",
        float("nan"),
        np.float16("nan"),
        np.array(5),
        np.timedelta64(5, "s"),
        pd.NA,
        pd.Series([5]),
        [5],
    ],
    ids=lambda end: type(end).__name__,
)
def test_a_bound_that_is_no_number_to_square_is_refused(end):
    for bounds in ((0, end), [0, end], (end, None), (None, end)):
        for model in (quick(bounds=bounds), MF(2, bounds=bounds, clip=True)):
            with pytest.raises(ValueError, match=r"^bounds=.*(give a pair|an end)"):
                model.fit(PAIRS, RATINGS)


@pytest.mark.parametrize("end", [np.float16(5), np.float32(5), np.longdouble(5), np.uint8(5)], ids=repr)
def test_a_bound_of_any_width_is_a_bound(end):
    assert quick(bounds=(1, end)).fit(PAIRS, RATINGS).predict(PAIRS).max() <= 5


@pytest.mark.parametrize(
    ("model", "name"),
    [
        (MBMF, "n_factors"),
        (MBMF, "max_iter"),
        (MBMF, "n_restarts"),
        (MBMF, "ridge"),
        (MBMF, "tol"),
        (MBMF, "patience"),
        (MBMF, "initial_step"),
        (MBMF, "history_count"),
        (BayesianMBMF, "n_factors"),
        (BayesianMBMF, "n_kept"),
        (MF, "ridge"),
        (MF, "learning_rate"),
        (NMF, "ridge"),
        (BoundedSVD, "penalty"),
        (BoundedSVD, "sharpness"),
        (CCDPlusPlus, "inner_iter"),
        (BMCADMM, "rho"),
    ],
)
@pytest.mark.parametrize("value", [HUGE, ENDLESS], ids=["of 401 digits", "of 5001"])
def test_a_setting_too_large_for_its_formula_is_refused(model, name, value):
    with pytest.raises(ValueError, match=f"^{name}=(1000.*|<int>): give a"):
        model(**{"bounds": (1, 5), name: value}).fit(PAIRS, RATINGS)


@pytest.mark.parametrize("value", [2**31, 2**62, np.timedelta64(2, "s")], ids=repr)
def test_a_count_is_a_number_that_can_be_counted_to(value):
    with pytest.raises(ValueError, match=r"^n_restarts=.*: give a whole number"):
        quick(n_restarts=value).fit(PAIRS, RATINGS)


@pytest.mark.parametrize("name", ["form", "constraint", "ridge", "slack", "biases", "dtype", "verbose", "duplicates"])
@pytest.mark.parametrize("value", [pd.NA, pd.DataFrame({"a": [1]}), pl.Series([1]), Decimal("snan")])
def test_a_setting_that_refuses_to_be_compared_is_refused(name, value):
    with pytest.raises(ValueError, match=f"{name}"):
        quick(**{name: value}).fit(PAIRS, RATINGS)


@pytest.mark.parametrize(
    ("model", "name"),
    [(MBMF, "tol"), (NMF, "ridge"), (BoundedSVD, "penalty"), (CCDPlusPlus, "ridge"), (BMCADMM, "rho"), (MF, "tol")],
)
def test_a_number_of_any_width_is_a_setting(model, name):
    fitted = [
        model(2, **{"bounds": (1, 5), "random_state": 0, "max_iter": 3, "patience": 1, "tol": 1e9, name: value}).fit(
            PAIRS, RATINGS
        )
        for value in (1.0, 1, np.uint8(1), np.float16(1), np.longdouble(1))
    ]
    assert len({tuple(one.predict(PAIRS)) for one in fitted}) == 1


def test_a_value_without_a_text_has_a_short_one():
    class Silent:
        def __repr__(self):
            raise RuntimeError

    assert short(Silent()) == "<Silent>"
    assert short(ENDLESS) == "<int>"
    assert short(pd.DataFrame({"a": [1, 2]})).count("\n") == 0


@pytest.mark.parametrize("flag", [np.array([1, 2]), pd.NA, "yes"], ids=str)
def test_a_flag_that_was_set_after_the_fit_is_looked_at_before_it_is_used(flag):
    model = NMF(1, bounds=(1, 5), max_iter=1, random_state=0).fit(PAIRS, RATINGS).set_params(clip=flag)
    with pytest.raises(ValueError, match=r"^clip=.*: give True or False\.$"):
        model.predict(PAIRS)
