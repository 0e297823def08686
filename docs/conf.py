"""Sphinx settings."""

from incidence import __version__

project = "incidence"
version = release = __version__
author = "The incidence authors"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["dollarmath"]
html_theme = "furo"
autodoc_typehints = "description"
exclude_patterns = ["build"]
