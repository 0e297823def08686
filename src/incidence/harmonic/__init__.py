"""Harmonic parts of oriented tensors, by sparse boundaries and least squares with them."""
