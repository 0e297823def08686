"""Reading a data set that does not fit into memory: examples go to the disk as they are read.

While `spooling` is on, the readers of molecules and of registered files write their examples to
pieces, which are shards without a manifest. In memory remain the texts of names and columns, as
bytes.
"""

from __future__ import annotations

import tempfile
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from incidence.data.shards.examples import ShardedExamples
from incidence.data.shards.folder import ShardFolder
from incidence.data.shards.writing import write_shard
from incidence.structure.data import Array
from incidence.structure.example import Example

if TYPE_CHECKING:
    from incidence.data.dataset import Record

__all__ = ["PackedTexts", "RecordSpool", "collected", "empty_texts", "is_spooling"]
__all__ += ["spooling"]

_PIECE = 1024  # examples in a piece

_FOLDER: ContextVar[Path | None] = ContextVar("folder of spooled examples", default=None)


@contextmanager
def spooling() -> Iterator[None]:
    """Let readers keep their examples in a temporary folder, which is deleted in the end."""
    with tempfile.TemporaryDirectory(prefix="incidence-") as folder:
        token = _FOLDER.set(Path(folder))
        try:
            yield
        finally:
            _FOLDER.reset(token)


def is_spooling() -> bool:
    """Return whether readers keep their examples on the disk."""
    return _FOLDER.get() is not None


def collected(records: Iterable[Record]) -> Sequence[Record] | RecordSpool:
    """Return records as a list, or as a spool while `spooling` is on."""
    folder = _FOLDER.get()
    if folder is None:
        return list(records)
    return RecordSpool(Path(tempfile.mkdtemp(dir=folder)), records)


def empty_texts() -> list[str] | PackedTexts:
    """Return a list to append texts to, or packed texts while `spooling` is on."""
    return PackedTexts() if is_spooling() else []


class PackedTexts(Sequence[str]):
    """Texts in one row of bytes, a twentieth of the memory of a list.

    Args:
        texts: The texts.

    Example:
        >>> texts = PackedTexts(["one", "", "three"])
        >>> texts[2], texts[:2], len(texts)
        ('three', ['one', ''], 3)
    """

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._bytes, self._ends = bytearray(), array("q", [0])
        for text in texts:
            self.append(text)

    def append(self, text: str) -> None:
        """Add a text."""
        self._bytes += text.encode("utf-8", "surrogatepass")
        self._ends.append(len(self._bytes))

    def __len__(self) -> int:
        return len(self._ends) - 1

    @overload
    def __getitem__(self, item: int) -> str: ...
    @overload
    def __getitem__(self, item: slice) -> list[str]: ...
    def __getitem__(self, item: int | slice) -> str | list[str]:
        """Return a text, or a list of some."""
        if isinstance(item, slice):
            return [self[k] for k in range(*item.indices(len(self)))]
        number = range(len(self))[item]
        start, stop = self._ends[number], self._ends[number + 1]
        return self._bytes[start:stop].decode("utf-8", "surrogatepass")

    def __iter__(self) -> Iterator[str]:
        return (self[k] for k in range(len(self)))


class _PieceFolder(ShardFolder):
    """Pieces of equal size, of which the last may be smaller."""

    @property
    def starts(self) -> Array:
        """The number of the first example of every piece, and the number of all."""
        return np.minimum(np.arange(self.num_shards + 1) * _PIECE, self.num_examples)

    @property
    def most_open(self) -> int:
        """How many pieces are mapped at once: pages of mapped files count as memory."""
        return 4

    def file(self, number: int) -> Path:
        """Return the file of a piece, which are numbered from 1."""
        return self.path / f"piece-{number:07d}.npz"


class RecordSpool:
    """Records whose examples are on the disk.

    Args:
        folder: An empty folder.
        records: The records, which are read one after the other.

    Attributes:
        examples: The examples.
        names: The names of the records.
        columns: Their properties as text by column.
    """

    def __init__(self, folder: Path, records: Iterable[Record]) -> None:
        self._folder = _PieceFolder(folder, "", 0, 0)
        self.names, self.columns = PackedTexts(), dict[str, PackedTexts]()
        waiting: list[Example] = []
        rows = array("q")
        for record in records:
            self._note(record)
            rows.append(-1 if record.row is None else record.row)
            waiting.append(record.example)
            if len(waiting) == _PIECE:
                self._write(waiting)
        if waiting:
            self._write(waiting)
        self.examples = ShardedExamples(self._folder)
        self.examples.source_rows = np.array(rows)

    def __len__(self) -> int:
        return len(self.names)

    def _note(self, record: Record) -> None:
        """Add the texts of a record; a property that others lack is empty there."""
        for key in record.properties:
            if key not in self.columns:
                self.columns[key] = PackedTexts([""] * len(self.names))
        for key, texts in self.columns.items():
            texts.append(record.properties.get(key, ""))
        self.names.append(record.name)

    def _write(self, waiting: list[Example]) -> None:
        """Write a piece, and empty the list."""
        folder: Any = self._folder
        count, total = folder.num_shards + 1, folder.num_examples + len(waiting)
        self._folder = folder._replace(num_shards=count, num_examples=total)
        write_shard(self._folder, count, waiting)
        waiting.clear()
