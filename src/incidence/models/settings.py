"""`NetSettings`: everything that shapes an `IncidenceNet` except its map and its channels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from typing import Any

import torch
from torch import Tensor, nn

from incidence.algebra.maps import Operation
from incidence.algebra.pattern import Pattern
from incidence.algebra.selection import Choice
from incidence.errors import IncidenceError
from incidence.nn import BatchNorm, Gate, LayerNorm

__all__ = ["ACTIVATIONS", "NORMS", "Aggr", "NetSettings"]

Aggr = str | Sequence[str]
"""One aggregation, or several."""

ACTIVATIONS: dict[str, Callable[[int], Callable[[Tensor], Tensor]]] = {
    "elu": lambda channels: nn.functional.elu,
    "gate": Gate,
    "gelu": lambda channels: nn.functional.gelu,
    "none": lambda channels: nn.Identity(),
    "relu": lambda channels: torch.relu,
    "silu": lambda channels: nn.functional.silu,
    "sin": lambda channels: torch.sin,
    "softshrink": lambda channels: nn.functional.softshrink,
    "tanh": lambda channels: torch.tanh,
}
"""Makes the activation of a tensor with so many channels. Oriented tensors take `tanh`,
`softshrink`, `sin` or `gate`.
"""

NORMS: dict[str, Callable[[str, int], list[nn.Module]]] = {
    "batch": lambda text, channels: [BatchNorm(text, channels)],
    "layer": lambda text, channels: [LayerNorm(text, channels)],
    "none": lambda text, channels: [],
}
"""Makes the norm of the tensors of a side, as a list with one module or none."""

_CHOICES = {
    "norm": tuple(NORMS),
    "first_norm": ("same", *NORMS),
    "dropout_at": ("branch", "stream"),
    "ends": ("layer", "entry", "query"),
    "scale": ("columns", "rows"),
    "jumping": ("last", "mean", "max"),
}


@dataclass(frozen=True, kw_only=True, repr=False)
class NetSettings:
    r"""The settings of an `IncidenceNet`. They are checked when they are made, and cannot change.

    `IncidenceNet`, `make`, config files and the command line take the same names as keywords.

    Attributes:
        through: The hidden tensors. Default: the inputs; with `adjacent`, the inputs that do not
            join nodes. For order 3 from a matrix, use `i j -> ` with `through="i j k"`.
        hidden: Channels of every hidden tensor.
        depth: Number of blocks.
        aggr: How layers pool: `sum`, `mean`, `max`, `min`, `std`, or a list of them.
        whole: How layers pool over the whole structure. `mean` does not grow with the structure;
            None means the same as `aggr`.
        norm: `batch`, `layer` or `none`.
        first_norm: The norm after the encoder; `same` means the same as `norm`. Edges without
            features have a column of ones, of which batch norm returns only rounding errors.
        activation: A name of `ACTIVATIONS` for all tensors, or a dict by tensor. Default: `relu`,
            and `tanh` for oriented tensors, whose activations must be odd. With `none` and
            products, the network is a polynomial of the features.
        dropout: Dropout probability in blocks and heads.
        dropout_at: Where blocks drop: `branch` drops what a block adds; `stream` drops what the
            block starts from, the output of all blocks before it. Use `stream` against
            overfitting where labels are few.
        head_dropout: Dropout probability in heads. Default: `dropout`.
        head_depth: Hidden layers in the head of a whole structure. With 0, the output is linear in
            the statistics.
        readout: Statistics over all entries that the head of a whole structure starts from.
        max_overlap: With open faces: how many matched nodes may lie in one face.
        operations: Which operations layers have, as for `nn.Linear`: `local`, `boundary`, and so
            on, or a list of what `explain` prints for the map of the hidden tensors to themselves.
            Default: all.
        products: Products of hidden tensors that every block adds to its layer, written as for
            `inc.einsum`. With `i j, j k -> i k` over all pairs, a network tells more structures
            apart than linear layers can. See docs/models.md.
        attention: The tensors along which blocks attend, and over which letters:
            `near=i j over j`.
        heads: Number of attention heads; must divide `hidden`.
        ends: How the network starts, and how heads of entries work.
            `layer`: with a complete layer.
            `entry`: with a linear map of every entry, which has far fewer weights where there are
            many features. The hidden tensors must be inputs; a complete layer pools the other
            inputs into them.
            `query`: starts as `entry`. The entries of the outputs, which must be inputs as well,
            are queries: no layer reads them. Their head sees the hidden values of their nodes, the
            products of these values, and the features of the queries.
        jumping: What the heads read: `last`, the hidden tensors after the last block; or the `mean`
            or the `max` of those after every block (jumping knowledge). `max` is not for oriented
            tensors.
        hops: How often every node takes the mean of its surroundings before the heads; see
            `nn.Diffusion`.
        adjacent: Whether blocks add a linear map of the neighbours of every node; see
            `nn.Neighbours`. Information then moves between nodes without hidden edges.
        harmonic: Columns of noise that show the holes of a complex; 0 for none. Heads then read
            ranks, and features where the holes are; blocks read harmonic parts of oriented
            tensors. More holes of one dimension than columns look the same. The structure must
            have the sides of all faces. See docs/topology.md.
        in_dropout: Dropout probability of the input features.
        scale: `columns`: features come in as they are, or as `Predictor` scales their columns.
            `rows`: every row is divided by the sum of its absolute values, as is usual for word
            counts.

    Raises:
        IncidenceError: A setting has a value that it cannot have.

    Example:
        >>> NetSettings(hidden=16).replace(depth=2)
        NetSettings(hidden=16, depth=2)
    """

    through: str | None = None
    hidden: int = 48
    depth: int = 3
    aggr: Aggr = "sum"
    whole: str | None = "mean"
    norm: str = "batch"
    first_norm: str = "same"
    activation: str | Mapping[str, str] | None = None
    dropout: float = 0.1
    dropout_at: str = "branch"
    head_dropout: float | None = None
    head_depth: int = 1
    readout: Aggr = ("sum", "mean")
    max_overlap: int = 1
    operations: Choice = None
    products: str | Sequence[str] | None = None
    attention: str | Sequence[str] | None = None
    heads: int = 4
    ends: str = "layer"
    jumping: str = "last"
    hops: int = 0
    adjacent: bool = False
    harmonic: int = 0
    in_dropout: float = 0.0
    scale: str = "columns"

    def __post_init__(self) -> None:
        for name, known in _CHOICES.items():
            if getattr(self, name) not in known:
                raise IncidenceError(
                    f"{name} is one of {', '.join(known)}; got {getattr(self, name)!r}."
                )
        if min(self.depth, self.head_depth, self.hops) < 0:
            raise IncidenceError(
                "depth, head_depth and hops count layers, from 0; got"
                f" {self.depth}, {self.head_depth} and {self.hops}."
            )
        if self.harmonic < 0:
            raise IncidenceError(f"harmonic is a number of columns, from 0; got {self.harmonic}.")
        for name in ("dropout", "head_dropout", "in_dropout"):
            if not 0 <= (getattr(self, name) or 0) <= 1:
                raise IncidenceError(
                    f"{name} is a probability, from 0 to 1; got {getattr(self, name)}."
                )
        for name in self._activation_names():
            if name not in ACTIVATIONS:
                raise IncidenceError(
                    f"activation is one of {', '.join(ACTIVATIONS)}; got {name!r}."
                )
        if self.attention and self.heads > 0 and self.hidden % self.heads:
            raise IncidenceError(
                f"with attention, hidden is a multiple of heads; got {self.hidden} and"
                f" {self.heads}."
            )
        for name in ("products", "attention"):
            _assert_texts(name, getattr(self, name))

    def __repr__(self) -> str:
        values = ((f, getattr(self, f.name)) for f in fields(self))
        # Only what differs from the defaults: a line that one can read, and that makes the same
        # settings again.
        shown = [f"{f.name}={value!r}" for f, value in values if value != f.default]
        return f"NetSettings({', '.join(shown)})"

    def replace(self, **keywords: Any) -> NetSettings:
        """Return the settings with other values for some of them.

        Raises:
            IncidenceError: A value is refused.
            TypeError: There is no setting of that name.
        """
        known = [f.name for f in fields(self)]
        unknown = next((name for name in keywords if name not in known), None)
        if unknown is not None:
            close = get_close_matches(unknown, known, n=1)
            guess = f"Did you mean {close[0]!r}?" if close else f"There are {', '.join(known)}."
            # A TypeError, as for any Python function that does not know a keyword.
            raise TypeError(f"IncidenceNet has no setting {unknown!r}. {guess}")
        return replace(self, **keywords)

    def keywords(self) -> dict[str, Any]:
        """Return all settings by name, as files store them: a list of one is that one."""
        return {f.name: _without_list_of_one(getattr(self, f.name)) for f in fields(self)}

    def pooling(self, operation: Operation) -> Aggr:
        """Return how an operation pools: `whole` if it matches no node, `aggr` otherwise."""
        matches_nodes = any(map(any, operation.overlap))
        return self.aggr if matches_nodes or self.whole is None else self.whole

    @property
    def encoder_norm(self) -> str:
        """The norm after the encoder."""
        return self.norm if self.first_norm == "same" else self.first_norm

    @property
    def head_rate(self) -> float:
        """The dropout probability in heads."""
        return self.dropout if self.head_dropout is None else self.head_dropout

    @property
    def statistics(self) -> list[str]:
        """The statistics for outputs of whole structures."""
        return [self.readout] if isinstance(self.readout, str) else list(self.readout)

    @property
    def product_texts(self) -> tuple[str, ...]:
        """The products of every block."""
        return _as_texts(self.products)

    @property
    def attention_texts(self) -> tuple[str, ...]:
        """The attention of every block."""
        return _as_texts(self.attention)

    @property
    def activation_by_tensor(self) -> dict[Pattern, str]:
        """The names of activations that are chosen for single tensors."""
        by_tensor = self.activation if isinstance(self.activation, Mapping) else {}
        return {Pattern(text): name for text, name in by_tensor.items()}

    def activation_of(self, pattern: Pattern) -> str:
        """Return the name of the activation of a tensor."""
        default = "tanh" if pattern.is_oriented else "relu"
        if isinstance(self.activation, Mapping):
            return self.activation_by_tensor.get(pattern, default)
        return self.activation or default

    def _activation_names(self) -> list[str]:
        if isinstance(self.activation, Mapping):
            return list(self.activation.values())
        return [] if self.activation is None else [self.activation]


def _without_list_of_one(value: Any) -> Any:
    return value[0] if isinstance(value, (tuple, list)) and len(value) == 1 else value


def _as_texts(given: str | Sequence[str] | None) -> tuple[str, ...]:
    if given is None:
        return ()
    return (given,) if isinstance(given, str) else tuple(given)


def _assert_texts(name: str, given: Any) -> None:
    is_sequence = isinstance(given, (str, Sequence)) or given is None
    if not is_sequence or not all(isinstance(text, str) for text in _as_texts(given)):
        raise IncidenceError(f"{name}= is a text, or a list of texts; got {given!r}.")
