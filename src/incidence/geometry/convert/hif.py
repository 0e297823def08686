"""HIF: the JSON files by which hypergraph libraries exchange their data."""

from __future__ import annotations

import gzip
import json
import zlib
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError, shown
from incidence.files import regular_file, whole_file
from incidence.geometry.convert.exchange import assert_held, by_meaning, single
from incidence.limits import assert_unpacked, parse_json
from incidence.structure.example import Example
from incidence.structure.structure import Structure

__all__ = ["HifTables", "read_hif", "read_hif_tables", "write_hif"]

_TYPES = {"undirected": "{i ...}", "asc": "{i ...}", "directed": "{i ...} {j ...}"}
_PAIRS = "i e:edge"
_GZIP = b"\x1f\x8b"
_OUR_METADATA = ("attrs", "pattern", "types")

_WORDS = {"dict": "an object", "list": "a list", "str": "a text"}

T = TypeVar("T")


class HifTables(NamedTuple):
    """What a HIF file says, as texts by column.

    A list of numbers that is as long in every record becomes a column for each number, such as
    `features[0]`. Other lists, and objects, are left out.

    Attributes:
        nodes: A column `node` with the names, then one for each attribute.
        edges: A column `edge` with the names, then one for each attribute.
        incidences: Columns `node` and `edge`, then one for each attribute, such as `weight`.
        metadata: What the file says of the whole hypergraph: texts and numbers of `metadata`, and
            of `attrs` in it.
        left_out: A sentence for each attribute that is left out.
    """

    nodes: dict[str, list[str]]
    edges: dict[str, list[str]]
    incidences: dict[str, list[str]]
    metadata: dict[str, str]
    left_out: tuple[str, ...] = ()


def read_hif_tables(path: Any) -> HifTables:
    """Read all texts and numbers of a HIF file: the labels, too, which are no features.

    Raises:
        IncidenceError: The file is no HIF file.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     write_hif(Structure(2, {"{i ...}": [[0, 1], [0, 0]]}), f"{folder}/one.hif.json")
        ...     read_hif_tables(f"{folder}/one.hif.json").incidences
        {'node': ['0', '1'], 'edge': ['0', '0']}
    """
    path = regular_file(path, "a HIF file")
    content = _content(path)
    nodes = _records(content, "nodes", "node", path)
    edges = _records(content, "edges", "edge", path)
    incidences = _checked_incidences(content, path)
    for record in incidences:
        nodes.setdefault(record["node"], {})
        edges.setdefault(record["edge"], {})
    of_nodes, of_edges, of_pairs, of_whole = (
        _plain_records(some)
        for some in (
            [_attributes(one, path) for one in nodes.values()],
            [_attributes(one, path) for one in edges.values()],
            [_attributes(one, path) for one in incidences],
            [_attributes_of_whole(content, path)],
        )
    )
    pairs = [{"node": str(one["node"]), "edge": str(one["edge"])} for one in incidences]
    parts = {"nodes": of_nodes, "edges": of_edges, "incidences": of_pairs, "metadata": of_whole}
    return HifTables(
        _by_column(["node"], _named([{"node": str(key)} for key in nodes], of_nodes.rows)),
        _by_column(["edge"], _named([{"edge": str(key)} for key in edges], of_edges.rows)),
        _by_column(["node", "edge"], _named(pairs, of_pairs.rows)),
        of_whole.rows[0],
        tuple(
            f"the attribute `{name}` of {part} has lists or objects, and is left out."
            for part, found in parts.items()
            for name in found.left_out
        ),
    )


def _attributes(record: dict[str, Any], path: Path) -> dict[str, Any]:
    """The attributes of a record, and its weight."""
    attributes = {"weight": record["weight"]} if "weight" in record else {}
    return attributes | _part(record, "attrs", dict, path)


def _attributes_of_whole(content: dict[str, Any], path: Path) -> dict[str, Any]:
    """The metadata without what `write_hif` wrote for `read_hif`."""
    metadata = dict(_part(content, "metadata", dict, path))
    metadata |= _part(metadata, "attrs", dict, path)
    return {key: value for key, value in metadata.items() if key not in _OUR_METADATA}


class _PlainRecords(NamedTuple):
    """Records as texts, and the names of the attributes that are none."""

    rows: list[dict[str, str]]
    left_out: list[str]


def _plain_records(records: list[dict[str, Any]]) -> _PlainRecords:
    widths: dict[str, set[int]] = {}
    for record in records:
        for name, value in record.items():
            if value is not None:
                widths.setdefault(name, set()).add(_width(value))
    # Lists of different lengths have no column of their own for each place.
    left_out = [name for name, some in widths.items() if len(some) > 1 or -1 in some]
    rows = [
        {
            column: text
            for name, value in record.items()
            if name not in left_out
            for column, text in _plain_columns(str(name), value)
        }
        for record in records
    ]
    return _PlainRecords(rows, left_out)


def _width(value: object) -> int:
    """How many numbers a list has; 0 for a text or number, -1 for what is no column."""
    if _is_plain(value):
        return 0
    is_row = isinstance(value, list) and value and all(map(_is_number, value))
    return len(value) if is_row and isinstance(value, list) else -1


def _plain_columns(name: str, value: Any) -> list[tuple[str, str]]:
    if isinstance(value, list):
        return [(f"{name}[{k}]", _text(one)) for k, one in enumerate(value)]
    return [(name, _text(value))]


def _named(names: list[dict[str, str]], rows: list[dict[str, str]]) -> list[dict[str, str]]:
    """Records with their names first, which win over attributes that are called alike."""
    return [{**name, **row, **name} for name, row in zip(names, rows, strict=True)]


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, (str, int, float))


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _by_column(first: list[str], rows: list[dict[str, str]]) -> dict[str, list[str]]:
    names = dict.fromkeys([*first, *(name for row in rows for name in row)])
    return {name: [row.get(name, "") for row in rows] for name in names}


def read_hif(path: Any, pattern: str | None = None) -> Example:
    r"""Read a hypergraph from a HIF file (JSON, also compressed with gzip).

    Nodes and edges are numbered as they are listed, then as they first come in incidences. Weights
    and numbers among the attributes are features, in the order of the first record that has any.
    Texts, such as labels, are no features: `read_hif_tables` reads them, and so does
    `inc.data.load(path, target=...)`.

    Args:
        path: The file.
        pattern: The tensor: `{i ...}`, one face for each edge; `{i ...} {j ...}`, tail and head,
            for directed edges; or `i e:edge`, where edges are nodes of another sort. The last also
            holds edges without nodes, edges on the same nodes, and weights of incidences. Default:
            that of `write_hif`, else one of the first two, by the type in the file.

    Raises:
        IncidenceError: The file is no HIF file, or the pattern cannot hold it.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     hypergraph = Structure(3, {"{i ...}": [[0, 1, 1, 2], [0, 0, 1, 1]]})
        ...     write_hif(hypergraph, f"{folder}/small.hif.json")
        ...     read_hif(f"{folder}/small.hif.json").structure
        Structure(num_nodes=3, '{i ...}': 2 entries)
    """
    path = regular_file(path, "a HIF file")
    content = _content(path)
    metadata = _part(content, "metadata", dict, path)
    kind = _part(content, "network-type", str, path) or "undirected"
    text = pattern or _written_pattern(metadata, path) or _TYPES.get(kind)
    if text is None:
        raise IncidenceError(
            f"{path}: the network-type is undirected, directed or asc; got {shown(kind)}."
        )
    nodes = _records(content, "nodes", "node", path)
    edges = _records(content, "edges", "edge", path)
    incidences = _checked_incidences(content, path)
    for record in incidences:
        nodes.setdefault(record["node"], {})
        edges.setdefault(record["edge"], {})
    node_at, edge_at = ({name: k for k, name in enumerate(names)} for names in (nodes, edges))
    rows = [(node_at[record["node"]], edge_at[record["edge"]]) for record in incidences]
    pairs = torch.tensor(rows, dtype=torch.long).view(-1, 2).T  # (2, incidences)
    types = _part(metadata, "types", dict, path)
    features = {"i": _values(list(nodes.values()), path, "nodes", types)}
    of_edges = _values(list(edges.values()), path, "edges", types)
    of_pairs = _values(incidences, path, "incidences", types)
    if Pattern(text) == Pattern(_PAIRS):
        features |= {"e:edge": of_edges, _PAIRS: of_pairs}
        structure = Structure({"node": len(nodes), "edge": len(edges)}, {_PAIRS: pairs})
    else:
        hint = f"Read the file with pattern='{_PAIRS}'"
        if of_pairs is not None:
            raise IncidenceError(
                f"{path} has weights or numbers for incidences, for which faces have no place."
                f" {hint}."
            )
        empty = torch.bincount(pairs[1], minlength=len(edges)) == 0  # (edges,)
        if bool(empty.any()):
            name = list(edges)[int(empty.nonzero()[0])]
            raise IncidenceError(
                f"{path}: the edge {shown(name)} has no node, and a face has at least one. {hint}."
            )
        structure = Structure(len(nodes), {text: _faces(Pattern(text), pairs, incidences, path)})
        features[text] = of_edges
    return Example(structure, {key: x for key, x in features.items() if x is not None})


def _checked_incidences(content: dict[str, Any], path: Path) -> list[dict[str, Any]]:
    """The records of incidences, each with a node and an edge."""
    incidences: list[dict[str, Any]] = content["incidences"]
    for number, record in enumerate(incidences):
        if not _has_name(record, "node") or not _has_name(record, "edge"):
            raise IncidenceError(
                f"{path}: incidence {number} is a record with `node` and `edge`; got"
                f" {shown(record)}."
            )
    return incidences


def _content(path: Path) -> dict[str, Any]:
    """The object in the file, which may be compressed."""
    try:
        raw = path.read_bytes()
        if raw[:2] == _GZIP:
            assert_unpacked(path)
            raw = gzip.decompress(raw)
    except (OSError, EOFError, zlib.error) as error:
        raise IncidenceError(f"{path} is no HIF file: {error}.") from None
    content = parse_json(raw, str(path), "HIF file")
    if not isinstance(content, dict) or not isinstance(content.get("incidences"), list):
        raise IncidenceError(
            f"{path} is no HIF file: it must be an object with a list of `incidences`."
        )
    return content


def _part(content: dict[str, Any], key: str, kind: type[T], path: Path) -> T:
    """A part of an object, of the right kind; an empty one if it is not there."""
    part = content.get(key)
    if part is None:
        return kind()
    if not isinstance(part, kind):
        wanted = _WORDS[kind.__name__]
        raise IncidenceError(f"{path} is no HIF file: `{key}` is {wanted}; got {shown(part)}.")
    return part


def _written_pattern(metadata: dict[str, Any], path: Path) -> str:
    """The pattern that `write_hif` wrote, if any."""
    text = _part(metadata, "pattern", str, path)
    try:
        return str(Pattern(text)) if text else ""
    except IncidenceError:
        raise IncidenceError(
            f"{path} is no HIF file: its metadata has the pattern {shown(text)}, which is none."
        ) from None


def _records(content: dict[str, Any], what: str, key: str, path: Path) -> dict[Any, dict[str, Any]]:
    """The records of a list, in order, by name."""
    records: dict[Any, dict[str, Any]] = {}
    for number, record in enumerate(_part(content, what, list, path)):
        if not _has_name(record, key):
            raise IncidenceError(
                f"{path}: number {number} of `{what}` is a record with `{key}`; got"
                f" {shown(record)}."
            )
        if record[key] in records:
            raise IncidenceError(f"{path}: the {key} {shown(record[key])} is listed twice.")
        records[record[key]] = record
    return records


def _has_name(record: Any, key: str) -> bool:
    return isinstance(record, dict) and isinstance(record.get(key), (str, int))


def _numbers(record: dict[str, Any], path: Path) -> dict[str, list[float]]:
    """The numbers of a record by name: its weight, and numbers or lists of them among its
    attributes.
    """
    attributes = _attributes(record, path)
    rows = {name: x if isinstance(x, list) else [x] for name, x in attributes.items()}
    return {name: row for name, row in rows.items() if row and all(map(_is_number, row))}


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _values(
    records: list[dict[str, Any]], path: Path, what: str, types: dict[str, str]
) -> Tensor | None:
    """The numbers of all records as features; None if there are none."""
    numbers = [_numbers(record, path) for record in records]
    first = next(filter(None, numbers), {})
    if not first:
        return None
    names = list(first)
    for number, row in enumerate(numbers):
        if any(len(row.get(name, [])) != len(first[name]) for name in names):
            raise IncidenceError(
                f"{path}: number {number} of the {what} has other numbers than the rest, which have"
                f" {shown(names)}."
            )
    kind = getattr(torch, str(types.get(what)), None)  # as `write_hif` wrote it
    rows = [[value for name in names for value in row[name]] for row in numbers]
    try:
        values = torch.tensor(rows, dtype=kind if isinstance(kind, torch.dtype) else None)
        # types of eight bits have no `isfinite`
        is_finite = (values if values.is_complex() else values.double()).isfinite()
    except (OverflowError, RuntimeError, TypeError, ValueError):
        # of numbers that are too large, or of a type that is none of numbers
        raise IncidenceError(
            f"{path}: the {what} have a number that is too large, or not of their type."
        ) from None
    if not bool(is_finite.all()):
        number = int((~is_finite).any(1).nonzero()[0])
        raise IncidenceError(
            f"{path}: number {number} of the {what} has a value that is no finite number."
        )
    return values


def _faces(pattern: Pattern, pairs: Tensor, incidences: list[dict[str, Any]], path: Path) -> Any:
    if pattern.unnamed() == Pattern("{i ...}"):
        return pairs
    if pattern.unnamed() != Pattern("{i ...} {j ...}"):
        raise IncidenceError(
            f"a HIF file is read as `{{i ...}}`, `{{i ...}} {{j ...}}` or `{_PAIRS}`; got"
            f" `{pattern}`."
        )
    sides = [record.get("direction") for record in incidences]
    bad = next((k for k, side in enumerate(sides) if side not in ("tail", "head")), None)
    if bad is not None:
        raise IncidenceError(
            f"{path}: incidence {bad} of a directed hypergraph has the direction `tail` or `head`;"
            f" got {shown(sides[bad])}."
        )
    is_tail = torch.tensor([side == "tail" for side in sides], dtype=torch.bool)
    return torch.zeros(0, 0, dtype=torch.long), pairs[:, is_tail], pairs[:, ~is_tail]


def write_hif(example: Example | Structure, path: Any) -> None:
    r"""Write a hypergraph as a HIF file, completely or not at all: `{i ...}`, `{i ...} {j ...}` as
    directed edges, or `i e:edge`.

    Features become the attribute `features`.

    Raises:
        IncidenceError: The file cannot hold it.
    """
    example = single(example, "write_hif")
    structure = example.structure
    pattern = next(iter(structure.patterns), Pattern("{i ...}"))
    if pattern.unnamed() not in map(Pattern, ("{i ...}", "{i ...} {j ...}", _PAIRS)):
        raise IncidenceError(
            f"write_hif: a HIF file holds `{{i ...}}`, `{{i ...}} {{j ...}}` or `{_PAIRS}`; not"
            f" `{pattern}`."
        )
    is_pairs = pattern.unnamed() == Pattern(_PAIRS)
    places = ["i", str(pattern), *(["e:edge"] if is_pairs else [])]
    assert_held(example, "write_hif", [str(pattern)], places, where="a HIF file")
    features = by_meaning(example)
    of_pairs: Tensor | None = features.get(pattern) if is_pairs else None
    of_edges = features.get(Pattern("e:edge") if is_pairs else pattern)
    num_edges = structure.counts["edge"] if is_pairs else structure.num_entries(pattern)
    tables = {"nodes": features.get(Pattern("i")), "edges": of_edges, "incidences": of_pairs}
    types = {key: str(x.dtype).removeprefix("torch.") for key, x in tables.items() if x is not None}
    index = structure[pattern]
    sides = index[1:] if isinstance(index, tuple) else (index,)
    words: list[dict[str, Any]] = [{}]
    if len(sides) == 2:
        words = [{"direction": "tail"}, {"direction": "head"}]
    incidences = [
        {"edge": e, "node": v, **word}
        for pairs, word in zip(sides, words, strict=True)
        for v, e in pairs.T.tolist()
    ]
    content = {
        "network-type": "directed" if pattern.order == 2 and not is_pairs else "undirected",
        "metadata": {"pattern": str(pattern), "types": types},
        "incidences": _records_of(of_pairs, incidences),
        "nodes": _records_of(
            tables["nodes"], [{"node": k} for k in range(structure.counts["node"])]
        ),
        "edges": _records_of(of_edges, [{"edge": k} for k in range(num_edges)]),
    }
    try:
        # Python would write NaN, which is no JSON.
        text = json.dumps(content, allow_nan=False)
    except ValueError:
        raise IncidenceError(
            "write_hif: the features have values that are no finite numbers, for which JSON has no"
            " words."
        ) from None
    with whole_file(path) as file:
        file.write(text.encode())


def _records_of(x: Tensor | None, named: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Records with their features, if there are any."""
    if x is None:
        return named
    rows = zip(named, x.tolist(), strict=True)
    return [{**record, "attrs": {"features": row}} for record, row in rows]
