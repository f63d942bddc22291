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
MBMF().predict(X).no_such_attribute
MBMF().recommend().no_such_attribute
load("model").predict(X).no_such_attribute
f1([1.0], [1.0], [1], {}, average="x")
""".strip().splitlines()
MISTAKEN = [
    "from boundrec import BMCADMM, BMF, MBMF, MF, NMF, BayesianMBMF, BoundedSVD, CCDPlusPlus, Ratings, load",
    "from boundrec.metrics import f1",
    'X, y = [("ann", "tea")], [5.0]',
]


@pytest.fixture(scope="module")
def scripts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("typing")
    shutil.copy(SCRIPT, folder)
    (folder / "mistaken.py").write_text("\n".join([*MISTAKEN, *MISTAKES]) + "\n")
    return folder


def run(tool, *arguments):
    done = subprocess.run(
        [sys.executable, "-m", tool, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "MYPYPATH": str(SOURCE), "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"},
    )
    assert "No module named" not in done.stderr, f"{done.stderr}\npip install boundrec[test]"
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def mypy(scripts):
    """What mypy says of each script, by its name and line."""
    strict = ["--strict", "--config-file", os.devnull, "--follow-imports=silent", "--cache-dir", scripts / "cache"]
    said = run("mypy", *strict, *scripts.glob("*.py"))
    return found_in(re.findall(r"(\w+\.py):(\d+): (error: .*)", said), said)


@pytest.fixture(scope="module")
def pyright(scripts):
    """What pyright says of each script, by its name and line."""
    settings = {"typeCheckingMode": "strict", "extraPaths": [str(SOURCE)]}
    (scripts / "pyrightconfig.json").write_text(json.dumps(settings))
    said = run("pyright", "--project", scripts, "--pythonpath", sys.executable)
    return found_in(re.findall(r"(\w+\.py):(\d+):\d+ - (error: .*)", said), said)


def found_in(messages, said):
    found = {SCRIPT.name: {}, "mistaken.py": {}}
    for name, line, message in messages:
        found[name].setdefault(int(line), message)
    assert found["mistaken.py"], said
    return found


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_a_users_script_has_precise_types_without_complaint(checker, request):
    assert request.getfixturevalue(checker)[SCRIPT.name] == {}


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_wrong_words_and_wrong_uses_of_results_are_reported(checker, request):
    reported = request.getfixturevalue(checker)["mistaken.py"]
    missed = [mistake for line, mistake in enumerate(MISTAKES, len(MISTAKEN) + 1) if line not in reported]
    assert missed == []
    assert min(reported) > len(MISTAKEN)


def test_dir_shows_public_names_only():
    assert dir(boundrec) == sorted(boundrec.__all__)
    assert all(hasattr(boundrec, name) for name in dir(boundrec))


def test_importing_boundrec_loads_no_library():
    code = "import sys, boundrec; dir(boundrec); print(*{'numpy', 'scipy', 'sklearn', 'numba'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
