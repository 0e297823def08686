r"""What may be done to the values of oriented faces: functions that are odd (docs/math.md section
16).

A value of `<i j>` changes sign when the reference orientation of its entry is reversed, of every
entry on its own. So a function of values must do the same to each: $f(-x) = -f(x)$. Whether one
does is tried when a network is made, so that an error comes before the first batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy

import torch
from torch import Tensor, nn

from incidence.algebra.pattern import Pattern
from incidence.errors import IncidenceError
from incidence.nn.tensors import as_channels

__all__ = ["Gate", "assert_odd", "is_odd"]


def is_odd(function: Callable[[Tensor], Tensor], channels: int | None = None) -> bool:
    """Return whether a function of rows, (rows, channels), changes the sign of a row with that of
    the row, and depends on no other sign.

    Parameters are tried at other values too, as they are learned; a module both while training and
    not; and what is random with the same random numbers.

    Example:
        >>> is_odd(torch.tanh), is_odd(torch.relu)
        (True, False)
        >>> is_odd(nn.Linear(3, 5)), is_odd(nn.Linear(3, 5, bias=False))
        (False, True)
    """
    with torch.device("cpu"):  # wherever the caller makes tensors
        return all(_agrees(copy, channels) for copy in _copies(function))


_ROWS = 16


def _copies(function: Callable[[Tensor], Tensor]) -> Iterator[Callable[[Tensor], Tensor]]:
    """Return the function; of a module copies with other parameters, in double precision."""
    if not isinstance(function, nn.Module):
        yield function
        return
    for is_training in (False, True):
        copy = deepcopy(function).double().train(is_training)
        # an outline of a network: any values will do
        if any(value.is_meta for value in _values(copy)):
            copy = copy.to_empty(device="cpu")
            for value in _values(copy):
                value.data.fill_(1)
        generator = torch.Generator().manual_seed(0)
        for value in [*copy.parameters(), *copy.buffers()]:
            if value.is_floating_point():
                value.data += torch.rand(value.shape, generator=generator, dtype=value.dtype).to(
                    value.device
                )
        yield copy


@torch.no_grad()
def _agrees(function: Callable[[Tensor], Tensor], channels: int | None) -> bool:
    x = torch.randn(
        _ROWS,
        _width(function, channels),
        generator=torch.Generator().manual_seed(0),
        dtype=torch.float64,
    )
    # (rows, channels), beyond where tanh is linear
    x = x.to(next((value.device for value in _values(function)), x.device)) * 3
    signs = torch.ones_like(x[:, :1])  # (rows, 1)
    signs[::2] = -1  # not all at once: a function that mixes rows must not pass
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        one = function(x)
        torch.manual_seed(0)
        other = function(signs * x)
    return (
        isinstance(one, Tensor)
        and len(one) == _ROWS
        and torch.allclose(signs * one, other, equal_nan=True)
    )


def _values(function: object) -> list[Tensor]:
    return [*function.parameters(), *function.buffers()] if isinstance(function, nn.Module) else []


def _width(function: object, channels: int | None) -> int:
    """Return a number of channels that a function takes: the first size of its parameters that is a
    number of inputs.
    """
    if channels is not None and channels > 0:
        return channels
    inside = function.modules() if isinstance(function, nn.Module) else ()
    sizes = (
        getattr(m, name, None)
        for m in inside
        for name in ("in_features", "num_features", "normalized_shape", "num_parameters")
    )
    found = next((size for size in sizes if size), 1)
    return int(found[-1] if isinstance(found, tuple) else found)


def assert_odd(
    function: Callable[[Tensor], Tensor], pattern: Pattern, channels: int | None = None
) -> None:
    """Refuse a function that is not odd on a tensor with oriented faces."""
    if not pattern.is_oriented:
        return
    name = (
        function.__class__.__name__
        if isinstance(function, nn.Module)
        else getattr(function, "__name__", repr(function))
    )
    try:
        fits, why = is_odd(function, channels), "is not"
    except (
        Exception
    ) as error:  # whatever a caller's function raises: nobody knows then that it is odd
        fits, why = False, f"cannot be tried ({type(error).__name__}: {error})"
    if not fits:
        raise IncidenceError(
            f"values of `{pattern}` change sign with the orientation of their entry, so functions"
            f" of them must be odd, and {name} {why}. Take nn.Tanh(), nn.Softshrink(),"
            " inc.nn.Gate(channels) or a linear map without bias; or write"
            f" `{pattern.unoriented()}` for values without a sign."
        )


class Gate(nn.Module):
    r"""Multiplies every value by a number between 0 and 1 that depends on sizes, not on signs: $y =
    x \cdot \sigma(|x| W + b)$.

    So it may follow a layer onto oriented faces, where ReLU may not. The gate may depend on other
    features of the same entries instead, which have no sign, such as lengths of edges: $y = x \cdot
    \sigma(z W + b)$.

    Args:
        channels: Of the values.
        by: Channels of the other features, if it is to depend on those: then it is called as
            `gate(x, z)`.

    Shape:
        x: (entries, channels); z: (entries, by). Out: (entries, channels).

    Example:
        >>> gate = Gate(3)
        >>> x = torch.randn(5, 3)
        >>> torch.equal(gate(-x), -gate(x))
        True
    """

    def __init__(self, channels: int, by: int | None = None) -> None:
        super().__init__()
        width = as_channels(channels, "channels", 1)
        self.opening = nn.Linear(width if by is None else as_channels(by, "by", 1), width)

    def forward(self, x: Tensor, z: Tensor | None = None) -> Tensor:
        """Return the values, each as far as its gate is open."""
        return x * torch.sigmoid(self.opening(x.abs() if z is None else z))
