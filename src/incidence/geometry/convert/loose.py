"""Graphs of PyG as they come: data sets, loaders and `collate` take edges that no pattern has, and say what became of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError, need
from incidence.geometry.convert.exchange import by_meaning
from incidence.geometry.convert.pyg import (
    Reading,
    read_each,
    read_graphs,
    read_together,
    warn_about,
)
from incidence.geometry.convert.simple import Changes
from incidence.structure import Example, collate
from incidence.structure.ragged import no_entries

__all__ = ["collate_graphs", "degree_features", "read_loosely"]

_AS_USUAL = Reading()
_DIRECTED = "(i j)"
_KEEPS = "from_pyg(data, edges='i j')"
_TOLD: set[tuple[object, ...]] = (
    set()
)  # what `collate` has said, as it meets the graphs of a data set again and again


def read_loosely(
    items: Sequence[Any],
    asked: Reading = _AS_USUAL,
    *,
    keeps: str = _KEEPS,
    completes: bool = True,
    stacklevel: int = 2,
) -> tuple[list[Example], str | None]:
    """The examples of graphs, all read alike, and how their edges are read, if it was said or is other than usual.

    Edges are read as they are, if that can be. Else loops are left out and parallel edges joined; else edges that nothing was said about
    are read with their directions. A warning tells.

    Args:
        items: `Data`, `HeteroData` or batches of them.
        asked: How edges are read, what else is, and what `y` belongs to, as in `from_pyg`.
        keeps: What keeps loops, for the warning.
        completes: Whether nodes without features get columns of degrees, and edges and other faces without any a column of ones.
        stacklevel: Of the warning.

    Raises:
        IncidenceError: The data does not fit, whatever its edges are; the message says what.
    """
    found, reading = _first(lambda reading: read_graphs(items, reading), asked)
    found, told = _alike(found), _told(found, reading, asked, keeps)
    if told:
        warnings.warn(told, stacklevel=stacklevel)
    return [_complete(one) for one in found] if completes else found, reading.edges


def collate_graphs(items: Sequence[Any]) -> Example:
    """Graphs side by side, as `collate(read_loosely(items)[0])` gives them; the same warning comes once, whatever its numbers."""
    pyg = need("torch_geometric.data", "collate of data of PyG", "convert")
    for number, item in enumerate(items):
        if not isinstance(item, pyg.data.BaseData):
            raise IncidenceError(
                f"collate: number {number} of the list is a {type(item).__name__} among graphs of PyG: use from_pyg first."
            )
    warn_about(items, (), stacklevel=4)
    found, reading = _first(lambda reading: _together_or_each(items, reading), _AS_USUAL)
    changes = reading.changes or Changes()
    kind = reading.edges, *changes.patterns, bool(changes.loops), bool(changes.parallel)
    told = _told(found, reading, _AS_USUAL, _KEEPS)
    if told and kind not in _TOLD:
        _TOLD.add(kind)
        warnings.warn(
            f"{told}{' inc.data.DataLoader reads all batches alike.' * (reading.edges is not None)}",
            stacklevel=3,
        )
    return _complete(found[0] if len(found) < len(items) else collate(_alike(found)))


def _together_or_each(items: Sequence[Any], reading: Reading) -> list[Example]:
    whole = read_together(items, reading)
    return read_each(items, reading) if whole is None else [whole]


def _first(
    read: Callable[[Reading], list[Example]], asked: Reading
) -> tuple[list[Example], Reading]:
    """What can be read, and how: as it is asked for, or else, if nothing is said of edges, with their directions."""
    problems = []
    for text in (asked.edges, *(() if asked.edges else (_DIRECTED,))):
        reading = asked._replace(edges=text, changes=Changes())
        try:
            return read(reading), reading
        except IncidenceError as error:
            problems.append(error)
    raise problems[0]


def _alike(examples: list[Example]) -> list[Example]:
    """The same examples with the same tensors, and features of one type: those of no entries may be missing, and means are floats."""
    kinds = {
        (e.structure.patterns, *((key, x.shape[1], x.dtype) for key, x in e.features.items()))
        for e in examples
    }
    if len(kinds) < 2:
        return examples
    fullest = max((e.structure.patterns for e in examples), key=len)
    made = [_with_tensors(e, fullest) for e in examples]
    wanted: dict[
        Pattern, Tensor
    ] = {}  # features without rows, of the width of some that have rows, if there are
    for pattern, x in sorted(
        (item for e in made for item in by_meaning(e).items()), key=lambda item: -len(item[1])
    ):
        one = wanted.setdefault(pattern, x[:0])
        wanted[pattern] = one.to(torch.promote_types(one.dtype, x.dtype))
    return [_with_features(e, wanted, number) for number, e in enumerate(made)]


def _complete(example: Example) -> Example:
    """The example with features of all nodes and faces, those that it has and others for those that it has none of."""
    structure, have = example.structure, by_meaning(example).keys()
    features = {
        str(pattern): torch.ones(structure.num_entries(pattern), 1)
        for pattern in structure.patterns
        if pattern not in have
    }
    if Pattern("i") not in have and set(structure.counts) == {"node"}:
        pairs = (
            structure["{i j}"]
            if Pattern("{i j}") in structure.patterns
            else torch.zeros(2, 0, dtype=torch.long)
        )
        features["i"] = degree_features(structure.total_nodes, pairs)
    return example.replace(features={**example.features, **features}) if features else example


def degree_features(num_nodes: int, edges: Tensor) -> Tensor:
    """What there is to say about nodes without features: log(1 + degree) and 1 / (degree + 1), by edges that are listed once."""
    degree = torch.bincount(edges.flatten(), minlength=num_nodes).float()
    return torch.stack([degree.log1p(), 1 / (degree + 1)], dim=1)  # (nodes, 2)


def _with_tensors(example: Example, patterns: Sequence[Pattern]) -> Example:
    """The example with tensors that others have and that it has no entries of; as it is, if it has one of its own."""
    structure, own = example.structure, set(example.structure.patterns)
    new = [
        p
        for p in patterns
        if p not in own and not p.is_open and set(p.sorts.values()) <= structure.counts.keys()
    ]
    if example.is_batch or not new or not own <= set(patterns):
        return example
    return example.replace(
        structure=structure.with_index(
            {str(p): no_entries(len(p.letters), structure.device) for p in new}
        )
    )


def _with_features(example: Example, wanted: Mapping[Pattern, Tensor], number: int) -> Example:
    """The example with features of every pattern, where it has entries of none; others that are missing are refused."""
    structure, own = example.structure, by_meaning(example)
    nodes = {
        p
        for p in wanted
        if len(p.letters) < 2 and not p.is_open and set(p.sorts.values()) <= structure.counts.keys()
    }
    known = {p: x for p, x in wanted.items() if p in nodes or p in structure.patterns}
    lacks = next((p for p in known if p not in own and structure.num_entries(p)), None)
    if lacks is not None:
        raise IncidenceError(
            f"graphs of one list have the same features; number {number} has none of `{lacks}`, and others have some: "
            f"set `x`, `edge_attr` and the like of all graphs, or of none."
        )
    return example.replace(
        features={
            str(p): own[p].to(x.dtype) if len(own.get(p, ())) else x for p, x in known.items()
        }
    )


def _told(found: Sequence[Example], reading: Reading, asked: Reading, keeps: str) -> str:
    """What has become of edges, in a sentence; empty if they are as they were."""
    changes = reading.changes or Changes()
    patterns = list(changes.patterns) or [str(reading.edges)]
    hint = (
        "" if any(":" in text for text in patterns) else f" ({keeps} keeps them)"
    )  # HeteroData tells its patterns itself
    said = [f"{changes.loops} loops are left out{hint}"] * bool(changes.loops)
    said += [
        f"{changes.parallel} parallel edges are joined, with the mean of their features"
    ] * bool(changes.parallel)
    what = (
        "features or targets"
        if any(isinstance(e.target, dict) and _DIRECTED in e.target for e in found)
        else "features"
    )
    said += [f"{what} of an edge and of its reverse differ"] * (reading.edges != asked.edges)
    return (
        f"edges are read as {', '.join(f'`{text}`' for text in patterns)}: {' and '.join(said)}."
        if said
        else ""
    )
