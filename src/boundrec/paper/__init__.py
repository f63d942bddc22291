"""Every experiment of the paper: one file each, one command for all (`boundrec reproduce`).

Here is what they hand to the report: a heading, some sentences, tables and pictures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from boundrec.paper.cells import LONG, Cell


class Options(NamedTuple):
    """What was asked for: the quick version or the full one, and where the data are."""

    quick: bool = False
    folder: Path | None = None


@dataclass(frozen=True)
class Outcome:
    """A cell and its result; None while it is not done."""

    cell: Cell
    result: Mapping[str, Any] | None

    def __getitem__(self, key: str) -> Any:
        """A setting of the cell by its name."""
        return self.cell.settings[key]

    def figure(self, *path: str) -> Any:
        """A figure in the result, by the names that lead to it; None where there is none."""
        found: Any = self.result
        for key in path:
            found = None if found is None else found.get(key)
        return found


#: Stands for a result that is not there yet.
NOT_RUN = "–"


def why_absent(outcomes: Sequence[Outcome]) -> str:
    """What to say in the place of results that are not there."""
    longest = max((outcome.cell.seconds for outcome in outcomes), default=0.0)
    return f"left out: {longest / 3600:.1f} h" if longest > LONG else NOT_RUN


class Figure(NamedTuple):
    """A number of ours; beside it, where there is one, the paper's."""

    value: float | None
    published: float | None = None
    remark: str = ""  # how far folds differ, and how many there are
    absent: str = ""  # said in the place of a value that is not there
    best: bool = False  # among the methods that the paper compares

    @property
    def ratio(self) -> float | None:
        """Ours over the paper's."""
        if self.value is None or not self.published:
            return None
        return self.value / self.published


#: A name, then figures or words.
Row = Sequence[str | Figure]


def mark_best(rows: Sequence[Row], compared: Sequence[str], high: Sequence[int] = ()) -> list[Row]:
    """Mark in each column the lowest figure of the rows compared; the highest in the columns ``high``."""
    marked = [list(row) for row in rows]
    for column in range(1, len(marked[0])):
        found = [row[column] for row in marked if row[0] in compared]
        values = [f.value for f in found if isinstance(f, Figure) and f.value is not None]
        if len(values) < 2:
            continue
        best = max(values) if column in high else min(values)
        for row in marked:
            entry = row[column]
            if row[0] in compared and isinstance(entry, Figure) and entry.value == best:
                row[column] = entry._replace(best=True)
    return [*marked]


def count_of(number: int, thing: str) -> str:
    """A number of things: "1 cell", "2,000 cells"."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def counted(names: Sequence[str]) -> str:
    """Names with how often each occurs, the most frequent first: "CCD++ (8), BMF (2)"."""
    return ", ".join(f"{name} ({count})" for name, count in Counter(names).most_common())


@dataclass
class Table:
    """A table of the report, and a CSV file of the same name."""

    name: str
    caption: str
    columns: Sequence[str]
    rows: Sequence[Row]
    groups: Sequence[tuple[str, int]] = ()  # headings over several columns, with how many they span
    folded: bool = False  # shown on demand only
    ratios: bool = True  # whether ours over the paper's means anything
    breaks: Sequence[str] = ()  # rows, by their first entry, that begin a new group
    notes: Sequence[str] = ()  # what a reader has to know of the rows, a paragraph each
    words: bool = False  # sentences instead of figures: they break, and on a narrow screen stand below each other


@dataclass
class Picture:
    """A plot: its SVG, and what it shows in words."""

    name: str
    caption: str
    svg: str


@dataclass
class Section:
    """One experiment in the report."""

    heading: str
    text: list[str]
    tables: list[Table] = field(default_factory=list)
    pictures: list[Picture] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)  # what the numbers say about the paper's claims
