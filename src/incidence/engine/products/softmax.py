"""The softmax over groups of rows, by its adjoint: gradients of any order are sums over groups
again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from incidence.algebra.grammar import Face
from incidence.algebra.pattern import Pattern
from incidence.algebra.products import key_faces
from incidence.engine.bags import wide_of
from incidence.engine.products.join import join, run_join
from incidence.engine.products.plan import JoinPlan, JoinStep, RoleLists, Step, step_of
from incidence.engine.shared import ExchangeStep, exchange_step
from incidence.engine.store import cached_plan
from incidence.structure.data import StructureData
from incidence.structure.ragged import ascend, code, rank

__all__ = ["build_groups", "groups_of", "run_softmax", "softmax_of_groups"]


def softmax_of_groups(x: Tensor, step: JoinStep, exchange: ExchangeStep | None = None) -> Tensor:
    """Every row as a share of its group, channel by channel; `step` adds up the rows of every
    group. On a part of a structure the groups are exchanged.
    """
    shares: Tensor = _Softmax.apply(x, step, exchange)  # type: ignore[no-untyped-call]
    return shares


def run_softmax(
    x: Tensor, groups: RoleLists, rows: RoleLists, exchange: ExchangeStep | None = None
) -> Tensor:
    """The exponential of x over its sum in every group; the largest of the group is taken off
    first, so that nothing overflows.
    """
    if not x.numel() and exchange is None:
        return x.clone()
    wide, [group] = x.to(wide_of(x.dtype)), rows.columns
    index = group.long()[:, None].expand_as(wide)
    most = wide.new_full((groups.num_rows, wide.shape[1]), -torch.inf).scatter_reduce_(
        0, index, wide, "amax"
    )
    if exchange is not None:
        most = exchange.of(most, "max")
    y = (wide - most.index_select(0, group)).exp_()
    sums = run_join(groups, [y], y.shape[1:])
    if exchange is not None:
        sums = exchange.of(sums)
    return (y / sums.index_select(0, group)).to(x.dtype)


class _Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, step: JoinStep, exchange: ExchangeStep | None) -> Tensor:
        ctx.step, ctx.exchange = step, exchange
        y = run_softmax(x, step.lists(0), step.lists(1), exchange)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        [y] = ctx.saved_tensors
        weighted = y * grad
        sums = join(ctx.step, [weighted])
        if ctx.exchange is not None:
            sums = ctx.exchange.run(sums)
        return weighted - y * join(ctx.step, [sums], role=1), None, None


def groups_of(structure: StructureData, text: str, over: str) -> JoinPlan:
    """Return the plan that adds up the entries of a tensor with equal keys.

    The key of an entry is what is left of it without some letters. The plan is built once and
    cached on the structure.

    Raises:
        IncidenceError: The tensor is missing, or some entry would be in two groups.
    """
    key = f"{text} over {over}"
    return cached_plan(structure, JoinPlan, key, lambda source: build_groups(source, text, over))


def build_groups(structure: StructureData, text: str, over: str) -> JoinPlan:
    """The entries of a tensor by their keys, what is left of them without some letters; as a plan
    whose only step adds them up.
    """
    pattern, faces = Pattern(text), key_faces(text, over)
    [index] = structure.index(pattern)
    home = structure.batch(pattern)
    keys, count = _numbered(dict(zip(pattern.letters, index, strict=True)), faces, home, structure)
    key_home = torch.arange(count, device=home.device)
    key_home[keys] = home
    entries = torch.arange(len(home), device=home.device)
    step = step_of(
        (0,), (count, len(home)), keys, (entries,), None, (home, key_home), structure.num_structures
    )
    steps: tuple[Step, ...] = (step,)
    if structure.world is not None:
        columns = _columns(dict(zip(pattern.letters, index, strict=True)), faces, structure)
        of_keys = torch.zeros(count, len(columns), dtype=torch.long)
        for place, column in enumerate(columns):
            of_keys[keys, place] = column
        whole = structure.whole_nodes(of_keys)
        steps = step, exchange_step(1, whole, structure.world)
    return JoinPlan(
        f"{text} over {over}", steps, np.stack([structure._lengths_of(pattern), step.num_targets])
    )


def _columns(
    nodes: dict[str, Tensor], faces: Sequence[Face], structure: StructureData
) -> list[Tensor]:
    """The nodes of the key of every entry."""
    columns: list[Tensor] = []
    for face in faces:
        own = [nodes[letter.name] + structure._node_offsets[letter.sort] for letter in face.letters]
        columns += own if face.kind.is_ordered else ascend(own)
    return columns


def _numbered(
    nodes: dict[str, Tensor], faces: Sequence[Face], home: Tensor, structure: StructureData
) -> tuple[Tensor, int]:
    """The number of the key of every entry, and how many there are."""
    columns = _columns(nodes, faces, structure)
    if not columns and structure.world is not None:
        return home, structure.num_structures  # all processes have the same groups
    return rank(code(columns, [structure.total_nodes] * len(columns))[0] if columns else home)
