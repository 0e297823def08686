"""Choosing among the operations of a map: by words, by the numbers or formulas that `explain` prints, or by a function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Any, NoReturn

from incidence.algebra.maps import EquivariantMap, Operation
from incidence.algebra.reading import read
from incidence.errors import IncidenceError

__all__ = ["WORDS", "Choice", "Predicate", "carried", "predicate", "word_for"]

Predicate = Callable[[Operation], bool]
Choice = str | Predicate | Sequence[str | int | Operation] | None
"""Which operations: None for all; a word or a formula; a list of words, formulas, numbers or operations; or a function that says it."""


def _num_matched(operation: Operation) -> int:
    return sum(map(sum, operation.overlap))


def _is_whole(operation: Operation, side: str) -> bool:
    """Whether all nodes of an entry of one side are matched; with open faces, which may have more, they never are."""
    sizes = [c.size for c in getattr(operation, side).orbit.classes]
    return None not in sizes and sum(size or 0 for size in sizes) == _num_matched(operation)


WORDS: dict[str, Predicate] = {
    "all": lambda operation: True,
    "global": lambda operation: not _num_matched(operation),
    "local": lambda operation: _num_matched(operation) > 0,
    "boundary": lambda o: (
        _num_matched(o) > 0 and (_is_whole(o, "source") or _is_whole(o, "target"))
    ),
    "adjacency": lambda o: (
        _num_matched(o) > 0 and not _is_whole(o, "source") and not _is_whole(o, "target")
    ),
    "self": lambda o: _num_matched(o) > 0 and _is_whole(o, "source") and _is_whole(o, "target"),
}
"""What a word keeps: operations that pool over whole structures (`global`) or match some node (`local`); among the latter, those between
entries one of which lies in the other, as a node in an edge or an edge in a ring (`boundary`), those between entries that only meet
(`adjacency`), and those between entries on the same nodes (`self`)."""


def word_for(operation: Operation) -> str:
    """The word that tells most about an operation.

    Example:
        >>> [word_for(operation) for operation in EquivariantMap("{i j} -> {i j}").operations]
        ['global', 'adjacency', 'self']
    """
    return next(
        word for word in ("global", "self", "boundary", "adjacency") if WORDS[word](operation)
    )


def predicate(choice: Choice, m: EquivariantMap) -> Predicate:
    """Whether an operation of a map is chosen.

    Args:
        choice: What is chosen; in a list, what any of its members chooses.
        m: The map, to which numbers and formulas refer.

    Raises:
        IncidenceError: A number or a text names nothing.

    Example:
        >>> m = EquivariantMap("i, {i j} -> i")
        >>> [str(o) for o in m.operations if predicate("boundary", m)(o)]
        ['y[i] = x[i]: match i', 'y[i] = sum_j x[{i j}]: sum over j; match i']
        >>> [str(o) for o in m.operations if predicate([1, "global"], m)(o)][0]
        'y[a] = sum_i x[i]: sum over all i; copy along a'
    """
    if choice is None or callable(choice):
        return choice or WORDS["all"]
    listed = _listed(choice)
    words = [WORDS[what] for what in listed if _is_word(what)]
    named = {operation for what in listed if not _is_word(what) for operation in _named(what, m)}
    return lambda operation: operation in named or any(keeps(operation) for keeps in words)


def _listed(choice: object) -> list[Any]:
    return list(choice) if isinstance(choice, (list, tuple)) else [choice]


def _is_word(what: object) -> bool:
    return isinstance(what, str) and what in WORDS


def _named(what: object, m: EquivariantMap) -> list[Operation]:
    """The operations that a number or a formula means; two tensors may have one formula."""
    if isinstance(what, Operation) and what in m.operations:
        return [what]
    if isinstance(what, int) and not isinstance(what, bool) and 0 <= what < m.dimension:
        return [m.operations[what]]
    found = (
        [o for o in m.operations if "".join(read(o).formula.split()) == "".join(what.split())]
        if isinstance(what, str)
        else []
    )
    return found or _refuse(what, m)


def _refuse(what: object, m: EquivariantMap) -> NoReturn:
    texts = [*WORDS, *(read(o).formula for o in m.operations[:100])]
    close = get_close_matches(what, texts, n=1) if isinstance(what, str) else []
    guess = f" Did you mean {close[0]!r}?" if close else ""
    raise IncidenceError(
        f"operations= takes {', '.join(WORDS)}, numbers from 0 to {m.dimension - 1} or formulas that `explain` prints for `{m}`, a list of "
        f"them, or a function that says which operations to keep; got {what!r}.{guess}"
    )


def carried(choice: Choice, m: EquivariantMap, other: EquivariantMap) -> Predicate:
    """Whether an operation of another map is chosen by what refers to one: tensors that this does not know keep all their operations."""
    keeps = predicate(choice, m)
    is_by_kind = choice is None or callable(choice) or all(map(_is_word, _listed(choice)))

    def is_kept(operation: Operation) -> bool:
        source, target = (
            other.inputs[operation.source.tensor],
            other.outputs[operation.target.tensor],
        )
        if is_by_kind or source not in m.inputs or target not in m.outputs:
            return keeps(operation) if is_by_kind else True
        at = m.inputs.index(source), m.outputs.index(target)
        return keeps(
            Operation(
                operation.source._replace(tensor=at[0]),
                operation.target._replace(tensor=at[1]),
                operation.overlap,
            )
        )

    return is_kept
