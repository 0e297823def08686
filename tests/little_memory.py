"""How much memory something takes at its peak, as Python and numpy count it, and packed texts that
would take much.
"""

from __future__ import annotations

import gzip
import random
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def little_memory(most: int = 1 << 20) -> Iterator[None]:
    """Fails if more bytes than that are in use at any moment."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()


def packed(path: Path, repeated: bytes, size: int, others: int = 0) -> Path:
    """A packed text of that size, of which some bytes are not repeated."""
    path.write_bytes(
        gzip.compress(repeated * (size // len(repeated)) + random.Random(0).randbytes(others))
    )
    return path
