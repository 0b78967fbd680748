# SPDX-License-Identifier: Apache-2.0
"""Sphinx's settings for the pages that make_site.py writes. Everything that a page needs is part of the site, so the site works offline."""

import re
from typing import Any

import stoker

project = "Stoker"
author = copyright = "The Stoker authors"  # the theme prints the second in the footer of each page
release = stoker.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc"]
html_theme = "furo"
html_title = f"Stoker {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_class_signature = "mixed"
exclude_patterns = ["_build"]
# Programs in doc/ may contain text that is not valid Python, such as an ellipsis for omitted lines.
suppress_warnings = ["misc.highlighting_failure"]


def _escaped(line: str) -> str:
    return re.sub(r"([\\\\*`|_])", r"\\\1", line)


def _as_text(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Converts a docstring to reStructuredText that shows it unchanged: plain text, indented programs, and a line "argument: meaning" for each argument."""
    made: list[str] = []
    code = False
    for line in lines:
        if line.startswith("    ") and (code or not made or not made[-1].strip()):
            if not code:
                made += ["::", ""]
            code = True
            made.append(line)
            continue
        if code and not line.strip():
            made.append(line)
            continue
        if code:
            made.append("")
        code = False
        argument = re.match(r"(\*{0,2}[a-z]\w*(?:, \*{0,2}\w+)*): (.*)", line)
        if argument:
            made += ["", f"**{_escaped(argument[1])}**: {_escaped(argument[2])}"]
        else:
            made.append(_escaped(line.strip()))
    lines[:] = [*made, ""]


def setup(app: Any) -> None:
    app.connect("autodoc-process-docstring", _as_text)
