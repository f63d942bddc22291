"""The data's way through the house is the one that docs/design.md describes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
#: Runs a command and prints every module of which a function was called, after all of them were imported.
FOLLOW = """
import importlib, pkgutil, sys, threading
import boundrec, boundrec.cli
for found in pkgutil.walk_packages(boundrec.__path__, "boundrec."):
    if not found.name.endswith("__main__"):
        importlib.import_module(found.name)
seen = set()
def follow(frame, event, argument):
    path = frame.f_code.co_filename.replace("\\\\", "/")
    if event == "call" and "/boundrec/" in path and frame.f_code.co_name != "<module>":
        seen.add(path.rsplit("/boundrec/", 1)[1])
sys.argv = ["boundrec", *sys.argv[1:]]
threading.setprofile(follow)
sys.setprofile(follow)
try:
    boundrec.cli.main()
except SystemExit as end:
    assert not end.code, end.code
finally:
    sys.setprofile(None)
print("seen:", *sorted(seen), file=sys.stderr)
"""


def followed(*arguments: str | Path) -> set[str]:
    """The modules that a command passes through."""
    command = [sys.executable, "-c", FOLLOW, *map(str, arguments)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return set(run.stderr.rsplit("seen:", 1)[1].split())


def described() -> tuple[list[str], list[str], set[str]]:
    """The hops of both ways, and the modules beside them."""
    page = (ROOT / "docs" / "design.md").read_text()
    chapter = page.split("## The data's way", 1)[1].split("\n## ", 1)[0]
    there, back = chapter.split("and from a model file", 1)
    back, beside = back.split("Beside the way", 1)
    hops = [re.findall(r"^\d+\. `([^`]+)`", part, re.MULTILINE) for part in (there, back)]
    return hops[0], hops[1], set(re.findall(r"`([^`]+\.py)`", beside))


@pytest.mark.skipif(not (ROOT / "docs" / "design.md").exists(), reason="the documentation is not here")
def test_both_ways_go_through_the_modules_that_the_page_lists_and_no_others(tmp_path: Path) -> None:
    there, back, beside = described()
    assert len(there) <= 14
    assert len(back) <= 10
    rng = np.random.default_rng(0)
    rows = [f"u{user},i{item},{rng.integers(1, 6)}" for user in range(12) for item in rng.permutation(15)[:9]]
    (tmp_path / "ratings.csv").write_text("\n".join(["user,item,rating", *rows]) + "\n")
    model = tmp_path / "model.safetensors"
    fitting = followed("fit", tmp_path / "ratings.csv", "--model", "mbmf", "--bounds", "1", "5", "--output", model)
    listing = followed("recommend", model, "u1")
    # Kernels are compiled code, which no profiler sees.
    assert set(there) - {"solvers/kernels.py"} <= fitting
    assert set(back) <= listing
    assert fitting - set(there) <= beside
    assert listing - set(back) <= beside
