"""Print how dense each package is: tokens, tokens per code line, comments and classes.

    python scripts/yardsticks.py [FOLDER]

The goals of the project are in CONTRIBUTING.md. Docstrings count as lines and not as tokens.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

LAYOUT = {
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
    tokenize.ENCODING,
}


@dataclass
class Shape:
    """Counts of one package."""

    files: int = 0
    lines: int = 0
    tokens: int = 0
    code_lines: int = 0
    comments: int = 0
    classes: int = 0

    def add(self, other: Shape) -> None:
        """Add the counts of another file or package."""
        for name, count in vars(other).items():
            setattr(self, name, getattr(self, name) + count)

    def row(self, name: str) -> str:
        """Return one line of the table."""
        density = self.tokens / max(self.code_lines, 1)
        comments = 1000 * self.comments / max(self.lines, 1)
        return (
            f"{name:10} {self.files:5} {self.lines:7,} {self.tokens:8,} {density:12.1f}"
            f" {comments:14.0f} {self.classes:8}"
        )


def shape_of(path: Path) -> Shape:
    """Return the counts of one file."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    docstrings = _docstring_starts(tree)
    shape = Shape(files=1, lines=text.count("\n"))
    code_rows = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            shape.comments += 1
        elif token.type not in LAYOUT and token.start not in docstrings:
            shape.tokens += 1
            code_rows.add(token.start[0])
    shape.code_lines = len(code_rows)
    shape.classes = sum(isinstance(node, ast.ClassDef) for node in ast.walk(tree))
    return shape


def _docstring_starts(tree: ast.Module) -> set[tuple[int, int]]:
    """Return where the texts that stand alone as statements start."""
    return {
        (node.lineno, node.col_offset)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }


def repeated_classes(folder: Path) -> dict[str, int]:
    """Return the class names that are defined more than once."""
    names = Counter(
        node.name
        for path in folder.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    )
    return {name: count for name, count in sorted(names.items()) if count > 1}


def main(folder: Path) -> None:
    """Print the table."""
    packages: dict[str, Shape] = {}
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).parts
        package = parts[0] if len(parts) > 1 else "(top)"
        packages.setdefault(package, Shape()).add(shape_of(path))
    total = Shape()
    for shape in packages.values():
        total.add(shape)
    print("package    files   lines   tokens  tokens/line  comments/1000  classes")
    for name, shape in [*packages.items(), ("all", total)]:
        print(shape.row(name))
    print("class names defined twice:", repeated_classes(folder) or "none")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "src/incidence"))
