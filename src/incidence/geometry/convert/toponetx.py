"""TopoNetX: `SimplicialComplex`, `CellComplex`, `CombinatorialComplex` and `ColoredHyperGraph`."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError, need
from incidence.geometry.assembly import face_text
from incidence.geometry.convert.exchange import as_array, assert_held, by_meaning, single, stacked
from incidence.structure import Example, Structure

__all__ = ["from_toponetx", "to_toponetx"]

Cells = list[tuple[tuple[Hashable, ...], dict[Any, Any]]]
"""Cells of one rank: the nodes of each, and its attributes."""

_NODES = {"features": "i", "position": "pos=i"}


def from_toponetx(cells: Any, max_rank: int | None = None) -> Example:
    r"""Reads a complex: nodes in the order of `skeleton(0)`, cells in that of their skeletons; attributes called `features` go along.

    A simplicial complex gives `{i j}`, `{i j k}`, ...; a cell complex `{i j}` and `face={i ...}`; a combinatorial complex or colored
    hypergraph `rank1={i ...}`, `rank2={i ...}`, ..., with `{i j}` for rank 1 where all of that rank have two nodes. The attribute
    `position` of nodes is the feature of `pos=i`.

    Args:
        cells: The complex.
        max_rank: The largest rank: larger cells are left out, and there is a tensor for each rank, empty or not, so that complexes of
            different dimension make a batch. If not given, that of the complex.

    Raises:
        IncidenceError: Two cells of one rank have the same nodes, or an attribute is missing somewhere.

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
        raise IncidenceError(f"from_toponetx takes a complex of TopoNetX; got {type(cells).__name__}.")
    ranks, texts = read(cells, cells.dim if max_rank is None else max_rank)
    number = {node: k for k, ((node,), _) in enumerate(ranks[0])}
    index, features = {}, {text: _attribute(ranks[0], name, "nodes") for name, text in _NODES.items()}
    for text, found in zip(texts, ranks[1:], strict=True):
        index[text] = _index(text, [[number[node] for node in nodes] for nodes, _ in found])
        features[text] = _attribute(found, "features", f"cells of `{text}`")
    return Example(Structure(len(number), index), {key: x for key, x in features.items() if x is not None})


def _read_simplices(cells: Any, top: int) -> tuple[list[Cells], list[str]]:
    ranks = [[(tuple(s), cells[s]) for s in cells.skeleton(rank)] if rank <= cells.dim else [] for rank in range(max(top, 0) + 1)]
    return ranks, [face_text(rank + 1) for rank in range(1, len(ranks))]


def _read_cells(cells: Any, top: int) -> tuple[list[Cells], list[str]]:
    nodes: Cells = [((node,), cells.nodes[node]) for node in cells.nodes]
    edges: Cells = [(tuple(edge), cells.edges[edge]) for edge in cells.edges]
    faces: Cells = [(tuple(cell.elements), cell._attributes) for cell in cells.cells]
    ranks = [nodes, edges, faces][: max(top, 0) + 1]
    return ranks, ["{i j}", "face={i ...}"][: len(ranks) - 1]


def _read_colored(cells: Any, top: int) -> tuple[list[Cells], list[str]]:
    kept = cells.cells.hyperedge_dict  # its own look-up by rank is broken in TopoNetX 0.2
    ranks: list[Cells] = []
    for rank in range(max(top, 0) + 1):
        found = [(nodes, data) for nodes, data in kept.get(rank, {}).items()]
        # A colored hypergraph keeps several cells on the same nodes, each with a key.
        several = [(n, own) for n, d in found for own in (d.values() if d and all(isinstance(k, int) for k in d) else [d])]
        ranks.append([(tuple(sorted(nodes, key=str)), data) for nodes, data in several])
    texts = [f"rank{rank}={{i ...}}" for rank in range(1, len(ranks))]
    if texts and all(len(nodes) == 2 for nodes, _ in ranks[1]):
        texts[0] = "{i j}"
    return ranks, texts


def _index(text: str, faces: Sequence[Sequence[int]]) -> Tensor:
    if not Pattern(text).is_open:
        return torch.tensor(faces, dtype=torch.long).view(len(faces), len(Pattern(text).letters)).T
    pairs = [(node, number) for number, nodes in enumerate(faces) for node in nodes]
    return torch.tensor(pairs, dtype=torch.long).view(-1, 2).T


def _attribute(cells: Cells, name: str, what: str) -> Tensor | None:
    values = [data[name] for _, data in cells if name in data]
    if values and len(values) < len(cells):
        raise IncidenceError(
            f"from_toponetx: {len(cells) - len(values)} of {len(cells)} {what} have no `{name}`. Give it to all, or to none."
        )
    return stacked(values, "from_toponetx", name) if values else None


def to_toponetx(example: Example | Structure, kind: str | None = None) -> Any:
    r"""Writes a structure as a complex, features as attributes called `features` (`position` for `pos=i`).

    Args:
        example: An example or a structure.
        kind: `simplicial` for `{i j}`, `{i j k}`, ...; `cell` for `{i j}` and one tensor of faces such as `face={i ...}` or `ring={i ...}`;
            `combinatorial` or `colored` for `{i j}` or `rank1={i ...}`, `rank2={i ...}`, .... If not given, the first of these that fits.

    Raises:
        IncidenceError: The complex cannot hold it.

    Example:
        >>> square = Structure(4, {"{i j}": [[0, 0, 1, 2], [1, 3, 2, 3]], "face={i ...}": [[0, 1, 2, 3], [0, 0, 0, 0]]})
        >>> to_toponetx(square)
        CellComplex()
    """
    tnx = need("toponetx", "to_toponetx", "convert")
    example = single(example, "to_toponetx")
    names = {p.name for p in example.structure.patterns if p.is_open}
    if kind is None:
        kind = "combinatorial" if any(n and n.startswith("rank") for n in names) else "cell" if names else "simplicial"
    writers = {"simplicial": _write_simplices, "cell": _write_cells, "combinatorial": _write_colored, "colored": _write_colored}
    if kind not in writers:
        raise IncidenceError(f"to_toponetx: kind is one of {', '.join(writers)}; got {kind!r}.")
    made = {
        "simplicial": "SimplicialComplex",
        "cell": "CellComplex",
        "combinatorial": "CombinatorialComplex",
        "colored": "ColoredHyperGraph",
    }
    return writers[kind](getattr(tnx, made[kind])(), example)


def _faces(structure: Structure, text: str) -> list[list[int]]:
    """The nodes of every entry of lone faces, in the order in which they are kept."""
    pattern = structure.resolve(text)
    if not pattern.is_open:
        return structure[pattern].T.tolist()  # type: ignore[no-any-return]
    node, entry = structure[pattern]
    order = entry.sort(stable=True)[1]
    sizes = torch.bincount(entry, minlength=structure.num_entries(pattern)).tolist()
    return [part.tolist() for part in node[order].split(sizes)]


def _rows(example: Example, text: str) -> list[dict[str, Any]]:
    """The attributes of every entry."""
    x = by_meaning(example).get(Pattern(text))
    count = example.structure.num_entries(text)
    return [{"features": row} for row in as_array(x, "to_toponetx")] if x is not None else [{} for _ in range(count)]


def _node_rows(example: Example) -> dict[int, dict[str, Any]]:
    found: dict[int, dict[str, Any]] = {v: {} for v in range(example.structure.counts["node"])}
    for name, text in _NODES.items():
        x = by_meaning(example).get(Pattern(text))
        for v, row in enumerate([] if x is None else as_array(x, "to_toponetx")):
            found[v][name] = row
    return found


def _write_simplices(made: Any, example: Example) -> Any:
    sizes = [len(p.letters) for p in example.structure.patterns]
    texts = [face_text(size) for size in range(2, max(sizes, default=1) + 1)]
    assert_held(example, "to_toponetx", texts, [*_NODES.values(), *texts])
    for node, data in _node_rows(example).items():
        made.add_node(node, **data)
    texts = [text for text in texts if Pattern(text) in example.structure.patterns]
    for text in texts:
        for face, data in zip(_faces(example.structure, text), _rows(example, text), strict=True):
            made.add_simplex(face, **data)
    if sum(made.shape) != example.structure.counts["node"] + sum(example.structure.num_entries(text) for text in texts):
        raise IncidenceError("to_toponetx: a simplicial complex is closed under subsets, and some edge or smaller face is missing here.")
    return made


def _write_cells(made: Any, example: Example) -> Any:
    structure = example.structure
    faces = next((str(p) for p in structure.patterns if p.is_open), "face={i ...}")
    texts = ["{i j}", faces]
    assert_held(example, "to_toponetx", texts, [*_NODES.values(), *texts])
    if Pattern("{i j}") not in structure.patterns or Pattern(faces).order != 1:
        raise IncidenceError(f"to_toponetx: a cell complex has edges `{{i j}}`, and faces such as `face={{i ...}}`; not `{faces}` alone.")
    for node, data in _node_rows(example).items():
        made.add_node(node, **data)
    edges = _faces(structure, "{i j}")
    for edge, data in zip(edges, _rows(example, "{i j}"), strict=True):
        made.add_edge(*edge, **data)
    joined = {frozenset(edge) for edge in edges}
    around: dict[int, set[int]] = {v: set() for v in range(structure.counts["node"])}
    for u, v in edges:
        around[u].add(v)
        around[v].add(u)
    if Pattern(faces) in structure.patterns:
        for face, data in zip(_faces(structure, faces), _rows(example, faces), strict=True):
            made.add_cell(_cycle(face, joined, around), rank=2, **data)
    return made


def _cycle(face: list[int], joined: set[frozenset[int]], around: dict[int, set[int]]) -> list[int]:
    """The nodes of a face along its boundary: as they are kept, if that goes along edges; else by the only way there is."""
    if all(frozenset(pair) in joined for pair in zip(face, [*face[1:], face[0]], strict=True)):
        return face
    inside = set(face)
    way = [face[0]]
    while len(way) < len(face):
        ahead = [v for v in sorted(around[way[-1]] & inside) if v not in way]
        if not ahead or len(around[way[-1]] & inside) != 2:
            raise IncidenceError(
                f"to_toponetx: the nodes {sorted(face)} of a face are no cycle of edges without chords, so it has no boundary."
            )
        way.append(ahead[0])
    return way


def _write_colored(made: Any, example: Example) -> Any:
    structure = example.structure
    held = [p for p in structure.patterns if _rank_of(p)]
    ranks = {_rank_of(p): str(p) for p in held}
    if len(ranks) < len(held):
        shown = ", ".join(f"`{p}`" for p in held)
        raise IncidenceError(f"to_toponetx: two of {shown} have one rank: call one of them `rank2`, for example.")
    assert_held(example, "to_toponetx", ranks.values(), [*_NODES.values(), *ranks.values()])
    for node in range(structure.counts["node"]):
        made.add_node(node)
    total = 0
    for rank, text in sorted(ranks.items()):
        for face, data in zip(_faces(structure, text), _rows(example, text), strict=True):
            try:
                made.add_cell(face, rank=rank, **data)
            except ValueError as error:
                raise IncidenceError(f"to_toponetx: {error}.") from None
            total += 1
    if sum(made.shape[1:]) != total:
        raise IncidenceError("to_toponetx: a combinatorial complex has no set of nodes in two ranks. Write it with kind='colored'.")
    made.set_node_attributes(_node_rows(example))  # at the end, as adding a cell makes its nodes anew
    return made


def _rank_of(pattern: Pattern) -> int:
    """The rank that a tensor has in a combinatorial complex; 0 if it has none."""
    if pattern == Pattern("{i j}"):
        return 1
    name = pattern.name or ""
    is_lone = pattern.is_open and pattern.order == 1 and len(pattern.letters) == 1
    return int(name.removeprefix("rank")) if is_lone and name.startswith("rank") and name.removeprefix("rank").isdigit() else 0
