"""One operation as a formula and in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, islice
from math import comb
from typing import TYPE_CHECKING

from incidence.algebra.orbit import Orbit

if TYPE_CHECKING:
    from incidence.algebra.maps import Operation

__all__ = ["Reading", "read"]

_NUMBER_WORDS = (
    "no",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
)


@dataclass(frozen=True)
class Reading:
    """One operation as a formula and in words.

    Attributes:
        formula, words: What it does.
        x, y: The names of the nodes of every face of the input and of the output; a name in both is a node that they share.
    """

    formula: str
    words: str
    x: tuple[tuple[str, ...], ...]
    y: tuple[tuple[str, ...], ...]

    def __str__(self) -> str:
        return f"{self.formula}: {self.words}"


def read(operation: Operation) -> Reading:
    """Puts an operation into a formula and words.

    Nodes that input and output share have one name; nodes of the input alone are summed over; nodes of the output alone are
    broadcast along.

    Example:
        >>> from incidence.algebra import EquivariantMap
        >>> print(read(EquivariantMap("i j -> i j k").operations[-2]))
        y[i a j] = x[i j]: match i, j; copy along a
        >>> print(read(EquivariantMap("<i j> -> i").operations[0]))
        y[i] = sum_j x[<j i>]: boundary (divergence): signed sum over j; match i
    """
    source, target = operation.source.orbit, operation.target.orbit
    matched, summed = _split_source(source, operation)
    used = {name for names in source.node_names for name in names} | {
        n for row in matched for c in row for n in c
    }
    into = [[n for row in matched for n in row[j]] for j in range(len(target.classes))]
    fresh = _names("abcdefgh", used)
    copied = [
        [next(fresh) for _ in range((c.size or len(i)) - len(i))]
        for c, i in zip(target.classes, into, strict=True)
    ]
    # With unmatched nodes first and the cells in order, values of oriented faces need no sign.
    ys = [
        new + kept if c.is_odd else kept + new
        for c, kept, new in zip(target.classes, into, copied, strict=True)
    ]
    rows = [[n for c in row for n in c] for row in matched]
    xs = [
        left + row if c.is_odd else row + left
        for c, row, left in zip(source.classes, rows, summed, strict=True)
    ]
    over = [name for names in summed for name in names]
    is_pooled = bool(over) or any(c.is_open for c in source.classes)
    sign = f"sum_{','.join(over)} " if over else "sum " if is_pooled else ""
    formula = f"y[{target.write(ys)}] = {sign}x[{source.write(xs)}]"
    x, y = (
        tuple(map(tuple, orbit.names_by_face(names)))
        for orbit, names in ((source, xs), (target, ys))
    )
    return Reading(formula, _words(operation, over, into, copied), x, y)


def _names(letters: str, used: set[str]) -> Iterator[str]:
    return (name for n in count() for c in letters if (name := f"{c}{n or ''}") not in used)


def _split_source(
    source: Orbit, operation: Operation
) -> tuple[list[list[list[str]]], list[list[str]]]:
    """The names of the nodes of every input class, split into those matched with each output class and those summed over."""
    used = {name for names in source.node_names for name in names}
    fresh = _names("uvwpqrst", used)
    matched: list[list[list[str]]] = []
    summed: list[list[str]] = []
    for c, names, row in zip(source.classes, source.node_names, operation.overlap, strict=True):
        left = iter(list(islice(fresh, sum(row))) if c.is_open else names)
        matched.append([list(islice(left, a)) for a in row])
        summed.append(list(left))
    return matched, summed


def _words(
    operation: Operation, over: list[str], into: list[list[str]], copied: list[list[str]]
) -> str:
    kept = sorted(name for names in into for name in names)
    along = [name for names in copied for name in names]
    from_open, to_open = (
        any(c.is_open for c in place.orbit.classes)
        for place in (operation.source, operation.target)
    )
    choices = _choices(operation, kept)
    parts = []
    if over or from_open:
        nodes = [("all " * (not kept)) + ", ".join(over)] if over else []
        faces = ["all faces" + f" that contain {', '.join(kept)}" * bool(kept)] if from_open else []
        signed = "signed " * any(kind.is_oriented for kind, _ in operation.source.orbit.kinds)
        parts.append(f"{signed}sum over {' and '.join(nodes + faces)}")
    if kept and not (from_open and not over):
        parts.append(f"match {', '.join(kept)}")
    if along:
        parts.append(f"copy along {', '.join(along)}")
    if to_open:
        parts.append("copy to all faces" + f" that contain {', '.join(kept)}" * bool(kept))
    if choices:
        parts.append(choices)
    familiar = _familiar(operation)
    return f"{familiar}: " * bool(familiar) + ("; ".join(parts) or "take the value")


_BY_SIZES = {(2, 1): " (divergence)", (1, 2): " (gradient)", (2, 3): " (curl)"}
_BY_KINDS = {  # brackets of edges, and the number of matched nodes
    ("<", "(", 2): "antisymmetric matrix",
    ("(", "<", 2): "antisymmetric part",
    ("<", "{", 1): "divergences of both ends",
    ("{", "<", 1): "gradient of sums at nodes",
}


def _familiar(operation: Operation) -> str:
    """The name of an operation between two faces, one of them oriented (docs/math.md section 16); empty where it has none."""
    source, target = operation.source.orbit, operation.target.orbit
    if not (
        len(source.kinds) == len(target.kinds) == 1
        and any(c.is_odd for c in source.classes + target.classes)
    ):
        return ""
    sizes, total = (source.size, target.size), sum(map(sum, operation.overlap))
    if all(
        len(orbit.classes) == 1 and orbit.kinds[0][0].opening in "<" for orbit in (source, target)
    ):  # a node counts as oriented
        if abs(sizes[0] - sizes[1]) == 1:
            return ("boundary" if sizes[0] > sizes[1] else "coboundary") + _BY_SIZES.get(sizes, "")
        return "down Laplacian" if total < sizes[0] else ""
    [(one, _)], [(other, _)] = source.kinds, target.kinds
    return _BY_KINDS.get((one.opening, other.opening, total), "") if sizes == (2, 2) else ""


def _choices(operation: Operation, kept: list[str]) -> str:
    """A remark where the matched nodes can be chosen in several ways in the output, which are then added up."""
    ways, is_open = 1, False
    for j, c in enumerate(operation.target.orbit.classes):
        column = [row[j] for row in operation.overlap]
        is_open |= c.is_open and any(column)
        left = c.size or 0
        for a in column:
            ways, left = ways * comb(left, a) if not c.is_open else ways, left - a
    if is_open:
        return f"add up all choices of {', '.join(kept)} in the face"
    if ways == 1:
        return ""
    count = _NUMBER_WORDS[ways] if ways < len(_NUMBER_WORDS) else str(ways)
    signs = ", with signs" * any(c.is_odd for c in operation.target.orbit.classes)
    return f"add up the {count} choices of {', '.join(kept)}{signs}"
