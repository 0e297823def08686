r"""A map in words: which orbits it has, and what each of its operations does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from html import escape
from itertools import islice
from typing import Any, overload

from incidence.algebra.counting import PaperCount, paper_count
from incidence.algebra.layers import Layer, Network, is_layer, is_module, lines
from incidence.algebra.maps import (
    MAX_PAIRS,
    EquivariantMap,
    Operation,
    OrbitPair,
    TensorOrbit,
    num_orbits,
)
from incidence.algebra.multilinear import MultilinearMap
from incidence.algebra.overlap import MAX_LISTED, overlaps
from incidence.algebra.pattern import Pattern
from incidence.algebra.product_reading import ProductExplanation, explain_layer
from incidence.algebra.reading import Reading, read
from incidence.errors import IncidenceError, TooLargeError

__all__ = ["Explanation", "explain"]

WIDTH = 80
_MAX_LABEL = 32  # of a column of the table
_MAX_BLOCKS, _MAX_OPERATIONS = 30, 60  # shown unless everything is asked for
_LEGEND = (
    "x is the input, y the output. Letters of x stand for different nodes, and so do",
    "those of y; a letter in both is a node that they share. A sum runs over the",
    "entries, each once, however many ways there are to write it.",
)

_ORIENTED_LEGEND = (
    "Values of an oriented face change sign when two of its nodes are exchanged:",
    "x[<j i>] = -x[<i j>]. Faces are written in the order in which no sign is left.",
)

Nodes = int | Mapping[str, int] | Iterable[int | Mapping[str, int]]
"""A number of nodes, of every sort or for each sort; or several."""


@overload
def explain(what: EquivariantMap, *, nodes: Nodes = ...) -> Explanation: ...
@overload
def explain(what: MultilinearMap, *, nodes: Nodes = ...) -> ProductExplanation: ...
@overload
def explain(
    what: str, *, nodes: Nodes = ..., max_overlap: int | None = ...
) -> Explanation | ProductExplanation: ...
@overload
def explain(what: object, *, nodes: Nodes = ...) -> Explanation | ProductExplanation | Network: ...
def explain(
    what: object, *, nodes: Nodes = (), max_overlap: int | None = None
) -> Explanation | ProductExplanation | Network:
    """A map, a layer or a network in words: prints well and renders in notebooks.

    Args:
        what: A map, as text or as an `EquivariantMap`; products, as text with `*` or as a `MultilinearMap`; a layer of either; or any torch
            module with layers in it.
        nodes: Of a map or a layer: numbers of nodes at which to give the exact dimension; with sorts, mappings from sort to number.
        max_overlap: With open faces, where the map is text: how many matched nodes may lie in an open class; 1 if not given.

    Returns:
        An `Explanation` of a map or a layer, with what each operation does; a `ProductExplanation` of products; a `Network` of anything
        else, layer by layer.

    Example:
        >>> print(explain("i -> i"))  # doctest: +ELLIPSIS
        i -> i
        2 operations and 1 bias, for 2 nodes or more.
        ...
    """
    if max_overlap is not None and not isinstance(what, str):
        raise IncidenceError(
            "max_overlap belongs to the map: give it to EquivariantMap, or pass the map as text."
        )
    numbers = (nodes,) if isinstance(nodes, (int, Mapping)) else tuple(nodes)
    if is_layer(what):
        return Explanation(Layer(what).map, numbers, Layer(what))
    if is_module(what) and isinstance(getattr(what, "map", None), MultilinearMap):
        return explain_layer(what, numbers)
    if is_module(what):
        if numbers:
            raise IncidenceError(
                "nodes= is for a map or a layer: explain one layer of the network."
            )
        return Network(what)
    if isinstance(what, str) and "*" in what:
        what = MultilinearMap(what)
    if isinstance(what, MultilinearMap):
        return ProductExplanation(what, numbers)
    if isinstance(what, str):
        what = EquivariantMap(what, 1 if max_overlap is None else max_overlap)
    if not isinstance(what, EquivariantMap):
        raise IncidenceError(
            f"explain takes a map, its text, a layer or a network; got {type(what).__name__}."
        )
    return Explanation(what, numbers)


@dataclass(frozen=True)
class Explanation:
    """What `explain` returns: `print` it, show it in a notebook, or take `data` or `text(show_all=True)`.

    Attributes:
        map: The map that is explained.
        nodes: The numbers of nodes at which the dimension is given.
        layer: The layer that is explained, if it is one: only its operations are shown.
    """

    map: EquivariantMap
    nodes: tuple[int | Mapping[str, int], ...] = ()
    layer: Layer | None = None

    def __str__(self) -> str:
        return self.text()

    def text(self, show_all: bool = False) -> str:
        """The explanation as text of at most 80 columns; long lists are cut with a count unless all is asked for."""
        return "\n".join(
            [
                *self._head(),
                "",
                *self._table(show_all),
                "",
                *self._legend(),
                "",
                *self._details(show_all),
            ]
        ).rstrip()

    def _legend(self) -> tuple[str, ...]:
        return _LEGEND + _ORIENTED_LEGEND * self.map.is_oriented

    def _head(self) -> Iterator[str]:
        m = self.map
        yield from lines(str(m), subsequent_indent="    ")
        if self.layer is not None:
            yield from lines(f"{self.layer.kind}, {self.layer.sentence()}.")
        bound = [
            f"{n} nodes" + f" of sort {sort}" * (sort != "node")
            for sort, n in m.enough_nodes.items()
            if n > 1
        ]
        many = f", for {' and '.join(bound)} or more" if bound and not m.is_open else ""
        opened = f", at most {m.max_overlap} matched in open faces" if m.is_open else ""
        yield from lines(
            f"{_count(m.dimension, 'operation')} and {_count(m.num_biases, 'bias')}{many}{opened}."
        )
        yield from lines(self._paper())
        if self.nodes:
            at = [
                ", ".join(f"{sort}={n}" for sort, n in x.items())
                if isinstance(x, Mapping)
                else f"{x} nodes"
                for x in self.nodes
            ]
            found = (
                f"{m.dimension_at(x):,} at {name}" for x, name in zip(self.nodes, at, strict=True)
            )
            yield from lines(f"Exact dimension: {'; '.join(found)}.")

    @cached_property
    def _paper_count(self) -> PaperCount | None:
        try:
            return paper_count(self.map)
        except TooLargeError:
            return None

    def _paper(self) -> str:
        paper = self._paper_count
        if paper is None:
            return "The paper's formula was not evaluated: there are too many orbits."
        if paper.tau is None:
            return f"No formula of the paper to compare with: {paper.reasons[0]}."
        if paper.tau_is_exact:
            return f"The paper's formula gives {paper.tau:,} too."
        if paper.tau_symm_is_exact:
            return f"The paper's formula for undirected faces gives {paper.tau_symm:,} too (the general one {paper.tau:,})."
        undirected = "" if paper.tau_symm is None else f" (for undirected faces {paper.tau_symm:,})"
        return f"The paper's formula gives {paper.tau:,}{undirected}, not exact here: {'; '.join(paper.reasons)}."

    def _pairs(self, show_all: bool) -> tuple[OrbitPair, ...]:
        """The pairs that are shown; none where there are too many orbits even to begin."""
        limit = MAX_PAIRS if show_all else _MAX_BLOCKS
        try:
            return tuple(islice(self.map.iter_pairs(), limit))
        except TooLargeError:
            return ()

    def _table(self, show_all: bool) -> Iterator[str]:
        pairs = self._pairs(show_all)
        sides = self.map.inputs, self.map.outputs
        rows = [
            (self._label(b.source, sides[0]), self._label(b.target, sides[1]), self._num_kept(b))
            for b in pairs
        ]
        wide = max([len(r[0]) for r in rows if len(r[0]) <= _MAX_LABEL] + [4])
        wide_too = max([len(r[1]) for r in rows if len(r[1]) <= _MAX_LABEL] + [2])
        yield f"{'from':{wide}}  {'to':{wide_too}}  operations"
        for source, target, count in rows:
            if len(source) <= wide and len(target) <= wide_too:
                yield f"{source:{wide}}  {target:{wide_too}}  {count:10,}"
            else:  # too long for columns
                yield from lines(f"{source}  ->  {target}  {count:10,}", subsequent_indent="    ")
        yield from self._cut(len(pairs), self.map.num_pairs, "pair of orbits", MAX_PAIRS)

    @staticmethod
    def _label(place: TensorOrbit, patterns: tuple[Pattern, ...]) -> str:
        name = patterns[place.tensor].name
        return (f"{name}=" if name else "") + (str(place.orbit) or "(one value)")

    def _pair(self, pair: OrbitPair) -> str:
        return f"{self._label(pair.source, self.map.inputs)} -> {self._label(pair.target, self.map.outputs)}"

    def _operations(self, pair: OrbitPair, limit: int) -> Iterator[tuple[int, Operation]]:
        """The first operations of a pair, with their numbers; of a layer those that it has."""
        classes = pair.source.orbit.classes, pair.target.orbit.classes
        listed = (
            Operation(pair.source, pair.target, matrix)
            for matrix in overlaps(*classes, self.map.max_overlap)
        )
        kept = (
            (n, o)
            for n, o in enumerate(listed, pair.start)
            if self.layer is None or o in self.layer.kept
        )
        return islice(kept, limit)

    def _num_kept(self, pair: OrbitPair) -> int:
        if self.layer is None or len(self.layer.kept) == self.map.dimension:
            return pair.count
        return sum(1 for _ in self._operations(pair, pair.count))

    @property
    def _num_operations(self) -> int:
        return self.map.dimension if self.layer is None else len(self.layer.kept)

    @staticmethod
    def _cut(shown: int, total: int, what: str, limit: int) -> Iterator[str]:
        if shown < total:
            remedy = (
                "--all or text(show_all=True) shows them" if total <= limit else "too many to list"
            )
            yield f"... and {_count(total - shown, what + ' more')} ({remedy})."

    def _details(self, show_all: bool) -> Iterator[str]:
        shown = 0
        limit = MAX_LISTED if show_all else _MAX_OPERATIONS
        for pair in self._pairs(show_all):
            operations = list(self._operations(pair, limit - shown))
            if operations:
                yield from lines(self._pair(pair), subsequent_indent="    ")
            for number, operation in operations:
                yield from _operation_lines(number, read(operation))
            shown += len(operations)
        yield from self._cut(shown, self._num_operations, "operation", MAX_LISTED)

    def data(self, show_all: bool = True) -> dict[str, Any]:
        """The explanation as plain data, for JSON."""
        m = self.map
        pairs = self._pairs(show_all)
        limit = MAX_LISTED if show_all else _MAX_OPERATIONS
        listed = [b for b in pairs if b.start < limit]
        return {
            "map": str(m),
            "inputs": [_pattern_data(p) for p in m.inputs],
            "outputs": [_pattern_data(p) for p in m.outputs],
            "max_overlap": m.max_overlap if m.is_open else None,
            "dimension": m.dimension,
            "num_biases": m.num_biases,
            "enough_nodes": None if m.is_open else dict(m.enough_nodes),
            "dimension_at": [
                {
                    "num_nodes": dict(n) if isinstance(n, Mapping) else n,
                    "dimension": m.dimension_at(n),
                }
                for n in self.nodes
            ],
            "paper": self._paper_data(),
            **({} if self.layer is None else {"layer": self.layer.data()}),
            "blocks": [self._pair_data(b, min(b.count, limit - b.start)) for b in listed],
            "is_complete": m.dimension <= limit and len(listed) == self.map.num_pairs,
        }

    def _paper_data(self) -> dict[str, Any] | None:
        paper = self._paper_count
        if paper is None:
            return None
        exact = {"tau_is_exact": paper.tau_is_exact, "tau_symm_is_exact": paper.tau_symm_is_exact}
        return {
            "tau": paper.tau,
            "tau_symm": paper.tau_symm,
            **exact,
            "reasons": list(paper.reasons),
        }

    def _pair_data(self, pair: OrbitPair, count: int) -> dict[str, Any]:
        readings = (
            (number, operation, read(operation))
            for number, operation in self._operations(pair, count)
        )
        return {
            "pair": self._pair(pair),
            "source": {
                "tensor": pair.source.tensor,
                "orbit": pair.source.number,
                "text": str(pair.source.orbit),
            },
            "target": {
                "tensor": pair.target.tensor,
                "orbit": pair.target.number,
                "text": str(pair.target.orbit),
            },
            "count": pair.count,
            "operations": [
                {
                    "number": number,
                    "overlap": operation.overlap,
                    "formula": reading.formula,
                    "words": reading.words,
                }
                for number, operation, reading in readings
            ],
        }

    def _repr_html_(self) -> str:
        head = "<br>".join(map(escape, self._head()))
        rows = []
        data = self.data(show_all=False)
        for pair in data["blocks"]:
            lines = "".join(
                f"<tr><td>{o['number']}</td><td><code>{escape(o['formula'])}</code></td><td>{escape(o['words'])}</td></tr>"
                for o in pair["operations"]
            )
            rows.append(
                f"<tr><th colspan=3 style='text-align:left'>{escape(pair['pair'])}: {pair['count']}</th></tr>{lines}"
            )
        shown = sum(len(b["operations"]) for b in data["blocks"])
        rest = "".join(
            f"<p>{escape(line)}</p>"
            for line in self._cut(shown, self._num_operations, "operation", MAX_LISTED)
        )
        legend = escape(" ".join(self._legend()))
        return f"<div><p>{head}</p><p>{legend}</p><table>{''.join(rows)}</table>{rest}</div>"


def _operation_lines(number: int, reading: Reading) -> Iterator[str]:
    head = f"{number:5,}  {reading.formula:32}"
    together = f"{head}  {reading.words}"
    if len(together) <= WIDTH:
        yield together
        return
    yield from lines(f"{number:5,}  {reading.formula}", subsequent_indent=" " * 9)
    yield from lines(reading.words, initial_indent=" " * 9, subsequent_indent=" " * 9)


def _pattern_data(pattern: Pattern) -> dict[str, Any]:
    data: dict[str, Any] = {
        "pattern": str(pattern.unnamed()),
        "name": pattern.name,
        "num_orbits": num_orbits(pattern),
    }
    if data["num_orbits"] <= MAX_PAIRS:
        data["orbits"] = None
        with suppress(TooLargeError):
            data["orbits"] = [
                {
                    "text": str(o),
                    "size": o.size,
                    "symmetry": o.symmetry,
                    "classes": [asdict(c) for c in o.classes],
                }
                for o in pattern.orbits
            ]
    return data


def _count(n: int, what: str) -> str:
    first, *rest = what.split(" ")
    if n != 1:
        first = {"bias": "biases"}.get(first, first + "s")
    return " ".join([f"{n:,}", first, *rest])
