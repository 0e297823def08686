"""What messages call options: those that exist, and in Python as arguments."""

import ast
import re
from dataclasses import fields
from pathlib import Path

import incidence
from incidence.errors import spelled
from incidence.train import Config

_SOURCE = Path(incidence.__file__).parent
_FLAG = re.compile(r"(?<![\w./-])--([a-z][a-z-]*)")
# what only the command line shows, or what is no message
_OF_COMMANDS = {"cli.py", "commands.py", "errors.py", "explorer.py", "launch.py", "page.py"}
# of other commands than `train`, and what Python calls otherwise
_PLACE = "\N{HORIZONTAL ELLIPSIS}"  # what is put into a text
_OTHERS = {"shard", "resume", "tolerance", "all", "rows", "list"}


def _texts(path: Path) -> list[str]:
    """All texts in a file but its docstrings, with a sign in place of what is put into them."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    inside = {id(part) for node in ast.walk(tree) for part in _parts_of(node)}
    nodes = [node for node in ast.walk(tree) if id(node) not in inside]
    plain = [node.value for node in nodes if isinstance(node, ast.Constant)]
    joined = [
        "".join(
            str(part.value) if isinstance(part, ast.Constant) else _PLACE for part in node.values
        )
        for node in nodes
        if isinstance(node, ast.JoinedStr)
    ]
    return [text for text in (*plain, *joined) if isinstance(text, str)]


def _parts_of(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.Expr):  # a docstring
        return [node.value]
    return node.values if isinstance(node, ast.JoinedStr) else []


def test_flags_in_messages_are_options_and_reach_python_as_arguments():
    known = {f.name.replace("_", "-") for f in fields(Config)} | _OTHERS
    found = set()
    for path in _SOURCE.rglob("*.py"):
        for text in [] if path.name in _OF_COMMANDS else _texts(path):
            names = set(_FLAG.findall(text))
            found |= names
            assert names <= known, (path, text)
            is_flag_alone = text.startswith("--") and text[2:].partition(" ")[0] in known
            assert not _FLAG.search(spelled(text)) or is_flag_alone, (path, text)
    assert len(found) > 20
