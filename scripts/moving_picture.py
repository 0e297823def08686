"""Draw the moving picture of the README: `./run python scripts/moving_picture.py docs/moving.svg`.

It shows the four operations from nodes and edges to nodes, one after the other. Values travel from
the input to where they are pooled, and from there to the nodes that read them. Which values travel
where, and the colours of the results, are computed by the layer.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from html import escape
from pathlib import Path

import torch

import incidence as inc
from incidence.plot.theme import LIGHT, between

MAP = "i, {i j} -> i"
POINTS = torch.tensor([[0.0, 150.0], [130.0, 150.0], [130.0, 55.0], [0.0, 55.0], [65.0, 0.0]])
EDGES = [[0, 1, 2, 3, 0, 3, 2], [1, 2, 3, 0, 2, 4, 4]]
NODE_VALUES = [0.9, 0.2, 0.6, 0.4, 0.1]
EDGE_VALUES = [0.3, 0.8, 0.1, 0.6, 0.9, 0.2, 0.5]
WORDS = [
    "the sum over all nodes, copied to every node",
    "every node itself",
    "the sum over all edges, copied to every node",
    "at every node, the sum over its edges",
]
LEFT, MIDDLE, RIGHT = 55.0, 345.0, 635.0  # where the three copies of the structure begin
TOP = 62.0
SECONDS = 4.0  # for each operation


def structure() -> inc.Structure:
    """Return a house of five nodes and seven edges."""
    return inc.Structure(5, {"{i j}": EDGES})


def keyframes(number: int, count: int) -> str:
    """Return the CSS that moves what belongs to one of `count` operations."""

    def at(share: float) -> str:
        return f"{100 * (number + share) / count:.2f}%"

    start, end = at(0), at(1)
    hidden_before = "" if number == 0 else f"0%,{start}{{opacity:0}}"
    shown = f"{hidden_before}{at(0.03)},{at(0.96)}{{opacity:1}}{end},100%{{opacity:0}}"
    moved = "transform:translate(var(--x),var(--y))"
    return (
        f"@keyframes on{number}{{{shown}}}"
        f"@keyframes pool{number}{{0%,{at(0.05)}{{opacity:0;transform:none}}"
        f"{at(0.08)}{{opacity:1;transform:none}}{at(0.38)}{{opacity:1;{moved}}}"
        f"{at(0.40)},100%{{opacity:0;{moved}}}}}"
        f"@keyframes key{number}{{0%,{at(0.34)}{{opacity:0}}{at(0.42)},{at(0.9)}{{opacity:1}}"
        f"{end},100%{{opacity:0}}}}"
        f"@keyframes copy{number}{{0%,{at(0.46)}{{opacity:0;transform:none}}"
        f"{at(0.49)}{{opacity:1;transform:none}}{at(0.79)}{{opacity:1;{moved}}}"
        f"{at(0.81)},100%{{opacity:0;{moved}}}}}"
        f"@keyframes out{number}{{0%,{at(0.75)}{{opacity:0}}{at(0.83)},{at(0.97)}{{opacity:1}}"
        f"{end},100%{{opacity:0}}}}"
    )


def style(count: int) -> str:
    """Return the style sheet; a reader who wants no motion sees the last operation."""
    names = {"w": "on", "k": "key", "o": "out", "p": "pool", "c": "copy"}
    moves = []
    for number in range(count):
        for letter, name in names.items():
            moves.append(
                f".moving .{letter}{number}"
                f"{{animation:{name}{number} {SECONDS * count:g}s infinite ease-in-out}}"
            )
        moves.append(keyframes(number, count))
    hidden = ".moving .w,.moving .k,.moving .o,.moving .p{opacity:0}.moving .last{opacity:1}"
    motion = "@media (prefers-reduced-motion:no-preference)"
    return f"<style>{hidden}{motion}{{{''.join(moves)}}}</style>"


def colour(value: float, largest: float) -> str:
    """Return the colour of a value between 0 and the largest one."""
    return between(LIGHT.sequence, 0.9 * value / largest)


def dot(point: torch.Tensor, x: float, fill: str, radius: float, more: str = "") -> str:
    """Return a disc at a point of the structure that begins at x."""
    at = f'cx="{point[0] + x:g}" cy="{point[1] + TOP:g}"'
    return f'<circle {at} r="{radius:g}" fill="{fill}"{more}/>'


def frame(x: float, title: str) -> str:
    """Return the edges and the title of one copy of the structure."""
    lines = "".join(
        f"M{POINTS[i][0] + x:g} {POINTS[i][1] + TOP:g}L{POINTS[j][0] + x:g} {POINTS[j][1] + TOP:g}"
        for i, j in zip(*EDGES, strict=True)
    )
    return (
        f'<path d="{lines}" stroke="{LIGHT.line}" stroke-width="1.3" opacity="0.55"/>'
        f'<text x="{x + 65:g}" y="28" text-anchor="middle" fill="{LIGHT.faint}">{title}</text>'
    )


def flight(kind: str, number: int, start: torch.Tensor, end: torch.Tensor, fill: str) -> str:
    """Return a dot that travels from one point to another."""
    moved = end - start
    more = f' class="p {kind}{number}" style="--x:{moved[0]:g}px;--y:{moved[1]:g}px"'
    return f'<circle cx="{start[0]:g}" cy="{start[1]:g}" r="5.5" fill="{fill}"{more}/>'


def operation(number: int, count: int, s: inc.Structure) -> Iterator[str]:
    """Draw what one operation reads, pools and writes."""
    layer = inc.nn.Linear(MAP, 1, 1, bias=False)
    found = layer.map.operations[number]
    reads_nodes = found.source.tensor == 0
    values = torch.tensor(NODE_VALUES if reads_nodes else EDGE_VALUES)
    places = POINTS if reads_nodes else POINTS[torch.tensor(EDGES)].mean(0)
    matrix = layer.operator(number, s).to_dense().float()  # (5 nodes, entries that are read)
    results = matrix @ values

    pools_all = not any(map(any, found.overlap))
    keys = POINTS.mean(0)[None] if pools_all else POINTS
    reads = torch.ones(1, len(values)) if pools_all else matrix  # (keys, entries that are read)
    pooled = reads @ values
    corner = torch.tensor([[LEFT, TOP], [MIDDLE, TOP], [RIGHT, TOP]])
    for key, entry in reads.nonzero().tolist():
        start, end = places[entry] + corner[0], keys[key] + corner[1]
        yield flight("p", number, start, end, colour(float(values[entry]), 1.0))
    largest = float(pooled.max())
    is_last = " last" if number == count - 1 else ""
    for key, value in enumerate(pooled.tolist()):
        shown = f' class="k k{number}{is_last}" stroke="{LIGHT.ink}" stroke-width="1"'
        yield dot(keys[key], MIDDLE, colour(value, largest), 15 if pools_all else 9, shown)
    for node in range(5):
        key = 0 if pools_all else node
        start, end = keys[key] + corner[1], POINTS[node] + corner[2]
        yield flight("c", number, start, end, colour(float(pooled[key]), largest))
    for node, value in enumerate(results.tolist()):
        shown = f' class="o o{number}{is_last}"'
        yield dot(POINTS[node], RIGHT, colour(value, largest), 13, shown)
    formula = escape(str(found).partition(":")[0])
    yield (
        f'<text class="w w{number}{is_last}" x="410" y="262" text-anchor="middle"'
        f' fill="{LIGHT.ink}"><tspan font-family="DejaVu Sans Mono, Menlo, monospace"'
        f' fill="{LIGHT.palette[0]}">{formula}</tspan>'
        f'<tspan dx="18">{WORDS[number]}</tspan></text>'
    )


def draw() -> str:
    """Return the picture as SVG."""
    s = structure()
    count = inc.EquivariantMap(MAP).dimension
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 820 285" width="820" height="285"'
        ' class="moving" role="img" font-family="DejaVu Sans, Verdana, sans-serif" font-size="15">',
        f"<title>The four operations of {escape(MAP)}: pool, then copy</title>",
        style(count),
        f'<rect width="820" height="285" rx="8" fill="{LIGHT.paper}"/>',
        '<g fill="none">',
        frame(LEFT, "nodes and edges in"),
        frame(MIDDLE, "pool"),
        frame(RIGHT, "nodes out"),
        "</g>",
    ]
    parts += [dot(POINTS[k], RIGHT, LIGHT.pale, 13, f' stroke="{LIGHT.line}"') for k in range(5)]
    middles = POINTS[torch.tensor(EDGES)].mean(0)
    parts += [dot(p, LEFT, colour(v, 1.0), 6) for p, v in zip(middles, EDGE_VALUES, strict=True)]
    parts += [dot(p, LEFT, colour(v, 1.0), 13) for p, v in zip(POINTS, NODE_VALUES, strict=True)]
    for number in range(count):
        parts += operation(number, count, s)
    return "\n".join([*parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(draw(), encoding="utf-8")
