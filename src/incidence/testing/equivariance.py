"""`assert_equivariant`: whether a module respects relabelling."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from incidence.algebra.maps import EquivariantMap
from incidence.algebra.multilinear import MultilinearMap
from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.structure import Structure
from incidence.testing.rewriting import reoriented, rewritten

__all__ = ["assert_equivariant"]


def assert_equivariant(
    module: Callable[..., Any],
    x: Tensor | Mapping[str, Tensor],
    structure: Structure,
    *,
    inputs: str | None = None,
    outputs: str | None = None,
    rtol: float = 1e-5,
    atol: float = 1e-6,
    trials: int = 3,
    seed: int = 0,
) -> None:
    """Assert that the output of a module depends only on the entries and their values.

    Relabelling the nodes and reordering the entries must do the same to the output. Writing the
    same entries in other letter orders must do nothing: `{1 2}` is `{2 1}`, and in equal edges of
    `{i j} {i k}` either node may be i (docs/math.md section 2). Reversing entries of `<i j>`
    together with the sign of their values must reverse the values of the output at such entries,
    and do nothing else (section 16).

    Args:
        module: Called as `module(x, structure)`.
        x: A tensor, or a dict of tensors by pattern or name.
        structure: The structure; of a batch, every structure is relabelled on its own.
        inputs: The pattern of x, if it is a single tensor and the module has no `map`.
        outputs: The pattern of a single output, if the module has no `map` and it is not that of
            the input.
        rtol: The relative tolerance of differences.
        atol: The absolute tolerance of differences.
        trials: The number of relabellings to try.
        seed: The seed of the relabellings.

    Raises:
        AssertionError: The module is not equivariant. The message names the output and the entry
            that differ, by how much, and the change that caused it.
    """
    if not isinstance(structure, Structure):
        raise IncidenceError(f"the third argument is a Structure; got {type(structure).__name__}.")
    if trials < 1:
        raise IncidenceError(f"trials is a number of relabellings, at least 1; got {trials!r}.")
    known = getattr(module, "map", None)  # layers say which tensors they take
    if not isinstance(known, (EquivariantMap, MultilinearMap)):
        known = None
    patterns = () if known is None else (*known.inputs, *known.outputs)
    texts = {p.name or str(p): p for p in patterns}
    names = _names(known, x, inputs, outputs)
    before = module(x, structure)
    _assert_repeatable(before, module(x, structure))
    generator = torch.Generator().manual_seed(seed)
    for trial in range(trials):
        moved, rows = _moved(structure, generator)
        given, expected = (
            _take(value, name, structure, rows, texts)
            for value, name in zip((x, before), names, strict=True)
        )

        def difference(
            changed: Structure,
            signs: Signs | None = None,
            given: Any = given,
            expected: Any = expected,
        ) -> str | None:
            signed, wanted = (
                _signed(v, name, changed, signs or {}, texts)
                for v, name in zip((given, expected), names, strict=True)
            )
            return _difference(wanted, module(signed, changed), rtol, atol, names[1])

        written = rewritten(moved, generator)
        broken = difference(*reoriented(written, generator))
        if broken is None:
            continue
        by_labels = difference(moved)  # without rewriting, to find the cause
        if by_labels is not None:
            raise AssertionError(
                f"not equivariant (relabelling {trial}): {by_labels} Something depends on the"
                " numbers of nodes or the order of entries: look for positions, sorting,"
                " flattening, or random numbers."
            )
        by_letters = difference(written)
        if by_letters is not None:
            raise AssertionError(
                f"not equivariant (rewriting {trial}): the same entries written in another letter"
                f" order give another result: {by_letters} Something reads the rows of an index as"
                " if they were ordered: the letters of { } and [ ] are not; treat all of them"
                " alike, or write an ordered face ( )."
            )
        raise AssertionError(
            f"not equivariant (orientation {trial}): reversing entries of oriented tensors, and the"
            f" sign of their values, gives another result: {broken} Something is not odd: look for"
            " ReLU, biases and shifts, means over entries, and sums of values with a sign; tensors"
            " with a face < > take odd functions only."
        )


Signs = Mapping[Pattern, Tensor]
"""The sign of every entry of oriented tensors."""


def _signed(
    x: Any, name: str | None, structure: Structure, signs: Signs, known: Mapping[str, Pattern]
) -> Any:
    """Return values in other orientations."""
    if isinstance(x, Mapping):
        return {key: _signed(value, key, structure, signs, known) for key, value in x.items()}
    sign = signs.get(known.get(name or "") or structure.resolve(name or ""))
    return x if sign is None else x * sign.to(x.dtype).view(-1, *[1] * (x.ndim - 1))


def _names(
    known: EquivariantMap | MultilinearMap | None, x: Any, inputs: str | None, outputs: str | None
) -> tuple[str | None, str | None]:
    if inputs is None and known is not None and len(known.inputs) == 1:
        inputs = str(known.inputs[0])
    if outputs is None:
        outputs = str(known.outputs[0]) if known is not None and len(known.outputs) == 1 else inputs
    if inputs is None and isinstance(x, Tensor):
        raise IncidenceError(
            "x is a single tensor, and the module does not say its pattern: give inputs='i', for"
            " example."
        )
    return inputs, outputs


def _moved(
    structure: Structure, generator: torch.Generator
) -> tuple[Structure, dict[Pattern, Tensor]]:
    """Relabel a structure and reorder its entries.

    Returns:
        The new structure, and for every tensor the old rows in the new order.
    """
    labels = {sort: _shuffled(structure.node_ptr(sort), generator) for sort in structure.counts}
    moved = structure.relabel(labels)
    rows: dict[Pattern, Tensor] = {}
    for pattern in structure.patterns:
        rows[pattern] = _shuffled(structure.entry_ptr(pattern), generator)
        moved = moved.select(pattern, rows[pattern])  # all entries, in another order
    for sort, new in labels.items():
        nodes = Pattern("i" if sort == "node" else f"i:{sort}")
        # Features of lone nodes follow the relabelling.
        if nodes not in rows:
            rows[nodes] = new.argsort()
    return moved, rows


def _shuffled(ptr: Tensor, generator: torch.Generator) -> Tensor:
    """Return a permutation that keeps everything in its structure."""
    parts = [a + torch.randperm(b - a, generator=generator) for a, b in pairwise(ptr.tolist())]
    return torch.cat(parts).to(ptr.device) if parts else torch.zeros(0, dtype=torch.long)


def _take(
    x: Any,
    name: str | None,
    structure: Structure,
    rows: dict[Pattern, Tensor],
    known: Mapping[str, Pattern],
) -> Any:
    """Return values in the new order."""
    if isinstance(x, Mapping):
        return {key: _take(value, key, structure, rows, known) for key, value in x.items()}
    if not isinstance(x, Tensor):
        raise IncidenceError(
            f"a module returns a tensor or a dict of tensors; got {type(x).__name__}."
        )
    pattern = known.get(name or "") or structure.resolve(name or "")
    order = rows.get(pattern, rows.get(pattern.unnamed()))
    expected = structure.num_structures if order is None else len(order)
    if len(x) != expected:
        fitting = [f"outputs={str(p)!r}" for p, some in rows.items() if len(some) == len(x)]
        hint = "for one row per structure it is outputs=''"
        if fitting:
            hint = f"{' or '.join(fitting)} has {len(x)} rows here, and {hint}"
        raise IncidenceError(
            f"a tensor of `{pattern}` has {expected} rows here; got {len(x)}. Give the pattern of"
            f" the output: {hint}."
        )
    return x if order is None else x[order]


def _assert_repeatable(one: Any, other: Any) -> None:
    """Raise if a module is random, because relabelling would be blamed for the difference."""
    pairs = [(one, other)]
    if isinstance(one, Mapping):
        pairs = [(one[key], other[key]) for key in one]
    for a, b in pairs:
        if isinstance(a, Tensor) and not torch.allclose(
            a.double(), b.double(), rtol=1e-3, atol=1e-6, equal_nan=True
        ):
            raise AssertionError(
                "the module returns something else each time, even without relabelling: call"
                " .eval(), or fix its random numbers"
            )


def _difference(
    expected: Any, found: Any, rtol: float, atol: float, name: str | None
) -> str | None:
    """Describe the first difference in a sentence; None if there is none."""
    if isinstance(expected, Mapping):
        sentences = (_difference(expected[key], found[key], rtol, atol, key) for key in expected)
        return next(filter(None, sentences), None)
    what = f"the output `{name}`" if name else "the output"
    if expected.shape != found.shape:
        return f"{what} changes its shape: from {list(expected.shape)} to {list(found.shape)}."
    expected, found = expected.double(), found.double()
    is_bad = ~torch.isclose(found, expected, rtol=rtol, atol=atol, equal_nan=True)
    if not is_bad.any():
        return None
    # The worst place among those beyond the tolerance.
    gap = (expected - found).abs().masked_fill(~is_bad, 0)
    count = int(is_bad.flatten(1).any(1).sum()) if expected.ndim > 1 else int(is_bad.sum())
    worst = int(gap.nan_to_num(nan=float("inf")).flatten().argmax())
    place = tuple(int(i) for i in torch.unravel_index(torch.tensor(worst), expected.shape))
    return (
        f"{what} differs on {count} of {len(expected)} entries, most at {place}: "
        f"{expected[place]:.6g} was expected and {found[place]:.6g} came."
    )
