"""Pictures of structures: what is drawn, where, and in which colours."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest
import torch

import incidence as inc
from incidence.errors import IncidenceError, TooLargeError
from incidence.plot.theme import LIGHT, between

PATH = inc.Structure(4, {"{i j}": torch.tensor([[0, 1, 2], [1, 2, 3]])})


def fills(picture: inc.plot.Picture, part: str) -> list[str | None]:
    """The colours of the entries of a part, in the order of the entries."""
    return [
        shape.style.fill or shape.style.stroke
        for shape in sorted(picture.scene.of(part), key=lambda shape: shape.entry)
    ]


def test_every_node_edge_and_face_of_a_solid_is_drawn_once():
    ball = inc.geometry.named("soccer ball")
    picture = inc.plot.structure(ball, layout=inc.geometry.coordinates("soccer ball"))
    counts = {"node": 60, "{i j}": 90, "rank2": 32}
    assert {part: sorted(shape.entry for shape in picture.scene.of(part)) for part in counts} == {
        p: [*range(n)] for p, n in counts.items()
    }


def test_a_polygon_runs_along_the_edges_of_its_face():
    cube = inc.geometry.named("cube")
    picture = inc.plot.structure(cube, layout=inc.geometry.coordinates("cube"))
    places = {shape.entry: (shape.x, shape.y) for shape in picture.scene.of("node")}
    edges = {frozenset((places[a], places[b])) for a, b in cube["{i j}"].T.tolist()}
    for face in picture.scene.of("rank2"):
        assert {
            frozenset(pair)
            for pair in zip(face.points, face.points[1:] + face.points[:1], strict=True)
        } <= edges


def test_what_is_nearer_in_space_is_drawn_later():
    picture = inc.plot.structure(
        inc.geometry.named("cube"), layout=inc.geometry.coordinates("cube"), view=(0.0, 0.0)
    )
    order = [shape.entry for shape in picture.scene.of("node")]
    towards = inc.geometry.coordinates("cube")[:, 0]
    assert [towards[k].item() for k in order] == sorted(towards.tolist())


@pytest.mark.parametrize("text", ["i", "{i j}"])
def test_numbers_are_colours_of_one_scale(text):
    x = torch.linspace(1, 3, PATH.num_entries(text))
    picture = inc.plot.structure(PATH, {text: x})
    wanted = [between(LIGHT.sequence, (v - 1) / 2) for v in x.tolist()]
    assert fills(picture, {"i": "node"}.get(text, text)) == wanted


def test_classes_of_a_tensor_without_entries_have_a_legend():
    empty = inc.Structure(2, {"{i j}": torch.zeros(2, 0, dtype=torch.long)})
    picture = inc.plot.structure(empty, {"{i j}": torch.zeros(0, dtype=torch.long)})
    assert picture.scene.of("legend")[0].text == "{i j}"


def test_integers_are_classes_with_a_key_each():
    picture = inc.plot.structure(PATH, {"i": torch.tensor([7, 3, 7, 3])})
    assert fills(picture, "node") == [LIGHT.palette[k] for k in (1, 0, 1, 0)]
    assert [shape.text for shape in picture.scene.of("legend") if hasattr(shape, "text")] == [
        "nodes",
        "3",
        "7",
    ]


def test_numbers_on_both_sides_of_zero_have_the_middle_colour_at_zero():
    picture = inc.plot.structure(PATH, torch.tensor([-1.0, 0.0, 2.0, float("nan")]))
    middle = LIGHT.diverging[len(LIGHT.diverging) // 2]
    assert fills(picture, "node")[1:] == [middle, LIGHT.diverging[-1], LIGHT.pale]


def test_the_nodes_of_a_hyperedge_lie_in_its_region_and_no_others():
    sets = [[0, 1, 2], [2, 3], [3, 4, 5, 6], [6, 7, 8], [8, 0]]
    hypergraph = inc.geometry.hypergraph(sets, 9)
    picture = inc.plot.structure(hypergraph)
    places = [
        (shape.x, shape.y)
        for shape in sorted(picture.scene.of("node"), key=lambda shape: shape.entry)
    ]
    members = [set() for _ in sets]
    for node, entry in hypergraph["{i ...}"].T.tolist():
        members[entry].add(node)
    for region in picture.scene.of("{i ...}"):
        assert {v for v, place in enumerate(places) if is_inside(region.points, place)} == members[
            region.entry
        ]


def is_inside(corners, point):
    sides = zip(corners, corners[1:] + corners[:1], strict=True)
    return all(
        (bx - ax) * (point[1] - ay) - (by - ay) * (point[0] - ax) >= 0
        for (ax, ay), (bx, by) in sides
    )


def test_tables_have_a_column_for_each_sort():
    table = inc.geometry.table({"user": [0, 1, 1, 2], "movie": ["a", "a", "b", "b"]}).structure
    picture = inc.plot.structure(table)
    xs = [
        sum(x for x, _ in shape.points_around()) / 2
        for shape in sorted(picture.scene.of("node"), key=lambda shape: shape.entry)
    ]
    assert len({round(x, 3) for x in xs[:2]}) == len({round(x, 3) for x in xs[2:]}) == 1
    assert xs[0] != pytest.approx(xs[2])
    assert len(picture.scene.of("a:user b:movie")) == 4


def test_directed_edges_end_in_a_head_and_undirected_ones_do_not():
    arcs = inc.Structure(3, {"(i j)": torch.tensor([[0, 1, 1], [1, 0, 2]])})
    assert len(inc.plot.structure(arcs).scene.of("(i j) head")) == 3
    assert inc.plot.structure(PATH).scene.of("{i j} head") == []


def test_entries_of_several_faces_join_the_middles_of_their_faces():
    meeting = PATH.with_pattern("i {i j}")
    picture = inc.plot.structure(meeting, {"i {i j}": torch.arange(6.0)})
    places = {shape.entry: (shape.x, shape.y) for shape in picture.scene.of("node")}
    [first] = [shape for shape in picture.scene.of("i {i j}") if shape.entry == 0]
    node, *edge = meeting["i {i j}"][:, 0].tolist()
    middle = tuple((places[node][c] + places[edge[0]][c]) / 2 for c in (0, 1))
    assert first.points == (places[node], pytest.approx(middle))


def test_a_batch_is_a_grid_and_says_what_is_left_out():
    picture = inc.plot.structure(inc.collate([PATH] * 5), torch.arange(20.0), most=3, columns=2)
    nodes = picture.scene.of("node")
    assert len(nodes) == 12
    assert [shape.text for shape in picture.scene.of("note")] == ["and 2 more"]
    # one scale for all
    assert fills(inc.plot.structure(PATH, torch.arange(4.0)), "node") != [
        shape.style.fill for shape in nodes[:4]
    ]


@pytest.mark.parametrize("suffix", ["svg", "pdf", "png"])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_pictures_are_written_in_every_format_with_the_same_bytes_each_time(
    suffix, theme, tmp_path
):
    files = [
        inc.plot.structure(PATH, theme=theme).save(tmp_path / f"{k}.{suffix}").read_bytes()
        for k in (1, 2)
    ]
    assert files[0] == files[1]
    assert files[0].startswith({"svg": b"<svg", "pdf": b"%PDF", "png": b"\x89PNG"}[suffix])


def test_matplotlib_and_svg_draw_the_same_shapes():
    picture = inc.plot.structure(
        inc.geometry.named("cube"), layout=inc.geometry.coordinates("cube")
    )
    [axis] = picture.figure().axes
    drawn = [path for collection in axis.collections for path in collection.get_paths()]
    elements = [e.tag.split("}")[1] for e in ElementTree.fromstring(picture.svg()).iter()]
    assert (
        len(drawn) == len(picture.scene.shapes) == elements.count("path") + elements.count("circle")
    )


def test_everything_lies_on_the_paper():
    for picture in (
        inc.plot.structure(PATH, torch.randn(4), title="a path"),
        inc.plot.structure(inc.Structure.complete(4, ["i j"])),
    ):
        corners = [point for shape in picture.scene.shapes for point in shape.points_around()]
        assert all(
            0 <= x <= picture.scene.width and 0 <= y <= picture.scene.height for x, y in corners
        )


def test_two_drawings_of_a_structure_are_the_same():
    graph = inc.geometry.named("Petersen graph")
    assert inc.plot.structure(graph).svg() == inc.plot.structure(graph).svg()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"what": 3}, "draws a Structure or an Example; got int"),
        ({"values": {"i": torch.ones(3)}}, "must have 4 rows, one for each entry; got shape"),
        ({"values": {"i": [1, 2, 3, 4]}}, "must be a tensor; got list"),
        ({"values": torch.ones(4, 2), "channel": 2}, "have 2 channels; channel 2 is none"),
        ({"values": ["i"]}, "are features of an example: pass the Example"),
        (
            {"what": inc.Example(PATH, {"i": torch.ones(4, 1)}), "values": ["{i j}"]},
            "has no features of '{i j}'; it has 'i'",
        ),
        (
            {"what": inc.Structure({"a": 2, "b": 2}), "values": torch.ones(4)},
            "nodes have sorts here, a, b: give values by sort",
        ),
        ({"layout": "spiral"}, "a layout is one of 'force', .*; got 'spiral'"),
        ({"layout": torch.ones(3, 2)}, "a row of coordinates for each of the 4 nodes"),
        ({"layout": torch.full((4, 2), torch.nan)}, "finite coordinates"),
        ({"layout": {"user": torch.ones(4, 2)}}, "no coordinates for nodes of sort `node`"),
        ({"labels": ["a"]}, "labels has 1 texts, and there are 4 nodes"),
        ({"theme": "blue"}, "a theme is one of 'light', 'dark'; got 'blue'"),
    ],
)
def test_what_cannot_be_drawn_is_refused(arguments, said):
    with pytest.raises(IncidenceError, match=said):
        inc.plot.structure(**{"what": PATH, **arguments})


def test_what_is_too_large_says_what_to_do():
    with pytest.raises(TooLargeError, match=r"Draw a part, as in plot.structure\(s.induced"):
        inc.plot.structure(inc.Structure(70_000))


def test_a_file_that_is_no_picture_is_refused(tmp_path):
    with pytest.raises(
        IncidenceError, match=r"a picture is a file .svg, .pdf or .png; got 'a.jpg'"
    ):
        inc.plot.structure(PATH).save(tmp_path / "a.jpg")


def test_flows_point_against_their_reference_where_they_are_negative():
    triangle = inc.Structure(3, {"<i j>": torch.tensor([[0, 1, 0], [1, 2, 2]])})
    flow = torch.tensor([1.0, -2.0, 0.5])
    picture = inc.plot.structure(triangle, {"<i j>": flow})
    at = {shape.entry: (shape.x, shape.y) for shape in picture.scene.of("node")}
    for head in picture.scene.of("<i j> head"):
        tail, tip = triangle["<i j>"][:, head.entry].tolist()[:: 1 if flow[head.entry] > 0 else -1]
        point = head.points[0]
        assert distance(point, at[tip]) < distance(point, at[tail])
    assert fills(picture, "<i j> head") == [
        between(LIGHT.sequence, abs(v) / 2) for v in flow.tolist()
    ]


def distance(one, other):
    return ((one[0] - other[0]) ** 2 + (one[1] - other[1]) ** 2) ** 0.5


def test_an_oriented_triangle_turns_from_its_first_node_on():
    triangle = inc.Structure(3, {"<i j k>": torch.tensor([[2], [0], [1]])})
    for value, order in ((1.0, [2, 0, 1]), (-1.0, [1, 0, 2])):
        picture = inc.plot.structure(
            triangle,
            {"<i j k>": torch.tensor([value])},
            layout=torch.tensor([[0.0, 0], [1, 0], [0, 1]]),
        )
        at = {shape.entry: (shape.x, shape.y) for shape in picture.scene.of("node")}
        [turn] = picture.scene.of("<i j k> turn")
        assert [
            min(at, key=lambda v, point=point: distance(at[v], point)) for point in turn.points
        ] == order


def test_molecules_show_elements_and_orders_of_bonds():
    chem = pytest.importorskip("rdkit.Chem")
    for example in (
        inc.geometry.convert.from_rdkit(chem.MolFromSmiles("OC=C")),
        inc.data.molecules.features_of("OC=C"),
    ):
        picture = inc.plot.structure(example, labels=None)
        labels = [
            shape.text for shape in sorted(picture.scene.of("label"), key=lambda shape: shape.entry)
        ]
        assert labels == ["O", "C", "C"]
        assert [shape.entry for shape in picture.scene.of("{i j} strand")] == [1]


def test_features_of_an_example_are_taken_by_their_text():
    example = inc.Example(PATH, {"i": torch.tensor([[1.0, 0], [2, 0], [3, 0], [4, 0]])})
    assert fills(inc.plot.structure(example, "i"), "node") == fills(
        inc.plot.structure(PATH, torch.arange(4.0)), "node"
    )


def test_coordinates_of_an_example_are_where_its_nodes_are():
    place = torch.tensor([[0.0, 0], [2, 0], [2, 1], [0, 1]])
    picture = inc.plot.structure(inc.Example(PATH, {"pos=i": place}))
    at = [
        (shape.x, shape.y)
        for shape in sorted(picture.scene.of("node"), key=lambda shape: shape.entry)
    ]
    assert at[0][1] == at[1][1] > at[2][1] == at[3][1]  # y runs downwards on paper
    assert at[1][0] - at[0][0] == pytest.approx(2 * (at[0][1] - at[3][1]))


def test_more_than_three_dimensions_are_seen_from_a_point_on_the_last_axis():
    picture = inc.plot.structure(
        inc.geometry.named("cube-4"), layout=inc.geometry.coordinates("cube-4"), tensors=["{i j}"]
    )
    assert len(picture.scene.of("node")) == 16
    assert len(picture.scene.of("{i j}")) == 32
    assert picture.scene.of("rank2") == []


@pytest.mark.parametrize("layout", ["force", "space", "circle", "columns", "molecule"])
def test_no_two_nodes_of_a_layout_lie_on_each_other(layout):
    for graph in (
        PATH,
        inc.geometry.named("complete-6"),
        inc.Structure(3),
        inc.geometry.hypergraph([[0, 1, 2], [2, 3]], 5),
    ):
        nodes = inc.plot.structure(graph, layout=layout).scene.of("node")
        apart = [
            distance((a.x, a.y), (b.x, b.y)) for a in nodes for b in nodes if a.entry < b.entry
        ]
        assert min(apart) > 1


def test_nodes_of_every_sort_have_the_colours_of_their_own_values():
    table = inc.geometry.table({"user": [0, 1, 1], "movie": ["a", "a", "b"]}).structure
    one = fills(
        inc.plot.structure(
            table, {"u:user": torch.tensor([0.0, 1.0]), "m:movie": torch.tensor([1.0, 0.5])}
        ),
        "node",
    )
    assert one == [between(LIGHT.sequence, v) for v in (1.0, 0.5, 0.0, 1.0)]  # movies come first
    lone = fills(inc.plot.structure(table, {"u:user": torch.tensor([0.0, 1.0])}), "node")
    assert lone == [LIGHT.pale, LIGHT.pale, LIGHT.sequence[0], LIGHT.sequence[-1]]


def test_a_batch_with_sorts_shows_the_values_of_each_structure():
    table = inc.Structure(
        {"user": 1, "movie": 2}, {"u:user m:movie": torch.tensor([[0, 0], [0, 1]])}
    )
    picture = inc.plot.structure(inc.collate([table, table]), {"u:user": torch.tensor([0.0, 1.0])})
    assert [s.style.fill for s in picture.scene.of("node") if s.entry == 2] == [
        LIGHT.sequence[0],
        LIGHT.sequence[-1],
    ]
