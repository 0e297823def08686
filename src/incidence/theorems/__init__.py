"""The theorems of the paper as functions, which verify them on a given graph by spans and ranks."""

from incidence.theorems.operators import multiplication_rule, nine_operators
from incidence.theorems.relaxed import Comparison, theorem_a1
from incidence.theorems.spans import carry_rank, recovered

__all__ = [
    "Comparison",
    "carry_rank",
    "multiplication_rule",
    "nine_operators",
    "recovered",
    "theorem_a1",
]
