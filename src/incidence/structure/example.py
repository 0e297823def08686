r"""`Example`: a structure, the features of its entries and a target, as one unit; a list of them is a data set."""

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
from incidence.structure import edit
from incidence.structure.batch import cut, numbers, uncollate
from incidence.structure.data import arranged
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
from incidence.structure.validate import assert_structure

__all__ = ["Example", "SampledExample", "Target"]

Target = Tensor | dict[str, Tensor] | None
"""One tensor for a whole structure, tensors for the entries of patterns, or none."""

_FORMAT = 1  # of files


class Example:
    r"""A structure with the features of its entries and a target; or a batch of examples, side by side.

    Args:
        structure: The structure.
        features: From the texts (or names) of patterns to tensors [entries, channels], rows in the order of the entries. A second feature
            of the nodes is a named tensor of its own, such as `pos=i` for coordinates.
        target: A tensor or number for the whole structure (a batch has one row for each structure); or, as for features, from patterns to
            tensors with a row for each entry.
        is_batch: Whether this is a batch; by default if there are several structures.

    Raises:
        IncidenceError: A tensor does not match the entries of the structure.

    Example:
        >>> s = Structure(3, {"{i j}": [[0, 1], [1, 2]]})
        >>> example = Example(s, {"i": torch.zeros(3, 4), "{i j}": torch.ones(2, 1)}, target=0.5)
        >>> example
        Example(Structure(num_nodes=3, '{i j}': 2 entries), features={'i': [3, 4], '{i j}': [2, 1]}, target=[])
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
                f"features map patterns to tensors, as in {{'i': x}}; got {type(features).__name__}."
            )
        is_batch = structure.num_structures != 1 if is_batch is None else is_batch
        features = {} if features is None else dict(features)
        _assert_tensors(structure, features, "features")
        for key, x in features.items():
            if x.ndim != 2:
                came = list(x.shape)
                raise IncidenceError(
                    f"features[{key!r}] must have shape [entries, channels]; got {came}. For one channel use x[:, None]."
                )
        target = _as_target(structure, target, is_batch)
        self.__dict__.update(
            _structure=structure, _features=features, _target=target, _is_batch=bool(is_batch)
        )

    @classmethod
    def _of(
        cls, structure: Structure, features: dict[str, Tensor], target: Target, is_batch: bool
    ) -> Example:
        """An example from parts that are known to fit."""
        self = cls.__new__(cls)
        self.__dict__.update(
            _structure=structure, _features=features, _target=target, _is_batch=is_batch
        )
        return self

    _structure: Structure
    _features: dict[str, Tensor]
    _target: Target
    _is_batch: bool

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(
            f"an Example cannot be changed; use example.replace({name}=...) for one with another `{name}`"
        )

    @property
    def structure(self) -> Structure:
        """The structure, or the batch of structures."""
        return self._structure

    @property
    def features(self) -> dict[str, Tensor]:
        """The features of the entries, by pattern: what a layer takes."""
        return dict(self._features)

    @property
    def target(self) -> Target:
        """What is to be predicted; None if there is nothing."""
        return dict(self._target) if isinstance(self._target, dict) else self._target

    @property
    def is_batch(self) -> bool:
        """Whether this is a batch, so that a target for whole structures has a row for each."""
        return self._is_batch

    @property
    def num_structures(self) -> int:
        """How many examples this is: 1, or the size of a batch."""
        return self._structure.num_structures

    def replace(self, **changes: Any) -> Example:
        """The same example with another structure, other features or another target, checked anew."""
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
        """One example of a batch by number, or a smaller batch by slice, mask or list of numbers."""
        chosen = numbers(self._structure, item)
        picked = np.atleast_1d(chosen)

        def rows(key: str, x: Tensor) -> Tensor:
            lengths = self._structure._lengths_of(self._structure.resolve(key))
            found = torch.from_numpy(spans(starts_of(lengths)[picked], lengths[picked]))
            return x[found.to(x.device)]

        target = self._target
        if isinstance(target, dict):
            target = {key: rows(key, x) for key, x in target.items()}
        elif target is not None and self._is_batch:
            target = target[chosen]
        features = {key: rows(key, x) for key, x in self._features.items()}
        return Example._of(self._structure[item], features, target, not isinstance(chosen, int))

    def __iter__(self) -> Iterator[Example]:
        structures = uncollate(self._structure)
        features = self._cut(self._features)
        targets = (
            self._cut(self._target)
            if isinstance(self._target, dict)
            else self._target
            if self._is_batch
            else None
        )
        for k, structure in enumerate(structures):
            target = self._target if targets is None else targets[k]
            yield Example._of(structure, features[k], target, False)

    def _cut(self, tensors: dict[str, Tensor]) -> list[dict[str, Tensor]]:
        """The rows of every structure on its own, of tensors by pattern."""
        parts = {
            key: cut(x, self._structure._lengths_of(self._structure.resolve(key)))
            for key, x in tensors.items()
        }
        return [{key: each[k] for key, each in parts.items()} for k in range(len(self))]

    def _map(self, move: Callable[[Any], Any]) -> Example:
        features, target = tree_map_only(Tensor, move, (self._features, self._target))
        return Example._of(move(self._structure), features, target, self._is_batch)

    def to(
        self,
        device: torch.device | str | int | torch.dtype | None = None,
        dtype: torch.dtype | None = None,
        non_blocking: bool = False,
    ) -> Example:
        """The example on another device, or with features and targets of another float type, as `nn.Module.to` does it.

        Integers stay as they are: structures, classes, categories.

        Example:
            >>> example = Example(Structure(2), {"i": torch.ones(2, 1)}, {"i": torch.arange(2)}).to(torch.float64)
            >>> example.features["i"].dtype, example.target["i"].dtype
            (torch.float64, torch.int64)
        """
        if isinstance(device, torch.dtype):
            device, dtype = None, device
        if dtype is not None and not (isinstance(dtype, torch.dtype) and dtype.is_floating_point):
            raise IncidenceError(
                f"the type of features is one of floats, as in example.to(torch.float64); got {dtype}."
            )
        moved = (
            self
            if device is None
            else self._map(lambda part: part.to(device, non_blocking=non_blocking))
        )

        def cast(part: Any) -> Any:
            return part.to(dtype) if isinstance(part, Tensor) and part.is_floating_point() else part

        return moved if dtype is None else moved._map(cast)

    def double(self) -> Example:
        """The example with features and targets in double precision."""
        return self.to(torch.float64)

    def float(self) -> Example:
        """The example with features and targets in single precision; integers stay."""
        return self.to(torch.float32)

    def pin_memory(self) -> Example:
        """The example in page-locked memory, for faster copies to a GPU."""
        return self._map(lambda part: part.pin_memory())

    def cpu(self) -> Example:
        """The example in the memory of the host."""
        return self.to("cpu")

    def cuda(
        self, device: torch.device | str | int | None = None, non_blocking: bool = False
    ) -> Example:
        """The example on a GPU: the current one, or that of a number."""
        place = (
            torch.device("cuda", device)
            if isinstance(device, int)
            else torch.device(device or "cuda")
        )
        return self.to(place, non_blocking=non_blocking)

    def induced(self, nodes: object) -> Example:
        """The entries all of whose nodes are kept, with their features and targets; see `Structure.induced`.

        Example:
            >>> path = Example(Structure(3, {"{i j}": [[0, 1], [1, 2]]}), {"{i j}": torch.tensor([[5.0], [7.0]])})
            >>> path.induced([1, 2]).features
            {'{i j}': tensor([[7.]])}
        """
        return self._left(*edit.induced(self._structure, nodes))

    def sample(
        self,
        nodes: object,
        hops: int | None = None,
        sizes: object = None,
        generator: torch.Generator | None = None,
    ) -> SampledExample:
        """The surroundings of some nodes with their features, and with the targets of these nodes; see `Structure.sample`.

        Example:
            >>> path = Example(Structure(4, {"{i j}": [[0, 1, 2], [1, 2, 3]]}), {"i": torch.arange(4.0)[:, None]}, {"i": torch.arange(4)})
            >>> found = path.sample([2], hops=1)
            >>> found.features["i"].flatten().tolist(), found.target["i"].tolist()
            ([2.0, 1.0, 3.0], [2, -1, -1])
        """
        found = self._structure.sample(nodes, hops, sizes, generator)
        return SampledExample._around(self._left(found.structure, found.kept), found)

    def select(self, text: str | Pattern, which: object) -> Example:
        """The same example with only some entries of one tensor, their features and targets: a mask or row numbers."""
        return self._left(*edit.select(self._structure, text, which))

    def _left(self, structure: Structure, rows: edit.Rows) -> Example:
        """What is left of the features and targets of entries, when some rows are."""

        def keep(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
            meant = {key: self._structure.resolve(key) for key in tensors}
            sorts = {
                key: next(iter(p.sorts.values()), "") for key, p in meant.items()
            }  # that of a lone node, which has no index
            left = {
                key: rows.get(p, None if p in self._structure.patterns else rows.get(sorts[key]))
                for key, p in meant.items()
            }
            return {key: x if left[key] is None else x[left[key]] for key, x in tensors.items()}

        target = keep(self._target) if isinstance(self._target, dict) else self._target
        return Example._of(structure, keep(self._features), target, self._is_batch)

    def canonical(self) -> Example:
        """The same example in the preferred order of entries; features and targets go along."""
        ordered, rows = self._structure.canonical()
        order = {
            p: rows[p.name or str(p)] for p in self._structure.patterns
        }  # nodes and whole structures have one order only

        def move(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
            found = {key: self._structure.resolve(key) for key in tensors}
            return {
                key: x[order[found[key]]] if found[key] in order else x
                for key, x in tensors.items()
            }

        target = move(self._target) if isinstance(self._target, dict) else self._target
        return Example._of(ordered, move(self._features), target, self._is_batch)

    def save(self, path: Any) -> None:
        """Writes the example to a file, at once or not at all. No pickle: `load` executes nothing."""
        kind = (
            "entries"
            if isinstance(self._target, dict)
            else "none"
            if self._target is None
            else "whole"
        )
        arrays = {
            "format": np.array(_FORMAT),
            "is_batch": np.array(self._is_batch),
            "target": np.array(kind),
            **arrays_of(self._structure),
        }
        target = {"": self._target} if isinstance(self._target, Tensor) else self._target or {}
        for what, tensors in (("feature", self._features), ("target", target)):
            for number, (key, x) in enumerate(tensors.items()):
                arrays.update(tensor_arrays(f"{what}/{number}", key, x))
        write_arrays(path, arrays)

    @classmethod
    def load(cls, path: Any) -> Example:
        """Reads an example that `save` wrote, and checks it as if it were given anew."""
        return read_arrays(path, "an example written by `Example.save`", _FORMAT, cls._from_arrays)

    @classmethod
    def _from_arrays(cls, arrays: Mapping[str, Any]) -> Example:
        kind, target = str(arrays["target"]), tensors_from(arrays, "target/")
        wanted: Any = {"entries": target, "whole": target.get(""), "none": None}[kind]
        if kind == "whole" and wanted is None:
            raise IncidenceError("its target is missing.")
        return cls(
            Structure._from_arrays(arrays),
            tensors_from(arrays, "feature/"),
            wanted,
            is_batch=bool(arrays["is_batch"]),
        )

    def __eq__(self, other: object) -> bool:
        """Whether structures, features and targets agree; a missing value (NaN) agrees with another."""
        if not isinstance(other, Example):
            return NotImplemented
        return (
            self._is_batch == other._is_batch
            and self._structure == other._structure
            and _same(self._by_meaning(self._features), other._by_meaning(other._features))
            and _same(self._by_meaning(self._target), other._by_meaning(other._target))
        )

    __hash__ = None  # type: ignore[assignment]

    def _by_meaning(self, tensors: Target) -> dict[Pattern | None, Tensor]:
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

    Targets of entries that have other nodes than seeds are missing: NaN, or -1 where they are integers.
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
        """The rows of the seeds; by sort, if they were given by sort."""
        return self._sample.seeds

    @property
    def nodes(self) -> Any:
        """The old number of every node; with several sorts (or one that is not `node`), for each sort."""
        return self._sample.nodes

    def rows(self, text: str | Pattern) -> Tensor:
        """The old row of every entry of a tensor."""
        return self._sample.rows(text)

    def _map(self, move: Callable[[Any], Any]) -> Example:
        moved = super()._map(move)
        seeds, kept = tree_map_only(Tensor, move, (self._sample.seeds, self._sample.kept))
        return SampledExample._around(moved, Sample(moved.structure, seeds, kept))

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        example = Example._of(self._structure, self._features, self._target, self._is_batch)
        return SampledExample._around, (example, self._sample)


def _is_seed(sample: Sample[Structure], pattern: Pattern) -> Tensor:
    """Whether all nodes of an entry are seeds; the whole structure counts as one that has no other nodes."""
    structure = sample.structure
    seeds = sample.seeds if isinstance(sample.seeds, dict) else {"node": sample.seeds}
    is_seed = torch.zeros(structure.total_nodes, dtype=torch.bool, device=structure.device)
    for sort, rows in seeds.items():
        is_seed[rows + structure._node_offsets[sort]] = True
    found = torch.ones(structure.num_entries(pattern), dtype=torch.bool, device=structure.device)
    for bucket in (each.bucket for each in arranged(structure, pattern)):
        found[bucket.rows] = is_seed[bucket.nodes].all(1)  # (entries of the bucket,)
    return found


def _only(target: Tensor, is_kept: Tensor) -> Tensor:
    """A target with the rows that are not kept missing; one of truth values, which has no such value, as it is."""
    if target.dtype == torch.bool:
        return target
    kept = target.clone()
    kept[~is_kept] = float("nan") if target.is_floating_point() else -1
    return kept


def _assert_tensors(structure: Structure, tensors: Mapping[str, Tensor], what: str) -> None:
    """Refuses tensors that do not have a row for each entry of their patterns."""
    found = set()
    for key, value in tensors.items():
        pattern = structure.resolve(key)
        if pattern in found:
            raise IncidenceError(
                f"{what} have `{pattern}` twice, in two spellings: {', '.join(map(repr, tensors))}. Join their channels."
            )
        found.add(pattern)
        name = f"{what}[{key!r}]"
        if not isinstance(value, Tensor):
            raise IncidenceError(
                f"{name} must be a tensor; got {type(value).__name__}. Convert it with torch.as_tensor(x)."
            )
        rows = structure.num_entries(pattern)
        if not value.ndim or len(value) != rows:
            of = f"`{pattern}`" if pattern.faces else "the whole structure"
            raise IncidenceError(
                f"{name} must have {rows} rows, one for each entry of {of}; got shape {list(value.shape)}."
            )
        _assert_device(name, value, structure)


def _assert_device(name: str, value: Tensor, structure: Structure) -> None:
    if value.device != structure.device:
        raise IncidenceError(
            f"{name} is on {value.device} and the structure is on {structure.device}: move one with `.to(device)`."
        )


def _as_target(structure: Structure, target: object, is_batch: bool) -> Target:
    if target is None:
        return None
    if isinstance(target, Mapping):
        _assert_tensors(structure, target, "target")
        return dict(target)
    if isinstance(target, (bool, int, float)):
        target = torch.tensor(target, device=structure.device)
    if not isinstance(target, Tensor):
        raise IncidenceError(
            f"the target is a tensor, a number, or maps patterns to tensors; got {type(target).__name__}."
        )
    if is_batch and (not target.ndim or len(target) != structure.num_structures):
        count, came = structure.num_structures, list(target.shape)
        raise IncidenceError(
            f"the target of a batch has a row for each of its {count} structures; got shape {came}."
        )
    _assert_device("the target", target, structure)
    return target


def _same(one: Mapping[Pattern | None, Tensor], other: Mapping[Pattern | None, Tensor]) -> bool:
    def is_equal(
        x: Tensor, y: Tensor
    ) -> bool:  # NaN is what data sets write where a value is missing
        return (
            x.dtype == y.dtype
            and x.shape == y.shape
            and bool(((x == y) | ((x != x) & (y != y))).all())
        )

    return one.keys() == other.keys() and all(is_equal(x, other[key]) for key, x in one.items())
