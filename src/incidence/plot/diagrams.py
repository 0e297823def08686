"""`plot.operation` and `plot.operations`: what a map can do, as pictures. Standard library only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice
from typing import Any, NamedTuple

from incidence.algebra.layers import Layer, is_layer, is_module
from incidence.algebra.maps import EquivariantMap, Operation, OrbitPair, as_map
from incidence.algebra.multilinear import MultilinearMap
from incidence.algebra.overlap import overlaps
from incidence.algebra.products import ProductText
from incidence.errors import IncidenceError
from incidence.plot.picture import Picture, assert_at_least_one
from incidence.plot.scene import Mark, Scene, label, line
from incidence.plot.theme import Theme, theme_of
from incidence.plot.wiring import key_of_roles, tile

__all__ = ["nodes_heading", "operation", "operations", "pair_heading"]

_TILE, _GAP = 156.0, 16.0  # points: the width of an operation, and the space beside it

Numbered = list[tuple[int, Operation | ProductText]]


def operation(
    what: Operation | ProductText, number: int | None = None, *, theme: str | Theme = "light"
) -> Picture:
    r"""Draw one operation: which nodes are matched, summed over and copied along; its formula and
    words below.

    The faces of the input stand at the left and those of the output at the right: sets are round,
    tuples square with an arrow along them. A node that both have is a dot between them, one that is
    summed over a sigma, one that is copied along a ring. The operands of a product stand below each
    other, and the wires of a letter that they share meet in one knot.

    Args:
        what: The operation, as in `EquivariantMap("i j -> i").operations[0]`; or a product, as in
            `ProductText("i j, j k -> i k")`.
        number: Its number, to be shown.
        theme: `light` or `dark`.

    Example:
        >>> sum_over_j = operation(EquivariantMap("i j -> i").operations[4])  # y[i] = sum_j x[j i]
        >>> [len(sum_over_j.scene.of(part)) for part in ("matched", "summed", "copied")]
        [1, 1, 0]
        >>> product = operation(ProductText("i j, j k -> i k"))
        >>> len(product.scene.of("wire"))  # j has two, which meet where it is summed over
        4
    """
    if not isinstance(what, (Operation, ProductText)):
        raise IncidenceError(
            "plot.operation draws a ProductText, or an Operation, as in EquivariantMap('i ->"
            f" i').operations[0]; got {type(what).__name__}."
        )
    look = theme_of(theme)
    _, marks = tile(what, number, look, 210.0)
    return Picture(Scene.around(marks), look, str(what))


class _Block(NamedTuple):
    """Operations under one heading, with their numbers; `size` says how many there are in all."""

    heading: str
    size: str
    listed: Numbered


def operations(
    what: EquivariantMap | MultilinearMap | str | Any,
    which: Iterable[int] | None = None,
    *,
    columns: int = 4,
    most: int = 60,
    theme: str | Theme = "light",
) -> Picture:
    """Draw the operations of a map, or those that a layer has: by pairs of orbits, with the numbers
    that `explain` gives them.

    Products, such as those of `i j * i j -> i j`, are drawn by how many nodes they have.

    Args:
        what: A map, its text, or a layer.
        which: The numbers of the operations to draw. Default: the first ones.
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
    listed = _products if _is_product(what) else _operations
    m, total, blocks = listed(what, which, most)
    title = label(
        0,
        12,
        m,
        12,
        look.ink,
        "title",
        is_code=True,
        is_bold=True,
    )
    marks: list[Mark] = [title]
    y = 20.0
    for block in blocks:
        y = _draw(block, y, columns, look, marks)
    drawn = sum(len(block.listed) for block in blocks)
    marks += [mark.moved(0, y + 6) for mark in key_of_roles(look)]
    if drawn < total and which is None:
        note = (
            f"and {total - drawn:,} more: plot.operations(map, which=range({drawn}, ...)) draws"
            " others"
        )
        marks.append(label(200, y + 9, note, 8, look.faint, "note"))
    return Picture(Scene.around(marks, 12), look, f"operations of {m}")


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
    """A multilinear map as text, how many products it or its layer has, and those to draw."""
    given = MultilinearMap(what) if isinstance(what, str) else what
    m = given if isinstance(given, MultilinearMap) else given.map
    products = given.products
    total = len(products)
    chosen = range(min(most, total)) if which is None else _numbers(m, total, which)
    # ascending, as products are listed by size
    sizes = [len(product.letters) for product in products]
    blocks = []
    for size, numbers in groupby(chosen, key=lambda number: sizes[number]):
        listed: Numbered = [(number, products[number]) for number in numbers]
        count = _counted(sizes.count(size), "product")
        blocks.append(_Block(nodes_heading(size), count, listed))
    return str(m), total, blocks


def _operations(what: Any, which: Iterable[int] | None, most: int) -> tuple[str, int, list[_Block]]:
    """The same for a linear map."""
    layer = Layer(what) if is_layer(what) else None
    m = as_map(what) if layer is None else layer.map
    present = None if layer is None else layer.kept
    chosen = None if which is None else _numbers(m, m.dimension, which)
    blocks = [
        _Block(pair_heading(m, pair), _counted(pair.count, "operation"), listed)
        for pair, listed in _pairs(m, present, chosen, most)
    ]
    return str(m), m.dimension if present is None else len(present), blocks


def _counted(count: int, what: str) -> str:
    return f"1 {what}" if count == 1 else f"{count:,} {what}s"


def nodes_heading(size: int) -> str:
    """Return the heading of products with so many nodes."""
    return _counted(size, "node")


def pair_heading(m: EquivariantMap, pair: OrbitPair) -> str:
    """Return the heading of the operations between two orbits."""
    names = [m.inputs[pair.source.tensor].name, m.outputs[pair.target.tensor].name]
    orbits = [str(place.orbit) or "one value" for place in (pair.source, pair.target)]
    return " → ".join(
        f"{name}={orbit}" if name else orbit for name, orbit in zip(names, orbits, strict=True)
    )


def _pairs(
    m: EquivariantMap,
    present: frozenset[Operation] | None,
    chosen: Sequence[int] | None,
    most: int,
) -> Iterator[tuple[OrbitPair, Numbered]]:
    """The operations to draw by pairs of orbits: the chosen ones, else the first that a layer
    has.
    """
    # Generators throughout: a map may have far more operations than anybody draws.
    left = most
    for pair in m.iter_pairs():
        stop = pair.start + pair.count
        if chosen is None:
            numbered = enumerate(_operations_of(m, pair), pair.start)
            allowed = ((n, o) for n, o in numbered if present is None or o in present)
            listed: Numbered = list(islice(allowed, left))
            left -= len(listed)
        else:
            listed = [(n, m.operations[n]) for n in chosen if pair.start <= n < stop]
        if listed:
            yield pair, listed
        if left <= 0 or (chosen and stop > chosen[-1]):  # nothing more to draw
            return


def _operations_of(m: EquivariantMap, pair: OrbitPair) -> Iterator[Operation]:
    classes = pair.source.orbit.classes, pair.target.orbit.classes
    for matrix in overlaps(*classes, m.max_overlap):
        yield Operation(pair.source, pair.target, matrix)


def _draw(block: _Block, y: float, columns: int, theme: Theme, marks: list[Mark]) -> float:
    """Draw one block below y, and return where the next begins."""
    wide = columns * (_TILE + _GAP) - _GAP  # of a row; no space after the last one
    marks += [
        line(((0, y + 5), (wide, y + 5)), theme.pale, 1.2, "rule"),
        label(
            0,
            y + 19,
            block.heading,
            9,
            theme.ink,
            "pair",
            is_code=True,
        ),
        label(wide, y + 19, block.size, 8, theme.faint, "count", "end"),
    ]
    y += 30
    for start in range(0, len(block.listed), columns):
        row = block.listed[start : start + columns]
        tiles = [tile(what, number, theme, _TILE) for number, what in row]
        for k, (_, drawn) in enumerate(tiles):
            marks += [mark.moved(k * (_TILE + _GAP), y) for mark in drawn]
        y += max(high for high, _ in tiles) + 18  # the highest of a row decides
    return y
