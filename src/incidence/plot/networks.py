"""`plot.network`: a network as tensors in boxes and the maps between them; the boxes serve pictures
of plans and posets as well.

Standard library only: whatever has the methods of a module will do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

from incidence.algebra.layers import Layer, NetworkExplanation, is_layer, is_module
from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.plot.picture import Picture
from incidence.plot.scene import Mark, Point, Scene, Style, label, line, rectangle, text_width
from incidence.plot.theme import Theme, theme_of

__all__ = ["Box", "boxed", "network"]

_TEXT, _SMALL = 8.0, 6.5  # sizes of the texts in boxes
_GAP, _HEIGHT = 16.0, 24.0  # between boxes; of a box
_STEP = 74.0  # from tensors to tensors
_WIDEST = 6  # layers of a block that may repeat


@dataclass(frozen=True)
class Box:
    """A box with a line of text, and perhaps a fainter one below.

    Attributes:
        x, y: Its middle.
        width, height: Its size.
    """

    x: float
    y: float
    width: float
    height: float

    @property
    def top(self) -> Point:
        """The middle of its upper side."""
        return self.x, self.y - self.height / 2

    @property
    def bottom(self) -> Point:
        """The middle of its lower side."""
        return self.x, self.y + self.height / 2

    @property
    def left(self) -> Point:
        """The middle of its left side."""
        return self.x - self.width / 2, self.y

    @property
    def right(self) -> Point:
        """The middle of its right side."""
        return self.x + self.width / 2, self.y


def boxed(
    box: Box, text: str, below: str, colour: str, part: str, theme: Theme, entry: int | None = None
) -> list[Mark]:
    """Draw a box with its texts."""
    style = Style(fill=theme.pale, stroke=colour, width=1.1)
    corner = box.left[0], box.top[1]
    marks: list[Mark] = [
        rectangle(
            *corner,
            box.width,
            box.height,
            style,
            part,
            entry=entry,
            hint=text,
        )
    ]
    y = box.y - 1.2 if below else box.y + 2.8
    marks.append(
        label(
            box.x,
            y,
            text,
            _TEXT,
            theme.ink,
            f"{part} text",
            "middle",
            is_code=True,
        )
    )
    if below:
        marks.append(
            label(
                box.x,
                box.y + 8.2,
                below,
                _SMALL,
                theme.faint,
                f"{part} below",
                "middle",
            )
        )
    return marks


def _row_of_boxes(texts: Sequence[tuple[str, str]], y: float) -> list[Box]:
    """Boxes side by side that hold texts, about x = 0."""
    # A box holds its text as wide as the font may be: SVG cannot ask how wide it is.
    widths = [
        max(text_width(text, _TEXT, is_code=True), text_width(below, _SMALL)) + 12
        for text, below in texts
    ]
    x = -(sum(widths) + _GAP * (len(widths) - 1)) / 2  # the row is centred
    boxes = []
    for width in widths:
        boxes.append(Box(x + width / 2, y, width, _HEIGHT))
        x += width + _GAP
    return boxes


def network(what: Any, *, theme: str | Theme = "light") -> Picture:
    """Draw a layer or a network: rows of tensors with their channels, and between them maps with
    the number of operations of each pair.

    Layers that repeat are drawn once, with how often; what a residual block adds is a curve beside
    it.

    Args:
        what: A layer, or any module of torch with layers in it.
        theme: `light` or `dark`.

    Raises:
        IncidenceError: It has no equivariant layer.

    Example:
        >>> import incidence as inc
        >>> net = inc.models.make("graph", {"i": 5, "{i j}": 2}, at="i", depth=2)
        >>> scene = network(net).scene
        >>> len(scene.of("tensor")), [mark.text for mark in scene.of("times")]
        (7, ['2 times'])
    """
    look = theme_of(theme)
    if not is_module(what):
        raise IncidenceError(
            "plot.network draws a layer or a network, a module of torch; got"
            f" {type(what).__name__}."
        )
    listed = NetworkExplanation(what)
    layers = [Layer(what)] if is_layer(what) else list(listed.layers)
    if not layers:
        raise IncidenceError(
            f"{type(what).__name__} has no equivariant layer to draw, such as nn.Linear."
        )
    marks = _drawn(what, layers, listed._rest(), look)
    return Picture(Scene.around(marks, 12), look, type(what).__name__)


def _drawn(module: Any, layers: Sequence[Layer], others: str, theme: Theme) -> Iterator[Mark]:
    y, before = 0.0, None
    for layer, times in _runs(layers):
        inputs = _labels(layer.map.inputs, _channels(layer, "in_channels"))
        # A product stands beside a layer, and has the same inputs.
        # The outputs above are drawn already, and are the inputs of this layer.
        follows = before == inputs and is_layer(layer.module)
        if before is not None and not follows:
            y += _STEP * 0.75
        above = _row_of_boxes(inputs, y)
        if not follows:
            yield from _row(above, inputs, theme)
        outputs = _labels(layer.map.outputs, _channels(layer, "out_channels"))
        below = _row_of_boxes(outputs, y + _STEP)
        # Lines first: the paper behind a number then covers the lines of others.
        yield from sorted(_lines(layer, above, below, theme), key=lambda mark: mark.part != "map")
        yield from _row(below, outputs, theme)
        right = max(box.right[0] for box in (*above, *below))
        if is_layer(layer.module) and _is_residual(module, layer.name):
            yield from _residual(right, y, theme)
            right += 24
        yield from _beside(layer, times, right + 14, y + _STEP / 2, theme)
        y = y + _STEP
        before = outputs if is_layer(layer.module) else []
    for k, text in enumerate(wrap(others, 70)):
        yield label(
            0,
            y + 34 + 10 * k,
            text,
            7.5,
            theme.faint,
            "besides",
            "middle",
        )


def _runs(layers: Sequence[Layer]) -> Iterator[tuple[Layer, str]]:
    """The layers, those of repeated blocks once; with the first of them how often the block is
    there.
    """
    keys = [_likeness(layer) for layer in layers]
    k = 0
    while k < len(keys):
        width, times = 1, 1
        for wider in range(1, _WIDEST + 1):
            count = _num_times(keys, k, wider)
            # The repetition that covers most layers: a block of three layers, and not one layer of
            # it.
            if count > 1 and (times == 1 or wider * count > width * times):
                width, times = wider, count
        more = f", with the next {width - 1}" if width > 1 else ""
        for at in range(width):
            is_first = times > 1 and not at
            yield layers[k + at], f"{times} times{more}" if is_first else ""
        k += width * times


def _num_times(keys: Sequence[Any], start: int, width: int) -> int:
    """How often the next few layers repeat themselves, themselves included."""
    block = keys[start : start + width]
    times = 1
    stop = start + width
    while len(block) == width and keys[stop : stop + width] == block:
        times = times + 1
        stop = stop + width
    return times


def _likeness(layer: Layer) -> tuple[Any, ...]:
    channels = [_channels(layer, side) for side in ("in_channels", "out_channels")]
    return layer.kind, layer.map, *channels, layer.num_parameters


def _channels(layer: Layer, side: str) -> tuple[int, ...]:
    """The channels of every tensor of a side; none if the module does not have them."""
    patterns = layer.map.inputs if side == "in_channels" else layer.map.outputs
    given = getattr(layer.module, side, ())
    if isinstance(given, Mapping):
        given = given.values()
    channels = (given,) * len(patterns) if isinstance(given, int) else tuple(given)
    # a module of the user may mean something else
    return channels if len(channels) == len(patterns) else ()


def _labels(patterns: Sequence[Pattern], channels: Sequence[int]) -> list[tuple[str, str]]:
    texts = list(map(_channels_text, channels)) or [""] * len(patterns)
    return [(str(p) or "one value", text) for p, text in zip(patterns, texts, strict=True)]


def _channels_text(count: int) -> str:
    if count < 0:
        return "channels as given"
    return "1 channel" if count == 1 else f"{count} channels"


def _row(boxes: Sequence[Box], labels: Sequence[tuple[str, str]], theme: Theme) -> Iterator[Mark]:
    for k, (box, (text, below)) in enumerate(zip(boxes, labels, strict=True)):
        yield from boxed(box, text, below, theme.palette[0], "tensor", theme, k)


def _lines(
    layer: Layer, above: Sequence[Box], below: Sequence[Box], theme: Theme
) -> Iterator[Mark]:
    """A line for every pair of tensors that some operation connects, with how many do."""
    has_operations = is_layer(layer.module)
    for s, one in enumerate(above):
        for t, other in enumerate(below):
            count = len(layer.module.operations_of(s, t)) if has_operations else 1
            if not count:
                continue
            (x1, y1), (x2, y2) = one.bottom, other.top
            middle = (y1 + y2) / 2
            curve = (x1, y1), (x1, middle), (x2, middle), (x2, y2)
            hint = "1 operation" if count == 1 else f"{count} operations"
            width = min(3.0, 0.7 + 0.2 * count)  # many operations make a thicker line
            yield line(curve, theme.line, width, "map", is_curved=True, hint=hint)
            if has_operations:
                # nearer to the input, where lines to different outputs are still apart
                share = 0.3 if s != t else 0.22
                x = x1 + (x2 - x1) * share**2 * (3 - 2 * share)
                yield from _count(count, x, y1 + (y2 - y1) * share, theme)


def _count(count: int, x: float, y: float, theme: Theme) -> Iterator[Mark]:
    text = str(count)
    wide = text_width(text, 7)
    behind = Style(fill=theme.paper, opacity=0.85)
    yield rectangle(
        x - wide / 2 - 1,
        y - 4,
        wide + 2,
        8,
        behind,
        "behind",
    )
    yield label(x, y + 2.6, text, 7, theme.ink, "operations", "middle")


def _residual(right: float, y: float, theme: Theme) -> Iterator[Mark]:
    """The curve beside a residual block."""
    colour = theme.palette[1]
    far = right + 26
    curve = (right + 2, y), (far, y + 6), (far, y + _STEP - 6), (right + 2, y + _STEP)
    yield line(curve, colour, 1.4, "residual", is_curved=True)
    yield label(
        right + 9,
        y + _STEP / 2 + 4,
        "+",
        11,
        colour,
        "plus",
        is_bold=True,
    )


def _beside(layer: Layer, times: str, x: float, y: float, theme: Theme) -> Iterator[Mark]:
    """What a layer is, at the right of it."""
    head = f"{layer.name}  {layer.kind}" if layer.name else layer.kind
    yield label(x, y - 10, head, 8, theme.ink, "layer", is_bold=True)
    lines = [text for part in layer.sentence().split("; ") for text in wrap(part, 44)]
    for k, text in enumerate(lines):
        yield label(x, y + 1 + 9.5 * k, text, 7, theme.faint, "sentence")
    if times:
        yield label(x, y - 21, times, 8, theme.palette[1], "times")


def _is_residual(module: Any, name: str) -> bool:
    parts = name.split(".")
    parents = (".".join(parts[:k]) for k in range(1, len(parts)))  # all modules around it
    return any(type(module.get_submodule(parent)).__name__ == "Residual" for parent in parents)
