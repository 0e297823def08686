"""`HeteroData` of PyG: node types are sorts, each with a letter of its own. The tensors of a graph
then form a map.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from itertools import chain
from string import ascii_lowercase
from typing import Any, TypeVar

import torch
from torch import Tensor

from incidence.algebra.grammar import is_letter
from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.geometry.assembly import is_edge, named
from incidence.geometry.convert.edge_lists import (
    TARGET,
    DirectedPairs,
    EdgeChanges,
    NodeGraphs,
    both_directions,
    pyg_entries,
    with_graphs,
)
from incidence.geometry.convert.exchange import as_numbers, as_rows
from incidence.structure import Example

__all__ = ["letters_of", "names_of", "other_names", "read_sorts", "whole_target", "write_sorts"]

K = TypeVar("K", bound=Hashable)

_UNNAMED = "to"  # the relation of PyG's edges without a name


def letters_of(sorts: Iterable[str]) -> dict[str, str]:
    """Return a letter for every sort: the first of its name that is free, else any.

    Example:
        >>> letters_of(["user", "movie", "usher", "m"])
        {'user': 'u', 'movie': 'm', 'usher': 's', 'm': 'a'}
    """
    letters: dict[str, str] = {}
    for sort in sorts:
        # x2 is the second letter of a relation
        others = (f"{x}{number}" for number in range(3, 10**6) for x in ascii_lowercase)
        from_name = (x for x in sort.lower() if x in ascii_lowercase)
        candidates = chain(from_name, ascii_lowercase, others)
        letters[sort] = next(x for x in candidates if x not in letters.values())
    return letters


def names_of(words: Mapping[K, str]) -> dict[K, str]:
    """Return names that patterns take, for words of any kind.

    `_` replaces what is no letter or digit, and stands before a first digit. Words that are names
    stay as they are. Where two would be the same, the other gets a number.

    Example:
        >>> names_of({k: word for k, word in enumerate(["is-a", "2", "user", "is_a"])})
        {3: 'is_a', 2: 'user', 1: '_2', 0: 'is_a_2'}
    """
    plain = {
        key: re.sub(r"^(?=\d|$)", "_", re.sub(r"\W", "_", word, flags=re.ASCII))
        for key, word in words.items()
    }
    names: dict[K, str] = {}
    # Words that are names come first, and so keep theirs.
    for key in sorted(words, key=lambda key: (plain[key] != words[key], words[key])):
        numbered = (f"{plain[key]}_{number}" for number in range(2, 10**6))
        candidates = chain([plain[key]], numbered)
        names[key] = next(name for name in candidates if name not in names.values())
    return names


def other_names(data: Any) -> dict[str, str]:
    """Return the node types and relations of `HeteroData` that have another name here, and that
    name.

    Example:
        >>> from torch_geometric.data import HeteroData
        >>> graph = HeteroData()
        >>> graph["drug-a"].num_nodes, graph["gene"].num_nodes = 2, 3
        >>> graph["drug-a", "acts on", "gene"].edge_index = torch.tensor([[0], [1]])
        >>> other_names(graph)
        {'drug-a': 'drug_a', 'acts on': 'acts_on'}
    """
    renamed: dict[str, str] = {}
    for words in (_sort_words(data), _relation_words(data)):
        names = names_of(words)
        renamed.update({word: names[key] for key, word in words.items() if names[key] != word})
    return renamed


def _sort_words(data: Any) -> dict[Any, str]:
    return {sort: sort for sort in data.node_types}


def _relation_words(data: Any) -> dict[Any, str]:
    """The word for every edge type: its relation, with both sorts where that is a letter or comes
    again. Edge types without a relation have none.
    """
    times = Counter(relation for _, relation, _ in data.edge_types)
    words = {}
    for kind in data.edge_types:
        relation = kind[1]
        if relation != _UNNAMED and "edge_pattern" not in data[kind]:
            is_clear = times[relation] == 1 and not is_letter(relation)
            words[kind] = relation if is_clear else "_".join(kind)
    return words


def read_sorts(
    data: Any, changes: EdgeChanges | None, graphs: NodeGraphs = None, num_graphs: int = 1
) -> Example:
    """Return an example from `HeteroData`, or a batch.

    `x` are the features of nodes, `pos` those of a tensor with the name of the sort, `y` the
    target, which edges may have, too.

    Args:
        data: The data.
        changes: Changes and counts edges that are no entries; None refuses them.
        graphs: The graph of every node, by sort; None for a single graph.
        num_graphs: The number of graphs.
    """
    names = names_of(_sort_words(data))
    letters = letters_of(names[sort] for sort in data.node_types)
    counts: dict[str, int] = {}
    features: dict[str, Tensor] = {}
    target: dict[str, Tensor] = {}
    for sort in data.node_types:
        store = data[sort]
        name = names[sort]
        node = f"{letters[name]}:{name}"
        counts[name] = _num_nodes(store, sort)
        for key, text in {"x": node, "pos": f"{name}_pos={node}"}.items():
            if store.get(key) is not None:
                features[text] = as_rows(store[key], "from_pyg", f"{key} of `{sort}`")
        if store.get("y") is not None:
            target[node] = as_numbers(store.y, "from_pyg", f"y of `{sort}`")
    index: dict[str, Any] = {}
    relations = names_of(_relation_words(data))
    for kind in data.edge_types:
        store = data[kind]
        first = names[kind[0]]
        last = names[kind[2]]
        text = _relation_text(store, first, last, letters, relations.get(kind))
        if text in index:
            raise IncidenceError(
                f"from_pyg: two edge types are `{text}` here. Rename a relation, as names tell"
                " tensors apart."
            )
        keys = [key for key in ("edge_attr", TARGET) if store.get(key) is not None]
        values = {key: as_rows(store[key], "from_pyg", f"{key} of {kind}") for key in keys}
        num_nodes = max(counts[first], counts[last])
        homes = None if graphs is None else graphs[kind[0]]
        index[text], values = pyg_entries(
            Pattern(text), store.edge_index, num_nodes, values, homes, changes
        )
        if "edge_attr" in values:
            features[text] = values["edge_attr"]
        if TARGET in values:
            target[text] = values[TARGET].view(-1, *torch.as_tensor(store.y).shape[1:])
    batch = None if graphs is None else {names[sort]: home for sort, home in graphs.items()}
    structure = with_graphs(counts, index, batch, num_graphs)
    y: Any = target or None
    if y is None and data._global_store.get("y") is not None:
        y = whole_target(as_numbers(data.y, "from_pyg", "y"), graphs)
    return Example(structure, features, y, is_batch=graphs is not None)


def _num_nodes(store: Any, sort: str) -> int:
    """The number of nodes of a type, from the first attribute that shows it."""
    if "num_nodes" in store:
        return int(store.num_nodes)
    for key in ("x", "pos", "y", "batch"):
        if key in store:
            return len(store[key])
    raise IncidenceError(
        f"from_pyg: the number of nodes of `{sort}` is not known. Set data['{sort}'].num_nodes"
        " or .x."
    )


def whole_target(y: Tensor, graphs: NodeGraphs) -> Tensor:
    """Return a target of whole graphs, of which PyG has a row for each: one graph needs no rows."""
    return y[0] if graphs is None and y.ndim and len(y) == 1 else y


def _relation_text(
    store: Any, source: str, target: str, letters: Mapping[str, str], name: str | None
) -> str:
    """The pattern of an edge type, in the letters of its sorts: what `to_pyg` wrote, or ordered
    pairs.
    """
    is_one_sort = source == target
    one = letters[source]
    other = f"{one}2" if is_one_sort else letters[target]
    if "edge_pattern" in store:
        written = store.edge_pattern
        pattern = Pattern(written[0] if isinstance(written, list) else written)
        return str(pattern.rename(dict(zip(pattern.letters, (one, other), strict=True))))
    pair = f"{one}:{source} {other}:{target}"
    return named(name, f"({pair})" if is_one_sort else pair)


def write_sorts(data: Any, example: Example) -> Any:
    """Put an example into empty `HeteroData`. Tensors must have two letters, as edges there do."""
    structure = example.structure
    for sort, count in structure.counts.items():
        data[sort].num_nodes = count
    place: dict[Pattern, tuple[Any, str, DirectedPairs | None]] = {}
    for sort in structure.counts:
        place[Pattern(f"i:{sort}")] = data[sort], "x", None
        place[Pattern(f"{sort}_pos=i:{sort}")] = data[sort], "pos", None
    for pattern in structure.patterns:
        if len(pattern.letters) != 2 or pattern.is_open or pattern.name == _UNNAMED:
            raise IncidenceError(
                f"to_pyg: HeteroData holds pairs of nodes, and no `{pattern}`. Leave it out, or"
                " call it otherwise."
            )
        source, target = (pattern.sorts[letter] for letter in pattern.letters)
        kind = (source, pattern.name or _UNNAMED, target)
        if kind in data.edge_types:
            raise IncidenceError(
                f"to_pyg: two tensors are of the edge type {kind}: name `{pattern}`, or leave it"
                " out."
            )
        store = data[kind]
        store.edge_pattern = str(pattern)
        pairs = both_directions(pattern, structure[pattern]) if is_edge(pattern) else None
        store.edge_index = structure[pattern] if pairs is None else pairs.nodes
        place[pattern] = (store, "edge_attr", pairs)
    for key, x in example.features.items():
        pattern = structure.resolve(key)
        if pattern not in place:
            raise IncidenceError(
                "to_pyg: HeteroData has no place for features of"
                f" `{str(pattern) or 'the whole structure'}`: leave them out."
            )
        store, name, pairs = place[pattern]
        store[name] = x if pairs is None else pairs.values(x)
    if isinstance(example.target, Tensor):
        data.y = example.target[None]
    targets = example.target if isinstance(example.target, dict) else {}
    for key, x in targets.items():
        pattern = structure.resolve(key)
        if len(pattern.letters) != 1 or pattern in structure.patterns:
            raise IncidenceError(
                f"to_pyg: HeteroData has no place for a target of `{key}`, only for those of nodes:"
                " leave it out."
            )
        data[pattern.sorts[pattern.letters[0]]].y = x
    for store in data.node_stores:
        # PyG makes a batch of such nodes, but cannot take it apart again
        if list(store.keys()) == ["num_nodes"]:
            store.n_id = torch.arange(store.num_nodes, device=structure.device)
    return data
