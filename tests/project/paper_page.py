"""The tables of docs/paper-results.md that follow from the committed results; run this file to write them anew."""

import re
from pathlib import Path

from boundrec.paper import Figure
from boundrec.paper.reproduce import contents_of
from boundrec.report import number

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "paper-results.md"
#: What stands between these two lines is written from the table of that name in the report.
TABLE = re.compile(r"(<!-- from the results: (\w+) -->\n).*?(<!-- until here -->)", re.DOTALL)


def tables(results=DOCS / "results"):
    """The tables of the report by their names."""
    return {table.name: table for section in contents_of(results, print).sections for table in section.tables}


def as_markdown(table):
    """A table of the report as the page has it: ours, and the paper's figure after a stroke."""
    lines = [table.columns, ["---"] * len(table.columns), *([entry(cell) for cell in row] for row in table.rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def entry(cell):
    if not isinstance(cell, Figure):
        return cell.replace("|", "\\|")
    shown = cell.absent or "–" if cell.value is None else number(cell.value)
    return shown if cell.published is None else f"{shown} / {number(cell.published)}"


def written(page, known):
    """The page with its tables written anew."""
    return TABLE.sub(lambda found: f"{found[1]}{as_markdown(known[found[2]])}{found[3]}", page)


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), tables()), encoding="utf-8")
