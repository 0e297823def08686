"""Layers whose weights can be carried to other groups."""

from __future__ import annotations

from typing import Any

from incidence.structure import Structure

__all__ = ["Transferable"]


class Transferable:
    """A layer of a group, which has relatives for smaller and larger groups."""

    def restrict_to(self, group: Any) -> Any:
        """Return the layer of a smaller group that computes the same map.

        See `incidence.nn.transfer.restrict`.

        Args:
            group: A group of a structure, or `symmetric`.
        """
        from incidence.nn.transfer import restrict  # it needs the layers, which need this class

        return restrict(self, group)  # type: ignore[arg-type]

    def project(self, group: Any = "symmetric", structure: Structure | None = None) -> Any:
        """Return the layer of a larger group that is nearest on the entries of a structure.

        See `incidence.nn.transfer.project`.

        Args:
            group: A group of a structure, `symmetric`, or `product`.
            structure: Whose entries count. An `AutomorphismLinear` layer has its own.
        """
        from incidence.nn.transfer import project

        return project(self, group, structure)  # type: ignore[arg-type]
