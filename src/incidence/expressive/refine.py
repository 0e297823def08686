"""Refine colours round by round: entries that read different colours get different colours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.expressive.architecture import Architecture, Round
from incidence.expressive.readers import Colours, State, whole_terms
from incidence.expressive.sums import atoms, combine
from incidence.structure import Structure
from incidence.structure.arrange import orbit_rows
from incidence.structure.ragged import rank, rank_rows

__all__ = ["Refinement", "classes_of", "first_state", "next_state", "refine"]


@dataclass(frozen=True)
class Refinement:
    """The colours of all rounds.

    Attributes:
        states: The colours at the start and after every round.
        rounds: The round that made each state but the first.
        outputs: For every head of a network, its colours.
        head_states: For every head, the colours after each of its rounds.
        num_layers: The number of layers after which nothing more is told apart; of a network, the
            number of its layers.
    """

    states: tuple[State, ...]
    rounds: tuple[Round, ...]
    outputs: tuple[tuple[Pattern, Colours], ...]
    num_layers: int
    head_states: tuple[tuple[State, ...], ...] = ()


def refine(
    architecture: Architecture, structure: Structure, features: Mapping[Pattern, Tensor]
) -> Refinement:
    """Return the colours of all rounds on a structure."""
    states: list[State] = [first_state(architecture.tensors, structure, features)]
    if architecture.is_repeated:
        [one] = architecture.rounds
        while True:
            state = next_state(one, states, structure)
            # Colours only split: where their number stays, nothing changes any more.
            if num_colours(state) == num_colours(states[-1]):
                count = len(states) - 1
                return Refinement(tuple(states), (one,) * count, (), count)
            states.append(state)
    for one in architecture.rounds:
        states.append(next_state(one, states, structure))
    outputs, head_states, most = [], [], 0
    for head in architecture.heads:
        own = list(states)
        for one in head.rounds:
            own.append(next_state(one, own, structure))
        outputs.append((head.output, own[-1][head.output]))
        head_states.append(tuple(own[len(states) :]))
        most = max(most, num_layers(head.rounds))
    count = num_layers(architecture.rounds) + most
    return Refinement(tuple(states), architecture.rounds, tuple(outputs), count, tuple(head_states))


def num_layers(rounds: Sequence[Round]) -> int:
    """Return how many rounds are layers."""
    return sum(one.is_layer for one in rounds)


def num_colours(state: State) -> int:
    """Return the number of colours of all tensors."""
    return sum(colours.number for colours in state.values())


def first_state(
    tensors: Sequence[Pattern], structure: Structure, features: Mapping[Pattern, Tensor]
) -> State:
    """Return the colours at the start: the orbit of every entry, and its features."""
    state = {}
    for pattern in tensors:
        columns, bounds = [orbits_of(structure, pattern)], [len(pattern.orbits)]
        if pattern in features:
            for column in features[pattern].unbind(1):
                ranks, bound = rank(column)
                columns.append(ranks)
                bounds.append(bound)
        state[pattern] = Colours(*rank_rows(columns, bounds))
    return state


def orbits_of(structure: Structure, pattern: Pattern) -> Tensor:
    """Return the orbit of every entry."""
    orbits = torch.zeros(structure.num_entries(pattern), dtype=torch.long)
    if len(pattern.orbits) > 1:
        for number, rows in enumerate(orbit_rows(structure, pattern)):
            orbits[rows.cpu()] = number
    return orbits


def next_state(one: Round, states: Sequence[State], structure: Structure) -> State:
    """Return the colours after a round, from all states before it."""
    read: dict[Pattern, list[tuple[Tensor, int]]] = {}
    for reader in one.readers:
        for reading in reader.readings(states[-1]):
            sums = reading.sums
            # a column for each operation
            read.setdefault(reading.target, []).append((sums.classes, sums.num_classes))
    known: dict[Pattern, list[tuple[Tensor, int]]] = {}
    for back in one.keeps:
        for pattern, colours in states[-back].items():
            if one.only is None or pattern in one.only:
                known.setdefault(pattern, []).append(colours)
    for pattern, columns in read.items():
        if pattern not in known:
            known[pattern] = [_orbit_column(one, structure, pattern, columns)]
        known[pattern] += columns
    return {
        pattern: Colours(*rank_rows(*zip(*columns, strict=True)))
        for pattern, columns in known.items()
    }


def _orbit_column(
    one: Round, structure: Structure, pattern: Pattern, columns: Sequence[tuple[Tensor, int]]
) -> tuple[Tensor, int]:
    """Return the orbits of entries of which nothing is kept; 0 where they cannot be known."""
    orbits = orbits_of(structure, pattern)
    if one.has_orbits:
        return orbits, len(pattern.orbits)
    # without a bias, an entry that reads only zeros is zero, of whatever orbit
    reads_some = torch.stack([classes > 0 for classes, _ in columns]).any(0)
    return torch.where(reads_some, orbits + 1, 0), len(pattern.orbits) + 1


def classes_of(structure: Structure, tensors: Sequence[tuple[Pattern, Colours]]) -> Tensor:
    """Return which structures have as many entries of every colour, by first occurrence."""
    columns = [torch.zeros(structure.num_structures, dtype=torch.long)]
    bounds = [1]
    for pattern, colours in tensors:
        counts = combine(whole_terms(structure, pattern), atoms(*colours))
        columns.append(counts.classes)
        bounds.append(counts.num_classes)
    classes, count = rank_rows(columns, bounds)
    # (classes,): the first structure of each
    first = torch.full((count,), len(classes)).scatter_reduce_(
        0, classes, torch.arange(len(classes)), "amin"
    )
    return first.argsort().argsort()[classes]
