"""Random structures and features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from incidence.algebra.maps import EquivariantMap
from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.structure import Structure
from incidence.testing.rewriting import reoriented

__all__ = ["random_features", "random_structure"]


def random_structure(
    num_nodes: int | Mapping[str, int],
    patterns: Sequence[str],
    density: float = 0.5,
    generator: torch.Generator | None = None,
) -> Structure:
    """Return a structure in which every entry is present with a given probability.

    Entries have random order and orientation; open faces are random sets.

    Args:
        num_nodes: The number of nodes; with several sorts, a mapping from sort to number.
        patterns: The texts of the tensors.
        density: The probability of an entry.
        generator: The generator of the random numbers.

    Example:
        >>> s = random_structure(4, ["i j", "{i j k}"], density=1.0)
        >>> s.num_entries("i j"), s.num_entries("{i j k}")
        (16, 4)
    """
    counts = dict(num_nodes) if isinstance(num_nodes, Mapping) else {"node": num_nodes}
    index: dict[str, object] = {}
    for text in patterns:
        pattern = Pattern(text)
        if pattern.is_open:
            index[text] = _random_sets(pattern, counts, density, generator)
        elif pattern.faces:
            full = Structure.complete(counts, [text])[text]
            chosen = torch.randperm(full.shape[1], generator=generator)
            index[text] = full[:, chosen[torch.rand(len(chosen), generator=generator) < density]]
    return reoriented(Structure(counts, index), generator)[0]


def _random_sets(
    pattern: Pattern, counts: Mapping[str, int], density: float, generator: torch.Generator | None
) -> object:
    [face, *others] = pattern.faces
    if others or not face.is_open:
        raise IncidenceError(
            f"random structures have lone open faces, such as `{{i ...}}`; `{pattern}` has more:"
            " give its index yourself."
        )
    n = counts[face.letters[0].sort]
    is_in = torch.rand(max(1, n), n, generator=generator) < density  # (sets, nodes)
    # sets with fewer nodes than letters are no faces
    is_in = is_in[is_in.sum(1) >= len(face.letters)]
    different = list(dict.fromkeys(map(tuple, is_in.tolist())))
    sets = torch.tensor(different, dtype=torch.bool).view(len(different), n)
    entry, node = sets.nonzero().unbind(1)
    return torch.stack([node, entry])


def random_features(
    text: str,
    structure: Structure,
    channels: int = 3,
    dtype: torch.dtype = torch.float64,
    generator: torch.Generator | None = None,
) -> Tensor | dict[str, Tensor]:
    """Return random features for the tensors of one side of a map.

    Args:
        text: The side, for example `i, {i j}`.
        structure: The structure.
        channels: The number of channels.
        dtype: The type of the features.
        generator: The generator of the random numbers.

    Returns:
        One tensor, or a dict of several.
    """
    patterns = EquivariantMap(f"{text} -> ").inputs
    xs = {}
    for p in patterns:
        shape = structure.num_entries(p), channels
        xs[p.name or str(p)] = torch.randn(shape, dtype=dtype, generator=generator)
    return xs if len(patterns) > 1 else next(iter(xs.values()))
