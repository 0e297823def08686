"""Many examples: side by side and apart again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from operator import attrgetter
from typing import Any, overload

import torch
from torch import Tensor

from incidence.errors import IncidenceError, need
from incidence.structure import batch as structures
from incidence.structure.example import Example, Target
from incidence.structure.structure import Structure

__all__ = ["collate", "pack", "uncollate"]

_DTYPE = attrgetter("dtype")


@overload
def collate(items: Sequence[Structure]) -> Structure: ...
@overload
def collate(items: Sequence[Example]) -> Example: ...
@overload
def collate(items: Sequence[Any]) -> Any: ...
def collate(items: Any) -> Any:
    """Puts structures, or examples, side by side into one: nodes and entries are numbered through; batches collate again.

    Graphs of PyG are read first, as `inc.data.load` reads them: a warning tells of loops left out and parallel edges joined.

    Plans that every structure has are carried over by shifting their numbers. The features of examples are joined by rows; targets for the
    entries of a pattern too, and targets for whole structures are stacked. It is what a `DataLoader` takes as `collate_fn`.

    Raises:
        IncidenceError: There is none, or they differ in sorts, tensors, features, targets or devices.

    Example:
        >>> s = Structure(2, {"{i j}": [[0], [1]]})
        >>> collate([s, s])
        Structure(num_structures=2, num_nodes=4, '{i j}': 2 entries)
        >>> collate([Example(s, {"i": torch.zeros(2, 3)}, target=k) for k in (5, 7)]).target
        tensor([5, 7])
    """
    items = (
        [items]
        if hasattr(items, "stores")
        else list(items)
        if isinstance(items, Iterable)
        else items
    )  # of PyG, which yields pairs
    kinds = set(map(type, items)) if isinstance(items, list) else set()
    if any(map(_is_of_pyg, kinds)):
        return need(
            "incidence.geometry.convert.loose", "collate of data of PyG", "convert"
        ).collate_graphs(items)
    if not any(issubclass(kind, Example) for kind in kinds):
        return structures.collate(items)
    for number, item in enumerate(items):
        if not isinstance(item, Example):
            raise IncidenceError(
                f"a batch is of examples or of structures; number {number} is a {type(item).__name__} among examples."
            )
    batch = structures.collate([e._structure for e in items])
    features = _join_rows(items, [e._features for e in items], "features")
    return Example._of(batch, features, _join_targets(items), True)


def _is_of_pyg(kind: type) -> bool:
    """Whether a class is one of PyG's, which is not loaded for that."""
    return any(base.__module__.startswith("torch_geometric.") for base in kind.__mro__)


def _join_rows(
    examples: Sequence[Example], tensors: Sequence[dict[str, Tensor]], what: str
) -> dict[str, Tensor]:
    spelt = _in_one_spelling(examples, tensors, what)
    return {key: _cat([own[key] for own in spelt], f"{what}[{key!r}]") for key in spelt[0]}


def _in_one_spelling(
    examples: Sequence[Example], tensors: Sequence[dict[str, Tensor]], what: str
) -> Sequence[dict[str, Tensor]]:
    """The same tensors under the keys of the first example, which others may have spelt in other letters."""
    if len(set(map(tuple, tensors))) == 1:
        return tensors
    keys = {
        pattern: key
        for key, pattern in ((k, examples[0]._structure.resolve(k)) for k in tensors[0])
    }
    spelt = []
    for number, (example, own) in enumerate(zip(examples, tensors, strict=True)):
        found = example._by_meaning(own)
        if found.keys() != keys.keys():
            ours, theirs = sorted(tensors[0]), sorted(own)
            raise IncidenceError(
                f"examples of a batch have the same {what}; number 0 has {ours} and number {number} has {theirs}."
            )
        spelt.append({key: found[pattern] for pattern, key in keys.items()})
    return spelt


def _cat(parts: Sequence[Tensor], name: str) -> Tensor:
    if len(set(map(_DTYPE, parts))) == len(set(map(Tensor.dim, parts))) == 1:
        with suppress(
            RuntimeError
        ):  # torch compares all sizes faster; what it refuses is explained below
            return torch.cat(list(parts))
    first = parts[0]
    for number, part in enumerate(parts):
        if part.shape[1:] != first.shape[1:] or part.dtype != first.dtype:
            one, other = (
                f"{list(t.shape[1:])} of {str(t.dtype).removeprefix('torch.')}"
                for t in (first, part)
            )
            raise IncidenceError(
                f"{name} has one shape and type throughout a batch; number 0 has rows {one} and number {number} {other}."
            )
    return torch.cat(list(parts))


def _join_targets(examples: Sequence[Example]) -> Target:
    targets = [e._target for e in examples]
    kinds = [type(target) for target in targets]
    if len(set(kinds)) > 1:
        number = next(k for k, kind in enumerate(kinds) if kind is not kinds[0])
        said = {
            Tensor: "one for the whole structure",
            dict: "one for the entries of patterns",
            type(None): "none",
        }
        one, other = said.get(kinds[0], "one"), said.get(kinds[number], "one")
        raise IncidenceError(
            f"examples of a batch have targets of one kind; number 0 has {one} and number {number} has {other}."
        )
    per_entry = [target for target in targets if isinstance(target, dict)]
    if per_entry:
        return _join_rows(examples, per_entry, "target")
    whole = [
        (target, e._is_batch)
        for e, target in zip(examples, targets, strict=True)
        if isinstance(target, Tensor)
    ]
    return (
        _cat([target if is_batch else target[None] for target, is_batch in whole], "the target")
        if whole
        else None
    )


@overload
def pack(items: Sequence[Structure]) -> list[Structure]: ...
@overload
def pack(items: Sequence[Example]) -> list[Example]: ...
def pack(items: Any) -> Any:
    """The same structures, or examples, with the structures kept together in one store, as those of a data set should be.

    A batch of them is then taken from the store by ranges, plans included: a plan is made once, for all, and not for every batch.

    Example:
        >>> samples = pack([Structure(n, {"(i j)": [[0], [1]]}) for n in (2, 3, 4)])
        >>> collate([samples[2], samples[0]])
        Structure(num_structures=2, num_nodes=6, '(i j)': 2 entries)
    """
    items = list(items) if isinstance(items, Iterable) else items
    if (
        not isinstance(items, list)
        or not items
        or not all(isinstance(item, Example) for item in items)
    ):
        return structures.pack(items)
    stored = structures.pack([e._structure for e in items])
    return [
        Example._of(s, e._features, e._target, e._is_batch)
        for s, e in zip(stored, items, strict=True)
    ]


@overload
def uncollate(batch: Structure) -> list[Structure]: ...
@overload
def uncollate(batch: Example) -> list[Example]: ...
def uncollate(batch: Any) -> Any:
    """The structures, or the examples, of a batch, each on its own."""
    if not isinstance(batch, Example):
        return structures.uncollate(batch)
    return list(batch)
