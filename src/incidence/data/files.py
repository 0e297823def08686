"""Files of the user: the readers by suffix (`READERS`), and the layouts of folders (`_LAYOUTS`).

A new file type is one entry of `READERS`: its name, its suffixes, and a function from a path to
records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from os.path import isdir, isfile
from pathlib import Path
from typing import Any

from incidence.data.columns import (
    PARTS,
    as_classes,
    choose_targets,
    is_split,
    read_parts,
    read_targets,
)
from incidence.data.database import is_database
from incidence.data.dataset import DataSet, Reader, Record
from incidence.data.dataset_builder import (
    DataRequest,
    assert_options,
    build,
    from_examples,
    from_records,
)
from incidence.data.forecasts import from_database, read_queries
from incidence.data.graphs import node_file, read_graphs
from incidence.data.hypergraph_tables import (
    HIF,
    find_hypergraph,
    hif_files,
    hif_tables,
    is_hif,
    lines_as_table,
)
from incidence.data.hypergraphs import READER as HYPERGRAPH
from incidence.data.hypergraphs import (
    from_hif_files,
    from_hypergraph_tables,
    options_for_files,
    read_hypergraphs,
)
from incidence.data.mesh_labels import find_labelled, from_labelled_meshes
from incidence.data.meshes import read_meshes
from incidence.data.molecule_files import FORMATS, find_smiles, read_molecules
from incidence.data.npz_files import from_arrays, has_arrays, read_examples
from incidence.data.prepared import is_prepared, load_prepared
from incidence.data.spool import collected
from incidence.data.table_kinds import beside, from_tables, read_any
from incidence.data.tables import SUFFIXES, TextTable, is_table, join_parts, read_table
from incidence.errors import IncidenceError, shown
from incidence.files import regular_file

__all__ = ["READERS", "TARGETS", "read_file", "read_folder", "reader", "reader_for"]
__all__ += ["register_reader"]

READERS: dict[str, Reader] = {
    "graph": Reader((".edges", ".txt", ".tsv", ".csv", ".g6"), read_graphs),
    "example": Reader((".npz",), read_examples),
    "molecule": Reader((*FORMATS, *(f"{suffix}.gz" for suffix in FORMATS)), read_molecules),
    "database": Reader((), read_queries),
    "hypergraph": Reader((*HIF, ".hyperedges"), read_hypergraphs),
    "mesh": Reader((".obj", ".off", ".ply", ".stl"), read_meshes),
}
"""The readers of files by name."""
# Files of these readers have layouts of their own; all others list examples with their targets.
_WITH_LAYOUTS = ("graph", "example", "molecule", "database", "hypergraph", "mesh")


def register_reader(
    name: str, suffixes: Sequence[str], read: Callable[..., Iterator[Record]]
) -> None:
    """Register a reader of files, for `load` and `incidence train --data FOLDER`.

    Args:
        name: The name, for `--reader`.
        suffixes: The suffixes of its files, such as `.tgf`.
        read: Called as `read(path, errors, **options)`; yields records. See `Reader`.

    Raises:
        IncidenceError: A suffix does not begin with a point.
    """
    wrong = next((suffix for suffix in suffixes if not suffix.startswith(".")), None)
    if wrong is not None or isinstance(suffixes, str):
        raise IncidenceError(f"suffixes are a list of texts like '.tgf'; got {suffixes!r}.")
    # A name that is there is replaced, so that a user can read `.txt` differently.
    READERS[name] = Reader(tuple(suffixes), read)


def reader(name: str) -> Reader:
    """Return the reader of that name.

    Raises:
        IncidenceError: There is none.
    """
    if name not in READERS:
        raise IncidenceError(f"no reader {name!r}; there are: {', '.join(sorted(READERS))}.")
    return READERS[name]


def reader_for(paths: Sequence[Path], name: str | None = None) -> str:
    """Return the name of the reader for files: the given one, else the one their suffixes tell.

    Raises:
        IncidenceError: No reader, or more than one, reads all of the files.
    """
    if name is not None:
        reader(name)  # raises if there is none
        return name
    fitting = {path: {key for key in READERS if READERS[key].reads(path)} for path in paths}
    unread = next((path for path, names in fitting.items() if not names), None)
    if unread is not None:
        suffixes = ", ".join(f"{key} ({' '.join(one.suffixes)})" for key, one in READERS.items())
        raise IncidenceError(
            f"no reader reads {unread}. Readers by suffix: {suffixes}. Give --reader for another"
            " suffix."
        )
    # One reader for all files of a data set: features of two readers are not alike.
    candidates = [key for key in READERS if all(key in names for names in fitting.values())]
    if len(candidates) == 1:
        return candidates[0]
    problem = "the files need different readers"
    if candidates:
        problem = f"the readers {', '.join(candidates)} all read such files"
    raise IncidenceError(
        f"cannot tell which reader to use for {paths[0].name}: {problem}. Give --reader."
    )


def read_file(
    name: str, path: Path, options: Mapping[str, Any], errors: list[IncidenceError] | None = None
) -> list[Record]:
    """Return the records of a file.

    Args:
        name: The name of the reader.
        path: The file.
        options: Options of the reader.
        errors: Collects the errors of single records; the first one is raised if it is None.

    Raises:
        IncidenceError: The file cannot be read, or has no record.
    """
    # A list from outside means that single broken records are skipped.
    met: list[IncidenceError] = [] if errors is None else errors
    records = list(_each_record(name, path, options, met))
    if errors is None and met:
        raise met[0]
    return records


def _each_record(
    name: str, path: Path, options: Mapping[str, Any], errors: list[IncidenceError]
) -> Iterator[Record]:
    """Yield the records of a file."""
    if not path.is_file():
        raise IncidenceError(f"there is no file {path}.")
    read = reader(name).read
    assert_options(read, f"the reader {name!r}", options)
    is_empty = True
    for record in read(path, errors, **options):
        is_empty = False
        yield record
    if is_empty and not errors:
        raise IncidenceError(f"{path} has no example.")


TARGETS, _SAVED = "targets.csv", "examples.npz"
_TEXTS = (".txt", ".dat", ".data", ".tab")  # suffixes of files that may be tables
_MOLECULES = tuple(suffix + end for suffix in (".sdf", ".smi", ".smiles") for end in ("", ".gz"))


def read_folder(path: Path, request: DataRequest) -> DataSet:
    """Return the data set of a folder or file; docs/datasets.md has the layouts.

    Raises:
        IncidenceError: The folder has none of the layouts, or a file in it is damaged.
    """
    name = path.resolve().name
    if not isdir(path):
        name = regular_file(path, "a data set").name.partition(".")[0]
    request = replace(request, source=str(path), name=name, path=path)
    for applies, read in _LAYOUTS:
        if applies(path, request):
            return read(request)
    raise IncidenceError(
        f"{path} is no data set. Expected {TARGETS} beside the files that it lists, a folder of"
        f" files for each class, SDF files, tables (.csv), or {_SAVED}."
    )


def _files(folder: Path, suffixes: Sequence[str]) -> list[Path]:
    """Return the files of a folder with one of the suffixes, in order, without hidden ones."""
    return [
        file
        for file in sorted(folder.iterdir())
        if file.is_file()
        and not file.name.startswith(".")
        and file.name.lower().endswith(tuple(suffixes))
    ]


def _folders(path: Path) -> list[Path]:
    return sorted(
        child for child in path.iterdir() if child.is_dir() and not child.name.startswith(".")
    )


def _read_listed_files(request: DataRequest) -> DataSet:
    """Return the data set of the files that a table lists, with their targets."""
    path = request.path / TARGETS
    options = dict(request.options)
    # `is True`, as the text "false" of a command line would count as true.
    may_be_outside = options.pop("outside", False) is True
    request = replace(request, options=options)
    table = read_table(path)
    names = _target_columns(path, table, request)
    texts = {name: table[name] for name in names}
    task, targets = read_targets(str(path), texts, request.task)
    files = [request.path / name for name in table["file"]]
    if not may_be_outside:
        _assert_below(path, files)
    absent = next((file for file in files if not isfile(file)), None)
    if absent is not None:
        raise IncidenceError(f"{path} lists {shown(str(absent))}, and there is no such file.")
    name = reader_for(files, request.reader)
    if name == HYPERGRAPH:
        options = options_for_files(files, options)
        request = replace(request, options=options)

    def every_record() -> Iterator[Record]:
        for number, file in enumerate(files):
            found = read_file(name, file, options)
            if len(found) > 1:
                raise IncidenceError(
                    f"{file} has {len(found)} examples, and a row of {TARGETS} is for one: put each"
                    " into a file of its own."
                )
            yield found[0]._replace(properties=table.row(number))

    records = collected(every_record())
    return build(request, records, name, task, targets, read_parts(table))


def _target_columns(path: Path, table: TextTable, request: DataRequest) -> tuple[str, ...]:
    """Return the columns of a table of files that are targets."""
    values = tuple(name for name in table.columns if name != "file" and not is_split(name))
    names = choose_targets(table, request.targets) if request.targets else values
    missing = next((name for name in names if name not in values), None)
    if "file" not in table.columns:
        missing = "file"
    if missing is None and names:
        return names
    kind = " of targets" if missing in table.columns else ""
    raise IncidenceError(
        f"{path} has no column `{missing or 'target'}`{kind}; it has: {', '.join(table.columns)}."
    )


def _assert_below(table: Path, files: Sequence[Path]) -> None:
    """Refuse a table that lists files outside of its folder: it may come from somebody else."""
    for file in (one for listed in files for one in (listed, node_file(listed))):
        if not _is_below(file, table.parent):
            raise IncidenceError(
                f"{table} lists {shown(str(file))}, which is not below its folder. If that is"
                " meant, give `--data-options outside=true`."
            )


def _is_below(file: Path, folder: Path) -> bool:
    """Return whether a file lies in a folder, or in a folder inside, wherever links lead."""
    try:
        return file.resolve().is_relative_to(folder.resolve())
    except (OSError, ValueError, RuntimeError):  # a name too long, with a NUL, or a circle of links
        return False


def _read_classes(request: DataRequest) -> DataSet:
    """Return the data set of a folder of files for each class, perhaps with folders of parts."""
    path = request.path
    names = [request.reader] if request.reader else READERS
    suffixes = [suffix for name in names for suffix in reader(name).suffixes]
    files, labels, parts = list[Path](), list[str](), list[int | None]()
    for folder in _folders(path):
        # Folders of parts may lie inside of those of classes, as `cats/train/`.
        places: list[tuple[Path, int | None]] = [(folder, None)]
        for below in _folders(folder):
            if below.name.lower() in PARTS:
                places.append((below, PARTS[below.name.lower()]))
        for place, part in places:
            found = _files(place, suffixes)
            files += found
            labels += [folder.name] * len(found)
            parts += [part] * len(found)
    if not files:
        raise IncidenceError(
            f"the folders of {path} have no files to read; suffixes that can be read are"
            f" {', '.join(suffixes)}."
        )
    name = reader_for(files, request.reader)
    if name == HYPERGRAPH:
        request = replace(request, options=options_for_files(files, request.options))
    classes, parts_of_records = list[str](), list[int]()

    def every_record() -> Iterator[Record]:
        for file, label, part in zip(files, labels, parts, strict=True):
            for record in read_file(name, file, request.options):
                classes.append(label)
                if part is not None:
                    parts_of_records.append(part)
                yield record._replace(name=f"{label}/{record.name}")

    records = collected(every_record())
    if parts_of_records and len(parts_of_records) < len(records):
        raise IncidenceError(
            f"{path}: some classes have folders train and test, and others have files without a"
            " part. Use one way."
        )
    return build(request, records, name, *as_classes(classes), parts_of_records or None)


def _read_all_records(request: DataRequest) -> DataSet:
    """Return the data set of files that list examples with their targets; broken ones are skipped.

    These are SDF files, lines of SMILES, and files of readers that users registered.
    """
    path, files = request.path, _files_of_records(request.path)
    # train.sdf, test.sdf
    part_of = {file: PARTS.get(file.name.partition(".")[0].lower()) for file in files}
    has_parts = len(files) > 1
    if has_parts and None in part_of.values():
        raise IncidenceError(
            f"{path} has several files of molecules: name one of them, or call them train.sdf and"
            " test.sdf."
        )
    name, errors = reader_for(files, request.reader), list[IncidenceError]()
    parts = list[int]()

    def every_record() -> Iterator[Record]:
        for file in files:
            for record in _each_record(name, file, request.options, errors):
                parts.append(part_of[file] or 0)
                yield record

    records = collected(every_record())
    return from_records(
        request, records, name, find_smiles, parts if has_parts else None, errors, "property"
    )


def _files_of_records(path: Path) -> list[Path]:
    """Return the files of a folder, or a file, that list examples with their targets."""
    suffixes = [*_MOLECULES]
    laid_out = [READERS[name] for name in _WITH_LAYOUTS if name in READERS]
    others = {suffix for reader in laid_out for suffix in reader.suffixes}
    for reader in READERS.values():
        suffixes += [suffix for suffix in reader.suffixes if suffix not in others]
    if path.is_dir():
        return _files(path, suffixes)
    return [path] if path.name.lower().endswith(tuple(suffixes)) else []


def _read_database(request: DataRequest) -> DataSet:
    return from_database(request.path, request)


def _refuse_database(request: DataRequest) -> DataSet:
    raise IncidenceError(
        f"{request.path} is a database: say what to predict by a table of entities, times and"
        " targets, as in `--task-table task.csv`."
    )


def _read_labelled_meshes(request: DataRequest) -> DataSet:
    return from_labelled_meshes(find_labelled(request.path), request)


def _read_hif(request: DataRequest) -> DataSet:
    return from_hypergraph_tables(hif_tables(request.path), request)


def _read_hif_files(request: DataRequest) -> DataSet:
    """Return the data set of a folder of HIF files, whose metadata has the targets."""
    return from_hif_files(*hif_files(request.path), request)


def _read_hyperedges(request: DataRequest) -> DataSet:
    """Return the data set of lines of hyperedges, with tables of labels beside them."""
    tables = {"incidences": lines_as_table(request.path)}
    of_nodes = next(iter(beside(request.options.get("nodes"), "nodes").values()), None)
    if of_nodes is not None:
        tables["nodes"] = of_nodes
    tables |= beside(request.options.get("tables"), "tables")
    found = find_hypergraph(tables)
    assert found is not None  # the table of incidences has the usual names
    return from_hypergraph_tables(found, request)


def _are_hyperedges(path: Path, request: DataRequest) -> bool:
    """Return whether a file has a hyperedge on each line: it says so, or lines differ in length."""
    if not path.is_file() or path.name.lower().endswith((*_MOLECULES, ".npz", *HIF)):
        return False
    if is_table(path) and "hyperedges" not in request.options:
        return False
    if path.name.lower().endswith(".hyperedges") or request.options.get("hyperedges") is True:
        return True
    if path.suffix.lower() not in _TEXTS or not {"nodes", "tables"} & request.options.keys():
        return False
    # Lines of edges all have two words, or three with a weight.
    counts = Counter(lines_as_table(path)["hyperedge"])
    return len(set(counts.values())) > 1


def _read_tables(request: DataRequest) -> DataSet:
    """Return the data set of a table, or of a folder of tables; parts of a table are joined."""
    tables = {
        file.name.partition(".")[0]: read_any(file, request.options.get("smiles"))
        for file in _table_files(request)
    }
    if len(tables) > 1 and all(name.lower() in PARTS for name in tables):  # train.csv and test.csv
        tables = {request.name: join_parts(tables)}
    return from_tables(tables, request)


def _table_files(request: DataRequest) -> list[Path]:
    """Return the tables of a folder, or a file that is a table.

    Its name decides, or that the options are those of tables.
    """
    path = request.path
    if path.is_dir():
        return _files(path, SUFFIXES)
    has_options = not {"nodes", "keys", "tables"}.isdisjoint(request.options)
    is_one = is_table(path) or path.suffix.lower() in _TEXTS or has_options
    return [path] if is_one else []


def _read_saved_examples(request: DataRequest) -> DataSet:
    path = request.path / _SAVED if request.path.is_dir() else request.path
    given = {
        "--target": bool(request.targets),
        "--reader": request.reader not in (None, "example"),
        "--data-options": bool(request.options),
    }
    for flag, is_given in given.items():
        if is_given:
            raise IncidenceError(f"{path} has targets and features already: leave out {flag}.")
    name = path.stem if path.stem != "examples" else path.resolve().parent.name
    examples = [record.example for record in read_examples(path)]
    return from_examples(examples, name=name, source=str(path), task=request.task)


def _is_saved_examples(path: Path, request: DataRequest) -> bool:
    if path.is_file():
        return path.suffix.lower() == ".npz"
    return (path / _SAVED).is_file()


_LAYOUTS: tuple[
    tuple[Callable[[Path, DataRequest], bool], Callable[[DataRequest], DataSet]], ...
] = (
    (lambda path, request: "task_table" in request.options, _read_database),
    (lambda path, _: path.is_file() and is_database(path), _refuse_database),
    (lambda path, _: (path / TARGETS).is_file(), _read_listed_files),
    (lambda path, _: is_prepared(path), load_prepared),
    (lambda path, _: path.suffix.lower() == ".npz" and has_arrays(path), from_arrays),
    (lambda path, _: bool(find_labelled(path)), _read_labelled_meshes),
    (_is_saved_examples, _read_saved_examples),
    (lambda path, _: path.is_file() and is_hif(path), _read_hif),
    (_are_hyperedges, _read_hyperedges),
    (lambda path, _: bool(hif_files(path).files), _read_hif_files),
    (lambda path, _: bool(_files_of_records(path)), _read_all_records),
    (lambda path, request: bool(_table_files(request)), _read_tables),
    (lambda path, _: path.is_dir() and bool(_folders(path)), _read_classes),
)
"""Whether a path has a layout, and what reads that layout; the first that applies counts."""
