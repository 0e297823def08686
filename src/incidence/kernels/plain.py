r"""Layers and readouts as steps that every runtime knows: take rows, multiply, add up. What is exported is made of these.

The engine is one operator, which only this library can run. Here the same sums are written out on lists that are inputs of the graph: for
every stack and level the pairs of a row and a bag, and how many rows each bag has. Sizes of lists are the only sizes there are, so that
one graph serves structures of any size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from incidence.errors import IncidenceError
from incidence.kernels.aggregate import Aggregation
from incidence.kernels.big import Big
from incidence.plans.layout import BagLayout
from incidence.plans.program import Products
from incidence.plans.stack import Partners, StackPlan

__all__ = [
    "PLAIN",
    "LevelLists",
    "PartnerLists",
    "assert_plain",
    "level_lists",
    "partner_lists",
    "plain_layer",
    "pool_level",
]


class LevelLists(NamedTuple):
    """The pairs of a row and a bag of one level of a stack.

    Attributes:
        rows: The row of every pair, shape (pairs,).
        bags: The bag of every pair, counted within the level, shape (pairs,).
        sizes: How many rows each bag has, shape (keys, slots): bag `k * slots + s` is that of key k and slot s.
        signs: 1 or -1 for every pair, shape (pairs,); None where no tensor of the stack has an oriented face.
    """

    rows: Tensor
    bags: Tensor
    sizes: Tensor
    signs: Tensor | None = None


class PartnerLists(NamedTuple):
    """The pairs of rows on the same nodes that one operation relates: who reads, who is read, and with which sign; shape (pairs,) each."""

    targets: Tensor
    sources: Tensor
    signs: Tensor | None = None


def level_lists(stack: StackPlan) -> Iterator[LevelLists]:
    """The lists of every level of a stack."""
    counts = stack.lists.rows_ptr.diff().long()
    bags = torch.arange(stack.num_bags, device=counts.device).repeat_interleave(counts)
    for level, first in enumerate(stack.level_ptr[:-1]):
        reads = slice(stack.reads_ptr[level], stack.reads_ptr[level + 1])
        signs = None if stack.signs is None else stack.signs.of_bags[reads].float()
        rows = stack.lists.rows_of_bags[reads].long()
        sizes = counts[first : stack.level_ptr[level + 1]].view(
            -1, max(1, stack.num_slots[level])
        )  # (keys, slots)
        yield LevelLists(rows, bags[reads] - first, sizes, signs)


def partner_lists(
    partners: Partners | None, num_rows: int, is_signed: bool, device: torch.device
) -> PartnerLists:
    """The lists of an operation between partners; without any, they are empty."""
    count = num_rows if partners is not None else 0
    rows = torch.arange(count, device=device)
    targets, sources, signs = (None, None, None) if partners is None else partners.lists
    targets = rows if targets is None else targets.long()
    signs = torch.ones(len(targets), device=device) if signs is None else signs.float()
    return PartnerLists(
        targets, targets if sources is None else sources.long(), signs if is_signed else None
    )


def _taken(x: Tensor, lists: LevelLists) -> Tensor:
    """The rows of all pairs, with their signs."""
    taken = x.index_select(0, lists.rows)  # (pairs, channels)
    return taken if lists.signs is None else taken * lists.signs[:, None].to(x.dtype)


def _sum(taken: Tensor, lists: LevelLists) -> Tensor:
    return taken.new_zeros(lists.sizes.numel(), taken.shape[1]).index_add(0, lists.bags, taken)


def _mean(taken: Tensor, lists: LevelLists) -> Tensor:
    return _sum(taken, lists) / lists.sizes.view(-1, 1).clamp(min=1).to(taken.dtype)


def _extremum(taken: Tensor, lists: LevelLists, how: str, worst: float) -> Tensor:
    start = taken.new_full((lists.sizes.numel(), taken.shape[1]), worst)
    found = start.scatter_reduce(0, lists.bags[:, None].expand(-1, taken.shape[1]), taken, how)
    return torch.where(lists.sizes.view(-1, 1) > 0, found, torch.zeros_like(found))


def _std(taken: Tensor, lists: LevelLists) -> Tensor:
    centred = taken - _mean(taken, lists).index_select(0, lists.bags)
    return _mean(centred * centred, lists).sqrt()


PLAIN: dict[str, Callable[[Tensor, LevelLists], Tensor]] = {
    "sum": _sum,
    "mean": _mean,
    "max": lambda taken, lists: _extremum(taken, lists, "amax", float("-inf")),
    "min": lambda taken, lists: _extremum(taken, lists, "amin", float("inf")),
    "std": _std,
}
"""Aggregations of the rows of bags, from (pairs, channels) to (bags, channels)."""


def assert_plain(aggregations: Sequence[Aggregation]) -> None:
    """Refuses aggregations that are not written out here.

    Raises:
        IncidenceError: One is the user's own.
    """
    unknown = next((a.name for a in aggregations if a.name not in PLAIN), None)
    if unknown is not None:
        raise IncidenceError(
            f"a network with the aggregation {unknown!r} cannot be exported; {', '.join(PLAIN)} can."
        )


def pool_level(x: Tensor, lists: LevelLists, aggregation: Aggregation) -> Tensor:
    """The rows of the bags of one level, slots side by side: (keys, slots x channels)."""
    pooled = PLAIN[aggregation.name](_taken(x, lists), lists)  # (bags, channels)
    return pooled.view(lists.sizes.shape[0], lists.sizes.shape[1] * x.shape[1])


def plain_layer(
    products: Products,
    aggregations: Sequence[Aggregation],
    stacks: dict[BagLayout, list[LevelLists]],
    partners: Sequence[PartnerLists],
    num_entries: Sequence[int],
    xs: Sequence[Tensor],
    weights: Sequence[Tensor],
    biases: Sequence[Tensor | None],
) -> list[Tensor]:
    """The outputs of a layer; `engine.run` in plain steps.

    Args:
        products: All operations of the layer as products.
        aggregations: By number.
        stacks: The lists of every stack, by level.
        partners: Those of every product in `products.of_partners`.
        num_entries: Of every output.
        xs: The inputs, (entries, in) each.
        weights: ([aggregations,] operations, in, out) each.
        biases: (orbits, out) for every output, or None.
    """
    layout, big = products.layout, Big.of(products, weights)
    factors = {}
    for aggr, a, level in products.out_of:
        members = layout.input_stacks[a]
        x = (
            xs[members[0]] if len(members) == 1 else torch.cat([xs[k] for k in members])
        )  # (rows, in)
        factors[aggr, a, level] = pool_level(
            x, stacks[layout.inputs[a]][level], aggregations[aggr]
        )  # (keys, slots x in)
    ys: dict[int, Tensor] = {}
    for b, members in enumerate(layout.output_stacks):
        width, sizes = (
            weights[products.stack_pairs[0, b].weights[0]].shape[-1],
            [num_entries[t] for t in members],
        )
        y = xs[0].new_zeros(sum(sizes), width)  # (rows, out)
        for level, lists in enumerate(stacks[layout.outputs[b]]):
            terms = [
                factors[p.factor] @ big[p.matrix] for p in products.into[b][level]
            ]  # (keys, slots x out) each
            given = [bias.flatten() for t in members if (bias := biases[t]) is not None]
            if not level and given:  # at structures, as every row whose orbit has a bias reads one
                terms.append(torch.cat(given).expand(lists.sizes.shape[0], -1))
            if terms:
                read = _read(sum(terms[1:], terms[0]).reshape(lists.sizes.numel(), width), lists)
                y = y.index_add(0, lists.rows, read)
        ys.update(zip(members, y.split(sizes) if len(sizes) > 1 else [y], strict=True))
    for p, pairs in zip(products.of_partners, partners, strict=True):
        read = (xs[p.source] @ big.sum(p.matrices)).index_select(0, pairs.sources)  # (pairs, out)
        ys[p.target] = ys[p.target].index_add(
            0,
            pairs.targets,
            read if pairs.signs is None else read * pairs.signs[:, None].to(read.dtype),
        )
    return [ys[t] for t in range(len(ys))]


def _read(z: Tensor, lists: LevelLists) -> Tensor:
    """What every pair reads of its bag, with its sign: (pairs, out)."""
    read = z.index_select(0, lists.bags)
    return read if lists.signs is None else read * lists.signs[:, None].to(z.dtype)
