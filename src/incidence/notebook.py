"""Objects in notebooks: a picture and a table by `incidence.plot`, or else their `repr`.

Packages below `plot` cannot import it, and it may not be installed. So this module loads it by name
when a notebook shows an object.
"""

from __future__ import annotations

from html import escape
from importlib import import_module

__all__ = ["html_of"]


def html_of(value: object) -> str:
    """Return a value as HTML, for `_repr_html_`.

    Example:
        >>> html_of("nothing of ours")
        '<pre>&#x27;nothing of ours&#x27;</pre>'
    """
    try:
        notebooks = import_module("incidence.plot.notebooks")
    except ImportError:
        return f"<pre>{escape(repr(value))}</pre>"
    return str(notebooks.html_of(value))
