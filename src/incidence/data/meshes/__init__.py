"""Triangle meshes: features, augmentation and the reader `mesh`."""

from incidence.data.meshes.features import COLUMNS, features_of
from incidence.data.meshes.files import augment, examples_of, stretch, triangulated

__all__ = ["COLUMNS", "augment", "examples_of", "features_of", "stretch", "triangulated"]
