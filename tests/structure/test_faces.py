"""Entries of a pattern found from the faces present, against the definition."""

from collections.abc import Iterator
from itertools import permutations, product
from random import Random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from incidence.algebra import Pattern
from incidence.errors import IncidenceError, TooLargeError
from incidence.structure import Structure, collate
from incidence.structure.faces import lone
from tests.structure.listing import Entry, Node, entries_of
from tests.structure.random_structures import random_structure

T = torch.tensor
modest = settings(deadline=None, max_examples=80, derandomize=True)
few = settings(modest, max_examples=20)
LONE = ["(i j)", "{i j}", "{i j k}", "[i j]", "{i ...}"]
CLOSED = [
    *(
        "i",
        "{i j}",
        "i j",
        "i {i j}",
        "i {j k}",
        "{i j} {i k}",
        "{i j} {k l}",
        "(i j) (j k)",
        "(i j) (j k) (k i)",
        "{i j} {i j k}",
    ),
    *(
        "i {i j} {i j k}",
        "{i j k} {i j l}",
        "{i j k} {i l m}",
        "[i j] i",
        "[i j] [j k]",
        "[i j] {i j}",
        "(i j) {i j k}",
    ),
    *("{i j} {j k} {k l}", "i j {i j}", "(i j) [j i] {i k}"),
]
OPEN = [
    *(
        "{i ...}",
        "i {i ...}",
        "{i ...} {i ...}",
        "{i j ...} {i j ...}",
        "{i j} {i j ...}",
        "i {i ...} {i ...}",
        "{i ...} {j ...}",
    ),
    *(
        "(i j) {i ...} {j ...}",
        "{i j k ...}",
        "i {i j ...} {i j k ...}",
        "{i j k} {i l ...} {j l ...}",
    ),
]
LONE_SORTED = ["{u:user v:user}", "{u:user v:user m:movie}", "(u:user m:movie)", "{m:movie ...}"]
SORTED = [
    *(
        "u:user m:movie",
        "u:user {u:user v:user}",
        "{u:user v:user m:movie} m:movie",
        "{u:user m:movie v:user} {v:user w:user}",
    ),
    *(
        "(u:user m:movie) (v:user m:movie)",
        "u:user m:movie {m:movie ...}",
        "{m:movie ...} (u:user m:movie) {u:user v:user n:movie}",
    ),
]


def assignments(pattern: Pattern, entry: Entry) -> Iterator[dict[str, Node]]:
    """All ways to read the letters of a pattern on given faces, by trying every order of the nodes
    of every unordered face.
    """
    orders = [
        (
            [nodes]
            if face.kind.is_ordered
            else permutations(nodes, len(face.letters) if face.is_open else None)
        )
        for face, nodes in zip(pattern.faces, entry, strict=True)
    ]
    for faces in product(*orders):
        at: dict[str, Node] = {}
        pairs = [
            pair
            for face, nodes in zip(pattern.faces, faces, strict=True)
            for pair in zip(face.letters, nodes, strict=True)
        ]
        if all(
            letter.sort == node[0] and at.setdefault(letter.name, node) == node
            for letter, node in pairs
        ):
            yield at


def found_by_definition(structure: Structure, pattern: Pattern) -> set[Entry]:
    """Every choice of a present face for each face of the pattern on which the letters can
    be read.
    """
    lists = []
    for face in pattern.faces:
        sort = face.letters[0].sort
        text = f"{{x:{sort} ...}}" if face.is_open else str(lone(face))
        lists.append([entry[0] for entry in entries_of(structure, text)])
    return {
        entry for entry in product(*lists) if next(assignments(pattern, entry), None) is not None
    }


def small_structure(seed: int) -> Structure:
    random = Random(seed)
    return random_structure(random.choice([1, 2, 3, 4]), LONE, seed, draws=random.choice([1, 4, 6]))


def small_tables(seed: int) -> Structure:
    return random_structure(
        {"user": Random(seed).choice([0, 1, 3]), "movie": 3}, LONE_SORTED, seed, draws=5
    )


# ---- the definition


@modest
@given(st.sampled_from(CLOSED + OPEN), st.integers(0, 10**4))
def test_the_entries_are_those_of_the_definition_each_once(text, seed):
    structure = small_structure(seed)
    found = entries_of(structure.with_pattern(text), text)
    assert len(set(found)) == len(found)
    assert set(found) == found_by_definition(structure, Pattern(text))


@modest
@given(st.sampled_from(SORTED), st.integers(0, 10**4))
def test_sorts_keep_their_nodes_apart(text, seed):
    structure = small_tables(seed)
    found = entries_of(structure.with_pattern(text), text)
    assert len(set(found)) == len(found)
    assert set(found) == found_by_definition(structure, Pattern(text))


@pytest.mark.parametrize("text", CLOSED)
def test_on_a_complete_structure_all_entries_are_found_in_the_preferred_order(text):
    for num_nodes in range(6):
        lone = Structure.complete(num_nodes, LONE[:-1])
        found, everything = lone.with_pattern(text), Structure.complete(num_nodes, text)
        assert Structure(num_nodes, {text: found[text]}) == everything
        assert found.canonical()[0] == found


@few
@given(st.sampled_from(CLOSED + OPEN), st.lists(st.integers(0, 10**4), min_size=1, max_size=4))
def test_entries_of_a_batch_never_cross_structures(text, seeds):
    structures = [small_structure(seed) for seed in seeds]
    assert collate(structures).with_pattern(text) == collate(
        [s.with_pattern(text) for s in structures]
    )


@few
@given(st.sampled_from(OPEN + CLOSED), st.integers(0, 10**4))
def test_finding_commutes_with_relabelling_of_nodes(text, seed):
    structure = small_structure(seed)
    turn = torch.randperm(structure.num_nodes, generator=torch.Generator().manual_seed(seed))
    one, other = (
        structure.relabel(turn).with_pattern(text),
        structure.with_pattern(text).relabel(turn),
    )
    assert one.canonical()[0] == other.canonical()[0]


@few
@given(st.sampled_from(OPEN + CLOSED), st.integers(0, 10**4))
def test_the_new_tensor_is_right_for_a_structure_that_checks_everything(text, seed):
    found = small_structure(seed).with_pattern(text)
    again = Structure(found.num_nodes, {str(p): found[p] for p in found.patterns})
    assert again == found


# ---- which tensor lists a face


SOLID = Structure(
    5,
    {
        "{i j}": T([[0, 1, 2, 0], [1, 2, 3, 3]]),
        "bond={i j}": T([[0], [4]]),
        "rank2={i ...}": T([[0, 1, 2, 3], [0, 0, 0, 0]]),
        "rank3={i ...}": T([[0, 1, 2, 3, 4], [0, 0, 0, 0, 0]]),
    },
)


def test_a_face_without_a_name_is_the_tensor_without_a_name():
    assert SOLID.with_pattern("i {i j}").num_entries("i {i j}") == 8


def test_a_chosen_tensor_lists_the_faces():
    assert SOLID.with_pattern("i {i j}", faces={"{i j}": "bond"})["i {i j}"].T.tolist() == [
        [0, 4],
        [4, 0],
    ]
    assert SOLID.with_pattern("{i j} {j k}", faces={1: "bond"})["{i j} {j k}"].T.tolist() == [
        [1, 0, 4],
        [3, 0, 4],
    ]


def test_faces_of_two_tensors_meet():
    found = SOLID.with_pattern("{i ...} {i ...}", faces={0: "rank2", 1: "rank3"})
    assert found.num_entries("{i ...} {i ...}") == 1


def test_the_only_tensor_that_fits_is_taken_though_it_has_a_name():
    mesh = Structure(4, {"{i j}": T([[0], [1]]), "face={i ...}": T([[0, 1, 2], [0, 0, 0]])})
    assert mesh.with_pattern("{i j} {i j ...}").num_entries("{i j} {i j ...}") == 1


def test_the_order_of_sorts_inside_an_unordered_face_is_immaterial():
    pairs = Structure({"user": 2, "movie": 3}, {"pair={m:movie u:user}": T([[2, 0], [1, 1]])})
    assert pairs.with_pattern("u:user {u:user n:movie}")["u:user {u:user n:movie}"].T.tolist() == [
        [1, 0],
        [1, 2],
    ]


def test_a_tensor_without_a_name_comes_before_those_with_one():
    both = Structure(
        3, {"{i j ...}": T([[0, 1], [0, 0]]), "face={i ...}": T([[0, 1, 2], [0, 0, 0]])}
    )
    assert both.with_pattern("i {i ...}").num_entries("i {i ...}") == 2


def test_open_faces_of_too_few_nodes_are_left_out():
    edges = Structure(4, {"{i ...}": T([[0, 1, 2, 3], [0, 0, 0, 1]])})
    assert edges.with_pattern("{i j ...}")["{i j ...}"].tolist() == [[0, 1, 2], [0, 0, 0]]


def test_an_index_of_nodes_says_which_are_present():
    some = Structure(3, {"i": T([[2, 0]]), "{i j}": T([[0, 1], [1, 2]])})
    assert sorted(some.with_pattern("i {i j}")["i {i j}"].T.tolist()) == [[0, 1], [2, 1]]


def test_the_new_tensor_has_the_name_of_the_pattern_and_the_others_stay():
    found = SOLID.with_pattern("meets={i j} {i k}")
    assert found.num_entries("meets") == 12
    assert all(torch.equal(found[p], SOLID[p]) for p in ("{i j}", "bond", "rank2", "rank3"))


def test_a_pattern_that_is_there_is_found_anew():
    given_ = Structure(3, {"{i j}": T([[0], [1]]), "i {i j}": T([[0], [1]])})
    assert given_.with_pattern("i {i j}").num_entries("i {i j}") == 2


# ---- work


def test_chains_that_lead_nowhere_cost_nothing():
    # edges into the hub and out of it make 16 million paths, but none of them goes on
    many = 4000
    hub = torch.cat(
        [
            torch.stack([torch.arange(1, many), torch.zeros(many - 1)]),
            torch.stack([torch.zeros(many), many + torch.arange(many)]),
        ],
        1,
    )
    found = Structure(2 * many, {"(i j)": hub.long()}).with_pattern(
        "(i j) (j k) (k l)", limit=10_000
    )
    assert found.num_entries("(i j) (j k) (k l)") == 0


def test_a_request_that_is_too_large_is_refused_before_it_is_listed():
    star = Structure(
        10**5,
        {"{i j}": torch.stack([torch.zeros(10**5 - 1, dtype=torch.long), torch.arange(1, 10**5)])},
    )
    with pytest.raises(
        TooLargeError,
        match=(
            r"`\{i j\} \{i k\}` has too many entries here: 9,999,900,000 combinations, and the"
            r" limit is 1,000,000"
        ),
    ):
        star.with_pattern("{i j} {i k}", limit=10**6)
    with pytest.raises(TooLargeError, match="limit is 20,000,000"):
        star.with_pattern("i j")


def test_many_ways_to_read_a_face_are_counted_before_they_are_listed():
    face = Structure(12, {"{a b c d e f g h i j k l}": torch.arange(12)[:, None]})
    with pytest.raises(TooLargeError, match="479,001,600 combinations"):
        face.with_pattern("{a b c d e f g h i j k l} " + " ".join("abcdefghijkl"))


def test_incidences_of_open_faces_are_counted_before_they_are_listed():
    face = Structure(
        100, {"{i ...}": torch.stack([torch.arange(100), torch.zeros(100, dtype=torch.long)])}
    )
    with pytest.raises(
        TooLargeError, match="too many nodes in the entries found: 10,000 combinations"
    ):
        face.with_pattern("i {i ...}", limit=1000)


# ---- refusals


@pytest.mark.parametrize("limit", [True, -1, 2.0, "3", None])
def test_a_limit_that_is_no_number_of_entries_is_refused(limit):
    with pytest.raises(IncidenceError, match=f"limit must be an integer from 0, .*; got {limit!r}"):
        Structure(2, {"{i j}": [[0], [1]]}).with_pattern("i {i j}", limit=limit)


def test_faces_that_no_tensor_lists_are_refused():
    with pytest.raises(
        IncidenceError,
        match=(
            r"`\{i j\} \{i j k\}` needs the faces `\{i j k\}`, which are not here; there are: `\{i"
            r" j\}`"
        ),
    ):
        SOLID.with_pattern("{i j} {i j k}")


def test_faces_that_several_tensors_list_are_refused_with_the_way_to_choose():
    with pytest.raises(
        IncidenceError,
        match=r"may be one of `rank2=.* or `rank3=.*: say which, as in faces=\{1: 'rank2'\}",
    ):
        SOLID.with_pattern("i {i ...}")


def test_a_chosen_tensor_of_other_faces_is_refused():
    with pytest.raises(
        IncidenceError, match=r"`rank2=\{i \.\.\.\}` does not list faces like `\{i j\}`, face 1"
    ):
        SOLID.with_pattern("i {i j}", faces={1: "rank2"})
    with pytest.raises(IncidenceError, match=r"has no face '\(i j\)'; it has 0: `i`, 1: `\{i j\}`"):
        SOLID.with_pattern("i {i j}", faces={"(i j)": "bond"})
    with pytest.raises(IncidenceError, match="faces maps faces of the pattern"):
        SOLID.with_pattern("i {i j}", faces="bond")
    with pytest.raises(IncidenceError, match="no tensor is called `bnod`"):
        SOLID.with_pattern("i {i j}", faces={1: "bnod"})


def test_the_empty_pattern_is_refused():
    with pytest.raises(IncidenceError, match="nothing to find"):
        SOLID.with_pattern("")


def test_a_name_that_means_another_tensor_is_refused():
    with pytest.raises(IncidenceError, match=r"`bond` is `bond=\{i j\}` here already"):
        SOLID.with_pattern("bond={i j} {i k}")
    assert SOLID.with_pattern("bond={i j}").num_entries("bond") == 4


def test_a_sort_that_is_not_there_is_refused():
    with pytest.raises(IncidenceError, match="needs nodes of sort `user`"):
        SOLID.with_pattern("u:user {i j}")


def test_rows_become_entries():
    pairs = SOLID._attach(
        Pattern("pair={i j} {k l}"),
        T([[0], [1], [2], [3]]),
        [(Pattern("{i j}"), T([0])), (Pattern("{i j}"), T([2]))],
    )
    assert pairs["pair"].tolist() == [[0], [1], [2], [3]]


def test_the_orbits_of_a_long_path_are_listed_once_for_all_its_shapes(monkeypatch):
    from incidence.algebra import pattern as module

    calls = []
    listed = module.orbits
    monkeypatch.setattr(
        module, "orbits", lambda pattern: calls.append(str(pattern)) or listed(pattern)
    )
    square = Structure(4, {"{i j}": [[0, 1, 2, 0], [1, 2, 3, 3]]})
    text = "{a b} {b c} {c d} {d e} {e f} {f p}"
    assert square.with_pattern(text).num_entries(text) == 252
    assert calls == [text]


def test_an_oriented_face_is_found_where_its_set_of_nodes_is_and_the_other_way_round():
    s = Structure(4, {"{i j}": T([[2, 1], [0, 3]]), "<i j k>": T([[2], [1], [0]])})
    # oriented by ascending nodes
    assert s.with_pattern("<i j>")["<i j>"].T.tolist() == [[0, 2], [1, 3]]
    assert s.with_pattern("{i j k}")["{i j k}"].T.tolist() == [[0, 1, 2]]
    assert s.with_pattern("i <i j>")["i <i j>"].T.tolist() == [[0, 2], [2, 0], [1, 3], [3, 1]]
    both = s.with_pattern("{i j} <i j k>")["{i j} <i j k>"]
    assert both.T.tolist() == [[0, 2, 1]]
    named = Structure(4, {"bond={i j}": T([[2], [0]]), "<i j>": T([[1], [3]])})
    assert named.with_pattern("<i j> k", faces={"<i j>": "bond"}).num_entries("<i j> k") == 4
    # the tensor that is written like the face goes first
    assert named.with_pattern("i <i j>").num_entries("i <i j>") == 2
    two = Structure(4, {"{i j}": T([[2], [0]]), "other=<i j>": T([[1, 0], [3, 2]])})
    assert two.with_pattern("{i j} <i k>", faces={"<i j>": "other"}).num_entries("{i j} <i k>") == 1
