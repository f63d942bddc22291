"""The paper's experiments: a protocol with known answers, summaries, a report that stands alone."""

import json
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from paper_data import SMALL, forget_all_data
from rich.console import Console

from boundrec import MF, datasets
from boundrec.notes import Interrupted
from boundrec.paper import (
    Figure,
    Options,
    Outcome,
    Section,
    Table,
    figure1,
    figure2,
    mark_best,
    methods,
    protocol,
    table1,
    table2,
    table3,
)
from boundrec.paper.cells import LONG, Cell
from boundrec.paper.methods import METHODS, MeanPredictor
from boundrec.paper.report import Contents, number, page, unbroken, write_csv
from boundrec.paper.reproduce import describe_left_out, in_words, machine, reproduce


@pytest.fixture(autouse=True)
def forget_data():
    """Tests differ in where the data are."""
    forget_all_data()
    yield
    forget_all_data()


def cell(name="a", seconds=1.0, tier=0, **settings):
    return Cell("toy", {"name": name, **settings}, seconds, tier)


# --- the protocol ---------------------------------------------------------------------------------------------


@pytest.fixture
def small(monkeypatch):
    """A synthetic matrix in the place of the data set "synthetic", small enough for every method."""
    monkeypatch.setattr(protocol.datasets, "synthetic", lambda **_: SMALL)


def test_history_training_and_test_are_all_there_is_and_share_nothing(small):
    fold = protocol.fold_of("synthetic", 0, None)
    parts = np.concatenate([fold.history, fold.training, fold.test])
    assert np.array_equal(np.sort(parts), np.arange(SMALL.rating.size))
    assert fold.history.size == SMALL.rating.size // 2
    assert fold.test.size == round(0.1 * (SMALL.rating.size - fold.history.size))


def test_folds_differ_in_their_test_ratings_only(small):
    first, second = protocol.fold_of("synthetic", 0, None), protocol.fold_of("synthetic", 1, None)
    assert np.array_equal(first.history, second.history)
    assert not np.array_equal(first.test, second.test)


def test_no_test_rating_has_a_cold_side_where_the_split_protects(small):
    fold = protocol.fold_of("synthetic", 0, None)
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
    fold = protocol.fold_of("synthetic", 0, None)
    result = protocol.judge(protocol.TimedFit(Oracle(*fold.part(fold.test)), 1.0, 2.0, 3), fold)
    assert (result["rmse"], result["mae"], result["f1"]) == (0.0, 0.0, 100.0)
    assert result["n_test"] == fold.test.size
    assert result["cold"] == {"n_test": 0}
    assert (result["seconds"], result["cpu_seconds"], result["iterations"]) == (1.0, 2.0, 3)
    assert result["everywhere"]["n_pairs"] == 60 * 40


def test_errors_of_known_size_are_measured_clipped_and_counted_outside(small):
    fold = protocol.fold_of("synthetic", 0, None)
    X, y = fold.part(fold.test)
    result = protocol.judge(protocol.TimedFit(Oracle(X, np.full(y.size, 12.0)), 0.0, 0.0, 1), fold)
    assert result["rmse"] == pytest.approx(np.sqrt(np.mean((12 - y) ** 2)))
    assert result["clipped"]["rmse"] == pytest.approx(np.sqrt(np.mean((10 - y) ** 2)))
    assert result["outside"] == 1.0
    assert result["everywhere"]["above"] == pytest.approx(y.size / 2400)


def test_pairs_with_a_cold_side_have_a_line_of_their_own():
    user, item = np.array([0, 0, 1, 1, 2], np.int32), np.array([0, 1, 0, 1, 0], np.int32)
    data = datasets.Dataset("toy", user, item, np.array([1.0, 2, 3, 4, 5]), (1, 5))
    fold = protocol.Fold(data, np.array([], np.intp), np.array([0, 1, 2]), np.array([3, 4]))
    X, y = fold.part(fold.test)
    result = protocol.judge(protocol.TimedFit(Oracle(X, y + np.array([0, 1])), 0.0, 0.0, 1), fold)
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
    monkeypatch.setattr(methods, "MAX_ITER", 3)
    fold = protocol.fold_of("synthetic", 0, None)
    method = METHODS[name]
    built = []

    def build(setting):
        built.append(method.build(setting))
        return built[0].set_params(max_iter=3) if hasattr(built[0], "set_params") else built[0]

    monkeypatch.setitem(METHODS, name, method._replace(build=build))
    result = protocol.judge(protocol.fit_on(fold, {"method": name, "factors": 4, "fold": 0}), fold)
    assert 0 < result["rmse"] < 20
    json.dumps(result, allow_nan=False)


def test_rivals_with_history_train_on_it_and_own_history_leaves_it_alone(small, monkeypatch):
    seen = []
    monkeypatch.setattr(protocol, "warm_up", lambda name: None)
    monkeypatch.setattr(protocol, "fit", lambda model, X, y, **more: seen.append((len(y), more)))
    fold = protocol.fold_of("synthetic", 0, None)
    for name in ("MF", "MF + history", "MBMF-n", "MBMF-n, own history"):
        protocol.fit_on(fold, {"method": name, "factors": 4, "fold": 0})
    sizes = [size for size, _ in seen]
    training = fold.training.size
    assert sizes == [training, training + fold.history.size, training, training]
    assert [len(more["history"][1]) for _, more in seen[2:]] == [fold.history.size, training]


def test_ctrl_c_in_a_fit_ends_the_run_and_not_only_the_fit():
    def press(sweep, objective, model):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        protocol.fit(MF(2, max_iter=5), SMALL.pairs, SMALL.rating, callback=press)

    class Stopped:
        def fit(self, X, y):
            warnings.warn("whatever it says", Interrupted, stacklevel=1)

    with pytest.raises(KeyboardInterrupt):
        protocol.fit(Stopped(), SMALL.pairs, SMALL.rating)


def test_every_method_has_an_estimate_that_grows_with_the_data():
    for name, method in METHODS.items():
        little = methods.estimated_seconds(method, 10, (100, 100), 1_000)
        much = methods.estimated_seconds(method, 10, (10_000, 10_000), 1_000_000)
        assert 0 < little <= much, name


def test_open_ends_are_closed_by_the_data_for_those_who_need_both():
    data = datasets.Dataset("toy", *np.zeros((2, 3), np.int32), np.array([1.0, 7, 3]), (0, None))
    assert methods.conditions(data, 2, 0).span == (0.0, 7.0)


# --- the paper's numbers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", table3.PRINTED)
def test_the_papers_figures_average_to_what_it_prints_but_for_one(data):
    wrong = []
    for method, printed in table3.PRINTED[data].items():
        for metric, figures, average in zip(table3.METRICS, printed, table3.AVERAGES[data][method], strict=True):
            if np.mean(figures) != pytest.approx(average, rel=5e-4):
                wrong.append((method, metric, average))
    assert wrong == ([("NMF", "rmse", 131098)] if data == "Ali Mob" else [])  # its figures average 83763


def test_the_papers_running_times_average_to_what_it_prints():
    full = [times for (_, _, density), times in table1.PRINTED.items() if density == 1]
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


def table_3(done, factors=(10, 20, 50)):
    """Table 3 of Jester; ``done`` has for each method the RMSE of its folds at each K, None where one is not done."""
    made = []
    for method, columns in done.items():
        for k, errors in zip(factors, columns, strict=True):
            for fold, rmse in enumerate(errors):
                settings = {"data": "jester1", "method": method, "factors": k, "fold": fold}
                result = rmse and {"rmse": rmse, "mae": 1.0, "f1": 50.0, "shape": (60, 40, 1200)}
                made.append(Outcome(Cell("table3", settings, 1.0), result))
    return table3._accuracy("jester1", made)


def test_table_3_has_the_average_over_k_beside_the_one_that_the_paper_prints():
    table = table_3({"MF": ([4.0], [5.0], [9.0]), "MBMF-n": ([1.0], [2.0], [None]), "Means": ([3.0], [3.0], [3.0])})
    assert list(table.columns[1:5]) == ["K = 10", "K = 20", "K = 50", "average"]
    assert [span for _, span in table.groups] == [1, 4, 4, 4]
    means, mf, ours = (row[4] for row in table.rows)
    assert (mf.value, mf.published, mf.remark) == (6.0, 5.071, "(1)")
    assert (ours.value, ours.published, ours.absent) == (None, 4.641, "–")  # K = 50 is not there
    assert (means.value, means.published) == (3.0, None)
    assert [row[12].published for row in table.rows] == [None, 62.38, 65.63]
    assert [row[12].best for row in table.rows] == [False, False, False]  # one alone is not the best of any


def test_an_average_over_other_k_than_the_papers_is_not_put_beside_its_average():
    table = table_3({"MF": ([4.0], [5.0])}, factors=(10, 20))
    assert (table.rows[0][3].value, table.rows[0][3].published) == (4.5, None)


def test_an_average_over_k_says_how_many_folds_each_k_has_where_they_differ():
    table = table_3({"MF": ([4.0, 6.0], [5.0, None], [9.0, 9.0])})
    assert (table.rows[0][4].value, table.rows[0][4].remark) == (pytest.approx(19 / 3), "(2, 1, 2)")


def test_table_3_says_which_rows_rest_on_other_folds_than_others():
    whole, first, second = ([4.0, 6.0],) * 3, ([4.0, None],) * 3, ([None, 4.0], [4.0, None], [None, None])
    assert table_3({"MF": whole, "NMF": whole, "MF, two steps": ([None, None],) * 3}).notes[0].startswith("Not run yet")
    unlike = {"MF": whole, "NMF": whole, "BMF": first, "MF, two steps": first, "CCD++": second}
    notes = table_3(unlike).notes
    assert "only those named together here are compared on the same ones" in notes[0]
    assert notes[1:4] == [
        "2 folds at every K: MF; NMF.",
        "1 fold (number 2) at K = 10, 1 fold at K = 20: CCD++.",
        "1 fold at every K: BMF; MF, two steps.",
    ]
    assert "; MBMF-n, own history; " in notes[4]


def test_a_finding_is_about_the_folds_that_all_rows_have():
    """BMF has one fold: on it MBMF-n changes by half, on both by less."""
    settings = [(m, k, f) for m in ("Means", *table3.PAPER) for k in (10, 20) for f in (0, 1) if (m, f) != ("BMF", 1)]
    made = [
        Outcome(
            Cell("table3", {"data": "jester1", "method": m, "factors": k, "fold": f}, 1.0),
            {"rmse": 1.5 if (m, k, f) == ("MBMF-n", 20, 0) else 1.0},
        )
        for m, k, f in settings
    ]
    (finding,) = table3._findings("Jester", made)
    assert finding.startswith("Jester, 1 fold that all have: ")
    assert "MBMF-n changes by 50.0 %" in finding


def test_table_3_names_as_not_run_what_has_no_result_though_it_would_take_long_at_one_k():
    def made(method, seconds, result):
        return Outcome(Cell("table3", {"data": "jester1", "method": method, "factors": 10, "fold": 0}, seconds), result)

    done = made("MF", 1.0, {"rmse": 1.0, "mae": 1.0, "f1": 50.0, "shape": (60, 40, 1200)})
    assert "BMF + history" in table3._accuracy("jester1", [done, made("BMF + history", 1e6, None)]).notes[-1]


def test_table_1_says_where_times_are_not_means_of_equally_many_runs():
    size = {"users": 20, "items": 50, "density": 1.0}
    runs = [("MF", 0), ("MF", 1), ("NMF", 0)]
    times = {"cpu_seconds": 1.0, "seconds": 1.0, "iterations": 5}
    made = [Outcome(Cell("table1", {"method": m, **size, "repeat": r}, 1.0), times) for m, r in runs]
    assert table1._runs([(20, 50, 1.0)], made)[1:] == ["20 × 50: 1 run of NMF; 2 runs of MF."]
    assert table1._runs([(20, 50, 1.0)], made[1:]) == []


def test_notes_of_a_table_are_in_the_page():
    table = Table("t", "A caption", ["method", "x"], [["MF", Figure(1.0)]], notes=["Rows < differ."])
    whole = page(Contents([Section("S", [], [table])], [machine()], 1, quick=True))
    assert whole.index("A caption") < whole.index("Rows &lt; differ.") < whole.index("<td>")


def test_figure_2_says_how_often_the_papers_claim_holds():
    made = []
    for k, winner in ((5, "MBMF-n"), (10, "CCD++")):
        for method in (*methods.RIVALS, *methods.OURS):
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

    monkeypatch.setitem(METHODS, "MF", methods.Method(lambda s: Drift(s.seed)))
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


def test_the_seven_sizes_and_all_methods_are_in_the_full_table_of_times(monkeypatch):
    monkeypatch.setattr(methods, "threads_for", lambda *_: 2)  # estimates are for the machine at hand
    cells = table1.cells(Options())
    sizes = {(c.settings["users"], c.settings["items"], c.settings["density"]): c for c in cells}
    assert set(table1.PRINTED) <= sizes.keys()
    smaller = {size: sizes[size] for size in sizes.keys() - table1.PRINTED.keys()}
    assert {(c.settings["method"], *size) for size, c in smaller.items()} == {
        ("BMC-ADMM", 10_000, 10_000, 0.01),
        ("BMC-ADMM", 20_000, 50_000, 0.002),
    }
    assert all(c.seconds < LONG for c in smaller.values())  # they are run by whoever asks for the table
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
        assert f"{protocol.PAPER_DATA[name].title}: not present." in report


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
    whole = page(Contents(sections, [machine()], 2, quick=False))
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
    assert "<script>" not in page(Contents([], [{**machine(), "cpu": "<script>"}], 1, quick=True))
