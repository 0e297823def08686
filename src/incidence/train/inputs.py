"""Data for a model that exists: what it predicts for, and other data to measure it on.

Everything that `inc.data.load` takes is read as the data of the model was: by the same reader, with
the same lift, and with targets and classes in its order.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.data import DATA_SETS, READERS, DataSet, Reader, Record, Task, load, reader
from incidence.data.completion import Completion
from incidence.data.dataset_builder import with_floats
from incidence.data.dataset_checks import assert_alike
from incidence.data.default_features import PLAN, with_planned
from incidence.data.files import TARGETS
from incidence.data.forecasts import READER as DATABASE
from incidence.data.forecasts import records_of_queries
from incidence.data.hypergraph_tables import lines_as_table
from incidence.data.hypergraphs import READER as HYPERGRAPHS
from incidence.data.hypergraphs import records_of_hypergraphs
from incidence.data.lifts import lift_all
from incidence.data.meshes import features_of
from incidence.data.molecule_files import are_smiles, find_smiles, is_mol, read_smiles, to_smiles
from incidence.data.networkx_graphs import are_networkx, examples_of_networkx, node_tables
from incidence.data.node_tables import READER as GRAPH_TABLES
from incidence.data.node_tables import record_of_graph
from incidence.data.npz_files import has_arrays, read_graph_of_arrays
from incidence.data.pyg import PREFIX, examples_of_pyg, is_pyg, unpacked
from incidence.data.table_kinds import (
    graph_tables,
    hypergraph_tables,
    read_any,
    read_rows,
    tables_of,
)
from incidence.data.tables import (
    SUFFIXES,
    RowError,
    TextTable,
    are_frames,
    has_tables,
    is_frame,
    is_table,
    legible,
    listed,
    read_table,
    table_of,
)
from incidence.errors import IncidenceError, by_door
from incidence.geometry.meshes import Mesh
from incidence.structure.collate import uncollate
from incidence.structure.example import Example
from incidence.train.model_spec import ModelSpec

__all__ = [
    "Queries",
    "data_for_model",
    "has_named_columns",
    "is_lifted",
    "lifted",
    "load_options",
    "queries_of",
    "records_of",
    "table_of_smiles",
    "with_facts",
    "with_targets_of_model",
]

_READS_TABLES = (GRAPH_TABLES, HYPERGRAPHS)
_ARRAYS = Reader((".npz",), read_graph_of_arrays)
_SMILES_LINES = (".smi", ".smiles")
_LINES = (".txt", ".hyperedges")  # a hyperedge on each line
# what damaged files make libraries raise, beside errors of ours
_READ_ERRORS = (OSError, EOFError, ValueError, LookupError, ArithmeticError, RuntimeError)
_UNNAMED = re.compile(r"(target|label)( \d+)?")  # targets that came without names, as those of PyG
_MOST_SHOWN = 3  # unknown names in a warning

_Target = str | Sequence[str] | None
_Errors = list[IncidenceError]


def records_of(what: Any, spec: ModelSpec, errors: _Errors, nodes: Any = None) -> Iterator[Record]:
    """Yield all examples that can be read, with the tensors that the lift of the model adds.

    Args:
        what: The name of a data set, a file, a folder, for models of molecules a SMILES, or a list
            of these; a data frame, or several by name; graphs of PyG; examples; or a `DataSet`.
        spec: What the model is.
        errors: Collects the errors of what cannot be read.
        nodes: A table of nodes beside a table of edges, for models of nodes.

    Raises:
        IncidenceError: It is something else.
    """
    if nodes is not None and spec.reader not in _READS_TABLES:
        raise IncidenceError(
            "a table of nodes stands beside a table of edges, and this model was not trained on"
            " such tables: leave out nodes."
        )
    for record in _unlifted(what, spec, errors, nodes):
        try:
            assert_alike([(record.name, record.example)])  # finite features
            yield record._replace(example=lifted(record.example, spec))
        except IncidenceError as error:
            errors.append(_of_record(error, record))


def _of_record(error: IncidenceError, record: Record) -> IncidenceError:
    named = _with_name(error, record.name)
    return named if record.row is None else RowError(str(named), record.row)


def _with_name(error: IncidenceError, name: str) -> IncidenceError:
    return error if name in str(error) else IncidenceError(f"{name}: {error}")


def lifted(example: Example, spec: ModelSpec) -> Example:
    """Return the example with the tensors that the lift of the model adds, unless it has them."""
    example = with_planned(example, spec.reader_options.get(PLAN, {}))
    if spec.reader == "mesh" and set(example.features) == {"pos=i"}:
        example = features_of(example)
    if is_lifted(example, spec):
        return example
    return lift_all([example], spec.lift, **spec.lift_options)[0]


def is_lifted(example: Example, spec: ModelSpec) -> bool:
    """Return whether an example has all tensors that the model reads."""
    has = {example.structure.resolve(key) for key in example.features}
    return has >= {Pattern(key) for key in spec.in_channels}


def _unlifted(what: Any, spec: ModelSpec, errors: _Errors, nodes: Any) -> Iterator[Record]:
    items = list(what) if isinstance(what, (list, tuple)) else [what]
    are_tables = [_has_tables(item, spec) for item in items]
    if not any(are_tables):
        yield from _of_anything(what, spec, errors)
        return
    # a graph for each folder of tables, table of edges, or data frames
    for item, is_tables in zip(items, are_tables, strict=True):
        try:
            if is_tables and spec.reader == HYPERGRAPHS:
                yield from _hypergraphs_of_tables(item, spec, errors, nodes)
            elif is_tables:
                yield _graph_of_tables(_tables_in(item), spec, errors, nodes)
            else:
                yield from _of_anything(item, spec, errors)
        except IncidenceError as error:
            errors.append(error)


def _has_tables(what: Any, spec: ModelSpec) -> bool:
    """Return whether something is tables, for a model that reads some.

    For models of hypergraphs, a file may have lines, and a folder files of other kinds.
    """
    if spec.reader not in _READS_TABLES:
        return False
    if spec.reader == GRAPH_TABLES and are_networkx(what):
        return True
    if spec.reader == GRAPH_TABLES or not isinstance(what, (str, PathLike)):
        return has_tables(what)
    path = Path(what).expanduser()
    if path.is_dir():
        return any(map(is_table, path.iterdir()))
    return is_table(path) or (_has_lines(path) and path.is_file())


def _has_lines(path: Path) -> bool:
    """Return whether a file has a hyperedge on each line, by its name."""
    return path.suffix.lower() in _LINES


def _hypergraphs_of_tables(
    what: Any, spec: ModelSpec, errors: _Errors, nodes: Any
) -> Iterator[Record]:
    """Yield the hypergraph of tables, or each of many."""
    path = Path(what) if isinstance(what, (str, PathLike)) else Path()
    if _has_lines(path):
        tables: Mapping[str, TextTable] = {path.stem: lines_as_table(path.expanduser())}
    else:
        tables = _tables_in(what)
    found = hypergraph_tables(tables, nodes)
    if found is None:
        columns = listed([name for table in tables.values() for name in table.columns])
        raise IncidenceError(
            "a hypergraph is a table with a column `node` and a column `hyperedge`, or a HIF file;"
            f" got {columns}."
        )
    name = str(what) if isinstance(what, (str, PathLike)) else found.incidences.source
    yield from records_of_hypergraphs(found, spec.reader_options, errors, legible(name))


def _tables_in(what: Any) -> Mapping[str, TextTable]:
    if are_networkx(what):
        return dict(zip(("edges", "nodes"), node_tables(what), strict=True))
    if not isinstance(what, (str, PathLike)):
        return tables_of(what)
    path = Path(what).expanduser()
    files = [file for file in sorted(path.iterdir()) if is_table(file)] if path.is_dir() else [path]
    return {file.name.partition(".")[0]: read_any(file) for file in files}


def _graph_of_tables(
    tables: Mapping[str, TextTable], spec: ModelSpec, errors: _Errors, nodes: Any
) -> Record:
    graph = graph_tables(tables, nodes)
    edges = graph.edges
    if edges is None and len(graph.all) == 1:  # whatever it is called
        [edges] = graph.all.values()
    if edges is None or len(graph.all) > 2:
        raise IncidenceError(
            "a graph is a table of edges, and one of nodes; got"
            f" {', '.join(graph.all) or 'no table'}."
        )
    return record_of_graph(spec.reader_options, edges, graph.nodes, errors)


def _of_anything(what: Any, spec: ModelSpec, errors: _Errors) -> Iterator[Record]:
    what = unpacked(what)
    if isinstance(what, Mesh):
        what = [what]
    if isinstance(what, (list, tuple)):
        what = [_of_mesh(item) if isinstance(item, Mesh) else item for item in what]
    if isinstance(what, (str, PathLike)):
        return _of_texts([what], spec, errors)
    if isinstance(what, DataSet):
        return _of_data_set(what)
    if isinstance(what, TextTable):
        return _of_table_of_smiles(what, spec, errors)
    if is_frame(what) and spec.reader == DATABASE:
        return records_of_queries(table_of(what), spec.reader_options)
    if is_frame(what):
        return read_rows(table_of(what), spec.reader, spec.reader_options, errors)
    if is_pyg(what):
        names = ("edges", "features", "lacking")
        options = {key: spec.reader_options[key] for key in names if key in spec.reader_options}
        return _numbered(examples_of_pyg(what, **options), "graph")
    if are_networkx(what):
        graphs = what if isinstance(what, (list, tuple)) else [what]
        return _numbered(examples_of_networkx(graphs, spec.reader_options), "graph")
    is_list = isinstance(what, Iterable) and not isinstance(what, (Example, Mapping))
    items: list[Any] = list(what) if is_list else [what]
    if items and all(isinstance(item, (str, PathLike)) for item in items):
        return _of_texts(items, spec, errors)
    if spec.reader == "molecule" and items and all(map(is_mol, items)):
        return _of_smiles([to_smiles(item) for item in items], spec, errors)
    if items and all(isinstance(item, Example) for item in items):
        single = (one for item in items for one in (uncollate(item) if item.is_batch else [item]))
        return _numbered(map(with_floats, single), "example")
    raise IncidenceError(_unreadable(what, items if is_list else [], spec))


def _of_mesh(mesh: Mesh) -> Example:
    return Example(mesh.structure, {"pos=i": mesh.points.float()})


def _unreadable(what: Any, items: Sequence[Any], spec: ModelSpec) -> str:
    """Return the message for something that no model predicts for."""
    smiles = "SMILES, molecules of RDKit, " if spec.reader == "molecule" else ""
    kinds = (
        f"{smiles}names, files, folders, data frames, examples, graphs of PyG or networkx, and data"
        " sets"
    )
    outer, inner = type(what).__name__, sorted({type(item).__name__ for item in items})
    came = f"{outer} of {listed(inner)}" if inner else outer
    return f"a model predicts for {kinds}; got {came}."


def _numbered(examples: Iterable[Example], word: str) -> Iterator[Record]:
    return (Record(f"{word} {number}", example) for number, example in enumerate(examples))


def _of_data_set(data: DataSet) -> Iterator[Record]:
    count = len(data.examples)
    columns = {key: texts for key, texts in data.columns.items() if len(texts) == count}
    for number, example in enumerate(data.examples):
        name = data.names[number] if len(data.names) == count else f"example {number}"
        properties = {key: texts[number] for key, texts in columns.items()}
        yield Record(name, example, properties=properties)


def _of_texts(
    texts: Sequence[str | PathLike[str]], spec: ModelSpec, errors: _Errors
) -> Iterator[Record]:
    """Yield what names, paths and SMILES mean; SMILES that stand together are read together."""

    def is_smiles(text: str | PathLike[str]) -> bool:
        return spec.reader == "molecule" and _is_smiles(text)

    for are_molecules, some in groupby(texts, is_smiles):
        if are_molecules:
            yield from _of_smiles([str(text) for text in some], spec, errors)
        else:
            for text in some:
                yield from _of_name(text, spec, errors)


def _is_smiles(text: str | PathLike[str]) -> bool:
    """Return whether a text is a molecule that RDKit reads, and no data set and no path."""
    if not isinstance(text, str) or text in DATA_SETS or text.startswith(PREFIX):
        return False
    return not Path(text).expanduser().exists() and are_smiles([text])


def table_of_smiles(what: Any, spec: ModelSpec) -> TextTable | None:
    """Return a list, array or series of SMILES as a table, if it is one.

    An item that RDKit cannot read is a row as the others are, unless it names a file or data set.
    """
    is_series = hasattr(what, "to_list") or type(what).__name__ == "ndarray"
    if spec.reader != "molecule" or not (isinstance(what, (list, tuple)) or is_series):
        return None
    texts = list(what)
    if not texts or not all(isinstance(text, str) and _may_be_smiles(text) for text in texts):
        return None
    names = [str(text) for text in texts]  # of numpy, too
    labels = getattr(what, "index", None) if is_series else None
    places = [f"number {number}" for number in range(1, len(names) + 1)]
    if labels is not None:
        places = [f"row {label}" for label in labels]
    return TextTable("the SMILES", {"smiles": names}, places)


def _may_be_smiles(text: str) -> bool:
    if text in DATA_SETS or text.startswith(PREFIX) or "\0" in text:
        return False
    path = Path(text)
    is_file = path.suffix == ".npz" or any(reader.reads(path) for reader in READERS.values())
    return not is_file and not path.expanduser().exists()


def _of_smiles(smiles: list[str], spec: ModelSpec, errors: _Errors) -> Iterator[Record]:
    places = [f"number {number}" for number in range(1, len(smiles) + 1)]
    yield from _of_table_of_smiles(
        TextTable("the SMILES", {"smiles": smiles}, places), spec, errors
    )


def _of_table_of_smiles(table: TextTable, spec: ModelSpec, errors: _Errors) -> Iterator[Record]:
    options = {key: value for key, value in spec.reader_options.items() if key != "smiles"}
    for record in read_rows(table, spec.reader, options, errors):
        yield record._replace(name=record.properties["smiles"])


def _of_name(what: str | PathLike[str], spec: ModelSpec, errors: _Errors) -> Iterator[Record]:
    """Yield the examples of a data set by name, a file, or a folder."""
    path = Path(what).expanduser()
    if not path.exists() and (what in DATA_SETS or str(what).startswith(PREFIX)):
        yield from _of_data_set(load(what))
        return
    files = _files_for(path, spec) if path.is_dir() else [path]
    if not files:
        errors.append(
            IncidenceError(
                f"the folder {path} has none of the files this model reads:"
                f" {', '.join(reader(spec.reader).suffixes)}."
            )
        )
    for file in files:
        yield from _of_file(file, spec, errors)


def _files_for(folder: Path, spec: ModelSpec) -> list[Path]:
    """Return the files of a folder, and of folders inside, that the model reads."""
    files = []
    for file in sorted(folder.rglob("*")):
        is_hidden = any(part.startswith(".") for part in file.relative_to(folder).parts)
        is_read = reader(spec.reader).reads(file) or file.suffix == ".npz"
        if is_read and file.is_file() and not is_hidden and file.name != TARGETS:
            files.append(file)
    return files


def _of_file(path: Path, spec: ModelSpec, errors: _Errors) -> Iterator[Record]:
    try:
        found, options = _reader_for(path, spec)
        for record in found.read(path, errors, **options):
            yield record._replace(name=legible(f"{path}{record.name.removeprefix(path.name)}"))
    except IncidenceError as error:
        errors.append(_with_name(error, str(path)))
    except _READ_ERRORS as error:  # which no reader foresaw: the other files are read all the same
        errors.append(IncidenceError(f"{path} cannot be read: {error}."))


def _reader_for(path: Path, spec: ModelSpec) -> tuple[Reader, Mapping[str, Any]]:
    """Return the reader of a file, and its options."""
    if not path.is_file():
        hint = ", and it is no SMILES that can be read" if spec.reader == "molecule" else ""
        raise IncidenceError(f"there is no file {path}{hint}.")
    if path.suffix == ".npz":
        return _ARRAYS if has_arrays(path, needs_labels=False) else reader("example"), {}
    found = reader(spec.reader)
    if found.reads(path) or (spec.reader == DATABASE and is_table(path)):
        return found, _options_for(path, spec)
    others = [name for name, other in READERS.items() if other.reads(path)]
    hint = f" A file like that is for a model of kind {others[0]!r}." if others else ""
    suffixes = ", ".join(dict.fromkeys((*found.suffixes, ".npz")))
    raise IncidenceError(f"{path} is none of the files this model reads: {suffixes}.{hint}")


def _options_for(path: Path, spec: ModelSpec) -> Mapping[str, Any]:
    """Return the options of the reader, without a column of SMILES that a new table lacks.

    A new table may call it otherwise, or have no names, if only one column can be meant.
    """
    given = spec.reader_options.get("smiles")
    if given is None or not path.name.lower().endswith((*SUFFIXES, *_SMILES_LINES)):
        return spec.reader_options
    table = read_smiles(path, given)
    is_number = not table.has_names and f"column {given}" in table.columns
    is_list = path.suffix.lower() in _SMILES_LINES and not table.has_names
    is_clear = is_list or len(find_smiles(table)) == 1
    if given in table.columns or is_number or not is_clear:
        return spec.reader_options
    return {key: value for key, value in spec.reader_options.items() if key != "smiles"}


class Queries(NamedTuple):
    """The rows of a table that a model of ratings or links is asked about.

    Attributes:
        table: The rows.
        entries: The names of the nodes of each row.
        rows: The number of each row in the table that was given.
        are_candidates: Whether rows are all candidates for the rows of a table that leaves one key
            open.
    """

    table: TextTable
    entries: list[list[str]]
    rows: list[int]
    are_candidates: bool = False


def queries_of(what: Any, completion: Completion, errors: _Errors) -> Iterator[Queries]:
    """Yield the rows of tables that can be predicted.

    Args:
        what: The path of a table, a data frame, or a list of such.
        completion: What the model knows.
        errors: Collects the errors of what cannot be read.
    """
    several = [what] if isinstance(what, (str, PathLike)) or is_frame(what) else list(what)
    for one in several:
        try:
            table = _table_of_queries(one, completion)
            open_key = _open_key(table, completion)
            if open_key is None:
                queries = _valid(table, _entries(table, completion), completion, errors)
            else:
                queries = _candidates(table, open_key, completion, errors)
        except IncidenceError as error:
            errors.append(error)
        else:
            if queries.entries:
                _warn_of_unknown(queries, completion)
                yield queries


def _open_key(table: TextTable, completion: Completion) -> int | None:
    """Return the number of the only key that a table lacks; None if it lacks none or several.

    None, too, if a column of another name has its values: that is a misspelt key.
    """
    keys = {key.strip().lower(): k for k, key in enumerate(completion.keys)}
    columns = {name.strip().lower(): texts for name, texts in table.columns.items()}
    lacking = [k for key, k in keys.items() if key not in columns]
    if not table.has_names or not len(lacking) == 1 < len(keys):
        return None
    names = set(completion.names[completion.sorts_of(len(keys))[lacking[0]]])
    others = [texts for name, texts in columns.items() if name not in keys]
    are_names = any(not names.isdisjoint(texts) for texts in others)
    return None if are_names else lacking[0]


def _candidates(
    table: TextTable, open_key: int, completion: Completion, errors: _Errors
) -> Queries:
    """Return every row with each name that its open key may have, without known entries."""
    keys = completion.keys
    every = completion.names[completion.sorts_of(len(keys))[open_key]]
    wide = {name: [text for text in texts for _ in every] for name, texts in table.columns.items()}
    wide[keys[open_key]] = [name for _ in table.places for name in every]
    places = [place for place in table.places for _ in every]
    candidates = replace(table, columns=wide, places=places)
    entries = _entries(candidates, completion)
    has_one_sort = len(set(completion.sorts_of(len(keys)))) == 1
    is_new = [len(set(entry)) == len(entry) or not has_one_sort for entry in entries]
    known = completion.are_known(entries)
    rows = [k for k in range(len(entries)) if is_new[k] and not known[k]]
    left = _valid(candidates.only(rows), [entries[k] for k in rows], completion, errors)
    numbers = [rows[k] // len(every) for k in left.rows]
    return Queries(left.table, left.entries, numbers, are_candidates=True)


def with_facts(completion: Completion, what: Any, errors: _Errors) -> Completion:
    """Return the completion with further facts, such as the ratings of a new user.

    Args:
        completion: What the model knows.
        what: The path of a table, a data frame, or a list of such; None for nothing.
        errors: Collects the errors of what cannot be read.

    Raises:
        IncidenceError: A table of ratings lacks their numbers.
    """
    if what is None:
        return completion
    several = [what] if isinstance(what, (str, PathLike)) or is_frame(what) else list(what)
    for one in several:
        table = _table_of_queries(one, completion)
        facts = _valid(table, _entries(table, completion), completion, errors)
        completion = completion.with_facts(facts.table, facts.entries)
    return completion


def _example_of_queries(completion: Completion) -> str:
    """Return a sentence with a table that works, typed as the caller types it."""
    if len(completion.keys) == 1:
        return ""
    others = next(iter(completion.names.values()))
    row = {key: completion.names.get(key, others)[0] for key in completion.keys}
    lines = f"the lines {','.join(row)} and {','.join(row.values())} in a file pairs.csv"
    frame = f"pandas.DataFrame({ {key: [name] for key, name in row.items()} })"
    return f" One row is {by_door(lines, frame)}."


def _table_of_queries(what: Any, completion: Completion) -> TextTable:
    if is_frame(what):
        return table_of(what)
    keys = completion.keys
    expected = f"the column {keys[0]}" if len(keys) == 1 else f"the columns {' and '.join(keys)}"
    if not isinstance(what, (str, PathLike)):
        raise IncidenceError(
            f"this model predicts for rows of tables with {expected}: give paths or data frames;"
            f" got {type(what).__name__}.{_example_of_queries(completion)}"
        )
    path = Path(what).expanduser()
    if not path.is_file():
        raise IncidenceError(
            f"there is no file {path}; this model predicts for rows of a table with {expected}."
            f"{_example_of_queries(completion)}"
        )
    known = {name for names in completion.names.values() for name in names}
    are_sets = len(keys) == 1  # whose cells have blanks

    def has_names(first: list[str], others: list[list[str]]) -> bool:
        words = [word for cell in first for word in cell.split()] if are_sets else first
        return known.isdisjoint(words)

    return read_table(path, has_names, by_blanks=not are_sets)


def _entries(table: TextTable, completion: Completion) -> list[list[str]]:
    """Return the names of the nodes of every row."""
    keys, names = completion.keys, list(table.columns)
    lower = {name.strip().lower(): name for name in names}
    if len(keys) == 1:  # a set in a cell, or in several columns
        first = lower.get(keys[0])
        columns = [name for name in names if first in (None, name) or name.startswith("column ")]
        rows = zip(*(table[column] for column in columns), strict=True)
        return [[word for cell in row for word in cell.split()] for row in rows]
    by_name = [lower.get(key.strip().lower()) for key in keys]
    if None in by_name and (table.has_names or len(names) < len(keys)):
        raise IncidenceError(
            f"{table.source} has no column `{keys[by_name.index(None)]}`; it has: {listed(names)}."
        )
    columns = names[: len(keys)] if None in by_name else [name for name in by_name if name]
    return [list(row) for row in zip(*(table[column] for column in columns), strict=True)]


def _valid(
    table: TextTable, entries: Sequence[list[str]], completion: Completion, errors: _Errors
) -> Queries:
    """Return the rows whose nodes are all there and different."""
    rows = []
    for number, (place, entry) in enumerate(zip(table.places, entries, strict=True)):
        has_one_sort = len(set(completion.sorts_of(len(entry)))) == 1
        problem = ""
        if len(set(entry)) < len(entry) and has_one_sort:
            problem = f"an entry has different nodes; got {' '.join(entry)}."
        elif not all(entry) or len(entry) < 2:
            problem = f"an entry has at least two nodes; got {' '.join(entry) or 'none'}."
        if problem:
            errors.append(RowError(f"{table.source}, {place}: {problem}", number))
        else:
            rows.append(number)
    return Queries(table.only(rows), [entries[number] for number in rows], rows)


def _warn_of_unknown(queries: Queries, completion: Completion) -> None:
    for sort, names in completion.new_names(queries.entries).items():
        if names:
            some = ", ".join(names[:_MOST_SHOWN]) + (", ..." if len(names) > _MOST_SHOWN else "")
            warnings.warn(
                f"{queries.table.source}: {len(names)} of `{sort}` not in the data of the model"
                f" ({some}): predicted as if nothing were known about them.",
                stacklevel=2,
            )


def load_options(spec: ModelSpec, what: Any) -> dict[str, Any]:
    """Return options of `inc.data.load` that read tables of another graph as those of the model."""
    if spec.reader != GRAPH_TABLES or not has_tables(what):
        return {}
    return {"columns": spec.reader_options.get("columns", {})}


def has_named_columns(what: Any) -> bool:
    """Return whether targets are chosen by name: in files and data frames."""
    if isinstance(what, (str, PathLike)):
        return what not in DATA_SETS and not str(what).startswith(PREFIX)
    return are_frames(what)


def data_for_model(
    read: Callable[[_Target], DataSet], what: Any, spec: ModelSpec, target: _Target = None
) -> DataSet:
    """Return other data for a model.

    Its targets are the given ones; else those of the model, if the data has them; else the ones
    that the data has.

    Args:
        read: Loads the data with a target, or with none.
        what: The data, as users name it.
        spec: What the model is.
        target: The given targets.

    Raises:
        IncidenceError: It is for another task, or it is not clear which columns the model predicts.
    """
    if target is not None or not has_named_columns(what):
        return with_targets_of_model(read(target), spec)
    names, problem = _target_names(spec.task), ""
    if names:
        try:
            data = read(names)
        except IncidenceError as error:
            problem = f"{error} "
        else:
            return with_targets_of_model(data, spec)
    data = read(None)
    theirs = _target_names(data.task)
    are_numbers = spec.task.kind != "classification" and data.task.kind == spec.task.kind
    if are_numbers and names and theirs and not {*names} <= {*theirs}:
        raise IncidenceError(
            f"{problem}The model predicts {listed(names)}: say with --target what that is called"
            " here."
        )
    return with_targets_of_model(data, spec)


def _target_names(task: Task) -> tuple[str, ...]:
    """Return the names of targets, or nothing if they came without names."""
    names = (task.target,) if task.kind == "classification" else task.names
    return () if all(not name or _UNNAMED.fullmatch(name) for name in names) else names


def with_targets_of_model(data: DataSet, spec: ModelSpec) -> DataSet:
    """Return data with targets, or numbers of classes, in the order of the model, by name.

    Targets without names are taken as they come. A single target may have another name: a warning
    names both.

    Raises:
        IncidenceError: The data is for another task, or several targets have other names.
    """
    has_kind = (data.task.kind, data.task.at) == (spec.task.kind, spec.task.at)
    if has_kind and data.completion is None:
        ordered = _with_classes if data.task.kind == "classification" else _with_columns
        data = ordered(data, spec)
    if _signature(data.task) != _signature(spec.task):
        raise IncidenceError(
            f"the model was trained for {_describe(spec.task)}, and the data has"
            f" {_describe(data.task)}."
        )
    ours, theirs = _target_names(spec.task), _target_names(data.task)
    if not ours or not theirs or ours == theirs:
        return data
    if len(theirs) > 1:
        raise IncidenceError(
            f"the model predicts {listed(ours)}, and {data.name} has {listed(theirs)}: targets are"
            " matched by name. Say with --target which are meant, or rename them in the data."
        )
    warnings.warn(
        f"the model predicts `{ours[0]}`, and is compared with `{theirs[0]}` of {data.name}.",
        stacklevel=4,
    )
    return data


def _with_classes(data: DataSet, spec: ModelSpec) -> DataSet:
    """Return data with the numbers that classes have in the model, unless it has other classes."""
    names = spec.task.names
    if not {*data.task.names} <= {*names}:
        return data
    # the last number is for -1, where there is no class
    number = torch.tensor([*(names.index(name) for name in data.task.names), -1])
    return _with_targets(data, lambda rows: number[rows], names)


def _with_columns(data: DataSet, spec: ModelSpec) -> DataSet:
    """Return data with the targets of the model in its order, if it has them all."""
    names = spec.task.names
    if data.task.names == names or not {*names} <= {*data.task.names}:
        return data
    columns = [data.task.names.index(name) for name in names]
    return _with_targets(data, lambda rows: rows[..., columns], names)


def _with_targets(
    data: DataSet, change: Callable[[Tensor], Tensor], names: tuple[str, ...]
) -> DataSet:
    task = replace(data.task, names=names)
    examples = [task.with_target(one, change(task.rows(one))) for one in data.examples]
    return replace(data, examples=examples, task=task)


def _signature(task: Task) -> tuple[object, ...]:
    """Return what a network must fit; names of numbers and units are only words."""
    is_class = task.kind == "classification"
    return task.kind, task.at, task.names if is_class else len(task.names)


def _describe(task: Task) -> str:
    words = {"classification": "the classes", "multilabel": "the labels"}
    what = f"{words.get(task.kind)} {', '.join(task.names)}"
    if task.kind == "regression":
        what = f"{len(task.names)} {'number' if len(task.names) == 1 else 'numbers'}"
    place = f"every entry of `{task.at}`" if task.at else "the whole structure"
    return f"{what} for {place}"
