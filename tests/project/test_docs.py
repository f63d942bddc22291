"""The documentation is true: its examples run, and what it points at exists."""

import doctest
import importlib
import importlib.util
import json
import re
from pathlib import Path

import console_blocks
import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(page for page in DOCS.glob("*.md"))
FENCE = re.compile(
    r"(?:^<!-- figures within (?P<per_cent>\d+) % -->\n)?"
    r"^(?P<indent> *)```(?P<kind>python|console)\n(?P<body>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)


def blocks(text):
    """Kind, source, first line number and tolerance of every python and console block of a page."""
    for match in FENCE.finditer(text):
        indent = match["indent"]
        lines = [line.removeprefix(indent) for line in match["body"].splitlines(keepends=True)]
        tolerance = int(match["per_cent"]) / 100 if match["per_cent"] else console_blocks.TOLERANCE
        yield match["kind"], "".join(lines), text.count("\n", 0, match.start("body")), tolerance


def failures(kind, source, line, tolerance, page, names, folder):
    """Run one block in the page's names and folder: commands, a doctest where it shows a prompt, else plain code."""
    report = []
    if kind == "console":
        for command, shown in console_blocks.commands(source):
            printed = console_blocks.run(command, folder)
            if not console_blocks.agree(shown, printed, tolerance):
                report.append(f"{page.name}, line {line + 1}: $ {command}\nshown:\n{shown}\n\nprinted:\n{printed}\n")
    elif ">>>" in source:
        test = doctest.DocTestParser().get_doctest(source, names, page.name, str(page), line)
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.REPORT_NDIFF, verbose=False)
        runner.run(test, out=report.append, clear_globs=False)
        names.update(test.globs)
    else:
        exec(compile("\n" * line + source, str(page), "exec"), names)
    return "".join(report)


def runs_here(source):
    """Whether what a block imports is installed, of the libraries that boundrec does without."""
    return "import faiss" not in source or importlib.util.find_spec("faiss") is not None


#: What runs on Spark is run with the tests of that.
with_examples = [page for page in PAGES if page.stem != "spark" and any(blocks(page.read_text(encoding="utf-8")))]


@pytest.mark.parametrize("page", with_examples, ids=lambda page: page.stem)
def test_the_examples_of_a_page_run_from_top_to_bottom(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    found = blocks(page.read_text(encoding="utf-8"))
    report = "".join(failures(*block, page, names, tmp_path) for block in found if runs_here(block[1]))
    if report:
        pytest.fail(report, pytrace=False)


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("wrote m (2.5 MB)", "wrote m (2.51 MB)", True),
        ("wrote m (2.5 MB)", "wrote m (3.5 MB)", False),
        ("took ... s\nRMSE 0.8612", "took 12.5 s\nRMSE 0.8611\n", True),
        ("took ... s\nRMSE 0.8612", "took 12.5 s\nMAE 0.8611\n", False),
        ("begun\n...\ndone", "begun\ndone", True),
        ("begun\n...\ndone", "begun\n1 of 3\n2 of 3\ndone", True),
        ("begun\n...\ndone", "begun\n1 of 3\n2 of 3", False),
        ("user,item\n42,Seven", "user,item\n42,Eight", False),
        ("user,item\n42,7", "user,item\n42,8", False),
        ("1,234 ratings", "1,240 ratings", True),
        ("", "", True),
        ("", "something", False),
    ],
)
def test_console_blocks_are_compared_up_to_dots_and_last_digits(shown, printed, same):
    assert console_blocks.agree(shown, printed) is same


def test_a_block_of_a_page_may_say_how_far_its_figures_may_be_off():
    found = blocks("<!-- figures within 20 % -->\n```console\n$ a\n1.1\n```\n\n```console\n$ a\n1.1\n```\n")
    assert [console_blocks.agree("1.1", "1.3", tolerance) for *_, tolerance in found] == [True, False]


def test_a_command_of_a_console_block_may_go_on_to_the_next_line():
    assert console_blocks.commands("$ a \\\n  b\nout\n$ c\n") == [("a \\\n  b", "out"), ("c", "")]


def test_every_recipe_for_bounds_is_run_below_the_table():
    table, run = (DOCS / "choosing-bounds.md").read_text(encoding="utf-8").split("## In short")[1].split("```", 1)
    recipes = re.findall(r"\| `(MBMF.*?)`", table)
    assert len(recipes) == 6
    assert [recipe for recipe in recipes if recipe not in run] == []


def test_every_page_is_in_one_group_of_the_first_and_in_its_list():
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    groups = re.findall(r"^```{toctree}\n:hidden:\n:caption: (.+)\n\n((?:.+\n)+)```$", index, re.MULTILINE)
    assert [caption for caption, _ in groups] == ["Start", "Guides", "Reference", "The paper", "The project"]
    grouped = [name for _, names in groups for name in names.split()]
    assert sorted(grouped) == [page.stem for page in PAGES if page.stem != "index"]
    assert re.findall(r"^- {doc}`([\w-]+)`", index, re.MULTILINE) == grouped


# --- figures ----------------------------------------------------------------------------------------------------


def rounded_as(shown, value):
    """Whether a figure is what rounding a value gives, at as many digits as are shown."""
    digits = len(shown.partition(".")[2])
    return f"{float(value):,.{digits}f}".lstrip("0") == shown.lstrip("0")


# --- paper to code ------------------------------------------------------------------------------------------

PAPER = (DOCS / "paper-to-code.md").read_text(encoding="utf-8")
CODE_SPANS = set(re.findall(r"`([^`\n]+)`", PAPER))


def section(title):
    return PAPER.split(f"## {title}\n")[1].split("\n## ")[0]


@pytest.mark.parametrize("name", sorted(span for span in CODE_SPANS if span.startswith("boundrec.")))
def test_what_the_paper_page_names_exists(name):
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for attribute in parts[cut:]:
            found = getattr(found, attribute)
        return


@pytest.mark.parametrize("name", sorted(span for span in CODE_SPANS if span.startswith("tests/")))
def test_test_files_that_the_paper_page_names_exist(name):
    assert (ROOT / name).is_file()


def test_modules_are_called_missing_exactly_while_they_are():
    sentence = re.search(r"Not in the package yet.*?\n\n", PAPER, re.DOTALL)
    missing = set(re.findall(r"`([^`]+)`", sentence.group())) if sentence else set()
    named = {span for span in CODE_SPANS if re.fullmatch(r"(models|rivals|solvers|ranges|paper)/(\w+\.py)?", span)}
    assert missing == {name for name in named if not (ROOT / "src" / "boundrec" / name).exists()}


def test_every_equation_of_the_paper_has_a_row():
    rows = [row.split("|")[1] for row in section("Equations").splitlines() if row.startswith("| (")]
    numbers = []
    for cell in rows:
        for first, last in re.findall(r"\((\d+)\)(?:–\((\d+)\))?", cell):
            numbers += range(int(first), int(last or first) + 1)
    assert sorted(numbers) == list(range(1, 48))


def test_every_row_of_code_in_the_equation_table_has_a_test_beside_it():
    rows = [row.split("|") for row in section("Equations").splitlines() if "`boundrec." in row]
    assert rows
    assert [row[1] for row in rows if "`tests/" not in row[4]] == []


def test_every_slip_has_a_row():
    assert sorted(map(int, re.findall(r"^\| A(\d+) ", PAPER, re.MULTILINE))) == list(range(1, 41))


def test_slips_that_the_code_refers_to_are_on_the_page():
    sources = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "src").rglob("*.py"))
    referred = set(re.findall(r"(?:slip|resolution)s? A(\d+)", sources))
    assert referred
    assert referred <= set(re.findall(r"^\| A(\d+) ", PAPER, re.MULTILINE))


# --- figures of ranges of pairs -------------------------------------------------------------------------------

OWN_RANGES = ROOT / "benchmarks" / "results" / "own_ranges.json"


@pytest.mark.skipif(not OWN_RANGES.exists(), reason="results are in the repository only")
def test_the_figures_of_ranges_of_pairs_are_those_of_the_committed_results():
    results = json.loads(OWN_RANGES.read_text(encoding="utf-8"))
    measured = [{row[0]: row for row in results[name]["rows"]} for name in ("us_flights", "baseball")]
    text = (DOCS / "own-ranges.md").read_text(encoding="utf-8")
    head, _, *rows = re.search(r"<!-- own_ranges\.json -->\n((?:\|.*\n)+)", text)[1].splitlines()
    assert head.count("|") == 8
    assert len(rows) > 8
    for line in rows:
        method, *shown = (entry.strip(" *") for entry in line.strip("|").split("|"))
        figures = [[row[method][at] for at in (1, 3, 4)] for row in measured]
        for entry, value in zip(shown, figures[0] + figures[1], strict=True):
            percent = value.endswith("%")
            assert rounded_as(entry.removesuffix(" %"), value.removesuffix("%")), (method, entry, value)
            assert percent is (entry.endswith("%") or entry == "0"), (method, entry)


# --- figures of the remedies for contradictions ---------------------------------------------------------------

REMEDIES = ROOT / "benchmarks" / "results" / "remedies.json"


@pytest.mark.skipif(not REMEDIES.exists(), reason="results are in the repository only")
def test_what_is_said_of_remedies_for_contradictions_is_in_the_committed_results():
    results = json.loads(REMEDIES.read_text(encoding="utf-8"))
    measured = {(name, *row[:2]): row[2] for name, one in results.items() for row in one["rows"]}
    text = (DOCS / "choosing-bounds.md").read_text(encoding="utf-8")
    lines = re.search(r"<!-- remedies\.json -->\n((?:\|.*\n)+)", text)[1].splitlines()[2:]
    for name, line in zip(("lastfm_hetrec", "us_flights", "genres"), lines, strict=True):
        shown = [entry.strip() for entry in line.strip("|").split("|")][1:]
        assert shown == [measured[name, "MBMF, history_count=10", how] for how in ("drop", "keep", "widen")]
    for name, model in {key[:2] for key in measured}:
        drop, keep, widen = (float(measured[name, model, how].replace(",", "")) for how in ("drop", "keep", "widen"))
        assert keep <= 1.04 * drop
        assert drop <= 1.25 * keep
        assert min(drop, keep) <= widen <= 1.49 * min(drop, keep)
