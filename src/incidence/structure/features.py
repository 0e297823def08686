r"""Features of entries: ones, face vectors that stand for a tensor, and features of smaller faces.

An orbit with classes of sizes $h_1, \dots, h_r$ is a list of disjoint node sets. As a tensor with
one orbit it is written so: the classes of one node make a directed face, and every larger class
makes a set together with all nodes before it. So `i j` is `i, (i j)`, and the second orbit of `i {j
k}` is `i {i j k}`: the node, and the set that it makes with the other two. Some of these sets are
oriented, such that odd classes lie in an odd number of them: `<i j>` is itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import pairwise

import torch
from torch import Tensor

from incidence.algebra.orbit import Orbit, placements
from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.structure.arguments import assert_structure
from incidence.structure.arrange import arranged, orientations
from incidence.structure.data import entry_ptr_of
from incidence.structure.ragged import no_entries
from incidence.structure.structure import Structure

__all__ = ["carry", "face_patterns", "from_faces", "ones", "to_faces"]


def ones(
    structure: Structure, text: str | Pattern, channels: int = 1, dtype: torch.dtype | None = None
) -> Tensor:
    """Return a feature 1 for every entry of a tensor, for data without features.

    Returns:
        A tensor of shape [entries, channels].

    Raises:
        IncidenceError: The tensor has oriented faces, where 1 means something else in each
            orientation.
    """
    if not isinstance(channels, int) or channels < 1:
        raise IncidenceError(f"channels is a number of at least 1; got {channels!r}.")
    pattern = structure.resolve(text)
    if pattern.is_oriented:
        unoriented = pattern.unoriented()
        raise IncidenceError(
            f"the value 1 of `{pattern}` depends on the orientation of its entry, so presence is no"
            f" feature there. Give ones to `{unoriented}`, which s.with_index({{'{unoriented}':"
            f" s['{pattern.name or pattern}']}}) adds."
        )
    return torch.ones(structure.num_entries(text), channels, dtype=dtype, device=structure.device)


def face_patterns(text: str | Pattern) -> tuple[Pattern, ...]:
    """Return the face vectors that stand for a tensor, one for each orbit.

    Face vectors with the same pattern are named `orbit1`, `orbit2`, ...

    Raises:
        IncidenceError: The tensor has open faces: each of their sizes is an orbit of its own.

    Example:
        >>> [str(p) for p in face_patterns("i j k")]
        ['i', 'orbit1=(i j)', 'orbit2=(i j)', 'orbit3=(i j)', '(i j k)']
        >>> [str(p) for p in face_patterns("{i j} {k l}")]
        ['{i j}', '(i j k)', '{i j} {i j k l}']
    """
    pattern = Pattern(text)
    if pattern.is_open:
        raise IncidenceError(
            f"`{pattern}` has open faces: every combination of sizes is an orbit of its own. Give"
            " the faces a size."
        )
    patterns = [Pattern(_write(orbit)) for orbit in pattern.orbits]
    counts = Counter(patterns)
    return tuple(p if counts[p] == 1 else Pattern(f"orbit{k}={p}") for k, p in enumerate(patterns))


def _write(orbit: Orbit) -> str:
    """Return a text whose only orbit is isomorphic to a given one."""
    letters = (
        f"{letter}{digit}" for digit in ("", *range(1, 10)) for letter in "ijklmnopqrstuvwxyz"
    )
    inside = [f"{next(letters)}:{c.sort}" for c in orbit.classes if c.size == 1]
    faces = [f"({' '.join(inside)})"] if inside else []
    large = [c for c in orbit.classes if c.size != 1]
    odd = [*(c.is_odd for c in large), False]
    # A class lies in its own set and in all later ones.
    for c, (is_odd, is_later_odd) in zip(large, pairwise(odd), strict=True):
        inside += [f"{next(letters)}:{c.sort}" for _ in range(c.size or 0)]
        opening, closing = "<>" if is_odd != is_later_odd else "{}"
        faces.append(opening + " ".join(inside) + closing)
    return " ".join(faces)


def to_faces(
    structure: Structure, text: str | Pattern, x: Tensor | None = None
) -> tuple[Structure, dict[str, Tensor]]:
    """Split a tensor into the face vectors that stand for it.

    Args:
        structure: The structure.
        text: The tensor.
        x: Its features, shape [entries, channels].

    Returns:
        A structure with the same nodes and the face vectors, entries in their former order; and the
        features of each, by its text or name (none without x). A layer on them has the patterns of
        this structure, as in `Linear("i, orbit1=(i j), orbit2=(i j) -> i", 1, 1)`.

    Example:
        >>> s = Structure(2, {"i j": torch.tensor([[0, 0, 1], [0, 1, 1]])})
        >>> faces, parts = to_faces(s, "i j", torch.tensor([[5.0], [6.0], [7.0]]))
        >>> {key: part[:, 0].tolist() for key, part in parts.items()}
        {'i': [5.0, 7.0], '(i j)': [6.0]}
    """
    assert_structure(structure, "the first argument", "to_faces(structure, text, x)")
    pattern = structure.resolve(text)
    index: dict[Pattern, tuple[Tensor, ...]] = {}
    entry_ptr, values = {}, {}
    # The face vectors of a batch are sorted by structure, as the entries are.
    home = structure.batch(pattern)
    signs = orientations(structure, pattern)
    for new, rows, nodes in _parts(structure, pattern):
        if new.faces:
            index[new] = (nodes,)
            entry_ptr[new] = entry_ptr_of(home[rows], structure.num_structures)
        if x is not None:
            _assert_features(x, structure.num_entries(pattern), str(pattern))
            values[new.name or str(new)] = _signed(x[rows], signs[rows], pattern)
    return structure._with(index, entry_ptr), values


def from_faces(structure: Structure, text: str | Pattern, values: Mapping[str, Tensor]) -> Tensor:
    """Join the features of face vectors to those of their tensor: the inverse of `to_faces`.

    Args:
        structure: The structure that has the tensor.
        text: The tensor.
        values: The features of every face vector, as `to_faces` returns them.

    Raises:
        IncidenceError: Face vectors are missing or unknown, or their features do not fit together.

    Example:
        >>> s = Structure(2, {"i j": torch.tensor([[0, 0, 1], [0, 1, 1]])})
        >>> values = {"i": torch.tensor([[5.0], [7.0]]), "(i j)": torch.tensor([[6.0]])}
        >>> from_faces(s, "i j", values)[:, 0].tolist()
        [5.0, 6.0, 7.0]
    """
    assert_structure(structure, "the first argument", "from_faces(structure, text, values)")
    pattern = structure.resolve(text)
    _assert_keys(pattern, values)
    rows = {new.name or str(new): where for new, where, _ in _parts(structure, pattern)}
    for key, where in rows.items():
        _assert_features(values[key], len(where), key)
    first, *others = rows
    x = values[first]
    for key in others:
        y = values[key]
        if (y.shape[1:], y.dtype, y.device) != (x.shape[1:], x.dtype, x.device):
            one, other = (f"{list(v.shape)}, {v.dtype} on {v.device}" for v in (x, y))
            raise IncidenceError(
                "face vectors of one tensor have the same channels and type; the features of"
                f" {first!r} are {one}, those of {key!r} are {other}."
            )
    # The rows of all face vectors together are a permutation of the entries.
    order = torch.cat(list(rows.values())).argsort()  # (entries,)
    joined = torch.cat([values[key] for key in rows])[order]  # (entries, channels)
    return _signed(joined, orientations(structure, pattern), pattern)


def _signed(x: Tensor, signs: Tensor, pattern: Pattern) -> Tensor:
    """Turn features from the reference orientation to the standard one, or back."""
    if not pattern.is_oriented:
        return x
    return x * signs.to(x.dtype).view(-1, *[1] * (x.ndim - 1))  # (entries, 1, .., 1)


def _assert_keys(pattern: Pattern, values: object) -> None:
    keys = [p.name or str(p) for p in face_patterns(pattern.unnamed())]
    made = f"`{pattern}` is made of the face vectors {', '.join(map(repr, keys))}"
    if not isinstance(values, Mapping):
        raise IncidenceError(
            f"{made}: give a dict with their features; got {type(values).__name__}."
        )
    missing = [key for key in keys if key not in values]
    if missing:
        raise IncidenceError(f"{made}; there are no values for {missing[0]!r}.")
    unknown = [key for key in values if key not in keys]
    if unknown:
        raise IncidenceError(f"{made}; {unknown[0]!r} is none of them.")


def _assert_features(x: Tensor, rows: int, key: str, least: int = 2) -> None:
    if not isinstance(x, Tensor) or x.ndim < 1 or x.shape[0] != rows:
        came = list(x.shape) if isinstance(x, Tensor) else type(x).__name__
        raise IncidenceError(
            f"the features of {key!r} must have {rows} rows, one for each entry; got {came}."
        )
    if x.ndim < least:
        raise IncidenceError(
            f"the features of {key!r} must have shape [entries, channels]; got {list(x.shape)}: use"
            " x[:, None]."
        )


def _parts(structure: Structure, pattern: Pattern) -> Iterator[tuple[Pattern, Tensor, Tensor]]:
    """Yield for every orbit its face vector and its entries.

    These are the rows of the entries, ascending, and their nodes, shape (letters, entries).
    """
    known = {part.bucket.orbit: part.bucket for part in arranged(structure, pattern)}
    new_patterns = face_patterns(pattern.unnamed())
    for number, (orbit, new) in enumerate(zip(pattern.orbits, new_patterns, strict=True)):
        if number not in known:
            yield new, no_entries(1, structure.device)[0], no_entries(orbit.size, structure.device)
            continue
        bucket = known[number]
        rows, order = bucket.rows.sort()
        # Single nodes come first in a face vector.
        places = sorted(range(orbit.size), key=lambda p: bucket.sizes[bucket.labels[p]] != 1)
        shifts = [structure._node_offsets[orbit.classes[bucket.labels[p]].sort] for p in places]
        offsets = torch.tensor(shifts, dtype=torch.long, device=rows.device)
        nodes = bucket.nodes[order][:, places] - offsets  # (entries, letters)
        yield new, rows, nodes.T.contiguous()  # (letters, entries), as an index has it


def carry(structure: Structure, source: str, target: str, x: Tensor) -> Tensor:
    """Give the entries of a tensor the features of the smaller faces in them.

    Common letters say which face it is: `carry(s, "i", "(i j)", x)` gives every directed edge the
    features of its first node, and `"j"` those of its second. If the letters can be placed in
    several ways, as in `{i j}`, the features of all different faces are added. An absent face
    counts 0.

    Args:
        structure: The structure.
        source: The small faces; all their letters stand in the target.
        target: The larger tensor.
        x: The features of the small faces, shape [entries, channels].

    Example:
        >>> s = Structure(3, {"{i j}": torch.tensor([[0, 1], [1, 2]])})
        >>> carry(s, "i", "{i j}", torch.tensor([[1.0], [10.0], [100.0]]))[:, 0].tolist()
        [11.0, 110.0]
    """
    small, large = Pattern(source), Pattern(target)
    missing = [name for name, sort in small.sorts.items() if large.sorts.get(name) != sort]
    if missing:
        raise IncidenceError(
            f"`{source}` is carried on `{target}` by common letters, but `{missing[0]}` is not in"
            f" `{target}`."
        )
    if small.is_open or large.is_open:
        raise IncidenceError(
            f"`{source}` on `{target}`: open faces have no letters to carry by. Use a layer between"
            " them."
        )
    if small.is_oriented or large.is_oriented:
        raise IncidenceError(
            f"`{source}` on `{target}`: values of oriented faces have signs, and are not carried."
            " Use a layer between them."
        )
    _assert_features(x, structure.num_entries(small), source, least=1)
    y = x.new_zeros(structure.num_entries(large), *x.shape[1:])
    offsets = [structure._node_offsets[sort] for sort in small.sorts.values()]  # by letter
    for bucket in (part.bucket for part in arranged(structure, large)):
        for places in _different_faces(small, large, bucket.orbit):
            # (entries,) each
            nodes = [bucket.nodes[:, p] - shift for p, shift in zip(places, offsets, strict=True)]
            if nodes:
                # (entries,): -1 where the face is absent
                row = structure.locate(small, torch.stack(nodes))
            else:  # the value of the whole structure
                row = structure.batch(large)[bucket.rows]
            # Absent faces count 0.
            is_present = row >= 0
            y.index_add_(0, bucket.rows[is_present], x[row[is_present]])
    return y


def _different_faces(small: Pattern, large: Pattern, orbit: int) -> list[tuple[int, ...]]:
    """Return the different small faces in an entry of an orbit.

    Returns:
        For each of them, the places of its letters among the nodes of the entry.
    """
    places: dict[object, tuple[int, ...]] = {}
    for placed in placements(large, large.orbits[orbit]):
        place = dict(zip(large.letters, placed, strict=True))
        entry = []
        for face in small.faces:
            nodes = [place[x.name] for x in face.letters]
            entry.append(tuple(nodes if face.kind.is_ordered else sorted(nodes)))
        places.setdefault(tuple(entry), tuple(place[name] for name in small.letters))
    return list(places.values())
