"""Symmetry of a given structure: groups, automorphisms, and the orbits that layers share weights along."""

from incidence.symmetry.automorphisms import automorphisms
from incidence.symmetry.group import Group

__all__ = ["Group", "automorphisms"]
