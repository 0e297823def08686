"""Which tensor of a structure lists the faces that a pattern speaks of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from incidence.algebra.grammar import Face, TensorSyntax
from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.structure.data import StructureData

__all__ = ["lone", "sources"]


def lone(face: Face, name: str | None = None) -> Pattern:
    """The pattern that has this face alone."""
    return Pattern(TensorSyntax(name, (face,)))


def sources(
    structure: StructureData, pattern: Pattern, faces: Mapping[Any, str] | None
) -> list[Pattern]:
    """For every face of a pattern the tensor that lists such faces.

    Args:
        structure: The structure.
        pattern: The pattern.
        faces: What the caller says: from the number or the text of a face to a tensor.

    Raises:
        IncidenceError: No tensor has such faces, several have and none is chosen, or the chosen one has others.
    """
    chosen = _chosen(pattern, faces or {})
    return [
        _named(structure, pattern, d, chosen[d]) if d in chosen else _only(structure, pattern, d)
        for d in range(pattern.order)
    ]


def _meaning(face: Face) -> tuple[object, ...]:
    """What tells faces apart that are listed in different tensors; the letters of an open face only ask for a size.

    An oriented face is present where the set of its nodes is: so `{i j}` lists the faces `<i j>`, and the other way round.
    """
    sorts = [x.sort for x in face.letters]
    return (
        face.kind.is_ordered,
        face.kind.is_distinct,
        face.is_open,
        tuple(sorts[:1] if face.is_open else sorts if face.kind.is_ordered else sorted(sorts)),
    )


def _fits(pattern: Pattern, face: Face) -> bool:
    return pattern.order == 1 and _meaning(pattern.faces[0]) == _meaning(face)


def _tells(key: Pattern, face: Face) -> bool:
    """Whether the text of a face means this one: with or without orientation, as it is written."""
    return _fits(key, face) and key.is_oriented == face.kind.is_oriented


def _chosen(pattern: Pattern, faces: Mapping[Any, str]) -> dict[int, str]:
    if not isinstance(faces, Mapping):
        raise IncidenceError(
            f"faces maps faces of the pattern, by text or number, to tensors, as in {{'{{i ...}}': 'rank2'}}; got {faces!r}."
        )
    found = {}
    for key, tensor in faces.items():
        numbers = [
            d
            for d, face in enumerate(pattern.faces)
            if (d == key if isinstance(key, int) else _tells(Pattern(key), face))
        ]
        if not numbers:
            there = ", ".join(
                f"{number}: `{lone(face)}`" for number, face in enumerate(pattern.faces)
            )
            raise IncidenceError(f"faces: `{pattern}` has no face {key!r}; it has {there}.")
        found.update(dict.fromkeys(numbers, tensor))
    return found


def _named(structure: StructureData, pattern: Pattern, number: int, tensor: str) -> Pattern:
    found = structure.resolve(tensor)
    if not _fits(found, pattern.faces[number]):
        raise IncidenceError(
            f"faces: `{found}` does not list faces like `{lone(pattern.faces[number])}`, face {number} of `{pattern}`."
        )
    return found


def _only(structure: StructureData, pattern: Pattern, number: int) -> Pattern:
    """The tensor of exactly this face, or the only one that fits; without a name before those with one."""
    face = pattern.faces[number]
    wanted = lone(face)
    if wanted in structure.patterns or structure._is_implicit(wanted):
        return structure.resolve(wanted)
    fits = [p for p in structure.patterns if _fits(p, face)]
    fits = [p for p in fits if not p.name] or fits
    if not fits:
        known = ", ".join(f"`{p}`" for p in structure.patterns) or "none"
        raise IncidenceError(
            f"`{pattern}` needs the faces `{wanted}`, which are not here; there are: {known}. Add them with `with_index`."
        )
    if len(fits) > 1:
        these = " or ".join(f"`{p}`" for p in fits)
        key = fits[0].name or str(fits[0])
        raise IncidenceError(
            f"face {number} of `{pattern}` may be one of {these}: say which, as in faces={{{number}: '{key}'}}."
        )
    return fits[0]
