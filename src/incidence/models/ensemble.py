"""`Ensemble`: several trained predictors as one, which knows how far they disagree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from incidence.errors import IncidenceError
from incidence.models.net import IncidenceNet
from incidence.models.predictor import Predictor
from incidence.structure import Example, Structure

__all__ = ["Ensemble", "MeanAndDeviation"]


class MeanAndDeviation(NamedTuple):
    """What the members of an ensemble predict.

    Attributes:
        mean: The mean of numbers or of probabilities, (rows, columns).
        deviation: The standard deviation as a sample, (rows, columns).
    """

    mean: Tensor
    deviation: Tensor


class Ensemble(Predictor):
    """Several predictors of one kind; it predicts the mean of what they predict.

    Args:
        members: The predictors.

    Raises:
        IncidenceError: There are fewer than two.
    """

    def __init__(self, members: Sequence[Predictor]) -> None:
        nn.Module.__init__(self)  # its networks and scales are those of the members
        if len(members) < 2:
            raise IncidenceError(f"an ensemble has at least two members; got {len(members)}.")
        self.members = nn.ModuleList(members)
        self.kind = members[0].kind
        self.offset = members[0].offset
        self.clamp = members[0].clamp

    @property
    def net(self) -> IncidenceNet:  # type: ignore[override]
        """The network of the first member."""
        # Whoever asks for the network wants its map and channels, which are the same for all
        # members.
        first: Any = self.members[0]
        net: IncidenceNet = first.net
        return net

    def forward(
        self, features: Mapping[str, Tensor] | Example, structure: Structure | None = None
    ) -> Tensor:
        """Return the mean of the members, as `predict`."""
        return self.predict(features, structure)

    @torch.no_grad()
    def predict(
        self, features: Mapping[str, Tensor] | Example, structure: Structure | None = None
    ) -> Tensor:
        """Return the mean of numbers in their units, or of probabilities; (rows, columns)."""
        return self.predict_with_deviation(features, structure).mean

    @torch.no_grad()
    def predict_with_deviation(
        self, features: Mapping[str, Tensor] | Example, structure: Structure | None = None
    ) -> MeanAndDeviation:
        """Return the mean and the deviation of what the members predict."""
        members: Any = self.members
        # (members, rows, columns)
        every = torch.stack([one.predict(features, structure) for one in members])
        return MeanAndDeviation(every.mean(0), every.std(0))
