"""Make a notebook of every guide: `./run python scripts/make_notebooks.py` writes
examples/*.ipynb, or some by name.

The guides are those that docs/index.md lists. Their text becomes cells of Markdown, and their
blocks become cells of code. A cell ends where a value is stated, so that the value stands below.
This script runs the cells, and stores results that are small.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.page_checker import beside, stated_values  # noqa: E402

DOCS, EXAMPLES = ROOT / "docs", ROOT / "examples"
# characters of an output; pictures that are larger are left to whoever runs the notebook
MOST_TEXT, MOST_SVG = 1_500, 80_000
_BLOCK = re.compile(r"^```python\n(.*?)^```\n", flags=re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?!https?:|#|/)([^)]+)\)")
_WORDS = re.compile(r"(?:: |, )(?=[a-z])")  # what may stand between a value and words about it

Cell = dict[str, Any]


def guides() -> list[str]:
    """Return the pages of the group Guides."""
    [listed] = re.findall(
        r":caption: Guides\n:hidden:\n(.*?)```",
        (DOCS / "index.md").read_text(encoding="utf-8"),
        flags=re.DOTALL,
    )
    return listed.split()


def cells_of(page: str) -> list[Cell]:
    """Return the cells of a guide before they run."""
    parts = _BLOCK.split(page)  # text, code, text, ...
    found: list[tuple[str, str]] = []
    for k, part in enumerate(parts):
        found += (
            [("code", source) for source in code_cells(part)]
            if k % 2
            else [("markdown", prose(part))]
        )
    return [
        _cell(kind, source, k)
        for k, (kind, source) in enumerate((kind, text) for kind, text in found if text.strip())
    ]


def prose(text: str) -> str:
    """Return text of a page for a notebook in another folder, with links to the pages."""
    return _LINK.sub(r"](../docs/\1)", text).strip("\n")


def code_cells(block: str) -> Iterator[str]:
    """Yield a block in cells that end where a value is stated or a picture is made. The value is
    left to the notebook.
    """
    block = beside(block)
    lines, stated = block.split("\n"), stated_values(block)
    start = 0
    for statement in ast.parse(block).body:
        end = statement.end_lineno or statement.lineno
        if end in stated:
            lines[end - 1] = _without_value(lines[end - 1], stated[end])
        elif not _is_picture(statement):
            continue
        shown = [ast.unparse(statement.targets[0])] if isinstance(statement, ast.Assign) else []
        yield "\n".join([*lines[start:end], *shown]).strip("\n")
        start = end
    yield "\n".join(lines[start:]).strip("\n")


def _without_value(line: str, comment: str) -> str:
    """Return the line without the value; words about it stay."""
    code = line[: line.rindex("#", 0, line.rindex(comment))].rstrip()
    words = [
        comment[found.end() :]
        for found in _WORDS.finditer(comment)
        if _is_closed(comment[: found.start()])
    ]
    return f"{code}  # {words[0]}" if words else code


def _is_closed(text: str) -> bool:
    return all(text.count(one) == text.count(other) for one, other in ("()", "[]", "{}"))


def _is_picture(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Assign)
        and isinstance(statement.targets[0], ast.Name)
        and statement.targets[0].id.startswith("picture")
    )


def _cell(kind: str, source: str, number: int) -> Cell:
    cell: Cell = {
        "cell_type": kind,
        "id": f"cell-{number}",
        "metadata": {},
        "source": source.splitlines(keepends=True),
    }
    return cell | {"execution_count": None, "outputs": []} if kind == "code" else cell


def run(cells: list[Cell]) -> None:
    """Run the cells of code in order, and store their results."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate((cell for cell in cells if cell["cell_type"] == "code"), 1):
        value = _run("".join(cell["source"]), names)
        cell["execution_count"] = number
        cell["outputs"] = [] if value is None else [_output(value, number)]


def _run(source: str, names: dict[str, Any]) -> Any:
    """Return the value of the last line, if it is an expression. Printed text is left out, because
    it has times and paths in it.
    """
    body = ast.parse(source).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        exec(compile(ast.Module(body, []), "notebook", "exec"), names)
        return (
            eval(compile(ast.Expression(last.value), "notebook", "eval"), names)
            if last is not None
            else None
        )


def _output(value: Any, number: int) -> Cell:
    text = repr(value)
    data: dict[str, Any] = {
        "text/plain": text if len(text) < MOST_TEXT else f"{text[:MOST_TEXT]} ..."
    }
    svg = value.svg() if hasattr(value, "svg") else ""
    if svg:
        data["text/plain"] = f"<Picture of {len(value.scene.shapes)} shapes>"
    if 0 < len(svg) < MOST_SVG:
        data["image/svg+xml"] = svg
    return {
        "output_type": "execute_result",
        "execution_count": number,
        "metadata": {},
        "data": data,
    }


def notebook(cells: list[Cell]) -> str:
    """Return the text of a notebook."""
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    made = {
        "cells": cells,
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(made, indent=1, ensure_ascii=False) + "\n"


def main(names: list[str]) -> None:
    """Write notebooks."""
    for name in names or guides():
        cells = cells_of((DOCS / f"{name}.md").read_text(encoding="utf-8"))
        run(cells)
        path = EXAMPLES / f"{name}.ipynb"
        path.write_text(notebook(cells), encoding="utf-8")
        print(f"wrote {path.relative_to(ROOT)}, {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main(sys.argv[1:])
