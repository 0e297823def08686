r"""Layers in steps that every runtime knows: take rows, multiply, add up.

Graphs that `torch.compile` records, and all that is exported, are made of these. The engine itself
is a function that only this library can run. Here the same sums are written out on lists that are
inputs of the graph: for every tensor and level the pairs of a row and a bag. The sizes of lists are
the only sizes, so one graph serves structures of any size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from incidence.engine.aggregate import Aggregation
from incidence.engine.bags import Bags, bag_numbers
from incidence.engine.partners import PartnerKey, Partners, reads_itself
from incidence.engine.plan import Plan
from incidence.engine.weights import Matrices, Products
from incidence.errors import IncidenceError
from incidence.structure.pytree import NO_PLAN

__all__ = [
    "PLAIN",
    "LevelLists",
    "PartnerLists",
    "assert_plain",
    "layer_lists",
    "level_lists",
    "listed_keys",
    "misfit",
    "partner_lists",
    "plain_layer",
    "pool_level",
    "refused",
]


class LevelLists(NamedTuple):
    """The pairs of a row and a bag of one level of a tensor.

    Attributes:
        rows: The row of every pair, shape (pairs,).
        bags: The bag of every pair, counted within the level, shape (pairs,).
        sizes: The number of rows of each bag, shape (keys, slots): bag `k * slots + s` is that of
            key k and slot s.
        signs: 1 or -1 for every pair, shape (pairs,); None where the tensor has no oriented face.
    """

    rows: Tensor
    bags: Tensor
    sizes: Tensor
    signs: Tensor | None = None


class PartnerLists(NamedTuple):
    """The pairs of rows on the same nodes that one operation relates; shape (pairs,) each.

    Attributes:
        targets: Who reads.
        sources: Who is read.
        signs: With which sign; None where the tensor has no oriented face.
    """

    targets: Tensor
    sources: Tensor
    signs: Tensor | None = None


def level_lists(bags: Bags) -> Iterator[LevelLists]:
    """Yield the lists of every level of a tensor."""
    members, ptr, signs = bags.of_bags
    counts = ptr.diff().long()
    numbers = bag_numbers(ptr, len(members))  # (reads,): the bag of every member
    for level, (first, last) in enumerate(zip(bags.level_ptr, bags.level_ptr[1:], strict=False)):
        reads = slice(bags.reads_ptr[level], bags.reads_ptr[level + 1])
        sizes = counts[first:last].view(-1, max(1, bags.num_slots[level]))  # (keys, slots)
        own = None if signs is None else signs[reads].float()
        yield LevelLists(members[reads].long(), numbers[reads] - first, sizes, own)


def partner_lists(partners: Partners, is_signed: bool, device: torch.device) -> PartnerLists:
    """Return the lists of one operation between partners."""
    if partners.targets is None:
        targets = torch.arange(partners.num_rows, device=device)
    else:
        targets = partners.targets.long()
    sources = targets if partners.sources is None else partners.sources.long()
    signs = partners.signs
    if is_signed:
        signs = torch.ones(len(targets), device=device) if signs is None else signs.float()
    return PartnerLists(targets, sources, signs)


def is_direct(products: Products, key: PartnerKey) -> bool:
    """Return whether every row of a tensor reads itself, so that the operation needs no lists."""
    ref, overlap = key
    return reads_itself(overlap) and len(products.layout.patterns[ref.tensor].orbits) == 1


def layer_lists(products: Products, plan: Plan) -> list[Tensor]:
    """Return what a layer needs of a structure, as a list of tensors.

    These are a tensor of shape (entries, 0) for every output, which tells how many entries it has;
    the lists of every level of every different tensor; and those of every operation between
    partners, unless it is direct.
    """
    device = plan.device
    tensors = [torch.zeros(bags.num_rows, 0, device=device) for bags in plan.outputs]
    for bags in plan.bags:
        for lists in level_lists(bags):
            tensors += [t for t in lists if t is not None]
    for key in listed_keys(products):
        pattern = products.layout.patterns[key[0].tensor]
        pairs = partner_lists(plan.partners[key], pattern.is_oriented, device)
        tensors += [t for t in pairs if t is not None]
    return tensors


def listed_keys(products: Products) -> list[PartnerKey]:
    """Return the operations between partners that have lists."""
    keys = dict.fromkeys(p.key for p in products.of_partners)
    return [key for key in keys if not is_direct(products, key)]


def _taken(x: Tensor, lists: LevelLists) -> Tensor:
    """Return the rows of all pairs, with their signs."""
    taken = x.index_select(0, lists.rows)  # (pairs, channels)
    return taken if lists.signs is None else taken * lists.signs[:, None].to(x.dtype)


def _sum(taken: Tensor, lists: LevelLists) -> Tensor:
    return taken.new_zeros(lists.sizes.numel(), taken.shape[1]).index_add(0, lists.bags, taken)


def _mean(taken: Tensor, lists: LevelLists) -> Tensor:
    return _sum(taken, lists) / lists.sizes.view(-1, 1).clamp(min=1).to(taken.dtype)


def _extremum(taken: Tensor, lists: LevelLists, how: str, worst: float) -> Tensor:
    start = taken.new_full((lists.sizes.numel(), taken.shape[1]), worst)
    # (bags, channels)
    best = start.scatter_reduce(0, lists.bags[:, None].expand(-1, taken.shape[1]), taken, how)
    return torch.where(lists.sizes.view(-1, 1) > 0, best, torch.zeros_like(best))


def _max(taken: Tensor, lists: LevelLists) -> Tensor:
    return _extremum(taken, lists, "amax", float("-inf"))


def _min(taken: Tensor, lists: LevelLists) -> Tensor:
    return _extremum(taken, lists, "amin", float("inf"))


def _std(taken: Tensor, lists: LevelLists) -> Tensor:
    centred = taken - _mean(taken, lists).index_select(0, lists.bags)  # (pairs, channels)
    variance = _mean(centred * centred, lists)
    is_flat = variance == 0  # there the square root has no derivative
    deviation = torch.where(is_flat, torch.ones_like(variance), variance).sqrt()
    return torch.where(is_flat, torch.zeros_like(variance), deviation)


PLAIN: dict[str, Callable[[Tensor, LevelLists], Tensor]] = {
    "sum": _sum,
    "mean": _mean,
    "max": _max,
    "min": _min,
    "std": _std,
}
"""Aggregations of the rows of bags, from (pairs, channels) to (bags, channels)."""


def assert_plain(aggregations: Sequence[Aggregation]) -> None:
    """Raise an error where an aggregation is not written out here.

    Raises:
        IncidenceError: One is the user's own.
    """
    unknown = next((a.name for a in aggregations if a.name not in PLAIN), None)
    if unknown is not None:
        raise IncidenceError(
            f"a network with the aggregation {unknown!r} cannot be recorded, by torch.compile or to"
            f" export it; {', '.join(PLAIN)} can."
        )


def pool_level(x: Tensor, lists: LevelLists, aggregation: str) -> Tensor:
    """Return the rows of the bags of one level, slots side by side: (keys, slots x channels)."""
    pooled = PLAIN[aggregation](_taken(x, lists), lists)  # (bags, channels)
    # (keys, slots x channels)
    return pooled.view(lists.sizes.shape[0], lists.sizes.shape[1] * x.shape[1])


def plain_layer(
    products: Products,
    gathering: Matrices,
    aggregations: Sequence[str],
    tensors: Sequence[Tensor],
    xs: Sequence[Tensor],
    weights: Sequence[Tensor],
    biases: Sequence[Tensor | None],
) -> list[Tensor]:
    """Return the outputs of a layer: `layer.apply` in plain steps.

    Args:
        products: All operations of the layer as products.
        gathering: How their matrices are gathered.
        aggregations: By number.
        tensors: What `layer_lists` returned for a structure.
        xs: The inputs, (entries, in) each.
        weights: ([aggregations,] operations, in, out) each.
        biases: (orbits, out) for every output, or None.
    """
    layout, matrices = products.layout, gathering.gather(weights)
    rest = iter(tensors)
    num_entries = [next(rest).shape[0] for _ in layout.outputs]
    levels = [
        [_next_level(rest, tensor.is_signed) for _ in tensor.levels] for tensor in layout.tensors
    ]
    partners = {key: _next_pairs(rest, products, key) for key in listed_keys(products)}
    factors = {}
    for aggr, s, level in products.out_of:
        lists = levels[layout.input_numbers[s]][level]
        factors[aggr, s, level] = pool_level(xs[s], lists, aggregations[aggr])
    ys = []
    for t, number in enumerate(layout.output_numbers):
        width = weights[t].shape[-1]
        y = xs[0].new_zeros(num_entries[t], width)  # (rows, out)
        for level, lists in enumerate(levels[number]):
            own = products.into[t][level]
            # (keys, slots x out) each
            terms = [factors[p.aggr, p.source, p.source_level] @ matrices[p.matrix] for p in own]
            bias = biases[t]
            if not level and bias is not None:  # every row whose orbit has a bias reads one
                terms.append(bias.flatten().expand(lists.sizes.shape[0], -1))
            if terms:
                z = sum(terms[1:], terms[0]).reshape(lists.sizes.numel(), width)  # (bags, out)
                y = y.index_add(0, lists.rows, _read(z, lists))
        ys.append(y)
    for p in products.of_partners:
        matrix = sum((matrices[k] for k in p.matrices[1:]), matrices[p.matrices[0]])
        read = xs[p.source] @ matrix  # (rows, out)
        pairs = partners.get(p.key)
        if pairs is None:
            ys[p.target] = ys[p.target] + read
            continue
        read = read.index_select(0, pairs.sources)  # (pairs, out)
        if pairs.signs is not None:
            read = read * pairs.signs[:, None].to(read.dtype)
        ys[p.target] = ys[p.target].index_add(0, pairs.targets, read)
    return ys


def _next_level(tensors: Iterator[Tensor], is_signed: bool) -> LevelLists:
    rows, bags, sizes = next(tensors), next(tensors), next(tensors)
    return LevelLists(rows, bags, sizes, next(tensors) if is_signed else None)


def _next_pairs(tensors: Iterator[Tensor], products: Products, key: PartnerKey) -> PartnerLists:
    is_signed = products.layout.patterns[key[0].tensor].is_oriented
    targets, sources = next(tensors), next(tensors)
    return PartnerLists(targets, sources, next(tensors) if is_signed else None)


def _read(z: Tensor, lists: LevelLists) -> Tensor:
    """Return what every pair reads of its bag, with its sign: (pairs, out)."""
    read = z.index_select(0, lists.bags)
    return read if lists.signs is None else read * lists.signs[:, None].to(z.dtype)


def misfit(xs: Sequence[Tensor], counts: Sequence[Tensor]) -> str | None:
    """Return what is wrong with the rows of recorded features; None where all is well.

    Args:
        xs: The features.
        counts: For each of them a tensor with a row for each entry; none to check nothing.
    """
    for x, entries in zip(xs, counts, strict=False):
        if x.shape[0] != entries.shape[0]:
            return (
                f"features must have shape [{entries.shape[0]}, channels], a row for each entry;"
                f" got {list(x.shape)}."
            )
    return None


@torch.library.custom_op(
    "incidence::refuse", mutates_args=(), schema="(Tensor like, SymInt[] shape, str why) -> Tensor"
)
def _refuse(like: Tensor, shape: Sequence[int], why: str) -> Tensor:
    raise IncidenceError(why)


@_refuse.register_fake
def _(like: Tensor, shape: Sequence[int], why: str) -> Tensor:
    return like.new_empty(shape)


_refuse.register_autograd(lambda ctx, grad: (None, None, None))  # recorded, and never reached


def refused(why: str | None, like: Tensor, *shape: int) -> Tensor:
    """Return a recorded step in place of a module that cannot be run.

    It has the shape of the result. When the graph runs, it says what is wrong. An error that is
    raised while `torch.compile` records a graph would be one of the compiler, in its words.

    Args:
        why: What is wrong; None where the module has no lists on this structure.
        like: A tensor of the type of the result.
        shape: The shape of the result.
    """
    step: Tensor = _refuse(like, shape, NO_PLAN if why is None else why)
    return step
