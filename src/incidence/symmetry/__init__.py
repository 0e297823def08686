"""Symmetry of a given structure: groups, automorphisms, and orbits that share weights."""

from incidence.symmetry.automorphisms import automorphisms
from incidence.symmetry.group import Group

__all__ = ["Group", "automorphisms"]
