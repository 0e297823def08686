"""`plot.network`: a network as tensors and the maps between them. Standard library only: whatever has the methods of a module will do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import wrap
from typing import Any

from incidence.algebra.layers import Layer, Network, is_layer, is_module
from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.plot.boxes import Box, boxed, row_of_boxes
from incidence.plot.colours import rectangle
from incidence.plot.picture import Picture
from incidence.plot.scene import Path, Scene, Shape, Style, Text, text_width
from incidence.plot.theme import Theme, theme_of

__all__ = ["network"]

_STEP = 74.0  # from tensors to tensors
_WIDEST = 6  # layers of a block that may repeat


def network(what: Any, *, theme: str | Theme = "light") -> Picture:
    """A layer or a network: rows of tensors with their channels, and between them maps with the number of operations of each pair.

    Layers that repeat are drawn once, with how often; what a residual block adds is a curve beside it.

    Args:
        what: A layer, or any module of torch with layers in it.
        theme: `light` or `dark`.

    Raises:
        IncidenceError: It has no equivariant layer.

    Example:
        >>> import incidence as inc
        >>> net = inc.models.IncidenceNet("i, {i j} -> i", {"i": 5, "{i j}": 2}, out_channels=3, hidden=16, depth=2)
        >>> picture = network(net)
        >>> len(picture.scene.of("tensor")), [shape.text for shape in picture.scene.of("times")]
        (7, ['2 times'])
    """
    look = theme_of(theme)
    if not is_module(what):
        raise IncidenceError(
            f"plot.network draws a layer or a network, a module of torch; got {type(what).__name__}."
        )
    found = Network(what)
    layers = [Layer(what)] if is_layer(what) else list(found.layers)
    if not layers:
        raise IncidenceError(
            f"{type(what).__name__} has no equivariant layer to draw, such as nn.Linear."
        )
    return Picture(Scene.around(_drawn(what, layers, found, look), 12), look, type(what).__name__)


def _drawn(module: Any, layers: Sequence[Layer], found: Network, theme: Theme) -> Iterator[Shape]:
    y, before = 0.0, None
    for layer, told in _runs(layers):
        inputs = _labels(layer.map.inputs, _channels(layer, "in_channels"))
        follows = before == inputs and is_layer(
            layer.module
        )  # a product stands beside a layer, and reads what that reads
        if before is not None and not follows:
            y += _STEP * 0.75
        boxes = row_of_boxes(inputs, y, 0.0)
        if not follows:
            yield from _row(boxes, inputs, theme)
        outputs = _labels(layer.map.outputs, _channels(layer, "out_channels"))
        below = row_of_boxes(outputs, y + _STEP, 0.0)
        yield from sorted(_lines(layer, boxes, below, theme), key=lambda shape: shape.part != "map")
        yield from _row(below, outputs, theme)
        yield from _beside(module, layer, told, [*boxes, *below], y, theme)
        y, before = y + _STEP, outputs if is_layer(layer.module) else []
    for k, line in enumerate(wrap(found._rest(), 70)):
        yield Text(
            0, y + 34 + 10 * k, line, 7.5, "middle", style=Style(fill=theme.faint), part="besides"
        )


def _runs(layers: Sequence[Layer]) -> Iterator[tuple[Layer, str]]:
    """The layers, those of repeated blocks once, the first of them with how often the block is there."""
    keys, k = [_likeness(layer) for layer in layers], 0
    while k < len(keys):
        width, times = max(
            ((w, _num_times(keys, k, w)) for w in range(1, _WIDEST + 1)),
            key=lambda run: run[0] * run[1] * (run[1] > 1),
        )
        width = width if times > 1 else 1
        more = f", with the next {width - 1}" if width > 1 else ""
        for at in range(width):
            yield layers[k + at], f"{times} times{more}" if times > 1 and not at else ""
        k += width * times


def _num_times(keys: Sequence[Any], start: int, width: int) -> int:
    """How often the next few repeat themselves, themselves included."""
    block, times = keys[start : start + width], 1
    while (
        len(block) == width and keys[start + width * times : start + width * (times + 1)] == block
    ):
        times += 1
    return times


def _likeness(layer: Layer) -> tuple[Any, ...]:
    return (
        layer.kind,
        layer.map,
        _channels(layer, "in_channels"),
        _channels(layer, "out_channels"),
        layer.num_parameters,
    )


def _channels(layer: Layer, side: str) -> tuple[int, ...]:
    """The channels of every tensor of a side, as modules tell them: a number for all, or one for each; none if they do not."""
    patterns = layer.map.inputs if side == "in_channels" else layer.map.outputs
    told = getattr(layer.module, side, ())
    found = (told,) * len(patterns) if isinstance(told, int) else tuple(told)
    return found if len(found) == len(patterns) else ()


def _labels(patterns: Sequence[Pattern], channels: Sequence[int]) -> list[tuple[str, str]]:
    known = [
        f"{c} channel{'s' * (c != 1)}" if c >= 0 else "channels as given" for c in channels
    ] or [""] * len(patterns)
    return [
        (str(pattern) or "one value", text) for pattern, text in zip(patterns, known, strict=True)
    ]


def _row(boxes: Sequence[Box], labels: Sequence[tuple[str, str]], theme: Theme) -> Iterator[Shape]:
    for k, (box, (text, below)) in enumerate(zip(boxes, labels, strict=True)):
        yield from boxed(box, text, below, theme.palette[0], "tensor", theme, k)


def _lines(
    layer: Layer, above: Sequence[Box], below: Sequence[Box], theme: Theme
) -> Iterator[Shape]:
    """A line for every pair of tensors that some operation connects, with how many do."""
    has_operations = is_layer(layer.module)
    for s, one in enumerate(above):
        for t, other in enumerate(below):
            count = len(layer.module.operations_of(s, t)) if has_operations else 1
            if not count:
                continue
            (x1, y1), (x2, y2) = one.bottom, other.top
            middle = (y1 + y2) / 2
            style = Style(stroke=theme.line, width=min(3.0, 0.7 + 0.2 * count))
            hint = f"{count} operation{'s' * (count != 1)}"
            yield Path(
                ((x1, y1), (x1, middle), (x2, middle), (x2, y2)),
                is_curved=True,
                style=style,
                part="map",
                hint=hint,
            )
            if has_operations:
                share = (
                    0.3 if s != t else 0.22
                )  # nearer to the input, where lines to different outputs are still apart
                place = x1 + (x2 - x1) * share**2 * (3 - 2 * share), y1 + (y2 - y1) * share
                wide = text_width(str(count), 7)
                yield rectangle(
                    place[0] - wide / 2 - 1,
                    place[1] - 4,
                    wide + 2,
                    8,
                    Style(fill=theme.paper, opacity=0.85),
                    "behind",
                )
                yield Text(
                    place[0],
                    place[1] + 2.6,
                    str(count),
                    7,
                    "middle",
                    style=Style(fill=theme.ink),
                    part="operations",
                )


def _beside(
    module: Any, layer: Layer, told: str, boxes: Sequence[Box], y: float, theme: Theme
) -> Iterator[Shape]:
    """What is to say of a layer, at the right; and the curve of a residual block."""
    right = max(box.right[0] for box in boxes)
    if is_layer(layer.module) and _is_residual(module, layer.name):
        style = Style(stroke=theme.palette[1], width=1.4)
        start, stop = (right + 2, y), (right + 2, y + _STEP)
        yield Path(
            (start, (right + 26, y + 6), (right + 26, y + _STEP - 6), stop),
            is_curved=True,
            style=style,
            part="residual",
        )
        yield Text(
            right + 9,
            y + _STEP / 2 + 4,
            "+",
            11,
            is_bold=True,
            style=Style(fill=theme.palette[1]),
            part="plus",
        )
        right += 24
    head = f"{layer.name}  {layer.kind}" if layer.name else layer.kind
    yield Text(
        right + 14,
        y + _STEP / 2 - 10,
        head,
        8,
        is_bold=True,
        style=Style(fill=theme.ink),
        part="layer",
    )
    lines = [line for part in layer.sentence().split("; ") for line in wrap(part, 44)]
    for k, line in enumerate(lines):
        yield Text(
            right + 14,
            y + _STEP / 2 + 1 + 9.5 * k,
            line,
            7,
            style=Style(fill=theme.faint),
            part="sentence",
        )
    if told:
        yield Text(
            right + 14,
            y + _STEP / 2 - 21,
            told,
            8,
            style=Style(fill=theme.palette[1]),
            part="times",
        )


def _is_residual(module: Any, name: str) -> bool:
    parts = name.split(".")
    parents = (".".join(parts[:k]) for k in range(1, len(parts)))
    return any(type(module.get_submodule(parent)).__name__ == "Residual" for parent in parents)
