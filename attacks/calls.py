"""`Calls`: which tests call which functions, so that a mutant is shown to those that run it, the
quickest first.

As a plugin of pytest (`-p attacks.calls`) it watches every test, and adds a line for each to the
file `INCIDENCE_CALLS`.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

from attacks.warm import WarmTests

__all__ = ["Call", "Calls", "chosen", "span_of", "watch"]

_FILE = "INCIDENCE_CALLS"
_MOST_SECONDS = 3600
_C_BY = {
    "src/incidence/engine/products/join.c": "src/incidence/engine/products/join.py",
    "src/incidence/engine/compiled/network.c": "src/incidence/engine/compiled/node.py",
}
"""What calls each file of C."""


@dataclass(frozen=True)
class Call:
    """A test, how many seconds it took, and by file the lines where what it called begins."""

    test: str
    seconds: float
    lines: dict[str, frozenset[int]]


class Calls:
    """What all tests call, as the plugin has written it down; the last line of a test counts."""

    def __init__(self, path: Path) -> None:
        by_test: dict[str, Call] = {}
        self.watched: dict[str, str] = {}
        """The files of tests that were watched from the first test to the last, with a digest of
        each.
        """
        for record in map(
            json.loads, path.read_text(encoding="utf-8").splitlines() if path.exists() else ()
        ):
            self.watched.update(record.get("watched", {}))
            if "test" in record:
                lines = {name: frozenset(numbers) for name, numbers in record["lines"].items()}
                by_test[record["test"]] = Call(record["test"], record["seconds"], lines)
        self._calls = sorted(by_test.values(), key=lambda call: call.seconds)

    def __len__(self) -> int:
        return len(self._calls)

    def __iter__(self) -> Iterator[Call]:
        """The quickest first."""
        return iter(self._calls)

    def of(self, path: str, source: bytes, line: int) -> list[Call]:
        """The tests that call the function around a line, the quickest first; for what is outside
        of functions, anything of the file.
        """
        if path.endswith(".c"):
            return [call for call in self._calls if _C_BY[path] in call.lines]
        first, last = span_of(source, line)
        return [
            call
            for call in self._calls
            if any(first <= at <= last for at in call.lines.get(path, ()))
        ]


def span_of(source: bytes, line: int) -> tuple[int, int]:
    r"""The first and the last line of the innermost function around a line, its decorators
    included; of the whole file, if there is none.

    Example:
        >>> span_of(b"@f\ndef g():\n    return 1\n\nx = 2\n", 3)
        (1, 3)
        >>> span_of(b"@f\ndef g():\n    return 1\n\nx = 2\n", 5)
        (1, 5)
    """
    spans = [(1, source.count(b"\n"))]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            if first <= line <= (node.end_lineno or first):
                spans.append((first, node.end_lineno or first))
    return max(spans)


def _lines_of(codes: set[CodeType], root: Path) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for code in codes:
        path = Path(code.co_filename)
        if path.is_relative_to(root / "src"):
            found.setdefault(str(path.relative_to(root)), []).append(code.co_firstlineno)
    return {name: sorted(lines) for name, lines in sorted(found.items())}


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Watches one test, with what it needs."""
    codes: set[CodeType] = set()

    def note(frame: FrameType, event: str, arg: Any) -> None:
        codes.add(frame.f_code)

    begun = time.monotonic()
    sys.settrace(note)  # which returns nothing: what happens inside of a call is of no interest
    yield
    sys.settrace(None)
    if _FILE in os.environ:
        root = item.config.rootpath
        record = {
            "test": item.nodeid,
            "seconds": round(time.monotonic() - begun, 3),
            "lines": _lines_of(codes, root),
        }
        _append(Path(os.environ[_FILE]), record)


def _append(path: Path, record: dict[str, Any]) -> None:
    """Adds a line at once: several processes of tests write to one file."""
    with path.open("ab", buffering=0) as file:
        file.write(f"{json.dumps(record)}\n".encode())


def watch(path: Path, files: Sequence[str], folder: Path, tests: WarmTests) -> None:
    """Runs the tests of files that are new or have changed, one file at a time, and writes down
    what they call.

    Raises:
        SystemExit: A test fails.
    """
    watched = Calls(path).watched
    for name in files:
        digest = hashlib.blake2b((folder / name).read_bytes(), digest_size=8).hexdigest()
        if watched.get(name) != digest:
            found = tests.run(["-p", "attacks.calls", name], _MOST_SECONDS)
            if found.has_failed:
                raise SystemExit(
                    f"tests fail before anything is broken ({found.by}): mend them first."
                )
            _append(path, {"watched": {name: digest}})


def chosen(calls: Sequence[Call], seconds: float) -> list[Call]:
    """The first tests that take so many seconds together, and always one."""
    total = 0.0
    found: list[Call] = []
    for call in calls:
        total += call.seconds
        if found and total > seconds:
            break
        found.append(call)
    return found
