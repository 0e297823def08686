"""Molecules: chemical features, which RDKit works out, the data set that comes with the package, and a reader of files."""

from incidence.data.molecules.features import (
    ATOM_FEATURES,
    BOND_FEATURES,
    RING_FEATURES,
    features_of,
    features_of_all,
)

__all__ = ["ATOM_FEATURES", "BOND_FEATURES", "RING_FEATURES", "features_of", "features_of_all"]
