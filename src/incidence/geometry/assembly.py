"""The last step of every builder and lifting: correct entries become part of a structure without
checks.

This is the one place of this package that makes structures without `Structure(...)`, which would
sort and check all entries once more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import torch
from torch import Tensor

from incidence.algebra.grammar import DEFAULT_SORT
from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.geometry.node_lists import NodeLists
from incidence.structure import Structure
from incidence.structure.edit import add_tensors
from incidence.structure.entries import count_entries
from incidence.structure.ragged import ranges

__all__ = ["assemble", "assemble_ranks", "assert_structure", "attach", "attach_faces", "brackets"]
__all__ += ["face_text", "is_directed", "is_edge", "letters", "named", "open_text"]

# Liftings of thousands of graphs parse the same few texts again and again.
_pattern = lru_cache(maxsize=256)(Pattern)


def letters(count: int, sort: str = DEFAULT_SORT) -> list[str]:
    """Return so many letters as text: i, j, k, ..."""
    names = (
        [chr(ord("i") + n) for n in range(count)]
        if count <= 18  # i to z
        else [f"i{n}" for n in range(count)]
    )
    return names if sort == DEFAULT_SORT else [f"{name}:{sort}" for name in names]


def face_text(size: int, sort: str = DEFAULT_SORT, brackets: str = "{}") -> str:
    """Return the pattern of faces of so many nodes.

    Example:
        >>> face_text(3), face_text(2, brackets="()")
        ('{i j k}', '(i j)')
    """
    return f"{brackets[0]}{' '.join(letters(size, sort))}{brackets[1]}"


def brackets(oriented: bool) -> str:
    """Return the brackets of unordered faces, with or without orientation."""
    return "<>" if oriented else "{}"


def open_text(sort: str = DEFAULT_SORT) -> str:
    """Return the pattern of undirected faces of mixed size."""
    return f"{{{letters(1, sort)[0]} ...}}"


def named(name: str | None, text: str) -> str:
    """Return the text of a pattern with a name, if there is one."""
    return text if name is None else f"{name}={text}"


def is_directed(pattern: Pattern) -> bool:
    """Return whether the two letters of an edge differ in their places."""
    return len(set(pattern.signatures.values())) == 2


def is_edge(pattern: Pattern) -> bool:
    """Return whether the entries of a pattern are pairs of nodes of one sort."""
    plain = pattern.order == 1 or all(len(face.letters) == 1 for face in pattern.faces)
    return (
        len(pattern.letters) == 2
        and plain
        and not pattern.is_open
        and len(set(pattern.sorts.values())) == 1
    )


def assert_structure(who: str, given: object) -> None:
    if not isinstance(given, Structure):
        raise IncidenceError(f"{who} takes a Structure; got {type(given).__name__}.")


Index = Tensor | tuple[Tensor, ...]
"""As `Structure` takes it: [letters, entries], [2, incidences] of a lone open face, or (letters,
*members).
"""


def assemble(num_nodes: int, index: Mapping[str, Index], is_preferred: bool = True) -> Structure:
    """Return a structure of distinct entries over nodes 0 to num_nodes - 1; see `attach`."""
    device = next((parts.device for parts in index.values() if isinstance(parts, Tensor)), None)
    return attach(Structure(num_nodes, device=device), index, is_preferred)


def attach(
    structure: Structure, index: Mapping[str, Index], is_preferred: bool = False
) -> Structure:
    """Return the structure with further tensors, or other entries for those it has.

    Args:
        structure: One structure or a batch.
        index: For every pattern its entries, each once, over the nodes of the whole batch. Those of
            patterns with open faces, and all in the preferred order, stand by structure.
        is_preferred: Whether they are in the preferred order; if not, they are sorted.
    """
    parts: dict[Pattern, tuple[Tensor, ...]] = {}
    entry_ptr: dict[Pattern, Tensor] = {}
    for text, entries in index.items():
        pattern = _pattern(text)
        for other in structure.patterns:
            if other.name is not None and other.name == pattern.name and other != pattern:
                raise IncidenceError(
                    f"`{other}` is here already, so `{pattern}` needs another name: give name=."
                )
        columns = entries if isinstance(entries, tuple) else (entries,)
        if pattern.is_open and not isinstance(entries, tuple):
            columns = (entries.new_zeros(0, 0), entries)  # no letters outside of the open face
        home = _homes(structure, pattern, columns)
        if not is_preferred and not pattern.is_open:
            columns = (columns[0][:, home.sort(stable=True)[1]],)  # by structure
        parts[pattern] = columns
        entry_ptr[pattern] = ranges(torch.bincount(home, minlength=structure.num_structures))
    # Sorted without the tensors that are there already: these are in order, or the caller's order
    # stays.
    new = Structure._of(structure._node_ptr, parts, entry_ptr)
    if not is_preferred:
        new = new.canonical()[0]
    return add_tensors(structure, new._index, new._entry_ptr)


def assemble_ranks(num_nodes: int, faces: Sequence[NodeLists]) -> Structure:
    """Return the structure of faces of rank 1, 2, ...: `{i j}` if those of rank 1 have two nodes
    each, `rank2={i ...}`, `rank3={i ...}`, ....
    """
    index: dict[str, Index] = {}
    for rank, lists in enumerate(faces, 1):
        ordered = lists.arranged(num_nodes)[0]
        if rank == 1 and bool((lists.sizes == 2).all()):
            index["{i j}"] = ordered.nodes.view(-1, 2).T.contiguous()
        else:
            index[f"rank{rank}={{i ...}}"] = ordered.index
    return assemble(num_nodes, index)


def _homes(structure: Structure, pattern: Pattern, parts: tuple[Tensor, ...]) -> Tensor:
    """The structure of every entry, that of any of its nodes."""
    home = torch.zeros(count_entries(pattern, parts), dtype=torch.long, device=structure.device)
    if structure.num_structures == 1:
        return home
    # Any node tells the structure, as an entry has nodes of one structure only.
    letter = (pattern.fixed_letters or pattern.letters)[0]
    home_of_node = structure.batch(f"i:{pattern.sorts[letter]}")
    if pattern.fixed_letters:
        return home_of_node[parts[0][0]]
    nodes, entries = parts[1]
    home[entries] = home_of_node[nodes]
    return home


def attach_faces(structure: Structure, faces_of: Mapping[str, Sequence[Tensor]]) -> Structure:
    """Return the structure with further tensors of lone undirected faces, in the preferred order:
    by size, then by ascending nodes.

    As the order is known beforehand, this takes a third of the time of `attach` for millions of
    faces.

    Args:
        structure: One structure or a batch.
        faces_of: For every pattern the different faces as rows of nodes: one matrix [faces, size]
            for each size, sizes ascending.
    """
    index: dict[str, Index] = {}
    for text, faces in faces_of.items():
        pattern = _pattern(text)
        sort = pattern.sorts[pattern.letters[0]]
        lists = NodeLists.of_rows(*faces).arranged(structure.counts[sort])[0]
        if pattern.is_open:
            if structure.num_structures > 1:
                home = structure.batch(f"i:{sort}")[lists.nodes[lists.ptr[:-1]]]
                # by structure, and by size inside of each
                lists = lists.take(home.sort(stable=True)[1])
            index[text] = lists.index
        else:
            # nodes ascend, so structures do
            index[text] = lists.nodes.view(-1, len(pattern.letters)).T.contiguous()
    return attach(structure, index, is_preferred=True)
