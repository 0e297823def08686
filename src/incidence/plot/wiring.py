"""One operation as wires: the faces of the input at the left, those of the output at the right, a
knot for every node between them.

A node of both is *matched* (a dot), one of the input alone is *summed* over (a sigma), one of the
output alone is *copied* along (a ring). A product has several inputs, one below the other, and a
node that two of them share has one knot. Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from textwrap import wrap
from typing import NamedTuple

from incidence.algebra.describe import read, read_product
from incidence.algebra.grammar import Kind
from incidence.algebra.maps import Operation
from incidence.algebra.pattern import Pattern
from incidence.algebra.products import ProductText
from incidence.plot.scene import (
    Circle,
    Mark,
    Path,
    Point,
    Style,
    area,
    arrow_head,
    disc,
    label,
    line,
    rectangle,
)
from incidence.plot.theme import Theme, text_on

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
    """One tensor of a diagram.

    Attributes:
        kinds: The kinds of its faces, and whether each is open.
        faces: The names of the nodes in every face.
    """

    kinds: Sequence[tuple[Kind, bool]]
    faces: Sequence[Sequence[str]]

    @property
    def names(self) -> list[str]:
        """The nodes, as often as they stand there."""
        return [name for face in self.faces for name in face]

    @property
    def counts(self) -> list[int]:
        """The number of places of every face; one place for a tensor without faces."""
        faces = zip(self.faces, self.kinds, strict=True)
        return [max(1, len(names) + is_open) for names, (_, is_open) in faces] or [1]

    @property
    def height(self) -> float:
        """The height of its column of slots."""
        return _PITCH * sum(self.counts) + _BETWEEN * (len(self.counts) - 1)


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
        inputs = [name for tensor in self.inputs for name in tensor.names]
        outputs = self.output.names
        roles = dict.fromkeys(inputs, SUMMED)
        for name in outputs:
            roles[name] = MATCHED if name in inputs else COPIED
        return roles


def wiring_of(what: Operation | ProductText) -> Wiring:
    """Return what the diagram of an operation or of a product shows.

    Example:
        >>> wiring_of(ProductText("i j, j k -> i k")).roles  # 0: match, 1: sum over, 2: copy along
        {'i': 0, 'j': 1, 'k': 0}
    """
    if isinstance(what, Operation):
        words = read(what)
        source = WiredTensor(what.source.orbit.kinds, words.x)
        target = WiredTensor(what.target.orbit.kinds, words.y)
        return Wiring((source,), target, words.formula, words.words)
    *inputs, output = map(_tensor, what.tensors)
    return Wiring(tuple(inputs), output, *read_product(what))


def _tensor(pattern: Pattern) -> WiredTensor:
    faces = pattern.faces
    return WiredTensor(
        [(face.kind, face.is_open) for face in faces],
        [[letter.name for letter in face.letters] for face in faces],
    )


def wires(wiring: Wiring, theme: Theme) -> list[Mark]:
    """Return the diagram, its middle at height 0, the input at x = 0."""
    roles = wiring.roles
    left = _Side(0.0, "input", roles, theme)
    right = _Side(_WIDE, "output", roles, theme)
    left.stack(wiring.inputs)
    right.stack([wiring.output])
    tip = _WIDE - _SLOT - 9
    flow = [
        line(((_SLOT + 10, 0.0), (tip - 9, 0.0)), theme.pale, 5.0, "flow"),
        area(arrow_head((0.0, 0.0), (tip, 0.0), 11.0), theme.pale, "flow"),
    ]
    slots = {name: [side.slots.get(name, []) for side in (left, right)] for name in roles}
    heights = _spread({name: _middle(sides) for name, sides in slots.items()}, roles)
    drawn = [
        mark
        for name, role in roles.items()
        for mark in _wire(name, role, slots[name], heights[name], theme)
    ]
    # Knots lie on the wires of others.
    drawn.sort(key=lambda mark: mark.part != "wire")
    return [*flow, *drawn, *left.marks, *right.marks]


@dataclass
class _Side:
    """One side of the diagram.

    Attributes:
        x: Where its slots are.
        part: `input` or `output`.
        roles: What becomes of every node.
        theme: The colours.
        slots: Where the slots of each node are.
        marks: What is drawn.
    """

    x: float
    part: str
    roles: dict[str, int]
    theme: Theme
    slots: dict[str, list[Point]] = field(default_factory=dict)
    marks: list[Mark] = field(default_factory=list)

    def stack(self, tensors: Sequence[WiredTensor]) -> None:
        """Draw tensors one below the other, about height 0."""
        # about height 0
        top = -(sum(t.height for t in tensors) + _FACTORS * (len(tensors) - 1)) / 2
        for number, tensor in enumerate(tensors):
            self._draw(tensor, top)
            faint = self.theme.faint
            if len(tensors) > 1:
                place = (self.x - _SLOT - 16, top + tensor.height / 2 + 2.6)
                text = f"x{number + 1}"
                name = label(*place, text, 7.5, faint, "operand", "middle", is_code=True)
                self.marks.append(name)
            if number:
                y = top - _FACTORS / 2 + 3
                self.marks.append(
                    label(
                        self.x,
                        y,
                        "\u00d7",
                        9,
                        faint,
                        "times",
                        "middle",
                    )
                )
            top += tensor.height + _FACTORS

    def _draw(self, tensor: WiredTensor, top: float) -> None:
        """Draw a tensor from a height downwards."""
        if not tensor.kinds:
            self._draw_scalar(top + _PITCH / 2)
        for (kind, is_open), names, count in zip(
            tensor.kinds, tensor.faces, tensor.counts, strict=False
        ):
            if len(names) > 1 or is_open:
                self._draw_frame(kind, top, count * _PITCH)
            for k, name in enumerate(names):
                self._draw_slot(name, top + _PITCH * (k + 0.5))
            if is_open:
                y = top + _PITCH * (len(names) + 0.5)
                more = f"{self.part} open"
                self.marks += [
                    disc(
                        self.x + k,
                        y,
                        1.1,
                        self.theme.faint,
                        more,
                    )
                    for k in (-4, 0, 4)
                ]
            top += count * _PITCH + _BETWEEN

    def _draw_slot(self, name: str, y: float) -> None:
        self.slots.setdefault(name, []).append((self.x, y))
        colour = self.theme.palette[self.roles[name]]
        size = 8.5 if len(name) == 1 else 6.5
        self.marks += [
            disc(self.x, y, _SLOT, colour, f"{self.part} slot", hint=name),
            label(
                self.x,
                y + 0.34 * size,
                name,
                size,
                text_on(colour),
                "letter",
                "middle",
            ),
        ]

    def _draw_scalar(self, y: float) -> None:
        """Draw the one value of a structure: a small square."""
        s = 4.5
        style = Style(fill=self.theme.faint)
        part = f"{self.part} scalar"
        square = rectangle(
            self.x - s,
            y - s,
            2 * s,
            2 * s,
            style,
            part,
            hint="one value",
        )
        self.marks.append(square)

    def _draw_frame(self, kind: Kind, top: float, height: float) -> None:
        """Draw what is around the nodes of a face.

        It is round for sets, square for tuples, dashed where nodes may repeat, and has an arrow
        where order matters.
        """
        x = self.x
        w = _SLOT + 2.6
        low = top + 0.4
        high = top + height - 0.4
        bend = 1.0 if kind.is_ordered else w * 0.95
        k = 0.45 * bend
        # Every line is a start, two handles and an end, as the round corners between lines are.
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
        dashes = () if kind.is_distinct else (2.5, 1.5)
        style = Style(fill=self.theme.paper, stroke=self.theme.line, width=1.0, dashes=dashes)
        frame = {"is_closed": True, "is_curved": True, "part": f"{self.part} face"}
        self.marks.append(Path(corners, style=style, **frame))  # type: ignore[arg-type]
        if kind.is_ordered or kind.is_oriented:
            # arrows stand outside of the diagram
            side = x + (-(w + 4) if self.part == "input" else w + 4)
            head = arrow_head((side, low + 3), (side, high - 1), 4.5)
            colour = self.theme.line
            part = f"{self.part} order"
            self.marks.append(line(((side, low + 3), (side, high - 4)), colour, 1.0, part))
            self.marks.append(area(head, colour, part))


def _middle(sides: Sequence[Sequence[Point]]) -> float:
    heights = [y for side in sides for _, y in side]
    return sum(heights) / len(heights)


def _spread(heights: dict[str, float], roles: dict[str, int]) -> dict[str, float]:
    """The heights of the knots, those of one role pushed apart until none lies on another."""
    spread: dict[str, float] = {}
    for role, least in _LEAST.items():
        names = sorted((n for n in roles if roles[n] == role), key=lambda name: heights[name])
        pushed: list[float] = []
        for name in names:
            y = heights[name]
            pushed.append(max(y, pushed[-1] + least) if pushed else y)  # downwards only
        count = max(len(names), 1)
        # Pushing moves knots down: as a whole they are moved back.
        shift = sum(pushed) / count - sum(heights[name] for name in names) / count
        spread.update({name: y - shift for name, y in zip(names, pushed, strict=True)})
    return spread


def _wire(
    name: str, role: int, sides: Sequence[Sequence[Point]], y: float, theme: Theme
) -> Iterator[Mark]:
    # one wire, without a knot in the middle
    if role == MATCHED and [len(side) for side in sides] == [1, 1]:
        yield from _straight(name, sides[0][0], sides[1][0], theme)
        return
    x = _WIDE * _KNOTS[role]
    colour = theme.palette[role]
    for slot_x, slot_y in (place for side in sides for place in side):
        edge = slot_x + (_SLOT if slot_x < x else -_SLOT)
        middle = (edge + x) / 2
        curve = ((edge, slot_y), (middle, slot_y), (middle, y), (x, y))
        yield line(curve, colour, 1.8, "wire", is_curved=True, hint=name)
    yield from _KNOT_SHAPES[role](x, y, colour, theme)


def _straight(name: str, one: Point, other: Point, theme: Theme) -> Iterator[Mark]:
    """A node with one slot at each side.

    The dot stands near the input, so that the dots of wires that cross are apart.
    """
    colour = theme.palette[MATCHED]
    t = 0.15  # how far along the wire the dot stands
    (x1, y1), (x2, y2) = (one[0] + _SLOT, one[1]), (other[0] - _SLOT, other[1])
    middle = (x1 + x2) / 2
    curve = (x1, y1), (middle, y1), (middle, y2), (x2, y2)
    yield line(curve, colour, 1.8, "wire", is_curved=True, hint=name)
    # of the two heights, on a cubic with level ends
    before = (1 - t) ** 2 * (1 + 2 * t)
    after = t * t * (3 - 2 * t)
    x = (1 - t) ** 3 * x1 + 3 * t * (1 - t) * middle + t**3 * x2
    yield from _dot(x, before * y1 + after * y2, colour, theme)


def _dot(x: float, y: float, colour: str, theme: Theme) -> list[Mark]:
    return [disc(x, y, 2.6, colour, "matched")]


def _sigma(x: float, y: float, colour: str, theme: Theme) -> list[Mark]:
    style = Style(fill=theme.paper, stroke=colour, width=1.3)
    return [
        Circle(x, y, 5.6, style=style, part="summed"),
        label(x, y + 2.9, "Σ", 8, colour, "sigma", "middle", is_bold=True),
    ]


def _ring(x: float, y: float, colour: str, theme: Theme) -> list[Mark]:
    style = Style(fill=theme.paper, stroke=colour, width=1.6)
    return [Circle(x, y, 3.2, style=style, part="copied")]


_KNOT_SHAPES = {MATCHED: _dot, SUMMED: _sigma, COPIED: _ring}


def key_of_roles(theme: Theme) -> list[Mark]:
    """Return what dots, sigmas and rings mean, in a line from (0, 0)."""
    marks: list[Mark] = []
    names = {MATCHED: "match", SUMMED: "sum over", COPIED: "copy along"}
    for k, (role, text) in enumerate(names.items()):
        x = 62.0 * k + 6
        marks += _KNOT_SHAPES[role](x, 0.0, theme.palette[role], theme)
        marks.append(label(x + 9, 3, text, 8, theme.ink, "key"))
    return marks


def tile(
    what: Operation | ProductText, number: int | None, theme: Theme, width: float = 156.0
) -> tuple[float, list[Mark]]:
    """Return the diagram of an operation or a product with its number, formula and words below.

    Returns:
        Its height, and marks from (0, 0) on.
    """
    wiring = wiring_of(what)
    drawn = wires(wiring, theme)
    ys = [y for mark in drawn for _, y in mark.points_around()]
    marks = [mark.moved((width - _WIDE) / 2, -min(ys)) for mark in drawn]
    y = max(ys) - min(ys) + 13
    head = "" if number is None else f"{number}  "
    # as short as the tile is narrow
    formula = wiring.formula.replace("sum_", "Σ").replace("sum ", "Σ ")
    for k, text in enumerate(_lines(head + formula, int(width / 4.6), "   ")):
        part = "formula more" if k else "formula"
        marks.append(
            label(
                0,
                y,
                text,
                7.5,
                theme.ink,
                part,
                is_code=True,
            )
        )
        y += 9.5
    for text in _lines(wiring.words, int(width / 3.7), ""):
        marks.append(label(0, y, text, 6.5, theme.faint, "words"))
        y += 8.5
    return y - 4, marks


def _lines(text: str, width: int, indent: str) -> list[str]:
    lines = wrap(text, max(width, 8), subsequent_indent=indent, break_on_hyphens=False)
    return lines or [""]
