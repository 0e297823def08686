"""numpy: examples as plain arrays, for all other libraries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from incidence.errors import IncidenceError
from incidence.geometry.convert.exchange import as_array, as_example
from incidence.structure import Example, Structure, collate

__all__ = ["from_numpy", "to_numpy"]

_KEYS = ("num_nodes", "index", "features", "target")


def to_numpy(example: Example | Structure) -> dict[str, Any] | list[dict[str, Any]]:
    r"""Write an example or a structure as arrays; a batch as a list.

    Returns:
        A dict with `num_nodes` (a number, or one for each sort), `index` (for each pattern an array
        [letters, entries]; for faces of mixed size [2, incidences], or a tuple), `features` and
        `target`.

    Example:
        >>> to_numpy(Structure(3, {"(i j)": [[0, 1], [1, 2]]}))["index"]["(i j)"].tolist()
        [[0, 1], [1, 2]]
    """
    example = as_example(example, "to_numpy")
    return [_write(one) for one in example] if example.is_batch else _write(example)


def _write(example: Example) -> dict[str, Any]:
    def arrays(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: arrays(x) for key, x in value.items()}
        if isinstance(value, tuple):
            return tuple(arrays(x) for x in value)
        # A copy, so that nobody changes the structure through an array.
        return as_array(value, "to_numpy").copy() if isinstance(value, Tensor) else value

    structure = example.structure
    index = {str(pattern): structure[pattern] for pattern in structure.patterns}
    parts = {
        "num_nodes": structure.num_nodes,
        "index": index,
        "features": example.features,
        "target": example.target,
    }
    return {key: arrays(value) for key, value in parts.items()}


def from_numpy(arrays: Mapping[str, Any] | list[Mapping[str, Any]]) -> Example:
    r"""Read what `to_numpy` writes: `num_nodes`, and if present `index`, `features` and `target`; a
    list gives a batch.

    Example:
        >>> from_numpy({"num_nodes": 2, "features": {"i": np.zeros((2, 5))}})
        Example(Structure(num_nodes=2), features={'i': [2, 5]}, target=None)
    """
    if isinstance(arrays, list):
        return collate([from_numpy(one) for one in arrays])
    if not isinstance(arrays, Mapping) or "num_nodes" not in arrays:
        raise IncidenceError(
            "from_numpy takes a dict with `num_nodes`, and where there are any `index`, `features`"
            " and `target`."
        )
    unknown = [key for key in arrays if key not in _KEYS]
    if unknown:
        raise IncidenceError(f"from_numpy knows {', '.join(_KEYS)}, and no {unknown[0]!r}.")
    structure = Structure(arrays["num_nodes"], arrays.get("index"))
    features = {key: _tensor(key, x) for key, x in (arrays.get("features") or {}).items()}
    target: Any = arrays.get("target")
    if isinstance(target, Mapping):
        target = {key: _tensor(key, x) for key, x in target.items()}
    elif target is not None:
        target = _tensor("target", target)
    return Example(structure, features, target)


def _tensor(name: str, value: Any) -> Tensor:
    try:
        return torch.from_numpy(np.array(value))
    except TypeError:
        raise IncidenceError(f"from_numpy: {name} is no array of numbers.") from None
