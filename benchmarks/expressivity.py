r"""What presets tell apart of BREC, decided exactly: `python -m benchmarks.expressivity --folder
DATA`.

Nothing is trained, and no weights are drawn. For every preset, networks of any depth with its
tensors and products see each of the 400 pairs of graphs. The output is a table in Markdown, with a
row for each preset, and a line in JSON for each group of pairs on the way.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import incidence as inc
from benchmarks.sets import load
from incidence.data.lifts import lift_all
from incidence.models import find_preset
from incidence.structure import Example, collate

__all__ = ["GROUPS", "KINDS", "Kind", "main", "read_pairs", "table"]

GROUPS = {"basic": 60, "regular": 50, "extension": 100, "cfi": 100, "4vtx": 20, "dr": 20, "str": 50}
"""The groups of BREC, and how many pairs each has."""


@dataclass(frozen=True)
class Kind:
    """A kind of networks.

    Attributes:
        preset: A preset: its tensors, products and aggregation.
        options: Options of its lift.
        most_nodes: Pairs of graphs with more nodes are left out.
        most_edges: Pairs of graphs with more edges are left out.
    """

    preset: str
    options: Mapping[str, Any] = field(default_factory=dict)
    most_nodes: int = 200
    most_edges: int = 1000

    def runs(self, pair: Sequence[Example]) -> bool:
        """Return whether a pair is small enough."""
        structure = pair[0].structure
        has_few_edges = structure.num_entries("{i j}") <= self.most_edges
        return structure.total_nodes <= self.most_nodes and has_few_edges

    def separates(self, pair: Sequence[Example]) -> bool:
        """Return whether some network of this kind tells two graphs apart."""
        preset = find_preset(self.preset)
        examples = lift_all(list(pair), preset.lift, **self.options)
        settings = preset.settings
        sides = [preset.inputs, settings.get("through") or preset.inputs]
        tensors = [p for side in sides for p in inc.EquivariantMap(f"{side} -> ").inputs]
        text = ", ".join(map(str, dict.fromkeys(tensors)))
        e = inc.expressivity(
            f"{text} -> {text}",
            collate(examples),
            products=settings.get("products", ()),
            aggr=settings.get("aggr", "sum"),
            max_overlap=settings.get("max_overlap"),
        )
        return e.separates(0, 1)


KINDS: dict[str, Kind] = {
    "`graph`": Kind("graph"),
    "`triangles`": Kind("triangles"),
    "`rings`, up to 6 nodes": Kind("rings", {"max_size": 6}, most_edges=800),
    "`rings`, up to 8 nodes": Kind("rings", {"max_size": 8}, most_edges=120),
    "`subgraph`": Kind("subgraph", most_nodes=100),
    "`local-fgnn`, 2 steps": Kind("local-fgnn", {"k": 2}, most_nodes=100),
    "`ppgn`": Kind("ppgn", most_nodes=100),
    "`order3`": Kind("order3", {"features": True}, most_nodes=24),
}


def read_pairs(folder: Path | None, group: str) -> list[tuple[Example, Example]]:
    """Return the pairs of a group."""
    graphs = load("brec", folder=folder, group=group).examples
    return list(zip(graphs[::2], graphs[1::2], strict=True))


def measured(kind: Kind, pairs: Sequence[tuple[Example, Example]]) -> dict[str, Any]:
    """Return how many pairs are told apart, how many were small enough to run, and the time."""
    start = time.process_time()
    small = [pair for pair in pairs if kind.runs(pair)]
    apart = sum(kind.separates(pair) for pair in small)
    seconds = round(time.process_time() - start, 1)
    return {"apart": apart, "run": len(small), "pairs": len(pairs), "seconds": seconds}


def table(results: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> str:
    """Return the results as a table in Markdown."""
    header = ["preset", *GROUPS, "all", "seconds"]
    rows = [header, ["---"] * len(header)]
    for name, groups in results.items():
        cells = [_cell(groups[group]) for group in GROUPS]
        total = sum(own["apart"] for own in groups.values())
        run = sum(own["run"] for own in groups.values())
        whole = f"**{total}**" if run == sum(GROUPS.values()) else f"{total} of {run}"
        seconds = sum(own["seconds"] for own in groups.values())
        rows.append([name, *cells, whole, f"{seconds:.0f}"])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _cell(own: Mapping[str, Any]) -> str:
    if not own["run"]:
        return "-"
    return str(own["apart"]) if own["run"] == own["pairs"] else f"{own['apart']} of {own['run']}"


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.expressivity")
    parser.add_argument("--folder", type=Path, default=os.environ.get("INCIDENCE_DATA"))
    parser.add_argument("--every", type=int, default=1, help="run every so many pairs (default 1)")
    parser.add_argument("--kinds", nargs="+", default=[], help="presets (default: all)")
    parser.add_argument("--most-nodes", type=int, default=200, help="leave out larger graphs")
    given = parser.parse_args(arguments)
    pairs = {group: read_pairs(given.folder, group)[:: given.every] for group in GROUPS}
    results: dict[str, dict[str, Any]] = {}
    for name, kind in KINDS.items():
        if given.kinds and kind.preset not in given.kinds:
            continue
        limit = min(kind.most_nodes, given.most_nodes)
        kind = replace(kind, most_nodes=limit)
        results[name] = {}
        for group, own in pairs.items():
            results[name][group] = line = measured(kind, own)
            print(json.dumps({"kind": name, "group": group, **line}), file=sys.stderr, flush=True)
    print(table(results))
    return results


if __name__ == "__main__":
    main()
