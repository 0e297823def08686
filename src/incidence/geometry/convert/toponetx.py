"""TopoNetX: `SimplicialComplex`, `CellComplex`, `CombinatorialComplex` and `ColoredHyperGraph`."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import torch

from incidence.algebra.pattern import Pattern
from incidence.algebra.signs import sorting_sign
from incidence.errors import IncidenceError, need
from incidence.geometry.assembly import brackets, face_text
from incidence.geometry.convert.exchange import as_array, assert_held, attribute, by_meaning, single
from incidence.geometry.node_lists import NodeLists
from incidence.geometry.ranks import rank_of
from incidence.structure import Example, Structure
from incidence.structure.arrange import orientations

__all__ = ["from_toponetx", "to_toponetx"]

Cells = list[tuple[tuple[Hashable, ...], dict[Any, Any]]]
"""Cells of one rank: the nodes of each, and its attributes."""

_NODES = {"features": "i", "position": "pos=i"}


def from_toponetx(cells: Any, max_rank: int | None = None, oriented: bool | None = None) -> Example:
    r"""Read a complex: nodes in the order of `skeleton(0)`, cells in that of their skeletons, with
    the attributes `features`.

    A simplicial complex gives `{i j}`, `{i j k}`, ...; a cell complex `{i j}` and `face={i ...}`; a
    combinatorial complex or colored hypergraph `rank1={i ...}`, `rank2={i ...}`, ..., with `{i j}`
    for rank 1 where all of that rank have two nodes. The attribute `position` of nodes is the
    feature of `pos=i`.

    Args:
        cells: The complex.
        max_rank: The largest rank: larger cells are left out, and there is a tensor for each rank,
            empty or not, so that complexes of different dimension make a batch. Default: that of
            the complex.
        oriented: Whether the cells of a simplicial complex are `<i j>`, `<i j k>`, ..., and those
            of a cell complex, if they are triangles, with the orientations of the complex. Then
            `geometry.faces(s).signs` are those of its `incidence_matrix`. Default: whether
            `to_toponetx` made the complex of such faces.

    Raises:
        IncidenceError: Two cells of one rank have the same nodes, an attribute is missing
            somewhere, or cells have no orientation.

    Example:
        >>> import toponetx as tnx
        >>> from_toponetx(tnx.SimplicialComplex([[0, 1, 2], [2, 3]])).structure
        Structure(num_nodes=4, '{i j}': 4 entries, '{i j k}': 1 entry)
    """
    tnx = need("toponetx", "from_toponetx", "convert")
    readers: dict[Any, Callable[..., tuple[list[Cells], list[str]]]] = {
        tnx.SimplicialComplex: _read_simplices,
        tnx.CellComplex: _read_cells,
        tnx.ColoredHyperGraph: _read_colored,
    }
    read = next((reader for kind, reader in readers.items() if isinstance(cells, kind)), None)
    if read is None:
        raise IncidenceError(
            f"from_toponetx takes a complex of TopoNetX; got {type(cells).__name__}."
        )
    ranks, texts = read(cells, cells.dim if max_rank is None else max_rank)
    if cells.complex.get("oriented", False) if oriented is None else oriented:
        ranks, texts = _orient(ranks, texts)
    number = {node: k for k, ((node,), _) in enumerate(ranks[0])}
    node_data = [data for _, data in ranks[0]]
    features = {
        text: attribute(node_data, name, "nodes", "from_toponetx") for name, text in _NODES.items()
    }
    index = {}
    for text, rank in zip(texts, ranks[1:], strict=True):
        lists = NodeLists.of_lists([[number[node] for node in nodes] for nodes, _ in rank])
        pattern = Pattern(text)
        index[text] = lists.index
        if not pattern.is_open:
            index[text] = lists.nodes.view(len(rank), len(pattern.letters)).T
        cell_data = [data for _, data in rank]
        features[text] = attribute(cell_data, "features", f"cells of `{text}`", "from_toponetx")
    present = {key: x for key, x in features.items() if x is not None}
    return Example(Structure(len(number), index), present)


def _read_simplices(cells: Any, top: int) -> tuple[list[Cells], list[str]]:
    ranks = [
        [(tuple(s), cells[s]) for s in cells.skeleton(rank)] if rank <= cells.dim else []
        for rank in range(max(top, 0) + 1)
    ]
    return ranks, [face_text(rank + 1) for rank in range(1, len(ranks))]


def _orient(ranks: list[Cells], texts: list[str]) -> tuple[list[Cells], list[str]]:
    """The same cells with orientations: edges by ascending nodes, as in TopoNetX, others as they
    are listed.
    """
    oriented = [ranks[0]]
    oriented_texts = []
    for text, cells in zip(texts, ranks[1:], strict=True):
        size = 3 if text.startswith("face=") else len(Pattern(text).letters)
        wrong = next((nodes for nodes, _ in cells if len(nodes) != size), None)
        if wrong is not None or text.startswith("rank"):
            problem = f"`{text}` has the cell {wrong}"
            if text.startswith("rank"):
                problem = f"the cells `{text}` of this complex have none"
            raise IncidenceError(
                f"from_toponetx: edges and simplices have an orientation, and {problem}. Leave out"
                " oriented=True."
            )
        oriented_texts.append(face_text(size, brackets="<>"))
        if size == 2:
            cells = [(tuple(sorted(nodes)), data) for nodes, data in cells]  # type: ignore[type-var]
        oriented.append([_in_written_orientation(nodes, data) for nodes, data in cells])
    return oriented, oriented_texts


def _in_written_orientation(
    nodes: tuple[Any, ...], data: dict[Any, Any]
) -> tuple[tuple[Hashable, ...], dict[Any, Any]]:
    """A cell in the orientation that `to_toponetx` wrote, if it is another, with its features."""
    written = data.get("orientation")
    if written is None:
        return nodes, data
    if "features" not in data:
        return tuple(written), data
    sign = sorting_sign([nodes.index(node) for node in written])
    return tuple(written), {**data, "features": data["features"] * sign}


def _read_cells(cells: Any, top: int) -> tuple[list[Cells], list[str]]:
    nodes: Cells = [((node,), cells.nodes[node]) for node in cells.nodes]
    edges: Cells = [(tuple(edge), cells.edges[edge]) for edge in cells.edges]
    faces: Cells = [(tuple(cell.elements), cell._attributes) for cell in cells.cells]
    ranks = [nodes, edges, faces][: max(top, 0) + 1]
    return ranks, ["{i j}", "face={i ...}"][: len(ranks) - 1]


def _read_colored(cells: Any, top: int) -> tuple[list[Cells], list[str]]:
    by_rank = cells.cells.hyperedge_dict  # look-up by rank is broken in TopoNetX 0.2
    ranks: list[Cells] = []
    for rank in range(max(top, 0) + 1):
        listed: Cells = []
        for nodes, data in by_rank.get(rank, {}).items():
            ordered = tuple(sorted(nodes, key=str))
            # A colored hypergraph has several cells on the same nodes, each with a key.
            has_keys = data and all(isinstance(key, int) for key in data)
            listed += [(ordered, one) for one in (data.values() if has_keys else [data])]
        ranks.append(listed)
    texts = [f"rank{rank}={{i ...}}" for rank in range(1, len(ranks))]
    if texts and all(len(nodes) == 2 for nodes, _ in ranks[1]):
        texts[0] = "{i j}"
    return ranks, texts


def to_toponetx(example: Example | Structure, kind: str | None = None) -> Any:
    r"""Write a structure as a complex, features as attributes `features` (`position` for `pos=i`).

    A simplicial complex of TopoNetX orients its cells by ascending nodes. Features of oriented
    faces are written for that orientation, so that its matrices apply to them. Other orientations
    become an attribute `orientation`.

    Args:
        example: An example or a structure.
        kind: `simplicial` for `{i j}`, `{i j k}`, ..., or `<i j>`, `<i j k>`, ...; `cell` for `{i
            j}` and one tensor of faces such as `face={i ...}` or `ring={i ...}`; `combinatorial` or
            `colored` for `{i j}` or `rank1={i ...}`, `rank2={i ...}`, .... Default: the first of
            these that fits.

    Raises:
        IncidenceError: The complex cannot hold it.

    Example:
        >>> sides = [[0, 0, 1, 2], [1, 3, 2, 3]]
        >>> face = [[0, 1, 2, 3], [0, 0, 0, 0]]
        >>> to_toponetx(Structure(4, {"{i j}": sides, "face={i ...}": face}))
        CellComplex()
    """
    tnx = need("toponetx", "to_toponetx", "convert")
    example = single(example, "to_toponetx")
    kind = kind or _kind_of(example.structure)
    if kind not in _KINDS:
        raise IncidenceError(f"to_toponetx: kind is one of {', '.join(_KINDS)}; got {kind!r}.")
    complex_name, texts_of = _KINDS[kind]
    example, orientation_of = _ascending(example)
    structure = example.structure
    texts = texts_of(structure)
    assert_held(example, "to_toponetx", texts.values(), [*_NODES.values(), *texts.values()])
    made = getattr(tnx, complex_name)()
    nodes = _node_rows(example)
    has_ranks = kind in ("combinatorial", "colored")
    for node, data in nodes.items():
        made.add_node(node, **({} if has_ranks else data))
    present = {
        rank: text for rank, text in sorted(texts.items()) if Pattern(text) in structure.patterns
    }
    faces = {rank: _faces(structure, text) for rank, text in present.items()}
    around: dict[int, set[int]] = {v: set() for v in nodes}
    if kind == "cell":
        for u, v in faces.get(1, []):
            around[u].add(v)
            around[v].add(u)
    for rank, text in present.items():
        for number, (face, data) in enumerate(zip(faces[rank], _rows(example, text), strict=True)):
            if kind == "simplicial":
                made.add_simplex(face, **data, **orientation_of.get((text, number), {}))
            elif has_ranks:
                _add_ranked(made, face, rank, data)
            elif rank == 1:
                made.add_edge(*face, **data)
            else:
                made.add_cell(_cycle(face, around), rank=2, **data)
    total = len(nodes) + sum(map(len, faces.values()))
    if kind == "simplicial" and sum(made.shape) != total:
        raise IncidenceError(
            "to_toponetx: a simplicial complex is closed under subsets, and some edge or smaller"
            " face is missing here. Add it first."
        )
    if has_ranks and sum(made.shape[1:]) != total - len(nodes):
        raise IncidenceError(
            "to_toponetx: a combinatorial complex has no set of nodes in two ranks. Write it with"
            " kind='colored'."
        )
    if any(p.is_oriented for p in structure.patterns):
        made.complex["oriented"] = True
    if has_ranks:
        made.set_node_attributes(nodes)  # at the end, as adding a cell makes its nodes anew
    return made


def _kind_of(structure: Structure) -> str:
    names = {p.name for p in structure.patterns if p.is_open}
    if any(name and name.startswith("rank") for name in names):
        return "combinatorial"
    return "cell" if names else "simplicial"


def _add_ranked(made: Any, face: list[int], rank: int, data: dict[str, Any]) -> None:
    try:
        made.add_cell(face, rank=rank, **data)
    except ValueError as error:
        raise IncidenceError(f"to_toponetx: {error}.") from None


def _ascending(example: Example) -> tuple[Example, dict[tuple[str, int], dict[str, Any]]]:
    """The example with oriented faces by ascending nodes, and an attribute for every face that had
    another orientation.
    """
    structure = example.structure
    features = dict(example.features)
    orientation_of = {}
    for pattern in [p for p in structure.patterns if p.odd_pair is not None and p.order == 1]:
        is_reversed = orientations(structure, pattern) < 0
        for number in is_reversed.nonzero()[:, 0].tolist():
            nodes = tuple(structure[pattern][:, number].tolist())
            orientation_of[str(pattern), number] = {"orientation": nodes}
        structure, signs = structure.reverse(pattern, is_reversed)
        for key, x in features.items():
            if example.structure.resolve(key) == pattern:
                features[key] = x * signs.to(x.dtype)[:, None]
    return example.replace(structure=structure, features=features), orientation_of


def _faces(structure: Structure, text: str) -> list[list[int]]:
    """The nodes of every entry of lone faces, in the order of the structure."""
    pattern = structure.resolve(text)
    if not pattern.is_open:
        return structure[pattern].T.tolist()  # type: ignore[no-any-return]
    node, entry = structure[pattern]
    sizes = torch.bincount(entry, minlength=structure.num_entries(pattern)).tolist()
    return [part.tolist() for part in node[entry.sort(stable=True)[1]].split(sizes)]


def _rows(example: Example, text: str) -> list[dict[str, Any]]:
    """The attributes of every entry."""
    x = by_meaning(example).get(Pattern(text))
    if x is None:
        return [{} for _ in range(example.structure.num_entries(text))]
    return [{"features": row} for row in as_array(x, "to_toponetx")]


def _node_rows(example: Example) -> dict[int, dict[str, Any]]:
    rows: dict[int, dict[str, Any]] = {v: {} for v in range(example.structure.counts["node"])}
    features = by_meaning(example)
    for name, text in _NODES.items():
        if Pattern(text) in features:
            for v, row in enumerate(as_array(features[Pattern(text)], "to_toponetx")):
                rows[v][name] = row
    return rows


def _cycle(face: list[int], around: dict[int, set[int]]) -> list[int]:
    """The nodes of a face along its boundary: in their order, if that follows edges; else by the
    only cycle.
    """
    if all(v in around[u] for u, v in zip(face, [*face[1:], face[0]], strict=True)):
        return face
    inside = set(face)
    way = [face[0]]
    while len(way) < len(face):
        near = around[way[-1]] & inside
        ahead = [v for v in sorted(near) if v not in way]
        if not ahead or len(near) != 2:
            raise IncidenceError(
                f"to_toponetx: the nodes {sorted(face)} of a face are no cycle of edges without"
                " chords, so it has no boundary. Leave the face out."
            )
        way.append(ahead[0])
    return way


def _simplices(structure: Structure) -> dict[int, str]:
    kind = brackets(any(p.is_oriented for p in structure.patterns))
    largest = max((len(p.letters) for p in structure.patterns), default=1)
    return {size - 1: face_text(size, brackets=kind) for size in range(2, largest + 1)}


def _edges_and_faces(structure: Structure) -> dict[int, str]:
    faces = next((str(p) for p in structure.patterns if p.is_open), "face={i ...}")
    if Pattern("{i j}") not in structure.patterns or Pattern(faces).order != 1:
        raise IncidenceError(
            "to_toponetx: a cell complex has edges `{i j}`, and faces such as `face={i ...}`;"
            f" not `{faces}` alone."
        )
    return {1: "{i j}", 2: faces}


def _numbered(structure: Structure) -> dict[int, str]:
    held = [
        p
        for p in structure.patterns
        if p == Pattern("{i j}") or (p.is_open and (p.name or "").startswith("rank") and rank_of(p))
    ]
    ranks = {rank_of(p): str(p) for p in held}
    if len(ranks) < len(held):
        shown = ", ".join(f"`{p}`" for p in held)
        raise IncidenceError(
            f"to_toponetx: two of {shown} have one rank: call one of them `rank2`, for example."
        )
    return ranks


_KINDS = {
    "simplicial": ("SimplicialComplex", _simplices),
    "cell": ("CellComplex", _edges_and_faces),
    "combinatorial": ("CombinatorialComplex", _numbered),
    "colored": ("ColoredHyperGraph", _numbered),
}
