"""Features, who rated what and own noise through the command, and what explains a prediction."""

import json
import re
from typing import get_args

import numpy as np
import polars as pl
import pytest
from rating_files import write_ratings

import boundrec
from boundrec.cli import side_information
from boundrec.models import bayesian

QUICK = "--k 2 --sweeps 6"
#: Who is in the tables of features and has no rating.
COLD_USER, COLD_ITEM = 41, "film 30"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Ratings by 40 users of 30 films, and features of these and of two more of each."""
    folder = tmp_path_factory.mktemp("features")
    write_ratings(folder / "ratings.csv")
    rng = np.random.default_rng(1)
    users = {"userId": list(range(1, 43)), "age": rng.integers(18, 70, 42), "gender": rng.choice(["F", "M"], 42)}
    items = {"movieId": [f"film {k:02}" for k in range(32)], "year": rng.integers(1950, 2000, 32)}
    pl.DataFrame(users).write_csv(folder / "users.csv")
    pl.DataFrame(items).write_parquet(folder / "films.parquet")
    return folder


@pytest.fixture
def model(command, folder):
    """A model with features of both sides, sets and own noise, whose file holds its ratings."""
    path = folder / "model.safetensors"
    if not path.exists():
        command(
            f"fit ratings.csv -o {path} --user-features users.csv --item-features films.parquet --implicit both "
            f"--noise own --keep-ratings {QUICK}"
        )
    return path


def output_of(name, folder):
    """Where fit and compare write."""
    return {"fit": f"-o {folder}/out.safetensors", "compare": f"-o {folder}/out.png"}.get(name, "")


# --- fit, predict, recommend ------------------------------------------------------------------------------------


def test_a_fit_with_tables_of_features_is_the_fit_of_the_library(command, folder, tmp_path):
    path = tmp_path / "model.safetensors"
    fit = f"fit ratings.csv -o {path} --user-features users.csv --item-features films.parquet --implicit users"
    _, err = command(f"{fit} --noise one --bounds 0.5 5 {QUICK}")
    assert "users.csv: 3 features of 42 users (ids in 'userId'), 2 of them without ratings." in err
    assert "films.parquet: 1 feature of 32 items (ids in 'movieId'), 2 of them without ratings." in err
    frame = pl.read_csv(folder / "ratings.csv")
    X = frame.select("userId", "movieId")
    model = boundrec.BayesianMBMF(
        n_factors=2, max_iter=6, bounds=(0.5, 5), random_state=0, implicit="users", noise="one"
    ).fit(
        X,
        frame["rating"],
        user_features=pl.read_csv(folder / "users.csv"),
        item_features=pl.read_parquet(folder / "films.parquet"),
    )
    loaded = boundrec.load(path)
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert [one[:2] for one in loaded.feature_effects_] == [one[:2] for one in model.feature_effects_]


def test_whom_nobody_has_rated_is_answered_by_features(command, model, tmp_path):
    (tmp_path / "pairs.csv").write_text(f"userId,movieId\n{COLD_USER},{COLD_ITEM}\n42,film 31\n999,nothing\n")
    out, _ = command(f"predict model.safetensors {tmp_path}/pairs.csv")
    frame = pl.read_csv(out.encode())
    assert frame["prediction"].n_unique() == 3
    assert frame["prediction"].is_between(0.5, 5).all()
    out, err = command(f"recommend model.safetensors {COLD_USER} 42 -n 32")
    lists = pl.read_csv(out.encode())
    assert "does not know" not in err
    assert {COLD_ITEM, "film 31"} <= set(lists["item"])
    scores = lists.filter(item="film 00")["score"]
    assert scores[0] != scores[1]


def write_as(frame, path):
    """A frame in the format of the ending, ids as text where there are no types."""
    writers = {".csv": "write_csv", ".ndjson": "write_ndjson", ".parquet": "write_parquet"}
    if path.suffix == ".tsv":
        frame.write_csv(path, separator="\t")
    else:
        getattr(frame, writers[path.suffix])(path)


@pytest.mark.parametrize("ending", ["csv", "tsv", "ndjson", "parquet"])
def test_every_kind_of_table_gives_the_same_features(command, folder, tmp_path, ending):
    frame = pl.read_csv(folder / "users.csv").with_columns(
        age=pl.when(pl.col("userId") == 3).then(None).otherwise("age"),
        gender=pl.when(pl.col("userId") == 4).then(None).otherwise("gender"),
    )
    write_as(frame, tmp_path / f"users.{ending}")
    path = tmp_path / "model.safetensors"
    command(f"fit ratings.csv -o {path} --user-features {tmp_path}/users.{ending} --k 2 --sweeps 2")
    features = boundrec.load(path).fitted_.users.links.features
    assert features.names == ["age", "age missing", "gender=F", "gender=M"]
    rows = features.rows_for([3, 4, 5])[0].toarray()
    assert rows[0, :2].tolist() == [0, 1]
    assert rows[1, 2:].tolist() == [0, 0]
    assert rows[2, 2:].sum() == 1


@pytest.mark.parametrize(
    ("of_ratings", "of_features", "matching"),
    [
        (["007", "8", "9"], ["9", "007", "8"], 3),
        (["7", "8", "9"], ["007", "8", "9"], 2),
        (["007", "8", "9"], ["7", "8", "9"], 2),
        (["7", "8", "9"], ["9", "8", "7", "x"], 3),
    ],
)
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_ids_of_features_match_those_of_ratings_as_they_are_written(
    command, tmp_path, of_ratings, of_features, matching, ending
):
    rows = [f"{user},{item},{1 + (place + item) % 5}" for place, user in enumerate(of_ratings) for item in range(4)]
    (tmp_path / "ratings.csv").write_text("\n".join(["user,item,rating", *rows]))
    write_as(pl.DataFrame({"user": of_features, "age": range(len(of_features))}), tmp_path / f"users.{ending}")
    path = tmp_path / "model.safetensors"
    _, err = command(f"fit {tmp_path}/ratings.csv -o {path} --user-features {tmp_path}/users.{ending} {QUICK}")
    model = boundrec.load(path)
    assert model.n_users_ == 3 + len(of_features) - matching
    assert ("ids of the ratings are not in" in err) == (matching < 3)
    told = model.fitted_.users.links.told(model.user_ids_)
    assert np.count_nonzero(told[:3]) == matching


def test_the_column_of_ids_may_have_another_usual_name_and_place(command, folder, tmp_path):
    frame = pl.read_csv(folder / "users.csv")
    frame.select("age", "gender", user="userId").write_csv(tmp_path / "users.csv")
    path = tmp_path / "model.safetensors"
    _, err = command(f"fit ratings.csv -o {path} --user-features {tmp_path}/users.csv {QUICK}")
    assert "(ids in 'user')" in err
    assert len(boundrec.load(path).feature_effects_) == 3


def test_ratings_without_names_go_with_features_that_have_names(command, folder, tmp_path):
    lines = (folder / "ratings.csv").read_text().splitlines()[1:]
    (tmp_path / "bare.csv").write_text("\n".join(lines))
    path = tmp_path / "model.safetensors"
    command(f"fit {tmp_path}/bare.csv -o {path} --no-header --user-features users.csv {QUICK}")
    assert [one.feature for one in boundrec.load(path).feature_effects_] == ["age", "gender=F", "gender=M"]


def test_names_that_are_numbers_are_names_where_that_is_said(command, tmp_path):
    rows = "".join(f"{user},{user % 7},{user % 5}\n" for user in range(1, 41))
    (tmp_path / "users.csv").write_text("userId,2019,2020\n" + rows)
    fit = f"fit ratings.csv -o {tmp_path}/m.safetensors --user-features {tmp_path}/users.csv {QUICK}"
    assert "has no line with the names of its columns" in command(fit, code=1)[1]
    command(f"{fit} --header")
    assert [one.feature for one in boundrec.load(tmp_path / "m.safetensors").feature_effects_] == ["2019", "2020"]


def test_the_choices_of_the_command_are_those_of_the_library():
    assert {one.value for one in side_information.Implicit} == set(get_args(bayesian.Implicit))
    assert {one.value for one in side_information.Noise} == set(get_args(bayesian.Noise))


# --- evaluate, compare, tune --------------------------------------------------------------------------------------


@pytest.fixture
def fits(monkeypatch):
    """What every fit is given beside the ratings, and the settings of its model."""
    seen = []
    fit = boundrec.BayesianMBMF.fit

    def spy(self, X, y=None, *, user_features=None, item_features=None, **others):
        seen.append((user_features is not None, item_features is not None, self.implicit, self.noise))
        return fit(self, X, y, user_features=user_features, item_features=item_features, **others)

    monkeypatch.setattr(boundrec.BayesianMBMF, "fit", spy)
    return seen


@pytest.mark.parametrize(
    ("text", "times"),
    [
        ("evaluate ratings.csv --k 2", 1),
        ("evaluate ratings.csv --test ratings.csv --k 2", 1),
        ("compare ratings.csv --models bayesian,mf -o OUT.png --k 2", 1),
        ("tune ratings.csv --k 2,3", 2),
    ],
)
def test_features_and_settings_reach_every_fit(command, fits, tmp_path, text, times):
    beside = "--user-features users.csv --item-features films.parquet --implicit items --noise own --sweeps 4"
    out, _ = command(f"{text.replace('OUT', str(tmp_path / 'out'))} {beside}")
    assert fits == [(True, True, "items", "own")] * times
    assert "failed" not in out


def test_features_lower_the_error_of_held_out_ratings_of_items_that_nobody_else_has_rated(command, tmp_path):
    rng = np.random.default_rng(0)
    users, items = np.divmod(np.arange(40 * 60), 60)
    kind = rng.integers(0, 2, 60)
    rating = 2 + 2 * kind[items] + rng.normal(0, 0.2, users.size)
    frame = pl.DataFrame({"user": users, "item": items, "rating": rating.round(2)})
    frame.filter(pl.col("item") < 50).write_csv(tmp_path / "train.csv")
    frame.filter(pl.col("item") >= 50).write_csv(tmp_path / "test.csv")
    pl.DataFrame({"item": range(60), "kind": np.where(kind, "good", "bad")}).write_csv(tmp_path / "items.csv")
    ask = f"evaluate {tmp_path}/train.csv --test {tmp_path}/test.csv --k 2 --sweeps 20 --implicit off --json"
    plain, told = (
        json.loads(command(f"{ask}{more}")[0])["results"][-1]["rmse"]
        for more in ("", f" --item-features {tmp_path}/items.csv")
    )
    assert told < 0.4 < 0.8 < plain


def test_a_comparison_says_who_learns_from_ratings_alone(command, tmp_path):
    compare = f"compare ratings.csv -o {tmp_path}/out.png --user-features users.csv --noise own {QUICK} --models"
    _, err = command(f"{compare} mbmf,bayesian,mf")
    assert "Note: mbmf, mf learn from ratings alone: only bayesian gets --user-features and --noise." in err
    _, err = command(f"{compare} mbmf,mf", code=2)
    assert "--user-features and --noise: mbmf, mf learn from ratings alone: name bayesian among --models, or" in err


@pytest.mark.parametrize("name", ["fit", "evaluate", "tune"])
@pytest.mark.parametrize(
    "option", ["--user-features no.csv", "--item-features no.csv", "--implicit off", "--noise one"]
)
def test_a_model_that_learns_from_ratings_alone_refuses_more_before_a_file_is_read(command, tmp_path, name, option):
    _, err = command(f"{name} none.csv {output_of(name, tmp_path)} --model mbmf {option}", code=2)
    assert f"{option.split()[0]}: mbmf learns from ratings alone: pass --model bayesian, or leave this out." in err


def test_tune_prints_a_command_with_the_same_features(command, tmp_path, monkeypatch):
    out, _ = command("tune ratings.csv --user-features users.csv --noise own --k 2 --sweeps 4 --grid implicit=off,both")
    best = out.splitlines()[-1]
    assert "--user-features users.csv --noise own --model bayesian --k 2" in best
    assert "--set implicit=" in best
    path = tmp_path / "model.safetensors"
    command(best.removeprefix("boundrec ").replace("model.safetensors", str(path)))
    assert boundrec.load(path).noise == "own"


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("fit ratings.csv -o m --implicit some", "'some' is not one of"),
        ("fit ratings.csv -o m --noise much", "'much' is not one of"),
        (
            "fit ratings.csv -o m --implicit both --set implicit=off",
            "--implicit both and --set implicit=... give the same setting: leave out one.",
        ),
        ("tune ratings.csv --noise own --grid noise=one,own", "--noise own and --grid noise=... give the same setting"),
        ("evaluate ratings.csv --fitted m --user-features users.csv", "--user-features is for a fit, and m is fitted"),
        ("fit ratings.csv -o users.csv --user-features users.csv", "--output users.csv is the file that is read"),
    ],
)
def test_what_is_asked_wrongly_is_refused(command, text, answer):
    assert answer in command(text, code=2)[1]


# --- bad tables ---------------------------------------------------------------------------------------------------

BAD = {
    "missing": (None, "There is no file {path}."),
    "empty": ("", "{path} is empty."),
    "ids twice": (
        "userId,age\n1,30\n2,40\n3,50\n2,41\n1,31\n",
        "{path}: line 5 has user 2 again, after line 3 (1 more like it): give each user one row.",
    ),
    "another number of columns": ("userId,age\n1,30\n2,40,5\n", "line 3 has 3 fields, but there are 2 columns"),
    "text among numbers": (
        "userId,age\n1,30\n2,old\n3,50\n4,\n",
        "{path}: line 3 has 'old' in the column 'age', whose other values are numbers: make all of them numbers or all "
        "of them text, and leave empty what is missing.",
    ),
    "numbers among text": (
        "userId,group\n1,young\n2,old\n3,50\n4,60\n5,old\n",
        "{path}: line 4 has '50' in the column 'group', whose other values are text (1 more like it): make all",
    ),
    "not a number": (
        "userId,age\n1,30\n2,NaN\n3,50\n",
        "{path}: line 3 has 'NaN' in the column 'age': leave it empty where nothing is known.",
    ),
    "infinite": (
        "userId,age\n1,30\n2,40\n3,-inf\n",
        "{path}: line 4 has '-inf', infinite, in the column 'age': correct it, or leave it empty.",
    ),
    "too large": ("userId,age\n1,30\n2,1e200\n", "line 3 has '1e200', too large to be squared, in the column 'age'"),
    "constant columns": (
        "userId,age,country\n1,30,DE\n2,30,DE\n",
        "the features in {path} have no column in which two ids differ (['age', 'country'] are the same for all)",
    ),
    "no other column": ("userId\n1\n2\n", "the features in {path} have ids and no other column"),
    "no column of ids": (
        "age,country\nold,DE\nyoung,FR\n",
        "{path}: no column looks like that of the users' ids; call it 'userId'. There are: age, country.",
    ),
    "no names": ("1,30\n2,40\n", "{path} has no line with the names of its columns: begin it with one, such as userId"),
    "a name twice": ("userId,age,age\n1,2,3\n2,3,4\n", "{path}: two columns have the same name, 'age': rename one"),
    "an id left out": ("userId,age\n1,30\n,40\n", "{path}: line 3 has no user in the column 'userId'."),
    "no common ids": (
        "userId,age\n901,30\n902,40\n",
        "the features in {path} share no id with the ratings (their first is 901, that of the ratings 1): give both",
    ),
    "names in place of categories": (
        "userId,name\n" + "".join(f"{one},person {one}\n" for one in range(1, 42)),
        "the column 'name' of the features in {path} has 41 categories for 41 ids (first: 'person 1')",
    ),
}


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("name", ["fit", "evaluate", "compare", "tune"])
def test_a_bad_table_of_features_ends_in_one_sentence_before_the_fit(command, fits, tmp_path, name, bad):
    content, answer = BAD[bad]
    path = tmp_path / "users.csv"
    if content is not None:
        path.write_text(content)
    _, err = command(f"{name} ratings.csv {output_of(name, tmp_path)} --user-features {path}", code=1)
    errors = [line for line in err.splitlines() if line.startswith("Error: ")]
    assert len(errors) == 1
    assert answer.format(path=path) in errors[0]
    assert not fits
    assert {one.name for one in tmp_path.iterdir()} <= {"users.csv"}


@pytest.mark.parametrize(
    ("values", "answer"),
    [
        ([1.0, float("inf"), 3.0], "row 2 has inf, infinite, in the column 'age'"),
        ([[1], [2], [3]], "the column 'age' of the features in {path} holds List"),
        (pl.Series(["2020-01-01"] * 3).str.to_date(), "the column 'age' of the features in {path} holds Date: give"),
    ],
)
def test_columns_of_parquet_files_that_are_no_features_are_refused(command, tmp_path, values, answer):
    path = tmp_path / "users.parquet"
    pl.DataFrame({"userId": [1, 2, 3], "age": values}).write_parquet(path)
    _, err = command(f"fit ratings.csv -o {tmp_path}/m.safetensors --user-features {path}", code=1)
    assert answer.format(path=path) in err


def test_text_of_a_parquet_file_is_of_categories_also_where_it_looks_like_numbers_and_nan_is_missing(command, tmp_path):
    path = tmp_path / "users.parquet"
    columns = {"job": [str(one % 3) for one in range(40)], "age": [float("nan"), *range(39)]}
    pl.DataFrame({"userId": range(1, 41), **columns}, strict=False).write_parquet(path)
    command(f"fit ratings.csv -o {tmp_path}/m.safetensors --user-features {path} {QUICK}")
    names = [one.feature for one in boundrec.load(tmp_path / "m.safetensors").feature_effects_]
    assert names == ["job=0", "job=1", "job=2", "age", "age missing"]


def test_what_is_left_out_or_lacking_is_noted_once_with_the_name_of_the_file(command, tmp_path):
    path = tmp_path / "users.csv"
    path.write_text("userId,age,country\n1,30,DE\n2,40,DE\n3,50,DE\n")
    _, err = command(f"tune ratings.csv --k 2,3 --sweeps 4 --user-features {path}")
    assert (
        err.count(f"Note: 1 of 2 columns of the features in {path} are the same for all and left out: 'country'.") == 1
    )
    assert err.count(f"Note: 37 of 40 ids of the ratings are not in the features in {path} (first: 4)") == 1
    assert "user_features" not in err


# --- explain ------------------------------------------------------------------------------------------------------


def figures(line):
    """The numbers of a line of the table, those in its name left out."""
    return [float(one) for one in re.findall(r"(?<=\s)[-+]?[\d,]+\.\d+(?=\s|$)", line)]


@pytest.mark.parametrize("top", [0, 1, 3, 10, 100])
@pytest.mark.parametrize("pair", ["1 film_12", f"{COLD_USER} film_12", f"2 {COLD_ITEM.replace(' ', '_')}"])
def test_the_parts_of_a_prediction_add_up_on_the_screen(command, model, top, pair):
    out, _ = command(f"explain model.safetensors {pair} --top {top}")
    head, _, *lines = out.splitlines()
    assert head.split("  ")[-1].strip() == "part"
    names = [re.split(r"\s{2,}", line)[0].strip() for line in lines]
    assert (names[0], names[-2:]) == ("usual", ["remainder", "prediction"])
    last = [round(1000 * figures(line)[-1]) for line in lines]
    assert sum(last[:-1]) == last[-1]
    for line in lines[1:-2]:
        if len(figures(line)) == 4 or "other rating" in line:
            *_, by_value, by_choice, part = (round(1000 * one) for one in figures(line))
            assert by_value + by_choice == part
    ratings = [name for name in names if name.startswith("film ")]
    assert len(ratings) <= top
    assert sum("other rating" in name for name in names) == (pair.startswith(("1 ", "2 ")) and top < 100)


def test_an_explanation_for_machines_is_that_of_the_library(command, model):
    out, _ = command("explain model.safetensors 1 film_12 --top 2 --json")
    found, why = json.loads(out), boundrec.load(model).explain(1, "film 12")
    assert (found["user"], found["item"]) == (1, "film 12")
    assert found["prediction"] == pytest.approx(why.prediction)
    assert [one["item"] for one in found["ratings"]] == [one.item for one in why.ratings[:2]]
    assert found["ratings"][0]["total"] == pytest.approx(why.ratings[0].total)
    assert found["other_ratings"]["count"] == len(why.ratings) - 2
    assert (len(found["features"]), found["other_features"]["count"]) == (2, 1)
    parts = [one["total"] for one in (*found["ratings"], *found["features"])]
    rest = found["other_ratings"]["total"] + found["other_features"]["total"] + found["remainder"]
    assert found["usual"] + sum(parts) + rest == pytest.approx(found["prediction"])


@pytest.mark.parametrize(
    ("fit", "answer"),
    [
        (
            "--implicit off",
            "m.safetensors holds no ratings to explain by: fit it again, with boundrec fit --keep-ratings.",
        ),
        ("--model mbmf --keep-ratings", "is a model of the kind mbmf, which cannot explain what it predicts"),
    ],
)
def test_a_model_that_cannot_explain_says_what_to_do(command, tmp_path, fit, answer):
    path = tmp_path / "m.safetensors"
    command(f"fit ratings.csv -o {path} {fit} {QUICK}")
    assert answer in command(f"explain {path} 1 film_12", code=1)[1]


@pytest.mark.parametrize(
    ("pair", "code", "answer"),
    [
        ("99 film_12", 1, "Error: The model does not know user 99: pass the id of one that has ratings or features"),
        ("1 nothing", 1, "Error: The model does not know item 'nothing'"),
        ("-- -1 film_12", 1, "Error: The model does not know user -1"),
        ("1 film_12 --lower 0 --upper 5", 2, "model.safetensors has one range for all: leave out --lower and --upper."),
        ("1 film_12 --top -1", 2, "--top"),
        ("1", 2, "ITEM"),
    ],
)
def test_a_pair_that_cannot_be_explained_is_told(command, model, pair, code, answer):
    assert answer in command(f"explain model.safetensors {pair}", code=code)[1]


def test_a_pair_whose_range_came_with_the_rows_is_explained_in_the_range_that_is_given(command, tmp_path):
    rng = np.random.default_rng(0)
    users, items = np.divmod(np.arange(15 * 12), 12)
    seats = rng.integers(50, 2000, users.size)
    passengers = (seats * rng.uniform(0.5, 1, users.size)).astype(int)
    frame = pl.DataFrame({"user": users, "item": items, "rating": passengers, "seats": seats})
    frame.write_csv(tmp_path / "flights.csv")
    path = tmp_path / "m.safetensors"
    command(f"fit {tmp_path}/flights.csv -o {path} --lower 0 --upper seats --keep-ratings {QUICK}")
    assert "this pair needs its own: pass --lower and --upper" in command(f"explain {path} 1 2", code=2)[1]
    assert "this pair needs its own: pass --lower and --upper" in command(f"explain {path} 1 2 --upper 9", code=2)[1]
    assert "--lower 9 is above --upper 5" in command(f"explain {path} 1 2 --lower 9 --upper 5", code=2)[1]
    out, _ = command(f"explain {path} 1 2 --lower 0 --upper 180 --json")
    assert 0 <= json.loads(out)["prediction"] <= 180
    out, _ = command(f"explain {path} 1 2 --lower 0 --upper 1800 --top 1")
    last = [round(10 * float(line.split()[-1].replace(",", ""))) for line in out.splitlines()[2:]]
    assert sum(last[:-1]) == last[-1]


# --- info and help ------------------------------------------------------------------------------------------------


def test_info_tells_of_features_sets_and_noise(command, model, tmp_path):
    out, _ = command("info model.safetensors")
    assert "features: 3 of users (age, gender=F, gender=M), 1 of items (year)\n" in out
    assert (
        "who rated what: 30 items in sets of users, 40 users in sets of items   noise: of each user's and item" in out
    )
    found = json.loads(command("info model.safetensors --json")[0])["besides_ratings"]
    assert found["user_features"] == ["age", "gender=F", "gender=M"]
    assert (found["in_sets_of_users"], found["in_sets_of_items"], found["noise"]) == (30, 40, "own")
    command(f"fit ratings.csv -o {tmp_path}/m.safetensors --implicit off --noise one {QUICK}")
    out, _ = command(f"info {tmp_path}/m.safetensors")
    assert "who rated what: not used   noise: one for all\n" in out
    assert "features: " not in out
    command(f"fit ratings.csv -o {tmp_path}/m.safetensors --model mf {QUICK}")
    assert "who rated what" not in command(f"info {tmp_path}/m.safetensors")[0]


@pytest.mark.parametrize("name", ["fit", "evaluate", "compare", "tune"])
def test_the_help_of_every_fit_has_the_options_and_an_example_of_features(command, name):
    out, _ = command(f"{name} --help")
    for option in ("--user-features", "--item-features", "--implicit", "--noise"):
        assert f" {option} " in out
    assert "-features" in out.split("Examples")[-1]


def test_the_report_draws_what_features_say_and_why_a_prediction_is_what_it_is(command, model, tmp_path):
    command(f"report model.safetensors ratings.csv -o {tmp_path}/page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "What features say" in page
    assert "All features: how much higher" in page
    assert "Why a prediction is what it is" in page
    assert re.search(r"Why \d+ gets [0-9.]+ for film \d\d, where somebody typical would get [0-9.]+", page)
    command(f"fit ratings.csv -o {tmp_path}/m.safetensors {QUICK}")
    command(f"report {tmp_path}/m.safetensors ratings.csv -o {tmp_path}/plain.html")
    page = (tmp_path / "plain.html").read_text(encoding="utf-8")
    assert "What features say" not in page
    assert "Why a prediction" not in page  # its file has no ratings to explain it by
