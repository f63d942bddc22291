"""From a table of clicks to lists, by the command."""

import csv
import io
import json

import numpy as np
import polars as pl
import pytest

import boundrec


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    pairs = [(f"u{user}", f"film {item}") for user in range(30) for item in rng.permutation(20)[:7]]
    (tmp_path / "clicks.csv").write_text("\n".join(["who,film", *(f"{user},{item}" for user, item in pairs)]) + "\n")
    rows = (f"{user},{item},{rng.integers(1, 90)}" for user, item in pairs)
    (tmp_path / "plays.csv").write_text("\n".join(["user,film,plays", *rows]) + "\n")
    log = [f"{user},{item}" for user, item in [*pairs, *pairs[:50]]]
    (tmp_path / "log.csv").write_text("\n".join(["user,film", *log]) + "\n")
    return tmp_path


def test_clicks_become_a_model_and_a_model_lists(command, folder):
    out, _ = command("fit clicks.csv -o m.safetensors --model implicit --keep-ratings")
    assert "implicit: bounds -1 to 1, 12 sweeps" in out
    model = boundrec.load(folder / "m.safetensors")
    assert (type(model).__name__, model.n_factors) == ("ImplicitMBMF", 64)
    rows = list(csv.DictReader(io.StringIO(command("recommend m.safetensors u3 -n 4")[0])))
    items, scores = model.recommend(["u3"], n=4)
    assert [row["item"] for row in rows] == items[0].tolist()
    assert np.allclose([float(row["score"]) for row in rows], scores[0])
    assert "film" in command("similar m.safetensors film_3")[0]
    facts = json.loads(command("info m.safetensors --json")[0])
    assert (facts["model"], facts["bounds"], facts["ratings"]) == ("implicit", [-1, 1], 210)
    why = json.loads(command(f"explain m.safetensors u3 {items[0][0].replace(' ', '_')} --json")[0])
    assert sum(part["total"] for part in why["ratings"]) + why["remainder"] == pytest.approx(why["prediction"])


def test_a_column_of_counts_is_how_often_and_repeated_rows_add_up(command, folder):
    command("fit plays.csv -o plays.safetensors -m implicit -k 5 --keep-ratings")
    plays = boundrec.load(folder / "plays.safetensors")
    assert plays.n_factors == 5
    assert plays.typical_strength_ > 1
    command("fit log.csv -o log.safetensors -m implicit --keep-ratings")
    assert boundrec.load(folder / "log.safetensors").fitted_.ratings.by_user.data.max() == 2
    _, err = command("fit log.csv -o log.safetensors -m implicit --duplicates raise", code=1)
    assert "pass --duplicates sum or --duplicates last" in err


def test_lists_are_measured_beside_popularity_and_errors_are_not(command, folder):
    for text in ("evaluate plays.csv -m implicit", "compare plays.csv --models implicit -o plot.png"):
        results = json.loads(command(f"{text} --json")[0])["results"]
        assert {one["model"] for one in results} == {"popularity", "implicit"}
        for one in results:
            assert one["rmse"] is None
            assert 0 <= one["ndcg@10"] <= 1
        out, err = command(text)
        assert out.splitlines()[0].split()[:2] == ["model", "NDCG@10"]
        assert "outside" not in out
        assert "mean + offsets" not in out + err
    assert "No plot in plot.png: it is of errors" in err
    assert not (folder / "plot.png").exists()


def test_everything_held_out_is_liked_however_often_it_was_chosen(command, folder):
    training = pl.read_csv(folder / "plays.csv")
    held = np.random.default_rng(1).random(len(training)) < 0.2
    training.filter(~held).write_csv(folder / "before.csv")
    training.filter(held).write_csv(folder / "after.csv")
    command("fit before.csv -o m.safetensors -m implicit -k 5")
    expected = boundrec.load(folder / "m.safetensors").score(training.filter(held).select("user", "film"))
    asked = ("evaluate before.csv --test after.csv -m implicit -k 5", "evaluate after.csv --fitted m.safetensors")
    for text in asked:
        found = json.loads(command(f"{text} --json")[0])["results"][-1]
        assert found["ndcg@10"] == pytest.approx(expected)
        often = json.loads(command(f"{text} --liked 45 --json")[0])["results"][-1]
        assert often["ndcg@10"] != pytest.approx(expected)


def test_of_clicks_by_strangers_lists_are_not_measured(command, folder):
    (folder / "others.csv").write_text("user,film,plays\nnobody,film 1,3\n")
    command("fit plays.csv -o m.safetensors -m implicit -k 5")
    _, err = command("evaluate others.csv --fitted m.safetensors")
    assert "No held-out click is of a known user and item: lists cannot be measured." in err


def test_settings_are_tuned_by_lists_and_the_command_that_is_printed_works(command, folder):
    out, err = command("tune clicks.csv -m implicit -k 2,4 --grid unobserved_weight=auto,1")
    lines = out.splitlines()
    assert lines[0].split()[:3] == ["k", "unobserved_weight", "NDCG@10"]
    assert sum("popularity" in line for line in lines) == 1
    assert "mean + offsets" not in out
    assert "k=2 unobserved_weight=auto: NDCG" in err
    command(lines[-1].removeprefix("boundrec "))
    assert boundrec.load(folder / "model.safetensors").n_factors in (2, 4)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("fit clicks.csv -o m.safetensors -m implicit --bounds 1 5", "scores of implicit lie between -1 and 1"),
        ("tune clicks.csv -m implicit --by error", "--by error: implicit predicts no ratings"),
        (
            "fit clicks.csv -o m.safetensors",
            "no column looks like the rating's; name it with --rating, or learn from clicks, which have none, by "
            "boundrec fit --model implicit. There are: who, film.",
        ),
        ("evaluate clicks.csv", "by boundrec fit --model implicit."),
        ("compare clicks.csv", "by boundrec fit --model implicit."),
        (
            "fit clicks.csv -o m.safetensors -m implicit --history clicks.csv",
            "--history: implicit has one range for all",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(command, text, sentence):
    code = 1 if "-m" not in text else 2
    assert sentence in " ".join(command(text, code=code)[1].split())


def test_settings_are_judged_by_everything_held_out(command):
    grid = "-m implicit -k 4 --grid ridge=auto --json"
    tuned = json.loads(command(f"tune plays.csv {grid}")[0])["results"][0]
    found = json.loads(command("evaluate plays.csv -m implicit -k 4 --json")[0])["results"][-1]
    rare = json.loads(command(f"tune plays.csv {grid} --liked 1")[0])["results"][0]
    assert tuned["ndcg@10"] == found["ndcg@10"] == rare["ndcg@10"]


@pytest.mark.parametrize("by", ["blend", "rating", "lower"])
def test_lists_of_clicks_are_sorted_by_affinity_alone(command, by):
    command("fit clicks.csv -o m.safetensors -m implicit -k 2")
    _, err = command(f"recommend m.safetensors u3 --by {by}", code=2)
    assert f"--by {by}: the score of m.safetensors is the affinity already: leave --by out." in err


def test_a_model_of_ratings_that_is_fitted_learns_from_no_clicks(command, folder):
    command("fit plays.csv -o m.safetensors --model mbmf -k 2 --sweeps 2")
    _, err = command("evaluate clicks.csv --fitted m.safetensors", code=1)
    assert "no column looks like the rating's; name it with --rating. There are: who, film." in err


def test_strengths_of_zero_are_refused_with_their_line(command, folder):
    (folder / "zero.csv").write_text("user,item,count\na,x,1\nb,y,0\n")
    _, err = command("fit zero.csv -o m.safetensors -m implicit", code=1)
    assert "1 of 2 values of 'count' are not above 0 (first: 0 in line 3)" in err


# --- what is known besides clicks -----------------------------------------------------------------------------------


@pytest.fixture
def tables(folder):
    """Features of people and films, of whom one has no click."""
    people = {"who": [f"u{user}" for user in range(31)], "age": [20 + user % 7 for user in range(31)]}
    films = {"film": [f"film {item}" for item in range(21)], "kind": ["ab"[item % 2] for item in range(21)]}
    pl.DataFrame(people).write_csv(folder / "people.csv")
    pl.DataFrame(films).write_csv(folder / "films.csv")
    return "--user-features people.csv --item-features films.csv"


def test_features_of_a_clicks_model_answer_for_those_without_clicks(command, folder, tables):
    _, err = command(f"fit clicks.csv -o m.safetensors -m implicit -k 4 --keep-ratings {tables}")
    assert "people.csv: 1 feature of 31 users (ids in 'who'), 1 of them without ratings." in err
    frame = pl.read_csv(folder / "clicks.csv")
    beside = {
        f"{kind}_features": pl.read_csv(folder / f"{name}.csv")
        for kind, name in (("user", "people"), ("item", "films"))
    }
    model = boundrec.ImplicitMBMF(4, random_state=0).fit(frame, **beside)
    loaded = boundrec.load(folder / "m.safetensors")
    assert np.array_equal(loaded.user_factors_, model.user_factors_)
    rows = list(csv.DictReader(io.StringIO(command("recommend m.safetensors u30 -n 4")[0])))
    assert [row["item"] for row in rows] == model.recommend(["u30"], n=4)[0][0].tolist()
    out, _ = command("info m.safetensors")
    assert "features: 1 of users (age), 2 of items (kind=a, kind=b)\n" in out
    assert "who rated what" not in out
    why = json.loads(command("explain m.safetensors u30 film_3 --json")[0])
    total = why["usual"] + sum(part["total"] for part in why["features"]) + why["remainder"]
    assert total == pytest.approx(why["prediction"])
    assert [part["name"] for part in why["features"]] == ["age"]
    assert "age" in command("explain m.safetensors u3 film_3")[0]
    command("fit clicks.csv -o m.safetensors -m implicit -k 4")
    assert "features" not in command("info m.safetensors")[0]


@pytest.mark.parametrize(
    "text",
    [
        "evaluate clicks.csv -m implicit --k 2",
        "compare clicks.csv --models implicit --k 2 -o plot.png",
        "tune clicks.csv -m implicit --k 2,3 --grid ridge=0.01",
    ],
)
def test_features_reach_every_fit_of_clicks(command, tables, monkeypatch, text):
    seen, fit = [], boundrec.ImplicitMBMF.fit

    def spy(self, X, y=None, *, user_features=None, item_features=None, **others):
        seen.append((user_features is not None, item_features is not None))
        return fit(self, X, y, user_features=user_features, item_features=item_features, **others)

    monkeypatch.setattr(boundrec.ImplicitMBMF, "fit", spy)
    out, _ = command(f"{text} {tables}")
    assert set(seen) == {(True, True)}
    assert "failed" not in out


def test_what_a_clicks_model_does_not_learn_from_is_refused(command, folder, tables):
    for option in ("--noise own", "--implicit both"):
        _, err = command(f"fit clicks.csv -o m.safetensors -m implicit {option} {tables}", code=2)
        assert (
            f"{option.split()[0]}: implicit does not learn from that: pass --model bayesian, or leave this out." in err
        )
    told = "--noise own --item-features films.csv"
    _, err = command(f"compare plays.csv --models implicit,bayesian,mf -o p.png --k 2 --sweeps 3 {told}")
    assert "Note: mf learns from ratings alone: only implicit, bayesian get --item-features." in err
    assert "Note: implicit, mf do not learn from that: only bayesian gets --noise." in err
