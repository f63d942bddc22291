"""Cells survive anything: a kill, damage, a full disk, other runs; and count only where they belong."""

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import boundrec
from boundrec import MBMF, MF, NMF, BoundedSVD
from boundrec.paper.cells import LONG, Cell, CellStore, make_plan, work_off
from boundrec.paper.protocol import basis

RESULTS = Path(__file__).parents[2] / "docs" / "results"


def cell(name="a", seconds=1.0, tier=0, basis=None, possible=True, **settings):
    return Cell("toy", {"name": name, **settings}, seconds, tier, basis, possible)


@pytest.fixture
def complaints():
    return []


@pytest.fixture
def store(tmp_path, complaints):
    return CellStore(tmp_path / "out", complaints.append)


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


def test_a_name_is_one_plain_word():
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
    damage(store.path("toy"))
    plan = make_plan([cell()], store)
    assert plan.done == {}
    assert len(complaints) == 1
    assert "done again" in complaints[0]
    work_off(plan, lambda c: {"rmse": 0.5}, store, {})
    assert store.read(cell())["result"] == {"rmse": 0.5}
    assert store.path("toy").read_bytes().count(b"\n") == 1


def test_damage_to_one_line_is_named_and_costs_no_other_cell(store, complaints):
    for name in "abc":
        store.write(cell(name), {"letter": name}, {})
    lines = store.path("toy").read_text().splitlines()
    store.path("toy").write_text("\n".join([lines[0], lines[1].replace('"letter": "b"', '"letter": "x"'), lines[2]]))
    plan = make_plan([cell(name) for name in "abc"], store)
    assert [c.settings["name"] for c in plan.todo] == ["b"]
    assert complaints == [
        "toy.ndjson, line 2 does not match its checksum: it does not count, and is done again in its turn."
    ]
    work_off(plan, lambda c: {"letter": "b"}, store, {})
    assert store.path("toy").read_text().splitlines()[::2] == lines[::2]
    assert [store.read(cell(name))["result"]["letter"] for name in "abc"] == ["a", "b", "c"]


def test_a_line_is_a_cell_and_the_order_does_not_depend_on_who_was_first(store):
    for name in "cab":
        store.write(cell(name), {}, {})
    settings = [json.loads(line)["settings"] for line in store.path("toy").read_text().splitlines()]
    assert settings == [{"name": "a"}, {"name": "b"}, {"name": "c"}]


def test_a_file_of_another_experiment_is_noticed(store, complaints):
    store.write(Cell("else", {"name": "a"}, 1.0), {"rmse": 1.0}, {})
    store.path("else").rename(store.path("toy"))
    assert store.read(cell("a")) is None
    assert "line 1 belongs to another experiment" in complaints[0]


# --- results in a file each, as they were kept before ------------------------------------------------------------


def keep_as_before(folder, settings, result):
    """A result in a file of its own; its path."""
    record = {"experiment": "toy", "settings": settings, "basis": None, "result": result, "made": {}}
    checksum = hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()
    path = folder / "cells" / f"{Cell('toy', settings, 1.0).name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**record, "checksum": checksum}, indent=1))
    return path


def test_results_in_a_file_each_are_taken_over_and_their_folder_is_gone(tmp_path, complaints):
    keep_as_before(tmp_path, {"name": "b"}, {"rmse": 0.25})
    keep_as_before(tmp_path, {"name": "a"}, {"rmse": 0.5})
    damage_digit(keep_as_before(tmp_path, {"name": "c"}, {"rmse": 0.25}))
    store = CellStore(tmp_path, complaints.append)
    assert [store.read(cell(name))["result"]["rmse"] for name in "ab"] == [0.5, 0.25]
    assert store.read(cell("c")) is None
    assert len(complaints) == 1
    assert "does not match its checksum: it does not count, and is done again in its turn" in complaints[0]
    assert [path.name for path in tmp_path.iterdir()] == ["toy.ndjson"]


def test_what_is_known_already_goes_before_results_in_a_file_each(tmp_path, complaints):
    CellStore(tmp_path, complaints.append).write(cell("a"), {"rmse": 1.0}, {})
    keep_as_before(tmp_path, {"name": "a"}, {"rmse": 2.0})
    keep_as_before(tmp_path, {"name": "b"}, {"rmse": 3.0})
    store = CellStore(tmp_path, complaints.append)
    assert [store.read(cell(name))["result"]["rmse"] for name in "ab"] == [1.0, 3.0]


def test_what_else_is_in_the_old_folder_stays(tmp_path, complaints):
    keep_as_before(tmp_path, {"name": "a"}, {"rmse": 2.0})
    (tmp_path / "cells" / "notes.txt").write_text("mine")
    assert CellStore(tmp_path, complaints.append).read(cell("a")) is not None
    assert CellStore(tmp_path, complaints.append).read(cell("a")) is not None
    assert [path.name for path in (tmp_path / "cells").iterdir()] == ["notes.txt"]


# --- plans --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.ndjson")), ids=lambda path: path.stem)
def test_settings_that_models_were_given_later_leave_committed_results_valid(path):
    bases = [json.loads(line)["basis"] for line in path.read_text(encoding="utf-8").splitlines()]
    for told in {json.dumps(one): one for one in bases if one and one.get("settings")}.values():
        model = getattr(boundrec, told["model"])(**told["settings"])
        assert json.loads(json.dumps(basis(model)["settings"])) == told["settings"]


def test_a_rival_that_stops_otherwise_is_on_another_basis():
    assert "tol_mode" not in basis(MF())["settings"]
    assert basis(MF(tol_mode="absolute"))["settings"]["tol_mode"] == "absolute"
    assert basis(MBMF())["settings"]["tol_mode"] == "relative"


def test_walls_that_do_not_go_with_the_range_are_on_another_basis():
    assert "scaled" not in basis(BoundedSVD(bounds=(0, 10)))["settings"]
    assert basis(BoundedSVD(bounds=(0, 10), scaled=False))["settings"]["scaled"] is False


def test_a_revised_method_is_on_another_basis_where_the_revision_tells():
    stars = basis(NMF(bounds=(1, 5)))
    assert stars["revision"] == 2
    for bounds in ((0, 5), (-10, 10), (None, 5), (0, None), None):
        assert "revision" not in basis(NMF(bounds=bounds))
    assert "revision" not in basis(MF(bounds=(1, 5)))


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


def test_a_file_of_cells_that_is_a_folder_is_said_in_a_sentence(store):
    store.path("toy").mkdir()
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
        (folder / "out" / ".boundrec-half.tmp").write_text("{half a rec")
        time.sleep(patience)
    return {"name": cell.settings["name"]}

cells = [Cell("toy", {"name": name}, 1.0, tier) for tier, name in enumerate("abc")]
store = CellStore(folder / "out", lambda text: print(text, file=sys.stderr))
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


def test_two_runs_that_share_a_folder_lose_none_of_each_others_cells(tmp_path, complaints):
    def writes(run):
        store = CellStore(tmp_path / "out", complaints.append)
        for number in range(25):
            store.write(cell(run=run, number=number), {}, {})

    with ThreadPoolExecutor(2) as pool:
        for run in [pool.submit(writes, run) for run in (1, 2)]:
            run.result()
    cells = [cell(run=run, number=number) for run in (1, 2) for number in range(25)]
    assert len(make_plan(cells, CellStore(tmp_path / "out", complaints.append)).done) == 50
    assert complaints == []


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
    first = store.path("toy").read_bytes()
    assert store.read(cell("b")) is None
    again = subprocess.run([*command, "0"], capture_output=True, text=True, check=True)
    assert again.stderr == ""
    assert log.read_text() == "a\nb\nb\nc\n"
    assert store.path("toy").read_bytes().startswith(first)
    assert [store.read(cell(name))["result"]["name"] for name in "abc"] == ["a", "b", "c"]
