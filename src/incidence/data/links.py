"""Entries that are there or not, given others: links of graphs, hyperedges; entries that are not there, and scores without learning."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.data.building import splits_of
from incidence.data.completion import FOLDS, KNOWN, QUERY, ROWS, Completion
from incidence.data.dataset import DataSet, Task
from incidence.errors import IncidenceError
from incidence.structure.example import Example
from incidence.structure.incidences import incidences
from incidence.structure.ragged import (
    MAX_ENTRIES,
    assert_few,
    code,
    distinct,
    expand,
    is_among,
    ranges,
)
from incidence.structure.structure import Structure

__all__ = ["RANKS", "Links", "Neighbours", "absent_entries", "links_of", "neighbour_scores"]

RANKS = (10, 50)
_CLASSES = ("absent", "present")
_TRIES = 50


class Neighbours(NamedTuple):
    """Which nodes lie in entries together with which.

    Attributes:
        keys: Both directions of every pair, as one number each, ascending.
        nodes: The neighbours of all nodes, one node after the other.
        ptr: Where those of each node start, and the end.
    """

    keys: Tensor
    nodes: Tensor
    ptr: Tensor

    @property
    def degrees(self) -> Tensor:
        """How many neighbours a node has."""
        return self.ptr.diff()

    @staticmethod
    def of(pairs: Tensor, count: int) -> Neighbours:
        """The neighbours by pairs, [2, pairs], which may come again."""
        both = torch.cat([pairs, pairs.flip(0)], dim=1)
        keys = code(both.unbind(0), [count, count])[0]
        kept = distinct(keys)  # ascending, hence by the first node
        return Neighbours(
            keys[kept], both[1, kept], ranges(torch.bincount(both[0, kept], minlength=count))
        )


def neighbour_scores(pairs: Tensor, around: Neighbours) -> Tensor:
    r"""What is said about pairs without learning: shape (pairs, 3).

    The columns are common neighbours, $\log(1 + |N_a \cap N_b|)$; Adamic and Adar's $\sum_{c \in N_a \cap N_b} 1 / \log d_c$; and
    preferential attachment, $\log(1 + d_a d_b)$.
    """
    degrees, count = around.degrees, len(around.degrees)
    is_swapped = degrees[pairs[0]] > degrees[pairs[1]]  # the shorter list is walked along
    few, many = torch.where(is_swapped, pairs.flip(0), pairs)
    assert_few(int(degrees[few].sum()), 20 * MAX_ENTRIES, "the neighbours of asked links")
    which, spot = expand(around.ptr[few], degrees[few])
    middle = around.nodes[spot]
    is_common = is_among(code([many[which], middle], [count, count])[0], around.keys)
    which, middle = which[is_common], middle[is_common]
    weight = 1 / degrees[middle].float().log().clamp(
        min=1e-3
    )  # a common neighbour has at least two
    common = torch.zeros(pairs.shape[1]).index_add_(0, which, torch.ones(len(which)))
    adamic = torch.zeros(pairs.shape[1]).index_add_(0, which, weight)
    return torch.stack(
        [common.log1p(), adamic, (degrees[few] * degrees[many]).float().log1p()], dim=1
    )


def _pairs(structure: Structure, text: str) -> tuple[Tensor, Tensor]:
    """All pairs of nodes of every entry, nodes numbered through all sorts, [2, pairs], and the entry of each."""
    lists = incidences(structure, [structure.resolve(text)])
    sizes = lists.entry_ptr.diff()
    owner = torch.repeat_interleave(torch.arange(len(sizes)), sizes)
    later = lists.entry_ptr[owner + 1] - torch.arange(len(owner)) - 1  # members after this one
    assert_few(int(later.sum()), MAX_ENTRIES, f"pairs of nodes in entries of `{text}`")
    first, second = expand(torch.arange(len(owner)) + 1, later)
    return torch.stack([lists.nodes[first], lists.nodes[second]]), owner[first]


@dataclass(frozen=True, kw_only=True, repr=False)
class Links(Completion):
    """Entries that are there, which are known, and others that are not."""

    @property
    def baselines(self) -> Mapping[str, int]:
        """Scores by neighbours."""
        return {"common neighbours": 0, "Adamic and Adar": 1, "preferential attachment": 2}

    def features(self, structure: Structure, known: Tensor) -> dict[str, Tensor]:
        """How many known entries a node is in; what is told about known entries; scores of asked ones, and how many nodes they have."""
        lists = incidences(structure, [structure.resolve(KNOWN)])
        sorts = sorted(structure.counts)
        degrees = dict(
            zip(
                sorts,
                lists.node_ptr.diff().split([structure.counts[sort] for sort in sorts]),
                strict=True,
            )
        )
        pairs, owner = _pairs(structure, QUERY)
        around = Neighbours.of(_pairs(structure, KNOWN)[0], structure.total_nodes)
        count = structure.num_entries(QUERY)
        sizes = torch.bincount(owner, minlength=count).clamp(min=1)[:, None]
        scores = torch.zeros(count, 3).index_add_(0, owner, neighbour_scores(pairs, around)) / sizes
        nodes = incidences(structure, [structure.resolve(QUERY)]).entry_ptr.diff()[:, None].float()
        ones = torch.ones(len(known), 1)
        return {
            **{
                node_text(sort, structure.resolve(KNOWN)): degree.float().log1p()[:, None]
                for sort, degree in degrees.items()
            },
            f"{KNOWN}={self.pattern}": torch.cat([ones, self.values[known]], dim=1),
            self.query: torch.cat([scores, nodes.log()], dim=1),
        }

    def with_absent(self, entries: Sequence[Sequence[int]]) -> Links:
        """The same with further rows that are not there."""
        found = self.with_rows(entries)
        return replace(found, target=found.target.clamp(min=0))

    def columns(self) -> dict[str, list[str]]:
        """The names of the nodes of every row, by key."""
        if len(self.keys) == 1:
            lists, names = (
                incidences(self.rows, [self.rows.resolve(ROWS)]),
                [name for sort in sorted(self.names) for name in self.names[sort]],
            )
            parts = lists.nodes.split(lists.entry_ptr.diff().tolist())
            return {
                self.keys[0]: [" ".join(names[node] for node in part.tolist()) for part in parts]
            }
        fixed = self.rows[ROWS].tolist()
        sorts = self.sorts_of(len(fixed))
        return {
            key: [self.names[sort][node] for node in nodes]
            for key, sort, nodes in zip(self.keys, sorts, fixed, strict=True)
        }


def node_text(sort: str, pattern: Pattern) -> str:
    """The nodes of a sort, with the letter that a pattern has for them: in a map, a letter has one sort throughout."""
    letter = next((x for x, own in pattern.sorts.items() if own == sort), "i")
    return letter if sort == "node" else f"{letter}:{sort}"


def absent_entries(rows: Structure, count: int, generator: torch.Generator) -> list[list[int]]:
    """Entries that are not there, each once, with as many nodes as those that are; fewer where there are not so many.

    Args:
        rows: A structure with one tensor, `rows=...`.
        count: How many for each entry.
        generator: What draws them: all are equally likely.
    """
    pattern = rows.resolve(ROWS)
    sizes = incidences(rows, [pattern]).entry_ptr.diff()
    found: list[list[int]] = []
    for size, entries in zip(
        *(part.tolist() for part in sizes.unique(return_counts=True)), strict=True
    ):
        found += _absent_of_size(rows, pattern, size, count * entries, generator)
    return found


def _absent_of_size(
    rows: Structure, pattern: Pattern, size: int, wanted: int, generator: torch.Generator
) -> list[list[int]]:
    sorts = list(pattern.sorts.values())
    counts = [rows.counts[sorts[min(k, len(sorts) - 1)]] for k in range(size)]
    is_set, is_one_sort = pattern.faces[0].kind.opening != "(", len(set(sorts)) == 1
    found = torch.zeros(0, size, dtype=torch.long)
    for _ in range(_TRIES):
        drawn = torch.stack(
            [torch.randint(n, (2 * wanted + 10,), generator=generator) for n in counts], dim=1
        )  # (drawn, size)
        ordered = drawn.sort(1).values
        drawn = (
            (ordered if is_set else drawn)[(ordered.diff(dim=1) > 0).all(1)]
            if is_one_sort
            else drawn
        )
        members = (
            torch.stack([drawn.reshape(-1), torch.arange(len(drawn)).repeat_interleave(size)])
            if pattern.is_open
            else drawn.T
        )
        drawn = torch.cat([found, drawn[rows.locate(ROWS, members.contiguous()) < 0]])
        found = drawn[distinct(code(drawn.unbind(1), counts)[0]).sort().values]
        if len(found) >= wanted:
            break
    kept: list[list[int]] = found[:wanted].tolist()
    return kept


def links_of(
    name: str,
    example: Example,
    *,
    names: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
    links: str | None = None,
    negatives: int = 1,
    folds: int = FOLDS,
    seed: int = 0,
    parts: Sequence[int] | None = None,
    keys: tuple[str, ...] = ("source", "target"),
    about: str = "",
) -> DataSet:
    """The links of one structure as data: those that are there, and as many that are not.

    Args:
        name: What it is called.
        example: The structure, with features; tensors besides the links stay.
        names: Of the nodes, by sort if there are several; their numbers, if not given.
        links: The tensor whose entries are asked for; the only one between nodes, if not given.
        negatives: How many entries that are not there are drawn for each that is.
        folds: In training, a fold of the links after the other is asked for.
        seed: Of what is drawn.
        parts: The part of each link, if that is told.
        keys: What the ends of a link are called.
        about: Where the data comes from.

    Raises:
        IncidenceError: There is no such tensor, or it has no entries, or several could be meant.
    """
    structure, pattern = example.structure, _tensor(example, links)
    if not structure.num_entries(pattern):
        raise IncidenceError(
            f"{name}: there are no links to learn from, as `{pattern}` has no entries."
        )
    text, sorts = str(pattern.unnamed()), list(structure.counts)
    others = {str(p): structure[p] for p in structure.patterns if p != pattern}
    features = {key: x for key, x in example.features.items() if structure.resolve(key) != pattern}
    have = {structure.resolve(key) for key in features}
    for sort in sorts:
        nodes = node_text(sort, pattern)
        if Pattern(nodes) not in have:
            features[nodes] = torch.zeros(structure.counts[sort], 0)
    own = next(
        (x for key, x in example.features.items() if structure.resolve(key) == pattern),
        torch.zeros(structure.num_entries(pattern), 0),
    )
    own = own[:, (own != own[:1]).any(0)]  # a column of ones tells nothing
    numbers = {sort: [str(k) for k in range(n)] for sort, n in structure.counts.items()}
    called = (
        names
        if isinstance(names, Mapping)
        else numbers
        if names is None or len(sorts) > 1
        else {sorts[0]: list(names)}
    )
    completion = Links(
        context=Example(Structure(structure.counts, others), features),
        rows=Completion.store(structure, text, structure[pattern]),
        values=own,
        target=torch.ones(len(own), dtype=torch.long),
        is_fact=torch.ones(len(own), dtype=torch.bool),
        names=called,
        keys=keys if not pattern.is_open and len(pattern.letters) == len(keys) else ("nodes",),
        seed=seed,
        folds=folds,
    )
    absent = absent_entries(completion.rows, negatives, torch.Generator().manual_seed(seed))
    if not absent:
        raise IncidenceError(
            f"{name}: all entries of `{text}` that there can be are there, so that nothing tells a link from none."
        )
    if len(absent) < negatives * len(own):
        warnings.warn(
            f"{name}: {len(absent)} entries of `{text}` are not there, and {negatives * len(own)} were to be drawn.",
            stacklevel=2,
        )
    completion = completion.with_absent(absent)
    told = (
        None
        if parts is None
        else splits_of([*parts, *(parts[k % len(parts)] for k in range(len(absent)))])
    )
    return DataSet(
        name, [completion.whole()], Task("classification", _CLASSES, at=completion.query, ranks=RANKS), told or (), reader="links",
        about=about or f"Your own data: {len(own):,} entries of {text}, and {len(absent):,} that are not there.", is_transductive=True,
        metric="auc", columns=completion.columns(), completion=completion,
    )  # fmt: skip


def _tensor(example: Example, asked: str | None) -> Pattern:
    structure = example.structure
    if asked is not None:
        found = structure.resolve(asked)
        if found not in structure.patterns or not _is_link(found):
            raise IncidenceError(
                f"links are sets or tuples of different nodes, such as `{{i j}}`, `(i j)` or `{{i ...}}`; `{asked}` is none. There are "
                f"{_listed(structure)}."
            )
        return found
    between = [p for p in structure.patterns if _is_link(p)]
    if len(between) != 1:
        raise IncidenceError(
            f"which tensor has the links is not clear: say one of {_listed(structure)} with --data-options 'links=...'."
        )
    return between[0]


def _is_link(pattern: Pattern) -> bool:
    """Whether entries are sets or tuples of different nodes: one face without a sign, or nodes of different sorts."""
    is_face = (
        pattern.order == 1
        and (pattern.is_open or len(pattern.letters) > 1)
        and not pattern.is_oriented
    )
    return is_face or (
        len(pattern.letters) == pattern.order == len(set(pattern.sorts.values())) > 1
    )


def _listed(structure: Structure) -> str:
    return ", ".join(f"`{p}`" for p in structure.patterns) or "none"
