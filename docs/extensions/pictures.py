"""Put SVG pictures into the page, so that shapes have tooltips and colours follow the theme."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from pathlib import Path

from docutils import nodes
from markupsafe import escape
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

from incidence.plot.theme import DARK, LIGHT, Theme, between

__all__ = ["dark_colours", "inlined", "setup", "style_sheet"]

_COLOUR = re.compile(r'"#([0-9a-f]{6})"')
_STEPS = 256  # places on a scale of colours
_NEAR = 2  # of 255: colours between two places
# colours that no theme has; a picture with more is shaded, and keeps its colours but those of paper
# and ink
_FEW = 2


@lru_cache
def dark_colours() -> dict[str, str]:
    """Return the colours of the dark theme by those of the light one, without `#`. Colours between
    those of a scale are included.
    """
    places = [k / _STEPS for k in range(_STEPS + 1)]
    scales = [(LIGHT.sequence, DARK.sequence), (LIGHT.diverging, DARK.diverging)]
    found = {between(one, at): between(other, at) for one, other in scales for at in places}
    found |= dict(
        zip(
            [*_plain(LIGHT), LIGHT.face, *LIGHT.palette],
            [*_plain(DARK), DARK.face, *DARK.palette],
            strict=True,
        )
    )
    return {one[1:]: other[1:] for one, other in found.items()}


def _plain(theme: Theme) -> list[str]:
    return [theme.paper, theme.ink, theme.faint, theme.line, theme.pale]


def style_sheet() -> str:
    """Return the colours of the dark theme as CSS, for readers or systems that chose it."""
    colours = "".join(f"--c{one}:#{other};" for one, other in dark_colours().items())
    chosen, by_system = 'body[data-theme="dark"]', 'body:not([data-theme="light"])'
    return (
        f"{chosen} .picture{{{colours}}}\n@media (prefers-color-scheme: dark){{{by_system}"
        f" .picture{{{colours}}}}}\n"
    )


@cache
def _known(colour: str) -> str | None:
    """Return the colour of the light theme that equals a colour, or nearly so."""
    apart = min((_apart(colour, other), other) for other in dark_colours())
    return apart[1] if apart[0] <= _NEAR else None


def _apart(one: str, other: str) -> int:
    return max(abs(a - b) for a, b in zip(bytes.fromhex(one), bytes.fromhex(other), strict=True))


def inlined(svg: str, words: str) -> str:
    """Return an SVG file as part of a page, with `words` for those who cannot see it."""
    svg = svg[svg.index("<svg") :]
    colours = set(_COLOUR.findall(svg))
    is_shaded = sum(_known(colour) is None for colour in colours) > _FEW
    known = (
        {colour: colour for colour in (c[1:] for c in _plain(LIGHT))}
        if is_shaded
        else {c: _known(c) for c in colours}
    )
    svg = _COLOUR.sub(
        lambda found: (
            f'"var(--c{known[found[1]]},#{found[1]})"' if known.get(found[1]) else found[0]
        ),
        svg,
    )
    head, rest = svg.split(">", 1)
    kind = (
        "picture" if LIGHT.paper[1:] in colours or DARK.paper[1:] in colours else "picture on-white"
    )
    head = re.sub(r' (role|aria-label)="[^"]*"', "", head)
    return (
        f'<div class="{kind}">{head} role="img" aria-label="{escape(words)}"'
        f' style="max-width:{_width(head):.0f}pt">{rest}</div>'
    )


def _width(head: str) -> float:
    """Return the width of a picture in points: its own, or that of its box in pixels."""
    told = re.search(r'\bwidth="([\d.]+)pt"', head)
    box = re.search(r'viewBox="[\d.-]+ [\d.-]+ ([\d.]+)', head)
    return float(told[1]) if told else 0.75 * float(box[1]) if box else 400.0


class PicturesInline(SphinxPostTransform):
    """Replace images that the library drew."""

    default_priority = 300
    formats = ("html",)

    def run(self, **_: object) -> None:
        """Replace them in place."""
        for image in list(self.document.findall(nodes.image)):
            path = Path(self.env.srcdir) / image["uri"]
            if path.suffix == ".svg" and path.is_file():
                html = inlined(path.read_text(encoding="utf-8"), image.get("alt", ""))
                image.replace_self(nodes.raw("", html, format="html"))


def _write_style(app: Sphinx, error: Exception | None) -> None:
    if error is None and app.builder.format == "html":
        (Path(app.outdir) / "_static" / "pictures.css").write_text(style_sheet(), encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the transform and the style sheet."""
    app.add_post_transform(PicturesInline)
    app.add_css_file("pictures.css")
    app.connect("build-finished", _write_style)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
