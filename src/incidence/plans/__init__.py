"""Plans: which keys the entries of a structure write to and read from, and a map compiled for them. Index data only."""

import incidence.structure  # noqa: F401
from incidence.plans.plan import Plan

__all__ = ["Plan"]
