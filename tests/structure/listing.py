"""Entries of a structure listed one by one in plain Python. Of the library only the reading of
patterns and indices is used.
"""

from collections.abc import Sequence
from itertools import permutations, product
from math import prod

from incidence.algebra import Pattern
from incidence.structure import Structure
from tests.algebra.brute_force import sign

Node = tuple[str, int]  # sort, number
Entry = tuple[tuple[Node, ...], ...]  # the nodes of every face; of an unordered one sorted


def entries_of(structure: Structure, text: str) -> list[Entry]:
    """The entries of a tensor, in the order of its rows."""
    pattern = Pattern(text)
    if not pattern.faces:
        return [()] * structure.num_structures
    index = structure[text]
    if not pattern.is_open:
        return [entry_of(pattern, column) for column in index.T.tolist()]
    letters, members = (
        ([], [index]) if not isinstance(index, tuple) else (index[0].T.tolist(), index[1:])
    )
    count = (
        len(letters)
        if pattern.fixed_letters
        else int(members[0][1].max()) + 1
        if members[0].numel()
        else 0
    )
    faces: list[list[set[int]]] = [[set() for _ in members] for _ in range(count)]
    for number, pairs in enumerate(members):
        for node, entry in pairs.T.tolist():
            faces[entry][number].add(node)
    return [
        entry_of(pattern, letters[k] if pattern.fixed_letters else [], faces[k])
        for k in range(count)
    ]


def entry_of(pattern: Pattern, letters: list[int], open_faces: Sequence[set[int]] = ()) -> Entry:
    """The entry that an assignment denotes."""
    at = dict(zip(pattern.fixed_letters, letters, strict=True))
    rest = iter(open_faces)
    faces = []
    for face in pattern.faces:
        if face.is_open:
            faces.append(tuple(sorted((face.letters[0].sort, node) for node in next(rest))))
        else:
            nodes = [(letter.sort, at[letter.name]) for letter in face.letters]
            faces.append(tuple(nodes if face.kind.is_ordered else sorted(nodes)))
    return tuple(faces)


def class_sets(
    entry: Entry, pattern: Pattern
) -> dict[tuple[str, tuple[tuple[int, int], ...]], frozenset[Node]]:
    """The nodes of an entry by sort and signature: in which faces they stand, and where (-1 in an
    unordered face).
    """
    places: dict[Node, list[tuple[int, int]]] = {}
    for number, (face, nodes) in enumerate(zip(pattern.faces, entry, strict=True)):
        for position, node in enumerate(nodes):
            places.setdefault(node, []).append((number, position if face.kind.is_ordered else -1))
    found: dict[tuple[str, tuple[tuple[int, int], ...]], set[Node]] = {}
    for node, where in places.items():
        found.setdefault((node[0], tuple(sorted(where))), set()).add(node)
    return {key: frozenset(nodes) for key, nodes in found.items()}


def oriented_faces(pattern: Pattern, letters: Sequence[int]) -> list[list[Node]]:
    """The nodes of the oriented faces in the order of an assignment."""
    at = dict(zip(pattern.fixed_letters, letters, strict=True))
    return [
        [(x.sort, at[x.name]) for x in face.letters]
        for face in pattern.faces
        if face.kind.is_oriented
    ]


def letters_of(structure: Structure, text: str) -> list[list[int]]:
    """The assignments of the letters in faces of fixed size, in the order of the rows."""
    index = structure[text]
    return (index[0] if isinstance(index, tuple) else index).T.tolist()


def orientation_signs(structure: Structure, text: str) -> list[int]:
    """For every entry the sign from its reference orientation to the order by class and node, as
    the mathematics says.
    """
    pattern, entries = Pattern(text), entries_of(structure, text)
    if not pattern.is_oriented:
        return [1] * len(entries)
    found = []
    for entry, letters in zip(entries, letters_of(structure, text), strict=True):
        sets = class_sets(entry, pattern)
        rank = {
            node: (signature, sort, node)
            for (sort, signature), nodes in sets.items()
            for node in nodes
        }
        found.append(
            prod(sign([rank[node] for node in face]) for face in oriented_faces(pattern, letters))
        )
    return found


def assignment_of(entry: Entry, pattern: Pattern) -> list[int]:
    """Nodes for the letters of a pattern that denote an entry: the first that some ordering of its
    unordered faces gives.
    """
    orders = (
        [nodes] if face.kind.is_ordered else permutations(nodes)
        for face, nodes in zip(pattern.faces, entry, strict=True)
    )
    for faces in product(*orders):
        at: dict[str, Node] = {}
        pairs = [
            pair
            for face, nodes in zip(pattern.faces, faces, strict=True)
            for pair in zip(face.letters, nodes, strict=True)
        ]
        if all(
            letter.sort == node[0] and at.setdefault(letter.name, node) == node
            for letter, node in pairs
        ):
            return [at[name][1] for name in pattern.letters]
    raise AssertionError(f"{entry} is no entry of {pattern}")
