"""Draw which network is for which data: `./run python examples/choosing_picture.py
docs/choosing.svg`.
"""

import sys
from pathlib import Path

from incidence.plot.picture import Picture
from incidence.plot.scene import Mark, Scene, Style, Text, arrow_head
from incidence.plot.scene import Path as Line
from incidence.plot.theme import LIGHT

LADDER = [
    (
        ["One large structure, with labels", "of some of its nodes or edges?"],
        [("few labels", "diffusion"), ("many labels", "nodes")],
    ),
    (["Ratings to predict,", "or links that are missing?"], [("", "completion")]),
    (["Values that change sign with", "a direction: flows?"], [("", "flows")]),
    (
        ["Molecules?"],
        [("", "molecule"), ("rings count", "molecule-rings"), ("in space", "molecule-3d")],
    ),
    (["Triangle meshes?"], [("", "mesh")]),
    (["Sets of any size?"], [("", "hypergraph")]),
    (["Tables with keys?"], [("", "relational")]),
    (
        ["Graphs where cycles or", "patterns decide?"],
        [("triangles", "triangles"), ("short rings", "rings")],
    ),
    (
        ["Graphs that neighbours", "cannot tell apart?"],
        [("small", "ppgn"), ("small", "subgraph"), ("larger", "local-fgnn")],
    ),
]
LAST = "graph"
LEFT, ASK, ANSWER, WIDE, STEP, GAP = 0.0, 176.0, 236.0, 164.0, 18.0, 16.0


def box(x: float, y: float, wide: float, high: float, fill: str, stroke: str, part: str) -> Line:
    """Return a rectangle."""
    return Line(
        ((x, y), (x + wide, y), (x + wide, y + high), (x, y + high)),
        is_closed=True,
        style=Style(fill=fill, stroke=stroke),
        part=part,
    )


def arrow(x: float, y: float, to: tuple[float, float]) -> list[Mark]:
    """Return a line with a head."""
    style = Style(stroke=LIGHT.line, width=1.2)
    return [
        Line(((x, y), to), style=style),
        Line(arrow_head((x, y), to, 6), is_closed=True, style=Style(fill=LIGHT.line)),
    ]


def rung(question: list[str], answers: list[tuple[str, str]], y: float) -> tuple[float, list[Mark]]:
    """Return a question with its answers, and where the next one begins."""
    high = STEP * max(len(question), len(answers)) + 8
    shapes: list[Mark] = [box(LEFT, y, ASK, high, LIGHT.pale, LIGHT.line, "question")]
    top = y + high / 2 - 6.5 * (len(question) - 1) + 3.5
    shapes += [
        Text(ASK / 2, top + 13 * k, line, 10, "middle", style=Style(fill=LIGHT.ink))
        for k, line in enumerate(question)
    ]
    shapes += [
        *arrow(ASK, y + high / 2, (ANSWER, y + high / 2)),
        box(ANSWER, y, WIDE, high, LIGHT.paper, LIGHT.palette[0], "answer"),
    ]
    shapes.append(
        Text(
            (ASK + ANSWER) / 2, y + high / 2 - 4, "yes", 9, "middle", style=Style(fill=LIGHT.faint)
        )
    )
    first = y + high / 2 - STEP / 2 * (len(answers) - 1) + 3.5
    for k, (when, name) in enumerate(answers):
        shapes += [
            Text(
                ANSWER + 8,
                first + STEP * k,
                name,
                10,
                is_code=True,
                is_bold=True,
                style=Style(fill=LIGHT.ink),
                part=name,
            )
        ]
        shapes += [
            Text(
                ANSWER + WIDE - 6, first + STEP * k, when, 8.5, "end", style=Style(fill=LIGHT.faint)
            )
        ]
    return y + high + GAP, shapes


def draw() -> str:
    """Return the picture as SVG."""
    shapes: list[Mark] = []
    y = 0.0
    for question, answers in LADDER:
        below, drawn = rung(question, answers, y)
        shapes += [*drawn, *arrow(ASK / 2, below - GAP, (ASK / 2, below))]
        shapes.append(Text(ASK / 2 + 5, below - 4.5, "no", 9, style=Style(fill=LIGHT.faint)))
        y = below
    shapes.append(box(LEFT, y, ASK, 26, LIGHT.paper, LIGHT.palette[0], "answer"))
    shapes.append(
        Text(
            ASK / 2,
            y + 17,
            LAST,
            10,
            "middle",
            is_code=True,
            is_bold=True,
            style=Style(fill=LIGHT.ink),
            part=LAST,
        )
    )
    return Picture(Scene.around(shapes, 8), LIGHT, "which network for which data").svg()


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(draw(), encoding="utf-8")
