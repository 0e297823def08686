"""The list of the data sets of the literature: loaders, lines, recipes."""

import pytest

from benchmarks.sets import SETS, load, register
from incidence.data import DATA_SETS
from incidence.errors import IncidenceError, options_as
from incidence.train import Config


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize(("door", "typed"), [("python", "`folder`"), ("command", "--folder")])
def test_every_data_set_has_a_loader_that_asks_for_a_folder(name, door, typed):
    problem = f"the data set '{name}' is read from files: give the folder that holds `.*` with"
    with options_as(door), pytest.raises(IncidenceError, match=rf"{problem} {typed}\.$"):
        load(name)


@pytest.mark.parametrize("name", SETS)
def test_every_data_set_says_what_it_is_and_has_a_recipe_of_options(name):
    register()
    source = DATA_SETS[name]
    assert source.about
    assert set(source.recipe) == set(Config(**source.recipe).given())


def test_the_data_of_the_package_keeps_its_name():
    assert len(load("solubility").examples) == 1282
