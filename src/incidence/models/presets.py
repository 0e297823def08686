"""Networks by name: which tensors they read, what they work on, and settings that learned well."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from inspect import signature
from typing import Any

from incidence.algebra.maps import EquivariantMap
from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError, PatternError
from incidence.models.net import IncidenceNet
from incidence.nn.tensors import key_of

__all__ = ["PRESETS", "Preset", "assert_has", "find_preset", "make", "settings_of"]


@dataclass(frozen=True)
class Preset:
    """A kind of network.

    Attributes:
        inputs: The tensors it reads; None for all that have features.
        about: For whom it is.
        lift: What adds the tensors to plain graphs or points: names in `incidence.data.lifts.LIFTS`, with + between them.
        settings: Of `IncidenceNet`.
    """

    inputs: str | None
    about: str
    lift: str = "none"
    settings: Mapping[str, Any] = field(default_factory=dict)


_MESH = {"hidden": 32, "aggr": "mean", "readout": ("mean", "max"), "head_dropout": 0.3}
_MOLECULE = {"aggr": "mean"}
_GRAPH = {"hidden": 32, "dropout": 0.2}
_RINGS = {"max_overlap": 2}  # an edge that is a side of a ring shares two nodes with it
_ORDER3 = {
    "through": "i j k",
    "hidden": 16,
    "depth": 0,
    "norm": "none",
    "dropout": 0.0,
    "whole": None,
}
_FLOWS = {"hidden": 16, "depth": 2, "dropout": 0.0}
_HYPERGRAPH = {"aggr": "mean", "dropout": 0.5, "depth": 2}
_ONE = {
    "aggr": "mean",
    "operations": "local",
    "ends": "entry",
}  # nothing is pooled over a structure of which only parts are known
_NODES = {
    **_ONE,
    "adjacent": True,
    "first_norm": "layer",
    "hidden": 64,
    "depth": 4,
    "dropout": 0.2,
    "dropout_at": "stream",
}
_DIFFUSION = {
    **_ONE,
    "norm": "none",
    "hidden": 64,
    "depth": 0,
    "hops": 2,
    "dropout": 0.5,
    "in_dropout": 0.5,
}
_COMPLETION = {**_ONE, "ends": "query", "norm": "layer", "hidden": 32, "depth": 2, "dropout": 0.1}
_PAIRS = {**_GRAPH, "hidden": 16}
_PPGN = {"through": "i j", "products": ("i j, j k -> i k",)}
_LOCAL = {"through": "near=i j", "products": ("near=i j, near=j k -> near=i k",)}
_SUBGRAPH = {
    "through": "i j, {i j}",
    "products": ("i j, {j k} -> i k", "{i j}, j k -> i k"),
}  # in a subgraph, and between roots
_ATTENTION = ("near=i j over j", "i over i", "{i j} over i j", "{i j k} over i j k")
_TRANSFORMER = {
    **_GRAPH,
    "through": "i, {i j}, {i j k}, near=i j, ",
    "attention": _ATTENTION,
}  # the empty tensor looks at all faces

PRESETS: dict[str, Preset] = {
    "graph": Preset("i, {i j}", "graphs: nodes and edges", settings=_GRAPH),
    "matrix": Preset(
        "i j", "graphs as node-node matrices: order 2, all 15 operations", "matrix", _GRAPH
    ),
    "triangles": Preset(
        "i, {i j}, {i j k}", "graphs: nodes, edges and triangles", "cliques", _GRAPH
    ),
    "rings": Preset(
        "i, {i j}, ring={i ...}", "graphs: nodes, edges and rings", "rings", {**_GRAPH, **_RINGS}
    ),
    "order3": Preset("i j", "small graphs: order 3, from the matrix alone", "triples", _ORDER3),
    "ppgn": Preset(
        "i, {i j}, i j",
        "small graphs: products of matrices over all pairs",
        "pairs",
        {**_PAIRS, **_PPGN},
    ),
    "local-fgnn": Preset(
        "i, {i j}, near=i j",
        "graphs: products over the pairs a few steps apart",
        "hops",
        {**_PAIRS, **_LOCAL},
    ),
    "subgraph": Preset(
        "i, {i j}, i j",
        "graphs: a copy with a marked root for every node",
        "pairs",
        {**_PAIRS, **_SUBGRAPH},
    ),
    "transformer": Preset(
        "i, {i j}, {i j k}, near=i j",
        "graphs: attention over pairs and faces",
        "cliques+hops",
        _TRANSFORMER,
    ),
    "molecule": Preset("i, {i j}", "molecules: atoms and bonds", settings=_MOLECULE),
    "molecule-rings": Preset(
        "i, {i j}, ring={i ...}",
        "molecules: atoms, bonds and rings",
        settings={**_MOLECULE, **_RINGS},
    ),
    "molecule-3d": Preset(
        "i, {i j}, contact={i j}, angle=i {j k}",
        "molecules in space, by distances and angles",
        "space",
        _MOLECULE,
    ),
    "mesh": Preset(
        "i, {i j}, {i j k}", "triangle meshes: vertices, edges and faces", settings=_MESH
    ),
    "flows": Preset(
        "i, <i j>, <i j k>",
        "flows on complexes: nodes, oriented edges and triangles",
        settings=_FLOWS,
    ),
    "hypergraph": Preset(
        "i, {i ...}", "hypergraphs: nodes and hyperedges of any size", settings=_HYPERGRAPH
    ),
    "nodes": Preset(
        None,
        "entries of one large structure with many labels: no pooling over all of it",
        settings=_NODES,
    ),
    "diffusion": Preset(
        None,
        "the same with few labels: every entry on its own, then averages over neighbours",
        settings=_DIFFUSION,
    ),
    "completion": Preset(
        None, "entries that are asked for, given others: ratings, links", settings=_COMPLETION
    ),
    "relational": Preset(
        None, "tables with keys, or anything else: all tensors that have features"
    ),
}
"""The networks that have a name: what they read, for whom they are, and their settings."""


def make(
    name: str,
    in_channels: int | Mapping[str, int],
    out_channels: int | Mapping[str, int] = 1,
    at: str = "",
    **settings: Any,
) -> IncidenceNet:
    """A network by name, or by the tensors it reads.

    Args:
        name: A preset, such as `mesh`, or tensors, such as `i, {i j}`.
        in_channels: Channels of the features, by the text or name of a tensor, of which a preset takes those that it reads; or of all. What
            a preset reads and has no features is a hidden tensor all the same, and must be in the structure.
        out_channels: Numbers to predict for each row.
        at: The pattern whose entries have an output each; empty for one of the whole structure.
        settings: Of `IncidenceNet`, in place of those of the preset.

    Example:
        >>> net = make("mesh", {"i": 4, "{i j}": 6, "{i j k}": 7, "pos=i": 3}, out_channels=30)
        >>> net.map
        EquivariantMap('i, {i j}, {i j k} -> ')
    """
    preset = find_preset(name)
    if preset.inputs is None and not isinstance(in_channels, Mapping):
        raise IncidenceError(
            f"the model {name!r} reads all that has features: give in_channels for each, as in {{'i': 8, '{{i j}}': 4}}."
        )
    inputs = (
        ", ".join(in_channels)
        if isinstance(in_channels, Mapping) and preset.inputs is None
        else preset.inputs
    )
    text = f"{inputs} -> {at}"
    patterns = EquivariantMap(text).inputs
    in_channels = (
        in_channels if isinstance(in_channels, Mapping) else {str(p): in_channels for p in patterns}
    )
    names = {p.name: p for p in patterns if p.name}
    given = {
        names.get(key) or _pattern(key, name, [*names, *map(key_of, patterns)]): width
        for key, width in in_channels.items()
    }
    known = [p for p in patterns if p in given]
    if not known or (len(known) < len(patterns) and name not in PRESETS):
        raise IncidenceError(
            f"the model {name!r} reads {', '.join(f'`{p}`' for p in patterns)}, and channels are told of "
            f"{', '.join(f'`{key}`' for key in in_channels) or 'nothing'}: tell the others, too."
        )
    through = {} if len(known) == len(patterns) else {"through": inputs}
    text = f"{', '.join(map(str, known))} -> {at}"
    return IncidenceNet(
        text,
        {key_of(p): given[p] for p in known},
        out_channels,
        **{**through, **preset.settings, **settings},
    )


def assert_has(name: str, in_channels: Mapping[str, int]) -> None:
    """Refuses a model for data that lacks some of what it reads.

    Raises:
        IncidenceError: The data has no features of a tensor of the preset.
    """
    inputs, has = find_preset(name).inputs, {Pattern(key) for key in in_channels}
    lacking = (
        [p for p in EquivariantMap(f"{inputs} -> ").inputs if p not in has]
        if inputs is not None
        else []
    )
    if lacking:
        wanted, has_features = (
            ", ".join(f"`{key}`" for key in some) or "nothing" for some in (lacking, in_channels)
        )
        raise IncidenceError(
            f"the model {name!r} reads {wanted}, and the data has features of {has_features}: lift it, or choose another model."
        )


def _pattern(key: str, model: str, known: Sequence[str]) -> Pattern:
    """The tensor that a key of channels means; a word that is none is answered with what the model calls its own."""
    try:
        return Pattern(key)
    except PatternError as error:
        close = get_close_matches(key, known, n=1)
        if not close:
            raise
        raise IncidenceError(
            f"the model {model!r} reads no tensor `{key}`: did you mean `{close[0]}`?"
        ) from error


def find_preset(name: str) -> Preset:
    """A preset by name; tensors are a preset of their own, without settings."""
    if name in PRESETS:
        return PRESETS[name]
    try:
        EquivariantMap(f"{name} -> ")
    except PatternError as error:
        known, close = ", ".join(PRESETS), get_close_matches(name, PRESETS, n=1)
        guess = f" Did you mean {close[0]!r}?" if close else ""
        raise IncidenceError(
            f"no model {name!r}; there are: {known}. Or name the tensors that it reads, such as 'i, {{i j}}'.{guess}"
        ) from error
    return Preset(name, "the tensors that were named")


def settings_of(name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Every setting of a network by name: those given, then those of the preset, then the defaults; one statistic is a text."""
    defaults = {
        p.name: p.default
        for p in signature(IncidenceNet).parameters.values()
        if p.kind is p.KEYWORD_ONLY
    }
    found = {**defaults, **find_preset(name).settings, **settings}
    return {
        key: value[0] if isinstance(value, (tuple, list)) and len(value) == 1 else value
        for key, value in found.items()
    }
