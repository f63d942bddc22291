"""The names of a frame's columns: kept by a fit, and held against those of every frame that follows."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline

import boundrec
from boundrec import MBMF, MF, BayesianMBMF, Ratings
from boundrec.cli import app

FRAMES = {
    "pandas": lambda names, X: pd.DataFrame(X, columns=names),
    "polars": lambda names, X: pl.DataFrame(X, schema=list(names)),
    "pyarrow": lambda names, X: pa.table(dict(zip(names, X.T, strict=True))),
}
NAMES, SWAPPED = ("user", "item"), ("item", "user")
BY_POSITION = "by position, users first"
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def data():
    """Whole numbers as ids on both sides: swapped columns are known ids, too."""
    X = np.argwhere(np.random.default_rng(0).random((12, 12)) < 0.5)
    return X, np.random.default_rng(1).integers(1, 6, len(X)).astype(float)


@pytest.fixture(params=FRAMES)
def frame(request):
    return FRAMES[request.param]


def pandas_frame(X, names=NAMES):
    return FRAMES["pandas"](names, X)


def model(**settings):
    return MBMF(2, bounds=(1, 5), max_iter=2, random_state=0, **settings)


def bayesian():
    return BayesianMBMF(2, bounds=(1, 5), max_iter=4, random_state=0)


def swap_sentence():
    return r"has the columns 'item', 'user', but the model is fitted on 'user', 'item': .*in this order"


# --- what a fit keeps ---------------------------------------------------------------------------------------


def test_a_fit_on_a_frame_keeps_the_names_of_its_columns(data, frame):
    X, y = data
    for fitted in (model().fit(frame(NAMES, X), y), MF(2, max_iter=2, random_state=0).fit(frame(NAMES, X), y)):
        assert fitted.feature_names_in_.tolist() == ["user", "item"]
        assert fitted.feature_names_in_.dtype == object
        assert fitted.n_features_in_ == 2


def test_names_change_no_bit(data, frame):
    X, y = data
    named = model().fit(frame(NAMES, X), y)
    assert np.array_equal(named.predict(frame(NAMES, X)), model().fit(X, y).predict(X))
    assert np.array_equal(named.predict(frame(NAMES, X)), named.predict(X))


def test_a_fit_without_names_has_none_even_after_one_that_had(data):
    X, y = data
    fitted = model().fit(pandas_frame(X), y)
    fitted.fit(X, y)
    assert not hasattr(fitted, "feature_names_in_")
    assert fitted.n_features_in_ == 2
    assert not hasattr(model(), "feature_names_in_")
    assert not hasattr(clone(model().fit(pandas_frame(X), y)), "feature_names_in_")


def test_names_that_are_no_strings_do_not_count(data):
    X, y = data
    fitted = model().fit(pd.DataFrame(X), y)
    assert not hasattr(fitted, "feature_names_in_")
    assert np.array_equal(fitted.predict(pd.DataFrame(X)), fitted.predict(X))


def test_a_fit_that_fails_keeps_the_names_of_the_one_before(data):
    X, y = data
    fitted = model().fit(pandas_frame(X), y)

    def fail(*_):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        fitted.fit(pandas_frame(X, ("u", "i")), y, callback=fail)
    assert fitted.feature_names_in_.tolist() == ["user", "item"]


def test_a_callback_may_predict_on_a_frame_with_the_new_names(data):
    X, y = data
    fitted, other = model().fit(pandas_frame(X), y), pandas_frame(X, ("u", "i"))
    fitted.fit(other, y, callback=lambda sweep, objective, m: m.predict(other).sum() < 0)
    assert fitted.feature_names_in_.tolist() == ["u", "i"]


def test_ratings_know_the_columns_they_were_read_from(data):
    X, y = data
    ratings = Ratings.read(pandas_frame(X), y)
    assert ratings.names == ("user", "item")
    assert ratings.keep(np.arange(len(y)) > 3).names == ("user", "item")
    assert Ratings.read(X, y).names is None
    fitted = model(on_contradiction="drop").fit(ratings)
    with pytest.raises(ValueError, match=swap_sentence()):
        fitted.predict(pandas_frame(X, SWAPPED))


# --- what follows -------------------------------------------------------------------------------------------

QUESTIONS = {
    "predict": lambda m, X, y: m.predict(X),
    "predict with ranges": lambda m, X, y: m.predict(X, return_range=True),
    "predict with std": lambda m, X, y: m.predict(X, return_std=True),
    "predict_range": lambda m, X, y: m.predict_range(X),
    "predict_quantiles": lambda m, X, y: m.predict_quantiles(X),
    "score": lambda m, X, y: m.score(X, y),
    "fold_in": lambda m, X, y: m.fold_in(X, y),
    "fold_in items": lambda m, X, y: m.fold_in(X, y, axis="items"),
    "partial_fit": lambda m, X, y: m.partial_fit(X, y),
}


@pytest.mark.parametrize("ask", QUESTIONS)
def test_swapped_columns_are_refused_with_both_names_and_the_remedy(data, frame, ask):
    X, y = data
    fitted = bayesian().fit(frame(NAMES, X), y)
    QUESTIONS[ask](fitted, frame(NAMES, X), y)
    with pytest.raises(ValueError, match=swap_sentence()):
        QUESTIONS[ask](fitted, frame(SWAPPED, X), y)


@pytest.mark.parametrize("beside", ["eval_set", "history"])
def test_swapped_columns_beside_those_to_train_on_are_refused(data, frame, beside):
    X, y = data
    model(on_contradiction="drop").fit(frame(NAMES, X), y, **{beside: (frame(NAMES, X), y)})
    fitted = model().fit(frame(SWAPPED, X), y)  # the names of an earlier fit are no matter
    with pytest.raises(ValueError, match=f"{beside} {swap_sentence()}"):
        fitted.fit(frame(NAMES, X), y, **{beside: (frame(SWAPPED, X), y)})
    with pytest.raises(ValueError, match=f"{beside} {swap_sentence()}"):
        fitted.fit(frame(NAMES, X), y, **{beside: Ratings.read(frame(SWAPPED, X), y)})


def test_other_names_are_refused_with_the_remedy(data, frame):
    X, y = data
    fitted = model().fit(frame(NAMES, X), y)
    with pytest.raises(ValueError, match=r"columns 'u', 'i', but .* on 'user', 'item': rename them.*array"):
        fitted.predict(frame(("u", "i"), X))


def test_pairs_without_names_are_read_by_position_after_any_fit(data):
    X, y = data
    fitted = model().fit(pandas_frame(X), y)
    assert np.array_equal(fitted.predict(X.tolist()), fitted.predict(X))
    assert fitted.partial_fit(X[:1], y[:1]).feature_names_in_.tolist() == ["user", "item"]
    assert fitted.fold_in(X[:3], y[:3]).feature_names_in_.tolist() == ["user", "item"]


@pytest.mark.parametrize("ask", QUESTIONS)
def test_names_that_no_fit_has_seen_are_warned_of_once(data, ask):
    X, y = data
    fitted = bayesian().fit(X, y)
    with pytest.warns(UserWarning, match=f"columns 'item', 'user', .* fitted without names.*{BY_POSITION}") as told:
        QUESTIONS[ask](fitted, pandas_frame(X, SWAPPED), y)
    assert len(told) == 1
    assert not hasattr(fitted, "feature_names_in_")


def test_the_librarys_own_names_are_clear_after_a_fit_without_any(data):
    X, y = data
    fitted = model().fit(X, y)
    listed = fitted.recommend([0, 1], n=2, exclude_seen=False, output="pandas")
    assert np.array_equal(fitted.predict(listed[["user", "item"]]), listed["score"])


# --- scikit-learn -------------------------------------------------------------------------------------------


def test_cross_validation_searches_and_pipelines_take_frames(data, frame):
    X, y = data
    table = frame(NAMES, X)
    if not isinstance(table, pa.Table):
        cross_validate(model(), table, y, cv=2, error_score="raise")
        search = GridSearchCV(model(), {"n_factors": [2, 3]}, cv=2, error_score="raise").fit(table, y)
        assert search.feature_names_in_.tolist() == ["user", "item"]
    pipeline = make_pipeline(model()).fit(table, y)
    assert pipeline.feature_names_in_.tolist() == ["user", "item"]
    with pytest.raises(ValueError, match=swap_sentence()):
        pipeline.predict(frame(SWAPPED, X))


# --- files and the command ----------------------------------------------------------------------------------


def test_a_file_keeps_the_names(data, tmp_path):
    X, y = data
    model().fit(pandas_frame(X), y).save(tmp_path / "named", keep_ratings=True)
    loaded = boundrec.load(tmp_path / "named")
    assert loaded.feature_names_in_.tolist() == ["user", "item"]
    with pytest.raises(ValueError, match=swap_sentence()):
        loaded.predict(pandas_frame(X, SWAPPED))
    assert loaded.partial_fit(pandas_frame(X[:1]), y[:1]).feature_names_in_.tolist() == ["user", "item"]
    model().fit(X, y).save(tmp_path / "nameless")
    assert not hasattr(boundrec.load(tmp_path / "nameless"), "feature_names_in_")


@pytest.mark.parametrize("order", [["userId", "movieId", "rating"], ["rating", "movieId", "userId"]])
def test_the_command_reads_columns_by_their_role_whatever_a_model_calls_them(data, order, tmp_path):
    def ask(*words):
        app(list(map(str, words)), standalone_mode=False)

    X, y = data
    model, ratings = tmp_path / "model", tmp_path / "ratings.csv"
    table = pd.DataFrame({"userId": X[:, 0], "movieId": X[:, 1], "rating": y})[order]
    table.to_csv(ratings, index=False)
    fitted = MBMF(2, bounds=(1, 5), max_iter=2, random_state=0).fit(pandas_frame(X), y)
    fitted.save(model)
    ask("predict", model, ratings, "-o", tmp_path / "predictions.csv")
    written = pd.read_csv(tmp_path / "predictions.csv")
    assert written[["userId", "movieId"]].to_numpy().tolist() == X.tolist()
    assert written["prediction"].to_numpy() == pytest.approx(fitted.predict(X))
    ask("report", model, ratings, "-o", tmp_path / "report.html")
    ask("fit", ratings, "-o", tmp_path / "of the command", "--k", 2, "--sweeps", 2)
    ask("evaluate", ratings, "--model", "mbmf", "--k", 2, "--sweeps", 2)
    of_the_command = boundrec.load(tmp_path / "of the command")
    assert of_the_command.feature_names_in_.tolist() == ["userId", "movieId"]
    of_the_command.predict(table[["userId", "movieId"]])
    table.to_csv(tmp_path / "headless.csv", index=False, header=False)
    places = [str(order.index(name) + 1) for name in ("userId", "movieId", "rating")]
    chosen = [word for pair in zip(("--user", "--item", "--rating"), places, strict=True) for word in pair]
    ask("fit", tmp_path / "headless.csv", "-o", tmp_path / "headless", "--k", 2, "--sweeps", 2, *chosen)
    assert not hasattr(boundrec.load(tmp_path / "headless"), "feature_names_in_")
