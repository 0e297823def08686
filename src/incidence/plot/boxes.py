"""Boxes with texts in them, and lines between: what drawings of plans and networks are made of. Standard library only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from incidence.plot.colours import rectangle
from incidence.plot.scene import Point, Shape, Style, Text, text_width
from incidence.plot.theme import Theme

__all__ = ["Box", "boxed", "row_of_boxes"]

_TEXT = 8.0


@dataclass(frozen=True)
class Box:
    """A box with a line of text, and a fainter one below.

    Attributes:
        x, y: Its middle.
        width, height: Of the box.
    """

    x: float
    y: float
    width: float
    height: float

    @property
    def top(self) -> Point:
        """The middle of its upper side."""
        return self.x, self.y - self.height / 2

    @property
    def bottom(self) -> Point:
        """The middle of its lower side."""
        return self.x, self.y + self.height / 2

    @property
    def left(self) -> Point:
        """The middle of its left side."""
        return self.x - self.width / 2, self.y

    @property
    def right(self) -> Point:
        """The middle of its right side."""
        return self.x + self.width / 2, self.y


def boxed(
    box: Box, text: str, below: str, colour: str, part: str, theme: Theme, entry: int | None = None
) -> list[Shape]:
    """A box with its texts."""
    corner = box.x - box.width / 2, box.y - box.height / 2
    frame = rectangle(
        *corner,
        box.width,
        box.height,
        Style(fill=theme.pale, stroke=colour, width=1.1),
        part,
        entry=entry,
        hint=text,
    )
    at = box.y + 2.8 if not below else box.y - 1.2
    shapes: list[Shape] = [
        frame,
        Text(
            box.x,
            at,
            text,
            _TEXT,
            "middle",
            is_code=True,
            style=Style(fill=theme.ink),
            part=f"{part} text",
        ),
    ]
    if below:
        shapes.append(
            Text(
                box.x,
                box.y + 8.2,
                below,
                6.5,
                "middle",
                style=Style(fill=theme.faint),
                part=f"{part} below",
            )
        )
    return shapes


def row_of_boxes(
    texts: Sequence[tuple[str, str]],
    y: float,
    middle: float,
    gap: float = 16.0,
    height: float = 24.0,
) -> list[Box]:
    """Boxes side by side that hold texts, about a middle."""
    widths = [
        max(text_width(text, _TEXT, is_code=True), text_width(below, 6.5)) + 12
        for text, below in texts
    ]
    x = middle - (sum(widths) + gap * (len(widths) - 1)) / 2
    boxes = []
    for width in widths:
        boxes.append(Box(x + width / 2, y, width, height))
        x += width + gap
    return boxes
