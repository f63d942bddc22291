"""Ranges of pairs through the command: columns of the table of ratings, or a table of ranges beside it."""

import json
import warnings
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from sklearn.exceptions import ConvergenceWarning

import boundrec
from boundrec.cli.rating_tables import ColumnNames, read_ratings
from boundrec.cli.table_files import TableFile
from boundrec.data.ratings import Ends, Ratings
from boundrec.report import plots

COLUMNS = ["--user", "origin", "--item", "destination", "--rating", "passengers"]
OWN = ["--lower", "0", "--upper", "seats"]
QUICK = ["--k", "2", "--sweeps", "4"]


def write_flights(path, n_users=25, n_items=20, seed=0):
    """Passengers of invented flights, whose seats differ by a factor of hundreds; none above its capacity."""
    rng = np.random.default_rng(seed)
    user, item = np.nonzero(rng.random((n_users, n_items)) < 0.5)
    seats = np.ceil(10 ** rng.uniform(0.5, 3, user.size))
    load = 1 / (1 + np.exp(-(0.8 + rng.normal(0, 0.7, n_users)[user] + rng.normal(0, 0.7, n_items)[item])))
    frame = pl.DataFrame(
        {
            "origin": [f"A{one:02}" for one in user],
            "destination": [f"B{one:02}" for one in item],
            "passengers": np.round(load * seats),
            "seats": seats,
        }
    )
    frame.write_csv(path)
    return frame


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("flights")
    frame = write_flights(folder / "flights.csv")
    largest = frame.group_by("destination", maintain_order=True).agg(upper=pl.col("seats").max())
    largest.with_columns(lower=pl.lit(0)).write_csv(folder / "by_item.csv")
    by_user = frame.group_by("origin", maintain_order=True).agg(most=pl.col("seats").max())
    by_user.write_ndjson(folder / "by_user.ndjson")
    pairs = frame.select("destination", "origin", lower=pl.lit(0.0), upper="seats")
    pairs.write_parquet(folder / "by_pair.parquet")
    return folder


@pytest.fixture(scope="module")
def models(folder):
    """Models whose ranges came with the rows, and by a table of each kind."""
    from boundrec import MBMF, BayesianMBMF, PerItem, PerPair

    frame = pl.read_csv(folder / "flights.csv")
    X, y = frame.select("origin", "destination"), frame["passengers"]
    by_item = pl.read_csv(folder / "by_item.csv")
    by_pair = pl.read_parquet(folder / "by_pair.parquet").select("origin", "destination", "lower", "upper")
    settings = {"n_factors": 2, "max_iter": 4, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        BayesianMBMF(**settings).fit(X, y, lower=0, upper=frame["seats"]).save(folder / "rows.safetensors")
        MBMF(bounds=PerItem(by_item), **settings).fit(X, y).save(folder / "items.safetensors")
        MBMF(bounds=PerPair(by_pair), **settings).fit(X, y).save(folder / "pairs.safetensors")
        MBMF(bounds=(0, 2000), **settings).fit(X, y).save(folder / "one.safetensors")


# --- fit and predict ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["mbmf", "bayesian"])
def test_a_capacity_column_bounds_every_prediction(command, folder, tmp_path, model):
    path = tmp_path / "model.safetensors"
    out, err = command(" ".join(["fit flights.csv -o", str(path), "--model", model, *COLUMNS, *OWN, *QUICK]))
    assert f"{model}: a range for every pair, which comes with the rows, 4 sweeps" in out
    assert "No --bounds given" not in err
    out, _ = command(f"predict {path} flights.csv --user origin --item destination {' '.join(OWN)}")
    frame, flights = pl.read_csv(out.encode()), pl.read_csv(folder / "flights.csv")
    assert frame["upper"].to_list() == flights["seats"].to_list()
    assert (frame["lower"] == 0).all()
    assert frame["prediction"].is_between(frame["lower"], frame["upper"]).all()
    assert frame["prediction"].n_unique() > 0.9 * len(frame)


def test_a_fit_by_columns_is_the_fit_of_the_library(command, folder, tmp_path):
    path = tmp_path / "model.safetensors"
    command(" ".join(["fit flights.csv -o", str(path), "--model", "mbmf", *COLUMNS, *OWN, *QUICK]))
    frame = pl.read_csv(folder / "flights.csv")
    X, upper = frame.select("origin", "destination"), frame["seats"]
    model = boundrec.MBMF(n_factors=2, max_iter=4, random_state=0).fit(X, frame["passengers"], lower=0, upper=upper)
    found = boundrec.load(path).predict(X, lower=0, upper=upper)
    np.testing.assert_allclose(found, model.predict(X, lower=0, upper=upper), rtol=1e-6)


def test_fit_answers_in_json_what_the_ranges_are(command, tmp_path):
    path = tmp_path / "model.safetensors"
    out, _ = command(" ".join(["fit flights.csv -o", str(path), *COLUMNS, *QUICK, "--bounds-file by_item.csv --json"]))
    result = json.loads(out)
    assert result["bounds"] is None
    assert result["ranges"].startswith("a range for each of 20 items, from 0 to ")


@pytest.mark.parametrize(
    ("table", "words", "rule"),
    [
        ("by_item.csv", "a range for each of 20 items", boundrec.PerItem),
        ("by_user.ndjson --lower 0 --upper most", "a range for each of 25 users", boundrec.PerUser),
        ("by_user.ndjson --lower 0", "a range for each of 25 users", boundrec.PerUser),
        ("by_pair.parquet", "pairs, from 0 to", boundrec.PerPair),
        ("by_pair.parquet --bounds 0 7", "in all, 0 to 7 for others", boundrec.PerPair),
    ],
)
def test_a_table_of_ranges_is_known_by_its_columns(command, folder, tmp_path, table, words, rule):
    path = tmp_path / "model.safetensors"
    fit = " ".join(["fit flights.csv -o", str(path), "--model", "mbmf", *COLUMNS, *QUICK, "--bounds-file", table])
    _, err = command(fit)
    assert words in err
    assert type(boundrec.load(path).fitted_.rule) is rule
    out, _ = command(f"predict {path} flights.csv --user origin --item destination")
    frame = pl.read_csv(out.encode())
    assert frame["prediction"].is_between(frame["lower"], frame["upper"]).all()
    if "by_pair" in table:
        assert frame["upper"].to_list() == pl.read_csv(folder / "flights.csv")["seats"].to_list()


def test_ids_of_a_table_of_ranges_are_those_of_the_ratings_whatever_their_type(command, tmp_path):
    lines = "".join(f"{user},{item},{user + item}\n" for user in range(4) for item in range(3))
    (tmp_path / "ratings.csv").write_text("user,item,rating\n" + lines)
    frame = pl.DataFrame({"user": ["3", "2", "1", "0"], "lower": [0, 0, 0, 0], "upper": [9, 8, 7, 6]})
    frame.write_parquet(tmp_path / "ranges.parquet")  # text there, whole numbers here
    path = tmp_path / "model.safetensors"
    command(f"fit {tmp_path}/ratings.csv -o {path} --k 2 --sweeps 2 --bounds-file {tmp_path}/ranges.parquet")
    out, _ = command(f"predict {path} {tmp_path}/ratings.csv")
    assert pl.read_csv(out.encode())["upper"].to_list() == [6] * 3 + [7] * 3 + [8] * 3 + [9] * 3


def test_a_model_with_a_table_needs_no_ranges_and_takes_others_beside_the_pairs(command, models):
    ask = "predict items.safetensors flights.csv --user origin --item destination"
    own, given = (pl.read_csv(command(text)[0].encode()) for text in (ask, f"{ask} --lower 0 --upper seats"))
    assert (given["upper"] <= own["upper"]).all()
    assert (given["upper"] < own["upper"]).any()
    assert (given["prediction"] <= given["upper"]).all()


def test_two_numbers_are_the_range_of_all_rows_that_are_predicted(command, models, tmp_path):
    ask = "predict rows.safetensors flights.csv --user origin --item destination --lower 0 --upper"
    narrow, wide = (pl.read_csv(command(f"{ask} {end}")[0].encode()) for end in (50, 100))
    assert (narrow["upper"] == 50).all()
    assert (narrow["prediction"] <= 50).all()
    np.testing.assert_allclose(2 * narrow["prediction"].to_numpy(), wide["prediction"].to_numpy())
    names = " ".join(COLUMNS)
    command(f"report rows.safetensors flights.csv {names} --lower 0 --upper 2000 -o {tmp_path}/page.html")
    command(f"evaluate flights.csv --fitted rows.safetensors {names} --lower 0 --upper 2000")
    assert "--lower 9 is above --upper 5: exchange them." in command(f"{ask.replace('--lower 0', '--lower 9')} 5", 1)[1]
    _, err = command(f"predict one.safetensors {ask.split(maxsplit=2)[2]} 50", code=2)
    assert "has one range for all, 0 to 2,000" in err


def test_settings_of_counts_and_of_noise_are_taken(command, tmp_path):
    path = tmp_path / "model.safetensors"
    start = " ".join(["fit flights.csv -o", str(path), *COLUMNS, *QUICK])
    command(f"{start} --lower 0 --upper seats --set noise_growth=0.5 --set link=log1p")
    model = boundrec.load(path)
    assert (model.noise_growth, model.link, model.fitted_.ranges.scale.growth) == (0.5, "log1p", 0.5)
    command(f"{start} --bounds 0 none --set link=log1p --model mbmf")
    assert boundrec.load(path).link == "log1p"
    out, _ = command(f"predict {path} flights.csv --user origin --item destination")
    assert (pl.read_csv(out.encode())["prediction"] >= 0).all()
    _, err = command(f"{start} --lower 0 --upper seats --set noise_growth=2", code=2)
    assert "--set noise_growth=2: give" in err


# --- measuring ------------------------------------------------------------------------------------------------


def test_evaluate_counts_what_leaves_its_own_range_beside_the_mean_share(command):
    out, err = command(" ".join(["evaluate flights.csv --model mbmf --json", *COLUMNS, *OWN, *QUICK]))
    result = json.loads(out)
    found = {row["model"]: row for row in result["results"]}
    assert set(found) == {"mean + offsets", "mean share", "mbmf"}
    assert found["mean + offsets"]["outside_bounds"] > 0.1
    assert found["mean share"]["outside_bounds"] == found["mbmf"]["outside_bounds"] == 0
    assert found["mbmf"]["rmse"] < found["mean + offsets"]["rmse"]
    assert (result["bounds"], result["ranges"]) == (None, "a range for every pair, which comes with the rows")
    assert "No lists: only pairs in the table have a range" in err


def test_a_mean_share_is_the_load_of_all_ratings(command, folder):
    frame = pl.read_csv(folder / "flights.csv")
    out, _ = command(" ".join(["evaluate flights.csv --test flights.csv --model mbmf --json", *COLUMNS, *OWN, *QUICK]))
    load = frame["passengers"].sum() / frame["seats"].sum()
    rmse = ((frame["passengers"] - load * frame["seats"]) ** 2).mean() ** 0.5
    assert json.loads(out)["results"][1]["rmse"] == pytest.approx(rmse)


def test_with_a_table_of_ranges_lists_are_measured_too(command):
    text = " ".join(["evaluate flights.csv --model mbmf --json", *COLUMNS, *QUICK, "--bounds-file by_item.csv"])
    found = {row["model"]: row for row in json.loads(command(text)[0])["results"]}
    assert found["mbmf"]["outside_bounds"] == 0
    assert 0 <= found["mbmf"]["ndcg@10"] <= 1
    assert "popularity" in found


def test_a_test_file_has_ranges_of_its_own(command, tmp_path):
    frame = write_flights(tmp_path / "test.csv", seed=1)
    frame.with_columns(pl.col("seats") * 1000, pl.col("passengers") * 1000).write_csv(tmp_path / "test.csv")
    text = f"evaluate flights.csv --test {tmp_path}/test.csv --model mbmf --json"
    found = json.loads(command(" ".join([text, *COLUMNS, *OWN, *QUICK]))[0])["results"]
    assert found[-1]["outside_bounds"] == 0
    assert found[-1]["rmse"] > 1000  # predictions follow the test's own capacities
    frame.drop("seats").write_csv(tmp_path / "test.csv")
    _, err = command(" ".join([text, *COLUMNS, *OWN, *QUICK]), code=1)
    assert "test.csv has no column 'seats' (--upper). There are: origin, destination, passengers." in err


def test_held_out_ratings_are_said_to_be_those_of_the_file_that_they_are_from(command):
    _, err = command(" ".join(["evaluate flights.csv --test flights.csv --model mbmf", *COLUMNS, *OWN, *QUICK]))
    assert "held out (those of flights.csv)" in err
    _, err = command(" ".join(["evaluate flights.csv --model mbmf", *COLUMNS, *OWN, *QUICK]))
    assert "held out (random ones)" in err


def test_a_fitted_model_is_measured_in_the_ranges_of_the_rows(command, models):
    names = " ".join(COLUMNS)
    found = json.loads(command(f"evaluate flights.csv --fitted rows.safetensors {names} --json {' '.join(OWN)}")[0])
    assert [row["model"] for row in found["results"]] == ["bayesian"]
    assert found["results"][0]["outside_bounds"] == 0
    found = json.loads(command(f"evaluate flights.csv --fitted items.safetensors {names} --json")[0])
    assert found["results"][-1]["outside_bounds"] == 0


def test_rivals_that_know_one_range_get_the_observed_one_and_are_seen_to_leave_the_pairs_own(command, tmp_path):
    text = f"compare flights.csv --models mbmf,bmf,nmf --json -o {tmp_path}/plot.svg"
    out, err = command(" ".join([text, *COLUMNS, *OWN, *QUICK]))
    found = {row["model"]: row for row in json.loads(out)["results"]}
    assert "bmf, nmf take one range for all, the observed one, " in err
    assert found["mbmf"]["outside_bounds"] == 0
    assert found["bmf"]["outside_bounds"] > 0
    assert found["nmf"]["outside_bounds"] > 0
    assert (tmp_path / "plot.svg").read_text().count("<path") > 10
    out, _ = command(" ".join([text.replace("--json ", ""), *COLUMNS, *OWN, *QUICK]))
    assert "outside own range" in out


def test_tune_tries_growths_of_noise_and_prints_a_command_that_works(command, tmp_path, monkeypatch):
    out, _ = command(
        " ".join(["tune flights.csv --model mbmf --k 2 --sweeps 3 --grid noise_growth=auto,0,1", *COLUMNS, *OWN])
    )
    assert "noise_growth" in out
    best = out.strip().splitlines()[-1]
    assert "--lower 0 --upper seats" in best
    assert "--set noise_growth=" in best
    command(best.removeprefix("boundrec ").replace("model.safetensors", str(tmp_path / "m.safetensors")))
    out, _ = command(
        " ".join(
            ["tune flights.csv --model mbmf --k 2 --sweeps 2 --grid ridge=0.1 --bounds-file by_item.csv", *COLUMNS]
        )
    )
    assert "--bounds-file by_item.csv" in out.strip().splitlines()[-1]


# --- lists ----------------------------------------------------------------------------------------------------


def test_lists_by_a_table_keep_its_ranges_also_where_ranges_came_with_the_rows(command, models, folder):
    upper = dict(pl.read_csv(folder / "by_item.csv").select("destination", "upper").iter_rows())
    for model in ("rows.safetensors", "items.safetensors"):
        out, err = command(f"recommend {model} A03 A07 -n 5 --bounds-file by_item.csv")
        assert "by_item.csv: a range for each of 20 items" in err
        frame = pl.read_csv(out.encode())
        assert frame["upper"].to_list() == [upper[item] for item in frame["item"]]
        assert frame["score"].is_between(frame["lower"], frame["upper"]).all()
    assert len(frame) == 10


def test_columns_of_a_table_for_lists_can_be_named(command, models, folder):
    table = pl.read_parquet(folder / "by_pair.parquet").rename({"origin": "from", "destination": "to"})
    table.write_csv(folder / "renamed.csv")
    ask = "recommend rows.safetensors A03 -n 3 --with-seen --bounds-file"
    named, _ = command(f"{ask} renamed.csv --user from --item to")
    assert named == command(f"{ask} by_pair.parquet")[0]
    assert "renamed.csv has no column 'origin' (--user)." in command(f"{ask} renamed.csv --user origin", code=1)[1]


def test_pairs_that_a_table_lacks_are_left_out_of_lists_and_said_once(command, models):
    out, err = command("recommend pairs.safetensors --with-seen -n 3")
    frame = pl.read_csv(out.encode())
    assert frame["score"].is_between(frame["lower"], frame["upper"]).all()
    assert err.count("pairs without a range are left out") == 1
    _, err = command("recommend pairs.safetensors")  # only rated pairs have a range
    assert "25 of 25 users have no unseen item with a range, and get no list" in err


# --- report and info ------------------------------------------------------------------------------------------


def test_the_report_draws_pairs_in_their_ranges_and_lists_those_nearest_to_the_ends(command, models, tmp_path, folder):
    page = tmp_path / "report.html"
    command(" ".join([f"report rows.safetensors flights.csv -o {page}", *COLUMNS, *OWN]))
    text = page.read_text()
    frame = pl.read_csv(folder / "flights.csv")
    assert f"All {len(frame):,} predictions lie inside their ranges" in text
    assert "40 pairs, each in its own range" in text
    out, _ = command("predict rows.safetensors flights.csv --user origin --item destination --lower 0 --upper seats")
    answers = pl.read_csv(out.encode())
    share = (answers["prediction"] / answers["upper"]).to_numpy()
    for heading, row in (("upper", share.argmax()), ("lower", share.argmin())):
        after = text[text.index(f"Nearest to the {heading} end") :]
        pair = after[after.index("<tbody><tr><th>") :].removeprefix("<tbody><tr><th>").partition("<")[0]
        assert pair == f"{frame['origin'][int(row)]} × {frame['destination'][int(row)]}"


def test_the_report_of_one_range_has_no_lists_of_pairs(command, models, tmp_path):
    command(" ".join([f"report one.safetensors flights.csv -o {tmp_path}/report.html", *COLUMNS]))
    assert "Nearest to the upper end" not in (tmp_path / "report.html").read_text()


def test_the_report_calls_no_contradiction_what_the_fit_does_not_reach(command, models, tmp_path, folder):
    frame = pl.read_csv(folder / "flights.csv")
    page = tmp_path / "report.html"
    far = frame.with_columns(
        pl.when(pl.int_range(pl.len()) < 3).then(1900.0).otherwise("passengers").alias("passengers")
    )
    far.write_csv(tmp_path / "far.csv")
    command(" ".join([f"report one.safetensors {tmp_path}/far.csv -o {page}", *COLUMNS]))
    text = page.read_text()
    assert "the others lie beyond what the fit reaches" in text
    assert "docs/choosing-bounds.md#bounds-are-a-promise" in text
    assert "contradict the ranges" not in text
    far.with_columns(pl.col("passengers").replace(1900.0, 2100.0)).write_csv(tmp_path / "far.csv")  # past 0 to 2000
    command(" ".join([f"report one.safetensors {tmp_path}/far.csv -o {page}", *COLUMNS]))
    assert "3 contradict the ranges that the model was given" in page.read_text()


@pytest.mark.parametrize("model", ["rows", "pairs"])
def test_items_in_ranges_of_their_own_are_as_certain_as_their_shares_are(command, models, tmp_path, folder, model):
    frame, page = pl.read_csv(folder / "flights.csv"), tmp_path / "report.html"
    command(" ".join([f"report {model}.safetensors flights.csv -o {page}", *COLUMNS, *OWN]))
    X, upper = frame.select("origin", "destination"), frame["seats"]
    fitted = boundrec.load(folder / f"{model}.safetensors")
    if model == "rows":
        score, head = fitted.predict(X, return_std=True, lower=0, upper=upper)[1] / upper.to_numpy(), "std ÷ width"
    else:
        score = ((fitted.predict(X, lower=0, upper=upper) - frame["passengers"]) / upper).to_numpy() ** 2
        head = "RMSE ÷ width"
    by_item = frame.with_columns(score=score).group_by("destination").agg(pl.col("score").mean(), n=pl.len())
    best = by_item.filter(pl.col("n") >= 5).sort("score")["destination"]
    text = page.read_text()
    assert f"<th>{head}</th>" in text
    for heading, item in (("Most certain", best[0]), ("Least certain", best[-1])):
        after = text[text.index(f"<h3>{heading}") :]
        assert after[after.index("<tbody><tr><th>") :].startswith(f"<tbody><tr><th>{item}<")


@pytest.mark.parametrize(
    ("value", "shown"),
    [(1866.4, "1,870"), (35549.0, "35.5k"), (0.5, "0.5"), (1234567.0, "1.23M"), (-20000.0, "-20k"), (0.0, "0")],
)
def test_figures_of_an_axis_have_no_exponents(value, shown):
    assert plots.figure_in_short(value) == shown


@pytest.mark.parametrize(("widest", "scale"), [(50.0, "linear"), (50_000.0, "log")])
def test_widths_that_are_far_apart_are_drawn_by_their_logarithms(widest, scale):
    canvas = plots.widths(np.append(np.geomspace(1, widest, 200), 0.0))
    (axes,) = canvas.axes
    assert axes.get_xscale() == scale
    assert ("1 without any" in axes.get_xlabel()) == (scale == "log")
    canvas.draw_without_rendering()
    boxes = [label.get_window_extent() for label in axes.get_xticklabels() if label.get_text()]
    assert len(boxes) >= 3
    assert all(left.x1 < right.x0 for left, right in pairwise(boxes))


def test_info_says_what_the_ranges_are(command, models):
    assert "bounds: a range for every pair, which comes with the rows\n" in command("info rows.safetensors")[0]
    out, _ = command("info items.safetensors")
    assert "bounds: a range for each of 20 items, from 0 to " in out
    assert "noise grows with the width of a range to the power " in out
    assert "bounds: 0 to 2,000\n" in command("info one.safetensors")[0]
    found = json.loads(command("info pairs.safetensors --json")[0])
    assert found["bounds"] is None
    assert " pairs, from 0 to " in found["ranges"]
    assert 0 <= found["noise_growth"] <= 1


def test_info_describes_a_model_whose_ranges_come_from_a_function(command, folder, tmp_path):
    frame = pl.read_csv(folder / "flights.csv")
    model = boundrec.MBMF(
        2, bounds=lambda users, items: (np.zeros(len(users)), np.full(len(users), 2000.0)), max_iter=2
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(frame.select("origin", "destination"), frame["passengers"]).save(tmp_path / "m.safetensors")
    out, _ = command(f"info {tmp_path}/m.safetensors")
    assert "bounds: a range for every pair, by a function, which the file does not hold\n" in out
    (tmp_path / "no.safetensors").write_text("nothing")
    assert "cannot be loaded" in command(f"info {tmp_path}/no.safetensors", code=1)[1]


# --- bad input ------------------------------------------------------------------------------------------------


GOOD = "user,item,rating,lo,hi\n1,a,4,0,5\n1,b,3,0,5\n2,a,2,0,5\n2,b,1,0,5\n"
BAD_ROWS = {
    "lower above upper": ("3,c,4,7,5", "line 6 has a lower end, 7, above the upper one, 5: exchange them."),
    "no end": ("3,c,4,,5", "line 6 has no lower end in the column 'lo': fill it in, or name another with --lower."),
    "NaN": ("3,c,4,0,NaN", "line 6 has 'NaN', not an upper end, in the column 'hi': write a number, "),
    "infinite": ("3,c,4,0,inf", "line 6 has 'inf', not an upper end, in the column 'hi': write a number, "),
    "text": ("3,c,4,0,many", "line 6 has 'many', not an upper end, in the column 'hi': write a number, "),
    "too large": ("3,c,4,0,1e200", "line 6 has '1e200', too large to be squared, in the column 'hi'"),
}


@pytest.mark.parametrize("name", BAD_ROWS)
@pytest.mark.parametrize("start", ["fit FILE -o m", "evaluate FILE", "compare FILE -o p.png", "predict MODEL FILE"])
def test_a_bad_range_is_told_with_its_line(command, models, folder, tmp_path, name, start):
    row, answer = BAD_ROWS[name]
    (tmp_path / "bad.csv").write_text(GOOD + row + "\n")
    text = start.replace("FILE", f"{tmp_path}/bad.csv").replace("MODEL", "rows.safetensors")
    _, err = command(f"{text.replace('-o ', f'-o {tmp_path}/')} --lower lo --upper hi", code=1)
    assert err.strip().splitlines()[-1].startswith("Error: ")
    assert f"bad.csv: {answer}" in err
    assert [one.name for one in tmp_path.iterdir()] == ["bad.csv"]


BAD_TABLES = {
    "lower above upper": ("item,lower,upper\na,0,5\nb,6,5\n", "line 3 has a lower end, 6, above the upper one, 5"),
    "half a range": ("item,lower,upper\na,0,5\nb,0,\n", "line 3 has no upper end in the column 'upper'"),
    "infinite": ("item,lower,upper\na,0,inf\nb,0,5\n", "line 2 has 'inf', not an upper end"),
    "an item twice": (
        "item,lower,upper\na,0,5\nb,0,5\na,0,6\n",
        "line 4 has a second range for item 'a', after line 2",
    ),
    "a pair twice": (
        "user,item,lower,upper\n1,a,0,5\n1,b,0,5\n1,a,0,5\n",
        "line 4 has a second range for user 1, item 'a', after line 2",
    ),
    "an item missing": (
        "item,lower,upper\na,0,5\n",
        "2 of 4 pairs have no range in the table of ranges (first: line 3, user 1, item 'b'): add it there.",
    ),
    "a pair missing": (
        "user,item,lower,upper\n1,a,0,5\n2,a,0,5\n2,b,0,5\n",
        "(first: line 3, user 1, item 'b'): add it there, or give --bounds LOW HIGH as the range of all pairs that",
    ),
    "no ids": ("thing,lower,upper\na,0,5\n", "no column looks like the users' or the items'"),
    "no upper end": (
        "item,lower\na,0\n",
        "no column looks like the upper ends'; call it 'upper', or name it",
    ),
    "no header": ("1,0,5\n", "has no line with the names of its columns"),
    "no rows": ("item,lower,upper\n", "has a header and no rows"),
}


@pytest.mark.parametrize("name", BAD_TABLES)
def test_a_bad_table_of_ranges_is_told_with_its_line(command, tmp_path, name):
    content, answer = BAD_TABLES[name]
    (tmp_path / "ranges.csv").write_text(content)
    (tmp_path / "good.csv").write_text(GOOD)
    _, err = command(f"fit {tmp_path}/good.csv -o {tmp_path}/m --bounds-file {tmp_path}/ranges.csv", code=1)
    assert answer in err.strip().splitlines()[-1]
    assert not (tmp_path / "m").exists()


def test_ids_in_a_table_of_ranges_that_never_occur_are_said_once(command, tmp_path):
    (tmp_path / "good.csv").write_text(GOOD)
    (tmp_path / "ranges.csv").write_text("item,lower,upper\na,0,5\nb,0,5\nbee,0,5\n")
    text = f"compare {tmp_path}/good.csv --models mbmf,bayesian -o {tmp_path}/p.png --k 2 --sweeps 2 --share 0.3"
    _, err = command(f"{text} --bounds-file {tmp_path}/ranges.csv")
    assert err.count("1 of 3 items in the table of ranges have no ratings (first: 'bee')") == 1


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("fit flights.csv -o m --bounds 0 9 --lower 0 --upper seats", "leave out one or the other"),
        ("evaluate flights.csv --upper seats", "--lower is missing: name its column, or give a number"),
        ("tune flights.csv --lower 0", "such as --upper capacity; 0 and no upper end is --bounds 0 none."),
        ("fit flights.csv -o m --lower seats", "name its column, such as --upper capacity."),
        ("predict rows.safetensors flights.csv --lower 0", "name its column, such as --upper capacity."),
        (
            "fit flights.csv -o m --lower 0 --upper seats --set form=n",
            "--set form=n: every pair has a range of its own",
        ),
        ("evaluate flights.csv --bounds-file by_item.csv --set magnitudes=history", "leave it out, or pass --bounds,"),
        ("tune flights.csv --lower 0 --upper seats --set form=n", "--set form=n: every pair has a range of its own"),
        ("fit flights.csv -o m --lower 0 --upper seats --set bounds=columns", "bounds have options of their own"),
        ("fit flights.csv -o m --model nmf --lower 0 --upper seats", "nmf has one range for all: pass --bounds"),
        ("fit flights.csv -o m --history flights.csv --bounds-file by_item.csv", "leave out one or the other"),
        ("predict rows.safetensors flights.csv", "the ranges of rows.safetensors came with its rows"),
        ("report rows.safetensors flights.csv -o m", "such as --lower 0 --upper capacity"),
        ("evaluate flights.csv --fitted rows.safetensors", "came with its rows"),
        ("predict one.safetensors flights.csv --lower 0 --upper seats", "has one range for all, 0 to 2,000"),
        ("recommend rows.safetensors", "lists need one for every pair: pass --bounds-file"),
        ("recommend one.safetensors --bounds-file by_item.csv", "has one range for all, 0 to 2,000"),
        ("recommend items.safetensors --upper seats", "pass it as --bounds-file"),
        ("fit flights.csv -o m --bounds-file by_item.csv --bounds 0 5", "but by_item.csv has ranges of items"),
        ("fit flights.csv -o m --bounds-file by_pair.parquet --bounds 0 none", "has two ends: give both"),
    ],
)
def test_what_contradicts_itself_is_asked_wrongly(command, models, folder, text, answer):
    columns = {"predict": COLUMNS[:4], "recommend": []}.get(text.split()[0], COLUMNS)
    out, err = command(" ".join([text, *columns]), code=2)
    assert out == "" or text.startswith("fit")
    assert answer in " ".join(err.replace("│", " ").split())
    assert not (folder / "m").exists()


@pytest.mark.parametrize(
    ("ends", "answer"),
    [
        ("--lower 0 --upper seat", "flights.csv has no column 'seat' (--upper). There are: origin, "),
        ("--lower 0 --upper 5", "flights.csv has no columns 0 5: one range for all is --bounds 0 5."),
        ("--lower 0 --upper nan", "--upper nan: give a column, or a finite number that stands for all rows."),
        ("--bounds-file by_item.csv --lower 0 --upper 5", "are numbers: name the columns of the table instead."),
        ("--lower -inf --upper seats", "--lower -inf: give a column, or a finite number"),
        ("--lower seats --upper seats", "--lower and --upper name the same column, 'seats': give each its own."),
        ("--lower 0 --upper passengers", "--upper names the column of the ratings, 'passengers': name another."),
    ],
)
def test_columns_of_ranges_that_are_none_are_refused(command, folder, ends, answer):
    _, err = command(" ".join(["fit flights.csv -o m", *COLUMNS, ends]), code=1)
    assert answer in err.strip().splitlines()[-1]
    assert not (folder / "m").exists()


PLACE = "over.csv: 1 of 5 ratings lie outside their own range (first: line 6, user 3, item 'a': 9 > 5)"
SETTLED = {
    "keep": "Note: {}: they are kept; --set on_contradiction=widen (or drop) settles them.",
    "widen": "Note: {}: these ranges are widened.",
    "drop": "Note: {}: they are dropped.",
    "raise": "Error: {}: correct them, or pass --set on_contradiction=widen (or drop).",
}


@pytest.mark.parametrize("how", SETTLED)
def test_a_rating_outside_its_own_range_is_told_once_with_its_line_and_what_becomes_of_it(command, tmp_path, how):
    (tmp_path / "over.csv").write_text(GOOD + "3,a,9,0,5\n")
    fit = f"fit {tmp_path}/over.csv -o {tmp_path}/m --lower lo --upper hi --k 2 --sweeps 2"
    out, err = command(f"{fit} --set on_contradiction={how}", code=how == "raise")
    assert SETTLED[how].format(f"{tmp_path}/{PLACE}") in err
    assert err.count("outside their own range") == 1
    assert ("20.00 % of the ratings lie outside their own range" in out) == (how != "raise")


def test_a_comparison_tells_of_contradictions_without_a_setting_that_it_lacks(command, tmp_path):
    (tmp_path / "over.csv").write_text(GOOD + "3,a,9,0,5\n")
    text = f"compare {tmp_path}/over.csv --models mbmf -o {tmp_path}/p.png --lower lo --upper hi --k 2 --sweeps 2"
    assert f"Note: {tmp_path}/{PLACE}: they are kept.\n" in command(f"{text} --share 0.3")[1]


# --- reading --------------------------------------------------------------------------------------------------


def read(text, **names):
    return read_ratings(TableFile("f", text.encode()), ColumnNames(**names), lambda said: None)


def test_ends_follow_their_ratings_into_the_order_of_users():
    rows = read("user,item,rating,lo,hi\nb,x,1,0,2\na,y,2,1,3\nb,y,3,2,9\na,x,4,3,5\n", lower="lo", upper="hi")
    ratings = rows.settled("raise").ratings
    found = {tuple(pair): ends for pair, *ends in zip(ratings.to_pairs()[0].tolist(), *ratings.ends, strict=True)}
    assert found == {("b", "x"): [0, 2], ("a", "y"): [1, 3], ("b", "y"): [2, 9], ("a", "x"): [3, 5]}


def test_as_many_ends_as_ratings_are_asked_for():
    rows = read("user,item,rating\na,x,1\nb,x,2\n")
    with pytest.raises(ValueError, match=r"lower has 1 values for 2 ratings"):
        Ratings.from_codes(rows.users, rows.items, rows.values, ends=Ends(np.zeros(1), np.ones(2)))


def test_without_a_header_columns_of_ranges_are_not_guessed_to_be_ratings():
    rows = read("1,7,0,5,3\n2,8,1,6,4\n", lower="3", upper="4")
    assert rows.values.tolist() == [3.0, 4.0]
    assert rows.ends == Ends(*map(pytest.approx, ([0.0, 1.0], [5.0, 6.0])))


def test_pairs_that_come_twice_in_different_ranges_have_no_mean():
    rows = read("user,item,rating,hi\na,x,1,4\nb,x,2,4\na,x,3,5\n", lower="0", upper="hi")
    assert rows.settled("last").ratings.ends.upper.tolist() == [5.0, 4.0]
    with pytest.raises(ValueError, match=r"in another range \(first: user 'a', item 'x', line 2 and line 4\)"):
        rows.settled("mean")
