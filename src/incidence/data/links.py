"""Links that exist or not, given others: edges of graphs, hyperedges, pairs of two sorts.

Links that do not exist are drawn beside those that do. Scores by neighbours need no training: they
are features, and the baseline.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.data.completion import FOLDS, KNOWN, QUERY, ROWS, Completion
from incidence.data.dataset import DataSet, Task
from incidence.data.splitting import splits_of
from incidence.data.tables import TextTable
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

__all__ = [
    "RANKS",
    "LinkGraph",
    "Links",
    "NeighbourLists",
    "absent_links",
    "links_of",
    "neighbour_scores",
]

RANKS = (10, 50)
"""The ranks at which hits are counted."""
_CLASSES = ("absent", "present")
_TRIES = 50  # draws, each of twice as many as are needed


class LinkGraph(NamedTuple):
    """A graph or hypergraph whose links are to be predicted.

    Attributes:
        name: The name of the data.
        example: The structure with features; it may have other tensors beside the links.
        names: The names of the nodes, by sort if there are several; numbers if None.
        parts: The part of each link (0, 1, 2, or -1 for none), if the data defines parts.
        skipped: Why links were skipped, a message for each.
        keys: What the two ends of a link are called.
    """

    name: str
    example: Example
    names: Sequence[str] | Mapping[str, Sequence[str]] | None = None
    parts: Sequence[int] | None = None
    skipped: Sequence[str] = ()
    keys: tuple[str, ...] = ("source", "target")


class NeighbourLists(NamedTuple):
    """The neighbours of every node.

    Attributes:
        codes: Both directions of every pair of neighbours, each coded as one number, ascending.
        nodes: The neighbours of all nodes, one node after the other.
        ptr: Where the neighbours of each node start, and the end.
    """

    codes: Tensor
    nodes: Tensor
    ptr: Tensor

    @property
    def degrees(self) -> Tensor:
        """How many neighbours each node has."""
        return self.ptr.diff()

    @staticmethod
    def of(pairs: Tensor, num_nodes: int) -> NeighbourLists:
        """Return the neighbours by pairs, [2, pairs], which may come several times."""
        both = torch.cat([pairs, pairs.flip(0)], dim=1)
        codes = code(both.unbind(0), [num_nodes, num_nodes])[0]
        rows = distinct(codes)  # ascending, hence by the first node
        degrees = torch.bincount(both[0, rows], minlength=num_nodes)
        return NeighbourLists(codes[rows], both[1, rows], ranges(degrees))


def neighbour_scores(pairs: Tensor, lists: NeighbourLists) -> Tensor:
    r"""Return scores of pairs that need no training, (pairs, 3).

    The columns are common neighbours, $\log(1 + |N_a \cap N_b|)$; Adamic and Adar's $\sum_{c \in
    N_a \cap N_b} 1 / \log d_c$; and preferential attachment, $\log(1 + d_a d_b)$.

    Args:
        pairs: Pairs of nodes $a, b$, [2, pairs].
        lists: The neighbours $N$ and degrees $d$.

    Raises:
        TooLargeError: The neighbours of the pairs are too many.
    """
    degrees, num_nodes = lists.degrees, len(lists.degrees)
    # the neighbours of the node with fewer of them are looked up among those of the other node
    is_swapped = degrees[pairs[0]] > degrees[pairs[1]]
    few, many = torch.where(is_swapped, pairs.flip(0), pairs)
    assert_few(int(degrees[few].sum()), 20 * MAX_ENTRIES, "the neighbours of queried links")
    pair, place = expand(lists.ptr[few], degrees[few])  # a row for each neighbour of `few`
    middle = lists.nodes[place]
    is_common = is_among(code([many[pair], middle], [num_nodes, num_nodes])[0], lists.codes)
    pair, middle = pair[is_common], middle[is_common]  # (common neighbours,) each
    # a common neighbour has at least two neighbours
    weight = 1 / degrees[middle].float().log().clamp(min=1e-3)
    zeros = torch.zeros(pairs.shape[1])
    common = zeros.index_add(0, pair, torch.ones(len(pair)))
    adamic = zeros.index_add(0, pair, weight)
    attachment = (degrees[few] * degrees[many]).float()  # (pairs,)
    return torch.stack([common.log1p(), adamic, attachment.log1p()], dim=1)


def _node_pairs(structure: Structure, text: str) -> tuple[Tensor, Tensor]:
    """Return all pairs of nodes of every entry, [2, pairs], and the entry of each.

    The nodes are numbered through all sorts.
    """
    lists = incidences(structure, [structure.resolve(text)])
    sizes = lists.entry_ptr.diff()
    owner = torch.repeat_interleave(torch.arange(len(sizes)), sizes)
    # how many members of the same entry come after each member
    later = lists.entry_ptr[owner + 1] - torch.arange(len(owner)) - 1
    assert_few(int(later.sum()), MAX_ENTRIES, f"pairs of nodes in entries of `{text}`")
    first, second = expand(torch.arange(len(owner)) + 1, later)
    return torch.stack([lists.nodes[first], lists.nodes[second]]), owner[first]


@dataclass(frozen=True, kw_only=True, repr=False)
class Links(Completion):
    """Links that exist, which are facts, and links that do not exist."""

    kind: ClassVar[str] = "links"

    @property
    def baselines(self) -> Mapping[str, int]:
        """The scores by neighbours."""
        return {"common neighbours": 0, "Adamic and Adar": 1, "preferential attachment": 2}

    def features(self, structure: Structure, known: Tensor) -> dict[str, Tensor]:
        """Return degrees of nodes, features of known links, and scores of queried links.

        The scores of a link with several nodes are means over its pairs of nodes; the logarithm of
        its number of nodes stands beside them.
        """
        pattern = structure.resolve(KNOWN)
        sorts = sorted(structure.counts)
        degrees = incidences(structure, [pattern]).node_ptr.diff()
        by_sort = degrees.float().log1p()[:, None].split([structure.counts[s] for s in sorts])
        features = {_node_text(sort, pattern): x for sort, x in zip(sorts, by_sort, strict=True)}
        ones = torch.ones(len(known), 1)
        features[f"{KNOWN}={self.pattern}"] = torch.cat([ones, self.values[known]], dim=1)
        lists = NeighbourLists.of(_node_pairs(structure, KNOWN)[0], structure.total_nodes)
        pairs, owner = _node_pairs(structure, QUERY)  # (2, pairs), (pairs,)
        count = structure.num_entries(QUERY)
        num_pairs = torch.bincount(owner, minlength=count).clamp(min=1)[:, None]
        sums = torch.zeros(count, 3).index_add_(0, owner, neighbour_scores(pairs, lists))
        sizes = incidences(structure, [structure.resolve(QUERY)]).entry_ptr.diff()[:, None]
        features[self.query] = torch.cat([sums / num_pairs, sizes.float().log()], dim=1)
        return features

    def with_absent(self, links: Sequence[Sequence[int]]) -> Links:
        """Return the completion with further links, which do not exist."""
        wider = self.with_rows(links)
        return replace(wider, target=wider.target.clamp(min=0))

    def targets_of(self, table: TextTable) -> Tensor:
        """Return ones: the links of a table exist."""
        return torch.ones(len(table), dtype=torch.long)

    def columns(self) -> dict[str, list[str]]:
        """Return the names of the nodes of every link, by key."""
        if len(self.keys) == 1:  # a set of any size
            names = [name for sort in sorted(self.names) for name in self.names[sort]]
            lists = incidences(self.rows, [self.rows.resolve(ROWS)])
            parts = lists.nodes.split(lists.entry_ptr.diff().tolist())
            return {self.keys[0]: [" ".join(names[k] for k in part.tolist()) for part in parts]}
        index = self.rows[ROWS].tolist()
        ends = zip(self.keys, self.sorts_of(len(index)), index, strict=True)
        return {key: [self.names[sort][node] for node in nodes] for key, sort, nodes in ends}


def _node_text(sort: str, pattern: Pattern) -> str:
    """Return the pattern of the nodes of a sort, with the letter that another pattern has for them.

    In a map, a letter has one sort throughout.
    """
    letter = next((letter for letter, one in pattern.sorts.items() if one == sort), "i")
    return letter if sort == "node" else f"{letter}:{sort}"


def absent_links(rows: Structure, count: int, generator: torch.Generator) -> list[list[int]]:
    """Draw links that do not exist, each once, with as many nodes as those that do.

    There may be fewer if nearly all links exist.

    Args:
        rows: A structure with one tensor, `rows=...`.
        count: How many to draw for each link that exists.
        generator: Draws them; all are equally likely.
    """
    pattern = rows.resolve(ROWS)
    sizes, counts = incidences(rows, [pattern]).entry_ptr.diff().unique(return_counts=True)
    links: list[list[int]] = []
    for size, num_links in zip(sizes.tolist(), counts.tolist(), strict=True):
        links += _absent_of_size(rows, pattern, size, count * num_links, generator)
    return links


def _absent_of_size(
    rows: Structure, pattern: Pattern, size: int, wanted: int, generator: torch.Generator
) -> list[list[int]]:
    sorts = list(pattern.sorts.values())
    num_nodes = [rows.counts[sorts[min(k, len(sorts) - 1)]] for k in range(size)]
    has_one_sort = len(set(sorts)) == 1
    is_set = pattern.faces[0].kind.opening != "("
    links = torch.zeros(0, size, dtype=torch.long)
    for _ in range(_TRIES):
        # (drawn,) each
        columns = [torch.randint(n, (2 * wanted + 10,), generator=generator) for n in num_nodes]
        drawn = torch.stack(columns, dim=1)  # (drawn, size)
        if has_one_sort:
            ordered = drawn.sort(1).values  # (drawn, size)
            are_distinct = (ordered.diff(dim=1) > 0).all(1)
            drawn = (ordered if is_set else drawn)[are_distinct]
        is_absent = rows.locate(ROWS, _as_index(drawn, pattern)) < 0
        links = torch.cat([links, drawn[is_absent]])
        # Each once, in the order in which they were drawn: so the first ones are a fair sample.
        links = links[distinct(code(links.unbind(1), num_nodes)[0]).sort().values]
        if len(links) >= wanted:
            break
    drawn_links: list[list[int]] = links[:wanted].tolist()
    return drawn_links


def _as_index(links: Tensor, pattern: Pattern) -> Tensor:
    """Return links, [links, size], as an index of a pattern."""
    if not pattern.is_open:
        return links.T.contiguous()
    owner = torch.arange(len(links)).repeat_interleave(links.shape[1])
    return torch.stack([links.reshape(-1), owner])


def links_of(
    graph: LinkGraph,
    *,
    links: str | None = None,
    negatives: int = 1,
    folds: int = FOLDS,
    seed: int = 0,
) -> DataSet:
    """Return the data set of the links of one graph: those that exist, and as many that do not.

    Args:
        graph: The graph.
        links: The tensor with the links; the only one that may have them if None.
        negatives: How many links that do not exist are drawn for each that does.
        folds: Training queries the links fold by fold.
        seed: Seed of what is drawn.

    Raises:
        IncidenceError: There is no such tensor, or several, or no links, or no absent ones.
    """
    pattern = _link_tensor(graph.example.structure, links)
    facts = _facts(graph, pattern, seed, folds)
    completion, num_absent = _with_absent(facts, graph.name, negatives, seed)
    num_links = len(facts.target)
    parts = graph.parts
    if parts is not None:  # absent links have the parts of the links they were drawn for
        parts = [*parts, *(parts[k % len(parts)] for k in range(num_absent))]
    return DataSet(
        graph.name,
        [completion.whole()],
        Task("classification", _CLASSES, at=completion.query, ranks=RANKS),
        splits_of(parts),
        reader=Links.kind,
        about=(
            f"Your own data: {num_links:,} entries of {facts.pattern}, and {num_absent:,} that do"
            " not exist."
        ),
        is_transductive=True,
        metric="auc",
        columns=completion.columns(),
        passed_over=tuple(graph.skipped),
        completion=completion,
    )


def _facts(graph: LinkGraph, pattern: Pattern, seed: int, folds: int) -> Links:
    """Return the links that exist."""
    example, structure = graph.example, graph.example.structure
    num_links = structure.num_entries(pattern)
    if not num_links:
        raise IncidenceError(
            f"{graph.name}: there are no links to learn from, as `{pattern}` has no entries."
        )
    features, values = example.features, torch.zeros(num_links, 0)
    for key in list(features):
        if structure.resolve(key) == pattern:
            values = features.pop(key)
    has_features = {structure.resolve(key) for key in features}
    for sort, num_nodes in structure.counts.items():
        nodes = _node_text(sort, pattern)
        if Pattern(nodes) not in has_features:
            features[nodes] = torch.zeros(num_nodes, 0)
    others = {str(p): structure[p] for p in structure.patterns if p != pattern}
    has_two_ends = not pattern.is_open and len(pattern.letters) == len(graph.keys)
    return Links(
        context=Example(Structure(structure.counts, others), features),
        rows=Completion.store(structure, str(pattern.unnamed()), structure[pattern]),
        values=values[:, (values != values[:1]).any(0)],  # columns that distinguish links
        target=torch.ones(num_links, dtype=torch.long),
        is_fact=torch.ones(num_links, dtype=torch.bool),
        names=_names_by_sort(graph),
        keys=graph.keys if has_two_ends else ("nodes",),
        seed=seed,
        folds=folds,
    )


def _names_by_sort(graph: LinkGraph) -> Mapping[str, Sequence[str]]:
    if isinstance(graph.names, Mapping):
        return graph.names
    counts = graph.example.structure.counts
    if graph.names is not None and len(counts) == 1:
        return {sort: list(graph.names) for sort in counts}
    return {sort: [str(k) for k in range(n)] for sort, n in counts.items()}


def _with_absent(facts: Links, name: str, negatives: int, seed: int) -> tuple[Links, int]:
    """Return the completion with absent links, and their number."""
    generator = torch.Generator().manual_seed(seed)
    absent = absent_links(facts.rows, negatives, generator)
    wanted = negatives * len(facts.target)
    if not absent:
        raise IncidenceError(
            f"{name}: all possible entries of `{facts.pattern}` exist, so there are no absent links"
            " to tell them from."
        )
    if len(absent) < wanted:
        warnings.warn(
            f"{name}: only {len(absent)} entries of `{facts.pattern}` do not exist, and {wanted}"
            " were to be drawn.",
            stacklevel=3,
        )
    return facts.with_absent(absent), len(absent)


def _link_tensor(structure: Structure, text: str | None) -> Pattern:
    """Return the tensor with the links: the given one, or the only one that may have them."""
    listed = ", ".join(f"`{p}`" for p in structure.patterns) or "none"
    if text is not None:
        pattern = structure.resolve(text)
        if pattern not in structure.patterns or not _may_be_links(pattern):
            raise IncidenceError(
                "links are sets or tuples of different nodes, such as `{i j}`, `(i j)` or `{i"
                f" ...}}`; `{text}` is none. There are {listed}."
            )
        return pattern
    candidates = [pattern for pattern in structure.patterns if _may_be_links(pattern)]
    if len(candidates) != 1:
        raise IncidenceError(
            f"which tensor has the links is not clear: say one of {listed} with"
            " `--data-options 'links=...'`."
        )
    return candidates[0]


def _may_be_links(pattern: Pattern) -> bool:
    """Return whether entries are sets or tuples of different nodes.

    They are if the pattern is one face without a sign, or has nodes of different sorts.
    """
    has_several_nodes = pattern.is_open or len(pattern.letters) > 1
    if pattern.order == 1 and has_several_nodes and not pattern.is_oriented:
        return True
    num_sorts = len(set(pattern.sorts.values()))
    return len(pattern.letters) == pattern.order == num_sorts > 1
