"""What is refused at the door: every check is vectorised, and names the pattern, the first offending entry and the remedy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from operator import index as index_of

import numpy as np
import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.structure.data import StructureData, parsed
from incidence.structure.entries import count_entries
from incidence.structure.ragged import is_among, ranges

__all__ = [
    "as_index",
    "as_matrix",
    "as_num_nodes",
    "as_rows",
    "as_tensors",
    "assert_entries",
    "assert_range",
    "assert_structure",
    "entry_ptr_from_nodes",
    "node_ptr_of",
]


_MAX_NODES = 2**61
_MOST_EMPTY = 64  # structures for every node, in a batch that is told by its nodes


def first_true(mask: Tensor) -> int | None:
    """Where a mask is True first; None if nowhere."""
    return int(mask.nonzero()[0]) if mask.any() else None


def assert_structure(
    given: object, what: str = "the second argument", call: str = "layer(x, structure)"
) -> None:
    """Refuses what is no structure where one belongs."""
    if not isinstance(given, StructureData):
        raise IncidenceError(f"{what} is a Structure; got {type(given).__name__}. Call {call}.")


def as_num_nodes(num_nodes: int | Mapping[str, int], patterns: Sequence[Pattern]) -> dict[str, int]:
    """The number of nodes of every sort, checked against the sorts that the patterns use."""
    counts = dict(num_nodes) if isinstance(num_nodes, Mapping) else {"node": num_nodes}
    if not counts:
        raise IncidenceError("num_nodes is empty: give the number of nodes of at least one sort.")
    for sort, count in counts.items():
        if not isinstance(sort, str) or not (sort.isidentifier() and sort.isascii()):
            raise IncidenceError(
                f"num_nodes maps names of sorts to numbers; {sort!r} is not a name."
            )
        try:
            counts[sort] = -1 if isinstance(count, bool) else index_of(count)
        except TypeError:
            counts[sort] = -1
        if counts[sort] < 0:
            raise IncidenceError(
                f"num_nodes of sort `{sort}` must be an integer of at least 0; got {count!r}."
            )
    if sum(counts.values()) >= _MAX_NODES:
        raise IncidenceError(
            f"num_nodes is {sum(counts.values()):,} in all; fewer than 2^61 can be numbered."
        )
    for pattern in patterns:
        for letter, sort in pattern.sorts.items():
            if sort not in counts:
                known = ", ".join(f"`{s}`" for s in counts)
                raise IncidenceError(
                    f"`{pattern}`: the letter `{letter}` has the sort `{sort}`, which has no number of nodes (there are {known}). "
                    f"Give it: num_nodes={{'{sort}': ...}}."
                )
    return counts


def as_tensors(index: object, device: torch.device | None) -> dict[Pattern, tuple[Tensor, ...]]:
    """What a caller gives as the index of a structure, by pattern."""
    if index is not None and not isinstance(index, Mapping):
        raise IncidenceError(
            f"index must map patterns to integer tensors, as in {{'(i j)': edges}}; got {type(index).__name__}."
        )
    given = {_as_pattern(text): value for text, value in (index or {}).items()}
    if len(given) < len(index or {}):
        raise IncidenceError(
            f"two patterns of the index mean the same: {', '.join(map(repr, index or {}))}. Name one of them."
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
    if any(place.type == "meta" for place in places):
        raise IncidenceError(
            "the index is on the meta device, where tensors have no values: make the structure first, then move it."
        )
    return tensors


def assert_names(patterns: Sequence[Pattern], what: str) -> None:
    """Refuses a name that two tensors have."""
    names = [pattern.name for pattern in patterns if pattern.name]
    if len(set(names)) < len(names):
        raise IncidenceError(f"a name means one tensor; `{max(names, key=names.count)}` {what}.")


def _as_pattern(text: object) -> Pattern:
    if not isinstance(text, (str, Pattern)):
        raise IncidenceError(f"the keys of an index are patterns, written as text; got {text!r}.")
    return parsed(text) if isinstance(text, str) else text


def node_ptr_of(
    counts: Mapping[str, int], batch: object, device: torch.device
) -> dict[str, Tensor]:
    """For every sort, where the nodes of each structure start, and the end; from the structure of every node, if that is given."""
    if batch is None:
        return {sort: torch.tensor([0, counts[sort]], device=device) for sort in sorted(counts)}
    given = dict(batch) if isinstance(batch, Mapping) else dict.fromkeys(counts, batch)
    if set(given) != set(counts) or (len(counts) > 1 and not isinstance(batch, Mapping)):
        raise IncidenceError(
            f"batch= tells the structure of every node: with several sorts, map each of {', '.join(counts)} to a tensor."
        )
    homes = {sort: as_rows(given[sort], device) for sort in sorted(counts)}
    for sort, home in homes.items():
        is_bad = (
            home.is_floating_point() or home.dtype == torch.bool or home.shape != (counts[sort],)
        )
        homes[sort] = home = home.long()
        if is_bad or bool((home[:1] < 0).any()) or bool((home.diff() < 0).any()):
            raise IncidenceError(
                f"batch= must be {counts[sort]} ascending integers from 0, the structure of every node of sort `{sort}`."
            )
    num_structures = max([1, *(int(home[-1]) + 1 for home in homes.values() if len(home))])
    if num_structures > _MOST_EMPTY * (sum(counts.values()) + 1024):
        raise IncidenceError(
            f"batch= numbers structures up to {num_structures - 1:,}, and there are {sum(counts.values()):,} nodes: renumber them."
        )
    return {
        sort: ranges(torch.bincount(home, minlength=num_structures)) for sort, home in homes.items()
    }


def entry_ptr_from_nodes(
    pattern: Pattern, index: Sequence[Tensor], node_ptr: Mapping[str, Tensor]
) -> Tensor:
    """Where the entries of each structure start, and the end; refuses entries with nodes of two structures, or out of order."""
    num_entries, num_structures = (
        count_entries(pattern, index),
        len(next(iter(node_ptr.values()))) - 1,
    )
    device = index[0].device
    if num_structures == 1:
        return torch.tensor([0, num_entries], device=device)
    every = torch.arange(num_entries, device=device)
    faces = [face for face in pattern.faces if face.is_open]
    places = [
        (index[0][row], every, pattern.sorts[x]) for row, x in enumerate(pattern.fixed_letters)
    ]
    places += [
        (members[0], members[1], face.letters[0].sort)
        for face, members in zip(faces, index[1:], strict=True)
    ]
    home = torch.full((num_entries,), -1, dtype=torch.long, device=device)
    for nodes, entries, sort in places:
        home[entries] = torch.bucketize(nodes.contiguous(), node_ptr[sort][1:], right=True)
    for nodes, entries, sort in places:
        strange = (
            torch.bucketize(nodes.contiguous(), node_ptr[sort][1:], right=True) != home[entries]
        )
        if (bad := first_true(strange)) is not None:
            raise IncidenceError(
                f"index['{pattern}']: entry {entries[bad]} has nodes of more than one structure of the batch. Drop it."
            )
    if (late := first_true(home.diff() < 0)) is not None:
        raise IncidenceError(
            f"index['{pattern}']: entry {late + 1} is of structure {int(home[late + 1])} and stands after entries of structure "
            f"{int(home[late])}. The entries of a batch stand by structure: sort them, features too."
        )
    return ranges(torch.bincount(home, minlength=num_structures))


def as_rows(value: object, device: torch.device) -> Tensor:
    """Numbers or a mask as a tensor; an empty list, which torch takes for floats, is no numbers.

    What is no tensor at all, or not one line of numbers, comes back as floats, which no caller takes.
    """
    try:
        rows = torch.as_tensor(value, device=device)
    except (TypeError, ValueError, RuntimeError):
        return torch.zeros(1, device=device)
    if rows.ndim != 1:
        return torch.zeros(1, device=device)
    return rows.long() if rows.is_floating_point() and not rows.numel() else rows


def as_index(pattern: Pattern, value: object, device: torch.device | None) -> tuple[Tensor, ...]:
    """An index as a tuple of int64 tensors: the letters, then the members of every open face."""
    num_open = sum(face.is_open for face in pattern.faces)
    rows = len(pattern.fixed_letters)
    letters_hint = f"one row for each of the letters {', '.join(pattern.fixed_letters)}"
    letters_hint = letters_hint if rows else "no rows, as no letter is in a face of fixed size"
    if not num_open:
        return (as_matrix(value, rows, f"index['{pattern}']", letters_hint, device),)
    is_matrix = isinstance(value, list) and bool(value) and isinstance(value[0], (tuple, list))
    parts = value if isinstance(value, (tuple, list)) and len(value) and not is_matrix else (value,)
    if num_open == 1 and not rows and len(parts) == 1:
        parts = (torch.zeros(0, 0, dtype=torch.long, device=device), *parts)
    if len(parts) != num_open + 1:
        raise IncidenceError(
            f"index['{pattern}'] must be a tuple (letters, *members) of {num_open + 1} tensors, one [2, incidences] for each of the "
            f"{num_open} open faces; got {len(parts)}."
        )
    letters = as_matrix(parts[0], rows, f"index['{pattern}'][0]", letters_hint, device)
    hint = "an open face is told by the rows (node, entry number)"
    members = [
        as_matrix(m, 2, f"index['{pattern}'][{i}]", hint, device)
        for i, m in enumerate(parts[1:], 1)
    ]
    return letters, *members


def _as_tensor(value: object, device: torch.device | None) -> Tensor:
    if isinstance(value, (tuple, list)) and value and all(isinstance(row, Tensor) for row in value):
        return torch.stack(list(value)).to(device=device)
    if not isinstance(value, Tensor) and hasattr(value, "__array__"):
        value = np.ascontiguousarray(value)
    return torch.as_tensor(value, device=device)


def as_matrix(
    value: object, rows: int, name: str, hint: str, device: torch.device | None
) -> Tensor:
    """What a caller gives as integers, as a new int64 tensor of so many rows; `name` and `hint` stand in the sentence of a refusal."""
    try:
        tensor = _as_tensor(value, device)
    except (TypeError, ValueError, RuntimeError) as error:
        raise IncidenceError(
            f"{name} must be an integer tensor of shape [{rows}, entries]; got {type(value).__name__}."
        ) from error
    if tensor.is_nested or tensor.layout != torch.strided:
        raise IncidenceError(
            f"{name} must be a dense tensor of shape [{rows}, entries]; convert it, for example with `.indices()`."
        )
    if tensor.is_floating_point() and tensor.isnan().any():
        raise IncidenceError(
            f"{name} contains NaN: an index has integers. Drop the missing entries first."
        )
    if tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool:
        if tensor.numel():
            kind = str(tensor.dtype).removeprefix("torch.")
            raise IncidenceError(
                f"{name} must have integers; got {kind}. Convert it with `.long()`."
            )
        tensor = tensor.long()
    if tensor.ndim == 1 and (rows == 1 or not tensor.numel()):
        tensor = tensor.view(rows, -1) if tensor.numel() else tensor.new_zeros(rows, 0)
    if tensor.ndim != 2 or tensor.shape[0] != rows:
        shape = list(tensor.shape)
        turn = " Transpose it." if tensor.ndim == 2 and tensor.shape[1] == rows else ""
        raise IncidenceError(
            f"{name} must have shape [{rows}, entries], {hint}; got {shape}.{turn}"
        )
    # What the caller does to its own tensor later is no concern of the structure; and the rows of an index are read one by one.
    return tensor.to(torch.long, copy=True, memory_format=torch.contiguous_format)


def assert_entries(pattern: Pattern, index: Sequence[Tensor], num_nodes: Mapping[str, int]) -> None:
    """Refuses nodes out of range, repeated nodes in a face, and open faces that do not fit their letters."""
    name = f"index['{pattern}']" + "[0]" * pattern.is_open
    for row, letter in enumerate(pattern.fixed_letters):
        assert_range(
            f"{name}[{row}]",
            f"the letter `{letter}`",
            index[0][row],
            pattern.sorts[letter],
            num_nodes,
        )
    _assert_distinct(pattern, index[0], name)
    if pattern.is_open:
        _assert_open(pattern, index, num_nodes)


def assert_range(
    name: str, what: str, nodes: Tensor, sort: str, num_nodes: Mapping[str, int]
) -> None:
    """Refuses nodes of a sort that are not there."""
    if not nodes.numel():
        return
    low, high = (int(v) for v in torch.aminmax(nodes))
    if low >= 0 and high < num_nodes[sort]:
        return
    bad = int(((nodes < 0) | (nodes >= num_nodes[sort])).nonzero()[0])
    of = "" if sort == "node" else f" of sort `{sort}`"
    raise IncidenceError(
        f"{name}[{bad}] is {int(nodes[bad])}: nodes{of} are numbered 0 to {num_nodes[sort] - 1}, as num_nodes is {num_nodes[sort]} "
        f"({what}). Correct the index or raise num_nodes."
    )


def _assert_distinct(pattern: Pattern, letters: Tensor, name: str) -> None:
    row = {letter: number for number, letter in enumerate(pattern.fixed_letters)}
    for face in pattern.faces:
        inside = [letter.name for letter in face.letters if letter.name in row]
        for one, other in combinations(inside, 2) if face.kind.is_distinct else ():
            if pattern.sorts[one] != pattern.sorts[other]:
                continue
            bad = first_true(letters[row[one]] == letters[row[other]])
            if bad is not None:
                entry = tuple(letters[:, bad].tolist())
                loop = "Remove the self-loop" if len(inside) == 2 else "Remove the entry"
                repeats = " ".join(inside) if face.kind.is_ordered else f"[{' '.join(inside)}]"
                remedy = (
                    "its value would be 0"
                    if face.kind.is_oriented
                    else f"or use `{repeats}`, where nodes may repeat"
                )
                what = f"{face.kind.title} has distinct nodes"
                raise IncidenceError(
                    f"{name}[:, {bad}] is {entry}: {what}, and `{one}` and `{other}` are both {entry[row[one]]}. {loop}, {remedy}."
                )


def _assert_open(pattern: Pattern, index: Sequence[Tensor], num_nodes: Mapping[str, int]) -> None:
    num_entries = count_entries(pattern, index)
    open_faces = [number for number, face in enumerate(pattern.faces) if face.is_open]
    bound = max(max(num_nodes.values(), default=0), 1)
    pairs_of = {}
    for position, (number, members) in enumerate(zip(open_faces, index[1:], strict=True), 1):
        face, name = pattern.faces[number], f"index['{pattern}'][{position}]"
        assert_range(f"{name}[0]", "an open face", members[0], face.letters[0].sort, num_nodes)
        if num_entries > max(members.shape[1], 0) and not pattern.fixed_letters:
            raise IncidenceError(
                f"{name}: {members.shape[1]} incidences cannot make {num_entries:,} faces. Entry numbers run from 0 without gaps: renumber "
                f"them, for example with torch.unique(..., return_inverse=True)."
            )
        if (bad := first_true((members[1] < 0) | (members[1] >= num_entries))) is not None:
            entry = int(members[1, bad])
            raise IncidenceError(
                f"{name}[1, {bad}] is {entry}: entries are numbered 0 to {num_entries - 1}. Correct the number."
            )
        sizes = torch.bincount(members[1], minlength=num_entries)
        least = len(face.letters)
        if (bad := first_true(sizes < least)) is not None:
            what = (
                "is in no incidence"
                if not sizes[bad]
                else f"has {int(sizes[bad])} node{'s' * (int(sizes[bad]) > 1)}"
            )
            raise IncidenceError(
                f"{name}: the face of entry {bad} {what}, but it needs at least {least}. Entry numbers run from 0 without gaps: "
                f"renumber them, or drop the entry."
            )
        pairs, order = (members[1] * bound + members[0]).sort(stable=True)
        if (bad := first_true(pairs[1:] == pairs[:-1])) is not None:
            node, entry = (int(v) for v in members[:, order[bad]])
            raise IncidenceError(
                f"{name}: node {node} stands twice in the face of entry {entry}. Remove the repeated incidence."
            )
        pairs_of[number] = pairs
    _assert_letters_in_open_faces(pattern, index[0], pairs_of, bound)
    _assert_shared_nodes(pattern, pairs_of, bound, num_entries)


def _assert_letters_in_open_faces(
    pattern: Pattern, letters: Tensor, pairs_of: Mapping[int, Tensor], bound: int
) -> None:
    entries = torch.arange(letters.shape[1], device=letters.device)
    for row, name in enumerate(pattern.fixed_letters):
        for number, _ in pattern.signatures[name]:
            if number not in pairs_of:
                continue
            bad = first_true(~is_among(entries * bound + letters[row], pairs_of[number]))
            if bad is not None:
                raise IncidenceError(
                    f"index['{pattern}']: in entry {bad} the letter `{name}` is {int(letters[row, bad])}, which is not in its open face "
                    f"(face {number}). Add the incidence, or drop the entry."
                )


def _assert_shared_nodes(
    pattern: Pattern, pairs_of: Mapping[int, Tensor], bound: int, num_entries: int
) -> None:
    """Letters that several open faces share, and no other face, must find enough common nodes."""
    fixed = set(pattern.fixed_letters)
    loose = [
        tuple(sorted({d for d, _ in pattern.signatures[x]}))
        for x in pattern.letters
        if x not in fixed
    ]
    for faces in sorted({faces for faces in loose if len(faces) > 1}):
        least = sum(set(faces) <= {d for d, _ in pattern.signatures[x]} for x in pattern.letters)
        common = pairs_of[faces[0]]
        for number in faces[1:]:
            common = common[is_among(common, pairs_of[number])]
        bad = first_true(torch.bincount(common // bound, minlength=num_entries) < least)
        if bad is not None:
            raise IncidenceError(
                f"index['{pattern}']: in entry {bad} the open faces {' and '.join(map(str, faces))} share fewer than {least} nodes. "
                f"The letters of the pattern say that they meet: drop the entry."
            )
