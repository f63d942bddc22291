"""The documentation is true: its examples run, and what it points at exists."""

import doctest
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(page for page in DOCS.glob("*.md"))
FENCE = re.compile(r"^(?P<indent> *)```python\n(?P<body>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL)


def python_blocks(text):
    """Source and first line number of every python block of a page."""
    for match in FENCE.finditer(text):
        indent = match["indent"]
        lines = [line.removeprefix(indent) for line in match["body"].splitlines(keepends=True)]
        yield "".join(lines), text.count("\n", 0, match.start("body"))


def failures(source, line, page, names):
    """Run one block in the page's names: as a doctest where it shows a prompt, else as plain code."""
    report = []
    if ">>>" in source:
        test = doctest.DocTestParser().get_doctest(source, names, page.name, str(page), line)
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.REPORT_NDIFF, verbose=False)
        runner.run(test, out=report.append, clear_globs=False)
        names.update(test.globs)
    else:
        exec(compile("\n" * line + source, str(page), "exec"), names)
    return "".join(report)


with_examples = [page for page in PAGES if any(python_blocks(page.read_text(encoding="utf-8")))]


@pytest.mark.parametrize("page", with_examples, ids=lambda page: page.stem)
def test_the_examples_of_a_page_run_from_top_to_bottom(page):
    names = {"__name__": "__main__"}
    blocks = python_blocks(page.read_text(encoding="utf-8"))
    report = "".join(failures(source, line, page, names) for source, line in blocks)
    if report:
        pytest.fail(report, pytrace=False)
