"""On complete structures the operators of a layer are a spanning set of the equivariant maps: all
of them, and nothing else.

The rank is compared with the exact dimension. That every operator is equivariant is seen by brute
force: nodes are exchanged in entries listed by exhaustion, and rows are found from the index alone.
"""

from math import comb, prod

import pytest
import torch

from incidence.algebra import EquivariantMap, Pattern
from incidence.structure import Structure
from tests.algebra import brute_force
from tests.cases import some
from tests.nn.complete_operators import operators
from tests.structure.listing import Entry, class_sets, entries_of

MAPS = [
    # directed faces and plain letters
    "i -> i",
    "i -> (i j)",
    "(i j) -> i",
    "(i j) -> (i j)",
    "(i j k) -> i",
    "(i j k) -> (i j)",
    "(i j k) -> (i j k)",
    "i j -> i j",
    "i j -> i j k",
    "i j k -> i",
    "i j k -> i j k",
    # undirected faces
    "i -> {i j}",
    "{i j} -> i",
    "{i j} -> {i j}",
    "{i j} -> {i j k}",
    "{i j k} -> {i j k}",
    "{i j k l} -> {i j}",
    "(i j) -> {i j}",
    "(i j k) -> {i j k}",
    "{i j k} -> (i j)",
    # symmetric faces
    "[i j] -> [i j]",
    "[i j] -> i j",
    "[i j] -> {i j}",
    "[i j k] -> [i j k]",
    "i [j k] -> i",
    "[i j] [j k] -> i",
    # partly symmetric
    "i {j k} -> i {j k}",
    "i {i j k} -> i {i j k}",
    "{i j} {i j k} -> {i j}",
    "{i j} {k l} -> i",
    # repeated letters
    "i i -> i i",
    "i i j -> j",
    "i {i j} -> i {i j}",
    "{i j} {i k} -> {i j} {i k}",
    "{i j} {i k} -> [i j]",
    "(i j) (j k) -> (i j)",
    "(i j) {j k} -> i {i j}",
    # sorts
    "i:a -> j:b",
    "i:a j:b -> i:a j:b",
    "i:a j:a k:b -> i:a j:a k:b",
    "{i:a j:a k:b} -> {i:a j:a k:b}",
    "u:user -> u:user m:movie",
    "(u:a v:b) -> {u:a w:a}",
    "[i:a j:b] -> j:b {j:b k:b}",
    # collections
    "i, {i j} -> i, {i j}",
    "i, (i j) -> i, (i j)",
    "i, {i j}, {i j k} -> i, {i j}, {i j k}",
    "(i j), {i j} -> i j",
    "one=i, two=i -> i, {i j}",
    "bond={i j}, contact={i j} -> bond={i j}, i",
    "i:a, i:a j:b -> j:b, i:a",
    # the scalar
    " -> i",
    " -> i j",
    "i j -> ",
    "{i j k} -> ",
    " -> ",
    ", i -> , i",
    "state=, {i j} -> state=, i",
]

SIZES = [
    *({"node": n, "a": n, "b": n, "user": n, "movie": n} for n in (1, 2, 3, 4, 5)),
    {"a": 2, "b": 3},
    {"a": 4, "b": 1},
]
MAX_WORK = 1_000_000  # numbers in all operators of a map


def num_entries(pattern: Pattern, counts: dict[str, int]) -> int:
    """Lists of disjoint class sets, added up over the orbits."""
    total = 0
    for orbit in pattern.orbits:
        left, ways = dict(counts), 1
        for c in orbit.classes:
            ways *= comb(left[c.sort], c.size)
            left[c.sort] -= c.size if left[c.sort] >= c.size else 0
        total += ways
    return total


def cases() -> list:
    found = []
    for text in MAPS:
        m = EquivariantMap(text)
        for sizes in SIZES:
            counts = {sort: sizes[sort] for sort in m.sorts if sort in sizes} or {
                "node": sizes.get("node", 0)
            }
            uneven = len(set(sizes.values())) > 1
            if set(m.sorts) - set(counts) or (uneven and len(m.sorts) < 2):
                continue
            work = len(m.operations) * prod(
                sum(num_entries(p, counts) for p in side) for side in (m.inputs, m.outputs)
            )
            if work <= MAX_WORK:
                found.append(
                    pytest.param(
                        text,
                        tuple(counts.items()),
                        id=f"{text}-{','.join(map(str, counts.values()))}",
                    )
                )
    return found


CASES = cases()


def dimension_at(m: EquivariantMap, sizes: tuple[tuple[str, int], ...]) -> int:
    return m.dimension_at({sort: n for sort, n in sizes if sort in m.sorts})


@pytest.mark.parametrize(("text", "sizes"), some(CASES))
def test_the_rank_of_the_operators_is_the_exact_dimension(text, sizes):
    m, _, matrices = operators(text, sizes)
    rank = 0
    for s in range(len(m.inputs)):
        for t in range(len(m.outputs)):
            of_pair = [
                matrix.flatten()
                for operation, matrix in zip(m.operations, matrices, strict=True)
                if (operation.source.tensor, operation.target.tensor) == (s, t)
            ]
            different = (
                torch.stack(of_pair).unique(dim=1) if of_pair[0].numel() else torch.zeros(1, 1)
            )
            rank += int(torch.linalg.matrix_rank(different))
    assert rank == dimension_at(m, sizes)


def raw(pattern: Pattern) -> brute_force.RawPattern:
    return brute_force.read(str(pattern.unnamed()))[0]


def exchanged(pattern: Pattern, listed: list[Entry], g: dict) -> torch.Tensor:
    """The row of every relabelled entry."""
    row_of = {entry: row for row, entry in enumerate(listed)}
    return torch.tensor(
        [row_of[brute_force.relabelled(e, raw(pattern), g)] for e in listed], dtype=torch.long
    )


@pytest.mark.parametrize(("text", "sizes"), some(CASES))
def test_every_operator_commutes_with_relabelling_of_nodes(text, sizes):
    m, structure, matrices = operators(text, sizes)
    listed = {p: entries_of(structure, str(p)) for p in m.inputs + m.outputs}
    for g in brute_force.generators(dict(sizes)):
        moved = {p: exchanged(p, entries, g) for p, entries in listed.items()}
        for k, (operation, matrix) in enumerate(zip(m.operations, matrices, strict=True)):
            rows, cols = (
                moved[m.outputs[operation.target.tensor]],
                moved[m.inputs[operation.source.tensor]],
            )
            assert torch.equal(matrix[rows][:, cols], matrix), f"operation {k}: {operation.overlap}"


@pytest.mark.parametrize(
    ("text", "sizes"), some(c for c in CASES if all(n == 3 for _, n in c.values[1]))
)
def test_every_operator_has_the_entries_of_the_definition(text, sizes):
    """B_A(y, x) is the product of the binomials C(|X_i n Y_j|, a_ij)."""
    m, structure, matrices = operators(text, sizes)
    sets = {
        p: [class_sets(e, p) for e in entries_of(structure, str(p))] for p in m.inputs + m.outputs
    }
    for operation, matrix in zip(m.operations, matrices, strict=True):
        sides = []
        for place, patterns in ((operation.source, m.inputs), (operation.target, m.outputs)):
            keys = [(c.sort, c.faces) for c in place.orbit.classes]
            sizes_of = {(c.sort, c.faces): c.size for c in place.orbit.classes}
            found = sets[patterns[place.tensor]]
            sides.append(
                [
                    (
                        [x[key] for key in keys]
                        if {k: len(v) for k, v in x.items()} == sizes_of
                        else None
                    )
                    for x in found
                ]
            )
        expected = [[value(x, y, operation.overlap) for x in sides[0]] for y in sides[1]]
        assert matrix.tolist() == expected


def value(x: list | None, y: list | None, overlap: tuple) -> int:
    if x is None or y is None:
        return 0
    return prod(
        comb(len(one & other), overlap[i][j])
        for i, one in enumerate(x)
        for j, other in enumerate(y)
    )


PATTERNS = dict.fromkeys(
    str(p.unnamed()) for m in map(EquivariantMap, MAPS) for p in m.inputs + m.outputs
)


@pytest.mark.parametrize("text", some(PATTERNS))
def test_a_complete_structure_has_every_entry_once(text):
    pattern = Pattern(text)
    counts = dict.fromkeys(pattern.sorts.values(), 4) or {"node": 4}
    structure = Structure.complete(counts, [text])
    listed = entries_of(structure, text)
    assert len(listed) == len(set(listed))
    assert set(listed) == brute_force.entries(raw(pattern), pattern.sorts, counts)


def test_at_least_forty_maps_reach_their_full_dimension():
    maps = {c.values: EquivariantMap(c.values[0]) for c in CASES}
    full = {text for (text, sizes), m in maps.items() if dimension_at(m, sizes) == m.dimension}
    assert len(full) >= 40
