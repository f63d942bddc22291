"""The library's types as a user's type checker sees them, mypy's and pyright's, and what `dir` shows."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import boundrec

SOURCE = Path(boundrec.__file__).parents[1]
SCRIPT = Path(__file__).with_name("typed_script.py")

#: One mistake a line, and each of them is to be found.
MISTAKES = """
MBMF(form="x")
MBMF(magnitudes="x")
MBMF(on_unknown="x")
MBMF(on_contradiction="x")
MBMF(duplicates="x")
MBMF(constraint="x")
MBMF(solver="x")
MBMF(init="x")
MBMF(step="x")
MBMF(steps="x")
MBMF(tol_mode="x")
MBMF(biases="x")
MBMF(ridge="x")
MBMF(slack="x")
MBMF(dtype="x")
MBMF(bounds="x")
MBMF(bounds=5)
MBMF(n_factor=3)
MBMF.as_in_paper(form="x")
BayesianMBMF(form="x")
BayesianMBMF(magnitudes="x")
BayesianMBMF(slack="x")
BayesianMBMF(on_unknown="x")
MF(solver="x")
MF(steps="x")
BoundedSVD(solver="x")
BMF(bound_on="x")
CCDPlusPlus(ridge_mode="x")
NMF(on_unknown="x")
BMCADMM(duplicates="x")
Ratings.read(X, y, duplicates="x")
MBMF().fold_in(X, y, axis="x")
MBMF().recommend(output="x")
MBMF().recommend_batches(output="x")
NMF().predict(X, return_range=True)
MBMF().predict(X, return_std=True)
MBMF().fit(X, y, user_features={"ann": [1.0]})
MF().fit(X, y, weights=y)
MBMF().explain("ann", "tea")
MBMF().predict(X).no_such_attribute
MBMF().recommend().no_such_attribute
load("model").predict(X).no_such_attribute
f1([1.0], [1.0], [1], {}, average="x")
""".strip().splitlines()
OPENING = [
    "from boundrec import BMCADMM, BMF, MBMF, MF, NMF, BayesianMBMF, BoundedSVD, CCDPlusPlus, Ratings, load",
    "from boundrec.metrics import f1",
    'X, y = [("ann", "tea")], [5.0]',
]


@pytest.fixture
def scripts(tmp_path):
    shutil.copy(SCRIPT, tmp_path)
    (tmp_path / "mistaken.py").write_text("\n".join([*OPENING, *MISTAKES]) + "\n")
    return tmp_path


def mypy(scripts):
    """What mypy prints; what it finds inside boundrec and other libraries is not for their user."""
    strict = ["--strict", "--config-file", os.devnull, "--follow-imports=silent", "--cache-dir", scripts / "cache"]
    return run("mypy", *strict, *scripts.glob("*.py"))


def pyright(scripts):
    """What pyright prints."""
    settings = {"typeCheckingMode": "strict", "extraPaths": [str(SOURCE)]}
    (scripts / "pyrightconfig.json").write_text(json.dumps(settings))
    return run("pyright", "--project", scripts, "--pythonpath", sys.executable)


def paths_for_mypy(source):
    """Where mypy is to look for boundrec: nowhere if it is installed, where mypy looks anyway and must not be told."""
    return "" if source.name in ("site-packages", "dist-packages") else str(source)


def run(tool, *arguments):
    own = {"MYPYPATH": paths_for_mypy(SOURCE), "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    command = [sys.executable, "-m", tool, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **own})
    assert done.stdout, done.stderr  # it is there, and runs
    assert done.returncode == 1, done.stdout + done.stderr  # it found mistakes, and no flaw in itself
    return done.stdout


@pytest.mark.parametrize("checker", [mypy, pyright])
def test_a_users_script_has_precise_types_and_its_mistakes_are_found(checker, scripts):
    said = checker(scripts)
    found = {(name, int(line)) for name, line in re.findall(r"(\w+\.py):(\d+):.* error: ", said)}
    places = [("mistaken.py", line) for line, _ in enumerate(MISTAKES, len(OPENING) + 1)]
    assert [mistake for mistake, place in zip(MISTAKES, places, strict=True) if place not in found] == []
    assert found == set(places), said


def test_dir_shows_public_names_only():
    assert dir(boundrec) == sorted(boundrec.__all__)
    assert all(hasattr(boundrec, name) for name in dir(boundrec))


def test_importing_boundrec_loads_no_library():
    code = "import sys, boundrec; dir(boundrec); print(*{'numpy', 'scipy', 'sklearn', 'numba'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_mypy_is_told_of_a_source_tree_and_finds_what_is_installed_itself(tmp_path):
    assert paths_for_mypy(tmp_path / "site-packages") == ""
    assert paths_for_mypy(tmp_path / "src") == str(tmp_path / "src")
