"""Operations, orbits and weights as pictures: what is drawn is what the algebra says."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

import incidence as inc
from incidence.algebra import ProductText
from incidence.algebra.composition import orbit_to_pool
from incidence.errors import IncidenceError, TooLargeError
from incidence.plot.theme import DARK, LIGHT
from incidence.plot.weights import Sharing, weight_colours

MAPS = [
    "i j -> i j",
    "i -> ",
    " -> i",
    "{i j} {i k} -> i {j k}",
    "[i j] -> (i j)",
    "u:user m:movie -> u:user",
    "<i j> -> i, <i j k>",
]


def words(picture: inc.plot.Picture, part: str) -> list[str]:
    return [shape.text for shape in picture.scene.of(part)]


@pytest.mark.parametrize("text", MAPS)
def test_a_diagram_has_a_knot_for_every_node_by_what_becomes_of_it(text):
    for operation in inc.EquivariantMap(text).operations:
        picture = inc.plot.operation(operation)
        matched = sum(map(sum, operation.overlap))
        knots = {part: len(picture.scene.of(part)) for part in ("matched", "summed", "copied")}
        sizes = operation.source.orbit.size, operation.target.orbit.size
        assert knots == {
            "matched": matched,
            "summed": sizes[0] - matched,
            "copied": sizes[1] - matched,
        }


@pytest.mark.parametrize("text", MAPS)
def test_a_diagram_has_a_slot_for_every_place_of_every_face(text):
    for operation in inc.EquivariantMap(text).operations:
        picture = inc.plot.operation(operation)
        for part, place in (("input", operation.source), ("output", operation.target)):
            places = sum(len(c.faces) * c.size for c in place.orbit.classes)
            assert len(picture.scene.of(f"{part} slot")) == places
            assert len(picture.scene.of(f"{part} scalar")) == (not place.orbit.kinds)


def test_the_nodes_of_a_slot_and_its_wire_have_the_name_of_the_formula():
    # y[(j i)] = x[(i j)]
    picture = inc.plot.operation(inc.EquivariantMap("(i j) -> (i j)").operations[4])
    assert [shape.hint for shape in picture.scene.of("input slot")] == ["i", "j"]
    assert [shape.hint for shape in picture.scene.of("output slot")] == ["j", "i"]


PRODUCTS = [
    "i j, j k -> i k",
    "(i j), (j k), (i k) -> ",
    "<i j>, j -> i",
    "i, j -> (i j)",
    "i, i -> i j",
    "u:user m:movie, m:movie -> u:user",
]


@pytest.mark.parametrize("text", PRODUCTS)
def test_the_diagram_of_a_product_has_one_knot_for_every_letter_and_a_slot_for_every_place(text):
    product = ProductText(text)
    scene = inc.plot.operation(product).scene
    knots = {part: len(scene.of(part)) for part in ("matched", "summed", "copied")}
    matched = len(product.letters) - len(product.summed) - len(product.copied)
    assert knots == {
        "matched": matched,
        "summed": len(product.summed),
        "copied": len(product.copied),
    }
    names = [
        letter.name
        for pattern in product.operands
        for face in pattern.faces
        for letter in face.letters
    ]
    assert [shape.hint for shape in scene.of("input slot")] == names
    assert [shape.text for shape in scene.of("operand")] == [
        f"x{k + 1}" for k in range(len(product.operands))
    ]


def test_the_wires_of_a_letter_that_two_operands_share_meet_in_one_place():
    scene = inc.plot.operation(ProductText("i j, j k -> i k")).scene
    assert len({shape.points[-1] for shape in scene.of("wire") if shape.hint == "j"}) == 1
    assert [shape.hint for shape in scene.of("wire")].count("j") == 2


def test_the_products_of_a_map_have_the_numbers_and_formulas_of_explain():
    picture, told = (
        inc.plot.operations("{i j} * i -> i"),
        inc.explain("{i j} * i -> i").data()["products"],
    )
    assert words(picture, "formula") == [
        f"{p['number']}  {p['formula'].replace('sum_', 'Σ')}" for p in told
    ]
    assert words(picture, "pair") == ["2 nodes", "3 nodes", "4 nodes"]
    assert (
        words(inc.plot.operations("{i j} * i -> i", which=[2]), "formula")
        == words(picture, "formula")[2:3]
    )


def test_of_a_layer_of_products_only_its_own_are_drawn():
    layer = inc.nn.Multilinear("i * i -> i", 1, 1, products=lambda product: not product.summed)
    assert len(words(inc.plot.operations(layer), "formula")) == len(layer.products) == 1


def test_operations_have_the_numbers_formulas_and_blocks_of_explain():
    picture = inc.plot.operations("i j -> i j")
    told = inc.explain("i j -> i j").data()["blocks"]
    wanted = [
        f"{o['number']}  {o['formula'].replace('sum_', 'Σ')}"
        for block in told
        for o in block["operations"]
    ]
    assert words(picture, "formula") == wanted
    assert words(picture, "count") == [f"{block['count']} operations" for block in told]


def test_of_many_operations_the_first_are_drawn_and_the_rest_counted():
    picture = inc.plot.operations("i j -> i j k", most=10)
    assert [text.split()[0] for text in words(picture, "formula")] == [str(k) for k in range(10)]
    assert words(picture, "note")[0].startswith(
        "and 42 more: plot.operations(map, which=range(10, ...)) draws others"
    )


def test_operations_can_be_chosen_by_number():
    picture = inc.plot.operations("i j -> i j k", which=[50, 3])
    assert [text.split()[0] for text in words(picture, "formula")] == ["3", "50"]
    assert words(picture, "note") == []


def test_of_a_layer_only_its_operations_are_drawn():
    layer = inc.nn.Linear(
        "i j -> i j", 1, 1, operations=lambda operation: sum(map(sum, operation.overlap)) > 0
    )
    numbers = [text.split()[0] for text in words(inc.plot.operations(layer), "formula")]
    assert numbers == [str(k) for k in range(15) if k not in (0, 2, 5, 8)]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "i",
        "{i j} {i k}",
        "i j k",
        "(i j) (j k)",
        "<i j> <j k>",
        "[i j k]",
        "i {i ...}",
        "u:user m:movie",
    ],
)
def test_every_orbit_is_drawn_with_its_nodes(text):
    picture, found = inc.plot.orbits(text), inc.Pattern(text).orbits
    assert len(picture.scene.of("orbit")) == len(found)
    assert len(picture.scene.of("node")) == sum(orbit.size for orbit in found)


def test_a_face_has_one_colour_in_the_text_and_in_the_drawing():
    picture = inc.plot.orbits("i {j k}")
    assert [shape.style.fill for shape in picture.scene.of("face")] == [*LIGHT.palette[:2]] * 2
    assert {shape.style.stroke for shape in picture.scene.of("lone")} == {LIGHT.palette[0]}
    assert {shape.style.stroke for shape in picture.scene.of("set")} == {LIGHT.palette[1]}


@pytest.mark.parametrize(
    "text",
    ["i j -> i j", "i, {i j} -> i, {i j}", "i {i j} -> {i j k}", "{i j} -> ", "(i j) -> {i j}"],
)
def test_the_weights_are_those_of_the_operators(text):
    """The place of a weight is where the indicator of its orbit, put together from the operators of
    the layer, is not 0.
    """
    m = inc.EquivariantMap(text)
    patterns = list(dict.fromkeys(str(p) for p in m.inputs + m.outputs if p.faces))
    structure = inc.Structure.complete(4, patterns)
    sharing = Sharing.of(m, structure)
    drawn = [
        [sharing.at(r, c).number for c in range(len(sharing.columns))]
        for r in range(len(sharing.rows))
    ]
    layer = inc.nn.Linear(m, 1, 1)
    order = [rows_by_orbit(side, structure) for side in (m.outputs, m.inputs)]
    wanted = torch.full((len(drawn), len(drawn[0])), -1)
    for number, operation in enumerate(m.operations):
        terms = orbit_to_pool(m, number).items()
        indicator = sum(value * layer.operator(k, structure).to_dense() for k, value in terms)
        starts = [
            sum(structure.num_entries(p) for p in side[:at])
            for side, at in (
                (m.outputs, operation.target.tensor),
                (m.inputs, operation.source.tensor),
            )
        ]
        rows, columns = indicator.nonzero().T
        wanted[rows + starts[0], columns + starts[1]] = number
    assert drawn == wanted[order[0]][:, order[1]].tolist()


def rows_by_orbit(patterns, structure):
    """The rows of all tensors of a side one after the other, those of a tensor by orbit."""
    start, found = 0, []
    for pattern in patterns:
        parts = inc.structure.arrange.orbit_rows(structure, pattern)
        found += [start + k for rows in parts for k in sorted(rows.tolist())]
        start += structure.num_entries(pattern)
    return found


def test_every_place_has_the_colour_of_its_weight():
    m = inc.EquivariantMap("i j -> i j")
    picture, colours = inc.plot.sharing(m, 4), weight_colours(m, LIGHT)
    cells = picture.scene.of("weight")
    assert len(cells) == 16 * 16
    assert all(shape.style.fill == colours[shape.entry] for shape in cells)
    assert len(set(colours.values())) == 15
    assert [shape.entry for shape in picture.scene.of("key")] == [*range(15)]


@pytest.mark.parametrize("num_nodes", [1, 2, 3, 4])
def test_at_few_nodes_only_the_weights_that_exist_are_drawn(num_nodes):
    picture = inc.plot.sharing("i j -> i j", num_nodes)
    numbers = {shape.entry for shape in picture.scene.of("weight")}
    assert len(numbers) == inc.EquivariantMap("i j -> i j").dimension_at(num_nodes)


def test_signs_of_oriented_faces_are_those_of_the_laplacian():
    """On the complete graph with four nodes, where y reads x from an edge that it meets in one
    node.
    """
    sharing = Sharing.of(inc.EquivariantMap("<i j> -> <i j>"), 4)
    edges = [entry.sets[0] for _, entry in sharing.rows]
    boundary = torch.zeros(4, 6)
    for k, (tail, head) in enumerate(edges):
        boundary[tail, k], boundary[head, k] = -1, 1
    found = torch.zeros(6, 6)
    for r in range(6):
        for c in range(6):
            weight = sharing.at(r, c)
            found[r, c] = 0 if weight is None else weight.sign * (2 if weight.number == 1 else 1)
    assert torch.equal(found, boundary.T @ boundary)
    assert len(inc.plot.sharing("<i j> -> <i j>", 4).scene.of("minus")) == int((found < 0).sum())


def test_a_nested_picture_has_a_field_for_every_output_and_a_place_for_every_input():
    edges = torch.tensor([[0, 0, 1], [1, 2, 2]])
    graph = inc.Structure(3, {"{i j}": edges}).with_pattern("i {i j}")
    picture = inc.plot.sharing("i {i j} -> i {i j}", graph, nested=True)
    assert len(picture.scene.of("field")) == 6
    assert len(picture.scene.of("weight")) == 36
    assert words(picture, "column") == ["{0 1}", "{0 2}", "{1 2}"]


@pytest.mark.parametrize(
    "make",
    [
        lambda t: inc.plot.operations("i j -> i j", theme=t),
        lambda t: inc.plot.sharing("i -> i", 2, theme=t),
    ],
)
def test_texts_stand_out_from_the_paper_in_both_themes(make):
    for theme in (LIGHT, DARK):
        inks = {
            shape.style.fill
            for shape in make(theme.name).scene.shapes
            if hasattr(shape, "text") and shape.part == "formula"
        }
        assert inks == {theme.ink}
        assert contrast(theme.ink, theme.paper) > 7
        assert contrast(theme.faint, theme.paper) > 4.5


def contrast(one: str, other: str) -> float:
    """The contrast of two colours, by the rule of the WCAG."""

    def light(colour: str) -> float:
        parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2] + 0.05

    bright, dark = sorted((light(one), light(other)), reverse=True)
    return bright / dark


def test_pictures_of_the_algebra_need_neither_torch_nor_numpy_nor_matplotlib():
    code = (
        "import sys; sys.modules['torch'] = sys.modules['numpy'] = sys.modules['matplotlib'] ="
        " None\nfrom incidence import plot; import incidence as inc\none ="
        " plot.operation(inc.EquivariantMap('i -> ').operations[0])\npictures = one,"
        " plot.operations('i j -> i'), plot.orbits('i j'), plot.sharing('i -> i',"
        " 3)\nprint([picture.svg()[:4] for picture in pictures])"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == str(["<svg"] * 4)


@pytest.mark.parametrize(
    ("draw", "said"),
    [
        (
            lambda: inc.plot.operation("i -> i"),
            r"draws a ProductText, or an Operation, as in .*operations\[0\]; got str",
        ),
        (lambda: inc.plot.operations("i -> i", which=[2]), "are numbered 0 to 1; got 2"),
        (lambda: inc.plot.operations(3), "a map is an EquivariantMap or its text; got int"),
        (lambda: inc.plot.orbits(3), "draws a Pattern or its text; got int"),
        (
            lambda: inc.plot.sharing("{i ...} -> i", 3),
            "has open faces, so there are infinitely many weights",
        ),
        (
            lambda: inc.plot.sharing("i -> i", 3, nested=True),
            "nested=True is for maps of one matrix to one",
        ),
    ],
)
def test_what_cannot_be_drawn_is_refused(draw, said):
    with pytest.raises(IncidenceError, match=said):
        draw()


@pytest.mark.parametrize(
    ("draw", "said"),
    [
        (
            lambda: inc.plot.orbits("i j k l m n"),
            "has 203 orbits; at most 120 are drawn. Print pattern.orbits",
        ),
        (
            lambda: inc.plot.sharing("i j k -> i j k", 9),
            "729 x 729 places; at most 40,000 are drawn. Take fewer nodes",
        ),
        (
            lambda: inc.plot.sharing("i j k -> i j k", inc.Structure.complete(9, ["i j k"])),
            "729 x 729 places",
        ),
    ],
)
def test_what_is_too_large_says_what_to_do(draw, said):
    with pytest.raises(TooLargeError, match=said):
        draw()
