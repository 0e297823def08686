"""The reader of examples that the library itself wrote."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from incidence.data.registry import Read, Reader
from incidence.errors import IncidenceError
from incidence.structure.example import Example
from incidence.structure.examples import uncollate

__all__ = ["EXAMPLE", "with_floats"]


def read_saved(path: Path, errors: list[IncidenceError] | None = None) -> Iterator[Read]:
    """The example of a file that `Example.save` wrote, or the examples of a batch; features as they are, but as floats.

    Args:
        path: The file.
        errors: Takes the errors of single records, of which there are none here.
    """
    path = Path(path)
    found = with_floats(Example.load(path)).canonical()
    if not found.is_batch:
        yield Read(path.name, found)
        return
    for number, example in enumerate(uncollate(found)):
        yield Read(f"{path.name} {number}", example)


def with_floats(example: Example) -> Example:
    """The same example with features that a network can take."""
    return example.replace(features={key: x.float() for key, x in example.features.items()})


EXAMPLE = Reader((".npz",), read_saved)
