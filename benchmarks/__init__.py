"""Benchmarks that are not part of the library's own `incidence bench`."""
