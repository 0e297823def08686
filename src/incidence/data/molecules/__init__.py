"""Molecules: chemical features without RDKit, data sets, and a reader of files."""

from incidence.data.molecules.features import ATOM_FEATURES, BOND_FEATURES, RING_FEATURES, features_of, features_of_all

__all__ = ["ATOM_FEATURES", "BOND_FEATURES", "RING_FEATURES", "features_of", "features_of_all"]
