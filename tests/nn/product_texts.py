"""Texts of products of all kinds, and random ones; structures that have their tensors, and values
of these.
"""

from random import Random

import torch
from torch import Tensor

from incidence.algebra import Pattern
from incidence.algebra.products import ProductText
from incidence.structure import Structure
from incidence.structure.data import support_of
from tests.structure.random_structures import random_structure

TEXTS = [
    "i -> i",
    "i, i -> i",
    "i, j -> i j",
    "i j -> ",
    "i j -> i",
    "i j -> j i",
    "i -> i j",
    "i, i -> i j",
    "i i, i -> i",
    "i i -> i j",
    "i -> i i",
    "i j, j -> i",
    "i j, i -> i j",
    "i j, j k -> i k",
    "i j, k j -> i k",
    "i j, i j -> i j",
    "i j, j i -> ",
    "i j, j k, k i -> ",
    "i j, j k, k i -> i",
    "i j, j k, i k -> i j",
    "i j, j k, k l -> i l",
    "i j, k l -> i k",
    "i j, j k -> i k l",
    "i j, j k, i -> i k",
    "i j, i, j -> i j",
    "i j k, j k -> i",
    "i j k, k l -> i j l",
    "(i j), (j k) -> (i k)",
    "(i j), (j k), (k l), (l i) -> ",
    "(i j), (j k) -> i k",
    "{i j}, {i j} -> {i j}",
    "{i j} -> ",
    "{i j} -> i",
    "{i j} -> {j k}",
    "{i j}, {j k} -> {i k}",
    "{i j}, {j k} -> ",
    "{i j}, j -> i",
    "i, j -> {i j}",
    "{i j}, {j k}, {i k} -> {i j k}",
    "{i j k}, {i j} -> ",
    "{i j k}, {i j l} -> {k l}",
    "{i j k} -> {i j}",
    "{i j} {i k}, {i j} -> i",
    "i {i j}, j -> {i j}",
    "i {j k}, {j k} -> i",
    "[i j], [j k] -> [i k]",
    "[i j], [i j] -> [i j]",
    "[i j] -> i",
    "[i j k], i -> [j k]",
    ", i j -> i",
    ", i -> ",
    " -> i j",
    "u:a m:b, v:a m:b -> u:a v:a",
    "{u:a v:a m:b}, m:b -> {u:a v:a}",
    "i:a j:b, j:b k:c, i:a -> k:c",
    "one={i j}, two={j k} -> (i k)",
    "one={i j}, one={j k} -> i",
    "<i j>, j -> i",
    "<i j>, <i j> -> ",
    "<i j>, <j k> -> (i k)",
    "<i j>, <j k> -> <i k>",
    "<i j>, <j k> -> {i k}",
    "<i j>, {i j} -> <i j>",
    "<i j>, <j k> -> <i j k>",
    "<i j k>, <j k> -> i",
    "i, j -> <i j>",
    "i <i j>, j -> i",
    "i, i <j i> -> j",
    "<u:a v:a m:b>, u:a -> v:a m:b",
]

_CLOSING = {"(": ")", "{": "}", "[": "]", "<": ">"}


def random_text(
    random: Random, letters: str = "ijk", kinds: str = "({[< ", operands: int = 3
) -> str:
    """A random text: one to three operands and an output, each with up to two faces of up to three
    letters.
    """
    tensors = [_tensor(random, letters, kinds) for _ in range(random.randint(1, operands) + 1)]
    return f"{', '.join(tensors[:-1])} -> {tensors[-1]}"


def _tensor(random: Random, letters: str, kinds: str) -> str:
    return " ".join(_face(random, letters, kinds) for _ in range(random.choice([0, 1, 1, 2])))


def _face(random: Random, letters: str, kinds: str) -> str:
    opening = random.choice(kinds)
    if opening == " ":
        return random.choice(letters)
    chosen = random.sample(letters, random.randint(1, min(3, len(letters))))
    return f"{opening}{' '.join(chosen)}{_CLOSING[opening]}"


def random_dense_text(random: Random) -> str:
    """A random text of plain letters: what torch's own einsum knows."""
    tensors = [
        " ".join(random.choices("ijkl", k=random.randint(0, 3)))
        for _ in range(random.randint(1, 3))
    ]
    known = sorted({letter for tensor in tensors for letter in tensor.split()})
    output = random.sample(known, random.randint(0, min(len(known), 3)))
    return f"{', '.join(tensors)} -> {' '.join(output)}"


def structure_for(text: str, num_nodes: int, seed: int, draws: int = 8) -> Structure:
    """A random structure with the tensors of a product, each meaning once; `i i` needs `i j`."""
    patterns = [
        Pattern(f"{p.name}={widened(p)}" if p.name else widened(p))
        for p in ProductText(text).tensors
    ]
    by_name = {p.name or str(i): p for i, p in enumerate(dict.fromkeys(patterns))}
    return random_structure(num_nodes, list(map(str, by_name.values())), seed, draws)


def widened(pattern: Pattern) -> str:
    """A pattern of which a text reads the diagonal: `i j` for `i i`."""
    return "i j" if str(pattern.unnamed()) == "i i" else str(pattern.unnamed())


def values_for(text: str, structure: Structure, seed: int = 0, channels: int = 2) -> list[Tensor]:
    """Small whole numbers, whose products are exact."""
    generator = torch.Generator().manual_seed(seed)
    rows = [
        structure.num_entries(support_of(structure, pattern))
        for pattern in ProductText(text).operands
    ]
    return [torch.randint(-3, 4, (count, channels), generator=generator).double() for count in rows]
