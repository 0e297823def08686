r"""`AutomorphismLinear`: the complete linear layer of one given structure, equivariant to its
automorphisms.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from incidence.algebra.maps import EquivariantMap
from incidence.engine.bags import bag_sum
from incidence.errors import IncidenceError
from incidence.nn.composition import Transferable
from incidence.nn.tensors import (
    Values,
    as_channels,
    as_list,
    as_values,
    assert_distinct,
    assert_structure,
    assert_unoriented,
    per_tensor,
    takes_examples,
)
from incidence.notebook import html_of
from incidence.structure import Structure
from incidence.symmetry import Group, automorphisms
from incidence.symmetry.pairs import PairBags, pair_bags, pair_orbits

__all__ = ["AutomorphismLinear"]


class AutomorphismLinear(Transferable, nn.Module):
    r"""Every linear map between tensors of one structure that commutes with a group that keeps it,
    such as $\mathrm{Aut}(X)$.

    The weights are shared along the orbits o of the group on pairs of an output and an input entry,

    $$y_e = b_{\mathrm{orbit}(e)} + \sum_o \Big(\sum_{f : (e, f) \in o} x_f\Big) W_o.$$

    Elements of the group are never listed; memory is linear in the pairs of entries. The layer
    belongs to its structure: it takes that structure, or a batch of copies of it.

    Args:
        structure: The structure.
        text: The map, for example `i {i j k} -> i {i j k}`; all its tensors are tensors of the
            structure.
        in_channels: For all inputs, or a dict by tensor.
        out_channels: For all outputs, or a dict by tensor.
        group: The group, or a list of generators, which keep all tensors of the structure; its
            automorphisms if not given.
        bias: Whether to add a bias for each orbit of output entries.
        device, dtype: Of the parameters.

    Shape:
        x: (entries, in_channels) in the order of the structure, or a dict of such; likewise the
            output.

    Example:
        >>> ring = Structure(6, {"(i j)": torch.tensor([[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0]])})
        >>> layer = AutomorphismLinear(ring, "i -> i", 4, 8)
        >>> layer(torch.randn(6, 4), ring).shape, layer.weight.shape  # a convolution on the ring
        (torch.Size([6, 8]), torch.Size([6, 4, 8]))
    """

    def __init__(
        self,
        structure: Structure,
        text: str | EquivariantMap,
        in_channels: int | Mapping[str, int],
        out_channels: int | Mapping[str, int],
        group: Group | Iterable[Any] | None = None,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        assert_structure(
            structure,
            "the first argument",
            "AutomorphismLinear(structure, text, in_channels, out_channels)",
        )
        self.map = text if isinstance(text, EquivariantMap) else EquivariantMap(text)
        assert_unoriented(
            self.map,
            "AutomorphismLinear shares weights along orbits of pairs of entries, which have no"
            " signs",
        )
        self.structure = structure
        self.group = _as_group(structure, group)
        for side in (self.map.inputs, self.map.outputs):
            assert_distinct(side, self.map.text)
        self.in_channels = [
            as_channels(c, "in_channels", 1)
            for c in per_tensor(self.map.inputs, in_channels, "in_channels")
        ]
        self.out_channels = [
            as_channels(c, "out_channels", 1)
            for c in per_tensor(self.map.outputs, out_channels, "out_channels")
        ]
        self.entry_orbits = [self.group.orbits(q, structure) for q in self.map.outputs]
        self._pairs = [
            (s, t) for s in range(len(self.map.inputs)) for t in range(len(self.map.outputs))
        ]
        self.pair_orbits = {
            (s, t): pair_orbits(self.group, self.map.inputs[s], self.map.outputs[t], structure)
            for s, t in self._pairs
        }
        self._bags = {
            (s, t): pair_bags(self.pair_orbits[s, t], self.entry_orbits[t]) for s, t in self._pairs
        }
        self._copies = structure  # the last batch of copies that was given
        for s, t in self._pairs:
            shape = len(self.pair_orbits[s, t].sizes), self.in_channels[s], self.out_channels[t]
            self.register_parameter(
                self.weight_name(s, t), nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
            )
        for t, channels in enumerate(self.out_channels):
            # orbits of entries
            rows = int(self.entry_orbits[t].max()) + 1 if len(self.entry_orbits[t]) else 0
            value = (
                nn.Parameter(torch.empty(rows, channels, device=device, dtype=dtype))
                if bias
                else None
            )
            self.register_parameter(self.bias_name(t), value)
        self.reset_parameters()

    def weight_name(self, source: int, target: int) -> str:
        """Return the name of the weight from one tensor to another."""
        return "weight" if len(self._pairs) == 1 else f"weight_{source}_{target}"

    def bias_name(self, target: int) -> str:
        """Return the name of the bias of a tensor."""
        return "bias" if len(self._pairs) == 1 else f"bias_{target}"

    def reset_parameters(self) -> None:
        """Draw the weights anew, so that all orbits of pairs add the same variance and the output
        has that of the input.
        """
        with torch.no_grad():
            for (s, t), orbits in self.pair_orbits.items():
                # the orbit of the output entry, (orbits of pairs,)
                home = self.entry_orbits[t][orbits.ys]
                # how many inputs each output entry sums by one orbit of pairs
                num_terms = orbits.sizes // torch.bincount(self.entry_orbits[t])[home].clamp(min=1)
                num_orbits = sum(
                    torch.bincount(self.entry_orbits[t][o.ys])[home]
                    for (_, u), o in self.pair_orbits.items()
                    if u == t
                )
                weight = getattr(self, self.weight_name(s, t))
                scale = (num_terms * num_orbits * self.in_channels[s]).clamp(min=1).double().rsqrt()
                weight.normal_().mul_(scale.to(weight)[:, None, None])  # (orbits of pairs, in, out)
            for t in range(len(self.out_channels)):
                bias = getattr(self, self.bias_name(t))
                if bias is not None:
                    bias.zero_()

    @takes_examples
    def forward(self, x: Values | Mapping[str, Tensor], structure: Structure) -> Any:
        """Apply the layer to features on its structure, or on a batch of copies of it.

        Raises:
            IncidenceError: It is another structure, or the features do not fit.
        """
        copies = self._num_copies(structure)
        xs = as_list(self.map.inputs, x, structure, self.in_channels)
        dtype = next(self.parameters()).dtype
        for v in xs:
            if v.dtype != dtype:
                raise IncidenceError(
                    f"the features are {v.dtype} and the layer is {dtype}: convert one, for example"
                    f" with layer.to({v.dtype})."
                )
        # Copies become channels: (copies x entries, in) -> (entries, copies x in).
        wide = [v.view(copies, -1, v.shape[1]).transpose(0, 1).flatten(1) for v in xs]
        ys = []
        for t, channels in enumerate(self.out_channels):
            terms = [
                _shared_product(v, getattr(self, self.weight_name(s, t)), self._bags[s, t], copies)
                for s, v in enumerate(wide)
            ]
            # (entries, copies, out)
            y = torch.stack(terms).sum(0) if len(terms) > 1 else terms[0]
            bias = getattr(self, self.bias_name(t))
            # (entries, copies, out)
            y = y if bias is None else y + bias[self.entry_orbits[t]][:, None]
            ys.append(y.transpose(0, 1).reshape(-1, channels))  # (copies x entries, out)
        return as_values(self.map.outputs, ys)

    def _num_copies(self, structure: Structure) -> int:
        assert_structure(structure)
        if structure is not self._copies:
            if not all(part == self.structure for part in structure):
                raise IncidenceError(
                    f"this layer belongs to one structure, {self.structure!r}, and takes features"
                    f" on it or on a batch of copies of it; got another: {structure!r}. Make a"
                    " layer for that one, or use inc.nn.Linear, which fits all."
                )
            self._copies = structure
        return structure.num_structures

    def _apply(self, fn: Any, recurse: bool = True) -> AutomorphismLinear:
        """Moves the parameters as torch does, and the structure with its lists along with them."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        device = next(self.parameters()).device
        if device != self.structure.device:
            self.structure = self._copies = self.structure.to(device)
            kept = (self.entry_orbits, self.pair_orbits, self._bags)
            self.entry_orbits, self.pair_orbits, self._bags = tree_map_only(
                Tensor, lambda t: t.to(device), kept
            )
        return self

    _repr_html_ = html_of

    def extra_repr(self) -> str:
        """Return the layer as it was written."""
        count = sum(len(orbits.sizes) for orbits in self.pair_orbits.values())
        has_bias = getattr(self, self.bias_name(0)) is not None
        shown = [c[0] if len(set(c)) == 1 else c for c in (self.in_channels, self.out_channels)]
        return (
            f"{str(self.map)!r}, {shown[0]}, {shown[1]}, bias={has_bias}, orbits={count}, group of"
            f" order {self.group.order}"
        )


def _as_group(structure: Structure, group: Group | Iterable[Any] | None) -> Group:
    if group is None:
        return automorphisms(structure)
    if not isinstance(group, Group):
        if (
            not isinstance(group, Iterable)
            or isinstance(group, str)
            or not getattr(group, "ndim", 1)
        ):
            raise IncidenceError(
                "group= is a Group or a list of generators, permutations of the nodes; got"
                f" {group!r}. Leave it out for all automorphisms."
            )
        return Group(structure, group)
    if group.structure is not structure:
        for pattern in structure.patterns:
            # refuses generators that do not keep the entries
            group.permutations(pattern, structure)
    return group


def _shared_product(x: Tensor, weight: Tensor, bags: PairBags, copies: int) -> Tensor:
    """Return the sum of every bag of inputs, times the weight of its orbit; shape (outputs, copies,
    out).
    """
    sums: Tensor = _BagSum.apply(x, bags)  # type: ignore[no-untyped-call]
    num_in, num_out = weight.shape[1:]
    parts, start = [sums.new_zeros(0, copies, num_out)], 0
    for orbits, entries, slots, rows in bags.alike:
        stop = start + orbits * entries * slots
        # (orbits, entries, copies, slots, in)
        rows_in = sums[start:stop].view(orbits, entries, slots, copies, num_in).transpose(2, 3)
        # one matrix for all slots of an orbit
        matrices = weight.index_select(0, rows).view(orbits, slots * num_in, num_out)
        parts.append(
            torch.bmm(rows_in.reshape(orbits, entries * copies, slots * num_in), matrices).view(
                -1, copies, num_out
            )
        )
        start = stop
    return torch.cat(parts).index_select(0, bags.place)  # (outputs, copies, out)


class _BagSum(torch.autograd.Function):
    """Sums over bags. Their gradient is one too, of the transposed bags, so that all derivatives
    are there.
    """

    @staticmethod
    def forward(x: Tensor, bags: PairBags) -> Tensor:
        return bag_sum(x.contiguous(), bags.members, bags.members_ptr)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, PairBags], output: Tensor) -> None:
        ctx.bags = inputs[1]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return _BagSum.apply(grad, ctx.bags.transposed()), None  # type: ignore[no-untyped-call]

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, _: None) -> Tensor:
        return _BagSum.apply(tangent, ctx.bags)  # type: ignore[no-untyped-call, no-any-return]

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int, None], x: Tensor, bags: PairBags) -> tuple[Tensor, int]:
        # What is mapped over becomes channels.
        wide = x.movedim(in_dims[0], 1)  # (rows, mapped over, channels)
        sums: Tensor = _BagSum.apply(wide.flatten(1), bags)  # type: ignore[no-untyped-call]
        return sums.view(-1, *wide.shape[1:]), 1
