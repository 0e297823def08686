"""Which graphs a network with random weights tells apart, beyond rounding.

A pair counts as told apart if the distance of its two outputs exceeds 1e-8 and a hundred times the
distance between a graph and a relabelled copy of itself: without that control, rounding passes for
expressivity.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import incidence as inc
from benchmarks.sets import load
from incidence.data.lifts import lift_all
from incidence.models import make, read_channels

_TOGETHER = 4_000_000  # triples of nodes in a batch
_RANDOM = {"norm": "none", "dropout": 0.0, "hidden": 16, "activation": "silu"}


@dataclass(frozen=True)
class Contestant:
    """A network and the lifts before it.

    Attributes:
        model: A preset, or the tensors it reads.
        lifts: Each with its options, one after the other.
        settings: Of the network, in place of those of the preset and of all random networks.
        gain: By how much the weights of blocks are larger than what `calibrate` makes of them. With
            the activation `sin` that is a hash: small differences of entries become differences of
            the size of one, block by block, and so does rounding, far behind.
    """

    model: str
    lifts: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    gain: float = 1.0

    def lifted(self, examples: Sequence[inc.Example]) -> list[inc.Example]:
        """The examples after all lifts."""
        found = list(examples)
        for name, options in self.lifts:
            found = lift_all(found, name, **options)
        return found

    def network(self, example: inc.Example, out_channels: int = 16) -> inc.models.IncidenceNet:
        """A fresh network for a lifted example or batch, whose weights are scaled to it, in double
        precision.
        """
        channels = {key: x.shape[1] for key, x in example.features.items()}
        widths = read_channels(self.model, channels)
        net = (
            make(self.model, widths, out_channels, **{**_RANDOM, **self.settings})
            .double()
            .calibrate(example)
        )
        with torch.no_grad():
            for weight in net.blocks.parameters():
                weight.mul_(self.gain if weight.ndim > 1 else 1.0)
        return net


GRAPH = Contestant("graph")
RINGS = Contestant("rings", (("rings", {"max_size": 5}),))
PPGN = Contestant("ppgn", (("pairs", {}),))
LOCAL = Contestant("local-fgnn", (("hops", {"k": 2}),))
SUBGRAPH = Contestant("subgraph", (("pairs", {}),))
RINGED_PPGN = Contestant(
    "i, {i j}, ring={i ...}, i j",
    (("rings", {"max_size": 5}), ("pairs", {})),
    {"through": "i j", "products": "i j, j k -> i k", "max_overlap": 2},
)


FOR_FAMILIES = {
    "rings": RINGS,
    "rings, ppgn": RINGED_PPGN,
    "graph": GRAPH,
    "ppgn": PPGN,
    "local-fgnn": LOCAL,
    "subgraph": SUBGRAPH,
}


def outputs(examples: Sequence[inc.Example], contestant: Contestant, seed: int) -> Tensor:
    """What a random network gives for each graph; shape (graphs, 16)."""
    lifted = contestant.lifted(examples)
    torch.manual_seed(seed)
    net = contestant.network(batch_of(lifted[:16])).eval()
    with torch.no_grad():
        return torch.cat([net(batch_of(part)) for part in _parts(lifted)])


def _parts(examples: Sequence[inc.Example]) -> Iterator[list[inc.Example]]:
    part: list[inc.Example] = []
    for example in examples:
        if part and (
            len(part) == 16 or sum(e.structure.total_nodes**3 for e in (*part, example)) > _TOGETHER
        ):
            yield part
            part = []
        part.append(example)
    yield part


def batch_of(examples: Sequence[inc.Example]) -> inc.Example:
    """Examples together, with features in double precision."""
    batch = inc.collate(list(examples))
    return batch.replace(features={key: x.double() for key, x in batch.features.items()})


def relabelled(example: inc.Example, generator: torch.Generator) -> inc.Example:
    """The same graph with its nodes in another order; without features of its own it is the same
    example but for the labels.
    """
    structure = example.structure.relabel(
        torch.randperm(example.structure.total_nodes, generator=generator)
    )
    return inc.Example(
        structure, {key: torch.ones_like(x) for key, x in example.features.items()}, example.target
    )


def _with_copies(examples: Sequence[inc.Example], seed: int) -> list[inc.Example]:
    generator = torch.Generator().manual_seed(seed)
    return [*examples, *(relabelled(e, generator) for e in examples)]


def told_apart(
    examples: Sequence[inc.Example], contestant: Contestant, seed: int = 0
) -> tuple[int, int]:
    """How many of all pairs are told apart, and how many there are."""
    y, again = outputs(_with_copies(examples, seed), contestant, seed).chunk(2)
    rounding = (y - again).abs().amax()
    distance = torch.cdist(y, y, p=torch.inf)
    pairs = torch.triu_indices(len(y), len(y), 1)
    apart = distance[pairs[0], pairs[1]] > torch.clamp(100 * rounding, min=1e-8)
    return int(apart.sum()), len(apart)


def pairs_told_apart(
    examples: Sequence[inc.Example], contestant: Contestant, seed: int = 0
) -> list[bool]:
    """For the pairs of examples 2k and 2k + 1 whether each is told apart, by one network; the
    copies of its own graphs are its control.
    """
    y, again = outputs(_with_copies(examples, seed), contestant, seed).chunk(2)
    rounding = (y - again).abs().amax(1).view(-1, 2).amax(1)
    apart: list[bool] = (
        (y[0::2] - y[1::2]).abs().amax(1) > torch.clamp(100 * rounding, min=1e-8)
    ).tolist()
    return apart


def equal_pairs(examples: Sequence[inc.Example]) -> Tensor:
    """The pairs of graphs that colour refinement (1-WL) cannot tell apart, shape (pairs, 2)."""
    batch = inc.collate(list(examples)).structure
    ends = torch.cat([batch["{i j}"], batch["{i j}"].flip(0)], dim=1)
    home = batch.batch("i")
    colour = torch.zeros(batch.total_nodes, dtype=torch.long)
    while True:
        finer = _classes(
            torch.stack(
                [colour, _classes_of_bags(ends[0], colour[ends[1]], batch.total_nodes)], dim=1
            )
        )
        if int(finer.max()) == int(colour.max()):
            break
        colour = finer
    kinds = _classes_of_bags(home, colour, len(examples))
    same = kinds[:, None] == kinds[None]
    return same.triu(1).nonzero()


def _classes(rows: Tensor) -> Tensor:
    _, found = torch.unique(rows, dim=0, return_inverse=True)
    numbers: Tensor = found
    return numbers


def _classes_of_bags(bag: Tensor, member: Tensor, count: int) -> Tensor:
    """The same number for bags with the same members, each as often."""
    sizes = torch.bincount(bag, minlength=count)
    order = (bag * (int(member.max()) + 1 if len(member) else 1) + member).argsort()
    rows = torch.full((count, int(sizes.max()) if count else 0), -1)
    place = torch.arange(len(bag)) - (sizes.cumsum(0) - sizes)[bag[order]]
    rows[bag[order], place] = member[order]
    return _classes(rows)


# ---- the tasks


def separate_family(folder: Path | None, family: str) -> dict[str, tuple[int, int]]:
    """A family of strongly regular graphs, with rings up to 5, alone and with products over all
    pairs; nodes and edges alone, and the three networks of products without rings, are the controls
    that must fail: no test of three nodes tells these graphs apart. For each network, the number of
    pairs that are told apart, and of all pairs.
    """
    examples = load("sr", folder=folder, family=family).examples
    counts = {name: told_apart(examples, one) for name, one in FOR_FAMILIES.items()}
    _say(f"{family}: {counts}")
    return counts


def separate_small_graphs(folder: Path | None, is_quick: bool) -> dict[str, Any]:
    """The pairs of connected graphs with 8 nodes (7, if quick) that colour refinement cannot tell
    apart.
    """
    examples = load("small-graphs", folder=folder, nodes=7 if is_quick else 8).examples
    pairs = equal_pairs(examples)
    both = [examples[k] for k in pairs.flatten().tolist()]
    found = {one.model: sum(pairs_told_apart(both, one)) for one in (GRAPH, PPGN, LOCAL, SUBGRAPH)}
    return {"pairs": len(pairs), "apart": found}


_HASH: dict[str, Any] = {"activation": "sin", "hidden": 12, "depth": 5}
PPGN_FOR_BREC = Contestant("ppgn", (("pairs", {}),), _HASH, gain=4.0)
RINGS_FOR_BREC = Contestant(
    RINGED_PPGN.model,
    (("rings", {"max_size": 6}), ("pairs", {})),
    {**RINGED_PPGN.settings, **_HASH, "hidden": 8, "depth": 2},
    gain=3.0,
)
_SMALL = {"hidden": 4, "depth": 1}
_RINGS = Contestant("rings", (("rings", {"max_size": 5}),), _SMALL)
_CLIQUES = Contestant("i, {i j}, {i j k}, {i j k l}", (("cliques", {"max_size": 4}),), _SMALL)

# For each group one that can tell its pairs apart: no test of three nodes tells the graphs of
# `str`, `4vtx` and `dr` apart.
FOR_GROUP: dict[str, tuple[str, Contestant]] = {
    "basic": ("ppgn", PPGN_FOR_BREC),
    "regular": ("ppgn", PPGN_FOR_BREC),
    "extension": ("ppgn", PPGN_FOR_BREC),
    "str": ("rings", _RINGS),
    "dr": ("rings, ppgn", RINGS_FOR_BREC),
    "4vtx": ("cliques", _CLIQUES),
    "cfi": ("ppgn", PPGN_FOR_BREC),
}


def separate_group(folder: Path | None, group: str, every: int = 1) -> dict[str, Any]:
    """A group of BREC, random weights, a network for each pair, of one kind for the group: products
    over all pairs, alone and with rings up to 6; rings up to 5; cliques. Nodes and edges are the
    control that must fail.
    """
    start, (name, contestant) = time.process_time(), FOR_GROUP[group]
    examples = load("brec", folder=folder, group=group).examples
    pairs = [examples[k : k + 2] for k in range(0, len(examples), 2 * every)]
    apart, control = (
        [pairs_told_apart(pair, one)[0] for pair in pairs] for one in (contestant, GRAPH)
    )
    missed = [every * k for k, is_apart in enumerate(apart) if not is_apart]
    found = {
        "network": name,
        "apart": sum(apart),
        "control": sum(control),
        "pairs": len(pairs),
        "missed": missed,
    }
    _say(f"{group}: {found}, {time.process_time() - start:.0f} s")
    return found


def _say(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)
