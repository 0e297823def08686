"""All tuples of nodes."""

from __future__ import annotations

import torch
from torch import Tensor

from incidence.algebra.grammar import DEFAULT_SORT
from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.geometry.lifting.adjacency import spread
from incidence.geometry.lifting.attach import joined, letters, named
from incidence.geometry.lifting.bounds import LIMIT, Bound, at_least
from incidence.structure.ragged import ranges
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
    text = named(name, " ".join(letters(k, sort)))
    different, kind = torch.unique(sizes, return_inverse=True)
    tables = [_all(n, k).to(structure.device) for n in different.tolist()]
    starts = ranges(torch.tensor([table.shape[1] for table in tables]))[:-1].to(structure.device)
    home, place = spread(sizes**k)
    columns = torch.cat(tables, dim=1)[:, starts[kind[home]] + place] + structure.node_ptr(sort)[home]
    new = Structure._of(structure._node_ptr, {Pattern(text): (columns,)}, {Pattern(text): ranges(sizes**k)})
    return joined(structure, new)


def _all(num_nodes: int, k: int) -> Tensor:
    """The tuples of so many nodes in the preferred order, which is found once for all structures of that size."""
    numbers = torch.arange(num_nodes**k)
    columns = torch.stack([numbers // num_nodes ** (k - 1 - p) % max(num_nodes, 1) for p in range(k)])
    text = " ".join(letters(k))
    ordered, _ = Structure._of({"node": torch.tensor([0, num_nodes])}, {Pattern(text): (columns,)}, {}).canonical()
    return ordered.index(text)[0]
