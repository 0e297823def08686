"""graph6: graphs as lines of printable characters, six bits each."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor

from incidence.errors import IncidenceError

__all__ = ["read_graph6"]

_HEADER = b">>graph6<<"


def read_graph6(line: str | bytes) -> tuple[int, Tensor]:
    r"""The number of nodes and the edges, [2, edges] with i < j, of a graph in graph6.

    The number of nodes n comes first: one character for n < 63, four from there, eight from 258048, each character six bits plus 63. The
    bits that follow are the upper triangle of the adjacency matrix, column by column.

    Raises:
        IncidenceError: The text is not graph6.

    Example:
        >>> read_graph6("Bw")  # a triangle
        (3, tensor([[0, 0, 1],
                [1, 2, 2]]))
    """
    raw = line.encode() if isinstance(line, str) else line
    codes = np.frombuffer(raw.strip().removeprefix(_HEADER), dtype=np.uint8).astype(np.int64) - 63
    if not len(codes) or codes.min() < 0 or codes.max() > 63:
        raise IncidenceError(f"graph6 is a line of the characters ? to ~; got {raw[:40]!r}.")
    count, start = _count(codes)
    pairs = count * (count - 1) // 2
    if start is None or len(codes) - start != -(-pairs // 6):
        raise IncidenceError(f"this graph6 line has {len(codes)} characters, which is not what {count} nodes take: {raw[:40]!r}.")
    bits = ((codes[start:, None] >> np.arange(5, -1, -1)) & 1).reshape(-1)[:pairs]
    place = torch.from_numpy(np.flatnonzero(bits))
    firsts = torch.arange(count) * (torch.arange(count) - 1) // 2  # where the column of each node begins
    high = torch.searchsorted(firsts, place, right=True) - 1
    return count, torch.stack([place - firsts[high], high])


def _count(codes: Iterable[int]) -> tuple[int, int | None]:
    """The number of nodes, and where the bits start; None if the line ends before."""
    values = [int(c) for c in list(codes)[:8]]
    big = sum(c == 63 for c in values[:2]) if values[0] == 63 else 0
    start, length = ((0, 1), (1, 3), (2, 6))[big]
    number = 0
    for c in values[start : start + length]:
        number = number * 64 + c
    return number, start + length if len(values) >= start + length else None
