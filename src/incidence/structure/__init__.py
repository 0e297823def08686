"""Structures: nodes and entries, batches, and the plans that layers work by. Index data only."""

from incidence.structure import tree as tree  # registers structures with torch
from incidence.structure.example import Example
from incidence.structure.examples import collate, pack, uncollate
from incidence.structure.features import ones
from incidence.structure.plan import Plan
from incidence.structure.structure import Structure

__all__ = ["Example", "Plan", "Structure", "collate", "ones", "pack", "uncollate"]
