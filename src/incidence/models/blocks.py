"""The parts of blocks and heads: maps of single entries, and the terms that a block adds to its
linear layer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from incidence.algebra.pattern import Pattern
from incidence.algebra.products import fits
from incidence.errors import IncidenceError
from incidence.nn import Attention, Linear, Neighbours, Product
from incidence.nn.composition import Side, unknown
from incidence.nn.steps import write, writes
from incidence.nn.tensors import Values, as_side, key_of
from incidence.structure import Structure

__all__ = [
    "AttentionTerm",
    "Join",
    "Jumping",
    "NeighbourTerm",
    "PerTensor",
    "Pick",
    "PooledTerm",
    "ProductTerm",
    "Rescale",
    "RowScale",
    "TermSum",
]


# ---- every entry on its own


class PerTensor(nn.Module):
    """A linear map of every entry, with weights of its own for each tensor.

    The map of an oriented tensor has no bias.

    Args:
        text: The tensors.
        in_channels: For all tensors, or one number for each in the order of the text; -1 to take
            it from the first batch.
        out_channels: For all tensors.
        bias: Whether maps add a bias.
    """

    def __init__(
        self, text: str, in_channels: int | Sequence[int], out_channels: int, bias: bool = True
    ) -> None:
        super().__init__()
        self.patterns = as_side(text)
        self.out_channels = out_channels
        self.keys = [key_of(p) for p in self.patterns]
        widths = [in_channels] * len(self.keys) if isinstance(in_channels, int) else in_channels
        self.maps = nn.ModuleList()
        for pattern, width in zip(self.patterns, widths, strict=True):
            has_bias = bias and not pattern.is_oriented
            is_lazy = width < 0
            self.maps.append(
                nn.LazyLinear(out_channels, has_bias)
                if is_lazy
                else nn.Linear(width, out_channels, has_bias)
            )

    def forward(self, x: Values, structure: Structure) -> Any:
        """Map every entry."""
        if not isinstance(x, Mapping):
            return self.maps[0](x)
        return {key: linear(x[key]) for key, linear in zip(self.keys, self.maps, strict=True)}

    def follow(self, side: Side | None) -> Side:
        """Return the same tensors."""
        return Side(self.patterns, (self.out_channels,) * len(self.patterns))


class Pick(nn.Module):
    """One of several tensors."""

    def __init__(self, output: Pattern) -> None:
        super().__init__()
        self.output = output
        self.key = key_of(output)

    def forward(self, x: Values, structure: Structure) -> Tensor:
        """Return the tensor."""
        return x[self.key] if isinstance(x, Mapping) else x

    def follow(self, side: Side | None) -> Side:
        """Return that tensor."""
        return unknown((self.output,))

    def extra_repr(self) -> str:
        """Return its key."""
        return repr(self.key)


class RowScale(nn.Module):
    """Divides every row by the sum of its absolute values. Rows of zeros stay zero."""

    def forward(self, x: Values, structure: Structure) -> Any:
        """Scale the rows of every tensor."""
        if isinstance(x, Mapping):
            return {key: self._scaled(value) for key, value in x.items()}
        return self._scaled(x)

    def follow(self, side: Side | None) -> Side | None:
        """Return the same tensors: scaling keeps signs."""
        return side

    @staticmethod
    def _scaled(x: Tensor) -> Tensor:
        total = x.abs().sum(1, keepdim=True)  # (rows, 1)
        return x / torch.where(total > 0, total, 1.0)


class Rescale(nn.Module):
    """Shifts and scales every channel by constants that `calibrate` takes from a first batch.

    A network without norms needs it: sums over whole structures can be too large to learn from.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.register_buffer("shift", torch.zeros(channels))
        self.register_buffer("scale", torch.ones(channels))

    shift: Tensor
    scale: Tensor

    def forward(self, x: Tensor) -> Tensor:
        """Scale the rows."""
        return (x - self.shift) / self.scale

    @torch.no_grad()
    def calibrate(self, x: Tensor) -> Rescale:
        """Set the constants to the mean and the deviation of a batch.

        A channel that is constant there is shifted and not scaled.
        """
        deviation = x.std(0, unbiased=False) if len(x) > 1 else torch.ones_like(self.scale)
        self.shift.copy_(x.mean(0))
        # (channels,)
        self.scale.copy_(torch.where(deviation > 1e-6 * x.abs().amax(0), deviation, 1.0))
        return self


class Join(nn.Module):
    """The outputs of several modules for one input, side by side."""

    def __init__(self, parts: Sequence[nn.Module]) -> None:
        super().__init__()
        self.side_by_side = nn.ModuleList(parts)

    def forward(self, x: Values, structure: Structure) -> Tensor:
        """Return all columns."""
        # (structures, all channels)
        return torch.cat([part(x, structure) for part in self.side_by_side], dim=1)

    def follow(self, side: Side | None) -> Side:
        """Return one row for each structure."""
        return unknown([Pattern("")])


# ---- terms of blocks


class TermSum(nn.Module):
    """A layer, plus terms of the same input that are each added to some of its outputs."""

    def __init__(self, layer: nn.Module, terms: Sequence[nn.Module]) -> None:
        super().__init__()
        self.layer = layer
        self.terms = nn.ModuleList(terms)
        # the one output that a term adds to
        self._keys = [getattr(term, "key", "") for term in terms]

    def forward(self, x: Values, structure: Structure) -> Values:
        """Return the sum."""
        y: Values = self.layer(x, structure)
        for key, term in zip(self._keys, self.terms, strict=True):
            more = term(x, structure)
            if not isinstance(y, dict):
                y = y + more
                continue
            by_key = more if isinstance(more, dict) else {key: more}
            y = {**y, **{k: y[k] + value for k, value in by_key.items()}}
        return y


class Jumping(nn.Module):
    """Blocks one after the other, and the mean or the maximum of what each of them returns.

    Args:
        blocks: The blocks, which return the tensors that they take.
        how: `mean` or `max`.
    """

    def __init__(self, blocks: Sequence[nn.Module], how: str) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.how = how

    def forward(self, x: Values, structure: Structure) -> Any:
        """Return every tensor over all blocks."""
        results: list[Any] = []
        for block in self.blocks:
            x = block(x, structure)
            results.append(x)
        if not isinstance(x, Mapping):
            return self._joined(results)
        return {key: self._joined([one[key] for one in results]) for key in x}

    def follow(self, side: Side | None) -> Side | None:
        """Return the same tensors."""
        return side

    def _joined(self, xs: Sequence[Any]) -> Tensor:
        every = torch.stack(list(xs))  # (blocks, entries, channels)
        return every.mean(0) if self.how == "mean" else every.amax(0)

    def extra_repr(self) -> str:
        """Return how results are joined."""
        return self.how


class ProductTerm(nn.Module):
    r"""A product of hidden tensors: a linear map of every operand, `inc.einsum`, and a linear map
    of the result.

    Args:
        text: The product, for example `i j, j k -> i k`.
        hidden: The hidden tensors. The text may spell them in other letters, and `i i` reads the
            diagonal of `i j`.
        channels: Channels of every hidden tensor.

    Raises:
        IncidenceError: A tensor of the text is not hidden.
    """

    def __init__(self, text: str, hidden: Sequence[Pattern], channels: int) -> None:
        super().__init__()
        # The block has a norm after the sum of all terms.
        self.product = Product(text, channels, channels, norm=None)
        product = self.product.product
        self.keys = [_hidden_key(p, hidden, f"the product `{product}`") for p in product.operands]
        self.key = _hidden_key(product.output, hidden, f"the product `{product}`")
        self.result = nn.Linear(channels, channels, bias=False)

    def forward(self, x: Values, structure: Structure) -> Tensor:
        """Return what is added to the tensor of the output."""
        y: Tensor = self.result(self._product(x, structure))
        return y

    def _product(self, x: Values, structure: Structure) -> Tensor:
        y: Tensor = self.product(_select(x, self.keys), structure)
        return y

    @torch.no_grad()
    def calibrate(self, x: Values, structure: Structure) -> ProductTerm:
        """Divide the last map by the root mean square of the product on a first batch.

        Products are sums over many entries, and may be large.
        """
        self.result.weight.div_(_root_mean_square(self._product(x, structure)))
        return self


class AttentionTerm(nn.Module):
    r"""Attention along hidden tensors.

    The features of the tensor along which it goes add a bias, unless that tensor is itself the
    queries or the values.

    Args:
        text: Along which tensor, and over which letters. `near=i j over j`: every node i attends
            to the nodes j of its pairs. `{i j} over i j`: the whole structure attends to its
            edges.
        hidden: The hidden tensors.
        channels: Channels of every hidden tensor.
        heads: Number of heads; must divide the channels.

    Raises:
        IncidenceError: The text has another form, or one of its tensors is not hidden.
    """

    def __init__(self, text: str, hidden: Sequence[Pattern], channels: int, heads: int) -> None:
        super().__init__()
        pattern, word, over = text.rpartition(" over ")
        if not word:
            raise IncidenceError(
                "attention= is along a tensor over some of its letters, such as 'near=i j over j';"
                f" got {text!r}."
            )
        # A small layer says which tensors are queries and values; the bias depends on that.
        roles = Attention(pattern, over, 1, 1)
        has_bias = roles.pattern not in (roles.queries, roles.values)
        bias = channels if has_bias else None
        self.attention = Attention(pattern, over, channels, channels, heads, bias)
        self._attention_keys = [key_of(p) for p in self.attention.in_channels]
        where = f"attention along `{text}`"
        self.keys = [_hidden_key(p, hidden, where) for p in self.attention.in_channels]
        self.key = _hidden_key(self.attention.queries, hidden, where)

    def forward(self, x: Values, structure: Structure) -> Tensor:
        """Return what is added to the tensor of the queries."""
        xs = _select(x, self.keys)
        by_key = dict(zip(self._attention_keys, xs, strict=True))
        y: Tensor = self.attention(by_key if len(xs) > 1 else xs[0], structure)
        return y


class NeighbourTerm(nn.Module):
    r"""A linear map of the neighbours of every node, for the nodes of each sort: `nn.Neighbours`.

    Args:
        hidden: The hidden tensors.
        links: The tensors that join nodes. They need not be hidden, but their nodes must be.
        channels: Channels of every hidden tensor.
    """

    def __init__(self, hidden: Sequence[Pattern], links: Sequence[Pattern], channels: int) -> None:
        super().__init__()
        nodes = [p for p in hidden if len(p.letters) == 1 and p not in links]
        self.neighbours = Neighbours(", ".join(map(str, (*nodes, *links))))
        self.keys = list(self.neighbours.nodes.values())
        self.results = nn.ModuleList(nn.Linear(channels, channels, bias=False) for _ in self.keys)

    def forward(self, x: Values, structure: Structure) -> Any:
        """Return what is added to nodes."""
        sums = self._sums(x, structure)
        more = {key: result(sums[key]) for key, result in zip(self.keys, self.results, strict=True)}
        return more if isinstance(x, Mapping) else more[self.keys[0]]

    def _sums(self, x: Values, structure: Structure) -> dict[str, Tensor]:
        by_key = x if isinstance(x, Mapping) else {self.keys[0]: x}
        return self.neighbours.of_nodes(by_key, structure)

    @torch.no_grad()
    def calibrate(self, x: Values, structure: Structure) -> NeighbourTerm:
        """Divide the maps by the root mean square of the sums on a first batch."""
        sums = self._sums(x, structure)
        for key, weight in zip(self.keys, self.results.parameters(), strict=True):
            weight.div_(_root_mean_square(sums[key]))
        return self


class PooledTerm(nn.Module):
    """A complete layer from the inputs that are not hidden to the hidden tensors."""

    def __init__(self, layer: Linear) -> None:
        super().__init__()
        self.layer = layer
        self._input_keys = [key_of(p) for p in layer.map.inputs]
        self._output_key = key_of(layer.map.outputs[0])

    def forward(self, x: Mapping[str, Tensor], structure: Structure) -> dict[str, Tensor]:
        """Return what is added to the hidden tensors."""
        pooled = {key: x[key] for key in self._input_keys}
        y = self.layer(pooled if len(pooled) > 1 else pooled[self._input_keys[0]], structure)
        return y if isinstance(y, dict) else {self._output_key: y}


def _select(x: Values, keys: Sequence[str]) -> list[Tensor]:
    """The tensors of some keys; a lone tensor stands for all of them."""
    return [x[key] if isinstance(x, Mapping) else x for key in keys]


def _root_mean_square(x: Tensor) -> float:
    """The root mean square; 1 if there is nothing to divide by."""
    size = float(x.double().square().mean().sqrt()) if x.numel() else 0.0
    return size if size > 0 else 1.0


def _hidden_key(pattern: Pattern, hidden: Sequence[Pattern], where: str) -> str:
    """The key of the hidden tensor that a pattern means."""
    # The tensor itself wins; else the only one that the pattern can read, as `i i` reads `i j`.
    same = [p for p in hidden if p == pattern]
    fitting = [p for p in hidden if p.name == pattern.name and fits(pattern, p)]
    meant = same or fitting
    if len(meant) != 1:
        known = ", ".join(f"`{p}`" for p in hidden)
        raise IncidenceError(
            f"{where} must take hidden tensors, and `{pattern}` is none: there are {known}. Name"
            " the hidden tensors with --through."
        )
    return key_of(meant[0])


# ---- steps of a compiled network


@writes(PerTensor)
def _write_per_tensor(program: Any, module: PerTensor, x: Any) -> Any:
    if not isinstance(x, dict):
        return write(program, module.maps[0], x)
    return {
        key: write(program, linear, x[key])
        for key, linear in zip(module.keys, module.maps, strict=True)
    }


@writes(Pick)
def _write_pick(program: Any, module: Pick, x: Any) -> Any:
    return x[module.key] if isinstance(x, dict) else x


@writes(Rescale)
def _write_rescale(program: Any, module: Rescale, x: Any) -> Any:
    return program.rescale(x, module)


@writes(TermSum)
def _write_term_sum(program: Any, module: TermSum, x: Any) -> Any:
    program.close(x.values() if isinstance(x, dict) else [x])
    y = write(program, module.layer, x)
    for key, term in zip(module._keys, module.terms, strict=True):
        more = write(program, term, x)
        if not isinstance(y, dict):
            y = program.add(y, more)
            continue
        by_key = more if isinstance(more, dict) else {key: more}
        y = {**y, **{k: program.add(y[k], value) for k, value in by_key.items()}}
    return y


@writes(ProductTerm)
def _write_product_term(program: Any, term: ProductTerm, x: Any) -> Any:
    values = _select(x, term.keys)
    result = x[term.key] if isinstance(x, dict) else x
    product = term.product
    maps = zip(product.maps, values, strict=True)
    factors = [write(program, m, value) for m, value in maps]
    shape = 1, product.out_channels
    y = program.product(product.product, factors, [shape] * 3, result.rows)  # (entries, channels)
    return write(program, term.result, y)


@writes(AttentionTerm)
def _write_attention_term(program: Any, term: AttentionTerm, x: Any) -> Any:
    values = dict(zip(term._attention_keys, _select(x, term.keys), strict=True))
    return write(program, term.attention, values)


@writes(PooledTerm)
def _write_pooled_term(program: Any, module: PooledTerm, x: Any) -> Any:
    y = write(program, module.layer, {key: x[key] for key in module._input_keys})
    return y if isinstance(y, dict) else {module._output_key: y}
