"""The same maps the usual way: pool with `index_add_`, one product for each operation, spread with
`index_select`.

This is what one writes on top of the scatter and gather of a graph library, and all that depends on
the graph alone is made beforehand: pooling is shared between operations with the same keys, keys
are ordered tuples of nodes where the classes are, and no row is gathered into the place where it is
already. Products at the entries come after spreading, as message passing has them; products at the
keys before, which is cheaper where keys are fewer. Nothing here is shared with the engine: lists
are made from the entries themselves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import combinations, permutations
from typing import NamedTuple

import torch
from torch import Tensor

from incidence.algebra.maps import Operation
from incidence.algebra.pattern import Pattern
from incidence.algebra.words import Word, overlap_of
from incidence.nn import Linear
from incidence.structure import Structure

__all__ = ["Composition", "Scatter"]

Scatter = Callable[[Tensor, Tensor, int], Tensor]
"""Adds rows up by their keys, for a number of keys."""


class _Pairs(NamedTuple):
    """Entries with keys: None for the entries if they are 0, 1, 2, ..., as many as there are."""

    entries: Tensor | None
    keys: Tensor


class _Partner(NamedTuple):
    """The entry on the same nodes that each reads: None for the rows if it is the entry itself;
    where there is one, None if always.
    """

    rows: Tensor | None
    is_there: Tensor | None


class _Step(NamedTuple):
    """An operation: its weight, its tensors, and what it reads: pooled rows (by a key of `pools`)
    spread to entries, or a partner.
    """

    weight: tuple[str, int]
    source: int
    target: int
    pool: tuple[int, Word] | None
    read: _Pairs | _Partner


class Composition:
    """A layer for one orbit in each tensor, operation by operation, with the weights of the layer.

    Args:
        layer: With sums.
        structure: One, no batch.
    """

    def __init__(self, layer: Linear, structure: Structure) -> None:
        self.layer, self.map = layer, layer.map
        self.rows = {p: structure.num_entries(p) for p in (*self.map.inputs, *self.map.outputs)}
        self.keys, self.num_keys = _numbered(
            {p: _keys(structure, p) for p in self.rows}, structure.total_nodes
        )
        self.pools: dict[tuple[int, Word], tuple[_Pairs, int]] = {}
        self.flops = 0.0
        """Of one forward pass, over the square of the channels: two for each key (or entry) and
        pair of words with an operation.
        """
        count: dict[str, int] = defaultdict(int)
        self.steps = []
        for operation in self.map.operations:
            s, t = operation.source.tensor, operation.target.tensor
            name = (
                "weight"
                if len(self.map.inputs) == len(self.map.outputs) == 1
                else f"weight_{s}_{t}"
            )
            self.steps.append(self._step(operation, (name, count[name]), s, t))
            count[name] += 1

    def __call__(
        self, xs: Sequence[Tensor], at: str = "entries", scatter: Scatter | None = None
    ) -> list[Tensor]:
        """The outputs, with products at the `entries` or at the `keys`."""
        scatter = scatter or _scatter
        ys: dict[int, Tensor] = {}
        pooled: dict[tuple[int, Word], Tensor] = {}
        for step in self.steps:
            name, row = step.weight
            part = self._term(
                step, xs[step.source], getattr(self.layer, name)[row], pooled, at, scatter
            )
            ys[step.target] = ys[step.target] + part if step.target in ys else part
        plain = len(self.map.inputs) == len(ys) == 1
        return [
            ys[t] + getattr(self.layer, "bias" if plain else f"bias_{t}")[0] for t in range(len(ys))
        ]

    def _term(
        self,
        step: _Step,
        x: Tensor,
        weight: Tensor,
        pooled: dict[tuple[int, Word], Tensor],
        at: str,
        scatter: Scatter,
    ) -> Tensor:
        if isinstance(step.read, _Partner):
            rows = x if step.read.rows is None else x.index_select(0, step.read.rows)
            return (rows if step.read.is_there is None else rows * step.read.is_there) @ weight
        assert step.pool is not None
        if step.pool not in pooled:
            (entries, keys), num_keys = self.pools[step.pool]
            pooled[step.pool] = scatter(
                x if entries is None else x.index_select(0, entries), keys, num_keys
            )
        p = pooled[step.pool] @ weight if at == "keys" else pooled[step.pool]
        rows = p.index_select(0, step.read.keys)
        if step.read.entries is not None:
            rows = scatter(rows, step.read.entries, self.rows[self.map.outputs[step.target]])
        return rows if at == "keys" else rows @ weight

    def _step(self, operation: Operation, weight: tuple[str, int], s: int, t: int) -> _Step:
        source, target, overlap = self.map.inputs[s], self.map.outputs[t], operation.overlap
        shape = len(overlap), len(operation.target.orbit.classes)
        # the classes of the matched nodes
        chosen = tuple(label for label, row in enumerate(overlap) for _ in range(sum(row)))
        ours = [u for u in self.keys[source] if tuple(sorted(u)) == chosen]
        pairs = [
            (u, w)
            for w in self.keys[target]
            for u in ours
            if len(w) == len(u) and overlap_of(u, w, *shape) == overlap
        ]
        if source == target and len(chosen) == len(source.letters):
            partner, count = self._partner(source, pairs)
            self.flops += 2.0 * count
            return _Step(weight, s, t, None, partner)
        pool, place = (s, chosen), {u: k for k, u in enumerate(ours)}
        num_keys = self.num_keys[len(chosen)]
        self.flops += 2.0 * num_keys * len(pairs)
        if pool not in self.pools:
            parts = [
                (entries, keys * len(ours) + place[u])
                for u in ours
                for entries, keys in [self.keys[source][u]]
            ]
            self.pools[pool] = _by_entry(parts, self.rows[source]), len(ours) * num_keys
        parts = [
            (entries, keys * len(ours) + place[u])
            for u, w in pairs
            for entries, keys in [self.keys[target][w]]
        ]
        return _Step(weight, s, t, pool, _by_entry(parts, self.rows[target]))

    def _partner(
        self, pattern: Pattern, pairs: Sequence[tuple[Word, Word]]
    ) -> tuple[_Partner, int]:
        """For an operation that matches all nodes: the entry that each reads, and how many read
        one.
        """
        rows = torch.full((self.rows[pattern],), -1)
        for u, w in pairs:
            (ours, our_keys), (theirs, their_keys) = self.keys[pattern][u], self.keys[pattern][w]
            by_key = torch.full((self.num_keys[len(u)],), -1).index_copy(0, our_keys, ours)
            rows[theirs] = by_key[their_keys]
        is_there = rows >= 0
        if bool((rows == torch.arange(len(rows))).all()):
            return _Partner(None, None), len(rows)
        mask = None if bool(is_there.all()) else is_there[:, None].float()
        return _Partner(rows.clamp(min=0), mask), int(is_there.sum())


def _keys(structure: Structure, pattern: Pattern) -> dict[Word, tuple[Tensor, Tensor]]:
    """For every word, the entries that have a key by it, and the nodes of the key in ascending
    order, [size, entries].
    """
    classes = [c.faces for c in pattern.orbits[0].classes]
    labels = torch.tensor([classes.index(pattern.signatures[letter]) for letter in pattern.letters])
    index: Tensor = structure[pattern]  # (letters, entries)
    found: dict[Word, list[tuple[Tensor, Tensor]]] = defaultdict(list)
    for size in range(len(labels) + 1):
        for letters in map(list, combinations(range(len(labels)), size)):
            nodes, order = index[letters].sort(0)  # (size, entries)
            words = labels[letters][order]
            for word in sorted(set(permutations(labels[letters].tolist()))):
                entries = (
                    (words == torch.tensor(word, dtype=torch.long)[:, None]).all(0).nonzero()[:, 0]
                )
                found[word].append((entries, nodes[:, entries]))
    return {
        word: (torch.cat([e for e, _ in parts]), torch.cat([n for _, n in parts], dim=1))
        for word, parts in found.items()
    }


_Keys = dict[Pattern, dict[Word, tuple[Tensor, Tensor]]]


def _numbered(found: _Keys, num_nodes: int) -> tuple[_Keys, dict[int, int]]:
    """The same with the number of the key in place of its nodes, and how many keys of each size
    there are; a node has its own number.
    """
    codes: dict[int, list[Tensor]] = defaultdict(list)
    for words in found.values():
        for word, (_, nodes) in words.items():
            codes[len(word)].append(_code(nodes, num_nodes))
    known = {
        size: torch.cat(parts).unique() if size > 1 else torch.arange(num_nodes**size)
        for size, parts in codes.items()
    }
    numbered = {
        pattern: {
            word: (entries, torch.searchsorted(known[len(word)], _code(nodes, num_nodes)))
            for word, (entries, nodes) in words.items()
        }
        for pattern, words in found.items()
    }
    return numbered, {size: len(own) for size, own in known.items()}


def _code(nodes: Tensor, num_nodes: int) -> Tensor:
    code = torch.zeros(nodes.shape[1], dtype=torch.long)
    for row in nodes:
        code = code * num_nodes + row
    return code


def _by_entry(parts: Sequence[tuple[Tensor, Tensor]], num_entries: int) -> _Pairs:
    entries, order = torch.cat([own for own, _ in parts]).sort(stable=True)
    is_plain = len(entries) == num_entries and bool((entries == torch.arange(num_entries)).all())
    return _Pairs(None if is_plain else entries, torch.cat([keys for _, keys in parts])[order])


def _scatter(rows: Tensor, keys: Tensor, num_keys: int) -> Tensor:
    return rows.new_zeros(num_keys, rows.shape[1]).index_add(0, keys, rows)
