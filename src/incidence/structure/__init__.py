"""Structures: nodes and entries, and batches of them. Index data only."""

from incidence.structure import pytree as pytree  # registers structures with torch
from incidence.structure.collate import collate, pack, uncollate
from incidence.structure.example import Example
from incidence.structure.features import carry, face_patterns, from_faces, ones, to_faces
from incidence.structure.structure import Structure

__all__ = [
    "Example",
    "Structure",
    "carry",
    "collate",
    "face_patterns",
    "from_faces",
    "ones",
    "pack",
    "to_faces",
    "uncollate",
]
