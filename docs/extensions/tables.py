"""Label the cells of wide tables with the head of their column, so that narrow screens can show a
row as a list.
"""

from __future__ import annotations

from docutils import nodes
from markupsafe import escape
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

__all__ = ["label_cells", "setup"]

_WIDE = 4  # columns


def label_cells(table: nodes.table) -> None:
    """Put the head of its column before every cell that is not empty. The style sheet shows or
    hides it.
    """
    [group] = table.findall(nodes.tgroup)
    heads = [
        entry.astext() for head in group.findall(nodes.thead) for entry in head.findall(nodes.entry)
    ]
    if len(heads) < _WIDE:
        return
    table["classes"].append("wide")
    for body in group.findall(nodes.tbody):
        for row in body.findall(nodes.row):
            for head, entry in zip(heads, row.children, strict=True):
                if head and (
                    entry.astext().strip() or next(entry.findall(nodes.image), None) is not None
                ):
                    entry.insert(
                        0,
                        nodes.raw(
                            "", f'<span class="cell-head">{escape(head)}</span>', format="html"
                        ),
                    )


class LabelledTables(SphinxPostTransform):
    """Label the cells of all tables of a page."""

    default_priority = 290  # while pictures are still pictures
    formats = ("html",)

    def run(self, **_: object) -> None:
        """Label them in place."""
        for table in self.document.findall(nodes.table):
            label_cells(table)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the transform."""
    app.add_post_transform(LabelledTables)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
