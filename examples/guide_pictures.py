"""Draw the pictures of the guides: all of them by `./run python examples/guide_pictures.py`, or
some by name.

What a guide draws itself is drawn by running the guide.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import incidence as inc

DOCS = Path(__file__).parents[1] / "docs"
FOLDER = DOCS / "guides"


def of_maps(*texts: str, which: tuple[int, ...]) -> inc.plot.Picture:
    """Draw one operation of each map, side by side."""
    drawn = [
        inc.plot.operation(inc.EquivariantMap(text).operations[k], k)
        for text, k in zip(texts, which, strict=True)
    ]
    return inc.plot.grid(drawn, list(texts), columns=3)


@lru_cache
def names_after(page: str) -> dict[str, Any]:
    """Run the first block of a guide and return its names."""
    block = re.search(
        r"^```python\n(.*?)^```",
        (DOCS / f"{page}.md").read_text(encoding="utf-8"),
        flags=re.MULTILINE | re.DOTALL,
    )
    names: dict[str, Any] = {}
    exec(block[1] if block else "", names)
    return names


def of_guide(page: str, name: str = "picture") -> Callable[[], inc.plot.Picture]:
    """Return a function that draws a picture of a guide."""
    return lambda: names_after(page)[name]


PICTURES: dict[str, Callable[[], inc.plot.Picture]] = {
    "deepsets": lambda: of_maps("i -> i", "i -> i", which=(0, 1)),
    "gin": lambda: of_maps("i -> (i j)", "(i j) -> i", which=(2, 1)),
    "cin": lambda: of_maps("i -> {i j}", "{i j} -> {i j k}", "{i j k} -> {i j}", which=(1, 2, 2)),
    "scn": lambda: of_maps("<i j> -> <i j>", "<i j> -> <i j>", "<i j> -> <i j k>", which=(0, 1, 0)),
    "allset": lambda: of_maps("i -> {i ...}", "{i ...} -> i", which=(1, 1)),
    "toluene": of_guide("csv"),
    "club": of_guide("nodes"),
    "vases": of_guide("segmentation", "picture_of_parts"),
    "found": of_guide("segmentation"),
}


def draw(name: str) -> str:
    """Return a picture as SVG."""
    return PICTURES[name]().svg()


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name in sys.argv[1:] or PICTURES:
        (FOLDER / f"{name}.svg").write_text(draw(name), encoding="utf-8")
        print(f"wrote {FOLDER / name}.svg")
