r"""`MaskedLinear`: a linear layer whose output is there only where a mask says so, as it depends on
the input.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any

from torch import Tensor, nn

from incidence.algebra.maps import EquivariantMap
from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.nn.linear import Linear
from incidence.nn.tensors import (
    Values,
    as_list,
    as_values,
    assert_structure,
    key_of,
    per_tensor,
    takes_examples,
)
from incidence.notebook import html_of
from incidence.structure import Structure
from incidence.structure.arguments import as_entry_mask

__all__ = ["MaskedLinear"]


class MaskedLinear(nn.Module):
    r"""The layer $X \mapsto W(X) \circ s(X)$ with a mask s(X) that may depend on the input: a
    non-linear layer.

    Only what the mask keeps is computed. If the mask is equivariant, so is the layer.

    Args:
        text: The map, as for `Linear`.
        in_channels, out_channels: As for `Linear`.
        mask: A function of the input and the structure that gives a boolean tensor or list, True
            for the output entries to produce; for several outputs, a dict of such by tensor. By
            default the output keeps the support of the input: entries with a feature that is not 0.
            Then every output is an input too.
        **options: What else `Linear` takes.

    Shape:
        x: (entries, in_channels) in the order of the structure, or a dict of such; likewise the
            output, with 0 where the mask says no.

    Example:
        >>> import torch
        >>> s = Structure(3, {"{i j}": torch.tensor([[0, 1, 0], [1, 2, 2]])})
        >>> layer = MaskedLinear("{i j} -> {i j}", 1, 2)
        >>> x = torch.tensor([[1.0], [0.0], [2.0]])
        >>> (layer(x, s) != 0).all(1).tolist()
        [True, False, True]
    """

    def __init__(
        self,
        text: str | EquivariantMap,
        in_channels: int | Mapping[str, int],
        out_channels: int | Mapping[str, int],
        mask: Callable[[Any, Structure], Any] | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        for name in options:
            if name not in signature(Linear).parameters:
                raise TypeError(
                    f"MaskedLinear got an unexpected keyword argument {name!r}; it takes mask= and"
                    " what Linear takes."
                )
        self.map = (
            text
            if isinstance(text, EquivariantMap)
            else EquivariantMap(text, options.pop("max_overlap", 1))
        )
        if mask is None and (strange := [q for q in self.map.outputs if q not in self.map.inputs]):
            raise IncidenceError(
                f"`{strange[0]}` is no input of `{self.map}`, so it has no support to keep: give a"
                " mask."
            )
        if mask is not None and not callable(mask):
            raise IncidenceError(
                "mask= is a function of the input and the structure that gives a boolean tensor;"
                f" got {mask!r}."
            )
        self.mask = mask
        # names of the smaller tensors, which stand beside the whole ones
        self._kept = [Pattern(f"masked{t}={q.unnamed()}") for t, q in enumerate(self.map.outputs)]
        widths = dict(
            zip(
                map(key_of, self._kept),
                per_tensor(self.map.outputs, out_channels, "out_channels"),
                strict=True,
            )
        )
        inner = EquivariantMap.between(self.map.inputs, self._kept, self.map.max_overlap)
        self.linear = Linear(
            inner, in_channels, widths, max_overlap=self.map.max_overlap, **options
        )

    @takes_examples
    def forward(self, x: Values | Mapping[str, Tensor], structure: Structure) -> Any:
        """Apply the layer where the mask says so; 0 elsewhere.

        Raises:
            IncidenceError: The features do not fit the structure or the layer, or the mask does not
                fit the output.
        """
        assert_structure(structure)
        xs = as_list(
            self.map.inputs, x, structure, [None if c < 0 else c for c in self.linear.in_channels]
        )
        given = as_values(self.map.inputs, xs)
        keeps = self._keeps(given, structure)
        smaller = structure
        for q, kept, keep in zip(self.map.outputs, self._kept, keeps, strict=True):
            smaller = smaller.masked(q, keep, kept.name)
        y = self.linear(given, smaller)
        parts = [y] if isinstance(y, Tensor) else [y[key_of(kept)] for kept in self._kept]
        full = [
            # (entries, out)
            part.new_zeros(len(keep), part.shape[1]).masked_scatter(keep[:, None], part)
            for part, keep in zip(parts, keeps, strict=True)
        ]
        return as_values(self.map.outputs, full)

    def _keeps(self, x: Any, structure: Structure) -> list[Tensor]:
        if self.mask is None:
            xs = [x] if isinstance(x, Tensor) else list(x.values())
            support = {
                # (entries,): an entry is there if any of its channels is not 0
                key_of(p): (v.detach() != 0).any(1)
                for p, v in zip(self.map.inputs, xs, strict=True)
            }
            return [support[key_of(q)] for q in self.map.outputs]
        given = per_tensor(self.map.outputs, self.mask(x, structure), "the mask")
        return [
            as_entry_mask(structure, structure.resolve(q), keep)
            for q, keep in zip(self.map.outputs, given, strict=True)
        ]

    _repr_html_ = html_of

    def extra_repr(self) -> str:
        """Return the layer as it was written."""
        how = (
            "the support of the input"
            if self.mask is None
            else getattr(self.mask, "__name__", repr(self.mask))
        )
        return f"{str(self.map)!r}, mask: {how}"
