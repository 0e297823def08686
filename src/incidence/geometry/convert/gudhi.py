"""gudhi: `SimplexTree`, a simplicial complex with a value for every face."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError, need
from incidence.geometry.assembly import face_text
from incidence.geometry.convert.exchange import (
    as_array,
    assert_held,
    by_meaning,
    has_same_entries,
    single,
)
from incidence.structure import Example, Structure
from incidence.structure.arrange import orientations

__all__ = ["from_gudhi", "to_gudhi"]


def from_gudhi(tree: Any, max_size: int | None = None, oriented: bool = False) -> Example:
    r"""Read a simplex tree: `{i j}`, `{i j k}`, ... in the preferred order, with the filtration
    values as features, of `i` too.

    Args:
        tree: The simplex tree. Nodes are numbered by ascending vertices.
        max_size: The number of nodes of the largest faces: larger ones are left out, and there is a
            tensor for each size, empty or not, so that complexes of different dimension make a
            batch. Default: that of the tree.
        oriented: Whether to add the same faces as `<i j>`, `<i j k>`, ..., oriented by ascending
            vertices, as in gudhi. They have no features: a filtration value has no sign.

    Example:
        >>> import gudhi
        >>> tree = gudhi.SimplexTree()
        >>> _ = tree.insert([0, 1, 2], 0.5)
        >>> from_gudhi(tree).structure
        Structure(num_nodes=3, '{i j}': 3 entries, '{i j k}': 1 entry)
    """
    gudhi = need("gudhi", "from_gudhi", "convert")
    if not isinstance(tree, gudhi.SimplexTree):
        raise IncidenceError(f"from_gudhi takes a SimplexTree; got {type(tree).__name__}.")
    top = tree.dimension() + 1 if max_size is None else max_size
    listed = sorted(tree.get_skeleton(max(top - 1, 0)))  # by vertices: the preferred order
    index: dict[str, Any] = {}
    features = {}
    vertices = torch.zeros(0, dtype=torch.long)
    for size in range(1, max(top, 1) + 1):
        text = "i" if size == 1 else face_text(size)
        level = [(face, value) for face, value in listed if len(face) == size]
        faces = torch.tensor([face for face, _ in level], dtype=torch.long).view(-1, size)
        features[text] = torch.tensor([value for _, value in level], dtype=torch.float64)[:, None]
        if size == 1:
            vertices = faces[:, 0]
        else:
            # (letters, faces), numbers in place of vertices
            index[text] = torch.searchsorted(vertices, faces).T
    if oriented:
        index |= {str(_oriented(text)): faces for text, faces in index.items()}
    return Example(Structure(len(vertices), index), features)


def _oriented(text: str) -> Pattern:
    """The same faces with an orientation."""
    return Pattern(text.replace("{", "<").replace("}", ">"))


def _without_orientation(structure: Structure) -> Structure:
    """The structure with `{i j}` for `<i j>`, and nothing twice."""
    index = {str(p): structure[p] for p in structure.patterns if not p.is_oriented}
    for pattern in [p for p in structure.patterns if p.is_oriented]:
        text = str(pattern.unoriented())
        faces = structure[pattern]
        is_reversed = orientations(structure, pattern) < 0
        if bool(is_reversed.any()):
            bad = faces[:, int(is_reversed.nonzero()[0])].tolist()
            raise IncidenceError(
                f"to_gudhi: a simplex tree orients faces by ascending nodes, and {tuple(bad)} of"
                f" `{pattern}` is not. Reverse it first: s, signs = s.reverse('{pattern}', rows)."
            )
        if text in index and not has_same_entries(structure, text, faces):
            raise IncidenceError(
                f"to_gudhi: `{text}` and `{pattern}` are different faces, and a tree has one set of"
                " each size. Leave one out."
            )
        index.setdefault(text, faces)
    return Structure(structure.counts, index)


def to_gudhi(example: Example | Structure) -> Any:
    r"""Write a simplicial complex as a simplex tree, with features of one channel as filtration
    values, or zeros.

    Faces may be `{i j}`, `<i j>`, or both, which then must be the same. A tree orients them by
    ascending nodes.

    Raises:
        IncidenceError: It is not closed under subsets, a face comes after one that contains it, or
            one has an orientation that a tree cannot keep.

    Example:
        >>> triangle = Structure(3, {"{i j}": [[0, 0, 1], [1, 2, 2]], "{i j k}": [[0], [1], [2]]})
        >>> to_gudhi(triangle).num_simplices()
        7
    """
    gudhi = need("gudhi", "to_gudhi", "convert")
    example = single(example, "to_gudhi")
    structure = example.structure
    features = by_meaning(example)
    largest = max((len(p.letters) for p in structure.patterns), default=1)
    texts = ["i", *(face_text(size) for size in range(2, largest + 1))]
    assert_held(example, "to_gudhi", [*texts, *map(str, map(_oriented, texts))], texts)
    structure = _without_orientation(structure)
    texts = [text for text in texts if text == "i" or Pattern(text) in structure.patterns]
    has_all = features.keys() == set(map(Pattern, texts))
    if features and (not has_all or any(x.shape[1] != 1 for x in features.values())):
        raise IncidenceError(
            "to_gudhi: the filtration is a feature of one channel of every tensor, of `i` too, or"
            " of none."
        )
    tree = gudhi.SimplexTree()
    filtration = {}
    for text in texts:
        rows = structure[text].sort(dim=0)[0]
        values = features.get(Pattern(text), torch.zeros(rows.shape[1], 1))[:, 0].double()
        filtration[text] = (rows, values)

        array = np.ascontiguousarray(as_array(rows, "to_gudhi"), dtype=np.int32)
        tree.insert_batch(array, as_array(values, "to_gudhi"))
    if tree.num_simplices() != sum(len(values) for _, values in filtration.values()):
        raise IncidenceError(
            "to_gudhi: the faces are not closed under subsets: some edge or smaller face is"
            " missing. Add it first."
        )
    for text, (rows, values) in filtration.items():
        for face, value in zip(rows.T.tolist(), values.tolist(), strict=True):
            # gudhi lowers the value of a face that would come after one that contains it
            if tree.filtration(face) != value:
                raise IncidenceError(
                    f"to_gudhi: the face {face} of `{text}` has the value {value}, and one that"
                    f" contains it has {tree.filtration(face)}. A face comes no later than those"
                    " that contain it: lower its value."
                )
    return tree
