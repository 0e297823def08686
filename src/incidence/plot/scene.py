"""What a picture consists of: circles, paths and texts in points (1/72 inch), y downwards. Standard library only.

Everything that is drawn is told once in these shapes, and written as SVG by `svg.py` or drawn by matplotlib in `canvas.py`. A shape knows
which part of the picture it belongs to and which entry it stands for: tests ask for that, and readers of an SVG see it when they hover.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from math import hypot

__all__ = ["Circle", "Path", "Point", "Scene", "Shape", "Style", "Text", "arrow_head", "text_width"]

Point = tuple[float, float]

_NARROW = frozenset("iljtfrI.,:;'|!()[]{} ")
_WIDE = frozenset("mwMW@%∑Σ→")


@dataclass(frozen=True)
class Style:
    """How a shape is filled and outlined; None for not at all.

    Attributes:
        fill, stroke: Colours, `#rrggbb`.
        width: Of the outline, in points.
        opacity: Of both.
        dashes: Lengths of dashes and gaps.
    """

    fill: str | None = None
    stroke: str | None = None
    width: float = 1.0
    opacity: float = 1.0
    dashes: tuple[float, ...] = ()


@dataclass(frozen=True)
class Shape:
    """What all shapes have.

    Attributes:
        style: The colours.
        part: What it belongs to: the text of a tensor, or a word such as `title`.
        entry: The row of the entry that it stands for.
        hint: What a reader sees who points at it.
    """

    style: Style = field(default_factory=Style, kw_only=True)
    part: str = field(default="", kw_only=True)
    entry: int | None = field(default=None, kw_only=True)
    hint: str = field(default="", kw_only=True)

    def moved(self, x: float, y: float) -> Shape:
        """The same shape elsewhere."""
        raise NotImplementedError

    def points_around(self) -> list[Point]:
        """Corners of a box around it."""
        raise NotImplementedError


@dataclass(frozen=True)
class Circle(Shape):
    """A circle."""

    x: float
    y: float
    radius: float

    def moved(self, x: float, y: float) -> Circle:
        return replace(self, x=self.x + x, y=self.y + y)

    def points_around(self) -> list[Point]:
        r = self.radius
        return [(self.x - r, self.y - r), (self.x + r, self.y + r)]


@dataclass(frozen=True)
class Path(Shape):
    """A line through points; if curved, cubic: a start, then two handles and an end for each piece."""

    points: tuple[Point, ...]
    is_closed: bool = False
    is_curved: bool = False

    def moved(self, x: float, y: float) -> Path:
        return replace(self, points=tuple((a + x, b + y) for a, b in self.points))

    def points_around(self) -> list[Point]:
        return list(self.points)


@dataclass(frozen=True)
class Text(Shape):
    """A line of text; (x, y) is on its base line.

    Attributes:
        anchor: What (x, y) is of it: `start`, `middle` or `end`.
        is_code: Whether letters have one width.
    """

    x: float
    y: float
    text: str
    size: float = 9.0
    anchor: str = "start"
    is_code: bool = False
    is_bold: bool = False

    def moved(self, x: float, y: float) -> Text:
        return replace(self, x=self.x + x, y=self.y + y)

    def points_around(self) -> list[Point]:
        wide = text_width(self.text, self.size, self.is_code)
        left = self.x - wide * {"start": 0.0, "middle": 0.5, "end": 1.0}[self.anchor]
        return [(left, self.y - 0.8 * self.size), (left + wide, self.y + 0.25 * self.size)]


def text_width(text: str, size: float, is_code: bool = False) -> float:
    """About how wide a text is, on the wide side."""
    if is_code:
        return 0.61 * size * len(text)
    return size * sum(0.36 if c in _NARROW else 0.95 if c in _WIDE else 0.64 for c in text)


def arrow_head(tail: Point, tip: Point, length: float) -> tuple[Point, ...]:
    """The corners of the head of an arrow that comes from `tail`."""
    x, y = tip[0] - tail[0], tip[1] - tail[1]
    norm = hypot(x, y) or 1.0
    x, y = x / norm * length, y / norm * length
    return (
        tip,
        (tip[0] - x - 0.4 * y, tip[1] - y + 0.4 * x),
        (tip[0] - x + 0.4 * y, tip[1] - y - 0.4 * x),
    )


@dataclass(frozen=True)
class Scene:
    """Shapes in the order in which they are drawn, on paper of some size.

    Attributes:
        width, height: In points.
        shapes: What is drawn.
    """

    width: float
    height: float
    shapes: tuple[Shape, ...]

    def of(self, part: str) -> list[Shape]:
        """The shapes of one part."""
        return [shape for shape in self.shapes if shape.part == part]

    def on_paper(self, least: float) -> Scene:
        """The same in the middle of paper of which one side at least is that long."""
        if max(self.width, self.height) >= least:
            return self
        right, down = (least - self.width) / 2, (least - self.height) / 2
        return Scene(least, least, tuple(shape.moved(right, down) for shape in self.shapes))

    @staticmethod
    def around(shapes: Iterable[Shape], margin: float = 8.0) -> Scene:
        """The shapes moved to the middle of paper that just holds them."""
        kept = tuple(shapes)
        corners = [point for shape in kept for point in shape.points_around()] or [(0.0, 0.0)]
        left, top = min(x for x, _ in corners) - margin, min(y for _, y in corners) - margin
        right, bottom = max(x for x, _ in corners) + margin, max(y for _, y in corners) + margin
        return Scene(right - left, bottom - top, tuple(shape.moved(-left, -top) for shape in kept))
