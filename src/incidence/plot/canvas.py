"""A scene as a figure of matplotlib: for PDF and PNG, and for those who want to go on from there."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from incidence.errors import need
from incidence.plot.scene import Circle, Path, Scene, Shape, Text

__all__ = ["to_figure"]

_ALIGNED = {"start": "left", "middle": "center", "end": "right"}
_CIRCLE = 4 / 3 * (2**0.5 - 1)  # how far the handles of a quarter of a circle reach


def to_figure(scene: Scene, background: str | None = None) -> Any:
    """A `matplotlib.figure.Figure` of the size of the scene, with one axis in points."""
    figure = need("matplotlib.figure", "a figure", "plot").Figure(
        figsize=(scene.width / 72, scene.height / 72)
    )
    figure.patch.set_facecolor(background or "none")
    axis = figure.add_axes((0, 0, 1, 1))
    axis.set(xlim=(0, scene.width), ylim=(scene.height, 0))
    axis.set_axis_off()
    runs = groupby(scene.shapes, key=lambda shape: (isinstance(shape, Text), shape.part))
    for number, ((is_text, part), run) in enumerate(runs):
        if is_text:
            for text in run:
                _write(axis, text, number)
        else:
            _draw(axis, list(run), part, number)
    return figure


def _draw(axis: Any, shapes: list[Shape], part: str, number: int) -> None:
    """Shapes that belong together as one collection, in their order."""
    collection = need("matplotlib.collections", "a figure", "plot").PathCollection(
        [_path(shape) for shape in shapes],
        facecolors=[shape.style.fill or "none" for shape in shapes],
        edgecolors=[shape.style.stroke or "none" for shape in shapes],
        linewidths=[shape.style.width if shape.style.stroke else 0.0 for shape in shapes],
        linestyles=[(0, shape.style.dashes) if shape.style.dashes else "solid" for shape in shapes],
        alpha=[shape.style.opacity for shape in shapes],
        joinstyle="round",
        zorder=number,
        label=part,
        gid=part or None,
    )
    axis.add_collection(collection)


def _path(shape: Shape) -> Any:
    path = need("matplotlib.path", "a figure", "plot").Path
    if isinstance(shape, Circle):
        return path(*_circle(path, shape))
    if not isinstance(shape, Path):
        raise TypeError(f"no figure for {type(shape).__name__}")
    codes = [path.MOVETO] + [path.CURVE4 if shape.is_curved else path.LINETO] * (
        len(shape.points) - 1
    )
    if shape.is_closed:
        return path([*shape.points, shape.points[0]], [*codes, path.CLOSEPOLY])
    return path(shape.points, codes)


def _circle(path: Any, circle: Circle) -> tuple[list[tuple[float, float]], list[int]]:
    k = _CIRCLE
    quarters = [
        (1, k),
        (k, 1),
        (0, 1),
        (-k, 1),
        (-1, k),
        (-1, 0),
        (-1, -k),
        (-k, -1),
        (0, -1),
        (k, -1),
        (1, -k),
        (1, 0),
    ]
    points = [
        (circle.x + circle.radius * a, circle.y + circle.radius * b)
        for a, b in [(1, 0), *quarters, (1, 0)]
    ]
    return points, [path.MOVETO, *[path.CURVE4] * 12, path.CLOSEPOLY]


def _write(axis: Any, text: Any, number: int) -> None:
    axis.text(
        text.x,
        text.y,
        text.text,
        fontsize=text.size,
        color=text.style.fill,
        ha=_ALIGNED[text.anchor],
        va="baseline",
        family="DejaVu Sans Mono" if text.is_code else "DejaVu Sans",
        weight="bold" if text.is_bold else "normal",
        zorder=number,
        parse_math=False,  # a name is no formula, whatever dollars are in it
        gid=text.part or None,
    )
