"""`DataLoader`: batches of examples, of structures, or of graphs of PyG, which are read once."""

from __future__ import annotations

from typing import Any

import torch.utils.data

from incidence.data.dataset import DataSet
from incidence.data.pyg import graphs_of, is_pyg, unpacked
from incidence.errors import IncidenceError
from incidence.structure.example import Example
from incidence.structure.examples import collate, pack, uncollate
from incidence.structure.structure import Structure

__all__ = ["DataLoader"]


class DataLoader(torch.utils.data.DataLoader[Any]):
    """Torch's loader, which makes a batch of the examples of every step.

    What is given is read and packed once, so that a batch is taken from a store by ranges, with the plans of the layers.

    Args:
        examples: A list of examples, structures or graphs of PyG; a data set of PyG; a part of them that torch's `random_split` drew; or a
            `DataSet`.
        batch_size: How many make a batch.
        shuffle: Whether every epoch has an order of its own.
        options: Others of torch's loader, such as `drop_last` and `generator`.

    Raises:
        IncidenceError: There is nothing, or it does not make batches: examples of one loader have the same tensors and features.

    Example:
        >>> import torch
        >>> s = Structure(2, {"{i j}": [[0], [1]]})
        >>> loader = DataLoader([Example(s, {"i": torch.ones(2, 3)}, target=k) for k in range(5)], batch_size=2)
        >>> [batch.target.tolist() for batch in loader]
        [[0, 1], [2, 3], [4]]
    """

    def __init__(
        self, examples: Any, batch_size: int = 1, shuffle: bool = False, **options: Any
    ) -> None:
        examples = unpacked(examples)
        items = (
            graphs_of(examples, stacklevel=3)
            if is_pyg(examples)
            else examples.examples
            if isinstance(examples, DataSet)
            else examples
        )
        items = [items] if isinstance(items, (Example, Structure)) else list(items)
        if not items or not all(isinstance(item, (Example, Structure)) for item in items):
            came = next(
                (
                    type(item).__name__
                    for item in items
                    if not isinstance(item, (Example, Structure))
                ),
                "nothing",
            )
            raise IncidenceError(
                f"a loader takes examples, structures or graphs of PyG; got {came}. `inc.data.load(what)` reads other data."
            )
        apart = [
            one
            for item in items
            for one in (uncollate(item) if item.num_structures > 1 else [item])
        ]
        super().__init__(pack(apart), batch_size, shuffle, **{"collate_fn": collate, **options})  # type: ignore[arg-type]
