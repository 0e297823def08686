"""Witnesses: a colour that two structures have different numbers of, unfolded into what its entries
read, layer by layer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.expressive.architecture import Round
from incidence.expressive.readers import Reading, State
from incidence.expressive.refine import orbits_of
from incidence.expressive.sums import SumTable
from incidence.nn.tensors import key_of
from incidence.structure import Structure

__all__ = ["Witness", "counts_of", "witness_of"]

_MOST_COLOURS = 12  # that are unfolded
_MOST_NUMBERS = 8  # of a row of features
_MOST_READ = 6  # different colours that one line names


@dataclass(frozen=True)
class Witness:
    """A colour that two structures have different numbers of.

    Attributes:
        tensor: The tensor of its entries.
        num_layers: After how many layers they have it.
        counts: How many entries of each structure have it.
        lines: What these entries are, in words, the colour first and then those that it needs.
    """

    tensor: Pattern
    num_layers: int
    counts: tuple[int, int]
    lines: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join(self.lines)


def counts_of(structure: Structure, pattern: Pattern, colours: Tensor, number: int) -> Tensor:
    """Return how many entries of every colour each structure has, (structures, colours)."""
    home = structure.batch(pattern).cpu()
    flat = home * number + colours  # (entries,)
    counts = torch.bincount(flat, minlength=structure.num_structures * number)
    return counts.view(structure.num_structures, number)


def witness_of(
    structure: Structure,
    states: Sequence[State],
    rounds: Sequence[Round],
    pair: tuple[int, int],
    features: Mapping[Pattern, Tensor],
) -> Witness | None:
    """Return a colour of which two structures have different numbers, as early as there is one.

    Args:
        structure: The structures, as one batch.
        states: The colours at the start and after every round.
        rounds: The round that made each state but the first.
        pair: The numbers of the structures.
        features: The features that colours started from.
    """
    for time, state in enumerate(states):
        chosen = _rarest(structure, state, pair)
        if chosen is not None:
            pattern, colour, counts = chosen
            unfolder = _Unfolder(structure, states, rounds, features)
            lines = unfolder.unfold(time, pattern, colour)
            num_layers = sum(one.is_layer for one in rounds[:time])
            return Witness(pattern, num_layers, counts, lines)
    return None


def _rarest(
    structure: Structure, state: State, pair: tuple[int, int]
) -> tuple[Pattern, int, tuple[int, int]] | None:
    """Return the colour with the fewest entries of which two structures have different numbers."""
    best: tuple[int, Pattern, int, tuple[int, int]] | None = None
    for pattern, (colours, number) in state.items():
        counts = counts_of(structure, pattern, colours, number)[list(pair)]
        for colour in (counts[0] != counts[1]).nonzero()[:, 0].tolist():
            one, other = counts[:, colour].tolist()
            if best is None or one + other < best[0]:
                best = one + other, pattern, colour, (one, other)
    return None if best is None else best[1:]


class _Unfolder:
    """Says what entries of a colour have read, and names the colours that it mentions.

    A colour is described by what tells it apart from the colours that were the same one layer
    before, and by nothing more.
    """

    def __init__(
        self,
        structure: Structure,
        states: Sequence[State],
        rounds: Sequence[Round],
        features: Mapping[Pattern, Tensor],
    ) -> None:
        self._structure, self._states, self._rounds = structure, states, rounds
        self._features = features
        self._names: dict[tuple[int, Pattern, int], str] = {}
        self._open: list[tuple[int, Pattern, int]] = []
        self._readings: dict[int, list[Reading]] = {}

    def unfold(self, time: int, pattern: Pattern, colour: int) -> tuple[str, ...]:
        """Return a line for a colour, and one for every colour that it needs."""
        lines: list[str] = []
        self._name(time, pattern, colour)
        while self._open and len(lines) < _MOST_COLOURS:
            key = self._open.pop(0)
            lines.append(f"{self._names[key]}: {self._described(*key)}")
        if self._open:
            # a tree of all would fill pages
            lines.append(f"... and {len(self._open)} more colours, of earlier layers")
        return tuple(lines)

    def _name(self, time: int, pattern: Pattern, colour: int) -> str:
        """The name of a colour, at the first layer after which it is no other."""
        time, colour = self._earliest(time, pattern, colour)
        key = time, pattern, colour
        if key not in self._names:
            # A for the colour itself, then in the order of use
            self._names[key] = _letters(len(self._names))
            self._open.append(key)
        return self._names[key]

    def _earliest(self, time: int, pattern: Pattern, colour: int) -> tuple[int, int]:
        """Go back while no colour was split off."""
        while time and 1 in self._rounds[time - 1].keeps:
            before = self._states[time - 1].get(pattern)
            if before is None:
                break
            is_own = self._states[time][pattern].of_rows == colour
            [old] = before.of_rows[is_own].unique().tolist()  # one, as colours only split
            if not torch.equal(before.of_rows == old, is_own):
                break
            time, colour = time - 1, old
        return time, colour

    def _described(self, time: int, pattern: Pattern, colour: int) -> str:
        colours = self._states[time][pattern]
        row = int((colours.of_rows == colour).nonzero()[0, 0])
        what = f"an entry of `{key_of(pattern)}`" if pattern.faces else "the whole structure"
        if time == 0:
            return what + self._at_the_start(pattern, row, colours.number)
        siblings, known = self._siblings(time, pattern, row)
        read = self._read(time, pattern, row, siblings)
        layers = sum(one.is_layer for one in self._rounds[:time])
        after = f"after layer {layers}, {known or what}"
        return f"{after} that reads {' and '.join(read)}" if read else after

    def _at_the_start(self, pattern: Pattern, row: int, number: int) -> str:
        if number == 1:
            return ""
        words = []
        if len(pattern.orbits) > 1:
            orbit = int(orbits_of(self._structure, pattern)[row])
            words.append(f"of the orbit {pattern.orbits[orbit]}")
        if pattern in self._features:
            numbers = [f"{number:.4g}" for number in self._features[pattern][row].tolist()]
            more = ", ..." if len(numbers) > _MOST_NUMBERS else ""
            words.append(f"with the features ({', '.join(numbers[:_MOST_NUMBERS])}{more})")
        return "".join(f" {word}" for word in words)

    def _siblings(self, time: int, pattern: Pattern, row: int) -> tuple[Tensor, str]:
        """The rows that were the same before this layer and are not now; the name before it."""
        colours = self._states[time][pattern].of_rows
        same = torch.ones(len(colours), dtype=torch.bool)
        known = ""
        for back in self._rounds[time - 1].keeps:
            before = self._states[time - back].get(pattern)
            if before is not None:
                same &= before.of_rows == before.of_rows[row]
                if back == 1 and before.number > 1:
                    known = self._name(time - 1, pattern, int(before.of_rows[row]))
        return (same & (colours != colours[row])).nonzero()[:, 0], known

    def _read(self, time: int, pattern: Pattern, row: int, siblings: Tensor) -> list[str]:
        """What an entry reads that its siblings do not: as few operations as tell them all."""
        if time not in self._readings:
            reads = [
                r
                for one in self._rounds[time - 1].readers
                for r in one.readings(self._states[time - 1])
            ]
            self._readings[time] = reads
        left, texts = siblings, []
        own = [r for r in self._readings[time] if r.target == pattern]
        while len(left) and own:
            differs = [r.sums.classes[left] != r.sums.classes[row] for r in own]
            # Greedy: the operation that tells most siblings apart comes first.
            best = max(range(len(own)), key=lambda k: int(differs[k].sum()))
            if not differs[best].any():
                break
            reading = own.pop(best)
            texts.append(self._reading_in_words(time, reading, row))
            left = left[~differs[best]]
        return texts

    def _reading_in_words(self, time: int, reading: Reading, row: int) -> str:
        terms = list(self._terms(time, reading.sums.table, int(reading.sums.classes[row])))
        shown = ", ".join(terms[:_MOST_READ]) or "nothing"
        if len(terms) > _MOST_READ:
            shown += f" and {len(terms) - _MOST_READ} more"
        return f"{shown} (by `{reading.label}`)"

    def _terms(self, time: int, table: SumTable, number: int) -> Iterator[str]:
        """The colours of a sum with their numbers."""
        if not number:
            return
        vectors = table.vectors(torch.tensor([number]))
        columns = zip(*(column.tolist() for column in vectors.colours), strict=True)
        for colours, weight in zip(columns, vectors.weights.tolist(), strict=True):
            named = [
                self._factor(time, leaf, colour)
                for leaf, colour in zip(table.leaves, colours, strict=True)
            ]
            yield f"{weight} x {' with '.join(named)}"

    def _factor(self, time: int, leaf: SumTable, colour: int) -> str:
        if leaf.inner is not None:
            return f"a bag of ({', '.join(self._terms(time, leaf.inner, colour)) or 'nothing'})"
        if isinstance(leaf.label, Pattern):
            return self._name(time - 1, leaf.label, colour - 1)
        return f"kind {colour}"


def _letters(number: int) -> str:
    """A, B, ..., Z, A1, B1, ..."""
    turns, letter = divmod(number, 26)
    return f"{chr(ord('A') + letter)}{turns or ''}"
