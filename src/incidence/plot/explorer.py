"""What the explorer (docs/explorer) asks about a map, and the answers as plain data. Standard library only: it runs in browsers too.

A request is a list, `[name, text of the map, max_overlap, ...]`; `reply` answers it. Pictures are SVG whose colours are names of CSS, so
that one answer serves a light and a dark page.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby, islice, product, takewhile
from typing import Any

from incidence.algebra.basis import pool_to_orbit
from incidence.algebra.grammar import Kind
from incidence.algebra.maps import EquivariantMap, Operation
from incidence.algebra.multilinear import MultilinearMap
from incidence.algebra.pattern import Pattern
from incidence.algebra.products import ProductText
from incidence.errors import IncidenceError, TooLargeError
from incidence.plot.diagrams import pair_heading
from incidence.plot.entries import Entry, complete_entries, num_complete
from incidence.plot.orbit_pictures import facts, one_entry
from incidence.plot.scene import Scene, Shape
from incidence.plot.svg import to_svg
from incidence.plot.theme import DARK, LIGHT, Theme
from incidence.plot.weights import Sharing, weight_colours
from incidence.plot.wiring import Wiring, wires, wiring_of

__all__ = ["PAGE", "css", "reply", "requests"]

PAGE = 12
"""How many operations an answer has."""

MOST_LISTED = 10_000  # operations that can be scrolled to
_MOST_ORBITS = 24  # of a tensor that are drawn
_MOST_PLACES = (
    4_100  # of a matrix: 64 x 64, as all maps between tensors of three nodes have on four of them
)
_MOST_TERMS = 5_000  # of a product
_MOST_SMALL = 8  # numbers of nodes for which the dimension is told

Map = EquivariantMap | MultilinearMap


def reply(request: str) -> str:
    """The answer to a request, both JSON; of a text that is refused `{"error": ...}` with the message.

    Example:
        >>> json.loads(reply('["summary", "i j -> i j", 1]'))["dimension"]
        15
        >>> print(json.loads(reply('["summary", "i {i j", 1]'))["error"])
        <BLANKLINE>
        i {i j
              ^ a map needs an arrow
        Hint: write `tensors -> tensors`, for example `i j -> i j`
    """
    name, text, max_overlap, *more = json.loads(request)
    try:
        return json.dumps(
            _ANSWERS[name](_read(text, max_overlap), *more),
            ensure_ascii=False,
            separators=(",", ":"),
        )
    except IncidenceError as error:
        return json.dumps({"error": str(error)}, ensure_ascii=False)


def requests(text: str, most_pages: int = 6) -> Iterator[str]:
    """All that a page asks about a map when it is shown, its first operations are looked at and pointed at."""
    m = _read(text, 1)
    summary = _summary(m)
    pages = range(min(-(-summary["listed"] // PAGE), most_pages))
    asked: list[list[object]] = [["summary"], *(["operations", k] for k in pages)]
    if summary["nodes"]:
        asked.append(["entries", summary["nodes"]])
        asked += [
            ["terms", k, *_at(m, summary["nodes"])]
            for k in range(min(len(pages) * PAGE, summary["listed"]))
        ]
    for name, *more in asked:
        yield json.dumps([name, text, 1, *more], ensure_ascii=False, separators=(",", ":"))


def _at(m: Map, nodes: int) -> list[int]:
    return [nodes] if isinstance(m, MultilinearMap) else []


@lru_cache(maxsize=64)
def _read(text: str, max_overlap: int) -> Map:
    return MultilinearMap(text) if "*" in text else EquivariantMap(text, max_overlap)


def _summary(m: Map) -> dict[str, Any]:
    """What is said of a map as a whole, and where its operations are found."""
    is_open = isinstance(m, EquivariantMap) and m.is_open
    blocks = list(_blocks(m))
    return {
        "map": str(m),
        "kind": "products" if isinstance(m, MultilinearMap) else "map",
        "dimension": m.dimension,
        "num_biases": m.num_biases if isinstance(m, EquivariantMap) else None,
        "is_open": is_open,
        "is_oriented": any(p.is_oriented for p in (*m.inputs, *m.outputs)),
        "enough_nodes": None if is_open else dict(m.enough_nodes),
        "dimension_at": [] if is_open else _dimensions(m),
        "inputs": [_tensor(p) for p in _operands(m)],
        "outputs": [_tensor(p) for p in m.outputs],
        "blocks": blocks,
        "listed": sum(block["count"] for block in blocks),
        "nodes": 0 if is_open else _most_nodes(m, 4),
        "most_nodes": 0 if is_open else _most_nodes(m, 12),
        "code": _code(m),
    }


def _operands(m: Map) -> Sequence[Pattern]:
    return m.operands if isinstance(m, MultilinearMap) else m.inputs


def _dimensions(m: Map) -> list[list[int]]:
    """The exact dimension at few nodes: pairs of a number and a dimension, up to where it stays."""
    enough = max([*m.enough_nodes.values(), 1])
    return [[n, m.dimension_at(n)] for n in range(1, min(enough, _MOST_SMALL) + 1)]


def _tensor(pattern: Pattern) -> dict[str, Any]:
    drawn = pattern.orbits[:_MOST_ORBITS]
    orbits = [
        {"text": str(o) or "one value", "facts": facts(o), "svg": _svg(one_entry(o, LIGHT), str(o))}
        for o in drawn
    ]
    return {
        "text": str(pattern),
        "num_orbits": len(pattern.orbits),
        "orbits": orbits,
        "kinds": [k.opening for k, _ in pattern.kinds],
    }


def _blocks(m: Map) -> Iterator[dict[str, Any]]:
    """The headings under which operations stand, from which number on, and how many; as many as can be scrolled to."""
    left = MOST_LISTED
    for heading, start, count in islice(_headings(m), MOST_LISTED):
        if left <= 0:
            return
        if count:
            yield {"heading": heading, "start": start, "count": min(count, left)}
        left -= count


def _headings(m: Map) -> Iterator[tuple[str, int, int]]:
    if isinstance(m, EquivariantMap):
        yield from ((pair_heading(m, pair), pair.start, pair.count) for pair in m.iter_pairs())
        return
    start = 0
    for size, same in groupby(m.orbits, key=lambda orbit: orbit.size):
        count = sum(1 for _ in same)
        yield f"{size} node{'s' * (size != 1)}", start, count
        start += count


def _operations(m: Map, page: int) -> list[dict[str, Any]]:
    """One page of operations: pictures, formulas and words."""
    part = slice(page * PAGE, (page + 1) * PAGE)
    chosen: Iterable[Operation | ProductText] = (
        map(m.product_of, m.orbits[part]) if isinstance(m, MultilinearMap) else m.operations[part]
    )
    return [_operation(number, wiring_of(what)) for number, what in enumerate(chosen, part.start)]


def _operation(number: int, wiring: Wiring) -> dict[str, Any]:
    svg = _svg(wires(wiring, LIGHT), wiring.words)
    return {
        "number": number,
        "formula": wiring.formula,
        "words": wiring.words,
        "roles": wiring.roles,
        "svg": svg,
    }


def _most_nodes(m: Map, at_most: int) -> int:
    """The greatest number of nodes, of every sort, on which all places of the matrix can be looked at; 0 if there is none."""
    sorts = {sort for p in (*m.inputs, *m.outputs) for sort in p.sorts.values()}

    def fits(n: int) -> bool:
        counts = dict.fromkeys(sorts, n)
        rows, *columns = (
            sum(num_complete(p, counts) for p in side)
            for side in (m.outputs, *([p] for p in _operands(m)))
        )
        if isinstance(m, EquivariantMap):
            return rows * sum(columns) <= _MOST_PLACES
        return bool(n ** max(m.enough_nodes.values(), default=0) <= _MOST_TERMS)

    return max(takewhile(fits, range(1, at_most + 1)), default=0)


def _entries(m: Map, num_nodes: int) -> dict[str, Any]:
    """All entries on some nodes, as faces of node numbers; of a linear map also which weight stands at every pair of them."""
    if not 0 < num_nodes <= _most_nodes(m, num_nodes):
        raise TooLargeError(
            f"`{m}` has too many places to look at on {num_nodes} nodes. Take fewer."
        )
    sorts = list(
        dict.fromkeys(sort for p in (*_operands(m), *m.outputs) for sort in p.sorts.values())
    )
    counts = dict.fromkeys(sorts, num_nodes)
    sharing = Sharing.of(m, num_nodes) if isinstance(m, EquivariantMap) else None
    start = {sort: k * num_nodes for k, sort in enumerate(sorts)}

    def side(
        patterns: Sequence[Pattern], known: Sequence[tuple[int, Entry]] | None
    ) -> list[dict[str, Any]]:
        listed = (
            [(t, e) for t, p in enumerate(patterns) for e in complete_entries(p, counts)]
            if known is None
            else known
        )
        return [
            {"tensor": t, "orbit": e.orbit, "faces": _faces(e, patterns[t], start)}
            for t, e in listed
        ]

    return {
        "num_nodes": num_nodes,
        "dimension": m.dimension_at(num_nodes),
        "nodes": [
            {"label": f"{_initial(sort, sorts)}{n}", "sort": sort}
            for sort in sorts
            for n in range(num_nodes)
        ],
        "rows": side(m.outputs, None if sharing is None else sharing.rows),
        "columns": side(_operands(m), None if sharing is None else sharing.columns),
        **({} if sharing is None else _weights(sharing)),
    }


def _initial(sort: str, sorts: Sequence[str]) -> str:
    """What tells nodes of different sorts apart: nothing, a letter, or the whole name."""
    if len(sorts) == 1:
        return ""
    return sort if sum(other[0] == sort[0] for other in sorts) > 1 else sort[0]


def _faces(entry: Entry, pattern: Pattern, start: Mapping[str, int]) -> list[list[int]]:
    orbit = pattern.orbits[entry.orbit]
    names = [
        [str(start[c.sort] + v) for v in nodes]
        for c, nodes in zip(orbit.classes, entry.sets, strict=True)
    ]
    return [
        _key(kind, map(int, face))
        for (kind, _), face in zip(orbit.kinds, orbit.names_by_face(names), strict=True)
    ]


def _key(kind: Kind, nodes: Iterable[int]) -> list[int]:
    """The nodes of a face, in an order that does not depend on how it is written."""
    return list(nodes) if kind.is_ordered else sorted(nodes)


def _weights(sharing: Sharing) -> dict[str, Any]:
    """The number of the weight at every place, row by row, from 1 on, negative with a negative sign; 0 for none. And the colours."""
    cells = []
    for row in range(len(sharing.rows)):
        for column in range(len(sharing.columns)):
            weight = sharing.at(row, column)
            cells.append(0 if weight is None else weight.sign * (weight.number + 1))
    used = sorted({abs(cell) - 1 for cell in cells if cell})
    colours = [weight_colours(sharing.map, theme) for theme in (LIGHT, DARK)]
    return {
        "cells": cells,
        "colours": {number: [own[number] for own in colours] for number in used},
    }


def _terms(m: Map, number: int, num_nodes: int = 0) -> Any:
    """Where an operation is not 0: of a map the weights that make it up, with factors; of a product, rows and the columns it multiplies."""
    if isinstance(m, EquivariantMap):
        return pool_to_orbit(m, number)
    return [
        list(term)
        for term in sorted(set(_multiplied(m, m.product_of(m.orbits[number]), num_nodes)))
    ]


def _multiplied(m: MultilinearMap, text: ProductText, num_nodes: int) -> Iterator[tuple[int, ...]]:
    """The row of the output, and the columns of all operands, for every choice of a node for each letter."""
    listed = _entries(m, num_nodes)
    sorts = list(dict.fromkeys(node["sort"] for node in listed["nodes"]))
    place = {
        (side, e["tensor"], str(e["faces"])): k
        for side in ("rows", "columns")
        for k, e in enumerate(listed[side])
    }
    of_letter = [
        range(
            num_nodes * sorts.index(text.sorts[name]),
            num_nodes * (sorts.index(text.sorts[name]) + 1),
        )
        for name in text.letters
    ]
    for chosen in product(*of_letter):
        at = dict(zip(text.letters, chosen, strict=True))
        keys = [
            ("rows", 0, _assigned(text.output, at)),
            *(("columns", t, _assigned(p, at)) for t, p in enumerate(text.operands)),
        ]
        if all(key in place for key in keys):  # nodes of a face may have met
            yield tuple(place[key] for key in keys)


def _assigned(pattern: Pattern, at: Mapping[str, int]) -> str:
    return str(
        [_key(face.kind, (at[letter.name] for letter in face.letters)) for face in pattern.faces]
    )


def _code(m: Map) -> dict[str, str]:
    """What makes a layer of the map, and what shows it on the command line."""
    bound = (
        f", max_overlap={m.max_overlap}"
        if isinstance(m, EquivariantMap) and m.is_open and m.max_overlap != 1
        else ""
    )
    layer = "Multilinear" if isinstance(m, MultilinearMap) else "Linear"
    flag = f" --max-overlap {m.max_overlap}" if bound else ""  # type: ignore[union-attr]
    return {
        "python": f'import incidence as inc\n\nlayer = inc.nn.{layer}("{m}", in_channels=8, out_channels=16{bound})',
        "shell": f'incidence explain "{m}"{flag}',
    }


def _svg(shapes: Sequence[Shape], title: str) -> str:
    return _COLOUR.sub(
        lambda match: _NAMES[match[0]], to_svg(Scene.around(shapes, 3.0), title=title)
    ).strip()


def _named(theme: Theme) -> dict[str, str]:
    """The colours of a theme by the names that they have in CSS."""
    plain = {
        name: getattr(theme, name) for name in ("paper", "ink", "faint", "line", "pale", "face")
    }
    return plain | {f"c{k}": colour for k, colour in enumerate(theme.palette)}


_NAMES = {colour: f"var(--{name})" for name, colour in _named(LIGHT).items()}
_COLOUR = re.compile("|".join(_NAMES))


def css() -> str:
    """The colours of both themes as CSS.

    Example:
        >>> css().splitlines()[1]
        '  --paper: #ffffff;'
    """
    light, dark = (
        " {\n"
        + "".join(f"  --{name}: {colour};\n" for name, colour in _named(theme).items())
        + "}\n"
        for theme in (LIGHT, DARK)
    )
    unless_told = f"@media (prefers-color-scheme: dark) {{\n:root:not([data-theme]){dark}}}\n"
    return f":root{light}:root[data-theme=dark]{dark}{unless_told}"


_ANSWERS: dict[str, Callable[..., Any]] = {
    "summary": _summary,
    "operations": _operations,
    "entries": _entries,
    "terms": _terms,
}
