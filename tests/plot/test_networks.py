"""Plans, networks and posets as pictures."""

from __future__ import annotations

import pytest
import torch

import incidence as inc
from incidence.engine.plan import plan_of
from incidence.errors import IncidenceError, TooLargeError

PATH = inc.Structure(4, {"{i j}": [[0, 1, 2], [1, 2, 3]]})
TRIANGLES = inc.Structure(4, {"{i j}": [[0, 1, 2], [1, 2, 3]], "{i j k}": [[0, 1], [1, 2], [2, 3]]})
ARCS = inc.Structure(3, {"(i j)": [[0, 1, 1], [1, 2, 0]]})
TABLE = inc.Structure({"user": 2, "movie": 3}, {"u:user m:movie": [[0, 0, 1], [0, 2, 2]]})


def words(picture: inc.plot.Picture, part: str) -> list[str]:
    return [shape.text for shape in picture.scene.of(part)]


def lines(picture: inc.plot.Picture, part: str) -> set[tuple[str, str]]:
    """The texts of the two boxes that each line of a part joins."""
    boxes = {}
    for kind in ("input", "key", "output"):
        for frame, text in zip(picture.scene.of(kind), words(picture, f"{kind} text"), strict=True):
            xs, ys = zip(*frame.points, strict=True)
            middle = round(sum(ys) / 4, 3)
            boxes |= {
                (round(min(xs), 3), middle): (kind, text),
                (round(max(xs), 3), middle): (kind, text),
            }
    ends = [(shape.points[0], shape.points[-1]) for shape in picture.scene.of(part)]
    return {tuple(boxes[round(x, 3), round(y, 3)][1] for x, y in pair) for pair in ends}


@pytest.mark.parametrize(
    ("text", "structure"),
    [
        ("{i j} -> {i j}", PATH),
        ("{i j k} -> {i j}", TRIANGLES),
        ("i, (i j) -> (i j)", ARCS),
        ("u:user m:movie -> u:user", TABLE),
    ],
    ids=["edges", "triangles", "arcs", "table"],
)
def test_entries_write_to_keys_of_their_own_nodes_and_read_from_such(text, structure):
    picture = inc.plot.plan(text, structure)
    plan = plan_of(structure, inc.EquivariantMap(text))
    assert len(words(picture, "key text")) == int(plan.num_keys.sum())

    def numbers(name: str) -> set[str]:
        return set(
            name.translate(str.maketrans("(){}", "    "))
            .replace(":user", "")
            .replace(":movie", "")
            .split()
        ) - {"all"}

    for part in ("write", "read"):
        joined = lines(picture, part)
        assert joined
        for one, other in joined:
            entry, key = (one, other) if part == "write" else (other, one)
            assert numbers(key) <= numbers(entry)


def test_the_plan_of_a_path_has_the_lines_of_the_engine_page():
    picture = inc.plot.plan("{i j} -> {i j}", PATH)
    nodes = {
        ("{0 1}", "0"),
        ("{0 1}", "1"),
        ("{1 2}", "1"),
        ("{1 2}", "2"),
        ("{2 3}", "2"),
        ("{2 3}", "3"),
    }
    assert lines(picture, "write") == nodes | {
        (edge, "all") for edge in ("{0 1}", "{1 2}", "{2 3}")
    }
    assert lines(picture, "partner") == {(edge, edge) for edge in ("{0 1}", "{1 2}", "{2 3}")}


def test_arcs_in_both_directions_are_partners():
    assert ("(0 1)", "(1 0)") in lines(inc.plot.plan("(i j) -> (i j)", ARCS), "partner")


def test_a_network_shows_every_tensor_and_the_operations_of_every_pair():
    net = inc.models.IncidenceNet(
        "i, {i j} -> i", {"i": 5, "{i j}": 2}, out_channels=3, hidden=16, depth=2
    )
    picture = inc.plot.network(net)
    assert words(picture, "tensor text") == ["i", "{i j}"] * 3 + ["i"]
    assert words(picture, "tensor below") == ["5 channels", "2 channels"] + ["16 channels"] * 5
    assert words(picture, "operations") == ["2", "2", "2", "3"] * 2 + ["2", "2"]
    assert words(picture, "times") == ["2 times"]
    assert len(picture.scene.of("residual")) == 1


def test_a_layer_of_attention_shows_the_channels_of_every_tensor():
    picture = inc.plot.network(inc.models.make("transformer", 3, hidden=8, depth=1))
    assert "attention" in " ".join(words(picture, "layer"))
    assert set(words(picture, "tensor below")) == {"3 channels", "8 channels"}


def test_pairs_without_operations_have_no_line():
    layer = inc.nn.Linear("i, {i j} -> i, {i j}", 1, 1, operations="boundary")
    picture = inc.plot.network(layer)
    counts = [len(layer.operations_of(s, t)) for s in (0, 1) for t in (0, 1)]
    assert words(picture, "operations") == [str(n) for n in counts if n]


def test_a_poset_has_a_line_for_every_face_of_a_face():
    picture = inc.plot.poset(inc.geometry.named("tetrahedron"))
    assert words(picture, "rank") == ["rank 0: 4", "rank 1: 6", "rank 2: 4"]
    assert len(picture.scene.of("cover")) == 2 * 6 + 3 * 4
    boxes = [{*text.split()} for text in words(picture, "face text")]
    frames = picture.scene.of("face")
    tops = {
        (round((s.points[0][0] + s.points[1][0]) / 2, 3), round(s.points[0][1], 3)): b
        for s, b in zip(frames, boxes, strict=True)
    }
    bottoms = {
        (round((s.points[2][0] + s.points[3][0]) / 2, 3), round(s.points[2][1], 3)): b
        for s, b in zip(frames, boxes, strict=True)
    }
    for line in picture.scene.of("cover"):
        low, high = (tuple(round(v, 3) for v in point) for point in line.points)
        assert tops[low] < bottoms[high]


@pytest.mark.parametrize(
    ("draw", "said"),
    [
        (
            lambda: inc.plot.network("i -> i"),
            "draws a layer or a network, a module of torch; got str",
        ),
        (lambda: inc.plot.network(torch.nn.ReLU()), "ReLU has no equivariant layer to draw"),
        (lambda: inc.plot.plan("i -> i", 3), "the second argument"),
    ],
)
def test_what_cannot_be_drawn_is_refused(draw, said):
    with pytest.raises(IncidenceError, match=said):
        draw()


@pytest.mark.parametrize(
    ("draw", "said"),
    [
        (
            lambda: inc.plot.plan("i j -> i j", inc.Structure.complete(9, ["i j"])),
            "Take a smaller structure, or print",
        ),
        (
            lambda: inc.plot.plan("{i j} -> i", inc.collate([PATH, PATH])),
            "in 2 structures; at most 60 of one structure",
        ),
        (
            lambda: inc.plot.poset(inc.geometry.named("complete-40")),
            "820 faces; at most 400 are drawn",
        ),
    ],
)
def test_what_is_too_large_says_what_to_do(draw, said):
    with pytest.raises(TooLargeError, match=said):
        draw()


@pytest.mark.parametrize(
    "name", ["ppgn", "local-fgnn", "subgraph", "graph", "matrix", "hypergraph"]
)
def test_every_kind_of_network_can_be_drawn_and_shown(name):
    tensors = {"i": 3, "{i j}": 2, "i j": 2, "near=i j": 2, "{i ...}": 1}
    net = inc.models.make(
        name, {text: n for text, n in tensors.items() if inc.Pattern(text) in reads(name)}, 1
    )
    picture = inc.plot.network(net)
    assert len(picture.scene.of("layer")) >= 2
    assert "<svg" in net._repr_html_()


def reads(name: str) -> list[inc.Pattern]:
    """The tensors that a preset reads."""
    return list(inc.EquivariantMap(f"{inc.models.PRESETS[name].inputs} -> ").inputs)


def test_blocks_of_several_layers_that_repeat_are_drawn_once():
    net = inc.models.make("ppgn", {"i": 3, "{i j}": 2, "i j": 2}, 1, depth=3)
    picture = inc.plot.network(net)
    assert words(picture, "times") == ["3 times, with the next 1"]
    assert len(words(picture, "layer")) == 3
