"""Every command through its real entry point: from a CSV file to a model, recommendations and a page."""

import gzip
import json
import os
import signal
import subprocess
import sysconfig
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from rating_files import write_ratings

import boundrec
from boundrec import registry
from boundrec.cli.rating_tables import ColumnNames, read_ratings
from boundrec.cli.table_files import TableFile

SCRIPT = Path(sysconfig.get_path("scripts")) / "boundrec"


def run(*arguments, stdin=b"", code=0, **options):
    """The installed script; returns stdout and stderr."""
    done = subprocess.run(
        [SCRIPT, *map(str, arguments)],
        input=stdin,
        capture_output=True,
        timeout=300,
        env={**os.environ, "COLUMNS": "200"},
        **options,
    )
    out, err = done.stdout.decode(), done.stderr.decode()
    assert done.returncode == code, err
    assert "Traceback" not in err
    return out, err


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("command")


@pytest.fixture(scope="module")
def ratings(folder):
    return write_ratings(folder / "ratings.csv")


@pytest.fixture(scope="module")
def model(folder, ratings):
    path = folder / "model.safetensors"
    run("fit", ratings, "-o", path, "--model", "mbmf", "--k", 4, "--sweeps", 5)
    return path


@pytest.fixture(scope="module")
def bayesian(folder, ratings):
    path = folder / "bayesian.safetensors"
    run("fit", ratings, "-o", path, "--k", 3, "--sweeps", 8)
    return path


# --- fit ------------------------------------------------------------------------------------------------------


def test_fit_tells_of_the_data_on_stdout_and_of_its_guesses_on_stderr(ratings, tmp_path):
    path = tmp_path / "model.safetensors"
    out, err = run("fit", ratings, "-o", path, "--model", "mbmf", "--k", 4, "--sweeps", 5)
    assert "ratings by 40 users of 30 items" in out
    assert "ratings: 0.5 to 5, mean " in out
    assert "mbmf: bounds 0.5 to 5, 5 sweeps in " in out
    assert f"wrote {path}" in out
    assert "Columns: user is 'userId', item is 'movieId', rating is 'rating'." in err
    assert "No --bounds given: taking the observed range, --bounds 0.5 5." in err
    model = boundrec.load(path)
    assert (model.n_users_, model.n_items_, model.n_factors, model.bounds) == (40, 30, 4, (0.5, 5.0))
    assert model.item_ids_.codes(["film 07"])[0] >= 0


def test_fit_reads_standard_input_and_answers_in_json(ratings, tmp_path):
    path = tmp_path / "model.safetensors"
    content = gzip.compress(ratings.read_bytes())
    out, _ = run("fit", "-", "-o", path, "--k", 2, "--sweeps", 2, "--bounds", "0", "6", "--json", stdin=content)
    result = json.loads(out)
    assert result["data"]["users"] == 40
    assert (result["bounds"], result["sweeps"], result["output"]) == ([0.0, 6.0], 2, str(path))
    assert boundrec.load(path).bounds == (0.0, 6.0)


def test_the_same_file_and_seed_give_the_same_model(boundrec_command, ratings, model, tmp_path):
    again = tmp_path / "again.safetensors"
    assert boundrec_command("fit", ratings, "-o", again, "--model", "mbmf", "--k", 4, "--sweeps", 5)[0] == 0
    np.testing.assert_array_equal(boundrec.load(model).user_factors_, boundrec.load(again).user_factors_)


def test_history_gives_ranges_of_their_own_and_contradictions_are_reported(boundrec_command, ratings, tmp_path):
    path = tmp_path / "model.safetensors"
    code, out, err = boundrec_command("fit", ratings, "-o", path, "--k", 2, "--sweeps", 2, "--history", ratings)
    assert code == 0
    assert "of the ratings lie outside their own range" in out
    assert "--set on_contradiction=widen (or drop)" in err
    assert np.ptp(boundrec.load(path).user_magnitudes_) > 0
    code, _, err = boundrec_command("fit", ratings, "-o", path, "--model", "nmf", "--history", ratings)
    assert code == 2
    assert "only mbmf and bayesian" in " ".join(err.replace("│", " ").split())


@pytest.mark.parametrize("name", ["mf", "nmf", "ccd++", "bounded-svd", "bmf", "bmc-admm"])
def test_every_model_can_be_fitted_by_its_name(boundrec_command, ratings, tmp_path, name):
    path = tmp_path / "model.safetensors"
    code, out, _ = boundrec_command("fit", ratings, "-o", path, "--model", name, "--k", 2, "--sweeps", 2)
    assert code == 0
    assert f"{name}: bounds 0.5 to 5, 2 sweeps" in out
    code, out, _ = boundrec_command("info", path, "--json")
    assert json.loads(out)["model"] == name


def test_counts_get_a_word_about_open_bounds(boundrec_command, tmp_path):
    path = tmp_path / "plays.tsv"
    rng = np.random.default_rng(0)
    lines = [f"u{k % 20}\ti{k % 9}\t{int(rng.pareto(0.4) * 3) + 1}" for k in range(180)]
    path.write_text("user\titem\tplays\n" + "\n".join(lines))
    model = tmp_path / "model.safetensors"
    code, _, err = boundrec_command("fit", path, "-o", model, "--k", 2, "--sweeps", 2, "--duplicates", "mean")
    assert code == 0
    assert "pass --bounds 0 none" in err
    open_end = ["--bounds", "0", "none", "--duplicates", "mean"]
    code, out, _ = boundrec_command("fit", path, "-o", model, "--k", 2, "--sweeps", 2, *open_end)
    assert code == 0
    assert "bounds 0 to none" in out


def test_negative_bounds_are_bounds_and_not_options(boundrec_command, tmp_path):
    path = tmp_path / "jokes.csv"
    path.write_text(
        "user,item,rating\n" + "".join(f"{u},{i},{(-1) ** (u + i) * (u + i)}\n" for u in range(5) for i in range(4))
    )
    model = tmp_path / "model.safetensors"
    code, out, _ = boundrec_command("fit", path, "-o", model, "--bounds", "-10", "10", "--k", 2, "--sweeps", 2)
    assert code == 0
    assert "bounds -10 to 10" in out


def test_ctrl_c_keeps_the_model_of_the_last_sweep_and_says_so(folder):
    big = folder / "big.csv"
    rng = np.random.default_rng(0)
    pairs = pl.DataFrame({"user": rng.integers(0, 4000, 200_000), "item": rng.integers(0, 2000, 200_000)}).unique()
    pairs.with_columns(rating=pl.Series(rng.integers(1, 6, len(pairs)))).write_csv(big)
    path = folder / "interrupted.safetensors"
    settings = ["--model", "mbmf", "--set", "tol=0", "--set", "verbose=1"]
    command = [SCRIPT, "fit", big, "-o", path, "--sweeps", "100000", "--threads", "1", *settings]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        for line in process.stderr:
            if b"sweep 2:" in line:
                break
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 0, err.decode()
    assert b"Traceback" not in err
    assert b"interrupted: the model is that of sweep" in err
    assert boundrec.load(path).n_iter_ >= 2
    assert b"wrote" in out


def test_a_million_ratings_are_read_checked_and_saved_quickly(tmp_path):
    rng = np.random.default_rng(0)
    n = 1_000_000
    place = rng.choice(20_000 * 5_000, n, replace=False)
    path = tmp_path / "ratings.csv"
    columns = {"userId": place // 5_000, "movieId": place % 5_000, "rating": rng.integers(1, 11, n) / 2}
    pl.DataFrame(columns).write_csv(path)
    out, _ = run("fit", path, "-o", tmp_path / "model.safetensors", "--k", 2, "--sweeps", 1, "--json")
    assert json.loads(out)["data"]["ratings"] == n
    model = boundrec.load(tmp_path / "model.safetensors")
    began = time.process_time()
    table = read_ratings(TableFile.open(path), ColumnNames(), lambda said: None).settled("raise")
    table.check_bounds((0.5, 5))
    model.save(tmp_path / "again.safetensors")
    assert time.process_time() - began < 4  # about 0.7 s where nothing else runs


# --- evaluate, compare, tune ------------------------------------------------------------------------------------


def test_evaluate_measures_a_model_beside_the_mean(ratings):
    out, err = run("evaluate", ratings, "--model", "mbmf", "--k", 4, "--sweeps", 5, "--share", "0.2", "-n", 5)
    lines = out.splitlines()
    assert lines[0].split() == [
        "model",
        "RMSE",
        "MAE",
        "F1",
        "outside",
        "0.5..5",
        "NDCG@5",
        "95",
        "%",
        "interval",
        "recall@5",
        "coverage@5",
        "novelty@5",
        "seconds",
    ]
    assert lines[2].startswith("mean + offsets")
    assert lines[3].startswith("popularity")
    assert lines[4].startswith("mbmf")
    assert "none" in lines[4]
    assert "held out (random ones)" in err


def test_evaluate_by_time_by_a_test_file_and_of_a_fitted_model(boundrec_command, ratings, model, tmp_path):
    small = ["--k", 2, "--sweeps", 3, "--json"]
    code, out, err = boundrec_command("evaluate", ratings, "--by-time", "timestamp", *small)
    assert code == 0
    assert "held out (the latest)" in err
    by_time = json.loads(out)
    frame = pl.read_csv(ratings).sort("timestamp")
    held = by_time["test_ratings"]
    train, test = tmp_path / "train.csv", tmp_path / "test.parquet"
    frame.head(len(frame) - held).write_csv(train)
    frame.tail(held).write_parquet(test)
    code, out, _ = boundrec_command("evaluate", train, "--test", test, "--bounds", "0.5", "5", *small)
    assert code == 0
    by_file = json.loads(out)
    assert by_file["results"][0]["rmse"] == pytest.approx(by_time["results"][0]["rmse"])
    code, out, _ = boundrec_command("evaluate", test, "--fitted", model, "--json")
    assert code == 0
    found = json.loads(out)["results"][-1]
    expected = (
        boundrec.load(model).predict(frame.tail(held)[["userId", "movieId"]]) - frame.tail(held)["rating"].to_numpy()
    )
    assert found["rmse"] == pytest.approx(np.sqrt(np.mean(expected**2)))


def test_evaluate_tells_the_f1_of_predictions_above_the_users_mean_training_rating(boundrec_command, tmp_path):
    train, test = tmp_path / "train.csv", tmp_path / "test.csv"
    path = tmp_path / "model.safetensors"
    train.write_text("user,item,rating\na,x,1\na,y,4\na,z,4\nb,x,2\nb,y,5\nb,w,2\nc,y,5\nc,z,4\nc,w,1\n")
    test.write_text("user,item,rating\na,w,5\nb,z,4\nc,x,2\nnew,y,4\nnew,x,3\n")
    thresholds = [3, 3, 10 / 3, 28 / 9, 28 / 9]  # of a new user: the mean of all
    code, *_ = boundrec_command("fit", train, "-o", path, "--model", "mbmf", "--k", 2, "--keep-ratings", "--seed", 0)
    assert code == 0
    code, out, _ = boundrec_command("evaluate", test, "--fitted", path, "--json")
    assert code == 0
    of_file = json.loads(out)["results"][-1]
    code, out, _ = boundrec_command("evaluate", train, "--test", test, "--model", "mbmf", "--k", 2, "--json")
    assert code == 0
    found = {result["model"]: result for result in json.loads(out)["results"]}
    frame = pl.read_csv(test)
    recommended = boundrec.load(path).predict(frame[["user", "item"]]) > thresholds
    liked = frame["rating"].to_numpy() > thresholds
    assert found["mbmf"]["f1"] == of_file["f1"] == 2 * (recommended & liked).sum() / (recommended.sum() + liked.sum())
    assert 0 < found["mbmf"]["f1"] < 1
    assert found["popularity"]["f1"] is None


def test_f1_is_a_dash_where_nobody_liked_what_is_held_out_and_where_no_means_are_known(
    boundrec_command, ratings, model, tmp_path
):
    low = tmp_path / "low.csv"
    pl.read_csv(ratings).filter(pl.col("rating") <= 0.5).write_csv(low)
    code, out, _ = boundrec_command("evaluate", ratings, "--test", low, "--model", "mbmf", "--k", 2, "--sweeps", 2)
    assert code == 0
    assert [line[16:].split()[2] for line in out.splitlines()[2:]] == ["-"] * 3
    code, out, _ = boundrec_command("evaluate", ratings, "--fitted", model, "--json")
    assert code == 0
    assert {result["f1"] for result in json.loads(out)["results"]} == {None}


def test_compare_prints_a_table_and_writes_a_plot(ratings, tmp_path):
    plot = tmp_path / "plot.png"
    out, err = run("compare", ratings, "--models", "mbmf,mf", "-o", plot, "--k", 3, "--sweeps", 4)
    names = [line.split("  ")[0].strip() for line in out.splitlines()]
    assert {"mbmf", "mf", "mean + offsets"} <= set(names)
    assert names[-1] == "popularity"
    errors = [float(line[16:].split()[0]) for line in out.splitlines()[2:-1]]
    assert errors == sorted(errors)
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert f"Wrote {plot}" in err


def test_compare_writes_the_same_svg_twice(boundrec_command, ratings, tmp_path):
    drawn = []
    for name in ("a.svg", "b.svg"):
        code, out, _ = boundrec_command(
            "compare", ratings, "--models", "nmf", "-o", tmp_path / name, "--k", 2, "--sweeps", 2, "--json"
        )
        assert code == 0
        assert [result["model"] for result in json.loads(out)["results"]] in (
            ["nmf", "mean + offsets", "popularity"],
            ["mean + offsets", "nmf", "popularity"],
        )
        drawn.append((tmp_path / name).read_bytes())
    assert drawn[0] == drawn[1]


def test_tune_prints_a_command_that_fits_with_the_best(ratings, tmp_path):
    out, _ = run(
        "tune", ratings, "--model", "mbmf", "--k", "2,3", "--grid", "ridge=0.05,5", "--sweeps", 3, "--set", "slack=1.2"
    )
    table, command = out.rstrip().rsplit("\n\n", 1)
    assert len(table.splitlines()) == 2 + 4 + 1
    assert "ridge=0.05" in command
    words = command.split()
    assert words[:3] == ["boundrec", "fit", str(ratings)]
    run(*words[1:], cwd=tmp_path)
    fitted = boundrec.load(tmp_path / "model.safetensors")
    assert (fitted.ridge, fitted.slack, fitted.max_iter) == (0.05, 1.2, 3)


def test_the_command_that_tune_prints_has_tried_sweeps_under_their_own_option(boundrec_command, ratings):
    words = "--model", "mbmf", "--k", 2, "--grid", "max_iter=2,2"
    code, out, err = boundrec_command("tune", ratings, *words)
    assert code == 0, err
    assert "--k 2 --sweeps 2" in out
    assert "--set" not in out


def test_tune_chooses_by_lists_where_that_is_asked_for(boundrec_command, ratings):
    words = "tune", ratings, "--model", "mbmf", "--k", "2,4", "--grid", "ridge=0.05,5", "--sweeps", 3, "--by", "ndcg"
    code, out, _ = boundrec_command(*words, "--json")
    assert code == 0
    found = json.loads(out)
    ndcg = [one["ndcg@10"] for one in found["results"]]
    assert ndcg == sorted(ndcg, reverse=True)
    assert len(set(ndcg)) > 1
    assert [one["rmse"] for one in found["results"]] != sorted(one["rmse"] for one in found["results"])
    best = found["results"][0]
    assert f"--k {best['k']} --sweeps 3 --set ridge={best['ridge']}" in found["command"]
    assert [one["model"] for one in found["trivial"]] == ["mean + offsets", "popularity"]
    out = boundrec_command(*words)[1]
    assert out.split()[:7] == ["k", "ridge", "NDCG@10", "95", "%", "interval", "recall@10"]
    assert "popularity" in out


def test_ratings_from_which_things_are_liked_are_the_mean_or_as_asked(boundrec_command, ratings):
    words = "evaluate", ratings, "--model", "mbmf", "--k", 2, "--sweeps", 2, "--json"
    by_mean, all_of_them = (
        {one["model"]: one for one in json.loads(boundrec_command(*words, *more)[1])["results"]}
        for more in ([], ["--liked", "0"])
    )
    assert by_mean["popularity"]["recall@10"] != all_of_them["popularity"]["recall@10"]
    assert by_mean["popularity"]["novelty@10"] == pytest.approx(all_of_them["popularity"]["novelty@10"], rel=0.2)
    for name in ("popularity", "mbmf"):
        one = by_mean[name]
        assert one["ndcg_low@10"] <= one["ndcg@10"] <= one["ndcg_high@10"]
        assert 0 < one["coverage@10"] <= 1


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["evaluate", "--liked", "5.5"], "--liked 5.5: no held-out rating of a known user and item is that high, the"),
        (["tune", "--by", "ndcg", "--liked", "9"], "--liked 9: no held-out rating of a known user and item is that"),
        (["tune", "--liked", "4"], "--liked is for lists, and these are judged by --by ndcg"),
        (["tune", "--by", "recall"], "'recall' is not one of 'error', 'ndcg'"),
    ],
)
def test_what_cannot_be_judged_is_refused_in_a_sentence(boundrec_command, ratings, words, sentence):
    code, _, err = boundrec_command(words[0], ratings, *words[1:], "--model", "mbmf", "--k", "2", "--sweeps", 2)
    assert code == 2
    assert sentence in " ".join(err.replace("│", " ").split())


def test_tune_answers_in_json_and_knows_models_without_a_ridge(boundrec_command, ratings):
    code, out, _ = boundrec_command("tune", ratings, "--model", "bmf", "--k", "2,3", "--sweeps", 2, "--json")
    assert code == 0
    results = json.loads(out)["results"]
    assert sorted(result["k"] for result in results) == [2, 3]
    assert results[0]["rmse"] <= results[1]["rmse"]


# --- predict, recommend, similar, info --------------------------------------------------------------------------


def test_predict_answers_pairs_with_ranges_as_the_library_does(model):
    pairs = b"movieId,userId\nfilm 03,7\nfilm 04,8\nnobody,9\n"
    out, _ = run("predict", model, "-", stdin=pairs)
    frame = pl.read_csv(out.encode())
    assert frame.columns == ["userId", "movieId", "prediction", "lower", "upper"]
    expected = boundrec.load(model).predict([(7, "film 03"), (8, "film 04"), (9, "nobody")])
    np.testing.assert_allclose(frame["prediction"], expected, rtol=1e-8)
    assert ((frame["lower"] <= frame["prediction"]) & (frame["prediction"] <= frame["upper"])).all()


def test_predictions_of_a_bayesian_model_have_a_standard_deviation(boundrec_command, bayesian, tmp_path):
    (tmp_path / "pairs.csv").write_text("user,item\n7,film 03\n")
    code, out, _ = boundrec_command("predict", bayesian, tmp_path / "pairs.csv", "--json")
    assert code == 0
    assert list(json.loads(out)) == ["user", "item", "prediction", "lower", "upper", "std"]
    code, out, _ = boundrec_command("recommend", bayesian, "7", "-n", 1, "--json")
    assert code == 0
    assert list(json.loads(out)) == ["user", "item", "rank", "score", "lower", "upper", "std"]


@pytest.mark.parametrize("name", ["r.csv", "r.tsv", "r.ndjson", "r.parquet", "r.csv.gz"])
def test_recommend_writes_every_format_for_every_user(boundrec_command, model, ratings, tmp_path, name):
    path = tmp_path / name
    code, out, err = boundrec_command("recommend", model, "-n", 3, "-o", path)
    assert (code, out) == (0, "")
    assert "recommendations to" in err
    read = {".parquet": pl.read_parquet, ".ndjson": pl.read_ndjson}.get(path.suffix)
    frame = read(path) if read else pl.read_csv(path, separator="\t" if name == "r.tsv" else ",")
    assert frame.columns == ["user", "item", "rank", "score", "lower", "upper"]
    assert frame["user"].n_unique() == 40
    rated = pl.read_csv(ratings).select(user="userId", item="movieId")
    assert not len(frame.join(rated, on=["user", "item"]))
    library = boundrec.load(model).recommend([5], n=3)[0][0].tolist()
    assert frame.filter(pl.col("user") == 5)["item"].to_list() == library


def test_recommend_streams_what_it_writes(boundrec_command, model, tmp_path, monkeypatch):
    monkeypatch.setattr("boundrec.cli.recommend.ROWS_AT_A_TIME", 7)
    whole, parts = tmp_path / "whole.parquet", tmp_path / "parts.csv"
    for path in (whole, parts):
        assert boundrec_command("recommend", model, "-n", 3, "-o", path)[0] == 0
    assert pl.read_parquet(whole)["item"].to_list() == pl.read_csv(parts)["item"].to_list()
    assert len(pl.read_csv(parts)) == 120


def test_lists_longer_than_there_are_items_are_not_written_user_by_user(boundrec_command, model, monkeypatch):
    sizes, batches = [], boundrec.MBMF.recommend_batches

    def spied(self, *request, batch_size, **options):
        sizes.append(batch_size)
        return batches(self, *request, batch_size=batch_size, **options)

    monkeypatch.setattr(boundrec.MBMF, "recommend_batches", spied)
    assert boundrec_command("recommend", model, "-n", 1_000_000)[0] == 0
    assert sizes == [100_000 // 30]


def test_recommend_to_some_users_on_stdout(boundrec_command, model, tmp_path):
    out, err = run("recommend", model, "5", "7", "nobody", "-n", 2)
    frame = pl.read_csv(out.encode(), infer_schema=False)
    assert frame["user"].to_list() == ["5", "5", "7", "7", "nobody", "nobody"]
    assert "the model does not know user 'nobody'" in err
    (tmp_path / "users.csv").write_text("userId\n7\n5\n")
    code, out, _ = boundrec_command("recommend", model, "--users", tmp_path / "users.csv", "-n", 1, "--json")
    assert code == 0
    assert [json.loads(line)["user"] for line in out.splitlines()] == [7, 5]


def test_recommend_says_who_has_rated_everything(boundrec_command, tmp_path):
    model = boundrec.CCDPlusPlus(n_factors=1, random_state=0)
    model.fit([("all", "tea"), ("all", "rum"), ("one", "tea")], [1.0, 2.0, 3.0])
    model.save(tmp_path / "m.safetensors")
    code, out, err = boundrec_command("recommend", tmp_path / "m.safetensors")
    assert code == 0
    assert [line.split(",")[:2] for line in out.splitlines()[1:]] == [["one", "rum"]]
    assert "1 of 2 users have rated every item and get no list; --with-seen lists them, too." in err
    assert "get no list" not in boundrec_command("recommend", tmp_path / "m.safetensors", "--with-seen")[2]
    assert "get no list" not in boundrec_command("recommend", tmp_path / "m.safetensors", "one")[2]


def test_recommend_may_show_what_was_rated(boundrec_command, model, ratings):
    code, out, _ = boundrec_command("recommend", model, "5", "-n", 100, "--with-seen")
    assert code == 0
    assert len(out.splitlines()) == 1 + 30


def test_similar_items_and_users(boundrec_command, model):
    out, _ = run("similar", model, "film 03", "film 04", "-n", 2)
    frame = pl.read_csv(out.encode())
    assert frame.columns == ["item", "similar_item", "rank", "similarity"]
    assert frame["item"].to_list() == ["film 03"] * 2 + ["film 04"] * 2
    assert not (frame["item"] == frame["similar_item"]).any()
    code, out, _ = boundrec_command("similar", model, "5", "--users", "-n", 2, "--json")
    assert code == 0
    assert [json.loads(line)["rank"] for line in out.splitlines()] == [1, 2]


@pytest.mark.parametrize("ending", ["csv", "ndjson", "parquet"])
def test_similar_writes_ids_of_several_types_as_text(tmp_path, ending):
    items = [1, "one", 2, "two"]
    fitted = boundrec.MBMF(2, bounds=(1, 5), max_iter=2, tol=1.0, random_state=0)
    fitted.fit([(user, item) for user in range(4) for item in items], [1, 2, 3, 4] * 4)
    fitted.save(tmp_path / "mixed.safetensors")
    output = tmp_path / f"similar.{ending}"
    run("similar", tmp_path / "mixed.safetensors", "1", "two", "-n", 1, "-o", output)
    read = {"csv": pl.read_csv, "ndjson": pl.read_ndjson, "parquet": pl.read_parquet}[ending]
    assert read(output)["item"].to_list() == ["1", "two"]


def test_info_tells_what_a_file_holds(boundrec_command, model):
    out, _ = run("info", model)
    assert "mbmf (MBMF)" in out
    assert "users: 40   items: 30" in out
    assert "bounds: 0.5 to 5" in out
    assert json.loads(boundrec_command("info", model, "--json")[1])["settings"]["n_factors"] == 4


# --- report -----------------------------------------------------------------------------------------------------


def test_the_report_stands_alone(model, ratings, tmp_path):
    path = tmp_path / "report.html"
    out, err = run("report", model, ratings, "-o", path)
    assert out == ""
    assert f"Wrote {path}" in err
    page = path.read_text(encoding="utf-8")
    assert page.count("<svg") == 5
    assert "fitted to all of these ratings" in page
    assert "predictions lie inside their ranges" in page
    for outside in ("<script", "<link", "<img", "<iframe", 'src="', "url("):
        assert outside not in page.replace("url(#", "")
    assert str(tmp_path) not in page


@pytest.mark.parametrize("name", ["bayesian", "mf"])
def test_models_with_deviations_and_without_ranges_have_reports_too(
    boundrec_command, bayesian, ratings, tmp_path, name
):
    fitted = bayesian
    if name == "mf":
        fitted = tmp_path / "mf.safetensors"
        boundrec_command("fit", ratings, "-o", fitted, "--model", "mf", "--k", 2, "--sweeps", 2)
    test = tmp_path / "new.csv"
    test.write_text("userId,movieId,rating\n1,nobody,3\n999,film 01,4.25\n1,film 02,1\n")
    code, _, _ = boundrec_command("report", fitted, test, "-o", tmp_path / "report.html")
    assert code == 0
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "have a user or an item that the model does not know" in page
    assert ("so many lie in the intervals" in page) == (name == "bayesian")
    assert ("has no ranges of its own" in page) == (name == "mf")


# --- help -------------------------------------------------------------------------------------------------------

COMMANDS = ["fit", "evaluate", "compare", "tune", "predict", "recommend", "similar", "explain", "info", "report"]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_an_example_of_each_command(boundrec_command, command):
    code, out, err = boundrec_command(command, "--help")
    assert (code, err) == (0, "")
    assert f"boundrec {command} " in out.split("Example")[-1]


def test_the_shell_completes_commands_and_options():
    environment = {**os.environ, "_BOUNDREC_COMPLETE": "complete_bash", "COMP_WORDS": "boundrec ev", "COMP_CWORD": "1"}
    done = subprocess.run([SCRIPT], env=environment, capture_output=True, text=True, timeout=60)
    assert "evaluate" in done.stdout
    assert "fit" not in done.stdout.split()


def test_a_model_that_the_registry_has_is_one_that_the_command_fits(boundrec_command, ratings, tmp_path, monkeypatch):
    toy = registry.entry("MBMF")._replace(command="toy")
    monkeypatch.setattr(registry, "MODELS", (*registry.MODELS, toy))
    asked = ["fit", ratings, "-o", tmp_path / "toy.safetensors", "--k", 2, "--sweeps", 2, "--model"]
    code, out, err = boundrec_command(*asked, "toy")
    assert code == 0, err
    assert "toy: bounds" in out
    code, _, err = boundrec_command(*asked, "joy")
    assert code == 2
    assert "'joy' is not one of 'bayesian'" in err
