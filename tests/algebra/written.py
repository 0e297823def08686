"""Turns a case of the vectors, where sorts stand apart, into the text of a map."""

import re
from typing import Any


def with_sorts(pattern: str, sorts: dict[str, str]) -> str:
    return re.sub(r"[a-z]", lambda m: f"{m[0]}:{sorts[m[0]]}", pattern) if sorts else pattern


def map_text(case: dict[str, Any]) -> str:
    sides = ([with_sorts(p, case["sorts"]) for p in case[side]] for side in ("input", "output"))
    return " -> ".join(", ".join(side) for side in sides)
