"""HIF: the JSON files by which hypergraph libraries exchange their data."""

from __future__ import annotations

import gzip
import json
import zlib
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError, shown
from incidence.files import regular_file, whole_file
from incidence.geometry.convert.exchange import assert_held, by_meaning, single
from incidence.limits import assert_unpacked, parse_json
from incidence.structure.example import Example
from incidence.structure.structure import Structure

__all__ = ["read_hif", "write_hif"]

_TYPES = {"undirected": "{i ...}", "asc": "{i ...}", "directed": "{i ...} {j ...}"}
_PAIRS = "i e:edge"
_GZIP = b"\x1f\x8b"

_WORDS = {"dict": "an object", "list": "a list", "str": "a text"}

T = TypeVar("T")


def read_hif(path: Any, pattern: str | None = None) -> Example:
    r"""Reads a hypergraph from a HIF file (JSON, also compressed with gzip).

    Nodes and edges are numbered as they are listed, then as they first come in incidences. Weights and numbers among the attributes are
    features, in the order of the first that has any; other attributes are left out.

    Args:
        path: The file.
        pattern: What is made of it: `{i ...}`, one face for each edge; `{i ...} {j ...}`, tail and head, for directed ones; or `i e:edge`,
            where edges are nodes of a sort of their own, which holds edges without nodes, edges on the same nodes, and weights of
            incidences. If not given, one of the first two, as the file says.

    Raises:
        IncidenceError: The file is no HIF file, or the pattern cannot hold it.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     write_hif(Structure(3, {"{i ...}": [[0, 1, 1, 2], [0, 0, 1, 1]]}), f"{folder}/small.hif.json")
        ...     read_hif(f"{folder}/small.hif.json").structure
        Structure(num_nodes=3, '{i ...}': 2 entries)
    """
    path = regular_file(path, "a HIF file")
    content = _content(path)
    metadata, kind = (
        _part(content, "metadata", dict, path),
        _part(content, "network-type", str, path) or "undirected",
    )
    text = pattern or _told_pattern(metadata, path) or _TYPES.get(kind)
    if text is None:
        raise IncidenceError(
            f"{path}: the network-type is undirected, directed or asc; got {shown(kind)}."
        )
    nodes, edges = (
        _records(content, "nodes", "node", path),
        _records(content, "edges", "edge", path),
    )
    incidences = content["incidences"]
    for number, record in enumerate(incidences):
        if not isinstance(record, dict) or not all(
            isinstance(record.get(key), (str, int)) for key in ("node", "edge")
        ):
            raise IncidenceError(
                f"{path}: incidence {number} is a record with `node` and `edge`; got {shown(record)}."
            )
        nodes.setdefault(record["node"], {})
        edges.setdefault(record["edge"], {})
    node_at, edge_at = ({name: k for k, name in enumerate(names)} for names in (nodes, edges))
    pairs = (
        torch.tensor(
            [(node_at[r["node"]], edge_at[r["edge"]]) for r in incidences], dtype=torch.long
        )
        .view(-1, 2)
        .T
    )
    types = _part(metadata, "types", dict, path)
    features = {"i": _values(list(nodes.values()), path, "nodes", types)}
    of_edges, of_pairs = (
        _values(list(edges.values()), path, "edges", types),
        _values(incidences, path, "incidences", types),
    )
    if Pattern(text) == Pattern(_PAIRS):
        features |= {"e:edge": of_edges, _PAIRS: of_pairs}
        structure = Structure({"node": len(nodes), "edge": len(edges)}, {_PAIRS: pairs})
    else:
        hint = f"Read the file with pattern='{_PAIRS}'"
        if of_pairs is not None:
            raise IncidenceError(
                f"{path} has weights or numbers for incidences, for which faces have no place. {hint}."
            )
        empty = torch.bincount(pairs[1], minlength=len(edges)) == 0
        if bool(empty.any()):
            name = list(edges)[int(empty.nonzero()[0])]
            raise IncidenceError(
                f"{path}: the edge {shown(name)} has no node, and a face has at least one. {hint}."
            )
        structure = Structure(len(nodes), {text: _faces(Pattern(text), pairs, incidences, path)})
        features[text] = of_edges
    return Example(structure, {key: x for key, x in features.items() if x is not None})


def _content(path: Path) -> dict[str, Any]:
    """What the file says, unpacked if it is compressed."""
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
    found = content.get(key)
    if found is not None and not isinstance(found, kind):
        wanted = _WORDS[kind.__name__]
        raise IncidenceError(f"{path} is no HIF file: `{key}` is {wanted}; got {shown(found)}.")
    return kind() if found is None else found


def _told_pattern(metadata: dict[str, Any], path: Path) -> str:
    """The pattern that `write_hif` noted, if any."""
    text = _part(metadata, "pattern", str, path)
    try:
        return str(Pattern(text)) if text else ""
    except IncidenceError:
        raise IncidenceError(
            f"{path} is no HIF file: its metadata has the pattern {shown(text)}, which is none."
        ) from None


def _records(content: dict[str, Any], what: str, key: str, path: Path) -> dict[Any, dict[str, Any]]:
    """What is listed, in order, by its name."""
    found: dict[Any, dict[str, Any]] = {}
    for number, record in enumerate(_part(content, what, list, path)):
        if not isinstance(record, dict) or not isinstance(record.get(key), (str, int)):
            raise IncidenceError(
                f"{path}: number {number} of `{what}` is a record with `{key}`; got {shown(record)}."
            )
        if record[key] in found:
            raise IncidenceError(f"{path}: the {key} {shown(record[key])} is listed twice.")
        found[record[key]] = record
    return found


def _numbers(record: dict[str, Any], path: Path) -> dict[str, list[float]]:
    """The numbers of a record by name: its weight, and numbers or lists of them among its attributes."""
    given = {"weight": record["weight"]} if "weight" in record else {}
    given |= _part(record, "attrs", dict, path)
    rows = {name: value if isinstance(value, list) else [value] for name, value in given.items()}
    return {
        name: row
        for name, row in rows.items()
        if row and all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in row)
    }


def _values(
    records: list[dict[str, Any]], path: Path, what: str, types: dict[str, str]
) -> Tensor | None:
    found = [_numbers(record, path) for record in records]
    names = next((list(own) for own in found if own), [])
    if not names:
        return None
    widths = {name: len(next(own[name] for own in found if name in own)) for name in names}
    for number, own in enumerate(found):
        if any(len(own.get(name, [])) != width for name, width in widths.items()):
            raise IncidenceError(
                f"{path}: number {number} of the {what} has other numbers than the rest, which have {shown(names)}."
            )
    kind = getattr(torch, str(types.get(what)), None)
    rows = [[value for name in names for value in own[name]] for own in found]
    try:
        values = torch.tensor(rows, dtype=kind if isinstance(kind, torch.dtype) else None)
        is_finite = (
            values if values.is_complex() else values.double()
        ).isfinite()  # there is no such question to eight bits
    except (
        OverflowError,
        RuntimeError,
        TypeError,
        ValueError,
    ):  # of numbers that are too large, or of a type that is none of numbers
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
            f"a HIF file is read as `{{i ...}}`, `{{i ...}} {{j ...}}` or `{_PAIRS}`; got `{pattern}`."
        )
    sides = [record.get("direction") for record in incidences]
    bad = next((k for k, side in enumerate(sides) if side not in ("tail", "head")), None)
    if bad is not None:
        raise IncidenceError(
            f"{path}: incidence {bad} of a directed hypergraph has the direction `tail` or `head`; got {shown(sides[bad])}."
        )
    is_tail = torch.tensor([side == "tail" for side in sides], dtype=torch.bool)
    return torch.zeros(0, 0, dtype=torch.long), pairs[:, is_tail], pairs[:, ~is_tail]


def write_hif(example: Example | Structure, path: Any) -> None:
    r"""Writes a hypergraph as a HIF file: `{i ...}`, `{i ...} {j ...}` as directed edges, or `i e:edge`; at once or not at all.

    Features become the attribute `features`.

    Raises:
        IncidenceError: The file cannot hold it.
    """
    example = single(example, "write_hif")
    structure = example.structure
    pattern = next(iter(structure.patterns), Pattern("{i ...}"))
    if pattern.unnamed() not in map(Pattern, ("{i ...}", "{i ...} {j ...}", _PAIRS)):
        raise IncidenceError(
            f"write_hif: a HIF file holds `{{i ...}}`, `{{i ...}} {{j ...}}` or `{_PAIRS}`; not `{pattern}`."
        )
    is_pairs = pattern.unnamed() == Pattern(_PAIRS)
    assert_held(
        example,
        "write_hif",
        [str(pattern)],
        ["i", str(pattern), *(["e:edge"] if is_pairs else [])],
        where="a HIF file",
    )
    features = by_meaning(example)
    of_pairs: Tensor | None = features.get(pattern) if is_pairs else None
    of_edges = features.get(Pattern("e:edge") if is_pairs else pattern)
    num_edges = structure.counts["edge"] if is_pairs else structure.num_entries(pattern)
    kept = {"nodes": features.get(Pattern("i")), "edges": of_edges, "incidences": of_pairs}
    types = {key: str(x.dtype).removeprefix("torch.") for key, x in kept.items() if x is not None}
    index = structure[pattern]
    sides = index[1:] if isinstance(index, tuple) else (index,)
    words: list[dict[str, Any]] = (
        [{}] if len(sides) == 1 else [{"direction": "tail"}, {"direction": "head"}]
    )
    incidences = [
        {"edge": e, "node": v, **word}
        for pairs, word in zip(sides, words, strict=True)
        for v, e in pairs.T.tolist()
    ]
    content = {
        "network-type": "directed" if pattern.order == 2 and not is_pairs else "undirected",
        "metadata": {"pattern": str(pattern), "types": types},
        "incidences": _records_of(of_pairs, incidences),
        "nodes": _records_of(kept["nodes"], [{"node": k} for k in range(structure.counts["node"])]),
        "edges": _records_of(of_edges, [{"edge": k} for k in range(num_edges)]),
    }
    try:
        written = json.dumps(content, allow_nan=False)
    except ValueError:
        raise IncidenceError(
            "write_hif: the features have values that are no finite numbers, for which JSON has no words."
        ) from None
    with whole_file(path) as file:
        file.write(written.encode())


def _records_of(x: Tensor | None, named: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Records with their features, if there are any."""
    return (
        named
        if x is None
        else [
            {**own, "attrs": {"features": row}} for own, row in zip(named, x.tolist(), strict=True)
        ]
    )
