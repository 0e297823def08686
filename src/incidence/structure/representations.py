r"""Equivalent representations: a tensor and the face vectors that are its orbits; small faces carried on large ones.

An orbit with classes of sizes $h_1, \dots, h_r$ is a list of disjoint node sets. Written as a tensor with one orbit: the classes of one
node make a directed face, and every larger class a set together with all nodes before it. So `i j` is `i, (i j)`, and the second
orbit of `i {j k}` is `i {i j k}`: the node, and the set that it makes with the other two. Some of these sets are oriented, such that odd
classes lie in an odd number of them: `<i j>` is itself.
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
from incidence.structure.data import arranged, entry_ptr_of, orientations
from incidence.structure.ragged import no_entries
from incidence.structure.structure import Structure
from incidence.structure.validate import assert_structure

__all__ = ["carry", "face_patterns", "from_faces", "to_faces"]


def face_patterns(text: str | Pattern) -> tuple[Pattern, ...]:
    """The face vectors that a tensor is made of, one for each orbit; those that look alike have names.

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
            f"`{pattern}` has open faces: every combination of sizes is an orbit of its own. Give the faces a size."
        )
    found = [Pattern(_write(orbit)) for orbit in pattern.orbits]
    often = Counter(found)
    return tuple(p if often[p] == 1 else Pattern(f"orbit{k}={p}") for k, p in enumerate(found))


def _write(orbit: Orbit) -> str:
    """A tensor whose only orbit is isomorphic to a given one."""
    letters = (
        f"{letter}{digit}" for digit in ("", *range(1, 10)) for letter in "ijklmnopqrstuvwxyz"
    )
    inside = [f"{next(letters)}:{c.sort}" for c in orbit.classes if c.size == 1]
    faces = [f"({' '.join(inside)})"] if inside else []
    large = [c for c in orbit.classes if c.size != 1]
    odd = [*(c.is_odd for c in large), False]
    for c, (is_odd, is_later_odd) in zip(
        large, pairwise(odd), strict=True
    ):  # a class lies in its own set and in all later ones
        inside += [f"{next(letters)}:{c.sort}" for _ in range(c.size or 0)]
        faces.append(
            f"<{' '.join(inside)}>" if is_odd != is_later_odd else f"{{{' '.join(inside)}}}"
        )
    return " ".join(faces)


def to_faces(
    structure: Structure, text: str | Pattern, x: Tensor | None = None
) -> tuple[Structure, dict[str, Tensor]]:
    """A tensor as the face vectors that it is made of.

    Args:
        structure: The structure.
        text: The tensor.
        x: Its features, shape [entries, channels].

    Returns:
        A structure over the same nodes with the face vectors, entries in their former order; and the features of each, by its text or
        name (none without x). Face vectors that look alike are named `orbit1`, `orbit2`, ...; a layer on them is written with the
        patterns of the structure, as in `Linear("i, orbit1=(i j), orbit2=(i j) -> i", 1, 1)`.

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
    """The features of a tensor from those of its face vectors: undoes `to_faces`.

    Args:
        structure: The structure that has the tensor.
        text: The tensor.
        values: The features of every face vector, as `to_faces` gives them.

    Raises:
        IncidenceError: Face vectors are missing or unknown, or their features do not fit together.

    Example:
        >>> s = Structure(2, {"i j": torch.tensor([[0, 0, 1], [0, 1, 1]])})
        >>> from_faces(s, "i j", {"i": torch.tensor([[5.0], [7.0]]), "(i j)": torch.tensor([[6.0]])})[:, 0].tolist()
        [5.0, 6.0, 7.0]
    """
    assert_structure(structure, "the first argument", "from_faces(structure, text, values)")
    pattern = structure.resolve(text)
    _assert_keys(pattern, values)
    rows = {new.name or str(new): where for new, where, _ in _parts(structure, pattern)}
    for key, where in rows.items():
        _assert_features(values[key], len(where), key)
    (first, x), *others = parts = [(key, values[key]) for key in rows]
    for key, y in others:
        if y.shape[1:] != x.shape[1:] or y.dtype != x.dtype or y.device != x.device:
            seen = [f"{list(v.shape)}, {v.dtype} on {v.device}" for v in (x, y)]
            raise IncidenceError(
                f"face vectors of one tensor have the same channels and type; the features of {first!r} are {seen[0]}, "
                f"those of {key!r} are {seen[1]}."
            )
    return _signed(
        torch.cat([y for _, y in parts])[torch.cat(list(rows.values())).argsort()],
        orientations(structure, pattern),
        pattern,
    )


def _signed(x: Tensor, signs: Tensor, pattern: Pattern) -> Tensor:
    """Features in the standard orientation from those in the reference orientation, or back."""
    return x * signs.to(x.dtype).view(-1, *[1] * (x.ndim - 1)) if pattern.is_oriented else x


def _assert_keys(pattern: Pattern, values: object) -> None:
    keys = [p.name or str(p) for p in face_patterns(pattern.unnamed())]
    made = f"`{pattern}` is made of the face vectors {', '.join(map(repr, keys))}"
    if not isinstance(values, Mapping):
        raise IncidenceError(
            f"{made}: give a dict with their features; got {type(values).__name__}."
        )
    for key in keys:
        if key not in values:
            raise IncidenceError(f"{made}; there are no values for {key!r}.")
    for key in values:
        if key not in keys:
            raise IncidenceError(f"{made}; {key!r} is none of them.")


def _assert_features(x: Tensor, rows: int, key: str, least: int = 2) -> None:
    if not isinstance(x, Tensor) or x.ndim < 1 or x.shape[0] != rows:
        came = list(x.shape) if isinstance(x, Tensor) else type(x).__name__
        raise IncidenceError(
            f"the features of {key!r} must have {rows} rows, one for each entry; got {came}."
        )

    if x.ndim < least:
        raise IncidenceError(
            f"the features of {key!r} must have shape [entries, channels]; got {list(x.shape)}: use x[:, None]."
        )


def _parts(structure: Structure, pattern: Pattern) -> Iterator[tuple[Pattern, Tensor, Tensor]]:
    """For every orbit its face vector, the rows of its entries in ascending order, and their nodes by letter."""
    known = {found.bucket.orbit: found.bucket for found in arranged(structure, pattern)}
    for number, (orbit, new) in enumerate(
        zip(pattern.orbits, face_patterns(pattern.unnamed()), strict=True)
    ):
        classes = sorted(
            range(len(orbit.classes)), key=lambda c: orbit.classes[c].size != 1
        )  # single nodes come first
        if number not in known:
            yield new, no_entries(1, structure.device)[0], no_entries(orbit.size, structure.device)
            continue
        bucket = known[number]
        rows, order = bucket.rows.sort()
        starts = [sum(bucket.sizes[:c]) for c in range(len(bucket.sizes))]
        columns = [
            (starts[c] + k, orbit.classes[c].sort) for c in classes for k in range(bucket.sizes[c])
        ]
        offsets = torch.tensor(
            [structure._node_offsets[sort] for _, sort in columns],
            dtype=torch.long,
            device=rows.device,
        )
        yield new, rows, (bucket.nodes[order][:, [c for c, _ in columns]] - offsets).T.contiguous()


def carry(structure: Structure, source: str, target: str, x: Tensor) -> Tensor:
    """Carries the features of small faces on the entries of a larger tensor, by the letters that both have.

    `carry(s, "i", "(i j)", x)` gives every directed edge the features of its first node; `"j"` those of its second. Where the letters
    can be placed in several ways, as in `{i j}`, the features of all different small faces are added. A small face that is absent
    counts 0.

    Args:
        structure: The structure.
        source: The small faces; all their letters stand in the target.
        target: The tensor that carries them.
        x: The features of the small faces, shape [entries, channels].

    Example:
        >>> s = Structure(3, {"{i j}": torch.tensor([[0, 1], [1, 2]])})
        >>> carry(s, "i", "{i j}", torch.tensor([[1.0], [10.0], [100.0]]))[:, 0].tolist()
        [11.0, 110.0]
    """
    small, large = Pattern(source), Pattern(target)
    missing = [
        name
        for name in small.letters
        if name not in large.letters or small.sorts[name] != large.sorts[name]
    ]
    if missing:
        raise IncidenceError(
            f"`{source}` is carried on `{target}` by common letters, but `{missing[0]}` is not in `{target}`."
        )
    if small.is_open or large.is_open:
        raise IncidenceError(
            f"`{source}` on `{target}`: open faces have no letters to carry by. Use a layer between them."
        )
    if small.is_oriented or large.is_oriented:
        raise IncidenceError(
            f"`{source}` on `{target}`: values of oriented faces have signs, and are not carried. Use a layer between them."
        )
    _assert_features(x, structure.num_entries(small), source, least=1)
    y = x.new_zeros(structure.num_entries(large), *x.shape[1:])
    for bucket in (found.bucket for found in arranged(structure, large)):
        rows = bucket.rows
        for columns in _different(small, large, bucket.orbit):
            offsets = [structure._node_offsets[small.sorts[name]] for name in small.letters]
            nodes = [
                bucket.nodes[:, c] - offset for c, offset in zip(columns, offsets, strict=True)
            ]
            at = (
                structure.locate(small, torch.stack(nodes))
                if nodes
                else structure.batch(large)[rows]
            )
            y.index_add_(0, rows[at >= 0], x[at[at >= 0]])
    return y


def _different(small: Pattern, large: Pattern, orbit: int) -> list[tuple[int, ...]]:
    """The places of the small letters in the nodes of an entry, one for each different small face."""
    found: dict[object, tuple[int, ...]] = {}
    for placed in placements(large, large.orbits[orbit]):
        at = dict(zip(large.letters, placed, strict=True))
        faces = [(face.kind.is_ordered, [at[x.name] for x in face.letters]) for face in small.faces]
        entry = tuple(tuple(nodes if is_ordered else sorted(nodes)) for is_ordered, nodes in faces)
        found.setdefault(entry, tuple(at[name] for name in small.letters))
    return list(found.values())
