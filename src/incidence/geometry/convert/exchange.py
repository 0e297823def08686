"""What all converters share: examples at the door, refusals of what the other side cannot hold, and lists of pairs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.geometry.assembly import is_directed
from incidence.structure.batch import collate
from incidence.structure.example import Example
from incidence.structure.ragged import rank
from incidence.structure.structure import Structure

__all__ = [
    "Homes",
    "Pairs",
    "as_array",
    "as_example",
    "as_numbers",
    "as_rows",
    "assert_held",
    "attribute",
    "both_ways",
    "by_graph",
    "by_meaning",
    "differ",
    "once",
    "single",
    "stacked",
    "two_ways",
    "whole_target",
    "with_graphs",
]


def as_example(given: Any, who: str) -> Example:
    """An example as it is, or a structure without features."""
    if isinstance(given, Structure):
        return Example(given)
    if not isinstance(given, Example):
        raise IncidenceError(f"{who} takes an Example or a Structure; got {type(given).__name__}.")
    return given


def single(given: Any, who: str) -> Example:
    """An example that is no batch."""
    example = as_example(given, who)
    if example.num_structures != 1:
        raise IncidenceError(
            f"{who} takes one structure, and this is a batch of {len(example)}: use [{who}(one) for one in batch]."
        )
    return example[0] if example.is_batch else example


def by_meaning(example: Example) -> dict[Pattern, Tensor]:
    """The features under the patterns that their keys mean."""
    return {example.structure.resolve(key): x for key, x in example.features.items()}


def assert_held(
    example: Example,
    who: str,
    tensors: Iterable[str],
    features: Iterable[str],
    target: bool = False,
    where: str = "",
) -> None:
    """Refuses tensors, features and targets that have no place on the other side."""
    what = where or who.removeprefix("to_")
    held = [Pattern(text) for text in tensors]
    for pattern in example.structure.patterns:
        if pattern not in held:
            rest = ", ".join(
                f"'{p}': s['{p.name or p}']" for p in example.structure.patterns if p in held
            )
            raise IncidenceError(
                f"{who}: {what} has no place for `{pattern}`. Leave it out: Structure(s.num_nodes, {{{rest}}})."
            )
    kept = [Pattern(text) for text in features]
    for pattern in by_meaning(example):
        if pattern not in kept:
            shown = str(pattern) or "the whole structure"
            raise IncidenceError(
                f"{who}: {what} has no place for features of `{shown}`. Leave them out with example.replace(features=...)."
            )
    if example.target is not None and not target:
        raise IncidenceError(
            f"{who}: {what} has no place for a target. Leave it out with example.replace(target=None)."
        )


def as_numbers(value: Any, who: str, name: str) -> Tensor:
    """A dense tensor, from one or from an array."""
    try:
        found = torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise IncidenceError(f"{who}: {name} is no array of numbers: {error}.") from None
    if found.layout != torch.strided:
        raise IncidenceError(
            f"{who}: {name} is a sparse tensor, and features and targets are dense here: use .to_dense()."
        )
    return found


def as_rows(value: Any, who: str, name: str) -> Tensor:
    """Features as [entries, channels], from a tensor or array of one value or one row for each entry."""
    rows = as_numbers(value, who, name)
    if not rows.ndim:
        raise IncidenceError(f"{who}: {name} is one number, and a row for each entry is needed.")
    return rows[:, None] if rows.ndim == 1 else rows.flatten(1)


def as_array(x: Tensor, who: str) -> Any:
    """A tensor as a numpy array of the same type."""
    try:
        return x.detach().cpu().numpy()
    except TypeError:
        kind = str(x.dtype).removeprefix("torch.")
        raise IncidenceError(
            f"{who}: numpy has no type for {kind}. Convert the features first, for example with x.float()."
        ) from None


def stacked(values: Sequence[Any], who: str, name: str) -> Tensor:
    """One row for each entry, from numbers, lists or arrays; the type of arrays is kept."""
    try:
        rows = (
            np.stack(values)
            if any(isinstance(v, np.ndarray) for v in values)
            else torch.tensor(list(values))
        )
    except (TypeError, ValueError, RuntimeError) as error:
        raise IncidenceError(
            f"{who}: the values of `{name}` are not numbers of one shape: {error}."
        ) from None
    return as_rows(rows, who, f"`{name}`")


def attribute(
    data: Sequence[Mapping[Any, Any]], name: str, what: str, who: str, is_asked: bool = False
) -> Tensor | None:
    """An attribute that all nodes or cells have, as features; None if none has it and it is not asked for."""
    values = [own[name] for own in data if name in own]
    if len(values) < len(data) and (values or is_asked):
        few, remedy = len(data) - len(values), "Give it to all" + (", or to none" * (not is_asked))
        raise IncidenceError(
            f"{who}: {few} of {len(data)} {what} have no attribute `{name}`. {remedy}."
        )
    return stacked(values, who, name) if values else None


def once(
    pattern: Pattern, pairs: Tensor, num_nodes: int, values: Mapping[str, Tensor], who: str
) -> tuple[Tensor, dict[str, Tensor]]:
    """Pairs of nodes as the entries of a pattern: undirected ones may come in one direction or in both, in the order of the first.

    Args:
        pattern: What the pairs are: `(i j)`, `{i j}`, ....
        pairs: The nodes, shape [2, pairs].
        num_nodes: The number of nodes.
        values: Rows of features for the pairs, which must agree for the two directions of an undirected edge, and be opposite for those
            of an oriented edge.
        who: Who asks.

    Returns:
        The index of the pattern, and the rows of features that go with it.
    """
    first, last = two_ways(pattern, pairs, num_nodes, who)
    for name, x in values.items():
        there, back = x[first], x[last]
        if pattern.is_oriented:
            back = torch.where((first != last)[:, None], -back, back)
        wrong = differ(there, back)
        if bool(wrong.any()):
            u, v = pairs[:, int(first[wrong].min())].tolist()
            how, remedy = (
                ("is not the opposite of", "opposite")
                if pattern.is_oriented
                else ("differs from", "equal")
            )
            raise IncidenceError(
                f"{who}: {name} of the edge ({u}, {v}) {how} that of ({v}, {u}), so the edges are no `{pattern}`. "
                f"Make them {remedy}, or read the edges as `(i j)`."
            )
    return pairs[:, first], {name: x[first] for name, x in values.items()}


def differ(one: Tensor, other: Tensor) -> Tensor:
    """Which rows differ; a missing value agrees with another."""
    return ((one != other) & ~((one != one) & (other != other))).any(1)


def two_ways(pattern: Pattern, pairs: Tensor, num_nodes: int, who: str) -> tuple[Tensor, Tensor]:
    """For every entry the pairs that tell it, in the order of the first: two for an undirected edge that comes in both directions.

    Returns:
        The number of the first pair of every entry, and that of the last, which is the same where there is but one.
    """
    place = torch.arange(pairs.shape[1], device=pairs.device)
    if is_directed(pattern) or not len(place):
        return place, place
    low, high = pairs.amin(0), pairs.amax(0)
    if int(low.min()) < 0 or int(high.max()) >= num_nodes:
        return place, place  # a structure says where
    number, count = rank(low * num_nodes + high)
    first = torch.full((count,), len(number), device=pairs.device).scatter_reduce(
        0, number, place, "amin"
    )
    last = torch.zeros(count, dtype=torch.long, device=pairs.device).scatter_reduce(
        0, number, place, "amax"
    )
    times = torch.bincount(number)
    is_there_and_back = (
        (times == 2) & (pairs[0, first] == pairs[1, last]) & (pairs[0, first] != pairs[0, last])
    )
    bad = (times > 1) & ~is_there_and_back
    if bool(bad.any()):
        u, v = pairs[:, int(first[bad].min())].tolist()
        raise IncidenceError(
            f"{who}: the edge ({u}, {v}) comes more than once in one direction, and an entry of `{pattern}` comes once. "
            f"Join parallel edges first (PyG: data.coalesce(); NetworkX: nx.Graph(multigraph); scipy: matrix.sum_duplicates())."
        )
    first, order = first.sort()
    return first, last[order]


class Pairs(NamedTuple):
    """Entries as pairs of nodes, in both directions where they have none.

    Attributes:
        nodes: The nodes, shape [2, pairs].
        entry: For each pair the number of its entry.
        signs: For each pair the sign of its value; None where values have none.
    """

    nodes: Tensor
    entry: Tensor
    signs: Tensor | None

    def values(self, x: Tensor) -> Tensor:
        """Features of the entries as features of the pairs."""
        return (
            x[self.entry] if self.signs is None else x[self.entry] * self.signs.to(x.dtype)[:, None]
        )


def both_ways(pattern: Pattern, index: Tensor) -> Pairs:
    """Entries as pairs in both directions where they have none; those of an oriented edge have opposite values."""
    entry = torch.arange(index.shape[1], device=index.device)
    if is_directed(pattern):
        return Pairs(index, entry, None)
    apart = index[0] != index[1]
    both = torch.cat([index, index[:, apart].flip(0)], dim=1)
    signs = (
        torch.cat([torch.ones_like(entry), -torch.ones_like(entry)])
        if pattern.is_oriented
        else None
    )
    return Pairs(both, torch.cat([entry, entry[apart]]), signs)


Homes = Mapping[str, Tensor] | None
"""For every sort the structure of each node, of a batch."""


def with_graphs(
    counts: Mapping[str, int], index: Mapping[str, Any], homes: Homes, num_graphs: int
) -> Structure:
    """A structure; of a batch with the graphs at its end that have no nodes, of which nodes do not tell."""
    made = Structure(counts, index, batch=homes)
    if homes is None or made.num_structures == num_graphs:
        return made
    nothing = {
        str(p): torch.zeros(len(p.letters), 0, dtype=torch.long, device=made.device)
        for p in made.patterns
    }
    empty = Structure(dict.fromkeys(made.counts, 0), nothing, device=made.device)
    return collate([made, *[empty] * (num_graphs - made.num_structures)])


def whole_target(y: Tensor, homes: Homes) -> Tensor:
    """A target of whole graphs, which PyG keeps with a row for each: without it, if there is one graph."""
    return y[0] if homes is None and y.ndim and len(y) == 1 else y


def by_graph(
    pairs: Tensor, values: Mapping[str, Tensor], homes: Homes, sort: str
) -> tuple[Tensor, dict[str, Tensor]]:
    """Pairs of nodes and their features by the graph of the first node, which has a sort."""
    home = homes[sort] if homes else pairs[0, :0]
    if not len(home):
        return pairs, dict(values)
    order = home[pairs[0].clamp(0, len(home) - 1)].sort(stable=True)[1]
    return pairs[:, order], {key: x[order] for key, x in values.items()}
