"""Plots for a terminal: Braille letters, each with two by four dots."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

__all__ = ["plain", "scatter"]

# The bit of the Braille block for a dot, by its column and its row from above.
_BITS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))

_PLAIN = {
    **{0x2800 + bits: "*" for bits in range(1, 256)},
    ord("┤"): "|",
    ord("└"): "+",
    ord("─"): "-",
    ord("█"): "#",
}


def plain(text: str) -> str:
    """Return a plot for a terminal that has nothing but ASCII: a star for each letter with dots.

    Example:
        >>> print(plain(scatter([0, 1, 2], [0, 1, 2], width=4, height=2)))
          2 |  **
          0 |**
            +----
            0   2
    """
    return text.translate(_PLAIN)


def scatter(
    xs: Sequence[float],
    ys: Sequence[float],
    width: int = 48,
    height: int = 14,
    x_name: str = "",
    y_name: str = "",
) -> str:
    """Return points on a square of one scale, with the diagonal on which both are equal.

    The text is empty if there is no point with finite numbers.

    Example:
        >>> print(scatter([0, 1, 2], [0, 1, 2], width=4, height=2))
          2 ┤  ⡠⠊
          0 ┤⡠⠊
            └────
            0   2
    """
    points = [(x, y) for x, y in zip(xs, ys, strict=True) if isfinite(x) and isfinite(y)]
    if not points:
        return ""
    low = min(map(min, points))
    high = max(map(max, points))
    span = (high - low) or 1.0
    columns = 2 * width - 1
    rows = 4 * height - 1
    cells = [[0] * width for _ in range(height)]

    def dot(x: float, y: float) -> None:
        column = round((x - low) / span * columns)
        row = rows - round((y - low) / span * rows)  # from above
        cells[row // 4][column // 2] |= _BITS[column % 2][row % 4]  # a letter has 2 x 4 dots

    for k in range(columns + 1):
        if not k % 6 or columns < 12:  # a dotted diagonal, so that points on it are seen
            dot(low + span * k / columns, low + span * k / columns)
    for x, y in points:
        dot(x, y)
    return _framed(cells, low, high, x_name, y_name)


def _framed(cells: list[list[int]], low: float, high: float, x_name: str, y_name: str) -> str:
    first = f"{low:.3g}"
    last = f"{high:.3g}"
    labels = [last, *[""] * (len(cells) - 2), first][: len(cells)]  # the top line first
    margin = max(map(len, labels)) + 2
    width = len(cells[0])
    indent = " " * margin
    lines = [f"{indent}  {y_name}"] if y_name else []
    for label, row in zip(labels, cells, strict=True):
        dots = "".join(chr(0x2800 + bits) if bits else " " for bits in row)
        lines.append(f"{label:>{margin}} ┤{dots.rstrip()}")
    room = max(width - len(first) - len(last) + 1, 0)
    lines.append(f"{indent} └{'─' * width}")
    lines.append(f"{indent} {first}{x_name:^{room}}{last}")
    return "\n".join(lines)
