"""Graphs and hypergraphs whose links are to be predicted, from files, tables, PyG and examples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from os import PathLike
from os.path import exists, expanduser
from pathlib import Path
from typing import Any

import torch

from incidence.data.columnar import is_columnar
from incidence.data.columns import PARTS, find_column, is_split, read_parts
from incidence.data.completion import FOLDS
from incidence.data.dataset import DataSet
from incidence.data.dataset_builder import with_floats
from incidence.data.feature_columns import as_features, columns_of
from incidence.data.hypergraph_examples import hyperedges_of
from incidence.data.hypergraph_tables import (
    HypergraphTables,
    find_hypergraph,
    hif_tables,
    is_hif,
)
from incidence.data.links import LinkGraph, links_of
from incidence.data.node_tables import IDS, GraphTable, edge_columns, read_graph
from incidence.data.npz_files import graph_of_arrays, has_arrays
from incidence.data.pair_tables import are_measured, features_of_nodes, read_pairs, usual_keys
from incidence.data.pyg import MASKS, graphs_of, is_pyg
from incidence.data.table_kinds import NODE_TABLES, beside, read_any, tables_of
from incidence.data.tables import (
    SUFFIXES,
    Line,
    TextTable,
    are_frames,
    is_frame,
    is_table,
    join_parts,
    open_text,
    read_table,
    sorted_names,
    without_comment,
)
from incidence.data.triples import (
    NEGATIVES,
    TripleColumns,
    find_triples,
    triples_of,
    with_header,
)
from incidence.errors import IncidenceError, shown
from incidence.geometry.convert.pyg_graphs import NO_TARGET
from incidence.structure.example import Example
from incidence.structure.structure import Structure

__all__ = ["load_links"]

_OPTIONS = ("nodes", "directed", "hyperedges", "keys", "links", "negatives", "folds")
_TEXTS = (".txt", ".dat", ".data", ".tab", ".nt")
_MANY_ROWS = 20  # so many rows without a node in both columns have nodes of two sorts


def load_links(what: Any, load: Callable[[Any], DataSet], seed: int = 0, **options: Any) -> DataSet:
    """Return the links of a graph or hypergraph as a data set.

    Args:
        what: The path of a table of edges, of lines of hyperedges, of an `.npz` file, or of a
            folder with `edges.csv` and `nodes.csv`; data frames; a graph of PyG; an `Example`; a
            `DataSet`, or the name of one.
        load: Loads a named data set.
        seed: Seed of what is drawn.
        options: `nodes` (tables with features of the nodes), `directed`, `hyperedges` (whether a
            line of a file is a set of nodes), `links` (the tensor of an example), `keys` (the two
            columns of a table whose nodes are of two sorts), `negatives` (how many absent links
            for each), `folds`.

    Raises:
        IncidenceError: It is no single graph, or has no links.
    """
    unknown = next((name for name in options if name not in _OPTIONS), None)
    if unknown is not None:
        raise IncidenceError(f"links have no option `{unknown}`: they take {', '.join(_OPTIONS)}.")
    folds = _whole_number(options, "folds", FOLDS, least=2)
    triples = _triples_in(what, options)
    if triples is not None:
        negatives = _whole_number(options, "negatives", NEGATIVES, least=1)
        return triples_of(*triples, negatives=negatives, folds=folds, seed=seed)
    return links_of(
        _graph_of(what, load, options),
        links=options.get("links"),
        negatives=_whole_number(options, "negatives", 1, least=1),
        folds=folds,
        seed=seed,
    )


def _triples_in(
    what: Any, options: Mapping[str, Any]
) -> tuple[str, TextTable, TripleColumns] | None:
    """Return the name of the data, its table of typed triples, and the columns; None if none."""
    if "hyperedges" in options or options.get("directed"):
        return None
    tables: dict[str, TextTable] = {}
    if isinstance(what, (str, PathLike)) and exists(expanduser(what)):
        path = Path(expanduser(what)).resolve()
        name = path.name.partition(".")[0]
        tables = _tables_of_triples(path)
        tables = {key: with_header(table, tables.values()) for key, table in tables.items()}
    elif are_frames(what):
        name, tables = "frame", tables_of(what)
    if len(tables) > 1 and all(key.lower() in PARTS for key in tables):
        tables = {name: join_parts(tables)}
    if len(tables) != 1:
        return None
    given = options.get("keys") or ()
    [table] = tables.values()
    columns = find_triples(table, [given] if isinstance(given, str) else list(given))
    return None if columns is None else (name, table, columns)


def _tables_of_triples(path: Path) -> dict[str, TextTable]:
    """Return the tables of a file, or of the parts in a folder, with unnamed columns."""
    files = [path]
    if path.is_dir():
        texts = (*SUFFIXES, *_TEXTS)
        every = [file for file in sorted(path.iterdir()) if file.name.lower().endswith(texts)]
        files = [file for file in every if file.name.partition(".")[0].lower() in PARTS]
        files = files or [file for file in every if is_table(file)]
    elif not path.name.lower().endswith((*SUFFIXES, *_TEXTS)):
        return {}
    tables = {}
    for file in files:
        # lines of different lengths are no triples, and are read otherwise
        with suppress(IncidenceError):
            if is_columnar(file):
                table = read_table(file)
            else:
                table = read_table(file, has_names=lambda first, others: False)
            tables[file.name.partition(".")[0]] = table
    # One file that is no table, and the folder is read in another way.
    return tables if len(tables) == len(files) else {}


def _whole_number(options: Mapping[str, Any], name: str, default: int, least: int) -> int:
    value = options.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise IncidenceError(
            f"the option `{name}` of links is a whole number, at least {least}; got {value!r}."
        )
    return value


def _graph_of(what: Any, load: Callable[[Any], DataSet], options: Mapping[str, Any]) -> LinkGraph:
    if isinstance(what, (str, PathLike)) and exists(expanduser(what)):
        return _of_path(Path(expanduser(what)), options)
    if isinstance(what, (str, DataSet)):
        return _of_data_set(load(what))
    if are_frames(what):
        frames = {"edges": what} if is_frame(what) else what
        return _of_tables("frame", tables_of(frames), options)
    if is_pyg(what):
        # without degrees as features: they count the links that are queried
        graphs = graphs_of(what, MASKS, NO_TARGET, completes=False, stacklevel=7)
        count = sum(one.num_structures for one in graphs)
        if count != 1:
            raise IncidenceError(
                f"links are predicted within one graph; got {count} graphs of PyG."
            )
        return LinkGraph("pyg", with_floats(graphs[0]))
    if isinstance(what, Example) and not what.is_batch:
        return LinkGraph("example", with_floats(what))
    raise IncidenceError(
        "links are those of one graph: a path, data frames, a graph of PyG or an Example; got"
        f" {type(what).__name__}."
    )


def _of_data_set(data: DataSet) -> LinkGraph:
    if len(data.examples) != 1:
        raise IncidenceError(
            f"links are predicted within one graph, and {data.name!r} has {len(data.examples)}"
            " examples."
        )
    [example] = data.examples
    are_of_nodes = len(data.names) == example.structure.total_nodes
    return LinkGraph(data.name, example, data.names if are_of_nodes else None)


def _of_path(path: Path, options: Mapping[str, Any]) -> LinkGraph:
    if path.is_dir():
        files = [file for file in sorted(path.iterdir()) if is_table(file)]
        tables = {file.name.partition(".")[0]: read_any(file) for file in files}
        return _of_tables(path.resolve().name, tables, options)
    name = path.name.partition(".")[0]
    if path.suffix == ".npz":
        if has_arrays(path, needs_labels=False):
            return LinkGraph(name, graph_of_arrays(path))
        return LinkGraph(name, with_floats(Example.load(path)))
    hypergraph = _hypergraph_in(path, options)
    if hypergraph is not None:
        example, names, skipped = hyperedges_of(hypergraph)
        return LinkGraph(name, example, names, None, skipped)
    if is_columnar(path) or ("hyperedges" not in options and _is_edge_table(path)):
        return _of_tables(name, {"edges": read_any(path)}, options)
    lines = _lines(path)
    if options.get("hyperedges", _are_sets([line.words for line in lines])):
        return _of_sets(name, path, lines, options)
    try:
        return _of_tables(name, {"edges": read_any(path)}, options)
    except IncidenceError as error:
        hint = ""
        if any(len(line.words) > 2 for line in lines):
            hint = " If every line is a set of nodes, say so: `--data-options hyperedges=true`."
        raise IncidenceError(f"{error}{hint}") from error


def _hypergraph_in(path: Path, options: Mapping[str, Any]) -> HypergraphTables | None:
    """Return the tables of a HIF file, or of a table of incidences; None for other files."""
    if is_hif(path):
        return hif_tables(path)
    if not is_table(path) or {"hyperedges", "keys"} & options.keys():
        return None
    with suppress(IncidenceError):  # lines of different lengths
        tables = {"incidences": read_any(path)}
        nodes = next(iter(beside(options.get("nodes"), "nodes").values()), None)
        return find_hypergraph(tables if nodes is None else {**tables, "nodes": nodes})
    return None


def _lines(path: Path) -> list[Line]:
    """Return the words of every line that has some, whatever divides them."""
    with open_text(path) as file:
        lines = [
            Line(number, without_comment(line).translate(_BLANKS).split())
            for number, line in enumerate(file, 1)
        ]
    return [line for line in lines if line.words]


_BLANKS = str.maketrans(",;\t", "   ")


def _are_sets(lines: Sequence[Sequence[str]]) -> bool:
    """Return whether lines are sets of nodes.

    They are if they differ in length, or if their third words are names of nodes, too.
    """
    if len({len(words) for words in lines}) > 1:
        return True
    thirds = {words[2] for words in lines if len(words) > 2}  # names of nodes, or weights
    ends = {word for words in lines for word in words[:2]}
    have_numbers = any(word.isdecimal() for word in thirds)  # which may be weights of edges
    return bool(thirds & ends) and not have_numbers


def _is_edge_table(path: Path) -> bool:
    """Return whether a file is a table of edges, by its name and columns.

    Names of nodes in it may have blanks and commas, and values may be missing.
    """
    if not is_table(path):
        return False
    try:
        table = read_any(path)
    except IncidenceError:  # lines of different length
        return False
    if edge_columns(table) is not None:
        return True
    return len(table.columns) == 2 and all(all(texts) for texts in table.columns.values())


def _of_tables(name: str, tables: Mapping[str, TextTable], options: Mapping[str, Any]) -> LinkGraph:
    """Return the graph of a table of edges, and perhaps one of nodes."""
    given = beside(options.get("nodes"), "nodes")
    nodes = next((table for key, table in tables.items() if key.lower() in NODE_TABLES), None)
    if nodes is None:
        nodes = next(iter(given.values()), None)
    others = [table for table in tables.values() if table is not nodes]
    if len(others) != 1:
        raise IncidenceError(
            f"{name}: links are in one table of edges, beside one of nodes; got"
            f" {', '.join(tables) or 'no table'}."
        )
    [edges] = others
    ends = edge_columns(edges) or tuple(list(edges.columns)[:2])
    measured = next((end for end in ends if are_measured(edges[end])), None)
    if measured is not None:
        raise IncidenceError(
            f"{edges.source}: the column `{measured}` has numbers that are not whole, and names no"
            " nodes of links."
        )
    keys = _keys(edges, nodes, options)
    if keys is not None:
        return _of_two_sorts(name, edges, keys, given)
    directed = bool(options.get("directed", False))
    # without degrees as features: they count the links that are queried
    graph = read_graph(edges, nodes, directed=directed, degrees=False)
    return LinkGraph(
        name,
        Example(graph.structure, graph.features),
        graph.names,
        _parts_of_edges(edges, ends, graph),
        graph.skipped,
        (str(ends[0]), str(ends[1])) if edges.has_names else ("source", "target"),
    )


def _parts_of_edges(edges: TextTable, ends: Sequence[str], graph: GraphTable) -> list[int] | None:
    """Return the part of every entry of a graph, if the table of its edges defines parts."""
    parts = read_parts(edges)
    if parts is None:
        return None
    place = {node: k for k, node in enumerate(graph.names)}
    valid = []
    for one, other, part in zip(edges[ends[0]], edges[ends[1]], parts, strict=True):
        if one != other and one in place and other in place:
            valid.append((place[one], place[other], part))
    pairs = torch.tensor([pair for *pair, _ in valid]).T.contiguous()  # (2, rows)
    entries = graph.structure.locate(graph.edges, pairs).tolist()
    by_entry: dict[int, int] = {}
    for entry, (*_, part) in zip(entries, valid, strict=True):
        by_entry.setdefault(entry, part)  # of repeated edges the first decides
    return [by_entry[entry] for entry in range(graph.structure.num_entries(graph.edges))]


def _keys(
    edges: TextTable, nodes: TextTable | None, options: Mapping[str, Any]
) -> tuple[str, ...] | None:
    """Return the columns whose nodes are of two sorts, or None if all nodes are of one sort.

    They are the given ones, or those with usual names, as `user` and `movie`, or the first two if
    no node is in both of them.
    """
    given = options.get("keys")
    if given:
        names = [given] if isinstance(given, str) else given
        keys = tuple(edges.named(name) for name in names)
        if len(set(keys)) != 2:
            raise IncidenceError(
                f"{edges.source}: a link has two ends, as in `--keys user movie`; got"
                f" {', '.join(keys)}."
            )
        return keys
    has_ends = not edges.has_names or edge_columns(edges) is not None
    if has_ends or options.get("directed") or len(edges.columns) < 2:
        return None
    usual = usual_keys(list(edges.columns))
    if usual is not None:
        return usual
    first, second, *_ = edges.columns
    are_apart = not set(edges[first]) & set(edges[second])
    # In a short list of edges, both columns may differ by chance.
    has_two_sorts = nodes is None and len(edges) >= _MANY_ROWS and are_apart
    return (first, second) if has_two_sorts else None


def _of_two_sorts(
    name: str, table: TextTable, keys: tuple[str, ...], others: Mapping[str, TextTable]
) -> LinkGraph:
    """Return the graph of links between nodes of two sorts, with further tables about either."""
    pairs = read_pairs(table, keys, others)
    context = pairs.context
    index: dict[str, Any] = {str(p): context.structure[p] for p in context.structure.patterns}
    structure = Structure(context.structure.counts, {**index, pairs.pattern: pairs.places})
    columns = [name for name in pairs.table.columns if name not in keys and not is_split(name)]
    x = as_features(pairs.table, columns_of(pairs.table, columns))
    example = Example(structure, {**context.features, pairs.pattern: x})
    return LinkGraph(name, example, pairs.names, read_parts(pairs.table), pairs.skipped, keys)


def _of_sets(name: str, path: Path, lines: Sequence[Line], options: Mapping[str, Any]) -> LinkGraph:
    """Return the hypergraph of lines, each a set of nodes by name."""
    first: dict[frozenset[str], int] = {}
    skipped = []
    for number, words in lines:
        nodes = frozenset(words)
        problem = ""
        if len(nodes) < 2:
            problem = "has one node only"
        elif first.setdefault(nodes, number) != number:
            problem = f"is there already, in line {first[nodes]}"
        if problem:
            skipped.append(f"{path}, line {number}: the hyperedge {problem}.")
    if not first:
        raise IncidenceError(
            f"{shown(str(path))} has no hyperedge: a line is a set of nodes, two or more."
        )
    table = next(iter(beside(options.get("nodes"), "nodes").values()), None)
    key = "" if table is None else str(find_column(table, IDS, 0))
    listed = [] if table is None else list(table[key])
    names = sorted_names([*listed, *(word for _, words in lines for word in words)])
    place = {node: k for k, node in enumerate(names)}
    members = [
        (node, number)
        for number, nodes in enumerate(first)
        for node in sorted(place[word] for word in nodes)
    ]
    structure = Structure(len(names), {"{i ...}": torch.tensor(members).T.contiguous()})
    x = torch.zeros(len(names), 0) if table is None else features_of_nodes(table, key, names)
    return LinkGraph(name, Example(structure, {"i": x}), names, None, skipped)
