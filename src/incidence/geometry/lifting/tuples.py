"""All tuples of nodes."""

from __future__ import annotations

import torch

from incidence.algebra.grammar import DEFAULT_SORT
from incidence.errors import IncidenceError
from incidence.geometry.lifting.adjacency import spread
from incidence.geometry.lifting.attach import attach, letters, named
from incidence.geometry.lifting.bounds import LIMIT, Bound, at_least
from incidence.structure.structure import Structure

__all__ = ["tuples"]


def tuples(structure: Structure, k: int = 2, *, sort: str = DEFAULT_SORT, name: str | None = None, limit: int | None = LIMIT) -> Structure:
    r"""Adds all k-tuples of nodes, repeats allowed: `i j` for two, `i j k` for three; in a batch those of each structure.

    Args:
        structure: One structure or a batch.
        k: The number of nodes of a tuple.
        sort: The sort of the nodes.
        name: A name for the new tensor.
        limit: How many tuples may be made; None for any number.

    Raises:
        TooLargeError: There are more tuples than the limit.

    Example:
        >>> tuples(Structure(4), 3)
        Structure(num_nodes=4, 'i j k': 64 entries)
    """
    k = at_least("tuples", "k", k, 2)
    if not isinstance(structure, Structure):
        raise IncidenceError(f"tuples takes a Structure; got {type(structure).__name__}.")
    sizes = structure.node_ptr(sort).diff()
    Bound("tuples", limit, "Lower k").assert_room(sum(n**k for n in sizes.tolist()), f"tuples of {k} nodes")
    home, rest = spread(sizes**k)
    first, base = structure.node_ptr(sort)[home], sizes[home]
    columns = []
    for _ in range(k):
        columns.append(first + rest % base)
        rest = rest // base
    text = named(name, " ".join(letters(k, sort)))
    return attach(structure, {text: (torch.stack(columns[::-1]),)})
