"""PyG's `HeteroData`: node types are sorts, and every edge type is a tensor."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from incidence.algebra.grammar import is_letter
from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.geometry.assembly import is_edge
from incidence.geometry.convert.exchange import as_rows, both_ways, once
from incidence.structure.example import Example
from incidence.structure.structure import Structure

__all__ = ["read", "write"]

_UNNAMED = "to"
"""What PyG calls a relation that has no name."""


def read(data: Any) -> Example:
    """An example from `HeteroData`: `x` are the features of nodes, `pos` those of a tensor named after sort, `y` the target."""
    counts: dict[str, int] = {}
    features: dict[str, Tensor] = {}
    target: dict[str, Tensor] = {}
    for sort in data.node_types:
        counts[sort] = _count(data[sort], sort)
        for key, text in {"x": f"i:{sort}", "pos": f"{sort}_pos=i:{sort}"}.items():
            if data[sort].get(key) is not None:
                features[text] = as_rows(data[sort][key], "from_pyg", f"{key} of `{sort}`")
        if data[sort].get("y") is not None:
            target[f"i:{sort}"] = torch.as_tensor(data[sort].y)
    index: dict[str, Any] = {}
    for kind in data.edge_types:
        text = _text(data, kind)
        if text in index:
            raise IncidenceError(f"from_pyg: two edge types are `{text}` here. Rename a relation, as names tell tensors apart.")
        values = {"edge_attr": as_rows(data[kind].edge_attr, "from_pyg", "edge_attr")} if "edge_attr" in data[kind] else {}
        index[text], values = _pairs(Pattern(text), data[kind].edge_index, counts, values)
        if values:
            features[text] = values["edge_attr"]
    whole = data.get("y") if "y" in data._global_store else None
    return Example(Structure(counts, index), features, target or (None if whole is None else whole[0]))


def _count(store: Any, sort: str) -> int:
    known = [key for key in ("num_nodes", "x", "pos", "y") if key in store]
    if not known:
        raise IncidenceError(f"from_pyg: the number of nodes of `{sort}` is not known. Set data['{sort}'].num_nodes or .x.")
    return int(store.num_nodes) if known[0] == "num_nodes" else len(store[known[0]])


def _text(data: Any, kind: tuple[str, str, str]) -> str:
    if "edge_pattern" in data[kind]:
        return str(data[kind].edge_pattern)
    source, relation, target = kind
    faces = f"(i:{source} j:{source})" if source == target else f"i:{source} j:{target}"
    others = [other for other in data.edge_types if other[1] == relation]
    name = relation if len(others) == 1 and not is_letter(relation) else f"{source}_{relation}_{target}"
    return faces if relation == _UNNAMED else f"{name}={faces}"


def _pairs(pattern: Pattern, pairs: Tensor, counts: dict[str, int], values: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
    return once(pattern, pairs, counts[pattern.sorts[pattern.letters[0]]], values, "from_pyg") if is_edge(pattern) else (pairs, values)


def write(pyg: Any, example: Example) -> Any:
    """An example as `HeteroData`; tensors must have two letters, as edges there do."""
    data, structure = pyg.HeteroData(), example.structure
    for sort, count in structure.counts.items():
        data[sort].num_nodes = count
    place: dict[Pattern, tuple[Any, str, Tensor | None]] = {Pattern(f"i:{sort}"): (data[sort], "x", None) for sort in structure.counts}
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
        store.edge_index, rows = both_ways(pattern, structure[pattern]) if is_edge(pattern) else (structure[pattern], None)
        place[pattern] = (store, "edge_attr", rows)
    for key, x in example.features.items():
        pattern = structure.resolve(key)
        if pattern not in place:
            raise IncidenceError(
                f"to_pyg: HeteroData has no place for features of `{str(pattern) or 'the whole structure'}`: leave them out."
            )
        store, name, rows = place[pattern]
        store[name] = x if rows is None else x[rows]
    _write_target(data, example)
    for store in data.node_stores:
        if list(store.keys()) == ["num_nodes"]:  # PyG makes a batch of such nodes, but cannot take it apart again
            store.n_id = torch.arange(store.num_nodes, device=structure.device)
    return data


def _write_target(data: Any, example: Example) -> None:
    if not isinstance(example.target, dict):
        if example.target is not None:
            data.y = example.target[None]
        return
    for key, x in example.target.items():
        pattern = example.structure.resolve(key)
        if len(pattern.letters) != 1 or pattern in example.structure.patterns:
            raise IncidenceError(f"to_pyg: HeteroData has no place for a target of `{key}`, only for those of nodes: leave it out.")
        data[pattern.sorts[pattern.letters[0]]].y = x
