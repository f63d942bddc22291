"""A bounded, seeded part of the fuzzer, whose long one is `python -m benchmarks.fuzz`; and what its judges see."""

import warnings

import pytest
from benchmarks.fuzz import run_cases, table
from benchmarks.fuzz_cases.oracles import REFUSED, BrokenRuleError, Witness

from boundrec import MBMF

#: Cases of each kind.
NUMBERS = {"calls": 120, "files": 60, "altered": 150, "crafted": 60}
#: Seconds that a case may take, far more than any needs: a busy machine must not fail one.
LIMIT = 120.0


def _run(cases, seconds=LIMIT):
    return run_cases(0, cases, workers=1, seconds=seconds, tell=lambda result: None)


def test_random_cases_of_every_kind_are_answered_or_refused_in_a_sentence():
    cases = [(kind, case) for kind, number in NUMBERS.items() for case in range(number)]
    results = _run(cases)
    assert [(result.kind, result.case) for result in results] == cases
    assert [f"{result.kind} {result.case}: {result.failure}" for result in results if result.failure] == []


def test_a_case_that_takes_too_long_is_told_and_the_next_has_a_process_of_its_own():
    results = _run([("files", 0), ("files", 1)], seconds=0.0)
    assert [result.case for result in results] == [0, 1]
    assert all(result.failure.startswith("hangs for 0 s") for result in results)
    assert list(table(results))[1].split() == ["files", "2", "2", "0", "0", "2"]


def test_what_the_library_refuses_in_a_sentence_counts_as_refused():
    witness = Witness()
    assert witness.call("fit", MBMF(n_factors=0).fit, [(0, 0)], [1]) is REFUSED
    assert witness.call("predict", MBMF().predict, [(0, 0)]) is REFUSED
    assert (witness.answered, witness.refused) == (0, 2)
    assert witness.last_refusal.startswith("This MBMF instance is not fitted")


@pytest.mark.parametrize(
    ("door", "told"),
    [
        (lambda: int("a"), "raises ValueError"),  # a refusal, but nobody's intention
        (lambda: {}["a"], "raises KeyError"),
        (lambda: warnings.warn("overflow in something or other", RuntimeWarning, stacklevel=1), "leaks RuntimeWarning"),
    ],
)
def test_what_nobody_meant_breaks_a_rule(door, told):
    with pytest.raises(BrokenRuleError, match=told):
        Witness().call("door", door)
