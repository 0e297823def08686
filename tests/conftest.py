"""Where the tests find their numbers."""

import json
from pathlib import Path
from typing import Any

VECTORS = Path(__file__).parent / "vectors"


def load_cases(name: str) -> list[dict[str, Any]]:
    """The cases of one file of exact numbers."""
    return json.loads((VECTORS / name).read_text(encoding="utf-8"))["cases"]
