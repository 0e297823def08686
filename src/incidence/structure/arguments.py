"""Arguments of structures and examples: numbers of nodes, rows, features and targets.

Each function turns what a caller gives into tensors, or raises an error that says what must hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import index as index_of
from reprlib import repr as shortened
from typing import Any

import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.structure.data import StructureData, entry_ptr_of

__all__ = [
    "as_entry_mask",
    "as_entry_rows",
    "as_labels",
    "as_nodes",
    "as_num_nodes",
    "as_structures",
    "as_target",
    "assert_structure",
    "assert_tensors",
    "node_ptr_of",
]

_MAX_NODES = 2**61
_MOST_EMPTY = 64  # empty structures for every node, in a batch that is given by its nodes


def assert_structure(
    given: object, what: str = "the second argument", call: str = "layer(x, structure)"
) -> None:
    """Raise if a value is not a structure."""
    if not isinstance(given, StructureData):
        raise IncidenceError(f"{what} is a Structure; got {type(given).__name__}. Call {call}.")


def as_num_nodes(num_nodes: int | Mapping[str, int], patterns: Sequence[Pattern]) -> dict[str, int]:
    """Return the number of nodes of every sort, after checking the sorts of the patterns."""
    given = dict(num_nodes) if isinstance(num_nodes, Mapping) else {"node": num_nodes}
    if not given:
        raise IncidenceError("num_nodes is empty: give the number of nodes of at least one sort.")
    counts = {sort: _as_count(sort, count) for sort, count in given.items()}
    total = sum(counts.values())
    if total >= _MAX_NODES:
        raise IncidenceError(f"num_nodes is {total:,} in all; fewer than 2^61 can be numbered.")
    for pattern in patterns:
        for letter, sort in pattern.sorts.items():
            if sort not in counts:
                known = ", ".join(f"`{s}`" for s in counts)
                raise IncidenceError(
                    f"`{pattern}`: the letter `{letter}` has the sort `{sort}`, which has no number"
                    f" of nodes (there are {known}). Give it: num_nodes={{'{sort}': ...}}."
                )
    return counts


def _as_count(sort: object, given: Any) -> int:
    if not isinstance(sort, str) or not (sort.isidentifier() and sort.isascii()):
        raise IncidenceError(f"num_nodes maps names of sorts to numbers; {sort!r} is not a name.")
    try:
        # NumPy integers and tensors with one integer have an index; truth values are a mistake.
        count = -1 if isinstance(given, bool) else index_of(given)
    except TypeError:
        count = -1
    if count < 0:
        raise IncidenceError(
            f"num_nodes of sort `{sort}` must be an integer of at least 0; got {given!r}."
        )
    return count


def node_ptr_of(
    counts: Mapping[str, int], batch: object, device: torch.device
) -> dict[str, Tensor]:
    """Return for every sort where the nodes of each structure start, and the end.

    Args:
        counts: The number of nodes of every sort.
        batch: The structure of every node, with several sorts a mapping from sort; None for one
            structure.
        device: The device of the result.
    """
    sorts = sorted(counts)
    if batch is None:
        return {sort: torch.tensor([0, counts[sort]], device=device) for sort in sorts}
    if isinstance(batch, Mapping):
        given = dict(batch)
    else:
        given = {"node": batch} if len(counts) > 1 else dict.fromkeys(counts, batch)
    if set(given) != set(counts):
        raise IncidenceError(
            "batch= gives the structure of every node: with several sorts, map each of"
            f" {', '.join(counts)} to a tensor."
        )
    homes = {}
    for sort in sorts:
        home = _as_line(given[sort], device)
        if home is None or not _is_ascending(home, counts[sort]):
            raise IncidenceError(
                f"batch= must be {counts[sort]} ascending integers from 0, the structure of every"
                f" node of sort `{sort}`."
            )
        homes[sort] = home
    last = [int(home[-1]) for home in homes.values() if len(home)]
    num_structures = max(last, default=0) + 1
    total = sum(counts.values())
    # A single large number would reserve memory for as many empty structures.
    if num_structures > _MOST_EMPTY * (total + 1024):
        raise IncidenceError(
            f"batch= numbers structures up to {num_structures - 1:,}, and there are {total:,}"
            " nodes: renumber them."
        )
    return {sort: entry_ptr_of(home, num_structures) for sort, home in homes.items()}


def _is_ascending(numbers: Tensor, count: int) -> bool:
    """Return whether these are so many numbers from 0, each at least the one before."""
    if numbers.dtype == torch.bool or len(numbers) != count:
        return False
    steps = numbers.diff(prepend=numbers.new_zeros(1))
    return bool((steps >= 0).all())


def _as_line(value: object, device: torch.device) -> Tensor | None:
    """Return integers or truth values as a tensor of one dimension.

    Returns:
        Integers of type int64, or a mask; None if the value is neither.
    """
    try:
        line = torch.as_tensor(value, device=device)
    except (TypeError, ValueError, RuntimeError):
        return None
    if line.ndim != 1:
        return None
    if line.dtype == torch.bool:
        return line
    # An empty list has no integers, but torch takes it for floats.
    if line.numel() and (line.is_floating_point() or line.is_complex()):
        return None
    return line.long()


def _as_numbers(value: object, count: int, device: torch.device) -> Tensor | None:
    """Return different numbers below a count, from numbers or a mask; None if they are not."""
    line = _as_line(value, device)
    if line is None:
        return None
    if line.dtype == torch.bool:
        return line.nonzero()[:, 0] if len(line) == count else None
    if not line.numel():
        return line
    # Bounds first: they are cheaper to compute than the different numbers.
    low, high = (int(bound) for bound in torch.aminmax(line))
    is_right = low >= 0 and high < count and len(line.unique()) == len(line)
    return line if is_right else None


def _by_sort(structure: StructureData, value: Any, what: str) -> dict[str, Any]:
    given = dict(value) if isinstance(value, Mapping) else {"node": value}
    unknown = [sort for sort in given if sort not in structure.counts]
    if unknown:
        known = ", ".join(structure.counts)
        raise IncidenceError(
            f"{what}: no nodes of sort `{unknown[0]}` here; there are: {known}. Give a mapping from"
            " sort."
        )
    return given


def as_nodes(structure: StructureData, nodes: Any, what: str) -> dict[str, Tensor]:
    """Return different nodes by sort, from numbers or masks.

    Args:
        structure: The structure.
        nodes: Numbers or a mask; with several sorts, a mapping from sort.
        what: The operation, for messages.
    """
    rows = {}
    for sort, given in _by_sort(structure, nodes, what).items():
        count = structure.counts[sort]
        numbers = _as_numbers(given, count, structure.device)
        if numbers is None:
            raise IncidenceError(
                f"{what} needs different numbers of 0 to {count - 1}, or a mask, of the {count}"
                f" nodes of sort `{sort}`; got {shortened(given)}."
            )
        rows[sort] = numbers
    return rows


def as_labels(structure: StructureData, permutation: Any, what: str) -> dict[str, Tensor]:
    """Return a permutation of the nodes of every sort; sorts that are not given keep their order.

    Args:
        structure: The structure.
        permutation: The new number of every node; with several sorts, a mapping from sort.
        what: The operation, for messages.
    """
    device = structure.device
    maps = {sort: torch.arange(n, device=device) for sort, n in structure.counts.items()}
    for sort, given in _by_sort(structure, permutation, what).items():
        new, every = _as_line(given, device), maps[sort]
        if new is None or new.dtype == torch.bool or not torch.equal(new.sort()[0], every):
            count = len(every)
            raise IncidenceError(
                f"{what}: give a permutation of the {count} nodes of sort `{sort}`, each of 0 to"
                f" {count - 1} once; got {shortened(permutation)}."
            )
        maps[sort] = new
    return maps


def as_entry_rows(structure: StructureData, pattern: Pattern, which: Any, what: str) -> Tensor:
    """Return different rows of a tensor, from a mask or numbers; `what` is for messages."""
    count = structure.num_entries(pattern)
    rows = _as_numbers(which, count, structure.device)
    if rows is None:
        raise IncidenceError(
            f"{what} needs a mask of the {count} entries of `{pattern}`, or different rows of 0 to"
            f" {count - 1}; got {shortened(which)}."
        )
    return rows


def as_entry_mask(structure: StructureData, pattern: Pattern, keep: Any) -> Tensor:
    """Return a mask of the entries of a tensor, from a boolean tensor or a list."""
    mask, count = _as_line(keep, structure.device), structure.num_entries(pattern)
    if mask is None or mask.dtype != torch.bool or len(mask) != count:
        came = shortened(keep)
        if hasattr(keep, "dtype") and hasattr(keep, "shape"):
            came = f"{keep.dtype} of shape {list(keep.shape)}"
        raise IncidenceError(
            f"masked needs a mask of the {count} entries of `{pattern}`, True for those to keep;"
            f" got {came}."
        )
    return mask


def as_structures(batch: StructureData, item: Any) -> int | list[int]:
    """Return the number of one structure of a batch, or the numbers of several.

    Args:
        batch: The batch.
        item: A number, a slice, a mask or a list of numbers.
    """
    count = batch.num_structures
    if isinstance(item, bool) or item is None:
        raise IncidenceError(f"a structure is indexed by pattern or number; got {item!r}.")
    if hasattr(item, "__index__") and not getattr(item, "ndim", 0):
        return _in_range(index_of(item), count)
    if isinstance(item, slice):
        numbers = list(range(count)[item])
    else:
        line = _as_line(item, torch.device("cpu"))
        is_mask = line is not None and line.dtype == torch.bool
        if line is None or (is_mask and len(line) != count):
            raise IncidenceError(
                f"structures are indexed by numbers, or a mask of all {count}; got {item!r}."
            )
        numbers = (line.nonzero()[:, 0] if is_mask else line).tolist()
    if not numbers:
        raise IncidenceError("a batch has at least one structure; the selection is empty.")
    return [_in_range(k, count) for k in numbers]


def _in_range(k: int, count: int) -> int:
    try:
        return range(count)[k]
    except IndexError:
        raise IndexError(f"structure {k} of a batch of {count}") from None


def assert_tensors(structure: StructureData, tensors: Mapping[str, Tensor], what: str) -> None:
    """Raise if a tensor does not have a row for each entry of its pattern."""
    seen = set()
    for key, value in tensors.items():
        pattern = structure.resolve(key)
        if pattern in seen:
            raise IncidenceError(
                f"{what} have `{pattern}` twice, in two spellings: {', '.join(map(repr, tensors))}."
                " Join their channels."
            )
        seen.add(pattern)
        name = f"{what}[{key!r}]"
        if not isinstance(value, Tensor):
            raise IncidenceError(
                f"{name} must be a tensor; got {type(value).__name__}. Convert it with"
                " torch.as_tensor(x)."
            )
        rows = structure.num_entries(pattern)
        if not value.ndim or len(value) != rows:
            of = f"`{pattern}`" if pattern.faces else "the whole structure"
            raise IncidenceError(
                f"{name} must have {rows} rows, one for each entry of {of}; got shape"
                f" {list(value.shape)}."
            )
        _assert_device(name, value, structure)


def _assert_device(name: str, value: Tensor, structure: StructureData) -> None:
    if value.device != structure.device:
        raise IncidenceError(
            f"{name} is on {value.device} and the structure is on {structure.device}: move one with"
            " `.to(device)`."
        )


def as_target(
    structure: StructureData, target: object, is_batch: bool
) -> Tensor | dict[str, Tensor] | None:
    """Return the target of an example as tensors."""
    if target is None:
        return None
    if isinstance(target, Mapping):
        assert_tensors(structure, target, "target")
        return dict(target)
    if isinstance(target, (bool, int, float)):
        target = torch.tensor(target, device=structure.device)
    if not isinstance(target, Tensor):
        raise IncidenceError(
            "the target is a tensor, a number, or maps patterns to tensors; got"
            f" {type(target).__name__}."
        )
    count = structure.num_structures
    if is_batch and (not target.ndim or len(target) != count):
        raise IncidenceError(
            f"the target of a batch has a row for each of its {count} structures; got shape"
            f" {list(target.shape)}."
        )
    _assert_device("the target", target, structure)
    return target
