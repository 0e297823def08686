"""What all converters share: checks of examples and values, and refusals of what the other side
cannot hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.structure.example import Example
from incidence.structure.structure import Structure

__all__ = [
    "as_array",
    "as_example",
    "as_numbers",
    "as_rows",
    "assert_held",
    "attribute",
    "by_meaning",
    "has_same_entries",
    "single",
    "stacked",
]


def as_example(given: Any, who: str) -> Example:
    """Return an example as it is, and a structure as an example without features."""
    if isinstance(given, Structure):
        return Example(given)
    if not isinstance(given, Example):
        raise IncidenceError(f"{who} takes an Example or a Structure; got {type(given).__name__}.")
    return given


def single(given: Any, who: str) -> Example:
    """Return an example that is no batch."""
    example = as_example(given, who)
    if example.num_structures != 1:
        raise IncidenceError(
            f"{who} takes one structure, and this is a batch of {len(example)}: use [{who}(one) for"
            " one in batch]."
        )
    return example[0] if example.is_batch else example


def by_meaning(example: Example) -> dict[Pattern, Tensor]:
    """Return the features by the patterns that their keys mean."""
    return {example.structure.resolve(key): x for key, x in example.features.items()}


def has_same_entries(structure: Structure, text: str, index: Tensor) -> bool:
    """Return whether different entries in an index are those of a structure."""
    # As many different entries, all of them there: the sets are equal.
    is_complete = structure.num_entries(text) == index.shape[1]
    return is_complete and bool((structure.locate(text, index) >= 0).all())


def assert_held(
    example: Example,
    who: str,
    tensors: Iterable[str],
    features: Iterable[str],
    target: bool = False,
    where: str = "",
) -> None:
    """Check that tensors, features and targets have a place on the other side.

    Args:
        example: The example.
        who: The function that errors name.
        tensors: The tensors that have a place.
        features: The tensors whose features have a place.
        target: Whether a target has a place.
        where: The name of the other side. Default: what follows `to_` in `who`.
    """
    other_side = where or who.removeprefix("to_")
    patterns = example.structure.patterns
    known = [Pattern(text) for text in tensors]
    for pattern in patterns:
        if pattern not in known:
            others = ", ".join(f"'{p}': s['{p.name or p}']" for p in patterns if p in known)
            raise IncidenceError(
                f"{who}: {other_side} has no place for `{pattern}`. Leave it out:"
                f" Structure(s.num_nodes, {{{others}}})."
            )
    known = [Pattern(text) for text in features]
    for pattern in by_meaning(example):
        if pattern not in known:
            shown = str(pattern) or "the whole structure"
            raise IncidenceError(
                f"{who}: {other_side} has no place for features of `{shown}`. Leave them out with"
                " example.replace(features=...)."
            )
    if example.target is not None and not target:
        raise IncidenceError(
            f"{who}: {other_side} has no place for a target. Leave it out with"
            " example.replace(target=None)."
        )


def as_numbers(value: Any, who: str, name: str) -> Tensor:
    """Return a dense tensor, from one or from an array."""
    try:
        numbers = torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise IncidenceError(f"{who}: {name} is no array of numbers: {error}.") from None
    if numbers.layout != torch.strided:
        raise IncidenceError(
            f"{who}: {name} is a sparse tensor, and features and targets are dense here: use"
            " .to_dense()."
        )
    return numbers


def as_rows(value: Any, who: str, name: str) -> Tensor:
    """Return features [entries, channels] from a tensor or array with a value or a row for each
    entry.
    """
    rows = as_numbers(value, who, name)
    if not rows.ndim:
        raise IncidenceError(f"{who}: {name} is one number, and a row for each entry is needed.")
    return rows[:, None] if rows.ndim == 1 else rows.flatten(1)  # (entries, channels)


def as_array(x: Tensor, who: str) -> Any:
    """Return a tensor as a numpy array of the same type."""
    try:
        return x.detach().cpu().numpy()
    except TypeError:
        dtype = str(x.dtype).removeprefix("torch.")
        raise IncidenceError(
            f"{who}: numpy has no type for {dtype}. Convert the features first, for example with"
            " x.float()."
        ) from None


def stacked(values: Sequence[Any], who: str, name: str) -> Tensor:
    """Return one row for each entry, from numbers, lists or arrays; arrays keep their type."""
    # torch reads a list of arrays number by number, which is slow.
    has_arrays = any(isinstance(v, np.ndarray) for v in values)
    try:
        rows = np.stack(values) if has_arrays else torch.tensor(list(values))
    except (TypeError, ValueError, RuntimeError) as error:
        raise IncidenceError(
            f"{who}: the values of `{name}` are not numbers of one shape: {error}."
        ) from None
    return as_rows(rows, who, f"`{name}`")


def attribute(
    data: Sequence[Mapping[Any, Any]], name: str, what: str, who: str, is_required: bool = False
) -> Tensor | None:
    """Return an attribute of all nodes or cells as features.

    Args:
        data: The attributes of every node or cell.
        name: The name of the attribute.
        what: The plural of what has it, for errors.
        who: The function that errors name.
        is_required: Whether the attribute must be there; if not, None stands for one that no node
            or cell has.
    """
    values = [attributes[name] for attributes in data if name in attributes]
    missing = len(data) - len(values)
    if missing and (values or is_required):
        remedy = "Give it to all" if is_required else "Give it to all, or to none"
        raise IncidenceError(
            f"{who}: {missing} of {len(data)} {what} have no attribute `{name}`. {remedy}."
        )
    return stacked(values, who, name) if values else None
