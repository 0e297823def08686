"""For people who test their own layers: `assert_equivariant`, and structures to test with."""

from incidence.testing.equivariance import assert_equivariant
from incidence.testing.structures import random_features, random_structure

__all__ = ["assert_equivariant", "random_features", "random_structure"]
