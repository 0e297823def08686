"""The rows of a database as tensors: nodes and faces, when they become known, and their columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from string import ascii_letters
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from incidence.data.database import KeyedTable
from incidence.data.dates import as_times
from incidence.data.row_encoding import Encoding, encoding_of

__all__ = [
    "FaceRows",
    "NodeRows",
    "encode",
    "encodings_of",
    "face_rows",
    "node_of",
    "sort_of",
    "times_of",
]


class NodeRows(NamedTuple):
    """The rows of a table that others refer to.

    Attributes:
        number: The number of a row by its key.
        features: Static features of rows, [rows, channels].
        times: When rows become known, [rows]; minus infinity for rows without a time.
    """

    number: dict[str, int]
    features: Tensor
    times: np.ndarray[Any, Any]


class FaceRows(NamedTuple):
    """The rows of a table, each joining nodes of several sorts.

    Attributes:
        pattern: The tensor.
        columns: The foreign keys, in the order of its letters.
        sorts: The sorts that they refer to.
        nodes: The nodes of rows, [rows, letters].
        features: Static features of rows, [rows, channels].
        times: When rows become known, [rows].
        by_node: For each column, the rows of each node, by time.
        by_nodes: The rows with the same nodes.
    """

    pattern: str
    columns: list[str]
    sorts: list[str]
    nodes: np.ndarray[Any, Any]
    features: Tensor
    times: np.ndarray[Any, Any]
    by_node: list[dict[int, np.ndarray[Any, Any]]]
    by_nodes: dict[tuple[int, ...], list[int]]


def sort_of(name: str) -> str:
    """Return a table's name as a sort."""
    word = "".join(letter if letter.isalnum() and letter.isascii() else "_" for letter in name)
    return word if word[:1].isalpha() else f"t{word}"


def node_of(name: str, sorts: Iterable[str], number: int = 0) -> str:
    """Return a node of a sort: in a map, every letter belongs to one sort."""
    letter = ascii_letters[list(sorts).index(name) % len(ascii_letters)]
    return f"{letter}{number or ''}:{sort_of(name)}"


def times_of(one: KeyedTable) -> np.ndarray[Any, Any]:
    """Return when every row is known: never, if the table has times and this row none."""
    if not one.time:
        return np.full(len(one.table), -np.inf)
    times = as_times(one.table.source, one.time, one.table[one.time]).numpy()
    # A row without a time might be of the future, so it is never read.
    return np.where(np.isnan(times), np.inf, times)


def encodings_of(one: KeyedTable, is_known: np.ndarray[Any, Any]) -> list[Encoding]:
    rows = np.flatnonzero(is_known).tolist()
    found = [encoding_of(name, [one.table[name][k] for k in rows]) for name in one.others]
    return [encoding for encoding in found if encoding is not None]


def encode(one: KeyedTable, encodings: Sequence[Encoding]) -> Tensor:
    parts = [encoding.features(one.table[encoding.name]) for encoding in encodings]
    for encoding, x in zip(encodings, parts, strict=True):
        if encoding.kind == "date":
            x[:, 0] /= 3652.5  # decades
    return (
        torch.cat([torch.ones(len(one.table), 1), *parts], 1)
        if parts
        else torch.ones(len(one.table), 1)
    )


def face_rows(
    one: KeyedTable,
    x: Tensor,
    times: np.ndarray[Any, Any],
    sorts: Mapping[str, NodeRows],
    is_node: bool,
) -> FaceRows:
    columns, others = list(one.foreign), list(one.foreign.values())
    nodes = [
        [sorts[other].number.get(text, -1) for text in one.table[column]]
        for column, other in one.foreign.items()
    ]
    if is_node:  # a row is a node itself
        columns, others = [one.primary, *columns], [one.name, *others]
        nodes = [list(range(len(one.table))), *nodes]
    seen: Counter[str] = Counter()
    letters = []
    for other in others:
        letters.append(node_of(other, sorts, seen[other]))  # two keys to one sort are two letters
        seen[other] += 1
    # (rows, letters), -1 for unknown
    table = np.array(nodes, dtype=np.int64).T.reshape(len(one.table), len(others))
    # By time, so that a binary search in a list of rows ends at the present.
    order = np.argsort(times, kind="stable")
    by_node: list[dict[int, np.ndarray[Any, Any]]] = []
    for k in range(len(others)):
        lists: dict[int, list[int]] = {}
        for row in order.tolist():
            if np.isfinite(times[row]) or times[row] < 0:
                lists.setdefault(int(table[row, k]), []).append(row)
        by_node.append({node: np.array(rows) for node, rows in lists.items() if node >= 0})
    by_nodes: dict[tuple[int, ...], list[int]] = {}
    for row in order.tolist():
        by_nodes.setdefault(tuple(table[row].tolist()), []).append(row)
    pattern = f"{sort_of(one.name)}={' '.join(letters)}"
    return FaceRows(pattern, columns, others, table, x, times, by_node, by_nodes)
