"""Random examples for round trips, and closed complexes among them."""

from collections.abc import Sequence
from itertools import combinations
from random import Random
from typing import Any

import torch
from hypothesis import strategies as st

from incidence.algebra import Pattern
from incidence.structure import Example, Structure
from tests.structure.random_structures import random_structure

DTYPES = (torch.float32, torch.float64, torch.int64)
seeds = st.integers(0, 10_000)


def random_rows(
    count: int, channels: int, seed: int, dtype: torch.dtype = torch.float32
) -> torch.Tensor:
    rows = torch.randn(
        count, channels, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )
    return (rows * 10).to(dtype)


def with_features(
    structure: Structure, keys: Sequence[str], seed: int, channels: int = 2, target: Any = None
) -> Example:
    """Random features of several types, and the target."""
    features = {
        key: random_rows(structure.num_entries(key), channels, seed + k, DTYPES[(seed + k) % 3])
        for k, key in enumerate(keys)
    }
    return Example(structure, features, target)


def random_example(
    num_nodes: Any, texts: Sequence[str], keys: Sequence[str], seed: int, **more: Any
) -> Example:
    """Random entries of the patterns in random order and spelling, with random features."""
    return with_features(random_structure(num_nodes, texts, seed), keys, seed, **more)


def closed_complex(num_nodes: int, max_size: int, seed: int) -> Structure:
    """A random simplicial complex in the preferred order."""
    random = Random(seed)
    facets = [
        random.sample(range(num_nodes), min(num_nodes, random.randint(1, max_size)))
        for _ in range(random.randint(0, 5))
    ]
    index = {}
    for size in range(2, max_size + 1):
        found = sorted(
            {tuple(sorted(face)) for facet in facets for face in combinations(facet, size)}
        )
        index["{" + " ".join("ijklm"[:size]) + "}"] = (
            torch.tensor(found, dtype=torch.long).view(-1, size).T
        )
    return Structure(num_nodes, index)


def node_keys(structure: Structure) -> list[str]:
    return ["i", *(p.name or str(p) for p in structure.patterns)]


def same_meaning(text: str, other: str) -> bool:
    return Pattern(text) == Pattern(other)
