"""Graphs and hypergraphs whose links are to be predicted, from whatever people have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from os.path import exists, expanduser
from pathlib import Path
from typing import Any, NamedTuple

import torch

from incidence.data.arrays import graph_of_arrays, has_arrays
from incidence.data.columns import as_features, columns_of, find_column
from incidence.data.completion import FOLDS
from incidence.data.dataset import DataSet
from incidence.data.examples_file import with_floats
from incidence.data.links import links_of
from incidence.data.node_tables import IDS, edge_columns, read_graph
from incidence.data.pyg import MASKS, graphs_of, is_pyg
from incidence.data.rating_tables import are_measured, called_keys, of_nodes, read_pairs
from incidence.data.tables import (
    Table,
    is_frame,
    is_table,
    numbered,
    open_text,
    table_of,
    without_comment,
)
from incidence.data.tabular import NODES, beside, read_any
from incidence.data.targets import is_split, read_parts
from incidence.errors import IncidenceError, shown
from incidence.geometry.convert.pyg import NO_TARGET
from incidence.structure.example import Example
from incidence.structure.structure import Structure

__all__ = ["load_links"]

_OPTIONS = ("nodes", "directed", "hyperedges", "keys", "links", "negatives", "folds")
_ENOUGH = 20  # rows, by which columns without a node in common are of two sorts


class _Found(NamedTuple):
    """A graph or hypergraph, the names of its nodes, the part of each link if that is told, and what was passed over."""

    name: str
    example: Example
    names: Sequence[str] | Mapping[str, Sequence[str]] | None = None
    parts: Sequence[int] | None = None
    passed_over: Sequence[str] = ()
    keys: tuple[str, ...] = ("source", "target")


def load_links(what: Any, load: Callable[[Any], DataSet], seed: int = 0, **options: Any) -> DataSet:
    """The links of a graph or hypergraph as data: they are held out, asked for, and drawn beside others that are not there.

    Args:
        what: The path of a table of edges, of lines of hyperedges, of an `.npz` file, or of a folder with `edges.csv` and `nodes.csv`; data
            frames; a graph of PyG; an `Example`; a `DataSet`, or the name of one.
        load: What makes a data set of a name.
        seed: Of what is drawn.
        options: `nodes` (tables of features of the nodes), `directed`, `hyperedges` (whether a line of a file is a set of nodes), `links`
            (the tensor of an example), `keys` (the two columns of a table whose nodes are of two sorts), `negatives` (how many absent links
            for each), `folds`.

    Raises:
        IncidenceError: It is no single graph, or has no links.
    """
    unknown = next((key for key in options if key not in _OPTIONS), None)
    if unknown is not None:
        raise IncidenceError(f"links have no option `{unknown}`: they take {', '.join(_OPTIONS)}.")
    found = _found(what, load, options)
    data = links_of(
        found.name,
        found.example,
        names=found.names,
        links=options.get("links"),
        negatives=_whole("negatives", options.get("negatives", 1), 1),
        folds=_whole("folds", options.get("folds", FOLDS), 2),
        seed=seed,
        parts=found.parts,
        keys=found.keys,
    )
    return DataSet(**{**vars(data), "passed_over": tuple(found.passed_over)})


def _whole(key: str, value: object, least: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise IncidenceError(
            f"the option `{key}` of links is a whole number, at least {least}; got {value!r}."
        )
    return value


def _found(what: Any, load: Callable[[Any], DataSet], options: Mapping[str, Any]) -> _Found:
    if isinstance(what, (str, PathLike)) and exists(expanduser(what)):
        return _of_path(Path(expanduser(what)), options)
    if isinstance(what, (str, DataSet)):
        data = load(what)
        if len(data.examples) != 1:
            raise IncidenceError(
                f"links are predicted within one graph, and {data.name!r} has {len(data.examples)} examples."
            )
        names = data.names if len(data.names) == data.examples[0].structure.total_nodes else None
        return _Found(data.name, data.examples[0], names)
    if is_frame(what) or (isinstance(what, Mapping) and what and all(map(is_frame, what.values()))):
        frames = what if isinstance(what, Mapping) else {"edges": what}
        return _of_tables(
            "frame",
            {str(k): table_of(frame, f"the DataFrame {k!r}") for k, frame in frames.items()},
            options,
        )
    if is_pyg(what):
        found = graphs_of(
            what, MASKS, NO_TARGET, completes=False, stacklevel=6
        )  # degrees would tell
        if len(found) != 1 or found[0].num_structures != 1:
            raise IncidenceError(
                f"links are predicted within one graph; got {sum(one.num_structures for one in found)} graphs of PyG."
            )
        return _Found("pyg", with_floats(found[0]))
    if isinstance(what, Example) and not what.is_batch:
        return _Found("example", with_floats(what))
    raise IncidenceError(
        f"links are those of one graph: a path, data frames, a graph of PyG or an Example; got {type(what).__name__}."
    )


def _of_path(path: Path, options: Mapping[str, Any]) -> _Found:
    name = path.name.partition(".")[0]
    if path.is_dir():
        files = [file for file in sorted(path.iterdir()) if file.suffix in (".csv", ".tsv")]
        return _of_tables(
            path.resolve().name, {file.stem: read_any(file) for file in files}, options
        )
    if path.suffix == ".npz":
        return _Found(
            name,
            graph_of_arrays(path)
            if has_arrays(path, needs_labels=False)
            else with_floats(Example.load(path)),
        )
    if "hyperedges" not in options and _are_edges(path):
        return _of_tables(name, {"edges": read_any(path)}, options)
    lines = _lines(path)
    if options.get("hyperedges", _are_sets([words for _, words in lines])):
        return _of_sets(name, path, lines, options)
    try:
        return _of_tables(name, {"edges": read_any(path)}, options)
    except IncidenceError as error:
        has_more = any(len(words) > 2 for _, words in lines)
        hint = (
            " If every line is a set of nodes, say so: --data-options hyperedges=true."
            if has_more
            else ""
        )
        raise IncidenceError(f"{error}{hint}") from error


def _are_sets(lines: Sequence[Sequence[str]]) -> bool:
    """Whether lines are sets of nodes: they differ in length, or have more than two words, the third of which are names of nodes, too."""
    thirds = {words[2] for words in lines if len(words) > 2}
    ends = {word for words in lines for word in words[:2]}
    return len({len(words) for words in lines}) > 1 or (
        bool(thirds & ends) and not any(word.isdecimal() for word in thirds)
    )


def _are_edges(path: Path) -> bool:
    """Whether a file is a table of edges by its name and columns: names in it may have blanks and commas, and values may be missing."""
    if not is_table(path):
        return False
    try:
        table = read_any(path)
    except IncidenceError:  # lines of different length
        return False
    return edge_columns(table) is not None or (
        len(table.columns) == 2 and all(all(texts) for texts in table.columns.values())
    )


def _lines(path: Path) -> list[tuple[int, list[str]]]:
    """The words of every line that has some, however they are divided, with its number."""
    with open_text(path) as file:
        split = (
            (number, without_comment(line).translate(_BLANKS).split())
            for number, line in enumerate(file, 1)
        )
        return [(number, words) for number, words in split if words]


_BLANKS = str.maketrans(",;\t", "   ")


def _of_tables(name: str, tables: Mapping[str, Table], options: Mapping[str, Any]) -> _Found:
    """A graph from a table of edges, and perhaps one of nodes."""
    given = [*beside(options.get("nodes"), "nodes").values()]
    nodes = next(
        (table for key, table in tables.items() if key.lower() in NODES),
        given[0] if given else None,
    )
    others = [table for table in tables.values() if table is not nodes]
    if len(others) != 1:
        raise IncidenceError(
            f"{name}: links are in one table of edges, beside one of nodes; got {', '.join(tables) or 'no table'}."
        )
    [edges] = others
    ends = edge_columns(edges) or tuple(list(edges.columns)[:2])
    measured = next((end for end in ends if are_measured(edges[end])), None)
    if measured is not None:
        raise IncidenceError(
            f"{edges.source}: the column `{measured}` has numbers that are not whole, and names no nodes of links."
        )
    keys = _keys(edges, nodes, options)
    if keys is not None:
        return _of_two_sorts(name, edges, keys, beside(options.get("nodes"), "nodes"))
    found = read_graph(edges, nodes, directed=bool(options.get("directed", False)), degrees=False)
    parts, told = None, read_parts(edges)
    if told is not None:
        place = {node: k for k, node in enumerate(found.names)}
        pairs = [
            (place.get(a, -1), place.get(b, -1), part)
            for a, b, part in zip(edges[ends[0]], edges[ends[1]], told, strict=True)
        ]
        kept = [(a, b, part) for a, b, part in pairs if a != b and min(a, b) >= 0]
        rows = found.structure.locate(
            found.edges, torch.tensor([[a, b] for a, b, _ in kept]).T.contiguous()
        )
        by_row = {
            row: part
            for row, (_, _, part) in zip(reversed(rows.tolist()), reversed(kept), strict=True)
        }
        parts = [by_row[row] for row in range(found.structure.num_entries(found.edges))]
    keys = (str(ends[0]), str(ends[1])) if edges.has_names else ("source", "target")
    return _Found(
        name, Example(found.structure, found.features), found.names, parts, found.passed_over, keys
    )


def _keys(edges: Table, nodes: Table | None, options: Mapping[str, Any]) -> tuple[str, ...] | None:
    """The columns whose nodes are of two sorts, so that no links are within one; None if all nodes are of one sort.

    Those asked for; those that are called so, as `user` and `movie`; or the first two, if they have other names than those of ends and of
    enough rows no node is in both.
    """
    asked = options.get("keys")
    if asked:
        found = tuple(edges.named(name) for name in ([asked] if isinstance(asked, str) else asked))
        if len(set(found)) != 2:
            raise IncidenceError(
                f"{edges.source}: a link has two ends, as in --keys user movie; got {', '.join(found)}."
            )
        return found
    if (
        not edges.has_names
        or edge_columns(edges) is not None
        or options.get("directed")
        or len(edges.columns) < 2
    ):
        return None
    first, second, *_ = edges.columns
    are_apart = (
        nodes is None and len(edges) >= _ENOUGH and not set(edges[first]) & set(edges[second])
    )
    return called_keys(list(edges.columns)) or ((first, second) if are_apart else None)


def _of_two_sorts(
    name: str, table: Table, keys: tuple[str, ...], others: Mapping[str, Table]
) -> _Found:
    """Links between nodes of two sorts, with further tables about either."""
    found = read_pairs(table, keys, others)
    structure = Structure(
        found.context.structure.counts, {**_index(found.context), found.pattern: found.places}
    )
    told = [name for name in found.table.columns if name not in keys and not is_split(name)]
    features = {
        **found.context.features,
        found.pattern: as_features(found.table, columns_of(found.table, told)),
    }
    return _Found(
        name,
        Example(structure, features),
        found.names,
        read_parts(found.table),
        found.passed_over,
        keys,
    )


def _index(example: Example) -> dict[str, Any]:
    return {str(pattern): example.structure[pattern] for pattern in example.structure.patterns}


def _of_sets(
    name: str, path: Path, lines: Sequence[tuple[int, list[str]]], options: Mapping[str, Any]
) -> _Found:
    """A hypergraph from lines, each a set of nodes by name; sets of one node, and those that come again, are passed over."""
    first: dict[frozenset[str], int] = {}
    wrong = []
    for number, words in lines:
        own = frozenset(words)
        if len(own) < 2 or first.setdefault(own, number) != number:
            why = "has one node only" if len(own) < 2 else f"is there already, in line {first[own]}"
            wrong.append(f"{path}, line {number}: the hyperedge {why}.")
    tables = [*beside(options.get("nodes"), "nodes").values()]
    key = str(find_column(tables[0], IDS, 0)) if tables else ""
    names = numbered(
        [*(tables[0][key] if tables else ()), *(word for _, words in lines for word in words)]
    )
    place = {node: k for k, node in enumerate(names)}
    members = [
        [place[word], number]
        for number, own in enumerate(first)
        for word in sorted(own, key=place.__getitem__)
    ]
    if not members:
        raise IncidenceError(
            f"{shown(str(path))} has no hyperedge: a line is a set of nodes, two or more."
        )
    structure = Structure(len(names), {"{i ...}": torch.tensor(members).T.contiguous()})
    x = of_nodes(tables[0], key, names) if tables else torch.zeros(len(names), 0)
    return _Found(name, Example(structure, {"i": x}), names, None, wrong)
