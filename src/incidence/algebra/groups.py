r"""Which entries a softmax takes together: those with the same key (docs/math.md section 17)."""

from __future__ import annotations

from functools import lru_cache

from incidence.algebra.grammar import Face
from incidence.algebra.orbit import placements
from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError

__all__ = ["key_faces"]


def key_faces(text: str, over: str) -> tuple[Face, ...]:
    """What is left of the faces of a pattern without some letters: what entries that belong together have in common.

    Raises:
        IncidenceError: There is no letter to sum over, one is not in the pattern, a face is oriented or open, or some entry has two keys.

    Example:
        >>> [[letter.name for letter in face.letters] for face in key_faces("(i j)", "j")]
        [['i']]
    """
    if not isinstance(over, str):
        raise IncidenceError(
            f"over= is the letters to sum over as text, such as 'j' or 'i j'; got {over!r}."
        )
    return _key_faces(text, over)


@lru_cache(maxsize=256)
def _key_faces(text: str, over: str) -> tuple[Face, ...]:
    pattern = Pattern(text)
    letters = _letters_over(pattern, over)
    if pattern.is_open:
        raise IncidenceError(
            f"a softmax of `{text}`: members of an open face are no letters; make it a sort of its own, `v e:edge`."
        )
    if any(face.kind.is_oriented for face in pattern.faces):
        raise IncidenceError(
            f"a softmax of `{text}`: the exponential of values that change their sign means nothing. Make weights on `{{ }}` and multiply."
        )
    left = (
        face._replace(letters=tuple(x for x in face.letters if x.name not in letters))
        for face in pattern.faces
    )
    kept = tuple(face for face in left if face.letters)
    for orbit in pattern.orbits:
        keys = {
            _key(kept, dict(zip(pattern.letters, nodes, strict=True)))
            for nodes in placements(pattern, orbit)
        }
        if len(keys) > 1:
            raise IncidenceError(
                f"`{text}` over {over}: the entry `{orbit}` has {len(keys)} keys, as its letters can be laid on it in several ways. "
                f"Sum over all letters of an unordered face, or use ordered faces: `(i j)` or `i {{i j}}` over j."
            )
    return kept


def _letters_over(pattern: Pattern, over: str) -> list[str]:
    letters = over.split()
    known = ", ".join(pattern.letters) or "none"
    if not letters:
        raise IncidenceError(
            f"over= names the letters that a softmax sums over, as in over='j'; got none. `{pattern}` has: {known}."
        )
    for letter in letters:
        if letter not in pattern.letters:
            raise IncidenceError(
                f"over= names letters of the pattern; `{letter}` is not in `{pattern}`, which has: {known}."
            )
    return letters


def _key(faces: tuple[Face, ...], nodes: dict[str, int]) -> tuple[object, ...]:
    """What is left of an entry, told by the nodes of its letters."""
    found = ([nodes[letter.name] for letter in face.letters] for face in faces)
    return tuple(
        tuple(own if face.kind.is_ordered else sorted(own))
        for face, own in zip(faces, found, strict=True)
    )
