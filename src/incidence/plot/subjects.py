"""From a text to what is to be drawn: a map, a pattern, a named object, a molecule, a file, a data set, or a run.

What is heavy is loaded only for what needs it: a map is drawn without torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from incidence.algebra.maps import EquivariantMap
from incidence.algebra.multilinear import MultilinearMap
from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError

__all__ = ["SMILES", "OpenRun", "Subject", "lifted", "subject_of"]

SMILES = "smiles:"
_MESHES = (".obj", ".off", ".ply", ".stl")


class Subject(NamedTuple):
    """What is to be drawn.

    Attributes:
        kind: `map`, `products`, `pattern`, `structure` or `run`.
        value: The map, linear or multilinear, the pattern, the structure or example, or the run.
        name: What a file with its picture is called.
        layout: Coordinates of the nodes, where they are known.
    """

    kind: str
    value: Any
    name: str
    layout: Any = None


class OpenRun(Protocol):
    """A run, as much as is drawn of it: its network, and a row of metrics for each epoch."""

    @property
    def network(self) -> Any: ...
    @property
    def history(self) -> Sequence[Mapping[str, float]]: ...


def subject_of(
    text: str,
    open_run: Callable[[Path], OpenRun],
    rows: Sequence[int] = (),
    reader: str | None = None,
) -> Subject:
    """Finds out what a text means.

    Args:
        text: As it was typed.
        open_run: How the folder of a run is opened.
        rows: Which examples, where there are several; all if none are told.
        reader: The name of the reader of a file, where its suffix does not tell.

    Raises:
        IncidenceError: It is none of what can be drawn, or it cannot be read.
    """
    if rows and not _has_rows(text):
        raise IncidenceError(
            f"--rows chooses among the examples of a file or data set; {text!r} is none. Leave it out."
        )
    if "->" in text:
        return (
            Subject("products", MultilinearMap(text), "products")
            if "*" in text
            else Subject("map", EquivariantMap(text), "map")
        )
    if text.startswith(SMILES):
        return Subject("structure", _molecule(text.removeprefix(SMILES)), "molecule")
    path = Path(text).expanduser()
    if path.exists():
        return _folder(path, open_run) if path.is_dir() else _file(path, rows, reader)
    return _named(text) or _data_set(text, rows) or _pattern(text)


def _has_rows(text: str) -> bool:
    path = Path(text).expanduser()
    if path.is_file():
        return not path.name.removesuffix(".gz").lower().endswith((*_MESHES, ".npz"))
    return text in import_module("incidence.data").DATA_SETS or text.startswith("pyg:")


def _molecule(smiles: str) -> Any:
    return import_module("incidence.data.molecules.features").features_of(smiles)


def _folder(path: Path, open_run: Callable[[Path], OpenRun]) -> Subject:
    if not (path / "config.yaml").is_file():
        raise IncidenceError(
            f"{path} is a folder, but not of a run: it has no config.yaml. Name one file of it."
        )
    return Subject("run", open_run(path), path.name)


def _file(path: Path, rows: Sequence[int], reader: str | None) -> Subject:
    stem = path.name.partition(".")[0]
    if path.name.removesuffix(".gz").lower().endswith(_MESHES):
        mesh = import_module("incidence.geometry.meshes").read_mesh(path)
        return Subject("structure", mesh.structure, stem, mesh.points)
    if path.suffix == ".npz":
        return Subject("structure", _stored(path), stem)
    readers = import_module("incidence.data.readers")
    found = [
        read.example
        for read in readers.read_file(readers.reader_for([path], reader), path, {}, errors=[])
    ]
    return Subject("structure", _some(found, rows, str(path)), stem)


def _stored(path: Path) -> Any:
    """What `Structure.save` or `Example.save` wrote."""
    structures = import_module("incidence.structure")
    try:
        return structures.Example.load(path)
    except IncidenceError:
        return structures.Structure.load(path)


def _some(examples: Sequence[Any], rows: Sequence[int], what: str) -> Any:
    """Some examples as a batch."""
    for row in rows:
        if not -len(examples) <= row < len(examples):
            raise IncidenceError(
                f"{what} has {len(examples):,} examples; there is no number {row}."
            )
    chosen = [examples[row] for row in rows] if rows else list(examples)
    return chosen[0] if len(chosen) == 1 else import_module("incidence.structure").collate(chosen)


def _named(text: str) -> Subject | None:
    """A named object; None if nothing has that name, even nearly."""
    catalogue = import_module("incidence.geometry.catalogue")
    try:
        value = catalogue.named(text)
    except IncidenceError as error:
        if "no object is called" not in str(error):
            raise
        return None
    try:
        layout = catalogue.coordinates(text)
    except IncidenceError:
        layout = None
    return Subject("structure", value, text.replace(" ", "-"), layout)


def _data_set(text: str, rows: Sequence[int]) -> Subject | None:
    data = import_module("incidence.data")
    if text not in data.DATA_SETS and not text.startswith("pyg:"):
        return None
    found = data.load(text)
    return Subject(
        "structure",
        _some(found.examples, rows or range(min(12, len(found.examples))), text),
        text.rpartition("/")[2],
    )


def _pattern(text: str) -> Subject:
    """A pattern; what does not look like one at all is told what it may be."""
    if any(bracket in text for bracket in "(){}[]<>") or all(
        len(word.partition(":")[0]) <= 2 for word in text.split()
    ):
        return Subject("pattern", Pattern(text), "pattern")
    names = import_module("incidence.geometry.catalogue").names()
    near = get_close_matches(text.lower(), [name.lower() for name in names], n=2, cutoff=0.6)
    hint = (
        f"Did you mean {' or '.join(near)}?"
        if near
        else "Named objects: geometry.names(); data sets: incidence train --list."
    )
    raise IncidenceError(
        f"{text!r} is no map or pattern, no named object, no file, no data set and no folder of a run. {hint}"
    )


def lifted(value: Any, name: str) -> Any:
    """What a lift of `data.lifts` makes of a structure or an example; a structure has a feature 1 at its nodes and edges."""
    if name == "none":
        return value
    structures = import_module("incidence.structure")
    if isinstance(value, structures.Structure):
        value = structures.Example(
            value, {text: structures.ones(value, text) for text in ("i", "{i j}")}
        )
    examples = structures.uncollate(value) if value.is_batch else [value]
    return _some(import_module("incidence.data.lifts").lift_all(examples, name), (), "the lift")
