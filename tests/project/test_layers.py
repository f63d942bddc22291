"""Imports point down only: a walk over the source that fails on an upward arrow."""

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2] / "src" / "boundrec"

#: From the top down; a module may import from its own layer and from those below it. "boundrec" is the package's
#: __init__, which only gathers public names.
LAYERS = [
    {"__main__"},
    {"cli", "demo"},
    {"paper"},
    {"report", "spark"},
    {"boundrec"},
    {"model_file"},
    {"models", "rivals"},
    {"datasets", "splits", "metrics", "baselines", "reranking"},
    {"solvers", "ranges", "top_n"},
    {"data"},
    {"registry", "files", "notes", "arrays"},
]
HEIGHT = {part: -depth for depth, layer in enumerate(LAYERS) for part in layer}

#: Imports that must wait inside a function: numba is loaded by a fit, never by a prediction; and a model's `save`
#: is the one arrow that points up.
LAZY_ONLY = ("kernels", "compiling")
LAZY_UPWARD = {("boundrec.models.estimator", "boundrec.model_file")}


class Arrow(NamedTuple):
    """One import: who, whom, on which line, and whether it waits inside a function."""

    source: str
    target: str
    line: int
    lazy: bool


def module_name(file, root=ROOT):
    parts = ("boundrec", *file.relative_to(root).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def part(module):
    """The name in LAYERS that a module belongs to: boundrec.models.mbmf is in models."""
    return module.split(".")[1] if "." in module else module


def imported_modules(node, modules):
    """Full names of what an import statement imports; ``from package import module`` names the module."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    assert node.level == 0, f"line {node.lineno}: write the full name instead of a relative import"
    names = [f"{node.module}.{alias.name}" for alias in node.names]
    return [name if name in modules else node.module for name in names]


def arrows(source, name, modules):
    """Every import of one module, with those that wait inside functions marked."""
    tree = ast.parse(source)
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    waiting = {id(inner) for function in functions for inner in ast.walk(function)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            for target in imported_modules(node, modules):
                yield Arrow(name, target, node.lineno, id(node) in waiting)


@pytest.fixture(scope="module")
def all_arrows():
    sources = {module_name(file): file.read_text(encoding="utf-8") for file in sorted(ROOT.rglob("*.py"))}
    return [arrow for name, source in sources.items() for arrow in arrows(source, name, set(sources))]


def inner(found):
    return [arrow for arrow in found if arrow.target.split(".")[0] == "boundrec"]


def upward(found):
    """Arrows that point up, or to what loads Numba from outside a function."""
    wrong = []
    for arrow in inner(found):
        if arrow.lazy and (arrow.source, arrow.target) in LAZY_UPWARD:
            continue
        loads_numba = arrow.target.endswith(LAZY_ONLY) and not arrow.source.endswith(LAZY_ONLY) and not arrow.lazy
        if HEIGHT[part(arrow.target)] > HEIGHT[part(arrow.source)] or loads_numba:
            wrong.append(arrow)
    return wrong


def test_every_module_has_a_layer():
    homeless = {part(module_name(file)) for file in ROOT.rglob("*.py")} - set(HEIGHT)
    assert not homeless, f"give {sorted(homeless)} a place in LAYERS"


def test_no_import_points_up(all_arrows):
    assert len(inner(all_arrows)) > 10
    assert upward(all_arrows) == []


def test_imports_at_the_top_of_modules_make_no_circle(all_arrows):
    graph = {}
    for arrow in inner(all_arrows):
        if not arrow.lazy:
            graph.setdefault(arrow.source, set()).add(arrow.target)
    TopologicalSorter(graph).prepare()


def test_only_kernels_and_what_compiles_them_import_numba(all_arrows):
    importers = {arrow.source for arrow in all_arrows if arrow.target.split(".")[0] == "numba"}
    assert "boundrec.solvers.compiling" in importers
    assert [source for source in importers if not source.endswith(LAZY_ONLY)] == []


@pytest.mark.parametrize(
    ("name", "source", "caught"),
    [
        ("boundrec.data.ratings", "from boundrec.models.mbmf import MBMF", True),
        ("boundrec.data.ratings", "def f():\n    from boundrec import models", True),
        ("boundrec.ranges", "from boundrec import MBMF", True),
        ("boundrec.solvers.exact", "from boundrec.models.fitted import Fitted", True),
        ("boundrec.ranges.slack", "from boundrec.top_n import Seen", False),
        ("boundrec.models.mbmf", "from boundrec.solvers import kernels", True),
        ("boundrec.rivals.mf", "import boundrec.rivals.kernels", True),
        ("boundrec.models.mbmf", "def f():\n    from boundrec.solvers.kernels import solve_rows_ball", False),
        ("boundrec.solvers.sampling_kernels", "from boundrec.solvers.compiling import compiled", False),
        ("boundrec.models.estimator", "import boundrec.model_file", True),
        ("boundrec.models.estimator", "def save():\n    import boundrec.model_file", False),
        ("boundrec.models.answers", "def save():\n    import boundrec.model_file", True),
        ("boundrec.model_file", "from boundrec.rivals import Cut", False),
        ("boundrec.datasets", "from boundrec.datasets import published", False),
        ("boundrec.datasets", "from boundrec import splits", False),
    ],
)
def test_the_walk_sees_what_it_should(name, source, caught):
    modules = {
        "boundrec.models",
        "boundrec.splits",
        "boundrec.solvers.kernels",
        "boundrec.rivals.kernels",
        "boundrec.datasets.published",
    }
    assert bool(upward(arrows(source, name, modules))) is caught


def test_importing_boundrec_does_not_load_numba():
    code = "import sys, boundrec; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
