"""Tensor to tensor: the only place that picks a torch primitive. No kernel ever sees a pattern."""
