r"""Layers in steps that every runtime knows: take rows, multiply, add up.

Graphs that `torch.compile` records, and all that is exported, are made of these. The engine itself
is a function that only this library can run. Here the same sums are written out on lists that are
inputs of the graph: for every tensor and level the pairs of a row and a bag. The sizes of lists are
the only sizes, so one graph serves structures of any size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from incidence.engine.aggregate import Aggregation
from incidence.engine.bags import Bags, Pairs, bag_numbers
from incidence.engine.partners import PartnerKey, Partners, reads_itself
from incidence.engine.plan import Plan
from incidence.engine.weights import Matrices, Products, gathered
from incidence.errors import IncidenceError
from incidence.structure.pytree import NO_PLAN

__all__ = [
    "PLAIN",
    "assert_plain",
    "layer_lists",
    "level_pairs",
    "level_tensors",
    "listed_keys",
    "misfit",
    "pairs_of_level",
    "partner_pairs",
    "partner_tensors",
    "plain_layer",
    "pool_level",
    "refused",
]


def level_pairs(bags: Bags) -> Iterator[Pairs]:
    """Yield the pairs of a bag and a row of every level of a tensor.

    Bags are counted within the level. The sizes have shape (keys, slots): bag `k * slots + s` is
    that of key k and slot s.
    """
    members, ptr, signs = bags.of_bags
    counts = ptr.diff().long()
    numbers = bag_numbers(ptr, len(members))  # (reads,): the bag of every member
    for level, (first, last) in enumerate(zip(bags.level_ptr, bags.level_ptr[1:], strict=False)):
        reads = slice(bags.reads_ptr[level], bags.reads_ptr[level + 1])
        sizes = counts[first:last].view(-1, max(1, bags.num_slots[level]))  # (keys, slots)
        own = None if signs is None else signs[reads].float()
        yield Pairs(numbers[reads] - first, members[reads].long(), sizes, own)


def pairs_of_level(tensors: Sequence[Tensor]) -> Pairs:
    """Return the pairs of a level from the tensors of a recorded graph.

    Args:
        tensors: The row of every pair, its bag, the sizes of bags, and the signs if there are some.
    """
    rows, bags, sizes, *signs = tensors
    return Pairs(bags, rows, sizes, *signs)


def level_tensors(pairs: Pairs) -> dict[str, Tensor]:
    """Return the pairs of a level as a recorded graph has them, by what they are."""
    named = {"rows": pairs.sources, "bags": pairs.targets, "sizes": pairs.sizes}
    return _present({**named, "signs": pairs.signs})


def partner_pairs(partners: Partners, is_signed: bool, device: torch.device) -> Pairs:
    """Return the rows that one operation relates on the same nodes: who reads whom."""
    if partners.targets is None:
        targets = torch.arange(partners.num_rows, device=device)
    else:
        targets = partners.targets.long()
    sources = targets if partners.sources is None else partners.sources.long()
    signs = partners.signs
    if is_signed:
        signs = torch.ones(len(targets), device=device) if signs is None else signs.float()
    return Pairs(targets, sources, signs=signs)


def partner_tensors(pairs: Pairs) -> dict[str, Tensor]:
    """Return pairs of partners as a recorded graph has them, by what they are."""
    named = {"targets": pairs.targets, "sources": pairs.sources, "signs": pairs.signs}
    return _present(named)


def _present(named: dict[str, Tensor | None]) -> dict[str, Tensor]:
    return {name: tensor for name, tensor in named.items() if tensor is not None}


def is_direct(products: Products, key: PartnerKey) -> bool:
    """Return whether every row of a tensor reads itself, so that the operation needs no lists."""
    orbit, overlap = key
    return reads_itself(overlap) and len(products.layout.patterns[orbit.tensor].orbits) == 1


def layer_lists(products: Products, plan: Plan) -> list[Tensor]:
    """Return what a layer needs of a structure, as a list of tensors.

    These are a tensor of shape (entries, 0) for every output, which tells how many entries it has;
    the lists of every level of every different tensor; and those of every operation between
    partners, unless it is direct.
    """
    device = plan.device
    tensors = [torch.zeros(bags.num_rows, 0, device=device) for bags in plan.outputs]
    for bags in plan.bags:
        for pairs in level_pairs(bags):
            tensors += level_tensors(pairs).values()
    for key in listed_keys(products):
        pattern = products.layout.patterns[key[0].tensor]
        pairs = partner_pairs(plan.partners[key], pattern.is_oriented, device)
        tensors += partner_tensors(pairs).values()
    return tensors


def listed_keys(products: Products) -> list[PartnerKey]:
    """Return the operations between partners that have lists."""
    keys = dict.fromkeys(p.key for p in products.of_partners)
    return [key for key in keys if not is_direct(products, key)]


def _sizes(pairs: Pairs) -> Tensor:
    """Return the number of rows of every bag, (keys, slots)."""
    assert pairs.sizes is not None
    return pairs.sizes


def _sum(taken: Tensor, pairs: Pairs) -> Tensor:
    start = taken.new_zeros(_sizes(pairs).numel(), taken.shape[1])
    return start.index_add(0, pairs.targets, taken)


def _mean(taken: Tensor, pairs: Pairs) -> Tensor:
    return _sum(taken, pairs) / _sizes(pairs).view(-1, 1).clamp(min=1).to(taken.dtype)


def _extremum(taken: Tensor, pairs: Pairs, how: str, worst: float) -> Tensor:
    start = taken.new_full((_sizes(pairs).numel(), taken.shape[1]), worst)
    index = pairs.targets[:, None].expand(-1, taken.shape[1])
    best = start.scatter_reduce(0, index, taken, how)  # (bags, channels)
    return torch.where(_sizes(pairs).view(-1, 1) > 0, best, torch.zeros_like(best))


def _max(taken: Tensor, pairs: Pairs) -> Tensor:
    return _extremum(taken, pairs, "amax", float("-inf"))


def _min(taken: Tensor, pairs: Pairs) -> Tensor:
    return _extremum(taken, pairs, "amin", float("inf"))


def _std(taken: Tensor, pairs: Pairs) -> Tensor:
    centred = taken - _mean(taken, pairs).index_select(0, pairs.targets)  # (pairs, channels)
    variance = _mean(centred * centred, pairs)  # (bags, channels)
    is_flat = variance == 0  # there the square root has no derivative
    deviation = torch.where(is_flat, torch.ones_like(variance), variance).sqrt()
    return torch.where(is_flat, torch.zeros_like(variance), deviation)


PLAIN: dict[str, Callable[[Tensor, Pairs], Tensor]] = {
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


def pool_level(x: Tensor, pairs: Pairs, aggregation: str) -> Tensor:
    """Return the rows of the bags of one level, slots side by side: (keys, slots x channels)."""
    taken = pairs.signed(x.index_select(0, pairs.sources))  # (pairs, channels)
    pooled = PLAIN[aggregation](taken, pairs)  # (bags, channels)
    num_keys, num_slots = _sizes(pairs).shape
    return pooled.view(num_keys, num_slots * x.shape[1])


def plain_layer(
    products: Products,
    gathering: Sequence[Matrices],
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
    layout, matrices = products.layout, gathered(gathering, weights)
    rest = iter(tensors)
    num_entries = [next(rest).shape[0] for _ in layout.outputs]
    levels = [
        [pairs_of_level(_next(rest, 3 + tensor.is_signed)) for _ in tensor.levels]
        for tensor in layout.tensors
    ]
    partners = {key: _next_partners(rest, products, key) for key in listed_keys(products)}
    factors = {}
    for aggr, s, level in products.out_of:
        pairs = levels[layout.input_numbers[s]][level]
        factors[aggr, s, level] = pool_level(xs[s], pairs, aggregations[aggr])
    ys = []
    for t, number in enumerate(layout.output_numbers):
        width = weights[t].shape[-1]
        y = xs[0].new_zeros(num_entries[t], width)  # (rows, out)
        for level, pairs in enumerate(levels[number]):
            own = products.into[t][level]
            # (keys, slots x out) each
            terms = [factors[p.aggr, p.source, p.source_level] @ matrices[p.matrix] for p in own]
            bias = biases[t]
            if not level and bias is not None:  # every row whose orbit has a bias reads one
                terms.append(bias.flatten().expand(_sizes(pairs).shape[0], -1))
            if terms:
                z = sum(terms[1:], terms[0]).reshape(_sizes(pairs).numel(), width)  # (bags, out)
                read = pairs.signed(z.index_select(0, pairs.targets))  # (pairs, out)
                y = y.index_add(0, pairs.sources, read)
        ys.append(y)
    for p in products.of_partners:
        matrix = sum((matrices[k] for k in p.matrices[1:]), matrices[p.matrices[0]])
        read = xs[p.source] @ matrix  # (rows, out)
        if p.key not in partners:
            ys[p.target] = ys[p.target] + read
            continue
        pairs = partners[p.key]
        read = pairs.signed(read.index_select(0, pairs.sources))  # (pairs, out)
        ys[p.target] = ys[p.target].index_add(0, pairs.targets, read)
    return ys


def _next(tensors: Iterator[Tensor], count: int) -> list[Tensor]:
    return [next(tensors) for _ in range(count)]


def _next_partners(tensors: Iterator[Tensor], products: Products, key: PartnerKey) -> Pairs:
    is_signed = products.layout.patterns[key[0].tensor].is_oriented
    targets, sources, *signs = _next(tensors, 2 + is_signed)
    return Pairs(targets, sources, None, *signs)


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


def _refuse(like: Tensor, shape: Sequence[int], why: str) -> Tensor:
    raise IncidenceError(why)


def _shape_of_refusal(like: Tensor, shape: Sequence[int], why: str) -> Tensor:
    return like.new_empty(shape)


# A kernel for meta tensors serves recording as `register_fake` does. That one looks for the source
# of its caller among all modules, which takes a third of the time of `import incidence.nn`.
_LIBRARY = torch.library.Library("incidence", "FRAGMENT")
_LIBRARY.define("refuse(Tensor like, SymInt[] shape, str why) -> Tensor")
_LIBRARY.impl("refuse", _refuse, "CompositeExplicitAutograd")
_LIBRARY.impl("refuse", _shape_of_refusal, "Meta")
# recorded, and never reached
torch.library.register_autograd(
    "incidence::refuse", lambda ctx, grad: (None, None, None), lib=_LIBRARY
)


def refused(why: str | None, like: Tensor, *shape: int) -> Tensor:
    """Return a recorded step in place of a module that cannot be run.

    It has the shape of the result. When the graph runs, it says what is wrong. An error that is
    raised while `torch.compile` records a graph would be one of the compiler, in its words.

    Args:
        why: What is wrong; None where the module has no lists on this structure.
        like: A tensor of the type of the result.
        shape: The shape of the result.
    """
    step: Tensor = torch.ops.incidence.refuse(like, shape, NO_PLAN if why is None else why)
    return step
