"""Data by name or path, with options written as text."""

import pytest

from incidence.data import load
from incidence.data.loading import load_data, read_options
from incidence.errors import IncidenceError
from tests.data_folder import data_folder


def test_options_are_plain_values():
    found = read_options(["labels=7", "family=sr251256", "subtract_atoms=true", "cutoff=4.5", "labels=[1, 6]"])
    assert found == {"labels": [1, 6], "family": "sr251256", "subtract_atoms": True, "cutoff": 4.5}


@pytest.mark.parametrize("text", ["labels", "=3", "labels=[1"])
def test_options_in_another_form_are_refused(text):
    with pytest.raises(IncidenceError, match="an option of the data is written as in --data-options labels=7"):
        read_options([text])


def test_a_family_is_chosen_by_option():
    assert len(load_data("sr", data_folder("sr_graphs"), options={"family": "sr251256"}).examples) == 15


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"options": {"famly": "x"}}, "the data set 'sr' has no option `famly`: it takes family"),
        ({"options": {"family": 3}}, "the option `family` of the data set 'sr' cannot be 3"),
        ({"target": "x"}, "the data set 'sr' has one target: leave out --target"),
        ({"reader": "graph"}, "the data set 'sr' has a reader of its own: leave out --reader"),
    ],
)
def test_options_that_a_data_set_does_not_take_are_refused(options, problem):
    with pytest.raises(IncidenceError, match=problem):
        load_data("sr", **options)


def test_options_of_a_data_set_without_any_are_refused():
    with pytest.raises(IncidenceError, match="the data set 'solubility' has no option `validation`: it takes none"):
        load("solubility", validation=0.1)


def test_the_same_seed_draws_the_same_validation_part_everywhere():
    data = load("solubility")
    assert load_data("solubility", validation=0.1, seed=3).splits[0].validation.equal(data.split(0, 0.1, 3).validation)


def test_a_fixed_validation_part_is_not_drawn_anew():
    with pytest.raises(IncidenceError, match="'csl' has a validation part of its own, so none is drawn: leave out --validation"):
        load_data("csl", data_folder("csl"), validation=0.1)


def test_data_that_is_nowhere_is_refused():
    with pytest.raises(IncidenceError, match="'nowhere' is no data set and no file or folder"):
        load_data("nowhere")


def test_the_target_of_a_data_set_of_pyg_is_a_number(tmp_path):
    with pytest.raises(IncidenceError, match="is the number of a column, as in --target 0; got 'y'"):
        load_data("pyg:TUDataset/MUTAG", tmp_path, target="y")
