"""Numbers as colours: a scale for each tensor with values, and its legend. Standard library only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import isfinite

from incidence.plot.scene import Path, Shape, Style, Text
from incidence.plot.theme import Theme, between

__all__ = ["Scale", "rectangle", "scale_of", "shaded", "text_on"]

_MOST_CATEGORIES = 12
_BAR = 10.0  # points that a bar of colours is wide
_STEPS = 40


@dataclass(frozen=True)
class Scale:
    """A colour for every number.

    Attributes:
        theme: The theme.
        colours: A row of colours from `low` to `high`; empty if numbers are names of classes.
        classes: The numbers that are names, ascending.
        is_size: Whether the sign of a number has no colour of its own, as an arrow tells it.
    """

    theme: Theme
    colours: tuple[str, ...]
    low: float = 0.0
    high: float = 1.0
    classes: tuple[float, ...] = ()
    is_size: bool = False

    def __call__(self, value: float) -> str:
        """The colour of a number; that of missing things if it is none."""
        if not isfinite(value):
            return self.theme.pale
        if self.classes:
            return self.theme.category(self.classes.index(value))
        value = abs(value) if self.is_size else value
        return between(self.colours, (value - self.low) / ((self.high - self.low) or 1.0))

    def legend(
        self, title: str, x: float, y: float, height: float, names: Sequence[str] = ()
    ) -> list[Shape]:
        """What the colours mean, from (x, y) downwards."""
        ink = Style(fill=self.theme.ink)
        title = f"size of {title}" if self.is_size else title
        head = [Text(x, y + 8, title, 8, is_code=True, style=ink, part="legend")]
        return head + (
            self._keys(x, y + 15, names) if self.classes else self._bar(x, y + 15, height - 18)
        )

    def _keys(self, x: float, y: float, names: Sequence[str]) -> list[Shape]:
        shapes: list[Shape] = []
        for number, value in enumerate(self.classes):
            top = y + 13 * number
            named = names[int(value)] if 0 <= value < len(names) else f"{value:g}"
            shapes.append(rectangle(x, top, 9, 9, Style(fill=self(value)), "legend"))
            shapes.append(
                Text(x + 13, top + 7.5, named, 8, style=Style(fill=self.theme.ink), part="legend")
            )
        return shapes

    def _bar(self, x: float, y: float, height: float) -> list[Shape]:
        step = height / _STEPS
        shapes: list[Shape] = [
            rectangle(
                x,
                y + height - step * (k + 1),
                _BAR,
                step + 0.3,
                Style(fill=between(self.colours, (k + 0.5) / _STEPS)),
                "legend",
            )
            for k in range(_STEPS)
        ]
        for share in (0.0, 0.5, 1.0):
            value = self.low + share * (self.high - self.low)
            place = y + height * (1 - share) + 3 - (share == 0) * 3 + (share == 1) * 4
            shapes.append(
                Text(
                    x + _BAR + 4,
                    place,
                    f"{value:.3g}",
                    8,
                    style=Style(fill=self.theme.ink),
                    part="legend",
                )
            )
        return shapes


def scale_of(
    values: Iterable[float], theme: Theme, are_classes: bool = False, are_flows: bool = False
) -> Scale:
    """The scale that suits numbers: classes; from the lowest to the highest; about 0 if some are below it and some above; or by size."""
    if are_flows:
        return Scale(
            theme,
            theme.sequence,
            0.0,
            max((abs(v) for v in values if isfinite(v)), default=1.0) or 1.0,
            is_size=True,
        )
    known = sorted({v for v in values if isfinite(v)})
    if are_classes and len(known) <= _MOST_CATEGORIES:
        return Scale(theme, (), classes=tuple(known))
    low, high = (known[0], known[-1]) if known else (0.0, 1.0)
    if low < 0 < high:
        reach = max(-low, high)
        return Scale(theme, theme.diverging, -reach, reach)
    if low == high:
        low, high = low - 0.5, high + 0.5
    return Scale(theme, theme.sequence, low, high)


def rectangle(
    x: float, y: float, width: float, height: float, style: Style, part: str = "", **more: object
) -> Path:
    """A box with its upper left corner at (x, y)."""
    corners = ((x, y), (x + width, y), (x + width, y + height), (x, y + height))
    return Path(corners, is_closed=True, style=style, part=part, **more)  # type: ignore[arg-type]


def shaded(colour: str, light: float) -> str:
    """A colour in less light (below 1) or more."""
    return (
        between((colour, "#000000"), 1 - light)
        if light < 1
        else between((colour, "#ffffff"), min(light - 1, 1))
    )


@lru_cache(maxsize=256)
def text_on(colour: str) -> str:
    """Black or white, whichever is read better on a colour."""
    red, green, blue = (int(colour[c : c + 2], 16) / 255 for c in (1, 3, 5))
    linear = [
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (red, green, blue)
    ]
    bright = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "#ffffff" if bright < 0.18 else "#10151c"
