"""Parts that are drawn by chance: one split, a share for validation, or folds of a cross validation; groups of rows stay together."""

from __future__ import annotations

from collections.abc import Sequence, Sized
from typing import NamedTuple

import torch
from torch import Tensor

from incidence.errors import IncidenceError

__all__ = [
    "TENTH",
    "Split",
    "assert_apart",
    "cross_validation",
    "held_out",
    "random_split",
    "sizes_of",
]

TENTH = 0.1


class Split(NamedTuple):
    """Which examples (or, in one structure, which entries of the target) serve for what: numbers, in any order."""

    train: Tensor
    validation: Tensor
    test: Tensor

    def __repr__(self) -> str:
        """How large the parts are."""
        return f"Split({sizes_of(self)})"


def sizes_of(parts: Sequence[Sized]) -> str:
    """How large the three parts of data are, in words.

    Example:
        >>> sizes_of(Split(torch.arange(8), torch.arange(0), torch.arange(2)))
        'train 8, validation 0, test 2'
    """
    return ", ".join(f"{part} {len(rows)}" for part, rows in zip(Split._fields, parts, strict=True))


def assert_apart(split: Split, name: str) -> None:
    """Refuses a split that is trained on what it is measured by.

    Raises:
        IncidenceError: A row for training is one for validation or testing, too.
    """
    for part, rows in (("validation", split.validation), ("testing", split.test)):
        both = int(torch.isin(rows, split.train).sum())
        if both:
            raise IncidenceError(
                f"{name}: {both} rows are for training and for {part}: what is measured must not be learned from."
            )


def random_split(
    rows: Tensor, seed: int, has_validation: bool, groups: Tensor | None = None
) -> Split:
    """A tenth of the rows for testing, and a tenth for validation unless that is drawn later; at least one if there are three.

    Args:
        rows: The numbers of the rows.
        seed: Of the drawing.
        has_validation: Whether a part for validation is drawn.
        groups: The group of every row of the data, if rows of a group stay together.
    """
    tenth = max(round(len(rows) / 10), int(len(rows) >= 3))
    held = tenth if has_validation else 0
    if groups is not None:
        train, test, validation = _by_group(rows, groups, [tenth, held], seed)
        return Split(train, validation, test)
    order = rows[_shuffled(len(rows), seed)]
    return Split(
        order[held + tenth :].sort().values,
        order[:held].sort().values,
        order[held : held + tenth].sort().values,
    )


def held_out(
    split: Split, classes: Tensor, fraction: float, seed: int, groups: Tensor | None = None
) -> Split:
    """A split with the given fraction of every class of its training part for validation, at least one row in all."""
    rows = split.train
    count = max(1, round(fraction * len(rows)))
    if groups is not None:
        train, validation = _by_group(rows, groups, [count], seed)
        return Split(train, validation, split.test)
    order = _shuffled(len(rows), seed)
    held = torch.zeros(len(rows), dtype=torch.bool)
    spread = order[classes[rows][order].argsort(stable=True)]  # shuffled inside, class after class
    held[spread[(torch.arange(count) * len(rows)).div(count, rounding_mode="floor")]] = True
    return Split(rows[~held], rows[held], split.test)


def cross_validation(
    rows: Tensor, count: int, classes: Tensor, seed: int, groups: Tensor | None = None
) -> tuple[Split, ...]:
    """A split for every fold, which is tested after training on the others; each class, or whole groups, are spread over the folds.

    Raises:
        IncidenceError: There are fewer rows, or groups, than folds.
    """
    order = rows[_shuffled(len(rows), seed)]
    if groups is None:
        units = [order[k : k + 1] for k in classes[order].argsort(stable=True).tolist()]
    else:
        units = sorted(_members(order, groups), key=len, reverse=True)
    if not 2 <= count <= len(units):
        what = "rows" if groups is None else "groups of rows"
        raise IncidenceError(
            f"a cross validation of {len(units)} {what} has 2 to {len(units)} folds; got {count}."
        )
    folds: list[list[Tensor]] = [[] for _ in range(count)]
    sizes = [0] * count
    for unit in units:
        smallest = sizes.index(min(sizes))  # of single rows one after the other
        folds[smallest].append(unit)
        sizes[smallest] += len(unit)
    tested = [torch.cat(fold).sort().values for fold in folds]
    nothing = rows[:0]
    return tuple(
        Split(torch.cat([*tested[:k], *tested[k + 1 :]]).sort().values, nothing, test)
        for k, test in enumerate(tested)
    )


def _shuffled(count: int, seed: int) -> Tensor:
    return torch.randperm(count, generator=torch.Generator().manual_seed(seed))


def _members(rows: Tensor, groups: Tensor) -> list[Tensor]:
    """The rows of every group that has some, in their order."""
    found: dict[int, list[int]] = {}
    for row, group in zip(rows.tolist(), groups[rows].tolist(), strict=True):
        found.setdefault(group, []).append(row)
    return [torch.tensor(own) for own in found.values()]


def _by_group(rows: Tensor, groups: Tensor, sizes: Sequence[int], seed: int) -> list[Tensor]:
    """What is left of the rows, and a part of about each size: whole groups in a random order, those that would fill half a part last."""
    found = _members(rows[_shuffled(len(rows), seed)], groups)
    if len(found) <= sum(size > 0 for size in sizes):
        raise IncidenceError(
            f"there are {len(found)} groups of rows only, too few for a part each: leave out groups, or draw no validation."
        )
    half = min(size for size in sizes if size) / 2
    ordered = sorted(found, key=lambda own: len(own) if len(own) > half else 0)
    parts: list[Tensor] = []
    for size in sizes:
        taken: list[Tensor] = []
        while (
            size
            and len(ordered) > 1
            and (not taken or sum(map(len, taken)) + len(ordered[0]) <= size)
        ):
            taken.append(ordered.pop(0))
        parts.append(torch.cat([rows[:0], *taken]).sort().values)
    return [torch.cat(ordered).sort().values, *parts]
