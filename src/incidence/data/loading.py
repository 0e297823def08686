"""`load`: the one door to data, whatever it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from incidence.data.dataset import DataSet, sound
from incidence.data.examples_file import from_examples
from incidence.data.folders import read_folder
from incidence.data.pyg import PREFIX, from_pyg_data, from_pyg_name, is_pyg
from incidence.data.readers import assert_options, options_of
from incidence.errors import IncidenceError
from incidence.structure.example import Example
from incidence.structure.examples import uncollate

__all__ = ["DATA_SETS", "Source", "load", "register"]


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
    ),
}


def register(name: str, loader: str | Callable[..., DataSet], about: str = "", recipe: Mapping[str, Any] | None = None) -> None:
    """Gives a data set a name, by which `load`, `incidence train --data NAME` and its kin find it; see `Source` for the arguments.

    Example:
        >>> from incidence.data.molecules.solubility import load_solubility
        >>> register("water", load_solubility, "the data of the package by another name")
        >>> load("water").name
        'water'
        >>> del DATA_SETS["water"]
    """
    DATA_SETS[name] = Source(loader, about, recipe or {})


@dataclass(frozen=True)
class _Asked:
    """What is to be loaded, and how."""

    what: Any
    target: Any
    folder: Path | None
    task: str | None
    reader: str | None
    seed: int
    options: dict[str, Any]

    def call(self, function: Callable[..., DataSet], who: str, *arguments: Any) -> DataSet:
        """Calls a function with those of the options that it takes; others are refused."""
        taken = options_of(function, len(arguments))
        if self.target is not None and "target" not in taken:
            raise IncidenceError(f"{who} has one target: leave out --target.")
        if self.reader is not None:
            raise IncidenceError(f"{who} has a reader of its own: leave out --reader.")
        known = {"seed": self.seed, "task": self.task, "target": self.target}
        given = {**{key: value for key, value in known.items() if key in taken and value is not None}, **self.options}
        assert_options(function, who, given, len(arguments))
        return function(*arguments, **given)


def load(
    what: Any,
    target: str | int | Sequence[str] | None = None,
    *,
    folder: str | PathLike[str] | None = None,
    task: str | None = None,
    reader: str | None = None,
    validation: float | None = None,
    seed: int = 0,
    **options: Any,
) -> DataSet:
    """Data of any kind, looked at and ready for training.

    Args:
        what: The name of a data set; `pyg:` and one of PyG; the path of a file or folder (see docs/datasets.md for the layouts); a data set
            of PyG, or graphs of it; an `Example` or a list of them; or a `DataSet`.
        target: What is to be predicted, if there are several things: a column or a property, or several in a list or divided by commas; of
            PyG the number of a column.
        folder: Where the files of a named data set are.
        task: `regression` or `classification`, where the values themselves do not tell.
        reader: The name of the reader of files, if their suffixes do not tell.
        validation: Which share of the training data is kept apart for validation, where the data does not tell that part.
        seed: Of splits that are drawn.
        options: Others of the data, or of the reader of files.

    Raises:
        IncidenceError: There is no such data, it is damaged, it does not fit its task, or it does not take an option.

    Example:
        >>> data = load("solubility", validation=0.1)
        >>> data.task.names, [len(part) for part in data.split(0)]
        (('solubility',), [923, 102, 257])
    """
    asked = _Asked(what, target, None if folder is None else Path(folder).expanduser(), task, reader, seed, options)
    read = next((read for applies, read in _SOURCES if applies(what)), None)
    if read is None:
        if not _is_text(what):
            raise IncidenceError(f"data is a name, a path, examples, graphs of PyG, or a DataSet; got {type(what)!r}.")
        have = f"{', '.join(sorted(DATA_SETS))}, and `{PREFIX}CLASS/NAME` for those of PyG"
        raise IncidenceError(f"{fspath(what)!r} is no data set and no file or folder. Data sets: {have}.")
    return sound(read(asked)).with_parts(validation, seed)


def _named(asked: _Asked) -> DataSet:
    loader = DATA_SETS[asked.what].loader
    if isinstance(loader, str):
        module, _, function = loader.rpartition(".")
        loader = getattr(import_module(module), function)
    return asked.call(loader, f"the data set {asked.what!r}", asked.what, asked.folder)


def _own_files(asked: _Asked) -> DataSet:
    return read_folder(Path(asked.what).expanduser(), asked.target, reader=asked.reader, task=asked.task, **asked.options)


def _examples(asked: _Asked) -> DataSet:
    parts = [asked.what] if isinstance(asked.what, Example) else asked.what
    examples = [one for part in parts for one in (uncollate(part) if part.is_batch else [part])]
    return asked.call(from_examples, "a list of examples", examples)


def _is_text(what: Any) -> bool:
    return isinstance(what, (str, PathLike))


_SOURCES: tuple[tuple[Callable[[Any], bool], Callable[[_Asked], DataSet]], ...] = (
    (lambda what: isinstance(what, DataSet), lambda asked: asked.what),
    (lambda what: isinstance(what, str) and what in DATA_SETS, _named),
    (
        lambda what: isinstance(what, str) and what.startswith(PREFIX),
        lambda asked: asked.call(from_pyg_name, f"the data set {asked.what!r}", asked.what, asked.folder),
    ),
    (lambda what: _is_text(what) and Path(what).expanduser().exists(), _own_files),
    (is_pyg, lambda asked: asked.call(from_pyg_data, "data of PyG", asked.what)),
    (lambda what: isinstance(what, Example) or (isinstance(what, (list, tuple)) and all(isinstance(e, Example) for e in what)), _examples),
)
"""Whether something is data of a kind, and what reads it; the first that applies."""
