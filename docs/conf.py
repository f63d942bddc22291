"""Settings of the documentation; build it with ``sphinx-build -W docs docs/_build/html``."""

import re
from pathlib import Path

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.errors import ExtensionError
from sphinx.util.logging import getLogger

import boundrec
from boundrec.files import whole_file
from boundrec.paper.reproduce import page_of

project = "boundrec"
author = "The boundrec developers"
copyright = "The boundrec developers"
release = version = boundrec.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build", "results"]
default_role = "py:obj"

autodoc_member_order = "bysource"
autodoc_typehints = "none"
napoleon_google_docstring = False
napoleon_use_param = False  # names that share one description stay together
napoleon_custom_sections = [("Attributes", "params_style")]
napoleon_use_rtype = False
napoleon_attr_annotations = False  # the meaning of a setting says what it may be, in words

html_math_renderer = "mathml"
html_theme = "furo"
html_title = f"boundrec {release}"

_LITERAL = re.compile(r"(``.+?``|`.+?`|:\w+:`.+?`)")
_WORD_END = re.compile(r"(?<=\w)_(?!\w)")


def escape_mathematics(_app, _what, _name, _obj, _options, lines):
    """Docstrings are written to be read in the source: |w| is a norm, φ_{k−1} an index, user_factors_ a name.

    reStructuredText would take all three for references.
    """
    for number, line in enumerate(lines):
        if line.lstrip().startswith((">>>", "...")):
            continue
        pieces = _LITERAL.split(line)
        pieces[::2] = [_WORD_END.sub(r"\\_", piece).replace("|", r"\|") for piece in pieces[::2]]
        lines[number] = "".join(pieces)


def show_formula(writer, node):
    """A formula in MathML, which browsers show by themselves: no script has to come over the network."""
    block = isinstance(node, nodes.math_block)
    tag = "div" if block else "span"
    writer.body.append(writer.starttag(node, tag, "", CLASS="math notranslate nohighlight"))
    try:
        writer.body.append(tex2mathml(node.astext(), as_block=block))
    except MathError as error:
        raise ExtensionError(f"{writer.builder.current_docname}: {error} in {node.astext()}") from None
    writer.body.append(f"</{tag}>\n" if block else f"</{tag}>")
    raise nodes.SkipNode


def write_report_of_the_paper(_app):
    """The report of the committed results, made here so that nobody has to commit it; pages link to it."""
    results = Path(__file__).parent / "results"
    page = page_of(results, getLogger(__name__).warning)
    with whole_file(results / "report.html") as file:
        file.write(page.encode())


_FROM_ELSEWHERE = re.compile(r"""<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=["'](?:https?:)?//[^>]*>""")


def refuse_what_needs_a_network(app, error):
    """The pages are read offline, too: no script, style, font or picture may come from elsewhere."""
    if error is None and app.builder.format == "html":
        for page in sorted(app.outdir.rglob("*.html")):
            found = _FROM_ELSEWHERE.search(page.read_text(encoding="utf-8"))
            if found:
                raise ExtensionError(f"{page.name} needs the network for {found[0]}")


def setup(app):
    """Escape docstrings after napoleon (priority 500) has read their sections, and see to formulas."""
    app.connect("builder-inited", write_report_of_the_paper)
    app.connect("build-finished", refuse_what_needs_a_network)
    app.add_html_math_renderer("mathml", inline_renderers=(show_formula, None), block_renderers=(show_formula, None))
    app.connect("autodoc-process-docstring", escape_mathematics, priority=900)
