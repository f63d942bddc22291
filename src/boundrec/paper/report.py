"""CSV files, plots and one HTML page that needs nothing but itself."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from html import escape
from io import StringIO
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from boundrec.files import whole_file
from boundrec.paper import Figure, Section, Table, count_of
from boundrec.report import document, figure, number, sections


class Contents(NamedTuple):
    """What a report is made of."""

    sections: Sequence[Section]
    makers: Sequence[Mapping[str, Any]]  # of each finished cell, on what it was made
    n_planned: int  # cells there are to be
    quick: bool


def write_report(contents: Contents, output: Path) -> Path:
    """Write every table as CSV, every plot as SVG, and all of it as report.html."""
    for section in contents.sections:
        for table in section.tables:
            write_csv(table, output / f"{table.name}.csv")
        for picture in section.pictures:
            _write(output / f"{picture.name}.svg", picture.svg)
    path = output / "report.html"
    _write(path, page(contents))
    return path


def _write(path: Path, text: str) -> None:
    with whole_file(path) as file:
        file.write(text.encode())


# --- CSV ------------------------------------------------------------------------------------------------------


def write_csv(table: Table, path: Path) -> None:
    """One line for each row; a column for our figure, and where there is one for the paper's and the ratio."""
    over = [heading for heading, span in table.groups for _ in range(span)] or [""] * len(table.columns)
    names = [f"{head} {column}".strip() for head, column in zip(over, table.columns, strict=True)]
    columns = [_csv_columns(name, [row[place] for row in table.rows]) for place, name in enumerate(names)]
    lines = StringIO()
    csv.writer(lines).writerows(chain.from_iterable(line) for line in zip(*columns, strict=True))
    _write(path, lines.getvalue())


def _csv_columns(name: str, entries: Sequence[str | Figure]) -> list[list[Any]]:
    """A column of the table with its head; figures have another for the note, and two more beside the paper's."""
    figures = [entry for entry in entries if isinstance(entry, Figure)]
    width = 1 if not figures else 2 if all(one.published is None for one in figures) else 4
    lines: list[list[Any]] = [[name, f"{name} note", f"{name} paper", f"{name} ratio"]]
    for entry in entries:
        if isinstance(entry, str):
            lines.append([entry, "", None, None])
        else:
            note = entry.absent if entry.value is None else entry.remark
            lines.append([entry.value, note, entry.published, entry.ratio])
    return [line[:width] for line in lines]


# --- HTML -----------------------------------------------------------------------------------------------------


def page(contents: Contents) -> str:
    """The whole page."""
    kind = "quick version" if contents.quick else "full version"
    links, body = sections((section.heading, _section(section)) for section in contents.sections)
    machine, introduction = _machine(contents.makers, contents.n_planned), _introduction(contents.quick)
    whole = PAGE.format(kind=kind, links=links, introduction=introduction, machine=machine, body=body)
    return document("boundrec: the paper reproduced", whole)


def _introduction(quick: bool) -> str:
    text = (
        "Tables and figures of the paper <i>Magnitude Bounded Matrix Factorisation for Recommender Systems</i>, "
        "computed anew with boundrec. Where the paper prints a figure, it stands below ours; × is ours divided by it. "
        "A dash is a result that has not been computed; what may take over half an hour is left out unless forced."
    )
    if quick:
        text += (
            " <b>This is the quick version</b>: small synthetic matrices and a public sample of film ratings, few "
            "folds and restarts. It shows that everything works and what to expect; the full version "
            "(<code>boundrec reproduce all</code>) has the paper's own data."
        )
    return f"<p>{text}</p>"


def _machine(makers: Sequence[Mapping[str, Any]], n_planned: int) -> str:
    lines = dict.fromkeys(
        f"{maker['cpu']}, {count_of(maker['cores'], 'core')}, {maker['system']}; "
        + ", ".join(f"{name} {version}" for name, version in maker["versions"].items())
        for maker in makers
    )
    seconds = sum(maker.get("seconds", 0.0) for maker in makers)
    cpu = sum(maker.get("cpu_seconds", 0.0) for maker in makers)
    done = f"{len(makers):,} of {n_planned:,} cells of these experiments are finished"
    total = f"{done}: {seconds / 60:,.1f} minutes, {cpu / 60:,.1f} minutes of processor time."
    return f"<p>{'<br>'.join(map(escape, lines))}<br>{total}</p>"


def _section(section: Section) -> str:
    text = "".join(f"<p>{unbroken(paragraph)}</p>" for paragraph in section.text)
    pictures = "".join(figure(picture.svg, picture.caption, pan=True) for picture in section.pictures)
    tables = "".join(map(_table, section.tables))
    findings = "".join(f"<li>{unbroken(finding)}</li>" for finding in section.findings)
    findings = f'<ul class="findings">{findings}</ul>' if findings else ""
    return f"{text}{findings}{pictures}{tables}"


def unbroken(text: str) -> str:
    """No line ends inside MBMF-n, K = 10 or 2.1 %."""
    for loose, tight in (("MBMF-", "MBMF\u2011"), (" = ", "\u00a0=\u00a0"), (" %", "\u00a0%")):
        text = text.replace(loose, tight)
    return text


def _table(table: Table) -> str:
    groups = "".join(f'<th colspan="{span}">{escape(heading)}</th>' for heading, span in table.groups)
    heads = "".join(f"<th>{escape(column)}</th>" for column in table.columns)
    rows = "".join(_row(row, row[0] in table.breaks, table.ratios) for row in table.rows)
    caption = escape(table.caption)
    notes = "".join(f"<p>{unbroken(escape(note))}</p>" for note in table.notes)
    head = f"<thead>{f'<tr>{groups}</tr>' if groups else ''}<tr>{heads}</tr></thead>"
    kind = " class=sentences" if table.words else ""
    inner = f"{notes}<div class='scroll'><table{kind}>{head}<tbody>{rows}</tbody></table></div>"
    if table.folded:
        return f"<details><summary>{caption}</summary>{inner}</details>"
    return f"<h3>{caption}</h3>{inner}"


def _row(row: Sequence[str | Figure], breaks: bool, ratios: bool) -> str:
    entries = "".join(_entry(value, index == 0, ratios) for index, value in enumerate(row))
    return f"<tr{' class=break' if breaks else ''}>{entries}</tr>"


def _entry(value: str | Figure, first: bool, ratios: bool) -> str:
    if isinstance(value, str):
        words = " class=words" if " " in value else ""
        return f"<th>{escape(value)}</th>" if first else f"<td{words}>{escape(value)}</td>"
    if value.value is None:
        shown = f"<span class='absent'>{escape(value.absent)}</span>"
    else:
        remark = f" <small>{escape(value.remark)}</small>" if value.remark else ""
        shown = (f"<b>{number(value.value)}</b>" if value.best else number(value.value)) + remark
    if value.published is not None:
        ratio = f"<br>×&#8202;{value.ratio:.3g}" if ratios and value.ratio is not None else ""
        printed = f"{value.published:,.7g}".replace("-", "−")
        shown += f"<br><small>paper {printed}{ratio}</small>"
    return f"<td>{shown}</td>"


PAGE = """<h1>Bounded matrix factorisation: the paper, reproduced</h1>
<p>{kind} · boundrec</p>
{introduction}
<div class="machine">{machine}</div>
{links}
{body}"""
