"""`load`: the one door to data, whatever it is."""

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

from incidence.data.dataset import DataSet, sound
from incidence.data.examples_file import from_examples
from incidence.data.folders import read_folder
from incidence.data.link_sources import load_links
from incidence.data.molecules.scaffolds import scaffolds
from incidence.data.molecules.smiles import smiles_of
from incidence.data.pyg import PREFIX, from_pyg_data, from_pyg_name, is_pyg, unpacked
from incidence.data.readers import assert_options, options_of
from incidence.data.tables import are_frames, listed
from incidence.data.tabular import from_frames
from incidence.errors import IncidenceError, shown
from incidence.structure.example import Example
from incidence.structure.examples import uncollate

__all__ = ["DATA_SETS", "Source", "load", "load_whole", "register"]

_SHOWN = 5  # of what was passed over


@dataclass(frozen=True)
class Source:
    """A data set that has a name.

    Attributes:
        loader: Called as loader(name, folder, **options), gives a DataSet; folder is None if the user named none. Or where it is, as in
            `package.module.function`: that is imported when the data is asked for.
        about: One line for `--list`.
        recipe: Options it is trained with unless the user gives others, above those of all data that has its reader.
    """

    loader: str | Callable[..., DataSet]
    about: str = ""
    recipe: Mapping[str, Any] = field(default_factory=dict)


DATA_SETS: dict[str, Source] = {
    "solubility": Source(
        "incidence.data.molecules.solubility.load_solubility",
        "aqueous solubility of 1,282 molecules; part of the package",
    )
}
"""The data sets that have a name, and how each is loaded; `register` adds others."""


def register(
    name: str,
    loader: str | Callable[..., DataSet],
    about: str = "",
    recipe: Mapping[str, Any] | None = None,
) -> None:
    """Gives a data set a name, by which `load`, `incidence train --data NAME` and its kin find it; see `Source` for the arguments.

    Example:
        >>> from incidence.data.molecules.solubility import load_solubility
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
    **options: Any,
) -> DataSet:
    """Data of any kind, looked at and ready for training.

    Args:
        what: The name of a data set; `pyg:` and one of PyG; the path of a file or folder (see docs/datasets.md for the layouts); a data set
            of PyG, or graphs of it; a data frame of pandas or polars, or several by name; an `Example` or a list of them; part of such a
            list, as torch's `random_split` gives it; or a `DataSet`.
        target: What is to be predicted, if there are several things: a column or a property, or several in a list or divided by commas; of
            PyG the number of a column.
        folder: Where the files of a named data set are.
        task: `regression` or `classification`, where the values themselves do not tell; or `links`: which edges, or hyperedges, are there
            (docs/links.md).
        reader: The name of the reader of files, if their suffixes do not tell.
        validation: Which share of the training data is kept apart for validation, where the data does not tell that part.
        seed: Of splits that are drawn.
        cv: How many folds a cross validation has, where the data does not tell its parts: `data.splits` has a split for each.
        groups: What keeps rows together in one part, where these are drawn: a column of the data, `scaffold` for molecules, or a name for
            every row.
        options: Others of the data, of its layout, or of the reader of files; `smiles` is the column of a table that has SMILES.

    Raises:
        IncidenceError: There is no such data, it is damaged, it does not fit its task, or it does not take an option. Single molecules that
            cannot be read are passed over with a warning.

    Example:
        >>> data = load("solubility", validation=0.1)
        >>> data.task.names, [len(part) for part in data.split(0)]
        (('solubility',), [923, 102, 257])
    """
    data = load_whole(what, target, folder=folder, task=task, reader=reader, seed=seed, **options)
    return data.with_parts(
        validation, seed, cv, _groups(data, groups) if isinstance(groups, str) else groups
    )


def _groups(data: DataSet, name: str) -> Sequence[object]:
    """The group of every row: a column, or the scaffolds of molecules."""
    if name in data.columns:
        return data.columns[name]
    if name != "scaffold" or data.reader != "molecule":
        own = " It is no column beside the target" + (
            f"; there are: {listed(data.columns)}." if data.columns else ", as there is none."
        )
        raise IncidenceError(
            f"groups={name!r}: rows are kept together by a column, or by the scaffold of molecules.{own}"
        )
    smiles = smiles_of(data)
    if not smiles:
        raise IncidenceError(
            f"{data.name}: scaffolds are told by SMILES, and the data has no column of them."
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
    """What `load` gives, without parts unless the data tells them."""
    if not isinstance(seed, int) or isinstance(seed, bool):
        raise IncidenceError(f"the seed is a whole number; got {seed!r}.")
    home, what = None if folder is None else Path(expanduser(fspath(folder))), unpacked(what)

    def call(function: Callable[..., DataSet], who: str, *arguments: Any) -> DataSet:
        """Calls a function with those of the options that it takes; others are refused."""
        taken = options_of(function, len(arguments))
        if target is not None and "target" not in taken:
            raise IncidenceError(f"{who} has one target: leave out --target.")
        if reader is not None:
            raise IncidenceError(f"{who} has a reader of its own: leave out --reader.")
        known = {"seed": seed, "task": task, "target": target}
        given = {
            **{key: value for key, value in known.items() if key in taken and value is not None},
            **options,
        }
        assert_options(function, who, given, len(arguments))
        return function(*arguments, **given)

    if task == "links":
        unused = next(
            (
                flag
                for flag, value in (("--target", target), ("--reader", reader))
                if value is not None
            ),
            None,
        )
        if unused is not None:
            raise IncidenceError(f"links are asked for, and nothing else: leave out {unused}.")
        data = load_links(what, lambda one: load_whole(one, folder=folder), seed, **options)
    elif isinstance(what, DataSet):
        data = what
    elif isinstance(what, str) and what in DATA_SETS:
        loader = DATA_SETS[what].loader
        if isinstance(loader, str):
            module, _, name = loader.rpartition(".")
            loader = getattr(import_module(module), name)
        data = call(loader, f"the data set {what!r}", what, home)
    elif isinstance(what, str) and what.startswith(PREFIX):
        data = call(from_pyg_name, f"the data set {what!r}", what, home)
    elif isinstance(what, (str, PathLike)):
        place = expanduser(fspath(what))
        if not exists(place):  # which has no trouble with names that are too long
            have = f"{', '.join(sorted(DATA_SETS))}, and `{PREFIX}CLASS/NAME` for those of PyG"
            close = get_close_matches(fspath(what), DATA_SETS, n=1)
            guess = f" Did you mean {close[0]}?" if close else ""
            raise IncidenceError(
                f"{shown(fspath(what))} is no data set and no file or folder. Data sets: {have}.{guess}"
            )
        data = read_folder(Path(place), target, reader=reader, task=task, **options)
    elif are_frames(what):
        data = from_frames(what, target, reader=reader, task=task, **options)
    elif is_pyg(what):
        data = call(from_pyg_data, "data of PyG", what)
    elif isinstance(what, Example) or (
        isinstance(what, (list, tuple)) and all(isinstance(one, Example) for one in what)
    ):
        parts = [what] if isinstance(what, Example) else what
        data = call(
            from_examples,
            "a list of examples",
            [one for part in parts for one in (uncollate(part) if part.is_batch else [part])],
        )
    else:
        raise IncidenceError(
            f"data is a name, a path, a data frame, examples, graphs of PyG, or a DataSet; got {type(what)!r}."
        )
    if data.passed_over and data is not what:
        warnings.warn(_told(data), stacklevel=3)
    return sound(data)


def _told(data: DataSet) -> str:
    """What was passed over, in a few lines."""
    count, more = len(data.passed_over), len(data.passed_over) - _SHOWN
    rest = [f"and {more} more, all in `data.passed_over`"] if more > 0 else []
    if len(data.examples) == 1 and data.task.at:  # rows of tables that are one structure
        said = f"{count} row{'s' * (count > 1)} {'were' if count > 1 else 'was'} passed over:"
    else:
        said = f"{count} of {count + len(data.examples)} were passed over, as they cannot be read:"
    return "\n  ".join([f"{data.name}: {said}", *data.passed_over[:_SHOWN], *rest])
