"""What notebooks show of our objects: a picture and a table by `incidence.plot`, which is loaded only then; else what `repr` says."""

from __future__ import annotations

from html import escape
from importlib import import_module

__all__ = ["html_of"]


def html_of(value: object) -> str:
    """A value as HTML, for `_repr_html_`.

    Packages below `plot` have no other way to be drawn: they do not import it, and it may not be installed.

    Example:
        >>> html_of("nothing of ours")
        '<pre>&#x27;nothing of ours&#x27;</pre>'
    """
    try:
        shown = import_module("incidence.plot.notebooks").html_of
    except ImportError:
        return f"<pre>{escape(repr(value))}</pre>"
    return str(shown(value))
