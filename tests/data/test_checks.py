"""Data sets of anyone's making are looked at before anything is learned from them."""

from dataclasses import replace
from typing import Any

import pytest
import torch

import incidence as inc
from incidence.data import DataSet, Split, Task
from incidence.data.dataset_checks import checked
from incidence.errors import IncidenceError
from incidence.train import train

NUMBERS, CLASSES = Task("regression", ("a", "b")), Task("classification", ("x", "y"))
AT = Task("classification", ("x", "y"), at="i")


def data(targets: list[Any], task: Task = CLASSES, split: Any = None, **changes: Any) -> DataSet:
    structure = inc.Structure(2, {"{i j}": [[0], [1]]})
    made = [inc.Example(structure, {"i": torch.ones(2, 3)}, target) for target in targets]
    parts = (
        Split(torch.arange(len(made) - 1), torch.zeros(0).long(), torch.tensor([len(made) - 1]))
        if split is None
        else Split(*split)
    )
    return replace(DataSet("mine", made, task, (parts,), "example"), **changes)


def other(features: dict[str, torch.Tensor]) -> list[inc.Example]:
    good = data([0, 1]).examples
    return [*good, good[0].replace(features=features)]


@pytest.mark.parametrize(
    ("made", "problem"),
    [
        (
            data([0, 1, 2]),
            "example 2: classes are the numbers 0 to 1, or -1 where there is none; got 2",
        ),
        (
            data([0, -2, 1]),
            "example 1: classes are the numbers 0 to 1, or -1 where there is none; got -2",
        ),
        (data([0, 1.0]), r"example 1: a class is an integer; got torch.float32 of shape \[\]"),
        (
            data([0, torch.tensor([1])]),
            r"example 1: a class is an integer; got torch.int64 of shape \[1\]",
        ),
        (data([{"i": torch.tensor([0, 5])}], AT), "example 0: classes are the numbers 0 to 1"),
        (
            data([0, 1], AT),
            r"example 0: the target of this task is a dict with the key 'i'; got tensor\(0\)",
        ),
        (
            data([0, None]),
            "example 1: the target of this task is a tensor for the whole structure; got None",
        ),
        (
            data([torch.zeros(2), torch.zeros(3)], NUMBERS),
            r"example 1: the target has the shape \[2\], for a, b; got \[3\]",
        ),
        (
            data([torch.zeros(2), torch.full((2,), torch.inf)], NUMBERS),
            "example 1: the target is infinite. A value that is missing is NaN",
        ),
        (
            data([0, 1, 0], examples=other({"i": torch.ones(2, 4)})),
            "for `i`, example 0 has 3 features and example 2 has 4 features",
        ),
        (
            data([0, 1, 0], examples=other({"i": torch.full((2, 3), torch.nan)})),
            "example 2: the features of `i` have values that are no",
        ),
        (
            data([0, 1, 0], examples=other({"i": torch.ones(2, 3).long()})),
            "example 2: the features of `i` are torch.int64, and",
        ),
        (
            data([0, 1], split=([0, 2], [], [1])),
            "split 0: the part train has the row 2, and rows are numbered from 0 to 1",
        ),
        (data([0, 1], split=([0], [], [-1])), "split 0: the part test has the row -1"),
        (
            data([0, 1], split=([True, False], [], [1])),
            r"split 0: the part train has numbers of rows; got torch.bool of shape \[2\]",
        ),
        (
            data([0, 1], task=Task("classification", ("x", "a\0b"))),
            r"the name of a class is text without control .* got 'a\\x00b'",
        ),
        (
            data([0, 1], task=Task("classification", ("x", "\udcff"))),
            r"the name of a class is text without control .* got '\\udcff'",
        ),
        (
            data([torch.zeros(1)], task=Task("regression", ("a\n",))),
            r"the name of a target is text without control .* got 'a\\n'",
        ),
        (data([0, 1], examples=[]), "the data set 'mine' needs examples"),
        (
            data([0, 1], is_transductive=True),
            "is transductive, so it must have one example, with targets of its entries",
        ),
    ],
)
def test_data_that_cannot_be_learned_from_is_refused(made, problem):
    with pytest.raises(IncidenceError, match=problem):
        checked(made)


def test_a_run_looks_at_its_data_first(tmp_path):
    with pytest.raises(IncidenceError, match="example 2: classes are the numbers 0 to 1"):
        train({"epochs": 1, "out": str(tmp_path / "run")}, data([0, 1, 2]))


def test_whole_numbers_and_lists_are_taken_for_what_they_are():
    found = checked(data([torch.tensor([1, 2]), torch.tensor([3, 4])], NUMBERS, ([0], [], [1])))
    assert found.examples[1].target.tolist() == [3.0, 4.0]
    assert found.examples[1].target.dtype == torch.float32
    assert [part.tolist() for part in found.splits[0]] == [[0], [], [1]]
    assert all(part.dtype == torch.long for part in found.splits[0])


def test_values_that_are_missing_are_sound():
    assert [int(e.target) for e in checked(data([0, -1, 1])).examples] == [0, -1, 1]
    numbers = checked(data([torch.zeros(2), torch.tensor([torch.nan, 1.0])], NUMBERS))
    assert [e.target.isnan().tolist() for e in numbers.examples] == [[False, False], [True, False]]
