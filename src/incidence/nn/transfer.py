r"""Weights carried along $\mathrm{Aut}(X) \le S_N \le \prod_d S_{N_d}$: to a smaller group exactly,
to a larger one as near as can be.

A layer of a group is a combination of its operators, and an operator is a matrix of pairs of
entries. On *types* of pairs, on which all operators concerned are constant, everything becomes
small: the orbits of a group, or the pairs that no operator tells apart. A layer of a smaller group
has the values of the larger one's operators as its weights; the nearest layer of a larger group
solves a least-squares problem, each type weighted by the number of its pairs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor

from incidence.errors import IncidenceError
from incidence.nn.automorphism import AutomorphismLinear
from incidence.nn.dense import operator_matrix
from incidence.nn.exchangeable import Exchangeable
from incidence.nn.linear import Linear
from incidence.nn.tensors import assert_structure, key_of
from incidence.structure import Structure
from incidence.structure.arrange import orbit_rows
from incidence.structure.ragged import rank
from incidence.symmetry import Group
from incidence.symmetry.pairs import PairOrbits
from incidence.symmetry.witnesses import OperationWitnesses

__all__ = ["project", "restrict"]

AnyLayer = Linear | Exchangeable | AutomorphismLinear


def restrict(layer: AnyLayer, group: Group | str) -> AnyLayer:
    r"""Return the layer of a smaller group that computes the same map.

    Args:
        layer: A `Linear`, `Exchangeable` or `AutomorphismLinear` layer, with sums.
        group: A group of a structure, or `symmetric`, all relabellings of the nodes.

    Returns:
        An `AutomorphismLinear` layer on the structure of the group; for `symmetric` a `Linear`
        layer, which computes the same on every structure.

    Raises:
        IncidenceError: The group is not smaller, or the layer does not take sums.

    Example:
        >>> from incidence.symmetry import automorphisms
        >>> path = Structure(3, {"{i j}": torch.tensor([[0, 1], [1, 2]])})
        >>> layer = Linear("i -> i", 2, 2, dtype=torch.float64)
        >>> small = restrict(layer, automorphisms(path))
        >>> x = torch.randn(3, 2, dtype=torch.float64)
        >>> len(layer.weight), len(small.weight)
        (2, 5)
        >>> torch.allclose(layer(x, path), small(x, path), atol=1e-12)
        True
    """
    _assert_sum(layer)
    if isinstance(group, Group):
        if isinstance(layer, AutomorphismLinear):
            _assert_part(group, layer.group, "restrict_to takes a part of the group of the layer")
            group = group._on(layer.structure)
        return _fitted(
            layer,
            AutomorphismLinear(group.structure, layer.map, group=group, **_arguments(layer)),
            group.structure,
        )
    if group != "symmetric":
        raise IncidenceError(
            f"a layer is restricted to a Group, or to 'symmetric'; got {group!r}. To a larger group"
            " it is projected."
        )
    if isinstance(layer, AutomorphismLinear):
        raise IncidenceError(
            "the symmetric group is larger than the group of this layer: use project('symmetric')."
        )
    # a Linear is symmetric already
    new = deepcopy(layer) if isinstance(layer, Linear) else _to_symmetric(layer)
    return new.train(layer.training)


def project(
    layer: AnyLayer, group: Group | str = "symmetric", structure: Structure | None = None
) -> AnyLayer:
    r"""Return the layer of a larger group that is nearest to a layer.

    Nearest in the Frobenius norm of the matrices of pairs of present entries; of all weights that
    give the nearest map, those of least norm.

    Args:
        layer: A `Linear` or `AutomorphismLinear` layer, with sums.
        group: A group of a structure that has that of the layer as a part; `symmetric`, all
            relabellings of the nodes; or `product`, every dimension on its own.
        structure: Whose entries count; an `AutomorphismLinear` layer has its own.

    Returns:
        An `AutomorphismLinear`, `Linear` or `Exchangeable` layer.

    Raises:
        IncidenceError: The group is not larger, the layer does not take sums, or no structure is
            given.
    """
    _assert_sum(layer)
    if isinstance(layer, Exchangeable):
        raise IncidenceError(
            "no group is larger than the product: there is nothing to project an Exchangeable"
            " layer to."
        )
    if isinstance(group, Group):
        if isinstance(layer, Linear):
            raise IncidenceError(
                "a Linear layer respects all relabellings: no group of nodes is larger. Use"
                " restrict_to, or 'product'."
            )
        _assert_part(
            layer.group, group, "project takes a group that has that of the layer as a part"
        )
        large = AutomorphismLinear(
            layer.structure, layer.map, group=group._on(layer.structure), **_arguments(layer)
        )
        return _fitted(layer, large, layer.structure)
    if group not in ("symmetric", "product") or (
        isinstance(layer, Linear) and group == "symmetric"
    ):
        to = "'product'" if isinstance(layer, Linear) else "a Group, 'symmetric' or 'product'"
        raise IncidenceError(
            f"a layer `{layer.map}` of this kind is projected to {to}; got {group!r}."
        )
    if isinstance(layer, AutomorphismLinear):
        structure = layer.structure
    if structure is None:
        raise IncidenceError(
            "give project the structure whose entries count: on another one another layer may be"
            " nearest."
        )
    assert_structure(structure, "structure=", f"layer.project({group!r}, structure)")
    new = (
        Linear(layer.map, **_arguments(layer))
        if group == "symmetric"
        else Exchangeable(layer.map, **_arguments(layer))
    )
    return _fitted(layer, new, structure)


def _assert_sum(layer: object) -> None:
    if not isinstance(layer, (Linear, Exchangeable, AutomorphismLinear)):
        raise IncidenceError(
            "weights are carried between Linear, Exchangeable and AutomorphismLinear layers; got"
            f" {type(layer).__name__}."
        )
    inner = _inner(layer)
    if -1 in inner.in_channels:
        raise IncidenceError(
            f"the layer `{inner.map}` has no weights yet: run it once, so that it knows its"
            " in_channels."
        )
    if isinstance(inner, Linear) and (
        _weight(layer, 0, 0).ndim > 3 or any(name != "sum" for name in inner.aggr)
    ):
        raise IncidenceError(
            "weights are carried between layers that take sums; this one has"
            f" aggr={list(inner.aggr)}."
        )
    if isinstance(layer, Exchangeable) and layer.order is not None:
        raise IncidenceError(
            f"Exchangeable({layer.order}) does not say which tensor it means: write the tensor, as"
            " in 'i {i j}'."
        )


def _inner(layer: AnyLayer) -> Linear | AutomorphismLinear:
    """Return the layer that has the parameters."""
    return layer.linear if isinstance(layer, Exchangeable) else layer


def _pairs(layer: AnyLayer) -> list[tuple[int, int]]:
    return [(s, t) for s in range(len(layer.map.inputs)) for t in range(len(layer.map.outputs))]


def _weight(layer: AnyLayer, s: int, t: int) -> Tensor:
    weight: Tensor = getattr(
        _inner(layer), "weight" if len(_pairs(layer)) == 1 else f"weight_{s}_{t}"
    )
    return weight


def _bias(layer: AnyLayer, t: int) -> Tensor | None:
    bias: Tensor | None = getattr(_inner(layer), "bias" if len(_pairs(layer)) == 1 else f"bias_{t}")
    return bias


def _arguments(layer: AnyLayer) -> dict[str, Any]:
    inner, parameter = _inner(layer), next(layer.parameters())
    return {
        "in_channels": dict(zip(map(key_of, layer.map.inputs), inner.in_channels, strict=True)),
        "out_channels": dict(zip(map(key_of, layer.map.outputs), inner.out_channels, strict=True)),
        "bias": _bias(layer, 0) is not None,
        "device": parameter.device,
        "dtype": parameter.dtype,
    }


def _operators(
    layer: Linear | Exchangeable, structure: Structure, pair: tuple[int, int]
) -> Iterator[Tensor]:
    """Return the matrices of the operations from one tensor to another, (outputs, inputs)."""
    inner, own = (
        (layer.linear, layer.relax(structure))
        if isinstance(layer, Exchangeable)
        else (layer, structure)
    )
    return (
        operator_matrix(inner.map, operation, own).to_dense()
        for operation in inner.operations_of(*pair)
    )


def _values(
    layer: Linear | Exchangeable,
    structure: Structure,
    pair: tuple[int, int],
    ys: Tensor,
    xs: Tensor,
) -> Tensor:
    """Return what the operators from one tensor to another have at some pairs of entries; shape
    (pairs, operators).
    """
    none = torch.zeros(len(ys), 0, dtype=torch.float64, device=ys.device)
    return torch.cat(
        [none, *(matrix[ys, xs][:, None] for matrix in _operators(layer, structure, pair))], dim=1
    )


def _matrices(
    layer: AnyLayer, structure: Structure, pair: tuple[int, int], ys: Tensor, xs: Tensor
) -> Tensor:
    """Return what a layer multiplies inputs xs with for outputs ys; shape (pairs, in, out)."""
    weight = _weight(layer, *pair).double()
    if isinstance(layer, AutomorphismLinear):
        return weight[layer.pair_orbits[pair].number[ys, xs]]  # (pairs, in, out)
    # (pairs, in, out)
    return torch.einsum("pk,kio->pio", _values(layer, structure, pair, ys, xs), weight)


def _bias_rows(layer: AnyLayer, t: int, structure: Structure) -> Tensor:
    """Return which bias every entry of an output has."""
    if isinstance(layer, AutomorphismLinear):
        return layer.entry_orbits[t]
    own = layer.relax(structure) if isinstance(layer, Exchangeable) else structure
    pattern = _inner(layer).map.outputs[t]
    number = torch.zeros(own.num_entries(pattern), dtype=torch.long, device=own.device)
    for orbit, rows in enumerate(orbit_rows(own, pattern)):
        number[rows] = orbit
    return number


def _means(values: Tensor, number: Tensor, sizes: Tensor, count: int) -> Tensor:
    """Return the mean of the values with each number, every one counted as often as its size says;
    0 where there are none.
    """
    weights = sizes[:, None].to(values)  # (pairs, 1)
    parts = values.flatten(1) * weights, weights  # (pairs, numbers) and (pairs, 1)
    total, counts = (
        part.new_zeros(count, part.shape[1]).index_add_(0, number, part) for part in parts
    )
    return (total / counts.clamp(min=1)).view(count, *values.shape[1:])


def _assert_part(small: Group, large: Group, what: str) -> None:
    for number, generator in enumerate(small.generators):
        if small.structure.counts != large.structure.counts or generator not in large:
            raise IncidenceError(f"{what}; generator {number} of {small!r} is not in {large!r}.")


@torch.no_grad()
def _fitted(old: AnyLayer, new: AnyLayer, structure: Structure) -> AnyLayer:
    """Give a layer the weights by which it is nearest to another on a structure; the same, if its
    group is smaller.
    """
    for pair in _pairs(old):
        known = [
            layer.pair_orbits[pair] for layer in (old, new) if isinstance(layer, AutomorphismLinear)
        ]
        types = (
            max(known, key=lambda orbits: len(orbits.sizes))
            if known
            else _types([old, new], structure, pair)
        )
        wanted, into = _matrices(old, structure, pair, types.ys, types.xs), _weight(new, *pair)
        if isinstance(new, AutomorphismLinear):
            into.copy_(
                _means(
                    wanted, new.pair_orbits[pair].number[types.ys, types.xs], types.sizes, len(into)
                )
            )
        else:
            # (types, 1): squares of all pairs are added up
            root = types.sizes.double().sqrt()[:, None]
            values = _values(new, structure, pair, types.ys, types.xs)  # (types, operations)
            # `gelsd` gives the solution of least norm where operators are dependent, as on few
            # nodes.
            solved = torch.linalg.lstsq(
                (root * values).cpu(), (root * wanted.flatten(1)).cpu(), driver="gelsd"
            ).solution
            into.copy_(solved.view(into.shape))
    for t in range(len(old.map.outputs)):
        bias, other = _bias(old, t), _bias(new, t)
        if bias is not None and other is not None:
            number = _bias_rows(new, t, structure)
            other.copy_(
                _means(
                    bias.double()[_bias_rows(old, t, structure)],
                    number,
                    torch.ones_like(number),
                    len(other),
                )
            )
    return new.train(old.training)


def _types(layers: Sequence[Any], structure: Structure, pair: tuple[int, int]) -> PairOrbits:
    """Return the pairs of entries in the place of their orbits: those that no operator of the
    layers tells apart are of one type.
    """
    width = structure.num_entries(layers[0].map.inputs[pair[0]])  # a pair is row x width + column
    number = torch.zeros(
        structure.num_entries(layers[0].map.outputs[pair[1]]) * width,
        dtype=torch.long,
        device=structure.device,
    )
    for layer in layers:
        for matrix in _operators(layer, structure, pair):
            values, count = rank(matrix.flatten())
            # pairs stay together only if every operator agrees on them
            number = rank(number * count + values)[0]
    sizes = torch.bincount(number)
    first = torch.full_like(sizes, len(number)).scatter_reduce_(
        0, number, torch.arange(len(number), device=number.device), "amin"
    )
    return PairOrbits(
        number.view(-1, max(width, 1)), sizes, first // max(width, 1), first % max(width, 1)
    )


@torch.no_grad()
def _to_symmetric(layer: Exchangeable) -> Linear:
    """By the values on one pair of entries for every operation of the larger layer; the same on
    every structure.
    """
    if layer.map.is_open:
        raise IncidenceError(
            f"`{layer.map}` has open faces, which have infinitely many operations: restrict to the"
            " group of a structure."
        )
    new = Linear(layer.map, **_arguments(layer))
    for s, t in _pairs(layer):
        witnesses = OperationWitnesses(layer.map.inputs[s], layer.map.outputs[t])
        relaxed = Exchangeable(witnesses.map, 1, 1)
        every = [
            o for o in layer.linear.map.operations if (o.source.tensor, o.target.tensor) == (s, t)
        ]
        # the layer may have fewer operations
        kept = [every.index(o) for o in layer.linear.operations_of(s, t)]
        values = _values(relaxed, witnesses.structure, (0, 0), witnesses.ys, witnesses.xs)[:, kept]
        _weight(new, s, t).copy_(
            torch.einsum(
                "ap,pk,kio->aio", witnesses.to_pool(), values, _weight(layer, s, t).double()
            )
        )
        bias, into = _bias(layer, t), _bias(new, t)
        if bias is not None and into is not None:
            into[witnesses.orbits] = bias[_bias_rows(relaxed, 0, witnesses.structure)[witnesses.ys]]
    return new
