"""Graphs as examples with `i` and `{i j}`: many at once, and the reader of files: lists of edges with a file of nodes or not, graph6."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.data.readers import Read, Reader, as_float, legible
from incidence.errors import IncidenceError, need, shown
from incidence.geometry.convert.exchange import once
from incidence.geometry.convert.loose import degree_features
from incidence.structure.example import Example
from incidence.structure.ragged import ranges
from incidence.structure.structure import Structure

__all__ = ["EDGES", "GRAPH", "beside", "graphs", "label_numbers", "node_features", "read_graph6"]

EDGES = "{i j}"
_PATTERN = Pattern(EDGES)
_LONGEST = 1000  # characters of a number; a longer word is a name
_MOST_LABELS = 1 << 16  # each is a column of features


def graphs(
    sizes: Tensor,
    edges: Tensor,
    features: Tensor,
    targets: Tensor | None = None,
    edge_features: Tensor | None = None,
) -> list[Example]:
    """An example for every graph, edges in canonical order, with a column of ones unless they have features.

    Args:
        sizes: The number of nodes of every graph.
        edges: The edges of all graphs, each once and without loops, nodes numbered through; shape [2, edges].
        features: Of the nodes, [nodes, channels].
        targets: A row for each graph.
        edge_features: Of the edges, in their order; [edges, channels].
    """
    node_ptr = ranges(sizes)
    total = max(int(node_ptr[-1]), 1)
    low, high = edges.amin(0), edges.amax(0)
    order = (low * total + high).argsort(stable=True)
    ordered = torch.stack([low, high])[:, order]
    home = torch.bucketize(ordered[0].contiguous(), node_ptr[1:], right=True)
    of_edges = torch.ones(len(order), 1) if edge_features is None else edge_features[order]
    counts = torch.bincount(home, minlength=len(sizes))
    local = ordered - node_ptr[home]
    parts = zip(sizes.tolist(), counts.tolist(), local.split(counts.tolist(), dim=1), strict=True)
    # From edges in canonical order; many are made faster so than by taking a batch apart.
    structures = [
        Structure._of(
            {"node": torch.tensor([0, n])}, {_PATTERN: (part,)}, {_PATTERN: torch.tensor([0, m])}
        )
        for n, m, part in parts
    ]
    nodes, rows = features.split(sizes.tolist()), of_edges.split(counts.tolist())
    values = [None] * len(sizes) if targets is None else targets.unbind()
    every = zip(structures, nodes, rows, values, strict=True)
    return [
        Example._of(structure, {"i": x, EDGES: e}, target, False)
        for structure, x, e, target in every
    ]


def label_numbers(labels: Tensor, symbols: Sequence[int]) -> Tensor:
    """Labels as numbers 0, 1, ... in the order of the symbols; another label is refused."""
    known = torch.tensor(symbols, dtype=torch.long)
    place = torch.searchsorted(known, labels).clamp(max=max(len(symbols) - 1, 0))
    wrong = known[place] != labels if len(symbols) else torch.ones_like(labels, dtype=torch.bool)
    if bool(wrong.any()):
        bad = int(labels[wrong][0])
        raise IncidenceError(
            f"the node label {bad} is not one of {', '.join(map(str, symbols))}, the labels that this data has."
        )
    return place


def node_features(
    num_nodes: int,
    edges: Tensor,
    labels: Tensor | None = None,
    num_labels: int = 0,
    degrees: bool = True,
) -> Tensor:
    """Features of nodes, [nodes, channels]: labels one-hot, log(1 + degree), 1 / (degree + 1); a column of ones if there is nothing.

    Labels are numbers from 0; edges are listed once, [2, edges].
    """
    columns = []
    if labels is not None and num_labels:
        columns.append(torch.nn.functional.one_hot(labels, num_labels).float())
    if degrees:
        columns.append(degree_features(num_nodes, edges))
    return torch.cat(columns, dim=1) if columns else torch.ones(num_nodes, 1)


class _Line(NamedTuple):
    number: int
    words: list[str]


def read_graphs(
    path: Path,
    errors: list[IncidenceError] | None = None,
    *,
    labels: int | Sequence[int] = 0,
    degrees: bool = True,
) -> Iterator[Read]:
    """The graphs of a file: one of a list of edges, one of each line of graph6.

    Args:
        path: The file. Nodes that have no edge, labels and features stand in a file of the same name with the suffix `.nodes`.
        errors: Takes the errors of single lines of graph6; the first one is raised, if not given.
        labels: The labels that nodes may have, or their number K for 0 to K - 1; the label is then the first value of a line of nodes.
        degrees: Whether log(1 + degree) and 1 / (degree + 1) are features of the nodes.
    """
    path = Path(path)
    if isinstance(labels, int) and not 0 <= labels <= _MOST_LABELS:
        raise IncidenceError(
            f"labels is the number of node labels, from 0 to {_MOST_LABELS:,}; got {shown(labels)}."
        )
    symbols = list(range(labels)) if isinstance(labels, int) else sorted(labels)
    if path.suffix != ".g6":
        yield _read_edges(path, symbols, degrees)
        return
    if symbols:
        raise IncidenceError(
            f"{path}: graph6 has no node labels, which the network needs; give lists of edges with files of nodes."
        )
    for number, words in _lines(path):
        try:
            count, edges = read_graph6(words[0])
        except IncidenceError as error:
            problem = IncidenceError(f"{path}, line {number}: {error}")
            if errors is None:
                raise problem from None
            errors.append(problem)
            continue
        [example] = graphs(
            torch.tensor([count]), edges, node_features(count, edges, degrees=degrees)
        )
        yield Read(f"{path.name} {number}", example)


GRAPH = Reader((".edges", ".txt", ".tsv", ".csv", ".g6"), read_graphs)


def read_graph6(line: str | bytes) -> tuple[int, Tensor]:
    """The number of nodes and the edges, [2, edges] with i < j, of a graph in graph6, which NetworkX reads.

    Raises:
        IncidenceError: The text is not graph6.

    Example:
        >>> read_graph6("Bw")  # a triangle
        (3, tensor([[0, 0, 1],
                [1, 2, 2]]))
    """
    networkx = need("networkx", "reading graph6", "convert")
    raw = (line.encode() if isinstance(line, str) else line).strip().removeprefix(b">>graph6<<")
    try:
        if not all(63 <= code <= 126 for code in raw):  # NetworkX would read them as bits
            raise ValueError
        graph = networkx.from_graph6_bytes(raw)
    except (networkx.NetworkXError, ValueError, IndexError):
        raise IncidenceError(
            f"graph6 is a line of characters ? to ~, as many as its number of nodes takes; got {raw[:40]!r}."
        ) from None
    edges = torch.tensor([sorted(edge) for edge in graph.edges], dtype=torch.long).view(-1, 2)
    return len(graph), edges.T.contiguous()


def beside(path: Path) -> Path:
    """Where the file of nodes beside a list of edges is, if there is one."""
    return path.with_suffix(".nodes")


def _read_edges(path: Path, symbols: list[int], degrees: bool) -> Read:
    lines = _lines(path)
    numbered = [all(_is_integer(word) for word in line.words[:2]) for line in lines]
    if len(lines) > 1 and not numbered[0] and all(numbered[1:]):
        lines = lines[1:]  # below a line of names
    for number, words in lines:
        if len(words) < 2:
            raise IncidenceError(
                f"{path}, line {number}: an edge has two nodes; a node without edges is a line of {path.stem}.nodes."
            )
        if words[0] == words[1]:
            raise IncidenceError(
                f"{path}, line {number}: the edge joins {words[0]} to itself. Remove the loop: a graph here has none."
            )
    of_nodes = beside(path)
    nodes = _lines(of_nodes) if of_nodes.is_file() else None
    if symbols and nodes is None:
        raise IncidenceError(
            f"{path}: nodes have labels in this data, so a file {of_nodes.name} beside it must have a line for each node."
        )
    place = _places(path, of_nodes, lines, nodes)
    pairs = (
        torch.tensor([[place[word] for word in line.words[:2]] for line in lines], dtype=torch.long)
        .view(-1, 2)
        .T
    )
    # An edge may be listed in both directions, if its features agree.
    edges, values = once(
        _PATTERN, pairs, len(place), {"a feature": _values(path, lines, 2)}, str(path)
    )
    features = _node_features(of_nodes, nodes or [], len(place), edges, symbols, degrees)
    of_edges = values["a feature"] if values["a feature"].shape[1] else None
    [example] = graphs(torch.tensor([len(place)]), edges, features, edge_features=of_edges)
    return Read(path.name, example, tuple(place))


def _lines(path: Path) -> list[_Line]:
    """The words of every line that has some; what comes after # is a comment."""
    try:
        text = legible(path.read_text(encoding="utf-8-sig", errors="surrogateescape"))
    except OSError as error:
        raise IncidenceError(f"{path} cannot be read as text: {error}.") from None
    if "\0" in text:
        raise IncidenceError(
            f"{path} cannot be read as text: it has bytes that are 0. Save it as UTF-8."
        )
    split = (
        (number, line.partition("#")[0].replace(",", " ").split())
        for number, line in enumerate(text.splitlines(), 1)
    )
    return [_Line(number, words) for number, words in split if words]


def _is_integer(word: str) -> bool:
    return len(word) < _LONGEST and word.removeprefix("-").isdecimal()


def _places(
    path: Path, beside: Path, edges: list[_Line], nodes: list[_Line] | None
) -> dict[str, int]:
    """The number of every node: in the order of the file of nodes; else by number, if they are numbered; else as they come."""
    used = dict.fromkeys(word for line in edges for word in line.words[:2])
    if nodes is None:
        names = sorted(used, key=int) if all(map(_is_integer, used)) else list(used)
        return {word: number for number, word in enumerate(names)}
    known: dict[str, int] = {}
    for line in nodes:
        if line.words[0] in known:
            raise IncidenceError(
                f"{beside}, line {line.number}: the node {line.words[0]} has a line already."
            )
        known[line.words[0]] = len(known)
    missing = next((word for word in used if word not in known), None)
    if missing is not None:
        raise IncidenceError(
            f"{path}: the node {missing} has no line in {beside.name}, which must have one for each node."
        )
    return known


def _values(path: Path, lines: list[_Line], first: int) -> Tensor:
    """The numbers of lines from a given place on; shape [lines, numbers]."""
    width = len(lines[0].words) - first if lines else 0
    rows = []
    for number, words in lines:
        if len(words) - first != width:
            raise IncidenceError(
                f"{path}, line {number}: there are {len(words) - first} features, and the first line has {width}."
            )
        rows.append([as_float(word) for word in words[first:]])
        wrong = next(
            (
                word
                for word, value in zip(words[first:], rows[-1], strict=True)
                if value is None or not math.isfinite(value)
            ),
            None,
        )
        if wrong is not None:
            raise IncidenceError(
                f"{path}, line {number}: a feature is a finite number; got {wrong!r}."
            )
    return torch.tensor(rows, dtype=torch.float32).view(len(lines), width)


def _node_features(
    path: Path, nodes: list[_Line], count: int, edges: Tensor, symbols: list[int], degrees: bool
) -> Tensor:
    """Labels one-hot, if there are any; then the other numbers of the file; then degrees. A column of ones if there is nothing."""
    values = _values(path, nodes, 1) if nodes else torch.zeros(count, 0)
    if not symbols and not values.shape[1]:
        return node_features(count, edges, degrees=degrees)
    columns = [values]
    if symbols:
        if not values.shape[1] or bool((values[:, 0] != values[:, 0].round()).any()):
            raise IncidenceError(f"{path}: the first value of a node is its label, an integer.")
        try:
            numbers = label_numbers(values[:, 0].long(), symbols)
        except IncidenceError as error:
            raise IncidenceError(f"{path}: {error}") from None
        columns = [torch.nn.functional.one_hot(numbers, len(symbols)).float(), values[:, 1:]]
    if degrees:
        columns.append(node_features(count, edges))
    return torch.cat(columns, dim=1)
