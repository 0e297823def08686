"""Networks by name: the tensors they read, the lift that adds these tensors to data, and settings
that learned well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from incidence.algebra.maps import EquivariantMap
from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError, PatternError
from incidence.extensions import load_extensions
from incidence.models.net import IncidenceNet
from incidence.models.settings import NetSettings
from incidence.nn.tensors import key_of

__all__ = [
    "PRESETS",
    "Preset",
    "assert_has",
    "find_preset",
    "is_position",
    "make",
    "preset_for",
    "preset_table",
    "read_channels",
    "register_preset",
    "settings_of",
]


@dataclass(frozen=True)
class Preset:
    """A kind of network.

    Attributes:
        inputs: The tensors it reads; None for all tensors that have features, but for coordinates
            `pos=i`.
        about: The data it is for.
        lift: The lift that adds the tensors to plain graphs or points: names in
            `incidence.data.lifts.LIFTS`, joined by +.
        settings: Settings of the network that differ from the defaults of `NetSettings`.
    """

    inputs: str | None
    about: str
    lift: str = "none"
    settings: Mapping[str, Any] = field(default_factory=dict)


_POSITION = "pos"  # the name of coordinates, which no preset takes for features

_GRAPH = {"hidden": 32, "dropout": 0.2}
_PAIRS = {**_GRAPH, "hidden": 16}
_MOLECULE = {"aggr": "mean"}
_RINGS = {"max_overlap": 2}  # an edge that is a side of a ring shares two nodes with it
# Nothing is pooled over a structure of which only parts are known.
_ONE = {"aggr": "mean", "operations": "local", "ends": "entry"}

_ORDER3 = {
    "through": "i j k",
    "hidden": 16,
    "depth": 0,
    "norm": "none",
    "dropout": 0.0,
    "whole": None,
}
_PPGN = {**_PAIRS, "through": "i j", "products": ("i j, j k -> i k",)}
_LOCAL_FGNN = {
    **_PAIRS,
    "through": "near=i j",
    "products": ("near=i j, near=j k -> near=i k",),
}
_SUBGRAPH = {
    **_PAIRS,
    "through": "i j, {i j}",
    # in a subgraph, and between roots
    "products": ("i j, {j k} -> i k", "{i j}, j k -> i k"),
}
_TRANSFORMER = {
    **_GRAPH,
    "through": "i, {i j}, {i j k}, near=i j, ",
    # The empty tensor attends to all faces.
    "attention": ("near=i j over j", "i over i", "{i j} over i j", "{i j k} over i j k"),
}
_MESH = {"hidden": 32, "aggr": "mean", "readout": ("mean", "max"), "head_dropout": 0.3}
_FLOWS = {"hidden": 16, "depth": 2, "dropout": 0.0}
# Means do not grow with the structure, and are constant where features are: what they say of a
# complex without features is what they say of a finer one.
_TOPOLOGY = {
    "hidden": 32,
    "depth": 2,
    "dropout": 0.0,
    "aggr": "mean",
    "readout": ("mean", "max"),
    "harmonic": 12,
}
_HYPERGRAPH = {"aggr": "mean", "dropout": 0.5, "depth": 2}
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
        "i, {i j}, i j", "small graphs: products of matrices over all pairs", "pairs", _PPGN
    ),
    "local-fgnn": Preset(
        "i, {i j}, near=i j",
        "graphs: products over the pairs a few steps apart",
        "hops",
        _LOCAL_FGNN,
    ),
    "subgraph": Preset(
        "i, {i j}, i j", "graphs: a copy with a marked root for every node", "pairs", _SUBGRAPH
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
    "topology": Preset(
        "i, {i j}, {i j k}",
        "complexes and meshes whose holes count: harmonic parts of noise and products",
        "cliques",
        settings=_TOPOLOGY,
    ),
    "hypergraph": Preset(
        "i, {i ...}", "hypergraphs: nodes and hyperedges of any size", settings=_HYPERGRAPH
    ),
    "nodes": Preset(
        None,
        "one large structure with many labels: sums over neighbours, no global pooling",
        settings=_NODES,
    ),
    "diffusion": Preset(
        None,
        "one large structure with few labels: maps of entries, averages of neighbours",
        settings=_DIFFUSION,
    ),
    "completion": Preset(
        None, "missing entries from known ones: ratings, links", settings=_COMPLETION
    ),
    "relational": Preset(
        None, "tables with keys, or anything else: all tensors that have features"
    ),
}
"""One row for each network that has a name. `make`, the documentation and `incidence train --list`
read this table.
"""


def make(
    name: str,
    in_channels: int | Mapping[str, int],
    out_channels: int | Mapping[str, int] = 1,
    at: str = "",
    **settings: Any,
) -> IncidenceNet:
    """Build a network by name, or by the tensors it reads.

    Args:
        name: A preset, such as `mesh`, or tensors, such as `i, {i j}`.
        in_channels: Channels of the features: one number for all tensors, or by the text or name
            of a tensor. Coordinates `pos=i` are ignored: they change when a structure is turned.
            A tensor that the preset reads and that has no features is a hidden tensor, and must be
            in the structure.
        out_channels: Numbers to predict for each row.
        at: The pattern whose entries have an output each; empty for one of the whole structure.
        settings: Settings of `NetSettings`, in place of those of the preset.

    Raises:
        IncidenceError: The preset does not read a tensor of `in_channels`, or lacks some.

    Example:
        >>> net = make("mesh", {"i": 4, "{i j}": 6, "{i j k}": 7, "pos=i": 3}, out_channels=30)
        >>> net.map
        EquivariantMap('i, {i j}, {i j k} -> ')
    """
    preset = find_preset(name)
    patterns = EquivariantMap(f"{_inputs(preset, name, in_channels)} -> {at}").inputs
    channels = _channels(name, patterns, in_channels)
    # features that would be lost
    unread = [p for p in channels if p not in patterns and p.name != _POSITION]
    inputs = [p for p in patterns if p in channels]
    if unread and inputs:
        every = _side([p for p in channels if p.name != _POSITION])
        raise IncidenceError(
            f"the model {name!r} reads {_listed(patterns)}, and not {_listed(unread)}: leave that"
            f" out, or name all tensors in place of the model, as in make({every!r}, ...)."
        )
    lacks_some = len(inputs) < len(patterns)
    if not inputs or (lacks_some and name not in PRESETS):
        given = in_channels if isinstance(in_channels, Mapping) else ()
        raise IncidenceError(
            f"the model {name!r} reads {_listed(patterns)}, and in_channels has {_listed(given)}:"
            " add the others."
        )
    # Tensors without features are hidden tensors all the same: layers write to them.
    through = {"through": preset.inputs or _side(patterns)} if lacks_some else {}
    return IncidenceNet(
        f"{_side(inputs)} -> {at}",
        {key_of(p): channels[p] for p in inputs},
        out_channels,
        **{**through, **preset.settings, **settings},
    )


def assert_has(name: str, in_channels: Mapping[str, int]) -> None:
    """Check that data has features of every tensor that a model reads.

    Raises:
        IncidenceError: It has none of a tensor of the preset.
    """
    inputs = find_preset(name).inputs
    if inputs is None:
        return
    given = {Pattern(key) for key in in_channels}
    missing = [p for p in EquivariantMap(f"{inputs} -> ").inputs if p not in given]
    if missing:
        raise IncidenceError(
            f"the model {name!r} reads {_listed(missing)}, and the data has features of"
            f" {_listed(in_channels)}: lift it, or choose another model."
        )


def read_channels(name: str, in_channels: Mapping[str, int]) -> dict[str, int]:
    """Return the channels of the tensors that a model reads.

    Example:
        >>> read_channels("graph", {"i": 4, "{i j}": 2, "{i j k}": 1, "pos=i": 3})
        {'i': 4, '{i j}': 2}
    """
    inputs = find_preset(name).inputs
    if inputs is None:
        return {key: width for key, width in in_channels.items() if not is_position(key)}
    known = set(EquivariantMap(f"{inputs} -> ").inputs)
    return {key: width for key, width in in_channels.items() if Pattern(key) in known}


def is_position(text: str) -> bool:
    """Return whether a tensor has coordinates: its name is `pos`."""
    return Pattern(text).name == _POSITION


def preset_for(tensors: Sequence[str]) -> str:
    """Return the preset for the tensors that have features.

    Example:
        >>> preset_for(["i", "{i j}"]), preset_for(["pos=i", "i", "{i j}", "{i j k}"])
        ('graph', 'mesh')
        >>> preset_for(["i", "(i j)"])
        'relational'
    """
    given = set(map(Pattern, tensors))
    features = {pattern for pattern in given if pattern.name != _POSITION}
    kinds = ["graph", "triangles", "rings", "flows", "hypergraph", "matrix"]
    if features < given:  # with coordinates
        kinds = ["mesh", *kinds]  # which beats `triangles`, as only meshes have coordinates
    for name in kinds:
        if features == set(EquivariantMap(f"{PRESETS[name].inputs} -> ").inputs):
            return name
    return "relational"


def find_preset(name: str) -> Preset:
    """Return a preset by name. Tensors are a preset without settings."""
    load_extensions()  # presets of other packages
    if name in PRESETS:
        return PRESETS[name]
    try:
        EquivariantMap(f"{name} -> ")
    except PatternError as error:
        close = get_close_matches(name, PRESETS, n=1)
        guess = f" Did you mean {close[0]!r}?" if close else ""
        raise IncidenceError(
            f"no model {name!r}; there are: {', '.join(PRESETS)}. Or name the tensors that it"
            f" reads, such as 'i, {{i j}}'.{guess}"
        ) from error
    return Preset(name, "the tensors that were named")


def register_preset(
    name: str,
    inputs: str | None,
    about: str = "",
    lift: str = "none",
    settings: Mapping[str, Any] | None = None,
) -> None:
    """Register a network by name, for `make` and `incidence train --model NAME`.

    Args:
        name: The name.
        inputs: The tensors that it reads, such as `i, {i j}`; None for all that have features.
        about: One line for `--list`.
        lift: The lift that adds the tensors to data; several joined by +.
        settings: Settings of `NetSettings` that differ from the defaults.

    Raises:
        IncidenceError: The name is a pattern, or a setting does not exist.

    Example:
        >>> register_preset("deep", "i, {i j}", "deep networks of graphs", settings={"depth": 9})
        >>> make("deep", {"i": 3}).settings.depth
        9
        >>> del PRESETS["deep"]
    """
    try:
        EquivariantMap(f"{name} -> ")
    except PatternError:  # as it should be
        NetSettings().replace(**(settings or {}))  # refuses unknown settings
        PRESETS[name] = Preset(inputs, about, lift, dict(settings or {}))
        return
    raise IncidenceError(f"{name!r} names tensors, and cannot name a preset: choose a longer word.")


def settings_of(name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return every setting of a network: the given ones, else the preset's, else the default."""
    return NetSettings(**{**find_preset(name).settings, **settings}).keywords()


def preset_table() -> str:
    """Return the presets as a table in Markdown: what each reads, its lift, and what it is for."""
    rows = ["| name | tensors | lift | for |", "|---|---|---|---|"]
    for name, preset in PRESETS.items():
        tensors = "all that have features" if preset.inputs is None else f"`{preset.inputs}`"
        through = preset.settings.get("through")
        hidden = "" if through is None else f" through `{through}`"
        rows.append(f"| `{name}` | {tensors}{hidden} | `{preset.lift}` | {preset.about} |")
    return "\n".join(rows)


def _inputs(preset: Preset, name: str, in_channels: int | Mapping[str, int]) -> str:
    """The tensors that a network reads, as text."""
    if preset.inputs is not None:
        return preset.inputs
    if not isinstance(in_channels, Mapping):
        raise IncidenceError(
            f"the model {name!r} reads all tensors that have features: give in_channels for each,"
            " as in {'i': 8, '{i j}': 4}."
        )
    read = read_channels(name, in_channels)
    if not read:
        raise IncidenceError(
            f"the model {name!r} reads features, and there are none beside the coordinates, which"
            " change when a structure is turned. Give features that do not, such as lengths"
            " (`inc.data.lifts.LIFTS['space']` makes some), or name the tensors to read them"
            " all the same: 'pos=i'."
        )
    return ", ".join(read)


def _channels(
    name: str, patterns: Sequence[Pattern], in_channels: int | Mapping[str, int]
) -> dict[Pattern, int]:
    """The channels of every tensor that has features."""
    if not isinstance(in_channels, Mapping):
        return dict.fromkeys(patterns, in_channels)
    names = {p.name: p for p in patterns if p.name}
    keys = [*names, *map(key_of, patterns)]
    return {
        names.get(key) or _pattern(key, name, keys): width for key, width in in_channels.items()
    }


def _pattern(key: str, model: str, known: Sequence[str]) -> Pattern:
    """The tensor that a key of `in_channels` means."""
    try:
        return Pattern(key)
    except PatternError as error:
        close = get_close_matches(key, known, n=1)
        if not close and not key.isidentifier():
            raise
        there = f"did you mean `{close[0]}`?" if close else f"it reads {', '.join(known)}."
        raise IncidenceError(f"the model {model!r} reads no tensor `{key}`: {there}") from error


def _side(patterns: Sequence[Pattern]) -> str:
    return ", ".join(map(str, patterns))


def _listed(tensors: Sequence[Pattern] | Mapping[str, int]) -> str:
    return ", ".join(f"`{tensor}`" for tensor in tensors) or "nothing"
