"""The entries of a tensor that have a key in common, as a step that adds them up: what a softmax needs of a structure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from incidence.algebra.grammar import Face
from incidence.algebra.groups import key_faces
from incidence.algebra.pattern import Pattern
from incidence.plans.join_plan import JoinPlan, step_of
from incidence.structure.data import StructureData
from incidence.structure.ragged import ascend, code, rank

__all__ = ["build_groups"]


def build_groups(structure: StructureData, text: str, over: str) -> JoinPlan:
    """The entries of a tensor by their keys, what is left of them without some letters; as a plan whose only step adds them up."""
    pattern, faces = Pattern(text), key_faces(text, over)
    [index] = structure.index(pattern)
    home = structure.batch(pattern)
    keys, count = _numbered(dict(zip(pattern.letters, index, strict=True)), faces, home, structure)
    key_home = torch.empty(count, dtype=torch.long, device=home.device)
    key_home[keys] = home
    entries = torch.arange(len(home), device=home.device)
    step = step_of(
        (0,), (count, len(home)), keys, (entries,), None, (home, key_home), structure.num_structures
    )
    return JoinPlan(
        f"{text} over {over}", (step,), np.stack([structure._lengths_of(pattern), step.num_targets])
    )


def _numbered(
    nodes: dict[str, Tensor], faces: Sequence[Face], home: Tensor, structure: StructureData
) -> tuple[Tensor, int]:
    """The number of the key of every entry, and how many there are."""
    columns: list[Tensor] = []
    for face in faces:
        own = [nodes[letter.name] + structure._node_offsets[letter.sort] for letter in face.letters]
        columns += own if face.kind.is_ordered else ascend(own)
    return rank(code(columns, [structure.total_nodes] * len(columns))[0] if columns else home)
