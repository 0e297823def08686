"""Graphs as examples with `i` and `{i j}`: many at once, and from lists of edges and graph6."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.data.dataset import Record
from incidence.data.tables import Line, as_float, legible
from incidence.errors import IncidenceError, need, shown
from incidence.geometry.convert.edge_lists import strict_entries
from incidence.geometry.convert.pyg_lenient import degree_features
from incidence.structure.example import Example
from incidence.structure.ragged import ranges
from incidence.structure.structure import Structure

__all__ = [
    "EDGES",
    "graphs",
    "label_numbers",
    "node_features",
    "node_file",
    "read_graph6",
    "read_graphs",
]

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
    """Return an example for every graph, with edges in canonical order.

    Args:
        sizes: The number of nodes of every graph.
        edges: The edges of all graphs, each once and without loops, shape [2, edges]. The nodes
            are numbered through all graphs.
        features: Features of the nodes, [nodes, channels].
        targets: A row for each graph.
        edge_features: Features of the edges, [edges, channels]; a column of ones if None.
    """
    node_ptr = ranges(sizes)
    total = max(int(node_ptr[-1]), 1)
    low, high = edges.amin(0), edges.amax(0)
    # The code of a pair (low, high) is one number, so that one sort gives the canonical order.
    order = (low * total + high).argsort(stable=True)
    ordered = torch.stack([low, high])[:, order]  # (2, edges)
    if edge_features is None:
        edge_features = torch.ones(len(order), 1)
    home = torch.bucketize(
        ordered[0].contiguous(), node_ptr[1:], right=True
    )  # the graph of an edge
    counts = torch.bincount(home, minlength=len(sizes)).tolist()
    local = (ordered - node_ptr[home]).split(counts, dim=1)  # (2, edges of a graph) each
    # Edges in canonical order need no validation: this is faster than taking a batch apart.
    structures = [
        Structure._of(
            {"node": torch.tensor([0, n])}, {_PATTERN: (part,)}, {_PATTERN: torch.tensor([0, m])}
        )
        for n, m, part in zip(sizes.tolist(), counts, local, strict=True)
    ]
    nodes, rows = features.split(sizes.tolist()), edge_features[order].split(counts)  # by graph
    values = [None] * len(sizes) if targets is None else targets.unbind()
    return [
        Example._of(structure, {"i": x, EDGES: e}, target, False)
        for structure, x, e, target in zip(structures, nodes, rows, values, strict=True)
    ]


def label_numbers(labels: Tensor, symbols: Sequence[int]) -> Tensor:
    """Return labels as numbers 0, 1, ... in the order of the symbols.

    Raises:
        IncidenceError: A label is none of the symbols.
    """
    known = torch.tensor(symbols, dtype=torch.long)
    # A label after the last symbol would point behind the list; the comparison below refuses it.
    place = torch.searchsorted(known, labels).clamp(max=max(len(symbols) - 1, 0))
    wrong = labels[known[place] != labels] if len(symbols) else labels
    if len(wrong):
        raise IncidenceError(
            f"the node label {int(wrong[0])} is not one of {', '.join(map(str, symbols))}, the"
            " labels that this data has."
        )
    return place


def node_features(
    num_nodes: int,
    edges: Tensor,
    labels: Tensor | None = None,
    num_labels: int = 0,
    degrees: bool = True,
) -> Tensor:
    """Return features of nodes, [nodes, channels].

    The columns are the labels one-hot, then log(1 + degree) and 1 / (degree + 1); or a column of
    ones if there are neither labels nor degrees.

    Args:
        num_nodes: The number of nodes.
        edges: The edges, each once, [2, edges].
        labels: The labels of the nodes, as numbers from 0.
        num_labels: How many labels there are.
        degrees: Whether degrees are features.
    """
    columns = []
    if labels is not None and num_labels:
        columns.append(torch.nn.functional.one_hot(labels, num_labels).float())
    if degrees:
        columns.append(degree_features(num_nodes, edges))
    return torch.cat(columns, dim=1) if columns else torch.ones(num_nodes, 1)


def read_graphs(
    path: Path,
    errors: list[IncidenceError] | None = None,
    *,
    labels: int | Sequence[int] = 0,
    degrees: bool = True,
) -> Iterator[Record]:
    """Read the graph of a list of edges, or the graphs of a graph6 file, one in each line.

    Args:
        path: The file. A file of the same name with the suffix `.nodes` may list the nodes with
            their labels and features; it must list nodes that have no edge.
        errors: Collects the errors of single lines of graph6; the first one is raised if None.
        labels: The labels that nodes may have, or their number K for 0 to K - 1. The label is then
            the first value of a line of nodes.
        degrees: Whether log(1 + degree) and 1 / (degree + 1) are features of the nodes.

    Raises:
        IncidenceError: The file cannot be read, or its edges do not make a graph.
    """
    path = Path(path)
    if isinstance(labels, int) and not 0 <= labels <= _MOST_LABELS:
        raise IncidenceError(
            f"labels is the number of node labels, from 0 to {_MOST_LABELS:,}; got {shown(labels)}."
        )
    # sorted, for a binary search
    symbols = list(range(labels)) if isinstance(labels, int) else sorted(labels)
    if path.suffix != ".g6":
        yield _read_edges(path, symbols, degrees)
        return
    if symbols:
        raise IncidenceError(
            f"{path}: graph6 has no node labels, which the network needs; give lists of edges with"
            " files of nodes."
        )
    for number, words in _lines(path):
        try:
            num_nodes, edges = read_graph6(words[0])
        except IncidenceError as error:
            problem = IncidenceError(f"{path}, line {number}: {error}")
            if errors is None:
                raise problem from None
            errors.append(problem)
            continue
        features = node_features(num_nodes, edges, degrees=degrees)
        [example] = graphs(torch.tensor([num_nodes]), edges, features)
        yield Record(f"{path.name} {number}", example)


def read_graph6(line: str | bytes) -> tuple[int, Tensor]:
    """Return the number of nodes and the edges, [2, edges] with i < j, of a graph in graph6.

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
            "graph6 is a line of characters ? to ~, as many as its number of nodes takes; got"
            f" {raw[:40]!r}."
        ) from None
    edges = torch.tensor([sorted(edge) for edge in graph.edges], dtype=torch.long).view(-1, 2)
    return len(graph), edges.T.contiguous()


def node_file(path: Path) -> Path:
    """Return the path of the file of nodes that belongs to a list of edges."""
    return path.with_suffix(".nodes")


def _read_edges(path: Path, symbols: list[int], degrees: bool) -> Record:
    lines = _lines(path)
    are_numbered = [all(_is_integer(word) for word in line.words[:2]) for line in lines]
    if len(lines) > 1 and not are_numbered[0] and all(are_numbered[1:]):
        lines = lines[1:]  # the first line names the columns
    _assert_edges(path, lines)
    nodes_path = node_file(path)
    nodes = _lines(nodes_path) if nodes_path.is_file() else None
    if symbols and nodes is None:
        raise IncidenceError(
            f"{path}: nodes have labels in this data, so there must be a file {nodes_path.name}"
            " beside it, with a line for each node."
        )
    place = _places(path, nodes_path, lines, nodes)
    ends = [[place[word] for word in line.words[:2]] for line in lines]
    pairs = torch.tensor(ends, dtype=torch.long).view(-1, 2).T  # (2, lines)
    # An edge may be listed in both directions, if its features agree.
    edges, values = strict_entries(
        _PATTERN, pairs, len(place), {"a feature": _values(path, lines, 2)}, str(path)
    )
    edge_features = values["a feature"] if values["a feature"].shape[1] else None
    features = _node_features(nodes_path, nodes or [], len(place), edges, symbols, degrees)
    [example] = graphs(torch.tensor([len(place)]), edges, features, edge_features=edge_features)
    return Record(path.name, example, tuple(place))


def _assert_edges(path: Path, lines: Sequence[Line]) -> None:
    for number, words in lines:
        if len(words) < 2:
            raise IncidenceError(
                f"{path}, line {number}: an edge has two nodes; a node without edges is a line of"
                f" {path.stem}.nodes."
            )
        if words[0] == words[1]:
            raise IncidenceError(
                f"{path}, line {number}: the edge joins {words[0]} to itself. Remove the loop: a"
                " graph here has none."
            )


def _lines(path: Path) -> list[Line]:
    """Return the words of every line that has some; a comment begins with #."""
    try:
        text = legible(path.read_text(encoding="utf-8-sig", errors="surrogateescape"))
    except OSError as error:
        raise IncidenceError(f"{path} cannot be read as text: {error}.") from None
    if "\0" in text:
        raise IncidenceError(
            f"{path} cannot be read as text: it has bytes that are 0. Save it as UTF-8."
        )
    lines = [
        Line(number, line.partition("#")[0].replace(",", " ").split())
        for number, line in enumerate(text.splitlines(), 1)
    ]
    return [line for line in lines if line.words]


def _is_integer(word: str) -> bool:
    return len(word) < _LONGEST and word.removeprefix("-").isdecimal()


def _places(
    path: Path, nodes_path: Path, edges: list[Line], nodes: list[Line] | None
) -> dict[str, int]:
    """Return the number of every node.

    The order is that of the file of nodes; without one, by number if all nodes are numbers, else as
    they come.
    """
    used = dict.fromkeys(word for line in edges for word in line.words[:2])
    if nodes is None:
        names = sorted(used, key=int) if all(map(_is_integer, used)) else list(used)
        return {word: number for number, word in enumerate(names)}
    places: dict[str, int] = {}
    for line in nodes:
        if line.words[0] in places:
            raise IncidenceError(
                f"{nodes_path}, line {line.number}: the node {line.words[0]} has a line already."
            )
        places[line.words[0]] = len(places)
    missing = next((word for word in used if word not in places), None)
    if missing is not None:
        raise IncidenceError(
            f"{path}: the node {missing} has no line in {nodes_path.name}, which must have one for"
            " each node."
        )
    return places


def _values(path: Path, lines: list[Line], first: int) -> Tensor:
    """Return the numbers of lines from a given place on, [lines, numbers]."""
    width = len(lines[0].words) - first if lines else 0
    rows = []
    for number, words in lines:
        if len(words) - first != width:
            raise IncidenceError(
                f"{path}, line {number}: there are {len(words) - first} features, and the first"
                f" line has {width}."
            )
        row = [as_float(word) for word in words[first:]]
        for word, value in zip(words[first:], row, strict=True):
            if value is None or not math.isfinite(value):
                raise IncidenceError(
                    f"{path}, line {number}: a feature is a finite number; got {word!r}."
                )
        rows.append(row)
    return torch.tensor(rows, dtype=torch.float32).view(len(lines), width)


def _node_features(
    path: Path, nodes: list[Line], count: int, edges: Tensor, symbols: list[int], degrees: bool
) -> Tensor:
    """Return labels one-hot, if there are any, then the other numbers of the file, then degrees."""
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
