"""`Picture`: what the functions of this package return; shows itself in notebooks and writes
files.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from incidence.errors import IncidenceError, need
from incidence.files import whole_file
from incidence.plot.scene import Circle, Mark, Scene, Text, label, text_width, to_svg
from incidence.plot.scene import Path as Line
from incidence.plot.theme import Theme

__all__ = ["FORMATS", "Picture", "assert_at_least_one", "assert_format", "grid"]

FORMATS = ("svg", "pdf", "png")

_ALIGNED = {"start": "left", "middle": "center", "end": "right"}
_HANDLE = 4 / 3 * (2**0.5 - 1)  # how far the handles of a quarter of a circle reach


@dataclass(frozen=True)
class Picture:
    """A drawing: shows itself in a notebook, `save` writes it, `figure` hands it to matplotlib.

    SVG needs no other library; matplotlib draws PDF and PNG.

    Attributes:
        scene: The marks that are drawn.
        theme: The colours they were drawn with.
        title: What it shows.

    Example:
        >>> import incidence as inc
        >>> picture = inc.plot.structure(inc.geometry.named("Petersen graph"))
        >>> picture.svg()[:4], len(picture.scene.of("node"))
        ('<svg', 10)
    """

    scene: Scene
    theme: Theme
    title: str = ""

    def __repr__(self) -> str:
        """Return a line with what it shows and its size, however many marks there are."""
        title = f"{' '.join(self.title.split())!r}, " if self.title else ""
        return f"Picture({title}{self.scene.width:.0f} x {self.scene.height:.0f} points)"

    def svg(self, transparent: bool = False) -> str:
        """Return the picture as the text of an SVG file."""
        return to_svg(self.scene, self._paper(transparent), self.title)

    def figure(self, transparent: bool = False) -> Any:
        """Return the picture as a figure of matplotlib."""
        return _figure(self.scene, self._paper(transparent))

    def _paper(self, transparent: bool) -> str | None:
        return None if transparent else self.theme.paper

    def save(self, path: str | os.PathLike[str], transparent: bool = False, dpi: int = 200) -> Path:
        """Write the picture in the format of the suffix, completely or not at all.

        Args:
            path: Ends with .svg, .pdf or .png.
            transparent: Whether the paper is left out.
            dpi: Dots per inch of a PNG.

        Raises:
            IncidenceError: The suffix is none of these, or the folder does not exist.
        """
        target = Path(path)
        suffix = assert_format(target, "Give it one of these endings.")
        with whole_file(target) as file:
            self.savefig(file, format=suffix, dpi=dpi, transparent=transparent)
        return target

    def savefig(
        self, file: Any, format: str = "svg", dpi: int = 200, transparent: bool = False, **_: Any
    ) -> None:
        """Write the picture to an open binary file, as a figure of matplotlib does."""
        if format == "svg":
            file.write(self.svg(transparent).encode())
            return
        # The same picture is the same file, whenever it is written.
        undated = {"CreationDate": None} if format == "pdf" else {}
        figure = self.figure(transparent)
        # TrueType: journals refuse Type 3
        with need("matplotlib", "a figure", "plot").rc_context({"pdf.fonttype": 42}):
            figure.savefig(
                file, format=format, dpi=dpi, facecolor=figure.get_facecolor(), metadata=undated
            )

    def _repr_svg_(self) -> str:
        return self.svg()


def grid(
    pictures: Sequence[Picture], titles: Sequence[str] = (), columns: int = 3, gap: float = 18.0
) -> Picture:
    """Put pictures side by side, in rows, as one picture.

    Args:
        pictures: At least one.
        titles: What stands above each; none, or one for each.
        columns: Pictures in a row.
        gap: Points between them.

    Raises:
        IncidenceError: There is no picture, or not a title for each.

    Example:
        >>> import incidence as inc
        >>> both = grid([inc.plot.orbits("i j"), inc.plot.orbits("{i j}")], ["one", "other"])
        >>> len(both.scene.of("orbit")), [mark.text for mark in both.scene.of("panel")]
        (3, ['one', 'other'])
    """
    if not pictures or (titles and len(titles) != len(pictures)):
        raise IncidenceError(
            f"a grid has at least one picture, and a title for each or none; got {len(pictures)}"
            f" and {len(titles)} titles."
        )
    theme = pictures[0].theme
    marks = list[Mark]()
    y = 0.0
    above = 14 if titles else 0
    texts = titles or [""] * len(pictures)
    panels = list(zip(pictures, texts, strict=True))
    for start in range(0, len(panels), columns):
        row = panels[start : start + columns]
        x = 0.0
        for picture, text in row:
            if titles:
                marks.append(
                    label(
                        x + 6,
                        y + 10,
                        text,
                        10,
                        theme.ink,
                        "panel",
                        is_bold=True,
                    )
                )
            marks += [mark.moved(x, y + above) for mark in picture.scene.shapes]
            x += max(picture.scene.width, text_width(text, 11)) + gap
        y += max(picture.scene.height for picture, _ in row) + gap + above
    title = "; ".join(titles) or "; ".join(picture.title for picture in pictures)
    return Picture(Scene.around(marks, 6), theme, title)


def assert_format(path: Path, advice: str) -> str:
    """Check that a suffix is one of `FORMATS`, and return it.

    Raises:
        IncidenceError: It is none of them.
    """
    suffix = path.suffix[1:].lower()
    if suffix not in FORMATS:
        raise IncidenceError(f"a picture is a file .svg, .pdf or .png; got {path.name!r}. {advice}")
    return suffix


def assert_at_least_one(**counts: int) -> None:
    """Check options that are numbers of things.

    Raises:
        IncidenceError: One of them is no number from 1 on.
    """
    for name, count in counts.items():
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise IncidenceError(f"`{name}` is a number from 1 on; got {count!r}.")


# ---- with matplotlib


def _figure(scene: Scene, background: str | None) -> Any:
    """A `matplotlib.figure.Figure` of the size of the scene, with one axis in points."""
    figure = need("matplotlib.figure", "a figure", "plot").Figure(
        figsize=(scene.width / 72, scene.height / 72)
    )
    figure.patch.set_facecolor(background or "none")
    axis = figure.add_axes((0, 0, 1, 1))
    axis.set(xlim=(0, scene.width), ylim=(scene.height, 0))
    axis.set_axis_off()
    runs = groupby(scene.shapes, key=lambda mark: (isinstance(mark, Text), mark.part))
    for number, ((is_text, part), run) in enumerate(runs):
        if is_text:
            for text in run:
                _write(axis, text, number)
        else:
            _draw(axis, list(run), part, number)
    return figure


def _draw(axis: Any, marks: list[Mark], part: str, number: int) -> None:
    """Marks that belong together as one collection, in their order."""
    styles = [mark.style for mark in marks]
    collection = need("matplotlib.collections", "a figure", "plot").PathCollection(
        [_path(mark) for mark in marks],
        facecolors=[style.fill or "none" for style in styles],
        edgecolors=[style.stroke or "none" for style in styles],
        linewidths=[style.width if style.stroke else 0.0 for style in styles],
        linestyles=[(0, style.dashes) if style.dashes else "solid" for style in styles],
        alpha=[style.opacity for style in styles],
        joinstyle="round",
        zorder=number,
        label=part,
        gid=part or None,
    )
    axis.add_collection(collection)


def _path(mark: Mark) -> Any:
    path = need("matplotlib.path", "a figure", "plot").Path
    if isinstance(mark, Circle):
        return path(*_circle(path, mark))
    if not isinstance(mark, Line):
        raise TypeError(f"no figure for {type(mark).__name__}")
    step = path.CURVE4 if mark.is_curved else path.LINETO
    codes = [path.MOVETO] + [step] * (len(mark.points) - 1)
    if mark.is_closed:
        return path([*mark.points, mark.points[0]], [*codes, path.CLOSEPOLY])
    return path(mark.points, codes)


def _circle(path: Any, circle: Circle) -> tuple[list[tuple[float, float]], list[int]]:
    """Four cubic quarters, and where they close."""
    k = _HANDLE
    corners = [(1, 0), (0, 1), (-1, 0), (0, -1)]
    unit: list[tuple[float, float]] = [(1, 0)]
    for (a, b), (c, d) in zip(corners, [*corners[1:], corners[0]], strict=True):
        unit += [(a + k * c, b + k * d), (c + k * a, d + k * b), (c, d)]
    points = [
        (circle.x + circle.radius * a, circle.y + circle.radius * b) for a, b in [*unit, (1, 0)]
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
