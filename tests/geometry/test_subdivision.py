"""`geometry.subdivide`: finer complexes of the same shape."""

import pytest
import torch

import incidence as inc
from incidence import IncidenceError, Structure
from incidence.geometry import faces, hodge, simplicial_complex, subdivide

WAYS = ("barycentric", "stellar", "edge")
SPHERE = [[0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 3]]
TORUS = [[k, (k + d) % 7, (k + 3) % 7] for k in range(7) for d in (1, 2)]
PLANE = [  # the projective plane with six vertices
    *([0, 1, 2], [0, 2, 3], [0, 3, 4], [0, 4, 5], [0, 1, 5]),
    *([1, 2, 4], [2, 4, 5], [2, 3, 5], [1, 3, 5], [1, 3, 4]),
]
SURFACES = {"sphere": SPHERE, "torus": TORUS, "plane": PLANE}


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("name", SURFACES)
def test_surfaces_stay_the_same_surfaces(name, how):
    s = simplicial_complex(SURFACES[name])
    before = faces(s)
    for rounds in (1, 2):
        finer = subdivide(s, how, rounds)
        after = faces(finer)
        assert after.is_manifold
        assert after.is_closed
        assert after.euler == before.euler
        assert after.is_orientable == before.is_orientable
        betti = [hodge(finer, rank).betti for rank in range(3)]
        assert betti == [hodge(s, rank).betti for rank in range(3)]


@pytest.mark.parametrize(
    ("how", "nodes", "triangles"), [("barycentric", 14, 24), ("stellar", 8, 12), ("edge", 10, 16)]
)
def test_every_triangle_becomes_so_many(how, nodes, triangles):
    finer = subdivide(simplicial_complex(SPHERE), how)
    assert finer.counts == {"node": nodes}
    assert finer.num_entries("{i j k}") == triangles


def test_the_new_triangles_of_one_are_these():
    triangle = simplicial_complex([[0, 1, 2]])
    new = subdivide(triangle, "stellar")["{i j k}"].T.tolist()
    assert new == [[0, 1, 3], [0, 2, 3], [1, 2, 3]]
    # the middles of 0 1, 0 2, 1 2 are 3, 4, 5
    new = subdivide(triangle, "edge")["{i j k}"].T.tolist()
    assert new == [[0, 3, 4], [1, 3, 5], [2, 4, 5], [3, 4, 5]]
    new = subdivide(triangle)["{i j k}"].T.tolist()
    assert new == [[0, 3, 6], [0, 4, 6], [1, 3, 6], [1, 5, 6], [2, 4, 6], [2, 5, 6]]


@pytest.mark.parametrize("how", ["barycentric", "stellar"])
def test_complexes_of_any_faces_keep_their_holes(how):
    # a full tetrahedron, the boundary of another one, a loop of edges, and a lone node
    facets = [range(4), [3, 4, 5], [3, 4, 6], [3, 5, 6], [4, 5, 6], [6, 7], [7, 8], [6, 8], [9]]
    s = simplicial_complex(facets)
    finer = subdivide(s, how)
    for rank in range(4):
        assert hodge(finer, rank).betti == hodge(s, rank).betti


@pytest.mark.parametrize("how", WAYS)
def test_graphs_stay_graphs(how):
    cycle = inc.geometry.graph([[0, 1, 2], [1, 2, 0]], 3)
    finer = subdivide(cycle, how)
    assert (finer.counts["node"], finer.num_entries("{i j}")) == (6, 6)
    assert hodge(finer, 1).betti == 1


@pytest.mark.parametrize("how", WAYS)
def test_a_batch_equals_its_structures_one_by_one(how):
    parts = [simplicial_complex(facets) for facets in SURFACES.values()]
    batch = subdivide(inc.collate(parts), how)
    assert batch.num_structures == len(parts)
    for one, part in zip(batch, parts, strict=True):
        alone = subdivide(part, how)
        assert one.counts == alone.counts
        for pattern in alone.patterns:
            assert one[pattern].tolist() == alone[pattern].tolist()


@pytest.mark.parametrize("how", WAYS)
def test_it_commutes_with_numbering_the_nodes_anew(how):
    s = simplicial_complex(TORUS)
    order = torch.tensor([3, 0, 6, 2, 5, 1, 4])
    other = simplicial_complex(order[torch.tensor(TORUS).T])
    degrees = [torch.bincount(subdivide(one, how)["{i j}"].flatten())[:7] for one in (s, other)]
    assert degrees[1][order].tolist() == degrees[0].tolist()


def test_tensors_keep_their_orientation_names_and_sort():
    s = Structure(
        {"corner": 3},
        {
            "<i:corner j:corner>": [[2, 0, 1], [0, 1, 2]],
            "patch={i:corner j:corner k:corner}": [[0], [1], [2]],
        },
    )
    finer = subdivide(s, "edge")
    assert finer.patterns == s.patterns
    assert finer.counts == {"corner": 6}
    assert finer.num_entries("patch") == 4
    ends = finer["<i:corner j:corner>"]
    assert bool((ends[0] < ends[1]).all())


def test_sides_that_are_not_listed_are_cut_as_well():
    alone = Structure(3, {"{i j k}": [[0], [1], [2]]})
    finer = subdivide(alone)
    assert finer.patterns == alone.patterns
    assert finer.num_entries("{i j k}") == 6


@pytest.mark.parametrize("how", WAYS)
def test_listed_nodes_stay_and_all_nodes_of_faces_join_them(how):
    finer = subdivide(Structure(5, {"i": [[1, 2]], "{i j}": [[2], [4]]}), how)
    assert finer["i"].tolist() == [[1, 2, 4, 5]]
    s = Structure(4, {"i": [[0, 1, 2, 3]], "{i j}": [[0, 1], [1, 2]]})
    assert subdivide(s, how, 2)["i"].tolist() == [list(range(s.num_nodes + 6))]
    batch = inc.collate([s, s])
    finer = subdivide(batch, how)
    assert finer == inc.collate([subdivide(s, how)] * 2)
    alone = Structure(3, {"i": [[0, 2]]})
    assert subdivide(alone, how) == alone


@pytest.mark.parametrize("how", WAYS)
def test_structures_without_faces_stay_as_they_are(how):
    assert subdivide(Structure(3), how).counts == {"node": 3}
    empty = simplicial_complex([], num_nodes=2, max_size=3)
    assert subdivide(empty, how).counts == {"node": 2}
    assert subdivide(simplicial_complex(SPHERE), how, rounds=0).counts == {"node": 4}


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ({"i j": [[0], [1]]}, r"takes complexes, .* `i j` is none"),
        ({"(i j)": [[0], [1]]}, r"takes complexes, .* `\(i j\)` is none"),
        ({"{i ...}": [[0], [0]]}, r"takes complexes, .* is none"),
    ],
)
def test_what_is_no_complex_is_refused(index, message):
    with pytest.raises(IncidenceError, match=message):
        subdivide(Structure(2, index))


def test_other_mistakes_are_refused():
    s = simplicial_complex(SPHERE)
    with pytest.raises(IncidenceError, match="how is one of barycentric, stellar, edge; got 'x'"):
        subdivide(s, "x")
    with pytest.raises(IncidenceError, match="rounds"):
        subdivide(s, rounds=-1)
    with pytest.raises(IncidenceError, match="takes a Structure; got list"):
        subdivide(SPHERE)
    with pytest.raises(IncidenceError, match="faces of 4 nodes: use 'barycentric' or 'stellar'"):
        subdivide(simplicial_complex([range(4)]), "edge")
    with pytest.raises(IncidenceError, match="one sort of nodes; got a, b"):
        subdivide(Structure({"a": 2, "b": 1}, {"{i:a j:a}": [[0], [1]]}))
