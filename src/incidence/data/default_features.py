"""Features of tensors for which the data has none: measures of meshes, degrees, sizes, ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.data.meshes import COLUMNS, features_of
from incidence.structure.example import Example
from incidence.structure.incidences import incidences
from incidence.structure.structure import Structure

__all__ = ["PLAN", "plan_features", "with_planned"]

PLAN = "default_features"
"""The option of the reader that remembers the plan, so that new data gets the same features."""

_POSITIONS = Pattern("pos=i")


def plan_features(example: Example) -> dict[str, list[str]]:
    """Return which tensors of an example need features, by the kind of features that they get.

    - `measures`: a triangle mesh with coordinates `pos=i` gets lengths, angles and areas.
    - `degrees`: nodes get a count of the entries around them if nothing has features.
    - `sizes`: so do faces of mixed size, whose feature is the number of their nodes.
    - `ones`: what joins nodes gets a column of ones if nodes alone have features.

    Coordinates are no features, as they change when a structure is turned.

    Example:
        >>> triangle = Structure(3, {"{i j}": [[0, 0, 1], [1, 2, 2]]})
        >>> plan_features(Example(triangle, {}))
        {'degrees': ['i'], 'ones': ['{i j}']}
    """
    structure = example.structure
    have = {structure.resolve(key) for key in example.features}
    plan: dict[str, list[str]] = {}
    if _is_mesh(example):
        lacking = [text for text in COLUMNS if Pattern(text) not in have]
        if lacking:
            plan["measures"] = lacking
        have |= set(map(Pattern, COLUMNS))
    joining = [p for p in structure.patterns if p.is_open or len(p.letters) > 1]
    has_features = bool(have - {_POSITIONS})  # coordinates turn with the structure
    if not has_features:
        plan["degrees"] = [_node_text(sort) for sort in _joined_sorts(joining)]
        plan["sizes"] = [str(p) for p in joining if p.is_open]
    if not have & {*joining}:
        plan["ones"] = [str(p) for p in joining if has_features or not p.is_open]
    return {kind: texts for kind, texts in plan.items() if texts}


def with_planned(example: Example, plan: Mapping[str, Sequence[str]]) -> Example:
    """Return the example with the features of a plan, except where it has features itself."""
    structure = example.structure
    have = {structure.resolve(key) for key in example.features}
    features: dict[str, Tensor] = {}
    if any(Pattern(text) not in have for text in plan.get("measures", ())):
        features |= features_of(example).features
    for kind, make in _MAKERS.items():
        for text in plan.get(kind, ()):
            pattern = Pattern(text)
            is_there = pattern in structure.patterns or len(pattern.letters) == 1
            # New data may lack a tensor that training data had; its features are then not made.
            if pattern not in have and is_there:
                features[text] = make(structure, text)
    if not features:
        return example
    # Features of the user win over planned ones.
    return example.replace(features={**features, **example.features})


def _is_mesh(example: Example) -> bool:
    """Return whether an example has coordinates in the plane or in space, edges and triangles."""
    structure, columns = example.structure, 0
    for key, x in example.features.items():
        if structure.resolve(key) == _POSITIONS and x.ndim == 2:
            columns = x.shape[1]
    needed = {Pattern("{i j}"), Pattern("{i j k}")}
    return columns in (2, 3) and needed <= set(structure.patterns)


def _joined_sorts(joining: Sequence[Pattern]) -> list[str]:
    return list(dict.fromkeys(sort for pattern in joining for sort in _sorts(pattern)))


def _sorts(pattern: Pattern) -> list[str]:
    return [one.sort for orbit in pattern.orbits for one in orbit.classes]


def _node_text(sort: str) -> str:
    return "i" if sort == "node" else f"i:{sort}"


def _degrees(structure: Structure, text: str) -> Tensor:
    """Return how many entries of each tensor every node is in, a column for each tensor."""
    [sort] = Pattern(text).sorts.values()
    first, count = structure._node_offsets[sort], structure.num_entries(text)
    columns = []
    for pattern in structure.patterns:
        if (pattern.is_open or len(pattern.letters) > 1) and sort in _sorts(pattern):
            degrees = incidences(structure, [pattern]).node_ptr.diff()
            columns.append(degrees[first : first + count])
    return torch.stack(columns, 1).float()


def _sizes(structure: Structure, text: str) -> Tensor:
    """Return how many nodes every entry has."""
    return incidences(structure, [Pattern(text)]).entry_ptr.diff().float()[:, None]


def _ones(structure: Structure, text: str) -> Tensor:
    return torch.ones(structure.num_entries(text), 1)


_MAKERS: Mapping[str, Callable[[Structure, str], Tensor]] = {
    "degrees": _degrees,
    "sizes": _sizes,
    "ones": _ones,
}
