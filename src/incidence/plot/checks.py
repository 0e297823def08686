"""What pictures ask of their options, said in one way. Standard library only."""

from __future__ import annotations

from incidence.errors import IncidenceError

__all__ = ["assert_at_least_one"]


def assert_at_least_one(**counts: int) -> None:
    """Checks options that say how many there are.

    Raises:
        IncidenceError: One of them is no number from 1 on.
    """
    for name, count in counts.items():
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise IncidenceError(f"`{name}` is a number from 1 on; got {count!r}.")
