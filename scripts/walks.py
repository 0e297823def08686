"""Print which functions a value walks through: training on a table, and two forwards of a layer.

    python scripts/walks.py

A walk lists the Python functions of this library that are called, once each; calls are counted
too. Lambdas count as functions, and so do comprehensions where Python makes functions of them
(before 3.12, but for generators). Those with a name are what a reader opens one by one. A crossing
is a call from a function of one package to a function of another package.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from inspect import CO_OPTIMIZED
from io import StringIO
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import torch

import incidence as inc
from incidence.cli import main as incidence_command

PACKAGE = Path(inc.__file__).parent
SMALL = ("--epochs", "2", "--batch-size", "8", "--hidden", "8", "--depth", "1")
HEADER = (
    f"{'walk':44} {'functions':>9} {'with a name':>12} {'calls':>7} {'files':>6} {'crossings':>10}"
)


@dataclass
class Walk:
    """What was called while a walk was recorded."""

    packages: frozenset[str] = frozenset()
    functions: set[CodeType] = field(default_factory=set)
    files: set[str] = field(default_factory=set)
    calls: int = 0
    crossings: int = 0

    def record(self, frame: FrameType, event: str, argument: Any) -> None:
        """Take note of a call; `sys.setprofile` calls this."""
        code = frame.f_code
        package = package_of(code)
        # the bodies of modules and classes run when something is imported: they are no calls
        if event != "call" or package is None or not code.co_flags & CO_OPTIMIZED:
            return
        if self.packages and package not in self.packages:
            return
        self.functions.add(code)
        self.files.add(code.co_filename)
        self.calls += 1
        self.crossings += package != _package_of_caller(frame)

    @property
    def num_named(self) -> int:
        """How many of the functions have a name: no lambdas, and no comprehensions."""
        return sum(not code.co_name.startswith("<") for code in self.functions)

    def row(self, name: str) -> str:
        """Return one line of the table."""
        return (
            f"{name:44} {len(self.functions):9} {self.num_named:12} {self.calls:7}"
            f" {len(self.files):6} {self.crossings:10}"
        )


def package_of(code: CodeType) -> str | None:
    """Return the package of a function of this library, or None for other functions."""
    path = Path(code.co_filename)
    # templates of jinja2 are no functions of ours
    if code.co_name == "<module>" or path.suffix != ".py" or not path.is_relative_to(PACKAGE):
        return None
    return path.relative_to(PACKAGE).parts[0]


def _package_of_caller(frame: FrameType) -> str | None:
    """Return the package of the nearest caller that belongs to this library."""
    caller = frame.f_back
    while caller is not None:
        package = package_of(caller.f_code)
        if package is not None:
            return package
        caller = caller.f_back
    return None


@contextmanager
def recorded(walk: Walk) -> Iterator[None]:
    """Record all calls of the block."""
    sys.setprofile(walk.record)
    try:
        yield
    finally:
        sys.setprofile(None)


def training(folder: Path) -> Walk:
    """Record `incidence train --data mine.csv`: the functions of `train` and `data`."""
    table = folder / "mine.csv"
    rows = "".join(f"{'C' * (1 + k % 7)}{'O' * (k % 3)},{k % 7 + k % 3}\n" for k in range(40))
    table.write_text(f"smiles,target\n{rows}")
    words = ["train", "--data", str(table), "--out", str(folder / "run"), *SMALL]
    walk = Walk(frozenset({"train", "data"}))
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()), recorded(walk):
        code = incidence_command(words)
    if code:
        raise RuntimeError(f"training ended with exit code {code}")
    return walk


def forwards() -> tuple[Walk, Walk]:
    """Record the first and the second forward of a `Linear` on a batch of 64 rings."""
    nodes = torch.arange(6)
    ring = inc.Structure(6, {"{i j}": torch.stack([nodes, (nodes + 1) % 6])})
    batch = inc.collate([ring] * 64)
    layer = inc.nn.Linear("i, {i j} -> i, {i j}", 8, 8)
    x = {text: torch.ones(batch.num_entries(text), 8) for text in ("i", "{i j}")}
    return _forward(layer, x, batch), _forward(layer, x, batch)


def _forward(layer: Callable[..., Any], x: dict[str, torch.Tensor], batch: inc.Structure) -> Walk:
    walk = Walk()
    with recorded(walk):
        layer(x, batch)
    return walk


def main() -> None:
    """Print the table."""
    first, second = forwards()
    with tempfile.TemporaryDirectory() as folder:
        train = training(Path(folder))
    print(HEADER)
    print(train.row("incidence train --data mine.csv (train, data)"))
    print(first.row("first forward of a Linear on a batch"))
    print(second.row("second forward of a Linear on a batch"))


if __name__ == "__main__":
    main()
