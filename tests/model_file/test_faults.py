"""A failure at every single write, fsync and rename: afterwards there is the old file or the new one, and no other."""

import errno
import gzip
import io
import os
from types import SimpleNamespace

import numpy as np
import pytest
from rating_files import write_ratings
from typer.testing import CliRunner

from boundrec import MBMF, files
from boundrec.cli import app
from boundrec.paper import methods
from boundrec.paper.cells import Cell, CellStore
from boundrec.paper.report import Contents, write_report
from boundrec.paper.reproduce import machine
from boundrec.report import model as report_of_a_model
from boundrec.report import plots

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

OLD = b"what was there before"
FAULTS = {"full disk": OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "Ctrl-C": KeyboardInterrupt()}


class Faults:
    """Counts every write, fsync and rename of a file in the making, and fails at one of them."""

    def __init__(self):
        self.steps, self.failing, self.fault = [], None, None

    def step(self, what):
        """One more step; True where it is to fail."""
        self.steps.append(what)
        return len(self.steps) - 1 == self.failing

    def wrapped(self, what, function):
        def call(*arguments):
            if self.step(what):
                raise self.fault
            return function(*arguments)

        return call

    def open(self, path, mode):
        faults = self

        class Failing(io.FileIO):
            def write(self, data):
                if faults.step("write"):
                    super().write(bytes(data)[: len(data) // 2])
                    raise faults.fault
                return super().write(data)

        return io.BufferedRandom(Failing(path, mode.replace("b", "")))

    def run(self, action, failing=None, fault=None):
        """The steps of an action; it must tell of the fault, unless that came after the last step."""
        self.steps, self.failing, self.fault = [], failing, fault
        try:
            told = action()
        except (OSError, KeyboardInterrupt):
            told = 1
        assert bool(told) == (failing is not None)
        return self.steps


@pytest.fixture
def faults(monkeypatch):
    """Faults at every step of writing, and quick work before it: what is drawn does not matter here."""
    faults = Faults()
    for axes in ("_draw_reach", "_draw_errors"):
        monkeypatch.setattr(plots, axes, lambda *arguments: None)
    monkeypatch.setattr(report_of_a_model, "write_page", lambda *arguments: "a page\n" * 10_000)
    monkeypatch.setattr(files, "open", faults.open, raising=False)
    monkeypatch.setattr(os, "fsync", faults.wrapped("fsync", os.fsync))
    monkeypatch.setattr(os, "replace", faults.wrapped("replace", os.replace))
    return faults


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("faults")


@pytest.fixture(scope="module")
def ratings(folder):
    return write_ratings(folder / "ratings.csv", n_users=12, n_items=9)


@pytest.fixture(scope="module")
def model(folder):
    rng = np.random.default_rng(0)
    users, items = np.nonzero(rng.random((12, 9)) < 0.6)
    X = [(int(user) + 1, f"film {item:02}") for user, item in zip(users, items, strict=True)]
    model = MBMF(2, bounds=(0.5, 5), max_iter=2, random_state=0).fit(X, rng.integers(1, 6, len(X)).astype(float))
    model.save(folder / "model.safetensors")
    return model


def command(*arguments):
    """A command's exit code."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments]).exit_code


def draw_demo(path):
    plots.write_comparison([SimpleNamespace(name=name) for name in "abcd"], (0.5, 5), 10, path)


def report_of_the_paper(folder):
    write_report(Contents([methods.summarise_settings()], [machine()], 1, True), folder)


def keep_cell(folder):
    CellStore(folder, print).write(Cell("toy", {"name": "a"}, 1.0), {"rmse": 0.25}, {})


ACTIONS = {
    "save": lambda model, ratings, folder: model.save(folder / "model.safetensors", keep_ratings=True),
    **{
        f"recommend -o {ending}": lambda model, ratings, folder, ending=ending: command(
            "recommend", ratings.parent / "model.safetensors", "-o", folder / f"lists{ending}"
        )
        for ending in (".csv", ".csv.gz", ".ndjson", ".parquet")
    },
    "report": lambda model, ratings, folder: command(
        "report", ratings.parent / "model.safetensors", ratings, "-o", folder / "report.html"
    ),
    "demo": lambda model, ratings, folder: draw_demo(folder / "demo.png"),
    "reproduce, a cell": lambda model, ratings, folder: keep_cell(folder),
    "reproduce, the report": lambda model, ratings, folder: report_of_the_paper(folder),
}


def contents(folder):
    """Every file, hidden ones too; packed ones unpacked, for they hold the time."""
    read = {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return {name: gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content for name, content in read.items()}


@pytest.mark.parametrize(("fault", "before"), [("full disk", OLD), ("Ctrl-C", OLD), ("full disk", None)])
@pytest.mark.parametrize("action", ACTIONS)
def test_a_failure_at_any_step_leaves_the_old_file_or_the_new_one(
    action, fault, before, faults, model, ratings, tmp_path
):
    def act():
        return ACTIONS[action](model, ratings, tmp_path)

    steps = faults.run(act)
    whole = contents(tmp_path)
    assert steps.count("replace") == len(whole)
    assert steps.count("fsync") == 2 * len(whole)
    assert "write" in steps or "parquet" in action
    for failing, step in enumerate(steps):
        for name in whole:
            if before is None:
                (tmp_path / name).unlink(missing_ok=True)
            else:
                (tmp_path / name).write_bytes(before)
        faults.run(act, failing, FAULTS[fault])
        left = contents(tmp_path)
        assert all(left.get(name, before) in (before, content) for name, content in whole.items()), step
        assert left.keys() <= whole.keys()
        assert before is None or left.keys() == whole.keys()
