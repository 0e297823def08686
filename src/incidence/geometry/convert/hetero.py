"""PyG's `HeteroData`: node types are sorts, each with a letter of its own, so that the tensors of a graph form a map."""

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
from incidence.geometry.convert.exchange import (
    Homes,
    Pairs,
    as_numbers,
    as_rows,
    both_ways,
    whole_target,
    with_graphs,
)
from incidence.geometry.convert.simple import TARGET, Once, entries
from incidence.structure import Example

__all__ = ["letters_of", "names_of", "other_names", "read_sorts", "write_sorts"]

K = TypeVar("K", bound=Hashable)

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
        others = (
            f"{x}{number}" for number in range(3, 10**6) for x in ascii_lowercase
        )  # x2 is the second letter of a relation
        named = (x for x in sort.lower() if x in ascii_lowercase)
        letters[sort] = next(
            x for x in chain(named, ascii_lowercase, others) if x not in letters.values()
        )
    return letters


def names_of(words: Mapping[K, str]) -> dict[K, str]:
    """Names that patterns take, for words of any kind: `_` stands for what is no letter or digit, and before a digit that comes first.

    Words that are names stay as they are; where two would be the same, the other has a number.

    Example:
        >>> names_of({k: word for k, word in enumerate(["is-a", "2", "user", "is_a"])})
        {3: 'is_a', 2: 'user', 1: '_2', 0: 'is_a_2'}
    """
    plain = {
        key: re.sub(r"^(?=\d|$)", "_", re.sub(r"\W", "_", word, flags=re.ASCII))
        for key, word in words.items()
    }
    names: dict[K, str] = {}
    for key in sorted(words, key=lambda key: (plain[key] != words[key], words[key])):
        numbered = (f"{plain[key]}_{number}" for number in range(2, 10**6))
        names[key] = next(
            name for name in chain([plain[key]], numbered) if name not in names.values()
        )
    return names


def other_names(data: Any) -> dict[str, str]:
    """The node types and relations of `HeteroData` that have another name here, and that name: the way back.

    Example:
        >>> from torch_geometric.data import HeteroData
        >>> graph = HeteroData()
        >>> graph["drug-a"].num_nodes, graph["gene"].num_nodes = 2, 3
        >>> graph["drug-a", "acts on", "gene"].edge_index = torch.tensor([[0], [1]])
        >>> other_names(graph)
        {'drug-a': 'drug_a', 'acts on': 'acts_on'}
    """
    found: dict[str, str] = {}
    for words in (_sort_words(data), _relation_words(data)):
        names = names_of(words)
        found.update({word: names[key] for key, word in words.items() if names[key] != word})
    return found


def _sort_words(data: Any) -> dict[Any, str]:
    return {sort: sort for sort in data.node_types}


def _relation_words(data: Any) -> dict[Any, str]:
    """What edge types are called: as their relations, with both sorts where that is a letter or comes again; those without one are not."""
    often = Counter(relation for _, relation, _ in data.edge_types)
    return {
        kind: kind[1] if often[kind[1]] == 1 and not is_letter(kind[1]) else "_".join(kind)
        for kind in data.edge_types
        if kind[1] != _UNNAMED and "edge_pattern" not in data[kind]
    }


def read_sorts(data: Any, once: Once, homes: Homes = None, num_graphs: int = 1) -> Example:
    """An example from `HeteroData`: `x` are the features of nodes, `pos` those of a tensor named after sort, `y` the target; or a batch.

    Edges may have `y`, too. Entries are made of the edges by `once`.
    """
    counts: dict[str, int] = {}
    features: dict[str, Tensor] = {}
    target: dict[str, Tensor] = {}
    names = names_of(_sort_words(data))
    letters = letters_of(names[sort] for sort in data.node_types)
    homes = homes and {names[sort]: home for sort, home in homes.items()}
    for sort, name in ((sort, names[sort]) for sort in data.node_types):
        node = f"{letters[name]}:{name}"
        known = [key for key in ("num_nodes", "x", "pos", "y", "batch") if key in data[sort]]
        if not known:
            raise IncidenceError(
                f"from_pyg: the number of nodes of `{sort}` is not known. Set data['{sort}'].num_nodes or .x."
            )
        counts[name] = (
            int(data[sort].num_nodes) if known[0] == "num_nodes" else len(data[sort][known[0]])
        )
        for key, text in {"x": node, "pos": f"{name}_pos={node}"}.items():
            if data[sort].get(key) is not None:
                features[text] = as_rows(data[sort][key], "from_pyg", f"{key} of `{sort}`")
        if data[sort].get("y") is not None:
            target[node] = as_numbers(data[sort].y, "from_pyg", f"y of `{sort}`")
    index: dict[str, Any] = {}
    relations = names_of(_relation_words(data))
    for kind in data.edge_types:
        source, end = names[kind[0]], names[kind[2]]
        text = _relation_text(data[kind], source, end, letters, relations.get(kind))
        if text in index:
            raise IncidenceError(
                f"from_pyg: two edge types are `{text}` here. Rename a relation, as names tell tensors apart."
            )
        known = [key for key in ("edge_attr", TARGET) if data[kind].get(key) is not None]
        values = {key: as_rows(data[kind][key], "from_pyg", f"{key} of {kind}") for key in known}
        num_nodes = max(counts[source], counts[end])
        index[text], values = entries(
            once, Pattern(text), data[kind].edge_index, num_nodes, values, homes, source
        )
        if "edge_attr" in values:
            features[text] = values["edge_attr"]
        if TARGET in values:
            target[text] = values[TARGET].view(-1, *torch.as_tensor(data[kind].y).shape[1:])
    whole = data.get("y") if "y" in data._global_store else None
    of_whole = None if whole is None else whole_target(as_numbers(whole, "from_pyg", "y"), homes)
    return Example(
        with_graphs(counts, index, homes, num_graphs),
        features,
        target or of_whole,
        is_batch=homes is not None,
    )


def _relation_text(
    store: Any, source: str, target: str, letters: Mapping[str, str], name: str | None
) -> str:
    """The pattern of an edge type, in the letters of its sorts: what `to_pyg` told, or ordered pairs."""
    one, other = letters[source], f"{letters[source]}2" if source == target else letters[target]
    if "edge_pattern" in store:
        told = store.edge_pattern
        pattern = Pattern(told[0] if isinstance(told, list) else told)
        return str(pattern.rename(dict(zip(pattern.letters, (one, other), strict=True))))
    pair = f"{one}:{source} {other}:{target}"
    return named(name, f"({pair})" if source == target else pair)


def write_sorts(data: Any, example: Example) -> Any:
    """An example put into empty `HeteroData`; tensors must have two letters, as edges there do."""
    structure = example.structure
    for sort, count in structure.counts.items():
        data[sort].num_nodes = count
    place: dict[Pattern, tuple[Any, str, Pairs | None]] = {
        Pattern(f"i:{sort}"): (data[sort], "x", None) for sort in structure.counts
    }
    place.update(
        {Pattern(f"{sort}_pos=i:{sort}"): (data[sort], "pos", None) for sort in structure.counts}
    )
    for pattern in structure.patterns:
        if len(pattern.letters) != 2 or pattern.is_open or pattern.name == _UNNAMED:
            raise IncidenceError(
                f"to_pyg: HeteroData holds pairs of nodes, and no `{pattern}`. Leave it out, or call it otherwise."
            )
        source, target = (pattern.sorts[letter] for letter in pattern.letters)
        kind = (source, pattern.name or _UNNAMED, target)
        if kind in data.edge_types:
            raise IncidenceError(
                f"to_pyg: two tensors are of the edge type {kind}: name `{pattern}`, or leave it out."
            )
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
            raise IncidenceError(
                f"to_pyg: HeteroData has no place for a target of `{key}`, only for those of nodes: leave it out."
            )
        data[pattern.sorts[pattern.letters[0]]].y = x
    for store in data.node_stores:
        if list(store.keys()) == [
            "num_nodes"
        ]:  # PyG makes a batch of such nodes, but cannot take it apart again
            store.n_id = torch.arange(store.num_nodes, device=structure.device)
    return data
