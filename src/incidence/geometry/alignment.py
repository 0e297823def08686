"""Features of a list of entries, brought into the order of a structure."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.geometry.assembly import assert_structure
from incidence.geometry.complexes import read_hyperedges
from incidence.structure import Structure

__all__ = ["align"]

_REDUCE = {"sum": "sum", "mean": "mean", "max": "amax", "min": "amin"}


def align(
    structure: Structure,
    pattern: str | Pattern,
    entries: Any,
    features: Any,
    reduce: str | None = None,
) -> Tensor:
    r"""Return the features of a list of entries in the order in which a structure has those
    entries.

    Builders put entries into the preferred order, whatever order they come in; this is how their
    features follow.

    Args:
        structure: The structure.
        pattern: The tensor: its pattern or its name.
        entries: The entries in your order, as an index of the pattern: [letters, entries], or for a
            lone open face [2, incidences] or a list of node lists. Every entry of the structure
            must be there once.
        features: A row for every one of them, shape [entries, ...]. Those of an oriented entry
            belong to its orientation in `entries`, and change sign where the structure has the
            opposite one.
        reduce: How to join features of entries that come several times, as both directions of an
            undirected edge do: `"sum"`, `"mean"`, `"max"` or `"min"`. Default: such entries are
            refused.

    Returns:
        The features, shape [entries of the structure, ...].

    Raises:
        IncidenceError: An entry is not in the structure, is missing, or stands there twice; the
            message names it.

    Example:
        >>> from incidence.geometry import graph
        >>> edges = torch.tensor([[2, 0, 1], [1, 1, 0]])
        >>> s = graph(edges, num_nodes=3)  # {0 1}, {1 2}
        >>> align(s, "{i j}", edges, torch.tensor([5.0, 7.0, 9.0]), reduce="mean")
        tensor([8., 5.])
        >>> flow = graph(edges[:, :2], num_nodes=3, oriented=True)  # <0 1>, <1 2>
        >>> align(flow, "<i j>", edges[:, :2], torch.tensor([5.0, 7.0]))  # the first is <2 1>
        tensor([ 7., -5.])
    """
    assert_structure("align", structure)
    tensor = structure.resolve(pattern)
    if reduce is not None and reduce not in _REDUCE:
        raise IncidenceError(
            f"reduce must be one of {', '.join(map(repr, _REDUCE))}, or None; got {reduce!r}."
        )
    if tensor.is_open and tensor.order == 1 and not hasattr(entries, "shape"):
        # node lists of a lone open face as rows (node, entry)
        entries = read_hyperedges("entries", entries)[0].index
    rows, signs = structure.locate(pattern, entries, with_sign=True)
    try:
        values = torch.as_tensor(features, device=structure.device)
    except (TypeError, ValueError, RuntimeError):
        raise IncidenceError(
            f"align: features must be numbers, a row for each entry; got {type(features).__name__}."
        ) from None
    if not values.ndim or len(values) != len(rows):
        raise IncidenceError(
            f"features must have a row for each of the {len(rows)} entries of `{tensor}` given; got"
            f" shape {list(values.shape)}."
        )
    loses_sign = reduce in ("max", "min")  # max(-x) is -min(x), and not -max(x)
    if tensor.is_oriented and (loses_sign or not torch.is_signed(values)):
        what = f"features of type {str(values.dtype).removeprefix('torch.')}"
        if loses_sign:
            what = f"reduce={reduce!r}"
        raise IncidenceError(
            f"align: values of `{tensor}` change sign with the orientation of their entry, which"
            f" {what} cannot follow."
        )
    # Features may have any number of axes after the first.
    more_axes = [1] * (values.ndim - 1)
    if tensor.is_oriented:
        values = values * signs.to(values.dtype).view(-1, *more_axes)  # (entries, ...)
    if (rows < 0).any():
        bad = int((rows < 0).nonzero()[0])  # the first of them
        raise IncidenceError(
            f"align: entry {bad} is not an entry of `{tensor}` in this structure. Drop it, with its"
            " features."
        )
    # how often each entry comes
    times = torch.bincount(rows, minlength=structure.num_entries(tensor))
    if (times == 0).any():
        missing = (times == 0).nonzero()[:, 0]
        raise IncidenceError(
            f"align: {len(missing)} of the {len(times)} entries of `{tensor}` in this structure are"
            f" not among those given, the first in row {int(missing[0])}. Give features for all."
        )
    if reduce is None and (times > 1).any():
        row, order = rows.sort(stable=True)
        spot = int((row[1:] == row[:-1]).nonzero()[0])
        raise IncidenceError(
            f"align: entries {int(order[spot])} and {int(order[spot + 1])} are one entry of"
            f" `{tensor}`. Give reduce=, for example 'mean', to join their features."
        )
    if reduce is None:
        # Each row is written exactly once, as the checks above have shown.
        return torch.empty_like(values).index_copy(0, rows, values)
    # (entries, ...), as `scatter_reduce` wants it
    where = rows.view(-1, *more_axes).expand_as(values)
    target = values.new_zeros(len(times), *values.shape[1:])
    return target.scatter_reduce(0, where, values, _REDUCE[reduce], include_self=False)
