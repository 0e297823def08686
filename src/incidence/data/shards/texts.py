"""Texts of examples in shards, such as names: each is read when it is taken."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np

from incidence.structure.data import Array

if TYPE_CHECKING:
    from incidence.data.shards.examples import ShardedExamples
    from incidence.data.shards.reading import Shard

__all__ = ["ShardColumn", "ShardedTexts", "column_arrays", "columns_from"]


class ShardColumn(NamedTuple):
    """A text for every example of a shard.

    Attributes:
        raw: The bytes of all texts, one after the other.
        ends: Where each text ends, after a 0, (examples + 1,).
    """

    raw: Array
    ends: Array

    def text(self, number: int) -> str:
        """Return the text of an example."""
        raw = self.raw[int(self.ends[number]) : int(self.ends[number + 1])]
        return raw.tobytes().decode("utf-8", "surrogatepass")


def column_arrays(columns: Iterable[Sequence[str]]) -> dict[str, Array]:
    """Return columns of texts as arrays of a shard."""
    arrays: dict[str, Array] = {}
    for number, texts in enumerate(columns):
        encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
        lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
        arrays[f"text/{number}/bytes"] = np.frombuffer(b"".join(encoded), np.uint8)
        arrays[f"text/{number}/ends"] = np.append(0, lengths.cumsum())
    return arrays


def columns_from(arrays: Mapping[str, Any], count: int) -> list[ShardColumn]:
    """Return the columns of texts of a shard.

    Raises:
        ValueError: The texts are not those of so many examples.
    """
    columns: list[ShardColumn] = []
    while (place := f"text/{len(columns)}") + "/bytes" in arrays:
        raw, ends = arrays[f"{place}/bytes"], arrays[f"{place}/ends"]
        is_whole = len(ends) == count + 1 and ends[0] == 0 and ends[-1] == len(raw)
        if not is_whole or (np.diff(ends) < 0).any():
            raise ValueError(f"{place} is not for {count} examples")
        columns.append(ShardColumn(raw, ends))
    return columns


class ShardedTexts(Sequence[str]):
    """A text for every example of a folder, such as its name.

    Args:
        examples: The examples.
        place: The number of the column in every shard.
    """

    def __init__(self, examples: ShardedExamples, place: int) -> None:
        self._examples, self._place = examples, place
        self._starts = examples.folder.starts

    def __len__(self) -> int:
        return self._examples.folder.num_examples

    @overload
    def __getitem__(self, item: int) -> str: ...
    @overload
    def __getitem__(self, item: slice) -> list[str]: ...
    def __getitem__(self, item: int | slice) -> str | list[str]:
        """Return a text, or a list of some."""
        if isinstance(item, slice):
            return [self[k] for k in range(*item.indices(len(self)))]
        number = range(len(self))[item]
        shard = int(np.searchsorted(self._starts, number, side="right"))  # from 1
        return self._read(self._examples.shard(shard), number - int(self._starts[shard - 1]))

    def __iter__(self) -> Iterator[str]:
        for number in range(1, self._examples.folder.num_shards + 1):
            shard = self._examples.shard(number)
            for place in range(shard.num_examples):
                yield self._read(shard, place)

    def _read(self, shard: Shard, number: int) -> str:
        try:
            return shard.texts[self._place].text(number)
        except (LookupError, UnicodeDecodeError):
            raise shard.damage("it lacks texts of its examples") from None
