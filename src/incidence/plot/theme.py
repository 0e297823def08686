"""One look for all pictures: two themes with colours that colour-blind readers can tell apart, and
scales that show numbers as colours. Standard library only.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import isfinite

from incidence.errors import IncidenceError
from incidence.plot.scene import Mark, Style, label, rectangle

__all__ = [
    "DARK",
    "LIGHT",
    "Scale",
    "Theme",
    "between",
    "scale_of",
    "shaded",
    "text_on",
    "theme_of",
]


@dataclass(frozen=True)
class Theme:
    """The colours of a picture.

    Attributes:
        paper: Behind everything.
        ink: Of texts; `faint` of remarks, `line` of edges and frames, `pale` of empty cells, `face`
            of faces.
        palette: For things to tell apart (after Okabe and Ito), the strongest first.
        sequence: For numbers from low to high: ever lighter or darker, so that they can be told
            apart without hue.
        diverging: For numbers from negative to positive, the middle near the paper.
    """

    name: str
    paper: str
    ink: str
    faint: str
    line: str
    pale: str
    face: str
    palette: tuple[str, ...]
    sequence: tuple[str, ...]
    diverging: tuple[str, ...]

    def category(self, number: int) -> str:
        """Return the colour of a thing to tell apart. After the palette it starts again, paler."""
        lap, at = divmod(number, len(self.palette))
        return between((self.palette[at], self.paper), 1 - 0.6**lap) if lap else self.palette[at]


def _colours(text: str) -> tuple[str, ...]:
    return tuple(f"#{colour}" for colour in text.split())


LIGHT = Theme(
    name="light",
    paper="#ffffff",
    ink="#1c2430",
    faint="#667080",
    line="#8a94a3",
    pale="#eef1f5",
    face="#a9cbe4",
    palette=_colours("0072b2 d55e00 009e73 cc79a7 e69f00 56b4e9 b8a800 6b6b6b"),
    # Viridis, without the end that is near the paper.
    sequence=_colours("a8db34 6ccd5a 35b779 1f9e89 26828e 31688e 3e4989 482878 440154"),
    diverging=_colours("08457e 2a7fbf 8fc1e3 f3f3f1 f6b883 d9660f 8c3200"),
)
DARK = Theme(
    name="dark",
    paper="#13171d",
    ink="#e8ecf2",
    faint="#9aa5b4",
    line="#6d7888",
    pale="#232a34",
    face="#3f7196",
    palette=_colours("56b4e9 f0803c 2fc79b e39bc3 f0b733 8aa8ff f0e442 b3b3b3"),
    sequence=_colours("48408f 3b5f9f 2f86a1 22a884 4ac16d a0da39 fde725"),
    diverging=_colours("9bd0f5 4b9fdb 2a5f8a 2a3039 8a4a1c e07b2e ffc48f"),
)
_THEMES = {theme.name: theme for theme in (LIGHT, DARK)}


def theme_of(name: str | Theme) -> Theme:
    """Return a theme by its name.

    Raises:
        IncidenceError: There is no such theme.
    """
    if isinstance(name, Theme):
        return name
    if name not in _THEMES:
        raise IncidenceError(f"a theme is one of {', '.join(map(repr, _THEMES))}; got {name!r}.")
    return _THEMES[name]


def between(colours: Sequence[str], at: float) -> str:
    """Return the colour at a place, from 0 to 1, of a row of colours.

    Example:
        >>> between(("#000000", "#ffffff"), 0.5)
        '#808080'
    """
    place = min(max(at, 0.0), 1.0) * (len(colours) - 1)
    low = min(bisect_right(range(len(colours)), place) - 1, len(colours) - 2)  # the colour below
    pairs = zip(_rgb(colours[low]), _rgb(colours[low + 1]), strict=True)
    return "#" + "".join(f"{round(a + (b - a) * (place - low)):02x}" for a, b in pairs)


def shaded(colour: str, light: float) -> str:
    """Return a colour in less light (below 1) or more."""
    if light < 1:
        return between((colour, "#000000"), 1 - light)
    return between((colour, "#ffffff"), min(light - 1, 1))


@lru_cache(maxsize=256)
def text_on(colour: str) -> str:
    """Return black or white, whichever is easier to read on a colour."""
    linear = [_linear(part / 255) for part in _rgb(colour)]
    # the luminance of sRGB
    brightness = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "#ffffff" if brightness < 0.18 else "#10151c"  # where both have about the same contrast


def _rgb(colour: str) -> tuple[int, ...]:
    return tuple(int(colour[k : k + 2], 16) for k in (1, 3, 5))


def _linear(part: float) -> float:
    """The light of one part of a colour in sRGB."""
    return part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4


# ---- numbers as colours

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
        is_size: Whether colours show sizes, because an arrow shows the sign.
    """

    theme: Theme
    colours: tuple[str, ...]
    low: float = 0.0
    high: float = 1.0
    classes: tuple[float, ...] = ()
    is_size: bool = False

    def __call__(self, value: float) -> str:
        """Return the colour of a number, and a pale one if it is not finite."""
        if not isfinite(value):
            return self.theme.pale
        if self.classes:
            return self.theme.category(self.classes.index(value))
        value = abs(value) if self.is_size else value
        return between(self.colours, (value - self.low) / ((self.high - self.low) or 1.0))

    def legend(self, title: str, x: float, y: float, height: float) -> list[Mark]:
        """Return what the colours mean, from (x, y) downwards."""
        title = f"size of {title}" if self.is_size else title
        head = label(
            x,
            y + 8,
            title,
            8,
            self.theme.ink,
            "legend",
            is_code=True,
        )
        below = self._keys(x, y + 15) if self.classes else self._bar(x, y + 15, height - 18)
        return [head, *below]

    def _keys(self, x: float, y: float) -> list[Mark]:
        marks: list[Mark] = []
        for number, value in enumerate(self.classes):
            top = y + 13 * number
            marks.append(
                rectangle(
                    x,
                    top,
                    9,
                    9,
                    Style(fill=self(value)),
                    "legend",
                )
            )
            marks.append(
                label(
                    x + 13,
                    top + 7.5,
                    f"{value:g}",
                    8,
                    self.theme.ink,
                    "legend",
                )
            )
        return marks

    def _bar(self, x: float, y: float, height: float) -> list[Mark]:
        step = height / _STEPS
        marks: list[Mark] = []
        for k in range(_STEPS):
            style = Style(fill=between(self.colours, (k + 0.5) / _STEPS))
            top = y + height - step * (k + 1)
            # overlapping: no gaps show
            marks.append(rectangle(x, top, _BAR, step + 0.3, style, "legend"))
        # The outer texts are moved inwards a little.
        for share, shift in ((0.0, 0.0), (0.5, 3.0), (1.0, 7.0)):
            text = f"{self.low + share * (self.high - self.low):.3g}"
            place = x + _BAR + 4, y + height * (1 - share) + shift
            marks.append(label(*place, text, 8, self.theme.ink, "legend"))
        return marks


def scale_of(
    values: Iterable[float], theme: Theme, are_classes: bool = False, are_flows: bool = False
) -> Scale:
    """Return the scale that suits numbers.

    Few classes have a colour each. Flows are shown by size. Other numbers go from the lowest to the
    highest, or are centred at 0 if some are below and some above it.
    """
    finite = sorted({v for v in values if isfinite(v)})
    if are_flows:
        reach = max(map(abs, finite), default=1.0) or 1.0
        return Scale(theme, theme.sequence, 0.0, reach, is_size=True)
    if are_classes and 0 < len(finite) <= _MOST_CATEGORIES:
        return Scale(theme, (), classes=tuple(finite))
    low, high = (finite[0], finite[-1]) if finite else (0.0, 1.0)
    if low < 0 < high:  # 0 must be where the colour turns
        reach = max(-low, high)
        return Scale(theme, theme.diverging, -reach, reach)
    if low == high:  # one number: the middle of the scale
        low = low - 0.5
        high = high + 0.5
    return Scale(theme, theme.sequence, low, high)
