"""`plot.operation` and `plot.operations`: what a map can do, as pictures. Standard library only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby, islice
from typing import Any, NamedTuple

from incidence.algebra.layers import Layer, is_layer, is_module
from incidence.algebra.maps import EquivariantMap, Operation, OrbitPair, as_map
from incidence.algebra.multilinear import MultilinearMap
from incidence.algebra.overlap import overlaps
from incidence.algebra.products import ProductText
from incidence.errors import IncidenceError
from incidence.plot.checks import assert_at_least_one
from incidence.plot.picture import Picture
from incidence.plot.scene import Path, Scene, Shape, Style, Text
from incidence.plot.theme import Theme, theme_of
from incidence.plot.wiring import key_of_roles, tile

__all__ = ["operation", "operations", "pair_heading"]

_TILE, _GAP = 156.0, 16.0


def operation(
    what: Operation | ProductText, number: int | None = None, *, theme: str | Theme = "light"
) -> Picture:
    r"""One operation as a diagram: which nodes are matched, summed over and copied along; its formula and words below.

    The faces of the input stand at the left and those of the output at the right: sets are round, tuples square with an arrow along them.
    A node that both have is a dot between them, one that is summed over a sigma, one that is copied along a ring. The operands of a
    product stand below each other, and the wires of a letter that they share meet in one knot.

    Args:
        what: The operation, as in `EquivariantMap("i j -> i").operations[0]`; or a product, as in `ProductText("i j, j k -> i k")`.
        number: Its number, to be shown.
        theme: `light` or `dark`.

    Example:
        >>> picture = operation(EquivariantMap("i j -> i").operations[4])  # y[i] = sum_j x[j i]
        >>> len(picture.scene.of("matched")), len(picture.scene.of("summed")), len(picture.scene.of("copied"))
        (1, 1, 0)
        >>> len(operation(ProductText("i j, j k -> i k")).scene.of("wire"))  # j has two: they meet where it is summed over
        4
    """
    if not isinstance(what, (Operation, ProductText)):
        raise IncidenceError(
            f"plot.operation draws a ProductText, or an Operation, as in EquivariantMap('i -> i').operations[0]; got {type(what).__name__}."
        )
    look = theme_of(theme)
    _, shapes = tile(what, number, look, 210.0)
    return Picture(Scene.around(shapes), look, str(what))


class _Block(NamedTuple):
    """Operations that stand under one heading, with their numbers; `size` of them, if all were drawn."""

    heading: str
    size: str
    listed: list[tuple[int, Operation | ProductText]]


def operations(
    what: EquivariantMap | MultilinearMap | str | Any,
    which: Iterable[int] | None = None,
    *,
    columns: int = 4,
    most: int = 60,
    theme: str | Theme = "light",
) -> Picture:
    """The operations of a map, or those that a layer has, as diagrams: by pairs of orbits, with the numbers that `explain` gives them.

    Products, such as those of `i j * i j -> i j`, are drawn by how many nodes they have.

    Args:
        what: A map, its text, or a layer.
        which: The numbers of the operations to draw; if not given, the first ones.
        columns: How many stand side by side.
        most: How many are drawn if `which` is not given; a line says how many are left out.
        theme: `light` or `dark`.

    Raises:
        IncidenceError: A number is none of an operation.

    Example:
        >>> len(operations("i j -> i j").scene.of("formula"))
        15
        >>> len(operations("i * i -> i").scene.of("formula"))
        5
    """
    look = theme_of(theme)
    assert_at_least_one(columns=columns, most=most)
    m, total, blocks = (
        _products(what, which, most) if _is_product(what) else _operations(what, which, most)
    )
    shapes: list[Shape] = [
        Text(0, 12, m, 12, is_code=True, is_bold=True, style=Style(fill=look.ink), part="title")
    ]
    y = 20.0
    for block in blocks:
        y = _draw(block, y, columns, look, shapes)
    drawn = sum(len(block.listed) for block in blocks)
    shapes += [shape.moved(0, y + 6) for shape in key_of_roles(look)]
    if drawn < total and which is None:
        note = f"and {total - drawn:,} more: plot.operations(map, which=range({drawn}, ...)) draws others"
        shapes.append(Text(200, y + 9, note, 8, style=Style(fill=look.faint), part="note"))
    return Picture(Scene.around(shapes, 12), look, f"operations of {m}")


def _is_product(what: Any) -> bool:
    """Whether this is a multilinear map, its text, or a layer of one."""
    m = what.map if is_module(what) and hasattr(what, "map") else what
    return "*" in m if isinstance(m, str) else isinstance(m, MultilinearMap)


def _numbers(what: object, total: int, which: Iterable[int]) -> list[int]:
    numbers = sorted(set(which))
    for number in numbers:
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < total:
            raise IncidenceError(
                f"operations of `{what}` are numbered 0 to {total - 1:,}; got {number!r}."
            )
    return numbers


def _products(what: Any, which: Iterable[int] | None, most: int) -> tuple[str, int, list[_Block]]:
    """The text of a multilinear map, how many products it or its layer has, and those to draw by how many nodes they have."""
    m = (
        MultilinearMap(what)
        if isinstance(what, str)
        else what
        if isinstance(what, MultilinearMap)
        else what.map
    )
    kept = m.products if m is what or isinstance(what, str) else what.products
    chosen = range(min(most, len(kept))) if which is None else _numbers(m, len(kept), which)
    sizes = [len(product.letters) for product in kept]
    blocks = []
    for size, numbers in groupby(chosen, key=lambda number: sizes[number]):
        heading = f"{size} node{'s' * (size != 1)}"
        blocks.append(
            _Block(
                heading,
                _told(sizes.count(size), "product"),
                [(number, kept[number]) for number in numbers],
            )
        )
    return str(m), len(kept), blocks


def _operations(what: Any, which: Iterable[int] | None, most: int) -> tuple[str, int, list[_Block]]:
    """The same for a linear map, by pairs of orbits."""
    layer = Layer(what) if is_layer(what) else None
    m = layer.map if layer is not None else as_map(what)
    kept = layer.kept if layer is not None else None
    chosen = None if which is None else _numbers(m, m.dimension, which)
    blocks = [
        _Block(pair_heading(m, pair), _told(pair.count, "operation"), listed)
        for pair, listed in _pairs(m, kept, chosen, most)
    ]
    return str(m), m.dimension if kept is None else len(kept), blocks


def _told(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"


def pair_heading(m: EquivariantMap, pair: OrbitPair) -> str:
    """What stands above the operations between two orbits."""
    names = [m.inputs[pair.source.tensor].name, m.outputs[pair.target.tensor].name]
    orbits = [str(place.orbit) or "one value" for place in (pair.source, pair.target)]
    return " → ".join(
        f"{name}={orbit}" if name else orbit for name, orbit in zip(names, orbits, strict=True)
    )


def _pairs(
    m: EquivariantMap, kept: frozenset[Operation] | None, chosen: Sequence[int] | None, most: int
) -> Iterable[tuple[OrbitPair, list[tuple[int, Operation | ProductText]]]]:
    """The operations to draw by pairs of orbits."""
    left = most
    for pair in m.iter_pairs():
        listed: list[tuple[int, Operation | ProductText]]
        if chosen is not None:
            inside = [n for n in chosen if pair.start <= n < pair.start + pair.count]
            listed = [(n, m.operations[n]) for n in inside]
        else:
            classes = pair.source.orbit.classes, pair.target.orbit.classes
            made = (
                Operation(pair.source, pair.target, matrix)
                for matrix in overlaps(*classes, m.max_overlap)
            )
            numbered = ((n, o) for n, o in enumerate(made, pair.start) if kept is None or o in kept)
            listed = list(islice(numbered, left))
            left -= len(listed)
        if listed:
            yield pair, listed
        if left <= 0 or (chosen and pair.start + pair.count > chosen[-1]):
            return


def _draw(block: _Block, y: float, columns: int, theme: Theme, shapes: list[Shape]) -> float:
    """Draws one block below y; gives where the next begins."""
    wide = columns * (_TILE + _GAP) - _GAP
    shapes.append(
        Path(((0, y + 5), (wide, y + 5)), style=Style(stroke=theme.pale, width=1.2), part="rule")
    )
    shapes.append(
        Text(0, y + 19, block.heading, 9, is_code=True, style=Style(fill=theme.ink), part="pair")
    )
    shapes.append(
        Text(wide, y + 19, block.size, 8, "end", style=Style(fill=theme.faint), part="count")
    )
    y += 30
    for start in range(0, len(block.listed), columns):
        tiles = [tile(o, n, theme, _TILE) for n, o in block.listed[start : start + columns]]
        for k, (_, own) in enumerate(tiles):
            shapes += [shape.moved(k * (_TILE + _GAP), y) for shape in own]
        y += max(high for high, _ in tiles) + 18
    return y
