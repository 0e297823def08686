"""Draw the fifteen operations on a node-node matrix as an SVG: `./run python
examples/fifteen_operations.py docs/fifteen.svg`.

Every tile is the matrix of one operation of `i j -> i j` on four nodes: rows are the 16 outputs,
columns the 16 inputs, diagonal entries first. A dark cell says that the output reads that input.
"""

import sys
from pathlib import Path

import incidence as inc

CELL, GAP, COLUMNS = 7, 36, 5


def tile(matrix: list[list[float]], left: int, top: int, title: str) -> str:
    size = CELL * len(matrix)
    cells = [
        f'<rect x="{left + CELL * x}" y="{top + CELL * y}" width="{CELL - 1}" height="{CELL - 1}"/>'
        for y, row in enumerate(matrix)
        for x, value in enumerate(row)
        if value
    ]
    frame = (
        f'<rect x="{left - 1}" y="{top - 1}" width="{size + 1}" height="{size + 1}"'
        ' fill="#f2f4f7"/>'
    )
    label = (
        f'<text x="{left}" y="{top + size + 15}" font-family="monospace" font-size="10"'
        f' fill="#333">{title}</text>'
    )
    return f'{frame}<g fill="#1f4e79">{"".join(cells)}</g>{label}'


def draw() -> str:
    layer = inc.nn.Linear("i j -> i j", 1, 1)
    structure = inc.Structure.complete(4, ["i j"])
    side = CELL * 16 + GAP
    tiles = []
    for number, operation in enumerate(layer.map.operations):
        matrix = layer.operator(number, structure).to_dense().tolist()
        title = inc.algebra.read(operation).formula.replace("sum_", "Σ")
        tiles.append(
            tile(
                matrix, 10 + side * (number % COLUMNS), 10 + (side + 4) * (number // COLUMNS), title
            )
        )
    width, height = 10 + side * COLUMNS, 10 + (side + 4) * 3
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0'
        f' {width} {height}">{"".join(tiles)}</svg>\n'
    )


if __name__ == "__main__":
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "fifteen.svg")
    path.write_text(draw(), encoding="utf-8")
    print(f"wrote {path}")
