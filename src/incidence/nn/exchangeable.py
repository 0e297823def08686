r"""`Exchangeable`: the layer of relaxed symmetry, with every dimension of a tensor permuted on its
own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

from incidence.algebra.maps import EquivariantMap
from incidence.algebra.pattern import Pattern
from incidence.algebra.selection import Choice
from incidence.engine.plan import Plan
from incidence.errors import IncidenceError
from incidence.nn.composition import Transferable
from incidence.nn.linear import Linear
from incidence.nn.tensors import (
    Values,
    as_list,
    as_values,
    assert_structure,
    assert_unoriented,
    key_of,
    per_tensor,
    takes_examples,
)
from incidence.notebook import html_of
from incidence.structure import Structure
from incidence.symmetry.relax import Relaxation

__all__ = ["Exchangeable"]


class Exchangeable(Transferable, nn.Module):
    r"""The layer that is equivariant to a product of symmetric groups, one for each dimension of a
    tensor.

    A tensor of order D has $2^D$ operations: for every set P of dimensions, sum over those and copy
    along them,

    $$y = b + \sum_{P \subseteq [D]} \mathrm{Bcast}(\mathrm{Pool}_P(x))\, W_P.$$

    Sums run over the entries that are present, and only those are produced. This is `Linear` with a
    sort for each dimension: the faces that index a dimension are the nodes of its sort. A dimension
    that stands in several tensors, such as the edges of `i {i j}, {i j} {i j k}`, is one set.
    Tensors whose dimensions are letters with sorts, such as `u:user m:movie`, are taken as they
    are, so that relational tables share what they name alike.

    Args:
        text: The number D of dimensions, for structures with one tensor of that order; or the
            tensors, `i {i j}`, which are both input and output; or a map, `i {i j} -> i {i j}, {i
            j}`.
        in_channels, out_channels, aggr, bias, operations, device, dtype: As for `Linear`.

    Shape:
        x: (entries, in_channels) in the order of the structure, or a dict of such; likewise the
            output.

    Example:
        >>> rated = torch.tensor([[0, 0, 1], [0, 2, 1]])
        >>> ratings = Structure({"user": 2, "movie": 3}, {"u:user m:movie": rated})
        >>> layer = Exchangeable("u:user m:movie", 4, 8)
        >>> layer(torch.randn(3, 4), ratings).shape, layer.num_operations
        (torch.Size([3, 8]), 4)
        >>> Exchangeable("i {i j} {i j k}", 4, 8).num_operations
        8
    """

    def __init__(
        self,
        text: int | str | EquivariantMap,
        in_channels: int | Mapping[str, int],
        out_channels: int | Mapping[str, int],
        aggr: str | Sequence[str] = "sum",
        bias: bool = True,
        operations: Choice = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.order, self.map = _as_map(text)
        assert_unoriented(
            self.map,
            "Exchangeable permutes the faces of each dimension, which leaves them no orientation",
        )
        self._relaxation = Relaxation(
            self.map.inputs + self.map.outputs, is_strict=self.order is not None
        )
        split = len(self.map.inputs)  # the relaxation has inputs and outputs in one list
        inputs, outputs = self._relaxation.patterns[:split], self._relaxation.patterns[split:]
        widths_in = dict(
            zip(
                map(key_of, inputs),
                per_tensor(self.map.inputs, in_channels, "in_channels"),
                strict=True,
            )
        )
        widths_out = dict(
            zip(
                map(key_of, outputs),
                per_tensor(self.map.outputs, out_channels, "out_channels"),
                strict=True,
            )
        )
        relaxed = EquivariantMap.between(inputs, outputs)
        self.linear = Linear(
            relaxed,
            widths_in,
            widths_out,
            aggr=aggr,
            bias=bias,
            operations=operations,
            device=device,
            dtype=dtype,
        )

    @property
    def num_operations(self) -> int:
        """The number of operations, 2^D for one tensor of order D to itself."""
        pairs = product(range(len(self.map.inputs)), range(len(self.map.outputs)))
        return sum(len(self.linear.operations_of(s, t)) for s, t in pairs)

    def relax(self, structure: Structure) -> Structure:
        """Return the structure with a sort for each dimension, on which `linear` works; kept."""
        assert_structure(structure)
        return (self._relaxation if self.order is None else _strict(self._tensor(structure))).apply(
            structure
        )

    def plan(self, structure: Structure) -> Plan:
        """Return the index lists for a structure: see `Linear.plan`."""
        return self.linear.plan(self.relax(structure))

    def _tensor(self, structure: Structure) -> Pattern:
        """Return the tensor meant by a number of dimensions."""
        fitting = [p for p in structure.patterns if p.order == self.order]
        if len(fitting) != 1:
            there = ", ".join(f"`{p}`" for p in structure.patterns) or "none"
            raise IncidenceError(
                f"Exchangeable({self.order}) is for structures with one tensor of order"
                f" {self.order}; there are: {there}. Say which one is meant, as in"
                " Exchangeable('u:user m:movie', ...)."
            )
        return fitting[0]

    @takes_examples
    def forward(self, x: Values | Mapping[str, Tensor], structure: Structure) -> Any:
        """Apply the layer.

        Raises:
            IncidenceError: The features do not fit the structure or the layer.
        """
        relaxed = self.relax(structure)
        # The structure has a sort for each dimension already: keys of features are those of the
        # layer.
        if relaxed is structure or self.order is not None:
            return self.linear(x, relaxed)
        xs = as_list(
            self.map.inputs, x, structure, [None if c < 0 else c for c in self.linear.in_channels]
        )
        y = self.linear(dict(zip(map(key_of, self.linear.map.inputs), xs, strict=True)), relaxed)
        return as_values(
            self.map.outputs,
            [y] if isinstance(y, Tensor) else [y[key_of(q)] for q in self.linear.map.outputs],
        )

    _repr_html_ = html_of

    def extra_repr(self) -> str:
        """Return the layer as it was written."""
        return f"{self.order if self.order is not None else str(self.map)!r}"


_strict = lru_cache(maxsize=64)(lambda pattern: Relaxation([pattern] * 2, is_strict=True))


def _as_map(text: object) -> tuple[int | None, EquivariantMap]:
    """Return the number of dimensions, where that is given, and the map that is meant."""
    if isinstance(text, EquivariantMap):
        return None, text
    if isinstance(text, str):
        # tensors are input and output
        return None, EquivariantMap(text if "->" in text else f"{text} -> {text}")
    if isinstance(text, bool) or not isinstance(text, int) or not 1 <= text <= 8:
        raise IncidenceError(
            "Exchangeable takes a number of dimensions, 1 to 8, or the tensors as text; got"
            f" {text!r}."
        )
    side = " ".join(f"d{k}:dim{k}" for k in range(text))
    return text, EquivariantMap(f"{side} -> {side}")
