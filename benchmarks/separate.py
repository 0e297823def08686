"""Which graphs a network with random weights tells apart, beyond rounding.

A pair counts as told apart if the distance of its two outputs exceeds 1e-8 and a hundred times the distance between a graph and a
relabelled copy of itself: without that control, rounding passes for expressivity.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import incidence as inc
from benchmarks.sets import load
from benchmarks.sets.graphs import FAMILIES
from incidence.data.lifts import lift_all
from incidence.models import make


def outputs(examples: list[inc.Example], model: str, seed: int) -> Tensor:
    """What a random network gives for each graph; shape (graphs, 16)."""
    torch.manual_seed(seed)
    net = make(
        model, {key: x.shape[1] for key, x in examples[0].features.items()}, 16, norm="none", dropout=0.0, hidden=16, activation="silu"
    )
    net.double().eval()
    first = _batch(examples[:16])
    net.calibrate(first.features, first.structure)
    with torch.no_grad():
        found = [net(b.features, b.structure) for b in (_batch(examples[k : k + 16]) for k in range(0, len(examples), 16))]
    return torch.cat(found)


def _batch(examples: list[inc.Example]) -> inc.Example:
    batch = inc.collate(examples)
    return batch.replace(features={key: x.double() for key, x in batch.features.items()})


def told_apart(examples: list[inc.Example], lift: str, model: str, seed: int = 0, **options: Any) -> tuple[int, int]:
    """How many of all pairs are told apart, and how many there are."""
    generator = torch.Generator().manual_seed(seed)
    copies = [_relabelled(e, torch.randperm(e.structure.total_nodes, generator=generator)) for e in examples]
    y, again = outputs(lift_all(examples + copies, lift, **options), model, seed).chunk(2)
    rounding = (y - again).abs().amax()
    distance = torch.cdist(y, y, p=torch.inf)
    pairs = torch.triu_indices(len(y), len(y), 1)
    apart = distance[pairs[0], pairs[1]] > torch.clamp(100 * rounding, min=1e-8)
    return int(apart.sum()), len(apart)


def _relabelled(example: inc.Example, order: Tensor) -> inc.Example:
    """The same graph with its nodes in another order; without features of its own it is the same example but for the labels."""
    structure = example.structure.relabel(order)
    return inc.Example(structure, {key: torch.ones_like(x) for key, x in example.features.items()}, example.target)


def separate_families(folder: Path | None, is_quick: bool) -> dict[str, Any]:
    """All families of strongly regular graphs, with rings up to 5, cliques, and nodes and edges alone as the control that must fail."""
    found: dict[str, Any] = {}
    start = time.process_time()
    for family in FAMILIES[:2] if is_quick else FAMILIES:
        examples = list(load("sr", folder=folder, family=family).examples)
        rings = told_apart(examples, "rings", "rings", max_size=5)
        control = told_apart(examples, "none", "graph")
        found[family] = {"rings": rings, "control": control}
        print(f"  {family}: rings {rings[0]} of {rings[1]} pairs, nodes and edges {control[0]}", file=sys.stderr, flush=True)
    apart, pairs = (sum(f["rings"][k] for f in found.values()) for k in (0, 1))
    return {"apart": apart, "pairs": pairs, "families": found, "cpu_seconds": round(time.process_time() - start, 1)}
