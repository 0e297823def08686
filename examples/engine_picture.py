"""Draw how a layer `{i j} -> {i j}` computes on a path of three edges: `./run python
examples/engine_picture.py docs/engine.svg`.

Every number and line in the picture comes from the plan and the engine; `docs/engine.md` says it in
words.
"""

import sys
from pathlib import Path

import torch

import incidence as inc
from incidence.engine.plan import plan_of
from incidence.engine.weights import gathered

WIDTH, HEIGHT, ROW = 860, 390, 54
COLUMNS = {"entries": 60, "bags": 280, "after": 500, "out": 760}
WEIGHTS = (2.0, 3.0, 5.0)


def box(x: float, y: float, title: str, value: str, fill: str) -> str:
    return (
        f'<rect x="{x - 46}" y="{y - 18}" width="92" height="36" rx="6" fill="{fill}"'
        f' stroke="#1f4e79"/><text x="{x}" y="{y - 4}" text-anchor="middle" font-size="11"'
        f' fill="#555">{title}</text><text x="{x}" y="{y + 12}" text-anchor="middle" font-size="13"'
        f' fill="#111">{value}</text>'
    )


def line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1 + 46}" y1="{y1}" x2="{x2 - 46}" y2="{y2}" stroke="#7a8ba0"/>'


def head(x: float, text: str) -> str:
    return (
        f'<text x="{x}" y="22" text-anchor="middle" font-size="12" font-weight="bold"'
        f' fill="#1f4e79">{text}</text>'
    )


def draw() -> str:
    structure = inc.Structure(4, {"{i j}": torch.tensor([[0, 1, 2], [1, 2, 3]])})
    layer = inc.nn.Linear("{i j} -> {i j}", 1, 1, bias=False)
    layer.weight.data = torch.tensor(WEIGHTS).view(3, 1, 1)
    x = torch.tensor([[1.0], [10.0], [100.0]])
    y = layer(x, structure)
    [edges] = plan_of(structure, layer.map).inputs
    matrices = gathered(layer._products.matrices([1], [1], x.device), [layer.weight])
    levels = edges.pool(x)
    # one for each level, in order
    products = [(levels[p.source_level], matrices[p.matrix]) for p in layer._products.of_levels]
    pooled, after = torch.cat(levels), torch.cat([rows @ matrix for rows, matrix in products])
    factors = [matrix.item() for rows, matrix in products for _ in rows]
    names = ["structure", *(f"node {v}" for v in range(4))]
    edge_y = [170 + ROW * (k - 1) for k in range(3)]
    bag_y = [60 + ROW * k for k in range(5)]
    parts = [head(COLUMNS["entries"], "entries, x"), head(COLUMNS["bags"], "bags, P = pool of x")]
    parts += [
        head(COLUMNS["after"], "bags, Z = P @ M"),
        head(COLUMNS["out"], "entries, y = read back + 5 x"),
    ]
    for entry, bags in enumerate(edges.of_rows.members.view(3, -1).tolist()):
        for bag in bags:
            parts.append(line(COLUMNS["entries"], edge_y[entry], COLUMNS["bags"], bag_y[bag]))
            parts.append(line(COLUMNS["after"], bag_y[bag], COLUMNS["out"], edge_y[entry]))
    [itself] = layer._products.of_partners
    for at in edge_y:
        curve = (
            f"M {COLUMNS['entries']} {at + 18} C 250 {at + 230}, 570 {at + 230}, {COLUMNS['out']}"
            f" {at + 18}"
        )
        parts.append(
            f'<path d="{curve}" fill="none" stroke="#b03a2e" stroke-dasharray="5 4"'
            ' stroke-opacity="0.6"/>'
        )
    parts.append(
        '<text x="410" y="384" text-anchor="middle" font-size="11" fill="#b03a2e">x'
        f" {matrices[itself.matrices[0]].item():g}</text>"
    )
    for bag, weight in enumerate(factors):
        middle = (COLUMNS["bags"] + COLUMNS["after"]) / 2
        parts.append(line(COLUMNS["bags"], bag_y[bag], COLUMNS["after"], bag_y[bag]))
        parts.append(
            f'<text x="{middle}" y="{bag_y[bag] - 5}" text-anchor="middle" font-size="11"'
            f' fill="#b03a2e">x {weight:g}</text>'
        )
    for entry, (a, b) in enumerate(structure["{i j}"].T.tolist()):
        parts.append(
            box(
                COLUMNS["entries"], edge_y[entry], f"{{{a} {b}}}", f"{x[entry].item():g}", "#eaf2f8"
            )
        )
        parts.append(
            box(COLUMNS["out"], edge_y[entry], f"{{{a} {b}}}", f"{y[entry].item():g}", "#eaf2f8")
        )
    for bag, name in enumerate(names):
        parts.append(box(COLUMNS["bags"], bag_y[bag], name, f"{pooled[bag].item():g}", "#fdf2e9"))
        parts.append(box(COLUMNS["after"], bag_y[bag], name, f"{after[bag].item():g}", "#fdf2e9"))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"'
        f' font-family="sans-serif">{"".join(parts)}</svg>\n'
    )


if __name__ == "__main__":
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "engine.svg")
    path.write_text(draw(), encoding="utf-8")
    print(f"wrote {path}")
