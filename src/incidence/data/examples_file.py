"""Examples as data sets: those that the library saved (`.npz`), and those at hand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.data.dataset import METRICS, DataSet, Kind, Split, Task, as_kind
from incidence.data.readers import Read, Reader, assert_alike
from incidence.errors import IncidenceError
from incidence.structure.example import Example
from incidence.structure.examples import uncollate

__all__ = ["EXAMPLE", "from_examples", "task_of", "with_floats", "with_ones"]

_MOST_CLASSES = 1 << 16  # each is a number that a network gives for every row


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
    strange = next((key for key, x in example.features.items() if x.is_complex()), None)
    if strange is not None:
        raise IncidenceError(
            f"the features of `{strange}` are complex: give their real and imaginary parts as two columns."
        )
    return example.replace(features={key: x.float() for key, x in example.features.items()})


def with_ones(example: Example, patterns: Sequence[str]) -> Example:
    """The same example with a column of ones for entries of patterns that it has no features of."""
    has = {example.structure.resolve(key) for key in example.features}
    lacking = [
        text
        for text in patterns
        if Pattern(text) not in has and Pattern(text) in example.structure.patterns
    ]
    ones = {text: torch.ones(example.structure.num_entries(text), 1) for text in lacking}
    return example.replace(features={**example.features, **ones}) if ones else example


def _bare(example: Example) -> list[str]:
    """What joins nodes, if nothing that does has features, and nodes have some: networks would not see it."""
    joining = [p for p in example.structure.patterns if p.is_open or len(p.letters) > 1]
    has_some = not example.features or any(
        example.structure.resolve(key) in joining for key in example.features
    )
    return [] if has_some else list(map(str, joining))


def from_examples(
    examples: Sequence[Example],
    *,
    name: str = "examples",
    source: str = "",
    task: str | None = None,
    splits: Sequence[Split] = (),
) -> DataSet:
    """A data set from examples with targets of one kind, for the whole structure or for the entries of one pattern.

    Integers are classes and other numbers are predicted as they are, unless they are 0 and 1 alone, which are two classes, or labels if
    there are several for each; or unless the task is given. Where only nodes have features, what joins them gets a column of ones. Messages
    name the source, or the data set.
    """
    source = source or name
    if not examples:
        raise IncidenceError(f"the data set {name!r} is empty.")
    assert_alike((f"{source} {number}", example) for number, example in enumerate(examples))
    at, rows = _targets(examples, source)
    form, rows = task_of(rows, at, task, source)
    bare = _bare(examples[0])
    made = [
        with_ones(example, bare).replace(target={at: row} if at else row)
        for example, row in zip(examples, rows, strict=True)
    ]
    return DataSet(
        name,
        made,
        form,
        tuple(splits),
        reader="example",
        about=f"{len(made)} examples from {source}.",
        is_transductive=bool(at) and len(made) == 1,
        metric=METRICS[form.kind],
        reader_options={"ones": bare} if bare else {},
    )


def task_of(
    rows: Sequence[Tensor], at: str, task: str | None, source: str
) -> tuple[Task, list[Tensor]]:
    """The task that targets are for, unless it is given, and the targets in the form it needs."""
    kind = _kind(rows, at, as_kind(task))
    return (
        _as_classes(rows, at, source)
        if kind == "classification"
        else _as_numbers(rows, at, kind, source)
    )


def _kind(rows: Sequence[Tensor], at: str, task: Kind | None) -> Kind:
    """What targets are for: as they say themselves, unless a task is given; several labels for each are no class."""
    flat = torch.cat([row.reshape(-1) for row in rows])
    width = rows[0].shape[-1] if rows[0].ndim > bool(at) else 1
    is_missing = flat.isnan() if flat.is_floating_point() else flat == -1
    is_yes_or_no = set(flat[~is_missing].unique().tolist()) == {0, 1}
    if width > 1 and is_yes_or_no and task in (None, "classification"):
        return "multilabel"
    return task or (
        "regression" if flat.is_floating_point() and not is_yes_or_no else "classification"
    )


def _as_numbers(
    rows: Sequence[Tensor], at: str, kind: Kind, source: str
) -> tuple[Task, list[Tensor]]:
    """Numbers or labels: [columns] of each example, or [entries, columns]."""
    if all(bool(row.isnan().all()) for row in rows):
        raise IncidenceError(f"{source}: all targets are missing.")
    found = [row.float() if row.ndim > bool(at) else row.float()[..., None] for row in rows]
    if kind == "multilabel":
        found = [
            row if told.is_floating_point() else row.masked_fill(row == -1, torch.nan)
            for row, told in zip(found, rows, strict=True)
        ]
    word, width = "label" if kind == "multilabel" else "target", found[0].shape[-1]
    return Task(
        kind, (word,) if width == 1 else tuple(f"{word} {k}" for k in range(width)), at=at
    ), found


def _as_classes(rows: Sequence[Tensor], at: str, source: str) -> tuple[Task, list[Tensor]]:
    """A class of each example, or [entries]; a float that is missing is NaN."""
    flat = torch.cat([row.reshape(-1) for row in rows]).double().nan_to_num(-1)
    if not len(flat):
        raise IncidenceError(f"{source}: all targets are missing.")
    if bool((flat != flat.round()).any()) or int(flat.max()) < 0:
        raise IncidenceError(
            f"{source}: classes are the integers 0, 1, ..., with -1 where one is missing."
        )
    if flat.max() >= _MOST_CLASSES:
        raise IncidenceError(
            f"{source}: classes are the integers 0, 1, ... below {_MOST_CLASSES:,}; got {float(flat.max()):.6g}."
        )
    found = [row.nan_to_num(-1).long() if row.is_floating_point() else row.long() for row in rows]
    found = [
        row[..., 0] if row.ndim == bool(at) + 1 and row.shape[-1] == 1 else row for row in found
    ]
    return Task(
        "classification", tuple(f"class {k}" for k in range(int(flat.max()) + 1)), at=at
    ), found


def _targets(examples: Sequence[Example], source: str) -> tuple[str, list[Tensor]]:
    """What the targets belong to, and the target of every example."""
    found = [example.target for example in examples]
    if any(target is None for target in found):
        number = next(number for number, target in enumerate(found) if target is None)
        raise IncidenceError(
            f"{source}: an example has no target, number {number}, so there is nothing to learn. Give it target=, or y in PyG."
        )
    keys = {key for target in found for key in (target if isinstance(target, dict) else ("",))}
    if len(keys) != 1:
        raise IncidenceError(
            f"{source}: targets belong to one pattern; these belong to {', '.join(sorted(map(repr, keys)))}."
        )
    [key] = keys
    return key, [
        target[key] if isinstance(target, dict) else target
        for target in found
        if target is not None
    ]
