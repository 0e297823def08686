"""`Picture`: what the functions of this package return; shows itself in notebooks and writes files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from incidence.errors import IncidenceError, need
from incidence.files import whole_file
from incidence.plot.canvas import to_figure
from incidence.plot.scene import Scene, Shape, Style, Text, text_width
from incidence.plot.svg import to_svg
from incidence.plot.theme import Theme

__all__ = ["FORMATS", "Picture", "grid"]

FORMATS = ("svg", "pdf", "png")


@dataclass(frozen=True)
class Picture:
    """A drawing: shows itself in a notebook, `save` writes it, `figure` hands it to matplotlib.

    SVG needs no other library; PDF and PNG are drawn by matplotlib.

    Attributes:
        scene: The shapes that are drawn.
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

    def svg(self, transparent: bool = False) -> str:
        """The picture as the text of an SVG file."""
        return to_svg(self.scene, None if transparent else self.theme.paper, self.title)

    def figure(self, transparent: bool = False) -> Any:
        """The picture as a figure of matplotlib."""
        return to_figure(self.scene, None if transparent else self.theme.paper)

    def save(self, path: str | os.PathLike[str], transparent: bool = False, dpi: int = 200) -> Path:
        """Writes the picture in the format that the suffix says, at once or not at all.

        Args:
            path: Ends with .svg, .pdf or .png.
            transparent: Leaves the paper out.
            dpi: Dots per inch of a PNG.

        Raises:
            IncidenceError: The suffix is none of these, or the folder does not exist.
        """
        target = Path(path)
        if target.suffix[1:].lower() not in FORMATS:
            raise IncidenceError(
                f"a picture is a file .svg, .pdf or .png; got {target.name!r}. Give it one of these endings."
            )
        with whole_file(target) as file:
            self.savefig(file, format=target.suffix[1:].lower(), dpi=dpi, transparent=transparent)
        return target

    def savefig(
        self, file: Any, format: str = "svg", dpi: int = 200, transparent: bool = False, **_: Any
    ) -> None:
        """Writes the picture to an open binary file, as a figure of matplotlib does."""
        if format == "svg":
            file.write(self.svg(transparent).encode())
            return
        undated = {"CreationDate": None} if format == "pdf" else {}
        figure = self.figure(transparent)
        with need("matplotlib", "a figure", "plot").rc_context({"pdf.fonttype": 42}):
            figure.savefig(
                file, format=format, dpi=dpi, facecolor=figure.get_facecolor(), metadata=undated
            )

    def _repr_svg_(self) -> str:
        return self.svg()


def grid(
    pictures: Sequence[Picture], titles: Sequence[str] = (), columns: int = 3, gap: float = 18.0
) -> Picture:
    """Pictures side by side, in rows, as one; each with a title above it, if there are titles.

    Raises:
        IncidenceError: There is no picture, or not a title for each.

    Example:
        >>> import incidence as inc
        >>> both = grid([inc.plot.orbits("i j"), inc.plot.orbits("{i j}")], ["ordered", "unordered"])
        >>> len(both.scene.of("orbit")), [shape.text for shape in both.scene.of("panel")]
        (3, ['ordered', 'unordered'])
    """
    if not pictures or (titles and len(titles) != len(pictures)):
        raise IncidenceError(
            f"a grid has at least one picture, and a title for each or none; got {len(pictures)} and {len(titles)} titles."
        )
    theme, shapes, y = pictures[0].theme, list[Shape](), 0.0
    for start in range(0, len(pictures), columns):
        row, x = pictures[start : start + columns], 0.0
        for k, picture in enumerate(row, start):
            if titles:
                shapes.append(
                    Text(
                        x + 6,
                        y + 10,
                        titles[k],
                        10,
                        is_bold=True,
                        style=Style(fill=theme.ink),
                        part="panel",
                    )
                )
            shapes += [shape.moved(x, y + (14 if titles else 0)) for shape in picture.scene.shapes]
            x += max(picture.scene.width, text_width(titles[k], 11) if titles else 0.0) + gap
        y += max(picture.scene.height for picture in row) + gap + (14 if titles else 0)
    return Picture(
        Scene.around(shapes, 6),
        theme,
        "; ".join(titles) or "; ".join(picture.title for picture in pictures),
    )
