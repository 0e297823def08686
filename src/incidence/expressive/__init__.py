"""What networks of one kind can tell apart, decided exactly."""

from incidence.lazy import uninterrupted

with uninterrupted():
    from incidence.expressive.expressivity import Expressivity, expressivity

__all__ = ["Expressivity", "expressivity"]
