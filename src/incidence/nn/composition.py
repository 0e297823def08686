"""What modules make of tensors one after the other: which are called with a structure, and which
tensors come out of each.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from typing import Any, NamedTuple

from torch import nn

from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.nn.odd import assert_odd
from incidence.notebook import html_of
from incidence.structure import Structure
from incidence.structure.arguments import assert_structure
from incidence.structure.pytree import constant_while_tracing, may_split

__all__ = [
    "Planned",
    "Side",
    "Transferable",
    "act_on_all",
    "follow",
    "follow_all",
    "needs_plan",
    "new_plan_number",
    "plan_modules",
    "takes_structure",
    "unknown",
]


class Planned(nn.Module):
    """A module with index lists of its own; networks ask all of theirs for a plan at once."""

    _repr_html_ = html_of

    def plan(self, structure: Structure) -> object:
        """Make the lists for a structure: needed before tracing."""
        raise NotImplementedError


def plan_modules(module: nn.Module, structure: Structure) -> None:
    """Make all index lists that the modules inside of a module need of a structure.

    Tracing needs them. The structure notes which containers of modules have all of theirs.
    """
    assert_structure(structure, call="plan(structure)")
    for inner in module.modules():
        if isinstance(inner, Planned):
            inner.plan(structure)
        number: Any = getattr(inner, "plan_number", None)
        if number is not None:
            structure._planned[number] = True


_NUMBERS = count()


def new_plan_number() -> str:
    """Return a number for a container of modules, by which structures know that it has a plan."""
    return str(next(_NUMBERS))


def needs_plan(module: Any, structure: Structure) -> bool:
    """Return whether a container must make its lists, before `torch.compile` goes on.

    The graph is then split before the container, which is one graph.
    """
    return module.plan_number not in structure._planned and may_split()


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


def takes_structure(module: nn.Module) -> bool:
    """Return whether a module is called with a structure: whether its `forward` needs a second
    argument, or calls one `structure`.
    """
    inner = _inner(module)
    if "forward" in inner.__dict__:  # someone has put another in its place
        return _num_needed(inner.forward) >= 2
    return _is_called_with_structure(type(inner))


@constant_while_tracing  # or graphs would depend on all that `_NEEDED` has
def _is_called_with_structure(kind: Any) -> bool:
    return _num_needed(kind.forward) >= 3  # with `self`


_NEEDED: dict[Callable[..., Any], int] = {}


def _num_needed(function: Callable[..., Any]) -> int:
    """Return how many arguments a function needs by position.

    The answer is cached: looking at a signature takes longer than many a module.
    """
    if function not in _NEEDED:
        parameters = inspect.signature(function).parameters.values()
        by_position = [
            p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
        _NEEDED[function] = sum(p.default is p.empty or p.name == "structure" for p in by_position)
    return _NEEDED[function]


class Side(NamedTuple):
    """The tensors between two modules.

    Attributes:
        patterns: Their patterns.
        channels: The channels of each; None where they are not known.
    """

    patterns: tuple[Pattern, ...]
    channels: tuple[int | None, ...]


def unknown(patterns: Sequence[Pattern]) -> Side:
    """Return tensors whose channels are not known."""
    return Side(tuple(patterns), (None,) * len(patterns))


def follow_all(modules: Iterable[nn.Module], side: Side | None) -> Side | None:
    """Return the tensors that modules make of those of a side, one after the other.

    Without a side, the modules start from the tensors that they read.

    Raises:
        IncidenceError: A module would lose the sign of an oriented tensor.
    """
    modules = list(modules)
    side = _read_side(modules) if side is None else side
    for module in modules:
        side = follow(module, side)
    return side


def follow(module: nn.Module, side: Side | None) -> Side | None:
    """Return the tensors that a module makes of those of a side; None where they are not known.

    A module of ours says it itself; one with a map gives its outputs; any other that is called
    without a structure acts on every tensor.

    Raises:
        IncidenceError: It would lose the sign of an oriented tensor.
    """
    inner = _inner(module)
    _assert_same_orientation(inner, side)
    own: Any = getattr(inner, "follow", None)
    if own is not None:
        after: Side | None = own(side)
        return after
    outputs = getattr(getattr(inner, "map", None), "outputs", None)
    if outputs is not None:
        return Side(tuple(outputs), _channels(outputs, getattr(inner, "out_channels", None)))
    return None if side is None or takes_structure(inner) else act_on_all(inner, side)


def _assert_same_orientation(module: nn.Module, side: Side | None) -> None:
    """Refuse a tensor whose reader gives it another orientation.

    A lone tensor is passed on without its pattern. Its values would lose their signs, or have the
    opposite ones.
    """
    reads = _reads(module)
    if side is None or reads is None or not len(side.patterns) == len(reads) == 1:
        return
    given, read = side.patterns[0].unnamed(), reads[0].unnamed()
    if given != read and (given.is_oriented or read.is_oriented):
        raise IncidenceError(
            f"{type(module).__name__} reads `{read}`, and what comes in is `{given}`: values of"
            f" oriented faces have signs, which others have not. Put `inc.nn.Linear('{given} ->"
            f" {read}', ...)` between them, or use one pattern."
        )


def act_on_all(function: Callable[[Any], Any], side: Side) -> Side:
    """Return the same tensors, after a function that acts on each.

    Raises:
        IncidenceError: It is not odd, and one of them is oriented.
    """
    for pattern, channels in zip(*side, strict=True):
        assert_odd(function, pattern, channels)
    return unknown(side.patterns)


def _inner(module: nn.Module) -> nn.Module:
    """Return a module behind `torch.compile`, or itself."""
    return getattr(module, "_orig_mod", module)


def _read_side(modules: Iterable[nn.Module]) -> Side | None:
    """Return the tensors that modules read, if they are known.

    The first module that names its tensors decides, if all before it leave them what they are.
    """
    for module in _leaves(modules):
        patterns = _reads(module)
        if patterns is not None:
            return unknown(patterns)
        if takes_structure(module) and not hasattr(module, "follow"):
            return None
    return None


def _reads(module: nn.Module) -> Sequence[Pattern] | None:
    """Return the tensors that a module reads; None if it does not tell."""
    patterns: Sequence[Pattern] | None = getattr(
        getattr(module, "map", None), "inputs", getattr(module, "patterns", None)
    )
    return patterns


def _leaves(modules: Iterable[nn.Module]) -> Iterator[nn.Module]:
    """Return the modules, with those that call others one after the other taken apart."""
    for module in map(_inner, modules):
        parts = getattr(module, "parts", None)
        yield from [module] if parts is None else _leaves(parts)


def _channels(patterns: Sequence[Pattern], channels: Any) -> tuple[int | None, ...]:
    return (
        tuple(channels)
        if isinstance(channels, (list, tuple)) and len(channels) == len(patterns)
        else (None,) * len(patterns)
    )
