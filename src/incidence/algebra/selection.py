"""Selecting some operations of a map: by words, by numbers or formulas that `explain` prints, or by
a function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Any, NoReturn

from incidence.algebra.describe import read
from incidence.algebra.maps import EquivariantMap, Operation, TensorOrbit
from incidence.errors import IncidenceError

__all__ = ["WORDS", "Choice", "Predicate", "carried", "predicate", "word_for"]

Predicate = Callable[[Operation], bool]
Choice = str | Predicate | Sequence[str | int | Operation] | None
"""Which operations to select: None for all; a word or a formula; a list of words, formulas, numbers
or operations; or a function that returns whether to take an operation.
"""


def word_for(operation: Operation) -> str:
    """Return the most specific word for an operation.

    - `global`: no node of the input entry is matched with one of the output entry;
    - `self`: both entries have the same nodes;
    - `boundary`: one entry lies in the other, as a node in an edge or an edge in a ring;
    - `adjacency`: the entries only meet. So do entries with open faces, which may have more nodes.

    Example:
        >>> [word_for(operation) for operation in EquivariantMap("{i j} -> {i j}").operations]
        ['global', 'adjacency', 'self']
    """
    matched = sum(map(sum, operation.overlap))
    if not matched:
        return "global"
    whole = [_num_nodes(place) == matched for place in (operation.source, operation.target)]
    if all(whole):
        return "self"
    return "boundary" if any(whole) else "adjacency"


def _num_nodes(place: TensorOrbit) -> int | None:
    """Return the number of nodes of an entry, or None if it has open classes."""
    orbit = place.orbit
    return None if orbit.is_open else orbit.size


WORDS: dict[str, Predicate] = {
    "all": lambda operation: True,
    "global": lambda operation: word_for(operation) == "global",
    "local": lambda operation: word_for(operation) != "global",
    "boundary": lambda operation: word_for(operation) in ("boundary", "self"),
    "adjacency": lambda operation: word_for(operation) == "adjacency",
    "self": lambda operation: word_for(operation) == "self",
}
"""The operations that each word selects. `boundary` includes `self`, as an entry lies in itself."""


def predicate(choice: Choice, m: EquivariantMap) -> Predicate:
    """Return the function that says whether an operation of a map is selected.

    Args:
        choice: What to select; of a list, everything that one of its members selects.
        m: The map, to which numbers and formulas refer.

    Raises:
        IncidenceError: A number or a text matches no operation.

    Example:
        >>> m = EquivariantMap("i, {i j} -> i")
        >>> [str(o) for o in m.operations if predicate("boundary", m)(o)]
        ['y[i] = x[i]: match i', 'y[i] = sum_j x[{i j}]: sum over j; match i']
        >>> [str(o) for o in m.operations if predicate([1, "global"], m)(o)][0]
        'y[a] = sum_i x[i]: sum over all i; copy along a'
    """
    if choice is None or callable(choice):
        return choice or WORDS["all"]
    members = _members(choice)
    words = [WORDS[member] for member in members if _is_word(member)]
    others = [member for member in members if not _is_word(member)]
    selected = {operation for member in others for operation in _matching(member, m)}
    return lambda operation: operation in selected or any(word(operation) for word in words)


def _members(choice: object) -> list[Any]:
    return list(choice) if isinstance(choice, (list, tuple)) else [choice]


def _is_word(member: object) -> bool:
    return isinstance(member, str) and member in WORDS


def _matching(member: object, m: EquivariantMap) -> list[Operation]:
    """Return the operations for a number or a formula; several tensors may share a formula."""
    if isinstance(member, Operation) and member in m.operations:
        return [member]
    if isinstance(member, int) and not isinstance(member, bool) and 0 <= member < m.dimension:
        return [m.operations[member]]
    # Spaces do not matter in a formula.
    same = []
    if isinstance(member, str):
        formula = _without_spaces(member)
        same = [o for o in m.operations if _without_spaces(read(o).formula) == formula]
    return same or _refuse(member, m)


def _without_spaces(text: str) -> str:
    return "".join(text.split())


def _refuse(member: object, m: EquivariantMap) -> NoReturn:
    texts = [*WORDS, *(read(o).formula for o in m.operations[:100])]
    # Formulas of large maps are too many to compare with.
    close = get_close_matches(member, texts, n=1) if isinstance(member, str) else []
    guess = f" Did you mean {close[0]!r}?" if close else ""
    raise IncidenceError(
        f"operations= takes {', '.join(WORDS)}, numbers from 0 to {m.dimension - 1} or formulas"
        f" that `explain` prints for `{m}`, a list of them, or a function that says which"
        f" operations to keep; got {member!r}.{guess}"
    )


def carried(choice: Choice, m: EquivariantMap, other: EquivariantMap) -> Predicate:
    """Return the function that applies a choice for one map to the operations of another map.

    Words and functions select by the operation alone. Numbers and formulas refer to tensors of `m`;
    between tensors that `m` lacks, all operations are selected.
    """
    is_selected = predicate(choice, m)
    if choice is None or callable(choice) or all(map(_is_word, _members(choice))):
        return is_selected

    def is_selected_too(operation: Operation) -> bool:
        source = other.inputs[operation.source.tensor]
        target = other.outputs[operation.target.tensor]
        if source not in m.inputs or target not in m.outputs:
            return True
        # The same operation between the same tensors of `m`, which may stand elsewhere there.
        same = Operation(
            operation.source._replace(tensor=m.inputs.index(source)),
            operation.target._replace(tensor=m.outputs.index(target)),
            operation.overlap,
        )
        return is_selected(same)

    return is_selected_too
