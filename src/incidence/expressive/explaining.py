"""What was decided, in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from incidence.errors import IncidenceError
from incidence.expressive.refine import classes_of, num_colours
from incidence.nn.tensors import key_of
from incidence.structure.data import support_of

if TYPE_CHECKING:
    from incidence.expressive.expressivity import Expressivity

__all__ = ["explained"]

_MOST_ROUNDS = 12
_ANSWERS = {True: "yes", False: "no", None: "not tried, as it has too many entries"}


def explained(e: Expressivity, one: int | None, other: int | None) -> str:
    """Return what was decided, with a witness or larger architectures for a pair.

    Args:
        e: The result.
        one: A structure; None to choose a pair that is told apart, and one that is not.
        other: Another one.

    Raises:
        IncidenceError: Only one structure is given, or both are the same.
    """
    if (one is None) != (other is None) or (one is not None and one == other):
        raise IncidenceError(
            f"explain takes two different structures, or none; got {one} and {other}."
        )
    pairs = list(_pairs(e)) if one is None or other is None else [(one, other)]
    lines = [*_head(e)]
    for pair in pairs:
        lines += ["", *_pair(e, *pair)]
    return "\n".join(lines)


def _head(e: Expressivity) -> Iterator[str]:
    yield f"{e}."
    repeated = e.architecture.is_repeated
    kind = "with any number of these layers" if repeated else "with these layers"
    yield f"The networks: {kind}, any widths, weights, and functions of single entries."
    if not e.is_exact:
        yield (
            "This is an upper bound: equal classes are equal for all networks. Different classes"
            " may be, too."
        )
    unread = _unread(e)
    if unread:
        yield (
            f"Not read, though the structures have it: {', '.join(unread)}. Add it to both sides of"
            " the map if the networks know it."
        )
    states = e.refinement.states[: _MOST_ROUNDS + 1]  # with the start
    layers = [0, *(one.is_layer for one in e.refinement.rounds)]
    rows = [("layer", "colours", "classes")]
    for number, state in enumerate(states):
        classes = len(set(classes_of(e.structure, list(state.items())).tolist()))
        rows.append((f"{sum(layers[: number + 1])}", f"{num_colours(state):,}", f"{classes:,}"))
    for row in rows:
        yield "  " + "  ".join(text.rjust(8) for text in row)
    if len(e.refinement.states) > len(states):
        yield "  ..."


def _unread(e: Expressivity) -> list[str]:
    """Return the tensors of the structures that no layer reads or writes."""
    # what a layer writes, it writes to the entries that are present
    sides = [p for reader in e.architecture.readers for p in (*reader.inputs, *reader.outputs)]
    known = {support_of(e.structure, p) for p in sides if p.faces}
    return [f"`{key_of(p)}`" for p in e.structure.patterns if p not in known]


def _pairs(e: Expressivity) -> Iterator[tuple[int, int]]:
    """Yield a pair that is told apart, and one that is not, where there are such pairs."""
    # from structure 0
    different = next((k for k, own in enumerate(e.classes) if own != e.classes[0]), None)
    if different is not None:
        yield 0, different
    if e.groups:
        first, second, *_ = e.groups[0]
        yield first, second


def _pair(e: Expressivity, one: int, other: int) -> Iterator[str]:
    witness = e.witness(one, other)
    if witness is None:
        yield from _equal(e, one, other)
        return
    tensor = f"`{key_of(witness.tensor)}`" if witness.tensor.faces else "the whole structure"
    layers = f"{witness.num_layers} layer{'s' * (witness.num_layers != 1)}"
    yield f"Structures {one} and {other} are told apart after {layers}."
    first, second = witness.counts
    yield f"Of colour A there are {first} entries of {tensor} in {one}, and {second} in {other}:"
    yield from (f"  {line}" for line in witness.lines)


def _equal(e: Expressivity, one: int, other: int) -> Iterator[str]:
    yield f"Structures {one} and {other} are not told apart, whatever the weights."
    larger = e.larger(one, other)
    if not larger:
        return
    yield "Layers that read more, and whether they tell the two apart:"
    yield from (f"  {name}: {_ANSWERS[answer]}" for name, answer in larger.items())
    if not any(larger.values()):
        yield "The two may be one structure whose nodes are numbered in two ways."
