"""The page about a model: whose error heads it, what it warns of, and the lists that it shows."""

import json
import re

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rating_files import write_ratings

import boundrec
from boundrec import metrics
from boundrec.cli.held_out import Learnt
from boundrec.report import lists


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Ratings in two parts, and two models of the first."""
    folder = tmp_path_factory.mktemp("report")
    table = pl.read_csv(write_ratings(folder / "ratings.csv", n_users=60))
    held = np.random.default_rng(1).random(len(table)) < 0.2
    table.filter(~held).write_csv(folder / "training.csv")
    table.filter(held).write_csv(folder / "test.csv")
    X, y = table.filter(~held).select("userId", "movieId"), table.filter(~held)["rating"]
    settings = {"bounds": (0.5, 5), "random_state": 0, "affinity": True}
    boundrec.BayesianMBMF(3, max_iter=20, **settings).fit(X, y).save(folder / "bayesian.safetensors")
    boundrec.MBMF(3, max_iter=5, bounds=(0.5, 5), random_state=0).fit(X, y).save(folder / "mbmf.safetensors")
    boundrec.ImplicitMBMF(3, max_iter=2).fit(X).save(folder / "clicks.safetensors")
    return folder


@pytest.fixture
def page(command, folder, tmp_path):
    """The text of the report on a table."""

    def written(table, model="bayesian", more=""):
        command(f"report {model}.safetensors {table} -o {tmp_path}/report.html {more}")
        return (tmp_path / "report.html").read_text(encoding="utf-8")

    return written


def cards(text):
    """What the cards on top say, by their labels."""
    return {label: value for value, label in re.findall(r"<div><b>([^<]+)</b>([^<]+)</div>", text)}


def errors(folder, table):
    model, rows = boundrec.load(folder / "bayesian.safetensors"), pl.read_csv(folder / table)
    predictions = model.predict(rows.select("userId", "movieId"))
    return rows["rating"].to_numpy(), predictions


# --- the headline -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("table", "label"), [("test.csv", "held out"), ("training.csv", "in sample")])
def test_the_headline_says_whether_the_model_has_seen_these_ratings(page, folder, table, label):
    text = page(table)
    shown, (y, predictions) = cards(text), errors(folder, table)
    assert float(shown[f"RMSE, {label}"]) == pytest.approx(metrics.rmse(y, predictions), abs=1e-4)
    assert float(shown[f"MAE, {label}"]) == pytest.approx(metrics.mae(y, predictions), abs=1e-4)
    assert float(shown["RMSE of their mean"]) == pytest.approx(float(np.std(y)), abs=1e-3)
    assert ("the errors are those to expect" in text) == (label == "held out")
    assert ("fitted to all of these ratings" in text) == (label == "in sample")


def test_of_ratings_old_and_new_the_new_ones_count(page, folder):
    text = page("ratings.csv")
    shown, (y, predictions) = cards(text), errors(folder, "test.csv")
    assert shown["ratings"] == str(y.size)
    assert float(shown["RMSE, held out"]) == pytest.approx(metrics.rmse(y, predictions), abs=1e-4)
    assert f"{len(pl.read_csv(folder / 'training.csv')):,} are left out" in text


def test_a_handful_of_new_ratings_makes_no_headline(page, folder, tmp_path):
    few = pl.concat([pl.read_csv(folder / "training.csv"), pl.read_csv(folder / "test.csv").head(5)])
    few.write_csv(tmp_path / "few.csv")
    text = page(tmp_path / "few.csv")
    assert "RMSE, in sample" in cards(text)
    assert cards(text)["ratings"] == f"{len(few):,}"
    assert re.search(r"fitted to \d\d\.\d\d % of these", text)


@pytest.mark.parametrize(("how", "times"), [("last", 1), ("mean", 2 / 3), ("sum", 4 / 3)])
def test_pairs_that_come_twice_are_settled_as_elsewhere(command, page, folder, tmp_path, how, times):
    rows = pl.read_csv(folder / "test.csv")
    twice = pl.concat([rows.with_columns(rating=pl.col("rating") / 3), rows])
    twice.write_csv(tmp_path / "twice.csv")
    _, err = command(f"report bayesian.safetensors {tmp_path}/twice.csv -o {tmp_path}/report.html", code=1)
    assert f"{len(rows):,} ratings are of a pair that was rated before" in err
    assert "pass --duplicates last or --duplicates mean" in err
    shown, (y, predictions) = (
        cards(page(tmp_path / "twice.csv", more=f"--duplicates {how}")),
        errors(folder, "test.csv"),
    )
    assert shown["ratings"] == f"{len(rows):,}"
    assert float(shown["RMSE, held out"]) == pytest.approx(metrics.rmse(times * y, predictions), abs=1e-3)
    found, _ = evaluated(command, f"{tmp_path}/twice.csv --fitted bayesian.safetensors --duplicates {how}")
    assert found["rmse"] == pytest.approx(metrics.rmse(times * y, predictions))


# --- warnings ---------------------------------------------------------------------------------------------------


def warnings(text):
    found = re.search(r'<ul class="warnings">(.*?)</ul>', text)
    return re.findall(r"<b>([^<]+)</b>", found[1]) if found else []


def test_where_all_is_well_nothing_is_warned_of(page):
    assert warnings(page("test.csv")) == warnings(page("training.csv")) == []
    assert warnings(page("test.csv", "mbmf")) == []


def test_what_is_worse_than_the_mean_is_said_before_anything_else(page, folder, tmp_path):
    turned = pl.read_csv(folder / "test.csv").with_columns(rating=5.5 - pl.col("rating"))
    turned.write_csv(tmp_path / "turned.csv")
    text = page(tmp_path / "turned.csv")
    assert warnings(text) == ["Worse than the mean", "Intervals not to be believed"]
    assert text.index('class="warnings"') < text.index('class="cards"')
    assert warnings(page(tmp_path / "turned.csv", "mbmf")) == ["Worse than the mean"]


def test_ids_that_the_model_does_not_know_are_warned_of(page, folder, tmp_path):
    others = pl.read_csv(folder / "test.csv").with_columns(pl.col("movieId") + "!")
    others.write_csv(tmp_path / "others.csv")
    assert "Strangers" in warnings(page(tmp_path / "others.csv"))


def test_intervals_that_hold_everything_are_warned_of_too(page, folder, tmp_path):
    rows = pl.read_csv(folder / "test.csv")
    _, predictions = errors(folder, "test.csv")
    rows.with_columns(rating=pl.Series(predictions)).write_csv(tmp_path / "exact.csv")
    assert warnings(page(tmp_path / "exact.csv")) == ["Intervals not to be believed"]


def test_ratings_beyond_all_ranges_are_warned_of(page, folder, tmp_path):
    rows = pl.read_csv(folder / "test.csv").with_columns(rating=10 * pl.col("rating"))
    rows.write_csv(tmp_path / "percent.csv")
    assert "Out of reach" in warnings(page(tmp_path / "percent.csv"))


def test_a_few_ratings_say_too_little_to_warn(page, folder, tmp_path):
    turned = pl.read_csv(folder / "test.csv").with_columns(rating=5.5 - pl.col("rating"))
    turned.head(10).write_csv(tmp_path / "ten.csv")
    assert warnings(page(tmp_path / "ten.csv")) == []


# --- lists ------------------------------------------------------------------------------------------------------


def test_the_lists_are_those_of_the_model(page, folder):
    text, model = page("test.csv"), boundrec.load(folder / "bayesian.safetensors")
    assert "sorted by affinity and predicted rating together" in text
    training = pl.read_csv(folder / "training.csv")
    found = re.findall(r"<h3>(\d+) <small>(\d+) ratings.*?<tbody>(.*?)</tbody>", text)
    assert len(found) == 3
    counts = [int(count) for _, count, _ in found]
    assert counts == sorted(counts)
    assert counts[0] < counts[-1]
    for user, count, body in found:
        assert int(count) == len(training.filter(pl.col("userId") == int(user)))
        items = re.findall(
            r"<tr><th>([^<]+)</th><td>(\d+)</td><td>([\d.]+)</td><td>[\d.]*</td>"
            r"<td class=\"interval\" title=\"(.*?)\"",
            body,
        )
        expected = model.recommend([int(user)], lists.LENGTH)[0][0].tolist()
        assert [item for item, *_ in items] == expected
        for item, raters, rating, interval in items:
            assert int(raters) == len(training.filter(pl.col("movieId") == item))
            assert float(rating) == pytest.approx(model.predict([(int(user), item)])[0], abs=0.006)
            ends = model.predict_quantiles([(int(user), item)], (0.1, 0.9))[0]
            assert interval == f"{ends[0]:,.2f} to {ends[1]:,.2f}"


@pytest.mark.parametrize("table", ["test.csv", "training.csv"])
def test_people_are_shown_with_what_they_rated_highest(page, folder, table):
    text, rows = page(table), pl.read_csv(folder / table)
    found = re.findall(r"<h3>(\d+) <small>\d+ ratings; rated highest in this table: ([^<]+)</small>", text)
    assert len(found) == 3
    for user, highest in found:
        own = rows.filter(pl.col("userId") == int(user)).sort("rating", descending=True, maintain_order=True)
        assert highest == ", ".join(own["movieId"].head(lists.HIGHEST))
    assert "who likes" not in text


def test_items_of_a_list_have_what_they_were_rated_in_the_table(page, folder):
    text, rows = page("test.csv", "mbmf"), pl.read_csv(folder / "test.csv")
    assert "which the model did not know, is beside it" in text
    ratings = {(user, item): rating for user, item, rating in rows.select("userId", "movieId", "rating").iter_rows()}
    hits = 0
    for user, body in re.findall(r"<h3>(\d+) <small>.*?<tbody>(.*?)</tbody>", text):
        for item, rated in re.findall(r"<tr><th>([^<]+)</th><td>\d+</td><td>[\d.]+</td><td>([\d.]*)</td></tr>", body):
            expected = ratings.get((int(user), item))
            assert (float(rated) if rated else None) == expected
            hits += expected is not None
    assert hits > 0


def test_lists_without_an_item_that_was_rated_have_no_column_for_it(page):
    text = page("training.csv", "mbmf")
    assert "<th>predicted</th></tr>" in text
    assert "<th>rated</th>" not in text


def test_a_model_that_is_sure_of_nothing_has_lists_without_bars(page):
    text = page("test.csv", "mbmf")
    assert "sorted by predicted rating." in text
    assert 'class="interval"' not in text
    assert text.count("<th>rated by</th>") == 3


def test_the_page_takes_the_width_of_the_screen(page):
    text = page("test.csv")
    assert '<body class="wide">' in text
    assert text.count('class="broad"') >= 3


@given(st.lists(st.integers(0, 500), min_size=1, max_size=60).filter(any))
def test_who_is_shown_has_ratings_and_the_fewest_come_first(counts):
    shown = lists.people_to_show(np.array(counts))
    chosen = np.array(counts)[shown]
    assert len(set(shown.tolist())) == len(shown) <= lists.PEOPLE
    assert (chosen > 0).all()
    assert (np.diff(chosen) >= 0).all()
    assert len(shown) == min(lists.PEOPLE, np.count_nonzero(counts))


def test_somebody_with_nothing_left_to_recommend_has_no_list():
    X = [("ann", "tea"), ("ann", "rum"), ("bob", "tea"), ("eve", "rum")]
    model = boundrec.BayesianMBMF(2, bounds=(1, 5), max_iter=5, random_state=0).fit(X, [5, 1, 4, 3])
    nothing, something = (lists.list_for(model, row, {}) for row in (0, 1))
    assert nothing.items == []
    assert nothing.intervals is None
    assert something.items == ["rum"]
    shown = lists.lists_section([nothing, something], "predicted rating")
    assert "<h3>bob" in shown
    assert "<h3>ann" not in shown
    assert lists.lists_section([nothing], "predicted rating") == ""


# --- clicks -----------------------------------------------------------------------------------------------------


def test_a_model_of_clicks_is_refused_in_a_sentence(command, tmp_path):
    _, err = command(f"report clicks.safetensors test.csv -o {tmp_path}/report.html", code=1)
    assert "clicks.safetensors is a model of clicks, and reports are about ratings." in err
    assert not (tmp_path / "report.html").exists()


# --- the same ratings in evaluate -------------------------------------------------------------------------------


def evaluated(command, text):
    out, err = command(f"evaluate {text} --json")
    return json.loads(out)["results"][-1], err


def test_on_what_the_model_was_fitted_to_there_are_errors_in_sample_and_no_lists(command, folder):
    found, err = evaluated(command, "training.csv --fitted bayesian.safetensors")
    assert "In sample: the model was fitted to all of these ratings" in err
    assert found["rmse"] == pytest.approx(metrics.rmse(*errors(folder, "training.csv")))
    assert not [name for name in found if name.startswith("ndcg")]
    assert "NDCG" not in command("evaluate training.csv --fitted bayesian.safetensors")[0]


def test_of_ratings_old_and_new_a_fitted_model_is_measured_on_the_new(command, folder):
    expected, err = evaluated(command, "test.csv --fitted bayesian.safetensors")
    assert "fitted to" not in err
    assert expected["rmse"] == pytest.approx(metrics.rmse(*errors(folder, "test.csv")))
    found, err = evaluated(command, "ratings.csv --fitted bayesian.safetensors")
    old, both = (len(pl.read_csv(folder / name)) for name in ("training.csv", "ratings.csv"))
    assert f"The model was fitted to {old:,} of these {both:,} ratings: measured are the others." in err
    for name in ("rmse", "mae", "ndcg@10", "recall@10"):
        assert found[name] == pytest.approx(expected[name])


def test_on_the_clicks_of_its_fit_a_model_of_clicks_cannot_be_measured(command):
    _, err = command("evaluate training.csv --fitted clicks.safetensors", code=1)
    assert "The model was fitted to all of these clicks, and lists leave out what was seen" in err
    expected, _ = evaluated(command, "test.csv --fitted clicks.safetensors")
    found, err = evaluated(command, "ratings.csv --fitted clicks.safetensors")
    assert "clicks: measured are the others." in err
    assert found["ndcg@10"] == expected["ndcg@10"] > 0


@given(st.integers(1, 5), st.integers(1, 5), st.data())
def test_what_was_learnt_is_told_from_what_was_not(n_users, n_items, data):
    pair = st.tuples(st.integers(0, n_users - 1), st.integers(0, n_items - 1))
    learnt = data.draw(st.sets(pair, min_size=1))
    known = Learnt.of(boundrec.Ratings.from_pairs(list(learnt), np.ones(len(learnt))))
    asked = [(user, item) for user in range(-1, n_users) for item in range(-1, n_items)]
    rows = known.users.codes(np.array([user for user, _ in asked])), known.items.codes(np.array([i for _, i in asked]))
    assert known.holds(*rows).tolist() == [one in learnt for one in asked]
