r"""`Example`: a structure, the features of its entries, and a target."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.notebook import html_of
from incidence.structure.arguments import as_structures, as_target, assert_structure, assert_tensors
from incidence.structure.arrange import arranged
from incidence.structure.batch import cut, uncollate
from incidence.structure.data import Array
from incidence.structure.edit import Rows
from incidence.structure.ragged import spans, starts_of
from incidence.structure.sampling import Sample
from incidence.structure.storage import (
    arrays_of,
    read_arrays,
    tensor_arrays,
    tensors_from,
    write_arrays,
)
from incidence.structure.structure import Structure

__all__ = ["Example", "SampledExample", "Target"]

Target = Tensor | dict[str, Tensor] | None
"""A tensor for the whole structure, tensors for the entries of patterns, or None."""

_FORMAT = 1  # number of the file format


class Example:
    r"""A structure with the features of its entries and a target; or a batch of examples, side by
    side.

    Args:
        structure: The structure.
        features: From the texts (or names) of patterns to tensors [entries, channels], rows in the
            order of the entries. A second feature of the nodes is a named tensor, such as `pos=i`
            for coordinates.
        target: A tensor or number for the whole structure (a batch has one row for each structure);
            or, as for features, from patterns to tensors with a row for each entry.
        is_batch: Whether this is a batch. By default it is if there are several structures.

    Raises:
        IncidenceError: A tensor does not match the entries of the structure.

    Example:
        >>> s = Structure(3, {"{i j}": [[0, 1], [1, 2]]})
        >>> example = Example(s, {"i": torch.zeros(3, 4), "{i j}": torch.ones(2, 1)}, target=0.5)
        >>> example
        Example(Structure(num_nodes=3, '{i j}': 2 entries), features={'i': [3, 4], '{i j}': [2, 1]},
        target=[])
        >>> import incidence as inc
        >>> batch = inc.collate([example, example])
        >>> batch.target, batch[1] == example
        (tensor([0.5000, 0.5000]), True)
    """

    def __init__(
        self,
        structure: Structure,
        features: Mapping[str, Tensor] | None = None,
        target: Tensor | float | Mapping[str, Tensor] | None = None,
        *,
        is_batch: bool | None = None,
    ) -> None:
        assert_structure(structure, "the first argument", "Example(structure, features, target)")
        if features is not None and not isinstance(features, Mapping):
            raise IncidenceError(
                "features map patterns to tensors, as in {'i': x}; got"
                f" {type(features).__name__}."
            )
        if is_batch is None:
            is_batch = structure.num_structures != 1
        features = dict(features or {})
        assert_tensors(structure, features, "features")
        for key, x in features.items():
            if x.ndim != 2:
                raise IncidenceError(
                    f"features[{key!r}] must have shape [entries, channels]; got {list(x.shape)}."
                    " For one channel use x[:, None]."
                )
        checked = as_target(structure, target, is_batch)
        self._set(structure, features, checked, bool(is_batch))

    def _set(
        self, structure: Structure, features: dict[str, Tensor], target: Target, is_batch: bool
    ) -> None:
        self.__dict__.update(
            _structure=structure, _features=features, _target=target, _is_batch=is_batch
        )

    @classmethod
    def _of(
        cls, structure: Structure, features: dict[str, Tensor], target: Target, is_batch: bool
    ) -> Example:
        """Return an example of valid parts, without checks."""
        self = cls.__new__(cls)
        self._set(structure, features, target, is_batch)
        return self

    _structure: Structure
    _features: dict[str, Tensor]
    _target: Target
    _is_batch: bool

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(
            f"an Example cannot be changed; use example.replace({name}=...) for one with another"
            f" `{name}`"
        )

    @property
    def structure(self) -> Structure:
        """The structure, or the batch of structures."""
        return self._structure

    @property
    def features(self) -> dict[str, Tensor]:
        """The features of the entries by pattern, as layers take them."""
        return dict(self._features)

    @property
    def target(self) -> Target:
        """The target of predictions; None if there is none."""
        return dict(self._target) if isinstance(self._target, dict) else self._target

    @property
    def is_batch(self) -> bool:
        """Whether this is a batch, so that a target for whole structures has a row for each."""
        return self._is_batch

    @property
    def num_structures(self) -> int:
        """The number of examples: 1, or the size of a batch."""
        return self._structure.num_structures

    def replace(self, **changes: Any) -> Example:
        """Return the example with other parts, given by the names of the arguments of `Example`.

        Raises:
            IncidenceError: The parts do not fit together.
        """
        parts = {
            "structure": self._structure,
            "features": self._features,
            "target": self._target,
            "is_batch": self._is_batch,
        }
        unknown = [name for name in changes if name not in parts]
        if unknown:
            raise IncidenceError(
                f"an example has structure, features and target, and no `{unknown[0]}`."
            )
        return Example(**{**parts, **changes})

    def __len__(self) -> int:
        return self.num_structures

    def __getitem__(self, item: int | slice | Tensor | Sequence[int]) -> Example:
        """Return one example of a batch by number, or a smaller batch.

        Args:
            item: A number; or a slice, mask or list of numbers, for a smaller batch.
        """
        chosen = as_structures(self._structure, item)
        numbers = np.atleast_1d(chosen)

        def rows(key: str, x: Tensor) -> Tensor:
            lengths = self._lengths_of(key)
            spots = torch.from_numpy(spans(starts_of(lengths)[numbers], lengths[numbers]))
            return x[spots.to(x.device)]

        target = self._target
        if isinstance(target, dict):
            target = {key: rows(key, x) for key, x in target.items()}
        elif target is not None and self._is_batch:
            target = target[chosen]
        features = {key: rows(key, x) for key, x in self._features.items()}
        return Example._of(self._structure[item], features, target, not isinstance(chosen, int))

    def __iter__(self) -> Iterator[Example]:
        features, targets = self._cut(self._features), self._cut_target()
        for k, structure in enumerate(uncollate(self._structure)):
            yield Example._of(structure, features[k], targets[k], False)

    def _cut(self, tensors: dict[str, Tensor]) -> list[dict[str, Tensor]]:
        """Return the rows of every structure, of tensors by pattern."""
        parts = {key: cut(x, self._lengths_of(key)) for key, x in tensors.items()}
        numbers = range(len(self))
        return [{key: each[k] for key, each in parts.items()} for k in numbers]

    def _cut_target(self) -> Sequence[Target]:
        if isinstance(self._target, dict):
            return self._cut(self._target)
        if self._target is not None and self._is_batch:
            return list(self._target)
        return [self._target] * len(self)

    def _lengths_of(self, key: str) -> Array:
        """Return how many entries of a tensor each structure has."""
        return self._structure._lengths_of(self._structure.resolve(key))

    def _map(self, move: Callable[[Any], Any]) -> Example:
        features, target = tree_map_only(Tensor, move, (self._features, self._target))
        return Example._of(move(self._structure), features, target, self._is_batch)

    def to(
        self,
        device: torch.device | str | int | torch.dtype | None = None,
        dtype: torch.dtype | None = None,
        non_blocking: bool = False,
    ) -> Example:
        """Return the example on another device, or with floats of another type.

        The arguments are those of `nn.Module.to`. Integers stay as they are: structures, classes,
        categories.

        Example:
            >>> example = Example(Structure(2), {"i": torch.ones(2, 1)}, {"i": torch.arange(2)})
            >>> double = example.to(torch.float64)
            >>> double.features["i"].dtype, double.target["i"].dtype
            (torch.float64, torch.int64)
        """
        if isinstance(device, torch.dtype):
            device, dtype = None, device
        if dtype is not None and not (isinstance(dtype, torch.dtype) and dtype.is_floating_point):
            raise IncidenceError(
                "the type of features is one of floats, as in example.to(torch.float64); got"
                f" {dtype}."
            )
        moved = self
        if device is not None:
            moved = self._map(lambda part: part.to(device, non_blocking=non_blocking))

        def cast(part: Any) -> Any:
            is_float = isinstance(part, Tensor) and part.is_floating_point()
            return part.to(dtype) if is_float else part

        return moved if dtype is None else moved._map(cast)

    def double(self) -> Example:
        """Return the example with features and targets in double precision."""
        return self.to(torch.float64)

    def float(self) -> Example:
        """Return the example with features and targets in single precision; integers stay."""
        return self.to(torch.float32)

    def pin_memory(self) -> Example:
        """Return the example in page-locked memory, for faster copies to a GPU."""
        return self._map(lambda part: part.pin_memory())

    def cpu(self) -> Example:
        """Return the example in the memory of the host."""
        return self.to("cpu")

    def cuda(
        self, device: torch.device | str | int | None = None, non_blocking: bool = False
    ) -> Example:
        """Return the example on a GPU: the current one, or the one with a number."""
        place = f"cuda:{device}" if isinstance(device, int) else device or "cuda"
        return self.to(torch.device(place), non_blocking=non_blocking)

    def induced(self, nodes: object) -> Example:
        """Return the entries that have only some of the nodes, with their features and targets.

        See `Structure.induced`.

        Example:
            >>> s = Structure(3, {"{i j}": [[0, 1], [1, 2]]})
            >>> path = Example(s, {"{i j}": torch.tensor([[5.0], [7.0]])})
            >>> path.induced([1, 2]).features
            {'{i j}': tensor([[7.]])}
        """
        return self._with_rows(*self._structure._induced_with_rows(nodes))

    def sample(
        self,
        nodes: object,
        hops: int | None = None,
        sizes: object = None,
        generator: torch.Generator | None = None,
    ) -> SampledExample:
        """Return the surroundings of some nodes with their features.

        The nodes keep their targets. See `Structure.sample`.

        Example:
            >>> s = Structure(4, {"{i j}": [[0, 1, 2], [1, 2, 3]]})
            >>> path = Example(s, {"i": torch.arange(4.0)[:, None]}, {"i": torch.arange(4)})
            >>> sampled = path.sample([2], hops=1)
            >>> sampled.features["i"].flatten().tolist(), sampled.target["i"].tolist()
            ([2.0, 1.0, 3.0], [2, -1, -1])
        """
        sample = self._structure.sample(nodes, hops, sizes, generator)
        return SampledExample._around(self._with_rows(sample.structure, sample.kept), sample)

    def select(self, text: str | Pattern, which: object) -> Example:
        """Return the example with only some entries of one tensor, their features and targets.

        See `Structure.select`.
        """
        return self._with_rows(*self._structure._select_with_rows(text, which))

    def _with_rows(self, structure: Structure, rows: Rows) -> Example:
        """Return an example of a changed structure, with some rows of the features and targets.

        Args:
            structure: The changed structure.
            rows: The rows to take, by pattern, and by sort for lone nodes; tensors that are not
                listed stay as they are.
        """

        def rows_of(key: str) -> Tensor | None:
            pattern = self._structure.resolve(key)
            if pattern in rows or pattern in self._structure.patterns or not pattern.faces:
                return rows.get(pattern)
            # A lone node without an index: its rows are those of its sort.
            [sort] = pattern.sorts.values()
            return rows.get(sort)

        def take(key: str, x: Tensor) -> Tensor:
            chosen = rows_of(key)
            return x if chosen is None else x[chosen]

        features = {key: take(key, x) for key, x in self._features.items()}
        target = self._target
        if isinstance(target, dict):
            target = {key: take(key, y) for key, y in target.items()}
        return Example._of(structure, features, target, self._is_batch)

    def canonical(self) -> Example:
        """Return the example in the preferred order of entries; features and targets follow."""
        ordered, rows = self._structure.canonical()
        return self._with_rows(ordered, {p: rows[p.name or str(p)] for p in ordered.patterns})

    def save(self, path: Any) -> None:
        """Write the example to a file, completely or not at all, without pickle."""
        write_arrays(path, self._arrays())

    def _arrays(self) -> dict[str, Any]:
        """Return the example as plain arrays, each with a key that says what it is."""
        target, kind = self._target, "entries"
        if target is None:
            target, kind = {}, "none"
        elif isinstance(target, Tensor):
            target, kind = {"": target}, "whole"
        arrays = {
            "format": np.array(_FORMAT),
            "is_batch": np.array(self._is_batch),
            "target": np.array(kind),
            **arrays_of(self._structure),
        }
        for what, tensors in (("feature", self._features), ("target", target)):
            for number, (key, x) in enumerate(tensors.items()):
                arrays.update(tensor_arrays(f"{what}/{number}", key, x))
        return arrays

    @classmethod
    def load(cls, path: Any) -> Example:
        """Read an example that `save` wrote, and check it as a new one; no code is executed."""
        return read_arrays(path, "an example written by `Example.save`", _FORMAT, cls._from_arrays)

    @classmethod
    def _from_arrays(cls, arrays: Mapping[str, Any]) -> Example:
        kind, tensors = str(arrays["target"]), tensors_from(arrays, "target")
        target: Any = {"entries": tensors, "whole": tensors.get(""), "none": None}[kind]
        if kind == "whole" and target is None:
            raise IncidenceError("its target is missing.")
        structure, features = Structure._from_arrays(arrays), tensors_from(arrays, "feature")
        return cls(structure, features, target, is_batch=bool(arrays["is_batch"]))

    def __eq__(self, other: object) -> bool:
        """Return whether structures, features and targets agree; NaN agrees with NaN."""
        if not isinstance(other, Example):
            return NotImplemented
        return (
            self._is_batch == other._is_batch
            and self._structure == other._structure
            and _same(self._by_pattern(self._features), other._by_pattern(other._features))
            and _same(self._by_pattern(self._target), other._by_pattern(other._target))
        )

    __hash__ = None  # type: ignore[assignment]

    def _by_pattern(self, tensors: Target) -> dict[Pattern | None, Tensor]:
        if isinstance(tensors, dict):
            return {self._structure.resolve(key): x for key, x in tensors.items()}
        return {} if tensors is None else {None: tensors}

    def __repr__(self) -> str:
        features, target = tree_map_only(
            Tensor, lambda x: list(x.shape), (self._features, self._target)
        )
        return f"Example({self._structure}, features={features}, target={target})"

    _repr_html_ = html_of

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return Example._of, (self._structure, self._features, self._target, self._is_batch)


class SampledExample(Example):
    """The surroundings of some nodes of an example, the seeds, which stand first.

    The targets of entries that have other nodes are missing: NaN, or -1 for integers.
    """

    _sample: Sample[Structure]

    @classmethod
    def _around(cls, example: Example, sample: Sample[Structure]) -> SampledExample:
        self = cls.__new__(cls)
        target = example._target
        if isinstance(target, dict):
            target = {
                key: _only(y, _is_seed(sample, example._structure.resolve(key)))
                for key, y in target.items()
            }
        self.__dict__.update(example.__dict__, _target=target, _sample=sample)
        return self

    @property
    def seeds(self) -> Any:
        """The rows of the seeds; by sort, if the caller gave them by sort."""
        return self._sample.seeds

    @property
    def nodes(self) -> Any:
        """The old number of every node; with several sorts (or one that is not `node`), by sort."""
        return self._sample.nodes

    def rows(self, text: str | Pattern) -> Tensor:
        """Return the old row of every entry of a tensor."""
        return self._sample.rows(text)

    def _map(self, move: Callable[[Any], Any]) -> Example:
        moved = super()._map(move)
        seeds, kept = tree_map_only(Tensor, move, (self._sample.seeds, self._sample.kept))
        return SampledExample._around(moved, Sample(moved.structure, seeds, kept))

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        example = Example._of(self._structure, self._features, self._target, self._is_batch)
        return SampledExample._around, (example, self._sample)


def _is_seed(sample: Sample[Structure], pattern: Pattern) -> Tensor:
    """Return whether all nodes of an entry are seeds; it is True for the whole structure."""
    structure = sample.structure
    seeds = sample.seeds if isinstance(sample.seeds, dict) else {"node": sample.seeds}
    is_seed = torch.zeros(structure.total_nodes, dtype=torch.bool, device=structure.device)
    for sort, rows in seeds.items():
        is_seed[rows + structure._node_offsets[sort]] = True
    is_inside = torch.ones(structure.num_entries(pattern), dtype=torch.bool, device=is_seed.device)
    for part in arranged(structure, pattern):
        is_inside[part.bucket.rows] = is_seed[part.bucket.nodes].all(1)
    return is_inside


def _only(target: Tensor, is_known: Tensor) -> Tensor:
    """Return a target with other rows marked as missing.

    Truth values have no mark for missing ones, so such a target stays as it is.
    """
    if target.dtype == torch.bool:
        return target
    marked = target.clone()
    marked[~is_known] = float("nan") if target.is_floating_point() else -1
    return marked


def _same(one: Mapping[Pattern | None, Tensor], other: Mapping[Pattern | None, Tensor]) -> bool:
    if one.keys() != other.keys():
        return False
    return all(_is_equal(x, other[key]) for key, x in one.items())


def _is_equal(x: Tensor, y: Tensor) -> bool:
    if x.dtype != y.dtype or x.shape != y.shape:
        return False
    # Data sets write NaN for a missing value.
    are_missing = (x != x) & (y != y)
    return bool(((x == y) | are_missing).all())
