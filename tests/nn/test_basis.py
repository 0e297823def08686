"""The basis of a map is a basis: as many matrices as operations, independent, equivariant."""

import pytest
import torch

import incidence as inc
from incidence.errors import IncidenceError


@pytest.mark.parametrize(("text", "count"), [("i j -> i j", 15), ("i j -> i", 5), ("{i j} -> ", 1)])
def test_a_basis_has_an_independent_matrix_for_each_operation(text, count):
    matrices = inc.basis(text, num_nodes=4)
    assert len(matrices) == count == inc.EquivariantMap(text).dimension
    assert int(torch.linalg.matrix_rank(matrices.flatten(1))) == count


def test_a_basis_commutes_with_relabelling():
    structure = inc.Structure.complete(4, ["i j"])
    order = torch.tensor([2, 0, 3, 1])
    moved = structure.locate("i j", order[structure["i j"]])
    for matrix in inc.basis("i j -> i j", num_nodes=4):
        torch.testing.assert_close(matrix[moved][:, moved], matrix)


def test_a_map_of_several_tensors_has_no_one_basis():
    with pytest.raises(IncidenceError, match="take its tensors in pairs"):
        inc.basis("i, i j -> i", num_nodes=3)


def test_a_layer_takes_an_example_and_ignores_what_it_does_not_read():
    structure = inc.Structure(3, {"{i j}": [[0, 1], [1, 2]]})
    features = {"i": torch.randn(3, 2), "{i j}": torch.randn(2, 5)}
    layer = inc.nn.Linear("i -> {i j}", 2, 4)
    example = inc.Example(structure, features)
    torch.testing.assert_close(layer(example), layer(features["i"], structure))


def test_a_batch_of_pyg_is_sent_to_collate():
    class Batch:
        edge_index = torch.zeros(2, 0)

    with pytest.raises(IncidenceError, match=r"with inc\.collate\(graphs\), and call net\(batch\)"):
        inc.nn.Linear("i -> i", 2, 2)(Batch())


def test_equal_entries_are_sent_to_the_pattern_that_has_them():
    with pytest.raises(IncidenceError, match="pattern='i e:edge'"):
        inc.Structure(3, {"{i ...}": [[0, 1, 0, 1], [0, 0, 1, 1]]})
    with pytest.raises(IncidenceError, match=r"inc\.geometry\.graph, or the pattern `\(i j\)`"):
        inc.Structure(3, {"{i j}": [[0, 1], [1, 0]]})
