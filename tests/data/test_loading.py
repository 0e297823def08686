"""One door to data: by name, by path, or as it is."""

from dataclasses import replace
from pathlib import Path

import networkx as nx
import pytest
import torch

import incidence as inc
from incidence.data import DATA_SETS, READERS, DataSet, Reader, Source, Split, load, register
from incidence.errors import IncidenceError


@pytest.fixture(autouse=True)
def families(monkeypatch):
    """A data set with an option and a part for validation."""

    def load_families(name: str, folder: Path | None, *, family: str = "first") -> DataSet:
        data = load("solubility")
        [(train, _, test)] = data.splits
        return replace(data, name=name, about=family, splits=(Split(train[1:], train[:1], test),))

    # so that it is forgotten afterwards
    monkeypatch.setitem(DATA_SETS, "families", Source("nowhere.load"))
    register("families", load_families, "made for a test", {"hidden": 5})


def test_a_family_is_chosen_by_option():
    data = load("families", family="second")
    assert (data.name, data.about) == ("families", "second")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"famly": "x"}, "the data set 'families' has no option `famly`: it takes family"),
        (
            {"family": 3},
            "the option `family` of the data set 'families' is a text; got 3",
        ),
        ({"target": "x"}, "the data set 'families' has one target: leave out `target`"),
        (
            {"reader": "graph"},
            "the data set 'families' is not read from files by a reader: leave out `reader`",
        ),
    ],
)
def test_options_that_a_data_set_does_not_take_are_refused(options, problem):
    with pytest.raises(IncidenceError, match=problem):
        load("families", **options)


def test_options_of_a_data_set_without_any_are_refused():
    with pytest.raises(
        IncidenceError,
        match="the data set 'solubility' has no option `labels`: it takes no options",
    ):
        load("solubility", labels=7)


def test_the_same_seed_draws_the_same_validation_part_everywhere():
    data = load("solubility")
    assert (
        load("solubility", validation=0.1, seed=3)
        .split()
        .validation.equal(load(data, validation=0.1, seed=3).split().validation)
    )


def test_a_fixed_validation_part_is_not_drawn_anew():
    with pytest.raises(
        IncidenceError,
        match=("'families' has a validation part, so none is drawn: leave out `validation`"),
    ):
        load("families", validation=0.1)


def test_data_that_is_nowhere_is_refused():
    have = "Data sets: families, solubility, surfaces, and `pyg:CLASS/NAME` for those of PyG"
    with pytest.raises(
        IncidenceError, match=f"'nowhere' is no data set and no file or folder. {have}"
    ):
        load("nowhere")


def test_the_target_of_a_data_set_of_pyg_is_a_number(tmp_path):
    with pytest.raises(
        IncidenceError, match="is the number of a column, as in `target=0`; got 'y'"
    ):
        load("pyg:TUDataset/MUTAG", "y", folder=tmp_path)


def squares(count, target=lambda k: k % 2):
    structure = inc.Structure(4, {"{i j}": [[0, 1, 2, 3], [1, 2, 3, 0]]})
    return [inc.Example(structure, {"i": torch.ones(4, 1)}, target(k)) for k in range(count)]


def test_examples_at_hand_are_a_data_set():
    data = load(squares(20))
    assert (data.task.kind, data.task.names, data.reader) == (
        "classification",
        ("class 0", "class 1"),
        "example",
    )
    assert [len(part) for part in data.split()] == [16, 2, 2]
    assert [len(part) for part in load(inc.collate(squares(20)), validation=0.5).split()] == [
        9,
        9,
        2,
    ]
    assert load(squares(4), task="regression", name="mine").name == "mine"


def test_one_example_with_targets_of_its_nodes_is_learned_within():
    [example] = squares(1, lambda k: {"i": torch.tensor([0, 1, 0, 1])})
    data = load(example)
    assert data.is_transductive
    assert sum(len(part) for part in data.split()) == 4


def test_a_data_set_without_splits_gets_one_by_chance():
    made = replace(load(squares(10)), splits=())
    assert [len(part) for part in load(made).split()] == [8, 1, 1]
    assert load(load(made)).split().train.equal(load(made).split().train)


@pytest.mark.parametrize(
    ("what", "options", "problem"),
    [
        (
            3,
            {},
            (
                "data is a name, a path, a data frame, examples, graphs of PyG or networkx, or a"
                " DataSet; got <class 'int'>"
            ),
        ),
        ([], {}, "the data set 'examples' is empty"),
        ([1, 2], {}, "or a DataSet; got <class 'list'>"),
        ([nx.path_graph(3)], {}, r"graph 0 of networkx has no target, .*graph.graph\['y'\] = 1"),
        (squares(2), {"target": "x"}, "a list of examples has one target: leave out `target`"),
        (
            squares(2),
            {"reader": "graph"},
            "a list of examples is not read from files by a reader: leave out `reader`",
        ),
        (
            squares(2),
            {"colour": 1},
            "a list of examples has no option `colour`: it takes name, source, task, splits",
        ),
    ],
)
def test_what_is_no_data_is_refused(what, options, problem):
    with pytest.raises(IncidenceError, match=problem):
        load(what, **options)


ETHANE = """\
ethane


  2  1  0  0  0  0  0  0  0  0999 V2000
    0.0000    0.0000    0.0000 C   0  0
    1.5000    0.0000    0.0000 C   0  0
  1  2  1  0
M  END
> <SOL>
{value}

$$$$
"""


def test_molecules_are_read_once(tmp_path, monkeypatch):
    opened, reader = [], READERS["molecule"]

    def read(path, errors, **options):
        opened.append(path)
        return reader.read(path, errors, **options)

    monkeypatch.setitem(READERS, "molecule", Reader(reader.suffixes, read))
    (tmp_path / "a.sdf").write_text("".join(ETHANE.format(value=k) for k in range(4)))
    assert [float(e.target) for e in load(tmp_path / "a.sdf", "SOL").examples] == [0, 1, 2, 3]
    assert opened == [tmp_path / "a.sdf"]


@pytest.mark.parametrize(
    ("pattern", "index"), [("{i j}", [[0, 1], [1, 2]]), ("{i ...}", [[0, 1, 2, 3], [0, 0, 1, 1]])]
)
def test_what_joins_nodes_has_ones_where_only_nodes_have_features(pattern, index):
    structure = inc.Structure(4, {pattern: index})
    bare, full = (
        inc.Example(structure, {"i": torch.ones(4, 2)}, {"i": torch.tensor([0, 1, 0, 1])}),
        torch.full((2, 3), 7.0),
    )
    assert load(bare).examples[0].features[pattern].tolist() == [[1.0], [1.0]]
    assert load(bare).reader_options == {"default_features": {"ones": [pattern]}}
    told = bare.replace(features={**bare.features, pattern: full})
    assert load(told).examples[0].features[pattern].tolist() == full.tolist()
    assert load(inc.Example(structure, {pattern: full}, {pattern: torch.tensor([0, 1])})).examples[
        0
    ].features.keys() == {pattern}
