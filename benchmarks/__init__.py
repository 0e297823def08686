"""Benchmarks beside those of `incidence bench`: `./run python -m benchmarks [NAME ...]`."""
