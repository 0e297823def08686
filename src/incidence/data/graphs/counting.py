"""Counts of small patterns in random graphs, to be learned from the edges alone."""

from __future__ import annotations

from pathlib import Path

import torch

from incidence.data.dataset import DataSet, Split, Task
from incidence.data.graphs.files import arrays, choose, damaged, find, rows
from incidence.data.graphs.many import graphs, node_features
from incidence.structure.ragged import ranges

__all__ = ["load_counting"]

_FOLDER = "substructure_counting"
_TARGETS = ("triangle", "star", "tailed_triangle", "chordal_cycle")
_ABOUT = (
    "5000 random graphs of 10 nodes (Chen et al., 2020); the target is the number of {}s. The literature reports the mean squared error of "
    "the test part divided by the variance of the target over all graphs, which is {:.4g}."
)


def load_counting(name: str, folder: Path | None, *, target: str = "triangle") -> DataSet:
    """Random graphs with the counts of a pattern: triangles, tailed triangles and chordal cycles are induced, 3-stars are not.

    Args:
        name: `counting`.
        folder: `substructure_counting`, or the folder that holds it.
        target: `triangle`, `star`, `tailed_triangle` or `chordal_cycle`.
    """
    choose(name, "target", target, _TARGETS)
    path = find(name, folder, _FOLDER, "dataset1_er.npz")
    found = arrays(path, ["node_ptr", "edge_ptr", "edges", f"label_{target}"])
    node_ptr, edge_ptr, ends = (torch.from_numpy(found[key].astype("int64")) for key in ("node_ptr", "edge_ptr", "edges"))
    counts = torch.from_numpy(found[f"label_{target}"].astype("float32"))
    sizes, per_graph = node_ptr.diff(), edge_ptr.diff()
    if len(sizes) != len(counts) or len(per_graph) != len(sizes) or int(edge_ptr[-1]) != len(ends):
        raise damaged(path, "its arrays do not fit together")
    home = torch.repeat_interleave(torch.arange(len(sizes)), per_graph)
    edges = (ends + ranges(sizes)[home, None]).T
    features = node_features(int(node_ptr[-1]), edges, degrees=False)
    return DataSet(
        name,
        graphs(sizes, edges, features, counts[:, None]),
        Task("regression", (target,)),
        (Split(*(rows(name, path.parent / f"dataset1_{part}.txt", len(sizes)) for part in ("train", "val", "test"))),),
        reader="graph",
        reader_options={"degrees": False},
        about=_ABOUT.format(target.replace("_", " "), float(counts.double().var(correction=0))),
    )
