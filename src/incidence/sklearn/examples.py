"""What estimators take as X, as examples: SMILES, graphs of several libraries, tables of pairs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from incidence.data.molecules import features_of_all
from incidence.data.pyg import graphs_of, is_pyg
from incidence.errors import IncidenceError, need
from incidence.geometry.convert import from_networkx
from incidence.structure.example import Example
from incidence.structure.structure import Structure

__all__ = ["as_frame", "graph_examples", "items_of", "molecule_examples"]


def items_of(X: Any) -> list[Any]:
    """Return the items of a sequence, an array or a series; an array may have one column.

    Raises:
        IncidenceError: It is a single item, has no items, or several columns.
    """
    if isinstance(X, (str, Example, Structure)):
        raise IncidenceError(
            f"X is a sequence with an item for each row; got one {type(X).__name__}: put it into a"
            " list."
        )
    if hasattr(X, "iloc"):  # pandas
        X = X.to_numpy()
    if isinstance(X, np.ndarray) and X.ndim > 1:
        if X.ndim != 2 or X.shape[1] != 1:
            raise IncidenceError(
                f"X has one column, or is a list; got an array of shape {X.shape}. In a pipeline,"
                " choose the column first."
            )
        X = X[:, 0]
    items = list(X)
    if not items:
        raise IncidenceError("X has no items: there is nothing to learn from or to predict.")
    return items


def molecule_examples(X: Any) -> list[Example]:
    """Return the molecules of SMILES, or of molecules of RDKit.

    Raises:
        IncidenceError: One of them cannot be read; the message has its number.
    """
    items = [str(one) if isinstance(one, np.str_) else one for one in items_of(X)]
    return _each(items, features_of_all)


def graph_examples(X: Any) -> list[Example]:
    """Return the examples of graphs: examples, structures, graphs of PyG, or of networkx.

    Raises:
        IncidenceError: One of them is something else; the message has its number.
    """
    items = items_of(X)
    if is_pyg(items):
        return [one.replace(target=None) for one in graphs_of(items)]
    return _each(items, lambda some: [_graph_example(one) for one in some])


def _graph_example(item: Any) -> Example:
    if isinstance(item, Example):
        return item.replace(target=None)
    if isinstance(item, Structure):
        return Example(item, {})
    networkx = sys.modules.get("networkx")  # whoever has such a graph has imported it
    if networkx is not None and isinstance(item, networkx.Graph):
        return from_networkx(item).replace(target=None)
    raise IncidenceError(
        f"graphs are examples, structures, graphs of PyG or of networkx; got {type(item).__name__}."
    )


def _each(items: Sequence[Any], read: Callable[[Sequence[Any]], list[Example]]) -> list[Example]:
    """Read all items at once; if that fails, one by one, to name the one that cannot be read."""
    try:
        return read(items)
    except IncidenceError:
        for number, item in enumerate(items):
            try:
                read([item])
            except IncidenceError as error:
                raise IncidenceError(f"X[{number}]: {error}") from error
        raise


def as_frame(X: Any) -> Any:
    """Return a table of pairs as a data frame with texts as names of its columns.

    Raises:
        IncidenceError: It has other than two columns.
    """
    frame = X
    if not hasattr(X, "iloc"):
        frame = need("pandas", "a table as an array", "sklearn").DataFrame(np.asarray(X))
    if frame.ndim != 2 or frame.shape[1] < 2 or not len(frame):
        raise IncidenceError(
            "X is a table with a row for each pair and its two IDs in columns, such as user and"
            f" movie; got shape {frame.shape}."
        )
    names = [f"id{name}" if isinstance(name, int) else str(name) for name in frame.columns]
    return frame.set_axis(names, axis=1)
