r"""Do networks with random weights tell apart exactly what `inc.expressivity` says?
`python -m benchmarks.agreement [SET ...] --folder DATA --out FILE`.

The sets are BREC (400 pairs), the six families of strongly regular graphs (all pairs of a family),
all connected graphs on 8 nodes (all pairs), and EXP (600 pairs). For every preset, a pair counts as
told apart by random weights if one of a few draws gives the two graphs outputs that differ beyond
rounding (`benchmarks.separate`). Three numbers matter: the pairs that the exact answer tells apart,
those of them that random weights missed, and those that random weights told apart against the exact
answer, of which there must be none. FILE gets a line in JSON for each preset and part of a set.
Lines that are there are not measured again. The output is a table in Markdown.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks import record
from benchmarks.expressivity import GROUPS, Kind, append_line, read_lines
from benchmarks.separate import Contestant, outputs
from benchmarks.sets import load
from benchmarks.sets.graphs import FAMILIES
from incidence.structure import Example

__all__ = ["NETWORKS", "SETS", "compare", "main", "table"]

_DRAWS = 5
_PAIRS_AT_ONCE = 1_000_000
_TOGETHER = 32  # graphs of EXP: 16 pairs

# With waves for an activation and large weights, a block is a hash: whatever differs in its input
# differs by the size of one in its output.
_HASH: dict[str, Any] = {"activation": "sin", "hidden": 12, "depth": 5}


@dataclass(frozen=True)
class Network:
    """An architecture, exactly and with random weights.

    Attributes:
        kind: For the exact answer.
        contestant: With random weights.
    """

    kind: Kind
    contestant: Contestant


def _network(
    preset: str,
    lifts: Mapping[str, Mapping[str, Any]] | None = None,
    **settings: Any,
) -> Network:
    named = tuple((lifts or {}).items())
    options = {key: value for _, own in named for key, value in own.items()}
    contestant = Contestant(preset, named, {**_HASH, **settings}, gain=4.0)
    return Network(Kind(preset, options), contestant)


NETWORKS = {
    "graph": _network("graph"),
    "triangles": _network("triangles", {"cliques": {}}),
    "rings": _network("rings", {"rings": {"max_size": 5}}, hidden=8, depth=3),
    "subgraph": _network("subgraph", {"pairs": {}}),
    "local-fgnn": _network("local-fgnn", {"hops": {"k": 2}}),
    "ppgn": _network("ppgn", {"pairs": {}}),
}
"""Presets that both ways run on all sets."""

Part = tuple[str, list[Example], bool]
"""A name, its graphs, and whether graphs 2k and 2k + 1 are the pairs; else all pairs count."""


def _brec(folder: Path | None) -> Iterator[Part]:
    for group in GROUPS:
        examples = load("brec", folder=folder, group=group).examples
        for k in range(0, len(examples), 2):
            yield f"{group} {k // 2}", list(examples[k : k + 2]), True


def _sr(folder: Path | None) -> Iterator[Part]:
    for family in FAMILIES:
        yield family, list(load("sr", folder=folder, family=family).examples), False


def _graph8c(folder: Path | None) -> Iterator[Part]:
    yield "8 nodes", list(load("small-graphs", folder=folder, nodes=8).examples), False


def _exp(folder: Path | None) -> Iterator[Part]:
    examples = load("exp", folder=folder).examples
    for k in range(0, len(examples), _TOGETHER):
        yield f"from {k // 2}", list(examples[k : k + _TOGETHER]), True


SETS = {"brec": _brec, "sr": _sr, "graph8c": _graph8c, "exp": _exp}


def pairs_of(count: int, in_turns: bool) -> Iterator[Tensor]:
    """Yield the pairs that count, some at a time, shape (2, pairs).

    Example:
        >>> [one.tolist() for one in pairs_of(4, True)]
        [[[0, 2], [1, 3]]]
        >>> torch.cat(list(pairs_of(4, False)), dim=1).shape
        torch.Size([2, 6])
    """
    if in_turns:
        yield torch.arange(count).view(-1, 2).T
        return
    rows = max(1, _PAIRS_AT_ONCE // max(count, 1))
    for start in range(0, count, rows):
        first = torch.arange(start, min(start + rows, count))
        one, other = torch.meshgrid(first, torch.arange(count), indexing="ij")
        yield torch.stack([one[one < other], other[one < other]])


class _Draws:
    """Outputs of networks with random weights, drawn as needed."""

    def __init__(self, examples: Sequence[Example], contestant: Contestant) -> None:
        generator = torch.Generator().manual_seed(0)
        self._examples = [*examples, *(_copy(one, generator) for one in examples)]
        self._contestant = contestant
        self._known: list[tuple[Tensor, Tensor]] = []

    def __getitem__(self, seed: int) -> tuple[Tensor, Tensor]:
        """Return the outputs of all graphs, and what rounding may change in each."""
        while len(self._known) <= seed:
            both = outputs(self._examples, self._contestant, len(self._known))
            y, again = both.chunk(2)
            self._known.append((y, (y - again).abs().amax(1)))
        return self._known[seed]

    def apart(self, pairs: Tensor, seed: int) -> Tensor:
        """Return which pairs a network tells apart, (pairs,)."""
        y, rounding = self[seed]
        one, other = pairs
        bound = (100 * torch.maximum(rounding[one], rounding[other])).clamp(min=1e-8)
        return (y[one] - y[other]).abs().amax(1) > bound


def _copy(example: Example, generator: torch.Generator) -> Example:
    """Return the same graph with its nodes in another order, and the features of its nodes."""
    permutation = torch.randperm(example.structure.total_nodes, generator=generator)
    x = torch.empty_like(example.features["i"])
    x[permutation] = example.features["i"]
    structure = example.structure.relabel(permutation)
    return example.replace(structure=structure, features={**example.features, "i": x})


def compare(network: Network, examples: Sequence[Example], in_turns: bool) -> dict[str, Any]:
    """Return how many pairs there are, and how many are told apart either way."""
    start = time.process_time()
    classes = torch.tensor(network.kind.classes(examples))
    exact_seconds = time.process_time() - start
    draws = _Draws(examples, network.contestant)
    counts = {"pairs": 0, "exact": 0, "missed": 0, "against": 0}
    for pairs in pairs_of(len(examples), in_turns):
        is_apart = classes[pairs[0]] != classes[pairs[1]]
        equal, left = pairs[:, ~is_apart], pairs[:, is_apart]
        counts["pairs"] += pairs.shape[1]
        counts["exact"] += left.shape[1]
        against = torch.zeros(0, dtype=torch.bool)
        if equal.shape[1]:
            against = draws.apart(equal, 0)
        for seed in range(_DRAWS):
            if left.shape[1]:
                left = left[:, ~draws.apart(left, seed)]
        counts["against"] += int(against.sum())
        counts["missed"] += left.shape[1]
    whole = round(time.process_time() - start, 2)
    return {**counts, "exact_seconds": round(exact_seconds, 2), "seconds": whole}


def table(lines: Sequence[Mapping[str, Any]]) -> str:
    """Return the sums over the parts of every set as a table in Markdown."""
    header = ["set", "network", "pairs", "told apart", "missed", "against", "seconds"]
    rows = [header, ["---"] * len(header)]
    sums: dict[tuple[str, str], dict[str, float]] = {}
    for line in lines:
        own = sums.setdefault((line["set"], line["network"]), dict.fromkeys(_COUNTED, 0))
        for key in _COUNTED:
            own[key] += line[key]
    for (name, network), own in sorted(sums.items(), key=_place):
        rows.append([name, f"`{network}`", *(f"{own[key]:,.0f}" for key in _COUNTED)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


_COUNTED = ("pairs", "exact", "missed", "against", "seconds")


def _place(item: tuple[tuple[str, str], object]) -> tuple[int, int]:
    name, network = item[0]
    return list(SETS).index(name), list(NETWORKS).index(network)


def main(arguments: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Compare, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.agreement")
    parser.add_argument("sets", nargs="*", metavar="SET", help=f"default: {', '.join(SETS)}")
    parser.add_argument("--folder", type=Path, default=os.environ.get("INCIDENCE_DATA"))
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument("--every", type=int, default=1, help="run every so many parts of a set")
    parser.add_argument("--most-nodes", type=int, default=200, help="leave out larger graphs")
    parser.add_argument("--out", type=Path, help="a file for a line for each part")
    given = parser.parse_args(arguments)
    lines = read_lines(given.out)
    known = {(line["set"], line["network"], line["part"]) for line in lines}
    for name in given.sets or SETS:
        for number, (part, examples, in_turns) in enumerate(SETS[name](given.folder)):
            for network in given.networks:
                is_large = max(one.structure.total_nodes for one in examples) > given.most_nodes
                if is_large or number % given.every or (name, network, part) in known:
                    continue
                counts = compare(NETWORKS[network], examples, in_turns)
                line = {"set": name, "network": network, "part": part, **counts}
                lines.append(line)
                append_line(given.out, line)
    print(table(lines))
    print(f"Seconds of CPU time; {record.today()}, {record.machine()}.")
    return lines


if __name__ == "__main__":
    main()
