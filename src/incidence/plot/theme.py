"""One look for all pictures: two themes, colours that colour-blind readers can tell apart, and scales of colours. Standard library only."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from incidence.errors import IncidenceError

__all__ = ["DARK", "LIGHT", "Theme", "between", "theme_of"]


@dataclass(frozen=True)
class Theme:
    """The colours of a picture.

    Attributes:
        paper: Behind everything.
        ink: Of texts; `faint` of remarks, `line` of edges and frames, `pale` of cells that say nothing, `face` of faces.
        palette: For things to tell apart (after Okabe and Ito), the strongest first.
        sequence: For numbers from low to high: ever lighter or darker, so that they are told apart without hue.
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
        """The colour of a thing to tell apart; after the palette it begins anew, paler."""
        lap, at = divmod(number, len(self.palette))
        return between((self.palette[at], self.paper), 1 - 0.6**lap) if lap else self.palette[at]


# Viridis, without the end that is near the paper: low numbers are the ones near it.
_ON_WHITE = (
    "#a8db34",
    "#6ccd5a",
    "#35b779",
    "#1f9e89",
    "#26828e",
    "#31688e",
    "#3e4989",
    "#482878",
    "#440154",
)
_ON_BLACK = ("#48408f", "#3b5f9f", "#2f86a1", "#22a884", "#4ac16d", "#a0da39", "#fde725")

LIGHT = Theme(
    name="light",
    paper="#ffffff",
    ink="#1c2430",
    faint="#667080",
    line="#8a94a3",
    pale="#eef1f5",
    face="#a9cbe4",
    palette=(
        "#0072b2",
        "#d55e00",
        "#009e73",
        "#cc79a7",
        "#e69f00",
        "#56b4e9",
        "#b8a800",
        "#6b6b6b",
    ),
    sequence=_ON_WHITE,
    diverging=("#08457e", "#2a7fbf", "#8fc1e3", "#f3f3f1", "#f6b883", "#d9660f", "#8c3200"),
)
DARK = Theme(
    name="dark",
    paper="#13171d",
    ink="#e8ecf2",
    faint="#9aa5b4",
    line="#6d7888",
    pale="#232a34",
    face="#3f7196",
    palette=(
        "#56b4e9",
        "#f0803c",
        "#2fc79b",
        "#e39bc3",
        "#f0b733",
        "#8aa8ff",
        "#f0e442",
        "#b3b3b3",
    ),
    sequence=_ON_BLACK,
    diverging=("#9bd0f5", "#4b9fdb", "#2a5f8a", "#2a3039", "#8a4a1c", "#e07b2e", "#ffc48f"),
)
_THEMES = {theme.name: theme for theme in (LIGHT, DARK)}


def theme_of(name: str | Theme) -> Theme:
    """A theme by its name.

    Raises:
        IncidenceError: There is no such theme.
    """
    if isinstance(name, Theme):
        return name
    if name not in _THEMES:
        raise IncidenceError(f"a theme is one of {', '.join(map(repr, _THEMES))}; got {name!r}.")
    return _THEMES[name]


def between(colours: Sequence[str], at: float) -> str:
    """The colour at a place from 0 to 1 of a row of colours.

    Example:
        >>> between(("#000000", "#ffffff"), 0.5)
        '#808080'
    """
    place = min(max(at, 0.0), 1.0) * (len(colours) - 1)
    low = min(bisect_right(range(len(colours)), place) - 1, len(colours) - 2)
    one, other = (tuple(int(colours[k][c : c + 2], 16) for c in (1, 3, 5)) for k in (low, low + 1))
    mixed = (round(a + (b - a) * (place - low)) for a, b in zip(one, other, strict=True))
    return "#" + "".join(f"{c:02x}" for c in mixed)
