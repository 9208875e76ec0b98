"""The site of the documentation: ``make docs`` builds it with Sphinx from the pages beside this file."""

import os
import re
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxTranslator

from allfocus.version import __version__

project = "allfocus"
author = "The allfocus authors"
project_copyright = "the allfocus authors, Apache-2.0"
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_click"]
exclude_patterns = ["README.md", "images/*"]

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4
"""Anchors of headings as GitHub makes them, so that pages can be read there too."""

autodoc_member_order = "alphabetical"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88

html_theme = "pydata_sphinx_theme"
html_title = f"allfocus {__version__}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["compare.js"]
html_show_sourcelink = False
html_copy_source = False
html_favicon = "_static/mark.svg"
html_theme_options: dict[str, Any] = {
    "logo": {"text": "allfocus", "image_light": "_static/mark.svg", "image_dark": "_static/mark.svg"},
    "navbar_align": "left",
    "navbar_end": ["version-switcher", "theme-switcher"],
    "switcher": {"json_url": "../versions.json", "version_match": os.environ.get("ALLFOCUS_DOCS_VERSION", __version__)},
    "check_switcher": False,
    "header_links_before_dropdown": 8,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "show_toc_level": 2,
}


html_sidebars = {name: [] for name in ("index", "tutorial", "gallery", "faq")}
"""Pages that have no others below them."""

ARRAY = re.compile(r"(?:~?numpy\.)?ndarray\[tuple\[(?:~?typing\.)?Any, \.\.\.\], (?:~?numpy\.)?dtype\[([^\[\]]*)\]\]")


def shorten_types(*event: Any) -> tuple[str | None, str | None]:
    """Arrays are called what the source calls them, ``NDArray[...]``."""
    arguments, result = event[-2:]
    return arguments and ARRAY.sub(r"NDArray[\1]", arguments), result and ARRAY.sub(r"NDArray[\1]", result)


def write_inline_formula(translator: SphinxTranslator, node: nodes.math) -> None:
    """Writes a formula as MathML, which browsers draw themselves: nothing is loaded from another host."""
    translator.body.append(convert(node.astext()))
    raise nodes.SkipNode


def write_formula(translator: SphinxTranslator, node: nodes.math_block) -> None:
    """Writes a formula on lines of its own."""
    translator.body.append(f'<div class="formula">{convert(node.astext(), display="block")}</div>')
    raise nodes.SkipNode


def setup(application: Sphinx) -> None:
    """Formulas and types are written by the functions above."""
    application.connect("autodoc-process-signature", shorten_types)
    application.add_html_math_renderer("mathml", (write_inline_formula, None), (write_formula, None))


html_math_renderer = "mathml"
