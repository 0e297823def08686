"""How the operands of a product are passed to a layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.nn.tensors import Values, key_of, per_tensor

__all__ = ["Operands"]


class Operands:
    """The operands of a product, some of which may be one tensor.

    Args:
        patterns: The patterns of the operands.
        text: The product, for messages.
    """

    def __init__(self, patterns: Sequence[Pattern], text: str) -> None:
        self.tensors, self._text = list(dict.fromkeys(patterns)), text
        self._keys = [key_of(pattern) for pattern in self.tensors]
        self._places = [self.tensors.index(pattern) for pattern in patterns]

    def per_operand(self, value: Any, what: str) -> list[Any]:
        """One value for each operand, from one for all or a mapping by tensor."""
        by_tensor = per_tensor(self.tensors, value, what)
        return [by_tensor[place] for place in self._places]

    def values(self, x: Values | Sequence[Tensor]) -> list[Any]:
        """The values of all operands: given one by one, by tensor, or as one tensor that all of
        them are.

        Raises:
            IncidenceError: There are too few or too many.
        """
        if isinstance(x, Mapping):
            if torch.compiler.is_compiling():
                return [x[self._keys[place]] for place in self._places]
            return self.per_operand(x, "the input")
        if isinstance(x, (list, tuple)):
            if len(x) != len(self._places):
                raise IncidenceError(
                    f"`{self._text}` has {len(self._places)} operands; got {len(x)}."
                )
            return list(x)
        if len(self._keys) > 1:
            keys = ", ".join(map(repr, self._keys))
            raise IncidenceError(
                f"the operands of `{self._text}` are different tensors: pass one for each, or a"
                f" dict with the keys {keys}."
            )
        return [x] * len(self._places)
