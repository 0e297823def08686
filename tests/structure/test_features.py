"""Ones, a tensor and its face vectors, and features of smaller faces."""

import pytest
import torch

import incidence as inc
from incidence.algebra import EquivariantMap, Pattern
from incidence.errors import IncidenceError
from incidence.nn import Linear
from incidence.structure import Structure, carry, collate, face_patterns, from_faces, to_faces
from incidence.structure.arrange import arranged
from incidence.testing import random_structure

PATTERNS = [
    "i",
    "i j",
    "i j k",
    "i i j",
    "{i j}",
    "i {i j}",
    "i {j k}",
    "{i j} {k l}",
    "{i j} {i k}",
    "[i j]",
    "[i j k]",
    "{i j k} {i j l}",
    "(i j) {j k}",
    "u:a v:a w:b",
    "{u:a v:a w:b} w:b",
    "<i j k>",
    "i <i j>",
    "{i j} <k l>",
    "<i j> <k l>",
    "<i j> <i j>",
    "<u:a v:a w:b> {w:b x:b}",
]


@pytest.mark.parametrize("text", PATTERNS)
def test_every_orbit_is_a_tensor_with_one_orbit_of_the_same_class_sizes(text):
    for orbit, face in zip(Pattern(text).orbits, face_patterns(text), strict=True):
        [own] = face.orbits
        assert sorted((c.sort, c.size) for c in own.classes) == sorted(
            (c.sort, c.size) for c in orbit.classes
        )


@pytest.mark.parametrize("text", PATTERNS)
def test_a_tensor_and_its_face_vectors_have_the_same_maps(text):
    faces = face_patterns(text)
    collection = EquivariantMap.between(faces, faces)
    tensor = EquivariantMap.between([Pattern(text)], [Pattern(text)])
    assert collection.dimension == tensor.dimension
    assert collection.num_biases == tensor.num_biases
    for n in range(5):
        assert collection.dimension_at(n) == tensor.dimension_at(n)


@pytest.mark.parametrize("text", PATTERNS)
def test_features_go_to_the_face_vectors_and_come_back(text):
    structure = random_structure(
        dict.fromkeys(Pattern(text).sorts.values(), 4),
        [text],
        0.5,
        torch.Generator().manual_seed(0),
    )
    x = torch.randn(structure.num_entries(text), 3)
    faces, values = to_faces(structure, text, x)
    assert [faces.num_entries(p) for p in face_patterns(text)] == [len(v) for v in values.values()]
    assert sum(map(len, values.values())) == len(x)
    assert torch.equal(from_faces(structure, text, values), x)
    for pattern in faces.patterns:
        arranged(faces, pattern)  # no duplicates, nothing out of order


@pytest.mark.parametrize("text", ["i j", "i j k", "i {j k}"])
def test_a_layer_on_the_face_vectors_with_the_same_weights_gives_the_same(text):
    """In these patterns the classes of an orbit stand in the order of the letters of its face
    vector.
    """
    structure = random_structure(4, [text], 0.7, torch.Generator().manual_seed(1))
    layer = Linear(f"{text} -> {text}", 2, 3, dtype=torch.float64)
    patterns = face_patterns(text)
    on_faces = Linear(EquivariantMap.between(patterns, patterns), 2, 3, dtype=torch.float64)
    with torch.no_grad():
        for pair in layer.map.pairs:
            s, t = pair.source.number, pair.target.number
            getattr(on_faces, f"weight_{s}_{t}").copy_(
                layer.weight[pair.start : pair.start + pair.count]
            )
            getattr(on_faces, f"bias_{t}").copy_(layer.bias[[t]])
    x = torch.randn(structure.num_entries(text), 2, dtype=torch.float64)
    faces, values = to_faces(structure, text, x)
    assert torch.allclose(
        from_faces(structure, text, on_faces(values, faces)), layer(x, structure), atol=1e-12
    )


@pytest.mark.parametrize("text", ["<i j>", "<i j k>", "i <j k>", "<i j> <k l>"])
def test_face_vectors_of_an_oriented_tensor_do_not_depend_on_how_its_entries_are_written(text):
    structure = random_structure(5, [text], 0.5, torch.Generator().manual_seed(0))
    x = torch.randn(structure.num_entries(text), 2)
    turned = torch.arange(len(x)) % 2 == 1
    index = structure[text].clone()
    index[-2:, turned] = index[-2:, turned].flip(0)
    other = Structure(5, {text: index})
    assert other != structure
    faces, values = to_faces(structure, text, x)
    others, other_values = to_faces(other, text, torch.where(turned[:, None], -x, x))
    assert others == faces
    torch.testing.assert_close(other_values, values)
    edge = Structure(2, {"<i j>": [[1], [0]]})
    assert [v.item() for v in to_faces(edge, "<i j>", torch.tensor([[5.0]]))[1].values()] == [-5]


def test_matrices_are_nodes_and_directed_edges():
    assert [str(p) for p in face_patterns("i j")] == ["i", "(i j)"]
    assert [str(p) for p in face_patterns("{i j} {i k}")] == ["{i j}", "(i j k)"]
    assert [str(p) for p in face_patterns("{i j k} {i j l}")] == ["{i j k}", "(i j) {i j k l}"]


def test_batches_are_split_structure_by_structure():
    parts = [random_structure(n, ["i j"], 0.5, torch.Generator().manual_seed(n)) for n in (2, 4, 3)]
    batch = collate(parts)
    x = torch.randn(batch.num_entries("i j"), 2)
    faces, values = to_faces(batch, "i j", x)
    assert faces[1] == to_faces(parts[1], "i j")[0]
    assert torch.equal(from_faces(batch, "i j", values), x)


def test_named_tensors_may_be_split_too():
    s = Structure(3, {"bond=i j": torch.tensor([[0, 0, 1], [0, 1, 2]])})
    faces, values = to_faces(s, "bond", torch.arange(3.0)[:, None])
    assert list(values) == ["i", "(i j)"]
    assert faces["(i j)"].tolist() == [[0, 1], [1, 2]]


def test_the_scalar_is_its_own_face_vector():
    s = Structure(3)
    assert [str(p) for p in face_patterns("")] == [""]
    assert from_faces(s, "", to_faces(s, "", torch.ones(1, 2))[1]).shape == (1, 2)


def carried(structure: Structure, source: str, target: str) -> list[float]:
    x = 10.0 ** torch.arange(structure.num_entries(source), dtype=torch.float64)[:, None]
    return carry(structure, source, target, x)[:, 0].tolist()


def test_features_are_carried_by_common_letters():
    s = Structure(
        3,
        {
            "(i j)": torch.tensor([[0, 2], [1, 1]]),
            "{i j}": torch.tensor([[0, 2], [1, 1]]),
            "i j": torch.tensor([[0, 2], [0, 1]]),
        },
    )
    assert carried(s, "i", "(i j)") == [1.0, 100.0]
    assert carried(s, "j", "(i j)") == [10.0, 10.0]
    assert carried(s, "i", "{i j}") == [11.0, 110.0]  # both nodes, as none is the first
    assert carried(s, "i", "i j") == [1.0, 100.0]
    assert carried(s, "", "(i j)") == [1.0, 1.0]


def test_sets_in_sets_are_added_each_once_and_absent_ones_count_nothing():
    s = Structure(
        4,
        {
            "{i j}": torch.tensor([[0, 1, 0], [1, 2, 3]]),
            "{i j k}": torch.tensor([[0, 1], [1, 2], [2, 3]]),
        },
    )
    assert carried(s, "{i j}", "{i j k}") == [11.0, 10.0]


def test_directed_pairs_on_triples_keep_their_order():
    s = Structure.complete(3, ["(i j)", "(i j k)"])
    x = torch.arange(6.0)[:, None]
    pairs = {tuple(c): k for k, c in enumerate(s["(i j)"].T.tolist())}
    triples = s["(i j k)"].T.tolist()
    assert carry(s, "(k i)", "(i j k)", x)[:, 0].tolist() == [pairs[k, i] for i, _, k in triples]


def test_carrying_is_an_operation_of_the_layer_between_the_two():
    s = random_structure(5, ["{i j}", "{i j k}"], 0.6, torch.Generator().manual_seed(0))
    x = torch.randn(s.num_entries("{i j}"), 2, dtype=torch.float64)
    operator = Linear("{i j} -> {i j k}", 1, 1).operator(2, s)
    assert torch.allclose(carry(s, "{i j}", "{i j k}", x), operator @ x)


def test_what_cannot_be_split_or_carried_is_refused():
    s = Structure.complete(3, ["i j", "{i j}"])
    with pytest.raises(
        IncidenceError, match="has open faces: every combination of sizes is an orbit of its own"
    ):
        face_patterns("{i ...}")
    with pytest.raises(
        IncidenceError,
        match=r"the features of 'i j' must have 9 rows, one for each entry; got \[4, 1\]",
    ):
        to_faces(s, "i j", torch.ones(4, 1))
    with pytest.raises(
        IncidenceError,
        match=(
            r"the features of 'i j' must have shape \[entries, channels\]; got \[9\]: use x\[:,"
            r" None\]"
        ),
    ):
        to_faces(s, "i j", torch.ones(9))
    with pytest.raises(
        IncidenceError,
        match=r"made of the face vectors 'i', '\(i j\)'; there are no values for '\(i j\)'",
    ):
        from_faces(s, "i j", {"i": torch.ones(3, 1)})
    with pytest.raises(IncidenceError, match="by common letters, but `k` is not in"):
        carry(s, "k", "{i j}", torch.ones(3, 1))
    with pytest.raises(IncidenceError, match="open faces have no letters to carry by"):
        carry(
            Structure(2, {"{i ...}": torch.tensor([[0, 1], [0, 0]])}),
            "i",
            "{i ...}",
            torch.ones(2, 1),
        )
    with pytest.raises(
        IncidenceError, match="values of oriented faces have signs, and are not carried"
    ):
        carry(Structure(2, {"<i j>": torch.tensor([[0], [1]])}), "i", "<i j>", torch.ones(2, 1))


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (
            None,
            (
                r"made of the face vectors 'i', '\(i j\)': give a dict with their features; got"
                r" NoneType"
            ),
        ),
        (
            {"i": torch.ones(3, 1), "(i j)": torch.ones(6, 1), "k": torch.ones(6, 1)},
            r"'\(i j\)'; 'k' is none of them",
        ),
        (
            {"i": torch.ones(3, 1), "(i j)": torch.ones(6, 2)},
            r"the features of 'i' are \[3, 1\].*those of '\(i j\)' are \[6, 2\]",
        ),
        (
            {"i": torch.ones(3, 1), "(i j)": torch.ones(6, 1).double()},
            r"'i' are .*torch.float32 on cpu, those of .*torch.float64 on cpu",
        ),
        (
            {"i": torch.ones(3), "(i j)": torch.ones(6)},
            r"the features of 'i' must have shape \[entries, channels\]; got \[3\]",
        ),
    ],
)
def test_face_vectors_that_do_not_fit_together_are_refused(values, sentence):
    with pytest.raises(IncidenceError, match=sentence):
        from_faces(Structure.complete(3, ["i j"]), "i j", values)


def test_what_is_no_structure_is_refused():
    with pytest.raises(
        IncidenceError,
        match=(
            r"the first argument is a Structure; got NoneType. Call to_faces\(structure, text, x\)"
        ),
    ):
        to_faces(None, "i j", torch.ones(9, 1))
    with pytest.raises(
        IncidenceError,
        match=(
            r"the first argument is a Structure; got int. Call from_faces\(structure, text,"
            r" values\)"
        ),
    ):
        from_faces(5, "i j", {})


def test_a_layer_on_face_vectors_that_look_alike_names_them():
    s = Structure.complete(3, ["i j k"])
    faces, parts = to_faces(s, "i j k", torch.randn(27, 1))
    layer = Linear("i, orbit1=(i j), orbit2=(i j) -> i", 1, 2)
    assert layer({key: parts[key] for key in ("i", "orbit1", "orbit2")}, faces).shape == (3, 2)


def test_the_front_door_has_them():
    assert inc.to_faces is to_faces
    assert inc.from_faces is from_faces
    assert inc.carry is carry


PATH = torch.tensor([[0, 1, 2], [1, 2, 3]])


@pytest.mark.parametrize(
    ("text", "rows"), [("i", 5), ("(a b)", 3), ("bond", 1), ("", 1), ("{i ...}", 2)]
)
def test_every_entry_gets_a_one(text, rows):
    s = Structure(5, {"(i j)": PATH, "bond={i j}": PATH[:, :1], "{i ...}": [[0, 1, 2], [0, 0, 1]]})
    assert inc.ones(s, text).equal(torch.ones(rows, 1))


def test_the_ones_of_a_batch_are_those_of_all_its_structures():
    batch = inc.collate([Structure(2), Structure(0), Structure(3)])
    assert inc.ones(batch, "i").shape == (5, 1)
    assert inc.ones(batch, "").shape == (3, 1)


def test_channels_and_type_of_ones_can_be_given_and_the_device_is_that_of_the_structure():
    x = inc.ones(Structure(2), "i", channels=3, dtype=torch.float64)
    assert x.equal(torch.ones(2, 3, dtype=torch.float64))
    assert inc.ones(Structure(2, {"(i j)": PATH[:, :1]}).to("meta"), "(i j)").device.type == "meta"


def test_a_layer_on_ones_counts():
    layer = inc.nn.Linear("(i j) -> ", 1, 1, bias=False)
    layer.weight.data.fill_(1.0)
    batch = inc.collate([Structure(4, {"(i j)": PATH[:, :k]}) for k in range(4)])
    assert layer(inc.ones(batch, "(i j)"), batch)[:, 0].tolist() == [0, 1, 2, 3]
