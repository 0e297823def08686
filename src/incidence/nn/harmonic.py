r"""`Harmonic`: the part of an oriented tensor that goes around holes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from incidence.algebra.maps import EquivariantMap
from incidence.algebra.pattern import Pattern
from incidence.engine.plain import misfit, refused
from incidence.errors import IncidenceError, PatternError
from incidence.harmonic.boundaries import is_lone_face
from incidence.harmonic.projection import (
    WAYS,
    HarmonicPlan,
    harmonic_part,
    harmonic_plan_of,
    plain_harmonic_part,
)
from incidence.nn.composition import Planned, Side
from incidence.nn.tensors import (
    Values,
    as_list,
    as_side,
    assert_structure,
    key_of,
    per_tensor,
    takes_examples,
)
from incidence.structure import Structure
from incidence.structure.pytree import Recorded, recorded, traced

__all__ = ["Harmonic"]


class Harmonic(Planned):
    r"""The harmonic part of oriented tensors: what is neither a boundary nor a coboundary.

    With B the boundary of the faces of a tensor and C the boundary of the faces one node larger,

    $$P x = x - B^\top (B B^\top)^+ B x - C (C^\top C)^+ C^\top x.$$

    It is the orthogonal projection on $\ker B \cap \ker C^\top$, whose dimension is the Betti
    number: flows on edges that go around holes, without sources and without curl. It has no weights
    to learn. It is linear and equivariant, and its gradient is the same projection.

    The sides of every face must be present. The faces one node larger are those that are present,
    oriented or not; a structure without them is a complex of that dimension.

    Args:
        text: The tensors, such as `<i j>` or `<i j>, <i j k>`. Of nodes, `i`, it takes the mean
            over every connected part. Other tensors pass through.
        way: `auto` gives structures of few rows, or with few harmonic tensors, a basis that is
            cached on the structure, and solves by conjugate gradients elsewhere. `dense` always
            makes a basis of eigenvectors, and `gradients` always solves.
        residual: What conjugate gradients may leave of the boundary and the coboundary, relative
            to the size of x. Default: 1e-12 in double precision, 1e-8 in single.

    Shape:
        x: (entries, channels) in the order of the structure, or a dict of such; likewise the
            output.

    Raises:
        IncidenceError: A tensor is no set of nodes of one sort with an orientation.

    Example:
        >>> s = Structure(4, {"<i j>": [[0, 1, 2, 0], [1, 2, 3, 3]]})  # a square
        >>> flow = torch.tensor([[1.0], [0.0], [0.0], [0.0]])
        >>> Harmonic("<i j>")(flow, s).flatten()  # a quarter of it goes around
        tensor([ 0.2500,  0.2500,  0.2500, -0.2500])
    """

    def __init__(self, text: str, way: str = "auto", residual: float | None = None) -> None:
        super().__init__()
        self.patterns = as_side(text)
        for pattern in self.patterns:
            _assert_harmonic(pattern)
        if way not in WAYS:
            raise IncidenceError(f"way is one of {', '.join(WAYS)}; got {way!r}.")
        if residual is not None and not 0 < residual < 1:
            raise IncidenceError(f"residual is a number between 0 and 1; got {residual!r}.")
        self.map = EquivariantMap.between(self.patterns, self.patterns)
        self.text, self.way, self.residual = text, way, residual
        self._keys = [key_of(p) for p in self.patterns]

    @takes_examples
    def forward(
        self, x: Values | Mapping[str, Tensor], structure: Structure, weights: Any = None
    ) -> Any:
        r"""Return the harmonic parts.

        Args:
            x: The values.
            structure: The structure.
            weights: Positive weights w of an inner product $\sum_e w_e x_e y_e$, shape [entries];
                for several tensors a dict. Adjoints are then those of this inner product:
                $w^{-1} B^\top$ for $B^\top$, and $C^\top w$ for $C^\top$.

        Raises:
            IncidenceError: The values or the weights do not fit the structure, or it lacks sides.
        """
        if torch.compiler.is_compiling():
            return self._traced(x, structure, weights)
        if isinstance(x, Mapping):
            own = {key: x[key] for key in x if self._reads(key)}
            values = as_list(self.patterns, own, structure, [None] * len(self.patterns))
        else:
            values = as_list(self.patterns, x, structure, [None] * len(self.patterns))
        by_pattern = {}
        for pattern, value in zip(self.patterns, values, strict=True):
            own_weights = _checked_weights(weights, pattern, self.patterns, value)
            by_pattern[pattern] = harmonic_part(
                value, structure, pattern, own_weights, self.way, self.residual
            )
        if not isinstance(x, Mapping):
            return by_pattern[self.patterns[0]]
        # others pass through
        return {key: by_pattern[Pattern(key)] if key in own else x[key] for key in x}

    def _reads(self, key: str) -> bool:
        """Return whether a key of the input means one of the tensors."""
        if key in self._keys:
            return True
        with suppress(PatternError):
            return Pattern(key) in self.patterns
        return False

    def _traced(self, x: Any, structure: Structure, weights: Any) -> Any:
        """Apply the projection while a graph is recorded, by the bases that `plan` has left."""
        if weights is not None:
            return refused(_UNWEIGHTED, x if isinstance(x, Tensor) else x[self._keys[0]], 2, 1)
        if isinstance(x, Tensor):
            return self._traced_part(x, structure, self._keys[0])
        parts = {key: self._traced_part(x[key], structure, key) for key in self._keys}
        return {**x, **parts}

    def _traced_part(self, x: Tensor, structure: Structure, key: str) -> Tensor:
        lists = traced(structure, f"harmonic {key}")
        why = None if lists is None else misfit([x], lists.counts)
        if lists is None or why is not None:
            return refused(why, x, *x.shape)
        return plain_harmonic_part(x, *lists.tensors)

    def plan(self, structure: Structure) -> HarmonicPlan:
        """Make the bases for a structure, and return those of the first tensor. Tracing needs them.

        Raises:
            IncidenceError: The structure lacks sides of faces.
        """
        assert_structure(structure)
        plans = [harmonic_plan_of(structure, p, self.way) for p in self.patterns]
        for key, plan in zip(self._keys, plans, strict=True):
            if plan.solver is None:
                # tells the number of rows
                counts = torch.zeros(int(plan.heights.sum()), 0, device=plan.device)
                lists = [*plan.pairs, plan.values]
                recorded(structure)[f"harmonic {key}"] = Recorded(lists, counts=(counts,))
        return plans[0]

    def follow(self, side: Side | None) -> Side | None:
        """Return the same tensors."""
        return side

    def extra_repr(self) -> str:
        """Return the tensors, and how their parts are computed."""
        way = "" if self.way == "auto" else f", way={self.way!r}"
        residual = "" if self.residual is None else f", residual={self.residual}"
        return f"{self.text!r}{way}{residual}"


_UNWEIGHTED = (
    "a harmonic part with weights is solved in every call, which no graph records: leave weights"
    " out, or call it outside of torch.compile."
)


def _assert_harmonic(pattern: Pattern) -> None:
    is_set = is_lone_face(pattern)
    if is_set and (pattern.is_oriented or len(pattern.letters) == 1):
        return
    hint = "write one face of one sort, such as `<i j>`"
    if is_set:
        hint = f"write `{str(pattern).replace('{', '<').replace('}', '>')}`"
    raise IncidenceError(
        f"harmonic parts are of oriented faces, whose values change sign with the orientation;"
        f" got `{pattern}`: {hint}."
    )


def _checked_weights(
    weights: Any, pattern: Pattern, patterns: Sequence[Pattern], x: Tensor
) -> Tensor | None:
    """Return the weights of one tensor, (entries, 1); None for 1."""
    if weights is None:
        return None
    if isinstance(weights, Mapping):
        weights = per_tensor(patterns, weights, "weights")[list(patterns).index(pattern)]
    elif len(patterns) > 1:
        keys = ", ".join(repr(key_of(p)) for p in patterns)
        raise IncidenceError(f"weights of several tensors are a dict with the keys {keys}.")
    if not isinstance(weights, Tensor) or weights.numel() != len(x):
        got = list(weights.shape) if isinstance(weights, Tensor) else type(weights).__name__
        raise IncidenceError(
            f"weights of `{pattern}` are one number for each of {len(x)} entries; got {got}."
        )
    if weights.requires_grad:
        raise IncidenceError(
            f"the weights of `{pattern}` are constants: the harmonic part has no gradient for them."
            " Pass weights.detach()."
        )
    flat = weights.reshape(-1, 1).to(x.device)  # (entries, 1)
    if not bool((flat > 0).all() & flat.isfinite().all()):
        raise IncidenceError(f"the weights of `{pattern}` must be positive and finite.")
    return flat
