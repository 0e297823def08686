"""The protocol of the drifters: paths, flows, and models that see neither orientations nor
labels.
"""

import pytest
import torch

from benchmarks.drifters import (
    MODELS,
    SCoNe,
    accuracies,
    flows_preset,
    harmonic_preset,
    read_drifters,
    split,
    without_steps_back,
)
from incidence.testing import assert_equivariant
from tests.data_folder import data_folder


def test_steps_there_and_back_are_dropped():
    assert without_steps_back([0, 1, 2, 1, 3]) == [0, 1, 3]
    assert without_steps_back([0, 1, 0, 1, 2]) == [0, 1, 2]
    assert without_steps_back([0, 0, 1]) == [0, 1]


def test_flows_are_paths_from_their_start_to_their_last_node():
    data = read_drifters(data_folder("ocean_drifters"))
    s = data.structure
    assert (s.num_nodes, s.num_entries("<i j>"), s.num_entries("<i j k>")) == (133, 320, 186)
    one, other = s["<i j>"]
    for flow, last, target in zip(
        data.flows, data.last.tolist(), data.target.tolist(), strict=True
    ):
        net = torch.zeros(133).index_add_(0, other, flow).index_add_(0, one, -flow)
        assert net[last] in (0, 1)  # a path that ends where it began has none
        assert int(net.abs().sum()) in (0, 2)
        assert int(s.locate("<i j>", [[last], [target]])) >= 0  # the target is a neighbour
    assert int(split(len(data.target)).sum()) == round(0.8 * len(data.target))


@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_flows_respects_orientations(name):
    torch.manual_seed(0)
    data = read_drifters(data_folder("ocean_drifters"))
    x = {"i": torch.zeros(133, 1), "<i j>": data.flows[0][:, None], "<i j k>": torch.zeros(186, 1)}
    makers = {
        "SCoNe, as operations": SCoNe,
        "preset flows": flows_preset,
        "preset flows, harmonic": harmonic_preset,
    }
    model = makers[name]().double().eval()
    assert_equivariant(
        model,
        {key: value.double() for key, value in x.items()},
        data.structure,
        outputs="i",
        trials=1,
        rtol=1e-6,
    )


def test_training_learns_more_than_chance():
    data = read_drifters(data_folder("ocean_drifters"))
    few = data._replace(flows=data.flows[:20], last=data.last[:20], target=data.target[:20])
    assert accuracies(SCoNe, few, seed=0, epochs=40, lr=0.02)[0] > 0.4
