"""The canonical order of entries, against its definition read off one entry at a time."""

from random import Random

import pytest
import torch

from incidence.algebra import Pattern
from incidence.structure import Structure
from incidence.structure.arrange import arrange, arranged
from incidence.structure.entries import Bucket
from tests.structure.listing import entry_of
from tests.structure.random_structures import random_index

PATTERNS = [
    "(i j)",
    "{i j}",
    "i j",
    "(i j k)",
    "[i j k]",
    "(i j) {j k}",
    "{i j} {k l}",
    "(i j k l)",
    "(i j) a:b",
    "i {i ...}",
    "{i ...} {i ...}",
]
# more columns than are compared one by one
WIDE = ["(a b c d e f g h k l)", "{a b c d e f g h k l}", "a {a b c d e f g h k l}"]


def arranged_by_hand(bucket: Bucket):
    """Order, masks and numbers of sets, word for word as the module says them."""
    sets: dict[tuple[int, ...], list[tuple[tuple[int, ...], int]]] = {}
    for place, nodes in enumerate(bucket.nodes.tolist()):
        label = dict(zip(nodes, bucket.labels, strict=True))
        sets.setdefault(tuple(sorted(nodes)), []).append(
            (tuple(label[v] for v in sorted(nodes)), place)
        )
    read = []
    for nodes, entries in sets.items():
        along = bucket.nodes[min(entries)[1]].tolist()
        words = sorted(
            (tuple(word[nodes.index(v)] for v in along), place) for word, place in entries
        )
        read.append((tuple(word for word, _ in words), nodes, [place for _, place in words]))
    masks = sorted({mask for mask, _, _ in read})
    order = [place for _, _, places in sorted(read) for place in places]
    return order, masks, [sum(mask == other for other, _, _ in read) for mask in masks]


def assert_as_by_hand(bucket: Bucket, num_nodes: int):
    found = arrange(bucket, num_nodes)
    order, masks, num_sets = arranged_by_hand(bucket)
    assert found.order.tolist() == order
    assert list(found.masks) == masks
    assert list(found.num_sets) == num_sets


@pytest.mark.parametrize("size", [15, 16, 17])
def test_words_that_fill_an_integer_are_told_from_node_sets(size):
    """With sixteen classes a word alone takes sixty bits."""
    letters = [f"a{n}" for n in range(size)]
    generator = torch.Generator().manual_seed(0)
    sets = [torch.randperm(40, generator=generator)[:size] for _ in range(6)]
    faces = [nodes[torch.randperm(size, generator=generator)] for nodes in sets for _ in range(3)]
    [found] = arranged(
        Structure(40, {f"({' '.join(letters)})": torch.stack(faces).T}), f"({' '.join(letters)})"
    )
    assert sum(found.num_sets) == 6
    assert_as_by_hand(found.bucket, 40)


def structure_of(text: str, seed: int, num_nodes: int, draws: int) -> Structure:
    pattern = Pattern(text)
    counts = dict.fromkeys(pattern.sorts.values(), num_nodes)
    return Structure(counts, {text: random_index(pattern, counts, Random(seed), draws)})


@pytest.mark.parametrize("text", PATTERNS)
@pytest.mark.parametrize("draws", [3, 30, 300])
def test_sets_stand_by_mask_and_nodes_and_their_entries_by_word(text, draws):
    s = structure_of(text, draws, 5, draws)
    for found in arranged(s, text):
        assert_as_by_hand(found.bucket, s.total_nodes)


@pytest.mark.parametrize("text", WIDE)
def test_faces_of_many_nodes_have_the_same_order(text):
    pattern = Pattern(text)
    columns = [Random(seed).sample(range(11), 10) for seed in range(30)]
    different = {entry_of(pattern, column, []): column for column in columns}
    s = Structure(11, {text: torch.tensor(list(different.values())).T})
    for found in arranged(s, text):
        assert_as_by_hand(found.bucket, 11)


def test_masks_may_differ_in_words_beyond_the_bits_of_an_integer():
    s = Structure.complete(6, "(i j k l m)")
    kept = torch.ones(s.num_entries("(i j k l m)"), dtype=torch.bool)
    kept[s.locate("(i j k l m)", [[5], [4], [3], [2], [1]])] = False  # the last word of 120
    [found] = arranged(s.masked("(i j k l m)", kept), "(i j k l m)")
    assert sorted(map(len, found.masks)) == [119, 120]
    assert_as_by_hand(found.bucket, 6)


@pytest.mark.parametrize(
    "text", ["{i j k}", "(i j)", "(i j k)", "i j k", "(i j) {j k}", "(i j k l m)"]
)
@pytest.mark.parametrize("num_nodes", [10**6, 2**40, 2**60, 2**61 - 1])
def test_the_order_is_that_of_the_nodes_however_large_their_numbers(text, num_nodes):
    few = structure_of(text, 0, 5, 1000)
    numbers = torch.tensor(sorted(Random(1).sample(range(num_nodes), 5)))
    many = Structure(num_nodes, {text: numbers[few[text]]})
    for one, other in zip(arranged(few, text), arranged(many, text), strict=True):
        assert torch.equal(one.order, other.order)
        assert (one.masks, one.num_sets) == (other.masks, other.num_sets)
