"""The softmax over groups of rows, by its adjoint: gradients of any order are sums over groups
again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from incidence.algebra.grammar import Face
from incidence.algebra.pattern import Pattern
from incidence.algebra.products import key_faces
from incidence.engine.bags import wide_of
from incidence.engine.gradient import with_gradient
from incidence.engine.products.join import join, run_join
from incidence.engine.products.plan import JoinPlan, JoinStep, step_of
from incidence.engine.shared import shared_keys
from incidence.engine.store import cached_plan
from incidence.structure.data import StructureData
from incidence.structure.ragged import ascend, code, rank

__all__ = ["build_groups", "groups_of", "softmax_of_groups"]


def softmax_of_groups(x: Tensor, step: JoinStep) -> Tensor:
    """Return every row as a share of its group, channel by channel.

    Args:
        x: The rows, (entries, channels).
        step: Adds up the rows of every group.
    """

    def run(x: Tensor) -> tuple[tuple[Tensor], tuple[Tensor]]:
        y = _run_softmax(x, step)
        return (y,), (y,)

    def gradient(
        saved: Sequence[Tensor], grads: Sequence[Tensor], needs: Sequence[bool]
    ) -> tuple[Tensor]:
        [y] = saved
        weighted = y * grads[0]
        sums = join(step, [weighted])  # (groups, channels)
        return (weighted - y * join(step, [sums], role=1),)

    [shares] = with_gradient(run, gradient, x)
    return shares


def _run_softmax(x: Tensor, step: JoinStep) -> Tensor:
    """Return the exponential of x over its sum in every group.

    The largest of the group is subtracted first, so that nothing overflows. On a part of a
    structure the groups are exchanged.
    """
    groups, [rows] = step.lists(0), step.lists(1)
    if not x.numel() and step.shared is None:
        return x.clone()
    wide, group = x.to(wide_of(x.dtype)), rows.members
    index = group.long()[:, None].expand_as(wide)
    start = wide.new_full((groups[0].num_lists, wide.shape[1]), -torch.inf)
    most = start.scatter_reduce_(0, index, wide, "amax")  # (groups, channels)
    if step.shared is not None:
        most = step.shared.total(most, "max")
    y = (wide - most.index_select(0, group)).exp_()
    sums = run_join(groups, [y], y.shape[1:])  # (groups, channels)
    if step.shared is not None:
        sums = step.shared.total(sums)
    return (y / sums.index_select(0, group)).to(x.dtype)


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
    """Build the plan of the groups of a softmax; see `groups_of`. It has one step."""
    pattern, faces = Pattern(text), key_faces(text, over)
    [index] = structure.index(pattern)
    home = structure.batch(pattern)
    nodes = dict(zip(pattern.letters, index, strict=True))
    keys, count = _numbered(nodes, faces, home, structure)
    key_home = torch.arange(count, device=home.device)
    key_home[keys] = home
    entries = torch.arange(len(home), device=home.device)
    num_rows, homes = (count, len(home)), (home, key_home)
    step = step_of((0,), num_rows, keys, (entries,), None, homes, structure.num_structures)
    if structure.world is not None:
        columns = _columns(nodes, faces, structure)
        of_keys = torch.zeros(count, len(columns), dtype=torch.long)
        for place, column in enumerate(columns):
            of_keys[keys, place] = column
        shared = shared_keys(structure.whole_nodes(of_keys), structure.world)
        step = replace(step, shared=shared)
    lengths = np.stack([structure._lengths_of(pattern), step.num_targets])
    return JoinPlan(f"{text} over {over}", (step,), lengths)


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
