"""``boundrec fit --engine spark``: from a folder of Parquet or CSV to a model file, or a sentence."""

import json
import os
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

import boundrec
from conftest import MASTER

pytestmark = pytest.mark.skipif(not MASTER.startswith("local["), reason="the command starts a session of its own")


def run(*words, **environment):
    """The command in a process of its own, as people run it; its exit code, output and messages."""
    done = subprocess.run(
        [sys.executable, "-m", "boundrec", *map(str, words)],
        env={**os.environ, "COLUMNS": "300", **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def parquet(small, tmp_path):
    folder = tmp_path / "ratings"
    folder.mkdir()
    frame = pl.DataFrame({"userId": small.users, "film": small.items, "stars": small.ratings})
    for part, rows in enumerate(np.array_split(np.arange(len(frame)), 3)):
        frame[rows].write_parquet(folder / f"part-{part}.parquet")
    return folder


def test_a_folder_of_parquet_becomes_a_model_file(parquet, small, tmp_path):
    output = tmp_path / "model.safetensors"
    words = ["fit", parquet, "-o", output, "--engine", "spark", "--master", "local[2]", "--k", 3, "--sweeps", 4]
    code, out, err = run(*words, "--bounds", 1, 5)
    assert code == 0, err
    assert f"{len(small.pairs):,} ratings by 60 users of 40 items" in out
    assert "bayesian on Spark: 4 sweeps" in out
    model = boundrec.load(output)
    assert type(model).__name__ == "BayesianMBMF"
    items, _ = model.recommend(["u1"], n=5)
    assert not {("u1", item) for item in items[0].tolist()} & set(small.pairs)


def test_a_csv_file_does_as_well_and_the_observed_range_is_taken_where_no_bounds_are_given(small, tmp_path):
    table, output = tmp_path / "ratings.csv", tmp_path / "model.safetensors"
    pl.DataFrame({"user": small.users, "item": small.items, "rating": small.ratings}).write_csv(table)
    words = ["fit", table, "-o", output, "--engine", "spark", "--master", "local[2]", "--model", "mbmf", "--json"]
    code, out, err = run(*words, "--set", "tol=0", "--sweeps", 2, "--k", 2, "--partitions", 2)
    assert code == 0, err
    assert "observed range, 1 to 5" in err
    assert json.loads(out)["data"]["ratings"] == len(small.pairs)
    assert boundrec.load(output).predict([("nobody", 3)]).item() < 5


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--affinity"], "--affinity does not run with --engine spark"),
        (["--model", "implicit"], "--model implicit does not run on Spark"),
        (["--threads", "2"], "--threads does not run with --engine spark"),
        (["--set", "link=log1p"], "links do not run on Spark yet"),
        (["--item", "nothing"], "has no column 'nothing'"),
        (["--bounds", "1", "4"], "rows lie outside --bounds 1 4"),
    ],
    ids=str,
)
def test_what_cannot_be_is_said_in_a_sentence(parquet, tmp_path, more, words):
    output = tmp_path / "model.safetensors"
    code, _, err = run("fit", parquet, "-o", output, "--engine", "spark", "--master", "local[1]", *more)
    assert code != 0
    assert words in " ".join(err.split())
    assert len(err) < 3000
    assert not output.exists()


def test_options_of_spark_are_refused_without_it(parquet, tmp_path):
    code, _, err = run("fit", parquet, "-o", tmp_path / "m.safetensors", "--master", "local[2]")
    assert code != 0
    assert "--master is for --engine spark" in " ".join(err.split())


def test_without_java_a_sentence_says_so(parquet, tmp_path):
    python_alone = tmp_path / "bin"
    python_alone.mkdir()
    for name in ("bash", "env", "dirname", "ps", "uname", "cat", "grep", "sed", "head", "tr"):
        found = next((f"/{place}/{name}" for place in ("bin", "usr/bin") if os.path.exists(f"/{place}/{name}")), None)
        if found:
            (python_alone / name).symlink_to(found)
    words = ["fit", parquet, "-o", tmp_path / "m.safetensors", "--engine", "spark", "--master", "local[1]"]
    code, _, err = run(*words, PATH=str(python_alone), JAVA_HOME="")
    assert code != 0
    assert "Java did not start" in " ".join(err.split()), err
