"""All triangulated closed surfaces with a few vertices."""

import itertools

import pytest
import torch

from incidence import IncidenceError
from incidence.geometry import faces, simplicial_complex
from incidence.geometry.closed_surfaces import canonical_form, closed_surfaces


def test_there_are_as_many_as_in_the_literature():
    # 1, 1, 3, 9 and 43 (Datta; Datta and Nilakantan), by type
    counts = {}
    for number in range(4, 8):
        for triangles in closed_surfaces(number):
            found = faces(simplicial_complex(triangles))
            assert found.is_manifold
            assert found.is_closed
            key = number, found.euler, found.is_orientable
            counts[key] = counts.get(key, 0) + 1
    assert counts == {
        (4, 2, True): 1,
        (5, 2, True): 1,
        (6, 2, True): 2,
        (7, 2, True): 5,
        (6, 1, False): 1,
        (7, 1, False): 3,
        (7, 0, True): 1,
    }


def test_fewer_than_four_vertices_make_no_surface():
    assert [closed_surfaces(number) for number in range(4)] == [[]] * 4


def test_the_canonical_form_does_not_depend_on_the_numbering():
    generator = torch.Generator().manual_seed(0)
    forms = set()
    for triangles in closed_surfaces(7):
        form = canonical_form(triangles)
        assert list(form) == triangles
        forms.add(form)
        for _ in range(3):
            number = torch.randperm(7, generator=generator).tolist()
            moved = [tuple(number[v] for v in triangle) for triangle in reversed(triangles)]
            assert canonical_form(moved) == form
    assert len(forms) == 9


def test_every_edge_flip_of_a_surface_is_in_the_list():
    known = {canonical_form(triangles) for triangles in closed_surfaces(7)}
    flips = 0
    for triangles in known:
        edges = {pair for t in triangles for pair in itertools.combinations(t, 2)}
        for one, other in edges:
            around = [t for t in triangles if one in t and other in t]
            a, b = (next(v for v in t if v not in (one, other)) for t in around)
            if tuple(sorted((a, b))) in edges:
                continue
            rest = [t for t in triangles if t not in around]
            assert canonical_form([*rest, (a, b, one), (a, b, other)]) in known
            flips += 1
    assert flips > 50


def test_more_vertices_are_refused():
    with pytest.raises(IncidenceError, match="num_vertices"):
        closed_surfaces(9)
