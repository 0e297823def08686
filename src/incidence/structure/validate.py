"""Checks of what a caller gives: every check is vectorised, and an error names the pattern, the
first bad entry and the remedy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from incidence.algebra.grammar import Face
from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.structure.data import entry_ptr_of, parsed
from incidence.structure.entries import count_entries
from incidence.structure.ragged import is_among

__all__ = [
    "as_index",
    "as_matrix",
    "as_tensors",
    "assert_entries",
    "assert_names",
    "assert_range",
    "entry_ptr_from_nodes",
    "first_true",
]


def first_true(mask: Tensor) -> int | None:
    """Return the first place where a mask is True, or None if there is none."""
    return int(mask.nonzero()[0]) if mask.any() else None


def as_tensors(index: object, device: torch.device | None) -> dict[Pattern, tuple[Tensor, ...]]:
    """Return the index that a caller gives as tensors by pattern."""
    if index is None:
        return {}
    if not isinstance(index, Mapping):
        raise IncidenceError(
            "index must map patterns to integer tensors, as in {'(i j)': edges}; got"
            f" {type(index).__name__}."
        )
    given = {_as_pattern(text): value for text, value in index.items()}
    if len(given) < len(index):
        raise IncidenceError(
            f"two patterns of the index mean the same: {', '.join(map(repr, index))}. Name one of"
            " them."
        )
    if any(not pattern.faces for pattern in given):
        raise IncidenceError(
            "the empty pattern has one entry for each structure and takes no index. Leave it out."
        )
    assert_names(list(given), "is given twice. Use another name")
    tensors = {pattern: as_index(pattern, value, device) for pattern, value in given.items()}
    places = {t.device: p for p, parts in tensors.items() for t in parts}
    if len(places) > 1:
        where = "; ".join(f"`{p}` on {device}" for device, p in places.items())
        raise IncidenceError(
            f"all index tensors must be on one device: {where}. Move them, or give `device=`."
        )
    # Checks need values.
    if any(place.type == "meta" for place in places):
        raise IncidenceError(
            "the index is on the meta device, where tensors have no values: make the structure"
            " first, then move it."
        )
    return tensors


def assert_names(patterns: Sequence[Pattern], what: str) -> None:
    """Raise if two tensors have one name; `what` ends the message."""
    names = [pattern.name for pattern in patterns if pattern.name]
    if len(set(names)) < len(names):
        raise IncidenceError(f"a name means one tensor; `{max(names, key=names.count)}` {what}.")


def _as_pattern(text: object) -> Pattern:
    if not isinstance(text, (str, Pattern)):
        raise IncidenceError(f"the keys of an index are patterns, written as text; got {text!r}.")
    return parsed(text) if isinstance(text, str) else text


def entry_ptr_from_nodes(
    pattern: Pattern, index: Sequence[Tensor], node_ptr: Mapping[str, Tensor]
) -> Tensor:
    """Return where the entries of each structure start, and the end.

    Raises:
        IncidenceError: An entry has nodes of two structures, or entries are not sorted by
            structure.
    """
    device, num_entries = index[0].device, count_entries(pattern, index)
    num_structures = len(next(iter(node_ptr.values()))) - 1
    if num_structures == 1:
        return torch.tensor([0, num_entries], device=device)
    every = torch.arange(num_entries, device=device)
    places = [
        (index[0][row], every, pattern.sorts[x]) for row, x in enumerate(pattern.fixed_letters)
    ]
    for face, members in _open_faces(pattern, index):
        places.append((members[0], members[1], face.letters[0].sort))
    homes = [
        torch.bucketize(nodes.contiguous(), node_ptr[sort][1:], right=True)
        for nodes, _, sort in places
    ]
    # Each place writes its structure, so that the last one wins; then all are compared with it.
    home = torch.full((num_entries,), -1, dtype=torch.long, device=device)  # (entries,)
    for (_, entries, _), structure in zip(places, homes, strict=True):
        home[entries] = structure
    for (_, entries, _), structure in zip(places, homes, strict=True):
        if (bad := first_true(structure != home[entries])) is not None:
            raise IncidenceError(
                f"index['{pattern}']: entry {entries[bad]} has nodes of more than one structure of"
                " the batch. Drop it."
            )
    if (late := first_true(home.diff() < 0)) is not None:
        raise IncidenceError(
            f"index['{pattern}']: entry {late + 1} is of structure {int(home[late + 1])} and stands"
            f" after entries of structure {int(home[late])}. The entries of a batch stand by"
            " structure: sort them, features too."
        )
    return entry_ptr_of(home, num_structures)


def _open_faces(pattern: Pattern, index: Sequence[Tensor]) -> Iterator[tuple[Face, Tensor]]:
    """Return the open faces of a pattern with their members."""
    return zip((face for face in pattern.faces if face.is_open), index[1:], strict=True)


def as_index(pattern: Pattern, value: object, device: torch.device | None) -> tuple[Tensor, ...]:
    """Return an index as int64 tensors: the letters, then the members of every open face."""
    num_open = sum(face.is_open for face in pattern.faces)
    rows = len(pattern.fixed_letters)
    hint = f"one row for each of the letters {', '.join(pattern.fixed_letters)}"
    if not rows:
        hint = "no rows, as no letter is in a face of fixed size"
    name = f"index['{pattern}']"
    if not num_open:
        return (as_matrix(value, rows, name, hint, device),)
    # A list of two lists is one matrix, and a list of tensors is several parts.
    is_matrix = isinstance(value, list) and bool(value) and isinstance(value[0], (tuple, list))
    parts = [value]
    if isinstance(value, (tuple, list)) and len(value) and not is_matrix:
        parts = list(value)
    if num_open == 1 and not rows and len(parts) == 1:
        parts.insert(0, torch.zeros(0, 0, dtype=torch.long, device=device))
    if len(parts) != num_open + 1:
        raise IncidenceError(
            f"{name} must be a tuple (letters, *members) of {num_open + 1} tensors, one [2,"
            f" incidences] for each of the {num_open} open faces; got {len(parts)}."
        )
    tensors = [as_matrix(parts[0], rows, f"{name}[0]", hint, device)]
    for number, members in enumerate(parts[1:], 1):
        hint = "the rows (node, entry number) of an open face"
        tensors.append(as_matrix(members, 2, f"{name}[{number}]", hint, device))
    return tuple(tensors)


def _as_tensor(value: object, device: torch.device | None) -> Tensor:
    if isinstance(value, (tuple, list)) and value and all(isinstance(row, Tensor) for row in value):
        return torch.stack(list(value)).to(device=device)
    if not isinstance(value, Tensor) and hasattr(value, "__array__"):
        value = np.ascontiguousarray(value)
    return torch.as_tensor(value, device=device)


def as_matrix(
    value: object, rows: int, name: str, hint: str, device: torch.device | None
) -> Tensor:
    """Return integers of a caller as a new int64 tensor with so many rows.

    Args:
        value: The integers.
        rows: The number of rows.
        name: The name of the value, for messages.
        hint: The meaning of the rows, for messages.
        device: The device of the result; None for that of the value.
    """
    try:
        tensor = _as_tensor(value, device)
    except (TypeError, ValueError, RuntimeError) as error:
        raise IncidenceError(
            f"{name} must be an integer tensor of shape [{rows}, entries]; got"
            f" {type(value).__name__}."
        ) from error
    if tensor.is_nested or tensor.layout != torch.strided:
        raise IncidenceError(
            f"{name} must be a dense tensor of shape [{rows}, entries]; convert it, for example"
            " with `.indices()`."
        )
    if tensor.is_floating_point() and tensor.isnan().any():
        raise IncidenceError(
            f"{name} contains NaN: an index has integers. Drop the missing entries first."
        )
    is_integer = not (tensor.is_floating_point() or tensor.is_complex())
    if tensor.numel() and (not is_integer or tensor.dtype == torch.bool):
        kind = str(tensor.dtype).removeprefix("torch.")
        raise IncidenceError(f"{name} must have integers; got {kind}. Convert it with `.long()`.")
    if tensor.ndim == 1 and not tensor.numel():
        tensor = tensor.new_zeros(rows, 0)
    elif tensor.ndim == 1 and rows == 1:
        tensor = tensor[None]  # (1, entries)
    if tensor.ndim != 2 or tensor.shape[0] != rows:
        is_turned = tensor.ndim == 2 and tensor.shape[1] == rows
        turn = " Transpose it." if is_turned else ""
        raise IncidenceError(
            f"{name} must have shape [{rows}, entries], {hint}; got {list(tensor.shape)}.{turn}"
        )
    # A copy, so that the caller may change its own tensor later. The rows of an index are read one
    # by one, so each lies in one piece of memory.
    return tensor.to(torch.long, copy=True, memory_format=torch.contiguous_format)


def assert_entries(pattern: Pattern, index: Sequence[Tensor], num_nodes: Mapping[str, int]) -> None:
    """Raise if nodes are out of range or repeated in a face, or open faces lack letters."""
    name = f"index['{pattern}']"
    if pattern.is_open:
        name += "[0]"
    letters = index[0]
    for row, letter in enumerate(pattern.fixed_letters):
        what, sort = f"the letter `{letter}`", pattern.sorts[letter]
        assert_range(f"{name}[{row}]", what, letters[row], sort, num_nodes)
    row_of = {letter: row for row, letter in enumerate(pattern.fixed_letters)}
    for face in pattern.faces:
        if face.kind.is_distinct:
            _assert_distinct(face, row_of, letters, name)
    if pattern.is_open:
        _assert_open(pattern, index, num_nodes)


def assert_range(
    name: str, what: str, nodes: Tensor, sort: str, num_nodes: Mapping[str, int]
) -> None:
    """Raise if there are no such nodes of a sort; `name` and `what` are for the message."""
    if not nodes.numel():
        return
    low, high = (int(v) for v in torch.aminmax(nodes))
    count = num_nodes[sort]
    if low >= 0 and high < count:
        return
    bad = int(((nodes < 0) | (nodes >= count)).nonzero()[0])
    of = "" if sort == "node" else f" of sort `{sort}`"
    raise IncidenceError(
        f"{name}[{bad}] is {int(nodes[bad])}: nodes{of} are numbered 0 to {count - 1}, as num_nodes"
        f" is {count} ({what}). Correct the index or raise num_nodes."
    )


def _assert_distinct(face: Face, row_of: Mapping[str, int], letters: Tensor, name: str) -> None:
    inside = [letter for letter in face.letters if letter.name in row_of]
    for one, other in combinations(inside, 2):
        if one.sort != other.sort:
            continue
        bad = first_true(letters[row_of[one.name]] == letters[row_of[other.name]])
        if bad is None:
            continue
        entry = tuple(letters[:, bad].tolist())
        loop = "Remove the self-loop" if len(inside) == 2 else "Remove the entry"
        names = " ".join(letter.name for letter in inside)
        repeats = names if face.kind.is_ordered else f"[{names}]"
        remedy = f"or use `{repeats}`, where nodes may repeat"
        if face.kind.is_oriented:
            remedy = "its value would be 0"
        raise IncidenceError(
            f"{name}[:, {bad}] is {entry}: {face.kind.title} has distinct nodes, and `{one.name}`"
            f" and `{other.name}` are both {entry[row_of[one.name]]}. {loop}, {remedy}."
        )


class _Members(NamedTuple):
    """The members of the open faces of a pattern, to look up pairs of an entry and a node.

    Attributes:
        num_entries: The number of entries.
        bound: The number of nodes: an incidence has the key `entry * bound + node`.
        keys: For the number of every open face, the sorted keys of its incidences.
    """

    num_entries: int
    bound: int
    keys: dict[int, Tensor]


def _assert_open(pattern: Pattern, index: Sequence[Tensor], num_nodes: Mapping[str, int]) -> None:
    bound = max(max(num_nodes.values(), default=0), 1)
    inside = _Members(count_entries(pattern, index), bound, {})
    numbers = [number for number, face in enumerate(pattern.faces) if face.is_open]
    for position, (face, members) in enumerate(_open_faces(pattern, index), 1):
        name = f"index['{pattern}'][{position}]"
        assert_range(f"{name}[0]", "an open face", members[0], face.letters[0].sort, num_nodes)
        _assert_entry_numbers(name, members, inside.num_entries, bool(pattern.fixed_letters))
        _assert_sizes(name, members, inside.num_entries, len(face.letters))
        # One sort finds repeated incidences, and serves the lookups below.
        keys, order = (members[1] * bound + members[0]).sort(stable=True)
        # Equal neighbours in a sorted list.
        if (bad := first_true(keys[1:] == keys[:-1])) is not None:
            node, entry = (int(v) for v in members[:, order[bad]])
            raise IncidenceError(
                f"{name}: node {node} stands twice in the face of entry {entry}. Remove the"
                " repeated incidence."
            )
        inside.keys[numbers[position - 1]] = keys
    _assert_letters_in_open_faces(pattern, index[0], inside)
    _assert_shared_nodes(pattern, inside)


def _assert_entry_numbers(name: str, members: Tensor, num_entries: int, has_letters: bool) -> None:
    count = members.shape[1]
    if num_entries > count and not has_letters:
        raise IncidenceError(
            f"{name}: {count} incidences cannot make {num_entries:,} faces. Entry numbers run from"
            " 0 without gaps: renumber them, for example with torch.unique(...,"
            " return_inverse=True)."
        )
    if (bad := first_true((members[1] < 0) | (members[1] >= num_entries))) is not None:
        raise IncidenceError(
            f"{name}[1, {bad}] is {int(members[1, bad])}: entries are numbered 0 to"
            f" {num_entries - 1}. Correct the number."
        )


def _assert_sizes(name: str, members: Tensor, num_entries: int, least: int) -> None:
    sizes = torch.bincount(members[1], minlength=num_entries)
    if (bad := first_true(sizes < least)) is not None:
        size = int(sizes[bad])
        what = f"has {size} node{'s' * (size > 1)}" if size else "is in no incidence"
        raise IncidenceError(
            f"{name}: the face of entry {bad} {what}, but it needs at least {least}. Entry numbers"
            " run from 0 without gaps: renumber them, or drop the entry."
        )


def _assert_letters_in_open_faces(pattern: Pattern, letters: Tensor, inside: _Members) -> None:
    entries = torch.arange(letters.shape[1], device=letters.device)
    for row, name in enumerate(pattern.fixed_letters):
        keys = entries * inside.bound + letters[row]  # (entries,)
        for number, _ in pattern.signatures[name]:
            if number not in inside.keys:
                continue
            bad = first_true(~is_among(keys, inside.keys[number]))
            if bad is not None:
                raise IncidenceError(
                    f"index['{pattern}']: in entry {bad} the letter `{name}` is"
                    f" {int(letters[row, bad])}, which is not in its open face (face {number}). Add"
                    " the incidence, or drop the entry."
                )


def _assert_shared_nodes(pattern: Pattern, inside: _Members) -> None:
    """Raise if open faces have fewer common nodes than the pattern has letters in all of them."""
    faces_of = {name: {d for d, _ in pattern.signatures[name]} for name in pattern.letters}
    loose = (name for name in pattern.letters if name not in pattern.fixed_letters)
    for faces in sorted({tuple(sorted(faces_of[name])) for name in loose}):
        if len(faces) == 1:
            continue
        least = sum(faces_of[name] >= set(faces) for name in pattern.letters)
        common = inside.keys[faces[0]]
        for number in faces[1:]:
            common = common[is_among(common, inside.keys[number])]
        counts = torch.bincount(common // inside.bound, minlength=inside.num_entries)
        if (bad := first_true(counts < least)) is not None:
            raise IncidenceError(
                f"index['{pattern}']: in entry {bad} the open faces {' and '.join(map(str, faces))}"
                f" share fewer than {least} nodes. The letters of the pattern say that they meet:"
                " drop the entry."
            )
