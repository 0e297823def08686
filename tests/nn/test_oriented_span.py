"""On complete structures the operations of oriented faces span all equivariant maps, and nothing
else: rank, a signed brute force that shares no code with the library, and the definition, all on
the maps of the vectors.
"""

import json
from itertools import product
from math import prod

import pytest
import torch

from incidence.algebra import Pattern
from incidence.structure import Structure
from tests.algebra import brute_force, definition
from tests.cases import some
from tests.exact_numbers import VECTORS, map_text
from tests.nn.complete_operators import operators
from tests.structure.listing import (
    class_sets,
    entries_of,
    letters_of,
    orientation_signs,
    oriented_faces,
)

MAX_WORK = 40_000  # numbers in all operators of a map


def cases() -> list:
    """The maps of the vectors at the largest number of nodes that is little work, and at 3
    nodes.
    """
    found = []
    for case in json.loads((VECTORS / "oriented.json").read_text(encoding="utf-8"))["maps"]:
        if not case["params"]:
            continue
        few = [
            s
            for s in case["small_N"]
            if case["params"] * sum(s["entries_in"]) * sum(s["entries_out"]) <= MAX_WORK
        ]
        for small in {
            json.dumps(s["N"]): s
            for s in [*few[-1:], *(s for s in few if set(s["N"].values()) == {3})]
        }.values():
            sizes = tuple(small["N"].items()) or (("node", 3),)
            numbers = ",".join(str(n) for _, n in sizes)
            found.append(
                pytest.param(
                    map_text(case), sizes, small["params"], id=f"{map_text(case)}-{numbers}"
                )
            )
    return found


CASES = cases()


def test_more_than_forty_maps_are_compared():
    assert len({param.values[0] for param in CASES}) > 60


@pytest.mark.parametrize(("text", "sizes", "dimension"), some(CASES))
def test_the_rank_of_the_operators_is_the_exact_dimension(text, sizes, dimension):
    m, _, matrices = operators(text, sizes)
    rank = 0
    for s, t in product(range(len(m.inputs)), range(len(m.outputs))):
        of_pair = [
            x.flatten()
            for o, x in zip(m.operations, matrices, strict=True)
            if (o.source.tensor, o.target.tensor) == (s, t) and x.numel()
        ]
        rank += int(torch.linalg.matrix_rank(torch.stack(of_pair))) if of_pair else 0
    assert rank == dimension


@pytest.mark.parametrize(("text", "sizes", "dimension"), some(CASES))
def test_the_signed_brute_force_finds_the_same_dimension(text, sizes, dimension):
    sides = [
        [brute_force.read(pattern) for pattern in side.split(",")] for side in text.split("->")
    ]
    sorts = {letter: sort for side in sides for _, own in side for letter, sort in own.items()}
    pairs = product(*sides)
    assert (
        sum(
            brute_force.num_orbits_on_pairs(source, target, sorts, dict(sizes))
            for (source, _), (target, _) in pairs
        )
        == dimension
    )


def exchanged(pattern: Pattern, structure: Structure, g: dict) -> tuple[torch.Tensor, torch.Tensor]:
    """The row of every relabelled entry, and the sign by which its orientation differs from the
    reference there.
    """
    text = str(pattern)
    listed, columns = (
        entries_of(structure, text),
        (letters_of(structure, text) if pattern.faces else [[]]),
    )
    row_of = {entry: row for row, entry in enumerate(listed)}
    raw = brute_force.read(text)[0]
    rows = [row_of[brute_force.relabelled(entry, raw, g)] for entry in listed]
    signs = []
    for row, letters in zip(rows, columns, strict=True):
        moved = [[g[node] for node in face] for face in oriented_faces(pattern, letters)]
        there = oriented_faces(pattern, columns[row])
        signs.append(
            prod(
                brute_force.sign([one.index(v) for v in other])
                for one, other in zip(there, moved, strict=True)
            )
        )
    return torch.tensor(rows, dtype=torch.long), torch.tensor(signs, dtype=torch.float64)


@pytest.mark.parametrize(("text", "sizes", "dimension"), some(CASES))
def test_every_operator_commutes_with_relabelling_of_nodes(text, sizes, dimension):
    m, structure, matrices = operators(text, sizes)
    for g in brute_force.generators(dict(sizes)):
        moved = {p: exchanged(p, structure, g) for p in m.inputs + m.outputs}
        for operation, matrix in zip(m.operations, matrices, strict=True):
            (rows, of_rows), (cols, of_cols) = (
                moved[m.outputs[operation.target.tensor]],
                moved[m.inputs[operation.source.tensor]],
            )
            assert torch.equal(of_rows[:, None] * matrix[rows][:, cols] * of_cols, matrix), (
                operation
            )


@pytest.mark.parametrize(("text", "sizes", "dimension"), some(CASES))
def test_every_operator_has_the_entries_of_the_definition(text, sizes, dimension):
    m, structure, matrices = operators(text, sizes)
    sets = {
        p: [class_sets(e, p) for e in entries_of(structure, str(p))] for p in m.inputs + m.outputs
    }
    signs = {p: orientation_signs(structure, str(p)) for p in m.inputs + m.outputs}
    for operation, matrix in zip(m.operations, matrices, strict=True):
        sides, odd = [], []
        for place, patterns in ((operation.source, m.inputs), (operation.target, m.outputs)):
            p, keys = patterns[place.tensor], [(c.sort, c.faces) for c in place.orbit.classes]
            sizes_of = {key: c.size for key, c in zip(keys, place.orbit.classes, strict=True)}
            own = [
                [x[key] for key in keys] if {k: len(v) for k, v in x.items()} == sizes_of else None
                for x in sets[p]
            ]
            sides.append(list(zip(own, signs[p], strict=True)))
            odd.append(
                [sum(p.faces[d].kind.is_oriented for d, _ in faces) % 2 == 1 for _, faces in keys]
            )
        expected = [
            [
                (
                    0
                    if x is None or y is None
                    else of_x * of_y * definition.value(x, y, *odd, operation.overlap)
                )
                for x, of_x in sides[0]
            ]
            for y, of_y in sides[1]
        ]
        assert matrix.tolist() == expected
