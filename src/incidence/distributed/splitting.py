"""`split`: the part of this process of a structure that all processes have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.distributed.agreement import agreed, assert_same
from incidence.distributed.ordering import Assignment, assignment_by_parts, best_assignment
from incidence.distributed.part import Part, make_part, rows
from incidence.distributed.partitioning import partitioned
from incidence.distributed.processes import DEFAULT_TIMEOUT, as_world
from incidence.errors import IncidenceError
from incidence.structure import Example, Structure
from incidence.structure.arrange import arranged
from incidence.structure.world import World

__all__ = ["part_of_example", "split"]


S = TypeVar("S", Structure, Example)


def split(
    structure: S,
    parts: Tensor | Mapping[str, Tensor] | str | None = None,
    timeout: float = DEFAULT_TIMEOUT,
    world: World | None = None,
) -> S:
    """Return the part of a structure, or of an example, that this process holds.

    All processes call it together.

    Every entry goes to one process, and entries on the same nodes go to the same one.

    Args:
        structure: The same structure, batch of structures, or example with features and targets, on
            all processes.
        parts: The process of every node, shape (nodes,), or a dict by sort. An entry goes with its
            node of lowest degree. Or `"mtkahypar"`, a library that searches for parts that share
            few nodes. If not given, nodes go by blocks of a reverse Cuthill-McKee order, or as
            keeps the number of shared nodes low.
        timeout: The seconds after which a process stops waiting for the others.
        world: The processes; those of `torch.distributed` if not given.

    Raises:
        IncidenceError: There are no processes, or they have different structures or versions.
    """
    if isinstance(structure, Example):
        part = split(structure.structure, parts, timeout, world)
        return part_of_example(part, structure)
    if not isinstance(structure, Structure) or isinstance(structure, Part):
        raise IncidenceError(
            f"split takes a whole structure, an inc.Structure; got {type(structure).__name__}."
        )
    if structure.device.type != "cpu":
        raise IncidenceError(
            f"split takes a structure on the CPU; this one is on {structure.device}: move it with"
            " `.to('cpu')`."
        )
    processes = as_world(world, timeout)
    assert_same(processes, "the structure", *_described(structure))
    is_by_name = isinstance(parts, str)
    assert_same(processes, "parts=", parts if is_by_name else parts is None)
    assignment: Assignment
    if parts is None:
        assignment = best_assignment(structure, processes.size)
    elif is_by_name and parts == "mtkahypar":
        assignment = partitioned(structure, processes)
    else:
        given = agreed(processes, lambda: _as_parts(parts, structure, processes.size))
        assert_same(processes, "parts=", given)
        assignment = assignment_by_parts(structure, given)
    return _part(structure, assignment, processes)


def part_of_example(part: Structure, example: Example) -> Example:
    """Return the features and targets of the entries of a part."""

    def here(values: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {key: x[rows(cast("Part", part), key)] for key, x in values.items()}

    target = example.target
    if isinstance(target, Mapping):
        target = here(target)
    return Example._of(part, here(example.features), target, example._is_batch)


def _described(structure: Structure) -> list[Any]:
    """Return everything that must be the same on all processes."""
    described: list[Any] = []
    for sort, ptr in structure._node_ptr.items():
        described += [sort, ptr]
    for pattern in structure.patterns:
        described += [str(pattern), *structure._stored(pattern)]
    return described


def _as_parts(parts: Any, structure: Structure, size: int) -> Tensor:
    """Return the process of every node of all sorts, checked."""
    if isinstance(parts, str):
        raise IncidenceError(f'parts= is the process of every node, or "mtkahypar"; got {parts!r}.')
    by_sort = parts if isinstance(parts, Mapping) else {"node": parts}
    given = []
    for sort in sorted(structure.counts):
        one: Any = by_sort.get(sort)
        count = structure.counts[sort]
        is_whole = isinstance(one, Tensor) and not one.is_floating_point()
        if not is_whole or one.shape != (count,):
            came = list(one.shape) if isinstance(one, Tensor) else one
            raise IncidenceError(
                f"parts= has the process of every node of sort `{sort}`, integers of shape"
                f" [{count}]; got {came!r}. With several sorts it is a dict by sort."
            )
        given.append(one.long())
    whole = torch.cat(given)
    if whole.numel() and not bool(((whole >= 0) & (whole < size)).all()):
        bad = whole[(whole < 0) | (whole >= size)][0]
        raise IncidenceError(
            f"parts= has the numbers of processes, from 0 to {size - 1}; got {int(bad)}. Start as"
            " many processes as there are parts."
        )
    return whole


def _part(structure: Structure, assignment: Assignment, world: World) -> Part:
    """Return the part of this process."""
    offsets = structure._node_offsets
    whole_counts: dict[str | Pattern, int] = {}
    whole_counts.update(structure.counts.items())
    held = {}
    is_here = {}
    for sort, count in structure.counts.items():
        own = assignment.parts[offsets[sort] : offsets[sort] + count]
        held[sort] = (own == world.rank).nonzero()[:, 0]
        is_here[sort] = own == world.rank
    whole_rows, index, entry_ptr = {}, {}, {}
    for pattern in structure.patterns:
        home = torch.zeros(structure.num_entries(pattern), dtype=torch.long)
        for one in arranged(structure, pattern):
            home[one.bucket.rows] = assignment.of_sets(one.bucket.nodes)
        own = (home == world.rank).nonzero()[:, 0]
        whole_counts[pattern] = len(home)
        whole_rows[pattern] = own
        index[pattern] = _taken(structure._stored(pattern), own, home == world.rank)
        entry_ptr[pattern] = torch.searchsorted(own, structure.entry_ptr(pattern))
        _mark(structure._as_spelt(pattern), index[pattern], is_here)
    nodes = {sort: mask.nonzero()[:, 0] for sort, mask in is_here.items()}
    return make_part(
        world, nodes, held, structure._node_ptr, index, whole_rows, entry_ptr, whole_counts
    )


def _taken(parts: tuple[Tensor, ...], own: Tensor, is_own: Tensor) -> tuple[Tensor, ...]:
    """Return the index of some entries, which are numbered from 0."""
    letters, *members = parts
    taken = [letters[:, own] if len(letters) else letters[:, :0]]
    if not len(letters) and not members:
        taken = [letters[:, : len(own)]]
    for pairs in members:
        inside = pairs[:, is_own[pairs[1]]]
        taken.append(torch.stack([inside[0], torch.searchsorted(own, inside[1].contiguous())]))
    return tuple(taken)


def _mark(pattern: Pattern, index: tuple[Tensor, ...], is_here: dict[str, Tensor]) -> None:
    """Note which nodes the entries have."""
    letters, *members = index
    for name, row in zip(pattern.fixed_letters, letters, strict=True):
        is_here[pattern.sorts[name]][row] = True
    open_faces = [face for face in pattern.faces if face.is_open]
    for face, pairs in zip(open_faces, members, strict=True):
        is_here[face.letters[0].sort][pairs[0]] = True
