"""Random structures of any pattern, made without the library's own: entries come from random
assignments, and so does their spelling.
"""

from collections.abc import Mapping, Sequence
from random import Random

import torch
from torch import Tensor

from incidence.algebra import Pattern
from incidence.structure import Structure
from tests.structure.listing import entry_of


def random_index(
    pattern: Pattern, counts: Mapping[str, int], random: Random, draws: int
) -> Tensor | tuple[Tensor, ...]:
    """An index of up to so many entries, in random order, each told by a random assignment; open
    faces get further nodes.
    """
    columns: list[list[int]] = []
    open_faces: list[list[set[int]]] = []
    seen = set()
    for _ in range(draws):
        if any(counts[sort] == 0 for sort in pattern.sorts.values()):
            break
        at = {name: random.randrange(counts[sort]) for name, sort in pattern.sorts.items()}
        distinct = (face.letters for face in pattern.faces if face.kind.is_distinct)
        if not all(
            len({(x.sort, at[x.name]) for x in letters}) == len(letters) for letters in distinct
        ):
            continue
        sets = []
        for face in (f for f in pattern.faces if f.is_open):
            others = {v for v in range(counts[face.letters[0].sort]) if random.random() < 0.4}
            sets.append({at[x.name] for x in face.letters} | others)
        letters = [at[name] for name in pattern.fixed_letters]
        entry = entry_of(pattern, letters, sets)
        if entry not in seen:
            seen.add(entry)
            columns.append(letters)
            open_faces.append(sets)
    index = torch.tensor(columns, dtype=torch.long).view(len(columns), len(pattern.fixed_letters)).T
    if not pattern.is_open:
        return index
    members = []
    for number in range(sum(face.is_open for face in pattern.faces)):
        pairs = [(node, entry) for entry, sets in enumerate(open_faces) for node in sets[number]]
        random.shuffle(pairs)
        members.append(torch.tensor(pairs, dtype=torch.long).view(-1, 2).T)
    return members[0] if len(members) == 1 and not pattern.fixed_letters else (index, *members)


def random_structure(
    num_nodes: int | Mapping[str, int], texts: Sequence[str], seed: int, draws: int = 8
) -> Structure:
    """A structure with random entries of the given patterns; the empty pattern needs none, nor does
    a lone node.
    """
    random = Random(seed)
    patterns = [Pattern(text) for text in texts]
    sorts = dict.fromkeys(sort for p in patterns for sort in p.sorts.values()) or {"node": None}
    counts = dict(num_nodes) if isinstance(num_nodes, Mapping) else dict.fromkeys(sorts, num_nodes)
    wanted = [
        p
        for p in dict.fromkeys(patterns)
        if p.faces and not (len(p.letters) == 1 and p.order == 1 and not p.is_open and not p.name)
    ]
    return Structure(counts, {str(p): random_index(p, counts, random, draws) for p in wanted})
