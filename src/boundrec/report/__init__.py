"""Reports: HTML pages that need nothing but themselves. Their style, their frame, figures and numbers in them."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape


def document(title: str, body: str, wide: bool = False) -> str:
    """A whole page, for a screen, a phone or paper, light or dark; one of many small parts may be wide."""
    start = '<body class="wide">' if wide else "<body>"
    return (
        '<!doctype html>\n<html lang="en-GB"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{STYLE}</style></head>{start}\n{body}\n</body></html>\n"
    )


def sections(parts: Iterable[tuple[str, str]]) -> tuple[str, str]:
    """Links to the sections of a page, and the sections themselves: each a heading and what stands under it.

    On a wide page those with more than one thing to look at take its whole width.
    """
    numbered = [(f"s{place}", escape(heading), content) for place, (heading, content) in enumerate(parts)]
    links = "".join(f'<a href="#{anchor}">{heading}</a>' for anchor, heading, _ in numbered)
    body = "".join(
        f'<section id="{anchor}"{_breadth(content)}><h2>{heading}</h2>{content}</section>'
        for anchor, heading, content in numbered
    )
    return f"<nav>{links}</nav>", body


def _breadth(content: str) -> str:
    return ' class="broad"' if 'class="pair"' in content or 'class="thirds"' in content else ""


def figure(svg: str, caption: str, pan: bool = False) -> str:
    """A drawing with its caption; one with small print may pan on a narrow screen instead of shrinking."""
    said = escape(caption)
    drawing = f'<div class="{"pan" if pan else "narrow"}" role="img" aria-label="{said}">{svg}</div>'
    return f"<figure>{drawing}<figcaption>{said}</figcaption></figure>"


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
    return f"{value:.3g}" if value >= 1e-3 else f"{value:.2g}".replace("-", "−")


STYLE = """:root { --ink: #1c2430; --soft: #5b6675; --line: #dde2e8; --back: #fff; --tint: #f5f7fa; --accent: #0b5cad;
 --shade: #0003; }
@media (prefers-color-scheme: dark) {
 :root { --ink: #e4e8ee; --soft: #9aa5b4; --line: #353d49; --back: #161a20; --tint: #1f252d; --accent: #7db7f0;
  --shade: #fff3; }
 .warnings { background: #3a1a1e; color: #f3c4c9; }
 figure svg { background: #fff; border-radius: 6px; } }
* { box-sizing: border-box; }
body { font: 16px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--back); margin: 0 auto;
 max-width: 1180px; padding: 1.2rem 1rem 4rem; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: .6rem 0; }
h2 { font-size: 1.3rem; margin: 2.6rem 0 .4rem; padding-top: .8rem; border-top: 2px solid var(--line); }
h3 { font-size: 1rem; margin: 1.5rem 0 .4rem; }
p { max-width: 72ch; margin: .5rem 0; }
nav { display: flex; flex-wrap: wrap; gap: .3rem 1rem; margin: 1rem 0; }
a { color: var(--accent); }
small { color: var(--soft); font-size: .8em; font-weight: 400; }
figure { margin: 1rem 0; }
figure svg { width: 100%; max-width: 900px; height: auto; }
figcaption { color: var(--soft); font-size: .92rem; }
.pan { overflow-x: auto; }
.pan svg { min-width: 620px; }
.scroll { overflow-x: auto; border: 1px solid var(--line); border-radius: 6px; }
/* A shade at the right edge while there is more to scroll to: the first layer moves with the content and covers it. */
.scroll, .pan { background: linear-gradient(to left, var(--back) 50%, transparent) right / 3rem 100% no-repeat local,
 linear-gradient(to left, var(--shade), transparent) right / 1rem 100% no-repeat scroll; }
table { border-collapse: collapse; font-size: .86rem; font-variant-numeric: tabular-nums; width: 100%; }
th, td { padding: .35rem .5rem; text-align: right; white-space: nowrap; vertical-align: top;
 border-bottom: 1px solid var(--line); line-height: 1.3; }
thead th { background: var(--tint); font-weight: 600; }
thead tr:first-child:not(:last-child) th { text-align: center; }
th:first-child { text-align: left; position: sticky; left: 0; background: var(--tint); font-weight: 600; }
tbody th:first-child { white-space: normal; min-width: 9rem; max-width: 18rem; }
tbody tr:last-child > * { border-bottom: 0; }
td b { font-weight: 700; color: var(--accent); }
tr.break > * { border-top: 2px solid var(--line); }
.findings { background: var(--tint); border-left: 4px solid var(--accent); border-radius: 4px; max-width: 80ch;
 margin: .8rem 0; padding: .6rem 1rem .6rem 2rem; }
td.words { white-space: normal; text-align: left; min-width: 9rem; }
.sentences th, .sentences td { white-space: normal; text-align: left; min-width: 6rem; }
@media (max-width: 40rem) {
 .sentences thead { display: none; }
 .sentences tr, .sentences th, .sentences td { display: block; border: 0; padding: .1rem .6rem; }
 .sentences tr { border-bottom: 1px solid var(--line); padding: .5rem 0; }
}
.absent { color: var(--soft); font-style: italic; }
details { margin: 1rem 0; } summary { cursor: pointer; color: var(--accent); margin-bottom: .4rem; }
.machine { background: var(--tint); border-radius: 6px; padding: .1rem .9rem; font-size: .88rem; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(7.5rem, 1fr)); gap: .6rem; margin: 1rem 0; }
.cards > div { background: var(--tint); border-radius: 6px; padding: .6rem .8rem;
 color: var(--soft); font-size: .88rem; }
.cards b { display: block; color: var(--ink); font-size: 1.35rem; line-height: 1.3; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr)); gap: 0 1.6rem; }
.pair figure svg, .narrow svg { max-width: 600px; }
.items th { white-space: normal; }
.warnings { background: #fdecec; color: #7a1620; border-left: 4px solid #d1495b; border-radius: 4px; margin: .8rem 0;
 padding: .6rem 1rem .6rem 2rem; }
body.wide { max-width: 1720px; padding-inline: clamp(1rem, 3vw, 3rem); }
.wide main { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 34rem), 1fr)); gap: 0 2.4rem; }
.wide main > * { min-width: 0; }
.wide figure svg { max-width: 720px; }
.wide main > .broad { grid-column: 1 / -1; }
.thirds { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 23rem), 1fr)); gap: 0 1.6rem; }
.thirds .items th:first-child { min-width: 7rem; max-width: none; } .thirds thead th { vertical-align: bottom; }
.interval { width: 28%; min-width: 4.5rem; } .interval span { position: relative; display: block; height: 1.1em; }
.interval i { position: absolute; top: .35em; height: .5em; background: var(--accent); opacity: .3; }
.interval b { position: absolute; top: .15em; width: .28em; height: .9em; margin-left: -.14em;
 background: var(--accent); border-radius: 2px; }
@media print {
 :root { --ink: #000; --soft: #444; --line: #bbb; --back: #fff; --tint: #f2f2f2; --accent: #063d75; }
 body { font-size: 10.5pt; max-width: none; padding: 0; }
 nav { display: none; }
 figure, tr, .cards > div { break-inside: avoid; } h2, h3 { break-after: avoid; }
 .scroll { overflow: visible; } }
"""
