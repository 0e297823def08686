"""The TDL Challenge 2026: twelve families of random graphs with communities, as `graph-universe`
0.1.2 generates them from the settings of the challenge.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.sets.files import arrays, choose, damaged, find, text
from incidence.data import DataSet, Split, Task
from incidence.data.graphs import graphs
from incidence.errors import need
from incidence.files import whole_file
from incidence.structure.example import Example
from incidence.structure.ragged import ranges

__all__ = ["FAMILY_RANGES", "SETTINGS", "generate", "generated_folder", "load_universe"]

FAMILY_RANGES = ("homophily_range", "avg_degree_range", "power_law_exponent_range")
SETTINGS = tuple(
    f"{homophily}__{degree}__{exponent}"
    for homophily in ("h_lo", "h_mid", "h_hi")
    for degree in ("d_lo", "d_hi")
    for exponent in ("pl_lo", "pl_hi")
)
_ARRAYS = ("sizes", "num_edges", "edges", "x", "communities", "triangles")
_ABOUT = (
    "TDL Challenge 2026, family {}: 1000 graphs of `graph-universe` 0.1.2 (MIT) by the settings of"
    " the challenge, seed 42. The target is {}. The parts are those of the challenge, 700 / 150 /"
    " 150."
)


def generated_folder() -> Path:
    """Return where generated graphs are stored: INCIDENCE_GENERATED, or `build/universe`."""
    return Path(os.environ.get("INCIDENCE_GENERATED", "build/universe"))


def load_universe(
    name: str,
    folder: Path | None,
    *,
    setting: str = "h_mid__d_hi__pl_lo",
    target: str = "triangles",
) -> DataSet:
    """Graphs of one family, with the number of triangles or the community of every node.

    The graphs are generated once (18 to 69 s of one thread) and stored in `generated_folder()`.

    Args:
        name: `universe`.
        folder: `tdl_challenge_2026`, or the folder that holds it.
        setting: One of `SETTINGS`: homophily, mean degree, exponent of the power law.
        target: `triangles` or `communities`.
    """
    choose(name, "setting", setting, SETTINGS)
    choose(name, "target", target, ("triangles", "communities"))
    grid = json.loads(text(find(name, folder, "tdl_challenge_2026", "grid.json")))
    path = generated_folder() / f"{setting}.npz"
    if not path.exists():
        generate(grid, setting, path)
    found = arrays(path, _ARRAYS)
    total = int(found["triangles"][_parts(1000).test.numpy()].sum())
    if total != grid["settings"][setting]["test_triangles_total"]:
        raise damaged(path, f"its test graphs have {total} triangles, and not the published number")
    is_count = target == "triangles"
    task = Task("regression", ("triangles",))
    if not is_count:
        task = Task("classification", tuple(f"community {k}" for k in range(20)), at="i")
    return DataSet(
        name,
        _examples(found, is_count),
        task,
        (_parts(1000),),
        reader="graph",
        about=_ABOUT.format(setting, "the number of triangles" if is_count else "the community"),
        metric="rmse" if is_count else "accuracy",
    )


def generate(grid: dict[str, Any], setting: str, path: Path) -> None:
    """Generate the graphs of one family as the challenge does, and write them to a file.

    Args:
        grid: The settings of the challenge.
        setting: One of `SETTINGS`.
        path: Where to write arrays.

    Raises:
        IncidenceError: The generator is not installed.
    """
    print(f"  generating the graphs {setting}", file=sys.stderr, flush=True)
    package = need("graph_universe", "the graphs of the TDL Challenge", "peers")
    ranges_of_family = {key: grid["settings"][setting][key] for key in FAMILY_RANGES}
    state = np.random.get_state()  # the generator seeds the global one
    try:
        universe = package.GraphUniverse(**grid["universe_parameters"])
        family = package.GraphFamilyGenerator(
            universe=universe, **grid["family_parameters"], **ranges_of_family
        )
        family.generate_family()
        counted = family.to_pyg_graphs("triangle_counting")
        triangles = [float(graph.y) for graph in counted]
        labelled = family.to_pyg_graphs("community_detection")
    finally:
        np.random.set_state(state)
    edges = [graph.edge_index[:, graph.edge_index[0] < graph.edge_index[1]] for graph in labelled]
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as file:
        np.savez_compressed(
            file,
            sizes=np.array([graph.num_nodes for graph in labelled]),
            num_edges=np.array([pairs.shape[1] for pairs in edges]),
            edges=torch.cat(edges, dim=1).numpy(),
            x=torch.cat([graph.x for graph in labelled]).float().numpy(),
            communities=torch.cat([graph.y for graph in labelled]).numpy(),
            triangles=np.array(triangles),
        )


def _parts(count: int) -> Split:
    """The split of the challenge, by the legacy generator of NumPy with seed 42."""
    order = torch.from_numpy(np.random.RandomState(42).permutation(count))
    train, validation = 7 * count // 10, 15 * count // 100
    return Split(order[:train], order[train : train + validation], order[train + validation :])


def _examples(found: dict[str, NDArray[Any]], is_count: bool) -> list[Example]:
    sizes = torch.from_numpy(found["sizes"].astype("int64"))
    num_edges = torch.from_numpy(found["num_edges"].astype("int64"))
    first = torch.repeat_interleave(ranges(sizes)[:-1], num_edges)
    edges = torch.from_numpy(found["edges"].astype("int64")) + first  # numbered through
    counts = torch.from_numpy(found["triangles"].astype("float32"))[:, None]
    examples = graphs(sizes, edges, torch.from_numpy(found["x"]), counts if is_count else None)
    if is_count:
        return examples
    labels = torch.from_numpy(found["communities"].astype("int64")).split(sizes.tolist())
    return [one.replace(target={"i": own}) for one, own in zip(examples, labels, strict=True)]
