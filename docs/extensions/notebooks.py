"""Add a link to the notebook at the end of a guide, if there is one."""

from __future__ import annotations

from pathlib import Path

from sphinx.application import Sphinx

__all__ = ["setup"]


def _offer(app: Sphinx, page: str, source: list[str]) -> None:
    if (Path(app.srcdir).parent / "examples" / f"{page}.ipynb").is_file():
        source[0] += (
            f"\n\nThis page as a notebook: {{download}}`{page}.ipynb <../examples/{page}.ipynb>`.\n"
        )


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect to the reading of pages."""
    app.connect("source-read", _offer)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
