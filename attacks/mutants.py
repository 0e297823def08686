"""`mutants_of`: the small changes of a source text that may break it, each with what it was and
what it becomes.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

__all__ = ["Mutant", "mutants_of"]

_OPERATORS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
}
"""What takes the place of an operator."""


@dataclass(frozen=True)
class Mutant:
    """One change of a file.

    Attributes:
        path: The file, from the root of the project.
        place: The function or class that it lies in, and where it is several times there, which of
            them.
        line: Where it is.
        old: What stands there.
        new: What stands there instead.
        start, stop: The bytes of the file that are replaced.
    """

    path: str
    place: str
    line: int
    old: str
    new: str
    start: int
    stop: int

    @property
    def key(self) -> str:
        """What it is called wherever else the file changes."""
        return f"{self.path} {self.place}: {_short(self.old)} -> {_short(self.new)}"

    def applied(self, source: bytes) -> bytes:
        """The source with the change."""
        return source[: self.start] + self.new.encode() + source[self.stop :]


def _short(text: str) -> str:
    return " ".join(text.split())


def mutants_of(path: str, source: bytes) -> list[Mutant]:
    r"""All mutants of a file of Python, or of C, in their order.

    Docstrings, annotations, messages of errors and the lists of public names are left alone: no
    test should depend on their words. So are assertions, `strict=` of `zip` among them, which hold
    in any case.

    Example:
        >>> source = b"def f(x: int) -> int:\n    return x + 1\n"
        >>> [mutant.key for mutant in mutants_of("a.py", source)]
        ['a.py f: x + 1 -> (x - 1)', 'a.py f: 1 -> 2']
    """
    found = _mutants_of_c(path, source) if path.endswith(".c") else _mutants_of_python(path, source)
    seen: Counter[str] = Counter()
    numbered = []
    for mutant in sorted(found, key=lambda one: (one.start, one.stop, one.new)):
        seen[mutant.key] += 1
        count = seen[mutant.key]
        numbered.append(
            mutant if count == 1 else replace(mutant, place=f"{mutant.place} ({count})")
        )
    return numbered


def _mutants_of_python(path: str, source: bytes) -> Iterator[Mutant]:
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for node, change, place in _changes(ast.parse(source), ""):
        start = starts[node.lineno - 1] + node.col_offset
        stop = starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
        yield Mutant(
            path, place or "top", node.lineno, source[start:stop].decode(), change, start, stop
        )


def _changes(node: ast.AST, place: str) -> Iterator[tuple[ast.expr | ast.stmt, str, str]]:
    """The nodes below one that can be changed, what they become, and where they lie."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        place = f"{place}.{node.name}".lstrip(".")
    for child in _code(node):
        if isinstance(child, (ast.expr, ast.stmt)):
            yield from ((child, new, place) for new in _changed(child))
        yield from _changes(child, place)


def _code(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of a node that are code: no annotations, docstrings, messages of errors or public
    names, nor what `zip` asserts.
    """
    if isinstance(node, (ast.Raise, ast.Assert, ast.JoinedStr)) or _is_list_of_names(node):
        return
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "bases"):
            continue
        for child in value if isinstance(value, list) else [value]:
            is_text = isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
            is_assertion = isinstance(child, ast.keyword) and child.arg == "strict"
            if (
                isinstance(child, ast.AST)
                and not is_text
                and not is_assertion
                and not _is_about_types(child)
            ):
                yield child


def _is_list_of_names(node: ast.AST) -> bool:
    return isinstance(node, ast.Assign) and any(
        isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets
    )


def _is_about_types(node: ast.AST) -> bool:
    """Whether a statement does nothing when it runs, or only for type checkers."""
    return (
        isinstance(node, ast.If)
        and isinstance(node.test, ast.Name)
        and node.test.id == "TYPE_CHECKING"
    )


def _changed(node: ast.expr | ast.stmt) -> Iterator[str]:
    """Yield the texts that may replace a node."""
    other: Any
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        other = _OPERATORS[type(node.op)]()
        yield f"({ast.unparse(ast.BinOp(node.left, other, node.right))})"
    elif isinstance(node, ast.Compare) and type(node.ops[0]) in _OPERATORS:
        other = _OPERATORS[type(node.ops[0])]()
        compared = ast.Compare(node.left, [other, *node.ops[1:]], node.comparators)
        yield f"({ast.unparse(compared)})"
    elif isinstance(node, ast.BoolOp):
        other = _OPERATORS[type(node.op)]()
        yield f"({ast.unparse(ast.BoolOp(other, node.values))})"
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub, ast.Invert)):
        yield f"({ast.unparse(node.operand)})"
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield str(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        yield repr(node.value + 1)
    elif isinstance(node, ast.IfExp):
        yield f"({ast.unparse(ast.IfExp(node.test, node.orelse, node.body))})"
    elif isinstance(node, ast.AugAssign):
        yield ast.unparse(ast.Assign([node.target], node.value, lineno=node.lineno))
    elif (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)) or isinstance(
        node, (ast.Continue, ast.Break)
    ):
        yield "pass"


_TOKENS = {
    "+=": "-=",
    "<": "<=",
    "+": "-",
    "-": "+",
    "*": "+",
    "==": "!=",
    "&&": "||",
    "||": "&&",
    "0": "1",
    "1": "2",
}
_OPERATOR = re.compile(
    r"(?<=[\w\])] )(\+=|<|\+|-|\*|==|&&|\|\|)(?= [\w(*])|(?<![\w.])([01])(?![\w.])"
)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|^\s*#[^\n]*", re.DOTALL | re.MULTILINE)


def _mutants_of_c(path: str, source: bytes) -> Iterator[Mutant]:
    """Operators between blanks, and the numbers 0 and 1, of lines that are no comments."""
    text = source.decode()
    code = _COMMENT.sub(lambda match: " " * len(match[0]), text)
    for match in _OPERATOR.finditer(code):
        start, stop = (len(text[:place].encode()) for place in match.span())
        line = text.count("\n", 0, match.start()) + 1
        around = _short(
            text[text.rfind("\n", 0, match.start()) + 1 : (text + "\n").index("\n", match.end())]
        )
        yield Mutant(path, around, line, match[0], _TOKENS[match[0]], start, stop)
