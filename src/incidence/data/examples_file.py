"""Examples as data sets: those that the library saved (`.npz`), and those at hand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor

from incidence.data.dataset import METRICS, DataSet, Split, Task, assert_task
from incidence.data.readers import Read, Reader, assert_alike
from incidence.errors import IncidenceError
from incidence.structure.example import Example
from incidence.structure.examples import uncollate

__all__ = ["EXAMPLE", "from_examples", "with_floats"]


def _read(path: Path, errors: list[IncidenceError] | None = None) -> Iterator[Read]:
    """The example of a file that `Example.save` wrote, or the examples of a batch; there are no errors of single records."""
    found = with_floats(Example.load(path)).canonical()
    if not found.is_batch:
        yield Read(path.name, found)
        return
    for number, example in enumerate(uncollate(found)):
        yield Read(f"{path.name} {number}", example)


EXAMPLE = Reader((".npz",), _read)


def with_floats(example: Example) -> Example:
    """The same example with features that a network can take."""
    return example.replace(features={key: x.float() for key, x in example.features.items()})


def from_examples(
    examples: Sequence[Example], *, name: str = "examples", source: str = "", task: str | None = None, splits: Sequence[Split] = ()
) -> DataSet:
    """A data set from examples with targets of one kind, for the whole structure or for the entries of one pattern.

    Integers are classes and other numbers are predicted as they are, unless the task is given. Messages name the source, or the data set.
    """
    source = source or name
    if not examples:
        raise IncidenceError(f"the data set {name!r} is empty.")
    assert_alike((f"{source} {number}", example) for number, example in enumerate(examples))
    at, rows = _targets(examples, source)
    assert_task(task)
    flat, axes = torch.cat([row.reshape(-1) for row in rows]), int(bool(at))
    kind, flat = task or ("regression" if flat.is_floating_point() else "classification"), flat.double()
    if kind == "regression":  # [numbers] of each example, or [entries, numbers]
        if bool(flat.isnan().all()):
            raise IncidenceError(f"{source}: all targets are missing.")
        rows = [row.float() if row.ndim > axes else row.float()[..., None] for row in rows]
        width = rows[0].shape[-1]
        form = Task("regression", ("target",) if width == 1 else tuple(f"target {k}" for k in range(width)), at=at)
    else:  # a class of each example, or [entries]
        if bool((flat != flat.round()).any()) or int(flat.max()) < 0:
            raise IncidenceError(f"{source}: classes are the integers 0, 1, ..., with -1 where one is missing.")
        rows = [row.long()[..., 0] if row.ndim == axes + 1 and row.shape[-1] == 1 else row.long() for row in rows]
        form = Task("classification", tuple(f"class {k}" for k in range(int(flat.max()) + 1)), at=at)
    made = [example.replace(target={at: row} if at else row) for example, row in zip(examples, rows, strict=True)]
    return DataSet(
        name,
        made,
        form,
        tuple(splits),
        reader="example",
        about=f"{len(made)} examples from {source}.",
        is_transductive=bool(at) and len(made) == 1,
        metric=METRICS[form.kind],
    )


def _targets(examples: Sequence[Example], source: str) -> tuple[str, list[Tensor]]:
    """What the targets belong to, and the target of every example."""
    found = [example.target for example in examples]
    if any(target is None for target in found):
        raise IncidenceError(f"{source}: an example has no target, so there is nothing to learn. Save examples with target=.")
    keys = {key for target in found for key in (target if isinstance(target, dict) else ("",))}
    if len(keys) != 1:
        raise IncidenceError(f"{source}: targets belong to one pattern; these belong to {', '.join(sorted(map(repr, keys)))}.")
    [key] = keys
    return key, [target[key] if isinstance(target, dict) else target for target in found if target is not None]
