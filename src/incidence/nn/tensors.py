"""How the tensors of one side of a layer are named, passed and checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from functools import wraps
from operator import index as index_of
from typing import Any

import torch
from torch import Tensor, nn

from incidence.algebra.maps import EquivariantMap
from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError, PatternError
from incidence.structure import Example, Structure
from incidence.structure.arguments import assert_structure
from incidence.structure.data import row_counts
from incidence.structure.pytree import constant_while_tracing

__all__ = [
    "Values",
    "as_channels",
    "as_list",
    "as_side",
    "as_values",
    "assert_distinct",
    "assert_rows",
    "assert_structure",
    "assert_unoriented",
    "features_for",
    "fitting",
    "key_of",
    "keys_in_order",
    "per_tensor",
    "taken_apart",
    "takes_examples",
]

Values = Tensor | dict[str, Tensor]
"""One tensor, or a dict of tensors keyed by the text or name used in the map."""


def key_of(pattern: Pattern) -> str:
    """Return the key of a tensor in a dict: its name, or its text."""
    return pattern.name or str(pattern)


def assert_distinct(patterns: Sequence[Pattern], text: str) -> None:
    """Refuse a side that has one tensor twice."""
    for pattern in patterns:
        if patterns.count(pattern) > 1:
            shown = str(pattern) or "(empty)"
            raise IncidenceError(
                f"`{shown}` stands twice on one side of `{text}`: name them, as in `one={pattern},"
                f" two={pattern}`."
            )


def assert_unoriented(m: EquivariantMap, why: str) -> None:
    """Refuse a map with oriented faces."""
    oriented = next((p for p in m.inputs + m.outputs if p.is_oriented), None)
    if oriented is not None:
        raise IncidenceError(
            f"{why}; got `{oriented}`. Use inc.nn.Linear, or write `{oriented.unoriented()}` for"
            " values without a sign."
        )


def as_side(text: str) -> tuple[Pattern, ...]:
    """Return the tensors of one side, written as in a map; each once."""
    patterns = EquivariantMap(f"{text} -> ").inputs
    assert_distinct(patterns, text)
    return patterns


def _find(patterns: Sequence[Pattern], key: object, what: str) -> int:
    for number, pattern in enumerate(patterns):
        if key == key_of(pattern):
            return number
    if isinstance(key, (str, Pattern)):
        with suppress(PatternError):
            meant = Pattern(key)
            if meant in patterns:
                return list(patterns).index(meant)
    keys = [key_of(p) for p in patterns]
    close = get_close_matches(str(key), keys, cutoff=0.5)
    guess = f" Did you mean {close[0]!r}?" if close else ""
    raise IncidenceError(
        f"{what} has no tensor {key!r}; there are: {', '.join(map(repr, keys))}.{guess}"
    )


def per_tensor(patterns: Sequence[Pattern], value: Any, what: str) -> list[Any]:
    """Return one value for each tensor, from one for all or a mapping."""
    if not isinstance(value, Mapping):
        return [value] * len(patterns)
    found: dict[int, Any] = {}
    for key, v in value.items():
        number = _find(patterns, key, what)
        if number in found:
            raise IncidenceError(
                f"{what} has {key_of(patterns[number])!r} twice, in two spellings: keep one of"
                " them."
            )
        found[number] = v
    missing = [key_of(p) for number, p in enumerate(patterns) if number not in found]
    if missing:
        raise IncidenceError(
            f"{what} has no value for {missing[0]!r}: give one for each tensor, or one number for"
            " all."
        )
    return [found[number] for number in range(len(patterns))]


@constant_while_tracing
def keys_in_order(text: str, keys: tuple[str, ...]) -> tuple[str, ...]:
    """Return the keys of a dict of inputs in the order of a map."""
    return tuple(per_tensor(EquivariantMap(text).inputs, {key: key for key in keys}, "the input"))


def fitting(
    patterns: Mapping[str, Pattern],
    x: Any,
    structure: Any,
    channels: Sequence[int],
    like: Tensor,
) -> list[Tensor] | None:
    """Return the tensors of one side if they are just as they should be.

    Most are, and this look is much shorter than that of `as_list`, which says what is wrong.

    Args:
        patterns: The tensors by their keys.
        x: What the caller gave.
        structure: The structure.
        channels: How many channels each of them has.
        like: A parameter with the right type and device.
    """
    if not isinstance(structure, Structure) or structure.device != like.device:
        return None
    if isinstance(x, dict):
        # None where a key is spelt otherwise: `as_list` parses it
        values = list(map(x.get, patterns))
        # More tensors than inputs: whoever passes one by mistake shall hear of it.
        if len(x) > len(values) > 1:
            return None
    else:
        values = [x]
    counts = row_counts(structure, tuple(patterns.values()))  # cached by the structure
    if len(values) != len(counts):
        return None
    dtype, device = like.dtype, like.device
    for value, rows, width in zip(values, counts, channels, strict=True):
        fits = (
            isinstance(value, Tensor)
            and value.shape == (rows, width)
            and value.dtype == dtype
            and value.device == device
            and value.layout == torch.strided
        )
        if not fits:
            return None
    return values  # type: ignore[return-value]


def as_list(
    patterns: Sequence[Pattern], x: object, structure: Structure, channels: Sequence[int | None]
) -> list[Tensor]:
    """Return the tensors of one side in the order of the map, each checked against the
    structure.
    """
    assert_structure(structure)
    if isinstance(x, Mapping):
        values = per_tensor(patterns, x, "the input")
    elif len(patterns) == 1:
        values = [x]
    else:
        keys = ", ".join(repr(key_of(p)) for p in patterns)
        raise IncidenceError(
            f"the input has {len(patterns)} tensors: pass a dict with the keys {keys}; got"
            f" {type(x).__name__}."
        )
    for pattern, value, width in zip(patterns, values, channels, strict=True):
        _assert_features(pattern, value, structure, width)
    return values


def _assert_features(
    pattern: Pattern, x: object, structure: Structure, channels: int | None
) -> None:
    name = f"the features of `{pattern}`"
    if not isinstance(x, Tensor):
        raise IncidenceError(f"{name} must be a tensor; got {type(x).__name__}.")
    structure.resolve(pattern)
    if torch.compiler.is_compiling():
        return
    remedy = "Leave the tensor out" if pattern.is_oriented else f"Use inc.ones(s, '{pattern}')"
    assert_rows(
        name, x, structure.num_entries(pattern), structure, f"{remedy} where there are no features."
    )
    if channels is not None and x.shape[1] != channels:
        raise IncidenceError(
            f"{name} must have {channels} channels, as the layer was made for; got {x.shape[1]}."
        )


def assert_rows(
    name: str,
    x: object,
    rows: int,
    structure: Structure,
    remedy: str = "Use inc.ones where there are no features.",
) -> None:
    """Refuse what is no tensor with a row of features for each of some entries."""
    if not isinstance(x, Tensor):
        raise IncidenceError(f"{name} must be a tensor; got {type(x).__name__}.")
    if x.is_nested or x.layout != torch.strided:
        raise IncidenceError(f"{name} must be a dense tensor; convert them with `.to_dense()`.")
    if not x.is_floating_point():
        kind = str(x.dtype).removeprefix("torch.")
        raise IncidenceError(
            f"{name} must be of a floating type; got {kind}. Convert them with `.float()`."
        )
    if x.ndim == 1:
        raise IncidenceError(
            f"{name} must have shape [entries, channels]; got {list(x.shape)}. For one channel use"
            " x[:, None]."
        )
    if x.ndim != 2:
        raise IncidenceError(
            f"{name} must have shape [entries, channels]; got {list(x.shape)}. Batches are"
            " structures side by side."
        )
    if x.shape[0] != rows:
        raise IncidenceError(
            f"{name} must have {rows} rows, one for each entry of the structure; got {x.shape[0]}."
        )
    if not x.shape[1]:
        raise IncidenceError(f"{name} have no channels: shape {list(x.shape)}. {remedy}")
    if x.device != structure.device:  # last, as every other mistake is likelier
        raise IncidenceError(
            f"{name} are on {x.device} and the structure is on {structure.device}: move one with"
            " `.to(device)`."
        )


def taken_apart(x: Any, structure: Structure | None) -> tuple[Any, Structure]:
    """Return features and their structure, from both or from an example, which has both.

    Raises:
        IncidenceError: The structure is missing, or there are two.
    """
    if isinstance(x, Example) and structure is None:
        return x._features, x.structure
    if isinstance(x, Example) or structure is None:
        came = (
            "an example and a structure" if isinstance(x, Example) else f"{type(x).__name__} alone"
        )
        hint = ""
        if hasattr(x, "edge_index"):
            hint = " Make a batch of graphs of PyG with inc.collate(graphs), and call net(batch)."
        raise IncidenceError(
            "call it with an example, or with features and their structure, as in net(x, s); got"
            f" {came}.{hint}"
        )
    return x, structure


def takes_examples(forward: Callable[..., Any]) -> Callable[..., Any]:
    """Let the `forward` of a layer take an example in place of features and their structure."""

    @wraps(forward)
    def outer(self: nn.Module, x: Any, structure: Any = None, *rest: Any, **named: Any) -> Any:
        if structure is None or isinstance(x, Example):
            x, structure = taken_apart(x, structure)
            x = features_for(self, x)
        return forward(self, x, structure, *rest, **named)

    return outer


def features_for(module: nn.Module, features: Any) -> Values:
    """Return the features of an example that a layer reads; all if it does not say which."""
    if isinstance(module, nn.Sequential) and len(module):  # its first module reads them
        return features_for(module[0], features)
    inner = getattr(module, "inner", None)  # of a residual
    if isinstance(inner, nn.Module):
        return features_for(inner, features)
    inputs = _tensors_read(module)
    if inputs is None:
        return dict(features)
    # examples may spell keys otherwise
    by_pattern = {Pattern(key): value for key, value in features.items()}
    read = {key_of(p): by_pattern[p] for p in inputs if p in by_pattern}
    return read if len(inputs) > 1 or not read else next(iter(read.values()))


def _tensors_read(module: Any) -> Sequence[Pattern] | None:
    """Return the tensors that a layer reads, which layers of different kinds name differently."""
    operands = getattr(module, "_operands", None)
    if operands is not None:
        tensors: Sequence[Pattern] = operands.tensors
        return tensors
    m = getattr(module, "map", None)
    if isinstance(m, EquivariantMap):
        return m.inputs
    for name in ("all_patterns", "sides", "patterns"):
        patterns: Sequence[Pattern] | None = getattr(module, name, None)
        if patterns is not None:
            return patterns
    return None


def as_values(patterns: Sequence[Pattern], ys: Sequence[Tensor]) -> Values:
    """Return the tensors of one side as the caller gets them."""
    return (
        ys[0] if len(patterns) == 1 else {key_of(p): y for p, y in zip(patterns, ys, strict=True)}
    )


def as_channels(value: Any, name: str, least: int) -> int:
    """Return a number of channels, checked; -1 where it may be left open."""
    try:
        number = 0 if isinstance(value, bool) else index_of(value)
    except TypeError:
        number = 0
    if number < least or number == 0:
        lazy = ", or -1 to take it from the first input" if least < 0 else ""
        raise IncidenceError(f"{name} is a number of channels, at least 1{lazy}; got {value!r}.")
    return number
