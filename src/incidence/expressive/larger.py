"""Larger architectures that may tell two structures apart where one does not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from incidence.algebra.maps import EquivariantMap
from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError, TooLargeError
from incidence.geometry import lifting
from incidence.structure import Structure

__all__ = ["LARGER", "Larger", "is_graph", "map_of"]

_MOST_PAIRS, _MOST_TRIPLES = 250_000, 250_000  # of nodes, in the two structures together


@dataclass(frozen=True)
class Larger:
    """A kind of networks that reads more.

    Attributes:
        about: What it has that others have not.
        lift: Adds a tensor to graphs.
        added: The tensor.
        products: Products that its layers add.
        max_overlap: How many matched nodes may lie in a face of any size.
    """

    about: str
    lift: Callable[[Structure], Structure]
    added: str
    products: tuple[str, ...] = ()
    max_overlap: int = 1

    @property
    def kind(self) -> str:
        """What it adds, whatever the size."""
        return self.about.partition(" ")[0]

    def text(self, tensors: Sequence[Pattern]) -> str:
        """Return the map of its layers: they have the tensors of another architecture, and edges.

        Without edges, tuples of nodes would know nothing of the graph that they are made for.
        """
        side = [str(p) for p in tensors if p.faces]
        side += [key for key in ("{i j}", self.added) if Pattern(key) not in tensors]
        return f"{', '.join(side)} -> {', '.join(side)}"

    def lifted(self, structure: Structure) -> Structure | None:
        """Return the structures with the tensor; None if it would be too large."""
        if Pattern(self.added) in structure.patterns:  # the data has it already
            return structure
        try:
            return self.lift(structure)
        except (TooLargeError, IncidenceError):  # not tried, and said so
            return None


def _rings(size: int) -> Larger:
    return Larger(
        f"rings of up to {size} nodes",
        lambda s: lifting.rings(s, max_length=size),
        "ring={i ...}",
        max_overlap=2,
    )


def _cliques(size: int, added: str) -> Larger:
    return Larger(f"cliques of {size} nodes", lambda s: lifting.cliques(s, max_size=size), added)


LARGER = (
    _cliques(3, "{i j k}"),
    _cliques(4, "{i j k l}"),
    *(_rings(size) for size in range(4, 9)),
    Larger(
        "products over all pairs (folklore 2-WL)",
        lambda s: lifting.tuples(s, 2, limit=_MOST_PAIRS),
        "i j",
        ("i j, j k -> i k",),
    ),
    Larger("all triples (3-WL)", lambda s: lifting.tuples(s, 3, limit=_MOST_TRIPLES), "i j k"),
)
"""Architectures that read more, in the order in which they are tried."""


def is_graph(structure: Structure) -> bool:
    """Return whether a structure lists edges, from which lifts make more."""
    return Pattern("{i j}") in structure.patterns and len(structure.counts) == 1


def map_of(larger: Larger, tensors: Sequence[Pattern]) -> EquivariantMap:
    """Return the map of the layers of a larger architecture."""
    return EquivariantMap(larger.text(tensors), larger.max_overlap)
