"""Products by their definition, in plain Python: all assignments of nodes to letters, one structure
at a time. No tables, no joins.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations, permutations, product
from math import prod

import torch
from torch import Tensor

from incidence.algebra.grammar import TensorSyntax, parse
from incidence.algebra.pattern import Pattern
from incidence.structure import Structure, uncollate
from incidence.structure.data import support_of

Nodes = dict[str, int]


def sign(values: Sequence[int]) -> int:
    """The sign of the permutation that puts different values in order."""
    return prod(-1 if a > b else 1 for a, b in combinations(values, 2))


def entry(tensor: TensorSyntax, nodes: Nodes) -> tuple[object, int] | None:
    """The entry of an assignment, with the sign of the order of its oriented faces; None where
    nodes of a face should differ and do not.
    """
    faces, orientation = [], 1
    for face in tensor.faces:
        own = [(letter.sort, nodes[letter.name]) for letter in face.letters]
        if face.kind.is_distinct and len(set(own)) < len(own):
            return None
        if face.kind.is_oriented:
            orientation *= sign(own)
        faces.append(tuple(own) if face.kind.is_ordered else tuple(sorted(own)))
    return tuple(faces), orientation


def exchanged(tensors: Sequence[TensorSyntax], p: str, q: str) -> bool:
    """Whether exchanging two letters changes nothing but the order in unordered faces."""
    swap = {p: q, q: p}
    for face in (face for tensor in tensors for face in tensor.faces):
        before = [(letter.name, letter.sort) for letter in face.letters]
        after = [(swap.get(name, name), sort) for name, sort in before]
        if before != after if face.kind.is_ordered else sorted(before) != sorted(after):
            return False
    return True


def assignments(tensors: Sequence[TensorSyntax], structure: Structure) -> Iterator[Nodes]:
    """All assignments, but of those that differ by exchanging exchangeable letters only the
    first.
    """
    sorts = {
        letter.name: letter.sort
        for tensor in tensors
        for face in tensor.faces
        for letter in face.letters
    }
    pairs = [
        (p, q)
        for p, q in combinations(sorts, 2)
        if sorts[p] == sorts[q] and exchanged(tensors, p, q)
    ]
    for values in product(*(range(structure.counts[sort]) for sort in sorts.values())):
        nodes = dict(zip(sorts, values, strict=True))
        if all(nodes[p] <= nodes[q] for p, q in pairs):
            yield nodes


def stored(structure: Structure, tensor: TensorSyntax) -> dict[object, tuple[int, int]]:
    """The row of every entry of the tensor that a text reads, and the sign of the order in which it
    is stored.
    """
    support = support_of(structure, Pattern(tensor))
    columns = structure.index(support)[0].T.tolist()
    found = {}
    for row, column in enumerate(columns):
        known = entry(
            TensorSyntax(None, support.faces), dict(zip(support.letters, column, strict=True))
        )
        assert known is not None
        found[known[0]] = row, known[1]
    return found


def one_product(text: str, xs: Sequence[Tensor], structure: Structure) -> Tensor:
    """The product on one structure."""
    operands, [output] = parse(text, is_map=True, may_repeat=True)
    rows = [stored(structure, tensor) for tensor in (*operands, output)]
    y = [torch.zeros(max(x.shape[1] for x in xs), dtype=xs[0].dtype)] * len(rows[-1])
    for nodes in assignments((*operands, output), structure):
        found = [entry(tensor, nodes) for tensor in (*operands, output)]
        if any(one is None or one[0] not in known for one, known in zip(found, rows, strict=True)):
            continue
        places = [known[one[0]] for one, known in zip(found, rows, strict=True) if one is not None]
        factor = prod(one[1] for one in found if one is not None) * prod(
            orientation for _, orientation in places
        )
        row = places[-1][0]
        y[row] = y[row] + factor * prod(
            (x[place] for x, (place, _) in zip(xs, places, strict=False)),
            start=torch.ones(1, dtype=xs[0].dtype),
        )
    return torch.stack(y) if y else xs[0].new_zeros(0, max(x.shape[1] for x in xs))


def product_by_definition(text: str, xs: Sequence[Tensor], structure: Structure) -> Tensor:
    """The product on a structure or a batch."""
    parts = uncollate(structure)
    operands, _ = parse(text, is_map=True, may_repeat=True)
    lengths = [
        [part.num_entries(support_of(part, Pattern(tensor))) for part in parts]
        for tensor in operands
    ]
    split = zip(*(x.split(own) for x, own in zip(xs, lengths, strict=True)), strict=True)
    return torch.cat([one_product(text, own, part) for own, part in zip(split, parts, strict=True)])


def softmax_by_definition(x: Tensor, pattern: str, over: str, structure: Structure) -> Tensor:
    """The softmax on one structure: all ways to write an entry must give one key."""
    [[tensor]] = parse(pattern, is_map=False)
    letters = Pattern(pattern).letters
    keys = []
    for column in structure[pattern].T.tolist():
        nodes = dict(zip(letters, column, strict=True))
        whole, ways = entry(tensor, nodes), set()
        for values in permutations(column) if len(set(column)) == len(column) else [tuple(column)]:
            other = dict(zip(letters, values, strict=True))
            if entry(tensor, other) == whole:
                ways.add(
                    tuple(
                        tuple(
                            sorted(other[x.name] for x in f.letters if x.name not in over.split())
                        )
                        for f in tensor.faces
                    )
                )
        [key] = ways
        keys.append(key)
    same = torch.tensor([[a == b for b in keys] for a in keys]).view(len(keys), len(keys))
    return x.exp() / (same.to(x.dtype) @ x.exp())
