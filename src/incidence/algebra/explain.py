r"""Maps in words: which orbits a map has, and what each of its operations or products computes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import islice
from typing import Any, overload

from incidence.algebra.counting import PaperCount, paper_count
from incidence.algebra.describe import ProductReading, read, read_product
from incidence.algebra.layers import Layer, NetworkExplanation, is_layer, is_module, lines
from incidence.algebra.maps import (
    MAX_PAIRS,
    EquivariantMap,
    Operation,
    OrbitPair,
    TensorOrbit,
    num_orbits,
)
from incidence.algebra.multilinear import MultilinearMap, is_entrywise
from incidence.algebra.overlap import MAX_LISTED, overlaps
from incidence.algebra.pattern import Pattern
from incidence.algebra.products import ProductText, needs_join
from incidence.algebra.variables import bound_in_words, num_variables
from incidence.errors import IncidenceError, TooLargeError, by_door
from incidence.notebook import escaped

__all__ = ["Explanation", "ProductExplanation", "explain"]

WIDTH = 80
_MAX_LABEL = 32  # characters of a column of the table
_MAX_BLOCKS, _MAX_SHOWN = 30, 60  # are shown, unless the caller wants all
_ALL = "--all", "text(show_all=True)"  # what lists the rest
_MOST_COUNTED = 2_000  # products whose variables are counted
_LEGEND = (
    "x is the input, y the output. Letters of x stand for different nodes, and so do",
    "those of y; a letter in both is a node that they share. A sum runs over the",
    "entries, each once, however many ways there are to write it.",
)
_ORIENTED_LEGEND = (
    "Values of an oriented face change sign when two of its nodes are exchanged:",
    "x[<j i>] = -x[<i j>]. Faces are written in the order in which no sign is left.",
)
_PRODUCT_LEGEND = (
    "x1, x2, ... are the operands, y the output. A letter is one node throughout;",
    "different letters may be one node too. Terms that differ by exchanging letters",
    "which the text cannot tell apart count once.",
)
_TOO_LARGE = "The paper's formula was not evaluated: there are too many orbits."

Count = int | Mapping[str, int]
"""A number of nodes, for every sort at once or for each."""
Nodes = Count | Iterable[Count]


@overload
def explain(what: EquivariantMap, *, nodes: Nodes = ...) -> Explanation: ...
@overload
def explain(what: MultilinearMap, *, nodes: Nodes = ...) -> ProductExplanation: ...
@overload
def explain(
    what: str, *, nodes: Nodes = ..., max_overlap: int | None = ...
) -> Explanation | ProductExplanation: ...
@overload
def explain(
    what: object, *, nodes: Nodes = ...
) -> Explanation | ProductExplanation | NetworkExplanation: ...
def explain(
    what: object, *, nodes: Nodes = (), max_overlap: int | None = None
) -> Explanation | ProductExplanation | NetworkExplanation:
    """Explain a map, a layer or a network in words. The result prints, and renders in notebooks.

    Args:
        what: A map, as text or as an `EquivariantMap`; products, as text with `*` or as a
            `MultilinearMap`; a layer of either; or any torch module with layers in it.
        nodes: Numbers of nodes at which to give the exact dimension of a map or a layer; with
            sorts, mappings from sort to number.
        max_overlap: With open faces, and a map given as text: how many matched nodes may lie in an
            open class (default 1).

    Returns:
        An `Explanation` of a map or a layer, with every operation; a `ProductExplanation` of
        products; a `NetworkExplanation` of anything else, layer by layer.

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
    # one number, or several
    numbers = (nodes,) if isinstance(nodes, (int, Mapping)) else tuple(nodes)
    if is_layer(what):
        return Explanation(Layer(what).map, numbers, Layer(what))
    if is_module(what) and isinstance(getattr(what, "map", None), MultilinearMap):
        return ProductExplanation(Layer(what).map, numbers, Layer(what))
    if is_module(what):
        if numbers:
            raise IncidenceError(
                "nodes= is for a map or a layer: explain one layer of the network."
            )
        return NetworkExplanation(what)
    if isinstance(what, str) and "*" in what:
        what = MultilinearMap(what)  # `*` stands in no text of a linear map
    elif isinstance(what, str):
        what = EquivariantMap(what, 1 if max_overlap is None else max_overlap)
    if isinstance(what, MultilinearMap):
        return ProductExplanation(what, numbers)
    if not isinstance(what, EquivariantMap):
        raise IncidenceError(
            f"explain takes a map, its text, a layer or a network; got {type(what).__name__}."
        )
    return Explanation(what, numbers)


@dataclass(frozen=True)
class Explanation:
    """The explanation of a map: print it, show it in a notebook, or take its `data` or `text`.

    Attributes:
        map: The map.
        nodes: The numbers of nodes at which the dimension is given.
        layer: The layer that has the map, if there is one: only its operations are shown.
    """

    map: EquivariantMap
    nodes: tuple[Count, ...] = ()
    layer: Layer | None = None

    def __str__(self) -> str:
        return self.text()

    def text(self, show_all: bool = False) -> str:
        """Return the explanation as text of at most 80 columns.

        Args:
            show_all: Whether to show long lists to their end, and not only how long they are.
        """
        parts = [self._head(), self._table(show_all), self._legend(), self._details(show_all)]
        parts.append(lines(bound_in_words(num_variables(self.map))))
        return "\n\n".join("\n".join(part) for part in parts).rstrip()  # a blank line between parts

    def _legend(self) -> tuple[str, ...]:
        return (*_LEGEND, *_ORIENTED_LEGEND) if self.map.is_oriented else _LEGEND

    def _head(self) -> Iterator[str]:
        m = self.map
        yield from lines(str(m), subsequent_indent="    ")
        if self.layer is not None:
            yield from lines(f"{self.layer.kind}, {self.layer.sentence()}.")
        condition = _enough_nodes(m.enough_nodes)
        if m.is_open:
            condition = f", at most {m.max_overlap} matched in open faces"
        # in words
        operations, biases = _count(m.dimension, "operation"), _count(m.num_biases, "bias")
        yield from lines(f"{operations} and {biases}{condition}.")
        yield from lines(str(self._paper_count or _TOO_LARGE))
        yield from _dimensions(m, self.nodes)

    @cached_property
    def _paper_count(self) -> PaperCount | None:
        try:
            return paper_count(self.map)
        except TooLargeError:
            return None

    def _pairs(self, show_all: bool) -> tuple[OrbitPair, ...]:
        """Return the pairs of orbits to show; none if there are too many orbits to list."""
        # Counting the pairs is quick; listing the orbits of one pattern may already be too much.
        limit = MAX_PAIRS if show_all else _MAX_BLOCKS
        try:
            return tuple(islice(self.map.iter_pairs(), limit))
        except TooLargeError:
            return ()

    def _table(self, show_all: bool) -> Iterator[str]:
        pairs = self._pairs(show_all)
        rows = [(*self._labels(pair), self._num_shown(pair)) for pair in pairs]
        # Very long labels do not widen the columns; they get lines of their own.
        wide = max([len(r[0]) for r in rows if len(r[0]) <= _MAX_LABEL] + [4])
        wide_too = max([len(r[1]) for r in rows if len(r[1]) <= _MAX_LABEL] + [2])
        yield f"{'from':{wide}}  {'to':{wide_too}}  operations"
        for source, target, count in rows:
            if len(source) <= wide and len(target) <= wide_too:
                yield f"{source:{wide}}  {target:{wide_too}}  {count:10,}"
            else:  # too long for columns
                yield from lines(f"{source}  ->  {target}  {count:10,}", subsequent_indent="    ")
        yield from _more(self.map.num_pairs - len(pairs), "pair of orbits", MAX_PAIRS, len(pairs))

    def _labels(self, pair: OrbitPair) -> tuple[str, str]:
        return _label(pair.source, self.map.inputs), _label(pair.target, self.map.outputs)

    def _operations(self, pair: OrbitPair, limit: int) -> Iterator[tuple[int, Operation]]:
        """Yield the first operations of a pair with their numbers; of a layer, those it has."""
        classes = pair.source.orbit.classes, pair.target.orbit.classes
        matrices = enumerate(overlaps(*classes, self.map.max_overlap), pair.start)
        # A generator: a pair may have far more operations than are shown.
        every = ((n, Operation(pair.source, pair.target, matrix)) for n, matrix in matrices)
        if self.layer is not None:
            every = ((n, o) for n, o in every if self.layer is None or o in self.layer.kept)
        return islice(every, limit)

    def _num_shown(self, pair: OrbitPair) -> int:
        # Counting is enough, if the layer has all operations.
        if self._num_operations == self.map.dimension:
            return pair.count
        return sum(1 for _ in self._operations(pair, pair.count))

    @property
    def _num_operations(self) -> int:
        return self.map.dimension if self.layer is None else len(self.layer.kept)

    def _details(self, show_all: bool) -> Iterator[str]:
        shown = 0
        limit = MAX_LISTED if show_all else _MAX_SHOWN
        for pair in self._pairs(show_all):
            # Pairs after the limit have no lines, but the count at the end includes them.
            operations = list(self._operations(pair, limit - shown))
            if operations:
                yield from lines(" -> ".join(self._labels(pair)), subsequent_indent="    ")
            for number, operation in operations:
                yield from _operation_lines(number, operation)
            shown += len(operations)
        yield from _more(self._num_operations - shown, "operation", MAX_LISTED, shown)

    def data(self, show_all: bool = True) -> dict[str, Any]:
        """Return the explanation as plain data, for JSON."""
        m, paper = self.map, self._paper_count
        pairs = self._pairs(show_all)
        limit = MAX_LISTED if show_all else _MAX_SHOWN
        # pairs of which an operation is listed
        shown = [pair for pair in pairs if pair.start < limit]
        layer = {} if self.layer is None else {"layer": self.layer.data()}
        return {
            "map": str(m),
            "inputs": [_pattern_data(p) for p in m.inputs],
            "outputs": [_pattern_data(p) for p in m.outputs],
            "max_overlap": m.max_overlap if m.is_open else None,
            "dimension": m.dimension,
            "num_biases": m.num_biases,
            "enough_nodes": None if m.is_open else dict(m.enough_nodes),
            "dimension_at": _dimension_data(m, self.nodes),
            "paper": paper and paper.data(),
            "num_variables": num_variables(m),
            **layer,
            "blocks": [
                self._pair_data(pair, min(pair.count, limit - pair.start)) for pair in shown
            ],
            "is_complete": m.dimension <= limit and len(shown) == m.num_pairs,
        }

    def _pair_data(self, pair: OrbitPair, count: int) -> dict[str, Any]:
        operations = []
        for number, operation in self._operations(pair, count):
            reading = read(operation)
            texts = {"formula": reading.formula, "words": reading.words}
            operations.append({"number": number, "overlap": operation.overlap, **texts})
        return {
            "pair": " -> ".join(self._labels(pair)),
            "source": _place_data(pair.source),
            "target": _place_data(pair.target),
            "count": pair.count,
            "operations": operations,
        }

    def _repr_html_(self) -> str:
        rows = []
        shown = 0
        for pair in self.data(show_all=False)["blocks"]:
            heading = escaped(f"{pair['pair']}: {pair['count']}")
            rows.append(f"<tr><th colspan=3 style='text-align:left'>{heading}</th></tr>")
            # a line of the table each
            rows += [_row(o["number"], o["formula"], o["words"]) for o in pair["operations"]]
            shown += len(pair["operations"])
        # how many rows are left out
        rest = _more(self._num_operations - shown, "operation", MAX_LISTED, shown)
        return _html(self._head(), self._legend(), rows, rest)


@dataclass(frozen=True)
class ProductExplanation:
    """The explanation of a multilinear map: print it, show it in a notebook, or take its `data` or
    `text`.

    Attributes:
        map: The multilinear map.
        nodes: The numbers of nodes at which the dimension is given.
        layer: The layer that has the map, if there is one: only its products are shown.
    """

    map: MultilinearMap
    nodes: tuple[Count, ...] = ()
    layer: Layer | None = None

    def __str__(self) -> str:
        return self.text()

    @property
    def _products(self) -> tuple[ProductText, ...]:
        if self.layer is None:
            return self.map.products
        products: tuple[ProductText, ...] = self.layer.module.products
        return products

    def text(self, show_all: bool = False) -> str:
        """Return the explanation as text of at most 80 columns.

        Args:
            show_all: Whether to show a long list to its end, and not only how long it is.
        """
        bound = lines(bound_in_words(self._num_variables))
        body = [*self._head(), "", *_PRODUCT_LEGEND, "", *self._list(show_all)]
        return "\n".join([*body, "", *bound])

    @property
    def _num_variables(self) -> int | None:
        """The largest number of variables of a product; None if there are too many to look at."""
        if len(self._products) > _MOST_COUNTED:
            return None
        return max((num_variables(p) or 0 for p in self._products), default=0)

    def _head(self) -> Iterator[str]:
        m = self.map
        yield from lines(str(m), subsequent_indent="    ")
        if self.layer is not None:
            yield from lines(f"{self.layer.kind}, {self.layer.sentence()}.")
        yield from lines(f"{_count(m.dimension, 'product')}{_enough_nodes(m.enough_nodes)}.")
        beyond, joins = m.num_beyond_entrywise, m.num_joins
        yield from lines(
            f"{beyond:,} of them sum{'s' * (beyond == 1)} over a node that two operands share; the"
            f" others multiply pooled operands entry by entry. {joins:,} need{'s' * (joins == 1)} a"
            " join."
        )
        yield from _dimensions(m, self.nodes)

    def _shown(self, show_all: bool) -> list[tuple[ProductText, ProductReading]]:
        limit = len(self._products) if show_all else _MAX_SHOWN
        return [(product, read_product(product)) for product in self._products[:limit]]

    def _list(self, show_all: bool) -> Iterator[str]:
        shown = self._shown(show_all)
        for number, (_, reading) in enumerate(shown):
            line = f"{number:5,}  {reading.formula:38}  {reading.words}"
            if len(line) <= WIDTH:
                yield line
            else:
                start, indent = f"{number:5,}  ", " " * 9
                yield from lines(str(reading), initial_indent=start, subsequent_indent=indent)
        left = len(self._products) - len(shown)
        if left:
            yield f"... and {left:,} more ({by_door(*_ALL)} shows them)."

    def data(self, show_all: bool = True) -> dict[str, Any]:
        """Return the explanation as plain data, for JSON."""
        m, shown = self.map, self._shown(show_all)
        products = [
            {
                "number": number,
                "text": str(product),
                "formula": reading.formula,
                "words": reading.words,
                "is_entrywise": is_entrywise(product),
                "needs_join": needs_join(product),
            }
            for number, (product, reading) in enumerate(shown)
        ]
        return {
            "map": str(m),
            "operands": [str(pattern) for pattern in m.operands],
            "output": str(m.output),
            "dimension": m.dimension,
            "dimension_at": _dimension_data(m, self.nodes),
            "num_beyond_entrywise": m.num_beyond_entrywise,
            "num_joins": m.num_joins,
            "num_variables": self._num_variables,
            "products": products,
            "is_complete": len(shown) == len(self._products),
        }

    def _repr_html_(self) -> str:
        shown = self._shown(show_all=False)
        rows = [_row(n, reading.formula, reading.words) for n, (_, reading) in enumerate(shown)]
        left = len(self._products) - len(shown)
        rest = [f"... and {left:,} more."] if left else []
        return _html(self._head(), _PRODUCT_LEGEND, rows, rest)


def _label(place: TensorOrbit, patterns: tuple[Pattern, ...]) -> str:
    name = patterns[place.tensor].name
    return (f"{name}=" if name else "") + (str(place.orbit) or "(one value)")


def _operation_lines(number: int, operation: Operation) -> Iterator[str]:
    reading = read(operation)
    line = f"{number:5,}  {reading.formula:32}  {reading.words}"
    if len(line) <= WIDTH:
        yield line
        return
    indent = " " * 9  # below the formula, past the number
    yield from lines(f"{number:5,}  {reading.formula}", subsequent_indent=indent)
    yield from lines(reading.words, initial_indent=indent, subsequent_indent=indent)


def _enough_nodes(enough: Mapping[str, int]) -> str:
    """Return the end of a sentence: from how many nodes on the dimension is exact."""
    bounds = [
        f"{n} nodes" if sort == "node" else f"{n} nodes of sort {sort}"
        for sort, n in enough.items()
        if n > 1
    ]
    return f", for {' and '.join(bounds)} or more" if bounds else ""


def _dimensions(m: EquivariantMap | MultilinearMap, nodes: Sequence[Count]) -> list[str]:
    texts = []
    for count in nodes:
        at = f"{count} nodes"
        if isinstance(count, Mapping):
            at = ", ".join(f"{sort}={n}" for sort, n in count.items())
        texts.append(f"{m.dimension_at(count):,} at {at}")
    return lines(f"Exact dimension: {'; '.join(texts)}.") if texts else []


def _dimension_data(
    m: EquivariantMap | MultilinearMap, nodes: Sequence[Count]
) -> list[dict[str, Any]]:
    return [
        {
            "num_nodes": dict(count) if isinstance(count, Mapping) else count,
            "dimension": m.dimension_at(count),
        }
        for count in nodes
    ]


def _more(left: int, what: str, limit: int, shown: int) -> list[str]:
    """Return a line about the part of a list that is not shown, if there is one."""
    if not left:
        return []
    can_list = left + shown <= limit
    remedy = f"{by_door(*_ALL)} shows them" if can_list else "too many to list"
    return [f"... and {_count(left, what + ' more')} ({remedy})."]


def _count(n: int, what: str) -> str:
    noun, *rest = what.split(" ")
    if n != 1:
        noun = "biases" if noun == "bias" else f"{noun}s"
    return " ".join([f"{n:,}", noun, *rest])


def _pattern_data(pattern: Pattern) -> dict[str, Any]:
    number = num_orbits(pattern)
    data: dict[str, Any] = {
        "pattern": str(pattern.unnamed()),
        "name": pattern.name,
        "num_orbits": number,
    }
    # The key is left out of longer answers, and None if listing the orbits takes too long.
    if number <= MAX_PAIRS:
        data["orbits"] = None
        with suppress(TooLargeError):
            data["orbits"] = [
                {
                    "text": str(orbit),
                    "size": orbit.size,
                    "symmetry": orbit.symmetry,
                    "classes": [asdict(c) for c in orbit.classes],
                }
                for orbit in pattern.orbits
            ]
    return data


def _place_data(place: TensorOrbit) -> dict[str, Any]:
    return {"tensor": place.tensor, "orbit": place.number, "text": str(place.orbit)}


def _row(number: int, formula: str, words: str) -> str:
    cells = f"<td><code>{escaped(formula)}</code></td><td>{escaped(words)}</td>"
    return f"<tr><td>{number}</td>{cells}</tr>"


def _html(
    head: Iterable[str], legend: Iterable[str], rows: Iterable[str], rest: Iterable[str]
) -> str:
    first = "<br>".join(map(escaped, head))
    last = "".join(f"<p>{escaped(line)}</p>" for line in rest)
    table = f"<table>{''.join(rows)}</table>"
    return f"<div><p>{first}</p><p>{escaped(' '.join(legend))}</p>{table}{last}</div>"
