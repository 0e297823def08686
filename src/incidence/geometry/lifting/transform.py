"""Liftings as transforms of PyG."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

from incidence.errors import IncidenceError
from incidence.geometry.convert.pyg import from_pyg, to_pyg
from incidence.geometry.lifting.adjacency import edge_pattern
from incidence.geometry.lifting.cliques import alpha, vietoris_rips
from incidence.geometry.lifting.walks import line_graph
from incidence.structure import Example, Structure

__all__ = ["Transform", "as_transform"]


class Transform:
    """A lifting with its options, to be called on `Data`, on an example or on a structure; it fits into `Compose`."""

    def __init__(
        self, lifting: Callable[..., Structure], edges: str, is_data: bool, options: dict[str, Any]
    ) -> None:
        self.lifting, self.edges, self.is_data, self.options = lifting, edges, is_data, options

    def __call__(self, data: Any) -> Any:
        """The lifted structure; with the features and the target, unless it was a structure."""
        is_structure = isinstance(data, Structure)
        example = (
            Example(data)
            if is_structure
            else data
            if isinstance(data, Example)
            else from_pyg(data, edges=self.edges)
        )
        lifted = _CARRY.get(self.lifting, _on_structure)(self.lifting, example, self.options)
        return lifted.structure if is_structure else to_pyg(lifted) if self.is_data else lifted

    def __repr__(self) -> str:
        options = "".join(f", {key}={value!r}" for key, value in self.options.items())
        return f"as_transform({getattr(self.lifting, '__name__', self.lifting)}{options})"


def _on_structure(
    lifting: Callable[..., Structure], example: Example, options: dict[str, Any]
) -> Example:
    return example.replace(structure=lifting(example.structure, **options))


def _on_points(
    lifting: Callable[..., Structure], example: Example, options: dict[str, Any]
) -> Example:
    if example.structure.patterns:
        raise IncidenceError(
            "a complex of points makes edges of its own, and there are tensors already: remove edge_index first."
        )
    if "pos=i" not in example.features:
        raise IncidenceError(
            "a complex of points needs their coordinates: set data.pos, or features['pos=i']."
        )
    return example.replace(structure=lifting(example.features["pos=i"], **options))


def _on_edges(
    lifting: Callable[..., Structure], example: Example, options: dict[str, Any]
) -> Example:
    """The features of the edges become those of the nodes; those of the nodes have no place any more."""
    pattern = edge_pattern(example.structure, options.get("edges"), "line_graph")
    found = {example.structure.resolve(key): x for key, x in example.features.items()}
    if pattern in found and pattern.is_oriented:
        raise IncidenceError(
            f"line_graph: features of `{pattern}` change sign with orientations, and those of nodes do not: leave them out."
        )
    features = {"i": found[pattern]} if pattern in found else {}
    target = None if isinstance(example.target, dict) else example.target
    return example.replace(
        structure=lifting(example.structure, **options), features=features, target=target
    )


_CARRY = {alpha: _on_points, vietoris_rips: _on_points, line_graph: _on_edges}
"""How features go along where the lifted structure has other nodes or starts from other things."""


def as_transform(
    lifting: Callable[..., Structure], *, read: str = "{i j}", as_data: bool = False, **options: Any
) -> Transform:
    r"""A lifting as a transform of PyG: from `Data` to an example with the lifted structure, features and target going along.

    Args:
        lifting: One of the functions of this package, or any from structure to structure.
        read: How `edge_index` is read: `{i j}` for undirected edges, `(i j)` for directed ones.
        as_data: Give `Data` back, with the new tensors as further attributes, for `pre_transform` and other transforms:
            see `convert.to_pyg`.
        **options: What the lifting takes: sizes, names, limits.

    Example:
        >>> from incidence.geometry import lifting
        >>> square = Structure(4, {"{i j}": [[0, 1, 2, 0], [1, 2, 3, 3]]})
        >>> as_transform(lifting.rings, max_length=5)(square)
        Structure(num_nodes=4, '{i j}': 4 entries, 'ring={i ...}': 1 entry)
    """
    if not callable(lifting):
        raise IncidenceError(
            f"as_transform takes a lifting, as in as_transform(lifting.rings, max_length=6); got {lifting!r}."
        )
    try:
        asked = signature(lifting)
    except (TypeError, ValueError):  # a builtin does not tell
        return Transform(lifting, read, as_data, options)
    try:
        asked.bind_partial(None, **options)
    except TypeError as error:
        known = ", ".join(list(asked.parameters)[1:])
        raise IncidenceError(
            f"as_transform: {getattr(lifting, '__name__', lifting)} takes the options {known}; {error}."
        ) from None
    return Transform(lifting, read, as_data, options)
