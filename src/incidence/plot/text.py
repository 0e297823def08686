"""Plots for a terminal: dots of Braille letters, two by four in each."""

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
    """A plot for a terminal that knows nothing but ASCII: a star for each letter with dots.

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
    """Points on a square of one scale, with the diagonal on which both are equal; nothing if there is no point with finite numbers.

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
    low, high = min(map(min, points)), max(map(max, points))
    span = (high - low) or 1.0
    columns, rows = 2 * width - 1, 4 * height - 1
    cells = [[0] * width for _ in range(height)]

    def dot(x: float, y: float) -> None:
        column, row = round((x - low) / span * columns), rows - round((y - low) / span * rows)
        cells[row // 4][column // 2] |= _BITS[column % 2][row % 4]

    for k in range(columns + 1):
        if not k % 6 or columns < 12:
            dot(low + span * k / columns, low + span * k / columns)
    for x, y in points:
        dot(x, y)
    return _framed(cells, low, high, x_name, y_name)


def _framed(cells: list[list[int]], low: float, high: float, x_name: str, y_name: str) -> str:
    labels = [f"{high:.3g}", *[""] * (len(cells) - 2), f"{low:.3g}"][: len(cells)]
    margin = max(map(len, labels)) + 2
    width = len(cells[0])
    lines = [f"{'':{margin}}  {y_name}"] if y_name else []
    for label, row in zip(labels, cells, strict=True):
        lines.append(
            f"{label:>{margin}} ┤"
            + "".join(chr(0x2800 + bits) if bits else " " for bits in row).rstrip()
        )
    lines.append(f"{'':{margin}} └" + "─" * width)
    ends = f"{low:.3g}", f"{high:.3g}"
    lines.append(
        f"{'':{margin}} {ends[0]}{x_name:^{max(width - len(ends[0]) - len(ends[1]) + 1, 0)}}{ends[1]}"
    )
    return "\n".join(lines)
