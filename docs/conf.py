"""Sphinx settings. Nothing of the site needs an outside address: formulas are MathML, fonts are
those of the reader.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # for `docs.extensions`

from incidence import __version__
from incidence.plot.theme import DARK, LIGHT

project = "incidence"
version = release = __version__
author = "The incidence authors"
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "docs.extensions.docstrings",
    "sphinx.ext.napoleon",
    "docs.extensions.mathml",
    "docs.extensions.pictures",
    "docs.extensions.reference",
    "docs.extensions.notebooks",
    "docs.extensions.tables",
]
myst_enable_extensions = ["attrs_block", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
maximum_signature_line_length = 160
autodoc_member_order = "bysource"
napoleon_custom_sections = [("Shape", "params_style")]
python_use_unqualified_type_names = True
exclude_patterns = ["build"]

html_theme = "furo"
html_title = "incidence"
html_favicon = "explorer/icon.svg"
html_math_renderer = "mathml"
html_static_path = ["static"]
html_css_files = ["site.css"]
templates_path = ["templates"]
html_show_sourcelink = html_copy_source = False
html_show_sphinx = html_show_copyright = False
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/explorer.html",
        "sidebar/scroll-end.html",
    ]
}
html_theme_options = {
    "light_css_variables": {
        "color-brand-primary": LIGHT.palette[0],
        "color-brand-content": LIGHT.palette[0],
    },
    "dark_css_variables": {
        "color-brand-primary": DARK.palette[0],
        "color-brand-content": DARK.palette[0],
        "color-background-primary": DARK.paper,
    },
}
