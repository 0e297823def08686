"""`NeighbourLoader`: mini-batches of one large structure, the surroundings of some of its nodes at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.utils.data

from incidence.data.dataset import DataSet
from incidence.data.pyg import MASKS, graphs_of, is_pyg, unpacked
from incidence.errors import IncidenceError
from incidence.structure.edit import as_nodes
from incidence.structure.example import Example, SampledExample
from incidence.structure.sampling import as_sizes, prepare_samples

__all__ = ["NeighbourLoader"]


class NeighbourLoader(torch.utils.data.DataLoader[Any]):
    """Torch's loader over nodes of one example: a batch is the surroundings of some of them, the seeds, which stand first.

    Memory of a training step grows with the batch, not with the structure. With `sizes=[None] * net.reach` a network without global
    operations gives the seeds what it gives them on the whole; fewer neighbours make an estimate of it.

    Args:
        example: The one large example; a graph of PyG, or a `DataSet` that has one example.
        sizes: How many neighbours of each node to draw at every step; None or -1 for all of them. `num_neighbors`, as PyG calls it, is the
            same.
        batch_size: How many seeds a batch has.
        shuffle: Whether every epoch has an order of its own.
        nodes: The seeds: a mask or numbers; by sort, if there are several, of which it names one. All nodes, if not given.
        options: Others of torch's loader, such as `drop_last`, `generator` and `num_workers`.

    Raises:
        IncidenceError: There is not one example, or no such nodes.

    Example:
        >>> import torch
        >>> from incidence import Structure
        >>> ring = Structure(6, {"{i j}": [[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0]]})
        >>> loader = NeighbourLoader(Example(ring, {"i": torch.ones(6, 1)}, {"i": torch.arange(6)}), sizes=[None], batch_size=4)
        >>> [(batch.target["i"][batch.seeds].tolist(), batch.structure.num_nodes) for batch in loader]
        [([0, 1, 2, 3], 6), ([4, 5], 4)]
    """

    def __init__(
        self,
        example: Any,
        sizes: Sequence[int | None] | None = None,
        batch_size: int = 1,
        shuffle: bool = False,
        nodes: Any = None,
        *,
        num_neighbors: Sequence[int | None] | None = None,
        input_nodes: Any = None,
        **options: Any,
    ) -> None:
        if (sizes is None) == (num_neighbors is None):
            came = "neither" if sizes is None else "both"
            raise IncidenceError(
                f"a NeighbourLoader takes sizes, or num_neighbors, which is the same, as in sizes=[10, 10]; got {came}."
            )
        one = _one_example(example)
        steps = as_sizes(None, num_neighbors if sizes is None else sizes)
        counts = one.structure.counts
        nodes = input_nodes if nodes is None else nodes
        if nodes is None:
            nodes = {sort: torch.arange(n) for sort, n in counts.items()}
            nodes = nodes["node"] if set(counts) == {"node"} else nodes
        found = as_nodes(one.structure, nodes, "NeighbourLoader")
        if len(found) != 1:
            raise IncidenceError(
                f"the seeds of a loader are of one sort, as in nodes={{'user': mask}}; got {', '.join(found) or 'none'}."
            )
        [(sort, seeds)] = found.items()
        prepare_samples(one.structure)  # once, before processes share it
        made = _Surroundings(one, steps, sort if isinstance(nodes, Mapping) else None)
        super().__init__(seeds.tolist(), batch_size, shuffle, **{"collate_fn": made, **options})  # type: ignore[arg-type]


class _Surroundings:
    """Makes a batch of the numbers of its seeds."""

    def __init__(self, example: Example, sizes: list[int | None], sort: str | None) -> None:
        self.example, self.sizes, self.sort = example, sizes, sort

    def __call__(self, numbers: list[int]) -> SampledExample:
        return self.example.sample(
            numbers if self.sort is None else {self.sort: numbers}, sizes=self.sizes
        )


def _one_example(what: Any) -> Example:
    what = unpacked(what)
    items = (
        graphs_of(what, MASKS, stacklevel=4)
        if is_pyg(what)
        else what.examples
        if isinstance(what, DataSet)
        else what
    )
    items = (
        [items]
        if isinstance(items, Example)
        else list(items)
        if isinstance(items, (list, tuple))
        else []
    )
    if len(items) != 1 or not isinstance(items[0], Example) or items[0].num_structures != 1:
        came = type(what).__name__ if len(items) < 2 else f"{len(items)} examples"
        raise IncidenceError(
            f"a NeighbourLoader takes one example with one structure; got {came}. For many small ones use inc.data.DataLoader."
        )
    return items[0]
