"""`Predictor`: a network with the scales of its data, so that it takes raw features and gives
values in their units.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from incidence.errors import IncidenceError
from incidence.models.net import IncidenceNet
from incidence.nn.tensors import key_of, taken_apart
from incidence.notebook import html_of
from incidence.structure import Example, Structure

__all__ = ["Predictor"]

_PROBABILITIES: dict[str, Callable[[Tensor], Tensor]] = {
    "classification": lambda y: y.softmax(-1),
    "multilabel": torch.sigmoid,
}
"""From scores to probabilities, by kind."""


_TOGETHER = 1 << 20  # rows of features that are joined at once


class _Moments(NamedTuple):
    """What is known of the columns of some rows, in double precision, (columns,) each.

    Attributes:
        numbers: How many numbers there are, without those that are missing.
        mean: Their mean; 0 for values with a sign, which are not shifted.
        squares: The sum of the squares of their distances to the mean.
    """

    numbers: Tensor
    mean: Tensor
    squares: Tensor

    @staticmethod
    def of(rows: Tensor, is_signed: bool) -> _Moments:
        """Return the moments of rows."""
        # Sums of millions of squares in single precision lose the deviation of narrow columns.
        rows = rows.double()
        mean = rows.nanmean(0).nan_to_num()
        if is_signed:
            mean = torch.zeros_like(mean)
        return _Moments((~rows.isnan()).sum(0), mean, (rows - mean).square().nansum(0))

    def with_more(self, other: _Moments) -> _Moments:
        """Return the moments of both sets of rows, by the formula of Chan, Golub and LeVeque."""
        numbers, far = self.numbers + other.numbers, other.mean - self.mean  # (columns,) each
        share = other.numbers / numbers.clamp(min=1)
        squares = self.squares + other.squares + far.square() * self.numbers * share
        return _Moments(numbers, self.mean + far * share, squares)


def _together(tensors: Iterable[Sequence[Tensor]]) -> Iterator[list[Sequence[Tensor]]]:
    """Yield the tensors of many examples at a time, as those of all may not fit into memory."""
    some: list[Sequence[Tensor]] = []
    size = 0
    for one in tensors:
        some.append(one)
        size += sum(map(len, one))
        # At least one example at a time, however large it is.
        if size > _TOGETHER:
            yield some
            some, size = [], 0
    if some:
        yield some


class Predictor(nn.Module):
    """A network between standardised features and standardised targets.

    Every column of the features is shifted and scaled to mean 0 and deviation 1 over the training
    data, then clamped, unless the network scales rows itself. A column that is constant there
    becomes 1, -1 or 0. Targets that are numbers are shifted and scaled, too. Values of oriented
    faces, which have a sign, are divided by their root mean square instead. The scales are saved
    with the weights.

    Args:
        net: The network.
        kind: The kind of its outputs: numbers with scales (`regression`), scores of classes
            (`classification`), or of labels (`multilabel`).
        clamp: The largest size of a scaled feature, in deviations.
        offset: The tensor whose first feature is a first guess in the units of the target. The
            network adds to the guess, and predictions stay within the range of the training
            targets. Empty for none.
    """

    def __init__(
        self, net: IncidenceNet, kind: str = "regression", clamp: float = 6.0, offset: str = ""
    ) -> None:
        super().__init__()
        if kind not in ("regression", *_PROBABILITIES):
            raise IncidenceError(
                f"a predictor is for regression, {' or '.join(_PROBABILITIES)}; got {kind!r}."
            )
        self.net = net
        self.kind = kind
        self.clamp = clamp
        self.offset = offset
        for number, width in enumerate(net.in_channels):
            self.register_buffer(f"shift_{number}", torch.zeros(width))
            self.register_buffer(f"scale_{number}", torch.ones(width))
        self.register_buffer("target_shift", torch.zeros(net.out_channels[0]))
        self.register_buffer("target_scale", torch.ones(net.out_channels[0]))
        if offset:
            self.register_buffer(
                # no bound before `fit_scales`
                "target_range",
                torch.tensor([-torch.finfo().max, torch.finfo().max]),
            )

    target_shift: Tensor
    target_scale: Tensor
    target_range: Tensor

    @torch.no_grad()
    def fit_scales(
        self, features: Iterable[Mapping[str, Tensor]], targets: Iterable[Tensor] = ()
    ) -> Predictor:
        """Take the scales from the training data. Rows of a target with missing numbers do not
        count.
        """
        if self.net.settings.scale == "columns":
            for number, moments in self._moments(features).items():
                self._set(f"{{}}_{number}", moments, keeps_constants=True)
        numbers = list(targets) if self.kind == "regression" else []
        if numbers:
            target = torch.cat([t.reshape(-1, len(self.target_shift)) for t in numbers])
            is_signed = self.net.map.outputs[0].is_oriented
            self._set("target_{}", _Moments.of(target, is_signed), keeps_constants=False)
            if self.offset:
                known = target[~target.isnan()]  # (numbers,)
                self.target_range.copy_(torch.stack([known.min(), known.max()]))
        return self

    def _moments(self, features: Iterable[Mapping[str, Tensor]]) -> dict[int, _Moments]:
        """Return the moments of every tensor that the network reads."""
        moments: dict[int, _Moments] = {}
        for some in _together(map(self.net.select, features)):
            for number, rows in enumerate(zip(*some, strict=True)):
                more = _Moments.of(torch.cat(rows), self.net.map.inputs[number].is_oriented)
                moments[number] = moments[number].with_more(more) if number in moments else more
        return moments

    def _set(self, name: str, moments: _Moments, keeps_constants: bool) -> None:
        mean = moments.mean
        deviation = (moments.squares / moments.numbers).sqrt()
        # Rounding makes a constant column vary a little: dividing by that would make noise of it.
        varies = deviation > 1e-6 * mean.abs().clamp(min=1e-6)
        # Ones are what a network counts with: a constant feature must not become 0.
        size = torch.where(mean != 0, mean.abs(), 1.0) if keeps_constants else torch.ones_like(mean)
        self.get_buffer(name.format("shift")).copy_(mean * (varies | (not keeps_constants)))
        self.get_buffer(name.format("scale")).copy_(torch.where(varies, deviation, size))

    def standardise(self, features: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the features that the network reads, on its scale."""
        xs = self.net.select(features)
        scaled = {}
        for number, (pattern, x) in enumerate(zip(self.net.map.inputs, xs, strict=True)):
            shift = getattr(self, f"shift_{number}")
            scale = getattr(self, f"scale_{number}")
            if x.shape[1:] != shift.shape:
                raise IncidenceError(
                    f"the features of `{pattern}` must have {len(shift)} channels, as the model was"
                    f" trained with; got {x.shape[-1]}."
                )
            scaled[key_of(pattern)] = ((x - shift) / scale).clamp(-self.clamp, self.clamp)
        return scaled

    _repr_html_ = html_of

    def forward(
        self, features: Mapping[str, Tensor] | Example, structure: Structure | None = None
    ) -> Tensor:
        """Return what the network gives for features and their structure, or an example: numbers on
        its scale, or scores.

        Shape: (rows, out_channels).
        """
        x, structure = taken_apart(features, structure)
        y: Tensor = self.net(self.standardise(x), structure)
        return y + self.scaled(x[self.offset][:, :1]) if self.offset else y  # (rows, out_channels)

    def scaled(self, target: Tensor) -> Tensor:
        """Return targets on the scale of the network."""
        return (target - self.target_shift) / self.target_scale

    @torch.no_grad()
    def predict(
        self, features: Mapping[str, Tensor] | Example, structure: Structure | None = None
    ) -> Tensor:
        """Return numbers in their units, or probabilities of classes or labels; shape (rows,
        out_channels).
        """
        return self.in_units(self.forward(features, structure))

    def in_units(self, y: Tensor) -> Tensor:
        """Return outputs of the network as numbers in their units, or as probabilities of classes
        or labels.
        """
        if self.kind in _PROBABILITIES:
            return _PROBABILITIES[self.kind](y)
        y = y * self.target_scale + self.target_shift
        return y.clamp(*self.target_range.unbind()) if self.offset else y

    def calibrate(
        self, features: Mapping[str, Tensor] | Example, structure: Structure | None = None
    ) -> Predictor:
        """Scale the weights of the network to a first batch."""
        x, structure = taken_apart(features, structure)
        self.net.calibrate(self.standardise(x), structure)
        return self

    def state(self) -> dict[str, Any]:
        """Return all tensors, for a file."""
        return {key: value.detach().cpu().contiguous() for key, value in self.state_dict().items()}
