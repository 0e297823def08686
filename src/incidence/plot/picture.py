"""`Picture`: what the functions of this package return; shows itself in notebooks and writes files."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from incidence.errors import IncidenceError, need
from incidence.files import whole_file
from incidence.plot.canvas import to_figure
from incidence.plot.scene import Scene
from incidence.plot.svg import to_svg
from incidence.plot.theme import Theme

__all__ = ["FORMATS", "Picture"]

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
            raise IncidenceError(f"a picture is a file .svg, .pdf or .png; got {target.name!r}. Give it one of these endings.")
        with whole_file(target) as file:
            self.savefig(file, format=target.suffix[1:].lower(), dpi=dpi, transparent=transparent)
        return target

    def savefig(self, file: Any, format: str = "svg", dpi: int = 200, transparent: bool = False, **_: Any) -> None:
        """Writes the picture to an open binary file, as a figure of matplotlib does."""
        if format == "svg":
            file.write(self.svg(transparent).encode())
            return
        undated = {"CreationDate": None} if format == "pdf" else {}
        figure = self.figure(transparent)
        with need("matplotlib", "a figure", "plot").rc_context({"pdf.fonttype": 42}):
            figure.savefig(file, format=format, dpi=dpi, facecolor=figure.get_facecolor(), metadata=undated)

    def _repr_svg_(self) -> str:
        return self.svg()
