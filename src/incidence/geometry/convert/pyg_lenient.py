"""Graphs of PyG, read leniently: data sets, loaders and `collate` change edges that are no entries,
and warn of it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError, need
from incidence.geometry.convert.edge_lists import EdgeChanges
from incidence.geometry.convert.exchange import by_meaning
from incidence.geometry.convert.pyg import read_each, read_graphs, read_together, warn_about
from incidence.geometry.convert.pyg_graphs import PygOptions
from incidence.structure import Example, Structure, collate
from incidence.structure.ragged import no_entries

__all__ = ["collate_graphs", "degree_features", "read_lenient"]

_DEFAULT = PygOptions()
_DIRECTED = "(i j)"
_EXACT = "from_pyg(data, edges='i j')"
# the warnings of `collate`, which meets the graphs of a data set again and again
_WARNED: set[tuple[object, ...]] = set()


def read_lenient(
    items: Sequence[Any],
    options: PygOptions = _DEFAULT,
    *,
    exact: str = _EXACT,
    completes: bool = True,
    stacklevel: int = 2,
) -> tuple[list[Example], str | None]:
    """Return the examples of graphs, all read alike, and the pattern of their edges.

    Edges are read as they are if that can be. Else loops are left out and parallel edges joined. If
    that does not suffice, and the options have no pattern, edges are read as `(i j)`. A warning
    says what was changed.

    Args:
        items: `Data`, `HeteroData` or batches of them.
        options: How the data is read.
        exact: A call that keeps loops, for the warning.
        completes: Whether nodes without features get columns of degrees, and edges and other faces
            without features a column of ones.
        stacklevel: As for `warnings.warn`.

    Returns:
        The examples; and the pattern, None if it is that of `from_pyg`.

    Raises:
        IncidenceError: The data does not fit, whatever its edges are; the message says what.
    """
    examples, options_used = _first_that_reads(lambda o: read_graphs(items, o), options)
    examples = _alike(examples)
    message = _warning(examples, options_used, options, exact)
    if message:
        warnings.warn(message, stacklevel=stacklevel)
    if completes:
        examples = [_complete(example) for example in examples]
    return examples, options_used.edges


def collate_graphs(items: Sequence[Any]) -> Example:
    """Return graphs as a batch: that of the examples that `read_lenient` gives.

    A warning of the same kind comes once, whatever its numbers.
    """
    pyg = need("torch_geometric.data", "collate of data of PyG", "convert")
    for number, item in enumerate(items):
        if not isinstance(item, pyg.data.BaseData):
            raise IncidenceError(
                f"collate: number {number} of the list is a {type(item).__name__} among graphs of"
                " PyG: use from_pyg first."
            )
    warn_about(items, (), stacklevel=4)
    examples, options = _first_that_reads(lambda o: _read_batch(items, o), _DEFAULT)
    changes = options.changes or EdgeChanges()
    kind = (options.edges, *changes.patterns, bool(changes.loops), bool(changes.parallel))
    message = _warning(examples, options, _DEFAULT, _EXACT)
    if message and kind not in _WARNED:
        _WARNED.add(kind)
        if options.edges is not None:
            message += " inc.data.DataLoader reads all batches alike."
        warnings.warn(message, stacklevel=3)
    is_batch = len(examples) < len(items)
    return _complete(examples[0] if is_batch else collate(_alike(examples)))


def _read_batch(items: Sequence[Any], options: PygOptions) -> list[Example]:
    """One batch, or an example for each item where the graphs cannot be read together."""
    batch = read_together(items, options)
    return read_each(items, options) if batch is None else [batch]


def _first_that_reads(
    read: Callable[[PygOptions], list[Example]], options: PygOptions
) -> tuple[list[Example], PygOptions]:
    """The examples, and the options of the first pattern of edges that fits."""
    patterns = [options.edges] if options.edges else [None, _DIRECTED]
    problems = []
    for text in patterns:
        attempt = options._replace(edges=text, changes=EdgeChanges())
        try:
            return read(attempt), attempt
        except IncidenceError as error:
            problems.append(error)
    # The error of the first pattern: that of the fallback would speak of `(i j)`, which nobody
    # wrote.
    raise problems[0]


def _warning(examples: Sequence[Example], used: PygOptions, options: PygOptions, exact: str) -> str:
    """A sentence that says how edges were changed; empty if they are as they were."""
    changes = used.changes or EdgeChanges()
    patterns = list(changes.patterns) or [str(used.edges)]
    reasons = []
    if changes.loops:
        is_hetero = any(":" in text for text in patterns)  # which has patterns of its own
        hint = "" if is_hetero else f" ({exact} keeps them)"
        reasons.append(f"{changes.loops} loops are left out{hint}")
    if changes.parallel:
        joined = "parallel edges are joined, with the mean of their features"
        reasons.append(f"{changes.parallel} {joined}")
    if used.edges != options.edges:
        targets = [e.target for e in examples if isinstance(e.target, dict)]
        has_targets = any(_DIRECTED in target for target in targets)
        what = "features or targets" if has_targets else "features"
        reasons.append(f"{what} of an edge and of its reverse differ")
    if not reasons:
        return ""
    texts = ", ".join(f"`{text}`" for text in patterns)
    return f"edges are read as {texts}: {' and '.join(reasons)}."


# ---- examples with the same tensors and features


def _alike(examples: list[Example]) -> list[Example]:
    """The same examples with the same tensors, and features of one type.

    Features of tensors without entries may be missing, and means are floats.
    """
    kinds = {
        (e.structure.patterns, *((key, x.shape[1], x.dtype) for key, x in e.features.items()))
        for e in examples
    }
    if len(kinds) < 2:
        return examples
    # Data sets leave out tensors that are empty in a graph.
    fullest = max((e.structure.patterns for e in examples), key=len)
    examples = [_with_tensors(e, fullest) for e in examples]
    features = [item for e in examples for item in by_meaning(e).items()]
    features.sort(key=lambda item: -len(item[1]))  # rows decide about the width
    wanted: dict[Pattern, Tensor] = {}  # without rows
    for pattern, x in features:
        before = wanted.setdefault(pattern, x[:0])
        wanted[pattern] = before.to(torch.promote_types(before.dtype, x.dtype))
    return [_with_features(e, wanted, number) for number, e in enumerate(examples)]


def _complete(example: Example) -> Example:
    """The example with features of all nodes and faces."""
    structure = example.structure
    present = by_meaning(example).keys()
    features = {
        str(pattern): torch.ones(structure.num_entries(pattern), 1)
        for pattern in structure.patterns
        if pattern not in present
    }
    if Pattern("i") not in present and set(structure.counts) == {"node"}:
        edges = no_entries(2, structure.device)
        if Pattern("{i j}") in structure.patterns:
            edges = structure["{i j}"]
        features["i"] = degree_features(structure.total_nodes, edges)
    return example.replace(features={**example.features, **features}) if features else example


def degree_features(num_nodes: int, edges: Tensor) -> Tensor:
    """Return features of nodes that have none: log(1 + degree) and 1 / (degree + 1).

    Args:
        num_nodes: The number of nodes.
        edges: The edges, each once, shape [2, edges].
    """
    degree = torch.bincount(edges.flatten(), minlength=num_nodes).float()
    return torch.stack([degree.log1p(), 1 / (degree + 1)], dim=1)  # (nodes, 2)


def _with_tensors(example: Example, patterns: Sequence[Pattern]) -> Example:
    """The example with tensors that others have, without entries; as it is, if it has a tensor that
    others do not have.
    """
    structure = example.structure
    present = set(structure.patterns)
    if example.is_batch or not present <= set(patterns):
        return example
    new = {
        str(p): no_entries(len(p.letters), structure.device)
        for p in patterns
        if p not in present and not p.is_open and _has_sorts(structure, p)
    }
    return example.replace(structure=structure.with_index(new)) if new else example


def _has_sorts(structure: Structure, pattern: Pattern) -> bool:
    return set(pattern.sorts.values()) <= structure.counts.keys()


def _with_features(example: Example, wanted: Mapping[Pattern, Tensor], number: int) -> Example:
    """The example with features of every tensor: those of others where it has no entries.

    Raises:
        IncidenceError: A tensor has entries and no features.
    """
    structure = example.structure
    present = by_meaning(example)
    features = {}
    for pattern, x in wanted.items():
        is_node = len(pattern.letters) < 2 and not pattern.is_open
        is_there = is_node and _has_sorts(structure, pattern)
        if not is_there and pattern not in structure.patterns:
            continue
        if pattern not in present and structure.num_entries(pattern):
            raise IncidenceError(
                f"graphs of one list have the same features; number {number} has none of"
                f" `{pattern}`, and others have some: set `x`, `edge_attr` and the like of all"
                " graphs, or of none."
            )
        has_rows = len(present.get(pattern, ())) > 0
        features[str(pattern)] = present[pattern].to(x.dtype) if has_rows else x
    return example.replace(features=features)
