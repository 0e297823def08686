"""The mathematics by exhaustion, sharing no code with the library: entries, and orbits of the group
on pairs of entries.

A pattern is given as data: faces are (kind, letters) with kind "n", "(", "{", "[" or "<", and
letters carry a sort. An entry has the nodes of its unordered faces in ascending order, which is the
reference orientation of oriented ones.
"""

import re
from collections.abc import Sequence
from itertools import combinations, permutations, product
from math import prod
from typing import NamedTuple


class RawFace(NamedTuple):
    kind: str
    letters: tuple[str, ...]


RawPattern = tuple[RawFace, ...]
Node = tuple[str, int]  # sort, number


def write(pattern: RawPattern, sorts: dict[str, str]) -> str:
    closing = {"(": ")", "{": "}", "[": "]", "<": ">"}

    def face(f: RawFace) -> str:
        inside = " ".join(x if sorts[x] == "node" else f"{x}:{sorts[x]}" for x in f.letters)
        return inside if f.kind == "n" else f"{f.kind}{inside}{closing[f.kind]}"

    return " ".join(map(face, pattern))


def read(text: str) -> tuple[RawPattern, dict[str, str]]:
    faces, sorts = [], {}
    for bracketed, single in re.findall(r"([({\[<][^)}\]>]*[)}\]>])|(\S+)", text):
        words = bracketed[1:-1].split() if bracketed else [single]
        letters = []
        for word in words:
            letter, _, sort = word.partition(":")
            sorts[letter] = sort or "node"
            letters.append(letter)
        faces.append(RawFace(bracketed[:1] or "n", tuple(letters)))
    return tuple(faces), sorts


def entries(pattern: RawPattern, sorts: dict[str, str], num_nodes: dict[str, int]) -> set:
    """All entries: the images of the faces under assignments of nodes to letters."""
    letters = sorted({x for face in pattern for x in face.letters})
    found = set()
    for nodes in product(*([(sorts[x], n) for n in range(num_nodes[sorts[x]])] for x in letters)):
        at = dict(zip(letters, nodes, strict=True))
        if all(f.kind == "[" or len({at[x] for x in f.letters}) == len(f.letters) for f in pattern):
            found.add(tuple(_face([at[x] for x in f.letters], f.kind) for f in pattern))
    return found


def _face(nodes: list[Node], kind: str) -> tuple:
    return tuple(sorted(nodes)) if kind in "{[<" else tuple(nodes)


def generators(num_nodes: dict[str, int]) -> list[dict[Node, Node]]:
    """A transposition and a cycle for every sort: together they generate all relabellings."""
    found = []
    for sort, n in num_nodes.items():
        for image in ([1, 0, *range(2, n)], [*range(1, n), 0]):
            if n > 1:
                identity = {(s, i): (s, i) for s, m in num_nodes.items() for i in range(m)}
                found.append(identity | {(sort, i): (sort, j) for i, j in enumerate(image)})
    return found


def relabelled(entry: tuple, pattern: RawPattern, g: dict[Node, Node]) -> tuple:
    return tuple(
        _face([g[v] for v in nodes], f.kind) for f, nodes in zip(pattern, entry, strict=True)
    )


def sign(nodes: Sequence[Node]) -> int:
    """The sign of the permutation that sorts a list of different nodes."""
    return (-1) ** sum(one > other for one, other in combinations(nodes, 2))


def reversal(entry: tuple, pattern: RawPattern, g: dict[Node, Node]) -> int:
    """By which sign a relabelling brings the reference orientation of an entry to that of the
    relabelled one.
    """
    return prod(
        sign([g[v] for v in nodes])
        for f, nodes in zip(pattern, entry, strict=True)
        if f.kind == "<"
    )


def num_orbits_on_pairs(
    source: RawPattern, target: RawPattern, sorts: dict[str, str], num_nodes: dict[str, int]
) -> int:
    """The number of orbits of the relabellings on pairs of an input and an output entry that carry
    a function with the right signs.

    The signs are followed along generators; where they come back to a pair reversed, the function
    is 0 on its orbit.
    """
    steps = generators(num_nodes)
    signs: dict[tuple, int] = {}
    count = 0
    for start in product(entries(source, sorts, num_nodes), entries(target, sorts, num_nodes)):
        if start in signs:
            continue
        signs[start] = 1
        found, is_consistent = [start], True
        while found:
            x, y = found.pop()
            for g in steps:
                pair = relabelled(x, source, g), relabelled(y, target, g)
                its = signs[x, y] * reversal(x, source, g) * reversal(y, target, g)
                if pair not in signs:
                    signs[pair] = its
                    found.append(pair)
                is_consistent &= signs[pair] == its
        count += is_consistent
    return count


def all_relabellings(num_nodes: int) -> list[tuple[int, ...]]:
    return list(permutations(range(num_nodes)))
