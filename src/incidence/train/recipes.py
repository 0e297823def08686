"""Options that fit the data itself, by its traits, and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.data import DataSet, Split
from incidence.errors import IncidenceError
from incidence.models.presets import is_position, preset_for
from incidence.structure.incidences import incidences
from incidence.train.config import RECIPES
from incidence.train.metrics import metrics_of
from incidence.train.traits import Traits, measure_traits

__all__ = [
    "Recipe",
    "agreement",
    "preset_recipe",
    "recipe_by_traits",
    "transductive_recipe",
    "with_metric",
]


class Recipe(NamedTuple):
    """Options that fit data, and why.

    Attributes:
        options: The options.
        reason: The trait that decided, in words; empty if none did.
    """

    options: Mapping[str, Any]
    reason: str = ""


_TRANSDUCTIVE = {"epochs": 200, "lr": 1e-2, "warmup": 0.0, "schedule": "constant"}
_NODES = {"model": "nodes", "scale": "columns"}
_DIFFUSION = {"model": "diffusion", "optimizer": "adam", "weight_decay": 5e-4, "clip": 0.0}
# From this agreement of neighbours on, averages over neighbours do better than layers that learn
# what neighbours mean; docs/nodes.md has the measurements.
_ALIKE = 0.4
_COMPLETION = {
    "model": "completion",
    "epochs": 40,
    "batch_size": 1,
    "lr": 5e-3,
    "weight_decay": 1e-2,
}
_WITH_VALIDATION = {"keep": "best", "patience": 100}
# A polynomial of the features: it is exact where counts are, and goes on beyond the sizes of the
# training graphs, which activations and norms do not.
_COUNTS = {
    "model": "graph",
    "products": ("{i j}, {j k}, {i k} -> {i j}",),
    "operations": ("self",),
    "activation": "none",
    "norm": "none",
    "hidden": 8,
    "depth": 1,
    "head_depth": 0,
    "dropout": 0.0,
    "lr": 1e-2,
    "weight_decay": 0.0,
    "batch_size": 16,
    "epochs": 20,
}
# Operations over the whole graph hurt where edges carry kinds: benchmarks/NOTES.md, ZINC-12k.
_RINGS = {"model": "rings", "operations": ("local",)}
_MANY_RINGS = {
    **_RINGS,
    "max_size": 18,
    "hidden": 80,
    "depth": 4,
    "dropout": 0.0,
    "epochs": 400,
    "lr": 2e-3,
    "weight_decay": 0.0,
    "warmup": 0.05,
    "average": 0.999,
}
# A reader of molecules has the rings already: the lift would replace them.
_MANY_MOLECULES = {
    **{key: value for key, value in _MANY_RINGS.items() if key != "max_size"},
    "model": "molecule-rings",
}
_MOST_SEEN = 4_000_000  # examples in all epochs: 400 epochs of 10,000
_MANY = 5000  # examples that need no dropout
_LEAST_PAIRS = 100  # tell an agreement to a twentieth; fewer tell nothing


def transductive_recipe(data: DataSet, split: Split) -> Mapping[str, Any]:
    """Return options for transductive data; none for other data.

    With fewer known rows than features, a network that learns what neighbours mean would remember
    the rows instead. Then entries are mapped one by one and averaged over neighbours, with weight
    decay and dropout of features. With more rows, or where the known labels show that neighbours
    are not alike, layers learn what neighbours mean. No layer pools over the whole structure.
    """
    if not data.is_transductive:
        return {}
    watched = _WITH_VALIDATION if len(split.validation) else {}
    if data.completion is not None:
        return {**_COMPLETION, **watched}
    features = data.examples[0].features
    has_few_rows = len(split.train) < max((x.shape[1] for x in features.values()), default=0)
    alike = agreement(data, split.train) if has_few_rows else None
    if has_few_rows and (alike is None or alike >= _ALIKE):
        are_counts = any(map(_are_counts, features.values()))
        chosen = {**_DIFFUSION, "scale": "rows" if are_counts else "columns"}
    else:
        chosen = _nodes_recipe(features, has_few_rows)
    return {**_TRANSDUCTIVE, **chosen, **watched}


def recipe_by_traits(data: DataSet, split: Split) -> Recipe:
    """Return options for whole structures by their traits, or none if no trait decides.

    The rows of a table decide, from top to bottom.

    Args:
        data: The data set.
        split: The split to train on.
    """
    if data.is_transductive or data.completion is not None or data.task.at:
        return Recipe({})
    traits = measure_traits(data, split)
    for decides, options, reason in _BY_TRAITS:
        if decides(traits):
            chosen = dict(options)
            if data.metric == "mae":
                chosen["loss"] = "absolute"
            if "epochs" in chosen:
                most = max(1, _MOST_SEEN // traits.num_examples)
                chosen["epochs"] = min(chosen["epochs"], most)
            return Recipe(chosen, reason.format(traits))
    return Recipe({})


_BY_TRAITS: tuple[tuple[Callable[[Traits], bool], Mapping[str, Any], str], ...] = (
    (
        lambda traits: traits.are_counts and traits.follows_triangles > 0.95,
        _COUNTS,
        "targets are whole numbers from 0, and rise with the number of triangles (correlation"
        " {0.follows_triangles:.2f}): products of edges without activations, which hold for larger"
        " graphs as well",
    ),
    (
        lambda traits: (
            traits.are_graphs and traits.are_sparse_as_molecules and traits.num_examples >= _MANY
        ),
        _MANY_RINGS,
        "graphs are sparse as molecules are ({0.mean_degree:.1f} edges at a node), and there are"
        " {0.num_examples:,} to train on: rings, local operations, a wide network without dropout",
    ),
    (
        lambda traits: (
            traits.have_rings
            and traits.are_sparse_as_molecules
            and traits.kind == "regression"
            and traits.num_examples >= _MANY
        ),
        _MANY_MOLECULES,
        "there are {0.num_examples:,} molecules to train on, and numbers to predict: rings, local"
        " operations, a wide network without dropout",
    ),
    (
        lambda traits: traits.are_graphs and traits.are_sparse_as_molecules,
        _RINGS,
        "graphs are sparse as molecules are ({0.mean_degree:.1f} edges at a node): rings, and local"
        " operations",
    ),
)
"""Which traits decide, the options, and the reason in words."""


def preset_recipe(data: DataSet) -> Mapping[str, Any]:
    """Return the options for examples at hand: the preset for the tensors that have features."""
    name = preset_for(list(data.examples[0].features))
    if name == "relational":
        return RECIPES["example"]
    options = dict(RECIPES.get(name, {"model": name}))
    if data.augment is None:  # stretching is for data sets that offer it
        options.pop("augment", None)
    if data.task.kind != "classification":
        options.pop("label_smoothing", None)
    return options


def _nodes_recipe(features: Mapping[str, Tensor], has_few_rows: bool) -> dict[str, Any]:
    recipe: dict[str, Any] = dict(_NODES)
    if has_few_rows:
        recipe["dropout"] = 0.5
    # entries that join nodes are hidden tensors only if they say more than that they exist
    if any(_distinguishes_links(Pattern(key), x) for key, x in features.items()):
        recipe["through"] = ", ".join(key for key in features if not is_position(key))
    return recipe


def _distinguishes_links(pattern: Pattern, x: Tensor) -> bool:
    """Return whether entries that join nodes have different features, or an order."""
    if not pattern.is_open and len(pattern.letters) < 2:
        return False
    sorts = [[one.sort for one in orbit.classes] for orbit in pattern.orbits]
    is_ordered = pattern.is_oriented or any(len(set(some)) < len(some) for some in sorts)
    return is_ordered or bool((x != x[:1]).any())


def _are_counts(x: Tensor) -> bool:
    """Return whether features are like counts of words: many columns, mostly 0, none negative."""
    return x.shape[1] > 1 and bool((x >= 0).all()) and float((x != 0).float().mean()) < 0.2


def agreement(data: DataSet, rows: Tensor) -> float | None:
    r"""Return how much more often neighbours have the same label than by chance, at most 1.

    Of all pairs of nodes that have an entry in common, those count whose labels are both known.
    With a the share of pairs with equal labels, and c the sum of the squares of the shares of the
    classes among their nodes, it is $(a - c) / (1 - c)$.

    Args:
        data: One structure with classes of its nodes.
        rows: The nodes whose labels are known.

    Returns:
        The agreement; None if fewer than 100 pairs are known, or the targets are no classes of
        nodes.

    Example:
        >>> from incidence.data import load
        >>> from incidence.structure import Example, Structure
        >>> nodes = torch.arange(200)
        >>> ring = Structure(200, {"{i j}": torch.stack([nodes, (nodes + 1) % 200])})
        >>> ones = {"i": torch.ones(200, 1), "{i j}": torch.ones(200, 1)}
        >>> halves = Example(ring, ones, {"i": (nodes < 100).long()})
        >>> round(agreement(load(halves), nodes), 2)
        0.98
    """
    example, at = data.examples[0], Pattern(data.task.at)
    links = [p for p in map(Pattern, example.features) if p.is_open or len(p.letters) > 1]
    are_of_nodes = not at.name and not at.is_open and len(at.letters) == 1
    if data.task.kind != "classification" or not are_of_nodes or not links:
        return None
    structure, labels = example.structure, data.task.rows(example)
    num_classes = len(data.task.names)
    first = structure._node_offsets[at.sorts[at.letters[0]]]
    known = torch.zeros(structure.total_nodes, num_classes, dtype=torch.float64)
    known[first + rows] = torch.nn.functional.one_hot(labels[rows], num_classes).double()
    lists = incidences(structure, links)
    sizes = lists.entry_ptr.diff()
    owner = torch.arange(len(sizes)).repeat_interleave(sizes)
    # how many nodes of each class an entry has
    counts = known.new_zeros(len(sizes), num_classes).index_add_(0, owner, known[lists.nodes])
    others = counts.sum(1, keepdim=True) - 1  # (entries, 1)
    num_pairs, num_equal = (counts * others).sum(), (counts * (counts - 1)).sum()  # both ways
    if num_pairs < 2 * _LEAST_PAIRS:
        return None
    chance = ((counts * others).sum(0) / num_pairs).square().sum()
    if chance >= 1:
        return 1.0
    return float((num_equal / num_pairs - chance) / (1 - chance))


def with_metric(data: DataSet, metric: str) -> DataSet:
    """Return the data set with another main metric.

    Raises:
        IncidenceError: Its task has no such metric.
    """
    ranked = () if data.completion is None else data.completion.ranked
    known = [*ranked, *map(str, metrics_of(data.task))]
    if metric not in known:
        raise IncidenceError(
            f"the metrics of {data.name!r} are {', '.join(known)}; got {metric!r}."
        )
    return replace(data, metric=metric)
