"""Augmentation: meshes stretched at random along the axes."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from incidence.data.meshes.features import COLUMNS, apart, measured
from incidence.errors import IncidenceError
from incidence.structure.example import Example
from incidence.structure.examples import collate

__all__ = ["augment", "stretch"]

_BEND = COLUMNS["{i j}"].index("dihedral angle")


def stretch(example: Example, generator: torch.Generator, amount: float = 0.1) -> Example:
    r"""The mesh with every axis scaled by its own random factor $e^{a z}$, $a$ the amount and $z$ normal, and features anew.

    Args:
        example: With the raw features of `features_of`: dihedral angles keep their signs, which no such map changes.
        generator: Of the factors.
        amount: 0 leaves the mesh as it is.
    """
    return augment([example], generator, amount)[0]


def augment(examples: Sequence[Example], generator: torch.Generator, amount: float = 0.1) -> list[Example]:
    """Meshes as `stretch` changes each of them, all measured at once; structures and targets stay what they are."""
    for number, example in enumerate(examples):
        if not {"pos=i", *COLUMNS} <= example.features.keys():
            raise IncidenceError(f"example {number} of those to stretch has no features of a mesh: give it to `features_of` first.")
    points = torch.cat([e.features["pos=i"] for e in examples])
    signs = torch.cat([e.features["{i j}"][:, _BEND] for e in examples]).sign()
    batch = collate([e.structure for e in examples])
    factors = torch.randn(len(examples), points.shape[1], generator=generator, dtype=points.dtype).mul_(amount).exp_()
    moved = points * factors[batch.batch("i")]
    parts = apart(batch, {"pos=i": moved, **measured(batch, moved, signs)})
    # Known to fit, and not checked again: that would take a fifth of the time.
    return [Example._of(e.structure, {**e.features, **own}, e.target, e.is_batch) for e, own in zip(examples, parts, strict=True)]
