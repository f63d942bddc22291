"""Settings of the documentation; build it with ``sphinx-build -W docs docs/_build/html``."""

import re

import boundrec

project = "boundrec"
author = "The boundrec developers"
copyright = "The boundrec developers"
release = version = boundrec.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.mathjax"]
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


def setup(app):
    """Escape docstrings after napoleon (priority 500) has read their sections."""
    app.connect("autodoc-process-docstring", escape_mathematics, priority=900)
