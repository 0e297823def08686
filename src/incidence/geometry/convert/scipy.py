"""scipy: sparse matrices, of adjacency or of incidence."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError, need
from incidence.geometry.assembly import is_edge
from incidence.geometry.convert.edge_lists import both_directions, strict_entries
from incidence.geometry.convert.exchange import as_array, assert_held, by_meaning, single
from incidence.structure import Example, Structure

__all__ = ["from_scipy", "to_scipy"]


def from_scipy(matrix: Any, pattern: str = "i j") -> Example:
    r"""Read a matrix: every stored value, even 0, is an entry with the value as its feature, in the
    order of the matrix.

    Args:
        matrix: A sparse matrix or array of scipy, or a dense one, whose zeros are no entries.
        pattern: The tensor. `i j`, `(i j)` (no diagonal), `{i j}` (symmetric, no diagonal; one half
            may be stored), `<i j>` (antisymmetric; likewise) and `[i j]` for square matrices of
            adjacency; `u:user m:movie` for rectangular ones; `{i ...}` for matrices of incidence,
            nodes by faces.

    Raises:
        IncidenceError: The matrix is not what the pattern says.

    Example:
        >>> import scipy.sparse
        >>> from_scipy(scipy.sparse.eye_array(3, 3, k=1), "(i j)")
        Example(Structure(num_nodes=3, '(i j)': 2 entries), features={'(i j)': [2, 1]}, target=None)
        >>> incidence = [[1, 0], [1, 1], [0, 1]]
        >>> from_scipy(incidence, "{i ...}").structure
        Structure(num_nodes=3, '{i ...}': 2 entries)
    """
    sparse = need("scipy.sparse", "from_scipy", "convert")
    try:
        coo = sparse.coo_array(matrix)
    except (TypeError, ValueError) as error:
        raise IncidenceError(
            f"from_scipy takes a matrix; got {type(matrix).__name__}: {error}."
        ) from None
    if coo.ndim != 2:
        raise IncidenceError(f"from_scipy takes a matrix, with two axes; got {coo.ndim}.")
    places = torch.from_numpy(np.array(coo.coords, dtype=np.int64))  # (2, entries)
    values = torch.from_numpy(np.array(coo.data))[:, None]  # (entries, 1)
    return _read(Pattern(pattern), places, values, coo.shape)


def _is_incidence(pattern: Pattern) -> bool:
    return pattern.is_open and pattern.order == 1 and len(pattern.letters) == 1


def _read(pattern: Pattern, places: Tensor, values: Tensor, shape: tuple[int, int]) -> Example:
    if _is_incidence(pattern):
        odd = (values != 1).any(1)
        empty = torch.bincount(places[1], minlength=shape[1]) == 0
        if bool(odd.any()):
            u, f = places[:, int(odd.nonzero()[0])].tolist()
            raise IncidenceError(
                f"from_scipy: the entry ({u}, {f}) of a matrix of incidence is"
                f" {values[odd][0].item()}, and must be 1: a node is in a face or not. Values for"
                " pairs of a node and a face are features of a pattern such as `i e:edge`."
            )
        if bool(empty.any()):
            bad = int(empty.nonzero()[0])
            raise IncidenceError(
                f"from_scipy: column {bad} is empty, and a face has at least one node. Drop the"
                " column."
            )
        return Example(
            Structure({pattern.sorts[pattern.letters[0]]: shape[0]}, {str(pattern): places})
        )
    sizes = [len(face.letters) for face in pattern.faces]
    if pattern.is_open or sizes not in ([2], [1, 1]) or len(pattern.letters) != 2:
        raise IncidenceError(
            "from_scipy: a matrix is read as pairs, such as `i j` or `{i j}`, or as faces, `{i"
            f" ...}}`; got `{pattern}`."
        )
    features = {"the value": values}
    if is_edge(pattern):
        if shape[0] != shape[1]:
            raise IncidenceError(
                f"from_scipy: `{pattern}` has nodes of one sort, so its matrix is square; got"
                f" {shape[0]} by {shape[1]}. Rows and columns of two sorts are written `i:row"
                " j:column`; faces as columns `{i ...}`."
            )
        places, features = strict_entries(pattern, places, shape[0], features, "from_scipy")
    counts = dict(zip(pattern.sorts.values(), shape, strict=True))
    return Example(Structure(counts, {str(pattern): places}), {str(pattern): features["the value"]})


def to_scipy(example: Example | Structure, pattern: str | None = None) -> Any:
    r"""Write one tensor as a sparse matrix (`coo_array`), entries in their order, with its feature
    as the value, or ones.

    Args:
        example: An example or a structure.
        pattern: The tensor to write. Default: the only one there is; then nothing else must be
            there that would be lost.

    Raises:
        IncidenceError: A matrix cannot hold it.

    Example:
        >>> s = Structure(3, {"{i j}": [[0, 1], [1, 2]]})
        >>> to_scipy(s).toarray().astype(int).tolist()
        [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    """
    sparse = need("scipy.sparse", "to_scipy", "convert")
    example = single(example, "to_scipy")
    structure = example.structure
    first = str(next(iter(structure.patterns), "i j"))
    if pattern is None:
        assert_held(example, "to_scipy", [first], [] if _is_incidence(Pattern(first)) else [first])
    wanted = structure.resolve(first if pattern is None else pattern)
    tensor = next((p for p in structure.patterns if p == wanted), wanted)
    count = structure.num_entries(tensor)
    if _is_incidence(tensor):
        node, face = structure[tensor].cpu().numpy()
        shape = (structure.counts[tensor.faces[0].letters[0].sort], count)
        return sparse.coo_array((np.ones(len(node)), (node, face)), shape=shape)
    if len(tensor.letters) != 2 or tensor.is_open:
        raise IncidenceError(
            "to_scipy: a matrix holds pairs, such as `i j` or `{i j}`, or faces, `{i ...}`;"
            f" not `{tensor}`."
        )
    x = by_meaning(example).get(tensor, torch.ones(count, 1, dtype=torch.float64))
    if x.shape[1] != 1:
        raise IncidenceError(
            f"to_scipy: a matrix holds one value for each entry, and `{tensor}` has {x.shape[1]}"
            " channels. Take one of them."
        )
    pairs = both_directions(tensor, structure[tensor])
    values = as_array(pairs.values(x)[:, 0], "to_scipy")
    sizes = tuple(structure.counts[sort] for sort in tensor.sorts.values())
    return sparse.coo_array((values, tuple(pairs.nodes.cpu().numpy())), shape=sizes)
