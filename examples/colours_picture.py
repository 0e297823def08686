"""Draw two graphs with the colours that networks see, layer by layer: `./run python
examples/colours_picture.py docs/guides/colours.svg`.
"""

import sys
from pathlib import Path

import incidence as inc
from incidence.expressive import Expressivity

ONE = [[0, 1, 2, 3, 4, 2], [1, 2, 3, 4, 5, 6]]  # a path with a node beside its middle
OTHER = [[0, 1, 2, 3, 4, 1], [1, 2, 3, 4, 5, 6]]  # the same node, one place further left


def result() -> Expressivity:
    """Return what layers on nodes and edges tell apart of the two."""
    graphs = [inc.geometry.graph(edges, num_nodes=7) for edges in (ONE, OTHER)]
    return inc.expressivity("i, {i j} -> i, {i j}", graphs, operations="local")


def draw() -> str:
    """Return the picture as SVG."""
    e = result()
    options = {"layout": "force", "size": 130, "legend": False, "title": ""}
    panels = [inc.plot.colours(e, layer=k, **options) for k in range(4)]
    titles = ["at the start", "after 1 layer", "after 2 layers", "after 3 layers"]
    return inc.plot.grid(panels, titles, columns=2)._repr_svg_()


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(draw(), encoding="utf-8")
