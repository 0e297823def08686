"""SVG pictures become part of the page: their shapes say what they are when one points at them, and their colours follow the theme."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

from docutils import nodes
from markupsafe import escape
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

from incidence.plot.theme import DARK, LIGHT, Theme, between

__all__ = ["dark_colours", "inlined", "setup", "style_sheet"]

_COLOUR = re.compile(r'"#([0-9a-f]{6})"')


def _colours(theme: Theme) -> list[str]:
    plain = [theme.paper, theme.ink, theme.faint, theme.line, theme.pale, theme.face]
    return [*plain, *theme.palette]


_STEPS = 256  # places on a scale of colours


@lru_cache
def dark_colours() -> dict[str, str]:
    """From the colours of the light theme to those of the dark one, without `#`; those between the colours of a scale, too."""
    places = [k / _STEPS for k in range(_STEPS + 1)]
    scales = [(LIGHT.sequence, DARK.sequence), (LIGHT.diverging, DARK.diverging)]
    found = {between(one, at): between(other, at) for one, other in scales for at in places}
    found |= dict(zip(_colours(LIGHT), _colours(DARK), strict=True))
    return {one[1:]: other[1:] for one, other in found.items()}


def style_sheet() -> str:
    """The colours of the dark theme as CSS: for readers who chose it, and for those whose system did."""
    colours = "".join(f"--c{one}:#{other};" for one, other in dark_colours().items())
    chosen, by_system = 'body[data-theme="dark"]', 'body:not([data-theme="light"])'
    return f"{chosen} .picture{{{colours}}}\n@media (prefers-color-scheme: dark){{{by_system} .picture{{{colours}}}}}\n"


def inlined(svg: str, words: str) -> str:
    """The text of an SVG file as part of a page, with `words` for those who cannot see it."""
    known = dark_colours()
    svg = svg[svg.index("<svg") :]
    svg = _COLOUR.sub(lambda found: f'"var(--c{found[1]},#{found[1]})"' if found[1] in known else found[0], svg)
    head, rest = svg.split(">", 1)
    head = re.sub(r' (role|aria-label)="[^"]*"', "", head)
    width = re.search(r'\bwidth="([\d.]+)', head)
    style = f' style="max-width:{float(width[1]) if width else 0:.0f}pt"'
    return f'<div class="picture">{head} role="img" aria-label="{escape(words)}"{style}>{rest}</div>'


class PicturesInline(SphinxPostTransform):
    """Takes the place of images that the library drew."""

    default_priority = 300
    formats = ("html",)

    def run(self, **_: object) -> None:
        """Replaces them in place."""
        for image in list(self.document.findall(nodes.image)):
            path = Path(self.env.srcdir) / image["uri"]
            if path.suffix == ".svg" and path.is_file():
                html = inlined(path.read_text(encoding="utf-8"), image.get("alt", ""))
                image.replace_self(nodes.raw("", html, format="html"))


def _write_style(app: Sphinx, error: Exception | None) -> None:
    if error is None and app.builder.format == "html":
        (Path(app.outdir) / "_static" / "pictures.css").write_text(style_sheet(), encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers the transform and the style sheet."""
    app.add_post_transform(PicturesInline)
    app.add_css_file("pictures.css")
    app.connect("build-finished", _write_style)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
