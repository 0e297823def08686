"""Loaders for torch: `DataLoader` for many examples, `NeighbourLoader` for one large one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.utils.data

from incidence.data.dataset import DataSet
from incidence.data.pyg import MASKS, graphs_of, is_pyg, unpacked
from incidence.data.shards import ShardedExamples
from incidence.errors import IncidenceError
from incidence.structure.arguments import as_nodes
from incidence.structure.collate import collate, pack, uncollate
from incidence.structure.example import Example, SampledExample
from incidence.structure.sampling import as_sizes, prepare_samples
from incidence.structure.structure import Structure

__all__ = ["DataLoader", "NeighbourLoader"]


class DataLoader(torch.utils.data.DataLoader[Any]):
    """A loader of torch that collates examples, structures or graphs of PyG into batches.

    Everything is read and packed once, so that a batch, with the plans of the layers, is made of
    ranges of it. Examples of a prepared folder are read for each batch instead.

    Args:
        examples: A list of examples, structures or graphs of PyG; a data set of PyG; a part of them
            that torch's `random_split` drew; or a `DataSet`.
        batch_size: How many examples make a batch.
        shuffle: Whether every epoch has another order.
        options: Other options of torch's loader, such as `drop_last` and `generator`.

    Raises:
        IncidenceError: There is nothing, or examples have different tensors or features.

    Example:
        >>> import torch
        >>> s = Structure(2, {"{i j}": [[0], [1]]})
        >>> examples = [Example(s, {"i": torch.ones(2, 3)}, target=k) for k in range(5)]
        >>> [batch.target.tolist() for batch in DataLoader(examples, batch_size=2)]
        [[0, 1], [2, 3], [4]]
    """

    def __init__(
        self, examples: Any, batch_size: int = 1, shuffle: bool = False, **options: Any
    ) -> None:
        options = {"collate_fn": collate, **options}
        sharded = examples.examples if isinstance(examples, DataSet) else examples
        if isinstance(sharded, ShardedExamples):
            super().__init__(sharded, batch_size, shuffle, **options)  # type: ignore[arg-type]
            return
        items = _items(unpacked(examples))
        wrong = next((one for one in items if not isinstance(one, (Example, Structure))), None)
        if wrong is not None or not items:
            came = type(wrong).__name__ if items else "nothing"
            raise IncidenceError(
                f"a loader takes examples, structures or graphs of PyG; got {came}."
                " `inc.data.load(what)` reads other data."
            )
        single = [
            one
            for item in items
            for one in (uncollate(item) if item.num_structures > 1 else [item])
        ]
        super().__init__(pack(single), batch_size, shuffle, **options)  # type: ignore[arg-type]


def _items(what: Any, used: Sequence[str] = (), stacklevel: int = 4) -> list[Any]:
    """Return the examples, structures or graphs of PyG that something has."""
    if is_pyg(what):
        return list(graphs_of(what, used, stacklevel=stacklevel))
    if isinstance(what, DataSet):
        return list(what.examples)
    return [what] if isinstance(what, (Example, Structure)) else list(what)


class NeighbourLoader(torch.utils.data.DataLoader[Any]):
    """A loader of torch over nodes of one example: a batch is some nodes with nodes around them.

    The nodes of the batch, the seeds, come first. The memory of a training step grows with the
    batch, not with the structure. With `sizes=[None] * net.reach`, a network without global
    operations predicts for the seeds what it predicts on the whole structure. With fewer
    neighbours, its prediction is an estimate.

    Args:
        example: The one large example; a graph of PyG, or a `DataSet` that has one example.
        sizes: How many neighbours of each node to draw at every step; None or -1 for all of them.
            `num_neighbors`, as PyG calls it, is the same.
        batch_size: How many seeds a batch has.
        shuffle: Whether every epoch has another order.
        nodes: The seeds: a mask or numbers; a dict with one sort, if there are several. All nodes
            by default. `input_nodes`, as PyG calls it, is the same.
        options: Other options of torch's loader, such as `drop_last`, `generator` and
            `num_workers`.

    Raises:
        IncidenceError: There is not one example, or there are no such nodes.

    Example:
        >>> import torch
        >>> from incidence import Structure
        >>> ring = Structure(6, {"{i j}": [[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0]]})
        >>> example = Example(ring, {"i": torch.ones(6, 1)}, {"i": torch.arange(6)})
        >>> for batch in NeighbourLoader(example, sizes=[None], batch_size=4):
        ...     print(batch.target["i"][batch.seeds].tolist(), batch.structure.num_nodes)
        [0, 1, 2, 3] 6
        [4, 5] 4
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
                "a NeighbourLoader takes sizes, or num_neighbors, which is the same, as in"
                f" sizes=[10, 10]; got {came}."
            )
        one = _one_example(example)
        steps = as_sizes(None, num_neighbors if sizes is None else sizes)
        nodes = input_nodes if nodes is None else nodes
        if nodes is None:
            counts = one.structure.counts.items()
            nodes = {sort: torch.arange(n, device="cpu") for sort, n in counts}
            nodes = nodes["node"] if set(nodes) == {"node"} else nodes
        by_sort = as_nodes(one.structure, nodes, "NeighbourLoader")
        if len(by_sort) != 1:
            raise IncidenceError(
                "the seeds of a loader are of one sort, as in nodes={'user': mask}; got"
                f" {', '.join(by_sort) or 'none'}."
            )
        [(sort, seeds)] = by_sort.items()
        prepare_samples(one.structure)  # once, before processes share it
        sample = _Sampler(one, steps, sort if isinstance(nodes, Mapping) else None)
        options = {"collate_fn": sample, **options}
        super().__init__(seeds.tolist(), batch_size, shuffle, **options)  # type: ignore[arg-type]


class _Sampler:
    """Makes a batch of the numbers of its seeds; a class, as processes of a loader pickle it."""

    def __init__(self, example: Example, sizes: list[int | None], sort: str | None) -> None:
        self.example, self.sizes, self.sort = example, sizes, sort

    def __call__(self, numbers: list[int]) -> SampledExample:
        seeds = numbers if self.sort is None else {self.sort: numbers}
        return self.example.sample(seeds, sizes=self.sizes)


def _one_example(what: Any) -> Example:
    what = unpacked(what)
    is_known = is_pyg(what) or isinstance(what, (DataSet, Example, list, tuple))
    items = _items(what, MASKS, stacklevel=5) if is_known else []
    if len(items) == 1 and isinstance(items[0], Example) and items[0].num_structures == 1:
        return items[0]
    came = type(what).__name__ if len(items) < 2 else f"{len(items)} examples"
    raise IncidenceError(
        f"a NeighbourLoader takes one example with one structure; got {came}. For many small ones"
        " use inc.data.DataLoader."
    )
