"""From a text to what is drawn: a map, a pattern, a named object, a molecule, a file, a data set,
or a run.

Modules that need torch are imported in the functions that use them: a map is drawn without torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
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
    """What is drawn.

    Attributes:
        kind: `map`, `products`, `pattern`, `structure` or `run`.
        value: The map, linear or multilinear, the pattern, the structure or example, or the run.
        name: The name of a file with its picture.
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
    """Return what a text means.

    Args:
        text: What the user typed.
        open_run: Opens the folder of a run.
        rows: Which examples, where there are several. Default: all.
        reader: The name of the reader of a file. Default: by its suffix.

    Raises:
        IncidenceError: Nothing that can be drawn has this name, or it cannot be read.
    """
    if rows and not _has_rows(text):
        raise IncidenceError(
            f"--rows chooses among the examples of a file or data set; {text!r} is none. Leave it"
            " out."
        )
    if "->" in text and "*" in text:
        return Subject("products", MultilinearMap(text), "products")
    if "->" in text:
        return Subject("map", EquivariantMap(text), "map")
    if text.startswith(SMILES):
        from incidence.data.molecules import features_of

        return Subject("structure", features_of(text.removeprefix(SMILES)), "molecule")
    path = Path(text).expanduser()
    if path.exists():
        return _folder(path, open_run) if path.is_dir() else _file(path, rows, reader)
    # A pattern comes last, as nearly every short word is one.
    return _named(text) or _data_set(text, rows) or _pattern(text)


def _is_data_set(text: str) -> bool:
    from incidence.data import DATA_SETS

    return text in DATA_SETS or text.startswith("pyg:")


def _is_mesh(path: Path) -> bool:
    return path.name.removesuffix(".gz").lower().endswith(_MESHES)


def _has_rows(text: str) -> bool:
    path = Path(text).expanduser()
    if path.is_file():
        return not _is_mesh(path) and not path.name.lower().endswith((".npz", ".npz.gz"))
    return _is_data_set(text)


def _folder(path: Path, open_run: Callable[[Path], OpenRun]) -> Subject:
    if not (path / "config.yaml").is_file():
        raise IncidenceError(
            f"{path} is a folder, but not of a run: it has no config.yaml. Name one file of it."
        )
    return Subject("run", open_run(path), path.name)


def _file(path: Path, rows: Sequence[int], reader: str | None) -> Subject:
    name = path.name.partition(".")[0]
    if _is_mesh(path):
        from incidence.geometry.meshes import read_mesh

        mesh = read_mesh(path)
        return Subject("structure", mesh.structure, name, mesh.points)
    if path.suffix == ".npz":
        return Subject("structure", _stored(path), name)
    from incidence.data.files import read_file, reader_for

    # broken records are left out
    records = read_file(reader_for([path], reader), path, {}, errors=[])
    examples = [record.example for record in records]
    return Subject("structure", _batch(examples, rows, str(path)), name)


def _stored(path: Path) -> Any:
    """What `Structure.save` or `Example.save` wrote."""
    from incidence.structure import Example, Structure

    try:
        return Example.load(path)
    except IncidenceError:
        return Structure.load(path)


def _batch(examples: Sequence[Any], rows: Sequence[int], what: str) -> Any:
    """Some of the examples, as a batch if they are several."""
    for row in rows:
        if not -len(examples) <= row < len(examples):
            raise IncidenceError(
                f"{what} has {len(examples):,} examples; there is no number {row}."
            )
    chosen = [examples[row] for row in rows] if rows else list(examples)
    if len(chosen) == 1:
        return chosen[0]
    from incidence.structure import collate

    return collate(chosen)


def _named(text: str) -> Subject | None:
    """A named object; None if nothing has that name, even nearly."""
    from incidence.geometry.catalogue import coordinates, named

    try:
        value = named(text)
    except IncidenceError as error:
        if "no object is called" not in str(error):
            raise
        return None
    try:
        layout = coordinates(text)
    except IncidenceError:
        layout = None
    return Subject("structure", value, text.replace(" ", "-"), layout)


def _data_set(text: str, rows: Sequence[int]) -> Subject | None:
    if not _is_data_set(text):
        return None
    from incidence.data import load

    examples = load(text).examples
    first = range(min(12, len(examples)))  # as many as are drawn by default
    return Subject("structure", _batch(examples, rows or first, text), text.rpartition("/")[2])


def _pattern(text: str) -> Subject:
    """A pattern; a text that does not look like one is refused with what it may be."""
    has_brackets = any(bracket in text for bracket in "(){}[]<>")
    if has_brackets or all(len(word.partition(":")[0]) <= 2 for word in text.split()):
        return Subject("pattern", Pattern(text), "pattern")
    from incidence.geometry.catalogue import names

    near = get_close_matches(text.lower(), [name.lower() for name in names()], n=2, cutoff=0.6)
    hint = "Named objects: geometry.names(); data sets: incidence train --list."
    if near:
        hint = f"Did you mean {' or '.join(near)}?"
    raise IncidenceError(
        f"{text!r} is no map or pattern, no named object, no file, no data set and no folder of a"
        f" run. {hint}"
    )


def lifted(value: Any, name: str) -> Any:
    """Return what a lift of `data.lifts` makes of a structure or an example.

    A structure gets a feature 1 at its nodes and edges.
    """
    if name == "none":
        return value
    from incidence.data.lifts import lift_all
    from incidence.structure import Example, Structure, ones, uncollate

    if isinstance(value, Structure):
        value = Example(value, {text: ones(value, text) for text in ("i", "{i j}")})
    examples = uncollate(value) if value.is_batch else [value]
    return _batch(lift_all(examples, name), (), "the lift")
