"""The folder of shards: names, sizes and checksums of its files."""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from incidence.errors import IncidenceError
from incidence.limits import parse_json
from incidence.structure.data import Array

__all__ = ["ShardFolder", "checksum_of", "digest_of"]

_CHUNK = 1 << 20  # bytes to compare at once


class ShardFolder(NamedTuple):
    """Where shards are, and what they must belong to.

    Attributes:
        path: The folder.
        digest: The digest of the manifest that all shards were written for.
        num_shards: The number of shards.
        num_examples: The number of examples in all shards.
    """

    path: Path
    digest: str
    num_shards: int
    num_examples: int

    @property
    def starts(self) -> Array:
        """The number of the first example of every shard, and the number of all, [shards + 1]."""
        return np.arange(self.num_shards + 1) * self.num_examples // self.num_shards

    @property
    def most_open(self) -> int:
        """How many shards are mapped at once: each needs a file that is open."""
        return 256

    def file(self, number: int) -> Path:
        """Return the file of a shard, which are numbered from 1."""
        return self.path / f"shard-{number:05d}-of-{self.num_shards:05d}.npz"

    def is_complete(self, number: int) -> bool:
        """Return whether a shard was written for this manifest, without reading all of it."""
        try:
            self.receipt(number)
        except IncidenceError:
            return False
        return True

    def receipt(self, number: int) -> dict[str, Any]:
        """Return what the JSON file beside a shard says.

        Raises:
            IncidenceError: The shard is missing, cut short, or belongs to something else.
        """
        file = self.file(number)
        again = f"Write shard {number}/{self.num_shards} again with `incidence prepare`"
        receipt = file.with_suffix(".json")
        if not file.is_file() or not receipt.is_file():
            raise IncidenceError(
                f"shard {number} of {self.num_shards} in {self.path} is missing. {again}, with the"
                " other options as before."
            )
        values = parse_json(receipt.read_bytes(), str(receipt), "record of a shard")
        if not isinstance(values, dict) or values.get("manifest") != self.digest:
            raise IncidenceError(
                f"{file} was prepared from other data, with other options, or by another version"
                f" than {self.path / 'manifest.json'}. {again}, with the options of the others."
            )
        if values.get("bytes") != file.stat().st_size:
            raise IncidenceError(
                f"{file} is damaged: it has {file.stat().st_size:,} bytes, and"
                f" {values.get('bytes')} were written. {again}."
            )
        return values


def digest_of(text: bytes) -> str:
    """Return a checksum of a text."""
    return blake2b(text, digest_size=16).hexdigest()


def checksum_of(path: Path) -> str:
    """Return a checksum of a file."""
    digest = blake2b(digest_size=16)
    with path.open("rb") as file:
        while part := file.read(_CHUNK):
            digest.update(part)
    return digest.hexdigest()
