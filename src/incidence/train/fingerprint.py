"""A fingerprint of data, so that a run does not go on with other data than it began with."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

from incidence.data.dataset import Parts
from incidence.structure.example import Example
from incidence.structure.examples import collate
from incidence.structure.storage import arrays_of

__all__ = ["fingerprint"]

_TOGETHER = 1024


def fingerprint(parts: Parts) -> str:
    """Some letters that change with any structure, feature or target, with the parts and with their order."""
    digest = blake2b(digest_size=16)
    for part in parts:
        digest.update(f"a part of {len(part)}".encode())
        for start in range(0, len(part), _TOGETHER):
            for key, array in _arrays(collate(part[start : start + _TOGETHER])):
                digest.update(f"{key} {array.dtype} {array.shape}".encode())
                digest.update(array.tobytes())
    return digest.hexdigest()


def _arrays(batch: Example) -> Iterator[tuple[str, Any]]:
    target = batch.target if isinstance(batch.target, dict) else {} if batch.target is None else {"": batch.target}
    yield from arrays_of(batch.structure).items()
    yield from ((f"feature {key}", x.cpu().numpy()) for key, x in batch.features.items())
    yield from ((f"target {key}", x.cpu().numpy()) for key, x in target.items())
