"""The same entries with other assignments of nodes to letters (docs/math.md section 2), and with
other orientations (section 16).
"""

from __future__ import annotations

from collections import Counter

import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.algebra.signs import orientation_sign
from incidence.structure import Structure, collate

__all__ = ["reoriented", "rewritten"]

# Assignments to draw for entries in which the same letters coincide; each entry gets one of them.
_MAX_DRAWN = 16
# For every letter of an entry: the first letter with the same node, then the open faces that this
# node lies in.
_Facts = tuple[tuple[int, ...], ...]


def rewritten(structure: Structure, generator: torch.Generator | None = None) -> Structure:
    """Return the structure with another random assignment for every entry, in the same orientation.

    Args:
        structure: One structure or a batch.
        generator: The generator of the random numbers.

    Example:
        >>> # two equal edges, in which either node may be i
        >>> s = Structure(3, {"{i j} {i k}": torch.tensor([[0], [1], [1]])})
        >>> t = rewritten(s)
        >>> t["{i j} {i k}"].T.tolist(), s == t
        ([[1, 0, 0]], True)
    """
    if not structure.patterns or not structure.num_structures:
        return structure
    parts = [
        one.with_index({str(p): _rewrite(one, p, generator) for p in structure.patterns})
        for one in structure
    ]
    return parts[0] if structure.num_structures == 1 else collate(parts)


def reoriented(
    structure: Structure, generator: torch.Generator | None = None
) -> tuple[Structure, dict[Pattern, Tensor]]:
    """Reverse the orientation of some random entries.

    Returns:
        The new structure, and the signs of the values of its oriented tensors.

    Example:
        >>> s = Structure(3, {"<i j>": torch.tensor([[0], [1]]), "{i j}": torch.tensor([[0], [1]])})
        >>> t, signs = reoriented(s)
        >>> t["<i j>"].tolist(), {str(p): sign.tolist() for p, sign in signs.items()}
        ([[1], [0]], {'<i j>': [-1]})
    """
    signs = {}
    for pattern in filter(lambda p: p.odd_pair is not None, structure.patterns):
        count = structure.num_entries(pattern)
        is_reversed = torch.rand(count, generator=generator) < 0.5
        if count:
            is_reversed[torch.randint(count, (1,), generator=generator)] = True
        structure, signs[pattern] = structure.reverse(pattern, is_reversed)
    return structure, signs


def _rewrite(structure: Structure, pattern: Pattern, generator: torch.Generator | None) -> object:
    index = structure[pattern]
    if not pattern.is_open:
        return _letters(pattern, index, (), generator)
    letters, *members = index if isinstance(index, tuple) else (None, index)
    shuffled = [m[:, torch.randperm(m.shape[1], generator=generator).to(m.device)] for m in members]
    if letters is None:
        return shuffled[0]
    return (_letters(pattern, letters, members, generator), *shuffled)


def _letters(
    pattern: Pattern,
    index: Tensor,
    members: tuple[Tensor, ...] | list[Tensor],
    generator: torch.Generator | None,
) -> Tensor:
    """Return other nodes for the letters, shape (letters, entries).

    Entries in which the same letters coincide share the search.
    """
    alike: dict[_Facts, list[int]] = {}
    contained = [set(zip(*m.flip(0).tolist(), strict=True)) for m in members]  # (entry, node)
    for number, column in enumerate(index.T.tolist()):
        alike.setdefault(_facts(pattern, number, column, contained), []).append(number)
    new = index.clone()
    for facts, numbers in alike.items():
        same = tuple(node for node, *_ in facts)
        sign = _orientation(pattern, same)
        drawn = {_assignment(pattern, facts, generator) for _ in range(_MAX_DRAWN)} - {same}
        others = sorted(letters for letters in drawn if _orientation(pattern, letters) == sign)
        if others:
            entries = torch.tensor(numbers, device=index.device)
            choice = torch.randint(len(others) + 1, (len(numbers),), generator=generator)
            choice[0] %= len(others)  # at least one entry changes
            assignments = torch.tensor([*others, same], device=index.device)
            letters = assignments[choice.to(index.device)].T  # (letters, entries)
            new[:, entries] = index[letters, entries]
    return new


def _orientation(pattern: Pattern, nodes: tuple[int, ...]) -> int:
    """Return the sign of the orientation of the oriented faces, from the node of every letter."""
    return orientation_sign(pattern.faces, dict(zip(pattern.fixed_letters, nodes, strict=True)))


def _facts(
    pattern: Pattern, number: int, column: list[int], contained: list[set[tuple[int, int]]]
) -> _Facts:
    sorts = [pattern.sorts[name] for name in pattern.fixed_letters]
    nodes = list(zip(sorts, column, strict=True))
    opened = [d for d, face in enumerate(pattern.faces) if face.is_open]
    facts = []
    for v in nodes:
        inside = (d for d, c in zip(opened, contained, strict=True) if (number, v[1]) in c)
        facts.append((nodes.index(v), *inside))
    return tuple(facts)


def _assignment(
    pattern: Pattern, facts: _Facts, generator: torch.Generator | None
) -> tuple[int, ...]:
    """Draw an assignment that leaves every face as it is, by a search in random order.

    Returns:
        For every letter, a letter whose node it takes.
    """
    names = pattern.fixed_letters
    fixed, opened = [], []  # the places in faces of fixed size, and the open faces, of every letter
    for name in names:
        signature = pattern.signatures[name]
        fixed.append(Counter(place for place in signature if not pattern.faces[place[0]].is_open))
        opened.append({d for d, _ in signature if pattern.faces[d].is_open})
    held: dict[int, Counter[tuple[int, int]]] = {}  # the places that every node still has to fill
    for places, (node, *_) in zip(fixed, facts, strict=True):
        held.setdefault(node, Counter()).update(places)
    may = {node: set(facts[node][1:]) for node in held}  # the open faces in which it lies

    def place(number: int) -> tuple[int, ...] | None:
        if number == len(names):
            return ()
        nodes = list(held)
        for k in torch.randperm(len(nodes), generator=generator).tolist():
            node = nodes[k]
            is_sort = pattern.sorts[names[node]] == pattern.sorts[names[number]]
            if is_sort and fixed[number] <= held[node] and opened[number] <= may[node]:
                held[node] -= fixed[number]
                rest = place(number + 1)
                held[node] += fixed[number]
                if rest is not None:
                    return (node, *rest)
        return None

    assignment = place(0)
    assert assignment is not None, "an entry has at least the assignment that it came with"
    return assignment
