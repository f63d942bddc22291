"""CSV files, plots and one HTML page that needs nothing but itself."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from boundrec.paper.sections import Figure, Picture, Section, Table


def write_report(sections: Sequence[Section], makers: Sequence[Mapping[str, Any]], output: Path, quick: bool) -> Path:
    """Write every table as CSV, every plot as SVG, and all of it as report.html."""
    for section in sections:
        for table in section.tables:
            write_csv(table, output / f"{table.name}.csv")
        for picture in section.pictures:
            (output / f"{picture.name}.svg").write_text(picture.svg, encoding="utf-8")
    path = output / "report.html"
    path.write_text(page(sections, makers, quick), encoding="utf-8")
    return path


# --- CSV ------------------------------------------------------------------------------------------------------


def write_csv(table: Table, path: Path) -> None:
    """One line for each row; a column for our figure, and where there is one for the paper's and the ratio."""
    columns = _full_names(table)
    compared = [any(isinstance(row[i], Figure) and row[i].published for row in table.rows) for i in range(len(columns))]  # type: ignore[union-attr]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(_csv_head(columns, compared, table))
        for row in table.rows:
            writer.writerow(_csv_row(row, compared))


def _full_names(table: Table) -> list[str]:
    over = [heading for heading, span in table.groups for _ in range(span)] or [""] * len(table.columns)
    return [f"{head} {column}".strip() for head, column in zip(over, table.columns, strict=True)]


def _csv_head(columns: Sequence[str], compared: Sequence[bool], table: Table) -> list[str]:
    head: list[str] = []
    for index, column in enumerate(columns):
        head.append(column)
        if any(isinstance(row[index], Figure) for row in table.rows):
            head.append(f"{column} note")
        if compared[index]:
            head += [f"{column} paper", f"{column} ratio"]
    return head


def _csv_row(row: Sequence[str | Figure], compared: Sequence[bool]) -> list[Any]:
    line: list[Any] = []
    for index, value in enumerate(row):
        if isinstance(value, str):
            line.append(value)
            continue
        line += [value.value, value.remark or value.absent]
        if compared[index]:
            line += [value.published, value.ratio]
    return line


# --- HTML -----------------------------------------------------------------------------------------------------


def page(sections: Sequence[Section], makers: Sequence[Mapping[str, Any]], quick: bool) -> str:
    """The whole page."""
    kind = "quick version" if quick else "full version"
    links = "".join(f'<a href="#s{i}">{escape(section.heading)}</a>' for i, section in enumerate(sections))
    body = "".join(_section(f"s{i}", section) for i, section in enumerate(sections))
    return PAGE.format(kind=kind, links=links, introduction=_introduction(quick), machine=_machine(makers), body=body)


def _introduction(quick: bool) -> str:
    text = (
        "Every table and figure of the paper <i>Magnitude Bounded Matrix Factorisation for Recommender Systems</i>, "
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


def _machine(makers: Sequence[Mapping[str, Any]]) -> str:
    lines = dict.fromkeys(
        f"{maker['cpu']}, {maker['cores']} cores, {maker['system']}; "
        + ", ".join(f"{name} {version}" for name, version in maker["versions"].items())
        for maker in makers
    )
    seconds = sum(maker.get("seconds", 0.0) for maker in makers)
    cpu = sum(maker.get("cpu_seconds", 0.0) for maker in makers)
    total = f"{len(makers):,} cells, {seconds / 60:,.0f} minutes in all, {cpu / 60:,.0f} minutes of processor time."
    return f"<p>{'<br>'.join(map(escape, lines))}<br>{total}</p>"


def _section(anchor: str, section: Section) -> str:
    text = "".join(f"<p>{unbroken(paragraph)}</p>" for paragraph in section.text)
    pictures = "".join(map(_picture, section.pictures))
    tables = "".join(map(_table, section.tables))
    findings = "".join(f"<li>{unbroken(finding)}</li>" for finding in section.findings)
    findings = f'<ul class="findings">{findings}</ul>' if findings else ""
    return f'<section id="{anchor}"><h2>{escape(section.heading)}</h2>{text}{findings}{pictures}{tables}</section>'


def unbroken(text: str) -> str:
    """No line ends inside MBMF-n, K = 10 or 2.1 %."""
    for loose, tight in (("MBMF-", "MBMF\u2011"), (" = ", "\u00a0=\u00a0"), (" %", "\u00a0%")):
        text = text.replace(loose, tight)
    return text


def _picture(picture: Picture) -> str:
    caption = escape(picture.caption)
    drawing = f'<div class="pan" role="img" aria-label="{caption}">{picture.svg}</div>'
    return f"<figure>{drawing}<figcaption>{caption}</figcaption></figure>"


def _table(table: Table) -> str:
    groups = "".join(f'<th colspan="{span}">{escape(heading)}</th>' for heading, span in table.groups)
    heads = "".join(f"<th>{escape(column)}</th>" for column in table.columns)
    rows = "".join(_row(row, row[0] in table.breaks, table.ratios) for row in table.rows)
    caption = escape(table.caption)
    inner = (
        f"<div class='scroll'><table><thead>{f'<tr>{groups}</tr>' if groups else ''}<tr>{heads}</tr></thead>"
        f"<tbody>{rows}</tbody></table></div>"
    )
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


def number(value: float) -> str:
    """A figure for readers: whole numbers whole, others with four significant digits, small ones with fewer."""
    if value < 0:
        return f"−{number(-value)}"
    if value < 1e9 and value == int(value):
        return f"{int(value):,}"
    if value >= 1e6:
        return f"{value:.3g}"
    if value >= 1e3:
        return f"{value:,.0f}"
    if value >= 0.1:
        return f"{value:#.4g}"
    return f"{value:.3g}" if value >= 1e-3 else f"{value:.2g}"


PAGE = """<!doctype html>
<html lang="en-GB"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>boundrec: the paper reproduced</title>
<style>
:root {{ --ink: #1c2430; --soft: #5b6675; --line: #dde2e8; --back: #fff; --tint: #f5f7fa; --accent: #0b5cad; }}
@media (prefers-color-scheme: dark) {{
 :root {{ --ink: #e4e8ee; --soft: #9aa5b4; --line: #353d49; --back: #161a20; --tint: #1f252d; --accent: #7db7f0; }}
 figure svg {{ background: #fff; border-radius: 6px; }} }}
* {{ box-sizing: border-box; }}
body {{ font: 16px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--back); margin: 0 auto;
 max-width: 1180px; padding: 1.2rem 1rem 4rem; }}
h1 {{ font-size: 1.7rem; line-height: 1.2; margin: .6rem 0; }}
h2 {{ font-size: 1.3rem; margin: 2.6rem 0 .4rem; padding-top: .8rem; border-top: 2px solid var(--line); }}
h3 {{ font-size: 1rem; margin: 1.5rem 0 .4rem; }}
p {{ max-width: 72ch; margin: .5rem 0; }}
nav {{ display: flex; flex-wrap: wrap; gap: .3rem 1rem; margin: 1rem 0; }}
a {{ color: var(--accent); }}
small {{ color: var(--soft); font-size: .8em; font-weight: 400; }}
figure {{ margin: 1rem 0; }}
figure svg {{ width: 100%; max-width: 900px; min-width: 620px; height: auto; }}
figcaption {{ color: var(--soft); }}
.pan {{ overflow-x: auto; }}
.scroll {{ overflow-x: auto; border: 1px solid var(--line); border-radius: 6px; }}
table {{ border-collapse: collapse; font-size: .86rem; font-variant-numeric: tabular-nums; width: 100%; }}
th, td {{ padding: .35rem .5rem; text-align: right; white-space: nowrap; vertical-align: top;
 border-bottom: 1px solid var(--line); line-height: 1.3; }}
thead th {{ background: var(--tint); font-weight: 600; }}
thead tr:first-child:not(:last-child) th {{ text-align: center; }}
th:first-child {{ text-align: left; position: sticky; left: 0; background: var(--tint); font-weight: 600; }}
tbody tr:last-child > * {{ border-bottom: 0; }}
td b {{ font-weight: 700; color: var(--accent); }}
tr.break > * {{ border-top: 2px solid var(--line); }}
.findings {{ background: var(--tint); border-left: 4px solid var(--accent); border-radius: 4px; max-width: 80ch;
 margin: .8rem 0; padding: .6rem 1rem .6rem 2rem; }}
td.words {{ white-space: normal; text-align: left; min-width: 9rem; }}
.absent {{ color: var(--soft); font-style: italic; }}
details {{ margin: 1rem 0; }} summary {{ cursor: pointer; color: var(--accent); margin-bottom: .4rem; }}
.machine {{ background: var(--tint); border-radius: 6px; padding: .1rem .9rem; font-size: .88rem; }}
</style></head><body>
<h1>Bounded matrix factorisation: the paper, reproduced</h1>
<p>{kind} · boundrec</p>
{introduction}
<div class="machine">{machine}</div>
<nav>{links}</nav>
{body}
</body></html>
"""
