"""`load`: data of any kind, from what the user gave to a checked `DataSet`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib import import_module
from os import PathLike, fspath
from os.path import exists, expanduser
from pathlib import Path
from typing import Any

from incidence.data.dataset import DataSet
from incidence.data.dataset_builder import DataRequest, from_examples
from incidence.data.dataset_checks import checked
from incidence.data.files import read_folder
from incidence.data.link_sources import load_links
from incidence.data.molecule_files import scaffolds, smiles_of
from incidence.data.networkx_graphs import are_networkx, load_networkx
from incidence.data.pyg import PREFIX, from_pyg_data, from_pyg_name, is_pyg, unpacked
from incidence.data.surfaces import load_surfaces
from incidence.data.table_kinds import from_frames
from incidence.data.tables import are_frames, listed
from incidence.errors import IncidenceError, by_door, shown
from incidence.extensions import load_extensions
from incidence.structure.collate import uncollate
from incidence.structure.example import Example

__all__ = ["DATA_SETS", "Source", "load", "load_whole", "register"]

_MOST_SHOWN = 5  # records that were skipped, in a warning


@dataclass(frozen=True)
class Source:
    """A data set that has a name.

    Attributes:
        loader: Called as `loader(name, folder, **options)`; returns a `DataSet`. The folder is None
            if the user named none. A text such as `package.module.function` names a function that
            is imported when the data is loaded.
        about: One line for `--list`.
        recipe: Options for training on it, unless the user gives others. They win over those of
            all data with its reader.
    """

    loader: str | Callable[..., DataSet]
    about: str = ""
    recipe: Mapping[str, Any] = field(default_factory=dict)


def _load_solubility(name: str, folder: Path | None) -> DataSet:
    from incidence.data.molecules import load_solubility

    return load_solubility(name, folder)


DATA_SETS: dict[str, Source] = {
    "solubility": Source(
        _load_solubility, "aqueous solubility of 1,282 molecules; part of the package"
    ),
    "surfaces": Source(
        load_surfaces,
        "43,138 triangulated closed surfaces and their topology",
        {"model": "topology", "epochs": 10},
    ),
}
"""The data sets that have a name; `register` adds others."""


def register(
    name: str,
    loader: str | Callable[..., DataSet],
    about: str = "",
    recipe: Mapping[str, Any] | None = None,
) -> None:
    """Register a data set by name, for `load` and `incidence train --data NAME`.

    Args:
        name: The name.
        loader: A function, or the path of one; see `Source`.
        about: One line for `--list`.
        recipe: Options for training on it, unless the user gives others.

    Example:
        >>> from incidence.data.molecules import load_solubility
        >>> register("water", load_solubility, "the data of the package by another name")
        >>> load("water").name
        'water'
        >>> del DATA_SETS["water"]
    """
    DATA_SETS[name] = Source(loader, about, recipe or {})


def load(
    what: Any,
    target: str | int | Sequence[str] | None = None,
    *,
    folder: str | PathLike[str] | None = None,
    task: str | None = None,
    reader: str | None = None,
    validation: float | None = None,
    seed: int = 0,
    cv: int | None = None,
    groups: str | Sequence[object] | None = None,
    time: str | None = None,
    **options: Any,
) -> DataSet:
    """Load data of any kind, check it, and split it.

    Args:
        what: The name of a data set; `pyg:` and the name of a data set of PyG; the path of a file
            or folder (docs/datasets.md has the layouts); a data set or graphs of PyG; a graph of
            networkx with labels of its nodes, or a list with a target in each; a data frame
            of pandas, polars or Arrow, or several by name; an `Example` or a list of them; part of
            such a list, as torch's `random_split` returns it; or a `DataSet`.
        target: What is to be predicted, if there are several candidates: a column or a property;
            several in a list, or divided by commas; for data of PyG, the number of a column.
        folder: Where the files of a named data set are.
        task: `regression` or `classification`, if the values do not decide it; or `links`: which
            edges or hyperedges exist (docs/links.md).
        reader: The name of the reader of files, if their suffixes do not decide it.
        validation: The share of the training part that becomes the validation part, if the data
            defines none.
        seed: Seed of the parts that are drawn.
        cv: The number of folds of a cross validation, if the data defines no parts. `data.splits`
            then has a split for each fold.
        groups: Rows of one group stay in one part: a column of the data, `scaffold` for molecules,
            or a name for every row.
        time: A column of times. The latest tenth of the rows is for testing, and those before it
            for validation.
        options: Options of the data, its layout, or its reader. `smiles` is the column of a table
            that has SMILES.

    Raises:
        IncidenceError: There is no such data, it is damaged, does not fit its task, or does not
            take an option. Single molecules that cannot be read are skipped with a warning.

    Example:
        >>> data = load("solubility", validation=0.1)
        >>> data.task.names, [len(part) for part in data.split(0)]
        (('solubility',), [923, 102, 257])
    """
    data = load_whole(what, target, folder=folder, task=task, reader=reader, seed=seed, **options)
    if isinstance(groups, str):
        groups = _groups_of(data, groups)
    return data.with_parts(validation, seed, cv, groups, time)


def _groups_of(data: DataSet, name: str) -> Sequence[object]:
    """Return the group of every row: the values of a column, or the scaffolds of molecules."""
    if name in data.columns:
        return data.columns[name]
    if name != "scaffold" or data.reader != "molecule":
        has = f"columns: {listed(data.columns)}" if data.columns else "there are no columns"
        raise IncidenceError(
            f"groups={name!r} is no column beside the target ({has}). Rows are grouped by a column,"
            " or by the scaffold of molecules."
        )
    smiles = smiles_of(data)
    if not smiles:
        raise IncidenceError(
            f"{data.name}: scaffolds are computed from SMILES, and the data has no column of them."
        )
    return scaffolds(smiles)


def load_whole(
    what: Any,
    target: str | int | Sequence[str] | None = None,
    *,
    folder: str | PathLike[str] | None = None,
    task: str | None = None,
    reader: str | None = None,
    seed: int = 0,
    **options: Any,
) -> DataSet:
    """Load data as `load` does, with the parts that it defines, and without any that are drawn."""
    # Names and readers of other packages come first: they may be what the user means.
    load_extensions()
    if not isinstance(seed, int) or isinstance(seed, bool):
        raise IncidenceError(f"the seed is a whole number; got {seed!r}.")
    request = DataRequest(
        target=target,
        task=task,
        reader=reader,
        options=options,
        folder=None if folder is None else Path(expanduser(fspath(folder))),
        seed=seed,
    )
    if not isinstance(what, (str, PathLike, DataSet)):
        what = unpacked(what)
    if task == "links":
        data = _load_links(what, request)
    else:
        data = next(load for is_such, load in _SOURCES if is_such(what))(what, request)
    if data.passed_over and data is not what:
        warnings.warn(_skipped_in_words(data), stacklevel=3)
    return checked(data)


def _load_links(what: Any, request: DataRequest) -> DataSet:
    for flag, value in (("--target", request.target), ("--reader", request.reader)):
        if value is not None:
            raise IncidenceError(f"with `--task links`, links are the target: leave out {flag}.")

    def load_named(name: Any) -> DataSet:
        return load_whole(name, folder=request.folder)

    return load_links(what, load_named, request.seed, **request.options)


def _load_named(what: str, request: DataRequest) -> DataSet:
    loader = DATA_SETS[what].loader
    if isinstance(loader, str):
        module, _, name = loader.rpartition(".")
        loader = getattr(import_module(module), name)
    return request.call(loader, f"the data set {what!r}", what, request.folder)


def _load_pyg_name(what: str, request: DataRequest) -> DataSet:
    return request.call(from_pyg_name, f"the data set {what!r}", what, request.folder)


def _load_path(what: str | PathLike[str], request: DataRequest) -> DataSet:
    path = expanduser(fspath(what))
    if exists(path):  # unlike `Path.exists`, it raises nothing for names that are too long
        return read_folder(Path(path), request)
    names = f"{', '.join(sorted(DATA_SETS))}, and `{PREFIX}CLASS/NAME` for those of PyG"
    close = get_close_matches(fspath(what), DATA_SETS, n=1)
    guess = f" Did you mean {close[0]}?" if close else ""
    raise IncidenceError(
        f"{shown(fspath(what))} is no data set and no file or folder. Data sets: {names}.{guess}"
    )


def _load_pyg(what: Any, request: DataRequest) -> DataSet:
    return request.call(from_pyg_data, "data of PyG", what)


def _load_examples(what: Any, request: DataRequest) -> DataSet:
    given = [what] if isinstance(what, Example) else what
    examples = [one for part in given for one in (uncollate(part) if part.is_batch else [part])]
    return request.call(from_examples, "a list of examples", examples)


def _are_examples(what: Any) -> bool:
    is_list = isinstance(what, (list, tuple))
    return isinstance(what, Example) or (is_list and all(isinstance(one, Example) for one in what))


def _refuse(what: Any, request: DataRequest) -> DataSet:
    raise IncidenceError(
        "data is a name, a path, a data frame, examples, graphs of PyG or networkx, or a DataSet;"
        f" got {type(what)!r}."
    )


_SOURCES: tuple[tuple[Callable[[Any], bool], Callable[[Any, DataRequest], DataSet]], ...] = (
    (lambda what: isinstance(what, DataSet), lambda what, request: what),
    (lambda what: isinstance(what, str) and what in DATA_SETS, _load_named),
    (lambda what: isinstance(what, str) and what.startswith(PREFIX), _load_pyg_name),
    (lambda what: isinstance(what, (str, PathLike)), _load_path),
    (are_frames, from_frames),
    (is_pyg, _load_pyg),
    (_are_examples, _load_examples),
    (are_networkx, load_networkx),
    (lambda what: True, _refuse),
)
"""What data may be, and what loads it; the first that applies counts."""


def _skipped_in_words(data: DataSet) -> str:
    """Return a warning with the first records that were skipped."""
    count, more = len(data.passed_over), len(data.passed_over) - _MOST_SHOWN
    if len(data.examples) == 1 and data.task.at:  # rows of tables make one structure
        what = f"skipped {count} row{'s' * (count > 1)}:"
    else:
        what = f"skipped {count} of {count + len(data.examples)} records that cannot be read:"
    lines = [f"{data.name}: {what}", *data.passed_over[:_MOST_SHOWN]]
    if more > 0:
        where = by_door("", ", all in `data.passed_over`")
        lines.append(f"and {more} more{where}")
    return "\n  ".join(lines)
