"""Render formulas as MathML, which browsers draw without a script, a font or an outside address."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx

__all__ = ["setup", "to_mathml"]


def to_mathml(latex: str, is_block: bool = False) -> str:
    """Return a formula of LaTeX as the text of a `<math>` element.

    Example:
        >>> to_mathml("x").startswith("<math")
        True
    """
    return convert(latex.strip(), display="block" if is_block else "inline")


def _visit_inline(translator: Any, node: nodes.math) -> None:
    translator.body.append(to_mathml(node.astext()))
    raise nodes.SkipNode


def _visit_block(translator: Any, node: nodes.math_block) -> None:
    translator.body.append(
        f'<div class="formula">{to_mathml(node.astext(), is_block=True)}</div>\n'
    )
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer."""
    app.add_html_math_renderer(
        "mathml", inline_renderers=(_visit_inline, None), block_renderers=(_visit_block, None)
    )
    return {"parallel_read_safe": True, "parallel_write_safe": True}
