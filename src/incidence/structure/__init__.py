"""Structures: nodes and entries, batches, and the plans that layers work by. Index data only."""

from incidence.structure import tree as tree  # registers structures with torch
from incidence.structure.automorphisms import automorphisms
from incidence.structure.example import Example
from incidence.structure.examples import collate, pack, uncollate
from incidence.structure.features import ones
from incidence.structure.group import Group
from incidence.structure.plan import Plan
from incidence.structure.representations import carry, face_patterns, from_faces, to_faces
from incidence.structure.structure import Structure

__all__ = [
    "Example",
    "Group",
    "Plan",
    "Structure",
    "automorphisms",
    "carry",
    "collate",
    "face_patterns",
    "from_faces",
    "ones",
    "pack",
    "to_faces",
    "uncollate",
]
