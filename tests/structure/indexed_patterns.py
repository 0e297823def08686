"""The patterns of all maps of the tests, and those that have an index of their own."""

from hypothesis import settings

from incidence.algebra import EquivariantMap, Pattern
from tests.nn.sparse_maps import ALL

__all__ = ["INDEXED", "PATTERNS", "modest"]

modest = settings(deadline=None, max_examples=40, derandomize=True)
PATTERNS = sorted(
    {
        str(p.unnamed())
        for text, _ in ALL
        for p in EquivariantMap(text).inputs + EquivariantMap(text).outputs
        if p.order
    }
)
INDEXED = [
    text
    for text in PATTERNS
    if Pattern(text).order > 1 or len(Pattern(text).letters) > 1 or Pattern(text).is_open
]
