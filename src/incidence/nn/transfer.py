r"""Weights carried along $\mathrm{Aut}(X) \le S_N \le \prod_d S_{N_d}$: to a smaller group exactly, to a larger one as near as can be.

A layer of a group is a combination of its operators, and an operator is a matrix of pairs of entries. On *types* of pairs, on which
all operators concerned are constant, everything becomes small: the orbits of a group, or the pairs that no operator tells apart. A layer of
a smaller group has the values of the larger one's operators as its weights; the nearest layer of a larger group solves a least-squares
problem, each type weighted by the number of its pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor

from incidence.errors import IncidenceError
from incidence.nn.automorphism import AutomorphismLinear
from incidence.nn.exchangeable import Exchangeable
from incidence.nn.linear import Linear
from incidence.nn.operator import operator_matrix
from incidence.nn.tensors import assert_structure
from incidence.nn.witnesses import Samples
from incidence.structure import Structure
from incidence.structure.ragged import rank
from incidence.symmetry import Group

__all__ = ["GROUPS", "project", "restrict"]

GROUPS = ("symmetric", "product")
"""Groups that are called by name: all relabellings of the nodes; every dimension of a tensor permuted on its own."""

Layer = Linear | Exchangeable | AutomorphismLinear


def restrict(layer: Layer, group: Group | str) -> Layer:
    r"""The layer of a smaller group that computes the same map.

    Args:
        layer: A `Linear`, `Exchangeable` or `AutomorphismLinear` layer, with sums.
        group: A group of a structure, or `symmetric`, all relabellings of the nodes.

    Returns:
        An `AutomorphismLinear` layer on the structure of the group; for `symmetric` a `Linear` layer, which computes the same on every
        structure.

    Raises:
        IncidenceError: The group is not smaller, or the layer does not take sums.

    Example:
        >>> from incidence.symmetry import automorphisms
        >>> path = Structure(3, {"{i j}": torch.tensor([[0, 1], [1, 2]])})
        >>> layer = Linear("i -> i", 2, 2, dtype=torch.float64)
        >>> small = restrict(layer, automorphisms(path))
        >>> x = torch.randn(3, 2, dtype=torch.float64)
        >>> len(layer.weight), len(small.weight), torch.allclose(layer(x, path), small(x, path), atol=1e-12)
        (2, 5, True)
    """
    _assert_sum(layer)
    return _restricted(layer, group).train(layer.training)


def _restricted(layer: Layer, group: Group | str) -> Layer:
    if isinstance(group, Group):
        return _to_group(layer, group)
    if group != "symmetric":
        raise IncidenceError(f"a layer is restricted to a Group, or to 'symmetric'; got {group!r}. To a larger group it is projected.")
    if isinstance(layer, Linear):
        return deepcopy(layer)
    if isinstance(layer, AutomorphismLinear):
        raise IncidenceError("the symmetric group is larger than the group of this layer: use project('symmetric').")
    return _to_symmetric(layer)


def project(layer: Layer, group: Group | str, structure: Structure | None = None) -> Layer:
    r"""The layer of a larger group that is nearest to a layer.

    Nearest in the Frobenius norm of the matrices of pairs of present entries; of all weights that give the nearest map, those of least
    norm.

    Args:
        layer: A `Linear` or `AutomorphismLinear` layer, with sums.
        group: A group of a structure that has that of the layer as a part; `symmetric`, all relabellings of the nodes; or `product`,
            every dimension on its own.
        structure: Whose entries count; an `AutomorphismLinear` layer has its own.

    Returns:
        An `AutomorphismLinear`, `Linear` or `Exchangeable` layer.

    Raises:
        IncidenceError: The group is not larger, the layer does not take sums, or no structure is given.
    """
    _assert_sum(layer)
    if isinstance(layer, Exchangeable):
        raise IncidenceError("no group is larger than the product: there is nothing to project an Exchangeable layer to.")
    if isinstance(group, Group):
        return _to_larger(layer, group).train(layer.training)
    if group not in GROUPS or (isinstance(layer, Linear) and group == "symmetric"):
        to = "'product'" if isinstance(layer, Linear) else "a Group, 'symmetric' or 'product'"
        raise IncidenceError(f"a layer `{layer.map}` of this kind is projected to {to}; got {group!r}.")
    if isinstance(layer, AutomorphismLinear):
        structure = layer.structure
    if structure is None:
        raise IncidenceError("give project the structure whose entries count: on another one another layer may be nearest.")
    assert_structure(structure, "structure=", f"layer.project({group!r}, structure)")
    return _nearest(layer, group, structure).train(layer.training)


# ---- what all kinds of layers have in common


def _inner(layer: Linear | Exchangeable, structure: Structure) -> tuple[Linear, Structure]:
    """The linear layer that does the work, and the structure it works on; rows are the same."""
    return (layer.linear, layer.relax(structure)) if isinstance(layer, Exchangeable) else (layer, structure)


def _assert_sum(layer: object) -> None:
    if not isinstance(layer, (Linear, Exchangeable, AutomorphismLinear)):
        raise IncidenceError(f"weights are carried between Linear, Exchangeable and AutomorphismLinear layers; got {type(layer).__name__}.")
    inner = layer.linear if isinstance(layer, Exchangeable) else layer
    if isinstance(inner, Linear) and (inner._is_list or inner.aggr != ("sum",)):
        raise IncidenceError(f"weights are carried between layers that take sums; this one has aggr={list(inner.aggr)}.")
    if isinstance(inner, Linear) and -1 in inner.in_channels:
        raise IncidenceError(f"the layer `{inner.map}` has no weights yet: run it once, so that it knows its in_channels.")
    if isinstance(layer, Exchangeable) and layer.order is not None:
        raise IncidenceError(f"Exchangeable({layer.order}) does not say which tensor it means: write the tensor, as in 'i {{i j}}'.")


def _values(inner: Linear, structure: Structure, pair: tuple[int, int], ys: Tensor, xs: Tensor) -> Tensor:
    """What the operators from one tensor to another have at some pairs of entries; shape (pairs, operators)."""
    found = [operator_matrix(inner.map, operation, structure).to_dense()[ys, xs] for operation in inner.operations_of(*pair)]
    return torch.stack(found, dim=1) if found else torch.zeros(len(ys), 0, dtype=torch.float64, device=ys.device)


def _pairs(layer: Layer) -> list[tuple[int, int]]:
    return [(s, t) for s in range(len(layer.map.inputs)) for t in range(len(layer.map.outputs))]


def _weight(layer: Layer, s: int, t: int) -> Tensor:
    inner = layer.linear if isinstance(layer, Exchangeable) else layer
    name = inner.weight_name(s, t) if isinstance(inner, AutomorphismLinear) else inner._weight_name((s, t))
    weight: Tensor = getattr(inner, name)
    return weight


def _bias(layer: Layer, t: int) -> Tensor | None:
    inner = layer.linear if isinstance(layer, Exchangeable) else layer
    name = inner.bias_name(t) if isinstance(inner, AutomorphismLinear) else inner._bias_name(t)
    bias: Tensor | None = getattr(inner, name)
    return bias


def _classes(layer: Layer, t: int, structure: Structure) -> Tensor:
    """Which bias every entry of an output has."""
    if isinstance(layer, AutomorphismLinear):
        return layer.entry_orbits[t]
    inner, own = _inner(layer, structure)
    number = torch.zeros(own.num_entries(inner.map.outputs[t]), dtype=torch.long, device=own.device)
    for orbit, rows in enumerate(own.orbit_rows(inner.map.outputs[t])):
        number[rows] = orbit
    return number


def _arguments(layer: Layer) -> dict[str, Any]:
    inner = layer.linear if isinstance(layer, Exchangeable) else layer
    parameter = next(layer.parameters())
    keys = [[p.name or str(p) for p in side] for side in (layer.map.inputs, layer.map.outputs)]
    return {
        "in_channels": dict(zip(keys[0], inner.in_channels, strict=True)),
        "out_channels": dict(zip(keys[1], inner.out_channels, strict=True)),
        "bias": _bias(layer, 0) is not None,
        "device": parameter.device,
        "dtype": parameter.dtype,
    }


@torch.no_grad()
def _copy_biases(old: Layer, new: Layer, structure: Structure) -> None:
    """Every bias becomes the mean of the biases that its entries had; 0 where it has no entries."""
    for t in range(len(old.map.outputs)):
        bias, into = _bias(old, t), _bias(new, t)
        if bias is None or into is None:
            continue
        number = _classes(new, t, structure)
        counts = torch.bincount(number, minlength=len(into)).clamp(min=1)
        values = bias.double()[_classes(old, t, structure)]
        total = values.new_zeros(into.shape).index_add_(0, number, values)
        into.copy_(total / counts[:, None])


# ---- to smaller groups


@torch.no_grad()
def _to_group(layer: Layer, group: Group) -> AutomorphismLinear:
    if isinstance(layer, AutomorphismLinear):
        _assert_part(group, layer.group, "restrict_to takes a part of the group of the layer")
        group = group._on(layer.structure)
    structure = layer.structure if isinstance(layer, AutomorphismLinear) else group.structure
    small = AutomorphismLinear(structure, layer.map, group=group, **_arguments(layer))
    for s, t in _pairs(layer):
        orbits, weight = small.pair_orbits[s, t], _weight(layer, s, t)
        if isinstance(layer, AutomorphismLinear):
            values = weight[layer.pair_orbits[s, t].number[orbits.ys, orbits.xs]]
        else:
            values = _combined(_values(*_inner(layer, structure), (s, t), orbits.ys, orbits.xs), weight)
        _weight(small, s, t).copy_(values)
    _copy_biases(layer, small, structure)
    return small


def _combined(values: Tensor, weight: Tensor) -> Tensor:
    """The matrices of a layer at some pairs, (pairs, in, out), from the values of its operators there."""
    return torch.einsum("pk,kio->pio", values, weight.double())


def _assert_part(small: Group, large: Group, what: str) -> None:
    for number, generator in enumerate(small.generators):
        if small.structure.counts != large.structure.counts or generator not in large:
            raise IncidenceError(f"{what}; generator {number} of {small!r} is not in {large!r}.")


@torch.no_grad()
def _to_symmetric(layer: Exchangeable) -> Linear:
    """By the values on one pair of entries for every operation of the larger layer; the same on every structure."""
    if layer.map.is_open:
        raise IncidenceError(f"`{layer.map}` has open faces, which have infinitely many operations: restrict to the group of a structure.")
    new = Linear(layer.map, **_arguments(layer))
    for s, t in _pairs(layer):
        samples = Samples(layer.map.inputs[s], layer.map.outputs[t])
        relaxed = Exchangeable(samples.map, 1, 1)
        first = min(b.start for b in layer.linear.map.pairs if (b.source.tensor, b.target.tensor) == (s, t))
        kept = [number - first for number in layer.linear._layout.kept[s, t]]
        values = _values(*_inner(relaxed, samples.structure), (0, 0), samples.ys, samples.xs)[:, kept]
        _weight(new, s, t).copy_(torch.einsum("ac,cio->aio", samples.to_pool(), _combined(values, _weight(layer, s, t))))
        bias, into = _bias(layer, t), _bias(new, t)
        if bias is not None and into is not None:
            into[samples.orbits] = bias[_classes(relaxed, 0, samples.structure)[samples.ys]]
    return new


# ---- to larger groups


@torch.no_grad()
def _to_larger(layer: Linear | AutomorphismLinear, group: Group) -> AutomorphismLinear:
    if isinstance(layer, Linear):
        raise IncidenceError("a Linear layer respects all relabellings: no group of nodes is larger. Use restrict_to, or 'product'.")
    _assert_part(layer.group, group, "project takes a group that has that of the layer as a part")
    large = AutomorphismLinear(layer.structure, layer.map, group=group._on(layer.structure), **_arguments(layer))
    for s, t in _pairs(layer):
        small, into = layer.pair_orbits[s, t], large.pair_orbits[s, t]
        number = into.number[small.ys, small.xs]
        weighted = _weight(layer, s, t).double() * small.sizes[:, None, None]
        total = weighted.new_zeros(len(into), *weighted.shape[1:]).index_add_(0, number, weighted)
        _weight(large, s, t).copy_(total / into.sizes[:, None, None])
    _copy_biases(layer, large, layer.structure)
    return large


@torch.no_grad()
def _nearest(layer: Linear | AutomorphismLinear, group: str, structure: Structure) -> Linear | Exchangeable:
    make: Any = {"symmetric": Linear, "product": Exchangeable}[group]
    new: Linear | Exchangeable = make(layer.map, **_arguments(layer))
    inner, own = _inner(new, structure)
    for s, t in _pairs(layer):
        if isinstance(layer, AutomorphismLinear):
            orbits = layer.pair_orbits[s, t]
            ys, xs, sizes, wanted = orbits.ys, orbits.xs, orbits.sizes, _weight(layer, s, t).double()
        else:
            ys, xs, sizes = _types([(layer, structure), (inner, own)], (s, t))
            wanted = _combined(_values(layer, structure, (s, t), ys, xs), _weight(layer, s, t))
        values = _values(inner, own, (s, t), ys, xs)
        root = sizes.double().sqrt()
        solved = torch.linalg.lstsq((root[:, None] * values).cpu(), (root[:, None] * wanted.flatten(1)).cpu(), driver="gelsd").solution
        into = _weight(new, s, t)
        into.copy_(solved.view(into.shape))
    _copy_biases(layer, new, structure)
    return new


def _types(layers: Sequence[tuple[Linear, Structure]], pair: tuple[int, int]) -> tuple[Tensor, Tensor, Tensor]:
    """The pairs of entries that no operator of the layers tells apart: one of each type, and how many there are."""
    number: Tensor | None = None
    width = 1
    for inner, structure in layers:
        for operation in inner.operations_of(*pair):
            matrix = operator_matrix(inner.map, operation, structure).to_dense()
            values, count = rank(matrix.flatten())
            number = values if number is None else rank(number * count + values)[0]
            width = matrix.shape[1]
    assert number is not None
    types, sizes = torch.unique(number, return_counts=True)
    first = torch.full_like(types, len(number)).scatter_reduce_(0, number, torch.arange(len(number), device=number.device), "amin")
    return first // max(width, 1), first % max(width, 1), sizes
