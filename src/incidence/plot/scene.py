"""What a picture consists of: circles, paths and texts in points (1/72 inch), y downwards.

Everything that is drawn is a list of these marks. `to_svg` writes them as SVG; `picture.py` hands
them to matplotlib. A mark knows which part of the picture it belongs to and which entry it stands
for: tests check this, and readers of an SVG see it when they hover. Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from math import cos, hypot, pi, sin
from typing import Any

__all__ = [
    "Circle",
    "Mark",
    "Path",
    "Point",
    "Scene",
    "Style",
    "Text",
    "area",
    "arrow_head",
    "disc",
    "holds",
    "label",
    "line",
    "rectangle",
    "region_around",
    "text_width",
    "to_svg",
]

Point = tuple[float, float]

_WIDTHS = {**dict.fromkeys("iljtfrI.,:;'|!()[]{} ", 0.36), **dict.fromkeys("mwMW@%∑Σ→", 0.95)}
_SHARES = {"start": 0.0, "middle": 0.5, "end": 1.0}
_SIDES = 16  # corners of the polygon that stands for a circle in a region
_MOST_HINTS = 500
_SANS = "DejaVu Sans, Verdana, sans-serif"
_CODE = "DejaVu Sans Mono, Menlo, Consolas, monospace"


@dataclass(frozen=True)
class Style:
    """How a mark is filled and outlined; None for not at all.

    Attributes:
        fill, stroke: Colours, `#rrggbb`.
        width: Width of the outline, in points.
        opacity: Opacity of both, 0 to 1.
        dashes: Lengths of dashes and gaps.
    """

    fill: str | None = None
    stroke: str | None = None
    width: float = 1.0
    opacity: float = 1.0
    dashes: tuple[float, ...] = ()


@dataclass(frozen=True)
class Mark:
    """What circles, paths and texts have in common.

    Attributes:
        style: The colours.
        part: What the mark belongs to: the text of a tensor, or a word such as `title`.
        entry: The row of the entry that it stands for.
        hint: What a reader sees who points at it.
    """

    style: Style = field(default_factory=Style, kw_only=True)
    part: str = field(default="", kw_only=True)
    entry: int | None = field(default=None, kw_only=True)
    hint: str = field(default="", kw_only=True)

    def moved(self, x: float, y: float) -> Mark:
        """Return the same mark elsewhere."""
        raise NotImplementedError

    def points_around(self) -> list[Point]:
        """Return corners of a box around it."""
        raise NotImplementedError


@dataclass(frozen=True)
class Circle(Mark):
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
class Path(Mark):
    """A line through points. A curved one is cubic: a start, then two handles and an end for each
    piece.
    """

    points: tuple[Point, ...]
    is_closed: bool = False
    is_curved: bool = False

    def moved(self, x: float, y: float) -> Path:
        return replace(self, points=tuple((a + x, b + y) for a, b in self.points))

    def points_around(self) -> list[Point]:
        return list(self.points)


@dataclass(frozen=True)
class Text(Mark):
    """A line of text; (x, y) is on its base line.

    Attributes:
        anchor: Which place of the text (x, y) is: `start`, `middle` or `end`.
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
        left = self.x - wide * _SHARES[self.anchor]  # x is where the anchor is
        return [(left, self.y - 0.8 * self.size), (left + wide, self.y + 0.25 * self.size)]


def label(
    x: float,
    y: float,
    text: str,
    size: float,
    colour: str,
    part: str,
    anchor: str = "start",
    **more: Any,
) -> Text:
    """Return a text in one colour."""
    return Text(
        x,
        y,
        text,
        size,
        anchor,
        style=Style(fill=colour),
        part=part,
        **more,
    )


def line(
    points: Iterable[Point],
    colour: str,
    width: float,
    part: str,
    dashes: tuple[float, ...] = (),
    **more: Any,
) -> Path:
    """Return a line through points in one colour."""
    style = Style(stroke=colour, width=width, dashes=dashes)
    return Path(tuple(points), style=style, part=part, **more)


def area(points: Iterable[Point], colour: str, part: str, **more: Any) -> Path:
    """Return a polygon that is filled with one colour."""
    return Path(
        tuple(points),
        is_closed=True,
        style=Style(fill=colour),
        part=part,
        **more,
    )


def disc(x: float, y: float, radius: float, colour: str, part: str, **more: Any) -> Circle:
    """Return a circle that is filled with one colour."""
    return Circle(
        x,
        y,
        radius,
        style=Style(fill=colour),
        part=part,
        **more,
    )


def rectangle(
    x: float, y: float, width: float, height: float, style: Style, part: str = "", **more: Any
) -> Path:
    """Return a box with its upper left corner at (x, y)."""
    corners = ((x, y), (x + width, y), (x + width, y + height), (x, y + height))
    return Path(corners, is_closed=True, style=style, part=part, **more)


def text_width(text: str, size: float, is_code: bool = False) -> float:
    """Return about how wide a text is, rather too wide than too narrow."""
    if is_code:
        return 0.61 * size * len(text)
    # No font is at hand where a picture is made: widths are those of a wide one.
    return size * sum(_WIDTHS.get(c, 0.64) for c in text)


def arrow_head(tail: Point, tip: Point, length: float) -> tuple[Point, ...]:
    """Return the corners of the head of an arrow that comes from `tail`."""
    x = tip[0] - tail[0]
    y = tip[1] - tail[1]
    norm = hypot(x, y) or 1.0
    x = x / norm * length
    y = y / norm * length
    return (
        tip,
        (tip[0] - x - 0.4 * y, tip[1] - y + 0.4 * x),
        (tip[0] - x + 0.4 * y, tip[1] - y - 0.4 * x),
    )


def region_around(points: Sequence[Point], reach: float) -> tuple[Point, ...]:
    """Return the corners of the convex hull of circles around points.

    Walking along them, the inside is on the left.

    Example:
        >>> region = region_around([(0.0, 0.0), (4.0, 0.0)], 1.0)
        >>> holds(region, (2.0, 0.5)), holds(region, (2.0, 1.5))
        (True, False)
    """
    turns = [2 * pi * k / _SIDES for k in range(_SIDES)]
    corners = sorted({(x + reach * cos(t), y + reach * sin(t)) for x, y in points for t in turns})
    # each ends where the other begins
    return tuple(_chain(corners)[:-1] + _chain(corners[::-1])[:-1])


def _chain(corners: Sequence[Point]) -> list[Point]:
    """One side of a convex hull, by Andrew's method."""
    chain: list[Point] = []
    for corner in corners:
        # the last corner lies inside
        while len(chain) >= 2 and _turn(chain[-2], chain[-1], corner) <= 0:
            chain.pop()
        chain.append(corner)
    return chain


def _turn(a: Point, b: Point, c: Point) -> float:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def holds(region: Sequence[Point], point: Point) -> bool:
    """Return whether a point lies in a convex region."""
    sides = zip(region, [*region[1:], region[0]], strict=True)
    return all(_turn(a, b, point) >= 0 for a, b in sides)


@dataclass(frozen=True)
class Scene:
    """Marks in the order in which they are drawn, on paper of some size.

    Attributes:
        width, height: Size of the paper, in points.
        shapes: The marks.
    """

    width: float
    height: float
    shapes: tuple[Mark, ...]

    def __repr__(self) -> str:
        """Return a line with the size and the number of marks."""
        return f"Scene({self.width:.0f} x {self.height:.0f} points, {len(self.shapes)} marks)"

    def of(self, part: str) -> list[Mark]:
        """Return the marks of one part."""
        return [mark for mark in self.shapes if mark.part == part]

    def on_paper(self, least: float) -> Scene:
        """Return the same in the middle of square paper with sides of at least that length."""
        if max(self.width, self.height) >= least:
            return self
        right = (least - self.width) / 2
        down = (least - self.height) / 2
        return Scene(least, least, tuple(mark.moved(right, down) for mark in self.shapes))

    @staticmethod
    def around(shapes: Iterable[Mark], margin: float = 8.0) -> Scene:
        """Return the marks in the middle of paper that just holds them."""
        marks = tuple(shapes)
        corners = [point for mark in marks for point in mark.points_around()] or [(0.0, 0.0)]
        left = min(x for x, _ in corners) - margin
        top = min(y for _, y in corners) - margin
        right = max(x for x, _ in corners) + margin
        bottom = max(y for _, y in corners) + margin
        return Scene(right - left, bottom - top, tuple(mark.moved(-left, -top) for mark in marks))


# ---- SVG: text stays text, and numbers have as many digits as one can see


def to_svg(scene: Scene, background: str | None = None, title: str = "") -> str:
    """Write a scene as the text of an SVG file.

    Args:
        scene: The scene.
        background: The colour of the paper; None for none.
        title: What it shows, for those who cannot see it.
    """
    width = _number(scene.width)
    height = _number(scene.height)
    paper = f'<rect width="100%" height="100%" fill="{background}"/>' if background else ""
    named = f"<title>{escape(title)}</title>" if title else ""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
        f' width="{width}pt" height="{height}pt" role="img" font-family="{_SANS}">'
        f"{named}{paper}{''.join(_groups(scene))}</svg>\n"
    )


def _groups(scene: Scene) -> Iterator[str]:
    """The marks, with neighbours of equal style in one group."""
    style: Style | None = None
    has_hints = len(scene.shapes) <= _MOST_HINTS  # nobody could point at one of more
    for mark in scene.shapes:
        if mark.style != style:
            if style is not None:
                yield "</g>"
            yield f"<g{_style(mark.style)}>"
            style = mark.style
        yield _element(mark, mark.hint if has_hints else "")
    if style is not None:
        yield "</g>"


def _element(mark: Mark, hint: str) -> str:
    if isinstance(mark, Text):
        return _text(mark)
    if isinstance(mark, Circle):
        centre = f'cx="{_number(mark.x)}" cy="{_number(mark.y)}"'
        name = "circle"
        attributes = f'{centre} r="{_number(mark.radius)}"'
    elif isinstance(mark, Path):
        name = "path"
        attributes = f'd="{_outline(mark)}"'
    else:
        raise TypeError(f"no SVG for {type(mark).__name__}")
    if not hint:
        return f"<{name} {attributes}/>"
    return f"<{name} {attributes}><title>{escape(hint)}</title></{name}>"


def _outline(path: Path) -> str:
    first, *others = (f"{_number(x)} {_number(y)}" for x, y in path.points)
    command = "C" if path.is_curved else "L"
    end = "Z" if path.is_closed else ""
    return f"M{first}{command}{' '.join(others)}{end}"


def _text(text: Text) -> str:
    attributes = [f'x="{_number(text.x)}" y="{_number(text.y)}" font-size="{_number(text.size)}"']
    if text.anchor != "start":
        attributes.append(f'text-anchor="{text.anchor}"')
    if text.is_code:
        attributes.append(f'font-family="{_CODE}"')
    if text.is_bold:
        attributes.append('font-weight="bold"')
    return f'<text {" ".join(attributes)} xml:space="preserve">{escape(text.text)}</text>'


def _style(style: Style) -> str:
    text = f' fill="{style.fill or "none"}"'
    if style.stroke:
        width = _number(style.width)
        text += f' stroke="{style.stroke}" stroke-width="{width}" stroke-linejoin="round"'
    if style.dashes:
        text += f' stroke-dasharray="{" ".join(map(_number, style.dashes))}"'
    if style.opacity < 1:
        text += f' opacity="{_number(style.opacity)}"'
    return text


def _number(value: float) -> str:
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text
