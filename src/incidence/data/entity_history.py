"""What was known of an entity of a database at a time: its past, as an example.

An example has the entity, its latest rows in every table that refers to it, what these rows refer
to, and the rows of other tables between the same nodes. No row later than the time is read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from incidence.data.database import Database
from incidence.data.keyed_rows import (
    FaceRows,
    NodeRows,
    encode,
    encodings_of,
    face_rows,
    node_of,
    sort_of,
    times_of,
)
from incidence.data.row_encoding import Encoding
from incidence.structure.collate import uncollate
from incidence.structure.example import Example
from incidence.structure.structure import Structure

__all__ = ["LATEST", "EntityHistory"]

LATEST = 20
"""How many of the latest rows of each table an example has."""


class _Past(NamedTuple):
    """What is known of an entity at a time.

    Attributes:
        time: The time.
        nodes: For each sort, the nodes by their row in the table; the entity comes first.
        rows: For each table of faces, its rows.
        counts: How many rows every table has about the entity, and how old the last one is.
    """

    time: float
    nodes: Mapping[str, Mapping[int, int]]
    rows: Mapping[str, list[int]]
    counts: Sequence[float]


Encodings = Mapping[str, Sequence[Encoding]]


@dataclass(frozen=True)
class EntityHistory:
    """A database from which the past of every entity is read.

    Attributes:
        database: The tables with their keys.
        encodings: How columns become features, by table.
        latest: How many of the latest rows of each table an example has.
        until: A time after which nothing is read, whatever the time of an example.
        sorts: The tables that others refer to, by name.
        faces: The tables that refer to others, by name.
    """

    database: Database
    encodings: Encodings
    latest: int
    until: float
    sorts: Mapping[str, NodeRows]
    faces: Mapping[str, FaceRows]

    @staticmethod
    def of(
        database: Database,
        encodings: Encodings | None,
        fitted_until: float,
        latest: int = LATEST,
        until: float = math.inf,
    ) -> EntityHistory:
        """Return the history of a database.

        Args:
            database: The tables with their keys.
            encodings: How columns become features, if that is known.
            fitted_until: If it is not, rows up to this time decide it.
            latest: How many of the latest rows of each table an example has.
            until: A time after which nothing is read.
        """
        times = {name: times_of(one) for name, one in database.tables.items()}
        if encodings is None:
            # Scales and words come from rows that training may see: later rows would leak into
            # features.
            known = min(fitted_until, until)
            encodings = {
                name: encodings_of(one, times[name] <= known)
                for name, one in database.tables.items()
            }
        referred = {other for one in database.tables.values() for other in one.foreign.values()}
        sorts, faces = {}, {}
        for name, one in database.tables.items():
            x = encode(one, encodings[name])
            if name in referred:
                keys = one.table[one.primary]
                number = {key: k for k, key in enumerate(keys)}
                sorts[name] = NodeRows(number, x, times[name])
        for name, one in database.tables.items():
            if one.foreign:
                # A table that others refer to has its features at its nodes, and none at its faces.
                is_node = name in referred
                x = torch.zeros(len(one.table), 0) if is_node else encode(one, encodings[name])
                faces[name] = face_rows(one, x, times[name], sorts, is_node)
        return EntityHistory(database, encodings, latest, until, sorts, faces)

    def examples(self, sort: str, entities: Sequence[str], times: Sequence[float]) -> list[Example]:
        """Return what is known of each entity at a time."""
        asked = zip(entities, times, strict=True)
        pasts = [self._past(sort, entity, min(time, self.until)) for entity, time in asked]
        counts: dict[str, Tensor] = {}
        features: dict[str, Tensor] = {}
        first: dict[str, list[int]] = {}
        for name in self.sorts:
            sizes = torch.tensor([len(past.nodes[name]) for past in pasts])
            first[name] = [0, *sizes.cumsum(0).tolist()]
            counts[name] = sizes
            of_seeds = [past.counts for past in pasts] if name == sort else None
            features[node_of(name, self.sorts)] = _node_features(
                self.sorts[name], name, pasts, of_seeds
            )
        index = {}
        for name, faces in self.faces.items():
            index[faces.pattern], features[faces.pattern] = _entries(faces, name, pasts, first)
        batch = {
            sort_of(name): torch.arange(len(pasts)).repeat_interleave(sizes)
            for name, sizes in counts.items()
        }
        totals = {sort_of(name): int(sizes.sum()) for name, sizes in counts.items()}
        structure = Structure(totals, index, batch=batch)
        return uncollate(Example(structure, features))

    def _past(self, sort: str, entity: str, time: float) -> _Past:
        """Return the rows that are known of an entity at a time."""
        seed = self.sorts[sort].number.get(entity)
        chosen = {
            name: self._rows_of(faces, sort, seed, time) for name, faces in self.faces.items()
        }
        self._add_between(chosen, time)
        nodes: dict[str, dict[int, int]] = {name: {} for name in self.sorts}
        # An entity that the database does not know is a node of its own, with row -1 and no
        # features.
        nodes[sort] = {-1 if seed is None else seed: 0}
        for name, rows in chosen.items():
            faces = self.faces[name]
            for k, other in enumerate(faces.sorts):
                for node in faces.nodes[rows, k].tolist():
                    nodes[other].setdefault(node, len(nodes[other]))
        return _Past(time, nodes, chosen, self._counts(sort, seed, time))

    def _rows_of(self, faces: FaceRows, sort: str, seed: int | None, time: float) -> list[int]:
        """Return the latest rows about a node, up to a time."""
        rows: list[int] = []
        for k, other in enumerate(faces.sorts):
            if other == sort and seed is not None and seed in faces.by_node[k]:
                every = faces.by_node[k][seed]
                end = int(np.searchsorted(faces.times[every], time, side="right"))
                rows += every[max(0, end - self.latest) : end].tolist()
        return list(dict.fromkeys(rows))

    def _add_between(self, chosen: dict[str, list[int]], time: float) -> None:
        """Add the rows of tables that join nodes which a chosen row joins already."""
        first = {name: list(rows) for name, rows in chosen.items()}
        for name, faces in self.faces.items():
            for other, rows in first.items():
                theirs = self.faces[other]
                if other == name or not set(faces.sorts) <= set(theirs.sorts):
                    continue
                # where theirs has our nodes
                columns = [theirs.sorts.index(sort) for sort in faces.sorts]
                for key in dict.fromkeys(map(tuple, theirs.nodes[rows][:, columns].tolist())):
                    known = [r for r in faces.by_nodes.get(key, ()) if faces.times[r] <= time]
                    chosen[name] += known[-self.latest :]
        for name, faces in self.faces.items():  # such as the circuit of each race
            for other, rows in first.items():
                theirs = self.faces[other]
                for k, sort in enumerate(theirs.sorts):
                    if sort == name and name in self.sorts:
                        reached = dict.fromkeys(theirs.nodes[rows, k].tolist())
                        chosen[name] += [r for r in reached if faces.times[r] <= time and r >= 0]
        for name, rows in chosen.items():
            chosen[name] = [
                row for row in dict.fromkeys(rows) if self.faces[name].nodes[row].min() >= 0
            ]

    def _counts(self, sort: str, seed: int | None, time: float) -> list[float]:
        """Return how many rows every table has about the entity up to the time, and how old."""
        values = []
        for faces in self.faces.values():
            for k, other in enumerate(faces.sorts):
                if other != sort:
                    continue
                every = faces.by_node[k].get(-2 if seed is None else seed)
                end = 0
                if every is not None:
                    end = int(np.searchsorted(faces.times[every], time, side="right"))
                last = faces.times[every[end - 1]] if every is not None and end else -math.inf
                values += [math.log1p(end), _age(last, time)]
        return values


def _age(then: float, time: float) -> float:
    """Return how long ago something was, on a logarithmic scale; 0 if it has no time."""
    return math.log1p(max(0.0, time - then)) if math.isfinite(then) else 0.0


def _entries(
    faces: FaceRows, name: str, pasts: Sequence[_Past], first: Mapping[str, Sequence[int]]
) -> tuple[Tensor, Tensor]:
    """Return the entries of the rows of all examples, [letters, entries], and their features.

    Rows with the same nodes are one entry, with the means of their features. These are those of the
    row, its age, and how many rows an entry stands for.
    """
    places: dict[tuple[int, ...], int] = {}
    owner, every, ages = list[int](), list[int](), list[float]()
    for number, past in enumerate(pasts):
        tables = [past.nodes[sort] for sort in faces.sorts]
        starts = [first[sort][number] for sort in faces.sorts]
        rows = past.rows[name]
        for row, nodes in zip(rows, faces.nodes[rows].tolist(), strict=True):
            entry = tuple(
                start + table[node]
                for start, table, node in zip(starts, tables, nodes, strict=True)
            )
            # Rows with the same nodes share an entry: a structure has each entry once.
            owner.append(places.setdefault(entry, len(places)))
            ages.append(_age(float(faces.times[row]), past.time))
        every += rows
    x = torch.cat([faces.features[every], torch.tensor(ages)[:, None]], 1)  # (rows, channels + 1)
    target = torch.tensor(owner, dtype=torch.long)
    count = torch.bincount(target, minlength=len(places)).float()[:, None]  # (entries, 1)
    sums = x.new_zeros(len(places), x.shape[1]).index_add_(0, target, x)
    index = torch.tensor(list(places), dtype=torch.long).view(-1, len(faces.sorts)).T.contiguous()
    return index, torch.cat([sums / count.clamp(min=1), count.log1p()], 1)


def _node_features(
    sort: NodeRows, name: str, pasts: Sequence[_Past], of_seeds: Sequence[Sequence[float]] | None
) -> Tensor:
    """Return the features of nodes that are known at the time, zeros for others; and their age.

    The entity itself comes first; a last feature marks it, beside counts of its rows.
    """
    nodes = [node for past in pasts for node in past.nodes[name]]
    times = [past.time for past in pasts for _ in past.nodes[name]]
    known = [
        node >= 0 and bool(sort.times[node] <= time)
        for node, time in zip(nodes, times, strict=True)
    ]
    x = sort.features[torch.tensor(nodes, dtype=torch.long).clamp(min=0)]  # (nodes, channels)
    x = x * torch.tensor(known, dtype=torch.float32)[:, None]
    ages = [
        _age(float(sort.times[node]), time) if is_known else 0.0
        for node, time, is_known in zip(nodes, times, known, strict=True)
    ]
    x = torch.cat([x, torch.tensor(ages)[:, None]], 1)
    if of_seeds is None:
        return x
    seeds = torch.tensor([0, *(len(past.nodes[name]) for past in pasts[:-1])]).cumsum(0)
    # One column marks the entity; without it, a network could not tell it from its neighbours of
    # the same sort.
    mark = torch.zeros(len(nodes), 1 + len(of_seeds[0]))
    mark[seeds] = torch.tensor([[1.0, *counts] for counts in of_seeds])
    return torch.cat([x, mark], 1)
