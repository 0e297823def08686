"""Products in words: one product as a formula, and all those of a multilinear map as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from typing import Any, NamedTuple

from incidence.algebra.contraction import needs_join
from incidence.algebra.layers import Layer, lines
from incidence.algebra.multilinear import MultilinearMap, is_entrywise
from incidence.algebra.products import ProductText

__all__ = ["ProductExplanation", "ProductReading", "explain_layer", "read_product"]

WIDTH = 80
_MAX_SHOWN = 60  # unless everything is asked for
_LEGEND = (
    "x1, x2, ... are the operands, y the output. A letter is one node throughout;",
    "different letters may be one node too. Terms that differ by exchanging letters",
    "which the text cannot tell apart count once.",
)


class ProductReading(NamedTuple):
    """One product as a formula and in words."""

    formula: str
    words: str

    def __str__(self) -> str:
        return f"{self.formula}: {self.words}"


def read_product(product: ProductText) -> ProductReading:
    """Puts a product into a formula and words.

    Example:
        >>> print(read_product(ProductText("i j, j k -> i k")))
        y[i k] = sum_j x1[i j] x2[j k]: sum over j; by a join
    """
    factors = " ".join(
        f"x{number}[{pattern.unnamed()}]" for number, pattern in enumerate(product.operands, 1)
    )
    summed = f"sum_{','.join(product.summed)} " if product.summed else ""
    parts = [f"sum over {', '.join(product.summed)}"] if product.summed else []
    parts += [f"copy along {', '.join(product.copied)}"] if product.copied else []
    parts += ["by a join"] if needs_join(product) else []
    return ProductReading(
        f"y[{product.output.unnamed()}] = {summed}{factors}", "; ".join(parts) or "entry by entry"
    )


@dataclass(frozen=True)
class ProductExplanation:
    """What `explain` returns for a multilinear map: `print` it, show it in a notebook, or take `data` or `text(show_all=True)`.

    Attributes:
        map: The multilinear map.
        nodes: The numbers of nodes at which the dimension is given.
        kept: The products of a layer, if it is one that is explained; else all.
        layer: What is to say of that layer.
    """

    map: MultilinearMap
    nodes: tuple[int | Mapping[str, int], ...] = ()
    kept: tuple[ProductText, ...] | None = None
    layer: str = ""

    def __str__(self) -> str:
        return self.text()

    @property
    def _products(self) -> tuple[ProductText, ...]:
        return self.map.products if self.kept is None else self.kept

    def text(self, show_all: bool = False) -> str:
        """The explanation as text of at most 80 columns; a long list is cut with a count unless all is asked for."""
        return "\n".join([*self._head(), "", *_LEGEND, "", *self._list(show_all)])

    def _head(self) -> Iterator[str]:
        yield from lines(str(self.map), subsequent_indent="    ")
        if self.layer:
            yield from lines(self.layer)
        bound = [
            f"{n} nodes" + f" of sort {sort}" * (sort != "node")
            for sort, n in self.map.enough_nodes.items()
            if n > 1
        ]
        many = f", for {' and '.join(bound)} or more" if bound else ""
        yield from lines(f"{self.map.dimension:,} product{'s' * (self.map.dimension != 1)}{many}.")
        beyond, joins = self.map.num_beyond_entrywise, self.map.num_joins
        yield from lines(
            f"{beyond:,} of them sum{'s' * (beyond == 1)} over a node that two operands share; the others multiply pooled operands entry "
            f"by entry. {joins:,} need{'s' * (joins == 1)} a join."
        )
        if self.nodes:
            yield from lines(
                f"Exact dimension: {'; '.join(f'{self.map.dimension_at(n):,} at {_told(n)}' for n in self.nodes)}."
            )

    def _list(self, show_all: bool) -> Iterator[str]:
        shown = self._products if show_all else self._products[:_MAX_SHOWN]
        for number, reading in enumerate(map(read_product, shown)):
            together = f"{number:5,}  {reading.formula:38}  {reading.words}"
            yield from (
                [together]
                if len(together) <= 80
                else lines(str(reading), initial_indent=f"{number:5,}  ", subsequent_indent=" " * 9)
            )
        left = len(self._products) - len(shown)
        if left:
            yield f"... and {left:,} more (--all or text(show_all=True) shows them)."

    def data(self, show_all: bool = True) -> dict[str, Any]:
        """The explanation as plain data, for JSON."""
        shown = self._products if show_all else self._products[:_MAX_SHOWN]
        told = [
            {
                "num_nodes": dict(n) if isinstance(n, Mapping) else n,
                "dimension": self.map.dimension_at(n),
            }
            for n in self.nodes
        ]
        return {
            "map": str(self.map),
            "operands": [str(pattern) for pattern in self.map.operands],
            "output": str(self.map.output),
            "dimension": self.map.dimension,
            "dimension_at": told,
            "num_beyond_entrywise": self.map.num_beyond_entrywise,
            "num_joins": self.map.num_joins,
            "products": [_product_data(number, product) for number, product in enumerate(shown)],
            "is_complete": len(shown) == len(self._products),
        }

    def _repr_html_(self) -> str:
        head = "<br>".join(map(escape, self._head()))
        readings = enumerate(map(read_product, self._products[:_MAX_SHOWN]))
        rows = "".join(
            f"<tr><td>{n}</td><td><code>{escape(r.formula)}</code></td><td>{escape(r.words)}</td></tr>"
            for n, r in readings
        )
        left = len(self._products) - _MAX_SHOWN
        rest = f"<p>... and {left:,} more.</p>" if left > 0 else ""
        return (
            f"<div><p>{head}</p><p>{escape(' '.join(_LEGEND))}</p><table>{rows}</table>{rest}</div>"
        )


def _told(num_nodes: int | Mapping[str, int]) -> str:
    return (
        ", ".join(f"{sort}={n}" for sort, n in num_nodes.items())
        if isinstance(num_nodes, Mapping)
        else f"{num_nodes} nodes"
    )


def _product_data(number: int, product: ProductText) -> dict[str, Any]:
    reading = read_product(product)
    kinds = {"is_entrywise": is_entrywise(product), "needs_join": needs_join(product)}
    return {
        "number": number,
        "text": str(product),
        "formula": reading.formula,
        "words": reading.words,
        **kinds,
    }


def explain_layer(layer: Any, nodes: tuple[int | Mapping[str, int], ...]) -> ProductExplanation:
    """The products of a layer in words."""
    return ProductExplanation(
        layer.map, nodes, layer.products, f"{Layer(layer).kind}, {Layer(layer).sentence()}."
    )
