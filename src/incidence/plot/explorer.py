"""Answers the requests of the explorer (docs/explorer) about maps with plain data. Standard library
only: it runs in browsers too.

A request is a list, `[name, text of the map, max_overlap, ...]`; `reply` answers it. Pictures are
SVG whose colours are names of CSS, so that one answer serves a light and a dark page.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby, islice, product, takewhile
from typing import Any

from incidence.algebra.composition import pool_to_orbit
from incidence.algebra.grammar import Kind
from incidence.algebra.maps import EquivariantMap, Operation
from incidence.algebra.multilinear import MultilinearMap
from incidence.algebra.pattern import Pattern
from incidence.algebra.products import ProductText
from incidence.errors import IncidenceError, TooLargeError
from incidence.plot.diagrams import nodes_heading, pair_heading
from incidence.plot.explorer_colours import colours_of_pair
from incidence.plot.orbit_pictures import facts, one_entry
from incidence.plot.scene import Mark, Scene, to_svg
from incidence.plot.theme import DARK, LIGHT, Theme
from incidence.plot.weights import Entry, Sharing, complete_entries, num_complete, weight_colours
from incidence.plot.wiring import Wiring, wires, wiring_of

__all__ = ["PAGE", "css", "reply", "requests"]

PAGE = 12
"""How many operations an answer has."""

MOST_LISTED = 10_000  # operations that can be scrolled to
_MOST_ORBITS = 24  # of a tensor that are drawn
# of a matrix: 64 x 64, as all maps between tensors of three nodes have on four of them
_MOST_PLACES = 4_100
_MOST_TERMS = 5_000  # of a product
_MOST_SMALL = 8  # numbers of nodes for which the dimension is shown

Map = EquivariantMap | MultilinearMap


def reply(request: str) -> str:
    """Answer a request, both as JSON; for a text that is refused with `{"error": ...}`.

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
        return _compact(_ANSWERS[name](_parsed(text, max_overlap), *more))
    except IncidenceError as error:
        return json.dumps({"error": str(error)}, ensure_ascii=False)


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def requests(text: str, most_pages: int = 6) -> Iterator[str]:
    """Yield the requests of a page that shows a map and its first operations."""
    m = _parsed(text, 1)
    summary = _summary(m)
    listed = summary["listed"]
    nodes = summary["nodes"]
    num_pages = min(-(-listed // PAGE), most_pages)
    questions: list[list[object]] = [["summary"], *(["operations", k] for k in range(num_pages))]
    if nodes:
        questions.append(["entries", nodes])
        at = [nodes] if isinstance(m, MultilinearMap) else []
        questions += [["terms", k, *at] for k in range(min(num_pages * PAGE, listed))]
    for name, *more in questions:
        yield _compact([name, text, 1, *more])


@lru_cache(maxsize=64)
def _parsed(text: str, max_overlap: int) -> Map:
    return MultilinearMap(text) if "*" in text else EquivariantMap(text, max_overlap)


def _summary(m: Map) -> dict[str, Any]:
    """The properties of a map, and the headings of its operations."""
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
    """The exact dimension at few nodes: pairs of a number and a dimension, until it is constant."""
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
    """The headings of operations, their first numbers and counts; as many as can be scrolled to."""
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
        yield nodes_heading(size), start, count
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
    """The greatest number of nodes, of every sort, on which a page can show all places of the
    matrix; 0 if there is none.
    """

    def fits(n: int) -> bool:
        if isinstance(m, MultilinearMap):
            return bool(n ** max(m.enough_nodes.values(), default=0) <= _MOST_TERMS)
        counts = dict.fromkeys(_sorts(m), n)
        rows = sum(num_complete(p, counts) for p in m.outputs)
        return rows * sum(num_complete(p, counts) for p in m.inputs) <= _MOST_PLACES

    return max(takewhile(fits, range(1, at_most + 1)), default=0)


def _entries(m: Map, num_nodes: int) -> dict[str, Any]:
    """All entries on some nodes, as faces of node numbers; of a linear map also which weight stands
    at every pair of them.
    """
    if not 0 < num_nodes <= _most_nodes(m, num_nodes):
        raise TooLargeError(f"`{m}` has too many places to show on {num_nodes} nodes. Take fewer.")
    sorts = _sorts(m)
    # nodes are numbered through all sorts
    start = {sort: k * num_nodes for k, sort in enumerate(sorts)}
    if isinstance(m, EquivariantMap):
        sharing = Sharing.of(m, num_nodes)
        rows = sharing.rows
        columns = sharing.columns
        weights = _weights(sharing)
    else:
        counts = dict.fromkeys(sorts, num_nodes)
        weights = {}
        rows = _complete(m.outputs, counts)
        columns = _complete(m.operands, counts)

    def side(
        patterns: Sequence[Pattern], entries: Sequence[tuple[int, Entry]]
    ) -> list[dict[str, Any]]:
        return [
            {"tensor": t, "orbit": e.orbit, "faces": _faces(e, patterns[t], start)}
            for t, e in entries
        ]

    return {
        "num_nodes": num_nodes,
        "dimension": m.dimension_at(num_nodes),
        "nodes": [
            {"label": f"{_initial(sort, sorts)}{n}", "sort": sort}
            for sort in sorts
            for n in range(num_nodes)
        ],
        "rows": side(m.outputs, rows),
        "columns": side(_operands(m), columns),
        **weights,
    }


def _sorts(m: Map) -> list[str]:
    patterns = (*_operands(m), *m.outputs)
    return list(dict.fromkeys(sort for p in patterns for sort in p.sorts.values()))


def _complete(patterns: Sequence[Pattern], counts: Mapping[str, int]) -> list[tuple[int, Entry]]:
    return [(t, e) for t, p in enumerate(patterns) for e in complete_entries(p, counts)]


def _initial(sort: str, sorts: Sequence[str]) -> str:
    """The start of the label of a node, by which sorts differ: nothing, a letter, or the name."""
    if len(sorts) == 1:
        return ""
    is_alone = [other[0] for other in sorts].count(sort[0]) == 1  # a letter suffices
    return sort[0] if is_alone else sort


def _faces(entry: Entry, pattern: Pattern, start: Mapping[str, int]) -> list[list[int]]:
    orbit = pattern.orbits[entry.orbit]
    classes = zip(orbit.classes, entry.sets, strict=True)
    names = [[str(start[c.sort] + v) for v in nodes] for c, nodes in classes]
    faces = zip(orbit.kinds, orbit.names_by_face(names), strict=True)
    return [_key(kind, map(int, face)) for (kind, _), face in faces]


def _key(kind: Kind, nodes: Iterable[int]) -> list[int]:
    """The nodes of a face, in an order that does not depend on how it is written."""
    return list(nodes) if kind.is_ordered else sorted(nodes)


def _weights(sharing: Sharing) -> dict[str, Any]:
    """The number of the weight at every place, row by row, from 1 on, negative with a negative
    sign; 0 for none. And the colours.
    """
    cells = []
    for row in range(len(sharing.rows)):
        for column in range(len(sharing.columns)):
            weight = sharing.at(row, column)
            # Numbers from 1 on, as 0 has no sign.
            cells.append(0 if weight is None else weight.sign * (weight.number + 1))
    used = sorted({abs(cell) - 1 for cell in cells if cell})
    light, dark = (weight_colours(sharing.map, theme) for theme in (LIGHT, DARK))
    return {"cells": cells, "colours": {number: [light[number], dark[number]] for number in used}}


def _terms(m: Map, number: int, num_nodes: int = 0) -> Any:
    """Where an operation is not 0: of a map the weights that make it up, with factors; of a
    product, rows and the columns it multiplies.
    """
    if isinstance(m, EquivariantMap):
        return pool_to_orbit(m, number)
    product = m.product_of(m.orbits[number])
    return [list(term) for term in sorted(set(_multiplied(m, product, num_nodes)))]


def _multiplied(m: MultilinearMap, text: ProductText, num_nodes: int) -> Iterator[tuple[int, ...]]:
    """The row of the output, and the columns of all operands, for every choice of a node for each
    letter.
    """
    entries = _entries(m, num_nodes)
    sorts = _sorts(m)
    place = {
        (side, e["tensor"], str(e["faces"])): k
        for side in ("rows", "columns")
        for k, e in enumerate(entries[side])
    }
    starts = [num_nodes * sorts.index(text.sorts[name]) for name in text.letters]
    for nodes in product(*(range(start, start + num_nodes) for start in starts)):
        at = dict(zip(text.letters, nodes, strict=True))
        operands = enumerate(text.operands)
        keys = [("columns", t, _assigned(pattern, at)) for t, pattern in operands]
        keys.insert(0, ("rows", 0, _assigned(text.output, at)))  # the output first
        if all(key in place for key in keys):  # nodes of a face may be equal
            yield tuple(place[key] for key in keys)


def _assigned(pattern: Pattern, at: Mapping[str, int]) -> str:
    faces = pattern.faces
    return str([_key(face.kind, (at[letter.name] for letter in face.letters)) for face in faces])


def _code(m: Map) -> dict[str, str]:
    """Python that makes a layer of the map, and a command that explains it."""
    layer = "Linear"
    keyword = ""
    flag = ""
    if isinstance(m, MultilinearMap):
        layer = "Multilinear"
    elif m.is_open and m.max_overlap != 1:
        keyword = f", max_overlap={m.max_overlap}"
        flag = f" --max-overlap {m.max_overlap}"
    call = f'inc.nn.{layer}("{m}", in_channels=8, out_channels=16{keyword})'
    return {
        "python": f"import incidence as inc\n\nlayer = {call}",
        "shell": f'incidence explain "{m}"{flag}',
    }


def _svg(shapes: Sequence[Mark], title: str) -> str:
    svg = to_svg(Scene.around(shapes, 3.0), title=title)
    return _COLOUR.sub(lambda match: _NAMES[match[0]], svg).strip()


def _named(theme: Theme) -> dict[str, str]:
    """The colours of a theme by the names that they have in CSS."""
    names = ("paper", "ink", "faint", "line", "pale", "face")
    return {name: getattr(theme, name) for name in names} | {
        f"c{k}": colour for k, colour in enumerate(theme.palette)
    }


# Drawn in the light theme, whose colours then become names: the page decides which theme they have.
_NAMES = {colour: f"var(--{name})" for name, colour in _named(LIGHT).items()}
_COLOUR = re.compile("|".join(_NAMES))


def css() -> str:
    """Return the colours of both themes as CSS.

    Example:
        >>> css().splitlines()[1]
        '  --paper: #ffffff;'
    """
    light = _block(LIGHT)
    dark = _block(DARK)
    preferred = f"@media (prefers-color-scheme: dark) {{\n:root:not([data-theme]){dark}}}\n"
    return f":root{light}:root[data-theme=dark]{dark}{preferred}"


def _block(theme: Theme) -> str:
    lines = "".join(f"  --{name}: {colour};\n" for name, colour in _named(theme).items())
    return f" {{\n{lines}}}\n"


_ANSWERS: dict[str, Callable[..., Any]] = {
    "summary": _summary,
    "operations": _operations,
    "entries": _entries,
    "terms": _terms,
    "colours": colours_of_pair,
}
