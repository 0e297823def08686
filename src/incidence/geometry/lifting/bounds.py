"""How much a lifting may find: limits, and the sentence when one is passed."""

from __future__ import annotations

from operator import index

from incidence.errors import IncidenceError, TooLargeError

__all__ = ["LIMIT", "WORK", "Bound", "at_least"]

LIMIT = 10_000_000
"""Entries a lifting finds by default before it stops: about what fits in memory beside the data."""

WORK = 100
"""Candidates a lifting looks at for each entry that its limit allows: some seconds for every million."""


class Bound:
    """The limit of one lifting: `assert_room` where entries are found, `assert_time` before candidates are looked at."""

    def __init__(self, lifting: str, limit: int | None, remedy: str) -> None:
        self.lifting, self.limit, self.remedy = lifting, None if limit is None else at_least(lifting, "limit", limit, 0), remedy

    def assert_room(self, count: int, what: str) -> None:
        """Refuses more entries than the limit."""
        if self.limit is not None and count > self.limit:
            raise TooLargeError(
                f"{self.lifting}: there are at least {count:,} {what}, and limit={self.limit:,}. {self.remedy}, or raise limit=."
            )

    def assert_time(self, count: int, what: str) -> None:
        """Refuses to look at many more candidates than the limit."""
        if self.limit is not None and count > WORK * max(self.limit, 1):
            raise TooLargeError(
                f"{self.lifting}: {count:,} {what} would have to be looked at, more than {WORK} for each of limit={self.limit:,} entries. "
                f"{self.remedy}, or raise limit=."
            )


def at_least(lifting: str, name: str, value: object, least: int) -> int:
    """An integer argument that is not too small."""
    try:
        number = index(value)  # type: ignore[arg-type]
    except TypeError:
        number = least - 1
    if isinstance(value, bool) or number < least:
        raise IncidenceError(f"{lifting}: {name} is an integer of at least {least}; got {value!r}.")
    return number
