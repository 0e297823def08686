"""Liftings as transforms of PyG."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

from incidence.errors import IncidenceError
from incidence.geometry.convert.exchange import by_meaning
from incidence.geometry.convert.pyg import from_pyg
from incidence.geometry.convert.pyg_graphs import to_pyg
from incidence.geometry.lifting.adjacency import edge_pattern
from incidence.geometry.lifting.cliques import alpha, vietoris_rips
from incidence.geometry.lifting.walks import line_graph
from incidence.structure import Example, Structure

__all__ = ["Transform", "as_transform"]


Options = dict[str, Any]
Lifting = Callable[..., Structure]


class Transform:
    """A lifting with its options, to be called on `Data`, on an example or on a structure; it fits
    into `Compose`.
    """

    def __init__(self, lifting: Lifting, edges: str, is_data: bool, options: Options) -> None:
        self.lifting = lifting
        self.edges = edges
        self.is_data = is_data
        self.options = options

    def __call__(self, data: Any) -> Any:
        """Return the lifted structure; with features and target, unless `data` is a structure."""
        if isinstance(data, Structure):
            return self._lifted(Example(data)).structure
        example = data if isinstance(data, Example) else from_pyg(data, edges=self.edges)
        lifted = self._lifted(example)
        return to_pyg(lifted) if self.is_data else lifted

    def _lifted(self, example: Example) -> Example:
        lift = _CARRY.get(self.lifting, _on_structure)
        return lift(self.lifting, example, self.options)

    def __repr__(self) -> str:
        options = "".join(f", {key}={value!r}" for key, value in self.options.items())
        return f"as_transform({getattr(self.lifting, '__name__', self.lifting)}{options})"


def _on_structure(lifting: Lifting, example: Example, options: Options) -> Example:
    return example.replace(structure=lifting(example.structure, **options))


def _on_points(lifting: Lifting, example: Example, options: Options) -> Example:
    if example.structure.patterns:
        raise IncidenceError(
            "a complex of points makes edges of its own, and there are tensors already: remove"
            " edge_index first."
        )
    if "pos=i" not in example.features:
        raise IncidenceError(
            "a complex of points needs their coordinates: set data.pos, or features['pos=i']."
        )
    return example.replace(structure=lifting(example.features["pos=i"], **options))


def _on_edges(lifting: Lifting, example: Example, options: Options) -> Example:
    """Features of the edges become those of the nodes. Features of the nodes have no place."""
    pattern = edge_pattern(example.structure, options.get("edges"), "line_graph")
    by_pattern = by_meaning(example)
    if pattern in by_pattern and pattern.is_oriented:
        raise IncidenceError(
            f"line_graph: features of `{pattern}` change sign with orientations, and those of nodes"
            " do not: leave them out."
        )
    features = {"i": by_pattern[pattern]} if pattern in by_pattern else {}
    target = None if isinstance(example.target, dict) else example.target
    return example.replace(
        structure=lifting(example.structure, **options), features=features, target=target
    )


_CARRY = {alpha: _on_points, vietoris_rips: _on_points, line_graph: _on_edges}
"""Liftings whose structures have other nodes, or that start from points: how features follow."""


def as_transform(
    lifting: Lifting, *, read: str = "{i j}", as_data: bool = False, **options: Any
) -> Transform:
    r"""Return a lifting as a transform of PyG: from `Data` to an example with the lifted structure,
    with features and target.

    Args:
        lifting: One of the functions of this package, or any from structure to structure.
        read: The pattern of `edge_index`: `{i j}` for undirected edges, `(i j)` for directed ones.
        as_data: Whether to return `Data`, with the new tensors as further attributes, for
            `pre_transform` and other transforms: see `convert.to_pyg`.
        **options: Options of the lifting: sizes, names, limits.

    Example:
        >>> from incidence.geometry import lifting
        >>> square = Structure(4, {"{i j}": [[0, 1, 2, 0], [1, 2, 3, 3]]})
        >>> as_transform(lifting.rings, max_length=5)(square)
        Structure(num_nodes=4, '{i j}': 4 entries, 'ring={i ...}': 1 entry)
    """
    if not callable(lifting):
        raise IncidenceError(
            "as_transform takes a lifting, as in as_transform(lifting.rings, max_length=6); got"
            f" {lifting!r}."
        )
    try:
        parameters = signature(lifting)
    except (TypeError, ValueError):  # a builtin has no signature
        return Transform(lifting, read, as_data, options)
    try:
        parameters.bind_partial(None, **options)
    except TypeError as error:
        known = ", ".join(list(parameters.parameters)[1:])
        raise IncidenceError(
            f"as_transform: {getattr(lifting, '__name__', lifting)} takes the options {known};"
            f" {error}."
        ) from None
    return Transform(lifting, read, as_data, options)
