r"""What presets tell apart of BREC, decided exactly: `python -m benchmarks.expressivity --folder
DATA --out FILE`.

Nothing is trained, and no weights are drawn. For every preset, networks of any depth with its
tensors and products see each of the 400 pairs of graphs. FILE gets a line in JSON for every pair
and preset as soon as it is decided. Pairs that have a line there are not run again, so the command
goes on where it was interrupted, and several of them may share the work. The output is a table in
Markdown of all lines.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import incidence as inc
from benchmarks import record, triples
from benchmarks.sets import load
from incidence.data.lifts import lift_all
from incidence.errors import TooLargeError
from incidence.models import find_preset
from incidence.structure import Example, Structure, collate

__all__ = [
    "GROUPS",
    "KINDS",
    "Kind",
    "Verdict",
    "append_line",
    "decided",
    "main",
    "read_lines",
    "read_pairs",
    "table",
]

GROUPS = {"basic": 60, "regular": 50, "extension": 100, "cfi": 100, "4vtx": 20, "dr": 20, "str": 50}
"""The groups of BREC, and how many pairs each has."""

_MOST_KEYS = 150_000_000  # sets of up to two nodes that the faces of both graphs contain


class Verdict(NamedTuple):
    """What was decided of a pair.

    Attributes:
        is_apart: Whether some network tells the two apart; None if it was not decided.
        entries: The entries of both graphs after the lift, of all tensors.
        why: Why it was not decided.
    """

    is_apart: bool | None
    entries: int
    why: str = ""


@dataclass(frozen=True)
class Kind:
    """A kind of networks.

    Attributes:
        preset: A preset: its tensors, products and aggregation.
        options: Options of its lift.
        most_listed: Graphs with more nodes are decided by `benchmarks.triples`. This is for layers
            on all triples, and for products over all pairs: oblivious 3-WL and folklore 2-WL tell
            the same graphs apart (Cai, Fürer and Immerman, 1992).
        includes: A kind whose tensors this one has, too. Networks can ignore larger rings, whose
            features tell their size, so pairs that it tells apart are not run again.
    """

    preset: str
    options: Mapping[str, Any] = field(default_factory=dict)
    most_listed: int = 10_000
    includes: str = ""

    def judge(self, pair: Sequence[Example]) -> Verdict:
        """Decide whether some network of this kind tells two graphs apart."""
        if pair[0].structure.total_nodes > self.most_listed:
            return by_triples([one.structure for one in pair])
        try:
            batch = self._lifted(pair)
        except TooLargeError as error:
            return Verdict(None, 0, str(error))
        structure = batch.structure
        entries = sum(structure.num_entries(p) for p in structure.patterns)
        keys = num_keys(structure)
        if keys > _MOST_KEYS:
            why = f"{entries:,} entries, with {keys:,} nodes and pairs of nodes in them"
            return Verdict(None, entries, why)
        return Verdict(self._decided(batch).separates(0, 1), entries)

    def classes(self, examples: Sequence[Example]) -> tuple[int, ...]:
        """Return equal numbers for graphs that no network of this kind tells apart."""
        return self._decided(self._lifted(examples)).classes

    def _lifted(self, examples: Sequence[Example]) -> Example:
        return collate(lift_all(list(examples), find_preset(self.preset).lift, **self.options))

    def _decided(self, batch: Example) -> inc.expressive.Expressivity:
        preset = find_preset(self.preset)
        settings = preset.settings
        sides = [preset.inputs, settings.get("through") or preset.inputs]
        tensors = [p for side in sides for p in inc.EquivariantMap(f"{side} -> ").inputs]
        text = ", ".join(map(str, dict.fromkeys(tensors)))
        return inc.expressivity(
            f"{text} -> {text}",
            batch,
            products=settings.get("products", ()),
            aggr=settings.get("aggr", "sum"),
            max_overlap=settings.get("max_overlap"),
        )


def by_triples(graphs: Sequence[Structure]) -> Verdict:
    """Decide for networks that are as strong as oblivious 3-WL."""
    matrices = [np.zeros((one.total_nodes,) * 2, dtype=bool) for one in graphs]
    for own, graph in zip(matrices, graphs, strict=True):
        first, second = graph["{i j}"].numpy()
        own[first, second] = own[second, first] = True
    is_apart, _ = triples.tell_apart(*matrices)
    return Verdict(is_apart, sum(len(own) ** 3 + len(own) ** 2 for own in matrices))


def num_keys(structure: Structure) -> int:
    """Return how many nodes and pairs of nodes faces of mixed size contain, each face alone."""
    total = 0
    for pattern in structure.patterns:
        for _, entries in structure.index(pattern)[1:]:
            sizes = entries.bincount()
            total += int((sizes * (sizes + 1) // 2).sum())
    return total


KINDS: dict[str, Kind] = {
    "`graph`": Kind("graph"),
    "`triangles`": Kind("triangles"),
    "`rings`, up to 5 nodes": Kind("rings", {"max_size": 5}),
    "`rings`, up to 6 nodes": Kind("rings", {"max_size": 6}, includes="`rings`, up to 5 nodes"),
    "`rings`, up to 8 nodes": Kind("rings", {"max_size": 8}, includes="`rings`, up to 6 nodes"),
    "`subgraph`": Kind("subgraph"),
    "`local-fgnn`, 2 steps": Kind("local-fgnn", {"k": 2}),
    "`ppgn`": Kind("ppgn", most_listed=90),
    "`order3`": Kind("order3", {"features": True}, most_listed=20),
}


def read_pairs(folder: Path | None, group: str) -> list[tuple[Example, Example]]:
    """Return the pairs of a group."""
    graphs = load("brec", folder=folder, group=group).examples
    return list(zip(graphs[::2], graphs[1::2], strict=True))


Line = dict[str, Any]
"""One pair and one kind: `kind`, `group`, `pair`, `apart`, `entries`, `why`, `seconds`."""


def decided(
    name: str,
    kind: Kind,
    group: str,
    pairs: Mapping[int, Sequence[Example]],
    known: Iterable[Line] = (),
) -> Iterator[Line]:
    """Yield a line for every pair of a group, from the smallest graphs to the largest."""
    included = {
        line["pair"]: line
        for line in known
        if (line["kind"], line["group"]) == (kind.includes, group) and line["apart"]
    }

    def size(number: int) -> tuple[int, int]:
        structure = pairs[number][0].structure
        return structure.total_nodes, structure.num_entries("{i j}")

    for number in sorted(pairs, key=size):
        start = time.process_time()
        if number in included:
            yield {**included[number], "kind": name, "seconds": 0.0}
            continue
        verdict = kind.judge(pairs[number])
        yield {
            "kind": name,
            "group": group,
            "pair": number,
            "nodes": size(number)[0],
            "apart": verdict.is_apart,
            "entries": verdict.entries,
            **({"why": verdict.why} if verdict.why else {}),
            "seconds": round(time.process_time() - start, 2),
        }


def table(lines: Iterable[Line]) -> str:
    """Return the results as a table in Markdown, with the pairs of which none was decided."""
    cells: dict[str, dict[str, list[Line]]] = {}
    for line in lines:
        cells.setdefault(line["kind"], {}).setdefault(line["group"], []).append(line)
    header = ["preset", *GROUPS, "all", "seconds"]
    rows = [header, ["---"] * len(header)]
    for name in sorted(cells, key=[*KINDS, *cells].index):
        groups = cells[name]
        every = [line for own in groups.values() for line in own]
        whole = _counted(every, sum(GROUPS.values()))
        seconds = sum(line["seconds"] for line in every)
        own_cells = [_counted(groups.get(group, []), GROUPS[group]) for group in GROUPS]
        rows.append([name, *own_cells, f"**{whole}**", f"{seconds:,.0f}"])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _counted(lines: Sequence[Line], pairs: int) -> str:
    run = [line for line in lines if line["apart"] is not None]
    apart = sum(line["apart"] for line in run)
    if not run:
        return "-"
    return str(apart) if len(run) == pairs else f"{apart} of {len(run)}"


def read_lines(path: Path | None) -> list[Line]:
    """Return the lines of a file; none if there is no file."""
    if path is None or not path.is_file():
        return []
    return [json.loads(row) for row in path.read_text(encoding="utf-8").splitlines()]


def main(arguments: Sequence[str] | None = None) -> list[Line]:
    """Decide all pairs, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.expressivity")
    parser.add_argument("--folder", type=Path, default=os.environ.get("INCIDENCE_DATA"))
    parser.add_argument("--every", type=int, default=1, help="run every so many pairs (default 1)")
    parser.add_argument("--kinds", nargs="+", default=[], help="presets (default: all)")
    parser.add_argument("--groups", nargs="+", choices=GROUPS, default=list(GROUPS))
    parser.add_argument("--most-nodes", type=int, default=200, help="leave out larger graphs")
    parser.add_argument("--out", type=Path, help="a file for a line for each pair")
    given = parser.parse_args(arguments)
    lines = read_lines(given.out)
    for name, kind in KINDS.items():
        if given.kinds and kind.preset not in given.kinds:
            continue
        for group in given.groups:
            known = {
                line["pair"] for line in lines if (line["kind"], line["group"]) == (name, group)
            }
            listed = dict(enumerate(read_pairs(given.folder, group)))
            wanted = {
                number: pair
                for number, pair in listed.items()
                if number % given.every == 0
                and number not in known
                and pair[0].structure.total_nodes <= given.most_nodes
            }
            for line in decided(name, kind, group, wanted, tuple(lines)):
                lines.append(line)
                append_line(given.out, line)
    print(table(lines))
    for line in lines:
        if line["apart"] is None:
            print(f"not decided: {line['kind']} {line['group']} {line['pair']}: {line['why']}")
    print(f"Seconds of CPU time; {record.today()}, {record.machine()}.")
    return lines


def append_line(path: Path | None, line: Line) -> None:
    """Print a line, and add it to a file if there is one."""
    text = json.dumps(line)
    print(text, file=sys.stderr, flush=True)
    if path is not None:
        with path.open("a", encoding="utf-8") as file:
            file.write(text + "\n")


if __name__ == "__main__":
    main()
