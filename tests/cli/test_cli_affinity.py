"""Lists by affinity and rating together, by the command."""

import csv
import io
import json

import numpy as np
import pytest

import boundrec


@pytest.fixture
def folder(tmp_path):
    """Two kinds of people, each with films of their own."""
    rng = np.random.default_rng(0)
    pairs = [(f"u{user}", f"film{2 * item + user % 2}") for user in range(30) for item in rng.permutation(20)[:14]]
    rows = [f"{user},{item},{rng.integers(1, 6)}" for user, item in pairs]
    (tmp_path / "ratings.csv").write_text("\n".join(["user,item,rating", *rows]) + "\n")
    return tmp_path


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_a_model_with_affinities_is_fitted_told_and_asked(command, folder):
    out, _ = command("fit ratings.csv -o m.safetensors --affinity --sweeps 5")
    assert "lists: by affinity and predicted rating together" in out
    model = boundrec.load(folder / "m.safetensors")
    rows = rows_of(command("recommend m.safetensors u3 -n 4")[0])
    assert list(rows[0]) == ["user", "item", "rank", "score", "rating", "lower", "upper", "std", "affinity"]
    assert [row["item"] for row in rows] == model.recommend(["u3"], n=4)[0][0].tolist()
    for by, more in (("rating", []), ("lower", ["rating"])):
        rows = rows_of(command(f"recommend m.safetensors u3 -n 4 --by {by}")[0])
        assert list(rows[0]) == ["user", "item", "rank", "score", *more, "lower", "upper", "std"]
        assert [row["item"] for row in rows] == model.recommend(["u3"], n=4, by=by)[0][0].tolist()
    assert "lists: by affinity and predicted rating together" in command("info m.safetensors")[0]
    assert json.loads(command("info m.safetensors --json")[0])["affinity"] is True


def test_lists_are_judged_as_they_come(command, folder):
    plain, both = (
        json.loads(command(f"evaluate ratings.csv --model mbmf --sweeps 5 --json {more}")[0])
        for more in ("", "--affinity")
    )
    figures = [next(one for one in found["results"] if one["model"] == "mbmf") for found in (plain, both)]
    assert figures[0]["rmse"] == figures[1]["rmse"]
    assert figures[0]["ndcg@10"] != figures[1]["ndcg@10"]
    _, notes = command("compare ratings.csv --affinity --models mbmf,nmf --sweeps 3 -o c.png")
    assert "Note: --affinity is for mbmf only." in notes


def test_settings_are_chosen_by_the_lists_that_people_would_get(command, folder):
    words = "tune ratings.csv --by ndcg --model mbmf --k 2,4 --grid ridge=0.1 --sweeps 3 --json"
    plain, both = (json.loads(command(f"{words} {more}")[0]) for more in ("", "--affinity"))
    figures = [{one["k"]: (one["rmse"], one["ndcg@10"]) for one in found["results"]} for found in (plain, both)]
    for k, (error, ndcg) in figures[0].items():
        assert figures[1][k][0] == error
        assert figures[1][k][1] != ndcg
    assert "--affinity" not in plain["command"].split()
    assert "--affinity" in both["command"].split()
    command(both["command"].removeprefix("boundrec "))
    assert "lists: by affinity and predicted rating together" in command("info model.safetensors")[0]


@pytest.mark.parametrize(
    ("words", "sentence", "code"),
    [
        ("recommend plain.safetensors u3 --by blend", "knows nothing of who chooses what", 2),
        ("recommend plain.safetensors u3 --by lower", "--by lower takes the standard deviation of predictions", 1),
        ("fit ratings.csv -o m.safetensors --affinity --model nmf", "nmf learns from ratings alone", 2),
        ("fit ratings.csv -o m.safetensors --affinity --model implicit", "implicit sorts by affinity as it is", 2),
        ("fit ratings.csv -o m.safetensors --affinity --set affinity=true", "give the same setting", 2),
        ("tune ratings.csv --affinity --model nmf", "nmf learns from ratings alone", 2),
        ("tune ratings.csv --affinity --model mbmf --set affinity=true", "give the same setting", 2),
        ("tune ratings.csv --affinity --model mbmf --grid affinity=true,false", "give the same setting", 2),
        ("evaluate ratings.csv --fitted plain.safetensors --affinity", "--affinity is for a fit", 2),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(command, folder, words, sentence, code):
    command("fit ratings.csv -o plain.safetensors --model mbmf --sweeps 3")
    _, notes = command(words, code)
    assert sentence in " ".join(notes.replace("│", " ").split())
