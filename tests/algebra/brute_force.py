"""The mathematics by exhaustion, sharing no code with the library: entries, and orbits of the group on pairs of entries.

A pattern is given as data: faces are (kind, letters) with kind "n", "(", "{" or "[", and letters carry a sort.
"""

import re
from itertools import permutations, product
from typing import NamedTuple


class RawFace(NamedTuple):
    kind: str
    letters: tuple[str, ...]


RawPattern = tuple[RawFace, ...]
Node = tuple[str, int]  # sort, number


def write(pattern: RawPattern, sorts: dict[str, str]) -> str:
    closing = {"(": ")", "{": "}", "[": "]"}

    def face(f: RawFace) -> str:
        inside = " ".join(x if sorts[x] == "node" else f"{x}:{sorts[x]}" for x in f.letters)
        return inside if f.kind == "n" else f"{f.kind}{inside}{closing[f.kind]}"

    return " ".join(map(face, pattern))


def read(text: str) -> tuple[RawPattern, dict[str, str]]:
    faces, sorts = [], {}
    for bracketed, single in re.findall(r"([({\[][^)}\]]*[)}\]])|(\S+)", text):
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
    return tuple(sorted(nodes)) if kind in "{[" else tuple(nodes)


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
    return tuple(_face([g[v] for v in nodes], f.kind) for f, nodes in zip(pattern, entry, strict=True))


def num_orbits_on_pairs(source: RawPattern, target: RawPattern, sorts: dict[str, str], num_nodes: dict[str, int]) -> int:
    """The number of orbits of the relabellings on pairs of an input and an output entry: union by generators."""
    pairs = list(product(entries(source, sorts, num_nodes), entries(target, sorts, num_nodes)))
    parent = {pair: pair for pair in pairs}

    def root(pair: tuple) -> tuple:
        while parent[pair] != pair:
            parent[pair] = parent[parent[pair]]
            pair = parent[pair]
        return pair

    for g in generators(num_nodes):
        for x, y in pairs:
            parent[root((x, y))] = root((relabelled(x, source, g), relabelled(y, target, g)))
    return sum(root(pair) == pair for pair in pairs)


def all_relabellings(num_nodes: int) -> list[tuple[int, ...]]:
    return list(permutations(range(num_nodes)))
