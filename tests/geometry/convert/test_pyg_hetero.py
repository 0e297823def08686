"""Node types and relations of PyG have any name; here they get names that patterns take, and it is
told.
"""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import incidence as inc
from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.geometry.convert import from_pyg, to_pyg
from incidence.geometry.convert.pyg_hetero import names_of, other_names
from tests.geometry.convert.loose_graphs import drugs

data = pytest.importorskip("torch_geometric.data")
T = torch.tensor


@pytest.fixture(autouse=True)
def nothing_was_said(monkeypatch):
    monkeypatch.setattr("incidence.geometry.convert.pyg._WARNED", set())


def test_types_and_relations_of_any_name_are_read_and_stay_different():
    with pytest.warns(
        UserWarning,
        match=(
            "^names here are of letters, digits and `_`, not a digit first: `drug-a` is `drug_a_2`"
        ),
    ):
        example = from_pyg(drugs())
    assert example.structure.counts == {"drug_a_2": 2, "drug_a": 2, "_2": 2, "side_effect": 2}
    assert [(p.name, tuple(p.sorts.values())) for p in example.structure.patterns] == [
        ("is_a_2", ("drug_a_2", "drug_a")),
        ("is_a", ("drug_a", "drug_a_2")),
        ("_3_of", ("_2", "_2")),
        ("_2_x_side_effect", ("_2", "side_effect")),
    ]
    by_name = {str(example.structure.resolve(key)): x for key, x in example.features.items()}
    assert by_name["d:drug_a_2"].tolist() == [[0.0], [0.0]]
    assert by_name["r:drug_a"].tolist() == [[1.0], [1.0]]
    assert by_name["is_a_2=d:drug_a_2 r:drug_a"].tolist() == [[5.0]]
    assert example.target["d:drug_a_2"].tolist() == [0, 1]


def test_the_names_lead_back():
    assert other_names(drugs()) == {
        "drug-a": "drug_a_2",
        "2": "_2",
        "side effect": "side_effect",
        "is-a": "is_a_2",
        "3 of": "_3_of",
        "2_x_side effect": "_2_x_side_effect",
    }
    with pytest.warns(UserWarning, match="names here"):
        example = from_pyg(drugs())
    assert from_pyg(to_pyg(example)) == example
    assert not other_names(to_pyg(example))


def test_batches_of_such_types_are_read():
    graph = drugs()
    with pytest.warns(UserWarning, match="names here"):
        assert from_pyg(data.Batch.from_data_list([graph, graph])) == inc.collate(
            [from_pyg(graph)] * 2
        )


@given(st.lists(st.text(max_size=4), unique=True, max_size=8))
def test_names_differ_as_their_words_do_and_are_names(words):
    names = names_of(dict(zip(words, words, strict=True)))
    assert len(set(names.values())) == len(words)
    for word, name in names.items():
        assert Pattern(f"i:{name}").sorts == {"i": name}
        if word.isidentifier() and word.isascii():
            assert name == word
    assert names_of(dict(zip(words[::-1], words[::-1], strict=True))) == names


@pytest.mark.parametrize("options", [{"edges": "(i j)"}, {"features": {"pos": "pos=i"}}], ids=str)
@pytest.mark.filterwarnings("ignore:names here are")
def test_what_the_types_say_already_is_not_said_again(options):
    with pytest.raises(
        IncidenceError, match="the node types and relations of HeteroData define the tensors"
    ):
        from_pyg(drugs(), **options)
