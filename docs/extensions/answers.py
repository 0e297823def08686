"""Answers in code blocks stand on lines of their own: `1 + 1  # 2` is shown as `1 + 1`, and `# 2` below it."""

from __future__ import annotations

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

from tests.page_checker import stated_values

__all__ = ["below", "setup"]


def below(block: str) -> str:
    """The code with every value that a comment states on the line after its statement.

    Example:
        >>> print(below("1 + 1  # 2: a sum"))
        1 + 1
        # 2: a sum
    """
    lines, stated = block.split("\n"), stated_values(block)
    for number in stated:
        line = lines[number - 1]
        at = line.rindex("#", 0, line.rindex(stated[number]))
        lines[number - 1] = f"{line[:at].rstrip()}\n{line[at:]}"
    return "\n".join(lines)


class AnswersBelow(SphinxTransform):
    """Rewrites the Python blocks of a page."""

    default_priority = 400

    def apply(self) -> None:
        """Rewrites them in place."""
        for block in self.document.findall(nodes.literal_block):
            if block.get("language") == "python":
                block.rawsource = below(block.astext())
                block.children[:] = [nodes.Text(block.rawsource)]


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers the transform."""
    app.add_transform(AnswersBelow)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
