"""A scene as SVG: text stays text, numbers have as many digits as one can see. Standard library only."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from incidence.plot.scene import Circle, Path, Scene, Shape, Style, Text

__all__ = ["to_svg"]

_MOST_HINTS = 500
_SANS = "DejaVu Sans, Verdana, sans-serif"
_CODE = "DejaVu Sans Mono, Menlo, Consolas, monospace"


def to_svg(scene: Scene, background: str | None = None, title: str = "") -> str:
    """The scene as a file of its own.

    Args:
        scene: The scene.
        background: The colour of the paper; None for none.
        title: What it shows, for those who cannot see it.
    """
    size = f"{_number(scene.width)} {_number(scene.height)}"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" width="{_number(scene.width)}pt" height="{_number(scene.height)}pt"'
    paper = f'<rect width="100%" height="100%" fill="{background}"/>' if background else ""
    named = f"<title>{escape(title)}</title>" if title else ""
    return (
        f'{head} role="img" font-family="{_SANS}">{named}{paper}{"".join(_groups(scene))}</svg>\n'
    )


def _groups(scene: Scene) -> Iterator[str]:
    """The shapes, with those of equal style next to each other in one group; without hints where nobody could point at one of them."""
    style: Style | None = None
    has_hints = len(scene.shapes) <= _MOST_HINTS
    for shape in scene.shapes:
        if shape.style != style:
            yield "</g>" * (style is not None) + f"<g{_style(shape.style)}>"
            style = shape.style
        yield _element(shape, shape.hint if has_hints else "")
    yield "</g>" * (style is not None)


def _element(shape: Shape, told: str) -> str:
    hint = f"><title>{escape(told)}</title></" if told else ""
    if isinstance(shape, Circle):
        body, name = (
            f'<circle cx="{_number(shape.x)}" cy="{_number(shape.y)}" r="{_number(shape.radius)}"',
            "circle",
        )
    elif isinstance(shape, Path):
        body, name = f'<path d="{_outline(shape)}"', "path"
    elif isinstance(shape, Text):
        return _text(shape)
    else:
        raise TypeError(f"no SVG for {type(shape).__name__}")
    return f"{body}{hint}{name}>" if hint else f"{body}/>"


def _outline(path: Path) -> str:
    places = [f"{_number(x)} {_number(y)}" for x, y in path.points]
    return (
        f"M{places[0]}{'C' if path.is_curved else 'L'}{' '.join(places[1:])}{'Z' * path.is_closed}"
    )


def _text(text: Text) -> str:
    font = f' font-family="{_CODE}"' * text.is_code + ' font-weight="bold"' * text.is_bold
    anchor = f' text-anchor="{text.anchor}"' if text.anchor != "start" else ""
    place = f'x="{_number(text.x)}" y="{_number(text.y)}" font-size="{_number(text.size)}"'
    return f'<text {place}{anchor}{font} xml:space="preserve">{escape(text.text)}</text>'


def _style(style: Style) -> str:
    fill = f' fill="{style.fill or "none"}"'
    stroke = (
        f' stroke="{style.stroke}" stroke-width="{_number(style.width)}" stroke-linejoin="round"'
        if style.stroke
        else ""
    )
    dashes = f' stroke-dasharray="{" ".join(map(_number, style.dashes))}"' if style.dashes else ""
    return (
        fill
        + stroke
        + dashes
        + (f' opacity="{_number(style.opacity)}"' if style.opacity < 1 else "")
    )


def _number(value: float) -> str:
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text
