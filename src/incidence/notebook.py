"""Objects in notebooks: a picture and a table by `incidence.plot`, or else their `repr`.

Packages below `plot` cannot import it, and it may not be installed. So this module loads it by name
when a notebook shows an object.
"""

from __future__ import annotations

from importlib import import_module

__all__ = ["escaped", "html_of"]


def escaped(text: str) -> str:
    """Return a text as HTML shows it."""
    from html import escape  # here, as only notebooks pay for its tables

    return escape(text)


def html_of(value: object) -> str:
    """Return a value as HTML, for `_repr_html_`.

    Example:
        >>> html_of("nothing of ours")
        '<pre>&#x27;nothing of ours&#x27;</pre>'
    """
    try:
        notebooks = import_module("incidence.plot.notebooks")
    except ImportError:
        return f"<pre>{escaped(repr(value))}</pre>"
    return str(notebooks.html_of(value))
