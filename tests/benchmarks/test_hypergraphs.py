"""Citation hypergraphs: counts, splits and parts."""

from collections import Counter

import numpy as np
import pytest
import torch

from benchmarks.sets import load
from incidence.data.dataset_checks import checked
from incidence.errors import IncidenceError
from tests.data_folder import data_folder

# nodes, hyperedges as listed, of these different, words, classes, training nodes
COUNTS = {
    "cora-cocitation": (2708, 1579, 1483, 1433, 7, 140),
    "cora-coauthorship": (2708, 1072, 970, 1433, 7, 140),
    "citeseer-cocitation": (3312, 1079, 1004, 3703, 6, 138),
}


@pytest.mark.parametrize("name", COUNTS)
def test_citation_hypergraphs_have_the_published_counts(name):
    nodes, listed, different, words, classes, trained = COUNTS[name]
    data = load(name, data_folder("citation_hypergraphs").parent)
    checked(data)
    [example] = data.examples
    x, h = example.features["i"], example.features["{i ...}"]
    assert x.shape == (nodes, words)
    assert set(x.unique().tolist()) == {0, 1}
    assert example.structure.num_entries("{i ...}") == different
    assert round(float(h[:, 1].double().exp().sum())) == listed
    assert (
        example.target["i"].unique().tolist()
        == list(range(classes))
        == list(range(len(data.task.names)))
    )
    assert example == example.canonical()
    assert len(data.splits) == 10
    assert all(
        [len(part) for part in split] == [trained, 0, nodes - trained] for split in data.splits
    )


def test_features_of_hyperedges_are_log_size_and_log_number():
    data = load("cora-coauthorship", data_folder("citation_hypergraphs"))
    [example] = data.examples
    with np.load(data_folder("citation_hypergraphs") / "cora_coauthorship.npz") as file:
        sets = Counter(
            tuple(sorted(own)) for own in np.split(file["edge_nodes"], file["edge_ptr"][1:-1])
        )
    nodes, numbers = example.structure["{i ...}"]
    for number in range(0, len(sets), 50):
        own = tuple(sorted(nodes[numbers == number].tolist()))
        row = example.features["{i ...}"][number]
        assert torch.allclose(row.exp(), torch.tensor([float(len(own)), float(sets[own])]))


def test_the_parts_have_the_target_of_their_nodes_alone():
    data = load("cora-cocitation", data_folder("citation_hypergraphs"), validation=0.2)
    parts = data.parts(3)
    classes = data.examples[0].target["i"]
    for part, rows in zip(parts, data.splits[3], strict=True):
        [example] = part
        known = example.target["i"] >= 0
        assert torch.equal(known.nonzero()[:, 0], rows.sort().values)
        assert torch.equal(example.target["i"][known], classes[known])
        assert example.structure is data.examples[0].structure
    assert len(data.splits[3].validation) == 28


def test_arrays_that_do_not_fit_are_refused(tmp_path):
    parts = {
        "num_nodes": 2,
        "edge_ptr": [0, 2],
        "edge_nodes": [0, 5],
        "labels": [0, 1],
        "feat_indptr": [0, 1, 1],
        "feat_indices": [0],
    }
    arrays = {**parts, "feat_shape": [2, 1], **{f"train_{k}": [0] for k in range(1, 11)}}
    np.savez(
        tmp_path / "cora_cocitation.npz", **{key: np.array(value) for key, value in arrays.items()}
    )
    with pytest.raises(
        IncidenceError, match=r"cora_cocitation.npz is damaged \(its arrays do not fit together\)"
    ):
        load("cora-cocitation", tmp_path)
    arrays["edge_nodes"] = [0, 1]
    np.savez(
        tmp_path / "cora_cocitation.npz", **{key: np.array(value) for key, value in arrays.items()}
    )
    assert load("cora-cocitation", tmp_path).examples[0].structure.num_entries("{i ...}") == 1
