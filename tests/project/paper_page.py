"""The tables of docs/paper-results.md that follow from the committed results; run this file to write them anew."""

import csv
import re
from pathlib import Path

from boundrec.paper import Figure
from boundrec.paper.reproduce import contents_of
from boundrec.report import number

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "paper-results.md"
#: What stands between these two lines is the table of that name in the report, or what it notes about its folds.
TABLE = re.compile(r"(<!-- from the results: (notes of )?(\w+) -->\n).*?(<!-- until here -->)", re.DOTALL)
#: <!-- file.csv: columns --> before a table: where its figures come from. {} in a column's name stands for the heading
#: of the table, and the figures of several columns stand in one entry with " / " between them.
FIGURES = re.compile(r"^<!-- (?P<file>\w+\.csv): (?P<columns>.+) -->\n(?P<table>(?:\|.*\n)+)", re.MULTILINE)


def tables(results=DOCS / "results"):
    """The tables of the report by their names."""
    return {table.name: table for section in contents_of(results, print).sections for table in section.tables}


def as_markdown(table):
    """A table of the report as the page has it: ours, and the paper's figure after a stroke."""
    lines = [table.columns, ["---"] * len(table.columns), *([entry(cell) for cell in row] for row in table.rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def notes(table):
    """What a reader has to know of the rows."""
    return "".join(f"{note}\n" for note in table.notes)


def entry(cell):
    if not isinstance(cell, Figure):
        return cell.replace("|", "\\|")
    shown = cell.absent or "–" if cell.value is None else number(cell.value)
    return shown if cell.published is None else f"{shown} / {number(cell.published)}"


def with_figures(found, folder):
    """A table with the figures of its file, at as many digits as it shows."""
    rows = {}
    if (folder / found["file"]).exists():
        with (folder / found["file"]).open(encoding="utf-8") as file:
            rows = {next(iter(row.values())): row for row in csv.DictReader(file)}
    head, rule, *lines = found["table"].splitlines()
    headings = [one.strip() for one in head.strip("|").split("|")][1:]
    columns = found["columns"].split(", ")
    written = []
    for line in lines:
        label, *entries = (one.strip() for one in line.strip("|").split("|"))
        for place, (heading, shown) in enumerate(zip(headings, entries, strict=True)):
            old = shown.split(" / ")
            values = [rows.get(label, {}).get(column.format(heading)) for column in columns]
            entries[place] = " / ".join(map(rounded, old, values))
        written.append(f"| {' | '.join([label, *entries])} |")
    return f"<!-- {found['file']}: {found['columns']} -->\n" + "\n".join([head, rule, *written]) + "\n"


def rounded(shown, value):
    digits = len(shown.partition(".")[2]) or 3
    return f"{float(value):,.{digits}f}" if value else "–"


def written(page, known, folder=DOCS / "results"):
    """The page with its tables written anew."""
    page = TABLE.sub(lambda found: f"{found[1]}{(notes if found[2] else as_markdown)(known[found[3]])}{found[4]}", page)
    return FIGURES.sub(lambda found: with_figures(found, folder), page)


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), tables()), encoding="utf-8")
