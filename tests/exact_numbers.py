"""The cases of exact numbers in `tests/vectors`, and how their maps are written."""

import json
import re
from pathlib import Path
from typing import Any

VECTORS = Path(__file__).parent / "vectors"


def load_vectors(name: str) -> dict[str, Any]:
    """One file of exact numbers."""
    return json.loads((VECTORS / name).read_text(encoding="utf-8"))


def load_cases(name: str) -> list[dict[str, Any]]:
    """The cases of one file of exact numbers."""
    return load_vectors(name)["cases"]


def with_sorts(pattern: str, sorts: dict[str, str]) -> str:
    """A pattern with the sorts of its letters, which stand apart in the files."""
    return re.sub(r"[a-z]", lambda m: f"{m[0]}:{sorts[m[0]]}", pattern) if sorts else pattern


def map_text(case: dict[str, Any]) -> str:
    """The text of the map of a case."""
    sides = ([with_sorts(p, case["sorts"]) for p in case[side]] for side in ("input", "output"))
    return " -> ".join(", ".join(side) for side in sides)
