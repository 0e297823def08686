"""Triangle meshes: features, augmentation, the reader `mesh`, and the data sets SHREC'11 and COSEG."""

from incidence.data.meshes.coseg import edge_areas, soft_accuracy, soft_labels
from incidence.data.meshes.features import COLUMNS, features_of
from incidence.data.meshes.files import examples_of, triangulated
from incidence.data.meshes.stretch import augment, stretch

__all__ = ["COLUMNS", "augment", "edge_areas", "examples_of", "features_of", "soft_accuracy", "soft_labels", "stretch", "triangulated"]
