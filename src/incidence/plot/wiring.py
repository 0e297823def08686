"""One operation as wires: the faces of the input at the left, those of the output at the right, a knot for every node between them.

A node of both is *matched* (a dot), one of the input alone is *summed* over (a sigma), one of the output alone is *copied* along (a ring).
A product has several inputs, one below the other, and a node that two of them share has one knot. Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import NamedTuple

from incidence.algebra.grammar import Kind
from incidence.algebra.maps import Operation
from incidence.algebra.pattern import Pattern
from incidence.algebra.product_reading import read_product
from incidence.algebra.products import ProductText
from incidence.algebra.reading import read
from incidence.plot.colours import text_on
from incidence.plot.scene import Circle, Path, Point, Shape, Style, Text, arrow_head
from incidence.plot.theme import Theme

__all__ = [
    "COPIED",
    "MATCHED",
    "SUMMED",
    "WiredTensor",
    "Wiring",
    "key_of_roles",
    "tile",
    "wires",
    "wiring_of",
]

_SLOT, _PITCH, _BETWEEN = 6.5, 16.0, 5.0  # radius of a slot; from slot to slot; between faces
_FACTORS = 15.0  # between the operands of a product
_WIDE = 96.0  # from the input to the output
MATCHED, SUMMED, COPIED = 0, 1, 2  # places in the palette

_KNOTS = {MATCHED: 0.5, SUMMED: 0.36, COPIED: 0.64}  # how far to the right the knot of a node is
_LEAST = {MATCHED: 8.0, SUMMED: 13.0, COPIED: 9.0}  # from knot to knot


class WiredTensor(NamedTuple):
    """One tensor of a diagram: the kinds of its faces and whether each is open, and the names of the nodes in every face."""

    kinds: Sequence[tuple[Kind, bool]]
    faces: Sequence[Sequence[str]]

    @property
    def names(self) -> list[str]:
        """The nodes, as often as they stand there."""
        return [name for face in self.faces for name in face]


@dataclass(frozen=True)
class Wiring:
    """What a diagram shows; a name is one node throughout.

    Attributes:
        inputs, output: The tensors.
        formula, words: What stands below.
    """

    inputs: tuple[WiredTensor, ...]
    output: WiredTensor
    formula: str
    words: str

    @property
    def roles(self) -> dict[str, int]:
        """What becomes of every node."""
        ordered = [name for tensor in self.inputs for name in tensor.names]
        x, y = set(ordered), set(self.output.names)
        return {
            n: MATCHED if n in x & y else SUMMED if n in x else COPIED
            for n in dict.fromkeys([*ordered, *self.output.names])
        }


def wiring_of(what: Operation | ProductText) -> Wiring:
    """What the diagram of an operation or of a product shows.

    Example:
        >>> wiring_of(ProductText("i j, j k -> i k")).roles  # 0: match, 1: sum over, 2: copy along
        {'i': 0, 'j': 1, 'k': 0}
    """
    if isinstance(what, Operation):
        told = read(what)
        return Wiring(
            (WiredTensor(what.source.orbit.kinds, told.x),),
            WiredTensor(what.target.orbit.kinds, told.y),
            told.formula,
            told.words,
        )
    *inputs, output = map(_tensor, what.tensors)
    return Wiring(tuple(inputs), output, *read_product(what))


def _tensor(pattern: Pattern) -> WiredTensor:
    faces = pattern.faces
    return WiredTensor(
        [(face.kind, face.is_open) for face in faces],
        [[letter.name for letter in face.letters] for face in faces],
    )


@dataclass(frozen=True)
class _Side:
    """One side of the diagram: where the slots of each node are, and what is drawn around them."""

    slots: dict[str, list[Point]]
    shapes: list[Shape]


def wires(wiring: Wiring, theme: Theme) -> list[Shape]:
    """The diagram, its middle at height 0, the input at x = 0."""
    roles = wiring.roles
    sides = [
        _side(tensors, roles, x, part, theme)
        for tensors, x, part in ((wiring.inputs, 0.0, "input"), ((wiring.output,), _WIDE, "output"))
    ]
    flow = Style(stroke=theme.pale, width=5.0)
    tip = Style(fill=theme.pale)
    shapes: list[Shape] = [
        Path(((_SLOT + 10, 0.0), (_WIDE - _SLOT - 18, 0.0)), style=flow, part="flow"),
        Path(
            arrow_head((0.0, 0.0), (_WIDE - _SLOT - 9, 0.0), 11.0),
            is_closed=True,
            style=tip,
            part="flow",
        ),
    ]
    slots = {name: [side.slots.get(name, []) for side in sides] for name in roles}
    heights = _spread({name: _middle(own) for name, own in slots.items()}, roles)
    drawn = [
        shape
        for name, role in roles.items()
        for shape in _wire(name, role, slots[name], heights[name], theme)
    ]
    shapes += sorted(
        drawn, key=lambda shape: shape.part != "wire"
    )  # knots lie on the wires of others
    return shapes + sides[0].shapes + sides[1].shapes


def _side(
    tensors: Sequence[WiredTensor], roles: dict[str, int], x: float, part: str, theme: Theme
) -> _Side:
    """The tensors of a side one below the other, about height 0."""
    side = _Side({}, [])
    top = -(sum(map(_height, tensors)) + _FACTORS * (len(tensors) - 1)) / 2
    for number, tensor in enumerate(tensors):
        high = _height(tensor)
        _place(tensor, roles, (x, top), part, theme, side)
        if len(tensors) > 1:
            place = x - _SLOT - 16, top + high / 2 + 2.6
            side.shapes.append(
                Text(
                    *place,
                    f"x{number + 1}",
                    7.5,
                    "middle",
                    is_code=True,
                    style=Style(fill=theme.faint),
                    part="operand",
                )
            )
        if number:
            middle = x, top - _FACTORS / 2 + 3
            side.shapes.append(
                Text(*middle, "\u00d7", 9, "middle", style=Style(fill=theme.faint), part="times")
            )
        top += high + _FACTORS
    return side


def _counts(tensor: WiredTensor) -> list[int]:
    """How many places every face has, at least one; a tensor without faces has the place of its one value."""
    return [
        max(1, len(names) + is_open)
        for names, (_, is_open) in zip(tensor.faces, tensor.kinds, strict=True)
    ] or [1]


def _height(tensor: WiredTensor) -> float:
    counts = _counts(tensor)
    return _PITCH * sum(counts) + _BETWEEN * (len(counts) - 1)


def _place(
    tensor: WiredTensor, roles: dict[str, int], corner: Point, part: str, theme: Theme, side: _Side
) -> None:
    """Draws a tensor from a place downwards."""
    x, top = corner
    if not tensor.kinds:
        side.shapes.append(_scalar(x, top + _PITCH / 2, part, theme))
    for (kind, is_open), names, own in zip(
        tensor.kinds, tensor.faces, _counts(tensor), strict=False
    ):
        if len(names) > 1 or is_open:
            has_order = kind.is_oriented or kind.is_ordered
            side.shapes.extend(
                _frame(
                    x,
                    top,
                    own * _PITCH,
                    not kind.is_ordered,
                    not kind.is_distinct,
                    has_order,
                    part,
                    theme,
                )
            )
        for k, name in enumerate(names):
            place = (x, top + _PITCH * (k + 0.5))
            side.slots.setdefault(name, []).append(place)
            side.shapes.extend(_slot(name, place, theme.palette[roles[name]], part, theme))
        if is_open:
            side.shapes.extend(_dots(x, top + _PITCH * (len(names) + 0.5), part, theme))
        top += own * _PITCH + _BETWEEN


def _slot(name: str, place: Point, colour: str, part: str, theme: Theme) -> list[Shape]:
    x, y = place
    size = 8.5 if len(name) == 1 else 6.5
    ink = Style(fill=text_on(colour))
    return [
        Circle(x, y, _SLOT, style=Style(fill=colour), part=f"{part} slot", hint=name),
        Text(x, y + 0.34 * size, name, size, "middle", style=ink, part="letter"),
    ]


def _scalar(x: float, y: float, part: str, theme: Theme) -> Shape:
    """The one value of a structure: a small square."""
    s = 4.5
    corners = ((x - s, y - s), (x + s, y - s), (x + s, y + s), (x - s, y + s))
    return Path(
        corners,
        is_closed=True,
        style=Style(fill=theme.faint),
        part=f"{part} scalar",
        hint="one value",
    )


def _dots(x: float, y: float, part: str, theme: Theme) -> list[Shape]:
    return [
        Circle(x + step, y, 1.1, style=Style(fill=theme.faint), part=f"{part} open")
        for step in (-4.0, 0.0, 4.0)
    ]


def _frame(
    x: float,
    top: float,
    height: float,
    is_round: bool,
    repeats: bool,
    has_order: bool,
    part: str,
    theme: Theme,
) -> list[Shape]:
    """Around the nodes of a face: round for sets, square for tuples, dashed where nodes may repeat; an arrow where order matters."""
    w, pad = _SLOT + 2.6, 0.4
    low, high = top + pad, top + height - pad
    bend = w * 0.95 if is_round else 1.0
    k = 0.45 * bend
    corners = (
        *((x - w, low + bend), (x - w, low + k), (x - w + k, low), (x - w + bend, low)),
        *((x - w + bend, low), (x + w - bend, low), (x + w - bend, low)),
        *((x + w - k, low), (x + w, low + k), (x + w, low + bend)),
        *((x + w, low + bend), (x + w, high - bend), (x + w, high - bend)),
        *((x + w, high - k), (x + w - k, high), (x + w - bend, high)),
        *((x + w - bend, high), (x - w + bend, high), (x - w + bend, high)),
        *((x - w + k, high), (x - w, high - k), (x - w, high - bend)),
        *((x - w, high - bend), (x - w, low + bend), (x - w, low + bend)),
    )
    style = Style(
        fill=theme.paper, stroke=theme.line, width=1.0, dashes=(2.5, 1.5) if repeats else ()
    )
    shapes: list[Shape] = [
        Path(corners, is_closed=True, is_curved=True, style=style, part=f"{part} face")
    ]
    if has_order:
        side = x + (w + 4) * (-1 if part == "input" else 1)
        line = ((side, low + 3), (side, high - 4))
        shapes.append(Path(line, style=Style(stroke=theme.line, width=1.0), part=f"{part} order"))
        shapes.append(
            Path(
                arrow_head(line[0], (side, high - 1), 4.5),
                is_closed=True,
                style=Style(fill=theme.line),
                part=f"{part} order",
            )
        )
    return shapes


def _middle(sides: Sequence[Sequence[Point]]) -> float:
    heights = [y for side in sides for _, y in side]
    return sum(heights) / len(heights)


def _spread(heights: dict[str, float], roles: dict[str, int]) -> dict[str, float]:
    """The heights of the knots, those of one role pushed apart until none lies on another."""
    found: dict[str, float] = {}
    for role, least in _LEAST.items():
        names = sorted(
            (name for name in roles if roles[name] == role), key=lambda name: heights[name]
        )
        low = [heights[name] for name in names]
        for k in range(1, len(low)):
            low[k] = max(low[k], low[k - 1] + least)
        shift = sum(low) / max(len(low), 1) - sum(heights[name] for name in names) / max(
            len(low), 1
        )
        found.update({name: y - shift for name, y in zip(names, low, strict=True)})
    return found


def _wire(
    name: str, role: int, sides: Sequence[Sequence[Point]], y: float, theme: Theme
) -> Iterator[Shape]:
    if role == MATCHED and [len(side) for side in sides] == [1, 1]:
        yield from _straight(name, sides[0][0], sides[1][0], theme)
        return
    places = [place for side in sides for place in side]
    x = _WIDE * _KNOTS[role]
    colour = theme.palette[role]
    for sx, sy in places:
        edge = sx + (_SLOT if sx < x else -_SLOT)
        middle = (edge + x) / 2
        curve = ((edge, sy), (middle, sy), (middle, y), (x, y))
        yield Path(
            curve, is_curved=True, style=Style(stroke=colour, width=1.8), part="wire", hint=name
        )
    yield from _KNOT_SHAPES[role](x, y, colour, theme)


def _straight(name: str, one: Point, other: Point, theme: Theme) -> Iterator[Shape]:
    """A node with one slot at each side: the dot stands near the input, so that the dots of wires that cross are apart."""
    colour = theme.palette[MATCHED]
    (x1, y1), (x2, y2), t = (one[0] + _SLOT, one[1]), (other[0] - _SLOT, other[1]), 0.15
    middle = (x1 + x2) / 2
    yield Path(
        ((x1, y1), (middle, y1), (middle, y2), (x2, y2)),
        is_curved=True,
        style=Style(stroke=colour, width=1.8),
        part="wire",
        hint=name,
    )
    before, after = (
        (1 - t) ** 2 * (1 + 2 * t),
        t * t * (3 - 2 * t),
    )  # of the two heights, on a cubic with level ends
    x = (1 - t) ** 3 * x1 + 3 * t * (1 - t) * middle + t**3 * x2
    yield from _dot(x, before * y1 + after * y2, colour, theme)


def _dot(x: float, y: float, colour: str, theme: Theme) -> list[Shape]:
    return [Circle(x, y, 2.6, style=Style(fill=colour), part="matched")]


def _sigma(x: float, y: float, colour: str, theme: Theme) -> list[Shape]:
    return [
        Circle(x, y, 5.6, style=Style(fill=theme.paper, stroke=colour, width=1.3), part="summed"),
        Text(x, y + 2.9, "Σ", 8, "middle", is_bold=True, style=Style(fill=colour), part="sigma"),
    ]


def _ring(x: float, y: float, colour: str, theme: Theme) -> list[Shape]:
    return [
        Circle(x, y, 3.2, style=Style(fill=theme.paper, stroke=colour, width=1.6), part="copied")
    ]


_KNOT_SHAPES = {MATCHED: _dot, SUMMED: _sigma, COPIED: _ring}


def key_of_roles(theme: Theme) -> list[Shape]:
    """What dots, sigmas and rings mean, in a line from (0, 0)."""
    shapes: list[Shape] = []
    for k, (role, text) in enumerate(
        ((MATCHED, "match"), (SUMMED, "sum over"), (COPIED, "copy along"))
    ):
        x = 62.0 * k + 6
        shapes += _KNOT_SHAPES[role](x, 0.0, theme.palette[role], theme)
        shapes.append(Text(x + 9, 3, text, 8, style=Style(fill=theme.ink), part="key"))
    return shapes


def tile(
    what: Operation | ProductText, number: int | None, theme: Theme, width: float = 156.0
) -> tuple[float, list[Shape]]:
    """The diagram of an operation or a product with its number, formula and words below: its height, and shapes from (0, 0) on."""
    wiring = wiring_of(what)
    drawn = wires(wiring, theme)
    ys = [y for shape in drawn for _, y in shape.points_around()]
    high = max(ys) - min(ys)
    shapes = [shape.moved((width - _WIDE) / 2, -min(ys)) for shape in drawn]
    y = high + 13
    head = "" if number is None else f"{number}  "
    for k, line in enumerate(_lines(head + _spoken(wiring.formula), int(width / 4.6), "   ")):
        shapes.append(
            Text(
                0,
                y,
                line,
                7.5,
                is_code=True,
                style=Style(fill=theme.ink),
                part="formula" if not k else "formula more",
            )
        )
        y += 9.5
    for line in _lines(wiring.words, int(width / 3.7), ""):
        shapes.append(Text(0, y, line, 6.5, style=Style(fill=theme.faint), part="words"))
        y += 8.5
    return y - 4, shapes


def _spoken(formula: str) -> str:
    return formula.replace("sum_", "Σ").replace("sum ", "Σ ")


def _lines(text: str, width: int, indent: str) -> list[str]:
    return wrap(
        text, max(width, 8), subsequent_indent=indent, drop_whitespace=True, break_on_hyphens=False
    ) or [""]
