"""Data by name or path, with options written as text."""

from dataclasses import replace
from pathlib import Path

import pytest

from incidence.data import DATA_SETS, DataSet, Source, Split, load, register
from incidence.data.loading import load_data, read_options
from incidence.errors import IncidenceError


@pytest.fixture(autouse=True)
def families(monkeypatch):
    """A data set with an option and a part for validation."""

    def load_families(name: str, folder: Path | None, *, family: str = "first") -> DataSet:
        data = load("solubility")
        [(train, _, test)] = data.splits
        return replace(data, name=name, about=family, splits=(Split(train[1:], train[:1], test),))

    monkeypatch.setitem(DATA_SETS, "families", Source("nowhere.load"))  # so that it is forgotten afterwards
    register("families", load_families, "made for a test", {"hidden": 5})


def test_options_are_plain_values():
    found = read_options(["labels=7", "family=sr251256", "subtract_atoms=true", "cutoff=4.5", "labels=[1, 6]"])
    assert found == {"labels": [1, 6], "family": "sr251256", "subtract_atoms": True, "cutoff": 4.5}


@pytest.mark.parametrize("text", ["labels", "=3", "labels=[1"])
def test_options_in_another_form_are_refused(text):
    with pytest.raises(IncidenceError, match="an option of the data is written as in --data-options labels=7"):
        read_options([text])


def test_a_family_is_chosen_by_option():
    data = load_data("families", options={"family": "second"})
    assert (data.name, data.about) == ("families", "second")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"options": {"famly": "x"}}, "the data set 'families' has no option `famly`: it takes family"),
        ({"options": {"family": 3}}, "the option `family` of the data set 'families' cannot be 3"),
        ({"target": "x"}, "the data set 'families' has one target: leave out --target"),
        ({"reader": "graph"}, "the data set 'families' has a reader of its own: leave out --reader"),
    ],
)
def test_options_that_a_data_set_does_not_take_are_refused(options, problem):
    with pytest.raises(IncidenceError, match=problem):
        load_data("families", **options)


def test_options_of_a_data_set_without_any_are_refused():
    with pytest.raises(IncidenceError, match="the data set 'solubility' has no option `validation`: it takes none"):
        load("solubility", validation=0.1)


def test_the_same_seed_draws_the_same_validation_part_everywhere():
    data = load("solubility")
    assert load_data("solubility", validation=0.1, seed=3).splits[0].validation.equal(data.split(0, 0.1, 3).validation)


def test_a_fixed_validation_part_is_not_drawn_anew():
    with pytest.raises(IncidenceError, match="'families' has a validation part of its own, so none is drawn: leave out --validation"):
        load_data("families", validation=0.1)


def test_data_that_is_nowhere_is_refused():
    have = "Data sets: families, solubility, and `pyg:CLASS/NAME` for those of PyG"
    with pytest.raises(IncidenceError, match=f"'nowhere' is no data set and no file or folder. {have}"):
        load_data("nowhere")


def test_the_target_of_a_data_set_of_pyg_is_a_number(tmp_path):
    with pytest.raises(IncidenceError, match="is the number of a column, as in --target 0; got 'y'"):
        load_data("pyg:TUDataset/MUTAG", tmp_path, target="y")
