"""The study of what the paper leaves open: its cells, its scores, and the choice that follows from it."""

from pathlib import Path

import numpy as np
import pytest
from paper_data import SMALL, forget_all_data

from boundrec.paper import Options, Outcome, protocol, readings, table3
from boundrec.paper.readings import AS_IT_WAS, BOOKS, COUNTS, EIGHT, JESTER, JESTER_20, RESTARTS, TIMES

NOWHERE = Options(folder=Path("no/such/folder"))
RESULTS = Path(__file__).parents[2] / "docs" / "results" / "readings.ndjson"


@pytest.fixture(autouse=True)
def forget_data():
    forget_all_data()
    yield
    forget_all_data()


def answer(question, words):
    return next(one for one in readings.SINGLE if (one.question, one.answer) == (question, words))


def test_a_reading_changes_the_methods_that_it_is_about_and_shares_the_others_cells():
    positive = answer("start", "directions ≥ 0")
    changed = {m for m in EIGHT if own(positive, JESTER, m) != own(AS_IT_WAS, JESTER, m)}
    assert changed == {"MBMF-n", "MBMF-c"}


def own(reading, place, method):
    return readings.cell(reading, place, method, NOWHERE).name


def test_a_reading_of_the_data_changes_every_method_there_and_nothing_elsewhere():
    filled = answer("BookCrossing's zeros", "set to 8")
    assert all(own(filled, BOOKS, m) != own(AS_IT_WAS, BOOKS, m) for m in BOOKS.methods)
    assert all(own(filled, COUNTS, m) == own(AS_IT_WAS, COUNTS, m) for m in COUNTS.methods)


def test_a_reading_of_figure_2_changes_its_matrices_only():
    independent = answer("Figure 2's matrix", "independent entries")
    assert readings.cell(independent, RESTARTS, "MF", NOWHERE).settings["rank"] is None
    assert own(independent, JESTER, "MF") == own(AS_IT_WAS, JESTER, "MF")


def test_several_answers_together_change_what_each_of_them_does():
    parts = answer("start", "directions ≥ 0"), answer("ρ", ".01"), answer("Figure 2's matrix", "independent entries")
    both = readings.together(*parts)
    assert both.changed["MBMF-n"] == {"init": "orthant", "history_share": 0.01}
    assert both.rank is None


def test_every_answer_sets_what_its_models_have():
    for reading in readings.READINGS:
        for method in EIGHT:  # each cell builds its model
            changed = readings.cell(reading, RESTARTS, method, NOWHERE).settings["changed"]
            assert changed.items() >= reading.changed.get(method, {}).items()
    misspelt = readings.Reading("start", "none", {"MBMF-n": {"initt": "orthant"}})
    with pytest.raises(ValueError, match="Invalid parameter 'initt'"):
        readings.cell(misspelt, RESTARTS, "MBMF-n", NOWHERE)


def test_readings_differ_from_the_first_preset_and_from_each_other():
    made = [tuple(own(one, place, m) for place in readings.PLACES for m in place.methods) for one in readings.READINGS]
    assert len(set(made)) == len(made)


def test_ratings_less_their_lower_end_have_the_same_errors(monkeypatch):
    monkeypatch.setattr(protocol.datasets, "synthetic", lambda **_: SMALL)
    fold = protocol.fold_of("synthetic", 0, None)
    data = protocol.replace(fold.data, rating=fold.data.rating + 3, bounds=(3, 13))
    moved = protocol.replace(fold, data=data).shifted()
    assert moved.data.bounds == (0, 10)
    assert np.allclose(moved.data.rating, fold.data.rating)


def test_a_cell_is_run_with_what_is_changed(monkeypatch):
    monkeypatch.setattr(protocol.datasets, "synthetic", lambda **_: SMALL)
    seen = []
    monkeypatch.setattr(protocol, "warm_up", lambda name: None)
    monkeypatch.setattr(protocol, "fit", lambda model, *_, **__: seen.append(model) or 1 / 0)
    place = readings._errors("synthetic", 3)
    cell = readings.cell(answer("ρ", ".01"), place, "MBMF-n", Options())
    with pytest.raises(ZeroDivisionError):
        readings.run(cell.settings, Options())
    assert (seen[-1].history_share, seen[-1].n_factors) == (0.01, 3)


# --- scores -----------------------------------------------------------------------------------------------------


def result(rmse=5.0, mae=4.0, f1=50.0, below=0.0, average=1.0, largest=2.0, cpu_seconds=1.0):
    everywhere = {"below": below}
    return {
        **{"rmse": rmse, "mae": mae, "f1": f1, "everywhere": everywhere},
        **{"average": average, "largest": largest, "cpu_seconds": cpu_seconds},
    }


def test_figures_within_two_per_cent_of_the_papers_count():
    printed = table3.PRINTED["Jester"]["MF"]

    def found(place, method):
        if (place, method) != (JESTER, "MF"):
            return None
        return result(printed[0][0] * 1.019, printed[1][0] * 0.979, printed[2][0])

    scored = readings.score(found)
    assert (scored.close, scored.figures) == (2, 3)
    assert scored.judged == 0  # nothing can be said of remarks that need the others


def everyone(**best):
    """The same results for all, and better ones for one method."""
    return lambda place, method: result(**best.get(method.replace("-", "_"), {}))


@pytest.mark.parametrize(
    ("remark", "winner", "figures"),
    [
        ("Jester: MBMF-n has the lowest RMSE", "MBMF_n", {"rmse": 4.0}),
        ("Jester: MBMF-n has the highest F1", "MBMF_n", {"f1": 60.0}),
        ("BookCrossing: MBMF-c has the lowest RMSE and MAE", "MBMF_c", {"rmse": 4.0, "mae": 3.0}),
        ("Counts: MBMF-c has the lowest MAE and the highest F1", "MBMF_c", {"mae": 3.0, "f1": 60.0}),
        ("Variation: MBMF-n has the lowest ave(σ)", "MBMF_n", {"average": 0.5}),
        ("Variation: NMF has the largest max(σ)", "NMF", {"largest": 9.0}),
        ("Time: MBMF-n is faster than BMC-ADMM at 2,000 × 5,000", "MBMF_n", {"cpu_seconds": 0.5}),
    ],
)
def test_a_remark_holds_for_who_is_best_and_for_nobody_else(remark, winner, figures):
    holds = readings.REMARKS[remark]
    assert holds(everyone(**{winner: figures}))
    assert not holds(everyone(CCDpp={}, MF={key: 0.0 if key != "f1" else 99.0 for key in figures} | {"largest": 99.0}))


def test_predictions_below_the_lower_end_are_rare_up_to_one_per_cent():
    holds = readings.REMARKS["MBMF-n is very rarely below the lower end"]
    assert holds(everyone(MBMF_n={"below": 0.01}))
    assert not holds(everyone(MBMF_n={"below": 0.011}))


def test_both_forms_have_to_change_least_with_k():
    def found(c):
        def of(place, method):
            at = 4.0 if place is JESTER_20 else 5.0
            return result(5.0 if method == "MBMF-n" else c if (place is JESTER_20 and method == "MBMF-c") else at)

        return of

    holds = readings.REMARKS["RMSE on Jester: both forms of MBMF change least with K"]
    assert holds(found(5.01))
    assert not holds(found(3.0))


def test_what_is_not_finite_is_never_the_best():
    found = everyone(MF={"rmse": None, "f1": None})
    assert readings._ranked(found, JESTER, "rmse")[-1] == "MF"
    assert readings._ranked(found, JESTER, "f1", high=True)[-1] == "MF"


def test_the_section_says_which_reading_is_best_and_has_a_row_for_each():
    cells = {readings.cell(*at, NOWHERE).name: readings.cell(*at, NOWHERE) for at in readings._everywhere()}
    outcomes = [Outcome(cell, result()) for cell in cells.values()]
    section = readings.summarise(outcomes, NOWHERE)
    table, remarks = section.tables
    assert len(table.rows) == len(readings.READINGS)
    assert len(remarks.rows) == len(readings.REMARKS)
    assert "The best: " in section.findings[0]
    assert TIMES.methods == ("BMC-ADMM", "MBMF-n")


def test_the_quick_version_has_no_study():
    assert readings.cells(Options(quick=True)) == []
    assert "full version" in readings.summarise([], Options(quick=True)).text[0]
