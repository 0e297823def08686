"""PyG's `HeteroData`: node types are sorts, each with a letter of its own, so that the tensors of a graph form a map."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from string import ascii_lowercase
from typing import Any

import torch
from torch import Tensor

from incidence.algebra.grammar import is_letter
from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.geometry.assembly import is_edge
from incidence.geometry.convert.exchange import Homes, Pairs, as_rows, both_ways, by_graph, once, with_graphs
from incidence.structure import Example

__all__ = ["letters_of", "read_sorts", "write_sorts"]

_UNNAMED = "to"
"""What PyG calls a relation that has no name."""


def letters_of(sorts: Iterable[str]) -> dict[str, str]:
    """A letter for every sort: one of its name if it is free, the first above others; else any.

    Example:
        >>> letters_of(["user", "movie", "usher", "m"])
        {'user': 'u', 'movie': 'm', 'usher': 's', 'm': 'a'}
    """
    letters: dict[str, str] = {}
    for sort in sorts:
        others = (f"{x}{number}" for number in range(3, 10**6) for x in ascii_lowercase)  # x2 is the second letter of a relation
        named = (x for x in sort.lower() if x in ascii_lowercase)
        letters[sort] = next(x for x in chain(named, ascii_lowercase, others) if x not in letters.values())
    return letters


def read_sorts(data: Any, homes: Homes = None, num_graphs: int = 1) -> Example:
    """An example from `HeteroData`: `x` are the features of nodes, `pos` those of a tensor named after sort, `y` the target; or a batch."""
    counts: dict[str, int] = {}
    features: dict[str, Tensor] = {}
    target: dict[str, Tensor] = {}
    letters = letters_of(data.node_types)
    for sort in data.node_types:
        node = f"{letters[sort]}:{sort}"
        known = [key for key in ("num_nodes", "x", "pos", "y", "batch") if key in data[sort]]
        if not known:
            raise IncidenceError(f"from_pyg: the number of nodes of `{sort}` is not known. Set data['{sort}'].num_nodes or .x.")
        counts[sort] = int(data[sort].num_nodes) if known[0] == "num_nodes" else len(data[sort][known[0]])
        for key, text in {"x": node, "pos": f"{sort}_pos={node}"}.items():
            if data[sort].get(key) is not None:
                features[text] = as_rows(data[sort][key], "from_pyg", f"{key} of `{sort}`")
        if data[sort].get("y") is not None:
            target[node] = torch.as_tensor(data[sort].y)
    index: dict[str, Any] = {}
    for kind in data.edge_types:
        text = _relation_text(data, kind, letters)
        if text in index:
            raise IncidenceError(f"from_pyg: two edge types are `{text}` here. Rename a relation, as names tell tensors apart.")
        values = {"edge_attr": as_rows(data[kind].edge_attr, "from_pyg", "edge_attr")} if "edge_attr" in data[kind] else {}
        index[text], values = by_graph(data[kind].edge_index, values, homes, kind[0])
        pattern = Pattern(text)
        if is_edge(pattern):
            index[text], values = once(pattern, index[text], counts[kind[0]], values, "from_pyg")
        if values:
            features[text] = values["edge_attr"]
    whole = data.get("y") if "y" in data._global_store else None
    of_whole = None if whole is None else whole if homes else whole[0]
    return Example(with_graphs(counts, index, homes, num_graphs), features, target or of_whole, is_batch=homes is not None)


def _relation_text(data: Any, kind: tuple[str, str, str], letters: Mapping[str, str]) -> str:
    """The pattern of an edge type, in the letters of its sorts: what `to_pyg` told, or ordered pairs."""
    source, relation, target = kind
    one, other = letters[source], f"{letters[source]}2" if source == target else letters[target]
    if "edge_pattern" in data[kind]:
        told = data[kind].edge_pattern
        pattern = Pattern(told[0] if isinstance(told, list) else told)
        return str(pattern.rename(dict(zip(pattern.letters, (one, other), strict=True))))
    pair = f"{one}:{source} {other}:{target}"
    others = [other for other in data.edge_types if other[1] == relation]
    name = relation if len(others) == 1 and not is_letter(relation) else f"{source}_{relation}_{target}"
    faces = f"({pair})" if source == target else pair
    return faces if relation == _UNNAMED else f"{name}={faces}"


def write_sorts(data: Any, example: Example) -> Any:
    """An example put into empty `HeteroData`; tensors must have two letters, as edges there do."""
    structure = example.structure
    for sort, count in structure.counts.items():
        data[sort].num_nodes = count
    place: dict[Pattern, tuple[Any, str, Pairs | None]] = {Pattern(f"i:{sort}"): (data[sort], "x", None) for sort in structure.counts}
    place.update({Pattern(f"{sort}_pos=i:{sort}"): (data[sort], "pos", None) for sort in structure.counts})
    for pattern in structure.patterns:
        if len(pattern.letters) != 2 or pattern.is_open or pattern.name == _UNNAMED:
            raise IncidenceError(f"to_pyg: HeteroData holds pairs of nodes, and no `{pattern}`. Leave it out, or call it otherwise.")
        source, target = (pattern.sorts[letter] for letter in pattern.letters)
        kind = (source, pattern.name or _UNNAMED, target)
        if kind in data.edge_types:
            raise IncidenceError(f"to_pyg: two tensors are of the edge type {kind}: name `{pattern}`, or leave it out.")
        store = data[kind]
        store.edge_pattern = str(pattern)
        pairs = both_ways(pattern, structure[pattern]) if is_edge(pattern) else None
        store.edge_index = structure[pattern] if pairs is None else pairs.nodes
        place[pattern] = (store, "edge_attr", pairs)
    for key, x in example.features.items():
        pattern = structure.resolve(key)
        if pattern not in place:
            raise IncidenceError(
                f"to_pyg: HeteroData has no place for features of `{str(pattern) or 'the whole structure'}`: leave them out."
            )
        store, name, pairs = place[pattern]
        store[name] = x if pairs is None else pairs.values(x)
    if isinstance(example.target, Tensor):
        data.y = example.target[None]
    for key, x in (example.target if isinstance(example.target, dict) else {}).items():
        pattern = structure.resolve(key)
        if len(pattern.letters) != 1 or pattern in structure.patterns:
            raise IncidenceError(f"to_pyg: HeteroData has no place for a target of `{key}`, only for those of nodes: leave it out.")
        data[pattern.sorts[pattern.letters[0]]].y = x
    for store in data.node_stores:
        if list(store.keys()) == ["num_nodes"]:  # PyG makes a batch of such nodes, but cannot take it apart again
            store.n_id = torch.arange(store.num_nodes, device=structure.device)
    return data
