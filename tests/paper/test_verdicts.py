"""The table of claims: verdicts follow from results, and the claims are the paper's own words."""

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from boundrec.paper import Options, Outcome, figure1, figure2, readings, table1, table3, verdicts
from boundrec.paper.cells import Cell
from boundrec.paper.methods import OURS
from boundrec.paper.verdicts import EIGHT, FAILS, HOLDS, IN_PART, OPEN, READING, Evidence

NOWHERE = Options(folder=Path("no/such/folder"))
PAPER = Path(__file__).parents[3] / "shared" / "paper" / "mbmf.tex"


def error(method, rmse, *, data="jester1", k=10, fold=0, **more):
    settings = {"data": data, "method": method, "factors": k, "fold": fold}
    result = {
        "rmse": rmse,
        "mae": rmse,
        "f1": None if rmse is None else 100 - rmse,
        "everywhere": {"below": 0.0, "above": 0.0},
        **more,
    }
    return Outcome(Cell(table3.NAME, settings, 0.0), result)


def evidence(*outcomes):
    return Evidence(outcomes, NOWHERE)


def test_nothing_measured_is_no_verdict():
    empty = evidence()
    assert {claim.judge(empty).verdict for claim in verdicts.CLAIMS} == {OPEN}


@pytest.mark.parametrize(
    ("cases", "verdict"),
    [({}, OPEN), ({"a": True}, HOLDS), ({"a": True, "b": False}, IN_PART), ({"a": False, "b": False}, FAILS)],
)
def test_all_some_or_none(cases, verdict):
    assert verdicts.of_cases(cases) == verdict


def test_methods_are_compared_on_the_folds_that_all_of_them_have():
    some = [error(method, 5.0) for method in EIGHT if method != "MBMF-n"]
    own = evidence(*some, error("MBMF-n", 4.0), error("MBMF-n", 400.0, fold=1))
    assert own.errors("jester1", "rmse")[10]["MBMF-n"] == 4.0


def test_an_error_that_is_not_finite_never_wins():
    own = evidence(*(error(method, 5.0) for method in EIGHT[1:]), error(EIGHT[0], None))
    assert EIGHT[0] not in {verdicts._best(own, "jester1", metric)[10] for metric in ("rmse", "f1")}


def of_jester(**better):
    return [error(m, better.get(m.replace("-", "_"), 5.0 + i), k=k) for k in (10, 20) for i, m in enumerate(EIGHT)]


def test_the_claim_on_jester_needs_both_places():
    assert verdicts._jester(evidence(*of_jester(MBMF_n=1.0, MBMF_c=2.0))).verdict == HOLDS
    assert verdicts._jester(evidence(*of_jester(MBMF_n=1.0))).verdict == IN_PART
    assert verdicts._jester(evidence(*of_jester())).verdict == FAILS


def test_most_cases_are_more_than_half_of_them():
    books = [error(m, 1.0 + (m == "MBMF-c"), data="bookcrossing_explicit") for m in EIGHT]
    won = of_jester(MBMF_n=1.0)
    assert verdicts._superior(evidence(*won, *books)).verdict == HOLDS
    lost = [error(m, 1.0 + i, data="movielens_1m", k=k) for k in (10, 20) for i, m in enumerate(EIGHT)]
    assert verdicts._superior(evidence(*won, *lost)).verdict == IN_PART  # two of four are not most


def sigma(method, value, rank=20, k=5):
    settings = {"method": method, "factors": k, "rank": rank, "size": 500, "restarts": 10}
    return Outcome(Cell(figure2.NAME, settings, 0.0), {"average": value, "largest": value})


def test_variation_is_judged_on_both_kinds_of_matrices():
    low = [sigma(method, 0.1 if method == "MBMF-n" else 1.0, None) for method in EIGHT]
    high = [sigma(method, 9.0 if method == "MBMF-n" else 1.0) for method in EIGHT]
    assert verdicts._least_varied(evidence(*low)).verdict == HOLDS
    assert verdicts._least_varied(evidence(*low, *high)).verdict == IN_PART
    assert verdicts._least_varied(evidence(*high)).verdict == FAILS


def test_a_k_at_which_one_of_the_eight_is_missing_says_nothing():
    assert verdicts._least_varied(evidence(*(sigma(m, 0.1) for m in EIGHT[1:]))).verdict == OPEN


def seconds(method, value, users=200_000, items=500_000, density=0.0002):
    settings = {"method": method, "users": users, "items": items, "density": density, "repeat": 0}
    return Outcome(Cell(table1.NAME, settings, 0.0), {"cpu_seconds": value, "iterations": 20})


def test_comparable_is_up_to_twice_the_time():
    both = seconds("MF", 10.0), seconds("NMF", 10.0)
    assert verdicts._comparable(evidence(*both, seconds("MBMF-n", 19.0))).verdict == HOLDS
    assert verdicts._comparable(evidence(*both, seconds("MBMF-n", 21.0))).verdict == FAILS
    as_fast = seconds("Bounded-SVD", 12.0)
    assert verdicts._comparable(evidence(*both, seconds("MBMF-n", 19.0), as_fast)).verdict == IN_PART


def test_the_smaller_matrix_that_stands_for_a_large_one_is_no_size_of_its_own():
    smaller = seconds("BMC-ADMM", 3.6, 20_000, 50_000, 0.002)
    own = evidence(smaller)
    assert own.seconds() == {}
    assert table1.projected((200_000, 500_000, 0.0002), "BMC-ADMM", own.times()) == (360.0, 20)


def test_a_spread_that_falls_on_one_matrix_is_not_rising_on_all():
    def scatter(matrix, *values):
        for density, value in zip(figure1.DENSITIES, values, strict=True):
            settings = {"method": "NMF", "density": density, "restarts": 100, "matrix": matrix}
            yield Outcome(Cell(figure1.NAME, settings, 0.0), {"average": value, "largest": value})

    assert verdicts._more_missing(evidence(*scatter(1, 1.0, 2.0, 3.0))).verdict == HOLDS
    assert verdicts._more_missing(evidence(*scatter(1, 1.0, 2.0, 3.0), *scatter(2, 1.0, 3.0, 2.0))).verdict == IN_PART


class Score(NamedTuple):
    holding: tuple[str, ...]


def study(**holding):
    """Evidence of a study with the remarks that hold under each of its readings, first of all the preset."""
    own = evidence()
    labels = {"preset": verdicts.PRESET}
    own.scores = {labels.get(label, label): Score(tuple(remarks)) for label, remarks in holding.items()}
    return own


def test_what_fails_under_the_preset_may_hold_as_a_whole_under_another_reading():
    def word(verdict, *remarks, **holding):
        return verdicts.with_readings(verdict, study(**holding), *remarks)[0]

    assert word(FAILS, "a", "b", preset="a", other="ab") == READING
    assert word(IN_PART, "a", "b", preset="a", other="ab") == IN_PART
    assert word(FAILS, "a", "b", preset="", other="a", third="b") == FAILS  # never both
    assert word(FAILS, "a", preset="a", other="a") == FAILS  # the preset is no other reading
    assert "“a” under 2 of 3" in verdicts.with_readings(HOLDS, study(preset="a", other="a", third=""), "a")[1]


def test_the_preset_is_a_reading_of_the_study():
    assert verdicts.PRESET in {reading.label for reading in readings.READINGS}


def test_a_cell_with_one_form_is_not_counted_and_told():
    one = [error(m, 9.0 if m == "MBMF-n" else 5.0, data="movielens_1m") for m in EIGHT if m != "MBMF-c"]
    found = verdicts._superior(evidence(*of_jester(MBMF_n=1.0), *one))
    assert "in 2 of 2 cells with both forms" in found.measured
    assert "with one form only: MovieLens 1M at K = 10 (MBMF-n 9, MF 5 [1])" in found.measured


def test_a_change_over_k_is_one_on_the_same_folds():
    some = [error(m, 5.0, k=k, fold=0) for m in EIGHT for k in table3.FACTORS]
    own = evidence(*some, error("MBMF-n", 500.0, k=10, fold=1))
    assert verdicts._changes(own, "jester1")["MBMF-n"] == 0.0


def below(name, share):
    return error("MBMF-n", 1.0, data=name, everywhere={"below": share, "above": 0.0})


def test_an_exception_where_ratings_are_not_close_to_the_lower_end_counts_against_the_claim():
    close, not_close = below("lastfm_hetrec", 0.2), below("movielens_1m", 0.02)
    assert verdicts._exceptions(evidence(close)).verdict == HOLDS
    assert verdicts._exceptions(evidence(close, not_close)).verdict == IN_PART
    assert verdicts._exceptions(evidence(not_close)).verdict == FAILS
    assert verdicts._rare(evidence(close, not_close, below("jester1", 0.0))).verdict == FAILS


def test_shares_below_the_lower_end_are_judged_at_every_k():
    some = [error("MBMF-n", 1.0, k=k, everywhere={"below": b, "above": 0.0}) for k, b in ((10, 0.02), (20, 0.001))]
    found = verdicts._rare(evidence(*some, error("MBMF-n", 1.0, k=50, fold=1, everywhere={"below": 0.5, "above": 0.0})))
    assert "Jester (K = 10, 20: 2, 0.1)" in found.measured
    assert found.verdict == IN_PART


def test_a_cell_that_is_in_the_plan_twice_counts_once():
    twice = error("MBMF-n", 4.0, k=10)
    some = [error("MBMF-n", 8.0, k=10, fold=1), *(error("MBMF-n", 6.0, k=k, fold=f) for k in (20, 50) for f in (0, 1))]
    own = evidence(twice, twice, *some)
    assert len(own.of("jester1")) == 6
    assert verdicts._changes(own, "jester1")["MBMF-n"] == 0.0


def test_where_some_have_more_folds_than_others_their_best_on_all_of_these_is_told():
    books = {"data": "bookcrossing_explicit"}
    one = [error(m, 5.0, **books) for m in EIGHT]
    more = [error(m, 4.0 if m == "MBMF-c" else 6.0, fold=f, **books) for m in ("MF", *OURS) for f in range(1, 5)]
    found = verdicts._books(evidence(*one, *more)).measured
    assert "On all 5 folds, which MF, MBMF-n and MBMF-c have, RMSE: MBMF-c (K = 10: 4.2" in found
    assert "On all" not in verdicts._books(evidence(*one)).measured


def test_most_metrics_are_not_all():
    assert verdicts._all_metrics(evidence(*of_jester(MBMF_n=1.0))).verdict == HOLDS
    high = [sigma(method, 9.0 if method in OURS else 1.0) for method in EIGHT]
    assert verdicts._all_metrics(evidence(*of_jester(MBMF_n=1.0), *high)).verdict == IN_PART


def test_admm_is_slow_where_it_is_slower_than_all_three():
    own = [seconds("MF", 10.0), seconds("NMF", 10.0), seconds("MBMF-n", 19.0)]
    assert verdicts._slow_admm(evidence(*own, seconds("BMC-ADMM", 20.0))).verdict == HOLDS
    assert verdicts._slow_admm(evidence(*own, seconds("BMC-ADMM", 15.0))).verdict == FAILS


def plain(text):
    """LaTeX without its marks, in one line."""
    text = re.sub(r"\\cite\{[^}]*\}|\\textit|\\textbf|[{}$]", "", text)
    return re.sub(r"\s+", " ", text.replace(r"\sigma", "σ").replace("\\%", "%"))


@pytest.mark.skipif(not PAPER.exists(), reason="the paper's source is not beside the project")
@pytest.mark.parametrize("claim", verdicts.CLAIMS, ids=lambda claim: claim.words[:40])
def test_the_words_of_a_claim_are_the_papers(claim):
    paper = plain(PAPER.read_text(encoding="utf-8"))
    assert [part for part in claim.words.split("…") if part.strip() not in paper] == []


def test_every_part_of_the_paper_that_claims_something_is_there():
    told = {claim.where.split(",")[0].split(" ")[0] for claim in verdicts.CLAIMS}
    assert {"abstract", "contribution", "experiments", "discussion"} <= told
    assert {claim.where for claim in verdicts.CLAIMS} >= {f"contribution {number}" for number in (1, 2, 3)}
