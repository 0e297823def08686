"""Which tensor of a structure the text of a product reads (docs/math.md section 17)."""

from __future__ import annotations

from incidence.algebra.pattern import Pattern
from incidence.algebra.products import fits
from incidence.errors import IncidenceError
from incidence.structure.data import StructureData

__all__ = ["support_of"]


def support_of(structure: StructureData, pattern: Pattern) -> Pattern:
    """The tensor that a pattern of a product reads, as the structure spells it.

    By name, or by meaning; else the only one, of that name or without a name, whose faces have the same kinds and sizes and whose
    equalities all hold in the text: `i i` reads the diagonal of `i j`.

    Raises:
        IncidenceError: There is none, or there are several.

    Example:
        >>> from incidence.structure import Structure
        >>> support_of(Structure(2, {"i j": [[0, 1], [1, 1]]}), Pattern("i i"))
        Pattern('i j')
    """
    if pattern.name is None and (pattern in structure.patterns or structure._is_implicit(pattern)):
        return structure._as_spelt(structure.resolve(pattern))
    known = [stored for stored in structure.patterns if stored.name == pattern.name]
    found = [stored for stored in known if fits(pattern, stored)]
    if pattern.name is not None and not known:
        raise IncidenceError(structure._unknown_name(pattern.name))
    if not found and pattern.name is not None:
        raise IncidenceError(
            f"`{pattern.name}` is `{known[0].unnamed()}` here, which `{pattern.unnamed()}` cannot read: write its faces."
        )
    if not found:
        raise IncidenceError(structure._missing(pattern))
    if len(found) > 1:
        these = " or ".join(f"`{stored}`" for stored in found)
        raise IncidenceError(
            f"`{pattern}` may read {these}: give one of them a name, as in `name={pattern}`, and write the name."
        )
    return found[0]
