"""One operation, or one product, as a formula and in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice
from math import comb
from typing import TYPE_CHECKING, NamedTuple

from incidence.algebra.products import ProductText, needs_join

if TYPE_CHECKING:
    from incidence.algebra.maps import Operation

__all__ = ["OperationReading", "ProductReading", "read", "read_product"]

_NUMBERS = ["", "", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]

Names = list[list[str]]
"""A list of names of nodes for every class."""


@dataclass(frozen=True)
class OperationReading:
    """One operation as a formula and in words.

    Attributes:
        formula, words: What the operation computes.
        x, y: The names of the nodes of every face of the input and of the output. A name in both
            stands for a node that they share.
    """

    formula: str
    words: str
    x: tuple[tuple[str, ...], ...]
    y: tuple[tuple[str, ...], ...]

    def __str__(self) -> str:
        return f"{self.formula}: {self.words}"


def read(operation: Operation) -> OperationReading:
    """Return an operation as a formula and in words.

    A node that input and output share has one name. Nodes of the input alone are summed over, and
    values are copied along nodes of the output alone.

    Example:
        >>> from incidence.algebra import EquivariantMap
        >>> print(read(EquivariantMap("i j -> i j k").operations[-2]))
        y[i a j] = x[i j]: match i, j; copy along a
        >>> print(read(EquivariantMap("<i j> -> i").operations[0]))
        y[i] = sum_j x[<j i>]: boundary (divergence): signed sum over j; match i
    """
    source, target = operation.source.orbit, operation.target.orbit
    matched, summed = _split_names(operation)
    from_source = [_join(row) for row in matched]
    into_target = [_join([row[j] for row in matched]) for j in range(len(target.classes))]
    # Letters of the output that the input lacks come from another part of the alphabet.
    fresh = _names("abcdefgh", used={*_join(source.node_names), *_join(from_source)})
    copied = [
        list(islice(fresh, max(0, (c.size or 0) - len(shared))))
        for c, shared in zip(target.classes, into_target, strict=True)
    ]
    # With unmatched nodes first and the cells in order, values of oriented faces need no sign.
    xs = [
        left + shared if c.is_odd else shared + left
        for c, shared, left in zip(source.classes, from_source, summed, strict=True)
    ]
    ys = [
        new + shared if c.is_odd else shared + new
        for c, shared, new in zip(target.classes, into_target, copied, strict=True)
    ]
    over = _join(summed)
    total = ""
    if over:
        total = f"sum_{','.join(over)} "
    elif source.is_open:
        total = "sum "
    formula = f"y[{target.write(ys)}] = {total}x[{source.write(xs)}]"
    words = _words(operation, over, sorted(_join(into_target)), _join(copied))
    x, y = (
        tuple(map(tuple, orbit.names_by_face(names)))
        for orbit, names in ((source, xs), (target, ys))
    )
    return OperationReading(formula, words, x, y)


def _join(lists: Sequence[Sequence[str]]) -> list[str]:
    return [name for names in lists for name in names]


def _names(letters: str, used: set[str]) -> Iterator[str]:
    """Yield names that are not used, forever: a, b, ..., a1, b1, ..."""
    every = (f"{letter}{number or ''}" for number in count() for letter in letters)
    return (name for name in every if name not in used)


def _split_names(operation: Operation) -> tuple[list[Names], Names]:
    """Split the names of the nodes of every input class.

    Returns:
        The names matched with each output class, shape (input classes, output classes, names); and
        the names that are summed over, shape (input classes, names).
    """
    source = operation.source.orbit
    fresh = _names("uvwpqrst", used=set(_join(source.node_names)))
    matched: list[Names] = []
    summed: Names = []
    for c, names, row in zip(source.classes, source.node_names, operation.overlap, strict=True):
        # An open class has names for its matched nodes only.
        left = iter(list(islice(fresh, sum(row))) if c.is_open else names)
        matched.append([list(islice(left, size)) for size in row])
        summed.append(list(left))
    return matched, summed


def _words(operation: Operation, over: list[str], shared: list[str], along: list[str]) -> str:
    source, target = operation.source.orbit, operation.target.orbit
    same = ", ".join(shared)
    containing = f" that contain {same}" if shared else ""
    ranges = []
    if over:
        ranges.append(("" if shared else "all ") + ", ".join(over))
    if source.is_open:
        ranges.append(f"all faces{containing}")
    parts = []
    if ranges:
        signed = "signed " if any(kind.is_oriented for kind, _ in source.kinds) else ""
        parts.append(f"{signed}sum over {' and '.join(ranges)}")
    # "All faces that contain ..." says already what is matched.
    if shared and (over or not source.is_open):
        parts.append(f"match {same}")
    if along:
        parts.append(f"copy along {', '.join(along)}")
    if target.is_open:
        parts.append(f"copy to all faces{containing}")
    parts += _choices(operation, same)
    words = "; ".join(parts) or "take the value"
    familiar = _familiar(operation)
    return f"{familiar}: {words}" if familiar else words


_BY_SIZES = {(2, 1): " (divergence)", (1, 2): " (gradient)", (2, 3): " (curl)"}
_BY_KINDS = {  # brackets of edges, and the number of matched nodes
    ("<", "(", 2): "antisymmetric matrix",
    ("(", "<", 2): "antisymmetric part",
    ("<", "{", 1): "divergences of both ends",
    ("{", "<", 1): "gradient of sums at nodes",
}


def _familiar(operation: Operation) -> str:
    """Return the usual name of an operation between two faces, one of them oriented, or "".

    docs/math.md section 16 lists these names.
    """
    source, target = operation.source.orbit, operation.target.orbit
    if not len(source.kinds) == len(target.kinds) == 1:
        return ""
    if not any(c.is_odd for c in source.classes + target.classes):
        return ""
    sizes, matched = (source.size, target.size), sum(map(sum, operation.overlap))
    [(kind, _)], [(its_kind, _)] = source.kinds, target.kinds
    # A node, whose bracket is empty, counts as oriented.
    if all(
        len(orbit.classes) == 1 and orbit.kinds[0][0].opening in "<" for orbit in (source, target)
    ):
        if abs(sizes[0] - sizes[1]) == 1:
            name = "boundary" if sizes[0] > sizes[1] else "coboundary"
            return name + _BY_SIZES.get(sizes, "")
        return "down Laplacian" if matched < sizes[0] else ""
    # Between faces of other sizes there are no usual names.
    if sizes != (2, 2):
        return ""
    return _BY_KINDS.get((kind.opening, its_kind.opening, matched), "")


def _choices(operation: Operation, same: str) -> list[str]:
    """Return a remark if the matched nodes can be chosen in several ways in the output entry."""
    classes = operation.target.orbit.classes
    ways = 1
    for j, c in enumerate(classes):
        sizes = [row[j] for row in operation.overlap]
        if c.is_open and any(sizes):
            return [f"add up all choices of {same} in the face"]
        left = c.size or 0
        # A multinomial: the ways to choose the matched nodes among those of the class.
        for size in sizes if not c.is_open else ():
            ways, left = ways * comb(left, size), left - size
    if ways == 1:
        return []
    number = _NUMBERS[ways] if ways < len(_NUMBERS) else str(ways)
    signs = ", with signs" if any(c.is_odd for c in classes) else ""
    return [f"add up the {number} choices of {same}{signs}"]


class ProductReading(NamedTuple):
    """One product as a formula and in words."""

    formula: str
    words: str

    def __str__(self) -> str:
        return f"{self.formula}: {self.words}"


def read_product(product: ProductText) -> ProductReading:
    """Return a product as a formula and in words.

    Example:
        >>> print(read_product(ProductText("i j, j k -> i k")))
        y[i k] = sum_j x1[i j] x2[j k]: sum over j; by a join
    """
    factors = " ".join(
        f"x{number}[{pattern.unnamed()}]" for number, pattern in enumerate(product.operands, 1)
    )
    total, parts = "", []
    if product.summed:
        total = f"sum_{','.join(product.summed)} "
        parts.append(f"sum over {', '.join(product.summed)}")
    if product.copied:
        parts.append(f"copy along {', '.join(product.copied)}")
    if needs_join(product):
        parts.append("by a join")
    formula = f"y[{product.output.unnamed()}] = {total}{factors}"
    return ProductReading(formula, "; ".join(parts) or "entry by entry")
