"""Parts drawn at random: one split, a share for validation, or the folds of a cross validation."""

from __future__ import annotations

from collections.abc import Sequence, Sized
from typing import Any, NamedTuple

import torch
from torch import Tensor

from incidence.errors import IncidenceError, shown

__all__ = [
    "TENTH",
    "Split",
    "as_split",
    "assert_apart",
    "cross_validation",
    "held_out",
    "random_split",
    "sizes_of",
    "split_by_time",
    "splits_of",
]

TENTH = 0.1


class Split(NamedTuple):
    """The numbers of the examples of each part, in any order.

    Where there is one structure, they are the numbers of the entries of its target.
    """

    train: Tensor
    validation: Tensor
    test: Tensor

    def __repr__(self) -> str:
        """Return the sizes of the parts."""
        return f"Split({sizes_of(self)})"


def sizes_of(parts: Sequence[Sized]) -> str:
    """Return the sizes of three parts in words.

    Example:
        >>> sizes_of(Split(torch.arange(8), torch.arange(0), torch.arange(2)))
        'train 8, validation 0, test 2'
    """
    return ", ".join(f"{part} {len(rows)}" for part, rows in zip(Split._fields, parts, strict=True))


def as_split(parts: Any, number: int = 0) -> Split:
    """Return a split of the numbers of rows for training and testing, or with validation between.

    Args:
        parts: Two or three lists, arrays or tensors.
        number: The number of the split, for messages.

    Raises:
        IncidenceError: They are not two or three.

    Example:
        >>> as_split(([0, 1, 2], [3]))
        Split(train 3, validation 0, test 1)
    """
    is_list = isinstance(parts, (tuple, list))
    if not is_list or len(parts) not in (2, 3) or any(isinstance(one, int) for one in parts):
        raise IncidenceError(
            f"split {number} has the rows for training and for testing, or with those for"
            " validation between them, as in splits=[([0, 1], [2])] or splits=[([0, 1], [2], [3])];"
            f" got {shown(parts)}."
        )
    train, *between, test = map(torch.as_tensor, parts)
    validation = between[0] if between else train[:0]
    return Split(train, validation, test)


def splits_of(parts: Sequence[int] | None) -> tuple[Split, ...]:
    """Return the split in which row k has the part `parts[k]`; none if there are no parts.

    Args:
        parts: 0 for training, 1 for validation, 2 for testing, -1 for no part.

    Raises:
        IncidenceError: No row is for training.
    """
    if parts is None:
        return ()
    if 0 not in parts:
        raise IncidenceError(
            "the data defines its parts, and no example is for training: correct its column"
            " `split`, or its masks."
        )
    numbers = torch.tensor(parts)
    return (Split(*((numbers == part).nonzero()[:, 0] for part in range(3))),)


def assert_apart(split: Split, name: str) -> None:
    """Check that no row for training is for validation or testing, too.

    Raises:
        IncidenceError: Some row is.
    """
    for part, rows in (("validation", split.validation), ("testing", split.test)):
        both = int(torch.isin(rows, split.train).sum())
        if both:
            raise IncidenceError(
                f"{name}: {both} rows are for training and for {part}. A metric of rows that the"
                " network was trained on says nothing: put every row into one part."
            )


def random_split(
    rows: Tensor, seed: int, has_validation: bool, groups: Tensor | None = None
) -> Split:
    """Return a split with a tenth of the rows for testing, and perhaps a tenth for validation.

    The test part has at least one row if there are three.

    Args:
        rows: The numbers of the rows.
        seed: Seed of the drawing.
        has_validation: Whether to draw a validation part.
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


def split_by_time(
    rows: Tensor, times: Tensor, share: float = TENTH, validation: float = TENTH
) -> Split:
    """Return a split in which the latest rows are for testing, and those before for validation.

    No row is as early as a row of the part before it; rows without a time are for training.

    Args:
        rows: The numbers of the rows.
        times: The time of every row of the data, NaN where it is missing.
        share: The share of the rows for testing.
        validation: The share of the rows for validation.

    Raises:
        IncidenceError: There are too few different times.
    """
    ordered = times[rows].nan_to_num(-torch.inf).double()  # (rows,)
    ascending = ordered.sort().values
    count = len(rows)
    # A time, not a number of rows: training must not see rows of the time that it is tested on.
    last = ascending[count - max(1, round(share * count))]
    held = max(1, round(validation * count)) if validation else 0
    before = ascending[ascending < last]
    if not len(before):
        raise IncidenceError(
            "the latest rows are for testing, and most rows have the same time: there is nothing"
            " before it to train on. Name another column of times."
        )
    middle = before[max(0, len(before) - held)] if held else last
    train = rows[ordered < middle]
    if not len(train):
        raise IncidenceError(
            "there are too few different times for a part each: leave out the validation part, or"
            " name another column of times."
        )
    return Split(train, rows[(ordered >= middle) & (ordered < last)], rows[ordered >= last])


def held_out(
    split: Split, classes: Tensor, fraction: float, seed: int, groups: Tensor | None = None
) -> Split:
    """Return the split with a share of its training part, of each class alike, for validation.

    The validation part has at least one row.
    """
    rows = split.train
    count = max(1, round(fraction * len(rows)))
    if groups is not None:
        train, validation = _by_group(rows, groups, [count], seed)
        return Split(train, validation, split.test)
    order = _shuffled(len(rows), seed)
    # class after class, at random inside each; every n-th row of that list is held out
    by_class = order[classes[rows][order].argsort(stable=True)]
    places = (torch.arange(count) * len(rows)).div(count, rounding_mode="floor")
    is_held = torch.zeros(len(rows), dtype=torch.bool)
    is_held[by_class[places]] = True
    return Split(rows[~is_held], rows[is_held], split.test)


def cross_validation(
    rows: Tensor, count: int, classes: Tensor, seed: int, groups: Tensor | None = None
) -> tuple[Split, ...]:
    """Return a split for every fold: the fold is its test part, the others its training part.

    The rows of each class, or whole groups, are spread over the folds.

    Raises:
        IncidenceError: There are fewer rows, or groups, than folds.
    """
    order = rows[_shuffled(len(rows), seed)]
    if groups is None:
        # Class after class: dealt out in turn, each fold gets about as many of each class.
        units = [order[k : k + 1] for k in classes[order].argsort(stable=True).tolist()]
    else:
        # Large groups first, so that small ones can level the folds.
        units = sorted(_members(order, groups), key=len, reverse=True)
    if not 2 <= count <= len(units):
        what = "rows" if groups is None else "groups of rows"
        raise IncidenceError(
            f"a cross validation of {len(units)} {what} has 2 to {len(units)} folds; got {count}."
        )
    folds: list[list[Tensor]] = [[] for _ in range(count)]
    sizes = [0] * count
    for unit in units:
        smallest = sizes.index(min(sizes))  # single rows go to one fold after the other
        folds[smallest].append(unit)
        sizes[smallest] += len(unit)
    tests = [torch.cat(fold).sort().values for fold in folds]
    nothing = rows[:0]
    splits = []
    for k, test in enumerate(tests):
        train = torch.cat([*tests[:k], *tests[k + 1 :]]).sort().values
        splits.append(Split(train, nothing, test))
    return tuple(splits)


def _shuffled(count: int, seed: int) -> Tensor:
    return torch.randperm(count, generator=torch.Generator().manual_seed(seed))


def _members(rows: Tensor, groups: Tensor) -> list[Tensor]:
    """Return the rows of every group that has some, in their order."""
    members: dict[int, list[int]] = {}
    for row, group in zip(rows.tolist(), groups[rows].tolist(), strict=True):
        members.setdefault(group, []).append(row)
    return [torch.tensor(one) for one in members.values()]


def _by_group(rows: Tensor, groups: Tensor, sizes: Sequence[int], seed: int) -> list[Tensor]:
    """Return the rows that are left, then a part of about each size, made of whole groups.

    Groups come in a random order; those that would fill half a part come last.
    """
    units = _members(rows[_shuffled(len(rows), seed)], groups)
    if len(units) <= sum(size > 0 for size in sizes):
        raise IncidenceError(
            f"there are {len(units)} groups of rows, too few for a part each: leave out groups, or"
            " draw no validation."
        )
    half = min(size for size in sizes if size) / 2
    units.sort(key=lambda unit: len(unit) if len(unit) > half else 0)
    parts: list[Tensor] = []
    for size in sizes:
        part: list[Tensor] = []
        count = 0
        # the last unit is for training
        while size and len(units) > 1 and (not part or count + len(units[0]) <= size):
            part.append(units.pop(0))
            count += len(part[-1])
        parts.append(torch.cat([rows[:0], *part]).sort().values)
    return [torch.cat(units).sort().values, *parts]
