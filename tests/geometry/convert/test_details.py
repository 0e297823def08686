"""Small things that a round trip keeps, and names that other libraries allow."""

import pytest
import torch

from incidence.errors import IncidenceError
from incidence.geometry import convert
from incidence.structure import Structure
from incidence.structure.example import Example

nx = pytest.importorskip("networkx")


@pytest.mark.parametrize("names", [{"edge_features": ["weight"]}, {"node_features": ["weight"]}])
def test_an_attribute_that_is_asked_for_and_missing_everywhere_is_refused(names):
    with pytest.raises(IncidenceError, match="have no attribute `weight`"):
        convert.from_networkx(nx.Graph([(0, 1)]), **names)


@pytest.mark.parametrize("num_nodes", [0, 3])
def test_networkx_keeps_the_features_of_no_entries(num_nodes):
    features = {
        "i": torch.ones(num_nodes, 2),
        "pos=i": torch.ones(num_nodes, 3),
        "{i j}": torch.zeros(0, 4),
    }
    example = Example(
        Structure(num_nodes, {"{i j}": torch.zeros(2, 0, dtype=torch.long)}), features
    )
    assert convert.from_networkx(convert.to_networkx(example)) == example


def test_trimesh_keeps_single_precision():
    pytest.importorskip("trimesh")
    triangle = Structure(3, {"{i j}": [[0, 0, 1], [1, 2, 2]], "{i j k}": [[0], [1], [2]]})
    example = Example(triangle, {"pos=i": torch.eye(3)})
    back = convert.from_trimesh(convert.to_trimesh(example))
    assert back.features["pos=i"].dtype == torch.float32
    assert back == example


def test_a_relation_of_one_letter_is_named_with_its_sorts():
    data = pytest.importorskip("torch_geometric.data").HeteroData()
    data["u"].num_nodes = data["m"].num_nodes = 2
    data["u", "r", "m"].edge_index = torch.tensor([[0], [1]])
    assert [str(p) for p in convert.from_pyg(data).structure.patterns] == ["u_r_m=u:u m:m"]
