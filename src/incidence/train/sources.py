"""What a model predicts for: whatever `inc.data.load` takes, with targets or without, as examples that the model reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from os import PathLike
from pathlib import Path
from typing import Any

from incidence.algebra.pattern import Pattern
from incidence.data import DATA_SETS, READERS, DataSet, Read, Reader, load, reader
from incidence.data.arrays import graph_of_arrays, has_arrays, with_degrees
from incidence.data.examples_file import with_floats, with_ones
from incidence.data.folders import TARGETS
from incidence.data.lifts import lift_all
from incidence.data.molecules.smiles import are_smiles, find_smiles, read_smiles
from incidence.data.node_tables import READER as GRAPH_TABLES
from incidence.data.node_tables import graph_for
from incidence.data.pyg import PREFIX, examples_of_pyg, is_pyg, unpacked
from incidence.data.readers import assert_alike, legible
from incidence.data.tables import SUFFIXES, Table, has_tables, is_frame, is_table, listed, table_of
from incidence.data.tabular import read_any, read_rows, tables_of, with_nodes
from incidence.errors import IncidenceError
from incidence.structure.example import Example
from incidence.structure.examples import uncollate
from incidence.train.folder import ModelSpec

__all__ = ["lifted", "reads_of"]

_ARRAYS = Reader(
    (".npz",),
    lambda path, errors: iter([Read(path.name, with_degrees(graph_of_arrays(path)).canonical())]),
)
_TROUBLE = (OSError, EOFError, ValueError, LookupError, ArithmeticError, RuntimeError)


def reads_of(
    what: Any, spec: ModelSpec, errors: list[IncidenceError], nodes: Any = None
) -> Iterator[Read]:
    """All examples that can be read, with the tensors that the lift of the model adds.

    Args:
        what: The name of a data set, a file, a folder, for models of molecules a SMILES, or a list of these; a data frame, or several by
            name; graphs of PyG; examples; or a `DataSet`.
        spec: What the model is.
        errors: Takes what could not be read; the rest goes on.
        nodes: A table of nodes beside a table of edges, for models of nodes.

    Raises:
        IncidenceError: It is nothing of the kind.
    """
    if nodes is not None and spec.reader != GRAPH_TABLES:
        raise IncidenceError(
            "a table of nodes stands beside a table of edges, and this model was not trained on such tables: leave out nodes."
        )
    for one in (
        _of_tables(what, spec, errors, nodes)
        if spec.reader == GRAPH_TABLES
        else _found(what, spec, errors)
    ):
        try:
            assert_alike([(one.name, one.example)])  # its features are finite
            yield one._replace(example=lifted(one.example, spec))
        except IncidenceError as error:
            errors.append(
                error if one.name in str(error) else IncidenceError(f"{one.name}: {error}")
            )


def _of_tables(
    what: Any, spec: ModelSpec, errors: list[IncidenceError], nodes: Any
) -> Iterator[Read]:
    """A graph for each folder of tables, table of edges, or data frames; what is none of them is read as ever."""
    items = list(what) if isinstance(what, (list, tuple)) else [what]
    if not any(map(has_tables, items)):
        yield from _found(what, spec, errors)
        return
    for item in items:
        try:
            if has_tables(item):
                yield _graph(_tables_in(item), spec, errors, nodes)
            else:
                yield from _found(item, spec, errors)
        except IncidenceError as error:
            errors.append(error)


def _tables_in(what: Any) -> Mapping[str, Table]:
    if not isinstance(what, (str, PathLike)):
        return tables_of(what)
    path = Path(what).expanduser()
    files = [file for file in sorted(path.iterdir()) if is_table(file)] if path.is_dir() else [path]
    return {file.name.partition(".")[0]: read_any(file) for file in files}


def _graph(
    tables: Mapping[str, Table], spec: ModelSpec, errors: list[IncidenceError], nodes: Any
) -> Read:
    found, edges, of_nodes = with_nodes(tables, nodes)
    if edges is None and len(found) == 1:  # whatever it is called
        [edges] = found.values()
    if edges is None or len(found) > 2:
        raise IncidenceError(
            f"a graph is a table of edges, and one of nodes; got {', '.join(found) or 'no table'}."
        )
    return graph_for(spec.reader_options, edges, of_nodes, errors)


def _found(what: Any, spec: ModelSpec, errors: list[IncidenceError]) -> Iterator[Read]:
    what = unpacked(what)
    if isinstance(what, (str, PathLike)):
        return _of_texts([what], spec, errors)
    if isinstance(what, DataSet):
        return _of_data_set(what)
    if is_frame(what):
        return read_rows(table_of(what), spec.reader, spec.reader_options, errors)
    if is_pyg(what):
        given = {
            key: spec.reader_options[key]
            for key in ("edges", "features", "lacking")
            if key in spec.reader_options
        }
        return _numbered(examples_of_pyg(what, **given), "graph")
    is_list = isinstance(what, Iterable) and not isinstance(what, (Example, Mapping))
    items: list[Any] = list(what) if is_list else [what]
    if items and all(isinstance(item, (str, PathLike)) for item in items):
        return _of_texts(items, spec, errors)
    if items and all(isinstance(item, Example) for item in items):
        apart = (one for item in items for one in (uncollate(item) if item.is_batch else [item]))
        return _numbered((with_floats(one) for one in apart), "example")
    smiles = "SMILES, " if spec.reader == "molecule" else ""
    kinds = f"{smiles}names, files, folders, data frames, examples, graphs of PyG and data sets"
    inside = sorted({type(item).__name__ for item in items}) if is_list and items else []
    got = f"{type(what).__name__}{f' of {listed(inside)}' if inside else ''}"
    hint = (
        " Molecules of RDKit are given as SMILES: Chem.MolToSmiles(mol)."
        if "Mol" in {*inside, type(what).__name__}
        else ""
    )
    raise IncidenceError(f"a model predicts for {kinds}; got {got}.{hint}")


def _numbered(examples: Iterable[Example], word: str) -> Iterator[Read]:
    return (Read(f"{word} {number}", example) for number, example in enumerate(examples))


def _of_data_set(data: DataSet) -> Iterator[Read]:
    for number, example in enumerate(data.examples):
        name, is_named = f"example {number}", len(data.names) == len(data.examples)
        told = {
            key: texts[number]
            for key, texts in data.columns.items()
            if len(texts) == len(data.examples)
        }
        yield Read(data.names[number] if is_named else name, example, properties=told)


def lifted(example: Example, spec: ModelSpec) -> Example:
    """The example with the tensors that the lift of the model adds, unless it has all that the model reads; ones as in training."""
    example = with_ones(example, spec.reader_options.get("ones", ()))
    has = {example.structure.resolve(key) for key in example.features}
    if has >= {Pattern(key) for key in spec.in_channels}:
        return example
    return lift_all([example], spec.lift, **spec.lift_options)[0]


def _named(
    what: str | PathLike[str], spec: ModelSpec, errors: list[IncidenceError]
) -> Iterator[Read]:
    """What a name or a path means; what cannot be read is one of the errors."""
    path = Path(what).expanduser()
    if not path.exists() and (what in DATA_SETS or str(what).startswith(PREFIX)):
        yield from _of_data_set(load(what))
        return
    files = _files(path, spec) if path.is_dir() else [path]
    if not files:
        errors.append(
            IncidenceError(
                f"the folder {path} has none of the files this model reads: {', '.join(reader(spec.reader).suffixes)}."
            )
        )
    for file in files:
        yield from _of_file(file, spec, errors)


def _files(folder: Path, spec: ModelSpec) -> list[Path]:
    """The files of a folder, and of those inside it, that the reader of the model reads; a table of targets is none."""
    shown = (
        file
        for file in sorted(folder.rglob("*"))
        if file.is_file() and not any(p.startswith(".") for p in file.relative_to(folder).parts)
    )
    return [
        file
        for file in shown
        if file.name != TARGETS and (reader(spec.reader).reads(file) or file.suffix == ".npz")
    ]


def _of_file(path: Path, spec: ModelSpec, errors: list[IncidenceError]) -> Iterator[Read]:
    try:
        found, options = _reader(path, spec)
        for one in found.read(path, errors, **options):
            yield one._replace(name=legible(f"{path}{one.name.removeprefix(path.name)}"))
    except IncidenceError as error:
        errors.append(error if str(path) in str(error) else IncidenceError(f"{path}: {error}"))
    except _TROUBLE as error:  # of a file that no reader foresaw: the others are not lost for it
        errors.append(IncidenceError(f"{path} cannot be read: {error}."))


def _reader(path: Path, spec: ModelSpec) -> tuple[Reader, Mapping[str, Any]]:
    """The reader of the model with its options; examples that the library saved are read as they are."""
    if not path.is_file():
        hint = ", and it is no SMILES that can be read" if spec.reader == "molecule" else ""
        raise IncidenceError(f"there is no file {path}{hint}.")
    if path.suffix == ".npz":
        return _ARRAYS if has_arrays(path, needs_labels=False) else reader("example"), {}
    found = reader(spec.reader)
    if not found.reads(path):
        others = [other for other in READERS if reader(other).reads(path)]
        hint = f" A file like that is for a model of kind {others[0]!r}." if others else ""
        reads = ", ".join(dict.fromkeys((*found.suffixes, ".npz")))
        raise IncidenceError(f"{path} is none of the files this model reads: {reads}.{hint}")
    return found, _options_for(path, spec)


def _options_for(path: Path, spec: ModelSpec) -> Mapping[str, Any]:
    """The options of the reader; a new table may call the column of SMILES otherwise, or have no names, if only one can be meant."""
    asked, lines = spec.reader_options.get("smiles"), (".smi", ".smiles")
    if asked is None or not path.name.lower().endswith((*SUFFIXES, *lines)):
        return spec.reader_options
    table = read_smiles(path, asked)
    is_there = asked in table.columns or (
        not table.has_names and f"column {asked}" in table.columns
    )
    are_lines = (
        path.suffix.lower() in lines and not table.has_names
    )  # whose first word is the molecule
    if is_there or not (are_lines or len(find_smiles(table)) == 1):
        return spec.reader_options
    return {key: value for key, value in spec.reader_options.items() if key != "smiles"}


def _of_texts(
    texts: Sequence[str | PathLike[str]], spec: ModelSpec, errors: list[IncidenceError]
) -> Iterator[Read]:
    """Names, paths and, for models of molecules, SMILES; those that stand together are read together."""
    for is_smiles, some in groupby(
        texts, lambda text: spec.reader == "molecule" and _is_smiles(text)
    ):
        if not is_smiles:
            yield from (read for text in some for read in _named(text, spec, errors))
            continue
        lines = list(map(str, some))
        table = Table(
            "the SMILES", {"smiles": lines}, [f"number {k}" for k in range(1, len(lines) + 1)]
        )
        options = {key: value for key, value in spec.reader_options.items() if key != "smiles"}
        yield from (
            read._replace(name=read.properties["smiles"])
            for read in read_rows(table, spec.reader, options, errors)
        )


def _is_smiles(text: str | PathLike[str]) -> bool:
    """Whether a text is a molecule: nothing of that name is there, and RDKit can read it."""
    is_name = (
        not isinstance(text, str)
        or text in DATA_SETS
        or text.startswith(PREFIX)
        or Path(text).expanduser().exists()
    )
    return not is_name and are_smiles([str(text)])
