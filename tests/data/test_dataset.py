"""Data sets: their splits and parts; data sets and readers by name; packages that load what they
name on first use.
"""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch import Tensor

import incidence as inc
from incidence.data import DATA_SETS, READERS, DataSet, Reader, Split, Task, load, reader
from incidence.errors import IncidenceError
from incidence.structure import Structure


def examples(targets: list[Tensor]) -> list[inc.Example]:
    return [
        inc.Example(Structure(2, {}), {"i": torch.full((2, 1), float(k))}, t)
        for k, t in enumerate(targets)
    ]


def numbers(*values: int) -> Tensor:
    return torch.tensor(values, dtype=torch.long)


def classes(count: int = 40) -> DataSet:
    """Three of four are of class 0."""
    made = examples([torch.tensor(int(k % 4 == 0)) for k in range(count)])
    split = Split(torch.arange(count - 8), numbers(), torch.arange(count - 8, count))
    return DataSet("mine", made, Task("classification", ("a", "b")), (split,), "example")


def test_a_validation_part_is_drawn_from_the_training_part():
    data = classes()
    whole, drawn = data.split(), data.with_parts(0.25).split()
    assert len(whole.validation) == 0
    assert len(drawn.validation) == 8
    assert sorted([*drawn.train.tolist(), *drawn.validation.tolist()]) == whole.train.tolist()
    assert torch.equal(drawn.test, whole.test)


def test_every_class_is_represented_in_what_is_drawn():
    drawn = [classes().with_parts(0.25, seed).split().validation for seed in range(8)]
    assert [sum(k % 4 == 0 for k in one.tolist()) for one in drawn] == [2] * 8


def test_the_draw_depends_on_its_seed_alone():
    data = classes()
    assert torch.equal(
        data.with_parts(0.2, 1).split().validation, data.with_parts(0.2, 1).split().validation
    )
    assert not torch.equal(
        data.with_parts(0.2, 1).split().validation, data.with_parts(0.2, 2).split().validation
    )


def test_a_validation_part_that_is_there_is_not_drawn_anew():
    data = classes()
    split = Split(numbers(0, 1, 2), numbers(3), numbers(4))
    fixed = DataSet("mine", data.examples, data.task, (split,), "example")
    with pytest.raises(
        IncidenceError,
        match="'mine' has a validation part, so none is drawn: leave out `validation`",
    ):
        fixed.with_parts(0.5)
    assert fixed.with_parts().splits == (split,)


def test_at_least_one_is_drawn():
    assert len(classes().with_parts(0.001).split().validation) == 1


@pytest.mark.parametrize(
    ("number", "message"), [(1, r"the data set 'mine' has splits 0 to 0; got 1"), (-1, "got -1")]
)
def test_a_split_that_is_not_there_is_refused(number, message):
    with pytest.raises(IncidenceError, match=message):
        classes().split(number)


@pytest.mark.parametrize("validation", [1.0, -0.1, float("nan")])
def test_a_part_for_validation_is_less_than_all(validation):
    with pytest.raises(IncidenceError, match="the part for validation is a number from 0 up to 1"):
        classes().with_parts(validation)


def test_parts_are_the_examples_of_a_split():
    data = classes()
    parts = data.parts(Split(numbers(5, 2), numbers(), numbers(7)))
    assert [[float(e.features["i"][0]) for e in part] for part in parts] == [[5, 2], [], [7]]


@pytest.mark.parametrize("is_classes", [True, False])
def test_parts_of_one_structure_have_targets_of_some_entries_alone(is_classes):
    target = numbers(1, 0, 1, 0) if is_classes else torch.tensor([[1.0], [2], [3], [4]])
    example = inc.Example(Structure(4, {}), {"i": torch.ones(4, 1)}, {"i": target})
    task = (
        Task("classification", ("a", "b"), "i") if is_classes else Task("regression", ("y",), "i")
    )
    data = DataSet(
        "one",
        [example],
        task,
        (Split(numbers(0, 3), numbers(), numbers(2)),),
        "example",
        is_transductive=True,
    )
    train, validation, test = data.parts(data.splits[0])
    assert validation == []
    known = [(e.target["i"] >= 0).flatten().tolist() for e in (train[0], test[0])]
    assert known == [[True, False, False, True], [False, False, True, False]]
    assert torch.equal(train[0].target["i"][[0, 3]], target[[0, 3]])
    assert len(data.with_parts(0.5).split().validation) == 1


# ---- by name


BUILT = {"surfaces": {"max_vertices": 7}}  # what is enumerated needs no files


@pytest.mark.parametrize("name", DATA_SETS)
def test_every_data_set_of_the_package_is_loaded_without_a_folder(name):
    assert DATA_SETS[name].about
    assert load(name, **BUILT.get(name, {})).name == name


@pytest.mark.parametrize("name", READERS)
def test_every_reader_reads_files_with_some_suffix(name):
    found = reader(name)
    assert isinstance(found, Reader)
    assert all(suffix.startswith(".") for suffix in found.suffixes)


def test_unknown_names_are_refused_and_the_known_ones_listed():
    with pytest.raises(
        IncidenceError,
        match=(
            r"'mnist' is no data set and no file or folder\. Data sets: solubility, surfaces, and"
            r" `pyg:CLASS/NAME`"
        ),
    ):
        load("mnist")
    with pytest.raises(IncidenceError, match="no reader 'jpeg'; there are: database, ex"):
        reader("jpeg")


# ---- what is loaded on first use


def test_names_are_loaded_on_first_use():
    code = (
        "import sys, incidence.train as t; print('torch' in sys.modules, 'lightning' in"
        " sys.modules); print('train' in dir(t), 'Config' in dir(t)); t.Config; print('Config' in"
        " vars(t), 'resume' in vars(t), 'torch' in sys.modules)"
    )
    said = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], check=True, capture_output=True, text=True
    ).stdout
    assert said.splitlines() == ["False False", "True True", "True False False"]


def test_a_name_that_is_not_there_is_an_attribute_error():
    import incidence.train

    with pytest.raises(AttributeError, match=r"module 'incidence\.train' has no attribute 'tain'"):
        _ = incidence.train.tain


def test_a_data_set_prints_as_a_line():
    text = repr(load("solubility", validation=0.1))
    assert text.startswith(
        "DataSet('solubility': 1282 examples; train 923, validation 102, test 257; regression of"
        " solubility; features i: ["
    )
    assert len(text) < 300
    assert (
        repr(classes())
        == "DataSet('mine': 40 examples; train 32, validation 0, test 8; classification of 2"
        " classes; features i: [1])"
    )
    many = Task("regression", tuple(f"number {k}" for k in range(99)), at="i")
    folds = repr(DataSet("mine", [], many, classes().splits * 9, "example"))
    assert "9 splits, the first train 32" in folds
    assert "[...] at `i`; features none" in folds
    assert len(folds) < 300
    assert "no splits" in repr(DataSet("mine", [], many, (), "example"))
